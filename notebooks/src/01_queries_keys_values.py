# %% [markdown] slideshow={"slide_type": "slide"}
# # 1 · Queries, keys and values
#
# **You will**
# - answer a question from a database that does not contain the answer;
# - build attention pooling in five lines, and let three words attend to each other;
# - say which weights keep the answer in the convex hull of the values, and why;
# - train a query matrix by gradient descent, and check what it has learned.
#
# Core path: 55 to 80 minutes. Going further: 5. Exercises: 43.
#
# Builds on chapter 0. The book is *Dive into Deep Learning* (D2L), section 11.1.

# %% [markdown] slideshow={"slide_type": "notes"}
# 35 minutes, votes included. Not in the plan is the view 'Walk, and turn the temperature', the last
# of its column, so the right arrow passes over it. After 21 minutes you should be at 'Where
# queries, keys and values come from'. Behind? Pass over the four kinds of weights, and come to them
# with chapter 6. The slides after the summary are for questions. Homework: exercises 1.1, 1.2 and
# 1.5.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings

import matplotlib.pyplot as plt
import torch
from ipywidgets import FloatLogSlider
from matplotlib.patches import Polygon

from d2l_attention.views import Player, State, explore, grid, schematic
from d2l_attention.views.palette import GROUND, KEY, OUTPUT, QUERY, VALUE, WEIGHT
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
# The idea became known through translation. In 2014 a network squeezed the whole sentence into one
# vector. Bahdanau, Cho and Bengio (2015) let theirs look back at all words of the sentence each
# time it wrote a new one, as our translator in chapter 5 will.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask before you show the answer. Expect 'cut or pad' and 'add the words up'; divided
# by their number, the sum is attention with equal weights. Then tell the story: in 2014 one vector
# had to carry the whole sentence, and in 2015 Bahdanau, Cho and Bengio let the translator look back
# at all words at each step.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four weather stations and a walker
#
# We begin with numbers that fit on a map. Four stations measure the wind, where $(10, 2)$ means 10
# km/h to the east and 2 km/h to the north. What is the wind at the circle, where *you* are?

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
ax.scatter(*query.T, s=160, marker="o", color=QUERY, zorder=3)
for sign, (x, y) in zip(["you", *signs], [*query.tolist(), *keys.tolist()], strict=True):
    ax.annotate(sign, (x, y), xytext=(0, -20), textcoords="offset points", ha="center")
ax.set(xlabel="km east", ylabel="km north", xlim=(-1.3, 6.3), ylim=(-0.9, 4.9), aspect="equal")
ax.set_title("Four winds are known, but not the wind where you are")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a map with four squares, each with an arrow for its wind and the two numbers of it:
# Harbour (10, 2), Hill (6, 9), Forest (2, 5), Lake (9, 4). A circle marks you, between Harbour
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
# In the code's comments, Q and K count queries and keys, while D and V are the sizes of a key and
# of a value.


# %% slideshow={"slide_type": "-"} tags=["build"]
def distance_score(queries, keys):
    differences = queries[:, None] - keys  # None adds an axis: (Q, 1, D) - (K, D) -> (Q, K, D)
    return -differences.square().sum(dim=-1) / 2  # (Q, K): a row for each query


# %% slideshow={"slide_type": "fragment"}
scores = distance_score(query, keys)  # (1, 4)
print(names, scores)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the softmax is on show, ask how to turn these scores into weights, although
# they are negative. 'Take the absolute value' and 'square them' come first, but then the farthest
# station would count most.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The softmax
#
# How do we turn these scores into weights, which should be non-negative and sum to one? First, the
# exponential makes every score positive and keeps their order. Then we divide by the sum of all
# exponentials. These two steps together are the **softmax**:
#
# $$\alpha_j = \frac{e^{a_j}}{\sum_{l} e^{a_l}}$$
#
# Since all scores are in the sum, a weight depends on *all* keys: if a fifth station opened, the
# other four would lose some of theirs.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Take the scores $0$ and $\ln 3$, for example. Their exponentials are $1$ and $3$, which sum to
# $4$, so the weights are $\tfrac14$ and $\tfrac34$.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room compute the two weights before you show them. Some compute ln 3 = 1.1
# first, which is not needed. The weighted sum with these weights is on the board already.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The wind where you are
#
# These three lines turn the four scores into an answer:

