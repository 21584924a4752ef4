# %% [markdown] slideshow={"slide_type": "slide"}
# # 11 · Attention in today's models
#
# **You will**
# - build latent attention and the delta rule (*Going further* compares the layers with the
#   package's);
# - let a cheap scorer choose the few keys that a query reads, and count what it finds;
# - say where a head looks that has nothing to look for, and what a window does to it;
# - read from a table what twelve models of 2023 to 2026 are made of, and how large their caches
#   are.
#
# Core path: 65 to 100 minutes, in two sittings. Going further: 65. Exercises: 87. A good place to
# stop is *A place to stop*, half-way.
#
# Builds on chapters 3, 7 and 9. *Dive into Deep Learning* (D2L) ends before these models: the
# attention that they change is the one of its section 11.5.

# %% [markdown] slideshow={"slide_type": "notes"}
# 40 minutes, for two lectures of 45: 21 for the first, up to *A place to stop*, and 19 for the
# second. For one lecture take the latent, the sink and the indexer. Most sections have these
# steps: the problem, the idea, the code, the case in which it is what the room knows, what it
# costs.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy
import math
import time
from dataclasses import replace

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import (
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
)

from d2l_attention import (
    KeyValueCache,
    MultiHeadAttention,
    PositionalEncoding,
    RotaryEncoding,
    TransformerEncoderBlock,
    causal_mask,
    dot_product_attention,
)
from d2l_attention.real_models import who_uses_what
from d2l_attention.scale.cache_size import PUBLISHED, RECENT, cache_bytes
from d2l_attention.variants import (
    ChosenBlocksAttention,
    GatedDeltaNet,
    GroupedQueryAttention,
    IndexedAttention,
    MultiHeadLatentAttention,
    SinkAttention,
    SlidingWindowAttention,
    causal_rule,
    chosen_blocks_mask,
    delta_rule,
    interpolated_speeds,
    ntk_speeds,
    rotary_speeds,
    why_not_compiled,
    window_rule,
    yarn_speeds,
)
from d2l_attention.variants.masks import sliding_window_mask
from d2l_attention.views import explore, schematic
from d2l_attention.views.palette import FAINT, GREY, INK, ON_STRONG, ON_WEAK, PALE, colormap
from d2l_attention.views.plots import hatch_zeros, heatmap, set_style
from d2l_attention.views.schematics.drawing import LEARNED, TENSOR, Diagram

torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)
set_style()

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the whole machine, with this chapter's parts marked
schematic("whole", here="today's parts")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the whole machine in two rows. Above, from left to right: a sentence goes in; its words
# become vectors, to which positions are added, which is marked; the encoder's blocks read them; the
# decoder asks the encoder; the decoder's blocks write; a sentence comes out. Below is the inside of
# a block, from left to right: queries, keys and values, marked; their similarity; scores; mask and
# softmax, marked; the weighted sum of the values. These are attention, in several heads. Then add &
# norm and a network follow.*

# %% [markdown] slideshow={"slide_type": "-"}
# Since 2023 the marked boxes have been built anew in many models: the table at the end of
# the core has twelve. This chapter builds most of what is new in them.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. The rest has changed, too: experts in place of one network, other norms. That is
# not today's subject.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - **Two bills** (chapter 9). $n$ tokens have $n^2$ links, and a model that writes keeps a key and
#   a value of every token, in each layer and each head of keys. This is its **cache**.
# - **A window** of the latest $w$ tokens bounds both bills for each token, but news travels fewer
#   than $w$ tokens a layer.
# - **Linear attention** (chapter 9) keeps a state $S$: in its simplest form the sum of all
#   $k^\top v$. A query gets $q S$ (vectors are rows).
# - **Rotary positions** (chapter 7) turn each pair of numbers of a query or key by the position
#   times a speed. Positions then enter a score only through their distance.
#
# By hand: a model has 32 layers, each with 32 heads of keys of 128 numbers. For each token it keeps
# $2 \cdot 32 \cdot 32 \cdot 128 = 262{,}144$ numbers, keys and values. Llama 3.1 8B has 8 heads of
# keys for its 32 heads of queries, and keeps a quarter of that: 65,536 numbers, 128 KiB.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Do the 65,536 on the board, it comes back: keys and values, layers, heads of keys,
# numbers. Then ask which of the four factors one could still make smaller.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Heads that share keys
#
# **The problem.** The cache. **The idea.** Several heads of queries share one head of keys and
# values. With $G$ heads of keys this is **grouped-query attention** (Ainslie et al., 2023), and
# many models have it. In the code the heads that share get an axis of their own:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_grouped(q, k, v):  # (B, H, n, d), (B, G, n, d), (B, G, n, d) -> (B, H, n, d); causal
    q = q.unflatten(1, (k.shape[1], -1))  # (B, G, H / G, n, d)
    scores = q @ k[:, :, None].mT / math.sqrt(q.shape[-1])  # each group asks its own keys
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
    return (weights @ v[:, :, None]).flatten(1, 2)


# %% [markdown] slideshow={"slide_type": "-"}
# With $G = H$ this is multi-head attention. **What it costs:** heads of one group see the same
# keys.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks it against the package's layer
torch.manual_seed(0)
layer, X = GroupedQueryAttention(24, 6, 2, 0.0), torch.randn(2, 5, 24)
expected = layer(X, X, X, is_causal=True)
q, k, v = (W(X).unflatten(-1, (-1, 4)).transpose(1, 2) for W in (layer.W_q, layer.W_k, layer.W_v))
torch.testing.assert_close(layer.W_o(plain_grouped(q, k, v).transpose(1, 2).flatten(2)), expected)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Who was at chapter 9 knows it. Which line makes them share? The axis of 1 in the keys.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One latent a token
#
# **The problem.** Groups keep fewer keys, but then their heads see the same ones.
#
# **The idea.** Keep a short vector of each token, its **latent** $c$, and compute the keys and
# values of all heads from it (vectors are columns in these formulas):
#
# $$c = W_{\text{down}}\, x, \qquad k_h = W_{uk,h}\, c, \qquad v_h = W_{uv,h}\, c .$$
#
# DeepSeek-V2 (2024) introduced it as multi-head latent attention, **MLA**. Each head has keys of
# its own again. Positions do not go through the latent: one small key, **turned** by its position,
# is kept beside $c$ for all heads. *Never make the keys* says why.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Which of the four factors of the cache does a latent replace? All but the layers.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws who feeds what in latent attention
title = "Latent and turned key are kept; keys and values are made from the latent"
picture = Diagram(title, 10, 4.0)
token = picture.box("token x\n(B, n, D)", 0.75, 2.0, 1.1, 3.1, kind=TENSOR)
to_q = picture.box("W_q", 2.45, 3.15, 1.0, kind=LEARNED)
down = picture.box("W_down", 2.45, 2.0, 1.0, kind=LEARNED)
to_kr = picture.box("W_kr, turn", 2.45, 0.8, 1.3, kind=LEARNED)
latent = picture.box("latent c\n(B, n, L)", 4.55, 2.0, 1.4, kind=TENSOR)
turned = picture.box("turned key\n(B, n, R)", 4.55, 0.8, 1.4, kind=TENSOR)
up = picture.box("W_uk, W_uv", 6.45, 2.0, 1.4, kind=LEARNED)
attend = picture.box("attend\nin each\nhead", 9.15, 2.0, 1.2, 3.1)
for start, end in ((token, down), (down, latent), (to_kr, turned), (latent, up)):
    picture.arrow(start, end)
picture.arrow(token, to_q)
picture.arrow(token, to_kr)
picture.arrow(up, attend, "keys, values")
picture.arrow(to_q, attend, "queries")
picture.arrow(turned, attend)
picture.add_legend()
picture.figure

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows from left to right. A token x goes through W_q to the queries, through
# W_down to the latent c, (B, n, L), and through W_kr and a turn by its position to the turned key,
# (B, n, R). The latent goes through W_uk and W_uv, which make keys and values of every head. Each
# head attends with queries, keys, values and the turned key. Latent and turned key are what is
# kept.*


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Follow one token through the picture. Which two boxes are kept? The latent, and the
# turned key.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def rotate(X):  # (..., n, R) -> the same; chapter 7
    n, R = X.shape[-2:]
    speeds = 10000 ** (-torch.arange(0, R, 2) / R)  # (R / 2,)
    angles = torch.arange(n)[:, None] * speeds  # (n, R / 2)
    x, y = X[..., 0::2], X[..., 1::2]  # the pairs
    turned = x * angles.cos() - y * angles.sin(), x * angles.sin() + y * angles.cos()
    return torch.stack(turned, dim=-1).flatten(-2)


# %% slideshow={"slide_type": "subslide"} tags=["build"]
class PlainLatentAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, head_size, latent_size, rotary_size):
        super().__init__()
        self.num_heads, self.sizes = num_heads, [head_size, rotary_size]
        self.W_q = nn.LazyLinear(num_heads * sum(self.sizes), bias=False)
        self.W_down = nn.LazyLinear(latent_size, bias=False)
        self.W_kr = nn.LazyLinear(rotary_size, bias=False)
        self.W_uk = nn.Linear(latent_size, num_heads * head_size, bias=False)
        self.W_uv = nn.Linear(latent_size, num_heads * head_size, bias=False)
        self.W_o = nn.Linear(num_heads * head_size, num_hiddens, bias=False)

    def by_head(self, X):  # (B, n, H * d) -> (B, H, n, d)
        return X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def weights(self, scores):  # (B, H, n, n): causal
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return (scores / sum(self.sizes) ** 0.5).masked_fill(future, -math.inf).softmax(dim=-1)

    def forward(self, X):  # (B, n, any size) -> (B, n, D)
        q, q_turned = self.by_head(self.W_q(X)).split(self.sizes, dim=-1)
        c = self.W_down(X)  # (B, n, L): kept
        k_turned = rotate(self.W_kr(X))[:, None]  # (B, 1, n, R): kept, the same for all heads
        k, v = self.by_head(self.W_uk(c)), self.by_head(self.W_uv(c))  # (B, H, n, head_size)
        scores = q @ k.mT + rotate(q_turned) @ k_turned.mT  # (B, H, n, n)
        return self.W_o((self.weights(scores) @ v).transpose(1, 2).flatten(2))


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. What is made again for each new word? All keys and values; the next slide spares
# that.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Never make the keys
#
# As written, each new word makes the keys of all heads again, from all latents. A new word in a
# text of 1,000 tokens would make 1,000 keys a head, only to compare each of them with one query.
# But a score is a product of three, and the brackets may move:
#
# $$q_h \cdot (W_{uk,h}\, c) = (W_{uk,h}^\top q_h) \cdot c .$$
#
# On the left a matrix meets every latent, on the right it meets the query, once. The new query is
# then compared with every $c$ directly. The values work the same way: average the latents first,
# and apply $W_{uv,h}$ to the average. The projection is **absorbed**. Each head still has a matrix
# of its own, now on the side of the query, and all heads share one key, the latent.


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. On the board: the three-fold product with two ways to put the brackets.


