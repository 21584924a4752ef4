# %% [markdown] slideshow={"slide_type": "slide"}
# # 9 · Attention in all its forms
#
# **You will**
# - count what plain attention costs in links and in cache, and say which form cuts which of the
#   two;
# - write the central lines of several forms yourself (in the exercises);
# - say what each form gives up, and for some forms when they equal plain attention;
# - choose a form from measured times and from what trained models can look up.
#
# Core path: 70 to 105 minutes, in two sittings. Going further: 25. Exercises: 92. A good place to
# stop is after *Swin: windows in a grid*. Builds on chapters 3, 4 and 6 to 8. *Dive into Deep
# Learning* (D2L) keeps to plain attention in its chapter 11.

# %% [markdown] slideshow={"slide_type": "notes"}
# 47 minutes, for two lectures of 45: 24 for the first, up to *Swin: windows in a grid*, and 23 for
# the second, from *Linformer: fewer keys* on. Behind? Leave out *Linformer: fewer keys*. The slides
# of *Going further* come after the summary. The figures of other people were looked up in the
# abstracts (GQA, Zoology).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import itertools
import math
import time
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from ipywidgets import SelectionSlider
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle
from torch import nn

from d2l_attention import causal_mask, dot_product_attention, scaled_dot_score
from d2l_attention.scale.cache_size import PUBLISHED, cache_bytes
from d2l_attention.variants import (
    BigBirdAttention,
    GlobalLocalAttention,
    LinformerAttention,
    SlidingWindowAttention,
    WindowAttention,
    linear_attention,
)
from d2l_attention.variants.grouped import GroupedDotProductAttention
from d2l_attention.variants.masks import bigbird_mask, sliding_window_mask
from d2l_attention.variants.multi_token import multi_token_weights
from d2l_attention.views import explore
from d2l_attention.views.palette import (
    FAINT,
    FORBIDDEN,
    GREY,
    GROUND,
    INK,
    KEY,
    OUTPUT,
    PALE,
    QUERY,
    RULE,
    SERIES,
    TINT,
    VALUE,
    WEIGHT,
    ramp_to,
)
from d2l_attention.views.plots import hatch_zeros, heatmap, name_sides, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines what measures seconds, and what draws boxes, arrows and words beside a grid


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


def canvas(width, height, title):
    figure, ax = plt.subplots(figsize=(width, height))
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.set_aspect("equal")
    ax.axis("off")
    figure.suptitle(title, fontsize=17)
    return ax


def block(ax, x, y, width, height, text="", colour=INK, below="", size=13):
    """A rectangle around (x, y) with a text in it and one below it."""
    corner = x - width / 2, y - height / 2
    ax.add_patch(Rectangle(corner, width, height, facecolor=PALE, edgecolor=colour, lw=2))
    ax.text(x, y, text, ha="center", va="center", fontsize=size, color=colour)
    ax.text(x, y - height / 2 - 0.08, below, ha="center", va="top", fontsize=12)


FILLED = {"vmax": 1.0, "cmap": ramp_to(GREY)}  # a link is there or not, and no weight


def arrow(ax, start, end):
    style = {"arrowstyle": "-|>", "mutation_scale": 16, "linewidth": 1.8, "color": INK}
    ax.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, **style))


# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention** (chapter 3). The score of a query $q$ and a key $k$, of $d$ numbers each, is $q
#   \cdot k / \sqrt d$. A softmax turns the scores into weights, and the output is the weighted sum
#   of the values: $\mathrm{softmax}(\mathbf Q \mathbf K^\top / \sqrt d)\, \mathbf V$.
# - **Mask** (chapter 4): True means that the query may attend to the key.
# - **Heads** (chapter 6). Each has its own queries, keys and values.
# - **Cache** (chapter 8). A model that generates text keeps the keys and values of all tokens.
#
# In code, attention takes four lines:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def attend(q, k, v, mask=None):  # (*, Q, d), (*, K, d), (*, K, V) -> (*, Q, V)
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (*, Q, K)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ v


# %% [markdown] slideshow={"slide_type": "slide"}
# ## What plain attention costs: a book of 100,000 words
#
# So far every word saw all others, or all before it. But what if there are too many words? Suppose
# a model reads a novel of 100,000 words, each of them a token, and every word may look at every
# other. A pair of a query and a key that it may see is called a **link**, and one head computes a
# weight for each link. With four bytes per weight, these are:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Works out the weights of the book, and their bytes
words = 100_000
print(f"{words**2:,} weights, {4 * words**2 / 1e9:.0f} GB")

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures 4,096 words in one head, and works out the book
q, k, v = torch.randn(3, 1, 1, 4096, 64)
head = seconds(lambda: dot_product_attention(q, k, v)) * (100_000 / 4096) ** 2
print("on one core, from the time for 4,096 words, which is multiplied by (100,000 / 4096)²:")
print(f"{head:.0f} s per head of size 64, {32 * head / 60:.0f} minutes for 32 heads")

# %% [markdown] slideshow={"slide_type": "fragment"}
# PyTorch's fused kernel, which chapter 10 takes apart, never writes these 40 GB down, but it does
# compute every link.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room vote on the bytes. 40 GB is more than most graphics cards in the room
# have. Then say what is *not* the trouble: memory for the matrix, which a good kernel avoids. The
# links themselves remain.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two bills: links and cache
#
# So plain attention presents us with two bills:
#
# - **Links.** $n$ words have $n^2$ links, or $n(n+1)/2$ if attention is causal. Each link costs $d$
#   multiplications for the score and $d$ for the value.
# - **Cache.** A model that generates text keeps a key and a value of each word, in each head and
#   layer, and reads all of them for every new word.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the links and the cache of 4 and of 8 words
ax = canvas(11, 2.9, "Twice the words: twice the cache, but four times the links")
for n, left, y in ((4, 0.9, 1.75), (8, 2.7, 0.75)):
    for i, j in itertools.product(range(n), range(n)):
        corner = left + 0.25 * j, 0.45 + 0.25 * i
        ax.add_patch(Rectangle(corner, 0.25, 0.25, facecolor=TINT, edgecolor=INK))
    ax.text(left + n / 8, 0.35, f"{n * n} links", ha="center", va="top")
    for row, colour, marker in ((y + 0.35, KEY, "s"), (y, VALUE, "D")):
        ax.plot([6 + 0.3 * i for i in range(n)], [row] * n, marker, color=colour, markersize=9)
    ax.text(5.95 + 0.3 * n, y + 0.17, f"keys and values\nof {n} words", va="center")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, squares of 4 by 4 and of 8 by 8 cells, named 16 links and 64 links. Right, a row of
# keys and one of values, first for 4 words, then for 8.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Which of the two bills could you cut, and how? Write the answers on the board: 'not
# look so far', 'look at summaries', 'fewer heads'. Nearly every form of this chapter comes up.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Which piece of attention can we change, and which bill does that cut? There are six answers:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the map: what each form changes, and which bill it cuts
ax = canvas(12, 3.3, "Each form changes another piece of plain attention")


def square(left, width=1.5, height=1.5, colour=TINT):
    corner = left, 0.85 + (1.5 - height) / 2
    ax.add_patch(Rectangle(corner, width, height, facecolor=colour, edgecolor=INK))


panels = [
    ("fewer heads\nof keys", "grouped queries", "cache"),
    ("fewer links", "windows", "links, and often\nthe cache"),
    ("fewer keys", "Linformer", "links"),
    ("no $n \\times n$ matrix", "linear, Hyena", "links, and often\nthe cache"),
    ("fewer queries", "learned queries", "links"),
    ("nothing: scores\nare mixed", "multi-token", "neither"),
]
for column, (cut, form, bill) in enumerate(panels):
    left = 0.25 + 2.0 * column
    ax.text(left + 0.75, 2.5, cut, ha="center", va="bottom", fontsize=14)
    ax.text(left + 0.75, 0.75, form, ha="center", va="top", fontsize=13)
    ax.text(left + 0.75, 0.48, f"cuts: {bill}", ha="center", va="top", fontsize=13, color=FAINT)
    if column == 0:
        for shift in (0.24, 0.16, 0.08):
            square(left + shift, 1.26, 1.26, GROUND)
        square(left, 1.26, 1.26)
    if column == 1:
        square(left, colour=GROUND)
        for i in range(12):
            ends = max(0, i - 2), min(12, i + 3)
            corner = left + ends[0] / 8, 2.35 - (i + 1) / 8
            ax.add_patch(Rectangle(corner, (ends[1] - ends[0]) / 8, 1 / 8, color=TINT))
    if column == 2:
        square(left + 0.5, width=0.5)
    if column == 3:
        square(left, colour=GROUND)
        ax.plot([left, left + 1.5], [0.85, 2.35], color=INK, linewidth=1.5)
        ax.plot([left, left + 1.5], [2.35, 0.85], color=INK, linewidth=1.5)
    if column == 4:
        square(left, height=0.4)
    if column == 5:
        square(left)
        for row, tap in itertools.product(range(3), range(3)):
            corner = left + 0.5 + tap / 6, 1.35 + row / 6
            ax.add_patch(Rectangle(corner, 1 / 6, 1 / 6, facecolor=WEIGHT, edgecolor=INK))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: six panels, each with a square for the matrix of weights, queries down, keys across.
# Fewer heads of keys (grouped queries): a stack of squares of which one is filled; it cuts the
# cache. Fewer links (windows): a band along the diagonal; it cuts links, and often the cache. Fewer
# keys (Linformer): a narrow rectangle, cuts links. No matrix (linear, Hyena): a crossed-out square,
# cuts links, and often the cache. Fewer queries (learned queries): a flat rectangle, cuts links.
# Nothing (multi-token): a full square with a small kernel, cuts neither.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Come back to this map before each section.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Grouped-query attention: a smaller cache
#
# We begin with the cache. Llama 2 7B has 32 layers of 32 heads, 128 numbers per head and 2 bytes
# per number.
#
# **By hand.** By how much does its cache grow with each word? How large is it after 4,096 words?

