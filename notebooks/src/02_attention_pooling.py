# %% [markdown] slideshow={"slide_type": "slide"}
# # 2 · Attention pooling by similarity
#
# **You will**
# - compute attention weights from distances, by hand and with the package;
# - see what a width that is too narrow or too wide does, and find the one in between;
# - train your first attention, fall into its classic trap, and climb out with a mask.
#
# About 60 minutes, and 61 for the exercises. Builds on chapter 1. The book (D2L): section 11.2.

# %% slideshow={"slide_type": "skip"}
import math

import matplotlib.pyplot as plt
import torch

from d2l_attention import (
    attention_pooling,
    boxcar,
    check_shape,
    constant,
    dot_score,
    epanechikov,
    gaussian,
    gaussian_score,
    nadaraya_watson,
    show_source,
)
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
set_style()

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
# **Predict.** What rent do you ask? Write a number down, and say how you got it.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Collect four or five numbers on the board before going on; 2 minutes. Expect about
# 625: the straight line from the 30 m² flat to the 50 m² flat. Somebody says 600: the nearest
# flat. Somebody takes the average, 567. Keep all three: each comes back as a kernel or a width.

# %% [markdown] slideshow={"slide_type": "subslide"}
# You looked at the sizes, not at the rents, to decide **whom to ask**. Then you mixed the rents.
#
# In the words of chapter 1: 35 m² is the **query**, the known sizes are **keys**, their rents
# are **values**. Similar sizes get more **weight**.
#
# Chapter 1 took a score for distance out of a drawer. Here we build the weights ourselves, and
# ask what 'near' should mean.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### By hand
#
# A rule for 'similar': 1 at distance 0, falling in a straight line to 0 at 20 m². At distance
# $d$ that is $1 - d/20$, never below 0.
#
# | size | distance to 35 | similarity | weight | weight × rent |
# |---|---|---|---|---|
# | 20 | 15 | 0.25 | 0.25 / 1.25 = 0.2 | 80 |
# | 30 | 5 | 0.75 | 0.75 / 1.25 = 0.6 | 360 |
# | 50 | 15 | 0.25 | 0.25 / 1.25 = 0.2 | 140 |
# | | | sum 1.25 | sum 1 | **580 €** |

# %% slideshow={"slide_type": "skip"}
sizes = torch.tensor([20.0, 30.0, 50.0])
rents = torch.tensor([400.0, 600.0, 700.0])
query = torch.tensor([35.0])


def triangle_20(distance):
    return epanechikov(distance / 20)


rent, weights = nadaraya_watson(sizes, rents, query, triangle_20)
torch.testing.assert_close(weights, torch.tensor([[0.2, 0.6, 0.2]]))
torch.testing.assert_close(rent, torch.tensor([580.0]))
print(f"weights {[round(w, 2) for w in weights[0].tolist()]}   rent {rent.item():.0f}")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
grid = torch.arange(5.0, 66.0)
figure, (top, bottom) = plt.subplots(2, 1, figsize=(6.5, 4.2), sharex=True)
top.plot(sizes, rents, "o", markersize=10, color="black", label="known flats")
top.plot(query, rent, "*", markersize=18, color="C1", label="our flat")
top.set(
    ylabel="rent (€)", ylim=(300, 800), title="The weights come from below, the rents from above"
)
top.legend(loc="lower right")
bottom.fill_between(grid, triangle_20(grid - query), color="C0", alpha=0.3)
bottom.vlines(sizes, 0, triangle_20(sizes - query), color="black")
bottom.plot(sizes, triangle_20(sizes - query), "o", markersize=10, color="black")
bottom.set(xlabel="size (m²)", ylabel="similarity to 35 m²", ylim=(0, 1.05))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: above, three known flats as dots and the predicted 580 € at 35 m² as a star. Below, a
# triangle centred on the query; its height at each known size is that flat's similarity: 0.25,
# 0.75 and 0.25.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The formula
#
# The rule that turns a distance into a similarity is a **kernel** $\alpha$. Divide by the sum,
# average the values:
#
# $$f(q) = \sum_i \frac{\alpha(q, k_i)}{\sum_j \alpha(q, k_j)}\, v_i$$
#
# Nadaraya and Watson published it in 1964, independently. It is attention pooling, fifty years
# before the first neural translator used it.

# %% [markdown] slideshow={"slide_type": "skip"}
# After its checks the package's code is four lines:

# %% slideshow={"slide_type": "skip"}
show_source(nadaraya_watson)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Nothing was trained
#
# The 'model' is the table itself. Tomorrow a fourth flat is let: 36 m² for 800 €.
#
# **Predict.** Our price was 580 €. Does it move by less than 50, or by more? What has to be
# trained again?

# %% slideshow={"slide_type": "fragment"}
more_sizes = torch.cat([sizes, torch.tensor([36.0])])
more_rents = torch.cat([rents, torch.tensor([800.0])])
new_rent, new_weights = nadaraya_watson(more_sizes, more_rents, query, triangle_20)
print(f"rent {new_rent.item():.0f}   weight of the new flat {new_weights[0, 3].item():.2f}")

