# %% [markdown] slideshow={"slide_type": "slide"}
# # 5 · Bahdanau attention
#
# **You will**
# - measure a translator that passes every sentence on as one vector;
# - write the decoder that looks back at each step, and watch it translate;
# - say how much the look back is worth, and what a wider model is worth;
# - compare where attention looks with the true links between the words.
#
# Core path: 60 minutes. Going further: 45. Exercises: 73. Training takes about a minute in all.
#
# Builds on chapters 3 and 4. *Dive into Deep Learning* (D2L) treats the subject in section 11.4,
# with 10.5 to 10.8.

# %% [markdown] slideshow={"slide_type": "notes"}
# 36 minutes: 4 for the question and the sentences, 9½ for the translator with one vector and BLEU,
# 14½ for the decoder that looks back, 4 for what the look is worth, 4 for where it looks and the
# summary. *From words to a batch* is not in the plan: show it while somebody asks a question. Run
# the notebook before the lecture, because it trains. The slides of *Going further* come after the
# summary.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import copy

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import attention_pooling
from d2l_attention.data import BOS, EOS, Vocab, link_matrix, load, make_batch
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
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
set_style()

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the whole machine, with this chapter's part marked
schematic("whole", here="decoder asks encoder")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the whole machine in two rows. Above, from left to right: a sentence goes in; its words
# become vectors, to which positions are added; the encoder's blocks read them; the decoder asks the
# encoder, which is marked; the decoder's blocks write; a sentence comes out. Below is the inside of
# a block, from left to right: queries, keys and values; the similarity of queries and keys; scores;
# mask and softmax; the weighted sum of the values. These five together are attention, and there are
# several of them side by side, the heads. Then add & norm and a network follow.*

# %% [markdown] slideshow={"slide_type": "-"}
# In the marked box, the part that writes looks back at the part that has read. In this chapter both
# are recurrent networks. Blocks take their place in chapter 8.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Point at the arrow between the two halves: all that the decoder knows of the
# sentence comes through it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## What you need
#
# - **Attention averages** (chapters 1 and 3). A query has the scores $\ln 3$ and $0$ with two keys.
#   The softmax makes the weights $3/4$ and $1/4$ of them. If the values are $(8, 0)$ and $(0, 4)$,
#   the answer is $3/4 \cdot (8, 0) + 1/4 \cdot (0, 4) = (6, 1)$.
# - **The additive score** (chapter 3) of a query $q$ and a key $k$ is one number,
#   $w_v^\top \tanh(W_q q + W_k k)$. $W_q$, $W_k$ and $w_v$ are learned.
# - **Padding** (chapter 4) gets the weight 0: its score is replaced before the softmax.
# - **A recurrent network** reads a sequence word by word and keeps a state: $s_t = f(x_t,
#   s_{t-1})$. Here $x_t$ is the word's embedding, a vector that is learned, and $f$ is a GRU, which
#   decides with gates how much of the old state to keep.
# - **Cross-entropy** is $-\log p$ of the right word.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A sentence in one vector
#
# Read this sentence once, cover it with your hand, and write it down.
#
# *The king of the island writes them because he loves these white churches.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Do the covering for real: five seconds, then press B, and the screen is black. Expect 'the king of
# the island' from many, and then guesses that are grammatical. The model without attention makes a
# similar mistake, as we shall see. Two minutes.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The translators of 2014 (Cho et al., Sutskever et al.) worked like this. One network, the
# **encoder**, read the sentence word by word into one vector. Another network, the **decoder**,
# wrote the translation from this vector, without a second look.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Our first vector has 96 numbers, however long the sentence is. Is that enough? To find
# out we need sentences, a translator and a measure.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Sentences and their translations
#
# A small grammar in this course writes English sentences and their French translations. Its
# vocabulary is small, but translation is more than looking up words:
#
# | English | French | |
# |---|---|---|
# | the good oranges | les **bonnes** oranges | the adjective agrees with its noun |
# | these white churches | ces églises **blanches** | it may come after the noun |
# | she does not eat | elle **ne** mange **pas** | two words enclose the verb |
# | she reads them | elle **les** lit | *les* comes before the verb |

# %% slideshow={"slide_type": "skip"}
corpus = load("grammar")
print(len(corpus.train), "sentences to train,", len(corpus.test), "others to test")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that no English sentence is in two parts of the corpus
parts = [corpus.train, corpus.valid, corpus.test, corpus.compositional]
assert len({pair.source for part in parts for pair in part}) == sum(map(len, parts))

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Ask who speaks French, and let that student explain the second and the last row.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From words to a batch
#
# Each word becomes a number, and a word seen only once would become `<unk>`. `<eos>` ends a
# sentence, `<pad>` fills short ones up, and `<bos>` is what the decoder reads first. In training
# the decoder reads the *true* French words, whatever it would have written itself. This is
# **teacher forcing**:

