# %% [markdown] slideshow={"slide_type": "slide"}
# # 5 · Bahdanau attention
#
# **You will**
# - measure a translator that passes each sentence on as a single vector;
# - let a decoder look back at the sentence at each step, and measure whether this helps more than
#   a wider vector would;
# - write this attention yourself, and watch it translate;
# - compare the attention weights with the true links between the words.
#
# Core path: 60 to 90 minutes, in two sittings. Going further: 30. Exercises: 73. Training takes
# about a minute in all.
#
# Builds on chapters 1, 3 and 4. *Dive into Deep Learning* (D2L) treats the subject in section 11.4,
# with 10.5 to 10.8.

# %% [markdown] slideshow={"slide_type": "notes"}
# 35 minutes: 3½ for the question and the sentences, 8 for the translator with one vector, 7½ for
# looking back, 4 for what attention is worth, 5 for the decoder's code, 7 for where it looks and
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
from d2l_attention.views import AttentionView, TranslatorView, schematic, watch
from d2l_attention.views.palette import GREY, GROUND, INK, RULE
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention averages** (chapters 1 and 3). If a query scores $\ln 3$ with one key and $0$ with
#   another, the softmax turns these scores into the weights $3/4$ and $1/4$. With the values
#   $(8, 0)$ and $(0, 4)$, the answer is $3/4 \cdot (8, 0) + 1/4 \cdot (0, 4) = (6, 1)$.
# - **The additive score** (chapter 3) of a query $q$ and a key $k$ is one number,
#   $w_v^\top \tanh(W_q q + W_k k)$, where $W_q$, $W_k$ and $w_v$ are learned.
# - **Padding** (chapter 4) gets weight 0, because its score is replaced before the softmax.
# - **A recurrent network** reads a sequence word by word and keeps a state: $s_t = f(x_t,
#   s_{t-1})$. Here $x_t$ is the word's embedding, a learned vector, and $f$ is a GRU, whose gates
#   decide how much of the old state to keep.
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
# network, the **decoder**, wrote the translation, without a second look at the sentence.

# %% [markdown] slideshow={"slide_type": "fragment"}
# We start with a vector of 96 numbers, whether the sentence has 3 words or 16. To find out whether
# 96 numbers are enough, we need sentences, a translator and a measure.

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
# The **encoder** is a GRU that reads the English sentence in both directions, with 48 units from
# left to right and with 48 more from right to left. Its state $h_t$ at position $t$ is the states
# of both directions put end to end (**concatenated**), 96 numbers. The last states of the two
# directions, concatenated in the same way, are the **summary** of the sentence.

# %% [markdown] slideshow={"slide_type": "-"}
# The **decoder** is another GRU, whose first state $s_0$ is the summary. While $t$ counts
# English positions, we count French words by $t'$. At step $t'$ the decoder reads the
# previous French word, $y_{t'-1}$, and the summary once more:
#
# $$s_{t'} = \mathrm{GRU}\big([\text{summary},\, y_{t'-1}],\; s_{t'-1}\big)$$
#
# A linear layer turns $s_{t'}$ into a logit for each French word. A sentence of 14 tokens has 14
# encoder states, 1,344 numbers in all, but the decoder gets only the 96 of the summary.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for a sentence of 100 tokens: 9,600 numbers, and still 96 passed on. Draw it as a funnel, and
# leave the funnel on the board. 2½ minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One step with one vector

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
# ### Teacher forcing
#
# At the first step the decoder reads `<bos>` in place of a previous word. A sentence ends with
# `<eos>`, and `<pad>` fills up short ones. In training the previous word is always the *true* one,
# whatever the decoder would have written itself. This is **teacher forcing**:

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
# The two short sentences are right. The long one, the sentence that you covered, begins well and
# then becomes another sentence.

