# %% [markdown] slideshow={"slide_type": "slide"}
# # 9 · Attention in all its forms
#
# **You will**
# - count what plain attention costs, in links and in memory, and say which form saves which;
# - draw who sees whom in a dozen forms;
# - find for each a case in which it gives what plain attention gives;
# - measure time against length, and break each form where it is weak.
#
# Core path: 90 minutes. Exercises: 92. A good place to stop is after *Links in a grid*.
#
# Builds on chapters 4 to 8. The book is *Dive into Deep Learning* (D2L): its chapter 11 keeps to
# plain attention, also for pictures (section 11.8) and for pretraining (11.9). This chapter goes on
# from there.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import itertools
import math
import textwrap
import time
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import (
    KeyValueCache,
    MultiHeadAttention,
    PositionalEncoding,
    causal_mask,
    check_shape,
    dot_product_attention,
    scaled_dot_score,
    show_source,
)
from d2l_attention.scale.cache_size import PUBLISHED, cache_bytes
from d2l_attention.variants import (
    BigBirdAttention,
    GlobalLocalAttention,
    GroupedQueryAttention,
    HyenaOperator,
    LearnedQueries,
    LinformerAttention,
    MultiTokenAttention,
    SlidingWindowAttention,
    WindowAttention,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
    long_convolution,
    partition_windows,
)
from d2l_attention.variants.linear import causal_sums
from d2l_attention.variants.masks import bigbird_mask, global_tokens_mask, sliding_window_mask
from d2l_attention.variants.multi_token import key_query_convolution
from d2l_attention.variants.window import attend_in_window
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A book of 100,000 words
#
# A model reads a novel of 100,000 words, and each word may look at every other. (Models read pieces
# of words, *tokens*. Take one for the other in this chapter.)
#
# **Predict.** One head: how many weights is that? How many bytes, at four a number? And how long
# does one core of this machine take for one layer of 32 heads?


# %% slideshow={"slide_type": "skip"}
def seconds(run, repeats=3):
    """CPU time of ``run()``, the median of a few calls, without gradients."""
    took = []
    with torch.no_grad():
        run()  # the first call also finds memory: it does not count
        for _ in range(repeats):
            started = time.process_time()
            run()
            took.append(time.process_time() - started)
    return sorted(took)[repeats // 2]


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Counts the weights of the book and their bytes, and measures the time
words, short = 100_000, 4096
q, k, v = torch.randn(3, 1, 1, short, 64)
head = seconds(lambda: dot_product_attention(q, k, v)) * (words / short) ** 2
print(f"weights  {words**2:,}")
print(f"bytes    {4 * words**2 / 1e9:.0f} GB")
print(f"time     {head:.0f} s a head, {32 * head / 60:.0f} minutes a layer of 32")
assert words**2 == 10**10 and 4 * words**2 == 40e9 and head > 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# $n^2 = 10^{10}$ links, 40 GB, for one head. PyTorch's fused kernel, which our layers call, never
# writes the matrix down; chapter 10 shows how. But it computes every link, and that is the time
# above: measured at 4,096 words, times $(100{,}000 / 4096)^2$.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# For two lectures stop after Swin; *Other mathematics* begins the second. Short of time, leave out
# *Special case: multi-head*, the Linformer picture, the Fourier slide and *What do random links
# add?*
#
# Three votes, half a minute each. For the weights expect 'ten million' from those who count zeros
# in their heads. 40 GB is more than most graphics cards in the room have. Then say what is *not*
# the trouble: memory for the matrix, which a clever kernel avoids. The links themselves remain.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two bills
#
# - **Links.** Every pair of query and key costs $d$ multiplications for the score and $d$ for the
#   value: $n^2$ pairs.
# - **Cache.** A model that writes keeps a key and a value of each word, in each head and layer
#   (chapter 8). For every new word it reads them all.
#
# **Question.** Which of the two could you cut, and what would you lose?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Leave the question about the two bills open for a minute and write the answers on the board: 'not
# look so far', 'look at summaries', 'fewer heads'. Nearly every form of this chapter comes up. Put
# names to them as they pass.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Five questions, a dozen answers
#
# | the question | the forms |
# |---|---|
# | Does each head need keys of its own? | multi-query, grouped-query |
# | Must everybody see everybody? | window, dilated, global, BigBird |
# | Who is near in a picture? | Swin |
# | Must there be a matrix? | Linformer, linear attention, Hyena |
# | Must a token ask, and alone? | learned queries, multi-token |
#
# All take masks where they can, and each is checked against plain attention.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The yardstick
#
# $$\mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt d}\right) V$$
#
# Vaswani et al. (2017) use it in three ways. In **self-attention** $Q$, $K$ and $V$ come from one
# text. In **causal** self-attention each word sees only itself and its past. In **cross-attention**
# $Q$ comes from another text.
#
# **Predict.** 12 words, causal or not, and 5 words that ask 12: how many links in each?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ten seconds for each of the three numbers. For causal expect 72, half of 144; the diagonal is the
# difference. From here on ask before every picture: who sees whom, and how many links is that?

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws who sees whom in self-, causal and cross-attention
grids = {
    "self": torch.ones(12, 12, dtype=torch.bool),
    "causal": causal_mask(12),
    "cross": torch.ones(5, 12, dtype=torch.bool),
}
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.9))
for ax, (name, grid) in zip(axes, grids.items(), strict=True):
    heatmap(ax, grid, vmax=1.4)
    ax.set(title=f"{name}: {grid.sum()} links", xlabel="key", aspect="equal", xticks=[], yticks=[])
    ax.hlines(torch.arange(len(grid)) - 0.5, -0.5, 11.5, color="white", linewidth=1)
    ax.vlines(torch.arange(12) - 0.5, -0.5, len(grid) - 0.5, color="white", linewidth=1)
