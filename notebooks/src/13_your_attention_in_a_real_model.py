# %% [markdown] slideshow={"slide_type": "slide"}
# # 13 · Your attention in a real model
#
# **You will**
# - find the two kinds of head with which a model of two layers continues a repeated text;
# - multiply a head's matrices, and read from them what it looks for and what it writes;
# - put seven lines of your own into a Llama as its attention;
# - test by ablation what a head is for, in your own model and in a published language model.
#
# Core path: 85 to 130 minutes, in two sittings. Going further: 25. Exercises: 129. You can pause
# half-way, at *A place to stop*. Builds on chapters 3, 4, 6 and 7. *Dive into Deep Learning* (D2L)
# ends its Transformer in section 11.7, and has BERT, T5 and GPT in 11.9.

# %% [markdown] slideshow={"slide_type": "notes"}
# 54 minutes, for two lectures of 45: 24 for the first, up to *A place to stop*, and 30 for the
# second. Run the whole notebook beforehand, because three models are trained in it, the longest in
# half a minute. Exercises 13.6, 13.8 and 13.9 are on the student's page, in the core: in the
# lecture, pairs write them on paper. The slides of *Going further* come after the summary.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import math
import os

import matplotlib.pyplot as plt
import torch
import transformers
from transformers import AutoModel, LlamaConfig
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from d2l_attention import show_source
from d2l_attention.experiments import smollm2
from d2l_attention.experiments.repeats import (
    LETTERS,
    accuracy,
    loss_on_repeats,
    repeated,
    small_llama,
    train,
)
from d2l_attention.real_models import (
    attention_maps,
    describe,
    use_attention,
)
from d2l_attention.real_models.published import measure, stored
from d2l_attention.views import HeadsView
from d2l_attention.views.palette import FAINT, GREY, INK, RULE, WEIGHT, signed
from d2l_attention.views.plots import heatmap, set_style
from d2l_attention.views.schematics.drawing import LEARNED, MARKED, TENSOR, Diagram

torch.set_num_threads(1)
torch.set_printoptions(precision=2, sci_mode=False)
transformers.utils.logging.disable_progress_bar()
set_style()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you need
#
# Which letter comes next in `Dive2AtnDive2At`? You have never seen this text, and yet you know. A
# small language model, a Llama, can learn it as well, and here you find out how. Its parts are:
#
# - **Scores and softmax** (chapters 3 and 4). A query's weights are the softmax of its scores
#   $q \cdot k / \sqrt d$. A mask is `True` where a query may attend.
# - **Heads** (chapter 6) attend side by side, each with queries, keys and values of its own.
# - **Rotary positions** (chapter 7) turn queries and keys, so that a score depends on the distance.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room complete the text, and ask how they knew: they looked for the earlier
# `t`, and then one further. These are two steps. Say that nothing is loaded from the network today:
# the models are small, and trained here.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Sequences that repeat: one layer and two
#
# How does a model continue a text that it has never seen, once the text begins to repeat itself? To
# find out, let us give it nothing else to learn: eight to sixteen random letters, digits and signs,
# followed by the same ones once more.


# %% slideshow={"slide_type": "-"}
def as_ids(text):
    return torch.tensor([[LETTERS.index(letter) for letter in text]])


def as_text(ids):
    return "".join(LETTERS[i] for i in ids)


for half in (8, 11):
    print(as_text(repeated(1, half, torch.Generator().manual_seed(half))[0]))

# %% [markdown] slideshow={"slide_type": "-"}
# The first half is pure chance. In the second half, however, each next token can be known, and only
# these tokens count in the loss.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for the next letter of the second line as you uncover it: where does the room
# become sure? The length of the half is drawn anew in each step of training.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What one layer can find
#
# In the text below, the model has just read the second `i`, at position 9. It should predict `v`,
# which followed the first `i`.
#
# ```
# position   0 1 2 3 4 5 6 7 8 9
# letter     D i v e 2 A t n D i
# ```
#
# In layer 1, each query and each key is made from one token and its position, and from nothing
# else.
#
# **Predict.** Looking a fixed distance back fits only one length of the half. So let the query
# search by letter. Which key can the query of position 9 recognise: that of position 1, that of
# position 2, or both?

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only that of position 1, which is made from the same letter. The key of position 2 is made from
# `v`, and nothing in it says that `i` came before. So the query can find the earlier `i`, but that
# is the letter which it knows already. The answer is one position further, and in one layer the
# letters do not lead there.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Draw the two positions with their tokens. Many say 'both, it looks one further'.
# Ask them by which number in the key of position 2 the query should know it. If someone says 'by
# the distance': that would do if the half always had the same length. This is why the length is
# drawn anew in each step.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train both
#
# Can a second layer help? Let us train two small Llamas equally long, one of two layers and one of
# a single layer. Both are 64 wide. Each layer has four heads, followed by a feed-forward network.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Shows the loop of training
show_source(train)

# %% [markdown] slideshow={"slide_type": "skip"}
# The next cell takes about a minute. `accuracy` draws 900 new sequences, and returns how often the
# most likely next token is right in the second half.

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
two, one = small_llama(num_layers=2), small_llama(num_layers=1)
losses = {"two layers": train(two), "one layer": train(one)}
two.eval(), one.eval()
for name, model in {"two layers": two, "one layer": one}.items():
    print(f"{name:10} right in the second half: {accuracy(model):.0%}")

# %% slideshow={"slide_type": "fragment"} tags=["hide-input", "nbval-ignore-output"]
# Draws the losses of both models
figure, ax = plt.subplots(figsize=(9, 3.4))
for (name, curve), style in zip(losses.items(), ("-", "--"), strict=True):
    smooth = torch.tensor(curve).unfold(0, 20, 20).mean(dim=-1)
    ax.plot(torch.arange(len(smooth)) * 20 + 10, smooth, style, linewidth=2.5, label=name)
ax.axhline(math.log(64), color=GREY, linestyle=":")
ax.text(990, math.log(64) + 0.12, "a guess among 64", ha="right", color=FAINT)
ax.set(xlabel="step of training", ylabel="loss", ylim=(0, 4.9))
ax.set_title("After about 200 steps two layers find the repetition, one layer does not")
ax.legend(loc=(0.76, 0.2))
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the loss against 1,000 steps of training. Both curves begin just below 4.2, the loss of a
# guess among 64 tokens. That of two layers falls to below 1 between steps 200 and 230, and then
# further. That of one layer stays near 3.*

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the claim for the start that was trained here
assert accuracy(two) > 0.9 and accuracy(one) < 0.4

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. The training takes a minute: start it before you ask the prediction of the slide
# before. Ask what a guess among the 8 to 16 letters of the first half would be worth: 1 in 12.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A baseline for one layer
#
# Has the single layer found a part of the rule? Compare it with a guesser that ignores the letters
# and bets at each position on one length of the half. The nine lengths have 99 letters to predict,
# at 23 positions, and each bet is right once: in 23 of 99, or 24% with what chance adds. No single
# layer beats this guesser. In five *starts*, each from other random parameters, one layer reaches
# 17 to 23%, one twice as wide 17 to 24%, and two layers reach 96 to 99%.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask for the control: is it the depth, or only the number of parameters? A layer twice
# as wide has more of them. Then ask what 17% should be compared with.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The maps of all eight heads
#
# What does the second layer add? Let us see where each head of the trained model looks.
# `attention_maps` returns the weights of each layer, and `HeadsView` shows all heads. In each map,
# rows and columns are the sixteen letters of the text; click a map to see them.
#
# **Question.** Which head of layer 1 looks at the token before, and which at its own? What do the
# heads of layer 2 look at in the second half?

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
text = "Dive2AtnDive2Atn"
maps = attention_maps(two, input_ids=as_ids(text))
HeadsView(list(maps.values()), list(text), title="What each head looks at")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive view of eight small heat maps, two layers with four heads each, for the
# text Dive2Atn twice. In each, rows are queries and columns are keys.*

# %% [markdown] slideshow={"slide_type": "skip"}
# In layer 1, head 2 looks at the token before, head 3 at its own. Head 4 looks mostly at its own as
# well, and head 1 spreads over a few tokens, most of all the one two back. In the second half, the
# heads of layer 2 look at the token after the earlier copy. A few rows are divided, most of all
# that of the second `D`, so we follow the second `i`. In the first half there is no copy to find,
# and no prediction there counts in the loss. Here are two of the maps with their letters:

# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
# Draws one head of each layer with its letters
figure, axes = plt.subplots(1, 2, figsize=(11.5, 5.2))
best = [
    maps[0][0].diagonal(-1, dim1=1, dim2=2).mean(dim=-1).argmax().item(),
    maps[1][0, :, 8:].diagonal(1, dim1=1, dim2=2).mean(dim=-1).argmax().item(),
]
for layer, (ax, head) in enumerate(zip(axes, best, strict=True)):
    heatmap(ax, maps[layer][0, head], list(text), list(text), vmin=0.0, vmax=1.0)
    ax.set(title=f"layer {layer + 1}, head {head + 1}")
