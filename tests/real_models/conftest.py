"""Nothing here asks the network for anything: a model's name would fail, not wait."""

import os
import socket

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(self, address):
        raise AssertionError(f"a test wanted to reach {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