axes[0].set_ylabel("query")
figure.suptitle("Every link is a score to compute", fontsize=17)
plt.show()
assert [int(grid.sum()) for grid in grids.values()] == [12**2, 12 * 13 // 2, 5 * 12]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three grids of queries by keys. Self: a full square of 144 links. Causal: the lower
# triangle with its diagonal, 78 links. Cross: five full rows of twelve, 60 links.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# $n^2$, $n(n+1)/2$ and $n \cdot m$. Let the 12 words ask themselves, and cross-attention *is*
# self-attention: one function, told apart only by who supplies what.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that words give the same answers when other words ask, too
torch.manual_seed(0)
layer, X, Y = MultiHeadAttention(8, 2, 0.0), torch.randn(2, 12, 8), torch.randn(2, 5, 8)
cross, weights = layer(Y, X, X, need_weights=True)
check_shape(cross, (2, 5, 8))  # one answer for each that asks
check_shape(weights, (2, 2, 5, 12))  # sentence, head, query, key
torch.testing.assert_close(layer(X[:, :5], X, X), layer(X, X, X)[:, :5])
print("checked: 5 of the 12 words ask by themselves, and get the same answers as when all ask")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Fewer keys and values to keep
#
# Llama 2 7B has 32 layers of 32 heads, 128 numbers a head, 2 bytes a number.
#
# **By hand.** How much does its cache grow with each word? How large is it after 4,096 words?

# %% [markdown] slideshow={"slide_type": "fragment"}
# A key and a value: $2 \cdot 32 \cdot 32 \cdot 128 \cdot 2$ bytes $= \tfrac12$ MiB a word. After
# 4,096 words, 2 GiB. For each further word all of it is read once: 2 GiB for one word.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the cache of Llama 2 7B: a word, 4,096 words, the book
a_word = cache_bytes(num_layers=32, num_kv_heads=32, head_size=128, num_tokens=1)
book = cache_bytes(num_layers=32, num_kv_heads=32, head_size=128, num_tokens=words)
print(f"a word {a_word / 2**20} MiB, 4,096 words {4096 * a_word / 2**30} GiB, ", end="")
print(f"the book {book / 2**30:.0f} GiB")
assert a_word == 2 * 32 * 32 * 128 * 2 == 2**19 and 4096 * a_word == 2**31

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes with pencil and paper; all factors are powers of two that they know. Who
# forgets the layers gets 16 KiB. The point is the last sentence: to write *one* word the machine
# moves 2 GiB and does hardly any arithmetic with it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Let heads share keys
#
# The formula for the cache has a factor that no one had touched: the number of heads of keys and
# values. Let several heads of queries **share** one.
#
# - **Multi-query** (Shazeer, 2019): all $H$ heads share a single one.
# - **Grouped-query** (Ainslie et al., 2023): $G$ groups, each shares one.
#
# $$\text{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_g^\top}{\sqrt d}\right) V_g, \qquad
#   g = \lfloor h\,G/H \rfloor$$
#
# (heads $h$ and groups $g$ counted from 0)


# %% slideshow={"slide_type": "skip"}
def who_reads_whom(layer):
    """Bool (H, G): does the output of head h depend on the values of group g?"""
    X = torch.randn(1, 3, 32)
    layer(X, X, X)
    heads = []
    # What enters W_o is the heads' outputs, side by side.
    layer.W_o.register_forward_pre_hook(lambda module, inputs: heads.append(inputs[0]))
    layer(X, X, X)
    slopes = []
    for head in heads[0].unflatten(-1, (layer.num_heads, -1)).unbind(-2):
        (slope,) = torch.autograd.grad(head.sum(), layer.W_v.weight, retain_graph=True)
        slopes.append(slope.unflatten(0, (layer.num_kv_heads, -1)).abs().sum(dim=(1, 2)) > 0)
    return torch.stack(slopes)


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws which head of queries reads which head of keys and values
figure, axes = plt.subplots(1, 3, figsize=(9.5, 4.4), sharey=True)
for ax, groups in zip(axes, (8, 2, 1), strict=True):
    reads = who_reads_whom(GroupedQueryAttention(32, 8, groups, 0.0))
    assert torch.equal(reads.nonzero()[:, 1], torch.arange(8) * groups // 8)
    heatmap(ax, reads, range(8), range(groups), vmax=1.4)
    name = {8: "multi-head", 2: "grouped-query", 1: "multi-query"}[groups]
    ax.set(title=f"{name}\nG = {groups}", xlabel="head of keys and values", aspect="equal")
axes[0].set_ylabel("head of queries")
figure.suptitle("Who reads whose keys: 8, 2 or 1 heads to keep", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three grids of eight query heads by heads of keys and values. Multi-head: a diagonal of
# eight. Grouped-query with two groups: heads 0 to 3 read the first, 4 to 7 the second. Multi-query:
# one column that all eight read.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Special case: multi-head
#
# With $G = H$ each head has its own: the layer takes a multi-head layer's parameters and gives its
# outputs. With any $G$ it is multi-head attention whose $W_k$ and $W_v$ repeat themselves.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Checks grouped-query attention against multi-head attention with repeated keys
torch.manual_seed(0)
X = torch.randn(2, 7, 32)
for groups in (8, 4, 2, 1):
    grouped, full = GroupedQueryAttention(32, 8, groups, 0.0), MultiHeadAttention(32, 8, 0.0)
    grouped(X, X, X), full(X, X, X)  # the first call fixes the sizes
    state = grouped.state_dict()
    for name in ("W_k.weight", "W_v.weight"):
        check_shape(state[name], (groups * 4, 32))
        repeated = state[name].unflatten(0, (groups, 4)).repeat_interleave(8 // groups, dim=0)
        state[name] = repeated.flatten(0, 1)
    full.load_state_dict(state)
    for is_causal in (False, True):
        expected = full(X, X, X, is_causal=is_causal)
        torch.testing.assert_close(grouped(X, X, X, is_causal=is_causal), expected)
print("checked: with 8, 4, 2 or 1 groups the outputs equal those of 8 heads with repeated keys")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What published models keep
#
# **Predict.** Llama 2 70B is ten times as large as Llama 2 7B. Which has the larger cache?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the caches of published models
print(f"{'':13}layers  heads    G  size   KiB a word   4,096 words    the book")
for model in PUBLISHED:
    shape = f"{model.num_layers:6}{model.num_heads:7}{model.num_kv_heads:5}{model.head_size:6}"
    kept = [model.bytes(n) / 2**30 for n in (4096, words)]
    kib = model.bytes(1) / 2**10
    print(f"{model.name:13}{shape}{kib:10.0f}{kept[0]:13.2f} GiB{kept[1]:9.2f} GiB")
at_4096 = {model.name: model.bytes(4096) / 2**30 for model in PUBLISHED}
assert at_4096["Llama 2 70B"] == 1.25 < at_4096["Llama 2 7B"] == 2
assert at_4096["Mistral 7B"] == at_4096["Llama 3.1 8B"] == 0.5
assert at_4096["Falcon 40B"] == 480 / 1024

# %% [markdown] slideshow={"slide_type": "fragment"}
# The small one: it has 32 heads to keep, the large one 8. Mistral 7B (its first version) stops
# growing at 4,096 words, because it keeps a window, the next section's idea. The last column is
# arithmetic alone: of these, only Llama 3.1 was made for so long a text.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote before the table. Nearly all say 70B. Then let them find the factor that explains it: layers
# 80 to 32 the other way, G 8 to 32. Ask what a cache of 49 GiB means for a card of 80 that also
# serves twenty other readers. 16 bits a number throughout.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What it saves in time
#
# One layer of 16 heads, a cache of 8,192 words, one word more. The links are as many for every $G$:
# each head still looks at each word.
#
# **Predict.** Then is $G = 1$ faster at all?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures how long one more word takes, for each number of groups
took, size, word = {}, 64, torch.randn(1, 1, 16 * 64)
for groups in (16, 8, 4, 1):
    layer, cache = GroupedQueryAttention(16 * size, 16, groups, 0.0), KeyValueCache()
    with torch.no_grad():
        cache.append(*torch.randn(2, 1, groups, 8192, size))
    arguments = {"is_causal": True, "cache": cache}
    took[groups] = seconds(partial(layer, word, word, word, **arguments), repeats=9)
    kept = cache_bytes(1, groups, size, 8192, bytes_per_number=4)
    print(f"G = {groups:2}   cache {kept / 2**20:3.0f} MiB   {1000 * took[groups]:5.1f} ms a word")
assert took[1] < took[16] / 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# Yes: several times. The links cost the same multiplications; what falls is the reading of memory.
# Chapter 10 measures that limit.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# On the time: expect 'no, the links are the same'. Ask back what the machine must *fetch* for one
# link. Half the room then changes its vote.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### It saves cache, not links
#
# **Good for** writing long texts, and many of them at once. **Bad for** quality where one head of
# keys must serve all: heads that share keys can look for fewer different things. Ainslie et al.
# report that multi-query can lose quality and be unstable to train, and that eight groups, after 5%
# more training, come close to multi-head in quality and to multi-query in speed.
#
# **And it does not touch the first bill.** Reading the book still costs $n^2$ links a head.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Close with the last line; it is the bridge.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Fewer links
#
# Much of what a word needs stands beside it. So let word $i$ see $w$ neighbours on each side: a
# **sliding window** (Beltagy et al., 2020).
#
# $$\mathrm{softmax}\ \text{over}\ \{\,j : \lvert i - j\rvert \le w\,\}$$
#
# **By hand.** Six words, $w = 1$: how many links, instead of 36? And for $n$ words?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the mask of six words, and counts the links of longer texts
print(sliding_window_mask(6, window=1).int())
for n, w in ((6, 1), (64, 4), (1000, 128)):
    links = sliding_window_mask(n, window=w).sum().item()
    assert links == n * (2 * w + 1) - w * (w + 1)
    print(f"n = {n:4}, w = {w:3}: {links:,} of {n * n:,} links")

# %% [markdown] slideshow={"slide_type": "fragment"}
# $6 \cdot 3 - 2 = 16$: at each end one is missing. In general $n(2w + 1) - w(w + 1)$: for a fixed
# window the cost grows with $n$, not with $n^2$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A mask instead?
#
# **Predict.** A mask could do that: give plain attention the window as a mask. How much time does
# that save at 4,096 words with $w = 128$?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures plain attention, the same with the window as a mask, and the window's own layer
q, k, v = torch.randn(3, 1, 1, 4096, 64)
mask = sliding_window_mask(4096, window=128)
window_attention = SlidingWindowAttention(window=128, dropout=0.0)
took = {
    "plain": seconds(lambda: dot_product_attention(q, k, v)),
    "plain, masked": seconds(lambda: dot_product_attention(q, k, v, mask=mask)),
    "window": seconds(lambda: window_attention(q, k, v)),
}
for name, spent in took.items():
    print(f"{name:14} {1000 * spent:6.1f} ms")
expected = dot_product_attention(q, k, v, mask=mask)
torch.testing.assert_close(window_attention(q, k, v), expected)
assert took["window"] < took["plain"] < took["plain, masked"]

# %% [markdown] slideshow={"slide_type": "fragment"}
# None; it costs more. The fused kernel computes the hidden scores all the same, and it also has to
# read the mask. `SlidingWindowAttention` gives equal numbers and never computes what lies outside:
# blocks of queries against the blocks of keys beside them. (In the Longformer paper $w$ counts both
# sides together. A kernel that is told which blocks are empty can skip them, too: PyTorch's
# `flex_attention`, compiled and with a block mask, does.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Expect 'sixteen times less', from $4096 / 257$. This is the commonest mistake about sparse
# attention: to believe that zeros are free. Ask what else could be expensive about a mask of 16
# million entries.

# %% [markdown] slideshow={"slide_type": "skip"}
# The blocks: `neighbour_blocks` names, for each block of queries, the blocks of keys beside it, and
# `block_attention` gathers these and runs the fused kernel over all blocks at once. (Windows are
# older than Longformer: Parmar et al., 2018, and Child et al., 2019, had similar ones.)

# %% slideshow={"slide_type": "skip"}
show_source(attend_in_window)

# %% [markdown] slideshow={"slide_type": "skip"}
# **Special case.** A window as long as the text and without gaps hides nothing: plain attention,
# causal or not. (With gaps it stays a chessboard.)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks three sparse forms that hide nothing against plain attention
torch.manual_seed(0)
q, k, v = torch.randn(3, 2, 4, 37, 16)
for is_causal in (False, True):
    expected = dot_product_attention(q, k, v, is_causal=is_causal)
    for layer in (
        SlidingWindowAttention(window=37, dropout=0.0),
        GlobalLocalAttention(window=2, num_global=37, dropout=0.0),
        BigBirdAttention(block_size=37, window=0, num_global=0, num_random=0, dropout=0.0, seed=0),
    ):
        torch.testing.assert_close(layer(q, k, v, is_causal=is_causal), expected)
chessboard = sliding_window_mask(6, window=6, dilation=2)
assert torch.equal(chessboard, torch.arange(6)[:, None] % 2 == torch.arange(6) % 2)
print("checked: window >= n, all tokens global, one block as long as the text: plain attention")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How far does news travel?
#
# A window carries it $w$ places a layer, as a CNN does (chapter 7). In a stack of layers a token
# hears, through others, what it does not see.
#
# **Predict.** 64 tokens, $w = 4$. How many layers until the last hears the first?


# %% slideshow={"slide_type": "skip"}
def heard(pattern, layers):
    """Bool (n, n): does token i hear of token j after so many layers?"""
    reached = pattern
    for _ in range(layers - 1):
        reached = pattern.float() @ reached.float() > 0
    return reached


def layers_until_all_hear_all(pattern):
    """``None`` where that never happens."""
    reached, layers = pattern, 1
    while not reached.all():
        further = pattern.float() @ reached.float() > 0
        if torch.equal(further, reached):
            return None
        reached, layers = further, layers + 1
    return layers


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws who has heard of whom after 1, 2, 4 and 16 layers
window = sliding_window_mask(64, window=4)
figure, axes = plt.subplots(1, 4, figsize=(10.5, 3.6), sharey=True)
for ax, layers in zip(axes, (1, 2, 4, 16), strict=True):
    heatmap(ax, heard(window, layers), vmax=1.4)
    ax.set(title=f"{layers} layer{'s' * (layers > 1)}", xlabel="heard", aspect="equal", xticks=[])
axes[0].set(ylabel="who hears", yticks=[])
figure.suptitle("A window of 4: news travels 4 places a layer", fontsize=17)
plt.show()
assert layers_until_all_hear_all(window) == math.ceil(63 / 4) == 16

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four grids of 64 tokens by 64. After one layer a narrow band along the diagonal, after
# two a band twice as wide, after four a broad band, after sixteen the full square.*

# %% [markdown] slideshow={"slide_type": "skip"}
# These grids multiply masks. In real layers the gradient says whether an input can move an output.
# It is not zero exactly where the grids say so. How large it is, this test does not ask.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks with the gradient which tokens can move which in stacks of real layers
torch.manual_seed(0)


def stack(X, layers, attend):
    for _ in range(layers):
        X = X + attend(X)
    return X


for layers in (1, 2, 4):
    near = SlidingWindowAttention(window=4, dropout=0.0)
    slopes = torch.autograd.functional.jacobian(
        lambda X, layers=layers, near=near: stack(X, layers, lambda X: near(X, X, X)).sum(
            dim=(0, -1)
        ),
        torch.randn(1, 64, 4, dtype=torch.float64),
    )
    assert torch.equal((slopes != 0).any(dim=-1)[:, 0], heard(window, layers))
print("checked: after 1, 2 and 4 layers the gradient is zero exactly where the grids are empty")

# %% [markdown] slideshow={"slide_type": "subslide"}
# 16 layers for 64 tokens; for the book 25,000. Three ways to be faster at nearly the same cost:
#
# - **Dilated**: neighbours a gap of $\delta$ apart, so $w$ of them reach $w\,\delta$ places.
# - **Global** tokens: a few see all and are seen by all. With a window: **Longformer** (Beltagy et
#   al., 2020), with projections of their own, which we leave out.
# - **Random** links beside the window and global tokens: **BigBird** (Zaheer et al., 2020).
#
# **Predict.** 64 tokens. How many layers until all hear all: with $w = 4$ and gaps of 3, with
# $w = 4$ and one global token, and in BigBird with blocks of 2 (one on each side, one global, one
# random)?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Collect three numbers from the room before the picture. Expect 6 for dilated ($63/12$ rounded up)
# and let someone defend it. Then ask: from token 5, which tokens can be reached at all? The trap is
# a real one: a stack of equal dilated layers is as many separate texts as the dilation.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the links of four forms, and counts the layers until all hear all
X = torch.randn(1, 64, 8)
forms = {
    "window": SlidingWindowAttention(4, 0.0),
    "dilated": SlidingWindowAttention(4, 0.0, dilation=3),
    "Longformer": GlobalLocalAttention(4, 1, 0.0),
    "BigBird": BigBirdAttention(2, 1, 1, 1, 0.0, seed=0),
}
patterns = {name: form(X, X, X, need_weights=True)[1][0] > 0 for name, form in forms.items()}
figure, axes = plt.subplots(1, 4, figsize=(11, 4.4), sharey=True)
for ax, (name, pattern) in zip(axes, patterns.items(), strict=True):
    heatmap(ax, pattern, vmax=1.4)
    layers = layers_until_all_hear_all(pattern)
    when = f"in {layers} layers" if layers else "never"
    title = f"{name}\n{pattern.sum():,} links\n{when}"
    ax.set(title=title, xlabel="key", aspect="equal", xticks=[])
axes[0].set(ylabel="query", yticks=[])
figure.suptitle("When all hear all: one global token makes it two layers", fontsize=17)
plt.show()
hops = {name: layers_until_all_hear_all(pattern) for name, pattern in patterns.items()}
assert hops == {"window": 16, "dilated": None, "Longformer": 2, "BigBird": 2}

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four grids of 64 by 64 with about the same number of links. Window: a band of nine.
# Dilated: nine thin parallel lines, three apart. Longformer: the band, and the first row and column
# full. BigBird: steps of small blocks along the diagonal, a full first block of rows and columns,
# and single blocks strewn about.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# With a single global token two layers are enough: to it, and from it. The dilated window never
# gets there. With gaps of 3 token 5 sees 2, 8, 11, 14 and 17 (and itself), and no layer ever leaves
# that third of the text. Longformer gives it to some heads only, in layers where others look at all
# neighbours.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that equal dilated layers never connect all tokens, and what helps
index = torch.arange(64)
forever = heard(patterns["dilated"], 64)
assert torch.equal(forever, (index[:, None] - index) % 3 == 0)
assert patterns["dilated"][5].nonzero().flatten().tolist() == [2, 5, 8, 11, 14, 17]
mixed = patterns["dilated"] | patterns["window"]  # two heads, one of each
layers = layers_until_all_hear_all(mixed)
print(f"checked: dilated layers never do it; beside a head with a window they need {layers} layers")
assert layers == math.ceil(63 / 12)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What do random links add?
#
# Take the global tokens away. Window alone, and window with random links, for texts of growing
# length:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the layers until all hear all, with and without random links
links = {"block_size": 4, "window": 1, "num_global": 0, "seed": 0}
print(f"{'tokens':22}", *(f"{n:5}" for n in (64, 256, 512)))
needed = {}
for name, num_random in (
    ("window of blocks", 0),
    ("with 1 random block", 1),
    ("with 3 random blocks", 3),
):
    masks = [bigbird_mask(n, num_random=num_random, **links) for n in (64, 256, 512)]
    needed[num_random] = [layers_until_all_hear_all(mask) for mask in masks]
    print(f"{name:22}", *(f"{layers:5}" for layers in needed[num_random]), " layers")
assert needed[0] == [15, 63, 127] and needed[1][-1] < 12 and needed[3][-1] < 8

# %% [markdown] slideshow={"slide_type": "fragment"}
# Eight times the text takes the window eight times the layers. With a random link for each block it
# takes a few more: at first each layer multiplies the number of blocks that one has heard of. So
# does gossip.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Good for** long documents of which most is local, such as question answering, with the question
# as global tokens. A causal window has a cache that stops growing. (But a model that was trained
# without a window breaks when its first tokens leave the cache: Xiao et al., 2023.) **Bad for**
# looking up an exact word far away in one step: it must pass through others, and each layer on the
# way must want to carry it. Which tokens are global is decided by hand.
#
# **Special case**: $w \ge n$ without gaps, or all tokens global, or one block: plain attention
# (checked).

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# 'Six degrees of separation' comes from the room by itself. BigBird's authors prove more than short
# paths, and for the global tokens, not for the random links: with a token that sees all and is seen
# by all, a Transformer with enough layers can still come as near to any function as with all links.
# They also give a task that takes full attention one layer and sparse attention about as many as
# there are tokens (their section 3). We show the paths.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Links in a grid
#
# In a picture the neighbours of a pixel stand on all four sides, and a row-by-row sequence tears
# them apart. **Swin** (Liu et al., 2021) cuts the picture into windows of $M \times M$ pixels.
# Each pixel sees those of its own window.
#
# $$\mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt d} + B\right) V \quad \text{in each window}$$
#
# $B$ is learned, in each head: one number for each step (so many rows, so many columns) between two
# pixels of a window. (Swin's 'pixels' are patches of $4 \times 4$.)
#
# **Predict.** Its first stage has $56 \times 56$ pixels and $M = 7$. How many links, against all?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the links of Swin's first stage
windows = partition_windows(torch.zeros(1, 56, 56, 1), window_size=7)
check_shape(windows, (64, 49, 1))
print(f"{56**2:,} pixels: {56**4:,} links, in windows {64 * 49**2:,}: {56**4 // (64 * 49**2)} to 1")
assert 56**4 == 64 * (64 * 49**2)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# 64 windows, so a 64th of the links: whoever sees that needs no calculator. Ask at once what is
# wrong with windows: two pixels on both sides of a border never meet, however many layers follow.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Windows never meet. So every second layer **shifts** them by half a window: the map is rolled up
# and left, and what falls off comes in at the far side. Some pixels that now share a window are no
# neighbours; a mask keeps them apart.


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the windows of a picture, the shifted ones, and the mask of the last
rows, columns = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
moon = ((rows - 4.5) ** 2 + (columns - 4.5) ** 2 < 16).float()
moon -= 0.6 * ((rows - 3.5) ** 2 + (columns - 6.5) ** 2 < 9) * moon
image = 0.15 + 0.03 * rows / 12 + 0.75 * moon
torch.manual_seed(0)
straight, shifted = (
    WindowAttention(8, 1, window_size=4),
    WindowAttention(8, 1, window_size=4, shift=2),
)
_, weights = shifted(torch.randn(1, 12, 12, 8), need_weights=True)
check_shape(weights, (9, 1, 16, 16))  # nine windows, one head, pixels by pixels

figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.2))
titles = ("windows of the image", "shifted: rolled by 2, then cut", "last window: who sees whom")
for ax, grid in zip(axes, (image, image.roll((-2, -2), (0, 1)), weights[-1, 0] > 0), strict=True):
    heatmap(ax, grid, vmax=1.4 if grid.dtype == torch.bool else 1.0)
    ax.set(aspect="equal", xticks=[], yticks=[])
for ax, title in zip(axes, titles, strict=True):
    ax.set_title(title)
for ax in axes[:2]:
    ax.hlines([3.5, 7.5], -0.5, 11.5, color="#D55E00", linewidth=3)
    ax.vlines([3.5, 7.5], -0.5, 11.5, color="#D55E00", linewidth=3)
axes[2].set(xlabel="key", ylabel="query")
figure.suptitle("What is rolled round the edge shares a window, and is kept apart", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, an image of 12 by 12 pixels, a moon with a paler part, cut by orange lines into
# nine windows of four by four. Middle, the same image moved up and left by two: the moon's upper
# and left edges, which fell off, come in below and on the right. Right, the 16 pixels of the last
# window by themselves: four groups of four, which do not see each other.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Have someone point at the two pixels that stand side by side in the rolled picture and far apart
# in the real one. Then ask which of the nine windows need no mask.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Whom does a pixel hear?
#
# **Predict.** $12 \times 12$ pixels, $M = 4$, shift 2. The pixel in row 4, column 6 (counted from
# 0): how many pixels does it hear after a layer with windows, after one with shifted windows, and
# after the first and then the second?


# %% slideshow={"slide_type": "skip"}
def heard_by_pixel(layers, row, column):
    """Bool (12, 12): which pixels move the output at this one?"""
    X = torch.randn(1, 12, 12, 8, requires_grad=True)
    Y = X
    for layer in layers:
        Y = layer(Y)
    (slope,) = torch.autograd.grad(Y[0, row, column].sum(), X)
    return slope[0].abs().sum(dim=-1) > 0


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws which pixels one pixel hears
stacks = {"windows": [straight], "shifted": [shifted], "one after the other": [straight, shifted]}
figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.2))
counts = {}
for ax, (name, layers) in zip(axes, stacks.items(), strict=True):
    reach = heard_by_pixel(layers, 4, 6)
    counts[name] = int(reach.sum())
    heatmap(ax, reach, vmax=1.4)
    ax.plot(6, 4, "o", color="#D55E00", markersize=12)
    ax.set(title=f"{name}: {counts[name]} pixels", aspect="equal", xticks=[], yticks=[])
    lines = torch.tensor([3.5, 7.5] if name == "windows" else [1.5, 5.5, 9.5])
    ax.hlines(lines, -0.5, 11.5, color="0.6", linewidth=1)
    ax.vlines(lines, -0.5, 11.5, color="0.6", linewidth=1)
figure.suptitle("Two layers carry news over the borders of both", fontsize=17)
plt.show()
assert counts == {"windows": 16, "shifted": 16, "one after the other": 64}
corner = heard_by_pixel([shifted], 0, 0).nonzero().tolist()
assert corner == [[0, 0], [0, 1], [1, 0], [1, 1]]  # nobody from the far side

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three maps of 12 by 12 pixels with one pixel marked. With windows it hears the 16 pixels
# of the middle window. With shifted windows 16 others, moved by two up and to the right. With both
# layers 64: the four windows that the shifted one touches.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The answer for the marked pixel is four windows of 16: count with the room.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Special case: one window
#
# As large as the image, with $B = 0$, it is multi-head attention over all pixels.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Checks one window as large as the picture against plain attention
whole = WindowAttention(num_hiddens=8, num_heads=2, window_size=6)
X = torch.randn(2, 6, 6, 8)
whole(X)  # the first call fixes the sizes
with torch.no_grad():
    whole.attention.positions.table.zero_()  # the bias B
plain = MultiHeadAttention(8, 2, 0.0)
pixels = X.flatten(1, 2)
check_shape(pixels, (2, 36, 8))
plain(pixels, pixels, pixels)
plain.load_state_dict(
    {name: p for name, p in whole.attention.state_dict().items() if name.startswith("W_")}
)
torch.testing.assert_close(whole(X).flatten(1, 2), plain(pixels, pixels, pixels))
print("checked: one window of 6 x 6 without a bias is plain attention over 36 pixels")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Cost**: $n M^2$ links, so linear in the number of pixels $n$. **Good for** pictures of any size,
# and for tasks that need an answer at every pixel. **Bad for** what is far apart early on: it must
# merge pixels from stage to stage until a window covers the picture.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Other mathematics
#
# So far the matrix had holes. Now ask whether it is needed at all.
#
# Its $n$ rows are weights over $n$ keys. Suppose $r$ mixtures of keys would do, $r$ fixed (`rank`
# in the code): **Linformer** (Wang et al., 2020) learns two matrices $E$ and $F$, $(r, n)$, and
# puts
#
# $$\mathrm{softmax}\!\left(\frac{Q\,(E K)^\top}{\sqrt d}\right) (F V)$$
#
# **Predict.** How many links? And what does row $i$ of $E$ say?

# %% [markdown] slideshow={"slide_type": "fragment"}
# $n \cdot r$. Row $i$ says how much each *place* of the text counts in mixture $i$. Not each word:
# $E$ is the same for every text, learned once, and as long as the longest.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws E, the weights of the mixtures, and what reaches whom
torch.manual_seed(0)
linformer, X = LinformerAttention(16, 1, max_len=32, rank=6, dropout=0.0), torch.randn(1, 32, 16)
_, to_mixtures = linformer(X, X, X, need_weights=True)
check_shape(to_mixtures, (1, 1, 32, 6))
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 4.6), width_ratios=[6, 1.6, 6])
mixing = linformer.attention.E.detach()
reached = (to_mixtures[0, 0] @ linformer.attention.F).detach()
heatmap(left, mixing, vmin=-0.5, vmax=0.5, cmap="PuOr")
heatmap(middle, to_mixtures[0, 0], vmax=0.6)
heatmap(right, reached, vmin=-0.5, vmax=0.5, cmap="PuOr")
left.set(title="E: 6 mixtures of 32 places", xlabel="place", ylabel="mixture", aspect="equal")
middle.set(title="weights", xlabel="mixture", ylabel="query", xticks=[])
right.set(title="weights times F: what reaches whom", xlabel="place", yticks=[])
figure.colorbar(right.images[0], ax=right, label="left and right: weight")
figure.suptitle(
    "Six mixtures reach all 32 words, and give some of them negative weights", fontsize=16
)
plt.show()
assert (reached < 0).any(dim=1).all() and torch.linalg.matrix_rank(reached) == 6

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, E, six rows of 32 numbers, negative in orange and positive in purple, without
# order. Middle, the weights, 32 queries by 6 mixtures. Right, their product with F, 32 by 32, full,
# with positive and negative entries. A colour bar serves left and right.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Untrained, so $E$ is noise. The weights are a softmax over 6 mixtures. Right: the weight of each
# word in each answer. It may be negative. All 32 rows are sums of the same 6.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Special case, and two limits
#
# With $r = n$ and $E = F = I$ each mixture is one word: plain attention (checked).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks a Linformer whose E and F are the identity against plain attention
identity, plain = (
    LinformerAttention(16, 2, 32, rank=32, dropout=0.0),
    MultiHeadAttention(16, 2, 0.0),
)
identity(X, X, X), plain(X, X, X)
with torch.no_grad():
    identity.attention.E.copy_(torch.eye(32))
    identity.attention.F.copy_(torch.eye(32))
