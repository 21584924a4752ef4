"""A check of the sample exercise, whose progress stays out of anybody's own."""

import pytest
from sample_exercise import an_exercise

import d2l_attention.exercises as engine


@pytest.fixture
def own_progress(tmp_path, monkeypatch):
    file = tmp_path / "data" / "progress.json"
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(file))
    return file


@pytest.fixture
def tell(monkeypatch, own_progress):
    """``check`` on the sample exercise, with some of its fields changed."""

    def run(answer, **changes):
        monkeypatch.setattr(engine, "find", lambda _: an_exercise(**changes))
        return engine.check("4.99", answer)

    return run
