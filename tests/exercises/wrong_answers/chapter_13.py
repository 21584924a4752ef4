"""Answers to chapter 13 in a student's own voice: wrong ones with their words, and right ones."""

import numpy as np
import torch
import torch.nn.functional as F
from answers import right, wrong


@right("13.1")
def without_copies(queries, keys, values, mask=None):
    (B, H, Q, d), (G, K) = queries.shape, keys.shape[1:3]
    scores = torch.einsum("bgsqd,bgkd->bgsqk", queries.unflatten(1, (G, H // G)), keys) / d**0.5
    if mask is not None:
        scores = (
            scores.flatten(1, 2)
            .masked_fill(mask.logical_not(), -torch.inf)
            .reshape(B, G, H // G, Q, K)
        )
    return torch.einsum("bgsqk,bgkv->bgsqv", scores.softmax(-1), values).flatten(1, 2)


@wrong("13.1", "0 times -inf is NaN")
def minus_infinity_times(queries, keys, values, mask=None):
    s = queries.shape[1] // keys.shape[1]
    k, v = (torch.stack([X] * s, dim=2).flatten(1, 2) for X in (keys, values))
    scores = queries @ k.transpose(-1, -2) / np.sqrt(queries.shape[-1])
    if mask is not None:
        scores = scores + (1 - mask.float()) * float("-inf")
    return F.softmax(scores, dim=-1) @ v


@wrong("13.1", "keep what it returns")
def left_in_place(queries, keys, values, mask=None):
    s = queries.shape[1] // keys.shape[1]
    k, v = (torch.stack([X] * s, dim=2).flatten(1, 2) for X in (keys, values))
    scores = queries @ k.transpose(-1, -2) / np.sqrt(queries.shape[-1])
    if mask is not None:
        torch.where(mask, scores, torch.tensor(-torch.inf))
    return F.softmax(scores, dim=-1) @ v


@right("13.2")
def by_log_sum(queries, keys, values, mask=None, sinks=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", queries, keys) / queries.shape[-1] ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.full_like(scores, -torch.inf))
    total = scores.logsumexp(dim=-1)  # (B, H, Q)
    if sinks is not None:
        total = torch.logaddexp(total, sinks.reshape(-1, 1))
    weights = torch.exp(scores - total[..., None])
    return weights @ values, weights


@wrong("13.2", "Your extra score is 0")
def as_a_key_of_zeros(queries, keys, values, mask=None, sinks=None):
    """A key of zeros scores 0, whatever has been learned."""
    if sinks is None:
        return by_log_sum(queries, keys, values, mask)
    nobody = torch.zeros_like(keys[:, :, :1])
    keys, values = torch.cat((keys, nobody), 2), torch.cat((values, 0 * values[:, :, :1]), 2)
    if mask is not None:
        mask = F.pad(mask, (0, 1), value=True)
    outputs, weights = by_log_sum(queries, keys, values, mask)
    return outputs, weights[..., :-1]


@wrong("13.2", "no gradient reaches `sinks`")
def sinks_of_one_number(queries, keys, values, mask=None, sinks=None):
    """As if it were learned already."""
    return by_log_sum(queries, keys, values, mask, None if sinks is None else sinks.detach())


@wrong("13.2", "Row 0 of your weights is NaN")
def below_the_largest_score(queries, keys, values, mask=None, sinks=None):
    """The sink takes no part in the maximum: where all is hidden, -inf - -inf."""
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    largest = scores.amax(dim=-1, keepdim=True)
    shares = (scores - largest).exp()
    own = 0 if sinks is None else (sinks[:, None, None] - largest).exp()
    weights = shares / (shares.sum(dim=-1, keepdim=True) + own)
    return weights @ values, weights


@right("13.3")
def layer_by_layer(config, num_tokens):
    total = 0
    for i in range(config["num_hidden_layers"]):
        tokens, window = num_tokens, config.get("sliding_window")
        names = config.get("layer_types")
        if window and (names is None or names[i].startswith("sliding")):
            tokens = min(tokens, window)
        latent = config.get("kv_lora_rank")
        if latent:
            total += tokens * (latent + config["qk_rope_head_dim"])
            continue
        size = config.get("head_dim")
        if size is None:
            size = config["hidden_size"] // config["num_attention_heads"]
        groups = config.get("num_key_value_heads", config["num_attention_heads"])
        total += tokens * groups * size + tokens * groups * size
    return total


@wrong("13.3", "Without `num_key_value_heads`")
def trusts_every_field(config, num_tokens):
    heads, size = config["num_key_value_heads"], config["head_dim"]
    return 2 * config["num_hidden_layers"] * heads * size * num_tokens


@wrong("13.3", "be `None`")
def the_default_of_get(config, num_tokens):
    size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    groups = config.get("num_key_value_heads", config["num_attention_heads"])
    return config["num_hidden_layers"] * 2 * groups * size * num_tokens


@right("13.4")
def by_positions(queries, keys, values):
    key = torch.arange(keys.shape[2])
    query = torch.arange(keys.shape[2] - queries.shape[2], keys.shape[2])
    scores = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5
    return scores.masked_fill(key > query[:, None], -torch.inf).softmax(dim=-1) @ values


@wrong("13.4", "Your queries are too early")
def positions_from_zero(queries, keys, values):
    """The mask of the upper left corner, written by hand."""
    query, key = torch.arange(queries.shape[2]), torch.arange(keys.shape[2])
    scores = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5
    return scores.masked_fill(key > query[:, None], -torch.inf).softmax(dim=-1) @ values


@wrong("13.4", "One output for each query")
def only_the_last_query(queries, keys, values):
    """A cache serves one token."""
    return by_positions(queries[:, :, -1:], keys, values)


def draw(n=16, seed=1):
    return torch.randint(11, (3, n), generator=torch.Generator().manual_seed(seed))


@right("13.5")
def beginnings_and_first_tokens(model):
    whole, logits = draw(), None
    for end in range(1, 17):
        shorter = model(whole[:, :end])
        assert torch.allclose(shorter, model(whole)[:, :end], atol=1e-5), end
    logits = model(whole)
    for t in range(15):
        other = whole.clone()
        other[:, t] = 10 - other[:, t]
        other[:, t][other[:, t] == 5] = 3
        gap = (model(other) - logits)[:, t + 1 :].abs()
        assert gap.amax(dim=(0, 2)).min() > 1e-5


@wrong("13.5", "no earlier one does")
def the_future_only(model):
    tokens = draw()
    before = model(tokens)
    for t in range(1, 16):
        other = torch.cat((tokens[:, :t], draw(16, seed=2)[:, t:]), dim=1)
        torch.testing.assert_close(model(other)[:, :t], before[:, :t])


@wrong("13.5", "Only the next token leaks")
def the_last_token_only(model):
    tokens = draw(6)
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 4) % 11
    torch.testing.assert_close(model(other)[:, :4], model(tokens)[:, :4])
    assert not torch.allclose(model(other)[:, -1], model(tokens)[:, -1])


@right("13.6")
def head_after_head(weights):
    best, where = -1.0, None
    for layer in range(weights.shape[0]):
        for head in range(weights.shape[1]):
            matrix = weights[layer, head].numpy()
            score = sum(matrix[i, i - 1] for i in range(1, len(matrix)))
            if score > best:
                best, where = score, (layer, head)
    return where


@wrong("13.6", "the last token only")
def of_the_last_token(weights):
    """The last token writes the next word, so only its row is looked at."""
    scores = weights[..., -1, -2]
    return tuple((scores == scores.max()).nonzero()[0].tolist())


@wrong("13.6", "two whole numbers")
def number_of_the_head(weights):
    return int(np.argmax(weights.numpy().trace(-1, axis1=-2, axis2=-1)))


@right("13.7")
def token_after_token(weights, tokens):
    words, rows = tokens.tolist(), []
    for i, word in enumerate(words):
        places = [j + 1 for j in range(i) if words[j] == word]
        if places:
            rows.append(weights[:, i, places].sum(dim=1))
    return torch.stack(rows).mean(dim=0)


@wrong("13.7", "the earliest copy only")
def by_index_of(weights, tokens):
    """`list.index` finds the first copy."""
    words, rows = tokens.tolist(), []
    for i, word in enumerate(words):
        if word in words[:i]:
            rows.append(weights[:, i, words.index(word) + 1])
    return torch.stack(rows).mean(dim=0)


@wrong("13.7", "over the heads")
def one_number(weights, tokens):
    return token_after_token(weights, tokens).mean()


@right("13.8")
def letter_for_letter(letters, W_v, W_o, W_q, W_k):
    table = letters.new_zeros(len(letters), len(letters))
    for a, looks in enumerate(letters):
        for b, written in enumerate(letters):
            key = W_k.T @ (W_o.T @ (W_v.T @ written))
            table[a, b] = (W_q.T @ looks).dot(key) / key.shape[0] ** 0.5
    return table


@wrong("13.8", "from the letters themselves")
def qk_alone(letters, W_v, W_o, W_q, W_k):
    """The table of one head, as if nothing had been written."""
    between = W_q @ W_k.T / np.sqrt(W_q.shape[-1])
    return torch.einsum("ai,ij,bj->ab", letters, between, letters)


@wrong("13.8", "needs no mark")
def marks_on_both_sides(letters, W_v, W_o, W_q, W_k):
    """Every token has a mark after layer 1, the one that looks as well."""
    after = torch.einsum("ni,ij,jk->nk", letters, W_v, W_o)
    return after @ (W_q @ W_k.T) @ after.mT / np.sqrt(W_q.shape[-1])


@right("13.9")
def by_a_switch(attention, head):
    def switched(queries, keys, values, mask=None):
        on = (torch.arange(queries.shape[1]) != head).to(queries.dtype)
        return attention(queries * on.reshape(-1, 1, 1), keys, values, mask=mask)

    return switched


@wrong("13.9", "changed the queries")
def in_place(attention, head):
    def attend(q, k, v, mask=None):
        q[:, head].zero_()
        return attention(q, k, v, mask)

    return attend


@wrong("13.9", "lost the mask")
def mask_is_none(attention, head):
    """The default of `mask` is handed on, whatever comes."""

    def attend(q, k, v, mask=None):
        q = torch.stack([q[:, h] * (h != head) for h in range(q.shape[1])], dim=1)
        return attention(q, k, v)

    return attend
