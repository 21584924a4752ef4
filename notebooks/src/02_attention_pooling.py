# %% [markdown] slideshow={"slide_type": "slide"}
# # 2 · Attention pooling by similarity
#
# **You will**
# - compute attention weights from distances, by hand and in three lines of code;
# - find a kernel width that makes such weights useful, by trying and by gradient descent;
# - show that the Gaussian kernel is a softmax;
# - read from learned widths which feature of a key matters.
#
# Core path: 65 to 100 minutes. Going further: 15. Exercises: 64.
#
# Builds on chapter 1. The book is *Dive into Deep Learning* (D2L), section 11.2.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes, with votes. Not in the plan is the view 'Turn the width yourself', the last slide of
# its column, so the right arrow passes over it. Keep to yourself how the training of the width
# ends.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math

import matplotlib.pyplot as plt
import torch
from ipywidgets import FloatLogSlider

import d2l_attention
from d2l_attention.views import explore
from d2l_attention.views.palette import (
    FAINT,
    GREY,
    GROUND,
    INK,
    KEY,
    OUTPUT,
    PALE,
    QUERY,
    RULE,
    VALUE,
    WEIGHT,
)
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2)
set_style()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# From chapter 1: a database holds pairs of a **key** and a **value**, and a **query** gives each
# pair an attention weight. Since the weights are non-negative and sum to one, the answer is a
# weighted average of the values. With weights 0.3 and 0.7 and values 10 and 20, it is
# $0.3 \cdot 10 + 0.7 \cdot 20 = 17$.
#
# The **softmax** turns any scores into such weights: raise $e$ to the power of each score, then
# divide by the sum. Chapter 1 computed its scores from distances. Here we find out which distances
# should count as near, first by hand and then by gradient descent.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A rent from similar flats
#
# You want to let a flat of **35 m²**, in a street where three flats are let already:
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
# average comes back as a kernel, and the nearest flat as a narrow one. 575 cannot come back: since
# 20 and 50 m² are equally far away, they weigh the same, and at most a third each if nearer flats
# count at least as much. That makes 567 at most.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Compare sizes, average rents
#
# You compared the **sizes** to decide which flats matter. Then you mixed their **rents**. In the
# words of chapter 1, 35 m² is the query, the known sizes are the keys, and the rents are the
# values. As a first rule for 'similar', let the similarity be 1 at distance 0 and fall in a
# straight line to 0 at a distance of 20 m²:

# %% [markdown] slideshow={"slide_type": "fragment"}
# | size | distance to 35 | similarity |
# |---|---|---|
# | 20 | 15 | 0.25 |
# | 30 | 5 | 0.75 |
# | 50 | 15 | 0.25 |

# %% [markdown] slideshow={"slide_type": "fragment"}
# Divided by their sum, 1.25, the similarities become the weights 0.2, 0.6 and 0.2.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The rent is $0.2 \cdot 400 + 0.6 \cdot 500 + 0.2 \cdot 800 = 80 + 300 + 160$, so **540 €**. The
# straight line between the two neighbours gives 575 €, but it also uses on which side a size lies,
# while our rule uses only *how far* away it is.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, in three steps: let the room find the similarity of the 30 m² flat, then the
# weights, then the rent.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Nadaraya-Watson regression
#
# A rule that turns the distance between query and key into a similarity is called a **kernel**,
# $s$. With a kernel, the answer to the query $q$ is
#
# $$\text{answer}(q) = \sum_j \alpha_j\, v_j, \qquad
#   \alpha_j = \frac{s(q - k_j)}{\sum_l s(q - k_l)}$$
#
# Nadaraya and Watson published this formula in 1964, for regression. It is attention pooling, and
# in code it takes three lines:


# %% slideshow={"slide_type": "-"} tags=["build"]
def smooth(x_train, y_train, x_val, kernel):  # keys (K,), values (K,), queries (Q,)
    similarity = kernel(x_val[:, None] - x_train)  # (Q, K)
    weights = similarity / similarity.sum(dim=1, keepdim=True)  # each row sums to one
    return weights @ y_train, weights  # (Q,), (Q, K)


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask over which axis the sum runs: over the keys, because the weights of one query sum
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
# ### Similarities as heights of the kernel

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the flats, and below them their similarity to the query
grid = torch.arange(5.0, 66.0)
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True)
top.plot(sizes, rents, "D", markersize=9, color=VALUE, label="known flats")
for size, width in ((14, 2), (8, 1)):  # an answer has a double outline
    name = "our flat, predicted" if width == 2 else None
    look = {"color": GROUND, "markeredgecolor": OUTPUT, "markeredgewidth": width}
    top.plot(query, rent, "o", markersize=size, label=name, **look)
