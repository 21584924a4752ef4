# %% [markdown] slideshow={"slide_type": "slide"}
# # 0 · Start here
#
# **You will** see attention decide what a word means, meet the two intuitions that the whole
# course leans on, and learn how these notebooks work.
#
# About 15 minutes. Builds on nothing but Python. The book (D2L): the opening of chapter 11.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One word, two readings
#
# > The cat did not cross the street because **it** was too *tired*.
# >
# > The cat did not cross the street because **it** was too *wide*.
#
# What is *it*?

# %% [markdown] slideshow={"slide_type": "fragment"}
# You knew at once, twice, and the answers differ. A single word at the end changed what *it* is.
# How could a machine do that?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Read both sentences aloud and stop after each; the room calls out the cat, then the street. The
# example is a classic (Winograd's of 1972; such pairs are now called Winograd schemas). Ask how
# they knew: sooner or later somebody says 'streets do not get tired', which is the next slide.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Say it as a question and its candidates.
#
# - The sentence asks: *what here can be tired?* That is a **query**.
# - Each word says what it is: a living thing, a place, an action. Those are the **keys**.
# - The better a key fits the query, the more **attention** the word gets.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Below, each word is described by three numbers: is it alive, is it a place, is it an action?
# We chose them by hand, so that you can check every step. Trained networks find their own.

# %% slideshow={"slide_type": "skip"}
import torch

from d2l_attention import attention_pooling, dot_score

torch.set_num_threads(1)

# %% slideshow={"slide_type": "-"}
describe = {  # alive, place, action
    "The": [0.0, 0.0, 0.0],
    "cat": [3.0, 0.0, 0.0],
    "did": [0.0, 0.0, 1.0],
    "not": [0.0, 0.0, 0.0],
    "cross": [0.0, 0.0, 3.0],
    "the": [0.0, 0.0, 0.0],
    "street": [0.0, 3.0, 0.0],
}
words, keys = list(describe), torch.tensor(list(describe.values()))
can_be = {
    "tired": torch.tensor([[1.0, 0.0, 0.0]]),  # only what is alive gets tired
    "wide": torch.tensor([[0.0, 1.0, 0.0]]),  # only places are wide
}

# %% [markdown] slideshow={"slide_type": "subslide"}
# How well does a key fit a query? Multiply them number by number and add up: that is the
# **score**. For *tired*, the cat scores $1 \cdot 3 = 3$, every other word 0.
#
# Now make shares. $e^3$ is about 20 for the cat, $e^0$ is 1 for each of the six others: 26 in
# all. These shares are the **attention weights**. (Why $e$? Chapter 1.)
#
# **Predict.** What is the cat's weight? And do the other six get nothing, or a little?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute, then hands up: 'Who says that the other six get nothing?' Expect
# many, because their scores are 0. Point at $e^0 = 1$ before you go on.

# %% slideshow={"slide_type": "subslide"}
weights = {}
for end, query in can_be.items():
    scores = dot_score(query, keys)
    _, weights[end] = attention_pooling(scores, keys)
    shares = zip(words, weights[end][0].tolist(), strict=True)
    print(f"{end:5}: ", "  ".join(f"{word} {share:.2f}" for word, share in shares))

# %% slideshow={"slide_type": "skip"}
assert words[weights["tired"].argmax()] == "cat"
assert words[weights["wide"].argmax()] == "street"
assert all((row > 0).all() for row in weights.values())

# %% [markdown] slideshow={"slide_type": "fragment"}
# The cat gets $20/26 = 0.77$, and nobody gets nothing: $1/26 = 0.04$ each.

# %% [markdown] slideshow={"slide_type": "subslide"}
# As a picture, a **heat map**: a row is a query, a column is a key, dark is much, and each row
# sums to one.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
import matplotlib.pyplot as plt

from d2l_attention.views.plots import heatmap, set_style

