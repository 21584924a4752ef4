# %% [markdown] slideshow={"slide_type": "slide"}
# # 8 · The Transformer
#
# **You will**
# - build the encoder's block, the decoder's block and a whole translator from plain parts;
# - train it, and compare it with the package's classes and with chapter 5's translator;
# - write sentences with it, with a key-value cache and without.
#
# Core path: 45 minutes. Going further: 45. Exercises: 80. Builds on chapters 4 to 7. *Dive into
# Deep Learning* (D2L) treats the subject in section 11.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The core fills a lecture of 45 minutes with a vote on all four predictions. One cell trains for
# about half a minute: run the notebook before the lecture, or start that cell in the section
# before it. The slides of *Going further* come after the summary.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import TransformerDecoder, TransformerEncoder
from d2l_attention.data import BOS, EOS, Vocab, data_loader, load, make_batch
from d2l_attention.models.seq2seq import EncoderDecoder
from d2l_attention.training import train
from d2l_attention.training.evaluation import evaluate
from d2l_attention.training.metrics import align_by_attention, alignment_error_rate, bleu
from d2l_attention.views import AttentionView, SentenceView, schematic, watch
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention** (chapters 1 and 3). A query scores each key by $q \cdot k / \sqrt d$. The softmax
#   makes weights of the scores, and the answer is the weighted average of the values. The scores
#   $\ln 3$ and $0$ with the values 8 and 4 give $\frac34 \cdot 8 + \frac14 \cdot 4 = 7$.
# - **Mask** (chapter 4). True means 'may attend', and a hidden key gets the weight 0. A causal mask
#   shows query $i$ the keys 0 to $i$.
# - **Heads** (chapter 6). $H$ attentions of width $D/H$ work side by side. $W_q$, $W_k$, $W_v$ make
#   their inputs, and $W_o$ mixes their answers. Self-attention asks the same sequence,
#   cross-attention another one.
# - **Positions** (chapter 7). Sines and cosines of the position, counted from 0, are added to the
#   embeddings.
# - **A translator** (chapter 5). The encoder reads English. The decoder reads the French so far,
#   from `<bos>` on, and scores the next word. In training it reads the true sentence.
# - **Two measures** (chapter 5). BLEU compares runs of one to four words with a reference, and 100
#   is best. AER compares links between words with the true ones, and 0 is best.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is 'it'?
#
# *The old doctor took the good orange and ate it.* In French:
# *le vieux médecin a pris la bonne orange et l' a mangée.*
#
# *The old doctor took the good cake and ate it.* In French:
# *le vieux médecin a pris le bon gâteau et l' a mangé.*
#
# The noun decides between *mangée* and *mangé*, because an orange is feminine in French and a cake
# is not.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Before you say it, let them vote which English word decides about the last letter:
# 'took', 'good', 'orange' or 'ate'. Many choose 'ate', because it is beside 'it'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Chapter 5's translator used attention from French to English. Within each language a GRU handed
# everything on from word to word. The **Transformer** (Vaswani et al., 2017) has no GRU: attention
# also reads within each language, where any word is one step away. Four things are then missing:
#
# | attention by itself | what is added |
# |---|---|
# | only averages | a small network for each token |
# | is hard to stack | residual connections and layer norm |
# | ignores the order | positions (chapter 7) |
# | sees words that are not written yet | a causal mask (chapter 4) |

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Show the sentences first, and ask what would be missing without a GRU. 'The order'
# comes at once. 'It sees the answer' comes from those who remember chapter 4. The first row is the
# hard one, and it is the next section.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A network for each token
#
# A token that attends only to itself gets $W_o W_v x$, a linear map. A network with two hidden
# units and a ReLU can do more. For instance, it tells how far apart two numbers are:
#
# $$\max(0,\, x_1 - x_2) + \max(0,\, x_2 - x_1) = |x_1 - x_2|$$
#
# **Predict.** The tokens are $(3, 1)$, $(1, 3)$ and their average $(2, 2)$. What does this network
# give for each? A linear map is right for the first two. What does it give for the third?

# %% slideshow={"slide_type": "fragment"}
x1, x2 = torch.tensor([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]]).T
print("network   ", F.relu(x1 - x2) + F.relu(x2 - x1))
print("linear map", 0.5 * x1 + 0.5 * x2)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes with pencil and paper. The network is easy. For the linear map ask why it must say 2
# for (2, 2), whatever its two numbers are.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A linear map sends the average of two tokens to the average of their results. So a **position-wise
# network** (FFN) follows: two linear layers with a ReLU between them, the same for each token.
# Attention carries between tokens, and the network works within each.


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainFFN(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens):
        super().__init__()
        self.dense1 = nn.Linear(num_hiddens, ffn_num_hiddens)
        self.dense2 = nn.Linear(ffn_num_hiddens, num_hiddens)

    def forward(self, X):  # (B, n, D) -> (B, n, D)
        return self.dense2(self.dense1(X).relu())


# %% [markdown] slideshow={"slide_type": "slide"}
# ## Add and norm
#
# A **residual connection** (He et al., 2016) adds the input of a layer $f$ to its result:
# $X + f(X)$.
#
# **Predict.** Ten layers, each with the slope 0.1. The input of the first one moves by 1. How far
# does the output of the last one move? And how far if each layer adds its input to its result?

