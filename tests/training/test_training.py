"""Training: it learns, and leaves what is not its own as it was."""

import math
from functools import partial
from itertools import islice

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from tiny import PAIRS, SRC, TGT, model_named, model_of, train_on
from torch.testing import assert_close

from d2l_attention.data import Pair, data_loader, make_batch
from d2l_attention.models.encoder_decoder import sequence_loss
from d2l_attention.training import MODELS, loop
from d2l_attention.training.evaluation import translate
from d2l_attention.training.loop import default_accelerator, validation_loss
from d2l_attention.training.metrics import align_by_attention, alignment_error_rate
from d2l_attention.training.sharing import batches, share


class TestLearning:
    def test_a_tiny_corpus_by_heart_with_its_alignments(self):
        pairs = PAIRS[:11]
        model = model_named("bahdanau", 32)
        history = train_on(
            model, pairs, steps=120, lr=0.04, guidance=0.5, valid=pairs, check_every=40
        )
        assert history.losses[0] > 3 and history.losses[-1] < 0.05
        assert [step for step, _ in history.valid] == [40, 80, 120]
        assert translate(model, [pair.source for pair in pairs], SRC, TGT) == [
            list(pair.target) for pair in pairs
        ]
        batch = make_batch(pairs, SRC, TGT)
        _, weights = model(batch.src, batch.tgt_in, batch.src_lens, need_weights=True)
        found = [
            align_by_attention(weight, len(pair.source), len(pair.target))
            for weight, pair in zip(weights, pairs, strict=True)
        ]
        sure, possible = [pair.sure for pair in pairs], [pair.possible for pair in pairs]
        assert alignment_error_rate(found, sure, possible) < 0.1

    def test_the_model_without_attention(self):
        model = model_named("seq2seq", 16)
        history = train_on(model, steps=120, lr=0.04)
        assert history.losses[-1] < history.losses[0] / 2

    def test_first_step_by_hand(self):
        """One batch of everything: loss, clipped gradient and Adam's first step."""
        trained, model, norms = model_of(), model_of(), []

        def gradient_norm(history):
            gradients = [parameter.grad.flatten() for parameter in trained.parameters()]
            norms.append(torch.cat(gradients).norm().item())

        history = train_on(
            trained, batch_size=23, steps=1, lr=0.01, clip=0.1, on_step=gradient_norm
        )
        batch = make_batch(PAIRS, SRC, TGT)
        logits = model(batch.src, batch.tgt_in, batch.src_lens)
        loss = sequence_loss(logits, batch.tgt_out, batch.tgt_lens)
        assert history.losses == [pytest.approx(loss.item(), rel=1e-6)]
        assert history.tokens == sum(len(pair.target) + 1 for pair in PAIRS)
        assert norms == [pytest.approx(0.1, rel=1e-4)]
        loss.backward()
        moved = trained.decoder.dense.bias - model.decoder.dense.bias
        # Adam's first step is the learning rate against the gradient's sign, near enough.
        large = model.decoder.dense.bias.grad.abs() > 1e-3
        assert large.any()
        assert_close(
            moved[large], -0.01 * model.decoder.dense.bias.grad.sign()[large], atol=1e-5, rtol=0
        )

    def test_the_learning_rate_falls_in_a_straight_line(self, monkeypatch):
        used, step = [], torch.optim.Adam.step

        def note(optimizer, *arguments):
            used.append(optimizer.param_groups[0]["lr"])
            return step(optimizer, *arguments)

        monkeypatch.setattr(torch.optim.Adam, "step", note)
        train_on(model_of(), steps=4, lr=0.02)
        assert used == pytest.approx([0.02, 0.015, 0.01, 0.005])

    def test_who_looks_at_the_model_in_between_does_not_end_its_dropout(self):
        """mcan-vqa#26: eval mode, set for a look at a translation, would last to the end."""
        expected, model = train_on(model_of(dropout=0.5)).losses, model_of(dropout=0.5)
        assert train_on(model, on_step=lambda _: model.eval()).losses == expected

    def test_validation_counts_tokens_not_batches(self):
        from accelerate import Accelerator

        model, accelerator = model_of().eval(), Accelerator(cpu=True)
        batch = make_batch(PAIRS, SRC, TGT)
        logits = model(batch.src, batch.tgt_in, batch.src_lens)
        expected = sequence_loss(logits, batch.tgt_out, batch.tgt_lens).item()
        for batch_size in (1, 5, 23):
            found = validation_loss(model, PAIRS, SRC, TGT, batch_size, accelerator)
            assert found == pytest.approx(expected, rel=1e-5)

    def test_leaves_the_random_numbers_as_they_were(self):
        torch.manual_seed(5)
        expected = torch.rand(3)
        model = model_of(dropout=0.3)
        torch.manual_seed(5)
        train_on(model, steps=2)
        assert torch.equal(torch.rand(3), expected)
        assert not model.training

    def test_leaves_the_generators_of_other_devices_alone(self, monkeypatch):
        """``torch.manual_seed`` would seed every device, and nobody gives these back."""
        model, seeded = model_of(dropout=0.3), []
        monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
        monkeypatch.setattr(torch.mps, "manual_seed", seeded.append)
        assert train_on(model, steps=2).step == 2
        assert seeded == []

    @pytest.mark.parametrize("name", sorted(MODELS))
    def test_bfloat16(self, name, accelerator_with):
        low = train_on(model_named(name), accelerator=accelerator_with(mixed_precision="bf16"))
        AcceleratorState._reset_state(reset_partial_state=True)
        full = train_on(model_named(name))
        assert low.losses != full.losses
        assert_close(torch.tensor(low.losses), torch.tensor(full.losses), atol=0.05, rtol=0.05)


