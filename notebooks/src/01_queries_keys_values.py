# %% [markdown] slideshow={"slide_type": "slide"}
# # 1 · Queries, keys and values
#
# **You will** answer a question from a database that does not hold the answer, see why
# weights that sum to one are safe, and find the slope that lets attention learn.
#
# About 35 minutes, and 43 for the exercises. Builds on chapter 0. The book (D2L): section 11.1.

# %% slideshow={"slide_type": "skip"}
import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Polygon

from d2l_attention import attention_pooling, check_shape, gaussian_score, show_source
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four weather stations and a walker
#
# Four stations measure the wind. Each has a place on the map and a reading.
# You stand somewhere between them, with no instrument. What is the wind where *you* are?

# %% slideshow={"slide_type": "-"}
names = ["Harbour", "Hill", "Forest", "Lake"]
places = torch.tensor([[0.0, 0.0], [4.0, 3.0], [1.0, 4.0], [4.0, 0.0]])  # km east, north
winds = torch.tensor([[10.0, 2.0], [6.0, 9.0], [2.0, 5.0], [9.0, 4.0]])  # km/h east, north
you = torch.tensor([[2.0, 1.0]])

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7, 4.5))
ax.scatter(*places.T, s=90, color="tab:blue", zorder=3)
arrows = dict(angles="xy", scale_units="xy", scale=8, width=0.006)
ax.quiver(*places.T, *winds.T, color="tab:blue", **arrows)
ax.scatter(*you.T, s=160, marker="*", color="black", zorder=3)
signs = [
    f"{name} ({east:.0f}, {north:.0f})"
    for name, (east, north) in zip(names, winds.tolist(), strict=True)
]
for sign, (x, y) in zip(["you", *signs], [*you.tolist(), *places.tolist()], strict=True):
    ax.annotate(sign, (x, y), xytext=(0, -18), textcoords="offset points", ha="center")
ax.set(xlabel="km east", ylabel="km north", xlim=(-1, 6), ylim=(-0.8, 5.5))
ax.set_title("Four answers, none of them for the place where you stand")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a map with four blue dots, each with an arrow for its wind and the two numbers of it:
# Harbour (10, 2), Hill (6, 9), Forest (2, 5), Lake (9, 4). A black star marks you, between Harbour
# and Lake, with no arrow.*

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** How would *you* guess the wind at the star? Write two numbers down, east and north,
# before you go on.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Collect guesses on the board and keep them; expect copies of the Harbour or the Lake,
# and half of each. (8.9, 3.7) comes out under 'From scores to weights'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Your place is the **query**. The places of the stations are the **keys**. Their readings
# are the **values**. Keys and values come in pairs: that is all a database is.

# %% slideshow={"slide_type": "-"}
check_shape(places, (4, 2))  # 4 keys of size 2
check_shape(winds, (4, 2))  # 4 values of size 2
check_shape(you, (1, 2))  # 1 query of size 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# Chapter 0's strict dictionary has nothing for your place: one step from the Harbour is one step
# too far.

# %% slideshow={"slide_type": "fragment"}
pairs = zip(places.tolist(), winds.tolist(), strict=True)
dictionary = {tuple(place): wind for place, wind in pairs}
print("at the Harbour:", dictionary[0.0, 0.0])
print("where you are: ", dictionary.get((2.0, 1.0)))

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A dictionary compares keys for equality. The whole chapter is the step from 'equal' to 'similar'.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The one formula
#
# Attention never says 'no such key'. It weighs **all** pairs and adds them up:
#
# $$\operatorname{Attention}(q, \mathcal{D}) = \sum_{i=1}^{m} \alpha(q, k_i)\, v_i$$
#
# $\mathcal{D}$ is the database of $m$ pairs $(k_i, v_i)$. The number $\alpha(q, k_i)$ is the
# **attention weight**: how much pair $i$ matters to this query. The query meets the keys
# only; what comes out is made of values only. The sum is called **attention pooling**.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute: which of these are numbers, which are vectors? Many take the weight for a vector. It
# is one number, the value is a vector, so the answer has the size of a value. The keys do not come
# out.

