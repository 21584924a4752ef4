# %% [markdown] slideshow={"slide_type": "slide"}
# # 1 · Queries, keys and values
#
# **You will**
# - answer a question from a database that does not contain the answer;
# - build attention pooling in five lines, and let a verb attend to three words;
# - say which weights keep the answer in the convex hull of the values, and why;
# - derive the slope along which attention learns, and say which score moves the answer most.
#
# Core path: 60 to 90 minutes. Going further: 20. Exercises: 43.
#
# Builds on chapter 0. The book is *Dive into Deep Learning* (D2L), section 11.1.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes, votes included. Not in the plan is the view 'Walk, and turn the temperature'. It is
# the last of its column, so the right arrow passes over it. After 17 minutes you should be at 'A
# verb attends to three words'. Behind? Leave out 'The slope of the output', because 'Which score
# moves the wind more?' shows what it says. The slides after the summary are for questions.
# Homework: exercises 1.1, 1.2 and 1.5.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math

import matplotlib.pyplot as plt
import torch
from ipywidgets import FloatLogSlider
from matplotlib.patches import Polygon
from torch import nn
from torch.autograd.functional import jacobian

from d2l_attention.views import Player, State, explore, grid, schematic
from d2l_attention.views.palette import FAINT, GREY, GROUND, KEY, OUTPUT, QUERY, TINT, VALUE, WEIGHT
from d2l_attention.views.plots import heatmap, set_style
from d2l_attention.views.schematics.drawing import LEARNED, TENSOR, Diagram

torch.set_num_threads(1)
torch.set_printoptions(precision=3)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - A network represents a word as a **vector**, a list of numbers.
# - A **weighted sum** multiplies each vector by a number and adds up the results. With the weights
#   $\tfrac14$ and $\tfrac34$:

# %% [markdown] slideshow={"slide_type": "fragment"}
# $$\tfrac14\,(4, 0) + \tfrac34\,(0, 8) = (1, 6)$$

# %% [markdown] slideshow={"slide_type": "skip"}
# - A matrix product computes many such sums at once.
# - The exponential $e^x$ is positive and grows with $x$. Moreover, $e^0 = 1$ and
#   $e^{x + c} = e^c e^x$.
# - Only the end of the core path needs derivatives: the quotient rule and the chain rule.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room do the sum before you show it, because its two weights and its answer
# come back.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why attention?
#
# A sentence may have 5 words or 50. If each word is a vector of 8 numbers, the sentence has 40
# numbers or 400, and no single matrix takes both. A layer such as `nn.Linear(8, 2)` accepts any
# number of words, but it treats each word by itself.
#
# **Question.** How would you turn 5 words into *one* vector of a fixed size, and 50 words as well?

# %% [markdown] slideshow={"slide_type": "fragment"}
# One answer is the average of the word vectors, which has 8 numbers however many words go in. But
# this average gives every word the same weight, whatever we want to know. **Attention** is an
# average whose weights depend on what we want to know.

# %% [markdown] slideshow={"slide_type": "skip"}
# The idea became known through translation. In 2014, one network read a sentence into one vector,
# from which a second network wrote the translation. With the models of Cho and others (2014), the
# translations quickly got worse as the sentences got longer. Bahdanau, Cho and Bengio (2015)
# let the second network look back at all the words and decide at each step how much each of them
# matters *now*.
#
# This chapter builds the operation for such a decision, and chapter 5 the translator.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before you show the answer. Expect 'cut or pad' and 'add the words up'; divided
# by their number, the sum is attention with equal weights. Then tell the story: in 2014 one vector
# had to carry the whole sentence, and in 2015 Bahdanau, Cho and Bengio let the translator look back
# at all words at each step.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four weather stations and a walker
#
# We begin with vectors that fit on a map. Four stations measure the wind, where $(10, 2)$ means 10
# km/h to the east and 2 km/h to the north. What is the wind at the star, where *you* are?

# %% slideshow={"slide_type": "skip"}
names = ["Harbour", "Hill", "Forest", "Lake"]
keys = torch.tensor([[0.0, 0.0], [4.0, 3.0], [1.0, 4.0], [4.0, 0.0]])  # (4, 2): km east, north
values = torch.tensor([[10.0, 2.0], [6.0, 9.0], [2.0, 5.0], [9.0, 4.0]])  # (4, 2): km/h
query = torch.tensor([[2.0, 1.0]])  # (1, 2): one query, as wide as a key

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the map of the four stations
arrows = dict(angles="xy", scale_units="xy", scale=8, width=0.006)
signs = [f"{n} ({east:.0f}, {north:.0f})" for n, (east, north) in zip(names, values, strict=True)]
figure, ax = plt.subplots(figsize=(7.2, 5.2))
ax.scatter(*keys.T, s=90, color=KEY, marker="s", zorder=3)
ax.quiver(*keys.T, *values.T, color=VALUE, **arrows)
ax.scatter(*query.T, s=160, marker="*", color=QUERY, zorder=3)
for sign, (x, y) in zip(["you", *signs], [*query.tolist(), *keys.tolist()], strict=True):
    ax.annotate(sign, (x, y), xytext=(0, -20), textcoords="offset points", ha="center")
ax.set(xlabel="km east", ylabel="km north", xlim=(-1.3, 6.3), ylim=(-0.9, 4.9), aspect="equal")
ax.set_title("Four winds are known, but not the wind at the star")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a map with four blue squares, each with an arrow for its wind and the two numbers of it:
# Harbour (10, 2), Hill (6, 9), Forest (2, 5), Lake (9, 4). A star marks you, between Harbour
# and Lake, with no arrow.*

# %% [markdown] slideshow={"slide_type": "-"}
# **Your guess.** Write down two numbers, east and north, and the rule that gave them.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Collect guesses with their rules on the board and leave them there. Expect copies of
# the Harbour or of the Lake, half of each, and the average of all four. Attention will say (8.9,
# 3.7).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Query, keys and values
#
# - Your location is the **query**.
# - The locations of the stations are the **keys**.
# - Their winds are the **values**.
#
# Each station is a pair of a key and a value, and a set of such pairs is called a **database**. An
# ordinary database compares keys for *equality*. A Python dictionary, for example, knows the wind
# at the four stations and nothing between them:

