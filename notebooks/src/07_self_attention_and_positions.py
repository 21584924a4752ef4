# %% [markdown] slideshow={"slide_type": "slide"}
# # 7 · Self-attention and positional encoding
#
# **You will**
# - test self-attention with two headlines, 'dog bites man' and 'man bites dog';
# - build four encodings of positions: sinusoidal, learned, rotary and ALiBi;
# - derive why rotary positions enter a score only as the signed distance $j - i$;
# - train a small layer with each encoding, and find out where it fails on longer texts, and why.
#
# Core path: 60 to 90 minutes, in two sittings. Going further: 25. Exercises: 68.
#
# Builds on chapters 3, 4 and 6. The book is *Dive into Deep Learning* (D2L), section 11.6.

# %% [markdown] slideshow={"slide_type": "notes"}
# 35 minutes: 4 for the headlines, 7 for sines and the clock, 2 for learned positions, 9½ for
# rotary, 2½ for ALiBi and the table, 10 for the experiment and the summary. The slides after the
# summary are not in the plan, among them the costs beside CNN and RNN. After 17 minutes you should
# be at the dot products of rotary. Behind? Leave out 'A shift is a rotation'. The code of the
# sinusoidal encoding, of ALiBi and of the experiment is on the page only. On the page students
# write the rotation themselves (7.4), on the slides pairs do it on paper. Homework: exercises 7.1
# to 7.3.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
import re

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from ipywidgets import SelectionSlider
from matplotlib.patches import ConnectionPatch, Patch, Rectangle
from torch import nn

from d2l_attention import ALiBi, MultiHeadAttention, PositionalEncoding, RotaryEncoding
from d2l_attention.views import explore, schematic
from d2l_attention.views.palette import (
    FAINT,
    GREY,
    GROUND,
    INK,
    KEY,
    PALE,
    POSITION,
    QUERY,
    RULE,
    SERIES,
    ramp_to,
)
from d2l_attention.views.plots import heatmap, set_style, squares

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention** (chapter 3). The score of a query $q$ and a key $k$ of size $d$ is
#   $q \cdot k / \sqrt d$. The softmax turns the scores into weights, and the answer is the average
#   of the values with these weights.
# - **A causal mask** (chapter 4) shows query $i$ only the keys $j \le i$.
# - **Heads** (chapter 6). A token is a vector of $D$ numbers. With $H$ heads, each query, key and
#   value has $d = D / H$.
#
# A **position** is where a token is in its sequence, counted from 0. Between the positions $i$ and
# $j$, the **distance** is $\lvert i - j\rvert$, and the **signed distance** from $i$ to $j$ is
# $j - i$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Self-attention and word order
#
# In **self-attention** the tokens of one sequence attend to each other. Three learned matrices turn
# each token $x_i$ into its query, its key and its value. The answer for token $i$ is then the sum
# of all values, each weighted by how well its key fits the token's query:
#
# $$y_i = \sum_j \alpha_{ij}\, W_v x_j, \qquad
#   \alpha_{ij} = \operatorname{softmax}_j \frac{(W_q x_i) \cdot (W_k x_j)}{\sqrt d}$$


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_attend(q, k, v, bias=0.0):  # (..., Q, d), (..., K, d), (..., K, V) -> (..., Q, V)
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (..., Q, K)
    return (scores + bias).softmax(dim=-1) @ v  # the bias is 0 until the section on ALiBi


def plain_self_attention(X, W_q, W_k, W_v):  # (B, n, D) -> (B, n, D)
    return plain_attend(X @ W_q.T, X @ W_k.T, X @ W_v.T)


# %% [markdown] slideshow={"slide_type": "skip"}
# Why attend at all? A recurrent network (chapter 5) carries information through $n$ tokens in $n$
# steps, while self-attention connects any two tokens in one layer. The price is $n^2$ scores: with
# the weighted values they take $2\,n^2 D$ multiplications, four times as many for a text twice as
# long. Two headlines show a second price.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let somebody find query, key and value in the formula.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two headlines
#
# 'Dog bites man' is not news; 'Man bites dog' is. To see whether the layer notices, let each word
# be a random vector, and average the outputs, as a classifier often does. If both headlines have
# the same average, it cannot tell them apart.
#
# **Predict.** Are the two averages far apart, near or equal?

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
dog, bites, man = torch.randn(3, 8)  # D = 8
no_news = torch.stack([dog, bites, man])[None]  # (1, 3, 8)
news = torch.stack([man, bites, dog])[None]  # (1, 3, 8)
matrices = torch.randn(3, 8, 8) / math.sqrt(8)  # W_q, W_k, W_v

