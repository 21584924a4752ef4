# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · The bug museum
#
# **You will**
# - see broken attention train as well as right attention, and better;
# - find the first wrong number of an implementation;
# - write tests that catch real mistakes without any training;
# - learn how to debug a model of your own, and take ten tests with you.
#
# Core path: 60 to 90 minutes, in two sittings. Going further: 25. Exercises: 119. An exercise
# stands beside its exhibit, and its time is counted apart.
#
# Builds on chapters 3, 4, 6, 7 and 8. *Dive into Deep Learning* (D2L) has no chapter on tests; one
# exhibit is from its section 11.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes, with votes. If time is short, leave out 12.4 and the second half of *Your own model*;
# the exhibits can be read in any order. Run the notebook beforehand, because it trains 26 small
# models in a minute. In pairs: one writes a test, the other a bug that the test does not see.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import MultiHeadAttention, show_source
from d2l_attention.data import Vocab, load
from d2l_attention.data.batches import padded
from d2l_attention.exercises import check, hint, solution
from d2l_attention.exercises.chapter_12 import broken, right
from d2l_attention.testing import PROPERTIES, check_attention
from d2l_attention.views import compare, schematic
from d2l_attention.views.palette import CUT, FAINT, GREY, INK, RULE
from d2l_attention.views.plots import set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the whole machine with the places of the bugs marked
schematic("whole", here="where bugs hide")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the whole machine in two rows. Above, a sentence goes in, vectors and positions, the
# encoder's blocks, the decoder, a sentence comes out. Below is the inside of a block. Positions,
# scores, mask and softmax, and add & norm are marked: most of this chapter's bugs are there.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Point at the four marked boxes; each will have its bug.

# %% [markdown] slideshow={"slide_type": "subslide"}
# - **Attention** (chapter 3). A query's weights are the softmax of its scores $q \cdot k / \sqrt d$
#   over the keys. They sum to one, and the output is the average of the values with these weights.
# - **Masks** (chapter 4). A hidden score becomes $-\infty$ before the softmax, so that its weight
#   is 0. A causal mask hides the future: token $i$ sees the tokens 0 to $i$.
# - **Heads** (chapter 6). $D$ numbers are cut into $H$ pieces of $D / H$, and each piece attends by
#   itself.
# - **A test** is a function that ends quietly where the code is right, and stops with an
#   `AssertionError` where it is wrong.
#
# By hand: with the values 1, 1, 1 an average is 1, whatever the weights are, up to rounding. So
# `torch.testing.assert_close(output, torch.ones_like(output))` is a test of attention, and needs no
# second implementation.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask who has ever had a model that trained well and was wrong.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Five losses, one of them honest
#
# Wrong attention gives numbers of the right shape, and the model around it learns with whatever it
# gets. Here is attention with a causal mask, four mistakes that
# can be switched on, and two baselines.


# %% slideshow={"slide_type": "-"}
def causal_attention(q, k, v, bug):
    n, d = q.shape[1:]
    scores = q @ k.mT / (d if bug == "divided by d" else d**0.5)
    if bug == "equal weights":  # a baseline: the plain mean of the past
        scores = torch.zeros_like(scores)
    future = torch.ones(n, n, dtype=torch.bool).triu(2 if bug == "one word too many" else 1)
    scores = scores.masked_fill(future, -torch.inf)
    weights = scores.softmax(dim=-2 if bug == "softmax over queries" else -1)
    if bug == "no gradient to the scores":
        weights = weights.detach()
    return 0 * v if bug == "no attention" else weights @ v  # the other baseline


# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Read only the four places where `bug` stands, and the two baselines.

# %% [markdown] slideshow={"slide_type": "skip"}
# Around it stands a small language model: vectors and positions, this attention, a network. It
# reads the beginning of an English sentence of the built-in grammar (chapter 5) and predicts the
# next word. Each variant is trained from three starts, for 300 steps (40 seconds in all).


# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Trains the five models and the two baselines
class LanguageModel(nn.Module):
    def __init__(self, bug="none", D=64):
        super().__init__()
        self.bug = bug
        self.words, self.positions = nn.Embedding(len(vocab), D), nn.Embedding(40, D)
        self.W_q, self.W_k, self.W_v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.norm, self.out = nn.LayerNorm(D), nn.Linear(D, len(vocab))
        self.network = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, D))

    def embed(self, tokens):  # (B, n) -> (B, n, D)
        return self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))

    def forward(self, tokens):  # (B, n) -> logits (B, n, V)
        X = self.embed(tokens)
        X = X + causal_attention(self.W_q(X), self.W_k(X), self.W_v(X), self.bug)
        return self.out(X + self.network(self.norm(X)))


def loss_of(model, tokens):  # the mean over all words but the first, which nobody predicts
    logits = model(tokens[:, :-1]).flatten(0, 1)
    return F.cross_entropy(logits, tokens[:, 1:].flatten(), ignore_index=0)


corpus = load("grammar")
vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
sentences, valid = (
    padded([[1, *vocab[list(pair.source)], 2] for pair in pairs], 0)  # begin, words, end, padding
    for pairs in (corpus.train, corpus.valid)
)


