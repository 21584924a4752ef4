# %% [markdown] slideshow={"slide_type": "slide"}
# # 0 · Start here
#
# **You will** compute attention weights by hand, from descriptions that we chose, meet two
# pictures that the whole course returns to, and learn how these notebooks work.
#
# Core path: 20 minutes. Builds on nothing but Python. The course follows *Dive into Deep Learning*
# (D2L), here the opening of its chapter 11.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One word, two readings
#
# > The cat did not cross the street because **it** was too *tired*.
# >
# > The cat did not cross the street because **it** was too *wide*.
#
# What is *it*?

# %% [markdown] slideshow={"slide_type": "fragment"}
# You knew at once, both times, and the two answers differ. A single word at the end of the sentence
# changed what *it* refers to. How could a machine do that?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Read both sentences aloud and stop after each; the room calls out the cat, then the street. The
# example is a classic (Winograd's of 1972; such pairs are now called Winograd schemas). Ask how
# they knew: sooner or later somebody says 'streets do not get tired', which is the next slide.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Think of it as one question and seven candidates.
#
# - The sentence asks: *what here can be tired?* The question is called the **query**.
# - Each word offers a description of itself: a living thing, a place, an action. The descriptions
#   are called the **keys**.
# - The better a key fits the query, the more **attention** its word gets.

# %% [markdown] slideshow={"slide_type": "subslide"}
# In the next cell three numbers describe each word: is it alive, is it a place, is it an action?
# We chose the numbers by hand, so that you can check every step. A trained network finds its own.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Imports and settings
import matplotlib.pyplot as plt
import torch

from d2l_attention.views import AttentionView
from d2l_attention.views.plots import heatmap, set_style

torch.set_num_threads(1)
set_style()

# %% slideshow={"slide_type": "-"}
describe = {  # alive, place, action
    "The": [0.0, 0.0, 0.0],
    "cat": [3.0, 0.0, 0.0],
    "did": [0.0, 0.0, 1.0],
    "not": [0.0, 0.0, 0.0],
    "cross": [0.0, 0.0, 3.0],
    "the": [0.0, 0.0, 0.0],
    "street": [0.0, 3.0, 0.0],
}
words, keys = list(describe), torch.tensor(list(describe.values()))
can_be = {
    "tired": torch.tensor([1.0, 0.0, 0.0]),  # only what is alive gets tired
    "wide": torch.tensor([0.0, 1.0, 0.0]),  # only places are wide
}

# %% [markdown] slideshow={"slide_type": "subslide"}
# How well does a key fit a query? Multiply the two number by number and add up the products. The
# sum is called the **score**. For *tired*, the cat scores $1 \cdot 3 = 3$; every other word scores
# 0.
#
# Now turn the scores into shares. Take $e$ to the power of each score: about 20 for the cat, and 1
# for each of the six others. That is 26 in all. Each word's part of the 26 is its **attention
# weight**. (Any base above 1 would do; $e$ is the custom.)
#
# **Predict.** What is the cat's weight? And do the other six words get nothing, or a little?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Half a minute, then hands up: 'Who says that the other six get nothing?' Expect
# many, because their scores are 0. Point at $e^0 = 1$ before you go on.


# %% slideshow={"slide_type": "subslide"}
def attention_weights(query, keys):  # (3,), (7, 3) -> (7,)
    scores = keys @ query  # one score a word
    shares = scores.exp()
    return shares / shares.sum()


