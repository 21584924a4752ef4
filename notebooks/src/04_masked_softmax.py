# %% [markdown] slideshow={"slide_type": "slide"}
# # 4 · Masked softmax
#
# **You will**
# - hide padding and the future from a query, with lengths and with boolean masks;
# - build a masked softmax that is right even where a query may see nothing at all;
# - say what becomes of your mask in a library where `True` means 'ignore';
# - test an attention function for leaks, and say what such a test cannot catch.
#
# Core path: 65 minutes. Going further: 30. Exercises: 74.
#
# Builds on chapter 3. The book is *Dive into Deep Learning* (D2L), section 11.3.2.

# %% [markdown] slideshow={"slide_type": "notes"}
# The lecture in 40 minutes, with some reserve: 8 to the end of 'More and more padding', 6 for where
# the mask acts, 4 for lengths, 7 for the future, 8 for the empty row and the build, 2 for rows and
# columns, 4 for `True` and the summary. The two tests before the summary are for the
# lab: 12 minutes, or 6 at the end of a quick lecture for 'Test 1' and 'Four suspects'. Behind
# after 18 minutes, at 'Not seeing the future'? Leave out the view 'Turn the lengths yourself',
# then 'Columns, not rows' (ask its question, give its answer): a second lecturer estimated 47
# minutes with both and 42 without, in a room of 80. The slides after the summary are
# for questions. Homework: exercises 4.1 to 4.4.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import causal_mask, dot_product_attention, masked_softmax
from d2l_attention.views.plots import compare_heatmaps, hatch_zeros, heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - Chapter 3 gave each pair of a query and a key a **score**, which may be any number. The scores
#   of a batch have the shape (B, Q, K): a row for each query, a column for each key.
# - The softmax takes the exponentials of a row and divides them by their sum. The scores $\ln 2$
#   and $0$ have the exponentials 2 and 1, so the **weights** are $\frac23$ and $\frac13$.
# - The answer to a query, chapter 3's output, is the weighted sum of the values. With the values
#   $(6, 0)$ and $(0, 6)$ it is $\frac23 (6, 0) + \frac13 (0, 6) = (4, 2)$.
#
# Up to now every query could see every key. In this chapter some keys must not be seen.

# %% [markdown] slideshow={"slide_type": "notes"}
# A minute and a half. Do the two weights on the board and leave them there: the numbers come back
# on the next slides. Say once what is a row and what is a column; students confuse them until the
# end of the hour.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A rectangle of unequal sentences
#
# Three sentences have four, three and two words. A tensor is a rectangle, so the shorter sentences
# are filled up with `<pad>`, a token that means nothing.

# %% slideshow={"slide_type": "-"}
sentences = ["Dive into Deep Learning", "Learn to code", "Hello world"]
tokens = [sentence.split() for sentence in sentences]
valid_lens = torch.tensor([len(words) for words in tokens])  # (B,)
tokens = [words + ["<pad>"] * (4 - len(words)) for words in tokens]
for length, words in zip(valid_lens.tolist(), tokens, strict=True):
    print(f"length {length}:", "".join(f"{word:10}" for word in words))

# %% [markdown] slideshow={"slide_type": "notes"}
# A minute and a half. Draw the rectangle, and shade its three paddings. Ask who fills it up in the
# students' own code: the loader of the data.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 'Hello' asks
#
# `<pad>` has a key and a value like every token, and every query has a score for it.
#
# **Predict.** The scores of 'Hello' for the keys 'Hello', 'world' and `<pad>` are $\ln 2$, $0$
# and $0$. How much of its attention does the padding get: nothing, one quarter or one third?

# %% slideshow={"slide_type": "fragment"}
print("weights", torch.tensor([math.log(2), 0.0, 0.0]).softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# A score of 0 does not mean 'no attention', because $e^0 = 1$. It means half as much attention as a
# score of $\ln 2$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room vote by hands. Expect many for 'nothing', because the score is 0. Then do it on the
# board: the exponentials are 2, 1, 1, their sum is 4. Two and a half minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### More and more padding
#
# If another sentence of the batch is long, 'Hello world' gets many paddings. Each has the score 0
# and the value $(-6, 0)$. Without padding the answer to 'Hello' is $(4, 2)$.
#
# **Predict.** What does the answer come close to with 100 tokens: $(4, 2)$, $(-6, 0)$ or $(0, 0)$?

# %% slideshow={"slide_type": "fragment"}
hello_scores = torch.tensor([math.log(2)] + [0.0] * 99)
hello_values = torch.tensor([[6.0, 0.0], [0.0, 6.0]] + [[-6.0, 0.0]] * 98)
for n in (2, 3, 10, 100):
    print(f"{n:3d} tokens: answer", hello_scores[:n].softmax(dim=-1) @ hello_values[:n])

# %% [markdown] slideshow={"slide_type": "fragment"}
# There are four answers to one question, and the last is close to the padding's own value. PyTorch
# gave no warning.

# %% [markdown] slideshow={"slide_type": "notes"}
# Vote before you show the numbers. After them ask who would notice it in training. There is no
# error to notice. Two minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where the mask acts
#
# Only the first $\ell$ keys are words. So let the sum of the softmax run over those only:
#
# $$\alpha_j = \frac{e^{a_j}}{e^{a_0} + \dots + e^{a_{\ell - 1}}} \quad (j < \ell),
# \qquad \alpha_j = 0 \quad (j \ge \ell).$$
#
# This is a **masked softmax**. In code, a **mask** is a boolean tensor: `True` means that the query
# may attend to the key. The other scores become $-\infty$ before the softmax: $e^{-\infty} = 0$.

# %% slideshow={"slide_type": "fragment"}
for n in (2, 3, 10, 100):
    hello_mask = torch.arange(n) < 2  # True for the two words
    filled = hello_scores[:n].masked_fill(~hello_mask, -math.inf)
    print(f"{n:3d} tokens: answer", filled.softmax(dim=-1) @ hello_values[:n])

# %% [markdown] slideshow={"slide_type": "skip"}
# The answer is $(4, 2)$ each time. These three lines are the whole idea.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Write the sum for 'Hello' on the board and strike the padding's 1 out of it: 2 + 1.
# A stumble: `~mask` turns True and False round, because `masked_fill` wants to know where to fill.
# Say 'True is visible' aloud, and keep to it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A mask that acts later
#
# **Predict.** A friend takes the plain softmax, multiplies the padding's weight by 0, and divides
# the weights by their sum. On paper this gives the same $\frac23, \frac13, 0$. What does
# float32 give for a padding with the score 105?

# %% slideshow={"slide_type": "fragment"}
for pad_score in (0.0, 80.0, 100.0, 105.0):
    row = torch.tensor([math.log(2), 0.0, pad_score])
    late = row.softmax(dim=-1) * torch.tensor([1.0, 1.0, 0.0])
    print(f"padding {pad_score:3.0f}: sum {late.sum():7.2g}   weights", late / late.sum())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Float32 has no positive number below about $e^{-103}$. At 100 the words' weights are so small that
# it rounds them, and the third digit is wrong. At 105 they are 0, and 0 divided by 0 is NaN, 'not a
# number'. So the mask acts **on the scores, before the softmax**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Most say 'the same, since the padding is multiplied by 0'. If someone asks where a score of 105
# should come from: an unscaled dot product of two vectors of 4,096 unit-variance entries has a
# standard deviation of 64 (chapter 3). The safe order costs nothing. Three minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One length for a sentence, or one for each query
#
# Positions are counted from 0, so a length $\ell$ lets through the positions below $\ell$.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_length_mask(valid_lens, num_keys):  # (B,) -> (B, 1, K), or (B, Q) -> (B, Q, K)
    lens = valid_lens.reshape(len(valid_lens), -1, 1)  # (B, 1, 1), or (B, Q, 1)
    return torch.arange(num_keys) < lens


# %% slideshow={"slide_type": "skip"}
is_word = plain_length_mask(valid_lens, 4)  # (B, 1, K)
one_more_each = plain_length_mask(torch.tensor([[1, 2, 3, 4]]), 4)  # (1, Q, K)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the two masks: what each row of a grid may see
figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), width_ratios=(3, 4))
names = [["Dive into ...", "Learn to code", "Hello world"], [f"query {i}" for i in range(4)]]
for ax, mask, rows in zip(axes, (is_word[:, 0], one_more_each[0]), names, strict=True):
    for (row, column), seen in zip(torch.ones(mask.shape).nonzero(), mask.flatten(), strict=True):
        style = {"facecolor": "#9ecae1"} if seen else {"facecolor": "0.93", "hatch": "//"}
        ax.add_patch(plt.Rectangle((column, row), 1, 1, edgecolor="0.45", **style))
        text = {"ha": "center", "va": "center", "fontsize": 17}
        ax.text(column + 0.5, row + 0.5, "True" if seen else "", **text)
    lengths = mask.sum(dim=-1).tolist()
    ticks = [f"{name}: {length}" for name, length in zip(rows, lengths, strict=True)]
    ax.set_yticks(torch.arange(len(mask)) + 0.5, ticks, fontsize=15)
    ax.set_xticks(torch.arange(4) + 0.5, [f"key {j}" for j in range(4)], fontsize=15)
    ax.set(xlim=(0, 4), ylim=(len(mask), 0))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
