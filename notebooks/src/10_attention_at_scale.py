# %% [markdown] slideshow={"slide_type": "slide"}
# # 10 · Attention at scale
#
# **You will**
# - find a softmax's maximum and sum in one pass, and build attention on it;
# - read from a roofline whether arithmetic or memory is the limit, for a prompt and for an answer;
# - count what a key-value cache takes, and how many readers fit on one GPU;
# - share a layer, or its attention, between two real processes in three ways, and get the numbers
#   of one process.
#
# Core path: 95 minutes. Going further: 20. Exercises: 72.
#
# Builds on chapters 6, 8 and 9. *Dive into Deep Learning* (D2L) has the operation in section 11.3
# and data parallel training in sections 13.5 and 13.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# The core fills two lectures of 45 minutes, or one of 75. Stop the first after the cache; *Past one
# machine* begins the second. The slides of *Going further* come after the summary.

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
from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle

from d2l_attention import (
    MultiHeadAttention,
    PositionWiseFFN,
    TransformerEncoderBlock,
    causal_mask,
    dot_product_attention,
)
from d2l_attention.scale.cache_size import PUBLISHED
from d2l_attention.scale.online_softmax import (
    merge_partial,
    online_softmax,
    partial_attention,
    tiled_attention,
)
from d2l_attention.scale.parallel import (
    LayerShape,
    all_reduce,
    bytes_per_layer,
    data_parallel_gradients,
    layer_times,
    ring_attention,
    run_processes,
    share_sequence,
    split_ffn_over,
    split_heads_over,
    squared_error,
)
from d2l_attention.scale.roofline import Roofline, attention_work
from d2l_attention.views.plots import set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - **Scores and weights** (chapter 3). With scores $a_j$ and values $v_j$ a query gets $\sum_j
#   \alpha_j v_j$, where the weights $\alpha$ are the softmax of the scores. Scores of $\ln 1$ and
#   $\ln 3$ and values 8 and 4 give $\frac14 \cdot 8 + \frac34 \cdot 4 = 5$.
# - **Pairs.** In self-attention $n$ tokens ask $n$ tokens. Ten tokens make 100 scores.
# - **Heads** (chapter 6). A layer of width $D$ has $H$ heads of size $d = D / H$. The heads work
#   side by side, and $W_o$ mixes their answers.
# - **Cache** (chapters 8 and 9). A model that writes keeps the keys and values of all tokens so
#   far. Llama 2 7B keeps half a MiB for each token. Llama 3.1 8B has 32 heads of queries, but only
#   $G = 8$ key-value heads, so it keeps a quarter of that.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room compute the 5. MiB is $2^{20}$ bytes, MB is $10^6$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A novel at once
#
# You paste a whole novel into a chat and ask who the murderer is. A novel is about 100,000 tokens.
# In every head, every token has a weight of 4 bytes for every token: chapter 9 counted 40 GB.
# Llama 3.1 8B has 32 layers with 32 heads each.

