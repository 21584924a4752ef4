"""Ten properties of attention without positions of its own, and one way to call it.

From the course d2l_attention, chapter 12. This file needs torch, and nothing of the course.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Q, K = 5, 7  # unequal: a swapped axis cannot pass
LENS = (7, 4, 1)

# ---- One way to call every attention: D2L's layers, PyTorch's, and plain functions ---------


@dataclass
class Attention:
    """What the properties call: ``attention(queries, keys, values, valid_lens, is_causal)``.

    Shape: queries (B, Q, size), keys (B, K, size), values (B, K, size), valid_lens (B,)
    -> (B, Q, any size), in float32.

    All of it is on ``device`` and, but for the lengths, in ``dtype``: there the layer is.
    """

    call: Callable[..., Tensor]
    takes_lengths: bool
    takes_causal: bool
    module: nn.Module | None
    device: torch.device
    dtype: torch.dtype

    def __call__(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        # Each call begins with the same random numbers and gives them back, so that dropout is the
        # same in all of them: two calls can be compared while training.
        draws_on = [] if self.device.type == "cpu" else [self.device]
        with torch.random.fork_rng(draws_on, device_type=self.device.type):
            return self.call(queries, keys, values, valid_lens, is_causal).float()

    def inputs(self, size: int, num_queries: int = Q, num_keys: int = K) -> list[Tensor]:
        """Random queries, keys and values of three sentences, the same at every call.

        Shape: (3, Q, size), (3, K, size), (3, K, size).
        """
        generator = torch.Generator("cpu").manual_seed(0)
        lengths = (num_queries, num_keys, num_keys)
        drawn = [torch.randn(3, n, size, generator=generator, device="cpu") for n in lengths]
        return [X.to(self.device, self.dtype) for X in drawn]

    def lengths(self, lens: Sequence[int] = LENS) -> Tensor:
        """The lengths of three sentences, (3,)."""
        return torch.tensor(lens, device=self.device)

    def differs(self, name: str, mine: Tensor, expected: Tensor) -> str | None:
        """What to say where two results are not the same up to rounding."""
        if mine.shape != expected.shape:
            return f"{name}: the shape is {tuple(mine.shape)} instead of {tuple(expected.shape)}"
        if not torch.isfinite(mine).all():
            return f"{name}: there is NaN or infinity in the output"
        gap = (mine - expected).abs().max().item() if mine.numel() else 0.0
        rounding = max(1e-4, 10 * torch.finfo(self.dtype).eps)
        if gap > rounding * (1 + expected.abs().max().item()):
            return f"{name}: the largest difference is {gap:.3g}"
        return None


def adapted(attention: Callable[..., object], dtype: torch.dtype = torch.float32) -> Attention:
    """The attention with one signature, by what its own asks for.

    Understood are ``valid_lens`` and ``is_causal`` (this course and D2L), ``mask`` or
    ``attn_mask`` with True = may attend ((B, Q, K), or (Q, K) for what is only causal), and
    ``torch.nn.MultiheadAttention``, where True = ignore. An output may come with weights behind.
    A layer is where its parameters are, a function on PyTorch's default device.

    Errors: ``TypeError`` unless it can be called with queries, keys and values.
    """
    if not callable(attention):
        raise TypeError(f"attention must be a layer or a function, got {type(attention).__name__}")
    module = attention if isinstance(attention, nn.Module) else None
    home = _device(module), dtype
    if isinstance(attention, nn.MultiheadAttention):
        return Attention(_of_pytorch(attention), True, True, module, *home)
    function = attention.forward if isinstance(attention, nn.Module) else attention
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise TypeError(f"{attention} does not say its arguments: wrap it in a function") from error
    names = list(parameters)
    if len(names) < 3:
        raise TypeError(f"attention must take queries, keys and values, got parameters {names}")
    mask = next((name for name in ("mask", "attn_mask") if name in names), None)
    lengths, causal = "valid_lens" in names, "is_causal" in names

    def call(queries, keys, values, valid_lens, is_causal):
        options = {"valid_lens": valid_lens} if lengths else {}
        if causal:
            options["is_causal"] = is_causal
        if mask is not None:
            hidden_by = None if lengths else valid_lens
            options[mask] = visible(queries, keys, hidden_by, is_causal and not causal)
            if options[mask] is None and parameters[mask].default is inspect.Parameter.empty:
                options[mask] = torch.ones_like(queries @ keys.mT, dtype=torch.bool)
        return _output(attention(queries, keys, values, **options))

    return Attention(call, lengths or mask is not None, causal or mask is not None, module, *home)


def _device(module: nn.Module | None) -> torch.device:
    held = () if module is None else (*module.parameters(), *module.buffers())
    return held[0].device if held else torch.get_default_device()


def _of_pytorch(layer: nn.MultiheadAttention) -> Callable[..., Tensor]:
    def call(queries, keys, values, valid_lens, is_causal):
        causal = visible(queries, keys, None, is_causal)
        padding = visible(queries, keys, valid_lens, False)
        ignored = dict(
            attn_mask=None if causal is None else ~causal,
            key_padding_mask=None if padding is None else ~padding[:, 0],
        )
        if not layer.batch_first:
            queries, keys, values = (X.transpose(0, 1) for X in (queries, keys, values))
        output = _output(layer(queries, keys, values, **ignored))
        return output if layer.batch_first else output.transpose(0, 1)

    return call


def visible(
    queries: Tensor, keys: Tensor, valid_lens: Tensor | None, is_causal: bool
) -> Tensor | None:
    """Who may attend to whom, (B, Q, K) or (Q, K), True = may; None where all may.

    Plain on purpose: what tests a layer uses none of the layer's code.
    """
    everything = torch.ones_like(queries @ keys.mT, dtype=torch.bool)  # (B, Q, K)
    past = everything[0].tril() if is_causal else None
    if valid_lens is None:
        return past
    within = torch.arange(keys.shape[1], device=keys.device) < valid_lens[:, None, None]
    words = everything & within
    return words if past is None else words & past


def _output(result: object) -> Tensor:
    output = result[0] if isinstance(result, tuple) else result
    if not isinstance(output, Tensor):
        raise TypeError(f"attention must return a tensor, got {type(output).__name__}")
    return output


# ---- The ten: each is a function that says what is wrong, or None ---------------------------


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
    queries, keys, values = attention.inputs(size)
    output = attention(queries, keys, values)
    if output.ndim != 3 or output.shape[:2] != queries.shape[:2]:
        return f"queries {tuple(queries.shape)} got an output of shape {tuple(output.shape)}"
    return attention.differs("random numbers", output, output)


def keys_in_any_order(attention: Attention, size: int) -> str | None:
    queries, keys, values = attention.inputs(size)
    order = torch.tensor([3, 6, 0, 5, 1, 4, 2], device=attention.device)
    shuffled = attention(queries, keys[:, order], values[:, order])
    whole = attention(queries, keys, values)
    return attention.differs("keys and values in another order", shuffled, whole)


def queries_by_themselves(attention: Attention, size: int) -> str | None:
    queries, keys, values = attention.inputs(size)
    whole = attention(queries, keys, values)
    for query in (0, Q - 1):
        alone = attention(queries[:, query : query + 1], keys, values)
        if wrong := attention.differs(f"query {query} asked alone", alone[:, 0], whole[:, query]):
            return wrong
    return None


def sentences_by_themselves(attention: Attention, size: int) -> str | None:
    queries, keys, values = attention.inputs(size)
    lens = attention.lengths() if attention.takes_lengths else None
    whole = attention(queries, keys, values, lens)
    for sentence in range(len(queries)):
        one = slice(sentence, sentence + 1)
        length = None if lens is None else lens[one]
        alone = attention(queries[one], keys[one], values[one], length)
        if wrong := attention.differs(f"sentence {sentence} without the others", alone, whole[one]):
            return wrong
    return None


def equal_values_equal_answers(attention: Attention, size: int) -> str | None:
    queries, keys, values = attention.inputs(size)
    same = values[:, :1].expand_as(values)  # every key has the same value: any average is it
    first = attention(queries[:, :1], keys[:, :1], same[:, :1])
    name = "all values equal, so every average of them is the same"
    output = attention(queries, keys, same)
    return attention.differs(name, output, first.expand(-1, Q, -1))


def every_key_can_matter(attention: Attention, size: int) -> str | None:
    queries, keys, values = attention.inputs(size)
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
    queries, keys, values = attention.inputs(size)
    lens = attention.lengths()
    ways = (False, True) if attention.takes_causal else (False,)
    outputs = [attention(queries, keys, values, lens, is_causal) for is_causal in ways]
    for sentence, length in enumerate(LENS):
        one = slice(sentence, sentence + 1)
        cut = attention(queries[one], keys[one, :length], values[one, :length])
        name = f"a sentence of length {length} padded to {K}, beside the same one cut to {length}"
        if wrong := attention.differs(name, outputs[0][one], cut):
            return wrong
    for sentence, length in enumerate(LENS):
        keys[sentence, length:] = 100.0
        values[sentence, length:] = -100.0
    for is_causal, output in zip(ways, outputs, strict=True):
        name = "other numbers in the padding" + is_causal * ", with a causal mask"
        changed = attention(queries, keys, values, lens, is_causal)
        if wrong := attention.differs(name, changed, output):
            return wrong
    return None


def an_empty_sentence_ignores_its_padding(attention: Attention, size: int) -> str | None:
    queries, keys, values = (X.requires_grad_() for X in attention.inputs(size))
    lens = attention.lengths((0, K, 2))
    output = attention(queries, keys, values, lens)
    if not torch.isfinite(output).all():
        return "a sentence of length 0: there is NaN or infinity in the output"
    gradients = torch.autograd.grad(output.sum(), (queries, keys, values), allow_unused=True)
    if not all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None):
        return "a sentence of length 0: there is NaN or infinity in a gradient"
    with torch.no_grad():
        keys[0], values[0] = 5.0, -5.0
        changed = attention(queries, keys, values, lens)
    name = "a sentence of length 0 with other padding"
    return attention.differs(name, changed[:1], output[:1].detach())


def the_future_changes_nothing(attention: Attention, size: int) -> str | None:
    X = attention.inputs(size, K)[0]
    ways = {"in eval mode": (False, None), "while training": (True, None)}
    if attention.takes_lengths:
        ways["with lengths"] = (False, attention.lengths())
    layer = nn.Identity() if attention.module is None else attention.module
    was_training = layer.training
    try:
        for mode, (training, lens) in ways.items():
            layer.train(training)
            output = attention(X, X, X, lens, True)
            for position in range(1, K):
                later = X.clone()
                later[:, position:] = 9.0
                changed = attention(later, later, later, lens, True)
                name = f"tokens from position {position} on were changed, {mode}"
                if wrong := attention.differs(name, changed[:, :position], output[:, :position]):
                    return wrong
    finally:
        layer.train(was_training)
    return None


def inputs_stay_as_they_were(attention: Attention, size: int) -> str | None:
    given = attention.inputs(size)
    lens = attention.lengths()
    before = [X.clone() for X in (*given, lens)]
    attention(*given, lens if attention.takes_lengths else None)
    names = "queries", "keys", "values", "valid_lens"
    for name, X, old in zip(names, (*given, lens), before, strict=True):
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
        "equal values, equal answers",
        "If all values are the same, all answers are the same, for one key or for many. It does "
        "not say which: a layer may double its answers.",
        "a softmax over the wrong axis, a missing softmax, dropout that was left on",
        equal_values_equal_answers,
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
        "a mask after the softmax, an inverted mask, a length that is one off, no mask",
        padding_changes_nothing,
        needs="lengths",
    ),
    Property(
        "an empty sentence ignores its padding",
        "A sentence of length 0 gives numbers, zero or not, which its padding does not change; its "
        "gradients are numbers as well.",
        "a row of minus infinities (NaN), a row of -1e6 (equal weights over padding)",
        an_empty_sentence_ignores_its_padding,
        needs="lengths",
    ),
    Property(
        "the future changes nothing",
        "With a causal mask, later tokens change no earlier answer, in either mode.",
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
