# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · The bug museum
#
# **You will**
# - see broken attention train as well as right attention, and better;
# - find the first wrong number of an implementation, line by line;
# - write tests that catch twenty-one real mistakes, without any training;
# - take ten tests with you that try any attention layer.
#
# Core path: 35 minutes. Going further: 15. Exercises: 177.
#
# Builds on chapters 3, 4, 6, 7 and 8. *Dive into Deep Learning* (D2L) has no chapter on tests. Six
# of the exhibits are modelled on the code or the discussions of its chapter 11.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A plan for 45 minutes: the five losses 8, the first exhibit 8, the four rooms 5 each, the ten tests
# 6, questions 3. The exhibits can be read in any order: take those that your students have met.
# Pairs work well: one writes a test, the other a bug that the test does not see.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import MultiHeadAttention, show_source
from d2l_attention.data import EOS, Vocab, load
from d2l_attention.data.batches import padded
from d2l_attention.exercises import check, hint, solution
from d2l_attention.exercises.chapter_12 import broken, right
from d2l_attention.testing import PROPERTIES, check_attention
from d2l_attention.views import compare
from d2l_attention.views.plots import set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - **Attention** (chapter 3). A query's weights are the softmax of its scores $q \cdot k / \sqrt d$
#   over the keys. They sum to one, and the output is the average of the values with these weights.
# - **Masks** (chapter 4). A hidden score becomes $-\infty$ before the softmax, so that its weight
#   is 0. A causal mask hides the future: token $i$ sees the tokens 0 to $i$.
# - **Heads** (chapter 6). $D$ numbers are cut into $H$ pieces of $D / H$, and each piece attends by
#   itself.
# - **A test** is a function that ends quietly where the code is right, and stops with an
#   `AssertionError` where it is wrong: `assert output.shape == (2, 5)`.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute. Ask who has ever had a model that trained well and was wrong.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Five losses, one of them honest
#
# A wrong sort stops with an error or gives a wrong list. Wrong attention gives numbers of the right
# shape, and the model around it learns with whatever it gets. Here is attention with a causal mask,
# and four mistakes that can be switched on. Each was really made; you will meet them again below.


# %% slideshow={"slide_type": "-"}
def causal_attention(q, k, v, bug):
    n, d = q.shape[1:]
    future = torch.ones(n, n, dtype=torch.bool).triu(2 if bug == "one word too many" else 1)
    scores = (q @ k.mT / (d if bug == "divided by d" else d**0.5)).masked_fill(future, -torch.inf)
    weights = scores.softmax(dim=-2 if bug == "softmax over queries" else -1)
    if bug == "no gradient to the scores":
        weights = weights.detach()
    return weights @ v


# %% [markdown] slideshow={"slide_type": "skip"}
# Around it stands a small language model. It reads the beginning of an English sentence of the
# built-in grammar (chapter 5) and predicts the next word.


# %% slideshow={"slide_type": "skip"}
class LanguageModel(nn.Module):
    def __init__(self, vocab_size, bug, D=64):
        super().__init__()
        self.bug = bug
        self.words, self.positions = nn.Embedding(vocab_size, D), nn.Embedding(40, D)
        self.W_q, self.W_k, self.W_v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.network = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D), nn.ReLU(), nn.Linear(D, D))
        self.out = nn.Linear(D, vocab_size)

    def forward(self, tokens):  # (B, n) -> logits (B, n, V)
        X = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        X = X + causal_attention(self.W_q(X), self.W_k(X), self.W_v(X), self.bug)
        return self.out(X + self.network(X))


