"""The ten tests as a file of their own: it needs torch and pytest, and nothing of the course."""

import ast
import subprocess
import sys

import pytest

EXAMPLE = """
    def attention(queries, keys, values, mask=None):
        return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)

    return attention
"""
PYTORCH = """
    return torch.nn.MultiheadAttention(SIZE, 3, batch_first=True)
"""
FUNCTION = """
    def attend(queries, keys, values, mask=None):
        scores = queries @ keys.mT / queries.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill({hidden}, -1e9)
        return scores.softmax({axis}) @ values

    return attend
"""
D2L = """
    class Layer(torch.nn.Module):  # as D2L's: lengths, and no mask
        def forward(self, queries, keys, values, valid_lens):
            visible = torch.ones(len(keys), 1, keys.shape[1], dtype=torch.bool)
            if valid_lens is not None:
                visible = torch.arange(keys.shape[1]) < valid_lens[:, None, None]
            scores = (queries @ keys.mT).masked_fill(~visible, -1e9)
            return (scores.softmax(-1) * visible) @ values

    return Layer()
"""


def write(path):
    command = [sys.executable, "-m", "d2l_attention.testing", str(path)]
    return subprocess.run(command, capture_output=True, encoding="utf-8")


TOLD = {  # what is said of each
    "example": (EXAMPLE, "10 passed"),
    "function": (FUNCTION.format(hidden="~mask", axis=-1), "Seen: a sentence of length 0"),
    "wrong axis": (FUNCTION.format(hidden="~mask", axis=-2), "A softmax over the wrong axis"),
    "inverted": (FUNCTION.format(hidden="mask", axis=-1), "an inverted mask"),
    "d2l": (D2L, "9 passed, 1 skipped"),
    "pytorch": (PYTORCH, "1 failed, 9 passed"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "test_mine.py"
    said = write(path)
    assert said.returncode == 0 and str(path) in said.stdout, said.stderr
    return path


# One Python runs the files of all attentions, one after the other.
RUN = """
import pathlib, pytest, sys
for path in sys.argv[1:]:
    print("next file")
    pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:nbval", "-rs", "--rootdir",
                 str(pathlib.Path(path).parent), path])
"""


@pytest.fixture(scope="module")
def outcomes(written, tmp_path_factory):
    """What pytest says of the file with each attention in it, by name."""
    text, paths = written.read_text("utf-8"), []
    assert EXAMPLE in text
    for number, (attention, _) in enumerate(TOLD.values()):
        paths.append(tmp_path_factory.mktemp("mine") / f"test_mine_{number}.py")
        paths[-1].write_text(text.replace(EXAMPLE, attention), "utf-8")
    command = [sys.executable, "-c", RUN, *map(str, paths)]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=written.parent)
    _, *said = run.stdout.split("next file\n")
    return dict(zip(TOLD, said, strict=True))


def test_it_stands_alone(written):
    modules = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(written.read_text("utf-8")))
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        )
    }  # fmt: skip
    assert modules == {"collections", "dataclasses", "inspect", "pytest", "torch"}


@pytest.mark.parametrize("name", TOLD)
def test_on_an_attention_of_ones_own(outcomes, name):
    assert TOLD[name][1].lower() in outcomes[name].lower()


def test_a_folder_that_is_not_there(tmp_path):
    said = write(tmp_path / "nowhere" / "test_mine.py")
    assert said.returncode == 2 and "there is no folder" in said.stderr


def test_it_never_writes_over_a_file(tmp_path):
    file = tmp_path / "test_mine.py"
    file.write_text("mine", "utf-8")
    said = write(file)
    assert said.returncode != 0 and "exists already" in said.stderr
    assert file.read_text("utf-8") == "mine"
