"""The ten properties on other people's attention: the table of chapter 12.

    python -m tests.benchmarks.other_implementations --install FOLDER   # once
    python -m tests.benchmarks.other_implementations FOLDER             # prints the table

The packages go into FOLDER, without what they depend on, and never into the environment.

The layers by hand, against which the benchmarks time the course's, are here as well.
"""

import argparse
import importlib.metadata
import subprocess
import sys
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

import d2l_attention as ours

PACKAGES = [
    *["x-transformers==2.31.10", "einops==0.8.2", "einx==0.4.3", "loguru", "frozendict"],
    *["hyper-connections", "torch-einops-utils"],
    *["labml-nn==0.5.1", "labml==0.4.168", "labml-helpers==0.4.89"],
    "espnet==202511",
]
SIZE, HEADS = 12, 3


def install(folder: str) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--target", folder, *PACKAGES], check=True)


def annotated(queries, keys, values, mask=None):
    """The attention of the Annotated Transformer, written anew from its formula."""
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return scores.softmax(dim=-1) @ values


def fused(queries, keys, values, mask=None):
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def espnet() -> nn.Module:
    from espnet.nets.pytorch_backend.transformer.attention import MultiHeadedAttention

    return Adapter(MultiHeadedAttention(HEADS, SIZE, 0.0), lambda layer, *given: layer(*given))


def labml() -> nn.Module:
    from labml_nn.transformers.mha import MultiHeadAttention

    def call(layer, queries, keys, values, mask):  # tokens first, the batch's axis last in masks
        q, k, v = (X.transpose(0, 1) for X in (queries, keys, values))
        mask = mask.movedim(0, -1) if mask is not None else None
        return layer(query=q, key=k, value=v, mask=mask).transpose(0, 1)

    return Adapter(MultiHeadAttention(HEADS, SIZE, 0.0), call)


def x_transformers() -> nn.Module:
    from x_transformers.attend import Attend

    def call(layer, queries, keys, values, mask):
        q, k, v = (X[:, None] for X in (queries, keys, values))  # one head
        return layer(q, k, v, mask=mask[:, None] if mask is not None else None)[0][:, 0]

    return Adapter(Attend(), call)


class ByHand(nn.Module):
    """Multi-head attention as one writes it in a dozen lines: no checks, no weights to read.

    Lengths and the causal mask become one boolean mask, (B, 1, 1 or Q, K). Without lengths the
    kernel is told ``is_causal``, which needs no mask.
    """

    def __init__(self, size: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(size, size, bias=False) for _ in range(4)
        )

    def split(self, X):  # (B, n, D) -> (B, H, n, D / H)
        return X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, queries, keys, values, valid_lens=None, *, is_causal=False):
        mask = None
        if valid_lens is not None:
            positions = torch.arange(keys.shape[1], device=keys.device)
            mask = (positions < valid_lens[:, None])[:, None, None]  # (B, 1, 1, K)
            if is_causal:
                mask = mask & (positions <= positions[:, None])  # (B, 1, Q, K)
        q, k, v = self.W_q(queries), self.W_k(keys), self.W_v(values)
        output = F.scaled_dot_product_attention(
            *(self.split(X) for X in (q, k, v)),
            attn_mask=mask,
            is_causal=is_causal and mask is None,
        )
        return self.W_o(output.transpose(1, 2).flatten(2))


class AdditiveByHand(nn.Module):
    """Additive attention by its formula, which writes a tensor (B, Q, K, h)."""

    def __init__(self, size: int):
        super().__init__()
        self.W_q, self.W_k = (nn.Linear(size, size, bias=False) for _ in range(2))
        self.w_v = nn.Linear(size, 1, bias=False)

    def forward(self, queries, keys, values):
        pairs = self.W_q(queries)[:, :, None] + self.W_k(keys)[:, None]  # (B, Q, K, h)
        scores = self.w_v(pairs.tanh())[..., 0]  # (B, Q, K)
        return scores.softmax(dim=-1) @ values


class Adapter(nn.Module):
    """A layer with the arguments queries, keys, values and mask (B, Q, K), True = may attend."""

    def __init__(self, layer: nn.Module, call: Callable):
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, queries, keys, values, mask=None):
        if mask is not None:
            mask = mask.expand(len(queries), -1, -1)
        return self.call(self.layer, queries, keys, values, mask)


def version(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


def implementations() -> dict[str, Callable]:
    from tests.d2l_oracle import load_d2l  # pytest with it, which the layers by hand do without

    d2l = load_d2l()
    return {
        "this course, `MultiHeadAttention`": ours.MultiHeadAttention(SIZE, HEADS, 0.0),
        "this course, `AdditiveAttention`": ours.AdditiveAttention(8, 0.0),
        f"{version('torch')}, `nn.MultiheadAttention`": nn.MultiheadAttention(
            SIZE, HEADS, batch_first=True
        ),
        f"{version('torch')}, `F.scaled_dot_product_attention`": fused,
        f"{version('d2l')}, `DotProductAttention`": d2l.DotProductAttention(0.0),
        f"{version('d2l')}, `AdditiveAttention`": d2l.AdditiveAttention(8, 0.0),
        f"{version('d2l')}, `MultiHeadAttention`": d2l.MultiHeadAttention(SIZE, HEADS, 0.0),
        f"{version('x-transformers')}, `Attend`": x_transformers(),
        f"{version('labml-nn')}, `MultiHeadAttention`": labml(),
        f"{version('espnet')}, `MultiHeadedAttention`": espnet(),
        "the formula of the Annotated Transformer": annotated,
    }


def main() -> None:
    from d2l_attention.testing import PROPERTIES, check_attention

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--install", action="store_true")
    options = parser.parse_args()
    if options.install:
        install(options.folder)
        return
    sys.path.append(options.folder)
    warnings.simplefilter("ignore")  # of other people's packages
    torch.manual_seed(0)
    print("| implementation | passed | not tried | fails |\n|---|---|---|---|")
    for name, attention in implementations().items():
        report = check_attention(attention, SIZE)
        failed = "; ".join(f"{each}: {seen}" for each, seen in report.failed.items())
        tried = len(PROPERTIES) - len(report.not_tried)
        print(f"| {name} | {len(report.passed)} of {tried} | {len(report.not_tried)} | {failed} |")


if __name__ == "__main__":
    main()