# %% [markdown] slideshow={"slide_type": "subslide"}
# By hand first. Two stations, weights $\tfrac14$ and $\tfrac34$, winds $(4, 0)$ and $(0, 8)$.

# %% [markdown] slideshow={"slide_type": "fragment"}
# $$\tfrac14\,(4, 0) + \tfrac34\,(0, 8) = (1, 6).$$

# %% slideshow={"slide_type": "fragment"}
weights = torch.tensor([[0.25, 0.75]])
values = torch.tensor([[4.0, 0.0], [0.0, 8.0]])
print((weights @ values).tolist())
assert (weights @ values).tolist() == [[1.0, 6.0]]

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let the room do the sum before you show it: half a minute. Ask which letter of the formula each
# number is.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four kinds of weights
#
# The formula says nothing yet about where weights come from. Try four kinds on our stations,
# and watch where the answer can lie.
#
# Two words for it. Stretch a rubber band round the four winds: inside is their **convex hull**.
# Draw rays from 0 through the hull: that is their **cone**. (Not their span: a weight is never
# negative here.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four sets of weights

# %% slideshow={"slide_type": "-"}
kinds = {
    "cone: not negative": torch.tensor([0.3, 0.9, 0.2, 0.8]),
    "hull: sum 1 as well": torch.tensor([0.1, 0.5, 0.1, 0.3]),
    "lookup: a single 1": torch.tensor([0.0, 1.0, 0.0, 0.0]),
    "mean: all equal": torch.full((4,), 0.25),
}
for kind, weights in kinds.items():
    east, north = (weights @ winds).tolist()
    print(f"{kind:20}  sum {weights.sum():.1f}   wind ({east:5.2f}, {north:5.2f})")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 4, figsize=(13, 3.9), sharex=True, sharey=True)
order = [0, 3, 1, 2]  # the corners of the hull, one after the other
cone = torch.stack([torch.zeros(2), 9 * winds[0], 9 * winds[2]])
titles = ["Cone: any length", "Hull: never too long", "Lookup: one reading", "Mean: no question"]
for ax, title, weights in zip(axes, titles, kinds.values(), strict=True):
    region = cone if title.startswith("Cone") else winds[order]
    ax.add_patch(Polygon(region, color="tab:blue", alpha=0.15))
    ax.scatter(*winds.T, s=40 + 300 * weights, color="tab:blue")
    for name, wind in zip(names, winds.tolist(), strict=True):
        ax.annotate(name[:2], wind, xytext=(-8, 10), textcoords="offset points", fontsize=12)
    ax.scatter(*(weights @ winds), s=140, marker="X", color="black", zorder=3)
    ax.set(title=title, xlabel="wind east, km/h", xlim=(0, 22), ylim=(0, 19))
axes[0].set_ylabel("wind north, km/h")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four panels in the plane of winds. Blue dots with the stations' first two letters are
# the four readings, larger where the weight is larger; a black cross is the answer. With weights
# that are only not negative it lies in a cone, beyond every reading; with weights that sum to one
# inside the hull of the readings; with a single 1 on a reading; with equal weights at their mean.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Read the four pictures from left to right.
#
# - **Not negative:** the answer lies in the *cone* of the values. It can be any length.
# - **Sum to one as well:** it lies in their *convex hull*, and is never longer than the
#   longest value.
# - **A single 1:** an ordinary database lookup.
# - **All equal:** average pooling. The query no longer matters.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Before the list: which of the four pictures would you trust with your sailing boat, and why? Wait
# for 'not the first: no station measured that much'. That is the hull.

