# %% [markdown] slideshow={"slide_type": "slide"}
# # 6 · Multi-head attention
#
# **You will**
# - meet a question that is too hard for a single head, prove it, and count what more heads do;
# - write multi-head attention as a loop, then as one product, and see what `view` does to a
#   sentence;
# - look into trained heads, and test by removal what their heat maps suggest.
#
# About 75 minutes, and 69 for the exercises. Builds on chapters 3 and 4. The book (D2L): section
# 11.5.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two lectures, if a large room votes on everything: cut after slide 18, before 'What do heads
# cost?'.

# %% slideshow={"slide_type": "skip"}
import copy

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from d2l_attention import (
    AdditiveAttention,
    MultiHeadAttention,
    check_shape,
    dot_product_attention,
    length_mask,
    scaled_dot_score,
    show_source,
)
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Salt and pepper
#
# The soup needs salt **and** pepper. On the shelf stand jars, and each holds one or the other.
# You ask the shelf one question. Attention answers as always: a weight for each jar, then the
# weighted average of what the jars say.
#
# Every salt jar says the number $s$, every pepper jar the number $p$. You choose $s$, $p$ and the
# weights.
#
# **Predict.** Can you choose them so that the answer is positive where both are there, and
# negative where one is missing?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Give the room a minute to try. Typical: 's = 1, p = -1, then the mixture is in the middle'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Shelves of two jars are enough. The first jar gets the weight $\alpha$, the second $1 - \alpha$:
#
# | shelf | answer | should be |
# |---|---|---|
# | salt, salt | $\alpha\,s + (1-\alpha)\,s = s$ | negative |
# | pepper, pepper | $\alpha\,p + (1-\alpha)\,p = p$ | negative |
# | salt, pepper | $\alpha\,s + (1-\alpha)\,p$ | positive |
#
# The last line is an average of two negative numbers. It is negative, whatever $\alpha$ is.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
numbers, shares = torch.linspace(-3, 3, 61), torch.linspace(0, 1, 21)
s, p, alpha = torch.meshgrid(numbers, numbers, shares, indexing="ij")
works = (s < 0) & (p < 0) & (alpha * s + (1 - alpha) * p > 0)
print(f"{works.sum()} of {works.numel():,} choices work")
assert not works.any()

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# In the middle the mixture is, and that is the trouble: 'both' would have to lie *outside* of
# 'salt' and 'pepper', and an average never does. Say 'convex hull' only if they know the word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# 'But a real layer has matrices, and says more than one number.' Jar $x_j$ has the value $W_v x_j$;
# an output matrix $W_o$ follows, and last a linear readout $w$, $b$ says yes or no.
#
# **Predict.** Which of these steps could save the single head?

# %% [markdown] slideshow={"slide_type": "fragment"}
# None. The weights sum to one, so $b$ moves inside the sum, too:
#
# $$w^\top W_o \Big(\sum_j \alpha_j W_v x_j\Big) + b
#   = \sum_j \alpha_j\,
#   \underbrace{\big(w^\top W_o W_v x_j + b\big)}_{\text{what jar } j \text{ says}}$$
#
# What a jar says depends on that jar alone. Salt jars say one number, pepper jars another, and the
# answer is an average of the two. The table stands, however wide the layer is and wherever its
# weights come from.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute. Usual answers: more numbers, the output matrix, the bias. None helps: after the
# softmax everything is linear. An MLP after the head does; the notebook's small print shows it.

# %% [markdown] slideshow={"slide_type": "skip"}
# Here is such a layer, `MultiHeadAttention` with one head. The query is the same for every shelf:
# it knows nothing of the jars. Keys and values are the jars. The readout scores 'no' and 'yes', and
# the higher score wins; their difference is the linear readout of the proof.


# %% slideshow={"slide_type": "skip"}
class Cook(nn.Module):
    """Asks a shelf (B, jars, 2) once, and scores 'no' and 'yes': (B, 1, 2)."""

    def __init__(self, num_heads):
        super().__init__()
        self.attention = MultiHeadAttention(num_hiddens=8, num_heads=num_heads, dropout=0.0)
        self.readout = nn.Linear(8, 2)

    def forward(self, jars):
        question = torch.ones(len(jars), 1, 1)
        return self.readout(self.attention(question, jars, jars))


salt, pepper = torch.eye(2)

# %% [markdown] slideshow={"slide_type": "skip"}
# **Predict.** The cook is untrained, and its numbers are random. It scores one salt jar alone, one
# pepper jar alone, and a shelf of salt, salt, pepper. Does the proof hold for it already?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
cook = Cook(num_heads=1)  # untrained: the identity holds for any parameters
salt_says, pepper_says = cook(salt[None, None]), cook(pepper[None, None])

