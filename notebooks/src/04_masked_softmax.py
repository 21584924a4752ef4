# %% [markdown] slideshow={"slide_type": "slide"}
# # 4 · Masked softmax
#
# **You will**
# - hide padding and the future from a query, with lengths and with boolean masks;
# - catch a model that copies the word it should guess, and stop it;
# - write a masked softmax that is right even where every key is hidden;
# - test an attention function for leaks, and say what such a test can miss;
# - take away a short causal self-attention layer in plain PyTorch.
#
# Core path: 65 to 100 minutes, in two sittings. Going further: 20. Exercises: 72.
#
# Builds on chapter 3. The book is *Dive into Deep Learning* (D2L), section 11.3.2.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes: 7 to the end of 'The weight of more and more padding', 4 for the mask after the
# softmax and the lengths, 6 for the future, 6 for the empty row, 5½ for the build, 7½ for the
# tests, the layer and the summary. After 17 minutes you should be at 'A query that sees nothing'.
# Behind? Show the learned weights without a word. On the page students write the masked softmax
# themselves (4.2), on the slides pairs do it on paper. The slides after the summary are for
# questions; a quick room deserves the vote on `True`. Homework: exercises 4.2 to 4.4.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle
from torch import nn

from d2l_attention import causal_mask, dot_product_attention, masked_softmax
from d2l_attention.views import explore, schematic
from d2l_attention.views.palette import (
    GROUND,
    HATCHED,
    INK,
    OUTPUT,
    RULE,
    TINT,
    VALUE,
    ramp_to,
)
from d2l_attention.views.plots import compare_heatmaps, hatch_zeros, heatmap, set_style

torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - Chapter 3 gave each pair of a query and a key a **score**, which may be any number. The scores
#   of a batch have the shape (B, Q, K): a row for each query, a column for each key.
# - The softmax divides the exponential of each score by the sum over its row. For the scores
#   $\ln 2$ and $0$ the exponentials are 2 and 1, so the **weights** are $\frac23$ and $\frac13$.
# - The answer to a query, chapter 3's output, is the weighted sum of the values. For the values
#   $(6, 0)$ and $(0, 6)$ it is $\frac23 (6, 0) + \frac13 (0, 6) = (4, 2)$.

# %% [markdown] slideshow={"slide_type": "skip"}
# The same in code:

# %% slideshow={"slide_type": "skip"}
import math

import torch
import torch.nn.functional as F

query, keys = torch.tensor([[math.log(2)]]), torch.tensor([[1.0], [0.0]])  # (Q, D), (K, D)
values = torch.tensor([[6.0, 0.0], [0.0, 6.0]])  # (K, V)
scores = query @ keys.mT / math.sqrt(1)  # (Q, K); .mT exchanges the last two axes
print(scores.softmax(dim=-1) @ values)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Work out the two weights on the board and leave them there, because the numbers come
# back on the next slides. Say once what is a row and what is a column; students confuse them until
# the end of the hour.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Padding: unequal sentences in one tensor
#
# Suppose our batch has three sentences. A tensor is a rectangle, so the shorter ones are filled up
# with `<pad>`, a token without meaning.

# %% slideshow={"slide_type": "-"}
sentences = "Dive into Deep Learning", "Learn to code <pad>", "Hello world <pad> <pad>"
tokens = [sentence.split() for sentence in sentences]
valid_lens = torch.tensor([4, 3, 2])  # (B,)

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the batch as a rectangle of tokens; the function draws every mask of this chapter


def draw_mask(ax, mask, rows, sides=("queries", "keys")):  # visible cells grey, hidden ones hatched
    looks = {"vmax": 2.0, "cmap": ramp_to(RULE), "sides": sides}
    heatmap(ax, mask.float(), rows, range(mask.shape[1]), **looks)
    hatch_zeros(ax, mask)
    ax.vlines([x - 0.5 for x in range(1, mask.shape[1])], *ax.get_ylim(), color=GROUND, zorder=5)
    ax.hlines([y - 0.5 for y in range(1, len(mask))], *ax.get_xlim(), color=GROUND, zorder=5)


figure, ax = plt.subplots(figsize=(9, 2.4))
has_word = torch.tensor([[token != "<pad>" for token in line] for line in tokens])
draw_mask(ax, has_word, [f"sentence {i}" for i in range(3)], sides=None)
behind = {"facecolor": GROUND, "edgecolor": GROUND, "pad": 2}
for row, line in enumerate(tokens):
    for column, token in enumerate(line):
        box = behind if token == "<pad>" else None
        ax.text(column, row, token, ha="center", va="center", size=15, bbox=box, zorder=6)
ax.set(title="Three of the twelve cells are padding", xlabel="position")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the batch as three rows of four cells. 'Dive into Deep Learning' fills its row; 'Learn to
# code' is followed by one hatched cell of padding, 'Hello world' by two.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what fills the rectangle up in the students' own code: the data loader.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How much weight does the padding get?
#
# Like every token, `<pad>` has a key and a value, so every query has a score for it.
#
# **Predict.** The scores of 'Hello' for the keys 'Hello', 'world' and `<pad>` are $\ln 2$, $0$
# and $0$. How much of its attention does the padding get: nothing, one quarter or one third?