def loss_of(model, tokens):  # the mean over all words but the first, which nobody predicts
    return F.cross_entropy(model(tokens[:, :-1]).mT, tokens[:, 1:], ignore_index=0)


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
corpus = load("grammar")
vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
train, valid = (
    padded([[1, *vocab[list(pair.source)], 2] for pair in pairs], 0)  # begin, words, end, padding
    for pairs in (corpus.train, corpus.valid)
)
bugs = [
    "no gradient to the scores",
    "one word too many",
    "none",
    "softmax over queries",
    "divided by d",
]
models, curves = [], []
for bug in bugs:
    torch.manual_seed(0)
    model, curve = LanguageModel(len(vocab), bug), []
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(300):
        tokens = train[torch.randint(len(train), (64,))]
        loss = loss_of(model, tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    models.append(model.eval())
    curves.append(curve)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which one is right?
#
# All five start with the same parameters and see the same batches, for 300 steps.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the five loss curves, without names
figure, ax = plt.subplots(figsize=(8, 3.6))
for curve, name, style in zip(curves, "ABCDE", ["-", "--", "-.", ":", (0, (5, 1, 1, 1))]):
    smooth = torch.tensor(curve).unfold(0, 20, 1).mean(dim=-1)
    ax.plot(smooth, linestyle=style, linewidth=2.5, label=f"model {name}")
ax.set(xlabel="step", ylabel="training loss", title="Five models learn; one of them is right")
ax.legend()
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: five training losses over 300 steps, models A to E. All fall from 5.6. B falls to almost
# 0 within 150 steps. D ends a little below the other three, which lie so close together that the
# lines cover each other, near 2.6.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Which model is the right one? And would you have stopped the training of any of the
# others?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let the room vote. Most exclude B; many take D, because it is a little better than the rest. Then
# run the next cell. Ask what one would have to measure to find the mistakes of A and E.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
with torch.no_grad():
    validation = [loss_of(model, valid).item() for model in models]
for name, bug, loss in zip("ABCDE", bugs, validation):
    print(f"model {name}: validation loss {loss:.2f}   bug: {bug}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says of the five losses
a, b, c, d, e = validation
assert b < 0.2 and d < c - 0.1 and abs(a - c) < 0.15 and abs(e - c) < 0.1
print("checked: two broken models have a lower validation loss, two are as good as the right one")

# %% [markdown] slideshow={"slide_type": "-"}
# In this run two broken models have a *lower* validation loss than the right one, and the other two
# are as good as the right one, within 0.15. B sees the word that it should predict. D divides by a
# sum over the queries, later ones too, so that the future leaks into it. A never learns where to
# look, and E looks less sharply; both learn around it. Validation uses the same attention, so it
# says the same as training.
#
# Only when B has to write, where there is no next word to look at, does it show:

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
torch.manual_seed(0)
for name in "CB":
    tokens = torch.tensor([[1]])
    with torch.no_grad():
        for _ in range(9):
            likely = models["ABCDE".index(name)](tokens)[:, -1].softmax(dim=-1)
            tokens = torch.cat((tokens, likely.multinomial(1)), dim=1)
    print(f"model {name} writes:", *vocab.to_tokens(tokens[0, 1:].tolist()))

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. The moral for the board: a loss says how well the model does with the attention it
# has. It does not say which attention it has.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How to ask an attention
#
# A loss does not tell, so ask the attention itself. Three kinds of question need no training, no
# data, and no second implementation:
#
# 1. **An answer that you know by thinking.** If all values are equal, the output is that value.
# 2. **Two runs that must agree.** What must not matter is changed: the padding, the future, the
#    other sentences of the batch.
# 3. **Two ways to one number.** With and without a cache; all at once and one by one.
#
# The first exhibit needs the first kind.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.1 · The softmax over the queries
#
# **Seen.** TODO SEEN 12.1.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.1"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Guess.** Three queries meet two keys. What do the two weights of a query sum to now?
# `compare` runs this code and the right one on the same numbers and opens both at the first name
# that differs:

# %% slideshow={"slide_type": "subslide"}
queries, keys = torch.tensor([[[2.0, 0], [0, 2], [1, 1]]]), torch.tensor([[[2.0, 0], [0, 2]]])
values = torch.tensor([[[10.0, 0], [0, 10]]])
axes = {"scores": "BQK", "weights": "BQK"}
compare(broken("12.1"), right("12.1"), queries, keys, values, axes=axes)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two runs, one below the other, opened at the line of the softmax. Above, the broken one:
# each column of the weights sums to one. Below, the right one: each row sums to one.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Let them compute the rows in their heads. Then the question to the room: which
# values would show the sum of the weights, if the layer gives only its output back?

# %% [markdown] slideshow={"slide_type": "fragment"}
# The columns sum to one: each key shares its weight among the queries. The layer does not give its
# weights back, and need not. With the value 1 for every key the output *is* the sum of the weights:

# %% slideshow={"slide_type": "-"}
ones = torch.ones(1, 2, 1)
print("right: ", right("12.1")(queries, keys, ones).flatten())
print("broken:", broken("12.1")(queries, keys, ones).flatten())

# %% [markdown] slideshow={"slide_type": "skip"}
# Now write the test. `check` runs it on three right implementations, which it must accept, and on
# the exhibit, which it must reject. It says so if your test asserts nothing, or rejects everything.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.1** The softmax over the queries · *easy, 5 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_softmax_axis(attend):
    """Pass where each query spends a weight of 1, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and returns the
    output (B, Q, V). It returns no weights. Which values would show you their sum?
    """
    ...


check("12.1", test_softmax_axis)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Room 1: softmax and masks
#
# ### 12.3 · The mask that is read the other way
#
# **Seen.** TODO SEEN 12.3.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.3"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Guess.** Four tokens, each with a value of its own: row $i$ of the output shows the weights of
# token $i$. What does row 0 look like? And row 3?

# %% slideshow={"slide_type": "fragment"}
one_hot = torch.eye(4)[None]
print(broken("12.3")(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4), one_hot)[0])

# %% [markdown] slideshow={"slide_type": "-"}
# True means 'ignore' for `nn.MultiheadAttention` and 'attend' for `F.scaled_dot_product_attention`.
# Each token sees the future and nothing else; the last one sees nothing, and PyTorch gives it zeros.
# One-hot values are worth remembering: with them an output shows its weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Ask for the convention of the library that they use; few know it. Chapter 4 has the
# table.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.3** The mask that is read the other way · *easy, 6 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_inverted_mask(causal_attention):
    """Pass where no token sees a later one, and fail by an `AssertionError` otherwise.

    `causal_attention(queries, keys, values)` takes tensors (B, n, D), (B, n, D), (B, n, V) and
    returns (B, n, V). Token i should attend to the tokens 0 to i.
    """
    ...


check("12.3", test_inverted_mask)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.4 · NaN where there is nothing to attend to
#
# **Seen.** TODO SEEN 12.4.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.4"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Guess.** Query 0 may see both keys, query 1 none. Which numbers of the output are NaN? And of
# the gradients?

# %% slideshow={"slide_type": "fragment"}
mask = torch.tensor([[[True, True], [False, False]]])
for name, attend in {"right": right("12.4"), "broken": broken("12.4")}.items():
    X = torch.eye(2)[None].requires_grad_()
    output = attend(X, X, X, mask)
    output.sum().backward()
    print(f"{name:6} output {output.tolist()}\n       gradient {X.grad.tolist()}")

# %% [markdown] slideshow={"slide_type": "-"}
# One empty row is enough: the gradient of the keys is a sum over all queries, and a sum with a NaN
# in it is NaN. After one step of training every parameter is NaN. An empty row need not be a
# mistake of the user: a sentence of padding, or a window that reaches before the first token, has
# one.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Ask first where an empty row could come from in their own code.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.4** NaN where there is nothing to attend to · *easy, 6 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_nothing_to_see(attend):
    """Pass where a query without keys gets zeros, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and a mask
    (B, Q, K), True where a query may attend, and returns the output (B, Q, V). A query that may
    attend to no key at all gets the output 0.
    """
    ...


check("12.4", test_nothing_to_see)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Room 2: shapes and heads
#
# ### 12.8 · The mask that lands on the heads
#
# **Seen.** TODO SEEN 12.8.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.8"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Guess.** The mask has the shape $(B, Q, K)$, the scores $(B, H, Q, K)$. With $B = 3$ sentences
# and $H = 2$ heads this is an error. What happens with $B = 2$?

# %% slideshow={"slide_type": "subslide"}
torch.manual_seed(0)
q, k, v = (torch.randn(2, 2, 3, 4) for _ in range(3))  # (B, H, n, D)
lengths = torch.tensor([1, 3])
mask = (torch.arange(3) < lengths[:, None, None]).expand(2, 3, 3)  # (B, Q, K)
difference = (broken("12.8")(q, k, v, mask) - right("12.8")(q, k, v, mask)).abs()
print("largest difference\n           head 0  head 1")
for sentence, row in enumerate(difference.amax(dim=(-1, -2)).tolist()):
    print(f"sentence {sentence}  {row[0]:5.2f}   {row[1]:5.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# Shapes are lined up from the end, so the mask is read as $(1, B, Q, K)$, and its first axis lies
# on the heads: head 0 of *every* sentence gets the mask of sentence 0. No error, two of four
# results right. Give every axis of a test a size of its own, **and** try equal sizes once.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Five minutes, the best exhibit for pairs. A debugging session with 8 sentences and 8 heads, the
# usual numbers, would never stop here.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.8** The mask that lands on the heads · *hard, 12 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_mask_on_heads(attend):
    """Pass where each sentence has its own mask, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask)` takes tensors (B, H, Q, D), (B, H, K, D), (B, H, K, V)
    and a mask (B, Q, K), True where a query may attend, the same for all heads of a sentence. It
    returns (B, H, Q, V). Each query may attend to one key at least. Where B and H differ, the
    broken one raises an error, which needs no test of yours: find the case where it is silent.
    """
    ...


check("12.8", test_mask_on_heads)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Room 3: positions and time
#
# ### 12.16 · 98 percent right
#
# **Seen.** TODO SEEN 12.16.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.16"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# This was model B. How many next words of new sentences does it predict?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
is_word = valid[:, 1:] != 0
for name in "CB":
    with torch.no_grad():
        guesses = models["ABCDE".index(name)](valid[:, :-1]).argmax(dim=-1)
    print(f"model {name}: {(guesses == valid[:, 1:])[is_word].float().mean():.1%} right")

# %% [markdown] slideshow={"slide_type": "-"}
# A result that is too good is a finding, too. What would the best possible model reach? The
# sentences are drawn at random, so nobody can know most of the next words.
#
# The test needs no model: two sentences with the same beginning must have the same outputs there,
# whatever comes behind.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Before the number, ask what a perfect model would reach on this grammar.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.16** 98 percent right · *medium, 8 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_no_future(attend_to_the_past):
    """Pass where no token sees a later one, and fail by an `AssertionError` otherwise.

    `attend_to_the_past(X)` is causal self-attention without matrices: (B, n, D) -> (B, n, D).
    """
    ...


check("12.16", test_no_future)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.17 · A mask that goes home after work
#
# **Seen.** TODO SEEN 12.17.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.17").forward)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Guess.** In which of three situations is something wrong: while training, while validating on
# whole sentences, while writing word by word?

# %% slideshow={"slide_type": "subslide"}
attention = broken("12.17")()
X = torch.randn(1, 5, 8)
other = X.clone()
other[:, 3:] = 0.0  # another future
for training in (True, False):
    attention.train(training)
    outputs = []
    for inputs in (X, other):
        torch.manual_seed(0)  # the same dropout in both runs
        outputs.append(attention(inputs)[:, :3])
    change = (outputs[0] - outputs[1]).abs().max()
    print(f"training={training!s:5}  change before position 3: {change:.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# Training is right. Writing is right, too, because there the future does not exist yet. Only the
# validation loss is wrong, and it is the number that decides which model is kept.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. The book's decoder block does this: `if self.training`. Its validation loss is
# the loss of a decoder that reads ahead.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.17** A mask that goes home after work · *hard, 12 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_in_both_modes(attention):
    """Pass where no token ever sees a later one, and fail by an `AssertionError` otherwise.

    `attention` is a module for causal self-attention, (B, n, D) -> (B, n, D), with dropout: new,
    and in training mode.
    """
    ...


check("12.17", test_in_both_modes)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Room 4: training and measuring
#
# ### 12.18 · A loss that is too good
#
# **Seen.** TODO SEEN 12.18.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.18"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Guess.** A model predicts padding well, as any model soon does. What does the loss do when the
# batch gets a longer sentence, and more padding with it?

# %% slideshow={"slide_type": "fragment"}
logits, targets = torch.zeros(1, 12, 5), torch.zeros(1, 12, dtype=torch.long)
logits[:, 4:, 0] = 9.0  # behind the four words it is sure: padding, token 0
print("length   right  broken")
for n in (4, 8, 12):
    batch = logits[:, :n], targets[:, :n], torch.tensor([4])
    print(f"{n:6}   {right('12.18')(*batch):5.2f}   {broken('12.18')(*batch):5.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# The words are predicted equally badly each time; the loss falls to a third. Losses of batches
# with different padding cannot be compared, and the gradient of the words shrinks with them.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Ask what else in a training loop takes a mean over tokens: accuracy, perplexity.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.18** A loss that is too good · *medium, 8 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_words_only(mean_loss):
    """Pass where the loss is the mean over the words, and fail by an `AssertionError` otherwise.

    `mean_loss(logits, targets, lens)` takes logits (B, n, V), right tokens (B, n) and lengths
    (B,), and returns a number: the mean of the cross-entropies of all tokens that are no padding.
    """
    ...


check("12.18", test_words_only)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.21 · It learns all the same
#
# **Seen.** TODO SEEN 12.21.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.21"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# This was model A: its outputs are right to the last digit, and it learned nearly as well as C.
# How far did the query matrices of the two move in 300 steps?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
torch.manual_seed(0)
start = LanguageModel(len(vocab), "none").W_q.weight
for name in "CA":
    moved = models["ABCDE".index(name)].W_q.weight - start
    print(f"model {name}: W_q moved by {moved.norm() / start.norm():.0%} of its length")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that only the right model's queries have learned
assert torch.equal(models[0].W_q.weight, start) and not torch.equal(models[2].W_q.weight, start)
print("checked: W_q of model A is what it was before training, bit for bit")

# %% [markdown] slideshow={"slide_type": "-"}
# Values, network and output learned around an attention that looks where chance has put it. No
# output shows that; the gradients do. Print once, for every parameter, how far it has moved.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.21** It learns all the same · *hard, 10 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_scores_can_learn(attend):
    """Pass where queries and keys can learn, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values)` is that of 12.1.
    """
    ...


check("12.21", test_scores_can_learn)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Ten tests to take away
#
# The questions of the exhibits fit any attention layer. `check_attention` asks ten of them:

# %% slideshow={"slide_type": "-"}
for number, known in enumerate(PROPERTIES, start=1):
    print(f"{number:2}  {known.name:30} {known.meaning}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### On a layer of your own
#
# It takes a layer or a function with the arguments of this course, of D2L or of
# `nn.MultiheadAttention`. Here is exhibit 12.2, whose mask comes after the softmax:

# %% slideshow={"slide_type": "-"}
print(check_attention(broken("12.2")))

# %% [markdown] slideshow={"slide_type": "skip"}
# A report says what was seen and which mistakes do that. TODO FILE.

TODO CAUGHT.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention with a mistake in it has the right shape and learns. In our run two broken models had
#   a lower validation loss than the right one, and two were as good within 0.15.
# - A loss says how well a model does with the attention that it has. Ask the attention itself: for
#   an answer that you know, for two runs that must agree, for two ways to one number.
# - Values of 1 show the sum of the weights; one-hot values show the weights.
# - Test with unequal sizes and once with equal ones; with an empty row; in both modes; with another
#   future; with more padding; in half precision; for the gradients.
# - Ten questions found TODO FOUND. of the exhibits that can be seen from outside. A wrong scale
#   and a
#   cut gradient are not among what they see.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Each exhibit has its exercise beside it: the test that catches it. `hint("12.1")` gives one more
# hint each time, and `solution("12.1")` shows a whole test. The other thirteen exhibits follow in
# *Going further*, with theirs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# The other exhibits, room by room, in any order. The hard ones are marked in the line of their
# exercise.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### More of room 1
#
# *5 minutes.*
#
# #### 12.2 · The mask after the softmax
#
# **Seen.** TODO SEEN 12.2.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.2"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** A query sees two of three keys, and all three scores are equal. What do its weights sum
# to?

# %% slideshow={"slide_type": "-"}
mask = torch.tensor([[[True, True, False]]])
zeros, ones = torch.zeros(1, 1, 4), torch.ones(1, 3, 1)
for name, attend in {"right": right("12.2"), "broken": broken("12.2")}.items():
    print(f"{name:6} {attend(zeros, torch.zeros(1, 3, 4), ones, mask).item():.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# The hidden key has weight 0, as it should, but it has taken its share first.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.2** The mask after the softmax · *easy, 6 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_mask_after_softmax(attend):
    """Pass where the visible keys share all the weight, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and a mask
    (B, Q, K), True where a query may attend (to one key at least), and returns the output
    (B, Q, V). In both implementations a hidden value changes nothing: look at the others.
    """
    ...


check("12.2", test_mask_after_softmax)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.5 · The mask that overwrites the scores
#
# **Seen.** TODO SEEN 12.5.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.5"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** One underscore is wrong. Who notices?

# %% slideshow={"slide_type": "-"}
scores = torch.zeros(1, 1, 3)
print("weights", broken("12.5")(scores, torch.tensor([2])))
print("scores ", scores)

# %% [markdown] slideshow={"slide_type": "-"}
# Whoever uses the scores again: a figure of them, a second mask, a second layer that shares them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.5** The mask that overwrites the scores · *easy, 6 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_fill_in_place(masked_softmax):
    """Pass where the caller's scores stay as they were, and fail by an `AssertionError` if not.

    `masked_softmax(scores, valid_lens)` takes scores (B, Q, K) and the lengths (B,) of the
    sentences, 1 or more, and returns weights (B, Q, K). The weights of both implementations are
    right.
    """
    ...


check("12.5", test_fill_in_place)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.6 · The padding that nobody may see, evenly seen
#
# **Seen.** TODO SEEN 12.6.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.6"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** A sentence of length 0 has four places of padding. What are their weights?

# %% slideshow={"slide_type": "-"}
print(broken("12.6")(torch.zeros(1, 1, 4), torch.tensor([0])))

# %% [markdown] slideshow={"slide_type": "-"}
# Four scores of $-10^6$ are four equal scores. The softmax sees only differences.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.6** The padding that nobody may see, evenly seen · *medium, 7 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_finite_fill(masked_softmax):
    """Pass where padding never gets a weight, and fail by an `AssertionError` otherwise.

    `masked_softmax(scores, valid_lens)` takes scores (B, Q, K) and the lengths (B,) of the
    sentences and returns weights (B, Q, K). Keys from the length on are padding and get the
    weight 0.
    """
    ...


check("12.6", test_finite_fill)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.7 · A billion in half precision
#
# **Seen.** TODO SEEN 12.7.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.7"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** float16 holds numbers up to 65,504. What becomes of $-10^9$, and for which row does it
# matter?

# %% slideshow={"slide_type": "-"}
mask = torch.tensor([[True, True, False], [False, False, False]])
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    weights = broken("12.7")(torch.zeros(2, 3, dtype=dtype), mask)
    print(f"{str(dtype):15} {weights.tolist()}")

# %% [markdown] slideshow={"slide_type": "-"}
# It becomes $-\infty$. A row of which something is left is right even so; a row without any key
# is NaN, and NaN times 0 is NaN.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.7** A billion in half precision · *hard, 10 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_half_precision(masked_softmax):
    """Pass where the weights are right in each of torch's types, and fail by an `AssertionError`.

    `masked_softmax(scores, mask)` takes scores (Q, K) and a mask (Q, K), True where a query may
    attend, and returns weights (Q, K) of the scores' type. A row without any True gets zeros. In
    float32 both implementations are right.
    """
    ...


check("12.7", test_half_precision)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### More of room 2
#
# *5 minutes.*
#
# #### 12.9 · `view` instead of `transpose`
#
# **Seen.** TODO SEEN 12.9.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.9"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** Three tokens of four numbers, 0 to 11, and two heads. Which numbers should head 0 see
# of the first token, and which does it see as its 'tokens'?

# %% slideshow={"slide_type": "-"}
X = torch.arange(12).reshape(1, 3, 4)
print("right, head 0: ", X.view(1, 3, 2, 2).transpose(1, 2)[0, 0].tolist())
print("broken, head 0:", X.view(1, 2, 3, 2)[0, 0].tolist())

# %% [markdown] slideshow={"slide_type": "-"}
# Head 0 takes all of token 0 and half of token 1, and calls them three tokens. The shape is right,
# and a second `reshape` at the end puts the numbers back to where they came from. Chapter 6 steps
# through it.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.9** A view instead of a transpose · *medium, 10 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_view_for_transpose(self_attention):
    """Pass where each head sees its part of each token, and fail by an `AssertionError` otherwise.

    `self_attention(X, num_heads)` takes X (B, n, D), where D is a multiple of `num_heads`, and
    returns (B, n, D). Head 0 works with the first D / H numbers of each token, head 1 with the
    next, and so on; there are no parameters, and no positions.
    """
    ...


check("12.9", test_view_for_transpose)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.10 · Divided by d instead of its root
#
# **Seen.** TODO SEEN 12.10.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.10"))

# %% [markdown] slideshow={"slide_type": "-"}
# This was model E. **Guess.** Vectors of 64 random numbers: how large is the largest of eight
# weights, on average?

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
q, k, one_hot = torch.randn(1000, 1, 64), torch.randn(1000, 8, 64), torch.eye(8).expand(1000, 8, 8)
for name, attend in {"right": right("12.10"), "broken": broken("12.10")}.items():
    print(f"{name:6} {attend(q, k, one_hot).amax(dim=-1).mean():.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# Equal weights would be 0.125 each. Training repaired this in model E by larger $W_q$ and $W_k$.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.10** Divided by d instead of its root · *medium, 8 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_scale_by_d(attend):
    """Pass where scores are divided by the root of D, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and returns
    (B, Q, V). A query (1, 1, 1, 1) and the keys (0, 0, 0, 0) and (1, 1, 1, 1) have the scores 0
    and 2.
    """
    ...


check("12.10", test_scale_by_d)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.11 · Every token by itself
#
# **Seen.** TODO SEEN 12.11.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.11"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** The kernel attends over the axis before the last. Which axis is that here?

# %% slideshow={"slide_type": "-"}
X = torch.randn(1, 5, 2, 4)  # (B, n, H, D)
other = X.clone()
other[:, 1:] = 0.0  # all tokens but the first
for name, attend in {"right": right("12.11"), "broken": broken("12.11")}.items():
    change = (attend(X, X, X) - attend(other, other, other))[:, 0].abs().max()
    print(f"{name:6} change of token 0: {change:.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# The heads of one token attend to each other, and no token hears of another.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.11** Every token by itself · *medium, 8 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_heads_for_tokens(attend):
    """Pass where tokens attend to each other, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values)` takes three tensors (B, n, H, D), n tokens with H heads each,
    and returns the output (B, n, H, D). In each head each token attends to all n tokens.
    """
    ...


check("12.11", test_heads_for_tokens)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.12 · Two mistakes that hide each other
#
# **Seen.** TODO SEEN 12.12.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.12"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** There are three lines that differ from the usual ones. Without a mask the result is
# right all the same. Why? And with a causal mask?

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
q, k, one_hot = torch.randn(1, 3, 4), torch.randn(1, 3, 4), torch.eye(3)[None]
causal = torch.ones(1, 3, 3, dtype=torch.bool).tril()
for mask in (None, causal):
    gap = (broken("12.12")(q, k, one_hot, mask) - right("12.12")(q, k, one_hot, mask)).abs().max()
    print("no mask:    " if mask is None else "causal mask:", f"largest difference {gap:.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# The scores are turned over, and so is the softmax; at the end the weights are turned back. The
# mask comes in between and is not turned: token 0 sees all, the last token only itself.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.12** Two mistakes that hide each other · *hard, 12 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_hidden_by_each_other(attend):
    """Pass where a mask hides keys from queries, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask=None)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and a
    mask (B, Q, K), True where a query may attend (to one key at least). It returns (B, Q, V).
    Without a mask both implementations are right, whatever the sizes.
    """
    ...


check("12.12", test_hidden_by_each_other)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### More of room 3
#
# *4 minutes.*
#
# #### 12.13 · Positions that never arrive
#
# **Seen.** TODO SEEN 12.13.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.13"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** Token 2 stands at positions 0 and 1. By how much do its two rows differ?

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
vectors, positions = torch.randn(5, 4), torch.randn(9, 4)
for name, embed in {"right": right("12.13"), "broken": broken("12.13")}.items():
    X = embed(torch.tensor([[2, 2]]), vectors, positions)
    print(f"{name:6} {(X[0, 0] - X[0, 1]).norm():.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# The sum is computed and thrown away. The model still trains, as a bag of words.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.13** Positions that never arrive · *easy, 5 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_positions_arrive(embed):
    """Pass where a token's vector depends on its position; fail by an `AssertionError` otherwise.

    `embed(tokens, vectors, positions)` takes token numbers (B, n), the vectors of the vocabulary
    (V, D) and an encoding of the positions (max_len, D), and returns (B, n, D): each token's vector
    times the root of D, plus the row of its position.
    """
    ...


check("12.13", test_positions_arrive)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.14 · One column too many
#
# **Seen.** TODO SEEN 12.14.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.14"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** For which sizes does it work?

# %% slideshow={"slide_type": "-"}
for D in (4, 5, 6, 7):
    try:
        print(D, tuple(broken("12.14")(3, D).shape))
    except RuntimeError as error:
        print(D, f"RuntimeError: {str(error)[:70]}")

# %% [markdown] slideshow={"slide_type": "-"}
# An error is the kindest way to fail. The test should look further: one quick repair leaves the
# last column of an odd size at 0, and says nothing.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.14** One column too many · *easy, 5 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_odd_size(sinusoids):
    """Pass where sizes of both kinds work; fail, by an error or an assert, otherwise.

    `sinusoids(n, D)` returns the encoding of n positions, (n, D): sines in the columns 0, 2, ...,
    cosines in 1, 3, ..., and column 2j and column 2j + 1 turn at the speed 10000^(-2j/D).
    """
    ...


check("12.14", test_odd_size)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.15 · Every word is the first
#
# **Seen.** TODO SEEN 12.15.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.15"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** Which step is the first with a wrong number?

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
X, positions = torch.randn(1, 4, 8), torch.randn(9, 8)
caches = {"right": [], "broken": []}
for t in range(4):
    one, other = (
        step(X[:, t : t + 1], caches[name], positions)
        for name, step in {"right": right("12.15"), "broken": broken("12.15")}.items()
    )
    print(f"step {t}: largest difference {(one - other).abs().max():.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# Training never calls this function. A loss cannot show what only decoding does.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.15** Every word is the first · *hard, 15 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_steps_equal_the_whole(step):
    """Pass where decoding step by step equals reading the whole; fail by an `AssertionError`.

    `step(x, cache, positions)` takes the vector of the next token (B, 1, D), the list of the
    tokens before it, `[]` at the start, and an encoding (max_len, D). It adds the position,
    appends to the list, and returns what self-attention (without matrices, divided by the root of
    D) gives for this token: (B, 1, D).
    """
    ...


check("12.15", test_steps_equal_the_whole)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### More of room 4
#
# *3 minutes.*
#
# #### 12.19 · The reference as the prediction
#
# **Seen.** TODO SEEN 12.19.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.19"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** For which pairs of sentences do both orders give the same score?

# %% slideshow={"slide_type": "-"}
pairs = [("le chat noir", "le chat est noir"), ("le chat noir dort", "le chat est noir")]
for prediction, reference in pairs:
    scores = [bleu(prediction, reference) for bleu in (right("12.19"), broken("12.19"))]
    print(f"right {scores[0]:.3f}  broken {scores[1]:.3f}  for {prediction!r}")

# %% [markdown] slideshow={"slide_type": "-"}
# With sentences of equal length the two agree. Most sentences of a test set are near that.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.19** The reference as the prediction · *easy, 8 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_order_of_arguments(bleu):
    """Pass where the prediction comes first, and fail by an `AssertionError` where it does not.

    `bleu(prediction, reference, k=2)` takes two sentences and returns the book's BLEU: exp(min(0,
    1 - words of the reference / words of the prediction)), times, for n = 1 to k, p_n to the
    power 1 / 2^n, where p_n is the share of the prediction's n-grams that the reference has.
    """
    ...


check("12.19", test_order_of_arguments)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.20 · The row that sums to more than one
#
# **Seen.** TODO SEEN 12.20. The bug is in the repair:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.20"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Guess.** Weights of 0.7, 0.2 and 0.1 are dropped with $p = 0.25$, many times. What is the mean
# of each?

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
weights = torch.tensor([0.7, 0.2, 0.1]).expand(100_000, 3)
for name, drop in {"right": right("12.20"), "broken": broken("12.20")}.items():
    dropped = drop(weights, 0.25)
    lost = dropped.isnan().any(dim=-1)
    print(f"{name:6} means {dropped[~lost].mean(dim=0).tolist()}  NaN in {lost.float().mean():.1%}")

# %% [markdown] slideshow={"slide_type": "-"}
# Dropout has to keep the mean of each weight, because in eval mode nothing is dropped. That a row
# then sums to 1.33 or to 0.4 is the price of a right mean.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.20** The row that sums to more than one · *medium, 10 minutes* · write the test
#
# Write the test that catches it.


# %% slideshow={"slide_type": "skip"}
def test_dropout_keeps_the_mean(drop):
    """Pass where dropout keeps the mean of each weight, and fail by an `AssertionError` otherwise.

    `drop(weights, p)` takes weights whose rows sum to one, (Q, K), and drops each with the
    probability p, as it is done while training.
    """
    ...


check("12.20", test_dropout_keeps_the_mean)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Ten questions to well-known layers
#
# *2 minutes.* TODO OTHERS.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From our own workshop
#
# *2 minutes.* TODO WORKSHOP.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# TODO SOURCES.
