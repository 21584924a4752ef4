"""Small public tools: devices, shown source."""

import re
from pathlib import Path

import pytest
import torch

from d2l_attention import __version__, masked_softmax, show_source, try_gpu


def test_try_gpu_takes_what_is_there(monkeypatch):
    monkeypatch.delenv("D2L_ATTENTION_DEVICE", raising=False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [try_gpu(i) for i in (0, 1)] == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert try_gpu(2) == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert try_gpu(2) == torch.device("mps")
    with pytest.raises(ValueError, match="from 0, got -1"):
        try_gpu(-1)


def test_try_gpu_takes_a_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert try_gpu("cpu") == torch.device("cpu")
    assert [try_gpu(name).index for name in ("cuda", "cuda:1")] == [None, 1]
    with pytest.raises(ValueError, match="no device cuda:2 here, only 2 of type cuda"):
        try_gpu("cuda:2")
    for unknown in ("gpu", "cuda:x", "meta"):
        with pytest.raises(ValueError, match=f"cpu, cuda:0 or mps, got {unknown}"):
            try_gpu(unknown)


def test_the_environment_names_the_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("D2L_ATTENTION_DEVICE", "cpu")
    assert [try_gpu(), try_gpu(1)] == [torch.device("cpu")] * 2
    assert try_gpu("cuda:1") == torch.device("cuda:1")  # who names one gets it
    monkeypatch.setenv("D2L_ATTENTION_DEVICE", "cuda:2")
    with pytest.raises(ValueError, match="no device cuda:2 here"):
        try_gpu()
    monkeypatch.setenv("D2L_ATTENTION_DEVICE", "")
    assert try_gpu() == torch.device("cuda:0")


def test_show_source_is_the_code_that_runs():
    source = show_source(masked_softmax)
    assert repr(source).startswith("def masked_softmax(")
    assert source._repr_markdown_() == f"```python\n{source!r}\n```"
    with pytest.raises(TypeError, match="no Python source for 3"):
        show_source(3)


def test_the_newest_entry_of_the_changelog_is_this_version():
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## (\S+?),? ", text, re.MULTILINE)[1] == __version__
