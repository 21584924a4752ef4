"""What the course's tables and the chapters' sentences say of named models is true of them.

The numbers are compared with the library's configurations. What the library does not hold needs a
source with a year.
"""

import re

import pytest
import transformers

from d2l_attention.real_models import describe
from d2l_attention.real_models.who_uses_what import SHAPES
from d2l_attention.scale.cache_size import PUBLISHED, RECENT
from notebooks.publish.course import texts

SHAPE = {shape.name: shape for shape in (*PUBLISHED, *RECENT)}
MADE = {shape.name: shape.make for shape in SHAPES}
# Models of the course's tables that have the shape of a configuration under another name.
MADE |= {"Llama 3.1 8B": MADE["Llama 3 8B"]}
LONG = 10**6


def llama_2():
    return (
        transformers.LlamaConfig()
    )  # its defaults are the first Llama's 7B, whose shape Llama 2 keeps


MADE |= {"Llama 2 7B": llama_2}


@pytest.mark.parametrize("name", sorted(SHAPE.keys() & MADE.keys()))
def test_a_cache_in_the_courses_table_is_that_of_the_configuration(name):
    told, shape = describe(MADE[name]()), SHAPE[name]
    assert shape.num_heads == told["heads"]
    assert shape.num_layers == told["layers"]
    further = shape.bytes(LONG + 1) - shape.bytes(LONG)
    assert further == 2 * told["cache, all layers"]  # 16 bits a number
    if shape.latent_size is None:
        assert shape.num_kv_heads == told["groups" if "groups" in told else "heads"]
        assert shape.head_size == told["head size"]
        assert shape.window == (told["window"] if "window" in told else None)


@pytest.mark.parametrize("name", sorted(SHAPE.keys() - MADE.keys()))
def test_what_the_library_does_not_hold_has_a_source_with_a_year(name):
    assert re.search(r"\((19|20)\d\d\)", SHAPE[name].source)


def spelled(number):
    return f"{number:,}"


V4_KINDS = "compressed sparse", "heavily compressed"


def claims():
    """Chapter, and words that must stand in it, made of the numbers of a configuration."""
    gemma, deepseek = describe(MADE["Gemma 3 27B"]()), describe(MADE["DeepSeek-V3"]())
    llama, latest = describe(MADE["Llama 3.1 8B"]()), describe(llama_2())
    whole = gemma["full attention"].split()[0]
    yield "11", f"Gemma 3 27B has {gemma['layers']} layers, {whole} of them global"
    yield "11", f"windows of {spelled(gemma['window'])}"
    yield "11", f"and {deepseek['heads']} heads of 128 numbers in {deepseek['layers']}"
    v4, kimi = describe(MADE["DeepSeek-V4-Flash"]()), describe(MADE["Kimi Linear"]())
    chosen, whole = (v4[f"{kind} attention"].split()[0] for kind in V4_KINDS)
    yield "11", f"share one key of {v4['head size']} numbers, which is at the same time the value"
    yield "11", f"Its {v4['layers']} layers are of three kinds"
    yield "11", f"| the latest {v4['window']} tokens |"
    yield (
        "11",
        f"| {chosen} | these, and an entry for each 4 tokens | these, and {v4['chosen']} entries",
    )
    yield "11", f"| {whole} | these, and an entry for each 128 tokens |"
    assert v4["cache, all layers"] == 3440 and kimi["cache, all layers"] == 4032
    yield "10", f"Llama 3.1 8B has {llama['layers']} layers with {llama['heads']} heads each"
    size = latest["head size"]
    yield "09", f"Llama 2 7B has {latest['layers']} layers of {latest['heads']} heads, {size}"


def test_the_sentences_of_the_chapters_have_the_configurations_numbers():
    prose = {path.stem[:2]: re.sub(r"\s*\n# ?", " ", path.read_text("utf-8")) for path in texts()}
    assert len(prose) == len(texts())  # one text a chapter
    assert [claim for claim in claims() if claim[1] not in prose[claim[0]]] == []
