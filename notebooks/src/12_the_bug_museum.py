# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · The bug museum
#
# **You will**
# - see broken attention train as well as right attention, and better;
# - find the first wrong number of an implementation, line by line;
# - write tests that catch twenty-one mistakes, modelled on real ones, without any training;
# - take ten tests with you that try any attention layer.
#
# Core path: 70 minutes. Going further: 60. Exercises: 177.
# An exercise stands beside its exhibit, and its time is counted apart.
#
# Builds on chapters 3, 4, 6, 7 and 8. *Dive into Deep Learning* (D2L) has no chapter on tests. Six
# of the exhibits are modelled on the code or the discussions of its chapter 11.

# %% [markdown] slideshow={"slide_type": "notes"}
# A plan for 45 minutes: the five losses 8, the first exhibit 8, the four rooms 5 each, the ten
# tests 6, questions 3. The exhibits can be read in any order: take those that your students have
# met.
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
# One minute. Ask who has ever had a model that trained well and was wrong.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Five losses, one of them honest
#
# A wrong sort stops with an error or gives a wrong list. Wrong attention gives numbers of the right
# shape, and the model around it learns with whatever it gets. Here is attention with a causal mask,
# and four mistakes that can be switched on. You will meet them again below.


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
    "none",
    "one word too many",
    "softmax over queries",
    "divided by d",
    "no gradient to the scores",
]
models, curves = {}, {}
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
    models[bug], curves[bug] = model.eval(), curve

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which one is right?
#
# All five start with the same parameters and see the same batches, for 300 steps.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the five loss curves, without names
figure, ax = plt.subplots(figsize=(9, 3.8))
styles = ["-", "--", "-.", ":", (0, (5, 1, 1, 1))]
for (name, curve), style in zip(
    sorted(zip("CBDEA", curves.values(), strict=True)), styles, strict=True
):
    smooth = torch.tensor(curve).unfold(0, 20, 1).mean(dim=-1)
    ax.plot(smooth, linestyle=style, linewidth=2.5, label=f"model {name}")
ax.set(xlabel="step", ylabel="training loss", title="Five models learn; one of them is right")
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: five training losses over 300 steps, models A to E. All begin near 5. B falls to almost 0
# within 100 steps. D ends a little below the other three, which lie close together near 2.7, A a
# little above C and E.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Which model is the right one? And would you have stopped the training of any of the
# others?

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room vote, B and D included. Then run the next cell. Ask what one would have to measure
# to find the mistakes of A and E.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The answer

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
with torch.no_grad():
    validation = {bug: loss_of(model, valid).item() for bug, model in models.items()}