# %% [markdown] slideshow={"slide_type": "skip"}
# Why are positions kept outside? If queries and keys were turned by their positions, a turn by the
# distance would stand between the two: $q_h^\top R_{j - i} W_{uk,h}\, c_j$ for a query at $i$ and a
# key at $j$. The brackets could still move, but the distance, and so the turn, differs from key to
# key. The query would have to be multiplied anew for every key, and the work would be back. So a
# few more numbers carry the position: a turned part of each head's query, and one turned key for
# all heads, kept beside $c$. (*Latent attention, absorbed*, in *Going further*, runs both forms and
# compares them.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two caches
#
# **What it saves.** DeepSeek-V3 has 671 billion parameters, and 128 heads of 128 numbers in 61
# layers. Its latent has 512 numbers, the turned key 64. The package has a list of published shapes:

# %% slideshow={"slide_type": "fragment"}
shapes = {model.name: model for model in (*PUBLISHED, *RECENT)}
for name in ("Llama 3.1 8B", "DeepSeek-V3"):
    model = shapes[name]
    numbers = model.latent_size or 2 * model.num_kv_heads * model.head_size
    print(f"{name:12} {model.num_layers} layers of {numbers:5,} numbers,", end=" ")
    print(f"{model.bytes(1) / 2**10:.0f} KiB a token")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Multi-head attention with DeepSeek-V3's heads would keep 32,768 numbers a layer. DeepSeek-V3's
# whole cache is about half of that of Llama 3.1 8B, a model with an 84th of the parameters. (V3
# uses 37 of its 671 billion for a token.) **What it costs:** in the absorbed form a score
# multiplies $512 + 64$ numbers, where it was $128 + 64$, and a value has 512 instead of 128.

# %% [markdown] slideshow={"slide_type": "skip"}
# A model that writes for one reader waits for its memory and not for its products (chapter 10). So
# it gains from a smaller cache, although each score takes more products. (In this list,
# `latent_size` counts latent and turned key together.)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the figures that the text names
v3, llama = shapes["DeepSeek-V3"], shapes["Llama 3.1 8B"]
assert (v3.latent_size, 2 * v3.num_heads * v3.head_size) == (576, 32768)
assert 0.5 < v3.bytes(1) / llama.bytes(1) < 0.55

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Before the table ask whose cache is larger: nearly all say DeepSeek's; it has 69 KiB
# against 128. For experts: with 128 heads on one latent, arithmetic may become the limit again.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A softmax must spend its one
#
# **The problem.** The weights of a query sum to one, whether anything is worth looking at or not.
#
# **Predict.** A head looks for something that is not there. Its four scores are all $-10$. What are
# its weights?