# %% slideshow={"slide_type": "fragment"}
dictionary = {(0, 0): (10, 2), (4, 3): (6, 9), (1, 4): (2, 5), (4, 0): (9, 4)}
print("at the Harbour:", dictionary[0, 0])
print("where you are: ", dictionary.get((2, 1)))

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The whole chapter is the step from 'equal' to 'similar'. Before the formula, ask how
# all four winds could contribute, and lead the answers to 'each as much as it deserves'.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Attention pooling in one formula
#
# Attention gives every pair a weight and adds up the weighted values:
#
# $$\operatorname{Attention}(q) = \sum_{j=1}^{K} \alpha(q, k_j)\, v_j$$
#
# The sum runs over the $K$ pairs of the database. The number $\alpha(q, k_j)$, in short $\alpha_j$,
# is the **attention weight** of pair $j$, which says how much this pair counts for this query. So
# query and keys decide the weights, and the values make up the answer; the query never meets a
# value. This weighted sum is called **attention pooling**.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which of these are numbers and which are vectors. Many take the weight for a
# vector, but it is one number, and the answer is as wide as a value. The book calls the database D,
# and its number of pairs m.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From scores to weights
#
# How much does station $j$ matter? We begin with its **score** $a(q, k_j)$, in short $a_j$, which
# may be any number and should be larger for a station that is closer. So we take minus half the
# squared distance:
#
# $$a_j = -\tfrac12 \lVert q - k_j\rVert^2$$

# %% [markdown] slideshow={"slide_type": "skip"}
# Chapter 2 explains this choice, and chapter 3 studies other scores. In the code, comments give the
# shapes: there are Q queries and K keys of size D, and K values of size V.


# %% slideshow={"slide_type": "-"} tags=["build"]
def distance_score(queries, keys):
    differences = queries[:, None] - keys  # (Q, 1, D) - (K, D) -> (Q, K, D)
    return -differences.square().sum(dim=-1) / 2  # (Q, K): a row for each query


# %% slideshow={"slide_type": "fragment"}
scores = distance_score(query, keys)  # (1, 4)
print(names)
print(scores)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the softmax is on show, ask how to turn these scores into weights, although
# they are negative. 'Take the absolute value' and 'square them' come first, but then the farthest
# station would count most.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The softmax
#
# We want weights like those of an average: non-negative numbers that sum to one. The exponential
# turns the scores into positive numbers and keeps their order, and dividing by the sum of the
# exponentials makes the weights sum to one. Together these two steps are the **softmax**:
#
# $$\alpha_j = \frac{e^{a_j}}{\sum_{l} e^{a_l}}$$
#
# Since all scores are in the sum, a weight depends on *all* keys, although $\alpha(q, k_j)$ names
# only one.
#
# By hand: which weights do the scores $0$ and $\ln 3$ give?

# %% [markdown] slideshow={"slide_type": "fragment"}
# Their exponentials are $1$ and $3$, which sum to $4$, so the weights are $\tfrac14$ and
# $\tfrac34$.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the two scores on the exponential, and the share of each in the sum
figure, (curve, bar) = plt.subplots(1, 2, figsize=(10, 2.7), width_ratios=(3, 2))
line = torch.linspace(-3, 1.35, 100)
curve.plot(line, line.exp(), color=GREY)
for score, height, start, share in ((0.0, 1, 0, "1/4"), (math.log(3), 3, 1, "3/4")):
    curve.vlines(score, 0, height, color=WEIGHT)
    curve.plot(score, height, "o", markersize=9, color=WEIGHT)
    curve.annotate(f"{height}", (score, height), xytext=(-16, 2), textcoords="offset points")
    bar.barh(0, height, left=start, color=TINT, edgecolor=WEIGHT, linewidth=2)
    bar.text(start + height / 2, 0, share, ha="center", va="center", fontsize=16)
curve.set(xlabel="score", xticks=[-3, -2, -1, 0, math.log(3)], ylim=(0, 3.9), yticks=[0, 1, 2, 3])
curve.set_xticklabels(["−3", "−2", "−1", "0", "ln 3"])
curve.set_title("The exponential of any score is positive")
bar.set(yticks=[], xlabel="exponentials, side by side", xticks=[0, 1, 4], ylim=(-0.7, 0.7))
bar.set_title("Shares of the sum are the weights")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, the curve of the exponential, which stays above 0 and rises; at the score 0 it is
# 1, and at ln 3 it is 3. Right, these two heights as one bar of length 4, of which they are 1/4 and
# 3/4.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Wait for the two weights before you show them. Some compute ln 3 = 1.1 first, which is
# not needed. The weighted sum with these two weights is on the board already.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The wind at the star
#
# Three lines turn the four scores into an answer:

# %% slideshow={"slide_type": "-"}
positive = scores.exp()  # (1, 4)
weights = positive / positive.sum(dim=-1, keepdim=True)  # (1, 4), of sum one
wind = weights @ values  # (1, 4) @ (4, 2) -> (1, 2)
print("weights", weights)
print("wind   ", wind)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the run: which two stations get the same weight, and why?

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Steps through the three lines, number by number
place, right = {"x": 2.7, "width": 1.4}, {"x": 8.5, "width": 1.4}
stations = grid(names, y=0, kind="head", **place)
upper = stations + grid(scores, y=1, name="score", label="scores", **place)
raised = grid(positive, y=2, name="e", origin="score", label="exponentials", **place)
total = grid("sum", y=1, kind="head", **right)
total += grid(positive.sum(), y=2, name="sum", origin="e", **right)
shares = grid(weights, y=3, kind="weight", name="weight", origin="e", label="weights", **place)
moved = stations + grid(weights, y=1, kind="weight", name="weight", label="weights", **place)
moved += grid(values.T, y=2, kind="value", label="winds", digits=0, **place)
products = weights * values.T  # (2, 4): east above north
moved += grid(products, y=4, name="product", origin="weight", label="products", **place)
answer = grid(wind.T, y=4, kind="output", name="wind", origin="product", **right)
squares = " and ".join(f"{-2 * score:.0f}" for score in scores[0]).replace(" and", ",", 2)
texts = {
    "The closer a station, the larger its score": "A score is minus half the squared distance: "
    f"the squares are {squares}.",
    "The exponential makes every score positive": "The order of the stations stays.",
    "The four exponentials have a sum": "Each of them will be divided by it.",
    "Divided by their sum, they are weights": "Equally far, Harbour and Lake have the same; "
    "Hill and Forest have less, but not nothing.",
    "Each weight multiplies the wind of its station": "East stands above, north below.",
    "The sum of the products is the wind at the star": "It is made of the four winds alone.",
}
growing = [upper, upper + raised, upper + raised + total, upper + raised + total + shares]
drawn = [*growing, moved, moved + answer]
Player([State(*text, cells) for text, cells in zip(texts.items(), drawn, strict=True)])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: six steps in a table with a column for each station. The scores become exponentials, and
# the exponentials weights: 0.43, 0.10, 0.04 and 0.43. The weights multiply the winds, and the
# products sum to the answer (8.9, 3.7).*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Step through it, and let the room say each row before it comes.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the map with the weights as sizes and with the answer
figure, ax = plt.subplots(figsize=(7.2, 5.2))
ax.scatter(*keys.T, s=40 + 600 * weights[0], color=KEY, marker="s", zorder=3)
ax.quiver(*keys.T, *values.T, color=VALUE, **arrows)
ax.quiver(*query.T, *wind.T, color=OUTPUT, **arrows)
ax.scatter(*query.T, s=160, marker="*", color=QUERY, zorder=3)
signs_now = [f"you ({wind[0, 0]:.1f}, {wind[0, 1]:.1f})", *signs]
for sign, (x, y) in zip(signs_now, [*query.tolist(), *keys.tolist()], strict=True):
    ax.annotate(sign, (x, y), xytext=(0, -22), textcoords="offset points", ha="center")