# %% [markdown] slideshow={"slide_type": "subslide"}
# 'Never longer than the longest value' is the triangle inequality:
#
# $$\Bigl\lVert\sum_i \alpha_i v_i\Bigr\rVert \le \sum_i \alpha_i \lVert v_i\rVert
#   \le \max_i \lVert v_i\rVert$$
#
# The last step needs weights that sum to one. Why care? Attention is applied many times, one after
# the other. An answer that may be longer than what went in can grow every time; inside the
# hull it cannot.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
torch.manual_seed(0)
random_weights = torch.rand(1000, 4)
random_weights = random_weights / random_weights.sum(dim=1, keepdim=True)
answers = random_weights @ winds

longest = winds.norm(dim=1).max()
assert (answers.norm(dim=1) <= longest).all()
assert (kinds["cone: not negative"] @ winds).norm() > longest
print(f"longest reading: {longest:.1f}")
print(f"1000 random weights that sum to one: longest answer {answers.norm(dim=1).max():.1f}")
in_cone = (kinds["cone: not negative"] @ winds).norm()
print(f"the first picture's weights, of sum {kinds['cone: not negative'].sum():.1f}: {in_cone:.1f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# It is the first reason for weights that sum to one. A good student objects that a real network
# multiplies by matrices between its attentions. Right: those may still make numbers grow.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From scores to weights
#
# How much does station $i$ matter? Start with any number that is larger for closer stations,
# its **score** $a(q, k_i)$. Here: minus half the squared distance. (Its exponential is the bell
# curve, the Gaussian, so the package calls it `gaussian_score`.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two steps make scores weights. Take $\exp$: every number becomes positive, the order stays, and
# differences become ratios. Then divide by the sum. Together that is the **softmax**:
#
# $$\alpha(q, k_i) = \frac{\exp a(q, k_i)}{\sum_j \exp a(q, k_j)}$$

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask before the second paragraph: these scores are negative, how would you make weights of them?
# 'Take the absolute value' and 'square them' come first: then the farthest station counts most.

# %% [markdown] slideshow={"slide_type": "subslide"}
# By hand: scores $0$ and $\ln 3$. Then $e^0 = 1$ and $e^{\ln 3} = 3$, the sum is 4,
# and the weights are $\tfrac14$ and $\tfrac34$.

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Add 100 to both scores. What happens to the weights?

# %% slideshow={"slide_type": "fragment"}
scores = torch.tensor([1.0, 3.0]).log()
print("scores", [round(s, 3) for s in scores.tolist()])
print("weights", [round(w, 3) for w in scores.softmax(dim=0).tolist()])
print("weights after + 100", [round(w, 3) for w in (scores + 100).softmax(dim=0).tolist()])
by_hand = (scores + 100).exp() / (scores + 100).exp().sum()
print("without subtracting ", by_hand.tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Nothing: $e^{100}$ stands above and below the fraction line. Only *differences* between scores
# count. A computer even needs that: $e^{100}$ is too large for float32, so `softmax` first
# subtracts the largest score, which changes nothing.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute, in pairs. Expect three votes: 'the larger one takes all', 'nothing', and 'it breaks',
# which on a computer is right as well: see the last line. Keep all three on the board.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now the whole thing for the walker, with the package's two functions: a score, then the
# pooling.

# %% slideshow={"slide_type": "fragment"}
scores = gaussian_score(you, places)
wind, weights = attention_pooling(scores, winds)
check_shape(scores, (1, 4))  # 1 query, 4 keys
check_shape(weights, (1, 4))
check_shape(wind, (1, 2))  # 1 query, values of size 2

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
for name, score, weight in zip(names, scores[0].tolist(), weights[0].tolist(), strict=True):
    print(f"{name:8} score {score:6.2f}   weight {weight:.3f}")
print(f"wind where you are: ({wind[0, 0]:.2f}, {wind[0, 1]:.2f}) km/h")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Harbour and Lake are equally far from you: same score, same weight. Hill and Forest are
# farther and still have a say. (Rounded weights may miss 1 in the last digit.)

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7, 4.5))
ax.scatter(*places.T, s=40 + 600 * weights[0], color="tab:blue", zorder=3)
ax.quiver(*places.T, *winds.T, color="tab:blue", **arrows)
ax.quiver(*you.T, *wind.T, color="black", **arrows)
ax.scatter(*you.T, s=160, marker="*", color="black", zorder=3)
signs_now = [f"you ({wind[0, 0]:.1f}, {wind[0, 1]:.1f})", *signs]
for sign, (x, y) in zip(signs_now, [*you.tolist(), *places.tolist()], strict=True):
    ax.annotate(sign, (x, y), xytext=(0, -22), textcoords="offset points", ha="center")
