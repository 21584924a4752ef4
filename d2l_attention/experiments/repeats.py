"""Sequences that repeat: what a model of two layers learns, and one of one layer does not.

``python -m d2l_attention.experiments.repeats --starts 5`` trains three small Llamas from so many
starts, in about a minute each start, and prints the table of chapter 13.
"""

import argparse
import string
from collections.abc import Callable
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.real_models.library import transformers
from d2l_attention.real_models.maps import attention_maps
from d2l_attention.real_models.use import use_attention

LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+-"  # 64 tokens
HALVES = range(8, 17)  # tokens before the sequence begins again
COLUMNS = (
    "two layers|looks back|second|induction|without it|without second|without another|heads|"
    "blind|others blind|silent|others silent|queries|keys|values|keys and queries|all three|"
    "keys, one more|one layer|one wide layer"
)


def small_llama(num_layers: int, width: int = 64, seed: int = 0) -> nn.Module:
    """A Llama with four heads in each layer and random weights, for the tokens ``LETTERS``."""
    library = transformers()
    config = library.LlamaConfig(
        vocab_size=len(LETTERS),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        max_position_embeddings=64,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return library.LlamaForCausalLM(config)


def repeated(number: int, half: int, generator: torch.Generator) -> Tensor:
    """Random tokens, then the same once more. Shape: -> (number, 2 * half)."""
    first = torch.randint(len(LETTERS), (number, half), generator=generator)
    return torch.cat((first, first), dim=1)


def loss_on_repeats(model: nn.Module, ids: Tensor) -> Tensor:
    """The mean loss where the next token can be known: from the first token of the second half."""
    half = ids.shape[1] // 2
    logits = model(input_ids=ids).logits[:, half:-1]  # (B, half - 1, tokens)
    return F.cross_entropy(logits.flatten(0, 1), ids[:, half + 1 :].flatten())


def train(model: nn.Module, steps: int = 1000, seed: int = 0) -> list[float]:
    """Train on new sequences in each step, and return the losses."""
    generator, losses = torch.Generator().manual_seed(seed), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        half = int(torch.randint(HALVES[0], HALVES[-1] + 1, (), generator=generator))
        loss = loss_on_repeats(model, repeated(64, half, generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def accuracy(model: nn.Module) -> float:
    """How often the most likely token is right, in the second halves of 900 new sequences."""
    generator, right = torch.Generator().manual_seed(1_000_000), []
    for half in HALVES:
        ids = repeated(100, half, generator)
        with torch.no_grad():
            guessed = model(input_ids=ids).logits[:, half:-1].argmax(dim=-1)
        right.append((guessed == ids[:, half + 1 :]).flatten())
    return torch.cat(right).float().mean().item()


def looks_back(weights: Tensor) -> Tensor:
    """The mean weight on the token before, for each head. Shape: (B, H, n, n) -> (H,)."""
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=(0, 2))


def induction(weights: Tensor) -> Tensor:
    """The mean weight on the token behind the earlier copy, for each head, of repeated sequences.

    Shape: (B, H, n, n) -> (H,). Token i of the second half has its copy at i - n / 2.
    """
    half = weights.shape[-1] // 2
    return weights[..., half:, :].diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=(0, 2))


def blind(*heads: int) -> Callable:
    """An attention in which these heads have equal weights for all that they may see."""

    def attention(queries, keys, values, *, mask=None):
        queries = queries.clone()
        queries[:, list(heads)] = 0
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)

    return attention


def silent(*heads: int) -> Callable:
    """An attention in which the output of these heads is 0."""

    def attention(queries, keys, values, *, mask=None):
        outputs = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        outputs[:, list(heads)] = 0
        return outputs

    return attention


def looking(back: Tensor) -> list[int]:
    """The heads that look back at least half as much as the first of them, which is the first."""
    order = back.argsort(descending=True).tolist()
    return [head for head in order if back[head] >= back.max() / 2]