axes[0].plot((-0.5, 14.5), (0.5, 15.5), color=RULE, linewidth=1)
axes[1].plot((0.5, 8.5), (7.5, 15.5), color=RULE, linewidth=1)
axes[1].axhline(7.5, color=GREY, linestyle=":")
figure.colorbar(axes[0].images[0], ax=axes, label="weight", shrink=0.8)
figure.suptitle("Left: the token before. Right, below the dots: the token after the copy")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps with the letters of Dive2Atn twice at both axes. Left, a head of layer 1:
# the weight is on the diagonal just below the main one. Right, a head of layer 2: below a dotted
# line, in the rows of the second half, the weight is on a diagonal that begins in the second
# column: i looks at the v after the earlier i.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Open the head with the line below the diagonal first, and read two rows aloud. Then
# one of layer 2: the row of the second i looks at the v, seven tokens back.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two scores for a head
#
# A large model has thousands of such maps. So let us give each habit a number:
#
# - A **previous-token head** looks at the token before. Its score is the mean weight there.
# - An **induction head** looks at the token after an earlier copy of its own. Its score is the mean
#   weight there, over the second half.

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Pairs write both scores on paper, with indices: which entries of a map (n, n) count?
# Let the room find both kinds in the picture before you show the numbers.

# %% [markdown] slideshow={"slide_type": "skip"}
# Write the first score yourself before you read ours; the second is exercise 13.7, at the end.
# `check` says what went wrong, `hint("13.6")` gives a hint each time, `solution("13.6")` shows all.
# Code counts layers and heads from 0, as Python does. The text counts them from 1, so that its
# layer 1 is `maps[0]`.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.6** · complete a function
#
# `weights` holds the maps of all heads of all layers for one text:
# `torch.stack([maps[0] for maps in attention_maps(model, input_ids=ids).values()])`. A head's score
# is its mean weight on the token before, over all tokens that have one (token 0 has none). Return
# the layer and the number of the head whose score is highest, both counted from 0.


# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Scores of the trained heads
#
# Each score is the mean of a diagonal, which the two maps above show. Over 100 new sequences:


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
def looks_back(weights):  # (B, H, n, n) -> (H,)
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 2))


def induction(weights):  # the copy of token i is i - n/2, the token after it i - n/2 + 1
    half = weights.shape[-1] // 2
    return weights[..., half:, :].diagonal(1, dim1=-2, dim2=-1).mean(dim=(0, 2))


many = repeated(100, 12, torch.Generator().manual_seed(1))
maps = attention_maps(two, input_ids=many)
for layer, weights in maps.items():
    print(f"layer {layer + 1}: before {looks_back(weights)}, after the copy {induction(weights)}")

# %% [markdown] slideshow={"slide_type": "skip"}
# So head 2 is the only previous-token head of layer 1, and all heads of layer 2 are induction
# heads.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Which head is which in the picture? The second score is a diagonal, too: the rows of
# the second half begin half a text further down.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How two heads work together


# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws how the two heads work together, in the text
def draw_looks(looks, marked, title):  # a look: query, key, height of the arc, words, their place
    figure, ax = plt.subplots(figsize=(10, 4.0))
    for position, letter in enumerate("Dive2AtnDive2Atn"):
        edge = INK if position in marked else RULE
        ax.add_patch(plt.Rectangle((position - 0.4, -0.4), 0.8, 0.8, fill=False, ec=edge, lw=2.5))
        ax.text(position, 0, letter, ha="center", va="center", fontsize=19, family="monospace")
        ax.text(position, -0.75, position, ha="center", va="center", fontsize=14, color=FAINT)
    arrow = {"arrowstyle": "-|>", "lw": 2.5, "mutation_scale": 18}
    for query, key, bend, words, place in looks:
        line = arrow | {"color": WEIGHT, "connectionstyle": f"arc3,rad={bend}"}
        start = query + 0.25 if query - key > 2 else query - 0.1  # far above near
        ax.annotate("", (key + 0.1, 0.5), (start, 0.5), arrowprops=line)
        ax.text(*place, words, color=WEIGHT, fontsize=15)
    ax.annotate("", (9.0, -1.95), (9.0, -1.0), arrowprops=arrow | {"color": INK})
    ax.text(9.3, -1.6, "v", fontsize=19, family="monospace", va="center")
    ax.set(xlim=(-0.7, 15.7), ylim=(-2.1, 2.4))
    ax.axis("off")
    ax.set_title(title, fontsize=17)
    plt.show()


before = (2, 1, 0.9, "layer 1:\nwho is before me?", (-0.4, 1.45))
after = (9, 2, 0.33, "layer 2: who has i before it?", (6.4, 1.75))
draw_looks([before, after], (1, 2, 9), "First v learns who is before it, then i can ask for it")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the sixteen letters of Dive2AtnDive2Atn in boxes, with positions below. An arrow from
# position 2, the first v, to position 1, the first i: layer 1, who is before me? An arrow from
# position 9, the second i, to position 2: layer 2, who has i before it? Below position 9 is the
# answer, v.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# 1. In layer 1, position 2 looks at position 1. The head writes a **mark** of `i` into the vector
#    of position 2, which now says: 'I am `v`, and before me is `i`'.
# 2. In layer 2, the key of position 2 is made from this vector. The query of position 9 asks: 'who
#    has `i` before it?', and finds position 2.
# 3. From position 2, the head of layer 2 writes `v` into position 9, and the model predicts `v`.
#
# So the second look can ask for what the first one wrote, and a single layer has no second look.
# Elhage et al. (2021) explained such pairs of heads and named the second kind **induction heads**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Four minutes. Point with two hands: what a key says was written by a look of the layer before.
# This is why depth is more than repetition: the second look can ask about what the first one found.
# Then let a pair explain position 10 to the room.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### A place to stop
#
# So far you have a good story, told from pictures of weights. The second half tests it, by the
# heads' parameters and by taking heads away.
#
# **What we did not show.** That one layer *cannot* do it: at these sizes, it only did not learn it.
# Sanford, Hsu and Telgarsky (2024) prove that one layer must be exponentially larger than two. In
# language models, Olsson et al. (2022) saw induction heads appear just when a model suddenly gets
# better at using distant text. They show that the heads cause this for small models without
# feed-forward networks; for larger ones their evidence is correlation.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## QK and OV: a head read from its weights
#
# A map shows where a head looked in one text. What would it look for in *any* text, and what would
# it write there? This is in its parameters.
#
# **Question.** A head has four matrices, here with d = 16 and D = 64. Two tokens meet in it, one
# that looks and one that is looked at. Which of the two does each matrix read?

# %% [markdown] slideshow={"slide_type": "fragment"}
# | matrix | takes | returns |
# |---|---|---|
# | $W_q$, (64, 16) | the vector of the token that looks | its query |
# | $W_k$, (64, 16) | the vector of the token that is looked at | its key |
# | $W_v$, (64, 16) | the vector of the token that is looked at | its value |
# | $W_o$, (16, 64) | the average of the values | what is added to the token that looks |
#
# A vector is a row here, as in the code: $x$ has the query $x W_q$. The matrices act in pairs,
# which Elhage et al. (2021) call **circuits**:
#
# - The **QK circuit** decides where a head looks. If $x$ looks at $y$, the score is the product of
#   the query $x W_q$ and the key $y W_k$, divided by $\sqrt d$.
# - The **OV circuit** decides what it writes. If all weight of $x$ is on $y$, the head adds
#   $y W_v W_o$ to $x$.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Fill in the table with the room before you show it. Ask which of the two pairs a
# head needs that copies, and which a head that finds.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One score, step by step
#
# Does the query of `i` fit the mark of `i`? Let us follow the letter along two paths. The second
# `i` becomes a query of layer 2. The first `i` leaves its mark in the vector of `v`, because layers
# only add to a vector (the **residual stream**), and from this sum layer 2 makes a key. As in the
# model, a norm rescales whatever a layer reads. For now we leave out the rotation, the other heads
# of layer 1 and its feed-forward network:


# %% slideshow={"slide_type": "skip"}
def matrices(layer, head):  # the library keeps them transposed
    own, part = layer.self_attn, slice(16 * head, 16 * head + 16)
    W_q, W_k, W_v = (p.weight[part].T for p in (own.q_proj, own.k_proj, own.v_proj))
    return W_q, W_k, W_v, own.o_proj.weight[:, part].T


