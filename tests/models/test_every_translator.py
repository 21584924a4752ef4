"""What every translation model promises: GRUs with and without attention, and Transformers."""

import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

from d2l_attention.models.encoder_decoder import sequence_loss
from tests.devices.parts import MODELS, SOURCE_WORDS, TARGET_WORDS, B

S, T = 7, 5
LENS = torch.tensor([7, 2, 4])
RECURRENT = ["seq2seq", "Bahdanau"]


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(1)
    return MODELS[request.param]()


@pytest.fixture
def batch():
    return torch.randint(SOURCE_WORDS, (B, S)), torch.randint(TARGET_WORDS, (B, T))


def test_padding_of_the_source_changes_nothing(model, batch):
    source, target = batch
    expected = model(source, target, LENS)
    assert expected.shape == (B, T, TARGET_WORDS)
    for b, length in enumerate(LENS):
        source[b, length:] = (source[b, length:] + 1) % SOURCE_WORDS
    assert torch.equal(model(source, target, LENS), expected)
    wider = torch.cat((source, source[:, :3]), dim=1)
    assert_close(model(wider, target, LENS), expected)


def test_a_sentence_alone_is_the_same_as_in_a_batch(model, batch):
    source, target = batch
    together = model(source, target, LENS)
    for b, length in enumerate(LENS):
        alone = model(source[b : b + 1, :length], target[b : b + 1], LENS[b : b + 1])
        assert_close(together[b], alone[0])


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_later_targets_change_nothing_before_them(model, batch, training):
    source, target = batch
    before = model.train(training)(source, target, LENS)
    target[:, 3:] = (target[:, 3:] + 1) % TARGET_WORDS
    after = model(source, target, LENS)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.isclose(before[:, 3:], after[:, 3:]).all(dim=-1).any()


@pytest.mark.parametrize("sizes", [[1] * 5, [2, 2, 1], [1, 4]], ids=str)
def test_in_pieces_is_all_at_once(model, batch, sizes):
    source, target = batch
    state = model.decoder.init_state(model.encoder(source, LENS), LENS)
    whole, _ = model.decoder(target, state)
    pieces = []
    for piece in target.split(sizes, dim=1):
        logits, state = model.decoder(piece, state)
        pieces.append(logits)
    assert_close(torch.cat(pieces, dim=1), whole)


def test_every_parameter_learns_from_the_first_step_on(model, batch):
    # The optimizer is made before the model has seen anything.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = copy.deepcopy(model.state_dict())
    sequence_loss(model(*batch, LENS), batch[1], torch.tensor([5, 3, 1])).backward()
    optimizer.step()
    for name, value in model.state_dict().items():
        assert not torch.equal(value, before[name]), name


def test_copies_and_pickles(model, batch):
    expected = model(*batch, LENS)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(*batch, LENS), expected)


@pytest.mark.parametrize("length", [0, 1])
def test_very_short_sentences(model, batch, length):
    logits = model(*batch, torch.tensor([length, 7, 7]))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
