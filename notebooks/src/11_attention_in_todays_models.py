# %% [markdown] slideshow={"slide_type": "slide"}
# # 11 · Attention in today's models
#
# To write its next word, a language model reads the keys and values of all the words before it.
# Because that is much for a long text, many of today's models keep less or read less. This chapter
# shows four ways to do so: one short latent per token, windows in most layers, a memory of fixed
# size, and a scorer that chooses the keys to read. It also looks at one trap.
#
# **You will**
# - build latent attention, write with its cache, and find a second form with the same numbers;
# - see where a head puts its weight when it has nothing to look for;
# - build the delta rule, a memory of fixed size that can replace what it holds;
# - train a cheap scorer to choose the few keys that a query reads.
#
# Core path: 65 to 100 minutes, in two sittings. Going further: 25. Exercises: 87. *A place to stop*
# is half-way.
#
# Builds on chapters 3, 7 and 9. *Dive into Deep Learning* (D2L) ends before these models, which
# change the attention of its section 11.5.

# %% [markdown] slideshow={"slide_type": "notes"}
# 40½ minutes, for two lectures of 45: 23½ for the first, up to *A place to stop*, and 17 for the
# second, which leaves time for *Who uses what* of *Going further*. For a single lecture take the
# latent, the sink and the indexer. Most sections have the same steps: the problem, the idea, the
# code, the case in which it equals what the room knows, and the cost.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy
import math
from dataclasses import replace
from statistics import median
from time import process_time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask

from d2l_attention import (
    KeyValueCache,
    MultiHeadAttention,
    RotaryEncoding,
    causal_mask,
    dot_product_attention,
)
from d2l_attention.experiments.indexed import Chosen, inputs_and_weights
from d2l_attention.experiments.lookups import shares_right, texts, train
from d2l_attention.real_models import describe, who_uses_what
from d2l_attention.real_models.who_uses_what import SHAPES
from d2l_attention.scale.cache_size import PUBLISHED, RECENT, cache_bytes
from d2l_attention.variants import (
    IndexedAttention,
    MultiHeadLatentAttention,
    SinkAttention,
    delta_rule,
    interpolated_speeds,
    rotary_speeds,
    yarn_speeds,
)
from d2l_attention.variants.masks import sliding_window_mask
from d2l_attention.views import explore, schematic
from d2l_attention.views.palette import FORBIDDEN, INK, RULE, SERIES, WEIGHT
from d2l_attention.views.plots import hatch_zeros, heatmap, set_style

torch.set_num_threads(1)
torch.manual_seed(0)
torch.set_printoptions(precision=3, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# - **A cache** (chapter 8). A model that generates text keeps a key and a value of every token, in
#   each layer and each key-value head. With **grouped queries** (chapter 9; Ainslie et al., 2023),
#   several heads of queries share one key-value head.
# - **A window** (chapter 9) keeps only the latest $w$ tokens, so information travels fewer than $w$
#   tokens in each layer.
# - **Linear attention** (chapter 9) keeps a state $S$ instead of keys and values, in its simplest
#   form the sum of all $k^\top v$. A query gets $q S$. (Vectors are rows, and a layer computes $x
#   W^\top$.)
# - **Rotary positions** (chapter 7) rotate each pair of numbers of a query or key by its position
#   times a speed: at a quarter turn per position, $(1, 0)$ becomes $(0, 1)$ at position 1. Scores
#   then depend only on distances.
#
# How large is a cache? Llama 3.1 8B has 32 layers, with 8 key-value heads of 128 numbers in each
# (Llama Team, 2024). For each token it keeps $2 \cdot 32 \cdot 8 \cdot 128 = 65{,}536$ numbers,
# keys and values: 128 KiB at two bytes each.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Do the 65,536 on the board, because it comes back: keys and values, layers, key-value
# heads, numbers per head. Then ask which of the four factors one could still make smaller.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Latent attention: one vector per token
#
# Grouped queries keep fewer keys and values, but the heads of a group must share them. Could each
# head have its own, and the cache still be small?
#
# DeepSeek-V2 (2024) answered with multi-head **latent attention** (MLA). It keeps one short vector
# of each token, its **latent** $c$, from which every head computes keys and values of its own:
#
# $$c = x\, W_{\text{down}}^\top, \qquad k_h = c\, W_{uk,h}^\top, \qquad v_h = c\, W_{uv,h}^\top .$$
#
# However many heads there are, the cache holds only $c$ (positions come later).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Which of the four factors of the cache does a latent replace? All but the layers.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The absorbed form
#
# But after 1,000 tokens, every further token makes each head compute 1,000 keys again, only to
# compare them with a single query. Can this **explicit** form be avoided? It can, because a score
# is a product of three factors, in which the brackets may move:
#
# $$q_h\, (c\, W_{uk,h}^\top)^\top = (q_h\, W_{uk,h})\, c^\top .$$
#
# On the left, $W_{uk,h}$ multiplies every latent; on the right, it multiplies only the query, once.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the score of one head in both orders
schematic("absorbed matrix")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of boxes. Explicit: n latents, (n, L), go through the matrix W_uk,h and become n
# keys, (n, d), which are compared with one query, (1, d). Absorbed: the query, (1, d), goes through
# the same matrix and becomes a new query, (1, L), which is compared with the n latents, (n, L),
# themselves. Both give the same scores, (1, n).*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room count: how many rows does the matrix multiply in each line? n, and one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two latents by hand
#
# Suppose that the cache holds the latents $(2, 1)$ and $(0, 3)$, and that the matrix of one head
# turns a latent $(c_1, c_2)$ into the key $(c_1, c_2, c_1 + c_2)$. The keys are $(2, 1, 3)$ and
# $(0, 3, 3)$, and the query $(1, 0, 1)$ scores 5 and 3. In the other order, the matrix turns the
# query into $(2, 1)$, which meets the latents directly and finds 5 and 3 again:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Computes both orders
W_uk = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # (d, L): a latent becomes a key
c, q = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([1.0, 0.0, 1.0])
print("explicit: keys", (c @ W_uk.T).tolist(), "scores", (q @ (c @ W_uk.T).T).tolist())
print("absorbed: query", (q @ W_uk).tolist(), "scores", (q @ W_uk @ c.T).tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# The values are treated likewise: we average the latents, and apply $W_{uv,h}^\top$ only to the
# average. With both matrices **absorbed** in this way, the latent serves as the one key of all
# heads, as in chapter 9's **multi-query** attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Compute both orders on the board. Which numbers need not be kept? The keys.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Positions beside the latent
#
# Where do positions come in? If the key at position $s$ were rotated by $R_s$, as in chapter 7,
# this rotation would come between query and matrix: $(q_h\, R_s\, W_{uk,h})\, c^\top$. Each
# position would then need an absorbed query of its own, and nothing would be saved. So positions
# get numbers of their own. One small **rotary key** per token, rotated by its position, is kept
# beside $c$ for all heads, and a rotary part of each head's query matches it. The two scores are
# added:
#
# $$\text{scores}_h = q_h\, k_h^\top + q_h^\text{rot} \left(k^\text{rot}\right)^\top .$$

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws who feeds what in latent attention
schematic("latent attention")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: boxes and arrows from left to right. A token x, (B, n, D), goes through W_q to the
# queries, of which one part is rotated by its position, through W_down to the latent c, (B, n, L),
# and through W_kr and a rotation to the rotary key, (B, n, R). The latent goes through W_uk and
# W_uv, which give the keys and values of every head. Each head attends with queries, keys, values
# and the rotary key. A frame around latent and rotary key says that the cache keeps them.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Follow one token through the picture. Which two boxes are kept? The latent and the
# rotary key.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The layer and its cache
#
# The layer takes the new tokens and a list, its cache. It adds their latents and rotary keys to the
# cache, and lets their queries attend to everything kept so far:
#
# | tokens: new, so far | numbers per token | heads, size | latent | rotary part |
# |---|---|---|---|---|
# | n, m | D = 48 | H = 4, d = 12 | L = 10 | R = 6 |


# %% slideshow={"slide_type": "skip"} tags=["build"]
def rotate(X, first=0):  # (..., n, R) -> the same, from position `first` on; chapter 7
    n, R = X.shape[-2:]
    speeds = 10000 ** (-torch.arange(0, R, 2) / R)  # (R / 2,)
    angles = (first + torch.arange(n))[:, None] * speeds  # (n, R / 2)
    x, y = X[..., 0::2], X[..., 1::2]  # the pairs
    rotated = x * angles.cos() - y * angles.sin(), x * angles.sin() + y * angles.cos()
    return torch.stack(rotated, dim=-1).flatten(-2)


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainLatentAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, head_size, latent_size, rotary_size):
        super().__init__()
        self.num_heads, self.sizes = num_heads, [head_size, rotary_size]
        self.W_q = nn.LazyLinear(num_heads * sum(self.sizes), bias=False)  # queries, both parts
        self.W_down = nn.LazyLinear(latent_size, bias=False)  # token -> latent
        self.W_kr = nn.LazyLinear(rotary_size, bias=False)  # token -> rotary key, for all heads
        self.W_uk = nn.Linear(latent_size, num_heads * head_size, bias=False)  # latent -> keys
        self.W_uv = nn.Linear(latent_size, num_heads * head_size, bias=False)  # latent -> values
        self.W_o = nn.Linear(num_heads * head_size, num_hiddens, bias=False)

    def by_head(self, X):  # (B, m, H d) -> (B, H, m, d)
        return X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, X, cache=None):  # the new tokens, (B, n, any size) -> (B, n, D)
        cache = [] if cache is None else cache  # without a cache: a list that is thrown away
        first = cache[0].shape[1] if cache else 0  # the position of the first new token
        kept = [self.W_down(X), rotate(self.W_kr(X), first)]  # real models also normalise c
        if cache:  # what was kept before comes first
            kept = [torch.cat(both, dim=1) for both in zip(cache, kept, strict=True)]
        cache[:] = kept  # no keys and no values: only these two are kept
        c, k_rotary = kept  # (B, m, L), (B, m, R)
        q, q_rotary = self.by_head(self.W_q(X)).split(self.sizes, dim=-1)  # (B, H, n, d or R)
        by_position = rotate(q_rotary, first) @ k_rotary[:, None].mT  # (B, H, n, m)
        return self.W_o(self.attend(q, c, by_position).transpose(1, 2).flatten(2))

    def weights(self, scores):  # (B, H, n, m): causal, the queries are the last n tokens
        n, m = scores.shape[-2:]
        future = torch.ones(n, m, dtype=torch.bool).triu(1 + m - n)
        return (scores / sum(self.sizes) ** 0.5).masked_fill(future, -math.inf).softmax(dim=-1)

    def attend(self, q, c, by_position):  # the explicit form: -> (B, H, n, d)
        k, v = self.by_head(self.W_uk(c)), self.by_head(self.W_uv(c))  # of all tokens, (B, H, m, d)
        return self.weights(q @ k.mT + by_position) @ v


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The class is on the student's page: show `forward` and `attend` there. What is
# computed again for each new word? The keys and values of all words; the next class avoids that.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The layer, absorbed
#
# Only `attend` changes: it multiplies the queries by $W_{uk}$ and the averaged latents by $W_{uv}$,
# and so needs neither keys nor values:


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainAbsorbedAttention(PlainLatentAttention):
    def attend(self, q, c, by_position):
        W_uk, W_uv = (W.weight.unflatten(0, (self.num_heads, -1)) for W in (self.W_uk, self.W_uv))
        c = c[:, None]  # (B, 1, m, L), and both matrices (H, d, L)
        weights = self.weights((q @ W_uk) @ c.mT + by_position)  # the query becomes (B, H, n, L)
        return weights @ c @ W_uv.mT  # the average of the latents, then the values' matrix


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Compare the two `attend`: where has W_uk gone?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same letters from 16 numbers per token
#
# Does the layer write the same with its cache as without? The smallest model that can write has an
# embedding, the layer, and a readout that scores 26 letters:


# %% slideshow={"slide_type": "-"}
embedding, readout = nn.Embedding(26, 48), nn.Linear(48, 26)
explicit = PlainLatentAttention(48, 4, head_size=12, latent_size=10, rotary_size=6)
absorbed = PlainAbsorbedAttention(48, 4, head_size=12, latent_size=10, rotary_size=6)


@torch.no_grad()
def write(layer, letters, steps, cache=None):  # letters (1, n) -> (1, n + steps)
    new = letters  # first the prompt, all of it at once
    for _ in range(steps):
        scores = readout(layer(embedding(new), cache))[:, -1]  # (1, 26), for the next letter
        following = scores.argmax(dim=-1, keepdim=True)  # (1, 1)
        letters = torch.cat([letters, following], dim=1)
        new = letters if cache is None else following  # without a cache: all letters again
    return letters


# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Trains the explicit form to repeat words of five letters, and copies it into the absorbed form
explicit(embedding(torch.zeros(1, 1, dtype=torch.long)))  # the first call fixes the sizes
absorbed(embedding(torch.zeros(1, 1, dtype=torch.long)))
parameters = [p for part in (embedding, explicit, readout) for p in part.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
for _ in range(200):
    words = torch.randint(26, (64, 5)).repeat(1, 3)  # (64, 15): random letters, three times
    guesses = readout(explicit(embedding(words[:, :-1])))[:, 4:]  # from the second time on
    loss = F.cross_entropy(guesses.flatten(0, 1), words[:, 5:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
_ = absorbed.load_state_dict(explicit.state_dict())
words = torch.randint(26, (500, 5)).repeat(1, 2)
with torch.no_grad():
    guesses = readout(explicit(embedding(words[:, :-1])))[:, 4:].argmax(dim=-1)
print(f"letters of 500 new words, repeated: {(guesses == words[:, 5:]).float().mean():.0%} right")

# %% [markdown] slideshow={"slide_type": "subslide"}
# In 200 steps, the model has learned to repeat words of five random letters. After *llama*, it now
# writes ten letters more: without a cache, with one, and with one in the absorbed form.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
prompt = torch.tensor([[ord(letter) - ord("a") for letter in "llama"]])  # (1, 5)
for layer, cache in ((explicit, None), (explicit, []), (absorbed, [])):
    written = "".join(chr(ord("a") + letter) for letter in write(layer, prompt, 10, cache)[0])
    print(written, "the cache holds", [tuple(kept.shape) for kept in cache or []])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The letters are the same, but without a cache the layer read $5 + 6 + \dots + 14 = 95$ tokens for
# them, and with one only 14. For each of these the cache holds $10 + 6 = 16$ numbers, where four
# heads with keys and values of their own would keep $2 \cdot 4 \cdot 12 = 96$.
#
# What does the absorbed form gain? It gains time, here for one more token after 2,000 in a larger
# layer:

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Times the next token of both forms: 16 heads of 64 numbers, a latent of 256, the median of 9 tries
large = dict(num_hiddens=1024, num_heads=16, head_size=64, latent_size=256, rotary_size=32)
for name, form in (("explicit", PlainLatentAttention), ("absorbed", PlainAbsorbedAttention)):
    layer, tries = form(**large), []
    with torch.no_grad():
        for _ in range(9):
            cache = [torch.randn(1, 2000, 256), torch.randn(1, 2000, 32)]
            token, begin = torch.randn(1, 1, 1024), process_time()
            layer(token, cache)
            tries.append(process_time() - begin)
    print(f"{name} {1000 * median(tries):5.1f} ms")

# %% [markdown] slideshow={"slide_type": "skip"}
# On one thread of a CPU, the absorbed form is several times as fast. Its outputs are the same:

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares both forms, with the cache and without, the package's layer, and multi-head attention
torch.manual_seed(0)
sizes = dict(num_hiddens=48, num_heads=4, head_size=12, latent_size=10, rotary_size=6)
X = torch.randn(1, 7, 48)
with torch.no_grad():
    output = explicit(X)  # all seven tokens at once
    for layer in (explicit, absorbed):
        cache = []
        one_by_one = torch.cat([layer(X[:, i : i + 1], cache) for i in range(7)], dim=1)
        torch.testing.assert_close(one_by_one, output, atol=1e-4, rtol=1e-4)
    print("explicit equals absorbed:", torch.allclose(absorbed(X), output, atol=1e-4))
package = MultiHeadLatentAttention(**sizes)
package(X)
package.load_state_dict(explicit.state_dict())
for how in (False, True):
    result = package(X, is_causal=True, absorbed=how)
    torch.testing.assert_close(result, output, atol=1e-4, rtol=1e-4)
kept = KeyValueCache()
parts = [package(X[:, i : i + 1], cache=kept, absorbed=True) for i in range(7)]
torch.testing.assert_close(torch.cat(parts, dim=1), output, atol=1e-4, rtol=1e-4)
assert kept.values.shape[-1] + kept.keys.shape[-1] == 10 + 6


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
# Two minutes. Run the three lines; follow `new` through one round of the loop. How many tokens does
# the layer read without a cache? 5 + 6 + ... + 14.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a latent saves
#
# DeepSeek-V3 has 671 billion parameters, and 128 heads of 128 numbers in 61 layers. Its latent has
# 512 numbers, the rotary key 64 (DeepSeek-AI, 2024). Is its cache larger than that of Llama 3.1 8B?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the cache of one token, from the shapes that the models' reports give
shapes = {model.name: model for model in (*PUBLISHED, *RECENT)}
v3, llama = shapes["DeepSeek-V3"], shapes["Llama 3.1 8B"]
own_keys = cache_bytes(v3.num_layers, v3.num_heads, v3.head_size, 1)
sizes_kib = {"Llama 3.1 8B": llama.bytes(1), "DeepSeek-V3": v3.bytes(1)}
sizes_kib["DeepSeek-V3 with all keys and values"] = own_keys
for name, size in sizes_kib.items():
    print(f"{name:38} {size / 2**10:7,.0f} KiB per token")

# %% [markdown] slideshow={"slide_type": "fragment"}
# No: with 84 times the parameters, DeepSeek-V3 keeps about half as much. **What it costs:** in the
# absorbed form, each head multiplies longer vectors, 576 numbers per score instead of 192. But
# since generation for a single user mostly waits for the memory (chapter 10), the smaller cache is
# worth these products.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the figures that the text names
assert (v3.latent_size, 2 * v3.num_heads * v3.head_size) == (576, 32768)
assert 0.5 < v3.bytes(1) / llama.bytes(1) < 0.55
assert f"{own_keys / 2**10:,.0f}" == "3,904"

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for a vote before the numbers: nearly all say DeepSeek's, which has 69 KiB
# against 128 (and 3,904 without the latent). For experts: with 128 heads on one latent, arithmetic
# may become the limit again.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Attention sinks: weights must sum to one
#
# What does a head do when nothing is worth looking at? If what it looks for is missing and all four
# scores are $-10$, what are its weights?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the weights of four scores of -10
scores = torch.full((4,), -10.0)
print("weights:", scores.softmax(dim=0))

# %% [markdown] slideshow={"slide_type": "fragment"}
# A quarter each: only differences count in a softmax, and its weights sum to one, so 'nothing fits'
# looks like 'all fit equally well'. Trained models often put this weight on a token that carries
# little information, mostly the first, which every query can see: an **attention sink** (Xiao et
# al., 2023).

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Collect votes: 'all 0' and 'a quarter each'. Only differences count.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A game with an idle head
#
# A small game, after Guo et al. (2024), produces a sink that we can watch. Each letter is drawn by
# chance and depends only on the letter before. From time to time a bell `*` rings, and after it the
# letter before the bell comes again (`<bos>` marks the beginning):
#
# `<bos> f c d * d a d k e * e b ...`
#
# In 350 steps on texts of 64 tokens, a small feed-forward network and one head with rotary
# positions learn to predict the next token. Only at a bell does the head have something to look up;
# at letters, it is idle.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room continue the text aloud: after k and a bell comes k.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same model with a window
#
# Now let the trained model read with a window of 16 tokens, as if its cache dropped the oldest.
#
# **Predict.** No letter needs an old token. Will the predictions at letters suffer nevertheless?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input", "nbval-ignore-output"]
# Trains the model, measures, and draws the losses
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
    "all 64": None,
    "latest 16": in_window,
    "latest 16 and <bos>": in_window | (position == 0),
}
torch.manual_seed(99)
bell_texts = bell_game(300)
read = bell_texts[:, :-1]
late = torch.arange(LENGTH) >= 20  # where the window has dropped <bos>
at_bell, at_letter = (read == BELL) & late, (read != BELL) & late
by_chance = torch.cat([0.85 * chances, torch.full((16, 1), 0.15)], dim=1)  # what follows a letter
best = -(by_chance * by_chance.log()).sum(dim=-1)[read[at_letter]].mean().item()
losses, writers, first = {}, {}, {}


def measure(name, seed):
    """Train this form from this start; its losses and the weight of <bos>, from position 20 on."""
    attention = {"attention": SinkAttention(1, 0.0)} if name == "with a sink" else {}
    model = writers[name, seed] = train_writer(seed, **attention)
    with torch.no_grad():
        for what, mask in VISIBLE.items():
            loss = loss_of(model, bell_texts, mask).view(-1, LENGTH)
            losses[name, seed, what] = [loss[at].mean().item() for at in (at_letter, at_bell)]
        weights = model(read, need_weights=True)[1][:, 0]
    first[name, seed] = weights[at_letter][:, 0].mean().item()  # all 64 tokens visible


def bell_table(*seeds):
    """Print the losses at letters and the weight of <bos> there, of both models for each start."""
    print(f"{'loss at letters, visible:':26}", *(f"{what:>19}" for what in VISIBLE), "  on <bos>")
    for seed in seeds:
        for name in ("softmax", "with a sink"):
            if (name, seed) not in writers:
                measure(name, seed)
            shown = (f"{losses[name, seed, what][0]:19.2f}" for what in VISIBLE)
            print(f"{f'{name}, start {seed}':26}", *shown, f"{first[name, seed]:9.0%}")


measure("softmax", 0)
often = bell_texts[:, 1:].flatten().bincount() / bell_texts[:, 1:].numel()
by_count = -often.log()[bell_texts[:, 1:]][at_letter].mean().item()  # knows how often each comes
with torch.no_grad():  # the window merely cuts weights off: the others stay as they were
    X = writers["softmax", 0].embedding(read)
    X = X + writers["softmax", 0].network(X)
    weights = writers["softmax", 0](read, need_weights=True)[1][:, 0] * in_window  # (B, n, n)
    head = writers["softmax", 0].head
    found = head.W_o(weights @ head.W_v(F.rms_norm(X, X.shape[-1:])))
    scores = writers["softmax", 0].readout(X + found)[at_letter]
    cut_off = F.cross_entropy(scores, bell_texts[:, 1:][at_letter]).item()
assert cut_off < 1.85 and abs(by_count - 2.63) < 0.02
print(f"weight of <bos> at letters: {first['softmax', 0]:.0%}")
bars = {f"model, {what}": losses["softmax", 0, what][0] for what in VISIBLE}
bars |= {"model, latest 16, old weights": cut_off, "guess: how often each comes": by_count}
bars |= {"guess: all 17 equally": math.log(17)}
figure, ax = plt.subplots(figsize=(9, 3.6))
fills = [RULE if name.startswith("guess") else INK for name in bars]
ax.bar_label(ax.barh(list(bars), bars.values(), color=fills), fmt="%.2f", padding=4)
ax.axvline(best, color=FORBIDDEN, linestyle="--", linewidth=1.5)
ax.set(xlim=(0, 3.2), xlabel="loss at letters; dashed: the best possible")
ax.invert_yaxis()
figure.suptitle("The loss rises only where other tokens get the weight of <bos>", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: bars of the loss at letters, from position 20 on. The model has about the best possible
# loss, 1.75, if it sees all 64 tokens, the latest 16 and the mark of the beginning, or the latest
# 16 with their old weights. With the latest 16 it is at about 2.6, near the guess by how often each
# token comes, 2.63, and the guess that all 17 are equally likely, 2.83.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Yes: the loss rises from 1.76 to about 2.6, hardly better than that of a guesser who knows only
# how often each token comes. This is why: at letters the head looks mostly at `<bos>`, which does
# almost nothing, since the vector that `<bos>` adds through the head is less than a fifth as long
# as that of a letter. If the latest 16 tokens keep their old weights and the rest is cut off, the
# loss stays low. So what hurts is the weight of `<bos>`, which the softmax hands to other tokens.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Nearly all say 'no harm', with a good reason. Read the bars from above: 1.76 to about
# 2.6, in another start to 3.63.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A sink of its own
#
# Could a head be silent without the help of `<bos>`? Give each head one more score $z$, which is
# learned and has no value vector, as OpenAI's gpt-oss (2025) does:
#
# $$\alpha_j = \frac{e^{a_j}}{e^{z} + \sum_m e^{a_m}} .$$
#
# With $z = -\infty$ this is the plain softmax. With $z = 0$, our four scores of $-10$ get 0.0002 in
# all, and the head is silent.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Which term lets the weights sum to less than one? That of the sink, because it has no
# value.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The game with a learned sink
#
# Does this one number help? Here is the same model with it:

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Trains the model with a sink, and compares; bell_table(1, 2, 3) trains both from other starts
bell_table(0)

# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
# Draws the weights of both heads of start 0 on one text
figure, axes = plt.subplots(1, 2, figsize=(10, 4.9))
names = [*"abcdefghijklmnop", "*", "bos"]
labels = [names[token] for token in bell_texts[1, :12].tolist()]
for ax, name in zip(axes, ("softmax", "with a sink"), strict=True):
    with torch.no_grad():
        weights = writers[name, 0](bell_texts[1:2, :12], need_weights=True)[1][0, 0]
    hatch_zeros(heatmap(ax, weights, labels, labels, vmax=1), weights)  # the future
    ax.set_title(name)
figure.suptitle("Start 0: at letters, weight on <bos>, with a sink hardly anywhere", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps of the weights of the heads of start 0 on 12 tokens. With a plain softmax
# the first column, of the mark of the beginning, is strong in the rows of all letters; in that of
# a bell the strong cell is the letter before it. With a sink the rows of letters are almost empty,
# and those of bells are as before.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Checks what the text says of the two models
for name in ("softmax", "with a sink"):
    whole, window, with_bos = (losses[name, 0, what] for what in VISIBLE)
    assert abs(with_bos[0] - whole[0]) < 0.05 and abs(whole[0] - best) < 0.05
    assert max(loss[1] for loss in (whole, window, with_bos)) < 0.1
    assert (window[0] - whole[0] > 0.1) == (name == "softmax")
model = writers["softmax", 0]
with torch.no_grad():
    X = model.embedding(torch.arange(NUM_LETTERS + 2))  # letters, bell, <bos>
    X = X + model.network(X)
    adds = model.head.W_o(model.head.W_v(F.rms_norm(X, X.shape[-1:]))).norm(dim=-1)
assert 0.03 < adds[BOS] / adds[:NUM_LETTERS].mean() < 0.2

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Find the row of a bell in both pictures, then the row of a letter.

# %% [markdown] slideshow={"slide_type": "skip"}
# In this start, the window costs nothing any more. Three other starts (stored; `bell_table` gives
# them) also lean on `<bos>`, with 75 to 100% of the weight. With the window, two become worse than
# guessing (3.08 and 3.63), and one suffers little (1.88). With a sink, two of the three lose
# nothing; start 1 uses `<bos>` again (91%) and loses 0.07. A learned sink is available, not
# compulsory.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Many windows, few global layers
#
# Can a model with windows still use the beginning of a long text? For this, some models mix their
# layers: most have a short window, and a few are **global** and see everything. Gemma 3 27B has 62
# layers, 10 of them global (Gemma Team, 2025); the others have windows of 1,024.
#
# **Predict.** A model reads 256 tokens with six layers, five of them with a window of 16. The
# global one may be the first, the middle or the last. For which of the three can information from
# the first token reach the last token?


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws, layer by layer, from how far back information reaches the last token
def reaches_back(layers, n=256):
    """From how many tokens back information reaches the last token, with these windows."""
    reached = torch.eye(n)  # (n, n): before the first layer each token knows itself
    distance = torch.arange(n)[:, None] - torch.arange(n)
    for window in layers:
        visible = (distance >= 0) & (distance < window)
        reached = (visible.float() @ reached > 0).float()
    return n - 1 - int(reached[-1].nonzero().min())


mixes = {"no global layer": [16] * 6}
for i, name in ((0, "first"), (3, "middle"), (5, "last")):
    mixes[f"the {name} is global"] = [256 if layer == i else 16 for layer in range(6)]
figure, axes = plt.subplots(1, 4, figsize=(11, 3.3), sharey=True)
for ax, (name, layers) in zip(axes, mixes.items(), strict=True):
    for i, window in enumerate(layers):  # of layer i's inputs, those that reach the last output
        back = reaches_back(layers[i:])
        fill = INK if window == 256 else RULE
        ax.barh(i, back + 1, left=255 - back, height=0.7, color=fill)
    ax.set(title=name, xlim=(0, 256), xticks=(0, 255), xlabel="token")
axes[0].set(ylabel="layer", yticks=range(6))
figure.suptitle(
    "One global layer anywhere opens a path from the first token to the last", fontsize=17
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four panels, a row for each of six layers, and in it a bar over the tokens that reach the
# last token from there. With windows only, the bar of layer 0 covers the latest 91 of 256 tokens.
# With a global layer, drawn strong, all 256 are covered from this layer down.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# For all three: one global layer anywhere opens a path. (Whether information survives on it is
# another matter.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. 'The last one' is the typical answer: 'there everything comes together'. Let someone
# draw the path for the first: it brings token 0 to the last token, which then keeps it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# How much does such a mixture keep?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Prints the cache of Gemma 3 27B, as published and with all layers global
gemma, whole = shapes["Gemma 3 27B"], cache_bytes(62, 16, 128, 131072)  # if all 62 were global
print(f"Gemma 3 27B, 131,072 tokens: {gemma.bytes(131072) / 2**30:.1f} GiB", end=", ")
print(f"all layers global: {whole / 2**30:.0f} GiB")
assert gemma.bytes(1024) == cache_bytes(62, 16, 128, 1024)  # the window is not yet full

# %% [markdown] slideshow={"slide_type": "fragment"}
# About a sixth. **What it costs:** only the few global layers can look far back, and their cache
# still grows with $n$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask for both numbers at 1,024 tokens: they are equal, because the windows are not
# yet full.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# So far each query looked at all keys, or at a window. Next, a state replaces the cache, or keys
# are chosen by their content.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The delta rule: erase before you write
#
# Linear attention keeps a state of fixed size, but chapter 9's only adds to it. If a key comes
# *again* with a new value, both values stay in. Could the new one replace the old?
#
# With the **delta rule** (Widrow and Hoff, 1960; for linear attention Schlag et al., 2021) it does.
# What the state answers to the new key, $k S$, is taken out, and the new value $v$ is put in:
#
# $$S \leftarrow S + \beta\, k^\top (v - k S) .$$
#
# If $k$ has length 1 and $\beta = 1$, the new state answers exactly $v$ to $k$, because $k S + k
# k^\top (v - k S) = v$. So that old pairs fade, **Gated DeltaNet** (Yang et al., 2025) also
# multiplies the state by a factor, its decay, before each step.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws one step of the delta rule
schematic("delta rule")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: one step as boxes and arrows. The key, (1, D), queries the state, (D, V), which answers k
# S. This answer is subtracted from the value v, (1, V), and the difference is multiplied by beta.
# The key enters a second time: the difference is written under it, and the product is added to the
# state. The new state has the same shape, (D, V).*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Where does the old state enter twice? Once it is queried, and once added to. What
# does a plain sum answer if the same key comes twice? Both values, added.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The delta rule, token by token
#
# In code, for n tokens:


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_delta_rule(queries, keys, values, beta, decay):  # (n, D), (n, D), (n, V), (n,), (n,)
    state, outputs = torch.zeros(keys.shape[1], values.shape[1]), []  # the state is (D, V)
    for t in range(len(keys)):
        state = decay[t] * state  # fade
        known = keys[t] @ state  # (V,): what the state answers to this key
        state = state + beta[t] * torch.outer(keys[t], values[t] - known)  # erase it, write v
        outputs.append(queries[t] @ state)  # (V,)
    return torch.stack(outputs), state  # (n, V), (D, V)


# %% [markdown] slideshow={"slide_type": "fragment"}
# By hand, with $\beta$ and the decay 1: the key $(1, 0)$ comes twice, with the values 5 and 7. A
# plain sum would end with 12, but the state answers 5 and then 7. The third key, $(0.6, 0.8)$, also
# has length 1 and overlaps with the first. Its value is 2, but the state already answers $0.6 \cdot
# 7 = 4.2$ to it, so $-2.2$ is written. The old key reads 0.6 of this: asked once more, it gets $7 -
# 0.6 \cdot 2.2 = 5.68$ instead of 7.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Writes 5 and then 7 under the same key, and 2 under one that overlaps with it
three_keys = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]])
answers, state = plain_delta_rule(
    three_keys, three_keys, torch.tensor([[5.0], [7.0], [2.0]]), torch.ones(3), torch.ones(3)
)
print("answers:", *(f"{answer:.2f}" for answer in answers[:, 0]))
print(f"the first key once more: {(three_keys[0] @ state).item():.2f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Do the steps on the board: before each, the state answers 0, 5 and 4.2. What would
# a plain sum answer the second time?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The look-up game again
#
# Does the rule also remember more? In a game like that of chapter 9, a state stores $n$ pairs of
# random keys and values, of 16 numbers each. A look-up of a key succeeds if its value is the
# nearest to the answer.
#
# **Predict.** With $\beta = 1$, does the delta rule find more of 8 pairs than plain sums, fewer, or
# the same?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the right answers of plain sums and of the delta rule, and measures their squared error


def look_up(n, times, seed=0, texts=200):
    """Store n keys, each `times` times with new values: right answers, squared errors, by age."""
    torch.manual_seed(seed)
    keys = F.normalize(torch.randn(texts, n, 16), dim=-1)
    values = torch.randn(texts, times, n, 16)
    all_keys, all_values = keys.repeat(1, times, 1), values.flatten(1, 2)  # (texts, times n, 16)
    state = delta_rule(all_keys, all_keys, all_values, torch.ones(texts, times * n))[1]
    found = []
    for answers in (keys @ (all_keys.mT @ all_values), keys @ state):
        latest = values[:, -1]
        right = torch.cdist(answers, latest).argmin(dim=-1) == torch.arange(n)
        error = (answers - latest).square().mean().item()
        found.append((right.float().mean().item(), error, right.float().mean(dim=0)))
    return found


print("right answers (squared error); the latest value counts    plain sums     delta rule")
for n, times in ((4, 1), (8, 1), (16, 1), (8, 2), (8, 8)):
    shown = [f"{right:7.0%} ({error:.2f})" for right, error, _ in look_up(n, times)]
    print(f"{n:2} keys, each written {times} times".replace("1 times", "once   "), end=" " * 24)
    print(*(f"{cell:>15}" for cell in shown))
by_age = [share for _, _, share in look_up(8, 1)]
print("8 keys, each written once: the oldest and the newest", end="  ")
print(*(f"{share[0]:9.0%}, {share[-1]:4.0%}" for share in by_age))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Fewer: 92% against 97%, although the rule's squared error is smaller. Random keys overlap a
# little, so each later step damages what the oldest stored (last row), as the third key did above.
# But where a key gets *new* values, plain sums mix them all, and after eight writings find the
# latest one in 41% of the cases, against 90%. This is what the rule is for.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks both findings with other draws
for seed in (1, 2, 3):
    (sums, sums_error, _), (delta, delta_error, _) = look_up(8, 1, seed)
    assert sums > delta + 0.03 and delta_error < 0.8 * sums_error
    (sums, _, _), (delta, _, _) = look_up(8, 8, seed)
    assert sums + 0.3 < delta
assert by_age[1][-1] == 1 and by_age[1][:3].mean() < by_age[1][-3:].mean()

# %% [markdown] slideshow={"slide_type": "skip"}
# **What it saves.** With $D = V = 128$, the state of a head has 16,384 numbers, as many as the keys
# and values of 64 tokens. **What it costs.** A state of fixed size must lose something of a long
# text, so models mix: Qwen3-Next (Qwen Team, 2025) and Kimi Linear (Kimi Team, 2025; a decay for
# each number of a key) have about three layers with such states for each layer of attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. The vote splits the room, and 'more' wins. Let them explain the 'fewer': which pair
# is always right? The last one. What is the decay good for? When the subject changes, everything
# old may go.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The indexer: choose keys by content
#
# What matters in a long text may be anywhere: a window misses it, and a state forgets it. Could a
# query find the few keys that it needs?
#
# An **indexer** (DeepSeek-V3.2, 2025) scores all past tokens cheaply, and the attention then reads
# only the best $k$ of them. The indexer is cheap because it has only a few small heads of queries,
# which share a single key per token, and neither a softmax nor values:
#
# $$I_{ts} = \sum_h w_{t,h}\, \mathrm{ReLU}\!\left(\frac{q_{t,h} \cdot k_s}{\sqrt d}\right)$$
#
# The weights $w_{t,h}$ come from the asking token $t$.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws who feeds what in a layer with an indexer
schematic("indexer")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two ways from the tokens, (n, D), to the output, (n, D). Below, the tokens give queries,
# keys and values to the attention. Above, the indexer scores all pairs, (n, n), the best k of each
# row are chosen, and this choice is the mask of the attention.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Which of the two ways is wide, and which cheap? The upper one sees all pairs, with few
# numbers each. Compare with attention: one key for all heads, a ReLU in place of the softmax, no
# values.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The indexer in code
#
# In the run below, a token has D = 64 numbers, the indexer H = 2 heads of d = 8:


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainIndexer(nn.Module):
    def __init__(self, num_hiddens, num_heads, head_size):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.Linear(num_hiddens, num_heads * head_size, bias=False)
        self.W_k = nn.Linear(num_hiddens, head_size, bias=False)  # one key, for all heads
        self.W_w = nn.Linear(num_hiddens, num_heads, bias=False)  # how much each head counts

    def forward(self, X):  # (*, n, D) -> scores (*, n, n)
        q = self.W_q(X).unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)  # (*, H, n, d)
        k = self.W_k(X)[..., None, :, :]  # (*, 1, n, d)
        products = (q @ k.mT / math.sqrt(k.shape[-1])).relu()  # (*, H, n, n), no softmax
        return (self.W_w(X).mT[..., None] * products).sum(dim=-3)  # summed over the heads


def best_keys(scores, k, causal=True):  # (*, n, n) -> bool (*, n, n): the best k of each row
    visible = torch.ones_like(scores, dtype=torch.bool).tril(0 if causal else scores.shape[-1])
    best = scores.masked_fill(~visible, -math.inf).topk(min(k, scores.shape[-1]), dim=-1).indices
    return torch.zeros_like(visible).scatter(-1, best, True) & visible


# %% [markdown] slideshow={"slide_type": "-"}
# The result of `best_keys` is the attention's mask. With $k = n$ it is the causal mask, so the
# layer is plain attention.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the page against the package's layer, and all keys chosen against plain attention
torch.manual_seed(0)
layer, X = IndexedAttention(12, 3, 4, index_heads=2, index_size=5), torch.randn(1, 9, 12)
_, chosen = layer(X, is_causal=True)
indexer = PlainIndexer(12, 2, 5)
indexer.load_state_dict(layer.indexer.state_dict())
assert torch.equal(best_keys(indexer(X), 4), chosen)
layer.num_chosen = 9
torch.testing.assert_close(layer(X, is_causal=True)[0], layer.attention(X, X, X, is_causal=True))

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask what the gradient of a choice is: there is none. So what trains the indexer?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Training the indexer to follow the attention
#
# How does an indexer learn what to choose? Since a choice has no gradient, the indexer learns to
# **follow** the attention, while the attention still reads all keys: the softmax of its scores
# should be near $p$, the mean of the heads' weights. Its loss is the divergence $\sum_s p_s \ln
# (p_s / \mathrm{softmax}(I)_s)$, averaged over the queries. Only later does DeepSeek let it choose.


# %% slideshow={"slide_type": "-"} tags=["build"]
def follow_loss(scores, weights):  # (B, n, n), (B, H, n, n) -> ()
    p = weights.mean(dim=1)  # (B, n, n)
    return F.kl_div(scores.log_softmax(dim=-1), p, reduction="none").sum(dim=-1).mean()


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A teacher and its indexers
#
# Our teacher is chapter 9's model, in which every token sees the whole text. In random order, a
# text has 16 statements, each a letter with a digit, and 16 questions, each a letter without one: n
# = 32 tokens. While the teacher stays as it is, an indexer for each of its two layers learns from
# 100 batches to follow it:

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Trains the teacher, then the two indexers by `follow_loss`
n = 32
teacher = train("plain", n, seed=0, steps=200)  # as in chapter 9
torch.manual_seed(0)
indexers = [PlainIndexer(64, 2, 8) for _ in range(2)]
optimizer = torch.optim.Adam([p for each in indexers for p in each.parameters()], lr=0.01)
generator = torch.Generator().manual_seed(2000)
for step in range(100):
    letters, digits, _, _ = texts(32, n, generator)  # (32, n) each; a question has no digit
    layers = inputs_and_weights(teacher, letters, digits)  # X (32, n, 64), weights (32, H, n, n)
    each = [follow_loss(index(X), w) for index, (X, w) in zip(indexers, layers, strict=True)]
    optimizer.zero_grad()
    sum(each).backward()
    optimizer.step()
    if step in (0, 99):
        print(f"step {step:2}: loss of the two indexers", *(f"{loss.item():.2f}" for loss in each))

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now each query reads only the 4 of 32 keys that its indexer chose. How many of the questions about
# far statements, more than 8 tokens away, are still answered?

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Two indexers, of 2 heads of 8 numbers, learned from 100 batches. Remind the room of
# chapter 9: with few links per token, windows and global tokens answered hardly anything far away.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the indexer finds

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Lets each query read the chosen keys only, and counts right answers to far questions
ways = {
    "indexer": lambda i, X, w, k: best_keys(indexers[i](X), k, causal=False),
    "the attention's own weights": lambda i, X, w, k: best_keys(w.mean(dim=1), k, causal=False),
    "a window of as many": lambda i, X, w, k: sliding_window_mask(n, window=k // 2),
}
print(f"far questions answered; all keys {shares_right(teacher, n)['farther']:.0%}")
print("keys per query", " " * 13, "4      2      1")
far = {}
for name, choose in ways.items():
    for k in (4, 2, 1):
        model = Chosen(teacher, lambda i, X, w, k=k, choose=choose: choose(i, X, w, k))
        far[name, k] = shares_right(model, n)["farther"]
    print(f"{name:27}", *(f"{far[name, k]:5.0%} " for k in (4, 2, 1)))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Nearly all: a question has one right statement, which the indexer rarely misses with 4 of 32 keys,
# while a window guesses about all that is far. (The attention's own choice, which needs all weights
# first, is only a yardstick.)

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Checks what the text says of this run
assert 34_000 < 2048 * 128 * (512 + 64 + 512) / (64 * 128) < 36_000  # heads times numbers, of V3.2
assert far["indexer", 4] > 0.95 and far["indexer", 1] < far["the attention's own weights", 1]
assert max(far["a window of as many", k] for k in (4, 2, 1)) < 0.2

# %% [markdown] slideshow={"slide_type": "skip"}
# In eight starts with 64 tokens and 300 batches (stored; `python -m
# d2l_attention.experiments.indexed --starts 8 --keys 8 1`), 8 chosen keys answer 100% each time,
# and a single one 81 to 96%, or 95 to 99% if the attention's own weights choose it: so most errors
# are the indexer's. How many keys a real text needs, this game does not say.
#
# **What it costs.** The indexer still scores *all* pairs. In DeepSeek-V3.2, where a query reads
# 2,048 keys, this takes more products than the attention from about 35,000 tokens on. And since any
# token may be chosen later, the cache keeps them all, and the indexer's keys as well.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Why does one link nearly suffice? Each question has one right statement.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which form to choose
#
# What would a layer keep in each form, if it had 32 heads of 128 numbers?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the numbers that one layer keeps, form by form
lengths = 2 ** torch.arange(8, 18)
kept = {
    "all heads": 2 * 32 * 128 * lengths,
    "8 key-value heads": 2 * 8 * 128 * lengths,
    "latent of 512 + 64": 576 * lengths,
    "8 heads, window of 1,024": 2 * 8 * 128 * lengths.clamp(max=1024),
    "states of the delta rule": (32 * 128 * 128) + 0 * lengths,
}
figure, ax = plt.subplots(figsize=(10, 4.2))
for (name, numbers), series in zip(kept.items(), SERIES, strict=False):
    ax.loglog(lengths, numbers, label=name, markersize=5, **series)
ax.set_xscale("log", base=2)
ax.set_xticks(lengths[::3], [f"{length:,}" for length in lengths[::3].tolist()])
ax.set(xlabel="tokens", ylabel="numbers kept in a layer")
title = "Groups and latents keep less per token; windows and states stop growing"
figure.suptitle(title, fontsize=17)
ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the numbers kept in one layer over the number of tokens, from 256 to 131,072, both axes
# logarithmic. The lines of all heads, of 8 key-value heads and of a latent rise in parallel, all
# heads highest. The window's line turns level at 1,024 tokens, and the line of the states is level
# everywhere; at short texts it is above the latent's.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# If every token must stay readable, take groups or latents. For long texts, give most layers
# windows or states, and a few layers the whole text. If reading itself takes too long, add an
# indexer, which saves no memory. Which mixture keeps the quality, only trained models can show
# (*What does it cost in quality?*).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Which two lines stop growing, and what do they lose?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - One latent per token keeps the cache small. In the absorbed form, it is the key of all heads.
# - Since the weights of a softmax sum to one, the idle head of our game put them mostly on the
#   first token. A window that dropped it hurt, little or much, in four of four starts; with a
#   learned sink, three of four lost nothing.
# - A single global layer anywhere opens a path over the whole text, and a few keep the cache small.
# - The delta rule replaces what a key said before. It found more of the rewritten keys than plain
#   sums did, but fewer of those written once.
# - An indexer scores all pairs cheaply and chooses keys by content. With 4 of 32 keys, nearly all
#   of our far questions were answered.
#
# **Next.** Chapter 12 shows attention that was wrong and passed its tests.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Homework: exercises 11.1 to 11.3.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what went wrong. `hint("11.1")` gives a
# hint, `solution("11.1")` the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.1** · by hand
#
# A decoder has 48 layers with 32 heads of 128 numbers each, and a number takes 2 bytes.
#
# - How many KiB does a token add to the cache in multi-head attention?
# - How many with a latent of 448 numbers and a rotary key of 64?
# - Another decoder has 48 layers with 8 key-value heads of 128 numbers. 8 layers are global, the
#   others keep the latest 1,024 tokens. How many MiB is its cache after 16,384 tokens?
#
# Give three numbers, such as `(1, 2, 3)`. 1 KiB is 1,024 bytes, 1 MiB is 1,024 KiB.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.2** · complete a function
#
# Write the mask of a cache that keeps the latest and the first tokens, as a function of positions
# that is True where a query sees a key. A visible key is not later than the query, and is one of
# the latest `window`, the query's own included, or one of the first `num_first`. `query` and `key`
# are tensors of positions, of shapes that broadcast.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.3** · derive, then complete a function
#
# The score of a token $x$ and a latent $c$, both rows, is $(x\, W_q^\top) \cdot (c\, W_{uk}^\top)$.
# Find on paper the matrix $M$ with the same score $x\, M\, c^\top$. Then write it for all heads:
# `W_q` (H, d, D) and `W_uk` (H, d, L) give `M` (H, D, L), without a root.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Each section can be read by itself.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Compressed caches: fewer entries than tokens
#
# *2 minutes.* With an indexer, the cache still has an entry for each token. Could one entry serve
# several tokens? Far away it can, as a weighted mean of their vectors, in which each coordinate has
# softmax weights of its own (DeepSeek-AI, 2026). In DeepSeek-V4-Flash (2026), all heads of queries
# share one key of 512 numbers, which is at the same time the value. Its 43 layers are of three
# kinds:
#
# | layers | kept | read |
# |---|---|---|
# | 2 | the latest 128 tokens | all of them |
# | 21 | these, and an entry for each 4 tokens | these, and 512 entries that an indexer picks |
# | 20 | these, and an entry for each 128 tokens | all of them |
#
# An entry for 4 tokens is a mean of 8, in which the 4 before count as well. An indexer keeps a
# small key of 128 numbers beside each of its entries, so a further token adds $21 \cdot (512 + 128)
# / 4 + 20 \cdot 512 / 128 = 3{,}440$ numbers:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the cache of a million tokens for three models
per_token = 21 * (512 + 128) / 4 + 20 * 512 / 128  # entries and the indexer's keys
print(f"V4-Flash: {per_token:,.0f} numbers for each further token")
for name, numbers in (("Llama 3 8B", 65_536), ("DeepSeek-V3", 35_136), ("V4-Flash", per_token)):
    print(f"{name:12} a million tokens: {numbers * 1e6 * 2 / 1e9:6.1f} GB at two bytes per number")

# %% [markdown] slideshow={"slide_type": "skip"}
# **What it costs.** What is far can be read in mixtures only. We have not measured how often a text
# needs a single far token.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let them compute the 3,440 themselves. What is lost? The single far token, unless one
# of the indexer's entries still shows it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Who uses what, November 2026
#
# *2 minutes.* The table describes twelve models, from configurations in the library `transformers`.
# Some are those of a published model, others the defaults of a class, from which a published model
# may differ; `who_uses_what()` says which is which. *Linear* layers keep a state, *chosen* ones
# have an indexer. *Keys* gives the number of key-value heads and their size, or the sizes of the
# latent and of the key beside it, which is rotary in all but Kimi Linear. An indexer mostly adds
# 128 numbers per token and layer (257 in GLM-5.3-Flash).

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Shows what twelve models are made of, computed from the installed library
models = "Llama 3 8B, Gemma 3 27B, gpt-oss-120b, Qwen3-Next, Kimi Linear, DeepSeek-V3, LFM3, "
models += "DeepSeek-V3.2, GLM-5.3-Flash, MiniMax-M3, Mistral Large 4, DeepSeek-V4-Flash"
columns = "model", "kinds of layers", "groups", "more", "cache"
table = who_uses_what()
rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
for shape in SHAPES:
    for row in (row for row in rows if row["model"] == shape.name):
        told = describe(shape.make())
        beside = f" + {told['latent, beside it']}" if "latent, beside it" in told else ""
        row["groups"] += beside if "latent" in told else f" of {told['head size']}"
rows = [tuple(row[name] for name in columns) for row in rows if row["model"] in models.split(", ")]
assert len(rows) == 12
replace(table, columns=("model", "layers", "keys", "more", "cache"), rows=tuple(rows))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two rows by hand: Qwen3-Next has 12 full layers, with 2 key-value heads of 256 numbers each. Since
# the states of the 36 linear layers keep their size, a further token adds only its keys and values
# there: $12 \cdot 2 \cdot 2 \cdot 256 = 12{,}288$ numbers. DeepSeek-V3.2 keeps a latent, a rotary
# key and the indexer's key in each layer: $61 \cdot (512 + 64 + 128) = 42{,}944$.

# %% [markdown] slideshow={"slide_type": "skip"}
# Layers can also share a cache: in cross-layer attention (Brandon et al., 2024), every second layer
# reads the keys and values of the layer before it. In Mistral Large 4, according to colibri's page
# on it, some layers read the latent of an earlier layer, and others keep no rotary key, so its
# cache is smaller than its columns suggest.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the rows by hand, and four others
told = {row[0]: row for row in rows}
assert told["Qwen3-Next"][1:3] == ("36 linear, 12 full", "2 of 256")
assert told["Qwen3-Next"][-1] == f"{12 * 2 * 2 * 256:,}"
assert told["DeepSeek-V3.2"][2:][::2] == ("latent of 512 + 64", f"{61 * (512 + 64 + 128):,}")
assert told["GLM-5.3-Flash"][2:][::2] == ("latent of 512", f"{11 * (512 + 257):,}")
assert told["GLM-5.3-Flash"][1] == "34 linear, 11 chosen"
assert told["MiniMax-M3"][1] == "3 full, 57 chosen blocks"
assert told["LFM3"][1] == "13 convolution, 6 full, 5 window"

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Pick a row together and say in words what the model is. Compute one by hand.
# Then ask what makes the column of caches differ.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What does it cost in quality?
#
# *2 minutes.* Our games are too small to say, but the makers of models have compared versions that
# they trained alike, with their own sizes and data. (MMLU has questions from 57 subjects, of which
# a guess answers 25%.)
#
# - **Groups**: with 7 billion parameters, MMLU is 45.2% if each head has its own keys, 41.2% with
#   8 key-value heads and 37.9% with one. (The parameters saved went into more layers: DeepSeek-V2,
#   2024, appendix D.)
# - **Latent**: two models of 16 and 250 billion parameters, of which a token uses only a part,
#   reach 50.0 and 59.0%, against 48.7 and 57.5% with multi-head attention. In one of four tests,
#   C-Eval, the smaller model is a little worse: 50.9 against 51.6% (the same appendix).
# - **Few global layers**: whether one layer in two is global or only one in eight, the perplexity
#   ($e$ to the loss) of text-only models of 2 and 9 billion parameters changes by at most 0.1, and
#   it is a mean over all tokens (Gemma Team, 2025, section 5.2, figure 3).
# - **Linear layers**: Kimi Linear, with 48 billion parameters, is better in most tasks than the
#   same model with latent attention throughout, and on long texts it has 54.5 against 52.2 on
#   average, although it is behind in three of the eight columns (Kimi Team, 2025, table 5).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Who compares, and with what? Each report is from the makers of a model.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A sink well above the best score silences the head
#
# *3 minutes.* Three scores are 0, the best one and the sink are yours. With a best score of 6, how
# far above 6 must the sink be for weights below 0.1 in all?

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows the view: weights of four keys and a sink


def draw_sink(figure, best=6.0, sink=5.0):
    weights = torch.tensor([0.0, best, 0.0, 0.0, sink]).softmax(dim=0)
    ax = figure.subplots()
    ax.bar(range(5), weights, color=4 * [WEIGHT] + [RULE])
    ax.set(
        ylim=(0, 1), ylabel="weight", title=f"The sink leaves {weights[:4].sum():.2f} for the keys"
    )
    ax.set_xticks(range(5), ["key 0", "best key", "key 2", "key 3", "sink"])


alt = "Weights of four keys and a sink, as bars, for a best score and a sink of your choice."
explore(draw_sink, figsize=(6.5, 3.8), alt=alt, best=(-2.0, 10.0, 0.5), sink=(-4.0, 12.0, 0.5))

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: an interactive view of five bars, the weights of four keys and of a sink. At a best score
# of 6 and a sink of 0 the best key has 0.99. At a sink of 6 the best key and the sink have half
# each, and at 12 the sink has nearly everything.*

# %% [markdown] slideshow={"slide_type": "skip"}
# In code, the sink is one score more, whose weight is cut off after the softmax:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_sink_attention(q, k, v, z):  # (B, H, n, d) three times, (H,) -> (B, H, n, d); causal
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, H, n, n)
    scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    sinks = z[:, None, None].expand(*scores.shape[:-1], 1)  # (B, H, n, 1): one score more
    return torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1] @ v  # without a value


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the package's sink against the page, and that it is plain attention where it is -inf
torch.manual_seed(0)
q, k, v = torch.randn(3, 2, 3, 5, 7)
layer = SinkAttention(3, 0.0)
with torch.no_grad():
    layer.sinks.copy_(torch.tensor([0.5, -1.0, 2.0]))
page = plain_sink_attention(q, k, v, layer.sinks)
torch.testing.assert_close(layer(q, k, v, is_causal=True), page)
with torch.no_grad():
    layer.sinks.fill_(-math.inf)
torch.testing.assert_close(layer(q, k, v), dot_product_attention(q, k, v))
silent = torch.tensor([-10.0] * 4 + [0.0]).softmax(dim=0)[:4].sum()
assert f"{silent:.4f}" == "0.0002"

# %% [markdown] slideshow={"slide_type": "skip"}
# A **gate** is another way to be silent: in Qwen3-Next (Qwen Team, 2025) it multiplies a head's
# output by $\sigma(x\, W_g^\top)$ of the asking token $x$ (Qiu et al., 2025).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The delta rule, all tokens at once
#
# *2 minutes.* A loop over tokens is slow to train. Can the steps be solved together? Token $t$
# writes $u_t = \beta_t (v_t - k_t S)$ under its key. Without fading, the state before it is $S =
# \sum_{j<t} k_j^\top u_j$. If we insert this into $u_t$ and bring the sum to the left, we get
#
# $$u_t + \beta_t \sum_{j < t} (k_t \cdot k_j)\, u_j = \beta_t v_t ,$$
#
# a triangular system of $n$ equations (Yang et al., 2024), which models solve chunk by chunk. (In a
# whole layer, such as the package's `GatedDeltaNet`, each token also determines its own $\beta$,
# its decay and a gate on the output.)


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_delta_at_once(queries, keys, values, beta):
    """The outputs (n, V) of `plain_delta_rule` without fading, by matrix products."""
    overlaps = (beta[:, None] * (keys @ keys.T)).tril(-1)  # (n, n)
    system = torch.eye(len(keys)) + overlaps
    written = torch.linalg.solve_triangular(system, beta[:, None] * values, upper=False)  # (n, V)
    return (queries @ keys.T).tril() @ written  # (n, V)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares it with the loop on 100 tokens
torch.manual_seed(0)
queries, keys, values = torch.randn(3, 100, 16)
keys = F.normalize(keys, dim=-1)
beta = torch.rand(100)
one_by_one, _ = plain_delta_rule(queries, keys, values, beta, torch.ones(100))
at_once = plain_delta_at_once(queries, keys, values, beta)
print("one by one equals at once:", torch.allclose(one_by_one, at_once, atol=1e-4))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Chosen blocks: a mean hides the best key
#
# *2 minutes.* An indexer can also choose whole blocks: MiniMax-M3 reads 16 blocks of 128 tokens,
# the query's own and those with the best keys (TensorRT-LLM's page on it). MoBA, the mixture of
# block attention (Lu et al., 2025), chooses more cheaply: it scores each block by the product of
# the query with the *mean* of its keys. What can a mean hide? Let the query be $(1, 0)$. Block 0
# has the keys $(1, 0)$ and three times $(-1, 0)$, block 1 four times $(0.1, 0)$:

# %% slideshow={"slide_type": "fragment"}
blocks = torch.tensor([[[1.0, 0]] + [[-1.0, 0]] * 3, [[0.1, 0]] * 4])  # (2 blocks, 4 keys, 2)
means = blocks.mean(dim=1)  # (2, 2)
print("chosen block:", (means @ torch.tensor([1.0, 0.0])).argmax().item())

# %% [markdown] slideshow={"slide_type": "skip"}
# The best key is in block 0, but the three opposite keys of its block outvote it: the mean is
# $(-0.5, 0)$. In the indexer's game with 64 tokens, the query's own block of 4 and the best other
# one answer only 55 to 58% of far questions in eight starts (this rule, unlike the indexers, was
# not trained).

# %% [markdown] slideshow={"slide_type": "notes"}
# The needle on the board, before the cell runs, with means.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### FlexAttention: a mask as a rule
#
# *5 minutes.* A mask of shape $(n, n)$ saves nothing, because the kernel computes every score and
# then hides it (chapter 9). PyTorch's **FlexAttention** (Dong et al., 2024) takes a **rule**
# instead of a mask, a function of the positions of a query and a key:


# %% slideshow={"slide_type": "-"}
def near_past(query, key):
    return (key <= query) & (query - key < 128)  # the latest 128 keys, its own included


# %% [markdown] slideshow={"slide_type": "fragment"}
# The rule determines, before any score is computed, which **blocks** of 128 queries and 128 keys
# are empty. The kernel leaves these out, and evaluates the rule only in blocks that are partly
# full.
#
# **Predict.** 1,024 tokens make $8 \cdot 8 = 64$ blocks. How many of them does `near_past` need?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the blocks that hold a visible pair, and checks them against PyTorch's


def rule(batch, head, query, key):
    return near_past(query, key)


positions = torch.arange(1024)
visible = near_past(positions[:, None], positions)  # (n, n): only to look at it
needed = visible.unflatten(0, (8, 128)).unflatten(2, (8, 128)).any(dim=3).any(dim=1)  # (8, 8)
print(f"needed: {needed.sum()} of {needed.numel()} blocks")
block_mask = create_block_mask(rule, 1, 1, 1024, 1024, device="cpu")
counted = block_mask.kv_num_blocks + block_mask.full_kv_num_blocks
assert counted.sum() == needed.sum() and block_mask.full_kv_num_blocks.sum() == 0
assert torch.equal(sliding_window_mask(1024, window=127) & causal_mask(1024), visible)

# %% [markdown] slideshow={"slide_type": "skip"}
# The 8 on the diagonal are needed, and the 7 below them, because the first queries of a block look
# into the block before.
#
# `torch.compile` turns the rule into a kernel. The first call compiles, which takes seconds; there
# is no backward pass on the CPU, so training needs a GPU; and without `torch.compile`, the whole
# matrix of scores is made. For 4,096 tokens and a window of 128 keys before and 128 after the
# query's own, the kernel took 0.15 of the time of the fused kernel without a mask, where a dense
# mask took 2.0 (stored figures of `python -m tests.benchmarks.flex`, one head of 64 numbers,
# forward only, on one thread of the authors' CPU).

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the blocks before the cell runs: most count the diagonal only, 8, and forget that a query
# at the start of a block looks into the block before: 8 + 7.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Longer than trained
#
# *4 minutes.* Chapter 7's reader with rotary positions was trained on texts of 16 letters. From
# about position 34 on it begins to fail, because far letters rotate the slow pairs by angles that
# training never showed. But the speeds of a trained model can be changed so that long distances
# look like short ones:
#
# - A **larger base** slows all pairs but the first (Xiong et al., 2023; theirs is 500,000).
# - **Interpolation** slows all pairs: with $f = 4$, a distance of 4 rotates them as 1 did (Chen et
#   al., 2023).
# - **YaRN's speeds** interpolate only the pairs that hardly turned round in training (Peng et al.,
#   2023).
#
# Chapter 7's two games ask for the letter three positions back (*three back*), and for the latest
# capital (*last capital*). For each, a reader with one attention layer (four heads of 8 numbers) is
# trained for 200 steps on 16 letters, from one start. Then its speeds are exchanged, with $f = 4$.
# A guess is right in one of eight.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Computes the speeds of the pairs in four ways
def stretched(d, f, base=10000, trained=16):
    """Speeds (d / 2,) of the pairs, in four ways; pair 0 rotates fastest."""
    powers = -torch.arange(0, d, 2, dtype=torch.float64) / d  # 0 for the fastest pair
    plain = base**powers
    turns = trained * plain / (2 * math.pi)  # how often a pair turned round in training
    kept = ((turns - 0.25) / (2.5 - 0.25)).clamp(0, 1)  # 1 from 2.5 turns on, 0 up to 0.25
    return {
        "plain": plain,
        "larger base": 1_000_000**powers,  # whatever f is
        "interpolation": plain / f,
        "YaRN": kept * plain + (1 - kept) * plain / f,
    }


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the four ways against the package, and that a factor of 1 is plain rotary
for f in (1.0, 4.0):
    ours = {
        "plain": rotary_speeds(8),
        "larger base": rotary_speeds(8, 1_000_000),
        "interpolation": interpolated_speeds(8, f),
        "YaRN": yarn_speeds(8, f, 16, few_turns=0.25, many_turns=2.5),
    }
    for name, speeds in stretched(8, f).items():
        torch.testing.assert_close(speeds, ours[name])
        if f == 1 and name != "larger base":
            torch.testing.assert_close(speeds, ours["plain"])

# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
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


def train_reader(model, game, length, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
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


figure, axes = plt.subplots(1, 2, figsize=(10.5, 4), sharey=True)
right, readers = {}, {}
for ax, game in zip(axes, (three_back, last_capital), strict=True):
    torch.manual_seed(0)
    reader = Reader()
    reader(game(1, 16)[0])
    train_reader(reader, game, 16, 200)
    readers[game.__name__] = reader
    for (name, speeds), series in zip(stretched(8, 4).items(), SERIES, strict=False):
        other = copy.deepcopy(reader)
        other.attention.positions.speeds = speeds
        curve = right[game.__name__, name] = right_answers(other, game)
        ax.plot(range(3, 64), curve[3:], label=name, markevery=6, **series)
    ax.axvline(15.5, color=RULE)  # where training ended
    ax.set(xlabel="position", title=game.__name__.replace("_", " "), ylim=(0, 1.05))
axes[0].set(ylabel="right answers")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
figure.suptitle("Interpolation loses exact distances, plain speeds fail further on", fontsize=17)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the share of right answers over the position, up to 63, for two games; a line marks where
# training ended. Three back: interpolation falls below 20% within a few positions. Plain speeds are
# above 90% up to position 33 and then fall to a guess, while a larger base and YaRN stay at about
# 90% or more. Last capital: only plain speeds fall, from position 40 on.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Checks what the text says of the four ways
back = {name: right["three_back", name] for name in stretched(8, 4)}
assert back["plain"][3:16].mean() > 0.95 and back["plain"][32:].mean() < 0.5
assert back["interpolation"][3:].mean() < 0.35
capital = {name: right["last_capital", name][32:].mean() for name in stretched(8, 4)}
for name in ("larger base", "YaRN"):
    assert back[name][3:16].mean() > 0.95 and back[name][32:].mean() > 0.9
for name in ("larger base", "interpolation", "YaRN"):
    assert capital[name] > capital["plain"] + 0.1
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
reader.attention.positions.speeds = yarn_speeds(8, 4, 16, few_turns=1, many_turns=32)
assert right_answers(reader, three_back)[3:].mean() < 0.35  # the paper's limits

# %% [markdown] slideshow={"slide_type": "skip"}
# Only interpolation loses *three back* at once. The head has learned which rotation belongs to a
# distance of 3, and with speeds four times slower it finds this rotation at a distance of 12. A
# larger base never touches the fastest pair. YaRN spares it because we lowered its limit to 2.5
# turns; with the paper's 1 and 32 turns, it fails like interpolation. For *last capital*, which
# asks roughly how recent something is, interpolation does well. One toy run cannot tell which way
# is best for a large model.

# %% [markdown] slideshow={"slide_type": "notes"}
# Which way touches pair 0, the fastest? Only interpolation. From that the room can say who fails at
# *three back*.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### QK-norm and soft-capping
#
# *1 minute.* Chapter 3 divided by $\sqrt d$, so that scores of vectors with unit variance have unit
# variance. In training the vectors may grow, and the softmax saturates again. **QK-norm** (after
# Henry et al., 2020) first divides every query and key by its root mean square. Without its learned
# factors, a score is then at most $\sqrt d$. **Soft-capping** (Gemma 2, 2024) bends a large score
# $a$ to $50 \tanh(a / 50)$, between $-50$ and 50. Gemma 3 (2025) has QK-norm instead.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.4** · find the bug
#
# `attend_with_sink` should give $\sum_j \alpha_j v_j$ with the weights of *A sink of its own*:
# scores (H, Q, K), values (H, K, V), one learned sink per head, (H,), output (H, Q, V). Hidden
# scores are -inf. A query whose scores are all -inf gets 0. Scores and sinks may be as large as
# 1,000. The function has three bugs. Repair them.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.5** · complete a function
#
# Write one token of the gated delta rule, for all heads: fade the state by `decay`, query it with
# the key, write `beta` times the difference to the value under the key, and answer the query. Query
# and key are (H, D), the value is (H, V), `beta` and `decay` are (H,), the state is (H, D, V).
# Return the output (H, V) and the new state. Gradients reach all six inputs, and the state that
# came in does not change.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.6** · complete a function
#
# The *Differential Transformer* (Ye et al., 2024) computes two softmaxes and subtracts a share of
# the second from the first, so that what both do cancels. The first half of the columns of queries
# and keys gives the first weights, the second half the second ones. There is no mask. Gradients
# reach all four inputs.

# %% [markdown] slideshow={"slide_type": "skip"}
# **11.7** · write the test
#
# Your test takes a function `choose(queries, keys)`, which chooses blocks by their means, as in
# *Chosen blocks: a mean hides the best key*, for all queries, and returns the mask: n tokens, a
# multiple of 4, in blocks of 4. Each query sees the tokens of its own block up to itself, and some
# earlier blocks. The test returns silently where neither the mask nor the choice knows the future.
# It raises an `AssertionError` for each of four broken ones:
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
#   Model*, 2024, arXiv:2405.04434. Section 2.1, appendices C, D. *DeepSeek-V3 Technical Report*,
#   2024, arXiv:2412.19437. *DeepSeek-V3.2: Pushing the Frontier of Open Large Language Models*,
#   2025, arXiv:2512.02556. *DeepSeek-V4: Towards Highly Efficient Million-Token Context
#   Intelligence*, 2026, arXiv:2606.19348; the layers of V4-Flash are those of its config.json.
# - J. Ainslie et al., *GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
#   Checkpoints*, EMNLP 2023, arXiv:2305.13245.
# - Llama Team, *The Llama 3 Herd of Models*, 2024, arXiv:2407.21783.
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
#   Language Models*, ICLR 2024, arXiv:2309.00071. Sections 3.1 to 3.3.
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
# - W. Brandon et al., *Reducing Transformer Key-Value Cache Size with Cross-Layer Attention*, 2024,
#   arXiv:2405.12981.
# - Of models in the installed library: colibri, *Mistral-Large-4*, 2026, docs/mistral-large4.md on
#   github.com/JustVugg/colibri (which layers share a latent); TensorRT-LLM's page on MiniMax-M3,
#   2026 (which layers choose blocks).
# - T. Ye et al., *Differential Transformer*, 2024, arXiv:2410.05258.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.5.
#   [d2l.ai](https://d2l.ai)
