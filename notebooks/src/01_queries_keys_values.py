# %% [markdown] slideshow={"slide_type": "slide"}
# # 1 · Queries, keys and values
#
# **You will**
# - answer a question from a database that does not contain the answer;
# - build attention pooling in five lines, and let three words attend to each other;
# - say which weights keep the answer in the convex hull of the values, and why;
# - train a query matrix by gradient descent, and check what it has learned.
#
# Core path: 60 to 90 minutes. Going further: 5. Exercises: 43.
#
# Builds on chapter 0. The book is *Dive into Deep Learning* (D2L), section 11.1.

# %% [markdown] slideshow={"slide_type": "notes"}
# 35 minutes, votes included. Not in the plan is the view 'Walk, and turn the temperature', the last
# of its column, so the right arrow passes over it. After 18 minutes you should be at 'Where
# queries, keys and values come from'. Behind? Pass over the order of the pairs, and let 'dog bites
# man' wait for chapter 7. The slides after the summary are for questions. Homework: exercises 1.1,
# 1.2 and 1.5.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math

import matplotlib.pyplot as plt
import torch
from ipywidgets import FloatLogSlider
from matplotlib.patches import Polygon

from d2l_attention.views import Player, State, explore, grid, schematic
from d2l_attention.views.palette import FAINT, GREY, GROUND, KEY, OUTPUT, QUERY, TINT, VALUE, WEIGHT
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=3)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# A network represents a word as a **vector**, a list of numbers. A **weighted sum** multiplies each
# vector by a number and adds up the results. With the weights $\tfrac14$ and $\tfrac34$:

# %% [markdown] slideshow={"slide_type": "fragment"}
# $$\tfrac14\,(4, 0) + \tfrac34\,(0, 8) = (1, 6)$$

# %% [markdown] slideshow={"slide_type": "skip"}
# A matrix product computes many such sums at once. The exponential is always positive, and
# $e^{x + c} = e^c e^x$. Only the end of the core path needs derivatives.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room do the sum before you show it, because its two weights and its answer
# come back.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why attention?
#
# A sentence may have 5 words or 50. If each word is a vector of 8 numbers, the words laid end to
# end are 40 numbers or 400, and no single matrix takes both.
#
# **Question.** How would you turn 5 words into *one* vector of a fixed size, and 50 words as well?

# %% [markdown] slideshow={"slide_type": "fragment"}
# The simplest answer is the average of the word vectors, which has 8 numbers however many words go
# in. But this average gives every word the same weight, whatever we want to know. **Attention** is
# an average whose weights depend on what we want to know.

# %% [markdown] slideshow={"slide_type": "skip"}
# The idea became known through translation. In 2014, one network read a sentence into one vector,
# from which a second network wrote the translation. Bahdanau, Cho and Bengio (2015) let the second
# network look back at all the words and decide at each step how much each of them matters *now*.
# This chapter builds that one step, and chapter 5 a translator around it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before you show the answer. Expect 'cut or pad' and 'add the words up'; divided
# by their number, the sum is attention with equal weights. Then tell the story: in 2014 one vector
# had to carry the whole sentence, and in 2015 Bahdanau, Cho and Bengio let the translator look back
# at all words at each step.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four weather stations and a walker
#
# We begin with numbers that fit on a map. Four stations measure the wind, where $(10, 2)$ means 10
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
# Your location is the **query**, the locations of the stations are the **keys**, and their winds
# are the **values**. A set of such pairs of a key and a value is called a **database**. An ordinary
# one compares keys for *equality*, so a Python dictionary knows the wind at the four stations and
# nothing between them:

# %% slideshow={"slide_type": "fragment"}
dictionary = {(0, 0): (10, 2), (4, 3): (6, 9), (1, 4): (2, 5), (4, 0): (9, 4)}
print("at the Harbour:", dictionary[0, 0])
print("where you are: ", dictionary.get((2, 1)))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Attention replaces *equal* by *similar*: every station contributes to the answer, and a closer one
# contributes more. How much more?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The whole chapter is the step from 'equal' to 'similar'. Before the formula, ask how
# all four winds could contribute, and lead the answers to 'each as much as it deserves'.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From scores to weights
#
# The **score** $a_j$ of station $j$ may be any number, as long as it is larger for a closer
# station. We take minus half the squared distance between the query $q$ and the station's key
# $k_j$:
#
# $$a_j = -\tfrac12 \lVert q - k_j\rVert^2$$