# %% slideshow={"slide_type": "fragment"}
tokens = 100_000
one_head = tokens**2 * 4  # bytes
all_heads = 32 * one_head  # of one layer
print(f"head {one_head / 1e9:.0f} GB, layer {all_heads / 1e12:.1f} TB", end=", ")
print(f"all layers {32 * all_heads / 1e12:.0f} TB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Training would keep all 41 TB for the backward pass. Even reading takes 1.3 TB if a layer's 32
# heads work at once, and an H100, a large GPU, has 80 GB. Yet this model reads 128K (131,072)
# tokens (Llama Team, 2024).

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room do the product before you run the cell: $10^5 \cdot 10^5 \cdot 4$ for a
# head, times 1,024.
# Chapter 9 let tokens see less. This chapter leaves the result as it is and changes how it is
# computed.

# %% [markdown] slideshow={"slide_type": "skip"}
# The model leaves nothing out. Here is chapter 3's formula; with more keys than $d$, dividing the
# queries is cheaper than dividing the scores:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_attention(queries, keys, values):  # (*, Q, d), (*, K, d), (*, K, V) -> (*, Q, V)
    scores = (queries / math.sqrt(queries.shape[-1])) @ keys.mT  # (*, Q, K): the matrix
    return scores.softmax(dim=-1) @ values


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Measure the memory
#
# **Plain** attention writes the matrix of scores down. **Fused** attention is here PyTorch's
# `scaled_dot_product_attention`, which our layers have called since chapter 3. We measure one head
# with $d = 64$.
#
# **Predict.** With twice as many tokens, how many times the memory does each of them take?


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
# Measures the memory of plain and fused attention at four lengths, each in a new process
def all_steps(attend):
    """Four lengths forward, and the last one forward and backward."""
    return [*((attend, n, False) for n in sizes), (attend, sizes[-1], True)]


def with_mask(queries, keys, values):
    return dot_product_attention(queries, keys, values, mask=causal_mask(keys.shape[-2]))


sizes = [1024, 2048, 4096, 8192]
measured = {"plain": run_processes(costs, 1, steps=all_steps(plain_attention))[0]}
# The last one is for a section of 'Going further': it spares the start of one more process.
steps = [*all_steps(F.scaled_dot_product_attention), (with_mask, 4096, False)]
*measured["fused"], mask_costs = run_processes(costs, 1, steps=steps)[0]
print(f"{'tokens':>6}{'plain':>14}{'fused':>14}")
for (n, plain, _), (_, fused, _) in zip(*(rows[:4] for rows in measured.values()), strict=True):
    print(f"{n:6,}{plain:10.1f} MiB{fused:10.1f} MiB")

plain, fused = ([mib for _, mib, _ in rows[:4]] for rows in measured.values())
assert fused[3] / fused[1] < 8 < plain[3] / plain[1]  # four times the tokens
assert plain[3] > 10 * fused[3]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Twice the tokens make four times the pairs, and from row to row plain attention takes three to
# five times as much memory. Fused attention takes at most about twice as much. It never has the
# matrix, and yet it gives the same answer.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that plain and fused attention give the same output
torch.manual_seed(0)
qkv = torch.randn(3, 1, 1, 500, 64)
torch.testing.assert_close(F.scaled_dot_product_attention(*qkv), plain_attention(*qkv))
print("checked: the same output with and without the matrix, 500 tokens")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. 'Four times' comes at once for plain attention. For the fused one the room says 'four
# times, but less'. A process remembers the most memory that it ever held, so each measurement runs
# in a new one. Ask how a softmax can be computed without its row: that is the next section.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Maximum and sum in one pass
#
# $$\alpha_j = \frac{e^{a_j - m}}{\sum_k e^{a_k - m}}, \qquad m = \max_k a_k$$
#
# The maximum $m$ and the sum need *all* scores of a row. So a row is written down and gone through
# three times: for the maximum, for the sum and for the weights.

# %% [markdown] slideshow={"slide_type": "fragment"}
# On paper $m$ cancels. In 32 bits it cannot be left out, because $e^{100}$ is infinite there:

# %% slideshow={"slide_type": "fragment"}
scores = torch.tensor([100.0, 101.0, 103.0])
print("without m:", scores.exp() / scores.exp().sum())
print("softmax:  ", scores.softmax(dim=0))

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask first whether $m$ may be left out, since it cancels. Infinity divided by infinity
# is not a number. So the question is: can one begin before one knows the maximum?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One score at a time
#
# Take the scores $\ln 1$, $\ln 2$ and $\ln 4$, so that $e^{a}$ is 1, 2 and 4. The weights must come
# out as $\frac17$, $\frac27$ and $\frac47$.
#
# We read one score after the other and keep two numbers: the largest score so far, $m$, and the sum
# relative to it, $Z = \sum_j e^{a_j - m}$. After $\ln 1$ we have $m = \ln 1$ and $Z = 1$.
#
# **Predict.** What are $m$ and $Z$ after $\ln 2$, and what are they after $\ln 4$?

# %% slideshow={"slide_type": "fragment"}
scores = torch.tensor([1.0, 2.0, 4.0]).log()
for read in (scores[:2], scores[:3]):
    print(f"m = ln {read.max().exp():.0f}, Z = {(read - read.max()).exp().sum():.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# When $\ln 2$ comes, the old 1 is worth only $e^{\ln 1 - \ln 2} = \frac12$ relative to it. So $Z =
# 1 \cdot \frac12 + 1 = \frac32$. With $\ln 4$ the old sum is halved again: $Z = \frac32 \cdot
# \frac12 + 1 = \frac74$. And indeed $(1 + 2 + 4) / 4 = \frac74$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, on the board, one column for $m$ and one for $Z$. The mistake to wait for is
# that somebody halves the new 1 as well. Ask what $e^{a - m}$ is for the maximum itself: always 1.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why may one factor mend a whole sum?
#
# Every term of the sum was measured from the same maximum $m$. So the same factor moves all of them
# to the new maximum $m'$:
#
# $$\sum_j e^{a_j - m'} = \sum_j e^{a_j - m} \, e^{m - m'} = Z \cdot e^{m - m'}$$
#
# A new score $a$ therefore makes
#
# $$m' = \max(m, a), \qquad Z' = Z \cdot e^{m - m'} + e^{a - m'} .$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# If the new score is not larger, the factor is $e^0 = 1$, and nothing is rescaled. This is the
# **online softmax** (Milakov and Gimelshein, 2018, algorithm 3).


# %% slideshow={"slide_type": "subslide"} tags=["build"]
def plain_online_softmax(scores):  # (*, K) -> (*, K)
    maximum = torch.full_like(scores[..., :1], torch.finfo(scores.dtype).min)  # (*, 1)
    total = torch.zeros_like(maximum)  # (*, 1)
    for score in scores.split(1, dim=-1):  # (*, 1): one score of each row
        larger = torch.maximum(maximum, score)
        total = total * (maximum - larger).exp() + (score - larger).exp()
        maximum = larger
    # The largest score counts 1 in the total, so only a row without any visible score has less.
    return (scores - maximum).exp() / total.clamp(min=1.0)


# %% [markdown] slideshow={"slide_type": "skip"}
# The loop reads the scores once, for $m$ and $Z$, and the last line reads them once more. The
# maximum begins at the lowest finite number. If it began at $-\infty$, a first score that is hidden
# would give $-\infty - (-\infty)$, which is not a number.
#
# Below, the page's function, PyTorch's and the package's give the same weights. One score is
# hidden.

# %% slideshow={"slide_type": "fragment"}
scores = torch.tensor([[1.0, 2.0, 4.0], [1.0, 0.0, 3.0]]).log()  # ln 0 = -inf: a hidden score
for found in (plain_online_softmax(scores), scores.softmax(dim=-1), online_softmax(scores, 2)):
    print([[f"{weight:.3f}" for weight in row] for row in found])

# %% [markdown] slideshow={"slide_type": "skip"}
# The package's `online_softmax` reads a block of scores at a time, here of two.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the page's and the package's online softmax against PyTorch's softmax
torch.manual_seed(0)
compared = 0
for n in (1, 2, 7, 64, 101):
    for scale in (1, 100, 10_000):
        scores = scale * torch.randn(5, n, dtype=torch.float64)
        scores[:, 1::3] = -math.inf
        expected = scores.softmax(dim=-1)
        torch.testing.assert_close(plain_online_softmax(scores), expected)
        for block_size in (1, 3, 8, 200):
            torch.testing.assert_close(online_softmax(scores, block_size), expected)
            compared += 1
print(f"checked: {compared} of {compared} shapes, blocks and sizes of scores equal the softmax")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them find the formula's two terms in the line with `total`. The loop reads the
# row once, and the last line a second time. The next slide gets rid of that second reading, too.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The output goes along
#
# A weight is final only when the last score has been read. The average of the values need not wait
# for that. Keep the **undivided** output $o = \sum_j e^{a_j - m} v_j$, and rescale it by the same
# factor as the sum.
#
# The values are 7, 14 and 0:
#
# | read | $m$ | factor | $Z$ | $o$ |
# |---|---|---|---|---|
# | 1 | $\ln 1$ | | $1$ | $7$ |
# | 2 | $\ln 2$ | $\frac12$ | $\frac32$ | $\frac72 + 14 = \frac{35}2$ |
# | 3 | $\ln 4$ | $\frac12$ | $\frac74$ | ? |
#
# **Predict.** What is the last $o$, and what is the answer $o / Z$?

# %% slideshow={"slide_type": "skip"}
scores, values = torch.tensor([1.0, 2.0, 4.0]).log(), torch.tensor([7.0, 14.0, 0.0])
m, total, output = scores[0], torch.tensor(1.0), values[0]
for score, value in zip(scores[1:], values[1:], strict=True):
    larger = torch.maximum(m, score)
    rescale, term = (m - larger).exp(), (score - larger).exp()
    total, output, m = total * rescale + term, output * rescale + term * value, larger
print(f"o = {output:.2f} = 35/4, answer {output / total:.1f}")
print(f"at once: (1 · 7 + 2 · 14 + 4 · 0) / 7 = {(7 + 28) / 7:.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The last $o$ is $\frac{35}2 \cdot \frac12 + 1 \cdot 0 = \frac{35}4$, and the answer is
# $\frac{35}4 : \frac74 = 5$. For each query we keep $m$, $Z$ and $o$, and divide once at the
# end. No row is kept.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, in pairs. Some divide after each step and then have to undo it: let them say why
# one division at the end is enough.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Tiles
#
# Now take many queries and many keys, and cut both into blocks. A **tile** is a block of queries
# against a block of keys. The whole matrix of scores never exists.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_tiled_attention(queries, keys, values, block_size):  # (*, Q, d), (*, K, d), (*, K, V)
    outputs = []
    queries = queries / math.sqrt(queries.shape[-1])
    for q in queries.split(block_size, dim=-2):  # (*, s, d): a block of queries
        maximum = torch.full_like(q[..., :1], torch.finfo(q.dtype).min)  # (*, s, 1)
        total = torch.zeros_like(maximum)  # (*, s, 1)
        output = torch.zeros_like(q[..., :1])  # grows to (*, s, V)
        for k, v in zip(keys.split(block_size, -2), values.split(block_size, -2), strict=True):
            scores = q @ k.mT  # (*, s, s): the tile
            larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
            rescale, terms = (maximum - larger).exp(), (scores - larger).exp()
            output = output * rescale + terms @ v  # (*, s, V), undivided
            total = total * rescale + terms.sum(dim=-1, keepdim=True)
            maximum = larger
        outputs.append(output / total)  # divided once
    return torch.cat(outputs, dim=-2)  # (*, Q, V)


# %% [markdown] slideshow={"slide_type": "skip"}
# The inner lines are the derivation, with a block in place of a score.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, keys, values = torch.randn(3, 2, 11, 8)  # three times (heads, n, d)
expected = plain_attention(queries, keys, values)
page = plain_tiled_attention(queries, keys, values, block_size=4)
package = tiled_attention(queries, keys, values, block_size=4)
print(f"largest difference in tiles of 4: page {(page - expected).abs().max():.0e},", end=" ")
print(f"package {(package - expected).abs().max():.0e}")

# %% [markdown] slideshow={"slide_type": "skip"}
# The package's `tiled_attention` also skips tiles of the future, and in training it computes a row
# of tiles again instead of keeping it.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks both against fused attention, outputs and gradients
torch.manual_seed(0)
compared = 0
for is_causal in (False, True):
    for block_size in (5, 64, 200):
        qkv = torch.randn(3, 2, 3, 101, 8, dtype=torch.float64).unbind()
        ways = [
            partial(dot_product_attention, is_causal=is_causal),
            partial(tiled_attention, block_size=block_size, is_causal=is_causal),
        ] + [partial(plain_tiled_attention, block_size=block_size)] * (not is_causal)
        results = []
        for attend in ways:
            inputs = [X.clone().requires_grad_() for X in qkv]
            output = attend(*inputs)
            output.square().sum().backward()
            results.append([output, *(X.grad for X in inputs)])
        for tiled in results[1:]:
            for expected_one, one in zip(results[0], tiled, strict=True):
                torch.testing.assert_close(one, expected_one, atol=1e-10, rtol=1e-10)
                compared += 1
print(f"checked: {compared} of {compared} equal, outputs and gradients, tiles of 5, 64 and 200")

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let the room find the four lines of the derivation. Ask what goes wrong if the
# output is not rescaled, and which tests would still pass: those in which the first block has the
# largest score (exercise 10.4).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One kernel does it all
#
# A machine has little fast memory beside its arithmetic, and much slow memory further away. These
# are the memories of an A100 GPU (Dao et al., 2022, figure 1):


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the pyramid of memories and the route of a tile
def arrow(ax, start, end, text="", color="0.15", at=(0, 0), **style):
    """An arrow from start to end, and a text at its middle."""
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "lw": 2, "color": color} | style)
    if text:
        x, y = (start[0] + end[0]) / 2 + at[0], (start[1] + end[1]) / 2 + at[1]
        ax.text(x, y, text, ha="center", va="center", fontsize=12, color=color)


figure, ax = plt.subplots(figsize=(11, 4.6))
levels = [
    ("beside the arithmetic (SRAM)", "20 MB, 19 TB/s", "#fdae6b"),
    ("the GPU's memory (HBM)", "40 GB, 1.5 TB/s", "#9ecae1"),
    ("the computer's memory (DRAM)", "over 1 TB, 0.013 TB/s", "0.9"),
]
for i, (name, numbers, color) in enumerate(levels):
    top, bottom = 2.7 - i, 1.8 - i
    widths = [1.35 + 1.15 * i, 2.3 + 1.15 * i]
    corners = [(-widths[0], top), (widths[0], top), (widths[1], bottom), (-widths[1], bottom)]
    ax.add_patch(Polygon(corners, facecolor=color, edgecolor="0.3"))
    ax.text(0, (top + bottom) / 2, f"{name}\n{numbers}", ha="center", va="center", fontsize=12)
arrow(ax, (-3.45, 1.3), (-2.1, 2.3), "1. blocks of q, k, v", at=(-1.35, 0.25))
arrow(ax, (2.1, 2.3), (3.45, 1.3), "3. the output, once", at=(1.4, 0.25))
ax.text(0, 2.95, "2. the tile is made, used and forgotten here", ha="center", fontsize=13)
ax.set(xlim=(-6, 6), ylim=(-0.4, 3.2))
ax.axis("off")
ax.set_title("The tile never leaves the small fast memory", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a pyramid of three memories of an A100 GPU. Top, beside the arithmetic: 20 MB, 19 TB/s.
# Middle, the GPU's memory: 40 GB, 1.5 TB/s. Bottom, the computer's memory: over 1 TB, 0.013 TB/s.
# Arrows: blocks of queries, keys and values go up from the middle to the top. There the tile is
# made, used and forgotten. The output goes down once.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The 20 MB are 192 KB for each of the 108 multiprocessors (section 2.1 of the paper).
# Follow a tile with a finger: up, used, forgotten, and only the output comes down.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four trips, or none
#
# Our tiles are Python: each line is a call of its own, and its result may go to memory and back.
# **FlashAttention** runs the whole loop in one **kernel**, a program that the processor runs
# without returning to Python. PyTorch has such kernels for GPUs and for this CPU.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the trips to memory of plain and of fused attention
figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=[1.6, 1])
trips = {
    "plain: four trips, 1,024 MiB": [
        ("q · k", "v", "scores, n²"),
        ("softmax", "^", "scores, n²"),
        ("", "v", "weights, n²"),
        ("average", "^", "weights, n²"),
    ],
    "fused: 8 MiB at least": [("all of it", "^", "q, k, v"), ("", "v", "output")],
}
for ax, (title, steps) in zip(axes, trips.items(), strict=True):
    width = len(steps)
    for y, name, color in ((2.2, "arithmetic", "#fdae6b"), (0, "memory", "#9ecae1")):
        box = FancyBboxPatch((-0.45, y), width + 0.3, 0.6, boxstyle="round,pad=0.05", fc=color)
        ax.add_patch(box)
        if name == "memory":
            ax.text(width / 2 - 0.3, 0.3, name, ha="center", va="center", fontsize=13)
    for x, (name, way, what) in enumerate(steps):
        ends = ((x, 0.65), (x, 2.15)) if way == "^" else ((x, 2.15), (x, 0.65))
        matrix = "n²" in what
        arrow(ax, *ends, color="#b03a00" if matrix else "0.3", lw=6 if matrix else 2)
        ax.text(x + 0.09, 1.4, what, va="center", fontsize=12)
        shift = {"softmax": 0.5, "all of it": 0.7}.get(name, 0)
        ax.text(x + shift, 2.5, name, ha="center", va="center", fontsize=13)
    ax.set(xlim=(-0.6, width + 0.05), ylim=(-0.2, 3.0))
    ax.axis("off")
    ax.set_title(title, fontsize=14)
figure.suptitle("Plain attention carries the matrix four times, fused never", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two pictures of arithmetic above and memory below. Left, plain: the scores go down to
# memory and come up for the softmax, the weights go down and come up for the average, four thick
# arrows that carry 1,024 MiB. Right, fused: queries, keys and values go up and the output comes
# down, two thin arrows that carry 8 MiB at least.*

# %% [markdown] slideshow={"slide_type": "skip"}
# With $n = 8192$ tokens the matrix has $n^2 \cdot 4$ bytes, that is 256 MiB, and plain attention
# carries it four times. Queries, keys, values and output of a head with $d = 64$ have 2 MiB each.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And the time?
#
# **Predict.** From 2,048 tokens to 8,192, the memory of fused attention grows at most like $n$:
# four times. What does its time grow like, and why?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Draws the memory and the time of plain, tiled and fused attention
in_tiles = partial(plain_tiled_attention, block_size=256)
measured["tiles"] = run_processes(costs, 1, steps=all_steps(in_tiles))[0]
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2))
styles = {"plain": ("s--", "#D55E00"), "tiles": ("^-.", "0.4"), "fused": ("o-", "tab:blue")}
for kind, (style, color) in styles.items():
    n, mib, ms = zip(*measured[kind][:4], strict=True)
    left.loglog(n, mib, style, color=color, label=kind)
    right.loglog(n, ms, style, color=color, label=kind)
left.set(ylabel="MiB above the start", title="Fused: memory grows like n")
right.set(ylabel="ms of CPU time", title="Fused: time grows like n²")
for ax in (left, right):
    ax.set(xlabel="tokens")
    ax.set_yticks([1, 10, 100, 1000], [1, 10, 100, 1000])
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
    ax.legend()
plt.show()