ax.set(xlabel="km east", ylabel="km north", xlim=(-1.3, 6.3), ylim=(-0.9, 4.9), aspect="equal")
ax.set_title("Attention answers where there is no station")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the map again. Harbour and Lake are now large, Hill and Forest small, and the
# star has an arrow of its own, between those of Harbour and Lake, and the numbers (8.9, 3.7).*

# %% [markdown] slideshow={"slide_type": "skip"}
# Perhaps you guessed $(9.5, 3)$, half Harbour and half Lake, or $(6.75, 5)$, the average of all
# four. These guesses are weighted sums as well, and only their weights differ.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Compare with the guesses on the board: who was nearest? Ask for the weights that
# each rule implies. 'The nearest station' has a single 1. Only the weights differ.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Add a constant to all scores
#
# **Predict.** Add 100 to both scores, $0$ and $\ln 3$. What happens to the weights?

# %% slideshow={"slide_type": "fragment"}
two_scores = torch.tensor([[1.0, 3.0]]).log()  # 0 and ln 3
print(two_scores.softmax(dim=-1), (two_scores + 100).softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# They stay the same, because the factor $e^{100}$ appears above and below the fraction line and
# cancels. The softmax depends only on the *differences* between scores. Our three lines, however,
# compute $e^{100}$ itself:

# %% slideshow={"slide_type": "fragment"}
exponentials = (two_scores + 100).exp()
print(exponentials, exponentials / exponentials.sum())

# %% [markdown] slideshow={"slide_type": "fragment"}
# The largest finite number in float32 is about $3.4 \cdot 10^{38}$. As $e^{100}$ is larger, it is
# stored as infinity, and infinity divided by infinity is NaN, 'not a number'.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. One minute in pairs. Expect three votes: 'the larger one takes all', 'nothing', and
# 'it breaks'. On paper and in PyTorch's `softmax` nothing changes; our three lines break. Before
# the next slide ask how `softmax` avoids the NaN.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Build attention pooling
#
# Since only differences count, we may first subtract the largest score of each row, so that every
# exponential is at most 1. The rest is our three lines:


# %% slideshow={"slide_type": "-"} tags=["build"]
def pool(scores, values):
    largest = scores.max(dim=-1, keepdim=True).values  # (Q, 1)
    positive = (scores - largest).exp()  # (Q, K): between 0 and 1
    weights = positive / positive.sum(dim=-1, keepdim=True)  # each row sums to one
    return weights @ values, weights  # (Q, K) @ (K, V) -> (Q, V)


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Go through the shapes, line by line. What would the result be without `keepdim=True`,
# for two queries? (Row by column: an error, or a wrong result where Q equals K.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A verb attends to three words
#
# Is it 'cats drink milk' or 'cats drinks milk'? To choose its form, the verb has to know who
# drinks. So let its query be $(2, 2)$, which asks for a noun that is alive. A value then says
# whether its word is plural.
#
# | word | key: noun, alive | value: plural 1, singular −1 |
# |---|---|---|
# | cats | (2, 2) | 1 |
# | drink | (0, 0) | 0 |
# | milk | (2, 0) | −1 |
#
# The three scores, minus half the squared distances, are $0$, $-4$ and $-2$.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Do the three scores on the board. Before the next slide ask what changes with 'cat',
# the weights or the answer.

# %% slideshow={"slide_type": "skip"}
word_keys = torch.tensor([[2.0, 2.0], [0.0, 0.0], [2.0, 0.0]])  # (3, 2): a row for each word
asks = torch.tensor([[2.0, 2.0]])  # (1, 2): the query of the verb

# %% slideshow={"slide_type": "subslide"}
for subject, plural in (("cats", 1.0), ("cat", -1.0)):
    word_values = torch.tensor([[plural], [0.0], [-1.0]])  # (3, 1)
    answer, word_weights = pool(distance_score(asks, word_keys), word_values)
    print(f"{subject:4} weights", word_weights, " answer", answer)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The verb attends mostly to *cats*, and the answer is positive, which means plural: 'drink'. When
# *cats* becomes *cat*, one value changes but no key does. So the weights stay, while the answer
# becomes negative: 'drinks'.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws how the verb attends to the words of both sentences
figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.0))
for ax, subject, sign, form in zip(
    axes, ("cats", "cat"), (1, -1), ("drink", "drinks"), strict=True
):
    signs_of_words = {subject: sign, "drink": 0, "milk": -1}
    for x, (word, sign_of_word) in enumerate(signs_of_words.items()):
        weight = word_weights[0, x].item()
        ax.plot([1, x], [1, 0], color=WEIGHT, linewidth=max(1, 14 * weight), zorder=0)
        ax.text(x, -0.28, word, ha="center", va="center", color=KEY)
        product = f"{weight:.2f} · " + {1: "1", 0: "0", -1: "(−1)"}[sign_of_word]
        ax.text(x, -0.58, product, ha="center", va="center")
    ax.plot([0, 1, 2], [0, 0, 0], "s", markersize=12, color=KEY)
    ax.plot(1, 1, "*", markersize=18, color=QUERY)
    ax.text(1.16, 1, "the verb asks", va="center", color=QUERY)
    total = word_weights @ torch.tensor([float(each) for each in signs_of_words.values()])
    ax.set(xlim=(-0.5, 2.5), ylim=(-0.8, 1.2))
    ax.set_title(f"{subject}: answer {total.item():.2f}, so '{form}'".replace("-", "−"))
    ax.axis("off")
