"""The chapters on each device there is, beside the other tests of this folder: see conftest.py."""

import pytest
from test_devices_apart import CHAPTERS, DEVICES, on


@pytest.mark.parametrize("name", DEVICES)
def test_every_chapter_runs_on(name):
    on(name, CHAPTERS)