two.requires_grad_(False)  # it is trained
letters = two.model.embed_tokens.weight  # (64, D), a row for each letter
layer_1, layer_2 = two.model.layers
norm_1, norm_2 = layer_1.input_layernorm, layer_2.input_layernorm
back, ahead = looks_back(maps[0]).argmax().item(), induction(maps[1]).argmax().item()
e_i, e_v = letters[LETTERS.index("i")], letters[LETTERS.index("v")]  # (D,) each

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
_, _, W_v, W_o = matrices(layer_1, back)  # of the head that looks back
W_q, W_k, _, _ = matrices(layer_2, ahead)  # of an induction head
query = norm_2(e_i) @ W_q  # (d,)
mark = norm_1(e_i) @ W_v @ W_o  # (D,)
key = norm_2(e_v + mark) @ W_k  # (d,)
print(f"score of the query and the key: {query @ key / math.sqrt(16):.1f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict.** Now the same query meets other keys: a `v` after each of the other letters, a `v`
# without any mark, and the earlier `i` itself. If our story is right, how will they score?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
for before in "Dive2Atn":
    mark = norm_1(letters[LETTERS.index(before)]) @ W_v @ W_o
    print(f"{before}v {query @ (norm_2(e_v + mark) @ W_k) / 4:.1f}", end=", ")
for name, vector in (("\nv alone", e_v), ("i itself", e_i)):
    print(f"{name} {query @ (norm_2(vector) @ W_k) / 4:.1f}", end=", ")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that i finds its mark and not itself
i_before = query @ (norm_2(e_v + norm_1(e_i) @ W_v @ W_o) @ W_k)
assert i_before > max(query @ (norm_2(vector) @ W_k) for vector in (e_i, e_v))

# %% [markdown] slideshow={"slide_type": "skip"}
# It does fit: the query of `i` finds the `v` that has an `i` before it, which scores 7 above the
# next. The letter `i` without a mark scores low, as it should: looking there would lead to the
# copy, and not to what follows the copy.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Write i at the left and at the right of the board and draw both paths to the score.
# Let the room say at each arrow which layer's matrix is needed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why head 2 looks back
#
# The mark is there because head 2 of layer 1 looks at the token before, whatever the letters are.
# What makes it look there? The rotation of chapter 7 turns queries and keys by their positions, so
# that a score depends on the distance. Here is each head's score for the distances 0 to 5, averaged
# over all pairs of letters. (A score is linear in query and key, so it is that of their averages.)

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
rotation = two.model.rotary_emb(letters, torch.arange(16)[None])  # of positions 0 to 15
for head in range(4):
    W_q, W_k, _, _ = matrices(layer_1, head)
    rows = ((norm_1(letters) @ W).mean(dim=0).expand(1, 1, 16, -1) for W in (W_q, W_k))
    q, k = apply_rotary_pos_emb(*rows, *rotation)  # (1, 1, positions, d)
    scores = q[0, 0, 15] @ k[0, 0].flip(0).T / math.sqrt(16)  # (16,), by distance
    print(f"head {head + 1} {scores[:6]}, largest weight {scores.softmax(dim=0).max():.2f}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Prints how much the scores of single pairs of letters differ at distance 1
W_q, W_k, _, _ = matrices(layer_1, back)
rows = ((norm_1(letters) @ W)[None, :, None].expand(-1, -1, 16, -1) for W in (W_q, W_k))
q, k = apply_rotary_pos_emb(*rows, *rotation)
pairs = q[0, :, 15] @ k[0, :, 14].T / math.sqrt(16)  # (64, 64)
print(f"head {back + 1}, distance 1: {pairs.mean():.1f}, standard deviation {pairs.std():.1f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Head 2 scores highest at distance 1, and more than 5 less at 0 and at 2. The letters hardly
# matter: between pairs, its scores differ by about 1. The other heads peak where they look in the
# maps. So the rotation explains where head 2 looks, though not why training chose this head.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Ask what the numbers would be without the rotation: the same at each distance.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The real score, split into its parts
#
# How does the whole model get its score? What layer 2 reads at a position is a sum of six parts:
# the embedding, the outputs of four heads, and that of the feed-forward network. So a query is a
# sum of six queries, a key is a sum of six keys, and a score is a sum of 36 shares. Now the
# rotation is in. The norm multiplies each coordinate of the sum by one factor, which all six parts
# share.
#
# **Question.** The second `i`, at position 9, looks at the `v` at position 2. Which share of this
# score should be large, if our story is true?


# %% slideshow={"slide_type": "skip"}
def writes(layer, X, weights):  # what four heads and the feed-forward network add to X
    read, parts = layer.input_layernorm(X), []
    for head in range(4):
        _, _, W_v, W_o = matrices(layer, head)
        parts.append(weights[head] @ read @ W_v @ W_o)
    return [*parts, layer.mlp(layer.post_attention_layernorm(X + sum(parts)))]


# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
X, weights = letters[as_ids(text)[0]], attention_maps(two, input_ids=as_ids(text))
parts = [X, *writes(layer_1, X, weights[0][0])]  # six, (n, D) each
whole = sum(parts)  # what layer 2 reads
read = torch.stack(parts) * (norm_2(whole) / whole)  # (6, n, D), all by the same factor
W_q, W_k, _, _ = matrices(layer_2, ahead)
queries, keys = apply_rotary_pos_emb((read @ W_q)[None], (read @ W_k)[None], *rotation)
shares = queries[0, :, 9] @ keys[0, :, 2].T / math.sqrt(16)  # (6, 6)
print(f"36 shares, in sum {shares.sum():.1f}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the shares add up to the score of the model itself
seen = []


def sees(queries, keys, values, mask=None):
    seen.append(queries[0, ahead, 9] @ keys[0, ahead, 2] / math.sqrt(16))
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


with torch.no_grad(), use_attention(two, sees, layers=[1]):
    two(input_ids=as_ids(text))
torch.testing.assert_close(shares.sum(), seen[0], atol=1e-3, rtol=0)
print(f"the model's own score: {seen[0]:.1f}")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
# Draws the 36 shares of the score
figure, ax = plt.subplots(figsize=(9.5, 5.2))
names = ["embedding", *(f"head {head + 1}" for head in range(4)), "feed-forward"]
most = shares.abs().max().item()
heatmap(
    ax,
    shares.round(decimals=2) + 0.0,
    names,
    names,
    vmin=-most,
    vmax=most,
    numbers=True,
    cmap=signed(),
)
ax.set(ylabel="query: i at position 9", xlabel="key: v at position 2")
ax.set_title(f"The mark of head {back + 1} in the key, and a second path by head 1", pad=14)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map of six rows and six columns with a number in each cell. Rows are the parts of
# the query, columns those of the key: embedding, heads 1 to 4, feed-forward. In the column of head
# 2 the rows of the embedding, head 3 and head 4 have 2.1, 5.7 and 1.2. In the column of head 1 the
# row of head 2 has 5.3. The other numbers are smaller than 1.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Our story named one cell: the embedding of `i` in the query, the mark of head 2 in the key. This
# share is only 2.1 of 15.3. (By themselves the two had 18.4. Here the norm divides by the length of
# the whole sum, which is some six times that of the letter.) The key is as we said: the column of
# head 2 has two thirds of the score. The query is not. Its largest share there, 5.7, comes from
# head 3, which looks at its own token, so that it writes a second copy of `i`. And one large share
# belongs to no story yet: what head 2 wrote into the *query* meets what head 1 wrote into the key,
# which brings 5.3. We come back to it below.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let the room point at the cell of the story, embedding and head 2, before you show
# the picture. Then ask why head 3 may stand in for the embedding: open its map again.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### All letters at once
#
# Does each of the 64 letters find its own mark? If so, in a table with a row for each query and a
# column for each mark, the largest number of each row is on the diagonal.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.8** · complete a function
#
# Write this table, in a shorter form: without the norms, and with keys made from the marks alone.
# Then try it on the trained model, whose four matrices are still in the variables:
# `scores_of_marks(letters, W_v, W_o, W_q, W_k).argmax(dim=-1)` should be nearly 0, 1, 2, ..., 63.

# %% [markdown] slideshow={"slide_type": "skip"}
# With the letters as rows of a matrix $E$, this is $E W_q \, (E W_v W_o W_k)^\top / \sqrt d$. In
# the left factor, row `i` says 'I look for what came after i'; in the right one, it says 'I came
# after i'. Our version keeps the norms and the `v`. One function makes the marks of all letters,
# and one makes the table:


# %% slideshow={"slide_type": "subslide"}
def marks_by(head):  # of layer 1
    _, _, W_v, W_o = matrices(layer_1, head)
    return norm_1(letters) @ W_v @ W_o  # (64, D)


def scores_of(head, read):  # of layer 2; read, (64, D): what the keys are made from
    W_q, W_k, _, _ = matrices(layer_2, head)
    queries, keys = norm_2(letters) @ W_q, norm_2(read) @ W_k  # (64, d) each
    return queries @ keys.T / math.sqrt(16)  # (64, 64)


# %% [markdown] slideshow={"slide_type": "subslide"}
# For which part of the 64 letters is the largest number of the row on the diagonal? A guess would
# have 0.02.


# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Prints how often the diagonal wins, for each head of layer 2 and each kind of key
def on_diagonal(table):
    return (table.argmax(dim=-1) == torch.arange(64)).float().mean().item()


print("head of layer 2:            ", *(f"{head + 1:4}" for head in range(4)))
for name, read in [("the letter itself", letters)] + [
    (f"v, mark by head {head + 1} of layer 1", e_v + marks_by(head)) for head in range(4)
]:
    print(f"{name:29}", *(f"{on_diagonal(scores_of(head, read)):.2f}" for head in range(4)))

# %% [markdown] slideshow={"slide_type": "skip"}
# In this start the matrices fit the story. For more than 90% of the letters, the query finds the
# mark of the previous-token head. Marks of other heads almost never win, and the letter itself
# never does. When the keys of one head are made of what another head wrote, Elhage et al. call this
# **K-composition**; queries and values can be composed as well.


# %% slideshow={"slide_type": "skip"} tags=["hide-input", "nbval-ignore-output"]
# Puts any other letter in the place of v, and the rotation between W_q and W_k
def turned(vectors, position):  # the rotation, as in the model
    cos, sin = two.model.rotary_emb(vectors, torch.tensor([[position]]))
    left, right = vectors.chunk(2, dim=-1)
    return vectors * cos[0] + torch.cat((-right, left), dim=-1) * sin[0]


plain, rotated = [], []
for head in range(4):
    W_q, W_k, _, _ = matrices(layer_2, head)
    for letter in letters:
        queries, keys = norm_2(letters) @ W_q, norm_2(letter + marks_by(back)) @ W_k
        plain.append(on_diagonal(queries @ keys.T))
        for distance in range(1, 16):
            table = turned(queries, 15) @ turned(keys, 15 - distance).T
            rotated.append(on_diagonal(table))
print(f"any letter in place of v: mark found for {min(plain):.2f} to {max(plain):.2f}")
print(f"and rotated, 1 to 15 tokens back: {min(rotated):.2f} to {max(rotated):.2f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let pairs write the product for all letters on paper, with shapes; then let the
# room say which rows of the table should be near 1 before you show it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the heads of layer 2 write
#
# Once a head of layer 2 has found the `v`, does it make the model say `v`? This is the work of its
# OV circuit. Let a head give all of its weight to one letter, and turn what it writes into logits
# by the model's last matrix, `lm_head`. For which part of the 64 letters is the letter itself then
# the likeliest?


# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Prints how often the letter itself is the likeliest
def says(*heads):  # of layer 2; row a: the logits if the heads look at letter a
    written = torch.zeros_like(letters)
    for head in heads:
        _, _, W_v, W_o = matrices(layer_2, head)
        written += norm_2(letters) @ W_v @ W_o  # (64, D)
    return two.lm_head(two.model.norm(written))  # (64, 64)


print("each head:", *(f"{on_diagonal(says(head)):.2f}" for head in range(4)), end=", ")
print(f"all four together: {on_diagonal(says(0, 1, 2, 3)):.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Each head does it for most letters, and the four together do it for all 64. A likely reason is
# room: one head passes 64 letters through 16 numbers, four heads pass them through 64.
#
# And in our text? The logit of `v` at position 9 is a sum as well, of what eleven parts add to it.
# The last norm is again one factor for each coordinate, which all parts share:

# %% slideshow={"slide_type": "subslide"} tags=["nbval-ignore-output"]
every = parts + writes(layer_2, whole, weights[1][0])  # eleven, (n, D) each
end, v = sum(every), LETTERS.index("v")
adds = (torch.stack(every) * (two.model.norm(end) / end))[:, 9] @ two.lm_head.weight[v]  # (11,)
print(f"embedding {adds[0]:.1f}, heads of layer 1 {adds[1:5]}, feed-forward {adds[5]:.1f}")
print(f"heads of layer 2 {adds[6:10]}, feed-forward {adds[10]:.1f}")
logit = two(as_ids(text)).logits[0, 9, v]
print(f"sum {adds.sum():.1f}, the model's own logit {logit:.1f}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the sum
assert (adds.sum() - logit).abs() < 1e-3

# %% [markdown] slideshow={"slide_type": "skip"}
# The logit comes from the four induction heads, each of which adds to `v`. Every other part changes
# it by 0.4 at most.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Let the room say first which of the eleven numbers should be large.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Put your own attention in
#
# The matrices say what the heads *can* do. Does the model *need* these heads? To change a head, we
# put our own attention into the model with `use_attention`. It receives the mask, and queries, keys
# and values that are already split into heads and rotated.


# %% slideshow={"slide_type": "-"} tags=["build"]
def my_attention(queries, keys, values, mask=None):
    d = queries.shape[-1]
    scores = queries @ keys.mT / math.sqrt(d)  # (B, H, Q, K)
    if mask is not None:  # bool, (B, 1, Q, K), True = may attend
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)  # (B, H, Q, K)
    return weights @ values, weights  # (B, H, Q, v)


# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
logits = two(input_ids=many).logits
with use_attention(two, my_attention):
    my_logits = two(input_ids=many).logits
difference = (my_logits - logits).abs().max()
print(f"logits up to {logits.abs().max():.1f}, largest difference {difference:.0e}")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the own function adds the same numbers, in another order
assert difference < 1e-3

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room write the function first, on paper, from memory. Before the run ask
# how far the logits will differ: exactly 0, about a millionth, about a hundredth. Ask what the
# function need not know: positions are in queries and keys already, and the mask comes ready.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Ablation: take a head away
#
# If the story is true, layer 2 must fail as soon as layer 1 no longer looks back. To see this, we
# take one head away (an **ablation**). A head whose queries are 0 scores all keys alike, so that it
# brings the mean of all values so far.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.9** · complete a function
#
# `without(my_attention, 1)` returns a function like `my_attention`, in which head 1, counted from
# 0, has queries of 0.

# %% [markdown] slideshow={"slide_type": "-"}
# Beside our version is a second function, which silences the head by an output of 0:


# %% slideshow={"slide_type": "-"}
def without(attention, head):
    def attend(queries, keys, values, mask=None):
        queries = queries.clone()  # an input is never changed
        queries[:, head] = 0
        return attention(queries, keys, values, mask)

    return attend


def silent(attention, head):
    def attend(queries, keys, values, mask=None):
        outputs, weights = attention(queries, keys, values, mask)
        outputs[:, head] = 0
        return outputs, weights

    return attend


# %% [markdown] slideshow={"slide_type": "subslide"}
# **Predict** the table that comes next. Each head of layer 1 is taken away in turn: without which
# one does the accuracy fall most? And do the maps of layer 2, which nobody touches, stay as they
# are?

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes, in pairs. Ask for the control before you show the numbers: any damage might lower the
# accuracy, so take away another head.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One head at a time

# %% slideshow={"slide_type": "-"} tags=["nbval-ignore-output"]
print(f"all heads {accuracy(two):18.0%} right, after the copy", induction(maps[1]))
for head in range(4):
    with use_attention(two, without(my_attention, head), layers=[0]):
        now = induction(attention_maps(two, layers=[1], input_ids=many)[1])
        print(f"head {head + 1}, queries 0: {accuracy(two):9.0%} right, after the copy", now)
    with use_attention(two, silent(my_attention, head), layers=[0]):
        print(f"        output 0: {accuracy(two):9.0%} right")

# %% [markdown] slideshow={"slide_type": "fragment"}
# It is head 2, the previous-token head. Without head 2, the weights of layer 2 on the token after
# the copy fall, although nobody touched that layer. With output 0, about as many answers are right
# as with one layer. With queries 0 the head still averages all tokens so far, so a trace of the
# mark may survive. The other heads are our control. Only head 3, which brought the largest share
# in the picture above, is clearly needed, though much less.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask which of the two is 'without the head'. Neither: a mean is a wrong message, and
# zero is one that the next layer never saw in training. So show both. Then ask what else the heads
# of layer 1 do: open their maps again.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Ablations in layer 2
#
# All four heads of layer 2 add to the right letter. Is each of them needed? Here each is taken
# away in turn:

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Takes each head of layer 2 away
for head in range(4):
    with use_attention(two, without(my_attention, head), layers=[1]):
        print(f"without head {head + 1}: {accuracy(two):.0%}", end="   ")

# %% [markdown] slideshow={"slide_type": "-"}
# Each can be removed alone, probably because the other three do the same work. So 'the accuracy
# stays' does not mean 'the head does nothing'.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does the damage go through the keys?
#
# Our story says more: layer 2 needs head 2 for its **keys**. Does it? A test takes three steps:
#
# 1. Run the model without head 2, and keep the keys that layer 2 gets there: they are damaged.
# 2. Run the whole model, but give the attention of layer 2 these keys in place of its own.
# 3. Count the right answers. If the story is true, most are lost.
#
# As a control, damaged queries or damaged values should cost little. To put a part of one run into
# another is called **activation patching**.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the two runs, and what is put from one into the other
picture = Diagram("Only the keys of layer 2 come from the damaged run", 10, 4.2)
runs = []
for y, name, kind in ((2.9, "without\nthe head", MARKED), (0.9, "layer 1,\nwhole", LEARNED)):
    start = picture.box("text", 0.8, y, 1.0, 0.7, kind=TENSOR)
    layer = picture.box(name, 2.7, y, 1.5, 1.0, kind=kind)
    places = {"queries": y + 0.62, "keys": y, "values": y - 0.62}
    made = {n: picture.box(n, 5.0, place, 1.3, 0.5, kind=TENSOR) for n, place in places.items()}
    picture.arrow(start, layer)
    picture.arrow(layer, made["keys"])
    runs.append(made)
second = picture.box("attention of\nlayer 2, whole", 8.4, 0.9, 2.0, 1.74, kind=LEARNED)
picture.arrow(runs[1]["queries"], second)
picture.arrow(runs[1]["values"], second)
picture.arrow(runs[0]["keys"], second)
picture.figure

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two runs from left to right. Above, the damaged run: a text, layer 1 without the head,
# and the queries, keys and values of layer 2. Below, the whole model with the same boxes. Into the
# attention of layer 2 go the queries and values of the run below, and the keys of the damaged
# one.*


# %% slideshow={"slide_type": "subslide"} tags=["hide-input", "nbval-ignore-output"]
# Runs the three steps, with damaged queries, keys or values
def right_with(which, *heads):  # 0 queries, 1 keys, 2 values, from a run without these heads
    first, kept = my_attention, []
    for head in heads:
        first = silent(first, head)

    def keeps(*inputs, mask=None):
        kept.append(inputs)
        return my_attention(*inputs, mask)

    def mixes(*inputs, mask=None):
        damaged = kept.pop(0)  # `accuracy` draws the same sequences in each call
        return my_attention(*(damaged[i] if i in which else inputs[i] for i in range(3)), mask)

    with use_attention(two, first, layers=[0]), use_attention(two, keeps, layers=[1]):
        accuracy(two)  # the damaged run
    with use_attention(two, mixes, layers=[1]):
        return accuracy(two)


for name, which in {"queries": [0], "keys": [1], "values": [2], "keys and queries": [0, 1]}.items():
    print(f"damaged {name:17} {right_with(which, back):.0%} right")

# %% [markdown] slideshow={"slide_type": "skip"}
# Damaged queries or values cost little, while damaged keys cost more than half of the answers, as
# the story says. But two in five answers survive damaged keys, and are lost only when the queries
# are damaged as well. Damaged queries lack head 2's mark (and what the feed-forward network made of
# it). So there seems to be a second path, on which the mark in the *query* leads to the answer.
# Among the 36 shares we have met it: 5.3 came from head 2 in the query and head 1 in the key.
# Head 1 looks most of all two tokens back:

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws the spare path in the text
marks = [
    (2, 0, 0.6, "layer 1, head 1:\nwho is two before me?", (-0.4, 1.45)),
    (9, 8, 0.5, "layer 1, head 2:\nwho is before me?", (9.6, 0.7)),
]
asks = (9, 2, 0.33, "layer 2: who has D two before it?", (5.6, 1.9))
draw_looks([*marks, asks], (0, 2, 8, 9), "The spare path: v and the second i both get a mark of D")

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the sixteen letters in boxes again. An arrow from position 2, v, to position 0, D: layer
# 1, head 1, who is two before me? An arrow from position 9, i, to position 8, D: layer 1, head 2,
# who is before me? An arrow from position 9 to position 2: layer 2, who has D two before it? Below
# position 9 is the answer, v.*

# %% [markdown] slideshow={"slide_type": "-"}
# If this is the second path, keys without heads 1 and 2 should lose the remaining answers.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input", "nbval-ignore-output"]
# Runs the three steps for keys without one more head
for other in range(4):
    if other != back:
        print(f"keys without head {other + 1}: {right_with([1], other):.0%} right, ", end="")
        print(f"without heads {other + 1} and {back + 1}: {right_with([1], other, back):.0%}")

# %% [markdown] slideshow={"slide_type": "skip"}
# They do: keys without heads 1 and 2 leave about as few answers as one layer reaches, while heads 3
# and 4 make no difference. Beside the path of our story, the model has a spare one.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let the room say first which of the three steps makes it the keys. Then ask why
# queries and keys together cost more than both costs added: two paths, of which each can do alone.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same in five starts
#
# Is it so in other models? This share of the answers is right in five starts, where two heads
# that share the look back are silenced together:
#
# | start | heads that look back | whole | all silent | keys damaged | keys and queries |
# |---|---|---|---|---|---|
# | 0 | 1 | 98% | 20% | 41% | 20% |
# | 1 | 1 | 99% | 17% | 70% | 17% |
# | 2 | 2 | 99% | 25% | 25% | 25% |
# | 3 | 2 | 96% | 17% | 17% | 18% |
# | 4 | 2 | 96% | 27% | 28% | 29% |

# %% [markdown] slideshow={"slide_type": "skip"}
# Without the heads that look back, each model has about as many right answers as one layer. In
# starts 2 to 4 all of this harm goes through the keys; in starts 0 and 1 there is a spare path, and
# keys without one further head leave 20% and 17%. As a control we silenced as many other heads. In
# four starts at least 85% stays right. In start 2 only 38% does, so there the damaged keys are our
# only evidence.
#
# The table is stored, made by `python -m d2l_attention.experiments.repeats --starts 5`. A head
# looks back if its weight there is at least half of the largest.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. When heads share the look, no single one carries all of it, and only both together
# test the story. That is why five starts are shown.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A published language model: SmolLM2
#
# Does such a pair of heads exist in a model that somebody else trained to write English?
# **SmolLM2-135M** (Ben Allal et al., 2025) is a small Llama with 30 layers of nine heads each,
# which makes 270 heads, where ours has eight. We take the version that follows instructions, with
# most weights rounded to 4 bits, because the index of Python's packages holds it in one file.

# %% slideshow={"slide_type": "-"}
folder = os.environ.get("D2L_ATTENTION_SMOLLM2")  # of the model, on this machine
figures = smollm2.measure(folder, my_attention) if folder else smollm2.stored()
print(*(f"{name} {value}" for name, value, _ in figures["told"][:4]), sep=", ")
print(f"{figures['parameters']:,} parameters")
print("the same with a function of one's own, within 1e-3:", figures["the same"])
print(*figures["example"][:7], "..., 25 words, and once more")
print(f"right in the second half: {figures['whole']['right']:.0%}")

# %% [markdown] slideshow={"slide_type": "skip"}
# These figures are stored. If the variable `D2L_ATTENTION_SMOLLM2` names the model's folder, the
# cell measures the model with your `my_attention` instead, in ten minutes;
# `python -m d2l_attention.experiments.smollm2 --help` says where to get the file.

# %% [markdown] slideshow={"slide_type": "-"}
# Like our own models, it gets texts that repeat: 25 random words, followed by the same words once
# more, in 16 such texts. A guess among the 25 words would be right in 4%, so the model continues
# texts that it cannot have seen in training. Which of its heads score high?

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Nobody looks at 270 maps: the two scores do. Ask in which layers the room expects each
# kind before you show the picture.

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws both scores of all heads, by layer
figure, axes = plt.subplots(2, 1, figsize=(11, 5.6), sharex=True)
for ax, (kind, rows) in zip(axes, figures["scores"].items(), strict=True):
    for layer, row in enumerate(rows, 1):
        ax.plot([layer] * len(row), row, "o", color=WEIGHT, markersize=5)
        high = [f"{layer}.{head}" for head, score in enumerate(row, 1) if score > 0.5]
        ax.text(layer + 0.5, max(row) + 0.05, ", ".join(high), ha="right", fontsize=13)
    ax.axhline(0.5, color=RULE, linewidth=1)
    ax.set(ylim=(-0.05, 1.05), ylabel=f"weight on the\n{kind}")
axes[1].set(xlabel="layer", xlim=(0, 31))
figure.suptitle("Seven heads look back with more than 0.5; four, after 17.1, find the copy")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two panels of dots, one for each of nine heads in 30 layers. Above, the mean weight on
# the token before: seven heads have more than 0.5, named 2.3, 3.2, 11.6, 12.2, 17.1, 20.4 and 23.2.
# Below, the mean weight on the token after the copy: four heads have more than 0.5, three in layer
# 18 and head 19.7, and before layer 18 all dots are near 0.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The three heads of layer 18 are one group, so they share their keys (chapter 9).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One of 270 heads away
#
# In the picture, 17.1 is head 1 of layer 17. Now each of the 270 heads is taken away in turn, for
# eight of the texts (36% right with all heads). An output of 0 would be something that no later
# layer has ever seen. So we replace a head's output by its average over other texts (**mean
# ablation**): what it always says, and nothing of this text.
#
# **Predict.** With so many heads, does any single one matter much? If so, is it one that looks back
# or one that finds the copy?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Draws what each head is needed for
halves = "loss in the first half", "loss in the second half"
each = dict(figures["each"])
all_heads = each.pop("no head")
figure, ax = plt.subplots(figsize=(9, 5))
for head, now in each.items():
    new, known = (now[half] - all_heads[half] for half in halves)
    ax.plot(new, known, "o", color=INK, markersize=5)
    if known > 1:
        ax.text(new + 0.02, known, head, va="center", fontsize=14)
ax.axhline(0, color=RULE, linewidth=1)
ax.axvline(0, color=RULE, linewidth=1)
ax.set(xlabel="rise of the loss in the first half", ylabel="rise of the loss in the second half")
ax.set_title("Two heads matter most to the repetition, and not to new words", pad=12)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a dot for each head that was taken away. Nearly all dots lie near 0 on both axes. Without
# head 17.1 or head 19.7 the loss rises in the second half, and not in the first.*

# %% [markdown] slideshow={"slide_type": "skip"}
# Two heads stand out. Head **17.1** looks at the token before, and head **19.7** finds the copy.
# Over all 16 texts, this share is right:

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Prints what is right without the needed heads, with controls
alone, (needed, finds) = figures["alone"], figures["needed"]
print(f"all heads                        {figures['whole']['right']:.0%}")
for head in (needed, finds):
    layer = head.split(".")[0] + "."
    beside = [right for other, right in alone.items() if other.startswith(layer) and other != head]
    print(f"without head {head}                {alone[head]:.0%}", end="")
    print(f"    any other of layer {layer[:-1]}: {min(beside):.0%} to {max(beside):.0%}")
draws = figures["as many others away"]
print(f"without the four induction heads {figures['no induction heads']:.0%}", end="")
print(f"    four others of their layers: {min(draws):.0%} to {max(draws):.0%}")
lows, highs = (map(end, zip(*figures["other words"], strict=True)) for end in (min, max))
print("\nin four other draws of 16 texts:", end="")
for words, low, high in zip(("all", needed, finds), lows, highs, strict=True):
    print(f"  {words if words == 'all' else 'without ' + words} {low:.0%} to {high:.0%}", end="")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room say why the horizontal axis is there: a head without which all text gets
# worse is no evidence for a story about repetition.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The keys of layers 18 and 19
#
# Head 17.1 lies just below the induction heads. Without head 17.1, they no longer find the copy. If
# this is because their *keys* lack its mark, then damaged keys in a whole run must cost most
# answers (left), and whole keys, put back into a damaged run, must bring them back (right):

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Prints the scores without the head, and what is right with a part from the other run
scores = figures["scores without it"].items()
print("weight after the copy, without 17.1:", *(f" {head} {score:.2f}" for head, score in scores))
print("\nqueries, keys or values of layers 18 and 19   damaged   put back")
for part in ("queries", "keys", "values"):
    print(f"{part:45} {figures['damaged'][part]:7.0%} {figures['mended'][part]:10.0%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Most of the harm goes through the keys: this is **K-composition**, in a model that nobody trained
# for it. And what is it good for in English? Ten texts say an invented name twice, such as
# *Professor Zindravel opened the door. The students stood up at once, because Professor Zindravel*.
# This many tokens of the second name are right, after its first token:

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Prints how many tokens of ten names are right, and what the first name becomes
for name, found in figures["names"].items():
    print(f"{name:30}{found['right']:3} of {found['of']}  {found['first']}")

# %% [markdown] slideshow={"slide_type": "skip"}
# So the same two steps that repeat random words also copy a name, token by token. Four other heads
# of the same layers cost only four tokens.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Read the first name aloud in each row. Its tokens are Z, ind and ravel: only the last
# is lost without head 17.1. Ask what the last row is for.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - In five starts, two layers learned what one did not. Heads of layer 1 write into each token what
#   came before it, and layer 2 finds tokens by this mark.
# - A head's QK circuit holds what it looks for, its OV circuit what it writes. In the start that we
#   read, QK of layer 2 fits the marks of layer 1: K-composition.
# - A picture of a head is a guess, which an ablation tests. In all five starts the heads that look
#   back are needed, in three almost only for the keys. In the other two a spare path goes through
#   the queries and one more head.
# - In a published language model of 270 heads, taking one head away that looks back cuts the right
#   answers from 47% to 6%. Most of the harm goes through the keys of layers 18 and 19.

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute. Which of the four would they have doubted before?

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# The other of the two scores. Exercises 13.1 to 13.5 follow in *Going further*.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.7** · complete a function
#
# An induction head looks at the token after an earlier copy of the present token. Give each head
# its score, for any text: the weight that token i puts on tokens j + 1 where token j, j < i, is the
# same as token i, added up where there are several copies. The score is the mean over all tokens i
# that have an earlier copy, and at least one token has one.


# %% [markdown] slideshow={"slide_type": "slide"}
# ## Going further
#
# Read these in any order.
#
# - *Read a configuration*, 2 minutes
# - *Two bugs in a trained model*, 14 minutes
# - *Other architectures*, 1 minute
# - *A published BERT: all-MiniLM-L6-v2*, 8 minutes
# - *From the outside in*, 2 minutes

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Read a configuration
#
# *2 minutes.* The **configuration** of a published model says how large it is. For each token so
# far, a cache keeps the keys and values of all layers (chapter 8). Our model keeps $2 \cdot 2 \cdot
# 4 \cdot 16 = 256$ numbers per token: keys and values, layers, heads, numbers in a head. In Llama 3
# 8B, four query heads form a **group** that shares one head of keys and values. How many numbers
# per token does its cache keep?

# %% slideshow={"slide_type": "-"}
llama_3 = LlamaConfig(
    num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Let them compute in pairs, a word under each factor. Expect 262,144: they take the
# 32 heads of queries. Point to `num_key_value_heads`, and ask what a query would need a cache for.

# %% slideshow={"slide_type": "fragment"}
by_hand = 2 * 32 * 8 * 128  # keys and values, layers, groups, numbers
print(f"by hand {by_hand:,}, told {describe(llama_3)['cache, all layers']:,}")

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Two bugs in a trained model
#
# *14 minutes.* Into our own model we now put two mistakes of the bug museum (chapter 12): a
# forgotten mask, and a division by $d$ in place of its root.


# %% slideshow={"slide_type": "-"}
def forgets_the_mask(queries, keys, values, mask=None):
    return my_attention(queries, keys, values)


def divides_by_d(queries, keys, values, mask=None):
    return my_attention(queries / math.sqrt(queries.shape[-1]), keys, values, mask)


# %% slideshow={"slide_type": "skip"}
def written(model, ids, new=8):  # what the model writes in place of the last tokens
    return model.generate(ids[:, :-new], max_new_tokens=new, do_sample=False)[:, -new:]


def try_out(model, ids):
    with torch.no_grad():
        loss = loss_on_repeats(model, ids)
    right = (written(model, ids) == ids[:, -8:]).float().mean()
    sample = as_text(written(model, as_ids(text), new=6)[0])
    return f"loss {loss:.2f}, text right {right:3.0%}, Dive2AtnDi{sample}"


# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. Both have one thing wrong, and both run without an error.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Where a forgotten mask shows
#
# **Predict.** Without a mask, a token sees the one that it has to predict. Does the loss of the
# trained model rise or fall if the mask is forgotten in both layers? And if it is forgotten in
# layer 2 only?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
test = repeated(200, 12, torch.Generator().manual_seed(2))
print("as it was trained:         ", try_out(two, test))
for name, function, layers in (
    ("no mask, both layers:      ", forgets_the_mask, [0, 1]),
    ("no mask, layer 1 only:     ", forgets_the_mask, [0]),
    ("no mask, layer 2 only:     ", forgets_the_mask, [1]),
    ("divided by d, both layers: ", divides_by_d, [0, 1]),
):
    with use_attention(two, function, layers=layers):
        print(name, try_out(two, test))

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Most expect a better loss without the mask, in both cases. Let them explain the
# first number before you go on.

# %% [markdown] slideshow={"slide_type": "skip"}
# - **Both layers**: loss and text are wrong. The harm is done in layer 1, where heads now give
#   weight to later tokens: the previous-token head gives the token before 0.73 in place of 0.98.
# - **Layer 2 only**: loss and text hardly change. By the marks of layer 1, its heads still keep 0.8
#   on the token after the copy, and the newest token of a text has no later one to see.
# - **Divided by $d$**: loss and text are wrong. The largest weight of a row falls from 0.8 to 0.4
#   on average, so that each output is a mixture.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks these weights, which a function of our own keeps
def weights_with(function, layers):
    kept = []

    def keeps(*inputs, mask=None):
        outputs, weights = function(*inputs, mask=mask)
        kept.append(weights)
        return outputs

    with torch.no_grad(), use_attention(two, keeps, layers=layers):
        two(input_ids=many)
    return kept


def later(weights):  # the weight on later tokens, for each head
    return weights.triu(1).sum(dim=-1).mean(dim=(0, 2))


own, no_mask = weights_with(my_attention, [0, 1]), weights_with(forgets_the_mask, [0, 1])
assert (later(no_mask[0]) > 0.7).sum() == 2
assert looks_back(own[0]).max() > looks_back(no_mask[0]).max() + 0.1
assert induction(weights_with(forgets_the_mask, [1])[0]).min() > 0.7
before, after = own, weights_with(divides_by_d, [0, 1])
for layer in (0, 1):
    assert before[layer].amax(dim=-1).mean() > 0.7 and after[layer].amax(dim=-1).mean() < 0.5

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Let the room find which token layer 2 still looks at, and what comes after the last
# token. In a layer below the last one, the mistake would not be so harmless.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### A mask forgotten from the first step on
#
# **Predict.** A new model is trained for 100 steps without the mask. Is its loss higher or lower
# than that of the trained model above? And its text?

# %% slideshow={"slide_type": "fragment"} tags=["nbval-ignore-output"]
cheat = small_llama(num_layers=2)
with use_attention(cheat, forgets_the_mask):
    train(cheat, steps=100)
    cheat.eval()
    print("trained without a mask: ", try_out(cheat, test))

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the claims about the forgotten mask
with torch.no_grad(), use_attention(cheat, forgets_the_mask):
    assert loss_on_repeats(cheat, test) < 0.2
    assert (written(cheat, test) == test[:, -8:]).float().mean() < 0.1
with torch.no_grad():
    before = loss_on_repeats(two, test)
    with use_attention(two, forgets_the_mask):
        assert loss_on_repeats(two, test) > before + 0.5
    with use_attention(two, forgets_the_mask, layers=[1]):
        assert abs(loss_on_repeats(two, test) - before) < 0.1

# %% [markdown] slideshow={"slide_type": "fragment"}
# Its loss is lower, after a tenth of the steps, and its text is wrong. In training the next token
# is in sight, and the model learned to copy it. In generation there is no next token. In all of
# five starts the loss was at most 0.06, with 1 to 3% of the text right.
#
# So the same mistake can show in loss and text, in the text only, or hardly in either. Exercise
# 13.5 asks for a test that finds it in all three cases.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask what you would have said of this loss in a meeting. One guess among 64 is right
# in 1.6%: the text is no better.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Other architectures
#
# *1 minute.* Does `my_attention` also serve other models? Let us try an encoder, BERT, and two
# decoders, GPT-2 and Mistral, small and with random parameters. As a control, the second number is
# the difference that equal weights make.


# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Prints the largest difference with my_attention, and with equal weights
SIZES = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2)
SIZES |= dict(num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2)
SIZES |= dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
torch.manual_seed(0)
ids = torch.randint(3, 97, (2, 12))  # two texts of twelve tokens


def equal_weights(queries, keys, values, mask=None):
    return my_attention(torch.zeros_like(queries), keys, values, mask)


def differences(model, functions, **inputs):
    with torch.no_grad():
        own = model(**inputs)[0]
        for function in functions:
            with use_attention(model, function):
                yield (model(**inputs)[0] - own).abs().max().item()


def outputs_move(name):  # how far with my_attention, and with equal weights
    config = getattr(transformers, name + "Config")(**SIZES, sliding_window=5)
    model = AutoModel.from_config(config).eval()
    return list(differences(model, [my_attention, equal_weights], input_ids=ids))


for name in ("Bert", "GPT2", "Mistral"):
    print("{:8} {:5.0e}  {:.1f}".format(name, *outputs_move(name)))

# %% [markdown] slideshow={"slide_type": "skip"}
# It does. Three other models ask for more than your seven lines, and `use_attention` refuses them
# with a named error: Gemma 2 bounds its scores by a **softcap**, T5 adds a learned **bias** for
# each distance, and gpt-oss has **sinks**, which exercise 13.2 builds.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks that the own function makes no difference in thirteen architectures, and another one does
names = "Bert GPT2 GPTNeoX Llama Mistral Mixtral Phi3 Qwen3 Olmo3 Glm4 Granite Gemma3Text SmolLM3"
found = {name: outputs_move(name) for name in names.split()}
assert all(mine < 1e-4 and equal > 0.1 for mine, equal in found.values())
print("checked:", *found)
for name, missing in dict(Gemma2="softcap", T5="bias", GptOss="sinks").items():
    more = dict(attn_logit_softcapping=2.0, num_local_experts=4)
    model = AutoModel.from_config(getattr(transformers, name + "Config")(**SIZES, **more))
    try:
        use_attention(model, my_attention)
        raise AssertionError(name)
    except TypeError as error:
        assert missing in str(error)

# %% [markdown] slideshow={"slide_type": "notes"}
# Three minutes. Ask why a column of controls is needed: a model that ignores its attention would
# show equal numbers, too. Then ask where a softcap belongs, before the mask or after it? After it,
# a score of minus infinity would become $-c$, and the future would be visible.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### A published BERT: all-MiniLM-L6-v2
#
# *8 minutes.* The two scores also find heads in an encoder. **all-MiniLM-L6-v2** is a small BERT
# that turns a sentence into one vector. If two sentences mean nearly the same, the cosine of their
# vectors is near 1.

# %% slideshow={"slide_type": "-"}
bert = os.environ.get("D2L_ATTENTION_MODEL")  # its folder on this machine
minilm = measure(bert, my_attention) if bert else stored()
size = f"{minilm['parameters']:,} parameters"
print(*(f"{name} {value}" for name, value, _ in minilm["told"][:4]), size, sep=", ")
print("the same with a function of one's own, within 1e-5:", minilm["the same"])

# %% [markdown] slideshow={"slide_type": "skip"}
# These figures are stored. With the model's folder in the variable `D2L_ATTENTION_MODEL`, the cells
# measure the model with your `my_attention`.
# `python -m d2l_attention.real_models.published --help` says where to get the model.

# %% [markdown] slideshow={"slide_type": "notes"}
# One minute. 72 heads, and nobody looks at 72 maps for every sentence: the scores do.

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### Where its heads look
#
# In a larger BERT, Clark et al. (2019) found heads that look at the token before, at the token
# after, and above all at [SEP], the token after each text. And here? For each place, this is the
# head with the largest mean weight over the words of eight sentences. Head 1.3 is head 3 of layer
# 1, and [CLS] is the token before each text:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints the head that looks most at each place
for place in ("token before", "token after", "[SEP]", "[CLS]"):
    name, weight = minilm["looks"][place][0]
    print(f"{place:13} head {name}  {weight:.2f}")

# %% [markdown] slideshow={"slide_type": "skip"}
# Head 1.3 gives all of its weight, rounded, to the token before, and head 2.9 two thirds to the
# token after. But no head gives [SEP] more than 0.15, where equal weights would give 0.08: here the
# weight goes to [CLS].

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
# Draws two heads of the published model for one sentence
figure, axes = plt.subplots(1, 2, figsize=(11, 5.2))
for ax, (name, weights) in zip(axes, list(minilm["maps"].items())[::2], strict=True):
    heatmap(ax, torch.tensor(weights), minilm["tokens"], minilm["tokens"], vmax=1.0)
    ax.tick_params(axis="x", rotation=90)
    ax.set_title(f"head {name}")
figure.colorbar(axes[0].images[0], ax=axes, label="weight", shrink=0.8)
figure.suptitle("One head looks at the token before, another at [CLS]", fontsize=16)
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: two heat maps for the sentence 'The cat sat on the mat because it was tired'. Head 1.3
# has a clear line just below the diagonal. Head 5.6 has nearly all of its weight in the first
# column, which belongs to [CLS].*

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask what a head should do that finds nothing (chapter 11): its weights must sum to
# one all the same, and it needs a place to put them, such as [CLS].

# %% [markdown] slideshow={"slide_type": "subslide"}
# #### The order of words, without one head
#
# Does a head know the order of words? A *boat house* and a *house boat* consist of the same words,
# so only their order can keep the two vectors apart. We put ten such pairs into the same sentence,
# call one minus the cosine of a pair its *distance*, and take away each of the 72 heads in turn.
#
# **Predict.** Without which head do a compound and its reverse come nearest: the previous-token
# head 1.3, or the [CLS] head 5.6? Or does no single head matter much?

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# Prints what is left of the order without the head that matters most
order = minilm["order"]
print(f"with all heads: cosine of boat house and house boat {order['first pair']:.3f}")
for way, words in (("blind", "equal weights"), ("silent", "output 0")):
    name, left = next(iter(order[way]["heads"].items()))  # the head with the largest effect
    print(f"head {name}, {words}: cosine {left['first pair']:.3f}, ", end="")
    print(f"{left['nearer']} of 10 pairs nearer, {left['left']:.0%} of the distance left")
    print(f"    controls: median head {order[way]['median']:.1%}, ", end="")
    print(f"between different compounds {left['others']:.0%}")

# %% [markdown] slideshow={"slide_type": "skip"}
# It is head 1.3. Without head 1.3 all ten pairs come nearer, while the median of the 72 heads costs
# almost nothing, and distances between *different* compounds hardly change. So the model loses some
# of the order and little else. Most of the order survives.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Ask for a second control before you show the numbers: everything might come
# nearer. Say how large the effect is, too: the cosine of *boat house* and *house boat* moves in the
# second decimal.

# %% [markdown] slideshow={"slide_type": "slide"}
# ### From the outside in
#
# *2 minutes.* When does the model know the next letter? Only the states of the last layer are meant
# for `lm_head`, which turns them into letters. But earlier states have the same size, so we can ask
# what it would say of them.

# %% slideshow={"slide_type": "-"} tags=["hide-input", "nbval-ignore-output"]
# Draws what lm_head makes of the states before, between and after the layers
with torch.inference_mode():
    run = two(as_ids(text), output_hidden_states=True)
    early = [two.lm_head(two.model.norm(state)) for state in run.hidden_states[:-1]]
looks = attention_maps(two, input_ids=as_ids(text))
strongest = [looks_back(looks[0]).argmax(), induction(looks[1]).argmax()]

figure, ax = plt.subplots(figsize=(11, 4.9))
style = {"ha": "center", "va": "center", "family": "monospace"}
for floor, logits in enumerate([*early, run.logits]):
    for position, letter in enumerate(logits[0].argmax(dim=-1).tolist()):
        right = (2 * text)[position + 1] == LETTERS[letter] and position > 7
        looks_like = (
            {"fontsize": 21, "weight": "bold"} if right else {"fontsize": 16, "color": FAINT}
        )
        ax.text(position, 1.6 * floor, LETTERS[letter], **style, **looks_like)
for layer, head in enumerate(strongest):
    weights = looks[layer][0, head]
    for query, key in (weights > 0.3).nonzero().tolist():
        path = (layer, query, key) in ((1, 9, 2), (0, 2, 1))
        line = {"lw": 5, "color": WEIGHT} if path else {"lw": 1.5, "color": GREY}
        ax.plot((key, query), (1.6 * layer + 0.35, 1.6 * layer + 1.2), **line)
for position, letter in enumerate(text):
    ax.text(position, -0.9, letter, fontsize=16, **style)
floors = {"text": -0.9, "embedding": 0.0, "after layer 1": 1.6, "after layer 2": 3.2}
for name, height in floors.items():
    ax.text(-1, height, name, ha="right", va="center", fontsize=14)
ax.set(xlim=(-3.4, 15.6), ylim=(-1.3, 3.7))
ax.axis("off")
ax.set_title("Only after layer 2 is the next letter there, and only in the second half")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: the text, and above it three rows of letters, the likeliest next letter by the states
# after the embedding, layer 1 and layer 2. In the upper row, the second half reads ive2AtnD, large
# and bold, because it is right. Lines for weights above 0.3 lead up to layer 1 from the token
# before, and up to layer 2, in the second half, from the token after the copy. One path is thick:
# from the second i to the first v, and from there to the first i.*

# %% [markdown] slideshow={"slide_type": "skip"}
# The lines show the heads with the highest scores above. After layer 1 each state holds the token
# before, but does not yet name the token that follows.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two minutes. Cover the upper row and ask what it will say at the second i. Then follow the thick
# line down from there with a finger: it ends at the v of the first half, and at i below it.

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.1** · complete a function
#
# `use_attention` copies the heads of keys and values before it calls your function. Write a
# function that gets them as they are: there are H heads of queries and G heads of keys and values,
# and H / G neighbouring query heads share a group (chapter 9). The mask is boolean, True = may
# attend, or `None`. Each query may see at least one key.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.4** · find the bug
#
# A model that generates with a cache computes only what is new: Q queries, (B, H, Q, d), of the
# last Q tokens of a text, meet the keys and values of all K tokens, (B, H, K, d). Each token sees
# itself and all before it. While the prompt is read, Q = K, and this function gives the right
# answers. For the next token, Q = 1, the text becomes nonsense. Repair it for every Q from 1 to K.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.2** · complete a function
#
# gpt-oss has a learned sink in each head (chapter 11): one more score in each row of the softmax,
# which takes its share of the weight and has no value, so that a row of weights sums to less than
# one. The sink is not divided by the root of d. Return outputs and weights, without a column for
# the sink. Without sinks, `None`, it is plain attention. Here the groups are copied already: keys
# and values have H heads.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.3** · complete a function
#
# `config` is a dictionary with the library's names, such as `model.config.to_dict()`. How many
# numbers do all layers together keep after `num_tokens` tokens?
#
# - `num_hidden_layers`, `hidden_size` and `num_attention_heads` are always there.
# - `num_key_value_heads` is the number of groups. Without it, each head has keys of its own.
# - `head_dim` is the size of a head. Without it, a head has `hidden_size` / `num_attention_heads`
#   numbers.
# - `sliding_window` is how many of the latest tokens a layer with a window keeps.
# - `layer_types` says for each layer 'full_attention' or 'sliding_attention'. Without it, all
#   layers have the window, if there is one.
# - `kv_lora_rank` is the size of a latent. Where there is one, a token leaves this latent and one
#   rotated key of `qk_rope_head_dim` numbers in each layer, and nothing else.
#
# A field may be missing, or be there and be `None`. Both mean the same.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.5** · write the test
#
# Your test gets a whole model: a function from tokens to logits, in which the mask is out of sight.
# It returns silently where each token sees itself and all before it. It raises an
# `AssertionError` for each of seven broken models:
#
# - there is no mask;
# - the mask is read the wrong way, so that each token sees only what comes after it;
# - the mask is transposed;
# - the second of two layers also shows each token the one after it;
# - the second of two layers reads the mask the wrong way;
# - each token sees only itself;
# - the first token is hidden from all, as if it were padding.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - N. Elhage et al., *A Mathematical Framework for Transformer Circuits*, 2021, Transformer
#   Circuits Thread.
#   [transformer-circuits.pub](https://transformer-circuits.pub/2021/framework/index.html).
# - C. Olsson et al., *In-context Learning and Induction Heads*, 2022, arXiv:2209.11895.
# - C. Sanford, D. Hsu, M. Telgarsky, *One-layer Transformers Fail to Solve the Induction Heads
#   Task*, 2024, arXiv:2408.14332.
# - L. Ben Allal et al., *SmolLM2: When Smol Goes Big*, 2025, arXiv:2502.02737.
# - K. Clark, U. Khandelwal, O. Levy, C. D. Manning, *What Does BERT Look At?*, BlackboxNLP 2019,
#   arXiv:1906.04341.
# - W. Wang et al., *MiniLM*, NeurIPS 2020, arXiv:2002.10957, and N. Reimers, I. Gurevych,
#   *Sentence-BERT*, EMNLP 2019, arXiv:1908.10084.
# - Llama Team, *The Llama 3 Herd of Models*, 2024, arXiv:2407.21783.
# - Gemma Team, *Gemma 2: Improving Open Language Models at a Practical Size*, 2024,
#   arXiv:2408.00118.
# - C. Raffel et al., *Exploring the Limits of Transfer Learning with a Unified Text-to-Text
#   Transformer*, JMLR 2020, arXiv:1910.10683.
# - OpenAI, *gpt-oss-120b & gpt-oss-20b Model Card*, 2025, arXiv:2508.10925.
# - DeepSeek-AI, *DeepSeek-V3 Technical Report*, 2024, arXiv:2412.19437.
# - T. Wolf et al., *Transformers: State-of-the-Art Natural Language Processing*, EMNLP 2020, and
#   the library's code, version 5.23.
# - A. Zhang, Z. C. Lipton, M. Li, A. J. Smola, *Dive into Deep Learning* 1.0.3, sections 11.7 and
#   11.9. [d2l.ai](https://d2l.ai)
