# %% [markdown] slideshow={"slide_type": "slide"}
# # 8 · The Transformer
#
# **You will**
# - follow a sentence through a trained translator, from the whole down to one number and back;
# - build a whole translator from plain parts that writes the same sentences as the trained one;
# - watch it write word by word, with a cache of keys and values;
# - mask out single looks and whole paths, to find out which words one letter depends on.
#
# Core path: 75 to 110 minutes, in two sittings. Going further: 45. Exercises: 80. Builds on
# chapters 1, 3, 4, 6 and 7. *Dive into Deep Learning* (D2L) treats the subject in section 11.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# 35 minutes: 11½ for the opening, from 'it' to a number and back; 7 for positions, the feed-forward
# network and add and norm; 4 for the blocks; 3 for the whole translator; 3½ for the cache; 6 for
# the paths of the gender and the summary. After 18½ minutes you should be at 'The encoder's block'.
# Two slides are not in the plan: 'Our order' and 'The encoder block in code'. Behind? Leave out the
# slides of the cache. Nothing trains in the core. The slides after the summary are for questions.
# Homework: exercises 8.1 to 8.4.

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
from d2l_attention.data import BOS, EOS, load, make_batch
from d2l_attention.exercises import check, hint, solution
from d2l_attention.models.encoder_decoder import EncoderDecoder, sequence_loss
from d2l_attention.training import train
from d2l_attention.training.evaluation import translate
from d2l_attention.training.metrics import bleu
from d2l_attention.training.translators import translator
from d2l_attention.views import Player, State, TranslatorView, explore, grid, look_inside, schematic
from d2l_attention.views.palette import (
    CUT,
    FAINT,
    GREY,
    GROUND,
    INK,
    KEY,
    QUERY,
    WEIGHT,
    signed,
)
from d2l_attention.views.plots import hatch_zeros, heatmap, set_style
from d2l_attention.views.schematics.drawing import LEARNED, TENSOR, Diagram

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is 'it'?
#
# In this chapter we build a **Transformer** (Vaswani et al., 2017), a translator in which words
# exchange information by attention only. Let us first see what it must be able to do. Here a
# trained one reads two sentences that differ in a single word. `translator` loads it with its two
# vocabularies, and `translate` lets it write.

# %% slideshow={"slide_type": "-"}
trained, src_vocab, tgt_vocab = translator("transformer")

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Translates both sentences
for noun in ("cake", "orange"):
    words = f"the old doctor took the good {noun} and ate it".split()
    print(*words)
    print("  ->", *translate(trained, [words], src_vocab, tgt_vocab)[0])

# %% [markdown] slideshow={"slide_type": "-"}
# *Mangé* and *mangée* both mean *eaten*. So why the second *e*? In French a cake is masculine and
# an orange is feminine, and the last letter depends on which noun *it* refers to. A machine that
# treats each word by itself cannot know this. **Attention** lets a word look at others and take
# something from them. It needs no chain of steps from word to word, as an RNN does, so a layer can
# compute all words of a sentence at once. Once we have built such a translator, we will stop *it*
# from attending to *orange*. Will the last *e* survive?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room find the last letters that differ, and the English word that decides
# about them. Does 'it' look at the noun, and does the letter depend on it? Both come near the end.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention** (chapter 3): $\mathrm{softmax}(QK^\top / \sqrt{d})\, V$, in five steps below.
# - A **mask** (chapter 4) is True where a query may attend. A causal mask hides the future.
# - **Heads** (chapter 6): $H$ attentions of width $D/H$ side by side. Here $D = 64$, $H = 4$.
# - **Positions** (chapter 7): sines and cosines are added to each word's vector.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From the whole to one number
#
# How does such a machine get from one language to the other? Let us follow a shorter sentence, *he
# sees her*. The translator reads the English, together with the French that it has written so far.
# At each French position it scores all 442 entries of its vocabulary, and the best becomes the next
# word. Training changed its weights step by step, to make the true next word more probable (chapter
# 5). Each word is a **token** here, and so are two marks: `<bos>` begins the French, and `<eos>`
# ends a sentence.

