# %% [markdown] slideshow={"slide_type": "slide"}
# # 3 · Scoring functions
#
# **You will**
# - predict how large the dot product of two random vectors is, and say why it is divided by
#   $\sqrt d$;
# - write the score of all pairs of a batch with one matrix product;
# - build scaled dot-product attention and additive attention, and test both against the package;
# - say what a dot product leaves out of a distance, and choose between four scores.
#
# Core path: 60 to 90 minutes, in two sittings. Going further: 20. Exercises: 66.
#
# Builds on chapters 1 and 2. *Dive into Deep Learning* (D2L), section 11.3.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes, votes included. Not in the plan are 'Four scores', which is last in its column, so
# that the arrow to the right passes it by, and the slides after the summary. If you are behind
# after 19½ minutes, at 'From distance to dot product', leave out 'Query and key of different size'
# and 'Which score, at what price?'. On the page, students write a score themselves (3.4). Homework:
# exercises 3.1 to 3.5.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
from time import process_time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle
from torch import nn

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    additive_score,
    bilinear_score,
    dot_score,
    gaussian_score,
    scaled_dot_score,
    show_source,
)
from d2l_attention.views import explore, schematic
from d2l_attention.views.palette import GREY, GROUND, INK, KEY, PALE, QUERY, RULE, TINT, WEIGHT
from d2l_attention.views.plots import heatmap, set_style
from d2l_attention.views.schematics.drawing import LEARNED, TENSOR, Diagram

torch.set_num_threads(1)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# In chapter 1, each pair of a query and a key gets a **score** $a_j$. The softmax turns the scores
# of a query into **weights** $\alpha_j$, which sum to one, and the output is the weighted sum of
# the values. Here the query is $(1, 2)$, and the score is the **dot product**
# $q\cdot k = q_1k_1 + q_2k_2$:
#
# | key | score $q\cdot k$ | weight | value |
# |---|---|---|---|
# | (2, −1) | 0 | 0.09 | 10 |
# | (1, 0) | 1 | 0.24 | 20 |
# | (0, 1) | 2 | 0.67 | 30 |
#
# The output is $0.09\cdot10 + 0.24\cdot20 + 0.67\cdot30 = 25.8$.

# %% [markdown] slideshow={"slide_type": "skip"}
# This chapter is about the first step: which function should turn a query and a key into one
# number? We also need two facts from chapter 1:
#
# - A softmax sees only differences, so the scores (100, 101, 102) give the same three weights.
# - The **slope** of a weight, its derivative with respect to its own score, is
#   $\alpha_j\,(1 - \alpha_j)$: a quarter where the weight is ½, and almost 0 where it is close to 0
#   or 1.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Write (0, 1, 2) and (0.09, 0.24, 0.67) on the board and leave them there. The slope of
# a weight is a (1 - a): ask where it is largest (at ½) and where almost 0 (close to 0 and to 1).
# Then name the subject of the hour: the function that gives the second column.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Attention among random vectors
#
# Let a random query meet five random keys, 1,000 times, with the dot product as the score. The
# vectors have **dimension** 4, which means four entries, drawn with mean 0 and variance 1:


# %% slideshow={"slide_type": "-"}
def five_keys(d, divisor=1):
    torch.manual_seed(3)
    queries, keys = torch.randn(1000, 1, d), torch.randn(1000, 5, d)
    weights = ((queries * keys).sum(dim=-1) / divisor).softmax(dim=-1)  # (1000, 5)
    first = (100 * weights[0]).round().int().tolist()
    share = (weights.amax(dim=-1) > 0.9).float().mean()
    print(f"first query, rounded percent: {first}   one key above 90%: {share:.0%} of the queries")


five_keys(4)

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** In dimension 1,024, are the weights closer to equal than in dimension 4, or further
# from it?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Collect guesses before you show the last line. Expect: 'more numbers average out, so
# the weights become more equal'. Write it on the board and come back to it at 'What a softmax does
# with large scores'. Do not explain yet.

# %% slideshow={"slide_type": "fragment"}
five_keys(1024)

# %% [markdown] slideshow={"slide_type": "skip"}
# Further from it. For 93% of the queries, one key now takes more than 90% of the weight, although
# nothing has been learned. Here are the first twelve queries, each with the weights of its own five
# keys:

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the weights of the first twelve queries in both dimensions
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2))
for ax, d in zip(axes, (4, 1024), strict=True):
    torch.manual_seed(3)  # as in five_keys
    queries, keys = torch.randn(1000, 1, d), torch.randn(1000, 5, d)
    weights = (queries * keys).sum(dim=-1).softmax(dim=-1)
    sides = "queries", "each query's own five keys"
    heatmap(ax, weights[:12], range(1, 13), range(1, 6), vmin=0, vmax=1, sides=sides)
    ax.set_title(f"d = {d:,}")