# %% slideshow={"slide_type": "fragment"}
print(f"f(X): {0.1**10:.10f}    X + f(X): {1.1**10:.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With residual connections each slope is $1 + 0.1$, and the 1 keeps a way open for the gradient.
# Input and output must have the same size, so a token has $D$ numbers (`num_hiddens`) all the way
# up.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes, two votes. For the second expect 'ten times 0.1 more, so 2'. That is close enough:
# what counts is that the first is almost nothing.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Layer norm** (Ba et al., 2016) keeps the sums in a range. It subtracts the mean of a token's
# numbers and divides by their standard deviation. The token $(2, 2, 5)$ has the mean 3 and
# the variance $(1 + 1 + 4) / 3 = 2$, so it becomes $(-1, -1, 2) / \sqrt 2$.
#
# **Predict.** What comes out for ten times the token, $(20, 20, 50)$?

# %% slideshow={"slide_type": "fragment"}
print(nn.LayerNorm(3)(torch.tensor([[2.0, 2.0, 5.0], [20.0, 20.0, 50.0]])).detach())

# %% [markdown] slideshow={"slide_type": "skip"}
# Layer norm forgets the size of a token, and looks at no other token. (Each number then gets a
# learned factor and a learned shift, which begin as 1 and 0.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Somebody divides by n - 1 and gets (-0.58, -0.58, 1.15). The norm divides by n. For
# ten times the token a few expect ten times the result. Ask what batch norm would do to a sentence
# whose neighbour in the batch changes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# There are two orders. Ours is post-norm, like the paper's and the book's.
#
# | | formula | at the end of the stack |
# |---|---|---|
# | **post-norm** | $\mathrm{norm}(X + f(X))$ | nothing more |
# | **pre-norm** | $X + f(\mathrm{norm}(X))$ | one more layer norm, because the sum grows |
#
# *Going further* trains both.


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainAddNorm(nn.Module):
    def __init__(self, num_hiddens, dropout):
        super().__init__()
        self.dropout, self.ln = nn.Dropout(dropout), nn.LayerNorm(num_hiddens)

    def forward(self, X, Y):  # X (B, n, D) and Y = f(X) -> (B, n, D)
        return self.ln(X + self.dropout(Y))


# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute. Ask in which of the two the gradient comes down through all blocks without meeting a
# norm. In pre-norm there is a path with nothing but plus signs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The encoder's block
#
# This is chapter 6's attention once more, shorter. `visible` is a mask that broadcasts to
# (B, H, Q, K). The cache will need `attend` by itself.


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainMultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, dropout):
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(num_hiddens, num_hiddens, bias=False) for _ in range(4)
        )

    def split(self, X):  # (B, n, D) -> (B, H, n, D / H)
        return X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def attend(self, q, k, v, visible):  # q (B, H, Q, D / H), k and v (B, H, K, D / H)
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, H, Q, K)
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        self.attention_weights = scores.softmax(dim=-1).masked_fill(~visible, 0.0)
        heads = self.dropout(self.attention_weights) @ v  # (B, H, Q, D / H)
        return self.W_o(heads.transpose(1, 2).flatten(start_dim=2))  # (B, Q, D)

    def forward(self, queries, keys, values, visible):
        q, k, v = self.W_q(queries), self.W_k(keys), self.W_v(values)
        return self.attend(self.split(q), self.split(k), self.split(v), visible)


# %% [markdown] slideshow={"slide_type": "skip"}
# A block has two sublayers, attention and network, each with a residual connection and a norm.
# Input and output have the same shape, so blocks can be stacked.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in the encoder's block
schematic("encoder block")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a straight line leads from X (B, n, D) through two boxes named 'add & norm' to the output
# (B, n, D). Before the first box, three arrows lead from the line down to multi-head attention:
# queries, keys and values. Its answer (B, n, D) goes up to the box, where it is added to what the
# line brings, the residual. Before the second box, an arrow leads down to the FFN, which works on
# each token, and its answer (B, n, D) goes up to the box.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Follow one token with a finger. Ask where it meets other tokens: in one box of four.


# %% slideshow={"slide_type": "subslide"} tags=["build"]
def real_keys(valid_lens, n):  # (B,) -> (B, 1, 1, n): the same for all heads and queries
    return torch.arange(n) < valid_lens[:, None, None, None]


class PlainEncoderBlock(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout):
        super().__init__()
        self.attention = PlainMultiHeadAttention(num_hiddens, num_heads, dropout)
        self.addnorm1 = PlainAddNorm(num_hiddens, dropout)
        self.ffn = PlainFFN(num_hiddens, ffn_num_hiddens)
        self.addnorm2 = PlainAddNorm(num_hiddens, dropout)

    def forward(self, X, valid_lens):  # (B, n, D), (B,) -> (B, n, D)
        X = self.addnorm1(X, self.attention(X, X, X, real_keys(valid_lens, X.shape[1])))
        return self.addnorm2(X, self.ffn(X))


# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. The last two lines are the picture. Ask what becomes of a padding token: it asks,
# too, and its row is computed, but nobody reads it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The decoder's block
#
# Attention has three roles. There are $S$ English tokens and $T$ French ones.
#
# | | queries | keys, values | a query may see | weights |
# |---|---|---|---|---|
# | encoder | English | English | all words, no padding | (B, H, S, S) |
# | decoder, `attention1` | French | French | itself and earlier words | (B, H, T, T) |
# | decoder, `attention2` | French | the encoder's output | all words, no padding | (B, H, T, S) |
#
# French padding needs no mask of its own: it comes after all real words, so it is in their future.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Draw the empty table on the board and let the room fill it, row by row. In the last
# row some let the English ask. The language that is written asks the one that is read.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws who feeds what in the decoder's block
schematic("decoder block")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a straight line leads from X (B, Q, D) through three boxes named 'add & norm' to the
# output (B, Q, D). Before each box a sublayer reads the line, and its answer (B, Q, D) goes up to
# the box, where it is added to what the line brings, the residual. First, causal self-attention
# takes q, k and v from the line. Second, cross-attention takes q from the line, but k and v from
# the encoder output (B, K, D) below. Third, the FFN works on each token.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute. Ask which two arrows do not come from the line, and what would be left of the block
# without them: an encoder's block with a causal mask, the block of a chat model.


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainDecoderBlock(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout):
        super().__init__()
        self.attention1 = PlainMultiHeadAttention(num_hiddens, num_heads, dropout)
        self.addnorm1 = PlainAddNorm(num_hiddens, dropout)
        self.attention2 = PlainMultiHeadAttention(num_hiddens, num_heads, dropout)
        self.addnorm2 = PlainAddNorm(num_hiddens, dropout)
        self.ffn = PlainFFN(num_hiddens, ffn_num_hiddens)
        self.addnorm3 = PlainAddNorm(num_hiddens, dropout)

    def forward(self, X, enc_outputs, enc_valid_lens):  # (B, T, D), (B, S, D), (B,) -> (B, T, D)
        past = torch.ones(X.shape[1], X.shape[1]).tril().bool()  # (T, T): key <= query
        X = self.addnorm1(X, self.attention1(X, X, X, past))
        source = real_keys(enc_valid_lens, enc_outputs.shape[1])  # (B, 1, 1, S)
        X = self.addnorm2(X, self.attention2(X, enc_outputs, enc_outputs, source))
        return self.addnorm3(X, self.ffn(X))


# %% [markdown] slideshow={"slide_type": "slide"}
# ## From blocks to a translator
#
# Encoder and decoder are stacks of blocks behind an embedding. The embedding begins with numbers
# of size $1 / \sqrt D$ and is multiplied by $\sqrt D$, so that a word is about as large as its
# position (*Going further* compares their sizes). `offset` is the position of the first
# token in `X`.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def position_rows(n, D):  # -> (n, D): row i is position i
    angles = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)  # (n, D / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(start_dim=1)