figure.suptitle("A new value changes the answer and leaves the weights")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: twice a star for the verb above three words, with a line to each, thick where the weight
# is large: a thick one to the subject, a thin one to milk, hardly one to the verb itself. The
# weights 0.87, 0.02 and 0.12 are the same twice. With cats the answer is 0.75, with cat −0.98.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. This is the difference between a key and a value: the keys decide which words count,
# and the values decide what they contribute.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where queries, keys and values come from
#
# We chose these numbers by hand. In most networks with attention, each word is a vector $x$, and
# three learned matrices turn it into a query, a key and a value:
#
# $$q = W_q\, x, \qquad k = W_k\, x, \qquad v = W_v\, x .$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# In our example, let a word be four numbers: noun, verb, alive, plural.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws what the three matrices make of a word that asks and of a word that offers
d = Diagram("A word asks by its query, and offers by its key and value", 9, 3.4)
asking = d.box("drink\n(0, 1, 0, 0)", 1.1, 2.5, 1.6, kind=TENSOR)
offering = d.box("cats\n(1, 0, 1, 1)", 1.1, 1.05, 1.6, 1.5, kind=TENSOR)
to_q, to_k, to_v = (
    d.box(f"$W_{name}$", 3.4, y, 0.9, 0.6, kind=LEARNED)
    for name, y in (("q", 2.5), ("k", 1.5), ("v", 0.6))
)
asked = d.box("query (2, 2)", 5.5, 2.5, 1.6, 0.6, kind=TENSOR)
key = d.box("key (2, 2)", 5.5, 1.5, 1.6, 0.6, kind=TENSOR)
value = d.box("value 1", 5.5, 0.6, 1.6, 0.6, kind=TENSOR)
score = d.box("score 0,\nthe highest", 8.0, 2.0, 1.5, 1.6, kind=TENSOR)
for start, end in ((asking, to_q), (offering, to_k), (offering, to_v), (to_q, asked)):
    d.arrow(start, end)
for start, end in ((to_k, key), (to_v, value), (asked, score), (key, score)):
    d.arrow(start, end)
d.figure

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the vector of 'drink', (0, 1, 0, 0), goes through the learned matrix W_q and becomes the
# query (2, 2). The vector of 'cats', (1, 0, 1, 1), goes through W_k and becomes the key (2, 2), and
# through W_v and becomes the value 1. Query and key are equal, so their score, 0, is the highest.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask what *cats* would ask, and what *drink* offers: each word goes through all
# three matrices, and the next slide has their numbers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A verb asks for a living noun, so $W_q$ sends its *verb*, doubled, to where the keys have *noun*
# and *alive*:

# %% slideshow={"slide_type": "-"}
words = torch.tensor([[1.0, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, -1]])  # cats, drink, milk
W_q = torch.tensor([[0.0, 2, 0, 0], [0, 2, 0, 0]])
W_k = torch.tensor([[2.0, 0, 0, 0], [0, 0, 2, 0]])
W_v = torch.tensor([[0.0, 0, 0, 1]])
cats, drink, milk = words
print("drink: query", W_q @ drink, " key", W_k @ drink, " value", W_v @ drink)
print("cats:  query", W_q @ cats, " key", W_k @ cats, " value", W_v @ cats)
print("the keys of the table:", torch.equal(words @ W_k.T, word_keys))

# %% [markdown] slideshow={"slide_type": "fragment"}
# These are the numbers of the table. A word can ask for one thing and offer another, because
# different matrices make its query and its key.

# %% [markdown] slideshow={"slide_type": "skip"}
# So *drink* attends to *cats*, although no feature is nonzero in both. In `words @ W_k.T` each row
# is a word, so a single product makes all keys.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The bridge to the rest of the course. Ask for the query, the key and the value of
# 'milk' before you go on: (0, 0), (2, 0) and -1. A network has hundreds of numbers per word, and
# nobody tells it what they mean.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four kinds of weights
#
# A softmax gives weights that are non-negative and sum to one. What is that good for? To find out,
# let us choose weights by hand, of four kinds: some that are only non-negative; some that also sum
# to one; and two special cases of these, a single 1 among zeros and four quarters.
#
# **Question.** With which of them can the wind be stronger than every wind that was measured?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws where the four answers lie
kinds = {
    "non-negative": torch.tensor([0.3, 0.9, 0.2, 0.8]),
    "and sum to one": torch.tensor([0.1, 0.5, 0.1, 0.3]),
    "a single 1": torch.tensor([0.0, 1.0, 0.0, 0.0]),
    "all a quarter": torch.tensor([0.25, 0.25, 0.25, 0.25]),
}
answers = [(chosen @ values).tolist() for chosen in kinds.values()]
figure, axes = plt.subplots(1, 4, figsize=(11.5, 3.7), sharex=True, sharey=True)
hull = values[[0, 3, 1, 2]]  # the corners, one after the other
cone = torch.stack([torch.zeros(2), 9 * values[0], 9 * values[2]])
for ax, (kind, chosen), answer in zip(axes, kinds.items(), answers, strict=True):
    ax.add_patch(Polygon(cone if ax is axes[0] else hull, color=VALUE, alpha=0.15))
    ax.scatter(*values.T, s=40 + 300 * chosen, color=VALUE, marker="D")
    for name, wind_there in zip(names, values.tolist(), strict=True):
        beside = (10, -6) if name in ("Harbour", "Lake") else (-12, 10)
        ax.annotate(name, wind_there, xytext=beside, textcoords="offset points")
    ax.scatter(*answer, s=130, facecolor=GROUND, edgecolor=OUTPUT, linewidth=3, zorder=3)
    ax.set(title=kind, xlabel="wind east, km/h", xlim=(0, 23), ylim=(0, 19))
axes[0].set_ylabel("wind north, km/h")
figure.suptitle("Only the first kind can give more wind than was measured")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four panels in the plane of winds. Diamonds are the four winds, larger where the weight
# is larger; a ring is the answer. With weights that are only non-negative it lies in a cone,
# beyond every wind; with weights that also sum to one inside the hull of the winds; with a single 1
# on a wind; with equal weights at their average.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Only with the first. This is where the answers lie:
#
# - **Non-negative:** the answer lies in the **cone** of the values, between the rays from 0 through
#   them, and may be as long as you like.
# - **Non-negative and summing to one:** the answer lies in the **convex hull** of the values.
#   Imagine a rubber band around the four: the hull is what it encloses.
# - **A single 1:** this is an ordinary lookup in a database.
# - **All equal to a quarter:** this is average pooling, in which the query no longer matters.
#
# Why does the second kind stay in the hull? A weighted average of two points lies on the segment
# between them. If you then average the result with a third point, and so on, you stay inside.
#
# Both conditions are needed. The weights 2 for the Hill and $-1$ for the Forest also sum to one,
# but they give $2\,(6, 9) - (2, 5) = (10, 13)$, which is outside the hull. A softmax meets both
# conditions, so its answer is in the hull. It is also never longer than the longest value, because
# a disc around 0 that contains all values contains their hull.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Vote before the picture: only the first can. Then say the names: cone, convex hull (a
# rubber band around the dots), lookup, average. Ask for 2 at the Hill and −1 at the Forest, which
# sum to one as well, and draw the line from the Forest through the Hill: the answer (10, 13) is
# beyond the Hill.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## All queries in one matrix product
#
# Nine people walk from the Harbour to the Hill, and each asks for the wind. Their queries are the
# nine rows of a matrix, and our two functions need no change:

# %% slideshow={"slide_type": "-"}
walkers = torch.linspace(0, 1, 9)[:, None] * keys[1]  # (9, 2): from (0, 0) to the Hill
winds, walkers_weights = pool(distance_score(walkers, keys), values)
print("weights", walkers_weights.shape, " winds", winds.shape)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws who feeds what in attention pooling
schematic("attention pooling")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows from left to right. Queries (Q, D) and keys (K, D) enter a box that
# scores each pair. The scores (Q, K) go through a softmax over the keys, which makes weights (Q,
# K). The weights are multiplied by the values (K, V), which enter only here. The output is (Q, V).*

# %% [markdown] slideshow={"slide_type": "skip"}
# For our walkers, Q is 9, K is 4, and D and V are 2. One matrix product, weights times values,
# answers all queries. Because the rows of the weights are independent of each other, all of them
# can be computed at the same time.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room put numbers on the arrows: Q = 9, K = 4, D = 2, V = 2. Ask what changes
# with a fifth station (K only), and why a graphics card likes this (no row waits for another row).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Read a heat map

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the weights of the nine walkers as a heat map
figure, ax = plt.subplots(figsize=(7.5, 4.4))
labels = [f"{5 * step / 8:.1f} km" for step in range(9)]
heatmap(ax, walkers_weights, labels, names, numbers=True, vmax=1.0)
ax.set(ylabel="query: walked so far", xlabel="key: station")
ax.set_title("On the way, attention passes from the Harbour to the Hill")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map with nine rows, from 0 to 5 km walked, and four columns of stations.
# In the top row Harbour holds nearly all the weight, in the bottom row Hill; the strong cells
# pass from one to the other, with some weight on Lake and Forest on the way.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each row shows how one walker's attention is divided, so before rounding its numbers sum to one,
# and it says what the answer is made of. Whether a large weight also *explains* what a trained
# network does is another question, for chapters 5, 8 and 13.
#
# The walker at 2.5 km is at $(2, 1.5)$, exactly 2.5 km away from Harbour, Hill and Lake, and each
# of the three gets 0.28.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Go slowly, because every later chapter shows such a picture. Why has one row three
# equal numbers? What happens to the rest of a row if the Lake closes? (They grow by the same
# factor.) And 0.00 is rounded: at the Harbour the Lake still has 0.0003.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Temperature: between a lookup and an average
#
# To make the weights sharper or flatter, we divide the scores by a number $T > 0$, the
# **temperature**, before the softmax. Its inverse, $1/T$, is the sharpness of chapter 0.
#
# **Predict.** The scores $0$ and $\ln 3$ gave the weights $\tfrac14$ and $\tfrac34$. What are the
# weights at $T = \tfrac12$?

