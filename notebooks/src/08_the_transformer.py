# %% [markdown] slideshow={"slide_type": "slide"}
# # 8 · The Transformer
#
# **You will**
# - follow a sentence through a trained translator, from the whole down to one number and back;
# - write the core of its parts yourself, load trained numbers into them, and see your translator
#   write the same sentences as the trained one;
# - train it from the start, and watch it write word by word, with a cache of keys and values;
# - mask out single looks and whole paths, to find out which words one letter depends on.
#
# **Half an hour?** Read up to *Does the word depend on head 4?*, then the table in *The decoder's
# block*, and *Which path carries the gender?*. The code can wait.
#
# Core path: 85 to 130 minutes, in two sittings. Going further: 35. Exercises: 80. Builds on
# chapters 1, 3, 4, 6 and 7. *Dive into Deep Learning* (D2L) treats the subject in section 11.7.

# %% [markdown] slideshow={"slide_type": "notes"}
# 33 minutes: 11 for the opening, from 'it' to a number and back; 6 for positions, the feed-forward
# network and add and norm; 3½ for the blocks; 3 for the whole translator and its loss; 3½ for the
# cache; 6 for the paths of the gender and the summary. After 17 minutes you should be at 'The
# encoder's block'. Two slides are not in the plan: 'Our order' and the training. Behind? Leave out
# the slides of the cache. The slides after the summary are for questions.
# Homework: exercise 8.3.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import TransformerDecoder, TransformerEncoder
from d2l_attention.data import BOS, EOS, PAD, load, make_batch
from d2l_attention.exercises import check, hint, solution
from d2l_attention.models.encoder_decoder import EncoderDecoder, sequence_loss
from d2l_attention.training import train
from d2l_attention.training.evaluation import translate
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
    VALUE,
    WEIGHT,
    signed,
)
from d2l_attention.views.plots import CMAP, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is 'it'?
#
# In this chapter we build a **Transformer** (Vaswani et al., 2017), a translator in which words
# exchange information by attention only. Before we build one, let us watch a trained one at work on
# two sentences that differ in a single word. (`translator` loads it with its two vocabularies.)

# %% slideshow={"slide_type": "-"}
trained, src_vocab, tgt_vocab = translator("transformer")

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Translates both sentences
for noun in ("cake", "orange"):
    words = f"the old doctor took the good {noun} and ate it".split()
    print(*words)
    print("  ->", *translate(trained, [words], src_vocab, tgt_vocab)[0])

# %% [markdown] slideshow={"slide_type": "-"}
# *Mangé* and *mangée* both mean *eaten*, so why does the second sentence end in one more *e*? In
# French a cake is masculine and an orange is feminine, and the last letter depends on which noun
# *it* refers to. A machine that treats each word by itself could never know this. **Attention**
# can, because it lets a word look at other words and take something from them. And since it needs
# no chain of steps from word to word, as an RNN does, a layer can compute all words of a sentence
# at once. When we have built such a translator, we will stop *it* from attending to *orange*, and
# you can bet on whether the last *e* survives.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room find the last letters that differ, and the English word that decides
# about them. Does 'it' look at the noun, and does the letter depend on it? Both come near the end.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# A **mask** (chapter 4) says which words a word may look at. Queries, keys and values (chapter 3)
# come again below.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From the whole to one number
#
# To see how such a machine gets from one language to the other, let us follow a shorter sentence,
# *he sees her*. The translator reads the English and the French that it has written so far. At
# each French position it scores all 442 entries of its vocabulary (these scores are the
# **logits**), and the best one becomes the next word. Each word is a **token** here, and so are
# two marks: `<bos>` begins the French, and `<eos>` ends a sentence.

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
# ### Two halves and a residual stream
#
# Here is the whole translator, with our sentence at its ends. We will open its boxes one by one.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the whole translator: both halves with their blocks, residual streams and norms
schematic("Transformer")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two rows of boxes. Above, a line leads from 'he sees her <eos>' through two 'add & norm',
# fed by self-attention and FFN, to the English vectors (4, 64). Below, '<bos> il la voit' goes
# along such a line, with causal self-attention, cross-attention and FFN, to the scores (4, 442) and
# to 'il la voit <eos>'. The English vectors lead down to the cross-attention as keys and values.
# Each row of sublayers is there twice.*

# %% [markdown] slideshow={"slide_type": "skip"}
# In the upper half, the **encoder**, English words look at English words. In the lower, the
# **decoder**, each French word looks at itself and the French words before it, and then at the
# vectors that the encoder has made. At the end, one matrix turns the decoder's vectors into the
# 442 scores. The dashed frames are **blocks**. Each half is a stack of two, so that the second
# block can use what the first has found.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room find the two halves and say where each reads from the other, and in
# which direction. Follow 'sees' with a finger, from the upper left to the score of 'voit'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three words in one block
#
# Now let us step into the upper frame. Each word enters it as a vector of 64 numbers (its
# **embedding**, to which its position has been added), and has a lane of its own:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws three words as three lanes through one encoder block
schematic("Transformer block")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: three lanes, for 'he', 'sees' and 'her'. In each, a line leads from the word's vector
# down through two 'add & norm' to its new vector. Beside it stand an attention and an FFN, which
# give their answers to the next 'add & norm'. Arrows lead from each of the three words to each of
# the three attentions, but an FFN reads only the line of its own lane.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Follow one lane from top to bottom. Attention brings information from all three words, each with a
# weight, and the first *add & norm* adds it to the word's own vector. Then a small **feed-forward
# network** (FFN) computes something from this vector only, and the second *add & norm* adds it as
# well. The vectors that travel down the lanes, block after block, are called the **residual
# stream**. It is not quite a running sum, because each *norm* rescales it (*Layer norm*, below).
#
# A lane of the decoder has one box more, the *cross-attention*, in which a French word looks at the
# English ones. Let us begin with this box.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask where 'sees' can learn something of 'her': only where arrows cross the lanes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One query and three keys, in small numbers
#
# Suppose that the French word *il* looks at *he*, *sees* and *her*. To follow this by hand, we let
# each word be a row $x$ of only two numbers, which we make up: $(1, 1)$ for *il*, $(-1, 3)$ for
# *he*, $(1, 0)$ for *sees* and $(0, 1)$ for *her*. We multiply this row by three learned matrices,
# the same for all words:
#
# - $x W_q$ is a word's **query**, which describes what the word needs;
# - $x W_k$ is its **key**, by which other words find it;
# - $x W_v$ is its **value**, which it hands over.
#
# Let the matrices be
#
# $$W_q = \begin{pmatrix} 2 & 0 \\ 0 & 1 \end{pmatrix}, \qquad
# W_k = \begin{pmatrix} 1 & 1 \\ 0 & 1 \end{pmatrix}, \qquad
# W_v = \begin{pmatrix} 10 \\ 4 \end{pmatrix}.$$
#
# Now step through the look of *il* at the three English words (their vectors stand upright):

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
heads = grid(["he", "sees", "her"], y=0, kind="head", **place)
heads += grid("il", y=0, kind="head", **right)
vectors = grid(X.T, y=1, name="x", label="vectors", digits=0, **place)
vectors += grid(asking[:, None], y=1, name="own", digits=0, **right)


def own_query(y):
    own = {"kind": "query", "name": "query", "digits": 0}
    label = grid("query", 8.1, y + 0.5, "label", width=1.2)
    return grid(query[:, None], y=y, **own, **right) + label


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
    "The vector of 'il' gives its query": "(1, 1) times W_q is (2, 1): 1 · 2 + 1 · 0 = 2, and "
    "1 · 0 + 1 · 1 = 1.",
    "The vectors of the others give keys and values": "For 'sees', (1, 0) times W_k is (1, 1), and "
    "times W_v it is 10.",
    "Query times key is a score": "For 'sees': 2 · 1 + 1 · 1 = 3. A large score means that key and "
    "query fit.",
    "The softmax turns scores into weights": "It divides e^score by the sum of all three, 23.8, so "
    "the weights sum to one.",
    "The values, each times its weight, sum to the answer": "Most of it comes from 'sees', whose "
    "key fits best: 0.844 times 10.",
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
# *Figure: five steps in a table with a column for each word. 'He', 'sees' and 'her' give the keys
# (-1, 2), (1, 1) and (0, 1) and the values 2, 10 and 4, and 'il' the query (2, 1). The scores are
# 0, 3 and 1, the weights 0.04, 0.84 and 0.11, and the products 0.08, 8.44 and 0.46 sum to 8.98.*

