# %% [markdown] slideshow={"slide_type": "slide"}
# # 12 · The bug museum
#
# **You will**
# - see broken attention train as well as right attention, or better;
# - solve riddles of real mistakes, by finding the first wrong number;
# - write tests that catch such mistakes without any training;
# - learn how to debug a model of your own, and take ten tests with you.
#
# Core path: 60 to 90 minutes, in two sittings. Going further: 20. Exercises: 119. The six exercises
# beside the core's exhibits come on top of its minutes, and take a little over an hour.
#
# Builds on chapters 3, 4, 6, 7 and 8. *Dive into Deep Learning* (D2L) lends one exhibit, from its
# section 11.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes, with votes. If time is short, leave out 12.4 and the second half of *Checks for your
# own model*, because the exhibits can be read in any order. Run the notebook beforehand: it trains
# 29 small models in about a minute. In pairs, one student writes a test, and the other a bug
# that the test does not see.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import show_source
from d2l_attention.data import Vocab, load
from d2l_attention.data.batches import padded
from d2l_attention.exercises import check, hint, solution
from d2l_attention.exercises.chapter_12 import broken, right
from d2l_attention.testing import PROPERTIES, check_attention
from d2l_attention.views import compare
from d2l_attention.views.palette import CUT, GREY, INK, RULE, SERIES
from d2l_attention.views.plots import hatch_zeros, heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()


def side_by_side(maps, finding, width=3.2, numbers=True):
    """Weights (Q, K) by title, in one row of heat maps; what is exactly 0 is hatched."""
    figure, axes = plt.subplots(1, len(maps), figsize=(width * len(maps) + 1, 3.1), sharey=True)
    for ax, (title, weights) in zip(axes, maps.items(), strict=True):
        names = range(len(weights))
        heatmap(ax, weights.nan_to_num(0), names, names, vmax=1.0, numbers=numbers)
        hatch_zeros(ax, weights)
        ax.set_title(title)
    figure.suptitle(finding, fontsize=16)
    plt.show()


# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - **Attention** (chapter 3). A query's weights are the softmax of its scores $q \cdot k / \sqrt d$
#   over the keys, so they sum to one. The output is the average of the values with these weights.
# - **Masks** (chapter 4). A hidden score becomes $-\infty$ before the softmax, so that its weight
#   is 0. A causal mask hides the future: token $i$ sees the tokens 0 to $i$.
# - **Heads** (chapter 6). A vector's $D$ numbers are split into $H$ pieces of $D / H$, and each
#   head attends with its own piece.
# - **A test** is a function that ends quietly where the code is right, and stops with an
#   `AssertionError` where it is wrong.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask who has ever had a model that trained well and was wrong.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Five losses, one right model
#
# Can a loss tell right attention from wrong? Wrong attention still returns numbers of the right
# shape, and the model around it learns with whatever it gets. So let us take attention with a
# causal mask, four mistakes that can be switched on, and two baselines:


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
# 1½ minutes. Read only the four places where `bug` changes something, and the two baselines.

# %% [markdown] slideshow={"slide_type": "skip"}
# Around this attention we put a small language model, which predicts each next word of English
# sentences from the built-in grammar (chapter 5). Each variant is trained for 300 steps from three
# random initialisations (seeds).


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

    def vectors(self, tokens):  # (B, n) -> (B, n, D)
        X = self.embed(tokens)
        X = X + causal_attention(self.W_q(X), self.W_k(X), self.W_v(X), self.bug)
        return X + self.network(self.norm(X))

    def forward(self, tokens):  # (B, n) -> logits (B, n, V)
        return self.out(self.vectors(tokens))


def loss_of(model, tokens):  # the mean over all words but the first, which nobody predicts
    following = tokens[:, 1:]
    is_word = following != 0  # no logits for the padding, to save time
    logits = model.out(model.vectors(tokens[:, :-1])[is_word])
    return F.cross_entropy(logits, following[is_word])


corpus = load("grammar")
vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
sentences, valid = (
    padded([[1, *vocab[list(pair.source)], 2] for pair in pairs], 0)  # begin, words, end, padding
    for pairs in (corpus.train, corpus.valid)
)


