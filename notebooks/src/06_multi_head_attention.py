# %% [markdown] slideshow={"slide_type": "slide"}
# # 6 · Multi-head attention
#
# **You will**
# - explain why one weighted average, read out linearly, cannot tell that two things are both
#   present, and why two averages can;
# - write the split into heads, and build multi-head attention without a loop over them;
# - test the layer against a slow version that you trust;
# - remove a trained head to find out what it is needed for.
#
# Core path: 65 to 100 minutes, in two sittings. Going further: 35. Exercises: 69. Builds on
# chapters 3 and 4. *Dive into Deep Learning* (D2L) treats the subject in section 11.5.

# %% [markdown] slideshow={"slide_type": "notes"}
# 35 minutes, with votes: 10½ to the picture of the layer, 8½ to the whole layer, 7 for what heads
# learn, 9 from the ablation on. If time is short, skip first the picture of W_q. Open the notebook
# beforehand and run all of it. The slides of *Going further* come after the summary.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy
import math
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from d2l_attention import MultiHeadAttention, length_mask, show_source
from d2l_attention.experiments.spelling import BEFORE, OPPOSITE, Speller, accuracy, train, words
from d2l_attention.real_models.published import stored
from d2l_attention.views import AttentionView, Player, State, grid, schematic
from d2l_attention.views.palette import CUT, FAINT, GROUND, INK, PALE, RULE
from d2l_attention.views.plots import hatch_zeros, heatmap, set_style, show_heatmaps

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention averages** (chapters 1 and 3). Suppose a query gives two keys the scores $\ln 3$ and
#   $0$. Their exponentials are 3 and 1, so their weights are $3/4$ and $1/4$. From the values 8 and
#   4 the answer is then $3/4 \cdot 8 + 1/4 \cdot 4 = 7$. Other scores give other weights, but the
#   answer always lies between 4 and 8.
# - **A score** is $q \cdot k / \sqrt d$, where $d$ is the size of the query and of the key.
# - **Shapes.** Queries (B, Q, D), keys (B, K, D) and values (B, K, V) give weights (B, Q, K) and
#   an output (B, Q, V).
# - **Lengths** (chapter 4). `valid_lens` says how many keys, counted from the left, may be seen.

# %% [markdown] slideshow={"slide_type": "skip"}
# In code, attention is `compute_weights(q, k) @ v`. `visible` is True where a query may see a key,
# and the three dots in a shape stand for any axes in front, such as a batch.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def compute_weights(q, k, visible=None):  # (..., Q, d), (..., K, d) -> (..., Q, K)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if visible is None:
        return scores.softmax(dim=-1)
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return weights.masked_fill(~visible, 0.0)  # a query that sees nothing gets zeros


# %% [markdown] slideshow={"slide_type": "slide"}
# ## Salt and pepper: what can one average say?
#
# So far each query got one average, but sometimes it needs two facts at once. A pronoun, for
# instance, may need both its referent and the verb that follows. Why one average is too few is
# easiest to see in a soup that needs salt **and** pepper. Given a shelf of jars, we want a number
# that is positive if it holds both, and negative otherwise. Every salt jar holds $s$, every pepper
# jar $p$, and our number is their weighted average. You choose $s$, $p$ and the weights.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the three kinds of shelves
figure, axes = plt.subplots(1, 3, figsize=(10.5, 2.2))
for ax, (shelf, wish) in zip(axes, (("ss", "< 0"), ("pp", "< 0"), ("sp", "> 0")), strict=True):
    for x, jar in enumerate(shelf):
        colour, ink = (PALE, INK) if jar == "s" else (INK, PALE)
        ax.add_patch(Rectangle((1.4 * x + 0.2, 1.0), 0.6, 0.14, facecolor=FAINT))
        ax.add_patch(Rectangle((1.4 * x, 0), 1, 1, facecolor=colour, edgecolor=FAINT))
        ax.text(1.4 * x + 0.5, 0.5, f"${jar}$", ha="center", va="center", color=ink, fontsize=20)
    ax.plot([-0.4, 2.8], [-0.04, -0.04], color=FAINT, linewidth=4)
    ax.set(xlim=(-0.5, 2.9), ylim=(-0.1, 1.25), title=f"the answer should be {wish}")
    ax.axis("off")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three shelves of two jars. On two salt jars the answer should be negative, on two pepper
# jars negative, and on one salt jar and one pepper jar positive.*

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** On how many of the three shelves can one choice of numbers be right? Name your $s$
# and $p$, and the weight $\alpha$ of the salt on the third shelf.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Give the room one minute to try, then collect choices on the board. A typical
# proposal is s = 1 and p = -1, 'then the mixture is in the middle'. It is, and that is the trouble:
# 'both' would have to lie outside of 'salt' and 'pepper'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Try your numbers

