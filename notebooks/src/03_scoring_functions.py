# %% [markdown] slideshow={"slide_type": "slide"}
# # 3 · Scoring functions
#
# **You will**
# - settle the quarrel that chapter 2 left open, and know what the dot product throws away;
# - predict, break and repair the factor $1/\sqrt{d}$;
# - write $\operatorname{softmax}(QK^\top/\sqrt d)\,V$ for a batch, and choose between four scores
#   by what they can do and what they cost.
#
# About 70 minutes, and 66 for the exercises. Builds on chapter 2. The book (D2L): section 11.3.

# %% slideshow={"slide_type": "skip"}
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    additive_score,
    attention_pooling,
    bilinear_score,
    check_shape,
    dot_product_attention,
    dot_score,
    gaussian_score,
    masked_softmax,
    scaled_dot_score,
    show_source,
)
from d2l_attention.attention._additive import _chunks
from d2l_attention.views.plots import heatmap, set_style, show_heatmaps

torch.set_num_threads(1)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Who decided that?
#
# A random query asks five random keys. The score is the dot product. Nobody has trained
# anything, so nobody knows anything.
#
# First the vectors hold 4 numbers each, then 1,024. Every number comes from the same bell curve.
#
# **Predict.** Does the length of the vectors change how the attention is shared out?

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(3)
for d in (4, 1024):
    query, keys = torch.randn(1, d), torch.randn(5, d)
    weights = dot_score(query, keys).softmax(dim=-1)[0]
    print(f"d = {d:4d}   weights in percent {(100 * weights).round().int().tolist()}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 4 numbers everybody has a say. With 1,024 one key takes all, and no one has learned a
# thing. Who decided that? You will find out, and mend it with one division.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Collect guesses and leave them unanswered; two minutes. Typical: 'more numbers, more noise, so
# it averages out and the weights get *more* equal'. That is the guess to come back to. Change the
# seed if someone suspects it: another key wins, now and then two share.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From distance to dot product
#
# First, chapter 2's quarrel.
#
# The query is (1, 0). The keys: A at (1, 0), B at (3, 0), C at (0, 1).
#
# The Gaussian score prefers A, which *is* the query. The dot product prefers B.
#
# **Question.** Who is right? Put the two scores side by side and see where they part.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Hands up for A, hands up for B; one minute, no answer. 'A, it is the same vector' and 'B, it is
# the strongest' both come. Come back to the vote after the picture of the fee.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Expand the square:
#
# $$-\tfrac12\lvert q-k\rvert^2 = q\cdot k - \tfrac12\lvert k\rvert^2 - \tfrac12\lvert q\rvert^2$$
#
# | key | $q\cdot k$ | $-\frac12\lvert k\rvert^2$ | $-\frac12\lvert q\rvert^2$ | sum |
# |---|---|---|---|---|
# | A | 1 | −0.5 | −0.5 | **0** |
# | B | 3 | −4.5 | −0.5 | **−2** |
# | C | 0 | −0.5 | −0.5 | **−1** |

# %% slideshow={"slide_type": "skip"}
q = torch.tensor([[1.0, 0.0]])
k = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])  # A, B, C

products = dot_score(q, k)
key_term = -k.square().sum(dim=-1) / 2
query_term = -q.square().sum(dim=-1, keepdim=True) / 2
for name, term in (("q.k", products), ("-|k|^2/2", key_term), ("-|q|^2/2", query_term)):
    print(f"{name:9} {term.flatten().tolist()}")
assert (products + key_term + query_term).tolist() == [[0, -2, -1]]
assert gaussian_score(q, k).tolist() == [[0, -2, -1]]

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The sum goes into a softmax. One of the three columns can be left out, and no
# weight changes. Which?

# %% [markdown] slideshow={"slide_type": "fragment"}
# The last one. $-\frac12\lvert q\rvert^2$ is the same number in every row, and a softmax sees
# differences only (chapter 1). So the query's length drops out, for any keys.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Expand the square on the board first. Ten seconds for the vote, with fingers: 1, 2 or 3. Some say
# the middle column, 'it holds no query'. Ask them what a softmax does with a number that all rows
# share, and whether -0.5, -4.5, -0.5 is such a number.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, keys = torch.randn(7, 3), torch.randn(5, 3)
full = gaussian_score(queries, keys).softmax(dim=-1)
without_query_term = (dot_score(queries, keys) - keys.square().sum(dim=-1) / 2).softmax(dim=-1)
check_shape(full, (7, 5))
torch.testing.assert_close(full, without_query_term)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A fee on length
#
# The middle column is another matter. $-\frac12\lvert k\rvert^2$ differs from key to key: B pays
# 4.5, A and C pay 0.5. Read it as a **fee that long keys pay**.
#
# The dot product is the Gaussian score *without* the fee. Then B, long and pointing the right
# way, wins.


