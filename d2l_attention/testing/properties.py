"""The ten properties. Each is a function that says what is wrong, or ``None``."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from d2l_attention.testing.adapters import Attention, batch

Q, K = 5, 7  # unequal: a swapped axis cannot pass
LENS = torch.tensor([7, 4, 1])


@dataclass(frozen=True)
class Property:
    """A property, what it means, and which mistakes break it."""

    name: str
    meaning: str
    breaks: str
    find: Callable[[Attention, int], str | None]
    needs: str = ""  # "lengths" or "causal"

    def not_tried(self, attention: Attention) -> str:
        """Why this cannot be tried on ``attention``, or nothing."""
        if self.needs == "lengths" and not attention.takes_lengths:
            return "it takes neither valid_lens nor a mask"
        if self.needs == "causal" and not attention.takes_causal:
            return "it takes neither is_causal nor a mask"
        return ""


def an_answer_for_each_query(attention: Attention, size: int) -> str | None:
    queries, keys, values = batch(size, Q, K)
    output = attention(queries, keys, values)
    if output.ndim != 3 or output.shape[:2] != queries.shape[:2]:
        return f"queries {tuple(queries.shape)} got an output of shape {tuple(output.shape)}"
    return attention.differs("random numbers", output, output)


def keys_in_any_order(attention: Attention, size: int) -> str | None:
    queries, keys, values = batch(size, Q, K)
    order = torch.tensor([3, 6, 0, 5, 1, 4, 2])
    shuffled = attention(queries, keys[:, order], values[:, order])
    return attention.differs(
        "keys and values in another order", shuffled, attention(queries, keys, values)
    )


def queries_by_themselves(attention: Attention, size: int) -> str | None:
    queries, keys, values = batch(size, Q, K)
    whole = attention(queries, keys, values)
    for query in (0, Q - 1):
        alone = attention(queries[:, query : query + 1], keys, values)
        if wrong := attention.differs(f"query {query} asked alone", alone[:, 0], whole[:, query]):
            return wrong
    return None


def sentences_by_themselves(attention: Attention, size: int) -> str | None:
    queries, keys, values = batch(size, Q, K)
    lens = LENS if attention.takes_lengths else None
    whole = attention(queries, keys, values, lens)
    for sentence in range(len(queries)):
        one = slice(sentence, sentence + 1)
        length = None if lens is None else lens[one]
        alone = attention(queries[one], keys[one], values[one], length)
        if wrong := attention.differs(f"sentence {sentence} without the others", alone, whole[one]):
            return wrong
    return None


def weights_sum_to_one(attention: Attention, size: int) -> str | None:
    queries, keys, values = batch(size, Q, K)
    same = values[:, :1].expand_as(values)  # every key has the same value: any average is it
    first = attention(queries[:, :1], keys[:, :1], same[:, :1])
    return attention.differs(
        "all values equal, so every average of them is the same",
        attention(queries, keys, same),
        first.expand(-1, Q, -1),
    )


def every_key_can_matter(attention: Attention, size: int) -> str | None:
    queries, keys, values = batch(size, Q, K)
    output = attention(queries, keys, values)
    for key in range(K):
        for part, name in ((keys, "key"), (values, "value")):
            before = part[:, key].clone()
            part[:, key] += 3.0
            change = (attention(queries, keys, values) - output).abs().amax(dim=-1)  # (B, Q)
            part[:, key] = before
            if not (change > 1e-7).all():
                return f"{name} {key} was changed, and some queries gave the same answer as before"
    return no_gradient(attention, queries, keys, values)


def no_gradient(attention: Attention, *inputs: Tensor) -> str | None:
    """What matters can be learned: the square of the output has a gradient in each input."""
    inputs = [X.clone().requires_grad_() for X in inputs]
    output = attention(*inputs)
    if not output.requires_grad:
        return "the output has no gradient at all"
    gradients = torch.autograd.grad(output.square().sum(), inputs, allow_unused=True)
    for name, gradient in zip(("queries", "keys", "values"), gradients, strict=True):
        if gradient is None or not gradient.any():
            return f"{name} matter, and no gradient reaches them: they cannot learn"
    return None


def padding_changes_nothing(attention: Attention, size: int) -> str | None:
    queries, keys, values = batch(size, Q, K)
    output = attention(queries, keys, values, LENS)
    for sentence, length in enumerate(LENS.tolist()):
        cut = attention(
            *(X[sentence : sentence + 1, :n] for X, n in _cut(queries, keys, values, length)),
        )
        name = f"a sentence of length {length} padded to {K}, beside the same one cut to {length}"
        if wrong := attention.differs(name, output[sentence : sentence + 1], cut):
            return wrong
    for sentence, length in enumerate(LENS.tolist()):
        keys[sentence, length:] = 100.0
        values[sentence, length:] = -100.0
    return attention.differs(
        "other numbers in the padding", attention(queries, keys, values, LENS), output
    )


def _cut(queries: Tensor, keys: Tensor, values: Tensor, length: int):
    return (queries, Q), (keys, length), (values, length)


def nothing_to_see_is_zero(attention: Attention, size: int) -> str | None:
    queries, keys, values = (X.requires_grad_() for X in batch(size, Q, K))
    lens = torch.tensor([0, K, 2])
    output = attention(queries, keys, values, lens)
    if not torch.isfinite(output).all():
        return "a sentence of length 0: there is NaN or infinity in the output"
    gradients = torch.autograd.grad(output.sum(), (queries, keys, values), allow_unused=True)
    if not all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None):
        return "a sentence of length 0: there is NaN or infinity in a gradient"
    with torch.no_grad():
        keys[0], values[0] = 5.0, -5.0
        changed = attention(queries, keys, values, lens)
    return attention.differs(
        "a sentence of length 0 with other padding", changed[:1], output[:1].detach()
    )


def the_future_changes_nothing(attention: Attention, size: int) -> str | None:
    X = batch(size, K, K)[0]
    modes = (True, False) if attention.module is not None else (False,)
    was_training = attention.module is not None and attention.module.training
    try:
        for training in modes:
            if attention.module is not None:
                attention.module.train(training)
            output = attention(X, X, X, None, True)
            for position in range(1, K):
                later = X.clone()
                later[:, position:] = 9.0
                changed = attention(later, later, later, None, True)
                mode = "while training" if training else "in eval mode"
                name = f"tokens from position {position} on were changed, {mode}"
                if wrong := attention.differs(name, changed[:, :position], output[:, :position]):
                    return wrong
    finally:
        if attention.module is not None:
            attention.module.train(was_training)
    return None


def inputs_stay_as_they_were(attention: Attention, size: int) -> str | None:
    given = batch(size, Q, K)
    lens = LENS.clone()
    before = [X.clone() for X in (*given, lens)]
    attention(*given, lens if attention.takes_lengths else None)
    for name, X, old in zip(
        ("queries", "keys", "values", "valid_lens"), (*given, lens), before, strict=True
    ):
        if not torch.equal(X, old):
            return f"{name} were changed in place"
    return None


PROPERTIES = (
    Property(
        "an answer for each query",
        "The output has a row for each query of each sentence, and holds numbers.",
        "a product along the wrong axis, a swapped pair of axes",
        an_answer_for_each_query,
    ),
    Property(
        "keys in any order",
        "Keys and values in another order give the same answers: attention is a sum over pairs.",
        "a softmax over the wrong axis, values that are not those of the keys",
        keys_in_any_order,
    ),
    Property(
        "queries by themselves",
        "What a query is told does not depend on the other queries.",
        "a softmax over the queries, scores of q_i with k_i only",
        queries_by_themselves,
    ),
    Property(
        "sentences by themselves",
        "What a sentence is told does not depend on the others in its batch.",
        "view in place of transpose, a mask that broadcasts along the wrong axis",
        sentences_by_themselves,
    ),
    Property(
        "weights sum to one",
        "If all values are the same, all answers are the same.",
        "a softmax over the wrong axis, a missing softmax, dropout that was left on",
        weights_sum_to_one,
    ),
    Property(
        "every key can matter",
        "A visible key or value that changes, changes every answer; gradients reach all inputs.",
        "scores of q_i with k_i only, an inverted mask, queries that meet one head only, a detach",
        every_key_can_matter,
    ),
    Property(
        "padding changes nothing",
        "A padded sentence gets the answers of the sentence that was cut to its length.",
        "a mask behind the softmax, an inverted mask, a length that is one off, no mask",
        padding_changes_nothing,
        needs="lengths",
    ),
    Property(
        "nothing to see is no accident",
        "A sentence of length 0 gives numbers, and its padding changes neither them nor gradients.",
        "a row of minus infinities (NaN), a row of -1e6 (equal weights over padding)",
        nothing_to_see_is_zero,
        needs="lengths",
    ),
    Property(
        "the future changes nothing",
        "With a causal mask, later tokens change no earlier answer, in training or after it.",
        "a causal mask that is transposed, one off, or there only while training",
        the_future_changes_nothing,
        needs="causal",
    ),
    Property(
        "inputs stay as they were",
        "Queries, keys, values and lengths are the same after the call.",
        "a fill in place, sorting in place",
        inputs_stay_as_they_were,
    ),
)