# %% [markdown] slideshow={"slide_type": "-"}
# The answer, 8.98, is near 10, the value of *sees*, whose key fits best. To do the same for all
# words at once, we stack their queries as the rows of a matrix $Q$, and keys and values as the rows
# of $K$ and $V$. Then one formula gives every answer: $\mathrm{softmax}(QK^\top / \sqrt{d})\, V$.
# Here $d$ is the number of entries of a query. The division by $\sqrt d$, which our small example
# skipped, keeps the scores from growing with $d$; large scores would make the softmax choose one
# word and hardly learn (chapter 3).

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Do the column of 'sees' on the board. Ask what the answer becomes if its value
# is 20: about 17.4.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One head, one weight
#
# In the trained translator, an attention layer does this four times side by side, in four
# **heads**. Each has matrices of its own, so it can look at a word of its own. From the 64
# numbers of a word's vector, it computes queries, keys and values of 16 numbers. (The original
# Transformer has 512 numbers, eight heads, and six blocks in each half.) In a map of a head's
# weights, each row is a word that looks, and each column a word that it looks at. A row is named
# by the word that has just been read, and what it finds helps to choose the next word.
#
# **Predict.** The translator has written *il la*, 'he her', and the row *la* helps to choose what
# comes next. Take head 4 in the cross-attention of the decoder's second block, whose weights are
# easy to read. At which English word does *la* look there: *he*, *sees* or *her*?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room vote: most say 'sees', and some 'her', because it is the word that has
# just been written.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Shows the translator, opened at head 4
tokens = dict(source=english, target=french, output=list(tgt_vocab.idx_to_token))
place = "decoder/block 2/cross-attention/head 4"
look_inside(trained, source, so_far, tokens=tokens, at=place)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of the translator, opened at a map of weights, French queries by
# English keys. Nearly all the weight of the beginning mark is at 'he', that of 'la' at 'sees' and
# that of 'voit' at the end of the sentence; 'il' divides its weight between 'sees' and 'her'.*

# %% [markdown] slideshow={"slide_type": "skip"}
# In the row of *la*, this head gives *sees* nearly all its weight, and the next word is *voit*, the
# French for *sees*. Click on the cell of *la* and *sees* to open its numbers; Escape leads out
# again, box by box, up to the whole translator.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes, live. Let the room find the row of 'la', open its cell, and then climb: Escape, one
# box at a time, with a sentence for each.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From the heads back to a word
#
# The answers of four heads must become one vector again. The picture shows the whole layer, the
# cross-attention of the decoder's second block. A row is a word, and a small box is 16 of its
# numbers, filled for head 4.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the way from both languages through queries, keys, values and four heads to the output
figure = plt.figure(figsize=(9.6, 3.6))
figure.set_layout_engine("none")
ax = figure.add_axes((0, 0, 1, 1))
ax.axis("off")
title = "Each head makes 16 numbers of its own from all 64"
ax.text(4.8, 3.4, title, ha="center", va="center", size=16)


def matrix(x, y, name, colour, columns=4):  # four words, the part of head 4 filled
    for row in range(4):
        for column in range(columns):
            corner = x + column * 1.2 / columns, y - 0.17 * (row + 1)
            style = dict(facecolor=colour if column == 3 else GROUND, edgecolor=colour)
            ax.add_patch(plt.Rectangle(corner, 1.2 / columns, 0.17, lw=1.2, **style))
    ax.text(x + 0.6, y + 0.05, name, ha="center", va="bottom", size=13, color=colour)


def arrow(x0, y0, x1, y1, text="", above=0.07):
    ax.annotate("", (x1, y1), (x0, y0), arrowprops=dict(arrowstyle="-|>", color=INK, lw=1.8))
    ax.text((x0 + x1) / 2, (y0 + y1) / 2 + above, text, ha="center", va="bottom", size=13)


def words_beside(words, x, y):
    for row, word in enumerate(words):
        ax.text(x, y - 0.08 - 0.17 * row, word, ha="right", va="center", size=12)


for words, name, y in ((french, "French (4, 64)", 2.85), (english, "English (4, 64)", 1.42)):
    words_beside(words, 0.62, y)
    matrix(0.7, y, name, INK, columns=1)
for name, y, start in (("Q", 2.85, 2.51), ("K", 1.9, 1.2), ("V", 0.95, 0.96)):
    matrix(2.8, y, f"{name} (4, 64)", {"Q": QUERY, "K": KEY, "V": VALUE}[name])
    arrow(1.95, start, 2.75, y - 0.34, f"$W_{name.lower()}$", 0.1 if name != "V" else -0.32)
of_head = trained.decoder.blks.block1.attention2.attention_weights[0, 3]
for shift in (0.39, 0.26, 0.13):
    corner = 4.9 + shift, 1.55 + shift
    ax.add_patch(plt.Rectangle(corner, 0.9, 0.9, facecolor=GROUND, edgecolor=WEIGHT, lw=1.5))
ax.imshow(of_head, cmap=CMAP, vmin=0, vmax=1, extent=(4.9, 5.8, 1.55, 2.45), zorder=3)
ax.add_patch(plt.Rectangle((4.9, 1.55), 0.9, 0.9, fill=False, edgecolor=WEIGHT, lw=1.5, zorder=4))
ax.text(5.55, 2.88, "weights: (4, 4) per head", ha="center", va="bottom", size=13, color=WEIGHT)
arrow(4.05, 2.51, 4.85, 2.25)
arrow(4.05, 1.56, 4.85, 1.8)
arrow(6.25, 2.0, 6.6, 1.75)
arrow(4.05, 0.61, 6.6, 1.4, "weights times V", -0.55)
matrix(6.65, 1.9, "answers (4, 64)", INK)
arrow(7.9, 1.56, 8.3, 1.56, "$W_o$")
matrix(8.35, 1.9, "output (4, 64)", INK, columns=1)
ax.set(xlim=(0, 9.6), ylim=(0, 3.6), aspect="auto")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four French vectors of 64 numbers are multiplied by W_q to Q, and four English ones by
# W_k and W_v to K and V, each of four parts, one per head; head 4's is filled. Q and K give each
# head a map of weights, 4 by 4. Weights times V are the answers, 16 numbers per head and word. Side
# by side, multiplied by W_o, they are the output, a row for each French word.*

# %% [markdown] slideshow={"slide_type": "skip"}
# In code, one matrix $W_q$, 64 by 64, holds the matrices of all four heads side by side, and so do
# $W_k$ and $W_v$. The answers, put end to end (**concatenated**), are 64 numbers again. $W_o$ mixes
# them, and the result is added to the word's vector in the residual stream.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Follow the row of 'la' with a finger, through head 4 and W_o to the output.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does the word depend on head 4?
#
# We have seen head 4 of this layer look at the verb. Does the next word depend on this? To find
# out, we switch heads of this one layer off, by setting their answers to zero: first head 4, then
# heads 2, 3 and 4, then all four. The first block stays as it is. What comes after *il la*, for
# four verbs?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Translates the sentence with four verbs, also without heads of one layer, and prints weights
looks = trained.decoder.blks.block1.attention2
verbs = ["sees", "finds", "follows", "visits"]
four = torch.tensor([src_vocab[["he", verb, "her", EOS]] for verb in verbs])
found = {}
print(f"{'he ... her':18}", *(f"{verb:8}" for verb in verbs))
cuts = ("whole", 64), ("without head 4", 48), ("without heads 2-4", 16), ("without all four", 0)
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
assert found["without heads 2-4"] == found["whole"]
assert not set(found["without all four"]) & set(found["whole"])
with torch.no_grad():
    trained(four, so_far.expand(4, -1))
print("\nweight on the verb")
on_the_verb = looks.attention_weights[:, :, 2, 1]  # (4 sentences, 4 heads), query 'la', key 1
for i, each in enumerate(on_the_verb.T, start=1):
    print(f"{f'head {i}':18}", *(f"{weight:<8.2f}" for weight in each))
assert (on_the_verb[:, 3] > 0.9).all() and (on_the_verb[:, [0, 2]] > 0.79).all()

