# %% [markdown] slideshow={"slide_type": "slide"}
# # 2 · Attention pooling by similarity
#
# **You will**
# - compute attention weights from distances, by hand and in three lines of code;
# - find the width that makes such weights useful, by trying and by gradient descent;
# - show that the Gaussian kernel is a softmax;
# - read from learned widths which number of a key matters.
#
# Core path: 60 to 90 minutes. Going further: 20. Exercises: 64. Builds on chapter 1. *Dive into
# Deep Learning* (D2L), section 11.2.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes, with votes. Not in the plan is the view 'Turn the width yourself'. It is the last
# slide of its column, so the right arrow passes over it. Do not say beforehand how the training of
# the width ends.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math

import matplotlib.pyplot as plt
import torch
from ipywidgets import FloatLogSlider

import d2l_attention
from d2l_attention.views import explore, schematic
from d2l_attention.views.palette import FAINT, GREY, INK, KEY, OUTPUT, QUERY, VALUE, WEIGHT
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2)
set_style()

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the whole machine, with this chapter's part marked
schematic("whole", here="similarity")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the whole machine in two rows. Above, from left to right: a sentence goes in; its words
# become vectors, to which positions are added; the encoder's blocks read them; the decoder asks the
# encoder; the decoder's blocks write; a sentence comes out. Below is the inside of a block, from
# left to right: queries, keys and values; the similarity of queries and keys, which is marked;
# scores; mask and softmax; the weighted sum of the values. These are attention, and there are
# several of them side by side, the heads. Then add & norm and a network follow.*

# %% [markdown] slideshow={"slide_type": "-"}
# This chapter is about the marked box: how alike are a query and a key?

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Point at the box, and at the weighted sum, which is chapter 1.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# From chapter 1: a database holds pairs of a **key** and a **value**. A **query** gives each pair
# an attention weight. The weights are not negative and sum to one, and the answer is the weighted
# average of the values. With the weights 0.3 and 0.7 and the values 10 and 20 the answer is
# $0.3 \cdot 10 + 0.7 \cdot 20 = 17$.
#
# The **softmax** makes such weights from any scores: take $e$ to the power of each score and divide
# by the sum. Chapter 1 took its scores from distances, and this chapter begins with distances.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What rent do you ask?
#
# You let a flat of **35 m²**. Three flats in the street are let already:
#
# | size | rent |
# |---|---|
# | 20 m² | 400 € |
# | 30 m² | 500 € |
# | 50 m² | 800 € |
#
# **Predict.** What rent do you ask? Write a number down, and say how you found it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Collect four or five numbers with their rules on the board. Expect 575 (the straight
# line from 30 to 50 m²), 500 (the nearest flat) and 567 (the average). Keep the last two: the
# average comes back as a kernel, the nearest flat as a narrow one. 575 cannot: 20 and 50 m² are
# equally far, so they weigh the same, and at most a third each if nearer counts at least as much:
# 567 at most.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Similar sizes, averaged rents
#
# You compared the **sizes** to decide which flats matter. Then you mixed their **rents**. So 35 m²
# is the query, the known sizes are the keys, and the rents are the values. Here is one rule for
# 'similar': 1 at distance 0, and then in a straight line to 0 at a distance of 20 m².

# %% [markdown] slideshow={"slide_type": "fragment"}
# | size | distance to 35 | similarity |
# |---|---|---|
# | 20 | 15 | 0.25 |
# | 30 | 5 | 0.75 |
# | 50 | 15 | 0.25 |

# %% [markdown] slideshow={"slide_type": "fragment"}
# A weight is a similarity divided by their sum, 1.25. The weights are 0.2, 0.6 and 0.2.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The rent is $0.2 \cdot 400 + 0.6 \cdot 500 + 0.2 \cdot 800 = 80 + 300 + 160$, so **540 €**. (The
# straight line between the two neighbours says 575 €. Our rule knows only *how far* a size is, not
# on which side.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Three steps: let the room find the similarity of the 30 m² flat, then the weights,
# then the rent.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The formula
#
# A rule that turns a distance into a similarity is called a **kernel**, $s$. With it the
# answer to the query $q$ is
#
# $$\text{answer}(q) = \sum_j \alpha_j\, v_j, \qquad
#   \alpha_j = \frac{s(q - k_j)}{\sum_l s(q - k_l)}$$
#
# Nadaraya and Watson published this formula in 1964. It is attention pooling. In code it is three
# lines:


# %% slideshow={"slide_type": "-"} tags=["build"]
def smooth(x_train, y_train, x_val, kernel):  # keys (K,), values (K,), queries (Q,)
    similarity = kernel(x_val[:, None] - x_train)  # (Q, K)
    weights = similarity / similarity.sum(dim=1, keepdim=True)  # each row sums to one
    return weights @ y_train, weights  # (Q,), (Q, K)


# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Ask over which axis the sum goes: over the keys, because the weights of one query sum
# to one. To sum over the queries is the bug of exercise 2.3.


