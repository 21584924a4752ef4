# %% [markdown] slideshow={"slide_type": "slide"}
# # 4 · Masked softmax
#
# **You will**
# - hide padding and the future from a query, with lengths and with boolean masks;
# - catch a model that sees what it should guess, and stop it;
# - build a masked softmax that is right even where a query may see nothing at all;
# - test an attention function for leaks, and say what such a test cannot catch;
# - take a causal self-attention layer along, in plain PyTorch.
#
# Core path: 60 minutes. Going further: 35. Exercises: 72.
#
# Builds on chapter 3. The book is *Dive into Deep Learning* (D2L), section 11.3.2.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes: 8½ to the end of 'Where the mask acts', 3½ for the late mask and the lengths, 6½ for
# the future, 6½ for the empty row and the build, 2 for `True`, 8½ for the tests and the layer. Two
# slides are not in the plan: 'Columns, not rows' (ask its question, give its answer), and the view
# 'Turn the lengths yourself' of 'Going further', which a quick room deserves. After 18½ minutes you
# should be at 'A query that sees nothing'. Behind? Leave out 'Both tests at once', and show `True`
# without a vote. The slides after the summary are for questions. Homework: exercises 4.1 to 4.4.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import causal_mask, dot_product_attention, masked_softmax
from d2l_attention.views import explore, schematic
from d2l_attention.views.plots import compare_heatmaps, hatch_zeros, heatmap, set_style

torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)
set_style()

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the whole machine, with this chapter's part marked
schematic("whole", here="masked softmax")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the whole machine in two rows. Above, from left to right: a sentence goes in; its words
# become vectors, to which positions are added; the encoder's blocks read them; the decoder asks the
# encoder; the decoder's blocks write; a sentence comes out. Below is the inside of a block, from
# left to right: queries, keys and values; the similarity of queries and keys; scores; mask and
# softmax, which is marked; the weighted sum of the values. These five together are attention, and
# there are several of them side by side, the heads. Then add & norm and a network follow.*

# %% [markdown] slideshow={"slide_type": "-"}
# In the marked box, a mask decides which words a query may see, and scores become weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Point at the box, and at its two neighbours: scores go in, weights come out.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - Chapter 3 gave each pair of a query and a key a **score**, which may be any number. The scores
#   of a batch have the shape (B, Q, K): a row for each query, a column for each key.
# - The softmax takes the exponentials of a row and divides them by their sum. The scores $\ln 2$
#   and $0$ have the exponentials 2 and 1, so the **weights** are $\frac23$ and $\frac13$.
# - The answer to a query, chapter 3's output, is the weighted sum of the values. With the values
#   $(6, 0)$ and $(0, 6)$ it is $\frac23 (6, 0) + \frac13 (0, 6) = (4, 2)$.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Do the two weights on the board and leave them there: the numbers come back
# on the next slides. Say once what is a row and what is a column; students confuse them until the
# end of the hour.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A rectangle of unequal sentences
#
# Three sentences have four, three and two words. A tensor is a rectangle, so the shorter sentences
# are filled up with `<pad>`, a token that means nothing.

# %% slideshow={"slide_type": "-"}
tokens = [
    ["Dive", "into", "Deep", "Learning"],
    ["Learn", "to", "code", "<pad>"],
    ["Hello", "world", "<pad>", "<pad>"],
]
valid_lens = torch.tensor([4, 3, 2])  # (B,)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Draw the rectangle, and shade its three paddings. Ask who fills it up in the
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
# 2½ minutes. Let the room vote by hands. Expect many for 'nothing', because the score
# is 0. Then do it on the board: the exponentials are 2, 1, 1, their sum is 4.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### More and more padding
#
# If another sentence of the batch is long, 'Hello world' gets many paddings. Each has the score 0
# and the value $(-6, 0)$. Without padding the answer to 'Hello' is $(4, 2)$.

