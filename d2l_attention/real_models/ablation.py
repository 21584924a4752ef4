"""Heads of the library's models taken away, and parts of one run put into another.

Activation patching is from Vig et al., 2020, arXiv:2004.12265, and Meng et al., 2022,
arXiv:2202.05262.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from d2l_attention.real_models.use import use_attention

Attention = Callable[..., Any]
Means = dict[int, Tensor]


def name_of(layer: int, number: int) -> str:
    """What texts call a head: by its layer and its number, both from 1 on, as ``"17.1"``."""
    return f"{layer + 1}.{number + 1}"


def number_of(head: str) -> tuple[int, int]:
    """Layer and number of a head, both from 0 on, as code counts."""
    layer, number = (int(part) - 1 for part in head.split("."))
    return layer, number


def mean_outputs(model: nn.Module, attention: Attention, ids: Tensor) -> Means:
    """The mean output of each head over texts, without their first tokens. (H, d) by layer."""
    means: Means = {}

    def keeps(layer: int) -> Attention:
        def attend(*inputs, mask=None):
            result = attention(*inputs, mask=mask)
            means[layer] = outputs_of(result)[:, :, 1:].mean(dim=(0, 2))
            return result

        return attend

    with torch.no_grad(), in_layers(model, range(model.config.num_hidden_layers), keeps):
        model(input_ids=ids)
    return means


def outputs_of(result: Any) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


@contextmanager
def in_layers(
    model: nn.Module, layers: Iterable[int], function_of: Callable[[int], Attention]
) -> Iterator[None]:
    """In this block each of these layers attends with a function of its own."""
    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(use_attention(model, function_of(layer), layers=[layer]))
        yield


@dataclass
class Heads:
    """The heads of a model that attends with ``attention``, and their mean outputs."""

    model: nn.Module
    attention: Attention
    means: Means

    @contextmanager
    def away(self, names: Iterable[str]) -> Iterator[None]:
        """In this block these heads write their mean output, whatever the text says.

        0 would be an output that no later layer has seen. The first token keeps its own: it can
        see nothing but itself, and its output is unlike all others.
        """
        numbers: dict[int, list[int]] = {}
        for layer, number in map(number_of, names):
            numbers.setdefault(layer, []).append(number)

        def averaged(layer: int) -> Attention:
            def attend(queries, keys, values, mask=None):
                outputs = outputs_of(self.attention(queries, keys, values, mask=mask)).clone()
                first = int(queries.shape[-2] == keys.shape[-2])  # not while it writes, by a cache
                for number in numbers[layer]:
                    outputs[:, number, first:] = self.means[layer][number]
                return outputs

            return attend

        with use_attention(self.model, self.attention), in_layers(self.model, numbers, averaged):
            yield

    def patched(
        self, run: Callable[[], Any], layers: list[int], into: list[str], source: list[str]
    ) -> dict[str, Any]:
        """What ``run`` returns where ``layers`` get their queries, keys or values from another run.

        In the run the heads ``into`` are away, in the other one ``source``. ``run`` calls the
        model once, and each time with the same inputs. Layers count from 0.
        """
        kept: dict[int, tuple[Tensor, ...]] = {}

        def keeps(layer: int) -> Attention:
            def attend(*inputs, mask=None):
                kept[layer] = inputs
                return self.attention(*inputs, mask=mask)

            return attend

        def puts_in(part: int) -> Callable[[int], Attention]:
            def function_of(layer: int) -> Attention:
                def attend(*inputs, mask=None):
                    mixed = [*inputs]
                    mixed[part] = kept[layer][part]
                    return self.attention(*mixed, mask=mask)

                return attend

            return function_of

        with self.away(source), in_layers(self.model, layers, keeps):
            run()
        found = {}
        for part, name in enumerate(("queries", "keys", "values")):
            with self.away(into), in_layers(self.model, layers, puts_in(part)):
                found[name] = run()
        return found