figure.colorbar(axes[0].images[0], ax=axes, label="weight", ticks=[0, 0.5, 1])
figure.suptitle("In 1,024 dimensions nearly every query takes a single key", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps with a row for each of twelve queries and a column for each of its five
# keys. For $d = 4$, most rows spread their weight over several cells. For $d = 1024$, eleven rows
# have one strong cell, now in this column, now in that, and are empty otherwise; only the last row
# shares its weight.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Which row on the right still shares its weight? The last. Is it always the same
# column that wins? No, because each query has keys of its own.

# %% [markdown] slideshow={"slide_type": "skip"}
# To see why, let us find out how large such scores are.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How large is a dot product?
#
# $$q\cdot k = \sum_i q_i k_i = \lvert q\rvert\,\lvert k\rvert\cos\theta$$

# %% [markdown] slideshow={"slide_type": "skip"}
# Its size grows with both norms. Its sign is that of the cosine, which compares only the directions
# and is positive where the angle $\theta$ between them is below 90 degrees.


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows a key, its foot on the line of the query (2, 1), and their dot product
def project(figure, key_x=1.0, key_y=3.0):
    ax = figure.subplots()
    key, query = torch.tensor([key_x, key_y]), torch.tensor([2.0, 1.0])
    along = query / query.norm()
    foot = round((key @ along).item(), 3) + 0.0  # never −0
    x, y = foot * along
    ax.axline((0, 0), along, color=QUERY, linewidth=1, linestyle=":")
    side = 0.13 * torch.tensor([-along[1], along[0]])
    bar = torch.stack([side, foot * along + side, foot * along - side, -side])
    ax.fill(*bar.T, facecolor=INK if foot > 0 else GROUND, edgecolor=INK, linewidth=2)
    ax.plot([key_x, x], [key_y, y], color=INK, linewidth=1.5, linestyle="--")
    away = key - foot * along
    if away.norm() > 0.1:
        up = away / away.norm()
        corner = foot * along + 0.25 * torch.stack([along, along + up, up])
        ax.plot(*corner.T, color=INK, linewidth=1.5)
    for end, role, form, size in ((key, KEY, "s", 13), (query, QUERY, "o", 9)):
        ax.plot([0, end[0]], [0, end[1]], color=role)
        ax.plot(*end, form, color=role, markersize=size)
    ax.annotate("q", query, (5, -26), textcoords="offset points", color=QUERY, fontsize=22)
    beside = {"textcoords": "offset points", "ha": "center", "va": "center"}  # off the query's line
    ax.annotate("k", key, tuple(20 * side / side.norm()), color=KEY, fontsize=22, **beside)
    ax.set(xlim=(-2.7, 3.9), ylim=(-2.7, 3.9), aspect="equal", xticks=[-2, 0, 2], yticks=[-2, 0, 2])
    ax.spines[:].set(visible=True, color=RULE)
    ax.tick_params(labelsize=16)
    product = f"{foot:.2f} × {query.norm():.2f} = {key @ query:g}".replace("-", "−")
    ax.set_xlabel(f"foot times length = {product}", fontsize=16)
    ax.set_title("Only the part along q counts", fontsize=19)


explore(
    project,
    figsize=(5, 5.4),
    alt="A query, a key, and the foot of the key on the query's line.",
    key_x=(-2.0, 3.0, 0.5),
    key_y=(-2.0, 3.0, 0.5),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of the query (2, 1), with a circle at its end, and a key, with a
# square at its end, which two sliders move. A perpendicular runs from the key to its foot on the
# query's line, a thick bar from the origin to the foot; the bar is hollow where the foot is behind
# the origin. The key (1, 3) begins: its foot is the end of the query, and the product is 5.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes, with arms: one along the query, one along each key. The sign is what the room must
# take away. Move the key to (1, 0.5) and to (2, 1): twice the norm, twice the product. Then to
# (−1, 2), a right angle, and to (−2, −1), which is opposite.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Random vectors
#
# Let all entries again be independent, with mean 0 and variance 1. Since the dot product then has
# mean 0, its standard deviation tells how large it typically is.
#
# **Predict.** What is the standard deviation of $q\cdot k$ for $d = 1024$: about 1, about 32, or
# about 1,024?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Measures the standard deviations and draws them beside the theory
sizes = [2**power for power in range(1, 13)]  # 2, 4, 8, ..., 4096
torch.manual_seed(0)
deviations = {}
for d in sizes:
    products = (torch.randn(4000, d) * torch.randn(4000, d)).sum(dim=-1)
    deviations[d] = products.std().item()
figure, ax = plt.subplots(figsize=(9.5, 4.1))
ax.loglog(sizes, [d**0.5 for d in sizes], color=GREY, label=r"$\sqrt{d}$")
ax.loglog(sizes, list(deviations.values()), "o", color=INK, markersize=9, label="measured")
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
ax.set_xlabel("dimension d", fontsize=15)
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

# %% [markdown] slideshow={"slide_type": "skip"}
# It is about 32, the root of 1,024, and the proof is short.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Vote before you show the figure. Expect 1 ('the entries are about 1') and 1,024
# ('there are 1,024 terms'). The second would be right if all terms were equal. Their signs differ,
# so most of the sum cancels, as in a random walk of 1,024 steps.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why the variance is $d$
#
# Since all entries are independent, with mean 0 and variance 1, each product $q_i k_i$ has mean 0
# and variance $E[q_i^2]\,E[k_i^2] = 1$. Variances of independent terms add up:
#
# $$\operatorname{Var}(q\cdot k) = \sum_{i=1}^d 1 = d, \qquad \text{standard deviation } \sqrt d.$$

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws forty dot products term by term, with the root of d beside them
torch.manual_seed(0)
sums = (torch.randn(40, 1024) * torch.randn(40, 1024)).cumsum(dim=1)
figure, ax = plt.subplots(figsize=(9.5, 2.9))
ax.plot(range(1, 1025), sums.T, color=RULE, linewidth=1)
ax.plot(range(1, 1025), sums[0], color=INK, linewidth=2)
for sign, name in ((1, r"$\sqrt{d}$ = 32"), (-1, "−32")):
    ax.plot(sign * torch.arange(1025).sqrt(), color=INK, linewidth=2, linestyle="--")
    ax.text(1035, 32 * sign, name, va="center", fontsize=14)
ax.set(xlim=(0, 1150), ylim=(-100, 100), xticks=[0, 256, 512, 768, 1024], yticks=[-100, 0, 100])
ax.set_xlabel("number of terms d", fontsize=14)
ax.set_ylabel("sum so far", fontsize=14)
ax.set_title(r"Terms of both signs cancel: the sum's typical size is only $\sqrt{d}$", fontsize=16)
plt.show()
assert sums.abs().max() < 100 and 0.5 < (sums[:, -1].abs() < 32).float().mean() < 1

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: forty dot products, added term by term up to 1,024 terms. The lines begin at 0, wander up
# and down, and spread slowly. Most end between the two dashed curves, plus and minus the root of
# $d$, which reach 32 and −32, and none of them leaves the range from −100 to 100.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The proof needs independence and the mean 0, but no particular shape of the distribution.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. If the room prefers numbers, begin at the board with d = 2 and entries +1 and -1: the
# query (1, 1) and its four keys give 2, 0, 0, -2, which has variance 2, and every other query gives
# the same four numbers. Then ask which step of the proof needs independence (both: the product of
# the means of squares, and the sum) and which needs mean 0 (the mean of a product, and
# $E[q_i^2] = 1$). Exercise 3.3 takes mean 0 away.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a softmax does with large scores
#
# The scores 1, 2, 3 give the weights 0.09, 0.24, 0.67.
#
# **Question.** What are the weights if all scores are ten times as large?

# %% slideshow={"slide_type": "fragment"}
print([round(weight, 2) for weight in torch.tensor([10.0, 20.0, 30.0]).softmax(dim=0).tolist()])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The differences are ten times as large as well, so the softmax is **saturated**: one weight is
# close to 1, and all others are close to 0.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the weights before you show them. 'The same: a softmax sees only differences'
# is a good wrong answer, because the differences also grow tenfold. On the board: e^-10 is about
# 0.00005.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The slope of a saturated softmax
#
# How far apart are the scores of two random keys? They differ by $q\cdot(k_0 - k_1)$. Since the
# entries of $k_0 - k_1$ have variance 2, this gap has standard deviation $\sqrt{2d}$, which is 2, 8
# and 32 for $d = 2$, 32 and 512. How much slope $\alpha_j\,(1 - \alpha_j)$ is left at such gaps?

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Prints the smaller of two weights, and its slope, for four gaps
for gap in (0.0, 2.0, 8.0, 32.0):
    alpha = torch.tensor([gap, 0.0], dtype=torch.float64).softmax(dim=0)
    print(f"gap {gap:2.0f}   small weight {alpha[1]:.2g}   slope {alpha.prod():.2g}")

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the weight against the gap, and below it where the gaps of random keys lie
torch.manual_seed(0)
figure, (curve, strip) = plt.subplots(2, 1, figsize=(9.5, 3.5), sharex=True)
gaps = torch.linspace(-75, 75, 601)
curve.plot(gaps, gaps.sigmoid(), color=WEIGHT)
curve.set(ylabel="weight", yticks=[0, 1])
for row, d in enumerate((2, 32, 512)):
    query, key_0, key_1 = torch.randn(3, 150, d)
    gap = (query * (key_0 - key_1)).sum(dim=-1)
    strip.plot(gap, [row] * 150, "|", color=INK, markersize=13, markeredgewidth=1)
for ax in (curve, strip):
    ax.axvspan(-4.6, 4.6, color=PALE, zorder=0)  # outside it the slope is below 0.01
strip.set_yticks(range(3), ["d = 2", "d = 32", "d = 512"])
strip.set(xlim=(-75, 75), ylim=(2.6, -0.6), xlabel="gap between two scores")
figure.suptitle("The larger d, the fewer gaps lie where the curve has a slope", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: above, the weight of one of two keys against the gap of their scores, a curve that rises
# from 0 to 1 between gaps of about −5 and 5 and is flat elsewhere. Below, the gaps of 150 random
# pairs of keys as ticks. For $d = 2$ nearly all lie where the curve rises, for $d = 32$ fewer
# than half, and for $d = 512$ few.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# A gradient that passes back through the softmax is multiplied by this slope. At a gap of 32 the
# slope is $10^{-14}$, and almost nothing reaches query and keys.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. How fast training moves a weight depends on its slope. Write the gap on the board and
# ask where the 2 comes from: the variances of k0 and k1 add up. In the picture, the slope is above
# 0.01 in the grey band only. The small weight is about e^-32, and e^2.3 is about 10, so 32 divided
# by 2.3 gives the 14.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Divide by the standard deviation
#
# Since the scores have standard deviation $\sqrt d$, dividing them by $\sqrt d$ gives them standard
# deviation 1 for every $d$. This is the **scaled dot product**:
#
# $$a(q, k) = \frac{q\cdot k}{\sqrt d}$$
#
# Here are the five keys in dimension 1,024 again, with scores divided by $\sqrt{1024} = 32$:

# %% slideshow={"slide_type": "fragment"}
five_keys(1024, divisor=32)

# %% [markdown] slideshow={"slide_type": "skip"}
# In chapter 1's words, $\sqrt d$ is a **temperature**. Vaswani et al. (2017), who introduced the
# factor, suspected that large products saturate the softmax.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. This answers the question of the opening: look at the first guesses. In chapter 1's
# words the root of d is a temperature. An objection that good students make, 'you divide the
# gradients, too', has a slide of its own.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What the division does
#
# ### Weights from $d = 4$ to 1,024
#
# In this view one query meets ten keys, for five $d$. From which $d$ on does one key hold more than
# 90% of the weight, and is it always the same key? Try other queries, then divide by $d$.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the scores and weights of a query for five d
torch.manual_seed(0)
view_queries, view_keys = torch.randn(400, 1, 4096), torch.randn(400, 10, 4096)
five = [4, 16, 64, 256, 1024]
scores_for = {d: (view_queries[..., :d] @ view_keys[..., :d].mT).squeeze(1) for d in five}


def five_sizes(figure, query=31, divide_by="√d"):
    axes = figure.subplots(3, 5, sharex=True, sharey="row")
    for (top, middle, bottom), d in zip(axes.T, five, strict=True):
        scores = scores_for[d][query]
        divided = scores / {"√d": d**0.5, "d": d}[divide_by]
        top.bar(range(10), scores, color=GREY)
        top.axhline(0, color=INK, linewidth=1)
        top.set_title(f"d = {d}", fontsize=18)
        for ax, ten in ((middle, scores), (bottom, divided)):
            ax.bar(range(10), ten.softmax(dim=0), color=WEIGHT)
            ax.axhline(0.9, color=INK, linewidth=1.5, linestyle="--")
            ax.set(ylim=(0, 1.04), xticks=[], yticks=[0, 0.9])
    axes[0, 0].set(ylim=(-90, 90), yticks=[-50, 50])
    rows = "scores", "weights", f"divided\nby {divide_by}"
    for ax, row in zip(axes[:, 0], rows, strict=True):
        ax.set_ylabel(row, fontsize=17)
        ax.tick_params(labelsize=16)
    figure.supxlabel("ten keys", color=KEY, fontsize=17)
    figure.suptitle("Large scores have one winner, divided scores have none", fontsize=20)


explore(
    five_sizes,
    figsize=(9, 4.6),
    alt="The ten scores of a query, their weights, and the weights after dividing, for five d.",
    query=(24, 39),
    divide_by=["√d", "d"],
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view with a column of three panels for each of $d$ = 4, 16, 64, 256 and
# 1,024: the ten scores of a query as bars, its ten weights, and its weights after dividing, with a
# line at 0.9. From 64 on, one bar of the weights is above the line, each time another; after
# dividing by $\sqrt d$, none is.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says of the view
of_one_query = {d: scores_for[d][31].softmax(dim=0) for d in five}
assert [d for d in five if of_one_query[d].max() > 0.9] == [64, 256, 1024]
assert len({of_one_query[d].argmax().item() for d in (64, 256, 1024)}) == 3
share = {d: (s.softmax(dim=-1).amax(dim=-1) > 0.9).float().mean() for d, s in scores_for.items()}
assert [round(100 * share[d].item()) for d in (4, 64, 1024)] == [5, 64, 90]
assert all((scores_for[d] / d**0.5).softmax(dim=-1).max() < 0.9 for d in five)
assert (scores_for[1024] / 1024).softmax(dim=-1).max() < 0.11

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. The controls work on the slide. Point from the left and let the room say 'stop' at
# 90%: at d = 64, with this query (two thirds of all have a winner there). Go on: it changes. Ask
# for the chain downwards: wide scores, one winner. Below, divided by √d, no key passes 90%. Only if
# there is time ask why not by d: the weights become almost equal, so what would a query be for?

# %% [markdown] slideshow={"slide_type": "skip"}
# In the picture, one key holds more than 90% from $d = 64$ on, but each time another one: each $d$
# takes the first $d$ entries of the same vectors. Queries differ, but over all 400 the tendency is
# the same: 5% of them have such a key at $d = 4$, 64% at 64 and 90% at 1,024. After division by
# $\sqrt d$, no key reaches 90% for any of the 400 queries. After division by $d = 1024$, all keys
# get about 10%, as in a plain average, so the query has almost no influence.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does the division only shrink the gradient?
#
# Dividing the scores by 32 also divides their gradient by 32, so is anything won? To find out,
# let 400 queries meet ten random keys and values each, with $d = 1024$, and measure the gradient
# that arrives at each query, with the factor $1/32$ included.


# %% slideshow={"slide_type": "skip"}
def gradient_at_queries(score, seed):
    torch.manual_seed(seed)
    queries, keys = torch.randn(400, 1, 1024, requires_grad=True), torch.randn(400, 10, 1024)
    values = torch.randn(400, 10, 1)
    (score(queries, keys).softmax(dim=-1) @ values).sum().backward()
    return queries.grad.double().norm(dim=-1).squeeze(-1)  # (400,); tiny squares need float64


# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Is the *median* of the 400 gradients larger with the division or without? And the
# *mean*?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Measures the median and the mean of the gradients in 20 draws, without the division and with it
for score in (dot_score, scaled_dot_score):
    norms = torch.stack([gradient_at_queries(score, seed) for seed in range(20)])  # (20, 400)
    medians, means = norms.median(dim=1).values, norms.mean(dim=1)
    print(f"{score.__name__:16}  median {medians.min():.2g} to {medians.max():.2g}", end="")
    print(f"   mean {means.min():.2g} to {means.max():.2g}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In all 20 draws, the median is more than a thousand times as large with the division, but the mean
# is **larger without** it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes, two votes: median and mean. The room expects the same answer twice. Median: 1,600 to
# 28,000 times as large with the division, in 20 draws. Mean: 0.22 to 0.37 times.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Near ties receive the gradient
#
# Some queries must receive very large gradients. To find them, we draw each gradient against the
# gap between the query's best two scores:


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws each query's gradient against the gap of its best two scores
def gap_of_the_best_two(seed):
    torch.manual_seed(seed)
    scores = dot_score(torch.randn(400, 1, 1024), torch.randn(400, 10, 1024))
    best = scores.squeeze(1).topk(2).values
    return best[:, 0] - best[:, 1]  # (400,)


for seed in range(20):  # what the text says of near ties
    near, norms = gap_of_the_best_two(seed) < 5, gradient_at_queries(dot_score, seed)
    assert 0.16 <= near.float().mean() <= 0.25 and norms[near].sum() > 0.97 * norms.sum()
    norms = gradient_at_queries(scaled_dot_score, seed)
    assert 0.15 < norms[near].sum() / norms.sum() < 0.28
figure, ax = plt.subplots(figsize=(9.5, 3.3))
for score, name, style in (
    (scaled_dot_score, r"divided by $\sqrt{d}$", {"color": INK, "marker": "o"}),
    (dot_score, "plain dot product", {"color": GREY, "marker": "x"}),
):
    norms = gradient_at_queries(score, 0)
    ax.semilogy(gap_of_the_best_two(0), norms, linestyle="", markersize=5, label=name, **style)
ax.set(ylim=(1e-32, 1e5), yticks=[1e-30, 1e-20, 1e-10, 1])
ax.minorticks_off()
ax.set_xlabel("gap between the query's best two scores, before the division", fontsize=14)
ax.set_ylabel("gradient at the query", fontsize=14)
ax.set_title("Without the division, gradient comes from the near ties", fontsize=16)
ax.legend(frameon=False, loc="lower left", fontsize=14)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the gradient that arrives at each of 400 queries, on a logarithmic axis, against the gap
# between its best two scores. Crosses, the plain dot product: from above 1 at a gap near 0 they
# fall along a straight band, to about $10^{-12}$ at a gap of 30 and further. Dots, divided by the
# root of $d$: they lie in a level band a little below 1, whatever the gap.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Without the division, the queries with a gap below 5, about a fifth of all, receive more than 97%
# of the sum of the gradients. With the division they receive about a fifth.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The division does not make more gradient. It **spreads** it over all queries.

# %% [markdown] slideshow={"slide_type": "skip"}
# All this describes the first step of training, with random vectors. It does not say how well a
# model learns in the end.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let them find the queries that can learn without the division: the crosses at the
# left. 'Does it train better?' This measures only the first step. Vaswani et al. write 'we
# suspect'.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# In the second half you write and compare scores, and build attention.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From distance to dot product
#
# So far we have taken the dot product for granted, while the Gaussian score of chapter 2 prefers
# the nearest key. To compare the two, expand the squared distance, here for the query (1, 0) and
# three keys:
#
# $$-\tfrac12\lvert q-k\rvert^2 = q\cdot k - \tfrac12\lvert k\rvert^2 - \tfrac12\lvert q\rvert^2$$
#
# | key | $q\cdot k$ | $-\frac12\lvert k\rvert^2$ | $-\frac12\lvert q\rvert^2$ | sum |
# |---|---|---|---|---|
# | 0 at (1, 0) | 1 | −0.5 | −0.5 | **0** |
# | 1 at (3, 0) | 3 | −4.5 | −0.5 | **−2** |
# | 2 at (0, 1) | 0 | −0.5 | −0.5 | **−1** |

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Then ask: 'one of the three terms can be left out without changing any weight; which
# one?' Ten seconds, with fingers: 1, 2 or 3. Some say the middle term, 'it holds no query'. Ask
# whether -0.5, -4.5, -0.5 is a number that all keys share.

# %% [markdown] slideshow={"slide_type": "skip"}
# With this formula, one matrix product and the squared norms score all pairs of a batch, because
# `@` multiplies the last two axes and treats the axes before them as a list of matrices. Write this
# score before you read ours. `check`, `hint("3.4")` and `solution("3.4")` help, as in chapter 1.

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.4** · complete a function
#
# Complete `distance_score`. It should equal `gaussian_score(queries, keys)`, but without a loop and
# without a (Q, K, D) tensor: squared norms and a matrix product are enough (the book's exercise 1).
# In shapes, \* is any leading axes, or none. The scores keep the dtype of the inputs, and
# gradients reach queries and keys.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# In our solution, `.mT` exchanges the last two axes. Half of a query's squared norm is subtracted
# from its whole row of scores, and half of a key's from its whole column.


# %% slideshow={"slide_type": "skip"}
def plain_distance_score(queries, keys):
    products = queries @ keys.mT  # (*, Q, D) @ (*, D, K) -> (*, Q, K)
    query_term = queries.square().sum(dim=-1, keepdim=True) / 2  # (*, Q, 1)
    key_term = keys.square().sum(dim=-1).unsqueeze(-2) / 2  # (*, 1, K)
    return products - query_term - key_term


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The norm of a key as a fee
#
# The term $-\frac12\lvert q\rvert^2$ is the same for every key and cancels in the softmax. The term
# $-\frac12\lvert k\rvert^2$ differs, and you can read it as a fee that a key pays for its norm.
# **The dot product is the Gaussian score without the fee.**

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the query and three keys, and the keys' weights with the fee and without
query, three_keys = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
assert gaussian_score(query, three_keys).tolist() == [[0, -2, -1]]  # the table above
figure, (plane, shares) = plt.subplots(1, 2, figsize=(11.5, 3.6))
for j, (x, y) in enumerate(three_keys.tolist()):
    low = 0.28 * (j == 1)  # drawn lower, so that all are seen
    plane.plot([0, x], [-low, y - low], color=KEY)
    plane.plot(x, y - low, "s", color=KEY, markersize=11)
    plane.annotate(f"key {j}", (x, y - low), (10, 8), textcoords="offset points", color=KEY)
plane.plot(*query[0], "o", color=QUERY, markersize=20, markerfacecolor="none", markeredgewidth=2.5)
plane.annotate("query", query[0].tolist(), (-66, 9), textcoords="offset points", color=QUERY)
plane.set(xlim=(-0.2, 3.7), ylim=(-0.5, 1.4), xlabel="first coordinate", yticks=[0, 1])
plane.set_aspect("equal")
plane.set_title("key 0 equals the query, key 1 is longer")
named = {"with the fee (Gaussian)": gaussian_score, "without (dot product)": dot_score}
for (name, score), shift, fill in zip(named.items(), (-0.2, 0.2), (GROUND, WEIGHT), strict=True):
    bars = shares.bar(
        torch.arange(3) + shift,
        score(query, three_keys).softmax(dim=-1)[0],
        width=0.38,
        facecolor=fill,
        edgecolor=WEIGHT,
        linewidth=2,
        label=name,
    )
    shares.bar_label(bars, fmt="%.2f")
shares.set_xticks(range(3), ["key 0", "key 1", "key 2"])
shares.set(ylim=(0, 1.25), ylabel="weight", yticks=[0, 0.5, 1])
shares.legend(frameon=False, loc="upper left", ncols=2, fontsize=12)
figure.suptitle("Without the fee, the longest key wins here", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, three keys as squares at the end of their lines: key 0 at (1, 0), with the query as
# a ring around it, key 1 at (3, 0), drawn a little lower, and key 2 at (0, 1). Right, the weights
# of the three keys. With the fee they are 0.67, 0.09, 0.24, and without it 0.11, 0.84, 0.04.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Where all keys have the same norm, they pay the same fee, so both scores give the same weights.
# *Going further* asks whether a Transformer has such keys.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks our score, and which of the two squared norms the weights depend on
torch.manual_seed(0)
X, Y = torch.randn(8, 125, 64), torch.randn(8, 10, 64)
scores, with_fee = gaussian_score(X, Y), dot_score(X, Y) - Y.square().sum(-1).unsqueeze(-2) / 2
torch.testing.assert_close(plain_distance_score(X, Y), scores, atol=1e-4, rtol=1e-4)
assert (with_fee.softmax(dim=-1) - scores.softmax(dim=-1)).abs().max() < 1e-4
assert (dot_score(X, Y).softmax(dim=-1) - scores.softmax(dim=-1)).abs().max() > 0.99
print("checked: our score is the package's, and without the query's term all weights stay")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before the picture which key gains without the fee. Then ask which score is
# right. Neither: a query is a question, and the best answer need not look like it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Scaled dot-product attention
#
# To put the pieces together, write all queries of a sentence as the rows of a matrix $\mathbf Q$,
# its keys as the rows of $\mathbf K$ and its values as the rows of $\mathbf V$. Then one formula
# gives all outputs:
#
# $$\operatorname{softmax}\!\left(\frac{\mathbf Q\,\mathbf K^\top}{\sqrt d}\right)\mathbf V$$

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws who feeds what in scaled dot-product attention
schematic("scaled dot-product")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows from left to right. Queries (B, Q, D) times the transpose of the keys
# (B, K, D), divided by the root of D, give scores (B, Q, K). A softmax over the keys makes weights
# (B, Q, K). Weights times values (B, K, V) give the output (B, Q, V).*

# %% [markdown] slideshow={"slide_type": "skip"}
# Bold letters are matrices. In the picture, the letters in brackets are counts: $B$ sentences, $Q$
# queries, $K$ keys, $D$ entries of a query or key ($d$ in formulas), $V$ entries of a value.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Before you show the boxes, ask for the shape of each product in the formula, with
# 3 queries and 5 keys of 7 numbers. Which axis does the softmax take? 'The last' is right, and 'the
# keys' is the better answer. Ask where the 7 goes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A batch at once
#
# Here are two sentences, 'the cat sleeps' and 'dogs bark'. The second is filled up with **padding**
# to the same length. In each sentence, the verb asks whether its subject is singular or plural, so
# its query looks for a noun.

# %% slideshow={"slide_type": "skip"}
noun, verb, article, padding = 2 * torch.eye(4)  # what a key says of its word
singular, plural, neither = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])  # what a value says
# the cat sleeps, dogs bark <pad>
keys = torch.stack([article, noun, verb, noun, verb, padding]).reshape(2, 3, 4)
values = torch.stack([neither, singular, neither, plural, neither, neither]).reshape(2, 3, 2)
queries = torch.stack([noun, noun]).reshape(2, 1, 4)  # one query in each sentence

print(queries @ keys.mT / math.sqrt(4))  # (2, 1, 4) @ (2, 4, 3) -> (2, 1, 3)

# %% [markdown] slideshow={"slide_type": "skip"}
# As `@` computes one product per sentence, a query meets only the keys of its own sentence. By
# hand, the noun's score is $2\cdot2/\sqrt4 = 2$ and the other scores are 0, so the noun gets weight
# $e^2/(e^2 + 1 + 1) = 0.79$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Dot-product attention, built
#
# The layer computes $\operatorname{softmax}(\mathbf Q\mathbf K^\top/\sqrt d)\,\mathbf V$. Its
# argument `valid_lens` says how many keys of each sentence are words, because padding must get
# weight 0.

# %% [markdown] slideshow={"slide_type": "skip"}
# For this, `plain_masked_softmax` replaces the scores of padding by the lowest number before the
# softmax and sets their weights to 0 after it. Chapter 4 says why both are needed. `reshape` makes
# lengths (B,) and lengths (B, Q) fit beside (B, Q, K). **Dropout** sets random weights to 0 in
# training, and `eval()` switches it off.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_masked_softmax(scores, valid_lens=None):  # (batch, queries, keys) -> the same
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
        scores = queries @ keys.mT / math.sqrt(queries.shape[-1])  # (batch, queries, keys)
        self.attention_weights = plain_masked_softmax(scores, valid_lens)
        return self.dropout(self.attention_weights) @ values  # (batch, queries, size of a value)


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Read the three lines of `forward` beside the formula, and let the room say the
# shapes. `plain_masked_softmax` is on the page: a softmax over the keys that gives padding the
# weight 0. Chapter 4 builds it. Dropout sets random weights to 0 in training and is switched off
# by `eval()`. On the page the verb of `dogs bark <pad>` looks for its subject, without lengths and
# with them.

# %% [markdown] slideshow={"slide_type": "skip"}
# Does 'bark' find its subject in `dogs bark <pad>`? Here are its weights and its output (singular,
# plural), first without lengths and then with them:

# %% slideshow={"slide_type": "skip"}
attend, qkv = PlainDotProductAttention(dropout=0.1).eval(), (queries, keys, values)
for valid_lens in (None, torch.tensor([3, 2])):
    output = attend(*qkv, valid_lens)
    print(attend.attention_weights[1, 0], output[1, 0])

# %% [markdown] slideshow={"slide_type": "skip"}
# It does, both times. Without lengths the padding takes 11% of the weight, so with them 'dogs' gets
# 88% instead of 79%. PyTorch's own function and the package's layer give the same outputs:

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares our layer with PyTorch's function and with the package's layer
package = DotProductAttention(dropout=0.1).eval()
print(torch.allclose(attend(*qkv), F.scaled_dot_product_attention(*qkv)))
print(torch.allclose(attend(*qkv, valid_lens), package(*qkv, valid_lens)))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Query and key of different size
#
# A query of 2 numbers and a key of 3 numbers have no dot product, but a learned matrix between them
# can join the two. This is the **bilinear** score (Luong et al., 2015):
#
# $$a(q, k) = q^\top M\, k \qquad\text{or, with two matrices,}\qquad
#   (W_q\, q)\cdot(W_k\, k) = q^\top W_q^\top W_k\, k$$
#
# By hand with $q = (1, 2)$, $k = (1, 0, 1)$ and $M = \begin{pmatrix}1&0&2\\0&1&1\end{pmatrix}$:

# %% [markdown] slideshow={"slide_type": "fragment"}
# First $q^\top M = (1, 2, 4)$, then $(1, 2, 4)\cdot(1, 0, 1) = 5$.

# %% [markdown] slideshow={"slide_type": "skip"}
# The Transformer learns the two matrices, which bring query and key to one dimension $d$. Even
# where the sizes are equal already, they let a query look for something unlike itself, as *Going
# further* shows.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room work out the score of the example before you show it: half a minute. Why
# two matrices? For queries of 20 and keys of 30 numbers M has 600 parameters, and two halves that
# meet at 4 numbers have 200. The score may go one way: the subject need not look for the verb.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A small network as a score
#
# The first attention in translation (Bahdanau, Cho and Bengio, 2015) does without a product of
# query and key. It projects both to dimension $h$, **adds** them, and turns the sum into a score by
# a tanh and a learned vector $w_v$:
#
# $$a(q, k) = w_v^\top \tanh(W_q\, q + W_k\, k)$$
#
# By hand, let query, key and projection have one entry each, and let every parameter be 1. What
# are the scores of the query 1 with the keys 1, −1, −3?

# %% [markdown] slideshow={"slide_type": "fragment"}
# They are $\tanh 2$, $\tanh 0$ and $\tanh(-2)$, that is 0.96, 0 and −0.96.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in the additive score
d = Diagram("A network with one hidden layer of h units scores the pair", 10, 2.9)
query = d.box("query\n(D)", 0.75, 1.85, 1.1, kind=TENSOR)
key = d.box("key\n(D')", 0.75, 0.75, 1.1, kind=TENSOR)
to_q = d.box("$W_q$", 2.4, 1.85, 0.8, 0.6, kind=LEARNED)
to_k = d.box("$W_k$", 2.4, 0.75, 0.8, 0.6, kind=LEARNED)
both = d.box("+", 4.2, 1.85, 0.6, 0.6)
squash = d.box("tanh", 5.8, 1.85, 0.9, 0.6)
join = d.box("$w_v$", 7.5, 1.85, 0.8, 0.6, kind=LEARNED)
score = d.box("score\n(1)", 9.2, 1.85, 1.1, kind=TENSOR)
d.arrow(query, to_q)
d.arrow(key, to_k)
for start, end in ((to_q, both), (to_k, both), (both, squash), (squash, join)):
    d.arrow(start, end, "(h)")
d.arrow(join, score)
d.add_legend()
d.figure

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows. A query (D) goes through the learned matrix W_q and a key (D') through
# the learned matrix W_k, which gives h numbers each. They are added, go through the tanh, and the
# learned vector w_v turns the h numbers into one score.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Because of this sum, the score is called **additive**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room add query and key first, then ask what a tanh does to 2, 0 and -2: only
# the signs, and 'nearly 1', are needed. Then point along the picture. Why a network? With one
# hidden layer it can learn many functions of a pair, and query and key may have any sizes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What is the tanh for?
#
# Suppose we leave the tanh out, so that the score is $w_v^\top(W_q\, q + W_k\, k)$. Here are
# the weights of three queries and five keys, with the tanh and without it:

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(5)
q, k, w_v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(4)  # already projected, h = 4
sums = q[:, None] + k  # (3, 5, 4)
with_tanh = (torch.tanh(sums) @ w_v).softmax(dim=-1)  # (3, 5)
without = (sums @ w_v).softmax(dim=-1)  # (3, 5)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the weights with the tanh and without it
figure, axes = plt.subplots(1, 2, figsize=(8.5, 2.9), sharey=True)
for ax, weights, name in zip(axes, (with_tanh, without), ("with tanh", "without"), strict=True):
    heatmap(ax, weights, range(3), range(5), vmax=1, numbers=True)
    ax.set_title(name)
figure.suptitle("Without the tanh every query has the same weights", fontsize=16)
plt.show()
assert torch.allclose(without, without[:1].expand(3, 5))

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps with three rows, the queries, and five columns, the keys. With the tanh the
# rows differ. Without it all three rows are equal.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the tanh, $w_v^\top W_q\, q$ is one number that all keys share. The softmax does not see
# it, and every query gets the same weights. For the query to count, the sum needs a nonlinear
# function.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Ask before you run it what the query still does; expect 'a bit weaker'. Let them
# expand the bracket on the board. It is not a bit: the query vanishes. Compare with the expanded
# square, where the same cancellation was welcome. The layer is on the page: the same last two
# lines, with this score.

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
        q = self.W_q(queries).unsqueeze(-2)  # (batch, queries, 1, h)
        k = self.W_k(keys).unsqueeze(-3)  # (batch, 1, keys, h)
        scores = self.w_v(torch.tanh(q + k)).squeeze(-1)  # (batch, queries, keys)
        self.attention_weights = plain_masked_softmax(scores, valid_lens)
        return self.dropout(self.attention_weights) @ values  # (batch, queries, size of a value)


# %% [markdown] slideshow={"slide_type": "skip"}
# By broadcasting, each query meets each key in the sum `q + k`. To test the layer with queries of
# 13 entries and keys of 7, we copy its parameters into the package's:

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks our layer against the package's, and prints the shapes of the parameters
queries, keys, values = torch.randn(2, 3, 13), torch.randn(2, 5, 7), torch.randn(2, 5, 11)
ours, package = PlainAdditiveAttention(17, 0.1).eval(), AdditiveAttention(17, 0.1).eval()
output = ours(queries, keys, values)  # the first call fixes the sizes of W_q and W_k
package.load_state_dict(ours.state_dict(), strict=True)
torch.testing.assert_close(output, package(queries, keys, values))
print({name: tuple(parameter.shape) for name, parameter in package.named_parameters()})

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which score, at what price?
#
# Take a batch of 8 sentence pairs with 128 words on each side, and $h = 256$, in float32. The
# scores themselves need half a MiB.
#
# **Predict.** How large is the tensor inside the tanh: ½ MiB, 2 MiB or 128 MiB?

# %% slideshow={"slide_type": "fragment"}
print(f"inside the tanh: {8 * 128 * 128 * 256 * 4 / 2**20:.0f} MiB")  # 4 bytes a number

# %% [markdown] slideshow={"slide_type": "fragment"}
# It is so large because the tanh needs $h$ numbers **for each pair** of query and key, where the
# dot product needs one:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws what both scores hold for four queries and four keys
figure, axes = plt.subplots(1, 2, figsize=(9.5, 2.8))
titles = "dot product: 1 number per pair", "inside the tanh: h numbers per pair"
for ax, depth, title in zip(axes, (1, 6), titles, strict=True):
    for layer in reversed(range(depth)):
        for pair in range(16):
            corner = pair % 4 + 0.3 * layer, pair // 4 + 0.3 * layer
            ax.add_patch(Rectangle(corner, 1, 1, facecolor=GROUND, edgecolor=INK, linewidth=1.2))
    ax.text(2, -0.2, "keys", ha="center", va="top", color=KEY, fontsize=14)
    ax.text(-0.2, 2, "queries", ha="right", va="center", color=QUERY, fontsize=14)
    ax.set(xlim=(-2.5, 7.5), ylim=(-0.9, 5.6), aspect="equal")
    ax.axis("off")
    ax.set_title(title)
axes[1].annotate("", (5.9, 1.4), (4.4, -0.1), arrowprops={"arrowstyle": "<->", "color": INK})
axes[1].text(5.4, 0.2, "h", fontsize=16)
figure.suptitle("The scores are a sheet, what the tanh needs is a block", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: on the left a sheet of four by four squares, a row for each query and a column for each
# key, as the dot product needs. On the right $h$ such sheets one behind the other, a block, as the
# tanh needs.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Expect 2 MiB: they project 128 queries and 128 keys and forget the pairs. In the
# picture, ask where the h numbers of one pair are: behind one another, through the block.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four scores
#
# Queries have dimension $D$ and keys $D'$. The projections $W_q q$ and $W_k k$ are computed once
# for each query and each key. The last two columns say what each pair of query and key needs after
# that, if all pairs are written out.
#
# | score | formula | sizes | parameters | multiplications | numbers held |
# |---|---|---|---|---|---|
# | Gaussian | $-\lvert q-k\rvert^2/2$ | equal | 0 | $D$ | $D$ |
# | scaled dot product | $q\cdot k/\sqrt D$ | equal | 0 | $D$ | 1 |
# | bilinear, by halves | $(W_q q)\cdot(W_k k)$ | any | $d\,(D + D')$ | $d$ | 1 |
# | additive | $w_v^\top\tanh(W_q q + W_k k)$ | any | $h\,(D + D' + 1)$ | $h$; $h$ tanhs | $h$ |

# %% [markdown] slideshow={"slide_type": "skip"}
# Since the Transformer takes the scaled dot product after $W_q$ and $W_k$, it uses the **bilinear**
# score, divided by $\sqrt d$. Vaswani et al. (2017) chose the product because it is faster in
# practice than the additive score and needs less memory. Chapter 5 uses the **additive** score.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; one minute. Ask which rows hold a vector for a pair: the Gaussian, with D, and
# the additive one, with h. Then ask which of the four the Transformer uses: the second, with W_q
# and W_k before it, which makes it the third.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - For independent entries with mean 0 and variance 1, $q\cdot k$ has variance $d$. For large $d$
#   the softmax saturates, and nearly all gradient goes to queries whose best two scores nearly tie.
# - Division by $\sqrt d$ removes this effect of $d$, and no other. It spreads the gradient over all
#   queries.
# - $\operatorname{softmax}(\mathbf Q\mathbf K^\top/\sqrt d)\,\mathbf V$ gives each query a weighted
#   average of the values.
# - The dot product is the Gaussian score without a fee on the key's norm.
# - Of the four scores, only the bilinear and the additive one take queries and keys of unequal
#   size. Written out, the additive score holds $h$ numbers for each pair.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask the first question of the hour again: why did one of five keys take everything?
# Homework: exercises 3.1 to 3.5.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it. `check`, `hint` and `solution` work as in exercise
# 3.4.

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.1** · by hand
#
# The query is (2, 1). Keys 0, 1 and 2 are (1, 1), (0, 4) and (5, −2). Which key has the largest
# dot product with the query, and which is nearest to it? Answer with two numbers, such as `(0, 1)`.

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.2** · find the bug
#
# `all_scores` should give the dot product of every query with every key. Its author has tried many
# sizes, and the shape was right each time. Work out on paper which numbers query 0 meets, and
# repair the function. The scores keep the dtype of the inputs, and gradients reach queries and
# keys.

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.3** · predict, then measure
#
# The entries of $q$ and $k$ are independent, with variance 1, but with mean **1** instead of 0, as
# after a shift. Let $d = 100$. First predict the variance of $q\cdot k$, then measure it, then find
# the exact number on paper. Answer with the exact number.

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.5** · find the bug
#
# This `attention` passed its author's test, with queries (2, 4, 16) and keys (2, 16, 16), but for
# most other sizes it is wrong. Repair it. The output keeps the dtype of the inputs, and gradients
# reach all three.

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.6** · write the test
#
# Write `test_score(implementation)` for functions that are called like `scaled_dot_score(queries,
# keys)`. It must pass on functions that are right but for rounding, and fail, by an
# `AssertionError`, on each of four broken ones: no division; division by $D$; division by the root
# of the number of keys; scores of shape (\*, K, Q).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order.

# %% [markdown] slideshow={"slide_type": "-"}
# ### Nearest key, largest product
#
# *5 minutes.* When is the fee the same for all keys? To find out, let a thousand random queries
# meet ten keys of dimension 64: as drawn; after **layer norm** (Ba et al., 2016), which gives each
# vector mean 0 and variance 1; and after layer norm and a linear layer each, as in a Transformer.


# %% slideshow={"slide_type": "skip"}
def agreement(queries, keys):
    nearest = gaussian_score(queries, keys).argmax(dim=-1)  # scores (1000, 10): query, key
    largest = dot_score(queries, keys).argmax(dim=-1)
    return (nearest == largest).float().mean().item()


agree = {"as drawn": [], "layer norm": [], "then linear": []}
for seed in range(20):
    torch.manual_seed(seed)
    drawn = torch.randn(1000, 64), torch.randn(10, 64)  # queries, keys
    normed = [F.layer_norm(vectors, (64,)) for vectors in drawn]
    linear = [nn.Linear(64, 64, bias=False)(vectors) for vectors in normed]
    for shares, case in zip(agree.values(), (drawn, normed, linear), strict=True):
        shares.append(agreement(*case))

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** In one of the three cases, the nearest key has the largest dot product for all
# queries. In which?

# %% slideshow={"slide_type": "fragment"}
for name, shares in agree.items():
    mean = sum(shares) / len(shares)
    print(f"{name:11} {mean:4.0%} in the mean of 20 draws, {min(shares):.0%} to {max(shares):.0%}")

# %% [markdown] slideshow={"slide_type": "skip"}
# After layer norm (without learned factors), because then all keys pay the same fee. By hand,
# $(1, 2, 3)$ becomes $(-1, 0, 1)$ and then $(-1.22, 0, 1.22)$, whose squared norm is 3, the number
# of entries.
#
# After the linear layer the norms of the keys differ as before, and nearest and largest agree about
# as often as drawn. So for the keys of a Transformer, leaving out the fee is a **choice**: a key of
# large norm gets a higher score from queries on its side, and a lower one from the others.

# %% [markdown] slideshow={"slide_type": "notes"}
# Take votes. For the third case expect 'still all, the norm has made them equal': draw the circle
# on which the keys lie after layer norm, and the ellipse that a matrix makes of it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the factor assumes
#
# *3 minutes.* The factor $1/\sqrt d$ assumes independent entries with mean 0 and variance 1. Here
# are two other cases, with $d = 64$. Is the standard deviation still 1 after the division?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
q, k = torch.randn(4000, 64), torch.randn(4000, 64)
to_q, to_k = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)  # as PyTorch starts them

# %% slideshow={"slide_type": "fragment"}
for name, products in (("linear layers", to_q(q) * to_k(k)), ("key = query", q * q)):
    scores = products.sum(dim=-1) / math.sqrt(64)
    print(f"{name:13} mean {scores.mean():3.1f}   standard deviation {scores.std():3.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# No. A linear layer, as PyTorch initialises it, reduces the variance of an entry to a third, so two
# of them reduce the standard deviation of the score to a third. A key that equals its query gives
# mean $64/8 = \sqrt d$, which still grows with $d$. So the factor removes the effect of $d$ on
# independent entries of mean 0, but it corrects neither for norms nor for queries and keys that
# depend on each other.

# %% [markdown] slideshow={"slide_type": "notes"}
# Wait for someone to name the assumption that breaks in each row. A third is the standard deviation
# after PyTorch's default initialisation, because each matrix multiplies the variance by a third.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Random vectors are nearly orthogonal
#
# *2 minutes.* The cosine of two random vectors shrinks like $1/\sqrt d$, while their dot product
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
# *4 minutes.* What is the fee on the norm good for? Suppose a fourth key lies inside the triangle
# of three others. For how many random queries does it have the highest score?

# %% slideshow={"slide_type": "skip"}
triangle = torch.tensor([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0], [0.5, 0.5]])
torch.manual_seed(0)
anything = torch.randn(10_000, 2)
for score in (dot_score, gaussian_score):
    wins = (score(anything, triangle).argmax(dim=-1) == 3).float().mean()
    print(f"{score.__name__:15} key 3 is first for {wins:.0%} of 10,000 queries")

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws which key each query of the plane prefers
side = torch.linspace(-4, 4, 401)
plane = torch.cartesian_prod(side, side)  # (401 * 401, 2), a column of the picture after the other
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.1), sharey=True)
fills = {"levels": [-0.5, 0.5, 1.5, 2.5, 3.5], "colors": [GROUND, PALE, RULE, TINT]}
named = {"dot product": dot_score, "Gaussian score": gaussian_score}
for ax, (name, score) in zip(axes, named.items(), strict=True):
    first = score(plane, triangle).argmax(dim=-1).reshape(401, 401).T
    ax.contourf(side, side, first, **fills)
    ax.fill(*triangle[:3].T, fill=False, edgecolor=KEY, linewidth=1.5, linestyle="--")
    ax.plot(*triangle.T, "s", color=KEY, markersize=9)
    for j, (x, y) in enumerate(triangle.tolist()):
        shift = (8, -18) if j == 2 else (8, 5)
        ax.annotate(j, (x, y), shift, textcoords="offset points", color=KEY, fontsize=16)
    ax.set(aspect="equal", xticks=[-3, 0, 3], yticks=[-3, 0, 3])
    ax.tick_params(labelsize=15)
    ax.set_title(f"{name}: {first.unique().numel()} regions", fontsize=17)
figure.suptitle("Only under the Gaussian score do queries prefer key 3", fontsize=19)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the plane of queries, twice, with keys 0, 1 and 2 as the corners of a triangle and key 3
# inside it, filled by the key that a query prefers. Under the dot product the plane is cut into
# three sectors that meet at the origin, one for each corner. Under the Gaussian score there is a
# fourth region, a triangle around key 3.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Under the dot product it is first for none, because $q\cdot k_3$ is a weighted average of the
# other three products, and so never larger than the largest of them. Under the Gaussian score,
# however, every query near key 3 prefers it.

# %% [markdown] slideshow={"slide_type": "skip"}
# Brody, Alon and Yahav (2023) call such a key 'unselectable'. Layer norm without learned factors
# puts all keys on a sphere, where none is inside the others. But in a Transformer $W_k$ follows,
# and where it leads to fewer dimensions, it may bring keys inside again.

# %% [markdown] slideshow={"slide_type": "notes"}
# Under the dot product key 3 is first for 0% of 10,000 random queries, under the Gaussian score for
# 86%. On the left, draw a query as an arrow: a line at a right angle to it, pushed outwards, leaves
# the triangle at a corner.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A bilinear score for unlike pairs
#
# *2 minutes.* Four tokens ask each other: north, east, south and west, as arrows of norm 1. With
# the plain dot product each arrow finds itself, because
# $q\cdot k = \lvert q\rvert\,\lvert k\rvert\cos\theta$ is largest at the angle 0.
#
# **Question.** Find an $M$ that makes each one find its neighbour to the right, clockwise.

# %% slideshow={"slide_type": "fragment"}
names = ["north", "east", "south", "west"]
x = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]])
M = torch.tensor([[0.0, -1.0], [1.0, 0.0]])  # x^T M is x, turned to its right
for label, matrix in (("dot product", torch.eye(2)), ("with M", M)):
    found = bilinear_score(x, x, matrix).argmax(dim=-1)
    print(f"{label:12}", {a: names[j] for a, j in zip(names, found.tolist(), strict=True)})

