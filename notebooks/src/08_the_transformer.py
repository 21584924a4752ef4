# %% [markdown] slideshow={"slide_type": "slide"}
# # 8 · The Transformer
#
# **You will**
# - follow a sentence through a trained translator, from the whole to one number and back;
# - build the encoder's block, the decoder's block and a whole translator from plain parts;
# - keep keys and values in a cache, and get the same answers;
# - forbid looks, to find out which of them decides about a word.
#
# Core path: 60 minutes. Going further: 65. Exercises: 80. Builds on chapters 4, 6 and 7; the
# opening needs only chapter 1. *Dive into Deep Learning* (D2L) treats the subject in section 11.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes: 12½ for the opening, from 'it' to a number and back; 9 for the network and for add and
# norm; 4 for the blocks; 4 for the whole translator and the cache; 6½ for the look that decides and
# the summary. After 22 minutes you should be at 'The encoder's block'. Two slides are not in the
# plan: 'Our order' and 'The picture as code'. Behind? Leave out the slides of the cache. Nothing
# trains in the core. The slides after the summary are for questions. Homework: exercises 8.1 to
# 8.4.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy
import math
import time
from unittest.mock import patch

import torch
import torch.nn.functional as F
from IPython.display import Image
from torch import nn

from d2l_attention import TransformerDecoder, TransformerEncoder
from d2l_attention.data import BOS, EOS, load, make_batch
from d2l_attention.models.encoder_decoder import EncoderDecoder, sequence_loss
from d2l_attention.training import train
from d2l_attention.training.evaluation import translate
from d2l_attention.training.metrics import align_by_attention, alignment_error_rate, bleu
from d2l_attention.training.translators import translator
from d2l_attention.views import TranslatorView, look_inside, schematic
from d2l_attention.views.plots import set_style
from d2l_attention.views.schematics.drawing import LEARNED, TENSOR, Diagram

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the whole machine, with this chapter's part marked
schematic("whole", here="blocks")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the whole machine in two rows. Above, from left to right: a sentence goes in; its words
# become vectors, to which positions are added; the encoder's blocks read them; the decoder asks the
# encoder; the decoder's blocks write; a sentence comes out. The two blocks are marked. Below is the
# inside of a block, which is marked, too: queries, keys and values; the similarity of queries and
# keys; scores; mask and softmax; the weighted sum of the values. These five together are attention,
# and there are several of them side by side, the heads. Then add & norm and a network follow.*

# %% [markdown] slideshow={"slide_type": "-"}
# The marked boxes are the blocks of a **Transformer** (Vaswani et al., 2017). This chapter puts all
# boxes together.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Nobody has to know the boxes yet. Say that each of them is opened in the next ten
# minutes, and point at the box 'attention': it is where words look at other words.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is 'it'?
#
# A trained translator reads two sentences that differ in one word.

# %% slideshow={"slide_type": "-"}
trained, src_vocab, tgt_vocab = translator("transformer")

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Translates both sentences
for noun in ("cake", "orange"):
    words = f"the old doctor took the good {noun} and ate it".split()
    print(*words, "->", *translate(trained, [words], src_vocab, tgt_vocab)[0])

# %% [markdown] slideshow={"slide_type": "-"}
# *Mangé* and *mangée* mean *eaten*. In French, a cake is masculine and an orange is feminine, so
# the last letter depends on what *it* is. A machine that works on each word by itself cannot know.
# A word has to look at other words and take something from them. This look is **attention**.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room find the last letters that differ, and the English word that decides
# about them. Does 'it' look at the noun? That is settled near the end.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From the whole to one number
#
# Here is a shorter sentence. The translator reads the English and the French that is written so
# far, and scores each French word as the next one. `<bos>` says that nothing is written yet, and
# `<eos>` is the end.

# %% slideshow={"slide_type": "-"}
english, french = ["he", "sees", "her", EOS], [BOS, "il", "la", "voit"]
source, so_far = torch.tensor([src_vocab[english]]), torch.tensor([tgt_vocab[french]])
with torch.no_grad():
    scores = trained(source, so_far)  # a row of 442 scores for each French word so far