# %% slideshow={"slide_type": "skip"}
def draw_quarrel(q, k):
    figure, (plane, bars) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=[1.2, 1])
    plane.annotate("", (1, 0), (0, 0), arrowprops={"width": 2, "color": "black"})
    plane.scatter(*k.T, s=130, color="tab:blue", zorder=3)
    for name, place in zip(["A", "B", "C"], k.tolist(), strict=True):
        plane.annotate(name, place, xytext=(0, 11), textcoords="offset points", ha="center")
    plane.annotate("query", (0.5, 0), xytext=(0, -22), textcoords="offset points", ha="center")
    plane.set(xlim=(-0.4, 3.5), ylim=(-0.6, 1.5), aspect="equal", title="A stands on the query")
    plane.set(xlabel="first coordinate", ylabel="second coordinate")
    plane.set(xticks=[0, 1, 2, 3], yticks=[0, 1])
    with_fee, without = (score(q, k).softmax(dim=-1)[0] for score in (gaussian_score, dot_score))
    place = torch.arange(3)
    bars.bar(place - 0.2, with_fee, width=0.38, color="tab:blue", label="with the fee (Gaussian)")
    hatched = {"color": "0.85", "edgecolor": "black", "hatch": "//"}
    bars.bar(place + 0.2, without, width=0.38, label="without (dot product)", **hatched)
    bars.set(xticks=[0, 1, 2], xticklabels=["A", "B", "C"], ylim=(0, 1.35), yticks=[0, 0.5, 1])
    bars.set(xlabel="key", ylabel="weight", title="Without the fee, long B wins")
    bars.legend(loc="upper center", fontsize=12, frameon=False)
    plt.show()


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
draw_quarrel(q, k)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: left, the query as an arrow from the origin to (1, 0), key A at its tip, B three times
# as far out, C above the origin. Right, the weights: with the fee A gets 0.67, without it B gets
# 0.84.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# Is that rare? Ten random keys, a thousand random queries, 64 numbers each.
#
# **Predict.** How often is the nearest key also the one with the largest dot product: always,
# nine times in ten, or less?

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
queries, keys = torch.randn(1000, 64), torch.randn(10, 64)
nearest = gaussian_score(queries, keys).argmax(dim=-1)
largest = dot_score(queries, keys).argmax(dim=-1)
print(f"the two scores agree for {(nearest == largest).float().mean():.0%} of the queries")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In little more than half. The dot product is another score, not a cheaper way to compute the same
# one.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Most vote for nine in ten. After the run ask again which of the two is *right*. Neither: a query
# is a question, and nothing says that the best answer looks like the question. Only where all keys
# have one length are the two one score: that comes now.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## When everybody pays the same
#
# If all keys have the same length, all pay the same fee, and the softmax does not see it either.
# **Layer norm** makes it so: subtract the mean of a vector's entries, divide by their standard
# deviation.
#
# By hand for (1, 2, 3): the mean is 2, the differences are −1, 0, 1, their mean square is
# $\frac23$. Divide by $\sqrt{2/3}$: about (−1.22, 0, 1.22).
#
# **Predict.** The squared length of the result? And of (10, 20, 60) after layer norm?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
for row in ([1.0, 2.0, 3.0], [10.0, 20.0, 60.0]):
    normed = F.layer_norm(torch.tensor(row), (3,))
    rounded = [round(x, 2) for x in normed.tolist()]
    print(f"{row} -> {rounded}   squared length {normed.square().sum():.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both times 3, the number of entries $D$. Of course: $D$ numbers whose mean square is 1 have
# squares that sum to $D$.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let them do (1, 2, 3) on paper, one minute: 1.22 squared, twice, is 3. For (10, 20, 60) most
# start to calculate. Wait until someone says that it cannot matter.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The ten keys of before have 64 numbers each. Layer norm gives every one of them the squared length
# 64.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
normed_keys = F.layer_norm(keys, (64,))
lengths = normed_keys.square().sum(dim=-1)
print(f"squared lengths before: {keys.square().sum(dim=-1).round().int().tolist()}")
print(f"squared lengths after:  {lengths.round().int().tolist()}")

# PyTorch adds a small eps to the variance, so D is missed by a hair:
variance = keys.var(dim=-1, correction=0)
torch.testing.assert_close(lengths, 64 * variance / (variance + 1e-5))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The same thousand queries, the normed keys. How often do the two scores agree now?
# And how far apart are their weights?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
by_distance = gaussian_score(queries, normed_keys).softmax(dim=-1)
by_product = dot_score(queries, normed_keys).softmax(dim=-1)
torch.testing.assert_close(by_distance, by_product, atol=1e-3, rtol=0)  # all 10,000 weights
agree = by_distance.argmax(dim=-1) == by_product.argmax(dim=-1)
print(f"the two scores agree for {agree.float().mean():.0%} of the queries")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Always, and no weight differs by more than 0.001: that little is `eps`. With keys of one length,
# Gaussian attention and dot-product attention are one thing. That is the bridge from chapter 2 to
# the Transformer.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Remind them of the 57% and let them vote by number. 'Closer, say 90%' is the cautious guess.
# Whoever says 'always' should give the reason: one fee for all, and the softmax does not see it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The small print
#
# The book says that 'both batch and layer normalization' give lengths that are 'well-bounded, and
# often constant'. For layer norm that is what you just saw. Two cautions:
#
# - **Batch** norm evens out each *column*, over the batch. A key is a *row*.
# - In a Transformer the keys are $W_k x$, and the norm comes *before* $W_k$ (chapter 8).
#
# **Predict.** In which of the two are all keys equally long?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
torch.manual_seed(0)
x = torch.randn(1000, 64)
W_k = nn.Linear(64, 64, bias=False)
for name, rows in {
    "layer norm": F.layer_norm(x, (64,)),
    "batch norm": F.batch_norm(x, None, None, training=True),
    "layer norm, then W_k": W_k(F.layer_norm(x, (64,))),
}.items():
    low, high = rows.square().sum(dim=-1).aminmax()
    print(f"{name:21} squared lengths from {low:3.0f} to {high:3.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In neither. So for the keys of a real Transformer, dropping the fee is a **choice**, not an
# identity. Long keys speak louder there: more for the queries on their side, less for those
# against them. Training may use that.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two votes, one for each bullet. Batch norm is the easier one. For the second expect 'yes, W_k
# comes after the norm': draw a circle, and the ellipse that a matrix makes of it.

# %% slideshow={"slide_type": "skip"}
against = torch.tensor([[-1.0, 0.0]])
assert dot_score(q, k).argmax() == 1  # long B is first for the query (1, 0) ...
assert dot_score(against, k).argmin() == 1  # ... and last for the query (-1, 0)

# Two more exceptions to 'the squared length is D' under layer norm: equal entries have
# no spread to divide by, and a learned gain (the default in nn.LayerNorm) stretches again.
assert F.layer_norm(torch.ones(3), (3,)).tolist() == [0, 0, 0]
stretched = F.layer_norm(x, (64,), weight=torch.rand(64))
assert stretched.square().sum(dim=-1).std() > 1

# %% [markdown] slideshow={"slide_type": "skip"}
# What does the fee protect? A key that is never heard. Put a fourth key *inside* the triangle of
# three others. Then $q\cdot k_4$ is a weighted average of the other three products, so it is never
# larger than the largest of them. Whatever you ask, key 4 does not win. With the Gaussian score it
# wins for every query near it. Layer norm puts all keys on a sphere, where none is inside the
# others: Brody, Alon and Yahav (2023) call the buried ones 'unselectable'.

# %% slideshow={"slide_type": "skip"}
triangle = torch.tensor([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0], [0.5, 0.5]])
torch.manual_seed(0)
anything = torch.randn(10_000, 2)
for score in (dot_score, gaussian_score):
    wins = (score(anything, triangle).argmax(dim=-1) == 3).float().mean()
    print(f"{score.__name__:15} key 4 is first for {wins:.0%} of 10,000 queries")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Same way, across, against
#
# Why should a sum of products say anything about similarity?
#
# $$q\cdot k = \sum_j q_j k_j = \lvert q\rvert\,\lvert k\rvert\cos\theta$$
#
# Where both entries have the same sign, the product adds; where the signs differ, it takes away.
#
# **Predict.** The query is (2, 1). Give its dot product with (2, 1), with (−1, 2) and with
# (−2, −1).

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute with pencils, then with arms: one along the query, the other along each key. The sign
# is what the room must take away. The number 5 is also the squared length of (2, 1).


# %% slideshow={"slide_type": "skip"}
def draw_directions(query, others):
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.5), sharex=True, sharey=True)
    for ax, (name, key) in zip(axes, others.items(), strict=True):
        ax.annotate("", key, (0, 0), arrowprops={"width": 8, "headwidth": 20, "color": "0.75"})
        ax.annotate("", query, (0, 0), arrowprops={"width": 1.5, "headwidth": 9, "color": "black"})
        product = dot_score(torch.tensor([query]), torch.tensor([key])).item()
        sign = "−" if product < 0 else ""
        ax.annotate("query", query, xytext=(-6, 9), textcoords="offset points", ha="center")
        ax.set(
            title=f"{name}: {sign}{abs(product):.0f}",
            xlim=(-2.6, 2.6),
            ylim=(-2.6, 2.6),
            aspect="equal",
        )
        ax.axhline(0, color="0.85", linewidth=1, zorder=0)
        ax.axvline(0, color="0.85", linewidth=1, zorder=0)
        ax.set(xlabel="first coordinate", xticks=[-2, 0, 2], yticks=[-2, 0, 2])
    axes[0].set_ylabel("second coordinate")
    figure.suptitle("The sign of the dot product says: with me, across, against me", fontsize=15)
    plt.show()


# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
draw_directions(
    [2.0, 1.0], {"same way": [2.0, 1.0], "across": [-1.0, 2.0], "against": [-2.0, -1.0]}
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three panels with the query as a thin black arrow to (2, 1) and a key as a thick grey
# arrow. Pointing the same way: product 5. At a right angle: 0. Pointing the opposite way: −5.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# A fourth key: (4, 2), the first one made twice as long.
#
# **Predict.** What doubles with it: the dot product, the cosine, both?

# %% slideshow={"slide_type": "fragment"}
q = torch.tensor([[2.0, 1.0]])
k = torch.tensor([[2.0, 1.0], [-1.0, 2.0], [-2.0, -1.0], [4.0, 2.0]])
cosines = F.cosine_similarity(q, k)
print("dot product", dot_score(q, k)[0].tolist())
print("cosine     ", [round(c, 3) + 0.0 for c in cosines.tolist()])
torch.testing.assert_close(dot_score(q, k)[0], q.norm() * k.norm(dim=-1) * cosines)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Same direction, same cosine, twice the score. A dot product weighs **direction and length**, the
# cosine direction only.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How large is a dot product?
#
# Back to the key that took everything. Take the simplest random vectors: each entry is +1 or −1,
# with a coin. Mean 0, variance 1.
#
# For $d = 2$ there are four queries and four keys. All 16 products by hand: four times −2, eight
# times 0, four times +2.
#
# The mean is 0. The variance, the mean of the squares, is $(4\cdot4 + 8\cdot0 + 4\cdot4)/16 = 2$.
#
# **Predict.** And for $d = 3$, with 64 pairs?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
coin = torch.tensor([-1.0, 1.0])
for d in (2, 3, 4, 5):
    vectors = torch.cartesian_prod(*[coin] * d)  # every vector there is
    check_shape(vectors, (2**d, d))
    products = dot_score(vectors, vectors)
    assert products.mean() == 0 and products.square().mean() == d  # exactly
    print(f"d = {d}   pairs {products.numel():4d}   variance {products.square().mean():.0f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Do the 16 products on the board: a row of four queries, a column of four keys. For d = 3 most say
# 3 because of the pattern; ask for the reason, and go on to the next slide for it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why it is $d$
#
# Let all entries be independent, with mean 0 and variance 1. Then each product $q_j k_j$ has mean
# 0 and variance $E[q_j^2]\,E[k_j^2] = 1$. The $d$ products are independent, so variances add:
#
# $$\operatorname{Var}(q\cdot k) = \sum_{j=1}^d 1 = d, \qquad \text{standard deviation } \sqrt d.$$
#
# No bell curve is needed. Independence is, and mean 0.
#
# **Predict.** A typical size of $q\cdot k$ for $d = 1024$: about 1, 32 or 1,024?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
torch.manual_seed(0)
sizes = [2**power for power in range(1, 13)]  # 2 .. 4096
measured = []
for d in sizes:
    queries, keys = torch.randn(4000, d), torch.randn(4000, d)
    measured.append((queries * keys).sum(dim=-1).var().item())  # 4000 independent pairs
    assert 0.85 * d < measured[-1] < 1.15 * d
print(f"d = 1024: standard deviation {measured[sizes.index(1024)] ** 0.5:.0f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote before running. Most say 1 ('the entries are about 1') or 1,024 ('there are 1,024 terms').
# The second would hold if all terms had one sign; they do not, so most of it cancels and a random
# walk of 1,024 steps is left.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7, 4.2))
ax.loglog(sizes, sizes, color="0.6", label="theory: d")
ax.loglog(sizes, measured, "o", color="tab:blue", markersize=9, label="measured")
ax.set_xticks(sizes[1::2], sizes[1::2])
ax.set_yticks(sizes[1::2], sizes[1::2])
ax.minorticks_off()
ax.set(xlabel="d, numbers in a vector", ylabel="variance of q · k")
ax.set_title("The variance of a dot product is the number of its terms")
ax.legend(frameon=False)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: measured variance of dot products against $d$ from 2 to 4,096, both axes logarithmic.
# The twelve dots lie on the grey line 'variance equals d'.*

# %% [markdown] slideshow={"slide_type": "skip"}
# A paradox to chew on. Random vectors of many entries are **almost orthogonal**: their cosine
# shrinks like $1/\sqrt d$. Yet their dot product *grows* like $\sqrt d$. Both are true, because the
# lengths grow too: $\lvert q\rvert\,\lvert k\rvert \approx d$, and $d \cdot 1/\sqrt d = \sqrt d$.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
for d in (4, 64, 1024):
    queries, keys = torch.randn(4000, d), torch.randn(4000, d)
    cosine = F.cosine_similarity(queries, keys).std()
    product = (queries * keys).sum(dim=-1).std()
    print(f"d = {d:4d}   spread of the cosine {cosine:.2f}   of the dot product {product:4.1f}")
    assert abs(cosine * d**0.5 - 1) < 0.1 and abs(product / d**0.5 - 1) < 0.1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What large scores do
#
# A softmax sees differences. Scores (1, 2, 3) give soft weights. Ten times as large, (10, 20, 30),
# the best key takes everything: the softmax is **saturated**.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
for scores in ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]):
    weights = torch.tensor(scores).softmax(dim=0)
    print(scores, "->", [round(w, 3) for w in weights.tolist()])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The differences grow with $d$. Two keys, one query: the gap between their scores is
# $q\cdot(k_1 - k_2)$. The entries of $k_1 - k_2$ have variance 2, so the gap has variance $2d$.
#
# | $d$ | 2 | 32 | 512 |
# |---|---|---|---|
# | typical gap $\sqrt{2d}$ | 2 | 8 | 32 |

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The slope goes with it
#
# A taken decision would not hurt if one could still change one's mind. But chapter 1 found the
# slope of the weights:
#
# $$J = \frac{\partial \mathbf a}{\partial \mathbf s}
#   = \operatorname{diag}(\mathbf a) - \mathbf a\,\mathbf a^\top.$$
#
# With two keys all its entries are $\pm a(1-a)$.
#
# **Predict.** At a gap of 0 that is $\frac14$. At a gap of 32: about $\frac1{100}$, a millionth, or
# less?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
for gap in (0.0, 2.0, 8.0, 32.0):
    a = torch.tensor([gap, 0.0], dtype=torch.float64).softmax(dim=0)
    J = torch.diag(a) - torch.outer(a, a)
    torch.testing.assert_close(J[0, 0], a[0] * a[1])
    print(f"gap {gap:2.0f}   weights {a[0]:.4f} and {a[1]:.2g}   slope {-J[0, 1]:.2g}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# $10^{-14}$. A gradient step moves such a weight by nothing you could measure. Chance has decided,
# and the gradient cannot take it back.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute for the vote. Most say a millionth: 'small, but something'. The answer is eight
# powers of ten below that. Ask what the optimiser would have to do to give the other key a chance.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now with ten keys, and for every $d$: 400 queries with ten keys of their own, drawn once with
# 4,096 numbers and cut off after $d$. We measure the size of $J$: the root of the sum of its
# squared entries.


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
def slope_size(weights):
    J = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]
    return torch.linalg.matrix_norm(J)


torch.manual_seed(0)
queries, keys = torch.randn(400, 1, 4096), torch.randn(400, 10, 4096)
scores_for = {d: dot_score(queries[..., :d], keys[..., :d])[:, 0] for d in sizes}
plain = [slope_size(scores_for[d].softmax(dim=-1)).median().item() for d in sizes]
for d in (4, 64, 1024, 4096):
    print(f"d = {d:4d}   median size of the slope {plain[sizes.index(d)]:.0e}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The repair
#
# The scores have standard deviation $\sqrt d$. Divide by it, and they have standard deviation 1,
# for every $d$. That is all:
#
# $$a(q, k) = \frac{q\cdot k}{\sqrt d}$$

# %% slideshow={"slide_type": "skip"}
scaled = [slope_size((scores_for[d] / d**0.5).softmax(dim=-1)).median().item() for d in sizes]
assert all(0.3 < size < 0.4 for size in scaled)  # for every d
assert plain[-1] < 1e-8 and max(plain[:4]) < 0.4  # plain: fine for a small d, gone for a large

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, ax = plt.subplots(figsize=(7, 4.2))
ax.loglog(sizes, scaled, "o-", color="tab:blue", label=r"divided by $\sqrt{d}$")
ax.loglog(sizes, plain, "s--", color="black", label="plain dot product")
ax.set_xticks(sizes[1::2], sizes[1::2])
ax.minorticks_off()
ax.set(xlabel="d, numbers in a vector", ylabel="median size of the slope")
ax.set_title(r"Without $1/\sqrt{d}$ the slope dies; with it, $d$ does not matter")
ax.legend(frameon=False, loc="lower left")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the median size of the softmax's slope against $d$, both axes logarithmic. The dashed
# line of the plain dot product is level up to about 8, then falls below $10^{-10}$ at 4,096. The
# solid line, divided by the root of $d$, stays level at about 0.35.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask for the value of d at which it starts to hurt: around 16 to 32. The median matters: a few
# queries happen to have two keys neck and neck, keep a slope, and hold up the mean. Someone may
# ask for the mean: it falls too, but only like one over the root of d.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## See it at once
#
# Three settings, one column each. Above, all scores. In the middle, the weights that one query
# gives its ten keys. Below, the slope: how much each weight moves when a score moves.
#
# **Question.** In the middle column one key has everything. What has happened to the slope below
# it? Which picture in that column shows the cause?


# %% slideshow={"slide_type": "skip"}
def draw_scale(axes, scores):
    weights = scores[31].softmax(dim=0)  # one query of the 400
    spread, shares, slope = axes
    percent = torch.full((4000,), 100 / 4000)
    spread.hist(scores.flatten(), bins=range(-132, 133, 6), weights=percent, color="0.4")
    spread.set(xlim=(-132, 132), ylim=(0, 60), xlabel="score", ylabel="% of scores")
    shares.bar(range(1, 11), weights, color="tab:blue")
    shares.set(ylim=(0, 1.02), xlabel="key", ylabel="weight", xticks=range(1, 11))
    J = torch.diag(weights) - torch.outer(weights, weights)
    heatmap(slope, J.abs(), range(1, 11), range(1, 11), vmax=0.25)
    slope.set(xlabel="score of key ...", ylabel="... moves weight of key")


# %% slideshow={"slide_type": "skip"}
settings = {"d = 4": scores_for[4], "d = 1024": scores_for[1024]}
settings[r"d = 1024, divided by $\sqrt{d}$"] = scores_for[1024] / 32
figure, axes = plt.subplots(3, 3, figsize=(11.5, 9.5))
for column, (name, scores) in zip(axes.T, settings.items(), strict=True):
    draw_scale(column, scores)
    column[0].set_title(name)
for ax in axes[:, 1:].flat:
    ax.set_ylabel("")
figure.colorbar(axes[2, 0].images[0], ax=axes[2], label="size of the slope")
figure.suptitle("Wide scores, one winner, no slope; one division mends all three", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: three columns. With d = 4 the scores lie close to 0, several keys share the weight, and
# the slope has many blue cells. With d = 1024 the scores spread from −100 to 100, one key holds
# all the weight, and the slope is white. Divided by the root of d, the scores are narrow
# again, the weights are shared, and the slope is back.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn $d$ yourself
#
# The same 400 queries, cut off after $d$ numbers. Left all scores, in the middle the weights of one
# query, right the slope.
#
# **Question.** Make $d$ larger, step by step. From which $d$ on does one key hold more than 90%?
# Always the same key? Then tick the box: does any $d$ still do it?


# %% slideshow={"slide_type": "skip"}
def turn(figure, d=4, divide_by_root_d=False):
    draw_scale(figure.subplots(1, 3), scores_for[d] / (d**0.5 if divide_by_root_d else 1))


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
from ipywidgets import SelectionSlider

from d2l_attention.views import explore

explore(
    turn,
    figsize=(11.5, 3.8),
    alt="The histogram of scores, the weights of one query and the slope of its softmax.",
    d=SelectionSlider(options=[2**power for power in range(1, 13)], value=4),
    divide_by_root_d=False,
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of three panels, for a chosen $d$: the histogram of the scores, the
# ten weights of one query as bars, and the size of the slope as a heat map.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The sliders work on the slide. Double d slowly and let the room shout 'stop' at 90%: at d = 64.
# Ask for the chain from left to right: wide scores, one winner, no slope. Go on: the winner
# changes, four different keys win between 64 and 4,096. Then tick the box and go back and forth:
# nothing passes 90%.

# %% slideshow={"slide_type": "skip"}
best = {d: scores_for[d][31].softmax(dim=0).max().item() for d in sizes}
assert [d for d in sizes if best[d] > 0.9] == sizes[sizes.index(64) :]
assert len({scores_for[d][31].argmax().item() for d in sizes if d >= 64}) == 4  # who wins is chance
for d in sizes:  # scaled: no key of any of the 400 queries gets there, at any d
    assert (scores_for[d] / d**0.5).softmax(dim=-1).max() < 0.9

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why not divide by $d$?
#
# It looks just as natural: the mean of the products instead of their sum.
#
# **Predict.** Ten keys, $d = 1024$. How much does the best key get if we divide by 1, by
# $\sqrt d = 32$, by $d = 1024$?

# %% slideshow={"slide_type": "fragment"}
for divisor in (1, 32, 1024):
    best = (scores_for[1024] / divisor).softmax(dim=-1).amax(dim=-1).median()
    print(f"divided by {divisor:4d}: the best of ten keys gets {best:.1%} (median)")

# %% [markdown] slideshow={"slide_type": "fragment"}
# By 1,024, hardly more than the 10% of a plain average: the query has lost its voice. $\sqrt d$ is
# the only divisor that keeps the spread at 1. In chapter 1's words, $\sqrt d$ is the
# **temperature** that fits the size.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One vote for each divisor, percent shouted into the room. The first is known by now; few expect
# that the last is almost a plain average. Ask what a query is for if all keys get the same.

# %% [markdown] slideshow={"slide_type": "skip"}
# **A fair objection.** 'Dividing the scores by 32 divides their gradient by 32, too. What have we
# won?' Measure the gradient that arrives at the query, everything included.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
query, keys, values = torch.randn(400, 1, 1024), torch.randn(400, 10, 1024), torch.randn(400, 10, 1)
for name, score in (("plain", dot_score), ("scaled", scaled_dot_score)):
    query.requires_grad_().grad = None
    attention_pooling(score(query, keys), values)[0].sum().backward()
    arrived = query.grad.norm(dim=-1).median()
    print(f"{name:7} median gradient at the query {arrived:.0e}")
    assert arrived < 1e-3 if name == "plain" else arrived > 0.1

# %% [markdown] slideshow={"slide_type": "skip"}
# The factor costs a 32nd and saves the slope: thousands of times as much arrives.
#
# And on paper the slope never is zero, as chapter 1 said. In float32 it is: $e^{-104}$ rounds to 0.
# At $d = 4096$ many keys stand further than that behind the best.

# %% slideshow={"slide_type": "skip"}
behind = scores_for[4096].amax(dim=-1, keepdim=True) - scores_for[4096]
lost = behind > 105
print(f"share of keys more than 105 behind: {lost.float().mean():.0%}")
assert (scores_for[4096].softmax(dim=-1)[lost] == 0).all()
assert ((scores_for[4096] / 64).softmax(dim=-1) > 0).all()  # scaled: none is lost

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The Gaussian again
#
# Chapter 2 had its own temperature, the width: scores $-\lvert q-k\rvert^2 / (2w^2)$. Take keys
# of one length, drop what cancels, and $q\cdot k / w^2$ is left. So $1/\sqrt d$ is a width of
# $w = d^{1/4}$: with 64 numbers, 2.8.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, keys = torch.randn(5, 64), F.layer_norm(torch.randn(7, 64), (64,))
gaussian_weights = gaussian_score(queries, keys, width=64**0.25).softmax(dim=-1)
transformer_weights = scaled_dot_score(queries, keys).softmax(dim=-1)
torch.testing.assert_close(gaussian_weights, transformer_weights, atol=1e-4, rtol=0)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the factor is not
#
# $1/\sqrt d$ is for the *start*: it assumes entries that are independent, with variance 1.
#
# Training makes queries and keys depend on each other; that is its job. Scores may then grow.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask first: 'is the variance still 1 after training?' Wait for someone to name the assumption that
# breaks, independence. A good place for a break.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A batch at once
#
# A batch holds several sentences. Each has its own queries and its own keys; no query may ask the
# keys of another sentence. So we need one matrix product *per sentence*:
#
# $$\operatorname{BMM}(Q, K) = [\,Q_1 K_1,\; Q_2 K_2,\; \dots,\; Q_n K_n\,]$$
#
# **Predict.** 2 sentences, 3 queries of size 4, 6 keys of size 4. The scores' shape?

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
Q, K = torch.randn(2, 3, 4), torch.randn(2, 6, 4)
scores = torch.bmm(Q, K.transpose(1, 2))  # (2, 3, 4) times (2, 4, 6)
check_shape(scores, (2, 3, 6))
torch.testing.assert_close(scores[0], Q[0] @ K[0].T)  # one ordinary product ...
torch.testing.assert_close(scores[1], Q[1] @ K[1].T)  # ... for each sentence
torch.testing.assert_close(scores, Q @ K.transpose(-2, -1))  # `@` does the same
torch.testing.assert_close(scores, torch.einsum("bqd,bkd->bqk", Q, K))  # and says so

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Collect shapes: (2, 3, 6) is most people's, some add a 4. Ask which letter of the einsum string
# disappears. Whoever has read the book may ask about 'elementwise': the elements that it means are
# whole matrices (the notebook shows what `*` does instead).

# %% [markdown] slideshow={"slide_type": "skip"}
# The book says that BMM 'computes the elementwise product'. Its formula is right; the word
# misleads. The elements it means are whole *matrices*. Elementwise in PyTorch is `*`, and that is
# another thing.
#
# **Predict.** $Q$ and $K^\top$ from above: what does `*` do? And with one query only?

# %% slideshow={"slide_type": "skip"}
try:
    Q * K.transpose(1, 2)
except RuntimeError as error:
    print(f"{type(error).__name__}: (2, 3, 4) * (2, 4, 6)")

one_query = Q[:, :1]  # (2, 1, 4)
check_shape(one_query * K, (2, 6, 4))  # no error: broadcasting copies the query
torch.testing.assert_close((one_query * K).sum(dim=-1), scores[:, 0])

# %% [markdown] slideshow={"slide_type": "skip"}
# With three queries, an error. With a single one, broadcasting and a sum give the right scores by
# luck. With as many queries as keys you get only the pairs $(q_i, k_i)$: exercise 1.5.

# %% slideshow={"slide_type": "skip"}
# Sentences do not mix: other keys in sentence 1, the same scores in sentence 0.
other_keys = K.clone()
other_keys[1] = 1000.0
assert torch.equal(dot_score(Q, other_keys)[0], dot_score(Q, K)[0])
assert not torch.equal(dot_score(Q, other_keys)[1], dot_score(Q, K)[1])

as_many = torch.randn(2, 6, 4)  # 6 queries and 6 keys: `*` runs, and is wrong
check_shape((as_many * K).sum(dim=-1), (2, 6))
torch.testing.assert_close(
    (as_many * K).sum(dim=-1), dot_score(as_many, K).diagonal(dim1=1, dim2=2)
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The whole formula
#
# $$\operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt d}\right) V$$
#
# By hand, one query (1, 1) and three tokens, $\sqrt 2 \approx 1.414$:
#
# | key | $q\cdot k$ | $/\sqrt2$ | exp | weight | value |
# |---|---|---|---|---|---|
# | (1, 0) | 1 | 0.707 | 2.03 | 0.248 | 0 |
# | (0, 1) | 1 | 0.707 | 2.03 | 0.248 | 10 |
# | (1, 1) | 2 | 1.414 | 4.11 | 0.503 | 20 |
#
# Output: $0.248\cdot 10 + 0.503 \cdot 20 = 12.55$.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
q = torch.tensor([[1.0, 1.0]])
k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
v = torch.tensor([[0.0], [10.0], [20.0]])
output, weights = attention_pooling(scaled_dot_score(q, k), v)
print("weights", [round(w, 3) for w in weights[0].tolist()], f"  output {output.item():.2f}")
torch.testing.assert_close(output, torch.tensor([[12.55]]), atol=0.01, rtol=0)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now with a batch. All sizes are different primes, so that a swapped axis cannot pass unseen.

# %% slideshow={"slide_type": "fragment"}
B, n, m, d, v = 2, 3, 5, 7, 11  # batch, queries, keys, their size, size of a value
torch.manual_seed(0)
Q, K, V = torch.randn(B, n, d), torch.randn(B, m, d), torch.randn(B, m, v)

scores = Q @ K.transpose(-2, -1) / d**0.5
check_shape(scores, (B, n, m))  # a score for each pair
weights = scores.softmax(dim=-1)
torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, n))  # each *query's* row sums to one
output = weights @ V
check_shape(output, (B, n, v))  # an answer for each query, of the size of a value

# %% [markdown] slideshow={"slide_type": "fragment"}
# Read the shapes as a story: $d$ disappears in the scores, $m$ disappears in the average. What is
# left is one value-sized answer a query.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Cover the comments' side and ask for each shape before you read it out. Which axis does the
# softmax take? 'The last' is right, and 'the keys' is the better answer.

# %% slideshow={"slide_type": "skip"}
show_source(scaled_dot_score)

# %% [markdown] slideshow={"slide_type": "skip"}
# It divides the *query* before the product. On paper that is the same. In float16, where the
# largest number is 65,504, it matters: a product that overflows cannot be divided any more.

# %% slideshow={"slide_type": "skip"}
big = torch.full((1, 256), 17.0, dtype=torch.float16)  # 256 * 17 * 17 = 73,984
print("first the product ", (dot_score(big, big) / 16).item())
print("first the division", scaled_dot_score(big, big).item())

# %% slideshow={"slide_type": "skip"}
# By hand, by the package and by PyTorch: one formula.
torch.testing.assert_close(attention_pooling(scaled_dot_score(Q, K), V)[0], output)
torch.testing.assert_close(dot_product_attention(Q, K, V), output)
torch.testing.assert_close(F.scaled_dot_product_attention(Q, K, V), output)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Query and key of unequal size
#
# A caption of 2 numbers asks an image of 3 numbers. There is no $q\cdot k$. Put a matrix in
# between:
#
# $$a(q, k) = q^\top M\, k$$
#
# By hand: $q = (1, 2)$, $k = (1, 0, 1)$,
# $M = \begin{pmatrix}1&0&2\\0&1&1\end{pmatrix}$. First $q^\top M = (1, 2, 4)$, a vector of the
# key's size; then $(1, 2, 4)\cdot(1, 0, 1) = 5$.
#
# $M$ translates from the query's language into the key's. Its entries are learned.

# %% slideshow={"slide_type": "skip"}
q, k = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0, 1.0]])
M = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
check_shape(bilinear_score(q, k, M), (1, 1))
print((q @ M).tolist(), bilinear_score(q, k, M).item())
assert bilinear_score(q, q, torch.eye(2)) == dot_score(q, q)  # M = identity: the dot product

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Worth having for equal sizes, too
#
# Four tokens ask each other: north, east, south, west, as arrows of length 1.
#
# **Predict.** With the plain dot product, whom does each one find? Can you choose $M$ so that each
# finds its neighbour to the right, clockwise?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
names = ["north", "east", "south", "west"]
x = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]])
to_the_right = torch.tensor([[0.0, -1.0], [1.0, 0.0]])  # x^T M: x, turned to its right
for label, M in (("dot product", torch.eye(2)), ("turned", to_the_right)):
    found = bilinear_score(x, x, M).argmax(dim=-1)
    print(f"{label:12}", {a: names[b] for a, b in zip(names, found.tolist(), strict=True)})