ax.set(xlabel="km east", ylabel="km north", xlim=(-1, 6), ylim=(-0.8, 5.5))
ax.set_title("An answer for a place that has no station")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the map again. Harbour and Lake are now large dots, Hill and Forest small ones, and the
# star has a black arrow of its own, between those of Harbour and Lake, and the numbers (8.9, 3.7).*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Compare with the guesses on the board: who was nearest, and by which rule? Somebody's rule was a
# kind of weights: the nearest station is a lookup, half and half is a mean of two.

# %% [markdown] slideshow={"slide_type": "skip"}
# In two lines, the pooling is `weights = scores.softmax(dim=-1)` and `weights @ values`. The
# package's version adds checks, masks (chapter 4) and dropout (chapter 3). Look for these two
# steps among its last lines; this is the code that ran.

# %% slideshow={"slide_type": "skip"}
show_source(attention_pooling)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Between a lookup and an average
#
# Divide the scores by a **temperature** $T$ before the softmax. (Chapter 0 had the same knob the
# other way round: its sharpness is $1/T$.)
#
# **Predict.** Stand at (2.5, 1.0), nearest to the Lake. What are the four weights as $T \to 0$? As
# $T \to \infty$? And does the *order* of the four stations ever change with $T$?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes, in pairs. The ends are easily guessed; on the order expect two camps. Ask a 'yes' for
# an example, and let a 'no' explain: dividing by a positive number keeps every 'larger than'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four temperatures

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
near_lake = torch.tensor([[2.5, 1.0]])
temperatures = [0.1, 1.0, 10.0, 1000.0]
figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), sharey=True)
for ax, temperature in zip(axes, temperatures, strict=True):
    _, weights = attention_pooling(gaussian_score(near_lake, places) / temperature, winds)
    bars = ax.bar(names, weights[0], color="tab:blue")
    ax.bar_label(bars, fmt="%.2f")
    ax.set(title=f"T = {temperature:g}", ylim=(0, 1.1))
    ax.tick_params(axis="x", rotation=45)
axes[0].set_ylabel("attention weight")
figure.suptitle("Cold attention looks one answer up, hot attention averages them all")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four bar charts of the weights of the four stations at temperatures 0.1, 1, 10 and
# 1000. At 0.1 the Lake has all the weight; at 1000 each station has a quarter.*

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
_, cold = attention_pooling(gaussian_score(near_lake, places) / 0.01, winds)
_, hot = attention_pooling(gaussian_score(near_lake, places) / 1e6, winds)
assert cold.argmax() == names.index("Lake") and cold.max() > 0.999
assert (hot - 0.25).abs().max() < 1e-4

orders = []
for temperature in temperatures[:3]:
    _, weights = attention_pooling(gaussian_score(near_lake, places) / temperature, winds)
    orders.append([names[i] for i in weights[0].argsort(descending=True)])
assert orders[0] == orders[1] == orders[2]
print("the order at every temperature:", ", ".join(orders[0]))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Walk, and turn the temperature
#
# Now you hold the query. Move it east and north; turn the temperature.

# %% [markdown] slideshow={"slide_type": "skip"}
# The dots grow with the weights; on the right is the wind that you get, inside the hull of the
# readings.

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** Stand at (2.5, 1.0). How cold may it get before the second-best station falls below
# 5%? And find the one point on the sliders where three bars stay level, however you turn $T$.


