# %% [markdown] slideshow={"slide_type": "skip"}
# ## Exercises
#
# Write your answer into the cell and run it: `check` says what is right or what went wrong.
# `hint("13.1")` gives one more hint each time, `solution("13.1")` the whole way.

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.1** Your attention, in groups · *easy, 10 minutes* · complete a function
#
# `use_attention` copies the heads of keys and values before it calls your function. Write a
# function that gets them as they are: there are H heads of queries and G heads of keys and values,
# and H / G neighbouring query heads share a group (chapter 9). The mask is boolean, True = may
# attend, or `None`. Each query may see at least one key.


# %% slideshow={"slide_type": "skip"}
from d2l_attention.exercises import check, hint, solution


def attend_in_groups(queries, keys, values, mask=None):
    """queries (B, H, Q, d), keys (B, G, K, d), values (B, G, K, v) -> outputs (B, H, Q, v).

    mask is None or boolean, broadcastable to (B, H, Q, K), True = may attend. H is a multiple of
    G. With H = 4 and G = 2 the query heads 0 and 1 read group 0, the heads 2 and 3 read group 1.
    """
    ...


check("13.1", attend_in_groups)

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.2** A softmax that keeps something back · *medium, 12 minutes* · complete a function
#
# gpt-oss has a learned sink in each head (chapter 11): one more score in each row of the softmax,
# which takes its share of the weight and has no value, so that a row of weights sums to less than
# one. The sink is not divided by the root of d. Return outputs and weights, without a column for
# the sink. Without sinks, `None`, it is plain attention. Here the groups are copied already: keys
# and values have H heads.


# %% slideshow={"slide_type": "skip"}
def attend_with_sinks(queries, keys, values, mask=None, sinks=None):
    """queries (B, H, Q, d), keys (B, H, K, d), values (B, H, K, v) -> outputs and weights.

    Outputs are (B, H, Q, v), weights (B, H, Q, K). mask is boolean, True = may attend. sinks (H,)
    are one more score of each row, the same for all queries of a head. Both may be None. The
    scores 0, 0 and the sink 0 give the weights 1/3, 1/3.
    """
    ...


check("13.2", attend_with_sinks)

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.3** Read a configuration · *medium, 20 minutes* · complete a function
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


# %% slideshow={"slide_type": "skip"}
def cache_numbers(config, num_tokens):
    """Numbers in the cache of all layers after num_tokens tokens, for a dictionary of fields.

    {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4} and 10 tokens: a head has
    32 / 4 = 8 numbers, so 2 layers x 4 heads x 8 numbers x 2 (keys and values) x 10 tokens = 1280.
    """
    ...


check("13.3", cache_numbers)

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.4** The wrong corner · *medium, 12 minutes* · find the bug
#
# A model that writes with a cache computes only what is new: Q queries, (B, H, Q, d), of the last
# Q tokens of a text, meet the keys and values of all K tokens, (B, H, K, d). Each token sees itself
# and all before it. While the prompt is read, Q = K, and this function gives the right answers. For
# the next token, Q = 1, the text becomes nonsense. Repair it for every Q from 1 to K.


# %% slideshow={"slide_type": "skip"}
def attend_to_cache(queries, keys, values):
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(queries, keys, values, is_causal=True)


check("13.4", attend_to_cache)

# %% [markdown] slideshow={"slide_type": "skip"}
# ### Exercises
# (AT THE END OF GOING FURTHER: this heading and what follows; this line in brackets goes.)

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.5** A mask that nobody sees · *medium, 20 minutes* · write the test
#
# Your test gets a whole model: a function from tokens to logits, in which the mask is out of sight.
# It returns without a word where each token sees itself and all before it. It raises an
# `AssertionError` for each of seven broken models:
#
# - there is no mask;
# - the mask is read the wrong way, so that each token sees only what comes after it;
# - the mask is transposed;
# - the second of two layers shows each token the one after it, too;
# - the second of two layers reads the mask the wrong way;
# - each token sees only itself;
# - the first token is hidden from all, as if it were padding.


# %% slideshow={"slide_type": "skip"}
def test_sees_only_the_past(model):
    """Pass where each token sees itself and all before it, and fail by an `AssertionError` if not.

    `model(tokens)` takes integers from 0 to 10, (B, n), n up to 32, and returns logits (B, n, 11).
    A test that looks only at the shape would be
    `assert model(torch.randint(11, (2, 8))).shape == (2, 8, 11)`.
    """
    ...


check("13.5", test_sees_only_the_past)

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.6** Find the head that looks back · *medium, 12 minutes* · complete a function
#
# `weights` holds the maps of all heads of all layers for one text:
# `torch.stack([maps[0] for maps in attention_maps(model, input_ids=ids).values()])`. Think of a
# score that tells how much a head looks at the token before. Return the layer and the number of the
# head for which it is highest, both counted from 0. Token 0 has no token before it. A head that
# looks back in one row only should not win.


# %% slideshow={"slide_type": "skip"}
def previous_token_head(weights):
    """weights (L, H, n, n) of L layers with H heads -> (layer, head), two ints from 0 on.

    The head that looks most at the token before, over all tokens that have one. Token i looks at
    token j with weights[l, h, i, j]: the map [[1, 0, 0], [1, 0, 0], [0, 1, 0]] always looks there.
    """
    ...


check("13.6", previous_token_head)

# %% [markdown] slideshow={"slide_type": "skip"}
# **13.7** A score for induction · *hard, 25 minutes* · complete a function
#
# An induction head looks at the token behind an earlier copy of the present token. Give each head
# its score, for any text, not only for one whose halves are alike: the weight that token i puts on
# tokens j + 1 where token j, j < i, is the same as token i. If there are several copies, their
# weights are added. The score is the mean over all tokens i that have an earlier copy. At least one
# token has one.


# %% slideshow={"slide_type": "skip"}
def induction_score(weights, tokens):
    """weights (H, n, n), tokens (n,) -> scores (H,): the mean weight on tokens behind copies.

    For tokens [3, 5, 3] only token 2 has an earlier copy, token 0. Behind this copy is token 1, so
    the score is weights[:, 2, 1].
    """
    ...


check("13.7", induction_score)

# %% slideshow={"slide_type": "skip"} tags=["nbval-ignore-output"]
from d2l_attention.exercises import progress

progress()