# %% slideshow={"slide_type": "skip"}
torch.testing.assert_close(new_rent, torch.tensor([675.0]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 580 to 675, and nothing is trained again: one more row in the table is all it takes. The
# new flat is nearly ours, so it takes 43% of the vote.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Hands up for 'less than 50', then for 'more'. Expect most for less: one flat in four. Then ask the
# second question and wait: who knows regression wants to fit again, and there is nothing to fit.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Values need not be numbers
#
# Which of the three flats has a balcony? No, yes, yes. Write that as one column per answer
# ('one-hot') and use the *same* weights. The average is now a probability.

# %% slideshow={"slide_type": "skip"}
has_balcony = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # columns: no, yes
probabilities = weights @ has_balcony
torch.testing.assert_close(probabilities, torch.tensor([[0.2, 0.8]]))
print("no {:.1f}   yes {:.1f}".format(*probabilities[0].tolist()))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four kernels
#
# The triangle was one choice. The book draws four.
#
# | kernel | similarity at distance $x$ | in words |
# |---|---|---|
# | `gaussian` | $e^{-x^2/2}$ | everybody counts, near ones most |
# | `boxcar` | 1 if $\lvert x\rvert < 1$, else 0 | all near ones count alike |
# | `constant` | 1 | everybody counts alike |
# | `epanechikov` | $\max(1-\lvert x\rvert, 0)$ | falls in a straight line to 0 |
#
# **Predict.** One of the four gives the same answer whatever you ask. Which?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute, the room calls it out. Ask back which rule of the first vote each kernel is: the
# average was the constant, 'the nearest flat' is not among them (it comes with a small width). The
# dashed curve in the next picture is Epanechnikov's own kernel; the notebook tells its story.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
kernels = (gaussian, boxcar, constant, epanechikov)
x = torch.linspace(-2.5, 2.5, 501)
figure, axes = plt.subplots(1, 4, figsize=(11, 3), sharey=True)
for ax, kernel in zip(axes, kernels, strict=True):
    ax.plot(x, kernel(x))
    ax.set(title=kernel.__name__, xlabel="query − key", xticks=[-2, -1, 0, 1, 2])
axes[3].plot(x, (1 - x**2).clamp(min=0), "k--", linewidth=1.5, label="parabola")
axes[3].legend(loc="upper right", fontsize=12, handlelength=1.2, frameon=False)
axes[0].set(ylabel="similarity", ylim=(0, 1.25))
figure.suptitle("Three kernels look at the distance, the constant does not")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four curves of similarity against distance: a bell, a box of height 1 between −1 and 1,
# a flat line at 1, and a triangle from −1 to 1. Over the triangle lies a dashed parabola,
# Epanechnikov's own kernel, which is broader.*

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A name to mend
#
# The book calls the triangle *Epanechikov*. The statistician's name is Epanechnikov, with one n
# more, and his kernel (1969) is a **parabola**, $\max(1 - x^2, 0)$ up to a factor: the dashed
# line. The triangle is a close relative. We keep the book's name and formula, so that its code
# runs here.

# %% slideshow={"slide_type": "skip"}
half = torch.tensor(0.5)
print("triangle at 0.5:", epanechikov(half).item(), "  parabola at 0.5:", (1 - half**2).item())
assert epanechikov(half) == 0.5

# %% [markdown] slideshow={"slide_type": "skip"}
# A second small thing. The book's formula for the boxcar counts a key at distance exactly 1; its
# code, and ours, does not. For real numbers that hardly ever matters. For sizes in whole square
# metres it does.

# %% slideshow={"slide_type": "skip"}
assert boxcar(torch.tensor(0.99)) == 1
assert boxcar(torch.tensor(1.0)) == 0

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Epanechnikov's kernel is usually written with a factor $\tfrac34$ in front. Multiply
# a kernel by $\tfrac34$: does the prediction shrink to $\tfrac34$, change a little, or stay?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
rent_scaled, weights_scaled = nadaraya_watson(
    sizes, rents, query, lambda distance: 0.75 * triangle_20(distance)
)
torch.testing.assert_close(weights_scaled, weights)
torch.testing.assert_close(rent_scaled, rent)
print(f"with the factor {rent_scaled.item():.0f}, without {rent.item():.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# It stays. The division by the sum cancels every common factor. Only the **shape** of a kernel
# matters, and its width.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Expect votes for 'shrinks'. Point at the sum in the denominator: the same factor stands above
# and below. In chapter 3 the same cancellation removes a whole term of the Gaussian score.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Forty noisy points
#
# Three flats fit on a slide. Now the book's data: 40 points on the curve
# $f(x) = 2\sin x + x$, each with noise of standard deviation 1.
#
# We also draw 200 **fresh** points that no prediction may use ('held-out' data). They are the exam.


# %% slideshow={"slide_type": "fragment"}
def f(x):
    return 2 * torch.sin(x) + x


torch.manual_seed(0)
x_train = (torch.rand(40) * 5).sort().values  # keys
y_train = f(x_train) + torch.randn(40)  # values
x_fresh = torch.rand(200) * 5
y_fresh = f(x_fresh) + torch.randn(200)
x_val = torch.arange(0, 5, 0.1)  # queries to draw a curve with
check_shape(x_val, (50,))

# %% [markdown] slideshow={"slide_type": "skip"}
# Two helpers for the pictures: one draws data, truth and prediction, the other labels a heat map
# with values of $x$.


# %% slideshow={"slide_type": "skip"}
def draw_fit(ax, prediction, title):
    ax.plot(x_train, y_train, "o", color="0.65", label="data")
    ax.plot(x_val, f(x_val), "k--", linewidth=1.5, label="truth")
    ax.plot(x_val, prediction, color="C0", label="prediction")
    ax.set(title=title, xlabel="x")


def draw_weights(ax, weights, vmax):
    heatmap(ax, weights, vmax=vmax)
    ax.set_yticks(range(0, 50, 10), ["0", "1", "2", "3", "4"])
    ax.set_xticks(torch.searchsorted(x_train, torch.arange(1.0, 5.0)), ["1", "2", "3", "4"])
    ax.set_xlabel("key at x =")


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 4, figsize=(11, 3.1), sharey=True)
for ax, kernel in zip(axes, kernels, strict=True):
    prediction, weights = nadaraya_watson(x_train, y_train, x_val, kernel)
    check_shape(weights, (50, 40))  # a row for each query, a column for each key
    draw_fit(ax, prediction, kernel.__name__)
axes[0].set_ylabel("y")
axes[0].legend(fontsize=12, frameon=False)
figure.suptitle("Three kernels follow the bend, the constant draws a flat line")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four panels with the same 40 grey points and the dashed true curve, which rises, bends
# down and rises again. Gaussian, boxcar and triangle follow it with flattened bumps, the boxcar
# in steps; the constant kernel is a horizontal line at the mean.*

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
flat, _ = nadaraya_watson(x_train, y_train, x_val, constant)
torch.testing.assert_close(flat, y_train.mean().expand(50))

for kernel in kernels:
    prediction, _ = nadaraya_watson(x_train, y_train, x_fresh, kernel)
    error = (prediction - y_fresh).square().mean().item()
    print(f"{kernel.__name__:12s} mean squared error on fresh points {error:.1f}")
noise = (f(x_fresh) - y_fresh).square().mean().item()
print(f"the true curve itself     {noise:15.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The last line is the floor. The noise has variance 1, so even the true curve misses fresh
# points by about 1. What lies above 1 is ours to win.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Before the errors: which of the four would you trust at $x = 2$, and how could we find out without
# the dashed line? One minute; somebody says 'with points that it has not seen'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same fits, seen as weights
#
# Row = query, from $x = 0$ at the top to $x = 4.9$ at the bottom. Column = key. Dark = large.
#
# **Predict.** How does the picture of the constant kernel look? And the boxcar's?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axes = plt.subplots(1, 4, figsize=(11.5, 3.4), sharey=True)
for ax, kernel in zip(axes, kernels, strict=True):
    _, weights = nadaraya_watson(x_train, y_train, x_val, kernel)
    draw_weights(ax, weights, vmax=0.2)
    ax.set_title(kernel.__name__)
axes[0].set_ylabel("query at x =")
figure.colorbar(axes[0].images[0], ax=axes, label="weight", extend="max")
figure.suptitle("Three kernels listen near the diagonal, the constant everywhere")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four heat maps of 50 queries by 40 keys on one scale. Gaussian, boxcar and triangle are
# bands from top left to bottom right: broad and soft, hard-edged, narrow and peaked. The constant
# is one even pale tone.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let somebody read one row aloud: 'the query at 2 listens to keys between 1 and 3'. Ask why the
# boxcar is darker at the ends: fewer keys within reach, so each gets more. Every row sums to 1
# (next cell).

# %% slideshow={"slide_type": "skip"}
for kernel in kernels:
    _, weights = nadaraya_watson(x_train, y_train, x_val, kernel)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(50))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## When nobody is near
#
# Back to the street. A loft of **120 m²** comes up, and our boxcar listens within 20 m².
# The nearest known flat has 50 m².
#
# **Predict.** All similarities are 0. What does 'divide by the sum' give?


# %% slideshow={"slide_type": "skip"}
def boxcar_20(distance):
    return boxcar(distance / 20)


# %% slideshow={"slide_type": "fragment"}
loft = torch.tensor([120.0])
similarity = boxcar_20(loft - sizes)
by_the_book = similarity / similarity.sum()
rent, weights = nadaraya_watson(sizes, rents, loft, boxcar_20)
print("similarities", similarity.tolist())
print("the book    ", by_the_book.tolist())
print("the package ", weights[0].tolist(), "-> rent", rent.item())

# %% slideshow={"slide_type": "skip"}
assert torch.cat([by_the_book, weights[0]]).mean().isnan()
assert not weights.any()

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# For the vote: an error, 0, NaN, or the average? One minute. Then ask what a website should show
# the owner of the loft. There is no right number; that it must know it has none is the point.

# %% [markdown] slideshow={"slide_type": "subslide"}
# 0/0 is NaN, 'not a number', and it spreads: one NaN makes the mean of a whole batch NaN. The
# book's `nadaraya_watson` does this. Ours answers with weights 0 and prediction 0, as everywhere
# in this course when a query may attend to nothing.
#
# A rent of 0 € is **not a prediction** either. It means 'I have nobody to ask'. Look at the sum
# of the weights: 1 is an answer, 0 is a shrug.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
_, weights = nadaraya_watson(sizes, rents, torch.tensor([35.0, 65.0, 120.0]), boxcar_20)
for size, total in zip((35, 65, 120), weights.sum(dim=1).tolist(), strict=True):
    print(f"{size:3d} m²: weights sum to {total:.0f}", "" if total else " -> do not use")
assert weights.sum(dim=1).tolist() == [1, 1, 0]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The width
#
# 20 m² was a guess. Divide the distance by a **width** before it enters the kernel, and you can
# stretch any kernel: $\alpha\big((q - k)/\text{width}\big)$.
#
# **Predict.** Gaussian kernel, our 40 points. What does the curve look like with width 0.05? With
# width 3?


# %% slideshow={"slide_type": "skip"}
def with_width(kernel, width):
    return lambda difference: kernel(difference / width)


def fresh_error(kernel):
    prediction, _ = nadaraya_watson(x_train, y_train, x_fresh, kernel)
    return (prediction - y_fresh).square().mean().item()


# %% [markdown] slideshow={"slide_type": "skip"}
# Three widths, each seen twice: above as a curve, below as weights.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, axes = plt.subplots(2, 3, figsize=(9.6, 6.4), sharey="row")
for (top, bottom), width in zip(axes.T, (0.05, 0.32, 3.0), strict=True):
    kernel = with_width(gaussian, width)
    prediction, weights = nadaraya_watson(x_train, y_train, x_val, kernel)
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
# *Figure: three widths side by side. Width 0.05: a jagged curve through nearly every point, a thin
# dark band of weights. Width 0.32: a smooth curve near the truth, a soft band. Width 3: an almost
# flat line, weights spread evenly over all keys.*

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** At width 0.05 the curve shoots up to 4.8 at $x = 4$. How many keys does the query
# there listen to? Read it from the heat map, then check.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Have somebody walk to the screen and put a finger on the row of the query at 4. The colour scale
# ends at 0.3, so 'dark' alone does not say one key; that the neighbours are white does.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
prediction, weights = nadaraya_watson(x_train, y_train, x_val, with_width(gaussian, 0.05))
row = weights[40]  # the query at 4.0
loudest = row.argmax()
key, weight, value = x_train[loudest], row[loudest], y_train[loudest]
print(f"the key at {key:.2f} has weight {weight:.2f} and value {value:.1f}")
print(f"prediction {prediction[40]:.1f}, truth {f(x_val[40]):.1f}")
assert weight > 0.99

# %% [markdown] slideshow={"slide_type": "-"}
# One, and its noise is the curve's. Read the picture by columns, curve above and weights below.
#
# - **Narrow**: a query asks one or two keys. Their noise is your noise.
# - **Wide**: a query asks everybody. The answer hardly depends on the question.
# - **Between**: enough neighbours to average the noise away, all near enough to know.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The two ends
#
# Shrink the width, and the nearest key takes everything: a lookup, as chapter 1's cold end.
# Stretch it, and all keys count alike: the constant kernel, the hot end.

# %% slideshow={"slide_type": "skip"}
nearest = (x_val[:, None] - x_train).abs().argmin(dim=1)
for width in (0.32, 0.05, 0.02):
    _, weights = nadaraya_watson(x_train, y_train, x_val, with_width(gaussian, width))
    assert (weights.argmax(dim=1) == nearest).all()
    largest = weights.max(dim=1).values.mean()
    print(f"width {width:4}: the nearest key has weight {largest:.2f} on average")

wide, _ = nadaraya_watson(x_train, y_train, x_val, with_width(gaussian, 1000.0))
torch.testing.assert_close(wide, y_train.mean().expand(50), atol=1e-3, rtol=0)
print(f"width 1000: every prediction is the mean of the data, {y_train.mean():.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### How many keys does a query listen to?
#
# A number for it: $1 / \sum_i w_i^2$. If $m$ keys share the weight equally it is $m$; if one key
# has everything it is 1. Call it the **effective number of keys**.

# %% slideshow={"slide_type": "skip"}
for width in (0.05, 0.32, 3.0):
    _, weights = nadaraya_watson(x_train, y_train, x_val, with_width(gaussian, width))
    effective = 1 / weights.square().sum(dim=1)
    print(f"width {width:4}: {effective.mean().item():4.1f} of 40 keys on average")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which width is best?
#
# We try 26 widths and measure two errors: on the 40 training points, and on the 200 fresh ones.
#
# **Predict.** Which of the two errors would lead you astray, and in which direction?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes, in pairs, and let one pair draw both curves on the board before the next slide. The
# hint, if they are stuck: how wrong is a very narrow width on a point that it has seen?

# %% slideshow={"slide_type": "skip"}
widths = torch.logspace(-1.5, 1, 26)
train_errors, fresh_errors = [], []
for width in widths:
    kernel = with_width(gaussian, width)
    prediction, _ = nadaraya_watson(x_train, y_train, x_train, kernel)
    train_errors.append((prediction - y_train).square().mean().item())
    fresh_errors.append(fresh_error(kernel))

best = min(range(26), key=lambda i: fresh_errors[i])
print(f"best width {widths[best]:.2f}: fresh error {fresh_errors[best]:.2f}")
assert min(train_errors) == train_errors[0]  # the narrowest
assert 0 < best < 25  # neither end

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7.5, 3.7))
ax.semilogx(widths, train_errors, "--", color="C1", label="on its own 40 points")
ax.semilogx(widths, fresh_errors, color="C0", label="on 200 fresh points")
ax.plot(widths[best], fresh_errors[best], "o", markersize=10, color="C0")
ax.annotate(f"best: {widths[best]:.2f}", (widths[best], fresh_errors[best] - 0.25), ha="center")
ax.axhline(noise, color="0.5", linewidth=1, linestyle=":")
ax.text(10, noise + 0.03, "the true curve", ha="right", color="0.3")
ax.set(xlabel="width (log scale)", ylabel="mean squared error", ylim=(0, 2.2))
ax.set_title("On its own points the narrowest always wins; on fresh points it does not")
ax.legend(loc="upper left", bbox_to_anchor=(0.3, 1.0), frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: error against width. The dashed training error falls and falls as the width shrinks.
# The solid error on fresh points is a valley: high on the left, lowest at width 0.32, high again
# on the right. It stays above the dotted line, the error of the true curve.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The error on its own points says 'narrower, always narrower'. Believe it and you copy noise.
#
# Remember the dashed line. Gradient descent will slide down it soon.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn the width yourself
#
# Choose a kernel, turn the width. Left the curve, in the middle the weights, right the error on
# fresh points, with a dot where you stand.

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** Which kernel leaves the bottom of its valley fastest when you make the width
# smaller? Look at the heat map to see why.


# %% slideshow={"slide_type": "skip"}
errors_of = {
    kernel: [fresh_error(with_width(kernel, width)) for width in widths] for kernel in kernels
}


def tune(figure, kernel=gaussian, width=1.0):
    fit, heat, valley = figure.subplots(1, 3)
    stretched = with_width(kernel, width)
    prediction, weights = nadaraya_watson(x_train, y_train, x_val, stretched)
    draw_fit(fit, prediction, "prediction")
    draw_weights(heat, weights, vmax=0.3)
    heat.set(title="weights", ylabel="query at x =")
    valley.semilogx(widths, errors_of[kernel], color="C0")
    valley.plot(width, fresh_error(stretched), "o", markersize=12, color="black")
    valley.set(title=f"error {fresh_error(stretched):.2f}", xlabel="width", ylim=(0, 5))


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
from ipywidgets import FloatLogSlider

from d2l_attention.views import explore

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

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The buttons and the slider work here. Start with the Gaussian and let the room say where to stop;
# then the boxcar, slowly to the left, until the heat map shows its first white rows. Ask what a
# white row means before you go on: a query that nobody answers.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
for kernel in (gaussian, boxcar, epanechikov):
    print(f"{kernel.__name__:12s} at width 0.03: error {fresh_error(with_width(kernel, 0.03)):.1f}")

# %% [markdown] slideshow={"slide_type": "-"}
# Boxcar and triangle have an edge. Below some width most queries find *nobody* in reach, and
# their prediction is 0. The Gaussian always has its nearest key.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And which kernel is best?
#
# At width 1 the triangle beat the Gaussian on fresh points, 1.2 against 1.4.
#
# **Predict.** Give each kernel its own best width. By how much does the best kernel win now?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
lowest = []
for kernel in (gaussian, boxcar, epanechikov):
    errors = [fresh_error(with_width(kernel, width)) for width in widths]
    lowest.append(min(errors))
    its_best = widths[errors.index(lowest[-1])]
    print(f"{kernel.__name__:12s} {lowest[-1]:.2f} at width {its_best:.2f}")
assert max(lowest) - min(lowest) < 0.05

# %% [markdown] slideshow={"slide_type": "fragment"}
# Gaussian and triangle tie, the boxcar is a little behind. A triangle of width 0.79 is spread as
# wide as a Gaussian of width 0.32: its standard deviation is $0.79/\sqrt 6 = 0.32$. The **width**
# matters, the shape hardly does. (An accident of these data? Try other seeds.)

# %% [markdown] slideshow={"slide_type": "skip"}
# A fussy footnote: we *chose* the width with these 200 points, so 1.18 flatters us a little. To
# publish a number, draw a third set and measure on that one, once.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The Gaussian kernel is a softmax
#
# Look at the Gaussian weights once more:
#
# $$w_i = \frac{e^{-(q-k_i)^2/2}}{\sum_j e^{-(q-k_j)^2/2}}$$
#
# An exponential above, the sum of all exponentials below. You know this formula: it is the
# **softmax** of the scores $-(q - k_i)^2 / 2$. And you know the score: it weighed the four weather
# stations of chapter 1.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The three flats again, now with a Gaussian of width 20 m²: a score, then a softmax.

# %% slideshow={"slide_type": "-"}
scores = gaussian_score(query[:, None], sizes[:, None], width=20.0)
print("scores ", [round(s, 3) for s in scores[0].tolist()])
print("softmax", [round(w, 3) for w in scores.softmax(dim=-1)[0].tolist()])

# %% slideshow={"slide_type": "skip"}
# Distances 15, 5, 15 are 0.75, 0.25, 0.75 widths
by_hand = [-(0.75**2) / 2, -(0.25**2) / 2, -(0.75**2) / 2]
torch.testing.assert_close(scores, torch.tensor([by_hand]))

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
rent, weights = nadaraya_watson(sizes, rents, query, with_width(gaussian, 20.0))
torch.testing.assert_close(scores.softmax(dim=-1), weights)
print(f"rent    {rent.item():.0f}   (plain average {rents.mean().item():.0f})")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With the Gaussian, at the same width, the three votes are more equal than with the triangle, and
# the rent moves from 580 towards the plain average.

# %% [markdown] slideshow={"slide_type": "subslide"}
# So attention pooling comes in two steps: **score**, then **softmax and average**. The package has
# one function for each. A key is now a vector, a row of a (K, D) matrix; here D = 1.


# %% slideshow={"slide_type": "fragment"}
def pool(queries, keys, values, width):
    scores = gaussian_score(queries[:, None], keys[:, None], width)
    output, weights = attention_pooling(scores, values[:, None])
    return output[:, 0], weights


# %% slideshow={"slide_type": "skip"}
output, weights = pool(x_val, x_train, y_train, width=0.32)
check_shape(weights, (50, 40))
expected = nadaraya_watson(x_train, y_train, x_val, with_width(gaussian, 0.32))
torch.testing.assert_close((output, weights), expected)

# %% slideshow={"slide_type": "skip"}
show_source(gaussian_score)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The width is a temperature
#
# In chapter 1 a temperature $T$ divided the scores. Here width² divides them:
#
# $$-\frac12\Bigl(\frac{q - k}{\text{width}}\Bigr)^2 = \frac{-(q - k)^2/2}{\text{width}^2}$$
#
# So $T = \text{width}^2$: narrow is cold, wide is hot.

# %% slideshow={"slide_type": "skip"}
plain = gaussian_score(x_val[:, None], x_train[:, None])
torch.testing.assert_close(
    gaussian_score(x_val[:, None], x_train[:, None], width=0.32), plain / 0.32**2
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Equal on paper, not in the computer
#
# **Predict.** A castle of **2000 m²** is to let; Gaussian kernel, width 20 m². The largest known
# flat has 50 m². What does each of the two routes answer: kernel and division, or score and
# softmax?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
castle = torch.tensor([2000.0])
rent, weights = nadaraya_watson(sizes, rents, castle, with_width(gaussian, 20.0))
print("kernel and division: sum of weights", weights.sum().item(), "  rent", rent.item())
assert not weights.any()

rent, weights = pool(castle, sizes, rents, width=20.0)
print("score and softmax:   sum of weights", weights.sum().item(), "  rent", rent.item())
torch.testing.assert_close(weights, torch.tensor([[0.0, 0.0, 1.0]]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The castle is 97.5 widths away, and $e^{-97.5^2/2}$ is too small a number for the computer: it
# becomes 0, and we are back at 0/0. The softmax first subtracts the largest score from all. On
# paper that changes nothing; here it saves the nearest flat's vote.
#
# (700 € for a castle is still a poor price. Without a mask, a softmax never shrugs.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute. The room has just learned that the two are equal, so expect 'the same, 700'. Show the
# numbers, wait for the protest, then explain.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And the other kernels?
#
# The boxcar is attention too: all scores equal, and a **mask** that hides what is far away. The
# constant kernel is the same without a mask. In chapter 9 the boxcar comes back, with positions in
# a sentence for keys, as the 'sliding window'.

# %% slideshow={"slide_type": "skip"}
no_scores = torch.zeros(50, 40)
near = (x_val[:, None] - x_train).abs() < 1
output, weights = attention_pooling(no_scores, y_train[:, None], mask=near)
expected = nadaraya_watson(x_train, y_train, x_val, boxcar)
torch.testing.assert_close((output[:, 0], weights), expected)

output, weights = attention_pooling(no_scores, y_train[:, None])
expected = nadaraya_watson(x_train, y_train, x_val, constant)
torch.testing.assert_close((output[:, 0], weights), expected)

# %% [markdown] slideshow={"slide_type": "skip"}
# ## One width for all?
#
# The 40 points lie evenly. Real data do not: many small flats, few large ones.
#
# Below, 60 points crowd between 0 and 1, where the curve swings. Only 15 lie between 1 and 6, the
# desert, where it hardly moves. The exam asks 300 fresh points in each part.
#
# **Predict.** You get one width for the whole axis. Who suffers?


# %% slideshow={"slide_type": "skip"}
def g(x):
    return torch.where(x < 1, 2 * torch.sin(4 * math.pi * x), 0.2 * (x - 1))


torch.manual_seed(0)
x_uneven = torch.cat([torch.rand(60), 1 + 5 * torch.rand(15)]).sort().values
y_uneven = g(x_uneven) + 0.7 * torch.randn(75)
x_exam = torch.cat([torch.rand(300), 1 + 5 * torch.rand(300)])  # crowded half, sparse half
y_exam = g(x_exam) + 0.7 * torch.randn(600)
x_line = torch.cat([torch.linspace(0, 1, 200), torch.linspace(1, 6, 200)])  # to draw a curve with

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Let the data set the width
#
# Ask four neighbours. The width is the distance to the **fourth nearest** key: short in a crowd,
# long in the desert. Each query now has its own width.
#
# In code the width becomes a column, one entry for each query. All else stays as it was.


# %% slideshow={"slide_type": "skip"}
def distance_to_neighbour(queries, keys, k):
    distances = (queries[:, None] - keys).abs()  # (Q, K)
    return distances.kthvalue(k, dim=1, keepdim=True).values


# Keys 0, 1, 2, 10. Seen from 0.4 the distances are 0.4, 0.6, 1.6, 9.6; from 9: 1, 7, 8, 9.
column = distance_to_neighbour(torch.tensor([0.4, 9.0]), torch.tensor([0.0, 1.0, 2.0, 10.0]), k=2)
check_shape(column, (2, 1))
torch.testing.assert_close(column, torch.tensor([[0.6], [7.0]]))

# %% slideshow={"slide_type": "skip"}
choices = {"0.03": 0.03, "0.6": 0.6, "4th key": distance_to_neighbour(x_exam, x_uneven, k=4)}
exam = {}
for name, width in choices.items():
    prediction, _ = pool(x_exam, x_uneven, y_uneven, width)
    errors = (prediction - y_exam).square()
    exam[name] = errors[:300].mean().item(), errors[300:].mean().item()
    print("width {:8s} error in the crowd {:.2f}, in the desert {:.2f}".format(name, *exam[name]))

assert sum(exam["4th key"]) < min(sum(exam["0.03"]), sum(exam["0.6"]))

# %% slideshow={"slide_type": "skip"}
to_fourth = distance_to_neighbour(x_line, x_uneven, k=4)
titles = ("0.03 copies noise on the right", "0.6 flattens the left", "4th key: serves both")
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), sharey=True)
for ax, width, title in zip(axes, (0.03, 0.6, to_fourth), titles, strict=True):
    ax.plot(x_uneven, y_uneven, "o", color="0.65", markersize=5, label="data")
    ax.plot(x_line, g(x_line), "k--", linewidth=1.5, label="truth")
    ax.plot(x_line, pool(x_line, x_uneven, y_uneven, width)[0], color="C0", label="prediction")
    ax.set(title=title, xlabel="x")
axes[0].set_ylabel("y")
axes[2].legend(loc="lower right", fontsize=12, frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the same uneven data three times. Width 0.03 follows the two swings on the left but jumps
# from point to point on the right; width 0.6 is calm on the right but flat on the left; the width
# from the fourth key follows the swings and is calmer on the right, but dips just after 1.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Look just right of $x = 1$: the last curve dips far below the truth. The four nearest keys of a
# query there all stand in the crowd, where the curve is still climbing out of its last trough.
# Nearest is not always near.

# %% slideshow={"slide_type": "skip"}
four = (1.2 - x_uneven).abs().topk(4, largest=False).indices
assert (x_uneven[four] < 1).all()
assert (y_uneven[four] < g(torch.tensor(1.2))).all()

# %% [markdown] slideshow={"slide_type": "skip"}
# Is that luck? Twenty new draws of data. On one side the distance to the fourth key, fixed in
# advance. On the other the best of eleven single widths, chosen **after** seeing the exam.


# %% slideshow={"slide_type": "skip"}
def neighbours_win(seed):
    torch.manual_seed(seed)
    keys = torch.cat([torch.rand(60), 1 + 5 * torch.rand(15)])
    queries = torch.cat([torch.rand(300), 1 + 5 * torch.rand(300)])
    values = g(keys) + 0.7 * torch.randn(75)
    answers = g(queries) + 0.7 * torch.randn(600)

    def error(width):
        return (pool(queries, keys, values, width)[0] - answers).square().mean().item()

    single = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.4, 0.8)
    return error(distance_to_neighbour(queries, keys, k=4)) < min(map(error, single))


wins = sum(neighbours_win(seed) for seed in range(20))
print(f"the fourth key's distance wins {wins} of 20 times")
assert wins >= 15

# %% [markdown] slideshow={"slide_type": "skip"}
# Mostly not luck, and no magic either. It works because this curve is calm **where data are
# sparse**. If it swings in the desert, no width helps: nobody was there to see it.
#
# The book points to Silverman (1986) for widths that follow the local density.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Learn the width
#
# Trying 26 widths is fine for one number. A network has millions. So: gradient descent.
#
# Score and softmax are smooth in the width, so the error has a gradient. We train the **logarithm**
# of the width: then no step can make the width negative.
#
# Take the 40 training points as queries *and* as keys. Predict each $y$, square the error, step
# downhill.


# %% slideshow={"slide_type": "subslide"}
def learn_width(mask=None, steps=400):
    log_width = torch.zeros((), requires_grad=True)  # start at width 1
    history = []
    for _ in range(steps):
        scores = gaussian_score(x_train[:, None], x_train[:, None], log_width.exp())
        prediction, weights = attention_pooling(scores, y_train[:, None], mask=mask)
        loss = (prediction[:, 0] - y_train).square().mean()
        (gradient,) = torch.autograd.grad(loss, log_width)
        history.append((log_width.exp().item(), loss.item()))
        with torch.no_grad():
            log_width -= 0.2 * gradient
    return history, weights.detach()


# %% [markdown] slideshow={"slide_type": "skip"}
# Could we train the boxcar's width in the same way? No. A key is in or out; a tiny change of the
# width changes nothing, or lets a key in with a jump. PyTorch has no gradient to give.

# %% slideshow={"slide_type": "skip"}
width = torch.tensor(0.5, requires_grad=True)
for kernel, trainable in ((gaussian, True), (boxcar, False)):
    prediction, _ = nadaraya_watson(x_train, y_train, x_val, with_width(kernel, width))
    assert prediction.requires_grad is trainable

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** The best width on fresh points was 0.32. Gradient descent starts at width 1 and
# minimises the error on the training points. Where does it arrive: near 0.32, far above, or far
# below?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
seen, weights_seen = learn_width()
for step in (0, 20, 50, 100, 399):
    print("step {:3d}   width {:.3f}   training error {:.2f}".format(step, *seen[step]))
assert seen[-1][0] < 0.01
assert seen[-1][1] < 0.01
assert seen[-1][0] < seen[-2][0]  # and still shrinking

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Stop at the falling training error and ask: 'Happy?' Then show the fresh error in the next cell.
# The usual wrong vote is 'near 0.32': the room forgets that the queries stand among the keys. Give
# two minutes to find out why before you go on; somebody says 'it looks at itself'.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
prediction, _ = pool(x_fresh, x_train, y_train, seen[-1][0])
error_seen = (prediction - y_fresh).square().mean().item()
print(f"error on fresh points {error_seen:.1f}, on its own points {seen[-1][1]:.1f}")
assert error_seen > (y_train.mean() - y_fresh).square().mean()  # worse than a flat line

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The trap: every point may see itself
#
# The training error is perfect, the exam is a disaster: worse than a flat line. The width runs
# towards 0, and at the last step it is still shrinking.
#
# Why? Point 7 asks for its own $y$, and point 7 stands among the keys, at distance **0**. No other
# key can score higher. Shrink the width, and each point copies its own answer. It is an exam with
# the solution on the desk.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
assert (weights_seen.argmax(dim=1) == torch.arange(40)).all()
print(f"mean weight of a point on itself: {weights_seen.diagonal().mean().item():.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The way out: hide yourself
#
# A mask says who may attend to whom: True = may attend. Everybody may, except each point to
# itself. That is one line. Statisticians call it **leave-one-out**.

# %% slideshow={"slide_type": "-"}
others = ~torch.eye(40, dtype=torch.bool)

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Same start, same steps. Where does the width arrive now?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
hidden, weights_hidden = learn_width(mask=others)
for step in (0, 20, 50, 100, 399):
    print("step {:3d}   width {:.2f}   training error {:.2f}".format(step, *hidden[step]))
assert not weights_hidden.diagonal().any()

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
prediction, _ = pool(x_fresh, x_train, y_train, hidden[-1][0])
error_hidden = (prediction - y_fresh).square().mean().item()
print(f"error on fresh points {error_hidden:.2f}, best of the 26 widths {min(fresh_errors):.2f}")
assert error_hidden < 1.01 * min(fresh_errors)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Votes now go to 'near 0.32', and they are right. Ask why the training error may be trusted this
# time: each point is predicted by others only, so it is a fresh point for them.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4))
for run, style, name in ((seen, "C1--", "may see itself"), (hidden, "C0-", "masked")):
    run_widths, losses = zip(*run, strict=True)
    left.semilogy(run_widths, style, label=name)
    right.plot(losses, style, label=name)
left.axhline(widths[best], color="0.5", linewidth=1, linestyle=":")
left.text(400, 0.38, "best on fresh points", ha="right", color="0.3")
left.set(xlabel="step", ylabel="width (log scale)", title="Masked, it stops where it should")
right.set(xlabel="step", ylabel="training error", title="The training error will not tell you")
right.legend(loc="center right", frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, the width during training on a log scale. The dashed run without a mask falls below
# 0.01 and is still falling; the solid masked run settles on the dotted line at 0.32. Right, the
# training error: unmasked goes to 0, masked stays near 1.*

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8), sharey=True)
titles = ("May see itself: it only copies", "Masked: it asks its neighbours")
for ax, weights, title in zip(axes, (weights_seen, weights_hidden), titles, strict=True):
    heatmap(ax, weights, vmax=0.5)
    ax.set(title=title, xlabel="key (training point)")
axes[0].set_ylabel("query (training point)")
figure.colorbar(axes[0].images[0], ax=axes, label="weight", extend="max")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: learned weights of 40 training points on one another. Left, without a mask: a thin dark
# diagonal, everything else white. Right, masked: a soft band with a white diagonal cut out.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# You have just trained an attention: queries, keys, values, a score with one learned number, a
# mask, gradient descent. The book sets this as exercise 2 of section 11.2.
#
# The trap grows with you. A language model learns to predict the next word; if it may *see* the
# next word, its loss looks wonderful, and all it has learned is to copy. The cure is the same: a
# mask (chapter 4).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What should count as near?
#
# So far a key was one number. Give every flat a second one: its **house number**. It has nothing
# to do with the rent. But distance does not know that.
#
# Let us give each coordinate its own width, and learn both: 60 points, keys of size 2, and $y$
# depends on the first coordinate only.
#
# **Predict.** What happens to the width of the useless coordinate?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three votes: to 0, stays, grows. Two minutes. 'To 0' is a common wish ('remove it'); ask what a
# width of 0 would do: only keys with exactly your house number would count.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(1)
keys = torch.rand(60, 2) * 5  # column 0 matters, column 1 does not
values = f(keys[:, :1]) + torch.randn(60, 1)
others = ~torch.eye(60, dtype=torch.bool)
fresh_keys = torch.rand(300, 2) * 5
fresh_values = f(fresh_keys[:, :1]) + torch.randn(300, 1)

# %% slideshow={"slide_type": "subslide"}
log_widths = torch.zeros(2, requires_grad=True)
for _ in range(1000):
    stretched = keys / log_widths.exp()
    prediction, _ = attention_pooling(gaussian_score(stretched, stretched), values, mask=others)
    loss = (prediction - values).square().mean()
    (gradient,) = torch.autograd.grad(loss, log_widths)
    with torch.no_grad():
        log_widths -= 0.2 * gradient
learned = log_widths.exp().detach()
print("width of what matters {:.1f}, of the house number {:.0f}".format(*learned.tolist()))

# %% slideshow={"slide_type": "skip"}
assert learned[0] < 0.6
assert learned[1] > 5  # wider than the whole range of the data


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
def error_with(widths):
    scores = gaussian_score(fresh_keys / widths, keys / widths)
    output, _ = attention_pooling(scores, values)
    return (output - fresh_values).square().mean().item()


shared = min(error_with(width) for width in torch.logspace(-1, 1, 21))
print(f"fresh error: best shared width {shared:.2f}, learned widths {error_with(learned):.2f}")
assert error_with(learned) < shared

# %% [markdown] slideshow={"slide_type": "subslide"}
# Training made the house number's width larger than the whole range of house numbers. Divided by
# it, they all look alike: the model has learned **to ignore** them.
#
# Nobody told it what matters. It found a geometry in which 'near' means 'useful'.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Dividing each coordinate by its width is multiplication by a diagonal matrix
# $W = \mathrm{diag}(1/\text{widths})$. So we have learned a matrix that queries and keys pass
# through before they meet. Later the matrices are full, one for queries and one for keys. Their
# names are $W_q$ and $W_k$.

# %% slideshow={"slide_type": "skip"}
W = torch.diag(1 / learned)
torch.testing.assert_close(
    gaussian_score(fresh_keys @ W, keys @ W), gaussian_score(fresh_keys / learned, keys / learned)
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What this is not for
#
# **Predict.** The data end just before $x = 5$, where the true curve is rising. What does the
# model say at $x = 8$?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
outside, _ = pool(torch.tensor([8.0]), x_train, y_train, 0.32)
print(f"prediction {outside.item():.1f}   truth {f(torch.tensor(8.0)).item():.1f}")
assert y_train.min() <= outside <= y_train.max()

# %% [markdown] slideshow={"slide_type": "fragment"}
# - **No extrapolation.** An average never leaves the range of its values (chapter 1).
# - **No compression.** All data stay in memory, and every query looks at every key.
# - **No representation.** Distance is only as good as the coordinates. On raw pixels, 'near' means
#   little.
#
# The last point is what the rest of the course repairs: learn what is compared.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let somebody continue the curve on the board by hand to $x = 8$. Then ask where the model's curve
# must stay: between the lowest and the highest value, the hull of chapter 1.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Only the score will change
#
# Everything after the score is finished: mask, softmax, average. Chapter 3 keeps those and swaps
# one line. Here is its main candidate, the **dot product** $q \cdot k$.
#
# One query (1, 0) and three keys: A = (1, 0), B = (3, 0), C = (0, 1).
#
# **Predict.** Which key wins with the Gaussian score? Which with the dot product?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
q = torch.tensor([[1.0, 0.0]])
k = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
v = torch.tensor([[10.0], [20.0], [30.0]])

for score, expected in ((gaussian_score, [0, -2, -1]), (dot_score, [1, 3, 0])):
    assert score(q, k)[0].tolist() == expected
    output, weights = attention_pooling(score(q, k), v)
    check_shape(weights, (1, 3))
    rounded = ["{} {:.2f}".format(*pair) for pair in zip("ABC", weights[0].tolist(), strict=True)]
    print(f"{score.__name__:15s} {rounded}   output {output.item():.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Key A *is* the query, and the Gaussian picks it. The dot product prefers B: same direction, but
# longer. Is that a bug?
#
# Chapter 3 answers, by expanding the square in $-|q - k|^2/2$. One term cancels in the softmax, one
# can be made constant, and what is left is $q \cdot k$.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# End here and leave the question open over the break. If somebody objects that the query now wants
# something it is not like: right, and good. A query is a question; the best answer need not look
# like the question.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Similarity makes attention: a kernel turns distances into weights, the weights average the
#   values. Nothing is trained.
# - The **width** decides. Narrow copies noise, wide forgets the question; only fresh points tell.
# - The Gaussian kernel is a **softmax** of $-|q-k|^2/2$; width² is the temperature. The boxcar is
#   a mask.
# - The width can be **learned**, if no point may see itself. Without the mask it runs towards 0.
# - Where nobody is near, 0/0: our weights are 0. Check their sum.

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

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - The book: Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, section 11.2, d2l.ai. Kernels,
#   data and the exercise on learning the width come from there.
# - E. A. Nadaraya (1964), *On estimating regression*. Theory of Probability and its Applications
#   9(1), 141-142.
# - G. S. Watson (1964), *Smooth regression analysis*. Sankhyā: The Indian Journal of Statistics,
#   Series A, 26(4), 359-372.
# - V. A. Epanechnikov (1969), *Non-parametric estimation of a multivariate probability density*.
#   Theory of Probability and its Applications 14(1), 153-158. The parabola.
# - C. J. Stone (1977), *Consistent nonparametric regression*. Annals of Statistics 5(4), 595-620,
#   doi:10.1214/aos/1176343886. Nearest-neighbour weights.
# - B. W. Silverman (1986), *Density Estimation for Statistics and Data Analysis*. Chapman and Hall.
#   Widths that follow the density.
# - Y.-H. H. Tsai, S. Bai, M. Yamada, L.-P. Morency and R. Salakhutdinov (2019), *Transformer
#   Dissection*. EMNLP-IJCNLP, 4344-4353, arXiv:1908.11775. Attention as a kernel smoother.