for name, (bug, loss) in sorted(zip("CBDEA", validation.items(), strict=True)):
    print(f"model {name}: validation loss {loss:.2f}   bug: {bug}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says of the five losses
none, one_word, over_queries, by_d, no_gradient = validation.values()
assert one_word < 0.2 and over_queries < none - 0.1
assert abs(no_gradient - none) < 0.15 and abs(by_d - none) < 0.15

# %% [markdown] slideshow={"slide_type": "-"}
# C is the right one. In this run two broken models have a *clearly lower* validation loss, and the
# other two are as good as C, within 0.15. B sees the word that it should predict. D divides by a
# sum over the queries, later ones too, so that the future leaks into it. A never learns where to
# look, and E begins by looking less sharply. Validation uses the same attention, so it says the
# same as training.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Let them write
#
# A loss near 0 should make us suspicious: nobody can know the next word of a random sentence. What
# does B do where there is no next word to look at?

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
torch.manual_seed(0)
for name, bug in {"C": "none", "B": "one word too many"}.items():
    tokens = torch.tensor([[1]])
    with torch.no_grad():
        for _ in range(9):
            likely = models[bug](tokens)[:, -1].softmax(dim=-1)
            tokens = torch.cat((tokens, likely.multinomial(1)), dim=1)
    print(f"model {name} writes:", *vocab.to_tokens(tokens[0, 1:].tolist()))

# %% [markdown] slideshow={"slide_type": "notes"}
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
# The first exhibit needs the first kind. For each exhibit the page has two functions,
# `broken("12.1")` and `right("12.1")`. Look at the right one, `show_source(right("12.1"))`, when
# your test stands. The exhibits keep their numbers; those that are missing here follow in *Going
# further*.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.1 · The softmax over the queries
#
# **Seen.** In a published image model the softmax ran over the queries. The maintainers called it
# a big bug, and its reporter measured that the pictures were as good as without it
# ([labml #146](https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.1"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Three queries meet two keys. Which sums are 1 now: rows, columns, or none?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The first wrong number
#
# `compare` runs this code and the right one on the same numbers, and opens both at the first name
# that differs:

# %% slideshow={"slide_type": "skip"}
queries = torch.tensor([[[2.0, 0], [0, 2], [1, 1]]])
keys = torch.tensor([[[2.0, 0], [0, 2]]])
values = torch.tensor([[[10.0, 0], [0, 10]]])
axes = {"scores": "BQK", "weights": "BQK"}

# %% slideshow={"slide_type": "-"}
compare(broken("12.1"), right("12.1"), queries, keys, values, axes=axes)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two runs, one below the other, opened at the line of the softmax. Above, the broken one:
# each column of the weights sums to one. Below, the right one: each row sums to one.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let them compute the rows in their heads. Then the question to the room: which
# values would show the sum of the weights, if the layer gives only its output back?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Values of one
#
# The columns sum to one: each key shares its weight among the queries. The layer does not give its
# weights back, and need not. With the value 1 for every key the output *is* the sum of the weights:

# %% slideshow={"slide_type": "-"}
ones = torch.ones(1, 2, 1)
print("right: ", right("12.1")(queries, keys, ones).flatten())
print("broken:", broken("12.1")(queries, keys, ones).flatten())

# %% [markdown] slideshow={"slide_type": "skip"}
# Now write the test. `check` runs it on three right implementations, which it must accept, and on
# the exhibit, which it must reject. It says so if your test asserts nothing, or rejects
# everything. 'Solved' means that it catches this exhibit; it may miss other mistakes.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.1** The softmax over the queries · *easy, 5 minutes* · write the test


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
# **Seen.** A textbook notebook builds a mask that is True for the future, and hands it to a
# function in which True means 'may attend'
# ([LLMs-from-scratch #1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061)). PyTorch's
# own two functions differ, which leads to silent mistakes
# ([pytorch #170415](https://github.com/pytorch/pytorch/pull/170415)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.3"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Four tokens, each with a value of its own: row $i$ of the output shows the weights of
# token $i$. What does row 0 look like? And row 3?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Who looks where

# %% slideshow={"slide_type": "-"}
one_hot = torch.eye(4)[None]
print(broken("12.3")(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4), one_hot)[0])

# %% [markdown] slideshow={"slide_type": "-"}
# True means 'ignore' for `nn.MultiheadAttention` and 'attend' for `F.scaled_dot_product_attention`.
# Each token sees the future and nothing else; the last one sees nothing, and PyTorch gives it
# zeros. One-hot values are worth remembering: with them an output shows its weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask for the convention of the library that they use; few know it. Chapter 4 has the
# table.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.3** The mask that is read the other way · *easy, 6 minutes* · write the test


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
# **Seen.** NaN from PyTorch's own attention where a row of the mask was empty
# ([pytorch #103963](https://github.com/pytorch/pytorch/issues/103963)); it gives zeros today. The
# plain formula still gives NaN.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.4"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Query 0 may see both keys, query 1 none. Which numbers of the output are NaN? And of
# the gradients of the values?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### One empty row

# %% slideshow={"slide_type": "-"}
mask = torch.tensor([[[True, True], [False, False]]])
q, k, v = (torch.eye(2)[None].requires_grad_() for _ in range(3))
for name, attend in {"right": right("12.4"), "broken": broken("12.4")}.items():
    output = attend(q, k, v, mask)
    gradient = torch.autograd.grad(output.sum(), v)[0]
    print(f"{name}: output {output[0, 1].tolist()} for query 1")
    print(f"    gradient of the values {gradient[0].tolist()}")

# %% [markdown] slideshow={"slide_type": "-"}
# One empty row is enough: the gradient of a value is a sum over all queries, and a sum with a NaN
# in it is NaN. So all values are lost, also for query 0. An empty row need not be a mistake of the
# user: a sentence of padding has one.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask first where an empty row could come from in their own code.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.4** NaN where there is nothing to attend to · *easy, 6 minutes* · write the test


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
# **Seen.** A mask without an axis for the heads. Readers of one repository asked whether it could
# go wrong, and the answers disagreed
# ([hyunwoongko/transformer #32](https://github.com/hyunwoongko/transformer/issues/32)). Elsewhere
# it was an error, because B was not H
# ([vit-pytorch #71](https://github.com/lucidrains/vit-pytorch/issues/71)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.8"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The mask has the shape $(B, Q, K)$, the scores $(B, H, Q, K)$. With $B = 3$ sentences
# and $H = 2$ heads this is an error. What happens with $B = 2$?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### As many sentences as heads

