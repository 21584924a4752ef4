# %% [markdown] slideshow={"slide_type": "slide"}
# # 0 · Start here
#
# **You will** turn the question of one word into attention weights, meet two pictures of attention,
# and learn how these notebooks work.
#
# Core path: 30 to 45 minutes.
#
# Builds on Python and a little PyTorch. The course follows *Dive into Deep Learning* (D2L), here
# the opening of its chapter 11.

# %% [markdown] slideshow={"slide_type": "notes"}
# 28 minutes: 14 for the cat and the street, 8 for the two intuitions, 3 for the map, 3 for the
# exercise and the summary. Skip the party first, then the map. Open this notebook in JupyterLab
# beforehand and run all of it, for 60 cm and for the exercise. 'How these notebooks work' is on the
# page only: send the room there.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import matplotlib.pyplot as plt
import torch
from matplotlib.markers import MarkerStyle
from matplotlib.transforms import Affine2D

from d2l_attention.training.translators import translator
from d2l_attention.views import AttentionView, explore, look_inside
from d2l_attention.views.palette import (
    FAINT,
    GROUND,
    INK,
    KEY,
    ON_STRONG,
    ON_WEAK,
    OUTPUT,
    QUERY,
    VALUE,
    WEIGHT,
    ramp_to,
)
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One word, two readings
#
# > The cat did not cross the street because **it** was too *tired*.
# >
# > The cat did not cross the street because **it** was too *wide*.
#
# What is *it*?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Read both sentences aloud and stop after each. The room calls out the cat, then the
# street; only then show the arrows. Ask how they knew: sooner or later somebody says 'streets do
# not get tired', which is the next slide. The example follows Google's blog of 2017 on the
# Transformer, where it is an animal that does not cross.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws an arrow from 'it' to the cat and to the street
figure, axes = plt.subplots(2, 1, figsize=(11, 2.8))
for ax, (end, meant) in zip(axes, (("tired", "cat"), ("wide", "street")), strict=True):
    middle, start = {}, 0
    for word in f"The cat did not cross the street because it was too {end}".split():
        middle[word] = start + len(word) / 2
        weight = "bold" if word in ("it", meant) else "normal"
        style = {"family": "monospace", "fontsize": 17, "weight": weight, "ha": "center"}
        ax.text(middle[word], 0, word, **style)
        start += len(word) + 1
    arrow = {"arrowstyle": "-|>", "lw": 2.5, "color": WEIGHT, "connectionstyle": "arc3,rad=0.25"}
    ax.annotate("", (middle[meant], 0.3), (middle["it"], 0.3), arrowprops=arrow)
    ax.set(xlim=(-1, start), ylim=(-0.2, 1.6))
    ax.axis("off")
figure.suptitle("The last word decides what 'it' is")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the two sentences, one below the other, each with an arrow that begins at 'it'. Where the
# sentence ends in 'tired', the arrow leads to 'cat'. Where it ends in 'wide', the arrow leads to
# 'street'.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# You knew at once, both times. How could a machine do that?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A query and seven keys
#
# - The word *it* comes with a question: *what here can be tired?* This question is called the
#   **query**.
# - Each of the first seven words offers a description of itself, here three numbers: is it alive,
#   is it a place, is it an action? This description is called the **key**.
# - The better a key fits the query, the more **attention** its word gets.

# %% [markdown] slideshow={"slide_type": "skip"}
# We chose these numbers by hand, so that you can check every step. A trained network finds its own.

# %% slideshow={"slide_type": "skip"}
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
    "tired": torch.tensor([1.0, 0.0, 0.0]),  # only what is alive gets tired
    "wide": torch.tensor([0.0, 1.0, 0.0]),  # only places are wide
}

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the seven keys
figure, ax = plt.subplots(figsize=(9, 2.6))
features = "alive", "place", "action"
heatmap(ax, keys.T, features, words, vmax=3.0, cmap=ramp_to(KEY), sides=None)
ax.set_xlabel("keys", color=KEY, labelpad=7)
for row, line in enumerate(keys.T.tolist()):
    for column, number in enumerate(line):
        ink = ON_STRONG if number > 2 else ON_WEAK
        ax.text(column, row, f"{number:.0f}", ha="center", va="center", color=ink)
