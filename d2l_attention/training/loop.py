"""The loop: one for a laptop, a GPU or many machines.

The batch size is that of all processes together, so the number of processes changes the time
that training takes, and nothing else (but what dropout draws).
"""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import patch_environment
from torch import Tensor, nn
from tqdm.auto import tqdm

from d2l_attention.attention.checks import check_whole
from d2l_attention.data import Batch, Pair, Vocab, data_loader
from d2l_attention.models.encoder_decoder import guidance_loss, sequence_loss
from d2l_attention.training.checkpoints import (
    History,
    StopRequest,
    check_same_words,
    restore,
    save_checkpoint,
    state_of,
)
from d2l_attention.training.devices import (
    FROM_ENVIRONMENT,
    own_randomness,
    seed_generators,
    try_gpu,
)
from d2l_attention.training.evaluation import evaluating, has_weights
from d2l_attention.training.sharing import batches, share


def train(
    model: nn.Module,
    pairs: Sequence[Pair],
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    *,
    steps: int,
    batch_size: int = 64,
    lr: float = 0.01,
    clip: float = 1.0,
    guidance: float = 0.0,
    valid: Sequence[Pair] = (),
    check_every: int = 200,
    folder: str | Path | None = None,
    resume: bool = False,
    seed: int = 0,
    progress: bool | None = None,
    on_step: Callable[[History], None] | None = None,
    accelerator: Accelerator | None = None,
) -> History:
    """Train with teacher forcing until ``steps`` steps are done; leaves the model in eval mode.

    Training runs on whatever device there is, ``accelerator.device``. Afterwards the model is where
    it was before, so that a model made on the CPU takes the CPU's tensors again.

    The learning rate falls in a straight line from ``lr`` to 0: large steps find the way, small
    ones arrive. ``guidance`` is the weight of ``guidance_loss`` beside the loss. Every
    ``check_every`` steps, and at the end, the loss on ``valid`` is taken and ``folder`` gets
    ``last.pt``, and ``best.pt`` where it was the lowest. ``resume`` goes on from ``last.pt``: with
    the same ``steps`` the losses are those of a run that never stopped; a run that ended before its
    first ``last.pt`` begins at the beginning, and a line says so. Give it the same ``pairs``: of
    these only the number and the words are compared. Another ``lr``, ``clip`` or
    ``guidance`` than before is used from there on, and a line says so. Ctrl-C, or a
    ``KeyboardInterrupt`` from ``on_step``, ends the step, saves and raises a
    ``KeyboardInterrupt`` that says how to go on.

    ``progress``: a bar with loss and tokens per second; ``None`` shows one where somebody
    watches. Mixed precision: ``accelerator=Accelerator(mixed_precision="bf16")``. A process has one
    precision: give this ``accelerator`` to its other runs, too.

    Errors: ``ValueError`` for arguments that make no sense, for an ``accelerator`` that accumulates
    gradients, for another precision than the process has, for a ``folder`` in which there is a
    run already unless it is to be resumed, and for a checkpoint that is damaged or of another
    run, with other words for example; ``FloatingPointError`` where the loss or its gradient is no
    longer a finite number.
    """
    pairs, valid = list(pairs), list(valid)
    # Python's own numbers: a checkpoint with NumPy's could not be read without running code.
    steps, batch_size = check_whole("steps", steps), check_whole("batch_size", batch_size)
    check_every, seed = check_whole("check_every", check_every), check_whole("seed", seed, -(2**63))
    lr, clip, guidance = check_arguments(model, pairs, lr, clip, guidance)
    last = None if folder is None else Path(folder) / "last.pt"
    if last is not None and last.exists() and not resume:
        raise ValueError(f"there is a run in {folder} already: resume it, or name another folder")
    if last is None and resume:
        raise ValueError("resume needs the folder of the run that is to go on, got None")
    if resume and last.exists():
        check_same_words(last.parent, source=src_vocab, target=tgt_vocab)
    accelerator = accelerator or default_accelerator()
    if (number := accelerator.gradient_accumulation_steps) != 1:  # it would divide the gradient
        raise ValueError(f"gradient_accumulation_steps must be 1, a step a batch, got {number}")
    home = next(model.parameters()).device
    model.to(accelerator.device)  # not every device lets an optimizer keep what is moved later
    order = torch.Generator()
    loader = data_loader(pairs, src_vocab, tgt_vocab, batch_size, generator=order, by_length=True)
    loader.collate_fn = partial(share, accelerator, loader.collate_fn)
    run = {"seed": seed, "batch_size": batch_size, "sentences": len(loader.dataset)}
    settings = {"lr": lr, "clip": clip, "guidance": guidance}
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    history = History()
    if resume and last.exists():
        history, before = restore(last, run, model, optimizer, accelerator.scaler)
        for sentence in changes(before, settings):
            accelerator.print(sentence)
    elif resume:
        accelerator.print(f"There is no {last} yet: training begins at the beginning.")
    # What is called is `parallel`: the model, where needed with lower precision and with
    # gradients averaged over the processes.
    parallel, optimizer = accelerator.prepare(model, optimizer)

    def save(name: str) -> None:
        if last is not None and accelerator.is_main_process:
            state = state_of(model, optimizer, accelerator.scaler, history)
            save_checkpoint(last.with_name(name), run | {"settings": settings} | state)

    def check() -> None:
        if valid:
            loss = validation_loss(model, valid, src_vocab, tgt_vocab, batch_size, accelerator)
            history.valid.append([history.step, loss])
            if loss == history.best:
                save("best.pt")
        save("last.pt")

    if last is not None and accelerator.is_main_process:
        src_vocab.save(last.with_name("source.json"))
        tgt_vocab.save(last.with_name("target.json"))

    with (
        returning(parallel, home, accelerator),
        StopRequest() as stop,
        own_randomness(accelerator.device),
        progress_bar(history.step, steps, progress, accelerator) as bar,
    ):
        started = time.perf_counter()
        todo = range(history.step + 1, steps + 1)
        for step, batch in zip(todo, batches(loader, order, seed, history.step), strict=False):
            parallel.train()  # ``on_step`` may have left it in eval mode
            batch = Batch(*(part.to(accelerator.device) for part in batch))
            counts = torch.stack([*real_tokens(batch), batch.src.new_tensor(stop.asked)])
            tokens, linked, stops = accelerator.reduce(counts, "sum").tolist()
            if stops:  # whichever process was asked, all stop at the same step
                break
            for group in optimizer.param_groups:
                group["lr"] = lr * (1 - (step - 1) / steps)
            # Dropout depends on the step alone: a resumed run draws what it would have drawn.
            own = step * accelerator.num_processes + accelerator.process_index
            seed_generators(accelerator.device, seed + own)
            losses = shared_losses(parallel, batch, guidance, tokens, linked, accelerator)
            loss, aside = accelerator.reduce(losses.detach(), "mean").tolist()
            check_finite("loss", loss + aside, step, lr, last)
            optimizer.zero_grad()
            accelerator.backward(losses.sum())
            # Its own clip_grad_norm_ also unscales for the optimizers of earlier runs.
            accelerator.unscale_gradients(optimizer)
            norm = nn.utils.clip_grad_norm_(parallel.parameters(), clip)
            if accelerator.scaler is None:  # with float16 the scaler sees to it
                check_finite("gradient", norm.item(), step, lr, last)
            optimizer.step()
            history.add(loss, tokens, time.perf_counter() - started)
            bar.set_postfix(loss=f"{loss:.3f}", tokens_per_s=f"{history.speed:,.0f}", refresh=False)
            bar.update()

            if step % check_every == 0 or step == steps:
                check()
            if on_step is not None:
                with stop.on_interrupt():
                    on_step(history)
            started = time.perf_counter()
        if history.step < steps:
            save("last.pt")
    if stop.asked or history.step < steps:
        raise KeyboardInterrupt(interruption(history.step, steps, last))
    return history