# %% slideshow={"slide_type": "-"}
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
# results right. The repair is an axis for the heads, `mask[:, None]`. Give every axis of a test a
# size of its own, **and** try equal sizes once.

# %% [markdown] slideshow={"slide_type": "notes"}
# Five minutes, the best exhibit for pairs. A debugging session with 8 sentences and 8 heads, the
# usual numbers, would never stop here.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.8** The mask that lands on the heads · *hard, 12 minutes* · write the test


# %% slideshow={"slide_type": "skip"}
def test_mask_on_heads(attend):
    """Pass where each sentence has its own mask, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask)` takes tensors (B, H, Q, D), (B, H, K, D), (B, H, K, V)
    and a mask (B, Q, K), True where a query may attend, the same for all heads of a sentence. It
    returns (B, H, Q, V). Each query may attend to one key at least. Where B and H differ and
    neither is 1, the broken one raises an error: find the case where it is silent.
    """
    ...


check("12.8", test_mask_on_heads)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Room 3: positions and time
#
# ### 12.16 · 98 percent right
#
# **Seen.** A tiny Transformer reached 98% accuracy on its validation set after ten epochs, and
# wrote nonsense
# ([attention-is-all-you-need-pytorch #19](https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/19)).
# A commenter suspects the wrong kind of triangle, as in this code:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.16"))

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Too good
#
# This was model B. How many next words of new sentences does it predict?

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
is_word = valid[:, 1:] != 0
for name, bug in {"C": "none", "B": "one word too many"}.items():
    with torch.no_grad():
        guesses = models[bug](valid[:, :-1]).argmax(dim=-1)
    print(f"model {name}: {(guesses == valid[:, 1:])[is_word].float().mean():.1%} right")

# %% [markdown] slideshow={"slide_type": "-"}
# A result that is too good is a finding, too.
#
# The test needs no model: two sentences with the same beginning must have the same outputs there,
# whatever comes behind.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Before the number, ask what a perfect model would reach on this grammar.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.16** 98 percent right · *medium, 8 minutes* · write the test


# %% slideshow={"slide_type": "skip"}
def test_no_future(attend_to_the_past):
    """Pass where no token sees a later one, and fail by an `AssertionError` otherwise.

    `attend_to_the_past(X)` is causal self-attention without matrices: (B, n, D) -> (B, n, D).
    """
    ...


check("12.16", test_no_future)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.17 · A mask that is not always there
#
# **Seen.** The book's decoder block builds its causal mask inside `if self.training` (d2l 1.0.3,
# `TransformerDecoderBlock`).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.17").forward)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** In which of three situations is something wrong: while training, while validating on
# whole sentences, while writing word by word?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The same future in both modes

# %% slideshow={"slide_type": "-"}
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
# Training is right. Writing word by word with a cache is right, too, because there the future does
# not exist yet. The validation loss is wrong, and it decides which model is kept.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. The book's decoder block does this: `if self.training`. Its validation loss is
# the loss of a decoder that reads ahead.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.17** A mask that is not always there · *hard, 12 minutes* · write the test


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
# **Seen.** Losses that were divided by all positions, the padding included
# ([IBM/pytorch-seq2seq #125](https://github.com/IBM/pytorch-seq2seq/issues/125)). The book's
# `MaskedSoftmaxCELoss` sets the padding's losses to 0 and divides by all positions
# ([d2l-en #2707](https://github.com/d2l-ai/d2l-en/pull/2707)). Ours also adds them:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.18"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** A model predicts padding well, as any model soon does. What does the loss do when the
# batch gets a longer sentence, and more padding with it?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The same words, more padding

