"""Wrong answers to 5.5, as students give them."""

import torch


def loop(attend, step, embedded, state, late=False, token_first=False, axis=1):
    """The given loop with some of its bugs."""
    context, outputs = attend(state), []
    for token in embedded.unbind(dim=1):
        parts = (token, context) if token_first else (context, token)
        before, state = state, step(torch.cat(parts, dim=-1), state)
        context = attend(before if late else state)
        outputs.append(state)
    return torch.stack(outputs, dim=axis)


def only_the_axis_mended(attend, step, embedded, state):
    return loop(attend, step, embedded, state, late=True, token_first=True)


def only_the_order_mended(attend, step, embedded, state):
    return loop(attend, step, embedded, state, late=True, axis=0)


def still_late(attend, step, embedded, state):
    return loop(attend, step, embedded, state, late=True)


def still_token_first(attend, step, embedded, state):
    return loop(attend, step, embedded, state, token_first=True)


def still_time_first(attend, step, embedded, state):
    return loop(attend, step, embedded, state, axis=0)


def one_look_for_all(attend, step, embedded, state):
    context, outputs = attend(state), []
    for token in embedded.unbind(dim=1):
        state = step(torch.cat((context, token), dim=-1), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


def query_never_moves_on(attend, step, embedded, state):
    query, outputs = state, []
    for token in embedded.unbind(dim=1):
        state = step(torch.cat((attend(query), token), dim=-1), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


def token_asks(attend, step, embedded, state):
    outputs = []
    for token in embedded.unbind(dim=1):
        state = step(torch.cat((attend(token), token), dim=-1), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


def state_lost(attend, step, embedded, state):
    outputs = []
    for token in embedded.unbind(dim=1):
        new_state = step(torch.cat((attend(state), token), dim=-1), state)
        outputs.append(new_state)
    return torch.stack(outputs, dim=1)


def tries_the_step_first(attend, step, embedded, state):
    """To ask with the state after the step."""
    context, outputs = attend(state), []
    for token in embedded.unbind(dim=1):
        after = step(torch.cat((context, token), dim=-1), state)
        context = attend(after)
        state = step(torch.cat((context, token), dim=-1), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


def one_below_the_other(attend, step, embedded, state):
    outputs = []
    for token in embedded.unbind(dim=1):
        state = step(torch.cat((attend(state), token)), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


def without_context(attend, step, embedded, state):
    outputs = []
    for token in embedded.unbind(dim=1):
        state = step(torch.cat((token, token), dim=-1), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


def one_token_late(attend, step, embedded, state):
    outputs = []
    for t in range(embedded.shape[1]):
        state = step(torch.cat((attend(state), embedded[:, t - 1]), dim=-1), state)
        outputs.append(state)
    return torch.stack(outputs, dim=1)


def keeps_the_states_before(attend, step, embedded, state):
    outputs = []
    for token in embedded.unbind(dim=1):
        outputs.append(state)
        state = step(torch.cat((attend(state), token), dim=-1), state)
    return torch.stack(outputs, dim=1)


def keeps_the_contexts(attend, step, embedded, state):
    outputs = []
    for token in embedded.unbind(dim=1):
        context = attend(state)
        state = step(torch.cat((context, token), dim=-1), state)
        outputs.append(context)
    return torch.stack(outputs, dim=1)


def last_state_only(attend, step, embedded, state):
    return loop(attend, step, embedded, state)[:, -1]


def joined_not_stacked(attend, step, embedded, state):
    return torch.cat(loop(attend, step, embedded, state).unbind(dim=1), dim=-1)


def one_sentence_only(attend, step, embedded, state):
    states = loop(attend, step, embedded, state)
    return states.reshape(1, -1, states.shape[-1])


def time_first_by_reshape(attend, step, embedded, state):
    states = loop(attend, step, embedded, state, axis=0)
    return states.reshape(*embedded.shape[:2], -1)


def outputs_as_a_list(attend, step, embedded, state):
    return list(loop(attend, step, embedded, state, axis=0))


def state_as_well(attend, step, embedded, state):
    states = loop(attend, step, embedded, state)
    return states, states[:, -1]
