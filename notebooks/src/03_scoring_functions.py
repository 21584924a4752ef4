# %% [markdown] slideshow={"slide_type": "slide"}
# # 3 · Scoring functions
#
# **You will**
# - predict how large the dot product of two random vectors is, and say what to do about it;
# - build scaled dot-product attention and additive attention, and test both against the package;
# - say what a dot product leaves out of a distance, and choose between four scores.
#
# Core path: 70 minutes. Going further: 25. Exercises: 66.
#
# Builds on chapters 1 and 2. *Dive into Deep Learning* (D2L), section 11.3.

# %% [markdown] slideshow={"slide_type": "notes"}
# The core in 40 minutes, with votes of two minutes: 5 to the end of 'Five keys', 7 for random
# vectors, 5 for the softmax and its slope, 2 for the division, 3 for 'Turn $d$ yourself', 5 for the
# layer, 5 for distance and product, 4 for the two other scores, 4 for price, table and summary.
# Four slides are not in the plan: 'The slope for every $d$', 'What the factor assumes', 'Nearest
# key, largest product' and 'What is the tanh for?'. They are last in their columns, so the arrow to
# the right passes them by. Each costs 2 minutes. If you are behind after 22 minutes, at the layer,
# leave out 'Which score, at what price?' as well: the table says the same. (A second lecturer
# estimated 50 minutes in a room of 80: there do that from the start.) The slides after the
# summary are for questions. Homework: exercises 3.1 to 3.5.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
from time import process_time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    additive_score,
    bilinear_score,
    dot_product_attention,
    dot_score,
    gaussian_score,
    scaled_dot_score,
)
from d2l_attention.views import explore, schematic
from d2l_attention.views.plots import set_style

torch.set_num_threads(1)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - A query meets every key. Each pair gets a **score** $a_j$. The softmax turns the scores into
#   **weights** $\alpha_j$ that sum to one, and the output is the weighted sum of the values. Scores
#   (0, 1, 2) give the weights (0.09, 0.24, 0.67). With the values 10, 20, 30 the output is 25.8.
# - A softmax sees only differences: (100, 101, 102) gives the same three weights.
# - In this chapter, the **slope** of a weight is one number: how fast the weight grows with its own
#   score. It is $\alpha_j\,(1 - \alpha_j)$, a quarter where the weight is ½.
# - Chapter 2's Gaussian score $-\tfrac12\lvert q - k\rvert^2$ prefers the nearest key.

# %% [markdown] slideshow={"slide_type": "notes"}
# A minute and a half. Write (0, 1, 2) and (0.09, 0.24, 0.67) on the board and leave them there.
# Ask where the slope is largest (at ½) and where it is almost 0 (close to 0, and close to 1).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Five keys and no training
#
# A random query meets five random keys, 1,000 times. The score is the **dot product** $q\cdot k$.
# All numbers have mean 0 and variance 1.


# %% slideshow={"slide_type": "-"}
def five_keys(d):
    torch.manual_seed(3)
    queries, keys = torch.randn(1000, 1, d), torch.randn(1000, 5, d)
    return (queries @ keys.mT).squeeze(1)  # (1000, 5); .mT exchanges the last two axes


# %% slideshow={"slide_type": "skip"}
def show(scores):
    weights = scores.softmax(dim=-1)
    first = (100 * weights[0]).round().int().tolist()
    share = (weights.amax(dim=-1) > 0.9).float().mean()
    print(f"first query, rounded percent: {first}   one key above 90%: {share:.0%} of the queries")


# %% slideshow={"slide_type": "-"}
show(five_keys(4))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** With 1,024 numbers in a vector, are the weights closer to equal than with 4 numbers,
# or further from it?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Collect guesses before you show the last line. A typical one: 'more numbers average
# out, so the weights become more equal'. Write it on the board and come back to it at 'What a
# softmax does with large scores'. Do not explain yet.

# %% slideshow={"slide_type": "fragment"}
show(five_keys(1024))

# %% [markdown] slideshow={"slide_type": "skip"}
# Now one key nearly always takes almost everything, although nothing has been learned. The next
# two sections explain this, and the two after them repair it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How large is a dot product?
#
# $$q\cdot k = \sum_i q_i k_i = \lvert q\rvert\,\lvert k\rvert\cos\theta$$

# %% [markdown] slideshow={"slide_type": "skip"}
# The cosine compares the directions only: it is positive where the angle $\theta$ is below 90
# degrees. For a fixed angle, the product is proportional to both norms,
# $\lvert q\rvert$ and $\lvert k\rvert$.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws four keys beside the query (2, 1), with their dot products
arrow_to = {"same way": [2.0, 1.0], "twice the norm": [4.0, 2.0]}
arrow_to |= {"right angle": [-1.0, 2.0], "opposite": [-2.0, -1.0]}
figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), sharex=True, sharey=True)
for ax, (name, key) in zip(axes, arrow_to.items(), strict=True):
    product = dot_score(torch.tensor([[2.0, 1.0]]), torch.tensor([key])).item()
    ax.annotate("", key, (0, 0), arrowprops={"width": 9, "headwidth": 24, "color": "0.75"})
    ax.annotate("", (2, 1), (0, 0), arrowprops={"width": 2, "headwidth": 11, "color": "black"})
    ax.set_title(f"{name}: {product:.0f}".replace("-", "−"), fontsize=18)
    ax.set(xlim=(-2.3, 4.3), ylim=(-1.7, 2.5), xticks=[-2, 0, 2, 4], yticks=[0, 2])
    ax.set_aspect("equal")
    ax.axhline(0, color="0.85", linewidth=1, zorder=0)
    ax.axvline(0, color="0.85", linewidth=1, zorder=0)
figure.supxlabel("first coordinate", fontsize=13)
axes[0].set_ylabel("second coordinate")
figure.suptitle("The sign tells the direction, and twice the norm doubles the product", fontsize=18)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four panels, each with the query (2, 1) as a thin black arrow and a key as a thick grey
# arrow. The key (2, 1) points the same way, product 5. The key (4, 2) has twice the norm, product
# 10. The key (−1, 2) is at a right angle, product 0. The key (−2, −1) is opposite, product −5.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes, with arms: one along the query, one along each key. The sign is what the room must
# take away. Ask what the cosine is in the second panel: 1, as in the first. For a key that is
# opposite and has twice the norm the product falls, to -10.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Random vectors
#
# The entries have mean 0 and variance 1.
#
# **Predict.** What is the standard deviation of $q\cdot k$ for $d = 1024$: about 1, about 32, or
# about 1,024?

# %% slideshow={"slide_type": "skip"}
sizes = [2**power for power in range(1, 13)]  # 2, 4, 8, ..., 4096
torch.manual_seed(0)
deviations = {}
for d in sizes:
    queries, keys = torch.randn(4000, d), torch.randn(4000, d)
    deviations[d] = (queries * keys).sum(dim=-1).std().item()  # of 4,000 products

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the measured standard deviations beside the theory
figure, ax = plt.subplots(figsize=(9.5, 4.1))
ax.loglog(sizes, [d**0.5 for d in sizes], color="0.6", label=r"$\sqrt{d}$")
ax.loglog(sizes, list(deviations.values()), "o", color="tab:blue", markersize=9, label="measured")
for d in (4, 64, 1024):
    ax.annotate(
        f"{deviations[d]:.1f}",
        (d, deviations[d]),
        (-8, 9),
        textcoords="offset points",
        ha="right",
        fontsize=17,
    )
