"""Models made of parts and one function, and the arrows of their runs by names."""

from torch import nn

from d2l_attention.views.inside.names import all_different, name_of


class Made(nn.Module):
    """Has these parts; its ``forward`` is ``run(self, *inputs)``."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs, **named):
        return self.run(self, *inputs, **named)


def names(call):
    """Of all that arrows go from and to."""
    between = [name_of(each.module, each.path, call.module, call.path) for each in call.calls]
    between = all_different(between)
    if call.look is not None:
        between.insert(call.heads_at, "heads")
    outputs = [f"out {i}" if i else "out" for i in range(len(call.outputs))]
    return [*(held.name for held in call.inputs), *between, *outputs]


def flow(call):
    """What each part reads: its name -> the names of where its arrows come from."""
    rows = names(call)
    found = {name: set() for name in rows[len(call.inputs) :]}
    for source, to in call.arrows:
        found[rows[to]].add(rows[source])
    return {name: " ".join(sorted(sources)) for name, sources in found.items()}