for word, row in zip(french, scores[0], strict=True):
    print(f"after {word:6} comes {tgt_vocab.to_tokens([row.argmax()])[0]}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The translator has written *il la* (he, her) and chooses the next word. At which
# English word should it look: *he*, *sees* or *her*?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room vote. Most say 'sees'. Some say 'her', because it is the word that has
# just been written: for them the map of the head decides in a moment.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two halves

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the two halves of the translator
d = Diagram("The encoder reads, and the decoder writes", 10.4, 3.4)
read_in = d.box("he sees her", 0.85, 2.3, 1.4, kind=TENSOR)
written = d.box("so far:\nil la", 0.85, 0.8, 1.4, kind=TENSOR)
rows_in, rows_written = (
    d.box("a row of 64\nnumbers a word", 3.05, y, 1.9, kind=LEARNED) for y in (2.3, 0.8)
)
read = d.box("encoder:\n2 blocks", 5.35, 2.3, 1.2, kind=LEARNED, copies=2)
output = d.box("English rows: each\nhas looked at the others", 8.0, 2.3, 2.8, kind=TENSOR)
wrote = d.box("decoder:\n2 blocks", 6.9, 0.8, 1.2, kind=LEARNED, copies=2)
scored = d.box("442 scores,\nbest: voit", 9.3, 0.8, 1.4, kind=TENSOR)
for start, end, label in (
    (read_in, rows_in, ""),
    (rows_in, read, ""),
    (read, output, ""),
    (written, rows_written, ""),
    (rows_written, wrote, ""),
    (output, wrote, "looked at"),
    (wrote, scored, ""),
):
    d.arrow(start, end, label)
d.figure

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of boxes from left to right. Above, 'he sees her' becomes a row of 64 numbers a
# word, goes through the encoder's two blocks, and gives English rows, each of which has looked at
# the others. Below, the French so far, 'il la', becomes such rows, too, and goes through the
# decoder's two blocks to 442 scores, of which that of 'voit' is best. An arrow leads from the
# English rows down to the decoder's blocks: they are looked at.*

# %% [markdown] slideshow={"slide_type": "-"}
# In the encoder, English words look at English words. In the decoder, French words look at the
# French words before them, and then at the English rows. A **block** consists of such looks and of
# a small network behind them, which works on each row by itself.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let one student tell how 'sees' gets from the upper left to the score of a French
# word, naming each box.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One look, in small numbers
#
# The word that looks has a **query**, what it looks for. Each word that is looked at has a **key**,
# by which it is found, and a **value**, which it hands over. Three small matrices make them of the
# words' rows, and training has found the numbers of these matrices. A row of two numbers, for
# instance, becomes a query in this way:
#
# $$(1, 1) \begin{pmatrix} 2 & 0 \\ 0 & 1 \end{pmatrix} = (2, 1)$$

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Let the room multiply row and matrix. The matrices are the same for all words.

# %% [markdown] slideshow={"slide_type": "subslide"}
# With this query *la* looks at three words. A value is one number here:
#
# | word | key | score: query times key | $e^{\text{score}}$ | weight | value | weight times value |
# |---|---|---|---|---|---|---|
# | he | $(0, 0)$ | $2 \cdot 0 + 1 \cdot 0 = 0$ | 1.0 | 0.042 | 2 | 0.08 |
# | sees | $(1, 1)$ | $2 \cdot 1 + 1 \cdot 1 = 3$ | 20.1 | 0.844 | 10 | 8.44 |
# | her | $(-1, 3)$ | $2 \cdot (-1) + 1 \cdot 3 = 1$ | 2.7 | 0.114 | 4 | 0.46 |
# | sum | | | 23.8 | 1 | | 8.98 |
#
# A weight is $e^{\text{score}}$ divided by the sum of the three (the softmax). The answer is the
# sum of the last column, 8.98, which is near the value of *sees*.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Do the row of 'sees' on the board. Ask what the answer becomes if the value of 'sees'
# is 20: about 17.4.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the numbers of the table
query = torch.tensor([1.0, 1.0]) @ torch.tensor([[2.0, 0.0], [0.0, 1.0]])
weights = (torch.tensor([[0.0, 0.0], [1.0, 1.0], [-1.0, 3.0]]) @ query).softmax(dim=0)
parts = weights * torch.tensor([2.0, 10.0, 4.0])
assert [f"{weight:.3f}" for weight in weights] == ["0.042", "0.844", "0.114"]
assert [f"{part:.2f}" for part in [*parts, parts.sum()]] == ["0.08", "8.44", "0.46", "8.98"]

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Open it
#
# Open *decoder*, *block 2*, *cross-attention*, *head 4*, and in its map the cell *la*, *sees*: by
# click, or with the arrow keys and Enter. Escape goes back.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the translator from the outside
tokens = dict(source=english, target=french, output=list(tgt_vocab.idx_to_token))
view = look_inside(trained, source, so_far, tokens=tokens)
view

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of the translator. It shows the English and the French numbers that
# go in, encoder and decoder as two boxes with the rows of numbers that they give, and the scores
# that come out, with the three best words after each French word. A click on a box opens it.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, live. Open one door at a time and say its sentence of the list. Keep the map of
# head 4 open while the room looks for the row of 'la'.

# %% [markdown] slideshow={"slide_type": "skip"}
# Behind each door:
#
# - **decoder.** Each French word becomes a row of 64 numbers. Two blocks change the rows.
# - **block 2.** *Self-attention* looks at the French words so far, *cross-attention* at the English
#   rows, and a *network* works on each row by itself. Each adds to the row what it finds.
# - **cross-attention.** The matrices `W_q`, `W_k` and `W_v` make queries of the French rows, and
#   keys and values of the English ones. Four **heads** look at once. Each makes 16 numbers of the
#   64, so they need not look at the same word.
# - **head 4.** A row of the map is one look. A dark cell is a large weight.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One head, one cell

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the numbers of one cell of the map
cell = "decoder/block 2/cross-attention/head 4/la, sees"
Image(view.still(cell, "After 'la' the head takes nearly all from 'sees'"), width=900)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the numbers behind one cell. The query of 'la' and the key of 'sees' have 16 products,
# whose sum is divided by 4, the root of 16. Then, for each English word, its score, e to the power
# of the score, and its weight as a bar. Nearly the whole weight is at 'sees'. Below, for each
# English word, its weight times its value, 16 numbers, and in the last row their sum, the answer.
# The answer is nearly the row of 'sees'.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# This is the small table again, with 16 numbers in each query, key and value. Only the division by
# $\sqrt{16}$ is new, and chapter 3 explains it. The row of *la* has to choose the word after *la*,
# which is *voit*, and the head looks at *sees*.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let somebody compute one weight with a pocket calculator: e to the power of the score
# of 'sees', divided by the sum below the column.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And back to a word
#
# The answers of the four heads, end to end, are 64 numbers again. The matrix `W_o` mixes them, and
# *add and norm* adds them to the row of *la*. Behind the last block, one more matrix makes 442
# scores of this row. Here are four verbs, and what comes after *il la*:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Translates the sentence with four verbs, also without head 4 and without all heads of its layer
looks = trained.decoder.blks.block1.attention2
verbs = ["sees", "finds", "follows", "visits"]
four = torch.tensor([src_vocab[["he", verb, "her", EOS]] for verb in verbs])
found = {}
print(f"{'he ... her':18}", *(f"{verb:8}" for verb in verbs))
for name, first in (("whole", 64), ("without head 4", 48), ("without its layer", 0)):

    def empty(_, inputs, first=first):  # the answers of the heads, end to end, go into W_o
        return inputs[0].index_fill(-1, torch.arange(first, 64), 0.0)

    hook = looks.W_o.register_forward_pre_hook(empty)
    with torch.no_grad():
        rows = trained(four, so_far.expand(4, -1))[:, 2]  # the rows of 'la'
    hook.remove()
    found[name] = tgt_vocab.to_tokens(rows.argmax(dim=-1))
    print(f"{name:18}", *(f"{word:8}" for word in found[name]))
assert found["whole"] == found["without head 4"] == ["voit", "trouve", "suit", "visite"]
assert not set(found["without its layer"]) & set(found["whole"])
with torch.no_grad():
    trained(four, so_far.expand(4, -1))
assert (looks.attention_weights[:, 3, 2, 1] > 0.9).all()

# %% [markdown] slideshow={"slide_type": "skip"}
# So the verb decides, and head 4 gives it more than 0.9 of its weight each time. Does it decide
# *only* through head 4? No: with zeros in place of this head's answer all four words are still
# right. With zeros for all four heads of this layer the word is *a*, 'has', for each verb. What a
# map shows need not be what the answer depends on. Near the end we forbid single looks. Until then
# we build what is behind the doors from plain parts.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the second row, ask whether the verb decides only through head 4. The other
# heads of the layer can tell the verb as well.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention** (chapters 1 and 3). A query scores each key by $q \cdot k / \sqrt d$. The softmax
#   makes weights of the scores, and the answer is the weighted sum of the values. The scores
#   $\ln 3$ and $0$ with the values 8 and 4 give $\frac34 \cdot 8 + \frac14 \cdot 4 = 7$.
# - **Mask** (chapter 4). True means 'may attend'. A causal mask shows query $i$ the keys 0 to $i$.
# - **Heads** (chapter 6). $H$ attentions of width $D/H$ work side by side, between $W_q$, $W_k$,
#   $W_v$ and $W_o$.
# - **Positions** (chapter 7). Sines and cosines of the position are added to the words' vectors.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What attention lacks
#
# By itself, attention lacks four things:
#
# | attention by itself | what is added |
# |---|---|
# | only averages | a small network for each token |
# | replaces each token by its answer | residual connections, with layer norm |
# | ignores the order | positions (chapter 7) |
# | sees words that are not written yet | a causal mask (chapter 4) |
#
# The first two are new. A **token** is a word, or `<bos>` or `<eos>`.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what is missing before you show it. 'The order' comes at once. 'It sees the
# answer' comes from those who remember chapter 4. The first row is the hard one, and it is next.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A network for each token
#
# A token $x$ that attends only to itself gets $W_o W_v x$, a linear map. A network with two hidden
# units and a ReLU can tell how far apart the two numbers of a token $(a, b)$ are:
#
# $$\max(0,\, a - b) + \max(0,\, b - a) = |a - b|$$
#
# It gives 2, 2 and 0 for the tokens $(3, 1)$, $(1, 3)$ and their average $(2, 2)$.
#
# **Predict.** A linear map is right for the first two. What does it give for the third?

# %% slideshow={"slide_type": "fragment"}
a, b = torch.tensor([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]]).T
print("network   ", F.relu(a - b) + F.relu(b - a))
print("linear map", 0.5 * a + 0.5 * b)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes with pencil and paper. Ask why a linear map must say 2 for (2, 2), whatever its two
# numbers are.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same network for each token
#
# A linear map sends an average to the average of the results. So a **position-wise network** (FFN)
# follows: two linear layers with a ReLU between them, the same for each token. Attention carries
# between tokens, and the network works within each.


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainFFN(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens):
        super().__init__()
        self.dense1 = nn.Linear(num_hiddens, ffn_num_hiddens)
        self.dense2 = nn.Linear(ffn_num_hiddens, num_hiddens)

    def forward(self, X):  # (B, n, D) -> (B, n, D)
        return self.dense2(self.dense1(X).relu())


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask how many tokens the network sees at once: one. Ask where the tokens meet, then.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Add and norm
#
# Attention *replaces*. If all heads of *la* look at *sees*, the answer is made of *sees*, and
# nothing of *la* is left. A **residual connection** (its form is that of He et al., 2016) keeps the
# token: it adds the input of a layer $f$ to the result, $X + f(X)$. So the layer only has to
# give what changes.
#
# The sum has a second effect. Think of ten layers, each with the slope 0.1. How much of a small
# change at the bottom arrives at the top?