state = identity.state_dict()
plain.load_state_dict({name: state[name] for name in state if name.startswith("W_")})
torch.testing.assert_close(identity(X, X, X), plain(X, X, X))
print("checked: with E = F = identity a Linformer is plain attention")

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Asks a Linformer for what it cannot do, and prints what it answers
for arguments in ({"is_causal": True}, {}):
    long = X if arguments else torch.randn(1, 33, 16)
    try:
        linformer(long, long, long, **arguments)
    except ValueError as error:
        print(textwrap.fill(str(error), 80) + "\n")
    else:
        raise AssertionError("Linformer must refuse")

# %% [markdown] slideshow={"slide_type": "fragment"}
# No causal form: a mixture holds the future. And an end: $E$ has `max_len` columns.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask why one cannot just mask. Someone finds it: by the time the queries look, tomorrow's words are
# stirred into the soup. The two messages are the package's own. Linformer is for reading (an
# encoder), not for writing.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### When do a few mixtures suffice?
#
# When the matrix has **low rank**, nearly. Wang et al. find that in trained models. The singular
# values tell how well rank 32 can do: the squares of the 32 largest, as a share of all their
# squares, is how much of the matrix the best approximation of rank 32 **holds**.
#
# **Predict.** Random queries and keys, 256 words. Multiply the scores by 1, 4, 16: the weights get
# sharper. Does rank 32 hold more of the matrix, or less?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Measures how much rank 32 holds of flat and of sharp weights
torch.manual_seed(0)
q, k = torch.randn(2, 256, 64)
held = {}
for sharp in (1, 4, 16):
    weights = (sharp * scaled_dot_score(q, k)).softmax(dim=-1)
    values = torch.linalg.svdvals(weights) ** 2
    held[sharp] = (values[:32].sum() / values.sum()).item()
    largest = weights.max(dim=-1).values.mean()
    print(f"scores times {sharp:2}: largest weight {largest:.2f}", end="")
    print(f", rank 32 of 256 holds {held[sharp]:.0%}")