def trained(make, seed=0, steps=300, batch=None):  # -> the model, and the loss of each step
    torch.manual_seed(seed)
    model, curve = make(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        drawn = sentences[torch.randint(len(sentences), (64,))]
        loss = loss_of(model, drawn if batch is None else batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return model.eval(), curve


letters = {
    "none": "C",
    "one word too many": "B",
    "softmax over queries": "D",
    "divided by d": "E",
    "no gradient to the scores": "A",
    "equal weights": "equal weights",
    "no attention": "no attention",
}
runs = {letter: [trained(partial(LanguageModel, bug), seed) for seed in range(3)]
        for bug, letter in letters.items()}  # fmt: skip
models = {letter: run[0][0] for letter, run in runs.items()}

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which one is right?
#
# Here are the losses of five models from one start. All five begin with the same parameters and see
# the same batches.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the five loss curves, without names
figure, ax = plt.subplots(figsize=(9, 3.8))
styles = ["-", "--", "-.", ":", (0, (5, 1, 1, 1))]
for name, style in zip("ABCDE", styles, strict=True):
    smooth = torch.tensor(runs[name][0][1]).unfold(0, 20, 1).mean(dim=-1)
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
# Three minutes. Let the room vote, B and D included. Then run the next cell. Ask what one would
# have to measure to find the mistakes of A and E.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The answer, beside two baselines

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Draws the validation losses of all starts, with the bugs' names
with torch.no_grad():
    validation = {
        letter: [loss_of(model, valid).item() for model, _ in run] for letter, run in runs.items()
    }
bugs = {letter: bug for bug, letter in letters.items()}
rows = sorted(validation, key=lambda letter: sum(validation[letter]))[1:]
figure, ax = plt.subplots(figsize=(9, 3.6))
for row, letter in enumerate(rows):
    baseline = len(letter) > 1
    marker = dict(marker="|", markersize=16, markeredgewidth=2) if baseline else dict(marker="o")
    ax.plot(
        validation[letter],
        [row] * 3,
        linestyle="",
        color=GREY if baseline else INK,
        **marker,
    )
names = [letter if len(letter) > 1 else f"{letter} · {bugs[letter]}" for letter in rows]
ax.set_yticks(range(len(rows)), [name.replace("C · none", "C · no bug") for name in names])
ax.set(xlabel="validation loss, three starts each", ylim=(-0.6, len(rows) - 0.4))
ax.set_title("With its gradient cut, attention gains nothing on equal weights")
ax.invert_yaxis()
plt.show()  # fmt: skip
for letter in ("B", *rows):
    print(f"{letter:13} {' '.join(f'{loss:.2f}' for loss in sorted(validation[letter]))}")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: validation losses of six models, three starts each. D, with its softmax over the queries,
# is near 2.4, below all. C, without a bug, and E, divided by d, are near 2.72. Equal weights are
# near 2.77, A, without a gradient to the scores, near 2.81, and no attention near 2.89. B is below
# 0.1 and not drawn.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says of the losses, in every start
assert max(validation["B"]) < 0.1 and max(validation["D"]) < min(validation["C"]) - 0.1
assert all(abs(e - c) < 0.05 for e, c in zip(validation["E"], validation["C"], strict=True))
assert max(validation["C"]) < min(validation["equal weights"]) < max(validation["A"])
assert max(validation["A"]) < min(validation["no attention"])
assert min(validation["A"]) > min(validation["equal weights"])

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. First the order from the top, then the grey marks: what are they for?

# %% [markdown] slideshow={"slide_type": "subslide"}
# C is the right one. B and D have a *lower* validation loss in all three starts. B sees the word
# that it should predict. D divides by a sum over the queries, later ones too, so that the future
# leaks into it. Validation uses the same attention, so it says the same as training.
#
# E is as good as C after these 300 steps. A looks almost as good, until the baselines are drawn: so
# far all of attention is worth 0.16 here, and equal weights have most of that. A, whose queries and
# keys cannot learn, is no better than equal weights. Whether 0.1 is much, only a baseline tells.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The moral for the board: a loss says how well the model does with the attention it
# has. It does not say which attention it has. And: no comparison without a baseline.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Let them write
#
# Nobody can know the next word of a random sentence, so a loss near 0 is suspicious. What does B do
# where there is no next word to look at?


# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Lets two models write
def write(model, words=9):
    torch.manual_seed(0)
    tokens = torch.tensor([[1]])
    with torch.no_grad():
        for _ in range(words):
            likely = model(tokens)[:, -1].softmax(dim=-1)
            tokens = torch.cat((tokens, likely.multinomial(1)), dim=1)
    return " ".join(vocab.to_tokens(tokens[0, 1:].tolist()))


for name in "CB":
    print(f"model {name} writes: {write(models[name])}")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. B has learned to copy the next word, and here there is none.

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
# Below, the heading of an exhibit says what can be seen of the bug. The code is ours, modelled on
# the code of the report. What is wrong with it is said after your guess. `broken("12.1")` and
# `right("12.1")` are an exhibit's two functions.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The three questions are the chapter; write them on the board.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The museum
#
# ### 12.1 · As good as without the bug
#
# **Seen.** A reader asked about one line of a teaching implementation of an image model. Its
# maintainer answered 'a big bug'. The reader then trained both: no difference in the quality of
# the pictures, and with more training the correct one was even a little worse
# ([labml #146](https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146),
# 2022). Here is the code, and what it computes for three queries and two keys:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.1"))

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Do not comment on the code yet.

# %% slideshow={"slide_type": "subslide"}
queries = torch.tensor([[[2.0, 0], [0, 2], [1, 1]]])
keys = torch.tensor([[[2.0, 0], [0, 2]]])
scores = queries @ keys.mT / 2**0.5
weights = broken("12.1")(queries, keys, torch.eye(2)[None])
axes = {"scores": "BQK", "weights": "BQK"}  # names for the view below
print(f"scores\n{scores[0]}\nweights\n{weights[0]}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Values that are 1 at one key and 0 at the others show the weights. Work out row 0 by
# hand: $e^{2.83} = 16.9$ and $e^0 = 1$. Which is the first wrong number?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Row 0 by hand on the board; the first wrong number is the first weight.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The first wrong number
#
# The scores are right. Row 0 should be 16.9 / 17.9 = 0.94 and 0.06, and its first weight is 0.77.
# `compare` runs two functions on the same numbers, and opens both where they first differ:

# %% slideshow={"slide_type": "-"}
compare(broken("12.1"), right("12.1"), queries, keys, torch.eye(2)[None], axes=axes)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two runs, one below the other, opened at the line of the softmax. Above, the broken one:
# each column of the weights sums to one. Below, the right one: each row sums to one.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them compute row 0 in their heads. Then the question to the room: which values
# would show the sum of the weights, if the layer gives only its output back?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Values of one
#
# **The softmax runs over the queries.** Columns sum to one: each key shares its weight among the
# queries. To see it without a second implementation, let all values be 1. Then the output *is* the
# sum of the weights:

# %% slideshow={"slide_type": "-"}
ones = torch.ones(1, 2, 1)
print("right: ", right("12.1")(queries, keys, ones).flatten())
print("broken:", broken("12.1")(queries, keys, ones).flatten())

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Values of one show sums, one-hot values show weights: both on the board.

# %% [markdown] slideshow={"slide_type": "skip"}
# Now write the test. `check` runs it on right implementations, which it must accept, and on broken
# ones, the exhibit and its relatives, which it must reject.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.1** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.2 · Right in the tests, wrong in the batch
#
# **Seen.** A user of a vision model took its example, with two images instead of one, and got an
# error: the sizes of two tensors did not match. The author: 'I left the heads to be implicitly
# broadcasted' ([vit-pytorch #71](https://github.com/lucidrains/vit-pytorch/issues/71), 2021). The
# readers of another repository do not agree whether its line can go wrong
# ([hyunwoongko/transformer #32](https://github.com/hyunwoongko/transformer/issues/32)). An error is
# the lucky case.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.2"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The mask has the shape $(B, Q, K)$, the scores $(B, H, Q, K)$. With $B = 3$ sentences
# and $H = 2$ heads this is an error. What happens with $B = 2$?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Write the two shapes below each other, lined up from the right.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Two sentences, two heads

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
q, k, v = (torch.randn(2, 2, 3, 4) for _ in range(3))  # (B, H, n, D)
lengths = torch.tensor([1, 3])
mask = (torch.arange(3) < lengths[:, None, None]).expand(2, 3, 3)  # (B, Q, K)
difference = (broken("12.2")(q, k, v, mask) - right("12.2")(q, k, v, mask)).abs()
print("largest difference\n           head 0  head 1")
for sentence, row in enumerate(difference.amax(dim=(-1, -2)).tolist()):
    print(f"sentence {sentence}  {row[0]:5.2f}   {row[1]:5.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# **The mask lands on the heads.** Shapes are lined up from the end, so the mask is read as
# $(1, B, Q, K)$: head 0 of *every* sentence gets the mask of sentence 0. No error, and two of four
# results are right. The repair is an axis for the heads, `mask[:, None]`. Give every axis of a test
# a size of its own, **and** try equal sizes once.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The best exhibit for pairs: a debugging session with 8 sentences and 8 heads, the
# usual numbers, would never stop here.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.2** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.3 · Right on the page, wrong in the chat
#
# **Seen.** In August 2026 somebody compared two ways of running a published model in a popular
# library: the whole text at once, and word by word with a cache. They disagreed for every token
# after the first ([mlx-vlm #1983](https://github.com/Blaizzy/mlx-vlm/issues/1983)). In April 2025
# the same was found in a related library's GPT-2: 'the smaller models tend to generate garbage',
# and the largest suffered less ([mlx-lm #93](https://github.com/ml-explore/mlx-lm/pull/93)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.3"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Four tokens are read one by one. Which is the first step with a wrong number, and
# which name in the code holds it?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let each write down a step and a name before you go on.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### All at once, and one by one
#
# This is a question of the third kind: two ways to one number.

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
X, positions, cache = torch.randn(1, 4, 8), torch.randn(9, 8), []
steps = torch.cat([broken("12.3")(X[:, t : t + 1], cache, positions) for t in range(4)], dim=1)
whole = X + positions[:4]
expected = F.scaled_dot_product_attention(whole, whole, whole, is_causal=True)
for t in range(4):
    wrong = (steps - expected)[:, t].abs().max()
    in_cache = (torch.cat(cache, dim=1) - whole)[:, t].abs().max()
    print(f"step {t}: output off by {wrong:.2f}, its entry in the cache by {in_cache:.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# **Every new token gets position 0.** Step 1 is the first that is wrong, and there it is `x`, in
# the first line, before any attention. Training and validation never call this function, so that
# no loss can show it. (In the GPT-2 a token that came alone got *no* position.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The most practical exhibit: whoever serves a model has such a function. Ask how
# they would test it without knowing the bug.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.3** · write the test

# %% [markdown] slideshow={"slide_type": "skip"}
# **A good place to stop.** You have seen a softmax over the queries, a mask that took sentences for
# heads, and new tokens that all got position 0, each with the question that finds it. Exhibits
# stand alone, so the others can wait.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.4 · A validation loss of another model
#
# **Seen.** The decoder block of D2L's section 11.7
# ([d2l.ai](https://d2l.ai/chapter_attention-mechanisms-and-transformers/transformer.html), version
# 1.0.3) asks `if self.training` before it does something. Ours does the same, in a small form:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.4").forward)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** In which of three situations is something wrong: while training; while validating on
# whole sentences; while writing word by word, with a cache?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Hands up for each of the three.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### One of three
#
# - **Training** is right.
# - **Writing** with a cache is right, too: there the future does not exist yet.
# - **Validation is wrong.** In eval mode there is no mask, and the whole sentence lies there to be
#   read. The model never learned to read it so: in chapter 8 a translator with this bug had more
#   than five times the loss. Better or worse, this loss is that of another model, and it can decide
#   which is kept.
#
# The question is of the second kind, asked twice: change the future, in training mode and in eval
# mode, and compare what comes before.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. In the book the mask is left out where sentences are written word by word, which is
# right, and its validation step runs in the same mode.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.4** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.5 · It learns all the same
#
# **Seen.** A released training script computed a loss on 'attention maps' and called `detach()`
# before `backward()`, so that this loss taught nothing; the training ran
# ([NAD #8](https://github.com/bboylyg/NAD/issues/8), 2022; fixed on the next day). Its maps are no
# queries and keys. We put the same mistake into attention:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.5"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** This was model A. In 300 steps C's matrix of queries moved by some part of its
# length. By how much did A's?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The title of the figure with the baselines is the clue.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### What has learned, and what has not

# %% slideshow={"slide_type": "fragment"} tags=["hide-input", "nbval-ignore-output"]
# Prints how far the matrices of the queries have moved
torch.manual_seed(0)
start = LanguageModel().W_q.weight
for name in "CA":
    moved = models[name].W_q.weight - start
    print(f"model {name}: W_q moved by {moved.norm() / start.norm():.0%} of its length")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that only the right model's queries have learned
assert torch.equal(models["A"].W_q.weight, start)
assert (models["C"].W_q.weight - start).norm() > 0.3 * start.norm()

# %% [markdown] slideshow={"slide_type": "-"}
# **No gradient reaches the scores.** The output is right to the last digit, and the rest of the
# model learned around two matrices that stay as chance has drawn them. No output shows that; the
# gradients do. Print once, for every parameter, how far it has moved.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Come back to the figure with the baselines: that is what the two matrices cost.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.5** · write the test

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Your own model
#
# Your model trains, and there is no second one. Begin with how far each parameter has moved (12.5).
# Then two more checks.
#
# ### Learn one batch by heart
#
# **At the start** a model that knows nothing has a loss near the logarithm of the number of words.
# **At the end** a model that knows eight sentences by heart still cannot know which of them has
# begun: that sets a floor. A model far above it has not learned them; a model *below* it knows what
# it cannot know.

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Counts the floor, and trains three models on one batch
eight = sentences[:8]
floor, known = 0.0, 0
for row in eight.tolist():
    for i in range(1, len(row)):
        if row[i] != 0:
            alike = [other for other in eight.tolist() if other[:i] == row[:i]]
            floor += math.log(len(alike) / sum(other[i] == row[i] for other in alike))
            known += 1
floor = floor / known
print(f"of a model that knows nothing: {math.log(len(vocab)):.2f}, floor: {floor:.2f}")
for name, bug in {"C": "none", "A": "no gradient to the scores", "B": "one word too many"}.items():
    _, curve = trained(partial(LanguageModel, bug), steps=200, batch=eight)
    print(f"model {name}: first loss {curve[0]:.2f}, last loss {curve[-1]:.2f}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says of the floor
assert 0.17 < floor < 0.2 and curve[-1] < floor / 3  # the last is B's

# %% [markdown] slideshow={"slide_type": "-"}
# C reaches the floor. B falls below it: caught, in a few seconds. A reaches it as well: one batch
# does not find every mistake.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Overfitting one batch is Karpathy's advice (2019). The floor is ours: without it the
# lower loss would have looked like the better model.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Compare with the kernel, and know the rounding
#
# PyTorch's kernel is a second implementation that you have for nothing. How close must yours be?
# Give it a small mistake, a scale of $\sqrt{63}$ instead of $\sqrt{64}$:


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
def attend(q, k, v, d=64):
    return (q @ k.mT / d**0.5).softmax(dim=-1) @ v


torch.manual_seed(0)
inputs = torch.randn(3, 5, 16, 64, dtype=torch.float64)
print("              right   small mistake")
for dtype in (torch.float64, torch.float32, torch.bfloat16):
    q, k, v = inputs.to(dtype)
    kernel = F.scaled_dot_product_attention(q, k, v)
    gaps = [(attend(q, k, v, d) - kernel).abs().max() for d in (64, 63)]
    print(f"{str(dtype)[6:]:9} {gaps[0]:9.0e} {gaps[1]:9.0e}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the sizes that the text names
for dtype, rounding in {torch.float64: 1e-14, torch.float32: 2e-6, torch.bfloat16: 0.04}.items():
    q, k, v = inputs.to(dtype)
    kernel = F.scaled_dot_product_attention(q, k, v)
    assert (attend(q, k, v) - kernel).abs().max() < rounding
    assert (attend(q, k, v, 63) - kernel).abs().max() > 0.005

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the last line: which of the two columns will bfloat16 confuse?

# %% [markdown] slideshow={"slide_type": "subslide"}
# Right code differs by rounding. Sums are taken in another order, and in bfloat16 our scores and
# weights are rounded, which those inside the kernel are not. It is some $10^{-15}$ in float64,
# $10^{-7}$ in float32, $10^{-2}$ in bfloat16. The mistake is 0.01 to 0.02 in all three, so
# that in bfloat16 it looks almost like rounding. Compare in float64 where you can, with a tolerance
# far above the rounding and far below a mistake, such as $10^{-10}$. `torch.testing.assert_close`
# has a tolerance for each type.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. If somebody widens a tolerance until a test passes, ask what the rounding was.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.6 · Too good, and the mask is right
#
# **Seen.** July 2017, a first implementation of the Transformer, one layer: 98% of the words of the
# validation set right after ten epochs, and nonsense when it writes. The reporter suspects the
# mask; a reader adds that the triangle or the axis of the softmax may be wrong
# ([#19](https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/19)). We read the
# code of that day: triangle and axis are right. Our small form of its block gives back all that it
# computes, by name:

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Two people suspected the mask, and the mask was right.


# %% slideshow={"slide_type": "subslide"}
class Block(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.network = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, D))

    def normalized(self, Z):
        mean = Z.mean(dim=1, keepdim=True)
        deviation = Z.std(dim=1, keepdim=True, correction=0)
        return (Z - mean) / (deviation + 1e-3)

    def run(self, X):  # (B, n, D) -> all results, in the order of the computation
        past = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril()
        scores = self.W_q(X) @ self.W_k(X).mT / X.shape[-1] ** 0.5
        scores = scores.masked_fill(~past, -torch.inf)
        weights = scores.softmax(dim=-1)
        added = X + weights @ self.W_v(X)
        normed = self.normalized(added)
        output = self.normalized(normed + self.network(normed))
        return dict(scores=scores, weights=weights, added=added, normed=normed, output=output)


# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Go on before anybody has read it to the end.


# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
# Trains a language model around this block, and model C for as many steps
class SixthModel(LanguageModel):
    def __init__(self, D=64):
        super().__init__()
        self.block = Block(D)

    def forward(self, tokens):
        return self.out(self.block.run(self.embed(tokens))["output"])


sixth, _ = trained(SixthModel, steps=600)
honest, _ = trained(LanguageModel, steps=600)
is_word, share = valid[:, 1:] != 0, {}
for name, model in {"sixth": sixth, "C": honest}.items():
    with torch.no_grad():
        hits = model(valid[:, :-1]).argmax(dim=-1) == valid[:, 1:]
    share[name] = hits[is_word].float().mean()
    print(f"model {name}: {share[name]:.0%} of the next words right, writes: {write(model)}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the sixth model is too good
assert share["sixth"] > 0.6 and share["C"] < 0.4

# %% [markdown] slideshow={"slide_type": "-"}
# Where does the future come in? This bug has no name on this page. Find the first number that knows
# too much: change the future, and compare everything that `run` gives back, one by one. The
# function that does it will serve you in any model.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Do not name it. Give the room the exercise; who has it tells nobody. The mistake
# was corrected in that repository two days after the report; somebody had sent the correction
# three days before it.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.6** · write the function

# %% [markdown] slideshow={"slide_type": "skip"}
# And now ask the block, which leaks before any training. (The line says `None` until your function
# finds the leak.)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
print(first_leak(Block(8).run, torch.randn(2, 6, 8), 4))
# %% [markdown] slideshow={"slide_type": "slide"}
# ## Ten tests to take away
#
# `check_attention` asks ten questions of a layer. They fit attention without positions or a window
# of its own: with rotary positions, for example, the order of the keys matters, as it should. A
# name says what is looked at, and promises no more: a layer that doubles its answers passes all
# ten.

# %% slideshow={"slide_type": "-"}
for number, known in enumerate(PROPERTIES, start=1):
    print(f"{number:2}  {known.name}")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let them say for two of the names which exhibit they come from.

# %% [markdown] slideshow={"slide_type": "skip"}
# It takes `nn.MultiheadAttention` itself, or a layer or function of queries, keys and values with
# `valid_lens`, `is_causal` or a boolean `mask` (True = may attend), as they are. Here is one that
# hides keys *after* the softmax:


# %% slideshow={"slide_type": "skip"}
def hides_too_late(queries, keys, values, mask):
    weights = (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights * mask) @ values


print(check_attention(hides_too_late))

# %% [markdown] slideshow={"slide_type": "skip"}
# The shell command `python -m d2l_attention.testing test_my_attention.py` writes the ten as one
# file for pytest that needs only torch: take it to your own project.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which question finds which bug?


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws which of the ten questions find which bug
def plain_or_causal(causal):
    def attend(queries, keys, values, is_causal=False):
        return (causal if is_causal else right("12.1"))(queries, keys, values)

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


class InModes(nn.Module):
    def __init__(self, made):
        super().__init__()
        self.inner = made()

    def forward(self, queries, keys, values, is_causal=False):
        return self.inner(queries) if is_causal else right("12.1")(queries, keys, values)


def divided_by_d(queries, keys, values):
    return (queries @ keys.mT / queries.shape[-1]).softmax(dim=-1) @ values


ways = dict.fromkeys(["12.1", "12.5", "12.8", "12.10"], lambda attend: attend)
ways |= {"12.2": in_heads, "12.4": InModes, "12.7": plain_or_causal, "12.9": with_mask}
ids = sorted(ways, key=lambda number: int(number[3:]))
columns = [known.name for known in PROPERTIES]
reports = []
for number in ids:
    dtype = torch.float16 if number == "12.9" else torch.float32
    good, bad = (check_attention(ways[number](f(number)), dtype=dtype) for f in (right, broken))
    reports.append((set(bad.failed) - set(good.failed), bad.not_tried))
scale = check_attention(divided_by_d)
reports.append((scale.failed, scale.not_tried))
found = torch.tensor([[float(name in failed) for name in columns] for failed, _ in reports])
num_found = int(found.any(dim=1).sum())
figure, ax = plt.subplots(figsize=(8, 5.0))
ax.pcolormesh(0 * found, edgecolors=RULE, linewidth=0.8)
rows, finders = found.flip(0).nonzero(as_tuple=True)
ax.plot(finders + 0.5, rows + 0.5, "X", color=CUT, markersize=11)
for row, (_, not_tried) in enumerate(reversed(reports)):
    for name in not_tried:
        ax.text(columns.index(name) + 0.5, row + 0.45, "–", ha="center", va="center", color=FAINT)
ax.set_yticks(torch.arange(len(reports)) + 0.5, [*ids, "divided by d"][::-1])
ax.set_xticks(torch.arange(10) + 0.5, columns, rotation=40, ha="right", rotation_mode="anchor")
ax.set(ylabel="bug", title=f"Ten questions find {num_found} of these {len(reports)} bugs")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a grid of nine bugs and ten questions. A red cross is a question that fails on the
# broken implementation and not on the right one, and a dash one that cannot be asked. Each of the
# eight exhibits has a red cross; the row 'divided by d' has none.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks which bugs the ten questions miss
assert found[:-1].any(dim=1).all() and not found[-1].any()

# %% [markdown] slideshow={"slide_type": "-"}
# An error fails a question, too (the mask of 12.10 does not fit other sizes), and a dash is a
# question that cannot be asked. A wrong scale stays hidden: a layer may choose its scale, so only a
# comparison with numbers that you know finds it, such as the one with the kernel above. 12.3, 12.6,
# 12.11 and 12.12 are no plain attention: decoding, a whole block, a window, a loss.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Homework for those who write code for a living: run the file on a layer of their own
# project, and bring what fails.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention with a mistake in it has the right shape and learns. From three starts, two broken
#   models had a clearly lower validation loss than the right one.
# - A loss needs baselines: no attention, equal weights, a floor that you count.
# - Ask the attention itself: for an answer that you know, for two runs that must agree, for two
#   ways to one number. Then look for the first wrong number.
# - Values of 1 show the sum of the weights; one-hot values show the weights.
# - Test with unequal sizes and once with equal ones; in both modes; with another future; step by
#   step; for the gradients; in float64 against the kernel.
#
# **Next.** In chapter 13 your attention goes into a real model. A forgotten mask and a wrong scale
# go with it, and you will see which of the two its text shows.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask each for one test that they will write this week.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Each exhibit has its exercise beside it. `hint("12.1")` gives one more hint each time, and
# `solution("12.1")` shows a whole answer. Six more exhibits follow in *Going further*, with theirs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Six more exhibits, the depot, and the ten questions put to well-known layers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Six more exhibits
#
# *16 minutes.*
#
# #### 12.7 · Each token sees the others, and which?
#
# **Seen.** In August 2026 a reader of a well-known textbook's notebook found a triangle of True
# above the diagonal in the call below. 'Good catch', said the author, 'it seems opposite of
# nn.MultiheadAttention'
# ([LLMs-from-scratch #1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.7"))

# %% slideshow={"slide_type": "skip"}
one_hot = torch.eye(4)[None]  # with these values, the output shows the weights
print(broken("12.7")(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4), one_hot)[0])

# %% [markdown] slideshow={"slide_type": "skip"}
# **The mask is read the other way.** True means 'ignore' for `nn.MultiheadAttention` and 'attend'
# for `F.scaled_dot_product_attention`
# ([pytorch #170415](https://github.com/pytorch/pytorch/pull/170415) adds a note about it). Each
# token sees the future and nothing else; the last one sees nothing, and gets zeros.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.7** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.8 · NaN, from one row
#
# **Seen.** NaN from PyTorch's own attention
# ([pytorch #103963](https://github.com/pytorch/pytorch/issues/103963)). The kernel gives zeros
# today; `nn.MultiheadAttention`, called as by default, still gives NaN, and so does this code:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.8"))

# %% slideshow={"slide_type": "skip"}
mask = torch.tensor([[[True, True], [False, False]]])
q, k, v = (torch.eye(2)[None].requires_grad_() for _ in range(3))
for name, function in {"right": right("12.8"), "broken": broken("12.8")}.items():
    output = function(q, k, v, mask)
    gradient = torch.autograd.grad(output.sum(), v)[0]
    print(
        f"{name}: output of query 1 {output[0, 1].tolist()}, gradient of value 0 {gradient[0, 0]}"
    )

# %% [markdown] slideshow={"slide_type": "skip"}
# **A query with nothing to attend to.** One such row is enough: the gradient of a value is a sum
# over all queries, and a sum with a NaN in it is NaN. It need not be a mistake of the user: a
# sentence of padding has such rows.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.8** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.9 · NaN, in one type only
#
# **Seen.** Attention that gave NaN in float16, and was right in float32 and bfloat16
# ([flax #982](https://github.com/google/flax/issues/982)). It hid scores with a number near
# $-10^{10}$.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.9"))

# %% slideshow={"slide_type": "skip"}
mask = torch.tensor([[True, True, False], [False, False, False]])
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    print(f"{str(dtype):15} {broken('12.9')(torch.zeros(2, 3, dtype=dtype), mask).tolist()}")

# %% [markdown] slideshow={"slide_type": "skip"}
# **The fill does not fit.** float16 holds numbers up to 65,504, so $-10^9$ becomes $-\infty$. A row
# of which something is left is right even so; a row without any key is NaN, and NaN times 0 is NaN.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.9** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.10 · Right, until somebody adds a mask
#
# **Seen.** In a much-read Transformer the padding mask of the decoder lies on the axis of the
# queries. With $-\infty$ whole rows would be NaN; its fill is the finite $-10{,}000$, which makes
# them equal weights. Only rows of padding change, and it stayed: the repair was proposed in October
# 2025 and was open when we read it
# ([hyunwoongko/transformer #40](https://github.com/hyunwoongko/transformer/pull/40)). Ours is
# another pair:

# %% slideshow={"slide_type": "-"}
show_source(broken("12.10"))

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
q, k, one_hot = torch.randn(1, 3, 4), torch.randn(1, 3, 4), torch.eye(3)[None]
causal = torch.ones(1, 3, 3, dtype=torch.bool).tril()
for mask in (None, causal):
    gap = (broken("12.10")(q, k, one_hot, mask) - right("12.10")(q, k, one_hot, mask)).abs().max()
    print("no mask:    " if mask is None else "causal mask:", f"largest difference {gap:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# **Two mistakes that hide each other.** The scores are turned over, and so is the softmax; at the
# end the weights are turned back. The mask comes in between and is not turned: token 0 sees all,
# the last token only itself.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.10** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.11 · Two kernels, two texts
#
# **Seen.** One model, one prompt, two kernels that should agree, and two texts, as soon as the
# prompt was longer than the window, which was set to 4 there
# ([transformers #40163](https://github.com/huggingface/transformers/pull/40163), 2025). The same
# was found for four models in
# [Megatron-Bridge #2656](https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/2656) in March 2026,
# and in [zml #763](https://github.com/zml/zml/pull/763) in September. There its tests had been
# green: they tried attention without a window only.

# %% slideshow={"slide_type": "-"}
show_source(broken("12.11"))

# %% slideshow={"slide_type": "skip"}
zeros, one_hot = torch.zeros(1, 5, 4), torch.eye(5)[None]
for name, function in {"right": right("12.11"), "broken": broken("12.11")}.items():
    print(f"{name:6} row 4 sees {(function(zeros, zeros, one_hot, 2)[0, 4] > 0).int().tolist()}")

# %% [markdown] slideshow={"slide_type": "skip"}
# **A window of 2 has three tokens.** For one library a window counts the token itself, for the
# kernel only those before it. Each is right by its own words; a 1 has to be taken off in between.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.11** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.12 · The same batch in small parts
#
# **Seen.** In October 2024 somebody trained once with batches of 32, and once with 32 batches of 1
# whose gradients were added before each step. It should be the same, and was much worse
# ([trl #2175](https://github.com/huggingface/trl/issues/2175)). Libraries began to correct it that
# month, one of them in steps
# ([transformers #34191](https://github.com/huggingface/transformers/pull/34191) and [#34198](https://github.com/huggingface/transformers/pull/34198),
# [torchtune #1875](https://github.com/meta-pytorch/torchtune/pull/1875)).

# %% slideshow={"slide_type": "-"}
show_source(broken("12.12"))

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
logits, targets = torch.randn(2, 5, 7), torch.randint(7, (2, 5))
targets[1, 1:] = -100  # five words, and one word with padding
parts = [(logits[:1], targets[:1]), (logits[1:], targets[1:])]
for name, function in {"right": right("12.12"), "broken": broken("12.12")}.items():
    whole = function([(logits, targets)])
    print(f"{name:6} the whole batch {whole:.2f}, in two parts {function(parts):.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# **A mean of means.** Each part is divided by its own number of words, so that the one word of the
# short part counts as much as the five of the long one.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.12** · write the test

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The depot
#
# *3 minutes.* Nine that have no room of their own: what was seen, and what it was.
#
# - *Weights of minus infinity.* The mask, a fill with $-\infty$, came after the softmax
#   ([timm #2236](https://github.com/huggingface/pytorch-image-models/pull/2236)).
# - *Scores of -1,000,000 in a heat map.* A mask filled its caller's scores in place; an empty
#   sentence got equal weights over its padding (both d2l 1.0.3, `masked_softmax`).
# - *A plain mean of the past, and no error.* A scale that was not given was 0, so that all scores
#   were. A test against a second implementation found it
#   ([SKaiNET #860](https://github.com/SKaiNET-developers/SKaiNET/issues/860), July 2026). A scale
#   without its root was found by reading the code
#   ([cntkx #10](https://github.com/delzac/cntkx/issues/10)).
# - *Readers ask why not `view`.* In place of `transpose` it mixes tokens and heads; chapter 6 draws
#   it ([annotated-transformer #118](https://github.com/harvardnlp/annotated-transformer/issues/118)).
# - *Tokens that do not hear each other.* Tensors (B, n, H, D) went to a kernel that takes
#   (B, H, n, D) ([FoundationStereo #217](https://github.com/NVlabs/FoundationStereo/pull/217), a
#   proposal).
# - *Positions that change nothing.* The sum was computed and not kept, so that a model without a
#   mask would see a bag of words
#   ([pytorch-lightning #19138](https://github.com/Lightning-AI/pytorch-lightning/issues/19138)).
# - *An error for every odd size.* One cosine column too many
#   ([BERT-pytorch #78](https://github.com/codertimo/BERT-pytorch/issues/78)): the kindest bug here.
# - *A BLEU that is different in one framework.* Two sections of one chapter gave the reference for
#   the prediction ([d2l-en #1780](https://github.com/d2l-ai/d2l-en/issues/1780)).
# - *Weights of 1.25.* No bug: dropout divides what it keeps by $1 - p$, so that each weight keeps
#   its mean ([pytorch #42929](https://github.com/pytorch/pytorch/issues/42929)). To make the rows
#   sum to one again is another method (DropAttention does it on purpose), and no dropout.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Ten questions to well-known layers
#
# *2 minutes.* The table was made on 23 November 2026 by
# `python -m tests.benchmarks.other_implementations FOLDER` (with `--install` first), on a CPU, in
# float32 and in eval mode; what an implementation does not take is not tried.
# `nn.MultiheadAttention` is called as it is by default, so it computes its weights, too.
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
# The failing question is always the same, the one of exhibit 12.8: what does a query get that may
# attend to nothing? Without empty rows it does no harm.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### From our own workshop
#
# *1 minute.* These mistakes were really made while this course was written.
#
# - A test for leaking padding had no sentence of length 0. A wrong mask of chapter 4 passed it. A
#   reader tried the test on that mask.
# - NaN in hidden keys reached the gradients of the queries, while all outputs were right. A
#   reviewer filled the padding with NaN and compared gradients.
# - The test for linear memory was made so small, to be fast, that a quadratic mask would have
#   passed it. Reading the whole change again found it.
# - This chapter compared five losses without a baseline, and found 'nearly as good' a model whose
#   attention was worth nothing. An expert added the two baselines.
# - It also repeated a commenter's guess about 12.6. Reading the code of that day showed that the
#   guess was wrong.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# The threads are linked where an exhibit names them; we read them in November 2026, and for 12.6
# and 12.10 the code of their day. An exhibit is a small function of ours modelled on a thread, not
# its code. For 12.5 and 12.10 we found no thread with exactly this mistake, only relatives.
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning*, version 1.0.3, chapter
#   11, and its package d2l 1.0.3. [d2l.ai](https://d2l.ai)
# - A. Karpathy, *A Recipe for Training Neural Networks*, 2019: overfit one batch; 'neural net
#   training fails silently'.
# - L. Zehui and others, *DropAttention*, 2019, arXiv:1907.11065.