# %% [markdown] slideshow={"slide_type": "fragment"}
# | each layer | its slope | ten of them |
# |---|---|---|
# | $f(X)$ | $0.1$ | $0.1^{10}$, almost nothing |
# | $X + f(X)$ | $1.1$ | $1.1^{10} \approx 2.6$ |

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for both numbers before you show them. For the second expect 'ten times 0.1 more,
# so 2'. That is close enough: what counts is that the first is almost nothing.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why a norm, too?
#
# The slope 0.1 was an example. Before training it depends on the random start. We put 24 networks
# on top of each other and measure how large the gradient is at the bottom if it is 1 at the top.
# One start is PyTorch's. The other draws larger numbers, so that what a network gives is about as
# large as what it gets.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Measures the gradient below 24 networks in 20 random starts, and prints the median


def keep_the_size(network):
    nn.init.kaiming_normal_(network.dense1.weight, nonlinearity="relu")
    nn.init.normal_(network.dense2.weight, std=network.dense2.in_features**-0.5)
    nn.init.zeros_(network.dense1.bias)
    nn.init.zeros_(network.dense2.bias)


def gradient_at_the_bottom(step, start, seed):  # where it is 1 at the top
    torch.manual_seed(seed)
    bottom = torch.randn(8, 64, requires_grad=True)
    X = bottom
    for _ in range(24):
        network = PlainFFN(64, 128)
        start(network)
        X = step(X, network(X))
    X.backward(torch.randn_like(X))
    return bottom.grad.square().mean().sqrt().item()


starts = {"PyTorch's start": lambda network: None, "size-keeping start": keep_the_size}
steps = {
    "f(X)": lambda X, Y: Y,
    "X + f(X)": lambda X, Y: X + Y,
    "norm(X + f(X))": lambda X, Y: F.layer_norm(X + Y, X.shape[-1:]),
}
gradients = {}
print(f"{'24 networks':15}", *(f"{start:>19}" for start in starts))
for step, combine in steps.items():
    for start, begin in starts.items():
        found = [gradient_at_the_bottom(combine, begin, seed) for seed in range(20)]
        gradients[step, start] = torch.tensor(found).median().item()
    found = [gradients[step, start] for start in starts]
    print(f"{step:15}", *(f"{each:19,.1f}" if each > 0.1 else f"{each:19.0e}" for each in found))
plain, added, normed = ([gradients[step, start] for start in starts] for step in steps)
assert plain[0] < 1e-12 and 0.5 < plain[1] < 2
assert added[0] < 3 and 2000 < added[1] < 8000
assert all(0.5 < each < 2 for each in normed)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With PyTorch's start, the plain stack loses the gradient, and the sums carry it to the bottom.
# With the other start, the plain stack carries it, too, but now the sums explode. Each of them adds
# two things of the same size that are uncorrelated. Then the variances add (chapter 3): each sum
# doubles them. So 24 layers multiply the variance of the gradient by $2^{24}$ and its size by the
# root of that, 4,096. The **norm** holds the size in both.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for the variance of X + Y, if both have the variance 1 and do not depend on each
# other: 2. Then let the room compute the root of 2 to the power of 24.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Layer norm
#
# **Layer norm** (Ba et al., 2016) brings the numbers of each token back to the mean 0 and the
# standard deviation 1. The token $(2, 2, 5)$ has the mean 3 and the variance
# $(1 + 1 + 4) / 3 = 2$, so it becomes $(-1, -1, 2) / \sqrt 2$. Ten times the token gives the same:

# %% slideshow={"slide_type": "fragment"}
print(nn.LayerNorm(3)(torch.tensor([[2.0, 2.0, 5.0], [20.0, 20.0, 50.0]])).detach())

# %% [markdown] slideshow={"slide_type": "skip"}
# Layer norm looks at no other token. Each number then gets a learned factor and a learned shift.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Somebody divides by n - 1 and gets (-0.58, -0.58, 1.15). The norm divides
# by n.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Our order: add, then norm
#
# Our order is **post-norm**, $\mathrm{norm}(X + f(X))$, like the paper's. The other one is
# **pre-norm**, $X + f(\mathrm{norm}(X))$; *Going further* trains both. `dropout`, which sets some
# numbers to 0 in training, is 0 here.


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainAddNorm(nn.Module):
    def __init__(self, num_hiddens, dropout):
        super().__init__()
        self.dropout, self.ln = nn.Dropout(dropout), nn.LayerNorm(num_hiddens)

    def forward(self, X, Y):  # X (B, n, D) and Y = f(X) -> (B, n, D)
        return self.ln(X + self.dropout(Y))


# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan: show it while you answer a question. Ask in which of the two the gradient comes
# down through all blocks without meeting a norm. In pre-norm there is a path with nothing but plus
# signs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The encoder's block

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
# One minute. Follow one token with a finger. Ask where it meets other tokens: in one
# box of four.

# %% [markdown] slideshow={"slide_type": "skip"}
# $B$ sentences of $n$ tokens are read at once, and each token has $D$ numbers (`num_hiddens`) all
# the way up. Multi-head attention is chapter 6's. `visible` is a mask that broadcasts to
# (B, H, Q, K). It is used twice, as in chapter 4. Before the softmax a hidden key gets the lowest
# score. After the softmax its weight becomes 0, which matters for a query that sees no key at all.


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


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The picture as code


# %% slideshow={"slide_type": "-"} tags=["build"]
def real_keys(valid_lens, n):  # (B,) -> (B, 1, 1, n): the same for all heads and queries
    return torch.arange(n, device=valid_lens.device) < valid_lens[:, None, None, None]


class PlainEncoderBlock(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout):
        super().__init__()
        self.attention = PlainMultiHeadAttention(num_hiddens, num_heads, dropout)
        self.ffn = PlainFFN(num_hiddens, ffn_num_hiddens)
        self.addnorm1, self.addnorm2 = (PlainAddNorm(num_hiddens, dropout) for _ in range(2))

    def forward(self, X, valid_lens):  # (B, n, D), (B,) -> (B, n, D)
        X = self.addnorm1(X, self.attention(X, X, X, real_keys(valid_lens, X.shape[1])))
        return self.addnorm2(X, self.ffn(X))


# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan. The last two lines are the picture. Ask what becomes of a padding token: it asks,
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
# French padding needs no mask of its own, because it is in the future of all real words.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Draw the empty table on the board and let the room fill it, row by row. In the last
# row some let the English ask. The language that is written asks the one that is read.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three sublayers

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in the decoder's block
schematic("decoder block")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a straight line leads from X (B, T, D) through three boxes named 'add & norm' to the
# output (B, T, D). Before each box a sublayer reads the line, and its answer (B, T, D) goes up to
# the box, where it is added to what the line brings, the residual. First, causal self-attention
# takes q, k and v from the line. Second, cross-attention takes q from the line, but k and v from
# the encoder output (B, S, D) below. Third, the FFN works on each token.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which two arrows do not come from the line, and what would be left of the block
# without them: an encoder's block with a causal mask, the block of a chat model.


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainDecoderBlock(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout):
        super().__init__()
        self.attention1 = PlainMultiHeadAttention(num_hiddens, num_heads, dropout)
        self.attention2 = PlainMultiHeadAttention(num_hiddens, num_heads, dropout)
        self.ffn = PlainFFN(num_hiddens, ffn_num_hiddens)
        self.addnorm1, self.addnorm2, self.addnorm3 = (
            PlainAddNorm(num_hiddens, dropout) for _ in range(3)
        )

    def forward(self, X, enc_outputs, enc_valid_lens):  # (B, T, D), (B, S, D), (B,) -> (B, T, D)
        past = X.new_ones(X.shape[1], X.shape[1]).tril().bool()  # (T, T): key <= query
        X = self.addnorm1(X, self.attention1(X, X, X, past))
        real = real_keys(enc_valid_lens, enc_outputs.shape[1])  # (B, 1, 1, S)
        X = self.addnorm2(X, self.attention2(X, enc_outputs, enc_outputs, real))
        return self.addnorm3(X, self.ffn(X))


# %% [markdown] slideshow={"slide_type": "slide"}
# ## The whole translator
#
# `embed` looks up a row of numbers for each word and adds chapter 7's positions, and `dense` makes
# the scores. Between them is what we built: four blocks, which take over the trained numbers.

# %% slideshow={"slide_type": "skip"}
sizes = dict(num_hiddens=64, ffn_num_hiddens=128, num_heads=4, dropout=0.0)
reading = [PlainEncoderBlock(**sizes) for _ in range(2)]
writing = [PlainDecoderBlock(**sizes) for _ in range(2)]
theirs = [*trained.encoder.blks, *trained.decoder.blks]
for block, their_block in zip([*reading, *writing], theirs, strict=True):
    block.load_state_dict(their_block.state_dict())


# %% slideshow={"slide_type": "-"}
@torch.no_grad()
def scores_of(source, so_far):  # (B, S), (B, T) -> (B, T, 442)
    lens = torch.full((len(source),), source.shape[1])  # no padding
    X, Y = trained.encoder.embed(source), trained.decoder.embed(so_far)  # (B, S, D), (B, T, D)
    for block in reading:
        X = block(X, lens)
    for block in writing:
        Y = block(Y, X, lens)
    return trained.decoder.dense(Y)


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Compares our scores with the translator's
same = torch.allclose(scores_of(source, so_far), trained(source, so_far), atol=1e-3)
print("our scores are the translator's, within 0.001:", same)

# %% [markdown] slideshow={"slide_type": "skip"}
# Training found the numbers. *Going further* makes a class of these lines and trains it in half a
# minute.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Read `scores_of` aloud: it is the picture of the two halves. Ask where the words meet
# each other: in the attentions of the blocks, and nowhere else.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A cache for keys and values
#
# The translator writes word by word. To choose the next word, the decoder needs keys and values of
# all words so far. All but the newest are known from earlier steps. They have not changed, because
# the mask lets no word see a later one. So a layer can keep them, in a **key-value cache**. For 24
# words it computes 24 keys. If each step reads all words again, it computes
# $1 + 2 + \dots + 24 = 300$.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room compute both numbers before you show them. Then ask why an encoder could
# not keep its keys while a sentence grows: there a new word changes all others, from the second
# layer on.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One new row of keys and values


# %% slideshow={"slide_type": "-"} tags=["build"]
def attend_with_cache(layer, X, cache):  # X (B, 1, D), cache: keys and values (B, H, n, D / H)
    q, k, v = (layer.split(W(X)) for W in (layer.W_q, layer.W_k, layer.W_v))  # (B, H, 1, D / H)
    if cache is not None:
        k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    return layer.attend(q, k, v, X.new_ones(1, k.shape[2]).bool()), (k, v)  # mask (1, n + 1)


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Compares 24 tokens one by one, with a cache, and all at once
layer, X, cache, answers = writing[0].attention1, torch.randn(1, 24, 64), None, []
for t in range(24):
    answer, cache = attend_with_cache(layer, X[:, t : t + 1], cache)
    answers.append(answer)
at_once = layer(X, X, X, torch.ones(24, 24).tril().bool())
same = torch.allclose(torch.cat(answers, dim=1), at_once, atol=1e-4)
print("24 tokens one by one give what they give at once, within 0.0001:", same)

# %% [markdown] slideshow={"slide_type": "skip"}
# Word by word with a cache, the layer gives what it gives for all words at once. The price is
# memory: each layer keeps two vectors a token (chapter 9). *Going further* gives the whole decoder
# its caches.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask why the mask is all True: everything in the cache is the past. Then ask what
# still tells the order of the words: the position that the new word gets when it is embedded.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which look decides?
#
# *... took the good orange and ate it* becomes *... la bonne orange et l' a mangée*. The last *e*
# must come from the noun. Does *it* look at *orange*? Here are the weights that each word gives to
# *orange*, in head 4 of the encoder's second block.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Prints the weight that each word gives to 'orange' in one head
english = [*"the old doctor took the good orange and ate it".split(), EOS]
french = [BOS, *"le vieux médecin a pris la bonne orange et l' a".split()]
source, so_far = torch.tensor([src_vocab[english]]), torch.tensor([tgt_vocab[french]])
scores_of(source, so_far)
onto_orange = reading[1].attention.attention_weights[0, 3, :, 6]  # head 4, all queries, key 6
print(*(f"{word:>6}" for word in english))
print(*(f"{weight:6.2f}" for weight in onto_orange))
assert onto_orange[9] > 0.95

# %% [markdown] slideshow={"slide_type": "-"}
# *It*, the second *the* and *good* give *orange* nearly all their weight. No map could be clearer.
# But a map shows where a head looks, and not what follows from it. So we **forbid** the look: in
# both blocks and in all heads, the mask hides the key from the query.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Hides keys from queries: a function that changes the mask before a layer gets it
def forbid(layer, queries, keys):  # slices of positions
    def hide(layer, inputs):
        X, Y, _, visible = inputs
        allowed = torch.ones(X.shape[1], Y.shape[1]).bool()
        allowed[queries, keys] = False
        return X, Y, Y, visible & allowed

    return layer.register_forward_pre_hook(hide)  # hide changes what the layer gets


# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** *It* may not look at *orange* any more. What does the translator write at the end:
# *mangée*, *mangé* or something else?

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes with the vote. Most say 'mangé'. Let those who say 'mangée' name the road by which
# the gender arrives then. Keep their roads on the board.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Close the roads
#
# The last French word may learn the gender on three short roads. Road 1: later English words look
# at *the good orange*. Road 2: later French words look at *la bonne orange*. Road 3: later French
# words look at *the good orange*.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Forbids looks in the sentence with 'orange', and prints the last word
among_english = [block.attention for block in reading]
among_french = [block.attention1 for block in writing]
from_french = [block.attention2 for block in writing]
it_to_orange = among_english, slice(9, 10), slice(6, 7)
says_to_la = among_french, slice(11, 12), slice(6, 7)
road_1 = among_english, slice(7, None), slice(4, 7)
road_2 = among_french, slice(9, None), slice(6, 9)
road_3 = from_french, slice(9, None), slice(4, 7)
cases = {
    "nothing": [],
    "it -> orange": [it_to_orange],
    "mangée -> la": [says_to_la],
    "road 1": [road_1],
    "road 2": [road_2],
    "roads 1 and 2": [road_1, road_2],
    "all three roads": [road_1, road_2, road_3],
}
ends = {}
for case, looks in cases.items():
    hooks = [forbid(layer, *where) for layers, *where in looks for layer in layers]
    ends[case] = tgt_vocab.to_tokens([scores_of(source, so_far)[0, -1].argmax()])[0]
    print(f"forbidden: {case:16} ... et l' a {ends[case]}")
    for hook in hooks:
        hook.remove()
assert set(list(ends.values())[:5]) == {"mangée"} and ends["roads 1 and 2"] == "mangé"

# %% [markdown] slideshow={"slide_type": "skip"}
# The row of *a* writes the next word, *mangée*. So in the third line it is this row that may not
# look at *la*. And where only *it* may not look, *ate* may still look at *orange*.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The room reads the lines. Ask how the gender comes to the end when 'it' may not look
# at the noun: by one of the roads on the board.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### In 49 sentences and six translators
#
# 49 new sentences end as this one does: a noun, 'and', a verb, and *it* or *them*. The table counts
# the right endings, for the stored translator and for five others, trained less, each from its own
# random start:
#
# | forbidden | stored | five starts, in one run |
# |---|---|---|
# | nothing | 49 | 46 to 48 |
# | pronoun → noun | 49 | 42 to 48 |
# | ending → French article | 49 | 39 to 48 |
# | road 1 | 38 | 38 to 43 |
# | road 2 | 48 | 36 to 48 |
# | all three roads | 25 | 23 to 31 |
# | roads from other words | 49 | 46 to 48 |
#
# The last row is a control: about as many looks are forbidden, at the words *before* 'the good
# orange' and *la bonne orange*. The masculine form each time, in the right number, would be right
# in 23.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Compare the roads on the board with the table. Ask what the last row is for.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A map does not tell
#
# The stored translator needs neither of these two looks: without one of them it loses no ending.
# The five others lose few without the look at the noun, and one of them at least 7 without the look
# at the article. The gender takes several roads, and starts differ: with road 2 closed one of the
# five has 48 right, and another only 36. With all three closed, 23 to 31 endings are right, where
# the masculine form gives 23. A dark cell in a map shows a look. It does not show that the
# translation depends on it.

# %% [markdown] slideshow={"slide_type": "skip"}
# (`python -m tests.benchmarks.blocked_looks` trains the five and makes the table; other machines
# give other numbers.)

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask why 'ate' can tell the gender: it may look at the noun in the first block, and
# 'it' may look at 'ate' in the second.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention carries between tokens, and a network works within each. A residual connection keeps
#   the token, and a layer norm keeps the size of its numbers.
# - The encoder's block has an attention and a network. The decoder's block has a causal attention,
#   an attention to the encoder's output, and a network.
# - A self-attention layer with a cache computes $n$ keys, not $n(n+1)/2$.
# - In six translators the gender of *it* takes several roads, and the look of *it* at the noun
#   seldom decides. To find out what a translation depends on, forbid looks, also several at
#   once; a map does not tell.
#
# Next, chapter 9 asks which word has to see which, and what it costs.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the box in which a token meets others, and for what would break without each
# of the other boxes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("8.1")` gives one more hint each time, `solution("8.1")` the whole way. Exercises 8.4 to 8.6
# follow in *Going further*.

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.1** · by hand
#
# Two tokens of four numbers, $(-4, -1, 0, 3)$ and $(4, 1, 2, 5)$, go through a sublayer that
# squares each number, $f(x) = x^2$, with a residual connection and a layer norm (scale 1, shift 0).
# What becomes of the first token in post-norm, and what in pre-norm? Give two lists of four
# numbers, post-norm first; two decimals are enough.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.2** · predict, then measure
#
# A decoder with one block and one head writes 10 tokens, one at a time, from a source of 7 words.
# Without a cache each step reads the whole prefix again: 1 token, then 2, up to 10. All 10 steps
# together:
#
# - how many rows go through `attention1.W_k`?
# - how many through `attention2.W_k`?
# - how many scores does `attention1` compute? (The hidden ones count, too.)
#
# Predict. Then measure with a hook, as in *One step with the cache*. A small decoder for it:
# `TransformerDecoder(20, 8, 16, num_heads=1, num_blks=1, dropout=0.0)`, with a vocabulary of 20
# words and 8 numbers a token; for the source, give `init_state` the numbers `torch.randn(1, 7, 8)`.
#
# Give three pairs, *without* and *with* a cache, such as `[(1, 1), (1, 1), (1, 1)]`.

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.3** · complete a function
#
# A batch of source sentences (B, `num_src`) and target sentences (B, `num_tgt`), padded behind,
# with lengths (B,) of 1 or more. Return three boolean masks, True = may attend, each broadcastable
# to (B, Q, K): of the encoder's self-attention, of the decoder's self-attention, and of the
# decoder's attention to the source. What a padding query sees does not matter: nobody reads its
# output.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Read these sections in any order; those that train or write build on the first. Exercises 8.4 to
# 8.6 follow behind them.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The translator as classes, and the loop that writes
#
# *15 minutes.* Constructor arguments and names are the package's, so that each can take over the
# other's numbers. The factor $\sqrt D$ brings the numbers of the embedding from about $1 / \sqrt D$
# to about 1. Otherwise the positions, whose numbers go up to 1, would outweigh the words.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def embed(embedding, X, offset=0):  # X (B, n), the first token at position offset -> (B, n, D)
    D = embedding.embedding_dim
    positions = torch.arange(offset, offset + X.shape[1], device=X.device)[:, None]
    angles = positions / 10000 ** (torch.arange(0, D, 2, device=X.device) / D)  # (n, D / 2)
    P = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(start_dim=1)  # (n, D)
    return embedding(X) * math.sqrt(D) + P


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainStack(nn.Module):  # what encoder and decoder share
    def __init__(self, vocab_size, num_hiddens, dropout, blocks):
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(vocab_size, num_hiddens), nn.Dropout(dropout)
        nn.init.normal_(self.embedding.weight, std=num_hiddens**-0.5)
        self.blks = nn.ModuleDict({f"block{i}": block for i, block in enumerate(blocks)})

    def embed(self, X, offset=0):  # (B, n) -> (B, n, D)
        return self.dropout(embed(self.embedding, X, offset))

    def forward(self, X, *inputs):  # (B, n) -> (B, n, D)
        X = self.embed(X)
        for block in self.blks.values():
            X = block(X, *inputs)
        return X


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainEncoder(PlainStack):
    def __init__(self, vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout):
        sizes = num_hiddens, ffn_num_hiddens, num_heads, dropout
        blocks = [PlainEncoderBlock(*sizes) for _ in range(num_blks)]
        super().__init__(vocab_size, num_hiddens, dropout, blocks)