assert held[1] > 0.75 and held[16] < 0.5 and held[1] > held[4] > held[16]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Less. Flat weights are nearly an average, and one mixture holds an average. Weights that point
# each word at a word of its own need all 256. **Good for** summing up, **bad for** pointing.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Move the brackets
#
# The matrix is between $Q$ and $V$ because of the exponential: $\exp(q \cdot k)$ cannot be pulled
# apart into finitely many features. Suppose it could be: into $f$, with $\exp(q \cdot k)$ replaced
# by $f(q) \cdot f(k)$. Then (Katharopoulos et al., 2020)
#
# $$\big(f(Q)\, f(K)^\top\big)\, V = f(Q)\, \big(f(K)^\top V\big)$$
#
# On the left $n \times n$ numbers stand between. On the right $d \times d$, whatever $n$. This is
# **linear attention**. Each row is divided by its sum of weights, as in a softmax.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **By hand.** One query, three keys, features given: $f(q) = (1, 2)$, and
# $f(k) = (1, 0), (0, 1), (1, 1)$ with values $3, 6, 9$. Compute the answer twice: weights first,
# then with the sums first.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Weights first: $1, 2, 3$, together 6. So $(1 \cdot 3 + 2 \cdot 6 + 3 \cdot 9)/6 = 42/6 = 7$.
#
# Sums first: $\sum f(k) v = (3 + 9,\ 6 + 9) = (12, 15)$ and $\sum f(k) = (2, 2)$. So
# $(1 \cdot 12 + 2 \cdot 15)/(1 \cdot 2 + 2 \cdot 2) = 42/6 = 7$. The sums did not need the query.

# %% slideshow={"slide_type": "fragment"}
query, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
values = torch.tensor([[3.0], [6.0], [9.0]])
answer, weights = linear_attention(query, keys, values, feature_map=lambda X: X, need_weights=True)
print([round(w, 3) for w in weights[0].tolist()], answer.item())
assert answer.item() == 7
torch.testing.assert_close(weights, torch.tensor([[1 / 6, 2 / 6, 3 / 6]]))

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes, in pairs; one does the first way, one the second. Then ask: if a second query comes,
# what of the second way has to be done again? Only the last line. That is the whole saving.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Special case: all of the exponential
#
# With infinitely many it can. For numbers ($d = 1$) the series of the exponential gives them:
#
# $$e^{qk} = \sum_m \frac{(qk)^m}{m!} = f(q) \cdot f(k), \qquad
#   f(x) = \Big(1,\; x,\; \tfrac{x^2}{\sqrt{2!}},\; \tfrac{x^3}{\sqrt{3!}},\; \dots\Big)$$
#
# **Predict.** How many terms until linear attention is plain attention, to six digits?


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures how near the first terms of the series come to plain attention
def powers(terms):
    scale = torch.tensor([math.factorial(m) for m in range(terms)], dtype=torch.float64).sqrt()
    return lambda X: X ** torch.arange(terms) / scale


torch.manual_seed(0)
q, k, v = torch.randn(3, 20, 1, dtype=torch.float64)
errors = {}
for is_causal in (False, True):
    expected = dot_product_attention(q, k, v, is_causal=is_causal)
    for terms in (3, 7, 13, 19, 25):
        output = linear_attention(q, k, v, is_causal=is_causal, feature_map=powers(terms))
        error = (output - expected).abs().max().item()
        errors[terms] = max(error, errors.get(terms, 0.0))
print("\n".join(f"{terms:2} terms: off by {error:.0e}" for terms, error in errors.items()))
assert errors[19] < 1e-6 < errors[13]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Between 13 and 19 here; larger $qk$ need more. With all terms it *is* plain attention. But for
# $d = 64$ the terms of order $m$ number about $64^m/m!$: the exact way costs more than the matrix.
# So one settles for few features, such as $f(x) = \mathrm{elu}(x) + 1$, number by number, and for
# other weights.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws softmax weights and linear weights of the same queries and keys
torch.manual_seed(0)
q, k = 3 * torch.randn(2, 32, 8)
soft = dot_product_attention(q, k, k, need_weights=True)[1]
linear = linear_attention(q, k, k, need_weights=True)[1]
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.9), sharey=True)
for ax, name, weights in zip(axes, ("softmax", "linear, elu + 1"), (soft, linear), strict=True):
    heatmap(ax, weights, vmax=0.4)
    title = f"{name}: largest {weights.amax(-1).mean():.2f}"
    ax.set(title=title, xlabel="key", aspect="equal")
axes[0].set_ylabel("query")
figure.colorbar(axes[0].images[0], ax=axes, label="weight, 0.4 or more is dark")
figure.suptitle("The same queries and keys: linear weights stay flat", fontsize=17)
plt.show()
assert soft.amax(-1).mean() > 0.6 and linear.amax(-1).mean() < 0.15

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps of 32 queries by 32 keys from the same numbers, the titles with the average
# of the rows' largest weights. Softmax: one or two dark cells in each row. Linear: pale throughout,
# with a few columns a little darker.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A network with a state
#
# Causal: the sums so far. So a model can write with nothing but
#
# $$S_i = S_{i-1} + f(k_i)\, v_i^\top, \qquad z_i = z_{i-1} + f(k_i), \qquad
#   o_i = \frac{f(q_i)^\top S_i}{f(q_i) \cdot z_i}$$
#
# That is a recurrent network, with a state of $d \times (d + 1)$ numbers.
#
# **Predict.** $d = 64$. After how many words is a cache of keys and values larger?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let them compute: $64 \cdot 65$ against $2 \cdot 64$ a word, so 33 words. Then the objection that
# must come: 'so a state that is as large as 33 words holds a million?' No. What it loses comes in
# two slides; do not give it away.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The state against the cache

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Writes word by word with the state, and compares its size with a cache
torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 1000, 64)
state, outputs = None, []
for i in range(1000):
    output, state = linear_attention_step(q[:, i], k[:, i], v[:, i], state)
    outputs.append(output)
    check_shape(state, (1, 64, 65))  # at the first word as at the last
together = linear_attention(q, k, v, is_causal=True)
torch.testing.assert_close(torch.stack(outputs, dim=1), together, atol=1e-5, rtol=1e-3)
print(f"state {64 * 65:,} numbers; cache: 32 words {32 * 128:,}, 33 words {33 * 128:,}")
assert 32 * 128 < 64 * 65 < 33 * 128

# %% [markdown] slideshow={"slide_type": "fragment"}
# 33 words. And word by word it gives what all at once gives.

# %% [markdown] slideshow={"slide_type": "skip"}
# Word by word is slow where the whole text is there already. The package then goes chunk by chunk:
# inside a chunk of 64 it forms the products, of all earlier chunks it takes the state.

# %% slideshow={"slide_type": "skip"}
show_source(causal_sums)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A state of constant size: what is lost?
#
# A **look-up**: $n$ random pairs of key and value, all keys of length 1. Then each key is asked for
# once more, and loudly: the query is the key times 400. Which value is nearest to the answer?
#
# **Predict.** 16 numbers a key. Right answers among 4, 16, 64, 256 pairs, with softmax and linear?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the right answers of the look-up
print(f"{'pairs':10}", *(f"{n:5}" for n in (4, 16, 64, 256)))
right = {}
forms = {
    "softmax": dot_product_attention,
    "linear": linear_attention,
    "raw sums": lambda q, k, v: k @ (k.mT @ v),  # asked by the key itself, nothing divides
}
for name, attend in forms.items():
    torch.manual_seed(0)
    right[name] = []
    for n in (4, 16, 64, 256):
        keys, values = torch.randn(2, 20, n, 16)
        keys = F.normalize(keys, dim=-1)
        answers = attend(400 * keys, keys, values)
        nearest = torch.cdist(answers, values).argmin(dim=-1)
        right[name].append((nearest == torch.arange(n)).float().mean().item())
    print(f"{name:10}", *(f"{share:5.0%}" for share in right[name]))
assert min(right["softmax"]) > 0.97 and right["linear"][0] < 0.5 and right["linear"][-1] < 0.1
assert right["raw sums"][0] == 1 > right["raw sums"][1] > right["raw sums"][2] > 0.1
assert right["raw sums"][3] < 0.1

# %% [markdown] slideshow={"slide_type": "fragment"}
# Softmax finds every one. Linear attention fails twice. Its *features* cannot point: where numbers
# are large, ten times the query is ten times the features, and after the division nothing has
# changed. That costs more than half of 4 pairs. And its *state* is small: the third row sums raw
# keys and values without a division. It finds all of 4, and ever fewer of more. Only orthogonal
# features do not blur each other, and of those there are $d$, not $n$.

# %% [markdown] slideshow={"slide_type": "skip"}
# (The third row differs from linear attention in three things at once, the features, the division
# and the scale. It shows that a small state forgets, not how much each of the three does.)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the two reasons: features that cannot point, and a state that is small
q, k = torch.randn(2, 8, 16).abs()  # positive numbers, where f(x) = x + 1
sharper = [linear_attention(s * q, k, k, need_weights=True)[1].max().item() for s in (10, 1000)]
assert abs(sharper[0] - sharper[1]) < 0.01

keys, values = torch.eye(16), torch.randn(16, 16)  # orthogonal: as many as a key has numbers
answers = linear_attention(keys, keys, values, feature_map=lambda X: X)
torch.testing.assert_close(answers, values)
torch.testing.assert_close(elu_plus_one(torch.tensor([2.0, 0.0])), torch.tensor([3.0, 1.0]))
print("checked: a larger query sharpens nothing; 16 orthogonal keys keep 16 values apart")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## No pairs at all
#
# What if no token looks at another? **Hyena** (Poli et al., 2023) mixes with a **long
# convolution**: what stood $s$ places back counts $h_s$, the same everywhere. Then it multiplies
# the result, number by number ($\odot$), by a gate $x$. This comes from the token and the two
# before it (a short convolution). And so again, with other filters and gates:
#
# $$z^{(1)} = v, \qquad z^{(i+1)} = x^{(i)} \odot (h^{(i)} * z^{(i)}), \qquad
#   (h * z)_t = \sum_{s \le t} h_s\, z_{t-s}$$
#
# **Predict.** A convolution as long as the text, as a matrix: what does it look like? How many
# different numbers does it hold?


# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Before the picture let them draw the matrix of a convolution with three taps, then make it longer.
# 32 numbers fill 528 cells. Ask what is the same in all rows: 'how far back' is all it knows. Then
# ask how the gates help, and take 'they can shut' as an answer.


# %% slideshow={"slide_type": "skip"}
def hyena_matrix(hyena, X, column):
    """What one column of the operator does to its values before W_o, as a matrix (n, n)."""
    n = X.shape[1]
    projected = F.pad(hyena.W_in(X).transpose(1, 2), (2, 0))
    _, *gates = hyena.short(projected).transpose(1, 2).chunk(hyena.order + 1, dim=-1)
    matrix = torch.eye(n)
    for gate, filters in zip(gates, hyena.filters(n), strict=True):
        # Each column of the matrix is a sequence: convolve it, then multiply by the gate.
        taps = filters[:, column : column + 1].expand(-1, n)
        matrix = gate[0, :, column : column + 1] * long_convolution(matrix, taps)
    return matrix.detach()


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws a long convolution as a matrix, and the two of Hyena with their gates
torch.manual_seed(0)
hyena, X = HyenaOperator(16, max_len=32), torch.randn(1, 32, 16)
toeplitz = long_convolution(torch.eye(32), hyena.filters(32)[0, :, 12:13].expand(-1, 32)).detach()
gated = hyena_matrix(hyena, X, column=12)
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.9), sharey=True)
for ax, matrix, title in zip(
    axes, (toeplitz, gated), ("one convolution", "two, with their gates"), strict=True
):
    scale = matrix.abs().max().item()
    heatmap(ax, matrix / scale, vmin=-1, vmax=1, cmap="PuOr")
    ax.set(title=title, xlabel="from", aspect="equal")
axes[0].set_ylabel("to")
figure.colorbar(axes[0].images[0], ax=axes, label="share of the largest")
figure.suptitle("A convolution is one row that slides; the gates make rows differ", fontsize=16)
plt.show()
index = torch.arange(32)
for matrix in (toeplitz, gated):
    assert (matrix.triu(1).abs() < 1e-5 * matrix.abs().max()).all()  # causal, but for rounding