# %% [markdown] slideshow={"slide_type": "skip"}
# When the English verb changes, the French one changes with it, and head 4 gives that English verb
# over 0.9 of its weight. Yet all four words stay right without head 4, because heads 1 and 3 look
# at the verb as well, and even head 1 is enough by itself. With all four heads of this layer off,
# every verb is lost: the translator writes *a*, 'has', each time. So head 4 looks at the verb, but
# the translation does not need head 4. Does it need the look of *it* at *orange*? To find out, let
# us build a translator from plain parts, in which we can change everything.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Before the second row, ask whether the verb decides only through head 4. All four
# words stay right without it, but not without all heads.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What attention lacks
#
# Attention by itself does not translate. Four things must be added:
#
# | attention by itself | what is added | in the picture |
# |---|---|---|
# | ignores the order | positions (chapter 7) | *vectors + positions* |
# | sees words that are not written yet | a causal mask (chapter 4) | *causal self-attention* |
# | mixes words, but computes nothing non-linear from one | a small network for each token | *FFN* |
# | replaces each token by its answer | residual connections, with layer norm | *add & norm* |

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what is missing before you show it. 'The order' comes at once. 'It sees the
# answer' comes from those who remember chapter 4. The third row is the hard one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Positions
#
# We begin with the box *vectors + positions*. Without a mask, attention gives a word the same
# answer wherever it stands: both *the* of our first sentence would be the same to it. To tell them
# apart, we add a **positional encoding** to each word's embedding. The embedding is learned; the
# encoding is fixed, and depends only on the position: sines and cosines (chapter 7).

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask which two words of the first sentence attention could not tell apart.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def embed(embedding, X, offset=0):  # X (B, n), the first token at position offset -> (B, n, D)
    D = embedding.embedding_dim
    positions = torch.arange(offset, offset + X.shape[1], device=X.device)[:, None]
    angles = positions / 10000 ** (torch.arange(0, D, 2, device=X.device) / D)  # (n, D / 2)
    P = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(start_dim=1)  # (n, D)
    # The embedding begins with numbers of about 1 / sqrt(D): sines alone would drown it.
    return embedding(X) * math.sqrt(D) + P


# %% [markdown] slideshow={"slide_type": "slide"}
# ## A feed-forward network for each token
#
# Why is attention not enough for a block? Once the weights are fixed, it only adds up values, and
# each value is a linear map of a token. A token $x$ that attends only to itself gets $x W_v W_o$.
# But no linear map can compute, for instance, how far apart the two numbers of a token $(a, b)$
# are, while a network with two hidden units and a ReLU can:
#
# $$\max(0,\, a - b) + \max(0,\, b - a) = |a - b|$$
#
# To see why, take the tokens $(3, 1)$, $(1, 3)$ and their average $(2, 2)$, for which the network
# gives 2, 2 and 0. A linear map that gives 2 for the first two must give 2 for the third as well,
# because it sends an average to the average of the results. So each block has such networks (dark
# below).

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes with pencil and paper. Hide the last sentence, and ask what a linear map that is right
# for the first two gives for (2, 2).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Draws the whole, this part dark
schematic("Transformer", lit="FFN")

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the whole, small. The two FFNs are dark.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two linear layers and a ReLU
#
# A **position-wise feed-forward network** (FFN) is two linear layers with a ReLU between them, the
# same for each token. So attention carries information between tokens, and this network works
# within each.

# %% [markdown] slideshow={"slide_type": "skip"}
# **Write it.** `dense1` turns the $D$ numbers of each token into more, and `dense2` turns these
# into $D$ again; between them stands `.relu()`.


# %% slideshow={"slide_type": "skip"}
def your_ffn(X, dense1, dense2):  # one line: (B, n, D) -> (B, n, D)
    ...


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares your network with a trained one
def compare(yours, wanted, mistakes, otherwise="Go through the text above, step by step."):
    if yours is None:
        return "Your function returns nothing yet."
    if yours.shape != wanted.shape:
        return f"Not yet. It should return {tuple(wanted.shape)}, and gives {tuple(yours.shape)}."
    if torch.allclose(yours, wanted, atol=1e-4):
        return "Right: it gives what it should."
    found = [said for said, result in mistakes if torch.allclose(yours, result, atol=1e-4)]
    return "Not yet. " + (found or [otherwise])[0]


ffn, X = trained.encoder.blks.block0.ffn, torch.randn(1, 5, 64)
with torch.no_grad():
    mistakes = [
        ("The ReLU is missing.", ffn.dense2(ffn.dense1(X))),
        (
            "The ReLU stands between the two layers, not at the end.",
            ffn.dense2(ffn.dense1(X)).relu(),
        ),
        (
            "The ReLU stands between the two layers, not before both.",
            ffn.dense2(ffn.dense1(X.relu())),
        ),
    ]
    verdicts = {"FFN": compare(your_ffn(X, ffn.dense1, ffn.dense2), ffn(X), mistakes)}
print(verdicts["FFN"])

# %% [markdown] slideshow={"slide_type": "skip"}
# Ours, as a class (here as below, write yours first):


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
# *sees*, the answer is made of *sees*, and nothing of *la* is left. The boxes *add & norm* (dark
# below) prevent this. A **residual connection** (in the form of He et al., 2016) adds the input
# of a layer $f$ to its result: $X + f(X)$. So the layer only has to supply the change, and the
# token travels on.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what *la* would still know of itself after an attention without the sum: nothing,
# unless one of its heads looks at *la*.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Draws the whole, this part dark
schematic("Transformer", lit="add & norm")

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the whole, small. The five boxes 'add & norm' are dark.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Layer norm
#
# These sums have a price, because they grow. Suppose, as a rough guess, that each answer is as
# large as the vector to which it is added, and uncorrelated with it. Then each sum doubles the
# variance (chapter 3), and after the six sums of our decoder the numbers would be $\sqrt{2^6}$, 8
# times as large. To undo this, **layer norm** (Ba et al., 2016) brings the numbers of each token
# back to mean 0 and standard deviation 1 after each sum. Take the token $(2, 2, 5)$. Its mean is
# 3, and its variance is $(1 + 1 + 4) / 3 = 2$. The norm turns it into $(-1, -1, 2) / \sqrt 2$,
# and ten times this token becomes the same:

# %% slideshow={"slide_type": "fragment"}
print(nn.LayerNorm(3)(torch.tensor([[2.0, 2.0, 5.0], [20.0, 20.0, 50.0]])).detach())

# %% [markdown] slideshow={"slide_type": "skip"}
# At the end, layer norm multiplies each number by a learned factor and adds a learned shift.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Somebody divides by n - 1 and gets (-0.58, -0.58, 1.15). The norm divides by n.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Our order: add, then norm
#
# The norm can come before the layer or after the sum. Like the original, we put it after the sum,
# $\mathrm{norm}(X + f(X))$, which is called **post-norm**; *Going further* tries the other order.
# The code also has `dropout`, which sets some numbers to 0 in training, but here it is 0.


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainAddNorm(nn.Module):
    def __init__(self, num_hiddens, dropout):
        super().__init__()
        self.dropout, self.ln = nn.Dropout(dropout), nn.LayerNorm(num_hiddens)

    def forward(self, X, Y):  # X (B, n, D) and Y = f(X) -> (B, n, D)
        return self.ln(X + self.dropout(Y))


# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan: show it while you answer a question. Ask which numbers of a token the norm can
# still change afterwards: all, by its learned factor and shift.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# What remains is to put the parts together.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The encoder's block
#
# In its lane, a word of the encoder (framed below) meets *add & norm* and FFN, which we have, and
# chapter 6's attention with several heads, which we now write again. The shape (B, n, D) stays
# the same all the way: B sentences, n tokens, D numbers per token.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Go back to the lanes and follow one token. Ask where it meets other tokens: in one
# box of four.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Draws the whole, this part dark
schematic("Transformer", lit="encoder block, twice")

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the whole, small. The encoder's block is framed.*

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Write the weights
#
# Divide the scores $q \cdot k$ by $\sqrt d$. Where `visible` is False, put the most negative number
# of the dtype, `torch.finfo(scores.dtype).min`, which the softmax turns into weight 0. (With minus
# infinity, a row in which everything is hidden would become NaN. Ours sets such a row to 0, as the
# package does.) Then take the softmax over the keys. `visible` is (B, 1, 1, K) for padding and (Q,
# K) for a causal mask, and both broadcast to the scores.


# %% slideshow={"slide_type": "skip"}
def your_weights(q, k, visible):  # three lines: (B, H, Q, d), (B, H, K, d) -> (B, H, Q, K)
    ...


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares your weights with PyTorch's, with one key hidden
q, k, visible = torch.randn(1, 2, 3, 16), torch.randn(1, 2, 5, 16), torch.arange(5) < 4
masked = (q @ k.mT).masked_fill(~visible, torch.finfo(q.dtype).min)
mistakes = [
    ("The division by the root of d is missing.", masked.softmax(dim=-1)),
    ("Divide by the root of d, not by d.", (masked / 16).softmax(dim=-1)),
    ("The hidden key still has a weight.", (q @ k.mT / 4).softmax(dim=-1)),
    ("The softmax runs over the keys, the last axis.", (masked / 4).softmax(dim=-2)),
]
identity = torch.eye(5).expand(1, 2, 5, 5)  # with these values, the answers are the weights
wanted = F.scaled_dot_product_attention(q, k, identity, attn_mask=visible.expand(3, 5))
verdicts["weights"] = compare(your_weights(q, k, visible), wanted, mistakes)
print(verdicts["weights"])

