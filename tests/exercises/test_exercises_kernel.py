"""Checks in a real Jupyter kernel, which must outlive whatever they run."""

import os
import textwrap
from pathlib import Path

import nbformat
from nbclient import NotebookClient

PROJECT = Path(__file__).parents[2]

CELLS = [
    """
    import gc, psutil
    import d2l_attention.exercises as engine
    print(len(psutil.Process().children()), "waits for the first check")
    print("imports are no garbage:", gc.get_freeze_count() > 100_000)
    from d2l_attention.exercises import check
    from sample_exercise import an_exercise, softmax
    engine.find = lambda exercise_id: an_exercise(seconds=1.0)
    def my_softmax(scores): ...
    check("4.99", my_softmax)
    """,
    """
    def my_softmax(scores):
        while True:
            pass
    check("4.99", my_softmax)
    """,
    """
    def my_softmax(scores):
        return 10 ** 10 ** 9
    check("4.99", my_softmax)
    """,
    """
    def my_softmax(scores):
        raise SystemExit
    check("4.99", my_softmax)
    """,
    """
    def my_softmax(scores):
        display("seen")
        print(input("?"))
    check("4.99", my_softmax)
    """,
    """
    print("the kernel lives")
    check("4.99", softmax)
    """,
]


def test_in_a_kernel_the_next_cell_still_works(tmp_path):
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    paths = os.pathsep.join([str(PROJECT), str(PROJECT / "tests" / "exercises")])
    own = {"PYTHONPATH": paths, "D2L_ATTENTION_PROGRESS": str(tmp_path / "progress.json")}
    client = NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.execute(env=os.environ | own)
    texts = [cell.outputs[-1].data["text/plain"] for cell in notebook.cells]
    for text, told in zip(
        texts,
        [
            "Not attempted yet.",
            "was stopped. It was in line",
            "was stopped. It was in line",
            "Your code ends Python",
            "there is no keyboard here",
            "Solved. Because.",
        ],
        strict=True,
    ):
        assert told in text
    at_first = "1 waits for the first check\nimports are no garbage: True\n"
    assert notebook.cells[0].outputs[0].text == at_first
    assert notebook.cells[-1].outputs[0].text == "the kernel lives\n"
