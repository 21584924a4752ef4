# %% [markdown] slideshow={"slide_type": "slide"}
# # 8 · The Transformer
#
# **You will**
# - build a translator without an RNN from parts that you can check by hand;
# - train it against chapter 5's, and see where heads look when 'it' asks;
# - decode with a key-value cache, and break masks and positions to see what they are for.
#
# Core path: 60 minutes. Exercises: 80. Two cells train, one to three minutes together. Builds on
# chapters 5, 6 and 7. *Dive into Deep Learning* (D2L) treats the subject in section 11.7.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy
import time

import matplotlib.pyplot as plt
import torch
from torch import nn

from d2l_attention import (
    AddNorm,
    MultiHeadAttention,
    PositionWiseFFN,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
    check_shape,
    show_source,
)
from d2l_attention.data import BOS, EOS, Vocab, load, make_batch
from d2l_attention.models.decoding import beam_search, greedy_decode, translate
from d2l_attention.models.seq2seq import EncoderDecoder, sequence_loss
from d2l_attention.training import LEARNING_RATES, MODELS, train
from d2l_attention.training.evaluation import evaluate
from d2l_attention.training.metrics import (
    align_by_attention,
    align_diagonally,
    alignment_error_rate,
    bleu,
)
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is 'it'?
#
# *The old doctor took the good orange and ate it.* In French:
# *le vieux médecin a pris la bonne orange et l' a mangée.*
#
# *The old doctor took the good cake and ate it.* In French:
# *le vieux médecin a pris le bon gâteau et l' a mangé.*
#
# **Predict.** *mangée* or *mangé*: the two sound the same. Which English word decides which of them
# is written? How many places before 'it' does that word stand?

# %% [markdown] slideshow={"slide_type": "fragment"}
# The noun decides, three places before 'it': an orange is feminine in French, a cake is not.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let them vote by hands for 'took', 'good', 'orange' and 'ate'; ten seconds. Expect votes for
# 'ate', because it stands beside 'it'. Whoever knows no French: English has the same trouble with
# 'the trophy does not fit into the suitcase because it is too big' (H. J. Levesque, E. Davis,
# L. Morgenstern, *The Winograd Schema Challenge*, KR 2012). Ask what 'it' is, then exchange 'big'
# for 'small'. The French sentence is better here because the answer is one letter that can be
# counted.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Chapter 5's translator had attention for the way from French to English. Within each language a
# GRU did the work, and a GRU hands everything from word to word.
#
# Attention looks anywhere in one step. So throw out both GRUs, and let attention do the reading and
# the writing, too. What would be missing?