# %% [markdown] slideshow={"slide_type": "skip"}
# (The half only sets a scale; it matters once scores become weights.) In the code's comments, Q and
# K count queries and keys, while D and V are the sizes of a key and a value. `None` adds an axis:
# (1, 1, 2) minus (4, 2) is (1, 4, 2), so every query meets every key.


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
# How do we turn these scores into weights, which should be non-negative and sum to one? First, the
# exponential makes every score positive and keeps their order. Then we divide by the sum of all
# exponentials, and these two steps together are the **softmax**:
#
# $$\alpha_j = \frac{e^{a_j}}{\sum_{l} e^{a_l}}$$
#
# Since all scores are in the sum, a weight depends on *all* keys: if a fifth station opened, the
# other four would lose some of theirs.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Take the scores $0$ and $\ln 3$, for example. Their exponentials are $1$ and $3$, which sum to
# $4$, so the weights are $\tfrac14$ and $\tfrac34$:

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
# 1½ minutes. Let the room compute the two weights before you show them. Some compute ln 3 = 1.1
# first, which is not needed. The weighted sum with these weights is on the board already.

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
# One minute. Step through it, and let the room say each row before it comes. Then compare with the
# guesses on the board: who was nearest? Ask for the weights that each rule implies. 'The nearest
# station' has a single 1.

# %% [markdown] slideshow={"slide_type": "skip"}
# So attention has an answer even where there is no station. If you guessed $(9.5, 3)$, half Harbour
# and half Lake, you took a weighted sum as well, with other weights.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Walk, and turn the temperature
#
# Now you move the query yourself, starting near the Forest. With the third slider you divide all
# scores by a number $T > 0$, the **temperature**, before the softmax.
#
# **Question.** At $T = 0.1$ the Forest takes everything. Would one station do so at $(2, 1.5)$ as
# well?


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the map, the weights and the wind for a query and a temperature that you choose
hull = values[[0, 3, 1, 2]]  # the corners, one after the other


def walk(figure, east=0.5, north=2.8, temperature=1.0):
    here = torch.tensor([[east, north]])
    weights = (distance_score(here, keys) / temperature).softmax(dim=-1)
    wind = weights @ values
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
    shares.set(title=f"weights at T = {temperature:.1f}", ylim=(0, 1.1))
    shares.tick_params(axis="x", rotation=45)
    sky.add_patch(Polygon(hull, color=VALUE, alpha=0.15))
    sky.scatter(*values.T, s=40 + 300 * weights[0], color=VALUE, marker="D")
    for name, value in zip(names, values.tolist(), strict=True):
        below = name in ("Harbour", "Lake")
        beside = dict(xytext=(0, -20 if below else 12), ha="center")
        sky.annotate(name, value, textcoords="offset points", **beside)
    sky.scatter(*wind[0], s=130, facecolor=GROUND, edgecolor=OUTPUT, linewidth=3, zorder=3)
    sky.set(title="your wind stays in the tint", xlabel="km/h east", ylabel="km/h north")
    sky.set(xlim=(0, 12), ylim=(0, 11))


