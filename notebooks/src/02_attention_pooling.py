# %% [markdown] slideshow={"slide_type": "slide"}
# # 2 · Attention pooling by similarity
#
# **You will**
# - compute attention weights from distances, by hand and in three lines of code;
# - find the width that makes such weights useful, and train it by gradient descent;
# - see how training fails where points attend to themselves, and repair it with a mask.
#
# Core path: 45 minutes. Going further: 15. Exercises: 69. Builds on chapter 1. *Dive into Deep
# Learning* (D2L), section 11.2.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math

import matplotlib.pyplot as plt
import torch
from ipywidgets import FloatLogSlider

import d2l_attention
from d2l_attention.views import explore
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
set_style()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# From chapter 1: a database holds pairs of a **key** and a **value**. A **query** gives each pair
# an attention weight. The weights are not negative and sum to one, and the answer is the weighted
# average of the values. With the weights 0.3 and 0.7 and the values 10 and 20 the answer is
# $0.3 \cdot 10 + 0.7 \cdot 20 = 17$.
#
# The **softmax** makes such weights from any scores: take $e$ to the power of each score and divide
# by the sum. The scores 0 and 1 become $1/(1+e) = 0.27$ and $e/(1+e) = 0.73$. Chapter 1 took its
# scores from distances without saying why. This chapter says why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What rent do you ask?
#
# You let a flat of **35 m²**. Three flats in the street are let already:
#
# | size | rent |
# |---|---|
# | 20 m² | 400 € |
# | 30 m² | 600 € |
# | 50 m² | 700 € |
#
# **Predict.** What rent do you ask? Write a number down, and say how you found it.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Collect four or five numbers on the board before you go on; 2 minutes. Expect about 625: the
# straight line from the 30 m² flat to the 50 m² flat. Somebody says 600, the nearest flat. Somebody
# takes the average, 567. Keep all three: each comes back as a kernel or a width.

# %% [markdown] slideshow={"slide_type": "subslide"}
# You compared the **sizes** to decide which flats matter. Then you mixed their **rents**. So 35 m²
# is the query, the known sizes are the keys, and the rents are the values.
#
# Here is one rule for 'similar'. The similarity is 1 at distance 0 and falls in a straight line to
# 0 at a distance of 20 m². A weight is a similarity divided by the sum of all similarities.
#
# | size | distance to 35 | similarity | weight | weight × rent |
# |---|---|---|---|---|
# | 20 | 15 | 0.25 | 0.25 / 1.25 = 0.2 | 80 |
# | 30 | 5 | 0.75 | 0.75 / 1.25 = 0.6 | 360 |
# | 50 | 15 | 0.25 | 0.25 / 1.25 = 0.2 | 140 |
# | | | sum 1.25 | sum 1 | **580 €** |

# %% [markdown] slideshow={"slide_type": "subslide"}
# A rule that turns a distance into a similarity is called a **kernel**, $s$. With it the
# answer to the query $q$ is
#
# $$\text{answer}(q) = \sum_i \alpha_i\, v_i, \qquad
#   \alpha_i = \frac{s(q - k_i)}{\sum_j s(q - k_j)}$$
#
# Nadaraya and Watson published this formula in 1964, independently of each other. It is attention
# pooling, fifty years before a neural translator used it. In code it is three lines:


# %% slideshow={"slide_type": "-"} tags=["build"]
def smooth(x_train, y_train, x_val, kernel):  # keys (K,), values (K,), queries (Q,)
    similarity = kernel(x_val[:, None] - x_train)  # (Q, K)
    weights = similarity / similarity.sum(dim=1, keepdim=True)  # each row sums to one
    return weights @ y_train, weights  # (Q,), (Q, K)


# %% [markdown] slideshow={"slide_type": "skip"}
# Does it find the 580 € of the table?


# %% slideshow={"slide_type": "subslide"}
def triangle_20(difference):  # 1 at distance 0, and 0 from a distance of 20 on
    return (1 - difference.abs() / 20).clamp(min=0)


sizes = torch.tensor([20.0, 30.0, 50.0])
rents = torch.tensor([400.0, 600.0, 700.0])
query = torch.tensor([35.0])
rent, weights = smooth(sizes, rents, query, triangle_20)
print(f"weights {[round(w, 2) for w in weights[0].tolist()]}   rent {rent.item():.0f}")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the flats, and below them their similarity to the query
grid = torch.arange(5.0, 66.0)
figure, (top, bottom) = plt.subplots(2, 1, figsize=(6.5, 4.2), sharex=True)
top.plot(sizes, rents, "o", markersize=10, color="black", label="known flats")
top.plot(query, rent, "*", markersize=18, color="C1", label="our flat")
top.set(ylabel="rent (€)", ylim=(300, 800))
top.set_title("The sizes decide the weights, the rents are averaged")
top.legend(loc="lower right")
bottom.fill_between(grid, triangle_20(grid - query), color="C0", alpha=0.3)
bottom.vlines(sizes, 0, triangle_20(sizes - query), color="black")
bottom.plot(sizes, triangle_20(sizes - query), "o", markersize=10, color="black")
bottom.set(xlabel="size (m²)", ylabel="similarity to 35 m²", ylim=(0, 1.05))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: above, three known flats as dots and the predicted 580 € at 35 m² as a star. Below, a
# triangle centred on the query. Its height at each known size is the similarity of that flat: 0.25,
# 0.75 and 0.25.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# Tomorrow a fourth flat is let: 36 m² for 800 €.
#
# **Predict.** Our answer was 580 €. Does it move by less than 50 €, or by more? And what has to be
# trained again?