# %% slideshow={"slide_type": "fragment"}
a_word = 2 * 32 * 32 * 128 * 2  # key and value, layers, heads, numbers, bytes
print(f"one word: {a_word / 2**20} MiB, 4,096 words: {4096 * a_word / 2**30} GiB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# To generate one more word, the model reads all of it once: 2 GiB for a single word.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes with pencil and paper; all factors are powers of two that they know. Who forgets the
# layers gets 16 KiB. The point is the last sentence: to generate *one* word the machine moves 2 GiB
# and does hardly any arithmetic with it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Let heads share keys
#
# One factor of this product is the number of heads of keys and values, and heads of queries can
# share these. In **multi-query** attention (Shazeer, 2019) all $H$ heads of queries read a single
# head of keys and values. In **grouped-query** attention (GQA; Ainslie et al., 2023) there are $G$
# of them, and each serves $H/G$ neighbouring heads of queries.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws which head of queries reads which head of keys and values
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2))
names = {8: "multi-head, G = 8", 2: "grouped-query, G = 2", 1: "multi-query, G = 1"}
for ax, (groups, name) in zip(axes, names.items(), strict=True):
    share = 8 // groups
    for h in range(8):
        group = h // share
        ax.plot([h, group * share + (share - 1) / 2], [1, 0], color=GREY, linewidth=1.6)
        ax.plot(h, 1, "o", color=QUERY, markersize=15)
        ax.text(h, 1.17, h, ha="center", fontsize=13)
    for group in range(groups):
        centre = group * share + (share - 1) / 2
        ax.plot(centre, 0, "s", color=KEY, markersize=17)
        ax.text(centre, -0.32, group, ha="center", fontsize=13)
    ax.set(title=name, xlim=(-0.6, 7.6), ylim=(-0.45, 1.4))
    ax.axis("off")