# %% slideshow={"slide_type": "-"}
english, french = ["he", "sees", "her", EOS], [BOS, "il", "la", "voit"]
source, so_far = torch.tensor([src_vocab[english]]), torch.tensor([tgt_vocab[french]])
with torch.no_grad():
    scores = trained(source, so_far)  # (1, 4, 442): a row for each French position

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Prints the word with the highest score after each French word
for word, row in zip(french, scores[0], strict=True):
    print(f"after {word:6} comes {tgt_vocab.to_tokens([row.argmax()])[0]}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. *La* is 'her' here; French puts it before the verb.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two halves

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the two halves of the translator
d = Diagram("The encoder reads, and the decoder writes", 10.4, 3.4)
read_in = d.box("he sees her", 0.85, 2.3, 1.4, kind=TENSOR)
written = d.box("so far:\nil la", 0.85, 0.8, 1.4, kind=TENSOR)
rows_in, rows_written = (
    d.box("64 numbers\nper word", 3.05, y, 1.9, kind=LEARNED) for y in (2.3, 0.8)
)
read = d.box("encoder:\n2 blocks", 5.35, 2.3, 1.2, kind=LEARNED, copies=2)
output = d.box("English vectors: each\nhas attended to the others", 8.0, 2.3, 2.8, kind=TENSOR)
wrote = d.box("decoder:\n2 blocks", 6.9, 0.8, 1.2, kind=LEARNED, copies=2)
scored = d.box("442 scores,\nbest: voit", 9.3, 0.8, 1.4, kind=TENSOR)
for start, end, label in (
    (read_in, rows_in, ""),
    (rows_in, read, ""),
    (read, output, ""),
    (written, rows_written, ""),
    (rows_written, wrote, ""),
    (output, wrote, "attended to"),
    (wrote, scored, ""),
):
    d.arrow(start, end, label)
d.figure

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of boxes. Above, 'he sees her' becomes 64 numbers per word and goes through the
# encoder's two blocks to English vectors. Below, the French so far, 'il la', goes through the
# decoder's two blocks, which attend to the English vectors, to 442 scores; that of 'voit' is best.*

# %% [markdown] slideshow={"slide_type": "-"}
# In the **encoder**, the upper half, English words look at English words. In the **decoder**, the
# lower half, each French word looks at itself and the French words before it, and then at the
# encoder's vectors. Both halves are stacks of **blocks**. A block combines such attention with a
# small feed-forward network, which works on each word's vector by itself. Let us now open one box
# after the other, until we arrive at a single weight.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let one student tell how 'sees' gets from the upper left to the score of a French
# word, naming each box.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One query and three keys, in small numbers
#
# What happens when a word looks at others? Each word is a vector, here a row of only two numbers.
# This row is multiplied by three learned matrices, $x W_q$, $x W_k$ and $x W_v$, the same for all
# words:
#
# - $W_q$ gives the word's **query**, which describes what it needs;
# - $W_k$ gives its **key**, by which other words find it;
# - $W_v$ gives its **value**, which it hands over.
#
# As an example, let the matrices be
#
# $$W_q = \begin{pmatrix} 2 & 0 \\ 0 & 1 \end{pmatrix}, \qquad
# W_k = \begin{pmatrix} 1 & 1 \\ 0 & 1 \end{pmatrix}, \qquad
# W_v = \begin{pmatrix} 10 \\ 4 \end{pmatrix}.$$
#
# Suppose that word 0 has the vector $(1, 1)$ and looks at words 1, 2 and 3. Step through what it
# does:

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Let the room multiply (1, 1) by the first matrix: (2, 1). The matrices are the same
# for all words.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Steps from four words' vectors to a query, keys, values, scores, weights and the answer
X, asking = torch.tensor([[-1.0, 3.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([1.0, 1.0])
query = asking @ torch.tensor([[2.0, 0.0], [0.0, 1.0]])
keys, values = X @ torch.tensor([[1.0, 1.0], [0.0, 1.0]]), X @ torch.tensor([10.0, 4.0])
scores = keys @ query
weights = scores.softmax(dim=0)
products = weights * values
assert query.tolist() == [2, 1] and values.tolist() == [2, 10, 4] and scores.tolist() == [0, 3, 1]
assert f"{scores.exp().sum():.1f} {weights[1]:.2f} {products.sum():.2f}" == "23.8 0.84 8.98"

place, right = {"x": 1.9, "width": 1.4}, {"x": 6.6, "width": 1.4}
heads = grid(["word 1", "word 2", "word 3"], y=0, kind="head", **place)
heads += grid("word 0", y=0, kind="head", **right)
vectors = grid(X.T, y=1, name="x", label="vectors", digits=0, **place)
vectors += grid(asking[:, None], y=1, name="own", digits=0, **right)


def own_query(y):
    own = {"kind": "query", "name": "query", "digits": 0}
    return grid(query[:, None], y=y, **own, **right)


def their_keys(y, origin=""):
    own = {"kind": "key", "name": "key", "origin": origin, "label": "keys", "digits": 0}
    return grid(keys.T, y=y, **own, **place)


def their_values(y, origin=""):
    own = {"kind": "value", "name": "value", "origin": origin, "label": "values", "digits": 0}
    return grid(values[None], y=y, **own, **place)


scored = heads + their_keys(1) + own_query(1) + their_values(6)
scored += grid(scores[None], y=3, name="score", origin="key", label="scores", digits=0, **place)
positive = scores.exp()
shared = scored + grid(positive[None], y=4, name="e", label="e^score", digits=1, **place)
shared += grid(positive.sum(), y=4, digits=1, **right)
shared += grid(weights[None], y=5, kind="weight", name="w", label="weights", **place)
summed = shared + grid(products[None], y=7, name="part", origin="w", label="products", **place)
summed += grid(products.sum(), y=7, kind="output", name="answer", **right)
texts = {
    "The vector of word 0 gives its query": "(1, 1) times W_q is (2, 1): 1 · 2 + 1 · 0 = 2, and "
    "1 · 0 + 1 · 1 = 1.",
    "The vectors of the others give keys and values": "For word 2, (1, 0) times W_k is (1, 1), and "
    "times W_v it is 10.",
    "Query times key is a score": "For word 2: 2 · 1 + 1 · 1 = 3. A large score means that key and "
    "query fit.",
    "The softmax turns scores into weights": "It divides e^score by the sum of all three, 23.8, so "
    "the weights sum to one.",
    "The values, each times its weight, sum to the answer": "Most of it comes from word 2, whose "
    "key fits best.",
}
drawn = [
    heads + vectors + own_query(3),
    heads + vectors + own_query(3) + their_keys(3, "x") + their_values(5, "x"),
    scored,
    shared,
    summed,
]
Player([State(*text, cells) for text, cells in zip(texts.items(), drawn, strict=True)])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: five steps in a table with a column for each word. Words 1 to 3 give the keys (-1, 2),
# (1, 1) and (0, 1) and the values 2, 10 and 4, and word 0 the query (2, 1). The scores are 0, 3 and
# 1, the weights 0.04, 0.84 and 0.11, and the products 0.08, 8.44 and 0.46 sum to 8.98.*

# %% [markdown] slideshow={"slide_type": "-"}
# The answer, 8.98, is near 10, the value of word 2. Now stack the queries of all words as the rows
# of $Q$, and keys and values as those of $K$ and $V$. Then one formula gives every answer:
# $\mathrm{softmax}(QK^\top / \sqrt{d})\, V$. The steps above left out the root of a query's size
# $d$, which keeps the scores from growing with $d$ (chapter 3).

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Do the column of word 2 on the board. Ask what the answer becomes if the value of word
# 2 is 20: about 17.4.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One head, one weight
#
# In the trained translator, an attention layer does this four times side by side, in four **heads**
# (chapter 6). Each has matrices of its own, so it can look at a word of its own. A word's vector
# has 64 numbers, and a head's queries, keys and values a quarter of that, 16.
#
# **Predict.** The translator has written *il la*, 'he her'. Now the vector of *la* has to find the
# next word. As an example we take head 4 of the decoder's second block. At which English word does
# it look: *he*, *sees* or *her*?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room vote: most say 'sees', and some 'her', because it is the word that has
# just been written.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Prints how head 4 finds its answer for 'la': scores, weights, values and their weighted sum
looks, seen = trained.decoder.blks.block1.attention2, {}
hooks = [
    getattr(looks, name).register_forward_hook(
        lambda _, inputs, output, name=name: seen.update({name: output[0, :, 48:]})
    )
    for name in ("W_q", "W_k", "W_v")
]
with torch.no_grad():
    trained(source, so_far)
for hook in hooks:
    hook.remove()
head_scores = seen["W_k"] @ seen["W_q"][2] / math.sqrt(16)
head_weights = head_scores.softmax(dim=0)
torch.testing.assert_close(head_weights, looks.attention_weights[0, 3, 2])
answer = head_weights @ seen["W_v"]  # (16,)
assert F.cosine_similarity(answer, seen["W_v"][1], dim=0) > 0.99
print("         score   e^score   weight   value, the first 4 of 16 numbers")
table = zip(english, head_scores, head_weights, seen["W_v"], strict=True)
for word, score, weight, value in table:
    numbers = "".join(f"{each:7.2f}" for each in value[:4])
    print(f"{word:6} {score:7.2f} {score.exp():9.1f} {weight:8.3f} {numbers}")
print(f"{'answer':6}", 25 * " ", "".join(f"{each:7.2f}" for each in answer[:4]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Head 4 looks at *sees*, whose French, *voit*, is the next word, so its answer is nearly the value
# of *sees*. These are the same steps at full size: there are four keys, the last of which is
# `<eos>`, queries, keys and values have 16 numbers each, and the scores are already divided by
# $\sqrt{16} = 4$.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let somebody compute one weight with a pocket calculator: e to the power of the score
# of 'sees', divided by the sum of the four, 1122.1.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Inside the translator

# %% [markdown] slideshow={"slide_type": "skip"}
# The view below is open at this head: *decoder*, *block 2*, *cross-attention*, *head 4*. A row is a
# French word, a column an English one. Click on the cell *la*, *sees* to open its numbers. Escape
# leads out, one box at a time, up to the whole translator.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the translator, opened at head 4
tokens = dict(source=english, target=french, output=list(tgt_vocab.idx_to_token))
place = "decoder/block 2/cross-attention/head 4"
look_inside(trained, source, so_far, tokens=tokens, at=place)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of the translator, opened at a map of weights, French queries by
# English keys. Nearly all the weight of the beginning mark is at 'he', that of 'la' at 'sees' and
# that of 'voit' at the end of the sentence; 'il' divides its weight between 'sees' and 'her'.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, live. Let the room find the row of 'la', open its cell, and then climb: Escape, one
# box at a time, with a sentence for each.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From the heads back to a word
#
# How does the answer of a head become a word? Put end to end (**concatenated**), the answers of the
# four heads are 64 numbers again. The matrix `W_o` mixes them, and the result is added to the
# vector of *la*. After the last block, one more matrix turns this vector into 442 scores. Does the
# word then depend on head 4? Let us put zeros in place of its answers, then of those of three heads
# and of all four. What comes after *il la*, for four verbs?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Translates the sentence with four verbs, also without heads of one layer, and prints weights
verbs = ["sees", "finds", "follows", "visits"]
four = torch.tensor([src_vocab[["he", verb, "her", EOS]] for verb in verbs])
found = {}
print(f"{'he ... her':18}", *(f"{verb:8}" for verb in verbs))
cuts = ("whole", 64), ("without head 4", 48), ("head 1 alone", 16), ("without its layer", 0)
for name, first in cuts:

    def empty(_, inputs, first=first):  # the answers of the heads, end to end, go into W_o
        return inputs[0].index_fill(-1, torch.arange(first, 64), 0.0)

    hook = looks.W_o.register_forward_pre_hook(empty)
    with torch.no_grad():
        rows = trained(four, so_far.expand(4, -1))[:, 2]  # the rows of 'la'
    hook.remove()
    found[name] = tgt_vocab.to_tokens(rows.argmax(dim=-1))
    print(f"{name:18}", *(f"{word:8}" for word in found[name]))
assert found["whole"] == found["without head 4"] == ["voit", "trouve", "suit", "visite"]
assert found["head 1 alone"] == found["whole"]
assert not set(found["without its layer"]) & set(found["whole"])
with torch.no_grad():
    trained(four, so_far.expand(4, -1))
print("\nweight on the verb")
on_the_verb = looks.attention_weights[:, :, 2, 1]  # (4 sentences, 4 heads), query 'la', key 1
for i, each in enumerate(on_the_verb.T, start=1):
    print(f"{f'head {i}':18}", *(f"{weight:<8.2f}" for weight in each))
assert (on_the_verb[:, 3] > 0.9).all() and (on_the_verb[:, [0, 2]] > 0.79).all()

# %% [markdown] slideshow={"slide_type": "skip"}
# The French word follows the verb, to which head 4 gives over 0.9 of its weight. Yet without head 4
# all four words stay, because two more heads look there: 1 and 3 give the verb 0.8 or more, and
# head 1 alone is enough for all four words. Only without all heads of the layer does each become
# *a*, 'has'. So what one map shows need not be what the answer depends on. To examine this, let us
# build a translator of our own from plain parts.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the second row, ask whether the verb decides only through head 4. All four
# words stay right without it, but not without its layer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What attention lacks
#
# What must be added to attention to make it a translator? Four things:
#
# | attention by itself | what is added |
# |---|---|
# | averages linear maps of the tokens | a small feed-forward network for each token |
# | replaces each token by its answer | residual connections, with layer norm |
# | ignores the order | positions (chapter 7) |
# | sees words that are not written yet | a causal mask (chapter 4) |
#
# The first two are new here, and the others come from earlier chapters. The mask matters most in
# training, where the decoder reads the whole French sentence at once, and with it the words that it
# should predict.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what is missing before you show it. 'The order' comes at once. 'It sees the
# answer' comes from those who remember chapter 4. The first row is the hard one, and it is next.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Positions
#
# Without a mask, attention gives a word the same answer wherever it stands: both *the* of our first
# sentence would be the same to it. So each word's vector gets a second one added, which depends
# only on its position: sines and cosines, from fast waves to slow ones (chapter 7).

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask which two words of the first sentence attention could not tell apart.

# %% [markdown] slideshow={"slide_type": "skip"}
# Before training, a word's vector has numbers of about $1 / \sqrt D$, which sines and cosines would
# drown. So `embed` multiplies it by $\sqrt D$ before it adds them.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def embed(embedding, X, offset=0):  # X (B, n), the first token at position offset -> (B, n, D)
    D = embedding.embedding_dim
    positions = torch.arange(offset, offset + X.shape[1], device=X.device)[:, None]
    angles = positions / 10000 ** (torch.arange(0, D, 2, device=X.device) / D)  # (n, D / 2)
    P = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(start_dim=1)  # (n, D)
    return embedding(X) * math.sqrt(D) + P


# %% [markdown] slideshow={"slide_type": "slide"}
# ## A feed-forward network for each token
#
# Why is attention not enough? The softmax of its weights is not linear, but what they carry is: a
# token $x$ that attends only to itself gets $x W_v W_o$. No linear map can compute, for instance,
# how far apart the two numbers of a token $(a, b)$ are. A network with two hidden units and a ReLU
# can:
#
# $$\max(0,\, a - b) + \max(0,\, b - a) = |a - b|$$
#
# For the tokens $(3, 1)$, $(1, 3)$ and their average $(2, 2)$ it gives 2, 2 and 0. A linear map
# that gives 2 for the first two must give 2 for the third as well, because it sends an average to
# the average of the results.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes with pencil and paper. Hide the last sentence, and ask what a linear map that is right
# for the first two gives for (2, 2).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two linear layers and a ReLU
#
# This is why every block ends with a **position-wise feed-forward network** (FFN): two linear
# layers with a ReLU between them, the same for each token. Attention carries information between
# tokens, and the network works within each.


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
# Attention has a second limit: by itself, it *replaces* a token. If all heads of *la* look at
# *sees*, the answer is made of *sees*, and nothing of *la* is left. A **residual connection** (in
# the form of He et al., 2016) keeps the token, because it adds the input of a layer $f$ to its
# result: $X + f(X)$. So the layer only has to supply the change.
#
# This sum has a second effect. Imagine a stack of ten layers, each with slope (derivative) 0.1: how
# much of a small change at the bottom reaches the top?

# %% [markdown] slideshow={"slide_type": "fragment"}
# | each layer | its slope | ten of them |
# |---|---|---|
# | $f(X)$ | $0.1$ | $0.1^{10}$, almost nothing |
# | $X + f(X)$ | $1.1$ | $1.1^{10} \approx 2.6$ |
#
# Whether this is why such sums help is open: He et al. themselves doubt it. *The gradient through
# 24 networks*, in *Going further*, also measures stacks with a norm.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for both numbers before you show them. For the second expect 'ten times 0.1 more,
# so 2'. That is close enough: what counts is that the first is almost nothing.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Layer norm
#
# These sums have a price: they grow. Suppose a token and what is added to it are uncorrelated and
# of the same size. Then each sum doubles the variance (chapter 3). Therefore **layer norm** (Ba et
# al., 2016) brings the numbers of each token back to mean 0 and standard deviation 1. Take the
# token $(2, 2, 5)$: its mean is 3 and its variance $(1 + 1 + 4) / 3 = 2$, so it becomes
# $(-1, -1, 2) / \sqrt 2$. Ten times the token gives the same:

# %% slideshow={"slide_type": "fragment"}
print(nn.LayerNorm(3)(torch.tensor([[2.0, 2.0, 5.0], [20.0, 20.0, 50.0]])).detach())

# %% [markdown] slideshow={"slide_type": "skip"}
# Layer norm works on each token by itself. Afterwards it multiplies each number by a learned factor
# and adds a learned shift.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Somebody divides by n - 1 and gets (-0.58, -0.58, 1.15). The norm divides by n.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Our order: add, then norm
#
# Where does the norm go? Like the paper, we put it after the sum: $\mathrm{norm}(X + f(X))$,
# **post-norm**. The other order is **pre-norm**, $X + f(\mathrm{norm}(X))$; *Going further* trains
# both. `dropout`, which sets some numbers to 0 in training, is 0 here.


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

# %% [markdown] slideshow={"slide_type": "skip"}
# **A good place to stop.** What remains is to put the parts together.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The encoder's block
#
# Now we can assemble the parts. Each of the two blocks in the encoder's box looks like this inside:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in the encoder's block
schematic("encoder block")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a straight line leads from X (B, n, D) through two boxes named 'add & norm' to the
# output. Before the first box, queries, keys and values lead from the line down to multi-head
# attention, whose answer goes up to the box. Before the second, an arrow leads down to the FFN,
# whose answer goes up to the box.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The line carries a token's vector, to which two answers are added. The first comes from other
# tokens, by attention, and the second from the FFN, which sees only the token itself.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Follow one token with a finger. Ask where it meets other tokens: in one
# box of four.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The attention layer of chapter 6
#
# This block contains the attention layer of chapters 3, 4 and 6. `split` gives each head its share
# of the numbers. `attend` takes the steps that you know, from scores to answers, and `W_o` mixes
# the heads. A query may attend where `visible` is True. The scores are (B, H, Q, K), that is
# sentences, heads, queries and keys; a mask (B, 1, 1, K) hides padding, and one of (Q, K) the
# future. The weights are masked once more after the softmax, because a query that sees no key at
# all would otherwise get equal weights.


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
        self.attention_weights = scores.softmax(dim=-1).masked_fill(~visible, 0.0)  # empty rows: 0
        heads = self.dropout(self.attention_weights) @ v  # (B, H, Q, D / H)
        return self.W_o(heads.transpose(1, 2).flatten(start_dim=2))  # (B, Q, D)

    def forward(self, queries, keys, values, visible):
        q, k, v = self.W_q(queries), self.W_k(keys), self.W_v(values)
        return self.attend(self.split(q), self.split(k), self.split(v), visible)


# %% [markdown] slideshow={"slide_type": "skip"}
# ### Write the block
#
# Now it is your turn. The block reads $B$ sentences of $n$ tokens, and each token keeps its $D$
# numbers (`num_hiddens`). You need one line for each box named 'add & norm'. The parts to call are
# `attention(queries, keys, values, visible)`, `ffn(X)`, and `addnorm1(X, Y)` and `addnorm2(X, Y)`,
# where Y is what the layer gives. The second cell compares your function with the trained block. If
# they agree, the encoder of our translator will run your two lines.


# %% slideshow={"slide_type": "skip"}
def your_block(X, visible, attention, ffn, addnorm1, addnorm2):  # (B, n, D) -> (B, n, D)
    ...  # two lines


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares your block with the trained one, on a sentence with a padding token
def compare(block):
    theirs, X = trained.encoder.blks.block0, torch.randn(1, 5, 64)
    attention, ffn = PlainMultiHeadAttention(64, 4, 0.0), PlainFFN(64, 128)
    parts = attention, ffn, PlainAddNorm(64, 0.0), PlainAddNorm(64, 0.0)
    numbers = (theirs.attention, theirs.ffn, theirs.addnorm1, theirs.addnorm2)
    for part, trained_part in zip(parts, numbers, strict=True):
        part.load_state_dict(trained_part.state_dict())
    visible = torch.arange(5) < 4
    with torch.no_grad():
        yours, wanted = block(X, visible, *parts), theirs(X, torch.tensor([4]))
        after_one = parts[2](X, attention(X, X, X, visible))
        forgetful = parts[3](X, ffn(X)), parts[3](X, ffn(after_one)), parts[3](after_one, ffn(X))
    if yours is None:
        return "Your block returns nothing yet."
    if yours.shape != X.shape:
        return f"Not yet. X is {tuple(X.shape)}, and your block returns {tuple(yours.shape)}."
    if torch.allclose(yours, wanted, atol=1e-4):
        return "Right: your block gives what the trained block gives."
    if any(torch.allclose(yours, each, atol=1e-4) for each in forgetful):
        return "Not yet. Line 2 uses the result of line 1 twice, and the block's own X nowhere."
    if torch.allclose(yours, after_one, atol=1e-4):
        return "Not yet. You stop after the attention: the FFN is missing."
    return "Not yet. Line 1 adds what the attention gives, line 2 what the FFN gives."


print(compare(your_block))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The encoder block in code
#
# In ours, the mask hides padding, and the last two lines of `forward` are the figure:


# %% slideshow={"slide_type": "fragment"} tags=["build"]
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
# Not in the plan. The last two lines are the picture. Ask what becomes of a padding token: its
# vector is computed like any other, but no real token looks at it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The decoder's block
#
# The decoder looks at two languages, the French so far and the English. So in the whole translator,
# attention plays three roles, each with a mask of its own:
#
# | | queries | keys, values | a query may see |
# |---|---|---|---|
# | encoder | English | English | all words, no padding |
# | decoder, `attention1` | French | French | itself and earlier words |
# | decoder, `attention2` | French | the encoder's output | all words, no padding |

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Draw the empty table on the board and let the room fill it, row by row. In the last
# row some let the English ask. The language that is written asks the one that is read.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws one head of each of the three attentions, with a padding token after the English
padded = [*english, "<pad>"]
with torch.no_grad():
    trained(torch.tensor([src_vocab[padded]]), so_far, torch.tensor([4]))
encoder_block, decoder_block = trained.encoder.blks.block1, trained.decoder.blks.block1
roles = (
    ("encoder\n(B, H, S, S)", encoder_block.attention, padded, padded),
    ("decoder, attention1\n(B, H, T, T)", decoder_block.attention1, french, french),
    ("decoder, attention2\n(B, H, T, S)", decoder_block.attention2, french, padded),
)
figure, axes = plt.subplots(1, 3, figsize=(9.2, 3.4))
for ax, (name, layer, rows, columns) in zip(axes, roles, strict=True):
    weights = layer.attention_weights[0, 3]
    hatch_zeros(heatmap(ax, weights, rows, columns, vmin=0, vmax=1), weights)
    ax.set_title(name)
    ax.tick_params("x", rotation=60)
    ax.set_xlabel("keys", color=KEY)
figure.supylabel("queries", color=QUERY, fontsize=14)
figure.suptitle("Hatched cells are masked: the padding, or words not yet written", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three maps of weights, queries by keys, with S English tokens, the last a padding token,
# and T French ones. In the encoder's and the decoder's second, the column of the padding is
# hatched, and in the decoder's first all cells above the diagonal.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The maps show head 4 of each half's second block. Padding is hidden as a key only: its own row has
# weights, but nobody reads its answer. French padding needs no mask of its own, because it is in
# the future of all real words.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask why the upper right is hatched in one of the three only.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three sublayers
#
# Each of the two blocks in the decoder's box has three sublayers, each with its 'add & norm':
#
# 1. **causal self-attention**, where French words look at themselves and earlier French words;
# 2. **cross-attention**, where the queries are French, but keys and values come from the encoder;
# 3. the FFN.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Draw the encoder's block on the board and let the room insert the second sublayer. Ask
# what is left without it: an encoder's block with a causal mask, the block of a chat model.

# %% [markdown] slideshow={"slide_type": "skip"}
# Only the second is new. Write this block before you read ours. `check` says what is right or what
# went wrong, and `hint("8.4")` and `solution("8.4")` help.

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.4** · complete a function
#
# Three sublayers: `attention1` among the tokens X (B, T, D), `attention2` from them to `sources`
# (B, S, D), then `ffn`. Each has a residual connection and a norm. Return what comes out of the
# last sublayer, (B, T, D).
#
# - Call an attention as `attention1(queries, keys, values)`. Unlike ours, it has its mask inside.
# - `norms` is a list of three layer norms, one per sublayer, in their order: `norms[0](X)`.
# - `dropout` is a function as well. Apply it to what each sublayer gives: `dropout(Y)`.
# - `sources` is the encoder's output and needs no norm here.
# - `pre_norm` chooses the order: if False, $\mathrm{norm}(X + f(X))$; if True,
#   $X + f(\mathrm{norm}(X))$.
#
# The result has the dtype of X, X itself stays as it is, and gradients reach X and `sources`.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The decoder block in code
#
# Ours is post-norm, like the trained one:


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
# How do all these parts work together? Here is everything that we have built:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the whole translator: both halves with their blocks, residual lines and norms
schematic("Transformer")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of boxes. Above, a line leads from the English tokens (B, S) through two 'add &
# norm', fed by self-attention and FFN, to the English vectors (B, S, D). Below, the French so far
# (B, T) goes along such a line, with causal self-attention, cross-attention and FFN, to the scores
# of words. The English vectors lead down to the cross-attention as keys and values. Each row of
# sublayers is there twice.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Follow 'sees' with a finger, from the upper left to the score of 'voit'. Ask where the
# two lines meet: in one arrow pair, the keys and values of the cross-attention.

# %% [markdown] slideshow={"slide_type": "skip"}
# Each half has a line along which the vectors travel, and each sublayer adds its answer to it.
# Whatever the French learns of the English comes through the cross-attention, in both blocks from
# the same English vectors.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The translator in code
#
# Around the blocks we need only `embed` and a last linear layer, `dense`, which computes the
# scores. We take both embeddings and `dense` from the trained translator, and our four blocks take
# over its numbers:

# %% slideshow={"slide_type": "skip"}
reading = [PlainEncoderBlock(64, 128, num_heads=4, dropout=0.0) for _ in range(2)]
writing = [PlainDecoderBlock(64, 128, num_heads=4, dropout=0.0) for _ in range(2)]
theirs = [*trained.encoder.blks, *trained.decoder.blks]
for block, their_block in zip([*reading, *writing], theirs, strict=True):
    block.load_state_dict(their_block.state_dict())  # strict: each name and each shape must fit


# %% slideshow={"slide_type": "-"}
class OurTranslator:
    def encoder(self, source, lens):  # (B, S), (B,) -> (B, S, 64)
        X = embed(trained.encoder.embedding, source)
        for block in reading:
            X = block(X, lens)
        return X

    def decoder(self, so_far, X, lens):  # (B, T), (B, S, 64), (B,) -> (B, T, 442)
        Y = embed(trained.decoder.embedding, so_far)
        for block in writing:
            Y = block(Y, X, lens)
        return trained.decoder.dense(Y)


# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Read `OurTranslator` aloud: it is the picture. Ask where the words meet each other:
# in the attentions of the blocks, and nowhere else.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The loss at all positions
#
# Where do the numbers come from? In training, the decoder reads the true French, and should write
# the same French shifted by one. The mask hides each position's answer, which stands one place to
# the right. So a single pass gives the loss at all positions, which is minus the logarithm of the
# true word's probability:

# %% slideshow={"slide_type": "fragment"}
read, wanted = [BOS, "il", "la", "voit"], ["il", "la", "voit", EOS]  # shifted by one
ours, lens = OurTranslator(), torch.tensor([4])
with torch.no_grad():
    scores = ours.decoder(torch.tensor([tgt_vocab[read]]), ours.encoder(source, lens), lens)[0]
losses = F.cross_entropy(scores, torch.tensor(tgt_vocab[wanted]), reduction="none")  # (4,)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the four losses, and the three best scores after 'il'
for words in zip(read, wanted, losses, strict=True):
    print("after {:6} comes {:6} loss {:.6f}".format(*words))
best = scores[1].topk(3)
print("\nscores after il:", *tgt_vocab.to_tokens(best.indices), best.values)

# %% [markdown] slideshow={"slide_type": "skip"}
# The second loss by hand: after *il*, the score of *la* is 21.90, and the next ones are 12.88 and
# 11.13. Divided by $e^{21.90}$, the sum of all $e^{\text{score}}$ is
# $1 + e^{-9.02} + e^{-10.77} + \dots \approx 1.00016$. The probability of *la* is one over this
# sum, and the loss is the sum's logarithm, 0.00016. If all 442 words were equally likely, it would
# be $\ln 442 \approx 6.1$. Training lowers the mean loss (*Train your own*).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what the loss would be without the mask in training: small as well, because the
# answer can be copied. Then ask for the loss if all words are equally likely.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The loop that writes
#
# How does it write a sentence? It chooses the best next word, appends it, and begins again, which
# is called **greedy search**:


# %% slideshow={"slide_type": "-"} tags=["build"]
@torch.no_grad()
def write(model, source, source_lens, bos, eos, max_len):  # (B, S), (B,) -> (B, T)
    enc_outputs = model.encoder(source, source_lens)  # once for all steps
    said = torch.full_like(source[:, :1], bos)
    while said.shape[1] <= max_len and not (said == eos).any(dim=1).all():
        scores = model.decoder(said, enc_outputs, source_lens)
        said = torch.cat([said, scores[:, -1:].argmax(dim=-1)], dim=1)
    return said[:, 1:]


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Translates 100 test sentences with our blocks and with the package's, and compares
def with_yours(block, X, lens):
    visible = real_keys(lens, X.shape[1])
    return your_block(X, visible, block.attention, block.ffn, block.addnorm1, block.addnorm2)


if compare(your_block).startswith("Right"):
    PlainEncoderBlock.forward = with_yours
whose = "yours" if PlainEncoderBlock.forward is with_yours else "ours (your_block is not right yet)"
print("The two lines of the encoder's blocks:", whose)
some = load("grammar").test[:100]
batch = make_batch(some, src_vocab, tgt_vocab)
written = write(OurTranslator(), batch.src, batch.src_lens, *tgt_vocab[[BOS, EOS]], max_len=30)
written = [tgt_vocab.to_tokens(row) + [EOS] for row in written]
written = [row[: row.index(EOS)] for row in written]
print(*some[0].source, "->", *written[0])
theirs = translate(trained, [pair.source for pair in some], src_vocab, tgt_vocab)
print("100 new sentences, the same as the package's, word for word:", written == theirs)
assert written == theirs

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask which line of the loop does work that an earlier step has done already.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A cache for keys and values
#
# What does the loop do twice? For each new word it reads all French words again, although earlier
# steps have already computed the keys and values of all but the newest. They have not changed,
# because the mask lets no word see a later one. So a layer can keep them in a **key-value cache**.
# An old query is not needed again: its answer has been computed. For 24 words a layer then computes
# 24 keys, where the loop computes $1 + 2 + \dots + 24 = 300$.

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

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask why the mask is all True: everything in the cache is the past.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One sentence, word by word
#
# Now watch how our blocks write *il la voit* for *he sees her*. Keys and values are kept on both
# sides, French on the left and English on the right. The weights are head 4's, in the last blocks:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Steps through the sentence with a cache, and draws head 4 of the last block
english, says = ["he", "sees", "her", EOS], ["il", "la", "voit", EOS]
caches, on_french, on_english = [None, None], [], []
with torch.no_grad():
    read = ours.encoder(source, lens)  # (1, 4, 64), once for all steps
    theirs = [  # for each block the keys and values (1, 4, 4, 16) of the English, once as well
        [block.attention2.split(W(read)) for W in (block.attention2.W_k, block.attention2.W_v)]
        for block in writing
    ]
    on_itself = reading[1].attention.attention_weights[0, 3]  # (4, 4)
    for t, word in enumerate([BOS, *says[:3]]):
        X = embed(trained.decoder.embedding, torch.tensor([[tgt_vocab[word]]]), offset=t)
        for i, block in enumerate(writing):
            Y, caches[i] = attend_with_cache(block.attention1, X, caches[i])
            X = block.addnorm1(X, Y)
            looks = block.attention2
            queries = looks.split(looks.W_q(X))  # (1, 4, 1, 16)
            X = block.addnorm2(X, looks.attend(queries, *theirs[i], torch.ones(4).bool()))
            X = block.addnorm3(X, block.ffn(X))
        on_french.append(block.attention1.attention_weights[0, 3])  # (1, t + 1)
        on_english.append(block.attention2.attention_weights[0, 3])  # (1, 4)
        assert tgt_vocab.to_tokens([trained.decoder.dense(X).argmax()]) == [says[t]]
assert caches[1][0].shape == (1, 4, 4, 16)  # four words, four heads

FRENCH, ENGLISH, W, ROWS = 2.1, 8.7, 1.2, 3.4


def keys_and_values(x, words, kept):
    """Columns for the words, of which so many have been kept."""
    cells = grid([words], x, 0, "head", width=W)
    for y, kind in ((1, "key"), (2, "value")):
        if kept:
            cells += grid("kept", x, y, "ghost", width=kept * W)
        if new := len(words) - kept:
            cells += grid([["new"] * new], x + kept * W, y, kind, width=W)
    return cells


def step(t):
    words = [BOS, *says[:t]]
    cells = keys_and_values(FRENCH, words, kept=t) + keys_and_values(ENGLISH, english, kept=4)
    cells += grid([["keys"], ["values"]], 0, 1, "label", width=FRENCH)
    for x in (FRENCH, ENGLISH):
        cells += grid([["query"], ["new"]], x + 4 * W + 0.2, 0, [["head"], ["query"]], width=W)
    for i, word in enumerate(words):
        here = dict(y=ROWS + i, width=W)
        cells += grid(on_french[i], FRENCH, kind="weight", label=word, **here)
        if i < 3:
            rest = here | dict(width=(3 - i) * W)
            cells += grid("masked", FRENCH + (i + 1) * W, kind="ghost", **rest)
        cells += grid(on_english[i], ENGLISH, kind="weight", **here)
        cells += grid(says[i], ENGLISH + 4 * W + 0.2, kind="output", **here)
    return cells


encoder = keys_and_values(ENGLISH, english, kept=0)
encoder += grid([[word] for word in english], ENGLISH - 1.5, ROWS, "head", width=W)
encoder += grid(on_itself, ENGLISH, ROWS, "weight", width=W)
texts = {
    "The encoder reads the English once": "Each word may look at all four.",
    "<bos> is read, 'il' is written": "A row of weights on the French, one on the English.",
    "'il' is read, 'la' is written": "Key and value of <bos> are kept.",
    "'la' is read, 'voit' is written": "One column and one row are new.",
    "'voit' is read, <eos> is written": "Four steps have filled a causal map.",
}
drawn = [encoder, *(step(t) for t in range(4))]
Player([State(*text, cells) for text, cells in zip(texts.items(), drawn, strict=True)])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: five steps. The encoder's words look at each other, without a mask, and give keys and
# values. Then each step adds a French column, whose key, value and query are new, and a row of
# weights over the French so far and over the English; the future is masked. Written are 'il', 'la',
# 'voit' and the end mark.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Before each step, ask what is computed anew: one column of keys and values, and one
# row of weights. Ask what the encoder does after its step: nothing.

# %% [markdown] slideshow={"slide_type": "skip"}
# The price of the cache is memory, because each layer keeps two vectors per token (chapter 9).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which path carries the gender?
#
# Now we can return to our first sentence: *... took the good orange and ate it* becomes *... la
# bonne orange et l' a mangée*. Does *it* look at *orange*? Here are the weights that each English
# word gives to *orange*, in head 4 of the encoder's second block:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Prints the weight that each word gives to 'orange' in one head
english = [*"the old doctor took the good orange and ate it".split(), EOS]
french = [BOS, *"le vieux médecin a pris la bonne orange et l' a".split()]
source, so_far = torch.tensor([src_vocab[english]]), torch.tensor([tgt_vocab[french]])
ours, lens = OurTranslator(), torch.tensor([len(english)])
ours.encoder(source, lens)
onto_orange = reading[1].attention.attention_weights[0, 3, :, 6]  # head 4, all queries, key 6
print(*(f"{word:>6}" for word in english))
print(*(f"{weight:6.2f}" for weight in onto_orange))
assert onto_orange[9] > 0.95

# %% [markdown] slideshow={"slide_type": "-"}
# It does: *it*, the second *the* and *good* give *orange* nearly all their weight. But such a map
# shows only where a head looks. To find out what depends on this look, we **mask it out**, in both
# blocks and in all heads, with a function that hides keys from queries:

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Let the room find the column of 'it'.


# %% slideshow={"slide_type": "skip"}
def forbid(layer, queries, keys):  # slices of positions
    def hide(layer, inputs):
        X, Y, values, visible = inputs  # queries come from X, keys from Y
        allowed = torch.ones(X.shape[1], Y.shape[1]).bool()
        allowed[queries, keys] = False
        return X, Y, values, visible & allowed

    return layer.register_forward_pre_hook(hide)


# %% [markdown] slideshow={"slide_type": "skip"}
# PyTorch calls `hide` before each `forward` of the layer, and what `hide` returns replaces the
# inputs.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The look of 'it' at 'orange'
#
# **Predict.** *It*, word 9, can no longer look at *orange*, word 6. What does the translator write
# at the end: *mangée*, *mangé* or something else?


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes the last word again, without the look of 'it' at 'orange'
def last_scores(*cuts):  # each cut: layers, queries, keys
    hooks = [forbid(layer, *where) for layers, *where in cuts for layer in layers]
    with torch.no_grad():
        found = ours.decoder(so_far, ours.encoder(source, lens), lens)[0, -1]
    for hook in hooks:
        hook.remove()
    return found


def last_word(*cuts):
    return tgt_vocab.to_tokens([last_scores(*cuts).argmax()])[0]


among_english = [block.attention for block in reading]
print("... et l' a", last_word((among_english, slice(9, 10), slice(6, 7))))

# %% [markdown] slideshow={"slide_type": "fragment"}
# No, the last *e* does not need this look: the translator still writes *mangée*. So the gender can
# arrive by another path.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes with the vote. Most say 'mangé'. Let those who say 'mangée' name the path by which
# the gender arrives then. Keep their paths on the board.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three paths
#
# The next word is computed from the vector of *a*, the last French word so far. Three short paths
# lead from the noun phrase to this vector:
#
# 1. Later English words look at *the good orange*, and French words look at these later words.
# 2. Later French words look at *la bonne orange*, and *a* may look at these.
# 3. Later French words look straight at *the good orange*.
#
# Each begins in one of the three attentions, where `forbid` can close it. For path 1 it hides *the
# good orange*, as keys, from the English words after it, as queries.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask which of these looks we have hidden before: that of 'it' at 'orange'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Close the gates
#
# Which paths does the *e* need? Close one gate after the other, and watch the last letter. The
# title says by how much the score of *mangée* leads over that of *mangé*, or the other way round.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the three paths on the sentence, and closes those whose gates are shut
among_french = [block.attention1 for block in writing]
from_french = [block.attention2 for block in writing]
PATHS = (  # layers, queries, keys
    (among_english, slice(7, None), slice(4, 7)),
    (among_french, slice(9, None), slice(6, 9)),
    (from_french, slice(9, None), slice(4, 7)),
)
endings, leads = {}, {}
for closed in range(8):
    shut = tuple(bool(closed >> i & 1) for i in range(3))
    cuts = [path for path, now in zip(PATHS, shut, strict=True) if now]
    two = last_scores(*cuts)[tgt_vocab[["mangée", "mangé"]]]
    endings[shut], leads[shut] = last_word(*cuts), (two[0] - two[1]).item()
    straight = torch.stack([layer.attention_weights[0, :, -1, 4:7] for layer in from_french])
    assert straight.max() < 0.025  # what 'a' gives to each word of 'the good orange'
    orange = torch.stack([layer.attention_weights[0, :, -3:-1, 6] for layer in from_french])
    assert closed or (orange.amax(dim=(0, 1)) > 0.25).all()  # what 'et' and "l'" give to it
assert all((ending == "mangé") == (shut[0] and shut[1]) for shut, ending in endings.items())
assert set(endings.values()) == {"mangée", "mangé"}
assert all(abs(leads[*two, True] - leads[*two, False]) < 0.3 for *two, third in leads if third)
assert last_word(PATHS[1], (among_english, slice(9, 10), slice(6, 7))) == "mangé"


def draw_paths(figure, close_1=False, close_2=False, close_3=False):
    ax, shut = figure.subplots(), (close_1, close_2, close_3)
    ax.set(xlim=(3.4, 13.2), ylim=(-1.3, 3.1))
    ax.axis("off")
    rows = ((english[:-1], 2, 0.33, (4, 5, 6)), (french, 0, -0.33, (6, 7, 8)))
    for words, y, below, phrase in rows:
        for i, word in list(enumerate(words))[phrase[0] :]:
            bold = "bold" if i in phrase else "normal"
            ax.text(i, y, word, ha="center", va="center", fontsize=13, weight=bold)
            ax.text(i, y + below, i, ha="center", va="center", fontsize=12, color=FAINT)
    ax.text(12.3, 0, endings[shut], ha="center", va="center", fontsize=16, weight="bold")
    closed = " and ".join(f"path {i + 1}" for i in range(3) if shut[i])
    state = f"Without {closed}" if closed else "With all paths"
    ax.set_title(f"{state}: {endings[shut]} leads by {abs(leads[shut]):.1f}", fontsize=16)
    arrow = dict(arrowstyle="-|>", lw=2, shrinkA=12, shrinkB=12)
    ends = (((6, 2.2), (9, 2.2), -0.35), ((8, -0.2), (11, -0.2), 0.35), ((6.1, 1.8), (11, 0), 0))
    gates = ((7.5, 2.75), (9.5, -0.75), (8.55, 0.91))
    for i, (start, end, bend) in enumerate(ends):
        now = dict(color=CUT, ls=":") if shut[i] else dict(color=WEIGHT, ls="-")
        bent = dict(connectionstyle=f"arc3,rad={bend}")
        ax.annotate("", end, start, arrowprops=arrow | now | bent)
        label, paper, ink = ("✗ closed", CUT, GROUND) if shut[i] else ("path", GROUND, INK)
        gate = dict(boxstyle="round", fc=paper, ec=FAINT)
        ax.text(*gates[i], f"{label} {i + 1}", ha="center", va="center", bbox=gate, color=ink)
    ax.annotate("", (11, 0), (9, 2), arrowprops=arrow | dict(color=GREY, ls="--"))


alt = "The English sentence above the French one, with three paths from the noun to the last word."
explore(draw_paths, figsize=(8.6, 3.6), alt=alt, close_1=False, close_2=False, close_3=False)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive drawing of the end of both sentences. Path 1 leads from 'orange' to later
# English words, and from there to the French 'a'; path 2 from 'la bonne orange' to 'a'; path 3 from
# the English 'orange' straight to 'a'. With one gate closed, the last word stays 'mangée'. With
# gates 1 and 2 closed it is 'mangé', and with all three as well.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The room names the gates to close. Ask how the gender comes to the end when 'it'
# cannot look at the noun: by one of the paths on the board.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Closing any single path leaves *mangée*. The *e* disappears only when paths 1 and 2 are both
# closed. So when *it* could not look at *orange*, path 2 still carried the gender. With path 2
# closed as well, this one look decides: without it, the translator writes *mangé*.
#
# Why is path 3, the most direct, not enough? Here it carries almost nothing: whether it is open or
# closed changes the lead by less than 0.3. In no head does *a* give any of the words *the good
# orange* more than 0.02 of its weight. In some head *et* and *l'* give *orange* a quarter and more,
# but little of that reaches the ending.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a map does not show
#
# One sentence is only an example. Here are the right endings in 49 new sentences that end as this
# one does. The five other translators were trained less, each from its own random initialisation.
# (`python -m tests.benchmarks.blocked_looks` computes these stored counts.)
#
# | masked out | stored translator | five others |
# |---|---|---|
# | nothing | 49 | 45 to 48 |
# | the look of the pronoun at the noun | 49 | 42 to 48 |
# | path 1 | 38 | 41 to 44 |
# | path 2 | 48 | 36 to 45 |
# | path 3 | 49 | 45 to 47 |
# | all three paths | 25 | 22 to 32 |
# | control: about as many cells, before the noun phrase | 49 | 46 to 47 |
#
# Losing the pronoun's look at the noun costs the stored translator nothing, and the others at most
# 3 endings. With all three paths closed, the stored one gets 25 right. Always writing the
# masculine, in the right number, would get 23, and always the feminine 26. Our three paths are not
# all: words before the phrase can hand its gender on, and by this detour one of ten further
# translators still had 47 right. A strong cell in a map shows a look. It does not show that the
# translation depends on it.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Compare the table with the paths on the board. Ask what the last row is for: it is the
# control.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention carries information between tokens, and a feed-forward network works within each. A
#   residual connection keeps the token, and a layer norm keeps the size of its numbers.
# - In training, one pass gives the loss at all positions, because the mask hides each answer. In
#   writing, a layer with a cache computes $n$ keys instead of $n(n+1)/2$.
# - In six translators the gender of *it* takes several paths, and the look of *it* at the noun by
#   itself seldom decides. To find out what a translation depends on, mask out looks, one by one and
#   several at once.
#
# Next, chapter 9 asks which word has to see which, and what it costs.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the box in which a token meets others, and for what would break without each
# of the other boxes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# `check`, `hint` and `solution` work here as for exercise 8.4 above. Exercises 8.2, 8.5 and 8.6
# follow in *Going further*.

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.1** · by hand
#
# Two tokens of four numbers, $(-4, -1, 0, 3)$ and $(4, 1, 2, 5)$, go through a sublayer that
# squares each number, $f(x) = x^2$, with a residual connection and a layer norm (scale 1, shift 0).
# What becomes of the first token in post-norm, and what in pre-norm? Give two lists of four
# numbers, post-norm first; two decimals are enough.

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
# Read these sections in any order; those that train or write build on the first.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The translator as classes
#
# *12 minutes.* To train a translator of our own, we put the parts into classes whose arguments and
# names are the package's, so that each can take over the other's numbers.


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
model.load_state_dict(trained.state_dict())
print(f"BLEU of the stored translator: {bleu_on(model, corpus.test[:100]):.1f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train your own
#
# *2 minutes.* The stored translator has read 68,000 pairs of sentences. Let us train one on chapter
# 5's 8,000 pairs, four times over, with chapter 5's loop. The learning rate falls from 0.006 to 0.
# BLEU compares runs of one to four words with a reference, and 100 is best.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
torch.manual_seed(0)
young = new_translator(len(src_vocab), len(tgt_vocab))
data = corpus.train, src_vocab, tgt_vocab
run = train(young, *data, steps=500, lr=0.006, seed=0)
print("loss, means of 50 steps:", torch.tensor(run.losses).view(10, -1).mean(dim=1))
print(f"BLEU {bleu_on(young, corpus.test[:100]):.1f}")
assert run.losses[0] > 5 and bleu_on(young, corpus.test[:100]) > 80

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. The cell takes about half a minute. Ask what the loss is before the first step: 442
# French words, all about equally likely, and ln 442 is 6.1.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One step with the cache
#
# *8 minutes.* The whole decoder keeps a cache for each block. It reads one word per step, whose
# position is `offset`.


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
# The seconds fall by less than the keys, because each step still goes through all layers, copies
# the cache, and in this plain code computes the English keys and values again, which the view above
# keeps as well.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two bugs that training does not show
#
# *11 minutes.* In training, the answer stands in the input, one place to the right, and only the
# mask hides it. So here is a test of the mask: change every word from position $t$ on, and no score
# before $t$ may move.


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

# %% [markdown] slideshow={"slide_type": "skip"}
# #### Two mistakes of the book's decoder
#
# The book's decoder (section 11.7.5) hides the future only while training, because in decoding
# there is no future yet. It also forgets the `offset`, so that each new word gets position 0. Here
# are both mistakes in our code:


# %% slideshow={"slide_type": "skip"}
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
# We compute the loss on whole sentences in `eval()`, and BLEU on 100 sentences that each of the
# three models writes with the cache and without.


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
    assert seen == (False, name == "leaky") and (loss > 1) == (name == "leaky")
    assert (scores[0] < 50) == (name == "lost") and scores[1] > 95

# %% [markdown] slideshow={"slide_type": "skip"}
# The leak worsens the loss. Translations written with the cache stay right, because
# `attend_with_cache` never calls the changed `forward`; without the cache, BLEU falls from 100.0 to
# 99.2. The lost position spoils only what is written with the cache. The loss misses it, because a
# model that reads the whole sentence at once gives every word its position. The leaky model gets
# worse, although it sees the answer, probably because it never learned what to do with a future.

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Let them fill in a table of two rows and two columns on the board. Most say that the
# leak lowers the loss, 'because it cheats'. That is the other bug: no mask in training either. Then
# the model learns to copy the next word and cannot write. Ask for one test that catches both bugs
# here: the whole sentence at once against word by word, same scores.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your sentence, your cuts
#
# *1 minute.* The stored translator works in this page. Write a sentence, see who looks at whom, and
# mask out a look: its weight becomes 0, the softmax gives its share to the other words, and the
# sentence is translated again.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows the stored translator; for yours: TranslatorView(model, src_vocab, tgt_vocab)
TranslatorView("transformer", title="Write a sentence, forbid a look")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view. A text field with an English sentence, its translation, buttons with
# cuts to try, small maps of four heads, and one of them large, with lines between the words. A
# click on a cell forbids that look, and the sentence is translated again.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan. Two minutes. Take a sentence from the room, or click the two buttons that hide
# 'fille' and 'la' in 'The girl that I see is old', and vote on the ending first. The view needs no
# kernel.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The gradient through 24 networks
#
# *2 minutes.* In *Add and norm*, the slope 0.1 was only an example. So let us stack 24 feed-forward
# networks and measure the gradient at the bottom if it is 1 at the top. We initialise them as
# PyTorch does, and with larger numbers, which keep a network's output about as large as its input.

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


starts = {"PyTorch's": lambda network: None, "size-keeping": keep_the_size}
steps = {
    "f(X)": lambda X, Y: Y,
    "X + f(X)": lambda X, Y: X + Y,
    "norm(f(X))": lambda X, Y: F.layer_norm(Y, X.shape[-1:]),
    "norm(X + f(X))": lambda X, Y: F.layer_norm(X + Y, X.shape[-1:]),
}
gradients = {}
print(f"{'24 networks':15}", *(f"{start:>13}" for start in starts))
for step, combine in steps.items():
    for start, begin in starts.items():
        found = [gradient_at_the_bottom(combine, begin, seed) for seed in range(20)]
        gradients[step, start] = torch.tensor(found).median().item()
    found = [gradients[step, start] for start in starts]
    print(f"{step:15}", *(f"{each:13,.2f}" if each > 0.1 else f"{each:13.0e}" for each in found))
plain, added, only, normed = ([gradients[step, start] for start in starts] for step in steps)
assert plain[0] < 1e-12 and 0.5 < plain[1] < 2
assert added[0] < 3 and 2000 < added[1] < 8000
assert 0.2 < only[0] < 0.6 and 0.6 < only[1] < 1.4
assert all(0.5 < each < 2 for each in normed)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With PyTorch's initialisation, the plain stack loses the gradient, and the sums carry it to the
# bottom. With size-keeping weights, the plain stack preserves it as well, but each sum doubles its
# variance, so that its size grows by the root of $2^{24}$, 4,096. In the last two rows, a norm
# brings each token back to one size. After a sum, it keeps the gradient near 1 with both
# initialisations, and even without the sum, a third or more arrives. This measures gradients before
# training, and not whether the residuals preserve the token.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for the variance of X + Y, if both have variance 1 and do not depend on each
# other: 2. Then let the room compute the root of 2 to the power of 24. The third row is a control:
# the norm without the sum already keeps a third of the gradient or more.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Pre-norm or post-norm?
#
# *6 minutes.* Xiong et al. (2020) report that pre-norm trains at larger learning rates than
# post-norm, and without warm-up, the small rates at the beginning. Which order learns at which
# rate? We try it in small models, without warm-up, with 80 steps and one random initialisation.

# %% [markdown] slideshow={"slide_type": "skip"}
# Our models have 32 numbers per token, and two blocks each in encoder and decoder. The cell prints
# the mean loss of the last ten steps, after that of a model that only knows the words' frequencies.


# %% slideshow={"slide_type": "skip"}
def small_translator(pre_norm):
    torch.manual_seed(0)
    sizes = dict(num_hiddens=32, ffn_num_hiddens=64, num_heads=4, num_blks=2, dropout=0.0)
    return EncoderDecoder(
        TransformerEncoder(len(src_vocab), **sizes, pre_norm=pre_norm),
        TransformerDecoder(len(tgt_vocab), **sizes, pre_norm=pre_norm),
    )


# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
words = [word for pair in corpus.train for word in [*pair.target, EOS]]
times = torch.tensor(tgt_vocab[words]).bincount()
shares = times[times > 0] / times.sum()
print(f"frequencies only           {-(shares * shares.log()).sum():.2f}")
ended, data = {}, (corpus.train, src_vocab, tgt_vocab)
for rate in (0.006, 0.012, 0.03):
    for name, pre_norm in {"post-norm": False, "pre-norm": True}.items():
        run = train(small_translator(pre_norm), *data, steps=80, lr=rate, seed=0)
        ended[name, rate] = sum(run.losses[-10:]) / 10
        print(f"{name:9} at rate {rate:<5}    {ended[name, rate]:.2f}")
assert all(abs(ended["post-norm", rate] - ended["pre-norm", rate]) < 1 for rate in (0.006, 0.012))
assert ended["post-norm", 0.03] > 1 + ended["pre-norm", 0.03]

# %% [markdown] slideshow={"slide_type": "skip"}
# At 0.006 the two end close together. At 0.03 pre-norm ends at 3.20, and post-norm at 4.72; with
# the seeds 0 to 4, pre-norm is ahead each time. So here pre-norm bears the larger rate, as the
# report says. But after 400 steps with the seeds 0 and 1, it was worse at 0.03 than at 0.012.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask for a guess at 0.03 before the table. It is no proof: one start of a small
# model. And a larger rate that is borne is not yet a better model.

# %% [markdown] slideshow={"slide_type": "skip"}
# In exchange, pre-norm needs one more layer norm after the last block, because its sum grows from
# block to block. If it is forgotten, nothing crashes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three families
#
# *1 minute.* The same blocks make three kinds of models (*Dive into Deep Learning*, section 11.9):
#
# | | blocks | mask | trained to | for instance |
# |---|---|---|---|---|
# | encoder-only | encoder's | padding only | fill in hidden words | BERT (2018) |
# | decoder-only | decoder's without `attention2` | causal | predict the next word | GPT (2018) |
# | encoder-decoder | both | as here | generate a target | Transformer (2017), T5 (2019) |

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cover the column of masks. Ask which family a chat model belongs to, and which one
# you would take to sort e-mails.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.2** · predict, then measure
#
# A decoder with one block and one head writes 10 tokens, one at a time, from a source of 7 words.
# Without a cache each step reads the whole prefix again: 1 token, then 2, up to 10. All 10 steps
# together:
#
# - how many rows go through `attention1.W_k`?
# - how many through `attention2.W_k`?
# - how many scores does `attention1` compute? (The hidden ones count as well.)
#
# Predict. Then measure with a hook, as in *One step with the cache* above. A small decoder for it:
# `TransformerDecoder(20, 8, 16, num_heads=1, num_blks=1, dropout=0.0)`, with a vocabulary of 20
# words and 8 numbers per token; for the source, give `init_state` the numbers
# `torch.randn(1, 7, 8)`.
#
# Give three pairs, *without* and *with* a cache, such as `[(1, 1), (1, 1), (1, 1)]`.

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
#   The form of the residual connection, and their doubt about vanishing gradients.
# - J. L. Ba, J. R. Kiros, G. E. Hinton, *Layer Normalization*, 2016, arXiv:1607.06450.
# - R. Xiong et al., *On Layer Normalization in the Transformer Architecture*, ICML 2020,
#   arXiv:2002.04745. Post-norm and pre-norm, warm-up, the last norm.
# - J. Devlin et al., *BERT*, NAACL 2019, arXiv:1810.04805; A. Radford et al., *Improving Language
#   Understanding by Generative Pre-Training*, OpenAI 2018; C. Raffel et al., *Exploring the Limits
#   of Transfer Learning with a Unified Text-to-Text Transformer* (T5), JMLR 2020,
#   arXiv:1910.10683. The families' examples.