# %% [markdown] slideshow={"slide_type": "skip"}
# Ours, and the layer around it: `W_q`, `W_k` and `W_v` serve all heads at once, and `split` gives
# each head its 16 numbers. `pairs` makes keys and values, and `attend` uses them. They are two
# functions because a cache will keep what the first one returns.


# %% slideshow={"slide_type": "skip"} tags=["build"]
def weights_of(q, k, visible):  # q (B, H, Q, d), k (B, H, K, d) -> (B, H, Q, K)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(~visible, 0.0)  # 0 also where all is hidden


class PlainMultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, dropout):
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        matrices = [nn.Linear(num_hiddens, num_hiddens, bias=False) for _ in range(4)]
        self.W_q, self.W_k, self.W_v, self.W_o = matrices

    def split(self, X):  # (B, n, D) -> (B, n, H, d) -> (B, H, n, d), where d = D / H
        return X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def attend(self, q, k, v, visible):  # q (B, H, Q, d), k and v (B, H, K, d) -> (B, Q, D)
        self.attention_weights = weights_of(q, k, visible)
        heads = self.dropout(self.attention_weights) @ v  # (B, H, Q, d)
        return self.W_o(heads.transpose(1, 2).flatten(start_dim=2))

    def pairs(self, keys, values):  # (B, K, D) each -> (B, H, K, d) each
        return self.split(self.W_k(keys)), self.split(self.W_v(values))

    def forward(self, queries, keys, values, visible):
        return self.attend(self.split(self.W_q(queries)), *self.pairs(keys, values), visible)


# %% [markdown] slideshow={"slide_type": "skip"}
# ### Write the block
#
# Write one line for each *add & norm* of a lane. `attention(queries, keys, values, visible)` and
# `ffn(X)` give an answer Y, and `addnorm1(X, Y)` and `addnorm2(X, Y)` add it to X and normalise.


# %% slideshow={"slide_type": "skip"}
def your_block(X, visible, attention, ffn, addnorm1, addnorm2):  # two lines, both (B, n, D)
    ...


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares your block with the trained one, on a sentence with a padding token
def with_mask(layer):
    return lambda queries, keys, values, visible: layer(queries, keys, values, mask=visible)


block, X, visible = trained.encoder.blks.block0, torch.randn(1, 5, 64), torch.arange(5) < 4
attend, norm2 = with_mask(block.attention), block.addnorm2
with torch.no_grad():
    one = block.addnorm1(X, attend(X, X, X, visible))
    mistakes = [
        ("You stop after the attention: the FFN is missing.", one),
        ("Line 2 should begin with the result of line 1, and not with X.", norm2(X, block.ffn(X))),
        ("Line 2 adds to X what it should add to the result of line 1.", norm2(X, block.ffn(one))),
        ("The FFN should read the result of line 1.", norm2(one, block.ffn(X))),
    ]
    yours = your_block(X, visible, attend, block.ffn, block.addnorm1, norm2)
    otherwise = "Add each answer to the X that its layer has read."
    verdicts["encoder block"] = compare(yours, block(X, torch.tensor([4])), mistakes, otherwise)
print(verdicts["encoder block"])

# %% [markdown] slideshow={"slide_type": "skip"}
# Ours are the last two lines. The mask that hides padding comes from `real_keys`:


# %% slideshow={"slide_type": "skip"} tags=["build"]
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


# %% [markdown] slideshow={"slide_type": "slide"}
# ## The decoder's block
#
# The decoder's block (framed below) looks at the French so far and at the English. So in the
# whole translator, attention plays three roles, each with a mask of its own:
#
# | | queries | keys, values | a query may see |
# |---|---|---|---|
# | encoder | English | English | all words, no padding |
# | decoder, `attention1` | French | French | itself and earlier words |
# | decoder, `attention2` | French | the encoder's output | all words, no padding |

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Draws the whole, this part dark
schematic("Transformer", lit="decoder block, twice")

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the whole, small. The decoder's block is framed.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Draw the empty table on the board and let the room fill it, row by row. In the last
# row some let the English ask. The language that is written asks the one that is read.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three sublayers
#
# So a decoder block adds three answers to the residual stream of the French: those of **causal
# self-attention**, of **cross-attention** and of the FFN. A decoder-only model such as GPT has no
# encoder, so its blocks drop the cross-attention and keep the rest: *Going further* trains such a
# small GPT and lets it write.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Draw the encoder's block on the board and let the room insert the second sublayer. Ask
# what is left without it: an encoder's block with a causal mask, the block of a chat model.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Write the cross-attention
#
# Write the line for *cross-attention*. It takes the French vectors X (B, T, D), the English ones
# (B, S, D) and the mask `real`, and returns French vectors.


# %% slideshow={"slide_type": "skip"}
def your_cross(X, english, real, attention2, addnorm2):  # one line: (B, T, D) -> (B, T, D)
    ...


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Compares your cross-attention with the trained block's
block, X, English = trained.decoder.blks.block0, torch.randn(1, 3, 64), torch.randn(1, 5, 64)
attend, norm = with_mask(block.attention2), block.addnorm2
with torch.no_grad():
    mistakes = [
        ("You add X to itself.", norm(X, X)),
        ("Your French looks at French.", norm(X, attend(X, X, X, torch.ones(3).bool()))),
        ("It should see no padding: give `real`.", norm(X, block.attention2(X, English, English))),
    ]
    wanted = norm(X, attend(X, English, English, visible))
    yours = your_cross(X, English, visible, attend, norm)
    verdicts["cross-attention"] = compare(yours, wanted, mistakes)
print(verdicts["cross-attention"])

# %% [markdown] slideshow={"slide_type": "skip"}
# Ours is the line of `forward` with `self.attention2`:


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainDecoderBlock(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout):
        super().__init__()
        self.attention1 = PlainMultiHeadAttention(num_hiddens, num_heads, dropout)
        self.attention2 = PlainMultiHeadAttention(num_hiddens, num_heads, dropout)
        self.ffn = PlainFFN(num_hiddens, ffn_num_hiddens)
        norms = [PlainAddNorm(num_hiddens, dropout) for _ in range(3)]
        self.addnorm1, self.addnorm2, self.addnorm3 = norms

    def forward(self, X, enc_outputs, enc_valid_lens):  # (B, T, D), (B, S, D), (B,) -> (B, T, D)
        past = X.new_ones(X.shape[1], X.shape[1]).tril().bool()  # (T, T): key <= query
        X = self.addnorm1(X, self.attention1(X, X, X, past))
        real = real_keys(enc_valid_lens, enc_outputs.shape[1])  # (B, 1, 1, S)
        X = self.addnorm2(X, self.attention2(X, enc_outputs, enc_outputs, real))
        return self.addnorm3(X, self.ffn(X))


# %% [markdown] slideshow={"slide_type": "slide"}
# ## The whole translator
#
# Only one box is still closed (dark below): *linear*, the matrix that computes the 442 scores.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Draws the whole, this part dark
schematic("Transformer", lit="linear")

# %% [markdown] slideshow={"slide_type": "skip"}
# *Figure: the whole, small. The box 'linear' is dark.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room name the box in which a French word meets the English: only the
# cross-attention.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The translator in code

# %% [markdown] slideshow={"slide_type": "skip"}
# Around the blocks, `reading` and `writing`, we need only a vector for each word, `embed`, and the
# box *linear*, `dense`:


# %% slideshow={"slide_type": "-"} tags=["build"]
class OurTranslator(nn.Module):
    def __init__(self, source_words, target_words, D=64, hidden=128, heads=4, blocks=2):
        super().__init__()
        self.english, self.french = nn.Embedding(source_words, D), nn.Embedding(target_words, D)
        for vectors in (self.english, self.french):
            nn.init.normal_(vectors.weight, std=1 / math.sqrt(D))
        sizes = D, hidden, heads, 0.0  # no dropout
        self.reading = nn.ModuleList([PlainEncoderBlock(*sizes) for _ in range(blocks)])
        self.writing = nn.ModuleList([PlainDecoderBlock(*sizes) for _ in range(blocks)])
        self.dense = nn.Linear(D, target_words)

    def encoder(self, source, lens):  # (B, S), (B,) -> (B, S, D)
        X = embed(self.english, source)
        for block in self.reading:
            X = block(X, lens)
        return X

    def decoder(self, so_far, X, lens):  # (B, T), (B, S, D), (B,) -> (B, T, words)
        Y = embed(self.french, so_far)
        for block in self.writing:
            Y = block(Y, X, lens)
        return self.dense(Y)

    def forward(self, source, so_far, lens):
        return self.decoder(so_far, self.encoder(source, lens), lens)


# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Read `OurTranslator` aloud: it is the picture. Ask where the words meet each other:
# in the attentions of the blocks, and nowhere else.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Trained numbers for your parts
#
# So far its numbers are random. Now each part takes over those of its trained counterpart, which
# works only if all names and shapes agree:

# %% slideshow={"slide_type": "skip"}
ours = OurTranslator(len(src_vocab), len(tgt_vocab)).eval()
parts = [ours.english, ours.french, *ours.reading, *ours.writing, ours.dense]
read, wrote = trained.encoder, trained.decoder
counterparts = [read.embedding, wrote.embedding, *read.blks, *wrote.blks, wrote.dense]
for part, counterpart in zip(parts, counterparts, strict=True):
    part.load_state_dict(counterpart.state_dict())
print({name: sum(p.numel() for p in part.parameters()) for name, part in ours.named_children()})

# %% [markdown] slideshow={"slide_type": "skip"}
# These are 240,442 parameters, 165,888 of them in the blocks. Where your functions passed their
# checks, the folded cell now swaps them in for ours.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Puts your functions into the translator, where they were right
replace = {
    "FFN": lambda: setattr(PlainFFN, "forward", lambda f, X: your_ffn(X, f.dense1, f.dense2)),
    "weights": lambda: globals().update(weights_of=your_weights),
    "encoder block": lambda: setattr(PlainEncoderBlock, "forward", your_forward),
    "cross-attention": lambda: setattr(PlainDecoderBlock, "forward", with_your_cross),
}


def your_forward(block, X, lens):
    parts = block.attention, block.ffn, block.addnorm1, block.addnorm2
    return your_block(X, real_keys(lens, X.shape[1]), *parts)


def with_your_cross(block, X, english, lens):
    X = block.addnorm1(X, block.attention1(X, X, X, X.new_ones(2 * X.shape[1:2]).tril().bool()))
    real = real_keys(lens, english.shape[1])
    X = your_cross(X, english, real, block.attention2, block.addnorm2)
    return block.addnorm3(X, block.ffn(X))


for part, verdict in verdicts.items():
    if verdict.startswith("Right"):
        replace[part]()
    print(f"{part:16}", "yours" if verdict.startswith("Right") else "the page's")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The loop that writes
#
# To write a sentence, the translator chooses the best next word, appends it, and begins again,
# which is called **greedy search**. (**Beam search** keeps several unfinished sentences at once.)

# %% [markdown] slideshow={"slide_type": "skip"}
# Write one round of this loop. `ours.decoder(so_far, X, lens)` takes the French so far as a tensor
# (1, T) and gives the scores (1, T, 442), of which only the last row decides. Stop after the end
# mark, `tgt_vocab[EOS]`.


# %% slideshow={"slide_type": "-"}
def your_loop(X, lens):  # the English vectors (1, S, 64), (1,) -> the numbers of the French words
    said = [tgt_vocab[BOS]]
    for _ in range(30):  # at most 30 words; three or four lines
        ...
    return said


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Lets your loop write the first two sentences, and compares
def numbered(words):  # (1, S) and (1,)
    return torch.tensor([src_vocab[[*words, EOS]]]), torch.tensor([len(words) + 1])


for noun in ("cake", "orange"):
    words = f"the old doctor took the good {noun} and ate it".split()
    ids, length = numbered(words)
    with torch.no_grad():
        said = tgt_vocab.to_tokens(your_loop(ours.encoder(ids, length), length))[1:]
    right = said == [*translate(trained, [words], src_vocab, tgt_vocab)[0], EOS]
    print(*said or ["Your loop writes nothing yet."], "(as it should be)" if right else "")

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Let the room say the missing lines, and ask which of them does work that an earlier
# step has done already.

# %% [markdown] slideshow={"slide_type": "skip"}
# Ours takes the sentence as words:


# %% slideshow={"slide_type": "skip"}
def write_one(model, words):  # a list of English words -> a list of French words
    source, lens = torch.tensor([src_vocab[[*words, EOS]]]), torch.tensor([len(words) + 1])
    X, said = model.encoder(source, lens), [tgt_vocab[BOS]]
    while said[-1] != tgt_vocab[EOS] and len(said) <= 30:
        scores = model.decoder(torch.tensor([said]), X, lens)  # (1, T, 442)
        said.append(scores[0, -1].argmax().item())
    return tgt_vocab.to_tokens(said[1:])


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Translates 100 test sentences with our translator and with the package's, and compares
corpus = load("grammar")
some = [pair.source for pair in corpus.test[:100]]
written = [[word for word in write_one(ours, words) if word != EOS] for words in some]
theirs = translate(trained, some, src_vocab, tgt_vocab)
print(*some[0], "->", *written[0])
print("100 new sentences, the same as the package's, word for word:", written == theirs)
assert written == theirs

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Training: a loss at every position
#
# Where do the numbers come from? In training, the decoder reads the true French, whatever it would
# have written itself (**teacher forcing**), and at each word it should predict the next one:
#
# | read | `<bos>` | *il* | *la* | *voit* |
# |---|---|---|---|---|
# | predict | *il* | *la* | *voit* | `<eos>` |
#
# The answer already stands in the input, one place to the right, but the mask hides it. So one pass
# gives a loss at every position, which is minus the logarithm of the true word's probability. If
# all 442 words were equally likely, each loss would be $\ln 442 \approx 6.1$.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what the loss would be without the mask in training: small as well, because the
# answer can be copied. Then ask for the loss if all words are equally likely.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From random numbers to 'mangée'
#
# Now let us train a new translator from these parts, in half a minute. Each of the 500 steps draws
# 64 of chapter 5's 8,000 pairs of sentences and takes one gradient step on the mean loss per French
# word. The **learning rate** falls to 0. Now and then the model translates our first sentence.
# After which step is *orange* feminine?

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
torch.manual_seed(0)
young, corpus = OurTranslator(len(src_vocab), len(tgt_vocab)), load("grammar")
optimizer = torch.optim.Adam(young.parameters())
orange = "the old doctor took the good orange and ate it".split()
for step in range(500):
    optimizer.param_groups[0]["lr"] = 0.006 * (1 - step / 500)
    batch = make_batch([corpus.train[i] for i in torch.randint(8000, (64,))], src_vocab, tgt_vocab)
    scores = young(batch.src, batch.tgt_in, batch.src_lens)  # (B, T, 442)
    loss = F.cross_entropy(scores.mT, batch.tgt_out, ignore_index=tgt_vocab[PAD])  # a mean
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step + 1 in (1, 50, 100, 200, 500):
        print(f"{step + 1:3}  {loss:.2f} ", *write_one(young, orange)[:13])

# %% [markdown] slideshow={"slide_type": "skip"}
# In the run stored here, *orange* is masculine at step 100 and feminine at step 200. The two *ont*
# are plural there, and wrong; at step 500 all is right.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan: the cell takes about half a minute. Ask for the loss before the first step, and
# which word will be right last.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A cache for keys and values
#
# Which work does the loop repeat? For each new word it reads all French words again, although
# earlier steps have already computed the keys and values of all but the newest. They have not
# changed, because the mask lets no word see a later one. So a layer can keep them in a **key-value
# cache**. The earlier queries are not needed again, since their answers have been computed. For 24
# words a layer then computes 24 keys, where the loop computes $1 + 2 + \dots + 24 = 300$. In the
# cross-attention, keys and values come from the English, which never changes, so they are computed
# once for all steps.

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
layer, X, cache, answers = ours.writing[0].attention1, torch.randn(1, 24, 64), None, []
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
# Now watch our whole translator write *il la voit* with a cache in each block. Each step computes
# one French key and value, and a row of weights over the French and one over the English, here of
# head 4 in the last block:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Steps through the sentence with a cache, and draws head 4 of the last block
says = ["il", "la", "voit", EOS]
caches, on_french, on_english = [None, None], [], []
with torch.no_grad():
    read = ours.encoder(source, torch.tensor([4]))  # (1, 4, 64), once for all steps
    # for each block the keys and values (1, 4, 4, 16) of the English, once as well
    theirs = [block.attention2.pairs(read, read) for block in ours.writing]
    for t, word in enumerate([BOS, *says[:3]]):
        X = embed(ours.french, torch.tensor([[tgt_vocab[word]]]), offset=t)
        for i, block in enumerate(ours.writing):
            Y, caches[i] = attend_with_cache(block.attention1, X, caches[i])
            X = block.addnorm1(X, Y)
            looks = block.attention2
            queries = looks.split(looks.W_q(X))  # (1, 4, 1, 16)
            X = block.addnorm2(X, looks.attend(queries, *theirs[i], torch.ones(4).bool()))
            X = block.addnorm3(X, block.ffn(X))
        on_french.append(block.attention1.attention_weights[0, 3])  # (1, t + 1)
        on_english.append(block.attention2.attention_weights[0, 3])  # (1, 4)
        assert tgt_vocab.to_tokens([ours.dense(X).argmax()]) == [says[t]]