# %% slideshow={"slide_type": "-"}
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
# Two minutes. Ask what else in a training loop takes a mean over tokens: accuracy, perplexity.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.18** A loss that is too good · *medium, 8 minutes* · write the test


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
# **Seen.** A loss on attention maps was cut off by `detach()`, and the published training ran
# without its effect ([NAD #8](https://github.com/bboylyg/NAD/issues/8)). Ours is a small form of
# it:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.21"))

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### What has learned, and what has not
#
# This was model A. The layer's output is right to the last digit, and the model learned nearly as
# well as C. How far did the query matrices of the two move in 300 steps?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
torch.manual_seed(0)
start = LanguageModel(len(vocab), "none").W_q.weight
for name, bug in {"C": "none", "A": "no gradient to the scores"}.items():
    moved = models[bug].W_q.weight - start
    print(f"model {name}: W_q moved by {moved.norm() / start.norm():.0%} of its length")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that only the right model's queries have learned
assert torch.equal(models["no gradient to the scores"].W_q.weight, start)
assert not torch.equal(models["none"].W_q.weight, start)

# %% [markdown] slideshow={"slide_type": "-"}
# The rest of the model learned around two matrices that stay as chance has drawn them. No output
# shows that; the gradients do. Print once, for every parameter, how far it has moved.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.21** It learns all the same · *hard, 10 minutes* · write the test


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
    print(f"{number:2}  {known.name}")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### On a layer of your own
#
# It takes a layer or a function with the arguments of this course, of D2L or of
# `nn.MultiheadAttention`. Here is exhibit 12.2, whose mask comes after the softmax:

# %% slideshow={"slide_type": "skip"}
print(check_attention(broken("12.2")))

# %% [markdown] slideshow={"slide_type": "skip"}
# Where a question fails, the report says what it means, what was seen, and which mistakes do that.
# (That the weights sum to one is asked without a mask, so it holds here.)
# The shell command `python -m d2l_attention.testing test_my_attention.py` writes the ten as one
# file for pytest that needs only torch: take it to your own project.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which question finds which exhibit?


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws which of the ten questions find which exhibit
def plain_or_causal(causal):
    def attend(queries, keys, values, is_causal=False):
        return (causal if is_causal else right("12.1"))(queries, keys, values)

    return attend


def with_softmax(masked_softmax):
    def attend(queries, keys, values, valid_lens=None):
        lens = torch.full((len(keys),), keys.shape[1]) if valid_lens is None else valid_lens
        return masked_softmax(queries @ keys.mT / queries.shape[-1] ** 0.5, lens) @ values

    return attend


def with_mask(masked_softmax):
    def attend(queries, keys, values, mask):
        return masked_softmax(queries @ keys.mT / queries.shape[-1] ** 0.5, mask) @ values

    return attend


def in_heads(function):
    def attend(queries, keys, values, mask):
        q, k, v = (X.unflatten(-1, (3, -1)).transpose(1, 2) for X in (queries, keys, values))
        return function(q, k, v, mask.expand(len(q), -1, -1)).transpose(1, 2).flatten(2)

    return attend


def heads_last(function):
    def attend(queries, keys, values):
        return function(*(X.unflatten(-1, (3, -1)) for X in (queries, keys, values))).flatten(2)

    return attend


class InModes(nn.Module):
    def __init__(self, made):
        super().__init__()
        self.inner = made()

    def forward(self, queries, keys, values, is_causal=False):
        return self.inner(queries) if is_causal else right("12.1")(queries, keys, values)


ways = dict.fromkeys(["12.1", "12.2", "12.4", "12.10", "12.12", "12.21"], lambda attend: attend)
ways |= {"12.3": plain_or_causal, "12.5": with_softmax, "12.6": with_softmax, "12.7": with_mask}
ways |= {"12.8": in_heads, "12.11": heads_last, "12.17": InModes}
ways["12.16"] = lambda attend: plain_or_causal(lambda q, k, v: attend(q))
ids = sorted(ways, key=lambda number: int(number[3:]))
names = [known.name for known in PROPERTIES]
found, asked = torch.zeros(len(ids), len(names)), torch.ones(len(ids), len(names))
for row, number in enumerate(ids):
    dtype = torch.float16 if number == "12.7" else torch.float32
    good, bad = (check_attention(ways[number](f(number)), dtype=dtype) for f in (right, broken))
    for name in set(bad.failed) - set(good.failed):
        found[row, names.index(name)] = 1
    for name in bad.not_tried:
        asked[row, names.index(name)] = 0
num_found = int(found.any(dim=1).sum())
figure, ax = plt.subplots(figsize=(8, 6.2))
ax.pcolormesh(found.flip(0), cmap="Greys", vmin=0, vmax=1.3, edgecolors="0.8", linewidth=0.8)
for row, column in (asked.flip(0) == 0).nonzero().tolist():
    ax.text(column + 0.5, row + 0.45, "–", ha="center", va="center", color="0.45")