ax.set_xticks(sizes[1::2], sizes[1::2], fontsize=15)
ax.set_yticks([2, 8, 32], [2, 8, 32], fontsize=15)
ax.minorticks_off()
ax.set_xlabel("d, numbers in a vector", fontsize=15)
ax.set_ylabel("standard deviation of q · k", fontsize=15)
ax.set_title(
    r"With 4,000 random pairs for each d, the standard deviation is about $\sqrt{d}$", fontsize=16
)
ax.legend(frameon=False, loc="lower right", fontsize=15)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the measured standard deviation of dot products against $d$ from 2 to 4,096, both axes
# logarithmic. Twelve dots lie on the grey line of the root of $d$. It is 2.0 for $d = 4$, 8.0 for
# 64 and 32.1 for 1,024.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two and a half minutes. Vote before you show the figure. Most say 1 ('the entries are about 1') or
# 1,024 ('there are 1,024 terms'). The second would be right if all terms had one sign. They do not,
# so most of the sum cancels, as in a random walk of 1,024 steps.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Two numbers in a vector
#
# Let a coin decide whether an entry is +1 or −1, so that it has mean 0 and variance 1. For $d = 2$
# there are four queries and four keys. What are the 16 products?

# %% [markdown] slideshow={"slide_type": "skip"}
# | product | −2 | 0 | 2 |
# |---|---|---|---|
# | how often | 4 | 8 | 4 |
#
# Their mean is 0. Their variance is the mean of the squares:
# $(4\cdot4 + 8\cdot0 + 4\cdot4)/16 = 2$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why it is $d$
#
# Let all entries be independent, with mean 0 and variance 1. Then each product $q_i k_i$ has mean
# 0, and its variance is $E[q_i^2]\,E[k_i^2] = 1$. Variances of independent terms add up:
#
# $$\operatorname{Var}(q\cdot k) = \sum_{i=1}^d 1 = d, \qquad \text{standard deviation } \sqrt d.$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# The shape of the distribution does not matter, but independence and the mean 0 do.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two and a half minutes. If the room prefers numbers, begin at the board with d = 2 and entries +1
# and -1: the query (1, 1) and its four keys give 2, 0, 0, -2, which has variance 2, and every other
# query gives the same four numbers. Then ask which step of the proof needs independence (both: the
# product of the means of squares, and the sum) and which needs mean 0 (the mean of a product).
# Exercise 3.3 takes mean 0 away.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a softmax does with large scores
#
# The scores 1, 2, 3 give the weights 0.09, 0.24, 0.67.
#
# **Question.** Which weights do scores give that are ten times as large?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the weights for the scores (1, 2, 3) and for scores ten times as large
figure, axes = plt.subplots(1, 2, figsize=(11, 3.9), sharey=True)
for ax, shown in zip(axes, ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]), strict=True):
    bars = ax.bar(range(3), torch.tensor(shown).softmax(dim=0), color="tab:blue")
    ax.bar_label(bars, fmt="%.2f", fontsize=16)
    ax.set_xticks(range(3), [f"{score:.0f}" for score in shown], fontsize=16)
    ax.set(ylim=(0, 1.12), xlabel="score", yticks=[0, 0.5, 1])
axes[0].set_ylabel("weight")
figure.suptitle("Scores ten times as large: the best key takes all", fontsize=18)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two bar charts of three weights. Left, the scores 1, 2, 3 give 0.09, 0.24, 0.67. Right,
# the scores 10, 20, 30 give 0.00, 0.00, 1.00.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The softmax on the right is **saturated**: one weight is close to 1, all others are close to 0.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for the weights before you show the bars. 'The same: a softmax sees only
# differences' is a good wrong answer, because the differences are ten times as large, too. On the
# board: e^-10 is about 0.00005.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The slope
#
# The scores of two random keys differ by $q\cdot(k_0 - k_1)$. The entries of $k_0 - k_1$ have
# variance 2, so this gap has the standard deviation $\sqrt{2d}$. For $d = 2, 32, 512$ it is 2, 8,
# 32.
#
# **Predict.** Where two scores are equal, the slope $\alpha_j\,(1 - \alpha_j)$ is ¼. For a gap of
# 32, is it about $10^{-2}$, $10^{-14}$ or $10^{-32}$?

