# %% [markdown] slideshow={"slide_type": "slide"}
# # 5 · Bahdanau attention
#
# **You will**
# - measure a translator that passes each sentence on as a single vector;
# - let a decoder look back at the sentence at each step, and measure whether this helps more than
#   a wider vector would;
# - write this attention yourself;
# - compare the attention weights with the true links between the words.
#
# Core path: 60 to 90 minutes, in two sittings. Going further: 25. Exercises: 73. Training takes
# about a minute in all.
#
# Builds on chapters 1, 3 and 4. *Dive into Deep Learning* (D2L) treats the subject in section 11.4,
# with 10.5 to 10.8.

# %% [markdown] slideshow={"slide_type": "notes"}
# 32 minutes: 3½ for the question and the sentences, 9 for the translator with one vector, 9½ for
# looking back, 3½ for what attention is worth, 2 for the decoder's code, 4½ for where it looks and
# the summary. *Teacher forcing* is not in the plan: show it while somebody asks a question. Run the
# notebook before the lecture, because it trains.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy
from dataclasses import replace

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import attention_pooling
from d2l_attention.data import BOS, EOS, Vocab, link_matrix, load, make_batch
from d2l_attention.exercises import check, hint, solution
from d2l_attention.models.decoding import beam_search, greedy_decode
from d2l_attention.training import MODELS, train
from d2l_attention.training.evaluation import align, evaluate, translate
from d2l_attention.training.metrics import (
    IBMModel1,
    align_diagonally,
    alignment_error_rate,
    bleu,
)
from d2l_attention.views import AttentionView, Player, State, TranslatorView, grid, schematic
from d2l_attention.views.palette import GREY, GROUND, INK, RULE
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention averages** (chapters 1 and 3). A softmax turns the scores of a query with the keys,
#   for example $\ln 3$ and $0$, into weights, $3/4$ and $1/4$. The answer is the average of the
#   values with these weights: $3/4 \cdot (8, 0) + 1/4 \cdot (0, 4) = (6, 1)$.
# - **The additive score** (chapter 3) of a query $q$ and a key $k$ is one number,
#   $w_v^\top \tanh(W_q q + W_k k)$, with learned $W_q$, $W_k$ and $w_v$.
# - **Padding** (chapter 4) gets weight 0, because before the softmax its score is replaced by a
#   very negative number.
# - **A recurrent network** reads a sequence word by word. It keeps a vector, its **state**, and
#   computes a new state from the old one and the word's embedding, a learned vector. Ours is a
#   **GRU**, which learns how much of the old state to keep.
# - **Cross-entropy** is $-\log p$ of the right word.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A sentence in one vector
#
# Read this sentence once, cover it with your hand, and write it down.
#
# *The king of the island writes them because he loves these white churches.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Do the covering for real: five seconds, then press B, and the screen is black. Expect 'the king of
# the island' from many, followed by guesses that are grammatical. The model without attention makes
# a similar mistake, as we shall see. Two minutes.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The translators of 2014 (Cho et al., Sutskever et al.) had the same task. One network, the
# **encoder**, read the sentence word by word into a single vector. From this vector another
# network, the **decoder**, wrote the translation, without seeing the sentence again.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Let this vector have 96 numbers, whether the sentence has 3 words or 16. To find out whether they
# are enough, we need sentences, a translator and a measure.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Sentences and their translations
#
# Our sentences come from a small grammar, which writes English sentences together with their French
# translations. It uses few words, but translating them takes more than looking them up:
#
# | English | French | |
# |---|---|---|
# | the good oranges | les **bonnes** oranges | the adjective agrees with its noun |
# | these white churches | ces églises **blanches** | it may come after the noun |
# | she does not eat | elle **ne** mange **pas** | two words enclose the verb |
# | she reads them | elle **les** lit | *les* comes before the verb |

# %% slideshow={"slide_type": "skip"}
corpus = load("grammar")
# A vocabulary gives each word a number.
src_vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
tgt_vocab = Vocab((pair.target for pair in corpus.train), min_freq=2)
print(len(corpus.train), "sentences to train,", len(corpus.test), "others to test")

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Ask who speaks French, and let that student explain the second and the last row.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A translator with one vector
#
# The **encoder** is a GRU that reads the English sentence twice: with 48 units from left to right,
# and with 48 others from right to left. At each position $j$ we put the states of both directions
# end to end (**concatenate** them), and call these 96 numbers $h_j$. The last state from left to
# right is at the end of the sentence, that from right to left at its beginning. These two,
# concatenated, are the **summary** of the sentence.
#
# The **decoder** is another GRU, which starts from the summary and writes one French word per step.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for a sentence of 100 tokens: 9,600 numbers, and still 96 passed on. Draw it as a funnel, and
# leave the funnel on the board. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Word by word, without attention
#
# Follow 'she reads them' through both networks. Each box of the encoder is a state, and names the
# words that this state has read. (`<bos>` tells the decoder to begin, and `<eos>` ends a sentence.
# The `<eos>` of the English sentence is left out here.)

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Steps through encoder and decoder, word by word
english, french = "she reads them".split(), "elle les lit <eos>".split()
held = ["she", "she reads", "all three"], ["all three", "reads them", "them"]


def box(text, x, y, kind, name, origin="", *, done=True, width=1.3, arrow=""):
    """A box that comes from ``origin`` in the drawing before; dashed until it is done."""
    size = {"width": width, "height": 0.6}
    cells = grid(text, x, y, kind, name=name, origin=origin, **size)
    at = x - 0.4 if arrow == "→" else x + width
    cells = cells if done else grid("", x, y, "ghost", **size)
    return cells + (grid(arrow, at, y, "head", width=0.4, height=0.6) if arrow else [])


def labels(texts):
    """Texts at the left, by their row."""
    return sum((grid(text, 0, y, "label", width=2, height=0.6) for y, text in texts.items()), [])


def decoder(steps, given, query=None):
    """The decoder after so many steps, each with ``given``; below 0 it has not begun."""
    if steps < 0:
        return []
    cells = labels({5: "reads", 6: "state", 7: "writes"})
    for i in range(5):
        x, done, before = 2 + 1.7 * i, i <= steps, f"s{i - 1}"
        kind, arrow = "query" if i == query else "plain", "→" if i else ""
        origin = before if i else "onward 2"
        cells += box(f"s{'₀₁₂₃₄'[i]}", x, 6, kind, f"s{i}", origin, done=done, arrow=arrow)
        cells += given(i, x, done)
        if i:
            read, source = ["<bos>", *french][i - 1], f"written {i - 1}" if i > 1 else ""
            cells += box(read, x, 5, "plain", f"read {i}", source, done=done)
            cells += box(french[i - 1], x, 7, "output", f"written {i}", before, done=done)
    return cells