# %% [markdown] slideshow={"slide_type": "notes"}
# First ask what would be different in training: what the next step reads. Then: 'Does this model
# know French?' It writes tolerable French, and has lost the English sentence. Fluent is one thing,
# faithful is another: machine translation has told the two apart for decades. Three minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### BLEU by length
#
# To see what length does, we measure the test sentences in four groups, from short to long. As the
# measure we take **BLEU** (Papineni et al., 2002), which compares the words, pairs, triples and
# quadruples of a translation with those of a reference; where all are the same, it is 100. If *la
# fille mange une pomme rouge* should end in *verte*, BLEU is 76, as *Going further* works out.


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
# The longer the sentence, the worse the translation. Our first suspect is the summary, because its
# 96 numbers have to hold everything.

# %% [markdown] slideshow={"slide_type": "notes"}
# Before the numbers: 'how much does it lose from 3 words to 16?' Then ask who is to blame: too
# little training, the decoder, or the vector? So far nobody can know. Two minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Look back at every step
#
# So far the decoder got only the summary, although the encoder made a state at *every* position.
# Bahdanau, Cho and Bengio (2015) keep all these states. Before each step the decoder asks, so to
# speak, what in the sentence matters for the next word. In the words of chapter 1:
#
# - the **query** is the decoder's state before the step, $s_{t'-1}$;
# - the **keys** and the **values** are the encoder's states $h_t$;
# - the **answer** is a **context vector** $c_{t'}$ for this step only:
#
# $$c_{t'} = \sum_t \alpha_{t',t}\, h_t, \qquad
# s_{t'} = \mathrm{GRU}\big([c_{t'},\, y_{t'-1}],\; s_{t'-1}\big)$$
#
# In the GRU one thing has changed: $c_{t'}$ has taken the place of the summary, which is now only
# the first state, $s_0$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cross the funnel on the board out, and draw an arrow from every state to the decoder.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One step of the decoder
#
# To see who feeds what, follow the arrows of one step:

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
# In the picture, B is the number of sentences in the batch, K the number of English positions,
# whose states are the keys, and D the width of a state. One step has one query, so its axis has
# size 1.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. A finger on each arrow, from the state before the step to the state after it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two steps by hand
#
# The weights are the softmax of additive scores, $w_v^\top \tanh(W_q s_{t'-1} + W_k h_t)$. Suppose
# that 'white churches' is to become *églises blanches*. Let the encoder's states be $h_1 = (6, 0)$
# at 'white' and $h_2 = (0, 6)$ at 'churches', with $W_k h_1 = (1, -1)$, $W_k h_2 = (-1, 1)$ and
# $w_v = (1, 1)$. At the first step the query gives $W_q s_0 = (5, 0)$:
#
# | | $W_q s_0 + W_k h_t$ | its tanh | score, $w_v^\top$ times that |
# |---|---|---|---|
# | white | $(6, -1)$ | $(1.00, -0.76)$ | $0.24$ |
# | churches | $(4, 1)$ | $(1.00, 0.76)$ | $1.76$ |
#
# The weights are 0.18 and 0.82, so the context is $0.18\, h_1 + 0.82\, h_2 = (1.1, 4.9)$.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **tanh** keeps every number between -1 and 1, and it is flat at both ends. The query's 5 pushes
# the first number of both words to where tanh is flat: 6 and 4 both become 1.00. So only the second
# number still tells the words apart. This is how a query chooses which numbers of a key count,
# while $w_v$ says how much each of them counts, and with which sign.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Do the row of 'white' on the board: the sum, the tanh, the score. Ask which of its two
# numbers would be the same for every word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The second step by hand
#
# **Predict.** At the second step the query gives $W_q s_1 = (0, 5)$. What is the context now? And
# what would the four scores of the two steps be without the tanh?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes both steps, draws their weights, and prints the scores without the tanh
h = torch.tensor([[6.0, 0.0], [0.0, 6.0]])  # (K, D): white, churches
keys = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])  # W_k h_t
queries = torch.tensor([[5.0, 0.0], [0.0, 5.0]])  # (Q, D): W_q s of both steps
sums = queries[:, None] + keys  # (Q, K, D)
contexts, weights = attention_pooling(torch.tanh(sums).sum(dim=-1), h)
print("scores without tanh:", sums.sum(dim=-1).tolist())
steps = [f"step {i}, context ({x:.1f}, {y:.1f})" for i, (x, y) in enumerate(contexts.tolist(), 1)]
figure, ax = plt.subplots(figsize=(6.4, 2.4))
heatmap(ax, weights, steps, "white churches".split(), vmax=1.0, numbers=True)
ax.set_title("Two queries get two answers from the same states")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the weights of both steps. At the first step 'white' has 0.18 and 'churches' 0.82, so the
# context is (1.1, 4.9). At the second step the two weights, and the numbers of the context, have
# changed places.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The context is now $(4.9, 1.1)$. The same two states were queried twice and gave two answers,
# while the summary is the same at every step. Without the tanh all four scores are 5: a query then
# adds the same number to the score of each word, so it chooses nothing.