# %% slideshow={"slide_type": "fragment"}
print("weights", torch.tensor([math.log(2), 0.0, 0.0]).softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The padding gets one quarter. Since $e^0 = 1$, a score of 0 is far from 'no attention'.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Let the room vote by hands, and expect many for 'nothing', because the score
# is 0. Then do it on the board: the exponentials are 2, 1, 1, and their sum is 4.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where the mask acts
#
# The words of 'Hello world' come first, $\ell = 2$ of them. To keep the padding out, let the sum of
# the softmax run over the first $\ell$ keys only:
#
# $$\alpha_j = \frac{e^{a_j}}{e^{a_0} + \dots + e^{a_{\ell - 1}}} \quad (j < \ell),
# \qquad \alpha_j = 0 \quad (j \ge \ell).$$
#
# This is a **masked softmax**. In code, a **mask** is a boolean tensor in which `True` means that
# the query may attend to the key. Where it is `False`, the score becomes $-\infty$ before the
# softmax, because $e^{-\infty} = 0$.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws what each key of 'Hello' adds to the sum, without the mask and with it
figure, ax = plt.subplots(figsize=(9, 2.6))
for y, total in ((1, 4), (0, 3)):
    for x, width, token in ((0, 2, "Hello"), (2, 1, "world"), (3, 1, "<pad>")):
        hidden = x >= total
        style = HATCHED if hidden else {"facecolor": TINT, "edgecolor": INK}
        ax.add_patch(Rectangle((x, y - 0.4), width, 0.8, **style))
        text = f"{token}: 0" if hidden else f"{token}: {width} of {total}"
        box = {"facecolor": GROUND, "edgecolor": GROUND, "pad": 2} if hidden else None
        ax.text(x + width / 2, y, text, ha="center", va="center", size=14, bbox=box)
ax.set(xlim=(-0.02, 4.02), ylim=(-0.5, 1.5), xticks=range(5), xlabel="exponentials, added up")
ax.set_yticks([1, 0], ["without a mask", "with the mask"])
ax.set_title("The mask takes the padding's 1 out of the sum")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two bars of exponentials, added up. Without a mask, Hello has 2 of 4, world 1 of 4 and
# the padding 1 of 4. With the mask, the padding's part is hatched, and Hello has 2 of 3, world 1 of
# 3.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room read the three weights off each bar. A stumble: `~mask` exchanges True
# and False, because `masked_fill` wants to know where to fill. Say 'True is visible' aloud, and
# keep to it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The weight of more and more padding
#
# Suppose another sentence is long, so that 'Hello world' gets 98 `<pad>` tokens, each with score 0
# and value $(-6, 0)$:

# %% slideshow={"slide_type": "fragment"}
hello_scores = torch.tensor([math.log(2)] + [0.0] * 99)
hello_values = torch.tensor([[6.0, 0.0], [0.0, 6.0]] + [[-6.0, 0.0]] * 98)
hello_mask = torch.arange(100) < 2  # True for the two words
filled = hello_scores.masked_fill(~hello_mask, -math.inf)
print("without a mask", hello_scores.softmax(dim=-1) @ hello_values)
print("with the mask ", filled.softmax(dim=-1) @ hello_values)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the answers for sentences filled up to 2, 3, 10 and 100 tokens
figure, ax = plt.subplots(figsize=(9, 2.9))
places = (14, "left"), (14, "left"), (-14, "right")
for (x, y), name, (dx, ha) in zip(
    hello_values[:3].tolist(), ("Hello", "world", "<pad>"), places, strict=True
):
    ax.plot(x, y, "D", color=VALUE, markersize=12)
    style = {"textcoords": "offset points", "va": "center", "ha": ha, "color": VALUE}
    ax.annotate(name, (x, y), (dx, 0), **style)
lengths = (2, 3, 10, 100)
path = torch.stack([hello_scores[:n].softmax(dim=-1) @ hello_values[:n] for n in lengths])
ax.plot(*path.T, "o-", color=OUTPUT, markersize=10, linewidth=1.5)
names = ("2 tokens, or any number with the mask", "3 tokens", "10 tokens", "100 tokens")
for spot, name, dy in zip(path.tolist(), names, (12, -24, 12, 12), strict=True):
    ax.annotate(name, spot, (0, dy), textcoords="offset points", ha="center", color=OUTPUT)
ax.set(xlabel="dimension 0", ylabel="dimension 1", xlim=(-8, 9), ylim=(-0.8, 7))
ax.set(title="Padding draws the answer to its own value")
plt.show()
for n in lengths:  # with the mask
    torch.testing.assert_close(filled[:n].softmax(dim=-1) @ hello_values[:n], path[0])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a plane with the values of Hello, (6, 0), world, (0, 6), and the padding, (-6, 0). The
# answer without a mask moves on a straight line to the padding's value: (4, 2) for 2 tokens, then
# the answers for 3, 10 and 100 tokens. With the mask it is (4, 2) each time.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Without a mask, the answer ends close to the padding's own value, and PyTorch gave no warning.
# With the mask it stays at $(4, 2)$.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Before the numbers, ask what the answer comes close to with 100 tokens and no mask.
# After them, ask who would notice it in training, where no error is raised. Someone asks whether a
# mask saves work. Here it saves none: the hidden scores are computed and thrown away. Fused kernels
# skip hidden blocks that they are told of, as by `is_causal`, but not under a mask tensor (chapters
# 9 and 10).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A mask after the softmax
#
# A friend suggests another order: take the plain softmax, multiply the padding's weight by 0, and
# divide the weights by their sum. On paper this gives the same $\frac23, \frac13, 0$, whatever the
# padding's score is. Does it in float32?

# %% slideshow={"slide_type": "fragment"}
for pad_score in (0.0, 80.0, 100.0, 105.0):
    row = torch.tensor([math.log(2), 0.0, pad_score])
    late = row.softmax(dim=-1) * torch.tensor([1.0, 1.0, 0.0])
    print(f"padding {pad_score:3.0f}: sum {late.sum():7.2g}   weights", late / late.sum())

# %% [markdown] slideshow={"slide_type": "fragment"}
# It works only while the padding's score is not far above those of the words. PyTorch first
# subtracts the largest score of a row, so with 100 in the padding, the words' exponentials are
# about $e^{-100}$, and rounding already spoils the third digit. With 105, float32 rounds them to 0,
# so both words have weight 0, and 0 divided by 0 is NaN, 'not a number'. This is why the mask acts
# **on the scores, before the softmax**.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Most say 'the same, since the padding is multiplied by 0'. If someone asks where a
# score of 105 should come from: an unscaled dot product of two vectors of 4,096 independent entries
# of mean 0 and variance 1 has a standard deviation of 64 (chapter 3). The safe order costs nothing.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One length per sentence, or one per query
#
# Since positions are counted from 0, a length $\ell$ shows the positions below $\ell$. A length per
# sentence hides its padding. Let the function also accept a length per query, which the next
# section needs:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_length_mask(valid_lens, num_keys):  # (B,) -> (B, 1, K), or (B, Q) -> (B, Q, K)
    lens = valid_lens.reshape(len(valid_lens), -1, 1)  # (B, 1, 1), or (B, Q, 1)
    return torch.arange(num_keys) < lens


# %% [markdown] slideshow={"slide_type": "skip"}
# PyTorch works out the -1 in `reshape`, which becomes 1 or Q.

# %% slideshow={"slide_type": "fragment"}
is_word = plain_length_mask(valid_lens, 4)  # (B, 1, K)
one_more_each = plain_length_mask(torch.tensor([[1, 2, 3, 4]]), 4)  # (1, Q, K)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws both masks: a row for each sentence, a row for each query
figure, axes = plt.subplots(1, 2, figsize=(10, 2.9))
names = [f"length {n}" for n in valid_lens.tolist()]
draw_mask(axes[0], is_word[:, 0], names, sides=("sentences", "keys"))
axes[0].yaxis.label.set_color(INK)
draw_mask(axes[1], one_more_each[0], [f"length {n}" for n in range(1, 5)])
axes[0].set_title("a sentence in each row")
axes[1].set_title("a query in each row")
figure.suptitle("Each row sees as many keys as its length says", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two masks, hidden keys hatched. Left, three sentences of lengths 4, 3 and 2: all four
# keys are visible, the first three, the first two. Right, four queries of lengths 1, 2, 3 and 4:
# one key more is visible in each row, which makes a triangle.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room say the row of 'Learn to code' before the picture. Ask why the 1 in the
# middle of (3, 1, 4) is needed: broadcasting repeats the row for every query. Which model could
# want the triangle? One that must not read ahead; 'A causal mask' comes back to it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Not seeing the future
#
# A language model learns to guess the next word. In training it computes all positions of a
# sentence at once, so the word that position 1 should guess is already there, at position 2, where
# attention could simply copy it. To see whether it does, let us draw each word at random from four,
# so that no guess is right more often than one time in four. Our whole model is a learned table of
# scores. The value of a position is the one-hot vector of its word. So an answer has four numbers,
# the weight that went to each of the four words, and the largest of them is the guess.


# %% slideshow={"slide_type": "skip"}
def learn_to_guess(mask):  # (5, 6): row i guesses word i + 1; the columns are all six words
    scores = torch.zeros(5, 6, requires_grad=True)  # learned
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(100):
        words = torch.randint(4, (200, 6))  # 200 new sentences
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        shares = weights @ F.one_hot(words, 4).float()  # (200, 5, 4)
        loss = F.cross_entropy(shares.mT, words[:, 1:])  # the four classes on axis 1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (shares.argmax(dim=-1) == words[:, 1:]).float().mean(), weights.detach()


# %% [markdown] slideshow={"slide_type": "skip"}
# `F.cross_entropy` takes our shares as if they were scores, so a share of 0 is harmless.

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Without a mask, how many of the random words does the model guess right: 25%, 50%
# or 100%?

# %% slideshow={"slide_type": "fragment"}
share_right, open_weights = learn_to_guess(torch.ones(5, 6, dtype=torch.bool))
print(f"without a mask {share_right:.0%} right; weights of query 1:", open_weights[1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# All of them, by copying: query 1 gives nearly all of its weight to word 2, which it should guess.
# When such a model later generates text, that word is still unwritten.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. The code is on the student's page: 100 steps of Adam on a (5, 6) table of scores. Let
# the room vote. Those who say 25% are right about the words and wrong about the tensor. Ask what
# the training loss would look like to somebody who does not know.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A causal mask
#
# A **causal mask** hides the future: query $i$ sees key $j$ only where $j \le i$.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_causal_mask(n):  # -> (n, n)
    positions = torch.arange(n)
    return positions <= positions[:, None]  # row i is query i, column j is key j


# %% slideshow={"slide_type": "fragment"}
print("lengths 1 to 4 give the same:", torch.equal(plain_causal_mask(4), one_more_each[0]))
share_right, causal_weights = learn_to_guess(plain_causal_mask(6)[:5])
print(f"with the mask {share_right:.0%} right")

# %% [markdown] slideshow={"slide_type": "skip"}
# Now the model guesses about one word in four, as it should. A query may see its own position,
# because the word to guess is the next one. In PyTorch and in our package,
# `is_causal=True` asks for this mask.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for row 0 before you show it. Then ask why the diagonal is open. Expect 'so it
# sees the answer'. No: at position 1 is the word just read, and the answer is at position 2. D2L's
# decoder builds these lengths only in training mode, so its validation loss is computed with the
# future in sight. Chapter 8 measures it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The learned weights, without and with the mask

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the learned weights without the mask and with it
figure, axes = plt.subplots(1, 2, figsize=(11, 3.9))
titles = ("without a mask", "with the causal mask")
for ax, weights, title in zip(axes, (open_weights, causal_weights), titles, strict=True):
    heatmap(ax, weights, range(5), range(6), vmax=1.0, numbers=True)
    hatch_zeros(ax, weights)
    ax.set_title(title)
figure.suptitle("Without a mask each query looks at the word that it should guess", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps with five queries and six words as keys. Left, without a mask: a query has
# nearly all of its weight on the next word, one cell to the right of the diagonal. Right, with the
# causal mask: these cells and all beyond are hatched, exactly 0, and the weight is spread over the
# words up to the query's own. These weights differ only by the noise of training, because no past
# word helps to guess a random one.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask where the answers are in the left map. The right weights mean nothing.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Padding and future together
#
# A key is visible where *both* masks are `True`: `is_word & plain_causal_mask(4)`. Let all scores
# of 'Learn to code `<pad>`' be 0, so that a query that sees $\ell$ keys gives each $1/\ell$. Change
# the length, and switch the causal mask off and on:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the weights of 'Learn to code <pad>' under a length and a causal mask


def play(figure, length=3, causal=True):
    mask = plain_length_mask(torch.tensor([length]), 4)[0].expand(4, 4)
    mask = mask & plain_causal_mask(4) if causal else mask
    weights = torch.zeros(4, 4).masked_fill(~mask, -math.inf).softmax(dim=-1)
    ax = figure.subplots()
    heatmap(ax, weights, tokens[1], tokens[1], vmax=1.0, numbers=True)
    hatch_zeros(ax, weights)
    ax.set_title("Visible keys share the weight equally")


alt = "Equal scores: attention weights of 'Learn to code <pad>' under the chosen masks."
explore(play, figsize=(6.5, 4.2), alt=alt, length=(1, 4), causal=True)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive heat map of the weights of 'Learn to code `<pad>`', with a slider for the
# length and a box for the causal mask. With length 3 and the causal mask, the rows are 1; a half
# twice; a third three times; and a third three times again. All other cells are hatched, exactly
# 0.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before you show the view, ask for the four weights of the last row under both masks.
# Some say a quarter four times: they forget the padding. The sliders work on the slide: switch the
# causal mask off, and set the length to 4. Why are the last two rows equal? 'code' and the padding
# see the same three words.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# You can now hide padding and the future with one boolean mask, but
# one case is still open: the query for which everything is hidden.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A query that sees nothing
#
# When a model writes several texts at once, they are often padded on the *left*, so that all of
# them continue at the right end. A boolean mask can hide this padding, but together with the causal
# mask it leaves the first two rows of '`<pad> <pad>` Hello world' **empty**: every key is
# hidden from these queries.

# %% slideshow={"slide_type": "-"}
left_padded = plain_causal_mask(4) & torch.tensor([False, False, True, True])
print(left_padded.int())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Which weights do such rows get? So far we have hidden scores with $-\infty$, as *Attention Is All
# You Need* does. Many programs use a large negative number instead, such as D2L's $-10^6$.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Why pad on the left? The next word of every text is appended at the right, so
# all texts must end at the same position.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Minus infinity or minus a million
#
# **Predict.** All scores are 0. Which weights do rows 0 and 3 get if hidden scores become
# $-\infty$, and which with $-10^6$?

# %% slideshow={"slide_type": "fragment"}
print(torch.zeros(4, 4).masked_fill(~left_padded, -math.inf).softmax(dim=-1)[[0, 3]])
print(torch.zeros(4, 4).masked_fill(~left_padded, -1e6).softmax(dim=-1)[[0, 3]])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Row 3 is right both times, because $e^{-1000000}$ is exactly 0 in float32, but row 0 is wrong both
# times:
#
# - With $-\infty$ all its exponentials are 0, and the formula divides 0 by 0, which is NaN.
# - With $-10^6$ its scores are low, but *equal*, and a softmax sees only differences. The query
#   that may see nothing attends to everything, even to the future.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Take two votes, one for each number, before you run the cell: does row 0 get
# zeros, equal weights, or something else? The tempting answer is 'zeros' for both. After the run
# ask what such a row should answer: zeros, the mean, an error? PyTorch subtracts the row's largest
# score first. Its NaN is minus infinity minus minus infinity, before any division.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Rows of NaN that the loss leaves out
#
# 'My loss leaves out the empty rows', says the friend, 'so they may be NaN.' To try this, let all
# values be 1, and let the loss add up the answers of the two words, rows 2 and 3.
#
# **Predict.** If hidden scores become $-\infty$, is the loss finite, and is the gradient of the
# values?

# %% slideshow={"slide_type": "fragment"}
values = torch.ones(4, 1, requires_grad=True)
weights = torch.zeros(4, 4).masked_fill(~left_padded, -math.inf).softmax(dim=-1)
loss = (weights @ values)[2:].sum()  # without the empty rows
loss.backward()
print("loss", loss.item(), "  gradient of the values", values.grad[:, 0].tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# The loss is finite, but the gradient of every value is NaN. This gradient is a sum over all rows,
# and the rows that the loss leaves out add $\text{NaN} \cdot 0 = \text{NaN}$. Such gradients spoil
# the parameters of the layer that made the values.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Two votes. Expect most hands for 'loss finite', rightly, and then 'so the gradient
# is, too'.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the sum over the rows that makes the gradient of each value
figure, axes = plt.subplots(
    2, 2, figsize=(8.5, 4.4), width_ratios=(4, 1), height_ratios=(4, 1), sharex="col"
)
of_answers = torch.tensor([[0.0], [0.0], [1.0], [1.0]])  # the loss adds up rows 2 and 3
columns = [f"value {j}" for j in range(4)]
heatmap(axes[0, 0], weights, range(4), columns, vmax=1.0, numbers=True)
hatch_zeros(axes[0, 0], weights)
looks = {"vmax": 2.0, "numbers": True, "cmap": ramp_to(RULE), "sides": None}
heatmap(axes[0, 1], of_answers, **looks)
heatmap(axes[1, 0], values.grad.mT, ["gradient"], columns, **looks)
axes[0, 0].set_title("weights")
axes[0, 1].set(title="gradient of\nthe answers", xticks=[], yticks=[])
axes[1, 1].axis("off")
axes[1, 1].text(-0.5, 0.5, "sum of weight\n× gradient", transform=axes[1, 1].transData, va="center")
figure.suptitle("NaN times 0 is NaN, and spoils the sum of every column", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a map of four queries and four values. The weights of queries 0 and 1 are NaN, those of
# query 2 lie on value 2, those of query 3 are a half on the values 2 and 3. Right of it, the
# gradients of the four answers: 0, 0, 1, 1. Below, the sum of each column, weight times gradient,
# is NaN for all four values.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Follow the last column aloud: NaN, NaN, 0 and 1/2, times 0, 0, 1 and 1.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Build the masked softmax
#
# Let us give an empty row zero weights. With finite values, its answer is then the zero vector, and
# no NaN enters the gradients. No choice of scores makes a softmax return only zeros, so a second
# step must follow it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask for that second step: someone will say 'set them to 0'. Then let pairs write
# the function on paper, four lines, before you show ours.

# %% [markdown] slideshow={"slide_type": "skip"}
# You need one new part: `torch.finfo(scores.dtype).min`, the lowest finite number of a type. Write
# the function before you read ours. `check` says what went wrong, `hint("4.2")` gives one more hint
# each time, and `solution("4.2")` shows all.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.2** · complete a function
#
# The scores and the boolean mask have the shape (\*, Q, K), where \* stands for any number of axes,
# even zero. Return weights of the scores' dtype (float16, float32 or float64), which are 0 where
# the mask is False, also in an empty row. You may assume that every visible score exceeds the
# lowest number of that dtype. The inputs stay as they were, and the gradients reach the scores
# without NaN.


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fill before and after the softmax
#
# Our version fills twice, with the same mask:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the schematic of the masked softmax
schematic("masked softmax")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: above, a row of boxes from left to right: scores (B, Q, K); hidden ones become the lowest
# number; a softmax over the keys; hidden ones become 0; weights (B, Q, K). Below are the three ways
# to hide: valid_lens gives key < length, (B, 1, K); is_causal gives key ≤ query, (Q, K); mask gives
# True or False for each pair, (B, Q, K). A key is visible where all of them are True. This result,
# (B, Q, K), goes up to the two boxes that fill what is hidden.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Follow an empty row through the boxes: four equal numbers, 0.25 each, zeros. Ask which
# of the two fills can go if no row is ever empty: the second.


# %% slideshow={"slide_type": "subslide"} tags=["build"]
def plain_softmax_where(scores, mask):  # (*, Q, K), and a mask that broadcasts to it
    lowest = torch.finfo(scores.dtype).min  # of the scores' type, about -3e38 in float32
    filled = scores.masked_fill(~mask, lowest)
    weights = filled.softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


# %% [markdown] slideshow={"slide_type": "-"}
# - The first fill takes the hidden keys out of the sum. Since the lowest number is finite, an empty
#   row holds equal weights, and no NaN, until the second fill.
# - The **second fill clears the empty rows** and leaves all other weights as they are.

# %% slideshow={"slide_type": "fragment"}
print(plain_softmax_where(torch.zeros(4, 4), left_padded))

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks it with lengths against the package's
some_scores = torch.randn(3, 2, 5)
for lens in (torch.tensor([5, 2, 0]), torch.tensor([[1, 4], [0, 5], [3, 3]])):
    weights = plain_softmax_where(some_scores, plain_length_mask(lens, 5))
    torch.testing.assert_close(weights, masked_softmax(some_scores, lens))
print("checked: with lengths it equals the package's masked_softmax")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Read the function line by line. Ask what row 0 holds after the softmax (a quarter four
# times) and after the last line (zeros).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two tests for a mask
#
# Two experiments find leaks without a look at the code. Let us try them on this function:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_attention(queries, keys, values, mask, softmax=plain_softmax_where):
    scores = queries @ keys.mT / math.sqrt(queries.shape[-1])  # (B, Q, K)
    return softmax(scores, mask) @ values  # (B, Q, V)


# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask the room how it would test this function without reading it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Test 1: dye in the padding
#
# A plumber who looks for a leak pours dye into a pipe. Our dye is the number 7, in the **keys and
# values** of the padding. If the mask is tight, every answer stays the same in every bit:

# %% slideshow={"slide_type": "-"}
queries, keys, values = torch.randn(3, 4, 5, 8)  # three times (B, n, D)
mask = plain_length_mask(torch.tensor([5, 3, 1, 0]), 5)  # the last of the sentences is empty
dyed = [x.masked_fill(~mask.mT, 7.0) for x in (keys, values)]  # where the key is padding
before = plain_attention(queries, keys, values, mask)
after = plain_attention(queries, *dyed, mask)
print("equal in every bit:", torch.equal(before, after))

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Read the lines aloud. Ask why one may demand equality to the bit where other tests
# allow a tolerance: the padding enters both sums with the weight 0, and 0 times a finite number is
# 0. Ask what the sentence of length 0 is for; the answer comes with the suspects.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two wrong masks in test 1
#
# A test that cannot fail shows nothing. So let us try two wrong masked softmaxes:

# %% slideshow={"slide_type": "-"}
suspects = {
    "minus_a_million": lambda scores, mask: scores.masked_fill(~mask, -1e6).softmax(dim=-1),
    "one_key_too_few": lambda scores, mask: plain_softmax_where(scores, mask & mask.roll(-1, -1)),
}

# %% [markdown] slideshow={"slide_type": "-"}
# The second combines the mask with a copy that `roll` has shifted one key to the left, so each
# padded row loses its last visible key, if it has one.
#
# **Predict.** Which of the two, if any, passes for all lengths, 5, 3, 1 and 0?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes, the vote in pairs. Many say that nothing wrong can pass.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Runs test 1 on both suspects, and draws the weights that they give to equal scores
figure, axes = plt.subplots(1, 2, figsize=(11, 3.4))
for ax, (name, softmax) in zip(axes, suspects.items(), strict=True):
    before = plain_attention(queries, keys, values, mask, softmax)
    after = plain_attention(queries, *dyed, mask, softmax)
    rows = []
    for n, one, other in zip((5, 3, 1, 0), before, after, strict=True):
        rows.append(f"length {n}: {'clean' if torch.equal(one, other) else 'leaks'}")
    weights = softmax(torch.zeros(4, 1, 5), mask)[:, 0]
    heatmap(ax, weights, rows, range(5), vmax=1.0, numbers=True)
    hatch_zeros(ax, weights)
    ax.step([4.5, 2.5, 0.5, -0.5, -0.5], [-0.5, 0.5, 1.5, 2.5, 3.5], color=INK, lw=4, zorder=5)
    ax.set(title=f"{name}, equal scores", xlim=(-0.5, 4.5), ylim=(3.5, -0.5))
    ax.set_xlabel("keys (right of the line: padding)")
figure.suptitle("Test 1 finds weight in the padding, but no word that is lost", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the weights of both functions for equal scores, with a row for each sentence and a
# staircase between words and padding. minus_a_million is clean for 5, 3 and 1 words, and leaks for
# 0 words, where all five keys of padding have 0.2. one_key_too_few is clean four times, but gives
# the third of three words and the only word of one the weight 0.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# `one_key_too_few` passes, although it hides the last word of each padded sentence. Test 1 misses a
# mask that hides too much; even a function that always answers 0 would pass. So add a check by
# hand: with length 3 and equal scores, each of three keys must get 1/3.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask why -1e6 is found: only the empty sentence gives equal weights to its padding.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Test 2: another future
#
# For a causal mask, replace the tokens from position 2 on. The answers at positions 0 and 1 must
# stay the same in every bit, while the later ones should change.
#
# **Question.** A mask shows each query one position too many. Which answer gives it away?

# %% slideshow={"slide_type": "fragment"}
now, then = torch.randn(2, 5, 8)  # (n, D) twice
then[:2] = now[:2]  # the same two tokens, and another future
for too_far in (4, 1, 0):
    mask = torch.ones(5, 5).tril(too_far).bool()  # query i sees the keys up to i + too_far
    before, after = (plain_attention(x, x, x, mask) for x in (now, then))
    print(
        f"{too_far} too far, changed (1) or not (0):", (before != after).any(dim=-1).int().tolist()
    )

# %% [markdown] slideshow={"slide_type": "fragment"}
# Answer 1 gives it away, since query 1 now sees position 2. Both tests are experiments rather than
# proofs: they find a leak only on the inputs that you try.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask first what must stay and what must change. Most forget the second: a function
# that always answers 0 keeps the past, too. Then vote: answer 1, because it sees position 2.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A causal self-attention layer
#
# In **self-attention**, the tokens of a sentence attend to each other: three learned matrices, as
# in chapter 1, turn them into queries, keys and values. The two masks and the two fills complete a
# layer that you can copy into a file of your own. The argument `is_word` marks the words, and
# padding may be at either end.

# %% slideshow={"slide_type": "-"} tags=["build"]
import torch


class PlainCausalSelfAttention(torch.nn.Module):
    def __init__(self, D):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (torch.nn.Linear(D, D, bias=False) for _ in range(3))

    def forward(self, X, is_word):  # finite (B, n, D), True at the words (B, n) -> (B, n, D)
        scores = self.W_q(X) @ self.W_k(X).mT / X.shape[-1] ** 0.5  # (B, n, n)
        positions = torch.arange(X.shape[1], device=X.device)
        mask = is_word[:, None] & (positions <= positions[:, None])  # (B, n, n)
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        return weights.masked_fill(~mask, 0.0) @ self.W_v(X)


# %% [markdown] slideshow={"slide_type": "skip"}
# The folded cell runs both tests on the layer. All numbers in `X` must be finite, even in the
# padding, as 'NaN as a dye' in 'Going further' shows.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Do not read the cell: let the room find in it the two masks and the two fills. What a
# real model adds: several heads (chapter 6) and positions (chapter 7).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the layer by both tests, and against the package
layer, X = PlainCausalSelfAttention(8), torch.randn(3, 5, 8)
words = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]]).bool()
other = X.masked_fill(~words[:, :, None], 7.0)
other[:, 3:] = 7.0  # padding, or the future of the positions 0 to 2
before, after = layer(X, words), layer(other, words)
assert torch.equal(before[:, :3], after[:, :3]) and (before != after)[:, 3:].any(dim=-1).all()
assert (before[2, :2] == 0).all()
print("checked: padding and future change no answer of the layer that they are hidden from")
projected = [W(X) for W in (layer.W_q, layer.W_k, layer.W_v)]
expected = dot_product_attention(*projected, mask=words[:, None], is_causal=True)
torch.testing.assert_close(before, expected)
print("checked: the layer equals the package's dot_product_attention")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A score of 0 does not hide a key. The mask does, where it acts on the scores before the softmax.
# - Without a causal mask, our model copied the word that it should guess. The causal mask shows
#   query $i$ the keys $j \le i$ and combines with a padding mask by `&`.
# - Where every key is hidden, $-\infty$ gives NaN, which spreads through the gradient, and $-10^6$
#   gives equal weights. A second fill, with 0 after the softmax, clears such a row.
# - To test a mask, dye the padding, change the future, and compare every bit. Such tests see leaks
#   only on the inputs that they try, and may miss a mask that hides too much.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Homework: exercises 4.2 to 4.4. Exercise 4.7 suits a lab in pairs.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# `check`, `hint` and `solution` work here as above.

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.1** · by hand
#
# A query has the scores $\ln 3$, $0$ and $5$ for its three keys, and the length is 2. Work out the
# three weights and give them as a list, such as `[0.2, 0.3, 0.5]`.

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.3** · predict, then measure
#
# A causal mask is off by one: query $i$ sees the keys up to $i + 1$. Ten tokens go through three
# layers. In each, they attend to each other under this mask, as in test 2, and its answers are the
# tokens of the next. Which is the last token that can change the answer at position 2 of layer 1,
# of layer 2, of layer 3? Give three positions, such as `[2, 2, 2]`.

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.4** · complete a function
#
# The function gets one length per sentence, shape (B,), and returns one length per query, shape
# (B, Q) with Q = `num_steps`. The mask `length_mask(decoder_lens(valid_lens, num_steps),
# num_steps)`, by the package's version of `plain_length_mask`, is causal *and* hides the padding.
# All lengths are int64, from 0 to Q.


# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Hide keys or queries?
#
# *2 minutes.* Lengths hide *keys*, the columns of the weights. Since a padding token is also a
# query, should we hide its row instead of its column, or both?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the weights of 'Hello world' with columns, rows, or both hidden
hide_columns, hide_rows = is_word[2], is_word[2].mT  # (1, K): is the key a word? (Q, 1): the query?
ways = [hide_columns, hide_rows, hide_rows & hide_columns]
compare_heatmaps(
    [[plain_softmax_where(torch.zeros(4, 4), mask.expand(4, 4)) for mask in ways]],
    ["columns hidden", "rows hidden instead", "both hidden"],
    [tokens[2]] * 3,
    "Hiding rows does not stop the words from reading the padding",
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three heat maps for 'Hello world `<pad> <pad>`' with equal scores. Left: the two padding
# columns are 0. Middle: the two padding rows are 0, but the rows of Hello and world still have
# weight in the padding columns. Right: weight only in the upper left square.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Hiding the row cannot replace hiding the column, because the row of 'Hello' would still read the
# padding. Hiding both is allowed, but it changes only the padding's own answers. The next layer
# hides these tokens as keys, and the **loss leaves them out**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Expect the wish to hide the rows as well, 'to be clean'. It is allowed, and changes
# nothing for the words. Ask who reads the padding's answer: nobody, because its column is hidden in
# the next layer, too. Which mean the loss must take is the next slide.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### The mean of the losses without padding
#
# *2 minutes.* The loss should leave out the answers of the padding. Here every word of our batch
# has loss 1 and every `<pad>` loss 9, so the mean should be 1.

# %% slideshow={"slide_type": "fragment"}
losses = torch.where(is_word[:, 0], 1.0, 9.0)  # (B, n)
print("mean of everything     ", losses.mean().item())
print("padding set to 0, mean ", (losses * is_word[:, 0]).mean().item())
print("mean over the words    ", losses[is_word[:, 0]].mean().item())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only the last is right. The second removes the losses of the padding but still counts them: it
# divides by 12 instead of 9.

# %% [markdown] slideshow={"slide_type": "skip"}
# `F.cross_entropy(..., ignore_index=...)` also takes this mean. Exercise 4.5 below is about it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for all three numbers first. For the second many say 1. Ask what it would do to a batch that
# is half padding: the loss halves, and its gradient with it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### NaN as a dye
#
# *6 minutes.* In Test 1 the dye was 7. Now let it be NaN, which uninitialised memory may contain.
#
# **Question.** Does `plain_attention`, which passed, leak it?

# %% slideshow={"slide_type": "fragment"}
mask = plain_length_mask(torch.tensor([5, 3, 1, 0]), 5)
dyed = [x.masked_fill(~mask.mT, math.nan) for x in (keys, values)]  # as in test 1
print("answers with NaN:", plain_attention(queries, *dyed, mask).isnan().any(dim=(1, 2)).tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Yes, in every sentence that has padding. A weight of 0 does not help here, because 0 times NaN is
# NaN, and so is every sum that contains a NaN.

# %% [markdown] slideshow={"slide_type": "notes"}
# The tempting answer is 'clean'. Point at the product: weight 0 times NaN is NaN. In real life the
# NaN comes from an uninitialised buffer (torch.empty), a division by a length of 0, or an empty
# row's softmax in the layer before.

# %% [markdown] slideshow={"slide_type": "skip"}
# #### Clear the padding first
#
# The remedy is to put zeros into the padding before anything is multiplied:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_safe_attention(queries, keys, values, valid_lens):  # lengths (B,)
    mask = plain_length_mask(valid_lens, keys.shape[1])  # (B, 1, K)
    keys, values = (x.masked_fill(~mask.mT, 0.0) for x in (keys, values))
    return plain_attention(queries, keys, values, mask)


# %% slideshow={"slide_type": "skip"}
lens = torch.tensor([5, 3, 1, 0])
before = plain_safe_attention(queries, keys, values, lens)
after = plain_safe_attention(queries, *dyed, lens)
print("equal in every bit:", torch.equal(before, after))

# %% [markdown] slideshow={"slide_type": "skip"}
# The package does the same, whereas `F.scaled_dot_product_attention` leaks NaN (pytorch #101967).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks both remarks
torch.testing.assert_close(dot_product_attention(queries, *dyed, lens), before)
everyones = mask.expand(-1, 5, -1)
assert F.scaled_dot_product_attention(queries, *dyed, attn_mask=everyones).isnan().any()
print("checked: NaN does not come through the package, and comes through PyTorch's function")

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Why the future is dyed with ordinary numbers
#
# Put NaN into the last value under a causal mask, and see which of the five answers contain it:

# %% slideshow={"slide_type": "fragment"}
dyed = values.clone()
dyed[:, 4] = math.nan
print(dot_product_attention(queries, keys, dyed, is_causal=True)[0].isnan().any(dim=-1))

# %% [markdown] slideshow={"slide_type": "skip"}
# All of them do. Row 0 may not see key 4, but row 4 may, so the package cannot put a zero there.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws who sees the last key when it is padding, and when it is the future
figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), sharey=True)
masks = plain_length_mask(torch.tensor([4]), 5)[0].expand(5, 5), plain_causal_mask(5)
for ax, mask, title in zip(axes, masks, ("key 4 is padding", "key 4 is the future"), strict=True):
    draw_mask(ax, mask, range(5))
    ax.add_patch(Rectangle((3.5, -0.5), 1, 5, fill=False, edgecolor=INK, lw=4, zorder=6))
    ax.set_title(title)
figure.suptitle("Nobody sees the padding, but the last query sees the last key", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two masks of five queries and five keys, with key 4 framed. Left, under a length of 4,
# key 4 is hatched in all rows. Right, under a causal mask, it is hatched in the rows 0 to 3, and
# visible in row 4.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Padding is hidden from *all* queries, the future only from *some*. This is why Test 2 fills the
# future with other ordinary numbers and compares every bit.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Half precision
#
# *2 minutes.* Many models compute with 16 bits per number. In one such type, float16, the largest
# finite number is 65,504, so `masked_fill` refuses $-10^9$, a popular choice for hidden scores
# since the code of the Transformer's authors. To fit every type, `plain_softmax_where` asks
# `torch.finfo` for the lowest number of the scores' own type. The type bfloat16 also has 16 bits,
# but spends more of them on the exponent, so that it reaches about as far as float32.

# %% slideshow={"slide_type": "fragment"}
for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
    mask = torch.tensor([[True, True, False], [False, False, False]])
    rows = plain_softmax_where(torch.zeros(2, 3, dtype=dtype), mask).tolist()
    print(f"{str(dtype):15} lowest {torch.finfo(dtype).min:8.1e}   weights {rows}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Because D2L's code assigns its $-10^6$, beyond the range of float16 as well, it silently gets
# $-\infty$ there.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks both remarks about float16
half = torch.zeros(2, dtype=torch.float16)
try:
    half.masked_fill(torch.tensor([False, True]), -1e9)
    raise AssertionError("masked_fill took a number that does not fit")
except RuntimeError:
    half[1] = -1e6
assert half.tolist() == [0.0, -math.inf]
print("checked: masked_fill refuses -1e9, and -1e6 becomes minus infinity where it is assigned")

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Causal masks with an offset
#
# *3 minutes.* A model that writes adds one token at a time, and keeps the keys and values of the
# earlier tokens, as chapter 8 will show. When the fifth token comes, its one query meets five keys.
# Row 0 of a causal mask belongs to position 0, whereas this query is at position 4, so the
# package's `causal_mask` has an `offset`, the number of keys before the first query.

# %% slideshow={"slide_type": "skip"}
print("without an offset", causal_mask(1, 5).int())
print("with an offset   ", causal_mask(1, 5, offset=4).int())

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws which row of the causal mask belongs to the fifth query
figure, ax = plt.subplots(figsize=(8, 3.2))
draw_mask(ax, causal_mask(5, 5), range(5))
for row, text in ((0, "without an offset"), (4, "with offset 4")):
    corner = -0.5, row - 0.5
    ax.add_patch(Rectangle(corner, 5, 1, fill=False, edgecolor=INK, lw=4, zorder=6, clip_on=False))
    ax.text(4.65, row, text, va="center", size=14)
ax.set_title("The fifth query needs the last row of the triangle")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a causal mask of five queries and five keys. Row 0, where only key 0 is visible, is
# framed as the row without an offset; row 4, where all five keys are visible, as the row with
# offset 4.*

# %% [markdown] slideshow={"slide_type": "skip"}
# PyTorch's `is_causal=True` also begins at position 0 and would show our query only key 0. A single
# newest token can do without a causal mask, because no key comes after it, while several new tokens
# need one with an offset.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what PyTorch's is_causal shows a single query
query, keys_so_far = torch.randn(1, 1, 8), torch.randn(1, 5, 8)
first = F.scaled_dot_product_attention(query, keys_so_far, keys_so_far, is_causal=True)
torch.testing.assert_close(first[0, 0], keys_so_far[0, 0])
print("checked: it shows only key 0")

# %% [markdown] slideshow={"slide_type": "notes"}
# Draw the 5 by 5 triangle, and cover all rows but one: which row is our query's? Code that writes
# token by token meets this trap on its first day.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### `True` may mean attend or ignore
#
# *3 minutes.* Two parts of PyTorch give `True` opposite meanings:
#
# | function and argument | a boolean `True` means |
# |---|---|
# | this course, `mask` | may attend |
# | `F.scaled_dot_product_attention`, `attn_mask` | may attend |
# | `nn.MultiheadAttention`, `key_padding_mask` and `attn_mask` | **ignore** |
#
# **Question.** You are used to `nn.MultiheadAttention`, and you give a mask in which `True` means
# ignore to `F.scaled_dot_product_attention`. What is the answer to 'Hello' in 'Hello world
# `<pad> <pad>`'?

# %% slideshow={"slide_type": "subslide"}
one_pad = torch.randn(8)  # the vector of every <pad>
batch = torch.where(is_word.mT, torch.randn(3, 4, 8), one_pad)  # (B, n, D)
ignore = ~is_word.expand(3, 4, 4)  # True at the padding
answers = F.scaled_dot_product_attention(batch, batch, batch, attn_mask=ignore)
print("the answer to 'Hello' is the vector of <pad>:", torch.allclose(answers[2, 0], one_pad))

# %% [markdown] slideshow={"slide_type": "fragment"}
# It is the vector of `<pad>`, because 'Hello' attends only to the padding. The shape is right, and
# PyTorch raises no error. The companion code of a good textbook had this bug
# (rasbt/LLMs-from-scratch #1061).

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them read the table in silence, then vote: an error, NaN, or a vector, and which.
# Most hope for an error. Ask how long such a bug would live, and what would show it: test 1 does.

# %% [markdown] slideshow={"slide_type": "fragment"}
# A mask of floats has a third meaning, because PyTorch *adds* it to the scores. Such a mask should
# hold 0 where a key is visible and $-\infty$ where it is hidden; 1.0 hides nothing.

# %% [markdown] slideshow={"slide_type": "skip"}
# `F.scaled_dot_product_attention` and `nn.MultiheadAttention` also differ on empty rows. In PyTorch
# 2.13 on the CPU, the function answers them with zeros, as it did not in older versions (pytorch
# #103963), while the layer gives NaN by default.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks masks of booleans, masks of floats and empty rows in both functions
sdpa, mha = F.scaled_dot_product_attention, nn.MultiheadAttention(8, num_heads=1, batch_first=True)
causal = plain_causal_mask(4)
nothing = torch.zeros(4, 4, dtype=torch.bool)  # nobody may attend to anything
assert (sdpa(batch, batch, batch, nothing) == 0).all()
assert mha(batch, batch, batch, attn_mask=~nothing)[0].isnan().all()
added = torch.zeros(4, 4).masked_fill(~causal, -math.inf)
expected = dot_product_attention(batch, batch, batch, is_causal=True)
torch.testing.assert_close(sdpa(batch, batch, batch, causal), expected)
torch.testing.assert_close(sdpa(batch, batch, batch, added), expected)
torch.testing.assert_close(
    mha(batch, batch, batch, attn_mask=added)[0], mha(batch, batch, batch, attn_mask=~causal)[0]
)
is_padding = ~is_word[:, 0]
torch.testing.assert_close(
    mha(batch, batch, batch, key_padding_mask=is_padding)[0],
    mha(batch, batch, batch, attn_mask=is_padding[:, None].expand(3, 4, 4))[0],
)
print("checked: True = ignore or -inf added, the same answers; empty rows give 0 and NaN")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.5** · complete a function
#
# The function gets the losses (B, Q) of all positions, padding included, and lengths (B,). It
# returns the mean over all words of the batch, a tensor of shape () with a gradient for the losses.
# NaN in the padding changes neither the number nor its gradient. NaN at a word is not hidden: the
# mean is NaN. A batch without a word gives 0, with a gradient of 0.


# %% [markdown] slideshow={"slide_type": "skip"}
# **4.6** · find the bug
#
# `attend` has three bugs. Repair them. Queries (B, Q, D), keys (B, K, D), values (B, K, V), integer
# lengths (B,) from 0 to K, output (B, Q, V). A query with nothing to see gets the answer 0. All
# numbers are finite, and every word's score exceeds the lowest number of its dtype. Gradients
# reach queries, keys and values, and none is NaN.


# %% [markdown] slideshow={"slide_type": "skip"}
# **4.7** · write the test
#
# Your test takes a function `attend(queries, keys, values, valid_lens)` with the shapes of 4.6. It
# returns silently if the outputs do not depend on what is in the padding, NaN included, as in
# `plain_safe_attention`. It raises an `AssertionError` for each of six broken ones:
#
# - no mask;
# - a mask after the softmax, without the friend's division;
# - rows hidden instead of columns;
# - one key too many;
# - a length of 0 taken for 1;
# - NaN let through to the output.


# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.3.2
#   (masked softmax) and 11.7 (lengths for each query in the decoder). [d2l.ai](https://d2l.ai)
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.2.3:
#   illegal connections are set to $-\infty$ before the softmax.
# - Tensor2Tensor, `tensor2tensor/layers/common_attention.py`, 2017: adds $-10^9$. A. Rush, *The
#   Annotated Transformer*, NLP-OSS 2018, doi:10.18653/v1/W18-2509, fills with it.
#
# Bugs that others met, on GitHub:
#
# - pytorch/pytorch #103963: NaN from `scaled_dot_product_attention` for rows with nothing to see.
# - pytorch/pytorch #110213: the same kind of rows in a model that writes, padded on the left.
# - pytorch/pytorch #101967: NaN in hidden positions reaches the answer.
# - rasbt/LLMs-from-scratch #1061: an inverted mask for `scaled_dot_product_attention` in the
#   companion code of a textbook.