one, other = (plain_self_attention(X, *matrices) for X in (no_news, news))
print(f"the averages differ by {(one.mean(dim=1) - other.mean(dim=1)).norm():.6f}")
print(f"the answers to 'dog' differ by {(one[0, 0] - other[0, 2]).norm():.6f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Vote by hands before you show the code. Expect 'a little, because the words are the
# same'.

# %% [markdown] slideshow={"slide_type": "skip"}
# The averages are equal, and each word has the same answer in both headlines:

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the answers and their averages, and joins each word to itself
figure, axes = plt.subplots(1, 2, figsize=(9.5, 2.6), gridspec_kw={"wspace": 0.45})
orders = ("dog", "bites", "man", "average"), ("man", "bites", "dog", "average")
for ax, words, found in zip(axes, orders, (one[0], other[0]), strict=True):
    rows = torch.cat([found, found.mean(dim=0, keepdim=True)])  # (4, 8)
    squares(ax, rows, words)
    ax.axhline(2.5, color=INK)
    ax.set(xticks=[], title=" ".join(words[:3]))
axes[0].yaxis.tick_right()
for row, word in enumerate(orders[0]):
    line = {"xyA": (1.34, row), "xyB": (-0.34, orders[1].index(word)), "annotation_clip": False}
    line |= {"coordsA": axes[0].get_yaxis_transform(), "coordsB": axes[1].get_yaxis_transform()}
    figure.add_artist(ConnectionPatch(**line, color=FAINT, linewidth=1.5))
figure.suptitle("Two answers change places, the average stays", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids of squares, one for each headline, with the answers to its three words as rows
# of eight numbers and their average below: the area is the size, filled above 0 and hollow below.
# Lines join each word to itself: the rows of 'dog' and 'man' have changed places, while those of
# 'bites' and of the average are the same.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Call the layer $f$. No position occurs in its formula, so if we shuffle the rows of $X$ by a
# permutation $\pi$, the outputs are shuffled the same way: $f(X_\pi) = f(X)_\pi$. This is
# **permutation equivariance**.

# %% [markdown] slideshow={"slide_type": "skip"}
# Training cannot change this. A causal mask can, but only in part: each token then has a set of
# keys of its own, within which one layer still misses the order (exercise 7.2).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that 20 random orders change the order of the answers and nothing else
X = torch.randn(2, 7, 8)
answers = plain_self_attention(X, *matrices)
for _ in range(20):
    order = torch.randperm(7)
    torch.testing.assert_close(plain_self_attention(X[:, order], *matrices), answers[:, order])

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Wait for somebody who asks which part of the formula contains a position. None does.
# Then read the equation aloud: shuffle in, shuffle out.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Sines and cosines
#
# How could one write the position $i$ into the vector of a token? Three ideas:

# %% [markdown] slideshow={"slide_type": "fragment"}
# - Add the number $i$ itself? At position 500 it is much larger than the word's numbers.
# - Divide $i$ by the length first? Then the next word is $\frac1{10}$ further in one sentence and
#   $\frac1{50}$ in another.
# - Count in **binary**? The digits stay small, but they jump: from 7 to 8 four digits change, and
#   from 8 to 9 only one. We want digits that change smoothly. A point that moves round a circle
#   does this, and it needs two numbers.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Collect ideas on the board before you show the list. For each of them ask what happens
# at word 500, and in a sentence of another length.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The sinusoidal encoding
#
# Vaswani et al. (2017) give position $i$ a row of $D$ numbers, in which columns $2r$ and $2r + 1$
# form pair $r$: the sine and the cosine of one angle. From each position to the next this angle
# grows by $\omega_r$, the **frequency** of the pair:
#
# $$p_{i,2r} = \sin(i\,\omega_r), \quad p_{i,2r+1} = \cos(i\,\omega_r), \qquad
#   \omega_r = 10000^{-2r/D}$$
#
# For $D = 4$ there are two pairs, with $\omega_0 = 1$ and $\omega_1 = 10000^{-1/2} = \frac1{100}$:

# %% [markdown] slideshow={"slide_type": "fragment"}
# | $i$ | $\sin i$ | $\cos i$ | $\sin\frac i{100}$ | $\cos\frac i{100}$ |
# |---|---|---|---|---|
# | 0 | 0 | 1 | 0 | 1 |
# | 1 | 0.84 | 0.54 | 0.01 | 1.00 |
# | 2 | 0.91 | −0.42 | 0.02 | 1.00 |

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for the row of position 0 before you show the table. The second pair hardly
# moves: it is the slow digit.

# %% [markdown] slideshow={"slide_type": "skip"}
# The row is **added** to the token, so 'dog' at position 0 and 'dog' at position 2 become two
# different vectors. Putting the two end to end (**concatenating** them) would give the next matrix
# a sum as well, $W_1 x + W_2 p$, but with a matrix for each; adding is the case $W_1 = W_2$.
#
# The first token of `X` is at position `offset`: 0 for a whole sentence, but a decoder (chapter 5)
# gets one token at a time, and must say how many came before it.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_angles(num_positions, d, offset=0):  # -> (n, d / 2)
    positions = torch.arange(offset, offset + num_positions)[:, None]  # (n, 1)
    frequencies = 10000 ** (-torch.arange(0, d, 2) / d)  # (d / 2,)
    return positions * frequencies


class PlainPositionalEncoding(nn.Module):
    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__()
        angles = plain_angles(max_len, num_hiddens)
        pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (max_len, D / 2, 2)
        self.P = pairs.flatten(start_dim=1)[None]  # (1, max_len, D)
        self.dropout = nn.Dropout(dropout)

    def forward(self, X, offset=0):  # (B, n, D) -> (B, n, D)
        return self.dropout(X + self.P[:, offset : offset + X.shape[1]])


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares the two headlines again, with positions added
encode = PlainPositionalEncoding(8, dropout=0.0)
one, other = (plain_self_attention(encode(X), *matrices) for X in (no_news, news))
difference = (one.mean(dim=1) - other.mean(dim=1)).norm()
print(f"with positions added, the averages of the two headlines differ by {difference:.3f}")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Each pair is the hand of a clock
#
# What do these numbers look like? A pair $(\sin, \cos)$ is a point on a circle: the tip of a hand
# that begins at the top and turns clockwise. Its cosine says how far up the tip is, its sine how
# far to the right. So a row of 32 numbers is a clock with 16 hands, of which these are three:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws three hands as a clock, at positions 0, 1 and 2
P = PlainPositionalEncoding(num_hiddens=32, dropout=0.0).P[0, :64]  # (64, 32)
hands = {"hand 8 (slow)": 8, "hand 2": 2, "hand 0 (fast)": 0}  # the pair of each
figure, axes = plt.subplots(1, 3, figsize=(9, 3.7))
for i, ax in enumerate(axes):
    ax.add_patch(plt.Circle((0, 0), 1.05, fill=False, color=GREY))
    looks = ((0.6, 10, GREY), (0.8, 6, FAINT), (1, 2.5, INK))
    for (length, width, grey), pair in zip(looks, hands.values(), strict=True):
        sin, cos = length * P[i, 2 * pair : 2 * pair + 2]
        ax.plot([0, sin], [0, cos], color=grey, linewidth=width, solid_capstyle="butt")
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", title=f"position {i}")
    ax.axis("off")
fast_first = axes[0].lines[::-1], list(hands)[::-1]
figure.legend(*fast_first, ncols=3, frameon=False, loc="outside lower center")
figure.suptitle("Each hand turns by its own angle, whatever the position", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three clocks with a long fast, a middle and a short slow hand, at positions 0, 1 and 2.
# They are hands 0, 2 and 8 of an encoding with 32 columns. At 0 all three point to the top. From
# one position to the next hand 0 turns clockwise by 57 degrees, hand 2 by 18, and hand 8 by 0.6,
# which is too little to see.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Ask where the hands will be at position 3. Then ask by which angle they turn from
# position 1000 to 1001.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why so many hands?
#
# A fast hand repeats itself: from position 10 to 54 hand 0 makes seven turns and is back where it
# was. The slower hand 2 then points elsewhere, and so tells the two positions apart. But slow hands
# hardly move from one position to the next. So the hands share the work, as binary digits do, only
# smoothly:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the binary digits beside the encoding
P = PlainPositionalEncoding(num_hiddens=32, dropout=0.0).P[0, :64]  # (64, 32)
figure, axes = plt.subplots(2, 1, figsize=(10.5, 7.2), sharex=True, height_ratios=[6, 32])
binary = torch.arange(64) // 2 ** torch.arange(6)[:, None] % 2  # (6, 64)
names = "binary\ndigit", "sines and cosines, D = 32\ncolumn"
for ax, numbers, name in zip(axes, (binary, P.T), names, strict=True):
    squares(ax, numbers, color=POSITION)
    ax.set_ylabel(name)
axes[0].set(xlabel="position", yticks=[0, 5], yticklabels=["last", "first"])
axes[0].tick_params(labeltop=True)
figure.suptitle("Both count: what stands above changes fast, what stands below slowly", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids of squares for the positions 0 to 63, from left to right, filled above 0 and
# hollow below. Above, six binary digits: stripes of one position, two, four, eight, sixteen and
# thirty-two. Below, the 32 columns of the encoding: fast waves in the first, ever slower ones
# further down. The last third of the columns hardly changes.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The paper gives no reason for the number 10000. It sets the pace of the slowest of the 16 hands,
# which needs 35,333 positions for one turn.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the two positions, and how long the slowest hand needs
P = PlainPositionalEncoding(32, dropout=0.0).P[0, :100]  # (100, 32)
frequencies = plain_angles(2, 32)[1]
assert abs(44 * frequencies[0] / (2 * math.pi) - 7) < 0.01
assert ((P[10] - P[54]).abs() > 0.5).nonzero()[0].item() == 4  # the sine of hand 2
assert round((2 * math.pi / frequencies[15]).item()) == 35_333

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which row of each panel changes slowest. If somebody asks 'why 10000?': the
# paper does not say.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A shift is a rotation
#
# From $i$ to $i + \delta$ each hand turns by $\delta\omega$, whatever $i$ is. The addition formulas
# say the same, here with the upward number, the cosine, written first:
#
# $$\begin{bmatrix} \cos((i+\delta)\omega) \\ \sin((i+\delta)\omega) \end{bmatrix} =
# R(\delta\omega) \begin{bmatrix} \cos i\omega \\ \sin i\omega \end{bmatrix}, \qquad
# R(\theta) = \begin{bmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta
# \end{bmatrix}$$
#
# This $R(\theta)$ is a **rotation**, clockwise by $\theta$, the same at every $i$. With such a
# block for each hand, one large matrix shifts whole rows. So a layer could learn to look three
# positions back; the experiment below shows whether it does.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that rows shifted by -3 are the rows three positions before, and score highest with them
P = PlainPositionalEncoding(32, dropout=0.0).P[0, :64]  # (64, 32)
sines, cosines = P[:, 0::2], P[:, 1::2]  # (64, 16) each
angles = -3 * plain_angles(2, 32)[1]  # (16,): one angle for each hand
cos, sin = angles.cos(), angles.sin()
shifted = torch.stack([sines * cos + cosines * sin, cosines * cos - sines * sin], dim=-1)
queries = shifted.flatten(start_dim=1)  # (64, 32)
torch.testing.assert_close(queries[3:], P[:-3], atol=1e-4, rtol=0)
found = (queries @ P.T).argmax(dim=-1)  # (64,): the key with the highest score
assert torch.equal(found[3:], torch.arange(61))

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which letter does not occur in the rotation. In D2L, and in our rows, the sine
# comes first, so that there the two sines of the matrix change their signs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Learned positions
#
# Gehring et al. (2017) do not compute the rows but learn them, as an embedding learns a vector for
# each word. In code this is the same class with another `P`:


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainLearnedEncoding(PlainPositionalEncoding):
    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__(num_hiddens, dropout, max_len)
        self.P = nn.Parameter(torch.randn(1, max_len, num_hiddens))


# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** The table has 16 rows, numbered 0 to 15. A decoder that has come to position 16
# passes one token with `offset=16`. What happens?

# %% slideshow={"slide_type": "fragment"}
learned, token = PlainLearnedEncoding(32, 0.0, max_len=16), torch.randn(1, 1, 32)
print("shape before", tuple(token.shape), "  after", tuple(learned(token, offset=16).shape))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The token **vanishes**, without an error: a slice beyond the end of the table has no rows, and
# broadcasting turns one token into none. The course's package, `d2l_attention`, raises an error
# instead.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Most say 'an error', and hardly anybody expects a shape with a 0 in it. Then ask: a
# table of 1000 rows is trained on 16 tokens and gets 17. Leave the answer open; the experiment
# gives it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Rotary: turn the query and the key
#
# With added rows, a score depends on both positions. Could it depend only on how far apart they
# are? Su et al. (2021) leave the tokens as they are and instead **turn** the query at position $i$
# by the angle $i\omega$, and the key at position $j$ by $j\omega$.
#
# For $d = 2$ both are hands of the same clock, the first number drawn upwards and the second to the
# right: $(1, 0)$ points to the top, and $R(\theta)$ turns it clockwise.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Have somebody turn two pencils in the air by the same angle. What stays?

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Let $\omega = 1$. The query $(1, 0)$ is at position 5 and the key $(1, 0)$ at 3. If
# both move on by one position, what happens to their dot product?


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Shows the query's hand, the key's, and the wedge between them
def hand(angle):  # where (1, 0) ends: its second number to the right, its first upwards
    return torch.tensor([math.sin(angle), math.cos(angle)])


def dial(figure, shift_both=1, distance=-2):
    ax = figure.subplots()
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=RULE, linewidth=1))
    i = 5 + shift_both
    query, key = hand(i), hand(i + distance)
    for start, radius, color in ((5, 0.3, RULE), (i, 0.5, POSITION)):
        angles = torch.linspace(start, start + distance, 60)
        arc = radius * torch.stack([angles.sin(), angles.cos()])
        ax.fill([0, *arc[0]], [0, *arc[1]], color=color, alpha=0.25, linewidth=0)
        ax.plot(*arc, color=color)
        for at in (start, start + distance):
            ax.plot([0, math.sin(at)], [0, math.cos(at)], color=RULE, linestyle="--", zorder=0)
    middle = 0.7 * hand(i + distance / 2)
    faint = {"color": FAINT, "ha": "center", "va": "center", "fontsize": 13}
    for at in {5, 5 + distance} - {i, i + distance}:
        ax.text(*(1.13 * hand(at)), f"{at}ω", **faint)
    box = {"facecolor": GROUND, "linewidth": 0, "pad": 1}
    words = {"ha": "center", "va": "center", "fontsize": 17}
    if distance != 0:
        wedge = f"{distance}ω".replace("-", "−")
        ax.text(*middle, wedge, color=POSITION, bbox=box, **words)
    for end, role, form, size, at in ((key, KEY, "s", 13, i + distance), (query, QUERY, "o", 9, i)):
        ax.plot([0, end[0]], [0, end[1]], color=role, linewidth=4)
        ax.plot(*end, form, color=role, markersize=size)
        ax.text(*(1.2 * end), f"{at}ω", color=role, **words)
    ax.set(xlim=(-1.4, 1.4), ylim=(-1.8, 1.3), aspect="equal")
    ax.axis("off")
    ax.set_title("Shift both: the hands turn,\nthe wedge and the product stay", fontsize=19)
    for height, at in ((-1.5, 5), (-1.75, i)):  # before and after the shift
        product = f"{hand(at) @ hand(at + distance):.2f}".replace("-", "−")
        ax.text(0, height, f"query at {at}, key at {at + distance}: product {product}", **words)


explore(
    dial,
    figsize=(5, 5.7),
    alt="A dial with the hands of a query and a key, and the wedge between them.",
    shift_both=SelectionSlider(options=[*range(7), 100], value=1),
    distance=(-3, 3),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive clock, $\omega = 1$. The query's hand, with a circle, is at the angle
# $i\omega$, the key's, with a square, at $j\omega$, and the wedge between them is $(j - i)\omega$.
# From 5 and 3, where dashed hands stay behind, both have moved on by one position: the wedge is
# still $-2$, the dot product −0.42.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Both hands have turned by the same angle, so the wedge between them is as before, and so is the
# dot product, which depends only on this wedge and on the two lengths.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Shift both hands by 100: the product stays. Then take distance 2 instead of −2: with
# this key, the same product.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A rotary score depends on $j - i$
#
# In symbols: the turn back is $R(\theta)^\top = R(-\theta)$, and the angles of two turns add up. So
# the turned query and the turned key have the dot product
#
# $$\big(R(i\omega)\,q\big)^{\!\top} \big(R(j\omega)\,k\big)
#   = q^\top R(-i\omega)\,R(j\omega)\,k
#   = q^\top R\big((j-i)\,\omega\big)\,k$$
#
# The positions occur only in $j - i$, the signed distance, which says how far away the key is, and
# on which side of the query.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The derivation is three equal signs; let the room justify each.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Rotary dot products by hand
#
# Let $\omega = 1$ again. Then $R(\theta)$ turns $(1, 0)$ into $(\cos\theta, \sin\theta)$, and
# $(0, 1)$ into $(-\sin\theta, \cos\theta)$. So the query $(1, 0)$ at position 5
# becomes $(\cos 5, \sin 5)$, and of two keys at position 3
#
# - $(1, 0)$ becomes $(\cos 3, \sin 3)$, with the dot product
#   $\cos 5 \cos 3 + \sin 5 \sin 3 = \cos(5 - 3) = -0.42$,
# - $(0, 1)$ becomes $(-\sin 3, \cos 3)$, with the dot product
#   $-\cos 5 \sin 3 + \sin 5 \cos 3 = \sin(5 - 3) = 0.91$.
#
# **Predict.** What are the two dot products if the query is at 3 and the keys are at 5?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Half a minute in pairs. Many say that both products change their sign. Collect the
# answers before you go on.


# %% slideshow={"slide_type": "subslide"}
def turn(vector, angle):  # (2,) -> (2,)
    cos, sin = math.cos(angle), math.sin(angle)
    return torch.tensor([[cos, -sin], [sin, cos]]) @ vector


top, side = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
for i, j in ((5, 3), (105, 103), (3, 5)):
    products = [(turn(top, i) @ turn(key, j)).item() for key in (top, side)]
    print(f"query at {i:3}, keys at {j:3}: {products[0]:.2f} and {products[1]:.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 105 and 103 both products are as before, because the signed distance $j - i$ is. At 3 and 5
# this distance is $2$ instead of $-2$, and only the second product changes its sign. So a rotary
# score can tell left from right.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. The cosine keeps its sign, the sine does not.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One frequency per pair of columns
#
# With more columns, each pair turns at its own frequency: at position $i$, the angle of pair $r$ is
# $i\,\omega_r$ with $\omega_r = 10000^{-2r/d}$, as in the sinusoidal encoding, with $d$ in place of
# $D$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let pairs write the function on paper, for a query of four columns at position i: two
# angles, two turns. Then show ours. Before the next slide ask: should the values be turned as well?

# %% [markdown] slideshow={"slide_type": "skip"}
# You know all the parts, so write the rotation before you read ours. `check`, `hint("7.4")` and
# `solution("7.4")` help.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.4** · complete a function
#
# X (B, H, n, d) holds queries or keys, and the size d of a head is even. The first token of each
# head is at position `offset`, which may be in the thousands. Columns $2r$ and $2r + 1$ are a pair
# $(a, b)$, which at position $i$ becomes $(a \cos t - b \sin t,\ a \sin t + b \cos t)$ with
# $t = i / 10000^{2r/d}$. X itself stays as it is, and gradients reach it.

# %% [markdown] slideshow={"slide_type": "skip"}
# Our version:


# %% slideshow={"slide_type": "fragment"} tags=["build"]
def plain_rotate(X, offset=0):  # (..., n, d) -> (..., n, d)
    n, d = X.shape[-2:]
    angles = plain_angles(n, d, offset)  # (n, d / 2)
    cos, sin = angles.cos(), angles.sin()
    a, b = X[..., 0::2], X[..., 1::2]  # (..., n, d / 2): the pairs
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(start_dim=-2)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The values are not turned
#
# If the values were turned as well, the answer would change when the same sentence begins at
# position 100 instead of 0, although all distances are the same:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Compares a sentence at positions 0 to 4 with the same at 100 to 104
q, k, v = torch.randn(3, 5, 8)
at_0, at_100 = (plain_attend(plain_rotate(q, s), plain_rotate(k, s), v) for s in (0, 100))
print(f"values not turned: the answers differ by {(at_0 - at_100).norm():.2f}")
at_0, at_100 = (plain_attend(*(plain_rotate(X, s) for X in (q, k, v))) for s in (0, 100))
print(f"values turned:     the answers differ by {(at_0 - at_100).norm():.2f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Cover the two numbers and ask which of them is 0.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# You can now tell attention the order in three ways: add sines, add
# learned vectors, or turn queries and keys. A fourth way follows, and a test of all four.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## ALiBi: pay for distance
#
# Press et al. (2022) leave tokens, queries and keys as they are. From each score they subtract the
# distance, times a **slope** $m$:
#
# $$\text{score}(i, j) = \frac{q_i \cdot k_j}{\sqrt d} - m\,\lvert i - j\rvert$$
#
# Each head has its own fixed slope: eight heads have
# $\frac12, \frac14, \frac18, \dots, \frac1{256}$.

# %% [markdown] slideshow={"slide_type": "skip"}
# The paper defines this with a causal mask, where $j \le i$; without one, left and right are alike.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_alibi_bias(num_heads, n):  # (H, n, n), for 1, 2, 4, 8, ... heads
    slopes = 2 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)  # (H,)
    positions = torch.arange(n)
    distances = (positions[:, None] - positions).abs()  # (n, n)
    return -slopes[:, None, None] * distances


# %% [markdown] slideshow={"slide_type": "skip"}
# By hand, let the third of three identical words be the query, and let $m = \frac12$. At the
# distances 2, 1 and 0 the biases are $-1$, $-\frac12$ and $0$. Their exponentials are $0.37$,
# $0.61$ and $1$, so the weights are $0.19$, $0.31$ and $0.51$. With $m = \frac1{256}$ all three are
# $0.33$. So a head with a steep slope looks at near words, and one with a gentle slope at all.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the weights by hand
weights = plain_alibi_bias(8, 3)[[0, 7], -1].softmax(dim=-1)  # (2, 3): slopes 1/2 and 1/256
torch.testing.assert_close(weights[0], torch.tensor([0.19, 0.31, 0.51]), atol=0.005, rtol=0)
torch.testing.assert_close(weights[1], torch.full((3,), 0.33), atol=0.005, rtol=0)

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. On the board: three equal words, slope 1/2, the last word is the query. The biases are
# −1, −1/2 and 0, and the weights 0.19, 0.31 and 0.51.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four encodings compared
#
# | | changes | parameters | positions enter a score as |
# |---|---|---|---|
# | sinusoidal | the tokens | 0 | $i$ and $j$ |
# | learned | the tokens | `max_len` · $D$ | $i$ and $j$ |
# | rotary | queries and keys | 0 | $j - i$ |
# | ALiBi | the scores | 0 | $\lvert i - j\rvert$ |

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which of the four could not tell the two headlines apart without a mask. It is
# ALiBi: one headline is the other read backwards, and the distance has no sign.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Beyond the training length
#
# Do the encodings still work on a text that is longer than those in training? We train models on 16
# letters, positions 0 to 15, and then give them 64. A causal mask shows a model random letters up
# to its position, and it names one of eight, a to h:
#
# - **three back**: the letter three positions before.
# - **last capital**: the latest capital, this letter included. The answer is written small.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Makes the two games, and draws a short sequence of each, with its answers


def three_back(B, n):
    letters = torch.randint(8, (B, n))
    return letters, F.pad(letters[:, :-3], (3, 0), value=-100)  # cross_entropy leaves out -100


def last_capital(B, n):  # small letters are 0 to 7, capitals 8 to 15
    letters, capital = torch.randint(8, (B, n)), torch.rand(B, n) < 0.2
    capital[:, 0] = True  # so that there always is one
    latest = torch.where(capital, torch.arange(n), 0).cummax(dim=1).values
    return letters + 8 * capital, letters.gather(1, latest)


torch.manual_seed(0)
figure, axes = plt.subplots(2, 1, figsize=(10, 4.0))
for ax, game in zip(axes, (three_back, last_capital), strict=True):
    letters, targets = (X[0].tolist() for X in game(1, 16))
    for i, (letter, target) in enumerate(zip(letters, targets, strict=True)):
        ax.text(i, 0, "abcdefghABCDEFGH"[letter], ha="center", fontsize=16)
        ax.text(i, -1.1, "abcdefgh"[target] if target >= 0 else "–", ha="center", fontsize=16)
        key = max((j for j in range(i + 1) if letters[j] >= 8), default=i - 3)
        if 0 <= key < i:
            arrow = {"arrowstyle": "->", "connectionstyle": "arc3,rad=0.4", "color": FAINT}
            ax.annotate("", (key, 0.75), (i, 0.75), arrowprops=arrow)
    for y, words in ((0, "letter"), (-1.1, "answer")):
        ax.text(-0.8, y, words, ha="right")
    ax.text(-2.6, 2, game.__name__.replace("_", " "), fontsize=16)
    ax.set(xlim=(-2.6, 15.4), ylim=(-1.5, 2.6))
    ax.axis("off")
figure.suptitle("Three back needs one distance, last capital needs many", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: sixteen letters of each game with the answers below. At three back an arrow leads from
# each letter to the one three positions before. At last capital the arrows lead to the latest
# capital, up to seven positions back; a capital is its own answer.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. The model is one layer with four heads, and guessing is right once in eight.

# %% [markdown] slideshow={"slide_type": "skip"}
# The model is one layer with four heads, made of the page's own functions. `Embedding(16, 32)` is
# for eight letters, small and capital, and `Linear(32, 8)` gives the eight answers their scores.
# Each letter's vector is added to the answer of attention, so that the layer keeps it. The kind
# `"none"` leaves out the encoding.

# %% slideshow={"slide_type": "skip"}
past = torch.ones(64, 64, dtype=torch.bool).tril()  # True: the key is not in the future


class Reader(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.embedding, self.readout = kind, nn.Embedding(16, 32), nn.Linear(32, 8)
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(32, 32, bias=False) for _ in range(4))
        tables = {"sinusoidal": PlainPositionalEncoding, "learned": PlainLearnedEncoding}
        self.positions = tables[kind](32, 0.0, max_len=64) if kind in tables else nn.Identity()

    def heads(self, X):  # (B, n, 32) -> queries, keys and values, (B, 4, n, 8) each
        return [W(X).unflatten(-1, (4, 8)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v)]

    def attend(self, X, visible):  # (B, n, 32) -> (B, n, 32)
        (q, k, v), n = self.heads(X), X.shape[1]
        if self.kind == "rotary":
            q, k = plain_rotate(q), plain_rotate(k)
        bias = plain_alibi_bias(4, n) if self.kind == "ALiBi" else torch.zeros(n, n)
        bias = bias.masked_fill(~visible[:n, :n], -math.inf)
        return self.W_o(plain_attend(q, k, v, bias).transpose(1, 2).flatten(start_dim=2))

    def forward(self, letters, visible=past):  # (B, n) -> (B, n, 8)
        X = self.positions(self.embedding(letters))
        return self.readout(X + self.attend(X, visible))


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the reader's layer and positions equal the package's
X = torch.randn(2, 5, 32)
sinusoidal = PositionalEncoding(32, dropout=0.0)
torch.testing.assert_close(Reader("sinusoidal").positions(X), sinusoidal(X))
for kind, positions in (("sinusoidal", None), ("rotary", RotaryEncoding(8)), ("ALiBi", ALiBi(4))):
    layer, reader = MultiHeadAttention(32, 4, dropout=0.0, positions=positions), Reader(kind)
    expected = layer(X, X, X, is_causal=True)
    for name in ("W_q", "W_k", "W_v", "W_o"):
        getattr(reader, name).load_state_dict(getattr(layer, name).state_dict())
    torch.testing.assert_close(reader.attend(X, past), expected)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Trains a model for 200 steps, on fresh letters in each


def train(kind, game, start):
    torch.manual_seed(start)
    model = Reader(kind)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        letters, targets = game(32, 16)  # positions 0 to 15, never more
        loss = F.cross_entropy(model(letters).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Which encodings learn which game, with at least 85% right answers at positions 3 to
# 15? And which of them still do so at positions 32 to 63?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The vote of the hour. Draw a table of 4 by 2 on the board: does it learn the game,
# and does it reach 63? Typical: sinusoidal yes, 'because a formula has no end', learned no, rotary
# yes, 'because only the distance counts', ALiBi yes in both games. Then ask what a model without
# any encoding would get. Leave it there.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Right answers at each position

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Trains three models of each kind for both games, and prints right answers far away


@torch.no_grad()
def accuracy(model, game, visible=past):  # (64,): right answers at each position
    torch.manual_seed(99)
    letters, targets = game(500, 64)
    return (model(letters, visible).argmax(dim=-1) == targets).float().mean(dim=0)


kinds = ("none", "sinusoidal", "learned", "rotary", "ALiBi")
games = {"three back": three_back, "last capital": last_capital}
models, curves = {}, {}
for name, game in games.items():
    for kind in kinds:
        models[name, kind] = [train(kind, game, start) for start in range(3)]
        curves[name, kind] = torch.stack([accuracy(model, game) for model in models[name, kind]])
print("right answers at positions 32 to 63")
print(f"{'':12}" + "".join(f"{name:19}" for name in games).rstrip())
for kind in kinds:
    far = [curves[name, kind][:, 32:].mean(dim=1) for name in games]
    print(f"{kind:12}" + "     ".join("  ".join(f"{share:3.0%}" for share in each) for each in far))

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Draws the share of right answers against the position, for both games and three starts
figure, axes = plt.subplots(2, 4, figsize=(10.5, 5.2), sharex=True, sharey=True)
for row, name in zip(axes, games, strict=True):
    for ax, kind in zip(row, kinds[1:], strict=True):
        for other, color in (("none", GREY), (kind, INK)):
            ax.plot(range(3, 64), curves[name, other][:, 3:].T, color=color, linewidth=1.4)
        ax.axvspan(0, 15, color=PALE, zorder=0)
        ax.axhline(1 / 8, color=FAINT, linewidth=0.8)
        ax.set(ylim=(0, 1.08), xticks=[0, 16, 32, 48, 63])
        ax.set(yticks=[0, 0.5, 1], yticklabels=["0%", "50%", "100%"])
        ax.tick_params(labelsize=12)
    row[0].set_ylabel(name)
for ax, kind in zip(axes[0], kinds[1:], strict=True):
    ax.set_title(kind)
for ax in axes[1]:
    ax.set_xlabel("position")
axes[1, 3].text(63, 0.55, "no encoding", color=FAINT, fontsize=13, ha="right")
axes[1, 3].text(63, 0.03, "guessing", color=FAINT, fontsize=13, ha="right")
axes[1, 2].text(7.5, 0.03, "trained", fontsize=12, ha="center")
figure.suptitle("At position 63 only ALiBi is still right, and only at last capital", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: right answers against the position, 3 to 63: a row of panels for each game, a panel for
# each encoding, three strong lines for its starts, three grey ones without encoding, and a thin
# line at one in eight; 0 to 15 is shaded as trained. In the run shown, at three back, sinusoidal,
# learned and rotary are at 99% or more up to 15. From 16 on, sinusoidal swings between 11% and 99%,
# with peaks near 22 and 35 in all starts, and learned is near guessing. Rotary keeps 94% up to 33,
# with a first small step at 28, is at 56% to 79% at 35, and near guessing from 48 on. ALiBi falls
# from near 40% to near 30%, none to near 17%. At last capital all encodings begin above 90%.
# Sinusoidal and learned are mostly below 50% at position 22 and mostly below 40% from 32 on. Rotary
# keeps 90% up to 36 and is near 25% from 48 on. ALiBi stays at 91% or more. None falls from near
# 90% to near 40%.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The strong lines are three random initialisations (**starts**), as are the three numbers in a cell
# of the table. At positions 3 to 15 ALiBi reaches 85% at *last capital* only, and the other three
# encodings in both games. At 32 to 63 only ALiBi still does, at *last capital*.
#
# The grey lines are the model without encoding, the row `none`. It does about as well as a guesser
# who names the commonest letter (or capital) so far. Compared with it, at 32 to 63,
#
# - **learned positions do worse** in both games, and sinusoidal ones at *last capital*;
# - **rotary does better**, but only thanks to the early positions: from 48 on it does worse.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Compare with the table on the board. Then half a minute in pairs, before you go on:
# why does each of them fail where it does?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why do the encodings fail?
#
# - **Learned.** Training reached rows 0 to 15 only. The others still hold random numbers,
#   and with zeros there it is hardly better.
# - **ALiBi** suits *last capital*, where the nearest capital is the right one. At *three back* a
#   head would have to prefer the third letter back, say an *e*, to the last one, which its bias
#   favours. It can do so only for the sake of the *e*. But if the two change places, the *e* has
#   even more weight. So no single head can do it, and the four together found no way.
# - **Sinusoidal.** A matrix that shifts every row by three exists. But other matrices work at
#   positions 0 to 15 only, and training found one of those (*Why added positions fail*, in *Going
#   further*).
# - **Rotary.** At position 40 most distances are longer than any in training, but there are also
#   more keys than ever. Which of the two is to blame?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Take the first three quickly. For the fourth, ask for an experiment that could tell
# the two explanations apart, before you show one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Distance or number of keys? A control
#
# Two tests of the *three back* models with rotary positions, at positions 32 to 63, tell the two
# explanations apart:
#
# - **The latest 4 and the first 12 keys.** As many keys as in training, the right one among them,
#   but most distances are new.
# - **All keys, none farther than 15.** More keys than ever, but any key farther away than 15 is
#   turned as if it were at 15.
#
# If the number of keys is to blame, the first test gives right answers; if the new distances are,
# the second.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Two explanations that expect different rows to be right. Let the room vote for one of
# them before you show the numbers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The control, measured

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Draws the keys of each row, and the right answers at three back
positions = torch.arange(64)
distances = positions[:, None] - positions  # (64, 64): query minus key
shown = {
    "all keys": past,
    "the latest 4 and the first 12": past & ((distances < 4) | (positions < 12)),
}


@torch.no_grad()
def accuracy_far(model, game, visible, scores=None):
    """Right answers at 32 to 63 whose key is visible; `scores` of X replace the model's."""
    torch.manual_seed(99)
    letters, targets = game(500, 64)
    X = model.positions(model.embedding(letters))
    if scores is None:
        output = model.attend(X, visible)
    else:
        weights = scores(X).masked_fill(~visible, -math.inf).softmax(dim=-1)
        output = model.W_o((weights @ model.heads(X)[2]).transpose(1, 2).flatten(start_dim=2))
    right = model.readout(X + output).argmax(dim=-1) == targets
    latest = torch.where(letters >= 8, positions, 0).cummax(dim=1).values
    key = latest if game is last_capital else positions - 3
    counted = visible[positions, key].expand_as(right)
    return right[:, 32:][counted[:, 32:]].float().mean().item()


def clipped(model, most=15):
    """A rotary model's scores, as if no key were farther away than `most`."""

    def scores(X):
        q, k, _ = model.heads(X)
        near = plain_rotate(q) @ plain_rotate(k).mT
        far = plain_rotate(q[..., None, :], most)[..., 0, :] @ k.mT  # queries at `most`, keys at 0
        return torch.where(distances <= most, near, far) / math.sqrt(8)

    return scores


controls = {}
for kind in ("none", "rotary"):
    for keys, visible in shown.items():
        controls[kind, keys] = [
            [accuracy_far(model, game, visible) for model in models[name, kind]]
            for name, game in games.items()
        ]
    if kind == "rotary":
        controls[kind, "all keys, none farther than 15"] = [
            [accuracy_far(model, game, past, clipped(model)) for model in models[name, kind]]
            for name, game in games.items()
        ]
figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.4), width_ratios=[1.6, 1], sharey=True)
names = [*shown, "all keys, none farther than 15"]
for y, keys in enumerate(names):
    for key in shown.get(keys, past)[40, :41].nonzero()[:, 0].tolist():
        is_new = distances[40, key] > 15 and keys in shown
        look = {"facecolor": KEY if key == 37 else INK if is_new else PALE, "edgecolor": GREY}
        left.add_patch(Rectangle((key - 0.5, y - 0.3), 1, 0.6, **look))
    for kind, series in zip(("none", "rotary"), SERIES[:2], strict=True):
        back, _ = controls.get((kind, keys), ([], []))
        label = kind if y == 0 else None
        right.plot(back, [y] * len(back), **series | {"linestyle": "", "label": label})
left.set(xlim=(-1, 41), ylim=(2.5, -0.5), xlabel="keys of the query at position 40")
left.set_yticks(range(3), [re.sub("( and|,) ", r"\1\n", keys) for keys in names])
right.set(xlim=(0, 1.05), xlabel="right answers at three back")
right.set_xticks([0, 0.5, 1], ["0%", "50%", "100%"])
looks = ((PALE, "distance as in training"), (INK, "new distance"), (KEY, "the right key"))
patches = [Patch(facecolor=color, edgecolor=GREY, label=words) for color, words in looks]
figure.legend(handles=patches, frameon=False, loc="outside lower left", ncols=3)
figure.legend(*right.get_legend_handles_labels(), frameon=False, loc="outside lower right", ncols=3)
figure.suptitle("Rotary is right only where all distances are as in training", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three rows. Left, which keys the query at position 40 sees, pale where the distance is
# as in training, strong where it is new, with the right key, 37, marked: all 41 keys, most of them
# strong; the latest 4, pale, and the first 12, strong; all 41, pale. Right, the shares of right
# answers of three starts, in the run shown. All keys: none 19% to 20%, rotary 30% to 36%. The
# latest 4 and the first 12: none 25% to 27%, rotary 30% to 35%. None farther than 15: rotary 100%.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Where all distances are as in training, rotary is right, although it sees more keys than ever.
# Where most are new, it stays near the model without encoding, although it sees no more keys than
# in training. So in these models **the new distances are to blame**.

# %% [markdown] slideshow={"slide_type": "skip"}
# This held in 20 of 20 starts, and *last capital* agrees. In training, slow hands rule out the
# distances at which a fast one repeats itself, but far away they come round as well (*Which far
# distance looks like 3?*, in *Going further*).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what the second row without the third would have shown: that rotary fails with far
# keys, but not that it bears many.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks what the text says of the curves, of ALiBi's heads and of the control, in all starts


def commonest(game, candidates):  # (64,): right answers of a guesser who knows no order
    torch.manual_seed(99)
    letters, targets = game(500, 64)
    guess = F.one_hot(letters, 16)[..., candidates].cumsum(dim=1).argmax(dim=-1)
    guess = torch.where(letters >= 8, letters - 8, guess)  # its own letter is a capital
    return (guess == targets).float().mean(dim=0)


candidates = {"three back": slice(0, 8), "last capital": slice(8, 16)}
for (name, kind), curve in curves.items():
    seen, next_16, far = (curve[:, a:b].mean(dim=1) for a, b in ((3, 16), (16, 32), (32, 64)))
    baseline = curves[name, "none"][:, 32:].mean(dim=1)
    if kind == "ALiBi":
        level = seen.min() > 0.9 and far.min() > 0.85 and (seen - far).max() < 0.08
        assert level if name == "last capital" else seen.max() < 0.4
    elif kind == "none":
        guesser = commonest(games[name], candidates[name])
        assert (curve[:, 3:].mean(dim=1) - guesser[3:].mean()).abs().max() < 0.04
    else:
        assert seen.min() > 0.9 and far.max() < 0.7
        assert next_16.min() > 0.85 if kind == "rotary" else next_16.max() < 0.75
        worse = kind == "learned" or (kind, name) == ("sinusoidal", "last capital")
        assert ((far < baseline) if worse else (far > baseline)).all()
        late = curve[:, 48:].mean(dim=1) < curves[name, "none"][:, 48:].mean(dim=1)
        assert late.all() or kind != "rotary"
for start, model in enumerate(models["three back", "learned"]):
    torch.manual_seed(start)
    before = Reader("learned").positions.P
    changed = (model.positions.P != before).any(dim=-1)[0]
    assert changed[:16].all() and not changed[16:].any()
q, e, other = torch.randn(3, 100, 1, 1, 8)  # a query and two letters, 100 times
bias = plain_alibi_bias(4, 4)[:, -1:]  # (4, 1, 4): the last query's; "other" is between as well
orders = [torch.cat(letters, dim=2) for letters in ((e, other, other, q), (other, other, e, q))]
weights = [plain_attend(q, keys, torch.eye(4), bias) for keys in orders]  # (100, 4, 1, 4)
first, second = (each[..., 0] > each[..., 2] for each in weights)  # third back before last?
assert first.any() and second.any() and not (first & second).any()
rows = {key: torch.tensor(found) for key, found in controls.items()}  # (2, 3): games and starts
every, far, cut = (rows[key] for key in rows if key[0] == "rotary")
assert cut.min() > 0.9 and every.max() < 0.65
assert (far - rows["none", "the latest 4 and the first 12"]).max() < 0.1
for name, game in games.items():
    for model in models[name, "rotary"]:  # with nothing clipped, nothing changes
        unlimited = accuracy_far(model, game, past, clipped(model, most=63))
        assert abs(unlimited - accuracy_far(model, game, past)) < 0.01

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the experiment does not show
#
# This was one layer in two small games, one of which suits ALiBi, and says little about which
# encoding gives the better language model. In larger models, on tasks of reasoning, Kazemnejad et
# al. (2023) find ALiBi and rotary 'not well suited' to longer inputs. A decoder without any
# encoding did better there; it can learn some order from its causal mask (Haviv et al., 2022). Even
# so, 18 of the 20 models in the course's table `who_uses_what` use rotary positions, and some read
# longer texts with slowed hands (chapter 11, *Longer than trained*).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what follows in practice. Answers to expect: train on longer texts, keep a window
# (chapter 9), or squeeze the angles so that long distances look like short ones (chapter 11).
# Vaswani et al. hoped that sines 'may allow' a model to read past its training length. Here they
# do not.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Without a mask, **self-attention** is blind to the order of its tokens.
# - **Sinusoidal** positions, $D/2$ hands of a clock, are added to the tokens, and a shift is a
#   rotation. **Learned** positions are a table with an end.
# - **Rotary** turns queries and keys, but not values, so positions enter a score only through the
#   signed distance $j - i$. **ALiBi** subtracts a slope times the distance $\lvert i - j\rvert$.
# - In our experiment, one layer and two small games on positions 0 to 15, added positions,
#   sinusoidal and learned, failed at most later ones, often with worse results than no encoding.
#   Rotary held to about position 33, until new distances misled it. ALiBi learned only the game
#   that suits it, but kept that one.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Homework: exercises 7.1 to 7.3. Exercise 7.6 suits a lab in pairs.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.1** · by hand
#
# Tokens are $D = 4$ numbers wide. What does the sinusoidal encoding add to the fourth token, which
# is at position 3? Use a calculator, not the package. Give a list of four numbers, to two decimals.

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.2** · predict, then measure
#
# Five random words of 12 numbers enter `MultiHeadAttention(12, 3, 0.0)` as queries, keys and
# values. Then the words at positions 1 and 3 are exchanged. For how many of the three words that
# stay does the output change
#
# - as it is;
# - with `PositionalEncoding(12, 0.0)` before it;
# - with `positions=ALiBi(3)` instead;
# - with nothing but `is_causal=True`?
#
# Predict, measure, and give four counts, such as `(3, 3, 3, 3)`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order.
#
# ### Which far distance looks like 3?
#
# *3 minutes.* New distances begin at 16, yet at *three back* rotary stays above 90% up to position
# 33, with a first small step at 28. Which distances mislead it? A head of size 8 has four hands,
# but nearly all of its score comes from the first two. For each distance, we average their scores
# in a trained head over all pairs of letters:

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Draws the mean score against the distance: two hands of one head, and whole heads of three starts


@torch.no_grad()
def score_by_distance(model):  # (64, 4, 4): for each distance, head and hand
    q, k, _ = model.heads(model.embedding.weight[:8][None])  # (1, 4, 8, 8): one row a letter
    turned = torch.stack([plain_rotate(q[..., None, :], t)[..., 0, :] for t in range(64)])
    pairs, means = turned.unflatten(-1, (4, 2)).mean(dim=3), k.unflatten(-1, (4, 2)).mean(dim=2)
    return (pairs * means).sum(dim=-1)[:, 0] / math.sqrt(8)


others = torch.arange(16) != 3
hands, clearest = [], []  # of each model's head in which 3 is most ahead of 0 to 15
for model in models["three back", "rotary"]:
    by_hand = score_by_distance(model)
    by_distance = by_hand.sum(dim=-1)  # (64, 4)
    head = (by_distance[3] - by_distance[:16][others].max(dim=0).values).argmax()
    hands.append(by_hand[:, head])
    clearest.append(by_distance[:, head])
figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.2), sharex=True)
for hand_number, series in ((0, SERIES[0]), (1, SERIES[1])):
    left.plot(hands[0][:, hand_number], **series | {"marker": ""}, label=f"hand {hand_number}")
for start, (curve, style) in enumerate(zip(clearest, ("-", "--", ":"), strict=True)):
    right.plot(curve - curve[3], style, color=INK, linewidth=1.8, label=f"start {start}")
right.axhline(0, color=FAINT, linewidth=0.8)
for distance in (3, 28, 34, 41, 47, 53):
    height = max((curve - curve[3])[distance].item() for curve in clearest) + 1.2
    right.text(distance, height, f"{distance}", ha="center", fontsize=13)
left.set(title="hands 0 and 1 apart, start 0", xlabel="distance", ylabel="score", ylim=(-11.5, 9.5))
right.set(title="all four hands together", xlabel="distance", ylim=(-34, 12))
right.set_ylabel("score minus that of 3")
for ax in (left, right):
    ax.axvspan(0, 15, color=PALE, zorder=0)
    ax.legend(loc="lower center", ncols=3, frameon=False)
left.text(7.5, 8, "trained", ha="center")
figure.suptitle("From 41 on, the peaks score higher than 3", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels against the distance, 0 to 63, with 0 to 15 shaded as trained. Left, the
# scores of two hands of a head: hand 0 is a fast wave with its first peak at 3 and a peak about
# every six positions; hand 1 is a slow wave that falls until 18 and rises until 49. Right, the
# score of a head minus its score at distance 3, for three starts. All are fast waves. The peak at 3
# is at 0, those near 9, 16 and 22 are between −2 and −7. Near 28 the peak is at −2 to −4, at 34
# between −2 and 0. At 41 it is near 3, at 47 and 53 between 3 and 5, and at 60 near 2.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Hand 0 scores highest at distance 3. But it needs 6.28 positions for a turn, so it hardly tells 3
# from 9, 16, 22 and so on. Hand 1, ten times as slow, keeps these apart in training: from 0 to 15
# its score only falls. From about 20 on it rises again, until near 50. Together they give peaks
# that rise from 22 on: at 34 the peak nearly reaches that at 3, and **from 41 to 60 all peaks are
# higher**.

# %% [markdown] slideshow={"slide_type": "skip"}
# Since distance 34 first occurs at position 34, the accuracy falls there. With this one key hidden,
# position 34 is as good as 33, in 20 of 20 models.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask which distances the fastest hand cannot tell from 3. Let the room add 6.28 three times. Then
# compare the peaks with the steps in the picture of the accuracies. Two minutes.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks what the text says of hands and peaks, in all starts
for curve, by_hand in zip(clearest, hands, strict=True):
    assert curve[16:34].argmax() + 16 == 28 and curve[16:35].max() < curve[3]
    assert curve[[41, 47, 53, 60]].min() > curve[3] and curve.argmax() in (47, 53)
    assert by_hand[:, :2].abs().amax(dim=0).min() > 5 * by_hand[:, 2:].abs().max()
    assert by_hand[:16, 0].argmax() == 3
    falls = by_hand[:, 1].diff() < 0
    assert falls[:15].all() and not falls[23:46].any() and by_hand[:, 1].argmax() in range(46, 56)
for model in models["three back", "rotary"]:
    whole = accuracy(model, three_back)
    assert whole[3:28].min() > 0.97 and whole[28:34].min() > 0.9
    hidden = accuracy(model, three_back, past & (distances != 34))[34]
    assert abs(hidden - whole[33]) < 0.05

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why added positions fail
#
# *2 minutes.* At *three back* sinusoidal positions fail even where nothing seems new: with only the
# latest 16 keys in sight, 30% to 57% of the answers at positions 32 to 63 are wrong, in 28 starts.
# A row that is added to a token reaches both its query and its key. With $A = W_q^\top W_k$, a
# score times $\sqrt d$ therefore has four terms:
#
# $$(x_i + p_i)^\top A\, (x_j + p_j) =
#   x_i^\top A\, x_j + x_i^\top A\, p_j + p_i^\top A\, x_j + p_i^\top A\, p_j$$
#
# Only the fourth contains both positions. If $A$ turns and scales each hand, this term depends on
# $j - i$ only, because a shift is a rotation. But $A$ is learned from rows 0 to 15 alone, and many
# other matrices do the same at these sixteen positions.
#
# To see which kind training found, we replace the scores of the sinusoidal models by parts of them,
# and count right answers at positions 32 to 63 with the latest 16 keys:

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room multiply out the bracket. Ask which term knows that a key is three back. The page
# measures it: with only the fourth term the models do about as well as with all four. 1½ minutes.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Prints how often the sinusoidal models are right with parts of their scores, latest 16 keys only
P = PlainPositionalEncoding(32, dropout=0.0).P[0, :64]  # (64, 32)
latest_16 = past & (distances < 16)


def product(model):  # (4, 32, 32): A of each head
    return model.W_q.weight.unflatten(0, (4, 8)).mT @ model.W_k.weight.unflatten(0, (4, 8))


def averaged(fourth):  # at each distance the mean over positions 0 to 15
    means = torch.zeros_like(fourth)
    for distance in range(16):
        mean = fourth[:, :16, :16].diagonal(-distance, 1, 2).mean(dim=-1)
        means += mean[:, None, None] * (distances == distance)
    return means


terms = {
    "all four terms": lambda A, X: X[:, None] @ A @ X[:, None].mT,
    "the fourth term only": lambda A, X: P @ A @ P.T,
    "its mean at each distance": lambda A, X: averaged(P @ A @ P.T),
}


def accuracy_of(term, model):
    scores = lambda X: terms[term](product(model), X) / math.sqrt(8)  # noqa: E731
    return accuracy_far(model, three_back, latest_16, scores)


of_terms = {t: [accuracy_of(t, m) for m in models["three back", "sinusoidal"]] for t in terms}
for term, found in of_terms.items():
    print(f"{term:30}", *(f"{share:5.0%}" for share in found))

# %% [markdown] slideshow={"slide_type": "skip"}
# By itself the fourth term is as good as all four, give or take 20 points. With its mean at each
# distance, taken over positions 0 to 15, nearly all answers are right: 92% or more in 27 of 28
# starts, and 86% in the other. So the models had learned 'three back' for the positions of training
# only. A rotary score depends on $j - i$ only, so it cannot fit sixteen positions one by one.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks what the text says of the terms, in all starts
every, fourth, mean = (torch.tensor(found) for found in of_terms.values())
assert (every - fourth).abs().max() < 0.2 and every.max() < 0.85
assert mean.min() > 0.9

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One token at a time
#
# *6 minutes.* A decoder writes one token after the other, so each call of the encoding gets a
# sequence `X` of one token. D2L's decoder (section 11.7) calls the encoding of section 11.6, which
# adds `P[:, :X.shape[1]]`. With one token this is row 0, in every call.
#
# **Predict.** The sinusoidal model has learned *three back*. It reads 16 letters again, one at a
# time, and takes each of them for the letter at position 0. Is it right always, about three times
# in ten as if it named the commonest letter, or once in eight as if it guessed?


# %% slideshow={"slide_type": "skip"}
@torch.no_grad()
def one_by_one(model, letters, counts_on):
    seen, answers = [], []
    for i in range(letters.shape[1]):
        letter = model.embedding(letters[:, i : i + 1])  # (B, 1, D)
        seen.append(model.positions(letter, offset=i if counts_on else 0))
        X = torch.cat(seen, dim=1)  # (B, i + 1, D)
        answers.append(model.readout(X + model.attend(X, past))[:, -1:])
    return torch.cat(answers, dim=1)


# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room vote. Expect 'once in eight'. One minute.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Prints the right answers of three starts, with the right offset and with 0 for every letter
torch.manual_seed(5)
letters, targets = three_back(500, 16)
for start in range(3):
    model = train("sinusoidal", three_back, start)
    for counts_on in (True, False):
        answers = one_by_one(model, letters, counts_on).argmax(dim=-1)
        share = (answers == targets)[:, 3:].float().mean()
        print(f"offset counts on: {counts_on!s:5}  {share:4.0%}", end="   ")
    print()

# %% [markdown] slideshow={"slide_type": "fragment"}
# About three times in ten. With the offset, token by token gives what the whole sequence gives.
# Without it the model knows the last letter, but not the order of those before it. There is no
# error and no warning.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks that with the offset nothing changes, and without it the order is lost
for model in models["three back", "sinusoidal"]:
    answers = one_by_one(model, letters, True)
    torch.testing.assert_close(answers, model(letters), atol=1e-3, rtol=1e-3)
    blind = one_by_one(model, letters, False).argmax(dim=-1)
    assert (blind == targets)[:, 3:].float().mean() < 0.45

# %% [markdown] slideshow={"slide_type": "notes"}
# The keys still say which letters came, and how often. Ask who would have noticed. One minute.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### CNN, RNN and self-attention compared
#
# *12 minutes.* What does one layer cost, for $n$ tokens of $D$ numbers?
#
# | one layer of | multiplications | steps in a row | longest path |
# |---|---|---|---|
# | CNN | $w\,n\,D^2$ | 1 | $2(n-1)/(w-1)$ |
# | RNN | $2\,n\,D^2$ | $n$ | $n$ |
# | self-attention | $4\,n\,D^2 + 2\,n^2 D$ | 1 | 1 |
#
# *Steps in a row* wait for each other. The *longest path* counts the layers (in an RNN: tokens)
# that information passes from the first token to the last: 31, 32 and 1 for $n = 32$ and $w = 3$.
# Self-attention connects any two tokens in one layer, and pays for this with the term in $n^2$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for the three longest paths before you show the last lines. All three use the
# same parameters at every position. Only the first two have the order built in.

# %% [markdown] slideshow={"slide_type": "skip"}
# A **convolutional network** (CNN) has a $D \times D$ matrix for each of the $w$ tokens in a
# window, and carries information $(w-1)/2$ positions further. A **recurrent network** (RNN) has one
# matrix for the token and one for the state. Self-attention has four, with chapter 6's $W_o$; then
# $n$ queries meet $n$ keys and weight $n$ values.
#
# To measure the paths, let a *step* be one layer, or one token of an RNN. We update all RNN states
# at once, each from its token and its left neighbour, so that after $n$ steps the last state is
# that of an ordinary reading.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
conv = nn.Conv1d(8, 8, kernel_size=3, padding=1)
cell = nn.RNNCell(8, 8)


def read_cnn(X, layers):  # (n, 8) -> (n, 8)
    for _ in range(layers):
        X = conv(X.mT).mT
    return X


def read_rnn(X, steps):
    states = torch.zeros_like(X)
    for _ in range(steps):
        left = F.pad(states[:-1], (0, 0, 1, 0))  # position 0 has zeros on its left
        states = cell(X, left)
    return states


def read_attention(X, layers):
    for _ in range(layers):
        X = plain_attend(X, X, X)
    return X


readers = {"CNN": read_cnn, "RNN": read_rnn, "self-attention": read_attention}

# %% [markdown] slideshow={"slide_type": "fragment"}
# The gradient of output $i$ with respect to input $j$ is 0 unless a path leads from $j$ to $i$.
#
# **Predict.** There are twelve tokens. Which inputs does each output depend on after one step? And
# after four?

# %% [markdown] slideshow={"slide_type": "notes"}
# A minute with paper before the picture: draw the three grids after four steps. Two minutes.


# %% slideshow={"slide_type": "skip"}
def reached(read, n, steps):  # bool (n, n): does output i (row) depend on input j (column)?
    X = torch.randn(n, 8)
    gradients = torch.autograd.functional.jacobian(
        lambda X: read(X, steps).sum(dim=-1), X
    )  # (n, n, 8)
    return (gradients != 0).any(dim=-1)


after = {(steps, name): reached(readers[name], 12, steps) for steps in (1, 4) for name in readers}

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws which inputs reach which outputs after one step and after four
figure, axes = plt.subplots(2, 3, figsize=(9, 5.4), sharex=True, sharey=True)
for ((steps, name), filled), ax in zip(after.items(), axes.flat, strict=True):
    looks = {"vmax": 1.0, "cmap": ramp_to(GREY), "sides": ("outputs", "inputs")}
    heatmap(ax, filled, **looks)
    ax.set(aspect="equal", title=name if steps == 1 else "")
    ax.tick_params(labelsize=12, labeltop=steps == 1)
    ax.set_xticks(range(0, 12, 3))
    ax.set_yticks(range(0, 12, 3))
for ax, steps in zip(axes[:, 0], ("1 step", "4 steps"), strict=True):
    ax.set_ylabel(f"after {steps}\noutputs", color=INK)
for ax in axes[0]:
    ax.set_xlabel("inputs", color=INK)
figure.suptitle("Only self-attention reaches every token at once", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of three grids, outputs by inputs, a cell filled where the input reaches the
# output. After one step: the CNN has a band of three, the RNN the diagonal, self-attention
# everything. After four: the CNN a band of nine, the RNN the diagonal and the three cells left of
# it, self-attention everything.*

# %% [markdown] slideshow={"slide_type": "skip"}
# After one step an output of the CNN depends on up to three inputs, one of the RNN on its own, and
# one of self-attention on all twelve. After four steps these are up to nine, up to four, and all.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the six grids, the longest paths, and that 12 steps together are one reading of an RNN
index = torch.arange(12)
back = index[:, None] - index  # how far output i looks back to input j
for steps in (1, 4):
    assert torch.equal(after[steps, "CNN"], back.abs() <= steps)
    assert torch.equal(after[steps, "RNN"], (back >= 0) & (back < steps))
    assert after[steps, "self-attention"].all()
for n in (4, 8, 16, 32):  # steps until the last output depends on the first input
    longest = [
        next(steps for steps in range(1, 33) if reached(read, n, steps)[-1, 0])
        for read in readers.values()
    ]
    assert longest == [n - 1, n, 1]

X = torch.randn(12, 8)
state = torch.zeros(8)
for token in X:  # the usual way to write an RNN ...
    state = cell(token, state)
torch.testing.assert_close(read_rnn(X, 12)[-1], state)  # ... is what 12 steps come to

# %% [markdown] slideshow={"slide_type": "notes"}
# Some will draw a whole triangle for the RNN after one step, because its loop runs over the
# sentence. That is twelve steps for twelve tokens: count them.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.3** · complete a function
#
# Without looking at the cells above, add the sinusoidal encoding to tokens X (B, n, D). The first
# token of each sentence is at position `offset`, which may be in the thousands. The columns $2r$
# and $2r + 1$ hold the sine and the cosine of position / $10000^{2r/D}$. If D is odd, the last
# column is a sine. X itself stays as it is, and gradients reach it. X may be float16 or float64,
# and so is the result: convert the rows to X's type before you add them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.5** · find the bug
#
# `alibi_bias` should give what ALiBi adds to the scores of causal self-attention, (H, Q, K) in
# float32. Of `num_keys` tokens the last `num_queries` ask. A key that is $t$ positions before its
# query costs $m$ times $t$. Head $h$ of $H = 1, 2, 4, 8, \dots$ heads, counted from 1, has the
# slope $m = 2^{-8h/H}$. Keys that come after their query get $-\infty$. There are four bugs.
# Find and correct them.

# %% slideshow={"slide_type": "skip"}
import torch

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.6** · write the test
#
# Your test takes a function `attend(queries, keys, values, first_query, first_key)`: scaled
# dot-product attention with a rotary encoding as in 7.4. Queries and keys are (B, H, n, d), not yet
# turned, values (B, H, K, V). The first query and the first key are at the positions given, and
# nothing is masked. You may use `RotaryEncoding` or your `rotate` of 7.4. The test returns silently
# where the function is right, and raises an `AssertionError` for each of six broken ones:
#
# - only the queries are turned;
# - the values are turned as well;
# - queries are turned one way, keys the other;
# - queries are turned in pairs of neighbours, keys in pairs that are d/2 columns apart;
# - queries and keys are both counted from 0, whatever is given;
# - the scores are not divided by the root of d.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.6: the
#   comparison, the encoding, the rotation; 11.7: the decoder that writes one token at a time.
#   [d2l.ai](https://d2l.ai)
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.5:
#   sines and cosines; section 4: the table of costs.
# - J. Gehring et al., *Convolutional Sequence to Sequence Learning*, ICML 2017, arXiv:1705.03122.
#   Section 3.1: learned positions.
# - J. Su et al., *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021,
#   arXiv:2104.09864. Section 3.2.
# - O. Press, N. A. Smith, M. Lewis, *Train Short, Test Long: Attention with Linear Biases Enables
#   Input Length Extrapolation*, ICLR 2022, arXiv:2108.12409. Section 3.
# - A. Haviv et al., *Transformer Language Models without Positional Encodings Still Learn
#   Positional Information*, Findings of EMNLP 2022, arXiv:2203.16634.
# - A. Kazemnejad et al., *The Impact of Positional Encoding on Length Generalization in
#   Transformers*, NeurIPS 2023, arXiv:2305.19466.