def by_position() -> float:
    """``accuracy`` of a guesser that knows its position and nothing of the tokens.

    At each position it takes the token that is right there for the most lengths of the half. Each
    length is right once at a position, so they tie; it takes the longest.
    """
    generator, right = torch.Generator().manual_seed(1_000_000), []
    for half in HALVES:
        ids = repeated(100, half, generator)
        for position in range(half, 2 * half - 1):
            longest = min(position, HALVES[-1])  # the half has ended at this position
            right.append(ids[:, position + 1 - longest] == ids[:, position + 1])
    return torch.cat(right).float().mean().item()


def with_damaged(model: nn.Module, heads: list[int]) -> list[float]:
    """``accuracy`` with layer 2's queries, keys, values, the first two, or all three from a
    damaged run.

    In that run ``heads`` of layer 1 are ``silent``. What layer 2 gets otherwise, the vectors
    that its output is added to among it, is that of the model as it was trained.
    """
    kept = []

    def keeps(*inputs, mask=None):
        kept.append(inputs)
        return F.scaled_dot_product_attention(*inputs, attn_mask=mask)

    with use_attention(model, silent(*heads), layers=[0]), use_attention(model, keeps, layers=[1]):
        accuracy(model)

    def put_in(which):
        batches = iter(kept)  # ``accuracy`` has the same sequences in each call

        def attention(*inputs, mask=None):
            damaged = next(batches)
            mixed = (damaged[i] if i in which else inputs[i] for i in range(3))
            return F.scaled_dot_product_attention(*mixed, attn_mask=mask)

        return attention

    found = []
    for which in ([0], [1], [2], [0, 1], [0, 1, 2]):
        with use_attention(model, put_in(which), layers=[1]):
            found.append(accuracy(model))
    return found


def one_start(seed: int, steps: int = 1000) -> dict[str, float]:
    """A row of the table: three models trained, and heads of two layers taken away from layer 1.

    The heads that look back are ``looking``: one or more. They are made ``blind`` one by one and
    together, and ``silent`` together; beside it is the worst that as many of the other heads do.
    "keys, one more" has the keys from a run in which one further head is silent, the worst choice.
    """
    two, one, wide = small_llama(2, 64, seed), small_llama(1, 64, seed), small_llama(1, 128, seed)
    for model in (two, one, wide):
        train(model, steps, seed)
    maps = attention_maps(two, input_ids=repeated(100, 12, torch.Generator().manual_seed(1)))
    back = looks_back(maps[0])
    heads = looking(back)

    def damaged(function, *heads):
        with use_attention(two, function(*heads), layers=[0]):
            return accuracy(two)

    alone = [damaged(blind, head) for head in range(len(back))]
    best, second = back.topk(2).indices.tolist()
    found = [accuracy(two), back[best].item(), back[second].item()]
    found += [induction(maps[1]).max().item(), alone[best], alone[second]]
    found += [min(alone[:best] + alone[best + 1 :]), len(heads)]
    others = [head for head in range(len(back)) if head not in heads]
    for function in (blind, silent):
        found.append(damaged(function, *heads))
        as_many = combinations(others, min(len(heads), len(others)))
        found.append(min(damaged(function, *same) for same in as_many))
    parts = with_damaged(two, heads)
    one_more = [with_damaged(two, [*heads, other])[1] for other in others]
    found += [*parts, min(one_more or [parts[1]])]  # parts[1]: the keys, where no head is left
    found += [accuracy(one), accuracy(wide)]
    return dict(zip(COLUMNS.split("|"), found, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m d2l_attention.experiments.repeats", description=__doc__
    )
    parser.add_argument("--starts", type=int, default=5, help="how many, from seed 0")
    parser.add_argument("--steps", type=int, default=1000, help="of training, for each model")
    arguments = parser.parse_args()
    print(f"start|{COLUMNS}".replace("|", "  "))
    for seed in range(arguments.starts):
        numbers = one_start(seed, arguments.steps).items()
        row = (f"{value:{len(name)}.2f}" for name, value in numbers)
        print(f"{seed:5}", *row, sep="  ", flush=True)


if __name__ == "__main__":
    main()