def one_vector(step):
    """The whole machine at step 1 to 9, of which three read and one reads backwards."""
    cells = labels({1: "reads →", 2: "reads ←", 4: "summary"})
    for j in range(3):
        x, origin, arrows = 2 + 2.8 * j, f"onward {j - 1}", ("→" * (j > 0), "←" * (j < 2))
        done, size = step > j, {"width": 2.4}
        cells += grid(english[j], x, 0, "head", height=0.6, **size)
        origin = origin if j else ""
        cells += box(
            held[0][j], x, 1, "plain", f"onward {j}", origin, done=done, arrow=arrows[0], **size
        )
        cells += box(held[1][j], x, 2, "plain", f"back {j}", done=step > 3, arrow=arrows[1], **size)

    def summary(i, x, done):
        origin = "summary0" if i else "onward 2"
        return box("all", x, 4, "plain", f"summary{i}", origin, done=done)

    return cells + decoder(step - 5, summary)


texts = {
    "The encoder reads 'she'": "A state is a vector. The boxes say which words a state has read.",
    "It reads 'reads'": "The new state is computed from this word and the state before.",
    "It reads 'them'": "The last state has read all three words.",
    "A second GRU reads from right to left": "The two states below a word make up its h.",
    "The last states of both are the summary": "The decoder starts from it: the summary is s₀.",
    "The decoder reads <bos> and writes 'elle'": "From s₀, the summary and <bos> it computes s₁.",
    "It reads 'elle' and writes 'les'": "It reads its own word, and gets the same summary.",
    "It reads 'les' and writes 'lit'": "No step sees the states that the encoder had on the way.",
    "It reads 'lit' and writes <eos>": "All that it got of the English is the summary.",
}
Player([State(*text, one_vector(i)) for i, text in enumerate(texts.items(), start=1)])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: nine steps. The encoder reads 'she', 'reads' and 'them' from left to right, and then from
# right to left. The last states of both directions are the summary, the decoder's first state. With
# the same summary at each step, the decoder reads `<bos>`, elle, les and lit, and writes elle, les,
# lit and `<eos>`.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Before each step of the decoder, ask what it reads now.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One step with one vector
#
# We count English positions by $j$ and French words by $i$. To write word $i$, the decoder reads
# the embedding of the word before, $y_{i-1}$, and the summary once more:
#
# $$s_i = \mathrm{GRU}\big([\text{summary},\, y_{i-1}],\; s_{i-1}\big)$$
#
# A linear layer turns $s_i$ into a logit for each French word. A sentence of 14 tokens has 14
# encoder states, 1,344 numbers in all, but the decoder gets only the 96 of the summary.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Leave the formula on the board: only the summary in it will change.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Teacher forcing
#
# In training, the previous word is always the *true* one, whatever the decoder would have written
# itself. This is **teacher forcing**. (`<pad>` fills up short sentences.)

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows what the decoder reads and what it must write in the first test sentence
batch = make_batch(corpus.test[:3], src_vocab, tgt_vocab)
print("reads     ", *tgt_vocab.to_tokens(batch.tgt_in[0, :9]))
print("must write", *tgt_vocab.to_tokens(batch.tgt_out[0, :9]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The word that the decoder must write in one step is the word that it reads in the next.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; one minute. Ask what the decoder would read after a mistake of its own.

# %% [markdown] slideshow={"slide_type": "skip"}
# `MODELS` holds the package's translators by name, and `train` takes 500 steps of 64 sentences. The
# loss is the cross-entropy of the words that must be written, without the padding. (*Going further*
# builds encoder, loss, training step and translation in plain code.)


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
def trained(name, num_hiddens=96, steps=500, seed=0):
    torch.manual_seed(seed)
    model = MODELS[name](len(src_vocab), len(tgt_vocab), num_hiddens)
    train(model, corpus.train, src_vocab, tgt_vocab, steps=steps, seed=seed)
    return model


without = trained("seq2seq")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Greedy decoding
#
# In use the decoder can only read its own words. **Greedy decoding** takes the most likely word at
# each step and reads it in the next, up to `<eos>`:

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Translates the first three test sentences
few = corpus.test[:3]
written = translate(without, [pair.source for pair in few], src_vocab, tgt_vocab)
for pair, words in zip(few, written, strict=True):
    print("English", *pair.source)
    print(" writes", *words)
    print("   true", *pair.target, "\n")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The two short sentences are right, but the long one, which you covered, begins well and then
# becomes another sentence.

# %% [markdown] slideshow={"slide_type": "notes"}
# First ask what would be different in training: what the next step reads. Then: 'Does this model
# know French?' It writes tolerable French, and has lost the English sentence. Fluent is one thing,
# faithful is another: machine translation has told the two apart for decades. Three minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### BLEU by length
#
# Is length to blame? As the measure we take **BLEU** (Papineni et al., 2002), which compares the
# words, pairs, triples and quadruples of a translation with those of a reference. A perfect match
# has 100. (*Going further* computes an example.)


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures BLEU on the test sentences of 3 to 5, 6 to 8, 9 to 11 and 12 to 16 English words
def bleu_by_length(model, pairs=corpus.test):
    written = translate(model, [pair.source for pair in pairs], src_vocab, tgt_vocab)
    found = {}
    for low, high in ((3, 5), (6, 8), (9, 11), (12, 16)):
        kept = [i for i, pair in enumerate(pairs) if low <= len(pair.source) <= high]
        references = [[pairs[i].target] for i in kept]  # each sentence has a list of them
        found[f"{low} to {high}"] = bleu([written[i] for i in kept], references)
    return found


for words, value in bleu_by_length(without).items():
    print(f"{words + ' words':15s} BLEU {value:.0f}")
shortest, *_, longest = bleu_by_length(without).values()
assert longest < 25 < 60 < shortest

# %% [markdown] slideshow={"slide_type": "fragment"}
# The longer the sentence, the worse the translation. Since its 96 numbers have to hold everything,
# our first suspect is the summary.

# %% [markdown] slideshow={"slide_type": "notes"}
# Before the numbers: 'how much does it lose from 3 words to 16?' Then ask who is to blame: too
# little training, the decoder, or the vector? So far nobody can know. Two minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Look back at every step
#
# The encoder made a state at *every* position, but the decoder got only the summary. Bahdanau, Cho
# and Bengio (2015) keep all these states, and before each step let the decoder choose what it needs
# from them. In the words of chapter 1:
#
# - the **query** is the decoder's state before the step, $s_{i-1}$;
# - the **keys** and the **values** are the encoder's states $h_j$;
# - the **weights** $\alpha_{ij}$ are the softmax, over $j$, of additive scores;
# - the **answer** is a **context vector** $c_i$ for this step only.
#
# $$\alpha_{ij} = \mathrm{softmax}_j\big(w_v^\top \tanh(W_q s_{i-1} + W_k h_j)\big), \qquad
# c_i = \sum_j \alpha_{ij}\, h_j$$
#
# $$s_i = \mathrm{GRU}\big([c_i,\, y_{i-1}],\; s_{i-1}\big)$$
#
# In the GRU one thing has changed: $c_i$ has taken the place of the summary, which is now only the
# first state, $s_0$. (D2L writes $t'$ for $i$ and $t$ for $j$.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cross the funnel on the board out, and draw an arrow from every state to the decoder.

# %% [markdown] slideshow={"slide_type": "skip"}
# We train such a translator on the same sentences, for the same 500 steps:

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
with_attention = trained("bahdanau")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Word by word, with attention
#
# The trained decoder writes *elle les lit* for 'she reads them'. The third step is a clean example.
# For *lit*, nearly all the weight is on 'reads', $\alpha_{32} \approx 1$. So the context $c_3$ is
# nearly $h_2$, the state at 'reads', and from it the GRU can write *lit*.
#
# **Predict.** Which English word gets most of the weight for *elle*, and which for *les*?

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Steps through the trained decoder with attention, word by word
source = [*english, "<eos>"]
to_read = torch.tensor([tgt_vocab[["<bos>", *french[:3]]]])  # (1, 4)
read = torch.tensor([src_vocab[source]]), to_read, torch.tensor([4])
weights = with_attention(*read, need_weights=True)[1][0].detach()  # (4, 4): French, English


def with_context(step):
    """The same machine after so many French words; the state before the last step is a query."""
    columns = {"width": 2.05, "height": 0.6}
    cells = labels({1: "states", 2: "weights", 4: "context"})
    cells += grid(source, 2, 0, "head", **columns)
    cells += grid([f"h{n}" for n in "₁₂₃₄"], 2, 1, "key", name="h", **columns)
    if step:
        given = {"name": f"weights {step}", "origin": f"s{step - 1}"}
        cells += grid(weights[step - 1], 2, 2, "weight", **columns, **given)

    def context(i, x, done):
        return box(f"c{'₀₁₂₃₄'[i]}", x, 4, "output", f"c{i}", "h", done=done) if i else []

    return cells + decoder(step, context, query=step - 1)


most = [source[j] for j in weights.argmax(dim=-1)]
texts = {"The encoder keeps all its states": "They are the keys and the values of every step."}
for i, word in enumerate(french):
    title = f"For '{word}', most of the weight is on '{most[i]}'"
    texts[title] = (
        f"The query is s{'₀₁₂₃'[i]}, and the weighted average of the states is c{'₁₂₃₄'[i]}."
    )
Player([State(*text, with_context(i)) for i, text in enumerate(texts.items())])

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: five steps. The encoder keeps its four states. For 'elle' most of the weight is on
# 'reads', for 'les' on 'them', for 'lit' on 'reads' and for `<eos>` on `<eos>`. Each time the query
# is the decoder's state before the step.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# As one expects, *les* looks mostly at 'them'. For *elle* one expects 'she', but most of the weight
# is on 'reads'. As the encoder has read 'she' before 'reads', the state at 'reads' can carry it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room vote before each step. The surprise is the first: 'reads' for *elle*.
# (In 19 of 20 random initialisations *elle* looks at 'reads' or at 'them', and in one at 'she'.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One step of the decoder
#
# Here is one step with its shapes, first without attention:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in one step of the decoder without attention
schematic("one-vector decoder")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: one step of the decoder without attention. The GRU takes the state before the step,
# (B, D), the summary, (B, D), which is the same at each step, and the embedding of the previous
# word. It makes the state after the step, (B, D), from which a linear layer makes the logits, the
# 'scores of words'. B is the number of sentences, D the number of units, here 96.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Remember the lower left corner: only what feeds the GRU from here will change.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The same step with attention
#
# Where the summary was, there is now a path from the query to the context:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws who feeds what in one step of the decoder
schematic("Bahdanau decoder")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: one step of the decoder. The state before the step, (B, D), goes to the GRU, and as the
# query (B, 1, D) to a learned additive score. The encoder states (B, K, D) are the keys there. The
# scores (B, 1, K) go through a masked softmax. The weights (B, 1, K) are multiplied by the encoder
# states again, now as values (B, K, D). This gives the context (B, D). The GRU takes the context,
# the embedding of the previous word and the state, and makes the state after the step, (B, D). From
# that state a linear layer makes the logits, which the picture calls scores of words.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Here B is the number of sentences in the batch, K the number of English positions, whose states
# are the keys, and D the width of a state. The axis of size 1 is that of the step's only query; our
# code below leaves it out.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. A finger on each arrow, from the state before the step to the state after it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two steps by hand
#
# How does a query choose? Suppose that 'white churches' is to become *églises blanches*, and that
# the encoder's states are $h_1 = (6, 0)$ at 'white' and $h_2 = (0, 6)$ at 'churches'. Let training
# have found $w_v = (1, 1)$ and
# $W_k = \tfrac16 \begin{pmatrix} 1 & -1 \\ -1 & 1 \end{pmatrix}$, so that
# $W_k h_1 = (1, -1)$ and $W_k h_2 = (-1, 1)$. At the first step 'churches' should win. For this the
# query silences the first number of the keys, with $W_q s_0 = (5, 0)$:
#
# | | $W_q s_0 + W_k h_j$ | its tanh | score, $w_v^\top$ times that |
# |---|---|---|---|
# | white | $(6, -1)$ | $(1.00, -0.76)$ | $0.24$ |
# | churches | $(4, 1)$ | $(1.00, 0.76)$ | $1.76$ |
#
# The weights are 0.18 and 0.82, so the context is $0.18\, h_1 + 0.82\, h_2 = (1.1, 4.9)$.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The query's 5 pushes the first number of both words to where **tanh** is flat: 6 and 4 both become
# 1.00. So only the second number still tells the words apart. In this way a query chooses which
# numbers of a key count, while $w_v$ says how much each of them counts, and with which sign.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Do the row of 'white' on the board: the sum, the tanh, the score. Ask which of its two
# numbers would be the same for every word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The second step by hand
#
# **Predict.** At the second step the query gives $W_q s_1 = (0, 5)$. What is the context now? And
# what would the four scores of the two steps be without the tanh?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes both steps, and the scores without the tanh
h = torch.tensor([[6.0, 0.0], [0.0, 6.0]])  # (K, D): white, churches
keys = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])  # W_k h
queries = torch.tensor([[5.0, 0.0], [0.0, 5.0]])  # (Q, D): W_q s of both steps
sums = queries[:, None] + keys  # (Q, K, D)
contexts, shares = attention_pooling(torch.tanh(sums).sum(dim=-1), h)
for i in range(2):
    (white, churches), (x, y) = shares[i].tolist(), contexts[i].tolist()
    print(f"step {i + 1}: white {white:.2f}, churches {churches:.2f}, context ({x:.1f}, {y:.1f})")
