"""Runs the cells of a notebook in a fresh kernel, as a student's JupyterLab would."""

import os
import tempfile
from pathlib import Path

from nbclient import NotebookClient
from nbformat import NotebookNode

SECONDS_A_CELL = 600


def run_cells(notebook: NotebookNode, folder: Path, **environment: str) -> None:
    """Run every cell in ``folder`` and keep the outputs in the notebook.

    Errors: those of nbclient where a cell fails, takes too long or ends its kernel.
    """
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=SECONDS_A_CELL,
        extra_arguments=["--log-level=CRITICAL"],  # what the notebook says, not what ipykernel says
        record_timing=False,
        coalesce_streams=True,  # else a print may arrive in two pieces, on some days
        resources={"metadata": {"path": str(folder)}},
    )
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            # As in the tests: sums over threads may differ in their last digit from run to run.
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            # The exercises that the author has solved are nobody else's business.
            "D2L_ATTENTION_PROGRESS": str(Path(scratch, "progress.json")),
        } | environment
        client.execute(env=os.environ | environment)