set_style()
figure, ax = plt.subplots(figsize=(9, 2.6))
both = torch.cat([weights["tired"], weights["wide"]])
heatmap(ax, both, ["it was too tired", "it was too wide"], words, numbers=True, vmax=1.0)
ax.set_title("Same keys, another query: 'tired' finds the cat, 'wide' the street")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map with two rows and seven columns, one a word. In the row 'it was too
# tired' the cell of 'cat' is dark; in the row 'it was too wide' the cell of 'street' is.
# The other cells are pale, and none is empty.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Read one row aloud, cell by cell: it is the first heat map of many. What matters here: the same
# operation, with the same keys, gave two answers because the query changed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Your turn
#
# The same weights, to play with. The slider says how *sharp* the match is: the scores are
# multiplied by that number before they become weights.

# %% [markdown] slideshow={"slide_type": "skip"}
# Point at a cell to read its number, or walk with the arrow keys. Press **Show lines** to see the
# weights as links.

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** At which sharpness does every word get the same attention? And at which does the
# winner take more than 99%?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
from d2l_attention.views import AttentionView

sharpness = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
scores = torch.cat([dot_score(query, keys) for query in can_be.values()])
frames = [attention_pooling(factor * scores, keys)[1] for factor in sharpness]
view = AttentionView(
    torch.stack(frames)[:, None],  # (frames, heads, queries, keys)
    queries=["it … tired", "it … wide"],
    keys=words,
    frames=[f"sharpness {factor}" for factor in sharpness],
    title="Who is 'it'?",
)
view.frame = 2
view

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive heat map of the same two rows and seven words, with a slider for the
# sharpness. It opens at sharpness 1, the picture above.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The view is alive: ask for a vote on the first question, then pull the slider to 0. Go up one step
# at a time and let the room call 'stop' at 99%. **Show lines** draws the weights as links: for many
# that is the picture that stays.

# %% slideshow={"slide_type": "skip"}
equal, *_, sharpest = frames
assert torch.allclose(equal, torch.full((2, 7), 1 / 7))
assert [factor for factor, w in zip(sharpness, frames, strict=True) if w.max() > 0.99] == [3.0]

# %% [markdown] slideshow={"slide_type": "subslide"}
# At sharpness 0 all words are equal, $1/7$ each; only at 3 does the winner pass 99%.
#
# We wrote the numbers by hand. The operation is the real one: score, softmax, blend is the core
# of the Transformer, the network behind most large language models. Where do queries and keys
# come from? What is a good score? Which words must *not* be seen? That is the rest of the course.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two intuitions
#
# **A party.** Forty people talk at once. You want to know who will drive you home. You hear
# everyone, some loudly, most as a murmur, each in proportion to how much they matter *to your
# question*. Ask another question and you listen to others: the room has not changed.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask what in the party is the query and what are the keys. (The query is the question in your
# head; a key is what makes a voice worth your ear; a value is what that voice says.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A generous dictionary.** An ordinary dictionary answers when your key is in it, and fails
# when it is not. This one always answers: it looks at every entry, weighs each by how
# similar its key is to yours, and returns the blend.

# %% slideshow={"slide_type": "-"}
prices = {20.0: 6.0, 30.0: 9.0, 40.0: 14.0}  # diameter of a pizza in cm -> price
print("strict dictionary, 30 cm:", prices.get(30.0), "  25 cm:", prices.get(25.0))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** What does a generous dictionary say for 25 cm? And for 30 cm, still exactly 9?

# %% slideshow={"slide_type": "fragment"}
from d2l_attention import gaussian_score

