# %% [markdown] slideshow={"slide_type": "slide"}
# # 10 · Attention at scale
#
# **You will**
#
# - find out, with two divisions, why a model reads quickly and writes slowly;
# - read a softmax in pieces, and see attention that never holds its matrix;
# - compute how long the next token takes, for one user and for many;
# - split attention between real processes, and get the numbers of one.
#
# Core path: 75 to 110 minutes, in two sittings. Going further: 15. Exercises: 72. A good place to
# stop is after *What the roofline says*.
#
# Builds on chapters 6, 8 and 9, and on *Dive into Deep Learning* (D2L), sections 11.3, 13.5 and
# 13.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# 71 minutes, for two lectures. The first, of 35, ends after *What the roofline says*. The slides
# of *Going further* come after the summary. No GPU is needed: every figure for one is published or
# stored from a run, and its slide says which.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
import re
import time
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist
import torch.nn.functional as F
from matplotlib.patches import FancyBboxPatch, Rectangle

from d2l_attention import causal_mask, dot_product_attention
from d2l_attention.scale.cache_size import PUBLISHED
from d2l_attention.scale.online_softmax import (
    online_softmax,
    tiled_attention,
)
from d2l_attention.scale.parallel import (
    LayerShape,
    all_reduce,
    bytes_per_layer,
    layer_times,
    run_processes,
    share_sequence,
)
from d2l_attention.scale.roofline import Roofline, attention_work
from d2l_attention.views import Player, State, grid
from d2l_attention.views.palette import (
    FAINT,
    GREY,
    GROUND,
    INK,
    KEY,
    OUTPUT,
    PALE,
    QUERY,
    RULE,
    TINT,
    VALUE,
    WEIGHT,
)
from d2l_attention.views.plots import set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Weights** (chapter 3). A query gets the sum $\sum_j \alpha_j v_j$ of the values, with the
#   softmax of its scores $a_j$ as weights.
# - **Heads** (chapter 6), of $d$ numbers each, work side by side until $W_o$ mixes their outputs.
# - **Cache** (chapters 8 and 9): the keys and values of all tokens so far. In Llama 3.1 8B, four of
#   the 32 heads share each **key-value head**, so it has only 8.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why does the next token take 5 ms?
#
# A chat reads your long prompt in a moment. Then it writes its answer token by token, and each of
# them takes several milliseconds. Why is writing so slow?
#
# When a prompt arrives, all its tokens are known, and the model computes them side by side in one
# step. This is **prefill**. In **decoding**, when it writes, a step computes only one token,
# because the next one is not yet known. Each step adds the keys and values of its tokens to the
# cache, where later tokens find them:


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws a prompt that is read in one step, tokens that are written one by one, and the cache
def box(ax, x, y, width, height, color, text="", **style):
    """A piece of a step or of a timeline, with its text in the middle."""
    style = {"edgecolor": INK, "lw": 0.8} | style
    ax.add_patch(Rectangle((x, y), width, height, facecolor=color, **style))
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=14)


figure, ax = plt.subplots(figsize=(11, 4.9))
answer, x, in_cache = ["Because", "sunlight", "strikes", "it"], 0.0, 0
for step, written in enumerate(answer):
    read = "Why does the moon shine ?".split() if step == 0 else [answer[step - 1]]
    width = 5.1 if step == 0 else 2.0
    for i, word in enumerate(read):
        part = width / len(read)
        box(ax, x + i * part, 2.1, part, 0.7, PALE if step == 0 else RULE, word)
        in_cache += 1
    box(ax, x, 3.3, width, 0.7, GROUND, "all parameters" if step == 0 else "parameters")
    box(ax, x + width - 1.7, 4.5, 1.7, 0.7, RULE, written)
    for y in (2.8, 4.0):
        at = x + (width / 2 if y == 2.8 else width - 0.85)
        ax.annotate("", (at, y + 0.5), (at, y), arrowprops={"arrowstyle": "-|>", "color": INK})
    for token in range(in_cache):
        for y, color in ((1.1, KEY), (0.8, VALUE)):
            old = {"edgecolor": GROUND, "alpha": 1 if token >= in_cache - len(read) else 0.5}
            box(ax, x + 0.2 * token, y, 0.2, 0.3, color, **old)
    ax.text(x + width / 2, 5.5, f"step {step + 1}", ha="center", fontsize=14, color=FAINT)
    x += width + 0.5
for y, name in ((4.85, "writes"), (3.65, "carries"), (2.45, "computes"), (1.1, "cache after it")):
    ax.text(-0.2, y, name, ha="right", va="center", fontsize=14)
ax.text(0, 0.35, "keys above, values below; the new ones are strong", fontsize=13, color=FAINT)
ax.set(xlim=(-2.3, x), ylim=(0.2, 5.9))
ax.axis("off")
ax.set_title("A prompt is read in one step, and its answer written token by token", fontsize=18)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four steps. The first carries all parameters, computes the six tokens of 'Why does the
# moon shine ?' and writes 'Because'. Each later step carries all parameters and computes only the
# token that was written last. The cache grows from 6 to 9 tokens.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which of the three rows differ between the first step and the second.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two times, of which the longer counts
#
# How long does a step with one token take? Take Llama 3.1 8B, whose 8 billion parameters have 2
# bytes each, on an H100, the GPU on which it was trained. For each token, nearly every parameter
# takes part in one product and one sum, some 16 billion operations. But first the GPU must carry
# all 16 GB of them over from its memory. By NVIDIA's data sheet it computes at most 989 trillion
# operations per second and carries 3.35 TB. At best it does both at once, so the longer of the two
# times decides:
#
# $$\text{time} \ge \max\!\left(\frac{16 \cdot 10^9}{989 \cdot 10^{12}},\;
# \frac{16 \cdot 10^9}{3.35 \cdot 10^{12}}\right) \text{s} = \max(0.016, 4.8) \text{ ms}
# = 4.8 \text{ ms}$$
#
# For nearly all of this time the arithmetic waits: writing a token is **memory-bound**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Write the two quotients on the board and leave them there, because all of the chapter
# is a comparison of these two times.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A whole prompt in one step
#
# Prefill carries the same parameters, and also only once.
#
# **Predict.** A prompt has 8,192 tokens. Does its step take 8,192 times as long as that of one
# token?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes with the vote. Those who say 'no longer than one' have seen the point and forget
# that 8,192 times 0.016 ms is more than 4.8.