# %% slideshow={"slide_type": "skip"}
def walk(figure, east=2.5, north=1.0, temperature=1.0):
    query = torch.tensor([[east, north]])
    wind, weights = attention_pooling(gaussian_score(query, places) / temperature, winds)
    country, bars, sky = figure.subplots(1, 3)
    country.scatter(*places.T, s=40 + 600 * weights[0], color="tab:blue", alpha=0.8)
    country.scatter(east, north, s=160, marker="*", color="black")
    country.quiver([east], [north], *wind.T, angles="xy", scale_units="xy", scale=8, width=0.01)
    for name, place in zip(names, places.tolist(), strict=True):
        country.annotate(name, place, xytext=(0, 14), textcoords="offset points", ha="center")
    country.set(title="near stations count more", xlim=(-1.5, 5.5), ylim=(-1.5, 5.5))
    country.set(xlabel="km east", ylabel="km north")
    bars.bar_label(bars.bar(names, weights[0], color="tab:blue"), fmt="%.2f")
    bars.set(title="attention weights", ylim=(0, 1.1))
    bars.tick_params(axis="x", rotation=45)
    sky.add_patch(Polygon(winds[order], color="tab:blue", alpha=0.15))
    sky.scatter(*winds.T, s=40 + 300 * weights[0], color="tab:blue")
    for name, place in zip(names, winds.tolist(), strict=True):
        sky.annotate(name, place, xytext=(0, 12), textcoords="offset points", ha="center")
    sky.scatter(*wind[0], s=140, marker="X", color="black", zorder=3)
    sky.set(title="your wind stays in the hull", xlabel="km/h east", ylabel="km/h north")
    sky.set(xlim=(0, 12), ylim=(0, 11))


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
from ipywidgets import FloatLogSlider

from d2l_attention.views import explore

