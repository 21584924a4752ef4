"""The generators that training draws from: seeded, and given back as they were."""

import pytest
import torch

from d2l_attention.training.devices import own_randomness, seed_generators


class Accelerator:
    """What ``torch.cuda`` and ``torch.mps`` say of their generator, about one on the CPU."""

    def __init__(self):
        self.generator = torch.Generator("cpu")

    def manual_seed(self, seed):
        self.generator.manual_seed(seed)

    def get_rng_state(self, device):
        return self.generator.get_state()

    def set_rng_state(self, state, device):
        self.generator.set_state(state)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_the_cpu_and_the_device_are_seeded_and_given_back(monkeypatch, kind):
    accelerator, device = Accelerator(), torch.device(kind)
    generators = torch.default_generator, accelerator.generator
    before = [generator.get_state() for generator in generators]
    expected = torch.rand(3, generator=torch.Generator("cpu").manual_seed(7))
    monkeypatch.setattr(torch, kind, accelerator)
    monkeypatch.setattr(torch, "get_device_module", lambda device: accelerator)
    with own_randomness(device):
        seed_generators(device, 7)
        for generator in generators:
            assert torch.equal(torch.rand(3, generator=generator), expected)
    for generator, state in zip(generators, before, strict=True):
        assert torch.equal(generator.get_state(), state)


def test_on_the_cpu_nothing_else_is_touched():
    before = torch.get_rng_state()
    with own_randomness(torch.device("cpu")):
        seed_generators(torch.device("cpu"), 7)
        assert torch.equal(torch.get_rng_state(), torch.Generator("cpu").manual_seed(7).get_state())
    assert torch.equal(torch.get_rng_state(), before)
