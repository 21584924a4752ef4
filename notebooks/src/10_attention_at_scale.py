# %% [markdown] slideshow={"slide_type": "slide"}
# # 10 · Attention at scale
#
# **You will**
# - read a softmax in pieces, and build attention that never holds its matrix;
# - derive from two times whether arithmetic or memory is the limit, for a prompt and for an answer;
# - compute how long the next token takes for one reader and for many;
# - share a layer, or its attention, between two real processes, and get the numbers of one process.
#
# Core path: 75 minutes. Going further: 20. Exercises: 72. A good place to stop is after *What the
# roofs say*.
#
# Builds on chapters 6, 8 and 9. *Dive into Deep Learning* (D2L) has the operation in section 11.3
# and data parallel training in sections 13.5 and 13.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# 68 minutes for two lectures. The first, of 33, ends after *What the roofs say*; *The cache, for
# each token* begins the second. The slides of *Going further* come after the summary. No GPU is
# needed: every figure for one is published or stored from a run, and its slide says which.

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
    merge_partial,
    online_softmax,
    partial_attention,
    tiled_attention,
)
from d2l_attention.scale.parallel import (
    LayerShape,
    all_reduce,
    bytes_per_layer,
    layer_times,
    ring_attention,
    run_processes,
    share_sequence,
)
from d2l_attention.scale.roofline import Roofline, attention_work
from d2l_attention.views import schematic
from d2l_attention.views.plots import set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the whole machine, with this chapter's part marked
schematic("whole", here="cost")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the whole machine in two rows. Above, from left to right: a sentence goes in; its words
# become vectors, to which positions are added; the encoder's blocks read them; the decoder asks the
# encoder; the decoder's blocks write; a sentence comes out. Below is the inside of a block:
# queries, keys and values; the similarity of queries and keys; scores; mask and softmax; the
# weighted sum of the values; then add & norm and a network. Similarity, scores, mask and softmax,
# and the weighted sum are marked.*

# %% [markdown] slideshow={"slide_type": "-"}
# The marked boxes work on every pair of tokens. This chapter computes the same result in less
# memory, and on more than one machine.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. What is marked grows with the square of the length; what else stands in a block
# grows with the length.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Scores and weights** (chapter 3). With scores $a_j$ and values $v_j$ a query gets $\sum_j
#   \alpha_j v_j$, where the weights $\alpha$ are the softmax of the scores. Scores of $\ln 1$ and
#   $\ln 3$ and values 8 and 4 give $\frac14 \cdot 8 + \frac34 \cdot 4 = 5$.
# - **Heads** (chapter 6). A layer of width $D$ has $H$ heads of size $d = D / H$. The heads work
#   side by side, and $W_o$ mixes their answers.
# - **Cache** (chapters 8 and 9). A model that writes keeps the keys and values of all tokens so
#   far. Llama 3.1 8B has 32 heads of queries, but only $G = 8$ key-value heads, so its cache is a
#   quarter of that of Llama 2 7B, which has 32.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A novel at once
#
# You paste a novel of 100,000 tokens into a chat and ask who the murderer is. In every head, every
# token has a weight of 4 bytes for every token. Llama 3.1 8B has 32 layers with 32 heads each.