# %% [markdown] slideshow={"slide_type": "fragment"}
# | attention alone | what is added | where |
# |---|---|---|
# | only averages | a small network for each token | below |
# | is hard to stack | residual connections, layer norm | below |
# | does not know the order | positions | chapter 7 |
# | sees words that are not written yet | a mask | chapter 4, and below |
#
# That is the **Transformer** (Vaswani et al., 2017). The rest you know: embeddings, several heads,
# and a linear layer that scores the words.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask what would be missing before the table comes; half a minute in pairs. 'The order' comes at
# once, from chapter 7. 'It sees the answer' comes from whoever remembers chapter 4. The first row
# is the hard one: that attention only averages is the next section.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A network for each token
#
# Let a token look at itself alone. Then attention is a linear map, $W_o W_v x$, and a linear map
# cannot even say how far apart a token's two numbers are: $|x_1 - x_2|$. A network with two hidden
# units can:
#
# $$\max(0,\, x_1 - x_2) + \max(0,\, x_2 - x_1)$$
#
# **Predict.** Tokens $(3, 1)$, $(1, 3)$ and their average $(2, 2)$. What comes out for each?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Sets the two hidden units by hand, and gives them the three tokens
ffn = PositionWiseFFN(ffn_num_hiddens=2, ffn_num_outputs=1)
tokens = torch.tensor([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
ffn(tokens)  # the first call fixes the sizes
with torch.no_grad():
    ffn.dense1.weight.copy_(torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))
    ffn.dense2.weight.fill_(1.0)
    ffn.dense1.bias.zero_()
    ffn.dense2.bias.zero_()
print(ffn(tokens).flatten().tolist())
assert ffn(tokens).flatten().tolist() == [2, 2, 0]

# %% [markdown] slideshow={"slide_type": "fragment"}
# 2, 2, and 0. A linear map sends the average of two tokens to the average of their results,
# which is 2. The bend of the ReLU makes the difference.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute with pencil and paper. The first two are easy. If somebody says 2 for the third, for
# 'it is the average', let them defend it: that is what a linear map would do.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The package's class is just that, wider. It is called **position-wise**: the same network for
# every token.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Shows the source of PositionWiseFFN.forward
show_source(PositionWiseFFN.forward)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Change the third of five tokens. Which of the five results move?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Changes the third token, and looks which results move
torch.manual_seed(0)
ffn, X = PositionWiseFFN(7, 3), torch.randn(2, 5, 3)
Y = ffn(X)
check_shape(Y, (2, 5, 3))

order = torch.tensor([3, 0, 4, 1, 2])
torch.testing.assert_close(ffn(X[:, order]), Y[:, order])  # tokens move, results move along

other = X.clone()
other[:, 2] = 9.0
changed = (ffn(other) - Y).abs().amax(dim=-1) > 1e-6
print(changed[0].tolist())
assert changed.tolist() == [[False, False, True, False, False]] * 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# One token was changed, one result moved: no token hears of another. So there are two kinds of
# work, and they take turns: attention carries between tokens, the network works within each.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Residuals: leave a way open
#
# A layer with small weights has a small slope, say 0.1.
#
# **Predict.** Ten such layers on top of each other. Move the bottom by 1. By how much does the top
# move? And if each layer *adds* its result to its input, so that its slope is $1 + 0.1$?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Works out both slopes
print(f"replaced: {0.1**10:.0e}   added: {1.1**10:.1f}")
assert 1.1**10 > 2.5 and 0.1**10 < 1e-9

# %% [markdown] slideshow={"slide_type": "fragment"}
# $0.1^{10}$: next to nothing arrives. $1.1^{10}$: the 1 is a way from the bottom to the top that
# stays open, however small a layer's own slope. That is a **residual connection** (He et al.,
# 2016).

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two questions, two votes, half a minute each. For the second expect 'ten times 0.1 more, so 2'.
# That is near enough: what counts is ten zeros or none.

# %% [markdown] slideshow={"slide_type": "subslide"}
# How large is the gradient at the bottom of 1 to 24 real networks, if each of them does `X =
# ffn(X)`? And if each does `X = X + ffn(X)`?


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws the gradient at the bottom against the number of networks
def gradient_at_the_bottom(depth, residual):
    torch.manual_seed(0)
    bottom = torch.randn(2, 5, 32, requires_grad=True)
    X = bottom
    for _ in range(depth):
        Y = PositionWiseFFN(64, 32)(X)
        X = X + Y if residual else Y
    X.sum().backward()
    return bottom.grad.norm().item()


depths = [1, 3, 6, 12, 24]
arrives = {r: [gradient_at_the_bottom(d, r) for d in depths] for r in (True, False)}
figure, ax = plt.subplots(figsize=(8, 4))
ax.semilogy(depths, arrives[True], "o-", label="X + ffn(X)")
ax.semilogy(depths, arrives[False], "s--", label="ffn(X)", color="#d95f02")
ax.set(xlabel="networks on top of each other", ylabel="gradient at the bottom")
ax.set_title("With residuals the gradient arrives")
ax.legend(loc="center right")
plt.show()
assert 18 < min(arrives[True]) and max(arrives[True]) < 30 and arrives[False][-1] < 1e-9

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the gradient at the bottom against the number of networks, on a logarithmic axis. With
# residuals it rises slowly, from 19 to 30. Without, a straight fall from 5 to about 10 to the power
# of minus 15 at 24 networks.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# A residual asks a layer only for a *correction*. The price: to be added, input and output must
# have the same size. So every vector that passes between sublayers has `num_hiddens` numbers, from
# the embedding to the last block.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Layer norm, by hand
#
# Sums grow. So after each sum the numbers are put back into a range: subtract the mean, divide by
# the standard deviation. **Layer norm** does so for each token on its own.
#
# **Predict.** A token $(2, 2, 5)$. Its mean? Its variance, the mean of the squared deviations? What
# comes out?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Works out mean, deviations and variance, and compares with nn.LayerNorm
token = torch.tensor([2.0, 2.0, 5.0])
deviations = token - token.mean()
variance = (deviations**2).mean()
print(f"mean {token.mean():.0f}, deviations {deviations.tolist()}, variance {variance:.0f}")
by_hand = deviations / variance.sqrt()
print("layer norm", [round(x, 2) for x in by_hand.tolist()])
torch.testing.assert_close(nn.LayerNorm(3)(token), by_hand)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Mean 3, deviations $-1, -1, 2$, variance $6/3 = 2$, so $(-1, -1, 2) / \sqrt 2$. Divide by $n$:
# `torch.std` divides by $n - 1$ unless told.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** Ten times the token, $(20, 20, 50)$: what comes out?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Normalises the token, and ten times the token
for some in (token, 10 * token):
    print(some.tolist(), "->", [round(x, 2) for x in nn.LayerNorm(3)(some).tolist()])
torch.testing.assert_close(nn.LayerNorm(3)(10 * token), by_hand, atol=1e-5, rtol=0)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute with pencil and paper for the first, a show of hands for the second. Somebody gets
# $(-0.58, -0.58, 1.15)$: divided by $n - 1$. Good, ask which of the two the norm takes. For ten
# times the token expect 'ten times as much' from a few.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Layer norm takes mean and variance over the numbers of one token. **Batch norm** in training mode
# takes them over the batch: the first number of all tokens of all sentences, the second of all, and
# so on.
#
# **Predict.** *Another* sentence of the batch changes. Does this one's result change with layer
# norm? With batch norm?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Changes the second sentence, and measures how far the first one moves
torch.manual_seed(0)
X = torch.randn(2, 4, 3)  # two sentences of four tokens
other = torch.cat([X[:1], 9 * X[1:]])  # the second one changed
layer, batch = nn.LayerNorm(3), nn.BatchNorm1d(3)
moved = {
    "layer norm": (layer(other) - layer(X))[0].abs().max().item(),
    "batch norm": (batch(other.flatten(0, 1)) - batch(X.flatten(0, 1)))[:4].abs().max().item(),
}
for name, far in moved.items():
    print(f"{name}: the first sentence moves by {far:.2f}")
assert moved["layer norm"] == 0 and moved["batch norm"] > 0.1

# %% [markdown] slideshow={"slide_type": "fragment"}
# Layer norm forgets the size of a token and looks at nobody else: not at the padding, not at the
# length of the neighbour. What sentences need.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ten seconds, by hands, once for each norm. Then ask what that means for training: with batch norm
# a sentence is read differently, depending on who else is in the batch. (In evaluation mode batch
# norm takes averages that it has kept from training.)

# %% [markdown] slideshow={"slide_type": "skip"}
# (Then each of a token's numbers gets a factor and a shift of its own. Both are learned and begin
# as 1 and 0.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Before or after?
#
# A sublayer $f$ is attention or the network. With a residual and a norm there are two orders:
#
# | | formula | the sum | at the top |
# |---|---|---|---|
# | **post-norm** | $\mathrm{ln}(X + f(X))$ | is normalised at once | nothing more |
# | **pre-norm** | $X + f(\mathrm{ln}(X))$ | is never normalised | one last layer norm |
#
# The paper's text and its figure 1 are post-norm; so is the book, and so is our default. Many later
# models are pre-norm. Xiong et al. (2020) report that it trains at larger learning rates and
# without a warm-up; we do not try that here.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask: in which of the two does a gradient come down through all blocks without meeting a norm? Give
# them half a minute to draw it. In pre-norm: there is a path with nothing but plus signs. If
# somebody asks which one is 'right': the notebook goes on with a third formula, which a reader
# proposed as a correction, and shows that all three differ.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows the source of AddNorm
show_source(AddNorm)

# %% [markdown] slideshow={"slide_type": "skip"}
# Prose mixes them up. *The Annotated Transformer* explains the paper's post-norm, above code that
# is pre-norm, and readers have asked about it for years. One proposes as a correction a third
# formula: $X + \mathrm{ln}(f(X))$. Are they perhaps the same?

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the three formulas differ, and which two AddNorm computes
torch.manual_seed(0)
X, f, ln = torch.randn(2, 5, 8), nn.Linear(8, 8), nn.LayerNorm(8)
post, pre, third = ln(X + f(X)), X + f(ln(X)), X + ln(f(X))
for one, other in ((post, pre), (pre, third), (post, third)):
    assert (one - other).abs().max() > 0.5  # three formulas, three functions

layer = AddNorm(8, dropout=0.0)
torch.testing.assert_close(layer(X, f(layer.before(X))), post)
layer = AddNorm(8, dropout=0.0, pre_norm=True)
torch.testing.assert_close(layer(X, f(layer.before(X))), pre)
print("checked: the three give different results; AddNorm gives post-norm or pre-norm")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** 24 blocks, untrained. The size of a token is here the standard deviation of its
# numbers. What is it after the last block, with post-norm and with pre-norm? So what is pre-norm's
# layer norm at the top for?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Measures the size of a token after each of 24 blocks, for both orders
sizes, encoders = {}, {}
print("after block", *(f"{block:4}" for block in (1, 7, 13, 19, 24)))
for name, pre_norm in (("post-norm", False), ("pre-norm", True)):
    torch.manual_seed(0)
    encoder = TransformerEncoder(50, 32, 64, 4, num_blks=24, dropout=0.0, pre_norm=pre_norm)
    X = encoder.embed(torch.randint(50, (2, 7)))
    sizes[name] = []
    for block in encoder.blks:
        X = block(X)
        # correction=0: divided by n, as the norm does
        sizes[name].append(X.std(dim=-1, correction=0).mean().item())
    print(f"{name:11}", *(f"{sizes[name][i]:.2f}" for i in (0, 6, 12, 18, 23)))
    encoders[name] = encoder

assert all(abs(size - 1) < 1e-3 for size in sizes["post-norm"])
assert sizes["pre-norm"][-1] > 1.5 * sizes["pre-norm"][0]  # a sum that grows with each block
assert isinstance(encoders["post-norm"].ln, nn.Identity)
assert isinstance(encoders["pre-norm"].ln, nn.LayerNorm)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Pre-norm blocks leave behind a sum, and it grows. Whoever reads it, the decoder or the last linear
# layer, would get numbers that depend on the depth. The last norm puts them right. (For those
# who turn a post-norm model into a pre-norm one: it is easily forgotten, and nothing crashes.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Post-norm is easy: 1, whatever the depth. For pre-norm collect guesses before the table comes: 1,
# 2, 24, 'explodes'. Twice the size after 24 blocks looks harmless, but these are untrained.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The whole of it
#
# ```
#                                    score of each French word
#                                               |
#   English, as read  --------+              linear
#         |                   |                 |
#   +-----------+             |      +---------------------+
#   |  network  |             |      |       network       |
#   |     |     |  2 blocks   |      |          |          |  2 blocks
#   | attention |             +----> | attention, English  |
#   +-----------+                    |          |          |
#         |                          |  attention, past    |
#    + positions                     +---------------------+
#     embedding                                 |
#         |                                + positions
#   the good orange                         embedding
#                                               |
#                                         <bos> la bonne
# ```
#
# On the left the encoder, on the right the decoder. Each line in a box is a sublayer, with a
# residual and a norm around it. All blocks of the decoder ask the encoder's last output.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Stay for two minutes. Let one student tell how 'orange' gets from the lower left to the score of a
# French word, naming each box. Then ask where the 24 heat maps of the later section come from:
# three boxes named attention, two blocks, four heads.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A block of the encoder is one call of attention and one of the network, each wrapped. What comes
# out has the shape of what went in: so blocks can be stacked.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Shows the source of TransformerEncoderBlock.forward
show_source(TransformerEncoderBlock.forward)

# %% [markdown] slideshow={"slide_type": "skip"}
# And the padding? Whatever stands there, the real words must come out the same.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that real words do not change with what stands in the padding
torch.manual_seed(0)
block = TransformerEncoderBlock(num_hiddens=12, ffn_num_hiddens=24, num_heads=3, dropout=0.0)
X, lens = torch.randn(2, 7, 12), torch.tensor([7, 4])
check_shape(block(X, lens), (2, 7, 12))

dyed = X.clone()
dyed[1, 4:] = 9.0  # the padding of the second sentence
torch.testing.assert_close(block(dyed, lens)[1, :4], block(X, lens)[1, :4])
print("checked: with other numbers in the padding, the real words come out the same")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### How loud is a position?
#
# The positions are added to the embeddings. All $D/2$ pairs of a position have
# $\sin^2 + \cos^2 = 1$, so its length is $\sqrt{D/2}$. The paper multiplies the embeddings by
# $\sqrt D$. The paper does not say how large the embeddings are before training. Their size decides
# which is louder, the word or its place.
#
# **Predict.** $D = 128$. PyTorch's `nn.Embedding` begins with numbers of size 1. Which is louder?

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Measures the length of places and of words, for two ways to begin
torch.manual_seed(0)
D = 128
encoder = TransformerEncoder(300, D, 2 * D, 4, num_blks=1, dropout=0.0)
place = encoder.pos_encoding.P[0, :16].norm(dim=-1)
torch.testing.assert_close(place, torch.full((16,), (D / 2) ** 0.5))

loud = {
    "PyTorch's embedding": nn.Embedding(300, D).weight.norm(dim=-1).mean() * D**0.5,
    "the package's embedding": encoder.embedding.weight.norm(dim=-1).mean() * D**0.5,
}
print(f"place {place[0]:5.1f}")
for name, size in loud.items():
    print(f"word  {size:5.1f}   {name}")
assert loud["PyTorch's embedding"] > 15 * place[0]
assert loud["the package's embedding"] < 1.5 * place[0]

# %% [markdown] slideshow={"slide_type": "skip"}
# PyTorch's word drowns its place: 128 to 8. Ours begins $\sqrt D$ times smaller, and the two can be
# heard.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Three attentions
#
# One class, called in three places: in the encoder's block once, in the decoder's twice. Who
# supplies queries, keys and values? And what may a query see?

# %% [markdown] slideshow={"slide_type": "fragment"}
# | | queries | keys, values | a query may see | weights |
# |---|---|---|---|---|
# | encoder | English | English | all words, no padding | (B, H, S, S) |
# | decoder, `attention1` | French | French | itself and words before it | (B, H, T, T) |
# | decoder, `attention2` | French | encoder's output | all words, no padding | (B, H, T, S) |
#
# B sentences, H heads, S English and T French words. The last row is chapter 5's: the French being
# written asks the English that was read.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Draw the empty table on the board and let the room fill it, row by row; two minutes. The last row
# is where it goes wrong: some let the English ask. Whoever writes is the one who asks.

# %% [markdown] slideshow={"slide_type": "subslide"}
# In the decoder's block two attentions and the network stand on top of each other. Three lines:

# %% slideshow={"slide_type": "fragment"}
torch.manual_seed(0)
block = TransformerDecoderBlock(num_hiddens=12, ffn_num_hiddens=24, num_heads=3, dropout=0.0, i=0)
french, english, lens = torch.randn(2, 5, 12), torch.randn(2, 7, 12), torch.tensor([7, 4])

X = block.addnorm1(french, block.attention1(french, french, french, is_causal=True))
X = block.addnorm2(X, block.attention2(X, english, english, lens))
X = block.addnorm3(X, block.ffn(X))

state = [english, lens, [None]]  # None: nothing is kept yet; what is kept later, we see below
torch.testing.assert_close(block(french, state)[0], X)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The whole model is two stacks of such blocks, each behind an embedding with positions.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Shows the source of the model
show_source(MODELS["transformer"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Chapter 5's corpus again, three sentences of it, and an untrained model with 128 numbers a token.
# Does the table hold?

# %% slideshow={"slide_type": "skip"}
corpus = load("grammar")
src_vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
tgt_vocab = Vocab((pair.target for pair in corpus.train), min_freq=2)
batch = make_batch(corpus.test[:3], src_vocab, tgt_vocab)
B, S, T, H = 3, batch.src.shape[1], batch.tgt_in.shape[1], 4

torch.manual_seed(0)
untrained = MODELS["transformer"](len(src_vocab), len(tgt_vocab), num_hiddens=128).eval()
with torch.no_grad():
    logits = untrained(batch.src, batch.tgt_in, batch.src_lens)
check_shape(logits, (B, T, len(tgt_vocab)))

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Checks shapes and masks of all three attentions, in both blocks
encoder, decoder = untrained.encoder, untrained.decoder
for layer in range(2):
    english, french = encoder.attention_weights[layer], decoder.self_attention_weights[layer]
    across = decoder.cross_attention_weights[layer]
    check_shape(english, (B, H, S, S))
    check_shape(french, (B, H, T, T))
    check_shape(across, (B, H, T, S))
    for b, length in enumerate(batch.src_lens.tolist()):
        assert (english[b, :, :, length:] == 0).all() and (across[b, :, :, length:] == 0).all()
    assert (french.triu(diagonal=1) == 0).all()  # right of the diagonal is the future
print("checked: English padding gets no weight, the French future gets none, in both blocks")

# %% [markdown] slideshow={"slide_type": "fragment"}
# And French padding? It stands at the end, so for each real word it lies in the future. What the
# padded places say themselves is left out of the loss (chapter 5).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The future is hidden, always
#
# In training the decoder reads the whole true sentence at once: with all places side by side there
# is nothing to wait for. But place $t$ must say word $t + 1$, and that word stands right beside it.
#
# **Question.** How would you test that no place sees it, for any model and without a look inside?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute in pairs. 'Look at the mask' and 'look at the weights' come first; ask what to do with
# a model whose weights you cannot see. Then somebody changes a word. Exercise 8.6 is this question.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The test is simple. Change everything from place $t$ on: nothing before $t$ may move.


# %% slideshow={"slide_type": "fragment"}
@torch.no_grad()
def sees_the_future(model):
    """Whether other words from place t on change what is said before t, for any t."""
    said = model(batch.src, batch.tgt_in, batch.src_lens)
    for t in range(1, T):
        other = batch.tgt_in.clone()
        other[:, t:] = tgt_vocab["orange"]
        changed = model(batch.src, other, batch.src_lens)
        if not torch.allclose(changed[:, :t], said[:, :t], atol=1e-5):
            return True
    return False


assert not sees_the_future(untrained.train())  # no dropout: nothing else changes what it says
assert not sees_the_future(untrained.eval())
print("in train() and in eval(): what comes later changes nothing before it")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Why test both? Because the book's decoder masks only *while training* (section 11.7.5): it
# thinks of the other mode as decoding, where there is no future yet. Here is that thought in three
# lines. What counts: `is_causal and self.training`.


# %% slideshow={"slide_type": "fragment"}
class MasksOnlyInTraining(MultiHeadAttention):
    def forward(self, *inputs, is_causal=False, **more):
        return super().forward(*inputs, is_causal=is_causal and self.training, **more)


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Puts that class into a copy of the untrained decoder, and repeats the test in both modes
def leaking(model):
    """A copy with the same parameters whose decoder masks only while training."""
    model = copy.deepcopy(model)
    for block in model.decoder.blks:
        block.attention1.__class__ = MasksOnlyInTraining  # the same object, another forward
    return model


leaky = leaking(untrained)
found = {"train()": sees_the_future(leaky.train()), "eval()": sees_the_future(leaky.eval())}
for mode, seen in found.items():
    print(f"{mode:8} sees the future: {seen}")
assert found == {"train()": False, "eval()": True}

# %% [markdown] slideshow={"slide_type": "fragment"}
# Validation happens in `eval()`, on whole sentences: there each place sees the word that it should
# predict. What that does to a validation loss, we measure as soon as there is a trained model.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Train it, against Bahdanau
#
# The same sentences, the same loop, 64 of them a step. Two blocks a side, four heads, 128 wide.

# %% [markdown] slideshow={"slide_type": "skip"}
# The learning rate is 0.004 instead of chapter 5's 0.01. There is no warm-up, though post-norm
# often needs one (Xiong et al., 2020). This model is small, and learns without.


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
def trained(name, num_hiddens, steps):
    """A model of the course, trained on the corpus, and the seconds that it took."""
    torch.manual_seed(0)
    model = MODELS[name](len(src_vocab), len(tgt_vocab), num_hiddens)
    started = time.process_time()
    train(model, corpus.train, src_vocab, tgt_vocab, steps=steps, lr=LEARNING_RATES[name])
    return model, time.process_time() - started


model, seconds = trained("transformer", num_hiddens=128, steps=450)

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Prints BLEU, exact translations and alignment error rate on the test split
on_test = evaluate(model, corpus.test, src_vocab, tgt_vocab)
print(f"{seconds:.0f} s   {on_test}")
assert on_test.bleu >= 90

# %% [markdown] slideshow={"slide_type": "fragment"}
# And the model of chapter 5, as it was there: 96 units, 600 steps.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
bahdanau, bahdanau_seconds = trained("bahdanau", num_hiddens=96, steps=600)
models = {
    "Bahdanau": (bahdanau, bahdanau_seconds),
    "Transformer": (model, seconds),
}

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares both models on the test split and on new pairs of words
results = {("Transformer", "test"): on_test}
print(f"{'':12}{'parameters':>11}{'CPU s':>7}   {'split':14}{'BLEU':>6}{'exact':>7}{'AER':>7}")
for name, (some, took) in models.items():
    parameters = sum(p.numel() for p in some.parameters())
    for split in ("test", "compositional"):
        if (name, split) not in results:
            pairs = getattr(corpus, split)
            results[name, split] = evaluate(some, pairs, src_vocab, tgt_vocab)
        r = results[name, split]
        print(
            f"{name:12}{parameters:11,}{took:7.0f}   {split:14}{r.bleu:6.1f}{r.exact_match:7.2f}"
            f"{r.alignment_error_rate:7.2f}"
        )
assert results["Transformer", "test"].bleu >= 90
assert results["Transformer", "test"].bleu > results["Bahdanau", "test"].bleu - 2
assert results["Transformer", "compositional"].bleu >= 85

# %% [markdown] slideshow={"slide_type": "fragment"}
# (AER is chapter 5's alignment error rate; for the Transformer it takes the last block, the mean of
# its heads. 'compositional' holds pairs of words that never met in training.) No GRU, and it
# translates no worse, with three times the parameters.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# If the training is to run live, start it before the section and talk on: in the run shown it took
# half a minute for each model. Before the table comes: who expects the Transformer to win, and by
# how many points of BLEU? Write the guesses on the board.

# %% [markdown] slideshow={"slide_type": "subslide"}
# And long sentences?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Prints BLEU by the number of English words
lengths = [len(pair.source) for pair in corpus.test]
by_length = {}
print(f"{'words':12}" + "".join(f"{name:>13}" for name in models))
for low, high in ((3, 5), (6, 8), (9, 11), (12, 16)):
    kept = [i for i, n in enumerate(lengths) if low <= n <= high]
    references = [corpus.test[i].targets for i in kept]
    for name in models:
        words = results[name, "test"].translations
        by_length.setdefault(name, []).append(bleu([words[i] for i in kept], references))
    print(f"{low:2} to {high:2}    ", *(f"{scores[-1]:12.1f}" for scores in by_length.values()))
assert all(shortest - longest < 20 for shortest, *_, longest in by_length.values())

# %% [markdown] slideshow={"slide_type": "fragment"}
# In the run shown both lose seven to eight points from the shortest to the longest. Chapter 5's
# translator without attention lost 65: its one vector had to hold everything. That is gone from
# both.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why change, then?

# %% [markdown] slideshow={"slide_type": "fragment"}
# Not for time on a CPU: in the run shown the Transformer took longer, in 450
# steps instead of 600. The paper's reason is that in training no place waits for the one before it.
# That shows on hardware that does many things at once, which we have not measured here.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What validation would have seen
#
# Back to the decoder that masks only in training. The trained model was trained with its mask.
# Take a copy that leaks in `eval()`, and let it read the validation set.
#
# **Predict.** It sees each answer beside the question. Will its validation loss be lower, the same,
# or higher?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares validation loss and translations, with the mask and with the leak
leaky = leaking(model).eval()
valid = make_batch(corpus.valid, src_vocab, tgt_vocab)
losses, said = {}, {}
for name, some in (("masked always", model), ("masked in training", leaky)):
    with torch.no_grad():
        logits = some(valid.src, valid.tgt_in, valid.src_lens)
    losses[name] = sequence_loss(logits, valid.tgt_out, valid.tgt_lens).item()
    found = evaluate(some, corpus.test[:100], src_vocab, tgt_vocab)
    said[name] = found.translations
    print(f"{name:19} validation loss {losses[name]:.2f}   BLEU {found.bleu:.1f}")
assert losses["masked in training"] > 5 * losses["masked always"]
assert said["masked in training"] == said["masked always"]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Far higher. It never learned what to do with a future, and the sight of it spoils everything. And
# yet its translations are the same: they are written word by word, and there the future does not
# exist. So this loss measures something that happens nowhere else. Nothing promises that the
# checkpoint where it is lowest translates best.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote by hands, half a minute. Most of the room says 'lower: it cheats'. That is the other bug: no
# mask in training *either*. Then the model learns to copy the next word from beside it, validates
# near perfection, and cannot write a sentence. The bug museum (chapter 11) has it. Here only
# validation is wrong, and it looks bad instead of good, which is why people blame overfitting.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Draws the decoder's self-attention in both modes of the leaking copy
figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
pair = corpus.test[0]
one = make_batch([pair], src_vocab, tgt_vocab)
said = [*pair.target, EOS]
for ax, training, title in zip(axes, (True, False), ("train()", "eval()"), strict=True):
    with torch.no_grad():
        leaky.train(training)(one.src, one.tgt_in, one.src_lens)
    weights = leaky.decoder.self_attention_weights[0][0].mean(dim=0)
    heatmap(ax, weights, said, [BOS, *pair.target], vmax=1.0)
    ax.tick_params("x", rotation=40)
    ax.set(xlabel="reads", title=title)
axes[0].set_ylabel("says")
figure.colorbar(axes[0].images[0], ax=axes, label="weight, mean of the heads")
figure.suptitle("Masked only while training: validation sees the future")
plt.show()
assert weights.triu(diagonal=1).sum() > 1

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps of the decoder's self-attention in its first block. With train() all weight
# lies on and below the diagonal. With eval() weight lies above it as well, on words that are still
# to be said.*

# %% [markdown] slideshow={"slide_type": "slide"}
# ## All weights of all heads
#
# Two blocks, four heads, three kinds of attention: 24 heat maps for one sentence. It is the one
# from the beginning, and training never saw it. The frames are the blocks; 'all heads' shows the
# heads side by side.
#
# | | the row | the columns |
# |---|---|---|
# | English asks English | the word that asks | the words that are read |
# | French asks French | the word to be said | the French read so far |
# | French asks English | the word to be said | the English sentence |


# %% slideshow={"slide_type": "skip"}
@torch.no_grad()
def every_head(words, said):
    """For each kind of attention: weights (blocks, heads, Q, K), labels of queries and of keys."""
    source, reads, writes = [*words, EOS], [BOS, *said], [*said, EOS]
    numbers = torch.tensor([src_vocab[source]]), torch.tensor([tgt_vocab[reads]])
    model(*numbers, torch.tensor([len(source)]))
    found = {
        "English asks English": (model.encoder.attention_weights, source, source),
        "French asks French": (model.decoder.self_attention_weights, writes, reads),
        "French asks English": (model.decoder.cross_attention_weights, writes, source),
    }
    return {kind: (torch.cat(weights), *labels) for kind, (weights, *labels) in found.items()}


pair = corpus.test[197]
assert all(pair.source != known.source for known in corpus.train)
heads = every_head(pair.source, pair.target)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Prepares the view of one kind of attention
from d2l_attention.views import AttentionView

blocks = ["block 1", "block 2"]


def view_of(kind):
    weights, queries, keys = heads[kind]
    view = AttentionView(weights, queries, keys, frames=blocks, title=kind)
    view.frame, view.head = 1, -1  # the last block, all heads
    return view


# %% [markdown] slideshow={"slide_type": "subslide"}
# First the encoder, English asking English. **Question.** Find the row 'it'. Which heads look at
# the noun? Do other rows look there, too?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of English asking English, in all heads
view_of("English asks English")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four heat maps, one a head, of the English words against themselves in the second block.
# In the run shown: in heads 1 and 4 the row 'it' is dark in the column 'orange'. In head 4 so are
# all rows from 'took' to '<eos>'.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Leave the picture alone for half a minute, then move the pointer along the row 'it' of each head,
# and read the weights aloud. Somebody says 'it knows what *it* means'. Ask which other rows look at
# 'orange', and go on.

# %% [markdown] slideshow={"slide_type": "subslide"}
# One sentence proves little. Take all test sentences that end like it: a noun, 'and', a verb, 'it'
# or 'them'. How much weight does the encoder put from the pronoun onto the noun? And as a control:
# how much from the other words onto the same noun?

# %% slideshow={"slide_type": "skip"}
alike = [
    pair
    for pair in corpus.test
    if pair.source[-1] in ("it", "them")
    and "and" in pair.source[-4:-2]
    and "of" not in pair.source  # 'the garden of the house and visited it': not the nearest noun
]
nouns = [max(i for i, word in enumerate(p.source) if word == "and") - 1 for p in alike]
for pair, noun in zip(alike[:4], nouns, strict=False):
    print(f"{pair.source[noun]:10}", *pair.source)

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures the weight on the noun, from the pronoun and from the other words
from_pronoun, from_others, evenly = [], [], []
for pair, noun in zip(alike, nouns, strict=True):
    weights, *_ = every_head(pair.source, pair.target)["English asks English"]
    onto_noun = weights[..., noun]  # (blocks, heads, queries)
    pronoun = len(pair.source) - 1
    others = [i for i in range(pronoun) if i != noun]
    from_pronoun.append(onto_noun[..., pronoun])
    from_others.append(onto_noun[..., others].mean(dim=-1))
    evenly.append(1 / (len(pair.source) + 1))
from_pronoun, from_others = (torch.stack(x).mean(dim=0) for x in (from_pronoun, from_others))
evenly = sum(evenly) / len(evenly)

print(f"{len(alike)} sentences; spread evenly the noun would get {evenly:.2f}")
for block, *rows in zip(blocks, from_pronoun, from_others, strict=True):
    for name, row in zip(("pronoun", "others"), rows, strict=True):
        print(f"{block}, {name:9}", *(f"head {h}: {x:.2f}   " for h, x in enumerate(row, start=1)))
three_back = sum(len(p.source) - 1 - noun == 3 for p, noun in zip(alike, nouns, strict=True))
print(f"in {three_back} of them the noun stands three places before the pronoun")
assert from_pronoun.max() > 2 * evenly
assert from_pronoun.max() > from_others.flatten()[from_pronoun.argmax()]

# %% [markdown] slideshow={"slide_type": "fragment"}
# In the run shown head 4 of block 2 stands out. From the pronoun the noun gets four times its even
# share. But from the other words it gets nearly three times as much as evenly, too.
#
# So much is measured: the noun can be reached from 'it' in one step, and nobody told the model to.
# That a head *knows* what 'it' means is more than we have measured. Perhaps it looks for a noun,
# whoever asks; and the noun mostly stands three places back.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Read only the two lines of block 2 aloud, first 'pronoun', then 'others'. Between them ask: 'What
# should the other words do, if this head were about pronouns?' The control is the point of the
# slide.

# %% [markdown] slideshow={"slide_type": "skip"}
# (Which head it is depends on the random start: heads have no order.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The decoder writes the letter. **Question.** What does it look back at in its own French, when it
# says *mangée*?

# %% [markdown] slideshow={"slide_type": "skip"}
# A row is named after the word that is to be said; the place that asks has just read the word
# before it. Above the diagonal there is nothing: not even one cell.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of French asking French, in all heads
view_of("French asks French")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four heat maps of the French words that are written against those that were read. All
# above the diagonal is empty. In the run shown: in the row 'mangée' heads 2 and 4 look at 'orange',
# head 3 at 'a', the word just read.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A row is named after the word that is to be said; the place that asks has just read the word
# before it. Give them half a minute to find the row, then point at it in heads 2 and 4. Ask why all
# above the diagonal is empty, although the model is in `eval()`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# And French asking English. **Question.** Look at the row 'le'. Which heads look at 'the', which at
# the noun?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of French asking English, in all heads
view_of("French asks English")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four heat maps of the French words against the English ones. In all of them a dark band
# runs from top left to bottom right. In the run shown: in the row 'le' heads 1 and 4 look at 'the',
# heads 2 and 3 at 'doctor'.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask why a head should look at 'doctor' in order to write *le*: the article needs the noun's
# gender. (That is a guess at the reason; the picture only shows where it looks.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which head aligns?
#
# Chapter 5 took the most attended English word as the link of a French word, and found: attention
# is not alignment. Now there are eight heads that look from French to English.
#
# **Predict.** Bahdanau's attention had an error rate of about 0.20. How many of the eight heads
# beat it?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Let each write down a number from 0 to 8, then raise hands in the order 0, 1-2, 3-5, 6-8. Ask one
# of each group for the reason.


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
@torch.no_grad()
def cross_weights(pairs):
    """(blocks, heads, sentences, T, S), while the decoder reads the true translations."""
    some = make_batch(pairs, src_vocab, tgt_vocab)
    model(some.src, some.tgt_in, some.src_lens)
    return torch.stack(model.decoder.cross_attention_weights).transpose(1, 2)


def error_rate(links, pairs):
    sure, possible = [pair.sure for pair in pairs], [pair.possible for pair in pairs]
    return alignment_error_rate(links, sure, possible)


def aer_of(weights, pairs):
    """The error rate of one head: weights (sentences, T, S)."""
    links = [
        align_by_attention(weight, len(pair.source), len(pair.target))
        for weight, pair in zip(weights, pairs, strict=True)
    ]
    return error_rate(links, pairs)


weights = cross_weights(corpus.test)
rates = torch.tensor([[aer_of(head, corpus.test) for head in block] for block in weights])
diagonal = [align_diagonally(len(p.source), len(p.target)) for p in corpus.test]
limit = error_rate(diagonal, corpus.test)

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Draws the error rate of each head
figure, ax = plt.subplots(figsize=(8, 3.2))
names = [f"head {h}" for h in range(1, 5)]
heatmap(ax, rates, blocks, names, vmax=0.6, numbers=True)
ax.set_title(f"Heads disagree: error rates from {rates.min():.2f} to {rates.max():.2f}")
plt.show()
bahdanau_rate = results["Bahdanau", "test"].alignment_error_rate
better = int((rates < bahdanau_rate).sum())
print(f"{better} of 8 heads beat Bahdanau's {bahdanau_rate:.2f}; the diagonal has {limit:.2f}")
print(f"last block, mean of its heads: {on_test.alignment_error_rate:.2f}")
assert rates.min() < limit / 2
assert 0 < better < 8
assert rates.max() > 1.5 * rates.min()
assert on_test.alignment_error_rate < limit / 1.5

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a table of two blocks and four heads with the alignment error rate of each, darker where
# it is worse. In the run shown: the best is head 1 of block 2 with 0.13, the worst head 2 of block
# 1 with 0.39, worse than the diagonal.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Some do, some do not. All eight sit in one model that translates well, and their error rates
# differ by far. In the run shown the mean of the last block's heads has a lower error rate than
# each of them, probably because their mistakes differ. So 'the alignment of a Transformer' does not
# exist: there is one of *this* head, or of a mean of heads, and whoever shows a heat map has
# chosen.

# %% [markdown] slideshow={"slide_type": "skip"}
# Chapter 5's cure works here, too: with `guidance=0.1` training asks the last block for the true
# links.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Decoding without doing things twice
#
# Writing goes word by word. To choose word $t + 1$ the decoder needs keys and values of words 1 to
# $t$. Those of words 1 to $t - 1$ were there a step ago, and the mask says that no later word can
# change them.
#
# **Predict.** A sentence of 24 words. How many keys does each self-attention layer project in all,
# if each step starts again from the first word? And if it keeps them?

# %% [markdown] slideshow={"slide_type": "fragment"}
# $1 + 2 + \dots + 24 = 24 \cdot 25 / 2 = 300$ against 24. What is kept is the **key-value cache**.
# The decoder keeps it in its state and always uses it.

# %% [markdown] slideshow={"slide_type": "fragment"}
# A block keeps two things: keys and values of the French so far, to which each call adds, and those
# of the English, which the first call makes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute, in pairs. Then ask why an encoder could not keep its keys while a sentence grows:
# there a new word changes what every other word becomes, and with it all keys above the first
# block.

# %% [markdown] slideshow={"slide_type": "skip"}
# Here is the forward of a decoder's block again, now with its cache.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows the source of TransformerDecoderBlock.forward
show_source(TransformerDecoderBlock.forward)

# %% [markdown] slideshow={"slide_type": "skip"}
# And `is_causal=True`, where only one new word asks? With `cache=` the triangle begins behind what
# the cache holds: the new word sees all words before it, and itself.

# %% [markdown] slideshow={"slide_type": "subslide"}
# To compare we need a decoder that forgets everything but the words, and reads them all again at
# each step. We wrap ours.


# %% slideshow={"slide_type": "skip"}
class FromScratch(nn.Module):
    """The same decoder without a memory: at each step it reads all words again."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def init_state(self, *encoded):
        return self.decoder.init_state(*encoded), None

    def forward(self, token, state):
        start, words = state
        words = token if words is None else torch.cat((words, token), dim=1)
        logits, _ = self.decoder(words, start)
        return logits[:, -1:], (start, words)

    def select(self, state, index):
        start, words = state
        return self.decoder.select(start, index), words[index]


scratch = EncoderDecoder(model.encoder, FromScratch(model.decoder)).eval()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Do both write the same, word for word? Greedy and with a beam, on sentences of many lengths.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Checks that translations are the same with a cache and without, greedy and with a beam
ends = {"bos": tgt_vocab[BOS], "eos": tgt_vocab[EOS], "max_len": 40}
for search, n in ((greedy_decode, 100), (beam_search, 30)):
    some = make_batch(corpus.test[:n], src_vocab, tgt_vocab)
    with_cache = search(model, some.src, some.src_lens, **ends)
    without = search(scratch, some.src, some.src_lens, **ends)
    assert torch.equal(with_cache.tokens, without.tokens)
    words = f"{n} sentences, {with_cache.lens.sum()} words"
    print(f"checked: {search.__name__} writes the same with a cache and without, {words}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# The cost: count the keys that the first layer projects, and time it. To get any length we let it
# write on and on, without an end.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Counts the keys and measures the time, with a cache and without
one = make_batch(corpus.test[:1], src_vocab, tgt_vocab)
projected = []
hook = model.decoder.blks[0].attention1.W_k.register_forward_hook(
    lambda layer, inputs, keys: projected.append(keys.shape[1])
)
print(f"{'words':>5}{'keys, with and without':>26}{'seconds of CPU time':>24}{'ratio':>7}")
for n in (16, 64, 256):
    keys, took = [], []
    for some in (model, scratch):
        projected.clear()
        started = time.process_time()
        greedy_decode(some, one.src, one.src_lens, bos=tgt_vocab[BOS], eos=-1, max_len=n)
        took.append(time.process_time() - started)
        keys.append(sum(projected))
    assert keys == [n, n * (n + 1) // 2]
    print(f"{n:5}{keys[0]:17}{keys[1]:9,}{took[0]:17.2f}{took[1]:7.2f}{took[1] / took[0]:7.1f}")
hook.remove()
assert took[1] > took[0]  # with 256 words

# %% [markdown] slideshow={"slide_type": "fragment"}
# $n$ against $n(n+1)/2$ keys, exactly. Time follows more slowly, for a step has more to do than to
# project keys. In the run shown a cache saves some of it at 16 words and two thirds at 256. The
# price is memory: each layer keeps two vectors for each word. Chapter 9 works out how much that is.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Before the table: 'For 256 words, how much faster?' The keys alone say 128 times. Let them say
# afterwards what else a step has to do.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Every word in place 0
#
# With a cache the decoder gets one word at a time. Where does that word stand? A decoder that adds
# positions to *what it is given* puts it in place 0, and the next one, too. The book's does
# (section 11.7.5). Ours counts what the cache holds. One line breaks it.
#
# **Predict.** In training all positions were right. What will the translations look like?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Forgets the offset in a copy, and lets it translate 100 sentences
lost = copy.deepcopy(model)
lost.decoder.embed = lambda X, offset: TransformerDecoder.embed(lost.decoder, X)  # offset forgotten

first = corpus.test[:100]
at_zero = evaluate(lost, first, src_vocab, tgt_vocab)
for pair, words in zip(first[:2], at_zero.translations[:2], strict=True):
    print("English", *pair.source, "\n   says", *words[:16], "...\n")
at_home = bleu(on_test.translations[:100], [pair.targets for pair in first])
print(f"BLEU on 100 sentences {at_zero.bleu:.1f}, and it was {at_home:.1f}")
assert at_zero.bleu < at_home / 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# It begins well and goes round in circles: it has no idea how far it has come.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask for a prediction in words, half a minute: 'right', 'words in the wrong order', 'rubbish'. Then
# read the first translation aloud.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Question.** Would the loss tell, in training or in validation?

# %% [markdown] slideshow={"slide_type": "fragment"}
# For the loss, training and validation read whole sentences, with the right positions, so neither
# loss tells. BLEU on the validation split would, because it decodes. Decoding from scratch shows
# that the positions are the reason: it hands over whole beginnings, and the same model is right
# again.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Checks what the same model writes when it decodes from scratch
from_scratch = EncoderDecoder(lost.encoder, FromScratch(lost.decoder))
words = translate(from_scratch, [pair.source for pair in first], src_vocab, tgt_vocab)
assert words == on_test.translations[:100]
print("checked: the same 100 translations as those of the right decoder")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The two bugs are sisters. The mask asks 'training or not?' where it should ask 'which tokens do I
# have?'; the positions do not ask where these stand. Let the room find the test that catches both:
# same tokens, whole sentence against one by one, same logits.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Your sentence
#
# Write a sentence, or pick one; choose a kind of attention, a block and a head.

# %% [markdown] slideshow={"slide_type": "skip"}
# The view opens on what the decoder looks back at in its own French, in its last block.

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** In the last row but one the decoder says *mangée*, *mangé* or *trouvé*. Go through
# the three examples: in which of them does a head look back at the noun?

# %% [markdown] slideshow={"slide_type": "skip"}
# Then give the third a feminine noun, 'dress' (*robe*), instead of 'cat'. Is the translation still
# right?

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Shows the view for your sentence
from d2l_attention.views import SentenceView


def look(words, kind):
    """The translation of these words, and the weights of this kind behind it."""
    said = translate(model, [words], src_vocab, tgt_vocab)[0]
    weights, queries, keys = every_head(words, said)[kind]
    labels = {"queries": queries, "keys": keys, "frames": blocks}
    return {"weights": weights, "title": " ".join(said), **labels}


sentence = SentenceView(
    look,
    corpus.tokenize,
    src_vocab,
    [
        "the old doctor took the good orange and ate it",
        "the old doctor took the good cake and ate it",
        "he looked for his black cat but did not find it",
    ],
    kinds=["French asks French", "French asks English", "English asks English"],
)
sentence.view.frame, sentence.view.head = 1, -1  # the last block, all heads
sentence

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: a text field with an English sentence, buttons with examples and with three kinds of
# attention, and below them a heat map for each of the four heads, with a slider for the blocks. It
# shows French asking French in block 2. In the run shown: the row 'mangée' is dark at 'orange' in
# heads 2 and 4.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# And the two sentences of the beginning? What the model writes:

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Translates the two sentences
for noun in ("orange", "cake"):
    words = f"the old doctor took the good {noun} and ate it".split()
    print(*translate(model, [words], src_vocab, tgt_vocab)[0])

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# This is for JupyterLab: run the notebook before the lecture (it trains for a minute or two), then
# open it by the link at the bottom left. Let the room call out sentences, and end with 'dress'
# (*robe*) instead of 'cat' in the third. Right or wrong: ask what they would look at to find out
# why. Without JupyterLab go back to 'French asks French' for the first example. Close with the two
# sentences.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention carries between tokens, a network works within each, the same for all. They take
#   turns.
# - Residuals keep the way to the bottom open; layer norm gives every token the same size.
#   Post-norm, $\mathrm{ln}(X + f(X))$, is the paper's. Pre-norm, $X + f(\mathrm{ln}(X))$, needs a
#   norm at the top.
# - Three attentions: English asks English, French asks its own past, French asks English.
# - The future is hidden in `train()` *and* in `eval()`. A validation that sees it says
#   nothing about translating.
# - A cache turns $n(n+1)/2$ projected keys into $n$ and changes no word, if positions go on
#   counting.
# - Some heads align, some do not. In the run shown, one head puts almost half of the weight of 'it'
#   on the noun, and the other words put nearly a third of theirs there.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("8.1")` gives one more hint each time, `solution("8.1")` the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.1** Where the norm stands · *easy, 8 minutes* · by hand
#
# Two tokens of four numbers, $(-4, -1, 0, 3)$ and $(4, 1, 2, 5)$, go through a sublayer that
# squares each number, $f(x) = x^2$, with a residual connection and a layer norm (scale 1, shift 0).
# What becomes of the first token in post-norm, and what in pre-norm? Give two lists of four
# numbers, post-norm first; two decimals are enough.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

answer = None

check("8.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.2** What a cache saves · *easy, 12 minutes* · predict, then measure
#
# A decoder with one block and one head writes 10 tokens, one at a time, from a source of 7 words.
# Without a cache each step reads the whole prefix again: 1 token, then 2, up to 10. All 10 steps
# together:
#
# - how many rows go through `attention1.W_k`?
# - how many through `attention2.W_k`?
# - how many scores does `attention1` compute? (The hidden ones count, too.)
#
# Predict. Then measure with a hook, as in the chapter. A small decoder for it:
# `TransformerDecoder(20, 8, 16, num_heads=1, num_blks=1, dropout=0.0)`, with a vocabulary of 20
# words and 8 numbers a token; for the source, give `init_state` the numbers `torch.randn(1, 7, 8)`.
#
# Give three pairs, *without* and *with* a cache, such as `[(1, 1), (1, 1), (1, 1)]`.

# %% slideshow={"slide_type": "skip"}
answer = None

check("8.2", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.3** Three attentions, three masks · *easy, 8 minutes* · complete a function
#
# A batch of source sentences (B, `num_src`) and target sentences (B, `num_tgt`), padded behind,
# with lengths (B,) of 1 or more. Return three boolean masks, True = may attend, each broadcastable
# to (B, Q, K): of the encoder's self-attention, of the decoder's self-attention, and of the
# decoder's attention to the source. What a padding query sees does not matter: nobody reads its
# output.


# %% slideshow={"slide_type": "skip"}
def three_masks(src_lens, tgt_lens, num_src, num_tgt):
    """Masks of the encoder, the decoder, and the decoder on the source; True = may attend.

    Lengths (B,) -> three boolean masks that broadcast to (B, S, S), (B, T, T) and (B, T, S),
    with S = num_src and T = num_tgt.

    One sentence of one word in two places, translated as two words, `three_masks(
    torch.tensor([1]), torch.tensor([2]), 2, 2)`, may give the masks [[[True, False]]],
    [[True, False], [True, True]] and [[[True, False]]].
    """
    ...


check("8.3", three_masks)

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.4** Write a decoder block · *medium, 12 minutes* · complete a function
#
# Three sublayers: `attention1` among the tokens X (B, T, D), `attention2` from them to `sources`
# (B, S, D), then `ffn`. Each has a residual connection and a norm. Return what comes out of the
# last sublayer, (B, T, D).
#
# - Call an attention as `attention1(queries, keys, values)`, with or without these names. It has
#   its mask inside.
# - `norms` is a list of three layer norms, one a sublayer, in their order: `norms[0](X)`.
# - `dropout` is a function, too, and falls on what a sublayer gives: `dropout(Y)`.
# - `sources` is the encoder's output and needs no norm here.
# - `pre_norm` is True or False.
#
# The result has the dtype of X, X itself stays as it is, and gradients reach X and `sources`.


# %% slideshow={"slide_type": "skip"}
def decoder_block(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    """Three sublayers, each with a residual connection and a norm: (B, T, D) -> (B, T, D).

    X is (B, T, D), `sources` (B, S, D).

    If each sublayer gives zeros, dropout keeps everything and each norm doubles what it gets,
    X = [[[1, -1]]] becomes [[[8, -8]]] in post-norm, and stays [[[1, -1]]] in pre-norm.
    """
    ...


check("8.4", decoder_block)

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.5** Right for one token · *medium, 15 minutes* · find three bugs
#
# `decode_step` gets a new token's query, key and value, (B, H, 1, D) each, and a cache: the pair
# `(keys, values)` of the n tokens before it, (B, H, n, D) each. At the first step n = 0. It returns
# the output (B, H, 1, D) and the cache for the next step, such a pair again.
#
# `rotate(X, offset=p)` gives X (B, H, m, D) rotary positions p, p + 1, and so on. To play with,
# take `RotaryEncoding(D).transform` from `d2l_attention.attention.positional`.
#
# Step by step `decode_step` should give what causal self-attention with rotary positions gives for
# all tokens at once, in the dtype of its inputs, and leave the cache that it was given as it is.
# Its first token is right. It has three bugs, and one of them shows only once another is mended.


# %% slideshow={"slide_type": "skip"}
def decode_step(query, key, value, cache, rotate):
    query, key, value = (rotate(X, offset=0) for X in (query, key, value))
    pairs = zip(cache, (key, value), strict=True)
    keys, values = (torch.cat((old, new), dim=2) for old, new in pairs)
    weights = (query @ keys.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ values, (key, value)


check("8.5", decode_step)

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.6** The test that catches a leak · *hard, 25 minutes* · write the test
#
# Your test takes a module that reads tokens (B, T), numbers 0 to 9, T up to 16, and gives logits
# (B, T, 10). It has no dropout. In a right one the logits at place t depend on that sentence's
# tokens up to t and on nothing else (rounding aside), in training and in evaluation mode. There
# your test returns without a word. It raises an `AssertionError` for each of seven broken ones. The
# chapter's `sees_the_future`, in both modes, would catch five of them:
#
# - no causal mask at all;
# - a mask off by one, so that each token sees the next;
# - a mask that hides only the next two tokens, and shows all behind them;
# - a mask while training only;
# - a layer norm over the tokens instead of the numbers of a token;
# - a norm over all sentences of the batch while training;
# - positions that are counted from the end.


# %% slideshow={"slide_type": "skip"}
def test_no_leak(decoder):
    """Pass on a right decoder, and fail by an `AssertionError` on one that leaks.

    `decoder` is a module: tokens (B, T) -> logits (B, T, 10). A test that looks only at the
    shape would be `assert decoder(torch.tensor([[3, 1, 4]])).shape == (1, 3, 10)`.
    """
    ...


check("8.6", test_no_leak)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Sections 3.1 to
#   3.5 and 4, figure 1.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, section 11.7;
#   11.7.5 has the decoder with its mask and its positions. [d2l.ai](https://d2l.ai)
# - K. He et al., *Deep Residual Learning for Image Recognition*, CVPR 2016, arXiv:1512.03385.
# - J. L. Ba, J. R. Kiros, G. E. Hinton, *Layer Normalization*, 2016, arXiv:1607.06450.
# - R. Xiong et al., *On Layer Normalization in the Transformer Architecture*, ICML 2020,
#   arXiv:2002.04745. Post-norm and pre-norm, warm-up, the last norm.
# - A. Rush, *The Annotated Transformer*, NLP-OSS workshop, ACL 2018, doi:10.18653/v1/W18-2509.

# %% [markdown] slideshow={"slide_type": "skip"}
# On GitHub: harvardnlp/annotated-transformer #13, #92 and #110, where readers ask about text and
# code that differ in the place of the norm; the third formula stands in #110.
