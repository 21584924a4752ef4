# %% [markdown] slideshow={"slide_type": "slide"}
# # 7 · Self-attention and positional encoding
#
# **You will**
# - weigh self-attention against a CNN and an RNN: operations, steps in a row, length of the path;
# - tell attention in four ways where a token stands, and derive why a score with rotary or ALiBi
#   depends on positions only through their distance;
# - train all four on short sequences, read on past the training length, and find out which of
#   them break, and why.
#
# Core path: 80 minutes. Exercises: 68. One cell trains for some ten seconds. Builds on chapter 6.
# *Dive into Deep Learning* (D2L) treats the subject in section 11.6.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from d2l_attention import (
    ALiBi,
    KeyValueCache,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    PositionalEncoding,
    Positions,
    RotaryEncoding,
    check_shape,
    dot_product_attention,
    dot_score,
    scaled_dot_score,
    show_source,
)
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Who bites?
#
# 'Dog bites man' is no news. 'Man bites dog' is.
#
# A layer of **self-attention** reads the one headline, then the other: its queries, keys and values
# are all made from the same words. Each word is a random vector, and the answers of the three words
# are averaged.
#
# **Predict.** How far apart are the two averages?

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
dog, bites, man = torch.randn(3, 8)
no_news, news = torch.stack([dog, bites, man])[None], torch.stack([man, bites, dog])[None]

layer = MultiHeadAttention(num_hiddens=8, num_heads=2, dropout=0.0)
one, other = layer(no_news, no_news, no_news), layer(news, news, news)
apart = (one - other).mean(dim=1).norm()
print(f"the two averages are apart by {apart:.6f}")
assert apart < 1e-6
torch.testing.assert_close(one.flip(1), other)  # 'dog' gets one answer, wherever it stands

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote: a lot, a little, not at all. Expect 'a little: the words are the same'. Wait for someone who
# asks which part of the formula contains a position. None does.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The same answer, but for rounding. No training could mend it: the two are equal whatever the
# parameters. Chapter 6 saw it in passing: shuffle the tokens, and the answers are shuffled along.
# The word for it is **permutation equivariance**. For any order $\pi$ of the rows,
#
# $$f(X_\pi) = f(X)_\pi .$$

# %% slideshow={"slide_type": "fragment"}
X = torch.randn(2, 7, 8)
for _ in range(20):
    order = torch.randperm(7)
    shuffled = X[:, order]
    torch.testing.assert_close(layer(shuffled, shuffled, shuffled), layer(X, X, X)[:, order])
print("20 orders of 7 tokens: the answers are shuffled along each time")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Older networks know the order without being told.
#
# **Predict.** How do a convolution over neighbours and a recurrent network know it?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
conv, rnn = nn.Conv1d(8, 8, kernel_size=3, padding=1), nn.RNN(8, 8, batch_first=True)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Compares the two averages after a convolution, a recurrent network and self-attention
for name, read in {
    "CNN": lambda X: conv(X.mT).mT,
    "RNN": lambda X: rnn(X)[0],
    "self-attention": lambda X: layer(X, X, X),
}.items():
    apart = (read(no_news) - read(news)).mean(dim=1).norm()
    print(f"{name:14} the two averages are apart by {apart:.3f}")
    assert (apart < 1e-6) == (name == "self-attention")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A convolution has a weight of its own for 'the one on the left'. Even the average shows it here,
# because the first word has a zero on its left instead of a word, and the last word one on its
# right. A recurrent network reads one word after the other. Self-attention gave both up. First see
# what it got in return. Then give it back the order.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Someone will say: 'but in chapter 6 the heads learned *before* and *opposite*'. They did, because
# each letter carried seven extra numbers that said where it stood. That was a positional encoding
# already, the plainest one: it has as many columns as the longest word has letters. Before the
# numbers, let two people say what tells a CNN and an RNN the order: a weight for each side, and
# reading in turn.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Three ways to read
#
# A sentence of $n$ tokens, $d$ numbers each. Watch how news travels:
#
# - **CNN** with a window of $k = 3$: one layer carries it one place, to the left and to the right.
# - **RNN**: the first step reads each word; every further step carries news one place to the right.
# - **Self-attention**: one layer carries it anywhere.
#
# A *step* has to wait for the one before: a layer of a CNN, a word of an RNN.

# %% [markdown] slideshow={"slide_type": "fragment"}
# To see one step of the RNN, all its states step together here: each listens to its own word and
# to the state on its left. $n$ such steps are one reading of $n$ words.


# %% slideshow={"slide_type": "skip"}
def read_cnn(X, layers, conv=conv):
    for _ in range(layers):
        X = conv(X.mT).mT
    return X


def read_rnn(X, steps):
    state = torch.zeros_like(X)
    for _ in range(steps):
        left = F.pad(state[:-1], (0, 0, 1, 0))  # nobody stands left of the first
        state = cell(X, left)
    return state


def read_attention(X, layers):
    for _ in range(layers):
        X = dot_product_attention(X, X, X)
    return X


torch.manual_seed(0)
cell = nn.RNNCell(8, 8)
readers = {"CNN": read_cnn, "RNN": read_rnn, "self-attention": read_attention}

# %% [markdown] slideshow={"slide_type": "subslide"}
# Who hears whom is a question for the gradient: does output $i$ move when input $j$ moves?
#
# **Predict.** Twelve tokens. Which cells are filled after one step? After four?


# %% slideshow={"slide_type": "fragment"}
def reached(read, n, steps):
    """Bool (n, n): does output i (row) depend on input j (column) after so many steps?"""
    X = torch.randn(n, 8)
    slopes = torch.autograd.functional.jacobian(lambda X: read(X, steps).sum(dim=-1), X)
    check_shape(slopes, (n, n, 8))
    return (slopes != 0).any(dim=-1)


after = {(steps, name): reached(readers[name], 12, steps) for steps in (1, 4) for name in readers}

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute with paper before the picture: draw the three grids after four steps. Expect a right band
# for the CNN, and for the RNN a whole triangle after one step, because its loop runs over the
# sentence. That is four steps for four words: count them.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws which inputs reach which outputs after one step and after four
figure, axes = plt.subplots(2, 3, figsize=(9, 5.6), sharex=True, sharey=True)
for ((steps, name), filled), ax in zip(after.items(), axes.flat, strict=True):
    heatmap(ax, filled, range(1, 13), range(1, 13), vmax=1.4)
    ax.set(aspect="equal", title=name if steps == 1 else "")
    ax.tick_params(labelsize=12)
    ax.set_xticks(range(0, 12, 3))
    ax.set_yticks(range(0, 12, 3))
for ax, steps in zip(axes[:, 0], ("1 step", "4 steps"), strict=True):
    ax.set_ylabel(f"after {steps}\noutput")
for ax in axes[1]:
    ax.set_xlabel("input")
