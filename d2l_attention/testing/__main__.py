"""``python -m d2l_attention.testing test_my_attention.py`` writes the ten tests as one file.

The file needs torch and pytest, and nothing of this course.
"""

import argparse
from pathlib import Path

HERE = Path(__file__).parent
OURS = "from d2l_attention."
START = '''"""Ten properties that any attention has, as tests. Put your own attention in at the end.

From the course d2l_attention, chapter 12. Run it: pytest {name}
"""

'''
END = '''

# ---- Your attention ------------------------------------------------------------------------

SIZE, DTYPE = 12, torch.float32  # the width of queries, keys and values


def make_attention():
    """A new layer, or a function of queries, keys and values (B, n, SIZE) each.

    It takes valid_lens (B,), is_causal, or a boolean mask (True = may attend), where it hides
    anything. torch.nn.MultiheadAttention is known. Here comes your own:
    """
    return torch.nn.MultiheadAttention(SIZE, 3, batch_first=True)


@pytest.mark.parametrize("known", PROPERTIES, ids=lambda known: known.name.replace(" ", "_"))
def test_attention(known):
    torch.manual_seed(0)
    attention = adapted(make_attention())
    attention.dtype = DTYPE
    if attention.module is not None:
        attention.module.eval()  # dropout is random
    if why := known.not_tried(attention):
        pytest.skip(why)
    wrong = known.find(attention, SIZE)
    assert wrong is None, f"{known.meaning}\\nSeen: {wrong}.\\nCommon reasons: {known.breaks}."
'''


def stitched(name: str) -> str:
    """The sources of this room as one file: imports first, then adapters, properties, tests."""
    imports, code = {"import pytest"}, []
    for module in ("adapters.py", "properties.py"):
        text = (HERE / module).read_text("utf-8").split('"""\n', 1)[1]  # without the docstring
        lines = text.splitlines()
        imports |= {line for line in lines if line.startswith(("import ", "from "))}
        code += [line for line in lines if not line.startswith(("import ", "from "))]
    kept = sorted(line for line in imports if not line.startswith(OURS))
    return START.format(name=name) + "\n".join(kept) + "\n\n" + "\n".join(code).strip() + "\n" + END


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m d2l_attention.testing", description=__doc__)
    parser.add_argument("file", type=Path, help="the file to write, such as test_my_attention.py")
    path = parser.parse_args().file
    if path.exists():
        parser.error(f"{path} exists already: nothing was written. Choose another name")
    if not path.parent.is_dir():
        parser.error(f"there is no folder {path.parent}: nothing was written")
    path.write_text(stitched(path.name), "utf-8")
    print(
        f"{path} is written. Put your attention into make_attention at its end, then: pytest {path}"
    )


if __name__ == "__main__":
    main()