figure.text(
    0.5, -0.02, "circles: heads of queries      squares: heads of keys and values", ha="center"
)
figure.suptitle("Only the squares are kept: 8, 2 or 1", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three panels, each with eight circles above, the heads of queries, wired to squares
# below, the heads of keys and values. Multi-head: eight squares, one for each circle.
# Grouped-query: two squares, the first wired to circles 0 to 3, the second to 4 to 7. Multi-query:
# one square wired to all circles.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. In the middle picture: which square is circle 5 wired to? Then let them say what the
# cache loses.

# %% [markdown] slideshow={"slide_type": "subslide"}
# In code, the heads that share keys get an axis of their own. With $G = H$ this is multi-head
# attention, and with $G = 1$ it is multi-query attention.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_grouped_attention(q, k, v):  # (B, H, Q, d), (B, G, K, d), (B, G, K, V)
    groups = k.shape[1]
    q = q.unflatten(1, (groups, -1))  # (B, G, H / G, Q, d): heads that share keys
    heads = attend(q, k[:, :, None], v[:, :, None])  # keys (B, G, 1, K, d), the same for all
    return heads.flatten(1, 2)  # (B, H, Q, V)


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Which line makes the heads share? The axis of 1 that the keys get.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks grouped attention against the package, repeated keys and multi-query attention
torch.manual_seed(0)
q, package = torch.randn(2, 8, 5, 4), GroupedDotProductAttention(0.0)
for groups in (8, 4, 2, 1):
    k, v = torch.randn(2, groups, 7, 4), torch.randn(2, groups, 7, 3)
    found = plain_grouped_attention(q, k, v)
    repeated = (X.repeat_interleave(8 // groups, dim=1) for X in (k, v))
    torch.testing.assert_close(found, attend(q, *repeated))
    torch.testing.assert_close(found, package(q, k, v))
torch.testing.assert_close(found, attend(q, k, v))  # one head of keys, for all by broadcasting
print("checked: 8, 4, 2 and 1 groups equal the package's, and multi-head with repeated keys")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The caches of published models
#
# | | layers | heads | $G$ | numbers per head |
# |---|---|---|---|---|
# | Llama 2 7B | 32 | 32 | 32 | 128 |
# | Llama 2 70B | 80 | 64 | 8 | 128 |
#
# **Predict.** Which of the two has the larger cache, and how many times as large?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Works out the caches of these two models, and of three more
for model in PUBLISHED:
    print(f"{model.name:13}G = {model.num_kv_heads:2}, ", end="")
    print(f"{model.bytes(1) / 2**10:3.0f} KiB per word, ", end="")
    print(f"{model.bytes(4096) / 2**30:.2f} GiB after 4,096 words")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The small one: it keeps $32 \cdot 32 = 1024$ heads of keys and the large one only $80 \cdot 8 =
# 640$, so the small model's cache is 1.6 times as large.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Vote first: expect 70B. Then let them multiply.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Grouped queries save cache, not links
#
# Suppose a layer of 16 heads, of 64 numbers each, has 8,192 words in its cache and reads one more.
# Each head of queries still looks at each word, whatever $G$ is, so the number of links does not
# change. Does the time change?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures how long one more word takes, for each number of groups
took, size, word = {}, 64, torch.randn(1, 1, 16 * 64)
print(f"{'cache':>14}{'attention':>14}{'W_k and W_v':>14}")
for groups in (16, 8, 4, 1):
    k, v = torch.randn(2, 1, groups, 8193, size)
    W_k, W_v = (nn.Linear(16 * size, groups * size, bias=False) for _ in range(2))
    read = partial(GroupedDotProductAttention(0.0), torch.randn(1, 16, 1, size), k, v)
    project = partial(lambda W_k, W_v: (W_k(word), W_v(word)), W_k, W_v)
    took[groups] = [1000 * seconds(run, repeats=31) for run in (read, project)]
    kept = cache_bytes(1, groups, size, 8192, bytes_per_number=4) / 2**20
    print(f"G = {groups:2}  {kept:3.0f} MiB", *(f"{ms:10.2f} ms" for ms in took[groups]))
assert all(fewer < more for fewer, more in zip(took[1], took[16], strict=True))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Yes, it falls: mostly because fewer keys and values have to be read from memory, and partly
# because heads that share keys are computed in one product. The smaller matrices $\mathbf W_k$ and
# $\mathbf W_v$ add a small part to the gain. In return, heads lose keys of their own. Ainslie et
# al. report that multi-query attention can lose quality, and that groups come close to multi-head
# attention in quality and to multi-query attention in speed.
#
# The first bill, however, stays as it was: to read the whole book at once, each head still computes
# about $n^2/2$ links.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Expect 'no, the links are the same'. Ask back what the machine must *fetch* for one
# link. Close with the links: they are the bridge to the next section.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Sliding windows: fewer links
#
# How can the links be cut? Much of what a word needs is near it. In a **sliding window**, word $i$
# therefore sees only itself and $w$ neighbours on each side: the keys $j$ with $\lvert i - j\rvert
# \le w$. Each query meets only the keys of its window:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_window_mask(n, window):  # bool (n, n)
    i = torch.arange(n)
    return (i[:, None] - i).abs() <= window


def plain_window_attention(q, k, v, window):  # (n, d), (n, d), (n, V) -> (n, V)
    outputs = []
    for i in range(len(q)):
        near = slice(max(0, i - window), i + window + 1)
        outputs.append(attend(q[i : i + 1], k[near], v[near]))
    return torch.cat(outputs)


# %% [markdown] slideshow={"slide_type": "-"}
# There are $n(2w + 1) - w(w + 1)$ links if $w < n$. For a fixed window they grow like $n$: with one
# neighbour on each side, 100 words have 298 links instead of 10,000.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let them count the links of six words with a window of 1: 16 of 36.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The window as a mask
#
# Would it not be simpler to keep plain attention, and to give it the window as a mask?
#
# **Predict.** At 4,096 words with $w = 128$, this mask hides 94% of the links. How many times as
# fast is plain attention with it?

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

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Expect 'sixteen times', from 4096 / 257. This is the commonest mistake about sparse
# attention: to believe that zeros are free.

# %% [markdown] slideshow={"slide_type": "subslide"}
# It is slower, not faster, because the kernel computes the hidden scores anyway and has the mask to
# process as well. The window's own layer gives the same outputs, but computes only the blocks that
# the window touches: here each block of 128 queries meets 384 keys instead of 4,096. (A kernel that
# is told which *blocks* of a mask are empty can skip them, as chapter 11 shows.)

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws which scores are computed, and which of them are hidden afterwards
near = plain_window_mask(128, window=4)  # a cell for each 32 words, and blocks of 4 cells
number = torch.arange(128) // 4  # of the block
blocks, every = (number[:, None] - number).abs() <= 1, torch.ones_like(near)
figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.5))
panels = {"plain": (every, every), "plain, masked": (near, every), "window": (near, blocks)}
for ax, (name, (used, computed)) in zip(axes, panels.items(), strict=True):
    heatmap(ax, used + 0.25 * (computed & ~used), **FILLED)
    ax.set(aspect="equal", xticks=[], yticks=[], title=name)
triangles = [(4, -0.5), (127.5, -0.5), (127.5, 123)], [(-0.5, 4), (-0.5, 127.5), (123, 127.5)]
for corners in triangles:  # what the mask hides, at both sides of the band
    hidden = Polygon(corners, fill=False, edgecolor=FORBIDDEN, hatch="//", linewidth=0)
    axes[1].add_patch(hidden)
figure.suptitle("The mask hides scores that were computed; the window computes fewer", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three squares, queries down, keys across. Plain: all filled. Plain, masked: a narrow band
# along the diagonal is filled, all the rest is computed and then hidden, pale and hatched. Window:
# the same band, with pale steps of blocks on both sides of it, and nothing beyond.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How far does information travel?
#
# The price of a window is reach. In a stack of layers, tokens pass on what they have learnt about
# others, so information travels $w$ positions per layer: 64 tokens with $w = 4$ need 16 layers, and
# the book would need 25,000. Three ideas might make it faster at nearly the same cost:
#
# - **Dilated** window: the $w$ neighbours on each side are $\delta$ positions apart.
# - **Global** tokens: a few tokens see all and are seen by all. Together with a window this is
#   **Longformer** (Beltagy et al., 2020).
# - **Random** links between blocks of tokens, beside a window and global tokens: **BigBird**
#   (Zaheer et al., 2020).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Count on the board: after one layer 4 positions, after two 8.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_global_mask(n, num_global):  # bool (n, n)
    is_global = torch.arange(n) < num_global
    return is_global[:, None] | is_global  # the query or the key is global


# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** How many layers do 64 tokens need until information from every token has reached
# every other, with a dilated window of 4 and $\delta = 3$? And with a window of 4 and one global
# token?


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the links of four forms, and counts the layers that information needs
def layers_until_all_reached(pattern):
    """``None`` where that never happens."""
    reached, layers = pattern, 1
    while not reached.all():
        further = pattern.float() @ reached.float() > 0
        if torch.equal(further, reached):
            return None
        reached, layers = further, layers + 1
    return layers


patterns = {
    "window": sliding_window_mask(64, window=4),
    "dilated": sliding_window_mask(64, window=4, dilation=3),
    "Longformer": sliding_window_mask(64, window=4) | plain_global_mask(64, 1),
    "BigBird": bigbird_mask(64, block_size=2, window=1, num_global=1, num_random=1, seed=0),
}
figure, axes = plt.subplots(1, 4, figsize=(11, 4.4), sharey=True)
for ax, (name, pattern) in zip(axes, patterns.items(), strict=True):
    hatch_zeros(heatmap(ax, pattern, **FILLED), pattern)
    layers = layers_until_all_reached(pattern)
    when = f"in {layers} layers" if layers else "never"
    ax.set(aspect="equal", xticks=[], yticks=[], title=name)
    ax.text(31.5, 67, f"{pattern.sum():,} links\n{when}", ha="center", va="top", fontsize=14)
figure.suptitle(
    "A global token joins all pairs in two layers, the dilated window never joins some",
    fontsize=16,
)
plt.show()
hops = {name: layers_until_all_reached(pattern) for name, pattern in patterns.items()}
assert list(hops.values()) == [16, None, 2, 2]
assert patterns["window"].sum() == 64 * (2 * 4 + 1) - 4 * (4 + 1)  # n (2 w + 1) - w (w + 1)
assert patterns["dilated"][5].nonzero().flatten().tolist() == [2, 5, 8, 11, 14, 17]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four grids of 64 by 64, with 516 to 740 links. Window: a band of nine. Dilated: nine thin
# parallel lines, three apart. Longformer: the band, and the first row and column full. BigBird:
# steps of blocks of 2 by 2 along the diagonal, a full first block of rows and columns, and single
# blocks strewn about. Below is said after how many layers information from every token has reached
# every other: in 16, never, in 2, in 2.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# With the dilated window it never does: at gaps of 3, token 5 sees tokens 2, 5, 8, 11, 14 and 17,
# and no later layer leaves this third of the text. With one global token two layers are enough, one
# to it and one from it.
#
# If the model **generates** text, this path is lost, because a global first token that sees nothing
# after itself has nothing to pass on. As for the cache, it stops growing under a causal window, yet
# a model that was trained without one breaks when the first tokens leave its cache (Xiao et al.,
# 2023; chapter 11).

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Collect three numbers from the room before the picture. Expect 6 for dilated (63 /
# 12 rounded up) and let someone defend it. Then ask: from token 5, which tokens can be reached at
# all? The trap is a real one: a stack of equal dilated layers is as many separate texts as the
# dilation.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Swin: windows in a grid
#
# In a picture, a pixel has neighbours on all four sides, and if we put the rows one after the
# other, those above and below end up far away. So **Swin** (Liu et al., 2021) cuts the picture into
# square windows, and each pixel sees only those of its own window. A learned matrix $\mathbf R$
# adds to the scores one number for each step from one pixel to another:
#
# $$\mathrm{softmax}\!\left(\frac{\mathbf Q \mathbf K^\top}{\sqrt d} + \mathbf R\right)
#   \mathbf V \quad \text{in each window}$$
#
# In code, each window becomes a sequence of its own:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_windows(X, side):  # (B, rows, columns, D) -> (B * windows, side * side, D)
    X = X.unflatten(2, (-1, side)).unflatten(1, (-1, side))  # (B, down, side, across, side, D)
    X = X.transpose(2, 3)  # (B, down, across, side, side, D)
    return X.flatten(3, 4).flatten(0, 2)


# %% slideshow={"slide_type": "-"}
windows = plain_windows(torch.zeros(1, 56, 56, 1), side=7)  # (64, 49, 1): Swin's first layers
in_windows, all_links = 64 * 49**2, 56**4
print(f"{in_windows:,} of {all_links:,} links: 1 in {all_links // in_windows}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. First point at a pixel and at the one below it: in a sequence of rows they are a row
# apart. 64 windows have a 64th of the links. Ask at once what is wrong with windows: two pixels on
# both sides of a border never meet, however many layers follow.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Here too, information has to get out of its window, so every second layer **shifts** the windows
# by half their size, rounded down. To reuse the same cuts, the picture is rolled up and to the
# left, and what falls off comes in at the far side. But some pixels that now share a window were
# never neighbours, and a mask keeps these apart.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the windows of a picture, the regions before and after rolling, and the mask of the last
rows, columns = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
moon = ((rows - 4.5) ** 2 + (columns - 4.5) ** 2 < 16).float()
moon -= 0.6 * ((rows - 3.5) ** 2 + (columns - 6.5) ** 2 < 9) * moon
image = 0.15 + 0.03 * rows / 12 + 0.75 * moon
torch.manual_seed(0)
shifted = WindowAttention(8, 1, window_size=4, shift=2)
_, weights = shifted(torch.randn(1, 12, 12, 8), need_weights=True)
assert weights.shape == (9, 1, 16, 16)  # nine windows, one head, pixels by pixels
apart = [not (weights[window] > 0).all() for window in range(9)]
assert apart == [False, False, True] * 2 + [True] * 3

figure, axes = plt.subplots(1, 4, figsize=(12.5, 4.5))
grids = (image, image, image.roll((-2, -2), (0, 1)), weights[-1, 0] > 0)
titles = ("windows", "shifted by 2", "rolled: same cuts", "last window's links")
for ax, grid, title in zip(axes, grids, titles, strict=True):
    heatmap(ax, grid, **FILLED, sides=None)
    ax.set(aspect="equal", xticks=[], yticks=[], title=title)
hatch_zeros(axes[3], grids[3])
cuts = ([3.5, 7.5], [1.5, 5.5, 9.5], [3.5, 7.5])
for ax, lines in zip(axes[:3], cuts, strict=True):
    ax.hlines(lines, -0.5, 11.5, color=INK, linewidth=3)
    ax.vlines(lines, -0.5, 11.5, color=INK, linewidth=3)
# Corner, upper edge, left edge: where they are before and after rolling; D lies beside them.
before = {"A": (0.5, 0.5), "B": (10.5, 0.5), "C": (0.5, 10.5), "D": (10.5, 10.5)}
after = {"A": (10.5, 10.5), "B": (8.5, 10.5), "C": (10.5, 8.5), "D": (8.5, 8.5)}
for ax, letters in ((axes[1], before), (axes[2], after)):
    for letter, (x, y) in letters.items():
        corner = x - 1, y - 1
        ax.add_patch(Rectangle(corner, 2, 2, facecolor=GROUND, edgecolor=INK))
        ax.text(x, y, letter, ha="center", va="center", fontsize=14)
name_sides(axes[3], "queries", "keys")
figure.suptitle("Four corners share the last window, and the mask keeps them apart", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four panels. First, a picture of 12 by 12 pixels, a moon with a paler part, cut by
# lines into nine windows of four by four. Second, the cuts moved by two, with the four corners of
# the picture marked A, B, C, D. Third, the picture rolled up and left by two: the moon's edges come
# in below and on the right, and the four corners lie together in the last window, D, C, B, A.
# Fourth, the 16 pixels of this window: four sets of four that do not see each other.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# After one layer of each kind, information crosses the borders of both.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Have someone point at two pixels that are side by side in the rolled picture and far
# apart in the real one. The mask itself is exercise 9.6.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# The second half asks whether the matrix of weights is needed at all, and
# what is lost without it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Linformer: fewer keys
#
# A window leaves holes in the matrix of weights. **Linformer** (Wang et al., 2020) makes this
# matrix narrow instead: it mixes the $n$ keys into $r$, with a learned matrix $\mathbf E_k$ of $r$
# rows and $n$ columns, and the values with a second one, $\mathbf E_v$. Each query then attends to
# $r$ mixtures, which makes $n \cdot r$ links:
#
# $$\mathrm{softmax}\!\left(\frac{\mathbf Q\,(\mathbf E_k \mathbf K)^\top}{\sqrt d}\right)
#   \mathbf E_v \mathbf V$$


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_linformer(q, k, v, E_k, E_v):  # (n, d), (n, d), (n, V), (r, n), (r, n) -> (n, V)
    return attend(q, E_k @ k, E_v @ v)  # n * r scores


# %% [markdown] slideshow={"slide_type": "-"}
# A row of $\mathbf E_k$ says how much each **position** counts in one mixture, whatever the text.
# With $r = n$ and $\mathbf E_k = \mathbf E_v = \mathbf I$ each mixture is one key, and this is
# plain attention. Because a mixture contains words of the future, a Linformer cannot generate text.
# Because $\mathbf E_k$ has one column for each position, it cannot read more words than in
# training.
#
# The queries can be fewer as well. To find objects in a picture, **DETR** (Carion et al., 2020)
# asks with $L$ learned queries, which have $L\,n$ links (*Learned queries: DETR*, in *Going
# further*).

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Many keys become few mixtures: ask for the shape of the scores, and draw the narrow
# rectangle of the map. Then ask why one cannot just mask. Someone finds it: by the time the queries
# look, tomorrow's words are stirred into the soup.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Linear attention: move the brackets
#
# Is the matrix of weights needed at all? Plain attention computes it because the exponential acts
# on each of the $n^2$ scores before anything is summed. **Linear attention** (Katharopoulos et al.,
# 2020) replaces $\exp(q \cdot k)$ by $\varphi(q) \cdot \varphi(k)$, where the **feature map**
# $\varphi$ turns a query or a key into new numbers, here none below zero. Now only matrix products
# remain, and they may be computed in another order:
#
# $$\big(\varphi(\mathbf Q)\, \varphi(\mathbf K)^\top\big)\, \mathbf V
#   = \varphi(\mathbf Q)\, \big(\varphi(\mathbf K)^\top \mathbf V\big)$$
#
# As in a softmax, each row is divided by the sum of its weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask why the exponential stands in the way of moving the brackets.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws both orders of the product as rectangles
ax = canvas(12, 6.4, "The brackets decide what is formed: $n \\times n$ numbers, or $d \\times d$")
long, short, phi_q, phi_k = 2.1, 0.65, "$\\varphi(\\mathbf{Q})$", "$\\varphi(\\mathbf{K})^\\top$"
for y, first in ((4.7, True), (1.6, False)):
    block(ax, 1.0, y, short, long, phi_q, QUERY, "$(n, d)$")
    block(ax, 2.9, y, long, short, phi_k, KEY, "$(d, n)$")
    block(ax, 4.8, y, short, long, "$\\mathbf{V}$", VALUE, "$(n, d)$")
    left, right = (0.5, 4.12) if first else (1.65, 5.32)
    for x, bracket in ((left, "("), (right, ")")):
        ax.text(x, y, bracket, fontsize=50, ha="center", va="center")
    arrow(ax, (5.6, y), (6.3, y))
    if first:
        block(ax, 7.6, y, long, long, "$n \\times n$", WEIGHT, "weights")
        block(ax, 9.3, y, short, long, "$\\mathbf{V}$", VALUE, "$(n, d)$")
    else:
        block(ax, 7.1, y, short, long, phi_q, QUERY, "$(n, d)$")
        block(ax, 8.4, y, short, short, "$d \\times d$", below="sums", size=12)
    ax.text(10.0, y, "=", fontsize=20, ha="center", va="center")
    block(ax, 10.9, y, short, long, "", below="output $(n, d)$")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of rectangles. Above, the brackets are around phi(Q), tall, and phi(K)
# transposed, flat: their product is a large square of n by n, which is then multiplied by V. Below,
# the brackets are around phi(K) transposed and V: their product is a small square of d by d, which
# phi(Q) is multiplied by. The output has the same shape, (n, d).*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. How many numbers has the square of each row, for 100,000 tokens and d = 64?

# %% [markdown] slideshow={"slide_type": "subslide"}
# **By hand.** One query has $\varphi(q) = (1, 2)$. Three keys have $\varphi(k) = (1, 0), (0, 1),
# (1, 1)$ and the values $3, 6, 9$. Compute the answer twice, once with the weights first and once
# with the sums first.

# %% slideshow={"slide_type": "fragment"}
phi_q = torch.tensor([[1.0, 2.0]])  # (1, 2)
phi_k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # (3, 2)
v = torch.tensor([[3.0], [6.0], [9.0]])  # (3, 1)

weights = phi_q @ phi_k.T  # (1, 3), one number for each key
sums, total = phi_k.T @ v, phi_k.sum(dim=0)  # (2, 1) and (2,), without any query
print("weights", weights.tolist(), "answer", (weights @ v / weights.sum()).item())
print("sums", sums.T.tolist(), total.tolist(), "answer", (phi_q @ sums / (phi_q @ total)).item())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both ways give $42/6 = 7$. For a second query, only the last step of the second way would have to
# be done again.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, in pairs; one does the first way, one the second. Then ask: if a second query
# comes, what of the second way has to be done again? Only the last line. That is the whole saving.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Linear attention as a recurrent network
#
# In causal attention word $i$ needs only the sums over the keys up to $i$. A model that generates
# text can therefore keep two sums, to which each word adds:
#
# $$\mathbf S_i = \mathbf S_{i-1} + \varphi(k_i)\, v_i^\top, \qquad
#   z_i = z_{i-1} + \varphi(k_i), \qquad
#   o_i = \frac{\varphi(q_i)^\top \mathbf S_i}{\varphi(q_i) \cdot z_i}$$
#
# This is a recurrent network, whose state is the pair of sums. It cuts both bills.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the sums after each word, and below them what a cache would hold
ax = canvas(11, 2.8, "The state keeps its size, and a cache grows with every word")
for i in range(1, 5):
    x = 2.4 * i
    ax.text(x, 2.2, f"word {i}: $k_{i}$, $v_{i}$", ha="center")
    arrow(ax, (x, 2.12), (x, 1.75))
    arrow(ax, (x - 1.8 + 0.45 * (i == 1), 1.4), (x - 0.6, 1.4))
    block(ax, x, 1.4, 1.2, 0.7, f"$\\mathbf{{S}}_{i}$, $z_{i}$", size=14)
    for row, colour, marker in ((0.6, KEY, "s"), (0.25, VALUE, "D")):
        columns = [x + 0.3 * j - 0.15 * (i - 1) for j in range(i)]
        ax.plot(columns, [row] * i, marker, color=colour, markersize=9)
for y, name in ((1.4, "state:"), (0.42, "cache:")):
    ax.text(0.95, y, name, ha="right", va="center")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four boxes of one size, the states $S_1, z_1$ to $S_4, z_4$, in a chain of arrows. From
# above, each word brings a key and a value into its box. Below, the cache: one key and one value
# after word 1, four of each after word 4.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Who has seen a recurrent network? Ask what its state holds here: two sums.


# %% slideshow={"slide_type": "subslide"} tags=["build"]
def phi(X):  # no negative numbers: x + 1 where x > 0, else exp(x)
    return F.elu(X) + 1


def plain_linear_attention(q, k, v):  # causal: (n, d), (n, d), (n, V) -> (n, V)
    S, z = torch.zeros(k.shape[1], v.shape[1]), torch.zeros(k.shape[1])
    outputs = []
    for i in range(len(q)):
        S = S + phi(k[i])[:, None] * v[i]  # (d, V)
        z = z + phi(k[i])  # (d,)
        outputs.append(phi(q[i]) @ S / (phi(q[i]) @ z))  # (V,)
    return torch.stack(outputs)


# %% [markdown] slideshow={"slide_type": "-"}
# **By hand.** If keys and values have $d = 64$ numbers, the state has $64 \cdot 64 + 64$ numbers,
# at the first word as at the last. From how many words on is a cache of keys and values larger?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Compares the cache with the state
for n in (32, 33):
    print(f"{n} words: cache {2 * 64 * n} numbers, state {64 * 64 + 64} numbers")

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 33 words on the cache is larger, while the state stays as it is for the whole book.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks Linformer and linear attention against the package, and Linformer's special case
torch.manual_seed(0)
q, k, v, E_k, E_v = *torch.randn(3, 7, 5), *torch.randn(2, 3, 7)
package = LinformerAttention(5, 1, max_len=7, rank=3, dropout=0.0).attention  # one head of it
package.E.data, package.F.data = E_k, E_v
found = plain_linformer(q, k, v, E_k, E_v)
torch.testing.assert_close(found, package(*(X[None, None] for X in (q, k, v)))[0, 0])
torch.testing.assert_close(plain_linformer(q, k, v, torch.eye(7), torch.eye(7)), attend(q, k, v))
found = plain_linear_attention(q, k, v)
torch.testing.assert_close(found, linear_attention(q, k, v, is_causal=True))
print("checked: both give what the package gives; with the identity Linformer is plain attention")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them compute: 64 times 65 against 128 per word. Then the objection that must
# come: 'so a state that is as large as 33 words holds a million?' No. What it loses comes next; do
# not give it away.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A look-up game
#
# Can a state of one size hold any text? To find out, we play **look-up**. A text is a set of random
# pairs of key and value, of 16 numbers each, with all keys of length 1. Each key is then asked for
# once more. An answer is right if, seen from the average of all values, it points towards its own
# value more than towards any other.
#
# **Predict.** The barest state is the sum of all $k\,v^\top$, which has 256 numbers. In a text of
# 64 pairs, how many of the 64 values are found in it: nearly all, about half or less than a third?


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Plays the look-up with five forms, and draws the share of right answers
def share_found(answers, values):
    """The share of answers that are nearest to their own value, in direction from the average."""
    average = values.mean(dim=1, keepdim=True)
    a, v = (F.normalize(X - average, dim=-1) for X in (answers, values))
    found = (a @ v.mT).argmax(dim=-1) == torch.arange(values.shape[1])
    return found.float().mean().item()


LENGTHS = (4, 8, 16, 32, 64)
right = {}
for name, form, louder, longer in (
    ("softmax, loud", dot_product_attention, 40, 1),
    ("weights (q k)²", lambda q, k, v: F.normalize((q @ k.mT) ** 2, p=1, dim=-1) @ v, 1, 1),
    ("softmax", dot_product_attention, 1, 1),
    ("sum of k v", lambda q, k, v: q @ (k.mT @ v), 1, 1),
    ("linear attention", linear_attention, 40, 16),
):
    torch.manual_seed(0)
    right[name] = []
    for n in LENGTHS:
        keys, values = torch.randn(2, 20, n, 16)
        keys = F.normalize(keys, dim=-1)
        right[name].append(share_found(form(louder * keys, longer * keys, values), values))
figure, ax = plt.subplots(figsize=(9, 3.8))
for shares, look in zip(right.values(), SERIES, strict=False):
    ax.plot(LENGTHS, [100 * share for share in shares], **look)
lowest = 0.0  # names at the ends of the lines, a little apart
for name, shares in sorted(right.items(), key=lambda each: each[1][-1]):
    lowest = max(100 * shares[-1], lowest + 7)
    ax.annotate(f"{name}: {shares[-1]:.0%}", (68, lowest), va="center", annotation_clip=False)
ax.set_xscale("log", base=2)
ax.set_xticks(LENGTHS, LENGTHS)
ax.set(xlabel="pairs in the text", ylabel="right answers, %", ylim=(0, 108))
ax.set_title("Small states lose most of 64 values, a large one few", fontsize=16)
plt.show()
loud, squared, quiet, raw, linear = right.values()
assert min(loud) > 0.97 and 0.9 < squared[-1] < loud[-1] and 0.3 < quiet[-1] < 0.4
assert 0.15 < linear[-1] < 0.2 < raw[-1] < 0.3 and min(raw[0], linear[0]) > 0.95

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: right answers against the number of pairs, 4 to 64. Loud softmax stays at 100%, and the
# squares end at 95%. The other three begin near 100% and fall: softmax to 37%, the sum to 28%,
# linear attention to 17%.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Less than a third. Of 4 values the sum still finds all, but each further pair is added to the same
# numbers, and the answers **blur**. The sums of linear attention find a sixth.

# %% [markdown] slideshow={"slide_type": "skip"}
# A larger state can blur less: weights $(q\cdot k)^2$, which are linear attention with the 136
# products of a key's numbers as features, find 95%. But its sums have 2,312 numbers, and the 64
# pairs only 2,048. (For linear attention with $\varphi$, queries and keys are longer here, because
# at length 1 its features hardly differ.)
#
# Softmax keeps every pair, but when its scores lie between $-\tfrac14$ and $\tfrac14$, the weights
# are nearly equal and it finds only 37%. A query that is 40 times as **loud** finds all.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Expect 'nearly all'. Let them count: 64 values of 16 numbers are 1,024, and the
# state has 256. Then ask what a louder query repairs, and why it repairs nothing in the sum.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Look-up in trained models
#
# These keys were random, but a trained model chooses its keys. So let us train one model of two
# layers in seven forms. A text has 64 tokens in random order: 32 statements, each a letter with a
# digit, and 32 questions, each a letter that should be answered with its digit. A guess is right
# once in ten, and the text's commonest digit in 19% of the cases. Except in plain attention, there
# are at most 9 links per token, on average.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws a short text of this task, and the way from three statements to their questions
ax = canvas(11, 3.4, "A near statement is linked directly, a far one often by a global token")
text = "c4 a? k3 a1 d? b7 b? d5 e2 c? e? k?".split()
places = [1.9 + 0.78 * i for i in range(12)]
for i, (x, token) in enumerate(zip(places, text, strict=True)):
    block(ax, x, 0.65, 0.58, 0.45, token)
    edge = {"mec": INK, "mew": 3} if i < 2 else {"mec": GREY, "mew": 1}
    ax.plot([x, x], [1.7, 2.6], "o", color=PALE, markersize=14, **edge)
for y, name in ((0.65, "text"), (1.7, "layer 1"), (2.6, "layer 2")):
    ax.text(0.2, y, name, va="center")
ax.text(2.29, 0.33, "global", ha="center", va="top")
for start, end in ((5, 6), (0, 9), (2, 1)):
    arrow(ax, (places[start], 0.88), (places[end], 1.57))
arrow(ax, (places[1], 1.83), (places[11], 2.48))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: twelve tokens, c4 a? k3 a1 d? b7 b? d5 e2 c? e? k?, of which the first two are global,
# and two rows of dots above them, layer 1 and layer 2. From b7 an arrow leads to its neighbour b?
# in layer 1, and from the global c4 one to the far c?. The far k? is reached from k3 in two steps:
# to the second global token in layer 1, and from there in layer 2.*

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** With two global tokens, information from every token can reach every other in two
# layers. How many questions are answered if the statement is far away: nearly all, half, or hardly
# more than by guessing?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Collect votes for three rows: global, random, linear. Expect 'nearly all' for global,
# because the path is there.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Near and far statements
#
# | right answers, lowest and highest of 5 starts | 1 or 2 away | 3 to 8 away | farther |
# |---|---|---|---|
# | plain, 64 links per token | 100% | 100% | 100% |
# | window of 4 | 100% | 39 to 41% | 9 to 10% |
# | dilated window, 7 apart | 8 to 12% | 24 to 27% | 17 to 18% |
# | 2 global tokens and a window of 2 | 100% | 12 to 13% | 16 to 17% |
# | 4 random links and a window of 2 | 100% | 14 to 18% | 15 to 17% |
# | Linformer, 9 mixtures | 19 to 26% | 20 to 25% | 19 to 25% |
# | linear | 99 to 100% | 99 to 100% | 99 to 100% |
# | always the commonest digit | 18% | 21% | 19% |

# %% [markdown] slideshow={"slide_type": "fragment"}
# Hardly more than by guessing: far away, the global tokens answer fewer questions than the
# commonest digit would. To see why, let us sort these questions by their path.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Compare the votes with the last column, and the last column with the last row.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A path is not yet an answer
#
# | far questions: how many, and right answers | direct link | path of two layers | no such path |
# |---|---|---|---|
# | window of 4 | none | none | 100%: 9 to 10% right |
# | dilated window | 9%: 100% right | 5%: 8 to 12% right | 87%: 9 to 10% right |
# | 2 global tokens | 7%: 100% right | 93%: 10 to 11% right | none |
# | 4 random links | 6 to 7%: 100% right | 47 to 51%: 10 to 11% right | 43 to 47%: 10 to 11% right |

# %% [markdown] slideshow={"slide_type": "fragment"}
# The global tokens answer the 7% of questions with a direct link and guess the rest, though all
# have a path of two layers. **A path is not yet an answer.** In this training, the model did not
# learn to use such a path. Random links show the same on half of their far questions. The two
# windows hardly test this, because most of their far questions have no such path.
#
# Linear attention, which found few of many random keys, answers nearly everything here.

# %% [markdown] slideshow={"slide_type": "skip"}
# A part of this needs no training, because even of random pairs eight heads of 8 numbers find more,
# each with its own part of the answer:

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Counts the look-up of 32 random pairs in eight heads of 8 numbers, the trained model's size
torch.manual_seed(0)
keys, values = torch.randn(2, 40, 8, 32, 8)
answers = linear_attention(16 * keys, 16 * keys, values)
share = share_found(*(X.transpose(1, 2).flatten(2) for X in (answers, values)))
print(f"right answers to 32 random pairs, 8 heads of 8 numbers: {share:.0%}")
assert 0.55 < share < 0.67

# %% [markdown] slideshow={"slide_type": "skip"}
# Training adds the rest. With 64 statements in 128 tokens, it answers 85 to 92% after as many
# steps, in 3 starts, while plain attention answers all. (This is one task, of look-up only, with
# two small layers.)
#
# The tables are stored figures of `python -m d2l_attention.experiments.lookups --starts 5`: 800
# steps, and random links of its own for each start. Linear attention's sums, their building
# included, cost as much as 8 links per token, and Linformer's mixing as much as 9 more. After 2,400
# steps, one start each answers 12% (global) and 18% (random) over a path of two layers.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Many will say that two global tokens are too few for 32 statements. But with 8
# statements it was the same, in one start: a path of two steps was not learned at all. Then let the
# room find the column that the windows hardly fill.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Measured times
#
# Are these forms faster? We measure the time of one bare head of 64 numbers on one core, forwards
# and without the matrices $\mathbf W$ of a layer. Because both axes are logarithmic, $n$ and $n^2$
# are straight lines, and $n^2$ is twice as steep.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Read the axes aloud: a step to the right doubles the tokens.


# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Measures the time of each form at five lengths, and draws it
def forms_at(n):
    """Each form as a function without arguments, for one bare head of 64 numbers and n tokens."""
    q, k, v = torch.randn(3, 1, 1, n, 64, requires_grad=True)
    E_k, E_v, P = *torch.randn(2, 256, n), torch.randn(1, 1, 100, 64)
    window, longformer = SlidingWindowAttention(128, 0.0), GlobalLocalAttention(128, 16, 0.0)
    bigbird = BigBirdAttention(64, 1, 2, 3, 0.0, seed=0)  # block, window, global, random

    def swin():  # a picture of 16 by n / 16, without R
        windows = (plain_windows(X.unflatten(2, (16, -1))[0], 8)[:, None] for X in (q, k, v))
        return dot_product_attention(*windows)

    forms = {
        "plain": lambda: dot_product_attention(q, k, v),
        "plain, causal": lambda: dot_product_attention(q, k, v, is_causal=True),
        "window 128": lambda: window(q, k, v),
        "Longformer": lambda: longformer(q, k, v),
        "BigBird": lambda: bigbird(q, k, v),
        "Swin 8 x 8": swin,
        "Linformer 256": lambda: dot_product_attention(q, E_k @ k, E_v @ v),
        "linear, causal": lambda: linear_attention(q, k, v, is_causal=True),
        "100 learned queries": lambda: dot_product_attention(P, k, v),
    }
    if n <= 2048:  # it writes the matrix down
        forms["plain, weights kept"] = lambda: dot_product_attention(q, k, v, need_weights=True)
    return forms


LEFT = ("plain", "Longformer", "BigBird", "window 128", "Swin 8 x 8")
RIGHT = ("plain", "plain, causal", "linear, causal", "Linformer 256", "100 learned queries")


def name_ends(ax, lines):
    """Names the lines at their right ends, on a logarithmic axis, a little apart."""
    lowest = 0.0
    for name, end in sorted(lines.items(), key=lambda each: each[1]):
        lowest = max(end, 1.6 * lowest)
        ax.annotate(name, (8192 * 1.12, lowest), va="center", fontsize=12, annotation_clip=False)


times = {}
for n in (512, 1024, 2048, 4096, 8192):
    for name, form in forms_at(n).items():
        times.setdefault(name, {})[n] = 1000 * seconds(form)
figure, axes = plt.subplots(1, 2, figsize=(13, 4.8), sharey=True)
panels = ("windows", LEFT), ("fewer keys, sums, fewer queries", RIGHT)
for ax, (title, names) in zip(axes, panels, strict=True):
    for name, look in zip(names, SERIES, strict=False):
        ax.loglog(*zip(*times[name].items(), strict=True), **look)
    name_ends(ax, {name: times[name][8192] for name in names})
    for power, label in ((1, "n"), (2, "n²")):  # thin guides below the lines
        guide = [0.02 * (n / 512) ** power for n in (512, 2048)]
        ax.loglog((512, 2048), guide, color=RULE, linewidth=1)
        ax.annotate(label, (2048, guide[-1]), xytext=(5, 0), textcoords="offset points")
    ax.set(title=title, xlabel="tokens")
    ax.set_xticks([512, 1024, 2048, 4096, 8192], ["512", "1k", "2k", "4k", "8k"])
    ax.minorticks_off()
axes[0].set_ylabel("milliseconds")
figure.suptitle("At 512 tokens plain beats sliding windows, at 8k it is the slowest", fontsize=17)
plt.show()
for name in ("window 128", "Longformer", "BigBird"):
    assert times["plain"][512] < times[name][512]
assert times["plain"][8192] > 8 * times["plain"][2048]  # about 16 times
for name in ("window 128", "Linformer 256", "linear, causal", "100 learned queries"):
    assert times[name][8192] < 10 * times[name][2048]  # about 4 times
assert times["window 128"][8192] < times["plain"][8192] / 3
assert times["plain"][8192] == max(spent.get(8192, 0) for spent in times.values())
assert times["linear, causal"][8192] < times["plain, causal"][8192]

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels of milliseconds against tokens, 512 to 8,192, both axes logarithmic, with two
# thin grey guides labelled n and n², and a name at the end of each line. In each, plain attention,
# with dots, rises more steeply than most other lines. At 512 tokens it lies below windows,
# Longformer and BigBird, and at 8,192 far above them. Causal plain attention, on the right, is
# nearly as steep. Swin, on the left, and the learned queries, on the right, lie below it
# everywhere.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 512 tokens the plain kernel is faster than a sliding window, Longformer and BigBird, because
# blocks and copies cost something as well. The window wins from 1,024 or 2,048 tokens on, depending
# on the run. **Short texts need little of this.** From 2,048 to 8,192 tokens, however, the links of
# plain attention grow sixteenfold and those of most others fourfold. (Since linear attention is
# causal here, compare it with *plain, causal*.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before the figure: with a window of 128 a text of 512 tokens has 44% of its
# links. Is the window faster there than the fused kernel? Most say yes. The crossings move with the
# machine, and the slopes a little.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which form to take
#
# | your case | take | it gives up |
# |---|---|---|
# | fewer than some thousand tokens | plain attention, in the fused kernel | nothing |
# | the cache is too large | grouped queries | keys of its own for each head |
# | long texts, mostly local | windows, some full layers between | what is far, in most layers |
# | documents with a question | a window, the question global | other far look-ups |
# | pictures, an answer for each pixel | windows in a grid, shifted | what is far, early |
# | very long texts | linear attention, some full layers | exact look-up, in most layers |
# | few answers from many tokens | learned queries | other answers |

# %% [markdown] slideshow={"slide_type": "skip"}
# This is our judgement, from this page's runs and from published models. Chapter 11 adds models
# that choose the links **by content**.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room say which row its own project is in.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - There are two bills: $n^2$ links, and a cache that grows with every word. Grouped queries cut
#   the cache, and windows and linear attention cut both.
# - Because a window leaves out blocks, it is much faster in long texts. A dense mask saves no time.
# - With a window, information travels $w$ positions per layer. If the model may see what is later,
#   a global token takes it everywhere in two layers.
# - A path is not yet an answer. With about 9 links per token and 800 steps of training, global
#   tokens and random links answered what was linked directly and guessed what was two layers away.
# - A small state blurs: of 64 random pairs, linear attention found a sixth. Trained, it answered
#   nearly all of 32 statements, and 85 to 92% of 64.
# - At 512 tokens plain attention was faster than a sliding window, Longformer and BigBird; at 8,192
#   it was the slowest of all that were measured there.

# %% [markdown] slideshow={"slide_type": "skip"}
# **Next.** Chapter 10 asks what plain attention costs on real machines, and how several of them
# share it.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Homework: exercises 9.1 to 9.4.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong,
# `hint("9.1")` gives one more hint each time, and `solution("9.1")` shows all.

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.1** · by hand
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

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.2** · predict, then measure
#
# There are 100 tokens. How many links are there, each a True of the mask,
#
# - if each token sees itself and 3 neighbours on each side?
# - if that is causal?
# - if it is not causal, and the 3 neighbours on each side are 4 positions apart?
# - if they are 1 apart again, and the first 2 tokens are global?
# - in BigBird with blocks of 10 tokens, 1 block on each side, 1 global block and 2 random ones?
#
# Predict. Then measure with `sliding_window_mask`, `global_tokens_mask` and `bigbird_mask` of
# `d2l_attention`. Give five numbers, such as `(1, 2, 3, 4, 5)`.

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.3** · complete a function
#
# Return a boolean mask (n, n), True = may attend. A token sees itself and `window` neighbours on
# each side, `dilation` positions apart: with a window of 2 and a dilation of 3, token 7 sees 1, 4,
# 7, 10 and 13. With `is_causal` it sees no key after itself, so at most `window + 1` keys are left.
# The window may be 0, or longer than the sequence; `n` and `dilation` are 1 or more.

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.4** · find the bug
#
# `grouped_attention` gets H heads of queries (B, H, Q, D), and G heads of keys (B, G, K, D) and of
# values (B, G, K, V). It should give (B, H, Q, V), where query heads 0 to H / G - 1 read the first
# head of keys and values, the next H / G the second, and so on. Its dtype is that of the inputs,
# and gradients reach all three.
#
# Two tests were written for it: with G = H it equals multi-head attention, with G = 1 multi-query
# attention. It passes both, but a model whose parameters are loaded into it produces nonsense. Find
# the bug and correct it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Read these sections in any order.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Learned queries: DETR
#
# *7 minutes.*
#
# In the core each token had its own query. **DETR** finds objects in a picture with $L$ **learned**
# queries instead, the rows of a matrix $\mathbf P$, which are the same for every picture. Each of
# them answers with one object, by cross-attention with $L\,n$ links for $n$ pixels:
#
# $$\mathrm{softmax}\!\left(\frac{\mathbf P\, \mathbf K^\top}{\sqrt d}\right) \mathbf V, \qquad
#   \mathbf K, \mathbf V\ \text{from the picture}$$


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainLearnedQueries(nn.Module):
    def __init__(self, num_queries, num_hiddens):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(num_queries, num_hiddens))  # P: (L, D)
        self.W_k, self.W_v = (nn.LazyLinear(num_hiddens, bias=False) for _ in range(2))

    def forward(self, X):  # (B, n, any size) -> (B, L, D)
        return attend(self.queries, self.W_k(X), self.W_v(X))


# %% [markdown] slideshow={"slide_type": "notes"}
# The queries are the same for every picture. So what do they know? Only what to ask.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Let us try it on a small scale. A picture of $8 \times 8$ pixels shows two lights, and each pixel
# is given as three numbers: its brightness, its row and its column. Two learned queries each answer
# with the row and column of one light. Since the lights have no order, the loss **matches** answers
# and lights: of the two ways it takes the one with the smaller sum of squares.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the two ways to match two answers to the two lights of a picture
figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.9))
image = torch.zeros(8, 8).index_put((torch.tensor([1, 5]), torch.tensor([2, 6])), torch.ones(2))
answers, ways = ((5.0, 3.3), (2.9, 2.9)), {"as listed": (2, 6), "swapped": (6, 2)}
for ax, (title, columns) in zip(axes, ways.items(), strict=True):
    heatmap(ax, image, **FILLED, sides=None)
    for query, (x, y), column in zip((1, 2), answers, columns, strict=True):
        ax.plot([x, column], [y, column - 1], color=INK)
        for size in (24, 19):  # an answer has a double outline
            ax.plot(x, y, "o", color=GROUND, markeredgecolor=OUTPUT, markersize=size)
        ax.text(x, y, query, ha="center", va="center", fontsize=12)
    for name, x, y in (("first", 2, 0.2), ("second", 6, 6.0)):
        ax.text(x, y, name, ha="center", va="center")
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])
figure.suptitle("Swapped, both answers are closer to their lights", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: twice the same picture of 8 by 8 pixels, with a first light above on the left, a second
# below on the right, and the answers of the queries, double circles 1 and 2. As listed, long lines
# join 1 to the first light and 2 to the second. Swapped, short lines join 2 to the first light and
# 1 to the second.*

# %% [markdown] slideshow={"slide_type": "notes"}
# The two lights have no order: remember it for the vote.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Suppose the loss skips the matching: the two lights are listed in random order, and
# the first is always for the first query. What do the two queries then answer?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Trains three finders with matching and three without, and measures their answers
SIDE = 8
SPOTS = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)) / (SIDE - 1) * 2 - 1


