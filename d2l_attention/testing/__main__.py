"""``python -m d2l_attention.testing test_my_attention.py`` writes the ten tests as one file.

The file needs torch and pytest, and nothing of this course.
"""

import argparse
from pathlib import Path

from d2l_attention.system.files import write_whole
from d2l_attention.testing import properties

END = '''

# ---- The ten as tests, of your attention ---------------------------------------------------

import pytest

SIZE, DTYPE = 12, torch.float32  # the width of queries, keys and values


def make_attention():
    """A new layer, or a function of queries, keys and values (B, n, SIZE) each.

    It takes valid_lens (B,), is_causal, or a boolean mask (True = may attend), where it hides
    anything. torch.nn.MultiheadAttention is known. Here comes your own:
    """

    def attention(queries, keys, values, mask=None):
        return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)

    return attention


@pytest.mark.parametrize("known", PROPERTIES, ids=lambda known: known.name.replace(" ", "_"))
def test_attention(known):
    torch.manual_seed(0)
    attention = adapted(make_attention(), DTYPE)
    if attention.module is not None:
        attention.module.eval()  # dropout is random
    if why := known.not_tried(attention):
        pytest.skip(why)
    wrong = known.find(attention, SIZE)
    assert wrong is None, f"{known.meaning}\\nSeen: {wrong}.\\nCommon reasons: {known.breaks}."
'''


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m d2l_attention.testing", description=__doc__)
    parser.add_argument("file", type=Path, help="the file to write, such as test_my_attention.py")
    path = parser.parse_args().file
    if path.exists():
        parser.error(f"{path} exists already: nothing was written. Choose another name")
    if not path.parent.is_dir():
        parser.error(f"there is no folder {path.parent}: nothing was written")
    write_whole(path, Path(properties.__file__).read_text("utf-8") + END)
    print(
        f"{path} is written. Put your attention into make_attention at its end, then: pytest {path}"
    )


if __name__ == "__main__":
    main()
