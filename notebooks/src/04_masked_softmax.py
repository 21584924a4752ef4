# %% [markdown] slideshow={"slide_type": "slide"}
# # 4 · Masked softmax
#
# **You will**
# - hide padding and the future from a query, with lengths and with boolean masks;
# - choose the number that hides a score, and see three popular choices fail;
# - prove by experiment that nothing leaks, in your own code or in anybody's.
#
# About 70 minutes, and 74 for the exercises. Builds on chapter 3. The book (D2L): section 11.3.2.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two lectures, if a large room votes on everything: cut after slide 19, before 'Not seeing the
# future'. Only 45 minutes? Slides 2-8, 13-15, 17, 20-22 and 28-30.

# %% slideshow={"slide_type": "skip"}
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import (
    AdditiveAttention,
    attention_pooling,
    causal_mask,
    check_shape,
    combine_masks,
    dot_product_attention,
    length_mask,
    masked_softmax,
    scaled_dot_score,
    show_source,
)
from d2l_attention.views.plots import compare_heatmaps, hatch_zeros, heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A rectangle of unequal sentences
#
# Three sentences: four words, three words, two words. A tensor is a rectangle. So the short
# sentences are filled up with a token that means nothing.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
sentences = ["Dive into Deep Learning", "Learn to code", "Hello world"]
tokens = [sentence.split() for sentence in sentences]
valid_lens = torch.tensor([len(words) for words in tokens])
tokens = [words + ["<pad>"] * (4 - len(words)) for words in tokens]

for length, words in zip(valid_lens.tolist(), tokens, strict=True):
    print(length, *words)

# %% [markdown] slideshow={"slide_type": "subslide"}
# `<pad>` means nothing, but nobody has told the softmax. It is a token like the others: it has
# a vector, hence a key and a value, and every query scores it.
#
# **Predict.** 'Hello' asks. Its scores for the keys 'Hello', 'world' and `<pad>` are
# $\ln 2$, $0$ and $0$. How much attention does the padding get: nothing, one quarter or one
# third?