# %% [markdown] slideshow={"slide_type": "notes"}
# On paper, in pairs: the two numbers change their roles. A slip to expect: scores taken for
# weights. Ask what weights must add up to. Then, before the next slide: 'why is the newest state
# not the query?' Wait until somebody says 'that is circular'. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which state is the query?
#
# The GRU computes the new state $s_{t'}$ from the context $c_{t'}$. So $s_{t'}$ cannot be the query
# that finds this context. Instead, the query is the state before, $s_{t'-1}$, which was
# computed before the word $y_{t'-1}$ was read: only the GRU reads this word, together with the
# context. Luong et al. (2015) do query with the new state, because there the context enters
# a step only after the recurrent layers, on the way to the logits.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. For Luong et al., bend the arrow of the context on the board from the GRU's input to
# its output.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## BLEU with and without attention
#
# Both models have 96 units in each layer, and are trained on the same sentences for the same 500
# steps. Only the second can look back, for which it has the extra parameters $W_q$, $W_k$ and
# $w_v$. (Figure 2 of Bahdanau et al., 2015, compares models of unequal sizes in the same way.)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
with_attention = trained("bahdanau")
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
# ### Would a wider vector do?
#
# On the long sentences, attention is worth some 70 BLEU here. But perhaps one vector only needs
# more numbers, or more training. To find out, we doubled every layer of the one-vector model to 192
# units and trained it twice as long, for 1,000 steps.
#
# **Predict.** How well does this model write long sentences that it was trained on? How well does
# it write long sentences that are new?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Collect votes, in three columns: short, long and new, long and trained on.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Width, steps and data
#
# Mean BLEU over three random initialisations (lines: lowest–highest):

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws BLEU of five models on short, long and known sentences: lowest, mean, highest.
# Seeds 0 to 2, for example bleu_by_length(trained("seq2seq", 192, 1000, seed)). "Trained on" are
# long ones of the first 2,000 sentences. The 68,000 are grammar.corpus(69_000) of
# d2l_attention.data, without those held out; their 4,000 steps had the learning rate 0.005.
kinds = {
    "3 to 5 words, new": {"color": GREY, "marker": "^"},
    "12 to 16, new": {"color": INK, "marker": "o"},
    "12 to 16, trained on": {"color": INK, "marker": "s", "markerfacecolor": GROUND},
}
measured = {
    "one vector of 96:\n500 steps, 8,000 sentences": ((72, 75, 78), (17, 19, 21), (25, 26, 27)),
    "one vector of 192:\n1,000 steps, 8,000": ((96, 96, 96), (34, 35, 37), (100, 100, 100)),
    "one vector of 192:\n1,000 steps, 68,000": ((99, 99, 100), (55, 56, 56), (62, 63, 63)),
    "one vector of 192:\n4,000 steps, 68,000": ((100, 100, 100), (80, 82, 84), (98, 98, 98)),
    "attention, 96:\n500 steps, 8,000": ((94, 95, 97), (84, 86, 88), (91, 92, 94)),
}
figure, ax = plt.subplots(figsize=(8.8, 4.2))
for i, (kind, look) in enumerate(kinds.items()):
    low, mean, high = torch.tensor(list(measured.values()))[:, i].T  # (5,) each
    y = torch.arange(5) + 0.25 * (i - 1)
    ax.hlines(y, low, high, color=look["color"], linewidth=2)
    ax.plot(mean, y, linestyle="", markersize=9, label=kind, **look)
    if kind == "12 to 16, new":
        for row in range(5):
            ax.text(low[row] - 1.5, row, mean[row].item(), ha="right", va="center", fontsize=14)