@contextmanager
def returning(parallel: nn.Module, home: torch.device, accelerator: Accelerator) -> Iterator[None]:
    """After the block, also after an error: the model at ``home``, in eval mode, in its precision.

    What ``accelerator`` wrapped round it for the training is gone.
    """
    try:
        yield
    finally:
        accelerator.unwrap_model(parallel, keep_fp32_wrapper=False).eval().to(home)


def changes(before: dict[str, float], settings: dict[str, float]) -> list[str]:
    """Which settings of a run that goes on are not those of before, and which count now."""
    return [
        f"From here on {name} is {value}, before it was {before[name]}."
        for name, value in settings.items()
        if before.get(name, value) != value  # an old checkpoint does not say
    ]


def interruption(step: int, steps: int, last: Path | None) -> str:
    """What to say to those who pressed Ctrl-C: how far training came, and how it goes on."""
    done = step >= steps
    what = f"All {steps} steps were done" if done else f"Stopped after step {step} of {steps}"
    if last is None:
        return f"{what}. Nothing is saved: no folder was given."
    how = "" if done else ": the same again with resume (--resume) goes on"
    return f"{what}. All is saved in {last}{how}."


def check_arguments(model, pairs, lr, clip, guidance) -> tuple[float, float, float]:
    """Raise unless they make sense; ``lr``, ``clip`` and ``guidance`` as Python's own numbers."""
    for name, value in {"lr": lr, "clip": clip}.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
    if not guidance >= 0:
        raise ValueError(f"guidance must be 0 or more, got {guidance}")
    if guidance > 0:
        if not has_weights(model):
            name = type(model.decoder).__name__
            raise ValueError(f"guidance needs a decoder with attention weights, {name} has none")
        if not any(pair.possible for pair in pairs):
            raise ValueError("guidance needs pairs with known alignments, none of these has one")
    return float(lr), float(clip), float(guidance)