sizes = torch.tensor(list(prices))[:, None]
for asked in (30.0, 25.0):
    scores = gaussian_score(torch.tensor([[asked]]), sizes, width=4.0)
    price, _ = attention_pooling(scores, torch.tensor(list(prices.values()))[:, None])
    print(f"generous dictionary, {asked:.0f} cm: {price.item():.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# For 25 cm the strict dictionary has `None`; the generous one says 7.51, about half-way between
# the neighbours' prices. For 30 cm it says 9.08, not 9: it listens to the others as well.
#
# The diameters are the keys, what you ask is the query, and the prices are the **values**. The
# query meets the keys; the answer is made of values. (`width` says how far a size may be off
# and still count: chapter 2 turns that knob.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Try it.** What does the generous dictionary say for 60 cm? Can it ever say more than 14?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Change 25 to 60 in the notebook, live. Many expect more than 20, as a straight line would give. It
# says 14.00: a blend is never outside what it blends. Chapter 1 makes a theorem of it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The way through
#
# | chapter | the question it answers | the book |
# |---|---|---|
# | 1 · Queries, keys and values | How do you look up what is not there? | 11.1 |
# | 2 · Attention pooling by similarity | Can similarity alone predict? | 11.2 |
# | 3 · Scoring functions | How alike are a query and a key? | 11.3 |
# | 4 · Masked softmax | How do you forbid a look? | 11.3.2 |
# | 5 · Bahdanau attention | What is a look back worth? | 11.4 |
# | 6 · Multi-head attention | Why look in several ways at once? | 11.5 |
# | 7 · Self-attention and positional encoding | How does it know the order? | 11.6 |
# | 8 · The Transformer | What if attention is all there is? | 11.7 |
# | 9 · All its forms; 10 · At scale | What if there are too many to look at? | |

# %% [markdown] slideshow={"slide_type": "skip"}
# 'The book' is *Dive into Deep Learning*, free at <https://d2l.ai>. You do not need it here.
# If you read it alongside: where the book has a name, ours is the same; where it has none, such
# as `attention_pooling`, we made one. Where we differ, we say so and show why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How these notebooks work
#
# - **Run** a cell with <kbd>Shift</kbd> + <kbd>Enter</kbd>. Change a number, run it again. `make
#   lab` gave you a copy, so nothing can break. *Kernel → Restart* forgets all variables; to get
#   a chapter back as it was, delete your copy and start `make lab` again.
# - **Predict** means: stop, and say your answer aloud before you run the next cell. Being
#   wrong is where the learning is.
# - An `assert` in a cell is a claim of the text: if it passes in silence, the claim holds on
#   your machine too. `check_shape(x, shape)` stops if a tensor has another shape: read it as a
#   caption.

# %% [markdown] slideshow={"slide_type": "subslide"}
# - A **view** answers your hand: sliders, heat maps, lines. Each stands next to a question.
# - `show_source(...)` shows the package's own code: what you read is what runs.
# - **Exercises** stand at the end of each chapter, easiest first. Each has a check that tells you
#   what is wrong, up to three hints, and a solution.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## A first exercise
#
# Ten seconds, to see how it feels. Look at the picture of *tired* and *wide* again: what do the
# seven weights of one row sum to? Write your number in place of `None` and run the cell.

# %% slideshow={"slide_type": "fragment"}
from d2l_attention.exercises import check, hint, progress, solution

answer = None
check("0.1", answer)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Stuck? `hint("0.1")` gives a hint, and another one when you call it again; `solution("0.1")`
# shows the way. `progress()` lists what you have solved, today and on earlier days.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Do it live and give a wrong answer first, 7 say, so that the room sees what a check tells. Then
# call `hint("0.1")` once. Whoever has a laptop open solves it now.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Your machine
#
# Everything here runs on an ordinary laptop in seconds; chapters 0 to 4 need no graphics card.
# This is what was found:

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention import try_gpu

names = {
    "cpu": "no graphics card: the course runs on the CPU",
    "cuda": "an NVIDIA graphics card",
    "mps": "an Apple graphics processor",
}
print(f"PyTorch {torch.__version__}, device '{try_gpu()}': {names[try_gpu().type]}")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention answers a question by weighing *everything it has*, each part by how well it fits.
# - The question is the query, the labels to match are the keys, what is blended are the values.
# - Change the question and the same room gives another answer.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, version 1.0.3, chapter 11.
# - The pair *tired* / *wide* follows the example made popular by Jakob Uszkoreit (2017),
#   *Transformer: A Novel Neural Network Architecture for Language Understanding*, Google
#   Research blog. Such pairs go back to Winograd (1972), *Understanding Natural Language*.
# - The party is Cherry's (1953) 'cocktail party' of hearing research: *Some Experiments on the
#   Recognition of Speech, with One and with Two Ears*, JASA 25(5).