class PlainDecoder(PlainStack):
    def __init__(self, vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout):
        sizes = num_hiddens, ffn_num_hiddens, num_heads, dropout
        blocks = [PlainDecoderBlock(*sizes) for _ in range(num_blks)]
        super().__init__(vocab_size, num_hiddens, dropout, blocks)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def forward(self, X, enc_outputs, enc_valid_lens):  # (B, T), (B, S, D), (B,) -> (B, T, N)
        return self.dense(super().forward(X, enc_outputs, enc_valid_lens))


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainTranslator(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, source, target, source_lens):  # (B, S), (B, T), (B,) -> (B, T, N)
        return self.decoder(target, self.encoder(source, source_lens), source_lens)


# %% slideshow={"slide_type": "skip"} tags=["build"]
@torch.no_grad()
def write(model, source, source_lens, bos, eos, max_len):  # (B, S), (B,) -> (B, T)
    enc_outputs = model.encoder(source, source_lens)  # once for all steps
    said = torch.full_like(source[:, :1], bos)
    while said.shape[1] <= max_len and not (said == eos).any(dim=1).all():
        scores = model.decoder(said, enc_outputs, source_lens)
        said = torch.cat([said, scores[:, -1:].argmax(dim=-1)], dim=1)
    return said[:, 1:]


# %% slideshow={"slide_type": "skip"}
def new_translator(num_source_words, num_target_words):
    sizes = dict(num_hiddens=64, ffn_num_hiddens=128, num_heads=4, num_blks=2, dropout=0.0)
    encoder = PlainEncoder(num_source_words, **sizes)
    return PlainTranslator(encoder, PlainDecoder(num_target_words, **sizes))


def bleu_on(model, pairs):
    batch = make_batch(pairs, src_vocab, tgt_vocab)
    said = write(model, batch.src, batch.src_lens, bos, eos, max_len=30)
    rows = [tgt_vocab.to_tokens(row) + [EOS] for row in said]
    return bleu([row[: row.index(EOS)] for row in rows], [pair.targets for pair in pairs])


