# %% [markdown] slideshow={"slide_type": "slide"}
# # 5 · Bahdanau attention
#
# **You will**
# - train a translator that squeezes every sentence into one vector, and see where it breaks;
# - let its decoder look back at each step, and measure what that is worth;
# - compare where attention looks with the true word alignments, and mend the difference.
#
# Core path: 45 minutes. Exercises: 73. Three cells train, one to two minutes together. Builds on
# chapters 3 and 4. *Dive into Deep Learning* (D2L) treats the subject in section 11.4, with 10.5 to
# 10.8.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
import time

import matplotlib.pyplot as plt
import torch

from d2l_attention import attention_pooling, check_shape, masked_softmax, show_source
from d2l_attention.data import BOS, EOS, Vocab, link_matrix, load, make_batch
from d2l_attention.models.decoding import beam_search, greedy_decode, translate
from d2l_attention.models.seq2seq import (
    EncoderDecoder,
    Seq2SeqAttentionDecoder,
    Seq2SeqDecoder,
    Seq2SeqEncoder,
    guidance_loss,
    sequence_loss,
)
from d2l_attention.training import MODELS, train
from d2l_attention.training.evaluation import align, evaluate
from d2l_attention.training.metrics import (
    IBMModel1,
    align_diagonally,
    alignment_error_rate,
    bleu,
)
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
torch.set_printoptions(precision=3, sci_mode=False)
set_style()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A sentence in one vector
#
# Read this sentence once, cover it with your hand, and write it down.
#
# *The king of the island writes them because he loves these white churches.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Do the covering for real: five seconds, then press B, and the screen is black. Half of the room
# writes 'the king of the island' and then guesses something grammatical. The model without
# attention makes the same kind of mistake, as we shall see.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Three words would be easy. Of thirteen, some are gone before you get there. The translators of
# 2014 worked like that. One network read the sentence, word by word, into a vector. Another wrote
# the translation from this vector, without a second look.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The vector has 96 numbers, however long the sentence is. From 5 words to 15, does
# the quality of the translation fall a little, by half, or to almost nothing?
#
# To find out we need sentences, a translator and a measure. One after the other.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Hands up for each of the three, and the counts on the board. Most say 'by half'. Do not answer:
# 'Long sentences are lost' does, in a quarter of an hour.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Sentences whose alignments are known
#
# Which French word stands for which English one? In real text nobody knows for sure. So the course
# brings a small grammar that writes English and French at once and keeps the links. (Real text
# comes at the end of the chapter.)

# %% slideshow={"slide_type": "skip"}
corpus = load("grammar")
seen = set()
for name in ("train", "valid", "test", "compositional"):
    sources = {pair.source for pair in getattr(corpus, name)}
    print(f"{name:14s}{len(sources):5d} sentences")
    assert seen.isdisjoint(sources)  # no English sentence is in two splits
    seen |= sources
print()
for pair in corpus.test[:3]:
    print(*pair.source, "|", *pair.target)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The vocabulary is small. What makes translation more than looking up words is all there:
#
# | English | French | |
# |---|---|---|
# | the good oranges | les **bonnes** oranges | the adjective agrees with its noun |
# | these white churches | ces églises **blanches** | it may stand behind the noun |
# | she does not eat | elle **ne** mange **pas** | two words embrace the verb |
# | she reads them | elle **les** lit | *les* moves in front of the verb |

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the links of one sentence
pair = corpus.test[2]
figure, ax = plt.subplots(figsize=(6, 4.6))
heatmap(ax, link_matrix(pair), pair.target, pair.source, vmax=1.0)
ax.set(xlabel="English", ylabel="French")
ax.set_title("French does not follow the English order")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a table of six French rows (elle ne les lit pas souvent) and six English columns (she
# does not often read them). Dark cells are sure links: 'not' with 'ne' and with 'pas', 'them' with
# 'les', far from the diagonal. One pale cell is a possible link: 'does' with 'lit'.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Dark links are **sure**: everybody who knows both languages would draw them. The pale one is
# **possible**: 'does' has no French word of its own; it only helps the verb.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Before the explanation: 'which English word has no French word of its own?' Ten seconds. Somebody
# who speaks French says 'does', and the room has the difference between sure and possible.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From words to a batch
#
# Words become numbers; a word that occurs only once in training becomes `<unk>`. Short sentences
# are filled up with `<pad>`, `<eos>` ends each of them, and `<bos>` is what the decoder reads
# first. It is trained with **teacher forcing**: at each place it reads the *true* words so far,
# whatever it would have said itself. Read the two French rows below each other.

# %% slideshow={"slide_type": "skip"}
src_vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
tgt_vocab = Vocab((pair.target for pair in corpus.train), min_freq=2)
batch = make_batch(corpus.test[:3], src_vocab, tgt_vocab)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the first sentence of the batch: what the decoder reads, and what it is to say
print("reads", *tgt_vocab.to_tokens(batch.tgt_in[0, :10]))
print("says ", *tgt_vocab.to_tokens(batch.tgt_out[0, :10]))
print("lengths", batch.src_lens.tolist(), "and", batch.tgt_lens.tolist())

check_shape(batch.src, (3, 14))
length = int(batch.tgt_lens[0])  # <eos> included
assert torch.equal(batch.tgt_in[0, 1:length], batch.tgt_out[0, : length - 1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The two rows are one step apart: the word that the decoder is to say in one step is the word that
# it reads in the next.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The translator of 2014
#
# An RNN reads word by word and keeps a state, $\mathbf s_t = f(\mathbf x_t, \mathbf s_{t-1})$. Here
# $\mathbf x_t$ is the word's embedding, a vector that is learned, and $f$ is a GRU, which decides
# with gates how much of the old state to keep.

# %% [markdown] slideshow={"slide_type": "-"}
# The **encoder** reads in both directions, with half of its units each way, so that the state at a
# word knows the words on both sides. The last state of each direction, side by side, is the
# **summary**.

# %% [markdown] slideshow={"slide_type": "-"}
# The **decoder** is another GRU. Besides its own last word it reads the summary, at each step the
# same.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The summary beside every word
#
# The decoder of the package. `context` is the summary, and `expand` repeats it for each of the
# steps.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the source of Seq2SeqDecoder.forward
show_source(Seq2SeqDecoder.forward)

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(0)
encoder = Seq2SeqEncoder(len(src_vocab), 96, 96, 1, bidirectional=True)
decoder = Seq2SeqDecoder(len(tgt_vocab), 96, 96, 1)

outputs, summary = encoder(batch.src, batch.src_lens)
check_shape(outputs, (14, 3, 96))  # a state at each source word: time comes first
check_shape(summary, (1, 3, 96))  # the last ones; the 1 is the number of layers

logits, state = decoder(batch.tgt_in, decoder.init_state((outputs, summary)))
check_shape(logits, (3, batch.tgt_in.shape[1], len(tgt_vocab)))  # a score for each French word

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** At each word the encoder has a state of 96 numbers; together they are `outputs`.
# They are thrown away, and the decoder gets `summary`. The second sentence has 13 words and an
# `<eos>`, the third has 6 and an `<eos>`. How many numbers does the encoder have for each, and how
# many does it pass on?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Counts the numbers of both sentences
for b in (1, 2):
    length = int(batch.src_lens[b])
    print(
        f"{length} tokens: {outputs[:length, b].numel()} numbers, {summary[:, b].numel()} passed on"
    )

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A short one, hands up after half a minute. Then ask for a sentence of 100 words: 9,600 numbers,
# and still 96 passed on. Draw it as a funnel, and leave the funnel on the board.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Padding does not count
#
# The loss is the cross-entropy of the true word, averaged over the real words. Chapter 4 showed
# how padding sneaks into an average, so here too the padding is left out: sentence $b$ of a batch
# has $T_b$ words, its `<eos>` included, and
#
# $$\text{loss} = -\frac{\sum_b \sum_{t' \le T_b} \log p(y_{b,t'})}{\sum_b T_b}.$$

# %% slideshow={"slide_type": "skip"}
show_source(sequence_loss)

# %% [markdown] slideshow={"slide_type": "skip"}
# Two tests. Whatever the model says at a padded place, NaN included, changes nothing. And the loss
# is the sum over all real words, divided by their number.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the loss: NaN at padded places, and the sum by hand
loss = sequence_loss(logits, batch.tgt_out, batch.tgt_lens)
dyed = logits.detach().clone()
for b, length in enumerate(batch.tgt_lens.tolist()):
    dyed[b, length:] = math.nan
torch.testing.assert_close(sequence_loss(dyed, batch.tgt_out, batch.tgt_lens), loss.detach())

total = 0.0
for b, length in enumerate(batch.tgt_lens.tolist()):
    log_probs = logits[b, :length].log_softmax(dim=-1)
    total -= sum(log_probs[t, word] for t, word in enumerate(batch.tgt_out[b, :length]))
torch.testing.assert_close(total / batch.tgt_lens.sum(), loss)
print("checked: NaN at padded places changes nothing; the loss equals the sum by hand, 3 sentences")
print(f"loss {loss:.2f}, guessing evenly {math.log(len(tgt_vocab)):.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# An untrained model is about as good as a die with one side for each word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Six steps of training
#
# Forward, loss, backward, a step against the gradient. Gradients of RNNs sometimes explode, so
# they are clipped to length 1. (The three sentences are from the test split. This model is thrown
# away.)

# %% slideshow={"slide_type": "fragment"}
model = EncoderDecoder(encoder, decoder)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
for _ in range(6):
    logits = model(batch.src, batch.tgt_in, batch.src_lens)
    loss = sequence_loss(logits, batch.tgt_out, batch.tgt_lens)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
print(*(f"{loss:.1f}" for loss in losses))
assert losses[-1] < losses[0] - 1

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Six steps on three sentences: ask what the model has learned. Three sentences by heart. The
# package's `train` is this loop with shuffled batches, a falling learning rate and checkpoints: 600
# steps on 64 sentences each make the model of the next slides.

# %% [markdown] slideshow={"slide_type": "skip"}
# The package's `train` is this loop, with what long runs need: shuffled batches, a learning rate
# that falls, progress, checkpoints, GPUs. 600 steps on 64 sentences each.


# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
def trained(name, **options):
    """A model of the course, trained on the corpus; the same numbers at each call."""
    torch.manual_seed(0)
    model = MODELS[name](len(src_vocab), len(tgt_vocab), 96)
    started = time.process_time()
    train(model, corpus.train, src_vocab, tgt_vocab, steps=600, **options)
    print(f"{time.process_time() - started:.0f} s")
    return model


without = trained("seq2seq")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Now it has to speak alone
#
# While training, the decoder read the true words. Now there are none. **Greedy decoding** takes
# the most likely word, feeds it back as the next input, and goes on until `<eos>`.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Translates three test sentences
for pair, words in zip(
    corpus.test[:3],
    translate(without, [pair.source for pair in corpus.test[:3]], src_vocab, tgt_vocab),
    strict=True,
):
    print("English", *pair.source)
    print("   says", *words)
    print("   true", *pair.target, "\n")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The two short ones are right. The long one begins well and then becomes another sentence, French
# enough, with a slip (*hommes* wants *chers*). The beginning holds, and the rest is what might
# follow. It remembers like you did.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask: 'Is this a bad language model?' Hardly: it writes tolerable French, and has lost the plot.
# Fluent is one thing, faithful another: machine translation has told the two apart for decades.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A measure: BLEU
#
# BLEU counts how many of the translation's word sequences, of one to four words, are also in the
# reference (each at most as often as there), and takes the geometric mean of the four shares. By
# hand:
#
# - says *la fille mange une pomme rouge*
# - true *la fille mange une pomme verte*

# %% [markdown] slideshow={"slide_type": "fragment"}
# Of 6 single words 5 are right, of 5 pairs 4, of 4 triples 3, of 3 fours 2. Hence
# $\left(\tfrac56 \cdot \tfrac45 \cdot \tfrac34 \cdot \tfrac23\right)^{1/4} = (1/3)^{1/4} = 0.76$.
# Multiplied by 100, that is BLEU.

# %% slideshow={"slide_type": "skip"}
green = "la fille mange une pomme verte".split()
red = "la fille mange une pomme rouge".split()
print(f"{bleu([red], [[green]]):.1f}")  # each translation has a list of references
assert math.isclose(bleu([red], [[green]]), 100 * (1 / 3) ** 0.25)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Then silence pays. Against *la fille mange une pomme verte*, the translation *la
# fille mange une pomme* has no wrong word at all. Is its BLEU 100?

# %% slideshow={"slide_type": "skip"}
short = green[:5]
print(f"{bleu([short], [[green]]):.1f}")
assert math.isclose(bleu([short], [[green]]), 100 * math.exp(1 - 6 / 5))

# %% [markdown] slideshow={"slide_type": "fragment"}
# No: all shares are 1, but a translation that is shorter than the reference pays a **brevity
# penalty**, here $e^{1 - 6/5} = 0.82$. Counts are summed over the whole test set before any share
# is taken, so BLEU is a measure of a corpus, not of a sentence.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# On the slide before, let the room call out the four shares. Here about half say 100. Then ask for
# another way to cheat: to say a sure word twice. That is why each counts at most as often as in the
# reference.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Long sentences are lost
#
# All of the test split. *exact* is the share of translations that equal the reference word for
# word.

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Translates the test split, and prints BLEU by the length of the sentence
BUCKETS = [(3, 5), (6, 8), (9, 11), (12, 16)]  # source words


def bleu_of(result, kept):
    """BLEU over some of the test sentences, by their numbers."""
    return bleu([result.translations[i] for i in kept], [corpus.test[i].targets for i in kept])


def bleu_by_length(result):
    lengths = [len(pair.source) for pair in corpus.test]
    kept = [[i for i, n in enumerate(lengths) if low <= n <= high] for low, high in BUCKETS]
    return [bleu_of(result, numbers) for numbers in kept]


results = {"without": evaluate(without, corpus.test, src_vocab, tgt_vocab)}
print("all", results["without"])
for (low, high), score in zip(BUCKETS, bleu_by_length(results["without"]), strict=True):
    print(f"{low:2d} to {high:2d} words: BLEU {score:5.1f}")
shortest, *_, longest = bleu_by_length(results["without"])
assert longest < shortest / 2

# %% [markdown] slideshow={"slide_type": "fragment"}
# The longer the sentence, the worse: from a BLEU of about 85 down to about 20.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Our suspect is the summary: 96 numbers have to hold everything, before anybody knows what will be
# asked.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Back to the votes on the board. Ask who is guilty before the last sentence appears: the training
# data, the decoder, or the vector? So far nobody can know; the next section changes one thing.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Look back at every step
#
# The encoder made a state at *every* word. Why throw them away? Bahdanau, Cho and Bengio let the
# decoder ask them anew at each step. In the words of chapter 1:
#
# - **query**: the decoder's state before the step, which has read all French words so far but the
#   last one;
# - **keys and values**: the encoder's states $\mathbf h_1, \dots, \mathbf h_T$;
# - **answer**: a context for this step alone,
#
# $$\mathbf c_{t'} = \sum_{t=1}^{T} \alpha(\mathbf s_{t'-1}, \mathbf h_t)\, \mathbf h_t.$$
#
# There are two clocks: $t$ counts English words, $t'$ French ones.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** By hand: three English words with the states $(6, 0)$, $(0, 6)$ and $(3, 3)$. At the
# first French word the scores are $\ln 4, 0, 0$, at the second $0, 0, \ln 4$. So the exponentials
# are 4, 1, 1 and 1, 1, 4. What is the context at each of the two steps?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Works out both contexts with attention_pooling
states = torch.tensor([[6.0, 0.0], [0.0, 6.0], [3.0, 3.0]])
scores = torch.tensor([[math.log(4), 0.0, 0.0], [0.0, 0.0, math.log(4)]])
context, weights = attention_pooling(scores, states)
print("weights of step 1", weights[0], "context", context[0])
print("weights of step 2", weights[1], "context", context[1])
torch.testing.assert_close(context, torch.tensor([[4.5, 1.5], [3.0, 3.0]]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# $\tfrac46 (6, 0) + \tfrac16 (0, 6) + \tfrac16 (3, 3) = (4.5, 1.5)$: the same states, asked twice,
# gave two answers. The summary gives one answer to all questions.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# On paper, two minutes, in pairs. The usual slip: to take 4, 1, 1 for weights and get (27, 9). Ask
# what a weight must add up to.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which state asks?
#
# **Predict.** At step $t'$ the decoder makes $\mathbf s_{t'}$ from its last word and from
# $\mathbf c_{t'}$. The formula asks with $\mathbf s_{t'-1}$. Why not with the newest state,
# $\mathbf s_{t'}$?

# %% [markdown] slideshow={"slide_type": "fragment"}
# The state needs the context, so the context cannot need the state. The query is the state *before*
# the step.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Wait until somebody says 'that is circular'; if nobody does, draw an arrow from each thing to what
# needs it. Who knows more may object that Luong et al. (2015, arXiv:1508.04025) do ask with the
# newest state: there the context comes in after the state is made.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One look
#
# Here is one look of the package's decoder, with the additive score of chapter 3. `hidden` asks,
# `keys` and `values` are the encoder's states.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the source of Seq2SeqAttentionDecoder.attend
show_source(Seq2SeqAttentionDecoder.attend)

# %% [markdown] slideshow={"slide_type": "fragment"}
# `keys` come projected already. The English sentence does not change while the French one is
# written, so the product $\mathbf W_k \mathbf h_t$ is worked out once, in `init_state`.

# %% [markdown] slideshow={"slide_type": "skip"}
# Check the two claims, on the package's own layer: the weights of the first step come from the
# encoder's last state, and padding gets nothing.

# %% slideshow={"slide_type": "skip"}
torch.manual_seed(1)
model = MODELS["bahdanau"](len(src_vocab), len(tgt_vocab), 96).eval()
outputs, summary = model.encoder(batch.src, batch.src_lens)
logits, weights = model(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
check_shape(weights, (3, batch.tgt_in.shape[1], 14))  # each French place looks at 14 English ones

attention = model.decoder.attention
query = attention.W_q(summary[-1])[:, None]  # (B, 1, H): the state before the first step
keys = attention.W_k(outputs.transpose(0, 1))  # (B, S, H)
scores = torch.tanh(query + keys) @ attention.w_v.weight[0]
first = masked_softmax(scores[:, None], batch.src_lens)
torch.testing.assert_close(weights[:, :1], first)
for b, length in enumerate(batch.src_lens.tolist()):
    assert (weights[b, :, length:] == 0).all()
    torch.testing.assert_close(weights[b].sum(dim=-1), torch.ones(len(weights[b])))
print("the first query is the encoder's last state; padding gets exactly 0")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Is it worth it?
#
# The same sizes, the same data, the same 600 steps. One difference: the decoder may look back. That
# takes two matrices and a vector more, and more time for each step. (The alignment error rate comes
# later.)

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Trains the model with attention, and compares the two
with_attention = trained("bahdanau")
size = {
    model: sum(parameter.numel() for parameter in model.parameters())
    for model in (without, with_attention)
}
print(f"{size[without]:,} and {size[with_attention]:,} parameters")
assert size[with_attention] - size[without] == 2 * 96 * 96 + 96
results["with attention"] = evaluate(with_attention, corpus.test, src_vocab, tgt_vocab)
for name, result in results.items():
    print(f"{name:15s}", result)
assert results["with attention"].bleu >= 90

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws BLEU against the length of the sentence, for both models
figure, ax = plt.subplots(figsize=(8, 4.2))
names = [f"{low} to {high}" for low, high in BUCKETS]
ax.plot(names, bleu_by_length(results["with attention"]), "o-", label="with attention")
ax.plot(names, bleu_by_length(results["without"]), "s--", label="one vector", color="#d95f02")
ax.set(xlabel="English words", ylabel="BLEU", ylim=(0, 100))
ax.set_title("One vector is not enough for a long sentence; attention hardly minds")
ax.legend()
plt.show()
gain = bleu_by_length(results["with attention"])[-1] - bleu_by_length(results["without"])[-1]
assert gain >= 10

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: BLEU against the length of the English sentence. With attention the line stays near or
# above 90. Without, it falls from about 85 for 3 to 5 words to about 20 for 12 to 16.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# This is figure 2 of Bahdanau et al. (2015), in small. With a look back, the same network
# translates long sentences, too. That speaks against the one vector. But it was one size, one start
# and 600 steps, and short sentences gain as well: without attention, training may also be slower.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The fair objection: 'give it a larger vector'. Let the room try 192 units at home (exercise for
# the bold). It helps, and it only moves the cliff: a fixed size meets a longer sentence sooner or
# later. Attention's memory grows with the sentence.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What did it look at?
#
# Each row of weights belongs to one French word. The orange frames are the true links, pale ones
# possible links. Move the slider to write the sentence word by word; **Show lines** draws links.

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** Where does the decoder look when it writes *le*? What could it want there?

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of one sentence beside its true links, step by step
from d2l_attention.views import AttentionView


def weights_of(model, pair):
    """The weights behind each word of the pair's French sentence, (T, S) with the <eos> cut off."""
    batch = make_batch([pair], src_vocab, tgt_vocab)
    _, weights = model(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
    return weights[0, : len(pair.target), : len(pair.source)].detach()


def step_by_step(weights):
    """(T, S) -> frames (1 + T, 1, T, S): all rows, then the first, the first two, and so on."""
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
# instead of 'the', 'à' at 'the' instead of 'to', and 'pas' more at 'did' and 'return' than at
# 'not'.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### *le* asks the noun
#
# Nobody told the model which word belongs to which. It learned to look, because looking lowers the
# loss. And *le*? English 'the' does not tell whether French needs *le*, *la*, *l'* or *les*. The
# noun tells. (*à* may have a reason, too: with *le* it would become *au*.)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The view on the slide before is alive without a kernel. Step to 'writing le' and wait. The first
# guess is 'it makes a mistake'. Say that the word it writes is right, and ask again: what must one
# know to write *le*? Then let them find the other rows that leave their frames.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Is attention an alignment?
#
# Take for each French word the English word with the largest weight as its link. How wrong are the
# links $A$, given sure links $S$ and possible links $P \supseteq S$? The **alignment error rate**:
#
# $$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}.$$
#
# Sure links must be found; possible ones may be. (While we look, the decoder reads the true French
# words: with its own, a wrong word would count as a wrong link.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# By hand: $S$ has two links, $P$ one more. A model finds one sure link, the possible one, and a
# wrong one.

# %% [markdown] slideshow={"slide_type": "fragment"}
# $|A \cap S| = 1$ and $|A \cap P| = 2$, so the rate is $1 - \tfrac{1 + 2}{3 + 2} = 0.4$.

# %% slideshow={"slide_type": "skip"}
S, P = {(0, 0), (1, 2)}, {(0, 0), (1, 2), (1, 1)}
A = {(0, 0), (1, 1), (0, 2)}
print(f"{alignment_error_rate([A], [S], [P]):.2f}")
assert math.isclose(alignment_error_rate([A], [S], [P]), 0.4)

# %% [markdown] slideshow={"slide_type": "subslide"}
# A number needs neighbours. Two that need no neural network:
#
# - the **diagonal**: word 3 of 6 belongs to word 4 of 8;
# - **IBM model 1** of 1993: how often does which word become which? Guess, share out the links
#   accordingly, count, guess anew, five times. The order of the words does not enter.

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** Our model has a BLEU of 94. IBM model 1 does not even know the order of words. Whose
# alignments are better?


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares the error rates of the diagonal, IBM model 1 and attention
def error_rate(links, pairs=corpus.test):
    return alignment_error_rate(
        links, [pair.sure for pair in pairs], [pair.possible for pair in pairs]
    )


ibm = IBMModel1([(pair.source, pair.target) for pair in corpus.train], iterations=5)
aer = {
    "diagonal": error_rate([align_diagonally(len(p.source), len(p.target)) for p in corpus.test]),
    "IBM model 1": error_rate([ibm.align(p.source, p.target) for p in corpus.test]),
    "attention": results["with attention"].alignment_error_rate,
}
for name, rate in aer.items():
    print(f"{name:12s} {rate:.3f}")
assert aer["IBM model 1"] < aer["attention"] < aer["diagonal"]

# %% [markdown] slideshow={"slide_type": "fragment"}
# A model that translates well aligns worse than one from 1993. (The two are not asked the same
# question: IBM model 1 sees the French word, and attention looks before that word is written.) Here
# **attention is not alignment**, and Koehn and Knowles (2017) found the same on real text. How can
# it look at the wrong word and write the right one?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Vote by hands before the numbers. Nearly all vote for the network. Then wait: somebody says 'so it
# is broken'. It has 94 BLEU. Leave the last question open until the slide after next.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Measure where it looks instead. Take the French words with a single sure link. How far is the most
# attended English word from the true one?


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Measures how far the most attended word is from the true one
def look_ups(model):
    """(French word, places to the right of its true word), for words with one sure link."""
    found = []
    linked = align(model, corpus.test, src_vocab, tgt_vocab)
    for links, pair in zip(linked, corpus.test, strict=True):
        sure = {}
        for i, j in pair.sure:
            sure.setdefault(j, []).append(i)
        found += [(pair.target[j], i - sure[j][0]) for i, j in links if len(sure.get(j, ())) == 1]
    return found


found = look_ups(with_attention)
for places in range(-2, 3):
    print(f"{places:+d}  {sum(far == places for _, far in found) / len(found):6.1%}")
missed = [(word, far) for word, far in found if far != 0]
next_door = sum(abs(far) == 1 for _, far in missed) / len(missed)
print(f"\nof the misses, next door: {next_door:.0%}")
assert next_door > 0.6

# %% [markdown] slideshow={"slide_type": "fragment"}
# When it misses, it looks next door, and mostly to the right.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Which French words are these? What could a look one word ahead be good for?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Counts articles and their like among the misses
DETERMINERS = set(
    "le la l' les un une des mon ma mes son sa ses notre nos leur leurs ce cet cette ces".split()
)
of_all = sum(word in DETERMINERS for word, _ in found) / len(found)
of_missed = sum(word in DETERMINERS for word, _ in missed) / len(missed)
ahead = [far > 0 for word, far in missed if word in DETERMINERS]
print(f"articles and their like: {of_all:.0%} of the words, {of_missed:.0%} of the misses")
print(f"of these misses, {sum(ahead) / len(ahead):.0%} look ahead")
assert of_missed > 1.5 * of_all and sum(ahead) > 0.6 * len(ahead)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *le*, *ma*, *cette*: their form depends on the noun that follows. The encoder reads in both
# directions, so the noun's state also knows of the word before it. In these cases attention goes
# where the information is. They are about a third of the misses; the rest we have not explained.
# The loss asks for the right French word, not for the way to it.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Most find the articles, thanks to *le*. This is the place for a warning. Heat maps are shown
# everywhere as explanations. Here is a case with the truth at hand, and every fifth row points to
# the wrong word. See Jain and Wallace (2019) for the debate.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Teach it where to look
#
# If the alignment matters, ask for it. Add one term to the loss, times 0.1: for each French
# word $t'$ that has a link (and then the mean over these words)
#
# $$-\log \sum_{t \text{ linked to } t'} \alpha_{t', t}.$$
#
# It is 0 where all the weight falls on true words, and large where little does.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Predict.** The error rate will fall. And BLEU: does it rise, fall, or stay?

# %% slideshow={"slide_type": "skip"}
show_source(guidance_loss)

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Trains the guided model, and compares the three
guided = trained("bahdanau", guidance=0.1)
results["guided"] = evaluate(guided, corpus.test, src_vocab, tgt_vocab)
for name, result in results.items():
    print(f"{name:15s}", result)
assert results["guided"].bleu >= 90
assert results["guided"].alignment_error_rate <= 0.05

# %% [markdown] slideshow={"slide_type": "fragment"}
# The error rate almost vanishes, and BLEU is as good as before. The model always could look at
# the right word; there was no reason to.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Two good arguments, let the room find both: it rises, since looking at the right word must help;
# it falls, since the model is no longer free. The next slide is alive: switch between its two
# frames.

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows the weights of both models for the same sentence
AttentionView(
    torch.stack([weights_of(model, pair)[None] for model in (with_attention, guided)]),
    queries=pair.target,
    keys=pair.source,
    frames=["left alone", "guided"],
    compare=link_matrix(pair),
    compare_label="true links",
    title="Before and after",
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the same sentence for two models, one a frame. Left alone, dark cells lie in and beside
# the orange frames. Guided, every dark cell lies in a frame.*

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is hard, and what is new
#
# **Predict.** Each sentence of the test set is tagged with what makes it hard: agreement, the place
# of the adjective, negation, a pronoun, two clauses and so on. Where does the one vector lose most?

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Prints BLEU of the three models for each kind of difficulty
from d2l_attention.data.grammar import PHENOMENA

tagged = {}  # for each tag the sentences that have it
for i, pair in enumerate(corpus.test):
    for tag in pair.tags:
        tagged.setdefault(tag, []).append(i)

print(f"{'sentences':>69s}" + "".join(f"{name:>16s}" for name in results))
worst = {}
for tag, kept in sorted(tagged.items()):
    scores = [bleu_of(result, kept) for result in results.values()]
    row = f"{tag:26s}{PHENOMENA[tag]:38s}{len(kept):5d}"
    print(row + "".join(f"{score:16.1f}" for score in scores))
    worst[tag] = scores[0]
assert set(sorted(worst, key=worst.get)[:2]) == {"two clauses", "relative clause"}

# %% [markdown] slideshow={"slide_type": "fragment"}
# In sentences with two clauses or with a relative clause: they are the longest, and there is most
# to remember. With attention no kind falls far behind, and what is hard for a student of
# French, the place of the adjective for example, is not hard for it.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Who learned French answers with what was hard for them: agreement, pronouns. The table in the
# notebook has all kinds, and how each model does on them.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Words that never met
#
# In the **compositional** split every sentence has an adjective and a noun that never stood
# together in training, though each was there. Who learned words, and who learned phrases?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares the three models on new pairs of words
models = {"without": without, "with attention": with_attention, "guided": guided}
unseen = {
    name: evaluate(model, corpus.compositional, src_vocab, tgt_vocab)
    for name, model in models.items()
}
for name, result in unseen.items():
    lost = results[name].bleu - result.bleu
    print(f"{name:15s} BLEU {result.bleu:5.1f}, {lost:4.1f} less than on the test split")
assert results["without"].bleu - unseen["without"].bleu > 5
assert unseen["with attention"].bleu > 80
diagonal = [align_diagonally(len(p.source), len(p.target)) for p in corpus.compositional]
limit = error_rate(diagonal, corpus.compositional)
assert all(unseen[name].alignment_error_rate < limit for name in ("with attention", "guided"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Attention can fetch adjective and noun separately, which is probably why a new pair costs it
# little.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Not only the most likely word
#
# Greedy decoding cannot take a word back. **Beam search** keeps the $k$ best beginnings instead of
# one. Long sentences are less likely than short ones, so the sum of log-probabilities is divided
# by $L^{0.75}$, with $L$ tokens.
#
# **Predict.** For which model does a beam of four change more translations: for the one that knows
# what it wants to say, or for the one that guesses?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output", "hide-input"]
# Compares greedy decoding with a beam of four
batch = make_batch(corpus.test, src_vocab, tgt_vocab)
ends = {"bos": tgt_vocab[BOS], "eos": tgt_vocab[EOS], "max_len": 40}
references = [pair.targets for pair in corpus.test]
changed = {}
for name in ("without", "with attention"):
    greedy = greedy_decode(models[name], batch.src, batch.src_lens, **ends)
    beam = beam_search(models[name], batch.src, batch.src_lens, beam_size=4, **ends)
    said = [tgt_vocab.to_tokens(words) for words in beam.sentences()]
    pairs_of_words = zip(greedy.sentences(), beam.sentences(), strict=True)
    changed[name] = sum(one != other for one, other in pairs_of_words)
    print(
        f"{name:15s} BLEU greedy {results[name].bleu:.1f}, beam {bleu(said, references):.1f}; "
        f"{changed[name]} of {len(said)} translations differ"
    )
assert changed["with attention"] < changed["without"]

# %% [markdown] slideshow={"slide_type": "fragment"}
# For the one that guesses. Where one word is clearly best at each step, the best beginning stays
# the best to the end. BLEU gains a little for both.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half and half, as a rule. Ask for a reason with each vote. If time is short, this section is the
# one to leave out.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Your sentence
#
# Write a sentence, or pick one. The model translates at every key press. Step through its words
# with the slider, and see what each of them looked at. The vocabulary is small: a word that the
# model has never seen is named. (Capitals and full stops do not matter; write 'did not' for
# 'didn't'.)

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** Change 'white' into 'beautiful' in the first example. Which French words move? And
# which letters change when the woman becomes a man, or the pears become a pear?

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output", "hide-input"]
# Shows the view for your sentence
from d2l_attention.views import SentenceView


def look(words):
    """The guided model's translation of these words, and the weights behind it."""
    source = torch.tensor([src_vocab[[*words, EOS]]])
    lens = torch.tensor([len(words) + 1])
    found = greedy_decode(guided, source, lens, **ends, need_weights=True)
    target = tgt_vocab.to_tokens(found.tokens[0])
    return {
        "weights": step_by_step(found.weights[0]),
        "queries": target,
        "keys": [*words, EOS],
        "frames": step_labels(target),
        "title": " ".join(target[: int(found.lens[0])]),
    }


SentenceView(
    look,
    corpus.tokenize,
    src_vocab,
    [
        "the woman does not eat the white pears",
        "she looked at the old king and left",
        "he looked for his black cat but did not find it",
    ],
)

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a text field with an English sentence, buttons with examples, and a heat map of the
# French words against the English ones, with a slider for the steps of the decoding.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# A new sentence needs the kernel: run the notebook to this cell before the lecture, and go there
# now. Take words from the room, and let it bet on the French before you type. The slide has the
# first example alone.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Translates the first example, and what the changes make of it
for words in ("the woman does not eat the white pears", "the man does not eat the beautiful pear"):
    print(look(words.split())["title"])

# %% [markdown] slideshow={"slide_type": "skip"}
# *blanches* stands behind its noun, *belle* in front of it, and the articles agree with their
# nouns. Three English words changed, and five French ones answered.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## On real text
#
# The same code reads the sentence pairs of the Tatoeba project, from which the book takes
# its English-French file. From a shell, with a downloaded file (the chapter's sources say where
# from):
#
# ```
# python -m d2l_attention.training --data fra-eng.zip --steps 1200 --out run
# ```
#
# Do not expect much in a coffee break. The vocabularies have 9,161 English and 17,586 French words
# instead of some hundreds, and people do not write like a grammar. We ran this command once, ten
# minutes of one CPU thread: BLEU 12 on 1,000 new sentences. We have not trained the model without
# attention on them, so this number has no neighbour. Take a GPU or a night, and more units
# (`--num-hiddens`). Ctrl-C saves; `--resume` goes on.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - One vector for a whole sentence is a bottleneck: quality falls with length.
# - Bahdanau attention asks all encoder states anew at each step. Query: the decoder's state before
#   the step. Keys and values: the encoder's states.
# - Teacher forcing in training, its own words in use; padding counts neither in the loss nor in
#   the weights.
# - Good translations do not make good alignments. Here the truth is known: in the run shown
#   attention misses every fifth word, mostly by one place; a small guidance loss mends it.
# - BLEU is a measure of a corpus. Ask of every average which sentences it hides.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell, run it, and `check` says what is right or what went wrong.
# `hint("5.1")` gives one more hint each time, `solution("5.1")` the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.1** One look at the source · *easy, 4 minutes* · by hand
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

answer = None

check("5.1", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.2** How wrong is this alignment? · *easy, 5 minutes* · by hand
#
# 'i do not like cats' is 'je n' aime pas les chats'.
#
# - Sure: i–je, not–n', like–aime, not–pas, cats–chats.
# - Possible as well: do–aime, cats–les.
# - A model finds: i–je, do–n', do–aime, not–pas, cats–les, cats–chats.
#
# Work out the alignment error rate $1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}$ of what it
# finds, to three decimals.

# %% slideshow={"slide_type": "skip"}
answer = None

check("5.2", answer)

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.3** One step of attention · *medium, 10 minutes* · complete a function
#
# What does the decoder's state before a step, `hidden` (B, H), see of the encoder's `states`
# (B, S, H)? The scores are $w_v^\top \tanh(W_q s + W_k h)$, with `W_q` and `W_k` of shape (A, H)
# and `w_v` (A,). Return the context (B, H) and the weights (B, S), in the dtype of the inputs,
# float32 or float64. Gradients must reach all of them but the lengths. Lengths (B,) are 1 or more;
# what lies behind them gets no weight. Scores lie between -10,000 and 10,000, those of the padding
# too.


# %% slideshow={"slide_type": "skip"}
def attention_step(hidden, states, valid_lens, W_q, W_k, w_v):
    """One look of `hidden` (B, H) at `states` (B, S, H): context (B, H) and weights (B, S).

    W_q and W_k (A, H) are stored as in `nn.Linear`, w_v is (A,), and valid_lens (B,) counts the
    words of each sentence, from 1 to S.

    If w_v is 0, all scores are 0: states [[[2, 4], [6, 8], [9, 9]]] and the length 2 give the
    context [[4, 6]] and the weights [[0.5, 0.5, 0]].
    """
    ...


check("5.3", attention_step)

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.4** Teacher forcing and its loss · *medium, 10 minutes* · complete a function
#
# `targets` (B, T) holds the numbers of the words that the decoder is to say, each sentence with its
# `<eos>` and then padding, which may be any word's number. `lens` (B,) counts words and `<eos>`.
# (They are a batch's `tgt_out` and `tgt_lens`.) `decoder(tokens)` takes what it reads, (B, T), and
# returns logits (B, T, N); the first token that it reads is `bos`. Return the mean cross-entropy
# over the real words of the whole batch, `<eos>` included: a tensor of shape () from which
# gradients reach the decoder.


# %% slideshow={"slide_type": "skip"}
def teacher_forcing_loss(decoder, targets, lens, bos):
    """Mean cross-entropy over the real words, a tensor of shape ().

    `targets` (B, T) is what the decoder is to say, `lens` (B,) counts each sentence's words;
    `decoder(tokens)` reads (B, T) tokens and gives logits (B, T, N).

    A decoder whose logits are all 0, over N = 8 words, has the loss ln 8 = 2.079.
    """
    ...


check("5.4", teacher_forcing_loss)

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.5** It runs, and translates badly · *medium, 12 minutes* · find the bug
#
# `run_decoder` has three bugs. Mend it. `attend(query)` gives the context (B, C) for a query
# (B, H). `step(inputs, state)` is the recurrent cell: its inputs are context and token, (B, C + E)
# in this order, and it gives the new state (B, H). Read the tokens of `embedded` (B, T, E) one
# after the other, from `state` on, and return all new states, (B, T, H). Gradients must reach
# `embedded` and `state`.


# %% slideshow={"slide_type": "skip"}
def run_decoder(attend, step, embedded, state):
    context = attend(state)
    outputs = []
    for token in embedded.unbind(dim=1):
        new_state = step(torch.cat((token, context), dim=-1), state)
        context = attend(state)
        state = new_state
        outputs.append(state)
    return torch.stack(outputs)


check("5.5", run_decoder)

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.6** 99 BLEU, and nonsense in use · *medium, 12 minutes* · find the bug
#
# `translate_greedily` gives 99 BLEU on the validation set and nonsense in use, where `reference` is
# `None`. Repair it. `decoder(token, state)` returns the logits (N,) of the next word and the new
# state; the first token is `bos`. Return the most likely words as a list of numbers, without `bos`
# and `eos`, at most `max_len` of them. `reference` must change nothing.


# %% slideshow={"slide_type": "skip"}
def translate_greedily(decoder, state, reference, bos, eos, max_len):
    words = []
    for token in [bos, *reference]:
        logits, state = decoder(token, state)
        words.append(logits.argmax().item())
    return words


check("5.6", translate_greedily)

# %% [markdown] slideshow={"slide_type": "skip"}
# **5.7** The test that catches a wrong BLEU · *hard, 20 minutes* · write the test
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


# %% slideshow={"slide_type": "skip"}
def test_bleu(score):
    """Pass on the right BLEU, and fail by an `AssertionError` on wrong ones.

    `score(hypotheses, references)` is called as the package's `bleu`: one translation of six
    right words, `score([words], [[words]])`, gives 100, and only that is not enough of a test.
    """
    ...


check("5.7", test_bleu)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - D. Bahdanau, K. Cho, Y. Bengio, *Neural Machine Translation by Jointly Learning to Align and
#   Translate*, ICLR 2015, arXiv:1409.0473. Section 3, figures 2 and 3, appendix A.
# - I. Sutskever, O. Vinyals, Q. V. Le, *Sequence to Sequence Learning with Neural Networks*,
#   NeurIPS 2014, arXiv:1409.3215. K. Cho et al., *Learning Phrase Representations using RNN
#   Encoder-Decoder for Statistical Machine Translation*, EMNLP 2014, arXiv:1406.1078. The
#   translators without attention.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 10.5 to
#   10.8 and 11.4. [d2l.ai](https://d2l.ai)
# - K. Papineni et al., *BLEU: a Method for Automatic Evaluation of Machine Translation*, ACL 2002.
#   M. Post, *A Call for Clarity in Reporting BLEU Scores*, WMT 2018, arXiv:1804.08771 (sacrebleu).
# - F. J. Och, H. Ney, *A Systematic Comparison of Various Statistical Alignment Models*,
#   Computational Linguistics 29(1), 2003. Sure and possible links, the error rate.
# - P. F. Brown et al., *The Mathematics of Statistical Machine Translation: Parameter Estimation*,
#   Computational Linguistics 19(2), 1993. Section 4.1: model 1.
# - W. Chen et al., *Guided Alignment Training for Topic-Aware Neural Machine Translation*, AMTA
#   2016, arXiv:1607.01628. L. Liu et al., *Neural Machine Translation with Supervised Attention*,
#   COLING 2016, arXiv:1609.04186. The guidance loss.
# - P. Koehn, R. Knowles, *Six Challenges for Neural Machine Translation*, WNMT 2017,
#   arXiv:1706.03872. Section 3.5: attention and word alignment.
# - S. Jain, B. C. Wallace, *Attention is not Explanation*, NAACL 2019, arXiv:1902.10186.
# - Tatoeba, [tatoeba.org](https://tatoeba.org), sentence pairs under CC BY 2.0; as one file a
#   language: [manythings.org/anki](https://www.manythings.org/anki/).