# %% slideshow={"slide_type": "fragment"}
hello_scores = torch.tensor([math.log(2)] + [0.0] * 99)
hello_values = torch.tensor([[6.0, 0.0], [0.0, 6.0]] + [[-6.0, 0.0]] * 98)
for n in (2, 3, 10, 100):
    print(f"{n:3d} tokens: answer", hello_scores[:n].softmax(dim=-1) @ hello_values[:n])

# %% [markdown] slideshow={"slide_type": "fragment"}
# There are four answers to one question, and the last is close to the padding's own value. PyTorch
# gave no warning.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Before the numbers ask what the answer comes close to with 100 tokens. After them ask
# who would notice it in training: there is no error to notice.

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
# The answer is $(4, 2)$ each time: mask, fill, softmax. Here are the first five of the filled
# scores:

# %% slideshow={"slide_type": "skip"}
print(filled[:5])

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Write the sum for 'Hello' on the board and strike the padding's 1 out of it: 2 + 1. A
# stumble: `~mask` exchanges True and False, because `masked_fill` wants to know where to fill. Say
# 'True is visible' aloud, and keep to it. Someone asks whether a mask saves work. Here it saves
# none: the hidden scores are computed and thrown away. Fused kernels skip hidden blocks that they
# are told of, as by `is_causal`, but not under a mask tensor (chapters 9 and 10).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A mask that acts later
#
# A friend takes the plain softmax, multiplies the padding's weight by 0, and divides the weights by
# their sum. On paper this gives the same $\frac23, \frac13, 0$, whatever the padding's score is.
# Does it in float32?

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
# Two minutes. Most say 'the same, since the padding is multiplied by 0'. If someone asks where a
# score of 105 should come from: an unscaled dot product of two vectors of 4,096 independent entries
# of mean 0 and variance 1 has a standard deviation of 64 (chapter 3). The safe order costs nothing.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One length for a sentence, or one for each query
#
# Positions are counted from 0, so a length $\ell$ lets through the positions below $\ell$.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_length_mask(valid_lens, num_keys):  # (B,) -> (B, 1, K), or (B, Q) -> (B, Q, K)
    lens = valid_lens.reshape(len(valid_lens), -1, 1)  # (B, 1, 1), or (B, Q, 1)
    return torch.arange(num_keys) < lens


# %% slideshow={"slide_type": "fragment"}
is_word = plain_length_mask(valid_lens, 4)  # (B, 1, K)
one_more_each = plain_length_mask(torch.tensor([[1, 2, 3, 4]]), 4)  # (1, Q, K)
print(is_word[:, 0].int())  # a row for each sentence
print(one_more_each[0].int())  # a row for each query

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room say the row of 'Learn to code' before the output. Ask why the 1 in the
# middle of (3, 1, 4) is needed: broadcasting repeats the row for every query. Which model could
# want the triangle? Leave it open; 'A causal mask' answers it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Not seeing the future
#
# A model that writes learns to guess the next word. In training all positions of a sentence are
# computed at once. Position 1 has to guess the word at position 2. But that word is in the same
# tensor, and attention could simply copy it. Will it?
#
# Take words that nobody can guess: each is one of four, drawn at random. A model learns a score for
# each pair of positions. A word's value is its one-hot vector, so that an answer gives each of the
# four words a share. The largest share is the guess.


# %% slideshow={"slide_type": "skip"}
def learn_to_guess(mask):  # (5, 6): five positions guess their next words, which are keys as well
    scores = torch.zeros(5, 6, requires_grad=True)  # learned
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(100):
        words = torch.randint(4, (200, 6))  # 200 new sentences
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        shares = weights @ F.one_hot(words, 4).float()  # (200, 5, 4)
        loss = F.cross_entropy(shares.mT, words[:, 1:])  # shares as scores, classes on axis 1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (shares.argmax(dim=-1) == words[:, 1:]).float().mean(), weights.detach()


# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Without a mask, how many of the random words does the model guess right: 25%, 50%
# or 100%?

