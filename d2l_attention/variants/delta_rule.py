"""The delta rule: linear attention that erases what a key said before it writes anew.

Plain linear attention only ever adds to its state. Here the state is asked first: what it answers
to the new key is taken out, as far as ``beta`` says, and the new value is put in its place.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.checks import check_floats, check_heads, check_shape
from d2l_attention.attention.masks import check_attention_inputs, real_tokens, zero_rows
from d2l_attention.attention.projections import LazyLinear
from d2l_attention.variants.linear import no_autocast

CHUNK = 32  # tokens: few enough for a triangular system, many enough for matrix products


def delta_rule_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    decay: Tensor | None = None,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One token: fade the state, replace what it holds under ``key``, answer ``query``.

    S <- a S;  S <- S + beta k (v - k S);  output q S. With a key of length 1 and ``beta`` = 1 the
    state answers exactly v to k afterwards.

    Shape: query (*, D), key (*, D), value (*, V), beta (*,) from 0 to 1, decay a (*,) from 0 to 1
    or ``None`` for 1, state (*, D, V), ``None`` at the first token -> output (*, V), next state. In
    half precision the state is of single precision.

    Errors: ``ValueError`` for a gate or a state of another shape.

    Source: Schlag et al. (2021), section 4.2; Yang et al. (2025), Gated Delta Networks, eq. 10.
    """
    check_attention_inputs(*(X[..., None, :] for X in (query, key, value)), same_size=True)
    for gate in (beta,) if decay is None else (beta, decay):
        check_shape(gate, key.shape[:-1])
    dtype, wide = value.dtype, torch.promote_types(value.dtype, torch.float32)
    query, key, value, beta = (X.to(wide) for X in (query, key, value, beta))
    state = _state_for(key, value, state)
    if decay is not None:
        state = decay.to(wide)[..., None, None] * state
    known = (key[..., :, None] * state).sum(dim=-2)  # (*, V): what the state says of this key
    state = state + key[..., :, None] * (beta[..., None] * (value - known))[..., None, :]
    return (query[..., :, None] * state).sum(dim=-2).to(dtype), state


def _state_for(key: Tensor, value: Tensor, state: Tensor | None) -> Tensor:
    """The state before tokens with keys (*, D) and values (*, V): (*, D, V), zeros at the first.

    Errors: ``ValueError`` for a state of another shape.
    """
    shape = *key.shape, value.shape[-1]
    if state is None:
        return key.new_zeros(shape)
    check_shape(state, shape)
    return state.to(key.dtype)