ax.set_yticks(range(5), list(measured), fontsize=14)
ax.set(xlim=(0, 103), ylim=(4.6, -0.6), xlabel="BLEU")
ax.grid(axis="y", color=RULE, linewidth=0.6)
figure.suptitle(
    "Twice as wide, one vector comes close with 8 times the sentences and steps", fontsize=17
)
figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=14, handletextpad=0)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: means of BLEU, short new, long new, and long sentences of training. One vector of 96, 500
# steps, 8,000 sentences: 75, 19, 26. One of 192, 1,000 steps, 8,000: 96, 35, 100; with 68,000
# sentences 99, 56, 63; with 4,000 steps and 68,000 sentences 100, 82, 98. Attention, 96, 500 steps,
# 8,000: 95, 86, 92. Between three initialisations they differ by up to 6.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The wider model has learned its long training sentences by heart, with a BLEU of 100, but new ones
# reach only 35. With 68,000 sentences and still 1,000 steps it reaches 56 on new long ones, and
# with 4,000 steps 82.

# %% [markdown] slideshow={"slide_type": "skip"}
# So one vector can come close. Here it took twice the width and eight times the sentences and the
# steps. Attention reaches 86 without them (over 20 initialisations, 77 to 89). With four layers of
# 1,000 units, 12 million sentences and the source read backwards, Sutskever et al. (2014) even had
# no difficulty on long sentences.

# %% [markdown] slideshow={"slide_type": "notes"}
# Read the three marks from top to bottom. For the short sentences the width is enough. Do not say
# more than the table: nobody ran 1,000 units for a night. With 2,000 steps on the 8,000 sentences
# the wide vector reached 39 on the long new ones, in one run. 1½ minutes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# Our translator with one vector loses the long sentences. Attention gives the decoder a context of
# its own at each step, with the state before the step as the query, and keeps most of them. The
# second half writes this decoder in code and asks what its weights show.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The decoder, line by line
#
# Here the weights are once more the softmax of additive scores, with 0 for the padding:
# $\alpha_{t',t} = \operatorname*{softmax}_t \, w_v^\top \tanh(W_q s_{t'-1} + W_k h_t)$. Each step
# computes one score per English word, so a translation costs one for every pair of words.

# %% [markdown] slideshow={"slide_type": "skip"}
# Before you read ours, write this step yourself: from the state before the step to the context and
# the weights. `check` says what is right or what went wrong, `hint("5.3")` gives one more hint each
# time, and `solution("5.3")` shows the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.3** · complete a function
#
# Compute the context that the state before the step, `hidden` (B, D), obtains from the encoder's
# `states` (B, K, D). The scores are $w_v^\top \tanh(W_q s + W_k h)$. `W_q` and `W_k` are (M, D) and
# `w_v` is (M,), where M may differ from D. Return the context (B, D) and the weights (B, K), in the
# dtype of the inputs. Gradients must reach all inputs but the lengths (B,), which are 1 or more.
# Scores lie between -10,000 and 10,000, also those of the padding, which gets weight 0.


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
        # An empty sentence would get equal weights on its padding; this sets them to 0.
        weights = scores.softmax(dim=1).masked_fill(padding, 0.0)  # (B, K)
        context = self.dropout(weights).unsqueeze(1) @ states  # (B, 1, K) @ (B, K, D)
        return context.squeeze(1), weights  # (B, D), (B, K)


