"""Which cells of a notebook its views need: a view's own, and those that define what it uses.

nbval runs every cell and compares what it shows. To draw a view's frames for the slides, or to move
it in a browser, only what it is made of has to run again.
"""

import ast
import dis
from types import CodeType

from notebooks.publish.cells import WIDGET_MIME


def view_cells(cells: list[dict]) -> list[int]:
    """The numbers of the cells that show a view, as the notebook is stored."""
    return [
        number
        for number, cell in enumerate(cells)
        if any(WIDGET_MIME in output.get("data", {}) for output in cell.get("outputs", []))
    ]


def needed_cells(cells: list[dict], wanted: list[int]) -> list[int]:
    """The numbers of the cells to run, in their order, for the ``wanted`` ones to run.

    A name comes from the last cell above that defines it, or, where a function was written first,
    from the next one below; the cells between that change its object in place (``x[0] = 1``,
    ``x.append(1)``) are needed, too. A seed set in another cell is not seen: what is random in a
    view sets its own, or has a generator.
    """
    sources = {
        number: "".join(cell["source"])
        for number, cell in enumerate(cells)
        if cell["cell_type"] == "code"
    }
    names = {number: used_and_defined(source) for number, source in sources.items()}
    modules = set().union(*map(imported, sources.values()))  # torch.manual_seed(0) changes no torch
    changed = {number: changed_in_place(source) - modules for number, source in sources.items()}
    needed, to_do = set(), list(wanted)
    last = max(to_do, default=0)
    while to_do:
        number = to_do.pop()
        if number in needed:
            continue
        needed.add(number)
        for name in names[number][0]:
            above = [other for other in reversed(sources) if other < number]
            below = [other for other in sources if number < other < last]
            for other in above + below:
                defines = name in names[other][1]
                if defines or name in changed[other]:
                    to_do.append(other)
                if defines:
                    break
    return sorted(needed)


def used_and_defined(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell needs from earlier cells, and those that it defines."""
    used, defined, inner = set(), set(), set()
    for step in dis.get_instructions(compile(source, "cell", "exec")):
        if step.opname == "STORE_NAME":
            defined.add(step.argval)
        elif step.opname == "LOAD_NAME" and step.argval not in defined:
            used.add(step.argval)
        elif isinstance(step.argval, CodeType):
            inner |= _globals_of(step.argval)
    return used | inner - defined, defined


def _globals_of(code: CodeType) -> set[str]:
    """The names that a function or a class reads from outside, and so do those inside it."""
    names = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return names.union(*(_globals_of(part) for part in code.co_consts if type(part) is CodeType))


def changed_in_place(source: str) -> set[str]:
    """The names whose objects a cell changes: by item, by attribute, by a method called alone."""
    changed = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            node = node.value.func
        elif not isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        if not isinstance(node, ast.Attribute | ast.Subscript):
            continue
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            changed.add(node.id)
    return changed


def imported(source: str) -> set[str]:
    """The names that a cell imports."""
    return {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