def pictures(number):
    """Pixels (number, 64, 3): brightness, row, column; and the two lights (number, 2, 2)."""
    lights = torch.rand(number, SIDE**2).argsort(dim=-1)[:, :2]
    brightness = torch.zeros(number, SIDE**2).scatter_(1, lights, 1.0)
    return torch.cat([brightness[..., None], SPOTS.expand(number, -1, -1)], dim=-1), SPOTS[lights]


def match(answers, lights):  # both (B, 2, 2)
    """The lights in the order that suits the answers."""
    swapped = lights.flip(1)
    as_given = (answers - lights).pow(2).sum(dim=(1, 2))  # (B,)
    other_way = (answers - swapped).pow(2).sum(dim=(1, 2))  # (B,)
    return torch.where((as_given <= other_way)[:, None, None], lights, swapped)


def train_finder(matching, seed, steps=300):
    torch.manual_seed(seed)
    embed = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32))
    finder = nn.Sequential(embed, PlainLearnedQueries(2, 32), nn.Linear(32, 2))
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


starts = [(matching, seed) for matching in (True, False) for seed in range(3)]
finders = [train_finder(*start) for start in starts]
torch.manual_seed(99)
pixels, lights = pictures(1000)
apart = (lights[:, 0] - lights[:, 1]).norm(dim=-1).mean().item() * (SIDE - 1) / 2
print(f"the two lights are {apart:.1f} pixels apart, on average over 1,000 new pictures")
for (matching, seed), finder in zip(starts, finders, strict=True):
    with torch.no_grad():
        answers = finder(pixels)
    off = (answers - match(answers, lights)).norm(dim=-1).mean().item() * (SIDE - 1) / 2
    apart = (answers[:, 0] - answers[:, 1]).norm(dim=-1).mean().item() * (SIDE - 1) / 2
    name = "matched" if matching else "random order"
    print(f"{name:12} start {seed}: off by {off:.2f}, the two answers {apart:.2f} apart")
    assert off < 0.7 if matching else off > 1.5 and apart < 1

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both answer with nearly the middle between the lights, where the squared error is smallest if
# either light may come first. With matching they are off by a fraction of a pixel on average, in 3
# of 3 starts. DETR's own queries pass six layers, in which they also attend to each other, and may
# answer 'no object'.