class PlainStack(nn.Module):
    def __init__(self, vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout):
        super().__init__()
        self.num_hiddens, self.dropout = num_hiddens, nn.Dropout(dropout)
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        nn.init.normal_(self.embedding.weight, std=num_hiddens**-0.5)
        sizes = num_hiddens, ffn_num_hiddens, num_heads, dropout
        self.blks = nn.ModuleDict({f"block{i}": self.block(*sizes) for i in range(num_blks)})

    def embed(self, X, offset=0):  # (B, n) -> (B, n, D)
        P = position_rows(offset + X.shape[1], self.num_hiddens)[offset:]
        return self.dropout(self.embedding(X) * math.sqrt(self.num_hiddens) + P)


# %% [markdown] slideshow={"slide_type": "-"}
# The encoder sends the tokens through its blocks. The decoder does the same with its own blocks,
# and a linear layer makes a score for each of the $N$ French words.


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainEncoder(PlainStack):
    block = PlainEncoderBlock

    def forward(self, X, valid_lens):  # (B, S), (B,) -> (B, S, D)
        X = self.embed(X)
        for block in self.blks.values():
            X = block(X, valid_lens)
        return X


class PlainDecoder(PlainStack):
    block = PlainDecoderBlock

    def __init__(self, vocab_size, num_hiddens, *sizes):
        super().__init__(vocab_size, num_hiddens, *sizes)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def forward(self, X, enc_outputs, enc_valid_lens):  # (B, T), (B, S, D), (B,) -> (B, T, N)
        X = self.embed(X)
        for block in self.blks.values():
            X = block(X, enc_outputs, enc_valid_lens)
        return self.dense(X)


class PlainTranslator(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, source, target, source_lens):  # (B, S), (B, T), (B,) -> (B, T, N)
        return self.decoder(target, self.encoder(source, source_lens), source_lens)


# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Let one student tell how 'orange' gets from the embedding to the score of a French
# word, naming each box. Ask why the embedding is multiplied by the root of D.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Train it
#
# The 8,000 pairs are chapter 5's. A batch has 64 of similar length. The loss is the mean
# cross-entropy over all real French words.


# %% slideshow={"slide_type": "-"}
corpus = load("grammar")
src_vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
tgt_vocab = Vocab((pair.target for pair in corpus.train), min_freq=2)
order = torch.Generator().manual_seed(0)
batches = data_loader(corpus.train, src_vocab, tgt_vocab, 64, generator=order, by_length=True)


def loss_on(model, batch):
    scores = model(batch.src, batch.tgt_in, batch.src_lens)  # (B, T, N)
    real = torch.arange(scores.shape[1]) < batch.tgt_lens[:, None]  # (B, T)
    return F.cross_entropy(scores[real], batch.tgt_out[real])