torch.testing.assert_close(toeplitz[1:, 1:], toeplitz[:-1, :-1], atol=1e-6, rtol=0)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two lower triangles of 32 by 32, orange where negative, purple where positive. Left,
# stripes: each diagonal has one colour, strongest on the main diagonal. Right, the stripes are
# broken: rows and columns are stronger or weaker or change their sign. Both show column 12 of the
# values.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the right matrix of the figure against the operator
mixed = []
hook = hyena.W_o.register_forward_pre_hook(lambda module, inputs: mixed.append(inputs[0]))
hyena(X)
hook.remove()
values = hyena.short(F.pad(hyena.W_in(X).transpose(1, 2), (2, 0)))[0, 12]  # z^(1), column 12
torch.testing.assert_close(gated @ values, mixed[0][0, :, 12], atol=1e-5, rtol=1e-4)
print("checked: the right matrix times the values is what the operator computes in column 12")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Stripes: 32 numbers fill 528 cells, the same for every text. Only the gates (right) and the values
# hear the words.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### As fast as a Fourier transform
#
# As a sum, a long convolution costs $n^2/2$ again. By the fast Fourier transform it costs
# $n \log n$. Both give the same numbers:

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
X, filters = torch.randn(50, 3), torch.randn(50, 3)
direct = torch.stack([(filters[: t + 1].flip(0) * X[: t + 1]).sum(dim=0) for t in range(50)])
torch.testing.assert_close(long_convolution(X, filters), direct, atol=1e-4, rtol=1e-4)
print("50 tokens: the transform gives what the sum gives")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Special case: keys that are alike
#
# Attention to which all keys are alike averages the past. So does a filter of ones, with the gate
# $1/t$ at token $t$. Here both are the same.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Checks a filter of ones against attention to keys that are all alike
alike = torch.zeros(1, 50, 3)
average = dot_product_attention(alike, alike, X[None], is_causal=True)[0]
gate = 1 / torch.arange(1, 51)[:, None]
torch.testing.assert_close(gate * long_convolution(X, torch.ones(50, 3)), average)
print("checked: a filter of ones, gated by 1/t, is causal attention to keys that are all alike")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Hyena's bill
#
# **Good for** very long sequences: its authors report twice the speed of attention at 8,192 tokens
# and 100 times at 64,000, on their GPU and against the kernels of that time ($n^2$ against
# $n \log n$ would make 13 of the 2), and they test recall on more. **Weaker at** looking up by
# content than attention: $h_s$ knows how far back, not what stood there; only the gates hear the
# words (measured by Arora et al., 2023). It has an end, `max_len`, and is causal only to rounding,
# because the transform touches all tokens at once.
#
# | | links | causal | writes with |
# |---|---|---|---|
# | Linformer | $n\,r$ | no | (does not write) |
# | linear | none, $n\,d^2$ products | yes | a state of $d(d+1)$ numbers |
# | Hyena | none, $n \log n$ | always | the whole past |

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Other askers
#
# So far each token asks for itself. Must it be a token that asks?
#
# **DETR** (Carion et al., 2020) finds objects in a picture. Its queries are no pixels. They are $N$
# **learned** vectors, the same for every picture, and each answers with one object:
#
# $$\mathrm{softmax}\!\left(\frac{P\, K^\top}{\sqrt d}\right) V, \qquad P\ \text{parameters}, \quad
#   K, V\ \text{from the picture}$$
#
# **Predict.** Cost in $n$ pixels? And what could make two queries answer with *different* objects?

# %% [markdown] slideshow={"slide_type": "fragment"}
# $N n$ links: linear in $n$. Different vectors read differently; that they *should* must come from
# the loss.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A small try. A picture of $8 \times 8$ pixels with two lights. Two learned queries, each says
# (row, column) of one light. Which of them says which light is up to them: the loss takes the
# better of the two ways to **match** answers to lights.


# %% slideshow={"slide_type": "skip"}
SIDE = 8
PLACES = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)) / (SIDE - 1) * 2 - 1
WAYS = torch.tensor(list(itertools.permutations(range(2))))  # to give two lights to two queries


def pictures(n):
    """Pixels (n, 64, 3): brightness, row, column; and the places (n, 2, 2) of two lights."""
    lights = torch.rand(n, SIDE**2).argsort(dim=-1)[:, :2]
    brightness = torch.zeros(n, SIDE**2).scatter_(1, lights, 1.0)
    return torch.cat([brightness[..., None], PLACES.expand(n, -1, -1)], dim=-1), PLACES[lights]