# %% slideshow={"slide_type": "-"}
positive = scores.exp()  # (1, 4)
weights = positive / positive.sum(dim=-1, keepdim=True)  # (1, 4), of sum one
wind = weights @ values  # (1, 4) @ (4, 2) -> (1, 2)
print(weights, wind)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the run: which two stations get the same weight, and why?

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Steps through the three lines, number by number
place, right = {"x": 2.7, "width": 1.4}, {"x": 8.5, "width": 1.4}
stations = grid(names, y=0, kind="head", **place)
upper = stations + grid(scores, y=1, name="score", label="scores", **place)
raised = grid(positive, y=2, name="e", origin="score", label="exponentials", digits=3, **place)
total = grid("sum", y=1, kind="head", **right)
total += grid(positive.sum(), y=2, name="sum", origin="e", digits=3, **right)
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
    "The sum of the products is the wind where you are": "It is made of the four winds alone.",
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
# and half Lake, you took a weighted sum as well.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Attention pooling in one formula
#
# What did we do? For any query and any database of $K$ pairs, **attention pooling** gives every
# pair a weight and adds up the weighted values:
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
# 1½ minutes. Ask which of these are numbers and which are vectors. Many take the weight for a
# vector, but it is one number, and the answer is as wide as a value. What changes in the formula
# when a station closes? (Only the number of terms.) The book calls the database D, and its number
# of pairs m.

# %% [markdown] slideshow={"slide_type": "skip"}
# The same formula serves a database of any size. Nothing has to be compressed in advance, because
# all pairs are still there when the query comes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four kinds of weights
#
# A softmax gives weights that are non-negative and sum to one. To see what that is good for, let us
# choose weights for the four winds by hand:
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
hull = values[[0, 3, 1, 2]]  # the corners, one after the other
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
# is larger, and a ring is the answer. Shading shows where it can lie: with weights that are only
# non-negative in a cone, where the ring is beyond every wind; with weights that also sum to one in
# the hull of the winds; with a single 1 on one of the four, and with equal weights on their
# average, each marked by a disc.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Only with the first, where the shaded region of possible answers is a **cone** without end.
# Softmax weights also sum to one, which keeps the answer in the **convex hull** of the values, as
# if inside a rubber band stretched around them. The reason is that a weighted average of two points
# lies between them, and if you average this with a third, you stay inside. Negative weights can
# lead outside, even if they sum to one: 2 for the Hill and $-1$ for the Forest give $(10, 13)$. The
# last two kinds are a lookup and **average pooling**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Vote before the picture: only the first can. Then say the names: cone, convex hull (a
# rubber band around the dots), lookup, average. Ask for 2 at the Hill and −1 at the Forest, which
# sum to one as well, and draw the line from the Forest through the Hill: the answer (10, 13) is
# beyond the Hill.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Temperature: between a lookup and an average
#
# How do we get from a lookup to an average? We divide all scores by a number $T > 0$, the
# **temperature**, before the softmax.
#
# **Predict.** At $T = 1$, the scores $0$ and $\ln 3$ have the weights $\tfrac14$ and $\tfrac34$.
# What are the weights at $T = \tfrac12$?

