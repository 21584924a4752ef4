"""Which forms of attention can look something up? One task, one model, many forms.

``python -m d2l_attention.experiments.lookups --starts 5`` trains them and prints the table of
chapter 9. It takes about 20 seconds per form and start on one core.

**The task.** Half of the tokens of a text are statements, a letter with a digit. The other half are
questions, a letter without a digit. Each letter is stated once, somewhere, and asked for once,
somewhere. A question is answered with the digit of its letter. A guess is right in one of ten,
and the digit that is stated most often about twice as often: the table's last line says how often.
"""

import argparse
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.variants.linear import LinearAttention
from d2l_attention.variants.low_rank import LinformerAttention
from d2l_attention.variants.masks import global_tokens_mask, sliding_window_mask

DIGITS, WIDTH, HEADS = 10, 64, 8
NO_QUESTION = -100  # what F.cross_entropy ignores
# From a question to its statement, in positions: first and last of each range.
RANGES = {"1-2 away": (1, 2), "3-8 away": (3, 8), "farther": (9, None)}
PATHS = ("linked", "two layers", "no path")  # from a far statement to its question


def texts(B: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Letters, digits, answers and distances, (B, n) each; ``n`` is even.

    A question's digit is ``DIGITS``, a statement's answer ``NO_QUESTION``, its distance 0.
    """
    half = n // 2
    letters = torch.rand(B, n, generator=generator).argsort(dim=-1)[:, :half]
    stated = torch.randint(DIGITS, (B, half), generator=generator)
    letters = torch.cat([letters, letters], dim=1)  # each is stated, and asked for
    digits = torch.cat([stated, torch.full_like(stated, DIGITS)], dim=1)
    answers = torch.cat([torch.full_like(stated, NO_QUESTION), stated], dim=1)
    places = torch.rand(B, n, generator=generator).argsort(dim=-1)  # old number -> position
    distances = F.pad((places[:, half:] - places[:, :half]).abs(), (half, 0))
    parts = (letters, digits, answers, distances)
    return tuple(torch.empty_like(part).scatter_(1, places, part) for part in parts)


class Answerer(nn.Module):
    """Two pre-norm blocks: letters and digits (B, n) -> scores of the digits (B, n, 10).

    ``make_attention()`` gives the attention of a block; ``mask`` (n, n) says who may see whom.
    """

    def __init__(self, n: int, make_attention: Callable[[], nn.Module], mask: Tensor | None):
        super().__init__()
        self.mask = mask
        self.letter, self.digit = nn.Embedding(n, WIDTH), nn.Embedding(DIGITS + 1, WIDTH)
        self.position = nn.Parameter(0.02 * torch.randn(n, WIDTH))
        self.attentions = nn.ModuleList(make_attention() for _ in range(2))
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(5))
        self.readout = nn.Linear(WIDTH, DIGITS)

    def forward(self, letters: Tensor, digits: Tensor) -> Tensor:
        X = self.letter(letters) + self.digit(digits) + self.position
        masking = {} if self.mask is None else {"mask": self.mask}
        for i, (attention, network) in enumerate(zip(self.attentions, self.networks, strict=True)):
            Y = self.norms[2 * i](X)
            X = X + attention(Y, Y, Y, **masking)
            X = X + network(self.norms[2 * i + 1](X))
        return self.readout(self.norms[4](X))


def forms(n: int, seed: int = 0) -> dict[str, tuple[Callable[[], nn.Module], Tensor | None]]:
    """Each form: what makes its layer, and its mask, of at most 9 links per token on average.

    Another ``seed`` draws other random links. Linformer has 9 links per token, and mixing keys and
    values costs as much again. Linear attention has none. In 8 heads of 8 numbers its sums take
    8 x 8 multiplications per token to build and as many for an answer: as much as 8 links.
    """
    lots = torch.rand(n, n, generator=torch.Generator().manual_seed(5 + seed))
    random = lots.argsort(dim=-1) < 4
    near, wide = sliding_window_mask(n, window=2), sliding_window_mask(n, window=4)

    def plain():
        return MultiHeadAttention(WIDTH, HEADS, 0.0)

    return {
        "plain": (plain, None),
        "window": (plain, wide),
        "dilated, 7 apart": (plain, sliding_window_mask(n, window=4, dilation=7)),
        "2 global and a window": (plain, near | global_tokens_mask(torch.arange(n) < 2)),
        "4 random and a window": (plain, near | random),
        "Linformer, 9 mixtures": (lambda: LinformerAttention(WIDTH, HEADS, n, 9, 0.0), None),
        "linear": (
            lambda: MultiHeadAttention(WIDTH, HEADS, 0.0, attention=LinearAttention()),
            None,
        ),
    }


def train(form: str, n: int, seed: int, steps: int) -> Answerer:
    """A model with this form of attention, trained on new texts in each step."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = Answerer(n, *forms(n, seed)[form])
    letters, digits, _, _ = texts(1, n, generator)
    model(letters, digits)  # the first call fixes the sizes of the parameters
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        for group in optimizer.param_groups:  # warm up, then down to zero
            group["lr"] = 0.002 * min(1, (step + 1) / 50) * (1 - step / steps)
        letters, digits, answers, _ = texts(32, n, generator)
        loss = F.cross_entropy(model(letters, digits).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def shares_right(model: Answerer, n: int) -> dict[str, float]:
    """The share of right answers on 200 new texts, for each range of distances."""
    letters, digits, answers, distances = texts(200, n, torch.Generator().manual_seed(7))
    right = model(letters, digits).argmax(dim=-1) == answers
    shares = {}
    for name, (first, last) in RANGES.items():
        asked = (distances >= first) & (distances <= (last or n))
        shares[name] = right[asked].float().mean().item()
    return shares


@torch.no_grad()
def shares_by_path(model: Answerer, n: int) -> dict[str, tuple[float, float]]:
    """Of the far questions: the share with each of ``PATHS``, and the share of those answered.

    Two layers are enough if a token that the question sees sees the statement.
    """
    mask = torch.ones(n, n, dtype=torch.bool) if model.mask is None else model.mask
    two = mask.float() @ mask.float() > 0
    letters, digits, answers, distances = texts(200, n, torch.Generator().manual_seed(7))
    right = model(letters, digits).argmax(dim=-1) == answers
    same = letters[:, :, None] == letters[:, None, :]
    stated = (same & ~torch.eye(n, dtype=torch.bool)).float().argmax(dim=-1)
    far, queries = distances > 8, torch.arange(n)
    shares = {}
    for name, pairs in zip(PATHS, (mask, two & ~mask, ~(two | mask)), strict=True):
        asked = far & pairs[queries, stated]
        found = right[asked].float().mean().item() if asked.any() else float("nan")
        shares[name] = (asked.sum() / far.sum()).item(), found
    return shares


def commonest_digit(n: int) -> float:
    """The share of far questions that the digit stated most often in their text answers."""
    _, digits, answers, distances = texts(200, n, torch.Generator().manual_seed(7))
    guess = F.one_hot(digits, DIGITS + 1)[..., :DIGITS].sum(dim=1).argmax(dim=-1, keepdim=True)
    return (guess == answers)[distances > 8].float().mean().item()


def table(n: int, starts: int, steps: int, names: Iterable[str] = ()) -> None:
    """Print the lowest and the highest share of all starts, form by form.

    Under a mask the far questions are also split: '6% to 7%: 99% to 100%' are 6 to 7% of them, and
    of these 99 to 100% are answered.
    """
    head = *RANGES, *(f"farther, {path}" for path in PATHS)
    print(f"{n} tokens; right answers, lowest and highest of {starts} starts", *head, sep="  ")
    for name in names or forms(n):
        models = [train(name, n, seed, steps) for seed in range(starts)]
        found = [shares_right(model, n) for model in models]
        cells = [[round(100 * shares[span]) for shares in found] for span in RANGES]
        row = "".join(f"{min(cell):5} to {max(cell):3}%" for cell in cells)
        if forms(n)[name][1] is not None:
            split = [shares_by_path(model, n) for model in models]
            for path in PATHS:
                pairs, cell = zip(*(shares[path] for shares in split), strict=True)
                row += (
                    f"   {min(pairs):.0%} to {max(pairs):.0%}: {min(cell):.0%} to {max(cell):.0%}"
                )
        print(f"{name:24}{row}", flush=True)
    print(f"the commonest digit answers {commonest_digit(n):.0%} of the questions farther away")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m d2l_attention.experiments.lookups")
    parser.add_argument("forms", nargs="*", help="these forms; none means all")
    parser.add_argument("--tokens", type=int, default=64, help="an even number (default: 64)")
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--steps", type=int, default=800)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.tokens < 2 or options.tokens % 2:
        parser.error(f"--tokens must be even and 2 or more, got {options.tokens}")
    if unknown := set(options.forms) - set(forms(options.tokens)):
        parser.error(f"there is no form {sorted(unknown)[0]!r}; {', '.join(forms(2))}")
    table(options.tokens, options.starts, options.steps, options.forms)


if __name__ == "__main__":
    main()