corpus, bos, eos = load("grammar"), tgt_vocab[BOS], tgt_vocab[EOS]
model = new_translator(len(src_vocab), len(tgt_vocab))
model.load_state_dict(trained.state_dict())  # strict: each name and each shape must fit
print(f"BLEU of the stored translator: {bleu_on(model, corpus.test[:100]):.1f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train your own
#
# *3 minutes.* The stored translator has read 68,000 pairs of sentences. Here is one that reads
# chapter 5's 8,000 pairs, four times. `train` is chapter 5's loop; the learning rate falls from
# 0.006 to 0. BLEU compares runs of one to four words with a reference, and 100 is best. This model
# is too small to gain from a GPU: 300 steps took 9 s on an H100 and 10 s on the CPU beside it.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
torch.manual_seed(0)
young = new_translator(len(src_vocab), len(tgt_vocab))
data = corpus.train, src_vocab, tgt_vocab
run = train(young, *data, steps=500, lr=0.006, seed=0)
print("loss, means of 50 steps:", torch.tensor(run.losses).view(10, -1).mean(dim=1))
print(f"BLEU {bleu_on(young, corpus.test[:100]):.1f}")

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks that it has learned
assert run.losses[0] > 5 and bleu_on(young, corpus.test[:100]) > 80
print("checked: the loss began above 5, and the BLEU is above 80")

# %% [markdown] slideshow={"slide_type": "skip"}
# Chapter 5's translator with 96 units, trained for 600 steps in each of three starts, reached the
# BLEU 92.4 to 94.0 on the 500 test sentences and links with an error rate of 0.12 to 0.20. The
# Transformer reached 96.1 to 96.4 and 0.04 to 0.07 (on one machine). The sizes and the learning
# rates differ, and on a shared machine neither was always the faster one. These commands train them
# (`--seed 0` to `2`):
#
# ```sh
# python -m d2l_attention.training --steps 600 --model bahdanau --num-hiddens 96
# python -m d2l_attention.training --steps 600 --model transformer --num-hiddens 64 --lr 0.006
# ```

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The cell takes about half a minute. Ask what the loss is before the first step: 442
# French words, all about equally likely, and ln 442 is 6.1.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What does the trained translator depend on?
#
# *6 minutes.* We take one part out of the *trained* translator and let it translate 100 test
# sentences.
#
# **Predict.** Which loss is the worst: networks, residual connections, layer norms or positions?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Collect the votes before you show the table.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### One part less

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
removals = {
    "networks": (PlainFFN, "forward", lambda self, X: 0 * X),
    "residuals": (PlainAddNorm, "forward", lambda self, X, Y: self.ln(Y)),
    "layer norms": (PlainAddNorm, "forward", lambda self, X, Y: X + Y),
    "positions": (PlainStack, "embed", lambda self, X, offset=0: 8 * self.embedding(X)),  # 8 is √64
}
left = {}
for part, removal in removals.items():
    with patch.object(*removal):  # replaces this method, in this block of code only
        left[part] = bleu_on(model, corpus.test[:100])
    print(f"without {part:11} BLEU {left[part]:5.1f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Nothing is left without residual connections. A likely reason: a sublayer learned what to add to a
# token, and without the sum nothing hands the token on. This says what one trained translator
# depends on, in 100 sentences. It does not say what a part does, and a translator that is trained
# without the part may learn another way.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the translator depends on each part, and most on the residual connections
assert left["residuals"] < 5 and all(
    5 < score < 95 for part, score in left.items() if part != "residuals"
)
print("checked: BLEU below 5 without residual connections, and below 95 without any other part")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Some will vote for the networks, because they have a
# third to a half of the parameters of a block. Ask what the experiment cannot say: what training
# would have done without the part.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One step with the cache
#
# *9 minutes.* Who feeds what in one step:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in one step with a key-value cache
schematic("key-value cache")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: one step of decoding. The new token (B, 1, D) is multiplied by W_q, W_k and W_v and split
# into heads, (B, H, 1, D/H) three times. Its key becomes the last of n + 1 keys and its value the
# last of n + 1 values: two rows of squares of which one is dark, the new one. The query meets all
# keys (B, H, n+1, D/H) in scaled scores and a softmax. The weights (B, H, 1, n+1) are multiplied by
# all values (B, H, n+1, D/H). The output is (B, H, 1, D/H).*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cover the shapes and let the room fill them in.

# %% [markdown] slideshow={"slide_type": "skip"}
# The decoder with a cache for each block reads one word a step, and `offset` is its position.


# %% slideshow={"slide_type": "skip"} tags=["build"]
class CachedDecoder:
    def __init__(self, decoder):
        self.decoder = decoder

    def __call__(self, said, enc_outputs, enc_valid_lens):  # said (B, t) -> (B, 1, N)
        if said.shape[1] == 1:  # a new sentence begins
            self.caches = [None] * len(self.decoder.blks)  # one for each block
        X = self.decoder.embed(said[:, -1:], offset=said.shape[1] - 1)  # (B, 1, D)
        real = real_keys(enc_valid_lens, enc_outputs.shape[1])
        for i, block in enumerate(self.decoder.blks.values()):
            Y, self.caches[i] = attend_with_cache(block.attention1, X, self.caches[i])
            X = block.addnorm1(X, Y)
            X = block.addnorm2(X, block.attention2(X, enc_outputs, enc_outputs, real))
            X = block.addnorm3(X, block.ffn(X))
        return self.decoder.dense(X)


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
cached = PlainTranslator(model.encoder, CachedDecoder(model.decoder))  # the same parameters
test = make_batch(corpus.test[:100], src_vocab, tgt_vocab)
ways = [write(each, test.src, test.src_lens, bos, eos, 30) for each in (model, cached)]
print("100 translations, equal word for word:", torch.equal(*ways))
W_k, counts = model.decoder.blks["block0"].attention1.W_k, []  # counts: new keys of each step
hook = W_k.register_forward_hook(lambda layer, X, output: counts.append(output.shape[1]))
for length in (64, 256):
    for name, each in {"without": model, "with": cached}.items():
        counts.clear()
        begun = time.process_time()
        write(each, test.src[:1], test.src_lens[:1], bos, eos=-1, max_len=length)  # -1: no end
        seconds = time.process_time() - begun
        print(f"{length:3} words {name:7} a cache: {sum(counts):6,} keys, {seconds:.2f} s")
hook.remove()
assert torch.equal(*ways)

# %% [markdown] slideshow={"slide_type": "skip"}
# The seconds fall by less than the keys. With the cache, each step still goes through all layers,
# copies the cache, and computes the English keys and values again. The package keeps these, too.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two bugs that training does not show
#
# *11 minutes.* In training each position reads the true sentence and must say the *next* word.
# That word is beside it in the input, so the mask is all that hides it. A test that needs no look
# inside: change every word from position $t$ on. No score before $t$ may move. (Exercise 8.6 has
# two leaks that this test misses.)


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
# Two minutes. Before you show the code: how would you test that no position sees the future, for
# any model and without a look inside? 'Look at the mask' comes first. Ask what to do with a model
# whose weights you cannot see. Exercise 8.6 is this question.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Two mistakes of the book's decoder
#
# The book's decoder (section 11.7.5) hides the future only while training, because in decoding
# there is no future yet. And it forgets the `offset`, so that each new word gets position 0. Here
# are both in our code:


# %% slideshow={"slide_type": "-"}
class MasksOnlyInTraining(PlainMultiHeadAttention):
    def forward(self, queries, keys, values, visible):
        if not self.training:
            visible = torch.ones_like(visible)  # everything
        return super().forward(queries, keys, values, visible)


class ForgetsTheOffset(PlainDecoder):
    def embed(self, X, offset=0):
        return super().embed(X)


leaky, lost = copy.deepcopy(model), copy.deepcopy(model)  # the same trained parameters
for block in leaky.decoder.blks.values():
    block.attention1.__class__ = MasksOnlyInTraining  # the same object, another forward
lost.decoder.__class__ = ForgetsTheOffset

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### What validation sees of them
#
# Both copies have the trained parameters. Validation computes the loss on whole sentences, in
# `eval()`. BLEU is computed on 100 sentences that the model writes, with its cache and without.


# %% slideshow={"slide_type": "skip"}
def loss_on(model, batch):
    return sequence_loss(
        model(batch.src, batch.tgt_in, batch.src_lens), batch.tgt_out, batch.tgt_lens
    )


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
three, hundred = corpus.valid[:3], corpus.valid[:100]
few, valid = (make_batch(pairs, src_vocab, tgt_vocab) for pairs in (three, hundred))
print("       loss    BLEU with cache, without    sees the future in train, eval")
for name, each in {"right": model, "leaky": leaky, "lost": lost}.items():
    with torch.no_grad():
        loss = loss_on(each.eval(), valid)
    with_cache = PlainTranslator(each.encoder, CachedDecoder(each.decoder))
    scores = [bleu_on(one, hundred) for one in (with_cache, each)]
    seen = sees_the_future(each.train(), few), sees_the_future(each.eval(), few)
    print(f"{name:6} {loss:.2f}    {scores[0]:6.1f} {scores[1]:10.1f} {seen!s:>26}")

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks the losses, the translations and the two tests
with torch.no_grad():
    right_loss, leaky_loss, lost_loss = (loss_on(m.eval(), valid) for m in (model, leaky, lost))
assert leaky_loss > 5 * right_loss and lost_loss == right_loss
inputs = valid.src, valid.src_lens, bos, eos, 40
right_words = write(cached, *inputs)
leaky_cached = PlainTranslator(leaky.encoder, CachedDecoder(leaky.decoder))
assert torch.equal(write(leaky_cached, *inputs), right_words)
assert torch.equal(write(lost, *inputs), right_words)
lost_cached = PlainTranslator(lost.encoder, CachedDecoder(lost.decoder))
assert bleu_on(lost_cached, hundred) < 50
assert not sees_the_future(model.train(), few) and not sees_the_future(leaky.train(), few)
assert not sees_the_future(model.eval(), few) and sees_the_future(leaky.eval(), few)
print("checked: with the cache the leak changes no word; without it the lost position changes none")

# %% [markdown] slideshow={"slide_type": "skip"}
# The leak spoils the loss, and no translation that is written with the cache, because
# `attend_with_cache` never calls the changed `forward`. Without the cache the BLEU falls from 100.0
# to 99.2. The lost position spoils only what is written with the cache. The loss does not show it.

# %% [markdown] slideshow={"slide_type": "skip"}
# The leaky model gets worse, although it sees the answer. A likely reason is that it never learned
# what to do with a future. A model *trained* without a mask is another bug. Without the cache the
# lost model reads all words at each step, so every word has its position.

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Let them fill in a table of two rows and two columns on the board. Most say that the
# leak lowers the loss, 'because it cheats'. That is the other bug: no mask in training either. Then
# the model learns to copy the next word and cannot write. Ask for one test that catches both bugs
# here: the whole sentence at once against word by word, same scores.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your sentence, your cuts
#
# *5 minutes.* The stored translator works in this page. Write a sentence and see who looks at whom.
# Then forbid a look: its weight becomes 0, and the others share it, as with a mask (chapter 4). The
# sentence is translated anew.
#
# **Predict.** *The girl that I see is old* ends in the feminine *vieille*. What becomes of the
# ending if no French word may look back at *fille* (girl)? And if none may look at the article
# *la*?

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows the stored translator; for yours: TranslatorView(model, src_vocab, tgt_vocab)
TranslatorView("transformer", title="Write a sentence, forbid a look")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view. A text field with an English sentence, its translation, buttons with
# cuts to try, small maps of four heads, and one of them large, with lines between the words. A
# click on a cell forbids that look, and the translation is made anew.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# Without a look at *fille* nothing changes. Without a look at *la* the ending is the masculine
# *vieux*: the article has the gender as well. Hide both, and *vieille* is back. The gender has
# other ways, too.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan. Two minutes. On the slide before, vote first, then click the two buttons. Then
# take a sentence from the room. The view needs no kernel.

# %% [markdown] slideshow={"slide_type": "skip"}
# No Python runs when you cut. The page has the translator's 240,442 numbers, and some 230 lines of
# JavaScript for its model, with the names of this course. This is its attention:
#
# ```javascript
# // queries (Q, D), keys (K, D), values (K, V), visible(i, j) -> outputs (Q, V), weights (Q, K)
# function attend(queries, keys, values, visible) {
#   const root = Math.sqrt(queries[0].length);
#   const weights = queries.map((query, i) => {
#     const scores = keys.map((key) => dot(query, key) / root);
#     return maskedSoftmax(scores, keys.map((_, j) => visible(i, j)));
#   });
#   return [weights.map((row) => weightedSum(row, values)), weights];
# }
# ```

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Which head aligns?
#
# *4 minutes.* Chapter 5 took the English word with the largest weight as the link of a French word.
# The alignment error rate (AER) compares these links with the true ones, and 0 is best. The
# translator of this chapter has eight heads that look from French to English. Here is the AER of
# each, a row for each block.


# %% slideshow={"slide_type": "skip"}
def aer_of(weights):  # (sentences, T, S)
    pairs = zip(weights, corpus.test, strict=True)
    links = [align_by_attention(one, len(pair.source), len(pair.target)) for one, pair in pairs]
    sure, possible = [p.sure for p in corpus.test], [p.possible for p in corpus.test]
    return alignment_error_rate(links, sure, possible)


test = make_batch(corpus.test, src_vocab, tgt_vocab)
with torch.no_grad():
    model.eval()(test.src, test.tgt_in, test.src_lens)
cross = [block.attention2.attention_weights for block in model.decoder.blks.values()]
print(torch.tensor([[aer_of(weights[:, head]) for head in range(4)] for weights in cross]))
print(f"the mean of the last block's heads {aer_of(cross[1].mean(dim=1)):.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# So it matters which head is meant: here the AER lies between 0.06 and 0.45. A heat map of one
# head, or of a mean of heads, is a choice. Chapter 5's guidance works here, too: `train` with
# `guidance=0.1` asks the last block for the true links.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Before or after?
#
# *8 minutes.* Xiong et al. (2020) report that pre-norm trains at larger learning rates than
# post-norm. We try it in small, with 80 steps and one start. Which order learns at which rate?

# %% [markdown] slideshow={"slide_type": "skip"}
# The report also says that pre-norm needs no warm-up, that is no small rates at the beginning. Our
# models have 32 numbers a token, two blocks a side and no warm-up. The cell prints the mean loss of
# the last ten steps. For comparison: a model that only
# knows how frequent each word is has the loss in the first line.


# %% slideshow={"slide_type": "skip"}
def small_translator(pre_norm):
    torch.manual_seed(0)
    sizes = dict(num_hiddens=32, ffn_num_hiddens=64, num_heads=4, num_blks=2, dropout=0.0)
    return EncoderDecoder(
        TransformerEncoder(len(src_vocab), **sizes, pre_norm=pre_norm),
        TransformerDecoder(len(tgt_vocab), **sizes, pre_norm=pre_norm),
    )


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
words = [word for pair in corpus.train for word in [*pair.target, EOS]]
times = torch.tensor(tgt_vocab[words]).bincount()
shares = times[times > 0] / times.sum()
print(f"frequencies only           {-(shares * shares.log()).sum():.2f}")
ended, data = {}, (corpus.train, src_vocab, tgt_vocab)
for rate in (0.006, 0.03):
    for name, pre_norm in {"post-norm": False, "pre-norm": True}.items():
        run = train(small_translator(pre_norm), *data, steps=80, lr=rate, seed=0)
        ended[name, rate] = sum(run.losses[-10:]) / 10
        print(f"{name:9} at rate {rate:<5}    {ended[name, rate]:.2f}")

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks which order learns at which rate
assert abs(ended["post-norm", 0.006] - ended["pre-norm", 0.006]) < 1
assert ended["post-norm", 0.03] > 1 + ended["pre-norm", 0.03]
print("checked: within 1 of each other at 0.006; post-norm is more than 1 behind at 0.03")

# %% [markdown] slideshow={"slide_type": "skip"}
# At 0.006 the two are alike. In the run shown, pre-norm reaches 3.20 at 0.03, and post-norm about
# 4.8. With the seeds 0 to 4, pre-norm reaches 2.5 to 3.2 at this rate, and post-norm 3.2 to 5.0;
# each time pre-norm is ahead. That agrees with the report, for this model, two rates and 80 steps.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask for a guess at 0.03 before the table. It is no proof: one start of a small
# model.

# %% [markdown] slideshow={"slide_type": "skip"}
# What pre-norm pays for it is one more layer norm at the top, because its sum grows. In untrained
# encoders of 24 blocks, this is the standard deviation of a token's numbers:

# %% slideshow={"slide_type": "skip"}
for name, pre_norm in {"post-norm": False, "pre-norm": True}.items():
    torch.manual_seed(0)
    deep = TransformerEncoder(50, 32, 64, 4, num_blks=24, dropout=0.0, pre_norm=pre_norm)
    X, spreads = deep.embed(torch.randint(50, (2, 7))), []
    for block in deep.blks:
        X = block(X)
        spreads.append(X.std(dim=-1, correction=0).mean().item())
    print(f"{name:9} after block 1, 8, 16, 24:", *(f"{spreads[i]:.2f}" for i in (0, 7, 15, 23)))

# %% [markdown] slideshow={"slide_type": "skip"}
# The last norm gives the decoder, or the last linear layer, numbers whose size does not depend on
# the depth. If it is forgotten, nothing crashes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three families
#
# *1 minute.* The same blocks make three kinds of models (*Dive into Deep Learning*, section 11.9).
#
# | | blocks | mask | trained to | for instance |
# |---|---|---|---|---|
# | encoder-only | encoder's | padding only | fill in hidden words | BERT (2018) |
# | decoder-only | decoder's without `attention2` | causal | say the next word | GPT (2018) |
# | encoder-decoder | both | as in this chapter | write a target | Transformer (2017), T5 (2019) |

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cover the column of masks. Ask which family a chat model belongs to, and which one
# you would take to sort e-mails.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.4** · complete a function
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

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.5** · find three bugs
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

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.6** · write the test
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

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017, arXiv:1706.03762. Sections 3.1 to
#   3.5, figure 1.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 11.7 to
#   11.9; 11.7.5 has the decoder with its mask and its positions. [d2l.ai](https://d2l.ai)
# - K. He et al., *Deep Residual Learning for Image Recognition*, CVPR 2016, arXiv:1512.03385.
#   The form of the residual connection; they doubt that vanishing gradients are its reason.
# - J. L. Ba, J. R. Kiros, G. E. Hinton, *Layer Normalization*, 2016, arXiv:1607.06450.
# - R. Xiong et al., *On Layer Normalization in the Transformer Architecture*, ICML 2020,
#   arXiv:2002.04745. Post-norm and pre-norm, warm-up, the last norm.
# - J. Devlin et al., *BERT*, NAACL 2019, arXiv:1810.04805; A. Radford et al., *Improving Language
#   Understanding by Generative Pre-Training*, OpenAI 2018; C. Raffel et al., *Exploring the Limits
#   of Transfer Learning with a Unified Text-to-Text Transformer* (T5), JMLR 2020,
#   arXiv:1910.10683. The families' examples.