assert caches[1][0].shape == (1, 4, 4, 16)  # four words, four heads

FRENCH, ENGLISH, W, ROWS = 2.1, 7.4, 1.2, 4.4


def keys_and_values(x, words, kept):
    """Columns for the words, of which so many have been kept."""
    cells = grid([words], x, 1, "head", width=W)
    for y, kind in ((2, "key"), (3, "value")):
        if kept:
            cells += grid("kept", x, y, "ghost", width=kept * W)
        if new := len(words) - kept:
            cells += grid([["new"] * new], x + kept * W, y, kind, width=W)
    return cells


def step(t):
    words = [BOS, *says[:t]]
    cells = grid("self-attention", FRENCH, 0, "head", width=4 * W)
    cells += grid("cross-attention", ENGLISH, 0, "head", width=4 * W)
    cells += grid("next word", ENGLISH + 4 * W + 0.2, 0, "head", width=2 * W)
    cells += keys_and_values(FRENCH, words, kept=t)
    cells += keys_and_values(ENGLISH, english, kept=4 if t else 0)
    cells += grid([["keys"], ["values"]], 0, 2, "label", width=FRENCH)
    for i, word in enumerate(words):
        here = dict(y=ROWS + i, width=W)
        cells += grid(on_french[i], FRENCH, kind="weight", label=word, **here)
        cells += grid(on_english[i], ENGLISH, kind="weight", **here)
        cells += grid(says[i], ENGLISH + 4.5 * W + 0.2, kind="output", **here)
    return cells


texts = {
    "<bos> is read, 'il' is written": "The English keys and values are computed once, here.",
    "'il' is read, 'la' is written": "Key and value of <bos> are kept, and those of 'il' are new.",
    "'la' is read, 'voit' is written": "One French column and one row of weights are new.",
    "'voit' is read, <eos> is written": "The rows have filled a triangle: a causal map.",
}
drawn = [step(t) for t in range(4)]
Player([State(*text, cells) for text, cells in zip(texts.items(), drawn, strict=True)])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: four steps. Each adds a French column, whose key and value are new, a row of weights over
# the French so far, in the self-attention, and one over the English, in the cross-attention. The
# English keys and values are new in the first step and kept afterwards. Written are 'il', 'la',
# 'voit' and the end mark.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Before each step, ask what is computed anew: one column of keys and values, and one
# row of weights. Ask what the encoder does meanwhile: nothing.

# %% [markdown] slideshow={"slide_type": "skip"}
# The price of the cache is memory, because each layer keeps two vectors per token (chapter 9). The
# code of the whole decoder with its caches is in *Going further*.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which path carries the gender?
#
# Now we can return to the bet on our first sentence. Two rules of French matter here. The pronoun
# *l'* is short for *le* or *la*, so it hides the gender of its noun. And a participle takes an *e*
# if the object before it is feminine: *l'a mangée*, if *l'* is an orange. We give our translator
# the whole sentence but its last French word:

# %% slideshow={"slide_type": "skip"}
english, french = [*orange, EOS], [BOS, *"le vieux médecin a pris la bonne orange et l' a".split()]
source, so_far = torch.tensor([src_vocab[english]]), torch.tensor([tgt_vocab[french]])
lens = torch.tensor([len(english)])

# %% [markdown] slideshow={"slide_type": "-"}
# Does *it* look at *orange*? Here are the weights that each English word gives to *orange*, in head
# 4 of the self-attention in the encoder's second block:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Prints the weight that each word gives to 'orange' in one head
ours.encoder(source, lens)
onto_orange = ours.reading[1].attention.attention_weights[0, 3, :, 6]  # head 4, all queries, key 6
print(*(f"{word:>6}" for word in english))
print(*(f"{weight:6.2f}" for weight in onto_orange))
assert onto_orange[9] > 0.95

# %% [markdown] slideshow={"slide_type": "-"}
# It does: *it*, the second *the* and *good* give *orange* nearly all their weight. But such a map
# shows only where a head looks. To find out whether the ending depends on this look, we **mask it
# out**: until its hook is removed, `forbid` hides these keys from these queries.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Let the room find the column of 'it'.


# %% slideshow={"slide_type": "skip"}
def forbid(layer, queries, keys):  # positions, or slices of them
    def hide(layer, inputs):  # PyTorch calls it before each `forward`, with what that gets
        X, Y, values, visible = inputs  # queries come from X, keys from Y
        allowed = torch.ones(X.shape[1], Y.shape[1]).bool()
        allowed[queries, keys] = False
        return X, Y, values, visible & allowed

    return layer.register_forward_pre_hook(hide)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The look of 'it' at 'orange'
#
# **Predict.** *It* is word 9 and *orange* word 6. In both blocks of the encoder and in all heads,
# we forbid *it* to look at *orange*. What does the translator write at the end: *mangée*, *mangé*
# or something else?


# %% slideshow={"slide_type": "fragment"}
hooks = [forbid(block.attention, queries=9, keys=6) for block in ours.reading]
best = ours(source, so_far, lens)[0, -1].argmax()  # the word after "... et l' a"
for hook in hooks:
    hook.remove()  # the look is allowed again
