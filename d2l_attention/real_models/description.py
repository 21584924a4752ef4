"""A configuration of the ``transformers`` library in the words of this course."""

from dataclasses import dataclass
from typing import Any

from d2l_attention.real_models.cache_numbers import LayerCache, layer_caches
from d2l_attention.real_models.facts import Fact, facts_of
from d2l_attention.real_models.known import KNOWN
from d2l_attention.real_models.table import Table, show


@dataclass(frozen=True)
class Description:
    """What ``describe`` returns: ``facts`` to read by a program, a table to read by a person."""

    model: str
    facts: tuple[Fact, ...]
    known: bool  # whether the model is one of those that this course compared with their code
    unknown: tuple[str, ...]  # what the configuration does not say
    caches: tuple[LayerCache | None, ...] | None

    def __getitem__(self, name: str) -> Any:
        """The value of the fact with this name. Errors: ``KeyError`` with the names there are."""
        values = {fact.name: fact.value for fact in self.facts}
        if name not in values:
            raise KeyError(f"{self.model} has no fact {name!r}, only {', '.join(values)}")
        return values[name]

    def __contains__(self, name: str) -> bool:
        return any(fact.name == name for fact in self.facts)

    @property
    def table(self) -> Table:
        rows = tuple(
            (fact.name, show(fact.value), fact.meaning, str(fact.chapter)) for fact in self.facts
        )
        notes = []
        if not self.known:
            notes.append(
                f"This course does not know the model {self.model}: what its code adds or does in "
                "another way is not told here, and its cache is a guess."
            )
        if self.unknown:
            notes.append(f"Not said by the configuration: {', '.join(self.unknown)}.")
        columns = ("what", "here", "in this course's words", "chapter")
        return Table(self.model, columns, rows, " ".join(notes))

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def describe(config: Any) -> Description:
    """What a model's configuration says of its attention, with the chapter that teaches each.

    ``config`` is a configuration of the ``transformers`` library, or a model of it. Of a model of
    several parts, such as pictures and text, it is the part that writes text.

        describe(LlamaConfig())["heads"]  # 32

    A model that this course does not know is described as far as the names in its configuration
    go; ``known`` is False then, and the last line says so. ``unknown`` names what is left open. A
    few facts stand in a model's code and not in its configuration (QK-norm, sinks): they are told
    for the models known here.

    Errors: ``TypeError`` for what is no configuration.
    """
    config = getattr(config, "config", config)
    if isinstance(config, type) or not hasattr(config, "get_text_config"):
        raise TypeError(
            "describe takes a configuration of the transformers library, or a model of it, got "
            f"{type(config).__name__}"
        )
    if not getattr(config, "is_encoder_decoder", False):
        config = config.get_text_config()
    facts, caches = tuple(facts_of(config)), layer_caches(config)
    names = {fact.name for fact in facts}
    unknown = [name for name in ("layers", "heads", "head size", "positions") if name not in names]
    unknown += [f"what {fact.name} is" for fact in facts if fact.meaning.endswith("does not know")]
    if "cache, all layers" not in names and "direction" not in names:
        unknown.append("the whole cache")
    model = config.model_type or type(config).__name__
    caches = None if caches is None else tuple(caches)
    return Description(model, facts, model in KNOWN, tuple(unknown), caches)