# %% slideshow={"slide_type": "fragment"}
for T in (1, 295, 8192):  # tokens in one step
    compute, carry = 1000 * T * 16e9 / 989e12, 1000 * 16e9 / 3.35e12  # ms
    print(f"{T:5,} tokens: max({compute:.3f}, {carry:.3f}) = {max(compute, carry):.1f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# No, only 28 times as long. Up to 295 tokens the memory decides, and the step takes the same 4.8
# ms. Beyond that it is **compute-bound**, and each further token adds 0.016 ms. **By these bounds,
# writing a token for a single user takes 295 times as long as reading one of a long prompt.**

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The formula to take home
#
# What if many users decode at once? The parameters are what the model has learned, and they are the
# same for everybody: once carried, they can serve one token or three hundred, no matter whose. A
# cache is what one conversation has said. Your query needs your keys and mine needs mine, so
# neither of us gains when the other's are carried. **With every further user the parameters become
# cheaper for each, while the caches simply add up.**
#
# So a step that computes $T$ tokens in all, with the caches of $B$ users, takes at least
#
# $$\max\!\left(\frac{T \cdot \text{operations per token}}{\text{operations per second}},\;
# \frac{\text{parameters} + B \cdot \text{cache}}{\text{bytes per second}}\right).$$
#
# In Llama 3.1 8B, each token leaves a key and a value of 128 numbers in each of 8 key-value heads
# of 32 layers:

# %% slideshow={"slide_type": "-"}
cache = 2 * 128 * 8 * 32 * 2 * 8192 / 1e9  # GB: 2 bytes per number, 8,192 tokens
print(f"one cache: {cache:.2f} GB; one user's next token: {(16 + cache) / 3.35:.1f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The formula leaves out attention's own operations, to which we turn now.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Ask before the formula what users share and what they do not: parameters yes, caches
# no. The second half of the chapter uses this formula.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The score matrix of a novel
#
# Now suppose you paste a novel of 100,000 tokens and ask who the murderer is. In every head, every
# token has a weight for every token. PyTorch's usual numbers have 4 bytes, so the weights of one
# head take $100{,}000^2 \cdot 4$ bytes or 40 GB. Two heads would fill the 80 GB of an H100, and
# Llama 3.1 8B has 32 layers with 32 heads each. (With 2 bytes per number it is half of all this.)
#
# All 1,024 heads together need 41 TB, which training would keep for the backward pass. Reading
# needs only one layer at a time. But there the scores of 32 heads lie beside their weights: $32
# \cdot 40 \cdot 2$ GB make 2.6 TB, or 32 of these GPUs. And yet this model reads 128K tokens (Llama
# Team, 2024), so its attention must do without the whole matrix.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks these sizes
tokens = 100_000
one_head = tokens**2 * 4 / 1e12  # TB
assert one_head == 0.04 and round(32 * 32 * one_head) == 41
assert round(2 * 32 * one_head, 1) == 2.6 and round(2 * 32 * one_head / 0.08) == 32

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room do the product before you show the sizes: $10^5 \cdot 10^5 \cdot 4$ for
# a head, times 1,024. While chapter 9 let tokens see less, this chapter leaves the result as it is
# and changes how it is computed.

# %% [markdown] slideshow={"slide_type": "skip"}
# **Plain** attention, the formula of chapter 3, does hold it:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_attention(queries, keys, values):  # (*, Q, d), (*, K, d), (*, K, V) -> (*, Q, V)
    scores = (queries / math.sqrt(queries.shape[-1])) @ keys.mT  # (*, Q, K): the matrix
    return scores.softmax(dim=-1) @ values


# %% [markdown] slideshow={"slide_type": "slide"}
# ## Online softmax: maximum and sum in one pass
#
# $$\alpha_j = \frac{e^{a_j - m}}{\sum_k e^{a_k - m}}, \qquad m = \max_k a_k$$
#
# The maximum $m$ and the sum need *all* scores of a row. Could we at least leave $m$ out? On paper
# it cancels, but in 32 bits $e^{100}$ is infinite:

# %% slideshow={"slide_type": "fragment"}
scores = torch.tensor([100.0, 101.0, 103.0])
print("without m:", scores.exp() / scores.exp().sum())
print("softmax:  ", scores.softmax(dim=0))

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask first whether $m$ may be left out, since it cancels. Infinity divided by infinity
# is not a number, so the question becomes: can we begin before we know the maximum?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One score at a time
#
# So we need the maximum, but can we begin before we know it? Take the scores $\ln 1$, $\ln 2$ and
# $\ln 4$, so that $e^{a}$ is 1, 2 and 4, and the values 7, 14 and 0. The answer must be $\frac17
# \cdot 7 + \frac27 \cdot 14 + \frac47 \cdot 0 = 5$.
#
# We read one score after the other and keep three numbers: the largest score so far, $m$; the sum
# relative to it, $Z = \sum_j e^{a_j - m}$; and the **unnormalised** output $o = \sum_j e^{a_j - m}
# v_j$. When $\ln 2$ comes, the old 1 counts only $e^{\ln 1 - \ln 2} = \frac12$, so we halve the
# old sum and output and add the new terms:
#
# | read | $m$ | factor | $Z$ | $o$ |
# |---|---|---|---|---|
# | 1 | $\ln 1$ | | $1$ | $7$ |
# | 2 | $\ln 2$ | $\frac12$ | $\frac12 + 1 = \frac32$ | $\frac72 + 14 = \frac{35}2$ |
# | 3 | $\ln 4$ | ? | ? | ? |
#
# **Predict.** What belongs in the last row, and how do you get the answer 5 from it?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, on the board. The mistake to wait for is that somebody halves the new 1 as well.
# Ask what $e^{a - m}$ is for the maximum itself: always 1. Some divide after each step and have to
# undo it, so let them say why one division at the end is enough.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Computes the last row of the table, and the answer
scores, values = torch.tensor([1.0, 2.0, 4.0]).log(), torch.tensor([7.0, 14.0, 0.0])
terms = (scores - scores.max()).exp()
Z, o = terms.sum(), (terms * values).sum()
print(f"Z = {Z:.2f}, o = {o:.2f}, o / Z = {o / Z:.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The factor is $\frac12$ again, which gives $Z = \frac32 \cdot \frac12 + 1 = \frac74$ and $o =
# \frac{35}2 \cdot \frac12 + 1 \cdot 0 = \frac{35}4$. The answer is their quotient, $\frac{35}4 :
# \frac74 = 5$.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Compare with the room's last row.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why may one factor correct a whole sum?
#
# Every term of the sum is measured from the same $m$, so the same factor moves all of them to the
# new maximum $m'$:
#
# $$\sum_j e^{a_j - m'} = \sum_j e^{a_j - m} \, e^{m - m'} = Z \cdot e^{m - m'}$$
#
# So a new score $a$ with its value $v$ leads to
#
# $$m' = \max(m, a), \quad Z' = Z \, e^{m - m'} + e^{a - m'}, \quad o' = o \, e^{m - m'} +
# e^{a - m'} v .$$
#
# For $m$ and $Z$ this is the **online softmax** (Milakov and Gimelshein, 2018, algorithm 3). **A
# softmax can be read in pieces.**

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let them find the factor in the table: it is the same for $Z$ and for $o$. On the page
# students now write the first two updates, of $m$ and $Z$, themselves (10.3).

# %% [markdown] slideshow={"slide_type": "skip"}
# Write the first two of these updates yourself, with a block of scores, a **tile**, in place of a
# single one. `check` says what is right or wrong; `hint("10.3")` and `solution("10.3")` help.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.3** · complete a function
#
# The scores of Q queries come in tiles, (Q, k) each: `for tile in tiles:`. Return the maximum (Q,)
# of each row over all tiles, and the total (Q,) of exp(score - maximum), of the tiles' dtype. Read
# the tiles once and keep none of them. Scores of 1,000 must not overflow, nor -1,000 vanish. (One
# case has masked scores, and `check` explains it there.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Tiled attention
#
# Now split many queries and many keys into blocks. A tile holds the scores of a block of queries
# and a block of keys. **With one tile at a time, the whole matrix never exists.**


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_tiled_attention(queries, keys, values, block_size):  # (*, Q, d), (*, K, d), (*, K, V)
    outputs = []
    queries = queries / math.sqrt(queries.shape[-1])
    for q in queries.split(block_size, dim=-2):  # (*, s, d): a block of queries
        maximum = torch.full_like(q[..., :1], -math.inf)  # (*, s, 1), of no scores
        total = output = 0.0  # nothing read yet
        for k, v in zip(keys.split(block_size, -2), values.split(block_size, -2), strict=True):
            scores = q @ k.mT  # (*, s, s): the tile
            larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
            rescale, terms = (maximum - larger).exp(), (scores - larger).exp()
            output = output * rescale + terms @ v  # (*, s, V), unnormalised
            total = total * rescale + terms.sum(dim=-1, keepdim=True)
            maximum = larger
        outputs.append(output / total)  # divided once
    return torch.cat(outputs, dim=-2)  # (*, Q, V)


# %% [markdown] slideshow={"slide_type": "skip"}
# The inner lines are the derivation, with a block in place of a score. At the first tile the old
# maximum is $-\infty$, so the factor is $e^{-\infty} = 0$: there is nothing old to keep.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room find the four lines of the derivation.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Steps through the three tiles of the first two queries
numbers = torch.tensor([[1.0, 2, 0, 1, -1, 2], [0, -1, 1, 0, 2, 1], [7, 14, 0, 7, 14, 0]])
queries, keys, values = numbers[..., None].unbind()  # (6, 1) each
small = {"width": 0.8, "height": 0.8, "digits": 0}
board = grid(queries, 0, 1.9, "query", **small) + grid(keys.T, 0.9, 0, "key", **small)
board += grid(values.T, 0.9, 0.9, "value", **small) + grid(
    [[""] * 6] * 6, 0.9, 1.9, "ghost", **small
)


def with_tile(start, **registers):
    """The board, the tile of two keys from ``start`` on, and the registers beside its rows."""
    tile = queries[:2] @ keys[start : start + 2].T
    cells = board + grid(tile, 0.9 + 0.8 * start, 1.9, name="score", **small)
    cells += grid("", 0.9 + 0.8 * start, 1.9, "frame", name="tile", width=1.6, height=1.6)
    for x, name in ((5.8, "factor"), (6.75, "m"), (7.7, "Z"), (8.65, "o")):
        width = 1.35 if name == "o" else 0.95
        if name in registers:
            cells += grid(name, x, 1.1, "head", width=width, height=0.8)
            cells += grid(registers[name], x, 1.9, name=name, width=width, height=0.8)
    return cells


m, Z, o, steps = torch.full((2, 1), -math.inf), 0.0, 0.0, []
for start in (0, 2, 4):
    tile, old_m = queries[:2] @ keys[start : start + 2].T, m
    m = torch.maximum(m, tile.amax(dim=1, keepdim=True))
    factor, terms = (old_m - m).exp(), (tile - m).exp()
    Z, o = Z * factor, o * factor
    shrink = "The tile moves, m grows, and the old Z and o shrink by the factor"
    if start:
        shrunk = with_tile(start, factor=factor, m=m, Z=Z, o=o)
        why = "The old terms were measured from the old m: the factor is e^(old m − new m)."
        steps.append(State(shrink, why, shrunk))
    Z, o = Z + terms.sum(dim=1, keepdim=True), o + terms @ values[start : start + 2]
    enter = "The terms of a tile of four scores are added to Z and o"
    words = "m is the largest score so far, Z sums e^(score − m), o the same times the value."
    steps.append(State(enter, words, with_tile(start, m=m, Z=Z, o=o)))
outputs = plain_tiled_attention(queries, keys, values, block_size=2)
torch.testing.assert_close(outputs[:2], o / Z)
last = {"width": 1.35, "height": 0.8}
answers = board + grid("o / Z", 8.65, 1.1, "head", **last)
answers += grid(outputs, 8.65, 1.9, "output", name="answer", origin="o", **last)
divided = "Divided once, o gives the output; the other queries go the same way"
Player([*steps, State(divided, "Of 36 scores there were never more than four at once.", answers)])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a tile of 2 × 2 scores moves along the first two rows of an empty 6 × 6 grid. At the
# right, Z and o shrink by a factor for each new tile, and grow.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks fused attention, tiles and online softmax against the plain formulas
torch.manual_seed(0)
qkv = torch.randn(3, 2, 3, 101, 8, dtype=torch.float64).unbind()
expected = plain_attention(*qkv)
torch.testing.assert_close(F.scaled_dot_product_attention(*qkv), expected)
for block_size in (5, 64, 200):
    for attend in (plain_tiled_attention, tiled_attention):
        torch.testing.assert_close(attend(*qkv, block_size=block_size), expected)
    for scores in (qkv[0], 10_000 * qkv[0]):
        torch.testing.assert_close(online_softmax(scores, block_size), scores.softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask before each step which rows will shrink. Ask which tests would still pass if the
# output were not rescaled: those in which the first block has the largest score.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## FlashAttention: all tiles in one kernel
#
# Can tiles also save time? A GPU has little fast memory beside its arithmetic, and much slow memory
# further away. Plain attention writes first its scores and then its weights to the slow memory, and
# reads them back: $4 n^2$ numbers, where queries, keys, values and output together have only
# $4 n d$. For 8,192 tokens and $d = 64$ that is 128 times as many.
#
# Our tiles avoid this, but in Python the result of each line may still travel. So
# **FlashAttention** (Dao et al., 2022) runs the whole loop in one **kernel**, a program that the
# processor runs in one go. Each tile is used and overwritten in the fast memory, so at best only
# queries, keys, values and output travel. Such attention is called **fused**.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Draw arithmetic above and memory below, and let the room count the trips of the
# matrix: four. PyTorch has such kernels for GPUs and for this CPU.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws what travels between memory and arithmetic in plain and in fused attention
figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=[7, 4])
thin = [("Q", 1), ("K", 1), ("V", 1), ("output", -1)]  # up or down
colours = {"Q": QUERY, "K": KEY, "V": VALUE, "output": OUTPUT}
matrix = [("scores", -1), ("scores", 1), ("weights", -1), ("weights", 1)]
titles = "Plain: the matrix makes four trips", "Fused: it never leaves the chip"
for ax, trips, title in zip(axes, (thin[:2] + matrix + thin[2:], thin), titles, strict=True):
    for y, name in (
        (2.4, "arithmetic,\nlittle fast memory"),
        (0, "slow memory of an H100:\n80 GB, 3.35 TB/s"),
    ):
        ax.add_patch(Rectangle((-0.6, y), len(trips) + 0.2, 0.6, facecolor=PALE, edgecolor=GREY))
        ax.text(len(trips) / 2 - 0.5, y + 0.28, name, ha="center", va="center", fontsize=14)
    for x, (name, way) in enumerate(trips):
        color = colours.get(name, WEIGHT)
        arrow = {"arrowstyle": "-|>", "color": color, "mutation_scale": 16}
        if (name, way) in matrix:
            arrow |= {"arrowstyle": "simple", "mutation_scale": 40}
        ax.annotate("", (x, 1.5 + 0.8 * way), (x, 1.5 - 0.8 * way), arrowprops=arrow)
        ax.text(x + 0.17, 1.5, name, rotation=90, va="center", fontsize=15, color=color)
    ax.set(xlim=(-0.7, len(trips) - 0.3), ylim=(-0.1, 3.1))
    ax.set_title(title, fontsize=17)
    ax.axis("off")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: fast memory above, slow memory below. Plain: thin arrows for Q, K, V and the output, four
# thick ones for scores and weights. Fused: only the thin arrows.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Compare with what the room counted: only thin arrows are left.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The time of fused attention
#
# We measure PyTorch's fused kernel, `scaled_dot_product_attention`, beside plain attention and our
# tiles, for one head with $d = 64$ on this processor.
#
# **Predict.** With four times the tokens, the memory of fused attention grows at most fourfold.
# Does its time also grow fourfold?


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines how the memory and the time of a new process are measured
def peak_mib():
    """The most memory that this process has ever held."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text("utf-8"))[1]) / 2**10
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return psutil.Process().memory_info().peak_wset / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


def costs(steps):
    """A row (tokens, MiB above the start, ms of CPU time) for each (attend, tokens, backward)."""
    torch.set_num_threads(1)

    def milliseconds(attend, n, backward):
        qkv = torch.randn(3, 1, 1, n, 64, requires_grad=backward)
        started = time.process_time()
        output = attend(*qkv)
        if backward:
            output.sum().backward()
        return 1000 * (time.process_time() - started)

    milliseconds(steps[0][0], 64, backward=True)  # wakes what sleeps
    start, rows = peak_mib(), []
    # Each takes more memory than the one before, so the peak is always that of the last one.
    for attend, n, backward in steps:
        repeats = 3 if n < 4096 else 1  # short ones are easily disturbed
        took = min(milliseconds(attend, n, backward) for _ in range(repeats))
        rows.append((n, peak_mib() - start, took))
    return rows


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures and draws the memory and the time of plain, tiled and fused attention
def all_steps(attend):
    """Four lengths forward, and the last one forward and backward."""
    return [*((attend, n, False) for n in sizes), (attend, sizes[-1], True)]


sizes = [1024, 2048, 4096, 8192]
in_tiles = partial(plain_tiled_attention, block_size=256)
kinds = {"plain": plain_attention, "tiles": in_tiles, "fused": F.scaled_dot_product_attention}
measured = {
    kind: run_processes(costs, 1, steps=all_steps(attend))[0] for kind, attend in kinds.items()
}
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5))
styles = {"plain": ("s--", GREY), "tiles": ("^-.", GREY), "fused": ("o-", INK)}
for kind, (style, color) in styles.items():
    n, mib, ms = zip(*measured[kind][:4], strict=True)
    for ax, heights in ((left, mib), (right, ms)):
        ax.loglog(n, heights, style, color=color, markersize=9)
        up = {"plain": 0, "tiles": -4, "fused": -8}[kind] if ax is right else -5
        up += 4 * (ax is left and kind == "tiles") - 7 * (ax is left and kind == "fused")
        place = {"xytext": (10, up), "textcoords": "offset points", "fontsize": 15}
        ax.annotate(kind, (n[-1], heights[-1]), color=INK, **place)
left.set(ylabel="MiB above the start")
left.set_title("Fused: memory grows no faster than n", fontsize=17)
right.set(ylabel="ms of CPU time")
right.set_title("Fused: time grows like n²", fontsize=17)
for ax in (left, right):
    ax.set(xlabel="tokens", xlim=(900, 15_000))
    ax.set_yticks([1, 10, 100, 1000], [1, 10, 100, 1000])
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
plt.show()

plain, fused = measured["plain"], measured["fused"]
print("fused, 8,192 tokens against 2,048:", end=" ")
print(f"memory {fused[3][1] / fused[1][1]:.1f} times, time {fused[3][2] / fused[1][2]:.1f} times")
square, products = torch.ones(1024, 1024), []
for _ in range(20):
    started = time.process_time()
    square @ square
    products.append(time.process_time() - started)
share = 4 * 8192**2 * 64 / (fused[3][2] / 1000) / (2 * 1024**3 / min(products))
print(f"8,192 tokens: plain {plain[3][2]:,.0f} ms, fused {fused[3][2]:,.0f} ms", end=", ")
print(f"which is {share:.0%} of the speed of a plain product of matrices on this core")
assert all(measured[kind][3][1] < plain[3][1] / 10 for kind in ("fused", "tiles"))
assert fused[3][1] / fused[1][1] < 8 and plain[3][1] / plain[1][1] > 8  # four times the tokens
assert fused[3][2] / fused[1][2] > 8 and fused[3][2] < plain[3][2]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels with logarithmic axes, 1,024 to 8,192 tokens. Memory: plain attention rises
# steeply to more than 500 MiB, tiles and fused stay far below. Time: three steep lines.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# No, its time grows like $n^2$: four times the tokens are sixteen times the pairs, and every pair
# still takes its multiplications. But without the trips it needs less time than plain attention,
# and comes near the speed of a plain product of matrices. **A fused kernel makes the novel
# *possible*. It does not make it cheap.**

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. A process remembers the most memory that it ever held, so each kind runs in a
# new one. The sentence 'FlashAttention makes attention linear' is in many heads. Ask those
# who say it which multiplication was left out. Chapter 9's windows do leave some out.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The roofline: arithmetic or memory?
#
# Is attention itself limited by arithmetic or by memory? That depends on how much it computes with
# each byte that is carried: the **intensity**, in operations per byte.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask for the intensity of a sum of two long vectors: one operation for three
# numbers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Prefill and decoding
#
# In prefill, $n$ queries meet $n$ keys in one step, so a key that has been carried serves all of
# them. In decoding, a single query meets the $n$ keys in the cache. A pair takes $4d$ operations: a
# product and a sum for each of the $d$ numbers of the key, and of the value. In one head, with 2
# bytes per number as in the formula:
#
# | | operations | bytes | intensity |
# |---|---|---|---|
# | prefill, fused | $4\,n^2 d$ | $8\,n d$: queries, keys, values, output | $n / 2$ at most |
# | prefill, plain | $4\,n^2 d$ | $8\,n^2$: four trips of the matrix | less than $d / 2$ |
# | decoding | $4\,n d$ | $4\,n d$: keys and values | $1$, whatever $n$ is |
#
# In Llama 3.1 8B each byte of the cache serves the queries of four heads, which makes 4. In
# DeepSeek-V3 all 128 heads share one row of numbers per token (chapter 11), which makes 242.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the intensities against the package's count
for n in (1024, 4096, 16_384):
    assert attention_work(n, n, 128, bytes_per_number=2).intensity == n / 2
    assert abs(attention_work(1, n, 128, bytes_per_number=2).intensity - 1) < 2e-3
    assert 56 < attention_work(n, n, 128, fused=False, bytes_per_number=2).intensity < 64
grouped = attention_work(1, 4096, 128, num_heads=32, num_kv_heads=8, bytes_per_number=2)
assert abs(grouped.intensity - 4) < 0.01

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Let pairs derive the last row: $nd$ numbers in the keys, $nd$ in the values, 2 bytes
# each. A causal mask halves operations and intensity of the first row, while plain attention still
# computes its whole matrix.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The roofline
#
# Is an intensity of 1 low? At the intensity $I$, each byte that arrives allows $I$ operations, so
# the speed of a machine is at most
#
# $$\min(\text{operations per second},\ \; \text{bytes per second} \cdot I).$$
#
# Drawn against $I$ this is a roof (Williams et al., 2009), whose slope and flat top meet at the
# **ridge**, where both times are equal. Left of it a step is memory-bound, right of it
# compute-bound. An H100's ridge is at 989 / 3.35, the 295 of the beginning. (At the 786 trillion
# that we measured for a product of matrices, it would be 235.)
#
# **Predict.** An H100's arithmetic becomes twice as fast, and its memory stays as it is. Which of
# these can become faster there, for heads of $d = 128$: fused prefill of 2,048 tokens, plain
# prefill, decoding?

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes with the vote, for each of the three. By hand: a machine with 300 operations and 1
# byte per second has its ridge at 300, and at an intensity of 1 it reaches 1 of its 300. The vote
# for decoding surprises: a chat answers at the pace of its memory.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the roofline says

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws an H100's roof, once more with twice the arithmetic, and what lies below it
h100, twice = Roofline(989e12, 3.35e12), Roofline(2 * 989e12, 3.35e12)  # published, 16-bit numbers
figure, ax = plt.subplots(figsize=(11, 6))
line = torch.logspace(-0.5, 4.4, 200).tolist()
ax.loglog(line, [twice.attainable(x) / 1e12 for x in line], color=GREY, ls="--")
ax.loglog(line, [h100.attainable(x) / 1e12 for x in line], color=INK)
ax.text(0.5, 750, "an H100's roof, and dashed\nwith twice the arithmetic", fontsize=14, va="center")
kinds = {"prefill, fused": (1024, "o"), "prefill, plain": (64, "s"), "decoding": (1, "^")}
for name, (intensity, mark) in kinds.items():
    for machine in (twice, h100):
        style = {"mfc": GROUND, "mew": 2, "markersize": 11, "color": INK}
        ax.loglog(intensity, machine.attainable(intensity) / 1e12, mark, **style)
    at = intensity, h100.attainable(intensity) / 1e12
    place = {"xytext": (14, -14), "textcoords": "offset points", "fontsize": 14}
    ax.annotate(name, at, **place | ({"xytext": (-72, -28)} if mark == "o" else {}))
ax.annotate("", (1024, 1700), (1024, 1120), arrowprops={"arrowstyle": "-|>", "color": INK})
ax.loglog([8192 / 3], [786], "*", color=INK, markersize=14, label="a product, measured")
for n, ms in {1024: 0.26, 16_384: 2.52, 65_536: 37.8}.items():
    work = 8 * n * 1024**2 + 4 * n**2 * 1024  # four projections, scores and averages
    carried = 2 * (12 * n * 1024 + 4 * 1024**2)  # what each step reads and writes, and four weights
    spot = work / carried, work / ms / 1e9
    ax.loglog(*spot, "D", color=INK, ms=7, label="our layer, measured" if n == 1024 else "")
    where = {"xytext": (0, -20), "textcoords": "offset points", "ha": "center"}
    ax.annotate(f"{n:,}" if n == 16_384 else f"{n:,} tokens", spot, **where)
ax.set(xlabel="intensity: operations per byte", ylabel="trillion operations per second")
ax.set_ylim(0.7, 4000)
ax.set_title(
    "Twice the arithmetic lifts fused prefill, and leaves decoding where it is", fontsize=17
)
ax.legend(loc="lower right", fontsize=14)
plt.show()
assert round(h100.ridge) == 295 and round(twice.ridge) == 590 and round(786 / 3.35) == 235

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an H100's roofline, dashed with twice the arithmetic. Of the hollow marks, upper bounds,
# only fused prefill rises. Measured are a product of matrices, near the flat top, and a layer: with
# 16,384 and 65,536 tokens at half of it, with 1,024 at a twentieth.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# Only fused prefill can. The ridge moves to 590, and fused prefill, with an intensity of at most
# 1,024, can stay right of it. Plain prefill and decoding were left of it already, where the memory
# decides. (Plain prefill because the matrices of all heads do not fit into the fast memory.) **Here
# faster arithmetic speeds up fused prefill, but not decoding.** To make decoding faster, carry
# fewer bytes, or do more with each. (A roof is only an upper bound: the measured layers reach half
# of it, or a twentieth. *Measured on an H100* asks why.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Point at each mark. The hollow ones are NVIDIA's two figures and a division, the
# filled ones a stored run. 'Do several sentences at once help?' always comes: the products with the
# parameters, yes; attention, no, because each sentence has its own cache. This is a good place to
# stop.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# So far: what one machine needs time for. Next: what a cache needs room for, and many machines.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The key-value cache in bytes
#
# How much room do the caches take? In Llama 3.1 8B, a novel's cache takes 13 GB. An H100 with its
# 80 GB has room for four beside the 16 GB of parameters. Llama 2 7B has four times as many
# key-value heads. There such a cache takes 52 GB, more than all 14 GB of parameters, and only one
# fits. (It was trained with 4,096 tokens.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room compute a novel's cache from the 1.07 GB of 8,192 tokens. Then ask how
# many users fit beside the parameters of each model.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The time for the next token
#
# In decoding, each of $B$ users computes one token per step. While they are few, memory is the
# limit, and a step takes (parameters + $B$ · cache) / (bytes per second). With 1.07 GB each, 59
# caches fit into the 64 GB beside the parameters, if nothing else needs memory.
#
# **Predict.** When all 59 ask at once, how many times as long does each wait for a token as a
# single user?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes with the vote. '59 times' and 'the same' are both said.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the time for the next token as parameters and caches, for more and more users
figure, ax = plt.subplots(figsize=(11, 5.4))
rows = [(1, 8192), (4, 8192), (16, 8192), (59, 8192), (1, tokens), (4, tokens)]
for y, (B, context) in zip((0, 1, 2, 3, 4.6, 5.6), rows, strict=True):
    carry = cache * context / 8192 / 3.35  # ms for one cache
    box(ax, 0, y - 0.4, 16 / 3.35, 0.8, GROUND, "parameters")  # 16 GB
    starts = [16 / 3.35 + user * carry for user in range(B)]
    for part, color in ((y - 0.2, VALUE), (y + 0.2, KEY)):
        ax.barh([part] * B, carry, left=starts, height=0.4, color=color, edgecolor=GROUND, lw=0.8)
    end = 16 / 3.35 + B * carry
    ax.text(end + 0.3, y, f"{end:.1f} ms: {1000 * B / end:,.0f} tokens/s", va="center", fontsize=14)
    ax.text(-0.3, y, f"{B} user{'s' if B > 1 else ''}", ha="right", va="center", fontsize=14)
    if (B, context) == (1, tokens):
        ax.text(6.7, y - 0.2, "values", color=GROUND, ha="center", va="center", fontsize=13)
        ax.text(6.7, y + 0.2, "keys", color=GROUND, ha="center", va="center", fontsize=13)
ax.text(-5, 1.5, "8,192\ntokens\neach", ha="center", va="center", fontsize=14)
ax.text(-5, 5.1, "a novel\neach", ha="center", va="center", fontsize=14)
ax.set(xlim=(-6.2, 31.5), ylim=(6.2, -0.6), xticks=[])
ax.axis("off")
ax.set_title("The parameters are carried once, and each user adds one cache", fontsize=18)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: six bars, each with the parameters' 4.8 ms and one cache per user. With 8,192 tokens
# each, one user waits 5.1 ms and 59 users 23.7. With a novel each, one waits 8.7 ms and four 20.4.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# By the formula, each waits only 4.6 times as long, and the GPU writes 12.7 times as many tokens
# per second. **The parameters are carried anyway, so a further user adds only the time of one more
# cache.** But with a novel each, four users get only 1.7 times as many tokens as one, because their
# caches outweigh the parameters. So a server weighs the **latency** for each user against the
# **throughput** for all.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the numbers of the text, and that arithmetic is not the limit
shapes = {shape.name: shape for shape in PUBLISHED}
llama_2, llama_3 = (shapes[name].bytes(1) for name in ("Llama 2 7B", "Llama 3.1 8B"))
assert (llama_2, llama_3) == (2**19, 2**17) and round(tokens * llama_2 / 1e9) == 52
assert int((80 - 14) * 1e9 / llama_2 / tokens) == 1 and int(64e9 / llama_3 / tokens) == 4
assert int((80 - 16) * 1e9 / llama_3 / 8192) == 59
ms = {(B, n): (B * n * llama_3 / 1e9 + 16) / 3.35 for B in (1, 4, 59) for n in (8192, tokens)}
later, novels = ms[59, 8192] / ms[1, 8192], ms[4, tokens] / ms[1, tokens]
assert (round(later, 1), round(59 / later, 1)) == (4.6, 12.7)
assert 2 < novels < 2.5 and round(4 / novels, 1) == 1.7
arithmetic = 59 * (2 * 8e9 + 32 * 4 * 4096 * 8192) / 989e12
assert round(1000 * arithmetic, 1) == 1.2 and round(ms[59, 8192], 1) == 23.7
assert round(8 / 3.35, 1) == 2.4  # 1 byte for each parameter
assert round(llama_3 * 8192 / 1e9, 2) == 1.07

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask what would make the token come sooner: faster memory, fewer key-value heads, a
# smaller number format.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a server can do
#
# When a long prompt arrives, who waits for whom? Each user feels two waits: the **time to first
# token**, while the prompt is read, and then the **time per token**.
#
# Suppose sixteen users are decoding, with 8,192 tokens each. By the formula, a step takes $(16 + 16
# \cdot 1.07) / 3.35 = 9.9$ ms. Now a newcomer sends a prompt of 8,192 tokens, whose arithmetic
# takes $8192 \cdot 0.0162 = 133$ ms.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask the room who should wait: the newcomer, or the sixteen?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Whole batches and empty slots
#
# The simplest server takes sixteen users, answers all of them, and only then takes others. But when
# an answer ends, its place in the batch, its **slot**, stays empty until the longest ends (Yu et
# al., 2022). Suppose the answers end one after the other, the last of them after 20 more tokens.
# Then almost half of the slots are empty on average, and if empty slots are computed as well, so
# much of the throughput is lost. The newcomer waits $20 \cdot 9.9 + 133 = 331$ ms.
#
# ### Continuous batching
#
# Why not fill a slot as soon as it is free? In **continuous batching**, users join and leave
# between any two steps (Yu et al., 2022). The next step reads the newcomer's whole prompt, so the
# first token comes after 133 ms. But a step ends for all its users at once. The sixteen, who are
# used to a token every 9.9 ms, also have to wait for 133 ms.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room find the fault of each server before you name the next.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Chunked prefill
#
# So the prompt should come in pieces, but of which size? In the 9.90 ms that a step takes to carry
# parameters and caches, the arithmetic has time for $9.90 / 0.01618 = 612$ tokens. The users need
# 16 of them, so 596 tokens of the prompt can ride along at no cost. In such **chunks** (Agrawal et
# al., 2023) the prompt takes 14 steps or 139 ms, and without its own attention and cache, which we
# leave out here, the others keep their 9.9 ms.
#
# ### Separate machines
#
# Reading needs arithmetic and writing needs memory, so each can also get a machine of its own
# (DeepSeek-AI, 2024), chosen and split for it. Then neither delays the other. But before the
# newcomer's second token the prompt's cache has to travel, 21 ms at 50 GB per second.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them compute 612 from the two times of the opening, and then the 14 chunks.


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws what the sixteen users and the newcomer get on four servers, and computes both waits
def draw_server(ax, title, rows, newcomer, notes):
    """Rows of (starts, width) of the users' steps, and the newcomer's (start, width, color)."""
    for y, (starts, width) in enumerate(rows):
        for start in starts:
            box(ax, start, y, width, 0.8, RULE, lw=0.4)
    for start, width, color in newcomer:
        box(ax, start, 18, width, 3.4, color, lw=0.6)
    for x, y, text in notes:
        ax.text(x, y, text, ha="center", va="center", fontsize=13)
    ax.set(xlim=(0, 360), ylim=(21.6, -0.5), yticks=[8, 19.7], yticklabels=["16 users", "newcomer"])
    ax.set_title(title, fontsize=15)
    ax.tick_params(labelsize=13, length=0)


def steps_from(start, width):
    """The starts of steps of this width until the end of the picture."""
    return [start + i * width for i in range(math.ceil((360 - start) / width))]


step, alone = (16 * cache + 16) / 3.35, 8192 * 16 / 989  # ms: 16 users' step, the whole prompt
together = (8192 + 16) * 16 / 989  # ms: the prompt and the users' tokens in one step
later, single = (17 * cache + 16) / 3.35, (cache + 16) / 3.35  # ms: 17 users' step, one user's
room = int(step * 989 / 16)  # tokens that the arithmetic has time for in the users' step
chunks, travel = math.ceil(8192 / (room - 16)), 1000 * cache / 50
needs = [math.ceil(20 * user / 16) for user in range(16, 0, -1)]  # further tokens of each user
first = 20 * step + alone
figure, axes = plt.subplots(2, 2, figsize=(11, 7.4), sharex=True, sharey=True)
on_prompt = (alone / 2, 19.7, "prompt")
title = f"Whole batch: first token {first:.0f} ms, others {step:.1f}"
in_batch = [([i * step for i in range(need)], step) for need in needs]
answer = [(x, single, RULE) for x in steps_from(first, single)]
notes = [(150, 12.5, "empty slots"), (20 * step + alone / 2, 19.7, "prompt")]
draw_server(axes[0, 0], title, in_batch, [(20 * step, alone, PALE), *answer], notes)
for ax, title, width, count, note in (
    (
        axes[0, 1],
        f"Continuous: first {together:.0f}, others {together:.0f}",
        together,
        1,
        on_prompt,
    ),
    (
        axes[1, 0],
        f"In chunks: first {chunks * step:.0f}, others {step:.1f}",
        step,
        chunks,
        (chunks * step / 2, 17, f"prompt in {chunks} chunks"),
    ),
):
    starts = [i * width for i in range(count)]
    after = steps_from(count * width, later)
    newcomer = [*((x, width, PALE) for x in starts), *((x, later, RULE) for x in after)]
    draw_server(ax, title, [(starts, width)] * 16, newcomer, [note])
    for y in range(16):
        for start in after:
            box(ax, start, y, later, 0.8, RULE, lw=0.4)
title = f"Separate: first {alone:.0f}, others {step:.1f}"
answer = [(x, later, RULE) for x in steps_from(alone + travel, later)]
newcomer = [(0, alone, PALE), (alone, travel, GROUND), *answer]
notes = [on_prompt, (alone + travel / 2, 17, "its cache travels")]
draw_server(axes[1, 1], title, [(steps_from(0, step), step)] * 16, newcomer, notes)
for ax in axes[1]:
    ax.set_xlabel("ms since the prompt arrived", fontsize=13)
figure.suptitle("In chunks a prompt rides along, and the others go on", fontsize=18)
plt.show()

empty = 1 - sum(needs) / (16 * 20)
assert (round(step, 1), round(alone), room, chunks) == (9.9, 133, 612, 14) and round(
    empty, 2
) == 0.45
assert (round(first), round(together), round(chunks * step), round(travel)) == (331, 133, 139, 21)
assert round(16 / 989, 5) == 0.01618 and round(9.9 / 0.01618) == 612

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four servers, computed, with a thin row for each of 16 users and a thick one for the
# newcomer; steps that write are strong, those that read are pale. Whole batch: the rows end one by
# one, then the prompt is read. Continuous: all wait during one long step. In chunks: the prompt has
# 14 short steps. Separate: one long step, then the cache travels.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# Which server is best? Compared with continuous batching, chunks cost the newcomer 6 ms and save
# the others a pause of 133. Separate machines save both, for the price of a second GPU. All of this
# leaves out the prompt's own attention, which adds 17 or 18 ms everywhere and makes the last full
# chunk 12 ms long.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask who pays on each server, and with what.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Room for more caches
#
# Nobody knows in advance how long an answer will be, so a simple server reserves memory for the
# longest. A **paged cache** lies in pages of a few tokens anywhere in memory, with a table of where
# they are, and takes a page only when it is needed (Kwon et al., 2023). Prompts that begin alike
# can even share pages (**prefix caching**). And **quantisation** to 1 byte per number turns the
# parameters' 4.8 ms into 2.4, and fits twice as many tokens into a cache. (What it costs in
# quality, we did not test.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Speculative decoding
#
# A single user's step also has room for more tokens, but where do they come from? In **speculative
# decoding** a small model guesses the next four, and the large one checks them in one step, as if
# they were a prompt. If the small model has a tenth of the parameters, this takes $4 \cdot 0.48 +
# 4.8 = 6.7$ ms, without the caches. Suppose the first two guesses are right and the third is wrong.
# The check has already computed the large model's own token in its place, so three tokens take 6.7
# ms rather than 14.3. With the right rule for keeping guesses, the answers keep their distribution
# (Leviathan et al., 2023). **A step that waits for memory has room for more tokens.**

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the time of three tokens, one by one and with guesses
guess, full = 1.6 / 3.35, 16 / 3.35  # ms: a tenth of the parameters, and all
lanes = {
    "one by one": [(full, RULE, f"writes token {i}") for i in (1, 2, 3)],
    "with guesses": [(guess, GROUND, str(i)) for i in (1, 2, 3, 4)]
    + [(full, RULE, "checks 1, 2, 3, 4:\nkeeps 1 and 2, writes 3")],
}
figure, ax = plt.subplots(figsize=(11, 2.9))
for y, boxes in enumerate(lanes.values()):
    start = 0.0
    for width, color, text in boxes:
        box(ax, start, y - 0.35, width, 0.7, color, text)
        start += width
    ax.text(start + 0.15, y, f"{start:.1f} ms", va="center", fontsize=14)
ax.set_yticks(range(2), lanes, fontsize=14)
ax.set(xlim=(0, 16.5), ylim=(1.5, -0.5), xlabel="ms")
ax.set_title("Four quick guesses and one check give three tokens", fontsize=18)
plt.show()
assert (round(3 * full, 1), round(4 * guess + full, 1)) == (14.3, 6.7)
assert round(guess, 2) == 0.48 and round(full * 989 / 16) == 295

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two timelines. One by one, three steps write three tokens in 14.3 ms. With guesses, four
# narrow boxes and one step, which keeps two guesses and writes the third token, take 6.7 ms.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. When the first guess is wrong, the small model's time is lost. Then ask why guesses
# gain little for 300 users with short caches: no arithmetic is to spare.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## More than one machine
#
# When the model does not fit, or training takes too long, several machines can split the sentences
# of a batch (**data parallel**), the heads and hidden units of each layer (**tensor parallel**), or
# the tokens of each sentence (**context parallel**):

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws what two ranks hold of the batch and of a layer, in three ways to split the work
figure, axes = plt.subplots(1, 3, figsize=(11, 5))
ways = {"Data parallel": "gradients", "Tensor parallel": "outputs"}
ways |= {"Context parallel": "keys and values"}
for ax, (title, sends) in zip(axes, ways.items(), strict=True):
    for rank, y in ((0, 3.4), (1, 0)):
        for row, column in ((i, j) for i in range(4) for j in range(6)):  # 4 sentences, 6 tokens
            has = {"D": row // 2 == rank, "T": True, "C": column // 3 == rank}[title[0]]
            style = {"facecolor": INK if has else GROUND, "edgecolor": GREY}
            ax.add_patch(Rectangle((0.6 * column, y + 0.6 * (3 - row)), 0.5, 0.5, **style))
        for head in range(4):
            has = title[0] != "T" or head // 2 == rank
            style = {"facecolor": RULE if has else GROUND, "edgecolor": INK}
            ax.add_patch(Rectangle((4.6 + 0.6 * head, y), 0.6, 2.3, **style))
        ax.text(-0.3, y + 1.15, f"rank {rank}", rotation=90, ha="center", va="center")
    for x, name in ((1.75, "batch"), (5.8, "layer")):
        ax.text(x, 6.0, name, ha="center", fontsize=15)
    ax.text(3.4, -0.3, f"sends {sends}", ha="center", va="top", fontsize=15)
    ax.set(xlim=(-0.7, 7.2), ylim=(-1, 6.6))
    ax.set_title(title, fontsize=17)
    ax.axis("off")
figure.suptitle("Sentences, heads or tokens can be split", fontsize=18)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a batch of four sentences and a layer of four heads, on two ranks. Data parallel: each
# has two sentences. Tensor parallel: two heads. Context parallel: half of each sentence.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# All of these run on this machine, the last one below, the others in *Going further*. The processes
# run the same program, each with a number, its **rank**. In an **all-reduce** each brings a tensor
# and leaves with the sum of all.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. First ask, without the picture, what two machines could each do; 'half of the layers'
# and 'half of the sentences' come first. Gloo is the library that carries the numbers between CPUs;
# on GPUs it is NCCL.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Data parallel: split the batch
#
# The simplest way gives each process its own sentences. An all-reduce adds up the gradients, and
# all take the same step. There is one trap: where sentences differ in length, the mean of the
# processes' mean losses is not the mean over all tokens. **So each process divides its sum by the
# number of all tokens, and the gradients are only added up** (*Unequal numbers of tokens*).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what has to be added up: as many numbers as there are parameters. No error message
# reports the trap: training on two machines is only a little different from training on one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Tensor parallel: split the heads
#
# Heads work apart until $W_o$, so rank 0 can take some of them and rank 1 the rest, while all
# tokens go to both (Shoeybi et al., 2019). But what about $W_o$, which mixes the heads? Suppose two
# heads of one number each give $h = (2, 3)$ for a token, and $W_o = (10, 100)^\top$, so one process
# computes $2 \cdot 10 + 3 \cdot 100 = 320$. With the first head and the first row of $W_o$, rank 0
# gets 20. Rank 1 gets 300, and one all-reduce makes 320. In general
#
# $$\text{concat}(h_1, h_2)\, W_o = h_1 W_o^{(1)} + h_2 W_o^{(2)}$$

# %% [markdown] slideshow={"slide_type": "-"}
# The feed-forward network (FFN) is split in the same way, by its hidden units. **So a layer needs
# two all-reduces forward**, and two more backward, for the gradients of the inputs.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the last sentence ask which part of $W_o$ each rank needs. Someone sends the
# heads' outputs and multiplies afterwards: that is right, but then everyone needs all of it.


# %% [markdown] slideshow={"slide_type": "slide"}
# ## Context parallel: split the sequence
#
# A single novel offers no second sentence to give away, so rank 0 gets the first half of its tokens
# and rank 1 the second. The FFN and the projections work token by token, but attention must see all
# keys. Take the scores $\ln 1, \ln 2, \ln 4$ and values $7, 14, 0$ again. Each rank first attends
# to its own keys:
#
# | | sum of $e^a$ | output |
# |---|---|---|
# | keys 1 and 2 | $3$ | $(1 \cdot 7 + 2 \cdot 14) / 3 = \frac{35}3$ |
# | key 3 | $4$ | $0$ |
#
# The average of the two outputs, weighted by their sums, is $(3 \cdot \frac{35}3 + 4 \cdot 0) / 7 =
# 5$, the right answer. **This is the online softmax once more, with a whole process in place of a
# block.**

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room weigh the two outputs before you show the average.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Merge partial results
#
# Each part returns its output and the logarithm of its sum, since the sum itself may be infinite.
# The weights are then a softmax of the logarithms:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_partial_attention(queries, keys, values, mask=None):  # (*, s, d), (*, k, d), (*, k, V)
    scores = queries / math.sqrt(queries.shape[-1]) @ keys.mT  # (*, s, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    log_sum = scores.logsumexp(dim=-1, keepdim=True)  # (*, s, 1)
    return (scores - log_sum).exp() @ values, log_sum


def plain_merge(parts):  # each an output (*, s, V) and its log_sum (*, s, 1)
    outputs, log_sums = (torch.stack(each) for each in zip(*parts, strict=True))
    return (log_sums.softmax(dim=0) * outputs).sum(dim=0)  # (*, s, V)


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room find the softmax among the parts: $\ln 3$ and $\ln 4$ become
# $\frac37$ and $\frac47$.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that partial results merge to the same answer
query, values = torch.tensor([[1.0]]), torch.tensor([[7.0], [14.0], [0.0]])
keys = torch.tensor([[1.0], [2.0], [4.0]]).log()
parts = [plain_partial_attention(query, keys[i:j], values[i:j]) for i, j in ((0, 2), (2, 3))]
torch.testing.assert_close(plain_merge(parts), torch.tensor([[5.0]]))
torch.testing.assert_close([log_sum.exp().item() for _, log_sum in parts], [3.0, 4.0])

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The same merge speeds up decoding on one GPU, whose cores each take a piece of the
# cache (Flash-Decoding).

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Steps round the ring: four processes, each with one query, one key and one value
ring_numbers = torch.tensor([[1.0, 2, 0, -1], [0, 1, 2, -1], [7, 14, 0, 7]])
ring_q, ring_k, ring_v = ring_numbers[..., None, None].unbind()  # (4, 1, 1): a chunk per process
corners = [(0, 0), (4.6, 0), (4.6, 3.8), (0, 3.8)]
handing_on = [("→", 3.8, 1), ("↓", 6.1, 3), ("←", 3.8, 4.8), ("↑", 1.5, 3)]
going_round = [cell for each in handing_on for cell in grid(*each, "head", width=0.8, height=0.8)]


def at_process(rank, met):
    """What process ``rank`` holds once it has met these keys, the last of them now."""
    (x, y), owner = corners[rank], met[-1]
    so_far = plain_merge([plain_partial_attention(ring_q[rank], ring_k[j], ring_v[j]) for j in met])
    cells = grid("", x, y, "frame", width=3.8, height=3)
    cells += grid(f"Q{rank}", x + 0.2, y + 0.2, "query", name=f"Q{rank}")
    cells += grid(f"K{owner}", x + 1.5, y + 0.2, "key", name=f"K{owner}")
    cells += grid(f"V{owner}", x + 2.6, y + 0.2, "value", name=f"V{owner}")
    cells += grid("output", x + 0.2, y + 1.2, "head", width=1.6, height=0.8)
    cells += grid(so_far, x + 2, y + 1.2, "output", name=f"o{rank}", width=1.6, height=0.8)
    kinds = [["done" if j in met else "ghost" for j in range(4)]]
    return cells + grid(list(range(4)), x + 0.2, y + 2.1, kinds, width=0.85, height=0.7)


texts = {
    "Each process begins with its own keys and values": "The bar below says which it has met.",
    "The queries stay, and the keys and values go round": "Each merges what it gets.",
    "Every exchange fills one more place": "Nobody has all the keys at once.",
    "After three exchanges each has met the keys of all four": "Its output is the right one.",
}
met = [[[(rank - i) % 4 for i in range(step)] for rank in range(4)] for step in range(1, 5)]
drawn = [sum(map(at_process, range(4), each), going_round) for each in met]
Player([State(*text, cells) for text, cells in zip(texts.items(), drawn, strict=True)])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four steps, with four processes in a square. Queries stay, while the cards of keys and
# values go on clockwise, and each step fills one of four places in a process's bar.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# With many processes the keys and values go round a **ring** (Liu et al., 2023). After $P - 1$
# exchanges, each of $P$ processes has met all chunks. (The loop below makes one more, which brings
# them home.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Four students stand in a square and hand a sheet on. How many exchanges until each
# has seen all four? Three. The ring can also send while it computes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Send and receive on three processes
#
# In the code, each process does three things in each step:
#
# 1. attend to the keys and values that are here;
# 2. send them to the next process (`isend`), and receive others from the one before (`irecv`);
# 3. wait for both, and go on with those that have come.
#
# `batch_isend_irecv` starts all messages at once, so they cannot block each other. With a causal
# mask, a chunk of the future is passed on unread, so rank 0 has the least work.


# %% slideshow={"slide_type": "subslide"}
def causal_ring(queries, keys, values):  # chunks, (s, d) or (s, V), all of one s
    rank, P, parts = dist.get_rank(), dist.get_world_size(), []
    for step in range(P):
        owner = (rank - step) % P  # whose keys are here
        if owner <= rank:  # not the future
            mask = causal_mask(len(queries)) if owner == rank else None
            parts.append(plain_partial_attention(queries, keys, values, mask))
        got = [torch.empty_like(X) for X in (keys, values)]  # room for what comes
        moves = [dist.P2POp(dist.isend, X, (rank + 1) % P) for X in (keys, values)]
        moves += [dist.P2POp(dist.irecv, X, (rank - 1) % P) for X in got]
        for move in dist.batch_isend_irecv(moves):
            move.wait()
        keys, values = got
    return plain_merge(parts)


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares three processes with one, on 12 tokens with a causal mask
def my_chunk():
    torch.manual_seed(0)  # every process draws the same 12 tokens
    return causal_ring(*(share_sequence(X).clone() for X in torch.randn(3, 12, 5)))


torch.manual_seed(0)
whole = dot_product_attention(*torch.randn(3, 12, 5), is_causal=True)
apart = (torch.cat(run_processes(my_chunk, 3)) - whole).abs().max()
print(f"three processes differ from one by {apart:.0e}")
assert apart < 1e-5

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them find the lines that send, receive and skip. Ask why nobody deadlocks, though
# all send first: `isend` returns at once, and `wait` comes after both.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which split when?
#
# All three give the numbers of one process, so what they send decides. By published speeds, the
# GPUs within a server exchange 450 GB per second, and servers 50. So split the **heads within a
# server**, because their outputs are sent for every token, and the next product waits for them.
# Split the **batch between servers**, because gradients are sent only once per step, however many
# sentences it has. Split the **sequence** when a single one does not fit.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws two servers, which split the batch, with four GPUs each, which split the heads
figure, ax = plt.subplots(figsize=(11, 3.4))
for server, x in ((0, 0.0), (1, 6.2)):
    box(ax, x, 0, 5, 2.5, GROUND, lw=1.5)
    ax.plot([x + 0.7, x + 4.3], [0.85, 0.85], color=INK, lw=9, zorder=2)
    for gpu in range(4):
        box(ax, x + 0.2 + 1.2 * gpu, 0.4, 1, 0.9, RULE, f"heads\n{8 * gpu}–{8 * gpu + 7}", zorder=3)
    sentences = f"server {server + 1}: sentences {1 + 4 * server} to {4 + 4 * server}"
    ax.text(x + 2.5, 2.1, sentences, ha="center", va="center", fontsize=15)
    ax.text(x + 2.5, 1.6, "outputs, for every token", ha="center", va="center", fontsize=13)
ax.plot([5, 6.2], [1.25, 1.25], color=INK, lw=1.5)
ax.text(5.6, -0.35, "gradients, once per step", ha="center", va="center", fontsize=13)
ax.plot([5.6, 5.6], [-0.15, 1.2], color=FAINT, lw=0.8, ls=":")
ax.set(xlim=(-0.2, 11.4), ylim=(-0.6, 2.6))
ax.axis("off")
ax.set_title("Heads over the fast network, the batch over the slow one", fontsize=18)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two servers, each with four of eight sentences and four GPUs of eight heads each. A thick
# line joins the GPUs of a server, a thin one the servers.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask first which of the two networks should carry what is sent for every token.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One split, slowly
#
# Take one layer of Llama 2 7B, with $D = 4096$ and about $12 D^2$ or 201 million parameters. Eight
# GPUs, each in a server of its own, train it on a batch of 8 sentences of 8,192 tokens, one each.
#
# **Sending.** A GPU has a gradient of 2 bytes for each parameter, 403 MB in all. In an all-reduce
# among eight it sends $\frac74$ of them (*How much each way sends*), or 705 MB, which takes 14.1 ms
# at 50 GB per second.
#
# **Computing.** Per parameter, a token takes 2 operations forward and 4 backward, 1.2 billion in
# all, and attention to every token adds 0.4 billion. So a GPU's 8,192 tokens take 13 trillion
# operations, or 13.3 ms at 989 trillion per second.
#
# So sending takes 14.1 / 13.3 = 1.06 times as long as computing. (At the 786 trillion that we
# measured, computing is slower, and the ratio is 0.84.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room compute the 705 MB, then the 14 ms, and guess whether computing takes
# longer.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The three splits beside each other
#
# The same division for each split gives, for sending / computing:
#
# | split | choose it when | within a server, 450 GB/s | between servers, 50 GB/s |
# |---|---|---|---|
# | batch | the model fits, but training takes too long | 0.12 | 1.06 |
# | heads | a layer does not fit, or a token must come sooner | 0.63 | 5.63 |
# | sequence | one sequence does not fit | 0.61 | 5.48 |
#
# With 128 sentences the batch's 1.06 falls to 0.07, because the same gradients are sent for more
# work, while the other two stay above 4. (Here every token sees every token.) Below 1, sending
# *may* be hidden by computing: gradients can travel while earlier layers are still at work.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the split that was derived, and the table
layer, shares = LayerShape(num_hiddens=4096, num_tokens=8192, batch_size=8), []
sent = bytes_per_layer(layer, num_processes=8)
sent["context"] += sent["data"]  # its gradients are averaged as well
assert [numbers / 2**20 for numbers in sent.values()] == [672, 3584, 3488]
assert round(12 * 4096**2 / 1e6) == 201 and round(2 * 12 * 4096**2 / 1e6) == 403
assert round(sent["data"] / 1e6) == 705 and round(sent["data"] / 50e6, 1) == 14.1
per_token = 6 * 12 * 4096**2, 12 * 8192 * 4096  # operations with parameters, and in attention
assert [round(each / 1e9, 1) for each in per_token] == [1.2, 0.4]
assert round(8192 * sum(per_token) / 1e12) == 13
for speed in (450e9, 50e9):
    each = layer_times(layer, 8, flops_per_second=989e12, bytes_per_second=speed)
    data, tensor, context = (time.moving / time.computing for time in each.values())
    shares += [round(share, 2) for share in (data, tensor, context + data)]
assert shares == [0.12, 0.63, 0.61, 1.06, 5.63, 5.48]
assert round(1000 * each["data"].computing, 1) == 13.3 and round(786 / 989 * data, 2) == 0.84
layer = LayerShape(num_hiddens=4096, num_tokens=8192, batch_size=128)
each = layer_times(layer, 8, flops_per_second=989e12, bytes_per_second=50e9)
data, tensor, context = (time.moving / time.computing for time in each.values())
assert round(data, 2) == 0.07 and min(tensor, context + data) > 4
assert round(ms[1, 8192] / 8, 1) == 0.6

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for each row whom it helps. 'Tensor is slow, data is fine' is what most have
# read. It is right for larger batches, as the sentence below the table shows.

# %% [markdown] slideshow={"slide_type": "skip"}
# **When the model decodes**, which split helps a single user of Llama 3.1 8B, who waits 5.1 ms for
# a token? Splitting the batch gains nothing, because each GPU still carries all parameters. If 8
# GPUs split the heads and hidden units, each carries an eighth of the parameters and one of the 8
# key-value heads. The 5.1 ms could fall to 0.6, plus the time of two all-reduces per layer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Computing or carrying: the longer of the two times decides. Fused prefill of long texts is
#   compute-bound. Decoding is memory-bound, unless very many heads share a cache or hundreds of
#   users have short ones.
# - A softmax can be read in pieces, because a new maximum rescales the sum and the unnormalised
#   output by one factor. So memory grows like $n$, though time still grows like $n^2$.
# - The next token takes (parameters + B · cache) / (bytes per second). While the memory is busy,
#   the arithmetic has room for more tokens: of users, of a prompt, or of guesses.
# - Training can split the batch, the heads or the sequence. Two or three processes gave the numbers
#   of one, up to rounding.

# %% [markdown] slideshow={"slide_type": "skip"}
# Chapter 11 shows how today's models make the cache smaller.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let three students say one line each, with a number.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# 10.3 was above; 10.2, 10.6 and 10.7 are in *Going further*.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.1** · by hand
#
# A layer has 32 heads of 128 numbers each and reads 16,384 tokens; a number takes 2 bytes. How many
# GiB ($2^{30}$ bytes) do the attention weights of all heads take? How many do queries, keys, values
# and the heads' output take, all heads together? And how many at twice the length? Give two pairs,
# the weights first, such as `[(1, 1), (1, 1)]`: in each pair, 16,384 tokens first.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.4** · find the bug
#
# `by_tiles` should give softmax(q · k / √d) v for queries (Q, d), keys (K, d) and values (K, V),
# and hold the scores of only `block_size` keys at a time. Scores
# may lie anywhere, from -9,000 to 1,000, and the last tile may be short. Its author tried four keys
# in tiles of two, with scores just below 0, and it was right. Correct its three bugs.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.5** · by hand, then complete a function
#
# Two processes have attended to different keys with the same Q queries. Each knows the maximum (Q,)
# of its scores, the total (Q,) of exp(score - maximum), and its output (Q, V), a mean with weights
# that sum to 1. From two such triples make the triple of all keys together. Begin by hand, for one
# query: $(\ln 2, 3, 3)$ and $(\ln 10, 1.6, 14)$. Scores may be 1,000 or -1,000. A part that has
# seen no key is (-inf, 0, 0); two of them give (-inf, 0, 0) again.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order, and exercises follow them.
#
# - *The backward pass*, 1 minute.
# - *Unequal numbers of tokens*, 4 minutes: a bug that no error reports.
# - *Tensor parallel on two processes*, 4 minutes: the split heads, run.
# - *Measured on an H100*, 4 minutes: how near to the roof.
# - *How much each way sends*, 2 minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The backward pass
#
# *1 minute.* The gradient needs the weights, which the kernel never kept. So it computes them
# again, tile by tile, from one number per query that it did keep: $L = m + \ln Z$. As $e^L = e^m Z$
# is the sum of all $e^{a_j}$, each weight is $e^{a - L}$.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Prints memory and time of the forward and the backward pass together
print("forward and backward, 8,192 tokens:")
for kind in ("plain", "tiles", "fused"):
    _, peak, took = measured[kind][4]
    print(f"{kind}: {peak:4.0f} MiB, {took:5.0f} ms")
assert min(measured[kind][4][1] for kind in ("plain", "tiles")) > 3 * measured["fused"][4][1]
assert measured["plain"][4][2] > measured["fused"][4][2]

# %% [markdown] slideshow={"slide_type": "fragment"}
# The kernel does more arithmetic than plain attention, and still took less time here. Our own tiles
# save memory only forward, because autograd keeps every tile for the backward pass.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before the slide how a kernel gets at weights that it never kept. The numbers are
# those of the run shown; read them from the slide.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Unequal numbers of tokens
#
# *4 minutes.* Rank 0 has three real tokens with losses 1, 1, 1, and rank 1 has one, with loss 5,
# and padding. One parameter $w = 1$ multiplies every loss, so its gradient is the mean loss. Each
# process divides by its own tokens, or they first count them `together`.


# %% slideshow={"slide_type": "-"}
def my_gradient(together):
    w = torch.ones(1, requires_grad=True)
    losses = w * torch.tensor(([1.0, 1.0, 1.0], [5.0])[dist.get_rank()])
    count = torch.tensor(float(len(losses)))
    if together:
        dist.all_reduce(count)
        count = count / 2  # cancels the averaging below
    (losses.sum() / count).backward()
    dist.all_reduce(w.grad)
    return w.grad.item() / 2  # the mean of both gradients


for together in (False, True):
    print(f"together: {together!s:5}  gradients {run_processes(my_gradient, 2, together=together)}")

# %% [markdown] slideshow={"slide_type": "skip"}
# The mean of the means is 3, and the mean of all four losses 2.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before the run which of the two gradients each version gives. No error message
# reports this bug.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Tensor parallel on two processes
#
# *4 minutes.* Here is the split of *Tensor parallel*, drawn and run:


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws a Transformer block that is split by columns and rows, with its two all-reduces
def arrow(ax, start, end):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "lw": 2, "color": INK})


figure, ax = plt.subplots(figsize=(11, 4.8))


def half_matrix(x, y, name, half, by):
    """A matrix of which this process has the dark half, split by its columns or by its rows."""
    ax.add_patch(Rectangle((x, y), 0.9, 0.9, facecolor=GROUND, edgecolor=GREY, ls="--"))
    color = RULE if half == 0 else GREY
    corner = (x + 0.45 * half, y) if by == "columns" else (x, y + 0.45 * (1 - half))
    size = (0.45, 0.9) if by == "columns" else (0.9, 0.45)
    ax.add_patch(Rectangle(corner, *size, facecolor=color, edgecolor=INK))
    ax.text(x + 0.45, y - 0.17, name, ha="center", va="center", fontsize=13)


for half, y in ((0, 2.3), (1, 0.35)):
    ax.text(-0.75, y + 0.45, f"rank {half}", ha="center", va="center", fontsize=14)
    ax.text(0.15, y + 0.45, "X", ha="center", va="center", fontsize=14)
    half_matrix(0.75, y, "$W_q, W_k, W_v$", half, "columns")
    half_matrix(3.1, y, "$W_o$", half, "rows")
    half_matrix(5.55, y, "$W_1$", half, "columns")
    half_matrix(7.85, y, "$W_2$", half, "rows")
    for x, name in ((2.38, "its heads\nattend"), (7.12, "ReLU")):
        ax.text(x, y + 0.45, name, ha="center", va="center", fontsize=12)
    for x, width in ((0.35, 0.36), (1.68, 0.22), (2.86, 0.2), (5.15, 0.36), (6.5, 0.26)):
        arrow(ax, (x, y + 0.45), (x + width, y + 0.45))
    for x, width in ((4.05, 0.35), (7.5, 0.3), (8.8, 0.35), (9.9, 0.35)):
        arrow(ax, (x, y + 0.45), (x + width, y + 0.45))
for x in (4.42, 9.17):
    ax.add_patch(FancyBboxPatch((x + 0.08, 0.3), 0.5, 2.95, boxstyle="round,pad=0.04", fc=PALE))
    ax.text(x + 0.33, 1.78, "all-reduce", rotation=90, ha="center", va="center", fontsize=14)
ax.text(2.4, 3.55, "attention", ha="center", fontsize=14)
ax.text(7.15, 3.55, "network for each token (FFN)", ha="center", fontsize=14)
ax.set(xlim=(-1.3, 10.4), ylim=(-0.1, 3.9))
ax.axis("off")
ax.set_title("Columns first, then rows: one all-reduce for two matrices", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: in both ranks X goes to half of the columns of W_q, W_k and W_v; these heads attend; then
# comes half of the rows of W_o. An all-reduce joins the ranks. The FFN follows in the same way.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# Hidden units can be split like heads because the ReLU works unit by unit. In code, every process
# uses the columns `mine` of $W_q$, $W_k$ and $W_v$, and the rows `mine` of $W_o$:


# %% slideshow={"slide_type": "-"}
def my_heads():
    torch.manual_seed(0)
    X, W = torch.randn(5, 16), torch.randn(4, 16, 16) / 4  # 5 tokens; W_q, W_k, W_v, W_o
    mine = torch.arange(16).chunk(dist.get_world_size())[dist.get_rank()]  # 16 are 4 heads of 4
    q, k, v = (X @ W[:3][..., mine]).unflatten(-1, (-1, 4)).transpose(1, 2)  # (heads, 5, 4)
    output = plain_attention(q, k, v).transpose(0, 1).flatten(1) @ W[3][mine]  # (5, 16)
    dist.all_reduce(output)
    return output


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Compares two processes with one
(whole,), halves = run_processes(my_heads, 1), run_processes(my_heads, 2)
for rank, half in enumerate(halves):
    assert torch.allclose(half, whole, atol=1e-5)
    print(f"rank {rank} of 2 differs from one process by {(half - whole).abs().max():.0e}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The differences are rounding. The processes send outputs of all tokens, and no parameters.

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Ask why not rows first: then the ReLU, or the softmax, would need the sum, which is
# one all-reduce more. Let them find the columns, the rows and the one all-reduce in the code. The
# gradients also need one. PyTorch's `torch.distributed.tensor.parallel` does both, and the
# package's tests compare it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Measured on an H100
#
# *4 minutes.* The filled marks under the roof are from this run. A product of two matrices of 8,192
# by 8,192 numbers, 2 bytes each, reached 786 trillion operations per second, 79% of the data
# sheet's 989. The course's `MultiHeadAttention`, 1,024 wide, with 16 heads, on one sequence, is
# compared with it (stored, PyTorch 2.11.0, 27 November 2026):
#
# | tokens | 1,024 | 2,048 | 4,096 | 8,192 | 16,384 | 32,768 | 65,536 |
# |---|---|---|---|---|---|---|---|
# | forward, ms | 0.26 | 0.38 | 0.34 | 1.11 | 2.52 | 9.41 | 37.8 |
# | share of the product's speed | 6% | 12% | 39% | 39% | 62% | 63% | 61% |
# | forward and backward | 4% | 7% | 25% | 42% | 52% | 52% | 52% |
#
# **Question.** A layer with 4,096 tokens has eight times the operations of one with 1,024, but its
# 0.34 ms are hardly more than the other's 0.26. What fills the 0.26 ms?

# %% [markdown] slideshow={"slide_type": "skip"}
# (`python -m tests.benchmarks.gpu` made this table with bfloat16 on one NVIDIA H100 80GB HBM3. It
# counts the four projections as well.)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Measures three lengths here, if there is a GPU
from d2l_attention import MultiHeadAttention, try_gpu


def milliseconds_on_gpu(act, rounds=15):
    """The median of some calls, by events in the GPU's own queue."""
    took = []
    for _ in range(3 + rounds):  # the first three wake what sleeps
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        act()
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end))
    return torch.tensor(took[3:]).median().item()


device = try_gpu()
if device.type != "cuda":
    print("There is no CUDA GPU here, so nothing is measured: the table is a stored one.")
else:
    settings = {"device": device, "dtype": torch.bfloat16}
    big = torch.randn(8192, 8192, **settings)
    speed = 2 * 8192**3 / milliseconds_on_gpu(lambda: big @ big)  # operations a millisecond
    print(f"{torch.cuda.get_device_name(device)}: a product {speed / 1e9:.0f} TFLOP/s")
    layer = MultiHeadAttention(1024, 16, 0.0)
    layer(*[torch.zeros(1, 1, 1024)] * 3)  # makes the parameters
    layer.to(**settings)
    for n in (1024, 4096, 16_384):
        X = torch.randn(1, n, 1024, **settings)
        with torch.no_grad():
            took = milliseconds_on_gpu(lambda X=X: layer(X, X, X))
        work = 8 * n * 1024**2 + 4 * n**2 * 1024
        print(f"{n:6,} tokens: forward {took:.2f} ms, {work / took / speed:.0%} of the product's")

# %% [markdown] slideshow={"slide_type": "skip"}
# At the product's speed, the 12.9 billion operations of 1,024 tokens take 0.016 ms, and carrying
# their numbers takes 0.010 ms. For most of the 0.26 ms the GPU waits for the CPU, where Python and
# PyTorch start one kernel after another. If this is the cause, the time must fall when the kernels
# are recorded once and started by a single call, in a CUDA graph. On one H200 1,024 tokens took
# 0.35 ms without such a graph and 0.04 ms with it, and 16,384 tokens 2.8 and 2.6 ms.

# %% [markdown] slideshow={"slide_type": "skip"}
# With 16,384 tokens the products would take 1.6 ms. But the softmax also needs exponentials, of
# which an H100 computes only 3.9 trillion per second (Shah et al., 2024), so they take 1.1 ms. One
# after the other this makes 2.7 ms, near the measured 2.5, and for 65,536 tokens 41 ms, near 37.8.
# But for 8,192 it makes 0.7, and 1.1 were measured. (We did not measure the two apart.)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the shares of the stored table, and the numbers below it
stored = {1024: (0.26, 6), 2048: (0.38, 12), 4096: (0.34, 39), 8192: (1.11, 39)}
stored |= {16_384: (2.52, 62), 32_768: (9.41, 63), 65_536: (37.8, 61)}  # tokens: ms, percent
layer_work = {n: 8 * n * 1024**2 + 4 * n**2 * 1024 for n in stored}
for n, (ms, percent) in stored.items():
    assert abs(100 * layer_work[n] / (ms * 786e9) - percent) < 0.6  # the ms are rounded
at_product = {n: work / 786e9 for n, work in layer_work.items()}  # ms
assert round(at_product[1024], 3) == 0.016 and round(at_product[16_384], 1) == 1.6
assert layer_work[4096] == 8 * layer_work[1024] and round(layer_work[1024] / 1e9, 1) == 12.9
assert round(layer_work[16_384] / layer_work[1024]) == 96 and round(786 / 989, 2) == 0.79
assert round(2 * (12 * 1024 * 1024 + 4 * 1024**2) / 3.35e9, 3) == 0.010
assert round(3 * at_product[1024] / 0.04, 1) == 1.2  # forward and backward: 4%
exponentials = 16 * 16_384**2 / 3.9e9  # ms
assert round(exponentials, 1) == 1.1 and round(at_product[16_384] + exponentials, 1) == 2.7

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Take votes: 'products', 'memory', 'something else'. Mostly the GPU waits for the
# CPU, which starts one kernel after another (the page has the test with a CUDA graph). Do the
# division with the room: 12.9 billion by 786 trillion per second. Who says 'memory' has 34 million
# bytes by 3.35 trillion.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How much each way sends
#
# *2 minutes.* In a ring, an all-reduce splits its $N$ numbers into $P$ parts, and in each step
# every process sends one part to the next. After $P - 1$ steps each has one part of the whole sum,
# and after as many again all have all parts (Patarasuk and Yuan, 2009). So each sends
#
# $$2\,\frac{P - 1}P\,N .$$
#
# With 8 processes this is 1.75 times their numbers, and with 800 hardly more, 1.998 times. But
# there are more steps, each with a delay.

# %% [markdown] slideshow={"slide_type": "skip"}
# The other lines of the table are counted likewise, for $T$ = 65,536 tokens. Tensor parallel adds a
# tensor of $T D$ numbers four times, for two outputs and two gradients, which makes 3,758 MB.
# Context parallel passes on keys and values, $\frac28\, T D$ numbers, 7 times forward and 7 times
# backward, and their gradients 8 times, because they have to get home. This makes 2,953 MB, beside
# the 705 MB of the parameters' gradients.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the counts against the package's, and 12 D² against the published layer
B, n, D = 8, 8192, 4096
layer = LayerShape(num_hiddens=D, num_tokens=n, batch_size=B)
sent = bytes_per_layer(layer, num_processes=8)
expected = {"data": 21 * D**2, "tensor": 7 * B * n * D, "context": 5.5 * B * n * D}
assert sent == {way: 2 * numbers for way, numbers in expected.items()}
assert [round(each / 1e6) for each in sent.values()] == [705, 3758, 2953]
published = 4 * D**2 + 3 * D * 11_008  # attention, and the three matrices of its FFN
assert abs(12 * D**2 / published - 1) < 0.01 and all_reduce(1, 8) == 1.75

# %% [markdown] slideshow={"slide_type": "skip"}
# The table's speeds are NVLink's 900 GB per second for both directions together (NVIDIA), and 400
# Gbit between servers (Llama Team, 2024, section 3.3.1); none was measured here.
#
# `python -m d2l_attention.scale.parallel` splits the work in the three ways and compares with one
# process. (`torchrun` starts it on several machines, which we have not tried.) **Sharded data
# parallel** (PyTorch's FSDP2, DeepSpeed's ZeRO) also spreads parameters, gradients and the
# optimiser's state (Rajbhandari et al., 2020), and **pipeline parallel** the layers.

# %% [markdown] slideshow={"slide_type": "notes"}
# Five minutes. With $T = 16 D$ the three can be compared in the head: 21, 112 and 88 + 21 times
# $D^2$. Let the room derive the ring's steps on the four students who stand in a square.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.2** · predict, then compare
#
# Five processes add up their gradients, 100 MB each, by a ring all-reduce.
#
# - How many MB does each of them send? How many if they are ten?
#
# In one step of decoding, each head's one query reads 4,096 keys and values of 128 numbers from a
# cache of 8-bit numbers, 1 byte each. How many operations, multiplications and additions, does it
# do for each byte of the cache (without the softmax, the query and the output),
#
# - if each head has a cache of its own?
# - if eight heads share one?
# - if 16 sequences decode at once, each head of each with its own?
#
# Predict first; `check` compares. Give five numbers, such as `(1, 1, 1, 1, 1)`.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.6** · find the bug
#
# Data parallel: `process_loss` runs in each process, with the losses (B, n) of its own sequences,
# one per token, padded at the end, and their lengths (B,). Each process takes the gradient of what
# it returns; then the gradients are averaged over the processes. They should be those of the mean
# over all real tokens of all processes. The given code is right only where every process has
# equally many. Correct it, and return one number, a tensor with its gradient.
#
# `all_reduce(x)` gives every process the sum of their x, numbers or tensors of one shape; no
# gradient passes through it, and every process has to call it. A process may have no real token at
# all, but not all of them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.7** · complete a function
#
# What process `rank` of P computes of multi-head self-attention over X (B, n, D). The results (B,
# n, D) of all processes are then added up (an all-reduce), which gives the whole output. The W are
# plain matrices (D, D), as in `X @ W_q`; `b_o` (D,) is added after `W_o`; there is no other bias,
# and no mask. P divides H, and the first head owns the first D / H columns. Process `rank` has its
# D / P columns of `W_q`, `W_k` and `W_v` and its D / P rows of `W_o`, and multiplies by no others.
# Gradients reach X, all matrices and `b_o`, and a result has the dtype of X.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - M. Milakov, N. Gimelshein, *Online normalizer calculation for softmax*, 2018, arXiv:1805.02867.
#   Algorithm 3.
# - T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, *FlashAttention: Fast and Memory-Efficient Exact
#   Attention with IO-Awareness*, NeurIPS 2022, arXiv:2205.14135.
# - T. Dao, *FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning*,
#   ICLR 2024, arXiv:2307.08691. Section 3.1: one division, one number for the backward pass.
# - J. Shah et al., *FlashAttention-3: Fast and Accurate Attention with Asynchrony and
#   Low-precision*, NeurIPS 2024, arXiv:2407.08608. Section 3: 3.9 trillion
#   exponentials per second.
# - S. Williams, A. Waterman, D. Patterson, *Roofline: An Insightful Visual Performance Model for
#   Multicore Architectures*, Communications of the ACM 52(4), 2009, doi:10.1145/1498765.1498785.
# - NVIDIA, *H100 Tensor Core GPU*, data sheet, SXM: 1,979 teraFLOPS in BFLOAT16 with sparsity,
#   half of it without; 3.35 TB/s of memory bandwidth; NVLink 900 GB/s.
# - DeepSeek-AI, *DeepSeek-V3 Technical Report*, 2024, arXiv:2412.19437. Section 3.4: prefill and
#   decoding on separate machines.
# - G.-I. Yu et al., *Orca: A Distributed Serving System for Transformer-Based Generative Models*,
#   OSDI 2022. Empty slots, continuous batching.
# - A. Agrawal et al., *SARATHI: Efficient LLM Inference by Piggybacking Decodes with Chunked
#   Prefills*, 2023, arXiv:2308.16369.
# - W. Kwon et al., *Efficient Memory Management for Large Language Model Serving with
#   PagedAttention*, SOSP 2023, arXiv:2309.06180. Section 4: pages, and shared prefixes.
# - Y. Leviathan, M. Kalman, Y. Matias, *Fast Inference from Transformers via Speculative Decoding*,
#   ICML 2023, arXiv:2211.17192.
# - M. Shoeybi et al., *Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
#   Parallelism*, 2019, arXiv:1909.08053. Section 3, figure 4.
# - S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, *ZeRO: Memory Optimizations Toward Training
#   Trillion Parameter Models*, SC 2020, arXiv:1910.02054.
# - H. Liu, M. Zaharia, P. Abbeel, *Ring Attention with Blockwise Transformers for Near-Infinite
#   Context*, 2023, arXiv:2310.01889.
# - P. Patarasuk, X. Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*,
#   Journal of Parallel and Distributed Computing 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.
# - H. Touvron et al., *LLaMA*, 2023, arXiv:2302.13971, table 2; *Llama 2*, 2023, arXiv:2307.09288,
#   section 2.2.
# - Llama Team, *The Llama 3 Herd of Models*, 2024, arXiv:2407.21783. Table 3; section 3.3.1.
# - Documentation of PyTorch (`torchrun`, `fully_shard`) and of DeepSpeed (ZeRO).
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 11.3,
#   13.5 (data parallel) and 13.7 (the ring). [d2l.ai](https://d2l.ai)