explore(
    walk,
    figsize=(11, 3.9),
    alt="A map of the stations and you, the four weights as bars, your wind among the four.",
    east=(-1.0, 5.0, 0.1),
    north=(-1.0, 4.0, 0.1),
    temperature=FloatLogSlider(value=1.0, min=-1, max=2, step=0.1, readout_format=".1f"),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view with three panels. Left, the map with the four stations and a star
# for you; middle, the four weights as bars; right, the plane of winds with the answer as a ring
# in the tint between the four winds.*

# %% [markdown] slideshow={"slide_type": "skip"}
# No: there Harbour, Hill and Lake have the same score, so each keeps a third at low $T$. At
# $T = 100$ the wind is near the average wherever you walk. It never leaves the tint on the right,
# and 'Four kinds of weights' says why.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; two minutes. Vote before you walk. Expect 'yes, one', because one took everything
# before, but three equal scores stay equal, and each gets a third. At a high temperature, the ring
# stays near the average wherever you walk. On a slide each slider has five stops, those of the
# question among them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Attention pooling in one formula
#
# Now let us forget the weather. For any query and any database of $K$ pairs, **attention pooling**
# gives every pair a weight and adds up the weighted values:
#
# $$\operatorname{Attention}(q) = \sum_{j=1}^{K} \alpha(q, k_j)\, v_j
# \qquad\text{with}\qquad \alpha(q, k_j) = \frac{e^{a(q, k_j)}}{\sum_{l} e^{a(q, k_l)}}$$
#
# - The **query** $q$ says what we want to know.
# - The **key** $k_j$ says what pair $j$ is about. A score $a(q, k_j)$ compares the two, and the
#   softmax of all scores gives each pair its **attention weight** $\alpha(q, k_j)$, in short
#   $\alpha_j$.
# - The **value** $v_j$ is what pair $j$ contributes to the answer. The query never meets a value.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which of these are numbers and which are vectors. Many take the weight for a
# vector, but it is one number, and the answer is as wide as a value. The book calls the database D,
# and its number of pairs m.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws who feeds what in attention pooling
schematic("attention pooling")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows from left to right. Queries (Q, D) and keys (K, D) enter a box that
# scores each pair. The scores (Q, K) go through a softmax over the keys, which makes weights (Q,
# K). The weights are multiplied by the values (K, V), which enter only here. The output is (Q, V).*

# %% [markdown] slideshow={"slide_type": "skip"}
# At the star, one query met four pairs, so Q is 1 and K is 4, while D and V are 2. The same formula
# serves a database of any size, and nothing has to be compressed in advance, because all pairs are
# still there when the query comes.
#
# **A first place to stop.** You now have the whole idea. The rest makes the code safe for large
# scores, lets words attend to each other, and shows what the softmax is good for and how queries
# are learned.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room put numbers on the arrows: Q = 1, K = 4, D = V = 2. Come back to it when
# three words ask (Q = K = 3, D = 2, V = 1). What changes in the formula when a station closes?
# (Only the number of terms.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Build attention pooling
#
# Do our three lines work for large scores as well?
#
# **Predict.** Add 100 to both scores, $0$ and $\ln 3$. What happens to the weights?

# %% slideshow={"slide_type": "fragment"}
two_scores = torch.tensor([[1.0, 3.0]]).log()  # 0 and ln 3
print("before   ", two_scores.softmax(dim=-1), " after", (two_scores + 100).softmax(dim=-1))
exponentials = (two_scores + 100).exp()
print("our lines", exponentials / exponentials.sum(dim=-1, keepdim=True))

# %% [markdown] slideshow={"slide_type": "fragment"}
# They stay the same: every exponential is multiplied by $e^{100}$, which cancels, so the softmax
# depends only on the *differences* between scores. But our three lines compute $e^{100}$ itself,
# which float32 stores as infinity, and infinity divided by infinity is NaN, 'not a number'.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. One minute in pairs. Expect three votes: 'the larger one takes all', 'nothing', and
# 'it breaks'. On paper and in PyTorch's `softmax` nothing changes; our three lines break. Before
# the next slide ask how `softmax` avoids the NaN.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Subtract the largest score
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

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where queries, keys and values come from
#
# A word has no location on a map, so where does its query come from, and its key and value? In most
# networks with attention, a word is a vector $x$, and three learned matrices turn $x$ into all
# three:
#
# $$q = W_q\, x, \qquad k = W_k\, x, \qquad v = W_v\, x .$$
#
# The same three matrices serve every word, so 50 words need no more of them than 5.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Let us choose such matrices by hand. Is it 'cats drink milk' or 'cats drinks milk'? The verb has
# to know who drinks, so it looks for a noun that is alive. (In 'cats chase dogs' both nouns would
# fit.) Let a word be four numbers. Under *plural*, $1$ means plural, $-1$ means singular, and $0$
# 'does not apply':
#
# | word | noun | verb | alive | plural |
# |---|---|---|---|---|
# | cats | 1 | 0 | 1 | 1 |
# | drink | 0 | 1 | 0 | 0 |
# | milk | 1 | 0 | 0 | −1 |

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what *cats* would ask, and what *drink* offers: each word goes through all three
# matrices, and the next slide has their numbers. 'Alive' stands in for 'subject'. What would the
# verb find in 'cats chase dogs'? (Both nouns.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# As on the map, let queries and keys be points in a plane. $W_k$ turns a word into the point (twice
# *noun*, twice *alive*), so the key of a living noun is $(2, 2)$. A verb should ask there, so $W_q$
# writes twice the *verb* feature into both places. For *drink*:
#
# $$W_q\, x = \begin{pmatrix} 0 & 2 & 0 & 0 \\ 0 & 2 & 0 & 0 \end{pmatrix}
#   \begin{pmatrix} 0 \\ 1 \\ 0 \\ 0 \end{pmatrix}
#   = \begin{pmatrix} 2 \\ 2 \end{pmatrix}$$
#
# $W_v$ reads *plural* for the value. In `words @ W_q.T` each row is a word, so a single product
# makes all queries. The picture below the code shows where queries and keys lie.

# %% slideshow={"slide_type": "subslide"}
words = torch.tensor([[1.0, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, -1]])  # cats, drink, milk
W_q = torch.tensor([[0.0, 2, 0, 0], [0, 2, 0, 0]])
W_k = torch.tensor([[2.0, 0, 0, 0], [0, 0, 2, 0]])
W_v = torch.tensor([[0.0, 0, 0, 1]])
word_queries, word_keys, word_values = words @ W_q.T, words @ W_k.T, words @ W_v.T
print("values", word_values.tolist())

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws keys and queries of the three words as points of one plane
figure, ax = plt.subplots(figsize=(6.4, 3.3))
ax.scatter(*word_keys.T, s=400, color=KEY, marker="s")
ax.scatter(*word_queries[:2].T, s=150, facecolor=QUERY, edgecolor=GROUND, linewidth=3, zorder=3)
for word, key in zip(["cats", "drink", "milk"], word_keys.tolist(), strict=True):
    ax.annotate(f"key: {word}", key, xytext=(18, -5), textcoords="offset points", color=KEY)
for asking, point in zip(["cats, milk", "drink"], word_queries[:2].tolist(), strict=True):
    above = dict(xytext=(0, 18), textcoords="offset points", ha="center")
    ax.annotate(f"query: {asking}", point, color=QUERY, **above)
ax.set(xlabel="noun, twice", ylabel="alive, twice", xlim=(-0.9, 3.1), ylim=(-0.6, 2.8))
ax.set(xticks=[0, 1, 2], yticks=[0, 1, 2])
ax.set_title("The query of drink lands on the key of cats")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a plane with twice noun to the right and twice alive upwards. Squares are the keys: cats
# at (2, 2), drink at (0, 0), milk at (2, 0). Circles are the queries: that of drink is on the
# square of cats, and that of cats and milk, at (0, 0), is on the square of drink.*

# %% [markdown] slideshow={"slide_type": "skip"}
# *Drink* and *cats* share no feature, and yet the query of one lands on the key of the other.
# Different matrices make queries and keys, so a word can ask for one thing and offer another.
#
# Distance is the score that a picture shows best. Most networks use the **dot product**
# $q \cdot k$, which multiplies two vectors entry by entry and adds up:

# %% slideshow={"slide_type": "fragment"}
print((word_queries @ word_keys.T).tolist())  # a row for each query: cats, drink, milk

# %% [markdown] slideshow={"slide_type": "skip"}
# For *drink*, the second row, the largest product is again that with *cats*. (Chapter 3 compares
# the two scores.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The bridge to the rest of the course. Do the product on the board, and let the room
# do the key of 'milk', (2, 0). A network has hundreds of numbers per word, and nobody tells it what
# they mean. The last line, the dot products, is for chapter 3: one sentence is enough.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## All queries in one matrix product
#
# What does each word receive? We go back to the distance score, and our two functions answer all
# three queries at once, because each row of the weights multiplies the values by itself:

# %% slideshow={"slide_type": "-"}
answers, word_weights = pool(distance_score(word_queries, word_keys), word_values)
print("cats, drink and milk receive", answers.T)

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the weights of the three words as a heat map
figure, ax = plt.subplots(figsize=(6.4, 3.4))
heatmap(ax, word_weights, ["cats", "drink", "milk"], ["cats", "drink", "milk"], numbers=True)
ax.set(ylabel="query", xlabel="key")
ax.set_title("The verb attends mostly to cats")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map with three rows, the queries of cats, drink and milk, and three columns, their
# keys. The rows of cats and milk are equal: 0.02, 0.87, 0.12. The row of drink is 0.87, 0.02,
# 0.12.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The verb attends mostly to *cats*, and its answer, 0.75, is positive, which means plural: 'drink'.
# The nouns ask for nothing, but their weights must still sum to one. Their query $(0, 0)$ happens
# to lie on the key of *drink*, which therefore gets most of the weight. This accident belongs to
# the distance score: with dot products, which are all 0 for the nouns, each word would get a third.
# (Whether a large weight also *explains* a trained network is a question for chapters 5, 8 and 13.)

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Go slowly, because every later chapter shows such a picture. Before it, do the three
# scores of *drink* on the board, 0, −4 and −2, and ask where a query of zeros looks. Expect
# 'nowhere' and 'a third each'. The second is right for dot products, whose scores would all be 0.
# Do the columns sum to one? (No: nobody sees to it.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From 'cats' to 'cat': only a value changes
#
# What changes for the verb when its subject is *cat*, whose *plural* is $-1$?

# %% slideshow={"slide_type": "fragment"}
cat_values = torch.tensor([[-1.0], [0.0], [-1.0]])  # cat, drink, milk
answer, verb_weights = pool(distance_score(word_queries[1:2], word_keys), cat_values)
print("drink: weights", verb_weights, " answer", answer)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Now the answer is negative: 'drinks'. The weights are those of the heat map, because the query and
# the keys are the same. So query and keys decide how much a word counts, and its value what it
# contributes. (*Milk*, a noun as well, lowers both answers by 0.12.)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. This is the difference between a key and a value: query and keys decide which words
# count, and the values what they contribute.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The order of the pairs
#
# A sum does not depend on the order of its terms, so to attention pooling, 'dog bites man' and 'man
# bites dog' are the same database. Chapter 7 shows how a network can still tell them apart.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Checks that the wind at the star is the same with the stations backwards
backwards, _ = pool(distance_score(query, keys.flip(0)), values.flip(0))
torch.testing.assert_close(backwards, wind)
print("checked: with the stations listed backwards, the wind at the star is the same")

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Why does a graphics card like the one product? (No row waits for another row.) Before
# you show the slide: which two sentences have the same words and different meanings?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four kinds of weights
#
# A softmax gives weights that are non-negative and sum to one. What is that good for? To find out,
# we choose weights for the four winds by hand:
#
# | weights | Harbour | Hill | Forest | Lake |
# |---|---|---|---|---|
# | non-negative | 0.3 | 0.9 | 0.2 | 0.8 |
# | and sum to one | 0.1 | 0.5 | 0.1 | 0.3 |
# | a single 1 | 0 | 1 | 0 | 0 |
# | all a quarter | ¼ | ¼ | ¼ | ¼ |
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
pooled = [(chosen @ values).tolist() for chosen in kinds.values()]
figure, axes = plt.subplots(1, 4, figsize=(13, 3.5), sharex=True, sharey=True)
cone = torch.stack([torch.zeros(2), 9 * values[0], 9 * values[2]])
for region, ax in zip((cone, hull), axes[:2], strict=True):
    ax.add_patch(Polygon(region, color=VALUE, alpha=0.15))
for spots, ax in zip((values, values.mean(dim=0, keepdim=True)), axes[2:], strict=True):
    ax.scatter(*spots.T, s=750, color=VALUE, alpha=0.15, linewidth=0)
for ax, (kind, chosen), answer in zip(axes, kinds.items(), pooled, strict=True):
    ax.scatter(*values.T, s=40 + 300 * chosen, color=VALUE, marker="D")
    for name, wind_there in zip(names, values.tolist(), strict=True):
        beside = (14, -6) if name in ("Harbour", "Lake") else (0, 16)
        side = "left" if name in ("Harbour", "Lake") else "center"
        ax.annotate(name, wind_there, xytext=beside, textcoords="offset points", ha=side)
    ax.scatter(*answer, s=130, facecolor=GROUND, edgecolor=OUTPUT, linewidth=3, zorder=3)
    ax.set(title=kind, xlabel="wind east, km/h", xlim=(0, 19), ylim=(0, 15))
    ax.set_yticks([0, 5, 10, 15])
axes[0].set_ylabel("wind north, km/h")
figure.suptitle("Only the first kind lets the answer (ring) leave the space between the winds")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four panels in the plane of winds. Diamonds are the four winds, larger where the weight
# is larger, and a ring is the answer. The tint shows where it can lie: with weights that are only
# non-negative in a cone, where the ring is beyond every wind; with weights that also sum to one in
# the hull of the winds; with a single 1 on one of the four, and with equal weights on their
# average, each marked by a disc.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Only with the first. The tint shows where the answer can be, and with the first kind it is a
# **cone** without end. (A larger diamond has more weight.) Softmax weights also sum to one. Then
# the answer stays inside a rubber band stretched around the values, their **convex hull**, where no
# wind is stronger than the strongest of the four. The last two kinds are special cases: a single 1
# is an ordinary lookup, and equal weights are **average pooling**.
#
# Why the hull? A weighted average of two points lies on the segment between them. If you then
# average the result with a third point, and so on, you stay inside. Negative weights can lead
# outside: 2 for the Hill and $-1$ for the Forest also sum to one, but they give $(10, 13)$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Vote before the picture: only the first can. Then say the names: cone, convex hull (a
# rubber band around the dots), lookup, average. Ask for 2 at the Hill and −1 at the Forest, which
# sum to one as well, and draw the line from the Forest through the Hill: the answer (10, 13) is
# beyond the Hill.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Temperature: between a lookup and an average
#
# Divide all scores by a number $T > 0$, the **temperature**, before the softmax. On the map, this
# led from a lookup to an average. What does it do to the weights?
#
# **Predict.** At $T = 1$, the scores $0$ and $\ln 3$ have the weights $\tfrac14$ and $\tfrac34$.
# What are the weights at $T = \tfrac12$?

# %% slideshow={"slide_type": "fragment"}
for T in (0.5, 0.2, 100.0):
    print(f"T = {T:5.1f}", (two_scores / T).softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# They are 0.1 and 0.9, because dividing by $\tfrac12$ doubles the scores, which squares their
# exponentials: $1$ and $3$ become $1$ and $9$. A lower temperature drives the weights further
# apart, and a high one brings them together.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes, one of them in pairs. Expect ⅛ and ⅜, or 'the same' from those who remember that a
# common factor cancels; but here it is a factor of the scores, not of the exponentials.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why attention can learn
#
# Can a network find its own queries? Training changes numbers in the direction in which the error
# falls, and to find this direction, it must know how the answer changes when the query moves a
# little. If we copied the wind of the nearest station, nothing would change until, half-way between
# two stations, the answer jumps. Attention responds to every small step with a small change:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the wind of the nearest station and of attention on a walk to the east
east = torch.linspace(0, 4, 201)
path = torch.stack([east, torch.ones(201)], dim=1)  # (201, 2): always 1 km north
by_attention, path_weights = pool(distance_score(path, keys), values)
by_nearest = values[path_weights.argmax(dim=1)]
by_nearest[100] = math.nan  # half-way it jumps
figure, ax = plt.subplots(figsize=(7.4, 2.9))
ax.plot(east, by_nearest[:, 1], color=GREY, label="nearest station")
ax.plot(east, by_attention[:, 1], color=OUTPUT, linestyle="--", label="attention")
ax.set(xlabel="km east, at 1 km north", ylabel="north wind, km/h", ylim=(1, 6))
ax.legend(frameon=False)
ax.set_title("The wind of the nearest station jumps, attention rises smoothly")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the north wind on a walk from west to east. Copied from the nearest station, it is 2 up
# to half-way, where it jumps to 4, the Lake's wind; by attention it rises in one smooth curve to
# 4.9, because the Hill, whose north wind is 9, still has a weight of 0.18.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the picture, ask how the nearest station's wind changes on this walk. Half-way
# it does, but a jump has no slope. Then ask who pulls attention above the Lake's 4. (The Hill.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which way a score pulls the answer
#
# A query acts on the answer through the scores, so where does the output go when one score rises a
# little? Take the weights $\tfrac14$ and $\tfrac34$ again, from the scores $0$ and $\ln 3$, with
# the values 4 and 8. The output, $o$ for short, is $\tfrac14 \cdot 4 + \tfrac34 \cdot 8 = 7$. Now
# let each score in turn rise by 0.01:

# %% slideshow={"slide_type": "fragment"}
two_values = torch.tensor([[4.0], [8.0]])
for rises in ([0.0, 0.0], [0.01, 0.0], [0.0, 0.01]):
    output, _ = pool(two_scores + torch.tensor(rises), two_values)
    print(f"scores raised by {rises}: output {output.item():.4f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A rising score pulls the output towards its own value: the first score down towards 4, the second
# up towards 8. Both moves are equal, because weight times distance is: the first value is 3 away,
# but light, with weight $\tfrac14$; the second is near, 1 away, but heavy, with weight $\tfrac34$:
# 0.75 for both. With its sign, this product is the slope, the movement of the output per unit of
# the score:
#
# $$\frac{\partial o}{\partial a_j} = \alpha_j\,(v_j - o)$$

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room say both directions before the numbers. Which two things does a score
# change? (Its own exponential, and the sum.) The slopes of two scores are opposite, because
# nothing changes when both rise together.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train a query matrix
#
# The chain rule carries these slopes back from the scores to the queries, and from the queries to
# $W_q$. Does training then find the right $W_q$? To check this, we invent a task whose right $W_q$
# we know, with walkers in place of words.
#
# Forty walkers play the words. Each carries a badly labelled GPS, which shows two numbers $x$ that
# depend on the location, in unknown units and directions: $x$ plays the word's vector, and $W_q$
# has to turn it into a useful query. Each walker notes $x$ and the wind there. We computed these
# winds by attention, with the true location as the query, so $W_q$ is right if it turns $x$ back
# into that location. Training does not know it: it sees only the notes and the stations. In each
# step, Adam, a form of gradient descent, moves $W_q$ a little against the slopes.


# %% slideshow={"slide_type": "subslide"}
instrument = torch.tensor([[0.25, -1.0], [0.5, 0.0]])  # x = instrument @ location


def train(seed, steps=500):
    generator = torch.Generator().manual_seed(seed)
    locations = 4 * torch.rand(40, 2, generator=generator)
    x = locations @ instrument.T  # (40, 2): all that training sees of the locations
    felt, _ = pool(distance_score(locations, keys), values)  # (40, 2): made by attention
    W_q = (0.5 * torch.randn(2, 2, generator=generator)).requires_grad_()
    optimizer = torch.optim.Adam([W_q], lr=0.05)
    for _ in range(steps):
        winds, _ = pool(distance_score(x @ W_q.T, keys), values)
        loss = (winds - felt).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return W_q.detach()


# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
print("learned\n", train(seed=0).round(decimals=3))
print("hidden: it undoes the instrument\n", torch.linalg.inv(instrument))

# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
# Trains in twenty starts, and draws the queries of the first before and after training
errors = [(train(seed) - torch.linalg.inv(instrument)).abs().max().item() for seed in range(20)]
close = sum(error < 0.05 for error in errors)
print(f"checked: all four entries within 0.05 in {close} of 20 starts")
assert close == 20
locations = 4 * torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), sharex=True, sharey=True)
for ax, steps in zip(axes, (0, 500), strict=True):
    asked = locations @ instrument.T @ train(0, steps).T
    for there, query_there in zip(locations, asked, strict=True):
        ax.plot(*torch.stack([there, query_there]).T, color=FAINT, linewidth=1, zorder=0)
    ax.scatter(*locations.T, s=70, facecolor=GROUND, edgecolor=GREY, label="location")
    ax.scatter(*asked.T, s=16, color=QUERY, label="query", zorder=3)
    ax.scatter(*keys.T, s=90, color=KEY, marker="s", label="station")
    ax.set(title=f"after {steps} steps", xlabel="km east", aspect="equal")
axes[0].set_ylabel("km north")
axes[1].legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
figure.suptitle("Training puts every query on a location that it was never told")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two maps with the stations, the forty locations as circles, and a line from each to the
# query of its walker. Before training the queries lie elsewhere; after 500 steps each query is in
# its circle.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Training finds the hidden matrix in each of 20 starts, with other walkers and another small random
# $W_q$ each time. The task is easy: keys and values were right from the start, and $W_q$ began
# small. From chapter 5 on, a translator learns all its matrices in this way.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Ask what training is told: only stations, readings and winds. Then ask where the
# slope comes from: the loss, the output, the scores, the query, the matrix.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention compares a query with keys and returns a weighted sum of values,
#   $\sum_j \alpha_j v_j$, for any number of pairs in any order.
# - Softmax weights are non-negative and sum to one, so the answer stays in the convex hull of the
#   values. Only differences between scores matter.
# - A low temperature leads to a lookup, if one score is the largest, and a high one to an average.
# - Learned matrices turn each word into a query, a key and a value. Score $j$ pulls the output $o$
#   with the slope $\alpha_j (v_j - o)$, and following such slopes, training found the right query
#   matrix in all 20 runs of an easy task.
#
# After the exercises, chapter 2 asks how near a key must be to count.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the formula first, then for the three words of the title on the map. Homework:
# exercises 1.1, 1.2 and 1.5.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or wrong. `hint("1.1")`
# helps a little more each time, and `solution("1.1")` explains a solution.

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
# Write attention pooling from memory: complete `attend`, first the softmax (PyTorch's is allowed),
# then the weighted sum. `scores` is $(Q, K)$, with one row per query; `values` is $(K, V)$; return
# only the output, $(Q, V)$, in the dtype of the inputs. Scores may be as large as 1000. Gradients
# have to flow to scores and values.

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.3** · predict, then measure
#
# Three keys share the attention: each has weight $\tfrac13$. Now the score of the first key rises
# by $\ln 2$, and the other two stay. Predict the new weight of the first key, then measure it with
# `softmax`. Answer with the weight.

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.4** · complete a function
#
# Complete `temperature_for`: the positive number by which to divide `scores` so that, after the
# softmax, the best key has the weight `share`, to within 0.001. `scores` is a tensor $(K,)$ with
# one best score; scores may be large or small, 1000 or 0.001. `share` is a number between $1/K$ and
# $1$. Return a number. Bisection is fine.

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
# ### The slope of every score
#
# *2 minutes.* Why is the slope $\alpha_j (v_j - o)$? When score $j$ rises by a small $\varepsilon$,
# its exponential grows by nearly the factor $1 + \varepsilon$, which adds
# $\varepsilon\,\alpha_j v_j$ to the output. But then the weights sum to
# $1 + \varepsilon\,\alpha_j$, and dividing by this sum takes nearly $\varepsilon\,\alpha_j o$ away.
#
# At the star, a slope has two numbers, for east and north. Autograd finds the same slopes, and
# since nothing changes when all scores rise together, they sum to zero:

# %% slideshow={"slide_type": "fragment"}
slopes = weights.T * (values - wind)  # (4, 1) * (4, 2): row j is alpha_j (v_j - o)
by_autograd = torch.autograd.functional.jacobian(lambda a: pool(a, values)[0][0], scores)
print(slopes)
print("the slopes of autograd:", torch.allclose(slopes, by_autograd[:, 0].T, atol=1e-5))
print("their sum is zero:     ", torch.allclose(slopes.sum(dim=0), torch.zeros(2), atol=1e-5))

# %% [markdown] slideshow={"slide_type": "notes"}
# Before the run: Harbour and Lake have the same weight, 0.43. Whose score moves the wind more?
# Expect 'the same': the room looks at the weight and forgets the value, which for the Lake is close
# to the output.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### When the gradient vanishes after all
#
# *4 minutes.* D2L says that the gradient of the softmax never vanishes. On paper this is true with
# two keys or more: every weight is then above 0 and below 1, so the slope of a score is zero only
# if its value already equals the output. But it can become tiny. Here is the length of the gradient
# of the east wind with respect to the query, at (2.5, 1), where the Lake is nearest, and half a
# kilometre to the west, at the star, which is equally far from Harbour and Lake:

# %% slideshow={"slide_type": "skip"}
to_the_east = torch.tensor([[2.5, 1.0]])
for T in (1.0, 0.1):
    lengths = []
    for place in (to_the_east, query):
        here = place.clone().requires_grad_()
        answer, _ = pool(distance_score(here, keys) / T, values)
        (gradient,) = torch.autograd.grad(answer[0, 0], here)  # (1, 2)
        lengths.append(gradient.norm())
    print(f"T = {T:4.2f}: {lengths[0]:7.2g} km/h per km at (2.5, 1), {lengths[1]:3.2g} at the star")

# %% [markdown] slideshow={"slide_type": "skip"}
# At $T = 0.1$ the gradient at (2.5, 1) is more than 10,000 times smaller than at $T = 1$. At the
# star, however, it has grown from 2.2 to 10. So at a low temperature the output is flat where one
# station is clearly the nearest, and steep at the border between two.

# %% [markdown] slideshow={"slide_type": "notes"}
# 'Differentiable' does not mean 'easy to train'. Chapter 3 shows how easily scores get far apart,
# and what the square root of d does about it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.6** · derive, then complete a function
#
# A network needs the slope of the output not only with respect to a *score*, but with respect to
# the *query*, which comes from a learned matrix. Derive it on paper for the scores
# $a_j = -\tfrac12 \lVert q - k_j \rVert^2$. Then complete `pooling_gradient`, without autograd.
# `query` is $(D,)$, `keys` is $(K, D)$ and `values` is $(K, V)$. Row $c$ of the result, $(D, V)$
# and of the dtype of the inputs, says how the output moves as coordinate $c$ of the query rises.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, version 1.0.3, section 11.1:
#   <https://d2l.ai/chapter_attention-mechanisms-and-transformers/queries-keys-values.html>.
# - Sutskever, Vinyals and Le (2014), *Sequence to Sequence Learning with Neural Networks*, NeurIPS,
#   arXiv:1409.3215: one network reads a sentence into a vector, another writes from it.
# - Bahdanau, Cho and Bengio (2015), *Neural Machine Translation by Jointly Learning to Align
#   and Translate*, ICLR, arXiv:1409.0473: the paper that brought attention to translation.
# - The stations, walkers and winds are made up.