def trained(make, seed=0, steps=300, batch=None, rate=4e-3):  # -> the model, its losses
    torch.manual_seed(seed)
    model, curve = make(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    for _ in range(steps):
        drawn = sentences[torch.randint(len(sentences), (32,))]
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
# The right model and the four broken ones began with the same parameters and saw the same batches:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the five loss curves, without names
figure, (ax, near) = plt.subplots(1, 2, figsize=(11, 3.8))
looks = (INK, "-"), (GREY, "--"), (INK, "--"), (GREY, ":"), (GREY, "-")
for name, (color, style) in zip("ABCDE", looks, strict=True):
    smooth = torch.tensor(runs[name][0][1]).unfold(0, 20, 1).mean(dim=-1)
    look = {"color": color, "linestyle": style, "linewidth": 2.5}
    for panel in (ax, near):
        panel.plot(smooth, **look)
    # C and E end so close that one of the two names stands higher.
    end = smooth[-1].item() + {"C": 0.02, "E": -0.02}.get(name, 0)
    (ax if name == "B" else near).text(len(smooth) + 2, end, name, va="center")
ax.set(xlabel="step", ylabel="training loss")
near.set(xlabel="step", title="the same, closer", xlim=(150, len(smooth)), ylim=(2.4, 3.2))
figure.suptitle("Five models learn; one of them is right", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: five training losses over 300 steps, models A to E, and the second half once more,
# closer, without B; each point is the mean of 20 steps. All begin near 5. B falls to almost 0
# within 100 steps. D ends a little below the other three, which lie close together between 2.7 and
# 2.8, with A a little above C and E.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Which model is the right one? And would you have stopped the training of any of the
# others?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let the room vote, B and D included. Then run the next cell, and ask what one would
# have to measure to find the mistakes of A and E.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Validation losses, beside two baselines
#
# C is the right one. Of the other four, only B's curve gives a reason to stop: it is too good.

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Draws the validation losses for all seeds, with the bugs' names
with torch.no_grad():
    validation = {
        letter: [loss_of(model, valid).item() for model, _ in run] for letter, run in runs.items()
    }
bugs = {letter: bug for bug, letter in letters.items()}
rows = sorted(validation, key=lambda letter: sum(validation[letter]))
widths = dict(width_ratios=(1, 4))  # B is far from the others, so the axis is broken after it
figure, (near_zero, ax) = plt.subplots(1, 2, figsize=(7.2, 4.2), sharey=True, gridspec_kw=widths)
for row, letter in enumerate(rows):
    baseline = len(letter) > 1
    marker = dict(marker="|", markersize=16, markeredgewidth=2) if baseline else dict(marker="o")
    (near_zero if letter == "B" else ax).plot(
        validation[letter],
        [row, row, row] if baseline else [row - 0.2, row, row + 0.2],  # so that all three are seen
        linestyle="",
        color=GREY if baseline else INK,
        **marker,
    )
names = [letter if len(letter) > 1 else f"{letter} · {bugs[letter]}" for letter in rows]
names = [name.replace("C · none", "C · no bug") for name in names]
near_zero.set_yticks(range(len(rows)), names)
near_zero.set(xlim=(-0.1, 0.25), xticks=[0], ylim=(len(rows) - 0.4, -0.6))
ax.spines["left"].set_visible(False)
ax.tick_params(axis="y", length=0)
for axis, end in ((near_zero, 1), (ax, 0)):  # two strokes where the axis is broken
    axis.text(end, 0, "/", transform=axis.transAxes, ha="center", va="center", fontsize=18)
figure.suptitle("Without its gradient, attention gains nothing over equal weights", fontsize=14)
figure.supxlabel("validation loss, three seeds each", fontsize=13)
plt.show()  # fmt: skip

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: validation losses of five models and two baselines, three seeds each, on an axis that is
# broken between 0.2 and 2.5. B, which sees one word too many, is below 0.1. D, with its softmax
# over the queries, is between 2.5 and 2.7. C, without a bug, is near 2.78, and E, divided by d, a
# little below it. Equal weights are near 2.83, A, without a gradient to the scores, near 2.86, and
# no attention near 2.93.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says of the losses, for every seed
for a, b, c, d, e, equal, no in zip(
    *(validation[letter] for letter in [*"ABCDE", "equal weights", "no attention"]), strict=True
):
    assert b < 0.1 and d < c - 0.1 and abs(e - c) < 0.05
    assert c < equal < a < no and a - c < 0.1

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. First the order from the top, then the grey marks: what are they for? The axis is
# broken, because B lies far to the left of all others.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a loss can tell, and what a baseline adds
#
# B and D have a *lower* validation loss than C for all three seeds, but only because they see the
# future: B sees the very word it should predict, and D divides by a sum that includes later
# queries. Validation uses the same attention as training, so it says the same.
#
# E, which sees no future, is lower than C for all three seeds as well, by 0.02 to 0.03: here its
# wrong scale does no harm. A, less than 0.1 above C, looks almost as good, until we draw the
# baselines. Attention as a whole has lowered the loss by about 0.15 so far, and equal weights alone
# achieve most of that. A, whose queries and keys cannot learn, is a little worse than even these.
# Only a baseline can tell us whether 0.1 is much.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The moral for the board: a loss says how well the model does with the attention it
# has. It does not say which attention that is. And: no comparison without a baseline.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Losses from the words so far
#
# Since nobody can know the next word of a random sentence, a loss near 0 is suspicious. What does B
# do when it writes, while the next word is still missing?


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


# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Measures the losses again, where each word is predicted from the words before it alone
def loss_from_prefixes(model):
    losses = []
    for i in range(1, valid.shape[1]):
        longer = valid[valid[:, i] != 0]
        losses.append(F.cross_entropy(model(longer[:, :i])[:, -1], longer[:, i], reduction="none"))
    return torch.cat(losses).mean().item()


with torch.no_grad():
    prefixes = {name: [loss_from_prefixes(model) for model, _ in runs[name]] for name in "CBD"}
print("validation loss   whole sentences   only the words so far")
for name, losses in prefixes.items():
    print(f"model {name} {validation[name][0]:20.2f} {losses[0]:22.2f}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that B and D are good with the future only, for every seed
assert min(prefixes["B"] + prefixes["D"]) > 4.5
assert max(abs(a - b) for a, b in zip(prefixes["C"], validation["C"], strict=True)) < 1e-3

# %% [markdown] slideshow={"slide_type": "-"}
# B has learned to copy the next word, which is missing here. Given only the words so far, B and D
# are far worse than C for all three seeds, while C's loss stays the same.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Uniform guessing among 274 words would give 5.6: where does B end?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Three kinds of test that need no training
#
# What could have exposed B and D without any training? The two columns of the last table should
# agree, because a causal model may use only the words so far. Such questions can be put to the
# attention itself, and there are three kinds of them:
#
# 1. **An answer that you know by thinking.** A query that sees a single key gets that key's value.
# 2. **Two runs that must agree.** Change what must make no difference: the padding, the future, the
#    batch's other sentences.
# 3. **Two ways to one number.** Compute it with and without a cache, all at once and one by one.
#
# Each exhibit of the museum is a riddle: what somebody saw, code of ours modelled on the report
# (`broken("12.1")`, and repaired `right("12.1")`), and what it computes. Solve it before you read
# on, and find a question that exposes the bug.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The three questions are the chapter; write them on the board. The table of the last
# slide was of the third kind.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The museum
#
# ### 12.1 · As good as without the bug
#
# **Seen.** A reader asked about one line in a teaching implementation of an image model, and its
# maintainer answered: 'a big bug'. Yet when the reader trained both versions, their pictures were
# equally good, and after more training those of the broken one slightly better
# ([labml #146](https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146),
# 2022). Here is the code, and below it what it computes:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the code of exhibit 12.1
show_source(broken("12.1"))

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Do not comment on the code yet.

# %% slideshow={"slide_type": "subslide"}
queries = torch.tensor([[[2.0, 0], [0, 2], [1, 1]]])
keys = torch.tensor([[[2.0, 0], [0, 2]]])
scores = queries @ keys.mT / 2**0.5
weights = broken("12.1")(queries, keys, torch.eye(2)[None])
print(f"scores\n{scores[0]}\nweights\n{weights[0]}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The values are **one-hot**, 1 at one key and 0 at the others, so that the output is
# the weights. Work out row 0 by hand, with $e^{2.83} = 16.9$ and $e^0 = 1$. Which is the first
# wrong number?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Row 0 by hand on the board; the first wrong number is the first weight.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The first wrong number
#
# `compare` runs two functions and opens both where they first differ:

# %% slideshow={"slide_type": "-"}
compare(broken("12.1"), right("12.1"), queries, keys, torch.eye(2)[None])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two runs, opened at the line of the softmax. Row 0 of the weights is 0.77 and 0.05 in the
# broken one, above, and 0.94 and 0.06 in the right one, below.*

# %% [markdown] slideshow={"slide_type": "-"}
# While all scores are right, the first weight is wrong: it should be 16.9 / 17.9 = 0.94. **The
# softmax runs over the queries**, so that each column sums to one, and a key splits its weight
# among the queries.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let them compute row 0 in their heads. Then ask the room which values would show the
# sum of the weights, if the layer returns only its output.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### A test with values of one
#
# **Question.** Do values that are all 1 come back as 1? Their average is 1, whatever the weights
# are, if each row sums to one:

# %% slideshow={"slide_type": "-"}
ones = torch.ones(1, 2, 1)
print("right: ", right("12.1")(queries, keys, ones).flatten())
print("broken:", broken("12.1")(queries, keys, ones).flatten())

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Values of one show sums, one-hot values show weights: both on the board.

# %% [markdown] slideshow={"slide_type": "skip"}
# Now write the test. `check` runs it on right implementations, which it must accept, and on broken
# ones, which it must reject.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.1** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.2 · Right in the tests, wrong in the batch
#
# **Seen.** A user of a vision model ran its example with two images instead of one and got an error
# about two tensors of different sizes. The author explained: 'I left the heads to be implicitly
# broadcasted' ([vit-pytorch #71](https://github.com/lucidrains/vit-pytorch/issues/71), 2021). An
# error is the lucky case.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the code of exhibit 12.2
show_source(broken("12.2"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The mask is $(B, Q, K)$, and the scores are $(B, H, Q, K)$. With $B = 3$ sentences
# and $H = 2$ heads this is an error. What happens with $B = 2$?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Write the two shapes below each other, lined up from the right.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Two sentences, two heads and no error
#
# Let sentence 0 have one word and sentence 1 three. With equal scores and one-hot values, the
# output shows the weights:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the weights of both heads in both sentences, right and broken
q, k, v = torch.zeros(2, 2, 3, 4), torch.zeros(2, 2, 3, 4), torch.eye(3).expand(2, 2, 3, 3)
lengths = torch.tensor([1, 3])
mask = (torch.arange(3) < lengths[:, None, None]).expand(2, 3, 3)  # (B, Q, K)
figure, axes = plt.subplots(2, 4, figsize=(9.5, 4.0), sharex=True, sharey=True)
for line, name, function in zip(axes, ("right", "broken"), (right, broken), strict=True):
    weights = function("12.2")(q, k, v, mask).flatten(0, 1)
    for i, (ax, map_of) in enumerate(zip(line, weights, strict=True)):
        hatch_zeros(heatmap(ax, map_of, range(3), range(3), vmax=1.0, numbers=True), map_of)
        if name == "right":
            ax.set_title(f"sentence {i // 2}, head {i % 2}")
    line[0].set_ylabel(f"{name}\nqueries")
figure.suptitle("Broken: a head has the same mask in both sentences", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of four heat maps, right above broken, for two sentences of two heads each.
# Right: both heads of sentence 0 have all weight on key 0, and both of sentence 1 have a third on
# each of three keys. Broken: in both sentences head 0 has all weight on key 0, and head 1 has a
# third on each key.*

# %% [markdown] slideshow={"slide_type": "-"}
# The code runs, and two of the four maps are wrong. **The mask lands on the heads**, because
# broadcasting lines up shapes from the end and reads the mask as $(1, B, Q, K)$: head 0 of *every*
# sentence gets the mask of sentence 0. The repair is an axis for the heads, `mask[:, None]`.
#
# **Question.** Does a sentence get in a batch what it gets by itself? To find out, give every axis
# of a test a size of its own, **and** try equal sizes once.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. This is the best exhibit for pairs: a debugging session with 8 sentences and 8 heads,
# the usual numbers, would never stop here.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.2** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.3 · Right on the page, wrong in the chat
#
# **Seen.** In August 2026 somebody ran a published model in a popular library in two ways, on the
# whole text at once and word by word, with a cache of what came before. The results disagreed for
# every token after the first ([mlx-vlm #1983](https://github.com/Blaizzy/mlx-vlm/issues/1983)).

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the code of exhibit 12.3
show_source(broken("12.3"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Four tokens are read one by one, from step 0 on. Which is the first step with a wrong
# number, and which name in the code holds it?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let each write down a step and a name before you go on.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### One by one, against all at once
#
# **Question.** Do the steps give what the whole gives at once?

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
X, positions, cache = torch.randn(1, 4, 8), torch.randn(9, 8), []
steps = torch.cat([broken("12.3")(X[:, t : t + 1], cache, positions) for t in range(4)], dim=1)
whole = X + positions[:4]
expected = F.scaled_dot_product_attention(whole, whole, whole, is_causal=True)
print("output off by        ", (steps - expected).abs().amax(dim=-1)[0])
print("cache entry off by   ", (torch.cat(cache, dim=1) - whole).abs().amax(dim=-1)[0])

# %% [markdown] slideshow={"slide_type": "subslide"}
# Step 1 is the first that is wrong, and the name is `x`, in the first line, before any attention:
# **every new token gets position 0.** Because training and validation read whole sentences without
# this function, their losses stay right.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. This is the most practical exhibit, because whoever serves a model has such a
# function. Ask how they would test it without knowing the bug.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.3** · write the test

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# You have solved three of six riddles. The others can wait, because each can be read by itself.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.4 · Right in two of three situations
#
# **Seen.** The decoder block in D2L's section 11.7
# ([d2l.ai](https://d2l.ai/chapter_attention-mechanisms-and-transformers/transformer.html), version
# 1.0.3) asks `if self.training` before it does something, and so does ours, in a small form:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the code of exhibit 12.4
show_source(broken("12.4").forward)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** In which of three situations is something wrong: while training, while validating on
# whole sentences, or while writing word by word with a cache?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Hands up for each of the three.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The causal mask in training, validating and writing

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the weights in the three situations: tokens that are one-hot show them
module, one_hot = broken("12.4")(), torch.eye(4)[None]
module.dropout.p = 0.0  # so that the weights themselves are seen
maps = {"training": module.train()(one_hot)[0], "validating": module.eval()(one_hot)[0]}
maps["writing"] = torch.full((4, 4), math.nan)
for t in range(4):  # the first t + 1 tokens are there, and the last of them is the query
    maps["writing"][t, : t + 1] = module(one_hot[:, : t + 1])[0, -1, : t + 1]
side_by_side(maps, "Only validation reads the future", width=2.9, numbers=False)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three maps of weights for four tokens. Training: the future is hatched, hidden by the
# mask. Validating: all cells have weight, the future as well. Writing: the future is empty, because
# those tokens do not exist yet.*

# %% [markdown] slideshow={"slide_type": "-"}
# Training is right, and so is writing with a cache, because there the future is still to come.
# **Validation is wrong.** In eval mode the mask is gone, and the model sees whole sentences, which
# it has never learned to read: in chapter 8 this bug raised a translator's loss from almost 0 to
# almost 3. Such a loss can decide which model is kept.
#
# **Question.** Does a change of the future change anything before it, in training mode or in eval
# mode?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. In the book the mask is left out where sentences are written word by word, which is
# right, and its validation step runs in the same mode.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.4** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.5 · It learns anyway
#
# **Seen.** A released training script computed a loss on 'attention maps' but called `detach()`
# before `backward()`, so that this loss taught nothing while the training ran on
# ([NAD #8](https://github.com/bboylyg/NAD/issues/8), 2022). Its maps came from something other than
# queries and keys, but attention can contain the same mistake, as model A does:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the code of exhibit 12.5
show_source(broken("12.5"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Because `detach()` stops only gradients, the output is right to the last digit. Which
# matrices of model A will stay exactly as chance has drawn them?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what this can change in the output, and what in training.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### How far each matrix moved
#
# **Question.** How far has each parameter moved in the 300 steps?

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Draws how far each matrix has moved, as a share of its norm at the start
torch.manual_seed(0)
start = dict(LanguageModel().named_parameters())
matrices = [name for name, p in start.items() if p.ndim == 2]
figure, ax = plt.subplots(figsize=(7.5, 3.6))
for name, style in zip("CA", SERIES, strict=False):
    after = dict(models[name].named_parameters())
    moved = [((after[m] - start[m]).norm() / start[m].norm()).item() for m in matrices]
    ax.plot(moved, range(len(matrices)), **style | {"linestyle": "", "markersize": 9}, label=name)
ax.set_yticks(range(len(matrices)), [name.removesuffix(".weight") for name in matrices])
ax.set(xlabel="moved by, as a share of the norm", xlim=(-0.05, None))
ax.invert_yaxis()
ax.set_title("In A the queries and keys stay where they began")
ax.legend(title="model", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: for each matrix of models C and A, how far 300 steps have moved it. In C all have moved.
# In A, W_q and W_k are at 0, and the others have moved about as far as C's.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that only the right model's queries have learned
for name in ("W_q.weight", "W_k.weight"):
    assert torch.equal(models["A"].get_parameter(name), start[name])
    moved = models["C"].get_parameter(name) - start[name]
    assert moved.norm() > 0.3 * start[name].norm()

# %% [markdown] slideshow={"slide_type": "-"}
# Since **no gradient reaches the scores**, `W_q` and `W_k` of model A have not moved at all. The
# rest of the model has learned around these two matrices.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Come back to the figure with the baselines: that is what the two matrices cost.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.5** · write the test

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Checks for your own model
#
# If your own model trains, how do you check it? Begin with how far each of its parameters has moved
# (12.5), and then make two more checks.
#
# ### Overfit one batch, and know its floor
#
# To **overfit one batch**, train on a few sentences until the model knows them by heart. Its loss
# should **begin** near the logarithm of the number of words, or a little above, because its first
# guesses are random. It should **end** at a floor: with eight sentences by heart, a model must
# still guess which of them has begun. A model that stays far above the floor has failed to learn
# the sentences; one *below* it knows what it cannot know.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
# Counts the floor, trains six models on one batch, and draws the losses of three
eight = sentences[:8]
floor, known = 0.0, 0
for row in eight.tolist():
    for i in range(1, len(row)):
        if row[i] != 0:
            alike = [other for other in eight.tolist() if other[:i] == row[:i]]
            floor += math.log(len(alike) / sum(other[i] == row[i] for other in alike))
            known += 1
floor = floor / known
figure, ax = plt.subplots(figsize=(8.5, 3.3))
ends = {}
for name in ("C", "A", "B", "D", "E", "no attention"):
    make = partial(LanguageModel, bugs[name])
    _, curve = trained(make, steps=200, batch=eight, rate=3e-3)
    if name in "CAB":
        ax.semilogy(curve, **SERIES[len(ends)] | {"marker": ""}, label=f"model {name}")
    ends[name] = curve[-1]
ax.axhline(floor, color=CUT, linewidth=1.5)
ax.text(200, floor * 1.08, f"floor {floor:.2f}", color=CUT, ha="right", va="bottom")
ax.set(xlabel="step", ylabel="loss on one batch", title="B knows what nobody can know")
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
plt.show()
print(f"loss of a model that knows nothing {math.log(len(vocab)):.2f}, floor {floor:.2f}")
print("after 200 steps:", ", ".join(f"{name} {loss:.2f}" for name, loss in ends.items()))

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the loss of models C, A and B on one batch, on a logarithmic scale. All begin near 6.
# C and A come down to the floor of 0.19 and stay there, while B goes on falling far below it.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says of the floor
assert 0.17 < floor < 0.2 and ends["B"] < floor / 3 and ends["no attention"] < floor + 0.06

# %% [markdown] slideshow={"slide_type": "-"}
# C comes down to the floor, or for one of three seeds to 0.02 above it, while B falls far below and
# is caught within seconds. But A and E come down to the floor as well. So does D with this seed,
# although it sees the future, and without any attention the model still reaches 0.22. So one batch
# finds B, and few other mistakes.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Overfitting one batch is Karpathy's advice (2019). The floor is ours, because without
# it the lower loss would have looked like the better model.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Compare with PyTorch's kernel, and know the rounding
#
# PyTorch's kernel is a second implementation for free. How close must yours come to it? Suppose
# that yours has a small mistake, a scale of $\sqrt{63}$ instead of $\sqrt{64}$:


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the picture: in which type will the mistake look like rounding?


# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Draws the largest difference from the kernel, of the right scale and of the wrong one
def attend(q, k, v, d=64):
    return (q @ k.mT / d**0.5).softmax(dim=-1) @ v


torch.manual_seed(0)
inputs = torch.randn(3, 5, 16, 64, dtype=torch.float64)
types = torch.float64, torch.float32, torch.bfloat16
figure, ax = plt.subplots(figsize=(8, 3.0))
for i, (d, label) in enumerate({64: "right", 63: "small mistake"}.items()):
    gaps = []
    for q, k, v in (inputs.to(dtype) for dtype in types):
        gaps.append((attend(q, k, v, d) - F.scaled_dot_product_attention(q, k, v)).abs().max())
    look = dict(marker="ox"[i], color=(INK, CUT)[i], markersize=10, markeredgewidth=3)
    ax.semilogx([gap.item() for gap in gaps], range(3), linestyle="", label=label, **look)
ax.set_yticks(range(3), [str(dtype).removeprefix("torch.") for dtype in types])
ax.set(xlabel="largest difference from the kernel", ylim=(2.5, -0.5))
ax.set_title("In bfloat16 a small mistake looks like rounding")
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the largest difference from PyTorch's kernel, on a logarithmic axis, for three data
# types. The small mistake is near 0.01 in all of them. Right code is near $10^{-15}$ in float64,
# near $10^{-7}$ in float32, and near 0.01 in bfloat16, where the two marks are neighbours.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the sizes that the text names
for dtype, rounding in {torch.float64: 1e-14, torch.float32: 2e-6, torch.bfloat16: 0.04}.items():
    q, k, v = inputs.to(dtype)
    kernel = F.scaled_dot_product_attention(q, k, v)
    assert (attend(q, k, v) - kernel).abs().max() < rounding
    assert (attend(q, k, v, 63) - kernel).abs().max() > 0.005

# %% [markdown] slideshow={"slide_type": "-"}
# Because its sums are taken in another order, right code differs by rounding. In bfloat16 it also
# rounds its scores and weights, and this rounding looks like the mistake. So compare in float64
# where you can, with a tolerance far above the rounding and far below a mistake, such as
# $10^{-10}$.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. If somebody widens a tolerance until a test passes, ask what the rounding was.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### 12.6 · Too good, and the mask is right
#
# **Seen.** In July 2017 an early implementation of the Transformer predicted 98% of the validation
# set's words correctly, but wrote nonsense. Readers suspected the mask, its triangle and the axis
# of the softmax
# ([#19](https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/19)), but in the
# code of that day, which we read, these are right. To search further, let a small form of its block
# return everything that it computes:

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

    def vectors(self, tokens):
        return self.block.run(self.embed(tokens))["output"]


sixth, _ = trained(SixthModel, steps=500)
honest, _ = trained(LanguageModel, steps=500)
is_word, share = valid[:, 1:] != 0, {}
for name, model in {"sixth": sixth, "C": honest}.items():
    with torch.no_grad():
        hits = model(valid[:, :-1]).argmax(dim=-1) == valid[:, 1:]
    share[name] = hits[is_word].float().mean()
    print(f"model {name}: {share[name]:.0%} of the next words right")
    print(f"  writes: {write(model)}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the sixth model is too good
assert share["sixth"] > 0.6 and share["C"] < 0.4

# %% [markdown] slideshow={"slide_type": "-"}
# Where does the future come in? This page leaves the answer to you.
#
# **Question.** If the future changes, which is the first result of `run` that changes before it? A
# function that asks this serves in any model.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Do not name the bug. Give the room the exercise, and whoever has solved it tells
# nobody. The mistake was corrected in that repository two days after the report; somebody had sent
# the correction three days before it.

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.6** · write the function

# %% [markdown] slideshow={"slide_type": "skip"}
# Now try your function on the block, which leaks before any training:

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
print(first_leak(Block(8).run, torch.randn(2, 6, 8), 4))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Ten tests to take away
#
# Which of these questions can be put to any layer? `check_attention` asks ten. They suit attention
# without positions or a window of its own, and each promises only what its name says: a layer that
# doubles its answers passes all ten. As an example, this function hides keys *after* the softmax:


# %% slideshow={"slide_type": "subslide"}
def hides_too_late(queries, keys, values, mask):
    weights = (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights * mask) @ values


print(check_attention(hides_too_late))

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let them say for two of the names which exhibit they come from.

# %% [markdown] slideshow={"slide_type": "skip"}
# `check_attention` takes any layer or function of queries, keys and values, which may also take
# `valid_lens`, `is_causal` or a boolean `mask` (True = may attend). In your own project,
# `python -m d2l_attention.testing test_my_attention.py` writes the ten into a file for pytest.

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


bugs = {
    "12.1": "softmax over the queries",
    "12.2": "mask lands on the heads",
    "12.4": "no mask in eval mode",
    "12.5": "no gradient to the scores",
    "12.7": "mask read the other way",
    "12.8": "NaN from an empty row",
    "12.9": "NaN in float16",
    "12.10": "two bugs that cancel",
    "": "scores divided by d",
}
ways = {"12.2": in_heads, "12.4": InModes, "12.7": plain_or_causal, "12.9": with_mask}
reports = []
for number in filter(None, bugs):
    way = ways.get(number, lambda attend: attend)
    dtype = torch.float16 if number == "12.9" else torch.float32
    good, bad = (check_attention(way(f(number)), dtype=dtype) for f in (right, broken))
    reports.append((set(bad.failed) - set(good.failed), bad.not_tried))
scale = check_attention(divided_by_d)
reports.append((scale.failed, scale.not_tried))
found = [[known.name in failed for known in PROPERTIES] for failed, _ in reports]

figure, ax = plt.subplots(figsize=(5.3, 6.3))
cross = dict(marker="x", linestyle="", color=CUT, markersize=11, markeredgewidth=3.5)
dot = dict(marker=".", linestyle="", color=GREY, markersize=7)
hatch = dict(width=1, hatch="////", facecolor="none", edgecolor=GREY, linewidth=0)
for column, (number, (failed, not_tried)) in enumerate(zip(bugs, reports, strict=True)):
    for row, known in enumerate(PROPERTIES):
        if known.name in not_tried:
            ax.bar(column, 1, bottom=row - 0.5, **hatch)
        else:
            ax.plot(column, row, **(cross if known.name in failed else dot))
    height = -1.2 - 0.75 * column  # the names are steps, each above its own column
    ax.vlines(column, height, -0.6, color=GREY, linewidth=1)
    ax.text(column - 0.2, height, f"{number} {bugs[number]}", ha="right", va="center")
ax.hlines(torch.arange(11) - 0.5, -0.5, 8.5, color=RULE, linewidth=1)
questions = [known.name.replace("sentence ", "sentence\n") + "?" for known in PROPERTIES]
ax.set_yticks(range(10), questions, linespacing=0.95)
ax.set(xticks=[], xlim=(-0.5, 8.5), ylim=(9.6, -7.7))
ax.tick_params(axis="y", length=0)
ax.spines[:].set_visible(False)
ax.set_title(f"Ten questions find {sum(map(any, found))} of these {len(found)} bugs", loc="right")
keys = [ax.plot([], [], **cross)[0], ax.plot([], [], **dot)[0], ax.bar([0], 0, **hatch)]
words = ["finds the bug", "passes", "cannot be asked"]
figure.legend(keys, words, loc="upper left", bbox_to_anchor=(0, 0.96), borderpad=0, frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a grid of ten questions, one per row, and nine bugs, one per column. A cross is a
# question that fails on the broken implementation but not on the right one, a dot one that passes,
# and a hatched cell one that cannot be asked. Each of the eight exhibits has at least one cross,
# and the column 'scores divided by d' has none.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks which bugs the ten questions miss
assert all(map(any, found[:-1])) and not any(found[-1])

# %% [markdown] slideshow={"slide_type": "skip"}
# The bugs from 12.7 on are exhibits of *Going further*. A question also fails where the broken code
# raises an error, as 12.10 does for 5 queries and 7 keys. Since a layer may choose its scale, the
# wrong one stays hidden, and only known numbers find it, such as the kernel's. The other exhibits
# concern more than plain attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The wrong scale stays hidden: ask which test finds it (the kernel's). Homework for
# those who write code for a living: run the file on a layer of their own project, and bring what
# fails.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention with a mistake still returns the right shape, and the model learns. For three seeds,
#   three broken models had a lower validation loss than the right one, two of them because they
#   saw the future.
# - A loss needs baselines: no attention, equal weights, a floor that you count.
# - Ask for an answer that you know, for two runs that must agree, for two ways to one number. Then
#   look for the first wrong number.
# - Values of 1 show the sum of the weights, and one-hot values show the weights.
# - Test with unequal sizes and once with equal ones, in both modes, with another future, step by
#   step, and against the kernel in float64.
#
# **Next.** In chapter 13 your attention goes into a real model, and two of these mistakes go with
# it.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask each for one test that they will write this week.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Each exhibit has its exercise beside it, and the other six follow in *Going further*.
# `hint("12.1")` gives one more hint each time, and `solution("12.1")` shows a whole answer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Six more exhibits, bugs without an exhibit, and the ten questions put to well-known layers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Six more exhibits
#
# *15 minutes.*
#
# #### 12.7 · Each token sees others, but which ones?
#
# **Seen.** In August 2026 a reader of a well-known textbook's notebook found a triangle of True
# above the diagonal in the call below. 'Good catch', said the author, 'it seems opposite of
# nn.MultiheadAttention'
# ([LLMs-from-scratch #1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061)).

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the code of exhibit 12.7
show_source(broken("12.7"))

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the weights: equal scores, and one-hot values that show them
zeros, one_hot = torch.zeros(1, 4, 4), torch.eye(4)[None]
both = {"right": right("12.7"), "broken": broken("12.7")}
maps = {name: function(zeros, zeros, one_hot)[0] for name, function in both.items()}
side_by_side(maps, "Broken: each token sees only the future")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two maps of weights for four tokens. Right: row i has equal weights on the tokens 0 to i,
# and the future is hatched, exactly 0. Broken: each row has weight on the later tokens only, and
# the last row is all hatched.*

# %% [markdown] slideshow={"slide_type": "-"}
# **The mask is read the other way.** True means 'ignore' for `nn.MultiheadAttention` but 'attend'
# for `F.scaled_dot_product_attention`
# ([pytorch #170415](https://github.com/pytorch/pytorch/pull/170415) adds a note about it). Each
# token sees only the future, so the last one sees nothing and gets zeros.
#
# **Question.** Does a change of the future change anything before it?

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.7** · write the test

# %% [markdown] slideshow={"slide_type": "skip"}
# #### 12.8 · NaN, from one row
#
# **Seen.** PyTorch's own attention returned NaN
# ([pytorch #103963](https://github.com/pytorch/pytorch/issues/103963)). While the kernel gives
# zeros today, `nn.MultiheadAttention`, called with its defaults, still gives NaN, and so does the
# code below. One query may attend to nothing: how far will its NaN spread?

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows the code of exhibit 12.8
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
# **A query with nothing to attend to** is enough, because the gradient of a value is a sum over all
# queries, and a sum with a NaN in it is NaN. Careful users meet such queries as well, because a
# sentence that is all padding has no others.
#
# **Question.** What does a query get that may attend to nothing?

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.8** · write the test

# %% [markdown] slideshow={"slide_type": "skip"}
# #### 12.9 · NaN, in one data type only
#
# **Seen.** An attention that hid scores with a number near $-10^{10}$ was right in float32 and
# bfloat16, and gave NaN in float16 ([flax #982](https://github.com/google/flax/issues/982)). The
# largest number in float16 is 65,504. Which of the two rows below will be NaN?

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows the code of exhibit 12.9
show_source(broken("12.9"))

# %% slideshow={"slide_type": "skip"}
mask = torch.tensor([[True, True, False], [False, False, False]])
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    print(f"{str(dtype):15} {broken('12.9')(torch.zeros(2, 3, dtype=dtype), mask).tolist()}")

# %% [markdown] slideshow={"slide_type": "skip"}
# **The fill does not fit**: in float16, $-10^9$ becomes $-\infty$. A row in which some key is left
# is right even so, but a row without any key is NaN, and NaN times 0 is NaN.
#
# **Question.** What does a query without keys get, in each data type?

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.9** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.10 · Right, until somebody adds a mask
#
# **Seen.** In a much-read Transformer the padding mask of the decoder lies on the axis of the
# queries. Because its fill is finite, rows of padding get equal weights instead of NaN, and no
# other row changes. A repair was proposed in October 2025 and was open when we read it
# ([hyunwoongko/transformer #40](https://github.com/hyunwoongko/transformer/pull/40)). Ours is
# another pair of mistakes. What will token 0 see under a causal mask?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the code of exhibit 12.10
show_source(broken("12.10"))

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the weights of random queries and keys under a causal mask
torch.manual_seed(0)
q, k, one_hot = torch.randn(1, 3, 4), torch.randn(1, 3, 4), torch.eye(3)[None]
both = {"right": right("12.10"), "broken": broken("12.10")}
torch.testing.assert_close(both["broken"](q, k, one_hot), both["right"](q, k, one_hot))
causal = torch.ones(1, 3, 3, dtype=torch.bool).tril()
maps = {name: function(q, k, one_hot, causal)[0] for name, function in both.items()}
side_by_side(maps, "Broken: under a causal mask, token 0 sees all")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two maps of weights for three tokens under a causal mask. Right: the future, above the
# diagonal, is hatched. Broken: the past, below the diagonal, is hatched.*

# %% [markdown] slideshow={"slide_type": "-"}
# **Two mistakes that hide each other.** The scores are transposed, and so is the softmax. At the
# end the weights are transposed back, so that without a mask the output is right. But the mask,
# which comes in between, keeps its axes: token 0 sees all, and the last token sees only itself.
#
# **Question.** Does a hidden key change anything?

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.10** · write the test

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### 12.11 · Two kernels, two texts
#
# **Seen.** With two kernels that should agree, one model wrote two texts when its window, set to 4,
# was shorter than the prompt
# ([transformers #40163](https://github.com/huggingface/transformers/pull/40163), 2025). The same
# was found in September 2026 ([zml #763](https://github.com/zml/zml/pull/763)), where the tests had
# tried only attention without a window. How many tokens does ours see with a window of 2?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the code of exhibit 12.11
show_source(broken("12.11"))

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the weights for a window of 2
zeros, one_hot = torch.zeros(1, 5, 4), torch.eye(5)[None]
both = {"right": right("12.11"), "broken": broken("12.11")}
maps = {name: function(zeros, zeros, one_hot, 2)[0] for name, function in both.items()}
side_by_side(maps, "Broken: a window of 2 holds three tokens")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two maps of weights for five tokens and a window of 2. Right: from row 1 on, each token
# has half of its weight on itself and half on the token before. Broken: from row 2 on, a third each
# on itself and on the two tokens before.*

# %% [markdown] slideshow={"slide_type": "skip"}
# **A window of 2 has three tokens.** For one library a window counts the token itself, and for the
# kernel only those before it. Since each is right by its own definition, a 1 has to be subtracted
# in between.
#
# **Question.** How many weights are above 0, if all scores are equal?

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.11** · write the test

# %% [markdown] slideshow={"slide_type": "skip"}
# #### 12.12 · The same batch in small parts
#
# **Seen.** In October 2024 somebody trained once with batches of 32, and once with 32 batches of 1
# whose gradients were added before each step (**gradient accumulation**). The results should have
# been the same, but the second was much worse
# ([trl #2175](https://github.com/huggingface/trl/issues/2175)). Libraries began to correct it that
# month ([transformers #34191](https://github.com/huggingface/transformers/pull/34191)). Which words
# count too much?

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows the code of exhibit 12.12
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
#
# **Question.** Is the loss of the parts that of the whole?

# %% [markdown] slideshow={"slide_type": "skip"}
# **12.12** · write the test

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The storeroom: bugs without an exhibit
#
# *1 minute.* For each: first what was seen, and then what it was.
#
# - *Weights of minus infinity.* The mask, a fill with $-\infty$, came after the softmax
#   ([timm #2236](https://github.com/huggingface/pytorch-image-models/pull/2236)).
# - *Scores of -1,000,000 in a heat map.* A mask filled its caller's scores in place (d2l 1.0.3,
#   `masked_softmax`).
# - *Positions that change nothing.* The sum was computed and then dropped, so that a model without
#   a mask would see a bag of words
#   ([pytorch-lightning #19138](https://github.com/Lightning-AI/pytorch-lightning/issues/19138)).
# - *Weights of 1.25.* This one is right: dropout divides what it keeps by $1 - p$, so that each
#   weight keeps its mean ([pytorch #42929](https://github.com/pytorch/pytorch/issues/42929)).

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Ten questions to well-known layers
#
# *2 minutes.* The table was made on 23 November 2026 by
# `python -m tests.benchmarks.other_implementations FOLDER` (with `--install` first), on a CPU, in
# float32 and in eval mode. Only what an implementation takes is tried, and `nn.MultiheadAttention`
# is called with its defaults.
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
# The failing question is always that of exhibit 12.8, and without empty rows the failure does no
# harm.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Mistakes made in our own workshop
#
# *1 minute.* While we wrote this course, a test for leaking padding lacked a sentence of length 0,
# so that a wrong mask of chapter 4 passed it. A reader found this by trying the test on that mask.
# And this chapter compared five losses without a baseline: it called a model 'nearly as good' whose
# attention gained nothing over equal weights, until an expert added the two baselines.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# The threads are linked where an exhibit names them. We read them in November 2026, and for 12.6
# and 12.10 also the code as it was then. An exhibit is a small function of ours modelled on a
# thread, not its code. For 12.5 and 12.10 we found only relatives of the mistake, and no thread
# with exactly this one.
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning*, version 1.0.3, chapter
#   11, and its package d2l 1.0.3. [d2l.ai](https://d2l.ai)
# - A. Karpathy, *A Recipe for Training Neural Networks*, 2019: overfit one batch; 'neural net
#   training fails silently'.
