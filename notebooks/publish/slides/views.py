"""Widgets that draw themselves in the browser, and so live on a slide without a kernel."""

from nbformat import NotebookNode

from notebooks.publish.cells import WIDGET_MIME

STATE_MIME = "application/vnd.jupyter.widget-state+json"
REFERENCE = "IPY_MODEL_"
DRAWS_ITSELF = "AnyModel"
LINKS = ("LinkModel", "DirectionalLinkModel")


def states_of(notebook: NotebookNode) -> dict[str, dict]:
    """The saved state of each widget in the notebook, by the id of its model."""
    widgets = notebook.metadata.get("widgets") or {}
    return widgets.get(STATE_MIME, {}).get("state") or {}


def shown_models(notebook: NotebookNode) -> list[str]:
    """The ids of the widgets that the notebook's outputs show."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    views = [
        output.data[WIDGET_MIME] for output in outputs if WIDGET_MIME in output.get("data", {})
    ]
    return [view["model_id"] for view in views]


def parts_of(states: dict[str, dict], model: str) -> set[str]:
    """The ids of a widget and of all that it is made of."""
    found, waiting = set(), [model]
    while waiting:
        model = waiting.pop()
        if model in states and model not in found:
            found.add(model)
            waiting += _references(states[model]["state"])
    return found


def _references(value) -> list[str]:
    if isinstance(value, str):
        return [value.removeprefix(REFERENCE)] if value.startswith(REFERENCE) else []
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return []
    return [reference for item in items for reference in _references(item)]


def alive(notebook: NotebookNode) -> tuple[set[str], dict[str, dict]]:
    """The shown widgets that live without a kernel, and the states that they need to."""
    states, shown, needed = states_of(notebook), set(), set()
    for model in shown_models(notebook):
        parts = parts_of(states, model)
        if any(states[part]["model_name"] == DRAWS_ITSELF for part in parts):
            shown.add(model)
            needed |= parts
    for model, state in states.items():
        if state["model_name"] in LINKS and needed.issuperset(_references(state["state"])):
            needed.add(model)
    return shown, {model: states[model] for model in sorted(needed)}
