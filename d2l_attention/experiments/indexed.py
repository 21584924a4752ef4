"""An indexer that follows a trained model: what it finds, beside other choices of as many keys.

``python -m d2l_attention.experiments.indexed --starts 5`` prints the table of chapter 11. The model
is the plain one of ``lookups.py``, with its task: questions about statements anywhere in the text.
It takes about 40 seconds a start on one core.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention.experiments.lookups import RANGES, WIDTH, Answerer, shares_right, texts, train
from d2l_attention.variants.chosen_blocks import chosen_blocks_mask
from d2l_attention.variants.indexer import Indexer, best_keys, follow_loss
from d2l_attention.variants.masks import sliding_window_mask

Choice = Callable[[int, Tensor, Tensor], Tensor | None]  # layer, inputs, weights -> mask


def run(model: Answerer, letters: Tensor, digits: Tensor, choose: Choice) -> Tensor:
    """The model's scores, with the keys of each layer chosen by ``choose(i, Y, weights)``.

    Y (B, n, 64) are the inputs of layer i, ``weights`` (B, 8, n, n) those of the whole attention.
    """
    X = model.letter(letters) + model.digit(digits) + model.position
    for i, (attention, network) in enumerate(zip(model.attentions, model.networks, strict=True)):
        Y = model.norms[2 * i](X)
        output, weights = attention(Y, Y, Y, need_weights=True)
        mask = choose(i, Y, weights)
        X = X + (output if mask is None else attention(Y, Y, Y, mask=mask))
        X = X + network(model.norms[2 * i + 1](X))
    return model.readout(model.norms[4](X))


@torch.no_grad()
def inputs_and_weights(
    model: Answerer, letters: Tensor, digits: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """What an indexer learns from, layer by layer: inputs (B, n, 64), weights (B, 8, n, n)."""
    seen: list[tuple[Tensor, Tensor]] = []
    run(model, letters, digits, lambda i, Y, weights: seen.append((Y, weights)))
    return seen


def train_indexers(model: Answerer, n: int, seed: int, steps: int = 300) -> list[Indexer]:
    """One indexer a layer, of 2 heads of 8 numbers, trained to follow the model's weights."""
    torch.manual_seed(seed)
    indexers = [Indexer(WIDTH, 2, 8) for _ in model.attentions]
    optimizer = torch.optim.Adam([p for each in indexers for p in each.parameters()], lr=0.01)
    generator = torch.Generator().manual_seed(2000 + seed)
    for _ in range(steps):
        letters, digits, _, _ = texts(32, n, generator)
        seen = inputs_and_weights(model, letters, digits)
        loss = sum(follow_loss(each(Y), w) for each, (Y, w) in zip(indexers, seen, strict=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return indexers


class Chosen:
    """The model with a choice of keys, to be asked as ``Answerer`` is."""

    def __init__(self, model: Answerer, choose: Choice):
        self.model, self.choose = model, choose

    def __call__(self, letters: Tensor, digits: Tensor) -> Tensor:
        return run(self.model, letters, digits, self.choose)


def choices(model: Answerer, indexers: list[Indexer], n: int, k: int) -> dict[str, Choice]:
    """Ways to choose about ``k`` keys for each query."""
    kept: list[Tensor] = []

    def by_index(i: int, Y: Tensor, weights: Tensor) -> Tensor:
        return best_keys(indexers[i](Y), None, k)

    def first_layers(i: int, Y: Tensor, weights: Tensor) -> Tensor:
        if i == 0:
            kept[:] = [best_keys(indexers[0](Y), None, k)]
        return kept[0]

    def blocks(i: int, Y: Tensor, weights: Tensor) -> Tensor:
        attention = model.attentions[i]
        q, v = attention.split_heads(attention.W_q(Y)), attention.split_heads(attention.W_k(Y))
        return chosen_blocks_mask(q, v, block_size=4, num_chosen=max(1, k // 4 - 1))

    return {
        "all keys": lambda i, Y, weights: None,
        "indexer": by_index,
        "indexer, layer 1's choice in both": first_layers,
        "the heaviest by the weights": lambda i, Y, w: best_keys(w.mean(dim=1), None, k),
        "window": lambda i, Y, weights: sliding_window_mask(n, window=k // 2),
        "chosen blocks of 4": blocks,
    }


def table(n: int, keys: list[int], starts: int) -> None:
    """Print, for each choice, the lowest and the highest share of right answers of all starts."""
    found: dict[tuple[int, str], list[dict[str, float]]] = {}
    for seed in range(starts):
        model = train("plain", n, seed, 800)
        indexers = train_indexers(model, n, seed)
        for k in keys:
            for name, choose in choices(model, indexers, n, k).items():
                shares = shares_right(Chosen(model, choose), n)
                found.setdefault((k, name), []).append(shares)
    print(f"{n} tokens; lowest and highest of {starts} starts", *RANGES, sep="  ")
    for (k, name), shares in found.items():
        cells = [[round(100 * each[span]) for each in shares] for span in RANGES]
        row = "".join(f"{min(cell):5} to {max(cell):3}%" for cell in cells)
        print(f"{k:2} keys, {name:36}{row}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m d2l_attention.experiments.indexed")
    parser.add_argument("--keys", type=int, nargs="+", default=[8], help="keys a query may read")
    parser.add_argument("--starts", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table(64, options.keys, options.starts)


if __name__ == "__main__":
    main()