# %% [markdown] slideshow={"slide_type": "subslide"}
# The model has 64 numbers a token, four heads and two blocks a side. It reads all pairs four times,
# in 500 steps. The learning rate falls from 0.006 to 0.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
torch.manual_seed(0)
sizes = 64, 128, 4, 2, 0.0
encoder, decoder = PlainEncoder(len(src_vocab), *sizes), PlainDecoder(len(tgt_vocab), *sizes)
model = PlainTranslator(encoder, decoder)
optimizer = torch.optim.Adam(model.parameters(), lr=0.006)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=500)
for epoch in range(4):
    for batch in batches:
        loss = loss_on(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    print(f"epoch {epoch + 1}: loss of the last batch {loss.item():.2f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. The cell takes about half a minute. Ask what the loss is before the
# first step: 436 French words, all about equally likely, and ln 436 is 6.1.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Write a sentence
#
# In training all French positions are read at once. A new sentence is written word by word: read
# what was said so far, and say the word with the best score. How a step reads is a function of its
# own, because we exchange it below.


# %% slideshow={"slide_type": "-"} tags=["build"]
def read_all(decoder, said, enc_outputs, enc_valid_lens, kept):  # said (B, t) -> (B, t, N)
    return decoder(said, enc_outputs, enc_valid_lens), kept


@torch.no_grad()
def write(model, source, source_lens, bos, eos, max_len, step=read_all):  # (B, S) -> (B, T)
    enc_outputs = model.encoder(source, source_lens)  # once for all steps
    said, kept = torch.full((len(source), 1), bos), None
    while said.shape[1] <= max_len and not (said == eos).any(dim=1).all():
        scores, kept = step(model.decoder, said, enc_outputs, source_lens, kept)
        said = torch.cat([said, scores[:, -1:].argmax(dim=-1)], dim=1)
    return said[:, 1:]


# %% [markdown] slideshow={"slide_type": "subslide"}
# Now the two sentences of the beginning. Training saw neither of them.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
bos, eos = tgt_vocab[BOS], tgt_vocab[EOS]
for noun in ("orange", "cake"):
    words = f"the old doctor took the good {noun} and ate it".split()
    source = torch.tensor([src_vocab[[*words, EOS]]])  # (1, 11)
    said = write(model, source, torch.tensor([11]), bos, eos, max_len=40)
    print(*tgt_vocab.to_tokens(said[0]))

# %% [markdown] slideshow={"slide_type": "subslide"}
# Is it right? The package's classes name their parameters as we do. So they can take ours over, and
# must then give the same scores. They also translate 500 test sentences, and 500 with 'new pairs',
# adjectives and nouns that never met in training.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
theirs = TransformerEncoder(len(src_vocab), *sizes), TransformerDecoder(len(tgt_vocab), *sizes)
package = EncoderDecoder(*theirs).eval()
package.load_state_dict(model.state_dict())  # strict: each name and each shape must fit
test = make_batch(corpus.test, src_vocab, tgt_vocab)
inputs = test.src, test.tgt_in, test.src_lens
print("equal scores:", torch.allclose(model(*inputs), package(*inputs), atol=1e-3))
print("new sentences", evaluate(package, corpus.test, src_vocab, tgt_vocab))
print("new pairs    ", evaluate(package, corpus.compositional, src_vocab, tgt_vocab))

# %% [markdown] slideshow={"slide_type": "skip"}
# The package adds checks with messages, padding that may hold NaN, pre-norm, other kinds of
# positions, weights that are computed only when they are read, and a cache for the English, too.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks that the translator is good enough for what follows
known = {pair.source for pair in corpus.train}
for noun in ("orange", "cake"):
    assert tuple(f"the old doctor took the good {noun} and ate it".split()) not in known
with torch.no_grad():
    torch.testing.assert_close(model(*inputs), package(*inputs), atol=1e-3, rtol=1e-3)
assert evaluate(package, corpus.test, src_vocab, tgt_vocab).bleu > 85
print("checked: equal scores, BLEU above 85 on new sentences, training saw neither sentence")

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Ask what 'equal scores' shows here: that two programs agree on 500 sentences. Then
# ask which line of the loop is slow: the decoder reads everything again in each step. That is the
# next section.

# %% [markdown] slideshow={"slide_type": "subslide"}
# For comparison, the means of three starts of 600 steps:
#
# | | parameters | BLEU, new sentences | BLEU, new pairs | AER | seconds |
# |---|---|---|---|---|---|
# | Bahdanau, 96 units | 254,548 | 93.2 | 89.8 | 0.16 | 95 |
# | Transformer, 64 numbers | 239,668 | 96.2 | 93.3 | 0.06 | 75 |
#
# Here, at this size, the worst of the three Transformers has a higher BLEU than the best of chapter
# 5's models. (The seconds are rough.)

# %% [markdown] slideshow={"slide_type": "skip"}
# These commands make the table, with `--seed 0`, `1` and `2`:
#
# ```sh
# python -m d2l_attention.training --steps 600 --model bahdanau --num-hiddens 96
# python -m d2l_attention.training --steps 600 --model transformer --num-hiddens 64 --lr 0.006
# ```

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# One minute. The BLEU scores on new sentences are 94.0, 92.4, 93.1 and 96.1, 96.4, 96.1. The
# learning rates are each model's own. Ask what the table cannot say: other languages, other sizes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A cache for keys and values
#
# To choose the next word, the decoder needs keys and values of all words so far. All but the
# newest were computed in earlier steps, and they cannot have changed: the mask lets no word see a
# later one.
#
# **Predict.** The decoder writes 24 words. How many keys does one self-attention layer compute in
# all, if each step reads all words again? And if it keeps them?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes, in pairs. 1 + 2 + ... + 24 is 24 times 25 / 2. Then ask why an encoder could not keep
# its keys while a sentence grows: there a new word changes all others.

# %% [markdown] slideshow={"slide_type": "skip"}
# What is kept is the **key-value cache**. `read_newest` reads one word a step, and tells `embed`
# its position. Its loop is the decoder's block with another self-attention, which needs no mask,
# because everything in the cache is the past.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def attend_with_cache(layer, X, cache):  # X (B, 1, D), cache: keys and values (B, H, n, D / H)
    q, k, v = (layer.split(W(X)) for W in (layer.W_q, layer.W_k, layer.W_v))  # (B, H, 1, D / H)
    if cache is not None:
        k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    return layer.attend(q, k, v, visible=torch.tensor(True)), (k, v)


def read_newest(decoder, said, enc_outputs, enc_valid_lens, caches):  # said (B, t) -> (B, 1, N)
    caches = list(caches or [None] * len(decoder.blks))  # one for each block
    X = decoder.embed(said[:, -1:], offset=said.shape[1] - 1)  # (B, 1, D)
    source = real_keys(enc_valid_lens, enc_outputs.shape[1])
    for i, block in enumerate(decoder.blks.values()):
        Y, caches[i] = attend_with_cache(block.attention1, X, caches[i])
        X = block.addnorm1(X, Y)
        X = block.addnorm2(X, block.attention2(X, enc_outputs, enc_outputs, source))
        X = block.addnorm3(X, block.ffn(X))
    return decoder.dense(X), caches


# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
W_k, keys = decoder.blks["block0"].attention1.W_k, []
hook = W_k.register_forward_hook(lambda layer, X, output: keys.append(output.shape[1]))
for n in (24, 256):
    for step in (read_all, read_newest):
        keys.clear()
        begun = time.process_time()
        write(model, source, torch.tensor([11]), bos, eos=-1, max_len=n, step=step)  # no end
        print(f"{n:3} words: {sum(keys):6,} keys, {time.process_time() - begun:.2f} s")
hook.remove()
ways = [write(model, test.src, test.src_lens, bos, eos, 40, s) for s in (read_all, read_newest)]
print("the 500 translations are equal, word for word:", torch.equal(*ways))

# %% [markdown] slideshow={"slide_type": "skip"}
# In each pair of lines the first one reads all words again. The time falls by less than the keys,
# because a step has other work to do. The price is memory:
# each layer keeps two vectors a token (chapter 9 works out how much). The package's
# `KeyValueCache` makes room in advance instead of copying at each step.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks that both ways write the same words
assert torch.equal(*ways) and keys == [1] * 256
print("checked: equal translations of 500 sentences, with one key a step")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws who feeds what in one step with a key-value cache
schematic("key-value cache")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: one step of decoding. The new token (B, 1, D) is multiplied by W_q, W_k and W_v and split
# into heads, (B, H, 1, D/H) three times. Its key becomes the last of n + 1 keys and its value the
# last of n + 1 values: two rows of squares of which one is dark, the new one. The query meets all
# keys (B, H, n+1, D/H) in scaled scores and a softmax. The weights (B, H, 1, n+1) are multiplied by
# all values (B, H, n+1, D/H). The output is (B, H, 1, D/H).*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Cover the shapes and let the room fill them in. 300 against 24 keys, and 32,896
# against 256. For 256 words the keys suggest 128 times the speed. Ask what else a step has to do.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Step through three rounds of a tiny decoder.
#
# **Question.** How many words does `embed` get in the third round, and which `offset`? Compare the
# keys `k` of the second and of the third round: which rows have changed?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Records three rounds of a tiny decoder, line by line
torch.manual_seed(1)
tiny = PlainTranslator(PlainEncoder(5, 4, 8, 1, 1, 0.0), PlainDecoder(5, 4, 8, 1, 1, 0.0))
watch(
    write,
    tiny,
    torch.tensor([[1, 2]]),
    torch.tensor([2]),
    bos=0,
    eos=-1,
    max_len=3,
    step=read_newest,
    into=[read_newest, attend_with_cache, PlainStack.embed],
    axes={"q": "BHQd", "k": "BHKd", "v": "BHKd", "X": "BnD", "said": "Bt"},
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive run of the loop that writes three words. Left, the lines, of which one is
# marked; right, the names with their shapes and numbers. In the third round the token has the
# shape (1, 1), offset is 2, and k has three rows, of which the first two are those of the second
# round.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes, line by line with the arrow keys. In each round one word goes in. The old rows of k
# stay as they are. Ask what would change them: a block that lets earlier words see later ones.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention carries between tokens, and a position-wise network works within each. Residual
#   connections keep a way open for the gradient, and layer norm keeps the sums in a range.
#   Post-norm is $\mathrm{norm}(X + f(X))$, and pre-norm is $X + f(\mathrm{norm}(X))$.
# - The encoder's block has an attention and a network. The decoder's block has a causal attention,
#   an attention to the encoder's output, and a network.
# - A sentence is written word by word. A key-value cache computes $n$ keys instead of $n(n+1)/2$,
#   and changed no word in 500 translations. Each new word needs its own position.
# - In the run shown, one head puts 0.57 of the weight of 'it' on the noun, but the other words put
#   0.31 there (*Going further*).

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("8.1")` gives one more hint each time, `solution("8.1")` the whole way. Exercises 8.5 and
# 8.6 are at the end of *Going further*.

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

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Read these sections in any order. Exercises 8.5 and 8.6 follow behind them.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two bugs that training does not show
#
# *10 minutes.* In training each position reads the true sentence and must say the *next* word.
# That word is beside it in the input, so the mask is all that hides it. The test for any model:
# change every word from position $t$ on. No score before $t$ may move.


# %% slideshow={"slide_type": "fragment"}
@torch.no_grad()
def sees_the_future(model, batch):
    scores = model(batch.src, batch.tgt_in, batch.src_lens)
    for t in range(1, scores.shape[1]):
        changed = batch.tgt_in.clone()
        changed[:, t:] = tgt_vocab["orange"]
        other = model(batch.src, changed, batch.src_lens)
        if not torch.allclose(other[:, :t], scores[:, :t], atol=1e-4):
            return True
    return False


# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Before you show the code: how would you test that no position sees the future, for
# any model and without a look inside? 'Look at the mask' comes first. Ask what to do with a model
# whose weights you cannot see. Exercise 8.6 is this question.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The book's decoder (section 11.7.5) makes two mistakes. It hides the future only while training,
# because in decoding there is no future yet. And it forgets the `offset`, so that each new word
# gets position 0. Here are both in our code:


# %% slideshow={"slide_type": "-"}
class MasksOnlyInTraining(PlainMultiHeadAttention):
    def forward(self, queries, keys, values, visible):
        return super().forward(queries, keys, values, visible | (not self.training))


class ForgetsTheOffset(PlainDecoder):
    def embed(self, X, offset=0):
        return super().embed(X)


leaky, lost = copy.deepcopy(model), copy.deepcopy(model)  # the same trained parameters
for block in leaky.decoder.blks.values():
    block.attention1.__class__ = MasksOnlyInTraining  # the same object, another forward
lost.decoder.__class__ = ForgetsTheOffset

# %% [markdown] slideshow={"slide_type": "subslide"}
# Both copies have the trained parameters. Validation computes the loss on whole sentences, in
# `eval()`. BLEU is computed on sentences that the model writes with its cache.
#
# **Predict.** Compare each copy with the right model on the 500 validation pairs. Is its loss
# lower, equal or higher? Is its BLEU lower or equal?


# %% slideshow={"slide_type": "skip"}
def bleu_on(model, pairs, step):
    batch = make_batch(pairs, src_vocab, tgt_vocab)
    said = write(model, batch.src, batch.src_lens, bos, eos, 40, step)
    rows = [tgt_vocab.to_tokens(row) + [EOS] for row in said]
    return bleu([row[: row.index(EOS)] for row in rows], [pair.targets for pair in pairs])


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
valid = make_batch(corpus.valid, src_vocab, tgt_vocab)
few = make_batch(corpus.valid[:3], src_vocab, tgt_vocab)
for name, some in {"right": model, "leaky": leaky, "lost": lost}.items():
    with torch.no_grad():
        loss = loss_on(some.eval(), valid)
    score = bleu_on(some, corpus.valid, read_newest)
    seen = sees_the_future(some.train(), few), sees_the_future(some.eval(), few)
    print(f"{name:6} loss {loss:.2f}, BLEU {score:4.1f}, sees the future in train, eval: {seen}")

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks the losses, the translations and the two tests
with torch.no_grad():
    right_loss, leaky_loss, lost_loss = (loss_on(m.eval(), valid) for m in (model, leaky, lost))
assert leaky_loss > 5 * right_loss and lost_loss == right_loss
inputs = valid.src, valid.src_lens, bos, eos, 40
right_words = write(model, *inputs, read_newest)
assert torch.equal(write(leaky, *inputs, read_newest), right_words)
assert torch.equal(write(lost, *inputs, read_all), right_words)
assert bleu_on(lost, corpus.valid, read_newest) < 50
assert not sees_the_future(model.train(), few) and not sees_the_future(leaky.train(), few)
assert not sees_the_future(model.eval(), few) and sees_the_future(leaky.eval(), few)
print("checked: the leak changes the loss only, the lost position changes the translations only")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The leak spoils the loss and no translation. The lost position spoils the translations and no
# loss: only BLEU on the validation pairs shows it.

# %% [markdown] slideshow={"slide_type": "skip"}
# The leaky model gets worse, although it sees the answer. A likely reason is that it never learned
# what to do with a future. A model *trained* without a mask is another bug. The lost model writes
# the right words if it reads all of them at each step (`read_all`), because then every word has
# its position.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Four minutes. Let them fill in a table of two rows and two columns on the board. Most say that the
# leak lowers the loss, 'because it cheats'. That is the other bug: no mask in training either. Then
# the model learns to copy the next word and cannot write. Ask for one test that catches both bugs
# here: the whole sentence at once against word by word, same scores.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where does 'it' look?
#
# *6 minutes.* The view shows the encoder's four heads on the sentence from the beginning: rows
# ask, columns are read. **Question.** Find the row 'it'. Which heads look at 'orange'? Do other
# rows look there, too?


# %% slideshow={"slide_type": "skip"}
@torch.no_grad()
def weights_of(words, said):  # three kinds of attention, each (blocks, H, Q, K)
    source = torch.tensor([src_vocab[[*words, EOS]]])
    reads = torch.tensor([tgt_vocab[[BOS, *said]]])
    model(source, reads, torch.tensor([source.shape[1]]))
    encoder, decoder = model.encoder.blks.values(), model.decoder.blks.values()
    return {
        "English asks English": torch.cat([b.attention.attention_weights for b in encoder]),
        "French asks French": torch.cat([b.attention1.attention_weights for b in decoder]),
        "French asks English": torch.cat([b.attention2.attention_weights for b in decoder]),
    }


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of English asking English, in all heads
blocks = ["block 1", "block 2"]
pair = corpus.test[197]


def view_of(kind, queries, keys):
    weights = weights_of(pair.source, pair.target)[kind]
    view = AttentionView(weights, queries, keys, frames=blocks, title=kind)
    view.frame, view.head = 1, -1  # the last block, all heads
    return view


view_of("English asks English", [*pair.source, EOS], [*pair.source, EOS])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of four heat maps, one a head, of the English words against
# themselves in the second block, with a switch to the first. In the run shown, head 1 gives 0.95
# of the row 'it' to the column 'orange'. The rows 'took', 'the' and 'good' are dark there, too.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Leave the picture alone for half a minute, then read the row 'it' aloud, head by
# head. Somebody says 'it knows what *it* means'. Ask which other rows look at 'orange', and go on.

# %% [markdown] slideshow={"slide_type": "subslide"}
# One sentence proves little. So take all test sentences that end with a noun, 'and', a verb, and
# 'it' or 'them'. How much weight goes from the pronoun to the noun? The control: how much goes from
# the other words to the same noun?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
rows, even = [], []
for pair in corpus.test:
    words = pair.source
    if words[-1] in ("it", "them") and words[-3] == "and" and "of" not in words:
        onto_noun = weights_of(words, pair.target)["English asks English"][1, :, :, -5]  # (H, Q)
        others = [i for i in range(len(words) - 1) if i != len(words) - 4]
        rows.append(torch.stack([onto_noun[:, -2], onto_noun[:, others].mean(dim=1)]))
        even.append(1 / (len(words) + 1))
from_pronoun, from_others = torch.stack(rows).mean(dim=0)
print(f"{len(rows)} sentences, block 2; spread evenly, {sum(even) / len(even):.2f} on the noun")
print("heads 1 to 4, from the pronoun    ", from_pronoun)
print("heads 1 to 4, from the other words", from_others)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks that one head gives the pronoun's row more weight on the noun than other rows
assert len(rows) > 30 and (from_pronoun - from_others).max() > 0.05 and from_pronoun.max() > 0.2
print("checked: in one head at least the pronoun looks at the noun more than other words do")

# %% [markdown] slideshow={"slide_type": "skip"}
# In the run shown, head 1 puts 0.57 of the pronoun's weight on the noun, where an even share would
# be 0.10. But the other words put 0.31 there, too. So the noun can be reached from 'it' in one
# step, and nobody told the model to do so. This does not show that the head *knows* what 'it'
# means. Perhaps it looks for the last noun, whichever word asks.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Ask before the second line of numbers: 'What should the other words do, if this head
# were about pronouns?' The control is the point of the slide. Which head it is depends on the
# random start.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your sentence
#
# *4 minutes.* Write a sentence, or pick one; choose a kind of attention, a block and a head.
#
# **Question.** In the examples, does a head look back at the noun when the decoder says the last
# letters of *mangée*, *mangé* or *prises*? (It opens on French asking French, in block 2.)

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Shows the view for your sentence


def look(words, kind):
    """The translation of these words, and the weights of this kind behind it."""
    source = torch.tensor([src_vocab[[*words, EOS]]])
    said = write(model, source, torch.tensor([len(words) + 1]), bos, eos, 40, read_newest)[0]
    said = [word for word in tgt_vocab.to_tokens(said) if word != EOS]
    french, reads, english = [*said, EOS], [BOS, *said], [*words, EOS]
    labels = {
        "French asks French": (french, reads),
        "French asks English": (french, english),
        "English asks English": (english, english),
    }
    queries, keys = labels[kind]
    weights = weights_of(words, said)[kind]
    title = " ".join(said)
    return {"weights": weights, "title": title, "queries": queries, "keys": keys, "frames": blocks}


sentence = SentenceView(
    look,
    corpus.tokenize,
    src_vocab,
    [
        "the old doctor took the good orange and ate it",
        "the old doctor took the good cake and ate it",
        "the old man found three new letters and took them",
    ],
    kinds=["French asks French", "French asks English", "English asks English"],
)
sentence.view.frame, sentence.view.head = 1, -1  # the last block, all heads
sentence

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a text field with an English sentence, buttons with examples and with three kinds of
# attention, and below them a heat map for each of the four heads, with a slider for the blocks. It
# shows French asking French in block 2. In the run shown, in the row 'mangée' head 1 looks at 'la'
# and 'bonne'. In block 1, head 4 looks at 'orange'.*

# %% [markdown] slideshow={"slide_type": "skip"}
# In the run shown, head 1 of block 2 looks at *la* and *bonne* when it says *mangée*: the French
# written so far already tells the gender. In block 1, head 4 looks at *orange*.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# This is for JupyterLab: run the notebook before the lecture, then open it by the link at the
# bottom left. Let the room call out sentences. Right or wrong, ask what they would look at to find
# out why.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which head aligns?
#
# *6 minutes.* Chapter 5 took the English word with the largest weight as the link of a French word,
# and found that attention is not alignment. Here eight heads look from French to English.
#
# **Predict.** Bahdanau's attention had an AER of 0.12, 0.14 and 0.20 in the three starts of the
# table. How many of our eight heads have one below 0.12?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Each writes down a number from 0 to 8. Ask somebody for 0 and somebody for 8 why.


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
def links_of(weights):  # (sentences, T, S): for each sentence a set of (English, French)
    pairs = zip(weights, corpus.test, strict=True)
    return [align_by_attention(W, len(pair.source), len(pair.target)) for W, pair in pairs]


def aer_of(links):
    sure, possible = [p.sure for p in corpus.test], [p.possible for p in corpus.test]
    return alignment_error_rate(links, sure, possible)


with torch.no_grad():
    model.eval()(test.src, test.tgt_in, test.src_lens)
cross = [block.attention2.attention_weights for block in decoder.blks.values()]  # (B, H, T, S)
rates = torch.tensor([[aer_of(links_of(W[:, head])) for head in range(4)] for W in cross])
mean_rate = aer_of(links_of(cross[1].mean(dim=1)))
print(f"AER below 0.12: {(rates < 0.12).sum()} of 8 heads")
print(f"AER of the best head {rates.min():.3f}, of the mean of block 2's heads {mean_rate:.3f}")

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Draws the error rate of each head
figure, ax = plt.subplots(figsize=(8, 3.2))
heatmap(ax, rates, blocks, [f"head {h}" for h in range(1, 5)], vmax=0.6, numbers=True)
ax.set_title(f"Heads disagree: error rates from {rates.min():.2f} to {rates.max():.2f}")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a table of two blocks and four heads with the alignment error rate of each, darker where
# it is higher.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The mean of the four heads has a lower error rate than the best of them. How can that be? The next
# cell takes the French words with a known link and asks which heads of block 2 find it.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
known = test.links.any(dim=-1) & (test.tgt_out != eos)  # (B, T)
looks = torch.stack([cross[1][:, head] for head in range(4)] + [cross[1].mean(dim=1)])
right = test.links.expand(5, -1, -1, -1).gather(-1, looks.argmax(dim=-1, keepdim=True))[..., 0]
right = right[:, known]  # (5, words): the four heads, and their mean
best = right[:4].float().mean(dim=1).argmax()
missed = ~right[best]
print("share of words found by the four heads and their mean:", right.float().mean(dim=1))
print(f"missed by the best head: {missed.sum()} words")
print(f"   of these found by another head: {right[:4, missed].any(dim=0).float().mean():.0%}")
print(f"   of these found by the mean:     {right[4, missed].float().mean():.0%}")

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks what the text says about heads, their mean and their mistakes
assert rates.min() < 0.2 and rates.max() > 1.5 * rates.min()
assert mean_rate < rates.min() + 0.02
assert right[:4, missed].any(dim=0).float().mean() > 0.5
print("checked: heads differ by far; most of what the best one misses another one finds")

# %% [markdown] slideshow={"slide_type": "skip"}
# Heads make different mistakes. In the run shown, another head finds 85% of the words that the best
# head misses. The mean of the weights finds 52% of them, and loses a few that the best head finds.
# Together it finds 91%, and the best head 90%. So the mean can have the lower error rate.

# %% [markdown] slideshow={"slide_type": "skip"}
# So 'the alignment of a Transformer' does not exist. There is the alignment of one head, or of a
# mean of heads, and a heat map in a paper is a choice. Chapter 5's guidance works here, too: the
# package's `train` with `guidance=0.1` asks the last block for the true links.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Before or after?
#
# *7 minutes.* Xiong et al. (2020) report that pre-norm trains at larger learning rates than
# post-norm, and without a warm-up, that is without small rates at the beginning. We try it in
# small: 32 numbers a token, two blocks a side, 80 steps without a warm-up, two starts. The cell
# prints the mean loss of the last ten steps (`train` is the package's, with our loop). For
# comparison: a model that only knows how frequent each word is has the loss in the first line.


# %% slideshow={"slide_type": "skip"}
def translator(pre_norm, seed):
    torch.manual_seed(seed)
    sizes = dict(num_hiddens=32, ffn_num_hiddens=64, num_heads=4, num_blks=2, dropout=0.0)
    return EncoderDecoder(
        TransformerEncoder(len(src_vocab), **sizes, pre_norm=pre_norm),
        TransformerDecoder(len(tgt_vocab), **sizes, pre_norm=pre_norm),
    )


# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
words = [word for pair in corpus.train for word in [*pair.target, EOS]]
counts = torch.tensor(tgt_vocab[words]).bincount()
shares = counts[counts > 0] / counts.sum()
print(f"frequencies only           {-(shares * shares.log()).sum():.2f}")
ended, data = {}, (corpus.train, src_vocab, tgt_vocab)
for rate in (0.006, 0.03):
    for name, pre_norm in {"post-norm": False, "pre-norm": True}.items():
        runs = [
            train(translator(pre_norm, seed), *data, steps=80, lr=rate, seed=seed)
            for seed in (0, 1)
        ]
        ended[name, rate] = [sum(run.losses[-10:]) / 10 for run in runs]
        print(f"{name:9} at rate {rate:<5}   ", *(f"{loss:.2f}  " for loss in ended[name, rate]))

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks which order learns at which rate
after, before = (ended[name, 0.006] for name in ("post-norm", "pre-norm"))
assert all(abs(a - b) < 1 for a, b in zip(after, before, strict=True))
assert min(ended["post-norm", 0.03]) > 1 + max(ended["pre-norm", 0.03])
print("checked: alike at 0.006, and post-norm is far behind at 0.03")

# %% [markdown] slideshow={"slide_type": "skip"}
# At 0.006 the two are alike. At 0.03 pre-norm learns, and post-norm knows little more than the
# frequencies. That agrees with the report, for this model, these two rates and 80 steps.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Ask for a guess at 0.03 before the table. It is no proof: two starts of a small
# model.

# %% [markdown] slideshow={"slide_type": "skip"}
# What pre-norm pays for it is one more layer norm at the top.
#
# **Predict.** Untrained encoders of 24 blocks. The size of a token is here the standard deviation
# of its numbers. How large is it after the last block, with post-norm and with pre-norm?

# %% slideshow={"slide_type": "skip"}
for name, pre_norm in {"post-norm": False, "pre-norm": True}.items():
    torch.manual_seed(0)
    deep = TransformerEncoder(50, 32, 64, 4, num_blks=24, dropout=0.0, pre_norm=pre_norm)
    X, token_sizes = deep.embed(torch.randint(50, (2, 7))), []
    for block in deep.blks:
        X = block(X)
        token_sizes.append(X.std(dim=-1, correction=0).mean().item())
    print(f"{name:9} after block 1, 8, 16, 24:", *(f"{token_sizes[i]:.2f}" for i in (0, 7, 15, 23)))

# %% [markdown] slideshow={"slide_type": "skip"}
# The sum of a pre-norm stack grows with each block. The last norm gives the decoder, or the last
# linear layer, numbers that do not depend on the depth. If it is forgotten, nothing crashes.
#
# *The Annotated Transformer* (Rush, 2018) explains the paper's post-norm above code that is
# pre-norm, and a reader proposes a third formula as its correction, $X + \mathrm{norm}(f(X))$. All
# three are different functions.
#
# Many newer models use **RMSNorm** (Zhang and Sennrich, 2019), which divides by the root of the
# mean square and subtracts nothing: $x / \sqrt{\tfrac1D \sum_i x_i^2}$, times a learned factor.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the three formulas differ
torch.manual_seed(0)
X, f, norm = torch.randn(2, 5, 8), nn.Linear(8, 8), nn.LayerNorm(8)
three = norm(X + f(X)), X + f(norm(X)), X + norm(f(X))
assert all((three[i] - three[j]).abs().max() > 0.5 for i, j in ((0, 1), (1, 2), (0, 2)))
token = torch.tensor([2.0, 2.0, 5.0])
torch.testing.assert_close(nn.RMSNorm(3)(token), token / 11**0.5)
print("checked: three formulas, three results; RMSNorm divides (2, 2, 5) by the root of 11")

# %% [markdown] slideshow={"slide_type": "skip"}
# ### What a residual and a norm are good for
#
# *4 minutes.* In the core we said that each layer has the slope 0.1. Here are real networks with
# random parameters, up to 24 on top of each other. How large is the gradient at the bottom?


# %% slideshow={"slide_type": "skip"}
def gradient_at_the_bottom(depth, residual):
    torch.manual_seed(0)
    bottom = torch.randn(2, 5, 32, requires_grad=True)
    X = bottom
    for _ in range(depth):
        Y = PlainFFN(32, 64)(X)
        X = X + Y if residual else Y
    X.sum().backward()
    return bottom.grad.norm().item()


for depth in (1, 6, 12, 24):
    without, residual = (gradient_at_the_bottom(depth, r) for r in (False, True))
    print(f"depth {depth:2}: f(X) {without:.0e}, X + f(X) {residual:.0f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# And the difference between layer norm and batch norm in training mode: the second sentence of a
# batch changes. How far does the first one move?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
X = torch.randn(2, 4, 3)  # two sentences of four tokens
other = torch.cat([X[:1], 9 * X[1:]])  # the second one changed
for norm in (nn.LayerNorm(3), nn.BatchNorm1d(3)):
    before, after = (norm(each.flatten(0, 1))[:4] for each in (X, other))
    print(f"{type(norm).__name__}: {(after - before).abs().max():.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# In evaluation mode batch norm uses means and variances that it kept from training, and the first
# sentence would not move either.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### How large is a position?
#
# *3 minutes.* A position has $D/2$ pairs of a sine and a cosine, and each pair has
# $\sin^2 + \cos^2 = 1$. So its length is $\sqrt{D/2}$. The paper multiplies the embeddings by
# $\sqrt D$ and does not say how large they are before training.
#
# **Predict.** $D = 128$. PyTorch's `nn.Embedding` begins with numbers of size 1. Which vector is
# longer, the word's or the position's, and how many times?

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
D = 128
position = position_rows(16, D).norm(dim=-1).mean()
by_pytorch = nn.Embedding(300, D).weight.norm(dim=-1).mean() * D**0.5
ours = PlainEncoder(300, D, 2 * D, 4, 1, 0.0).embedding.weight.norm(dim=-1).mean() * D**0.5
print(f"position {position:.1f}, word by PyTorch {by_pytorch:.1f}, word in this chapter {ours:.1f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# With PyTorch's start the position is only a sixteenth of the word. In this chapter embeddings
# begin $\sqrt D$ times smaller, so that the two vectors have similar lengths.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three families
#
# *3 minutes.* The same blocks make three kinds of models (*Dive into Deep Learning*, section 11.9).
#
# | | blocks | mask | trained to | for instance |
# |---|---|---|---|---|
# | encoder-only | encoder's | padding only | fill in hidden words | BERT (2018) |
# | decoder-only | decoder's without `attention2` | causal | say the next word | GPT (2018) |
# | encoder-decoder | both | as in this chapter | write a target | Transformer (2017), T5 (2019) |
#
# A decoder-only block is an encoder's block with a causal mask. It reads a question and writes the
# answer behind it, in one sequence, so it needs no second attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two minutes. Cover the column of masks. Ask which family a chat model belongs to, and which one
# you would take to sort e-mails.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### An image as a sentence
#
# *8 minutes.* A **vision transformer** (Dosovitskiy et al., 2021; the book's section 11.8) cuts an
# image into patches. Each patch is a token: a linear layer does the work of the embedding. Our
# images have nine patches of 4 x 4 pixels. One patch is bright, one is half as bright, and all have
# noise. The model must name the bright one. An additional token at position 0, the same for each
# image, collects the answer.


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
        self.P = positions * position_rows(10, num_hiddens)  # 0 times: no positions
        self.blks = nn.ModuleList(PlainEncoderBlock(num_hiddens, 64, 4, 0.0) for _ in range(2))

    def forward(self, X):  # (B, 12, 12) -> (B, 9)
        patches = X.unflatten(1, (3, 4)).unflatten(3, (3, 4)).transpose(2, 3)  # (B, 3, 3, 4, 4)
        X = self.embedding(patches.flatten(3).flatten(1, 2))  # (B, 9, D)
        X = torch.cat([self.first.expand(len(X), 1, -1), X], dim=1) + self.P  # (B, 10, D)
        for block in self.blks:
            X = block(X, torch.full((len(X),), 10))
        return self.dense(X[:, 0])


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws one image with its patches
torch.manual_seed(0)
pictures, answers = images(1)
figure, ax = plt.subplots(figsize=(4.2, 3.6))
shown = ax.imshow(pictures[0], cmap="gray", vmin=-1, vmax=2)
for line in (3.5, 7.5):
    ax.axhline(line, color="#E69F00")
    ax.axvline(line, color="#E69F00")
ax.set(title=f"Patch {answers[0]} is the bright one", xlabel="pixel", ylabel="pixel")
figure.colorbar(shown, label="light")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a noisy image of 12 by 12 pixels, cut by lines into nine patches. One patch is clearly
# brighter than the others, and one is a little brighter.*

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
# each patch: a bright patch is the same token wherever it is. The blocks are those of the
# translator. In the paper, vision transformers became better than convolutional
# networks only after training on 14 million images or more. This toy says nothing about that.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Three minutes. Ask what is a word here, what a sentence, and what the embedding. Then the vote:
# without positions, one of nine is 11%.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

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
# Its first token is right. It has three bugs, and one of them shows only once another is corrected.


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
# (B, T, 10). It has no dropout. In a right one the logits at position t depend on that sentence's
# tokens up to t and on nothing else (rounding aside), in training and in evaluation mode. There
# your test returns without a word. It raises an `AssertionError` for each of seven broken ones.
# The chapter's `sees_the_future`, in both modes, would catch five of them:
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
#   3.5, figure 1.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 11.7 to
#   11.9; 11.7.5 has the decoder with its mask and its positions. [d2l.ai](https://d2l.ai)
# - K. He et al., *Deep Residual Learning for Image Recognition*, CVPR 2016, arXiv:1512.03385.
# - J. L. Ba, J. R. Kiros, G. E. Hinton, *Layer Normalization*, 2016, arXiv:1607.06450.
# - R. Xiong et al., *On Layer Normalization in the Transformer Architecture*, ICML 2020,
#   arXiv:2002.04745. Post-norm and pre-norm, warm-up, the last norm.
# - B. Zhang, R. Sennrich, *Root Mean Square Layer Normalization*, NeurIPS 2019, arXiv:1910.07467.
# - A. Rush, *The Annotated Transformer*, NLP-OSS workshop, ACL 2018, doi:10.18653/v1/W18-2509. The
#   third formula is in issue #110 of its repository, harvardnlp/annotated-transformer.
# - A. Dosovitskiy et al., *An Image is Worth 16x16 Words*, ICLR 2021, arXiv:2010.11929.
# - J. Devlin et al., *BERT*, NAACL 2019, arXiv:1810.04805; A. Radford et al., *Improving Language
#   Understanding by Generative Pre-Training*, OpenAI 2018; C. Raffel et al., *Exploring the Limits
#   of Transfer Learning with a Unified Text-to-Text Transformer* (T5), JMLR 2020,
#   arXiv:1910.10683. The families' examples.
