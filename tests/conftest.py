"""What every test runs under: one torch thread, a fixed seed, no clock."""

import signal

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

# In the background of a shell Ctrl-C is ignored, by all that is started from there as well: the
# tests that press it need it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: two busy cores can make any example slow. Derandomised: CI repeats itself.
settings.register_profile("course", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("course")


# By seconds. Where two processes share the files, one of these at the end would make one wait.
LONGEST_FIRST = (
    "test_nbgrader.py test_grading.py test_chapters_apart.py test_exercises_sandbox.py "
    "test_devices_apart.py test_parallel_launch.py test_like_windows.py "
    "test_private_exercises.py test_rooms.py test_workers.py "
    "test_take_away.py test_parallel.py test_make_slides.py test_processes.py"
).split()


def pytest_collection_modifyitems(items):
    order = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