# %% slideshow={"slide_type": "-"}
src_vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
tgt_vocab = Vocab((pair.target for pair in corpus.train), min_freq=2)
batch = make_batch(corpus.test[:3], src_vocab, tgt_vocab)
print("reads     ", *tgt_vocab.to_tokens(batch.tgt_in[0, :9]))
print("must write", *tgt_vocab.to_tokens(batch.tgt_out[0, :9]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The word that the decoder must write in one step is the word that it reads in the next.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan; one minute. Ask what the decoder would read after a mistake of its own.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A translator with one vector
#
# The **encoder** reads the English sentence from left to right with 48 units, and from right to
# left with 48 more. At position $t$ its state $h_t$ is both together, 96 numbers. The last state of
# each direction, side by side, is the **summary**.

# %% [markdown] slideshow={"slide_type": "-"}
# The **decoder** is another GRU. Its first state $s_0$ is the summary. At step $t'$ it reads the
# last French word, $y_{t'-1}$, and the summary once more:
#
# $$s_{t'} = \mathrm{GRU}\big([\text{summary},\, y_{t'-1}],\; s_{t'-1}\big)$$
#
# From $s_{t'}$ a linear layer computes a logit for each French word. There are two clocks: $t$
# counts English positions, $t'$ French words. A sentence of 14 tokens has 14 states, that is 1,344
# numbers. The decoder gets 96 numbers.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for a sentence of 100 tokens: 9,600 numbers, and still 96 passed on. Draw it as a funnel, and
# leave the funnel on the board. 2½ minutes.

# %% [markdown] slideshow={"slide_type": "skip"}
# `MODELS` holds the package's translators by name. The loss is the cross-entropy of the word that
# must be written, without the padding. `train` takes 500 steps of 64 sentences. (*Going further*
# has encoder, loss and training step in plain code.) These models are too small to gain from a GPU:
# 300 steps of chapter 8's took 9 s on an H100 and 10 s on the CPU beside it.


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
def trained(name):
    torch.manual_seed(0)
    model = MODELS[name](len(src_vocab), len(tgt_vocab), 96)
    train(model, corpus.train, src_vocab, tgt_vocab, steps=500)
    return model


without = trained("seq2seq")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Now it has to speak alone
#
# In use there are no true French words to read. **Greedy decoding** takes the most likely word and
# reads it in the next step, up to `<eos>`.


# %% slideshow={"slide_type": "-"} tags=["build"]
def plain_translate(encoder, decoder, tokens, lens, bos, max_len):  # tokens (B, K), lens (B,)
    carried = decoder.init_state(encoder(tokens, lens), lens)  # what a step hands to the next
    word = torch.full_like(tokens[:, :1], bos)  # (B, 1): what the decoder reads
    written = []
    for _ in range(max_len):
        logits, carried = decoder(word, carried)  # (B, 1, N), for N French words
        word = logits.argmax(dim=-1)  # (B, 1)
        written.append(word)
    return torch.cat(written, dim=1)  # (B, max_len): up to <eos>, and then anything


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask which line would be different in training: the one that makes the next `word`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three translations

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
inputs = batch.src, batch.src_lens, tgt_vocab[BOS]
numbers = plain_translate(without.encoder, without.decoder, *inputs, max_len=40)
for pair, words in zip(corpus.test[:3], map(tgt_vocab.to_tokens, numbers), strict=True):
    print("English", *pair.source)
    print(" writes", *words[: words.index(EOS)])
    print("   true", *pair.target, "\n")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The two short sentences are right. The long one is the sentence that you covered. It begins well
# and then becomes another sentence.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: 'Does this model know French?' It writes tolerable French, and has lost the English sentence.
# Fluent is one thing, faithful is another: machine translation has told the two apart for decades.
# 2½ minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A measure: BLEU
#
# BLEU (Papineni et al., 2002) takes the sequences of one, two, three and four words of a
# translation. For each length it computes the share that also occurs in the reference, each counted
# at most as often as the reference has it. Then it takes the geometric mean of the four shares:
#
# - translation: *la fille mange une pomme rouge*
# - reference: *la fille mange une pomme verte*
#
# Of 6 single words 5 are right, of 5 pairs 4, of 4 triples 3, of 3 fours 2. The mean is
# $\left(\tfrac56 \cdot \tfrac45 \cdot \tfrac34 \cdot \tfrac23\right)^{1/4} = 0.76$, a BLEU of 76.
# Over many sentences the counts are added up first, and the whole pays a penalty if it is too
# short.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room call out the four shares. The penalty is in *Going further* and in exercise 5.7.
# 1½ minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### BLEU by length
#
# We measure the test sentences in four groups, from short to long.


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

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks that long sentences come out worse, and that the plain loop writes what the package writes
shortest, *_, longest = bleu_by_length(without).values()
assert longest < 25 < 60 < shortest
some = make_batch(corpus.test[:64], src_vocab, tgt_vocab)
given = some.src, some.src_lens, tgt_vocab[BOS], 10 + 2 * some.src.shape[1]
numbers = plain_translate(without.encoder, without.decoder, *given)
plain = [tgt_vocab.to_tokens(row) for row in numbers]
plain = [row[: row.index(EOS)] if EOS in row else row for row in plain]
assert plain == translate(without, [p.source for p in corpus.test[:64]], src_vocab, tgt_vocab)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The longer the sentence, the worse the translation. Our first suspect is the summary: 96 numbers
# have to hold everything.

# %% [markdown] slideshow={"slide_type": "notes"}
# Before the numbers: 'how much does it lose from 3 words to 16?' Then ask who is to blame: too
# little training, the decoder, or the vector? So far nobody can know. Two minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Look back at every step
#
# The encoder made a state at *every* position. Bahdanau, Cho and Bengio (2015) keep all of them and
# let the decoder ask them anew at each step. In the words of chapter 1:
#
# - the **query** is the decoder's state before the step, $s_{t'-1}$;
# - the **keys** and the **values** are the encoder's states $h_t$;
# - the **answer** is a context $c_{t'}$ for this step only:
#
# $$c_{t'} = \sum_t \alpha_{t',t}\, h_t, \qquad
# s_{t'} = \mathrm{GRU}\big([c_{t'},\, y_{t'-1}],\; s_{t'-1}\big)$$
#
# In the GRU one thing has changed: where the summary was, there is now $c_{t'}$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cross the funnel on the board out, and draw an arrow from every state to the decoder.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two steps by hand
#
# 'white churches' becomes *églises blanches*. Let the encoder's states be $h_1 = (6, 0)$ at
# 'white' and $h_2 = (0, 6)$ at 'churches', with $W_k h_1 = (1, -1)$ and $W_k h_2 = (-1, 1)$. Let
# $w_v$ be $(1, 1)$. At the first step the query gives $W_q s_0 = (5, 0)$:
#
# | | $W_q s_0 + W_k h_t$ | its tanh | score, $w_v^\top$ times that |
# |---|---|---|---|
# | white | $(6, -1)$ | $(1.00, -0.76)$ | $0.24$ |
# | churches | $(4, 1)$ | $(1.00, 0.76)$ | $1.76$ |
#
# The weights are 0.18 and 0.82, and the context is $0.18\, h_1 + 0.82\, h_2 = (1.1, 4.9)$.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **tanh** keeps every number between -1 and 1, and it is flat at both ends: 6 and 4 both become
# 1.00. In the first number the two words are now equal, because the query put 5 there. So only
# the second number tells them apart. This is how a query chooses which numbers of a key count.
# $w_v$ says how much each of them counts, and with which sign.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Do the row of 'white' on the board: the sum, the tanh, the score. Ask which of its two
# numbers would be the same for every word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The second step
#
# **Predict.** At the second step the query gives $W_q s_1 = (0, 5)$. What is the context now? And
# what would the four scores of the two steps be without the tanh?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Computes both steps, and the scores without the tanh
h = torch.tensor([[6.0, 0.0], [0.0, 6.0]])  # (K, D): white, churches
keys = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])  # W_k h_t
queries = torch.tensor([[5.0, 0.0], [0.0, 5.0]])  # (Q, D): W_q s of both steps
sums = queries[:, None] + keys  # (Q, K, D)
contexts, weights = attention_pooling(torch.tanh(sums).sum(dim=-1), h)
print("step 1: weights", weights[0], " context", contexts[0])
print("step 2: weights", weights[1], " context", contexts[1])
print("scores without tanh:", sums.sum(dim=-1).tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same two states were asked twice and gave two answers. The summary is the same at every step.
# Without the tanh, a query adds the same number to the score of each word, so it chooses nothing.

# %% [markdown] slideshow={"slide_type": "notes"}
# On paper, in pairs: the two numbers change their roles. A slip to expect: scores taken for
# weights. Ask what weights must add up to. Then, before the next slide: 'why is the newest state
# not the query?' Wait until somebody says 'that is circular'. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which state is the query?
#
# The GRU makes the new state $s_{t'}$ from the context $c_{t'}$. So $s_{t'}$ cannot be the query
# that finds this context. The query is the state before, $s_{t'-1}$. The word $y_{t'-1}$ is known
# by then, but only the GRU reads it, together with the context. The query has not read it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Who knows more may object that Luong et al. (2015, arXiv:1508.04025) do ask with the newest state:
# there the context comes in after the state is made. A finger on each arrow of the picture. Two
# minutes.

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

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The decoder, line by line
#
# The weights are the softmax of additive scores, and 0 for the padding:
# $\alpha_{t',t} = \operatorname*{softmax}_t \, w_v^\top \tanh(W_q s_{t'-1} + W_k h_t)$.


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
        # Once more for a sentence of length 0: all its scores are equal (chapter 4).
        weights = scores.softmax(dim=1).masked_fill(padding, 0.0)  # (B, K)
        context = self.dropout(weights).unsqueeze(1) @ states  # (B, 1, K) @ (B, K, D)
        return context.squeeze(1), weights  # (B, D), (B, K)


# %% [markdown] slideshow={"slide_type": "skip"}
# The decoder is a loop over the French words that it reads: in training all words of the true
# sentence, in use one word at a call. A round of the loop is one step $t'$. `carried` is what one
# call hands to the next.


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
# D is the number of units (96), E the size of an embedding, N the number of French words. `s` has
# an axis for the GRU's layers, and the query is the last layer's. **The decoder without attention**
# is the same loop without the look: `context` is the summary at every step.
#
# We train the package's decoder with the same sizes, data and steps as before, and hand its
# parameters to ours. The folded cell checks that both give the same logits and the same weights.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
with_attention = trained("bahdanau")
plain = PlainAttentionDecoder(len(tgt_vocab), 96, 96, num_layers=1)
plain.load_state_dict(with_attention.decoder.state_dict(), strict=True)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks our decoder against the package's, and against the decoder without attention
with torch.no_grad():
    encoded = with_attention.encoder(batch.src, batch.src_lens)
    logits, _ = plain(batch.tgt_in, plain.init_state(encoded, batch.src_lens))
    expected = with_attention(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
torch.testing.assert_close((logits, plain.attention_weights), expected)
# The decoder without attention is our loop with the summary as each context.
plain_without = PlainAttentionDecoder(len(tgt_vocab), 96, 96, num_layers=1)
del plain_without.attention
parameters = dict(without.decoder.state_dict())
swapped = parameters["rnn.weight_ih_l0"].split(96, dim=1)  # the package has the word first
parameters["rnn.weight_ih_l0"] = torch.cat(swapped[::-1], dim=1)
plain_without.load_state_dict(parameters, strict=True)
with torch.no_grad():
    encoded = without.encoder(batch.src, batch.src_lens)
    plain_without.attention = lambda query, states, lens: (encoded[1][0], states[..., 0])
    found = plain_without(batch.tgt_in, plain_without.init_state(encoded, batch.src_lens))[0]
    torch.testing.assert_close(found, without(batch.src, batch.tgt_in, batch.src_lens))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Step through a sentence
#
# The trained decoder translates 'she reads them' as *elle les lit*. The columns of the weights are
# she, reads, them, `<eos>`. The French words have these numbers:

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
source = torch.tensor([src_vocab["she reads them <eos>".split()]]), torch.tensor([4])
french = "<bos> elle les lit".split()
to_read = torch.tensor([tgt_vocab[french]])  # (B, Q) = (1, 4)
print(dict(zip(french, to_read[0].tolist(), strict=True)))
with torch.no_grad():
    carried = plain.init_state(with_attention.encoder(*source), source[1])

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** On which English word is most of the weight at each of the first three steps? At
# which of them is it not the word that you expect?

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Read the question aloud, and let the room guess before the view is on the screen.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Line by line

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
# 2½ minutes. Go through the first step together, the schematic on the board, then let the room
# find the second and third. The surprise is the first: 'reads' for *elle*. The state at 'reads' can
# carry 'she'. Before the next slide, ask in which line the word of the step is used first.

# %% [markdown] slideshow={"slide_type": "skip"}
# Most of the weight is on 'reads', then on 'them', then on 'reads'. For *elle* one expects 'she'.
# But the encoder has read 'she' before 'reads', so the state at 'reads' can carry it. In 19 of 20
# random starts *elle* looks at 'reads' or at 'them', and in one at 'she'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Another word
#
# **Predict.** In its second step we let the decoder read *les* instead of *elle*, as if *les* were
# written already. At which of the four steps do the weights change, and at which the logits?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
other = torch.tensor([tgt_vocab["<bos> les les lit".split()]])
with torch.no_grad():
    logits, looks = plain(to_read, carried)[0], plain.attention_weights
    other_logits, other_looks = plain(other, carried)[0], plain.attention_weights
print("change of the weights", (looks - other_looks)[0].abs().amax(dim=1))
print("change of the logits ", (logits - other_logits)[0].abs().amax(dim=1))

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks where most of the weight is, and what the exchanged word changes
assert looks[0].argmax(dim=-1).tolist()[1:3] == [2, 1]  # them, reads
assert torch.equal(looks[0, :2], other_looks[0, :2])
assert (looks - other_looks)[0, 2:].abs().sum() > 0
assert torch.equal(logits[0, 0], other_logits[0, 0])
assert (logits - other_logits)[0, 1].abs().max() > 0
print("checked: a step's weights do not depend on the word read in it, its logits do")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The logits change from the second step on, the weights from the third. The word enters in the line
# with `torch.cat`, when the step's weights are known already.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Expect many to say that weights and logits change together. This is 'which state is
# the query?' once more, now with numbers.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Is it worth it?
#
# The two models have the same sizes and were trained on the same data for the same 500 steps. Only
# one of them may look back, and has $W_q$, $W_k$ and $w_v$ for it. Figure 2 of Bahdanau et al.
# (2015) compares two such pairs, of unequal sizes.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
models = {"one vector": without, "with attention": with_attention}
results = {name: evaluate(m, corpus.test, src_vocab, tgt_vocab) for name, m in models.items()}
print({name: round(found.bleu, 1) for name, found in results.items()})

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws BLEU against the length of the sentence, for both models
figure, ax = plt.subplots(figsize=(8, 4.2))
for model, style, label in (
    (with_attention, {"marker": "o"}, "with attention"),
    (without, {"marker": "s", "linestyle": "--", "color": "#d95f02"}, "one vector"),
):
    found = bleu_by_length(model)
    ax.plot(list(found), list(found.values()), label=label, **style)
ax.set(xlabel="English words", ylabel="BLEU", ylim=(0, 100))
ax.set_title("With attention, long sentences lose less")
ax.legend()
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: BLEU against the length of the English sentence. With attention the line falls from about
# 96 for 3 to 5 words to about 88 for 12 to 16. Without, it falls from about 72 to about 18.*

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks what the text says about the two models
first, *_, last = bleu_by_length(with_attention).values()
assert last > 80 and first - last < 15

# %% [markdown] slideshow={"slide_type": "notes"}
# 1½ minutes. Let the room sketch the second line before it appears.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Is the vector to blame?
#
# Perhaps one vector only needs more numbers, or more training. We gave the whole model the
# width 192, and 1,000 steps.
#
# **Predict.** How well does this model write long sentences that it was trained on? How well does
# it write long sentences that are new?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Collect votes, in three columns: short, long and new, long and trained on.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### What the runs say
#
# Means of BLEU over three random starts (lowest–highest):
#
# | model | 3 to 5 words, new | 12 to 16, new | 12 to 16, trained on |
# |---|---|---|---|
# | one vector of 96, 500 steps | 75 (72–78) | 19 (17–21) | 26 (25–27) |
# | one vector of 192, 500 steps | 95 (93–96) | 32 (31–33) | 74 (72–78) |
# | one vector of 192, 1,000 steps | 96 (96–96) | 35 (34–37) | 100 (100–100) |
# | the same, 68,000 sentences, 4,000 steps | 100 (100–100) | 82 (80–84) | 98 (98–98) |
# | attention, 96, 500 steps | 95 (94–97) | 86 (84–88) | 92 (91–94) |

# %% [markdown] slideshow={"slide_type": "fragment"}
# So width 192 is enough to write the long sentences of the training part. But the model knows
# those by heart, and new ones reach only 35. With 68,000 sentences and 4,000 steps they reach 82.
# One vector needs more of one or both here. Attention, half as wide, gets 86 from the 8,000.

# %% [markdown] slideshow={"slide_type": "skip"}
# (On the long ones attention lay between 77 and 89 in 20 starts. The stored translator of *Going
# further*, attention with 68,000 sentences, reached 99 on them.) Others saw the same two things.
# The translator of Cho et al. (2014), with one vector, got worse with length. That of Sutskever et
# al. (2014) had no difficulty with long sentences; it read the English words backwards, in a deep
# network. *Going further* says how the stored table was made.

# %% [markdown] slideshow={"slide_type": "notes"}
# Read the three columns from top to bottom. For the short sentences the width is enough. Do not say
# more than the table: nobody ran 1,000 units for a night. 1½ minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which word belongs to which?
#
# In real text nobody knows for sure. The grammar knows, because it writes both sentences. It gives
# the **links** between their words.
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
# does not often read them). Dark cells are sure links, among them 'not' with 'ne' and 'pas', and,
# far from the diagonal, 'them' with 'les'. One pale cell is a possible link: 'does' with 'lit'.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Dark links are **sure**: everybody who knows both languages would draw them. The pale one is only
# **possible**: 'does' helps the verb.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ten seconds for the question. The answer is 'does', and with it comes the difference between sure
# and possible. 1½ minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What did it look at?
#
# Each row of weights belongs to one French word. The orange frames are the true links, pale ones
# possible links. Move the slider to write the sentence word by word.
#
# **Question.** Where does the decoder look when it writes *le*? What does it find there that it
# needs?


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of one sentence beside its true links, step by step
def weights_of(model, pair):
    """The weights behind each word of the pair's French sentence, (Q, K), without <eos>."""
    batch = make_batch([pair], src_vocab, tgt_vocab)
    _, weights = model(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
    return weights[0, : len(pair.target), : len(pair.source)].detach()


def step_by_step(weights):
    """(Q, K) -> frames (1 + Q, 1, Q, K): all rows, then the first, the first two, and so on."""
    rows = torch.tril(torch.ones(len(weights), len(weights)))
    return torch.cat([torch.ones_like(rows[:1]), rows])[:, None, :, None] * weights


def step_labels(words):
    return ["whole sentence", *(f"writing '{word}'" for word in words)]


pair = corpus.test[9]
AttentionView(
    step_by_step(weights_of(with_attention, pair)),
    queries=pair.target,
    keys=pair.source,
    frames=step_labels(pair.target),
    compare=link_matrix(pair),
    compare_label="true links",
    title="Attention against the truth",
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive heat map with a row for each French word and a column for each English
# one, true links framed in orange. Most dark cells are framed. Some are not: 'le' looks at 'boy'
# instead of 'the', 'à' at 'the' instead of 'to', and 'n'' and 'pas' more at 'did' than at 'not'.*

# %% [markdown] slideshow={"slide_type": "skip"}
# For *le* it looks at 'boy'. A look at the noun is one way to find out that French needs *le* and
# not *la*, *l'* or *les*. The state at 'the' can carry the noun as well. In 15 of 20 random starts
# the look is at 'boy', in 5 at 'the'. (The link of 'did' is sure, because French has a helping verb
# of its own here, *est*.)
#
# So attention is not alignment. In 20 of 20 starts, after these 500 steps, the largest weights fit
# the true links worse than IBM model 1 (1993) does, which only counts which words go together.
# *Going further* measures this, also after longer training, and teaches the model where to look.

# %% [markdown] slideshow={"slide_type": "notes"}
# The view on the slide is alive without a kernel. Step to 'writing le' and wait. Expect
# 'it makes a mistake'. Say that the word it writes is right, and ask again: what must one know to
# write *le*? Then let them find the other rows that leave their frames. The link
# 'did'–*est* is sure, because French has a helping verb here, too. Two minutes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - With one vector of 96 numbers, BLEU fell from 75 for 3 to 5 words to 19 for 12 to 16 (means of
#   three starts). Attention reached 86 for the long ones.
# - A model of width 192 learned the long sentences of the training part by heart, and wrote new
#   ones at 35. With 68,000 sentences and 4,000 steps it reached 82.
# - Attention asks all encoder states anew at each step: $c_{t'} = \sum_t \alpha_{t',t} h_t$, with
#   additive scores. Keys and values are the encoder's states. The query is the decoder's state
#   before the step, $s_{t'-1}$, which has not read $y_{t'-1}$.
# - In the additive score, tanh lets the query choose which numbers of a key count.
# - In training the decoder reads the true words (teacher forcing), in use its own.
# - Where a trained model looks depends on its random start. It need not be at the true link.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Cover the second item, and let the room say what query, keys and values are.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell, run it, and `check` says what is right or what went wrong.
# `hint("5.1")` gives one more hint each time, `solution("5.1")` the whole way. Exercises 5.2 and
# 5.7 follow behind *Going further*.

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.1** · by hand
#
# The encoder's states are single numbers, and so is the context. The length is 2: $h_3$ is padding.
# The table holds the scores $a(s_{t'}, h_t)$.
#
# | | $h_1 = 4$ | $h_2 = 8$ | $h_3 = 20$ |
# |---|---|---|---|
# | $s_0$ | $\ln 4$ | $0$ | $\ln 2$ |
# | $s_1$ | $0$ | $\ln 3$ | $\ln 4$ |
# | $s_2$ | $\ln 7$ | $0$ | $0$ |
#
# Which context $c_2$ goes into the decoder's second step? Give it as a number.

# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.3** · complete a function
#
# What does the decoder's state before a step, `hidden` (B, D), see of the encoder's `states`
# (B, K, D)? The scores are $w_v^\top \tanh(W_q s + W_k h)$. `W_q` and `W_k` are (M, D) and `w_v` is
# (M,), where M may differ from D. Return the context (B, D) and the weights (B, K), in the dtype of
# the inputs. Gradients must reach all inputs but the lengths (B,), which are 1 or more. Scores lie
# between -10,000 and 10,000, those of the padding too, and the padding gets no weight.

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
# Read these sections in any order. Exercises 5.2 and 5.7 follow behind them.

# %% [markdown] slideshow={"slide_type": "-"}
# ### A translation without a wrong word
#
# *3 minutes.* The reference is *la fille mange une pomme verte*. The translation is *la fille mange
# une pomme*.
#
# **Predict.** What is its BLEU?

# %% slideshow={"slide_type": "fragment"}
reference = "la fille mange une pomme verte".split()
print(f"{bleu([reference[:5]], [[reference]]):.1f}")  # each translation has a list of references

# %% [markdown] slideshow={"slide_type": "fragment"}
# All four shares are 1, but a translation that is shorter than the reference pays a **brevity
# penalty**. With 5 words instead of 6 it is $e^{1 - 6/5} = 0.82$. Over many sentences, all counts
# are summed before the shares are taken.

# %% [markdown] slideshow={"slide_type": "notes"}
# Expect many to say 100. Then ask for another way to cheat: to say a sure word twice. That is why
# each sequence counts at most as often as in the reference.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From weights to links
#
# *7 minutes.* How often is a look wrong? For each French word, take the English word with the
# largest weight as its link, never `<eos>`. Call these links $A$. The sure links are $S$, and $P$
# holds the sure and the possible ones. The **alignment error rate** (Och and Ney, 2003) is
#
# $$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}$$
#
# Say there are two sure links and one possible link, so $|S| = 2$ and $|P| = 3$. A model draws
# three links: a sure one, the possible one and a wrong one. One of them is in $S$, and two are in
# $P$. The error rate is $1 - \tfrac{1 + 2}{3 + 2} = 0.4$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Two older methods
#
# - the **diagonal**: word 3 of 6 belongs to word 4 of 8;
# - **IBM model 1** (1993) counts which French word goes with which English word. It sees the
#   finished French sentence, and it ignores the order of the words.
#
# **Predict.** Whose links are better, those of our decoder or those of IBM model 1?


# %% slideshow={"slide_type": "skip"}
def error_rate(links):
    true = [pair.sure for pair in corpus.test], [pair.possible for pair in corpus.test]
    return alignment_error_rate(links, *true)


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
ibm = IBMModel1([(p.source, p.target) for p in corpus.train], iterations=5)
diagonal = error_rate([align_diagonally(len(p.source), len(p.target)) for p in corpus.test])
model_1 = error_rate([ibm.align(p.source, p.target) for p in corpus.test])
attention = error_rate(align(with_attention, corpus.test, src_vocab, tgt_vocab))
print(f"diagonal {diagonal:.3f}   IBM model 1 {model_1:.3f}   attention {attention:.3f}")

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks the order of the three error rates
assert model_1 < attention < diagonal
print("checked: IBM model 1 aligns better than attention, attention better than the diagonal")

# %% [markdown] slideshow={"slide_type": "fragment"}
# IBM model 1 makes fewer errors, but it is told the French word that it links. At step $t'$ the
# query of our decoder comes from the state before the step: it has not even read the word just
# before.

# %% [markdown] slideshow={"slide_type": "notes"}
# Vote by hands before the numbers. Expect most votes for the network. Then wait: somebody says 'so
# it is broken'. It writes about 80 of 100 test sentences without a mistake. Two minutes.

# %% [markdown] slideshow={"slide_type": "skip"}
# From 20 random starts the error rate lies between 0.12 and 0.23, always above that of IBM model 1.
# Models that translate about equally well look at different words. After 5,000 steps with 68,000
# sentences one start came to 0.09. Koehn and Knowles (2017) found weights beside an aligner's links
# on real text, too.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What is missed
#
# *2 minutes.* A French word with one sure link is **missed** if its largest weight is on another
# English word. We counted the misses by kind of word, for our model and over 20 random starts:
#
# | | BLEU | AER | determiners | *il*, *je* | *le*, *les* (objects) | *ne*, *pas* | others |
# |---|---|---|---|---|---|---|---|
# | ours, in one run | 92.3 | 0.221 | 41% | 79% | 68% | 49% | 8% |
# | lowest of 20 | 86.8 | 0.120 | 4% | 28% | 41% | 4% | 6% |
# | median of 20 | 91.2 | 0.203 | 41% | 81% | 66% | 28% | 8% |
# | highest of 20 | 93.0 | 0.231 | 56% | 99% | 99% | 67% | 9% |

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks the first row of the table: counts the missed words by kind of word
KINDS = {
    "determiner": "the a an some my your his her our their this these that those".split(),
    "subject pronoun": "i he she we they".split(),
    "object pronoun": "him her it them".split(),
    "negation": ["not"],
}


def kind_of(french, english):
    if (english, french) in {("her", "la"), ("her", "l'")}:
        return "object pronoun"
    if french[:2] == "qu":  # 'that' between two clauses
        return "other"
    return next((kind for kind, words in KINDS.items() if english in words), "other")


def missed_by_kind(model):
    """The share of missed words of each kind, among French words with one sure link."""
    found = {kind: [] for kind in (*KINDS, "other")}
    linked = align(model, corpus.test, src_vocab, tgt_vocab)
    for links, pair in zip(linked, corpus.test, strict=True):
        for i, j in links:  # the most attended English position, the French position
            true = [t for t, position in pair.sure if position == j]
            if len(true) == 1:
                kind = kind_of(pair.target[j], pair.source[true[0]])
                found[kind].append(i != true[0])
    return {kind: sum(missed) / len(missed) for kind, missed in found.items()}


share = missed_by_kind(with_attention)
assert min(share["subject pronoun"], share["object pronoun"]) > 0.5 and share["other"] < 0.15

# %% [markdown] slideshow={"slide_type": "fragment"}
# In 15 of 20 starts more than half of each kind of pronoun is missed, and in none more than 9% of
# the other words. How many determiners and negations are missed depends on the start. We do not
# know why. Jain and Wallace (2019), and Wiegreffe and Pinter (2019) against them, discuss whether
# attention explains a classifier of texts.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask whether the start that misses fewest determiners translates best. The table cannot tell: its
# columns come from different starts. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Teach it where to look
#
# *4 minutes.* If the alignment matters, ask for it, as Chen et al. (2016) did. Their terms in the
# loss are a squared error and a cross-entropy with an aligner's links. Ours is close to the second:
# 0.1 times the mean, over the French words with a link and `<eos>`, of
#
# $$-\log \sum_{t \text{ linked to } t'} \alpha_{t',t}$$
#
# It is 0 where all the weight is on linked words, and large where little of it is. We continue the
# training of our model for 100 steps, once with this term and once without it.
#
# **Question.** Will the term raise BLEU or lower it, compared with 100 steps without it? There is
# an argument for each.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Guided or not
#
# *exact* is the share of translations that equal the reference.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
for name, guidance in (("100 steps more", 0.0), ("guided", 0.1)):
    models[name] = copy.deepcopy(with_attention)
    options = {"steps": 100, "lr": 0.005, "guidance": guidance, "seed": 1}
    train(models[name], corpus.train, src_vocab, tgt_vocab, **options)
    results[name] = evaluate(models[name], corpus.test, src_vocab, tgt_vocab)
for name in ("with attention", "100 steps more", "guided"):
    print(f"{name:15s}", results[name])

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Checks that the guided model aligns better and translates as well
more, guided = results["100 steps more"], results["guided"]
assert guided.alignment_error_rate < model_1 < more.alignment_error_rate
assert abs(guided.bleu - more.bleu) < 2
print("checked: guided aligns better than IBM model 1; BLEU differs by less than 2")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Another 100 steps change BLEU by less than 2, and hardly the error rate. With the term it falls to
# a quarter, and in 20 starts to between 25% and 55%, always below IBM model 1. BLEU is then between
# 1.7 lower and 1.4 higher than without the term, 0.2 higher in the median. So the model can look at
# the right words and translate as well. The loss had not asked for it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room find two good arguments: BLEU rises, since looking at the right word must help; it
# falls, since the model is no longer free.
# Three minutes.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The whole translator
#
# *10 minutes.* The encoder, the loss and the training step were the package's until now. Here they
# are in plain code. The states are made as in Bahdanau et al. (2015). (In the model with one
# vector, the decoder reads the summary at every step, as that of Cho et al., 2014, does.)
# `pack_padded_sequence` tells the GRU where each sentence ends, so that the state of the direction
# from left to right is the one after the last word and not after the padding.


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
# Now six steps of training, on three sentences of the training part: forward, loss, backward, a
# step against the gradient. Gradients of recurrent networks sometimes become very large, so they
# are clipped to length 1.

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

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks encoder and loss against the package's, with the same parameters
from d2l_attention.models.encoder_decoder import sequence_loss

plain_encoder.load_state_dict(with_attention.encoder.state_dict(), strict=True)
for ours, theirs in zip(
    plain_encoder(batch.src, batch.src_lens),
    with_attention.encoder(batch.src, batch.src_lens),
    strict=True,
):
    torch.testing.assert_close(ours, theirs)
real = logits.detach(), three.tgt_out, three.tgt_lens
torch.testing.assert_close(plain_loss(*real), sequence_loss(*real))
assert losses[-1] < losses[0] - 1
print("checked: outputs, summary and loss equal the package's, 3 sentences; the loss falls")

# %% [markdown] slideshow={"slide_type": "skip"}
# The first loss is about that of a guess among 436 French words, $\ln 436 \approx 6.1$. The
# package's `train` is this loop with shuffled batches of sentences of similar length, a learning
# rate that falls to 0, checkpoints and GPUs.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### The tables of this chapter
#
# *2 minutes.* What is said of three and of twenty random starts was measured with lines like
# these, for the seeds 0 to 2 and 0 to 19. `"seq2seq"` is one vector:
#
# ```
# torch.manual_seed(seed)
# model = MODELS["bahdanau"](len(src_vocab), len(tgt_vocab), 96)
# train(model, corpus.train, src_vocab, tgt_vocab, steps=500, seed=seed)
# print(evaluate(model, corpus.test, src_vocab, tgt_vocab))
# print(bleu_by_length(model), bleu_by_length(model, corpus.train[:2000]))
# print(missed_by_kind(model))
# ```
#
# In the column *trained on*, the rows of 500 steps are from the 344 long ones of the first 2,000
# sentences, the other two from up to 200 long ones. The 68,000 sentences are
# `grammar.corpus(69_000)` from `d2l_attention.data`, without those of the other three parts. They
# were trained on with `steps=4000, lr=0.005`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What is hard
#
# *2 minutes.* Each sentence of the test part is tagged with what makes it hard. Where does the
# model with one vector lose most? Five of the tags (a clitic is a pronoun before the verb, as in
# *elle les lit*):

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
for tag in ("clitic", "negation", "adjective after", "relative clause", "two clauses"):
    kept = [i for i, pair in enumerate(corpus.test) if tag in pair.tags]
    words = sum(len(corpus.test[i].source) for i in kept) / len(kept)
    true = [[corpus.test[i].target] for i in kept]
    one, two = (bleu([results[m].translations[i] for i in kept], true) for m in list(models)[:2])
    print(f"{tag:16s} {words:4.1f} words, BLEU {one:3.0f} and {two:3.0f} with attention")

# %% [markdown] slideshow={"slide_type": "skip"}
# Of these five it loses most with two clauses and with relative clauses. These sentences are also
# the longest.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Words that never met
#
# *2 minutes.* A fourth part of the corpus is `compositional`: there, every sentence has an
# adjective and a noun that were never together in training, though each of them was there.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
for name, model in models.items():
    unseen = evaluate(model, corpus.compositional, src_vocab, tgt_vocab).bleu
    lost = results[name].bleu - unseen
    print(f"{name:15s} BLEU {unseen:.0f}, {lost:.0f} less than on the test part")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In 20 starts one vector lost 11 to 16 BLEU, attention 0 to 6. Attention can fetch adjective and
# noun separately. This may be why a new pair costs it little. We have not tested the reason.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Not only the most likely word
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
# It changes more for the model without attention, in 20 of 20 starts:
# 203 to 250 sentences against 17 to 61. Perhaps that model is less sure of its words. We
# have not measured it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Expect a divided room. Ask for a reason with each vote. Two minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your sentence, your cuts
#
# *4 minutes.* This translator has the form of the guided model's, but it was not guided. It was
# trained for longer, with 68,000 sentences of the same grammar. It works in this page. Write a
# sentence, see what each French word looked at, and then forbid a look: a weight becomes 0, and the
# others share it, as with a mask (chapter 4).
#
# **Predict.** *She does not read these books.* What does it write without any look at *not*? And
# without any look at *books*?

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows a stored translator; for yours: TranslatorView(models["guided"], src_vocab, tgt_vocab)
TranslatorView("bahdanau", title="Write a sentence, forbid a look")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view. A text field with an English sentence, its translation, buttons with
# cuts to try, and a map of the French words against the English ones, with lines between the
# words. A click on a cell forbids that look, and the translation is made anew.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# Without *not* nothing changes: the states of the words beside it have read it, too. Without
# *books* the sentence is about dogs. So a weight says which *state* was used, and a state knows
# more than its own word.

# %% [markdown] slideshow={"slide_type": "notes"}
# Not in the plan. Two minutes. On the slide before, take words from the room, and let it bet on the
# French before you cut. The view needs no kernel.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### On real text
#
# *1 minute.* The same code reads the sentence pairs of the Tatoeba project, from which D2L takes
# its English-French file. From a shell, with a downloaded file (the chapter's sources say where
# from):
#
# ```
# python -m d2l_attention.training --data fra-eng.zip --model bahdanau --steps 600 --out run
# ```
#
# | stored, one start each | BLEU on 1,000 new sentences |
# |---|---|
# | `--model bahdanau` | 5.4 |
# | `--model seq2seq` | 1.8 |
#
# Each run took 9 to 16 minutes of a CPU that had other work, too, so the times say nothing about
# the models. There are 17,586 French words instead of 436. Both models have hardly begun to learn.
# Take a GPU or a night, and more units (`--num-hiddens`). Ctrl-C saves, and `--resume` goes on.

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
# Work out the alignment error rate $1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}$ of what it
# finds, to three decimals.

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
#   SSST-8 2014, arXiv:1409.1259. A translator with one vector, and how it loses with length. It is
#   the network of K. Cho et al., *Learning Phrase Representations using RNN Encoder-Decoder for
#   Statistical Machine Translation*, EMNLP 2014, arXiv:1406.1078, which scored phrases.
# - I. Sutskever, O. Vinyals, Q. V. Le, *Sequence to Sequence Learning with Neural Networks*,
#   NeurIPS 2014, arXiv:1409.3215. One vector, and no difficulty on long sentences.
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
# - S. Jain, B. C. Wallace, *Attention is not Explanation*, NAACL 2019, arXiv:1902.10186. S.
#   Wiegreffe, Y. Pinter, *Attention is not not Explanation*, EMNLP 2019, arXiv:1908.04626.
# - Tatoeba, [tatoeba.org](https://tatoeba.org), sentence pairs under CC BY 2.0; as one file a
#   language: [manythings.org/anki](https://www.manythings.org/anki/).
