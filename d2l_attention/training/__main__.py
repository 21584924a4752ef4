"""The command line: train, then translate the test splits."""

import argparse
import sys
from pathlib import Path

import torch
from tqdm.auto import tqdm

from d2l_attention.data import Vocab, load
from d2l_attention.training.checkpoints import History, load_weights
from d2l_attention.training.evaluation import evaluate
from d2l_attention.training.loop import default_accelerator, on_device, train
from d2l_attention.training.presets import LEARNING_RATES, MODELS


def main() -> None:
    """The command line: train, then translate the test split."""
    parser = argparse.ArgumentParser(
        prog="python -m d2l_attention.training",
        description="Train a translation model, then translate the test splits.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", default="grammar", help="grammar or a Tatoeba file")
    parser.add_argument("--model", choices=MODELS, default="bahdanau", help="which model")
    parser.add_argument("--steps", type=int, default=1000, help="batches to learn from")
    parser.add_argument("--batch-size", type=int, default=64, help="of all processes together")
    parser.add_argument("--lr", type=float, help="first learning rate; without it, the model's")
    parser.add_argument("--num-hiddens", type=int, default=96, help="units of a layer")
    parser.add_argument("--guidance", type=float, default=0.0, help="weight of the guidance loss")
    parser.add_argument("--check-every", type=int, default=200, help="steps from check to check")
    parser.add_argument("--out", type=Path, help="folder for checkpoints; without it none is kept")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument("--device", help="cpu, cuda:1, mps, ...; without it, the fastest there is")
    parser.add_argument("--seed", type=int, default=0, help="of weights and of the data's order")
    try:
        run(parser.parse_args())
    except (ValueError, OSError, FloatingPointError) as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(130)  # as a shell expects after Ctrl-C


def run(options: argparse.Namespace) -> None:
    accelerator = default_accelerator() if options.device is None else on_device(options.device)
    corpus = load(options.data)
    src_vocab = Vocab((pair.source for pair in corpus.train), min_freq=2)
    tgt_vocab = Vocab((target for pair in corpus.train for target in pair.targets), min_freq=2)
    torch.manual_seed(options.seed)
    model = MODELS[options.model](len(src_vocab), len(tgt_vocab), options.num_hiddens)
    model.to(accelerator.device)  # it stays there, for the test splits
    accelerator.print(
        f"{corpus.origin}: {len(corpus.train):,} source sentences, vocabularies of "
        f"{len(src_vocab):,} and {len(tgt_vocab):,} tokens\n{options.model} on "
        f"{accelerator.num_processes} x {accelerator.device.type}"
    )

    def report(history: History) -> None:
        if accelerator.is_main_process and history.valid and history.valid[-1][0] == history.step:
            tqdm.write(
                f"step {history.step}: loss {history.losses[-1]:.3f}, "
                f"validation {history.valid[-1][1]:.3f}, {history.speed:,.0f} tokens/s"
            )

    history = train(
        model,
        corpus.train,
        src_vocab,
        tgt_vocab,
        steps=options.steps,
        batch_size=options.batch_size,
        lr=LEARNING_RATES[options.model] if options.lr is None else options.lr,
        guidance=options.guidance,
        valid=corpus.valid,
        check_every=options.check_every,
        folder=options.out,
        resume=options.resume,
        seed=options.seed,
        on_step=report,
        accelerator=accelerator,
    )
    accelerator.end_training()
    if accelerator.is_main_process:
        print(f"{history.step} steps in {history.seconds:.0f} s")
        if options.out is not None:
            load_weights(model, options.out / "best.pt")
        for name, pairs in {"test": corpus.test, "compositional": corpus.compositional}.items():
            if pairs:
                print(f"{name:14s}{evaluate(model, pairs, src_vocab, tgt_vocab)}")


if __name__ == "__main__":
    main()