# %% [markdown] slideshow={"slide_type": "notes"}
# The vote is about the fixed order. Many say 'it learns it anyway'. Ask what a loss would say to
# somebody who names the right two lights in the wrong order. Then the middle is obvious.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Multi-token attention: two words together
#
# *5 minutes.*
#
# *Alice fell asleep. A rabbit ran home at once. Alice saw the rabbit.* Which sentence has *Alice*
# **and** *rabbit*?
#
# A score $q \cdot k_j$ knows the query and **one** key, so one layer cannot ask for two words
# beside each other. **Multi-token attention** (Golovneva et al., 2025) adds up the scores $a_{ij}$
# of neighbouring keys and earlier queries before the softmax, with a learned kernel $\kappa$:
#
# $$\alpha_{ij} = \mathrm{softmax}_j\Big(\sum_{s,\,t} \kappa_{st}\, a_{i-s,\,j-t}\Big)$$


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_multi_token_weights(scores, kernel, mask):  # (H, n, n), (H, rows, columns), (n, n)
    _, rows, columns = kernel.shape
    scores = scores.masked_fill(~mask, 0.0)  # no hidden score enters a sum ...
    # Zeros: keys on both sides, queries only before the first, so that none looks ahead.
    scores = F.pad(scores, (columns // 2, columns // 2, rows - 1, 0))
    scores = F.conv2d(scores[None], kernel[:, None], groups=len(kernel))[0]  # (H, n, n)
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1)  # ... and no hidden key is read


# %% [markdown] slideshow={"slide_type": "subslide"}
# **By hand.** The scores are 1 at *Alice* and *rabbit*, and 0 elsewhere. Add to each score those of
# its four nearest neighbours; the kernel is five ones. Where is the largest sum?

# %% slideshow={"slide_type": "fragment"}
text = "Alice fell asleep . A rabbit ran home at once . Alice saw the rabbit .".split()
scores = torch.tensor([float(word in ("Alice", "rabbit")) for word in text])
sums = F.conv1d(scores[None, None], torch.ones(1, 1, 5), padding=2)[0, 0]

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the sum at each word
figure, ax = plt.subplots(figsize=(11, 2.6))
ax.bar(range(len(text)), sums, color=RULE, edgecolor=INK)
ax.set_xticks(range(len(text)), text)
ax.set(ylabel="sum of 5 scores", yticks=[0, 1, 2])
ax.set_title("Only two of the sums reach both Alice and rabbit")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a bar for each of the sixteen words and full stops. All are 1 high, but for 'at', which
# has 0, and 'saw' and 'the' in the last sentence, which have 2.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# It is at *saw* and *the*, and nowhere else. But a kernel knows neighbours, not sentences, so a
# word between two Alices would get a 2 as well. The heads are mixed afterwards, in groups, and all
# $n^2$ links remain. With the kernel 0, 1, 0 and heads that stay apart, this is plain attention.
# (The example is the authors', the sentences are ours.)

# %% [markdown] slideshow={"slide_type": "notes"}
# A minute with pencil and paper. Then ask how to fool the kernel: a shorter first sentence does it.
# The kernel's width decides what 'together' means.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### No pairs at all: Hyena
#
# *6 minutes.*
#
# **Hyena** (Poli et al., 2023) does without scores. It mixes tokens with a **long convolution**
# $c * v$, in which a token that is $s$ positions back counts $c_s$, at every position. The result
# is then multiplied, number by number ($\odot$), by a **gate** $x$ that is computed from the token
# itself and the two before it. This is done twice, with other filters and gates:
#
# $$u = x_1 \odot (c_1 * v), \qquad o = x_2 \odot (c_2 * u), \qquad
#   (c * v)_i = \sum_{s \le i} c_s\, v_{i-s}$$
#
# A small network turns a distance $s$ into $c_s$, so its size does not grow with the text. As
# written, the sum costs $n^2/2$ multiplications. With a fast Fourier transform about $n \log n$ are
# enough, because the transform of a convolution is the product of the two transforms, number by
# number:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_long_convolution(v, c):  # (n, D), (n, D) -> (n, D)
    n = len(v)  # twice as long, or the end would come round to the beginning
    spectrum = torch.fft.rfft(v, 2 * n, dim=0) * torch.fft.rfft(c, 2 * n, dim=0)
    return torch.fft.irfft(spectrum, 2 * n, dim=0)[:n]


def plain_hyena(v, gates, filters):  # (n, D), one or more of (n, D), as many of (n, D) -> (n, D)
    u = v
    for x, c in zip(gates, filters, strict=True):
        u = x * plain_long_convolution(u, c)
    return u


# %% [markdown] slideshow={"slide_type": "subslide"}
# **Question.** Write a convolution over 4 tokens as a matrix of 4 by 4. How many different numbers
# does it hold, besides 0? And what does a gate change?

# %% slideshow={"slide_type": "fragment"}
c = torch.tensor([4.0, 3.0, 2.0, 1.0])[:, None].expand(-1, 4)  # for distances 0 to 3
gate = torch.tensor([[1.0], [0.0], [2.0], [-1.0]])
print(plain_long_convolution(torch.eye(4), c).round().int().tolist())
print(plain_hyena(torch.eye(4), [gate], [c]).round().int().tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# It holds 4 numbers, one for each distance, the same for every text, and a gate multiplies a whole
# row. Because only the gates and the values depend on the words, models of this kind are **weaker**
# than attention at recalling what a text said before. Arora et al. (2023) find that this explains
# 82% of the gap between the two in language modelling.

# %% [markdown] slideshow={"slide_type": "skip"}
# To generate text, Hyena needs the past of both convolutions, and that is as many numbers per token
# as keys and values. The package's `HyenaOperator` has a largest length, and like the code above it
# is causal only up to rounding.

# %% [markdown] slideshow={"slide_type": "notes"}
# Before the numbers let them draw the matrix. 4 numbers fill 10 cells; 32 would fill 528. Ask what
# is the same in all rows: 'how far back' is all it knows. Then ask how the gates help, and take
# 'they can shut' as an answer.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### When a form equals plain attention
#
# *1 minute.*
#
# Most forms have a case in which they give what plain attention gives: grouped queries if $G = H$;
# a window as long as the text; Longformer if all tokens are global; BigBird with one block; Swin
# with one window and $\mathbf R = 0$; learned queries if they are the tokens. A dilated window as
# long as the text, by contrast, keeps its gaps. Hyena with a filter of ones and the gate $1/t$ at
# token $t$, which it can make only if its input tells $t$, averages the past, as causal attention
# does if all keys are alike.
#
# Linear attention would need infinitely many features. For numbers ($d = 1$) they come from the
# series of the exponential, and 19 of them give six digits. For $d = 64$ there are at least
# $64^p/p!$ of order $p$, so the exact way costs more than the matrix.
#
# $$e^{qk} = \sum_p \frac{(qk)^p}{p!} = \varphi(q) \cdot \varphi(k), \qquad
#   \varphi(x) = \Big(1,\; x,\; \tfrac{x^2}{\sqrt{2!}},\; \tfrac{x^3}{\sqrt{3!}},\; \dots\Big)$$

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks these special cases
torch.manual_seed(0)
q, k, v = torch.randn(3, 2, 4, 37, 16)
for layer in (
    SlidingWindowAttention(window=37, dropout=0.0),
    GlobalLocalAttention(window=2, num_global=37, dropout=0.0),
    BigBirdAttention(block_size=37, window=0, num_global=0, num_random=0, dropout=0.0, seed=0),
):
    torch.testing.assert_close(layer(q, k, v), dot_product_attention(q, k, v))
chessboard = sliding_window_mask(6, window=6, dilation=2)
assert torch.equal(chessboard, torch.arange(6)[:, None] % 2 == torch.arange(6) % 2)
identity = torch.zeros(4, 1, 3).index_fill(2, torch.tensor(1), 1.0)
scores, past = torch.randn(4, 37, 37), causal_mask(37)
plain = scores.masked_fill(~past, -math.inf).softmax(dim=-1)
torch.testing.assert_close(plain_multi_token_weights(scores, identity, past), plain)
X, alike = torch.randn(50, 3), torch.zeros(50, 3)
average = attend(alike, alike, X, causal_mask(50))
gate = 1 / torch.arange(1, 51)[:, None]
torch.testing.assert_close(plain_hyena(X, [gate], [torch.ones(50, 3)]), average)
scale = torch.tensor([math.factorial(p) for p in range(19)], dtype=torch.float64).sqrt()
q, k, v = torch.randn(3, 20, 1, dtype=torch.float64)
found = linear_attention(q, k, v, feature_map=lambda X: X ** torch.arange(19) / scale)
assert (found - dot_product_attention(q, k, v)).abs().max() < 1e-6
print("checked: window, Longformer, BigBird, multi-token, an averaging Hyena, and linear attention")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Linformer's low rank: when do a few mixtures suffice?
#
# *3 minutes.*
#
# Linformer's weights, written over the $n$ words, have at most rank $r$. So $r$ mixtures come near
# the weights only if their matrix is close to one of **low rank**, as Wang et al. find it to be in
# trained models. The best approximation of rank 32 **holds** a share of a matrix: the squares of
# its 32 largest singular values, out of all their squares.
#
# **Predict.** Take random queries and keys of 256 words, and multiply the scores by 1, 4 and 16, so
# that the weights get sharper. Does rank 32 hold more of the matrix then, or less?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Measures how much rank 1 and rank 32 hold of flat and of sharp weights
torch.manual_seed(0)
q, k = torch.randn(2, 256, 64)
held = {}
for sharp in (1, 4, 16):
    weights = (sharp * scaled_dot_score(q, k)).softmax(dim=-1)
    values = torch.linalg.svdvals(weights) ** 2
    held[sharp] = [(values[:rank].sum() / values.sum()).item() for rank in (1, 32)]
    largest = weights.max(dim=-1).values.mean()
    print(f"scores times {sharp:2}: largest weight {largest:.2f}", end="")
    print(", rank 1 holds {:.0%}, rank 32 of 256 {:.0%}".format(*held[sharp]))
assert held[1][1] > 0.7 and held[16][1] < 0.5 and held[1] > held[4] > held[16]
assert 0.3 < held[1][0] < 0.45

# %% [markdown] slideshow={"slide_type": "fragment"}
# It holds less. Even of the flat weights one mixture, the average, holds only a little more than a
# third, and 32 hold three quarters; of the sharp ones 32 hold less than half.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Memory for the backward pass
#
# *3 minutes.*
#
# The memory that a form keeps for the backward pass can be counted exactly: it is the size of the
# tensors that autograd saves.
#
# **Predict.** Which keeps the least at 8,192 tokens: plain attention, a window of 128 or linear
# attention?


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Counts the memory that four forms keep for the backward pass
def kept_for_backward(form):
    """MiB of the tensors that autograd saves in ``form()``, each storage once."""
    storages = {}

    def note(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = form()
    assert output is not None  # alive until here, and with it all that was saved
    return sum(storages.values()) / 2**20


short, long = forms_at(2048), forms_at(8192)
print(f"{'MiB kept at':19}  2,048   8,192 tokens")
memory = {}
for name in ("plain", "window 128", "linear, causal", "plain, weights kept"):
    forms = [form[name] for form in (short, long) if name in form]
    memory[name] = [kept_for_backward(form) for form in forms]
    print(f"{name:19}", *(f"{mebibytes:6.1f} " for mebibytes in memory[name]))
assert memory["plain"][1] == min(kept[-1] for kept in memory.values())
assert memory["plain, weights kept"][0] > 5 * memory["plain"][0]

# %% [markdown] slideshow={"slide_type": "skip"}
# Plain attention does, with the fused kernel. Its memory is linear in $n$, as theirs is, and
# smaller. Only those who keep an $n \times n$ tensor, such as the weights, pay for it. So against a
# good kernel these two forms, as they are written here, save *time* only.

# %% [markdown] slideshow={"slide_type": "notes"}
# This is the slide that corrects the textbooks. Papers of 2020 compare with attention that stores
# its matrix, and rightly said that they save memory. Since 2022 the kernel does not store it. Ask
# what that changes for the choice of a form today.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Choose a form
#
# *2 minutes.*
#
# Six forms that can generate text, on 64 tokens: who sees whom, how many links there are, and what
# a causal one keeps from word to word. The dashed line is plain attention.
#
# **Question.** You want to generate a long text, and memory is short. Which forms stop growing?
# Which of these can still look at the first word?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the view: for each form who sees whom, and what a model keeps while it generates text
LENGTH, SIZE = 64, 8
GROWING = 2 * SIZE * torch.arange(1, LENGTH + 1)  # a key and a value for each word
torch.manual_seed(0)
VIEW_Q, VIEW_K = 2 * torch.randn(2, 1, LENGTH, 16)


def longformer_mask(n, p):
    return sliding_window_mask(n, window=4) | plain_global_mask(n, p)


def random_mask(n, p):
    return bigbird_mask(n, block_size=4, window=1, num_global=1, num_random=p, seed=0)


MASKS = {
    "grouped": ("{} of 8 heads of keys", lambda n, p: torch.ones(n, n, dtype=torch.bool)),
    "window": ("window of {}", lambda n, p: sliding_window_mask(n, window=p)),
    "dilated": ("window of 4, {} apart", lambda n, p: sliding_window_mask(n, window=4, dilation=p)),
    "global": ("window of 4, {} global", longformer_mask),
    "BigBird": ("blocks of 4, {} random", random_mask),
}


def kept_by_pattern(pattern):
    """Numbers to keep after each word: keys and values that this or a later word asks for."""
    later = pattern.flip(0).cummax(dim=0).values.flip(0)  # (n, n): wanted from row i on
    return 2 * SIZE * later.tril().sum(dim=1)


def form_view(form, p, causal):
    """A title, who sees whom (n, n), the links, and the numbers kept after each word."""
    if form == "linear":
        q, k = VIEW_Q[..., : 2 * p], VIEW_K[..., : 2 * p]
        weights = linear_attention(q, k, k, is_causal=causal, need_weights=True)[1][0]
        return f"{2 * p} features", weights, 0, torch.full((LENGTH,), 2 * p * (SIZE + 1))
    name, mask = MASKS[form]
    pattern = mask(LENGTH, p) & causal_mask(LENGTH) if causal else mask(LENGTH, p)
    # The text goes on after the 64 shown: what those words ask for is kept as well.
    kept = kept_by_pattern(mask(2 * LENGTH, p) & causal_mask(2 * LENGTH))[:LENGTH]
    kept = kept * p / 8 if form == "grouped" else kept
    return name.format(p), pattern, int(pattern.sum()), kept


def draw_form(figure, form="window", parameter=4, causal=True):
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    what, pattern, links, kept = form_view(form, parameter, causal)
    pattern = pattern.float()
    # Links are there or not; of weights the largest would leave the others white.
    is_mask = pattern.unique().numel() < 3
    looks = FILLED if is_mask else {"vmax": pattern.quantile(0.98).item()}
    heatmap(left, pattern, **looks)
    left.set(title=f"{what}: {links:,} links", xticks=[], yticks=[])
    right.set(xlim=(0, LENGTH), ylim=(0, 1100), xticks=[0, 32, 64])
    right.set(xlabel="words generated", ylabel="numbers kept, one head")
    if not causal:
        reason = "tick 'causal':\nwho sees the future\ncannot generate text"
        right.text(32, 550, reason, ha="center", va="center", fontsize=15)
        return
    right.plot(range(1, LENGTH + 1), GROWING, color=GREY, linestyle="--")
    right.plot(range(1, LENGTH + 1), kept, color=INK, linewidth=4)
    right.set_title(f"kept after 64 words: {kept[-1]:.0f}, plain {GROWING[-1]}")


for form in [*MASKS, "linear"]:  # two forms keep growing
    kept = form_view(form, 4, True)[-1]
    assert (kept[31] == kept[63]) == (form not in ("grouped", "BigBird"))
explore(
    draw_form,
    figsize=(9.5, 3.7),
    alt="A form of attention: who sees whom among 64 tokens, and what a causal one keeps.",
    form=[*MASKS, "linear"],
    parameter=SelectionSlider(options=[1, 2, 4, 8], value=4),
    causal=True,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of two panels. Left, who sees whom among 64 tokens, with the number
# of links in its title; it opens on a causal window of 4, half a band along the diagonal. Right,
# the numbers that one head keeps while it generates text, against the number of words, beside the
# dashed line of plain attention: it rises for five words, then stays.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room name forms. Untick 'causal' once: only who hides the future can generate text. What
# stops growing: window, dilated, Longformer, linear. What still looks at word 1: Longformer, if it
# is global, and linear in its blurred way. BigBird surprises: its global blocks and random links
# want old words, so hardly anything may be thrown away.

# %% [markdown] slideshow={"slide_type": "skip"}
# Window, dilated, *global* (Longformer) and linear stop growing. Of these, *global* still looks at
# word 1, if that is one of its global tokens, and linear at a sum into which word 1 went. BigBird
# grows, because a random link may lead back to any block.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises
#
# Three more, longer ones:

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.5** · complete a function
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

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.6** · complete a function
#
# X (B, R, C, D) are feature maps. First the map moves up and to the left by `shift` pixels; what
# falls off comes in at the far side. Then it is cut into windows of `window` by `window` pixels,
# row by row, and so are the pixels in them. R and C are multiples of `window`, at least twice as
# large; the shift is 0 up to `window - 1`. Return two results:
#
# - the windows (B * W, window², D), all W windows of a map, then those of the next;
# - a boolean mask (W, window², window²), True = may attend: pixels of a window see each other,
#   unless one came in at the far side of an axis and the other did not.
#
# The windows have the dtype of X, and gradients reach X. (For the mask: give each pixel a number
# for the region it came from, and cut these numbers into windows in the same way.)

# %% [markdown] slideshow={"slide_type": "skip"}
# **9.7** · write the test
#
# A project: read *No pairs at all: Hyena* first. Your test takes a function that reads X (B, n, 8),
# n up to 16, and gives (B, n, 8). It has no dropout, and acts alike in training and evaluation. On
# causal ones your test returns without a word. They come in four forms: a window, multi-token
# attention, linear attention and Hyena. Hyena's transform changes the past by rounding, so let
# differences below 1e-4 pass. Your test raises an `AssertionError` for each of seven others:
#
# - a window off by one, so that each token sees the next;
# - multi-token attention that masks only after its convolution;
# - a Linformer with a causal mask over its mixtures;
# - a dilated window that sees the third token after each, and not the two nearer;
# - a causal mask with one random link too many: token 1 also sees token 4 (counted from 0);
# - linear attention that divides by a sum over all keys;
# - a long convolution by a Fourier transform without zeros after the end.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.2.
# - N. Shazeer, *Fast Transformer Decoding: One Write-Head is All You Need*, 2019, arXiv:1911.02150.
#   Multi-query attention.
# - J. Ainslie et al., *GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
#   Checkpoints*, EMNLP 2023, arXiv:2305.13245. Abstract: 5% more training, quality and speed.
# - I. Beltagy, M. E. Peters, A. Cohan, *Longformer: The Long-Document Transformer*, 2020,
#   arXiv:2004.05150. Section 3.1: window, dilation, global tokens; 4.1: which heads have gaps; 5, a
#   footnote: the document model has none.
# - M.-T. Luong, H. Pham, C. D. Manning, *Effective Approaches to Attention-based Neural Machine
#   Translation*, EMNLP 2015, arXiv:1508.04025. Local attention, windows before Longformer's.
# - G. Xiao et al., *Efficient Streaming Language Models with Attention Sinks*, 2023,
#   arXiv:2309.17453. What breaks when the first tokens leave a cache.
# - M. Zaheer et al., *Big Bird: Transformers for Longer Sequences*, NeurIPS 2020, arXiv:2007.14062.
#   Section 2, and section 3 for what is proved.
# - Z. Liu et al., *Swin Transformer: Hierarchical Vision Transformer using Shifted Windows*, ICCV
#   2021, arXiv:2103.14030. Section 3.2.
# - S. Wang et al., *Linformer: Self-Attention with Linear Complexity*, 2020, arXiv:2006.04768. They
#   call the two matrices E and F.
# - A. Katharopoulos et al., *Transformers are RNNs: Fast Autoregressive Transformers with Linear
#   Attention*, ICML 2020, arXiv:2006.16236. Section 3.
# - M. Poli et al., *Hyena Hierarchy: Towards Larger Convolutional Language Models*, ICML 2023,
#   arXiv:2302.10866.
# - S. Arora et al., *Zoology: Measuring and Improving Recall in Efficient Language Models*, 2023,
#   arXiv:2312.04927. Abstract: recall explains 82% of the gap.
# - N. Carion et al., *End-to-End Object Detection with Transformers*, ECCV 2020, arXiv:2005.12872.
#   Section 3; 4.3, figure 7: what the queries specialise in.
# - O. Golovneva et al., *Multi-Token Attention*, 2025, arXiv:2504.00927. Section 3; we leave out
#   its group normalisation. A kernel that fuses its convolution:
#   github.com/Gusanidas/flash-multi-token-attention.
# - The shapes of the models, with table or section in `PUBLISHED`: H. Touvron et al., *LLaMA*,
#   2023, arXiv:2302.13971, and *Llama 2*, 2023, arXiv:2307.09288; A. Q. Jiang et al., *Mistral 7B*,
#   2023, arXiv:2310.06825; E. Almazrouei et al., *The Falcon Series of Open Language Models*, 2023,
#   arXiv:2311.16867; Llama Team, *The Llama 3 Herd of Models*, 2024, arXiv:2407.21783.