explore(
    walk,
    figsize=(11, 3.9),
    alt="A map of the stations and you, the four attention weights as bars, your wind in the hull.",
    east=(-1.0, 5.0, 0.1),
    north=(-1.0, 5.0, 0.1),
    temperature=FloatLogSlider(value=1.0, min=-1.5, max=2, step=0.01, readout_format=".2f"),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view with three panels. Left, the map with the four stations and a star
# for you; middle, the four weights as bars; right, the plane of winds with the answer as a cross
# inside the hull.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# On a slide each slider has six stops: enough to show cold, hot and the hull, not to answer. Open
# the cell in JupyterLab for the search, and let somebody call the moves: 'colder, stop'. For the
# second question wait two minutes. The hint: which point is equally far from three stations?
# (The centre of the circle through them.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The two answers

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
for temperature in (0.40, 0.51, 0.60):
    _, weights = attention_pooling(gaussian_score(near_lake, places) / temperature, winds)
    first, second = weights[0].topk(2).values.tolist()
    print(f"T = {temperature:.2f}: best {first:.2f}, second {second:.2f}")

level = gaussian_score(torch.tensor([[2.0, 1.5]]), places)[0]
assert level[0] == level[1] == level[3]  # Harbour, Hill and Lake: 2.5 km each

# %% [markdown] slideshow={"slide_type": "-"}
# About 0.51. And the point is (2.0, 1.5): Harbour, Hill and Lake are each 2.5 km away. Equal scores
# stay equal at any temperature.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What attention does not mind
#
# Three properties that will matter when the database is a sentence.

# %% [markdown] slideshow={"slide_type": "fragment"}
# 1. The **order** of the pairs does not matter. 'Dog bites man' and 'man bites dog' are the same
#    database: a gift and a problem. (Positions, in a later chapter, repair it.)
# 2. The **number** of pairs is free: the same code runs on 4 or 4,000. The answer does change.
# 3. The pairs may **change** at any time. Nothing is trained again, because nothing was trained.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** A fifth station opens 300 m from where you stand. It reports calm air. What happens
# to your wind?


# %% slideshow={"slide_type": "skip"}
def ask(query, keys, values):
    return attention_pooling(gaussian_score(query, keys), values)[0]


shuffled = [2, 0, 3, 1]
assert torch.allclose(ask(you, places, winds), ask(you, places[shuffled], winds[shuffled]))

many_places, many_winds = torch.randn(4000, 2), torch.randn(4000, 2)
check_shape(ask(you, many_places, many_winds), (1, 2))

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
more_places = torch.cat([places, torch.tensor([[2.0, 1.3]])])
more_winds = torch.cat([winds, torch.zeros(1, 2)])
print(f"speed with 4 stations {ask(you, places, winds).norm():.2f} km/h")
print(f"speed with the fifth  {ask(you, more_places, more_winds).norm():.2f} km/h")
_, weights = attention_pooling(gaussian_score(you, more_places), more_winds)
print(f"weight of the fifth   {weights[0, 4]:.2f}")
assert ask(you, more_places, more_winds).norm() < ask(you, places, winds).norm()

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let the room find the example for property 1 before you show the list: which two sentences have
# the same words and different meanings? At the prediction, a show of hands: a fifth less, half, or
# less than half? Expect 'a fifth': one station in five. Weights go by nearness, not by head.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why it can learn
#
# A lookup picks one answer. Move the query a little and the same answer comes back: the gradient
# is zero, so nothing tells a network which way to move. With the softmax every key has a say,
# if a small one, and there is a slope to follow.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Write $s_i$ for the score $a(q, k_i)$, $\alpha_i$ for its weight, $\mathbf o$ for the output.
# Raise score $i$ alone. By the quotient rule its own weight grows at the rate
# $\alpha_i(1 - \alpha_i)$, and every other weight $\alpha_j$ shrinks at the rate
# $\alpha_j \alpha_i$. So the output moves at the rate
#
# $$\frac{\partial \mathbf o}{\partial s_i}
#   = \alpha_i v_i - \alpha_i \sum_j \alpha_j v_j = \alpha_i\,(v_i - \mathbf o).$$

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes, on the board, with two keys. Ask for $\partial \alpha_1 / \partial s_1$ first. Then
# $\partial \alpha_2 / \partial s_1$ needs no calculation: the two weights sum to one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# In words: raising score $i$ pulls the output towards value $i$, with a force of
# $\alpha_i$. All rows at once, one row a score and one column a component of the output, with
# $\alpha$ for the column of all weights:
#
# $$\bigl(\operatorname{diag}(\alpha) - \alpha\,\alpha^\top\bigr)\, V$$
#
# PyTorch finds the same by itself. For the walker:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
scores = gaussian_score(you, places)[0].requires_grad_()
output, weights = attention_pooling(scores[None], winds)
alpha = weights[0].detach()
by_formula = (torch.diag(alpha) - torch.outer(alpha, alpha)) @ winds

by_autograd = torch.stack(
    [torch.autograd.grad(component, scores, retain_graph=True)[0] for component in output[0]], dim=1
)
check_shape(by_formula, (4, 2))  # one row a score, one column a component of the output
assert torch.allclose(by_formula, by_autograd, atol=1e-5)
assert torch.allclose(by_formula, alpha[:, None] * (winds - output.detach()), atol=1e-5)
assert (by_formula != 0).all()
for name, (east, north) in zip(names, by_formula.tolist(), strict=True):
    print(f"{name:8} per unit of its score the wind moves by ({east:5.2f}, {north:5.2f})")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Before the numbers: Harbour and Lake have the same weight. Do they pull equally hard? Wait a
# minute; expect 'yes'. No: the Lake's wind is nearly the output, so $v_i - \mathbf o$ is small.

# %% [markdown] slideshow={"slide_type": "skip"}
# Two fine points, because they return later.
#
# The book says that this gradient never vanishes. *On paper* $e^x$ is never zero, so no weight is,
# and a slope vanishes only where $v_i = \mathbf o$. *In float32* $e^{-104}$ is zero. A key that
# scores 104 below the best gets weight 0 and gradient 0: chapter 3 shows how easily scores get
# that far apart.
#
# And where the gradient is tiny, learning is slow all the same. 'Differentiable' does not
# mean 'easy to train'.

# %% slideshow={"slide_type": "skip"}
lookup_scores = torch.tensor([0.0, 2.0, 1.0, -1.0], requires_grad=True)
hard = torch.nn.functional.one_hot(lookup_scores.argmax(), 4).float()
assert not (hard @ winds).requires_grad  # a lookup passes no gradient to its scores at all

far_apart = torch.tensor([0.0, -80.0, -110.0]).softmax(dim=0)
assert far_apart[1] > 0 and far_apart[2] == 0
print("weight is 0 at scores 0, -80 and -110:", (far_apart == 0).tolist())

# %% [markdown] slideshow={"slide_type": "slide"}
# ## All walkers at once
#
# Nine people walk from the Harbour to the Hill and each wants the wind. Stack their queries
# as rows: all scores are one matrix, all answers are one matrix product.
#
# $$\underbrace{A}_{9 \times 4}\;\underbrace{V}_{4 \times 2} = \underbrace{O}_{9 \times 2}$$
#
# Row $i$ of $A$ belongs to walker $i$ and sums to one. No row waits for another: that is why
# attention runs well on hardware that does thousands of multiplications at once.

# %% slideshow={"slide_type": "fragment"}
walkers = torch.linspace(0, 1, 9)[:, None] * torch.tensor([[4.0, 3.0]])
check_shape(walkers, (9, 2))
winds_on_the_way, weights = attention_pooling(gaussian_score(walkers, places), winds)
check_shape(weights, (9, 4))
check_shape(winds_on_the_way, (9, 2))

# %% slideshow={"slide_type": "skip"}
one_by_one = torch.cat([ask(walker[None], places, winds) for walker in walkers])
assert torch.allclose(winds_on_the_way, one_by_one, atol=1e-6)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The weights of nine walkers

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7, 5))
labels = [f"{5 * step / 8:.1f} km" for step in range(9)]
heatmap(ax, weights, labels, names, numbers=True, vmax=1.0)
ax.set(ylabel="query: walked so far", xlabel="key: station")
ax.set_title("Attention hands over from the Harbour to the Hill")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map with nine rows, from 0 to 5 km walked, and four columns of stations.
# In the top row Harbour holds nearly all the weight, in the bottom row Hill; the dark cells
# pass from one to the other, with some weight on Lake and Forest on the way.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Half-way, at 2.5 km, stands (2.0, 1.5), the point where three bars stayed level: three stations
# share, 0.28 each. And 0.00 is rounded: at the Harbour the Lake still has 0.0003.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Practise reading heat maps here, slowly; every later chapter shows such a picture. Ask: which
# column would the Lake's closing remove, and what would happen to the rest of each row? (They grow
# to sum to one again.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A query meets keys; the answer is made of values: $\sum_i \alpha(q, k_i)\, v_i$.
# - Weights that are not negative and sum to one keep the answer inside the hull of the values.
# - Softmax turns any scores into such weights. Only differences between scores matter.
# - Temperature leads from lookup (cold) to average (hot).
# - The order of the pairs does not matter and any number will do. Every score has a slope,
#   $\alpha_i(v_i - \mathbf o)$, and all queries are answered by one matrix product.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or wrong, as often as you
# like. `hint("1.1")` helps a little, and a little more each time; `solution("1.1")` shows a
# solution and says why it is right.

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.1** Attention by hand · *easy, 2 minutes* · by hand
#
# One query scores $0$, $0$ and $\ln 2$ on three keys. Their values are $4$, $8$ and $10$. Take the
# softmax of the scores, pool the values, and give the output as a number.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("1.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.2** Write attention pooling · *easy, 5 minutes* · complete a function
#
# Complete `attend`: softmax, then the weighted sum. `scores` is $(Q, K)$, one row a query;
# `values` is $(K, V)$; return the output, $(Q, V)$, in the dtype of the inputs. Scores may be as
# large as 1000. Gradients have to flow to the scores and to the values, so use operations on
# tensors. Watch the axis of the softmax.