# %% slideshow={"slide_type": "skip"}
def triangle_20(difference):  # 1 at distance 0, and 0 from a distance of 20 on
    return (1 - difference.abs() / 20).clamp(min=0)


sizes = torch.tensor([20.0, 30.0, 50.0])
rents = torch.tensor([400.0, 500.0, 800.0])
query = torch.tensor([35.0])
rent, weights = smooth(sizes, rents, query, triangle_20)
print(f"weights {[round(w, 2) for w in weights[0].tolist()]}   rent {rent.item():.0f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same as a picture

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the flats, and below them their similarity to the query
grid = torch.arange(5.0, 66.0)
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True)
top.plot(sizes, rents, "o", markersize=10, color=VALUE, label="known flats")
top.plot(query, rent, "*", markersize=18, color=QUERY, label="our flat")
top.set(ylabel="rent (€)", ylim=(300, 900))
top.set_title("The sizes decide the weights, the rents are averaged")
top.legend(loc="lower right")
bottom.fill_between(grid, triangle_20(grid - query), color=WEIGHT, alpha=0.3)
bottom.vlines(sizes, 0, triangle_20(sizes - query), color=KEY)
bottom.plot(sizes, triangle_20(sizes - query), "s", markersize=10, color=KEY)
bottom.set(xlabel="size (m²)", ylabel="similarity", ylim=(0, 1.05))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: above, three known flats as dots and the predicted 540 € at 35 m² as a star. Below, a
# triangle centred on the query. Its height at each known size is the similarity of that flat: 0.25,
# 0.75 and 0.25.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Slide the triangle along with your hand: where is the query when only the largest flat
# counts? (From 50 m² to just below 70, where nobody is in reach any more.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A fourth flat
#
# Tomorrow a fourth flat is let: 36 m² for 700 €. It becomes one more row of the table.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Asks again, with four flats
more_sizes, more_rents = torch.cat([sizes, query + 1]), torch.cat([rents, torch.tensor([700.0])])
new_rent, new_weights = smooth(more_sizes, more_rents, query, triangle_20)
print(f"weights {[round(w, 2) for w in new_weights[0].tolist()]}   rent {new_rent.item():.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The new flat is almost ours, and takes 43% of the weight. Nothing has to be trained again: the
# 'model' is the table itself.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what has to be trained again, and wait. Who knows regression wants to fit again.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four kernels
#
# The triangle was one choice. The book has these four, under these names:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def gaussian(x):  # every key counts, near ones most
    return torch.exp(-(x**2) / 2)


def boxcar(x):  # all keys nearer than 1 count alike
    return (x.abs() < 1).to(x.dtype)


def constant(x):  # all keys count alike
    return torch.ones_like(x)


def epanechikov(x):  # falls in a straight line to 0
    return (1 - x.abs()).clamp(min=0)


# %% [markdown] slideshow={"slide_type": "skip"}
# To give a kernel a **width**, divide the difference by the width before it enters the kernel. Our
# triangle has the width 20.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def with_width(kernel, width):
    return lambda difference: kernel(difference / width)


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the four kernels
kernels = (gaussian, boxcar, constant, epanechikov)
x = torch.linspace(-2.5, 2.5, 501)
figure, axes = plt.subplots(1, 4, figsize=(11, 3), sharey=True)
for ax, kernel in zip(axes, kernels, strict=True):
    ax.plot(x, kernel(x))
    ax.set(title=kernel.__name__, xlabel="query − key", xticks=[-2, -1, 0, 1, 2])
axes[0].set(ylabel="similarity", ylim=(0, 1.1))
figure.suptitle("Three kernels look at the distance, the constant does not")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four curves of similarity against the difference of query and key: a bell, a box of
# height 1 between −1 and 1, a flat line at 1, and a triangle from −1 to 1.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# A factor in front of a kernel changes nothing: it is in every similarity and in their sum, and the
# division cancels it. What is left is the *shape* of a kernel and its *width*.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the last lines: multiply the triangle by $\tfrac34$. Does the rent
# shrink to three quarters? Expect votes for it. Which kernel gives 567 €, the average? And say how
# a width enters: divide the difference by it, so our triangle has the width 20.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## When nobody is near
#
# A loft of **120 m²** is to let, and we use the boxcar with a width of 20 m². The largest known
# flat has 50 m², so all three similarities are 0.

# %% slideshow={"slide_type": "fragment"}
loft = torch.tensor([120.0])
wide_box = with_width(boxcar, 20)
print("ours       ", smooth(sizes, rents, loft, wide_box))
print("the package", d2l_attention.nadaraya_watson(sizes, rents, loft, wide_box))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Our three lines, like the book's, divide 0 by 0. The result is NaN, 'not a number', and it
# spreads: one NaN makes the mean of a whole batch NaN. So the package gives a query that has nobody
# to ask the weights 0, here and in every later chapter. A rent of 0 € is no prediction: where the
# weights sum to 0, there is no answer.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the run let the room vote between an error, 0, NaN and the average. Then ask
# what a website should show
# the owner of the loft. No number is right; the site must know that it has none.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The width decides
#
# Three flats are too few to judge a width. We take the book's data: 40 points on the curve $f(x) =
# 2\sin x + x$, each with noise of standard deviation 1. Another 200 **fresh** points, which no
# prediction uses, measure the error.


# %% slideshow={"slide_type": "skip"}
def f(x):
    return 2 * torch.sin(x) + x


def draw(seed):
    torch.manual_seed(seed)
    x = (torch.rand(40) * 5).sort().values  # keys
    y = f(x) + torch.randn(40)  # values
    x_fresh = torch.rand(200) * 5
    return x, y, x_fresh, f(x_fresh) + torch.randn(200)


first_draw = draw(seed=0)
x_train, y_train, x_fresh, y_fresh = first_draw


def fresh_error(kernel, drawn=first_draw):
    x, y, x_new, y_new = drawn
    prediction, _ = d2l_attention.nadaraya_watson(x, y, x_new, kernel)  # 0 if nobody is near
    return (prediction - y_new).square().mean().item()


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the 40 points and the curve
x_line = torch.arange(0, 5, 0.1)


def draw_data(ax, title):
    ax.plot(x_train, y_train, "o", color=GREY, label="data")
    ax.plot(x_line, f(x_line), "--", color=FAINT, linewidth=1.5, label="truth")
    ax.set(title=title, xlabel="x")


figure, ax = plt.subplots(figsize=(11, 3.3))
draw_data(ax, "The noise hides the curve")
ax.set_ylabel("y")
ax.legend(loc="lower center", frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: 40 grey points between 0 and 5 on the x axis, scattered around a dashed curve that rises,
# falls and rises again.*

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Sketch the prediction of a Gaussian of width 0.05, and that of width 3.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Everybody draws, and one student draws on the board. Many make the narrow one wave
# like the curve. How many points does it ask at once? And what is left of $x$ when all points count
# nearly alike?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Narrow, between, wide


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws fits and weights at three widths
def draw_weights(ax, weights, vmax):
    heatmap(ax, weights, vmax=vmax)
    ax.set_yticks(range(0, 50, 10), ["0", "1", "2", "3", "4"])
    ax.set_xticks(torch.searchsorted(x_train, torch.arange(1.0, 5.0)), ["1", "2", "3", "4"])
    ax.set_xlabel("key at x =")


figure, axes = plt.subplots(2, 3, figsize=(11.5, 5.6), sharey="row")
for (top, bottom), width in zip(axes.T, (0.05, 0.5, 3.0), strict=True):
    kernel = with_width(gaussian, width)
    prediction, weights = smooth(x_train, y_train, x_line, kernel)
    draw_data(top, f"width {width}: error {fresh_error(kernel):.1f}")
    top.plot(x_line, prediction, color=OUTPUT, label="prediction")
    draw_weights(bottom, weights, vmax=0.3)
axes[0, 0].set_ylabel("y")
axes[1, 0].set_ylabel("query at x =")
figure.colorbar(axes[1, 0].images[0], ax=axes[1], label="weight", extend="max")
handles = axes[0, 0].get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
figure.suptitle("Too narrow copies the noise, too wide forgets the question")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three widths side by side. Width 0.05: a jagged curve from point to point, and a
# thin band of weights. Width 0.5: a smooth curve near the truth, and a soft band. Width 3: an
# almost flat line, and weights spread over all keys.*

# %% [markdown] slideshow={"slide_type": "skip"}
# - A **narrow** kernel asks one or two keys, and their noise becomes its noise.
# - A **wide** kernel asks everybody, and the answer hardly depends on the question.
# - Between them enough neighbours are asked to average the noise away, and all of them are near.
#
# Which width is best? Of 26 widths it is this one:

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Compare with the sketches. Have somebody put a finger on the row of the
# query at 4 in the left heat map: one strong cell, so one key, and its noise is the curve's.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Measures the error of 26 widths on the fresh points
widths = torch.logspace(-1.5, 1, 26)
errors = [fresh_error(with_width(gaussian, width)) for width in widths]
lowest, best = min(zip(errors, widths.tolist(), strict=True))
print(f"best width {best:.2f}, with the error {lowest:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Even the true curve has an error of about 1 on fresh points: that is the noise.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn the width yourself
#
# Width or shape: which matters more? Choose a kernel and turn the width. The dot on the right is
# your error on fresh points. If it is above 2, the dot is a mark at the upper edge.
#
# **Question.** How small can each kernel make the error, and at which width?


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows fit, weights and error for a kernel and a width
errors_of = {
    kernel: [fresh_error(with_width(kernel, width)) for width in widths] for kernel in kernels
}


def tune(figure, kernel=gaussian, width=1.0):
    fit, heat, valley = figure.subplots(1, 3)
    stretched = with_width(kernel, width)
    prediction, weights = d2l_attention.nadaraya_watson(x_train, y_train, x_line, stretched)
    draw_data(fit, "prediction")
    fit.plot(x_line, prediction, color=OUTPUT)
    draw_weights(heat, weights, vmax=0.3)
    heat.set(title="weights", ylabel="query at x =")
    valley.semilogx(widths, errors_of[kernel], color=INK)
    error = fresh_error(stretched)
    marker, height = ("o", error) if error < 2 else ("^", 1.97)  # an arrow: above the axis
    valley.plot(width, height, marker, markersize=12, color=INK)
    valley.set(title=f"error {error:.2f}", xlabel="width", ylim=(0.98, 2))


explore(
    tune,
    figsize=(11.5, 3.9),
    alt="The fit, the heat map of weights and the error on fresh points for a kernel and a width.",
    kernel={kernel.__name__: kernel for kernel in kernels},
    width=FloatLogSlider(value=1.0, min=-1.5, max=1, step=0.02, readout_format=".2f"),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of three panels: data with the fitted curve, the weights as a heat
# map, and the error on fresh points against the width, with a dot at the width that is set.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Each but the constant comes to nearly the same error, at a width of its own. For these
# three a bad width costs much more than the shape.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; three minutes. Gaussian first: the room says where to stop. Then the boxcar and
# the triangle: nearly the same lowest error, at other widths. So the width matters, and the shape
# hardly does, on these data. Ask why the lowest error is not 0: the true curve has 1 as well.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Have you seen this fraction?
#
# The Gaussian kernel gives the weights
#
# $$\frac{e^{-(q-k_j)^2/2}}{\sum_l e^{-(q-k_l)^2/2}}$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# ### The Gaussian kernel is a softmax
#
# There is an exponential above, and the sum of all exponentials below. This is the **softmax** of
# the scores $-(q - k_j)^2/2$. So attention pooling has two steps: first a **score** for each pair
# of query and key, then softmax and average.

# %% [markdown] slideshow={"slide_type": "fragment"}
# A width divides the difference, so width² divides the score: in chapter 1 this was the temperature
# $T$. A narrow kernel is a cold softmax.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Wait for 'softmax', and ask: of which scores? Then, before the last lines: what does
# a width do to the score?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Score, softmax, average
#
# Queries and keys may now be vectors, the rows of matrices with D columns:


# %% slideshow={"slide_type": "-"} tags=["build"]
def gaussian_scores(queries, keys, width):  # (Q, D), (K, D)
    differences = (queries[:, None] - keys) / width  # (Q, K, D)
    return -differences.square().sum(dim=-1) / 2  # (Q, K)


def gaussian_pooling(queries, keys, values, width):  # values (K,)
    weights = gaussian_scores(queries, keys, width).softmax(dim=1)  # (Q, K)
    return weights @ values, weights


# %% [markdown] slideshow={"slide_type": "fragment"}
# | | `smooth` | `gaussian_pooling` |
# |---|---|---|
# | compare | `s = kernel(q - k)` | `a = -(q - k)**2 / 2` |
# | weights | `s / s.sum()` | **`a.softmax()`** |

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that score and softmax, kernel and division, and the package give the same
column, key_column = x_fresh[:, None], x_train[:, None]  # (200, 1), (40, 1)
by_softmax = gaussian_pooling(column, key_column, y_train, width=0.32)
by_kernel = smooth(x_train, y_train, x_fresh, with_width(gaussian, 0.32))
torch.testing.assert_close(by_softmax, by_kernel)
scores = d2l_attention.gaussian_score(column, key_column, width=0.32)
by_package, _ = d2l_attention.attention_pooling(scores, y_train[:, None])
torch.testing.assert_close(by_package[:, 0], by_softmax[0])

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Before the table: where is the kernel of the old code? In two places: the
# square is in the score, the exponential in the softmax. A folded cell checks that they agree.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From distance to product
#
# Multiply the square out:
#
# $$-\tfrac12 \lVert q - k_j \rVert^2
#   = q \cdot k_j \;-\; \tfrac12 \lVert q \rVert^2 \;-\; \tfrac12 \lVert k_j \rVert^2$$
#
# The middle term is the same for every key, so the softmax does not see it. If all keys have one
# length, the last term is the same, too. What is left is the **dot product** $q \cdot k_j$: the
# score of chapter 3, and (divided by $\sqrt d$) of the Transformer.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for each term: does it differ from key to key? Exercise 2.7 has the numbers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A castle
#
# **Predict.** A castle of **2000 m²** is to let, and the Gaussian has a width of 20 m². The two
# routes are equal on paper. What does each answer: kernel and division, and score and softmax?

# %% slideshow={"slide_type": "fragment"}
castle = torch.tensor([2000.0])
print("kernel and division", smooth(sizes, rents, castle, with_width(gaussian, 20))[0])
print("score and softmax  ", gaussian_pooling(castle[:, None], sizes[:, None], rents, 20)[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The nearest flat is 97.5 widths away, and $e^{-97.5^2/2}$ is too small for the computer: it
# becomes zero, and we divide 0 by 0 again. PyTorch's softmax first subtracts the largest score from
# all scores, as in chapter 1. So one exponential is $e^0 = 1$, and the nearest flat gets all the
# weight.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. The room has just learned that the two are equal, so expect 'the same, 800'. Show the
# numbers, wait for the protest, then explain. (800 € for a castle is still a poor price: a softmax
# always answers.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Learn the width
#
# For one number we can try 26 widths. A network has millions of numbers, so it uses gradient
# descent: predict, take the error, and step against its gradient. We step on the **logarithm** of
# the width: then the width stays positive. The 40 points are the keys, and they are asked as
# queries.
#
# **Predict.** The best width on fresh points was 0.32. Gradient descent starts at width 1. Does it
# arrive near 0.32, far above it, or far below?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The usual wrong vote is 'near 0.32': the room forgets that the queries are
# among the keys. Let it stumble.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where does it arrive?

# %% slideshow={"slide_type": "-"}
keys = x_train[:, None]  # (40, 1)
log_width, own_widths = torch.zeros(1, requires_grad=True), []
for step in range(400):  # enough steps to see where it goes
    prediction, own_weights = gaussian_pooling(keys, keys, y_train, log_width.exp())
    error = (prediction - y_train).square().mean()
    own_widths.append(log_width.exp().item())
    if step in (0, 20, 50, 100, 399):
        print(f"step {step:3}  width {own_widths[-1]:.3f}  own error {error:.2f}")
    (gradient,) = torch.autograd.grad(error, log_width)  # of the error, by log_width
    log_width = log_width - 0.2 * gradient  # 0.2: the learning rate
    log_width = log_width.detach().requires_grad_()  # the next step begins anew

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Point at the falling error: 'Are you happy?' Give a minute to find out
# what went wrong; somebody says 'it looks at itself'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Is it a good width?
#
# How much does each point listen to itself?


# %% slideshow={"slide_type": "fragment"}
for width in (own_widths[-1], 0.32):
    answers, _ = gaussian_pooling(x_fresh[:, None], keys, y_train, width)
    print(f"width {width:.3f}: error on fresh points {(answers - y_fresh).square().mean():.2f}")
print(f"mean weight of a point on itself {own_weights.diagonal().mean().item():.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Its own error is almost 0, and on fresh points the error is much larger than at 0.32. The last
# line says why. Point 7 asks for its own $y$, and point 7 is among the keys at distance **0**. No
# other key can have a higher score. The narrower the width, the more exactly each point copies its
# own answer. It is an exam with the solution on the desk.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask how each point could be kept from its own answer. 'Remove it' is right, and it
# means 40 databases; a mask does it in one product.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Hide each point from itself
#
# A **mask** says which query may attend to which key: True means that it may. Hidden pairs get the
# score $-\infty$ and so the weight 0. Statisticians call this *leave-one-out*.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def other_points(keys, values, width):
    mask = ~torch.eye(len(keys), dtype=torch.bool)  # (K, K): False on the diagonal
    scores = gaussian_scores(keys, keys, width).masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=1)  # e to the power -inf is 0
    return weights @ values, weights


# %% [markdown] slideshow={"slide_type": "skip"}
# The same loop again, now with the mask, as a function:


# %% slideshow={"slide_type": "skip"}
def learn_width(keys, values, steps=400):
    log_width, widths = torch.zeros(keys.shape[1], requires_grad=True), []  # (D,)
    for _ in range(steps):
        prediction, weights = other_points(keys, values, log_width.exp())
        error = (prediction - values).square().mean()
        widths.append(log_width.exp().tolist())
        (gradient,) = torch.autograd.grad(error, log_width)
        log_width = (log_width - 0.2 * gradient).detach().requires_grad_()
    return torch.tensor(widths), weights.detach()  # (steps, D), (K, K)


other_widths, other_weights = learn_width(keys, y_train)
print(f"width {other_widths[-1].item():.2f}")

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws both runs and the learned weights
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.5))
left.semilogy(own_widths, "--", color=GREY, label="may see itself")
left.semilogy(other_widths, "-", color=INK, label="masked")
left.axhline(best, color=GREY, linewidth=1, linestyle=":")
left.text(400, 0.36, "best on fresh points", ha="right", va="bottom", color=FAINT)
left.set(xlabel="step", ylabel="width (log scale)", title="Without a mask it runs towards 0")
left.legend(loc="center right", frameon=False)
heatmap(right, other_weights, vmax=0.3)
right.set(xlabel="key (training point)", ylabel="query (training point)")
right.set_title("Masked, it asks its neighbours")
figure.colorbar(right.images[0], ax=right, label="weight", extend="max")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, the width during training on a log scale. The dashed run without a mask falls below
# 0.01; the solid masked run settles close to the dotted line at 0.32. Right, the learned weights of
# the masked run: a soft band with an empty diagonal, where each point would see itself.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Where is the empty diagonal, and why? Say where the room meets this again: a language
# model that may see the next word learns to copy, and chapter 4 hides it.

# %% [markdown] slideshow={"slide_type": "skip"}
# Large models have the same trap. A language model learns to predict the next word. If it may *see*
# the next word, it learns to copy. The cure is a mask again (chapter 4).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What should count as near?
#
# Until now a key was one number. Now each of 60 points has two, both drawn between 0 and 5. The
# value is the curve $f$ of the first number, with noise. The second is like a **house number**: the
# value does not depend on it. The training is not told. Each number gets a width of its own; both
# begin at 1.
#
# **Predict.** Which of the two widths is larger after the training?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. 'The house number's width goes to 0' is a common vote ('remove it'). Ask
# what a width of 0 would do: only flats with exactly your house number would count. After the run:
# the numbers lie between 0 and 5, so a width above 5 is wider than all of them.

# %% slideshow={"slide_type": "fragment"}
for matters in (False, True):  # does the second number matter?
    found = []
    for seed in range(20):
        torch.manual_seed(seed)
        pairs, noise = torch.rand(60, 2) * 5, torch.randn(60)
        values = f(pairs[:, 0]) + noise + (f(pairs[:, 1]) if matters else 0)
        found.append(learn_width(pairs, values, steps=1000)[0][-1])
    low, high = torch.stack(found).aminmax(dim=0)
    print(f"matters: {matters}   first width {low[0]:.1f} to {high[0]:.1f}", end=", ")
    print(f"second {low[1]:.1f} to {high[1]:.1f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# In 20 of 20 draws the house number got the larger width. Divided by a larger width, house
# numbers look more alike: the model has learned to pay them less attention. Where the second number
# matters as much as the first, its width became small, too, in these 20 draws.

# %% [markdown] slideshow={"slide_type": "skip"}
# Nobody told it what matters. (Roughly: where the value changes fast with a number, its width is
# small.)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the claim about the last twenty widths: neither number has the larger one as a rule
first, second = torch.stack(found).T
assert max(first.max(), second.max()) < 1.2 and ((second > first).sum() - 10).abs() < 8

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A learned matrix
#
# To divide each number by its width is to multiply by a diagonal matrix. So the learned score is
#
# $$-\tfrac12 \lVert M q - M k_j \rVert^2
#   \qquad\text{with}\qquad M = \begin{pmatrix} 1/w_1 & 0 \\ 0 & 1/w_2 \end{pmatrix}$$
#
# and the widths $w_1$, $w_2$. We have learned a **matrix** that queries and keys pass through
# before they meet. In later chapters the matrix is full, and there is one for the queries and one
# for the keys: $W_q$ and $W_k$.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. The point of the chapter: attention learns what should count as near.
# Leave one question open over the break: must the best answer be *like* the question?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A kernel turns the distance of query and key into a similarity. Similarities divided by their
#   sum are attention weights. Where no key is in reach, there is no good answer.
# - The **width** decides: too narrow copies noise, too wide forgets the question.
# - With the Gaussian kernel this is a **softmax** of the scores $-(q-k)^2/2$, and width² is the
#   temperature.
# - The width can be **learned**, if no point may see itself. Within 10% of the best error it was in
#   40 of fifty draws ('Going further').
# - With a width for each number of a key, the number that does not matter got the larger width in
#   20 of 20 draws. The widths act like a small $W_q$ and $W_k$.
# - For keys of one length the distance becomes a **dot product**.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the two steps of attention pooling: score; softmax and average. Homework:
# exercises 2.1, 2.3 and 2.5.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or wrong, as often as you
# like. `hint("2.1")` helps a little, and a little more each time; `solution("2.1")` shows a
# solution and says why it is right. They are in the order of their difficulty.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.1** · by hand
#
# Keys 0, 1, 3 with values 6, 2, 4; triangle kernel of width 2; query 1. Give the weights of the
# three keys, in this order, and then the prediction: one list of four numbers, to three decimals or
# as fractions such as `1 / 3`.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.2** · complete a function
#
# Complete `parabola`: $\max(1 - x^2, 0)$ for every entry of a tensor of any shape and floating
# dtype, as a new tensor of the same shape and dtype. At $x = -3$ it gives 0, and at $x = 300$ too,
# in half precision as well.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.3** · find the bug
#
# `smooth` runs without a message, and its predictions are wrong. Repair it. It returns
# `(prediction, weights)` of shapes (Q,) and (Q, K), one row of weights a query. `kernel` gets query
# minus key, and may be larger on one side than on the other. A query with no key in reach (all its
# similarities are exactly 0) gets weights 0 and prediction 0, and no other query changes.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.4** · predict, then measure
#
# Keys at 0, 0.1, 0.2, ..., 10; one query at 5; Gaussian kernel. By what factor does the effective
# number of keys, $1/\sum_j \alpha_j^2$, grow when the width doubles from 0.25 to 0.5: about 1.4, 2
# or 4? Write your prediction down, then measure the number at both widths, to one decimal. Give a
# list: factor, number at width 0.25, number at width 0.5.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.7** · derive with a pencil
#
# All keys have length 1. Expand the Gaussian score: $-\tfrac12\lvert q - k\rvert^2 = q \cdot k +
# c$, where $c$ is the same number for every key, so that the softmax does not see it. Take $q =
# (1, 2)$ and the keys $(1, 0)$, $(0, 1)$, $(0.6, 0.8)$. Give four numbers: $c$, and then the dot
# product of $q$ with each of the three keys. Which key wins by distance, and which by dot product?

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.5** · complete a function
#
# Complete `leave_one_out_error` for `x` and `y` of shape (K,), K ≥ 2, and a `width` above 0, a
# number or a tensor: the mean squared error of Gaussian attention pooling when each point is
# predicted from all the others. It returns a tensor of shape (); where `width` is a tensor, the
# gradient reaches it. It stays right for points any number of widths apart.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.6** · write the test
#
# Complete `test_pooling` for functions called like
# `nadaraya_watson(x_train, y_train, x_val, kernel)`. It passes every right one, also where numbers
# differ in the seventh digit, and fails by an `assert` on four broken ones: division by the sum
# over the queries instead of the keys; no division at all; weights of shape (K, Q); NaN for a query
# with no key in reach.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Going further
#
# Five sections, to be read in any order.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Which kernel is best?
#
# *2 minutes.* Give each kernel but the constant its own best width on each of twenty draws. The
# average of the twenty best errors hardly depends on the kernel:

# %% slideshow={"slide_type": "skip"}
tried = torch.logspace(-1.5, 1, 26)
for kernel in (gaussian, boxcar, epanechikov):
    best_errors = [
        min(fresh_error(with_width(kernel, width), drawn) for width in tried)
        for drawn in map(draw, range(20))
    ]
    print(f"{kernel.__name__:12} {sum(best_errors) / 20:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# For these data the width matters and the shape hardly does. (Epanechnikov's own kernel of 1969 is
# a parabola, $\max(1 - x^2, 0)$ up to a factor and a width. We keep the book's name for the
# triangle, and its spelling. The boxcar of the book's text counts a key at distance exactly 1; its
# code, and ours, does not.)

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Fifty new draws
#
# *1 minute.* Is the learned width good on other draws, too? We divide its error on fresh points by
# that of the best of the 26 widths, which is chosen *with* the fresh points.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Learns the width on fifty new draws, and compares it with the best of 26
ratios = []
for seed in range(1, 51):
    drawn = draw(seed)
    learned = learn_width(drawn[0][:, None], drawn[1])[0][-1].item()
    found = [fresh_error(with_width(gaussian, width), drawn) for width in (learned, *widths)]
    ratios.append(found[0] / min(found[1:]))
ratios = torch.tensor(ratios)
print(f"median {ratios.median():.2f}   worst {ratios.max():.2f}")
print(f"at most 10% above the best: {(ratios < 1.1).sum()} of 50")

# %% [markdown] slideshow={"slide_type": "skip"}
# Mostly it is almost as good. In a few draws it is clearly worse: 40 noisy points are few, and they
# can mislead leave-one-out as well.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Kernels as masks, and values that are not numbers
#
# *3 minutes.* The boxcar is attention too: all scores are equal, and a **mask** hides what is far
# away. The constant kernel is the same without a mask. In chapter 9 this mask comes back with
# positions in a sentence as keys. It is called a sliding window there.

# %% slideshow={"slide_type": "skip"}
near = (x_fresh[:, None] - x_train).abs() < 1  # (Q, K)
equal_scores = torch.zeros(200, 40).masked_fill(~near, -math.inf)
by_mask = equal_scores.softmax(dim=1) @ y_train
by_kernel, _ = d2l_attention.nadaraya_watson(x_train, y_train, x_fresh, boxcar)
torch.testing.assert_close(by_mask, by_kernel)
print("equal scores and a mask = the boxcar, for 200 queries")

# %% [markdown] slideshow={"slide_type": "skip"}
# The values need not be numbers. Which of the three flats has a balcony: no, yes, yes. Write each
# answer as a row with a single 1, and use the same weights. The average is a probability.

# %% slideshow={"slide_type": "skip"}
has_balcony = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # columns: no, yes
_, weights = d2l_attention.nadaraya_watson(sizes, rents, query, triangle_20)
print("no {:.1f}   yes {:.1f}".format(*(weights @ has_balcony)[0].tolist()))

# %% [markdown] slideshow={"slide_type": "skip"}
# ### How many keys does a query listen to?
#
# *1 minute.* One number says it: $1 / \sum_j \alpha_j^2$. If five keys share the weight equally,
# it is 5. If one key has everything, it is 1. It is called the **effective number of keys**, and
# exercise 2.4 uses it.

# %% slideshow={"slide_type": "skip"}
for width in (0.02, 0.05, 0.32, 3.0):
    _, weights = gaussian_pooling(x_fresh[:, None], x_train[:, None], y_train, width)
    effective = 1 / weights.square().sum(dim=1)
    print(f"width {width:4}: {effective.mean().item():4.1f} of 40 keys on average")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### One width for all?
#
# *11 minutes.* The 40 points are spread evenly. Real data are not: there are many small flats and
# few large ones. Below, 60 points crowd between 0 and 1, where the curve swings. Only 15 lie
# between 1 and 6, where it hardly moves. An idea (the book points to Silverman, 1986) is to let the
# data set the width: each query takes the distance to its **fourth nearest** key as its width. In
# code the width becomes a tensor with one entry for each query.


# %% slideshow={"slide_type": "skip"}
def swing(x):
    return torch.where(x < 1, 2 * torch.sin(4 * math.pi * x), 0.2 * (x - 1))


def distance_to_neighbour(queries, keys, k):
    distances = (queries[:, None] - keys).abs()  # (Q, K)
    return distances.kthvalue(k, dim=1).values[:, None, None]  # (Q, 1, 1)


def pooled(queries, keys, values, width):
    return gaussian_pooling(queries[:, None], keys[:, None], values, width)[0]


def uneven(seed):
    torch.manual_seed(seed)
    keys = torch.cat([torch.rand(60), 1 + 5 * torch.rand(15)]).sort().values
    queries = torch.cat([torch.rand(300), 1 + 5 * torch.rand(300)])  # crowded half, sparse half
    noisy = [swing(x) + 0.7 * torch.randn(len(x)) for x in (keys, queries)]
    return keys, noisy[0], queries, noisy[1]


keys, values, queries, answers = uneven(seed=0)
for name, width in {
    "0.03": 0.03,
    "0.6": 0.6,
    "fourth key": distance_to_neighbour(queries, keys, k=4),
}.items():
    errors = (pooled(queries, keys, values, width) - answers).square()
    crowd, sparse = errors[:300].mean(), errors[300:].mean()
    print(
        f"width {name:10}   error in the crowd {crowd:.2f}   where points are sparse {sparse:.2f}"
    )

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Draws the three fits of the uneven data
line = torch.cat([torch.linspace(0, 1, 200), torch.linspace(1, 6, 200)])
choices = (0.03, 0.6, distance_to_neighbour(line, keys, k=4))
titles = ("0.03 copies noise on the right", "0.6 flattens the left", "Fourth key: serves both")
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), sharey=True)
for ax, width, title in zip(axes, choices, titles, strict=True):
    ax.plot(keys, values, "o", color=GREY, markersize=5, label="data")
    ax.plot(line, swing(line), "--", color=FAINT, linewidth=1.5, label="truth")
    ax.plot(line, pooled(line, keys, values, width), color=OUTPUT, label="prediction")
    ax.set(title=title, xlabel="x")
axes[0].set_ylabel("y")
axes[2].legend(loc="lower right", fontsize=12, frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the same uneven data three times. Width 0.03 follows the two swings on the left but jumps
# from point to point on the right; width 0.6 is calm on the right but flat on the left; the width
# from the fourth key follows the swings and is calmer on the right, but is too low from 1 to almost
# 3.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Is that luck? On twenty new draws the fourth key's distance, fixed in advance, competes with the
# best of eleven single widths, chosen *after* seeing the exam.

# %% slideshow={"slide_type": "skip"}
single = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.4, 0.8)
wins = 0
for seed in range(1, 21):
    keys, values, queries, answers = uneven(seed)
    fourth = distance_to_neighbour(queries, keys, k=4)
    errors = [
        (pooled(queries, keys, values, width) - answers).square().mean().item()
        for width in (fourth, *single)
    ]
    wins += errors[0] < min(errors[1:])
print(f"the fourth key's distance wins {wins} of 20 times")

# %% [markdown] slideshow={"slide_type": "skip"}
# It works here because this curve is calm where data are sparse. If the curve swings where nobody
# was, no width helps.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, section 11.2, d2l.ai. The kernels, the
#   40 points and the exercise on learning the width come from there.
# - E. A. Nadaraya (1964), *On estimating regression*. Theory of Probability and its Applications
#   9(1), 141-142.
# - G. S. Watson (1964), *Smooth regression analysis*. Sankhyā: The Indian Journal of Statistics,
#   Series A, 26(4), 359-372.
# - V. A. Epanechnikov (1969), *Non-parametric estimation of a multivariate probability density*.
#   Theory of Probability and its Applications 14(1), 153-158. The parabola.
# - B. W. Silverman (1986), *Density Estimation for Statistics and Data Analysis*. Chapman and
#   Hall. Widths that follow the density.