mixed = cook(torch.stack([salt, salt, pepper])[None])
alpha = cook.attention.attention_weights.flatten()
check_shape(alpha, (3,))
torch.testing.assert_close(mixed, alpha[:2].sum() * salt_says + alpha[2] * pepper_says)
for name, said in (("salt", salt_says), ("mixed", mixed), ("pepper", pepper_says)):
    print(f"{name:6} {said[0, 0, 1]:6.3f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# (The numbers are the scores of 'yes'.) Something between the two, and nothing else: an average of
# what a salt jar and a pepper jar say alone.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two questions
#
# Ask twice. The first **head** looks for salt: weight on the salt jars, if there are any. The
# second looks for pepper. Each says 1 if it found what it looked for. Add, and 2 means both.
#
# By hand, with two heads of size 1. A jar is two numbers: salt (1, 0), pepper (0, 1). Head 1 takes
# the first number of a jar as its key and its value, head 2 the second. The keys are ten times as
# large, so that the softmax is sharp.

# %% slideshow={"slide_type": "skip"}
jars = torch.tensor([[0, 0], [1, 1], [0, 1], [1, 0]])  # 0 is salt, 1 is pepper
four_shelves = F.one_hot(jars, 2).float()
question = torch.ones(4, 1, 1)
layer = MultiHeadAttention(num_hiddens=2, num_heads=2, dropout=0.0)
layer(question, four_shelves, four_shelves)  # the first call fixes the sizes
with torch.no_grad():
    layer.W_q.weight.fill_(1.0)
    layer.W_k.weight.copy_(10 * torch.eye(2))
    layer.W_v.weight.copy_(torch.eye(2))
    layer.W_o.weight.copy_(torch.eye(2))

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
found = layer(question, four_shelves, four_shelves)[:, 0]
check_shape(found, (4, 2))  # for each shelf, what each head found
for shelf, (one, two) in zip(jars.tolist(), found.tolist(), strict=True):
    names = " ".join(f"{['salt', 'pepper'][jar]:6}" for jar in shelf)
    print(f"{names}   head 1: {one:.2f}   head 2: {two:.2f}   sum {one + two:.1f}")
assert torch.equal(found.sum(dim=-1) > 1.5, torch.tensor([False, False, True, True]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# All four right, with two heads of one number each. It is the reason that Vaswani et al. (2017)
# gave for heads: with a single one, 'averaging inhibits' attending to several things at once.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does training find it?
#
# Six jars now. A quarter of the shelves is all salt, a quarter all pepper, half are mixed, some
# with a single jar of the other kind. The cook is the layer of the proof, with one head or two; its
# readout scores 'no' and 'yes'.


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
def shelves(n):
    """Jars (n, 6, 2), one-hot, and whether salt and pepper are both there (n, 1)."""
    jars, kind = torch.randint(2, (n, 6)), torch.randint(4, (n,))
    jars[kind == 0] = 0  # all salt
    jars[kind == 1] = 1  # all pepper
    jars[kind >= 2, :2] = torch.tensor([0, 1])  # at least one of each
    return F.one_hot(jars, 2).float(), (kind >= 2).long()[:, None]


torch.manual_seed(1)
jars, both = shelves(5)
for line, answer in zip(jars.argmax(dim=-1).tolist(), both.flatten().tolist(), strict=True):
    print(*("pepper" if jar else "salt  " for jar in line), "->", "yes" if answer else "no")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** What is the best accuracy that *one* head can reach: 50%, 75% or 90%?

# %% [markdown] slideshow={"slide_type": "fragment"}
# 75%. One head gives one answer to all all-salt shelves and one to all all-pepper shelves. If it
# has both right, every mixed shelf is wrong: 50%. If not, a quarter is wrong: at most 75%.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A vote by hands, one minute. 50% ('it cannot do it') and 90% share the room. Ask a voter for 50%
# for a rule that does better: 'yes if there is any pepper' errs on the all-pepper shelves alone.

# %% [markdown] slideshow={"slide_type": "skip"}
# The loop that trains everything in this chapter. It holds nothing but the usual steps; `draw`
# makes a fresh batch each time, so nothing can be learned by heart.


# %% slideshow={"slide_type": "skip"}
def train(make_model, draw, steps, seed=0):
    torch.manual_seed(seed)
    model = make_model()
    model(draw(1)[0])  # the first call fixes the sizes of the parameters
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        inputs, targets = draw(64)
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def accuracy(model, draw):
    torch.manual_seed(99)
    inputs, targets = draw(2000)
    return (model(inputs).argmax(dim=-1) == targets).float().mean(dim=(0, 1))


# %% [markdown] slideshow={"slide_type": "subslide"}
# One head against two, 300 steps each, tried on 2,000 new shelves:

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
cooks = {h: train(lambda h=h: Cook(h), shelves, steps=300) for h in (1, 2)}
sizes = {h: sum(p.numel() for p in cook.parameters()) for h, cook in cooks.items()}
right = {h: accuracy(cook, shelves).item() for h, cook in cooks.items()}
for h in (1, 2):
    print(f"heads: {h}   parameters: {sizes[h]}   new shelves right: {right[h]:.1%}")

assert sizes[1] == sizes[2]  # it is the heads, not the parameters
assert abs(right[1] - 0.75) < 0.03  # the limit, give or take the draw of 2,000 shelves
assert right[2] > 0.99

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same width, 8, and the same number of parameters. One head reaches its limit and stops there;
# two heads make no mistake. What do they look at, on a shelf with one jar of pepper?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A shelf with one jar of pepper

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
shelf = torch.stack([salt, salt, pepper, salt, salt, salt])[None]
rows = []
for cook in cooks.values():
    cook(shelf)
    rows.append(cook.attention.attention_weights[0, :, 0])
rows = torch.cat(rows)
check_shape(rows, (3, 6))  # one head, and two heads

_, ax = plt.subplots(figsize=(9, 3.4))
names = ["one head alone", "head 1 of two", "head 2 of two"]
heatmap(ax, rows, names, ["salt", "salt", "pepper", "salt", "salt", "salt"], vmax=1, numbers=True)
ax.axhline(0.5, color="black", linewidth=1)
ax.set_title("One head finds one of the two; two heads find both")
plt.show()

on_pepper = rows[:, 2]
assert on_pepper[0] < 0.01 or on_pepper[0] > 0.99  # one head: either the one or the other
assert on_pepper[1:].min() < 0.1 and on_pepper[1:].max() > 0.75

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map with three rows and six columns, one a jar; the third jar is pepper. The row
# of the single head has all its weight on the pepper. Of the two heads one has spread its weight
# over the five salt jars, the other has almost all of it on the pepper.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The single head seeks pepper. It can say 'pepper is there' and no more, so every all-pepper shelf
# is wrong: 75%. Which row tells you that salt is there? The second.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Can, not must
#
# Nothing tells two heads to differ. They start from different random numbers, and that is all.
#
# **Predict.** Ten starts, 150 steps each. How often do two heads learn the task? And four?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
successes = {}
for h in (2, 4):
    starts = [train(lambda h=h: Cook(h), shelves, steps=150, seed=seed) for seed in range(10)]
    successes[h] = [accuracy(cook, shelves).item() > 0.99 for cook in starts]
    print(f"{h} heads: {sum(successes[h])} of 10 starts learn it")

    for cook, success in zip(starts, successes[h], strict=True):
        cook(shelf)
        seeks_pepper = cook.attention.attention_weights[0, :, 0, 2] > 1 / 6
        assert success == (len(seeks_pepper.unique()) == 2)  # some seek pepper, some salt
assert sum(successes[4]) >= sum(successes[2]) >= 6

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two heads, most times. In the starts that fail, both look for the same: two heads that do one job
# are one head. Four heads seldom all look for the same, though each is only half as wide.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Likely question: why do they differ at all? If both began with the same numbers they would get
# the same gradient and stay twins for ever. Chance breaks the tie. The failing starts are the
# honest part: do not skip them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **The small print.** 'Cannot' was proved for one head with a *linear* readout. If an MLP reads
# the answer, one head will do: it lands between salt and pepper, and an MLP can learn 'in
# between means yes'. A Transformer has both, heads and an MLP after them (chapter 8). What one
# head still lacks is two *sharp* looks at two places: in between, the two are blended.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]


class CookWithMLP(Cook):
    def __init__(self, num_heads):
        super().__init__(num_heads)
        self.readout = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


blended = train(lambda: CookWithMLP(1), shelves, steps=300)
print(f"one head and an MLP: {accuracy(blended, shelves):.1%}")
assert accuracy(blended, shelves) > 0.99

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The formula
#
# Head $i$ has three matrices of its own. It sees the query, the keys and the values through them,
# and attends:
#
# $$h_i = f\big(W^{(q)}_i q,\; W^{(k)}_i k,\; W^{(v)}_i v\big), \qquad i = 1, \dots, H$$
#
# $k$ and $v$ stand for all keys and values, and $f$ is attention as you know it. What the heads
# found is put end to end, and one more matrix mixes it:
#
# $$\text{output} = W_o \begin{bmatrix} h_1 \\ \vdots \\ h_H \end{bmatrix}$$
#
# With $D$ hidden units in all, each head gets $D / H$. Heads are **thin**: together they are as
# wide as one.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Read it aloud from the inside: project, attend, put end to end, mix. Then ask for the size of
# $W_o$. Many say $D$ by $D/H$. It is $D$ by $D$: it gets all heads at once, end to end.

# %% [markdown] slideshow={"slide_type": "subslide"}
# In code, word for word. The layer keeps the matrices of all heads stacked in one: rows 1 to
# $D/H$ of `W_q` belong to head 1, the next $D/H$ to head 2. `chunk` takes them apart. And
# `dot_product_attention` divides the scores by the root of the size that it sees: of $D/H$.


# %% slideshow={"slide_type": "fragment"}
def loop_over_heads(layer, queries, keys, values, f=dot_product_attention):
    """What `MultiHeadAttention` computes, one head after the other."""
    matrices = [W.weight.chunk(layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v)]
    heads = [
        f(queries @ W_q.T, keys @ W_k.T, values @ W_v.T)
        for W_q, W_k, W_v in zip(*matrices, strict=True)
    ]
    return torch.cat(heads, dim=-1) @ layer.W_o.weight.T


# %% [markdown] slideshow={"slide_type": "subslide"}
# Queries, keys and values may be of three different sizes: every head brings them to $D / H$.
#
# **Predict.** 2 sentences, 3 queries, 5 keys, $D = 12$, 3 heads. The shape of one head? Of the
# output? Of all weights?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, keys, values = torch.randn(2, 3, 7), torch.randn(2, 5, 11), torch.randn(2, 5, 13)
layer = MultiHeadAttention(num_hiddens=12, num_heads=3, dropout=0.0)

output = layer(queries, keys, values)
check_shape(output, (2, 3, 12))
check_shape(layer.attention_weights, (2, 3, 3, 5))  # sentence, head, query, key
torch.testing.assert_close(loop_over_heads(layer, queries, keys, values), output)

W_q, W_k, W_v = (W.weight.chunk(3)[0] for W in (layer.W_q, layer.W_k, layer.W_v))
check_shape(W_q, (4, 7))  # from a query of 7 numbers to 12 / 3
check_shape(dot_product_attention(queries @ W_q.T, keys @ W_k.T, values @ W_v.T), (2, 3, 4))

# %% [markdown] slideshow={"slide_type": "fragment"}
# | | shape | |
# |---|---|---|
# | one head | (2, 3, 4) | 4 = 12 / 3 numbers for each query |
# | output | (2, 3, 12) | an answer for each query |
# | all weights | (2, 3, 3, 5) | sentence, head, query, key |

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute, on paper. The usual slip is 5 in the output: keys and values are averaged away. The
# two threes in the last row are on purpose: ask which is which.

# %% [markdown] slideshow={"slide_type": "skip"}
# And PyTorch's `nn.MultiheadAttention`? It keeps the three matrices in one, `in_proj_weight`. Copy
# our weights into it, and compare outputs and the weights of all heads.

# %% slideshow={"slide_type": "skip"}
X = torch.randn(2, 5, 12)
ours = MultiHeadAttention(num_hiddens=12, num_heads=3, dropout=0.0)
output = ours(X, X, X)

theirs = nn.MultiheadAttention(embed_dim=12, num_heads=3, bias=False, batch_first=True)
with torch.no_grad():
    theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
    theirs.out_proj.weight.copy_(ours.W_o.weight)
their_output, their_weights = theirs(X, X, X, average_attn_weights=False)

torch.testing.assert_close(their_output, output)
torch.testing.assert_close(their_weights, ours.attention_weights)
torch.testing.assert_close(loop_over_heads(ours, X, X, X), output)

# %% [markdown] slideshow={"slide_type": "skip"}
# Left alone, PyTorch returns the *mean* of the heads' weights, (B, Q, K). A mean of heads shows
# less than the heads: ask for `average_attn_weights=False`.

# %% slideshow={"slide_type": "skip"}
_, averaged = theirs(X, X, X)
check_shape(averaged, (2, 5, 5))
torch.testing.assert_close(averaged, ours.attention_weights.mean(dim=1))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why not just add the heads?
#
# Head 1 found $(1, 0)$ and head 2 found $(0, 1)$. Or the other way round.
#
# **Predict.** Can you tell the two cases apart after adding the heads? After putting them end to
# end?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
one, two = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
print("added:     ", (one + two).tolist(), (two + one).tolist())
print("end to end:", torch.cat([one, two]).tolist(), torch.cat([two, one]).tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# A plain sum forgets who said what. End to end, nothing is lost, and $W_o$ has columns for each
# head. So each head has an **exit matrix** of its own, and the output is the sum of what comes
# out: $W_o h = W_{o,1} h_1 + \dots + W_{o,H} h_H$.

# %% slideshow={"slide_type": "skip"}
heads = torch.randn(3, 4)  # three heads of size 4
exits = ours.W_o.weight.chunk(3, dim=1)
check_shape(exits[0], (12, 4))
sum_of_exits = sum(W @ head for W, head in zip(exits, heads, strict=True))
torch.testing.assert_close(ours.W_o(heads.flatten()), sum_of_exits)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## All heads in one product
#
# The loop makes $3H$ small products where three large ones would do. The stacked `W_q` computes all
# heads at once: $X W_q^\top$ gives each token $D$ numbers, the first $D/H$ for head 1, the next
# for head 2.
#
# What is left is bookkeeping: from (tokens, $D$) to (heads, tokens, $D/H$).
#
# **Predict.** `X.view(num_heads, num_tokens, D // num_heads)` has that shape, without an error.
# Does head 1 get the first numbers of every token?

# %% [markdown] slideshow={"slide_type": "subslide"}
# Dye the numbers and follow them. Four tokens A, B, C, D of four numbers each: A0 to A3, B0 to B3
# and so on. Two heads.

# %% slideshow={"slide_type": "skip"}
tokens = 10 * torch.arange(4)[:, None] + torch.arange(4)  # the tens say whose number it is
cut_and_moved = tokens.reshape(4, 2, 2).transpose(0, 1)
view_alone = tokens.view(2, 4, 2)
check_shape(cut_and_moved, (2, 4, 2))
check_shape(view_alone, (2, 4, 2))
print("head 1, reshape and transpose:", cut_and_moved[0].tolist())
print("head 1, view alone:           ", view_alone[0].tolist())


# %% slideshow={"slide_type": "skip"}
def draw_dyed(ax, blocks, title, labels):
    """Blocks of rows under each other; the colour of a number is its token's."""
    colours = ["#F0E442", "#E69F00", "#0072B2", "#333333"]  # also apart in grey
    top = 0
    for block, label in zip(blocks, labels, strict=True):
        ax.text(-0.25, top + len(block) / 2, label, ha="right", va="center")
        for row, line in enumerate(block.tolist()):
            for column, number in enumerate(line):
                token, index = divmod(number, 10)
                box = Rectangle((column, top + row), 1, 1, facecolor=colours[token], edgecolor="w")
                ax.add_patch(box)
                place = column + 0.5, top + row + 0.5
                ink = "white" if token > 1 else "black"
                ax.text(*place, f"{'ABCD'[token]}{index}", ha="center", va="center", color=ink)
        top += len(block) + 0.6
    ax.set(xlim=(-2.2, 4.1), ylim=(9.0, -0.2), title=title)
    ax.set_aspect("equal")
    ax.axis("off")


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axes = plt.subplots(1, 3, figsize=(11, 5.2))
draw_dyed(axes[0], tokens[None], "X\n(4, 4)", ["tokens"])
names = ["head 1", "head 2"]
draw_dyed(axes[1], cut_and_moved, "reshape, then transpose\n(2, 4, 2)", names)
draw_dyed(axes[2], view_alone, "view alone\n(2, 4, 2)", names)
figure.suptitle("view alone gives a head two whole tokens, not half of each", fontsize=17)
plt.show()

whose = {name: heads // 10 for name, heads in (("right", cut_and_moved), ("wrong", view_alone))}
assert torch.equal(whose["right"][0], torch.arange(4)[:, None].expand(4, 2))  # A, B, C, D
assert whose["wrong"][0].unique().tolist() == [0, 1]  # A and B alone

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: coloured squares, one colour a token. Left, X: four rows, A, B, C, D, of four squares.
# Middle, after reshape and transpose: head 1 has the first two squares of A, B, C and D, head 2
# the last two. Right, after view alone: head 1 has all squares of A and B in four rows, head 2
# all of C and D.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Read the memory aloud: A0 A1 A2 A3 B0 B1 and so on. Neither reshape nor view moves a number; they
# only say anew where a row ends. Only transpose changes the order of axes. Hence: first *cut* the
# last axis, (4, 4) to (4, 2, 2), then *move* the new axis to the front.

# %% [markdown] slideshow={"slide_type": "subslide"}
# `view` and `reshape` never change the order of the numbers; they cut the row of 16 anew. The first
# half of that row is A and B. So: **cut** the last axis with `reshape`, then **move** the heads
# forward with `transpose`. On the way back, first move, then join.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
show_source(MultiHeadAttention.split_heads)

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
show_source(MultiHeadAttention.merge_heads)

# %% [markdown] slideshow={"slide_type": "skip"}
# After a `transpose` the numbers of a row no longer lie side by side in memory. `view` notices and
# refuses; `reshape` and `flatten` make a copy. An error from `view` is a friend here: it says that
# axes were moved.

# %% slideshow={"slide_type": "skip"}
layer = MultiHeadAttention(num_hiddens=4, num_heads=2, dropout=0.0)
split = layer.split_heads(tokens[None])
assert torch.equal(split[0], cut_and_moved)
assert torch.equal(layer.merge_heads(split)[0], tokens)  # there and back
try:
    split.view(1, 4, 4)
except RuntimeError as error:
    print(str(error).split("(")[0])

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What it does to a sentence
#
# Chapter 4's experiment: change one token, and see which answers move. Three ways to go there and
# back:
#
# - correct: cut and move; move back and join;
# - `view` there, `view` back;
# - right on the way there, but no transpose on the way back.
#
# **Predict.** Which of them let every token reach every answer? Which one shows a causal model its
# future?


# %% slideshow={"slide_type": "skip"}
class ViewBothWays(MultiHeadAttention):  # reshape does what view does, and is never refused
    def split_heads(self, X):
        batch, n, num_hiddens = X.shape
        return X.reshape(batch, self.num_heads, n, num_hiddens // self.num_heads)

    def merge_heads(self, X):
        batch, num_heads, n, size = X.shape
        return X.reshape(batch, n, num_heads * size)


class NoTransposeBack(MultiHeadAttention):
    merge_heads = ViewBothWays.merge_heads


ways = {
    "correct": MultiHeadAttention,
    "view both ways": ViewBothWays,
    "no transpose back": NoTransposeBack,
}


# %% slideshow={"slide_type": "skip"}
def reached(layer, is_causal):
    """Bool (4, 4): does answer i move when token j changes?"""
    torch.manual_seed(1)
    X = torch.randn(1, 4, 4)
    before = layer(X, X, X, is_causal=is_causal)
    moves = []
    for j in range(4):
        other = X.clone()
        other[:, j] += 1.0
        moves.append((layer(other, other, other, is_causal=is_causal) != before).any(-1)[0])
    return torch.stack(moves, dim=1)


reach = {
    (name, is_causal): reached(way(num_hiddens=4, num_heads=2, dropout=0.0), is_causal)
    for name, way in ways.items()
    for is_causal in (False, True)
}

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which token reaches which answer

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
figure, axes = plt.subplots(2, 3, figsize=(9.5, 6.4))
for (name, is_causal), ax in zip(reach, axes.T.flat, strict=True):
    heatmap(ax, reach[name, is_causal], "ABCD", "ABCD", vmax=1.4)
    ax.set(title=name if not is_causal else "", aspect="equal")
    ax.set_xticks([0.5, 1.5, 2.5], minor=True)
    ax.set_yticks([0.5, 1.5, 2.5], minor=True)
    ax.grid(which="minor", color="white", linewidth=2)
    ax.tick_params(which="minor", length=0)
    if is_causal:
        answer, token = reach[name, is_causal].triu(diagonal=1).nonzero(as_tuple=True)
        ax.plot(token, answer, "x", color="#D55E00", markersize=16, markeredgewidth=4)
for ax, label in zip(axes[:, 0], ["no mask", "causal"], strict=True):
    ax.set_ylabel(f"{label}\nanswer")
for ax in axes[1]:
    ax.set_xlabel("token")
figure.suptitle(
    "view cuts the sentence in two; no transpose back shows the future (x)", fontsize=16
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of three grids, answers by tokens, a cell filled where the token reaches the
# answer. Correct: all filled; causal, the lower triangle. View both ways: two filled blocks, A with
# B and C with D; causal, two small triangles. No transpose back: all filled; with the causal mask
# three crosses above the diagonal, where answer A is reached by B, and answer B by C and D.*

# %% slideshow={"slide_type": "skip"}
everything = torch.ones(4, 4, dtype=torch.bool)
assert torch.equal(reach["correct", False], everything)
assert torch.equal(reach["correct", True], everything.tril())
halves = torch.block_diag(everything[:2, :2], everything[:2, :2])
assert torch.equal(reach["view both ways", False], halves.bool())
future = reach["no transpose back", True].triu(diagonal=1)
assert future.nonzero().tolist() == [[0, 1], [1, 2], [1, 3]]

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The second column is the memorable one. Heads should share out the *numbers* of each token; here
# they share out the *tokens*, and the two halves of the sentence never meet. Shapes fit, gradients
# flow, no test of shapes fails. Hold the question 'would training notice?' until the last section.
#
# Why three crosses? In memory stand four answers of head 1, then four of head 2. Without the
# transpose place A joins head 1's answers for A and B, and place B those for C and D. So A sees B,
# and B sees C and D. Places C and D join head 2's: nothing there lies in their future.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The package's forward, whole
#
# You have met each step. Here they stand together, as the code that runs when you call the layer.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
show_source(MultiHeadAttention.forward)

# %% [markdown] slideshow={"slide_type": "skip"}
# - **Check.** `_check` refuses inputs that do not fit, and gives the sizes. `offset` counts the
#   tokens that a `cache` holds already; until chapter 8 there is none, and it is 0. A mask gets an
#   axis for the heads. This `bias` is added to the scores, for positions (chapter 7); without them
#   it is `None`.
# - **Hide.** `taking_part` says which queries see any key, and which keys are seen by any query.
#   The other rows become zeros: padding may hold NaN, and 0 times NaN is NaN. (With a cache, keys
#   and values become zeros after the projection, because later queries may see them.)
# - **Project, split, position.** $W_q$ first, then `split_heads`. `transform` is for positions and
#   changes nothing without them. `_project_keys_values` does the same for keys and values.
# - **Attend.** `self.attention` is chapter 3's layer, which here gets one more axis, the heads'.
#   The book's `valid_lens` is handed down as it came, the mask with its new axis.
# - **Merge, project.** Heads end to end, then $W_o$.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What do heads cost?
#
# One head of size $D$ against $H$ heads of size $D/H$, for $n$ tokens of size $D$ that ask each
# other.
#
# **Predict.** With eight heads instead of one: how many times the parameters, the multiplications,
# the exponentials?

# %% [markdown] slideshow={"slide_type": "fragment"}
# | | one head | $H$ heads |
# |---|---|---|
# | parameters | $4 D^2$ | $4 D^2$ |
# | multiplications, four projections | $4 n D^2$ | $4 n D^2$ |
# | multiplications, scores and averages | $2 n^2 D$ | $H \cdot 2 n^2 \frac{D}{H} = 2 n^2 D$ |
# | weights, and exponentials for them | $n^2$ | $H n^2$ |

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
n, D = 13, 24
X = torch.randn(1, n, D)
for num_heads in (1, 2, 8):
    layer = MultiHeadAttention(D, num_heads, dropout=0.0)
    layer(X, X, X)  # the first call fixes the sizes
    parameters = sum(p.numel() for p in layer.parameters())
    with FlopCounterMode(display=False) as counter:
        _, weights = layer(X, X, X, need_weights=True)
    multiplications = counter.get_total_flops() // 2  # it takes a multiply-add as 2
    assert parameters == 4 * D**2
    assert multiplications == 4 * n * D**2 + 2 * n**2 * D
    assert weights.numel() == num_heads * n**2
    counts = f"parameters: {parameters}   multiplications: {multiplications}"
    print(f"heads: {num_heads}   {counts}   weights: {weights.numel()}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Eight heads cost what one costs, but for the softmax. (The weights need memory only where somebody
# reads them: the fused kernel of chapter 3 holds none, whatever the number of heads.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# 'Eight times the cost' is the common guess. Go through the table row by row, and ask each time
# where the eight went: into heads that are eight times thinner.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The price is paid elsewhere. A head has $D/H$ numbers for its queries and keys, so its table of
# $n \times n$ scores has at most **rank** $D/H$. Thin heads can express less (Bhojanapalli et
# al., 2020).
#
# **Predict.** $D = 24$, 13 tokens. The rank of one head's scores with 1, 8 and 24 heads?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
for num_heads in (1, 8, 24):
    layer = MultiHeadAttention(D, num_heads, dropout=0.0)
    layer(X, X, X)
    q, k = layer.split_heads(layer.W_q(X)), layer.split_heads(layer.W_k(X))
    rank = torch.linalg.matrix_rank(scaled_dot_score(q, k)[0, 0].double(), rtol=1e-4)
    print(f"heads: {num_heads:2d}   size: {D // num_heads:2d}   rank {rank} of {n}")
    assert rank == min(n, D // num_heads)

# %% [markdown] slideshow={"slide_type": "fragment"}
# So heads trade *how many* looks against *how fine* each look is.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Give them a hint if nobody moves: a table of products of 3 numbers with 3 numbers. Some say 8 for
# eight heads. 13, and not 24, comes first: 13 tokens allow no more.

# %% [markdown] slideshow={"slide_type": "skip"}
# And $H$ must divide $D$. The book's class does not check that; ours does:

# %% slideshow={"slide_type": "skip"}
try:
    MultiHeadAttention(num_hiddens=100, num_heads=3, dropout=0.0)
except ValueError as error:
    print(error)

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Any attention inside
#
# The formula says $f$, not 'dot product'. Chapter 3's additive attention fits as well: give the
# layer an `attention` of the size of one head.
#
# Its parameters are shared by the heads. What makes the heads differ are $W_q$, $W_k$ and $W_v$.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, keys, values = torch.randn(2, 3, 7), torch.randn(2, 5, 11), torch.randn(2, 5, 13)
additive = AdditiveAttention(num_hiddens=4, dropout=0.0)
layer = MultiHeadAttention(num_hiddens=12, num_heads=3, dropout=0.0, attention=additive)

output = layer(queries, keys, values)
check_shape(output, (2, 3, 12))
check_shape(layer.attention_weights, (2, 3, 3, 5))
check_shape(additive.W_q.weight, (4, 4))  # a head's size in, 4 hidden units out
torch.testing.assert_close(loop_over_heads(layer, queries, keys, values, f=additive), output)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Who asks whom
#
# The layer has three inputs. Who supplies them is all that tells kinds of attention apart:
#
# | | queries | keys and values | weights |
# |---|---|---|---|
# | **self-attention** | a sentence | the same sentence | $n \times n$ |
# | **cross-attention** | one sequence | another one | $n \times m$ |
#
# The cook's question to the shelf was cross-attention. So are the alignment heat maps of
# chapter 5: the translation asks, the source sentence answers.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
english, french = torch.randn(1, 5, 12), torch.randn(1, 3, 12)
layer = MultiHeadAttention(num_hiddens=12, num_heads=2, dropout=0.0)

check_shape(layer(english, english, english), (1, 5, 12))
check_shape(layer.attention_weights, (1, 2, 5, 5))
check_shape(layer(french, english, english), (1, 3, 12))  # an answer for each query
check_shape(layer.attention_weights, (1, 2, 3, 5))

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** A French sentence asks an English one (cross-attention). Then the English sentence
# asks itself (self-attention). Now shuffle the English words. What happens to the answers in each?

# %% slideshow={"slide_type": "skip"}
order = torch.tensor([3, 0, 4, 1, 2])
shuffled = english[:, order]

cross = layer(french, english, english)
torch.testing.assert_close(layer(french, shuffled, shuffled), cross)  # nothing happens

itself = layer(english, english, english)
torch.testing.assert_close(layer(shuffled, shuffled, shuffled), itself[:, order])

# %% [markdown] slideshow={"slide_type": "fragment"}
# In cross-attention nothing. In self-attention the answers are shuffled along, and each stays
# what it was. Attention does not know the order of its tokens, with any number of heads. If order
# matters, a token must *say* where it stands. In the next game it does, in the plainest way;
# chapter 7 has better ones.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two questions, two votes. Many say 'nonsense comes out' for self-attention. Act it out: five
# people swap seats, and each still says the same. This is the bridge to chapter 7.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Masks and heads
#
# A length or a mask belongs to a sentence and holds for all its heads. So a mask (B, Q, K) must
# become (B, 1, Q, K) before it meets scores (B, H, Q, K).
#
# **Predict.** And if one forgets it? Two sentences, two heads; sentence 0 has three words,
# sentence 1 has one.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
torch.manual_seed(0)
heads = torch.randn(2, 2, 3, 4)  # sentence, head, token, number
mask = length_mask(torch.tensor([3, 1]), 3).expand(2, 3, 3)  # sentence, query, key

only_first = heads[:, :, :1].expand(2, 2, 3, 4)  # the answer where the first word alone is seen
hidden = {}
for name, laid in {"(B, 1, Q, K)": mask[:, None], "(B, Q, K)": mask}.items():
    output = F.scaled_dot_product_attention(heads, heads, heads, attn_mask=laid)
    hidden[name] = (output - only_first).abs().amax(dim=(-1, -2)) < 1e-6
    print(f"mask {name}: sees the first word alone (row: sentence, column: head)\n", hidden[name])

# %% [markdown] slideshow={"slide_type": "fragment"}
# No error. Broadcasting lines up axes from the right, so 'sentence' met 'head': in both sentences
# head 1 sees everything and head 2 one word. It runs because there are as many sentences as heads.
# Test with different numbers.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask for three votes: an error, all masked wrongly, nothing. Most expect an error. Write (2, 3, 3)
# under (2, 2, 3, 3) on the board, flush right, and the mistake is to be seen.

# %% slideshow={"slide_type": "skip"}
assert hidden["(B, 1, Q, K)"].tolist() == [[False, False], [True, True]]
assert hidden["(B, Q, K)"].tolist() == [[False, True], [False, True]]
unmasked = F.scaled_dot_product_attention(heads, heads, heads)
torch.testing.assert_close(output[:, 0], unmasked[:, 0])  # the axis forgotten: head 1 sees all

X = torch.randn(2, 3, 12)
layer = MultiHeadAttention(num_hiddens=12, num_heads=2, dropout=0.0)
by_mask = layer(X, X, X, mask=mask)  # the package adds the axis
torch.testing.assert_close(by_mask, layer(X, X, X, torch.tensor([3, 1])))
assert (layer.attention_weights[1, :, :, 1:] == 0).all()  # sentence 1, all heads

three = torch.randn(3, 2, 3, 4)  # three sentences, two heads
try:
    F.scaled_dot_product_attention(three, three, three, attn_mask=mask[[0, 1, 1]])
except RuntimeError as error:
    print(error)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What do heads learn?
#
# A game with words of seven letters, in which the right answer is known. Each place must name two
# letters: the one **before** it, and the one **opposite**, seen in a mirror. (The first
# place has none before it and names its own.)
#
# | | d | e | l | i | v | e | r |
# |---|---|---|---|---|---|---|---|
# | before | d | d | e | l | i | v | e |
# | opposite | r | e | v | i | l | e | d |
#
# A short look and a long one. The letters are no help in finding them: only the
# place is.

# %% slideshow={"slide_type": "skip"}
before = torch.tensor([0, 0, 1, 2, 3, 4, 5])  # place i looks at place before[i] ...
opposite = torch.tensor([6, 5, 4, 3, 2, 1, 0])  # ... and at opposite[i]


def describe(letters):
    """Letters (n, 7) as numbers -> (n, 7, 33): which letter it is, and where it stands."""
    places = torch.eye(7).expand(len(letters), 7, 7)
    return torch.cat([F.one_hot(letters, 26).float(), places], dim=-1)


def words(n):
    """Random words, and for each place the letter before and the letter opposite (n, 7, 2)."""
    letters = torch.randint(26, (n, 7))
    return describe(letters), torch.stack([letters[:, before], letters[:, opposite]], dim=-1)


assert (before != opposite).all()  # the two looks never coincide


# %% [markdown] slideshow={"slide_type": "subslide"}
# The model is one layer of self-attention and a linear readout. The place is told in the plainest
# way: seven numbers, one of them 1. Trained as the cooks were, with one head or two.
#
# **Predict.** One head puts half of its weight on each of the two places. What goes wrong?


# %% slideshow={"slide_type": "skip"}
class Speller(nn.Module):
    """Scores of 26 letters for 'before' and for 'opposite': (B, 7, 2, 26)."""

    def __init__(self, num_heads, layer=MultiHeadAttention):
        super().__init__()
        self.attention = layer(num_hiddens=32, num_heads=num_heads, dropout=0.0)
        self.readout = nn.Linear(32, 2 * 26)

    def forward(self, X):
        return self.readout(self.attention(X, X, X)).unflatten(-1, (2, 26))


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
spellers = {h: train(lambda h=h: Speller(h), words, steps=300) for h in (1, 2)}
scores = {h: accuracy(speller, words) for h, speller in spellers.items()}
for h, (b, o) in scores.items():
    print(f"heads: {h}   before {b:.1%}   opposite {o:.1%}")

assert scores[2].min() > 0.99 and scores[1].min() < 0.3 < 0.9 < scores[1].max()

spellers[1](words(100)[0])
alone = spellers[1].attention.attention_weights[:, 0].mean(dim=0)
shares = [alone[range(7), place].mean().item() for place in (before, opposite)]
print("the one head's weight: before {:.0%}, opposite {:.0%}".format(*shares))
assert min(shares) > 0.4

# %% [markdown] slideshow={"slide_type": "fragment"}
# One head hears both letters at once, about equally loud, and cannot name both. A shade louder is
# enough: that letter it names nearly always, the other nearly never. Two heads make no mistake. So
# have they shared the work?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute, in pairs. 'It gets both half right' is common. Put two letters into a bag on the
# board: the average knows which letters are in it, and not which one stood where.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
deliver = torch.tensor([["abcdefghijklmnopqrstuvwxyz".index(letter) for letter in "deliver"]])
known = {"before": torch.eye(7)[before], "opposite": torch.eye(7)[opposite]}

spellers[2](describe(deliver))
weights = spellers[2].attention.attention_weights[0]
check_shape(weights, (2, 7, 7))
learned = [max(known, key=lambda name: (w * known[name]).sum().item()) for w in weights]
print("head 1 looks", learned[0], "and head 2", learned[1])
assert sorted(learned) == ["before", "opposite"]

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
figure, axes = plt.subplots(1, 4, figsize=(12.4, 3.6))
panels = zip(axes.reshape(2, 2), learned, weights, (1, 2), strict=True)
for (rule, trained_head), name, matrix, head in panels:
    heatmap(rule, known[name], "deliver", "deliver", vmax=1)
    heatmap(trained_head, matrix, "deliver", "deliver", vmax=1)
    rule.set_title(f"the rule: {name}")
    trained_head.set_title(f"head {head}")
for ax in axes:
    ax.set_xlabel("key")
axes[0].set_ylabel("query")
figure.colorbar(axes[0].images[0], ax=axes, shrink=0.8, label="weight")
figure.suptitle("Nobody told them: one head learned 'before', one 'opposite'", fontsize=16)
plt.show()

for name, matrix in zip(learned, weights, strict=True):
    assert torch.equal(matrix.argmax(dim=-1), known[name].argmax(dim=-1))  # every row's darkest

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four heat maps of seven by seven for the letters of 'deliver', in two pairs: a rule, and
# the head beside it. The rule 'before' is a line just below the diagonal, 'opposite' the other
# diagonal. Each head has its darkest cells where the rule to its left has them, and pale cells
# where the other rule has them.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Every row's darkest cell is the rule's. About a sixth of the weight has stayed at the other
# place. It does no harm: among the letters that a head brings, the loudest wins.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Before you show the sentence: go along the row of 'l' with your finger. 'e' stands before it, 'v'
# opposite; where is each head darkest? Then ask what the pale cells are.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
for name, matrix in zip(learned, weights, strict=True):
    other = ({"before", "opposite"} - {name}).pop()
    share, rest = ((matrix * known[n]).sum(dim=-1).mean() for n in (name, other))
    print(f"the head for {name!r}: {share:.2f} there, {rest:.2f} at the other place")
    assert share > 0.7 and 0.05 < rest < 0.25

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Watch them part
#
# The same two heads, stopped earlier: after 0, 40, 80, 120, 200 and 300 steps. Outlined cells are
# the rule that the head ends with. Slide, switch between the heads, press **Show lines**.
#
# **Question.** After 80 steps both heads know the two places already. What is wrong with them
# still? At which stop have they shared the work? And which rule draws lines that all cross?

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
from d2l_attention.views import AttentionView

stops = [0, 40, 80, 120, 200, 300]
frames, marks = [], []
for stop in stops:
    speller = train(lambda: Speller(2), words, steps=stop)  # same seed, same path
    speller(describe(deliver))
    frames.append(speller.attention.attention_weights[0])
    marks.append(accuracy(speller, words))

view = AttentionView(
    torch.stack(frames),  # (frames, heads, queries, keys)
    queries=list("deliver"),
    keys=list("deliver"),
    frames=[f"{stop} steps" for stop in stops],
    compare=torch.stack([known[name] for name in learned]),
    compare_label="the rule",
    title="Two heads learn two looks",
)
view.frame, view.head = stops.index(80), -1  # all heads
view

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of two heads side by side, seven letters by seven, with a slider for
# the training step. It opens at 80 steps, where the two heads look the same: in each, the cells
# of both rules are filled. At 300 steps each head's dark cells lie in the outlines of its rule.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Repeat the three questions. Play the frames once without a word. At 80 steps ask what one head
# would show: the same picture, twice.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
for stop, frame, (b, o) in zip(stops, frames, marks, strict=True):
    both_places = torch.stack([(frame * rule).sum(dim=-1).mean(dim=-1) for rule in known.values()])
    apart = (both_places[:, 0] - both_places[:, 1]).abs().mean()
    known_places = f"{both_places.sum(dim=0).mean():.0%} of the weight on the two places"
    print(f"{stop:3d} steps: {known_places}, heads apart by {apart:.2f}, right {b:.0%} and {o:.0%}")
    if stop == 80:
        assert both_places.sum(dim=0).min() > 0.7 and apart < 0.2 and max(b, o) < 0.8
    if stop == 200:
        assert apart > 0.5 and min(b, o) > 0.99

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Answer.** After 80 steps both heads blend both places: two copies of one confused head, and
# about half of the answers right. Between 120 and 200 steps they part. 'Opposite' draws the lines
# that cross.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask what pulls the two apart. A small difference pays: whichever head is a little better at
# 'before' gets more of that gradient through its exit, and becomes better still.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Always the same head?
#
# **Predict.** Train from four other starts. Is it always head 1 that learns 'before'?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
roles = []
for seed in range(1, 5):
    speller = train(lambda: Speller(2), words, steps=300, seed=seed)
    speller(describe(deliver))
    first_head = speller.attention.attention_weights[0, 0]
    roles.append(max(known, key=lambda name: (first_head * known[name]).sum().item()))
    assert accuracy(speller, words).min() > 0.99
print("head 1 learns", *roles)
assert set(roles) == set(known)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Heads have no order. Swap two, with their rows of `W_q`, `W_k`, `W_v` and their columns of `W_o`,
# and the layer computes the same. So never compare 'head 3' of two models.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A show of hands. Nearly all say no; ask why, until somebody says that nothing in the formula tells
# head 1 from head 2.

# %% slideshow={"slide_type": "skip"}
swapped = copy.deepcopy(spellers[2])
with torch.no_grad():
    for W in (swapped.attention.W_q, swapped.attention.W_k, swapped.attention.W_v):
        W.weight.copy_(W.weight.roll(16, dims=0))
    swapped.attention.W_o.weight.copy_(swapped.attention.W_o.weight.roll(16, dims=1))
torch.testing.assert_close(swapped(describe(deliver)), spellers[2](describe(deliver)))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From a picture to a proof
#
# A heat map shows where a head *looks*. Whether that explains what the model *does* is disputed
# (Jain and Wallace, 2019). So take the head away: set its exit, its columns of $W_o$, to 0.
#
# **Predict.** Without the head for 'before': how many of the letters before are still right? And
# of the letters opposite?


# %% slideshow={"slide_type": "skip"}
def without(speller, head):
    """A copy whose head says nothing any more."""
    speller = copy.deepcopy(speller)
    exits = speller.attention.W_o.weight.chunk(speller.attention.num_heads, dim=1)
    with torch.no_grad():
        exits[head].zero_()  # a chunk is a view: this writes into W_o
    return speller


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
for head, name in enumerate(learned):
    b, o = accuracy(without(spellers[2], head), words)
    print(f"without the head for {name!r}: before {b:.0%}, opposite {o:.0%}")
    lost, kept = (b, o) if name == "before" else (o, b)
    assert lost < 0.1 and kept > 0.99

# %% [markdown] slideshow={"slide_type": "fragment"}
# One falls to chance, 1 in 26 is 4%; the other does not notice. Without this head this job fails,
# and the other job does not.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Insist on numbers, two from each voter: 'worse' is no prediction. Many expect that both suffer.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Two jobs, and **eight** heads?
#
# **Predict.** Take one head away, put it back, take the next. In how many of the eight cases are 98
# answers in 100 still right?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
eight = train(lambda: Speller(8), words, steps=300)
assert accuracy(eight, words).min() > 0.99
left = [accuracy(without(eight, head), words).min().item() for head in range(8)]
print("the worse of the two, without head 1, 2, ... 8:", *(f"{x:.0%}" for x in left))
assert sum(x > 0.98 for x in left) >= 4

# %% [markdown] slideshow={"slide_type": "fragment"}
# In most of them. (Each head alone: whether several can go together is another question.) They need
# not have been a waste: more heads are more chances to find a job, as with the salt and the pepper.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# 'None' and 'six, those without a job' share the votes. Ask what eight heads may do with two jobs,
# before the second paragraph.

# %% [markdown] slideshow={"slide_type": "fragment"}
# In large models, too, many trained heads can be removed at little loss (Michel et al., 2019), and
# those that matter often have a job one can name, such as looking at a neighbour (Voita et al.,
# 2019).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Would training notice?
#
# The two broken layers from above, `view` both ways and no transpose back, in place of the right
# one. The same game, trained in the same way, 500 steps.
#
# **Predict.** Which of the two learns the game?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
trained = {}
for way in (ViewBothWays, NoTransposeBack):
    speller = train(lambda way=way: Speller(2, layer=way), words, steps=500)
    trained[way] = accuracy(speller, words)
    print(f"{way.__name__:16} before {trained[way][0]:.0%}, opposite {trained[way][1]:.0%}")

assert trained[ViewBothWays][0] > 0.99 and trained[ViewBothWays][1] < 0.3
assert trained[NoTransposeBack].min() > 0.99

# %% [markdown] slideshow={"slide_type": "fragment"}
# With `view` both ways the two ends of a word never meet: 'opposite' is lost, for ever. Without the
# transpose back the network **learns around the bug**, and makes no mistake.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# If time is short, this is the slide to keep: a wrong program that scores 100%. Let them vote
# first; most choose neither.
#
# 18%: the middle letter is its own opposite, one in seven; the rest is luck. Around the bug: joined
# without a transpose, place 0 reads answers 0 and 1 of the fourteen in memory, place 1 the next
# two. So each place looks on behalf of its reader; it works because all words have seven letters.

# %% [markdown] slideshow={"slide_type": "skip"}
# 18% are right all the same: the middle letter is opposite to itself, one in seven, and the rest is
# luck. The cut goes through the middle letter, so both halves see some of it, and 'before'
# survives.

# %% [markdown] slideshow={"slide_type": "skip"}
# How does the other one learn? In memory stand seven answers of head 1, then seven of head 2.
# Joined without a transpose, place 0 gets the first two of the fourteen, place 1 the next two. So
# what place 3 asks with head 1 is read by place 1. All words have seven letters here, so this never
# changes, and place 3 learns to look *on behalf of place 1*.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
speller(words(1000)[0])
asked = speller.attention.attention_weights.mean(dim=0).reshape(14, 7)  # in the order of memory
reader = torch.arange(14) // 2  # the place that gets this answer
on_behalf = asked[range(14), before[reader]] + asked[range(14), opposite[reader]]
print(f"weight on the two places that the reader needs: at least {on_behalf.min():.0%}")
assert on_behalf.min() > 0.9

# %% [markdown] slideshow={"slide_type": "subslide"}
# A repository for teaching forgot the transpose on the way back
# (jsbaan/transformer-from-scratch #6), and its training test on a copy task passed. So a good
# accuracy proves nothing about the code. The loop over heads does: a few slow lines, and right.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
torch.manual_seed(0)
X = torch.randn(2, 5, 12)
for name, way in ways.items():
    layer = way(num_hiddens=12, num_heads=3, dropout=0.0)
    output = layer(X, X, X)
    same = torch.allclose(output, loop_over_heads(layer, X, X, X), atol=1e-6)
    print(f"{name:18} equals the loop: {same}")
    assert same == (name == "correct")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask what else would have caught it: a causal mask and chapter 4's second proof, or words of
# another length.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - One head returns one average. 'Salt and pepper' lies outside of every average of 'salt' and
#   'pepper': one head reaches 75%, two heads 100%, with as many parameters.
# - $h_i = f(W^{(q)}_i q, W^{(k)}_i k, W^{(v)}_i v)$, end to end, times $W_o$. Heads are thin:
#   as many parameters as one, but $H$ times the attention weights, from scores of rank at most
#   $D/H$.
# - Cut the last axis, *then* move the heads forward. `view` alone shares out tokens.
# - Self or cross: who supplies queries, who keys and values. Order is unknown to both.
# - Heads may divide the work. Heat maps suggest it, removal tests it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("6.1")` gives one more hint each time, `solution("6.1")` the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.1** Two heads by hand · *easy, 5 minutes* · by hand
#
# Two heads of size 1 ask three tokens. After the projections the query is $(1, 2)$. The first head
# owns the first number of each, the second head the second.
#
# | token | key | value |
# |---|---|---|
# | 1 | $(\ln 2, 0)$ | $(8, 0)$ |
# | 2 | $(0, \ln 2)$ | $(4, 9)$ |
# | 3 | $(0, 0)$ | $(0, 6)$ |
#
# Without a computer: what comes out for this query, the heads end to end, before $W_o$? Give a list
# of two numbers.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("6.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.2** A head without a question · *easy, 8 minutes* · predict, then measure
#
# `layer = MultiHeadAttention(12, 3, 0.0)` reads five random tokens of 12 numbers: `layer(X, X, X)`.
# Then the second head's four rows of `layer.W_q.weight` are set to 0. How many of one token's 12
# numbers change *before* $W_o$ (set it to the identity to see them), and how many *after* it? And
# what weight does each token now give to itself in this head? Predict, measure, and give three
# numbers, such as `(1, 1, 0.5)`.

# %% slideshow={"slide_type": "skip"}
answer = None

check("6.2", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.3** Cut into heads · *easy, 6 minutes* · complete a function
#
# From (B, n, D) to (B, H, n, D / H). The first head gets the first D / H columns of every token,
# the second the next, and so on. `num_heads` divides D. To see where numbers go, mark them:
# `10 * token + column`.


# %% slideshow={"slide_type": "skip"}
def split_heads(X, num_heads):
    """Cut the last axis into heads: (B, n, D) -> (B, H, n, D / H).

    One sentence of two tokens, [[[1, 2, 3, 4], [5, 6, 7, 8]]], and two heads give
    [[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]].
    """
    ...


check("6.3", split_heads)

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.4** Write multi-head attention · *medium, 15 minutes* · complete a function
#
# Queries (B, Q, any size), keys and values (B, K, any size), `W_q`, `W_k`, `W_v` (size, D), `W_o`
# (D, D), lengths (B,) from 0 to K, output (B, Q, D). Here the matrices are plain: `queries @ W_q`.
# The first head owns the first D / H columns. `masked_softmax(scores, valid_lens)` takes scores
# (B, H, Q, K), too.

# %% slideshow={"slide_type": "skip"}
from d2l_attention import masked_softmax


def multi_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    """Multi-head attention: (B, Q, any size), keys and values (B, K, any size) -> (B, Q, D).

    W_q, W_k, W_v (size, D) and W_o (D, D) are plain matrices, as in `queries @ W_q`;
    valid_lens (B,) counts the real keys of each sentence, from 0 to K.

    If all scores are 0, all four matrices are the identity and both keys are real, then the
    values [[2, 4], [6, 8]] give [4, 6] for each query, with one head as with two.
    """
    ...


check("6.4", multi_head)

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.5** It ran with two sentences and two heads · *medium, 15 minutes* · find the bug
#
# `attend_in_heads` gets queries (B, Q, D), keys and values (B, K, D), all projected already, and a
# boolean mask (B, Q, K), True = may attend, in which each query sees at least one key. The output
# is (B, Q, D), heads end to end. Its author ran it with two sentences and two heads, and no error
# came. It has three bugs. Mend it.


# %% slideshow={"slide_type": "skip"}
def attend_in_heads(queries, keys, values, mask, num_heads):
    q, k, v = (X.unflatten(-1, (num_heads, -1)).transpose(1, 2) for X in (queries, keys, values))
    scores = q @ k.mT / queries.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return (weights @ v).reshape(queries.shape)


check("6.5", attend_in_heads)

# %% [markdown] slideshow={"slide_type": "skip"}
# **6.6** The test that catches broken heads · *hard, 20 minutes* · write the test
#
# Your test takes a function that is called as in 6.4, `multi_head(queries, keys, values, W_q, W_k,
# W_v, W_o, num_heads, valid_lens)`. It returns without a word where the function is right, and
# raises an `AssertionError` for each of six broken ones:
#
# - heads cut by `view` alone;
# - heads merged by `reshape` alone;
# - heads summed instead of put end to end;
# - the first head's columns of `W_q`, `W_k` and `W_v` used for all heads;
# - scores divided by the root of D instead of D / H;
# - the mask of sentence h laid on head h where B = H (elsewhere this one is right).


# %% slideshow={"slide_type": "skip"}
def test_multi_head(multi_head):
    """Pass on right multi-head attention, and fail by an `AssertionError` on broken ones.

    `multi_head` is called as in 6.4. A test that looks at the shape alone would be
    `assert multi_head(*inputs).shape == (B, Q, D)`.
    """
    ...


check("6.6", test_multi_head)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.5: the
#   formula, and heads computed in one product. [d2l.ai](https://d2l.ai)
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Section 3.2.2:
#   heads, their sizes, and the sentence on averaging.
# - S. Bhojanapalli et al., *Low-Rank Bottleneck in Multi-head Attention Models*, ICML 2020,
#   arXiv:2002.07028.
# - P. Michel, O. Levy, G. Neubig, *Are Sixteen Heads Really Better than One?*, NeurIPS 2019,
#   arXiv:1905.10650. Heads removed one at a time.
# - E. Voita et al., *Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting,
#   the Rest Can Be Pruned*, ACL 2019, arXiv:1905.09418.
# - S. Jain, B. C. Wallace, *Attention is not Explanation*, NAACL 2019, arXiv:1902.10186.

# %% [markdown] slideshow={"slide_type": "skip"}
# On GitHub:
#
# - jsbaan/transformer-from-scratch #6: the transpose forgotten on the way back, in a repository
#   for teaching; its training test on a copy task had passed.
# - bentrevett/pytorch-seq2seq #148 and harvardnlp/annotated-transformer #118: readers ask why one
#   does not `view` to the last shape at once.
