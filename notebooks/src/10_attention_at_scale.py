# %% [markdown] slideshow={"slide_type": "slide"}
# # 10 · Attention at scale
#
# **You will**
# - compute a softmax from pieces, by hand, and with it attention without its matrix;
# - place attention on the roofline of your own machine, and see what reading and writing cost;
# - share one layer between two real processes in three ways, get the same numbers as from one, and
#   work out when the network is the limit.
#
# Core path: 75 minutes. Exercises: 72.
#
# Builds on chapters 6, 8 and 9. The book is *Dive into Deep Learning* (D2L): its attention chapter,
# 11, ends before this; its chapter 13 has data parallel training and the ring. The operation is
# that of section 11.3.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
import multiprocessing
import os
import re
import time
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist
import torch.nn.functional as F

from d2l_attention import (
    MultiHeadAttention,
    PositionWiseFFN,
    TransformerEncoderBlock,
    causal_mask,
    check_shape,
    dot_product_attention,
    show_source,
)
from d2l_attention.scale.cache_size import PUBLISHED, cache_bytes
from d2l_attention.scale.online_softmax import (
    merge_partial,
    online_softmax,
    partial_attention,
    row_of_tiles,
    running_sums,
    tiled_attention,
)
from d2l_attention.scale.parallel import (
    Check,
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
from d2l_attention.scale.roofline import attention_work, fastest, measure_roofline
from d2l_attention.views.plots import set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A novel at once
#
# You paste a whole novel into a chat and ask who the murderer is. A novel is about 100,000 tokens.
# In each head of each layer every token asks every token. Chapter 9 counted 40 GB of weights for
# *one* head.
#
# **Predict.** Llama 3.1 8B has 32 heads in each of 32 layers. How much would all of them take?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the bytes of all weights for a novel
tokens = 100_000
one_head = tokens**2 * 4
print(f"one head: {tokens:,}² weights of 4 bytes, {one_head / 1e9:.0f} GB")
print(f"32 · 32 heads: {32 * 32 * one_head / 1e12:.0f} TB")
assert one_head == 40e9 and round(32 * 32 * one_head / 1e12) == 41

# %% [markdown] slideshow={"slide_type": "fragment"}
# Training keeps all of them, and no machine holds that. One layer at a time is 1.3 TB, and one head
# is more than most laptops hold. Yet this model reads 128,000 tokens (Llama Team, 2024). It
# computes the softmax that you computed in chapter 3, and leaves nothing out. How?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Fifteen seconds. Do the product on the board: $10^5 \cdot 10^5 \cdot 4$ for a head, times 1,024.
# Chapter 9 changed the question and let tokens see less. This chapter leaves the result as it is
# and changes how it is computed. In the hall the chapter takes about 115 minutes. For two lectures
# stop after *The cache, for each token* (an hour); *Past one machine* is the second.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Measure the memory
#
# `run_processes(f, 1)` starts one new Python and calls `f` there: a process remembers the most
# memory that it ever held, so each measurement takes a fresh one.
#
# We measure one head, whose queries, keys and values have $d = 64$ numbers each. **Plain**
# attention writes scores and weights down. **Fused** is what our layers have called since chapter
# 3.
#
# **Predict.** Twice the tokens: how much more memory for each?


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines how the memory and the time of a new process are measured
def peak_mib():
    """The most memory that this process has ever held."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) / 2**10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


def costs(kind, steps):
    """Rows (tokens, MiB above the start, ms of CPU time), one for each (tokens, backward)."""

    def attend(*qkv):
        if kind == "plain":
            return dot_product_attention(*qkv, need_weights=True)[0]
        if kind == "tiles":
            return tiled_attention(*qkv, block_size=256)
        if kind == "mask":
            return dot_product_attention(*qkv, mask=causal_mask(qkv[0].shape[-2]))
        return dot_product_attention(*qkv)

    def milliseconds(n, backward):
        qkv = torch.randn(3, 1, 1, n, 64, requires_grad=backward)
        started = time.process_time()
        output = attend(*qkv)
        if backward:
            output.sum().backward()
        return 1000 * (time.process_time() - started)

    milliseconds(64, backward=True)  # wakes what sleeps
    start, rows = peak_mib(), []
    # Each takes more memory than the one before, so the peak is always that of the last one.
    for n, backward in steps:
        took = min(milliseconds(n, backward) for _ in range(1 if backward else 2))
        rows.append((n, peak_mib() - start, took))
    return rows


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures the memory of plain and fused attention at four lengths
sizes = [1024, 2048, 4096, 8192]
forward, both_ways = [(n, False) for n in sizes], (sizes[-1], True)
measured = {
    kind: run_processes(costs, 1, kind=kind, steps=[*forward, both_ways])[0]
    for kind in ("plain", "fused")
}
both_ways = {kind: rows.pop() for kind, rows in measured.items()}
print(f"{'tokens':>6}{'plain':>13}{'(n, n) matrices':>18}{'fused':>12}")
for (n, plain, _), (_, fused, _) in zip(*measured.values(), strict=True):
    print(f"{n:6,}{plain:9.1f} MiB{plain / (n * n * 4 / 2**20):18.1f}{fused:8.1f} MiB")

plain, fused = ([mib for _, mib, _ in rows] for rows in measured.values())
assert fused[3] / fused[1] < 8 < plain[3] / plain[1]  # four times the tokens
assert plain[3] > 10 * fused[3]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Plain: about four times, for two to three $(n, n)$ matrices exist at once (middle column). Fused:
# about twice, give or take a MiB or two. It never has a matrix.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute. 'Four times' comes at once for plain attention. For the fused one the room says
# 'four times, but less'. The middle column divides by one $(n, n)$ matrix of floats: scores, what
# the softmax makes of them, weights. Run it live if there is time: two seconds a process.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that plain and fused attention give the same output
torch.manual_seed(0)
qkv = torch.randn(3, 1, 1, 500, 64)
by_matrix, weights = dot_product_attention(*qkv, need_weights=True)
check_shape(weights, (1, 1, 500, 500))
torch.testing.assert_close(dot_product_attention(*qkv), by_matrix)
print("checked: the same output with and without a matrix, 500 tokens")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The softmax wants the whole row
#
# $$\alpha_i = \frac{e^{s_i - m}}{\sum_j e^{s_j - m}}, \qquad m = \max_j s_j$$
#
# Both $m$ and the sum need *all* scores of a row. So a row has to be written down, and read three
# times: for the maximum, for the sum, for the weights.
#
# **Predict.** Could you leave $m$ out, since it cancels? Scores 100, 101 and 103.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the softmax of large scores without and with the maximum
scores = torch.tensor([100.0, 101.0, 103.0])
print("e to the scores", scores.exp().tolist())
print("divided by their sum", (scores.exp() / scores.exp().sum()).tolist())
print("softmax", [round(x, 3) for x in scores.softmax(dim=0).tolist()])
assert scores.exp().isinf().all() and scores.softmax(dim=0).isfinite().all()

# %% [markdown] slideshow={"slide_type": "fragment"}
# On paper it cancels. In 32 bits $e^{100}$ is infinite, and infinity over infinity is no number.
#
# If only we could begin before we know $m$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One score at a time
#
# Scores $\ln 1$, $\ln 2$ and $\ln 4$, so that $e^{s}$ is 1, 2 and 4. The weights must come out as
# $\frac17$, $\frac27$, $\frac47$.
#
# Read one score after the other. Keep two numbers: the largest so far, $m$, and the sum
# **relative to it**, $\ell = \sum e^{s_j - m}$.
#
# After $\ln 1$: $\;m = \ln 1$, $\ell = 1$. Now comes $\ln 2$, and it is larger.
#
# **Predict.** What is the old 1 worth, relative to the new maximum?

# %% [markdown] slideshow={"slide_type": "fragment"}
# Half: $\;e^{\ln 1 - \ln 2} = \frac12$. So $\ell = 1 \cdot \frac12 + 1 = \frac32$, and
# $m = \ln 2$.
#
# **Predict.** Now $\ln 4$. What are $m$ and $\ell$?

# %% [markdown] slideshow={"slide_type": "fragment"}
# $m = \ln 4$. All that was summed halves again: $\ell = \frac32 \cdot \frac12 + 1 = \frac74$.
# Check: $(1 + 2 + 4) / 4 = \frac74$.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# On the board, one column for $m$, one for $\ell$. Half a minute for each question. The mistake to
# wait for: somebody halves the new 1, too. Ask what $e^{s - m}$ is for the maximum itself: always
# 1. The third key has weight $1 / \ell = \frac47$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Why may one factor mend a whole sum? Because every term was measured from the same $m$:
#
# $$\sum_j e^{s_j - m'} = \sum_j e^{s_j - m} \, e^{m - m'} = \ell \cdot e^{m - m'}$$
#
# That is all. A new score $s$ makes
#
# $$m' = \max(m, s), \qquad \ell' = \ell \cdot e^{m - m'} + e^{s - m'} .$$
#
# **Predict.** What happens if $s$ is smaller than $m$?

# %% [markdown] slideshow={"slide_type": "fragment"}
# The factor is $e^0 = 1$: nothing is rescaled, a little is added. Milakov and Gimelshein (2018)
# call it the **online** softmax. Instead of one score it may read a block at a time.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Runs the package's online sums on the three scores, and compares with the board
scores = torch.tensor([1.0, 2.0, 4.0]).log()
expected = [(1, 1.0), (2, 1.5), (4, 1.75)]
steps = zip(running_sums(scores, block_size=1), expected, strict=True)
for read, ((maximum, total), (by_hand_m, by_hand_l)) in enumerate(steps, 1):
    print(f"{read} read: m = ln {maximum.exp().item():.0f}, ℓ = {total.item():.2f}")
    torch.testing.assert_close(maximum, torch.tensor([math.log(by_hand_m)]))
    torch.testing.assert_close(total, torch.tensor([by_hand_l]))

# %% slideshow={"slide_type": "skip"}
show_source(running_sums)

# %% [markdown] slideshow={"slide_type": "skip"}
# Equal to the softmax? On many sizes, in blocks that do and do not divide them, with scores of
# $\pm 10{,}000$ and with hidden keys:

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the online softmax against PyTorch's softmax
torch.manual_seed(0)
compared = 0
for n in (1, 2, 7, 64, 101):
    for block_size in (1, 3, 8, 200):
        for size in (1, 100, 10_000):
            scores = size * torch.randn(5, n, dtype=torch.float64)
            scores[:, 1::3] = -math.inf
            torch.testing.assert_close(online_softmax(scores, block_size), scores.softmax(dim=-1))
            compared += 1
print(f"checked: {compared} of {compared} shapes, blocks and sizes of scores equal the softmax")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The output goes along
#
# A weight is not final until the last score is read. So the average cannot be formed yet? It can:
# keep the **undivided** output $o = \sum_j e^{s_j - m} v_j$, and rescale it by the same factor.
#
# Values 7, 14 and 0.
#
# | read | $m$ | factor | $\ell$ | $o$ |
# |---|---|---|---|---|
# | 1 | $\ln 1$ | | $1$ | $7$ |
# | 2 | $\ln 2$ | $\frac12$ | $\frac32$ | $\frac72 + 14 = \frac{35}2$ |
# | 3 | $\ln 4$ | $\frac12$ | $\frac74$ | ? |
#
# **Predict.** The last $o$? And the answer, $o / \ell$?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the answer in tiles of one key, and at once
query, values = torch.tensor([[1.0]]), torch.tensor([[7.0], [14.0], [0.0]])
keys = torch.tensor([[1.0], [2.0], [4.0]]).log()  # query . key = score
answer = tiled_attention(query, keys, values, block_size=1)
print(f"o = 35/4 + 0 = 35/4,   o / ℓ = 35/4 : 7/4 = {answer.item():.1f}")
print(f"at once: (1 · 7 + 2 · 14 + 4 · 0) / 7 = {(7 + 28) / 7:.1f}")
torch.testing.assert_close(answer, torch.tensor([[5.0]]))

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute in pairs. Some divide after each step, and then have to undo it: let them say why one
# division at the end is enough. Two numbers and one output a query were kept, $m$, $\ell$ and $o$,
# and no row.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Read it yourself
#
# **Question.** One query reads twelve keys, a block at a time. In which order of the keys does no
# old number ever shrink? Take `rescale` away: in which orders is the last output wrong?

# %% [markdown] slideshow={"slide_type": "skip"}
# Left: the scores, those of the newest block dark, those not read yet hollow; a line at the running
# maximum. Middle: what each key that was read counts now, $e^{s - m}$. Right: the output
# $o / \ell$ after each block, and the true one.

# %% slideshow={"slide_type": "skip"}
view_scores = torch.tensor([0.5, -0.4, 1.3, 0.1, 2.0, 0.8, -1.0, 2.6, 1.6, 3.1, 0.3, 2.2])
view_values = torch.tensor([3.0, 9.0, 1.0, 6.0, 8.0, 2.0, 7.0, 4.0, 9.0, 5.0, 1.0, 8.0])
ORDERS = {
    "mixed": torch.arange(12),
    "rising": view_scores.argsort(),
    "falling": view_scores.argsort(descending=True),
}


def read_in_blocks(scores, values, block, rescale=True):
    """After each block: keys read, m, what each key read counts, and the output o / l."""
    counts, maximum, steps = torch.zeros(0), torch.tensor(-math.inf), []
    for start in range(0, len(scores), block):
        new = scores[start : start + block]
        larger = torch.maximum(maximum, new.max())
        factor = (maximum - larger).exp() if rescale else 1.0
        counts, maximum = torch.cat([counts * factor, (new - larger).exp()]), larger
        output = counts @ values[: len(counts)] / counts.sum()
        steps.append((len(counts), maximum, counts, output.item()))
    return steps


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines how the reading is drawn: scores, what each key counts, and the output
def show_reading(figure, order="mixed", block=2, keys_read=6, rescale=True):
    row, share, out = figure.subplots(1, 3, width_ratios=[1, 1, 1])
    scores, values = view_scores[ORDERS[order]], view_values[ORDERS[order]]
    steps = read_in_blocks(scores[:keys_read], values, block, rescale)
    read, maximum, counts, output = steps[-1]
    newest = steps[-2][0] if len(steps) > 1 else 0
    orange, places = "#D55E00", range(1, 13)
    colors = ["tab:blue" if i < newest else "#08306b" for i in range(read)]
    row.bar(places, scores, color=colors + ["white"] * (12 - read), edgecolor="0.5")
    row.axhline(maximum, color=orange)
    row.set(xlabel="key", ylim=(-1.3, 3.6), xticks=[1, 6, 12], title=f"scores, m = {maximum:.1f}")
    share.bar(places[:read], counts, color=colors)
    share.set(xlabel="key", xlim=(0.2, 12.8), ylim=(0, 1.1), xticks=[1, 6, 12], yticks=[0, 1])
    share.set_title(f"counts now, ℓ = {counts.sum():.2f}")
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
# **For the lecturer.**
# Begin with 'rising', block 1, and step: the bars in the middle shrink with each step and their
# last one is always 1. Then 'falling'. Then untick 'rescale' and let the room say which orders go
# wrong before you show them.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### When the maximum stays
#
# Falling: the first score is the largest, so $m$ never moves, and nothing is lost without
# rescaling. The same goes for every order with the largest score in its first block. In the other
# two orders here $m$ moves, and old keys then count too much.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the last output in three orders, with and without rescaling
for name, order in ORDERS.items():
    scores, values = view_scores[order], view_values[order]
    truth = (scores.softmax(dim=0) @ values).item()
    ends = [read_in_blocks(scores, values, 1, rescale)[-1][3] for rescale in (True, False)]
    print(f"{name:8} true {truth:.2f}   rescaled {ends[0]:.2f}   never rescaled {ends[1]:.2f}")
    assert abs(ends[0] - truth) < 1e-5 and (abs(ends[1] - truth) < 1e-5) == (name == "falling")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Tiles
#
# Many queries, many keys: cut both into blocks. A **tile** is a block of queries against a block of
# keys. One tile of scores exists at a time; each query keeps its $m$, $\ell$ and $o$ from tile to
# tile.
#
# **Predict.** A causal sequence, cut into 8 blocks: of the 64 tiles, how many are never computed?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute. $8 \cdot 7 / 2 = 28$. Ask then what the eight tiles on the diagonal need: a mask.
# All others need none. With more blocks the share never computed goes to one half, which is what
# causal attention saves.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the 64 tiles of a causal sequence in eight blocks
figure, ax = plt.subplots(figsize=(9, 5.6))
looks = {
    "done and forgotten": {"facecolor": "#6baed6"},
    "in memory now": {"facecolor": "#08306b"},
    "to come": {"facecolor": "white"},
    "future: never computed": {"facecolor": "0.93", "hatch": "//"},
}
state, counted = "done and forgotten", dict.fromkeys(looks, 0)
for row in range(8):
    for column in range(8):
        if (row, column) == (5, 3):
            state = "in memory now"
        name = "future: never computed" if column > row else state
        counted[name] += 1
        ax.add_patch(plt.Rectangle((column, row), 0.94, 0.94, edgecolor="0.5", **looks[name]))
        if column == row:  # half of it is future
            ax.plot([column, column + 0.94], [row, row + 0.94], color="0.3", linewidth=1)
        state = "to come" if state == "in memory now" else state
numbers = [i + 0.47 for i in range(8)]
ax.set(xlim=(0, 8), ylim=(8, 0), xlabel="block of keys", ylabel="block of queries", aspect="equal")
ax.set_xticks(numbers, range(1, 9))
ax.set_yticks(numbers, range(1, 9))
legend = [plt.Rectangle((0, 0), 1, 1, edgecolor="0.5", label=n, **looks[n]) for n in looks]
ax.legend(handles=legend, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
ax.set_title("One tile exists, 28 of 64 never will")
plt.show()
assert counted == dict(zip(looks, (18, 1, 17, 28), strict=True))

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a grid of eight by eight tiles. The 28 above the diagonal are hatched: future. Those of
# the first five rows and three of the sixth are light blue: done and forgotten. The next one is
# dark: it is in memory now. The others are white: to come. A line halves those on the diagonal.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A row of tiles
#
# As the package runs it: the derivation line by line, with a block for a score.
#
# ```python
# larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
# rescale, weights = (maximum - larger).exp(), (scores - larger).exp()
# output = output * rescale + weights @ values[..., tile, :].to(wide)
# total = total * rescale + weights.sum(dim=-1, keepdim=True)
# maximum = larger
# ```
#
# (`.to(wide)`: the package sums half precision in 32 bits.)

# %% slideshow={"slide_type": "skip"}
show_source(row_of_tiles)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Equal to the fused kernel, and in the gradients, too? In tiles of 5, 64 and 200, causal and not:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Checks tiles against the fused kernel, outputs and gradients
torch.manual_seed(0)
compared = 0
for is_causal in (False, True):
    for block_size in (5, 64, 200):
        qkv = torch.randn(3, 2, 3, 101, 8, dtype=torch.float64).unbind()
        results = []
        for attend in (dot_product_attention, tiled_attention):
            inputs = [X.clone().requires_grad_() for X in qkv]
            options = {"block_size": block_size} if attend is tiled_attention else {}
            output = attend(*inputs, is_causal=is_causal, **options)
            check_shape(output, (2, 3, 101, 8))
            output.square().sum().backward()
            results.append([output, *(X.grad for X in inputs)])
        for fused, tiled in zip(*results, strict=True):
            torch.testing.assert_close(tiled, fused, atol=1e-10, rtol=1e-10)
            compared += 1
print(f"checked: {compared} of {compared} equal, outputs and gradients of queries, keys and values")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One kernel does it all
#
# Our tiles are Python: each line is a call, and each result goes to memory and comes back.
# **FlashAttention** (Dao et al., 2022) runs the whole loop in *one* kernel, a program that the
# processor runs without returning to Python. A tile is made, used and forgotten in the small fast
# memory beside the arithmetic. (Rabe and Staats, 2021, had attention in pieces before. The loop of
# 2022 has the keys outside. Ours has the queries outside and divides once, as FlashAttention-2
# does: Dao, 2023.)
#
# PyTorch's `F.scaled_dot_product_attention` chooses among kernels, and has such a one for this CPU,
# too. It is what our layers call. (With dropout it builds the weights; our layers then take a few
# queries at a time, chapter 3.)
#
# **Predict.** Memory grows like $n$. Does the time, too?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The sentence 'FlashAttention makes attention linear' is in many heads. Let them vote on the time
# before the picture: linear or quadratic? Whoever says linear shall say which multiplication was
# left out. Then: why is it faster than plain attention at all, with the same multiplications? That
# is the section after next. The small memory: 192 KB for each of the 108 multiprocessors of an
# A100, some ten times as fast as the large one (Dao et al., 2022, section 2.1).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### No matrix, but all pairs

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Draws the memory and the time of plain, tiled and fused attention
measured["tiles"] = run_processes(costs, 1, kind="tiles", steps=forward)[0]
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2))
styles = {"plain": ("s--", "#D55E00"), "tiles": ("^-.", "0.4"), "fused": ("o-", "tab:blue")}
for kind, (style, color) in styles.items():
    n, mib, ms = zip(*measured[kind], strict=True)
    left.loglog(n, mib, style, color=color, label=kind)
    right.loglog(n, ms, style, color=color, label=kind)
left.set(ylabel="MiB above the start", title="Memory: from n² to n")
right.set(ylabel="ms of CPU time", title="Time: still n², but less of it")
left.set_yticks([1, 10, 100, 1000], [1, 10, 100, 1000])
right.set_yticks([1, 10, 100, 1000], [1, 10, 100, 1000])
for ax in (left, right):
    ax.set(xlabel="tokens")
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
    ax.legend()
plt.show()

mib = {kind: [row[1] for row in rows] for kind, rows in measured.items()}
ms = {kind: [row[2] for row in rows] for kind, rows in measured.items()}
print(f"8,192 tokens against 2,048: memory {mib['fused'][3] / mib['fused'][1]:.1f} times,", end=" ")
print(f"time {ms['fused'][3] / ms['fused'][1]:.1f} times (fused)")
assert mib["fused"][3] < mib["plain"][3] / 10 and mib["tiles"][3] < mib["plain"][3] / 10
assert mib["fused"][3] / mib["fused"][1] < 8 and ms["fused"][3] / ms["fused"][1] > 8
assert ms["fused"][3] < ms["plain"][3]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels with logarithmic axes, 1,024 to 8,192 tokens. In the run shown: the memory of
# plain attention rises steeply to more than 500 MiB, tiles and fused stay together and end near 12
# MiB. Time: three nearly parallel lines, all steep; the fused kernel is the lowest, then the tiles
# in Python, then plain attention.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# No. Every pair still takes its multiplications: four times the tokens, about sixteen times the
# time. A fused kernel makes the novel *possible*. It does not make it cheap. (Chapter 9's windows
# do.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The way back
#
# **Predict.** The gradient needs the weights again. Where does a kernel that never kept them get
# them from?

# %% [markdown] slideshow={"slide_type": "fragment"}
# It computes them again, tile by tile. For that it keeps one number for each query (Dao, 2023; the
# first version kept both $m$ and $\ell$): $\ln \sum_j e^{s_j} = m + \ln \ell$. Then
# $e^{s - (m + \ln \ell)}$ *is* the weight, and no maximum has to be found. That is more arithmetic
# and less memory than in plain attention, and it takes less time, too:

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Prints memory and time of both ways
print("8,192 tokens, forward and backward")
for kind, (_, peak, took) in both_ways.items():
    print(f"{kind}: {peak:4.0f} MiB, {took:5.0f} ms")
assert both_ways["plain"][1] > 5 * both_ways["fused"][1]
assert both_ways["plain"][2] > both_ways["fused"][2]

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that one number for each query gives all weights again
torch.manual_seed(0)
queries, keys, values = torch.randn(3, 7, 4)
_, weights = dot_product_attention(queries, keys, values, need_weights=True)
_, log_sum = partial_attention(queries, keys, values)
torch.testing.assert_close((queries @ keys.T / 2 - log_sum[:, None]).exp(), weights)
print("checked: scores and one number for each query give all weights again, 7 queries by 7 keys")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How to lose it again
#
# **Predict.** The same kernel, causal: once with `is_causal=True`, once with a boolean mask of
# shape $(n, n)$. What does the mask weigh for the novel? And which is faster?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures what a causal mask costs, in memory and in time
mask = causal_mask(2048)
weight = mask.nbytes / 2048**2 * tokens**2  # a byte a pair
print(f"the mask of {tokens:,} tokens: {weight / 1e9:.0f} GB")
qkv = torch.randn(3, 1, 1, 2048, 64)
took = {
    name: fastest(partial(dot_product_attention, *qkv, **options), seconds=0.4)
    for name, options in {"is_causal": {"is_causal": True}, "mask": {"mask": mask}}.items()
}
print("2,048 tokens:", *(f"{name} {1000 * seconds:.1f} ms" for name, seconds in took.items()))
with_mask = run_processes(costs, 1, kind="mask", steps=[(4096, False)])[0][0][1]
floats = 4096**2 * 4 / 2**20
print(f"4,096 tokens, memory: mask {with_mask:.0f} MiB (a 4-byte matrix: {floats:.0f} MiB)")
assert weight == 10e9 and took["mask"] > 1.2 * took["is_causal"]
assert with_mask > floats and 4 * weight == 40e9
torch.testing.assert_close(
    dot_product_attention(*qkv, mask=mask), dot_product_attention(*qkv, is_causal=True)
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A mask is a matrix, too, and PyTorch makes 4-byte numbers of its booleans first: 40 GB more. For
# the future the kernel needs none: it knows which tiles those are, and skips them. Asking for
# `attention_weights` builds a matrix as well: ask on a sentence, not on a novel.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Fifteen seconds for the weight: a byte a pair, so a quarter of one head's 40 GB. For the
# time expect 'the same, the mask says the same'. The result is the same; but the mask is read for
# every pair, and no tile is skipped.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where the time goes
#
# A machine does two things: it calculates, and it carries numbers between memory and arithmetic.
# Whichever takes longer is the limit.
#
# **Intensity** is operations (multiplications and additions) for each byte carried. By hand, with 4
# bytes a number:
#
# | | operations | bytes | intensity |
# |---|---|---|---|
# | sum of two vectors of size $n$ | $n$ | $12\,n$ | $\frac1{12}$ |
# | product of two $(n, n)$ matrices | $2n^3$ | $12\,n^2$ | $\frac n6$ |
#
# The sum uses each number once. The product uses each number $n$ times.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Reading and writing
#
# A prompt of $n$ tokens is **read** with the fused kernel: each key is used by $n$ queries. Then a
# word is **written**: one query against $n$ cached keys. (The field says *prefill* and *decoding*.)
#
# **Predict.** What is the intensity of each? Does it grow with $n$?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the intensity of reading and of writing at three lengths
for n in (1024, 4096, 16_384):
    reading = attention_work(n, n, 64).intensity
    writing = attention_work(1, n, 64).intensity
    print(f"{n:6,} tokens: reading {reading:5.0f} operations a byte, writing {writing:.1f}")
    assert reading == n / 4 and abs(writing - 0.5) < 1e-3
    assert 0.5 < attention_work(n, n, 64, is_causal=True).intensity / reading < 0.501

# %% [markdown] slideshow={"slide_type": "fragment"}
# Reading: at most $n/4$, reached if each number is carried only once. (Causal: about half of that.)
# Writing: one half, whatever $n$ is. Each number of the cache is carried in for one multiplication
# and one addition, and is not needed again until the next word.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute in pairs for the second question; the first is hard to count in the head, so take
# 'grows with $n$' as right. $4n^2d$ operations, $4nd$ numbers of 4 bytes. For writing: $4nd$
# operations, $2nd$ numbers. A question that may come: do several sentences at once help? Not here:
# each has a cache of its own. They help the weights of the layer, which are shared.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that writing for 32 sentences at once has the same intensity
one, many = (attention_work(1, 4096, 64, batch_size=size).intensity for size in (1, 32))
assert one == many
print(f"checked: writing, attention only: {one:.2f} for one sentence, {many:.2f} for 32 at once")
print("(the weights of the layer, which the 32 share, are not counted)")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The roofline
#
# Two speeds describe a machine: operations a second, $\pi$, and bytes a second, $\beta$. At an
# intensity $I$ it reaches at most
#
# $$\min(\pi,\; \beta \cdot I).$$
#
# Drawn against $I$ that is a roof, with a slope and a flat top: the **roofline** (Williams et al.,
# 2009). The ridge is at $I = \pi / \beta$. Measure both speeds, here, now, on one core:

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures the two speeds of this machine
roof = measure_roofline(seconds=0.6)
print(f"{roof.flops_per_second / 1e9:4.0f} billion operations a second (product of matrices)")
print(f"{roof.bytes_per_second / 1e9:4.0f} billion bytes a second (copy of 64 MiB)")
print(f"ridge: {roof.ridge:.0f} operations a byte")
assert roof.ridge > 1

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** On which side of the ridge is reading? And writing?

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Measures reading and writing, and draws them under the roof
points = {}  # name -> [(intensity, operations a second)]
with torch.no_grad():
    for name, fused in (("reading, fused", True), ("reading, plain", False)):
        for n in (512, 1024, 2048):
            qkv = torch.randn(3, 1, 8, n, 64)
            work = attention_work(n, n, 64, num_heads=8, fused=fused)
            options = {} if fused else {"need_weights": True}
            seconds = fastest(partial(dot_product_attention, *qkv, **options), seconds=0.1)
            points.setdefault(name, []).append((work.intensity, work.flops / seconds))
    writing = {}
    for groups in (32, 8, 1):
        query, (keys, values) = torch.randn(1, 32, 1, 64), torch.randn(2, 1, groups, 8192, 64)
        work = attention_work(1, 8192, 64, num_heads=32, num_kv_heads=groups)
        decode = partial(F.scaled_dot_product_attention, query, keys, values, enable_gqa=True)
        writing[groups] = fastest(decode, seconds=0.1)
        points.setdefault("writing, 32 heads", []).append(
            (work.intensity, work.flops / writing[groups])
        )

figure, ax = plt.subplots(figsize=(9.5, 4.8))
line = torch.logspace(-1, 3.2, 200)
ax.loglog(line, [roof.attainable(x) / 1e9 for x in line.tolist()], color="black")
marks = {"reading, fused": "o", "reading, plain": "s", "writing, 32 heads": "^"}
for (name, spots), color in zip(points.items(), ("tab:blue", "#D55E00", "0.35"), strict=True):
    intensity, speed = zip(*spots, strict=True)
    ax.loglog(
        intensity, [s / 1e9 for s in speed], marks[name], color=color, markersize=10, label=name
    )
for groups, (intensity, speed) in zip(writing, points["writing, 32 heads"], strict=True):
    text = f"{groups} group{'s' * (groups > 1)}"
    ax.annotate(text, (intensity, speed / 1e9), (4, -20), textcoords="offset points")
ax.set(xlabel="intensity: operations a byte", ylabel="billion operations a second")
ax.set_title("Fused reading is near the flat top, writing far below it")
ax.legend(loc="lower right")
plt.show()

best = max(speed for _, speed in points["reading, fused"])
slowest = points["writing, 32 heads"][0][1]
print(f"reading, fused: {best / roof.flops_per_second:.0%} of this core's best,", end=" ")
print(f"writing: {slowest / roof.flops_per_second:.0%}")
assert best > 0.3 * roof.flops_per_second and slowest < best / 4
assert writing[32] > 1.2 * writing[1]
assert points["writing, 32 heads"][-1][1] < best / 2
assert all(14 < intensity < 16 for intensity, _ in points["reading, plain"])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a roofline with logarithmic axes: a slope on the left, a flat top on the right. Reading
# with the fused kernel lies far right, near the top. In the run shown, reading with plain attention
# lies right of the ridge and well below the roof. Writing lies far left under the slope; with
# 8 groups and with 1 it moves right and up.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask for each cloud: would a processor with twice the operations a second help? Memory twice as
# fast? The vote for writing surprises: more arithmetic changes nothing. That is why a chat answers
# word by word at the pace of its memory. Plain attention lies below the roof, too: the softmax
# costs time that the formula does not count.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the roof says
#
# - **Reading, fused**: near the flat top. On this core there is little left to gain but fewer
#   multiplications.
# - **Reading, plain**: the matrix passes through memory four times, $16\,n^2$ bytes for $4\,n^2 d$
#   operations. So the intensity is about $d/4 = 16$, whatever $n$ is. In the run shown that is
#   right of the ridge. On an H100 the ridge is at $989 / 3.35 \approx 295$, and plain attention
#   waits for memory.
# - **Writing**: far left, in the run shown at a few per cent of what the core can do. It waits for
#   its cache.
# - **Fewer groups** (chapter 9) carry less for the same work, so they move right, and up while
#   memory is the limit. In the run shown, 1 group is past the ridge and yet far below the roof:
#   something that the roof does not count is the limit there.
#
# A roof says what is impossible. It does not promise: exponentials, for one, are not counted.

# %% [markdown] slideshow={"slide_type": "skip"}
# (On other machines there is more to gain: of the flat top of an H100 FlashAttention-2 reaches 35%,
# FlashAttention-3 75%; Shah et al., 2024.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The cache, for each token
#
# The matrix is gone. What still grows with the novel is the key-value cache. Chapter 9 counted it
# for Llama 2 7B: half a MiB a token, so 52 GB for a novel. Groups and a window made it smaller.
#
# **Predict.** The model itself is 7 billion numbers of 2 bytes. Which is heavier, the model or the
# novel? A GPU has 80 GB: for how many readers of novels at once? And with Llama 3.1 8B, 8 billion
# numbers and a quarter of the groups?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes how many readers of novels fit beside the model
shapes, readers = {shape.name: shape for shape in PUBLISHED}, []
for name, billions in (("Llama 2 7B", 7), ("Llama 3.1 8B", 8)):
    model, novel = 2 * billions, shapes[name].bytes(tokens) / 1e9
    readers.append(int((80 - model) / novel))
    print(f"{name:12}  model {model} GB, novel {novel:2.0f} GB:", end=" ")
    print(f"({80} - {model}) / {novel:.0f}, so {readers[-1]} at once")
assert readers == [1, 4] and shapes["Llama 2 7B"].bytes(1) == 2**19
assert shapes["Llama 2 7B"].num_kv_heads == 4 * shapes["Llama 3.1 8B"].num_kv_heads

# %% [markdown] slideshow={"slide_type": "fragment"}
# The novel: 52 GB against 14 GB. Each reader brings a cache; the model is there once for all.

# %% [markdown] slideshow={"slide_type": "skip"}
# (Shapes as published; where from stands in `d2l_attention/cache_size.py`. Llama 2 was not made to
# read 100,000 tokens. The count says what it would take.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute with paper. Two vectors a token, 32 layers, 32 heads of 128, 2 bytes: half a mebibyte for
# a token that was a few letters. The factor that is forgotten is the first 2: keys and values. Most
# vote for the model.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The next word
#
# **Predict.** Llama 2 7B has read the novel. Its GPU carries 3.35 terabytes a second (NVIDIA, H100
# data sheet). How long does each further word take *at least*?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes how long the cache takes to be carried, without and with the model
cache = cache_bytes(num_layers=32, num_kv_heads=32, head_size=128, num_tokens=tokens)
for carried in (cache, cache + 14e9):
    print(f"{carried / 1e9:.0f} GB / 3,350 GB a second = {1000 * carried / 3.35e12:.0f} ms a word")
assert round(1000 * cache / 3.35e12) == 16 and round(1000 * (cache + 14e9) / 3.35e12) == 20

# %% [markdown] slideshow={"slide_type": "fragment"}
# The first line is the cache alone. The 14 GB of the model have to be carried as well: 66 GB, 20
# ms.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# They need the roofline: one half operation a byte, so only the bytes count. Whoever forgets the
# model says 16 ms. Ask what groups would do to the first line: a quarter.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Past one machine
#
# Some day it does not fit, or takes too long. Then several machines share.
#
# **Question.** You have two machines and one Transformer. What could each of them do?

# %% [markdown] slideshow={"slide_type": "fragment"}
# | too much of | cut | name | each process holds |
# |---|---|---|---|
# | sentences | the batch | **data parallel** | the whole model, some sentences |
# | parameters | heads, hidden units | **tensor parallel** | a part of each layer, all tokens |
# | tokens | the sequence | **context parallel** | the whole model, a stretch of each sentence |
#
# All three run below, for real: two processes on this machine, which share no memory and talk
# through `torch.distributed`. The numbers must be those of one process.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute in pairs, before the table. 'Half of the sentences each' comes first. 'Half of the
# layers each' comes, too: that is pipeline parallel, which this chapter leaves out; the second
# machine waits for the first unless several batches are under way.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Everyone leaves with the sum
#
# A group of processes counts off: **rank** 0, rank 1. Each runs the *same* program. Now and then
# all meet in a **collective**. The commonest is the **all-reduce**: everyone brings a tensor, and
# everyone leaves with the sum.
#
# **Predict.** Rank 0 brings 1, rank 1 brings 2. What does each have afterwards?


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Runs an all-reduce on two processes
def bring():
    number = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(number)
    return f"rank {dist.get_rank()} of {dist.get_world_size()} has {number.item():.0f}"


answers = run_processes(bring, 2)
print(*answers, sep="\n")
assert answers == ["rank 0 of 2 has 3", "rank 1 of 2 has 3"]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both have 3. `run_processes` starts the group, calls the function in each process, and returns
# their results. **Gloo** is the library with which PyTorch carries numbers between CPUs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Data parallel: cut the batch
#
# Each process has the whole model and half of the sentences. It computes the gradients of its own
# loss; an all-reduce adds them up and each divides by the number of processes; all take the same
# step.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines how the pictures of who holds what are drawn
COLORS = {"0": "#9ecae1", "1": "#fdae6b", "0 1": "white"}


def draw_holdings(title, finding, data, model):
    """Who holds what: two grids of cells, each labelled with the ranks that have it."""
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.6), width_ratios=[1.5, 1])
    labels = [("tokens", "sentences", "the batch"), ("heads, hidden units", "layers", "the model")]
    for ax, owners, (xlabel, ylabel, name) in zip(axes, (data, model), labels, strict=True):
        for row, line in enumerate(owners):
            for column, owner in enumerate(line):
                style = {"facecolor": COLORS[owner], "edgecolor": "0.4"}
                ax.add_patch(plt.Rectangle((column, row), 1, 1, **style))
                ax.text(column + 0.5, row + 0.5, owner, ha="center", va="center", fontsize=13)
        ax.set(xlim=(0, len(owners[0])), ylim=(len(owners), 0), xticks=[], yticks=[])
        ax.set(xlabel=xlabel, ylabel=ylabel, title=name)
        ax.spines[:].set_visible(False)
    figure.suptitle(f"{title}: {finding}", fontsize=16)
    plt.show()


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws who holds what in data parallel
draw_holdings(
    "Data parallel",
    "sentences are cut, the model is there twice",
    [["0"] * 6, ["1"] * 6, ["0"] * 6, ["1"] * 6],
    [["0 1"] * 4] * 4,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids whose cells name the ranks that hold them. The batch, sentences by tokens: rows
# belong to rank 0 and rank 1 in turn. The model, layers by heads: every cell belongs to both.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A mean of means
#
# Rank 0 has three real tokens with losses 1, 1, 1. Rank 1 has one, with loss 5; the rest
# is padding.
#
# **Predict.** Each takes the mean of its own, then the two are averaged. Is that the mean over all
# four tokens?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the mean of the means and the mean of all
first, second = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([5.0])
of_means, of_all = (first.mean() + second.mean()) / 2, torch.cat([first, second]).mean()
print(f"mean of the means {of_means:.0f}, mean of all {of_all:.0f}")
shared = [2 * part.sum() / 4 for part in (first, second)]  # P times the sum, over all tokens
print("each divides by the tokens of all:")
print(f"2 · 3/4 = {shared[0]:.1f} and 2 · 5/4 = {shared[1]:.1f}, their mean: {sum(shared) / 2:.0f}")
assert (of_means, of_all, sum(shared) / 2) == (3, 2, 2)

# %% [markdown] slideshow={"slide_type": "fragment"}
# No: 3 against 2. The lonely token would count three times as much. So all count their tokens
# together first (one more all-reduce). Each divides its sum by that count, and multiplies by 2, the
# number of processes, since the average will divide by it.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute. Most say yes. It is a bug that no error message reports: the training is only a
# little different with two machines than with one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Data parallel, for real
#
# A Transformer block, five sentences of unequal lengths. Three go to rank 0, two to rank 1. Hugging
# Face's library **Accelerate** wraps the model, so that `backward` also averages the gradients over
# the processes.
#
# **Predict.** By how much may loss and gradients differ from one process?


# %% slideshow={"slide_type": "skip"}
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


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares loss and gradients of two processes with those of one
block, X, targets, lens = small_task()
real = torch.arange(7) < lens[:, None]
loss = squared_error(block(X, lens), targets)[real].mean()  # one process, all sentences
loss.backward()
gradients = {name: parameter.grad for name, parameter in block.named_parameters()}

for rank, (shared_loss, shared_gradients) in enumerate(run_processes(in_two, 2)):
    apart = largest_difference(shared_gradients, gradients)
    print(f"rank {rank}: loss {shared_loss:.4f}, one process {loss:.4f};", end=" ")
    print(f"{len(gradients)} gradients, apart by {apart:.0e}")
    assert abs(shared_loss - loss) < 1e-5 and apart < 1e-5
checks = [Check("data parallel, Transformer block", abs(shared_loss - loss).item(), apart)]

# %% [markdown] slideshow={"slide_type": "fragment"}
# By rounding alone: sums in another order.

# %% slideshow={"slide_type": "skip"}
show_source(data_parallel_gradients)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Tensor parallel: cut the heads
#
# Heads do not talk to each other until $W_o$. So give rank 0 some of the heads and rank 1 the rest
# (Shoeybi et al., 2019). All tokens go to both.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws who holds what in tensor parallel
draw_holdings(
    "Tensor parallel",
    "each layer is cut, the batch is there twice",
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
# It mixes the heads. By hand: two heads of one number each answer $h = (2, 3)$ for a
# token, and $W_o = (10, 100)^\top$. One process says $2 \cdot 10 + 3 \cdot 100$.
#
# **Predict.** Rank 0 has the head that says 2, rank 1 the one that says 3. Which part of $W_o$ does
# each need, what can each compute alone, and what is sent?

# %% [markdown] slideshow={"slide_type": "fragment"}
# The row of its own head: 20 on rank 0, 300 on rank 1. The sum is 320: one all-reduce.
#
# $$\text{concat}(h_1, h_2)\, W_o = h_1 W_o^{(1)} + h_2 W_o^{(2)}$$
#
# $W_q$, $W_k$ and $W_v$ are cut by their outputs, $W_o$ by its inputs. In between nothing is sent.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the shares of the heads add up
torch.manual_seed(0)
h, W_o = torch.randn(3, 4), torch.randn(4, 2)  # three tokens, two heads of two numbers
torch.testing.assert_close(h @ W_o, h[:, :2] @ W_o[:2] + h[:, 2:] @ W_o[2:])
assert 2 * 10 + 3 * 100 == 20 + 300 == 320
print("checked: heads side by side times W_o is the sum of the shares of the heads, 3 tokens")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute in pairs. Somebody sends the heads' answers and multiplies afterwards: right, but then
# everyone needs all of $W_o$. The FFN (chapter 8) works alike: hidden units for heads, and the ReLU
# between is unit by unit.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Tensor parallel, for real
#
# Four heads on two processes, and the FFN (chapter 8) with them. The cutting and the all-reduces
# are PyTorch's, `torch.distributed.tensor.parallel`.


# %% slideshow={"slide_type": "skip"}
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


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares outputs and gradients of two processes with those of one
attention, ffn, X = layers_and_tokens()
whole = run_through(attention, ffn, X)
gradients = dict([*attention.named_parameters(), *ffn.named_parameters()])
gradients = {name: parameter.grad for name, parameter in gradients.items()} | {"X": X.grad}

print(f"one process: 4 heads, W_q {tuple(attention.W_q.weight.shape)}", end=", ")
print(f"W_o {tuple(attention.W_o.weight.shape)} (outputs, inputs)")
for rank, half in enumerate(run_processes(half_of_the_heads, 2)):
    apart = (half["output"] - whole).abs().max().item()
    apart_back = largest_difference(half["gradients"], gradients)
    print(f"rank {rank}: {half['heads']} heads, W_q {half['W_q']}, W_o {half['W_o']};", end=" ")
    print(f"output apart by {apart:.0e}, gradients by {apart_back:.0e}")
    assert (half["heads"], half["W_q"], half["W_o"]) == (2, (8, 16), (16, 8))
    assert apart < 1e-5 and apart_back < 1e-5
checks.append(Check("tensor parallel, heads and FFN", apart, apart_back))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Half of the parameters on each, and none of them is sent. Forward there are two all-reduces, one
# after the heads and one after the FFN; back, more: the gradient of the inputs.

# %% slideshow={"slide_type": "skip"}
show_source(split_heads_over)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Context parallel: cut the sequence
#
# One novel: there is no second sentence to give away. So rank 0 gets the first half of the tokens
# and rank 1 the second. FFNs, norms and projections work token by token; only attention must see it
# all.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws who holds what in context parallel
draw_holdings(
    "Context parallel",
    "each sentence is cut, the model is there twice",
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
# A query must hear them, too. The three numbers again: scores $\ln 1, \ln 2, \ln 4$,
# values $7, 14, 0$. Rank 0 has the first two keys, rank 1 the third. Each attends to its own:
#
# | | sum of $e^s$ | output |
# |---|---|---|
# | keys 1 and 2 | $3$ | $(1 \cdot 7 + 2 \cdot 14) / 3 = \frac{35}3$ |
# | key 3 | $4$ | $0$ |
#
# **Predict.** How do you get 5 from these four numbers?

# %% [markdown] slideshow={"slide_type": "fragment"}
# An average of the outputs, weighted by the sums: $(3 \cdot \frac{35}3 + 4 \cdot 0) / (3 + 4) = 5$.
# It is the online softmax with a whole process for a block.

# %% slideshow={"slide_type": "skip"}
query, values = torch.tensor([[1.0]]), torch.tensor([[7.0], [14.0], [0.0]])
keys = torch.tensor([[1.0], [2.0], [4.0]]).log()
parts = [partial_attention(query, keys[some], values[some]) for some in (slice(0, 2), slice(2, 3))]
for output, log_sum in parts:
    print(f"sum {log_sum.exp().item():.0f}, output {output.item():.2f}")
merged, log_sum = merge_partial(*zip(*parts, strict=True))
print(f"together: sum {log_sum.exp().item():.0f}, output {merged.item():.2f}")
torch.testing.assert_close(merged, torch.tensor([[5.0]]))

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute. The plain mean of $\frac{35}3$ and 0 is the answer to wait for; ask which part has the
# heavier keys. In the package the sums are kept as logarithms, since $e^s$ may be infinite.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The ring
#
# With many processes the keys and values go round a **ring** (Liu et al., 2023): attend to the
# stretch that is here, hand it to the next, take the one that comes. After $P - 1$ hand-overs, so
# at step $P$, everyone has heard everyone, and nobody ever held more than a stretch or two.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the four steps of the ring
figure, axes = plt.subplots(1, 4, figsize=(11, 3.3))
corners = {0: (0, 1), 1: (1, 1), 2: (1, 0), 3: (0, 0)}
for step, ax in enumerate(axes):
    for rank, (x, y) in corners.items():
        owner = (rank - step) % 4
        color = ("#9ecae1", "#fdae6b", "#a1d99b", "#dadaeb")[owner]  # the keys', not the place's
        ax.add_patch(plt.Circle((x, y), 0.3, facecolor=color, edgecolor="0.3"))
        ax.text(x, y, f"Q{rank}\nK{owner}", ha="center", va="center", fontsize=13)
        if step < 3:
            following = corners[(rank + 1) % 4]
            dx, dy = following[0] - x, following[1] - y
            start, end = (x + 0.33 * dx, y + 0.33 * dy), (x + 0.67 * dx, y + 0.67 * dy)
            ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "linewidth": 2})
    ax.set(xlim=(-0.4, 1.4), ylim=(-0.4, 1.4), aspect="equal", title=f"step {step + 1}")
    ax.axis("off")
figure.suptitle("Queries stay, keys and values go round", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four processes in a square, four times, each in the colour of the keys that it has. In
# step 1 these are its own, Q0 K0 to Q3 K3. Arrows hand the keys on, clockwise, and the colours go
# with them. In step 4 each has met the keys of all four; the queries have not moved.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Four students stand in a square and hand a sheet on. How many hand-overs until each has seen all
# four? Three.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that in the ring all meet the keys of all
met = {rank: {(rank - step) % 4 for step in range(4)} for rank in range(4)}
assert all(owners == {0, 1, 2, 3} for owners in met.values())
print("checked: after 4 steps each of the 4 processes has met the keys of all 4")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Context parallel, for real
#
# 13 tokens, causal, on two processes, 7 and 6.


# %% slideshow={"slide_type": "skip"}
def one_novel():
    torch.manual_seed(0)
    return torch.randn(4, 2, 3, 13, 5).unbind()  # queries, keys, values, gradient of the output


def send():
    """Bytes a second in an all-reduce of 16 MiB: of two, each sends as many as it has."""
    numbers, seconds = torch.ones(4 * 2**20), []
    for _ in range(5):
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(numbers)
        seconds.append(time.perf_counter() - started)
    return numbers.nbytes / min(seconds)


def my_stretch():
    *qkv, grad = one_novel()
    mine = [share_sequence(X).clone().requires_grad_() for X in qkv]
    output = ring_attention(*mine, is_causal=True)
    output.backward(share_sequence(grad))
    return [output.detach(), *(X.grad for X in mine)], send()  # the speed is for later


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares output and gradients of two processes with those of one
*qkv, grad = one_novel()
qkv = [X.clone().requires_grad_() for X in qkv]
output = dot_product_attention(*qkv, is_causal=True)
output.backward(grad)
whole = [output, *(X.grad for X in qkv)]

stretches, sent_a_second = zip(*run_processes(my_stretch, 2), strict=True)
apart = []
print("tokens:", *(f"rank {rank} has {s[0].shape[-2]}" for rank, s in enumerate(stretches)))
for name, parts, expected in zip(
    ("output", "gradient of queries", "gradient of keys", "gradient of values"),
    zip(*stretches, strict=True),
    whole,
    strict=True,
):
    apart.append((torch.cat(parts, dim=-2) - expected).abs().max().item())
    print(f"{name:20} apart by {apart[-1]:.0e}")
assert max(apart) < 1e-5
checks.append(Check("context parallel, causal", apart[0], max(apart[1:])))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Causal: who has more to do, rank 0 or rank 1? How much more, in a long sequence?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the pairs of query and key of both processes
pairs = torch.arange(1, 4097)  # query i sees i keys
halves = pairs.tensor_split(2)
quarters = pairs.tensor_split(4)
fair = [(quarters[0].sum() + quarters[3].sum()), (quarters[1].sum() + quarters[2].sum())]
print(f"rank 1 has {halves[1].sum() / halves[0].sum():.2f} times the pairs of rank 0")
print(f"with quarters 1 and 4 for rank 0, 2 and 3 for rank 1: {fair[1] / fair[0]:.2f} times")
assert 2.9 < halves[1].sum() / halves[0].sum() < 3 and fair[0] == fair[1]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Three times, so rank 0 waits. An early and a late stretch for each are fair. Llama 3 was trained
# with such pairs. Instead of a ring it gathers all keys and values first, which grouped keys make
# cheap (Llama Team, 2024, section 3.3.2).

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute; let them draw the triangle and cut it in the middle. $\frac18$ against $\frac38$ of
# the square. Ours keeps the plain halves, for it is meant to be read.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What goes over the wire
#
# First the all-reduce of $N$ numbers over $P$ processes, in a ring. $P - 1$ steps, each with $1/P$
# of the numbers, until each process has one part of the sum; as many again until all have all parts
# (Patarasuk and Yuan, 2009):
#
# $$2\,\frac{P - 1}P\,N \quad\text{sent by each}$$
#
# **Predict.** From 8 processes to 800: how much more does each have to send?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes what each process sends in an all-reduce
for size in (2, 8, 800):
    print(f"{size:3} processes: each sends {all_reduce(1, size):.3f} times its numbers")
assert all_reduce(1, 2) == 1 and all_reduce(1, 8) == 1.75 and all_reduce(1, 800) < 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 1.75 times to just under twice. (But it takes more steps, and each step has a delay.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One layer, one training step
#
# The shape is Llama 2 7B's: $D = 4096$, sentences of 4,096 tokens. 8 processes, 8 sentences, 2
# bytes a number. A layer has about $12 D^2$ parameters: 4 in attention, 8 in the FFN. $T$ counts
# the tokens of all sentences; here $T = 8 D$.
#
# | | what is sent | sent by each, $P = 8$ |
# |---|---|---|
# | data | all-reduce of the $12 D^2$ gradients | $\frac74 \cdot 12 D^2 = 21 D^2$ |
# | tensor | outputs of attention and FFN, forward and back | $4 \cdot \frac74\, T D = 7\, T D$ |
# | context | keys and values round the ring; back: again, and their gradients | $5.5\, T D$ |
# | | **and** data's all-reduce | $21 D^2$ |
#
# **Predict.** Which sends most?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute: with $T = 8D$ all rows can be compared in the head, 21, 56, 44 and 21. Tensor
# parallel sends activations, for all tokens, four times.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Sent by each of eight

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Computes what each of eight processes sends for one layer
llama = LayerShape(num_hiddens=4096, num_tokens=4096, batch_size=8)
sent = bytes_per_layer(llama, num_processes=8)
for way, count in sent.items():
    print(f"{way:27} {count / 2**20:6,.0f} MiB from each process")
both = sent["context"] + sent["data"]
print(f"{'context with its gradients':27} {both / 2**20:6,.0f} MiB")
assert sent["data"] < sent["context"] < sent["tensor"] < both == 2080 * 2**20
T, D = 8 * 4096, 4096
assert sent == {"data": 2 * 21 * D**2, "tensor": 2 * 7 * T * D, "context": 2 * 5.5 * T * D}
assert T == 8 * D

parameters = 4 * 4096**2 + 3 * 4096 * 11_008  # as published: attention, and three matrices
print(f"(12 D² = {12 * 4096**2 / 1e6:.0f} million; Llama 2 7B has {parameters / 1e6:.0f})")
assert abs(12 * 4096**2 / parameters - 1) < 0.01

# %% [markdown] slideshow={"slide_type": "fragment"}
# Tensor parallel sends no parameters. It sends the outputs of every token, four times a layer, and
# with 32,768 tokens that outweighs the gradients. But context parallel has the whole model on each
# process, so it has to average the gradients as well: 1,408 + 672 = 2,080 MiB in all. (That is
# multi-head attention. With 8 groups for 32 heads the ring sends a quarter, 352 MiB.) Below,
# 'context' is the ring without the gradients.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### When is the network the limit?
#
# When it takes longer to send than to compute. Eight GPUs, connected in one of three ways. At its
# published best, 989 trillion operations a second (NVIDIA, H100 data sheet: 16-bit, dense), each
# computes 5.8 ms for this layer. In 5.8 ms, 450 GB/s carries 2.6 GB and 400 Gbit/s 0.29 GB.
#
# **Predict.** Each sends 672, 1,792 or 1,408 MiB: which of the nine cells are above 1?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the time to send against the time to compute for three networks
networks = {
    "office cable, 1 Gbit/s": 0.125e9,
    "between servers, 400 Gbit/s": 50e9,
    "within a server, 450 GB/s": 450e9,
}
ratios = {}
print(f"{'time to send / to compute':30}{'data':>8}{'tensor':>9}{'context':>9}")
for name, speed in networks.items():
    times = layer_times(llama, 8, flops_per_second=989e12, bytes_per_second=speed)
    ratios[name] = [t.moving / t.computing for t in times.values()]
    print(f"{name:30}{ratios[name][0]:8.1f}{ratios[name][1]:9.1f}{ratios[name][2]:9.1f}")
office, servers, server = ratios.values()
assert min(office) > 500 and min(servers) > 1 and max(server) < 1
computing = times["data"].computing
assert round(1000 * computing, 1) == 5.8 and round(450 * computing, 1) == 2.6
assert round(50 * computing, 2) == 0.29 and round(server[1], 1) == 0.7
assert [round(row[0] + row[2], 1) for row in (server, servers)] == [0.8, 7.5]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Within a server all three are below 1. (Context with its gradients: 0.8, between servers 7.5.)
# Below 1 the sending *may* hide behind the computing. Gradients can travel while earlier layers are
# still at work, and keys while a stretch is attended to (ours wait). Tensor parallel is worse off:
# the next step needs the sum, so most of its 0.7 comes on top. Between servers none is below 1,
# with one sentence for each GPU. Over the cable in your office the GPUs would wait.

# %% [markdown] slideshow={"slide_type": "skip"}
# (Within a server: NVLink of an H100, 900 GB/s in both directions together, so 450 each way;
# NVIDIA, H100 data sheet. Between servers: 400 Gbit/s for each GPU, as in the cluster on which
# Llama 3 was trained; Llama Team, 2024, section 3.3.1. All are upper limits. Nothing in this table
# was measured here, and no real step reaches them. For tensor parallel the count is Megatron's.
# Ours, through `torch.distributed`, sends more on the way back: the gradient of the inputs once for
# each of $W_q$, $W_k$ and $W_v$.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Take votes for the row of 400 Gbit/s; 'tensor is slow, data is fine' is what most have read. It is
# right for larger batches: that is the next question.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### More tokens for each GPU
#
# **Predict.** Between servers. Give each GPU more tokens. Which of the three gets better? Does it
# matter whether you take longer sentences, or more of them?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute in pairs: what does each formula contain, $T$ or $D^2$? The rule of thumb follows: tensor
# parallel within a server, data parallel between servers, context parallel for long sequences.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws how more or longer sentences change the time to send against the time to compute
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True)
more = [1, 2, 4, 8, 16, 32]
cases = {
    "more sentences": [LayerShape(4096, 4096, 8 * k) for k in more],
    "longer sentences": [LayerShape(4096, 4096 * k, 8) for k in more],
}
curves = {}
for ax, (case, shapes) in zip(axes, cases.items(), strict=True):
    speeds = {"flops_per_second": 989e12, "bytes_per_second": 50e9}
    rows = [layer_times(shape, 8, **speeds) for shape in shapes]
    styles = {"data": ("o-", "tab:blue"), "tensor": ("s--", "#D55E00"), "context": ("^-.", "0.4")}
    for way, (style, color) in styles.items():
        curves[case, way] = [row[way].moving / row[way].computing for row in rows]
        label = "context, without gradients" if way == "context" else way
        ax.loglog([4 * k for k in more], curves[case, way], style, color=color, label=label)
    ax.axhline(1, color="black", linewidth=1)
    ax.set(xlabel="thousand tokens for each GPU", title=case)
    ax.set_xticks([4 * k for k in more], [4 * k for k in more])
    ax.minorticks_off()
axes[0].set_ylabel("time to send / to compute")
axes[0].legend(loc="lower left")
axes[0].text(128, 1.15, "above 1 the network is the limit", ha="right", fontsize=12)
figure.suptitle("More sentences help data parallel, longer ones help all", fontsize=16)
plt.show()

first, last = 0, -1
assert curves["more sentences", "data"][last] < 0.1 < 1 < curves["more sentences", "data"][first]
for way in ("tensor", "context"):
    same = curves["more sentences", way]
    assert abs(same[first] - same[last]) < 1e-9 and same[first] > 1
    assert curves["longer sentences", way][last] < same[last] / 3

# Causal: in the mean each token sees half of the keys.
longest, D = 32 * 4096, 4096
seen = {"all": longest, "half": longest / 2}
work = {name: 24 * D**2 + 4 * D * keys for name, keys in seen.items()}  # a token, forward
causal = [
    curves["longer sentences", way][last] * work["all"] / work["half"]
    for way in ("tensor", "context")
]
assert [round(x, 1) for x in causal] == [2.0, 1.6]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels with logarithmic axes, sending over computing against thousand tokens for each
# GPU, 4 to 128, and a line at 1. More sentences: data parallel falls from 2.4 to below 0.1; tensor
# and context parallel stay level near 6 and 5. Longer sentences: all three fall, data parallel the
# fastest, tensor and context to near 1.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# More sentences: data parallel sends the same gradients for more work. The other two send for every
# token. Longer sentences: attention itself grows like $n^2$, and what is sent like $n$. (Counted
# with every token seeing every token. In a causal model attention is half of that, and at 128
# thousand tokens tensor and context would still be at 2.0 and 1.6.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One command checks all three
#
# This command starts two processes itself, shares the work in the three ways above, and compares
# with one process:
#
#     python -m d2l_attention.scale.parallel
#
# The table below has its form, filled with your results:

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Prints the results of all three ways as the command prints them
from d2l_attention.scale.parallel.__main__ import report

assert report(checks, 2) == 0  # the command's own; 0: all are equal
print("checked: two processes give what one gives, in all three ways")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Is the network the limit here?
#
# While the two processes were up, an all-reduce of 16 MiB was timed. Take the same layer, one
# sentence for each process, 4 bytes a number.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Computes the same for two processes on this machine
bytes_here = min(sent_a_second)
print(f"{bytes_here / 1e9:.1f} billion bytes a second between the processes")
here = layer_times(
    LayerShape(4096, 4096, batch_size=2),
    2,
    flops_per_second=roof.flops_per_second,
    bytes_per_second=bytes_here,
    bytes_per_number=4,
)
for way, seconds in here.items():
    print(f"{way:8} to send {seconds.moving:4.1f} s, to compute {seconds.computing:4.0f} s")
    assert not seconds.network_is_the_limit

# %% [markdown] slideshow={"slide_type": "fragment"}
# No. Two slow processors are easy to keep busy. The faster the processor, the more it asks of the
# network.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same program on a cluster
#
# `torchrun` starts the processes, here, and on four machines, eight processes on each. The second
# line is entered on each of the four; HOST is one of them.
#
#     torchrun --nproc-per-node 2 -m d2l_attention.scale.parallel
#
#     torchrun --nnodes 4 --nproc-per-node 8 \
#         --rdzv-backend c10d --rdzv-endpoint HOST:29500 \
#         -m d2l_attention.scale.parallel
#
# The program stays the same: it asks for its rank and the number of ranks (on GPUs also for its
# number within the machine), and for no addresses.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The package's tests run the first line. Nobody has run the second: there was one machine.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Open a terminal and enter the first line: it takes some ten seconds. Ask what the four machines
# of the second line have to know of each other: one name and port, where they meet.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What would change
#
# A **mesh** is the ranks laid out in a grid; LOCAL_RANK counts within one machine. NCCL is NVIDIA's
# counterpart of gloo.
#
# | | here | on GPUs |
# |---|---|---|
# | carries the numbers | gloo | `nccl` in `init_process_group` |
# | a process has | one core | one GPU, `cuda:LOCAL_RANK` |
# | the mesh | one axis, `(2,)` | two, `(4, 8)`: data over servers, heads within |
# | ring attention | ours, to be read | `context_parallel` (by default it gathers all keys) |
# | each reads | the same seed | its own part of the data |
# | a checkpoint | one file | parts, by `torch.distributed.checkpoint` |
#
# (`context_parallel` is PyTorch's, and experimental.) What stays: heads are cut as above, their
# shares are added up, and stretches are merged by their sums.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask why the mesh has its 8 inside: the row 'within a server' of the table before. If somebody asks
# what 'rdzv' is: rendezvous, the place where the processes meet and are given their ranks.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## When one dies
#
# Rank 1 runs out of memory in its third step and is gone. Rank 0 waits for it in the all-reduce.
#
# **Predict.** How long does rank 0 wait if the process ends? And if the whole machine loses power?

# %% [markdown] slideshow={"slide_type": "fragment"}
# It depends on how rank 1 went. A process that ends closes its connections, and gloo notices. A
# machine without power closes nothing. Then rank 0 waits for PyTorch's own limit: by default 30
# minutes with gloo, 10 with NCCL (documentation of `init_process_group`). On 32 GPUs 31 would stand
# idle, and be paid for.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote: a second, a minute, for ever. On a long run over thousands of GPUs something fails every
# three hours: Llama 3 had 419 unexpected interruptions in 54 days, on up to 16,000 GPUs (Llama
# Team, 2024, section 3.3.4). What helps is to notice quickly and to go on from a checkpoint.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Somebody listens
#
# Somebody has to listen to all processes at once and end the others: `torchrun` does, and so
# does `run_processes`.


# %% slideshow={"slide_type": "-"}
def dies():
    for step in range(5):
        if dist.get_rank() == 1 and step == 2:
            os._exit(3)  # at once, without a word
        dist.all_reduce(torch.ones(1))


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Lets one of two processes die, and prints what the other one is told
started = time.perf_counter()
try:
    run_processes(dies, 2)
except RuntimeError as error:
    seconds, said = time.perf_counter() - started, str(error).partition(" (")[0]
print(f"after {seconds:.1f} s:", said)
assert said.startswith("process 1 of 2 ended with exit code 3") and seconds < 20
assert multiprocessing.active_children() == []  # nobody is left behind

# %% [markdown] slideshow={"slide_type": "fragment"}
# You get the rank and the cause, and no process is left behind. (Much of the time was the start of
# two Pythons.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What other libraries add
#
# The first three need NVIDIA's GPUs, and none ran here.
#
# - **cuDNN** is NVIDIA's library of kernels. Its attention is FlashAttention-2's algorithm (Dao,
#   2023); on Hopper and Blackwell it also takes 8-bit floats. PyTorch can call it:
#   `CUDNN_ATTENTION` is one of the kernels behind the function that our layers call.
# - **Transformer Engine** has the layers of a Transformer for 8-bit floats and keeps the scaling
#   factors that so few bits need.
# - **Megatron-LM** cuts heads as above. Today it combines that with context parallel, with
#   *pipeline* parallel (whole layers to each), and with cutting the tokens for the layer norms
#   (Korthikanti et al., 2022).
# - **Sharded data parallel** (PyTorch's FSDP2, DeepSpeed's ZeRO) cuts the batch and also spreads
#   parameters, gradients and the optimiser's state over the processes (Rajbhandari et al., 2020).
#   Each layer is gathered when it is needed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What to take from them
#
# The mathematics is what you did by hand. The gain lies in how well a kernel fits its processor,
# and in sending while computing.
#
# **When do you need them?** When a layer does not fit, or when you pay for the hours. A model that
# fits on one GPU wants PyTorch's fused kernel, and then perhaps data parallel. When the model does
# not fit: first sharded data parallel, then tensor or context parallel.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# No figures on purpose: their makers measure on hardware that nobody in the room has. Whoever has a
# GPU can switch PyTorch's kernels on and off with `torch.nn.attention.sdpa_kernel` and time them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A softmax can be read in pieces: a new maximum rescales sum and output by $e^{m - m'}$.
# - Tiles make attention exact without a matrix: memory like $n$ (with our tiles in Python: only
#   forward), time still like $n^2$. The kernel's way back computes the weights again, from one
#   number a query.
# - Reading a prompt with the fused kernel uses much of the core's arithmetic (well over half of it
#   in the run shown); writing words waits for memory. Groups and windows shrink what writing has to
#   carry.
# - Data parallel cuts the batch and sends gradients; tensor parallel cuts heads and sends outputs;
#   context parallel cuts the sequence and sends keys, values and gradients. All equal one process.
# - The network is the limit when sending takes longer than computing: count both before you rent.
# - A process that dies must be heard by the others.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("10.1")` gives one more hint each time, `solution("10.1")` the whole way.

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
# **10.2** What is sent, what is read · *easy, 8 minutes* · predict, then compare
#
# Four processes add up their gradients, 100 MB each, by a ring all-reduce.
#
# - How many MB does each of them send? How many if they are eight?
#
# One step of decoding: each head's one query reads 4,096 keys and values of 128 numbers from a
# cache, 2 bytes a number. How many operations, multiplications and additions, does it do for each
# byte of the cache (not counted: the softmax, the query, the output),
#
# - if each head has a cache of its own?
# - if eight heads share one?
# - if 16 sequences decode at once, each head of each with its own?
#
# Predict; then compare with `all_reduce(100, 4)` of `d2l_attention.scale.parallel`, which adds
# nothing but counts what each sends, and with
# `attention_work(1, 4096, 128, bytes_per_number=2, ...)` of `d2l_attention.scale.roofline`. The
# latter counts the query and the output as well: expect 7.98 where you have 8. Give five numbers,
# such as `(1, 1, 1, 1, 1)`.

# %% slideshow={"slide_type": "skip"}
answer = None

check("10.2", answer)

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
# `by_tiles` should give softmax(q · k / √D) v for queries (Q, D), keys (K, D) and values
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

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - M. Milakov, N. Gimelshein, *Online normalizer calculation for softmax*, 2018, arXiv:1805.02867.
#   Section 3, algorithm 3.
# - T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, *FlashAttention: Fast and Memory-Efficient Exact
#   Attention with IO-Awareness*, NeurIPS 2022, arXiv:2205.14135. Algorithms 1 and 4, appendix B.
# - M. N. Rabe, C. Staats, *Self-attention Does Not Need O(n²) Memory*, 2021, arXiv:2112.05682.
# - T. Dao, *FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning*, ICLR
#   2024, arXiv:2307.08691.
# - J. Shah et al., *FlashAttention-3: Fast and Accurate Attention with Asynchrony and
#   Low-precision*, 2024, arXiv:2407.08608. The shares of an H100 that both kernels reach.
# - S. Williams, A. Waterman, D. Patterson, *Roofline: An Insightful Visual Performance Model for
#   Multicore Architectures*, Communications of the ACM 52(4), 2009, doi:10.1145/1498765.1498785.
# - S. Li et al., *PyTorch Distributed: Experiences on Accelerating Data Parallel Training*, VLDB
#   2020, arXiv:2006.15704.
# - M. Shoeybi et al., *Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
#   Parallelism*, 2019, arXiv:1909.08053. Section 3.
# - S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, *ZeRO: Memory Optimizations Toward Training
#   Trillion Parameter Models*, SC 2020, arXiv:1910.02054.
# - V. Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models*, 2022,
#   arXiv:2205.05198.
# - H. Liu, M. Zaharia, P. Abbeel, *Ring Attention with Blockwise Transformers for Near-Infinite
#   Context*, 2023, arXiv:2310.01889.
# - P. Patarasuk, X. Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*,
#   Journal of Parallel and Distributed Computing 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.

# %% [markdown] slideshow={"slide_type": "skip"}
# - H. Touvron et al., *LLaMA*, 2023, arXiv:2302.13971, table 2 and section 2.2; *Llama 2*, 2023,
#   arXiv:2307.09288, section 2.2.
# - Llama Team, *The Llama 3 Herd of Models*, 2024, arXiv:2407.21783. Table 3; sections 3.3.1
#   (network), 3.3.2 (context parallel) and 3.3.4 (interruptions).
# - NVIDIA, *H100 Tensor Core GPU*, data sheet, SXM: 1,979 teraFLOPS in BFLOAT16 with sparsity, half
#   of it without; 3.35 TB/s of memory bandwidth; NVLink 900 GB/s.
# - PyTorch's documentation: `torch.distributed.init_process_group` (time limits), `torchrun`,
#   `torch.distributed.tensor.parallel`, `torch.nn.attention.SDPBackend`; `context_parallel` and
#   `set_rotate_method` (it gathers unless told otherwise); `torch.distributed.fsdp.fully_shard`.
# - Hugging Face's documentation: Accelerate, `Accelerator.prepare`. DeepSpeed's: *Zero Redundancy
#   Optimizer*.
# - NVIDIA's documentation: cuDNN Frontend, *Attention* (algorithm, data types by architecture);
#   Transformer Engine, *README* (8-bit floats, scaling factors); Megatron Core,
#   `ModelParallelConfig` (which sizes of parallelism it combines).
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 11.3, 13.5
#   (data parallel) and 13.7 (the ring). [d2l.ai](https://d2l.ai)