# %% slideshow={"slide_type": "fragment"}
scores = torch.full((4,), -10.0)
print("weights:       ", scores.softmax(dim=0))
sink = torch.zeros(1)  # one score more, 0; it has no value
with_sink = torch.cat([scores, sink]).softmax(dim=0)[:-1]
print("with a sink:   ", with_sink, f"sum {with_sink.sum():.4f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only differences count, so 'nothing fits' looks like 'all fit equally well'. Trained models often
# put the weight on a token that tells nothing, mostly the first one, which every query can see.
# Xiao et al. (2023) called it an **attention sink**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Collect votes: 'all 0' and 'a quarter each'. Only differences count.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A head that is idle most of the time
#
# A small game makes a sink that one can watch, after Guo et al. (2024). Letters follow each other
# by chance: the next one depends on the present one only. From time to time a bell `*` rings, and
# after it the letter before the bell comes again. `<bos>` marks the beginning:
#
# `<bos> f c d * d a d k e * e b ...`
#
# Only at a bell is there something to look up; at letters attention has nothing to do. The model
# is an embedding, a small network, one head with rotary positions, and a readout. It is trained
# for 350 steps on texts of 64 tokens, from four starts.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room continue the text aloud: after k and a bell comes k.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same model with a window
#
# Now it reads with a window of 16 tokens, as with a cache that drops the oldest.
#
# **Predict.** Will predictions at letters suffer from the window?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input", "nbval-ignore-output"]
# Trains the model with the bell from four starts, with a plain softmax and with a sink; measures
NUM_LETTERS, LENGTH = 16, 64
BELL, BOS = NUM_LETTERS, NUM_LETTERS + 1
chances = (2 * torch.randn(16, 16, generator=torch.Generator().manual_seed(1))).softmax(dim=-1)


def bell_game(n):
    """Texts (n, 65): <bos>, letters by chance, and after a bell the letter before it."""
    text = torch.full((n, LENGTH + 1), BOS)
    letter = text[:, 1] = torch.randint(NUM_LETTERS, (n,))
    for t in range(2, LENGTH + 1):
        after_bell = text[:, t - 1] == BELL
        rings = (torch.rand(n) < 0.15) & ~after_bell
        by_chance = torch.multinomial(chances[letter], 1)[:, 0]
        following = torch.where(after_bell, letter, by_chance)
        text[:, t] = torch.where(rings, BELL, following)
        letter = torch.where(rings, letter, following)
    return text


class Writer(nn.Module):
    """Tokens (B, n) -> scores of the next one (B, n, 17): one network, one head, a readout."""

    def __init__(self, **attention):
        super().__init__()
        self.embedding = nn.Embedding(NUM_LETTERS + 2, 32)
        self.network = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
        self.head = MultiHeadAttention(32, 1, 0.0, positions=RotaryEncoding(32), **attention)
        self.readout = nn.Linear(32, NUM_LETTERS + 1)

    def forward(self, tokens, mask=None, need_weights=False):
        X = self.embedding(tokens)
        X = X + self.network(X)
        Y = F.rms_norm(X, X.shape[-1:])
        found, weights = self.head(Y, Y, Y, mask=mask, is_causal=True, need_weights=True)
        scores = self.readout(X + found)
        return (scores, weights) if need_weights else scores


def loss_of(model, texts, mask=None):
    scores = model(texts[:, :-1], mask)
    return F.cross_entropy(scores.flatten(0, 1), texts[:, 1:].flatten(), reduction="none")


def train_writer(seed, **attention):
    torch.manual_seed(seed)
    model, texts = Writer(**attention), bell_game(1000)
    model(texts[:1, :-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(350):
        loss = loss_of(model, texts[torch.randint(1000, (32,))]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


position = torch.arange(LENGTH)
in_window = position[:, None] - position < 16
VISIBLE = {
    "all 64 tokens": None,
    "the latest 16": in_window,
    "the latest 16 and <bos>": in_window | (position == 0),
}
torch.manual_seed(99)
bell_texts = bell_game(300)
late = torch.zeros(LENGTH, dtype=torch.bool)
late[20:] = True  # where the window has dropped <bos>
at_bell = (bell_texts[:, :-1] == BELL) & late
at_letter = (bell_texts[:, :-1] != BELL) & late
losses, writers, first = {}, {}, {}
for name in ("softmax", "with a sink"):
    for seed in range(4):
        attention = {"attention": SinkAttention(1, 0.0)} if name == "with a sink" else {}
        model = writers[name, seed] = train_writer(seed, **attention)
        for what, mask in VISIBLE.items():
            with torch.no_grad():
                loss = loss_of(model, bell_texts, mask).view(-1, LENGTH)
            losses[name, seed, what] = loss[at_letter].mean().item(), loss[at_bell].mean().item()
        with torch.no_grad():
            weights = model(bell_texts[:, :-1], need_weights=True)[1][:, 0]
        first[name, seed] = weights[at_letter][:, 0].mean().item()  # all 64 tokens visible
print("Loss at letters (at bells), positions from 20 on, and the weight of <bos> at letters")
heads = [f"{what:>20}" for what in ("all 64", "latest 16", "latest 16, <bos>")]
print(f"{'visible:':20}", *heads, " weight of <bos>")
for name, seed in writers:
    shown = [losses[name, seed, what] for what in VISIBLE]
    shown = [f"{letters:13.2f} ({bells:.2f})" for letters, bells in shown]
    print(f"{name + f', start {seed}':20}", *shown, f"{first[name, seed]:15.0%}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Nearly all say 'no harm', with a good reason. Read the table by rows.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where the head looks


# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Draws the weights of both heads of start 0 on one text
figure, axes = plt.subplots(1, 2, figsize=(10, 4.9))
names = [*"abcdefghijklmnop", "*", "bos"]
labels = [names[token] for token in bell_texts[1, :12].tolist()]
for ax, name in zip(axes, ("softmax", "with a sink"), strict=True):
    with torch.no_grad():
        weights = writers[name, 0](bell_texts[1:2, :12], need_weights=True)[1][0, 0]
    heatmap(ax, weights, labels, labels, vmax=1)
    ax.set(title=name, xlabel="key", ylabel="query")
figure.suptitle("Start 0: at letters the head looks at <bos>, with a sink at nothing", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps of the weights of the heads of start 0 on 12 tokens. With a plain softmax
# the first column, of the mark of the beginning, is strong in the rows of all letters; in that of
# a bell the strong cell is the letter before it. With a sink the rows of letters are almost empty,
# and those of bells are as before.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Checks what the text says of the eight models
lost = {"softmax": [], "with a sink": []}  # by the window, at letters
for name, seed in writers:
    whole, window, with_bos = (losses[name, seed, what] for what in VISIBLE)
    lost[name].append(window[0] - whole[0])
    assert abs(with_bos[0] - whole[0]) < 0.05
    assert max(loss[1] for loss in (whole, window, with_bos)) < 0.1
assert min(lost["softmax"]) > 0.02
assert sum(lost["with a sink"]) < 0.5 * sum(lost["softmax"])
for seed in range(4):
    model = writers["softmax", seed]
    with torch.no_grad():
        X = model.embedding(torch.arange(NUM_LETTERS + 2))  # letters, bell, <bos>
        X = X + model.network(X)
        adds = model.head.W_o(model.head.W_v(F.rms_norm(X, X.shape[-1:]))).norm(dim=-1)
    assert 0.03 < adds[BOS] / adds[:NUM_LETTERS].mean() < 0.2

# %% [markdown] slideshow={"slide_type": "fragment"}
# In all four starts of the plain softmax the window hurts, by 0.1 to 1.9, although no letter needs
# an old token. At letters the head looks mostly at `<bos>` (last column), and the window has
# dropped it. Where `<bos>` is kept beside the latest 16, the loss is as before.

# %% [markdown] slideshow={"slide_type": "skip"}
# What `<bos>` adds is small, about a tenth as long as what a letter adds, so the head is nearly
# silent. When `<bos>` leaves, the weight goes to other tokens, and their larger values seem to
# disturb.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Find the row of a bell in both pictures, then the row of a letter.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A sink of its own
#
# **The idea.** Give each head one score $s$ more, learned, which has a value of 0:
#
# $$\alpha_j = \frac{e^{a_j}}{e^{s} + \sum_m e^{a_m}} .$$
#
# Now the weights may sum to less than one. OpenAI's gpt-oss (2025) does this:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_sink_attention(q, k, v, s):  # (B, H, n, d) three times, (H,) -> (B, H, n, d); causal
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, H, n, n)
    scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    sinks = s[:, None, None].expand(*scores.shape[:-1], 1)  # (B, H, n, 1): one score more
    return torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1] @ v  # without a value


# %% [markdown] slideshow={"slide_type": "-"}
# In the game the window then costs nothing in three of four starts. In start 1 the head looks at
# `<bos>` all the same, and the window costs 0.07. Nothing forces a head to use its sink. With $s =
# -\infty$ it is the plain softmax.
#
# A **gate** is another way to be silent. It multiplies a head's output, entry by entry, by
# $\sigma(W_g x)$ of the asking token $x$. Qwen3-Next uses gates (Qiu et al., 2025).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the package's sink against the page, and that it is plain attention where it is -inf
torch.manual_seed(0)
q, k, v = torch.randn(3, 2, 3, 5, 7)
layer = SinkAttention(3, 0.0)
with torch.no_grad():
    layer.sinks.copy_(torch.tensor([0.5, -1.0, 2.0]))
sinks = layer.sinks[:, None, None].expand(2, 3, 5, 1)
by_hand = torch.cat([q @ k.mT / 7**0.5, sinks], dim=-1).softmax(dim=-1)[..., :-1] @ v
torch.testing.assert_close(layer(q, k, v), by_hand)
page = plain_sink_attention(q, k, v, layer.sinks)
torch.testing.assert_close(layer(q, k, v, is_causal=True), page)
L = (q @ k.mT / 7**0.5).logsumexp(dim=-1, keepdim=True)
factor = (L - layer.sinks[:, None, None]).sigmoid()
torch.testing.assert_close(factor * dot_product_attention(q, k, v), by_hand)
with torch.no_grad():
    layer.sinks.fill_(-math.inf)
torch.testing.assert_close(layer(q, k, v), dot_product_attention(q, k, v))

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Which line makes the weights sum to less than one? The last: the sink's weight is cut
# off after the softmax. Ask why start 1 with a sink still loses: see its last column.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Many windows, few global layers
#
# **The problem.** A window bounds the cache, but news travels fewer than $w$ tokens a layer.
#
# **The idea.** Mix the layers. Most have a short window, and a few are **global**: they see
# everything. Gemma 3 27B has 62 layers, 10 of them global (2025); the others have windows of 1,024.
#
# **Predict.** A text of 256 tokens and six layers, five of them with a window of 16. The global
# layer may be the first, the middle or the last. For which of the three can the last token hear
# from the first?


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts how far back the last token hears through mixed layers
def hears_back(layers, n=256):
    """How many tokens back the last token hears, through layers with these windows."""
    heard = torch.eye(n)  # (n, n): before the first layer each token knows itself
    distance = torch.arange(n)[:, None] - torch.arange(n)
    for window in layers:
        visible = (distance >= 0) & (distance < window)
        heard = (visible.float() @ heard > 0).float()
    return n - 1 - int(heard[-1].nonzero().min())


print("six windows of 16:", hears_back([16] * 6), "tokens back")
for position in (0, 3, 5):
    layers = [256 if i == position else 16 for i in range(6)]  # one is global
    print(f"layer {position} global:   ", hears_back(layers), "tokens back")

# %% [markdown] slideshow={"slide_type": "fragment"}
# For all three: one global layer is enough for a path.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. 'The last one' is the typical answer: 'there everything comes together'. Let someone
# draw the path for the first: it brings token 0 to the last token, which then keeps it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The cache of a mixed model

# %% slideshow={"slide_type": "-"}
gemma, whole = shapes["Gemma 3 27B"], cache_bytes(62, 16, 128, 131072)  # if all 62 were global
print(f"Gemma 3 27B, 131,072 tokens: {gemma.bytes(131072) / 2**30:.1f} GiB", end=", ")
print(f"all layers global: {whole / 2**30:.0f} GiB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **What it costs:** only the few global layers can look far back, and the cache still grows with
# $n$. Windows longer than the text make it plain attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask for both numbers at 1,024 tokens: equal, the windows are not yet full.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# So far each query looked at all keys, or at those of a fixed window. The second half keeps a state
# instead, or chooses by content.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Erase before you write
#
# **The problem.** Linear attention only ever adds to its state. If a key comes *again* with a new
# value, both values stay in.
#
# **The idea.** Ask the state first. What it answers to the new key, $k S$, is taken out, and the
# new value is put in:
#
# $$S \leftarrow S + \beta\, k^\top (v - k S) .$$
#
# This is the **delta rule** (Widrow and Hoff, 1960; for linear attention Schlag et al., 2021). If
# $k$ has length 1 and $\beta = 1$, the state answers exactly $v$ to $k$ afterwards. **Gated
# DeltaNet** (Yang et al., 2025) also lets the state fade by a factor, its decay, before each step.
# In a layer the token decides about $\beta$ and decay (*Going further* has a whole one).


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. What does a plain sum say, if the same key comes twice? Both values, added.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The delta rule, token by token


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_delta_rule(queries, keys, values, beta, decay):
    """queries, keys (n, D), values (n, V), beta and decay (n,) -> output (n, V), state (D, V)."""
    state, outputs = torch.zeros(keys.shape[1], values.shape[1]), []
    for t in range(len(keys)):
        state = decay[t] * state  # fade
        known = keys[t] @ state  # (V,): what the state says of this key
        state = state + beta[t] * torch.outer(keys[t], values[t] - known)  # erase it, write v
        outputs.append(queries[t] @ state)
    return torch.stack(outputs), state


# %% [markdown] slideshow={"slide_type": "fragment"}
# By hand: the keys are $(1, 0)$ both times, the values 5 and then 7, $\beta = 1$, no fading. A
# plain sum would end with 12.

# %% slideshow={"slide_type": "fragment"}
same_key = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
answers, _ = plain_delta_rule(
    same_key, same_key, torch.tensor([[5.0], [7.0]]), torch.ones(2), torch.ones(2)
)
print("answers:", answers[:, 0].tolist())

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Do both steps on the board: the state says 0, then 5. What would a plain sum say
# the second time?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The look-up game again
#
# Chapter 9's game: $n$ pairs of random keys (16 numbers, length 1) and values. Each key is asked
# for, and the nearest value is the answer.
#
# **Predict.** Does the delta rule with $\beta = 1$ find more of 8 pairs than plain sums, fewer, or
# the same?

# %% [markdown] slideshow={"slide_type": "skip"}
# (Softmax attention is shown beside them. Its queries are 400 times as long, which makes its
# weights sharp, as in chapter 9.)


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the right answers with plain sums and with the delta rule


def found(answers, values):  # (B, n, V), (B, n, V) -> share of answers nearest to their own value
    nearest = torch.cdist(answers, values).argmin(dim=-1)
    return (nearest == torch.arange(nearest.shape[-1])).float().mean().item()


print("pairs, each key once     softmax, loud query   plain sums   delta rule")
for n in (4, 8, 16):
    torch.manual_seed(0)
    keys, values = torch.randn(2, 200, n, 16)
    keys = F.normalize(keys, dim=-1)
    state = delta_rule(keys, keys, values, torch.ones(200, n))[1]
    sums = keys @ (keys.mT @ values)
    loud = dot_product_attention(400 * keys, keys, values)
    print(f"{n:5}{found(loud, values):39.0%}{found(sums, values):13.0%}", end="")
    print(f"{found(keys @ state, values):13.0%}")
    if n == 8:
        right = torch.cdist(keys @ state, values).argmin(dim=-1) == torch.arange(8)
        by_age = right.float().mean(dim=0)
print("delta rule, 8 pairs, oldest to newest:", *(f"{share:.0%}" for share in by_age))

print("8 keys, times written; the latest value counts  plain sums   delta rule")
for r in (1, 2, 8):
    torch.manual_seed(0)
    keys = F.normalize(torch.randn(200, 8, 16), dim=-1)
    values = torch.randn(200, r, 8, 16)
    all_keys, all_values = keys.repeat(1, r, 1), values.flatten(1, 2)  # (200, 8 r, 16)
    state = delta_rule(all_keys, all_keys, all_values, torch.ones(200, 8 * r))[1]
    sums = keys @ (all_keys.mT @ all_values)
    print(f"{r:5}{found(sums, values[:, -1]):52.0%}{found(keys @ state, values[:, -1]):13.0%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Fewer. Random keys overlap a little, so each erasure with $\beta = 1$ also takes away a part of
# what older keys stored. The second table shows what the rule is for: where a key gets a *new*
# value, plain sums mix all of its values.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks both findings with other draws
shares = []
for seed in (1, 2, 3):
    torch.manual_seed(seed)
    keys = F.normalize(torch.randn(200, 8, 16), dim=-1)
    values = torch.randn(200, 8, 8, 16)
    for r in (1, 8):
        all_keys, all_values = keys.repeat(1, r, 1), values[:, -r:].flatten(1, 2)
        state = delta_rule(all_keys, all_keys, all_values, torch.ones(200, 8 * r))[1]
        sums = keys @ (all_keys.mT @ all_values)
        shares.append((found(sums, values[:, -1]), found(keys @ state, values[:, -1])))
assert by_age[-1] == 1 and by_age[:3].mean() < by_age[-3:].mean()
assert all(sums > delta + 0.03 for sums, delta in shares[0::2])
assert all(sums + 0.3 < delta for sums, delta in shares[1::2])
torch.manual_seed(0)
keys, values = torch.randn(2, 2000, 8, 16)
keys = F.normalize(keys, dim=-1)
state = delta_rule(keys, keys, values, torch.ones(2000, 8))[1]
sums = keys @ (keys.mT @ values)
assert (keys @ state - values).square().mean() < 0.8 * (sums - values).square().mean()
own = torch.eye(8).expand(2000, 8, 8)  # value i is the i-th unit vector: what is left of it?
left = (keys @ delta_rule(keys, keys, own, torch.ones(2000, 8))[1]).diagonal(dim1=1, dim2=2)
assert abs(left.mean(dim=0)[0] - (15 / 16) ** 7) < 0.01 and left[:, -1].min() > 0.999

# %% [markdown] slideshow={"slide_type": "skip"}
# **What it saves.** With $D = V = 128$ a head keeps 16,384 numbers, as many as a cache of 64 of its
# own keys and values. **What it costs.** A state of fixed size cannot hold every text. So models
# mix: Kimi Linear and Qwen3-Next (2025) have about three layers of this kind for each one of
# attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. The vote splits the room, and 'more' wins. Let them explain the 'fewer': which pair
# is always right? The last one. What is the decay good for? When the subject changes, everything
# old may go.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Let a scorer choose
#
# **The problem.** Windows fix in advance who sees whom, and a state forgets. What matters may be
# anywhere.
#
# **The idea.** Score all past tokens, but cheaply. Then attend to the best $k$ of them only. The
# scorer is called an **indexer** (DeepSeek-V3.2, 2025). It has heads of queries, one small key
# a token, and no softmax when it chooses:
#
# $$I_{ts} = \sum_h w_{t,h}\, \mathrm{ReLU}\!\left(\frac{q_{t,h} \cdot k_s}{\sqrt d}\right)$$
#
# The weights $w_{t,h}$ come from the asking token $t$, too. Only the order of the $I_{ts}$ counts.


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Compare with attention: one key for all heads, a ReLU in place of the softmax, no
# values.


# %% slideshow={"slide_type": "subslide"} tags=["build"]
class PlainIndexer(nn.Module):
    def __init__(self, num_hiddens, num_heads, head_size):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.Linear(num_hiddens, num_heads * head_size, bias=False)
        self.W_k = nn.Linear(num_hiddens, head_size, bias=False)
        self.W_w = nn.Linear(num_hiddens, num_heads, bias=False)

    def forward(self, X):  # (n, D) -> scores (n, n)
        q = self.W_q(X).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)  # (H, n, d)
        k = self.W_k(X)  # (n, d): one key a token, for all heads
        products = (q @ k.T / math.sqrt(k.shape[-1])).relu()  # (H, n, n)
        return (self.W_w(X).T[..., None] * products).sum(dim=0)


def best_keys(scores, k):  # (n, n) -> bool (n, n): the best k of those that are not later
    past = torch.ones_like(scores, dtype=torch.bool).tril()
    best = scores.masked_fill(~past, -math.inf).topk(min(k, len(scores)), dim=-1).indices
    return torch.zeros_like(past).scatter(-1, best, True) & past


# %% [markdown] slideshow={"slide_type": "-"}
# What `best_keys` returns is a mask for the attention of this layer. With $k = n$ it is the causal
# mask, and this is plain attention. A model that reads in both directions chooses without `past`.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the page against the package's layer, and all keys chosen against plain attention
torch.manual_seed(0)
layer, X = IndexedAttention(12, 3, 4, index_heads=2, index_size=5), torch.randn(1, 9, 12)
_, chosen = layer(X, is_causal=True)
indexer = PlainIndexer(12, 2, 5)
indexer.load_state_dict(layer.indexer.state_dict())
assert torch.equal(best_keys(indexer(X[0]), 4), chosen[0])
layer.num_chosen = 9
torch.testing.assert_close(layer(X, is_causal=True)[0], layer.attention(X, X, X, is_causal=True))

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask what the gradient of a choice is: there is none. So what trains the indexer?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What does it learn from?
#
# The choice of the best $k$ has no gradient. So the indexer learns to **follow** the attention: its
# scores, through a softmax, should be near the mean of the heads' weights. DeepSeek first trains it
# in this way while the attention still reads all keys, and later lets it read the chosen ones only.
#
# We do it with chapter 9's trained model: 64 tokens, 32 statements anywhere in the text, 32
# questions about them. (Far is a statement that is more than 8 tokens away. The model reads in both
# directions: a statement may come later.) Its two layers have 8 heads of 8 numbers, and it answers
# all. For each layer an indexer of 2 heads of 8 numbers learns from 300 batches, in ten seconds.
# Then each query reads only what was chosen; nothing else is trained.
#
# **Predict.** With 8 of 64 keys, how many of the questions about far statements are still answered:
# a tenth, half, or nearly all?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Remind the room of chapter 9: with about as many links, windows and global tokens
# answered hardly anything far away.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What it finds
#
# | far questions answered, lowest and highest of 5 starts | 8 keys | 2 keys | 1 key |
# |---|---|---|---|
# | indexer, one for each layer | 100% | 95 to 98% | 85 to 96% |
# | indexer, the first layer's choice in both | 99 to 100% | 97 to 99% | 91 to 96% |
# | a window of 4, 1 or 0 on each side | 10 to 11% | 9 to 10% | 9 to 10% |
# | own block of 4 and the best block | 56 to 58% | | |
#
# (Stored figures of `python -m d2l_attention.experiments.indexed --starts 5 --keys 8 2 1`, which
# takes four minutes. A guess is right in one of ten.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Nearly all. A question has one right statement, and cheap scores find it in the text. With a
# single key a query, 4 to 15 answers in a hundred are lost. A window reads about as many keys
# or more, and finds only what is near. A block of 4 has one key, a mean in which one statement is
# among three other tokens.

# %% [markdown] slideshow={"slide_type": "skip"}
# **What it costs.** The indexer still scores *all* pairs, only cheaply (*Going further* counts).
# And the cache does not shrink, as any token may be chosen later. It even grows by the indexer's
# keys.
#
# This is one small task. The indexers were trained for it, and the rule of blocks has nothing to
# train. A question here needs one right key. So the run says what an indexer can find, and not how
# many keys a text needs.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Why does one link nearly suffice? Each question has one right statement.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Fewer entries than tokens
#
# **The problem.** The cache still has an entry for each token.
#
# **The idea.** Far away, let one entry stand for several tokens: a weighted mean of their vectors,
# with weights that the tokens and a learned part decide. A query sees an entry once it has read all
# tokens of the entry, so the future stays hidden. The tokens that are near are kept one by one, in
# a window.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Entries of three kinds
#
# DeepSeek-V4-Flash (2026) has one head of keys for all heads of queries, of 512 numbers, and they
# are key *and* value at once. Its 43 layers are of three kinds:
#
# | layers | kept | read |
# |---|---|---|
# | 2 | the latest 128 tokens | all of them |
# | 21 | these, and an entry for each 4 tokens | these, and 512 entries that an indexer picks |
# | 20 | these, and an entry for each 128 tokens | all of them |

# %% [markdown] slideshow={"slide_type": "skip"}
# The indexer keeps a small key of 128 numbers beside each of its entries. (Entries for 4 tokens
# overlap: each is mixed from 8 tokens, these 4 and the 4 before.) So a further token costs this:

# %% slideshow={"slide_type": "fragment"}
per_token = 21 * (512 + 128) / 4 + 20 * 512 / 128  # entries and the indexer's keys
print(f"V4-Flash: {per_token:,.0f} numbers for each further token")
for name, numbers in (("Llama 3 8B", 65_536), ("DeepSeek-V3", 35_136), ("V4-Flash", per_token)):
    print(f"{name:12} a million tokens: {numbers * 1e6 * 2 / 1e9:6.1f} GB at two bytes a number")

# %% [markdown] slideshow={"slide_type": "skip"}
# **What it costs.** What is far can be read in mixtures only. How often a text needs the single far
# token was not measured here.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them compute the 3,440 themselves. What is lost? The single far token, unless the
# indexer's entry of four still shows it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Who uses what, November 2026
#
# Twelve models, computed from configurations of the library `transformers`: some of a published
# model, some the defaults of a class, from which a published model may differ. (Chapter 13 shows
# more, and which is which.) *Linear* layers keep a state, and *chosen* ones have an indexer. *Keys*
# are the heads of keys in each layer, or the size of the latent. *QK-norm* normalises queries and
# keys before their product.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Shows what twelve models are made of, computed from the installed library
models = "Llama 3 8B, Mistral 7B, Gemma 3 27B, OLMo 3 7B, gpt-oss-120b, Qwen3-Next, Kimi Linear, "
models += "DeepSeek-V3, DeepSeek-V3.2, GLM-5, Mistral Large 4, DeepSeek-V4-Flash"
columns = "model", "kinds of layers", "groups", "more", "cache"
table = who_uses_what()
rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
rows = [tuple(row[name] for name in columns) for row in rows if row["model"] in models.split(", ")]
assert len(rows) == 12
replace(table, columns=("model", "layers", "keys", "more", "cache"), rows=tuple(rows))

# %% [markdown] slideshow={"slide_type": "skip"}
# Some of them need fewer positions. Kimi Linear turns nothing: its linear layers read in order, and
# its full layers rely on that. Mistral Large 4 turns nothing in 18 of its 72 layers, and Qwen3-Next
# turns only a quarter of each head.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Pick a row together and say in words what the model is. Then ask what makes the
# column of caches differ. The classes' defaults are mostly those of one published model, not
# always.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Groups, and a latent a token, make the cache small. Move the brackets, and the latent itself is
#   the key of all heads.
# - A softmax must spend its one. In our game the idle head spent it mostly on the first token, and
#   a window that dropped this token hurt, in four of four starts. A learned sink prevented this in
#   three.
# - One global layer anywhere gives full reach; few of them make the cache small.
# - The delta rule replaces what a key said before. With $\beta = 1$ plain sums found more of random
#   keys written once, and the delta rule found more of keys written again.
# - An indexer chooses keys by content. 8 of 64 keys answered 99 to 100% of our far questions. It
#   still scores all pairs.
# - Entries that stand for several tokens shrink the cache itself.
#
# **Next.** Much of this is easy to write almost right. Chapter 12 shows attention that was wrong
# and passed its tests.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Homework: exercises 11.1 to 11.3.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("11.1")` gives one more hint each time, `solution("11.1")` the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.1** · by hand
#
# A decoder has 48 layers with 32 heads of 128 numbers each, and a number takes 2 bytes.
#
# - How many KiB does one token add to the cache in multi-head attention?
# - How many with a latent of 448 numbers and a turned key of 64?
# - Now another decoder with 48 layers, and 8 heads of keys of 128 numbers in each. 8 layers are
#   global, the other 40 keep the latest 1,024 tokens. How many MiB is its cache after 16,384
#   tokens?
#
# Give three numbers, such as `(1, 2, 3)`. 1 KiB is 1,024 bytes, 1 MiB is 1,024 KiB.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.2** · complete a function
#
# A rule in the sense of *A mask is a rule*, in *Going further*: for a cache that keeps the latest
# and the first tokens. A query sees a key that is not later than itself and is one of the latest
# `window`, its own included, or one of the first `num_first`. `query` and `key` are tensors of
# positions, of any shapes that broadcast.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.3** · derive, then complete a function
#
# The score of a token $x$ and a latent $c$ is $(W_q x) \cdot (W_{uk}\, c)$. Find on paper the
# matrix $M$ with the same score $x^\top M c$. Then write it for all heads: `W_q` (H, d, D) and
# `W_uk` (H, d, L) give `M` (H, D, L). Nothing is divided by a root.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Each section can be read by itself.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The cache of two mixed models
#
# *1 minute.* The cache against the length, as published and with all layers global:


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the cache of two mixed models against the length, beside the same models all global
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True)
lengths = [2**i for i in range(10, 18)]
gemma, gpt_oss = (shapes[name] for name in ("Gemma 3 27B", "gpt-oss-20b"))
for ax, model in zip(axes, (gemma, gpt_oss), strict=True):
    heads = model.num_layers, model.num_kv_heads, model.head_size
    all_global = [cache_bytes(*heads, n) / 2**30 for n in lengths]
    mixed = [model.bytes(n) / 2**30 for n in lengths]
    ax.plot(lengths, all_global, color=GREY, linestyle="--", label="all layers global")
    ax.plot(lengths, mixed, color=INK, linewidth=3, label="as published")
    ax.set(title=model.name, xlabel="tokens", xscale="log", yscale="log")
    ax.set_xticks([2**10, 2**13, 2**17], ["1k", "8k", "128k"])
    ax.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    ax.minorticks_off()
axes[0].set_ylabel("cache, GiB")
axes[0].legend(frameon=False)
figure.suptitle("The fewer layers are global, the more of a long cache is saved", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: cache in GiB against the number of tokens, 1k to 128k, both on scales of powers. Gemma 3
# 27B: both lines begin together at 1k tokens; at 128k it is 62 GiB with all layers global and 10.4
# GiB as published. gpt-oss-20b: the published line runs at half of the other, 3 against 6 GiB at
# 128k.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the figures of the caption, and that no window means the cache of chapter 9
whole = cache_bytes(62, 16, 128, 131072) / 2**30
assert (gemma.num_layers, gemma.num_global, whole) == (62, 10, 62)
assert round(gemma.bytes(131072) / 2**30, 1) == 10.4
assert gpt_oss.num_layers == 24 and round(gpt_oss.bytes(131072) / 2**30, 2) == 3.0
assert cache_bytes(24, 8, 64, 131072) / 2**30 == 6
assert gemma.bytes(1024) == cache_bytes(62, 16, 128, 1024)  # the window is not yet full

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Choose a model
#
# *2 minutes.* **Question.** Which layers of Gemma 3 27B have the tall bars, and from which layer on
# may the last token hear from the first? (With a kernel: from which length on does it keep less
# than Llama 3.1 8B?)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Defines the view: cache, links and reach of a published shape
SIZES = [2**i for i in range(10, 18)]


def windows_of(model):
    """The window of each layer, or None for a global one: the last of each group."""
    layers = [model.window] * model.num_layers
    if model.num_global:
        step = model.num_layers // model.num_global
        for i in range(step - 1, step * model.num_global, step):
            layers[i] = None
    return layers


def links_of(window, n):
    """Causal links of a layer whose queries see the latest ``window`` keys, or all."""
    short = n if window is None else min(n, window)
    return short * (short + 1) / 2 + (n - short) * short


def draw_model(figure, model="Gemma 3 27B", tokens=32768):
    chosen, layers = shapes[model], windows_of(shapes[model])
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.2, 1, 1])
    for name, other in shapes.items():
        own = name == model
        values = [other.bytes(n) / 2**30 for n in SIZES]
        style = {"color": INK, "linewidth": 4} if own else {"color": GREY, "linewidth": 1}
        left.plot(SIZES, values, **style, zorder=3 if own else 1)
    gib = chosen.bytes(tokens) / 2**30
    left.plot(tokens, gib, "o", color=INK, markersize=9, zorder=4)
    left.set(xscale="log", yscale="log", xlabel="tokens", ylabel="cache, GiB")
    left.set_xticks([2**10, 2**13, 2**17], ["1k", "8k", "128k"])
    left.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    left.minorticks_off()
    left.set_title(f"cache: {gib:.2f} GiB")
    links = [links_of(window, tokens) for window in layers]
    middle.bar(range(1, len(links) + 1), links, width=1.0, color=INK)
    middle.set(xlabel="layer", title=f"links: {sum(links) / len(links) / tokens**2:.0%} of n²")
    middle.set(ylim=(0, 0.55 * tokens**2), yticks=[0, 0.5 * tokens**2], yticklabels=["0", "n²/2"])
    reach, now = [], 0
    for window in layers:
        now = tokens - 1 if window is None else min(tokens - 1, now + window - 1)
        reach.append(now)
    right.step(range(1, len(reach) + 1), reach, where="post", color=INK, linewidth=3)
    right.set(xlabel="layers", title="tokens back", ylim=(0, 1.08 * tokens))
    right.set(yticks=[0, tokens], yticklabels=["0", "all"])


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the view: choose a model and a length
from ipywidgets import SelectionSlider

explore(
    draw_model,
    figsize=(11, 4.4),
    alt="A published model: its cache, the links of its layers, and how far its last token hears.",
    model=list(reversed(shapes)),
    tokens=SelectionSlider(options=SIZES, value=32768),
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of three panels. Left, the cache of all models against the length,
# the chosen one in bold with a dot at the chosen length. Middle, a bar for each layer, its links;
# windows make short bars, global layers reach half of n squared. Right, how many tokens back the
# last token hears after each layer: steps of a window, and all from the first global layer on.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Each sixth layer is global, and from the sixth layer on the last token may hear from the first.
# Gemma 3 27B keeps less than Llama 3.1 8B from about 8,900 tokens on. Before, its 62 layers of 16
# heads of keys weigh more, against 32 layers of 8.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the answers with the shapes
assert [i for i, window in enumerate(windows_of(gemma), start=1) if window is None][:2] == [6, 12]
assert (gemma.num_layers, gemma.num_kv_heads) == (62, 16)
assert (llama.num_layers, llama.num_kv_heads) == (32, 8)
assert gemma.bytes(8800) > llama.bytes(8800) and gemma.bytes(8900) < llama.bytes(8900)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room name a model and a length. The reach is a bound: it says which paths
# exist, not what a model learned to send.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Latent attention, absorbed
#
# *5 minutes.* This layer has the same parameters, never makes a head's keys or values, and gives
# the same numbers:


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainAbsorbedAttention(PlainLatentAttention):
    def forward(self, X):  # the same numbers, without keys and values
        q, q_turned = self.by_head(self.W_q(X)).split(self.sizes, dim=-1)
        c = self.W_down(X)[:, None]  # (B, 1, n, L): keys and values of all heads
        k_turned = rotate(self.W_kr(X))[:, None]  # (B, 1, n, R)
        W_uk, W_uv = (W.weight.unflatten(0, (self.num_heads, -1)) for W in (self.W_uk, self.W_uv))
        scores = (q @ W_uk) @ c.mT + rotate(q_turned) @ k_turned.mT  # (B, H, n, n)
        heads = (self.weights(scores) @ c) @ W_uv.mT  # (B, H, n, L) -> (B, H, n, head_size)
        return self.W_o(heads.transpose(1, 2).flatten(2))


# %% slideshow={"slide_type": "subslide"}
torch.manual_seed(0)
sizes = dict(num_hiddens=48, num_heads=4, head_size=12, latent_size=10, rotary_size=6)
X = torch.randn(2, 7, 48)
explicit, absorbed, package = (
    form(**sizes)
    for form in (PlainLatentAttention, PlainAbsorbedAttention, MultiHeadLatentAttention)
)
output = explicit(X)
for other in (absorbed, package):
    other(X)  # the first call fixes the sizes
    other.load_state_dict(explicit.state_dict())
print("explicit equals absorbed:", torch.allclose(absorbed(X), output, atol=1e-5))

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the package's layer against the page, word by word too, and against multi-head attention
for how in (False, True):
    torch.testing.assert_close(package(X, is_causal=True, absorbed=how), output)
cache = KeyValueCache()
parts = [package(X[:, i : i + 1], cache=cache, absorbed=True) for i in range(7)]
torch.testing.assert_close(torch.cat(parts, dim=1), output)
assert cache.values.shape[-1] + cache.keys.shape[-1] == 10 + 6

wide = PlainLatentAttention(24, 4, 6, 24, 6)  # a latent as wide as the token: nothing is squeezed
Y = torch.randn(2, 5, 24)
wide(Y)
with torch.no_grad():
    wide.W_down.weight.copy_(torch.eye(24))
    wide.W_kr.weight.zero_()  # and no positions
full_heads = MultiHeadAttention(24, 4, 0.0)
full_heads(Y, Y, Y)
# A head has 12 numbers instead of 6, and the scores are divided by the root of that.
own_q = wide.W_q.weight.unflatten(0, (4, 12))[:, :6].flatten(0, 1) / 2**0.5
state = {"W_q.weight": own_q, "W_k.weight": wide.W_uk.weight, "W_v.weight": wide.W_uv.weight}
full_heads.load_state_dict(state | {"W_o.weight": wide.W_o.weight})
torch.testing.assert_close(full_heads(Y, Y, Y, is_causal=True), wide(Y))

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. What is the shape of the matrix that is absorbed? Numbers of a head by latent numbers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A whole layer of the delta rule
#
# *6 minutes.* Where do $\beta$ and the decay come from? From the token, by two small matrices: a
# sigmoid keeps $\beta$ between 0 and 1 (some models let it reach 2), and the decay is $e$ to a
# negative number. A gate on the
# output decides what is said.


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask first: which numbers of the rule would you let the token decide?


# %% slideshow={"slide_type": "subslide"} tags=["build"]
class PlainGatedDeltaNet(nn.Module):
    def __init__(self, num_hiddens, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_gate = (
            nn.LazyLinear(num_hiddens, bias=False) for _ in range(4)
        )
        self.W_beta, self.W_decay = nn.LazyLinear(num_heads), nn.LazyLinear(num_heads)
        self.norm = nn.RMSNorm(num_hiddens // num_heads)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=False)

    def forward(self, X):  # (n, any size) -> (n, D), one text
        q, k, v, gate = (
            W(X).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)
            for W in (self.W_q, self.W_k, self.W_v, self.W_gate)
        )  # (H, n, D / H)
        q, k = (F.normalize(F.silu(Y), dim=-1) for Y in (q, k))  # of length 1
        beta = self.W_beta(X).sigmoid().T  # (H, n): how much is replaced
        decay = (-F.softplus(self.W_decay(X))).exp().T  # (H, n): how much is kept
        heads = [plain_delta_rule(*given)[0] for given in zip(q, k, v, beta, decay, strict=True)]
        output = self.norm(torch.stack(heads)) * F.silu(gate)  # (H, n, D / H)
        return self.W_o(output.transpose(0, 1).flatten(1))


# %% [markdown] slideshow={"slide_type": "skip"}
# The package's `GatedDeltaNet` gives the same numbers. (Real layers have short convolutions on
# the queries, keys and values, and a learned rate of fading a head, too.)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the page's layer against the package's
torch.manual_seed(0)
plain, package, X = PlainGatedDeltaNet(12, 3), GatedDeltaNet(12, 3), torch.randn(7, 10)
output = plain(X)
package(X[None])  # the first call fixes the sizes
package.load_state_dict(plain.state_dict())
torch.testing.assert_close(package(X[None])[0], output, atol=1e-5, rtol=1e-4)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room find the six things that come from the token: query, key, value, beta,
# decay and gate.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A mask is a rule
#
# *7 minutes.* A mask of shape $(n, n)$ saves nothing: the kernel computes every score and then
# hides it (chapter 9). Nobody wants to write a kernel for every pattern.
#
# Hand over the **rule** that makes the mask, a function of the positions of a query and a key:


# %% slideshow={"slide_type": "-"}
def near_past(query, key):
    return (key <= query) & (query - key < 128)  # the latest 128 keys, its own included


# %% [markdown] slideshow={"slide_type": "fragment"}
# The rule tells, before any score is computed, which **blocks** of 128 queries and 128 keys are
# empty. A kernel leaves these out, and in a full block it need not ask the rule.
#
# **Predict.** 1,024 tokens make $8 \cdot 8 = 64$ blocks. How many of them does `near_past` need?

# %% slideshow={"slide_type": "subslide"}
positions = torch.arange(1024)
visible = near_past(positions[:, None], positions)  # (n, n): only to look at it
blocks = visible.unflatten(0, (8, 128)).unflatten(2, (8, 128))  # (8, 128, 8, 128)
needed = blocks.any(dim=3).any(dim=1)  # (8, 8): True where some query of the block sees some key
full = blocks.all(dim=3).all(dim=1)  # (8, 8): True where the rule hides nothing
print(f"needed: {needed.sum()} of {needed.numel()} blocks, {full.sum()} of them full")

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the blocks that a causal rule and the window need
figure, axes = plt.subplots(1, 2, figsize=(9, 4.3))
grids = {"causal": causal_mask(1024), "causal, window of 128": visible}
for ax, (name, grid) in zip(axes, grids.items(), strict=True):
    parts = grid.unflatten(0, (8, 128)).unflatten(2, (8, 128)).float().mean(dim=(1, 3))
    kinds = (parts > 0).float() + (parts == 1).float()  # 0 empty, 1 in part, 2 full
    hatch_zeros(heatmap(ax, kinds, vmax=2.6), kinds)
    ax.set(title=f"{name}: {int((parts > 0).sum())} of 64", xticks=[], yticks=[], aspect="equal")
    ax.set(xlabel="block of keys", ylabel="block of queries")
    for row, column in (parts > 0).nonzero().tolist():
        text = "full" if parts[row, column] == 1 else "part"
        color = ON_STRONG if text == "full" else ON_WEAK
        ax.text(column, row, text, ha="center", va="center", fontsize=12, color=color)
figure.suptitle("The rule says which blocks nobody has to compute", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids of 8 by 8 blocks. Causal: the lower triangle, 36 of 64 blocks; those on the
# diagonal are needed in part, those below it in full. With a window of 128 only the diagonal and
# the blocks just below it are left, 15 of 64, all of them in part.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the rules of the package against its masks, and the blocks against PyTorch's
rule = and_masks(causal_rule, window_rule(127))  # the package counts the keys before the own one
dense = create_mask(rule, 1, 1, 1024, 1024, device="cpu")[0, 0]
assert torch.equal(dense, visible)
assert torch.equal(dense, sliding_window_mask(1024, window=127) & causal_mask(1024))
block_mask = create_block_mask(rule, 1, 1, 1024, 1024, device="cpu")
counted = block_mask.kv_num_blocks + block_mask.full_kv_num_blocks
assert counted.sum() == needed.sum()

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### From a rule to a kernel
#
# PyTorch calls this **FlexAttention** (Dong et al., 2024). `create_block_mask` finds the blocks,
# and `torch.compile` writes the rule into a kernel.
#
# One head of 64 numbers, 4,096 tokens, and a window of 128 keys before and 128
# after the query's own. Forward only, one thread of the authors' two-core CPU; stored figures:
#
# | | CPU time |
# |---|---|
# | a dense mask $(n, n)$ in the fused kernel | 103 ms |
# | the fused kernel without a mask: all links | 58 ms |
# | our sliding window, written for windows | 13 ms |
# | FlexAttention, compiled from the rule | 9 ms |

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Defines the measurement behind the table: call measure_flex() to repeat it, in half a minute


def measure_flex(n=4096, window=128):
    """CPU milliseconds of four ways to compute a window; the first call compiles."""
    q, k, v = torch.randn(3, 1, 1, n, 64)
    rule, layer = window_rule(window), SlidingWindowAttention(window, 0.0)
    block_mask = create_block_mask(rule, 1, 1, n, n, device="cpu")
    mask = create_mask(rule, 1, 1, n, n, device="cpu")
    compiled = torch.compile(flex_attention)
    ways = {
        "dense mask": lambda: F.scaled_dot_product_attention(q, k, v, mask),
        "no mask": lambda: F.scaled_dot_product_attention(q, k, v),
        "our window": lambda: layer(q, k, v),
        "FlexAttention": lambda: compiled(q, k, v, block_mask=block_mask),
    }
    took = {}
    with torch.no_grad():
        torch.testing.assert_close(ways["FlexAttention"](), ways["dense mask"]())
        for name, way in ways.items():
            way()
            times = []
            for _ in range(7):
                started = time.process_time()
                way()
                times.append(1000 * (time.process_time() - started))
            took[name] = sorted(times)[3]
    return took


reason = why_not_compiled()
print(
    "This machine can compile: measure_flex() makes a table of its own."
    if reason is None
    else f"This machine cannot compile: {reason}. The table above was stored."
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **What it costs.** The first call compiles, which takes seconds. Training needs a GPU, because
# there is no backward pass on the CPU. Without `torch.compile` the whole matrix of scores is made.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the blocks before the picture: most count the diagonal only, 8, and forget that a query at
# the start of a block looks into the block before: 8 + 7.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Longer than trained
#
# *10 minutes.* Chapter 7's reader with rotary positions was trained on texts of 16 letters. From
# about position 35 on it fails: far letters turn the slow pairs by angles that training never
# showed.
#
# One can change the speeds of a trained model so that long distances look like short ones. Three of
# these ways are told to read $f$ times as far:

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Five ways to choose the speeds


# %% slideshow={"slide_type": "-"}
def stretched(d, f, base=10000, trained=16):
    """Speeds (d / 2,) of the pairs, in five ways; pair 0 turns fastest."""
    powers = -torch.arange(0, d, 2, dtype=torch.float64) / d  # 0 for the fastest pair
    plain = base**powers
    turns = trained * plain / (2 * math.pi)  # how often a pair turned round in training
    kept = ((turns - 0.25) / (2.5 - 0.25)).clamp(0, 1)  # 1 from 2.5 turns on, 0 up to 0.25
    return {
        "plain": plain,
        "larger base": 1_000_000**powers,  # whatever f is
        "interpolation": plain / f,
        "NTK-aware": (base * f ** (d / (d - 2))) ** powers,
        "YaRN": kept * plain + (1 - kept) * plain / f,
    }


# %% [markdown] slideshow={"slide_type": "subslide"}
# #### What the five ways do
#
# - A **larger base** slows all pairs but the first (Xiong et al., 2023; theirs is 500,000).
# - **Interpolation** slows all pairs: with $f = 4$ a distance of 4 turns them as 1 did (Chen et
#   al., 2023).
# - **NTK-aware** scaling chooses the base so that the slowest pair is $f$ times slower.
# - **YaRN's speeds** interpolate the pairs that hardly turned round in training and keep the fast
#   ones, which have shown all their angles (Peng et al., 2023).

# %% slideshow={"slide_type": "-"}
for name, speeds in stretched(8, 4).items():
    print(f"{name:14}", " ".join(f"{speed:.5f}" for speed in speeds.tolist()))

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the five ways against the package, and that a factor of 1 is plain rotary
for f in (1.0, 4.0):
    ours = {
        "plain": rotary_speeds(8),
        "larger base": rotary_speeds(8, 1_000_000),
        "interpolation": interpolated_speeds(8, f),
        "NTK-aware": ntk_speeds(8, f),
        "YaRN": yarn_speeds(8, f, 16, few_turns=0.25, many_turns=2.5),
    }
    for name, speeds in stretched(8, f).items():
        torch.testing.assert_close(speeds, ours[name])
        if f == 1 and name != "larger base":
            torch.testing.assert_close(speeds, ours["plain"])

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Two games
#
# Chapter 7's two games: *three back*, name the letter three positions before, and *last capital*,
# name the latest capital. For each game a reader with one attention layer (four heads of 8
# numbers) is trained for 200 steps on 16 letters, from one start. Then its speeds are exchanged.
#
# **Predict.** Without new training, which of the five still play *three back* on the first 16
# letters?

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Trains chapter 7's reader on both games, exchanges its speeds, and measures


def three_back(n, length):
    """Letters (n, length), and the letter three positions before each."""
    letters = torch.randint(8, (n, length))
    targets = letters.roll(3, dims=1)
    targets[:, :3] = -100
    return letters, targets


def last_capital(n, length):
    """Small letters 0 to 7, capitals 8 to 15, and the latest capital at each position."""
    letters, capital = torch.randint(8, (n, length)), torch.rand(n, length) < 0.2
    capital[:, 0] = True
    latest = torch.where(capital, torch.arange(length), 0).cummax(dim=1).values
    return letters + 8 * capital, letters.gather(1, latest)


class Reader(nn.Module):
    """Letters (B, n) -> scores of the 8 answers, (B, n, 8): chapter 7's."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        self.attention = MultiHeadAttention(32, 4, 0.0, positions=RotaryEncoding(8))
        self.readout = nn.Linear(32, 8)

    def forward(self, letters):
        X = self.embedding(letters)
        return self.readout(X + self.attention(X, X, X, is_causal=True))


def train_reader(model, game, length, steps, lr=0.01):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        letters, targets = game(32, length)
        loss = F.cross_entropy(model(letters).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def right_answers(model, game):
    torch.manual_seed(99)
    letters, targets = game(500, 64)
    return (model(letters).argmax(dim=-1) == targets).float().mean(dim=0)


curves, tuned, readers = {}, {}, {}
for game in (three_back, last_capital):
    torch.manual_seed(0)
    reader = Reader()
    reader(game(1, 16)[0])
    train_reader(reader, game, 16, 200)
    readers[game.__name__] = reader
    for name, speeds in stretched(8, 4).items():
        other = copy.deepcopy(reader)
        other.attention.positions.speeds = speeds
        curves[game.__name__, name] = right_answers(other, game)
        train_reader(other, game, 64, 20, lr=0.003)
        tuned[game.__name__, name] = right_answers(other, game)[32:].mean().item()
ranges = {"3-15": slice(3, 16), "16-31": slice(16, 32), "32-63": slice(32, 64)}
print(f"{'right at positions':28}", *(f"{part:>8}" for part in ranges), "   32-63 after 20 steps")
for key, curve in curves.items():
    shares = [f"{curve[part].mean():8.0%}" for part in ranges.values()]
    print(f"{key[0]:13} {key[1]:14}", *shares, f"{tuned[key]:16.0%}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Right answers, position by position


# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Draws the right answers against the position
figure, axes = plt.subplots(1, 2, figsize=(10.2, 4.9), sharey=True)
looks = {
    "plain": (GREY, "-"),
    "larger base": (INK, ":"),
    "interpolation": (GREY, "--"),
    "NTK-aware": (INK, "-"),
    "YaRN": (INK, "-."),
}
for ax, game in zip(axes, ("three_back", "last_capital"), strict=True):
    for name, (color, style) in looks.items():
        ax.plot(range(3, 64), curves[game, name][3:], color=color, linestyle=style, label=name)
    ax.axvspan(0, 15, color=PALE, zorder=0)
    ax.text(7.5, 1.04, "trained", ha="center")
    ax.set(title=game.replace("_", " "), xlabel="position", xticks=[0, 15, 31, 47, 63])
    ax.set(ylim=(0, 1.12))
axes[0].set(ylabel="right answers", yticks=[0, 0.5, 1], yticklabels=["0%", "50%", "100%"])
handles = axes[0].get_legend_handles_labels()
figure.legend(*handles, ncols=5, frameon=False, loc="outside lower center", fontsize=12)
figure.suptitle(
    "Slower speeds reach further; slowing the fastest pair loses three back", fontsize=17
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: right answers against the position, 3 to 63, for two games and five ways; positions up to
# 15 are shaded as trained. Three back: plain is right up to about 30 and falls to guessing by 42;
# the larger base stays near 96% and YaRN near 92%; NTK-aware falls in steps after 46; interpolation
# begins at about half and guesses from position 6 on. Last capital: plain falls after about 40,
# the others stay above 90%.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Checks what the text says of the five ways
mean = {}
for key, curve in curves.items():
    mean |= {(*key, part): curve[where].mean() for part, where in ranges.items()}
assert mean["three_back", "plain", "3-15"] > 0.95 and mean["three_back", "plain", "32-63"] < 0.5
assert max(mean["three_back", "interpolation", part] for part in ranges) < 0.35
assert tuned["three_back", "interpolation"] < 0.35
assert min(mean["three_back", "NTK-aware", part] for part in ("3-15", "16-31")) > 0.95
for name in ("larger base", "YaRN"):
    assert 0.8 < mean["three_back", name, "32-63"]
for name in ("larger base", "interpolation", "NTK-aware", "YaRN"):
    assert mean["last_capital", name, "32-63"] > mean["last_capital", "plain", "32-63"] + 0.1
by_distance = {}
for name, asking in (("plain", 12), ("interpolation", 40)):  # the position that looks back
    reader = copy.deepcopy(readers["three_back"])
    reader.attention.positions.speeds = stretched(8, 4)[name]
    with torch.no_grad():
        X = reader.embedding(three_back(300, asking + 1)[0])
        weights = reader.attention(X, X, X, is_causal=True, need_weights=True)[1]
    by_distance[name] = weights[:, :, asking].mean(dim=0).flip(-1)  # (heads, n): by distance
sharpest = by_distance["plain"].amax(dim=-1).argmax()  # the head that plays the game
assert by_distance["plain"][sharpest].argmax() == 3
assert 11 <= by_distance["interpolation"][sharpest].argmax() <= 13

# %% [markdown] slideshow={"slide_type": "fragment"}
# All but interpolation, with the limits that were set here. The head has learned which turn belongs
# to a distance of 3. With speeds four times slower it finds this turn at a distance of 12. The
# other ways leave the fastest pair as it was: YaRN does so only because its upper limit is 2.5
# turns here. With the paper's 1 and 32 turns the page's YaRN slows every pair, and gets 17, 12 and
# 12% in the three ranges, as interpolation does. For *last capital*, which asks roughly how recent
# something is, interpolation does well.

# %% [markdown] slideshow={"slide_type": "skip"}
# Some published models are then trained at the new length, others (Qwen3's YaRN) are not. Gemma 3
# 27B's global layers have a base of a million *and* interpolation by 8, trained. The paper's ramp
# goes over **turns**; the code in `transformers` 5.23 ramps over the **number of the pair**
# (`yarn_speeds` and `yarn_speeds_by_pair`). One start of a toy does not say which way is best for a
# large model.

# %% [markdown] slideshow={"slide_type": "notes"}
# Read the table of speeds by columns: which way touches pair 0? Only interpolation. From that the
# room can answer the prediction.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The delta rule, all tokens at once
#
# *4 minutes.* A loop over tokens is slow to train. Token $t$ writes $u_t = \beta_t (v_t - k_t S)$
# under its key. Without fading the state before it is $S = \sum_{j<t} k_j^\top u_j$. Put this into
# $u_t$ and bring the sum to the left:
#
# $$u_t + \beta_t \sum_{j < t} (k_t \cdot k_j)\, u_j = \beta_t v_t .$$
#
# That is a triangular system of $n$ equations (Yang et al., 2024). Models solve it chunk by chunk.
# A chunk that begins with a state $S$ has $v_t - k_t S$ in place of $v_t$, and $q_t S$ is added to
# its outputs.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_delta_at_once(queries, keys, values, beta):
    """The outputs (n, V) of `plain_delta_rule` without fading, by matrix products."""
    overlaps = (beta[:, None] * (keys @ keys.T)).tril(-1)  # (n, n)
    system = torch.eye(len(keys)) + overlaps
    written = torch.linalg.solve_triangular(system, beta[:, None] * values, upper=False)  # (n, V)
    return (queries @ keys.T).tril() @ written  # (n, V)


# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
queries, keys, values = torch.randn(3, 100, 16)
keys = F.normalize(keys, dim=-1)
beta, decay = torch.rand(2, 100)
one_by_one, state = plain_delta_rule(queries, keys, values, beta, torch.ones(100))
at_once = plain_delta_at_once(queries, keys, values, beta)
print("one by one equals at once:", torch.allclose(one_by_one, at_once, atol=1e-4))

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the package's delta rule in chunks against the loop, and the case of linear attention
for fading in (torch.ones(100), decay):
    expected = plain_delta_rule(queries, keys, values, beta, fading)
    together = delta_rule(queries, keys, values, beta, fading)
    for ours, plain in zip(together, expected, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-4)
orthogonal = torch.linalg.qr(torch.randn(16, 16)).Q  # keys that do not overlap: nothing to erase
short = values[:16]
expected = (queries[:16] @ orthogonal.T).tril() @ short
torch.testing.assert_close(
    plain_delta_rule(queries[:16], orthogonal, short, torch.ones(16), torch.ones(16))[0],
    expected,
    atol=1e-5,
    rtol=1e-4,
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What an indexer costs, and who shares
#
# *1 minute.* Here the indexer multiplies $2 \cdot 8 = 16$ numbers a pair, where the attention
# multiplies $8 \cdot 2 \cdot 8 = 128$. In DeepSeek-V3.2 it is 64 heads of 128 numbers, in 8 bits,
# for all pairs. The attention multiplies $512 + 64 + 512$ numbers in each of 128 heads, but only
# for the chosen 2,048. For one query both are equal at

# %% slideshow={"slide_type": "fragment"}
print(f"{2048 * 128 * (512 + 64 + 512) / (64 * 128):,.0f} tokens")

# %% [markdown] slideshow={"slide_type": "fragment"}
# So several layers can **share** one choice: in GLM-5.2, as llama.cpp runs it, 57 of 78 layers take
# that of a layer before them.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Which bill does an indexer cut, and which not? The links of the attention, not the
# cache.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Chosen blocks
#
# *4 minutes.* Coarser is a choice of blocks: the indexer of MiniMax-M3 scores all keys, and 16
# blocks of 128 tokens are read, the query's own and those with the best keys. Cheaper is this: cut
# the keys into blocks. Score each block by the product of the query with the *mean* of its keys.
# Attend to the best few blocks and to one's own: this is MoBA, the mixture of block attention (Lu
# et al., 2025). The query is $(1, 0)$. Block 0 has the keys $(1, 0)$ and three times $(-1, 0)$,
# block 1 has four times $(0.1, 0)$:


# %% slideshow={"slide_type": "-"}
def choose_blocks(query, keys, block_size, num_chosen):
    """Which blocks one query reads: query (D,), keys (n, D) -> their numbers (num_chosen,)."""
    means = keys.unflatten(0, (-1, block_size)).mean(dim=1)  # (blocks, D)
    return (means @ query).topk(num_chosen).indices


# %% slideshow={"slide_type": "fragment"}
needle = torch.tensor([[1.0, 0]] + [[-1.0, 0]] * 3 + [[0.1, 0]] * 4)  # (8, 2)
print("chosen block:", choose_blocks(torch.tensor([1.0, 0.0]), needle, 4, 1).tolist())

# %% [markdown] slideshow={"slide_type": "skip"}
# The best key is in block 0, but the mean of this block is $(-0.5, 0)$. The choice misses a good
# key among others that point elsewhere. If all keys of a block share a direction, the mean tells
# what is in it, and training can give keys such a form.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws what queries see with a window, and with chosen blocks
torch.manual_seed(1)
subject = torch.randn(4, 16)[torch.tensor([0, 1, 2, 0, 3, 1, 2, 3])]  # 8 blocks of 4 subjects
tokens = 0.85 * subject.repeat_interleave(8, dim=0) + 0.5 * torch.randn(64, 16)
figure, axes = plt.subplots(1, 2, figsize=(9.2, 4.6))
grids = {
    "a window": sliding_window_mask(64, window=16) & causal_mask(64),
    "own block and the best one": chosen_blocks_mask(
        tokens, tokens, block_size=8, num_chosen=1, is_causal=True
    ),
}
for ax, (name, grid) in zip(axes, grids.items(), strict=True):
    hatch_zeros(heatmap(ax, grid, vmax=1.4), grid)
    ax.set(title=name, xticks=[], yticks=[], aspect="equal", xlabel="key", ylabel="query")
figure.suptitle("A window is the same for all texts; chosen blocks follow the subject", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two grids of 64 queries by 64 keys, 8 blocks of 8 tokens. Left, a causal window: a band
# along the diagonal. Right, chosen blocks: triangles on the diagonal, each query's own block, and
# further squares of eight keys to the left of them, at other places for other blocks.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that all blocks chosen is plain attention, and that the future stays hidden
torch.manual_seed(0)
q, k, v = torch.randn(3, 2, 3, 40, 8)
for causal in (False, True):
    every = ChosenBlocksAttention(block_size=8, num_chosen=5, dropout=0.0)
    expected = dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(every(q, k, v, is_causal=causal), expected)
few = ChosenBlocksAttention(block_size=8, num_chosen=1, dropout=0.0)
later = [X.clone() for X in (q, k, v)]
for X in later:
    X[..., 21:, :] = torch.randn(19, 8)
before, after = few(q, k, v, is_causal=True), few(*later, is_causal=True)
torch.testing.assert_close(before[..., :21, :], after[..., :21, :])

# %% [markdown] slideshow={"slide_type": "notes"}
# The needle on the board, before the cell runs, with means.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Scores that cannot grow
#
# *4 minutes.* Chapter 3 divided by $\sqrt d$, so that scores of vectors with unit variance have
# unit variance. In training the vectors may grow, and the softmax saturates again. **QK-norm**
# (after Henry et al., 2020) first divides every query and key by its root mean square. Without its
# learned factors a score is then at most $\sqrt d$. **Soft-capping** (Gemma 2, 2024) bends a large
# score $a$ to $50 \tanh(a / 50)$, between $-50$ and 50. Gemma 3 (2025) has QK-norm instead.

# %% slideshow={"slide_type": "subslide"}
print("vectors times        1     3    10    30")
torch.manual_seed(0)
q, k = torch.randn(1000, 1, 64), torch.randn(1000, 32, 64)
ways = {
    "plain": lambda q, k: q @ k.mT / 8,
    "soft-capped": lambda q, k: 50 * torch.tanh(q @ k.mT / 8 / 50),
    "QK-norm": lambda q, k: F.rms_norm(q, [64]) @ F.rms_norm(k, [64]).mT / 8,
}
for name, score in ways.items():
    largest = [score(s * q, s * k).softmax(dim=-1).amax(dim=-1).mean() for s in (1, 3, 10, 30)]
    print(f"{name:16}", *(f"{weight:5.0%}" for weight in largest))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The table shows the largest of 32 weights, on average. With QK-norm it does not depend on the
# vectors' length. Soft-capping bounds the scores. Where many of them reach the cap they become
# equal, and the softmax no longer tells them apart.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what a model loses by QK-norm: it cannot sharpen by longer vectors, so a learned factor is
# added.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Keys and values for several layers
#
# *1 minute.* So far each of our layers kept keys of its own. Cross-layer attention (Brandon et al.,
# 2024) computes keys and values in every second layer only, and the next layer reads the same ones.
# That halves the cache. The authors report nearly the same accuracy for models of one and three
# billion parameters. In Mistral Large 4 ten layers read one latent. If a layer shares with nobody,
# it is plain attention.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### An image as patches
#
# *13 minutes.* A **vision transformer** (Dosovitskiy et al., 2021; D2L 11.8) is encoder-only. It
# cuts an image into patches, and each patch is a token: a linear layer does the work of the
# embedding. Our images have nine patches of 4 x 4 pixels. One patch is bright, one is half as
# bright, and all have noise. The model must name the bright one. An additional token at position 0,
# the same for each image, collects the answer.


# %% slideshow={"slide_type": "skip"}
def images(B):  # images (B, 12, 12), and the index of the bright patch, (B,)
    bright, half = torch.rand(B, 9).topk(2).indices.T  # two different patches of nine
    light = F.one_hot(bright, 9) + 0.5 * F.one_hot(half, 9)
    light = light.view(B, 3, 3).repeat_interleave(4, dim=1).repeat_interleave(4, dim=2)
    return light + 0.3 * torch.randn(B, 12, 12), bright


class PlainVision(nn.Module):
    def __init__(self, num_hiddens, positions):
        super().__init__()
        self.embedding, self.dense = nn.Linear(16, num_hiddens), nn.Linear(num_hiddens, 9)
        self.first = nn.Parameter(torch.zeros(1, 1, num_hiddens))
        self.P = positions * PositionalEncoding(num_hiddens, 0.0).P[:, :10]  # 0 times: no positions
        blocks = (TransformerEncoderBlock(num_hiddens, 64, 4, 0.0) for _ in range(2))
        self.blks = nn.Sequential(*blocks)

    def forward(self, X):  # (B, 12, 12) -> (B, 9)
        patches = X.unflatten(1, (3, 4)).unflatten(3, (3, 4)).transpose(2, 3)  # (B, 3, 3, 4, 4)
        X = self.embedding(patches.flatten(3).flatten(1, 2))  # (B, 9, D)
        X = torch.cat([self.first.expand(len(X), 1, -1), X], dim=1) + self.P  # (B, 10, D)
        return self.dense(self.blks(X)[:, 0])


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws one image with its patches
torch.manual_seed(0)
pictures, answers = images(1)
figure, ax = plt.subplots(figsize=(4.2, 3.6))
shown = ax.imshow(pictures[0], cmap=colormap(), vmin=-1, vmax=2)
for line in (3.5, 7.5):
    ax.axhline(line, color=INK)
    ax.axvline(line, color=INK)
ax.set(title=f"Patch {answers[0]} has the most light", xlabel="pixel", ylabel="pixel")
figure.colorbar(shown, label="light")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a noisy image of 12 by 12 pixels, cut by lines into nine patches. One patch has clearly
# more light than the others, and one has a little more.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Without positions, how often does it name the right patch of nine?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
for positions in (1, 0):
    for seed in (0, 1):
        torch.manual_seed(seed)
        vision = PlainVision(32, positions)
        optimizer = torch.optim.Adam(vision.parameters(), lr=0.003)
        for _ in range(200):
            pictures, answers = images(64)
            loss = F.cross_entropy(vision(pictures), answers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        pictures, answers = images(1000)
        found = (vision(pictures).argmax(dim=-1) == answers).float().mean()
        print(f"positions: {bool(positions)!s:5}  start {seed}:  {found:.0%} of 1,000 new images")

# %% [markdown] slideshow={"slide_type": "skip"}
# With positions it is nearly always right. Without them it guesses, one of nine, although it sees
# each patch: a bright patch is the same token wherever it is. The blocks are those of chapter 8's
# translator. In the paper, vision transformers became better than convolutional
# networks only after training on 14 million images or more. This toy says nothing about that.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan. Three minutes. Ask what is a word here, what a sentence, and what the embedding.
# Then the vote: without positions, one of nine is 11%.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Serving many readers
#
# *2 minutes.* A server holds the caches of many texts. Only the last of these ideas changes what a
# model computes.
#
# - **Pages** (Kwon et al., 2023). Nobody knows how long a text will be. So its cache is cut into
#   pages of, say, 16 tokens, taken when they are needed, with a table of where they are. At most 15
#   tokens' space stays empty.
# - **Shared prefixes.** If texts begin alike, with the same instructions, their first pages are
#   the same and are kept once.
# - **Split keys.** One long text has too few queries to keep a GPU busy. Its keys are shared out,
#   and the partial results are merged: exercise 10.5, *One softmax from two* (Flash-Decoding: Dao
#   et al., 2023).
# - **A quantised cache.** Keys and values are rounded to 8, 4 or 2 bits, with a scale for each row
#   or column (KIVI: Liu et al., 2024).

# %% [markdown] slideshow={"slide_type": "notes"}
# The words to compare with: virtual memory of an operating system. A table of
# pages is all there is.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.4** · find the bug
#
# `attend_with_sink` should give $\sum_j \alpha_j v_j$ with the weights of *A sink of its own*:
# scores (H, Q, K), values (H, K, V), one learned sink a head, (H,), output (H, Q, V). Hidden
# scores are -inf. A query whose scores are all -inf gets 0. Scores and sinks may be as large as
# 1,000. The function has three bugs. Repair them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.5** · complete a function
#
# One token of the gated delta rule, for all heads: fade the state by `decay`, ask it for the key,
# write `beta` times the difference to the value under the key, and answer the query. Query and key
# are (H, D), the value is (H, V), `beta` and `decay` are (H,), the state is (H, D, V). Return the
# output (H, V) and the new state. Gradients reach all six inputs, and the state that came in does
# not change.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.6** · complete a function
#
# The *Differential Transformer* (Ye et al., 2024) computes two softmaxes and takes a share of the
# second away from the first, so that what both do cancels. The first half of the columns of
# queries and keys makes the first weights, the second half the second ones. There is no mask.
# Gradients reach all four inputs.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.7** · write the test
#
# Your test takes a function `choose(queries, keys)` as in *Chosen blocks*: n tokens, a
# multiple of 4, in blocks of 4. Each query sees the tokens of its own block up to itself, and some
# earlier blocks. The test returns without a word where neither the mask nor the choice knows the
# future. It raises an `AssertionError` for each of four broken ones:
#
# - all of the own block is visible;
# - the own block competes with the others, by a mean that holds later keys;
# - blocks are compared after a softmax over the queries;
# - one choice is made for all queries of a block, by their mean.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - J. Dong, B. Feng, D. Guessous, Y. Liang, H. He, *Flex Attention: A Programming Model for
#   Generating Optimized Attention Kernels*, 2024, arXiv:2412.05496.
# - DeepSeek-AI, *DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language
#   Model*, 2024, arXiv:2405.04434. Section 2.1 and appendix C. *DeepSeek-V3 Technical Report*,
#   2024, arXiv:2412.19437. *DeepSeek-V3.2: Pushing the Frontier of Open Large Language Models*,
#   2025, arXiv:2512.02556. *DeepSeek-V4: Towards Highly Efficient Million-Token Context
#   Intelligence*, 2026, arXiv:2606.19348; the layers of V4-Flash are those of its config.json.
# - J. Ainslie et al., *GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
#   Checkpoints*, EMNLP 2023, arXiv:2305.13245.
# - G. Xiao, Y. Tian, B. Chen, S. Han, M. Lewis, *Efficient Streaming Language Models with Attention
#   Sinks*, 2023, arXiv:2309.17453.
# - T. Guo, D. Pai, Y. Bai, J. Jiao, M. I. Jordan, S. Mei, *Active-Dormant Attention Heads:
#   Mechanistically Demystifying Extreme-Token Phenomena in LLMs*, 2024, arXiv:2410.13835. The game
#   with the bell is a small form of their bigram-backcopy task.
# - OpenAI, *gpt-oss-120b & gpt-oss-20b Model Card*, 2025, arXiv:2508.10925.
# - Z. Qiu et al., *Gated Attention for Large Language Models: Non-linearity, Sparsity, and
#   Attention-Sink-Free*, NeurIPS 2025, arXiv:2505.06708.
# - Gemma Team, *Gemma 3 Technical Report*, 2025, arXiv:2503.19786. *Gemma 2: Improving Open
#   Language Models at a Practical Size*, 2024, arXiv:2408.00118.
# - W. Xiong et al., *Effective Long-Context Scaling of Foundation Models*, 2023, arXiv:2309.16039.
# - S. Chen, S. Wong, L. Chen, Y. Tian, *Extending Context Window of Large Language Models via
#   Positional Interpolation*, 2023, arXiv:2306.15595.
# - B. Peng, J. Quesnelle, H. Fan, E. Shippole, *YaRN: Efficient Context Window Extension of Large
#   Language Models*, ICLR 2024, arXiv:2309.00071. Sections 3.1 to 3.3; also for NTK-aware scaling.
# - B. Widrow, M. E. Hoff, *Adaptive Switching Circuits*, IRE WESCON Convention Record, 1960.
# - I. Schlag, K. Irie, J. Schmidhuber, *Linear Transformers Are Secretly Fast Weight Programmers*,
#   ICML 2021, arXiv:2102.11174.
# - S. Yang, B. Wang, Y. Zhang, Y. Shen, Y. Kim, *Parallelizing Linear Transformers with the Delta
#   Rule over Sequence Length*, 2024, arXiv:2406.06484.
# - S. Yang, J. Kautz, A. Hatamizadeh, *Gated Delta Networks: Improving Mamba2 with Delta Rule*,
#   ICLR 2025, arXiv:2412.06464.
# - Kimi Team, *Kimi Linear: An Expressive, Efficient Attention Architecture*, 2025,
#   arXiv:2510.26692.
# - Qwen Team, *Qwen3-Next: Towards Ultimate Training & Inference Efficiency*, 2025, on qwen.ai.
# - E. Lu et al., *MoBA: Mixture of Block Attention for Long-Context LLMs*, 2025, arXiv:2502.13189.

# %% [markdown] slideshow={"slide_type": "skip"}
# Of *Going further*:
#
# - A. Henry, P. R. Dachapally, S. Pawar, Y. Chen, *Query-Key Normalization for Transformers*, 2020,
#   arXiv:2010.04245.
# - A. Dosovitskiy et al., *An Image is Worth 16x16 Words*, ICLR 2021, arXiv:2010.11929.
# - W. Brandon et al., *Reducing Transformer Key-Value Cache Size with Cross-Layer Attention*, 2024,
#   arXiv:2405.12981.
# - W. Kwon et al., *Efficient Memory Management for Large Language Model Serving with
#   PagedAttention*, SOSP 2023, arXiv:2309.06180.
# - Z. Liu et al., *KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache*, ICML 2024,
#   arXiv:2402.02750.
# - T. Dao, D. Haziza, F. Massa, G. Sizov, *Flash-Decoding for Long-Context Inference*, 2023, on
#   pytorch.org and crfm.stanford.edu.
# - T. Ye et al., *Differential Transformer*, 2024, arXiv:2410.05258.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.5.
#   [d2l.ai](https://d2l.ai)