print("scores without tanh:", sums.sum(dim=-1).tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same two states were queried twice and gave two answers, while the summary is the same at
# every step. Without the tanh all four scores are 5: a query then adds the same number to the score
# of each word, so it chooses nothing.

# %% [markdown] slideshow={"slide_type": "notes"}
# On paper, in pairs: the two numbers change their roles. A slip to expect: scores taken for
# weights. Ask what weights must add up to. Then, before the next slide: 'why is the newest state
# not the query?' Wait until somebody says 'that is circular'. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which state is the query?
#
# The GRU computes the new state $s_i$ from the context $c_i$. So $s_i$ cannot be the query that
# finds this context, and the older state, $s_{i-1}$, asks instead. It may have predicted the
# previous word, $y_{i-1}$, but has not read it: the GRU reads this word only now, together with the
# context. Luong et al. (2015) turn the order round: first the GRU steps, then its new state is the
# query, and the context goes on to the logits.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. For Luong et al., bend the arrow of the context on the board from the GRU's input to
# its output.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## BLEU with and without attention
#
# Does looking back help? Both models have 96 units in each layer, and the same sentences and steps,
# but only the second has $W_q$, $W_k$ and $w_v$.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
models = {"one vector": without, "with attention": with_attention}
results = {name: evaluate(m, corpus.test, src_vocab, tgt_vocab) for name, m in models.items()}
print({name: round(found.bleu, 1) for name, found in results.items()})

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws BLEU against the length of the sentence, for both models
figure, ax = plt.subplots(figsize=(8, 4.2))
for model, style, label in (
    (with_attention, {"marker": "o", "color": INK}, "with attention"),
    (without, {"marker": "s", "linestyle": "--", "color": GREY}, "one vector"),
):
    found = bleu_by_length(model)
    ax.plot(list(found), list(found.values()), label=label, **style)
ax.set(xlabel="English words", ylabel="BLEU", ylim=(0, 100))
ax.set_title("With attention, long sentences lose less")
ax.legend()
plt.show()
first, *_, last = bleu_by_length(with_attention).values()
assert last > 80 and first - last < 15

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: BLEU against the length of the English sentence. With attention the line falls from about
# 96 for 3 to 5 words to about 88 for 12 to 16. Without, it falls from about 72 to about 18.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room sketch the second line before it appears.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The covered sentence again
#
# One vector lost the sentence that you covered. Here is what attention makes of it:

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Translates the sentence, and draws where the decoder looks
covered = list(corpus.test[1].source)
(kept,) = translate(with_attention, [covered], src_vocab, tgt_vocab)
print("writes", *kept)
print("  true", *corpus.test[1].target)
to_read = torch.tensor([tgt_vocab[["<bos>", *kept[:-1]]]])
read = torch.tensor([src_vocab[[*covered, "<eos>"]]]), to_read, torch.tensor([len(covered) + 1])
_, looks = with_attention(*read, need_weights=True)  # (1, Q, K)
figure, ax = plt.subplots(figsize=(7.6, 6.8))
sides = "French", "English"
heatmap(ax, looks[0, :, :-1].detach(), kept, covered, vmax=1.0, sides=sides)  # without <eos>
ax.set_title("'les' looks ahead, 'blanches' looks back")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the weights as a map, with a row for each French word and a column for each English one.
# Strong cells run from the upper left to the lower right, and leave this line where French has
# another order: 'les' is written before 'écrit' and looks at 'them', 'blanches' comes last and
# looks at 'white'.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# The translation is right, down to the white churches. In the map, *les* looks ahead to 'them', and
# *blanches*, after its noun, back to 'white'. (Why *le* looks at 'king' is a later question.)

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Let the room find *les écrit* and *églises blanches* in the map.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Would a wider vector do?
#
# On the long sentences, attention is worth some 70 BLEU here. But perhaps one vector only needs
# more numbers, or more training. So we doubled every layer of the one-vector model to 192 units,
# left attention at 96, and trained both twice as long, for 1,000 steps.
#
# **Predict.** How well does the wide vector write long sentences that it was trained on? How well
# does it write long sentences that are new?

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Collect votes, in two columns: trained on, and new.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Width, steps and data
#
# BLEU on sentences of 12 to 16 words, first with our 8,000 sentences and then with 68,000 (means of
# three random initialisations; lines: lowest to highest):

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws BLEU of two models on new and on known long sentences: lowest, mean, highest.
# Seeds 0 to 2, for example bleu_by_length(trained("seq2seq", 192, 1000, seed)). "Trained on" are
# long ones of the first 2,000 sentences. The 68,000 are grammar.corpus(69_000) of
# d2l_attention.data, without those held out; their 4,000 steps had the learning rate 0.005.
kinds = {
    "new": {"color": INK, "marker": "o"},
    "trained on": {"color": INK, "marker": "s", "markerfacecolor": GROUND},
}
measured = {
    "8,000 sentences, 1,000 steps": {
        "one vector of 192": ((34, 35, 37), (100, 100, 100)),
        "attention of 96": ((93, 94, 95), (98, 99, 99)),
    },
    "68,000 sentences, 4,000 steps": {
        "one vector of 192": ((80, 82, 84), (98, 98, 98)),
        "attention of 96": ((99, 100, 100), (100, 100, 100)),
    },
}
figure, axes = plt.subplots(2, figsize=(8.8, 4.6), sharex=True)
for ax, (training, models_of) in zip(axes, measured.items(), strict=True):
    for i, (kind, look) in enumerate(kinds.items()):
        low, mean, high = torch.tensor(list(models_of.values()))[:, i].T  # one for each model
        y = torch.arange(len(models_of)) + 0.36 * i
        ax.hlines(y, low, high, color=look["color"], linewidth=2)
        ax.plot(mean, y, linestyle="", markersize=9, label=kind, **look)
        for x, value, height in zip(low, mean, y, strict=True):
            ax.text(x - 1.5, height, value.item(), ha="right", va="center", fontsize=14)
    ax.set_yticks(range(len(models_of)), list(models_of), fontsize=14)
    ax.set(xlim=(0, 103), ylim=(len(models_of) - 0.35, -0.4))
    ax.set_title(training, fontsize=14, loc="left")
    ax.grid(axis="y", color=RULE, linewidth=0.6)
axes[1].set_xlabel("BLEU, 12 to 16 words")
figure.suptitle(
    "Trained alike, attention writes new sentences better at half the width", fontsize=16
)
figure.legend(
    *axes[0].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=2,
    frameon=False,
    fontsize=14,
    handletextpad=0,
)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: means of BLEU on long sentences, new and trained on. With 8,000 sentences and 1,000
# steps, one vector of 192 has 35 and 100, attention of 96 has 94 and 99. With 68,000 and 4,000,
# one vector has 82 and 98, attention 100 and 100. Three initialisations differ by at most 4.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The wide vector has learned its long training sentences by heart, with a BLEU of 100, but new ones
# reach only 35. With more sentences and more steps, one vector reaches 82. So it can come far, but
# each time attention, trained alike at half the width, writes new sentences better.

# %% [markdown] slideshow={"slide_type": "notes"}
# Read the marks from top to bottom. Do not say more than the picture: nobody ran 1,000 units for a
# night. One minute.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# One vector loses the long sentences, and attention, with a context for each step, keeps most of
# them. The second half writes this decoder in code, and asks what its weights show.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The decoder, line by line
#
# In code, a step turns the state before it into weights and a context. Its scores are one for each
# English word, so a translation costs one score for every pair of words.

# %% [markdown] slideshow={"slide_type": "skip"}
# Before you read ours, write this step yourself. `check` says what is right or what went wrong,
# `hint("5.3")` gives one more hint each time, and `solution("5.3")` shows the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.3** · complete a function
#
# Compute the context that the state before the step, `hidden`, obtains from the encoder's `states`.
# The scores are $w_v^\top \tanh(W_q s + W_k h)$, where M may differ from D. Return context and
# weights in the dtype of the inputs. Gradients must reach all inputs but the lengths. The padding
# gets weight 0, for any scores between -10,000 and 10,000.


# %% [markdown] slideshow={"slide_type": "skip"}
# Here is ours, as a layer that holds its own parameters.


# %% slideshow={"slide_type": "-"} tags=["build"]
class PlainAdditiveAttention(nn.Module):
    def __init__(self, num_hiddens, dropout):
        super().__init__()
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=False)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, states, valid_lens):  # (B, D), (B, K, D), (B,)
        sums = self.W_q(query).unsqueeze(1) + self.W_k(states)  # (B, K, D)
        scores = self.w_v(torch.tanh(sums)).squeeze(2)  # (B, K)
        padding = torch.arange(states.shape[1]) >= valid_lens.unsqueeze(1)  # (B, K)
        scores = scores.masked_fill(padding, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=1).masked_fill(padding, 0.0)  # (B, K)
        context = self.dropout(weights).unsqueeze(1) @ states  # (B, 1, K) @ (B, K, D)
        return context.squeeze(1), weights  # (B, D), (B, K)