weights = {end: attention_weights(query, keys) for end, query in can_be.items()}
for end, row in weights.items():
    shown = zip(words, row.tolist(), strict=True)
    print(f"{end:5}: ", "  ".join(f"{word} {share:.2f}" for word, share in shown))

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks what the text says about these weights
assert words[weights["tired"].argmax()] == "cat" and words[weights["wide"].argmax()] == "street"
assert all((row > 0).all() for row in weights.values())
print("checked: the winners are the cat and the street, and no weight is 0")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The cat gets $20/26 = 0.77$. Every other word gets a little, $1/26 = 0.04$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# The same numbers as a picture, a **heat map**. Each row is a query and each column a key. Dark
# means much attention, and the numbers of a row sum to one.

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Draws the two rows of weights as a heat map
figure, ax = plt.subplots(figsize=(9, 2.6))
both = torch.stack([weights["tired"], weights["wide"]])
heatmap(ax, both, ["it was too tired", "it was too wide"], words, numbers=True, vmax=1.0)
ax.set_title("Same keys, another query: 'tired' finds the cat, 'wide' the street")
plt.show()

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: a heat map with two rows and seven columns, one a word. In the row 'it was too
# tired' the cell of 'cat' is dark; in the row 'it was too wide' the cell of 'street' is.
# The other cells are pale, and none is empty.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Read one row aloud, cell by cell: it is the first heat map of many. What matters here: the same
# operation, with the same keys, gave two answers because the query changed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Your turn
#
# Play with the same weights. The slider sets how *sharp* the match is: the scores are multiplied
# by that number before they become weights.

# %% [markdown] slideshow={"slide_type": "skip"}
# Point at a cell to read its number, or move from cell to cell with the arrow keys. **Show lines**
# draws the weights as links between words.

# %% [markdown] slideshow={"slide_type": "-"}
# **Question.** At which sharpness does every word get the same attention? And at which does the
# winner take more than 99%?

# %% slideshow={"slide_type": "-"} tags=["hide-input"]
# Shows the weights at six degrees of sharpness
sharpness = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
frames = [
    torch.stack([attention_weights(factor * query, keys) for query in can_be.values()])
    for factor in sharpness
]
view = AttentionView(
    torch.stack(frames)[:, None],  # (frames, heads, queries, keys)
    queries=["it … tired", "it … wide"],
    keys=words,
    frames=[f"sharpness {factor}" for factor in sharpness],
    title="Who is 'it'?",
)
view.frame = 2
view

# %% [markdown] slideshow={"slide_type": "-"}
# *Figure: an interactive heat map of the same two rows and seven words, with a slider for the
# sharpness. It opens at sharpness 1, the picture above.*

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# The view is alive: ask for a vote on the first question, then pull the slider to 0. Go up one step
# at a time and let the room call 'stop' at 99%. **Show lines** draws the weights as links: for many
# that is the picture that stays.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Checks the two answers
equal, *_, sharpest = frames
assert torch.allclose(equal, torch.full((2, 7), 1 / 7))
assert [factor for factor, w in zip(sharpness, frames, strict=True) if w.max() > 0.99] == [3.0]
print("checked: at sharpness 0 every weight is 1/7, and only at 3 the winner passes 99%")

# %% [markdown] slideshow={"slide_type": "subslide"}
# At sharpness 0 every word gets $1/7$. Of the six settings, only sharpness 3 lifts the winner above
# 99%.
#
# We wrote the keys and queries by hand, but the operation is the real one. Scores that become
# weights are the core of the Transformer, the network behind most large language models. Where do
# queries and keys come from? What is a good score? Which words must *not* be seen? The chapters
# answer these questions one by one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two intuitions
#
# **A party.** Forty people talk at once, and you want to know who will drive you home. You hear
# everybody, a few people clearly and most of them as a murmur. How well you hear a person depends
# on how much that person matters *to your question*. When you ask another question, you listen to
# other people, although the room has not changed.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Ask what in the party is the query and what are the keys. (The query is the question in your
# head; a key is what makes a voice worth your ear; a value is what that voice says.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A generous dictionary.** An ordinary dictionary answers only if your key is in it. A generous
# dictionary always answers. It looks at every entry, gives each a weight by how similar its key is
# to yours, and returns the weighted average of the values.

# %% slideshow={"slide_type": "-"}
prices = {20.0: 6.0, 30.0: 9.0, 40.0: 14.0}  # diameter of a pizza in cm -> price
print("strict dictionary, 30 cm:", prices.get(30.0), "  25 cm:", prices.get(25.0))

# %% [markdown] slideshow={"slide_type": "-"}
# **Predict.** What does a generous dictionary say for 25 cm? And for 30 cm, still exactly 9?