def real_tokens(batch: Batch) -> tuple[Tensor, Tensor]:
    """How many target tokens count in the loss, and how many in the guidance loss."""
    return batch.tgt_lens.sum(), batch.links.any(dim=-1).sum()


def shared_losses(
    model: nn.Module,
    batch: Batch,
    guidance: float,
    tokens: int,
    linked: int,
    accelerator: Accelerator,
) -> Tensor:
    """The loss and the weighted guidance loss, (2,), whose means over the processes are those of
    the whole batch: of ``tokens`` tokens, ``linked`` of them with a link, wherever they are.

    The mean of the processes' own means would give tokens in short sentences more weight.
    """
    mine, mine_linked = real_tokens(batch)
    arguments = (batch.src, batch.tgt_in, batch.src_lens)
    if guidance > 0:
        logits, weights = model(*arguments, need_weights=True)
        aside = guidance * guidance_loss(weights, batch.links) * mine_linked / max(linked, 1)
    else:
        logits = model(*arguments)
        aside = logits.new_zeros(())
    loss = sequence_loss(logits, batch.tgt_out, batch.tgt_lens) * mine / tokens
    return torch.stack([loss, aside]) * accelerator.num_processes


def check_finite(what: str, value: float, step: int, lr: float, last: Path | None) -> None:
    if not math.isfinite(value):
        saved = f" {last} holds the last good state." if last is not None and last.exists() else ""
        raise FloatingPointError(
            f"The {what} became {value} at step {step}. Try a learning rate below {lr}, or "
            f"a lower clip; with float16, try bfloat16 or full precision.{saved}"
        )


@torch.no_grad()
def validation_loss(
    model: nn.Module,
    pairs: Sequence[Pair],
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    batch_size: int,
    accelerator: Accelerator,
) -> float:
    """Mean cross-entropy over all real tokens, each process taking its share of the pairs."""
    similar = sorted(pairs, key=lambda pair: len(pair.target))  # less padding
    mine = similar[accelerator.process_index :: accelerator.num_processes]
    sums = torch.zeros(2, device=accelerator.device, dtype=torch.float32)
    for batch in data_loader(mine, src_vocab, tgt_vocab, batch_size) if mine else ():
        batch = Batch(*(part.to(accelerator.device) for part in batch))
        with evaluating(model):
            logits = model(batch.src, batch.tgt_in, batch.src_lens)
        tokens = batch.tgt_lens.sum()
        loss = sequence_loss(logits, batch.tgt_out, batch.tgt_lens)
        sums += torch.stack([loss * tokens, tokens])
    total, tokens = accelerator.reduce(sums, "sum").tolist()
    return total / tokens


def default_accelerator() -> Accelerator:
    """Whatever device there is, and of several GPUs the one that is this process's. Without a GPU
    Accelerate has to be told that it is the CPU: two processes would not find each other."""
    name = os.environ.get(FROM_ENVIRONMENT)
    return on_device(name) if name else with_precision(try_gpu())


def on_device(name: str) -> Accelerator:
    """Accelerate on the device of this name; it asks the environment, not its caller."""
    device = try_gpu(name)
    with patch_environment(ACCELERATE_TORCH_DEVICE=str(device)):
        return with_precision(device)


def with_precision(device: torch.device) -> Accelerator:
    """Full precision unless a launcher asks for less. Who asks for none gets, without a word, that
    of the process's first accelerator: a process has one."""
    precision = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    return Accelerator(cpu=device.type == "cpu", mixed_precision=precision)


def progress_bar(done: int, steps: int, progress: bool | None, accelerator: Accelerator) -> tqdm:
    if progress is None:  # a terminal, or a kernel that a Jupyter server started, not a test
        progress = sys.stderr.isatty() or "JPY_SESSION_NAME" in os.environ
    hidden = not (progress and accelerator.is_main_process)
    return tqdm(initial=done, total=steps, unit="step", leave=False, disable=hidden)
