"""The library is imported when it is used, and its absence is said in one sentence."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from plain_attention import plain
from small_models import BART, MORE, VIT, WRITERS
from torch import nn

from d2l_attention.real_models import use_attention
from d2l_attention.real_models.library import INSTALL, attention_layers, is_attention


def test_importing_the_room_does_not_import_the_library():
    code = "import sys, d2l_attention, d2l_attention.real_models; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert not {"transformers", "huggingface_hub"} & set(run.stdout.split())


def test_without_the_library(monkeypatch):
    model = WRITERS["Llama"]()
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ImportError, match='transformers library: pip install "transformers>=5.23"'):
        use_attention(model, plain)


def test_the_command_is_what_the_project_asks_for():
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    extras = tomllib.loads(project.read_text("utf-8"))["project"]["optional-dependencies"]
    (wanted,) = (line for line in extras["notebooks"] if line.startswith("transformers"))
    assert INSTALL == f'pip install "{wanted}"'


def test_layers_are_found_where_they_attend():
    llama = WRITERS["Llama"]()
    assert attention_layers(llama) == {
        "": {0: llama.model.layers[0].self_attn, 1: llama.model.layers[1].self_attn}
    }
    bart = BART()
    found = attention_layers(bart)
    assert found["cross"][1] is bart.model.decoder.layers[1].encoder_attn
    assert found["decoder"][1] is bart.model.decoder.layers[1].self_attn
    assert found["encoder"][0] is bart.model.encoder.layers[0].self_attn
    assert list(attention_layers(VIT())[""]) == [0, 1]
    assert list(attention_layers(MORE["LFM3"]())[""]) == [1, 2]
    assert not is_attention(nn.MultiheadAttention(4, 2))


def test_towers_are_called_by_their_path():
    towers = nn.ModuleDict({"left": WRITERS["Llama"](), "right": WRITERS["GPT-2"]()})
    assert set(attention_layers(towers)) == {"left.model.layers", "right.transformer.h"}
