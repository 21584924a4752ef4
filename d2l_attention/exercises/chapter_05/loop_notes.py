"""What a decoder's loop hands to attention and to the recurrent cell, noted down step by step."""

from torch import Tensor

from d2l_attention.exercises.show import show


def ten_times(query: Tensor) -> Tensor:
    return 10 * query


def add_up(inputs: Tensor, state: Tensor) -> Tensor:
    return state + inputs.sum(dim=-1, keepdim=True)


class Notes:
    """``ten_times`` and ``add_up`` with a memory, for one sentence whose sizes are all 1.

    States are numbered as in the formula: s_0 is given, step t makes s_t out of s_{t-1}.
    """

    def __init__(self, embedded: Tensor, state: Tensor):
        self.tokens: list[float] = embedded.flatten().tolist()
        self.states: list[float] = [state.item()]
        self.queries: dict[float, float] = {}  # context -> who asked for it
        self.steps: list[tuple[Tensor, float]] = []  # inputs, and the state before

    def attend(self, query: Tensor) -> Tensor:
        context = ten_times(query)
        self.queries[context.sum().item()] = query.sum().item()
        return context

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        new = add_up(inputs, state)
        self.steps.append((inputs.clone(), state.sum().item()))
        self.states.append(new.sum().item())
        return new

    def wrong_input(self) -> str | None:
        """The first step that gets something wrong, and what."""
        if len(self.steps) != len(self.tokens):
            return f"`step` is called {len(self.steps)} times for {len(self.tokens)} tokens."
        for number, (inputs, state) in enumerate(self.steps, start=1):
            if inputs.shape != (1, 2):
                return (
                    f"Step {number} gets inputs of shape {tuple(inputs.shape)}; it should be "
                    "(B, C + E) = (1, 2), context and token side by side."
                )
            if found := self.wrong_at(number, inputs[0].tolist(), state):
                return found
        return None

    def wrong_at(self, number: int, inputs: list[float], state: float) -> str | None:
        contexts = [part for part in inputs if part in self.queries]
        tokens = [part for part in inputs if part in self.tokens]
        if len(contexts) != 1 or len(tokens) != 1:
            return (
                f"Step {number} gets the input {show(inputs)}. It should be one context and one "
                "token."
            )
        if tokens[0] != self.tokens[number - 1]:
            place = self.tokens.index(tokens[0]) + 1
            return f"Step {number} reads token {place}. It should read token {number}."
        if state != self.states[number - 1]:
            return (
                f"Step {number} begins at {show(state)}. The state that came out of the step "
                f"before, s_{number - 1} = {show(self.states[number - 1])}, is lost."
            )
        return self.wrong_query(number, self.queries[contexts[0]])

    def wrong_query(self, number: int, query: float) -> str | None:
        if query == self.states[number - 1]:
            return None
        if query not in self.states:
            return (
                f"In step {number} `attend` is asked with {show(query)}, which is no state of the "
                "decoder. The query is the state before the step."
            )
        if set(self.queries.values()) == {self.states[0]}:
            return (
                f"Step {number} gets the context that s_0 asked for, and so does every step: the "
                "decoder looks once. It has to look anew in each step, with its state of then."
            )
        return (
            f"Step {number} gets the context that s_{self.states.index(query)} asked for: the "
            f"query is one step late. Before step {number} the decoder's state is s_{number - 1}."
        )

    def wrong_order(self) -> str | None:
        """Where all went into the steps that should: was the context first?"""
        for number, (inputs, _) in enumerate(self.steps, start=1):
            if inputs[0, 0].item() in self.tokens:
                return (
                    f"Step {number} gets the input {show(inputs[0])}, token first. The cell's "
                    "weights are made for (context, token). Either way the two are equally long "
                    "together, so no error tells."
                )
        return None