# %% slideshow={"slide_type": "fragment"}
scores = torch.tensor([math.log(2), 0.0, 0.0])
print("exponentials", scores.exp().round())
print("weights     ", scores.softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# A quarter. A score of 0 does not say 'no': $e^0 = 1$. It says 'half as much as $\ln 2$'.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let the room vote by hands. Expect many for 'nothing', because the score is 0. Then do it on
# the board: the exponentials are 2, 1, 1, their sum is 4. Three minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** 'Hello world' travels in a batch with longer sentences, so it is padded: to 3
# tokens, to 10, to 100. Every `<pad>` has score 0. The values: 'Hello' (6, 0), 'world' (0, 6),
# `<pad>` (−6, 0). Does the answer that 'Hello' gets change?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
word_values = torch.tensor([[6.0, 0.0], [0.0, 6.0]])  # Hello, world
pad_value = torch.tensor([-6.0, 0.0])


def padded_to(n):
    """Scores (n,) and values (n, 2) of 'Hello world' with n - 2 paddings behind it."""
    scores = torch.cat([torch.tensor([math.log(2), 0.0]), torch.zeros(n - 2)])
    return scores, torch.cat([word_values, pad_value.expand(n - 2, 2)])


for n in (2, 3, 10, 100):
    scores, values = padded_to(n)
    x, y = (scores.softmax(dim=-1) @ values).tolist()
    print(f"{n:3d} tokens: answer ({x:.2f}, {y:.2f})")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same question, the same two words, four answers. What 'Hello' gets depends on who else is
# in the batch, and at 100 tokens it is almost the padding's own value, $(-6, 0)$. No error,
# no warning.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The usual vote is 'a little'. Ask for the limit: with ever more padding the answer is the
# padding. Then ask who would notice it in training. There is no error to notice.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where the mask acts
#
# Of $n$ keys only the first $\ell$ are words. So let the sum run over those:
#
# $$\alpha_i = \frac{e^{a_i}}{\sum_{j \le \ell} e^{a_j}} \quad (i \le \ell),
# \qquad \alpha_i = 0 \quad (i > \ell).$$
#
# By hand for 'Hello world `<pad>`': the exponentials are 2 and 1, their sum is 3. Weights
# $\tfrac23, \tfrac13, 0$. That is a **masked softmax**.

# %% slideshow={"slide_type": "fragment"}
scores, values = padded_to(3)  # of 'Hello world <pad>'
weights = masked_softmax(scores[None, None], torch.tensor([2]))  # one sentence, one query
check_shape(weights, (1, 1, 3))
print(weights)
torch.testing.assert_close(weights[0, 0], torch.tensor([2 / 3, 1 / 3, 0.0]))

# %% [markdown] slideshow={"slide_type": "subslide"}
# Does the answer still depend on the batch? The same four paddings again.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
for n in (2, 3, 10, 100):
    scores, values = padded_to(n)
    weights = masked_softmax(scores[None], mask=torch.arange(n) < 2)
    answer = weights[0] @ values
    print(f"{n:3d} tokens: answer ({answer[0]:.2f}, {answer[1]:.2f})")
    torch.testing.assert_close(answer, torch.tensor([4.0, 2.0]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# $\tfrac23 (6, 0) + \tfrac13 (0, 6) = (4, 2)$, four times. The first call gave a length, this one
# a boolean mask, `True` where the query may look: `torch.arange(n) < 2`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** A shorter way, it seems: take the plain softmax, then multiply the padding's
# weight by 0. What do the weights sum to, and what happens to the answer?

# %% slideshow={"slide_type": "fragment"}
scores, values = padded_to(3)  # of 'Hello world <pad>'
too_late = scores.softmax(dim=-1) * torch.tensor([1.0, 1.0, 0.0])
print("weights", too_late, "sum", too_late.sum())
print("answer ", too_late @ values)
torch.testing.assert_close(too_late @ values, 0.75 * torch.tensor([4.0, 2.0]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Three quarters, and the answer is three quarters as long as it should be. The padding is gone,
# but what it has eaten stays eaten. More padding, a shorter answer.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Most find the three quarters at once. Wait for 'then divide by the sum': the next slide begins
# with that sentence.

# %% [markdown] slideshow={"slide_type": "subslide"}
# 'Then I divide by the sum.' In exact arithmetic that is right. In a computer it holds until a
# padding happens to score high.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
visible = torch.tensor([True, True, False])
for pad_score in (0.0, 200.0):
    scores = torch.tensor([[math.log(2), 0.0, pad_score]])
    late = scores.softmax(dim=-1) * visible
    print(f"padding scores {pad_score:3.0f}")
    print("  after the softmax, divided:", late / late.sum())
    print("  before the softmax:        ", masked_softmax(scores, mask=visible))

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 200 the padding takes everything: the words' weights round to 0, and 0 divided by 0 is
# NaN, 'not a number'. So the mask acts **on the scores, before the softmax**.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# If someone asks where a score of 200 should come from: an unscaled dot product of two vectors of
# 4,096 unit-variance entries has a standard deviation of 64 (chapter 3): among a thousand keys a
# 200 is no surprise. The safe order costs nothing.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The whole batch
#
# Now all three sentences. Each token is a random vector, `<pad>` is the same vector everywhere,
# and every token of a sentence asks every token of its sentence: queries, keys and values are
# the same `X`.
#
# **Predict.** Which weights does a mask change: the padding's alone, or the words' as well?

# %% slideshow={"slide_type": "skip"}
generator = torch.Generator().manual_seed(3)
words = sorted({word for sentence in tokens for word in sentence})
vectors = {word: torch.randn(8, generator=generator) for word in words}
X = torch.stack([torch.stack([vectors[word] for word in sentence]) for sentence in tokens])
check_shape(X, (3, 4, 8))

scores = scaled_dot_score(X, X)
plain = scores.softmax(dim=-1)
masked = masked_softmax(scores, valid_lens)
check_shape(masked, (3, 4, 4))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Without a mask, and with one

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
lost, kept = (weights[2, 0, 2:].sum().item() for weights in (plain, masked))
assert 0.2 < lost < 0.25 and kept == 0
compare_heatmaps(
    [plain, masked],
    [f"length {length}" for length in valid_lens.tolist()],
    tokens,
    "'Hello' gives over a fifth of its attention to padding; with a mask nothing",
    ["plain softmax", "masked softmax"],
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of three heat maps, one column for each sentence. Above, the columns of
# `<pad>` hold weight in the second and the third sentence. Below, those columns are hatched,
# exactly 0, and the words' weights have grown. The first sentence does not change.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# First ask for the sentence in which nothing changes, then for the vote's answer: the words'
# weights grow as well, all of one row by the same factor.
#
# Two likely questions. 'Why do the padding's own rows have weights?': in a minute, at 'Columns, not
# rows'. 'Does a mask save work?': no, the hidden scores are computed and thrown away. Batches of
# sentences of like length save work.

# %% slideshow={"slide_type": "skip"}
assert torch.equal(plain[0], masked[0])  # no padding, no change
assert (masked[1, :, 3:] == 0).all() and (masked[2, :, 2:] == 0).all()  # exactly 0
torch.testing.assert_close(masked.sum(dim=-1), torch.ones(3, 4))  # every row sums to one

# Hiding a key does not change how the others compare with each other.
ratio = plain[2, 0, 0] / plain[2, 0, 1]
torch.testing.assert_close(masked[2, 0, 0] / masked[2, 0, 1], ratio)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One length a sentence, or one a query
#
# `length_mask` turns lengths, here `valid_lens` = [4, 3, 2], into booleans. One length for each
# sentence, shape $(B,)$, gives $(B, 1, K)$: one row, which broadcasting repeats for every query.

# %% slideshow={"slide_type": "fragment"}
mask = length_mask(valid_lens, num_keys=4)
check_shape(mask, (3, 1, 4))
print(mask.int())

# %% [markdown] slideshow={"slide_type": "subslide"}
# One length for each *query*, shape $(B, Q)$, gives $(B, Q, K)$.
#
# **Predict.** All scores are 0. The first query may see one key, the second may see three.
# Which weights?

# %% slideshow={"slide_type": "fragment"}
lens_per_query = torch.tensor([[1, 3]])  # one sentence, two queries
check_shape(length_mask(lens_per_query, num_keys=4), (1, 2, 4))
print(masked_softmax(torch.zeros(1, 2, 4), lens_per_query))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Equal scores make masks easy to read: $\ell$ visible keys get $1/\ell$ each. Keep this trick
# for your own tests. What a length per query is good for comes with the causal mask.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let them write both rows down, half a minute. A common slip in the second row: a quarter each,
# with the fourth taken away. Its sum would be three quarters, as with the mask that came too late.

# %% [markdown] slideshow={"slide_type": "skip"}
# A wrong length should be loud. Five words where there are four keys, a length that is no
# integer, two lengths for three sentences:

# %% slideshow={"slide_type": "skip"}
for wrong in (torch.tensor([5, 3, 2]), torch.tensor([4.0, 3.0, 2.0]), torch.tensor([4, 3])):
    try:
        masked_softmax(torch.zeros(3, 4, 4), wrong)
    except (ValueError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")

# %% slideshow={"slide_type": "skip"}
show_source(length_mask)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which number hides a score?
#
# The mask acts on the scores, so a hidden score needs a number whose exponential vanishes.
# Three are popular:
#
# - $-10^6$, the book's choice;
# - $-\infty$, the mathematician's choice: $e^{-\infty} = 0$;
# - $-10^9$, the choice of the *Annotated Transformer* and of many after it.
#
# With two words and one padding they cannot be told apart.

# %% slideshow={"slide_type": "fragment"}
scores = torch.tensor([math.log(2), 0.0, 0.0])
hidden = torch.tensor([False, False, True])
for fill in (-1e6, -math.inf, -1e9):
    weights = scores.masked_fill(hidden, fill).softmax(dim=-1)
    print(f"{fill:14,.0f}", weights)
    assert weights[2] == 0  # not small: zero, because exp(-1e6) is too small for a float

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Now a sentence of length 0: an empty line in the file, a search without a hit.
# Every key is hidden. What do the three numbers give: zeros, equal weights, or something else?

# %% slideshow={"slide_type": "fragment"}
nothing_to_see = torch.tensor([True, True, True])
for fill in (-1e6, -math.inf, -1e9):
    weights = scores.masked_fill(nothing_to_see, fill).softmax(dim=-1)
    print(f"{fill:14,.0f}", weights)

# %% [markdown] slideshow={"slide_type": "fragment"}
# $-10^6$ three times is three *equal* scores: the softmax knows differences only. The query that
# may see nothing looks at everything, and returns the mean of the padding.
#
# $-\infty$ three times: all exponentials are 0, their sum is 0, and 0/0 is NaN.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Take three votes, one for each number. The tempting answer is 'zeros' for all. After the run ask
# why not: a softmax sees differences only, and three equal scores, however low, have none.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A NaN that nobody looks at
#
# 'My loss ignores the empty rows, so let them be NaN.' Row 0 sees two of three keys, row 1 has
# nothing to see. All scores are 0, all values (1, 1), and the loss adds up what row 0 answers.
#
# **Predict.** Is the loss finite? Is the gradient of the values?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
scores = torch.zeros(2, 3, requires_grad=True)
values = torch.ones(3, 2, requires_grad=True)
hidden = torch.tensor([[False, False, True], [True, True, True]])

weights = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
loss = (weights @ values)[0].sum()
loss.backward()
print("loss", loss.item())
print("gradient of the values\n", values.grad)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The loss is a healthy 2. The gradient is ruined, for the words as well. The values' gradient is
# (weights)$^\top$ times (gradient of the output): row 1 enters with gradient 0, and
# $0 \cdot \text{NaN} = \text{NaN}$. One step of an optimizer later the layer behind the values
# is NaN, all of it.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two votes. Expect most hands for 'loss finite', rightly, and then 'so the gradient is, too'.
# Write the product on the board: a column of weights 1/2 and NaN times a gradient of 1 and 0.

# %% [markdown] slideshow={"slide_type": "skip"}
# Whether the *scores'* gradient is NaN too depends on how the mask was written. `masked_fill`
# passes no gradient to what it has overwritten, and so happens to stop the NaN. Adding a mask of
# 0 and $-\infty$, which is just as common, does not stop it: then the layers behind queries and
# keys go as well.

# %% slideshow={"slide_type": "skip"}
assert torch.isfinite(scores.grad).all()  # masked_fill: stopped

added = torch.zeros(2, 3).masked_fill(hidden, -math.inf)
scores = torch.zeros(2, 3, requires_grad=True)
((scores + added).softmax(dim=-1) @ torch.ones(3, 2))[0].sum().backward()
print(scores.grad)
assert scores.grad[1].isnan().all()  # added: not stopped

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A number that 16 bits do not hold
#
# Many models compute with 16 bits a number. In float16 the largest finite number is 65,504.
#
# **Predict.** What does PyTorch make of $-10^9$ in float16: the nearest number, $-65504$? Minus
# infinity? An error?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
scores = torch.tensor([math.log(2), 0.0, 0.0], dtype=torch.float16)
hidden = torch.tensor([False, False, True])
try:
    scores.masked_fill(hidden, -1e9)
except RuntimeError as error:
    print("masked_fill:", error)

assigned = scores.clone()
assigned[hidden] = -1e9
print("assignment: ", assigned)
print("torch.where:", torch.where(hidden, -1e9, scores))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both. `masked_fill` refuses. Assignment and `torch.where` write $-\infty$ and say nothing, and
# with it the NaN is back. It depends on how you spell it. The book's $-10^6$ is beyond 65,504
# too, and the book's code assigns.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Take a vote for each of the three; expect hands for all. Ask those who chose minus infinity what
# follows for an empty row. To show live: the same `masked_fill` in bfloat16, which does not
# complain.

# %% slideshow={"slide_type": "skip"}
row = torch.zeros(3, dtype=torch.float16)
row[nothing_to_see] = -1e6  # spelled as in the book: fine in float32, minus infinity here
print(row, row.softmax(dim=-1))
assert row.isneginf().all() and row.softmax(dim=-1).isnan().all()

# A third spelling, scores + hidden * (-1e9), with all tensors in float16: 0 * inf is NaN.
minus_1e9 = torch.tensor(-1e9).half()
print(scores + hidden.half() * minus_1e9)
assert (hidden.half() * minus_1e9)[:2].isnan().all()  # the words die, not the padding

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What the package does
#
# Two fills. Before the softmax, hidden scores become the lowest *finite* number of their own
# type. After it, hidden weights become exactly 0. (`X` are the scores, `visible` is the mask.)
#
# ```python
# scores = X.masked_fill(~visible, torch.finfo(X.dtype).min)
# return scores.softmax(dim=-1).masked_fill(~visible, 0.0)
# ```

# %% [markdown] slideshow={"slide_type": "fragment"}
# The first fill makes the other weights right. The second matters where a row has nothing to
# see: equal weights in, zeros out. And no tensor on the way holds infinity or NaN.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask before the second paragraph: which of the two fills can go, if no row is ever empty? The
# second. And what should an empty row answer? Zeros, the mean, an error: let them argue for a
# minute.

# %% slideshow={"slide_type": "skip"}
show_source(masked_softmax)

# %% [markdown] slideshow={"slide_type": "subslide"}
# All scores 0. One row sees two of three keys, the other has nothing to see. In four kinds of
# numbers:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
mask = torch.tensor([[True, True, False], [False, False, False]])
for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
    weights = masked_softmax(torch.zeros(2, 3, dtype=dtype), mask=mask)
    print(f"{str(dtype):15} fill {torch.finfo(dtype).min:9.2g}   rows {weights.tolist()}")
    assert weights.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]

# %% [markdown] slideshow={"slide_type": "fragment"}
# A query with nothing to see answers with the zero vector. Its row sums to 0, not to 1: the one
# exception, and an honest one. It says 'I have nothing'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# And the gradient that was ruined? The same two rows through the package's function, both in the
# loss:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
scores = torch.zeros(2, 3, requires_grad=True)
values = torch.ones(3, 2, requires_grad=True)
output = masked_softmax(scores, mask=mask) @ values
output.sum().backward()

print("output\n", output.detach())
print("gradient of the values\n", values.grad)
assert output[1].tolist() == [0, 0] and scores.grad[1].tolist() == [0, 0, 0]
assert values.grad[2].tolist() == [0, 0]  # the padding learns nothing

# %% [markdown] slideshow={"slide_type": "fragment"}
# All finite. The row with nothing to see changes no gradient, and the padding learns nothing.

# %% [markdown] slideshow={"slide_type": "skip"}
# Could the first fill not be $-\infty$, with the second to clear up the NaN? With `masked_fill`
# the weights and the gradients do come out right. But on the way there is NaN, in the softmax and
# in its gradient. PyTorch's anomaly detection stops there, and you will look for a bug in the
# wrong place. With a finite number there is nothing to clear up but equal weights.

# %% slideshow={"slide_type": "skip"}
for fill in (-math.inf, torch.finfo(torch.float32).min):
    filled = torch.zeros(2, 3, requires_grad=True).masked_fill(~mask, fill)
    filled.retain_grad()
    (filled.softmax(dim=-1).masked_fill(~mask, 0.0) @ torch.ones(3, 2)).sum().backward()
    print(f"fill {fill:8.2g}: gradient that leaves the softmax {filled.grad[1].tolist()}")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Three small slips of the book
#
# Section 11.3.2.1 says that its code sets attention *weights* to a number such as $-10^6$, and
# *values* to 0. The code sets the *scores*, as it should, and touches no value. (Ours does set
# values to 0; 'Proof 1' says which, and why.) The third slip costs more: it writes into the scores
# that you passed, because `reshape` makes no copy where it need not.

# %% slideshow={"slide_type": "skip"}
scores = torch.zeros(1, 2, 3)
flat = scores.reshape(-1, 3)  # another shape, the same memory
flat[:, 2] = -1e6
print("after writing into the reshaped tensor:", scores[0, 0])

scores = torch.zeros(1, 2, 3)
masked_softmax(scores, torch.tensor([2]))
print("after our masked_softmax:              ", scores[0, 0])

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Not seeing the future
#
# A model that writes learns to guess the next word. In training all positions of a sentence run
# at once, so while position 1 guesses, the word it has to guess stands right there at position 2.
# An exam with the answers printed on the sheet.
#
# A **causal mask** covers them: query $i$ sees key $j$ only where $j \le i$.

# %% slideshow={"slide_type": "fragment"}
causal = causal_mask(4)
check_shape(causal, (4, 4))
print(causal.int())
print(masked_softmax(torch.zeros(1, 4, 4), mask=causal))

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask before the output: all scores 0, what is the third row? Then why the diagonal is open. Expect
# 'so it sees the answer'. No: at position 1 stands the word just read, the answer is at position 2.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The first token sees itself alone, the last sees all four. A query may see its own position:
# what it guesses is the *next* one.
#
# Row $i$ sees $i + 1$ keys from the left. That is a length! So lengths per query, 1, 2, 3, 4,
# are a causal mask. The book trains its decoder, the half of a translator that writes, this way.

# %% slideshow={"slide_type": "fragment"}
steps = torch.arange(1, 5).repeat(3, 1)  # for each sentence 1, 2, 3, 4
check_shape(steps, (3, 4))
print(steps)
assert torch.equal(length_mask(steps, 4), causal.expand(3, 4, 4))

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The book's decoder builds these lengths only in training mode. In validation it passes None, and
# the validation loss is computed with the future in sight. Chapter 8 measures it. Here the
# sentence 'a mask belongs to the model, not to the training' is enough.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Padding and future together
#
# A key is visible where *both* masks say so: a logical and. As lengths: the smaller of the two.
#
# **Predict.** 'Learn to code `<pad>`', all scores 0, length 3 and causal. What is the last row?

# %% slideshow={"slide_type": "skip"}
padding = length_mask(valid_lens, 4)
both = combine_masks(causal, padding)
check_shape(both, (3, 4, 4))
assert torch.equal(both, causal & padding)

decoder_lens = torch.minimum(steps, valid_lens[:, None])
print(decoder_lens)
assert torch.equal(both, length_mask(decoder_lens, 4))
# masked_softmax and the layers take lengths and a mask, and combine them for you.
assert torch.equal(
    masked_softmax(scaled_dot_score(X, X), valid_lens, mask=causal),
    masked_softmax(scaled_dot_score(X, X), mask=both),
)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
everything = torch.ones(4, 4, dtype=torch.bool)
four_masks = [everything, padding[1].expand(4, 4), causal, both[1]]
compare_heatmaps(
    [[masked_softmax(torch.zeros(4, 4), mask=mask) for mask in four_masks]],
    ["no mask", "padding", "causal", "causal and padding"],
    [tokens[1]] * 4,
    "Both masks together: a key is visible only where both say so",
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four heat maps for 'Learn to code `<pad>`' with equal scores. No mask: 0.25 everywhere.
# Padding: a third in each of three columns. Causal: a triangle, 1 in the first row, 0.25 in the
# last. Both: the triangle without the last column, so the last two rows are equal.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute, four numbers from each. Some write a quarter four times: the causal row alone. On
# the picture ask why the last two rows of the fourth map are equal: the third word and the padding
# see the same three words.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The row with nothing to see is not exotic
#
# Models that write are often padded on the *left*, so that all sentences end at the same place.
# Together with a causal mask, that makes rows without a single visible key.

# %% slideshow={"slide_type": "fragment"}
words_right = torch.tensor([False, False, True, True])  # <pad> <pad> Hello world
mask = combine_masks(causal_mask(4), words_right)
assert not mask[:2].any()
print(masked_softmax(torch.zeros(1, 4, 4), mask=mask))

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Draw '`<pad> <pad>` Hello world' and ask which rows will be empty: the first two, since all they
# may look back at is padding. Then: what would $-\infty$ give there? NaN, and the next layer
# inherits it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The newest token stands at the end
#
# A model writes. Four tokens are there, the fifth has just come: one query, five keys.
#
# **Predict.** Which keys does the query see under `causal_mask(1, 5)` (one query, five keys)?

# %% slideshow={"slide_type": "fragment"}
print(causal_mask(1, 5).int())
print(causal_mask(1, 5, offset=4).int())

# %% [markdown] slideshow={"slide_type": "fragment"}
# The first key alone: row 0 of a causal mask belongs to position 0. But our query stands at
# position 4. `offset` says how many keys stand before the first query.

# %% slideshow={"slide_type": "skip"}
# Two new queries after three tokens: rows 3 and 4 of the full mask.
assert torch.equal(causal_mask(2, offset=3), causal_mask(5)[3:])

at_once = dot_product_attention(X, X, X, is_causal=True)
one_by_one = []
for t in range(4):
    query, past = X[:, t : t + 1], X[:, : t + 1]
    one_by_one.append(dot_product_attention(query, past, past, mask=causal_mask(1, offset=t)))
torch.testing.assert_close(torch.cat(one_by_one, dim=1), at_once)
print("token by token equals all at once")

# %% [markdown] slideshow={"slide_type": "fragment"}
# PyTorch has the same trap. `is_causal=True` starts its triangle at the top left, whatever the
# number of keys. (`is_causal=True` of our layers does the same: for new tokens give a mask
# with an offset.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Most say 'all five'. Draw the 5 by 5 triangle, and cover all rows but one: which row is our
# query's? Warn the room: code that writes token by token meets this trap on its first day.

# %% slideshow={"slide_type": "skip"}
generator = torch.Generator().manual_seed(5)
query = torch.randn(1, 1, 1, 8, generator=generator)
keys, values = torch.randn(2, 1, 1, 5, 8, generator=generator)

output = F.scaled_dot_product_attention(query, keys, values, is_causal=True)
torch.testing.assert_close(output, values[:, :, :1])
output = dot_product_attention(query, keys, values, is_causal=True)
torch.testing.assert_close(output, values[:, :, :1])
print("one query, five keys, is_causal=True: the output is the first value")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Columns, not rows
#
# In a weight matrix a row is a query and a column is a key. A mask hides **keys**: columns.
#
# Look back at the batch: in the last rows `<pad>` *asks*, and gets a proper answer about 'Hello'
# and 'world'. That looks wrong. Should its row be hidden too?
#
# **Predict.** What if we hide the rows of the padding *instead* of the columns?

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
scores = scaled_dot_score(X, X)[2]  # Hello world <pad> <pad>
column = padding[2]  # (1, 4): a key is a word
row = column.mT  # (4, 1): a query is a word
ways = [masked_softmax(scores, mask=mask) for mask in (column, row, row & column)]
compare_heatmaps(
    [ways],
    ["columns hidden", "rows hidden instead", "both hidden"],
    [tokens[2]] * 3,
    "Hiding rows does not stop the words from reading the padding",
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three heat maps for 'Hello world `<pad> <pad>`'. Left: the two padding columns are 0.
# Middle: the two padding rows are 0, but the rows of Hello and world still have weight in the
# padding columns. Right: weight only in the upper left square.*

# %% slideshow={"slide_type": "skip"}
columns_hidden, rows_hidden, both_hidden = ways
assert (columns_hidden[:, 2:] == 0).all()
assert (rows_hidden[:2, 2:] > 0).all()  # the words still read the padding
assert torch.equal(both_hidden[:2], columns_hidden[:2])  # the words' rows: no difference

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rows *instead* of columns is a bug. Rows *as well* changes nothing for the words. So the usual
# choice is: hide columns, let the padding's queries answer, and **ignore those answers in the
# loss**. That last part is your job. No attention function does it for you.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Expect the wish to hide the rows as well, 'to be clean'. It is allowed, and with a mask of minus
# infinity it is the quickest way to NaN. Ask who reads the padding's answer: in this layer nobody,
# and in the next one nobody either, because its column is hidden there too.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which mean?
#
# **Predict.** Every word has loss 1, every padding loss 9. There are 9 words and 3 paddings. Which
# number is the mean of everything? The mean after the padding's losses were set to 0? The mean over
# the words?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
is_word = padding[:, 0]  # (3, 4)
losses = torch.where(is_word, 1.0, 9.0)
print("mean of everything     ", losses.mean().item())
print("padding set to 0, mean ", (losses * is_word).mean().item())
print("mean over the words    ", losses[is_word].mean().item())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only the last is right. The second divides by 12 instead of 9: like a mask after the softmax, it
# removes the padding and keeps its share. `F.cross_entropy(..., ignore_index=...)` divides by the
# words.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute with pencils. The first and the last are easy; for the second many say 1. Ask what it
# would do to a batch that is half padding: the loss halves, and its gradient with it.

# %% slideshow={"slide_type": "skip"}
logits = torch.zeros(4, 2)  # four tokens, two classes, every loss is ln 2
logits[3, 0] = -9.0  # but this one, a padding, is far off
targets = torch.tensor([0, 1, 0, -100])  # -100: ignore me
loss = F.cross_entropy(logits, targets, ignore_index=-100)
torch.testing.assert_close(loss, torch.tensor(math.log(2)))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Proof 1: dye in the padding
#
# A heat map can look right while something leaks. So do what plumbers do: pour dye in, and look
# where the water comes out coloured. Put something outrageous into the padding. Outputs and
# gradients must not change in a single bit.
#
# The strongest dye is NaN.
#
# **Predict.** Weights $\tfrac23, \tfrac13, 0$, values $6, 0, \text{NaN}$. The answer?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
weights = torch.tensor([2 / 3, 1 / 3, 0.0])
dyed = torch.tensor([[6.0], [0.0], [math.nan]])
print(f"weights @ values:  {(weights @ dyed).item():.2f}")

scores, visible = torch.tensor([[math.log(2), 0.0, 0.0]]), torch.tensor([True, True, False])
output, _ = attention_pooling(scores, dyed, mask=visible)
print(f"attention_pooling: {output.item():.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Every product and every sum with NaN in it is NaN, so weight 0 is not enough:
# $0 \cdot \text{NaN} = \text{NaN}$. The package puts zeros where *no* query may look before it
# multiplies.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The tempting answer is 4. Point at the product: weight 0 times NaN is NaN, and a sum with NaN in
# it is NaN. Where does NaN in the padding come from in real life? An uninitialised buffer
# (torch.empty), a division by a length of 0, an empty row's softmax in the layer before.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The experiment, as a function `outcome`: fill the padding of keys and values with a dye; return
# the output and the gradients of queries, keys and values. The loss multiplies the output with
# random numbers, so that every entry of it counts. Run it twice, with 0 and with the dye:

# %% slideshow={"slide_type": "skip"}
probe = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(7))


def outcome(attend, dye):
    """Output and the gradients by queries, keys, values, with `dye` in all padded places."""
    dyed = X.masked_fill(~is_word[..., None], dye)
    inputs = [tensor.clone().requires_grad_() for tensor in (X, dyed, dyed)]
    output = attend(*inputs)
    (output * probe).sum().backward()
    return [output.detach(), *(tensor.grad for tensor in inputs)]


# %% slideshow={"slide_type": "-"}
def padding_leaks(attend, dye):
    """Whether anything at all depends on what stands in the padding."""
    return not all(map(torch.equal, outcome(attend, 0.0), outcome(attend, dye)))


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
def attention(queries, keys, values):
    return dot_product_attention(queries, keys, values, valid_lens)


for dye in (7.0, -1e4, math.nan):
    assert not padding_leaks(attention, dye)

_, queries_grad, keys_grad, values_grad = outcome(attention, math.nan)
assert (keys_grad[~is_word] == 0).all() and (values_grad[~is_word] == 0).all()
print("padding of 7, of -10000, of NaN: same outputs, same gradients, bit for bit")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask why one may demand equality to the bit, where every other test allows a tolerance. Both runs
# do the same sums, for what stood in the padding never enters. A tolerance would hide a small leak.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A test that cannot fail proves nothing. Here are six other ways to attend: no mask; a mask after
# the softmax; rows hidden instead of columns; one key too many; `masked_softmax` followed by a
# plain `@ values`; PyTorch's own function.
#
# **Predict.** Which of them let a 7 through? Which let a NaN through?

# %% slideshow={"slide_type": "skip"}


def by_hand(weigh):
    """Attention with weights made by `weigh`, multiplied with the values."""
    return lambda q, k, v: weigh(scaled_dot_score(q, k)) @ v


suspects = {
    "no mask": by_hand(lambda s: s.softmax(dim=-1)),
    "mask after the softmax": by_hand(lambda s: s.softmax(dim=-1) * padding),
    "rows instead of columns": by_hand(lambda s: masked_softmax(s, mask=padding.mT)),
    "one key too many": by_hand(lambda s: masked_softmax(s, (valid_lens + 1).clamp(max=4))),
    "masked_softmax @ values": by_hand(lambda s: masked_softmax(s, valid_lens)),
    "PyTorch's attention": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, attn_mask=padding.expand(3, 4, 4)
    ),
    "the package": attention,
}

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
leaks = {}
for name, attend in suspects.items():
    leaks[name] = (padding_leaks(attend, 7.0), padding_leaks(attend, math.nan))
    seven, nan = ("leaks" if leak else "clean" for leak in leaks[name])
    print(f"{name:26} 7: {seven}   NaN: {nan}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The 7 catches the four wrong masks. Only the NaN sees that the next two multiply the padding by
# 0 and add it: harmless for a number, fatal for NaN. PyTorch's function does not guard against
# that. The package does, and this is the test that holds it to it.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes in pairs: a list of six, two crosses each. Most find the first four. Ask those who
# trust PyTorch's own function why: 'it masks before the softmax'. It does, and multiplies by 0
# afterwards.

# %% slideshow={"slide_type": "skip"}
clean_of_7 = [name for name, (seven, _) in leaks.items() if not seven]
assert clean_of_7 == ["masked_softmax @ values", "PyTorch's attention", "the package"]
clean_of_nan = [name for name, (_, nan) in leaks.items() if not nan]
assert clean_of_nan == ["the package"]

# %% [markdown] slideshow={"slide_type": "skip"}
# The same for a layer with parameters: `AdditiveAttention` of chapter 3. The parameters'
# gradients are what training uses, so they must not change either.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
layer = AdditiveAttention(num_hiddens=5, dropout=0.0)
layer(X, X, X, valid_lens)  # a first call fixes the parameters' sizes
found = []
for dye in (0.0, math.nan):
    layer.zero_grad()
    output = outcome(lambda q, k, v: layer(q, k, v, valid_lens), dye)
    found.append([*output, *(parameter.grad.clone() for parameter in layer.parameters())])
assert len(found[0]) == 4 + 3  # output, three inputs' gradients, three parameters' gradients
assert all(map(torch.equal, *found))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Proof 2: another future
#
# For a causal mask: change the tokens from position 2 on. What stands before must not move in a
# single bit. What stands after should move, or the test is broken.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
other_future = X.clone()
other_future[:, 2:] = torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(8))


def early_and_late(**mask):
    """Whether the outputs before position 2 stay equal, and those from 2 on."""
    now, then = (dot_product_attention(S, S, S, **mask) for S in (X, other_future))
    return torch.equal(now[:, :2], then[:, :2]), torch.equal(now[:, 2:], then[:, 2:])


for name, arguments in {"causal": {"is_causal": True}, "no mask": {}}.items():
    early, late = ("same" if same else "moved" for same in early_and_late(**arguments))
    print(f"{name:8} before: {early}   after: {late}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Under the causal mask what stands before stays, to the bit, and what stands after moves. Without a
# mask everything moves.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask first what must stay and what must move. Most forget the second: a function that always
# answers 0 keeps the past, too. The line without a mask shows that the test can fail.

# %% slideshow={"slide_type": "skip"}
assert early_and_late(is_causal=True) == early_and_late(mask=causal_mask(4)) == (True, False)
assert early_and_late(is_causal=True, valid_lens=valid_lens) == (True, False)
assert early_and_late() == (False, False)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Why not NaN, the strongest dye? Put it into the last value, under a causal mask.
# Which of the four answers stay clean?

# %% slideshow={"slide_type": "fragment"}
dyed = X.clone()
dyed[:, 3] = math.nan
output = dot_product_attention(X, X, dyed, is_causal=True)
print(output[0].isnan().any(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Row 0 may not see key 3, but row 3 may. So the package cannot put a zero there, and
# $0 \cdot \text{NaN}$ spoils every row. Padding is hidden from *all* queries; the future only
# from *some*. For the future, dye with ordinary numbers, and ask for equality to the bit.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The room now believes in NaN: expect 'the first three stay clean'. Show the output, and ask for
# the product that does it. Then ask why the padding was different: nobody may look there.

# %% [markdown] slideshow={"slide_type": "skip"}
# The same proof by gradients: the answer at position 1 has a gradient of exactly 0 with respect
# to every later token.

# %% slideshow={"slide_type": "skip"}
tokens_in = X.clone().requires_grad_()
output = dot_product_attention(tokens_in, tokens_in, tokens_in, is_causal=True)
(output * probe)[:, 1].sum().backward()
reach = tokens_in.grad.norm(dim=-1)  # one number for each token
check_shape(reach, (3, 4))
assert (reach[:, :2] > 0).all() and (reach[:, 2:] == 0).all()
print((reach > 0).int())

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lengths and the future, side by side
#
# 'Hello world `<pad> <pad>`' under six masks: length 4, 3, 2; causal off, causal on. The colour is
# the weight. A **dot** is the result of an experiment: change that key and its value, and that
# row's answer changes.
#
# **Question.** Which of the six is right for a model that *reads* the sentence? Which for one
# that learns to *write* it?


# %% slideshow={"slide_type": "skip"}
def who_changes(length, is_causal, sentence=2):
    """Bool (Q, K): does the answer of query i change when key and value j change?"""
    lens, words = torch.tensor([length]), X[[sentence]]
    before = dot_product_attention(words, words, words, lens, is_causal=is_causal)
    changes = []
    for j in range(4):
        other = words.clone()
        other[:, j] += 1.0
        after = dot_product_attention(words, other, other, lens, is_causal=is_causal)
        changes.append((after != before).any(dim=-1)[0])
    return torch.stack(changes, dim=1)


def weights_of(length, is_causal, sentence=2):
    future = causal_mask(4) if is_causal else None
    scores = scaled_dot_score(X[[sentence]], X[[sentence]])
    return masked_softmax(scores, torch.tensor([length]), mask=future)[0]


def draw_dots(ax, reached):
    i, j = reached.nonzero(as_tuple=True)
    ax.scatter(j, i - 0.33, s=45, color="#E69F00", edgecolor="black", zorder=3)


def six_masks(lengths):
    """Weights under each length, causal off and on, with a dot where an answer is reached."""
    axes = compare_heatmaps(
        [[weights_of(length, is_causal) for length in lengths] for is_causal in (False, True)],
        [f"length {length}" for length in lengths],
        [tokens[2]] * len(lengths),
        "What reaches an answer (a dot) is exactly what the mask lets through",
        ["causal off", "causal on"],
    )
    for line, is_causal in zip(axes, (False, True), strict=True):
        for ax, length in zip(line, lengths, strict=True):
            reached = who_changes(length, is_causal)
            assert torch.equal(reached, weights_of(length, is_causal) > 0)
            draw_dots(ax, reached)


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
six_masks(lengths=(4, 3, 2))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: six heat maps with dots, columns for lengths 4, 3 and 2, rows for causal off and on. At
# length 4 the padding columns have dots, at length 3 one of them, at length 2 none. With causal
# on nothing above the diagonal has a dot.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Repeat both questions here, and let the room point: row and column of the picture. Reading is
# quick. For writing some choose length 4, 'the mask hides the padding anyway'; that is worth a
# minute.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Answer.** Reading: length 2, causal off. 'Hello' may look at 'world', nothing looks at padding.
# Writing: length 2, causal on. Now 'Hello' has to guess 'world' without seeing it.
#
# One more look, at length 4 with causal on: 'Hello' and 'world' see no padding there either. The
# padding stands at the end, in their future. Only the rows of `<pad>` see `<pad>`.

# %% slideshow={"slide_type": "skip"}
assert torch.equal(weights_of(4, True)[:2], weights_of(2, True)[:2])
assert not torch.equal(weights_of(4, True)[2:], weights_of(2, True)[2:])

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Follow-up for the room: so may we drop the lengths in a decoder? For self-attention with padding
# on the right, yes, if the loss ignores the padding. Not with padding on the left, and not in the
# attention from decoder to encoder, where nothing is causal.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn the lengths yourself
#
# A slider for each sentence, and one box for the future. Dots mark what reaches an answer.
#
# **Question.** Set 'hello' to 0. What do its rows show, and what did the book's `-1e6` show
# there? Start again from 4, 3, 2 with *causal* ticked. Which single step of which slider removes
# exactly one dot?


# %% slideshow={"slide_type": "skip"}
def play(figure, dive=4, learn=3, hello=2, causal=False):
    for sentence, ax in enumerate(figure.subplots(1, 3)):
        length = (dive, learn, hello)[sentence]
        words = tokens[sentence]
        weights = weights_of(length, causal, sentence)
        heatmap(ax, weights, words, words, vmax=1.0, numbers=True)
        hatch_zeros(ax, weights)
        draw_dots(ax, who_changes(length, causal, sentence))
        ax.set_title(f"length {length}")
        ax.tick_params("x", rotation=40)


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
from d2l_attention.views import explore

explore(
    play,
    figsize=(11, 4),
    alt="Attention weights of three sentences under the chosen lengths, dots where answers reach.",
    dive=(0, 4),
    learn=(0, 4),
    hello=(0, 4),
    causal=False,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of three heat maps, one a sentence, with a slider for each length
# and a box for the causal mask. Hidden cells are hatched and have no dots.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The sliders work on the slide. At 'hello' 0 everything is hatched; the book's code would show
# 0.25 everywhere. With *causal* ticked, from 4, 3, 2: 'dive' from 4 to 3 takes one dot, 'learn'
# from 3 to 2 takes two, 'hello' from 2 to 1 three. Let the room say why.


# %% slideshow={"slide_type": "skip"}
def dots(length, causal, sentence):
    return who_changes(length, causal, sentence).sum().item()


assert weights_of(0, False).sum() == 0  # 'hello' at length 0: nothing is seen, all is hatched
for sentence, length in enumerate((4, 3, 2)):
    lost = dots(length, True, sentence) - dots(length - 1, True, sentence)
    print(f"{tokens[sentence][0]:5} from {length} to {length - 1}: {lost} dots fewer")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## `True` means attend. Or ignore.
#
# Two functions of one library, opposite meanings:
#
# | where | a boolean `True` means | a float mask |
# |---|---|---|
# | this course, `mask` | may attend | refused |
# | `F.scaled_dot_product_attention`, `attn_mask` | may attend | added to the scores |
# | `nn.MultiheadAttention`, `key_padding_mask` | **ignore** | added to the scores |
# | `nn.MultiheadAttention`, `attn_mask` | **ignore** | added to the scores |
#
# The book has no boolean masks: it passes lengths.

# %% [markdown] slideshow={"slide_type": "skip"}
# To compare numbers, give `nn.MultiheadAttention` one head and identity matrices as weights. Then
# it is plain scaled dot-product attention. (What its weights and heads are for: chapter 6.)

# %% slideshow={"slide_type": "skip"}
mha = nn.MultiheadAttention(embed_dim=8, num_heads=1, bias=False, batch_first=True)
with torch.no_grad():
    mha.in_proj_weight.copy_(torch.eye(8).repeat(3, 1))
    mha.out_proj.weight.copy_(torch.eye(8))

ours = dot_product_attention(X, X, X, valid_lens)
may_attend = padding.expand(3, 4, 4)
theirs = F.scaled_dot_product_attention(X, X, X, attn_mask=may_attend)  # True = attend
torch.testing.assert_close(theirs, ours)

theirs, _ = mha(X, X, X, key_padding_mask=~padding[:, 0])  # True = ignore
torch.testing.assert_close(theirs, ours)

# %% slideshow={"slide_type": "skip"}
ours = dot_product_attention(X, X, X, is_causal=True)
causal = causal_mask(4)
torch.testing.assert_close(F.scaled_dot_product_attention(X, X, X, attn_mask=causal), ours)
torch.testing.assert_close(mha(X, X, X, attn_mask=~causal)[0], ours)

# A float mask is added to the scores: 0 where visible, minus infinity where hidden.
additive = torch.zeros(4, 4).masked_fill(~causal, -math.inf)
print(additive)
torch.testing.assert_close(F.scaled_dot_product_attention(X, X, X, attn_mask=additive), ours)
torch.testing.assert_close(mha(X, X, X, attn_mask=additive)[0], ours)

# %% slideshow={"slide_type": "skip"}
additive = torch.zeros(3, 4).masked_fill(~padding[:, 0], -math.inf)
theirs, _ = mha(X, X, X, key_padding_mask=additive)
torch.testing.assert_close(theirs, dot_product_attention(X, X, X, valid_lens))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** You come from `nn.MultiheadAttention`, keep your mask with `True` = ignore, and give
# it to `F.scaled_dot_product_attention`. An error? NaN?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let them read the table in silence, half a minute, then the vote: an error, NaN, or neither? Most
# hope for an error.

# %% [markdown] slideshow={"slide_type": "subslide"}
# No error, no NaN, the right shape.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
right = F.scaled_dot_product_attention(X, X, X, attn_mask=may_attend)
inverted = F.scaled_dot_product_attention(X, X, X, attn_mask=~may_attend)
assert inverted.isfinite().all() and inverted.shape == right.shape

pad_vector = X[2, 3]
torch.testing.assert_close(inverted[2, 0], pad_vector)
assert (inverted[0] == 0).all()
off, size = (inverted - right)[2, 0].norm(), right[2, 0].norm()
print(f"the answer to 'Hello' has length {size:.1f} and is off by {off:.1f}")

# %% [markdown] slideshow={"slide_type": "-"}
# 'Hello' gets the padding's vector and nothing else. The first sentence has no padding, so with the
# mask inverted it sees nothing, and its answers are 0. The code of a good textbook had this bug
# (rasbt/LLMs-from-scratch #1061).

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask how long such a bug would live, and what would show it: the shapes are right, all numbers are
# finite.

# %% [markdown] slideshow={"slide_type": "skip"}
# The wrong type does it too. `True` as a float is 1, and a float mask is *added*: a visible key
# gains 1, a hidden key keeps its score.

# %% slideshow={"slide_type": "skip"}
zero_scores = torch.zeros(1, 1, 4)
one_hot_values = torch.eye(4)[None]  # so the output shows the weights
first_two = torch.tensor([[[True, True, False, False]]])
for mask in (first_two, first_two.float()):
    output = F.scaled_dot_product_attention(
        zero_scores, zero_scores.expand(1, 4, 4), one_hot_values, attn_mask=mask
    )
    print(f"{str(mask.dtype):14}", output[0, 0])

try:
    masked_softmax(zero_scores, mask=first_two.float())
except TypeError as error:
    print(f"ours:          TypeError: {error}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# One experiment tells you the convention of any library. Mark the first key alone with `True`. If
# `True` means attend, every output is that key's value, whatever the scores are. (`mha` is
# `nn.MultiheadAttention` with one head and identity matrices: its output is the value itself.)

# %% slideshow={"slide_type": "fragment"}
only_first = torch.tensor([True, False, False, False]).expand(4, 4)
first_value = X[:, :1].expand(3, 4, 8)
for name, output in {
    "scaled_dot_product_attention": F.scaled_dot_product_attention(X, X, X, attn_mask=only_first),
    "nn.MultiheadAttention": mha(X, X, X, attn_mask=only_first)[0],
}.items():
    means = "attend" if torch.allclose(output, first_value, atol=1e-5) else "ignore"
    print(f"{name:30} True = {means}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The empty row again
#
# And the row with nothing to see? There, too, they differ.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
nothing = torch.zeros(4, 4, dtype=torch.bool)  # attend nowhere
sdpa = F.scaled_dot_product_attention(X, X, X, attn_mask=nothing)
with_weights, _ = mha(X, X, X, attn_mask=~nothing)
without_weights, _ = mha(X, X, X, attn_mask=~nothing, need_weights=False)
for name, output in {
    "scaled_dot_product_attention": sdpa,
    "nn.MultiheadAttention": with_weights,
    "  with need_weights=False": without_weights,
    "the package": dot_product_attention(X, X, X, mask=nothing),
}.items():
    print(f"{name:30}", "NaN" if output.isnan().all() else output.abs().max().item())

# %% [markdown] slideshow={"slide_type": "fragment"}
# This is PyTorch 2.13. `scaled_dot_product_attention` returned NaN for such rows in older
# versions, and `nn.MultiheadAttention` still does where it computes weights, which is its default.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A score of 0 is not 'no'. Unmasked, an answer depends on the rest of the batch.
# - A mask acts on scores, before the softmax, and hides keys: columns. Rows are left to the loss.
# - Fill with the lowest finite number, then clear to 0. In an empty row $-10^6$ gives equal
#   weights, $-\infty$ NaN; float16 has no $-10^6$.
# - Prove it: dye padding with NaN, change the future, compare every bit.
# - `True` may mean attend or ignore. Test with one visible key.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell, run it, and `check` says what is right or what went wrong.
# `hint("4.1")` gives one more hint each time, `solution("4.1")` the whole way.

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
# Write the masked softmax. Scores and the boolean mask have the shape (\*, Q, K), where \* is any
# number of axes, also none. Weights over the keys, the last axis: exactly 0 where the mask is
# False, and 0 throughout for a query that may attend to nothing. The scores may be float16, float32
# or float64, of any size that their type can hold, and stay as they were; the weights have the type
# of the scores. Gradients reach the scores and are never NaN, not even for a query that may attend
# to nothing.


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

# %% [markdown] slideshow={"slide_type": "skip"}
# **4.5** The mean over the words · *medium, 8 minutes* · complete a function
#
# From the losses (B, Q) of all places, padding included, and lengths (B,) to the mean over all the
# batch's words, a tensor of shape () with a gradient for the losses. NaN in the padding changes
# neither the number nor its gradient. NaN at a word is not hidden: the mean is NaN. A batch without
# a word gives 0, with a gradient of 0.


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
# `attend` has three bugs. Mend it. Queries (B, Q, D), keys (B, K, D), values (B, K, V), integer
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
#   (masked softmax) and 11.7 (lengths per query in the decoder). [d2l.ai](https://d2l.ai)
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.2.3:
#   illegal connections are set to $-\infty$ before the softmax.
# - A. Rush, *The Annotated Transformer*, NLP-OSS 2018, doi:10.18653/v1/W18-2509. Fills with
#   $-10^9$.
# - P. Micikevicius et al., *Mixed Precision Training*, ICLR 2018, arXiv:1710.03740. What half
#   precision can represent.

# %% [markdown] slideshow={"slide_type": "skip"}
# Bugs met in the wild, on GitHub:
#
# - pytorch/pytorch #103963: NaN from `scaled_dot_product_attention` for rows with nothing to see.
# - pytorch/pytorch #41508: such a row in `nn.MultiheadAttention` ruins the gradients.
# - pytorch/pytorch #101967: NaN in masked positions comes through.
# - pytorch/pytorch #170415: a note on the opposite meanings of `True` for the documentation.
# - rasbt/LLMs-from-scratch #1061: an inverted mask for `scaled_dot_product_attention` in the
#   companion code of a textbook.