def delta_rule(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    beta: Tensor,
    decay: Tensor | None = None,
    valid_lens: Tensor | None = None,
    *,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``delta_rule_step`` for all tokens, a chunk at a time: the same numbers by matrix products.

    Within a chunk token t writes u_t = beta_t (v_t - what the state says of k_t), and that depends
    on all u before it: a triangular system of equations, solved at once.

    Shape: queries (*, n, D), keys (*, n, D), values (*, n, V), beta (*, n), decay (*, n) or
    ``None``, valid_lens (B,), state (*, D, V) or ``None`` -> output (*, n, V) and the last state.
    It is causal. Tokens beyond ``valid_lens`` change nothing, and get 0. In half precision the
    state is of single precision; give ``decay`` in it, too: in bfloat16 0.999 is 1.

    Errors: ``ValueError`` for shapes that do not fit, ``TypeError`` for what holds no floats.

    Source: Yang et al. (2024), Parallelizing Linear Transformers with the Delta Rule, section 3;
    Yang et al. (2025), Gated Delta Networks, section 3.3, for the decay.
    """
    check_attention_inputs(queries, keys, values, same_size=True)
    check_floats("beta", beta)
    check_shape(beta, keys.shape[:-1])
    decay = torch.ones_like(beta) if decay is None else decay
    check_floats("decay", decay)
    check_shape(decay, keys.shape[:-1])
    if queries.shape != keys.shape:
        raise ValueError(
            "queries and keys must be of the same tokens, "
            f"got queries {tuple(queries.shape)} and keys {tuple(keys.shape)}"
        )
    if valid_lens is not None:
        real = real_tokens(valid_lens, keys.shape[:-1])  # (B, 1, ..., n)
        queries, keys, values = (zero_rows(X, real) for X in (queries, keys, values))
        beta, decay = beta.masked_fill(~real, 0.0), decay.masked_fill(~real, 1.0)
    # At least float32, mixed precision or not: a state adds up many small numbers.
    dtype = values.dtype
    wide = torch.promote_types(dtype, torch.float32)
    queries, keys, values, beta, decay = (X.to(wide) for X in (queries, keys, values, beta, decay))
    first = keys.new_empty(*keys.shape[:-2], keys.shape[-1])
    state = _state_for(first, values, state)
    outputs = []
    with no_autocast(keys.device):
        for start in range(0, keys.shape[-2], CHUNK):
            tokens = slice(start, start + CHUNK)
            output, state = _chunk(
                *(X[..., tokens, :] for X in (queries, keys, values)),
                beta[..., tokens],
                decay[..., tokens],
                state,
            )
            outputs.append(output)
    return torch.cat(outputs or [values], dim=-2).to(dtype), state


def _chunk(
    queries: Tensor, keys: Tensor, values: Tensor, beta: Tensor, decay: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """The output of C tokens and the state behind them. Shape: as ``delta_rule``, n = C."""
    # faded[t, i]: the share of token i's write that is left at token t, the product of the decays
    # i + 1 to t. It is multiplied up, because a decay may be 0 and cannot be divided by.
    size = decay.shape[-1]
    behind = torch.ones(size, size, dtype=torch.bool, device=decay.device).tril(-1)  # t > i
    faded = decay[..., :, None].where(behind, 1.0).cumprod(dim=-2).tril()  # (*, C, C)
    start = decay.cumprod(dim=-1)[..., None]  # (*, C, 1): what is left of the state before
    system = beta[..., None] * (keys @ keys.mT) * faded  # (*, C, C)
    wanted = beta[..., None] * (values - start * (keys @ state))
    # Row t: written_t + sum_(i < t) system_ti written_i = wanted_t; the diagonal is not read.
    written = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    output = start * (queries @ state) + ((queries @ keys.mT) * faded) @ written
    state = start[..., -1:, :] * state + (keys * faded[..., -1, :, None]).mT @ written
    return output, state


def unit_rows(Y: Tensor) -> Tensor:
    """Each row divided by its length, and a row of zeros by 1e-4. Shape: (*, D) -> the same.

    ``F.normalize`` does the same, but its second derivative at a row of zeros is NaN.
    """
    wide = torch.promote_types(Y.dtype, torch.float32)  # in half precision 1e-8 would be 0
    squares = Y.to(wide).square().sum(dim=-1, keepdim=True)
    return Y * squares.clamp_min(1e-8).rsqrt().to(Y.dtype)


class GatedDeltaNet(nn.Module):
    """A layer of the gated delta rule: causal self-attention with a state of fixed size.

    Each head has its state (D / H, D / H). Keys and queries are brought to length 1; ``beta``,
    ``decay`` and a gate on the output come from the token. The paper's short convolutions before
    queries, keys and values are left out.

    Shape: X (B, n, any size), valid_lens (B,), state (B, H, D / H, D / H) or ``None``
    -> (B, n, num_hiddens); with ``need_state`` a pair, the second the last state.

    Errors: ``ValueError`` unless ``num_heads`` divides ``num_hiddens``.

    Source: Yang et al. (2025), Gated Delta Networks, section 3.
    """

    def __init__(self, num_hiddens: int, num_heads: int):
        super().__init__()
        check_heads(num_hiddens, num_heads)
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_gate = (
            LazyLinear(num_hiddens, bias=False) for _ in range(4)
        )
        self.W_beta = LazyLinear(num_heads)
        self.W_decay = LazyLinear(num_heads)
        self.norm = nn.RMSNorm(num_hiddens // num_heads)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=False)

    def forward(
        self,
        X: Tensor,
        valid_lens: Tensor | None = None,
        *,
        state: Tensor | None = None,
        need_state: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_floats("X", X)
        if valid_lens is not None:
            X = zero_rows(X, real_tokens(valid_lens, X.shape[:2]))
        queries, keys, values, gate = (
            self.split_heads(W(X)) for W in (self.W_q, self.W_k, self.W_v, self.W_gate)
        )  # (B, H, n, D / H)
        queries, keys = (unit_rows(F.silu(Y)) for Y in (queries, keys))
        # In bfloat16 a decay of 0.999 would be 1, and the state would never fade.
        wide = torch.promote_types(X.dtype, torch.float32)
        beta = self.W_beta(X).to(wide).sigmoid().mT  # (B, H, n)
        decay = (-F.softplus(self.W_decay(X).to(wide))).exp().mT
        output, state = delta_rule(queries, keys, values, beta, decay, valid_lens, state=state)
        # The norm in the precision of its weights, mixed precision or not.
        output = self.norm(output.to(self.norm.weight.dtype)) * F.silu(gate)
        output = self.W_o(output.transpose(1, 2).flatten(2))  # (B, n, D)
        return (output, state) if need_state else output

    def split_heads(self, X: Tensor) -> Tensor:
        """(B, n, D) -> (B, H, n, D / H)."""
        return X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