ax.set_title("Each column is a key: the cat is alive, the street is a place")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a table of numbers with the rows alive, place and action, and a column for each of the
# seven words. The cat has 3 at alive, the street 3 at place, cross 3 and did 1 at action. All other
# numbers are 0.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Write the query for *tired* on the board: (1, 0, 0). Expect 'Who chooses *alive*?'
# (Here we do. A network finds its numbers by training, and they have no names.) And 'Why 3 and not
# 1?' (Any number above 0 lets the cat win. The slider will change how clearly.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From scores to weights
#
# How well does a key fit a query? To find out, multiply them entry by entry and add up the
# products. This sum, a **dot product**, is the **score**. For *tired* the cat scores
# $1 \cdot 3 = 3$, and every other word scores 0.
#
# **Predict.** The scores become shares of the attention that sum to one. Do the six other words get
# nothing, or a little?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Hands up for 'nothing' before you go on: expect most of the room, because their
# scores are 0. Then show the code, and after it the numbers. 'Why $e$?' Any base above 1 gives
# positive shares and the same order. $e$ is the custom, because its derivative is simple (chapter
# 1).


# %% slideshow={"slide_type": "fragment"}
def attention_weights(query, keys):  # (3,), (7, 3) -> (7,)
    scores = keys @ query  # one score per word
    shares = scores.exp()  # e to the power of each score
    return shares / shares.sum()


print(attention_weights(can_be["tired"], keys))

# %% [markdown] slideshow={"slide_type": "fragment"}
# A little. Each score becomes an exponent of $e$. Since $e^3$ is about 20 and $e^0$ is 1, the seven
# powers sum to $20 + 6 = 26$. So the **attention weight** of the cat is $20/26 = 0.77$, and that of
# each other word is $1/26 = 0.04$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The heat map
#
# In a **heat map** of attention, each row is a query and each column a key. A strong colour means
# much attention, and the numbers of a row sum to one.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the weights of both queries as a heat map
both = torch.stack([attention_weights(query, keys) for query in can_be.values()])
figure, ax = plt.subplots(figsize=(9, 2.6))
heatmap(ax, both, ["it was too tired", "it was too wide"], words, numbers=True, vmax=1.0)
ax.set_title("Same keys, another query: 'tired' finds the cat, 'wide' the street")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map with two rows and seven columns, one per word. In the row 'it was too
# tired' the cell of 'cat' is strong; in the row 'it was too wide' the cell of 'street' is.
# The other cells are pale, and none is empty.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says about these weights
assert [words[row.argmax()] for row in both] == ["cat", "street"]
assert (both > 0).all()

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Read one row aloud, cell by cell: it is the first heat map of many. What matters: the
# same operation, with the same keys, gave two answers, because the query changed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Turn the sharpness yourself
#
# The slider sets how *sharp* the match is: the scores are multiplied by this number before they
# become weights.
#
# **Question.** At which sharpness does every word get the same attention? And at which does the
# winner take more than 99%?

# %% [markdown] slideshow={"slide_type": "skip"}
# **Show lines** draws the weights as links between words.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the weights at six degrees of sharpness
sharpness = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
frames = [
    torch.stack([attention_weights(factor * query, keys) for query in can_be.values()])
    for factor in sharpness
]
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
# Five minutes. The view is alive: ask for a vote on the first question, then pull the slider to 0
# (every weight is 1/7). Go up one step at a time, and let the room call 'stop' at 99%: only 3 does
# it. **Show lines** draws the weights as links, and for many that is the picture that stays. Say
# before you go on that we wrote these keys and queries by hand, but that the operation is the one
# inside the Transformer.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the two answers
equal, *_, sharpest = frames
assert torch.allclose(equal, torch.full((2, 7), 1 / 7))
assert [factor for factor, w in zip(sharpness, frames, strict=True) if w.max() > 0.99] == [3.0]

