# %% [markdown] slideshow={"slide_type": "slide"}
# # 3 · Scoring functions
#
# **You will**
# - predict how large the dot product of two random vectors is, and explain the factor
#   $1/\sqrt d$;
# - build scaled dot-product attention and additive attention, and test both against the package;
# - say what a dot product leaves out of a distance, and choose between four scores.
#
# Core path: 45 minutes. Going further: 15. Exercises: 66.
#
# Builds on chapters 1 and 2. *Dive into Deep Learning* (D2L), section 11.3.

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
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What you need.** From chapter 1:
# - A query meets every key. Each pair gets a **score** $a_j$. The softmax turns the scores into
#   **weights** $\alpha_j$ that sum to one, and the output is the weighted sum of the values. Scores
#   (0, 1, 2) give the weights (0.09, 0.24, 0.67). With the values 10, 20, 30 the output is 25.8.
# - A softmax sees only differences: (100, 101, 102) gives the same three weights.
# - The slope of the weights is
#   $J = \frac{\partial\alpha}{\partial a} = \operatorname{diag}(\alpha) - \alpha\,\alpha^\top$.
#   With two keys its entries are $\pm\alpha_0(1 - \alpha_0)$: a quarter where both weights are ½.
#
# From chapter 2: the Gaussian score $-\tfrac12\lvert q - k\rvert^2$ prefers the nearest key.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Five keys and no training
#
# A random query meets five random keys. The score of a pair is the **dot product** $q\cdot k$.
# Every number is drawn from a normal distribution with mean 0 and variance 1, and nothing has been
# trained. We do this 1,000 times with 4 numbers in each vector, then with 1,024 numbers.
#
# **Predict.** Are the five weights shared out in the same way for both sizes?

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(3)
for d in (4, 1024):
    queries, keys = torch.randn(1000, 1, d), torch.randn(1000, 5, d)
    weights = (queries @ keys.transpose(-2, -1)).softmax(dim=-1).squeeze(1)  # (1000, 5)
    first = (100 * weights[0]).round().int().tolist()
    one_wins = (weights.amax(dim=-1) > 0.9).float().mean()
    print(f"d = {d:4d}   first draw, in percent: {first}   one key above 90%: {one_wins:.0%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 1,024 numbers one key nearly always takes almost everything, although nothing has been
# learned.

# %% [markdown] slideshow={"slide_type": "skip"}
# The next three sections explain this and repair it.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Collect guesses before you run the cell. A typical one: 'more numbers average out,
# so the weights become more equal'. Write it on the board and come back to it after the next
# section. Do not explain yet.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How large is a dot product?
#
# $$q\cdot k = \sum_j q_j k_j = \lvert q\rvert\,\lvert k\rvert\cos\theta$$
#
# Two entries of the same sign contribute a positive product, two entries of different signs a
# negative one. So the sum is large where the two vectors point the same way. It also grows with
# the length of each vector. The cosine of the angle $\theta$ does not.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws four keys beside the query (2, 1), with their dot products
arrow_to = {"same way": [2.0, 1.0], "twice as long": [4.0, 2.0]}
arrow_to |= {"right angle": [-1.0, 2.0], "opposite": [-2.0, -1.0]}
figure, axes = plt.subplots(1, 4, figsize=(11, 3.3), sharex=True, sharey=True)
for ax, (name, key) in zip(axes, arrow_to.items(), strict=True):
    product = dot_score(torch.tensor([[2.0, 1.0]]), torch.tensor([key])).item()
    ax.annotate("", key, (0, 0), arrowprops={"width": 8, "headwidth": 20, "color": "0.75"})
    ax.annotate("", (2, 1), (0, 0), arrowprops={"width": 1.5, "headwidth": 9, "color": "black"})
    ax.set_title(f"{name}: {product:.0f}".replace("-", "−"), fontsize=15)
    ax.set(
        xlim=(-2.6, 4.4), ylim=(-2.2, 3), aspect="equal", xticks=[-2, 0, 2, 4], yticks=[-2, 0, 2]
    )
    ax.axhline(0, color="0.85", linewidth=1, zorder=0)
    ax.axvline(0, color="0.85", linewidth=1, zorder=0)
figure.supxlabel("first coordinate", fontsize=13)
axes[0].set_ylabel("second coordinate")
figure.suptitle("The dot product tells direction, and it grows with length", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four panels, each with the query (2, 1) as a thin black arrow and a key as a thick grey
# arrow. The key (2, 1) points the same way, product 5. The key (4, 2) is twice as long, product 10.
# The key (−1, 2) is at a right angle, product 0. The key (−2, −1) is opposite, product −5.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes, with arms: one along the query, one along each key. The sign is what the room must
# take away. Ask what the cosine is in the second panel: 1, as in the first.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Random vectors
#
# In the simplest case a coin decides whether an entry is +1 or −1, so that it has mean 0 and
# variance 1. For $d = 2$ there are four queries and four keys, and we can list all 16 products:
#
# | product | −2 | 0 | 2 |
# |---|---|---|---|
# | how often | 4 | 8 | 4 |
#
# The mean is 0. The variance is the mean of the squares: $(4\cdot4 + 8\cdot0 + 4\cdot4)/16 = 2$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** What is the typical size (the standard deviation) of $q\cdot k$ for $d = 1024$: about
# 1, about 32, or about 1,024?

# %% slideshow={"slide_type": "fragment"}
sizes = [2**power for power in range(1, 13)]  # 2, 4, 8, ..., 4096
torch.manual_seed(0)
variances = {}
for d in sizes:
    queries, keys = torch.randn(4000, d), torch.randn(4000, d)
    variances[d] = (queries * keys).sum(dim=-1).var().item()  # of 4,000 products
print("standard deviations:", {d: round(variances[d] ** 0.5, 1) for d in (4, 64, 1024)})

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Do the 16 products on the board, then vote before running: four minutes. Most say 1 ('the entries
# are about 1') or 1,024 ('there are 1,024 terms'). The second would be right if all terms had one
# sign. They do not, so most of the sum cancels, as in a random walk of 1,024 steps.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the measured variances beside the theory
figure, ax = plt.subplots(figsize=(7, 4.2))
ax.loglog(sizes, sizes, color="0.6", label="theory: d")
ax.loglog(sizes, list(variances.values()), "o", color="tab:blue", markersize=9, label="measured")
ax.set_xticks(sizes[1::2], sizes[1::2])
ax.set_yticks(sizes[1::2], sizes[1::2])
ax.minorticks_off()
ax.set(xlabel="d, numbers in a vector", ylabel="variance of q · k")
ax.set_title("The variance of q · k equals the number of its terms")
ax.legend(frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the measured variance of dot products against $d$ from 2 to 4,096, both axes logarithmic.
# Twelve dots lie on the grey line 'variance equals d'.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why it is $d$
#
# Let all entries be independent, with mean 0 and variance 1. Then each product $q_j k_j$ has mean
# 0, and its variance is $E[q_j^2]\,E[k_j^2] = 1$. Variances of independent terms add up:
#
# $$\operatorname{Var}(q\cdot k) = \sum_{j=1}^d 1 = d, \qquad \text{standard deviation } \sqrt d.$$
#
# The shape of the distribution does not matter, but independence and the mean 0 do.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes at the board. Ask which step needs independence (both: the product of the means of
# squares, and the sum) and which needs mean 0 (the mean of a product). Exercise 3.3 takes mean 0
# away.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a softmax does with large scores
#
# The scores (1, 2, 3) give the weights (0.09, 0.24, 0.67). Scores ten times as large, (10, 20, 30),
# give (0.00, 0.00, 1.00). The softmax is **saturated**: one weight is close to 1 and all others
# are close to 0.
#
# The scores of two keys differ by $q\cdot(k_0 - k_1)$. The entries of $k_0 - k_1$ have variance 2,
# so this gap has variance $2d$:
#
# | $d$ | 2 | 32 | 512 |
# |---|---|---|---|
# | typical gap $\sqrt{2d}$ | 2 | 8 | 32 |

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The slope
#
# Training needs the slope, which tells how much a weight moves when a score moves.
#
# **Predict.** At a gap of 0 the slope is ¼. At a gap of 32, is it about a hundredth, about a
# millionth, or less?

# %% slideshow={"slide_type": "fragment"}
for gap in (0.0, 2.0, 8.0, 32.0):
    alpha = torch.tensor([gap, 0.0], dtype=torch.float64).softmax(dim=0)
    print(f"gap {gap:2.0f}   weights {alpha[0]:.4f}, {alpha[1]:.2g}   slope {alpha.prod():.2g}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A gradient that passes back through the softmax is multiplied by this slope. With a slope of
# $10^{-14}$ almost nothing of it arrives at the query and the keys.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute for the vote. Most say a millionth. The answer is eight powers of ten smaller.
# Ask what happens to a query whose first choice, made by chance, is wrong: its gradient is
# multiplied by the slope. 'Can it never recover?' It can, if the gap happens to be small; the next
# slide counts how often.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four hundred queries
#
# Not every gap is typical. So we measure 400 queries with ten keys each. The size of the slope is
# the root of the sum of the squared entries of $J$.


# %% slideshow={"slide_type": "fragment"}
def slope_size(weights):  # (..., K) -> (...)
    J = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]  # (..., K, K)
    return torch.linalg.matrix_norm(J)


torch.manual_seed(0)
queries, keys = torch.randn(400, 1, 4096), torch.randn(400, 10, 4096)
scores_for = {d: dot_score(queries[..., :d], keys[..., :d]).squeeze(1) for d in sizes}  # (400, 10)
plain = {d: slope_size(scores_for[d].softmax(dim=-1)) for d in sizes}  # d -> (400,)
for d in (4, 64, 1024):
    large = (plain[d] > 0.1).float().mean()
    print(f"d = {d:4d}   median slope {plain[d].median():.0e}   above 0.1: {large:.0%} of queries")

# %% [markdown] slideshow={"slide_type": "fragment"}
# At $d = 1024$ half of the queries have a slope below a millionth. About one query in eight keeps a
# large one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Divide by the standard deviation
#
# The scores have the standard deviation $\sqrt d$. Divided by it, they have the standard deviation
# 1 for every $d$. This is the **scaled dot product**:
#
# $$a(q, k) = \frac{q\cdot k}{\sqrt d}$$

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the size of the slope with and without the division
scaled = {d: slope_size((scores_for[d] / d**0.5).softmax(dim=-1)) for d in sizes}
figure, ax = plt.subplots(figsize=(7, 4.2))
lines = ((scaled, r"divided by $\sqrt{d}$", "o-"), (plain, "plain dot product", "s--"))
for (slopes, name, style), color in zip(lines, ("tab:blue", "black"), strict=True):
    ax.loglog(sizes, [slopes[d].median() for d in sizes], style, color=color, label=name)
ax.set_xticks(sizes[1::2], sizes[1::2])
ax.minorticks_off()
ax.set(xlabel="d, numbers in a vector", ylabel="median size of the slope")
ax.set_title(r"Divided by $\sqrt{d}$, the slope no longer depends on $d$")
ax.legend(frameon=False, loc="lower left")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the median size of the softmax's slope against $d$, both axes logarithmic. The dashed
# line of the plain dot product is level up to about 8, then falls below $10^{-10}$ at 4,096. The
# solid line, divided by the root of $d$, stays level at about 0.35.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask from which d on it starts to hurt: around 16 to 32. The picture shows medians, because one
# query in eight keeps its slope by luck.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn $d$ yourself
#
# The view shows all scores of the 400 queries, the ten weights of one query, and their slope.
#
# **Question.** Double $d$ step by step. From which $d$ on does one key hold more than 90%, and is
# it always the same key? Then tick the box. Does any $d$ still do it?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows scores, weights and slope for a chosen d
from ipywidgets import SelectionSlider


def turn(figure, d=4, divide_by_root_d=False):
    scores = scores_for[d] / (d**0.5 if divide_by_root_d else 1)
    weights = scores[31].softmax(dim=0)  # one query of the 400
    spread, shares, slopes = figure.subplots(1, 3)
    percent = torch.full((4000,), 100 / 4000)
    spread.hist(scores.flatten(), bins=range(-132, 133, 6), weights=percent, color="0.4")
    spread.set(xlim=(-132, 132), ylim=(0, 60), xlabel="score", ylabel="% of scores")
    shares.bar(range(10), weights, color="tab:blue")
    shares.set(ylim=(0, 1.02), xlabel="key", ylabel="weight", xticks=range(10))
    J = torch.diag(weights) - torch.outer(weights, weights)
    heatmap(slopes, J.abs(), range(10), range(10), vmax=0.25)
    slopes.set(xlabel="score of key ...", ylabel="... moves weight of key")


explore(
    turn,
    figsize=(11.5, 3.8),
    alt="The histogram of scores, the weights of one query and the slope of its softmax.",
    d=SelectionSlider(options=sizes, value=4),
    divide_by_root_d=False,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of three panels, for a chosen $d$: the histogram of the scores, the
# ten weights of one query as bars, and the size of the slope as a heat map.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Four minutes. The controls work on the slide. Double d slowly and let the room say 'stop' at 90%:
# at d = 64. Go on: the winner changes, four different keys win between 64 and 4,096. Ask for the
# chain from left to right: wide scores, one winner, no slope. Then tick the box and go back and
# forth: no d passes 90%.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why not divide by $d$?
#
# Division by $d$ looks just as natural, because it turns the sum of the products into their mean.
#
# **Predict.** Each query has ten keys, and $d = 1024$. How much weight does the best key get if we
# divide by 1, by 32, and by 1,024?

# %% slideshow={"slide_type": "fragment"}
for divisor in (1, 32, 1024):
    best = (scores_for[1024] / divisor).softmax(dim=-1).amax(dim=-1).median()
    print(f"divided by {divisor:4d}: the best of ten keys gets {best:.1%} (median of 400 queries)")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Divided by 1,024, the best key gets hardly more than the 10% that a plain average gives it: the
# query has almost no influence. In chapter 1's words, $\sqrt d$ is a **temperature** that fits the
# size of the vectors.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One vote for each divisor. The first is known by now; few expect that the last is almost a plain
# average. Ask what a query is for if all keys get the same.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the view shows, for every d
best = {d: scores_for[d][31].softmax(dim=0) for d in sizes}
assert [d for d in sizes if best[d].max() > 0.9] == [d for d in sizes if d >= 64]
winners = {best[d].argmax().item() for d in sizes if d >= 64}
assert len(winners) == 4
assert all((scores_for[d] / d**0.5).softmax(dim=-1).max() < 0.9 for d in sizes)
print(f"checked: in the view one key passes 90% from d = 64 on, one of the keys {sorted(winners)}")
print("checked: divided by the root of d, no key of any of the 400 queries passes 90%")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the factor assumes
#
# For independent entries with mean 0 and variance 1, the scaled scores have mean 0 and standard
# deviation 1. Here are other cases (4,000 pairs, $d = 64$):

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
q, k = torch.randn(4000, 64), torch.randn(4000, 64)
W_q, W_k = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)  # as PyTorch starts them
for name, left, right in [
    ("variance 9", 3 * q, 3 * k),
    ("after W_q and W_k", W_q(q), W_k(k)),
    ("key = query", q, q),
]:
    scores = (left * right).sum(dim=-1) / 64**0.5
    print(f"{name:18} mean {scores.mean():3.1f}   standard deviation {scores.std():3.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# So $1/\sqrt d$ removes the effect of $d$ and nothing else. Learned matrices can make the scores
# larger or smaller again, and training makes queries and keys depend on each other.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask first: 'is the variance still 1 after training?' Wait for someone to name the assumption that
# breaks. A third is the standard deviation after PyTorch's default start, because each matrix
# multiplies the variance by a third. A good moment for a break.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Scaled dot-product attention
#
# Write all queries of a sentence as the rows of a matrix $\mathbf Q$, its keys as the rows of
# $\mathbf K$ and its values as the rows of $\mathbf V$. One formula then gives all outputs:
#
# $$\operatorname{softmax}\!\left(\frac{\mathbf Q\,\mathbf K^\top}{\sqrt d}\right)\mathbf V$$

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in scaled dot-product attention
schematic("scaled dot-product")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows from left to right. Queries (B, Q, D) times the transpose of the keys
# (B, K, D), divided by the root of D, give scores (B, Q, K). A softmax over the keys makes weights
# (B, Q, K). Weights times values (B, K, V) give the output (B, Q, V).*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Cover the shapes and ask for each one. Which axis does the softmax take? 'The last'
# is right, and 'the keys' is the better answer. Ask why nothing is left of D in the output.

# %% [markdown] slideshow={"slide_type": "subslide"}
# By hand, with the query (1, 1), three keys and $\sqrt 2 \approx 1.414$:
#
# | key | $q\cdot k$ | divided by $\sqrt2$ | exp | weight | value |
# |---|---|---|---|---|---|
# | (1, 0) | 1 | 0.707 | 2.03 | 0.248 | 0 |
# | (0, 1) | 1 | 0.707 | 2.03 | 0.248 | 10 |
# | (1, 1) | 2 | 1.414 | 4.11 | 0.503 | 20 |
#
# With unrounded weights the output is $0.248\cdot 0 + 0.248\cdot 10 + 0.503\cdot 20 = 12.55$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A batch at once
#
# A batch holds $B$ sentences, and a query may meet only the keys of its own sentence. So we need
# one matrix product for each sentence. `@` does this: it multiplies the last two axes, and treats
# the axes before them as a list of matrices. (D2L calls this an elementwise product. Its elements
# are whole matrices; PyTorch's `*` does something else.)

# %% slideshow={"slide_type": "fragment"}
B, Q, K, D, V = 2, 3, 5, 7, 11  # five different sizes, so that a swapped axis cannot hide
torch.manual_seed(0)
queries, keys, values = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, V)
scores = queries @ keys.transpose(-2, -1)  # (2, 3, 7) @ (2, 7, 5)
by_sentence = torch.stack([queries[b] @ keys[b].T for b in range(B)])
print(tuple(scores.shape), "the same, one by one:", torch.allclose(scores, by_sentence))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Dot-product attention, built
#
# Sentences of a batch have different lengths. `valid_lens` says how many keys of each sentence are
# words. The keys behind them are padding and must get the weight 0. `softmax_over_keys` does that,
# and chapter 4 explains its steps.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def softmax_over_keys(scores, valid_lens=None):  # (B, Q, K) -> (B, Q, K)
    if valid_lens is None:
        return scores.softmax(dim=-1)
    lens = valid_lens.reshape(len(scores), -1, 1)  # (B, 1, 1), or (B, Q, 1)
    hidden = torch.arange(scores.shape[-1]) >= lens  # (B, 1, K): True for padding
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)  # the lowest number
    return scores.softmax(dim=-1).masked_fill(hidden, 0)


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainDotProductAttention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        d = queries.shape[-1]
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(d)  # (B, Q, D) @ (B, D, K)
        self.attention_weights = softmax_over_keys(scores, valid_lens)  # (B, Q, K)
        return self.dropout(self.attention_weights) @ values  # (B, Q, K) @ (B, K, V)


# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Four minutes: build it line by line at the keyboard if you can. Dropout sets random weights to 0
# in training and is switched off by `eval()`. The function for the lengths is in the notebook.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Dropout sets random weights to 0 in training, and `eval()` switches it off. The layer has no
# parameters to hand over. We compare it with PyTorch's own function and with the package's layer.

# %% slideshow={"slide_type": "-"}
ours, package = PlainDotProductAttention(0.1).eval(), DotProductAttention(0.1).eval()
qkv, valid_lens = (queries, keys, values), torch.tensor([2, 4])  # sentence 0 has 2 words
torch.testing.assert_close(ours(*qkv), F.scaled_dot_product_attention(*qkv))
torch.testing.assert_close(ours(*qkv, valid_lens), package(*qkv, valid_lens))
print("sentence 0, query 0:", [round(w, 2) for w in ours.attention_weights[0, 0].tolist()])

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the package adds
#
# `DotProductAttention` gives the same output, and does more:
# - It checks all shapes first, so that an error names the argument that does not fit.
# - It takes further masks (chapter 4). It also replaces keys and values that nobody may see by
#   zeros, because a weight of 0 times NaN is NaN.
# - It calls PyTorch's **fused kernel**, which goes through the keys in blocks and need not hold
#   all weights (chapter 10). `attention_weights` is computed only when you read it.
# - Its `scaled_dot_score` divides the queries before the product, so that the product overflows
#   less easily in half precision.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Ask what a layer that returns no weights has to hold in memory. Most say the whole
# matrix of weights. How a kernel avoids that is chapter 10.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From distance to dot product
#
# Chapter 2 scored by distance. What changes when we score by product? Expand the square of the
# Gaussian score, here with the query (1, 0) and three keys:
#
# $$-\tfrac12\lvert q-k\rvert^2 = q\cdot k - \tfrac12\lvert k\rvert^2 - \tfrac12\lvert q\rvert^2$$
#
# | key | $q\cdot k$ | $-\frac12\lvert k\rvert^2$ | $-\frac12\lvert q\rvert^2$ | sum |
# |---|---|---|---|---|
# | 0 at (1, 0) | 1 | −0.5 | −0.5 | **0** |
# | 1 at (3, 0) | 3 | −4.5 | −0.5 | **−2** |
# | 2 at (0, 1) | 0 | −0.5 | −0.5 | **−1** |

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Expand the square on the board. Then ask: 'one of the three terms can be left out without
# changing any weight; which one?' Ten seconds, with fingers: 1, 2 or 3. Some say the middle term,
# 'it holds no query'. Ask whether -0.5, -4.5, -0.5 is a number that all keys share. Four minutes
# with the next slide.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A fee on length
#
# $-\frac12\lvert q\rvert^2$ is the same for every key, so the softmax does not see it.
# $-\frac12\lvert k\rvert^2$ differs from key to key. You can read it as a fee that a key pays for
# its length: key 1 pays 4.5, the others 0.5. **The dot product is the Gaussian score without the
# fee.** The weights of the three keys:
#
# | key | 0, equal to the query | 1, same way and longer | 2, at a right angle |
# |---|---|---|---|
# | with the fee (Gaussian) | **0.67** | 0.09 | 0.24 |
# | without (dot product) | 0.11 | **0.84** | 0.04 |

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### When all keys pay the same
#
# If all keys have one length, all pay the same fee, and the softmax does not see it. **Layer norm**
# (Ba et al., 2016) without its learned factors makes keys of one length: it subtracts the mean of a
# vector's entries and divides by their standard deviation. By hand, where the standard deviation is
# $\sqrt{2/3}$:
#
# $$(1, 2, 3)\;\to\;(-1, 0, 1)\;\to\;(-1.22, 0, 1.22)$$
#
# The squared length of the result is 3, the number of entries.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Nearest key, largest product
#
# A thousand random queries meet ten keys of 64 numbers. The keys are taken in three ways: as drawn,
# after layer norm, and after layer norm and a matrix $W_k$, which is the order in a Transformer
# (chapter 8).
#
# **Predict.** For how many queries does the nearest key also have the largest dot product, in each
# of the three cases?

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
queries, drawn = torch.randn(1000, 64), torch.randn(10, 64)
normed = F.layer_norm(drawn, (64,))
W_k = nn.Linear(64, 64, bias=False)
for name, keys in {"drawn": drawn, "layer norm": normed, "then W_k": W_k(normed)}.items():
    agree = gaussian_score(queries, keys).argmax(dim=-1) == dot_score(queries, keys).argmax(dim=-1)
    low, high = keys.square().sum(dim=-1).aminmax()
    print(f"{name:11} agree {agree.float().mean():4.0%}   squared lengths {low:.0f} to {high:.0f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the Transformer does
#
# With keys of one length the two scores give the same weights. (The check below allows a difference
# of 0.001, because layer norm adds a small number to the variance.) After $W_k$ the lengths differ
# again. So for the keys of a Transformer, leaving out the fee is a **choice**: a long key gets a
# higher score from queries on its side, and a lower one from the others.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the tables, the two cancellations, and that batch norm and equal entries are exceptions
q, k = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
assert gaussian_score(q, k).tolist() == [[0, -2, -1]]
both = torch.stack([score(q, k).softmax(dim=-1)[0] for score in (gaussian_score, dot_score)])
expected = torch.tensor([[0.67, 0.09, 0.24], [0.11, 0.84, 0.04]])
torch.testing.assert_close(both, expected, atol=0.006, rtol=0)
full = gaussian_score(queries, drawn).softmax(dim=-1)
no_query_term = (dot_score(queries, drawn) - drawn.square().sum(dim=-1) / 2).softmax(dim=-1)
torch.testing.assert_close(full, no_query_term, atol=1e-5, rtol=1e-3)
by_distance = gaussian_score(queries, normed).softmax(dim=-1)
by_product = dot_score(queries, normed).softmax(dim=-1)
torch.testing.assert_close(by_distance, by_product, atol=1e-3, rtol=0)
low, high = F.batch_norm(drawn, None, None, training=True).square().sum(dim=-1).aminmax()
assert high - low > 10  # batch norm evens out columns, and a key is a row
assert F.layer_norm(torch.ones(3), (3,)).tolist() == [0, 0, 0]  # no spread to divide by
print("checked: -|q|²/2 cancels for any keys, the fee for keys after layer norm, 1,000 queries")
print(f"checked: after batch norm the squared lengths differ, {low:.0f} to {high:.0f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Five minutes. Most vote for nine in ten in the first case. For the third expect 'still all, the
# norm has made them equal': draw a circle, and the ellipse that a matrix makes of it. Then ask
# which score is right. Neither: a query is a question, and the best answer need not look like it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Query and key of different size
#
# A query of 2 numbers and a key of 3 numbers have no dot product. A learned matrix $M$ between them
# translates the query into the key's size (Luong et al., 2015):
#
# $$a(q, k) = q^\top M\, k$$
#
# By hand with $q = (1, 2)$, $k = (1, 0, 1)$ and
# $M = \begin{pmatrix}1&0&2\\0&1&1\end{pmatrix}$: first $q^\top M = (1, 2, 4)$, then
# $(1, 2, 4)\cdot(1, 0, 1) = 5$. The package calls this score `bilinear_score(queries, keys, M)`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One matrix or two
#
# The Transformer learns two matrices, $W_q$ for the queries and $W_k$ for the keys. Their product
# has the role of $M$:
#
# $$q^\top W_q^\top W_k\, k = (W_q\, q)\cdot(W_k\, k)$$
#
# Both are translated into a common language of $h$ numbers. For $q$ of size 20, $k$ of size 30 and
# $h = 4$, the matrix $M$ has 600 numbers, and the two matrices together have 200. Learned matrices
# are also of use where the sizes are equal: a query can then look for something unlike itself.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the example by hand and the two halves of M
by_hand = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
assert bilinear_score(torch.tensor([[1.0, 2]]), torch.tensor([[1.0, 0, 1]]), by_hand).item() == 5
torch.manual_seed(0)
left, right = torch.randn(3, 20), torch.randn(5, 30)
half_q, half_k = torch.randn(4, 20), torch.randn(4, 30)
whole = half_q.T @ half_k
torch.testing.assert_close(
    bilinear_score(left, right, whole), dot_score(left @ half_q.T, right @ half_k.T)
)
assert (whole.numel(), half_q.numel() + half_k.numel()) == (600, 200)
print(
    f"checked: M and its halves give the same scores; M has rank {torch.linalg.matrix_rank(whole)}"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Do the small example on the board. Ask which key of length 1 a query of length 1
# finds with the plain dot product (itself), and how M can change that: 'Going further' has four
# arrows that each look to their right. The score may go one way: the subject need not look for the
# verb.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A small network as a score
#
# The first attention in translation (Bahdanau, Cho and Bengio, 2015) uses no product of query and
# key. It projects both to $h$ numbers, **adds** them, and lets a tanh and a learned vector $w_v$
# make a score of the sum:
#
# $$a(q, k) = w_v^\top \tanh(W_q\, q + W_k\, k), \qquad
#   W_q\, q + W_k\, k = \begin{bmatrix}W_q & W_k\end{bmatrix}\begin{bmatrix}q\\k\end{bmatrix}$$
#
# The second equation shows what this is: a network with one hidden layer of $h$ units that reads
# query and key, one below the other. By hand, with all sizes and all parameters 1: the query 1 and
# the keys 1, −1, −3 give $\tanh 2$, $\tanh 0$, $\tanh(-2)$, that is 0.96, 0 and −0.96.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What is the tanh for?
#
# **Predict.** Leave the tanh out: $w_v^\top(W_q\, q + W_k\, k)$. Three different queries meet five
# keys. What do their three rows of weights look like?

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(5)
q, k, w_v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(4)  # already projected, h = 4
sums = q[:, None] + k  # (3, 5, 4)
for name, hidden in (("with tanh", torch.tanh(sums)), ("without tanh", sums)):
    rows = (100 * (hidden @ w_v).softmax(dim=-1)).round().int().tolist()
    print(f"{name:12} in percent: {rows}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the tanh, $w_v^\top W_q\, q$ is one number that all keys share. The softmax does not see
# it, and every query gets the same weights. The query matters only because of the tanh.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Five minutes; let them expand the bracket on the board. The usual vote is 'a bit weaker'. It is
# not a bit: the query vanishes. Compare with the expanded square, where the same cancellation was
# welcome. Graph attention networks had a milder form of it (see the sources).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Additive attention, built


# %% slideshow={"slide_type": "-"} tags=["build"]
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
        self.attention_weights = softmax_over_keys(scores, valid_lens)  # (B, Q, K)
        return self.dropout(self.attention_weights) @ values  # (B, Q, V)


# %% [markdown] slideshow={"slide_type": "subslide"}
# Now the queries have 13 numbers and the keys 7. We hand our parameters to the package's layer:

# %% slideshow={"slide_type": "-"}
long_queries, keys = torch.randn(B, Q, 13), torch.randn(B, K, D)
ours, package = PlainAdditiveAttention(17, 0.1).eval(), AdditiveAttention(17, 0.1).eval()
output = ours(long_queries, keys, values, valid_lens)  # the first call fixes the sizes of W_q, W_k
package.load_state_dict(ours.state_dict(), strict=True)
torch.testing.assert_close(output, package(long_queries, keys, values, valid_lens))
torch.testing.assert_close(ours.attention_weights, package.attention_weights)
print({name: tuple(parameter.shape) for name, parameter in package.named_parameters()})

# %% [markdown] slideshow={"slide_type": "fragment"}
# `AdditiveAttention` adds the same checks, masks and zeros. For many pairs its `additive_score`
# takes only a few queries at a time. The next section shows why.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the additive score is a network with one hidden layer on query and key
torch.manual_seed(0)
left, right = torch.randn(3, 20), torch.randn(5, 2)
to_q, to_k, out = torch.randn(8, 20), torch.randn(8, 2), torch.randn(8)
mlp = nn.Sequential(nn.Linear(22, 8, bias=False), nn.Tanh(), nn.Linear(8, 1, bias=False))
mlp[0].weight = nn.Parameter(torch.cat([to_q, to_k], dim=1))
mlp[2].weight = nn.Parameter(out[None])
pairs = torch.cat([left[:, None].expand(3, 5, 20), right[None].expand(3, 5, 2)], dim=-1)
by_mlp = mlp(pairs).squeeze(-1)
torch.testing.assert_close(by_mlp, additive_score(left @ to_q.T, right @ to_k.T, out))
print("checked: an MLP on the 15 joined pairs of 3 queries and 5 keys gives the additive scores")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which score, at what price?
#
# Take a batch of 32 sentence pairs with 128 words on each side, and $h = 256$, in float32. The
# scores $(B, Q, K)$ need 2 MiB.
#
# **Predict.** How large is the tensor inside the tanh: 2 MiB, 32 MiB or 512 MiB?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
print(f"inside the tanh: {32 * 128 * 128 * 256 * 4 / 2**20:.0f} MiB")
X = torch.randn(8, 128, 256)  # 8 of the 32 sentences
for layer in (PlainDotProductAttention(0.0), PlainAdditiveAttention(256, 0.0)):
    layer(X, X, X)
    start = process_time()
    layer(X, X, X)
    print(f"{type(layer).__name__:25} {1000 * (process_time() - start):6.1f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The tanh needs $h$ numbers **for each pair** of query and key. The dot product needs one. (The two
# times are from the machine that ran this page.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Most choose 32 MiB: they project 128 queries and 128 keys and forget the pairs.
# Draw the grid of pairs, with a vector of length h in each cell.

# %% [markdown] slideshow={"slide_type": "subslide"}
# For queries of size $D$ and keys of size $D'$, with the formulas as they are written:
#
# | score | formula | sizes | parameters | numbers for each pair |
# |---|---|---|---|---|
# | Gaussian | $-\lvert q-k\rvert^2/2$ | equal | 0 | $D$ |
# | scaled dot product | $q\cdot k/\sqrt d$ | equal | 0 | 1 |
# | bilinear | $q^\top M k$ | any | $D D'$ | 1 |
# | additive | $w_v^\top\tanh(W_q q + W_k k)$ | any | $h\,(D + D' + 1)$ | $h$ |
#
# - The **scaled dot product** is the usual choice, because it is one matrix product. With $W_q$ and
#   $W_k$ before it, it is the **bilinear** score, and the Transformer uses it in this form.
# - The **additive** score is used in chapter 5. In a large comparison it did better than the
#   *unscaled* dot product (Britz et al., 2017). Vaswani et al. (2017) suspected saturation as the
#   reason, and divided by $\sqrt d$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - For independent entries with mean 0 and variance 1, $q\cdot k$ has variance $d$. For large $d$
#   the softmax saturates, and most queries of our test had almost no slope. Division by $\sqrt d$
#   removes this effect of $d$, but not the effects of other variances or of training.
# - $\operatorname{softmax}(\mathbf Q\mathbf K^\top/\sqrt d)\,\mathbf V$ is two matrix products for
#   each sentence, with a softmax over the keys between them: $(B, Q, D)$, $(B, Q, K)$, $(B, Q, V)$.
# - The dot product is the Gaussian score without a fee on the key's length. The two give the same
#   weights where all keys have one length, as after layer norm, but not after a further $W_k$.
# - For unequal sizes there are $q^\top M k$ and the additive score, a network with one hidden
#   layer. Without its tanh the query has no influence. Written out, it holds $h$ numbers for each
#   pair.

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
# *3 minutes.* A fair objection: dividing the scores by 32 divides their gradient by 32, too. Is
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
# *1 minute.* The cosine of two random vectors shrinks like $1/\sqrt d$, and their dot product
# grows like $\sqrt d$. Both are true, because the lengths grow as well: each is about $\sqrt d$, so
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
# *2 minutes.* What is the fee on length good for? Put a fourth key inside the triangle of three
# others. Then $q\cdot k_3$ is a weighted average of the other three products, so it is never larger
# than the largest of them. No query prefers key 3. Under the Gaussian score every query near it
# does. Layer norm puts all keys on a sphere, where no key lies inside the others. Brody, Alon and
# Yahav (2023) call the keys inside 'unselectable'.

# %% slideshow={"slide_type": "fragment"}
triangle = torch.tensor([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0], [0.5, 0.5]])
torch.manual_seed(0)
anything = torch.randn(10_000, 2)
for score in (dot_score, gaussian_score):
    wins = (score(anything, triangle).argmax(dim=-1) == 3).float().mean()
    print(f"{score.__name__:15} key 3 is first for {wins:.0%} of 10,000 queries")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A query that looks for something else
#
# *2 minutes.* Four tokens ask each other: north, east, south and west, as arrows of length 1. With
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
# keys of one length only $q\cdot k / w^2$ counts. So the factor $1/\sqrt d$ is a width of
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
# *1 minute.* On paper it does not matter whether we divide the queries or the product. In float16
# the largest number is 65,504, and a product that overflows cannot be divided any more. Here
# $q\cdot k = 256\cdot17\cdot17 = 73{,}984$.

# %% slideshow={"slide_type": "skip"}
big = torch.full((1, 256), 17.0, dtype=torch.float16)
print("first the product ", (dot_score(big, big) / 16).item())
print("first the division", scaled_dot_score(big, big).item())

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Two properties of the additive score
#
# *2 minutes.* A tanh lies between −1 and 1, so $\lvert a(q,k)\rvert \le \sum_i\lvert w_{v,i}\rvert$
# however large query and key become. This does not spare it from saturation. For large inputs the
# tanh itself is flat, and its slope vanishes instead of the softmax's.
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
    slope, score = (1 - torch.tanh(sums) ** 2).median(), additive_score(factor * q, factor * k, w_v)
    bound = f"largest score {score.abs().max():.1f} of at most {w_v.abs().sum():.1f}"
    print(f"inputs times {factor:3d}: {bound}   median slope of the tanh {slope:.0e}")
print("odd:", torch.allclose(additive_score(-q, -k, w_v), -additive_score(q, k, w_v)))

# %% [markdown] slideshow={"slide_type": "skip"}
# ### What each score costs
#
# *4 minutes.* Query size $D$, key size $D'$. For the formulas as they are written:
#
# | score | multiplications for the pairs | before that | largest tensor for the pairs |
# |---|---|---|---|
# | dot | $BQK\,D$ | | $BQK$ |
# | scaled dot | $BQK\,D$ | $BQ\,D$ | $BQK$ |
# | bilinear | $BQK\,D'$ | $BQ\,DD'$ | $BQK$ |
# | Gaussian | $BQK\,D$ | | $BQK\,D$ |
# | additive | $BQK\,h$, and as many tanh | $B(QD + KD')\,h$ | $BQK\,h$ |
#
# All five grow with $Q\cdot K$, the number of pairs (chapter 10). The book speaks of 'minor
# computational savings' of the additive score. Where $h < D$ it saves multiplications for the
# pairs. In memory, and in calls of the tanh, it needs more than the dot product.
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
# Checks the table's multiplications with PyTorch's counter
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
# *2 minutes.* `DotProductAttention` has two ways to the same output. If you ask for the weights, it
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