class Finder(nn.Module):
    """Pixels (B, 64, 3) -> two places (B, 2, 2)."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32))
        self.ask, self.place = LearnedQueries(2, 32, num_heads=1, dropout=0.0), nn.Linear(32, 2)

    def forward(self, pixels):
        return self.place(self.ask(self.embed(pixels)))


def match(answers, lights):
    """The lights in the order of the queries that they suit best. (B, 2, 2)."""
    far = (answers[:, None] - lights[:, WAYS]).pow(2).sum(dim=(-2, -1))  # (B, ways)
    return lights.gather(1, WAYS[far.argmin(dim=1)][..., None].expand(-1, -1, 2))


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines how a finder is trained, matched or in a fixed order
def train_finder(matching, steps=300):
    torch.manual_seed(0)
    finder = Finder()
    finder(pictures(2)[0])
    optimizer = torch.optim.Adam(finder.parameters(), lr=0.005)
    for _ in range(steps):
        pixels, lights = pictures(64)
        answers = finder(pixels)
        wanted = match(answers, lights) if matching else lights
        loss = (answers - wanted).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return finder


# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** And with a fixed order, the first light for the first query, though nothing in the
# picture says which is first: what will the two answer?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Trains both finders, and measures how far off their answers are
finders = {matching: train_finder(matching) for matching in (True, False)}
torch.manual_seed(1)
pixels, lights = pictures(1000)
off, apart = {}, {}
for matching, finder in finders.items():
    with torch.no_grad():
        answers = finder(pixels)
    off[matching] = (answers - match(answers, lights)).norm(dim=-1).mean().item() * (SIDE - 1) / 2
    apart[matching] = (answers[:, 0] - answers[:, 1]).norm(dim=-1).mean().item() * (SIDE - 1) / 2
    name = "matched" if matching else "fixed order"
    print(
        f"{name:12} off by {off[matching]:.2f} pixels, the two answers {apart[matching]:.2f} apart"
    )
assert off[True] < 0.5 < 1.5 < off[False]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Matched, they come within a fraction of a pixel. In a fixed order both answer near the middle
# between the lights: the average of two guesses is the best that a squared error allows.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The vote is about the fixed order. Many say 'it learns it anyway'. Ask what a loss would say to
# somebody who names the right two lights in the wrong order. Then the middle is obvious.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Draws what the two queries read, and which lights each of them takes
with torch.no_grad():
    finder = finders[True]
    mine = match(finder(pixels), lights)
    finder.ask(finder.embed(pixels))
    weights = finder.ask.attention_weights
check_shape(weights, (1000, 1, 2, 64))  # picture, head, query, pixel
read = weights[:, 0].unflatten(-1, (SIDE, SIDE))
figure, axes = plt.subplots(1, 3, figsize=(10.8, 4.8), width_ratios=[1, 1, 1.05])
for query, ax in enumerate(axes[:2]):
    heatmap(ax, read[0, query], vmax=1.0)
    spots = (lights[0] + 1) / 2 * (SIDE - 1)
    ax.plot(spots[:, 1], spots[:, 0], "s", color="#D55E00", markersize=24, markerfacecolor="none")
    ax.set(title=f"query {query + 1} reads", aspect="equal", xticks=[], yticks=[])
jitter = 0.12 * torch.randn(300, 2, 2)
for query, marker in enumerate("o^"):
    cloud = (mine[:300, query] + 1) / 2 * (SIDE - 1) + jitter[:, query]
    color = ("tab:blue", "#D55E00")[query]
    axes[2].plot(cloud[:, 1], cloud[:, 0], marker, color=color, markersize=5, alpha=0.6)
    axes[2].plot([], [], marker, color=color, label=f"query {query + 1}")
axes[2].set(title="where each query's lights lie", aspect="equal", xticks=[], yticks=[])
axes[2].set(xlim=(-0.6, 7.6), ylim=(7.6, -0.6))
axes[2].spines[:].set_visible(False)
axes[2].legend(frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.02))
figure.suptitle("Each query reads one light, and they have shared out the picture", fontsize=16)
plt.show()

# The direction in which the two differ in half of the pictures: do the others keep to it?
apart = mine[:, 0] - mine[:, 1]
direction = F.normalize(apart[:500].mean(dim=0), dim=0)
keeps = (apart[500:] @ direction > 0).float().mean().item()
row, column = ((mine + 1) / 2 * (SIDE - 1)).round().long().unbind(dim=-1)
on_own = weights[:, 0].gather(2, (SIDE * row + column)[..., None]).mean().item()
print("query 1 takes the same one of the two, in a direction found on 500 pictures,")
down, right_hand = direction.tolist()
print(f"in {keeps:.0%} of 500 others: {down:.2f} down, {right_hand:.2f} to the right")
print(f"weight on a query's own light: {on_own:.2f}")
assert keeps > 0.9 and on_own > 0.8

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left and middle, the weights of the two queries over the 64 pixels of one picture: each
# is dark at one of the two lights, which are framed. Right, the lights of 300 pictures by the query
# that answered with them: in the run shown those of query 1 lie mostly on the right, those of query
# 2 on the left, with a mixed zone between: what counts is which of the two lights lies farther in
# that direction.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### They share out the picture
#
# The loss asked for two different answers. It did not say which query takes which light. In the run
# shown a query that always takes the right-hand light of the two (in one column, the lower) never
# collides with the one that takes the left. DETR's authors see the same in their figure 7: queries
# that specialise in areas and sizes of boxes.
#
# **Special case**: put the pixels themselves in for $P$, and it is self-attention. **Good for** any
# number of answers, whatever the size of the picture. **Bad for** more objects than queries, and
# for data that are few: what to ask has to be learned.

# %% [markdown] slideshow={"slide_type": "skip"}
# **The small print.** DETR's queries go through a whole decoder, six layers in which they also look
# at each other, so that they can agree. Its answers are boxes and classes, one of which is 'no
# object', and it finds the best match of a hundred answers with the Hungarian algorithm, where we
# try both ways.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks learned queries against self-attention, and the number of answers
layer, memory = LearnedQueries(6, 8, 2, 0.0), torch.randn(1, 6, 8)
layer(memory)
with torch.no_grad():
    layer.queries.copy_(memory[0])
torch.testing.assert_close(layer(memory), layer.attention(memory, memory, memory))
few, many = layer(torch.randn(3, 5, 8)), layer(torch.randn(3, 500, 8))
check_shape(few, (3, 6, 8))
check_shape(many, (3, 6, 8))
print("checked: queries = tokens is self-attention; 5 keys or 500 give six answers")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The direction in which they split is an accident of the start; run another seed and see. Of 24
# starts that we tried, two failed, both with twice this learning rate.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two words together
#
# *Alice fell asleep. A rabbit ran home at once. Alice saw the rabbit.* Which sentence has *Alice*
# **and** *rabbit*?
#
# A score $q \cdot k_j$ knows the query and **one** key. It can find 'Alice' and it can find
# 'rabbit'. In one layer it cannot say: both, beside each other. (Alice and the rabbit are the
# example of the authors below; the sentences are ours.)
#
# **Multi-token attention** (Golovneva et al., 2025) lets scores talk before the softmax: a
# convolution over neighbouring keys (and earlier queries), and afterwards a mix over heads.
#
# $$\mathrm{softmax}\!\Big(\sum_{a,\,b} c_{a b}\, s_{i - a,\; j - b}\Big)$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# **By hand.** The scores are 1 at *Alice* and *rabbit*, 0 elsewhere. Add to each score those of its
# four nearest neighbours, a kernel of five ones. Where is the largest sum?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the scores and their sums over five neighbours
text = "Alice fell asleep . A rabbit ran home at once . Alice saw the rabbit .".split()
scores = torch.tensor([float(word in ("Alice", "rabbit")) for word in text])
sums = F.conv1d(scores[None, None], torch.ones(1, 1, 5), padding=2)[0, 0]
figure, axes = plt.subplots(2, 1, figsize=(11, 4.8), sharex=True)
for ax, bars, title in (
    (axes[0], scores, "scores: 1 at every Alice, 1 at every rabbit"),
    (axes[1], sums, "summed over five neighbours: 2 where both stand together"),
):
    ax.bar(range(len(text)), bars, color=["#D55E00" if bar == 2 else "tab:blue" for bar in bars])
    ax.set(title=title, ylim=(0, 2.2), yticks=[0, 1, 2])
axes[1].set_xticks(range(len(text)), text, rotation=30)
plt.show()
assert [text[i] for i in (sums == 2).nonzero().flatten()] == ["saw", "the"]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of bars over sixteen tokens. Above, four bars of 1, at the two Alices and the
# two rabbits. Below, the sums over five neighbours: 2 at 'saw' and 'the', between the last Alice
# and the last rabbit, and 1 or 0 elsewhere.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# At *saw* and *the*, and nowhere else. But shorten the first sentence to *Alice slept*, and its
# full stop gets a 2 as well: a kernel knows neighbours, not sentences.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute with pencil and paper. Then ask how to fool the kernel before you show the last line: a
# shorter first sentence does it. The kernel's width decides what 'together' means.

# %% slideshow={"slide_type": "skip"}
shorter = "Alice slept . A rabbit ran home at once . Alice saw the rabbit .".split()
marks = torch.tensor([float(word in ("Alice", "rabbit")) for word in shorter])
fooled = F.conv1d(marks[None, None], torch.ones(1, 1, 5), padding=2)[0, 0] == 2
print("a sum of 2 at", [shorter[i] for i in fooled.nonzero().flatten()])
assert fooled.nonzero().flatten().tolist() == [2, 11, 12]

# %% [markdown] slideshow={"slide_type": "skip"}
# In the package, with padding in front so that no later query takes part:

# %% slideshow={"slide_type": "skip"}
show_source(key_query_convolution)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the package's convolution against the bars above
row = scores[None, None, None]  # sentence, head, query, key
convolved = key_query_convolution(row, torch.ones(1, 1, 5))
check_shape(convolved, (1, 1, 1, 16))
torch.testing.assert_close(convolved[0, 0, 0], sums)
print("checked: the package's convolution gives the bars above")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A game that plain attention loses
#
# 16 cards, each with one of 8 letters and one of the digits 0 to 3 (a blind guess: 25%). You are
# asked for two letters. Once they lie side by side, with one digit; and both lie apart, with
# another. **Which digit do the neighbours have?**


# %% slideshow={"slide_type": "skip"}
def cards(n):
    """Letters and digits (n, 16), the pair asked for (n, 2), the digit of its neighbours (n,)."""
    letters, row = torch.rand(n, 8).argsort(dim=-1), torch.arange(n)
    first, second, others = letters[:, 0], letters[:, 1], letters[:, 2:]
    letters, digits = others.gather(1, torch.randint(6, (n, 16))), torch.randint(4, (n, 16))
    right = torch.randint(4, (n,))
    wrong = (right + torch.randint(1, 4, (n,))) % 4
    # Four stretches of four cards. One holds both letters, two others hold one each. A letter's
    # place in its stretch is drawn in the same way in all of them, so that it gives nothing away.
    start = 4 * torch.rand(n, 4).argsort(dim=-1)[:, :3] + torch.randint(2, (n, 3))
    for place, letter, digit in (
        (start[:, 0], first, right),
        (start[:, 0] + 1, second, right),
        (start[:, 1], first, wrong),
        (start[:, 2] + 1, second, wrong),
    ):
        letters[row, place], digits[row, place] = letter, digit
    return letters, digits, torch.stack([first, second], dim=1), right


class Player(nn.Module):
    """Letters, digits (B, n) and a pair of letters (B, 2) -> scores of the 4 digits (B, 4)."""

    def __init__(self, attention, positions):
        super().__init__()
        self.letter, self.digit, self.asked = (nn.Embedding(size, 32) for size in (8, 4, 8))
        self.attention, self.positions, self.answer = attention, positions, nn.Linear(32, 4)

    def forward(self, letters, digits, pair):
        X = self.positions(self.letter(letters) + self.digit(digits))
        query = self.asked(pair).sum(dim=1, keepdim=True)
        return self.answer(self.attention(query, X, X))[:, 0]


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines how a player is trained and tested
def train_player(attention, positions, steps=300):
    """The share of right answers on new cards, and the player."""
    torch.manual_seed(0)
    player = Player(attention, positions)
    player(*cards(2)[:3])
    optimizer = torch.optim.Adam(player.parameters(), lr=0.01)
    for _ in range(steps):
        *given, right = cards(128)
        loss = F.cross_entropy(player(*given), right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        *given, right = cards(4000)
        return (player(*given).argmax(dim=-1) == right).float().mean().item(), player


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Deals 16 cards, and prints them with the two letters asked for
torch.manual_seed(0)
letters, digits, pair, right = cards(1)
print(
    "cards   ", *("abcdefgh"[i] + str(j.item()) for i, j in zip(letters[0], digits[0], strict=True))
)
print("asked   ", *("abcdefgh"[i] for i in pair[0]))

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the answer to this deal
print("answer  ", right.item())

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** One layer, one query, 300 steps. What share of right answers does plain attention
# reach? With positions added? And with scores that hear their two neighbours (`key_size=3`)?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Expect 100% for 'with positions'. Stay with it: knowing where *this* card lies is not knowing what
# lies beside it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One key at a time gets half right

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Trains three players, and prints their shares of right answers
players = {
    "plain": (MultiHeadAttention(32, 1, 0.0), nn.Identity()),
    "plain, with positions": (MultiHeadAttention(32, 1, 0.0), PositionalEncoding(32, 0.0)),
    "multi-token": (
        MultiTokenAttention(32, 1, 0.0, query_size=1, key_size=3, mix_heads=1),
        nn.Identity(),
    ),
}
shares = {}
for name, parts in players.items():
    shares[name], player = train_player(*parts)
    print(f"{name:22} {shares[name]:.0%}")
kernel = player.attention.attention.kernel.detach().flatten()
print("the kernel it learned:", [round(x, 2) for x in kernel.tolist()], "  it began as [0, 1, 0]")
assert shares["plain"] < 0.56 and shares["plain, with positions"] < 0.6
assert shares["multi-token"] > 0.97

# %% [markdown] slideshow={"slide_type": "fragment"}
# About half. Without positions it *cannot* do better: it sees a *bag* of cards, and the bag has
# both letters twice, once with each digit. With positions it could do a little better, by liking
# some places more than others (by hand, a rule of that kind reaches two thirds). But a score still
# asks one card alone, and cannot tell what lies beside it. A second layer could help, if the first
# tells each card what lies beside it.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that a bag gives nothing away, and how far a rule made by hand comes
torch.manual_seed(0)
letters, digits, pair, right = cards(500)
bag_player = Player(MultiHeadAttention(32, 1, 0.0), nn.Identity())
order = torch.randperm(16)
with torch.no_grad():
    shuffled = bag_player(letters[:, order], digits[:, order], pair)
    torch.testing.assert_close(shuffled, bag_player(letters, digits, pair))
asked = (letters[:, :, None] == pair[:, None]).float()
votes = torch.einsum("nkp,nkd->npd", asked, F.one_hot(digits, 4).float())
check_shape(votes, (500, 2, 4))
assert (votes.sum(dim=-1) == 2).all() and (votes[:, 0] == votes[:, 1]).all() and votes.max() == 1
print("checked: shuffled cards, same answer; each letter asked for has the same two digits")

# Each stretch of four cards is liked to another degree. Both neighbours count alike; the two that
# lie apart count for more only if both lie in stretches that are liked more, on the average.
likings = torch.tensor([0.01, 8, 9.1, 10]).repeat_interleave(4)
letters, digits, pair, right = cards(20_000)
asked = (letters[:, :, None] == pair[:, None]).any(dim=-1).float()
votes = torch.einsum("nk,nkd->nd", asked * likings, F.one_hot(digits, 4).float())
share = (votes.argmax(dim=-1) == right).float().mean().item()
print(f"a weight for the letter asked for, times the liking of its stretch: {share:.0%} right")
assert 0.65 < share < 0.69

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# In our first version of the game a letter's place gave the answer away, and plain attention with
# positions reached 92 to 100%. Tell them: a control that wins may be a leak in the game.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks multi-token attention against plain attention, and that no future comes in
multi = MultiTokenAttention(32, 4, 0.0, query_size=3, key_size=3, mix_heads=2)
plain, X = MultiHeadAttention(32, 4, 0.0), torch.randn(2, 9, 32)
multi(X, X, X), plain(X, X, X)
state = multi.state_dict()
plain.load_state_dict({name: state[name] for name in state if name.startswith("W_")})
for is_causal in (False, True):
    expected = plain(X, X, X, is_causal=is_causal)
    torch.testing.assert_close(multi(X, X, X, is_causal=is_causal), expected)
with torch.no_grad():
    multi.attention.kernel.normal_()
moved = X.clone()
moved[:, 6:] = 9.0  # another future
before = multi(X, X, X, is_causal=True)[:, :6]
torch.testing.assert_close(multi(moved, moved, moved, is_causal=True)[:, :6], before)
print("checked: identity kernel, plain attention; random kernel, the future stays hidden")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Special case: an identity kernel
#
# A new layer has the kernel $[0, 1, 0]$ and the identity over heads: multi-head attention
# (checked).
#
# **Cost**: $n^2$, and the scores have to be written down: PyTorch's fused attention cannot mix
# them. **Good for** looking up by several marks at once. **Bad for** long texts, unless it has a
# fused kernel of its own.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The bill
#
# One head of 64 numbers, forwards, one core. Time against length, both axes logarithmic. On these
# axes $n$ and $n^2$ are straight lines, $n^2$ twice as steep.
#
# **Predict.** From which length on does a window of 128 win against the fused kernel? And linear
# attention?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask for a length for each before the figure. Most guess too low for the window: 'at 257'. Blocks,
# gathers and masks cost something, too, and the fused kernel is very good. Run the cell live; the
# crossings move with the machine, the slopes do not.

# %% [markdown] slideshow={"slide_type": "skip"}
# Longformer has the window and 16 global tokens, BigBird blocks of 64 with a window of 1, 2 global
# and 3 random blocks. Swin, Linformer, Hyena, the learned queries and multi-token attention are
# layers, so that their projections count, too: they grow with $n$, and do not bend a line.


# %% slideshow={"slide_type": "skip"}
def forms_at(n):
    """Each form as a function without arguments, for one head of 64 numbers and n tokens."""
    q, k, v = torch.randn(3, 1, 1, n, 64, requires_grad=True)
    X, size = torch.randn(1, n, 64, requires_grad=True), 64
    hyena, linformer = HyenaOperator(size, n), LinformerAttention(size, 1, n, 256, 0.0)
    swin, learned = WindowAttention(size, 1, window_size=8), LearnedQueries(100, size, 1, 0.0)
    several = MultiTokenAttention(size, 1, 0.0, query_size=3, key_size=5, mix_heads=1)
    picture = X.unflatten(1, (16, n // 16))
    window, longformer = SlidingWindowAttention(128, 0.0), GlobalLocalAttention(128, 16, 0.0)
    bigbird = BigBirdAttention(64, 1, 2, 3, 0.0, seed=0)  # block, window, global, random
    forms = {
        "plain": lambda: dot_product_attention(q, k, v),
        "window 128": lambda: window(q, k, v),
        "Longformer": lambda: longformer(q, k, v),
        "BigBird": lambda: bigbird(q, k, v),
        "Swin 8 x 8": lambda: swin(picture),
        "Linformer 256": lambda: linformer(X, X, X),
        "linear, causal": lambda: linear_attention(q, k, v, is_causal=True),
        "Hyena": lambda: hyena(X),
        "100 learned queries": lambda: learned(X),
    }
    if n <= 2048:  # those that write the matrix down
        mask = sliding_window_mask(n, window=128)
        forms["plain, masked"] = lambda: dot_product_attention(q, k, v, mask=mask)
        forms["plain, weights kept"] = lambda: dot_product_attention(q, k, v, need_weights=True)
        forms["multi-token"] = lambda: several(X, X, X)
    return forms


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines how the bills are drawn
LEFT = ("plain, masked", "plain", "Longformer", "BigBird", "window 128", "Swin 8 x 8")
RIGHT = ("multi-token", "plain", "Hyena", "linear, causal", "Linformer 256", "100 learned queries")
LOOKS = dict(
    zip(
        dict.fromkeys(LEFT + RIGHT + ("plain, weights kept",)),
        [
            *(("0.55", "--", "s"), ("black", "-", "o"), ("tab:blue", "-", "^")),
            *(("#D55E00", "--", "v"), ("tab:blue", ":", "D"), ("#009E73", "-.", "P")),
            *(("0.55", "--", "s"), ("#D55E00", "-", "^"), ("tab:blue", "--", "v")),
            *(("#009E73", "-.", "P"), ("tab:blue", ":", "D"), ("0.55", "--", "s")),
        ],
        strict=True,
    )
)


def draw_bills(bills, unit, finding):
    figure, axes = plt.subplots(1, 2, figsize=(12, 5.6), sharey=True)
    panels = ("fewer links", LEFT), ("other mathematics, other askers", RIGHT)
    for ax, (title, names) in zip(axes, panels, strict=True):
        for name in names:
            if name in bills:
                color, style, marker = LOOKS[name]
                points = bills[name].items()
                ax.loglog(*zip(*points, strict=True), color=color, linestyle=style, marker=marker)
                ax.lines[-1].set_label(name)
        for power, label in ((1, "n"), (2, "n²")):  # thin guides below the lines
            guide = [0.04 * (n / 512) ** power for n in (512, 2048)]
            ax.loglog((512, 2048), guide, color="0.7", linewidth=1)
            ax.annotate(label, (2048, guide[-1]), xytext=(5, 0), textcoords="offset points")
        ax.set(title=title, xlabel="tokens")
        ax.set_xticks([512, 1024, 2048, 4096, 8192], ["512", "1k", "2k", "4k", "8k"])
        ax.minorticks_off()
        ax.legend(
            frameon=False, fontsize=12, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14)
        )
    axes[0].set_ylabel(unit)
    figure.suptitle(finding, fontsize=17)
    plt.show()


# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Measures the time of each form at five lengths, and draws it
times = {}
for n in (512, 1024, 2048, 4096, 8192):
    for name, form in forms_at(n).items():
        times.setdefault(name, {})[n] = 1000 * seconds(form)
draw_bills(
    times, "milliseconds", "Twice the text: plain takes four times as long, most others twice"
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels of milliseconds against tokens, 512 to 8,192, both axes logarithmic, with two
# thin grey guides labelled n and n². In each the black line of plain attention rises about twice as
# steeply as the other coloured lines. In the run shown it starts, at 512 tokens, below most of
# them, crosses these between 500 and 2,000, and is far above them at 8,192. The two grey dashed
# lines, plain attention under a mask and multi-token attention, measured up to 2,048, rise at least
# as steeply and lie above it.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same times as a table

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Prints the same times as a table
print(f"{'ms at':22}", *(f"{n:7,}" for n in (512, 2048, 8192)), "  growth   faster than plain from")
for name, spent in times.items():
    shown = " ".join(f"{spent[n]:7.1f}" if n in spent else "       " for n in (512, 2048, 8192))
    growth = f"{spent[8192] / spent[2048]:8.1f}" if 8192 in spent else " " * 8
    wins = [n for n, took in spent.items() if took < times["plain"][n]]
    print(f"{name:22} {shown} {growth}   {min(wins, default='-')}")
assert times["plain"][8192] > 10 * times["plain"][2048]  # about 16 times
for name in ("window 128", "Linformer 256", "linear, causal", "100 learned queries"):
    assert times[name][8192] < 10 * times[name][2048]  # about 4 times
assert times["window 128"][8192] < times["plain"][8192] / 3
assert sum(spent[512] > times["plain"][512] for spent in times.values()) > len(times) / 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 2,048 to 8,192 plain attention takes about sixteen times as long, and the others take about
# four times as long, give or take. But look at 512: there the plain kernel is faster than most.
# **Short texts need little of this.**

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And the memory?
#
# What a layer keeps for the way back, in MiB. It can be counted exactly: the tensors that autograd
# saves.
#
# **Predict.** Which of them keeps *least* at 8,192 tokens?


# %% slideshow={"slide_type": "skip"}
def kept_for_the_way_back(form):
    """MiB of the tensors that autograd saves in ``form()``, each storage once."""
    storages = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = form()
    assert output is not None  # alive until here, and with it all that was saved
    return sum(storages.values()) / 2**20


# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Counts the memory that each form keeps, and prints it
memory = {}
for n in (512, 1024, 2048, 4096, 8192):
    for name, form in forms_at(n).items():
        memory.setdefault(name, {})[n] = kept_for_the_way_back(form)
print(f"{'MiB kept at':22}", *(f"{n:7,}" for n in (512, 2048, 8192)), "  growth (512 to 2,048)")
for name, kept in memory.items():
    shown = " ".join(f"{kept[n]:7.1f}" if n in kept else "       " for n in (512, 2048, 8192))
    print(f"{name:22} {shown}{kept[2048] / kept[512]:13.1f}")
assert min(memory, key=lambda name: memory[name].get(8192, math.inf)) in (
    "plain",
    "100 learned queries",
)
assert memory["plain"][8192] < memory["window 128"][8192]
assert memory["plain, weights kept"][2048] > 5 * memory["plain"][2048]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Among those that answer every token, plain attention with the fused kernel. Its memory is linear
# in $n$, as theirs is, and smaller. Only whoever writes the matrix down pays for it. These forms
# save *time* (and, when writing, cache), not memory against a good kernel.
#
# That is no law: our windows copy blocks of keys, and a kernel written for windows need not.
# Swin, Linformer and Hyena are whole layers: a plain one keeps 10 MiB.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks how much a whole plain layer keeps
whole_layer, X = MultiHeadAttention(64, 1, 0.0), torch.randn(1, 8192, 64, requires_grad=True)
whole_layer(X[:, :2], X[:, :2], X[:, :2])  # the first call fixes the sizes
mebibytes = kept_for_the_way_back(lambda: whole_layer(X, X, X))
print(f"checked: a whole plain layer keeps {mebibytes:.0f} MiB at 8,192 tokens")
assert 10 <= mebibytes < 10.5

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# This is the slide that corrects the textbooks. Papers of 2020 compare with attention that stores
# its matrix, and rightly said that they save memory. Since 2022 the kernel does not store it. Ask
# what that changes for the choice of a form today.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### One test for all that write
#
# Chapter 4's: change the future, and nothing before it may move. Hyena is allowed some rounding.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that a changed future leaves the past as it was, for all forms that write
torch.manual_seed(0)
X = torch.randn(1, 40, 16)
other = X.clone()
other[:, 23:] = 9.0


def past_of(layer, X):
    return layer(X, X, X, is_causal=True)


writers = {
    "grouped": partial(past_of, GroupedQueryAttention(16, 4, 2, 0.0)),
    "window": partial(past_of, SlidingWindowAttention(5, 0.0)),
    "dilated": partial(past_of, SlidingWindowAttention(5, 0.0, dilation=3)),
    "Longformer": partial(past_of, GlobalLocalAttention(5, 2, 0.0)),
    "BigBird": partial(past_of, BigBirdAttention(4, 1, 1, 2, 0.0, seed=0)),
    "linear": lambda X: linear_attention(X, X, X, is_causal=True),
    "Hyena": HyenaOperator(16, 40),
}
for name, write in writers.items():
    before, after = write(X), write(other)
    leak = (before[:, :23] - after[:, :23]).abs().max().item()
    assert leak < (1e-4 if name == "Hyena" else 1e-6) and not torch.allclose(before, after), name
print("checked: the future was changed, the past stayed:", ", ".join(writers))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Choose
#
# All forms on 64 tokens: who sees whom, how many links, and what a writer keeps, word by word.
#
# **Question.** You are to write a long text, and memory is short. Which form do you take?

# %% [markdown] slideshow={"slide_type": "skip"}
# Left, the weights or links. Right, how many numbers one head keeps while it writes, beside plain
# attention's. The parameter means for each form what the title says. GQA is grouped-query
# attention, *global* is Longformer, DETR stands for learned queries, *multi* for multi-token
# attention. DETR, Swin and Linformer do not write.
#
# BigBird and global tokens: their authors use them for reading. Causal, a global first token is
# still seen by all but sees nobody: the two-layer path is lost, and only the look back remains.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines the view: for each form who sees whom, and what a writer keeps
torch.manual_seed(0)
N, SIZE = 64, 8
VIEW_X = torch.randn(1, N, SIZE)
VIEW_Q, VIEW_K = 2 * torch.randn(2, 1, N, 16)
GROWING = 2 * SIZE * torch.arange(1, N + 1)  # a key and a value for each word


def kept_by_pattern(pattern):
    """Numbers to keep after each word: keys and values that this or a later word asks for."""
    later = pattern.flip(0).cummax(dim=0).values.flip(0)  # (n, n): wanted from row i on
    return 2 * SIZE * later.tril().sum(dim=1)


def grouped_view(p, causal):
    pattern = causal_mask(N) if causal else torch.ones(N, N, dtype=torch.bool)
    kept = GROWING * p / 8 if causal else None
    return f"{p} of 8 heads of keys", pattern, int(pattern.sum()), kept


def swin_view(p, causal):
    pixels = torch.cartesian_prod(torch.arange(8) // p, torch.arange(8) // p)
    pattern = (pixels[:, None] == pixels).all(dim=-1)
    return f"windows of {p} x {p}", pattern, int(pattern.sum()), None


def linformer_view(p, causal):
    torch.manual_seed(0)
    layer = LinformerAttention(SIZE, 1, N, p, 0.0)
    weights = layer(VIEW_X, VIEW_X, VIEW_X, need_weights=True)[1][0, 0]
    return f"{p} mixtures", weights, N * p, None


def linear_view(p, causal):
    q, k = VIEW_Q[..., : 2 * p], VIEW_K[..., : 2 * p]
    weights = linear_attention(q, k, k, is_causal=causal, need_weights=True)[1][0]
    state = torch.full((N,), 2 * p * (SIZE + 1))
    return f"{2 * p} features", weights, 0, state if causal else None


def hyena_view(p, causal):
    torch.manual_seed(0)
    matrix = hyena_matrix(HyenaOperator(SIZE, N, order=p), VIEW_X, 6).abs()
    return f"{p} convolutions (causal)", matrix, 0, p * SIZE * torch.arange(1, N + 1)


def learned_view(p, causal):
    torch.manual_seed(0)
    layer = LearnedQueries(p, SIZE, 1, 0.0)
    return f"{p} queries", layer(VIEW_X, need_weights=True)[1][0, 0], N * p, None


def several_view(p, causal):
    torch.manual_seed(0)
    layer = MultiTokenAttention(SIZE, 1, 0.0, query_size=1, key_size=p, mix_heads=1)
    layer(VIEW_X, VIEW_X, VIEW_X)
    with torch.no_grad():
        layer.attention.kernel.fill_(4.0)
    weights = layer(VIEW_X, VIEW_X, VIEW_X, is_causal=causal, need_weights=True)[1][0, 0]
    links = N * (N + 1) // 2 if causal else N * N
    return f"kernel of {p} keys", weights, links, GROWING if causal else None


def mask_view(name, mask):
    def view(p, causal):
        pattern = mask(N, p) & causal_mask(N) if causal else mask(N, p)
        # The text goes on after the 64 shown: what those words ask for is kept, too.
        kept = kept_by_pattern(mask(2 * N, p) & causal_mask(2 * N))[:N] if causal else None
        return name.format(p), pattern, int(pattern.sum()), kept

    return view


def window_mask(n, p):
    return sliding_window_mask(n, window=p)


def dilated_mask(n, p):
    return sliding_window_mask(n, window=4, dilation=p)


def longformer_mask(n, p):
    return sliding_window_mask(n, window=4) | global_tokens_mask(torch.arange(n) < p)


def random_mask(n, p):
    return bigbird_mask(n, block_size=4, window=1, num_global=1, num_random=p, seed=0)


VIEWS = {
    "GQA": grouped_view,
    "window": mask_view("window of {}", window_mask),
    "dilated": mask_view("window of 4, {} apart", dilated_mask),
    "global": mask_view("window of 4, {} global", longformer_mask),
    "BigBird": mask_view("blocks of 4, {} random", random_mask),
    "Swin": swin_view,
    "Linformer": linformer_view,
    "linear": linear_view,
    "Hyena": hyena_view,
    "DETR": learned_view,
    "multi": several_view,
}
NO_CACHE = {
    "Swin": "a picture is not\nwritten word by word",
    "Linformer": "no causal form:\nmixtures hold the future",
    "DETR": "the queries have no order,\nso there is no causal form",
}


def draw_form(figure, form="window", parameter=4, causal=True):
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    what, pattern, links, kept = VIEWS[form](parameter, causal)
    pattern = pattern.float()
    # Links are there or not; of weights the largest would leave the others white.
    is_mask = pattern.unique().numel() < 3
    heatmap(left, pattern, vmax=1.4 if is_mask else pattern.quantile(0.98).item())
    left.set(title=f"{what}: {links:,} links", xticks=[], yticks=[], ylabel="query", xlabel="key")
    top = 1100 if kept is None else max(1100, 1.07 * kept[-1].item())  # Hyena keeps more
    right.set(xlim=(0, N), ylim=(0, top), xticks=[0, 32, 64])
    right.set(xlabel="words written", ylabel="numbers kept, one head")
    if kept is None:
        reason = NO_CACHE.get(form, "tick 'causal':\nonly who hides the future writes")
        right.text(32, 550, reason, ha="center", va="center", fontsize=15)
        right.set_title("does not write")
        return
    right.plot(range(1, N + 1), GROWING, color="0.6", linestyle="--")
    right.plot(range(1, N + 1), kept, color="tab:blue", linewidth=4)
    right.set_title(f"kept after 64 words: {kept[-1]:.0f}, plain {GROWING[-1]}")


# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let the room name forms. Untick 'causal' once: only who hides the future can write. What stops
# growing: window, dilated, Longformer, linear. What still looks at word 1: Longformer, if it is
# global, and linear in its blurred way. BigBird surprises: its global blocks and random links want
# old words, so hardly anything may be thrown away.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Question.** Which stop growing? Which of these can still look at the first word? (*GQA*: grouped
# queries; *global*: Longformer; *DETR*: learned queries; *multi*: multi-token.)

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the view: choose a form and its parameter
from ipywidgets import SelectionSlider

from d2l_attention.views import explore

explore(
    draw_form,
    figsize=(11, 4.8),
    alt="A form of attention: who sees whom among 64 tokens, and what a writer keeps.",
    form=list(VIEWS),
    parameter=SelectionSlider(options=[1, 2, 4, 8], value=4),
    causal=True,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of two panels. Left, who sees whom among 64 tokens, with the number
# of links in its title; it opens on a causal window of 4, half a band along the diagonal. Right,
# the numbers that one head keeps while it writes, against the words written, beside the dashed line
# of plain attention: it rises for five words, then stays.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Window, dilated, *global* and linear stop growing. Of these *global* still looks at word 1, if
# that is one of its global tokens, and linear at a sum into which word 1 went. BigBird grows: a
# random link may lead back to any block.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks which forms stop growing, and how far a causal global token carries
kept_after = {}
for name, form in VIEWS.items():
    _, pattern, links, kept = form(4, True)
    kept_after[name] = None if kept is None else [int(kept[31]), int(kept[63])]
    print(f"{name:16} {links:5} links   kept after 32 and 64 words: {kept_after[name]}")
still = {name for name, kept in kept_after.items() if kept and kept[0] == kept[1]}
assert still == {"window", "dilated", "linear", "global"}

reading, past = longformer_mask(N, 1), causal_mask(N)
assert torch.equal(heard(reading & past, 16), past) and not torch.equal(
    heard(reading & past, 15), past
)
print("checked: four forms stop growing; a causal global token needs 16 layers, as the window does")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## All on one page
#
# | form | links | equals plain attention if | weak at |
# |---|---|---|---|
# | grouped queries | $n^2$, cache $G/H$ | $G = H$ | heads that differ |
# | window, dilated | $n(2w+1)$ | $w \ge n$, no gaps | what is far |
# | Longformer, BigBird | $\approx n(2w + 2g + b)$ | all global | exact look-up, far |
# | Swin | $n M^2$ | one window, $B = 0$ | what is far, early |
# | Linformer | $n r$ | $E = F = I$ | pointing, writing |
# | linear | 0, products $n d^2$ | all of the series | look-up |
# | Hyena | 0, $n \log n$ | only if keys are alike | look-up by content |
# | learned queries | $n N$ | queries = tokens | many objects |
# | multi-token | $n^2$, stored | identity kernel | long texts |
#
# Tokens: $w$ a side, $g$ global, $b$ random. $M^2$ pixels, $r$ mixtures, $N$ queries.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Take this when ...
#
# (This is our judgement, not a measurement.)
#
# | form | take it when |
# |---|---|
# | grouped queries | text is written: nearly always |
# | window | a long text is mostly local; mix it with full layers |
# | Longformer, BigBird | a long document is read, and a few tokens concern all |
# | Swin | each pixel of a large picture needs an answer |
# | Linformer | texts are read, none longer than a known length |
# | linear | a text has no end, and a blurred memory will do |
# | Hyena | sequences are very long, and places say more than content |
# | learned queries | many tokens are to give a few answers |
# | multi-token | texts are short, and marks count only together |

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Two bills: $n^2$ links, and a cache that grows with every word. Grouped queries cut the second,
#   windows and linear attention both, Linformer the first, when it reads. Hyena cuts the first, and
#   of order 2 it keeps as much as plain attention.
# - A dense mask saves nothing in the fused kernel; only what is not computed is saved.
# - Links decide how far news travels: $w$ places a layer, two layers by way of a global token.
# - What stays constant forgets: $d$ features hold at most $d$ pairs without a blur.
# - Who asks may be learned, and scores may talk before they are weighed.
# - For short texts plain attention is faster than most; of the forms here that answer every token,
#   the fused kernel keeps the least memory.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("9.1")` gives one more hint each time, `solution("9.1")` the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.1** What a token weighs · *easy, 6 minutes* · by hand
#
# A decoder has 40 layers, and 24 heads of queries in each. A head is 128 numbers wide, a number
# takes 2 bytes.
#
# - How many KiB does one token add to the key-value cache in multi-head attention?
# - How many with 6 groups of keys and values?
# - How many MiB does the cache of 16,384 tokens take with 6 groups?
# - And how many MiB with 6 groups, if each layer keeps only the last 2,048?
#
# Give four numbers, such as `(1, 2, 3, 4)`. 1 KiB is 1,024 bytes, 1 MiB is 1,024 KiB.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("9.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.2** Count the links · *easy, 12 minutes* · predict, then measure
#
# A link is a pair of a query and a key that it may see: a True of the mask. There are 100 tokens.
# How many links are there,
#
# - if each token sees itself and 3 neighbours on each side?
# - if that is causal?
# - if it is not causal, and the 3 neighbours on each side are 4 places apart?
# - if they are 1 apart again, and the first 2 tokens are global?
# - in BigBird with blocks of 10 tokens, 1 block on each side, 1 global block and 2 random ones?
#
# Predict. Then measure with `sliding_window_mask`, `global_tokens_mask` and `bigbird_mask` of
# `d2l_attention`. Give five numbers, such as `(1, 2, 3, 4, 5)`.

# %% slideshow={"slide_type": "skip"}
answer = None

check("9.2", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.3** A window with gaps · *easy, 8 minutes* · complete a function
#
# Return a boolean mask (n, n), True = may attend. A token sees itself and `window` neighbours on
# each side, `dilation` places apart: with a window of 2 and a dilation of 3 token 7 sees 1, 4, 7,
# 10 and 13. With `is_causal` it sees no key after itself: `window + 1` keys are left. The window
# may be 0, or longer than the sequence; `n` and `dilation` are 1 or more.


# %% slideshow={"slide_type": "skip"}
def window_mask(n, window, dilation, is_causal):
    """Boolean mask (n, n), True = may attend: `window` neighbours, `dilation` places apart.

    Three tokens, a window of 1, a dilation of 2, not causal:
    [[True, False, True], [False, True, False], [True, False, True]].
    """
    ...


check("9.3", window_mask)

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.4** In the wrong group · *easy, 6 minutes* · find the bug
#
# `grouped_attention` gets H heads of queries (B, H, Q, D), and G heads of keys (B, G, K, D) and of
# values (B, G, K, V). It should give (B, H, Q, V), where query heads 0 to H / G - 1 read the first
# head of keys and values, the next H / G the second, and so on. Its dtype is that of the inputs,
# and gradients reach all three.
#
# Two tests were written for it: with G = H it equals multi-head attention, with G = 1 multi-query
# attention. It passes both, and a model whose weights are loaded into it talks nonsense. Mend it.


# %% slideshow={"slide_type": "skip"}
def grouped_attention(queries, keys, values):
    share = queries.shape[1] // keys.shape[1]
    keys, values = (X.repeat(1, share, 1, 1) for X in (keys, values))
    weights = (queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ values


check("9.4", grouped_attention)

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.5** Attention with a fixed memory · *medium, 12 minutes* · complete a function
#
# One token of causal linear attention. Query and key are (B, H, D), value (B, H, V). `f` is the
# feature map: it takes a query or a key and gives positive numbers of the same shape. The state is
# a pair `(S, z)`:
#
# - S (B, H, D, V), the sum of $f(k)\, v^\top$ over the tokens so far;
# - z (B, H, D), the sum of $f(k)$.
#
# Both are zeros before the first token. Return the output (B, H, V) and the state for the next
# step, such a pair again. Step by step it should give what `linear_attention` gives for all tokens
# at once with `is_causal=True`. All results have the dtype of the inputs, gradients reach query,
# key and value, and the state that came in does not change.


# %% slideshow={"slide_type": "skip"}
def linear_step(query, key, value, state, f):
    """One token: query, key (B, H, D), value (B, H, V) -> output (B, H, V), next state (S, z).

    A first token with f(q) = [[[1, 2]]], f(k) = [[[3, 1]]] and the value [[[5, 7]]] gives the
    output [[[5, 7]]] and S = [[[[15, 21], [5, 7]]]], z = [[[3, 1]]].
    """
    ...


check("9.5", linear_step)

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.6** Windows that moved · *medium, 18 minutes* · complete a function
#
# X (B, R, C, D) are feature maps. First the map moves up and to the left by `shift` pixels; what
# falls off comes in at the far side. Then it is cut into windows of `window` by `window` pixels,
# row by row, and so are the pixels in them. R and C are multiples of `window`, twice as much or
# more; the shift is 0 up to `window - 1`. Return two results:
#
# - the windows (B * W, window², D), all W windows of a map, then those of the next;
# - a boolean mask (W, window², window²), True = may attend: pixels of a window see each other,
#   unless one came in at the far side of an axis and the other did not.
#
# The windows have the dtype of X, and gradients reach X.


# %% slideshow={"slide_type": "skip"}
def shifted_windows(X, window, shift):
    """Windows (B * W, window², D) of the moved maps X (B, R, C, D), and mask (W, window², window²).

    A map of 2 by 2, [[[[1], [2]], [[3], [4]]]], with a window of 1 and a shift of 0 gives the
    windows [[[1]], [[2]], [[3]], [[4]]] and the mask [[[True]], [[True]], [[True]], [[True]]].
    """
    ...


check("9.6", shifted_windows)

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.7** Does it keep the order? · *hard, 30 minutes* · write the test
#
# Your test takes a function that reads X (B, n, 8), n up to 16, and gives (B, n, 8). It has no
# dropout, and acts alike in training and evaluation. On causal ones your test returns without a
# word. They come in four forms: a window, multi-token attention, linear attention and Hyena.
# Hyena's transform moves the past by rounding: let differences below 1e-4 pass. Your test raises an
# `AssertionError` for each of seven others:
#
# - a window off by one, so that each token sees the next;
# - multi-token attention that masks only after its convolution;
# - a Linformer with a causal mask over its mixtures;
# - a dilated window that sees the third token after each, and not the two nearer;
# - a causal mask with one random link too many: token 1 also sees token 4 (counted from 0);
# - linear attention that divides by a sum over all keys;
# - a long convolution by a Fourier transform without zeros after the end.


# %% slideshow={"slide_type": "skip"}
def test_keeps_the_order(layer):
    """Pass on causal layers, and fail by an `AssertionError` on those that see the future.

    `layer` is a function: X (B, n, 8) -> (B, n, 8). A test that looks only at the shape would be
    `assert layer(torch.randn(2, 12, 8)).shape == (2, 12, 8)`.
    """
    ...


check("9.7", test_keeps_the_order)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.2.
# - N. Shazeer, *Fast Transformer Decoding: One Write-Head is All You Need*, 2019, arXiv:1911.02150.
#   Multi-query attention.
# - J. Ainslie et al., *GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
#   Checkpoints*, EMNLP 2023, arXiv:2305.13245. Section 2.2, and abstract for the finding.
# - I. Beltagy, M. E. Peters, A. Cohan, *Longformer: The Long-Document Transformer*, 2020,
#   arXiv:2004.05150. Sections 3.1 and 4.1: window, dilation, global tokens.
# - N. Parmar et al., *Image Transformer*, ICML 2018, arXiv:1802.05751; R. Child et al., *Generating
#   Long Sequences with Sparse Transformers*, 2019, arXiv:1904.10509. Windows before Longformer's.
# - G. Xiao et al., *Efficient Streaming Language Models with Attention Sinks*, 2023,
#   arXiv:2309.17453. What breaks when the first tokens leave a cache.
# - M. Zaheer et al., *Big Bird: Transformers for Longer Sequences*, NeurIPS 2020, arXiv:2007.14062.
#   Sections 2 and 3.
# - Z. Liu et al., *Swin Transformer: Hierarchical Vision Transformer using Shifted Windows*, ICCV
#   2021, arXiv:2103.14030. Section 3.2, equations 3 and 4.
# - S. Wang et al., *Linformer: Self-Attention with Linear Complexity*, 2020, arXiv:2006.04768.
#   Sections 3 and 4.
# - A. Katharopoulos et al., *Transformers are RNNs: Fast Autoregressive Transformers with Linear
#   Attention*, ICML 2020, arXiv:2006.16236. Sections 3.2 to 3.4.
# - M. Poli et al., *Hyena Hierarchy: Towards Larger Convolutional Language Models*, ICML 2023,
#   arXiv:2302.10866. Definition 3.1; section 4 for what they measure.
# - S. Arora et al., *Zoology: Measuring and Improving Recall in Efficient Language Models*, 2023,
#   arXiv:2312.04927.
# - N. Carion et al., *End-to-End Object Detection with Transformers*, ECCV 2020, arXiv:2005.12872.
#   Sections 3.1 and 3.2, figure 7.
# - T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, *FlashAttention: Fast and Memory-Efficient Exact
#   Attention with IO-Awareness*, NeurIPS 2022, arXiv:2205.14135. A kernel that stores no matrix.
# - O. Golovneva et al., *Multi-Token Attention*, 2025, arXiv:2504.00927. Section 3; without its
#   group normalisation.

# %% [markdown] slideshow={"slide_type": "skip"}
# The shapes of the models:
#
# - H. Touvron et al., *LLaMA: Open and Efficient Foundation Language Models*, 2023,
#   arXiv:2302.13971, table 2; *Llama 2: Open Foundation and Fine-Tuned Chat Models*, 2023,
#   arXiv:2307.09288, section 2.2 and appendix A.2.1.
# - A. Q. Jiang et al., *Mistral 7B*, 2023, arXiv:2310.06825, table 1.
# - E. Almazrouei et al., *The Falcon Series of Open Language Models*, 2023, arXiv:2311.16867, and
#   the model's config.json.
# - Llama Team, *The Llama 3 Herd of Models*, 2024, arXiv:2407.21783, table 3.