# %% slideshow={"slide_type": "fragment"}
for gap in (0.0, 2.0, 8.0, 32.0):
    alpha = torch.tensor([gap, 0.0], dtype=torch.float64).softmax(dim=0)
    print(f"gap {gap:2.0f}   small weight {alpha[1]:.2g}   slope {alpha.prod():.2g}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A gradient that passes back through the softmax is multiplied by such slopes. With $10^{-14}$
# almost nothing of it arrives at the query and the keys.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. How fast training moves a weight depends on its slope. Write the gap on the board
# and ask where the 2 comes from: the variances of k0 and k1 add up.
# The small weight is about e^-32, and e^2.3 is about 10, so 32 divided by 2.3 gives the 14. Ask
# what happens to a query whose first choice, made by chance, is wrong. 'Can it never recover?' It
# can, if its gap happens to be small. The page counts how often that is the case.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Divide by the standard deviation
#
# The scores have the standard deviation $\sqrt d$. Divided by it, they have the standard deviation
# 1 for every $d$. This is the **scaled dot product**:
#
# $$a(q, k) = \frac{q\cdot k}{\sqrt d}$$
#
# Here are the five keys with 1,024 numbers again, divided by $\sqrt{1024} = 32$:

# %% slideshow={"slide_type": "fragment"}
show(five_keys(1024) / 32)

# %% [markdown] slideshow={"slide_type": "skip"}
# In chapter 1's words, $\sqrt d$ is a **temperature**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. This answers the question of the opening: look at the first guesses. An
# objection that good students make: 'you divide the gradients, too.' True, by 32, but the slope
# that is saved is worth far more: 'Going further' measures it. In chapter 1's words the root of d
# is a temperature.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What the division does
#
# Gaps differ from query to query. So we let 400 queries meet ten keys each.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, keys = torch.randn(400, 1, 4096), torch.randn(400, 10, 4096)
scores_for = {d: (queries[..., :d] @ keys[..., :d].mT).squeeze(1) for d in sizes}  # (400, 10)

# %% [markdown] slideshow={"slide_type": "-"}
# ### Turn $d$ yourself
#
# **Question.** Double $d$ for one query. From which $d$ on does one key hold more than 90%, and is
# it always the same key? Then divide by $\sqrt d$, and by $d$.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows scores, weights and slopes for a chosen d
from ipywidgets import SelectionSlider


def turn(figure, d=4, divide_by="1"):
    divisor = {"1": 1, "√d": d**0.5, "d": d}[divide_by]
    scores = scores_for[d] / divisor
    weights = scores[31].softmax(dim=0)  # one query of the 400
    spread, shares, slopes = figure.subplots(1, 3)
    percent = torch.full((4000,), 100 / 4000)
    spread.hist(scores.flatten(), bins=range(-132, 133, 6), weights=percent, color="0.4")
    spread.set(xlim=(-132, 132), ylim=(0, 101), xlabel="score", ylabel="% of the scores")
    spread.set_title("scores of 400 queries")
    shares.bar(range(10), weights, color="tab:blue")
    shares.axhline(0.9, color="0.6", linewidth=1)
    shares.set(ylim=(0, 1.02), xlabel="key", ylabel="weight", xticks=range(10))
    shares.set_title("weights of one query")
    slopes.bar(range(10), weights * (1 - weights), color="tab:orange")
    slopes.set(ylim=(0, 0.26), xlabel="key", ylabel="slope", xticks=range(10))
    slopes.set_title("their slopes")


explore(
    turn,
    figsize=(11.5, 3.4),
    alt="The histogram of scores, the ten weights of one query and their slopes.",
    d=SelectionSlider(options=sizes, value=4),
    divide_by=["1", "√d", "d"],
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of three panels, for a chosen $d$ and divisor: the histogram of the
# scores of 400 queries, the ten weights of one query as bars, and their ten slopes as bars.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. The controls work on the slide. Double d slowly and let the room say 'stop' at 90%:
# at d = 64. Go on: the winner changes. Ask for the chain from left to right: wide scores, one
# winner, no slope. Divide by √d: no key passes 90%. Only if there is time ask why not by d: the
# weights become almost equal, so what would a query be for?

# %% [markdown] slideshow={"slide_type": "skip"}
# For the query shown, one key holds more than 90% from $d = 64$ on, and four different keys win
# between 64 and 4,096. At 64 one key holds so much for 64% of the 400 queries, at 1,024 for 90%.
# Divided by $\sqrt d$, it does for none. Divided by $d$, all ten weights approach 10%, which a
# plain average would give: the query has almost no influence.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the view shows, for every d
best = {d: scores_for[d][31].softmax(dim=0) for d in sizes}
assert [d for d in sizes if best[d].max() > 0.9] == [d for d in sizes if d >= 64]
winners = {best[d].argmax().item() for d in sizes if d >= 64}
assert len(winners) == 4
assert all((scores_for[d] / d**0.5).softmax(dim=-1).max() < 0.9 for d in sizes)
assert (scores_for[1024] / 1024).softmax(dim=-1).max() < 0.11
print(f"checked: in the view one key passes 90% from d = 64 on, one of the keys {sorted(winners)}")
print("checked: divided by the root of d, no key of any of the 400 queries passes 90%")
print("checked: divided by d = 1024, no key of any of the 400 queries passes 11%")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The slope for every $d$
#
# Of the ten slopes of each of the 400 queries we look at the largest.


# %% slideshow={"slide_type": "skip"}
def largest_slope(scores):  # (..., K) -> (...)
    weights = scores.softmax(dim=-1, dtype=torch.float64)
    return (weights * (1 - weights)).amax(dim=-1)


for d in (4, 64, 1024):
    for divisor in (1, math.sqrt(d)):
        scores = scores_for[d] / divisor
        slopes, top = largest_slope(scores), scores.softmax(dim=-1).amax(dim=-1)  # (400,) each
        large, taken = (slopes > 0.1).float().mean(), (top > 0.9).float().mean()
        print(f"d = {d:4d} divided by {divisor:2.0f}   largest slope: median", end=" ")
        print(f"{slopes.median():.0e}, above 0.1: {large:4.0%}   one key above 90%: {taken:3.0%}")

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the slope with and without the division
scaled = [largest_slope(scores_for[d] / d**0.5).median() for d in sizes]
plain = [largest_slope(scores_for[d]).median() for d in sizes]
figure, ax = plt.subplots(figsize=(9, 4.4))
ax.loglog(sizes, scaled, "o-", color="tab:blue", label=r"divided by $\sqrt{d}$")
ax.loglog(sizes, plain, "s--", color="black", label="plain dot product")
ax.set_xticks(sizes[1::2], sizes[1::2])
ax.minorticks_off()
ax.set(xlabel="d, numbers in a vector", ylabel="median of the largest slopes")
ax.set_title(r"Divided by $\sqrt{d}$, the slope no longer depends on $d$")
ax.legend(frameon=False, loc="lower left")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the median of the largest slopes of 400 queries against $d$, both axes logarithmic. The
# dashed line of the plain dot product is level up to about 16, then falls to about $10^{-11}$ at
# 4,096. The solid line, divided by the root of $d$, stays level at about 0.2.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Without the division and at $d = 1024$, half of the queries have a largest slope below a
# millionth. A few, 9%, keep one above 0.1, because their best two scores happen to be close.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks why some queries keep a large slope at d = 1024
best, second = scores_for[1024].topk(2).values.T  # (400,) each
gaps, large = best - second, largest_slope(scores_for[1024]) > 0.1
assert gaps[large].max() < 2.5 and gaps[~large].min() > 2 and gaps.median() > 10
print(f"checked: the best two scores of these {large.sum()} queries differ by less than 2.5,")
print(f"of the others by more than 2, the median of all by {gaps.median():.0f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; two minutes. Ask before the picture: from which d on will it hurt? It begins at
# 32. The picture shows medians. Without the division 35% of the queries keep a slope above 0.1 at
# d = 64, and 9% at d = 1024, by luck: their best two scores are close.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the factor assumes
#
# The entries should be independent, with mean 0 and variance 1. Here are three other cases, with
# $d = 64$: entries of variance 9, a linear layer on each side, and keys that equal their queries.
# After the division, is the standard deviation still 1?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
q, k = torch.randn(4000, 64), torch.randn(4000, 64)
to_q, to_k = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)  # as PyTorch starts them
pairs = {"variance 9": (3 * q, 3 * k), "linear layers": (to_q(q), to_k(k)), "key = query": (q, q)}

# %% slideshow={"slide_type": "fragment"}
for name, (left, right) in pairs.items():
    scores = (left * right).sum(dim=-1) / 64**0.5
    print(f"{name:13} mean {scores.mean():3.1f}   standard deviation {scores.std():3.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# So $1/\sqrt d$ removes the effect of $d$ and nothing else. It fits neither the norms of the
# vectors nor queries and keys that depend on each other.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; two minutes. Wait for someone to name the assumption that breaks in each row. A
# third is the standard deviation after PyTorch's default start, because each matrix multiplies the
# variance by a third. 'Is the variance still 1 after training?' Nothing here says so.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Scaled dot-product attention
#
# Write all queries of a sentence as the rows of a matrix $\mathbf Q$, its keys as the rows of
# $\mathbf K$ and its values as the rows of $\mathbf V$. (Bold letters are matrices, plain ones are
# sizes. In shapes $d$ is `D`.) One formula gives all outputs:
#
# $$\operatorname{softmax}\!\left(\frac{\mathbf Q\,\mathbf K^\top}{\sqrt d}\right)\mathbf V$$

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws who feeds what in scaled dot-product attention
schematic("scaled dot-product")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows from left to right. Queries (B, Q, D) times the transpose of the keys
# (B, K, D), divided by the root of D, give scores (B, Q, K). A softmax over the keys makes weights
# (B, Q, K). Weights times values (B, K, V) give the output (B, Q, V).*

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Before you show the boxes, ask for the shape of each product in the formula, with
# Q queries and K keys of D numbers and values of V numbers. Which axis does the softmax take? 'The
# last' is right, and 'the keys' is the better answer. Ask where D goes.

# %% [markdown] slideshow={"slide_type": "skip"}
# By hand, with the query (1, 1), three keys and $\sqrt 2 \approx 1.414$:
#
# | key | $q\cdot k$ | divided by $\sqrt2$ | exp | weight | value |
# |---|---|---|---|---|---|
# | (1, 0) | 1 | 0.707 | 2.03 | 0.248 | 0 |
# | (0, 1) | 1 | 0.707 | 2.03 | 0.248 | 10 |
# | (1, 1) | 2 | 1.414 | 4.11 | 0.503 | 20 |
#
# The output is $0.248\cdot 0 + 0.248\cdot 10 + 0.503\cdot 20 = 12.54$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A batch at once
#
# A batch holds $B$ sentences, and a query may meet only the keys of its own sentence. `@` does one
# matrix product for each sentence: it multiplies the last two axes, and treats the axes before them
# as a list of matrices.

# %% slideshow={"slide_type": "skip"}
B, Q, K, D, V = 2, 3, 5, 7, 11  # five different sizes, so that a swapped axis cannot hide
torch.manual_seed(0)
queries, keys, values = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, V)
scores = queries @ keys.mT  # (2, 3, 7) @ (2, 7, 5)
by_sentence = torch.stack([queries[b] @ keys[b].T for b in range(B)])
print(tuple(scores.shape), "the same, one by one:", torch.allclose(scores, by_sentence))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Dot-product attention, built
#
# The layer computes $\operatorname{softmax}(\mathbf Q\mathbf K^\top/\sqrt d)\,\mathbf V$. Shorter
# sentences are filled up with padding. `valid_lens` says how many keys of each are words. The
# others must get the weight 0.

# %% [markdown] slideshow={"slide_type": "skip"}
# So `plain_masked_softmax` replaces their scores by the lowest number before the softmax, and their
# weights by 0 after it. Chapter 4 explains why it does both.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_masked_softmax(scores, valid_lens=None):  # (B, Q, K) -> (B, Q, K)
    if valid_lens is None:
        return scores.softmax(dim=-1)
    visible = torch.arange(scores.shape[-1]) < valid_lens.reshape(len(scores), -1, 1)
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)  # the lowest number
    return scores.softmax(dim=-1).masked_fill(~visible, 0)


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainDotProductAttention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        scores = queries @ keys.mT / math.sqrt(queries.shape[-1])  # (B, Q, K)
        self.attention_weights = plain_masked_softmax(scores, valid_lens)  # (B, Q, K)
        return self.dropout(self.attention_weights) @ values  # (B, Q, V)


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Read the three lines of `forward` beside the formula, and let the room say the
# shapes. `plain_masked_softmax` is on the page: a softmax over the keys that gives padding the
# weight 0. Chapter 4 builds it. Dropout sets random weights to 0 in training and is switched off
# by `eval()`. On the page the layer is compared with PyTorch's function and the package's layer.

# %% [markdown] slideshow={"slide_type": "skip"}
# In training, dropout sets random weights to 0, so that no output learns to rely on one key.
# `eval()` switches it off. We compare the layer with PyTorch's own function and with the package's
# layer:

# %% slideshow={"slide_type": "skip"}
ours, package = PlainDotProductAttention(0.1).eval(), DotProductAttention(0.1).eval()
qkv, valid_lens = (queries, keys, values), torch.tensor([2, 4])  # sentence 0 has 2 words
torch.testing.assert_close(ours(*qkv), F.scaled_dot_product_attention(*qkv))
torch.testing.assert_close(ours(*qkv, valid_lens), package(*qkv, valid_lens))
print("sentence 0, query 0:", [round(w, 2) for w in ours.attention_weights[0, 0].tolist()])

# %% [markdown] slideshow={"slide_type": "skip"}
# The package's layer gives the same output. It also checks shapes, takes further masks (chapter 4),
# and calls a function of PyTorch, a **fused kernel**, that does all three steps in one and need not
# hold all weights at once (chapter 10).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From distance to dot product
#
# We took the dot product for granted. Chapter 2 scored by distance. Expand its square, here with
# the query (1, 0) and three keys:
#
# $$-\tfrac12\lvert q-k\rvert^2 = q\cdot k - \tfrac12\lvert k\rvert^2 - \tfrac12\lvert q\rvert^2$$
#
# | key | $q\cdot k$ | $-\frac12\lvert k\rvert^2$ | $-\frac12\lvert q\rvert^2$ | sum |
# |---|---|---|---|---|
# | 0 at (1, 0) | 1 | −0.5 | −0.5 | **0** |
# | 1 at (3, 0) | 3 | −4.5 | −0.5 | **−2** |
# | 2 at (0, 1) | 0 | −0.5 | −0.5 | **−1** |

# %% [markdown] slideshow={"slide_type": "notes"}
# Two and a half minutes. Then ask: 'one of the three terms can be left out without changing any
# weight; which one?' Ten seconds, with fingers: 1, 2 or 3. Some say the middle term, 'it holds no
# query'. Ask whether -0.5, -4.5, -0.5 is a number that all keys share.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A fee on the norm
#
# $-\frac12\lvert q\rvert^2$ is the same for every key, so the softmax does not see it.
# $-\frac12\lvert k\rvert^2$ differs. You can read it as a fee that a key pays for its norm. **The
# dot product is the Gaussian score without the fee.**

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the query and three keys, and the keys' weights with the fee and without
query, three_keys = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
figure, (plane, shares) = plt.subplots(1, 2, figsize=(11.5, 3.6))
for j, (x, y) in enumerate(three_keys.tolist()):
    plane.annotate("", (x, y), (0, 0), arrowprops={"width": 7, "headwidth": 20, "color": "0.75"})
    plane.annotate(f"key {j}", (x, y), (-22 if y == 0 else 8, 12), textcoords="offset points")
plane.annotate("", (1, 0), (0, 0), arrowprops={"width": 2, "headwidth": 10, "color": "black"})
plane.set(xlim=(-0.3, 3.4), ylim=(-0.4, 1.45), xlabel="first coordinate", yticks=[0, 1])
plane.set_aspect("equal")
plane.set_title("the query (black) equals key 0")
named = {"with the fee (Gaussian)": gaussian_score, "without (dot product)": dot_score}
for (name, score), shift, style in zip(
    named.items(), (-0.2, 0.2), ("0.75", "tab:blue"), strict=True
):
    bars = shares.bar(
        torch.arange(3) + shift,
        score(query, three_keys).softmax(dim=-1)[0],
        width=0.38,
        color=style,
        label=name,
    )
    shares.bar_label(bars, fmt="%.2f")
shares.set_xticks(range(3), ["key 0", "key 1", "key 2"])
shares.set(ylim=(0, 1.25), ylabel="weight", yticks=[0, 0.5, 1])
shares.legend(frameon=False, loc="upper left", ncols=2, fontsize=12)
figure.suptitle("Without the fee, the longest key wins here", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, the query and key 0 at (1, 0), key 1 at (3, 0) and key 2 at (0, 1) as arrows.
# Right, the weights of the three keys. With the fee they are 0.67, 0.09, 0.24, and without it they
# are 0.11, 0.84, 0.04.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two and a half minutes. Ask before the picture which key gains without the fee. Then ask which
# score is right. Neither: a query is a question, and the best answer need not look like it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Nearest key, largest product
#
# A thousand random queries meet ten keys of 64 numbers: as drawn; after **layer norm** (Ba et al.,
# 2016), which gives each vector mean 0 and variance 1; and after layer norm and a linear layer, as
# in a Transformer.
#
# **Predict.** In one of the three cases the nearest key has the largest dot product for all
# queries. In which?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, drawn = torch.randn(1000, 64), torch.randn(10, 64)
normed, linear = F.layer_norm(drawn, (64,)), nn.Linear(64, 64, bias=False)
keys_for = {"as drawn": drawn, "layer norm": normed, "then linear": linear(normed)}
agree = {}
for name, keys in keys_for.items():
    nearest = gaussian_score(queries, keys).argmax(dim=-1)  # scores (1000, 10): query, key
    largest = (queries @ keys.T).argmax(dim=-1)
    agree[name] = (nearest == largest).float().mean().item()

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws how often the nearest key has the largest product, in the three cases
figure, ax = plt.subplots(figsize=(9.5, 3.6))
bars = ax.bar(range(3), [100 * share for share in agree.values()], width=0.55, color="tab:blue")
ax.bar_label(bars, fmt="%.0f%%", fontsize=18)
norms = [keys.norm(dim=-1).aminmax() for keys in keys_for.values()]
names = [f"{name}\nnorms {n.min:.1f} to {n.max:.1f}" for name, n in zip(agree, norms, strict=True)]
ax.set_xticks(range(3), names, fontsize=16)
ax.set(ylim=(0, 119), yticks=[0, 50, 100])
ax.set_ylabel("% of the queries", fontsize=15)
ax.set_title("Nearest key and largest product always agree only with equal norms here", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three bars, the share of 1,000 queries for which the nearest key has the largest product.
# As drawn, with norms from 6.8 to 8.8, it is 57%. After layer norm, with all norms 8.0, it is 100%.
# After a further linear layer, with norms from 4.0 to 4.8, it is 71%.*

# %% [markdown] slideshow={"slide_type": "skip"}
# After layer norm all keys pay the same fee. (The book names batch norm as well, but after it the
# keys' norms still differ.) By hand, $(1, 2, 3)$ becomes $(-1, 0, 1)$ and then
# $(-1.22, 0, 1.22)$, whose squared norm is 3, the number of entries. The linear layer makes the
# norms differ again. So for the keys of a Transformer, leaving out the fee is a **choice**: a key
# of large norm gets a higher score from queries on its side, and a lower one from the others.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the table, the two cancellations, and that batch norm and equal entries are exceptions
assert gaussian_score(query, three_keys).tolist() == [[0, -2, -1]]
full = gaussian_score(queries, drawn).softmax(dim=-1)
no_query_term = (dot_score(queries, drawn) - drawn.square().sum(dim=-1) / 2).softmax(dim=-1)
torch.testing.assert_close(full, no_query_term, atol=1e-5, rtol=1e-3)
by_distance = gaussian_score(queries, normed).softmax(dim=-1)
by_product = dot_score(queries, normed).softmax(dim=-1)
torch.testing.assert_close(by_distance, by_product, atol=1e-3, rtol=0)
low, high = F.batch_norm(drawn, None, None, training=True).square().sum(dim=-1).aminmax()
assert high - low > 10  # batch norm evens out columns, and a key is a row
assert F.layer_norm(torch.ones(3), (3,)).tolist() == [0, 0, 0]  # no spread to divide by
print("checked: -|q|²/2 cancels for any keys, the fee for keys after layer norm (to 0.001)")
print(f"checked: after batch norm the squared norms differ, {low:.0f} to {high:.0f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; two minutes. Take votes. For the third case expect 'still all, the norm has made
# them equal': draw the circle on which the keys lie after layer norm, and the ellipse
# that a matrix makes of it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Query and key of different size
#
# A query of 2 numbers and a key of 3 numbers have no dot product. A learned matrix between them
# helps (Luong et al., 2015). This is the **bilinear** score:
#
# $$a(q, k) = q^\top M\, k \qquad\text{or, with two matrices,}\qquad
#   (W_q\, q)\cdot(W_k\, k) = q^\top W_q^\top W_k\, k$$
#
# By hand with $q = (1, 2)$, $k = (1, 0, 1)$ and
# $M = \begin{pmatrix}1&0&2\\0&1&1\end{pmatrix}$:

# %% [markdown] slideshow={"slide_type": "fragment"}
# First $q^\top M = (1, 2, 4)$, then $(1, 2, 4)\cdot(1, 0, 1) = 5$.

# %% [markdown] slideshow={"slide_type": "skip"}
# The Transformer learns the two matrices. They bring query and key to one size, and
# $W_q^\top W_k$ has the role of $M$. For equal sizes they let a
# query look for something unlike itself ('Going further').

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the example by hand and the two halves of M
by_hand = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
assert bilinear_score(torch.tensor([[1.0, 2]]), torch.tensor([[1.0, 0, 1]]), by_hand).item() == 5
torch.manual_seed(0)
left, right = torch.randn(3, 20), torch.randn(5, 30)
half_q, half_k = torch.randn(4, 20), torch.randn(4, 30)
torch.testing.assert_close(
    bilinear_score(left, right, half_q.T @ half_k), dot_score(left @ half_q.T, right @ half_k.T)
)
print("checked: M and its two halves give the same scores, queries of 20 and keys of 30 numbers")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room work out the score of the example before you show it: half a minute.
# Why two matrices? For queries of 20 and keys of 30 numbers M has 600 parameters, and two halves
# that meet at 4 numbers have 200. The score may go one way: the subject need not look for the
# verb.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A small network as a score
#
# The first attention in translation (Bahdanau, Cho and Bengio, 2015) uses no product of query and
# key. It projects both to $h$ numbers, **adds** them, and lets a tanh and a learned vector $w_v$
# make a score of the sum:
#
# $$a(q, k) = w_v^\top \tanh(W_q\, q + W_k\, k)$$
#
# An example by hand has one number everywhere, and every parameter is 1. Which scores has the query
# 1 for the keys 1, −1, −3?

# %% [markdown] slideshow={"slide_type": "fragment"}
# They are $\tanh 2$, $\tanh 0$ and $\tanh(-2)$, that is 0.96, 0 and −0.96.

# %% [markdown] slideshow={"slide_type": "skip"}
# This **additive** score is a network with one hidden layer of $h$ units. Its input is query and
# key, one below the other.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room add query and key first, then ask what a tanh does to 2, 0 and -2: only
# the signs, and 'nearly 1', are needed. Why a network? With one hidden layer it can learn many
# functions of a pair, and query and key may have any sizes. Draw it: query and key below, h units,
# one output.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What is the tanh for?
#
# Leave the tanh out: $w_v^\top(W_q\, q + W_k\, k)$. Three different queries give five
# keys these weights, in percent:

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(5)
q, k, w_v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(4)  # already projected, h = 4
sums = q[:, None] + k  # (3, 5, 4)

# %% slideshow={"slide_type": "fragment"}
for name, units in (("with tanh", torch.tanh(sums)), ("without tanh", sums)):
    rows = (100 * (units @ w_v).softmax(dim=-1)).round().int().tolist()
    print(f"{name:12} {rows}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the tanh, $w_v^\top W_q\, q$ is one number that all keys share. The softmax does not see
# it, and every query gets the same weights. The sum needs a nonlinear function.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; two minutes. Ask before you run it what the query still does; the usual vote is
# 'a bit weaker'. Let them expand the bracket on the board. It is not a bit: the query vanishes.
# Compare with the expanded square, where the same cancellation was welcome. The layer is on the
# page: the same last two lines, with this score.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Additive attention, built


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainAdditiveAttention(nn.Module):
    def __init__(self, num_hiddens, dropout):  # h = num_hiddens
        super().__init__()
        self.W_q = nn.LazyLinear(num_hiddens, bias=False)
        self.W_k = nn.LazyLinear(num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        q = self.W_q(queries).unsqueeze(-2)  # (B, Q, 1, h)
        k = self.W_k(keys).unsqueeze(-3)  # (B, 1, K, h)
        scores = self.w_v(torch.tanh(q + k)).squeeze(-1)  # (B, Q, K, h) -> (B, Q, K)
        self.attention_weights = plain_masked_softmax(scores, valid_lens)  # (B, Q, K)
        return self.dropout(self.attention_weights) @ values  # (B, Q, V)


# %% [markdown] slideshow={"slide_type": "skip"}
# Each query meets each key in the sum `q + k`, by broadcasting. Now the queries have 13 numbers and
# the keys 7. We hand our parameters to the package's layer:

# %% slideshow={"slide_type": "skip"}
queries, keys = torch.randn(B, Q, 13), torch.randn(B, K, D)
ours, package = PlainAdditiveAttention(17, 0.1).eval(), AdditiveAttention(17, 0.1).eval()
output = ours(queries, keys, values, valid_lens)  # the first call fixes the sizes of W_q and W_k
package.load_state_dict(ours.state_dict(), strict=True)
torch.testing.assert_close(output, package(queries, keys, values, valid_lens))
print({name: tuple(parameter.shape) for name, parameter in package.named_parameters()})

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the additive score is a network with one hidden layer on query and key
torch.testing.assert_close(ours.attention_weights, package.attention_weights)
torch.manual_seed(0)
left, right = torch.randn(3, 20), torch.randn(5, 2)
to_q, to_k, out = torch.randn(8, 20), torch.randn(8, 2), torch.randn(8)
mlp = nn.Sequential(nn.Linear(22, 8, bias=False), nn.Tanh(), nn.Linear(8, 1, bias=False))
mlp[0].weight = nn.Parameter(torch.cat([to_q, to_k], dim=1))
mlp[2].weight = nn.Parameter(out[None])
joined = torch.cat([left[:, None].expand(3, 5, 20), right[None].expand(3, 5, 2)], dim=-1)
by_mlp = mlp(joined).squeeze(-1)
torch.testing.assert_close(by_mlp, additive_score(left @ to_q.T, right @ to_k.T, out))
print("checked: an MLP on the 15 joined pairs of 3 queries and 5 keys gives the additive scores")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which score, at what price?
#
# Take a batch of 8 sentence pairs with 128 words on each side, and $h = 256$, in float32. The
# scores need half a MiB.
#
# **Predict.** How large is the tensor inside the tanh: ½ MiB, 2 MiB or 128 MiB?

# %% slideshow={"slide_type": "fragment"}
print(f"inside the tanh: {8 * 128 * 128 * 256 * 4 / 2**20:.0f} MiB")  # 4 bytes a number

# %% [markdown] slideshow={"slide_type": "fragment"}
# The tanh needs $h$ numbers **for each pair** of query and key. The dot product needs one.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
X = torch.randn(8, 128, 256)
for layer in (PlainDotProductAttention(0.0), PlainAdditiveAttention(256, 0.0)):
    layer(X, X, X)
    start = process_time()
    layer(X, X, X)
    print(f"{type(layer).__name__:25} {1000 * (process_time() - start):6.1f} ms")

# %% [markdown] slideshow={"slide_type": "skip"}
# Each time is processor time of one run on one thread, with $D = V = h = 256$. The second includes
# the two projections.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Most choose 2 MiB: they project 128 queries and 128 keys and forget the pairs. Draw
# the grid of pairs, with a vector of h numbers in each cell. On the page both layers run on this
# batch: the additive one took more than a hundred times as long here, on one thread.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four scores
#
# For queries of size $D$ and keys of size $D'$, with the formulas as they are written:
#
# | score | formula | sizes | parameters | multiplications for a pair | numbers for a pair |
# |---|---|---|---|---|---|
# | Gaussian | $-\lvert q-k\rvert^2/2$ | equal | 0 | $D$ | $D$ |
# | scaled dot product | $q\cdot k/\sqrt d$ | equal | 0 | $D$ | 1 |
# | bilinear | $q^\top M k$ | any | $D D'$ | $D'$ | 1 |
# | additive | $w_v^\top\tanh(W_q q + W_k k)$ | any | $h\,(D + D' + 1)$ | $h$, and $h$ tanh | $h$ |

# %% [markdown] slideshow={"slide_type": "skip"}
# - The **scaled dot product** with $W_q$ and $W_k$ before it is the **bilinear** score. The
#   Transformer uses it in this form.
# - The **additive** score is used in chapter 5. In a large comparison it did better than the
#   *unscaled* dot product (Britz et al., 2017). Vaswani et al. (2017) suspected saturation.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute; do not read the 24 cells. Ask for the row with the most numbers for a pair: the
# additive one, with h. Then ask which of the four the Transformer uses: the second, with W_q and
# W_k before it, which makes it the third.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - For independent entries with mean 0 and variance 1, $q\cdot k$ has variance $d$. For large $d$
#   the softmax saturates: at $d = 1024$ half of our queries had no slope above a millionth.
# - Division by $\sqrt d$ removes this effect of $d$, and no other.
# - $\operatorname{softmax}(\mathbf Q\mathbf K^\top/\sqrt d)\,\mathbf V$ gives each query a weighted
#   average of the values. Scores and weights have the shape $(B, Q, K)$.
# - The dot product is the Gaussian score without a fee on the key's norm.
# - For unequal sizes there are the bilinear and the additive score. Written out, the additive score
#   holds $h$ numbers for each pair.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask the first question of the hour again: why did one of five keys take everything?
# Homework: exercises 3.1 to 3.5.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or wrong, as often as you
# like. `hint("3.1")` helps a little, and a little more each time; `solution("3.1")` shows a
# solution and says why it is right.

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.1** Largest product, nearest key · *easy, 3 minutes* · by hand
#
# The query is (2, 1). Keys 0, 1 and 2 are (1, 1), (0, 4) and (5, −2). Which key has the largest
# dot product with the query, and which is nearest to it? Answer with the two keys' numbers in this
# order, such as `(0, 1)`.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("3.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.2** Who meets whom? · *easy, 5 minutes* · find the bug
#
# `all_scores` should give the dot product of every query with every key: queries (\*, Q, D), keys
# (\*, K, D), scores (\*, Q, K), where \* is any leading axes, also none. Its author has tried many
# sizes, and the shape was right each time. Work out on paper which numbers query 0 meets, and
# repair the function. The scores keep the dtype of the inputs, and gradients reach queries and
# keys.


# %% slideshow={"slide_type": "skip"}
def all_scores(queries, keys):
    """Dot product of every query with every key: (*, Q, D), (*, K, D) -> (*, Q, K).

    The queries [[1, 2], [0, 1]] and keys [[1, 1], [3, 4]] give [[3, 11], [1, 4]].
    """
    *leading, K, D = keys.shape
    turned = keys.reshape(*leading, D, K)
    scores = queries @ turned  # (*, Q, D) times (*, D, K)
    return scores


check("3.2", all_scores)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.3** When the mean is not 0 · *easy, 8 minutes* · predict, then measure
#
# The entries of $q$ and $k$ are independent, with variance 1, but with mean **1** instead of 0, as
# after a shift. $d = 100$. First predict the variance of $q\cdot k$, then measure it, then find the
# exact number on paper. Answer with the exact number.

# %% slideshow={"slide_type": "skip"}
answer = None

check("3.3", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.4** Distances without the differences · *medium, 10 minutes* · complete a function
#
# Complete `distance_score`: equal to `gaussian_score(queries, keys)` for queries (\*, Q, D) and
# keys (\*, K, D), where \* is any leading axes, also none, but without a (Q, K, D) tensor on the
# way and without a loop. Squared lengths and a matrix product are enough (the book's exercise 1).
# The scores keep the dtype of the inputs, and gradients reach queries and keys.


# %% slideshow={"slide_type": "skip"}
def distance_score(queries, keys):
    """The score -|q - k|²/2 of every pair: (*, Q, D), (*, K, D) -> (*, Q, K).

    The query [[2, 1]] and the keys [[1, 1], [0, 4]] give [[-0.5, -6.5]].
    """
    ...


check("3.4", distance_score)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.5** The author's test passed · *medium, 8 minutes* · find the bug
#
# This `attention` passed its author's test, with queries (2, 4, 16) and keys (2, 16, 16). For
# other sizes it is wrong. Repair it, for queries (B, Q, D), keys (B, K, D) and values (B, K, V).
# The output (B, Q, V) keeps the dtype of the inputs, and gradients reach all three.


# %% slideshow={"slide_type": "skip"}
def attention(queries, keys, values):
    """Scaled dot-product attention: (B, Q, D), (B, K, D), (B, K, V) -> (B, Q, V).

    Where all scores are equal, the values [[1], [3]] give [2] for each query.
    """
    scores = torch.bmm(queries, keys.transpose(1, 2)) / keys.shape[1] ** 0.5
    return torch.bmm(scores.softmax(dim=-1), values)


check("3.5", attention)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.6** The test that catches four wrong scores · *medium, 12 minutes* · write the test
#
# Write `test_score(implementation)` for functions that are called like `scaled_dot_score(queries,
# keys)`. It must pass on the package's function, and on others that are right but for rounding, and
# fail, by an `AssertionError`, on each of four broken ones: no division; division by $D$; division
# by the root of the number of keys; scores of shape (\*, K, Q).


# %% slideshow={"slide_type": "skip"}
def test_score(implementation):
    """Pass on a right `implementation`, and fail by an `AssertionError` on broken ones.

    Queries (*, Q, D) and keys (*, K, D) give scores (*, Q, K); [[1.0, 2, 3, 4]] and
    [[1.0, 0, 0, 1], [0, 1, 0, 0]] give [[2.5, 1]].
    """
    ...


check("3.6", test_score)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order.

# %% [markdown] slideshow={"slide_type": "-"}
# ### How much gradient reaches the query?
#
# *5 minutes.* A fair objection: dividing the scores by 32 divides their gradient by 32, too. Is
# anything won? We measure the gradient that arrives at the query, with every factor included, for
# 400 queries with ten random keys and values each.

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
query, keys, values = torch.randn(400, 1, 1024), torch.randn(400, 10, 1024), torch.randn(400, 10, 1)
for score in (dot_score, scaled_dot_score):
    query.requires_grad_().grad = None
    (score(query, keys).softmax(dim=-1) @ values).sum().backward()
    arrived = query.grad.norm(dim=-1)
    print(
        f"{score.__name__:17} gradient at the query, median {arrived.median():.0e}, "
        f"below 0.001 for {(arrived < 1e-3).float().mean():.0%} of the queries"
    )

# %% [markdown] slideshow={"slide_type": "skip"}
# The division costs a factor of 32, but the slope that it saves is worth far more. For the median
# query about ten thousand times as much gradient arrives.
#
# Chapter 1 said that a softmax's slope is never zero on paper. In float32 it is zero where a score
# is about 104 or more below the best, because $e^{-104}$ rounds to 0. At $d = 4096$ this happens
# to 44% of all keys here, and none of them receives any gradient.

# %% slideshow={"slide_type": "skip"}
behind = scores_for[4096].amax(dim=-1, keepdim=True) - scores_for[4096]
zero = scores_for[4096].softmax(dim=-1) == 0
print(f"more than 105 behind: {(behind > 105).float().mean():.0%} of the keys")
print(f"weight exactly 0:     {zero.float().mean():.0%} of the keys")
print(
    "weights that are 0 after scaling:", int(((scores_for[4096] / 64).softmax(dim=-1) == 0).sum())
)

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Random vectors are nearly orthogonal
#
# *2 minutes.* The cosine of two random vectors shrinks like $1/\sqrt d$, and their dot product
# grows like $\sqrt d$. Both are true, because the norms grow as well: each is about $\sqrt d$, so
# $q\cdot k = \lvert q\rvert\,\lvert k\rvert\cos\theta \approx d\cdot\cos\theta$.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
for d in (4, 64, 1024):
    queries, keys = torch.randn(4000, d), torch.randn(4000, d)
    cosine = F.cosine_similarity(queries, keys).std()
    product = (queries * keys).sum(dim=-1).std()
    print(f"d = {d:4d}   spread of the cosine {cosine:.2f}   of the dot product {product:4.1f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A key that no dot product selects
#
# *2 minutes.* What is the fee on the norm good for? Put a fourth key inside the triangle of three
# others. For how many random queries does it have the highest score?

# %% slideshow={"slide_type": "fragment"}
triangle = torch.tensor([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0], [0.5, 0.5]])
torch.manual_seed(0)
anything = torch.randn(10_000, 2)
for score in (dot_score, gaussian_score):
    wins = (score(anything, triangle).argmax(dim=-1) == 3).float().mean()
    print(f"{score.__name__:15} key 3 is first for {wins:.0%} of 10,000 queries")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The product $q\cdot k_3$ is a weighted average of the other three, so it is never larger than the
# largest of them. Under the Gaussian score every query near key 3 prefers it.

# %% [markdown] slideshow={"slide_type": "skip"}
# Layer norm puts all keys on a sphere, where no key lies inside the others. Brody, Alon and Yahav
# (2023) call the keys inside 'unselectable'.

# %% [markdown] slideshow={"slide_type": "notes"}
# Draw the triangle (3, 0), (0, 3), (-3, -3) with the point (0.5, 0.5) in it, and a query as an
# arrow: a line at a right angle to it, pushed outwards, leaves the triangle at a corner.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A query that looks for something else
#
# *2 minutes.* Four tokens ask each other: north, east, south and west, as arrows of norm 1. With
# the plain dot product each arrow finds itself, because
# $q\cdot k = \lvert q\rvert\,\lvert k\rvert\cos\theta$ is largest at the angle 0.
#
# **Question.** Which $M$ makes each one find its neighbour to the right, clockwise?

# %% slideshow={"slide_type": "fragment"}
names = ["north", "east", "south", "west"]
x = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]])
M = torch.tensor([[0.0, -1.0], [1.0, 0.0]])  # x^T M is x, turned to its right
for label, matrix in (("dot product", torch.eye(2)), ("with M", M)):
    found = bilinear_score(x, x, matrix).argmax(dim=-1)
    print(f"{label:12}", {a: names[j] for a, j in zip(names, found.tolist(), strict=True)})

# %% [markdown] slideshow={"slide_type": "skip"}
# The score goes one way: east is what north looks for, but north is not what east looks for. In
# general $q^\top M k$ is not $k^\top M q$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The width behind $\sqrt d$
#
# *1 minute.* The Gaussian score of chapter 2 has a width $w$: $-\lvert q-k\rvert^2 / (2w^2)$. For
# keys of one norm only $q\cdot k / w^2$ counts. So the factor $1/\sqrt d$ is a width of
# $w = d^{1/4}$: with 64 numbers, 2.8.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that scaled attention is Gaussian attention of this width
torch.manual_seed(0)
some_queries, some_keys = torch.randn(5, 64), F.layer_norm(torch.randn(7, 64), (64,))
of_width = gaussian_score(some_queries, some_keys, width=64**0.25).softmax(dim=-1)
of_factor = scaled_dot_score(some_queries, some_keys).softmax(dim=-1)
torch.testing.assert_close(of_width, of_factor, atol=1e-4, rtol=0)
print("checked: the same weights to 0.0001, 5 queries and 7 keys after layer norm, d = 64")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Divide before the product
#
# *1 minute.* `PlainDotProductAttention` divides after the product, as the formula does. On paper
# the order does not matter. In float16 the largest number is 65,504, and a product that overflows
# cannot be divided any more. Here $q\cdot k = 256\cdot17\cdot17 = 73{,}984$. So the package
# divides the queries, before the product.

# %% slideshow={"slide_type": "skip"}
big = torch.full((1, 256), 17.0, dtype=torch.float16)
print("first the product ", (dot_score(big, big) / 16).item())
print("first the division", scaled_dot_score(big, big).item())

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Two properties of the additive score
#
# *3 minutes.* A tanh lies between −1 and 1, so $\lvert a(q,k)\rvert \le \sum_i\lvert w_{v,i}\rvert$
# however large query and key become. This does not spare it from saturation. For large inputs the
# tanh itself is flat, and its derivative vanishes instead of the softmax's.
#
# Without biases, as in the book, the score is odd: if query and key both change their sign, the
# score changes its sign. Exercise 3.7 asks what this rules out.
#
# Graph attention networks had a milder form of the fault 'without tanh': every query ranked the
# keys in the same order (Brody, Alon and Yahav, 2022).

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
q, k, w_v = torch.randn(3, 8), torch.randn(5, 8), torch.randn(8)
for factor in (1, 10, 100):
    sums = factor * (q[:, None] + k)  # (3, 5, 8)
    flat, score = (1 - torch.tanh(sums) ** 2).median(), additive_score(factor * q, factor * k, w_v)
    bound = f"largest score {score.abs().max():.1f} of at most {w_v.abs().sum():.1f}"
    print(f"inputs times {factor:3d}: {bound}   median derivative of the tanh {flat:.0e}")
print("odd:", torch.allclose(additive_score(-q, -k, w_v), -additive_score(q, k, w_v)))

# %% [markdown] slideshow={"slide_type": "skip"}
# ### How much memory a score needs
#
# *5 minutes.* All numbers of pairs grow with $Q\cdot K$ (chapter 10). The book speaks of 'minor
# computational savings' of the additive score. Where $h < D$ it saves multiplications, but it
# needs more memory than the dot product, and calls of the tanh.
#
# The largest tensors can be made smaller. Exercise 3.4 does it for the Gaussian score. The
# package's `additive_score` writes out all tanh while they are at most $2^{18}$ numbers. Beyond
# that it takes a few queries at a time and computes the tanh again in the backward pass. PyTorch
# can tell how many numbers it keeps for that pass:


# %% slideshow={"slide_type": "skip"}
def largest_kept(function, *inputs):
    """Elements of the largest tensor that PyTorch keeps for the backward pass."""
    sizes = []
    inputs = [tensor.clone().requires_grad_() for tensor in inputs]
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()), lambda x: x):
        function(*inputs)
    return max(sizes)


def additive_written_out(queries, keys, w_v):
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ w_v


for n in (16, 128):  # n queries and n keys of 64 numbers, h = 64
    X, w_v = torch.randn(1, n, 64), torch.randn(64)
    kept = {score.__name__: largest_kept(score, X, X) for score in (dot_score, gaussian_score)}
    for score in (additive_written_out, additive_score):
        kept[score.__name__] = largest_kept(score, X, X, w_v)
    print(f"{n:3d} x {n} pairs:", kept)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the multiplications in the table 'Four scores' with PyTorch's counter
from torch.utils.flop_counter import FlopCounterMode


def multiplications(function, *inputs):
    with FlopCounterMode(display=False) as counter:
        function(*inputs)
    return counter.get_total_flops() // 2  # it takes each multiply-add as 2


b, n, m, size, size2, h = 2, 13, 17, 5, 7, 11
left, right, right2 = torch.randn(b, n, size), torch.randn(b, m, size), torch.randn(b, m, size2)
assert multiplications(dot_score, left, right) == b * n * m * size
between = torch.randn(size, size2)
expected = b * n * m * size2 + b * n * size * size2
assert multiplications(bilinear_score, left, right2, between) == expected
layer, kept_values = AdditiveAttention(num_hiddens=h, dropout=0.0), torch.randn(b, m, 3)
layer(left, right2, kept_values)  # the first call fixes the sizes of W_q and W_k
# The counter sees the two projections and the final average, not tanh(...) @ w_v.
expected = b * (n * size + m * size2) * h + b * n * m * 3
assert multiplications(layer, left, right2, kept_values) == expected
print("checked: multiplications of dot, bilinear and the additive projections, sizes all different")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The matrix that nobody builds
#
# *3 minutes.* `DotProductAttention` has two ways to the same output. If you ask for the weights, it
# takes the three steps of `PlainDotProductAttention`. If you do not, it hands everything to the
# fused kernel, which goes through the keys block by block, keeps a running sum, and never holds all
# $Q\cdot K$ weights. Chapter 10 builds such a kernel.
#
# The layer remembers queries and keys, which are small, and computes `attention_weights` when you
# read them. Before the first call there is nothing to read. Weights that are read later carry no
# gradient; where a loss needs them, as in chapter 5, call the layer with `need_weights=True`. In
# training with dropout, PyTorch's kernel for the CPU does hold the weights.

# %% slideshow={"slide_type": "skip"}
n = 512
X = torch.randn(1, n, 16)
written_out = PlainDotProductAttention(0.0)
print(f"written out {largest_kept(written_out, X, X, X):9,} numbers kept, n * n = {n * n:,}")
print(f"fused       {largest_kept(dot_product_attention, X, X, X):9,} numbers kept")
output, weights = DotProductAttention(0.0)(X, X, X, need_weights=True)
torch.testing.assert_close(output, written_out(X, X, X))

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises
#
# **3.7** Like finds like · *hard, 20 minutes* · complete a function
#
# Two tokens, $x = 1$ and $x = -1$, are each other's queries and keys, written $(x, 1)$. Write
# `like_finds_like()` that returns three tensors of decimals, `W_q` (h, 2), `W_k` (h, 2) and `w_v`
# (h,), with an $h$ of your choice, so that under the additive score each query scores higher, by at
# least 0.01, on the key of its own sign. Then say why no parameters can do it without the constant
# 1.


# %% slideshow={"slide_type": "skip"}
def like_finds_like():
    """Weights `W_q` (h, 2), `W_k` (h, 2) and `w_v` (h,) under which like finds like.

    With h = 1 and all weights 1 the scores are [[1.00, 0.96], [0.96, 0.00]] (rows: queries 1 and
    -1; columns: keys 1 and -1). Query 1 prefers its own sign, query -1 does not.
    """
    ...


check("3.7", like_finds_like)

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Zhang, Z. C. Lipton, M. Li and A. J. Smola, *Dive into Deep Learning*, section 11.3, d2l.ai.
#   The way from the Gaussian to the dot product comes from there.
# - A. Vaswani et al. (2017), *Attention Is All You Need*. NeurIPS, arXiv:1706.03762. Section
#   3.2.1: the factor $1/\sqrt d$ and the guess about saturation.
# - D. Bahdanau, K. Cho and Y. Bengio (2015), *Neural Machine Translation by Jointly Learning to
#   Align and Translate*. ICLR, arXiv:1409.0473. The additive score.
# - M.-T. Luong, H. Pham and C. D. Manning (2015), *Effective Approaches to Attention-based Neural
#   Machine Translation*. EMNLP, arXiv:1508.04025. Dot product and bilinear ('general') scores.
# - D. Britz, A. Goldie, M.-T. Luong and Q. Le (2017), *Massive Exploration of Neural Machine
#   Translation Architectures*. EMNLP, arXiv:1703.03906. Additive against unscaled dot product.
# - J. L. Ba, J. R. Kiros and G. E. Hinton (2016), *Layer Normalization*. arXiv:1607.06450.
# - S. Brody, U. Alon and E. Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers'
#   Attention*. Findings of ACL, arXiv:2305.02582. Unselectable keys.
# - S. Brody, U. Alon and E. Yahav (2022), *How Attentive are Graph Attention Networks?* ICLR,
#   arXiv:2105.14491. Keys in the same order for every query.