# %% slideshow={"slide_type": "fragment"}
for T in (0.5, 0.2, 100.0):
    print(f"T = {T:5.1f}", (two_scores / T).softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# They are 0.1 and 0.9. Dividing by $\tfrac12$ doubles the scores, which squares their exponentials:
# instead of $1$ and $3$ they are now $1$ and $9$. A low temperature drives the weights apart,
# towards a lookup, and a high one brings them together, towards an average. Their order never
# changes.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. One of them in pairs. Expect ⅛ and ⅜, or 'the same' from those who remember that a
# common factor cancels; but here it is a factor of the scores, not of the exponentials. Ask for
# very small and very large T before you show the numbers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Walk, and turn the temperature
#
# Now you move the query yourself, starting near the Forest, and the panel on the right shows your
# wind.
#
# **Question.** At $T = 0.1$ the Forest takes everything. Does one station take everything at
# $(2, 1.5)$ as well?


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the map, the weights and the wind for a query and a temperature that you choose
def walk(figure, east=0.5, north=2.8, temperature=1.0):
    here = torch.tensor([[east, north]])
    wind, weights = pool(distance_score(here, keys) / temperature, values)
    country, shares, sky = figure.subplots(1, 3)
    country.scatter(*keys.T, s=40 + 600 * weights[0], color=KEY, marker="s", alpha=0.8)
    country.scatter(east, north, s=160, marker="*", color=QUERY)
    there = dict(angles="xy", scale_units="xy", scale=8, width=0.01, color=OUTPUT)
    country.quiver([east], [north], *wind.T, **there)
    for name, key in zip(names, keys.tolist(), strict=True):
        country.annotate(name, key, xytext=(0, 14), textcoords="offset points", ha="center")
    country.set(title="the map", xlim=(-1.5, 5.5), ylim=(-1.5, 5.5))
    country.set(xlabel="km east", ylabel="km north", aspect="equal")
    shares.bar_label(shares.bar(names, weights[0], color=WEIGHT), fmt="%.2f")
    shares.set(title="attention weights", ylim=(0, 1.1))
    shares.tick_params(axis="x", rotation=45)
    sky.add_patch(Polygon(hull, color=VALUE, alpha=0.15))
    sky.scatter(*values.T, s=40 + 300 * weights[0], color=VALUE, marker="D")
    for name, value in zip(names, values.tolist(), strict=True):
        below = name in ("Harbour", "Lake")
        beside = dict(xytext=(0, -20 if below else 12), ha="center")
        sky.annotate(name, value, textcoords="offset points", **beside)
    sky.scatter(*wind[0], s=130, facecolor=GROUND, edgecolor=OUTPUT, linewidth=3, zorder=3)
    sky.set(title="your wind stays in the hull", xlabel="km/h east", ylabel="km/h north")
    sky.set(xlim=(0, 12), ylim=(0, 11))


explore(
    walk,
    figsize=(11, 3.9),
    alt="A map of the stations and you, the four attention weights as bars, your wind in the hull.",
    east=(-1.0, 5.0, 0.1),
    north=(-1.0, 4.0, 0.1),
    temperature=FloatLogSlider(value=1.0, min=-1, max=2, step=0.1, readout_format=".1f"),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view with three panels. Left, the map with the four stations and a star
# for you; middle, the four weights as bars; right, the plane of winds with the answer as a ring
# inside the hull.*

# %% [markdown] slideshow={"slide_type": "skip"}
# No: at $(2, 1.5)$ Harbour, Hill and Lake have the same score, so they keep equal weights, a third
# each at low $T$. At $T = 100$, on the other hand, the wind stays near the average of the four
# wherever you walk.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; three minutes. Vote before you walk. Expect 'yes, one', because cold means
# lookup, but three equal scores stay equal, and each gets a third. At a high temperature, the ring
# stays near the average wherever you walk. On a slide each slider has five stops, those of the
# question among them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Three properties of attention pooling
#
# Three properties follow from the formula, and the first is also a limitation:
#
# 1. The **order** of the pairs does not matter.
# 2. The **number** of pairs is free: the same code ran on three words and on four stations.
# 3. The pairs may **change** at any time, because `pool` has no parameters that were trained on the
#    old ones.

# %% slideshow={"slide_type": "fragment"}
shuffled = [2, 0, 3, 1]
print("in order ", pool(distance_score(query, keys), values)[0])
print("shuffled ", pool(distance_score(query, keys[shuffled]), values[shuffled])[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# To attention pooling, then, 'dog bites man' and 'man bites dog' are the same database. Chapter 7
# shows how a network can still tell them apart.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the last lines: which two sentences have the same words and different meanings?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why attention can learn
#
# Training changes numbers in the direction in which the error falls, so it needs a derivative: how
# does the answer change when the query moves a little? A lookup does not help here, because the
# nearest station stays the same, and so does the answer, until at some border it jumps. With
# attention, however, the answer moves:

# %% slideshow={"slide_type": "fragment"}
near_lake = torch.tensor([[2.5, 1.0]])
for here in (near_lake, near_lake + 0.01):  # 10 m east and 10 m north
    wind_here, weights_here = pool(distance_score(here, keys), values)
    print("lookup", values[weights_here.argmax()], "  attention", wind_here)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the wind of a lookup and of attention on a walk to the east
east = torch.linspace(0, 4, 201)
path = torch.stack([east, torch.ones(201)], dim=1)  # (201, 2): always 1 km north
by_attention, path_weights = pool(distance_score(path, keys), values)
by_lookup = values[path_weights.argmax(dim=1)]
by_lookup[100] = math.nan  # half-way it jumps
figure, ax = plt.subplots(figsize=(7, 2.7))
ax.plot(east, by_lookup[:, 1], color=GREY, label="lookup")
ax.plot(east, by_attention[:, 1], color=OUTPUT, linestyle="--", label="attention")
ax.set(xlabel="km east, at 1 km north", ylabel="north wind, km/h", ylim=(1, 6))
ax.legend(frameon=False)
ax.set_title("A lookup is flat and jumps, attention rises smoothly")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the north wind on a walk from west to east. By lookup it is 2 up to half-way, where it
# jumps to 4; by attention it rises in one smooth curve.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask before the run which of the two changes. A lookup does change somewhere, half-way
# between two stations, but a jump has no slope.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The slope of the output
#
# How does the output $o = \sum_l \alpha_l v_l$ move when only the score $a_j$ rises? We look for
# its **slope** in this score, the derivative $\partial o / \partial a_j$. To find it, write
# $\alpha_l = e^{a_l} / S$, where $S$ is the sum of the exponentials, so that
# $\partial S / \partial a_j = e^{a_j}$.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The quotient rule gives
#
# $$\frac{\partial \alpha_j}{\partial a_j} = \frac{e^{a_j} S - e^{a_j} e^{a_j}}{S^2}
#   = \alpha_j - \alpha_j \alpha_j,
#   \quad
#   \frac{\partial \alpha_l}{\partial a_j} = \frac{0 - e^{a_l} e^{a_j}}{S^2} = -\alpha_l \alpha_j
#   \ \,(l \ne j).$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# So when score $j$ rises by a small $\varepsilon$, the weight $\alpha_j$ gains
# $\varepsilon\,\alpha_j$. To keep the sum at one, every weight $\alpha_l$, including $\alpha_j$
# itself, pays $\varepsilon\,\alpha_l \alpha_j$ for it. Per unit of the score, this moves the output
# by
#
# $$\frac{\partial o}{\partial a_j}
#   = \alpha_j v_j - \sum_l \alpha_l \alpha_j\, v_l = \alpha_j\,(v_j - o).$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# A rising score pulls the output towards its own value. This slope is a vector, with one number for
# the east wind and one for the north wind.

# %% [markdown] slideshow={"slide_type": "notes"}
# 3½ minutes. Three steps, each after a question. Which two things does a score change in its own
# weight? (Numerator and sum.) And in another weight? (The sum.) With two keys, the slope of the
# second weight needs no calculation, because the weights sum to one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which score moves the wind more?
#
# **Predict.** You are at the star again, where Harbour and Lake have the same weight, 0.43. Whose
# score moves the wind more when it rises a little: the Harbour's, the Lake's, or both the same?

# %% slideshow={"slide_type": "fragment"}
slopes = weights.T * (values - wind)  # (4, 1) * (4, 2): row j is alpha_j (v_j - o)
print(names)
print(slopes)

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws where each score pulls the wind, and how far
figure, ax = plt.subplots(figsize=(8, 3.9))
signposts = {"Harbour": (10.1, 2.0), "Hill": (8.4, 4.7), "Forest": (7.6, 4.0), "Lake": (9.1, 4.0)}
for (name, spot), weight, value, slope in zip(
    signposts.items(), weights[0], values, slopes, strict=True
):
    ax.plot(*torch.stack([wind[0], value]).T, ":", color=FAINT, linewidth=2)
    pull = dict(arrowstyle="-|>", color=OUTPUT, linewidth=3, shrinkA=0, shrinkB=0)
    ax.annotate("", (wind[0] + slope).tolist(), wind[0].tolist(), arrowprops=pull)
    ax.text(*spot, f"{name}, weight {weight:.2f}", va="center")
ax.scatter(*values.T, s=70, color=VALUE, marker="D")
ax.scatter(*wind.T, s=90, facecolor=GROUND, edgecolor=OUTPUT, linewidth=3, zorder=3)
ax.set(xlabel="wind east, km/h", ylabel="wind north, km/h", xlim=(7.5, 11), ylim=(1.7, 4.9))
ax.set_title("Harbour and Lake weigh the same, but the Harbour pulls farther")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: part of the plane of winds, with a ring for the output and a dotted line from it towards
# each of the four values. An arrow covers a share of each line, as large as the weight: 0.43 of the
# long way to the Harbour, and 0.43 of the very short way to the Lake.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The Harbour's score moves the wind more, because a slope is large where the weight is large *and*
# the value is far from the output. Here the output is already close to the Lake's wind, while the
# Harbour's is farther away.

# %% [markdown] slideshow={"slide_type": "skip"}
# In a network, scores come from queries and keys, and these from matrices, so by the chain rule the
# slope reaches the entries of $W_q$ and $W_k$. 'Going further' takes one step by hand, and then
# lets a network learn its $W_q$.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Expect 'the same': the room looks at the weight and forgets the value.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A query is compared with keys, and the answer is a weighted sum of values: $\sum_j \alpha_j
#   v_j$.
# - The softmax turns scores into weights that are non-negative and sum to one. Such weights keep
#   the answer in the convex hull of the values. Only differences between scores matter.
# - A low temperature leads to a lookup, if one score is the largest, and a high one to an average.
# - The order of the pairs does not matter, their number is free, and one matrix product answers all
#   queries.
# - Learned matrices turn each word into a query, a key and a value.
# - Score $j$ pulls the output with the slope $\alpha_j (v_j - o)$. Attention learns along these
#   slopes, and hardly at all where they are tiny ('Going further').
#
# After the exercises, chapter 2 asks how near a key must be to count.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the formula first, then for the three words of the title on the map. Homework:
# exercises 1.1, 1.2 and 1.5.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or wrong, as often as you
# like. `hint("1.1")` helps a little, and a little more each time; `solution("1.1")` shows a
# solution and says why it is right.

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.1** · by hand
#
# One query has the scores $0$, $0$ and $\ln 2$ for three keys, whose values are $4$, $8$ and $10$.
# Take the softmax of the scores, pool the values, and give the output as a number.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.2** · complete a function
#
# Close the page and write attention pooling from memory: complete `attend`, first the softmax, then
# the weighted sum. PyTorch's `softmax` is allowed. `scores` is $(Q, K)$, with one row per query;
# `values` is $(K, V)$; return only the output, $(Q, V)$, in the dtype of the inputs. Scores may be
# as large as 1000. Gradients have to flow to the scores and to the values, so use operations on
# tensors.

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.3** · predict, then measure
#
# Three keys share the attention: each has weight $\tfrac13$. Now the score of the first key rises
# by $\ln 2$; the other two scores stay. Predict the new weight of the first key, then measure it
# with `softmax`. Answer with the weight.

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.4** · complete a function
#
# Complete `temperature_for`: the positive number by which to divide `scores` so that, after the
# softmax, the best key has the weight `share`, to within 0.001. `scores` is a tensor $(K,)$ with
# one best score, anywhere; scores may be large or small, 1000 or 0.001. `share` is a number between
# $1/K$ and $1$. Return a number. Bisection is fine.

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.5** · find the bug
#
# `all_pairs` should be attention with dot products as scores: every query, $(Q, D)$, meets every
# key, $(K, D)$, and the weights pool the values, $(K, V)$. The outputs, $(Q, V)$, have the dtype of
# the inputs, and gradients flow to all three. Where $Q = K$, the function raises no error but is
# still wrong. Find out what it really gives, and repair it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# These sections can be read in any order.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Gradient descent on the query
#
# *4 minutes.* Where must you stand to feel the wind $w = (7, 6)$? At the star you feel $o = (8.9,
# 3.7)$. Let the **error** be $E = \lVert o - w\rVert^2$, with $o - w = (1.9, -2.3)$. As you move,
# the scores change, and with them the wind and the error. For each station we know two slopes:
#
# - As score $j$ rises, the error changes with slope $2\,(o - w)\cdot\alpha_j(v_j - o)$, a number.
# - As you move, score $j$ changes with slope $k_j - q$, because $a_j = -\tfrac12\lVert q -
#   k_j\rVert^2$.
#
# By the chain rule, the **gradient** of $E$ with respect to the query is the sum over the stations
# of the products of these two slopes. It points where the error grows, so **gradient descent**
# takes small steps the opposite way.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask where you will walk: towards which station, away from which?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### One gradient step by hand
#
# | station | $\alpha_j(v_j - o)$ | $2\,(o - w)\cdot\alpha_j(v_j - o)$ | $k_j - q$ |
# |---|---|---|---|
# | Harbour | (0.48, −0.72) | 5.2 | (−2, −1) |
# | Hill | (−0.28, 0.52) | −3.5 | (2, 2) |
# | Forest | (−0.25, 0.05) | −1.2 | (−1, 3) |
# | Lake | (0.05, 0.15) | −0.5 | (2, −1) |
#
# (The table has rounded the results only: from its own numbers you get 5.1 for the Harbour.) The
# gradient is $5.2\,(-2, -1) - 3.5\,(2, 2) - 1.2\,(-1, 3) - 0.5\,(2, -1) = (-17.2, -15.3)$. A
# step subtracts the gradient times a small number, here $0.02$, the **learning rate**:
#
# $$(2, 1) - 0.02\,(-17.2, -15.3) = (2.34, 1.31)$$
#
# You walk away from the Harbour and towards the Hill.

# %% [markdown] slideshow={"slide_type": "notes"}
# The slopes are winds, while the step is on the map. Do one product on the board, the Harbour's: 2
# (1.9 · 0.48 + 2.3 · 0.72) = 5.1, so its score must fall. The table has 5.2, from numbers that are
# not rounded. Fifty such steps, on the page, lead to (2.27, 1.57), where the wind is (7, 6).

# %% [markdown] slideshow={"slide_type": "skip"}
# PyTorch, which rounds less, finds nearly the same step, and then takes more of them:

# %% slideshow={"slide_type": "skip"}
felt, here = torch.tensor([[7.0, 6.0]]), query
for step in range(51):
    here = here.detach().requires_grad_()
    wind_here, _ = pool(distance_score(here, keys), values)
    if step in (0, 1, 50):
        print(f"after {step:2d} steps: location", here.data[0], " wind", wind_here.data[0])
    (gradient,) = torch.autograd.grad((wind_here - felt).square().sum(), here)  # (1, 2)
    here = here - 0.02 * gradient

# %% [markdown] slideshow={"slide_type": "skip"}
# One step takes the wind from $(8.9, 3.7)$ to $(7.9, 5.2)$, and fifty steps take it to $(7, 6)$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### All slopes as one matrix
#
# *2 minutes.* The slopes of all scores fit into one formula. Write $\alpha$ for the column of the
# weights, and let the matrix of the values have one row per value. Then
#
# $$\frac{\partial o}{\partial a}
#   = \bigl(\operatorname{diag}(\alpha) - \alpha\,\alpha^\top\bigr)\, (\text{values}).$$
#
# In row $j$, the diagonal matrix gives $\alpha_j v_j$, and the matrix $\alpha\,\alpha^\top$ gives
# $\alpha_j \sum_l \alpha_l v_l$, which is $\alpha_j\, o$. The difference is $\alpha_j (v_j - o)$.

# %% slideshow={"slide_type": "fragment"}
alpha = weights[0]  # (4,)
as_a_matrix = (torch.diag(alpha) - torch.outer(alpha, alpha)) @ values  # (4, 4) @ (4, 2)
by_autograd = jacobian(lambda a: pool(a, values)[0][0], scores)  # (2, 1, 4)
print("the slopes of the core: ", torch.allclose(as_a_matrix, slopes, atol=1e-5))
print("the slopes of autograd: ", torch.allclose(as_a_matrix, by_autograd[:, 0].T, atol=1e-5))
print("sum of the rows is zero:", torch.allclose(as_a_matrix.sum(dim=0), torch.zeros(2), atol=1e-5))

# %% [markdown] slideshow={"slide_type": "skip"}
# The rows sum to zero, because nothing changes when all scores rise together.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### When the gradient vanishes after all
#
# *4 minutes.* D2L says that the gradient of the softmax never vanishes. On paper this is true
# as soon as there are two keys: exponentials are positive, so all weights are, and the slope of the
# output in a score is 0 only where $v_j = o$. In float32, however, very small numbers are rounded
# to 0:

# %% slideshow={"slide_type": "fragment"}
far_apart = torch.tensor([[0.0, -80.0, -110.0]])
print(pool(far_apart, torch.eye(3))[1])

# %% [markdown] slideshow={"slide_type": "skip"}
# Learning becomes slow long before that. To see it, we divide the scores by ever smaller
# temperatures and look at the gradient of the east wind with respect to the query in two places: at
# $(2.5, 1)$, where the Lake is nearest, and at the star, where Harbour and Lake are equally near.

# %% slideshow={"slide_type": "skip"}
for T in (1.0, 0.3, 0.1, 0.03):
    lengths = []
    for place in (near_lake, query):
        here = place.clone().requires_grad_()
        answer, _ = pool(distance_score(here, keys) / T, values)
        (gradient,) = torch.autograd.grad(answer[0, 0], here)  # (1, 2)
        lengths.append(gradient.norm())
    print(f"T = {T:4.2f}: {lengths[0]:7.2g} km/h per km at (2.5, 1), {lengths[1]:3.2g} at the star")

# %% [markdown] slideshow={"slide_type": "skip"}
# At $T = 0.1$ attention at $(2.5, 1)$ is nearly a lookup, and the gradient there is more than
# 10,000 times smaller than at $T = 1$, while at the star it has grown from 2.2 to 10.

# %% [markdown] slideshow={"slide_type": "skip"}
# At a low temperature, then, the output is flat near a single station and steep at the border
# between two, and both can make training hard.

# %% [markdown] slideshow={"slide_type": "notes"}
# 'Differentiable' does not mean 'easy to train'. Chapter 3 shows how easily scores get far apart,
# and what the square root of d does about it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Learn the matrix that makes the query
#
# *8 minutes.* A cheap device shows two numbers $x$ that depend on its location, but in unknown
# units and directions. Forty walkers wrote down these numbers and the wind, and thirty of them
# serve as training data. Can attention learn the matrix $W_q$ that turns the numbers into a query,
# without being told where a single walker was?

# %% [markdown] slideshow={"slide_type": "skip"}
# We made the device, so we know its matrix and can check. Training sees only $x$, the stations and
# the wind.

# %% slideshow={"slide_type": "skip"}
device = torch.tensor([[0.0, 2.0], [-1.0, 0.5]])  # location = device @ x, unknown to the training


def walk_with_device(seed):
    """40 readings x (40, 2), and the winds (40, 2) where they were taken; 30 are for training."""
    locations = 4 * torch.rand(40, 2, generator=torch.Generator().manual_seed(seed))
    winds_there, _ = pool(distance_score(locations, keys), values)
    return locations @ torch.linalg.inv(device).T, winds_there


def learn_the_matrix(seed):
    x, winds_there = walk_with_device(seed)
    torch.manual_seed(seed)
    W_q = nn.Linear(2, 2, bias=False)  # begins random
    optimizer = torch.optim.Adam(W_q.parameters(), lr=0.05)
    for _ in range(500):
        answers, _ = pool(distance_score(W_q(x[:30]), keys), values)
        loss = (answers - winds_there[:30]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        unseen, _ = pool(distance_score(W_q(x[30:]), keys), values)
    return W_q.weight.detach(), (unseen - winds_there[30:]).square().mean().item()


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
learned = [learn_the_matrix(seed) for seed in range(20)]
found = sum((matrix - device).abs().max().item() < 0.05 for matrix, _ in learned)
good = sum(error < 0.01 for _, error in learned)
print("the first learned matrix:", learned[0][0].round(decimals=3))
print(f"found within 0.05: {found} of 20 starts; error below 0.01 for the ten others: {good}")
assert found == good == 20

# %% [markdown] slideshow={"slide_type": "fragment"}
# It can. In each of 20 starts, each with other walkers and another random initialisation, the
# winds, the readings and the known stations were enough to find the matrix of the device.

# %% [markdown] slideshow={"slide_type": "skip"}
# The task is easy in two ways: the keys and values were right from the start, and the right matrix
# makes the error zero. From chapter 5 on, all the matrices of a translator are learned in the same
# way.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what training is told: only stations, readings and winds. Then ask where the slope comes from:
# the loss, the output, the scores, the query, the matrix.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.6** · derive, then complete a function
#
# The chapter gives the slope of the output with respect to a *score*, and of a score with respect
# to the query. A network needs the slope of the output with respect to the *query*, because the
# query comes from a learned matrix. Derive it on paper for the scores
# $a_j = -\tfrac12 \lVert q - k_j \rVert^2$. Then complete `pooling_gradient`, without autograd.
# `query` is $(D,)$, `keys` is $(K, D)$ and `values` is $(K, V)$. Row $c$ of the result, $(D, V)$
# and of the dtype of the inputs, says how the output moves as coordinate $c$ of the query rises.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, version 1.0.3, section 11.1:
#   <https://d2l.ai/chapter_attention-mechanisms-and-transformers/queries-keys-values.html>.
# - Cho, van Merriënboer, Bahdanau and Bengio (2014), *On the Properties of Neural Machine
#   Translation: Encoder-Decoder Approaches*, SSST-8, arXiv:1409.1259: translations get worse as
#   sentences get longer. (Not so in the next one.)
# - Sutskever, Vinyals and Le (2014), *Sequence to Sequence Learning with Neural Networks*, NeurIPS,
#   arXiv:1409.3215: the source is read backwards; no difficulty with long sentences is reported.
# - Bahdanau, Cho and Bengio (2015), *Neural Machine Translation by Jointly Learning to Align
#   and Translate*, ICLR, arXiv:1409.0473: the paper that brought attention to translation.
# - The stations, walkers and winds are made up.