# %% slideshow={"slide_type": "skip"}
def attend(scores, values):
    """Attention pooling: scores (Q, K) and values (K, V) -> outputs (Q, V).

    Scores [[0, 0]] make a mean: with the values [[2, 4], [6, 8]] they give [[4, 6]].
    """
    ...


check("1.2", attend)

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.3** One score rises · *easy, 3 minutes* · predict, then measure
#
# Three keys share the attention: each has weight $\tfrac13$. Now the score of the first key rises
# by $\ln 2$; the other two scores stay. Predict the new weight of the first key, then measure it
# with `softmax`. Answer with the weight.

# %% slideshow={"slide_type": "skip"}
answer = None

check("1.3", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.4** Find the temperature · *medium, 8 minutes* · complete a function
#
# Complete `temperature_for`: the positive number by which to divide `scores` so that, after the
# softmax, the best key has the weight `share`, to within 0.001. `scores` is a tensor $(K,)$ with
# one best score, anywhere; scores may be large or small, 1000 or 0.001. `share` is a number between
# $1/K$ and $1$. Return a number. Bisection is fine.


# %% slideshow={"slide_type": "skip"}
def temperature_for(scores, share):
    """The number by which to divide scores (K,) so that the best key's weight is ``share``.

    Divided by 2, the scores [0, 2 ln 3] have the exponentials 1 and 3, so
    `temperature_for(torch.tensor([0.0, 2.1972]), 0.75)` is 2.
    """
    ...


check("1.4", temperature_for)

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.5** The attention that does not listen · *medium, 10 minutes* · find the bug
#
# `all_pairs` should be attention with dot products as scores: every query, $(Q, D)$, against every
# key, $(K, D)$, and with the weights a pooling of the values, $(K, V)$, to outputs $(Q, V)$, in the
# dtype of the inputs and with gradients to all three. It raises no error where $Q = K$, and is
# wrong all the same. Find out what it really gives, and repair it.


# %% slideshow={"slide_type": "skip"}
def all_pairs(queries, keys, values):
    scores = (queries * keys).sum(-1, keepdim=True)
    weights = scores.softmax(dim=-1)
    return weights * values


check("1.5", all_pairs)

# %% [markdown] slideshow={"slide_type": "skip"}
# **1.6** Write the gradient · *hard, 15 minutes* · complete a function
#
# Complete `pooling_gradient`, without autograd: $\partial \mathbf o / \partial \mathbf s$, the
# slope of the output in the *scores* behind the weights. `weights` is $(K,)$, the softmax of the
# scores of one query, and some of them may be 0; `values` is $(K, V)$. Row $i$ of the result,
# $(K, V)$ and of the dtype of the inputs, says how the output moves as score $i$ rises.


# %% slideshow={"slide_type": "skip"}
def pooling_gradient(weights, values):
    """The slope of the output in each score: weights (K,), values (K, V) -> (K, V).

    The weights [0.25, 0.75] and the values [[4], [8]] give [[-0.75], [0.75]].
    """
    ...


check("1.6", pooling_gradient)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, version 1.0.3, section 11.1:
#   <https://d2l.ai/chapter_attention-mechanisms-and-transformers/queries-keys-values.html>.
# - Bahdanau, Cho and Bengio (2015), *Neural Machine Translation by Jointly Learning to Align
#   and Translate*, ICLR, arXiv:1409.0473: the paper that brought attention to translation.
# - Graves, Wayne and Danihelka (2014), *Neural Turing Machines*, arXiv:1410.5401: reading a
#   memory by similarity, with a key strength that multiplies the scores, as a sharpness $1/T$.
# - The stations, places and winds are made up.