# %% slideshow={"slide_type": "fragment"}
more_sizes = torch.cat([sizes, torch.tensor([36.0])])
more_rents = torch.cat([rents, torch.tensor([800.0])])
new_rent, new_weights = smooth(more_sizes, more_rents, query, triangle_20)
print(f"rent {new_rent.item():.0f}   weight of the new flat {new_weights[0, 3].item():.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The answer moves from 580 € to 675 €, because the new flat is almost ours and takes 43% of the
# weight. Nothing was trained, so nothing has to be trained again: the 'model' is the table itself.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Hands up for 'less than 50', then for 'more'. Expect most for less: it is one flat in four. Then
# ask the second question and wait. Who knows regression wants to fit again, and there is nothing
# to fit.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four kernels
#
# The triangle was one choice. The book uses four kernels, the triangle among them under the name
# of Epanechikov. Each is one line.


# %% slideshow={"slide_type": "-"} tags=["build"]
def gaussian(x):  # every key counts, near ones most
    return torch.exp(-(x**2) / 2)


def boxcar(x):  # all keys nearer than 1 count alike
    return (x.abs() < 1).to(x.dtype)


def constant(x):  # all keys count alike
    return torch.ones_like(x)


def epanechikov(x):  # falls in a straight line to 0
    return (1 - x.abs()).clamp(min=0)


# %% [markdown] slideshow={"slide_type": "skip"}
# The package has the four kernels under the same names, and our function under the name
# `nadaraya_watson`. They compute the same:

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the package computes the same
kernels = (gaussian, boxcar, constant, epanechikov)
queries = torch.linspace(20, 50, 31)
for kernel in kernels:

    def of_width_20(difference, kernel=kernel):
        return kernel(difference / 20)

    ours = smooth(sizes, rents, queries, of_width_20)
    package = d2l_attention.nadaraya_watson(sizes, rents, queries, of_width_20)
    torch.testing.assert_close(ours, package)
    assert torch.equal(kernel(queries - 35), getattr(d2l_attention, kernel.__name__)(queries - 35))
print("checked: equal for 31 queries and 4 kernels")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the four kernels
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

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Books often write a factor such as $\tfrac34$ in front of a kernel. Multiply the
# triangle by $\tfrac34$. Does the rent of 580 € shrink to three quarters, change a little, or stay?


# %% slideshow={"slide_type": "fragment"}
def three_quarters(difference):
    return 0.75 * triangle_20(difference)


rent, _ = smooth(sizes, rents, query, three_quarters)
print(f"with the factor {rent.item():.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The rent stays, because the factor is in every similarity and in their sum, and the division
# cancels it. What matters is the *shape* of a kernel and its *width*. The rest of the chapter asks
# which of the two matters more.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Expect votes for 'shrinks'. Point at the sum in the denominator: the same factor is above and
# below. In chapter 3 the same cancellation removes a whole term of a score.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## When nobody is near
#
# A loft of **120 m²** is to let, and we use the boxcar with a width of 20 m². The largest known
# flat has 50 m², so all three similarities are 0.
#
# **Predict.** What are the three weights?


# %% slideshow={"slide_type": "fragment"}
def boxcar_20(difference):
    return boxcar(difference / 20)


loft = torch.tensor([120.0])
rent, weights = smooth(sizes, rents, loft, boxcar_20)
print("ours        weights", weights[0].tolist(), "  rent", rent.item())
rent, weights = d2l_attention.nadaraya_watson(sizes, rents, loft, boxcar_20)
print("the package weights", weights[0].tolist(), "  rent", rent.item())

# %% [markdown] slideshow={"slide_type": "subslide"}
# Our three lines, like the book's, divide 0 by 0. The result is NaN, 'not a number', and it
# spreads: one NaN makes the mean of a whole batch NaN. This is what the package adds: a query that
# has nobody to ask gets weights 0, here and in every later chapter.
#
# A rent of 0 € is no prediction either. Look at the sum of the weights: 1 means that there is an
# answer, 0 means that there is none.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote between an error, 0, NaN and the average; one minute. Then ask what a website should show the
# owner of the loft. No number is right; the site must know that it has none.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The width decides
#
# Three flats are too few to judge a width. We take the book's data: 40 points on the curve $f(x) =
# 2\sin x + x$, each with noise of standard deviation 1. Another 200 **fresh** points are kept for
# the exam: no prediction may use them.


# %% slideshow={"slide_type": "fragment"}
def f(x):
    return 2 * torch.sin(x) + x


torch.manual_seed(0)
x_train = (torch.rand(40) * 5).sort().values  # keys
y_train = f(x_train) + torch.randn(40)  # values
x_fresh = torch.rand(200) * 5
y_fresh = f(x_fresh) + torch.randn(200)

# %% [markdown] slideshow={"slide_type": "subslide"}
# To change a kernel's **width**, divide the difference by the width before it enters the kernel.
# The picture shows three widths of the Gaussian kernel, the fits above and the weights below.


# %% slideshow={"slide_type": "skip"}
def with_width(kernel, width):
    return lambda difference: kernel(difference / width)


def fresh_error(kernel):  # # on the 200 fresh points; the package never gives NaN
    prediction, _ = d2l_attention.nadaraya_watson(x_train, y_train, x_fresh, kernel)
    return (prediction - y_fresh).square().mean().item()


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws fits and weights at three widths
x_line = torch.arange(0, 5, 0.1)


def draw_fit(ax, prediction, title):
    ax.plot(x_train, y_train, "o", color="0.65", label="data")
    ax.plot(x_line, f(x_line), "k--", linewidth=1.5, label="truth")
    ax.plot(x_line, prediction, color="C0", label="prediction")
    ax.set(title=title, xlabel="x")


def draw_weights(ax, weights, vmax):
    heatmap(ax, weights, vmax=vmax)
    ax.set_yticks(range(0, 50, 10), ["0", "1", "2", "3", "4"])
    ax.set_xticks(torch.searchsorted(x_train, torch.arange(1.0, 5.0)), ["1", "2", "3", "4"])
    ax.set_xlabel("key at x =")


figure, axes = plt.subplots(2, 3, figsize=(9.6, 6.4), sharey="row")
for (top, bottom), width in zip(axes.T, (0.05, 0.32, 3.0), strict=True):
    kernel = with_width(gaussian, width)
    prediction, weights = smooth(x_train, y_train, x_line, kernel)
    draw_fit(top, prediction, f"width {width}: error {fresh_error(kernel):.1f}")
    draw_weights(bottom, weights, vmax=0.3)
axes[0, 0].set_ylabel("y")
axes[1, 0].set_ylabel("query at x =")
figure.colorbar(axes[1, 0].images[0], ax=axes[1], label="weight", extend="max")
handles = axes[0, 0].get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
figure.suptitle("Too narrow copies the noise, too wide forgets the question")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three widths side by side. Width 0.05: a jagged curve through nearly every point, and a
# thin dark band of weights. Width 0.32: a smooth curve near the truth, and a soft band. Width 3: an
# almost flat line, and weights spread over all keys.*

# %% [markdown] slideshow={"slide_type": "-"}
# - A **narrow** kernel asks one or two keys, and their noise becomes its noise.
# - A **wide** kernel asks everybody, and the answer hardly depends on the question.
# - Between them enough neighbours are asked to average the noise away, and all of them are near.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Before the picture: let the room describe the curve at width 0.05 and at width 3. Then have
# somebody put a finger on the row of the query at 4 in the left heat map: one dark cell, so one
# key, and its noise is the curve's.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Which width is best? We try 26 widths and measure two errors: on the 40 training points
# themselves, and on the 200 fresh points.
#
# **Predict.** One of the two errors chooses a bad width. Which one, and is that width too narrow or
# too wide?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes, in pairs, and let one pair draw both curves on the board. The hint, if they are
# stuck: how wrong is a very narrow width on a point that is among its own keys?

# %% slideshow={"slide_type": "skip"}
widths = torch.logspace(-1.5, 1, 26)
train_errors, fresh_errors = [], []
for width in widths:
    kernel = with_width(gaussian, width)
    prediction, _ = smooth(x_train, y_train, x_train, kernel)
    train_errors.append((prediction - y_train).square().mean().item())
    fresh_errors.append(fresh_error(kernel))
best = min(range(26), key=lambda i: fresh_errors[i])
chosen = min(range(26), key=lambda i: train_errors[i])
print(f"best on fresh points     width {widths[best]:.2f}: error {fresh_errors[best]:.2f}")
print(f"best on its own points   width {widths[chosen]:.2f}: error {fresh_errors[chosen]:.2f}")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws both errors against the width
noise = (f(x_fresh) - y_fresh).square().mean().item()
figure, ax = plt.subplots(figsize=(7.5, 3.7))
ax.semilogx(widths, train_errors, "--", color="C1", label="on its own 40 points")
ax.semilogx(widths, fresh_errors, color="C0", label="on 200 fresh points")
ax.plot(widths[best], fresh_errors[best], "o", markersize=10, color="C0")
ax.annotate(f"best: {widths[best]:.2f}", (widths[best], fresh_errors[best] - 0.25), ha="center")
ax.axhline(noise, color="0.5", linewidth=1, linestyle=":")
ax.text(10, noise + 0.03, "the true curve", ha="right", color="0.3")
ax.set(xlabel="width (log scale)", ylabel="mean squared error", ylim=(0, 2.2))
ax.set_title("On its own points the narrowest width wins, on fresh points it does not")
ax.legend(loc="upper left", bbox_to_anchor=(0.3, 1.0), frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: error against width. The dashed training error falls as the width shrinks. The solid
# error on fresh points is a valley: high on the left, lowest at width 0.32, high again on the
# right. It stays above the dotted line, the error of the true curve.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The error on its own points chooses the narrowest width that we offer, and so it copies the noise.
# Even the true curve has an error of about 1 on fresh points: that is the noise, and nobody can
# predict it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn the width yourself
#
# Choose a kernel and turn the width. The left panel shows the fit, the middle one the weights, and
# the right one the error on fresh points, with a dot at your width.
#
# **Question.** Make the width as small as you can, once with the Gaussian and once with the boxcar.
# What do the white rows of the heat map mean?


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows fit, weights and error for a kernel and a width
errors_of = {
    kernel: [fresh_error(with_width(kernel, width)) for width in widths] for kernel in kernels
}


def tune(figure, kernel=gaussian, width=1.0):
    fit, heat, valley = figure.subplots(1, 3)
    stretched = with_width(kernel, width)
    prediction, weights = d2l_attention.nadaraya_watson(x_train, y_train, x_line, stretched)
    draw_fit(fit, prediction, "prediction")
    draw_weights(heat, weights, vmax=0.3)
    heat.set(title="weights", ylabel="query at x =")
    valley.semilogx(widths, errors_of[kernel], color="C0")
    valley.plot(width, fresh_error(stretched), "o", markersize=12, color="black")
    valley.set(title=f"error {fresh_error(stretched):.2f}", xlabel="width", ylim=(0, 5))


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
# A white row belongs to a query with no key in reach. The boxcar and the triangle end at their
# width, the Gaussian only far out.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Start with the Gaussian and let the room say where to stop. Then take the boxcar and go slowly to
# the left, until the heat map shows its first white rows: queries with nobody in reach.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The Gaussian kernel is a softmax
#
# Look at the weights that the Gaussian kernel gives:
#
# $$\frac{e^{-(q-k_i)^2/2}}{\sum_j e^{-(q-k_j)^2/2}}$$
#
# There is an exponential above, and the sum of all exponentials below. This is the **softmax** of
# the scores $-(q - k_i)^2/2$. So attention pooling has two steps: first a **score** for each pair
# of query and key, then softmax and average. A width divides the difference, so width² divides the
# score: it is the temperature $T$ of chapter 1. A narrow kernel is a cold softmax. (The function
# below also takes a mask, which hides pairs. The next section needs it.)


# %% slideshow={"slide_type": "subslide"} tags=["build"]
def gaussian_pooling(queries, keys, values, width, mask=None):  # (Q,), (K,), (K,)
    scores = -(((queries[:, None] - keys) / width) ** 2) / 2  # (Q, K)
    if mask is not None:  # (Q, K), True = may attend
        scores = scores.masked_fill(~mask, -math.inf)  # e to the power -inf is 0
    weights = scores.softmax(dim=1)  # (Q, K), each row sums to one
    return weights @ values, weights


# %% [markdown] slideshow={"slide_type": "skip"}
# The package has the two steps as functions, `gaussian_score` and `attention_pooling`. They take
# keys that are vectors, rows of a (K, D) matrix. In this chapter D is 1. They have the same answer
# as our two functions with the Gaussian kernel:

# %% slideshow={"slide_type": "-"}
prediction, weights = gaussian_pooling(x_fresh, x_train, y_train, width=0.32)
by_kernel = smooth(x_train, y_train, x_fresh, with_width(gaussian, 0.32))
torch.testing.assert_close((prediction, weights), by_kernel)

scores = d2l_attention.gaussian_score(x_fresh[:, None], x_train[:, None], width=0.32)
by_package, _ = d2l_attention.attention_pooling(scores, y_train[:, None])
torch.testing.assert_close(by_package[:, 0], prediction)
print("kernel and division = score and softmax = the package, for 200 queries")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** A castle of **2000 m²** is to let, and the Gaussian has a width of 20 m². The two
# routes are equal on paper. What does each answer: kernel and division, and score and softmax?

# %% slideshow={"slide_type": "fragment"}
castle = torch.tensor([2000.0])
by_kernel, _ = smooth(sizes, rents, castle, with_width(gaussian, 20.0))
by_softmax, weights = gaussian_pooling(castle, sizes, rents, 20.0)
print(f"kernel and division {by_kernel.item():.0f}   score and softmax {by_softmax.item():.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The nearest flat is 97.5 widths away, and $e^{-97.5^2/2}$ is too small for the computer: it
# becomes zero. From about 14 widths on, a Gaussian kernel in 32 bits is zero, and we divide 0 by 0
# again. PyTorch's softmax first subtracts the largest score from all scores. On paper that changes
# nothing. In the computer it keeps one exponential at $e^0 = 1$, and the nearest flat gets all the
# weight.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute. The room has just learned that the two are equal, so expect 'the same, 700'. Show the
# numbers, wait for the protest, then explain. (700 € for a castle is still a poor price: a softmax
# always answers.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Learn the width
#
# For one number we can try 26 widths. A network has millions of numbers, so it uses gradient
# descent. The error has a gradient in the width, because score and softmax are smooth. We take a
# step on the **logarithm** of the width, so that no step can make the width negative.
#
# The 40 training points are queries *and* keys: each asks all of them for its own $y$.


# %% slideshow={"slide_type": "subslide"}
def learn_width(x, y, mask=None, steps=400):
    log_width = torch.zeros((), requires_grad=True)  # start at width 1
    widths, errors = [], []
    for _ in range(steps):
        prediction, weights = gaussian_pooling(x, x, y, log_width.exp(), mask)
        error = (prediction - y).square().mean()
        (gradient,) = torch.autograd.grad(error, log_width)
        widths.append(log_width.exp().item())
        errors.append(error.item())
        with torch.no_grad():
            log_width -= 0.2 * gradient
    return widths, errors, weights.detach()


# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** The best width on fresh points was 0.32. Gradient descent starts at width 1. Does it
# arrive near 0.32, far above it, or far below?

# %% slideshow={"slide_type": "fragment"}
seen_widths, seen_errors, seen_weights = learn_width(x_train, y_train)
for step in (0, 20, 50, 100, 399):
    print(
        f"step {step:3d}   width {seen_widths[step]:.3f}   training error {seen_errors[step]:.2f}"
    )
prediction, _ = gaussian_pooling(x_fresh, x_train, y_train, seen_widths[-1])
print(f"error on fresh points {(prediction - y_fresh).square().mean().item():.1f}")
print(f"mean weight of a point on itself {seen_weights.diagonal().mean().item():.2f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Cover the last two lines. Stop at the falling training error and ask: 'Are you happy?' The usual
# wrong vote is 'near 0.32': the room forgets that the queries are among the keys. Give two minutes
# to find out why before you go on; somebody says 'it looks at itself'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The training error is 0, but on fresh points the error is worse than with any of the 26 widths.
# And the width is still shrinking at the last step.
#
# The reason is in the last line. Point 7 asks for its own $y$, and point 7 is among the keys at
# distance **0**. No other key can have a higher score. The narrower the width, the more exactly
# each point copies its own answer. It is an exam with the solution on the desk.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The way out is to hide each point from itself. A **mask** says which query may attend to which
# key: True means that it may. Hidden pairs get the score $-\infty$ and so the weight 0.
# Statisticians call this mask *leave-one-out*.
#
# **Predict.** The start and the steps are the same. Where does the width arrive now?

# %% slideshow={"slide_type": "fragment"}
others = ~torch.eye(40, dtype=torch.bool)  # everybody but oneself
hidden_widths, hidden_errors, hidden_weights = learn_width(x_train, y_train, others)
for step in (0, 20, 50, 100, 399):
    print(f"step {step:3d}   width {hidden_widths[step]:.3f}   error {hidden_errors[step]:.2f}")
prediction, _ = gaussian_pooling(x_fresh, x_train, y_train, hidden_widths[-1])
print(f"error on fresh points {(prediction - y_fresh).square().mean().item():.2f}")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws both runs and the learned weights
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6))
left.semilogy(seen_widths, "C1--", label="may see itself")
left.semilogy(hidden_widths, "C0-", label="masked")
left.axhline(widths[best], color="0.5", linewidth=1, linestyle=":")
left.text(400, 0.38, "best on fresh points", ha="right", color="0.3")
left.set(xlabel="step", ylabel="width (log scale)", title="Without a mask it runs towards 0")
left.legend(loc="lower left", frameon=False)
heatmap(right, hidden_weights, vmax=0.3)
right.set(xlabel="key (training point)", ylabel="query (training point)")
right.set_title("Masked, it asks its neighbours")
figure.colorbar(right.images[0], ax=right, label="weight", extend="max")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, the width during training on a log scale. The dashed run without a mask falls below
# 0.01 and is still falling; the solid masked run settles on the dotted line at 0.32. Right, the
# learned weights of the masked run: a soft band with a white diagonal, where each point would see
# itself.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# Does the masked run always find the best width? Here are fifty new draws of the data.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Learns a width on each of fifty draws, and compares it with the best of the 26 widths
excess = []  # error of the learned width / error of the best of the 26 widths
unmasked = []
for seed in range(50):
    torch.manual_seed(seed)
    x, x_exam = torch.rand(40) * 5, torch.rand(200) * 5
    y, y_exam = f(x) + torch.randn(40), f(x_exam) + torch.randn(200)
    learned = learn_width(x, y, others)[0][-1]
    unmasked.append(learn_width(x, y)[0][-1])
    error_of = [
        (gaussian_pooling(x_exam, x, y, width)[0] - y_exam).square().mean().item()
        for width in (learned, *widths)
    ]
    excess.append(error_of[0] / min(error_of[1:]))
excess = torch.tensor(excess)
print(f"median {excess.median():.2f}   within 10% {(excess < 1.1).sum()} of 50", end="   ")
print(f"worst {excess.max():.2f}")
print(f"without a mask every width ends below {max(unmasked):.3f}")

# %% [markdown] slideshow={"slide_type": "-"}
# The numbers are the error of the learned width, divided by the error of the best of the 26
# widths, which was chosen *with* the exam. Mostly the learned width is almost as good. In a few
# draws it is clearly worse: 40 noisy points are few, and they can mislead leave-one-out as well.

# %% [markdown] slideshow={"slide_type": "fragment"}
# You have trained an attention: queries, keys, values, a score with one learned number, a mask, and
# gradient descent. The trap grows with you. A language model learns to predict the next word. If it
# may *see* the next word, it learns to copy. The cure is a mask again (chapter 4).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What should count as near?
#
# Until now a key was one number. Give every point a second one that has nothing to do with its
# value, as a **house number** has nothing to do with a rent. Both numbers are drawn between 0 and
# 5, and the value is the curve $f$ of the first one, with noise. We give each of the two a width
# of its own and learn both by gradient descent, with the leave-one-out mask.
#
# **Predict.** What happens to the width of the house number: does it go to 0, stay near 1, or
# grow?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three votes, two minutes. 'To 0' is a common wish ('remove it'). Ask what a width of 0 would do:
# only flats with exactly your house number would count.


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Learns a width for each coordinate, on five draws
def learn_two_widths(seed, steps=1000):
    torch.manual_seed(seed)
    keys = torch.rand(60, 2) * 5  # column 0 matters, column 1 is the house number
    values = f(keys[:, 0]) + torch.randn(60)
    log_widths = torch.zeros(2, requires_grad=True)
    for _ in range(steps):
        stretched = keys / log_widths.exp()
        scores = -(stretched[:, None] - stretched).square().sum(dim=2) / 2  # (60, 60)
        scores = scores.masked_fill(torch.eye(60, dtype=torch.bool), -math.inf)
        error = (scores.softmax(dim=1) @ values - values).square().mean()
        (gradient,) = torch.autograd.grad(error, log_widths)
        with torch.no_grad():
            log_widths -= 0.2 * gradient
    return log_widths.exp().detach()


for seed in range(5):
    print("first {:.2f}   house number {:.1f}".format(*learn_two_widths(seed).tolist()))

# %% [markdown] slideshow={"slide_type": "fragment"}
# In each of five draws the width of the house number grows to many times the width of the first
# number. In four of them it becomes larger than the whole range of the house numbers. Divided by
# such a width they look almost alike: the model has learned to pay them little attention. Nobody
# told it what matters.
#
# To divide each coordinate by its width is to multiply by the diagonal matrix
# $\mathrm{diag}(1/\text{widths})$. So we have learned a matrix that queries and keys pass through
# before they meet. In later chapters the matrix is full, and there is one for the queries and one
# for the keys: $W_q$ and $W_k$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What comes next
#
# Everything after the score is finished: mask, softmax, average. Chapter 3 keeps these and changes
# one line. The main candidate is the **dot product** $q \cdot k$ as the score.
#
# Take one query $(1, 0)$ and three keys $A = (1, 0)$, $B = (3, 0)$ and $C = (0, 1)$.
#
# **Predict.** Which key wins with the Gaussian score? Which with the dot product?

# %% slideshow={"slide_type": "fragment"}
q = torch.tensor([1.0, 0.0])
k = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
for name, scores in (("Gaussian", -(q - k).square().sum(dim=1) / 2), ("dot product", k @ q)):
    shown = [f"{key} {weight:.2f}" for key, weight in zip("ABC", scores.softmax(0), strict=True)]
    print(f"{name:12} scores {scores.tolist()}   weights {'  '.join(shown)}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Key $A$ equals the query, and the Gaussian score chooses it. The dot product prefers $B$, which
# has the same direction and is longer. Is that a mistake? Chapter 3 answers.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# End here and leave the question open over the break. If somebody objects that the query now wants
# something it is not like: right, and good. A query is a question, and the best answer need not
# look like the question.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A kernel turns the distance of query and key into a similarity. Similarities divided by their
#   sum are attention weights, and the weights average the values. Nothing is trained.
# - The **width** decides: too narrow copies noise, too wide forgets the question. The error on
#   points that see themselves cannot tell; fresh points or leave-one-out can.
# - With the Gaussian kernel this is a **softmax** of the scores $-(q-k)^2/2$, and width² is the
#   temperature.
# - The width can be **learned**, if no point may see itself. With 40 noisy points the error of the
#   learned width was within 10% of the best in most of fifty draws, not in all.
# - The method never leaves the range of its values, keeps all data in memory, and is only as good
#   as its distance. The next chapters learn what is compared.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or wrong, as often as you
# like. `hint("2.1")` helps a little, and a little more each time; `solution("2.1")` shows a
# solution and says why it is right.

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.1** Three weights by hand · *easy, 3 minutes* · by hand
#
# Keys 0, 1, 3 with values 6, 2, 4; triangle kernel of width 2; query 1. Give the weights of the
# three keys, in this order, and then the prediction: one list of four numbers, to three decimals or
# as fractions such as `1 / 3`.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("2.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.2** Epanechnikov's own kernel · *easy, 5 minutes* · complete a function
#
# Complete `parabola`: $\max(1 - x^2, 0)$ for every entry of a tensor of any shape and floating
# dtype, as a new tensor of the same shape and dtype. At $x = -3$ it gives 0, and at $x = 300$ too,
# in half precision as well.


# %% slideshow={"slide_type": "skip"}
def parabola(x):
    """max(1 - x², 0) of every entry: any shape -> the same shape and dtype.

    [-3, 0.5, 0.1] gives [0, 0.75, 0.99].
    """
    ...


check("2.2", parabola)

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.3** The regression that runs, and is wrong · *medium, 8 minutes* · find the bug
#
# `smooth` runs without a message, and its predictions are wrong. Repair it. It returns
# `(prediction, weights)` of shapes (Q,) and (Q, K), one row of weights a query. `kernel` gets query
# minus key, and may be larger on one side than on the other. A query with no key in reach (all its
# similarities are exactly 0) gets weights 0 and prediction 0, and no other query changes.


# %% slideshow={"slide_type": "skip"}
def smooth(x_train, y_train, x_val, kernel):
    similarity = kernel(x_val[:, None] - x_train)
    weights = similarity / similarity.sum(dim=0)
    return weights @ y_train, weights


check("2.3", smooth)

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.4** Twice the width, how many more keys? · *medium, 10 minutes* · predict, then measure
#
# Keys at 0, 0.1, 0.2, ..., 10; one query at 5; Gaussian kernel. By what factor does the effective
# number of keys, $1/\sum_i w_i^2$, grow when the width doubles from 0.25 to 0.5: about 1.4, 2 or
# 4? Write your prediction down, then measure the number at both widths, to one decimal. Give a
# list: factor, number at width 0.25, number at width 0.5.

# %% slideshow={"slide_type": "skip"}
answer = None

check("2.4", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.5** The exam without the solution on the desk · *hard, 15 minutes* · complete a function
#
# Complete `leave_one_out_error` for `x` and `y` of shape (K,), K ≥ 2, and a `width` above 0, a
# number or a tensor: the mean squared error of Gaussian attention pooling when each point is
# predicted from all the others. It returns a tensor of shape (); where `width` is a tensor, the
# gradient reaches it. It stays right for points any number of widths apart.


# %% slideshow={"slide_type": "skip"}
def leave_one_out_error(x, y, width):
    """Mean squared error of each point predicted from the others: x (K,), y (K,) -> ().

    Two points have only each other to ask: x = [0, 1] and y = [1, 4] give 9 at any width.
    """
    ...


check("2.5", leave_one_out_error)

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.6** The test that catches four broken poolings · *hard, 20 minutes* · write the test
#
# Complete `test_pooling` for functions called like
# `nadaraya_watson(x_train, y_train, x_val, kernel)`. It passes every right one, also where numbers
# differ in the seventh digit, and fails by an `assert` on four broken ones: division by the sum
# over the queries instead of the keys; no division at all; weights of shape (K, Q); NaN for a query
# with no key in reach.


# %% slideshow={"slide_type": "skip"}
def test_pooling(implementation):
    """Pass on right implementations, and fail by an `AssertionError` on broken ones.

    `prediction, weights = implementation(x_train, y_train, x_val, kernel)`; a test that looks at
    the shape only would be `assert weights.shape == (len(x_val), len(x_train))`.
    """
    ...


check("2.6", test_pooling)

# %% [markdown] slideshow={"slide_type": "skip"}
# **2.7** Keys of unit length · *medium, 8 minutes* · derive with a pencil
#
# All keys have length 1. Expand the Gaussian score: $-\tfrac12\lvert q - k\rvert^2 = q \cdot k +
# c$, where $c$ is the same number for every key, so that the softmax does not see it. Take $q =
# (1, 2)$ and the keys $(1, 0)$, $(0, 1)$, $(0.6, 0.8)$. Give four numbers: $c$, and then the dot
# product of $q$ with each of the three keys. Which key wins by distance, and which by dot product?

# %% slideshow={"slide_type": "skip"}
answer = None

check("2.7", answer)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Going further
#
# Four sections, to be read in any order.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Which kernel is best?
#
# *4 minutes.* Give each kernel its own best width on each of twenty draws. The average of the
# twenty best errors hardly depends on the kernel:

# %% slideshow={"slide_type": "skip"}
lowest = {kernel: [] for kernel in (gaussian, boxcar, epanechikov)}
for seed in range(20):
    torch.manual_seed(seed)
    x, x_exam = torch.rand(40) * 5, torch.rand(200) * 5
    y, y_exam = f(x) + torch.randn(40), f(x_exam) + torch.randn(200)
    for kernel, found in lowest.items():
        predictions = [
            d2l_attention.nadaraya_watson(x, y, x_exam, with_width(kernel, width))[0]
            for width in widths
        ]
        found.append(min((p - y_exam).square().mean().item() for p in predictions))
for kernel, found in lowest.items():
    print(f"{kernel.__name__:12} {sum(found) / 20:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# For these data the width matters and the shape hardly does. (The book calls the triangle
# *Epanechikov*. The statistician's name is Epanechnikov, with one n more, and his kernel of 1969
# is a parabola, $\max(1 - x^2, 0)$ up to a factor. We keep the book's name and formula, so that
# its code runs here. The boxcar of the book's text counts a key at distance exactly 1; its code,
# and ours, does not.)

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Kernels as masks, and values that are not numbers
#
# *3 minutes.* The boxcar is attention too: all scores are equal, and a **mask** hides what is far
# away. The constant kernel is the same without a mask. In chapter 9 the boxcar comes back with
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
# *3 minutes.* One number says it: $1 / \sum_i \alpha_i^2$. If five keys share the weight equally,
# it is 5. If one key has everything, it is 1. It is called the **effective number of keys**, and
# exercise 2.4 uses it.

# %% slideshow={"slide_type": "skip"}
for width in (0.02, 0.05, 0.32, 3.0):
    _, weights = gaussian_pooling(x_fresh, x_train, y_train, width)
    effective = 1 / weights.square().sum(dim=1)
    print(f"width {width:4}: {effective.mean().item():4.1f} of 40 keys on average")

# %% [markdown] slideshow={"slide_type": "skip"}
# Could we train the boxcar's width by gradient descent? No. A key is in reach or it is not. A tiny
# change of the width changes nothing, or it lets a key in with a jump, so there is no gradient:

# %% slideshow={"slide_type": "skip"}
width = torch.tensor(0.5, requires_grad=True)
for kernel in (gaussian, boxcar):
    prediction, _ = d2l_attention.nadaraya_watson(
        x_train, y_train, x_fresh, with_width(kernel, width)
    )
    print(f"{kernel.__name__:8} depends on the width with a gradient: {prediction.requires_grad}")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### One width for all?
#
# *6 minutes.* The 40 points lie evenly. Real data do not: there are many small flats and few large
# ones. Below, 60 points crowd between 0 and 1, where the curve swings. Only 15 lie between 1 and
# 6, where it hardly moves. An idea (the book points to Silverman, 1986) is to let the data set the
# width: each query takes the distance to its **fourth nearest** key as its width. In code the
# width becomes a column with one entry for each query.


# %% slideshow={"slide_type": "skip"}
def swing(x):
    return torch.where(x < 1, 2 * torch.sin(4 * math.pi * x), 0.2 * (x - 1))


def distance_to_neighbour(queries, keys, k):
    distances = (queries[:, None] - keys).abs()  # (Q, K)
    return distances.kthvalue(k, dim=1, keepdim=True).values  # (Q, 1)


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
    errors = (gaussian_pooling(queries, keys, values, width)[0] - answers).square()
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
    ax.plot(keys, values, "o", color="0.65", markersize=5, label="data")
    ax.plot(line, swing(line), "k--", linewidth=1.5, label="truth")
    ax.plot(line, gaussian_pooling(line, keys, values, width)[0], color="C0", label="prediction")
    ax.set(title=title, xlabel="x")
axes[0].set_ylabel("y")
axes[2].legend(loc="lower right", fontsize=12, frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the same uneven data three times. Width 0.03 follows the two swings on the left but jumps
# from point to point on the right; width 0.6 is calm on the right but flat on the left; the width
# from the fourth key follows the swings and is calmer on the right, but dips just after 1.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Is that luck? On twenty new draws the fourth key's distance, fixed in advance, competes with the
# best of eleven single widths, chosen *after* seeing the exam.

# %% slideshow={"slide_type": "skip"}
single = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.4, 0.8)
wins = 0
for seed in range(20):
    keys, values, queries, answers = uneven(seed)
    fourth = distance_to_neighbour(queries, keys, k=4)
    errors = [
        (gaussian_pooling(queries, keys, values, width)[0] - answers).square().mean().item()
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