print("... et l' a", *tgt_vocab.to_tokens([best]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The last *e* does not need this look: the translator still writes *mangée*. So the gender must
# have arrived by another path.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Does the same for any number of cuts
def last_scores(*cuts):  # each cut: layers, queries, keys
    hooks = [forbid(layer, *where) for layers, *where in cuts for layer in layers]
    with torch.no_grad():
        found = ours.decoder(so_far, ours.encoder(source, lens), lens)[0, -1]
    for hook in hooks:
        hook.remove()
    return found


def last_word(*cuts):
    return tgt_vocab.to_tokens([last_scores(*cuts).argmax()])[0]


# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes with the vote. Most say 'mangé'. Let those who say 'mangée' name the path by which
# the gender arrives then. Keep their paths on the board.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three paths
#
# The last word is computed from the vector of *a*, the French word before it. Three short paths
# lead from the noun phrase to this vector:
#
# 1. *And*, *ate* and *it* look at *the good orange*, and the French looks at them.
# 2. *Et*, *l'* and *a* look at the French phrase, *la bonne orange*.
# 3. *Et*, *l'* and *a* look at the English phrase, *the good orange*.
#
# Each path begins in one of the three attentions, where `forbid` can close it. To close path 1, for
# example, it hides *the good orange* from all English words after it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Ask which of these looks we have hidden before: that of 'it' at 'orange'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Close the gates
#
# Close one gate after the other, and watch the last letter. An arrow runs from the phrase that is
# looked at to a word that looks. (How *et* and *l'* pass the gender on to *a* is not drawn.) The
# title gives the winner's lead in logits: a lead of 1 makes it $e \approx 2.7$ times as likely as
# the other ending.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the three paths on the sentence, and closes those whose gates are shut
among_english = [block.attention for block in ours.reading]
among_french = [block.attention1 for block in ours.writing]
from_french = [block.attention2 for block in ours.writing]
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
assert all((ending == "mangé") == (shut[0] and shut[1]) for shut, ending in endings.items())
assert set(endings.values()) == {"mangée", "mangé"}
assert all(abs(leads[*two, True] - leads[*two, False]) < 0.3 for *two, third in leads if third)
assert last_word(PATHS[1], (among_english, slice(9, 10), slice(6, 7))) == "mangé"


def draw_paths(figure, close_1=False, close_2=False, close_3=False):
    ax, shut = figure.subplots(), (close_1, close_2, close_3)
    ax.set(xlim=(3.3, 13.2), ylim=(-1.3, 3.1))
    ax.axis("off")
    rows = ((english[:-1], 2, 0.33, (4, 5, 6)), (french, 0, -0.33, (6, 7, 8)))
    for words, y, below, phrase in rows:
        corner = phrase[0] - 0.6, min(y, y + below) - 0.22
        frame = dict(fill=False, edgecolor=FAINT, lw=1.2)
        ax.add_patch(plt.Rectangle(corner, 3.2, 0.77, **frame))
        for i, word in list(enumerate(words))[phrase[0] :]:
            bold = "bold" if i in phrase else "normal"
            ax.text(i, y, word, ha="center", va="center", fontsize=13, weight=bold)
            ax.text(i, y + below, i, ha="center", va="center", fontsize=12, color=FAINT)
    ax.text(12.3, 0, endings[shut], ha="center", va="center", fontsize=16, weight="bold")
    closed = " and ".join(f"path {i + 1}" for i in range(3) if shut[i])
    state = f"Without {closed}" if closed else "With all paths"
    ax.set_title(f"{state}: {endings[shut]} leads by {abs(leads[shut]):.1f}", fontsize=16)
    arrow = dict(arrowstyle="-|>", shrinkA=12, shrinkB=12)
    arcs = ((5.5, 2.5, (7, 8, 9), 2.3, -0.3), (7.5, -0.5, (9, 10, 11), -0.3, 0.3))
    arcs += ((6.1, 1.85, (9, 10, 11), 0.05, 0),)
    gates = ((7.5, 2.85), (9.5, -0.85), (7.75, 1.16))
    for i, (x, y, ends, below, bend) in enumerate(arcs):
        now = dict(color=CUT, ls=":") if shut[i] else dict(color=WEIGHT, ls="-")
        bent = dict(connectionstyle=f"arc3,rad={bend}", lw=1.6)
        for end in ends:
            ax.annotate("", (end, below), (x, y), arrowprops=arrow | now | bent)
        label, paper, ink = ("✗ closed", CUT, GROUND) if shut[i] else ("path", GROUND, INK)
        gate = dict(boxstyle="round", fc=paper, ec=FAINT)
        ax.text(*gates[i], f"{label} {i + 1}", ha="center", va="center", bbox=gate, color=ink)
    for x in (7, 8, 9):
        ax.annotate("", (11.15, 0.1), (x, 2), arrowprops=arrow | dict(color=GREY, ls="--", lw=1.2))
    ax.text(10.25, 1.05, "path 1 goes on", color=FAINT, fontsize=12)


alt = "The English sentence above the French one, with three paths from the noun to the last word."
explore(draw_paths, figsize=(7.2, 3.1), alt=alt, close_1=False, close_2=False, close_3=False)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive drawing of the end of both sentences. Path 1 leads from 'the good orange'
# to the later English words, and on to the French 'a'; path 2 from 'la bonne orange' to the later
# French words; path 3 from 'the good orange' to the later French words. With one gate closed, the
# last word stays 'mangée'. With gates 1 and 2 closed it is 'mangé', and with all three as well.*

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. The room names the gates to close. Ask how the gender comes to the end when 'it'
# cannot look at the noun: by one of the paths on the board.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Closing any single path leaves *mangée*. The *e* disappears only when gates 1 and 2 are both
# closed. How much of path 1 must be closed for that? Here are eight cuts side by side, also of the
# look of *it* at *orange*, which is a part of path 1:

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Prints the last word and the lead of 'mangée' for eight cuts
the_look = (among_english, slice(9, 10), slice(6, 7))
eight = {
    "nothing": (),
    "the look of 'it' at 'orange'": (the_look,),
    "path 1": PATHS[:1],
    "path 2": PATHS[1:2],
    "path 2 and the look of 'it'": (PATHS[1], the_look),
    "paths 1 and 2": PATHS[:2],
    "path 3": PATHS[2:],
    "all three paths": PATHS,
}
print(f"{'masked out':30} last word   lead of mangée")
for name, cuts in eight.items():
    two = last_scores(*cuts)[tgt_vocab[["mangée", "mangé"]]]
    print(f"{name:30} {last_word(*cuts):12}{two[0] - two[1]:12.1f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Without the look of *it*, the gender still came through: by path 2, and by what is left of path 1.
# When path 2 is closed as well, *mangé* is ahead, by a hair. And path 3, the most direct one,
# hardly matters in this sentence, whether the others are open or closed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What a map does not show
#
# One sentence is only an example. So let us count the right endings in 49 new sentences that end as
# this one does:
#
# | masked out | right endings of 49 |
# |---|---|
# | nothing | 49 |
# | the look of the pronoun at the noun | 49 |
# | paths 1 and 2 | 26 |
# | all three paths | 25 |
# | *for comparison: a guess that is always feminine* | 26 |
#
# In these sentences, the translator can do without the look of the pronoun at the noun. But without
# paths 1 and 2 it is no better than a guess that is always feminine (and knows whether the ending
# is singular or plural). A strong cell in a map shows where a head looks. It does not show that the
# translation depends on this look. (*Going further* has the counts for five other translators.)

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Compare the table with the paths on the board. Ask what the last row is for: it is
# what a guess without any look achieves.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Each token's vector travels along a residual stream. Attention adds information from other
#   tokens, a feed-forward network works on the token itself, and layer norm keeps the size.
# - In training, one pass gives the loss at all positions, because the mask hides each answer. In
#   writing, a layer with a cache computes $n$ keys instead of $n(n+1)/2$.
# - In our sentences the gender of *it* takes several paths, and the look of *it* at the noun does
#   not decide by itself. To find out what a translation depends on, mask out looks, one by one and
#   together.
#
# Next, chapter 9 asks which word has to see which, and what it costs.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the box in which a token meets others, and for what would break without each
# of the other boxes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# They end *Going further*; 8.1, 8.3 and 8.4 need only what you have read. `check` says what is
# right or wrong, and `hint("8.3")` and `solution("8.3")` help.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Read these sections in any order; *Two bugs* and the small GPT build on the first.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One step with the cache
#
# *10 minutes.* The whole decoder keeps a cache for each block, and the English keys and values, as
# in the view above. It reads one word per step, whose position is `offset`.


# %% slideshow={"slide_type": "skip"} tags=["build"]
class WithCache:
    def __init__(self, model):
        self.model, self.encoder = model, model.encoder  # the same parameters

    def embed(self, said):  # (B, t) -> (B, 1, D): the newest word at its position
        return embed(self.model.french, said[:, -1:], offset=said.shape[1] - 1)

    def decoder(self, said, X, lens):  # (B, t), (B, S, D), (B,) -> (B, 1, words)
        blocks = self.model.writing
        if said.shape[1] == 1:  # a new sentence begins
            self.caches = [None] * len(blocks)
            self.english = [block.attention2.pairs(X, X) for block in blocks]
        Y, real = self.embed(said), real_keys(lens, X.shape[1])
        for i, block in enumerate(blocks):
            answer, self.caches[i] = attend_with_cache(block.attention1, Y, self.caches[i])
            Y = block.addnorm1(Y, answer)
            queries = block.attention2.split(block.attention2.W_q(Y))
            Y = block.addnorm2(Y, block.attention2.attend(queries, *self.english[i], real))
            Y = block.addnorm3(Y, block.ffn(Y))
        return self.model.dense(Y)


# %% [markdown] slideshow={"slide_type": "skip"}
# For many sentences at once, the loop goes on until all have ended:


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
cached, bos, eos = WithCache(ours), tgt_vocab[BOS], tgt_vocab[EOS]
test = make_batch(corpus.test[:100], src_vocab, tgt_vocab)
ways = [write(each, test.src, test.src_lens, bos, eos, 30) for each in (ours, cached)]
print("100 translations, equal word for word:", torch.equal(*ways))
W_k, counts = ours.writing[0].attention1.W_k, []  # counts: new keys of each step
hook = W_k.register_forward_hook(lambda layer, X, output: counts.append(output.shape[1]))
for length in (64, 256):
    for name, each in {"without": ours, "with": cached}.items():
        counts.clear()
        write(each, test.src[:1], test.src_lens[:1], bos, eos=-1, max_len=length)  # -1: no end
        print(f"{length:3} words {name:7} a cache: {sum(counts):6,} keys")
hook.remove()
assert torch.equal(*ways)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two bugs that training does not show
#
# *9 minutes.* In training, the answer stands in the input, one place to the right, and only the
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


class ForgetsTheOffset(WithCache):
    def embed(self, said):
        return embed(self.model.french, said[:, -1:])


leaky = copy.deepcopy(ours)
for block in leaky.writing:
    block.attention1.__class__ = MasksOnlyInTraining  # the same numbers, another forward

# %% slideshow={"slide_type": "skip"}
few, valid = (make_batch(corpus.valid[:n], src_vocab, tgt_vocab) for n in (3, 100))
for name, model in {"right": ours, "leaky": leaky}.items():
    seen = sees_the_future(model.train(), few), sees_the_future(model.eval(), few)
    with torch.no_grad():
        scores = model(valid.src, valid.tgt_in, valid.src_lens)
    loss = sequence_loss(scores, valid.tgt_out, valid.tgt_lens)
    print(f"{name}: loss {loss:.2f}; sees the future in train() {seen[0]}, in eval() {seen[1]}")
    assert seen == (False, name == "leaky") and (loss > 1) == (name == "leaky")
print("lost position:", *write_one(ForgetsTheOffset(ours), orange)[:14])

# %% [markdown] slideshow={"slide_type": "skip"}
# The leak worsens the loss, probably because the model never learned what to do with a future. The
# lost position spoils only what is written with the cache. The loss misses it, because a model that
# reads the whole sentence at once gives every word its position.

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Let them fill in a table of two rows and two columns on the board. Most say that the
# leak lowers the loss, 'because it cheats'. That is the other bug: no mask in training either. Then
# the model learns to copy the next word and cannot write. Ask for one test that catches both bugs
# here: the whole sentence at once against word by word, same scores.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the residual stream says
#
# *1 minute.* Only the vectors after the last block are meant for *linear*. But the earlier ones
# have the same size, so we can ask which French word this matrix would choose after *il la* if it
# read them. The last column counts how often the choice is right at all positions of 500 new
# sentences.


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Applies the final matrix to the residual stream before, between and after the decoder's blocks
def stream(source, so_far, lens):
    X, found = ours.encoder(source, lens), [embed(ours.french, so_far)]
    for block in ours.writing:
        found.append(block(found[-1], X, lens))
    return [ours.dense(Y) for Y in found]


words, before = ["he", "sees", "her", EOS], [BOS, "il", "la", "voit"]
short, said = torch.tensor([src_vocab[words]]), torch.tensor([tgt_vocab[before]])
batch = make_batch(corpus.test[:500], src_vocab, tgt_vocab)
real = torch.arange(batch.tgt_in.shape[1]) < batch.tgt_lens[:, None]
with torch.no_grad():
    one = stream(short, said, torch.tensor([4]))
    many = stream(batch.src, batch.tgt_in, batch.src_lens)
print(f"{'after il la':18} word       probability   right in 500 sentences")
found = []
for point, row, scores in zip(
    ("before the blocks", "after block 1", "after block 2"), one, many, strict=True
):
    chances, right = row[0, 2].softmax(dim=-1), scores.argmax(dim=-1) == batch.tgt_out
    found.append(*tgt_vocab.to_tokens([chances.argmax()]))
    print(f"{point:18} {found[-1]:10} {chances.max():11.2f} {right[real].float().mean():24.1%}")
assert found == ["nouvelle", "lit", "voit"]

# %% [markdown] slideshow={"slide_type": "skip"}
# Before the blocks the choice is *nouvelle*, 'new', and after block 1 *lit*, 'reads': a verb, but
# the wrong one, with little confidence. The right verb comes only in block 2, whose
# cross-attention looks at *sees*. Most words of the 500 sentences are decided there as well. (The
# stream may hold more after block 1, in a form that this matrix does not read.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan: half a minute while you answer a question. Ask why the first line cannot be
# right: no word has looked at the English yet.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The same cuts in other translators
#
# *1 minute.* Does another training give the same paths? Five other translators, which were trained
# for a shorter time and on 8,000 pairs instead of 68,000, translate the same 49 sentences
# (`python -m tests.benchmarks.blocked_looks` trains them and counts):
#
# | masked out | ours | five others |
# |---|---|---|
# | nothing | 49 | 45 to 48 |
# | the look of the pronoun at the noun | 49 | 42 to 48 |
# | all three paths | 25 | 22 to 32 |
#
# Here too the look by itself seldom decides. Gender can also take longer detours: in one of ten
# further translators, 47 endings stayed right with all three paths closed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your sentence, your cuts
#
# *2 minutes.* The stored translator works in this page. Write a sentence, see who looks at whom,
# and mask out a look: its weight becomes 0, the softmax gives its share to the other words, and the
# sentence is translated again. Careful: in this view a French row has the name of the word that it
# chooses. The row *voit* was *la* above.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows the stored translator; for yours: TranslatorView(model, src_vocab, tgt_vocab)
TranslatorView("transformer", sentence="he sees her", title="Write a sentence, forbid a look")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view. A text field with an English sentence, its translation, buttons with
# cuts to try, small maps of four heads, and one of them large, with lines between the words. A
# click on a cell forbids that look, and the sentence is translated again.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan. Two minutes. Take a sentence from the room, or click the two buttons that hide
# 'fille' and 'la' in 'The girl that I see is old', and vote on the ending first. The view needs no
# kernel.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Pre-norm or post-norm?
#
# *6 minutes.* Our blocks are post-norm, $\mathrm{norm}(X + f(X))$. **Pre-norm** is
# $X + f(\mathrm{norm}(X))$. Xiong et al. (2020) report that it trains at larger learning rates
# and without warm-up, the small rates at the beginning. Which order learns at which
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
# report says. It is not the better model for that: after 400 steps with the seeds 0 and 1, both
# orders were best at 0.012, and equally good there.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask for a guess at 0.03 before the table. It is no proof: one start of a small
# model. And a larger rate that is borne is not yet a better model.

# %% [markdown] slideshow={"slide_type": "skip"}
# In exchange, pre-norm needs one more layer norm after the last block, because its sum grows from
# block to block. Exercise 8.4 writes both orders.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Without the cross-attention: a small GPT
#
# *7 minutes.* What does the decoder write without the English? Its block without `attention2` is
# the encoder's block with a causal mask. Two of them learn to predict the next French word:


# %% slideshow={"slide_type": "-"}
class GPTBlock(PlainEncoderBlock):
    def forward(self, X):  # (B, T, D) -> (B, T, D)
        past = X.new_ones(X.shape[1], X.shape[1]).tril().bool()
        X = self.addnorm1(X, self.attention(X, X, X, past))
        return self.addnorm2(X, self.ffn(X))


class SmallGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.french, self.dense = nn.Embedding(len(tgt_vocab), 64), nn.Linear(64, len(tgt_vocab))
        nn.init.normal_(self.french.weight, std=1 / math.sqrt(64))
        self.blocks = nn.Sequential(*(GPTBlock(64, 128, 4, 0.0) for _ in range(2)))

    def forward(self, english, french, lens):  # `train` gives the English too; it is not read
        return self.dense(self.blocks(embed(self.french, french)))


torch.manual_seed(0)
gpt = SmallGPT()
run = train(gpt, corpus.train, src_vocab, tgt_vocab, steps=300, lr=0.006, seed=0)

# %% [markdown] slideshow={"slide_type": "skip"}
# To let it write, we draw each word with its probability, because the best one would always give
# the same sentence.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
for _ in range(5):
    said = torch.tensor([[bos]])
    while said.shape[1] < 20 and said[0, -1] != eos:
        chances = gpt(None, said, None)[0, -1].softmax(dim=-1)
        said = torch.cat([said, chances.multinomial(1)[None]], dim=1)
    print(*tgt_vocab.to_tokens(said[0, 1:]))

# %% [markdown] slideshow={"slide_type": "skip"}
# In the run stored here, most words fit their neighbours, but words further apart may not, such as
# *la bonne actrice* and the plural *mangent*. And no English says what should be written.
#
# The first GPT (2018) had the same kind of block, but 12 of them, 768 numbers per token, and
# thousands of books to learn from. A third family, such as BERT (2018), has encoder blocks only and
# is trained to fill in hidden words.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan. Two minutes. Ask which family a chat model belongs to, and which one you would
# take to sort e-mails.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.1** · by hand
#
# Two tokens of four numbers, $(-4, -1, 0, 3)$ and $(4, 1, 2, 5)$, go through a sublayer that
# squares each number, $f(x) = x^2$, with a residual connection and a layer norm (scale 1, shift 0).
# What becomes of the first token in post-norm, and what in pre-norm? Give two lists of four
# numbers, post-norm first; two decimals are enough.

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
# **8.3** · complete a function
#
# A batch of source sentences (B, `num_src`) and target sentences (B, `num_tgt`), padded behind,
# with lengths (B,) of 1 or more. Return three boolean masks, True = may attend, each broadcastable
# to (B, Q, K): of the encoder's self-attention, of the decoder's self-attention, and of the
# decoder's attention to the source. What a padding query sees does not matter: nobody reads its
# output.

# %% [markdown] slideshow={"slide_type": "skip"}
# **8.4** · complete a function
#
# Write a decoder block in both orders, post-norm and pre-norm. It has three sublayers: `attention1`
# among the tokens X (B, T, D), `attention2` from them to `sources` (B, S, D), the encoder's output,
# and `ffn`. Return what comes out of the last one, (B, T, D).
#
# - An attention is called as `attention1(queries, keys, values)`; its mask is inside.
# - `norms` is a list of three layer norms, one per sublayer. `dropout` is a function: apply it to
#   the output Y of each sublayer, `dropout(Y)`.
# - If `pre_norm` is False, the order is $\mathrm{norm}(X + f(X))$, else $X + f(\mathrm{norm}(X))$.

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
#   The form of the residual connection.
# - J. L. Ba, J. R. Kiros, G. E. Hinton, *Layer Normalization*, 2016, arXiv:1607.06450.
# - R. Xiong et al., *On Layer Normalization in the Transformer Architecture*, ICML 2020,
#   arXiv:2002.04745. Post-norm and pre-norm, warm-up, the last norm.
# - J. Devlin et al., *BERT*, NAACL 2019, arXiv:1810.04805; A. Radford et al., *Improving Language
#   Understanding by Generative Pre-Training*, OpenAI 2018. The families' examples.