# %% slideshow={"slide_type": "fragment"}
share_right, open_weights = learn_to_guess(torch.ones(5, 6, dtype=torch.bool))
print(f"without a mask {share_right:.0%} right; weights of query 1:", open_weights[1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Query 1 has put nearly all of its weight on word 2, the word that it should guess. It has learned
# to copy. When the model writes, the next word is not there yet.

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
causal = plain_causal_mask(4)
print("the same as the lengths 1, 2, 3, 4:", torch.equal(causal, one_more_each[0]))

# %% slideshow={"slide_type": "fragment"}
share_right, causal_weights = learn_to_guess(plain_causal_mask(6)[:5])
print(f"with the mask {share_right:.0%} right")

# %% [markdown] slideshow={"slide_type": "skip"}
# Now the model guesses as badly as it should. A query may see its own position: the word there has
# been read, and the word to guess is the next one.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the two shares in twenty runs each
for _ in range(20):
    assert learn_to_guess(torch.ones(5, 6, dtype=torch.bool))[0] == 1.0
    assert 0.2 < learn_to_guess(plain_causal_mask(6)[:5])[0] < 0.3
print("checked: 20 more runs of each, 100% without the mask, 20% to 30% with it")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for row 0 before you show it. Then ask why the diagonal is open. Expect 'so it
# sees the answer'. No: at position 1 is the word just read, and the answer is at position 2. D2L's
# decoder builds these lengths only in training mode, so its validation loss is computed with the
# future in sight. Chapter 8 measures it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the queries have learned to look at

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the learned weights without the mask and with it
figure, axes = plt.subplots(1, 2, figsize=(11, 3.9))
titles = ("without a mask", "with the causal mask")
for ax, weights, title in zip(axes, (open_weights, causal_weights), titles, strict=True):
    rows, columns = [f"query {i}" for i in range(5)], [f"word {j}" for j in range(6)]
    heatmap(ax, weights, rows, columns, vmax=1.0, numbers=True)
    hatch_zeros(ax, weights)
    ax.set_title(title)
figure.suptitle("Without a mask each query looks at the word that it should guess", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps with five queries and six words. Left, without a mask: each query has
# nearly all of its weight on the next word, one cell to the right of the diagonal. Right, with the
# causal mask: these cells and all beyond are hatched, exactly 0, and the weight is spread over the
# words up to the query's own.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask where the answers are in the left map, and where the mask puts zeros in the right
# one. The right weights mean nothing: no past word helps to guess a random one.

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
# One minute. Before the figure ask for the four weights of the last row under both masks. Some
# write a quarter four times: they forget the padding. On the figure ask why the last two rows of
# the third map are equal: 'code' and the padding see the same three words.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A query that sees nothing
#
# We hid scores with $-\infty$, as *Attention Is All You Need* does. D2L's code uses $-10^6$. Is one
# right for a query that may see *nothing*? Such queries occur where a model writes several texts at
# once. They are padded on the *left*, so that all go on at the right end (pytorch #110213). Lengths
# count from the left, so they cannot describe such padding. A boolean mask can. With both masks,
# the first two rows of '`<pad> <pad>` Hello world' see no key:

# %% slideshow={"slide_type": "-"}
left_padded = plain_causal_mask(4) & torch.tensor([False, False, True, True])
print(left_padded.int())

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Why pad on the left? The next word of every text is appended at the right, so
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
# - With $-\infty$ all its exponentials are 0, and the formula divides 0 by 0: NaN.
# - With $-10^6$ its scores are low, but *equal*, and a softmax sees only differences. The query
#   that may see nothing attends to everything, even to the future.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Take two votes, one for each number, before you show a row: does row 0 get
# zeros, equal weights, or something else? The tempting answer is 'zeros' for both. After the run
# ask what such a row should answer: zeros, the mean, an error? PyTorch subtracts the row's largest
# score first. Its NaN is minus infinity minus minus infinity, before any division.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Build the masked softmax
#
# A query that may see nothing should get zeros as weights. Then its answer is the zero vector, and
# nothing that was hidden enters it. A softmax never returns a row of zeros, so there is a second
# step after it:

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
# 1½ minutes. Follow the row of the empty query through the boxes: four equal numbers, 0.25 each,
# zeros. Ask which of the two fills can go if no row is ever empty: the second.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fill twice


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_softmax_where(scores, mask):  # (*, Q, K), and a mask that broadcasts to it
    lowest = torch.finfo(scores.dtype).min  # of the scores' type, about -3e38 in float32
    filled = scores.masked_fill(~mask, lowest)
    weights = filled.softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


# %% [markdown] slideshow={"slide_type": "-"}
# - The first fill takes the hidden keys out of the sum.
# - The **second fill repairs the row** that sees nothing, whatever number the first one takes.

# %% slideshow={"slide_type": "fragment"}
print(plain_softmax_where(torch.zeros(4, 4), left_padded))

# %% [markdown] slideshow={"slide_type": "skip"}
# Chapter 3 used this function with lengths, under the name `plain_masked_softmax`:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_masked_softmax(scores, valid_lens):  # (B, Q, K); lengths (B,), (B, Q), or None
    if valid_lens is None:
        return scores.softmax(dim=-1)  # (B, Q, K)
    return plain_softmax_where(scores, plain_length_mask(valid_lens, scores.shape[-1]))


# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Read the function line by line beside the boxes. Ask what row 0 holds after
# the softmax (a quarter four times) and after the last line (zeros).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Columns, not rows
#
# Lengths hide *keys*, the columns of the weights. But paddings also ask. Should their rows be
# hidden instead, or as well?

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
# The columns must be hidden, because a word's own row reads every visible column. The padding's
# rows may stay. The next layer hides the same columns, and the **loss leaves these rows out**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; two minutes. Expect the wish to hide the rows as well, 'to be clean'. It is
# allowed, and changes nothing for the words. Ask who reads the padding's answer: nobody, because
# its column is hidden in the next layer, too. Which mean the loss must take is a section of 'Going
# further'.

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
# **Question.** You are used to `nn.MultiheadAttention`, and you give a mask in which `True` means
# ignore to `F.scaled_dot_product_attention`. What is the answer to 'Hello' in 'Hello world
# `<pad> <pad>`'?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let them read the table in silence, then vote: an error, NaN, or a vector, and which.
# Most hope for an error.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The answer to 'Hello'

# %% slideshow={"slide_type": "-"}
one_pad = torch.randn(8)  # the vector of every <pad>
batch = torch.where(is_word.mT, torch.randn(3, 4, 8), one_pad)  # (B, n, D)
ignore = ~is_word.expand(3, 4, 4)  # True at the padding
answers = F.scaled_dot_product_attention(batch, batch, batch, attn_mask=ignore)
print("the answer to 'Hello' is the vector of <pad>:", torch.allclose(answers[2, 0], one_pad))

# %% [markdown] slideshow={"slide_type": "-"}
# There is no error and no NaN, and the shape is right. 'Hello' attends to the padding and to
# nothing else. The companion code of a good textbook had this bug (rasbt/LLMs-from-scratch #1061).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask how long such a bug would live, and what would show it: the next section has a
# test. 'Going further' has an experiment that finds the convention of any attention function.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two tests for a mask
#
# Two experiments look for leaks. They only run a function, so they need not see its code. We test
# this one:


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
# values** of the padding. No answer may change in a single bit. Run, dye, run, compare:

# %% slideshow={"slide_type": "-"}
queries, keys, values = torch.randn(3, 4, 5, 8)  # three times (B, n, D)
mask = plain_length_mask(torch.tensor([5, 3, 1, 0]), 5)  # the last of the sentences is empty
before = plain_attention(queries, keys, values, mask)
dyed = [x.masked_fill(~mask.mT, 7.0) for x in (keys, values)]
after = plain_attention(queries, *dyed, mask)
print("equal in every bit:", torch.equal(before, after))

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Read the six lines aloud. Ask why one may demand equality to the bit where other tests
# allow a tolerance: the padding enters both sums with the weight 0, and 0 times a finite number is
# 0. Ask what the sentence of length 0 is for; the answer comes with the suspects.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four suspects
#
# A test that cannot fail shows nothing. So we put four wrong functions in the softmax's place:


# %% slideshow={"slide_type": "-"}
suspects = {
    "no_mask": lambda scores, mask: scores.softmax(dim=-1),
    "mask_after_softmax": lambda scores, mask: scores.softmax(dim=-1) * mask,
    "minus_a_million": lambda scores, mask: scores.masked_fill(~mask, -1e6).softmax(dim=-1),
    "one_key_too_few": lambda scores, mask: plain_softmax_where(scores, mask & mask.roll(-1, -1)),
}

# %% [markdown] slideshow={"slide_type": "-"}
# (`roll` moves each row of the mask one key to the left. A row with padding loses its last visible
# key.)
#
# **Predict.** `no_mask` must leak. Which of the three other wrong ones passes the test?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes, the vote in pairs. The second does not divide; the friend did. Many say that
# nothing wrong can pass.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which one passes?

# %% slideshow={"slide_type": "-"}
for name, softmax in suspects.items():
    before = plain_attention(queries, keys, values, mask, softmax)
    after = plain_attention(queries, *dyed, mask, softmax)
    print(f"{name:20}", "clean" if torch.equal(before, after) else "leaks")

# %% [markdown] slideshow={"slide_type": "fragment"}
# `one_key_too_few` hides the padding and, where there is some, the last word, too. The test asks
# only whether the padding is hidden. So add a check by hand: with length 3 and equal scores, each
# of three keys must get 1/3.

# %% [markdown] slideshow={"slide_type": "skip"}
# `minus_a_million` is found only because of the empty sentence: all its scores are $-10^6$, and the
# padding gets equal weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask why -1e6 is found: only the empty sentence gives equal weights to its padding. A
# function that always returns zeros would pass as well.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Test 2: another future
#
# For causal masks, replace the tokens from position 2 on. The answers at positions 0 and 1 must not
# change in a single bit, and the later ones should change.
#
# **Question.** A mask shows each query one position too many. Which answer gives it away?

# %% slideshow={"slide_type": "fragment"}
now, then = torch.randn(2, 5, 8)  # (n, D) twice
then[:2] = now[:2]  # the same two tokens, and another future
for too_far in (4, 1, 0):
    mask = torch.ones(5, 5).tril(too_far).bool()  # query i sees the keys up to i + too_far
    before, after = (plain_attention(x, x, x, mask) for x in (now, then))
    print(f"{too_far} too far, changed:", (before != after).any(dim=-1).int().tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# There is a 1 where an answer has changed. Both tests are experiments and not proofs: they find a
# leak only on the tokens you try.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask first what must stay and what must change. Most forget the second: a function
# that always answers 0 keeps the past, too. Then vote: answer 1, because it sees position 2.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A layer to take along
#
# This cell holds the chapter once more and needs nothing but PyTorch: copy it into a file of your
# own. The tokens of a sentence ask each other, which is **self-attention**. Three learned matrices,
# as in chapter 1, make queries, keys and values of the tokens.

# %% slideshow={"slide_type": "-"} tags=["build"]
import torch


class PlainCausalSelfAttention(torch.nn.Module):
    def __init__(self, D):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (torch.nn.Linear(D, D, bias=False) for _ in range(3))

    def forward(self, X, valid_lens):  # (B, n, D), integers (B,) -> (B, n, D)
        scores = self.W_q(X) @ self.W_k(X).mT / X.shape[-1] ** 0.5  # (B, n, n)
        positions = torch.arange(X.shape[1], device=X.device)
        is_word = positions < valid_lens[:, None, None]  # (B, 1, n)
        mask = is_word & (positions <= positions[:, None])  # (B, n, n)
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        return weights.masked_fill(~mask, 0.0) @ self.W_v(X)


# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Do not read the cell: let the room find in it the two masks and the two fills. What a
# real model adds: several heads (chapter 6) and positions (chapter 7).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Both tests at once
#
# Everything from position 3 on becomes other tokens. That is the future of the positions 0 to 2,
# and the padding of the second sentence, which has the length 3. The third sentence is empty.

# %% slideshow={"slide_type": "fragment"}
layer, X = PlainCausalSelfAttention(8), torch.randn(3, 5, 8)
other = X.clone()
other[:, 3:] = 7.0
before, after = (layer(tokens, torch.tensor([5, 3, 0])) for tokens in (X, other))
print((before != after).any(dim=-1).int())  # a row for each sentence, a column for each answer

# %% [markdown] slideshow={"slide_type": "fragment"}
# No answer at the positions 0 to 2 has changed. In the second sentence the padding's own answers
# have changed, because other queries ask there. The loss leaves these answers out.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room predict the three rows. Why are there ones in the second, and none in the
# third?

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the page's functions and its layer against the package's
some_scores = torch.randn(3, 2, 5)
for lens in (torch.tensor([5, 2, 0]), torch.tensor([[1, 4], [0, 5], [3, 3]]), None):
    expected = masked_softmax(some_scores, lens)
    torch.testing.assert_close(plain_masked_softmax(some_scores, lens), expected)
lens = torch.tensor([5, 3, 0])
projected = [W(X) for W in (layer.W_q, layer.W_k, layer.W_v)]
expected = dot_product_attention(*projected, lens, is_causal=True)
torch.testing.assert_close(layer(X, lens), expected)
assert (layer(X, lens)[2] == 0).all()
print("checked: masked softmax and layer equal the package's masked_softmax, dot_product_attention")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A score of 0 does not hide a key. The mask acts on the scores, before the softmax, and hides
#   keys, which are columns. The loss leaves out the answers of the padding.
# - Without a causal mask, our model copied the word that it should guess. The mask shows query $i$
#   the keys $j \le i$. Masks combine by `&`.
# - Where nothing is visible, $-\infty$ gives NaN and $-10^6$ gives equal weights. A second fill,
#   with 0 after the softmax, repairs the row.
# - `True` may mean attend or ignore. The wrong mask raises no error.
# - Dye the padding's keys and values, change the future, compare every bit. Such tests see leaks
#   only on the inputs that they try, and may miss a mask that hides too much.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Homework: exercises 4.1 to 4.4. Exercise 4.7 suits a lab in pairs.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# `check` says what is right or what went wrong, `hint("4.1")` gives one more hint each time, and
# `solution("4.1")` shows the whole solution.

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.1** · by hand
#
# A query has the scores $\ln 3$, $0$ and $5$ for its three keys, and the length is 2. Work out the
# three weights without a computer and give them as a list, such as `[0.2, 0.3, 0.5]`.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.2** · complete a function
#
# Write the masked softmax without a look at the cells above. The scores and the boolean mask have
# the shape (\*, Q, K), where \* is any number of axes, also none. The weights are 0 where the mask
# is False, also for a query that may attend to nothing. They have the type of the scores: float16,
# float32 or float64. Visible scores are larger than the lowest number of that type. The inputs stay
# as they were. Gradients reach the scores and are never NaN.

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.3** · predict, then measure
#
# A causal mask is wrong by one: query $i$ sees the keys up to $i + 1$. Ten tokens go through three
# layers of self-attention with this mask. The answers of a layer are the tokens of the next. Which
# is the last of the ten tokens that can change the answer at position 2 of layer 1, of layer 2, of
# layer 3? Give three positions, such as `[2, 2, 2]`. Predict them first, then measure.

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.4** · complete a function
#
# The function gets one length a sentence, shape (B,), and returns one length a query, shape (B, Q)
# with Q = `num_steps`. The mask `length_mask(decoder_lens(valid_lens, num_steps), num_steps)` is
# causal *and* hides the padding. All lengths are int64, from 0 to Q.

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
# ### Turn the lengths yourself
#
# *2 minutes.* A **dot** is the result of an experiment: the answer of that row changes if that key
# and its value change.
#
# **Question.** Tick *causal*. Which steps of the sliders remove exactly one dot, and why only one?


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows which keys reach which answers in two sentences, under sliders for their lengths
def answers_under(sentence, mask, keys):
    weights = plain_softmax_where(batch[sentence] @ keys.mT / math.sqrt(8), mask)
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
# The steps from 4 to 3 do, because under the causal mask only the last row sees the last column.

# %% [markdown] slideshow={"slide_type": "notes"}
# The sliders work on the slide. Tick *causal*, and let the room vote
# before you move: 'dive' from 4 to 3 removes one dot, and so does 'hello' from 4 to 3. Then 'hello'
# from 2 to 1 removes three: why? Last, set 'hello' to 0: everything is hatched.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Another dye
#
# *5 minutes.* In Test 1 the dye was 7. Now it is NaN, which may be in memory that was never filled.
#
# **Question.** Does `plain_attention`, which passed, leak it?

# %% slideshow={"slide_type": "fragment"}
mask = plain_length_mask(torch.tensor([5, 3, 1, 0]), 5)
dyed = [x.masked_fill(~mask.mT, math.nan) for x in (keys, values)]
print("answers with NaN:", plain_attention(queries, *dyed, mask).isnan().any(dim=(1, 2)).tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# It does in every sentence that has padding. The weight 0 is not enough, because 0 times NaN is
# NaN, and every sum with a NaN in it is NaN.

# %% [markdown] slideshow={"slide_type": "notes"}
# The tempting answer is 'clean'. Point at the product: weight 0 times NaN is NaN. In real life the
# NaN comes from an uninitialised buffer (torch.empty), a division by a length of 0, or an empty
# row's softmax in the layer before.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The remedy
#
# Put zeros into the padding before anything is multiplied:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_safe_attention(queries, keys, values, valid_lens):  # lengths (B,)
    mask = plain_length_mask(valid_lens, keys.shape[1])  # (B, 1, K)
    keys, values = (x.masked_fill(~mask.mT, 0.0) for x in (keys, values))
    return plain_attention(queries, keys, values, mask)


# %% slideshow={"slide_type": "fragment"}
lens = torch.tensor([5, 3, 1, 0])
before = plain_safe_attention(queries, keys, values, lens)
after = plain_safe_attention(queries, *dyed, lens)
print("equal in every bit:", torch.equal(before, after))

# %% [markdown] slideshow={"slide_type": "skip"}
# The package does the same. `F.scaled_dot_product_attention` leaks NaN (pytorch #101967).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks both remarks
torch.testing.assert_close(dot_product_attention(queries, *dyed, lens), before)
everyones = mask.expand(-1, 5, -1)
assert F.scaled_dot_product_attention(queries, *dyed, attn_mask=everyones).isnan().any()
print("checked: NaN does not come through the package, and comes through PyTorch's function")

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Why the future is not dyed with NaN
#
# Put NaN into the last value under a causal mask, and see which of the five answers contain it:

# %% slideshow={"slide_type": "fragment"}
dyed = values.clone()
dyed[:, 4] = math.nan
print(dot_product_attention(queries, keys, dyed, is_causal=True)[0].isnan().any(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# All of them do. Row 0 may not see key 4, but row 4 may, so the package cannot put a zero there.
# Padding is hidden from *all* queries, the future only from *some*. So dye the future with ordinary
# numbers, and compare every bit.

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
# *8 minutes.* Many models compute with 16 bits a number. The largest finite float16 is 65,504. A
# popular choice for hidden scores is $-10^9$. Tensor2Tensor, the code of the Transformer's authors,
# had it in 2017.
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
# $-\infty$. D2L's $-10^6$ is beyond 65,504 too, and its code assigns. This is why
# `plain_softmax_where` asks `torch.finfo` for the lowest number of the scores' own type:

# %% slideshow={"slide_type": "fragment"}
for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
    mask = torch.tensor([[True, True, False], [False, False, False]])
    rows = plain_softmax_where(torch.zeros(2, 3, dtype=dtype), mask).tolist()
    print(f"{str(dtype):15} lowest {torch.finfo(dtype).min:8.1e}   weights {rows}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# bfloat16 has 16 bits as well, but it spends more of them on the exponent and reaches as far as
# float32.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Which number for the first fill?
#
# With the second fill, $-\infty$, $-10^6$ and `lowest` give equal weights and gradients for common
# scores in float32. Here a word has a very low score, and a padding is hidden:

# %% slideshow={"slide_type": "fragment"}
hidden, lowest = torch.tensor([False, True]), torch.finfo(torch.float32).min
for low in (-2e6, lowest):
    for number in (-1e6, lowest, -math.inf):
        filled = torch.tensor([low, 0.0]).masked_fill(hidden, number)
        weights = filled.softmax(dim=-1).masked_fill(hidden, 0.0)
        print(f"score {low:8.1e}, filled with {number:8.1e}: weights {weights.tolist()}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Of these rows, `lowest` fails only where a word's score is the lowest number itself. $-\infty$ is
# right in all of them, but an empty row would be NaN until the second fill.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the three numbers agree on common scores, empty row included
def filled_twice(first, scores):
    """Weights, and the gradient of a loss for the scores, where the first fill takes `first`."""
    scores = scores.clone().requires_grad_()
    hidden = ~plain_length_mask(torch.tensor([5, 2, 0]), 5)
    weights = scores.masked_fill(hidden, first).softmax(dim=-1).masked_fill(hidden, 0.0)
    (weights * torch.arange(5)).square().sum().backward()
    return weights.detach(), scores.grad


for number in (-math.inf, -1e6):
    torch.testing.assert_close(filled_twice(number, some_scores), filled_twice(lowest, some_scores))
print("checked: the three numbers give equal weights and gradients for common scores in float32")

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
# token needs no causal mask, because all words are before it. Several new tokens need a mask with
# an offset.

# %% [markdown] slideshow={"slide_type": "notes"}
# Draw the 5 by 5 triangle, and cover all rows but one: which row is our query's? Code that writes
# token by token meets this trap on its first day.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Which convention does a library use?
#
# *9 minutes.* The idea of the two tests also finds the convention of a library. Mark only the first
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
# a mask holds 0 where a key is visible and $-\infty$ where it is hidden.

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
# In PyTorch 2.13 on the CPU, `nn.MultiheadAttention` gives NaN by default.

# %% [markdown] slideshow={"slide_type": "skip"}
# Called like this, but with an even number of heads, it does so in `eval()` without gradients also
# without weights (pytorch #190486).

# %% [markdown] slideshow={"slide_type": "skip"}
# `F.scaled_dot_product_attention` returned NaN for such rows in older versions (pytorch #103963). A
# user of version 2.8 on a Mac reports it again (pytorch #163997).

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
# numbers are finite, and a score of a word is larger than the lowest number of its type. Gradients
# reach queries, keys and values, and none is NaN.

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.7** · write the test
#
# Your test takes a function `attend(queries, keys, values, valid_lens)` with the shapes of 4.6. It
# returns without a word where the outputs do not depend on what is in the padding, NaN included, as
# in `plain_safe_attention`. It raises an `AssertionError` for each of six broken ones:
#
# - no mask;
# - a mask after the softmax;
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
# - pytorch/pytorch #163997: such rows again, in version 2.8 on a Mac.
# - pytorch/pytorch #101967: NaN in hidden positions reaches the answer.
# - rasbt/LLMs-from-scratch #1061: an inverted mask for `scaled_dot_product_attention` in the
#   companion code of a textbook.