# %% [markdown] slideshow={"slide_type": "skip"}
# The decoder is a loop over the French words that it reads: in training all words of the true
# sentence, in use one word per call. A round of the loop is one step $t'$, and `carried` is what
# one call hands to the next. E is the size of an embedding, N the number of French words. (In the
# paper, the layer that makes the logits also reads the context and the previous word.)


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
# The loop of the decoder is on the next slides, in the view.

# %% [markdown] slideshow={"slide_type": "skip"}
# Here `s` has an axis for the GRU's layers, and the query is the state of the last one. Given the
# parameters of the trained decoder, ours computes the same logits and weights, which the folded
# cell checks.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
plain = PlainAttentionDecoder(len(tgt_vocab), 96, 96, num_layers=1)
plain.load_state_dict(with_attention.decoder.state_dict(), strict=True)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks our decoder against the package's
with torch.no_grad():
    encoded = with_attention.encoder(batch.src, batch.src_lens)
    logits, _ = plain(batch.tgt_in, plain.init_state(encoded, batch.src_lens))
    expected = with_attention(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
torch.testing.assert_close((logits, plain.attention_weights), expected)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Step through a sentence
#
# The trained decoder translates 'she reads them' as *elle les lit*. The weights have four columns,
# she, reads, them and `<eos>`, and the French words have these numbers:

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Prepares the sentence for the decoder, and shows the numbers of the French words
source = torch.tensor([src_vocab["she reads them <eos>".split()]]), torch.tensor([4])
french = "<bos> elle les lit".split()
to_read = torch.tensor([tgt_vocab[french]])  # (B, Q) = (1, 4)
print(dict(zip(french, to_read[0].tolist(), strict=True)))
with torch.no_grad():
    carried = plain.init_state(with_attention.encoder(*source), source[1])
    plain(to_read, carried)
assert plain.attention_weights[0].argmax(dim=-1).tolist()[1:3] == [2, 1]  # them, reads

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** On which English word is most of the weight at each of the first three steps? At
# which of them is it not the word that you would expect?

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Read the question aloud, and let the room guess before the view is on the screen.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The decoder's loop, recorded

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Records the decoder on the sentence, line by line
with torch.no_grad():
    axes = {"weights": "BK", "context": "BD", "query": "BD", "x": "BD"}
    run = watch(plain.forward, to_read, carried, axes=axes, at=5)
run

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive run of the decoder's loop. Left, its lines, of which one is marked; right,
# the names with their shapes and numbers. It opens in the first step, where most of the weight is
# on 'reads'. In the second it is on 'them', in the third on 'reads'.*

# %% [markdown] slideshow={"slide_type": "notes"}
# 2½ minutes. Go through the first step together, then let the room find the second and third. The
# surprise is the first: 'reads' for *elle*. The state at 'reads' can carry 'she'. (In 19 of 20
# random initialisations *elle* looks at 'reads' or at 'them', and in one at 'she'.) Ask in which
# line the word of the step is used first.

# %% [markdown] slideshow={"slide_type": "skip"}
# Most of the weight is on 'reads', then on 'them', then on 'reads'. For *elle* one expects 'she',
# but the encoder has read 'she' before 'reads', so the state at 'reads' can carry it. Notice that
# the word which a step reads enters only at `torch.cat`, after the weights are computed, so it
# cannot influence where this step looks.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Alignment: which word belongs to which?
#
# In real text people may disagree about this, but our grammar knows it, because it writes both
# sentences. It gives the **alignment links** between their words.
#
# **Question.** Which English word has no French word of its own here?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the links of one sentence
pair = corpus.test[2]
figure, ax = plt.subplots(figsize=(6, 4.0))
heatmap(ax, link_matrix(pair), pair.target, pair.source, vmax=1.0)
ax.set(xlabel="English", ylabel="French")
ax.set_title("French does not follow the English order")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a table of six French rows (elle ne les lit pas souvent) and six English columns (she
# does not often read them). Strong cells are sure links, among them 'not' with 'ne' and 'pas', and,
# far from the diagonal, 'them' with 'les'. One pale cell is a possible link: 'does' with 'lit'.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The word is 'does': French needs no helping verb here. The grammar therefore marks its pale link
# to *lit* as merely **possible**, and the strong links as **sure**. An aligner should find the sure
# ones, and may find the possible one.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ten seconds for the question. The answer is 'does', and with it comes the difference between sure
# and possible. 1½ minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Attention weights beside the true links
#
# Each row of weights belongs to one French word, frames mark the true links, pale frames the
# possible ones. As you move the slider, the sentence is written word by word.
#
# **Question.** Where does the decoder look when it writes *le*? What does it find there that it
# needs?

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
# For *le* it looks at 'boy', where it can find out that French needs *le* instead of *la*, *l'* or
# *les*. Because the encoder reads in both directions, the state at 'the' may know the noun as well,
# and in 5 of 20 random initialisations most of the weight is there.

# %% [markdown] slideshow={"slide_type": "notes"}
# The view on the slide is alive without a kernel. Step to 'writing le' and wait. Expect
# 'it makes a mistake'. Say that the word it writes is right, and ask again: what must one know to
# write *le*? Then let them find the other rows that leave their frames. The link
# 'did'–*est* is sure, because French has a helping verb here as well. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Attention need not be alignment
#
# If each French word's largest weight is taken as its link, how good are these links? Their
# **alignment error rate** grows with each wrong link and each sure link that is missing; 0 is
# perfect. As baselines we take two older methods, which see the finished French sentence:
#
# - the **diagonal**: word 3 of 6 belongs to word 4 of 8;
# - **IBM model 1** (1993) learns from sentence pairs how likely each English word is to become each
#   French word, and ignores the order of the words.
#
# **Predict.** Whose links are better, those of our decoder or those of IBM model 1?


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
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

# %% [markdown] slideshow={"slide_type": "fragment"}
# Those of IBM model 1 are better. It sees the French word that it must link, while our decoder must
# choose before this word exists, and before it has read the word before it. And a model that writes
# most test sentences without a mistake often looks elsewhere than at the true link, so attention
# need not be alignment.

# %% [markdown] slideshow={"slide_type": "skip"}
# Models that translate about equally well look at different words: over 20 random initialisations
# the error rate lies between 0.12 and 0.23, each time above that of IBM model 1. On real text,
# Koehn and Knowles (2017) also found attention that departs from an aligner's links.

# %% [markdown] slideshow={"slide_type": "notes"}
# Vote by hands before the numbers. Expect most votes for the network. Then wait: somebody says 'so
# it is broken'. It writes about 80 of 100 test sentences without a mistake. 1½ minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A state knows more than its own word
#
# What does a weight tell us, then? To find out, **mask out** a look: its weight becomes 0, and the
# others share what it had (chapter 4). The map below belongs to a stored decoder that was trained
# for longer: 5,000 steps on 68,000 sentences. Click a cell to mask out this look, or a word to mask
# out all looks at it.
#
# **Predict.** How does it translate *she does not read these books* without any look at *not*, and
# how without any look at *books*?

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Let the room bet on the French of both.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows a stored translator; for yours: TranslatorView(with_attention, src_vocab, tgt_vocab)
TranslatorView("bahdanau", title="Write a sentence, forbid a look")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view. A text field with an English sentence, its translation, buttons with
# cuts to try, and a map of the French words against the English ones, with lines between the
# words. A click on a cell forbids that look, and the translation is made anew. ('Layer' and 'head'
# in its labels are for later chapters: this translator has one of each.)*

# %% [markdown] slideshow={"slide_type": "skip"}
# Without *not* nothing changes here: the states of the words beside it have read it as well, and
# may carry it. Without *books* the sentence is about dogs. So a weight says which *state* was used,
# and a state knows more than its own word.
#
# When *not* is masked out, *pas* survives in about half of the negated test sentences (70 of 129).
# With the neighbours of *not* hidden as well, *pas* almost never survives: in 3 of the 127
# sentences that contain exactly one *not*.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. First *not*, then *books*: a weight says which *state* was used, and a state knows
# more than its own word. The view needs no kernel.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - With one vector of 96 numbers, BLEU fell from 75 for 3 to 5 words to 19 for 12 to 16, where
#   attention reached 86 (means of three initialisations). A vector of 192 reached 82, with eight
#   times the sentences and the steps.
# - Attention queries all encoder states at each step: $c_{t'} = \sum_t \alpha_{t',t} h_t$, with
#   additive scores. Keys and values are the encoder's states, and the query is the decoder's state
#   before the step, $s_{t'-1}$, which has not read $y_{t'-1}$.
# - In training the decoder reads the true words (teacher forcing), in use its own.
# - Where a trained model looks differs from one random initialisation to the next, and need not be
#   at the true link: a state knows more than its own word.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Cover the third item, and let the room say what query, keys and values are.

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
# `targets` (B, T) holds the numbers of the words that the decoder is to say, each sentence with its
# `<eos>` and then padding, which may be any word's number. `lens` (B,) counts words and `<eos>`.
# `decoder(tokens)` takes what it reads, (B, T), and returns logits (B, T, N). The first token that
# it reads is `bos`. Return the mean cross-entropy over the real words of the whole batch, `<eos>`
# included. Gradients must reach the decoder.


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
# Read these sections in any order. Two exercises follow after them.

# %% [markdown] slideshow={"slide_type": "-"}
# ### A measure: BLEU
#
# *1 minute.* BLEU takes a translation's sequences of one, two, three and four words. For each
# length it computes the share that also occurs in the reference, each counted at most as often as
# the reference has it, and then the geometric mean of the four shares.
#
# Suppose that *la fille mange une pomme rouge* should end in *verte*. Then 5 of 6 single words are
# right, 4 of 5 pairs, 3 of 4 triples and 2 of 3 quadruples. The mean is
# $\left(\tfrac56 \cdot \tfrac45 \cdot \tfrac34 \cdot \tfrac23\right)^{1/4} = 0.76$, a BLEU of 76.
# Over many sentences the counts are added up first. Where the translations have $c$ words in all
# and the references have more, $r$, BLEU is multiplied by a **brevity penalty**, $e^{1 - r/c}$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room call out the four shares. Then: what is the BLEU of the first five words alone? All
# shares are 1, the penalty is 0.82. 1½ minutes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The alignment error rate
#
# *1 minute.* A model's links $A$ join each French word with the English word of the largest weight,
# never `<eos>`. Let $S$ hold the sure links, and $P$ the sure and the possible ones. The
# **alignment error rate** (Och and Ney, 2003) is
#
# $$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}$$
#
# If there are two sure links and one possible link, $|S| = 2$ and $|P| = 3$. Suppose a model draws
# three links: a sure one, the possible one and a wrong one. One of them is in $S$, and two are in
# $P$, so the error rate is $1 - \tfrac{1 + 2}{3 + 2} = 0.4$.
#
# More training and more sentences can turn the order of the core: after 5,000 steps on 68,000
# sentences, one decoder reached 0.089, and IBM model 1 on the same sentences 0.097.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Guided attention
#
# *6 minutes.* If the alignment matters, ask for it, as Chen et al. (2016) did. They add a term to
# the loss that compares the attention with the links of an aligner, by a squared error or a
# cross-entropy. Ours is close to the second: 0.1 times the mean, over the French words with a link
# and `<eos>`, of
#
# $$-\log \sum_{t \text{ linked to } t'} \alpha_{t',t}$$
#
# This term is 0 where all the weight is on linked words, and large where little of it is. We train
# our model for another 100 steps: without the term, with the term and the true links, and with the
# term and the links that IBM model 1 finds.
#
# **Question.** Will the term raise BLEU or lower it, compared with 100 steps without it? There is
# an argument for each.

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
# BLEU hardly moves in either direction: it differs by less than 2. The error rate hardly changes
# without the term, but with the true links it falls to a quarter. So the model can look at the
# right words and translate equally well. Before, nothing in its loss rewarded that.

# %% [markdown] slideshow={"slide_type": "skip"}
# Over 20 initialisations the true links cut the error rate to between 25% and 55% of what it was,
# while BLEU was between 1.7 lower and 1.4 higher than without the term. IBM model 1, however, never
# sees a true link. When its links guide our model, the model still makes fewer errors than this
# teacher, in two of two initialisations.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room find two good arguments: BLEU rises, since looking at the right word must help; it
# falls, since the model is no longer free. Three minutes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The whole translator
#
# *12 minutes.* Encoder, loss, training step and greedy decoding were the package's until now, and
# here they are in plain code. The encoder's states are made as in Bahdanau et al. (2015).
# `pack_padded_sequence` tells the GRU where each sentence ends, so that the last state from left to
# right is the one after the last word, before the padding begins.


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
# Six steps of training follow, on three sentences of the training part: forward, loss, backward, a
# step of the optimizer. Gradients of recurrent networks sometimes become very large, so they
# are clipped to a length of at most 1.

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
# The first loss is about that of a guess among 436 French words, $\ln 436 \approx 6.1$. The
# package's `train` is this loop with shuffled batches of sentences of similar length, a learning
# rate that falls to 0, checkpoints and GPUs.
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
# *2 minutes.* A fourth part of the corpus is `compositional`: each of its sentences has an
# adjective and a noun that were never together in training, though each of them was there.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
for name in ("one vector", "with attention"):
    unseen = evaluate(models[name], corpus.compositional, src_vocab, tgt_vocab).bleu
    lost = results[name].bleu - unseen
    print(f"{name:15s} BLEU {unseen:.0f}, {lost:.0f} less than on the test part")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Over 20 initialisations one vector lost 11 to 16 BLEU, attention 0 to 6. Attention can fetch
# adjective and noun separately, which may be why a new pair costs it little. We have not tested
# this reason.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Beam search
#
# *6 minutes.* Greedy decoding cannot take a word back. **Beam search** keeps several beginnings
# instead of one, here the four best. Long sentences are less likely than short ones, so the sum of
# log-probabilities is divided by $L^{0.75}$ for $L$ tokens.
#
# **Predict.** For which model does a beam of four change more of the 500 translations, for the one
# with attention or for the one without?

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Greedy or with a beam of four

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
# Beam search changes far more translations of the one-vector model: over 20 initialisations 203 to
# 250 of the 500, against 17 to 61 with attention. Whether that model is less sure of its words, we
# have not measured.

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
#   SSST-8 2014, arXiv:1409.1259. A translator with one vector, and how it loses with length.
# - I. Sutskever, O. Vinyals, Q. V. Le, *Sequence to Sequence Learning with Neural Networks*,
#   NeurIPS 2014, arXiv:1409.3215. One vector, read backwards, and no difficulty on long sentences.
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
# - Tatoeba, [tatoeba.org](https://tatoeba.org), sentence pairs under CC BY 2.0; as one file a
#   language: [manythings.org/anki](https://www.manythings.org/anki/). The package trains on such a
#   file: `python -m d2l_attention.training --data fra-eng.zip --model bahdanau --out run`.