# %% [markdown] slideshow={"slide_type": "fragment"}
# Among vectors of one length the dot product always finds *itself* first. $M$ lets a query want
# something that it is not: a verb its subject, a 'he' its name. And the wanting may go one way:
# $q^\top M k$ is not $k^\top M q$.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The first question is quick: itself. For the second, let four people stand as arrows: each turns
# a quarter to its right and asks again, with the plain dot product. Two minutes.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
tokens = F.layer_norm(torch.randn(50, 16), (16,))
assert torch.equal(dot_score(tokens, tokens).argmax(dim=-1), torch.arange(50))  # each finds itself

M = torch.randn(16, 16)
assert not torch.allclose(bilinear_score(tokens, tokens, M), bilinear_score(tokens, tokens, M).T)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One matrix or two
#
# Split $M = W_q^\top W_k$ and put one half on each side:
#
# $$q^\top W_q^\top W_k\, k = (W_q\, q)\cdot(W_k\, k)$$
#
# First translate both into a common language of $h$ numbers, then take the dot product. These are
# the $W_q$ and $W_k$ of chapter 6. A small $h$ makes $M$ cheap: its rank is at most $h$. Queries of
# size 20, keys of size 30, $h = 4$:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
torch.manual_seed(0)
queries, keys = torch.randn(3, 20), torch.randn(5, 30)
W_q, W_k = torch.randn(4, 20), torch.randn(4, 30)  # a common language of 4 numbers
M = W_q.T @ W_k
check_shape(M, (20, 30))
torch.testing.assert_close(
    bilinear_score(queries, keys, M), dot_score(queries @ W_q.T, keys @ W_k.T)
)
in_halves = W_q.numel() + W_k.numel()
print(
    f"M: rank {torch.linalg.matrix_rank(M)}, {M.numel()} numbers; its halves: {in_halves} numbers"
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Or let a small network judge
#
# The first attention in translation (Bahdanau, Cho and Bengio, 2015) took no product at all.
# Project both to $h$ numbers, **add**, bend, and weigh the result:
#
# $$a(q, k) = w_v^\top \tanh(W_q\, q + W_k\, k)$$
#
# By hand, everything of size 1 with all weights 1: $q = 1$ and the keys 1, −1, −3 give $\tanh(2)$,
# $\tanh(0)$, $\tanh(-2)$, that is 0.96, 0, −0.96.

# %% slideshow={"slide_type": "skip"}
q, k = torch.tensor([[1.0]]), torch.tensor([[1.0], [-1.0], [-3.0]])
print([round(score, 2) for score in additive_score(q, k, w_v=torch.ones(1))[0].tolist()])

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### It is an MLP in disguise
#
# Write query and key one below the other, and the two matrices side by side:
#
# $$W_q\, q + W_k\, k = \begin{bmatrix}W_q & W_k\end{bmatrix}\begin{bmatrix}q\\k\end{bmatrix}$$
#
# So the additive score is a network with one hidden layer of $h$ units, applied to the pair.
# Not a similarity that someone has thought up: a judge that is trained.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, keys = torch.randn(3, 20), torch.randn(5, 2)
W_q, W_k, w_v = torch.randn(8, 20), torch.randn(8, 2), torch.randn(8)

mlp = nn.Sequential(nn.Linear(22, 8, bias=False), nn.Tanh(), nn.Linear(8, 1, bias=False))
mlp[0].weight = nn.Parameter(torch.cat([W_q, W_k], dim=1))
mlp[2].weight = nn.Parameter(w_v[None])

pairs = torch.cat([queries[:, None].expand(3, 5, 20), keys[None].expand(3, 5, 2)], dim=-1)
check_shape(pairs, (3, 5, 22))  # each query with each key
additive = additive_score(queries @ W_q.T, keys @ W_k.T, w_v)
torch.testing.assert_close(mlp(pairs).squeeze(-1), additive)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What is the tanh for?
#
# **Predict.** Leave it out: $w_v^\top(W_q\, q + W_k\, k)$. Three different queries ask five keys.
# What do their weights look like?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
without_tanh = (queries @ W_q.T)[:, None] + (keys @ W_k.T)[None]
for row in (without_tanh @ w_v).softmax(dim=-1).tolist():
    print([f"{weight:.3f}" for weight in row])
torch.testing.assert_close(
    (without_tanh @ w_v).softmax(dim=-1), (keys @ W_k.T @ w_v).softmax(dim=-1).expand(3, 5)
)
assert (additive.softmax(dim=-1)[0] - additive.softmax(dim=-1)[1]).abs().max() > 0.01

# %% [markdown] slideshow={"slide_type": "fragment"}
# Three times the same row. $w_v^\top W_q\, q$ is one number for all keys, and the softmax does
# not see it: nobody listens to the query. The bend is what lets query and key *meet*. Graph
# attention networks had a milder form of this flaw: the same *ranking* of the keys for every
# query (Brody, Alon and Yahav, 2022).

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The tanh question is worth five minutes; let them expand the bracket on the board. The usual
# vote is 'a bit less expressive'. It is not a bit: the query vanishes. Compare with the first
# part of the chapter, where the same cancellation was welcome.

# %% [markdown] slideshow={"slide_type": "skip"}
# Two more properties. A tanh lies between −1 and 1, so
# $\lvert a(q,k)\rvert \le \sum_i\lvert w_{v,i}\rvert$ however large queries and keys get: no
# $1/\sqrt d$ needed against *their* size. And without biases, as in the book, the score is odd:
# change the sign of query and key, and it changes sign as well.

# %% slideshow={"slide_type": "skip"}
huge = additive_score(1e6 * queries @ W_q.T, 1e6 * keys @ W_k.T, w_v)
assert huge.abs().max() <= w_v.abs().sum() + 1e-5
torch.testing.assert_close(additive_score(-queries @ W_q.T, -keys @ W_k.T, w_v), -additive)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What each costs
#
# A batch of 32 sentence pairs, 128 words on each side, $D = D' = h = 256$, float32. The scores
# $(B, Q, K)$ take 2 MiB.
#
# **Predict.** The largest tensor that the additive score builds on the way: 2 MiB, 32 MiB or
# 512 MiB?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
B, Q, K, h = 32, 128, 128, 256
print(f"scores            (B, Q, K)    {B * Q * K * 4 / 2**20:4.0f} MiB")
print(f"inside the tanh   (B, Q, K, h) {B * Q * K * h * 4 / 2**20:4.0f} MiB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# It is 512 MiB. A sum of projections is cheap, but the tanh wants it *for each pair*: $h$ numbers
# where the dot product has one. The book speaks of 'minor computational savings'. Where $h < D$ it
# saves multiplications for the pairs; in memory and in calls of tanh it goes the other way.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote by hands, half a minute. Most choose 32 MiB: they project 128 queries and 128 keys and
# forget the pairs. Draw the grid of pairs, and a vector of length h in each cell.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Counted
#
# Query size $D$, key size $D'$, as the formulas stand:
#
# | score | multiplications for the pairs | before that | largest tensor for the pairs |
# |---|---|---|---|
# | dot | $BQK\,D$ | | $BQK$ |
# | scaled dot | $BQK\,D$ | $BQ\,D$ | $BQK$ |
# | bilinear | $BQK\,D'$ | $BQ\,DD'$ | $BQK$ |
# | Gaussian | $BQK\,D$ | | $BQK\,D$ |
# | additive | $BQK\,h$, and as many tanh | $B(QD + KD')\,h$ | $BQK\,h$ |
#
# All five grow with $Q\cdot K$. That is the price of asking everybody (chapter 10).


# %% slideshow={"slide_type": "skip"}
from torch.utils.flop_counter import FlopCounterMode


def multiplications(function, *inputs):
    """What PyTorch's matrix products multiply; its counter takes each multiply-add as 2."""
    with FlopCounterMode(display=False) as counter:
        function(*inputs)
    return counter.get_total_flops() // 2


def largest_kept(function, *inputs):
    """Elements of the largest tensor that autograd keeps for the backward pass."""
    sizes = []

    def keep(tensor):
        sizes.append(tensor.numel())
        return tensor

    inputs = [tensor.clone().requires_grad_() for tensor in inputs]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        function(*inputs)
    return max(sizes)


# %% [markdown] slideshow={"slide_type": "skip"}
# Do not believe a table: PyTorch can count its multiplications, and tell how many numbers it
# keeps for the backward pass. (Both counters are in the cell above.)

# %% slideshow={"slide_type": "skip"}
B, Q, K, D, D2, h = 2, 13, 17, 5, 7, 11
queries, keys, keys2 = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, D2)
M, w_v = torch.randn(D, D2), torch.randn(h)
a, b = torch.randn(B, Q, h), torch.randn(B, K, h)  # projected already

assert multiplications(dot_score, queries, keys) == B * Q * K * D
assert multiplications(bilinear_score, queries, keys2, M) == B * Q * K * D2 + B * Q * D * D2
assert dot_score(queries, keys).numel() == B * Q * K
assert largest_kept(dot_score, queries, keys) == B * K * D  # the inputs, nothing for the pairs
assert largest_kept(gaussian_score, queries, keys) == B * Q * K * D  # all differences
assert largest_kept(additive_score, a, b, w_v) == B * Q * K * h  # all tanh
print(f"kept for the pairs: Gaussian {B * Q * K * D:,}, additive {B * Q * K * h:,}, dot product 0")

# %% slideshow={"slide_type": "skip"}
# The additive layer's two projections, and its final average of values of size 3:
layer, values = AdditiveAttention(num_hiddens=h, dropout=0.0), torch.randn(B, K, 3)
layer(queries, keys2, values)  # the first call fixes the sizes of W_q and W_k
projections = B * (Q * D + K * D2) * h
assert multiplications(layer, queries, keys2, values) == projections + B * Q * K * 3
# Not in that count: tanh(...) @ w_v, which is no matrix-matrix product. Each of the
# B * Q * K * h numbers just counted is multiplied once.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from time import perf_counter

a, b, w_v = torch.randn(8, 128, 256), torch.randn(8, 128, 256), torch.randn(256)
seconds = {}
for score, inputs in ((dot_score, (a, b)), (additive_score, (a, b, w_v))):
    runs = []
    for _ in range(5):
        start = perf_counter()
        score(*inputs)
        runs.append(perf_counter() - start)
    seconds[score.__name__] = min(runs)
    print(f"{score.__name__:15} {1000 * min(runs):6.1f} ms   (8 x 128 x 128 pairs, size 256)")
assert seconds["additive_score"] > 2 * seconds["dot_score"]

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A tanh for each pair? Exponentials for each token
#
# The tanh of a sum can be had from two exponentials:
#
# $$\tanh(q + k) = 1 - \frac{2}{1 + e^{2q}\,e^{2k}}$$
#
# $e^{2q}$ belongs to the query alone, $e^{2k}$ to the key alone. So $Q + K$ tokens need
# exponentials, and each of the $Q\cdot K$ pairs is left with a product, a sum and a division.
#
# **Predict.** For which queries and keys does the right side give no number at all?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
for q, k in ((0.3, -1.1), (20.0, -19.0), (40.0, 5.0), (100.0, -100.0)):
    q, k = torch.tensor(q), torch.tensor(k)
    trick = 1 - 2 / (1 + (2 * q).exp() * (2 * k).exp())
    print(f"q = {q:5.1f}, k = {k:6.1f}   tanh {torch.tanh(q + k):7.4f}   exponentials {trick:7.4f}")
assert trick.isnan() and torch.tanh(q + k) == 0

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 100 and −100, infinity is multiplied by 0. So the package looks at the largest query and key
# first: up to 20 it takes the exponentials, beyond that the tanh.

# %% [markdown] slideshow={"slide_type": "skip"}
# The second half of the trick is about memory. Not all pairs need to exist at once: a few queries
# meet all keys, their scores are written down, and the next few use the same block of memory.
# `_chunks` is the loop. The backward pass computes these numbers again and keeps none. (So there
# is no second derivative: asking for one is an error.)

# %% slideshow={"slide_type": "skip"}
show_source(_chunks)


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
def written_out(queries, keys, w_v):
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ w_v


w_v = w_v / 16  # of the size that a layer starts with
error = (additive_score(a, b, w_v) - written_out(a.double(), b.double(), w_v.double())).abs().max()
assert error < torch.finfo(torch.float32).eps * w_v.abs().sum()  # rounding of the sum's terms
torch.testing.assert_close(
    additive_score(100 * a, 100 * b, w_v), written_out(100 * a, 100 * b, w_v), atol=1e-5, rtol=1e-5
)
assert largest_kept(written_out, a, b, w_v) == 8 * 128 * 128 * 256
assert largest_kept(additive_score, a, b, w_v) == 8 * 128 * 256  # the inputs, nothing for the pairs
for score in (written_out, additive_score):
    runs = []
    for _ in range(5):
        start = perf_counter()
        score(a, b, w_v)
        runs.append(perf_counter() - start)
    seconds[score.__name__] = min(runs)
    print(f"{score.__name__:15} {1000 * min(runs):6.1f} ms")
assert seconds["written_out"] > 2 * seconds["additive_score"]

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Derive it at the board: $\tanh x = (e^{2x} - 1)/(e^{2x} + 1)$, put $e^{2q}e^{2k}$ for $e^{2x}$. To
# show live: the timing of the next cells in the notebook. A few pairs are not worth it; the
# package then takes the tanh.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which one?
#
# - **Scaled dot product**: the default, and the Transformer's. One matrix product, and chips are
#   built for those.
# - **Bilinear**: unequal sizes, or a query that wants what it is not. The Transformer's too, with
#   $M = W_q^\top W_k$.
# - **Additive**: unequal sizes, bounded scores, few keys; chapter 5 uses it. For large $d$ it did
#   better than the *unscaled* dot product. Vaswani et al. suspected saturation, and divided by
#   $\sqrt d$.
# - **Gaussian**: where distance itself means something, as for rents and places.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The layers
#
# The book's toy example: two sentences, one query of size 2 each, ten keys of size 2, ten values
# of size 4. In sentence 0 only the first 2 keys are words, in sentence 1 the first 6
# (`valid_lens`; how that works is chapter 4).
#
# `eval()` switches dropout off. In training, dropout strikes out random weights.

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
queries, keys = torch.randn(2, 1, 2), torch.randn(2, 10, 2)
values, valid_lens = torch.randn(2, 10, 4), torch.tensor([2, 6])

dot_product = DotProductAttention(dropout=0.5).eval()
output = dot_product(queries, keys, values, valid_lens)
check_shape(output, (2, 1, 4))
check_shape(dot_product.attention_weights, (2, 1, 10))

# %% [markdown] slideshow={"slide_type": "skip"}
# Now queries of size 20 against the same keys of size 2. The dot product must refuse. The additive
# layer projects both to 8 hidden units.

# %% slideshow={"slide_type": "skip"}
long_queries = torch.randn(2, 1, 20)
try:
    dot_product(long_queries, keys, values, valid_lens)
except ValueError as error:
    print(error)

additive = AdditiveAttention(num_hiddens=8, dropout=0.1).eval()
check_shape(additive(long_queries, keys, values, valid_lens), (2, 1, 4))
check_shape(additive.W_q.weight, (8, 20))
check_shape(additive.W_k.weight, (8, 2))

# %% slideshow={"slide_type": "skip"}
both = torch.stack([layer.attention_weights.squeeze(1) for layer in (dot_product, additive)])
check_shape(both, (2, 2, 10))
titles = ["dot product, queries of size 2", "additive, queries of size 20"]
show_heatmaps(both[None], "key", "sentence", titles, figsize=(10, 2.9))
for ax in plt.gcf().axes[:2]:
    ax.set(xticks=range(10), yticks=[0, 1])
plt.suptitle("Either score: only the first 2 and the first 6 keys are seen", fontsize=15)
plt.show()

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: two heat maps of two rows and ten columns. In both, sentence 0 has weight on keys 0 and 1
# only, sentence 1 on keys 0 to 5 only; the rest is empty. The single weights differ.*

# %% slideshow={"slide_type": "skip"}
assert (both[:, 0, 2:] == 0).all() and (both[:, 1, 6:] == 0).all()
torch.testing.assert_close(both.sum(dim=-1), torch.ones(2, 2))
by_formula = masked_softmax(scaled_dot_score(queries, keys), valid_lens)
torch.testing.assert_close(dot_product.attention_weights, by_formula)
torch.testing.assert_close(output, by_formula @ values)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The matrix that nobody builds
#
# `DotProductAttention` has two ways to the same answer. If you ask for the weights, it takes the
# three steps that you know: scores, softmax, average. If you do not, it hands everything to
# PyTorch's **fused kernel**, which goes through the keys block by block, keeps a running sum, and
# never holds the whole $(Q, K)$ matrix (chapter 10 builds one).
#
# So the layer remembers queries and keys, which are small, and computes `attention_weights` at the
# moment you **read** them. If you do not read, you do not pay.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
n, d = 512, 16
q, k, v = torch.randn(1, n, d), torch.randn(1, n, d), torch.randn(1, n, d)
fused = largest_kept(dot_product_attention, q, k, v)
explicit = largest_kept(lambda q, k, v: attention_pooling(scaled_dot_score(q, k), v)[0], q, k, v)
print(f"largest tensor kept for backward: fused {fused:,}, written out {explicit:,} numbers")
assert fused < n * n == explicit

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask what a layer that returns no weights has to hold in memory: most say the whole matrix. To show
# live: run the layer, read `attention_weights`, run it again without reading. How the kernel does
# it is chapter 10.

# %% slideshow={"slide_type": "skip"}
show_source(DotProductAttention)

# %% slideshow={"slide_type": "skip"}
show_source(AdditiveAttention)

# %% [markdown] slideshow={"slide_type": "skip"}
# Read the two from their ends: score, softmax, average. The lines before that check the inputs, put
# zeros into rows that nobody sees (chapter 4 shows why), and remember what `attention_weights` is
# computed from. `hidden` only bundles the arguments that hide keys (`valid_lens` and the masks of
# chapter 4), `bias` is for chapter 7, `offset` for chapter 8.
#
# Three remarks. Before the first call there is nothing to read. Weights read later carry no
# gradient; if your loss needs them (chapter 5 will), ask in the call with `need_weights=True`. And
# with dropout at work, in training, PyTorch's kernel for the CPU does write the matrix out; beyond
# eight million weights the package gives it one head at a time.
#
# The additive layer has no fused kernel to call. It needs the scores for its softmax, so the
# weights come along.

# %% slideshow={"slide_type": "skip"}
try:
    DotProductAttention(dropout=0.0).attention_weights
except RuntimeError as error:
    print(error)
same_output, weights = dot_product(queries, keys, values, valid_lens, need_weights=True)
torch.testing.assert_close(same_output, output)
torch.testing.assert_close(weights, dot_product.attention_weights)


def with_dropout(q, k, v):
    return dot_product_attention(q, k, v, dropout=0.1)


assert largest_kept(with_dropout, q, k, v) == n * n

# In training, dropout makes two calls differ; in eval mode they agree.
torch.manual_seed(0)
assert torch.equal(dot_product(queries, keys, values), dot_product(queries, keys, values))
dot_product.train()
assert not torch.equal(dot_product(queries, keys, values), dot_product(queries, keys, values))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Gaussian score = dot product − a fee on the key's length − a term that the softmax does not see.
#   With keys of one length (layer norm) the fee cancels, too.
# - $q\cdot k$ of random vectors has variance $d$. Large scores kill the softmax's slope;
#   $1/\sqrt d$ keeps it alive, whatever $d$ is.
# - $\operatorname{softmax}(QK^\top/\sqrt d)\,V$: one matrix product for each batch entry, never
#   elementwise.
# - Unequal sizes: $q^\top M k$, or additive, an MLP on the pair.
# - Written out, additive holds $h$ numbers for each pair, the dot product one, the fused kernel
#   none. Exponentials and a loop over queries spare additive the $h$.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or wrong, as often as you
# like. `hint("3.1")` helps a little, and a little more each time; `solution("3.1")` shows a
# solution and says why it is right.

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.1** Largest product, nearest key · *easy, 3 minutes* · by hand
#
# The query is (2, 1). Keys 0, 1 and 2 are (1, 1), (0, 4) and (5, −2). Which key has the largest
# dot product with the query, and which is nearest to it? Answer with the two keys' numbers in this
# order, such as `(0, 1)`.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("3.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.2** Who meets whom? · *easy, 5 minutes* · find the bug
#
# `all_scores` should give the dot product of every query with every key: queries (\*, Q, D), keys
# (\*, K, D), scores (\*, Q, K), where \* is any leading axes, also none. It runs for Q = K, so its
# author thought it was right. Repair it. The scores keep the dtype of the inputs, and gradients
# reach queries and keys.


# %% slideshow={"slide_type": "skip"}
def all_scores(queries, keys):
    """Dot product of every query with every key: (*, Q, D), (*, K, D) -> (*, Q, K).

    The queries [[1, 2], [0, 1]] and keys [[1, 1], [3, 4]] give [[3, 11], [1, 4]].
    """
    scores = (queries * keys).sum(-1)
    return scores


check("3.2", all_scores)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.3** When the mean is not 0 · *easy, 8 minutes* · predict, then measure
#
# The entries of $q$ and $k$ are independent, with variance 1, but with mean **1** instead of 0, as
# after a shift. $d = 100$. First predict the variance of $q\cdot k$, then measure it, then find the
# exact number on paper. Answer with the exact number.

# %% slideshow={"slide_type": "skip"}
answer = None

check("3.3", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.4** Distances without the differences · *medium, 10 minutes* · complete a function
#
# Complete `distance_score`: equal to `gaussian_score(queries, keys)` for queries (\*, Q, D) and
# keys (\*, K, D), where \* is any leading axes, also none, but without a (Q, K, D) tensor on the
# way and without a loop. Squared lengths and a matrix product are enough (the book's exercise 1).
# The scores keep the dtype of the inputs, and gradients reach queries and keys.


# %% slideshow={"slide_type": "skip"}
def distance_score(queries, keys):
    """The score -|q - k|²/2 of every pair: (*, Q, D), (*, K, D) -> (*, Q, K).

    The query [[2, 1]] and the keys [[1, 1], [0, 4]] give [[-0.5, -6.5]].
    """
    ...


check("3.4", distance_score)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.5** The author's test passed · *medium, 8 minutes* · find the bug
#
# This `attention` passed its author's test, with queries (2, 4, 16) and keys (2, 16, 16). For
# other sizes it is wrong. Repair it, for queries (B, Q, D), keys (B, K, D) and values (B, K, V).
# The output (B, Q, V) keeps the dtype of the inputs, and gradients reach all three.


# %% slideshow={"slide_type": "skip"}
def attention(queries, keys, values):
    """Scaled dot-product attention: (B, Q, D), (B, K, D), (B, K, V) -> (B, Q, V).

    Where all scores are equal, the values [[1], [3]] give [2] for each query.
    """
    scores = torch.bmm(queries, keys.transpose(1, 2)) / keys.shape[1] ** 0.5
    return torch.bmm(scores.softmax(dim=-1), values)


check("3.5", attention)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.6** The test that catches four wrong scores · *medium, 12 minutes* · write the test
#
# Write `test_score(implementation)` for functions that are called like `scaled_dot_score(queries,
# keys)`. It must pass on the package's function, and on others that are right but for rounding, and
# fail, by an `AssertionError`, on each of four broken ones: no division; division by $D$; division
# by the root of the number of keys; scores of shape (\*, K, Q).


# %% slideshow={"slide_type": "skip"}
def test_score(implementation):
    """Pass on a right `implementation`, and fail by an `AssertionError` on broken ones.

    Queries (*, Q, D) and keys (*, K, D) give scores (*, Q, K); [[1.0, 2, 3, 4]] and
    [[1.0, 0, 0, 1], [0, 1, 0, 0]] give [[2.5, 1]].
    """
    ...


check("3.6", test_score)

# %% [markdown] slideshow={"slide_type": "skip"}
# **3.7** Like finds like · *hard, 20 minutes* · complete a function
#
# Two tokens, $x = 1$ and $x = -1$, are each other's queries and keys, written $(x, 1)$. Write
# `like_finds_like()` that returns three tensors of decimals, `W_q` (h, 2), `W_k` (h, 2) and `w_v`
# (h,), with an $h$ of your choice, so that under the additive score each query scores higher, by at
# least 0.01, on the key of its own sign. Then say why no weights can do it without the constant 1.


# %% slideshow={"slide_type": "skip"}
def like_finds_like():
    """Weights `W_q` (h, 2), `W_k` (h, 2) and `w_v` (h,) under which like finds like.

    With h = 1 and all weights 1 the scores are [[1.00, 0.96], [0.96, 0.00]] (rows: queries 1 and
    -1; columns: keys 1 and -1). Query 1 prefers its own sign, query -1 does not.
    """
    ...


check("3.7", like_finds_like)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - The book: Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, section 11.3, d2l.ai. The
#   way from the Gaussian to the dot product and the toy example come from there.
# - A. Vaswani et al. (2017), *Attention Is All You Need*. NeurIPS, arXiv:1706.03762. Section
#   3.2.1: the factor $1/\sqrt d$ and the guess about saturation.
# - D. Bahdanau, K. Cho and Y. Bengio (2015), *Neural Machine Translation by Jointly Learning to
#   Align and Translate*. ICLR, arXiv:1409.0473. The additive score.
# - M.-T. Luong, H. Pham and C. D. Manning (2015), *Effective Approaches to Attention-based Neural
#   Machine Translation*. EMNLP, arXiv:1508.04025. Dot, general (bilinear) and concat scores.
# - D. Britz, A. Goldie, M.-T. Luong and Q. Le (2017), *Massive Exploration of Neural Machine
#   Translation Architectures*. EMNLP, arXiv:1703.03906. Additive against unscaled dot product,
#   measured.

# %% [markdown] slideshow={"slide_type": "skip"}
# - J. L. Ba, J. R. Kiros and G. E. Hinton (2016), *Layer Normalization*. arXiv:1607.06450.
# - S. Brody, U. Alon and E. Yahav (2023), *On the Expressivity Role of LayerNorm in Transformers'
#   Attention*. Findings of ACL, arXiv:2305.02582. Unselectable keys.
# - S. Brody, U. Alon and E. Yahav (2022), *How Attentive are Graph Attention Networks?* ICLR,
#   arXiv:2105.14491. Attention that does not listen to its query.
# - T. Dao, D. Y. Fu, S. Ermon, A. Rudra and C. Ré (2022), *FlashAttention: Fast and
#   Memory-Efficient Exact Attention with IO-Awareness*. NeurIPS, arXiv:2205.14135. The fused
#   kernel.
