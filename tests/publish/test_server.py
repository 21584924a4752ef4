"""What JupyterHub starts for a student."""

import json

from notebooks.publish.classroom.server import prepare
from notebooks.publish.course import texts


def test_what_a_student_changed_stays_and_the_news_open_first(tmp_path):
    assert prepare(tmp_path) == "00_start_here.ipynb"
    work = tmp_path / "work"
    assert len(list(work.glob("[0-9]*.ipynb"))) == len(texts())
    mine, list_ = work / "01_queries_keys_values.ipynb", work / ".delivered.json"
    mine.write_text(mine.read_text("utf-8").replace("## Why attention?", "## My words"), "utf-8")
    delivered = json.loads(list_.read_text("utf-8")) | {mine.name: "of an older version"}
    list_.write_text(json.dumps(delivered), "utf-8")
    assert prepare(tmp_path) == "what_is_new.md"
    assert "## My words" in mine.read_text("utf-8")
    news = (work / "what_is_new.md").read_text("utf-8")
    assert "01_queries_keys_values.new.ipynb" in news and "python -m notebooks changes 01" in news
    assert str(tmp_path) not in news
    assert prepare(tmp_path) == "00_start_here.ipynb"