fused = measured["fused"]
print("fused, 8,192 tokens against 2,048:", end=" ")
print(f"memory {fused[3][1] / fused[1][1]:.1f} times, time {fused[3][2] / fused[1][2]:.1f} times")
assert all(measured[kind][3][1] < measured["plain"][3][1] / 10 for kind in ("fused", "tiles"))
assert fused[3][1] / fused[1][1] < 8 < fused[3][2] / fused[1][2]
assert fused[3][2] < measured["plain"][3][2]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels with logarithmic axes, 1,024 to 8,192 tokens, in the run shown. Memory: plain
# attention rises steeply, like n², to more than 500 MiB; tiles and fused stay far below it. Time:
# three steep lines, nearly parallel, the fused kernel lowest.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Four times the tokens are sixteen times the pairs, and every pair still takes its
# multiplications. (It is measured, so another run may give 15 or 17.) A fused kernel
# makes the novel *possible*. It does not make it cheap.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The sentence 'FlashAttention makes attention linear' is in many heads. Ask those who
# say it which multiplication was left out. Chapter 9's windows do leave some out.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The backward pass
#
# The gradient needs the weights again, and a kernel that never kept them computes them again, tile
# by tile. Besides inputs and output it keeps one number for each query, $L = m + \ln Z$. As
# $e^L = e^m Z$ is the sum of all $e^{a_j}$, each weight is $e^{a - L}$.
#
# (FlashAttention-2 keeps $L$: Dao, 2023, section 3.1.)

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Prints memory and time of the forward and the backward pass together
print("forward and backward, 8,192 tokens:")
for kind in ("plain", "tiles", "fused"):
    _, peak, took = measured[kind][4]
    print(f"{kind}: {peak:4.0f} MiB, {took:5.0f} ms")
assert min(measured[kind][4][1] for kind in ("plain", "tiles")) > 3 * measured["fused"][4][1]
assert measured["plain"][4][2] > measured["fused"][4][2]

# %% [markdown] slideshow={"slide_type": "fragment"}
# The kernel does more arithmetic than plain attention, and here it still took less time. Our tiles
# on the page save memory only in the forward pass: for the backward pass autograd keeps every tile.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that one number for each query gives all weights again
torch.manual_seed(0)
queries, keys, values = torch.randn(3, 7, 4)
_, weights = dot_product_attention(queries, keys, values, need_weights=True)
_, log_sum = partial_attention(queries, keys, values)
torch.testing.assert_close((queries @ keys.T / 2 - log_sum[:, None]).exp(), weights)
print("checked: scores and one number for each query give all weights again, 7 queries by 7 keys")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before the slide where a kernel gets the weights from that it never kept. The
# numbers are those of the run shown; read them from the slide.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where the time goes
#
# A machine does two things: it calculates, and it carries numbers between memory and arithmetic.
# The one that takes longer is the limit.
#
# **Intensity** is the number of operations (multiplications and additions) for each byte carried.
# With 4 bytes a number:
#
# | | operations | bytes | intensity |
# |---|---|---|---|
# | sum of two vectors of $N$ numbers | $N$ | $12\,N$ | $\frac1{12}$ |
# | product of two $(N, N)$ matrices | $2N^3$ | $12\,N^2$ | $\frac N6$ at most |
#
# The sum uses each number once. The product uses each number $N$ times, and carries it at least
# once.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Two vectors are read and one is written, so three numbers of 4 bytes for one
# addition.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Prefill and decoding
#
# First the model reads the prompt: $n$ queries meet $n$ keys at once. This is **prefill**. Then it
# writes its answer token by token: in each step one query meets the $n$ keys in the cache. This is
# **decoding**.
#
# A pair of query and key takes $4d$ operations: a product and a sum for each of the $d$ numbers of
# the key, and the same for the value. In one head, with 4 bytes a number:
#
# | | operations | bytes | intensity |
# |---|---|---|---|
# | prefill, fused | $4\,n^2 d$ | $16\,n d$: queries, keys, values, output | $n / 4$ at most |
# | prefill, plain | $4\,n^2 d$ | $16\,n^2$: four trips of the matrix | less than $d / 4$ |
# | decoding | $4\,n d$ | $8\,n d$: keys and values | $1 / 2$ |

# %% [markdown] slideshow={"slide_type": "skip"}
# A kernel may carry keys more than once, as many times as there are blocks of queries, so the first
# row says 'at most'. In decoding each number of the cache is carried for one multiplication and
# one addition, whatever $n$ is.
#
# Do several sentences at once help? In a step of decoding a layer's parameters are carried once
# for all $B$ sentences: $2B$ operations for the 4 bytes of each, an intensity of $B / 2$. But each
# sentence has its own cache, so attention stays at $1 / 2$.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the three intensities, and decoding for 32 sentences at once, against the package's count
for n in (1024, 4096, 16_384):
    assert attention_work(n, n, 64).intensity == n / 4
    assert abs(attention_work(1, n, 64).intensity - 0.5) < 1e-3
    assert 14 < attention_work(n, n, 64, fused=False).intensity < 16
one, many = (attention_work(1, 4096, 64, batch_size=B).intensity for B in (1, 32))
assert one == many
print("checked: n/4, just under d/4 and 1/2, at three lengths; decoding for 1 and 32 sentences")

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Let pairs derive the last row: $nd$ numbers in the keys, $nd$ in the values, 4 bytes
# each. A causal mask halves the operations of the first two rows, and about halves their
# intensity. 'Do several sentences help?' is the question that always comes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The roofline
#
# At an intensity of $I$ a machine reaches at most
#
# $$\min(\text{operations a second},\ \; \text{bytes a second} \cdot I).$$
#
# Drawn against $I$ this is a roof with a slope and a flat top (Williams et al., 2009). The two meet
# at the **ridge**. Left of it memory caps the speed, right of it arithmetic. Something else may be
# slower still.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two machines
#
# An H100 is the GPU on which Llama 3 was trained. Its two speeds are published (NVIDIA), for
# numbers of 2 bytes. Those of one core of this machine are measured here, for numbers of 4 bytes,
# with a product of matrices and a copy of 64 MiB. (With 2 bytes a number all intensities of the
# table are twice as large.)


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures the two speeds of this core
def quickest(function, seconds=0.2):
    """Seconds of the quickest call, in CPU time: what else runs on the machine does not count."""
    function()  # wakes what sleeps
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        started = time.thread_time()
        function()
        times.append(time.thread_time() - started)
    return min(times)


square, source = torch.ones(1024, 1024), torch.ones(2**24)  # the second has 64 MiB
target = torch.empty_like(source)
product = quickest(partial(torch.mm, square, square), seconds=3.0)
copy = quickest(partial(target.copy_, source), seconds=0.5)  # each number is read and written
core = Roofline(2 * 1024**3 / product, 2 * source.nbytes / copy)
h100 = Roofline(989e12, 3.35e12)  # published, 16-bit numbers
for name, machine in (("core, 4-byte numbers", core), ("H100, 2-byte numbers", h100)):
    print(f"{name}: {machine.flops_per_second / 1e9:7,.0f} billion operations/s,", end=" ")
    print(f"{machine.bytes_per_second / 1e9:5,.0f} GB/s, ridge {machine.ridge:.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** An H100's arithmetic becomes twice as fast, and its memory stays as it is. Which of
# these can become faster there, for heads of $d = 64$: fused prefill of 2,048 tokens, plain
# prefill, decoding?

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Measures prefill and decoding on this core, and draws them under its roof and an H100's
points = {}  # name -> [(intensity, operations a second)]
with torch.no_grad():
    for name, is_fused in (("prefill, fused", True), ("prefill, plain", False)):
        for n in (512, 1024, 2048):
            qkv = torch.randn(3, 1, 4, n, 64)
            work = attention_work(n, n, 64, num_heads=4, fused=is_fused)
            attend = F.scaled_dot_product_attention if is_fused else plain_attention
            seconds = quickest(partial(attend, *qkv))
            points.setdefault(name, []).append((work.intensity, work.flops / seconds))
    query, (keys, values) = torch.randn(1, 32, 1, 64), torch.randn(2, 1, 32, 8192, 64)
    work = attention_work(1, 8192, 64, num_heads=32)
    seconds = quickest(partial(F.scaled_dot_product_attention, query, keys, values))
    points["decoding"] = [(work.intensity, work.flops / seconds)]

figure, ax = plt.subplots(figsize=(10.5, 5.4))
line = torch.logspace(-1, 3.6, 200).tolist()
ax.loglog(line, [core.attainable(x) / 1e9 for x in line], color="black")
ax.loglog(line, [h100.attainable(x) / 1e9 for x in line], color="0.5")
for machine, text, color in ((core, "this core, 4-byte", "black"), (h100, "H100, 2-byte", "0.35")):
    y = machine.bytes_per_second * 0.17 / 1e9
    ax.text(0.11, y, f"{text} numbers", rotation=25, fontsize=12, color=color)
marks = {"prefill, fused": "o", "prefill, plain": "s", "decoding": "^"}
colors = dict(zip(marks, ("tab:blue", "#D55E00", "0.35"), strict=True))
for name, spots in points.items():
    intensity, speed = zip(*spots, strict=True)
    speed = [s / 1e9 for s in speed]
    ax.loglog(intensity, speed, marks[name], color=colors[name], markersize=10, label=name)
at_most = {"prefill, fused": 2048 / 2, "prefill, plain": 64 / 2, "decoding": 1}  # 2 bytes a number
for name, intensity in at_most.items():
    speed = h100.attainable(intensity) / 1e9
    style = {"mfc": "white", "mew": 2, "color": colors[name], "markersize": 10}
    ax.loglog([intensity], [speed], marks[name], **style)
ax.loglog([], [], "o", mfc="white", color="0.35", mew=2, label="at most, on the H100")
ax.set(xlabel="intensity: operations a byte", ylabel="billion operations a second")
ax.set_title("Decoding is far left: memory caps it on both machines", fontsize=16)
ax.legend(loc="center right", bbox_to_anchor=(1.0, 0.52), fontsize=12)
plt.show()

best, plain, decoding = (
    max(speed for _, speed in points[name]) / core.flops_per_second for name in marks
)
print("of what this core reaches in a product of matrices, the best of three lengths:")
print(f"fused prefill {best:.0%}, plain prefill {plain:.0%}; decoding {decoding:.0%}")
(intensity, speed) = points["decoding"][0]
print(f"decoding on this core reaches {speed / core.attainable(intensity):.0%} of the roof")
print(f"plain prefill on an H100, at most: {32 / h100.ridge:.0%} of its best")
assert core.ridge > 0.5 and decoding < best / 2

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rooflines with logarithmic axes, this core's and far above it an H100's, whose ridge
# lies further right. Filled marks are measured on this core. Fused prefill lies far right near the
# flat top. Plain prefill has an intensity near 16 and lies well below the roof. Decoding lies far
# left, below the slope. Hollow marks are what an H100 reaches at most: fused prefill on the flat
# top, plain prefill and decoding on the slope.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Point at each cloud and take the vote: twice the operations, or twice the memory
# speed? The vote for decoding surprises: a chat answers at the pace of its memory.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the roofs say
#
# - **Fused prefill** is far right under both roofs, if the keys are carried about once. Faster
#   arithmetic can help it on both.
# - **Plain prefill** waits for memory on an H100 if its matrices are larger than the fast memory on
#   the chip, so faster arithmetic does not help it there. On this core it is right of the ridge,
#   so it can. (It is below the roof: its steps run one after the other, and each large matrix
#   needs new memory.)
# - **Decoding**: memory caps it on both. On this core it stays well below even that.

# %% [markdown] slideshow={"slide_type": "skip"}
# On an H100 FlashAttention-2 reached 35% of the flat top, and FlashAttention-3 up to 85% (Shah et
# al., 2024). Fewer key-value heads carry less for the same work, so they move decoding to the
# right.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The cache, for each token
#
# The matrix is gone. What still grows with the novel, and stays while the answer is written, is
# the key-value cache. Llama 2 7B has 7 billion parameters and Llama 3.1 8B has 8 billion, of 2
# bytes each. Take the 80 GB that an H100 is sold with.
#
# **Predict.** Chapter 9 counted 48.83 GiB for a novel's cache in Llama 2 7B, which is 52.4 GB. How
# many readers with a novel each fit on one H100, for both models?

# %% slideshow={"slide_type": "fragment"}
layers, d, D, carried = 32, 128, 4096, {}  # the same in both models
models = ("Llama 2 7B", 7, 32, 32_000), ("Llama 3.1 8B", 8, 8, 128_256)
for name, billions, kv_heads, vocabulary in models:
    parameters = 2 * billions  # GB
    novel = 2 * layers * kv_heads * d * 2 * tokens / 1e9  # keys and values, 2 bytes a number
    readers = int((80 - parameters) / novel)
    carried[name] = parameters - vocabulary * D * 2 / 1e9 + novel  # see 'The next token'
    print(f"{name:12}  parameters {parameters} GB, cache {novel:4.1f} GB, readers {readers}")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws how the 80 GB are filled
figure, ax = plt.subplots(figsize=(10.5, 3.2))
shapes = {shape.name: shape for shape in PUBLISHED}
rows = [("Llama 3.1 8B", 16), ("Llama 2 7B", 14)]
for row, (name, parameters) in enumerate(rows):
    novel = shapes[name].bytes(tokens) / 1e9
    ax.barh(row, parameters, color="#9ecae1", edgecolor="0.3")
    ax.text(parameters / 2, row, f"parameters\n{parameters}", ha="center", va="center", fontsize=12)
    for reader in range(int((80 - parameters) / novel)):
        left = parameters + reader * novel
        ax.barh(row, novel, left=left, color="#fdae6b", edgecolor="0.3")
        text = f"reader {reader + 1}\n{novel:.0f}"
        ax.text(left + novel / 2, row, text, ha="center", va="center", fontsize=12)
ax.axvline(80, color="black")
ax.set(xlim=(0, 84), xlabel="GB")
ax.set_yticks(range(2), [f"{name}\nG = {shapes[name].num_kv_heads}" for name, _ in rows])
ax.set_title("A quarter of the key-value heads, four times the readers", fontsize=16)
plt.show()
assert shapes["Llama 2 7B"].bytes(1) == 2**19
assert shapes["Llama 2 7B"].num_kv_heads == 4 * shapes["Llama 3.1 8B"].num_kv_heads

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two bars that fill 80 GB. Llama 2 7B: parameters 14, one reader's cache 52, the rest is
# empty. Llama 3.1 8B: parameters 16, four readers' caches of 13 each, the rest is too small for a
# fifth.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The parameters are there once for all readers, and each reader brings a cache. In Llama 2 7B it
# is heavier than they are: 52 GB against 14. Servers keep caches in pages (PagedAttention;
# chapter 11), so a reader takes hardly more than the text needs.

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes with paper. Two vectors a token, 32 layers, 32 heads of 128, 2 bytes: half a MiB for
# a token of a few letters. The factor that is forgotten is the first 2, keys and values.

# %% [markdown] slideshow={"slide_type": "skip"}
# (The shapes are as published; `d2l_attention/scale/cache_size.py` says where. Llama 2 was trained
# with a context of 4,096 tokens, so this is what a novel would take, not what it can read.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The next token
#
# How long does each further token take at least? The memory of an H100 carries 3.35 TB a second.
# For one reader, each step of decoding has to carry the cache and the parameters once. (Only the
# table of input embeddings is not read: one row is looked up. We take the 7 and 8 billion
# parameters, which are rounded.)

# %% slideshow={"slide_type": "fragment"}
for name, gigabytes in carried.items():
    print(f"{name:12}  {gigabytes:.0f} GB / 3,350 GB a second = {gigabytes / 3.35:.1f} ms a token")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. With the cache alone it would be 16 ms. Ask what would make the token come sooner:
# faster memory, fewer key-value heads, a smaller number format. Here a first lecture ends.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Past one machine
#
# Some day the model does not fit, or training takes too long. Then several machines share the work.
#
# **Question.** You have two machines and one Transformer. What could each of them do?

# %% [markdown] slideshow={"slide_type": "fragment"}
# | too much of | cut | name | each process holds |
# |---|---|---|---|
# | sentences | the batch | **data parallel** | the whole model, some sentences |
# | parameters | heads, hidden units | **tensor parallel** | a part of each layer, all tokens |
# | tokens | the sequence | **context parallel** | the whole model, a stretch of each sentence |
#
# Giving each machine half of the layers is **pipeline parallel**, which this chapter leaves out.
# There the second machine waits for the first unless several batches are under way.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Half a minute in pairs, before the table. 'Half of the layers each' and 'half of the
# sentences each' come first.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines how the pictures of who holds what are drawn
COLORS = {"0": "#9ecae1", "1": "#fdae6b", "0 1": "white"}


def draw_holdings(finding, data, model):
    """Who holds what: two grids of cells, each labelled with the ranks that have it."""
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.4), width_ratios=[1.5, 1])
    labels = [("tokens", "sentences", "the batch"), ("heads, hidden units", "layers", "the model")]
    for ax, owners, (xlabel, ylabel, name) in zip(axes, (data, model), labels, strict=True):
        for row, line in enumerate(owners):
            for column, owner in enumerate(line):
                style = {"facecolor": COLORS[owner], "edgecolor": "0.4"}
                ax.add_patch(Rectangle((column, row), 1, 1, **style))
                ax.text(column + 0.5, row + 0.5, owner, ha="center", va="center", fontsize=13)
        ax.set(xlim=(0, len(owners[0])), ylim=(len(owners), 0), xticks=[], yticks=[])
        ax.set(xlabel=xlabel, ylabel=ylabel, title=name)
        ax.spines[:].set_visible(False)
    figure.suptitle(finding, fontsize=16)
    plt.show()


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Everyone leaves with the sum
#
# All three run below with two processes on this machine. They share no memory and talk through
# `torch.distributed`. Each process has a number, its **rank**, and runs the same program. Now and
# then all meet in an **all-reduce**: everyone brings a tensor, and everyone leaves with the sum.
# `run_processes` starts new processes, calls a function in each, and returns their results.