figure.suptitle("Only self-attention hears everyone at once", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of three grids, outputs by inputs, a cell filled where the input reaches the
# output. After one step: the CNN has a band of three, the RNN the diagonal, self-attention
# everything. After four: the CNN a band of nine, the RNN the diagonal and the three cells left of
# it, self-attention everything.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the six grids, and that 12 steps together are one reading of an RNN
index = torch.arange(12)
back = index[:, None] - index  # how far output i looks back to input j
for steps in (1, 4):
    assert torch.equal(after[steps, "CNN"], back.abs() <= steps)
    assert torch.equal(after[steps, "RNN"], (back >= 0) & (back < steps))
    assert after[steps, "self-attention"].all()

X = torch.randn(12, 8)
state = torch.zeros(8)
for token in X:  # the usual way to write an RNN ...
    state = cell(token, state)
torch.testing.assert_close(read_rnn(X, 12)[-1], state)  # ... is what 12 steps come to
print("checked: the grids are as described; 12 steps end as an RNN that reads 12 words in a row")

# %% [markdown] slideshow={"slide_type": "subslide"}
# The **longest path**: how many steps until the last output hears the first input?
#
# **Predict.** For each of the three: with 4, 8, 16 and 32 tokens?


# %% slideshow={"slide_type": "skip"}
def longest_path(read, n):
    X, steps, slope = torch.randn(n, 8, requires_grad=True), 0, torch.zeros(n, 8)
    while not slope[0].any():
        steps += 1
        (slope,) = torch.autograd.grad(read(X, steps)[-1].sum(), X)
    return steps


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Measures the longest path of the three, for four lengths
print(f"{'tokens':14}", *(f"{n:3d}" for n in (4, 8, 16, 32)))
for name, read in readers.items():
    paths = [longest_path(read, n) for n in (4, 8, 16, 32)]
    print(f"{name:14}", *(f"{path:3d}" for path in paths))
    assert paths == {"CNN": [3, 7, 15, 31], "RNN": [4, 8, 16, 32]}.get(name, [1, 1, 1, 1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# A window of $k$ ($k$ odd) reaches $(k-1)/2$ places to each side, so a CNN needs about $2n/(k-1)$
# layers.

# %% slideshow={"slide_type": "skip"}
for k in (3, 5, 9):
    wide = nn.Conv1d(8, 8, kernel_size=k, padding=k // 2)
    path = longest_path(lambda X, layers, conv=wide: read_cnn(X, layers, conv), 33)
    print(f"33 tokens, window of {k}: {path:2d} layers")
    assert path == 2 * 32 // (k - 1)

# %% [markdown] slideshow={"slide_type": "fragment"}
# And a long path is a thin one: at each step of an RNN some of the news is lost.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Measures how much the first token moves the last output
X = torch.randn(32, 8, requires_grad=True)
for name, steps in (("RNN", 32), ("self-attention", 1)):
    (slope,) = torch.autograd.grad(readers[name](X, steps)[-1].sum(), X)
    far, near = slope[0].norm(), slope[-2].norm()
    print(f"{name:14} slope at the first token {far:.0e}, at the last but one {near:.0e}")
    assert (far / near < 1e-6) == (name == "RNN")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The price
#
# | | multiplications | steps in a row | longest path |
# |---|---|---|---|
# | CNN, window $k$ | $k\,n\,d^2$ | 1 a layer | $\approx 2n/(k-1)$ |
# | RNN | $2\,n\,d^2$ | $n$ | $n$ |
# | attention alone | $2\,n^2 d$ | 1 a layer | 1 |
# | with its projections | $4\,n\,d^2 + 2\,n^2 d$ | 1 a layer | 1 |
#
# **Predict.** $d = 64$. From which $n$ on does attention alone multiply more than the RNN? And the
# whole layer, with $W_q$, $W_k$, $W_v$ and $W_o$?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the multiplications for three lengths, and compares them with the table
d = 64
cnn_layer, rnn_layer = nn.Conv1d(d, d, 3, padding=1), nn.RNN(d, d, batch_first=True)
attention_layer = MultiHeadAttention(d, num_heads=8, dropout=0.0)


def multiplications(read, *inputs):
    with FlopCounterMode(display=False) as counter:
        read(*inputs)
    return counter.get_total_flops() // 2  # it takes a multiply-add as 2


for n in (16, 64, 512):
    X = torch.randn(1, n, d)
    # With the weights asked for, the products are plain ones, which the counter knows.
    counts = {
        "CNN": multiplications(cnn_layer, X.mT),
        "RNN": multiplications(rnn_layer, X),
        "alone": multiplications(lambda X: dot_product_attention(X, X, X, need_weights=True), X),
        "layer": multiplications(lambda X: attention_layer(X, X, X, need_weights=True), X),
    }
    print(f"n = {n:3d}  ", "   ".join(f"{name}: {count:10,}" for name, count in counts.items()))
    alone, projections = 2 * n**2 * d, 4 * n * d**2
    assert list(counts.values()) == [3 * n * d**2, 2 * n * d**2, alone, alone + projections]

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A minute with the table, in pairs: $2n^2d > 2nd^2$ from $n > d$ on, and $4nd^2$ is more than the
# RNN has in all. Who says 64 for both has overlooked the projections.

# %% [markdown] slideshow={"slide_type": "subslide"}
# At $n = d$ attention alone and the RNN are equal; beyond, attention multiplies more. The layer
# multiplies more at every $n$: its projections alone cost twice the RNN. At $n = 512$ attention
# multiplies eight times as much as the RNN, the layer ten times.
#
# **Predict.** So which is slower there?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Times the three, each 15 times in turn
timed = {
    "RNN": lambda: rnn_layer(X),
    "attention alone": lambda: dot_product_attention(X, X, X),
    "layer of 8 heads": lambda: attention_layer(X, X, X),
}
spent = {name: [] for name in timed}
with torch.no_grad():
    for _ in range(15):
        for name, read in timed.items():
            started = time.process_time()
            read()
            spent[name].append(time.process_time() - started)
median = {name: sorted(times)[7] for name, times in spent.items()}
for name, seconds in median.items():
    print(f"{name:16} {1000 * seconds:.2f} ms")
assert median["attention alone"] < min(median["RNN"], median["layer of 8 heads"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# On one core of this CPU attention alone is the fastest, and the layer is about level with the RNN:
# multiplications are not time. A likely reason: the RNN's 512 steps are small products, each
# waiting for the one before, and attention's are few and large. What a GPU makes of that we have
# not measured.

# %% [markdown] slideshow={"slide_type": "fragment"}
# This, and the path of length 1, is what self-attention gets for its $n^2$. (What to do about the
# $n^2$: chapters 9 and 10.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote. Expect 'attention, eight times as slow'. Run the cell live: the numbers change, the order
# should not.
#
# Say what the table does not: a CNN or RNN reuses a few weights at every place, and knows about
# neighbours before it has seen one sentence. With little data that is an advantage. Self-attention
# has to learn what a neighbour is.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where do I stand?
#
# A word vector is to say where its word stands: at **position** $i$. (Positions count from 0, as
# indices do.)
#
# **Question.** How would you write the position into the vector? What could go wrong?

# %% [markdown] slideshow={"slide_type": "fragment"}
# The first idea: add the number $i$. Position 500 drowns the word.
#
# Divide by the length? Then a step from one word to the next is 1/10 in one sentence and 1/50 in
# another.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Collect ideas on the board for two minutes. Expect 'add i', then 'divide by the length', perhaps
# 'one column for each position': that is a learned table without the learning. For each ask what
# happens at word 500, and in a sentence of another length.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Think of a counter in **binary**. Its last digit flips at every step, the next at every second
# step, then every fourth. No digit ever exceeds 1, and no two numbers look alike.

# %% slideshow={"slide_type": "fragment"}
bits = torch.arange(64)[:, None] // 2 ** torch.arange(6) % 2  # the fastest digit first
for number in range(8):
    print(number, bits[number, :3].tolist())
assert len(bits.unique(dim=0)) == 64

# %% [markdown] slideshow={"slide_type": "subslide"}
# Sines are bits without corners. Vaswani et al. (2017) give position $i$ a row of $d$ numbers.
# Columns $2j$ and $2j + 1$ are a pair: the sine and the cosine of one angle, which grows with $i$
# at a **frequency** $\omega_j$ of its own.
#
# $$p_{i,2j} = \sin(i\,\omega_j), \quad p_{i,2j+1} = \cos(i\,\omega_j), \qquad
#   \omega_j = 10000^{-2j/d}$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# By hand for $d = 4$: two pairs, $\omega_0 = 1$ and $\omega_1 = 10000^{-1/2} = \frac1{100}$.
#
# | $i$ | $\sin i$ | $\cos i$ | $\sin\frac i{100}$ | $\cos\frac i{100}$ |
# |---|---|---|---|---|
# | 0 | 0 | 1 | 0 | 1 |
# | 1 | 0.84 | 0.54 | 0.01 | 1.00 |
# | 2 | 0.91 | −0.42 | 0.02 | 1.00 |

# %% slideshow={"slide_type": "skip"}
P = PositionalEncoding(num_hiddens=4, dropout=0.0).P
check_shape(P, (1, 1000, 4))  # the same for every sentence of a batch
print(P[0, :3])
by_hand = torch.tensor([[0, 1, 0, 1], [0.84, 0.54, 0.01, 1.00], [0.91, -0.42, 0.02, 1.00]])
torch.testing.assert_close(P[0, :3], by_hand, atol=0.005, rtol=0)

P = PositionalEncoding(num_hiddens=32, dropout=0.0).P[0, :64]  # from here on: (64, 32)

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the binary digits beside the encoding
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 5.4), width_ratios=[1, 2.6])
heatmap(left, bits, vmin=0, vmax=1)
heatmap(right, P, vmin=-1, vmax=1)
left.set(title="counter: 0 light, 1 dark", xlabel="digit", ylabel="position")
right.set(title="sine and cosine, d = 32", xlabel="column")
figure.colorbar(right.images[0], ax=right, label="value, right panel")
figure.suptitle("Both count: the left columns flip fast, the right ones slowly", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps of positions 0 to 63, downwards. Left, six binary digits: stripes of one
# row, two, four, eight, sixteen and thirty-two. Right, the encoding in 32 columns: fast waves on
# the left, ever slower ones to the right. The last third of the columns hardly moves.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask for the seconds hand of each panel, then for the hour hand. Should someone ask 'why 10000?':
# the paper does not say. The slowest wave is 35,333 positions long, far more than a sentence, and
# the right third of the columns says nearly nothing.

# %% slideshow={"slide_type": "skip"}
lengths = 2 * math.pi * 10000 ** (torch.arange(0, 32, 2) / 32)  # positions a wave
waves = 64 / lengths
print("waves within 64 positions, pair by pair:", *(f"{count:.1f}" for count in waves[:8]), "...")
print(f"the fastest wave is {lengths[0]:.1f} positions long, the slowest {lengths[-1]:,.0f}")
assert waves[0] > 10 and waves[10] < 0.05  # pair 10 on: less than a twentieth of a wave
assert P.abs().max() <= 1 and len(P.unique(dim=0)) == 64

# %% [markdown] slideshow={"slide_type": "skip"}
# From pair to pair the wave is longer by the same factor. Why 10000? The paper does not say. It
# sets the slowest wave, and makes it far longer than a sentence.

# %% slideshow={"slide_type": "skip"}
show_source(PositionalEncoding)

# %% [markdown] slideshow={"slide_type": "subslide"}
# `P` is computed, not learned. The base class adds it: `X + P`. Back to the headlines, with `P`
# added:

# %% slideshow={"slide_type": "fragment"}
encoding = PositionalEncoding(num_hiddens=8, dropout=0.0)
check_shape(encoding(no_news), (1, 3, 8))
first, second = encoding(no_news), encoding(news)
apart = (layer(first, first, first) - layer(second, second, second)).mean(dim=1).norm()
print(f"with positions the two averages are apart by {apart:.3f}")
assert apart > 0.01

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The layer is random, and nothing has taught it to listen to positions. What counts is that the
# difference is no longer 0, so that training can begin. 'Why add, and not put end to end?' Ask back
# what the next matrix makes of either; the notebook has the line.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Why add?
#
# Why not put word and position end to end? Because a matrix comes next, and either way it makes one
# sum of both:
#
# $$\begin{bmatrix} W_1 & W_2 \end{bmatrix} \begin{bmatrix} x \\ p \end{bmatrix} = W_1 x + W_2 p,
#   \qquad W (x + p) = W x + W p$$
#
# Adding is the case $W_1 = W_2$, and it saves columns: the token stays as wide as it was. The
# price: words and positions no longer have a matrix each.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks both equations on random numbers
torch.manual_seed(0)
x, p, W_1, W_2 = torch.randn(5), torch.randn(5), torch.randn(4, 5), torch.randn(4, 5)
end_to_end = torch.cat([x, p])
torch.testing.assert_close(torch.cat([W_1, W_2], dim=1) @ end_to_end, W_1 @ x + W_2 @ p)
torch.testing.assert_close(torch.cat([W_1, W_1], dim=1) @ end_to_end, W_1 @ (x + p))
print("checked: both equations, on random numbers")
print(f"end to end {len(end_to_end)} columns, added {len(x + p)}")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Each pair is the hand of a clock
#
# $(\sin, \cos)$ is a point on a circle: the tip of a hand that starts at the top and turns
# clockwise. A row of $d$ numbers is a clock with $d/2$ hands, the fastest first.

# %% slideshow={"slide_type": "skip"}
hands = {"slow": 8, "middle": 2, "fast": 0}  # the pair of each
for name, pair in reversed(hands.items()):
    sin, cos = P[:3, 2 * pair], P[:3, 2 * pair + 1]
    degrees = torch.atan2(sin, cos).rad2deg()  # clockwise from the top
    print(f"{name:6} hand, pair {pair}: {', '.join(f'{angle:5.1f}' for angle in degrees)} degrees")

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws three hands as a clock, at positions 0, 1 and 2
figure, axes = plt.subplots(1, 3, figsize=(9, 3.7))
for i, ax in enumerate(axes):
    ax.add_patch(plt.Circle((0, 0), 1.05, fill=False, color="0.6"))
    looks = ((0.6, 10, "0.7"), (0.8, 6, "0.4"), (1, 2.5, "black"))
    for (length, width, grey), pair in zip(looks, hands.values(), strict=True):
        sin, cos = length * P[i, 2 * pair : 2 * pair + 2]
        ax.plot([0, sin], [0, cos], color=grey, linewidth=width, solid_capstyle="butt")
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", title=f"position {i}")
    ax.axis("off")
fast_first = axes[0].lines[::-1], list(hands)[::-1]
figure.legend(*fast_first, ncols=3, frameon=False, loc="outside lower center")
figure.suptitle("Each hand turns by an angle of its own, the same at every step", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three clocks with a long fast, a middle and a short slow hand, at positions 0, 1 and 2.
# At 0 all three point to the top. At each step the fast hand turns clockwise by 57 degrees, the
# middle one by 18, the slow one by 0.6, which one does not see.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Cover position 2 and ask where the hands will be. The same angles again. Then ask what changes if
# we start at position 1000 instead. Nothing: that is the next slide.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Move on by $\delta$ positions. Each hand turns by $\delta\omega$, **whatever the time was**. These
# are the addition formulas from school:
#
# $$\begin{bmatrix} \sin((i+\delta)\omega) \\ \cos((i+\delta)\omega) \end{bmatrix} =
# \begin{bmatrix} \cos\delta\omega & \sin\delta\omega \\ -\sin\delta\omega & \cos\delta\omega
# \end{bmatrix}
# \begin{bmatrix} \sin i\omega \\ \cos i\omega \end{bmatrix}$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# By hand, with $\omega = 90°$. The hand shows $(0, 1)$, then $(1, 0)$, $(0, -1)$, $(-1, 0)$. For
# $\delta = 1$ the matrix is $\begin{bmatrix} 0 & 1 \\ -1 & 0 \end{bmatrix}$:
#
# $$\begin{bmatrix} 0 & 1 \\ -1 & 0 \end{bmatrix} \begin{bmatrix} 0 \\ 1 \end{bmatrix} =
# \begin{bmatrix} 1 \\ 0 \end{bmatrix}, \qquad
# \begin{bmatrix} 0 & 1 \\ -1 & 0 \end{bmatrix} \begin{bmatrix} 1 \\ 0 \end{bmatrix} =
# \begin{bmatrix} 0 \\ -1 \end{bmatrix}$$
#
# One matrix, and no $i$ in it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now all hands of a real encoding: one small matrix for each, put along the diagonal of a large
# one. It takes row $i$ to row $i + \delta$, for every $i$.


# %% slideshow={"slide_type": "fragment"}
def shift(delta, d):
    """The matrix (d, d) that takes row i of the encoding to row i + delta, for every i."""
    angles = delta * 10000 ** (-torch.arange(0, d, 2) / d)
    blocks = [[[a.cos(), a.sin()], [-a.sin(), a.cos()]] for a in angles]
    return torch.block_diag(*(torch.tensor(block) for block in blocks))


for delta in (1, 5):
    M = shift(delta, d=32)
    check_shape(M, (32, 32))
    torch.testing.assert_close(P[:-delta] @ M.T, P[delta:], atol=1e-4, rtol=0)  # all positions
    torch.testing.assert_close(M @ M.T, torch.eye(32))  # a rotation: no length changes
print(shift(1, d=32)[:2, :2])

# %% [markdown] slideshow={"slide_type": "subslide"}
# So 'one position on' is a matrix, and a matrix is what a layer can learn. Take the rows of `P`
# alone, without words. With $W_q$ turning three back, every query from position 3 on finds the key
# three before it:

# %% slideshow={"slide_type": "fragment"}
queries, keys = P @ shift(-3, d=32).T, P
found = dot_score(queries, keys).argmax(dim=-1)
print("positions 3 to 10 look at", found[3:11].tolist())
assert torch.equal(found[3:], torch.arange(61))  # all 61 of them

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Distance is all there is
#
# Turn two hands together, and the angle between them stays. So the dot product of two rows depends
# on their distance alone:
#
# $$p_i \cdot p_{i+\delta} = \sum_j \cos(\delta\,\omega_j)$$
#
# The matrix of all dot products is constant along each diagonal, and symmetric: a plain dot product
# knows how far, not on which side. This holds for the rows of `P` themselves. In a layer the words
# and the matrices $W_q$ and $W_k$ come in between, and then the score depends on more.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the dot products along four diagonals
products = P @ P.T
frequencies = 10000 ** (-torch.arange(0, 32, 2) / 32)
for delta in (0, 1, 10, 44):
    along = products.diagonal(delta)
    torch.testing.assert_close(along, torch.cos(delta * frequencies).sum().expand_as(along))
    torch.testing.assert_close(along, products.diagonal(-delta))
    print(f"distance {delta:2d}: every pair has the dot product {along[0]:5.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Turn it yourself
#
# **Question.** Positions 10 and 54 look almost the same to column 0. Find the first column in which
# they differ by more than 0.5. Then keep the distance and move the position: which number stays?

# %% [markdown] slideshow={"slide_type": "skip"}
# The view has three panels. Left, the encoding with two rows marked, `distance` apart. Middle, one
# column, with the two positions as dots, the second one hollow. Right, the dot product of the first
# row with all rows, over $d/2$, so that a row with itself gives 1.


# %% slideshow={"slide_type": "skip"}
P_view = PositionalEncoding(num_hiddens=32, dropout=0.0).P[0, :100]


def compare_positions(figure, position=10, distance=44, column=0):
    rows, wave, products = figure.subplots(1, 3, width_ratios=[1.1, 1, 1])
    two, orange = [position, position + distance], "#D55E00"
    heatmap(rows, P_view, vmin=-1, vmax=1)
    rows.hlines(two, -0.5, 31.5, color=orange, linewidth=2, linestyle=["-", "--"])
    rows.vlines(column, -0.5, 99.5, color="black", linewidth=2)
    rows.set(xlabel="column", ylabel="position", xticks=[0, 16, 31], yticks=[0, 50, 99])

    values, cosines = P_view[:, column], P_view @ P_view[position] / 16
    for ax, curve, color in ((wave, values, "black"), (products, cosines, "tab:blue")):
        ax.plot(curve, color=color, linewidth=1.5)
        ax.plot(two[0], curve[two[0]], "o", color=orange, markersize=11)
        ax.plot(two[1], curve[two[1]], "o", color=orange, markersize=11, markerfacecolor="white")
        # Few ticks: they are most of the drawing time.
        ax.set(xlabel="position", xticks=[0, 50, 99], ylim=(-1.15, 1.15), yticks=[-1, 0, 1])
    gap = (values[two[1]] - values[two[0]]).abs()
    rows.set_title(f"positions {two[0]} and {two[1]}")
    wave.set(ylabel="value", title=f"column {column}: apart by {gap:.2f}")
    products.set(ylabel="dot product / 16", title=f"dot product / 16: {cosines[two[1]]:.2f}")


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the view of two positions, with a slider for each number
from d2l_attention.views import explore

explore(
    compare_positions,
    figsize=(11.5, 4.2),
    alt="The encoding with two rows marked, one column as a wave, and dot products of rows.",
    position=(0, 50),
    distance=(0, 49),
    column=(0, 31),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of three panels: the encoding as a heat map with two rows and a
# column marked, the chosen column as a wave with a full and a hollow dot, and the dot products of
# the first row with all rows, a curve that peaks at the row itself.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Name the panels first: the encoding with two rows marked; one column of it as a wave; the dot
# product of the first row with all rows. Let the room call out columns and move the slider. Then
# ask for a number that stays before you touch 'position'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Column 4, the third hand. In 44 positions the fast hand makes seven turns and is back where it
# was; the second makes 3.94 and is nearly back. The number that stays is over the right panel:
# 0.61, wherever you start.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Answers the question with numbers
gaps = (P_view[10] - P_view[54]).abs()
print("columns 0 to 7 differ by", [round(gap, 2) for gap in gaps[:8].tolist()])
first_apart = (gaps > 0.5).nonzero()[0].item()
print(f"first column with more than 0.5: {first_apart}")

turns = 44 * frequencies / (2 * math.pi)
print("in 44 positions the first three hands turn", *(f"{turn:.2f}" for turn in turns[:3]), "times")
anywhere = torch.stack([P_view[i] @ P_view[i + 44] for i in range(51)]) / 16
torch.testing.assert_close(anywhere, anywhere[0].expand(51))
print(f"dot product / 16 at distance 44, from every position: {anywhere[0]:.2f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# 44 is seven turns of the fast hand, almost to the degree: 7 times 6.283 is 43.98. One hand cannot
# tell the two times apart, as the minute hand cannot tell noon from one o'clock. Slide the distance
# at column 0 and let them find another twin: 25 is almost four turns.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Do many columns keep far positions apart?
#
# Chapter 3: random vectors of many entries are almost orthogonal. Are the rows of an encoding, 100
# positions apart and more?
#
# **Predict.** With $d$ from 2 to 512: does the largest cosine fall? To 0?

# %% slideshow={"slide_type": "skip"}
cosines = {}
for d in (2, 8, 64, 512):
    rows = PositionalEncoding(d, dropout=0.0, max_len=1000).P[0]
    cosines[d] = rows @ rows[0] / (d / 2)  # of position 0 with each; it is the same for any i
    far = cosines[d][100:]
    at_300 = cosines[d][300]
    print(f"d = {d:3d}   largest {far.max():.2f}   mean {far.mean():.2f}   at 300 {at_300:5.2f}")
largest = [cosines[d][100:].max() for d in cosines]
assert largest == sorted(largest, reverse=True) and largest[0] > 0.99 and largest[-1] < 0.5
assert all(0.25 < cosines[d][250:350].mean() < 0.35 for d in (64, 512))

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Draws the cosine of two rows against their distance, for four sizes
_, ax = plt.subplots(figsize=(8.5, 4.2))
styles = {2: ("0.75", "-"), 8: ("tab:orange", "-"), 64: ("tab:blue", "-"), 512: ("black", "--")}
for d, (color, style) in styles.items():
    width = {2: 1, 8: 1.5}.get(d, 2.5)
    ax.plot(cosines[d][:300], color=color, linestyle=style, linewidth=width, label=f"d = {d}")
ax.set(xlabel="distance", ylabel="cosine", ylim=(-1.1, 1.1))
ax.set_title("More columns: fewer look-alikes, but at 300 still a cosine of 0.3")
ax.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2))
plt.show()

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the cosine of two rows against their distance, 0 to 300. With d = 2 it swings between −1
# and 1 all the way. With d = 8 the swings are half as large. With d = 64 the curve falls with small
# ripples; with d = 512 smoothly, until ripples begin past 180. Both fall fast at first, then
# slowly, and are near 0.3 at distance 300.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The look-alikes go: with one hand there is a twin at every turn, with 256 hands none. But the
# cosine falls slowly: 300 positions apart it is still about 0.3, and going from 64 columns to 512
# does not help. The slow hands are to blame: within 100 positions a quarter of the hands ($d = 8$)
# to half of them (large $d$) turn by less than a radian. Random rows do better, the more columns
# the better:

# %% slideshow={"slide_type": "skip"}
for d in (8, 64, 512):
    slow = 100 * 10000 ** (-torch.arange(0, d, 2) / d) < 1
    torch.manual_seed(0)
    drawn = F.normalize(torch.randn(1000, d), dim=-1)
    random = (drawn[0] @ drawn[100:].T).max()
    both = f"the encoding {cosines[d][100:].max():.2f}, random rows {random:.2f}"
    print(f"d = {d:3d}   slow hands {slow.float().mean():.0%}   largest cosine: {both}")
    assert 0.2 < slow.float().mean() <= 0.5 and random < cosines[d][100:].max()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Learned positions
#
# Or learn the rows: a table with a vector for each position, as an embedding has one for each word
# (Gehring et al., 2017). It costs `max_len` times $d$ parameters, and it has an end.
#
# **Predict.** The table has 16 rows, and 17 tokens come. What happens?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the parameters, and gives 17 tokens to the table of 16 rows
learned = LearnedPositionalEncoding(num_hiddens=32, dropout=0.0, max_len=16)
for name, module in (("sinusoidal", PositionalEncoding(32, 0.0)), ("learned", learned)):
    print(f"{name:10} parameters: {sum(p.numel() for p in module.parameters())}")
try:
    learned(torch.randn(1, 17, 32))
except ValueError as error:
    print(error)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A larger table would take 17 tokens, but a row that no training sentence reaches stays what it was
# at the start: random numbers. And nothing in the table says that row 7 stands between 6 and 8.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Expect 'an index error' and 'it wraps around'. Then ask: a table of 1000 rows, trained on 16
# tokens, gets 17. No error now. Leave the answer open; the experiment near the end gives it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Rotary: turn the query and the key
#
# What attention needs is a score. Su et al. (2021) ask: can a score depend on the distance and on
# no position itself?

# %% [markdown] slideshow={"slide_type": "fragment"}
# Yes: add nothing. **Turn** the query by its position, the key by its own.
#
# Take $d = 2$, and the turn by $\alpha$, which takes $(1, 0)$ to $(\cos\alpha, \sin\alpha)$:
#
# $$R(\alpha) = \begin{bmatrix} \cos\alpha & -\sin\alpha \\ \sin\alpha & \cos\alpha \end{bmatrix}$$
#
# It turns anticlockwise. The clock above turned the other way, because it is written
# $(\sin, \cos)$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Turning back is $R(\alpha)^\top = R(-\alpha)$, and two turns in a row add up:
#
# $$\big(R(i\omega)\,q\big)^{\!\top} \big(R(j\omega)\,k\big)
#   = q^\top R(-i\omega)\,R(j\omega)\,k
#   = q^\top R\big((j-i)\,\omega\big)\,k$$
#
# The result contains $i$ and $j$ only in the difference $j - i$. Its size is the distance, and its
# sign says on which side of the query the key stands.

# %% [markdown] slideshow={"slide_type": "subslide"}
# By hand, $\omega = 1$. Position $i$ turns $(1, 0)$ to $(\cos i, \sin i)$, and $(0, 1)$ to
# $(-\sin i, \cos i)$. The query $(1, 0)$ stands at 5. At 3 stands the key
#
# - $(1, 0)$: the score is $\cos 5 \cos 3 + \sin 5 \sin 3 = \cos(5 - 3) = -0.42$;
# - $(0, 1)$: it is $-\cos 5 \sin 3 + \sin 5 \cos 3 = \sin(5 - 3) = 0.91$.
#
# **Predict.** Both scores with the query at 105, the key at 103? With the query at 3, the key at 5?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints both scores for four pairs of positions
plane = RotaryEncoding(head_size=2)
east, north = torch.eye(2).reshape(2, 1, 1, 1, 2)  # each (sentence, head, token, number)
for i, j in ((5, 3), (105, 103), (2, 0), (3, 5)):
    query = plane.transform(east, offset=i)
    keys = [plane.transform(key, offset=j) for key in (east, north)]
    scores = [dot_score(query, key).item() for key in keys]
    shown = f"key (1, 0) {scores[0]:.2f}   key (0, 1) {scores[1]:5.2f}"
    print(f"query at {i:3d}, key at {j:3d}:   {shown}")
    assert abs(scores[0] - math.cos(i - j)) < 1e-5 and abs(scores[1] - math.sin(i - j)) < 1e-5

# %% [markdown] slideshow={"slide_type": "fragment"}
# The distance alone counts. Exchange the sides, and the second score changes its sign: a rotary
# score can tell left from right.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute, in pairs: four numbers. The first two are quickly said: the same. At the exchanged
# sides many say 'both change sign'. The cosine does not. Have someone turn two pencils in the air.

# %% [markdown] slideshow={"slide_type": "subslide"}
# With more columns, each pair turns at its own speed: the hands of the clock again.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the source of RotaryEncoding.transform
show_source(RotaryEncoding.transform)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Random queries and keys of 8 numbers. The scores of one query, with the sentence begun at 0 and at
# 1000:

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
rotary = RotaryEncoding(head_size=8)
q, k, v = torch.randn(3, 1, 4, 5, 8)  # each (sentence, head, token, number)


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the scores of one query with five keys, begun at 0 and at 1000
def rotary_scores(offset):
    return dot_score(rotary.transform(q, offset=offset), rotary.transform(k, offset=offset))


check_shape(rotary_scores(0), (1, 4, 5, 5))
torch.testing.assert_close(rotary_scores(1000), rotary_scores(0), atol=1e-3, rtol=1e-3)
print(f"begun at 0:    {rotary_scores(0)[0, 0, 0]}")  # the first head and query, all five keys
print(f"begun at 1000: {rotary_scores(1000)[0, 0, 0]}")
print(f"not turned:    {dot_score(q, k)[0, 0, 0]}")
assert not torch.allclose(rotary_scores(0), dot_score(q, k))  # the distance counts

# %% [markdown] slideshow={"slide_type": "skip"}
# A turn makes no query longer, and the words themselves stay as they were:

# %% slideshow={"slide_type": "skip"}
turned = rotary.transform(q, offset=9)
torch.testing.assert_close(turned.norm(dim=-1), q.norm(dim=-1))
assert torch.equal(rotary(no_news), no_news)
print(f"a query of length {q[0, 0, 0].norm():.3f}, turned: {turned[0, 0, 0].norm():.3f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Queries and keys are turned. Should values be turned, too?


# %% slideshow={"slide_type": "fragment"}
def attend(offset, turn_values):
    queries, keys, values = (rotary.transform(X, offset=offset) for X in (q, k, v))
    return dot_product_attention(queries, keys, values if turn_values else v)


for turn_values in (False, True):
    moved = (attend(0, turn_values) - attend(100, turn_values)).abs().max()
    print(f"values turned: {turn_values!s:5}   the answer moves by {moved:.3f}")
    assert (moved < 1e-4) == (not turn_values)

# %% [markdown] slideshow={"slide_type": "fragment"}
# No. A turned value would carry its absolute position into the answer: the same sentence, begun
# somewhere else, would get another answer, though no distance changed.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote. Expect many to say yes, for symmetry. Ask them what should happen to the answer when the
# same sentence begins 100 places later.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## ALiBi: pay for distance
#
# The plainest of all (Press et al., 2022). Turn nothing, add nothing to the words. Subtract from
# each score the distance times a **slope** $m$, one for each head:
#
# $$\text{score}(i, j) = \frac{q_i \cdot k_j}{\sqrt d} - m\,\lvert i - j\rvert$$
#
# The slopes are not learned. For 8 heads: $\frac12, \frac14, \frac18, \dots, \frac1{256}$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **By hand.** Take $m = \frac12$ and equal words at distances 0, 1, 2. Which weights do they get?

# %% [markdown] slideshow={"slide_type": "fragment"}
# Their common $q \cdot k$ drops out of the softmax. What is left is $0, -\frac12, -1$. The
# exponentials are $1, 0.61, 0.37$, the weights $0.51, 0.31, 0.19$.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the slopes of 8 heads, and what the first head adds to its scores
alibi = ALiBi(num_heads=8)
print("slopes", ", ".join(f"1/{1 / slope:.0f}" for slope in alibi.slopes.tolist()))
assert alibi.slopes.tolist() == [2**-i for i in range(1, 9)]
assert list(alibi.parameters()) == []

bias = alibi.bias(3, 3)
check_shape(bias, (8, 3, 3))  # head, query, key: the same for every sentence
print(bias[0])
weights = bias[0, 2].flip(0).softmax(dim=-1)  # the last query, the nearest key first
torch.testing.assert_close(weights, torch.tensor([0.51, 0.31, 0.19]), atol=0.005, rtol=0)

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the weights of three heads on equal words
past = torch.ones(24, 24, dtype=torch.bool).tril()
sight = alibi.bias(24, 24).masked_fill(~past, -torch.inf).softmax(dim=-1)
figure, axes = plt.subplots(1, 3, figsize=(9.6, 4.2), sharey=True)
for ax, head in zip(axes, (0, 2, 7), strict=True):
    heatmap(ax, sight[head], vmax=0.4)
    ax.set(title=f"slope 1/{2 ** (head + 1)}", xlabel="key", aspect="equal")
axes[0].set_ylabel("query")
figure.colorbar(axes[0].images[0], ax=axes, label="weight, 0.4 or more is dark")
figure.suptitle("Equal words, causal: steep heads look near, flat heads far", fontsize=17)
plt.show()

near = [sight[head, -1, -5:].sum().item() for head in (0, 2, 7)]
print("weight on the nearest five:", *(f"{share:.0%}" for share in near))
assert near[0] > 0.9 and near[2] < 0.25

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three heat maps of 24 queries by 24 keys, lower triangles. Slope 1/2: dark near the
# diagonal, nearly white five places away. Slope 1/8: a paler, broader band. Slope 1/256: each row
# is nearly even over all of its past.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask which head could find the letter *three* back. None can be sure of it: a nearer key always
# pays less. Do not resolve it; it is half of the vote to come.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four ways, three places to say it
#
# | | says it in | parameters | ends at | scores know |
# |---|---|---|---|---|
# | sinusoidal | the word vectors | 0 | `max_len`, any you like | place and distance |
# | learned | the word vectors | `max_len` · $d$ | `max_len` | place |
# | rotary | queries and keys | 0 | nowhere | how far, and on which side |
# | ALiBi | the scores | 0 | nowhere | how far, not on which side |

# %% [markdown] slideshow={"slide_type": "skip"}
# The package has one interface for all: a `Positions` module with three hooks. A **hook** is a
# method that others call at a fixed moment. The model calls `forward` on its embeddings. The
# attention layer calls `transform` on its queries and keys, and adds `bias` to its scores.

# %% slideshow={"slide_type": "skip"}
show_source(Positions)

# %% [markdown] slideshow={"slide_type": "skip"}
# **The small print.** A *causal* layer without positions is not quite blind to order: the first
# token sees one token, the second sees two. Language models without any encoding can learn from
# that (Haviv et al., 2022).

# %% slideshow={"slide_type": "skip"}
one = layer(no_news, no_news, no_news, is_causal=True)
other = layer(news, news, news, is_causal=True)
apart = (one - other).mean(dim=1).norm()
print(f"causal, without positions: the two averages are apart by {apart:.3f}")
assert apart > 1e-3

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Longer than anything seen
#
# A model is trained on short texts and gets a long one. Which of the four still work? (From here on
# a **place** counts from 1: place 1 is position 0, and training sees places 1 to 16.)
#
# Two games with the letters a to h. At each place, looking back only, name
#
# - **three back**: the letter three places before. Only the place counts.
# - **last capital**: the latest capital, the one here included. What counts is a mark *and* how
#   recent it is.


# %% slideshow={"slide_type": "skip"}
def three_back(n, length):
    """Letters (n, length), and the letter three places before each."""
    letters = torch.randint(8, (n, length))
    targets = letters.roll(3, dims=1)
    targets[:, :3] = -100  # there is none: cross_entropy leaves these out
    return letters, targets


def last_capital(n, length):
    """Small letters 0 to 7, capitals 8 to 15, and the latest capital at each place."""
    letters, capital = torch.randint(8, (n, length)), torch.rand(n, length) < 0.2
    capital[:, 0] = True  # so that there always is one
    latest = torch.where(capital, torch.arange(length), 0).cummax(dim=1).values
    return letters + 8 * capital, letters.gather(1, latest)


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Prints a short sequence of each game, with its answers
torch.manual_seed(0)
for game in (three_back, last_capital):
    letters, targets = game(1, 16)
    print(f"{game.__name__:12}", *("abcdefghABCDEFGH"[i] for i in letters[0].tolist()))
    print(f"{'answer':12}", *("abcdefgh"[i] if i >= 0 else "-" for i in targets[0].tolist()))

# %% [markdown] slideshow={"slide_type": "subslide"}
# One layer of four heads, 32 numbers wide. The four models differ in one argument:


# %% slideshow={"slide_type": "skip"}
class Reader(nn.Module):
    """Letters (B, n) -> scores of the 8 answers at each place, (B, n, 8)."""

    def __init__(self, positions):
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        self.positions = positions
        self.attention = MultiHeadAttention(32, 4, dropout=0.0, positions=positions)
        self.readout = nn.Linear(32, 8)

    def forward(self, letters, mask=None):
        X = self.positions(self.embedding(letters))
        return self.readout(X + self.attention(X, X, X, mask=mask, is_causal=True))


# %% slideshow={"slide_type": "-"}
kinds = {
    "sinusoidal": lambda: PositionalEncoding(32, 0.0, max_len=64),
    "learned": lambda: LearnedPositionalEncoding(32, 0.0, max_len=64),
    "rotary": lambda: RotaryEncoding(head_size=8),
    "ALiBi": lambda: ALiBi(num_heads=4),
}


# %% slideshow={"slide_type": "skip"}
def train(kind, game, seed=0, steps=200):
    torch.manual_seed(seed)
    model = Reader(kinds[kind]())
    model(game(1, 16)[0])  # the first call fixes the sizes of the parameters
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        letters, targets = game(32, 16)  # never longer than 16
        loss = F.cross_entropy(model(letters).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def accuracy(model, game, mask=None):
    """The share of right answers at each of 64 places: four times the training length."""
    torch.manual_seed(99)
    letters, targets = game(500, 64)
    return (model(letters, mask).argmax(dim=-1) == targets).float().mean(dim=0)


# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Four encodings, two games, trained on 16 places. Which of the eight still answer at
# place 32? Which at place 64? And does any fail within the 16?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The vote of the hour. Draw a table of 4 by 2 on the board and let the room fill it: 16, 32 or 64
# in each cell. Typical: sinusoidal 64 ('a formula has no end'), learned 16, rotary 64 ('only the
# distance counts'), ALiBi 64 in both. Leave it standing beside the picture that follows.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
games = {"three back": three_back, "last capital": last_capital}
models = {(name, kind): train(kind, game) for name, game in games.items() for kind in kinds}
curves = {(name, kind): accuracy(model, games[name]) for (name, kind), model in models.items()}
parts = {"trained, 4-16": slice(3, 16), "17-32": slice(16, 32), "33-64": slice(32, 64)}
mean = {
    (*key, part): curve[where].mean().item()
    for key, curve in curves.items()
    for part, where in parts.items()
}
print(f"{'places':28}", *(f"{part:>14}" for part in parts))
for name, kind in curves:
    print(f"{name:14} {kind:13}", *(f"{mean[name, kind, part]:14.0%}" for part in parts))

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Draws the share of right answers against the place, for both games
figure, axes = plt.subplots(1, 2, figsize=(10.2, 4.8), sharey=True)
looks = {"sinusoidal": ("tab:orange", ":"), "learned": ("0.6", "-")}
looks |= {"rotary": ("tab:blue", "-"), "ALiBi": ("black", "--")}
for ax, name in zip(axes, games, strict=True):
    for kind, (color, style) in looks.items():
        curve = curves[name, kind]
        ax.plot(range(4, 65), curve[3:], color=color, linestyle=style, label=kind)
    ax.axvspan(1, 16, color="0.92", zorder=0)
    ax.text(8.5, 1.04, "trained", ha="center")
    ax.axhline(1 / 8, color="black", linewidth=0.8)
    ax.set(title=name, xlabel="place", xticks=[1, 16, 32, 48, 64], ylim=(0, 1.12))
axes[0].text(64, 0.02, "guessing", ha="right", fontsize=12)
axes[0].set(ylabel="right answers", yticks=[0, 0.5, 1], yticklabels=["0%", "50%", "100%"])
figure.legend(
    *axes[0].get_legend_handles_labels(), ncols=4, frameon=False, loc="outside lower center"
)
figure.suptitle(
    "Past 16: added positions break at most places, rotary by about 40, ALiBi not", fontsize=16
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: right answers against the place, 4 to 64, for two games; places up to 16 are shaded as
# trained. In the run shown, at three back sinusoidal, learned and rotary are at 100% up to 16.
# Learned falls to 13%, guessing, at place 17. Sinusoidal falls as far, with later peaks: 99% at
# place 23, 81% at 53. Rotary keeps 90% up to 34, is at 40% by 36 and guesses from 43 on. ALiBi is
# near 30% throughout. At last capital all begin at 98% or more. Sinusoidal and learned are near 65%
# at place 20 and 30% at 32. Rotary keeps 90% up to 41 and is at 50% by 47. ALiBi stays near 96%.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Go through the board first. Then a minute in pairs: why does each break where it does? Take one
# guess for each curve, and a test that could prove it wrong, before you turn the page.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Guessing is right once in eight. At *three back* ALiBi is right one time in three. How?

# %% [markdown] slideshow={"slide_type": "fragment"}
# Whoever sees the letters and not their order can name the commonest:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Measures how often the commonest letter is right
torch.manual_seed(99)
letters, targets = three_back(4000, 64)
so_far = F.one_hot(letters, 8).cumsum(dim=1)
latest_8 = so_far - F.pad(so_far[:, :-8], (0, 0, 8, 0))
without_order = {}
print(f"{'places':28}", *(f"{part:>14}" for part in parts))
for name, count in (("commonest letter so far", so_far), ("commonest of the latest 8", latest_8)):
    hits = (count.argmax(dim=-1) == targets).float().mean(dim=0)
    without_order[name] = [hits[part].mean().item() for part in parts.values()]
    print(f"{name:28}", *(f"{share:14.0%}" for share in without_order[name]))

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks which of the eight models hold, and where
for (name, kind, part), right in mean.items():
    if part == "trained, 4-16":  # all learn both games, with one exception
        assert right < 0.42 if (name, kind) == ("three back", "ALiBi") else right > 0.92
    elif kind in ("sinusoidal", "learned"):  # break as soon as places are new
        assert right < 0.75
    elif kind == "rotary":  # holds for twice the length, then breaks
        assert right > 0.85 if part == "17-32" else right < 0.7
for part, blind in zip(parts, without_order["commonest of the latest 8"], strict=True):
    assert mean["last capital", "ALiBi", part] > 0.85  # level, at four times the length
    assert mean["three back", "ALiBi", part] < blind + 0.05  # no better than without the order
print("checked: added positions fail past place 16, rotary past 32; ALiBi holds at last capital")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why they break
#
# **Learned.** The rows of places 17 to 64 are the random numbers of the start. Training has not
# touched them.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the rows of the table that training has changed
torch.manual_seed(0)
at_start = kinds["learned"]().P  # the same seed: the table before the first step
trained = models["three back", "learned"].positions.P
assert torch.equal(trained[:, 16:], at_start[:, 16:])
assert not torch.equal(trained[:, :16], at_start[:, :16])
touched = (trained != at_start).any(dim=-1)[0]
print(f"learned: training has changed {touched.sum()} of {len(touched)} rows, the first ones")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Sinusoidal.** For positions alone, a matrix that works everywhere exists: you built it above.
# Four hands are enough for it, and 8 columns, as each head has here. Training on 16 places had no
# reason to find it. (At some later places it is right again; why, we have not tested.)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Checks on positions alone that four hands find the key three back
four_hands = P[:, :8]  # the fastest; positions alone, no words
scores = four_hands @ shift(-3, d=32)[:8, :8].T @ four_hands.T
past = torch.ones(64, 64, dtype=torch.bool).tril()
best, key = scores.masked_fill(~past, -torch.inf)[3:].topk(2, dim=-1)
assert torch.equal(key[:, 0], torch.arange(61))
lead = (best[:, 0] - best[:, 1]).min()
print(f"checked: four hands find all {len(key)} keys, each at least {lead:.2f} before the second")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **ALiBi**, poor at *three back* within the 16 already. In a head a nearer key always pays less.
# Between equal letters the nearest wins: one head cannot aim *past* a neighbour. A mix of heads
# might; training did not find one.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the weights of ALiBi on ten equal letters
same = torch.randn(1, 1, 8).expand(1, 10, 8).contiguous()  # ten times the same token
no_aim = MultiHeadAttention(8, 2, dropout=0.0, positions=ALiBi(2))
_, weights = no_aim(same, same, same, is_causal=True, need_weights=True)
assert (weights.argmax(dim=-1) == torch.arange(10)).all()  # each looks at itself first
assert (weights.diff(dim=-1).tril(diagonal=-1) >= 0).all()  # and at nearer ones more
shown = " ".join(f"{weight:.2f}" for weight in weights[0, 0, -1])
print(f"ALiBi, ten equal letters, weights of the last: {shown}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Rotary.** Only distances count. But at place 40 there are keys 39 places away, and distances
# above 15 were never seen either. Why it holds to 32 first, this does not say. The window below
# takes the new distances away. It also leaves fewer keys, so it does not show which of the two is
# to blame.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Let every query see the latest 16 tokens only. Nothing is trained again.
#
# **Predict.** Which come back past place 16: sinusoidal, learned, rotary?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures three encodings again, with a window of 16 tokens
place = torch.arange(64)
window = place[:, None] - place < 16  # with the causal mask: the latest 16
windowed = {
    (name, kind): accuracy(models[name, kind], games[name], mask=window)
    for name in games
    for kind in ("sinusoidal", "learned", "rotary")
}
print(f"{'places':28}", *(f"{part:>14}" for part in parts))
for (name, kind), curve in windowed.items():
    before = curves[name, kind]
    pairs = [(before[part].mean(), curve[part].mean()) for part in parts.values()]
    changes = [f"{old:.0%} to {new:.0%}" for old, new in pairs]
    print(f"{name:14} {kind:13}", *(f"{change:>14}" for change in changes))
    new_places = curve[16:].mean()
    assert new_places > 0.93 if kind == "rotary" else before[16:].mean() < new_places < 0.75

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rotary alone comes back in full, up to place 64. It has no places, only distances, and of those
# none is new any more. The other two gain, and stay broken: their *places* are new, however little
# they see.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The window is the experiment to dwell on: an explanation, a prediction from it, and a test that
# could have failed. Ask what would follow in practice. Answers to expect: train on longer texts,
# keep a window (chapter 9), or squeeze the angles so that long distances look like short ones.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
# Chance? Another start of the two that held.
for name, kind in (("three back", "rotary"), ("last capital", "ALiBi")):
    curve = accuracy(train(kind, games[name], seed=1), games[name])
    shares = [curve[part].mean().item() for part in parts.values()]
    print(f"{name:14} {kind:13}", *(f"{share:14.0%}" for share in shares))
    for part, share in zip(parts, shares, strict=True):
        assert abs(share - mean[name, kind, part]) < 0.2

# %% [markdown] slideshow={"slide_type": "skip"}
# And why does ALiBi not reach 100% at last capital? Its steepest slope is $\frac14$ here. Two
# capitals side by side then differ by $\frac14$ in the score, which is not much. So look where its
# mistakes are: by the distance between the latest capital and the one before.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
torch.manual_seed(99)
letters, targets = last_capital(500, 64)
capitals = torch.where(letters >= 8, torch.arange(64), -99)
latest = capitals.cummax(dim=1).values
before = F.pad(capitals[:, :-1], (1, 0), value=-99).cummax(dim=1).values.gather(1, latest)
gap = latest - before
with torch.no_grad():
    right = (models["last capital", "ALiBi"](letters).argmax(dim=-1) == targets).float()
beside, well_apart = right[gap == 1].mean(), right[gap >= 4].mean()
print(f"capitals side by side: {beside:.0%} right, four places apart and more: {well_apart:.0%}")
assert beside + 0.05 < well_apart

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What this does not show
#
# - One layer, two toy games, 16 places, 200 steps. Nothing here says which encoding gives the
#   better language model. Several layers were not tried.
# - 'Holds' is not 'is better'. ALiBi holds at four times the length, and has not learned three back
#   at all.
# - Vaswani et al. (2017) hoped that sines 'may allow' reading past the training length. Here they
#   do not; a hand-made matrix would, as far as positions alone go.
# - On reasoning tasks, in larger models, Kazemnejad et al. (2023) find ALiBi and rotary 'not well
#   suited' to longer inputs, and a decoder without any encoding better. Measure on *your* task.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One token at a time
#
# A decoder writes one token, then the next. Each call of the encoding gets a sequence of **one**
# token.
#
# **Question.** Which position does it take that token to have?

# %% [markdown] slideshow={"slide_type": "fragment"}
# In the book's decoder every call begins to count at 0. So every token gets row 0. The package's
# encodings take an `offset`: how many tokens came before. (The `cache` keeps keys and values of the
# tokens so far: chapter 8.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** The sinusoidal model has learned *three back*. It reads 16 letters again, one at a
# time, and takes each for the first. What share of its answers is right?


# %% slideshow={"slide_type": "-"}
@torch.no_grad()
def one_by_one(model, letters, count):
    cache, answers = KeyValueCache(), []
    for i in range(letters.shape[1]):
        X = model.positions(model.embedding(letters[:, i : i + 1]), offset=i if count else 0)
        answers.append(model.readout(X + model.attention(X, X, X, is_causal=True, cache=cache)))
    return torch.cat(answers, dim=1)


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Reads 500 sequences one letter at a time, with the offset and without
model = models["three back", "sinusoidal"]
torch.manual_seed(5)
letters, targets = three_back(500, 16)
right = {}
for count in (True, False):
    answers = one_by_one(model, letters, count)
    right[count] = (answers.argmax(dim=-1) == targets)[:, 3:].float().mean().item()
    print(f"offset counts on: {count!s:5}   right answers {right[count]:.0%}")
torch.testing.assert_close(one_by_one(model, letters, True), model(letters), atol=1e-4, rtol=1e-4)
assert right[True] > 0.99 and right[False] < 0.4

# %% [markdown] slideshow={"slide_type": "fragment"}
# With the offset, token by token gives what the whole sequence gives. Without, the model knows the
# letters and not their order: the headlines again, and the third that letters alone allow. No
# error, no warning; the training looked fine. (For rotary and ALiBi the layer counts by itself: its
# cache knows how long it is.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote: 100%, a third, one in eight. Expect 'one in eight'. But the keys still say which letters
# came: the commonest of them is right one time in three, as for ALiBi before. Ask who would have
# noticed.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks that rotary and ALiBi count the positions by themselves
for kind in ("rotary", "ALiBi"):
    model = models["last capital", kind]
    letters, _ = last_capital(3, 16)
    expected = model(letters)
    torch.testing.assert_close(one_by_one(model, letters, True), expected, atol=1e-4, rtol=1e-4)
print("checked: rotary and ALiBi give token by token what they give all at once")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Self-attention reaches everyone in one step, for $2n^2d$ multiplications beside its projections,
#   and pays with the order: shuffle in, shuffle out.
# - Sinusoidal: $d/2$ hands of a clock. A shift is a rotation, the same at every position.
# - Learned: a table with an end. Rotary: turn queries and keys, not values; scores know distances
#   alone. ALiBi: a fee on distance, no parameters.
# - Past the training length, new *places* broke two encodings and new *distances* rotary. ALiBi
#   held at *last capital*, where near is right, and failed at *three back*.
# - Decoding: pass the `offset`.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("7.1")` gives one more hint each time, `solution("7.1")` the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.1** The fourth row · *easy, 4 minutes* · by hand
#
# Tokens are $d = 4$ numbers wide. What does the sinusoidal encoding add to the fourth token, which
# stands at position 3? Use a calculator, not the package. Give a list of four numbers, to two
# decimals.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("7.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.2** Who notices the swap? · *easy, 10 minutes* · predict, then measure
#
# Five random words of 12 numbers enter `MultiHeadAttention(12, 3, 0.0)` as queries, keys and
# values. Then words 1 and 3 change places; 0, 2 and 4 stay. For how many of the three words that
# stay does the output change
#
# - as it is;
# - with `PositionalEncoding(12, 0.0)` before it;
# - with `positions=ALiBi(3)` instead;
# - with nothing but `is_causal=True`?
#
# Predict, measure, and give four counts, such as `(3, 3, 3, 3)`.

# %% slideshow={"slide_type": "skip"}
answer = None

check("7.2", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.3** Add the positions · *medium, 10 minutes* · complete a function
#
# From embeddings X (B, n, d) to X plus the sinusoidal encoding. The first word of each sentence
# stands at position `offset`, the second at `offset + 1`, and so on; `offset` may be in the
# thousands, for there is no last position. Column $2j$ holds the sine and column $2j + 1$ the
# cosine of position / $10000^{2j/d}$. d may be odd: then the last column is a sine. Shape and dtype
# are those of X, in float16 and float64 as well, gradients reach X, and X itself does not change.


# %% slideshow={"slide_type": "skip"}
def add_positions(X, offset):
    """Add the encoding of positions `offset`, `offset + 1`, ...: (B, n, d) -> (B, n, d).

    Two words of ones, [[[1, 1], [1, 1]]], with offset 0 give [[[1, 2], [1.841, 1.540]]].
    """
    ...


check("7.3", add_positions)

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.4** Turn the pairs · *medium, 12 minutes* · complete a function
#
# The rotary encoding of queries or keys X (B, H, n, d), d even. The first token of each head stands
# at position `offset`, which may be in the thousands. Columns $2j$ and $2j + 1$ are a pair
# $(a, b)$. At position $p$ it becomes $(a \cos t - b \sin t,\ a \sin t + b \cos t)$ with
# $t = p / 10000^{2j/d}$. Shape and dtype are those of X, in float16 and float64 as well, gradients
# reach X, and X itself does not change.


# %% slideshow={"slide_type": "skip"}
def rotate(X, offset):
    """Turn each pair of columns by the angle of its position: (B, H, n, d) -> (B, H, n, d).

    One head with two tokens, [[[[1, 0], [1, 0]]]], and offset 0 give
    [[[[1, 0], [0.540, 0.841]]]].
    """
    ...


check("7.4", rotate)

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.5** Far keys shout · *medium, 12 minutes* · find the bug
#
# `alibi_bias` should give what ALiBi adds to the scores of causal self-attention, (H, Q, K) in
# float32. Of `num_keys` tokens the last `num_queries` ask. A key at distance $n$ costs $m$ times
# $n$. Head $h$ of $H = 1, 2, 4, 8, \dots$ heads, counted from 1, has the slope $m = 2^{-8h/H}$.
# Keys that come after their query get $-\infty$. There are four bugs. Mend them.

# %% slideshow={"slide_type": "skip"}
import torch


def alibi_bias(num_heads, num_queries, num_keys):
    slopes = 2.0 ** (-8 * torch.arange(num_heads) / num_heads)
    queries = torch.arange(num_queries)[:, None]
    keys = torch.arange(num_keys)
    bias = slopes[:, None, None] * (queries - keys)
    return bias.masked_fill(keys >= queries, -torch.inf)


check("7.5", alibi_bias)

# %% [markdown] slideshow={"slide_type": "skip"}
# **7.6** The test that knows where tokens stand · *hard, 20 minutes* · write the test
#
# Your test takes a function `attend(queries, keys, values, first_query, first_key)`: scaled
# dot-product attention with a rotary encoding as in 7.4. Queries and keys are (B, H, n, D), not yet
# turned, values (B, H, K, V). The first query and the first key stand at the positions given, and
# nothing is masked. You may use `RotaryEncoding` or your `rotate` of 7.4. The test returns silently
# where the function is right, and raises an `AssertionError` for each of six broken ones:
#
# - only the queries are turned;
# - the values are turned, too;
# - queries are turned one way, keys the other;
# - queries are turned in pairs of neighbours, keys in pairs $j$ and $j + D/2$;
# - queries and keys are both counted from 0, whatever is given;
# - the scores are not divided by the root of D.


# %% slideshow={"slide_type": "skip"}
def test_rotary(attend):
    """Pass on right rotary attention, and fail by an `AssertionError` on broken ones.

    `attend` is called with (queries, keys, values, first_query, first_key). A test that looks only
    at the shape would be `assert attend(*inputs, 4, 1).shape == (B, H, Q, V)`.
    """
    ...


check("7.6", test_rotary)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.6: the
#   comparison, the encoding, the rotation; 11.7: the decoder that writes one token at a time.
#   [d2l.ai](https://d2l.ai)
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.5:
#   sines and cosines; section 4: the table of costs.
# - J. Gehring et al., *Convolutional Sequence to Sequence Learning*, ICML 2017, arXiv:1705.03122.
#   Section 3.1: learned positions.
# - J. Su et al., *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021,
#   arXiv:2104.09864. Section 3.2.
# - O. Press, N. A. Smith, M. Lewis, *Train Short, Test Long: Attention with Linear Biases Enables
#   Input Length Extrapolation*, ICLR 2022, arXiv:2108.12409. Section 3.

# %% [markdown] slideshow={"slide_type": "skip"}
# On what is disputed:
#
# - A. Haviv et al., *Transformer Language Models without Positional Encodings Still Learn
#   Positional Information*, Findings of EMNLP 2022, arXiv:2203.16634.
# - A. Kazemnejad et al., *The Impact of Positional Encoding on Length Generalization in
#   Transformers*, NeurIPS 2023, arXiv:2305.19466.
