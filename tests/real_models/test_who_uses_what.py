"""The table of who uses what comes from the installed library, row by row."""

import transformers

from d2l_attention.real_models import describe, who_uses_what
from d2l_attention.real_models.who_uses_what import DEFAULTS, SHAPES, Shape


def rows():
    table = who_uses_what()
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_models_of_the_last_years():
    found = rows()
    assert len(found) == len(SHAPES) >= 14
    wanted = "Llama Mistral Qwen3 Qwen3-Next Gemma DeepSeek-V3 DeepSeek-V4 GLM-5 Kimi LFM3 MiMo"
    for start in (*wanted.split(), "gpt-oss", "Mistral Large 4", "MiniMax-M3"):
        assert any(name.startswith(start) for name in found), start
    assert transformers.__version__ in who_uses_what().title


def test_every_model_is_known():
    for shape in SHAPES:
        told = describe(shape.make())
        assert told.known and not told.unknown, shape.name


def test_each_row_says_where_its_numbers_come_from():
    found = rows()
    for shape in SHAPES:
        changed = bool(shape.changes)
        assert shape.source == DEFAULTS or "20" in shape.source or "page" in shape.source
        assert changed == (not shape.source.startswith(DEFAULTS)) or ";" in shape.source
        assert found[shape.name]["numbers from"] == shape.source


def test_rows_by_hand():
    found = rows()
    llama, mistral = found["Llama 3 8B"], found["Mistral 7B"]
    assert [llama[column] for column in ("layers", "heads", "groups")] == ["32", "32", "8"]
    assert llama["cache"] == f"{32 * 8 * 128 * 2:,}"
    assert (mistral["kinds of layers"], mistral["window"]) == ("32 window", "4,096")
    gemma = found["Gemma 3 27B"]
    assert gemma["kinds of layers"] == "52 window, 10 full" and gemma["window"] == "1,024"
    assert gemma["cache"] == f"{10 * 16 * 128 * 2:,}"
    assert found["DeepSeek-V3"]["groups"] == "latent of 512"
    assert found["DeepSeek-V3"]["cache"] == f"{61 * 576:,}"
    assert found["Qwen3-Next"]["kinds of layers"] == "36 linear, 12 full"
    assert found["Qwen3-Next"]["more"] == "QK-norm, delta rule"
    assert found["gpt-oss-120b"]["more"] == "sinks"
    assert found["Gemma 2 2B"]["more"] == "softcap 50"
    assert found["MiniMax-M3"]["kinds of layers"] == "3 full, 57 chosen blocks"
    assert found["MiniMax-M3"]["more"].endswith("16 blocks of 128 chosen")
    kimi, v4 = found["Kimi Linear"], found["DeepSeek-V4-Flash"]
    assert (kimi["positions"], kimi["kinds of layers"]) == ("none", "20 linear, 7 full")
    assert kimi["cache"] == f"{7 * 576:,}"
    assert v4["kinds of layers"] == "2 window, 21 compressed, chosen, 20 compressed"
    assert v4["cache"] == f"{21 * 160 + 20 * 4:,}"
    large = found["Mistral Large 4"]  # nine layers keep the indexer's keys, and read one latent
    assert large["positions"].endswith("none in 18 layers")
    assert large["cache"] == f"{54 * (576 + 128) + 18 * (512 + 128) - 9 * 512:,}"


def test_published_layers_in_their_order():
    """Kimi's full layers, counted from 1, and V4-Flash's first five and last two layers."""
    made = {shape.name: shape.changes.get("layer_types", []) for shape in SHAPES}
    full = [i for i, kind in enumerate(made["Kimi Linear"], 1) if kind == "full_attention"]
    assert full == [4, 8, 12, 16, 20, 24, 27]
    kinds = [kind.split("_")[0] for kind in made["DeepSeek-V4-Flash"]]
    assert kinds[:5] == ["sliding", "sliding", "compressed", "heavily", "compressed"]
    assert kinds[-2:] == ["heavily", "compressed"] and len(kinds) == 43


def test_a_class_that_the_library_does_not_have():
    table = who_uses_what((SHAPES[1], Shape("Tomorrow 1", "TomorrowConfig")))
    assert [row[0] for row in table.rows] == ["Mistral 7B"]
    assert table.note.endswith(" Not in this version of the library: Tomorrow 1.")