ax.set_yticks(torch.arange(len(ids)) + 0.5, ids[::-1])
ax.set_xticks(torch.arange(10) + 0.5, names, rotation=40, ha="right", rotation_mode="anchor")
ax.set(ylabel="exhibit", title=f"Ten questions find {num_found} of these {len(ids)} exhibits")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a grid of 14 exhibits and ten questions. A dark square is a question that fails on the
# broken implementation and not on the right one, and a dash one that cannot be asked. 'The future
# changes nothing' finds five exhibits, 'nothing to see is no accident' three; 12.11 fails seven
# questions. The rows of 12.5 and 12.10 are empty.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks which exhibits the ten questions miss
missed = [number for number, row in zip(ids, found, strict=True) if not row.any()]
assert missed == ["12.5", "12.10"] and num_found == 12

# %% [markdown] slideshow={"slide_type": "skip"}
# Two of the 14 stay hidden. 12.5 spoils the scores inside a layer, which nobody outside ever sees.
# 12.10 is another attention: a layer may choose its scale, so only a test that knows the scale
# finds it. 12.7 was called in float16. Where an exhibit is a softmax only, we put it into a plain
# attention. 12.9 takes one tensor and a number of heads, which `check_attention` does not know. The
# other six are no attention: positions, decoding, a loss, a measure, dropout.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Homework for those who write code for a living: run the file on a layer of their
# own project, and bring what fails.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention with a mistake in it has the right shape and learns. In our run, with one start, two
#   broken models had a clearly lower validation loss than the right one, and two were as good
#   within 0.15.
# - A loss says how well a model does with the attention that it has. Ask the attention itself: for
#   an answer that you know, for two runs that must agree, for two ways to one number.
# - Values of 1 show the sum of the weights; one-hot values show the weights.
# - Test with unequal sizes and once with equal ones; with an empty row; in both modes; with another
#   future; with more padding; in half precision; for the gradients.
# - Ten questions found 12 of the 14 exhibits that could be called as an attention. A wrong scale is
#   not among what they see.

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
# *16 minutes.*
#
# #### 12.2 · The mask after the softmax
#
# **Seen.** A text classifier's softmax ran over the padding, and the weights of the real words
# came out too small
# ([tf-rnn-attention #11](https://github.com/ilivans/tf-rnn-attention/issues/11)). In timm the
# mask came after the softmax in one of two paths
# ([timm #2236](https://github.com/huggingface/pytorch-image-models/pull/2236)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.2"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** A query sees two of three keys, and all three scores are equal. What do its weights
# sum to?