# %% slideshow={"slide_type": "-"}
def bring():
    number = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(number)
    return f"rank {dist.get_rank()} of {dist.get_world_size()} has {number.item():.0f}"


print(*run_processes(bring, 2), sep="\n")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask what each has afterwards: both have 3. Gloo is the library that carries the
# numbers between CPUs; on GPUs it is NCCL.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Data parallel: cut the batch
#
# Each process has the whole model and half of the sentences. It computes the gradients of its own
# loss. An all-reduce adds the gradients up, each process divides by the number of processes, and
# all take the same step.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who holds what in data parallel
draw_holdings(
    "Sentences are cut, and the model is there twice",
    [["0"] * 6, ["1"] * 6, ["0"] * 6, ["1"] * 6],
    [["0 1"] * 4] * 4,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids whose cells name the ranks that hold them. The batch, sentences by tokens: rows
# belong to rank 0 and rank 1 in turn. The model, layers by heads: every cell belongs to both.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three tokens and one
#
# Rank 0 has three real tokens with losses 1, 1, 1. Rank 1 has one, with loss 5, and the rest is
# padding.
#
# **Predict.** Each takes the mean of its own losses, then the two means are averaged. How many
# times the weight of a token of rank 0 does the token of rank 1 get?

# %% slideshow={"slide_type": "fragment"}
first, second = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([5.0])
print("mean of the means", ((first.mean() + second.mean()) / 2).item())
print("mean of all      ", torch.cat([first, second]).mean().item())
shares = [2 * losses.sum() / 4 for losses in (first, second)]  # 2 processes, 4 tokens in all
print("2 · sum / 4      ", shares[0].item(), "and", shares[1].item(), "with the mean", end=" ")
print((sum(shares) / 2).item())

# %% [markdown] slideshow={"slide_type": "fragment"}
# It counts three times as much. So the processes first count their tokens together. Each then
# returns 2 · (its sum) / (tokens of all). The averaging cancels the 2.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Many say 'as much'. It is a bug that no error message reports: training is only a
# little different with two machines than with one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Data parallel, for real
#
# The task is a Transformer block with five sentences of unequal lengths. Three go to rank 0 and two
# to rank 1. The library **Accelerate** wraps the model, so that `backward` also averages the
# gradients over the processes.


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Compares loss and gradients of two processes with those of one
def small_task():
    """The same on every process: a block, five sentences, their targets and lengths."""
    torch.manual_seed(0)
    block = TransformerEncoderBlock(12, 24, 2, 0.0)
    X, targets = torch.randn(2, 5, 7, 12)
    return block, X, targets, torch.tensor([7, 2, 5, 1, 3])


def in_two():
    block, X, targets, lens = small_task()
    return data_parallel_gradients(block, X, targets, lens, squared_error)


def largest_difference(actual, expected):
    return max((actual[name] - expected[name]).abs().max().item() for name in expected)


block, X, targets, lens = small_task()
real = torch.arange(7) < lens[:, None]
loss = squared_error(block(X, lens), targets)[real].mean()  # one process, all sentences
loss.backward()
gradients = {name: parameter.grad for name, parameter in block.named_parameters()}

print(f"one process: loss {loss:.4f}, {len(gradients)} gradients")
for rank, (shared_loss, shared_gradients) in enumerate(run_processes(in_two, 2)):
    apart = largest_difference(shared_gradients, gradients)
    print(f"rank {rank}: loss differs by {abs(shared_loss - loss):.0e}, gradients by {apart:.0e}")
    assert abs(shared_loss - loss) < 1e-5 and apart < 1e-5

# %% [markdown] slideshow={"slide_type": "fragment"}
# The small differences are rounding, because the sums are taken in another order.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask beforehand how much loss and gradients may differ.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Tensor parallel: cut the heads
#
# Heads do not talk to each other until $W_o$. So rank 0 takes some of the heads and rank 1 the
# rest, and all tokens go to both (Shoeybi et al., 2019).

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who holds what in tensor parallel
draw_holdings(
    "Each layer is cut, and the batch is there twice",
    [["0 1"] * 6] * 4,
    [["0", "0", "1", "1"]] * 4,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids whose cells name the ranks that hold them. The batch: every cell belongs to
# both. The model, layers by heads: the left half of each layer belongs to rank 0, the right half to
# rank 1.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And $W_o$?
#
# $W_o$ mixes the heads. By hand: for one token, two heads of one number each answer $h = (2, 3)$,
# and $W_o = (10, 100)^\top$. One process computes $2 \cdot 10 + 3 \cdot 100 = 320$.
#
# **Question.** Rank 0 has the head that says 2, and rank 1 the one that says 3. Which part of $W_o$
# does each of them need, and what is sent?

# %% slideshow={"slide_type": "fragment"}
h, W_o = torch.tensor([[2.0, 3.0]]), torch.tensor([[10.0], [100.0]])
shares = h[:, :1] @ W_o[:1], h[:, 1:] @ W_o[1:]  # rank 0 and rank 1
print(*(share.item() for share in shares), "sum", sum(shares).item())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each needs the row of its own head, and one all-reduce makes 320. For any heads and matrices:
#
# $$\text{concat}(h_1, h_2)\, W_o = h_1 W_o^{(1)} + h_2 W_o^{(2)}$$

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, one of them in pairs. Somebody sends the heads' answers and multiplies afterwards:
# that is right, but then everyone needs all of the output matrix.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws a Transformer block that is cut by columns and rows, with its two all-reduces
figure, ax = plt.subplots(figsize=(11, 4.8))


def cut_matrix(x, y, name, half, by):
    """A matrix of which this process has the dark half, cut by its columns or by its rows."""
    ax.add_patch(Rectangle((x, y), 0.9, 0.9, facecolor="white", edgecolor="0.4", ls="--"))
    color = "#9ecae1" if half == 0 else "#fdae6b"
    corner = (x + 0.45 * half, y) if by == "columns" else (x, y + 0.45 * (1 - half))
    size = (0.45, 0.9) if by == "columns" else (0.9, 0.45)
    ax.add_patch(Rectangle(corner, *size, facecolor=color, edgecolor="0.2"))
    ax.text(x + 0.45, y - 0.17, name, ha="center", va="center", fontsize=13)


for half, y in ((0, 2.3), (1, 0.35)):
    ax.text(-0.75, y + 0.45, f"rank {half}", ha="center", va="center", fontsize=14)
    ax.text(0.15, y + 0.45, "X", ha="center", va="center", fontsize=14)
    cut_matrix(0.75, y, "$W_q, W_k, W_v$", half, "columns")
    cut_matrix(3.1, y, "$W_o$", half, "rows")
    cut_matrix(5.55, y, "$W_1$", half, "columns")
    cut_matrix(7.85, y, "$W_2$", half, "rows")
    for x, name in ((2.38, "its heads\nattend"), (7.12, "ReLU")):
        ax.text(x, y + 0.45, name, ha="center", va="center", fontsize=12)
    for x, width in ((0.35, 0.36), (1.68, 0.22), (2.86, 0.2), (5.15, 0.36), (6.5, 0.26)):
        arrow(ax, (x, y + 0.45), (x + width, y + 0.45))
    for x, width in ((4.05, 0.35), (7.5, 0.3), (8.8, 0.35), (9.9, 0.35)):
        arrow(ax, (x, y + 0.45), (x + width, y + 0.45))
for x in (4.42, 9.17):
    ax.add_patch(FancyBboxPatch((x + 0.08, 0.3), 0.5, 2.95, boxstyle="round,pad=0.04", fc="0.85"))
    ax.text(x + 0.33, 1.78, "all-reduce", rotation=90, ha="center", va="center", fontsize=14)
ax.text(2.4, 3.55, "attention", ha="center", fontsize=14)
ax.text(7.15, 3.55, "network for each token (FFN)", ha="center", fontsize=14)
ax.set(xlim=(-1.3, 10.4), ylim=(-0.1, 3.9))
ax.axis("off")
ax.set_title("Columns first, then rows: one all-reduce for two matrices", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows, rank 0 and rank 1. In both, X goes to the rank's half of the columns of W_q,
# W_k and W_v; its heads attend; then comes its half of the rows of W_o. An all-reduce joins both
# rows. The FFN follows: half of the columns of W_1, the ReLU, half of the rows of W_2, and a second
# all-reduce.*

# %% [markdown] slideshow={"slide_type": "skip"}
# $W_q$, $W_k$ and $W_v$ are cut by their outputs, the columns, and $W_o$ by its inputs, the rows.
# In between nothing is sent. The two matrices $W_1$ and $W_2$ of the FFN are cut in the same way,
# with hidden units for heads, because the ReLU works unit by unit. So a layer needs two
# all-reduces in the forward pass. In Megatron, their program, it needs two more in the backward
# pass, for the gradients of the inputs (section 3 of their paper).

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask why not rows first: then the ReLU, or the softmax, would need the sum, and that
# is one all-reduce more.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Tensor parallel, for real
#
# Every process runs this function, with the same tokens and the same matrices. The columns of its
# heads are `mine`, and of the matrices it uses only these columns, or of $W_o$ these rows.


# %% slideshow={"slide_type": "-"}
def my_heads():
    torch.manual_seed(0)
    X, (W_q, W_k, W_v, W_o) = torch.randn(5, 16), torch.randn(4, 16, 16) / 4
    rank, processes = dist.get_rank(), dist.get_world_size()
    mine = torch.arange(16).chunk(processes)[rank]  # 16 columns are 4 heads of 4
    q, k, v = (X @ W[:, mine] for W in (W_q, W_k, W_v))  # (n, 16 / processes)
    q, k, v = (x.unflatten(-1, (-1, 4)).transpose(0, 1) for x in (q, k, v))  # (heads, n, 4)
    heads = plain_attention(q, k, v).transpose(0, 1).flatten(1)  # (n, 16 / processes)
    output = heads @ W_o[mine]  # (n, 16), what its own heads add
    dist.all_reduce(output)
    return output


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One process and two
#
# One process computes all heads, and then two compute half of them each:

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
(whole,), halves = run_processes(my_heads, 1), run_processes(my_heads, 2)
for rank, half in enumerate(halves):
    print(f"rank {rank} of 2 differs from one process by {(half - whole).abs().max():.0e}")
    assert torch.allclose(half, whole, atol=1e-5)

# %% [markdown] slideshow={"slide_type": "skip"}
# The gradients need an all-reduce, too. PyTorch's `torch.distributed.tensor.parallel` does both. It
# cuts the package's layer and an FFN here:


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Compares outputs and gradients of two processes with those of one
def layers_and_tokens():
    torch.manual_seed(0)
    attention, ffn = MultiHeadAttention(16, 4, 0.0), PositionWiseFFN(32, 16)
    X = torch.randn(2, 5, 16)
    ffn(attention(X, X, X))  # the first call makes the parameters
    return attention, ffn, X


def run_through(attention, ffn, X):
    X = X.requires_grad_()
    output = ffn(attention(X, X, X, is_causal=True))
    output.square().sum().backward()
    return output.detach()


def half_of_the_heads():
    from torch.distributed.device_mesh import init_device_mesh

    attention, ffn, X = layers_and_tokens()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    split_heads_over(attention, mesh)
    split_ffn_over(ffn, mesh)
    output = run_through(attention, ffn, X)
    parameters = dict([*attention.named_parameters(), *ffn.named_parameters()])
    return {
        "heads": attention.num_heads,
        "W_q": tuple(attention.W_q.weight.to_local().shape),
        "W_o": tuple(attention.W_o.weight.to_local().shape),
        "output": output,
        "gradients": {name: p.grad.full_tensor() for name, p in parameters.items()} | {"X": X.grad},
    }


attention, ffn, X = layers_and_tokens()
whole = run_through(attention, ffn, X)
gradients = dict([*attention.named_parameters(), *ffn.named_parameters()])
gradients = {name: parameter.grad for name, parameter in gradients.items()} | {"X": X.grad}

print(f"one process: 4 heads, W_q {tuple(attention.W_q.weight.shape)}", end=", ")
print(f"W_o {tuple(attention.W_o.weight.shape)} (outputs, inputs)")
for rank, half in enumerate(run_processes(half_of_the_heads, 2)):
    apart = (half["output"] - whole).abs().max().item()
    apart_back = largest_difference(half["gradients"], gradients)
    print(f"rank {rank}: {half['heads']} heads, W_q {half['W_q']}, W_o {half['W_o']}")
    print(f"        output differs by {apart:.0e}, gradients by {apart_back:.0e}")
    assert (half["heads"], half["W_q"], half["W_o"]) == (2, (8, 16), (16, 8))
    assert apart < 1e-5 and apart_back < 1e-5

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each process needs half of each matrix and sends none of it. It sends numbers for all tokens:
# outputs, and gradients on the way back.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them find the columns, the rows and the one all-reduce. (PyTorch's layers store a
# matrix as (outputs, inputs), so there the columns of the formula are rows.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Context parallel: cut the sequence
#
# With one novel there is no second sentence to give away. So rank 0 gets the first half of the
# tokens and rank 1 the second. FFNs, norms and projections work token by token. Only attention must
# see all keys.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who holds what in context parallel
draw_holdings(
    "Each sentence is cut, and the model is there twice",
    [["0", "0", "0", "1", "1", "1"]],
    [["0 1"] * 4] * 4,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids whose cells name the ranks that hold them. The batch has one sentence: its
# first three tokens belong to rank 0, its last three to rank 1. The model: every cell belongs to
# both.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The other half's keys
#
# Take the three numbers again: scores $\ln 1, \ln 2, \ln 4$ and values $7, 14, 0$. Rank 0 has the
# first two keys and rank 1 the third. Each attends to its own:
#
# | | sum of $e^a$ | output |
# |---|---|---|
# | keys 1 and 2 | $3$ | $(1 \cdot 7 + 2 \cdot 14) / 3 = \frac{35}3$ |
# | key 3 | $4$ | $0$ |
#
# **Predict.** How do you get the answer 5 from these four numbers?

# %% slideshow={"slide_type": "fragment"}
sums, outputs = torch.tensor([3.0, 4.0]), torch.tensor([35 / 3, 0.0])
print(f"mean of the outputs        {outputs.mean():.2f}")
print(f"mean, weighted by the sums {(sums * outputs).sum() / sums.sum():.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The outputs are averaged, and each counts as much as its sum of $e^a$. This is the online softmax
# once more, with a whole process for a block.

# %% [markdown] slideshow={"slide_type": "skip"}
# The same merge speeds up decoding on one GPU, whose cores each take a piece of the cache
# (Flash-Decoding: Dao et al., 2023).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the package's partial results merge to the same answer
query, values = torch.tensor([[1.0]]), torch.tensor([[7.0], [14.0], [0.0]])
keys = torch.tensor([[1.0], [2.0], [4.0]]).log()
parts = [partial_attention(query, keys[some], values[some]) for some in (slice(0, 2), slice(2, 3))]
merged, log_sum = merge_partial(*zip(*parts, strict=True))
torch.testing.assert_close(merged, torch.tensor([[5.0]]))
torch.testing.assert_close(log_sum.exp(), torch.tensor([7.0]))
print("checked: the package merges the two parts to the answer 5, with the sum 7")

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. The plain mean is the answer to wait for. Ask which part has the heavier keys. In
# the package the sums are kept as logarithms, because the exponentials may be infinite.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the four steps of the ring
figure, axes = plt.subplots(1, 4, figsize=(11, 3.3))
corners = {0: (0, 1), 1: (1, 1), 2: (1, 0), 3: (0, 0)}
for step, ax in enumerate(axes):
    for rank, (x, y) in corners.items():
        owner = (rank - step) % 4
        color = ("#9ecae1", "#fdae6b", "#a1d99b", "#dadaeb")[owner]  # the keys', not the rank's
        ax.add_patch(plt.Circle((x, y), 0.3, facecolor=color, edgecolor="0.3"))
        ax.text(x, y, f"Q{rank}\nK{owner}", ha="center", va="center", fontsize=13)
        if step < 3:
            following = corners[(rank + 1) % 4]
            dx, dy = following[0] - x, following[1] - y
            arrow(ax, (x + 0.33 * dx, y + 0.33 * dy), (x + 0.67 * dx, y + 0.67 * dy))
    ax.set(xlim=(-0.4, 1.4), ylim=(-0.4, 1.4), aspect="equal", title=f"step {step + 1}")
    ax.axis("off")
figure.suptitle("The queries stay, and the keys and values go round", fontsize=16)
plt.show()
assert all({(rank - step) % 4 for step in range(4)} == {0, 1, 2, 3} for rank in range(4))

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four processes in a square, four times, each in the colour of the keys that it has. In
# step 1 these are its own, Q0 K0 to Q3 K3. Arrows hand the keys on, clockwise, and the colours go
# with them. In step 4 each has met the keys of all four; the queries have not moved.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# With many processes the keys and values go round a **ring** (Liu et al., 2023): attend to the
# stretch that is here, hand it on, take the one that comes. With $P$ processes, $P - 1$ hand-overs
# are enough. No process ever holds more than two or three stretches of keys and values. (Our ring
# keeps its partial outputs until the end; a better one merges them at once.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Four students stand in a square and hand a sheet on. How many hand-overs until each
# has seen all four? Three. The ring can also hide the sending behind the computing; ours waits.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Context parallel, for real
#
# Here 13 tokens with a causal mask are on two processes, seven and six.


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Compares output and gradients of two processes with those of one
def one_novel():
    torch.manual_seed(0)
    return torch.randn(4, 2, 3, 13, 5).unbind()  # queries, keys, values, gradient of the output


def my_stretch():
    *qkv, grad = one_novel()
    mine = [share_sequence(X).clone().requires_grad_() for X in qkv]
    output = ring_attention(*mine, is_causal=True)
    output.backward(share_sequence(grad))
    return [output.detach(), *(X.grad for X in mine)]


*qkv, grad = one_novel()
qkv = [X.clone().requires_grad_() for X in qkv]
output = dot_product_attention(*qkv, is_causal=True)
output.backward(grad)
whole = [output, *(X.grad for X in qkv)]
stretches = run_processes(my_stretch, 2)
names = ("output", "gradient of queries", "gradient of keys", "gradient of values")
for name, parts, expected in zip(names, zip(*stretches, strict=True), whole, strict=True):
    apart = (torch.cat(parts, dim=-2) - expected).abs().max().item()
    print(f"{name:20} differs by {apart:.0e}")
    assert apart < 1e-5

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** With a causal mask, which of the two ranks has more to do? How many times as much, in
# a long sequence?

# %% slideshow={"slide_type": "fragment"}
keys_seen = torch.arange(1, 4097)  # query i sees i + 1 keys
early, late = keys_seen.tensor_split(2)
print(f"halves: rank 1 has {late.sum() / early.sum():.2f} times the pairs of rank 0")
sums = [quarter.sum() for quarter in keys_seen.tensor_split(4)]
print(f"quarters 2 and 3 against 1 and 4: {(sums[1] + sums[2]) / (sums[0] + sums[3]):.2f} times")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the causal triangle shared out in halves and in pairs of quarters
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.0))
for ax, (title, owners) in zip(
    axes, {"halves: 1 to 3": "0011", "pairs: equal": "0110"}.items(), strict=True
):
    for i, owner in enumerate(owners):  # the strip of the triangle between i/4 and (i + 1)/4
        corners = [(0, i), (i, i), (i + 1, i + 1), (0, i + 1)]
        ax.add_patch(Polygon(corners, facecolor=COLORS[owner], edgecolor="0.3"))
        ax.text(i + 0.85, i + 0.45, f"rank {owner}", va="center", fontsize=12)
    ax.set(xlim=(0, 4.8), ylim=(4, 0), aspect="equal", xlabel="keys", ylabel="queries")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=14)
figure.suptitle("An early and a late quarter for each rank are fair", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the causal triangle, queries by keys, twice, in four strips of queries. Left, in halves:
# the upper two strips, a quarter of the area, belong to rank 0 and the lower two to rank 1. Right,
# in pairs: the first and the last strip belong to rank 0, the two between to rank 1. Both areas are
# equal.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rank 1 has three times as much attention to compute, so rank 0 waits. If rank 0 takes quarters 1
# and 4, and rank 1 quarters 2 and 3, both have equal work. Llama 3 used such pairs when it was
# trained on long texts. Instead of a ring it first gathers all keys and values. Other masks are
# easier that way, and with grouped queries the keys and values are small (Llama Team, 2024,
# section 3.3.2).

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let them draw the triangle and cut it in the middle: $\frac18$ against $\frac38$ of
# the square. The course's ring keeps the plain halves, because it is meant to be read.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A softmax can be read in pieces. A new maximum rescales the sum and the undivided output by the
#   same factor $e^{m - m'}$.
# - Tiles give exactly attention, without its matrix. The memory grows like $n$ and the time still
#   like $n^2$. The kernel saves memory in the backward pass, too; the page's tiles do not.
# - By the roof, arithmetic caps fused prefill: in the run shown it reached well over half of this
#   core's flat top. Memory caps decoding on both machines, and on an H100 plain prefill of large
#   matrices.
# - A cache of a novel can be heavier than the model. Fewer key-value heads make it smaller.
# - Data parallel cuts the batch and sends gradients. Tensor parallel cuts heads and sends outputs,
#   and gradients of inputs. Context parallel cuts the sequence and sends keys and values, their
#   gradients and those of the parameters. In all runs two processes gave the numbers of one, up to
#   rounding.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("10.1")` gives one more hint each time, `solution("10.1")` the whole way. (10.2 is in
# *Going further*.)

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.1** Sixteen thousand tokens · *easy, 5 minutes* · by hand
#
# A layer has 32 heads of 128 numbers each and reads 16,384 tokens; a number takes 2 bytes. How many
# GiB ($2^{30}$ bytes) do the attention weights of all heads take? How many do queries, keys, values
# and the heads' output take, all heads together? And how many at twice the length? Give two pairs,
# the weights first, such as `[(1, 1), (1, 1)]`: in each pair, 16,384 tokens first.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("10.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.3** In one pass · *medium, 10 minutes* · complete a function
#
# The scores of Q queries come in tiles, (Q, k) each, one at a time: `for tile in tiles:`. Return
# the maximum (Q,) of each row over all tiles, and the total (Q,) of exp(score - maximum). Read the
# tiles once and keep none of them. Both results are tensors of the tiles' dtype. Scores of 1,000
# must not overflow, nor -1,000 vanish. Masked scores are -inf, maybe a whole tile, maybe all of a
# row: then its total is 0, and its maximum does not matter. To play with, a list of tensors will
# do.


# %% slideshow={"slide_type": "skip"}
def online_sums(tiles):
    """The maximum (Q,) and the total (Q,) of scores that come in tiles, (Q, k) each.

    The total of a row is the sum of exp(score - maximum) over all its tiles.

    The tiles [[0, 1]], [[3, 2]] and [[1]] give [3] and [1.688], which is
    exp(-3) + exp(-2) + exp(0) + exp(-1) + exp(-2).
    """
    ...


check("10.3", online_sums)

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.4** Right on all that was tried · *medium, 12 minutes* · find the bug
#
# `by_tiles` should give softmax(q · k / √d) v for queries (Q, d), keys (K, d) and values
# (K, V), and look at `block_size` keys at a time: it makes no tensor with the scores of more keys.
# Scores may lie anywhere, from -9,000 to 1,000, and the last tile may be short. Its author tried
# four keys in tiles of two, with scores just below 0, and it was right to six digits. It has three
# bugs. Mend them.


# %% slideshow={"slide_type": "skip"}
def by_tiles(queries, keys, values, block_size):
    output = torch.zeros(len(queries), values.shape[-1])
    maximum = torch.zeros(len(queries), 1)
    total = torch.zeros(len(queries), 1)
    for start in range(0, len(keys) - block_size + 1, block_size):
        tile = slice(start, start + block_size)
        scores = queries @ keys[tile].mT / queries.shape[-1] ** 0.5
        larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        weights = (scores - larger).exp()
        total = total * (maximum - larger).exp() + weights.sum(dim=-1, keepdim=True)
        output = output + weights @ values[tile]
        maximum = larger
    return output / total


check("10.4", by_tiles)

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.5** One softmax from two · *medium, 12 minutes* · by hand, then complete a function
#
# Two processes have attended to different keys with the same Q queries. Each knows the maximum (Q,)
# of its scores, the total (Q,) of exp(score - maximum), and its output (Q, V), a mean with weights
# that sum to 1. From two such triples make the triple of all keys together, of the same dtype.
# Begin by hand, for one query: $(\ln 2, 3, 3)$ and $(\ln 10, 1.6, 14)$. Scores may be 1,000 or
# -1,000. A part that has seen no key is (-inf, 0, 0); two of them give (-inf, 0, 0) again. NaN must
# not be hidden: a value of NaN makes an output NaN, a score of NaN all three numbers of its row,
# and what is NaN in one part stays NaN.


# %% slideshow={"slide_type": "skip"}
def merge(first, second):
    """From two triples (maximum (Q,), total (Q,), output (Q, V)) to the triple of all keys.

    ([0], [1], [[2]]), one key with the value 2, and ([0], [3], [[6]]), three equally
    good keys with values of mean 6, give ([0], [4], [[5]]).
    """
    ...


check("10.5", merge)

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.6** The mean of the means · *medium, 10 minutes* · find the bug
#
# Data parallel: `process_loss` runs in each process, with the losses (B, n) of its own sequences,
# one a token, padding behind, and their lengths (B,). Each process takes the gradient of what it
# returns; then the gradients are averaged over the processes. They should be those of the mean over
# all real tokens of all processes. The given code is right only where every process has equally
# many. Mend it. Return one number, a tensor with its gradient.
#
# `all_reduce(x)` gives every process the sum of their x, numbers or tensors of one shape; no
# gradient passes through it, and every process has to call it. A process may have no real token at
# all; not all of them. NaN may stand in the padding and has to go; a real token's NaN has to show.
# The check plays the processes, one after the other.


# %% slideshow={"slide_type": "skip"}
def process_loss(losses, valid_lens, all_reduce, num_processes):
    real = torch.arange(losses.shape[1]) < valid_lens[:, None]
    return losses.masked_fill(~real, 0.0).sum() / real.sum()


check("10.6", process_loss)

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.7** Heads over processes · *hard, 15 minutes* · complete a function
#
# What process `rank` of P computes of multi-head self-attention over X (B, n, D). The shares
# (B, n, D) of all processes are then added up (an all-reduce), and the sum is the whole output. The
# W are plain matrices (D, D), as in `X @ W_q`; `b_o` (D,) is added behind `W_o`, there is no other
# bias and no mask. P divides H, and the first head owns the first D / H columns. Process `rank` has
# its D / P columns of `W_q`, `W_k` and `W_v` and its D / P rows of `W_o`, and multiplies by no
# others. Gradients reach X, all matrices and `b_o`, and a share has the dtype of X.


# %% slideshow={"slide_type": "skip"}
def share_of_output(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    """The share (B, n, D) of process `rank`, from X (B, n, D), the W (D, D) and b_o (D,).

    One token X = [[[2, 4]]], identity matrices, b_o = [1, 1], two heads and two processes:
    process 0 gives [[[3, 1]]], process 1 [[[0, 4]]]. The sum is [[[3, 5]]]. (b_o may be
    shared in another way: only the sum is asked for.)
    """
    ...


check("10.7", share_of_output)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order, except that *When is the network the limit?* needs the
# one before it. Exercise 10.2 follows behind them.
#
# - *Read it yourself*, 2 minutes: a view of the online softmax.
# - *Two orders of the loops*, 2 minutes: FlashAttention against FlashAttention-2.
# - *How to lose it again*, 1 minute: what a mask costs the fused kernel.
# - *What goes over the wire*, 5 minutes: how much each way of sharing sends.
# - *When is the network the limit?*, 4 minutes: time to send against time to compute.
# - *The same program on a cluster*, 2 minutes: one command, and what other libraries add.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Read it yourself
#
# *2 minutes.* One query reads twelve keys, a block at a time.
#
# **Question.** In which order of the keys does no old number ever shrink? Take `rescale` away: in
# which orders is the last output wrong?

# %% [markdown] slideshow={"slide_type": "skip"}
# The left panel has the scores: those of the newest block are dark, those not read yet are hollow,
# and a line marks the running maximum. The middle panel shows what each key counts now,
# $e^{a - m}$. The right panel shows the output $o / Z$ after each block, and the true one.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines the twelve keys, their three orders, and how the reading is drawn
view_scores = torch.tensor([0.5, -0.4, 1.3, 0.1, 2.0, 0.8, -1.0, 2.6, 1.6, 3.1, 0.3, 2.2])
view_values = torch.tensor([3.0, 9.0, 1.0, 6.0, 8.0, 2.0, 7.0, 4.0, 9.0, 5.0, 1.0, 8.0])
ORDERS = {
    "mixed": torch.arange(12),
    "rising": view_scores.argsort(),
    "falling": view_scores.argsort(descending=True),
}


def read_in_blocks(scores, values, block, rescale=True):
    """After each block: keys read, m, what each key read counts, and the output o / Z."""
    counts, maximum, steps = torch.zeros(0), torch.tensor(-math.inf), []
    for start in range(0, len(scores), block):
        new = scores[start : start + block]
        larger = torch.maximum(maximum, new.max())
        factor = (maximum - larger).exp() if rescale else 1.0
        counts, maximum = torch.cat([counts * factor, (new - larger).exp()]), larger
        output = counts @ values[: len(counts)] / counts.sum()
        steps.append((len(counts), maximum, counts, output.item()))
    return steps


def show_reading(figure, order="mixed", block=2, keys_read=6, rescale=True):
    row, share, out = figure.subplots(1, 3, width_ratios=[1, 1, 1])
    scores, values = view_scores[ORDERS[order]], view_values[ORDERS[order]]
    steps = read_in_blocks(scores[:keys_read], values, block, rescale)
    read, maximum, counts, output = steps[-1]
    newest = steps[-2][0] if len(steps) > 1 else 0
    orange, numbers = "#D55E00", range(1, 13)
    colors = ["tab:blue" if i < newest else "#08306b" for i in range(read)]
    row.bar(numbers, scores, color=colors + ["white"] * (12 - read), edgecolor="0.5")
    row.axhline(maximum, color=orange)
    row.set(xlabel="key", ylim=(-1.3, 3.6), xticks=[1, 6, 12], title=f"scores, m = {maximum:.1f}")
    share.bar(numbers[:read], counts, color=colors)
    share.set(xlabel="key", xlim=(0.2, 12.8), ylim=(0, 1.1), xticks=[1, 6, 12], yticks=[0, 1])
    share.set_title(f"counts now, Z = {counts.sum():.2f}")
    truth = (scores.softmax(dim=0) @ values).item()
    out.axhline(truth, color="0.5", linestyle="--")
    out.plot([s[0] for s in steps], [s[3] for s in steps], "o-", color=orange)
    out.set(xlabel="keys read", xlim=(0, 12.8), ylim=(0, 10), xticks=[1, 6, 12])
    out.set_title(f"output {output:.2f}, true {truth:.2f}")


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the view: one query reads twelve keys, block by block
from d2l_attention.views import explore

explore(
    show_reading,
    figsize=(11.5, 4),
    alt="Twelve scores with the running maximum, what each key counts, and the output so far.",
    order=list(ORDERS),
    block=[1, 2, 3, 6],
    keys_read=(1, 12),
    rescale=True,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of three panels. Left, bars for twelve scores and a line at the
# largest that was read. Middle, bars for what each key read so far counts. Right, the output after
# each block as a curve, with a dashed line at the true output.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Begin with 'rising', block 1, and step: the bars in the middle shrink with each step and the last
# one is always 1. Then 'falling'. Then untick 'rescale' and let the room say which orders go wrong
# before you show them.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Computes the last output in three orders, with and without rescaling
for name, order in ORDERS.items():
    scores, values = view_scores[order], view_values[order]
    truth = (scores.softmax(dim=0) @ values).item()
    ends = [read_in_blocks(scores, values, 1, rescale)[-1][3] for rescale in (True, False)]
    print(f"{name:8} true {truth:.2f}   rescaled {ends[0]:.2f}   never rescaled {ends[1]:.2f}")
    assert abs(ends[0] - truth) < 1e-5 and (abs(ends[1] - truth) < 1e-5) == (name == "falling")

# %% [markdown] slideshow={"slide_type": "skip"}
# When the scores fall, the first one is the largest, so $m$ never moves and rescaling changes
# nothing. The same holds for every order with the largest score in the first block. In the other
# two orders here $m$ moves, and without rescaling old keys count too much.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two orders of the loops
#
# *2 minutes.* Our code has the **queries outside**: it finishes one block of queries before it
# begins the next. One can also put the **keys outside**. Both orders give the same sums, but
# differ in what has to be kept on the way.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws which tiles are done and which sums are unfinished in both orders of the loops
LOOKS = {
    "done": {"facecolor": "#9ecae1"},
    "the tile in memory now": {"facecolor": "#08306b"},
    "to come": {"facecolor": "white"},
    "future: never computed": {"facecolor": "0.93", "hatch": "//"},
    "sums begun, not finished": {"facecolor": "#fdae6b"},
}
figure, axes = plt.subplots(1, 2, figsize=(11, 5.6))
now = (5, 3)  # block of queries, block of keys
orders = {"Keys outside: FlashAttention": True, "Queries outside: FlashAttention-2": False}
counted = dict.fromkeys(LOOKS, 0)
for ax, (title, keys_outside) in zip(axes, orders.items(), strict=True):
    turn = (lambda tile: tile[::-1]) if keys_outside else (lambda tile: tile)
    for row in range(8):
        for column in range(8):
            when = (turn((row, column)) > turn(now)) - (turn((row, column)) < turn(now))
            name = list(LOOKS)[1 + when] if column <= row else "future: never computed"
            counted[name] += not keys_outside
            ax.add_patch(Rectangle((column, row), 0.92, 0.92, edgecolor="0.5", **LOOKS[name]))
        first, last = turn((row, 0)) <= turn(now), turn((row, row)) < turn(now)
        name = "done" if last else "sums begun, not finished" if first else "to come"
        ax.add_patch(Rectangle((8.4, row), 0.92, 0.92, edgecolor="0.5", **LOOKS[name]))
    ax.text(8.86, -0.2, "m, Z, o", ha="center", fontsize=12)
    ax.set(xlim=(0, 9.5), ylim=(8, -0.8), xlabel="block of keys", aspect="equal")
    ax.set_title(title, fontsize=14)
    ticks = [i + 0.46 for i in range(8)]
    ax.set_xticks(ticks, range(1, 9))
    ax.set_yticks(ticks, range(1, 9))
axes[0].set_ylabel("block of queries")
patches = [Rectangle((0, 0), 1, 1, edgecolor="0.5", label=n, **LOOKS[n]) for n in LOOKS]
figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False, fontsize=12)
figure.suptitle("With the queries outside, one block of sums is unfinished at a time", fontsize=16)
plt.show()
assert list(counted.values())[:4] == [18, 1, 17, 28]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids of eight by eight tiles of a causal sequence. The 28 tiles above the diagonal
# are hatched, the future. Left, keys outside: the first three columns are done, and the fourth down
# to row 5. Beside the grid, the sums of blocks 5 to 8 are begun and not finished. Right, queries
# outside: the first five rows are done, and three tiles of the sixth. Only the sums of block 6 are
# unfinished.*

# %% [markdown] slideshow={"slide_type": "skip"}
# FlashAttention (Dao et al., 2022, figure 1) has the keys outside, so unfinished sums and outputs
# go to memory and come back for each block of keys. FlashAttention-2 (Dao, 2023) puts the queries
# outside in the forward pass and divides once, as our tiles do. Then the blocks of queries need
# nothing from each other, so they can run in parallel. With a causal mask the 28 tiles of the
# future are skipped.

# %% [markdown] slideshow={"slide_type": "skip"}
# Rabe and Staats (2021) had attention in pieces before both, to save memory rather than time. Dao
# (2023, section 3.2) credits the swapped loops to Phil Tillet.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask what the orange boxes cost on the left: a trip to memory and back for each. Ask
# then what the eight tiles on the diagonal need: a mask. All others need none. With more blocks the
# share that is never computed goes to one half.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How to lose it again
#
# *1 minute.* The same kernel runs with a causal mask, once as `is_causal=True` and once as a
# boolean mask of shape $(n, n)$.
#
# **Question.** A boolean takes one byte. What does the mask weigh for the novel? And which of the
# two is faster?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures what a causal mask costs, in memory and in time
mask = causal_mask(2048)
weight = mask.nbytes / 2048**2 * tokens**2  # a byte a pair
print(f"the mask of {tokens:,} tokens: {weight / 1e9:.0f} GB")
qkv = torch.randn(3, 1, 1, 2048, 64)
took = {
    name: quickest(partial(dot_product_attention, *qkv, **options))
    for name, options in {"is_causal": {"is_causal": True}, "mask": {"mask": mask}}.items()
}
print("2,048 tokens:", *(f"{name} {1000 * seconds:.1f} ms" for name, seconds in took.items()))

peak = mask_costs[1]
floats = 4096**2 * 4 / 2**20
print(f"4,096 tokens: {peak:.0f} MiB with the mask; one (n, n) matrix of floats: {floats:.0f} MiB")
assert weight == 10e9 and took["mask"] > took["is_causal"] and peak > floats

# %% [markdown] slideshow={"slide_type": "fragment"}
# A mask is a matrix, too. It weighs 10 GB for the novel, a byte for each pair, and for the CPU's
# kernel PyTorch makes 4-byte numbers of it first, 40 GB more. With `is_causal` no matrix is needed:
# the kernel knows which tiles belong to the future, and skips them. Reading `attention_weights`
# builds a matrix as well, so read it for a sentence and not for a novel.

# %% [markdown] slideshow={"slide_type": "notes"}
# Fifteen seconds for the weight: a byte a pair, so a quarter of one head's 40 GB. For the time
# expect 'the same, the mask says the same'. The result is the same; but the mask is read for every
# pair, and no tile is skipped.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What goes over the wire
#
# *5 minutes.* How much does each of $P$ processes send? First the all-reduce of $N$ numbers, in a
# ring. The numbers are cut into $P$ parts. In each step every process hands one part to the next.
# After $P - 1$ steps each has one part of the whole sum, and after as many again all have all parts
# (Patarasuk and Yuan, 2009). So each sends
#
# $$2\,\frac{P - 1}P\,N .$$
#
# **Question.** How much more does each have to send with 800 processes than with 8?

# %% slideshow={"slide_type": "fragment"}
for P in (2, 8, 800):
    print(f"{P:3} processes: each sends {2 * (P - 1) / P:.3f} times its numbers")

# %% [markdown] slideshow={"slide_type": "skip"}
# With 800 processes each sends 1.14 times as much as with 8, and never more than twice its numbers.
# But there are more steps, each with a delay.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now one layer of Llama 2 7B and one step of training. Its width is $D = 4096$, and it has about
# $12 D^2$ parameters: $4 D^2$ in attention and $8 D^2$ in the FFN. There are $B = 8$ sentences of
# $n = 8192$ tokens on $P = 8$ processes, and a number has 2 bytes.
#
# | | what is sent | numbers from each process |
# |---|---|---|
# | data | all-reduce of the gradients | $\frac74 \cdot 12 D^2 = 21 D^2$ |
# | tensor | two all-reduces of outputs, two of gradients | $4 \cdot \frac74\, B n D = 7\, B n D$ |
# | context | keys and values forward, and again back | $2 \cdot 2 \cdot \frac78\, B n D$ |
# | | the gradients of keys and values, all the way home | $2 \cdot \frac88\, B n D$ |
# | | and the gradients of all parameters, as in data parallel | $21 D^2$ |

# %% [markdown] slideshow={"slide_type": "skip"}
# The rows of context parallel come from the ring. A stretch of keys has $B n D / 8$ numbers, and a
# stretch of values as many. In the forward pass both make $P - 1 = 7$ hand-overs. In the backward
# pass they make 7 again, and their gradients make 8, until each is back at its owner. So the ring
# sends $5.5\, B n D$. Each process has the whole model, so its gradients are averaged as well.

# %% slideshow={"slide_type": "subslide"}
B, n, D, MIB = 8, 8192, 4096, 2**20
print(f"data    {2 * 21 * D**2 / MIB:6,.0f} MiB")
print(f"tensor  {2 * 7 * B * n * D / MIB:6,.0f} MiB")
ring = 2 * 5.5 * B * n * D / MIB
print(f"context {ring + 2 * 21 * D**2 / MIB:6,.0f} MiB, of which the ring {ring:,.0f} MiB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Tensor parallel sends no parameters. Twice forward and twice back, all processes add a tensor of
# $B n D$ numbers. With more than $3D$ = 12,288 tokens in the whole batch it sends more than data
# parallel does.
#
# The ring's 2,816 MiB are for multi-head attention. With 8 key-value heads for 32 heads, as in
# Llama 3.1 8B, it is a quarter: 704 MiB. The gradients of that model's own layer are about as much,
# 728 MiB, because its FFN has three matrices of 4,096 by 14,336.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the counts against the package's, and 12 D² against the published layer
layer = LayerShape(num_hiddens=D, num_tokens=n, batch_size=B)
sent = bytes_per_layer(layer, num_processes=8)
expected = {"data": 21 * D**2, "tensor": 7 * B * n * D, "context": 5.5 * B * n * D}
assert sent == {way: 2 * numbers for way, numbers in expected.items()}
assert (sent["data"] / MIB, sent["context"] / 4 / MIB) == (672, 704)
assert (sent["data"] + sent["context"]) / MIB == 3488
of_llama_3 = 2 * D**2 + 2 * D * D // 4 + 3 * D * 14_336  # 8 groups for 32 heads, and its FFN
assert 2 * all_reduce(of_llama_3, 8) / MIB == 728 and 7 * 12_288 * D == 21 * D**2
published = 4 * D**2 + 3 * D * 11_008  # attention, and the three matrices of its FFN
assert abs(12 * D**2 / published - 1) < 0.01 and all_reduce(1, 8) == 1.75
print("checked: the package counts the same bytes; 12 D² is within 1% of the published layer")

# %% [markdown] slideshow={"slide_type": "notes"}
# Five minutes. With $B n = 16 D$ all rows can be compared in the head: 21, 112 and 88 + 21 times
# the square of the width. Let the room derive the ring's two rows on the four students who stand in
# a square.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### When is the network the limit?
#
# *4 minutes.* The network is the limit when it takes longer to send than to compute. Take the layer
# above on eight GPUs that reach their published 989 trillion operations a second. Within a server
# they are connected with 450 GB a second each way, and between servers with 400 Gbit, or 50 GB.
#
# **Question.** Each GPU sends 672, 3,584 or 3,488 MiB, and computing takes 13 ms. How many times as
# long does sending take between servers?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the time to send against the time to compute for two networks
networks = {"within a server, 450 GB/s": 450e9, "between servers, 50 GB/s": 50e9}
ratios = {}
print(f"{'time to send / to compute':28}{'data':>7}{'tensor':>9}{'context':>9}")
for name, speed in networks.items():
    times = layer_times(layer, 8, flops_per_second=989e12, bytes_per_second=speed)
    ratios[name] = [t.moving / t.computing for t in times.values()]
    ratios[name][2] += ratios[name][0]  # context averages gradients, too
    print(f"{name:28}{ratios[name][0]:7.1f}{ratios[name][1]:9.1f}{ratios[name][2]:9.1f}")
within, between = ratios.values()
assert max(within) < 1 < min(between) and round(1000 * times["data"].computing) == 13

# %% [markdown] slideshow={"slide_type": "fragment"}
# All three are above 1, and data parallel is just at the border. Within a server all are below 1.
# Below 1 the sending *may* hide behind the computing: gradients can travel while earlier layers are
# still at work. Tensor parallel can hide little of it, because the next step needs the sum.

# %% [markdown] slideshow={"slide_type": "skip"}
# (The 13 ms: for each token a step takes $72 D^2 + 12\,n D$ operations, and each GPU does an
# eighth of them. Within: NVLink's 900 GB/s for both directions together, NVIDIA; between: Llama
# 3's clusters, Llama Team, 2024, section 3.3.1. The three speeds are upper limits, so the
# quotients may be larger or smaller. Nothing in this table was measured here.)

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws how more or longer sentences change the time to send against the time to compute
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True)
more = [1, 2, 4, 8, 16]
cases = {
    "more sentences": [LayerShape(4096, 8192, 8 * k) for k in more],
    "longer sentences": [LayerShape(4096, 8192 * k, 8) for k in more],
}
curves = {}
for ax, (case, shapes_of) in zip(axes, cases.items(), strict=True):
    speeds = {"flops_per_second": 989e12, "bytes_per_second": 50e9}
    rows = [layer_times(shape, 8, **speeds) for shape in shapes_of]
    styles = {"data": ("o-", "tab:blue"), "tensor": ("s--", "#D55E00"), "context": ("^-.", "0.4")}
    for way, (style, color) in styles.items():
        curves[case, way] = [row[way].moving / row[way].computing for row in rows]
        label = "context, without gradients" if way == "context" else way
        ax.loglog([8 * k for k in more], curves[case, way], style, color=color, label=label)
    ax.axhline(1, color="black", linewidth=1)
    ax.set(xlabel="thousand tokens for each GPU", title=case)
    ax.set_xticks([8 * k for k in more], [8 * k for k in more])
    ax.set_yticks([0.01, 0.1, 1, 10], [0.01, 0.1, 1, 10])
    ax.minorticks_off()
axes[0].set_ylabel("time to send / to compute")
axes[0].legend(loc="lower left", fontsize=12)
axes[0].text(128, 1.15, "above 1 the network is the limit", ha="right", fontsize=12)
figure.suptitle("More sentences help data parallel, longer ones help all", fontsize=16)
plt.show()

assert curves["more sentences", "data"][-1] < 0.1 < 1 < curves["more sentences", "data"][0]
for way in ("tensor", "context"):
    same = curves["more sentences", way]
    assert abs(same[0] - same[-1]) < 1e-9 and same[0] > 1
    assert curves["longer sentences", way][-1] < same[-1] / 3

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels with logarithmic axes, sending over computing against thousand tokens for each
# GPU, 8 to 128, and a line at 1. More sentences: data parallel falls from 1.1 to below 0.1; tensor
# and context parallel stay level near 6 and 4. Longer sentences: all three fall, data parallel the
# fastest, tensor and context to near 1.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# With more sentences data parallel sends the same gradients for more work, while the other two
# send for every token. With longer sentences attention itself grows like $n^2$, what tensor and
# context parallel send grows like $n$, and the gradients of data parallel do not grow. (Here every
# token sees every token. A causal mask halves the work of attention. For context parallel the
# figure leaves out the gradients, which the table includes.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Five minutes. 672 MiB take 14 ms. Take votes for the others; 'tensor is slow, data is fine' is
# what most have read. It is right for larger batches, as the figure shows. The rule of thumb
# follows: tensor parallel within a server, data parallel between servers, context parallel for long
# sequences.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same program on a cluster
#
# *2 minutes.* One command starts two processes, shares the work in the three ways, and compares
# with one process:
#
#     python -m d2l_attention.scale.parallel
#
# `torchrun` starts the processes too, here or on four machines with eight processes each. The last
# command is entered on each of the four; HOST is one of them.
#
#     torchrun --nproc-per-node 2 -m d2l_attention.scale.parallel
#
#     torchrun --nnodes 4 --nproc-per-node 8 \
#         --rdzv-backend c10d --rdzv-endpoint HOST:29500 \
#         -m d2l_attention.scale.parallel

# %% [markdown] slideshow={"slide_type": "fragment"}
# The package's tests run the second command, and the parts of the first. Nobody has run the third,
# because there was one machine.

# %% [markdown] slideshow={"slide_type": "skip"}
# On GPUs some things change. A mesh is the ranks laid out in a grid.
#
# | | here | on GPUs |
# |---|---|---|
# | carries the numbers | gloo | NCCL, `nccl` in `init_process_group` |
# | a process has | one core | one GPU, `cuda:LOCAL_RANK` |
# | the mesh | one axis, `(2,)` | two, `(4, 8)`: data over servers, heads within |
# | context parallel | our ring, to be read | PyTorch's `context_parallel`, a prototype |
#
# **Sharded data parallel** (PyTorch's FSDP2, DeepSpeed's ZeRO) also spreads parameters, gradients
# and the optimiser's state (Rajbhandari et al., 2020). NVIDIA adds kernels (**cuDNN**), layers
# with 8-bit and 4-bit formats (**Transformer Engine**) and heads cut as above (**Megatron-LM**).
# None of these libraries ran here.

# %% [markdown] slideshow={"slide_type": "notes"}
# Open a terminal and enter the first line: it takes some ten seconds. Ask what the four machines
# have to know of each other: one name and port, where they meet.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.2** What is sent, what is read · *easy, 8 minutes* · predict, then compare
#
# Five processes add up their gradients, 100 MB each, by a ring all-reduce.
#
# - How many MB does each of them send? How many if they are ten?
#
# One step of decoding: each head's one query reads 4,096 keys and values of 128 numbers from a
# cache of 8-bit numbers, 1 byte each. How many operations, multiplications and additions, does it
# do for each byte of the cache (not counted: the softmax, the query, the output),
#
# - if each head has a cache of its own?
# - if eight heads share one?
# - if 16 sequences decode at once, each head of each with its own?
#
# Predict first; `check` compares. Give five numbers, such as `(1, 1, 1, 1, 1)`.

# %% slideshow={"slide_type": "skip"}
answer = None

check("10.2", answer)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - M. Milakov, N. Gimelshein, *Online normalizer calculation for softmax*, 2018, arXiv:1805.02867.
#   Algorithm 3.
# - M. N. Rabe, C. Staats, *Self-attention Does Not Need O(n²) Memory*, 2021, arXiv:2112.05682.
# - T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, *FlashAttention: Fast and Memory-Efficient Exact
#   Attention with IO-Awareness*, NeurIPS 2022, arXiv:2205.14135. Figure 1 (order of the loops,
#   pyramid of memories) and section 2.1.
# - T. Dao, *FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning*,
#   ICLR 2024, arXiv:2307.08691. Section 3.1 (one division, one number for the backward pass),
#   section 3.2 (order of the loops).
# - J. Shah et al., *FlashAttention-3: Fast and Accurate Attention with Asynchrony and
#   Low-precision*, NeurIPS 2024, arXiv:2407.08608. Abstract as published there: 35%, and 840
#   TFLOP/s or 85%, of an H100 (the preprint's says 75%).
# - T. Dao, D. Haziza, F. Massa, G. Sizov, *Flash-Decoding for long-context inference*, PyTorch
#   blog, 2023.
# - S. Williams, A. Waterman, D. Patterson, *Roofline: An Insightful Visual Performance Model for
#   Multicore Architectures*, Communications of the ACM 52(4), 2009, doi:10.1145/1498765.1498785.
# - NVIDIA, *H100 Tensor Core GPU*, data sheet, SXM: 1,979 teraFLOPS in BFLOAT16 with sparsity,
#   half of it without; 3.35 TB/s of memory bandwidth; NVLink 900 GB/s.
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
# - Llama Team, *The Llama 3 Herd of Models*, 2024, arXiv:2407.21783. Table 3; sections 3.3.1
#   (network) and 3.3.2 (context parallel).
# - PyTorch's documentation: `torchrun`, `torch.distributed.tensor.parallel`,
#   `torch.nn.attention.SDPBackend`, `torch.distributed.fsdp.fully_shard`; in version 2.13 the text
#   of `context_parallel`.
# - Documentation of Hugging Face's Accelerate (`Accelerator.prepare`), DeepSpeed (ZeRO), NVIDIA's
#   cuDNN Frontend (*Attention*), Transformer Engine and Megatron Core.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 11.3,
#   13.5 (data parallel) and 13.7 (the ring). [d2l.ai](https://d2l.ai)
