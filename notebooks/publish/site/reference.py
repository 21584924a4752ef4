"""Sphinx extension: the API reference, made of the package's docstrings."""

import inspect
import re
from importlib import import_module

from sphinx.util.docutils import SphinxDirective

MODULES = ["d2l_attention"] + [
    f"d2l_attention.{name}"
    for name in (
        "data training models.decoding training.evaluation exercises views views.plots variants "
        "scale.cache_size scale.parallel scale.online_softmax scale.roofline"
    ).split()
]
SECTION = re.compile(r"(?:^|(?<=\. ))(Shape[^:.]{0,20}|Errors|Source): ")


def public_names(module):
    """What a module gives out: name -> object."""
    members = vars(module)
    if "__all__" not in members:
        return {
            name: thing
            for name, thing in members.items()
            if not name.startswith("_")
            and getattr(thing, "__module__", None) == module.__name__
            and inspect.getdoc(thing)
        }
    return {name: getattr(module, name) for name in module.__all__}


class PublicNames(SphinxDirective):
    """A module's public names; what it takes from others stands below their own first words.

    The content names these other modules in the order of a reader; those left out come last.
    """

    required_arguments = 1
    has_content = True

    def run(self):
        module = import_module(self.arguments[0])
        order = [module.__name__, *(f"{module.__name__}.{name}" for name in self.content)]
        homes = {home: [] for home in order}
        for name, thing in public_names(module).items():
            homes.setdefault(getattr(thing, "__module__", module.__name__), []).append(name)
        lines = introduction(module.__name__)
        for home, names in homes.items():
            lines += heading(home) if names and home != module.__name__ else []
            for name in names:
                lines += entry(f"{module.__name__}.{name}", getattr(module, name))
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def introduction(module):
    paragraphs = inspect.getdoc(import_module(module)).split("\n\n")
    return ["\n\n".join(map(to_rst, paragraphs)), ""]


def heading(module):
    """A docstring's first words as the heading above it."""
    title = re.match(r"[^:,.(]+", inspect.getdoc(import_module(module)))[0].strip()
    return [escape(title), "-" * len(title), "", *introduction(module)]


def entry(path, thing):
    if inspect.isclass(thing):
        options = ["   :members:"]
        if path.count(".") == 1:  # a layer: also what it has from a layer of ours
            options += ["   :inherited-members: Module"]
        return [f".. autoclass:: {path}", *options, ""]
    kind = "function" if inspect.isfunction(thing) else "data"
    return [f".. auto{kind}:: {path}", ""]


def convert_docstring(app, what, name, obj, options, lines):
    if what == "data":  # what Sphinx found is the docstring of its type, dict
        lines.clear()
        return
    paragraphs = "\n".join(lines).strip().split("\n\n")
    lines[:] = [*"\n\n".join(map(to_rst, paragraphs)).split("\n"), ""]


def to_rst(paragraph):
    """Plain text with ``code``: mark its sections, and take all other signs for what they are."""
    if paragraph.startswith(" "):  # a block of code
        return paragraph
    code_follows, paragraph = paragraph.endswith("::"), paragraph.removesuffix("::")
    text = SECTION.sub(r"\n\n:\1: ", escape(" ".join(paragraph.split()))).strip()
    return f"{text}::" if code_follows else text


def escape(text):
    """Signs outside of ``code`` have no meaning; ``code`` that is a public name leads to it."""
    parts = re.split(r"``(.+?)``", text)
    parts[::2] = [re.sub(r"([\\*|_`])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [link(part) for part in parts[1::2]]
    return "".join(parts)


def link(code):
    for module in MODULES:
        if code in public_names(import_module(module)):
            return f":py:obj:`~{module}.{code}`"
    return f"``{code}``"


def keep_forward(app, what, name, obj, skip, options):
    """How a layer is called is part of it, also where the class has said all there is to say."""
    return False if name == "forward" else None


def setup(app):
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", convert_docstring)
    app.connect("autodoc-skip-member", keep_forward)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