axes[0].set_title(f"(B,) -> {tuple(is_word.shape)}", fontsize=16)
axes[1].set_title(f"(B, Q) -> {tuple(one_more_each.shape)}", fontsize=16)
figure.suptitle("A row sees as many keys as its length says", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids with four columns, one for each key. Left, one row for each sentence: of the
# lengths 4, 3 and 2, so many cells say True, and the others are hatched. Right, one row for each
# query of a single sentence, with the lengths 1, 2, 3 and 4: a triangle.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Broadcasting repeats the only row of a sentence for every query.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Read the last line of the code, and let the room say the row of 'Learn to code'
# before the figure. Ask why the 1 in the middle of (3, 1, 4) is needed: the same row for every
# query. Which model could want the grid on the right? Leave it open; 'Not seeing the future'
# answers it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A whole batch
#
# Every token asks every token of its own sentence: **self-attention**. What will the mask change in
# 'Hello world `<pad> <pad>`'?

# %% [markdown] slideshow={"slide_type": "skip"}
# Each word has a random vector. The queries, the keys and the values are all the same tensor:

# %% slideshow={"slide_type": "skip"}
generator = torch.Generator().manual_seed(3)
vectors = {word: torch.randn(8, generator=generator) for word in sorted(set(sum(tokens, [])))}
batch = torch.stack(
    [torch.stack([vectors[word] for word in words]) for words in tokens]
)  # (B, n, D)
scores = batch @ batch.mT / math.sqrt(8)  # (B, n, n); .mT exchanges the last two axes
unmasked_weights = scores.softmax(dim=-1)
masked_weights = scores.masked_fill(~is_word, -math.inf).softmax(dim=-1)
share = unmasked_weights[2, 0, 2:].sum()
print(f"without a mask, with these vectors, 'Hello' gives {share:.0%} of its attention to padding")

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the weights of 'Hello world' without a mask and with one
axes = compare_heatmaps(
    [[unmasked_weights[2], masked_weights[2]]],
    ["plain softmax", "masked softmax"],
    [tokens[2]] * 2,
    "The mask gives the padding's share to the words",
)
axes[0, 0].figure.set_size_inches(8.2, 4.0)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps of 'Hello world `<pad> <pad>`'. Left, the two columns of `<pad>` hold
# weight. Right, those columns are hatched, exactly 0, and the words' weights have grown.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the weights of all three sentences
assert torch.equal(unmasked_weights[0], masked_weights[0])
assert (masked_weights[1, :, 3:] == 0).all() and (masked_weights[2, :, 2:] == 0).all()
torch.testing.assert_close(masked_weights.sum(dim=-1), torch.ones(3, 4))
print("checked: padding has weight 0, rows sum to one, the sentence without padding is unchanged")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room point before the figure: which cells become 0, and what do the others
# do? They grow, all of one row by the same factor. In 'Dive into Deep Learning' nothing changes.
# Two likely questions. 'Why do the padding's own rows have weights?': see 'Columns, not rows'.
# 'Does a mask save work?': no, the hidden scores are computed and thrown away.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Not seeing the future
#
# A model that writes learns to guess the next word. In training all positions of a sentence are
# computed at once. Position 1 has to guess the word at position 2. But that word is in the same
# tensor, and attention could simply copy it.
#
# A **causal mask** hides it: query $i$ sees key $j$ only where $j \le i$.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_causal_mask(n):  # -> (n, n)
    positions = torch.arange(n)
    return positions <= positions[:, None]  # row i is query i, column j is key j


# %% slideshow={"slide_type": "fragment"}
causal = plain_causal_mask(4)
print(causal.int())
print("the same as the lengths 1, 2, 3, 4:", torch.equal(causal, one_more_each[0]))

# %% [markdown] slideshow={"slide_type": "skip"}
# A query may see its own position: the word there has been read, and the word to guess is the next
# one. D2L's Transformer trains its **decoder**, the part that writes, with such lengths.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for row 0 before you show it. Then ask why the diagonal is open. Expect 'so it sees the
# answer'. No: at position 1 is the word just read, and the answer is at position 2. D2L's decoder
# builds these lengths only in training mode, so its validation loss is computed with the future in
# sight. Chapter 8 measures it. Two and a half minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Padding and future together
#
# A key is visible where *both* masks are `True`: `is_word & causal`, of shape (B, Q, K). For
# 'Learn to code `<pad>`', let all scores be 0. Then a query that sees $\ell$ keys gives each
# $1/\ell$.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the weights of one sentence under a padding mask, a causal mask, and both
three_masks = [is_word[1].expand(4, 4), causal, is_word[1] & causal]
compare_heatmaps(
    [[torch.zeros(4, 4).masked_fill(~m, -math.inf).softmax(dim=-1) for m in three_masks]],
    ["padding", "causal", "causal and padding"],
    [tokens[1]] * 3,
    "With both masks, a key is visible only where each of them is True",
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three heat maps for 'Learn to code `<pad>`' with equal scores. Padding: a third in each
# of three columns. Causal: a triangle, 1 in the first row, 0.25 in the last. Both: the triangle
# without the last column, so the last two rows are equal.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Before the figure: half a minute for the four weights of the last row under both masks. Some
# write a quarter four times: they forget the padding. On the figure ask why the last two rows of
# the third map are equal: 'code' and the padding see the same three words. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn the lengths yourself
#
# A **dot** is the result of an experiment: the answer of that row changes if that key and its value
# change.
#
# **Question.** Tick *causal*. Which step of a slider now removes exactly one dot, and why only one?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows which keys reach which answers in two sentences, under sliders for their lengths
from d2l_attention.views import explore


def answers_under(sentence, mask, keys):
    weights = masked_softmax(batch[sentence] @ keys.mT / math.sqrt(8), mask=mask)
    return weights, weights @ keys


def draw_sentence(ax, sentence, length, causal_too):
    mask = plain_length_mask(torch.tensor([length]), 4)[0].expand(4, 4)
    mask = mask & plain_causal_mask(4) if causal_too else mask
    weights, before = answers_under(sentence, mask, batch[sentence])
    heatmap(ax, weights, tokens[sentence], tokens[sentence], vmax=1.0)
    hatch_zeros(ax, weights)
    for j in range(4):
        other = batch[sentence].clone()
        other[j] += 1.0
        reached = (answers_under(sentence, mask, other)[1] != before).any(dim=-1).nonzero()[:, 0]
        style = {"s": 330, "color": "#E69F00", "edgecolor": "black", "zorder": 3}
        ax.scatter([j] * len(reached), reached, **style)
    ax.set_title(f"length {length}", fontsize=17)
    ax.tick_params(labelsize=15)


def play(figure, dive=4, hello=2, causal=False):
    axes = figure.subplots(1, 2)
    for ax, sentence, length in zip(axes, (0, 2), (dive, hello), strict=True):
        draw_sentence(ax, sentence, length, causal)
        ax.set_xlabel("key", fontsize=15)
    axes[0].set_ylabel("query", fontsize=15)


explore(
    play,
    figsize=(11, 4.2),
    alt="Attention weights of two sentences under the chosen lengths, dots where answers reach.",
    dive=(0, 4),
    hello=(0, 4),
    causal=False,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of two heat maps, for 'Dive into Deep Learning' and 'Hello world
# `<pad> <pad>`', with a slider for each length and a box for the causal mask. Hidden cells are
# hatched and have no dots.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The step of 'dive' from 4 to 3 does, because under the causal mask only the last row sees the last
# column.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The sliders work on the slide. Tick *causal*, and let the room vote before you move:
# 'dive' from 4 to 3 removes one dot. Then 'hello' from 2 to 1 removes three: why? Last, set 'hello'
# to 0, where everything is hatched, and leave the question open what such a row should answer: the
# next section asks it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A query that sees nothing
#
# We hid scores with $-\infty$, as *Attention Is All You Need* does. D2L's code uses $-10^6$. Is one
# of them right for a query that may see *nothing*?
#
# Such queries occur (pytorch #110213) where a model writes several texts at once, padded on the
# *left*. Lengths cannot say this, because they count from the left; a boolean mask can. Under a
# causal mask, the first two rows of '`<pad> <pad>` Hello world' see no key:

# %% slideshow={"slide_type": "-"}
left_padded = plain_causal_mask(4) & torch.tensor([False, False, True, True])
print(left_padded.int())

# %% [markdown] slideshow={"slide_type": "notes"}
# A minute and a half. Why pad on the left? The next word of every text is appended at the right, so
# all texts must end at the same position.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Minus infinity or minus a million
#
# **Predict.** All scores are 0. Which weights do the rows 0 and 3 get if hidden scores become
# $-\infty$, and which if they become $-10^6$?

# %% slideshow={"slide_type": "fragment"}
print(torch.zeros(4, 4).masked_fill(~left_padded, -math.inf).softmax(dim=-1)[[0, 3]])

# %% slideshow={"slide_type": "fragment"}
print(torch.zeros(4, 4).masked_fill(~left_padded, -1e6).softmax(dim=-1)[[0, 3]])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Row 3 is right both times: $e^{-1000000}$ is exactly 0 in float32. Row 0 is wrong both times.
#
# - With $-\infty$ all its exponentials are 0, and 0 divided by 0 is NaN.
# - With $-10^6$ its scores are low, but *equal*, and a softmax sees only differences. The query
#   that may see nothing attends to everything, even to the future.

# %% [markdown] slideshow={"slide_type": "notes"}
# Take two votes, one for each number, before you show a row: does row 0 get zeros, equal weights,
# or something else? The tempting answer is 'zeros' for both. After the run ask what such a row
# should answer. Zeros, the mean, an error: let them argue for a minute. Two and a half minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Build the masked softmax
#
# A query that may see nothing should get zeros as weights. Then its answer is the zero vector, and
# nothing that was hidden enters it. A softmax never returns a row of zeros, so there is a second
# step after it:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the schematic of the masked softmax
from d2l_attention.views import schematic

schematic("masked softmax")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: above, a row of boxes from left to right: scores (B, Q, K); hidden ones become the lowest
# number; a softmax over the keys; hidden ones become 0; weights (B, Q, K). Below are the three ways
# to hide: valid_lens gives key < length, (B, 1, K); is_causal gives key ≤ query, (Q, K); mask gives
# True or False for each pair, (B, Q, K). A key is visible where all of them are True. This result,
# (B, Q, K), goes up to the two boxes that fill what is hidden.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Follow the row of the empty query through the boxes: four equal numbers, 0.25 each, zeros. Ask
# which of the two fills can go if no row is ever empty: the second. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fill twice
#
# Scores (\*, Q, K); `True` in the mask means that the query may attend to the key.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_softmax_where(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    filled = scores.masked_fill(~mask, lowest)
    weights = filled.softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


# %% [markdown] slideshow={"slide_type": "-"}
# - The first fill takes the hidden keys out of the sum.
# - The **second fill repairs the row** that sees nothing, whatever number the first one takes.

# %% slideshow={"slide_type": "fragment"}
print(plain_softmax_where(torch.zeros(4, 4), left_padded))


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_masked_softmax(scores, valid_lens):  # (B, Q, K); lengths (B,), (B, Q), or None
    if valid_lens is None:
        return scores.softmax(dim=-1)  # (B, Q, K)
    return plain_softmax_where(scores, plain_length_mask(valid_lens, scores.shape[-1]))


# %% [markdown] slideshow={"slide_type": "skip"}
# With the second fill, $-\infty$, $-10^6$ and `lowest` give equal weights and gradients (in
# float32). The number matters in float16, which cannot hold $-10^6$, and for real scores
# below $-10^6$. `lowest`, the lowest *finite* number of the scores' type, is right there, too,
# without a NaN on the way.
#
# Chapter 3 used `plain_masked_softmax`. The package has it under D2L's name, `masked_softmax`. It
# also refuses lengths that are negative, too large or not integers, and takes `mask=` and
# `is_causal=True` beside them. The two agree:

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the page's function equals the package's
some_scores = torch.randn(3, 2, 5)
for lens in (torch.tensor([5, 2, 0]), torch.tensor([[1, 4], [0, 5], [3, 3]]), None):
    expected = masked_softmax(some_scores, lens)
    torch.testing.assert_close(plain_masked_softmax(some_scores, lens), expected)
print("checked: plain_masked_softmax equals masked_softmax, for both kinds of lengths, 0 included")


def filled_twice(first, scores):
    """Weights, and the gradient of a loss for the scores, where the first fill takes `first`."""
    scores = scores.clone().requires_grad_()
    hidden = ~plain_length_mask(torch.tensor([5, 2, 0]), 5)
    weights = scores.masked_fill(hidden, first).softmax(dim=-1).masked_fill(hidden, 0.0)
    (weights * torch.arange(5)).square().sum().backward()
    return weights.detach(), scores.grad


lowest = torch.finfo(torch.float32).min
for number in (-math.inf, -1e6):
    torch.testing.assert_close(filled_twice(number, some_scores), filled_twice(lowest, some_scores))
far_below = some_scores - 2e6
assert filled_twice(-1e6, far_below)[0][1].sum() == 0  # the words of sentence 1 are lost
assert filled_twice(lowest, far_below)[0][1].sum() == 2  # two queries, each row sums to one
print("checked: with the second fill all three numbers give equal weights and gradients in float32")
print("checked: scores near -2,000,000 lose their words to a first fill with -1,000,000")

# %% [markdown] slideshow={"slide_type": "notes"}
# A minute and a half. Read the function line by line beside the boxes. Ask what row 0 holds after
# the softmax (a quarter four times) and after the last line (zeros).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Columns, not rows
#
# In a matrix of weights, a row is a query and a column is a key. Lengths hide *keys*. But the
# paddings also ask. Should their rows be hidden instead, or as well?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the weights of 'Hello world' with columns, rows, or both hidden
hide_columns, hide_rows = is_word[2], is_word[2].mT  # (1, K): is the key a word? (Q, 1): the query?
ways = [hide_columns, hide_rows, hide_rows & hide_columns]
compare_heatmaps(
    [[plain_softmax_where(scores[2], mask.expand(4, 4)) for mask in ways]],
    ["columns hidden", "rows hidden instead", "both hidden"],
    [tokens[2]] * 3,
    "Hiding rows does not stop the words from reading the padding",
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three heat maps for 'Hello world `<pad> <pad>`'. Left: the two padding columns are 0.
# Middle: the two padding rows are 0, but the rows of Hello and world still have weight in the
# padding columns. Right: weight only in the upper left square.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The columns must be hidden, because a word's own row reads every visible column. The padding's
# rows may stay. The next layer hides the same columns, and the **loss leaves these rows out**, so
# nobody reads their answers.

# %% [markdown] slideshow={"slide_type": "notes"}
# Expect the wish to hide the rows as well, 'to be clean'. It is allowed, and changes nothing for
# the words. Ask who reads the padding's answer: nobody, because its column is hidden in the next
# layer, too. Which mean the loss must take is a section of 'Going further'. Two minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## `True` may mean attend or ignore
#
# Two parts of PyTorch give `True` opposite meanings:
#
# | function and argument | a boolean `True` means |
# |---|---|
# | this course, `mask` | may attend |
# | `F.scaled_dot_product_attention`, `attn_mask` | may attend |
# | `nn.MultiheadAttention`, `key_padding_mask` and `attn_mask` | **ignore** |
#
# ('Going further' runs the last two rows.)
#
# **Predict.** You are used to `nn.MultiheadAttention`, and you give a mask in which `True` means
# ignore to `F.scaled_dot_product_attention`. What is the answer to 'Hello' in 'Hello world
# `<pad> <pad>`'?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let them read the table in silence, then vote: an error, NaN, or a vector, and which.
# Most hope for an error.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The answer to 'Hello'

# %% slideshow={"slide_type": "-"}
ignore = ~is_word.expand(3, 4, 4)  # True at the padding
answers = F.scaled_dot_product_attention(batch, batch, batch, attn_mask=ignore)
print("the answer to 'Hello' is the vector of <pad>:", torch.allclose(answers[2, 0], batch[2, 3]))

# %% [markdown] slideshow={"slide_type": "-"}
# There is no error and no NaN, and the shape is right. 'Hello' attends to the padding and to
# nothing else. The companion code of a good textbook had this bug (rasbt/LLMs-from-scratch #1061).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask how long such a bug would live, and what would show it: the next section has a
# test. 'Going further' has an experiment that finds the convention of any attention function.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two tests for a mask
#
# Two experiments look for leaks, also in a function whose code you cannot read.
#
# ### Test 1: dye in the padding
#
# A plumber who looks for a leak pours dye into one pipe. Our dye is a number in the **keys and
# values** of the padding; the queries stay. No answer may change, not even in its last digit.

# %% [markdown] slideshow={"slide_type": "skip"}
# (If you dye whole tokens in self-attention, the padding's queries change, too: compare the words'
# rows only.)

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the two batches of the test, the second with dye in the padding
figure, axes = plt.subplots(1, 2, figsize=(11, 3.0))
for ax, dye, color in zip(axes, ("0", "dye"), ("white", "#E69F00"), strict=True):
    for row, length in enumerate((5, 3, 1, 0)):
        for column in range(5):
            is_dyed = column >= length
            style = {"facecolor": color if is_dyed else "0.85", "edgecolor": "0.4"}
            ax.add_patch(plt.Rectangle((column, row), 1, 1, **style))
            text = dye if is_dyed else "word"
            ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=14)
    ax.set(xlim=(0, 5), ylim=(4, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_yticks([0.5, 1.5, 2.5, 3.5], [f"length {length}" for length in (5, 3, 1, 0)])
    ax.tick_params(length=0)
axes[0].set_title("run 1: 0 in keys and values")
axes[1].set_title("run 2: dye in keys and values")
figure.suptitle("Are all answers of the two runs equal, bit by bit?", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the same batch twice, as a grid of four sentences with five positions. The sentences
# have the lengths 5, 3, 1 and 0. The words are equal in both runs. The padding's keys and values
# hold 0 on the left, and the dye on the right.*

# %% [markdown] slideshow={"slide_type": "notes"}
# A minute and a half. Ask why one may demand equality to the bit where other tests allow a
# tolerance: both runs do the same sums, because what was in the padding never enters. Ask what the
# sentence of length 0 is for; the answer comes with the suspects. The code is on the page.


# %% slideshow={"slide_type": "skip"}
def padding_leaks(attend, dye, *more):
    """Whether an answer of `attend` changes when padding's keys and values are `dye`, not 0."""
    torch.manual_seed(0)
    lens = torch.tensor([5, 3, 1, 0])  # one of the four sentences is empty
    queries, keys, values = torch.randn(3, 4, 5, 8)  # three times (B, n, D)
    real = plain_length_mask(lens, 5).mT  # (B, K, 1)
    clean, dyed = (
        attend(queries, torch.where(real, keys, x), torch.where(real, values, x), lens, *more)
        for x in (0.0, dye)
    )
    return not torch.equal(clean, dyed)


# %% [markdown] slideshow={"slide_type": "skip"}
# A test that cannot fail shows nothing. So the softmax of the function under test is its last
# argument, `*more` passes it on, and we put wrong ones in.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_attention(queries, keys, values, valid_lens, softmax=plain_masked_softmax):
    scores = queries @ keys.mT / math.sqrt(queries.shape[-1])  # (B, Q, K)
    return softmax(scores, valid_lens) @ values  # (B, Q, V)


# %% slideshow={"slide_type": "skip"}
def no_mask(scores, valid_lens):
    return scores.softmax(dim=-1)


def mask_after_softmax(scores, valid_lens):
    return scores.softmax(dim=-1) * plain_length_mask(valid_lens, scores.shape[-1])


def minus_a_million(scores, valid_lens):
    visible = plain_length_mask(valid_lens, scores.shape[-1])
    return scores.masked_fill(~visible, -1e6).softmax(dim=-1)


def one_key_too_few(scores, valid_lens):
    return plain_masked_softmax(scores, (valid_lens - 1).clamp(min=0))


suspects = [no_mask, mask_after_softmax, minus_a_million, one_key_too_few]


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four suspects
#
# - `no_mask`: the plain softmax
# - `mask_after_softmax`: plain, then times 0 in the padding, not divided again
# - `minus_a_million`: one fill, with $-10^6$, before the softmax
# - `one_key_too_few`: the right one, with the length $\ell - 1$
#
# **Predict.** `no_mask` must leak. Which of the three other wrong ones passes the test?

# %% slideshow={"slide_type": "fragment"}
for softmax in suspects + [plain_masked_softmax]:
    leaks = padding_leaks(plain_attention, 7.0, softmax)
    print(f"{softmax.__name__:20}", "leaks" if leaks else "clean")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The test asks only whether the padding is hidden. So add a check by hand: with length 3 and equal
# scores, each of three keys must get 1/3.

# %% slideshow={"slide_type": "skip"}
print(one_key_too_few(torch.zeros(1, 1, 5), torch.tensor([3])))

# %% [markdown] slideshow={"slide_type": "skip"}
# `minus_a_million` is found only because of the empty sentence: all its scores are $-10^6$, and the
# padding gets equal weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes, the vote in pairs. The second does not divide, as the friend did. Many say that
# nothing wrong can pass. Ask why -1e6 is found:
# only the empty sentence gives equal weights to its padding. A function that always returns zeros
# would pass as well. Exercise 4.7 extends the test to gradients.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Another dye
#
# Now the dye is NaN, which may be in memory that was never filled.
#
# **Question.** Does `plain_attention`, which passed, leak it?

# %% slideshow={"slide_type": "fragment"}
print("plain_attention leaks NaN:", padding_leaks(plain_attention, math.nan))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The weight 0 is not enough, because $0 \cdot \text{NaN} = \text{NaN}$, and every sum with a NaN
# in it is NaN. The remedy is to put zeros into the padding before anything is multiplied:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_safe_attention(queries, keys, values, valid_lens):  # lengths (B,)
    real = plain_length_mask(valid_lens, keys.shape[1]).mT  # (B, K, 1)
    keys, values = keys.masked_fill(~real, 0.0), values.masked_fill(~real, 0.0)
    return plain_attention(queries, keys, values, valid_lens)


# %% slideshow={"slide_type": "skip"}
print("plain_safe_attention leaks NaN:", padding_leaks(plain_safe_attention, math.nan))

# %% [markdown] slideshow={"slide_type": "skip"}
# The package does the same. `F.scaled_dot_product_attention` leaks NaN (pytorch #101967), as the
# next cell prints.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks those remarks, and repeats the test on 100 random batches
def pytorch(q, k, v, lens):
    visible = plain_length_mask(lens, k.shape[1]).expand(-1, q.shape[1], -1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


assert [padding_leaks(pytorch, dye) for dye in (7.0, math.nan)] == [False, True]
whole = (batch, torch.where(is_word.mT, batch, 7.0))  # self-attention: dye in the queries, too
clean, dyed = (plain_attention(x, x, x, valid_lens) for x in whole)
assert torch.equal(clean[is_word[:, 0]], dyed[is_word[:, 0]]) and not torch.equal(clean, dyed)
assert not padding_leaks(dot_product_attention, math.nan)
assert not padding_leaks(lambda q, k, v, lens: torch.zeros(4, 5, 8), math.nan)
generator = torch.Generator().manual_seed(1)
for _ in range(100):
    B, Q, K, D = torch.randint(1, 8, (4,), generator=generator).tolist()
    some_lens = torch.randint(0, K + 1, (B,), generator=generator)
    q, k, v = (torch.randn(B, n, D, generator=generator) for n in (Q, K, K))
    real = plain_length_mask(some_lens, K).mT
    for attend in (plain_safe_attention, dot_product_attention):
        answers = [
            attend(q, torch.where(real, k, dye), torch.where(real, v, dye), some_lens)
            for dye in (0.0, 7.0, -1e4, math.nan)
        ]
        assert all(torch.equal(answers[0], other) for other in answers[1:])
    words = some_lens.clamp(min=1)  # without an empty sentence, -1e6 is not found
    real = plain_length_mask(words, K).mT
    a, b = (
        plain_attention(
            q, torch.where(real, k, dye), torch.where(real, v, dye), words, minus_a_million
        )
        for dye in (0.0, 7.0)
    )
    assert torch.equal(a, b)
print("checked: F.scaled_dot_product_attention leaks NaN, but not 7")
print("checked: with whole tokens dyed, only the answers of the padding change")
print("checked: plain_safe_attention and the package leak in none of 100 random batches")
print("checked: minus_a_million leaks in none of 100 random batches without an empty sentence")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two and a half minutes. The tempting answer is 'clean'. Point at the product:
# weight 0 times NaN is NaN. In real
# life the NaN comes from an uninitialised buffer (torch.empty), a division by a length of 0, or an
# empty row's softmax in the layer before.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Test 2: another future
#
# The second test is for causal masks. It replaces the tokens from position 2 on by others. The
# answers at positions 0 and 1 must not change in a single bit, and the later ones should change.
#
# **Question.** A mask shows each query one position too many. Which answer gives it away?


# %% slideshow={"slide_type": "skip"}
def changed(attend, lens):
    """Which answers of `attend` differ between two futures: a list of 0 and 1."""
    torch.manual_seed(0)
    now = torch.randn(1, 5, 8)  # (B, n, D)
    then = now.clone()
    then[:, 2:] = torch.randn(1, 3, 8)  # other tokens from position 2 on
    before, after = (attend(tokens, tokens, tokens, lens) for tokens in (now, then))
    return (before != after).any(dim=-1)[0].int().tolist()


# %% slideshow={"slide_type": "fragment"}
too_far, exact = torch.tensor([[[2, 3, 4, 5, 5]], [[1, 2, 3, 4, 5]]])  # (1, Q) each
print("no mask             ", changed(plain_attention, None))
print("one position too far", changed(plain_attention, too_far))
print("causal              ", changed(plain_attention, exact))

# %% [markdown] slideshow={"slide_type": "fragment"}
# There is a 1 where an answer has changed. Both tests are experiments and not proofs: they find a
# leak only on the tokens you try.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask first what must stay and what must change. Most forget the second: a function
# that always answers 0 keeps the past, too. Then vote: answer 1, because it sees position 2.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A score of 0 does not hide a key. Without a mask, an answer depends on the other sentences of
#   the batch.
# - The mask acts on the scores, before the softmax, and hides keys, which are columns. The answers
#   of the padding are left out of the loss.
# - A causal mask shows query $i$ the keys $j \le i$. Masks combine by `&`.
# - Where nothing is visible, $-\infty$ gives NaN and $-10^6$ gives equal weights. A second fill,
#   with 0 after the softmax, repairs the row. Before it take the lowest finite number.
# - `True` may mean attend or ignore. The wrong mask raises no error.
# - Dye the padding's keys and values, change the future, compare every bit. Such tests see leaks
#   only on the inputs that they try, and do not see a mask that hides too much.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Homework: exercises 4.1 to 4.4. Exercise 4.7 suits a lab in pairs.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it. `check` says what is right or what went wrong.
# `hint("4.1")` gives one more hint each time, and `solution("4.1")` shows the whole solution.

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.1** Masked weights by hand · *easy, 3 minutes* · by hand
#
# A query has the scores $\ln 3$, $0$ and $5$ for its three keys, and the length is 2. Work out the
# three weights without a computer and give them as a list, such as `[0.2, 0.3, 0.5]`.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("4.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.2** Write the masked softmax · *medium, 10 minutes* · complete a function
#
# Without a look at the cells above, write the masked softmax for any mask. Scores and the boolean
# mask have the shape (\*, Q, K), where \* is any number of axes, also none. Weights over the keys,
# the last axis: exactly 0 where the mask is False, and 0 throughout for a query that may attend to
# nothing. The scores may be float16, float32 or float64, of any size that their type can hold, and
# stay as they were; the weights have the type of the scores. Gradients reach the scores and are
# never NaN, not even for a query that may attend to nothing.


# %% slideshow={"slide_type": "skip"}
def my_masked_softmax(scores, mask):
    """Weights over the keys: scores and a boolean mask (*, Q, K) -> (*, Q, K).

    Scores [[0, 0, 5], [1, 2, 3]] with the mask [[True, True, False], [False, False, False]]
    give [[0.5, 0.5, 0], [0, 0, 0]].
    """
    ...


check("4.2", my_masked_softmax)

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.3** Who gets the attention · *easy, 5 minutes* · predict, then measure
#
# Four tokens, all scores 0, a causal mask. How much of a query's attention goes to the *first*
# token, averaged over the four queries? Predict, measure with the package, and give one number to
# three decimals.

# %% slideshow={"slide_type": "skip"}
answer = None

check("4.3", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.4** Padding and future as lengths · *medium, 8 minutes* · complete a function
#
# From one length a sentence, shape (B,), to one length a query, int64 of shape (B, Q) with Q =
# `num_steps`, so that `length_mask(decoder_lens(valid_lens, num_steps), num_steps)` is causal *and*
# hides the padding. Lengths are int64, from 0 to Q.


# %% slideshow={"slide_type": "skip"}
def decoder_lens(valid_lens, num_steps):
    """One length a sentence, (B,), -> one length a query, integers (B, Q); Q is num_steps.

    One sentence of 2 words in 4 steps: [2] gives [[1, 2, 2, 2]].
    """
    ...


check("4.4", decoder_lens)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order.
#
# ### Which mean?
#
# *2 minutes.* The loss should leave out the answers of the padding. Here every word of our batch
# has the loss 1 and every padding the loss 9. The mean should be 1.

# %% slideshow={"slide_type": "fragment"}
losses = torch.where(is_word[:, 0], 1.0, 9.0)  # (B, n)
print("mean of everything     ", losses.mean().item())
print("padding set to 0, mean ", (losses * is_word[:, 0]).mean().item())
print("mean over the words    ", losses[is_word[:, 0]].mean().item())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only the last is right. The second divides by 12 instead of 9. Like a mask after the softmax, it
# removes the padding but keeps its share.

# %% [markdown] slideshow={"slide_type": "skip"}
# `F.cross_entropy(..., ignore_index=...)` divides by the number of words. Exercise 4.5 below is
# about this mean.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for all three numbers first. For the second many say 1. Ask what it would do to a batch that
# is half padding: the loss halves, and its gradient with it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Watch the masked softmax run
#
# *2 minutes.* Two queries have three keys. Query 0 may see the first two keys, query 1 may see
# none. Step through `plain_softmax_where` with the slider or the arrow keys.
#
# **Question.** After which line is row 0 right? What does row 1 hold after that line, and what
# after the last one?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the run of plain_softmax_where, line by line
from d2l_attention.views import watch

two_queries = torch.tensor([[math.log(2), 0.0, 5.0], [1.0, 2.0, 3.0]])  # (Q, K)
watch(plain_softmax_where, two_queries, torch.tensor([[True, True, False], [False] * 3]))

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of the function's run: the source with the current line marked, and
# all names with their shapes and numbers. The second row of `weights` is 0.33 three times; in what
# the function returns it is 0.*

# %% [markdown] slideshow={"slide_type": "notes"}
# The slider works on the slide. Stop at the line of the softmax: the first row is right, the second
# holds a third each. One step further it is zero.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A NaN that no loss looks at
#
# *5 minutes.* Someone says: 'My loss ignores the empty rows, so they may be NaN.' Row 0 sees two of
# three keys, row 1 sees nothing. All scores are 0, all values are (1, 1). The loss adds up the
# answer of row 0 only.
#
# **Predict.** Is the loss finite? Is the gradient of the values finite?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The loss and its gradient


# %% slideshow={"slide_type": "-"}
def loss_and_gradient(softmax):
    values = torch.ones(3, 2, requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])  # (Q, K)
    loss = (softmax(torch.zeros(2, 3), mask) @ values)[0].sum()  # the answer of row 0 only
    loss.backward()
    return loss.item(), values.grad.tolist()


# %% slideshow={"slide_type": "fragment"}
print(*loss_and_gradient(lambda s, mask: s.masked_fill(~mask, -math.inf).softmax(dim=-1)))
print(*loss_and_gradient(plain_softmax_where))

# %% [markdown] slideshow={"slide_type": "fragment"}
# With $-\infty$ the loss is 2, but the gradient of every value is NaN. Such a gradient is a sum
# over both rows, and row 1 adds $\text{NaN} \cdot 0 = \text{NaN}$ to it.

# %% [markdown] slideshow={"slide_type": "skip"}
# The same happens in the layer that made the values, and one step of the optimizer later its
# parameters are NaN.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two votes. Expect most hands for 'loss finite', rightly, and then 'so the gradient is, too'. Write
# the product on the board: a column of weights 1/2 and NaN times a gradient of 1 and 0.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Half precision
#
# *6 minutes.* Many models compute with 16 bits a number. The largest finite float16 is 65,504. A
# popular choice for hidden scores is $-10^9$; it comes from the *Annotated Transformer*.
#
# **Predict.** What does PyTorch make of $-10^9$ in float16: the nearest number, $-65504$, or
# $-\infty$, or an error?

# %% slideshow={"slide_type": "fragment"}
half = torch.zeros(3, dtype=torch.float16)
try:
    half.masked_fill(torch.tensor([False, False, True]), -1e9)
except RuntimeError as error:
    print("masked_fill:", error)
half[2] = -1e9
print("assignment: ", half)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The lowest number of each type
#
# It depends on how you write it. `masked_fill` refuses, but an assignment silently makes it
# $-\infty$, and then an empty row is NaN again. D2L's $-10^6$ is beyond 65,504 too, and its code
# assigns. This is why `plain_softmax_where` asks `torch.finfo` for the lowest number of the scores'
# own type:

# %% slideshow={"slide_type": "fragment"}
for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
    mask = torch.tensor([[True, True, False], [False, False, False]])
    rows = plain_softmax_where(torch.zeros(2, 3, dtype=dtype), mask).tolist()
    print(f"{str(dtype):15} lowest {torch.finfo(dtype).min:8.1e}   weights {rows}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# bfloat16 has 16 bits as well, but it spends more of them on the exponent and reaches as far as
# float32.

# %% [markdown] slideshow={"slide_type": "notes"}
# Take a vote for each of the three; expect hands for all. Ask those who chose minus infinity what
# follows for an empty row.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### The newest token is not at position 0
#
# *2 minutes.* A model that writes adds one token at a time. Suppose four tokens are there and the
# fifth has just come: one query, five keys. The package's `causal_mask` takes the numbers of
# queries and of keys. Row 0 of a causal mask belongs to position 0, but our query is at position 4.
# The argument `offset` says how many keys come before the first query.

# %% slideshow={"slide_type": "fragment"}
print("without an offset", causal_mask(1, 5).int())
print("with an offset   ", causal_mask(1, 5, offset=4).int())
query, keys_so_far = torch.randn(1, 1, 8), torch.randn(1, 5, 8)
first = F.scaled_dot_product_attention(query, keys_so_far, keys_so_far, is_causal=True)
print("PyTorch's is_causal shows only key 0:", torch.allclose(first[0, 0], keys_so_far[0, 0]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# PyTorch's `is_causal=True` also begins at position 0, whatever the number of keys. A single newest
# token needs no mask at all, because it may see every key. Several new tokens need a mask with an
# offset.

# %% [markdown] slideshow={"slide_type": "notes"}
# Draw the 5 by 5 triangle, and cover all rows but one: which row is our query's? Code that writes
# token by token meets this trap on its first day.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Why the future is not dyed with NaN
#
# *2 minutes.* NaN was the stronger dye for padding. Put it into the last value, under a causal
# mask, and see which of the four answers contain NaN:

# %% slideshow={"slide_type": "fragment"}
dyed = batch.clone()
dyed[:, 3] = math.nan
print(dot_product_attention(batch, batch, dyed, is_causal=True)[0].isnan().any(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# All of them do. Row 0 may not see key 3, but row 3 may, so the package cannot put a zero there,
# and $0 \cdot \text{NaN}$ spoils every row. Padding is hidden from *all* queries, the future only
# from *some*. So dye the future with ordinary numbers, and compare every bit.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Which convention does a library use?
#
# *8 minutes.* The idea of the two tests also finds the convention of a library. Mark only the first
# key with `True`. Then change the first token, and after that all the others, and see which change
# reaches the answers.


# %% slideshow={"slide_type": "-"}
def meaning_of_true(attend):
    """What True means in the masks of `attend(queries, keys_and_values, mask)`."""
    mask = torch.tensor([True, False, False, False]).expand(4, 4)
    other_first, other_rest = batch.clone(), batch.clone()
    other_first[:, 0] += 1
    other_rest[:, 1:] += 1
    answers = attend(batch, batch, mask)
    new = [attend(batch, other, mask) for other in (other_first, other_rest)]
    reached = [not torch.allclose(other, answers, atol=1e-5) for other in new]
    return {(True, False): "attend", (False, True): "ignore"}.get(tuple(reached), "neither")


# %% [markdown] slideshow={"slide_type": "subslide"}
# #### What `True` means in three cases

# %% slideshow={"slide_type": "fragment"}
mha = nn.MultiheadAttention(8, num_heads=1, batch_first=True)  # chapter 6 says what is inside
sdpa = F.scaled_dot_product_attention
for name, attend in {
    "nn.MultiheadAttention": lambda q, x, mask: mha(q, x, x, attn_mask=mask)[0],
    "F.scaled_dot_product_attention": lambda q, x, mask: sdpa(q, x, x, mask),
    "  with a mask of floats": lambda q, x, mask: sdpa(q, x, x, mask.float()),
}.items():
    print(f"{name:32} True = {meaning_of_true(attend)}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A mask of floats has neither meaning. PyTorch *adds* it to the scores, so 1.0 hides nothing. Such
# a mask must hold 0 where a key is visible and $-\infty$ where it is hidden.

# %% [markdown] slideshow={"slide_type": "notes"}
# The function has three answers, not two: ask the room what a third could be before the middle line
# is printed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Where nothing is visible
#
# The functions also differ in what they return for queries that may see nothing:

# %% slideshow={"slide_type": "fragment"}
nothing = torch.zeros(4, 4, dtype=torch.bool)  # nobody may attend to anything
with_weights, _ = mha(batch, batch, batch, attn_mask=~nothing)
without_weights, _ = mha(batch, batch, batch, attn_mask=~nothing, need_weights=False)
for name, answer in {
    "F.scaled_dot_product_attention": sdpa(batch, batch, batch, nothing),
    "nn.MultiheadAttention": with_weights,
    "  with need_weights=False": without_weights,
    "the package": dot_product_attention(batch, batch, batch, mask=nothing),
}.items():
    print(f"{name:32}", "NaN" if answer.isnan().all() else f"at most {answer.abs().max():.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In PyTorch 2.13 on the CPU, `nn.MultiheadAttention` gives NaN where it computes weights, which is
# its default.

# %% [markdown] slideshow={"slide_type": "skip"}
# `F.scaled_dot_product_attention` returned NaN for such rows in older versions (pytorch #103963).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that boolean masks and masks of floats give the same answers in both functions
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
print("checked: True = ignore or -inf added, the same answers")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Three small slips of D2L's code
#
# *2 minutes.* Section 11.3.2.1 says that its code sets attention *weights* to a number such as
# $-10^6$, and *values* to 0. The code sets the *scores*, as it should, and changes no value. The
# third slip costs more: it writes into the scores that you passed, because `reshape` makes no copy
# where it need not.

# %% slideshow={"slide_type": "skip"}
given = torch.zeros(1, 2, 3)
flat = given.reshape(-1, 3)  # another shape, the same memory
flat[:, 2] = -1e6
print("after writing into the reshaped tensor:", given[0, 0])

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.5** The mean over the words · *medium, 8 minutes* · complete a function
#
# From the losses (B, Q) of all positions, padding included, and lengths (B,) to the mean over all
# words of the batch, a tensor of shape () with a gradient for the losses. NaN in the padding
# changes neither the number nor its gradient. NaN at a word is not hidden: the mean is NaN. A batch
# without a word gives 0, with a gradient of 0.


# %% slideshow={"slide_type": "skip"}
def mean_loss(losses, valid_lens):
    """The mean loss of a batch's words: losses (B, Q), lengths (B,) -> a tensor of shape ().

    Losses [[1, 10], [3, 5]] with lengths [1, 2] give 3: the mean of 1, 3 and 5.
    """
    ...


check("4.5", mean_loss)

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.6** Three bugs · *medium, 15 minutes* · find the bug
#
# `attend` has three bugs. Repair them. Queries (B, Q, D), keys (B, K, D), values (B, K, V), integer
# lengths (B,) from 0 to K, output (B, Q, V). A query with nothing to see gets the answer 0. Scores
# may have any size that their type can hold, and the padding is finite. (NaN comes in 4.7.)
# Gradients reach queries, keys and values, and none is NaN.


# %% slideshow={"slide_type": "skip"}
def attend(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    hidden = torch.arange(keys.shape[1]) > valid_lens[:, None, None]
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(dim=1)
    return weights @ values


check("4.6", attend)

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.7** The test that catches a wrong mask · *hard, 25 minutes* · write the test
#
# Your test takes a function `attend(queries, keys, values, valid_lens)` with the shapes of 4.6 and
# scores of any kind. It returns without a word where outputs and gradients are independent of what
# stands in the padding, NaN included, as in `dot_product_attention`. It raises an `AssertionError`
# for each of seven broken ones:
#
# - no mask;
# - a mask after the softmax;
# - rows hidden instead of columns;
# - one key too many;
# - a length of 0 taken for 1;
# - NaN let through to the output;
# - NaN let through to the gradients.


# %% slideshow={"slide_type": "skip"}
def test_hides_padding(attend):
    """Pass where the padding changes nothing, and fail by an `AssertionError` where it does.

    `attend(queries, keys, values, valid_lens)` is called as in 4.6. A test that looks at the shape
    only would be `assert attend(queries, keys, values, valid_lens).shape == (B, Q, V)`.
    """
    ...


check("4.7", test_hides_padding)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.3.2
#   (masked softmax) and 11.7 (lengths for each query in the decoder). [d2l.ai](https://d2l.ai)
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.2.3:
#   illegal connections are set to $-\infty$ before the softmax.
# - A. Rush, *The Annotated Transformer*, NLP-OSS 2018, doi:10.18653/v1/W18-2509. Fills with
#   $-10^9$.
#
# Bugs that others met, on GitHub:
#
# - pytorch/pytorch #103963: NaN from `scaled_dot_product_attention` for rows with nothing to see.
# - pytorch/pytorch #110213: the same kind of rows in a model that writes, padded on the left.
# - pytorch/pytorch #101967: NaN in hidden positions reaches the answer.
# - rasbt/LLMs-from-scratch #1061: an inverted mask for `scaled_dot_product_attention` in the
#   companion code of a textbook.