# %% [markdown] slideshow={"slide_type": "skip"}
# At sharpness 0 every word gets $1/7$. Of the six settings, only sharpness 3 lifts the winner above
# 99%.
#
# Although we wrote these keys and queries by hand, the operation is the real one: scores that
# become weights are the core of the Transformer, the network on which most large language models
# are built. The next chapters show where queries and keys come from, and what a good score is.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two intuitions: a party and a dictionary
#
# **A party.** Many people talk at once, and you want to know who will drive you home. You hear
# everybody, but most clearly those who matter *to your question*. Ask another question in the same
# room, and you listen to other people.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the same party for two questions
said = ["I came by car", "the film is too long", "more cake?", "one seat is free in my car"]
said += ["I loved the film", "it rains again"]
asked_for = {
    "Who drives me home?": [0.34, 0.02, 0.02, 0.58, 0.02, 0.02],
    "How was the film?": [0.02, 0.46, 0.02, 0.02, 0.46, 0.02],
}
figure, axes = plt.subplots(1, 2, figsize=(11, 3.6))
for ax, (question, heard) in zip(axes, asked_for.items(), strict=True):
    for row, (sentence, share) in enumerate(zip(said, heard, strict=True)):
        colour = INK if share > 0.1 else FAINT
        ax.plot([0, 1], [-2.5, -row], color=WEIGHT, linewidth=14 * share + 0.5)
        ax.text(1.05, -row, sentence, va="center", fontsize=15, color=colour)
    ax.plot(0, -2.5, "o", markersize=44, color=QUERY)
    ax.text(0, -2.5, "you", ha="center", va="center", color=GROUND, fontsize=15)
    ax.set(xlim=(-0.25, 2.6), ylim=(-5.6, 0.6), title=f"'{question}'")
    ax.axis("off")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: twice the same party, six people who each say a sentence, with a line from you to each.
# Where you ask 'Who drives me home?', two lines are thick: to 'I came by car' and to 'one seat is
# free in my car'. Where you ask 'How was the film?', the thick lines lead to the two people who
# talk about the film. All other lines are thin, and none is missing.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask what in the party is the query and what are the keys. (The query is the question
# in your head; a key is what makes a voice worth your ear; a value is what that voice says.) The
# thickness of the lines is drawn by hand.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A generous dictionary
#
# An ordinary dictionary answers only if your key is in it. A generous dictionary also answers for
# keys in between: it weights each entry by how similar its key is to yours, and returns the
# weighted average of the values.

# %% slideshow={"slide_type": "-"}
prices = {20.0: 6.0, 30.0: 9.0, 40.0: 14.0}  # diameter of a pizza in cm -> price
print("strict dictionary, 30 cm:", prices.get(30.0), "  25 cm:", prices.get(25.0))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** What does a generous dictionary give for 25 cm? And for 30 cm, still exactly 9?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for a number for 25 cm: most say 7.5. Then vote on 30 cm: many say 9, because the
# entry is there.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The generous dictionary in code

# %% slideshow={"slide_type": "-"}
sizes, costs = torch.tensor(list(prices.keys())), torch.tensor(list(prices.values()))


def generous(asked):
    scores = -(((asked - sizes) / 4.0) ** 2) / 2  # 0 for the same size, lower for others
    shares = scores.exp()
    return (shares / shares.sum()) @ costs  # the weighted average of the prices