# %% slideshow={"slide_type": "-"}
s, p, alpha = 1.0, -1.0, 0.3  # your choice
for shelf, answer in {"ss": s, "pp": p, "sp": alpha * s + (1 - alpha) * p}.items():
    print(f"{shelf}: {answer:.1f}, right: {(answer > 0) == (shelf == 'sp')}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# | shelf | answer | should be |
# |---|---|---|
# | salt, salt | $\alpha\,s + (1-\alpha)\,s = s$ | negative |
# | pepper, pepper | $\alpha\,p + (1-\alpha)\,p = p$ | negative |
# | salt, pepper | $\alpha\,s + (1-\alpha)\,p$ | positive |
#
# On two at most. If the first two answers are negative, the third is an average of two negative
# numbers, which is negative for every $\alpha$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Type the room's best choice into the cell before you show the table. The cell is a
# test of one choice, the table is a proof for all. Say 'convex hull' only if they know the word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two heads for two questions
#
# Since one average is too few, let us take two. Each **head** computes its own weights and its own
# average: head 1 looks for salt, head 2 for pepper.
#
# A jar of salt is now the vector (1, 0), and a jar of pepper is (0, 1). Head 1 uses the first
# number of each jar as its key and as its value, while head 2 uses the second. The query is 10, so
# a score is ten times the key.

# %% slideshow={"slide_type": "-"}
jars = torch.tensor([[0, 0], [1, 1], [0, 1], [1, 0]])  # four shelves; 0 is salt, 1 is pepper
one_hot = F.one_hot(jars, 2).float()  # (4, 2, 2): shelf, jar, number
for head in (0, 1):
    wanted = one_hot[..., head]  # (4, 2): 1 where the jar holds what this head looks for
    weights = (10 * wanted).softmax(dim=-1)  # (4, 2)
    found = (weights * wanted).sum(dim=-1)  # (4,)
    print(f"head {head + 1} finds on the four shelves:", found)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The sum of the two numbers, minus 1.5, is positive only where both are there. Such a sum with
# fixed factors, plus a constant, is called a **linear readout**.

# %% [markdown] slideshow={"slide_type": "skip"}
# On the second shelf head 2 finds 1, although two jars hold pepper: their keys are equal, so each
# jar gets half of the weight. An average does not count the jars.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The shelves are salt and salt, pepper and pepper, salt and pepper, pepper and salt.
# Ask how the room would turn the two numbers into one answer, before you show the last lines. Why
# does head 2 find 1 on the second shelf, and not 2? An average does not count the jars.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One average and two, as a picture

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws what one average and what two averages give for the three kinds of shelves
figure, (line, plane) = plt.subplots(1, 2, figsize=(11, 3.6))
line.axvspan(0, 1.2, color=PALE)
line.plot([-3, -1], [0, 0], color=FAINT, linewidth=6)
line.plot([-3, -1], [0, 0], linestyle="", marker="o", markersize=13, color=INK)
for x, y, text in ((-1, 0.3, "two salt: $s$"), (-3, 0.3, "two pepper: $p$")):
    line.text(x, y, text, ha="center")
line.text(-2, -0.45, "salt and pepper:\nsomewhere between", ha="center", va="center")
line.text(0.6, 0.65, "wanted for\nboth", ha="center", va="center")
line.axvline(0, color=INK, linestyle="--", linewidth=1.5)
line.set(
    xlim=(-3.9, 1.2), ylim=(-1, 1), xlabel="answer", yticks=[], title="One average stays below 0"
)
line.spines["left"].set_visible(False)
plane.fill_between([0, 1.5], [1.5, 0], [1.5, 1.5], color=PALE)
plane.plot([0, 1.5], [1.5, 0], color=INK, linestyle="--", linewidth=1.5)
plane.plot([1, 0, 1], [0, 1, 1], linestyle="", marker="o", markersize=13, color=INK)
for x, y, text in ((0.93, 0.13, "two salt"), (0.08, 1, "two pepper"), (0.93, 1.16, "both")):
    plane.text(x, y, text, ha="left" if x < 0.5 else "right", va="center")
plane.set(xlim=(-0.1, 1.5), ylim=(-0.1, 1.5), xticks=[0, 1], yticks=[0, 1])
plane.set(
    xlabel="head 1 finds", ylabel="head 2 finds", title="Two averages: a line cuts off 'both'"
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: on the left a number line. The answers s and p lie below 0, a bar between them holds all
# mixtures, and the wanted region above 0 stays empty. On the right a plane with what heads 1 and 2
# find: (1, 0) for two salt jars, (0, 1) for two pepper jars, and (1, 1) for both. A dashed line,
# where the sum is 1.5, separates (1, 1) from the others.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Left: why can no weight reach the grey region? Right: where would a shelf with
# neither be? At (0, 0), on the same side as the two wrong ones.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Multi-head attention in one formula
#
# In general, head $h$ multiplies the query, the keys and the values by three learned matrices of
# its own, and then attends, with $f$ the attention that you know:
#
# $$o_h = f\big(W^{(q)}_h q,\; W^{(k)}_h k,\; W^{(v)}_h v\big), \qquad h = 1, \dots, H$$
#
# The outputs of the heads are put end to end (**concatenated**), and one more matrix mixes them:
#
# $$\text{output} = W_o \begin{bmatrix} o_1 \\ \vdots \\ o_H \end{bmatrix}$$
#
# Concatenation lets $W_o$ treat each head differently. In a plain sum only the head's own
# $W^{(v)}_h$ could keep its output apart from the others'. Together the $H$ heads usually give $D$
# numbers per query, so each gives only $D / H$, and $H$ must divide $D$. Its scores are then
# divided by $\sqrt{D / H}$, the root of the head's own size. Such a head is **thin**, but it reads
# *all* numbers of a token. Eight thin heads have no more parameters than one wide head, as *Going
# further* counts.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Read it aloud from the inside: project, attend, concatenate, mix. Then ask for the
# size of the output matrix. Many say D by D/H. It is D by D, because it reads all heads. (D2L
# writes h_i for our o_h. Some models choose the size of a head freely, among them Qwen3 and Gemma.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The layer as a picture

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in multi-head attention
schematic("multi-head")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows from left to right. Queries (B, Q, D), keys and values (B, K, D) are
# each multiplied by a learned matrix, W_q, W_k, W_v, and split into heads: (B, H, Q, D/H) and twice
# (B, H, K, D/H). Each of H heads attends. Their outputs are merged to (B, Q, D) and multiplied by
# W_o. The output is (B, Q, D).*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Follow one query with a finger. Ask: why are the heads concatenated, and not added? If
# head 1 found (1, 0) and head 2 found (0, 1), or the other way round, the sum is (1, 1) both times:
# nobody knows any more who found what, unless each W_v writes its head's answer to another place.

# %% [markdown] slideshow={"slide_type": "skip"}
# A wider head, which averages vectors, would do no better as long as its readout is linear (*One
# head of any width* in *Going further*). Yet soup is only one case: Vaswani et al. (2017) argue
# that averaging in one head hinders attending to different positions at once. A game below tests
# this, with a linear readout.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A loop over the heads
#
# In code, one matrix `W_q` holds the matrices of all heads, each of $D / H$ rows, and `chunk` takes
# them apart.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the rows of W_q that belong to each of two heads, and what they give
figure, ax = plt.subplots(figsize=(9, 2.7))
for i in range(4):
    for x, name in ((7.6, "x"), (9.6, "q")):
        colour = GROUND if name == "x" else PALE if i < 2 else RULE
        ax.add_patch(Rectangle((x, 3 - i), 1, 1, facecolor=colour, edgecolor=FAINT))
        ax.text(x + 0.5, 3.5 - i, f"${name}_{i}$", ha="center", va="center")
for y, head, colour in ((2, 1, PALE), (0, 2, RULE)):
    ax.add_patch(Rectangle((2.6, y), 4, 2, facecolor=colour, edgecolor=FAINT))
    ax.text(4.6, y + 1, f"$W^{{(q)}}_{head}$", ha="center", va="center", fontsize=18)
    ax.text(2.4, y + 1, f"rows of head {head}", ha="right", va="center")
    ax.text(10.8, y + 1, f"query of head {head}", va="center")
ax.text(7.1, 2, "·", ha="center", va="center", fontsize=24)
ax.text(9.1, 2, "=", ha="center", va="center", fontsize=18)
ax.set(xlim=(0, 13.3), ylim=(-0.1, 4.1))
ax.axis("off")
ax.set_title("One product with W_q gives the queries of all heads")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a matrix of four rows times the four numbers of a token gives four numbers. The upper two
# rows belong to head 1 and give its query, the lower two belong to head 2 and give its query.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Which rows of the output matrix belong to head 1? None: it has columns for each
# head.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Tokens are rows in code, so $W q$ becomes `q @ W.T`.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Line by line, with the formula on the board. Ask what happens to K: keys and values
# are averaged away, so the output has one row for each query.


# %% slideshow={"slide_type": "-"} tags=["build"]
def loop_over_heads(queries, keys, values, W_q, W_k, W_v, W_o, num_heads):
    heads = []
    for h in range(num_heads):
        q = queries @ W_q.chunk(num_heads)[h].T  # (B, Q, D / H)
        k = keys @ W_k.chunk(num_heads)[h].T  # (B, K, D / H)
        v = values @ W_v.chunk(num_heads)[h].T  # (B, K, D / H)
        heads.append(compute_weights(q, k) @ v)  # (B, Q, D / H)
    return torch.cat(heads, dim=-1) @ W_o.T  # (B, Q, D)


# %% [markdown] slideshow={"slide_type": "slide"}
# ## All heads in one product
#
# The loop multiplies $3H$ times by a small matrix, but three large products do the same work. In
# **self-attention**, where queries, keys and values come from the same $n$ tokens `X`,
# `X @ W_q.T` gives each token $D$ numbers, the first $D / H$ for head 1, the next for head 2. The
# numbers are right. What remains is to rearrange $(n, D)$ into $(H, n, D / H)$.
#
# Let us take four tokens R, S, T and U of four numbers each, and two heads. Head 1 should get the
# left half:
#
# $$\text{tokens} = \begin{bmatrix}
#   R_0 & R_1 & R_2 & R_3 \\ S_0 & S_1 & S_2 & S_3 \\
#   T_0 & T_1 & T_2 & T_3 \\ U_0 & U_1 & U_2 & U_3 \end{bmatrix}$$
#
# **Predict.** `tokens.view(2, 4, 2)` has the right shape and raises no error. What does head 1 get?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them write down the four rows of head 1. Most write R0 R1, S0 S1, T0 T1, U0 U1.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What `view` does

# %% slideshow={"slide_type": "skip"}
tokens = 10 * torch.arange(4)[:, None] + torch.arange(4)  # (4, 4): 21 means T1


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Steps from the tokens to what view gives and to what we want, one shade for each token
by_view = tokens.view(2, 4, 2)  # (H, n, D / H)
as_wanted = torch.stack([tokens[:, :2], tokens[:, 2:]])  # (H, n, D / H): both halves


def letters(block, x, y):
    """The numbers of a block as letters: each flies to where the next step has it."""
    names = [[f"{'RSTU'[n // 10]}{n % 10}" for n in row] for row in block.tolist()]
    shades = [[f"shade {n // 10}" for n in row] for row in block.tolist()]
    return grid(names, x, y, shades, name=names, height=0.8)


def heads(blocks):
    """Two blocks under each other, head 1 and head 2."""
    named = grid("head 1", 0, 1.2, "label", width=2) + grid("head 2", 0, 4.8, "label", width=2)
    return named + letters(blocks[0], 2.2, 0) + letters(blocks[1], 2.2, 3.6)


Player(
    [
        State("Four tokens of four numbers", "The shape is (4, 4).", letters(tokens, 2.2, 0)),
        State("view gives head 1 two whole tokens", "In memory no number moves.", heads(by_view)),
        State("Wanted for each head: half of each token", "Also (2, 4, 2).", heads(as_wanted)),
    ]
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three steps with squares, one shade per token. First the tokens: four rows, R, S, T, U,
# of four squares. After view head 1 has all squares of R and S in four rows, head 2 all of T and U.
# As wanted, head 1 has the first two squares of R, S, T and U, head 2 the last two.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Head 1 gets all of R and S, and head 2 all of T and U, so each head sees only half of the tokens.
# The numbers lie in memory as one long row, R0 R1 R2 R3 S0 S1 and so on. `view` keeps this order,
# so the first half of memory, tokens R and S, becomes head 1.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Read the memory aloud: R0 R1 R2 R3 S0 S1 and so on. All shapes are right, so no test
# of shapes fails. Then let pairs find the right way on paper, in two steps from (4, 4) to (2, 4,
# 2); on the page students write it as exercise 6.3.

# %% [markdown] slideshow={"slide_type": "skip"}
# How do we get the halves, for a whole batch? Write this step before you read ours. `check`,
# `hint("6.3")` and `solution("6.3")` help.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.3** · complete a function
#
# From (B, n, D) to (B, H, n, D / H). The first head gets the first D / H columns of every token,
# the second the next, and so on. `num_heads` divides D. To see where numbers go, mark them:
# `10 * token + column`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From (n, D) to (H, n, D / H)
#
# First, `reshape` **splits** the last axis. Then `transpose` **moves** the heads to the front.

# %% slideshow={"slide_type": "-"}
moved = tokens.reshape(4, 2, 2).transpose(0, 1)  # (n, D) -> (n, H, D / H) -> (H, n, D / H)
print("there and back:", torch.equal(moved.transpose(0, 1).reshape(4, 4), tokens))

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Steps through the split, and checks that it is as wanted
assert torch.equal(moved, as_wanted)
split = tokens.reshape(4, 2, 2)  # (n, H, D / H)
apart = letters(split[:, 0], 2.2, 0) + letters(split[:, 1], 4.7, 0)
Player(
    [
        State("Four tokens of four numbers", "(n, D): a row is a token.", letters(tokens, 2.2, 0)),
        State("reshape splits each row", "(n, H, D / H): nothing has moved.", apart),
        State("transpose exchanges tokens and heads", "(H, n, D / H).", heads(moved)),
    ]
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three steps with the same squares. The rows are split in the middle, and the halves
# become the blocks of head 1 and head 2.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Neither view nor reshape changes the order in which the numbers are read; only
# transpose does. Ask which of the two steps comes first on the way back, and why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The whole layer
#
# | step | code | shape |
# |---|---|---|
# | project | `W_q(queries)` | (B, Q, D) |
# | split | `split(...)`: split the axis, then move | (B, H, Q, D / H) |
# | weigh | `compute_weights(q, k, visible)` | (B, H, Q, K) |
# | average | `weights @ v` | (B, H, Q, D / H) |
# | merge | `merge(...)`: move back, then join | (B, Q, D) |
# | mix | `W_o(...)` | (B, Q, D) |
#
# The inputs may have other widths than $D$, because `W_q`, `W_k` and `W_v` bring all of them to
# $D$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cover the column of shapes and let the room fill it in. The `forward` of the class in
# the notebook does the six rows, often two in one line. If somebody asks about the future: a causal
# mask (chapter 4) is the same for all heads. Without one, every head sees the last token.

# %% [markdown] slideshow={"slide_type": "skip"}
# With these six steps you can write the layer before you read ours; allow 15 more minutes.

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.4** · complete a function
#
# Queries (B, Q, any size), keys and values (B, K, any size), `W_q`, `W_k`, `W_v` (size, D), `W_o`
# (D, D), lengths (B,) from 0 to K, output (B, Q, D). A sentence of length 0 gets the output 0.
# The matrices are already transposed: it is `queries @ W_q`, and the first head owns the first
# D / H *columns*. `masked_softmax(scores, valid_lens)` (chapter 4) also takes scores (B, H, Q, K).

# %% slideshow={"slide_type": "skip"}
from d2l_attention import masked_softmax

# %% [markdown] slideshow={"slide_type": "skip"}
# Our layer follows. All heads of a sentence share a mask, so we give it a head axis of size 1 and
# let broadcasting repeat it.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def seen_keys(valid_lens, K):  # (B,) or (B, Q) -> (B, 1, 1 or Q, K)
    return torch.arange(K) < valid_lens.reshape(len(valid_lens), 1, -1, 1)


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainMultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, dropout):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.LazyLinear(num_hiddens, bias=False)  # the first call fixes its input size
        self.W_k = nn.LazyLinear(num_hiddens, bias=False)
        self.W_v = nn.LazyLinear(num_hiddens, bias=False)
        self.W_o = nn.LazyLinear(num_hiddens, bias=False)
        self.dropout = nn.Dropout(dropout)

    def split(self, X):  # (B, n, D) -> (B, H, n, D / H)
        B, n, D = X.shape
        X = X.reshape(B, n, self.num_heads, D // self.num_heads)  # split the axis
        return X.transpose(1, 2)  # move

    def merge(self, X):  # (B, H, n, D / H) -> (B, n, D)
        B, H, n, size = X.shape
        X = X.transpose(1, 2)  # move back
        return X.reshape(B, n, H * size)  # join

    def forward(self, queries, keys, values, valid_lens=None):
        q = self.split(self.W_q(queries))  # (B, H, Q, D / H)
        k = self.split(self.W_k(keys))  # (B, H, K, D / H)
        v = self.split(self.W_v(values))  # (B, H, K, D / H)
        visible = None if valid_lens is None else seen_keys(valid_lens, k.shape[2])
        self.attention_weights = compute_weights(q, k, visible)  # (B, H, Q, K)
        heads = self.dropout(self.attention_weights) @ v  # (B, H, Q, D / H)
        return self.W_o(self.merge(heads))  # (B, Q, D)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that loop, class and package give the same, the last two with lengths as well
torch.manual_seed(0)
inputs = torch.randn(2, 3, 12), torch.randn(2, 5, 12), torch.randn(2, 5, 12)
plain, package = PlainMultiHeadAttention(12, 3, 0.0), MultiHeadAttention(12, 3, 0.0)
output = plain(*inputs)  # D = 12, H = 3
torch.testing.assert_close(output, loop_over_heads(*inputs, *plain.parameters(), num_heads=3))
package.load_state_dict(plain.state_dict())
for lens in (None, torch.tensor([5, 0])):
    torch.testing.assert_close(plain(*inputs, lens), package(*inputs, lens))
print("checked: the layer equals the loop over heads, and the package's MultiHeadAttention")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# You have a layer that computes all heads at once and equals the slow
# loop. What remains is to see what heads learn, and whether training would have told you of a bug.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What do heads learn?
#
# To find out, we train a layer in a game whose right answer we know. Each position of a word with
# seven letters must name two letters: the one **before** it, and the one **opposite**, as in a
# mirror. Position 0, which has no letter before it, names its own.
#
# | position | 0 | 1 | 2 | 3 | 4 | 5 | 6 |
# |---|---|---|---|---|---|---|---|
# | letter | d | e | l | i | v | e | r |
# | before | d | d | e | l | i | v | e |
# | opposite | r | e | v | i | l | e | d |
#
# This is self-attention over seven tokens, each of which consists of its letter and its position.
# The words are random.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room name the two letters for position 4. Ask why a token must contain its
# position: nothing in the formula tells it.

# %% [markdown] slideshow={"slide_type": "skip"}
# `words(64)` draws 64 words, together with the two letters to name at each position. `train` draws
# 64 new words for each step, computes the cross-entropy, and lets Adam make one step. `accuracy`
# then gives, for each of the two jobs, the share of right letters in 2,000 other words. The model
# is an attention layer with a linear readout:


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows the model, which gives a score for each letter and job
show_source(Speller)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows how it is trained
show_source(train)


# %% slideshow={"slide_type": "skip"}
def rates(speller):
    return "before {:4.0%}   opposite {:4.0%}".format(*accuracy(speller, words))


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One head against two
#
# Let us train the model with one head and with two, for 300 steps, from three random
# initialisations ('start 0' to 'start 2').
#
# **Predict.** One head computes one average for both jobs. Suppose it gives half of its weight to
# each of the two positions. What, roughly, can its rates of right letters before and of right
# letters opposite sum to: 200%, 150% or 100%?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes, the vote in pairs.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
spellers = {}
for seed in range(3):
    for num_heads in (1, 2):
        speller = train(partial(Speller, PlainMultiHeadAttention, num_heads), words, 300, seed)
        print(f"start {seed}, heads: {num_heads}   {rates(speller)}")
        spellers[seed, num_heads] = speller

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Add up the two rates of each line aloud. The next slide explains them.

# %% [markdown] slideshow={"slide_type": "fragment"}
# About 100%: here the one head's rates sum to 106 to 111%. With two heads, both rates reach 100% in
# all three starts.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where the one head looks
#
# Why can one head not do better? Let us see where it looks in the word *deliver*, and how the
# readout then scores the letters for position 4, which must name *i* and *l*.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Draws one head's weights and its readout's scores, and checks what the text says about them
deliver = torch.tensor([["abcdefghijklmnopqrstuvwxyz".index(letter) for letter in "deliver"]])
scores = spellers[0, 1](deliver)[0, 4].detach()  # (2, 26), start 0: a row for each job
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), width_ratios=[1.3, 1, 1])
one_map = spellers[0, 1].attention.attention_weights[0, 0]
heatmap(axes[0], one_map, list("deliver"), list("deliver"), vmin=0.0, vmax=1.0)
axes[0].set_title("half to each of two letters")
jobs = "job before: right is i", "job opposite: right is l"
for ax, job, score in zip(axes[1:], jobs, scores, strict=True):
    best = score.topk(3)
    named, right = ["abcdefghijklmnopqrstuvwxyz"[i] for i in best.indices], job[-1]
    ax.barh(range(3), best.values, color=[INK if name == right else RULE for name in named])
    ax.set_yticks(range(3), named)
    ax.invert_yaxis()
    if named[0] != right:  # the winner is wrong
        ax.plot(best.values[0] / 2, 0, "x", color=CUT, markersize=16, markeredgewidth=4)
    ax.set(title=job, xlabel="score")
figure.suptitle("One average, so the same letter wins both jobs", fontsize=17)
plt.show()
for (_, num_heads), speller in spellers.items():
    right = accuracy(speller, words)
    if num_heads == 2:
        assert right.min() > 0.99
        continue
    weights = speller.attention.attention_weights[:, 0]  # (2000, 7, 7), of one head
    on_before, on_opposite = weights[:, range(7), BEFORE], weights[:, range(7), OPPOSITE]
    assert 0.95 < right.sum() < 1.25
    assert 0.4 < on_before.min() and on_before.max() < 0.6
    assert 0.4 < on_opposite.min() and on_opposite.max() < 0.6
    right_ones = words(2000)
    named = speller(right_ones[0]).argmax(dim=-1)  # (2000, 7, 2): a letter for each job
    assert 0.6 < (named[..., 0] == named[..., 1]).float().mean() < 0.95
    if on_opposite.mean() - on_before.mean() > 0.01:  # the letter opposite wins both jobs
        assert (named == right_ones[1][..., 1:]).float().mean() > 0.85

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: on the left the seven by seven weights of the one head for 'deliver'. Each row has two
# cells of about one half, at the letter before and at the letter opposite. In the middle and
# on the right are the three letters with the highest scores for position 4, for each job. Both jobs
# put l first, i second and all others far behind.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Write the letters x and y on the board and let them change places: half x and half y
# stays as it was, so nothing in it tells which came before. Somebody asks why start 0 has 12% and
# 97%: there the letter opposite weighs a little more, and wins both jobs.

# %% [markdown] slideshow={"slide_type": "fragment"}
# In each of 2,000 words, and in all three starts, the one head gives 40% to 60% of its weight to
# each of the two positions. So its average holds two letters in nearly equal shares, and a linear
# readout cannot tell both jobs from it.

# %% [markdown] slideshow={"slide_type": "skip"}
# Because the readout is linear, it scores a letter by its share of the average. So the letter that
# weighs a little more tends to win *both* jobs: in starts 0 and 2 mostly the one opposite. Could
# the scores of the other job favour the letter with the smaller share? Then they would have to fall
# as a share grows, and the letters that are absent, with a share of 0, would beat both.
#
# A readout that names the same letter for both jobs gets exactly one of them right, so the two
# rates sum to 100%. The sums are a little higher, because sometimes the two letters coincide, and
# sometimes the readout names both.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two heads at six stages of training
#
# The view shows the two heads of start 0 at six stages of training. The outlined cells mark the
# rule that each head ends with.
#
# **Question.** After 80 steps both heads already look at the right two positions. What is still
# wrong? After how many steps does each head have its own job?

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of both heads at six stages of training
stops, frames = [0, 40, 80, 120, 200, 300], []
for stop in stops:
    speller = train(lambda: Speller(PlainMultiHeadAttention, 2), words, stop)  # start 0 each time
    speller(deliver)
    frames.append(speller.attention.attention_weights[0].detach())
rules = torch.eye(7)[BEFORE], torch.eye(7)[OPPOSITE]
final = [max(rules, key=lambda rule: (head * rule).sum().item()) for head in frames[-1]]

on_rules = torch.stack([(torch.stack(frames) * rule).sum(-1).mean(-1) for rule in rules], dim=-1)
apart = (on_rules[..., 0] - on_rules[..., 1]).abs().mean(dim=-1)  # one number per stage
assert on_rules[2].sum(dim=-1).min() > 0.7 and apart[2] < 0.2 and apart[4] > 0.5

view = AttentionView(
    torch.stack(frames),  # (frames, heads, queries, keys)
    queries=list("deliver"),
    keys=list("deliver"),
    frames=[f"{stop} steps" for stop in stops],
    compare=torch.stack(final),
    compare_label="the rule",
    title="Two heads at six stages of training",
)
view.frame, view.head = stops.index(80), -1  # all heads
view

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of two heads side by side, seven letters by seven, with a slider for
# the training step. It opens at 80 steps, where the two heads look the same: in each, the cells of
# both rules are filled. At 300 steps each head's strong cells lie in the outlines of its rule.*

# %% [markdown] slideshow={"slide_type": "skip"}
# After 80 steps each head still looks at *both* positions, much as one head alone does, but after
# 200 the heads have parted. The formula leaves them free to be alike; in this game the loss is
# lower if they differ.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Play the frames once without a word, then ask the two questions. At 80 steps the
# layer is one head, twice. They part between 80 and 200. A likely reason: the head that is a
# little better at 'before' gets more of that gradient through its columns of W_o.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Ablation: remove a head
#
# A heat map shows where a head *looks*. Whether that explains what the model *does* is disputed
# (Jain and Wallace, 2019; Wiegreffe and Pinter, 2019). A stronger test removes the head (an
# **ablation**): we set its columns of $W_o$ to 0.


# %% slideshow={"slide_type": "skip"}
def without(speller, head):  # a copy in which this head's columns of W_o are 0
    speller = copy.deepcopy(speller)
    layer = speller.attention
    layer.W_o.weight.data.chunk(layer.num_heads, dim=1)[head].zero_()  # a chunk is a view of W_o
    return speller


# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** You remove the head that looks at 'before'. How many of the letters before are still
# right, and how many of the letters opposite?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Insist on numbers, two from each voter: 'worse' is no prediction. Many expect that
# both suffer. Then ask why it is not always head 1 that learns 'before'.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
for seed in range(3):
    for head in (0, 1):
        print(f"start {seed}, no head {head + 1}:   {rates(without(spellers[seed, 2], head))}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Accuracy on *before* falls nearly to chance (1 in 26 is 4%), while *opposite* stays at 100%.

# %% [markdown] slideshow={"slide_type": "skip"}
# If we remove the other head instead, it is the reverse. So in these three starts each head has a
# job of its own, and which head gets which job depends on the start. Heads of real models can have
# such jobs as well: *Going further* shows two.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A missing transpose
#
# Now we break the layer on purpose, to see whether training would tell us. This version forgets the
# transpose on the way back. The shapes match, but most results land on the wrong tokens, as the
# next picture shows.


# %% slideshow={"slide_type": "-"}
class NoTransposeBack(PlainMultiHeadAttention):
    def merge(self, X):  # (B, H, n, D / H) -> (B, n, D)
        return X.reshape(X.shape[0], X.shape[2], -1)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where the results land
#
# Take the four tokens R, S, T, U and two heads again. In memory the eight results form one long
# row, first head 1's four and then head 2's four. Without the transpose, `reshape` simply splits
# this row into four pairs.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the results in memory, and which position gets them
figure, ax = plt.subplots(figsize=(9.5, 3.0))
for i in range(8):
    head, asker = divmod(i, 4)
    colour = PALE if head == 0 else RULE
    ax.add_patch(Rectangle((i, 1.2), 1, 0.8, facecolor=colour, edgecolor=GROUND, linewidth=2))
    ax.text(i + 0.5, 1.6, f"head {head + 1}\nfor {'RSTU'[asker]}", ha="center", va="center")
for i in range(4):
    ax.add_patch(Rectangle((2 * i + 0.06, 0), 1.88, 0.7, facecolor=GROUND, edgecolor=FAINT))
    ax.text(2 * i + 1, 0.35, f"goes to {'RSTU'[i]}", ha="center", va="center")
    ax.annotate("", (2 * i + 1, 0.72), (2 * i + 1, 1.18), arrowprops={"arrowstyle": "-|>", "lw": 2})
ax.set(xlim=(-0.1, 8.1), ylim=(-0.1, 2.1))
ax.axis("off")
ax.set_title("Without the transpose, S gets the results of T and U")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a row of eight boxes, what is in memory: head 1 for R, S, T, U, then head 2 for R, S, T,
# U. Arrows lead down from each pair: R gets what head 1 found for R and S, S what head 1 found for
# T and U, T what head 2 found for R and S, U what head 2 found for T and U.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# S receives none of its own results, only those head 1 computed for T and U.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Let the room draw the arrows before you show them: which two results does S get?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Trained with the bug
#
# **Predict.** We train it in the same game, for 300 steps and for 500. The right layer named all
# letters after 300. Which rates will this one reach?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. If time is short, this is the slide to keep: a wrong program that scores 100%. Ask
# for two numbers and collect them on the board: expect low ones.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
fooled = {}
for steps in (300, 500):
    for seed in range(3):
        speller = train(lambda: Speller(NoTransposeBack, 2), words, steps, seed)
        print(f"{steps} steps, start {seed}   {rates(speller)}")
        fooled[steps, seed] = speller

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks what the text says about the wrong layer
assert all(accuracy(fooled[500, seed], words).min() > 0.99 for seed in range(3))
print("checked: after 500 steps the wrong layer names more than 99% right in all three starts")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask in which of the six runs they would have become suspicious: only in the first.

# %% [markdown] slideshow={"slide_type": "fragment"}
# After 500 steps it reaches 100% from all three starts, and after 300 only one start shows that
# something is wrong. How? S receives what head 1 computed for T and U. Since every token carries
# its position, T's query can learn to look where S would have to look: T asks *on behalf of S*.
# (*Going further* shows this in the weights of start 0.) The network has **learned around the
# bug**, so a good accuracy does not show that the code is right.

# %% [markdown] slideshow={"slide_type": "skip"}
# This bug is real. A public teaching implementation shipped it, and its own test, training on a
# copy task, passed ([transformer-from-scratch
# #6](https://github.com/jsbaan/transformer-from-scratch/issues/6)).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The loop over heads finds the bug
#
# To catch such a bug, we compare both layers with the slow loop, on random tokens:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Compares both layers with the loop
X = torch.randn(2, 5, 12)
for way in (PlainMultiHeadAttention, NoTransposeBack):
    layer = way(12, num_heads=3, dropout=0.0)
    difference = layer(X, X, X) - loop_over_heads(X, X, X, *layer.parameters(), num_heads=3)
    print(f"{way.__name__}: differs from the loop by {difference.abs().max():.3f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what else would have caught it: a causal mask with chapter 4's test of the future,
# because with four tokens and two heads S gets what head 1 found for T and U.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - One head returns one average. With a linear readout it cannot answer 'salt **and** pepper',
#   whereas two heads can.
# - Head $h$ computes $o_h = f(W^{(q)}_h q, W^{(k)}_h k, W^{(v)}_h v)$. The heads are concatenated
#   and multiplied by $W_o$. $H$ thin heads have as many parameters as one wide head, and $H$ times
#   as many attention weights.
# - To split into heads, split the last axis and *then* move the heads to the front.
# - Heads *may* divide the work. A heat map suggests it, and an ablation tests it.
# - Training can learn around a bug, so compare your layer with a slow loop.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Exercises for the next meeting: 6.1 and 6.3, and 6.4 for those who want to write the
# layer.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# `check`, `hint` and `solution` work here as for exercise 6.3 above.

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.1** · by hand
#
# Two heads of size 1 ask three tokens. After the projections the query is $(1, 2)$. The first head
# owns the first number of each, the second head the second.
#
# | token | key | value |
# |---|---|---|
# | 1 | $(\ln 2, 0)$ | $(8, 0)$ |
# | 2 | $(0, \ln 2)$ | $(4, 9)$ |
# | 3 | $(0, 0)$ | $(0, 6)$ |
#
# Without a computer: what comes out for this query, before $W_o$? Give a list of two numbers.

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.2** · predict, then measure
#
# The package's `MultiHeadAttention` computes what ours does.
# `layer = MultiHeadAttention(12, 3, 0.0)` reads five random tokens of 12 numbers: `layer(X, X, X)`.
# Then set the second head's four rows of `layer.W_q.weight` to 0. How many of one token's 12
# numbers change *before* $W_o$, and how many *after* it? To see the former, set $W_o$ to the
# identity. And what weight does each token now give to itself in this head? After a call,
# `layer.attention_weights[0, 1]` has its weights. Predict, measure, and give three numbers, such as
# `(1, 1, 0.5)`.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Read these sections in any order. Exercises 6.5 and 6.6 follow.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What do heads cost?
#
# *1 minute.* Do eight heads cost eight times as much as one? For $n$ tokens:
#
# | | one head of size $D$ | $H$ heads of size $D / H$ |
# |---|---|---|
# | parameters | $4 D^2$ | $4 D^2$ |
# | operations, four projections | $8 n D^2$ | $8 n D^2$ |
# | operations, scores and averages | $4 n^2 D$ | $H \cdot 4 n^2 \frac{D}{H} = 4 n^2 D$ |
# | attention weights, each an exponential | $n^2$ | $H n^2$ |
#
# No: only the number of attention weights grows eightfold. In the other rows $H$ cancels, because
# each head is thinner by the same factor.

# %% [markdown] slideshow={"slide_type": "skip"}
# Many heads have another price: each compares a query and a key by only $D / H$ numbers. Its
# $n \times n$ scores are a product of an $n \times D/H$ and a $D/H \times n$ matrix, so their rank
# is at most $D / H$. Bhojanapalli et al. (2020) prove what a head cannot express when $D / H$ is
# smaller than $n$.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the table with PyTorch's counter, for 13 tokens of 24 numbers
counted = {}
for num_heads in (1, 8):
    layer = PlainMultiHeadAttention(24, num_heads, dropout=0.0)
    with FlopCounterMode(display=False) as counter:
        layer(*(torch.randn(1, 13, 24),) * 3)
    assert sum(W.numel() for W in layer.parameters()) == 4 * 24**2
    assert layer.attention_weights.numel() == num_heads * 13**2
    counted[num_heads] = counter.get_total_flops()
assert counted[1] == counted[8] == 8 * 13 * 24**2 + 4 * 13**2 * 24
print("checked: parameters, operations and weights, for one head and for eight")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask where the eight went: into heads that are eight times thinner. Many heads have
# another price: each compares a query and a key by D/H numbers only.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### One head of any width
#
# *1 minute.* In the soup, a jar was one number. Would a wider head help, which averages vectors?
# Suppose that a linear readout turns this average into the answer.
#
# Average then read out, or read out then average: for a linear readout the result is the same,
# because the weights sum to one. So let us read out every jar first. Then every salt jar has one
# number $s$ and every pepper jar one number $p$, and we are back at the table.
#
# The argument needs a linear readout. A multilayer perceptron (MLP), as in a Transformer
# (chapter 8), could give the in-between value its own answer, so one head would do.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Train one head and two on the shelves
#
# *10 minutes.* The next model, a cook, learns 'salt and pepper' by training. Its shelves have six
# jars: a quarter of the shelves is all salt, a quarter is all pepper, and half are mixed.
#
# **Predict.** What is the best accuracy that one head with a linear readout can reach: 50%, 75% or
# 90%?


# %% slideshow={"slide_type": "skip"}
def shelves(B):  # jars (B, 6, 2), and whether salt and pepper are both there, (B, 1)
    jars, kind = torch.randint(2, (B, 6)), torch.randint(4, (B,))
    jars[kind == 0] = 0  # all salt
    jars[kind == 1] = 1  # all pepper
    jars[kind >= 2, :2] = torch.tensor([0, 1])  # at least one of each
    return F.one_hot(jars, 2).float(), (kind >= 2).long()[:, None]


class Cook(nn.Module):
    def __init__(self, num_heads, mlp=False):
        super().__init__()
        self.attention = PlainMultiHeadAttention(8, num_heads, dropout=0.0)
        self.readout = nn.Linear(8, 2)
        if mlp:
            self.readout = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, jars):  # (B, 6, 2) -> (B, 1, 2): the scores of 'no' and 'yes'
        question = torch.ones(len(jars), 1, 1)  # it knows nothing of the jars
        return self.readout(self.attention(question, jars, jars))


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
for name, make in {
    "one head": lambda: Cook(1),
    "two heads": lambda: Cook(2),
    "four heads": lambda: Cook(4),
    "one head, MLP": lambda: Cook(1, mlp=True),
}.items():
    right = [accuracy(train(make, shelves, 300, seed), shelves).item() for seed in range(5)]
    print(f"{name:14}", "  ".join(f"{x:4.0%}" for x in right))

# %% [markdown] slideshow={"slide_type": "skip"}
# 75%. One head gives one answer to every all-salt shelf, another one to every all-pepper shelf, and
# an average of the two to mixed shelves. If the first two answers are right, all mixed shelves are
# wrong, which leaves 50%. Otherwise at least a quarter of the shelves is wrong, which leaves at
# most 75%. The 2,000 shelves of the test are a random draw, so it can be 76% there.
#
# Two heads have as many parameters and reach 100% from four of these five starts. Although they
# *can* learn the task, from start 2 they end where one head ends. Four heads, each half as wide,
# reach 100% from all five, and so does one head with an MLP. The answer for a mixed shelf lies
# between the two others, and an MLP can learn that 'in between' means yes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The weights of a network that learned around the bug
#
# *2 minutes.* Without the transpose, positions can learn to ask on behalf of each other. With seven
# letters there are 14 results, and position $i$ gets the results $2i$ and $2i + 1$. Let us see
# where the network of start 0 looks for them.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Draws the weights of the wrong layer, and outlines what each receiver needs
speller = fooled[500, 0]
speller(words(1000)[0])
asked = speller.attention.attention_weights.detach().mean(dim=0)  # (2, 7, 7)
gets = torch.arange(14).reshape(2, 7) // 2  # the position that gets this result
figure, axes = plt.subplots(1, 2, figsize=(11, 3.8))
for head, ax in enumerate(axes):
    rows = [f"{i} for {receiver}" for i, receiver in enumerate(gets[head])]
    heatmap(ax, asked[head], rows, range(7), vmin=0.0, vmax=1.0, sides=("queries", "keys"))
    for i, receiver in enumerate(gets[head]):
        for key in (BEFORE[receiver], OPPOSITE[receiver]):
            ax.add_patch(Rectangle((key - 0.5, i - 0.5), 1, 1, fill=False, linewidth=2))
    ax.set_title(f"head {head + 1}")
figure.suptitle("Each position looks where the receiver of its result needs it", fontsize=15)
plt.show()
on_behalf = asked.flatten(0, 1)[range(14), BEFORE[gets.flatten()]]
on_behalf = on_behalf + asked.flatten(0, 1)[range(14), OPPOSITE[gets.flatten()]]
assert on_behalf.min() > 0.8

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps of seven rows, one for each head. A row says which position asks and which
# position gets the result, such as '2 for 1'. In each row nearly all of the weight lies in
# outlined cells: the position before the receiver and the position opposite it.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Self-attention, cross-attention and the order of tokens
#
# *7 minutes.* In self-attention the queries, keys and values come from one sentence, so the weights
# of a head are (n, n). In **cross-attention** the queries come from another sequence than the keys
# and values, as in chapter 5, and the weights are (Q, K). Let a French sentence attend to an
# English one. Then let the English sentence attend to itself, first without a mask and then with a
# causal mask.
#
# **Predict.** Now shuffle the English words. What happens to the answers in each of the three?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, three votes. Many say 'nonsense comes out' for self-attention. Act it out: five
# people swap seats, and each still says the same. This is the bridge to chapter 7.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
layer = PlainMultiHeadAttention(12, num_heads=2, dropout=0.0)
english, french = torch.randn(1, 5, 12), torch.randn(1, 3, 12)
order = torch.tensor([3, 0, 4, 1, 2])
shuffled = english[:, order]
causal = torch.arange(1, 6)[None]  # as lengths, (1, 5): query i sees the first i + 1 keys

change = layer(french, shuffled, shuffled) - layer(french, english, english)
print(f"cross-attention: the answers change by {change.abs().max():.3f}")
for name, lens in (("self-attention", None), ("causal self-attention", causal)):
    moved = layer(english, english, english, lens)[:, order]  # the old answers, shuffled along
    change = layer(shuffled, shuffled, shuffled, lens) - moved
    print(f"{name}: from the old answers, shuffled along, by {change.abs().max():.3f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In cross-attention the answers stay as they are. In self-attention without a mask they are
# shuffled along, so that each word still gets the answer that it had: without a mask, and without
# positions in the tokens, attention cannot see their order, however many heads it has. With a
# causal mask, however, the answers do change, because now it matters which words come before.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Eight heads for two jobs
#
# *2 minutes.* Two heads gave each job a head of its own. To see what eight heads do with two jobs,
# we remove one head, put it back, and remove the next.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
eight = train(lambda: Speller(PlainMultiHeadAttention, 8), words, steps=300)
print(f"with all heads:   {rates(eight)}")
for head in range(8):
    print(f"without head {head + 1}:   {rates(without(eight, head))}")

# %% [markdown] slideshow={"slide_type": "skip"}
# In this run no head is indispensable: without the most important one, 70% of the letters opposite
# are still right. This does not say why the others suffice: they may share the job, or one of them
# may do the same as the head that is gone. Four of the eight can be removed one at a time at a loss
# of at most 0.2 points. Likewise, many trained heads of translators and of BERT can be removed one
# at a time at little loss (Michel et al., 2019), and those that matter often have a job that can be
# named, such as looking at a neighbour (Voita et al., 2019).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two heads of a published model
#
# *1 minute.* Do heads have jobs in a real model as well? Here are two of the 72 heads of a small
# published BERT, all-MiniLM-L6-v2, on one sentence. Chapter 13 measures and removes all of them.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws stored weights of two heads of the published model; chapter 13 says how they were measured
published = stored()
figure, axes = plt.subplots(1, 2, figsize=(11, 4.6))
for ax, head in zip(axes, ("1.3", "2.9"), strict=True):
    layer, number = head.split(".")
    read, maps = published["tokens"], torch.tensor(published["maps"][head])
    heatmap(ax, maps, read, read, vmax=1.0)
    ax.set_title(f"layer {layer}, head {number}")
figure.suptitle("One looks at the token before, one mostly at the token after", fontsize=15)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps for the sentence 'The cat sat on the mat because it was tired'. Head 3 of
# layer 1 has a line of weights near 1 just below the diagonal: each token looks at the one before
# it. Head 9 of layer 2 has about half of its weight just above the diagonal, at the token after,
# and most of the rest in the first column, at [CLS].*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which token each of the two looks at in the row of 'it', and remind them that a
# picture of a head is a guess, which an ablation tests.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One mask for all heads
#
# *6 minutes.* A mask (B, Q, K) must become (B, 1, Q, K) before it meets scores (B, H, Q, K).
# `length_mask` of chapter 4 makes such a mask from lengths.
#
# **Predict.** What happens if one forgets the new axis? Take two heads and two sentences, sentence
# 0 of three words and sentence 1 of one. The cell prints how many words each head sees.

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
X = torch.randn(2, 2, 3, 4)  # sentence, head, token, number
mask = length_mask(torch.tensor([3, 1]), 3).expand(2, 3, 3)  # sentence, query, key
for name, laid in {"(B, 1, Q, K)": mask[:, None], "(B, Q, K)": mask}.items():
    weights = compute_weights(X, X, laid)
    seen = (weights > 0).sum(dim=-1).amax(dim=-1)  # (B, H)
    print(f"mask {name:12}   sentence 0: {seen[0].tolist()}   sentence 1: {seen[1].tolist()}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# There is no error. Broadcasting lines up axes from the right, so sentences met heads: in both
# sentences head 1 sees three words and head 2 sees one.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the weights of both heads and sentences, with the head axis and without it
both = [compute_weights(X, X, laid).reshape(4, 3, 3) for laid in (mask[:, None], mask)]
names = [f"sentence {i},\nhead {head}" for i in (0, 1) for head in (1, 2)]
show_heatmaps(torch.stack(both), "keys", "queries", titles=names, figsize=(11, 4.6))
for ax, weights in zip(plt.gcf().axes, torch.cat(both), strict=False):  # and the colour bar
    hatch_zeros(ax, weights)
plt.gcf().suptitle("Above with the head axis, below without: head 2 gets the mask of sentence 1")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of four heat maps, three by three, for two sentences and two heads. Above, with
# the head axis, both heads of sentence 0 see three words and both of sentence 1 see one. Below,
# without it, head 1 sees three words and head 2 one, in both sentences.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Equal numbers of sentences and heads hide the error. With one sentence the answers are even right.
# With one head this cell runs and is wrong, while our layer stops at `W_o`. So test with two
# sentences and three heads, for example.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask for three votes: an error, all masked wrongly, nothing. Most expect an error.
# Write (2, 3, 3) under (2, 2, 3, 3) on the board, flush right.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### PyTorch's layer
#
# *4 minutes.* `nn.MultiheadAttention` keeps our three matrices in one, `in_proj_weight`. With the
# same numbers it gives the same output. The weights that it returns are the *mean* over the heads,
# unless you ask for `average_attn_weights=False`.

# %% slideshow={"slide_type": "skip"}
X = torch.randn(2, 5, 12)
plain = PlainMultiHeadAttention(12, 3, dropout=0.0)
output = plain(X, X, X)
theirs = nn.MultiheadAttention(12, 3, bias=False, batch_first=True)
W_q, W_k, W_v, W_o = plain.parameters()
with torch.no_grad():
    theirs.in_proj_weight.copy_(torch.cat([W_q, W_k, W_v]))
    theirs.out_proj.weight.copy_(W_o)

their_output, mean = theirs(X, X, X)
torch.testing.assert_close(their_output, output)
torch.testing.assert_close(mean, plain.attention_weights.mean(dim=1))
their_weights = theirs(X, X, X, average_attn_weights=False)[1]
torch.testing.assert_close(their_weights, plain.attention_weights)
print("mean", tuple(mean.shape), "  of each head", tuple(their_weights.shape))

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.5** · find the bug
#
# `attend_in_heads` gets queries (B, Q, D), keys and values (B, K, D), all projected already, and a
# boolean mask (B, Q, K), True = may attend, in which each query sees at least one key. The output
# is (B, Q, D), heads end to end. Its author ran it with two sentences and two heads, and saw no
# error. It has three bugs. Repair it.

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.6** · write the test
#
# Your test takes a function that is called as in 6.4,
# `multi_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens)`. It returns without
# a word where the function is right, and raises an `AssertionError` for each of six broken ones:
#
# - heads cut by `view` alone;
# - heads merged by `reshape` alone;
# - heads summed instead of put end to end, with only the first D / H rows of `W_o`;
# - the first head's columns of `W_q`, `W_k` and `W_v` used for all heads;
# - scores divided by the root of D instead of D / H;
# - the mask without its head axis where B = H, so that sentence h's mask acts on head h (for other
#   sizes this one is right).

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.5: the
#   formula, and heads computed in one product. [d2l.ai](https://d2l.ai)
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.2.2:
#   heads, their sizes, and the sentence on averaging.
# - S. Bhojanapalli et al., *Low-Rank Bottleneck in Multi-head Attention Models*, ICML 2020,
#   arXiv:2002.07028.
# - P. Michel, O. Levy, G. Neubig, *Are Sixteen Heads Really Better than One?*, NeurIPS 2019,
#   arXiv:1905.10650. Heads removed one at a time.
# - E. Voita et al., *Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting,
#   the Rest Can Be Pruned*, ACL 2019, arXiv:1905.09418.
# - S. Jain, B. C. Wallace, *Attention is not Explanation*, NAACL 2019, arXiv:1902.10186; S.
#   Wiegreffe, Y. Pinter, *Attention is not not Explanation*, EMNLP 2019, arXiv:1908.04626.
# - GitHub, jsbaan/transformer-from-scratch #6: the transpose forgotten on the way back; the
#   training test on a copy task had passed. bentrevett/pytorch-seq2seq #148 and
#   harvardnlp/annotated-transformer #118: readers ask why one does not `view` to the last shape at
#   once.