# %% [markdown] slideshow={"slide_type": "skip"}
# The decoder loops over French words. In training it gets the whole true sentence at once; in use,
# one word per call. A round of the loop is one step $i$, and `carried` is what one call hands to
# the next. E is the size of an embedding, Q the number of French words that are read, N that of all
# French words. (In the paper, the layer that makes the logits also reads the context and the
# previous word.)


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainAttentionDecoder(nn.Module):
    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, dropout=0):
        super().__init__()
        self.attention = PlainAdditiveAttention(num_hiddens, dropout)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size + num_hiddens, num_hiddens, num_layers, dropout=dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def init_state(self, enc_outputs, enc_valid_lens):
        outputs, summary = enc_outputs  # (K, B, D), (1, B, D)
        return [outputs.transpose(0, 1), summary, enc_valid_lens]  # states (B, K, D)

    def forward(self, tokens, carried):  # (B, Q) words to read
        states, s, valid_lens = carried  # (B, K, D), (1, B, D), (B,)
        logits, looks = [], []
        for word in tokens.unbind(dim=1):  # (B,), one step each
            query = s[-1]  # (B, D): the state before the step
            context, weights = self.attention(query, states, valid_lens)
            x = torch.cat([context, self.embedding(word)], dim=1)  # (B, D + E)
            output, s = self.rnn(x.unsqueeze(0), s)  # (1, B, D) twice
            logits.append(self.dense(output[0]))  # (B, N)
            looks.append(weights)  # (B, K)
        self.attention_weights = torch.stack(looks, dim=1)  # (B, Q, K)
        return torch.stack(logits, dim=1), [states, s, valid_lens]


# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cover the comments and ask for the shapes of the sum, the scores and the weights.

# %% [markdown] slideshow={"slide_type": "skip"}
# As `s` has an axis for the GRU's layers, the query is the state of the last one. Does our decoder
# do the same as the one we trained?


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks our decoder, with the parameters of the trained one, against the package's
plain = PlainAttentionDecoder(len(tgt_vocab), 96, 96, num_layers=1)
plain.load_state_dict(with_attention.decoder.state_dict(), strict=True)
with torch.no_grad():
    encoded = with_attention.encoder(batch.src, batch.src_lens)
    logits, _ = plain(batch.tgt_in, plain.init_state(encoded, batch.src_lens))
    expected = with_attention(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
torch.testing.assert_close((logits, plain.attention_weights), expected)
print("checked: with the same parameters, the same logits and the same weights")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Alignment: which word belongs to which?
#
# At first sight, a map of weights says which English word each French word comes from. Does it? Our
# grammar writes both sentences, so it knows the true **alignment links** between their words.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Only the grammar makes this comparison exact.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Attention weights beside the true links
#
# Frames mark the true links. The pale one, from *est* to 'return', is merely possible: *est
# retourné* as a whole is 'did return'. The slider writes the sentence word by word.
#
# **Question.** For *le* the decoder looks at 'boy', and not at 'the'. What does it find there that
# it needs?

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of one sentence beside its true links, step by step
pair = corpus.test[9]
one = make_batch([pair], src_vocab, tgt_vocab)
_, weights = with_attention(one.src, one.tgt_in, one.src_lens, need_weights=True)
weights = weights[0, : len(pair.target), : len(pair.source)].detach()  # (Q, K), without <eos>
rows = torch.tril(torch.ones(len(weights), len(weights)))  # the first, the first two, and so on
AttentionView(
    torch.cat([torch.ones_like(rows[:1]), rows])[:, None, :, None] * weights,
    queries=pair.target,
    keys=pair.source,
    frames=["whole sentence", *(f"writing '{word}'" for word in pair.target)],
    compare=link_matrix(pair),
    compare_label="true links",
    title="Attention against the truth",
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive heat map with a row for each French word and a column for each English
# one, true links framed. Most strong cells are framed. Some are not: 'le' looks at 'boy'
# instead of 'the', 'à' at 'the' instead of 'to', and 'n'' and 'pas' more at 'did' than at 'not'.*

# %% [markdown] slideshow={"slide_type": "skip"}
# At 'boy' it can find out that French needs *le* instead of *la*, *l'* or *les*. And *pas* looks
# mostly at 'did', although 'not' is what it translates. How can that work?

# %% [markdown] slideshow={"slide_type": "notes"}
# The view on the slide is alive without a kernel. Step to 'writing le' and wait. Expect
# 'it makes a mistake'. Say that the word it writes is right, and ask again: what must one know to
# write *le*? Then let them find the other rows that leave their frames. The link
# 'did'–*est* is sure, because French has a helping verb here as well. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A state knows more than its own word
#
# To find out, **mask out** a look: its weight becomes 0, and the others share what it had (chapter
# 4). The map below is of a decoder that was trained for longer, on more sentences. Click a cell to
# mask out this look, or a word to mask out all looks at it.
#
# **Predict.** How does it translate *she does not read these books* without any look at *not*, and
# how without any look at *books*?

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Let the room bet on the French of both.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows a stored translator; for yours: TranslatorView(with_attention, src_vocab, tgt_vocab)
TranslatorView("bahdanau", title="Write a sentence, mask out a look")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view. A text field with an English sentence, its translation, buttons with
# cuts to try, and a map of the French words against the English ones, with lines between the
# words. A click on a cell forbids that look, and the translation is made anew. ('Layer' and 'head'
# in its labels are for later chapters: this translator has one of each.)*

# %% [markdown] slideshow={"slide_type": "skip"}
# Without *not* nothing changes here (in 70 of 129 test sentences *pas* stays): the states of the
# words beside it have read it as well, and may carry it. Hide these neighbours too, and *pas* stays
# in 3 of 127 sentences; hide the words two places away instead, and it stays in 78. Without *books*
# the sentence is about dogs. So a weight says which *state* was used, and a state knows more than
# its own word.
#
# That is why attention need not be alignment. Our decoder writes most test sentences without a
# mistake, although its largest weights, taken as links, are a worse alignment than that of a method
# of 1993 (*The alignment error rate*, in *Going further*).

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. First *not*, then *books*: a weight says which *state* was used, and a state knows
# more than its own word. So attention need not be alignment. The view needs no kernel.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - On new sentences of 12 to 16 words, one vector of 192 numbers reached a BLEU of 35. Attention of
#   96, trained alike, reached 94. With far more sentences and steps it was 82 against 100.
# - Attention queries all encoder states at each step: $c_i = \sum_j \alpha_{ij} h_j$, with additive
#   scores. Keys and values are the encoder's states, and the query is the decoder's state before
#   the step, $s_{i-1}$, which has not read $y_{i-1}$.
# - In training the decoder reads the true words (teacher forcing), in use its own.
# - Where a trained model looks differs from one random initialisation to the next, and need not be
#   at the true link: a state knows more than its own word.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Cover the second item, and let the room say what query, keys and values are.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# `check`, `hint` and `solution` work here as for exercise 5.3 above. Exercises 5.2 and 5.7 follow
# after *Going further*.

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.1** · by hand
#
# The encoder's states are single numbers, and so is the context. The length is 2: $h_3$ is padding.
# The table holds the score of each state $s$ of the decoder, as the query, with each $h$.
#
# | | $h_1 = 4$ | $h_2 = 8$ | $h_3 = 20$ |
# |---|---|---|---|
# | $s_0$ | $\ln 4$ | $0$ | $\ln 2$ |
# | $s_1$ | $0$ | $\ln 3$ | $\ln 4$ |
# | $s_2$ | $\ln 7$ | $0$ | $0$ |
#
# Which context $c_2$ goes into the decoder's second step? Give it as a number.

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.4** · complete a function
#
# Each sentence in `targets` ends with its `<eos>` and then padding, which may be any word's number.
# `lens` counts words and `<eos>`. The first token that the decoder reads is `bos`. Return the mean
# cross-entropy over the real words of the whole batch, `<eos>` included. Gradients must reach the
# decoder.


# %% [markdown] slideshow={"slide_type": "skip"}
# **5.5** · find the bug
#
# `run_decoder` has three bugs. Repair it. `attend(query)` gives the context (B, C) for a query
# (B, H). `step(inputs, state)` is the recurrent cell: its inputs are context and token, (B, C + E)
# in this order, and it gives the new state (B, H). Read the tokens of `embedded` (B, T, E) one
# after the other, and return all new states, (B, T, H). Gradients must reach `embedded` and
# `state`.


# %% [markdown] slideshow={"slide_type": "skip"}
# **5.6** · find the bug
#
# `translate_greedily` gives 99 BLEU on the validation set and an error in use, where `reference` is
# `None`. Repair it. `decoder(token, state)` returns the logits (N,) of the next word and the new
# state; the first token is `bos`. Return the most likely words as a list of numbers, without `bos`
# and `eos`, at most `max_len` of them. `reference` must change nothing.


# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Read these sections in any order.

# %% [markdown] slideshow={"slide_type": "-"}
# ### A measure: BLEU
#
# *1 minute.* Suppose that *la fille mange une pomme rouge* should end in *verte*. Then 5 of 6 words
# are right, 4 of 5 pairs, 3 of 4 triples and 2 of 3 quadruples. BLEU is 100 times their geometric
# mean: $100 \left(\tfrac56 \cdot \tfrac45 \cdot \tfrac34 \cdot \tfrac23\right)^{1/4} = 76$. A
# sequence of words is right if the reference has it, and counts at most as often as there. Over
# many sentences the counts are added up first. Where the translations have $c$ words in all and the
# references have more, $r$, BLEU is multiplied by a **brevity penalty**, $e^{1 - r/c}$.

# %% [markdown] slideshow={"slide_type": "notes"}
# What is the BLEU of the first five words alone? All shares are 1, the penalty is 0.82. One minute.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### One vector, further runs
#
# *1 minute.* With 68,000 sentences but only 1,000 steps, the one vector of 192 reached 56 on new
# long sentences (mean of three). Attention as in the core reached 77 to 89 over 20 initialisations.
# With a far larger network, Sutskever et al. (2014) saw no difficulty on long sentences.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The alignment error rate
#
# *4 minutes.* How often do the weights leave the true links? A model's links $A$ join each French
# word with the English word of the largest weight, never `<eos>`. The true links that an aligner
# should find are **sure**; a few more are **possible**, and it may find them. Let $S$ hold the sure
# links, and $P$ the sure and the possible ones. The **alignment error rate** (Och and Ney, 2003) is
#
# $$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}$$
#
# With two sure links and one possible one, $|S| = 2$ and $|P| = 3$. Suppose a model draws a sure
# link, the possible one and a wrong one. Then one is in $S$ and two are in $P$, so the error rate
# is $1 - \tfrac{1 + 2}{3 + 2} = 0.4$.
#
# Two older methods see the finished French. The **diagonal** links word 3 of 6 to word 4 of 8.
# **IBM model 1** (1993) learns from sentence pairs how likely each English word is to become each
# French word, and ignores their order. Are its links better than our decoder's, or worse?


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Computes the three error rates
def error_rate(links):  # one set of links for each test sentence
    true = [pair.sure for pair in corpus.test], [pair.possible for pair in corpus.test]
    return alignment_error_rate(links, *true)


ibm = IBMModel1([(p.source, p.target) for p in corpus.train], iterations=5)
diagonal = error_rate([align_diagonally(len(p.source), len(p.target)) for p in corpus.test])
model_1 = error_rate([ibm.align(p.source, p.target) for p in corpus.test])
attention = error_rate(align(with_attention, corpus.test, src_vocab, tgt_vocab))
print(f"diagonal {diagonal:.3f}   IBM model 1 {model_1:.3f}   attention {attention:.3f}")
assert model_1 < attention < diagonal

# %% [markdown] slideshow={"slide_type": "skip"}
# Here those of IBM model 1 are better. It can look at the French word that it links, while our
# decoder must choose before it writes this word. But this is not the whole reason: guided (below),
# our decoder makes fewer errors and still chooses before it writes. The order can turn with longer
# training on more sentences: after 5,000 steps on 68,000, one decoder reached 0.089, and IBM model
# 1 on the same sentences 0.097.
#
# Models that translate about equally well look at different words: over 20 random initialisations
# of the core's decoder the error rate lies between 0.12 and 0.23, which is above IBM model 1 each
# time. In 5 of them, *le* of the core's sentence looks at 'the', whose state may know the noun as
# well. On real text, Koehn and Knowles (2017) also found attention that departs from an aligner's
# links.
#
# The core's last map is of this decoder of 5,000 steps. Its counts of *pas* are over the 129
# negated test sentences, and the 127 of them with exactly one *not*.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Guided attention
#
# *5 minutes.* If the alignment matters, train for it: Chen et al. (2016) add a term to the loss
# that compares the attention with the links of an aligner. Ours is close to one of theirs: 0.1
# times the mean, over the French words with a link and `<eos>`, of
#
# $$-\log \sum_{j \text{ linked to } i} \alpha_{ij}$$
#
# This term is 0 where all the weight is on linked words, and large where little of it is. We train
# our model for another 100 steps: without the term, with the term and the true links, and with the
# term and the links that IBM model 1 finds.
#
# **Question.** Will the term raise BLEU or lower it?

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
teacher = IBMModel1([(p.source, p.target) for p in corpus.train], iterations=5)


def linked_by_ibm(pair):
    links = tuple(teacher.align(pair.source, pair.target))
    return replace(pair, sure=links, possible=links)


by_ibm = [linked_by_ibm(pair) for pair in corpus.train]
guides = {"100 steps more": 0.0, "true links": 0.1, "IBM's links": 0.1}
for name, guidance in guides.items():
    models[name] = copy.deepcopy(with_attention)
    pairs = by_ibm if name == "IBM's links" else corpus.train
    options = {"steps": 100, "lr": 0.005, "guidance": guidance, "seed": 1}
    train(models[name], pairs, src_vocab, tgt_vocab, **options)
    results[name] = evaluate(models[name], corpus.test, src_vocab, tgt_vocab)

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Guided or not
#
# *exact* is the share of translations that equal the reference.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Shows the results, and checks that the guided models align better and translate as well
for name in ("with attention", *guides):
    print(f"{name:15s}", results[name])
more, by_true, by_model_1 = (results[name] for name in guides)
assert by_true.alignment_error_rate < by_model_1.alignment_error_rate < model_1
assert model_1 < more.alignment_error_rate
assert max(abs(guided.bleu - more.bleu) for guided in (by_true, by_model_1)) < 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# BLEU differs by less than 2. The error rate hardly changes without the term, but with the true
# links it falls to a quarter. So the model can look at the right words and translate equally well.
# Before, nothing in its loss rewarded that.

# %% [markdown] slideshow={"slide_type": "skip"}
# Over 20 initialisations the true links cut the error rate to between 25% and 55% of that without
# the term, and changed BLEU by -1.7 to 1.4. IBM model 1 never sees a true link, so to compare this
# with its rate would not be fair. But when its links guide our model, the model still makes fewer
# errors than this teacher, in two of two initialisations.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room find two good arguments: BLEU rises, since looking at the right word must help; it
# falls, since the model is no longer free. Three minutes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The whole translator
#
# *11 minutes.* Here are the package's encoder, loss, training step and greedy decoding in plain
# code. `pack_padded_sequence` tells the GRU where each sentence ends, so that its last state from
# left to right is the one before the padding begins.


# %% slideshow={"slide_type": "skip"} tags=["build"]
class PlainEncoder(nn.Module):
    def __init__(self, vocab_size, embed_size, num_hiddens):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size, num_hiddens // 2, bidirectional=True)

    def forward(self, tokens, valid_lens):  # (B, K), (B,)
        embedded = self.embedding(tokens.T)  # (K, B, E)
        packed = nn.utils.rnn.pack_padded_sequence(embedded, valid_lens, enforce_sorted=False)
        outputs, last = self.rnn(packed)  # last (2, B, D / 2): one for each direction
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, total_length=len(embedded))
        summary = torch.cat([last[0], last[1]], dim=1)  # (B, D)
        return outputs, summary.unsqueeze(0)  # (K, B, D), (1, B, D)


def plain_loss(logits, labels, valid_lens):  # (B, Q, N), (B, Q), (B,)
    real = torch.arange(labels.shape[1]) < valid_lens.unsqueeze(1)  # (B, Q)
    return F.cross_entropy(logits[real], labels[real])  # the mean over the real words


# %% [markdown] slideshow={"slide_type": "skip"}
# Six steps of training follow, on three sentences. Gradients of recurrent networks sometimes become
# very large, so they are clipped to a length of at most 1.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
plain_encoder = PlainEncoder(len(src_vocab), 96, 96)
plain_decoder = PlainAttentionDecoder(len(tgt_vocab), 96, 96, num_layers=1)
parameters = [*plain_encoder.parameters(), *plain_decoder.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
three = make_batch(corpus.train[:3], src_vocab, tgt_vocab)
losses = []
for _ in range(6):
    encoded = plain_encoder(three.src, three.src_lens)
    logits, _ = plain_decoder(three.tgt_in, plain_decoder.init_state(encoded, three.src_lens))
    loss = plain_loss(logits, three.tgt_out, three.tgt_lens)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    losses.append(loss.item())
print(*(f"{loss:.1f}" for loss in losses), f"  for {len(tgt_vocab)} French words")

# %% [markdown] slideshow={"slide_type": "skip"}
# The first loss is about that of a guess among 436 French words, $\ln 436 \approx 6.1$.
#
# To translate, the decoder reads its own words, for `max_len` steps:


# %% slideshow={"slide_type": "skip"} tags=["build"]
def plain_translate(encoder, decoder, tokens, lens, bos, max_len):  # tokens (B, K), lens (B,)
    carried = decoder.init_state(encoder(tokens, lens), lens)  # what a step hands to the next
    word = torch.full_like(tokens[:, :1], bos)  # (B, 1): what the decoder reads
    written = []
    for _ in range(max_len):
        logits, carried = decoder(word, carried)  # (B, 1, N), for N French words
        word = logits.argmax(dim=-1)  # (B, 1)
        written.append(word)
    return torch.cat(written, dim=1)  # (B, max_len): up to <eos>, and then anything


# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Checks encoder, loss and translation against the package's, with the same parameters
from d2l_attention.models.encoder_decoder import sequence_loss

plain_encoder.load_state_dict(with_attention.encoder.state_dict(), strict=True)
theirs = with_attention.encoder(batch.src, batch.src_lens)
torch.testing.assert_close(plain_encoder(batch.src, batch.src_lens), theirs)
real = logits.detach(), three.tgt_out, three.tgt_lens
torch.testing.assert_close(plain_loss(*real), sequence_loss(*real))
assert losses[-1] < losses[0] - 1
some = make_batch(corpus.test[:64], src_vocab, tgt_vocab)
given = some.src, some.src_lens, tgt_vocab[BOS], 10 + 2 * some.src.shape[1]
rows = [tgt_vocab.to_tokens(row) for row in plain_translate(plain_encoder, plain, *given)]
rows = [row[: row.index(EOS)] if EOS in row else row for row in rows]
sources = [pair.source for pair in corpus.test[:64]]
assert rows == translate(with_attention, sources, src_vocab, tgt_vocab)
print("checked: states, loss and 64 translations equal the package's; the loss falls")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### New pairs of adjective and noun
#
# *1 minute.* Another part of the corpus, `compositional`, has an adjective and a noun in each
# sentence that were never together in training, though each of them was there.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
for name in ("one vector", "with attention"):
    unseen = evaluate(models[name], corpus.compositional, src_vocab, tgt_vocab).bleu
    lost = results[name].bleu - unseen
    print(f"{name:15s} BLEU {unseen:.0f}, {lost:.0f} less than on the test part")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Over 20 initialisations one vector lost 11 to 16 BLEU, attention 0 to 6.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Beam search
#
# *3 minutes.* Greedy decoding cannot take a word back. **Beam search** keeps several beginnings
# instead of one, here the four best. Long sentences are less likely than short ones, so the sum of
# log-probabilities is divided by $L^{0.75}$ for $L$ tokens. How many of the 500 translations does
# this change?

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
everything = make_batch(corpus.test, src_vocab, tgt_vocab)
given = everything.src, everything.src_lens
ends = {"bos": tgt_vocab[BOS], "eos": tgt_vocab[EOS], "max_len": 40}
for name in ("one vector", "with attention"):
    greedy = greedy_decode(models[name], *given, **ends).sentences()
    beam = beam_search(models[name], *given, beam_size=4, **ends).sentences()
    changed = sum(one != other for one, other in zip(greedy, beam, strict=True))
    written = [tgt_vocab.to_tokens(words) for words in beam]
    value = bleu(written, [[pair.target] for pair in corpus.test])
    print(f"{name:15s} {changed:3d} change, BLEU {results[name].bleu:.1f}, with a beam {value:.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# It changes far more translations of the one-vector model: over 20 initialisations 203 to 250 of
# the 500, against 17 to 61 with attention.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.2** · by hand
#
# 'i do not like cats' is 'je n' aime pas les chats'.
#
# - Sure: i–je, not–n', like–aime, not–pas, cats–chats.
# - Possible as well: do–aime, cats–les.
# - A model finds: i–je, do–n', do–aime, not–pas, cats–les, cats–chats.
#
# Work out the alignment error rate of what it finds, to three decimals.

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.7** · write the test
#
# Your test takes a function that is called like the package's `bleu(hypotheses, references)`. It
# returns without a word where the function is `bleu`. It raises an `AssertionError` for each of six
# others:
#
# - arguments swapped;
# - no penalty for short translations;
# - `<eos>` added as a last word on both sides;
# - characters counted instead of words;
# - the mean of the sentences' scores;
# - the first reference only.


# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - D. Bahdanau, K. Cho, Y. Bengio, *Neural Machine Translation by Jointly Learning to Align and
#   Translate*, ICLR 2015, arXiv:1409.0473. Section 3, figures 2 and 3, appendix A.
# - K. Cho et al., *On the Properties of Neural Machine Translation: Encoder-Decoder Approaches*,
#   SSST-8 2014, arXiv:1409.1259. How one vector loses with length.
# - I. Sutskever, O. Vinyals, Q. V. Le, *Sequence to Sequence Learning with Neural Networks*,
#   NeurIPS 2014, arXiv:1409.3215. Four layers of 1,000 units, 12 million sentences read backwards,
#   and no difficulty with length.
# - M.-T. Luong, H. Pham, C. D. Manning, *Effective Approaches to Attention-based Neural Machine
#   Translation*, EMNLP 2015, arXiv:1508.04025. The new state as the query.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 10.5 to
#   10.8 and 11.4. [d2l.ai](https://d2l.ai)
# - K. Papineni et al., *BLEU: a Method for Automatic Evaluation of Machine Translation*, ACL 2002.
# - F. J. Och, H. Ney, *A Systematic Comparison of Various Statistical Alignment Models*,
#   Computational Linguistics 29(1), 2003. Sure and possible links, the error rate.
# - P. F. Brown et al., *The Mathematics of Statistical Machine Translation: Parameter Estimation*,
#   Computational Linguistics 19(2), 1993. Section 4.1: model 1.
# - W. Chen et al., *Guided Alignment Training for Topic-Aware Neural Machine Translation*, AMTA
#   2016, arXiv:1607.01628. Terms that guide attention.
# - P. Koehn, R. Knowles, *Six Challenges for Neural Machine Translation*, WNMT 2017,
#   arXiv:1706.03872. Section 3.5: attention and word alignment.
# - Sentence pairs of [tatoeba.org](https://tatoeba.org) (CC BY 2.0), from
#   [manythings.org/anki](https://www.manythings.org/anki/), train the same models:
#   `python -m d2l_attention.training --data fra-eng.zip --model bahdanau --out run`.