print(f"25 cm: {generous(25.0):.2f}   30 cm: {generous(30.0):.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# For 25 cm the generous dictionary gives 7.51, about half-way between the prices of the two
# neighbours. For 30 cm it gives 9.08 instead of 9, because the other two sizes have a small weight
# as well, and the mean of their prices, 10, is above 9. (A score of 0 means the same size, and
# lower scores mean other sizes. Chapter 2 studies the number 4.0.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. These are the lines of the cat again: a score for each entry, shares that sum to one.
# New is the last step, the weighted average. The 4.0 says how far a size may differ and still count
# (chapter 2).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Keys, query, values
#
# The diameters are the keys, the diameter that you ask for is the query, and the prices are the
# **values**. The query is compared with the keys, and the answer is an average of the values.


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the prices as weights on a beam, and the answer at which it balances
def balance(figure, query=30):
    curve, beam = figure.subplots(2, 1, height_ratios=[1.3, 1], sharex=True)
    asked = range(15, query + 1)
    answer = generous(query)
    curve.plot([generous(each) for each in asked], asked, color=OUTPUT)
    curve.plot(costs, sizes, "D", color=VALUE, markersize=8)
    curve.plot(answer, query, "o", color=OUTPUT, markerfacecolor=GROUND, markersize=12)
    curve.axhline(query, color=QUERY, linewidth=1.5, linestyle=":")
    curve.set(ylim=(14, 42), yticks=[20, 25, 30, 35, 40])
    curve.set_ylabel("query: cm", color=QUERY, fontsize=15)
    for ax in (curve, beam):
        ax.tick_params(labelsize=15)
        ax.axvline(answer, color=OUTPUT, linewidth=1, linestyle="--", zorder=0)

    beam.plot([4, 16], [0, 0], color=INK, linewidth=4)
    shares = (-(((query - sizes) / 4.0) ** 2) / 2).softmax(dim=0)
    on_beam = MarkerStyle("o").transformed(Affine2D().translate(0, 0.5))
    beam.scatter(costs, [0.08] * 3, 1500 * shares, marker=on_beam, color=WEIGHT, zorder=3)
    box = {"facecolor": GROUND, "linewidth": 0, "pad": 1}
    for cost, share in zip(costs, shares, strict=True):
        beam.text(cost, 1.5, f"{share:.2f}", color=WEIGHT, ha="center", bbox=box, fontsize=15)
    beam.plot(answer, -0.4, "^", color=OUTPUT, markersize=20, markerfacecolor=GROUND)
    side, beside = ("left", 0.4) if query < 35 else ("right", -0.4)
    beam.text(answer + beside, -0.75, f"answer {answer:.2f}", color=OUTPUT, ha=side, fontsize=15)
    beam.set(xlim=(4, 16), ylim=(-1, 2), xticks=[4, 6, 9, 14, 16], yticks=[])
    beam.spines[:].set_visible(False)
    beam.set_xlabel("value: price", color=VALUE, fontsize=15)
    curve.set_title("The answer is where the weights balance", fontsize=18)


explore(
    balance,
    figsize=(6.2, 5),
    alt="A beam of prices with the weights on it, and the curve of the answers above.",
    query=(15, 40),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view, in which a slider moves the query. Below, a beam from price 4 to 16
# with three discs at 6, 9 and 14, whose areas are the weights, and a fulcrum at the answer. Above,
# the curve of the answers for all queries up to this one. At 30 cm the fulcrum is at 9.08, a little
# to the right of the large disc.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The example of the cat had no values: it stopped at the weights.
#
# **Question.** What does the generous dictionary give for 60 cm? Can it ever give more than 14?

# %% slideshow={"slide_type": "skip"}
print(f"60 cm: {generous(60.0):.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# It gives 14.00, and it can never give more, because an average stays within the range of the
# numbers that it averages. Chapter 1 shows why.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. What were the values of the cat and the street? (There were none: we stopped at the
# weights.) Then ask for 60 cm, and run `generous(60.0)` in the notebook that you opened beforehand.
# Many expect about 24, as a straight line would give. It gives 14.00, because an average is never
# outside what it averages. Chapter 1 shows why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The map of the course
#
# | chapter | the question it answers | needs | book |
# |---|---|---|---|
# | [1 · Queries, keys and values][1] | How do you look up what is not there? |  | 11.1 |
# | [2 · Attention pooling by similarity][2] | Can similarity alone predict? | 1 | 11.2 |
# | [3 · Scoring functions][3] | How alike are a query and a key? | 2 | 11.3 |
# | [4 · Masked softmax][4] | How do you hide a key? | 3 | 11.3.2 |
# | [5 · Bahdanau attention][5] | How much does looking back help? | 4 | 11.4 |
# | [6 · Multi-head attention][6] | Why look in several ways at once? | 4 | 11.5 |
# | [7 · Self-attention and positional encoding][7] | How do tokens get an order? | 6 | 11.6 |
# | [8 · The Transformer][8] | What if attention is all there is? | 7 | 11.7 |
# | [9 · Attention in all its forms][9] | What if there are too many words? | 8 | |
# | [10 · Attention at scale][10] | What if one machine is too small? | 9 | |
# | [11 · Attention in today's models][11] | What do today's models do differently? | 9 | |
# | [12 · The bug museum][12] | How do you find a bug in attention? | 8 | |
# | [13 · Your attention in a real model][13] | Does your attention work in a real model? | 7 | |
#
# [1]: 01_queries_keys_values.ipynb
# [2]: 02_attention_pooling.ipynb
# [3]: 03_scoring_functions.ipynb
# [4]: 04_masked_softmax.ipynb
# [5]: 05_bahdanau_attention.ipynb
# [6]: 06_multi_head_attention.ipynb
# [7]: 07_self_attention_and_positions.ipynb
# [8]: 08_the_transformer.ipynb
# [9]: 09_attention_in_all_its_forms.ipynb
# [10]: 10_attention_at_scale.ipynb
# [11]: 11_attention_in_todays_models.ipynb
# [12]: 12_the_bug_museum.ipynb
# [13]: 13_your_attention_in_a_real_model.ipynb

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Read the column of questions only. Say which chapters your course takes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The translator of chapter 8
#
# This is the machine that you build in chapter 8, a translator. A click opens a box, down to a
# single number.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows a translator from the outside
model, english, french = translator("transformer")
source, so_far = ["he", "sees", "her"], ["<bos>", "il", "la"]
inputs = (torch.tensor([vocab[words]]) for vocab, words in ((english, source), (french, so_far)))
tokens = {"source": source, "target": so_far}
look_inside(model, *inputs, tokens=tokens, title="Two languages meet in the decoder")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of a translator from the outside. The English words he, sees, her
# and the French <bos>, il and la go in as numbers. A box named encoder gives a row of numbers for
# each English word. A box named decoder gives a row of scores for each of the three French ones.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Do not explain the boxes. Say that the course opens them one by one.

# %% [markdown] slideshow={"slide_type": "skip"}
# 'The book' is *Dive into Deep Learning*, free at <https://d2l.ai>. You can take this course
# without it. If you read it alongside, you will find most of its names in our code, and where our
# results differ, the text says so.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## How these notebooks work
#
# - **Run** a cell with <kbd>Shift</kbd> + <kbd>Enter</kbd>. Change a number and run it again.
#   `make lab` gave you a copy, so nothing can break. To get a chapter back as it was, delete your
#   copy and start `make lab` again.
# - Where it says *Predict*, stop, and say your answer aloud before you run the next cell. A wrong
#   prediction is worth more than none.
# - A **folded** cell shows one line and three dots. It imports, draws, checks, measures or shows a
#   view, and a click opens it. You may leave it closed.
# - The **core path** takes 55 to 130 minutes, and each chapter says how long. From chapter 3 on it
#   has a marked place to stop half-way. What comes under *Going further* can be
#   read in almost any order, or left out.
# - Most chapters **build** their mechanism in plain code, and then show that the package
#   `d2l_attention` computes the same. Retype these cells: it is the best way to learn them.
# - Some **exercises** are part of the core path and come before the code that they ask for; most
#   follow the summary and *Going further*. Each has a check that tells you what is wrong, up to
#   three hints, and a solution.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A first exercise
#
# Look at the heat map of *tired* and *wide* again. What do the seven weights of one row sum to?
# Write your number in place of `None` and run the cell.

# %% slideshow={"slide_type": "-"}
from d2l_attention.exercises import check, hint, progress, solution

answer = None
check("0.1", answer)

# %% [markdown] slideshow={"slide_type": "fragment"}
# If you are stuck, `hint("0.1")` gives a hint, and another one when you call it again.
# `solution("0.1")` shows the way.

# %% [markdown] slideshow={"slide_type": "skip"}
# `progress()` lists what you have solved so far, and says where to go on.

# %% slideshow={"slide_type": "skip"}
progress()

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes, in the notebook that you opened beforehand. Give a wrong answer first, 7 say, so that
# the room sees what a check tells. Then call `hint("0.1")` once. Show a folded cell on the way.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Your machine
#
# Everything here runs on an ordinary laptop without a graphics card, although several chapters
# train models, for seconds or a minute or two. This was found on your machine:

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Finds out what this machine has
from d2l_attention import try_gpu

names = {
    "cpu": "no graphics card: the course runs on the CPU",
    "cuda": "an NVIDIA graphics card",
    "mps": "an Apple graphics processor",
}
found = names.get(try_gpu().type, "the device that D2L_ATTENTION_DEVICE names")
print(f"PyTorch {torch.__version__}, device '{try_gpu()}': {found}")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention gives every candidate a weight. The better its key fits the query, the larger the
#   weight.
# - The answer is the weighted average of the values.
# - Another query may get another answer from the same keys and values.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let three students say one line each before you show it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Symbols and words
#
# The chapters use these letters, in formulas, in code and in the comments that give shapes. Other
# letters are explained where they are used. Come back here when one is unclear.
#
# | symbol | shape or range | meaning |
# |---|---|---|
# | `B` | number | sentences in a batch |
# | `Q`, `K` | numbers | how many queries, how many keys |
# | `D` | number | width: the dimension of a query, a key or a token (`num_hiddens`) |
# | `V` | number | the dimension of a value |
# | `H` | number | heads; each has width `D / H` |
# | $n$ | number | length of a sequence, where it attends to itself |
# | $d$ | number | in formulas: the dimension of the query that meets the key (with heads `D / H`) |
# | $q$, $k_j$, $v_j$ | vectors | a query; key and value of pair $j$ |
# | $\mathbf{Q}$, $\mathbf{K}$, $\mathbf{V}$ | matrices | all queries, keys, values as rows |
# | $a_j$, $a_{ij}$ | any number | score of key $j$, for one query or for query $i$ |
# | $\alpha_j$, $\alpha_{ij}$ | 0 to 1 | attention weight: the softmax of the scores over the keys |
# | $W_q, W_k, W_v, W_o$ | matrices | parameters ('weights' are always attention weights) |
# | $i$, $j$ | counted from 0 in code | index of a query, index of a key |
# | $h$ | number | chapter 3: hidden units of a score; chapters 6 and 7: index of a head, 1 to $H$ |
# | position | 0, 1, 2, ... | where a token is in its sequence, counted from 0 |
# | $h_j$, $s_i$ | vectors | chapter 5: state of the encoder at word $j$, of the decoder after $i$ |
# | `valid_lens` | (B,) or (B, Q) | how many keys from the left may be seen |
# | `mask` | bool, (*, Q, K) | True = may attend |
#
# - **Score**: how well a key fits a query, any number. **Weight**: its share of the attention.
# - **Attention pooling**: the weighted sum of the values.
# - **Mask**: which keys a query may see. A **causal** mask hides later positions.
# - **Self-attention**: queries, keys and values come from one sequence. **Cross-attention**: the
#   queries come from one sequence, the keys and values from another.
# - **Head**: one of several attentions that run side by side in a layer.
# - **Context vector**: what attention returns to a decoder.
# - **Step**: one step of training, or one word of decoding.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, version 1.0.3, chapter 11.
# - The pair *tired* / *wide* follows an example (with an animal for the cat) in Jakob Uszkoreit
#   (2017), *Transformer: A Novel Neural Network Architecture for Language Understanding*, Google
#   Research blog.
# - The party is Cherry's (1953) 'cocktail party' of hearing research: *Some Experiments on the
#   Recognition of Speech, with One and with Two Ears*, JASA 25(5).
