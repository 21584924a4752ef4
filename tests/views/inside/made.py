"""Models made of parts and one function, for the tests in this folder."""

from torch import nn


class Made(nn.Module):
    """Has these parts; its ``forward`` is ``run(self, *inputs)``."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs, **named):
        return self.run(self, *inputs, **named)