# %% slideshow={"slide_type": "skip"}
mask = torch.tensor([[[True, True, False]]])
zeros, ones = torch.zeros(1, 1, 4), torch.ones(1, 3, 1)
for name, attend in {"right": right("12.2"), "broken": broken("12.2")}.items():
    print(f"{name:6} {attend(zeros, torch.zeros(1, 3, 4), ones, mask).item():.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# The hidden key has weight 0, as it should, but it has taken its share first.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.2** The mask after the softmax · *easy, 6 minutes* · write the test


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
# **Seen.** The book's `masked_softmax` writes its fill into the scores of its caller
# ([d2l/torch.py](https://github.com/d2l-ai/d2l-en/blob/c3fb91b02a8ea24e15134326872983d773c494cf/d2l/torch.py));
# we ran it: d2l 1.0.3 leaves -1,000,000 there.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.5"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** One underscore is wrong. Who notices?

# %% slideshow={"slide_type": "skip"}
scores = torch.zeros(1, 1, 3)
print("weights", broken("12.5")(scores, torch.tensor([2])))
print("scores ", scores)

# %% [markdown] slideshow={"slide_type": "skip"}
# Whoever uses the scores again: a figure of them, a second mask, a second layer that shares them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.5** The mask that overwrites the scores · *easy, 6 minutes* · write the test


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
# #### 12.6 · An empty sentence looks at its padding
#
# **Seen.** The book's `masked_softmax` gives equal weights to the padding of an empty sentence
# ([d2l-en #2423](https://github.com/d2l-ai/d2l-en/pull/2423)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.6"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** A sentence of length 0 has four places of padding. What are their weights?

# %% slideshow={"slide_type": "skip"}
print(broken("12.6")(torch.zeros(1, 1, 4), torch.tensor([0])))

# %% [markdown] slideshow={"slide_type": "skip"}
# Four scores of $-10^6$ are four equal scores. The softmax sees only differences.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.6** An empty sentence looks at its padding · *medium, 7 minutes* · write the test


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
# **Seen.** Attention that gave NaN in float16 and was right in float32 and bfloat16, because of a
# fill of $-10^{10}$ ([flax #982](https://github.com/google/flax/issues/982); a similar one in
# [mlx #1725](https://github.com/ml-explore/mlx/issues/1725)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.7"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** float16 holds numbers up to 65,504. What becomes of $-10^9$, and for which row does
# it matter?

# %% slideshow={"slide_type": "skip"}
mask = torch.tensor([[True, True, False], [False, False, False]])
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    weights = broken("12.7")(torch.zeros(2, 3, dtype=dtype), mask)
    print(f"{str(dtype):15} {weights.tolist()}")

# %% [markdown] slideshow={"slide_type": "skip"}
# It becomes $-\infty$. A row of which something is left is right even so; a row without any key
# is NaN, and NaN times 0 is NaN.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.7** A billion in half precision · *hard, 10 minutes* · write the test


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
# *19 minutes.*
#
# #### 12.9 · A view instead of a transpose
#
# **Seen.** The published code of a model for time series exchanged two axes by `view`
# ([Informer2020 #59](https://github.com/zhouhaoyi/Informer2020/issues/59)). Readers ask why not,
# in repositories that are right
# ([annotated-transformer #118](https://github.com/harvardnlp/annotated-transformer/issues/118),
# [pytorch-seq2seq #148](https://github.com/bentrevett/pytorch-seq2seq/issues/148)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.9"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Three tokens of four numbers, 0 to 11, and two heads. Which numbers should head 0 see
# of the first token, and which does it see as its 'tokens'?

# %% slideshow={"slide_type": "skip"}
X = torch.arange(12).reshape(1, 3, 4)
print("right, head 0: ", X.view(1, 3, 2, 2).transpose(1, 2)[0, 0].tolist())
print("broken, head 0:", X.view(1, 2, 3, 2)[0, 0].tolist())

# %% [markdown] slideshow={"slide_type": "skip"}
# Head 0 takes all of token 0 and half of token 1, and calls them three tokens. The shape is right,
# and a second `reshape` at the end puts the numbers back to where they came from. Chapter 6 steps
# through it.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.9** A view instead of a transpose · *medium, 10 minutes* · write the test


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
# **Seen.** A scale without its root, with the root of all heads together, or upside down: nobody
# saw it in the results ([cntkx #10](https://github.com/delzac/cntkx/issues/10),
# [vit-pytorch #65](https://github.com/lucidrains/vit-pytorch/issues/65),
# [perceiver-io #9](https://github.com/esceptico/perceiver-io/issues/9)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.10"))

# %% [markdown] slideshow={"slide_type": "-"}
# This was model E. **Predict.** Vectors of 64 random numbers: how large is the largest of eight
# weights, on average?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
q, k, one_hot = torch.randn(1000, 1, 64), torch.randn(1000, 8, 64), torch.eye(8).expand(1000, 8, 8)
for name, attend in {"right": right("12.10"), "broken": broken("12.10")}.items():
    print(f"{name:6} {attend(q, k, one_hot).amax(dim=-1).mean():.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Equal weights would be 0.125 each. Model E learned as well as C all the same.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.10** Divided by d instead of its root · *medium, 8 minutes* · write the test


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
# **Seen.** A pull request reports that a published stereo model hands over tensors (B, n, H, D)
# where the kernel expects (B, H, n, D)
# ([FoundationStereo #217](https://github.com/NVlabs/FoundationStereo/pull/217); it was still open
# when we read it).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.11"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** The kernel attends over the axis before the last. Which axis is that here?

# %% slideshow={"slide_type": "skip"}
X = torch.randn(1, 5, 2, 4)  # (B, n, H, D)
other = X.clone()
other[:, 1:] = 0.0  # all tokens but the first
for name, attend in {"right": right("12.11"), "broken": broken("12.11")}.items():
    change = (attend(X, X, X) - attend(other, other, other))[:, 0].abs().max()
    print(f"{name:6} change of token 0: {change:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# The heads of one token attend to each other, and no token hears of another.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.11** Every token by itself · *medium, 8 minutes* · write the test


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
# **Seen.** A padding mask lay on the wrong axis, and a fill that was too weak hid it: the code
# worked because of a second mistake
# ([hyunwoongko/transformer #40](https://github.com/hyunwoongko/transformer/pull/40)). Our pair is
# another one:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.12"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** The scores are those of keys and queries, not of queries and keys, and the softmax
# runs over the other axis. Without a mask the result is right. Why? And with a causal mask?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
q, k, one_hot = torch.randn(1, 3, 4), torch.randn(1, 3, 4), torch.eye(3)[None]
causal = torch.ones(1, 3, 3, dtype=torch.bool).tril()
for mask in (None, causal):
    gap = (broken("12.12")(q, k, one_hot, mask) - right("12.12")(q, k, one_hot, mask)).abs().max()
    print("no mask:    " if mask is None else "causal mask:", f"largest difference {gap:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# The scores are turned over, and so is the softmax; at the end the weights are turned back. The
# mask comes in between and is not turned: token 0 sees all, the last token only itself.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.12** Two mistakes that hide each other · *hard, 12 minutes* · write the test


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
# *14 minutes.*
#
# #### 12.13 · Positions that never arrive
#
# **Seen.** In a library's example the sum was never assigned, so the positions took no effect
# ([pytorch-lightning #19138](https://github.com/Lightning-AI/pytorch-lightning/issues/19138)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.13"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Token 2 stands at positions 0 and 1. By how much do its two rows differ?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
vectors, positions = torch.randn(5, 4), torch.randn(9, 4)
for name, embed in {"right": right("12.13"), "broken": broken("12.13")}.items():
    X = embed(torch.tensor([[2, 2]]), vectors, positions)
    print(f"{name:6} {(X[0, 0] - X[0, 1]).norm():.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# The sum is computed and thrown away. The model still trains, as a bag of words.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.13** Positions that never arrive · *easy, 5 minutes* · write the test


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
# **Seen.** An encoding that stops for every odd size
# ([BERT-pytorch #78](https://github.com/codertimo/BERT-pytorch/issues/78)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.14"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** For which sizes does it work?

# %% slideshow={"slide_type": "skip"}
for D in (4, 5, 6, 7):
    try:
        print(D, tuple(broken("12.14")(3, D).shape))
    except RuntimeError as error:
        print(D, f"RuntimeError: {str(error)[:70]}")

# %% [markdown] slideshow={"slide_type": "skip"}
# An error is the kindest way to fail. The test should look further: one quick repair leaves the
# last column of an odd size at 0, and says nothing.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.14** One column too many · *easy, 5 minutes* · write the test


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
# **Seen.** With a cache, positions began at 0 for every new token, and the small models wrote
# garbage ([mlx-lm #93](https://github.com/ml-explore/mlx-lm/pull/93)). The book's step decoding
# does the same (d2l 1.0.3).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.15"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Which step is the first with a wrong number?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
X, positions = torch.randn(1, 4, 8), torch.randn(9, 8)
caches = {"right": [], "broken": []}
for t in range(4):
    one, other = (
        step(X[:, t : t + 1], caches[name], positions)
        for name, step in {"right": right("12.15"), "broken": broken("12.15")}.items()
    )
    print(f"step {t}: largest difference {(one - other).abs().max():.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Training never calls this function. A loss cannot show what only decoding does.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.15** Every word is the first · *hard, 15 minutes* · write the test


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
# *9 minutes.*
#
# #### 12.19 · The reference as the prediction
#
# **Seen.** Two chapters of the book called BLEU with the reference first, in one of its
# frameworks ([d2l-en #1780](https://github.com/d2l-ai/d2l-en/issues/1780)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.19"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** For which pairs of sentences do both orders give the same score?

# %% slideshow={"slide_type": "skip"}
pairs = [("le chat noir", "le chat est noir"), ("le chat noir dort", "le chat est noir")]
for prediction, reference in pairs:
    scores = [bleu(prediction, reference) for bleu in (right("12.19"), broken("12.19"))]
    print(f"right {scores[0]:.3f}  broken {scores[1]:.3f}  for {prediction!r}")

# %% [markdown] slideshow={"slide_type": "skip"}
# With sentences of equal length the two agree.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.19** The reference as the prediction · *easy, 8 minutes* · write the test


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
# **Seen.** Attention weights of 1.25, reported as a bug
# ([pytorch #42929](https://github.com/pytorch/pytorch/issues/42929)). They are right. A reader of
# another library proposes to make the rows sum to one again
# ([fairseq #351](https://github.com/facebookresearch/fairseq/issues/351)). The bug is in the
# repair:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.20"))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Weights of 0.7, 0.2 and 0.1 are dropped with $p = 0.25$, many times. What is the mean
# of each?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
weights = torch.tensor([0.7, 0.2, 0.1]).expand(100_000, 3)
for name, drop in {"right": right("12.20"), "broken": broken("12.20")}.items():
    dropped = drop(weights, 0.25)
    lost = dropped.isnan().any(dim=-1)
    print(f"{name:6} means {dropped[~lost].mean(dim=0)}  NaN in {lost.float().mean():.1%} of rows")

# %% [markdown] slideshow={"slide_type": "skip"}
# Dropout has to keep the mean of each weight, because in eval mode nothing is dropped. That a row
# then sums to 1.33 or to 0.4 is the price of a right mean.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.20** The row that sums to more than one · *medium, 10 minutes* · write the test


# %% slideshow={"slide_type": "skip"}
def test_dropout_keeps_the_mean(drop):
    """Pass where dropout keeps the mean of each weight, and fail by an `AssertionError` otherwise.

    `drop(weights, p)` takes weights whose rows sum to one, (Q, K), and drops each with the
    probability p, as it is done while training.
    """
    ...


check("12.20", test_dropout_keeps_the_mean)

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Ten questions to well-known layers
#
# *2 minutes.* We asked the ten questions of layers that other people use. The table was made on 23
# November 2026 by `python -m tests.benchmarks.other_implementations FOLDER` (with `--install`
# first), on a CPU, in float32 and in eval mode; what an implementation does not take is not
# tried. `nn.MultiheadAttention` is called as it is by default, so it computes its weights, too.
#
# | implementation | passed | where it fails |
# |---|---|---|
# | this course, `MultiHeadAttention` and `AdditiveAttention` | 10 of 10 | |
# | torch 2.13.0, `F.scaled_dot_product_attention` | 10 of 10 | |
# | x-transformers 2.31.10, `Attend` | 10 of 10 | |
# | espnet 202511, `MultiHeadedAttention` | 10 of 10 | |
# | torch 2.13.0, `nn.MultiheadAttention` | 9 of 10 | an empty row is NaN |
# | labml-nn 0.5.1, `MultiHeadAttention` | 9 of 10 | an empty row is NaN |
# | d2l 1.0.3, all three attention layers | 8 of 9 | an empty sentence sees its padding |
# | the formula of the Annotated Transformer | 9 of 10 | an empty sentence sees its padding |
#
# The failing question is always the same, the one of exhibits 12.4 and 12.6: what does a query
# get that may attend to nothing? Whoever never has an empty row loses nothing by it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### From our own workshop
#
# *2 minutes.* These mistakes were really made while this course was written.
#
# - A test for leaking padding had no sentence of length 0. A wrong mask of chapter 4 passed it. A
#   reader tried the test on that mask.
# - Additive attention by products of exponentials was ten times faster, and its numbers were
#   right. A test with large inputs gave NaN.
# - NaN in hidden keys reached the gradients of the queries, while all outputs were right. A
#   reviewer filled the padding with NaN and compared gradients.
# - A demonstration of translation was trained on sentences of the test set. A reader of the page
#   noticed.
# - The test for linear memory was made smaller to be fast, so small that a quadratic mask would
#   have passed it. All tests were green. Reading the whole change again found it.
# - The same test failed later, on a busy machine only, because the allocator had kept freed
#   memory: 210 MiB in place of 178. Running all tests beside two busy loops found it.
# - 'Half of the weight of *it* lies on the noun' was told without its control: 0.28 lay there
#   anyway. A reader asked for the control.
#
# A loss found none of them.
#

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# The threads are linked where an exhibit names them; we read them, in part or whole, in November
# 2026. An exhibit is a small function of ours modelled on a thread, not its code. For 12.8, 12.12
# and 12.21 we found no thread with exactly this mistake, only its relatives.
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning*, version 1.0.3, chapter
#   11, and its package d2l 1.0.3. [d2l.ai](https://d2l.ai)
# - A. M. Rush, *The Annotated Transformer*, 2018; revised by A. Huang and others, 2022.
# - A. Karpathy, *A Recipe for Training Neural Networks*, 2019: 'neural net training fails
#   silently'.