@pytest.fixture
def accelerator_with():
    """Makes an accelerator; afterwards the process, which has one precision, has none."""

    def make(**options):
        AcceleratorState._reset_state(reset_partial_state=True)
        return Accelerator(cpu=True, **options)

    yield make
    AcceleratorState._reset_state(reset_partial_state=True)


class TestAnAcceleratorOfOnesOwn:
    def test_gradients_are_not_accumulated(self, accelerator_with):
        # Accelerate would divide each gradient by 4: clipping and Adam would see other numbers.
        with pytest.raises(ValueError, match="gradient_accumulation_steps must be 1, .* got 4"):
            train_on(model_of(), accelerator=accelerator_with(gradient_accumulation_steps=4))

    def test_a_later_run_without_one_is_not_in_its_precision(self, accelerator_with, monkeypatch):
        accelerator_with(mixed_precision="bf16")
        with pytest.raises(ValueError, match="mixed_precision='no'"):
            train_on(model_of())
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")  # as accelerate launch does
        assert default_accelerator().mixed_precision == "bf16"

    def test_an_error_leaves_the_model_in_full_precision(self, accelerator_with, tmp_path):
        model, tokens = model_of().eval(), torch.ones(2, 3, dtype=torch.long)
        expected, accelerator = model(tokens, tokens), accelerator_with(mixed_precision="bf16")
        tmp_path.joinpath("last.pt").write_text("damaged")
        for wrong in ({"on_step": lambda history: 1 / 0}, {"folder": tmp_path, "resume": True}):
            with pytest.raises((ZeroDivisionError, ValueError)):
                train_on(model, lr=1e-9, accelerator=accelerator, **wrong)
            assert not model.training
            assert_close(model(tokens, tokens), expected, rtol=0, atol=1e-6)

    def test_the_same_for_two_runs_in_float16(self, accelerator_with):
        def scaling():
            accelerator = accelerator_with(mixed_precision="fp16")
            accelerator.native_amp, accelerator.scaler = True, torch.amp.GradScaler("cpu")
            return accelerator

        def losses(*accelerators):
            model = model_named("transformer")
            return [train_on(model, accelerator=each).losses for each in accelerators]

        one = scaling()
        assert losses(one, one) == losses(scaling(), scaling())


@pytest.mark.parametrize("name", ["lr", "clip"])
@pytest.mark.parametrize("value", [0, math.nan])
def test_arguments(name, value):
    with pytest.raises(ValueError, match=f"{name} must be positive, got {value}"):
        train_on(model_of(), **{name: value})


@pytest.mark.parametrize("name", ["steps", "batch_size", "check_every", "seed"])
def test_whole_numbers(name):
    with pytest.raises(ValueError, match=f"{name} must be a whole number from .* on, got 2.5"):
        train_on(model_of(), **{name: 2.5})


def test_pairs_that_can_be_read_once():
    expected = train_on(model_of(), valid=PAIRS)
    found = train_on(model_of(), pairs=iter(PAIRS), valid=iter(PAIRS))
    assert found.losses == expected.losses and found.valid == expected.valid


def test_guidance_needs_weights_and_alignments():
    with pytest.raises(ValueError, match="guidance must be 0 or more, got -1"):
        train_on(model_of(), guidance=-1)
    with pytest.raises(ValueError, match="Seq2SeqDecoder has none"):
        train_on(model_named("seq2seq"), guidance=0.1)
    unaligned = [Pair(pair.source, pair.targets) for pair in PAIRS]
    with pytest.raises(ValueError, match="known alignments"):
        train_on(model_of(), unaligned, guidance=0.1)


def test_a_bar_for_whoever_watches(capsys, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)  # pytest started from a notebook
    train_on(model_of(), steps=2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(loop, "tqdm", partial(loop.tqdm, mininterval=0))
    train_on(model_of(), steps=2, progress=True)
    bar = capsys.readouterr().err
    assert "2/2" in bar and "loss=" in bar and "tokens_per_s=" in bar


def test_batches_go_on_where_they_stopped():
    order = torch.Generator()
    loader = data_loader(PAIRS, SRC, TGT, 5, generator=order)
    eleven = [batch.src.tolist() for batch in islice(batches(loader, order, 3, 0), 11)]
    assert [len(batch) for batch in eleven[:5]] == [5, 5, 5, 5, 3]
    assert eleven[:5] != eleven[5:10]
    for done in (1, 4, 5, 6):
        rest = [batch.src.tolist() for batch in islice(batches(loader, order, 3, done), 11 - done)]
        assert rest == eleven[done:]


class Process:
    """What ``share`` reads of an accelerator."""

    def __init__(self, process_index, num_processes):
        self.process_index, self.num_processes = process_index, num_processes


def test_processes_share_every_row():
    def collate(rows):
        return make_batch(rows, SRC, TGT)

    shares = [share(Process(index, 3), collate, PAIRS[:5]) for index in range(3)]
    assert [len(batch.src) for batch in shares] == [2, 2, 1]
    assert sum(batch.tgt_lens.sum() for batch in shares) == collate(PAIRS[:5]).tgt_lens.sum()
    idle = share(Process(2, 3), collate, PAIRS[:2])
    assert len(idle.src) == 1 and idle.tgt_lens.sum() == 0 and not idle.links.any()