# %% [markdown] slideshow={"slide_type": "skip"}
# One is the matrix that turns the query clockwise by a right angle. The score goes one way: east is
# what north looks for, but north is not what east looks for. In general, $q^\top M k$ differs from
# $k^\top M q$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The package's formula
#
# *2 minutes.* The package's layer checks its inputs first, so what follows is only the formula. Its
# last three lines are those of your class: scores, weights, average. Where only the output is asked
# for, PyTorch's kernel does the three in one (chapter 10). The argument `visible` combines lengths
# and masks, and the softmax that it applies is that of chapter 4.

# %% slideshow={"slide_type": "skip"}
show_source(DotProductAttention.attend)

# %% [markdown] slideshow={"slide_type": "skip"}
# It divides the queries before the product, while yours divides after it. On paper this is the
# same, but in float16 the largest number is 65,504, and here
# $q\cdot k = 256\cdot17\cdot17 = 73{,}984$:

# %% slideshow={"slide_type": "skip"}
big = torch.full((1, 256), 17.0, dtype=torch.float16)
print("first the product ", (dot_score(big, big) / 16).item())
print("first the division", scaled_dot_score(big, big).item())

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The additive score is a small network
#
# *2 minutes.* It is a network with one hidden layer, $\tanh$ between two linear layers, whose input
# is the query and the key, concatenated. The first layer is $W_q$ beside $W_k$:

# %% slideshow={"slide_type": "skip"}
query, key = torch.randn(20), torch.randn(2)
W_q, W_k, w_v = torch.randn(8, 20), torch.randn(8, 2), torch.randn(8)
by_network = w_v @ torch.tanh(torch.cat([W_q, W_k], dim=1) @ torch.cat([query, key]))
q, k = (W_q @ query)[None], (W_k @ key)[None]
by_score = additive_score(q, k, w_v)
print("the same as the network's output:", torch.allclose(by_network, by_score))

# %% [markdown] slideshow={"slide_type": "skip"}
# Without biases, as in the book, the score is odd: if query and key both change their sign, so does
# the score.

# %% slideshow={"slide_type": "skip"}
print("odd:", torch.allclose(additive_score(-q, -k, w_v), -additive_score(q, k, w_v)))

# %% [markdown] slideshow={"slide_type": "skip"}
# ### What a score costs in time
#
# *2 minutes.* The book speaks of 'minor computational savings' of the additive score. Where $h < D$
# it saves multiplications for each pair (the projections add some), but it needs more memory than
# the dot product, and $h$ tanh for each pair. How long do both layers take for the core path's
# batch of 8 sentence pairs, where $h = D$, so that no multiplication is saved? Each time is
# processor time of one run on one thread, and the second includes the two projections.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
X = torch.randn(8, 128, 256)
for layer in (PlainDotProductAttention(0.0), PlainAdditiveAttention(256, 0.0)):
    layer(X, X, X)
    start = process_time()
    layer(X, X, X)
    print(f"{type(layer).__name__:25} {1000 * (process_time() - start):6.1f} ms")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises
#
# **3.7** · complete a function
#
# Two tokens, $x = 1$ and $x = -1$, are both queries and keys, written $(x, 1)$. Write
# `like_finds_like()` that returns three tensors of decimals, `W_q` (h, 2), `W_k` (h, 2) and `w_v`
# (h,), with an $h$ of your choice, so that under the additive score each query scores higher, by at
# least 0.01, on the key of its own sign. Then say why no parameters can do it without the constant
# 1.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Zhang, Z. C. Lipton, M. Li and A. J. Smola, *Dive into Deep Learning*, section 11.3, d2l.ai.
#   The way from the Gaussian to the dot product comes from there.
# - A. Vaswani et al. (2017), *Attention Is All You Need*. NeurIPS, arXiv:1706.03762. Section
#   3.2.1: the factor $1/\sqrt d$, the guess about saturation, and product against sum.
# - D. Bahdanau, K. Cho and Y. Bengio (2015), *Neural Machine Translation by Jointly Learning to
#   Align and Translate*. ICLR, arXiv:1409.0473. The additive score.
# - M.-T. Luong, H. Pham and C. D. Manning (2015), *Effective Approaches to Attention-based Neural
#   Machine Translation*. EMNLP, arXiv:1508.04025. Dot product and bilinear ('general') scores.
# - J. L. Ba, J. R. Kiros and G. E. Hinton (2016), *Layer Normalization*. arXiv:1607.06450.
# - S. Brody, U. Alon and E. Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers'
#   Attention*. Findings of ACL, arXiv:2305.02582. Unselectable keys.