# %% slideshow={"slide_type": "fragment"}
two_scores = torch.tensor([[1.0, 3.0]]).log()  # 0 and ln 3
for T in (0.5, 0.2, 100.0):
    print(f"T = {T:5.1f}", (two_scores / T).softmax(dim=-1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# They are 0.1 and 0.9, because dividing by $\tfrac12$ doubles the scores, which squares their
# exponentials: $1$ and $3$ become $1$ and $9$. A low temperature drives the weights apart, until
# the larger score takes nearly everything, and a high one brings them together.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes, one of them in pairs. Expect ⅛ and ⅜, or 'the same' from those who remember that a
# common factor cancels; but here it is a factor of the scores, not of the exponentials.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Walk, and turn the temperature
#
# Walk over the map yourself, starting near the Forest, and turn the temperature. At $T = 0.1$ the
# Forest takes everything. Then walk to $(2, 1.5)$, equally far from Harbour, Hill and Lake.
# At $T = 0.1$ the Forest has lost its weight, and each of the three gets a third, because equal
# scores stay equal. At $T = 100$ the wind is near the average wherever you walk, and at any $T$ it
# stays in the shaded hull on the right.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the map, the weights and the wind for a query and a temperature that you choose
hull = values[[0, 3, 1, 2]]  # the corners, one after the other


def walk(figure, east=0.5, north=2.8, temperature=1.0):
    here = torch.tensor([[east, north]])
    weights = (distance_score(here, keys) / temperature).softmax(dim=-1)
    wind = weights @ values
    country, shares, sky = figure.subplots(1, 3)
    country.scatter(*keys.T, s=40 + 600 * weights[0], color=KEY, marker="s", alpha=0.8)
    country.scatter(east, north, s=160, marker="o", color=QUERY)
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
    sky.set(title="your wind stays in the hull", xlabel="km/h east", ylabel="km/h north")
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
# *Figure: an interactive view with three panels. Left, the map with the four stations and a circle
# for you; middle, the four weights as bars; right, the plane of winds with the answer as a ring
# in the shaded hull of the four winds.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; two minutes. Before you walk to (2, 1.5), vote: does one station take everything
# there as well? Expect 'yes', but three equal scores stay equal, and each gets a third. On a slide
# each slider has five stops, those of the text among them.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# You now have the whole idea. The rest makes the code safe for large scores, lets words attend to
# each other, and trains their queries.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Attention pooling without overflow
#
# Do our three lines work for large scores as well?
#
# **Predict.** Add 100 to both scores, $0$ and $\ln 3$. What happens to the weights?

# %% slideshow={"slide_type": "fragment"}
print("before   ", two_scores.softmax(dim=-1), " after", (two_scores + 100).softmax(dim=-1))
exponentials = (two_scores + 100).exp()
print("our lines", exponentials / exponentials.sum(dim=-1, keepdim=True))

# %% [markdown] slideshow={"slide_type": "fragment"}
# PyTorch's weights stay the same: every exponential is multiplied by $e^{100}$, which cancels,
# since $e^{a + 100} = e^{100} e^a$. So the softmax depends only on the *differences* between
# scores. Our three lines, however, compute $e^{100}$ itself, which float32 stores as infinity, and
# infinity divided by infinity is NaN.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. One minute in pairs. Expect three votes: 'the larger one takes all', 'nothing', and
# 'it breaks'. On paper and in PyTorch's `softmax` nothing changes; our three lines break. Before
# the next slide ask how `softmax` avoids the NaN.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Subtract the largest score
#
# Since only differences count, we may first subtract the largest score of each row. Then every
# exponential is at most 1:


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
# A word has no location on a map, so where does its query come from, and its key and its value? In
# most networks with attention, a word is a vector $x$, and three learned matrices turn this vector
# into all three:
#
# $$q = W_q\, x, \qquad k = W_k\, x, \qquad v = W_v\, x .$$
#
# One set of three matrices serves every word of a sentence of any length.

# %% [markdown] slideshow={"slide_type": "fragment"}
# When the words of a sentence attend to each other in this way, it is called **self-attention**.
# Let us choose such matrices by hand for 'angry dogs bark', where each word leaves something open
# that another word knows. *Dogs* leaves open whether they may be stroked, which the adjective
# knows. Whether it is 'bark' or 'barks' depends on the number of the noun. In many languages the
# adjective's ending does as well, so here *angry* asks for the same. A word is five numbers. Under
# *plural*, $1$ means plural, $-1$ singular, and $0$ neither; under *angry*, $-1$ means gentle.
#
# | word | adjective | noun | verb | plural | angry |
# |---|---|---|---|---|---|
# | angry | 1 | 0 | 0 | 0 | 1 |
# | dogs | 0 | 1 | 0 | 1 | 0 |
# | bark | 0 | 0 | 1 | 0 | 0 |

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the table, ask what each of the three words would like to know, and from which
# other word: each answer becomes a row of the next slide's matrices.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Each matrix has five columns, one for each number of a word, in the order of the table:
#
# $$W_q = \begin{pmatrix} 0&3&0&0&0 \\ 3&0&3&0&0 \end{pmatrix} \quad
#   W_k = \begin{pmatrix} 1&0&0&0&0 \\ 0&1&0&0&0 \end{pmatrix} \quad
#   W_v = \begin{pmatrix} 0&0&0&1&0 \\ 0&0&0&0&1 \end{pmatrix}$$
#
# - The **key** says what a word is: its first entry is 1 for an adjective, its second for a noun.
# - The **query** says which of these two a word looks for: its first entry will meet the first of a
#   key. By the first row of $W_q$, a noun looks for an adjective; by the second, an adjective and a
#   verb look for a noun.
# - The **value** is what a word knows, *plural* and *angry*.
#
# For *dogs*, whose vector is $x = (0, 1, 0, 1, 0)$, this gives $q = (3, 0)$, $k = (0, 1)$ and
# $v = (1, 0)$.

# %% slideshow={"slide_type": "subslide"}
words = torch.tensor([[1.0, 0, 0, 0, 1], [0, 1, 0, 1, 0], [0, 0, 1, 0, 0]])  # angry, dogs, bark
W_q = torch.tensor([[0.0, 3, 0, 0, 0], [3, 0, 3, 0, 0]])
W_k = torch.tensor([[1.0, 0, 0, 0, 0], [0, 1, 0, 0, 0]])
W_v = torch.tensor([[0.0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
print("queries", (words @ W_q.T).tolist())  # each row is a word, so one product makes them all

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The bridge to the rest of the course. Do *dogs* on the board, and let the room do the
# query and the key of *bark*, (0, 3) and (0, 0): nobody looks for a verb. A network has hundreds of
# numbers per word, and nobody tells it what they mean.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## All queries in one matrix product
#
# How well does a key fit a query? On the map we measured a distance. For words we take the score of
# most networks, the **dot product** $q \cdot k$, which multiplies two vectors entry by entry and
# adds up. Minus half the squared distance is $q \cdot k$ less $\tfrac12 \lVert q\rVert^2$ and
# $\tfrac12 \lVert k\rVert^2$. So where all keys are equally long, both scores give the same weights
# (chapter 3).
#
# The query of *dogs*, $(3, 0)$, has the dot product $3 \cdot 1 + 0 \cdot 0 = 3$ with the key of
# *angry*, $(1, 0)$, and 0 with the other two. The exponentials are $e^3$, about 20, and twice 1, so
# the weights are about $\tfrac{20}{22}$, $\tfrac{1}{22}$ and $\tfrac{1}{22}$:

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws how words become queries, keys and values, and these an answer
schematic("words attend")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: Boxes and arrows. The words angry, dogs and bark, (3, 5), go through the matrices W_q,
# W_k and W_v. The word dogs is followed: its query (3, 0) meets the keys of all three words, (1,
# 0), (0, 1) and (0, 0), in dot products, which give the scores 3, 0 and 0. The softmax turns them
# into the weights 0.91, 0.05 and 0.05. A weighted sum of all three values, (0, 1), (1, 0) and (0,
# 0), gives the output, 0.05 and 0.91.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Question.** The query of *bark* is $(0, 3)$. What does it receive for *plural* and *angry*?


# %% slideshow={"slide_type": "fragment"}
def words_attend(words, W_q, W_k):
    queries, keys, values = words @ W_q.T, words @ W_k.T, words @ W_v.T
    return pool(queries @ keys.mT, values)  # mT transposes: all dot products at once


answers, word_weights = words_attend(words, W_q, W_k)
print("angry, dogs and bark receive\n", answers)

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the weights of the three words as a heat map
figure, ax = plt.subplots(figsize=(6.4, 3.4))
heatmap(ax, word_weights, ["angry", "dogs", "bark"], ["angry", "dogs", "bark"], numbers=True)
ax.set_title("Each word attends to the one that knows what it leaves open")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map with three rows, the queries of angry, dogs and bark, and three columns, their
# keys. In the rows of angry and bark, dogs has 0.91; in the row of dogs, angry has 0.91. All other
# weights are 0.05.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Bark* receives 0.91 for *plural*, which is positive, so it takes no s. *Angry* asks the same and
# receives the same. *Dogs* receives 0.91 for *angry*, so do not stroke them. A network adds what a
# word receives to its vector, and the next layer goes on from there (chapter 8). The 3 in $W_q$
# makes this weight so large: with 1, it would be only $\tfrac{e}{e + 2} = 0.58$. Whether a large
# weight also *explains* a trained network is a question for chapters 5, 8 and 13.

# %% [markdown] slideshow={"slide_type": "notes"}
# 3½ minutes. Follow *dogs* through the diagram, and let the room do the row of *bark* on the board.
# Go slowly, because every later chapter shows such a map. Do the columns sum to one? (No: nobody
# sees to it. The verb receives almost no attention, because nobody asks for a verb.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From 'angry' to 'gentle': only a value changes
#
# Let us replace *angry* by *gentle*, which has $-1$ under *angry*. What does *dogs* receive now?

# %% slideshow={"slide_type": "fragment"}
gentle = torch.tensor([[1.0, 0, 0, 0, -1], [0, 1, 0, 1, 0], [0, 0, 1, 0, 0]])
gentle_answers, gentle_weights = words_attend(gentle, W_q, W_k)
print("dogs receive", gentle_answers[1], "weights as before:", gentle_weights.equal(word_weights))

# %% [markdown] slideshow={"slide_type": "fragment"}
# No query and no key has changed, so the weights are those of the heat map, but the answer turns
# from 0.91 to $-0.91$: these dogs may be stroked. This is the difference between a key and a value.
# Query and keys decide how much a word counts, while its value decides what it contributes.
#
# The order of the words makes no difference, because a sum does not depend on the order of its
# terms. To attention pooling, 'dog bites man' and 'man bites dog' are the same database, and
# chapter 7 shows how a network can still tell them apart.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Checks that each word receives the same backwards, and from PyTorch
backwards, _ = words_attend(words.flip(0), W_q, W_k)
torch.testing.assert_close(backwards.flip(0), answers)
print("checked: in 'bark dogs angry', each word receives the same")
queries_keys_values = [words @ W.T for W in (W_q, W_k, W_v)]
by_pytorch = torch.nn.functional.scaled_dot_product_attention(*queries_keys_values, scale=1.0)
torch.testing.assert_close(by_pytorch, answers)
print("checked: so does PyTorch's scaled_dot_product_attention(q, k, v, scale=1)")

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. This is the difference between a key and a value. Then ask: which two sentences have
# the same words and different meanings?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why attention can learn
#
# We chose $W_q$ by hand, but a network has to find its own. Training nudges each number so that the
# error falls, and so it must know what a small move of a query does to the answer. If we merely
# copied the value with the *nearest* key, a small move would usually change nothing, and sometimes
# make the answer jump. Attention responds to every small step with a small change.

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
# up towards 8. Both moves have the same size, because weight times distance is the same:
# $\tfrac14 \cdot 3 = \tfrac34 \cdot 1$. Weight times signed distance is the slope, which says how
# far the output moves per unit of the score:
#
# $$\frac{\partial o}{\partial a_j} = \alpha_j\,(v_j - o)$$

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes, one of them for the question why a lookup cannot learn. Let the room say both
# directions before the numbers. Which two things does a score change? (Its own exponential, and the
# sum.) The slopes of two scores are opposite, because nothing changes when both rise together.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train a query matrix
#
# Can training find a $W_q$ for our words by following such slopes? It is given $W_k$, $W_v$ and
# three sentences with the answers that we wish for: adjective and verb should receive the noun's
# number, and the noun whether it is angry. Nobody says which word should look at which. A fourth
# sentence, 'gentle dog barks', is kept for the test. The chain rule carries the slopes back to
# $W_q$, which Adam, a form of gradient descent, moves in small steps so that the error falls.


# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
dog = torch.tensor([[1.0, 0, 0, 0, 1], [0, 1, 0, -1, 0], [0, 0, 1, 0, 0]])  # angry dog barks
sentences = torch.stack([words, gentle, dog])  # (3, 3, 5): sentences, words, numbers
wished = torch.tensor(  # (3, 3, 2): plural and angry, for adjective, noun and verb
    [[[1.0, 0], [0, 1], [1, 0]], [[1, 0], [0, -1], [1, 0]], [[-1, 0], [0, 1], [-1, 0]]]
)


def train(seed, steps=200):
    W_q = 0.5 * torch.randn(2, 5, generator=torch.Generator().manual_seed(seed))
    optimizer = torch.optim.Adam([W_q.requires_grad_()], lr=0.1)
    for _ in range(steps):
        answers, _ = words_attend(sentences, W_q, W_k)
        loss = (answers - wished).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return W_q.detach()


print("learned W_q\n", train(seed=0).round(decimals=1))

# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
# Draws the weights in the new sentence before and after training, and trains in twenty starts
test = torch.tensor([[1.0, 0, 0, 0, -1], [0, 1, 0, -1, 0], [0, 0, 1, 0, 0]])
test_words = ["gentle", "dog", "barks"]
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4))
for ax, steps in zip(axes, (0, 200), strict=True):
    _, shown = words_attend(test, train(seed=0, steps=steps), W_k)
    heatmap(ax, shown, test_words, test_words, vmax=1.0, numbers=True)
    ax.set_title(f"after {steps} steps" if steps else "before training")
figure.suptitle("In a sentence that training never saw, each word finds the one that it needs")
plt.show()

found = 0
for seed in range(20):
    _, in_test = words_attend(test, train(seed), W_k)
    found += bool(in_test[[0, 1, 2], [1, 0, 1]].min() > 0.9)
print(f"checked: in {found} of 20 starts each word gives more than 0.9 to the one that it needs")
assert found == 20

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps of the weights in 'gentle dog barks'. Before training they show no pattern;
# after 200 steps gentle and barks attend to dog, and dog attends to gentle, each with more than
# 0.9.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# In the learned $W_q$, the large positive entries are where we wrote a 3, and in the first three
# columns our zeros have become negative, which turns a query away from the word that does not help.
# The new sentence comes out right in all of 20 random starts. The task is easy, because $W_k$ and
# $W_v$ were right from the start. From chapter 5 on, a translator learns all its matrices, from
# many more sentences.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Ask what training is told: sentences and wished answers, but not who should look at
# whom. Then ask where the slope comes from: loss, output, scores, query, matrix.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention compares a query with keys and returns a weighted sum of values,
#   $\sum_j \alpha_j v_j$, for any number of pairs in any order.
# - Learned matrices turn each word into a query, a key and a value. Most networks take the dot
#   product of query and key as the score.
# - Score $j$ pulls the output $o$ with the slope $\alpha_j (v_j - o)$. Following such slopes,
#   training found a query matrix that was right for an unseen sentence in all 20 starts of an easy
#   task.
# - Softmax weights depend only on differences between scores. They keep the answer in the convex
#   hull of the values.
# - A low temperature leads to a lookup, if one score is the largest, and a high one to an average.
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
# *3 minutes.* Why is the slope $\alpha_j (v_j - o)$? When score $j$ rises by a small $\varepsilon$,
# its exponential grows by nearly the factor $1 + \varepsilon$, which adds
# $\varepsilon\,\alpha_j v_j$ to the output. But then the weights sum to
# $1 + \varepsilon\,\alpha_j$, and dividing by this sum takes nearly $\varepsilon\,\alpha_j o$ away.
#
# On the map, a slope has two numbers, for east and north. Autograd finds the same slopes, and
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

# %% [markdown] slideshow={"slide_type": "skip"}
# D2L says that the gradient of the softmax never vanishes. On paper this is true with two keys or
# more, because every weight is then above 0 and below 1, so that a slope is zero only where a value
# already equals the output. But it can become tiny. Where one weight is nearly 1, the output nearly
# equals that value, and all other weights are nearly 0, so every slope is close to zero. Chapter 3
# shows how easily this happens, and what the square root of $d$ does about it.

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
# - The stations, winds and dogs are made up.