# %% slideshow={"slide_type": "fragment"}
tokens = 100_000
one_head = tokens**2 * 4 / 1e12  # TB
print(f"head {one_head:.2f}, layer {32 * one_head:.1f}, all layers {32**2 * one_head:.0f} TB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Training would keep all 41 TB for the backward pass. Even reading takes 2.6 TB, scores and weights
# of one layer, if its 32 heads work at once. An H100, the GPU on which Llama 3 was trained, has
# 80 GB. Yet this model reads 128K (131,072) tokens (Llama Team, 2024), and each sees all before it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room do the product before you run the cell: $10^5 \cdot 10^5 \cdot 4$ for a
# head, times 1,024. Chapter 9 let tokens see less. This chapter leaves the result as it is and
# changes how it is computed.

# %% [markdown] slideshow={"slide_type": "skip"}
# **Plain** attention is chapter 3's formula. With more keys than $d$, dividing the queries is
# cheaper than dividing the scores:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_attention(queries, keys, values):  # (*, Q, d), (*, K, d), (*, K, V) -> (*, Q, V)
    scores = (queries / math.sqrt(queries.shape[-1])) @ keys.mT  # (*, Q, K): the matrix
    return scores.softmax(dim=-1) @ values


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Measure the memory
#
# Plain attention writes the matrix of scores down. **Fused** attention is here PyTorch's
# `scaled_dot_product_attention`. We measure one head with $d = 64$, each kind of attention in a new
# process.


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

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. A process remembers the most memory that it ever held, so each kind runs in a new one,
# and each step takes more than the one before. Ask how a softmax can be computed without its row:
# that is the next section.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Maximum and sum in one pass
#
# $$\alpha_j = \frac{e^{a_j - m}}{\sum_k e^{a_k - m}}, \qquad m = \max_k a_k$$
#
# The maximum $m$ and the sum need *all* scores of a row. On paper $m$ cancels. In 32 bits it cannot
# be left out, because $e^{100}$ is infinite there:

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
# Take the scores $\ln 1$, $\ln 2$ and $\ln 4$, so that $e^{a}$ is 1, 2 and 4, and the values 7, 14
# and 0. The answer must be $\frac17 \cdot 7 + \frac27 \cdot 14 + \frac47 \cdot 0 = 5$.
#
# We read one score after the other and keep three numbers: the largest score so far, $m$; the sum
# relative to it, $Z = \sum_j e^{a_j - m}$; and the **undivided** output $o = \sum_j e^{a_j - m}
# v_j$. When $\ln 2$ comes, the old 1 is worth only $e^{\ln 1 - \ln 2} = \frac12$. So the old sum
# and the old output are halved, and the new term is added:
#
# | read | $m$ | factor | $Z$ | $o$ |
# |---|---|---|---|---|
# | 1 | $\ln 1$ | | $1$ | $7$ |
# | 2 | $\ln 2$ | $\frac12$ | $\frac12 + 1 = \frac32$ | $\frac72 + 14 = \frac{35}2$ |
# | 3 | $\ln 4$ | ? | ? | ? |
#
# **Predict.** What stands in the last row, and how do you get the answer 5 from it?

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes, on the board. The mistake to wait for is that somebody halves the new 1 as well. Ask
# what $e^{a - m}$ is for the maximum itself: always 1. Some divide after each step and have to undo
# it: let them say why one division at the end is enough.

# %% slideshow={"slide_type": "subslide"}
scores, values = torch.tensor([1.0, 2.0, 4.0]).log(), torch.tensor([7.0, 14.0, 0.0])
terms = (scores - scores.max()).exp()
Z, o = terms.sum(), (terms * values).sum()
print(f"Z = {Z:.2f}, o = {o:.2f}, o / Z = {o / Z:.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The factor is $\frac12$ again: $Z = \frac32 \cdot \frac12 + 1 = \frac74$, $o = \frac{35}2 \cdot
# \frac12 + 1 \cdot 0 = \frac{35}4$, and $\frac{35}4 : \frac74 = 5$.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Compare with the room's last row.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why may one factor correct a whole sum?
#
# Every term of the sum was measured from the same maximum $m$. So the same factor moves all of them
# to the new maximum $m'$:
#
# $$\sum_j e^{a_j - m'} = \sum_j e^{a_j - m} \, e^{m - m'} = Z \cdot e^{m - m'}$$
#
# A new score $a$ with its value $v$ therefore makes
#
# $$m' = \max(m, a), \quad Z' = Z \, e^{m - m'} + e^{a - m'}, \quad o' = o \, e^{m - m'} +
# e^{a - m'} v .$$
#
# If the new score is not larger, the factor is $e^0 = 1$, and nothing is rescaled. For $m$ and $Z$
# this is the **online softmax** (Milakov and Gimelshein, 2018, algorithm 3).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the recurrence by hand, and the package's online softmax against PyTorch's softmax
m, total, output = torch.tensor(-math.inf), torch.tensor(0.0), torch.tensor(0.0)
for score, value in zip(scores, values, strict=True):
    larger = torch.maximum(m, score)
    rescale, term = (m - larger).exp(), (score - larger).exp()
    total, output, m = total * rescale + term, output * rescale + term * value, larger
assert torch.allclose(torch.stack([total, output]), torch.tensor([7 / 4, 35 / 4]))
torch.manual_seed(0)
for n in (1, 2, 7, 64, 101):
    for scale in (1, 100, 10_000):
        scores = scale * torch.randn(5, n, dtype=torch.float64)
        scores[:, 1::3] = -math.inf
        for block_size in (1, 3, 8, 200):
            torch.testing.assert_close(online_softmax(scores, block_size), scores.softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let them find the factor in the table: it is the same for $Z$ and for $o$.

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
        maximum = torch.full_like(q[..., :1], -math.inf)  # (*, s, 1)
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
# The inner lines are the derivation, with a block in place of a score. The package's
# `tiled_attention` also skips tiles of the future. For several documents that are packed into one
# sequence, the rule of the mask is 'the same document, and not later', and tiles between two
# documents can be skipped in the same way.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the page's and the package's tiles against fused attention, outputs and gradients
torch.manual_seed(0)
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

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let the room find the four lines of the derivation. Ask what goes wrong if the
# output is not rescaled, and which tests would still pass: those in which the first block has the
# largest score.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One kernel does it all
#
# A GPU has little fast memory beside its arithmetic, and much slow memory further away: an A100 has
# 20 MB at 19 TB/s and 40 GB at 1.5 TB/s (Dao et al., 2022, figure 1). Our tiles are Python: each
# line is a call of its own, and its result may go to the slow memory and back. **FlashAttention**
# runs the whole loop in one **kernel**, a program that the processor runs without returning to
# Python. The tile is made, used and forgotten in the fast memory.


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the trips to memory of plain and of fused attention
def arrow(ax, start, end, color="0.15", **style):
    style = {"arrowstyle": "-|>", "lw": 2, "color": color} | style
    ax.annotate("", end, start, arrowprops=style)


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

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Follow a tile with a finger: queries, keys and values go up, the tile is used and
# forgotten, and only the output comes down. PyTorch has such kernels for GPUs and for this CPU.

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
left.set(ylabel="MiB above the start", title="Fused: memory grows no faster than n")
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
# multiplications. A fused kernel makes the novel *possible*. It does not make it cheap.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. The sentence 'FlashAttention makes attention linear' is in many heads. Ask those
# who say it which multiplication was left out. Chapter 9's windows do leave some out.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The backward pass
#
# The gradient needs the weights again, and a kernel that never kept them computes them again, tile
# by tile. Besides inputs and output it keeps one number for each query, $L = m + \ln Z$. As
# $e^L = e^m Z$ is the sum of all $e^{a_j}$, each weight is $e^{a - L}$.

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

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before the slide where a kernel gets the weights from that it never kept. The
# numbers are those of the run shown; read them from the slide.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where the time goes
#
# A machine does two things: it calculates, and it carries numbers between memory and arithmetic. At
# best it does both at once, and then the slower of the two decides:
#
# $$\text{time} \ge \max\!\left(\frac{\text{operations}}{\text{operations a second}},\;
# \frac{\text{bytes}}{\text{bytes a second}}\right)$$

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what is carried and what is computed in a sum of two long vectors: two numbers are
# read and one is written for each addition.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Prefill and decoding
#
# A model reads a prompt with $n$ queries at once: **prefill**. Then it writes its answer token by
# token, and in each step one query meets the $n$ keys in the cache: **decoding**. A pair of query
# and key takes $4d$ operations: a product and a sum for each of the $d$ numbers of the key, and the
# same for the value. The **intensity** is the number of operations for each byte carried. In one
# head, with 2 bytes a number:
#
# | | operations | bytes | intensity |
# |---|---|---|---|
# | prefill, fused | $4\,n^2 d$ | $8\,n d$: queries, keys, values, output | $n / 2$ at most |
# | prefill, plain | $4\,n^2 d$ | $8\,n^2$: four trips of the matrix | less than $d / 2$ |
# | decoding | $4\,n d$ | $4\,n d$: keys and values | $1$ |

# %% [markdown] slideshow={"slide_type": "skip"}
# In decoding a head does one multiplication and one addition with each number that it carries,
# whatever $n$ is.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the three intensities, and those of the text below, against the package's count
for n in (1024, 4096, 16_384):
    assert attention_work(n, n, 128, bytes_per_number=2).intensity == n / 2
    assert abs(attention_work(1, n, 128, bytes_per_number=2).intensity - 1) < 2e-3
    assert 56 < attention_work(n, n, 128, fused=False, bytes_per_number=2).intensity < 64
grouped = attention_work(1, 4096, 128, num_heads=32, num_kv_heads=8, bytes_per_number=2)
assert abs(grouped.intensity - 4) < 0.01
one, many = (attention_work(1, 4096, 128, batch_size=B).intensity for B in (1, 32))
assert one == many
latent = 128 * 2 * (576 + 512) / (2 * 576)  # 128 heads share a row of 512 + 64 numbers of 2 bytes
assert round(latent) == 242 and round(2 * latent) == 484
# A pair's products and its exponential take about as long at d = 64, in 1e-15 seconds
assert round(1e15 * 4 * 64 / 989e12) == 259 and round(1e15 / 3.9e12) == 256

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Let pairs derive the last row: $nd$ numbers in the keys, $nd$ in the values, 2
# bytes each. A causal mask halves operations and intensity of the first row; plain attention still
# computes its whole matrix.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The roofline
#
# Divide the operations by the time. If computing is slower, the result is the machine's operations
# a second. If carrying is slower, it is (operations / bytes) times its bytes a second. With the
# intensity $I$ it is therefore at most
#
# $$\min(\text{operations a second},\ \; \text{bytes a second} \cdot I).$$
#
# Drawn against $I$ this is a roof with a slope and a flat top (Williams et al., 2009). The two meet
# at the **ridge**, where both times are equal. Left of it memory caps the speed, right of it
# arithmetic.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. By hand: a machine with 300 operations and 1 byte a second has its ridge at 300. At an
# intensity of 1 it reaches 1 of its 300.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two machines
#
# The two speeds of an H100 are NVIDIA's, for numbers of 2 bytes. Those of one core of this machine
# are measured here with a product of matrices and a copy of 64 MiB, for numbers of 4 bytes. (With 4
# bytes all intensities of the table are half as large.)


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
# these can become faster there, for heads of $d = 128$: fused prefill of 2,048 tokens, plain
# prefill, decoding?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes with the vote: for each of the three, twice the operations, or twice the memory
# speed? The vote for decoding surprises: a chat answers at the pace of its memory.

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
line = torch.logspace(-1, 4.4, 200).tolist()
ax.loglog(line, [core.attainable(x) / 1e9 for x in line], color="black")
ax.loglog(line, [h100.attainable(x) / 1e9 for x in line], color="0.5")
for machine, text, color in (
    (core, "this core, 4-byte", "black"),
    (h100, "H100 (NVIDIA), 2-byte", "0.35"),
):
    y = machine.bytes_per_second * 0.17 / 1e9
    ax.text(0.11, y, f"{text} numbers", rotation=25, fontsize=12, color=color)
marks = {"prefill, fused": "o", "prefill, plain": "s", "decoding": "^"}
colors = dict(zip(marks, ("tab:blue", "#D55E00", "0.35"), strict=True))
for name, spots in points.items():
    intensity, speed = zip(*spots, strict=True)
    speed = [s / 1e9 for s in speed]
    ax.loglog(intensity, speed, marks[name], color=colors[name], markersize=10, label=name)
# For d = 128 and numbers of 2 bytes
at_most = {"prefill, fused": 2048 / 2, "prefill, plain": 128 / 2, "decoding": 1}
for name, intensity in at_most.items():
    speed = h100.attainable(intensity) / 1e9
    style = {"mfc": "white", "mew": 2, "color": colors[name], "markersize": 10}
    ax.loglog([intensity], [speed], marks[name], **style)
ax.loglog([], [], "o", mfc="white", color="0.35", mew=2, label="at most, on an H100, d = 128")
# Measured on an H100, in billions a second: see 'Measured on an H100'
ax.loglog([8192 / 3], [786e3], "*", color="black", markersize=13, label="H100, measured: a product")
H100_LAYER = {1024: 0.26, 16_384: 2.52, 65_536: 37.8}  # tokens: ms
for n, ms in H100_LAYER.items():
    work = 8 * n * 1024**2 + 4 * n**2 * 1024  # four projections, scores and averages
    carried = 2 * (12 * n * 1024 + 4 * 1024**2)  # what each step reads and writes, and four weights
    ax.loglog([work / carried], [work / ms / 1e6], "D", color="black", markersize=7)
    where = {"xytext": (0, -18), "textcoords": "offset points", "ha": "center", "fontsize": 12}
    ax.annotate(
        f"{n:,} tokens" if n == 1024 else f"{n:,}", (work / carried, work / ms / 1e6), **where
    )
ax.loglog([], [], "D", color="black", markersize=7, label="H100, measured: a layer")
ax.set(xlabel="intensity: operations a byte", ylabel="billion operations a second")
ax.set_title("Decoding is far left: memory caps it on both machines", fontsize=16)
ax.set_ylim(0.25, 3e6)
ax.legend(loc="lower right", ncols=2, fontsize=12)
plt.show()

best, plain, decoding = (
    max(speed for _, speed in points[name]) / core.flops_per_second for name in marks
)
print("of what this core reaches in a product of matrices, the best of three lengths:")
print(f"fused prefill {best:.0%}, plain prefill {plain:.0%}; decoding {decoding:.0%}")
(intensity, speed) = points["decoding"][0]
print(f"decoding on this core reaches {speed / core.attainable(intensity):.0%} of the roof")
print(f"plain prefill on an H100, d = 128, at most: {64 / h100.ridge:.0%} of its best")
assert core.ridge > 0.5 and decoding < best / 2

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rooflines with logarithmic axes, this core's and far above it an H100's, whose ridge
# lies further right. Filled marks are measured on this core. Fused prefill lies far right near the
# flat top. Plain prefill has an intensity near 16 and lies below the roof. Decoding lies far left,
# below the slope. Hollow marks are what an H100 reaches at most, by NVIDIA's two figures: fused
# prefill on the flat top, plain prefill and decoding on the slope. Black marks were measured on an
# H100, all right of its ridge: a product of matrices just below the flat top, a layer with 16,384
# and 65,536 tokens at half its height, and with 1,024 tokens at a twentieth.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Point at each cloud. The coloured marks were measured on this core, the black ones on
# an H100; the hollow ones are NVIDIA's two figures and a division.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the roofs say
#
# - **Fused prefill** of long texts is far right under both roofs if keys are carried about once, so
#   faster arithmetic can help it. (With heads of 64, faster products alone would help little on an
#   H100 if both overlap: its exponentials, 3.9 trillion a second, already take as long as the
#   products; Shah et al., 2024.)
#   A roof is an upper bound: a whole layer that we measured on an H100 stays far below it with
#   1,024 tokens, and with 16,384 reaches half of its top (*Going further* says why).
# - **Plain prefill** waits for memory on an H100 if its matrices are larger than the fast memory on
#   the chip.
# - **Decoding**: memory caps it on both, if few heads or none share a cache. Fewer caches
#   move it to the right: with $G = 8$ key-value heads for 32, each number of the cache serves four
#   queries, 4 operations a byte. In DeepSeek-V3, in the absorbed form of chapter 11, all 128 heads
#   share one row of 576 numbers. That makes 242, between the H100's ridge by the data sheet, 295,
#   and by the product measured on one, 235. Two queries at once make 484.

# %% [markdown] slideshow={"slide_type": "skip"}
# The 242: for each token of the cache, each of 128 heads does $2 \cdot 576$ operations for the
# score and $2 \cdot 512$ for the value, and 1,152 bytes are carried. On an H100 FlashAttention-2
# reached 35% of the flat top, and FlashAttention-3 up to 85% (Shah et al., 2024).
#
# This is a good place to stop.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. 'Do several sentences at once help?' always comes: the products with the parameters,
# yes; attention, no, because each sentence has its own cache. This is a good place to stop.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The cache, for each token
#
# The matrix is gone. What still grows with the novel is the key-value cache. Llama 2 7B has 7
# billion parameters and Llama 3.1 8B has 8 billion, of 2 bytes each. In Llama 2 7B every token
# keeps a key and a value of 128 numbers in each of 32 heads of 32 layers: $2 \cdot 128 \cdot 32
# \cdot 32$ numbers of 2 bytes, half a MiB. A novel of 100,000 tokens takes 52 GB.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room multiply. The factor that is forgotten is the first 2, keys and values.

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
# is heavier than they are. (The shapes are as published: `d2l_attention/scale/cache_size.py`. Llama
# 2 was trained with 4,096 tokens, so this is what a novel would take, not what it can read.)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Half a MiB for a token of a few letters: ask what a reader of Llama 2 7B weighs beside
# its parameters.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The next token
#
# How long does each further token take, if memory is the limit? Each step of decoding carries the
# parameters once for all $B$ readers, and the cache of each of them:
#
# $$\text{time for the next token} =
# \frac{B \cdot \text{cache} + \text{parameters}}{\text{bytes a second}}$$
#
# With a conversation of 8,192 tokens each, 59 readers of Llama 3.1 8B would fit on one H100 if
# nothing else needed memory. It carries 3,350 GB a second (NVIDIA's figure).
#
# **Predict.** All 59 ask at once. How many times as long does each wait for a token as a single
# reader?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes with the vote. '59 times' and 'the same' are both said.

# %% slideshow={"slide_type": "subslide"}
parameters = 16  # GB: 8 billion, of 2 bytes
for context, readers in ((8192, (1, 4, 16, 59)), (tokens, (1, 2, 4))):
    cache = 2 * 32 * 8 * 128 * 2 * context / 1e9  # GB
    for B in readers:
        ms = (B * cache + parameters) / 3.35
        print(f"{B:2} x {context:7,} tokens: {ms:4.1f} ms, in all {1000 * B / ms:5,.0f} tokens/s")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each waits 4.6 times as long, and the GPU writes 12.7 times as many tokens a second. The
# parameters are carried anyway, so a further reader adds only the time of one more cache.
# With novels two caches outweigh them already: four readers take more than twice the time of one,
# and write 1.7 times as many tokens. These numbers are computed and not measured. (Memory is the
# limit: 59 readers need 1.2 ms of arithmetic for a step of 23.7 ms.)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the numbers of the text, and that arithmetic is not the limit
def next_token(B, context):  # ms, for Llama 3.1 8B
    return (B * shapes["Llama 3.1 8B"].bytes(context) / 1e9 + 16) / 3.35


assert int((80 - 16) * 1e9 / shapes["Llama 3.1 8B"].bytes(8192)) == 59
later, novels = (next_token(B, n) / next_token(1, n) for B, n in ((59, 8192), (4, tokens)))
assert (round(later, 1), round(59 / later, 1)) == (4.6, 12.7)
assert 2 < novels < 2.5 and round(4 / novels, 1) == 1.7
arithmetic = 59 * (2 * 8e9 + 32 * 4 * 4096 * 8192) / 989e12
assert round(1000 * arithmetic, 1) == 1.2 and round(next_token(59, 8192), 1) == 23.7

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask what would make the token come sooner: faster memory, fewer key-value heads, a
# smaller number format.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Arithmetic to spare
#
# While a step carries the parameters, the arithmetic waits. A token needs two operations for each
# parameter, and a parameter has two bytes. So a step with $T$ tokens does $T$ operations per byte,
# and the ridge tells how many tokens can be computed while the parameters are carried. By the data
# sheet these are 295. With the 786 trillion operations a second that we measured for a product of
# matrices they are 235.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws how long a step takes against the number of tokens that it computes
carrying = 16 / 3.35  # ms, for the parameters
a_token = 1000 * 2 * 8e9 / 989e12  # ms, for the products of one token
assert round(carrying / a_token) == 295 and round(8192 * a_token) == 133
as_measured = a_token * 989 / 786
assert round(carrying / as_measured) == 235
figure, ax = plt.subplots(figsize=(10.5, 4.6))
numbers = torch.logspace(0, 4.1, 200).tolist()
ax.loglog(
    numbers,
    [a_token * T for T in numbers],
    "--",
    color="#D55E00",
    label="computing, by the data sheet",
)
measured_line = [as_measured * T for T in numbers]
ax.loglog(numbers, measured_line, ":", color="#D55E00", lw=2, label="computing, as measured")
ax.axhline(carrying, ls="-.", color="0.4", label="carrying the parameters")
steps = [max(carrying, a_token * T) for T in numbers]
ax.loglog(numbers, steps, color="black", lw=3, label="a step")
for T, text, dx, dy in (
    (1, "one reader", 1.0, 2.2),
    (5, "one reader,\n4 guesses", 1.0, 2.2),
    (59, "59 readers", 1.0, 2.2),
    (295, "59 readers and 236\ntokens of a prompt", 1.0, 0.18),
    (8192, "a whole prompt", 0.35, 1.15),
):
    y = max(carrying, a_token * T)
    ax.plot([T], [y], "o", color="tab:blue", markersize=11)
    style = {"ha": "center", "va": "center", "fontsize": 12}
    style["arrowprops"] = {"arrowstyle": "-", "color": "0.5"}
    ax.annotate(text, (T, y), (T * dx, y * dy), **style)
ax.set(xlabel="tokens in one step", ylabel="ms", xlim=(0.5, 2e4), ylim=(0.3, 400))
ax.set_xticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])
ax.set_yticks([1, 10, 100], [1, 10, 100])
ax.minorticks_off()
ax.set_title("Without caches, more than 200 tokens take no longer than one", fontsize=16)
ax.legend(loc="upper left", fontsize=12)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: milliseconds of a step of Llama 3.1 8B on an H100 against the tokens in the step, both
# axes logarithmic, computed from NVIDIA's two speeds. Carrying the parameters is a level line at
# 4.8 ms, computing a rising line; they cross at 295 tokens. A dotted line just above the rising one
# has the measured speed of a product, and crosses at 235. The step takes the larger of both. On
# the level part are one reader, one reader with four guesses, and 59 readers; at the crossing, 59
# readers and 236 tokens of a prompt; far up on the right, a whole prompt of 8,192 tokens, 133 ms.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Ask where a step with two readers lies, and one with 3,000.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three ways to fill a step
#
# - **Continuous batching**: a reader joins at the next step and leaves when the answer is complete,
#   so that the batch stays large (Yu et al., 2022).
# - **Chunked prefill**: a prompt of 8,192 tokens in one step would let all readers wait for 133 ms
#   or more. In pieces it goes along in the steps of decoding (Agrawal et al., 2023). Others give
#   prompts and answers to different GPUs (Zhong et al., 2024).
# - **Speculative decoding**: a small model guesses, say, four tokens, and the large one checks them
#   in one step, which carries parameters and cache once. It keeps the guesses up to the first wrong
#   one, by a rule that leaves the distribution of its answers unchanged (Leviathan et al., 2023).
#   A model may also predict several tokens itself (Gloeckle et al., 2024); DeepSeek-V3 reports 1.8
#   times the tokens a second by this.
#
# By the roof, guesses gain little where no arithmetic is to spare: with 300 readers and short
# caches.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. For each of the three ask which point in the figure it moves, and to where. Then
# ask why guesses gain little for 300 readers with short caches.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Past one machine
#
# When the model does not fit, or training takes too long, several machines share the work.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who holds what in the three ways
COLORS = {"0": "#9ecae1", "1": "#fdae6b", "0 1": "white"}
figure, axes = plt.subplots(2, 3, figsize=(11, 4.2))
rows = [["0"] * 6, ["1"] * 6] * 2
ways = {
    "data parallel": (rows, [["0 1"] * 4] * 4),
    "tensor parallel": ([["0 1"] * 6] * 4, [["0", "0", "1", "1"]] * 4),
    "context parallel": ([["0"] * 3 + ["1"] * 3] * 4, [["0 1"] * 4] * 4),
}
for column, (way, grids) in enumerate(ways.items()):
    for ax, owners in zip(axes[:, column], grids, strict=True):
        for y, line in enumerate(owners):
            for x, owner in enumerate(line):
                style = {"facecolor": COLORS[owner], "edgecolor": "0.4"}
                ax.add_patch(Rectangle((x, y), 1, 1, **style))
                ax.text(x + 0.5, y + 0.5, owner, ha="center", va="center", fontsize=12)
        ax.set(xlim=(0, len(owners[0])), ylim=(len(owners), 0), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    axes[0, column].set_title(way, fontsize=14)
    axes[0, column].set_xlabel("tokens")
    axes[1, column].set_xlabel("heads, hidden units")
axes[0, 0].set_ylabel("the batch:\nsentences")
axes[1, 0].set_ylabel("the model:\nlayers")
figure.suptitle("Cut the sentences, the model, or the tokens", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: six grids whose cells name the ranks that hold them; above the batch, sentences by
# tokens, below the model, layers by heads and hidden units. Data parallel: the sentences belong to
# rank 0 and rank 1 in turn, and the model to both. Tensor parallel: the batch belongs to both, the
# left half of each layer to rank 0, the right half to rank 1. Context parallel: the first half of
# all tokens belongs to rank 0, the second to rank 1, and the model to both.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# All three run below with two processes on this machine, which share no memory and talk through
# `torch.distributed`. Each has a number, its **rank**, and runs the same program. Now and then all
# meet in an **all-reduce**: everyone brings a tensor, and everyone leaves with the sum.

# %% [markdown] slideshow={"slide_type": "skip"}
# `run_processes` starts new processes, calls a function in each, and returns their results.
# (**Pipeline parallel** gives each machine a part of the layers; this chapter leaves it out.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. First ask, without the figure, what two machines could each do; 'half of the layers'
# and 'half of the sentences' come first. Gloo is the library that carries the numbers between CPUs;
# on GPUs it is NCCL.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Data parallel: cut the batch
#
# Each process computes the gradients of its own loss. An all-reduce adds the gradients up, each
# process divides by the number of processes, and all take the same step.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask what has to be added up: as many numbers as there are parameters.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three tokens and one
#
# Rank 0 has three real tokens with losses 1, 1, 1. Rank 1 has one, with loss 5, and the rest is
# padding. Here one parameter $w = 1$ multiplies every loss, so its gradient is the mean loss. Each
# process may divide by its own tokens, or the processes first count their tokens `together`:


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
# The mean of the means is 3: the token of rank 1 counts three times as much as one of rank 0. The
# mean of all four is 2. So each process has to return 2 · (its sum) / (tokens of all).

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask before the run how much the fourth token counts; many say 'as much', and it is
# three times as much. It is a
# bug that no error message reports: training is only a little different with two machines than with
# one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Tensor parallel: cut the heads
#
# Heads do not talk to each other until $W_o$. So rank 0 takes some of the heads and rank 1 the
# rest, and all tokens go to both (Shoeybi et al., 2019). What about $W_o$, which mixes the heads?
# By hand: two heads of one number each answer $h = (2, 3)$ for a token, and $W_o = (10,
# 100)^\top$. One process computes $2 \cdot 10 + 3 \cdot 100 = 320$. If rank 0 has the first head
# and the first row of $W_o$, it gets 20, rank 1 gets 300, and one all-reduce makes 320. In general
#
# $$\text{concat}(h_1, h_2)\, W_o = h_1 W_o^{(1)} + h_2 W_o^{(2)}$$

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the last sentence ask which part of $W_o$ each rank needs. Somebody sends the
# heads' answers and multiplies afterwards: that is right, but then everyone needs all of it.

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
# The two matrices $W_1$ and $W_2$ of the FFN are cut in the same way, with hidden units for heads,
# because the ReLU works unit by unit. So a layer needs two all-reduces in the forward pass, and two
# more in the backward pass, for the gradients of the inputs (section 3 of the paper).

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask why not rows first: then the ReLU, or the softmax, would need the sum, and that
# is one all-reduce more.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Tensor parallel, for real
#
# Every process runs this function. It uses only the columns `mine` of $W_q$, $W_k$ and $W_v$, and
# the rows `mine` of $W_o$:


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
def my_heads():
    torch.manual_seed(0)
    X, W = torch.randn(5, 16), torch.randn(4, 16, 16) / 4  # 5 tokens; W_q, W_k, W_v, W_o
    mine = torch.arange(16).chunk(dist.get_world_size())[dist.get_rank()]  # 16 are 4 heads of 4
    q, k, v = (X @ W[:3][..., mine]).unflatten(-1, (-1, 4)).transpose(1, 2)  # (heads, 5, 4)
    output = plain_attention(q, k, v).transpose(0, 1).flatten(1) @ W[3][mine]  # (5, 16)
    dist.all_reduce(output)
    return output


(whole,), halves = run_processes(my_heads, 1), run_processes(my_heads, 2)
for rank, half in enumerate(halves):
    print(f"rank {rank} of 2 differs from one process by {(half - whole).abs().max():.0e}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the differences are rounding
assert all(torch.allclose(half, whole, atol=1e-5) for half in halves)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The small differences are rounding, because the sums are taken in another order. Each process
# sends no parameters, but the outputs of all tokens.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them find the columns, the rows and the one all-reduce. (PyTorch's layers store a
# matrix as (outputs, inputs), so there the columns of the formula are rows.) The gradients need an
# all-reduce, too; PyTorch's `torch.distributed.tensor.parallel` does both, and the package's tests
# compare it with one process.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Context parallel: cut the sequence
#
# With one novel there is no second sentence to give away. So rank 0 gets the first half of the
# tokens and rank 1 the second. FFNs, norms and projections work token by token. Only attention must
# see all keys. Take the three numbers again: scores $\ln 1, \ln 2, \ln 4$ and values $7, 14, 0$.
# Rank 0 has the first two keys and rank 1 the third. Each attends to its own:
#
# | | sum of $e^a$ | output |
# |---|---|---|
# | keys 1 and 2 | $3$ | $(1 \cdot 7 + 2 \cdot 14) / 3 = \frac{35}3$ |
# | key 3 | $4$ | $0$ |
#
# The mean of the outputs, each weighted by its sum, is $(3 \cdot \frac{35}3 + 4 \cdot 0) / 7 = 5$,
# the answer. This is the online softmax once more, with a whole process for a block.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the package's partial results merge to the same answer
query, values = torch.tensor([[1.0]]), torch.tensor([[7.0], [14.0], [0.0]])
keys = torch.tensor([[1.0], [2.0], [4.0]]).log()
parts = [partial_attention(query, keys[some], values[some]) for some in (slice(0, 2), slice(2, 3))]
merged, log_sum = merge_partial(*zip(*parts, strict=True))
torch.testing.assert_close(merged, torch.tensor([[5.0]]))
torch.testing.assert_close(log_sum.exp(), torch.tensor([7.0]))

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for the answer before the last sentence: the plain mean is what to wait for. The
# same merge speeds up decoding on one GPU, whose cores each take a piece of the cache
# (Flash-Decoding).

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
# are enough.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Four students stand in a square and hand a sheet on. How many hand-overs until each
# has seen all four? Three. The ring can also hide the sending behind the computing.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A ring on one page
#
# Here a list has one stretch for each process, and to hand on is to turn the list. Sums are kept as
# logarithms, because $e^a$ may be infinite.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_ring_attention(queries, keys, values):  # lists with a stretch (*, s, d or V) a process
    queries = [q / math.sqrt(q.shape[-1]) for q in queries]
    outputs = [0.0] * len(queries)  # become (*, s, V)
    log_sums = [torch.full_like(q[..., :1], -math.inf) for q in queries]  # (*, s, 1)
    for _ in queries:  # as many steps as processes
        for rank, q in enumerate(queries):  # in a real ring, all at once
            scores = q @ keys[rank].mT
            both = torch.logaddexp(log_sums[rank], scores.logsumexp(dim=-1, keepdim=True))
            old = outputs[rank] * (log_sums[rank] - both).exp()  # one merge
            outputs[rank] = old + (scores - both).exp() @ values[rank]
            log_sums[rank] = both
        keys, values = keys[-1:] + keys[:-1], values[-1:] + values[:-1]  # hand on
    return outputs


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the ring on the page against plain attention
torch.manual_seed(0)
for processes in (1, 2, 3, 5):
    qkv = torch.randn(3, 2, 13, 7, dtype=torch.float64).unbind()
    found = plain_ring_attention(*(list(X.tensor_split(processes, dim=-2)) for X in qkv))
    torch.testing.assert_close(torch.cat(found, dim=-2), plain_attention(*qkv))

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Find in the code: the factor of the old output, the new term, the hand-over. Ask what
# each process needs to hold: its queries and output, and one stretch of keys and values.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Context parallel, for real
#
# The package's ring sends keys and values between real processes, and their gradients back. Here 13
# tokens with a causal mask are on two processes, seven and six.


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

# %% [markdown] slideshow={"slide_type": "skip"}
# One can also exchange heads for tokens (**Ulysses**, Jacobs et al., 2023). Each process takes over
# $H / P$ of the heads, and the others send it their tokens of these heads (an **all-to-all**).
# After attention the outputs go back in the same way. In the forward pass of multi-head attention
# each process sends $4 \cdot \frac{P - 1}P$ times a stretch, for queries, keys, values and outputs;
# in the ring it is $2 \cdot (P - 1)$ times. With 8 processes the exchange is a quarter of the ring.
# But no more processes than heads can take part.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask who has all tokens after the all-to-all: everyone, of some heads.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Who has more to do?
#
# **Predict.** With a causal mask, which of the two ranks has more attention to compute? How many
# times as much, in a long sequence?

# %% slideshow={"slide_type": "fragment"}
keys_seen = torch.arange(1, 4097)  # query i sees i + 1 keys
one, two, three, four = (quarter.sum() for quarter in keys_seen.tensor_split(4))
print(f"halves: {(three + four) / (one + two):.2f} times", end=", ")
print(f"quarters 2 and 3 against 1 and 4: {(two + three) / (one + four):.2f} times")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rank 1 has three times as much to compute, so rank 0 waits. If rank 0 takes quarters 1 and 4, and
# rank 1 quarters 2 and 3, both have equal work. Llama 3 used such pairs when it was trained on long
# texts (Llama Team, 2024, section 3.3.2).

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let them draw the triangle and cut it in the middle: $\frac18$ against $\frac38$ of
# the square. The course's ring keeps the plain halves, because it is meant to be read.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A softmax can be read in pieces. A new maximum rescales the sum and the undivided output by the
#   same factor $e^{m - m'}$. Tiles give exactly attention, without its matrix. The memory grows
#   like $n$ and the time still like $n^2$.
# - The slower of computing and carrying decides. By the roof, arithmetic caps fused prefill of
#   long texts; memory caps decoding on both machines, if few heads or none share a cache.
# - The next token takes (B · cache + parameters) / bandwidth. A further reader adds the
#   time of one more cache.
# - Data parallel cuts the batch and sends gradients. Tensor parallel cuts heads and sends outputs,
#   and gradients of inputs. Context parallel cuts the sequence and sends keys and values, or heads.
#   Done right, two processes gave the numbers of one, up to rounding.
#
# Next, chapter 11 shows what today's models change in attention so that the cache becomes smaller.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let three students say one line each, with a number.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("10.1")` gives one more hint each time, `solution("10.1")` the whole way. (10.2 is in
# *Going further*.)

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.1** · by hand
#
# A layer has 32 heads of 128 numbers each and reads 16,384 tokens; a number takes 2 bytes. How many
# GiB ($2^{30}$ bytes) do the attention weights of all heads take? How many do queries, keys, values
# and the heads' output take, all heads together? And how many at twice the length? Give two pairs,
# the weights first, such as `[(1, 1), (1, 1)]`: in each pair, 16,384 tokens first.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.3** · complete a function
#
# The scores of Q queries come in tiles, (Q, k) each, one at a time: `for tile in tiles:`. Return
# the maximum (Q,) of each row over all tiles, and the total (Q,) of exp(score - maximum). Read the
# tiles once and keep none of them. Both results are tensors of the tiles' dtype. Scores of 1,000
# must not overflow, nor -1,000 vanish. Masked scores are -inf, maybe a whole tile, maybe all of a
# row: then its total is 0, and its maximum does not matter.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.4** · find the bug
#
# `by_tiles` should give softmax(q · k / √d) v for queries (Q, d), keys (K, d) and values
# (K, V), and look at `block_size` keys at a time: it makes no tensor with the scores of more keys.
# Scores may lie anywhere, from -9,000 to 1,000, and the last tile may be short. Its author tried
# four keys in tiles of two, with scores just below 0, and it was right to six digits. It has three
# bugs. Correct them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.5** · by hand, then complete a function
#
# Two processes have attended to different keys with the same Q queries. Each knows the maximum (Q,)
# of its scores, the total (Q,) of exp(score - maximum), and its output (Q, V), a mean with weights
# that sum to 1. From two such triples make the triple of all keys together. Begin by hand, for one
# query: $(\ln 2, 3, 3)$ and $(\ln 10, 1.6, 14)$. Scores may be 1,000 or -1,000. A part that has
# seen no key is (-inf, 0, 0); two of them give (-inf, 0, 0) again.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.6** · find the bug
#
# Data parallel: `process_loss` runs in each process, with the losses (B, n) of its own sequences,
# one a token, padding behind, and their lengths (B,). Each process takes the gradient of what it
# returns; then the gradients are averaged over the processes. They should be those of the mean over
# all real tokens of all processes. The given code is right only where every process has equally
# many. Correct it. Return one number, a tensor with its gradient.
#
# `all_reduce(x)` gives every process the sum of their x, numbers or tensors of one shape; no
# gradient passes through it, and every process has to call it. A process may have no real token at
# all, but not all of them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.7** · complete a function
#
# What process `rank` of P computes of multi-head self-attention over X (B, n, D). The shares
# (B, n, D) of all processes are then added up (an all-reduce), and the sum is the whole output. The
# W are plain matrices (D, D), as in `X @ W_q`; `b_o` (D,) is added behind `W_o`, there is no other
# bias and no mask. P divides H, and the first head owns the first D / H columns. Process `rank` has
# its D / P columns of `W_q`, `W_k` and `W_v` and its D / P rows of `W_o`, and multiplies by no
# others. Gradients reach X, all matrices and `b_o`, and a share has the dtype of X.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order, except that *When is the network the limit?* needs the
# one before it. Exercise 10.2 follows behind them.
#
# - *Read it yourself*, 2 minutes: a view of the online softmax.
# - *How to lose it again*, 1 minute: what a mask costs the fused kernel.
# - *Measured on an H100*, 5 minutes: how near a layer comes to the roof, and why few tokens do not.
# - *What goes over the wire*, 6 minutes: how much each way of sharing sends.
# - *When is the network the limit?*, 4 minutes: time to send against time to compute.
# - *More machines, and libraries*, 1 minute: one command, and what others add.

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
# ### Measured on an H100
#
# *5 minutes.* A roof is an upper bound, so how near does a real layer come to it? On an H100 a
# product of two matrices of 8,192 by 8,192 numbers, 2 bytes each, reached 786 trillion operations a
# second, 79% of the data sheet's 989. The course's `MultiHeadAttention` is compared with it here,
# 1,024 wide, with 16 heads, on one sequence (stored, PyTorch 2.11.0, 27 November 2026):
#
# | tokens | 1,024 | 2,048 | 4,096 | 8,192 | 16,384 | 32,768 | 65,536 |
# |---|---|---|---|---|---|---|---|
# | forward, ms | 0.26 | 0.38 | 0.34 | 1.11 | 2.52 | 9.41 | 37.8 |
# | share of the product's speed | 6% | 12% | 39% | 39% | 62% | 63% | 61% |
# | forward and backward | 4% | 7% | 25% | 42% | 52% | 52% | 52% |
# | causal, forward | 3% | 9% | 26% | 33% | 57% | 61% | 62% |
# | causal, forward and backward | 2% | 7% | 17% | 31% | 49% | 49% | 51% |
#
# **Question.** A layer with 4,096 tokens has eight times the operations of one with 1,024, and
# takes 0.34 ms where that takes 0.26. What fills the 0.26 ms?

# %% [markdown] slideshow={"slide_type": "skip"}
# `python -m tests.benchmarks.gpu` makes this table; it was made with 2-byte numbers (bfloat16) and
# CUDA 13.0 on one NVIDIA H100 80GB HBM3. The operations of the four projections count as well, and
# with a causal mask only the pairs that are seen.

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
    print(
        "There is no CUDA GPU in this machine, so nothing is measured: the table is a stored one."
    )
else:
    settings = {"device": device, "dtype": torch.bfloat16}
    big = torch.randn(8192, 8192, **settings)
    speed = 2 * 8192**3 / milliseconds_on_gpu(lambda: big @ big)  # operations a millisecond
    name = torch.cuda.get_device_name(device)
    print(f"{name}, PyTorch {torch.__version__}: a product {speed / 1e9:.0f} TFLOP/s")
    layer = MultiHeadAttention(1024, 16, 0.0)
    layer(*[torch.zeros(1, 1, 1024)] * 3)  # makes the parameters
    layer.to(**settings)
    for n in (1024, 4096, 16_384):
        X = torch.randn(1, n, 1024, **settings)
        with torch.no_grad():
            took = milliseconds_on_gpu(lambda X=X: layer(X, X, X))
        work = 8 * n * 1024**2 + 4 * n**2 * 1024
        print(f"{n:6,} tokens: forward {took:.2f} ms, {work / took / speed:.0%} of the product's")

# %% [markdown] slideshow={"slide_type": "subslide"}
# At the product's speed, the 12.9 billion operations of 1,024 tokens take 0.016 ms, and carrying
# their numbers takes 0.010 ms. So for most of the 0.26 ms the GPU has nothing to do. It waits for
# the CPU, where Python and PyTorch start one kernel after another, some two dozen forward and
# backward, and each start takes longer than the work. A layer with hardly any work shows this: for
# two sentences of ten tokens, 100 wide, written by hand and with lengths, forward and backward took
# 1.6 ms on the GPU, no less than the 1.2 ms for 1,024 tokens. One thread of a CPU needed 0.24 ms.
#
# If that is the cause, the time must fall once the starts are gone. In a CUDA graph the kernels are
# recorded once and then started by the GPU itself. On one H200 the forward pass for 1,024 tokens
# took 0.35 ms without such a graph and 0.04 ms with it, and for 16,384 tokens 2.8 and 2.6 ms.

# %% [markdown] slideshow={"slide_type": "fragment"}
# For the same reason this course's models gain nothing from such a GPU: 300 training steps of its
# Transformer took 9 s on the H100 and 10 s on the CPU beside it.

# %% [markdown] slideshow={"slide_type": "skip"}
# With 16,384 tokens the work is 96 times as much. The product's speed would need 1.6 ms for it,
# long enough to start the next kernel while one is still at work. Why did it take 2.5 ms instead?
# The attention's exponentials, at most 3.9 trillion per second, add 1.1 ms if they do not overlap
# with the products, which makes 2.7 in all. The measured time is near that. (We did not measure the
# two apart.)

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
print("checked: the table's shares follow from its milliseconds")

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Take votes: 'products', 'memory', 'something else'. Do the division with the room:
# 12.9 billion by 786 trillion a second. Who says 'memory' has 34 million bytes by 3.35 trillion.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What goes over the wire
#
# *6 minutes.* How much does each of $P$ processes send? First the all-reduce of $N$ numbers, in a
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
# 728 MiB, because its FFN has three matrices of 4,096 by 14,336. The all-to-all of Ulysses sends
# 448 MiB for multi-head attention, forward and back.

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
assert 2 * 2 * 4 * (7 / 8) * B * n * D / 8 / MIB == 448  # forward and back, of 2 bytes

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
# Gradients of 2 bytes at the measured speed and at 40% of the peak, and of 4 bytes at the peak
assert round(786 / 989 * between[0], 2) == 0.84
assert (round(0.4 * between[0], 1), round(2 * between[0], 1)) == (0.4, 2.1)

# %% [markdown] slideshow={"slide_type": "fragment"}
# At the published speed all three are above 1 between servers and below 1 within one. Below 1 the
# sending *may* hide behind the computing: gradients can travel while earlier layers are still at
# work. Data parallel's 1.1 depends on that speed. It becomes 0.84 if the GPUs reach the 786
# trillion operations a second that we measured for a product, 0.4 at 40% of the peak (Llama 3
# reached 38 to 43%), and 2.1 at the peak with gradients of 4 bytes.

# %% [markdown] slideshow={"slide_type": "skip"}
# In tensor parallel the next step needs the sum. A part
# of it hides all the same if the all-reduce is split into a reduce-scatter and an all-gather, which
# run piece by piece with the products beside them (PyTorch's async tensor parallel).

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
# ### More machines, and libraries
#
# *1 minute.* One command starts two processes, shares the work in the three ways, and compares with
# one process: `python -m d2l_attention.scale.parallel`. `torchrun` starts the same program on
# several machines; nobody has run it on more than one here.
#
# On GPUs NCCL carries the numbers in gloo's place. **Sharded data parallel** (PyTorch's FSDP2,
# DeepSpeed's ZeRO) also spreads parameters, gradients and the optimiser's state (Rajbhandari et
# al., 2020). NVIDIA adds kernels (**cuDNN**), layers with 8-bit and 4-bit formats (**Transformer
# Engine**) and heads cut as above (**Megatron-LM**). Of these libraries none ran here.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Open a terminal and enter the command: it takes some ten seconds.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **10.2** · predict, then compare
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

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - M. Milakov, N. Gimelshein, *Online normalizer calculation for softmax*, 2018, arXiv:1805.02867.
#   Algorithm 3.
# - T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, *FlashAttention: Fast and Memory-Efficient Exact
#   Attention with IO-Awareness*, NeurIPS 2022, arXiv:2205.14135. Figure 1: the
#   memories of an A100.
# - T. Dao, *FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning*,
#   ICLR 2024, arXiv:2307.08691. Section 3.1: one division, one number for the backward pass.
# - J. Shah et al., *FlashAttention-3: Fast and Accurate Attention with Asynchrony and
#   Low-precision*, NeurIPS 2024, arXiv:2407.08608. Abstract as published there: 35%, and 840
#   TFLOP/s or 85%, of an H100 (the preprint's says 75%). Section 3: 3.9 trillion exponentials a
#   second.
# - T. Dao, D. Haziza, F. Massa, G. Sizov, *Flash-Decoding for long-context inference*, PyTorch
#   blog, 2023.
# - S. Williams, A. Waterman, D. Patterson, *Roofline: An Insightful Visual Performance Model for
#   Multicore Architectures*, Communications of the ACM 52(4), 2009, doi:10.1145/1498765.1498785.
# - NVIDIA, *H100 Tensor Core GPU*, data sheet, SXM: 1,979 teraFLOPS in BFLOAT16 with sparsity,
#   half of it without; 3.35 TB/s of memory bandwidth; NVLink 900 GB/s.
# - DeepSeek-AI, *DeepSeek-V3 Technical Report*, 2024, arXiv:2412.19437. Section 4.2: 128 heads,
#   latents of 512 and 64 numbers; 5.4.3: 1.8 times the tokens a second.
# - G.-I. Yu et al., *Orca: A Distributed Serving System for Transformer-Based Generative Models*,
#   OSDI 2022. Continuous batching.
# - A. Agrawal et al., *SARATHI: Efficient LLM Inference by Piggybacking Decodes with Chunked
#   Prefills*, 2023, arXiv:2308.16369.
# - Y. Zhong et al., *DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large
#   Language Model Serving*, OSDI 2024, arXiv:2401.09670.
# - Y. Leviathan, M. Kalman, Y. Matias, *Fast Inference from Transformers via Speculative Decoding*,
#   ICML 2023, arXiv:2211.17192.
# - F. Gloeckle et al., *Better & Faster Large Language Models via Multi-token Prediction*, ICML
#   2024, arXiv:2404.19737.
# - M. Shoeybi et al., *Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
#   Parallelism*, 2019, arXiv:1909.08053. Section 3, figure 4.
# - S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, *ZeRO: Memory Optimizations Toward Training
#   Trillion Parameter Models*, SC 2020, arXiv:1910.02054.
# - H. Liu, M. Zaharia, P. Abbeel, *Ring Attention with Blockwise Transformers for Near-Infinite
#   Context*, 2023, arXiv:2310.01889.
# - S. A. Jacobs et al., *DeepSpeed Ulysses: System Optimizations for Enabling Training of Extreme
#   Long Sequence Transformer Models*, 2023, arXiv:2309.14509.
# - H. He et al., *Introducing Async Tensor Parallelism in PyTorch*, discuss.pytorch.org, 2024.
# - P. Patarasuk, X. Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*,
#   Journal of Parallel and Distributed Computing 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.
# - H. Touvron et al., *LLaMA*, 2023, arXiv:2302.13971, table 2; *Llama 2*, 2023, arXiv:2307.09288,
#   section 2.2.
# - Llama Team, *The Llama 3 Herd of Models*, 2024, arXiv:2407.21783. Table 3; sections 3.3.1
#   (network) and 3.3.2 (context parallel; table 4: share of the peak).
# - PyTorch's documentation: `torchrun`, `torch.distributed.tensor.parallel`,
#   `torch.distributed.fsdp.fully_shard`. Documentation of DeepSpeed (ZeRO), NVIDIA's cuDNN Frontend
#   (*Attention*), Transformer Engine and Megatron Core.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 11.3,
#   13.5 (data parallel) and 13.7 (the ring). [d2l.ai](https://d2l.ai)