# %% slideshow={"slide_type": "fragment"}
sizes, costs = torch.tensor(list(prices.keys())), torch.tensor(list(prices.values()))
for asked in (30.0, 25.0):
    scores = -(((asked - sizes) / 4.0) ** 2) / 2  # 0 for the same size, lower for others
    shares = scores.exp()
    price = (shares / shares.sum()) @ costs  # the weighted average of the prices
    print(f"generous dictionary, {asked:.0f} cm: {price:.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# For 25 cm the strict dictionary returns `None`. The generous one says 7.51, about half-way between
# the prices of the two neighbours. For 30 cm it says 9.08 and not 9, because the other two sizes
# have a small weight as well.
#
# The diameters are the keys, the diameter that you ask for is the query, and the prices are the
# **values**. The query is compared with the keys, and the answer is made of the values. (The number
# 4.0 says how far a size may differ and still count. Chapter 2 studies it.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Try it.** What does the generous dictionary say for 60 cm? Can it ever say more than 14?

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Change 25 to 60 in the notebook, live. Many expect more than 20, as a straight line would give. It
# says 14.00: a blend is never outside what it blends. Chapter 1 makes a theorem of it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The way through
#
# | chapter | the question it answers | the book |
# |---|---|---|
# | [1 · Queries, keys and values][1] | How do you look up what is not there? | 11.1 |
# | [2 · Attention pooling by similarity][2] | Can similarity alone predict? | 11.2 |
# | [3 · Scoring functions][3] | How alike are a query and a key? | 11.3 |
# | [4 · Masked softmax][4] | How do you forbid a look? | 11.3.2 |
# | [5 · Bahdanau attention][5] | What is a look back worth? | 11.4 |
# | [6 · Multi-head attention][6] | Why look in several ways at once? | 11.5 |
# | [7 · Self-attention and positional encoding][7] | How does it know the order? | 11.6 |
# | [8 · The Transformer][8] | What if attention is all there is? | 11.7 |
# | [9 · Attention in all its forms][9] | What if there are too many words to look at? | |
# | [10 · Attention at scale][10] | What if one machine is too small? | |
#
# [1]: 01_queries_keys_values.ipynb
# [2]: 02_attention_pooling.ipynb
# [3]: 03_scoring_functions.ipynb
# [4]: 04_masked_softmax.ipynb
# [5]: 05_bahdanau_attention.ipynb
# [6]: 06_multi_head_attention.ipynb
# [7]: 07_self_attention_and_positions.ipynb
# [8]: 08_the_transformer.ipynb
# [9]: 09_attention_in_all_its_forms.ipynb
# [10]: 10_attention_at_scale.ipynb

# %% [markdown] slideshow={"slide_type": "skip"}
# 'The book' is *Dive into Deep Learning*, free at <https://d2l.ai>. You do not need it for this
# course. If you read it alongside, you will find the book's names in our code. Where we differ from
# the book, the text says so and shows why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How these notebooks work
#
# - **Run** a cell with <kbd>Shift</kbd> + <kbd>Enter</kbd>. Change a number and run it again.
#   `make lab` gave you a copy, so nothing can break. *Kernel → Restart* forgets all variables. To
#   get a chapter back as it was, delete your copy and start `make lab` again.
# - **Predict** means: stop, and say your answer aloud before you run the next cell. A wrong
#   prediction is worth more than none.
# - A **folded** cell shows one line and three dots. It only imports, draws or checks, and a click
#   opens it. You miss nothing if you leave it closed.

# %% [markdown] slideshow={"slide_type": "subslide"}
# - The **core path** of a chapter takes at most 45 minutes (an hour in chapters 9 and 10). What
#   comes under *Going further* can be read in any order, or not at all.
# - Each chapter **builds** its mechanism in plain code, and then shows that the package
#   `d2l_attention` computes the same. Retype these cells: it is the best way to learn them.
# - A **view** answers your hand with sliders, heat maps and lines.
# - **Exercises** come last, the easiest first. Each has a check that tells you what is wrong, up to
#   three hints, and a solution.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## A first exercise
#
# Look at the heat map of *tired* and *wide* again. What do the seven weights of one row sum to?
# Write your number in place of `None` and run the cell.

# %% slideshow={"slide_type": "fragment"}
from d2l_attention.exercises import check, hint, progress, solution

answer = None
check("0.1", answer)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Are you stuck? `hint("0.1")` gives a hint, and another one when you call it again.
# `solution("0.1")` shows the way.

# %% [markdown] slideshow={"slide_type": "skip"}
# `progress()` lists what you have solved, today and on earlier days, and says where to go on.

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
progress()

# %% [markdown] slideshow={"slide_type": "notes"}
# **For the lecturer.**
# Do it live and give a wrong answer first, 7 say, so that the room sees what a check tells. Then
# call `hint("0.1")` once. Whoever has a laptop open solves it now.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Your machine
#
# Everything here runs on an ordinary laptop without a graphics card. Chapters 5 and 8 train their
# translators in a minute or two, the other chapters run in seconds. This is what was found on your
# machine:

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output", "hide-input"]
# Finds out what this machine has
from d2l_attention import try_gpu

names = {
    "cpu": "no graphics card: the course runs on the CPU",
    "cuda": "an NVIDIA graphics card",
    "mps": "an Apple graphics processor",
}
print(f"PyTorch {torch.__version__}, device '{try_gpu()}': {names[try_gpu().type]}")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention gives every candidate a weight: the better its key fits the query, the more.
# - The answer is the weighted average of the values.
# - Another query gives another answer from the same keys and values.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Symbols and words
#
# All chapters use these letters, in formulas, in code and in the comments that give shapes. Come
# back here when one is unclear.
#
# | symbol | shape or range | meaning |
# |---|---|---|
# | `B` | number | sentences in a batch |
# | `Q`, `K` | numbers | how many queries, how many keys ($m$ in the formulas of chapters 1, 2) |
# | `D` | number | width: how many numbers a query, a key or a token has (`num_hiddens`) |
# | `V` | number | how many numbers a value has |
# | `H` | number | heads; each has width `D / H` |
# | $n$ | number | length of a sequence, where it attends to itself |
# | $d$ | number | in formulas: the size of the query that meets the key (with heads `D / H`) |
# | $q$, $k_j$, $v_j$ | vectors | a query; key and value of pair $j$ |
# | $\mathbf{Q}$, $\mathbf{K}$, $\mathbf{V}$ | matrices | all queries, keys, values as rows |
# | $a_{ij}$ | any number | score of query $i$ and key $j$ |
# | $\alpha_{ij}$ | 0 to 1 | attention weight: the softmax of the scores over the keys $j$ |
# | $W_q, W_k, W_v, W_o$ | matrices | parameters ('weights' are always attention weights) |
# | $i$, $j$ | counted from 0 in code | index of a query, index of a key |
# | position | 0, 1, 2, ... | where a token is in its sequence, counted from 0 |
# | $h_t$, $s_t$ | vectors | chapter 5: state of the encoder at $t$; of the decoder after step $t$ |
# | `valid_lens` | (B,) or (B, Q) | how many keys from the left may be seen |
# | `mask` | bool, (*, Q, K) | True = may attend |
#
# - **Score**: how well a key fits a query, any number. **Weight**: its share of the attention.
# - **Attention pooling**: the weighted sum of the values.
# - **Mask**: which keys a query may see. A **causal** mask hides later positions.
# - **Self-attention**: queries, keys and values come from one sequence. **Cross-attention**: the
#   queries come from one sequence, the keys and values from another.
# - **Head**: one of several attentions that run side by side in a layer.
# - **Context vector**: what attention returns to a decoder.
# - **Step**: one step of training, or one word of decoding.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Sources
#
# - Zhang, Lipton, Li and Smola, *Dive into Deep Learning*, version 1.0.3, chapter 11.
# - The pair *tired* / *wide* follows the example made popular by Jakob Uszkoreit (2017),
#   *Transformer: A Novel Neural Network Architecture for Language Understanding*, Google
#   Research blog. Such pairs go back to Winograd (1972), *Understanding Natural Language*.
# - The party is Cherry's (1953) 'cocktail party' of hearing research: *Some Experiments on the
#   Recognition of Speech, with One and with Two Ears*, JASA 25(5).