top.set(ylabel="rent (€)", ylim=(300, 900))
top.set_title("The sizes decide the weights, the rents are averaged")
top.legend(loc="lower right")
bottom.fill_between(grid, triangle_20(grid - query), color=PALE)
bottom.vlines(sizes, 0, triangle_20(sizes - query), color=KEY)
bottom.plot(sizes, triangle_20(sizes - query), "s", markersize=10, color=KEY)
bottom.plot(query, 0, "o", markersize=10, color=QUERY, clip_on=False, zorder=3)
bottom.annotate("query", query.tolist() + [0], (8, 7), color=QUERY, textcoords="offset points")
bottom.set(xlabel="size (m²)", ylabel="similarity", ylim=(0, 1.05))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: above, three known flats as diamonds, and the predicted 540 € at 35 m² as a double ring.
# Below, a triangle centred on the query, a dot on the axis. Its height at each known size is the
# similarity of that flat: 0.25, 0.75 and 0.25.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Slide the triangle along with your hand: where is the query when only the largest flat
# counts? (From 50 m² to just below 70, where no flat is in reach any more.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A fourth flat joins the keys
#
# Tomorrow a fourth flat, of 36 m², is let for 700 €, which adds one row to the table.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Asks again, with four flats
more_sizes, more_rents = torch.cat([sizes, query + 1]), torch.cat([rents, torch.tensor([700.0])])
new_rent, new_weights = smooth(more_sizes, more_rents, query, triangle_20)
print(f"weights {[round(w, 2) for w in new_weights[0].tolist()]}   rent {new_rent.item():.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The new flat is almost the size of ours, so it takes 43% of the weight. Nothing has to be trained
# again, because the 'model' is the table itself.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what has to be trained again, and wait. Whoever knows regression wants to fit
# again.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four kernels
#
# The triangle was one choice. Here are four, under the names that the book gives them:


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
# To give a kernel a **width**, divide the difference by that width before it enters the kernel. Our
# triangle has width 20.


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
figure.suptitle("Three kernels depend on the distance, the constant does not")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four curves of similarity against the difference of query and key: a bell, a box of
# height 1 between −1 and 1, a flat line at 1, and a triangle from −1 to 1.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# A constant factor in front of a kernel cancels, because it appears in every similarity and in
# their sum. What remains is the *shape* of a kernel and its *width*.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the last lines: multiply the triangle by $\tfrac34$. Does the rent shrink to
# three quarters? Expect votes for it. Which kernel gives 567 €, the average? And say how a width
# enters: divide the difference by it, so our triangle has width 20.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A query with no key in reach
#
# Now a loft of **120 m²** is to let, and we use the boxcar with width 20. Since the largest known
# flat has 50 m², all three similarities are 0.

# %% slideshow={"slide_type": "fragment"}
loft = torch.tensor([120.0])
wide_box = with_width(boxcar, 20)
print("ours       ", smooth(sizes, rents, loft, wide_box))
print("the package", d2l_attention.nadaraya_watson(sizes, rents, loft, wide_box))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Our three lines, like the book's, divide 0 by 0. The result is NaN, 'not a number', which spreads:
# a single one makes the mean of a whole batch NaN. Where no key is in reach, the package therefore
# sets the weights to 0. But a rent of 0 € is only a signal: where the weights sum to 0, there is no
# answer.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the run, let the room vote between an error, 0, NaN and the average. Then ask
# what a website should show to the owner of the loft. No number is right; the site must know that
# it has none.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The width of a kernel
#
# Three flats are too few to judge a width, so let us take the book's data: 40 points on the curve
# $f(x) = 2\sin x + x$, each with noise of standard deviation 1. To measure the error, we draw
# another 200 **fresh** points and keep them out of every prediction.


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
    prediction, _ = d2l_attention.nadaraya_watson(x, y, x_new, kernel)  # 0 if no key is near
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
# **Predict.** Sketch the curve that a Gaussian predicts with width 0.05, and the one with width 3.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Everybody draws, and one student draws on the board. Many let the narrow one wave
# like the curve. To how many points at once does it give weight? And what remains of $x$ when all
# points count nearly alike?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Narrow, medium and wide


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws fits and weights at three widths
def draw_weights(ax, weights, vmax):
    heatmap(ax, weights, vmax=vmax, sides=("queries at x =", "keys at x ="))
    ax.set_yticks(range(0, 50, 10), ["0", "1", "2", "3", "4"])
    ax.set_xticks(torch.searchsorted(x_train, torch.arange(1.0, 5.0)), ["1", "2", "3", "4"])


figure, axes = plt.subplots(2, 3, figsize=(11.5, 5.6), sharey="row")
for (top, bottom), width in zip(axes.T, (0.05, 0.5, 3.0), strict=True):
    kernel = with_width(gaussian, width)
    prediction, weights = smooth(x_train, y_train, x_line, kernel)
    draw_data(top, f"width {width}: error {fresh_error(kernel):.1f}")
    top.plot(x_line, prediction, color=OUTPUT, label="prediction")
    draw_weights(bottom, weights, vmax=0.3)
axes[0, 0].set_ylabel("y")
figure.colorbar(axes[1, 0].images[0], ax=axes[1], label="weight", extend="max")
handles = axes[0, 0].get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
figure.suptitle("Too narrow copies the noise, too wide forgets the question")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three widths side by side. Width 0.05: a jagged curve from point to point, and a thin
# band of weights. Width 0.5: a smooth curve near the truth, and a soft band. Width 3: an
# almost flat line, and weights spread over all keys.*

# %% [markdown] slideshow={"slide_type": "skip"}
# - The **narrow** kernel gives its weight to one or two keys and copies their noise.
# - The **wide** kernel gives weight to every key, so the answer hardly depends on the query.
# - With a **medium** width, enough keys share the weight to average out the noise, and all of them
#   are near.
#
# To find the best width, we measure 26 of them on the fresh points:

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Compare with the sketches. Have somebody put a finger on the row of the query at 4 in
# the left heat map: one strong cell means one key, whose noise is the curve's.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Measures the error of 26 widths on the fresh points
widths = torch.logspace(-1.5, 1, 26)
errors = [fresh_error(with_width(gaussian, width)) for width in widths]
lowest, best = min(zip(errors, widths.tolist(), strict=True))
print(f"best width {best:.2f}, with the error {lowest:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Even the true curve has an error of about 1 on fresh points, which is the variance of the noise.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn the width yourself
#
# Which matters more, the width of a kernel or its shape? Choose a kernel and turn the width. The
# dot on the right marks the error on fresh points.
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
    draw_data(fit, "")
    fit.plot(x_line, prediction, color=OUTPUT)
    draw_weights(heat, weights, vmax=0.1)
    valley.semilogx(widths, errors_of[kernel], color=INK)
    error = fresh_error(stretched)
    figure.suptitle(f"A width of {width:.2f} makes the error {error:.2f}")
    marker, height = ("o", error) if error < 2 else ("^", 1.97)  # an arrow: above the axis
    valley.plot(width, height, marker, markersize=12, color=INK)
    valley.set(xlabel="width", ylabel="error on fresh points", ylim=(0.98, 2))


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

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Finds the smallest error of each kernel
for kernel, errors in errors_of.items():
    smallest = min(errors)
    print(f"{kernel.__name__:12} {smallest:.2f} at width {widths[errors.index(smallest)]:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Every kernel but the constant can reach nearly the same error, at a width of its own. For these
# three, a bad width costs much more than the choice of the shape. (Boxes and triangles cost most
# where they are so narrow that no key is in reach: there the answer is 0.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; three minutes. Gaussian first: the room says where to stop. Then the boxcar and
# the triangle: nearly the same lowest error, at other widths. So the width matters, and the shape
# hardly does, on these data. Ask why the lowest error is not 0: the true curve itself has an error
# of 1.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The weights of the Gaussian kernel
#
# These are the weights of the Gaussian kernel. Where have you met this fraction before?
#
# $$\alpha_j = \frac{e^{-(q-k_j)^2/2}}{\sum_l e^{-(q-k_l)^2/2}}$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# ### The Gaussian kernel is a softmax
#
# There is an exponential above the line, and the sum of all exponentials below it: this is the
# **softmax** of the scores $-(q - k_j)^2/2$. So attention pooling has two steps, first a **score**
# for each pair of query and key, then softmax and average.

# %% [markdown] slideshow={"slide_type": "fragment"}
# A width divides the difference, so width² divides the score, as a temperature does: $T$ is the
# width squared. A narrow kernel is a cold softmax.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Wait for 'softmax', and ask: of which scores? Then, before the last lines: what does
# a width do to the score?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Score, softmax, average
#
# In this form, queries and keys may also be vectors, the rows of matrices with D columns:


# %% slideshow={"slide_type": "-"} tags=["build"]
def gaussian_scores(queries, keys, width):  # (Q, D), (K, D)
    differences = (queries[:, None] - keys) / width  # (Q, K, D)
    return -differences.square().sum(dim=-1) / 2  # (Q, K)


def gaussian_pooling(queries, keys, values, width):  # values (K,)
    weights = gaussian_scores(queries, keys, width).softmax(dim=1)  # (Q, K)
    return weights @ values, weights


# %% [markdown] slideshow={"slide_type": "fragment"}
# While `smooth` was given the whole Gaussian kernel, here the work is divided: the score squares
# the distance, and the softmax takes the exponential.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that score and softmax, kernel and division, and the package give the same
column, key_column = x_fresh[:, None], x_train[:, None]  # (200, 1), (40, 1)
by_softmax = gaussian_pooling(column, key_column, y_train, width=0.32)
by_kernel = smooth(x_train, y_train, x_fresh, with_width(gaussian, 0.32))
torch.testing.assert_close(by_softmax, by_kernel)
scores = d2l_attention.gaussian_score(column, key_column, width=0.32)
by_package, _ = d2l_attention.attention_pooling(scores, y_train[:, None])
torch.testing.assert_close(by_package[:, 0], by_softmax[0])
print("checked: score and softmax, kernel and division, and the package agree")

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Before the last lines: where is the kernel of the old code? A folded cell checks that
# old and new code agree.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From distance to product
#
# To see what a distance has to do with a dot product, multiply the square out:
#
# $$-\tfrac12 \lVert q - k_j \rVert^2
#   = q \cdot k_j \;-\; \tfrac12 \lVert q \rVert^2 \;-\; \tfrac12 \lVert k_j \rVert^2$$
#
# The middle term is the same for every key, so it cancels in the softmax. If all keys have the same
# length, the last term cancels as well. What remains is the **dot product** $q \cdot k_j$, the
# score of chapter 3 and, divided by $\sqrt d$, of the Transformer.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the nearest key and the one with the largest product, for equal and for unequal lengths
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.2), sharex=True, sharey=True)
asked, turns, arc = torch.tensor([1.5, 0.75]), torch.tensor([-0.6, 0.25, 0.9, 2.0]), x_line - 1
titles = "Equal lengths: one key wins both", "Unequal lengths: a long key can win"
for ax, longer, title in zip(axes, (1.0, 1.5), titles, strict=True):
    lengths = 1.5 * torch.tensor([[1.0], [1.0], [longer], [1.0]])
    ends = lengths * torch.stack([turns.cos(), turns.sin()], dim=1)
    ax.plot(1.5 * arc[:34].cos(), 1.5 * arc[:34].sin(), color=RULE)
    for end in ends:
        ax.plot([0, end[0]], [0, end[1]], color=KEY, linewidth=1.5)
    ax.plot(*ends.T, "s", markersize=9, color=KEY)
    ax.plot(*asked, "o", markersize=11, color=QUERY)
    ax.text(1.75, 0.72, "query", color=QUERY)
    nearest, largest = (ends - asked).square().sum(dim=1).argmin(), (ends @ asked).argmax()
    for index, name, shift in ((nearest, "nearest", -16), (largest, "largest product", 0)):
        ax.annotate(name, ends[index].tolist(), xytext=(12, shift), textcoords="offset points")
    ax.set(title=title, xlim=(-1.6, 4.2), aspect="equal")
    ax.axis("off")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: twice four keys as lines from one point, and a query. Left, all keys end on a circle, and
# the key nearest to the query also has the largest product with it. Right, another key is longer:
# it has the largest product now, though it is farther from the query.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for each term: does it differ from key to key? In the picture, which key has the
# largest product once the long one is as short as the others? Exercise 2.7 has the numbers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A query far from every key
#
# **Predict.** A castle of **2000 m²** is to let, and the Gaussian has width 20. On paper the two
# routes, kernel and division or score and softmax, are equal. What does each of them give?

# %% slideshow={"slide_type": "fragment"}
castle = torch.tensor([2000.0])
print("kernel and division", smooth(sizes, rents, castle, with_width(gaussian, 20))[0])
print("score and softmax  ", gaussian_pooling(castle[:, None], sizes[:, None], rents, 20)[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Kernel and division give NaN, score and softmax give 800 €. The nearest flat is 97.5 widths away,
# and $e^{-97.5^2/2}$ is so small that it is rounded to zero, so we divide 0 by 0 again. PyTorch's
# softmax, however, first subtracts the largest score from all scores, as in chapter 1. One
# exponential is therefore $e^0 = 1$, and the nearest flat gets all the weight.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. The room has just learned that the two are equal, so expect 'the same, 800'. Show the
# numbers, wait for the protest, then explain. (800 € for a castle is still a poor price: a softmax
# always answers.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Learn the width
#
# To choose one width, we tried 26. A network has millions of numbers to choose, so it uses
# gradient descent: predict, measure the error, and step against its gradient. To keep the width
# positive, we step on its **logarithm**. The 40 points are the keys, and they serve as the queries
# as well.
#
# **Predict.** The best width on fresh points was 0.32. Gradient descent starts at width 1. Does it
# arrive near 0.32, far above it, or far below?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The usual wrong vote is 'near 0.32', because the room forgets that the queries are
# among the keys. Let it stumble.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Gradient descent on the width


# %% slideshow={"slide_type": "skip"}
def learn_width(keys, values, pooling, steps=400):  # enough steps to see where it goes
    log_width, widths, errors = torch.zeros(keys.shape[1], requires_grad=True), [], []  # (D,)
    for _ in range(steps):
        prediction, weights = pooling(keys, values, log_width.exp())
        error = (prediction - values).square().mean()
        widths.append(log_width.exp().tolist())
        errors.append(error.item())
        (gradient,) = torch.autograd.grad(error, log_width)  # of the error, by log_width
        # A step with the learning rate 0.2, cut off from the steps before it
        log_width = (log_width - 0.2 * gradient).detach().requires_grad_()
    return torch.tensor(widths), errors, weights.detach()  # (steps, D), list, (K, K)


def all_points(keys, values, width):  # the keys are the queries as well
    return gaussian_pooling(keys, keys, values, width)


# %% slideshow={"slide_type": "-"}
keys = x_train[:, None]  # (40, 1)
own_widths, own_errors, own_weights = learn_width(keys, y_train, all_points)
for step, (width, error) in enumerate(zip(own_widths, own_errors, strict=True)):
    if step in (0, 20, 50, 100, 399):
        print(f"step {step:3}  width {width.item():.3f}  own error {error:.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Far below: after 400 steps it is at 0.004, and the error that training minimises is almost 0.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The loop is on the student's page. Point at the falling error: 'Are you happy?' Give
# them a minute to find out what went wrong; somebody says 'it looks at itself'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The learned width on fresh points
#
# Is 0.004 a good width? Let us compare it with 0.32 on the fresh points, and also measure how much
# weight each of the 40 points gives to itself.


# %% slideshow={"slide_type": "fragment"}
for width in (own_widths[-1].item(), 0.32):
    answers, _ = gaussian_pooling(x_fresh[:, None], keys, y_train, width)
    print(f"width {width:.3f}: error on fresh points {(answers - y_fresh).square().mean():.2f}")
print(f"mean weight of a point on itself {own_weights.diagonal().mean().item():.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# On fresh points the learned width is much worse than 0.32, and the last line shows why. When point
# 7 is the query, it is also among the keys, at distance **0**, where its score is the highest
# possible. The narrower the width, the more exactly each point copies its own answer. It is an exam
# with the solution on the desk.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask how each point could be kept from its own answer. 'Remove it' is right, but that
# means 40 databases, while a mask does it in one product.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Leave-one-out: hide each point from itself
#
# The cure is a **mask**: True where a query may attend to a key, False where it may not. Hidden
# pairs get a score of $-\infty$ and therefore weight 0. If every point is hidden from itself, each
# is predicted from all the others, which statisticians call *leave-one-out*.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def other_points(keys, values, width):
    mask = ~torch.eye(len(keys), dtype=torch.bool)  # (K, K): False on the diagonal
    scores = gaussian_scores(keys, keys, width).masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=1)  # e to the power -inf is 0
    return weights @ values, weights


# %% [markdown] slideshow={"slide_type": "skip"}
# The loop stays the same; only the pooling changes:


# %% slideshow={"slide_type": "skip"}
other_widths, _, other_weights = learn_width(keys, y_train, other_points)
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
right.set_title("Masked, it uses its neighbours")
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
# Large models face the same trap. A language model that can *see* the next word, which it should
# predict, learns to copy it. The cure is again a mask, as chapter 4 shows.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A width for each feature
#
# So far, a key was one number. Now each of 60 points has two, its **features**, both drawn between
# 0 and 5. The value is the curve $f$ of the first feature, with noise. The second is like a **house
# number**, which has no effect on the value. Training, which has to find this out, learns a width
# for each feature, and both start at 1.
#
# **Predict.** Which of the two widths is larger after training?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. 'The house number's width goes to 0' is a common vote ('remove it'). Ask what a width
# of 0 would do: only flats with exactly your house number would count. After the run: the numbers
# lie between 0 and 5, so a width above 5, as in six of the ten draws, is wider than all of them.

# %% slideshow={"slide_type": "fragment"}
for matters in (False, True):  # does the second feature matter?
    found = []
    for seed in range(10):
        torch.manual_seed(seed)
        pairs, noise = torch.rand(60, 2) * 5, torch.randn(60)
        values = f(pairs[:, 0]) + noise + (f(pairs[:, 1]) if matters else 0)
        found.append(learn_width(pairs, values, other_points, steps=1000)[0][-1])
    low, high = torch.stack(found).aminmax(dim=0)
    print(f"matters: {matters}   first width {low[0]:.1f} to {high[0]:.1f}", end=", ")
    print(f"second {low[1]:.1f} to {high[1]:.1f}")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the weights for one query before and after training, in the first of the ten draws
torch.manual_seed(0)
pairs, noise = torch.rand(60, 2) * 5, torch.randn(60)
trained = learn_width(pairs, f(pairs[:, 0]) + noise, other_points, steps=1000)[0][-1]
middle = torch.tensor([[2.5, 2.5]])
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharex=True, sharey=True)
titles = "Both widths 1: a round kernel", "Trained: the house number hardly counts"
for ax, both, title in zip(axes, (torch.ones(2), trained), titles, strict=True):
    weights = gaussian_scores(middle, pairs, both).softmax(dim=1)[0]
    ax.scatter(*pairs.T, s=15 + 2500 * weights, color=WEIGHT, alpha=0.6)
    ax.plot(*middle.T, "o", markersize=11, color=QUERY)
    ax.set(xlabel="first feature", title=title)
axes[0].set_ylabel("house number")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: twice the 60 points in the plane of their two features, with a query in the middle; a
# point is as large as its weight. Before training, the points around the query are large. After
# training, the large points form an upright band: near in the first feature, at any house number.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The house number has the larger width, in 10 of 10 draws. Divided by a larger width, house numbers
# look more alike, so the model has learned to pay them less attention, although nobody told it what
# matters. Where the second feature matters as much as the first, its width became small as well in
# these 10 draws.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A learned matrix
#
# To divide each feature by its width is to multiply by a diagonal matrix, and the learned score is
#
# $$-\tfrac12 \lVert M q - M k_j \rVert^2
#   \qquad\text{with}\qquad M = \begin{pmatrix} 1/w_1 & 0 \\ 0 & 1/w_2 \end{pmatrix},$$
#
# where $w_1$ and $w_2$ are the widths. So we have learned a **matrix** that queries and keys pass
# through before they meet. In later chapters this matrix is full, and there is one for the queries
# and one for the keys: $W_q$ and $W_k$.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. The point of the chapter: attention learns what should count as near.
# Leave one question open over the break: must the best answer be *like* the question?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A kernel turns the distance between query and key into a similarity. Similarities divided by
#   their sum are attention weights. Where no key is in reach, there is no good answer.
# - The **width** decides: too narrow copies the noise, too wide forgets the question.
# - The weights of the Gaussian kernel are the **softmax** of the scores $-(q-k)^2/2$, and width² is
#   its temperature.
# - The width can be **learned**, if each point is hidden from itself. In 40 of 50 draws its error
#   was then at most 10% above the best of 26 widths; that of the width at the start, in 2.
# - With a width for each feature, the house number got the larger width in 10 of 10 draws. These
#   widths act like a small $W_q$ and $W_k$.
# - For keys of equal length, the Gaussian score and the **dot product** give the same weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the two steps of attention pooling: score; softmax and average. Homework:
# exercises 2.1, 2.3 and 2.5.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or wrong, as often as you
# like. `hint("2.1")` helps a little, and a little more each time; `solution("2.1")` shows a
# solution and says why it is right. The exercises are in the order of their difficulty.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.1** · by hand
#
# The keys 0, 1 and 3 have the values 6, 2 and 4. The kernel is the triangle of width 2, and the
# query is 1. Give the weights of the three keys, in this order, and then the prediction: one list
# of four numbers, to three decimals or as fractions such as `1 / 3`.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.2** · complete a function
#
# Complete `parabola`: $\max(1 - x^2, 0)$ for every entry of a tensor of any shape and floating
# dtype, as a new tensor of the same shape and dtype. At $x = -3$ it gives 0, and at $x = 300$ as
# well, even in half precision.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.3** · find the bug
#
# `smooth` runs without a message, but its predictions are wrong. Repair it, so that it returns
# `(prediction, weights)` of shapes (Q,) and (Q, K), with one row of weights per query. `kernel`
# gets query minus key, and may be larger on one side than on the other. A query with no key in
# reach (all its similarities are exactly 0) gets weights 0 and prediction 0, and no other query
# changes.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.4** · predict, then measure
#
# The keys are 0, 0.1, 0.2, ..., 10, the query is 5, and the kernel is the Gaussian. By what factor
# does the effective number of keys, $1/\sum_j \alpha_j^2$, grow when the width doubles from 0.25 to
# 0.5: about 1.4, 2 or 4? Write your prediction down, then measure the number at both widths, to one
# decimal. Give a list: factor, number at width 0.25, number at width 0.5.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.7** · derive with a pencil
#
# All keys have length 1. Expand the Gaussian score:
# $-\tfrac12\lvert q - k\rvert^2 = q \cdot k + c$, where $c$ is the same number for every key, so
# that it cancels in the softmax. Take $q = (1, 2)$ and the keys $(1, 0)$, $(0, 1)$, $(0.6, 0.8)$.
# Give four numbers: $c$, and then the dot product of $q$ with each of the three keys. Which key
# wins by distance, and which by dot product?

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.5** · complete a function
#
# Complete `leave_one_out_error` for `x` and `y` of shape (K,), K ≥ 2, and a `width` above 0, a
# number or a tensor: the mean squared error of Gaussian attention pooling when each point is
# predicted from all the others. It returns a tensor of shape (), and where `width` is a tensor, the
# gradient reaches it. It stays right for points any number of widths apart.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.6** · write the test
#
# Complete `test_pooling` for functions called like
# `nadaraya_watson(x_train, y_train, x_val, kernel)`. It should pass every right one, even where
# numbers differ in the seventh digit, and fail with an `assert` on four broken ones: division by
# the sum over the queries instead of the keys; no division at all; weights of shape (K, Q); NaN for
# a query with no key in reach.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Going further
#
# These four sections can be read in any order.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Which kernel is best?
#
# *2 minutes.* To compare the kernels fairly, give each but the constant its own best width on each
# of twenty draws. The average of the twenty best errors then hardly depends on the kernel:

# %% slideshow={"slide_type": "skip"}
tried = torch.logspace(-1.5, 1, 26)
for kernel in (gaussian, boxcar, epanechikov):
    best_errors = [
        min(fresh_error(with_width(kernel, width), drawn) for width in tried)
        for drawn in map(draw, range(20))
    ]
    print(f"{kernel.__name__:12} {sum(best_errors) / 20:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# For these data the width matters, and the shape hardly does. By the way, Epanechnikov's own kernel
# of 1969 is a parabola, $\max(1 - x^2, 0)$ up to a factor and a width. We keep the book's name for
# the triangle, and its spelling.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The learned width on fifty new draws
#
# *1 minute.* Is the learned width good on other draws as well? To find out, we divide its error on
# fresh points by that of the best of the 26 widths, which is chosen *with* the fresh points. Two
# other widths are compared with it: 1, where the training starts, and 0.32, which was best on our
# first draw.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Learns the width on fifty new draws, and compares three widths with the best of 26
ratios = []
for seed in range(1, 51):
    drawn = draw(seed)
    learned = learn_width(drawn[0][:, None], drawn[1], other_points)[0][-1].item()
    errors = [fresh_error(with_width(gaussian, w), drawn) for w in (learned, 1.0, 0.32, *widths)]
    ratios.append([error / min(errors[3:]) for error in errors[:3]])
print("width     at most 10% above the best     median ratio   worst ratio")
for name, ratio in zip(("learned", "1", "0.32"), torch.tensor(ratios).T, strict=True):
    close = f"{(ratio < 1.1).sum()} of 50 draws"
    print(f"{name:9} {close:29} {ratio.median():13.2f} {ratio.max():13.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# In 40 of the 50 draws the learned width is almost as good as the best, and the width at the start
# in 2. But in the worst draw its error is twice as high: 40 noisy points are few, and they can
# mislead leave-one-out as well. The width 0.32, kept from the first draw, does better than learning
# anew each time. So use a width that is known from similar data, if there is one.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The effective number of keys
#
# *2 minutes.* Over how many keys does a query spread its weight? One answer is
# $1 / \sum_j \alpha_j^2$, the **effective number of keys**. If five keys share the weight equally,
# it is 5, and if one key has everything, it is 1. Exercise 2.4 uses it.

# %% slideshow={"slide_type": "skip"}
for width in (0.02, 0.05, 0.32, 3.0):
    _, weights = gaussian_pooling(x_fresh[:, None], x_train[:, None], y_train, width)
    effective = 1 / weights.square().sum(dim=1)
    print(f"width {width:4}: {effective.mean().item():4.1f} of 40 keys on average")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### An adaptive width
#
# *10 minutes.* The 40 points are spread evenly. Real data rarely are: there are many small flats
# and few large ones. Below, 60 points crowd between 0 and 1, where the curve swings, and only 15
# lie between 1 and 6, where it rises slowly. One idea (the book points to Silverman, 1986) is to
# let the data set the width: each query takes the distance to its **fourth nearest** key as its
# width. In code, the width then becomes a tensor with one entry per query.


# %% slideshow={"slide_type": "skip"}
def swing(x):
    return torch.where(x < 1, 2 * torch.sin(4 * math.pi * x), 0.2 * (x - 1))


def distance_to_neighbour(queries, keys, k):
    distances = (queries[:, None] - keys).abs()  # (Q, K)
    return distances.kthvalue(k, dim=1).values[:, None, None]  # (Q, 1, 1)


def pooled(queries, keys, values, width):
    return gaussian_pooling(queries[:, None], keys[:, None], values, width)[0]


def uneven(seed, curve=swing):
    torch.manual_seed(seed)
    keys = torch.cat([torch.rand(60), 1 + 5 * torch.rand(15)]).sort().values
    queries = torch.cat([torch.rand(300), 1 + 5 * torch.rand(300)])  # crowded half, sparse half
    noisy = [curve(x) + 0.7 * torch.randn(len(x)) for x in (keys, queries)]
    return keys, noisy[0], queries, noisy[1]


keys, values, queries, answers = uneven(seed=0)

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
# Is its error also lower, and is that more than luck? On twenty new draws the fourth key's
# distance, fixed in advance, competes with the best of eleven single widths, chosen *after* seeing
# the exam. To see whether the uneven keys alone are the reason, the same contest is held once more
# on a straight line.

# %% slideshow={"slide_type": "skip"}
single = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.4, 0.8)


def slope(x):
    return 0.2 * x


for curve in (swing, slope):
    wins = 0
    for seed in range(1, 21):
        keys, values, queries, answers = uneven(seed, curve)
        fourth = distance_to_neighbour(queries, keys, k=4)
        errors = [
            (pooled(queries, keys, values, width) - answers).square().mean().item()
            for width in (fourth, *single)
        ]
        wins += errors[0] < min(errors[1:])
    print(f"{curve.__name__}: the fourth key's distance wins {wins} of 20 times")

# %% [markdown] slideshow={"slide_type": "skip"}
# On our curve it wins 19 of 20, which is more than luck. On the straight line, whose keys are as
# uneven, it wins none. So it helps because our curve swings where the data are dense and is calm
# where they are sparse. A swing between two keys that are far apart would be lost at any width.

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
