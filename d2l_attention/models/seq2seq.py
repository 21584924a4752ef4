"""Encoder and decoders of the translation chapter: a GRU on each side (D2L 10.7 and 11.4).

Letters in the ``Shape`` lines: B batch, S source tokens, T target tokens, E embedding size,
H hidden size, L layers, N target vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from d2l_attention.attention.layers import AdditiveAttention
from d2l_attention.attention.masks import Visible, real_tokens, zero_rows
from d2l_attention.attention.projections import matrix_of
from d2l_attention.attention.scores import additive_score
from d2l_attention.models.checks import check_rows, check_some_tokens


def init_seq2seq(module: nn.Module) -> None:
    """Xavier-uniform weights for linear layers and GRUs, as in the book; small embeddings.

    PyTorch's embeddings have entries around 1, which drive a GRU's gates far into their flat ends
    before it has learned anything. On the course's corpus small ones gain 6 BLEU in 600 steps.
    """
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.3)
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
    if isinstance(module, nn.GRU):
        for name, parameter in module.named_parameters():
            if "weight" in name:
                nn.init.xavier_uniform_(parameter)


class Seq2SeqEncoder(nn.Module):
    """A GRU over the source tokens (D2L 10.7.2).

    Shape: X (B, S) token indices, valid_lens (B,) or None -> outputs (S, B, H), state
    (L, B, H). Time comes first, as in the book.

    With ``valid_lens`` the state is the one after each sentence's last word; without, after
    the padding, as in the book.

    ``bidirectional``: half of the H units read from left to right, the other half from right to
    left, so that a word's state knows both its neighbours. Source: Bahdanau et al. (2015),
    section 3.2.

    Errors: ``ValueError`` where ``num_hiddens`` is odd and ``bidirectional``; where X holds no
    token numbers or no token a sentence, or a length is negative, beyond S, or not one a sentence.
    ``TypeError`` for lengths that are no integers.
    """

    def __init__(
        self,
        vocab_size: int,
        embed_size: int,
        num_hiddens: int,
        num_layers: int,
        dropout: float = 0,
        *,
        bidirectional: bool = False,
    ):
        super().__init__()
        if bidirectional and num_hiddens % 2:
            raise ValueError(
                f"num_hiddens must be even for two directions of equal size, got {num_hiddens}"
            )
        self.embedding = nn.Embedding(vocab_size, embed_size)
        units = num_hiddens // 2 if bidirectional else num_hiddens  # in each direction
        self.rnn = nn.GRU(
            embed_size, units, num_layers, dropout=dropout, bidirectional=bidirectional
        )
        self.apply(init_seq2seq)

    def forward(self, X: Tensor, valid_lens: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check_some_tokens("X", X)
        embedded = self.embedding(X.T)  # (S, B, E)
        if valid_lens is not None:
            real_tokens(valid_lens, X.shape)  # raises where they do not fit
        if valid_lens is None or len(X) == 0:  # PyTorch packs no empty batch
            outputs, state = self.rnn(embedded)
            return outputs, self.join_directions(state)
        # A sentence of length 0 still takes one step: a GRU cannot take none. The upper bound is
        # for an accelerator, where nobody has read the lengths.
        embedded = embedded.masked_fill((valid_lens == 0)[:, None], 0.0)
        steps = valid_lens.long().clamp(1, len(embedded)).cpu()
        packed = pack_padded_sequence(embedded, steps, enforce_sorted=False)
        outputs, state = self.rnn(packed)
        outputs = pad_packed_sequence(outputs, total_length=len(embedded))[0]
        return outputs, self.join_directions(state)

    def join_directions(self, state: Tensor) -> Tensor:
        """(L * directions, B, units) -> (L, B, H): a layer's last states side by side."""
        return torch.cat(state.unflatten(0, (self.rnn.num_layers, -1)).unbind(dim=1), dim=-1)


class Seq2SeqDecoder(nn.Module):
    """The decoder without attention: all it knows of the source is one vector (D2L 10.7.3).

    Shape: X (B, T) token indices, state from ``init_state`` -> logits (B, T, N), new state.

    Errors: ``ValueError`` where X holds no token numbers, no token a sentence or another number of
    sentences than the state, or the encoder has other sizes.
    """

    def __init__(
        self,
        vocab_size: int,
        embed_size: int,
        num_hiddens: int,
        num_layers: int,
        dropout: float = 0,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size + num_hiddens, num_hiddens, num_layers, dropout=dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)
        self.apply(init_seq2seq)

    def init_state(self, enc_outputs: tuple[Tensor, Tensor], enc_valid_lens: Tensor | None = None):
        """The encoder's last state, twice: as what never changes, and to start from."""
        _, hidden_state = check_encoded(enc_outputs, self.rnn)
        return [hidden_state[-1], hidden_state]

    def forward(self, X: Tensor, state: list) -> tuple[Tensor, list]:
        context, hidden_state = state
        check_some_tokens("X", X)
        check_rows(X, len(context))
        embedded = self.embedding(X.T)  # (T, B, E)
        context_each_step = context.expand(len(embedded), -1, -1)
        outputs, hidden_state = self.rnn(
            torch.cat((embedded, context_each_step), dim=-1), hidden_state
        )
        return self.dense(outputs).transpose(0, 1), [context, hidden_state]

    def select(self, state: list, index: Tensor) -> list:
        """The state of these sentences of the batch, in this order."""
        context, hidden_state = state
        return [context[index], hidden_state[:, index]]


class Seq2SeqAttentionDecoder(nn.Module):
    """Bahdanau's decoder: at each step it looks at all encoder states anew (D2L 11.4).

    The query is the decoder's state before the step; keys and values are the encoder's
    states. Shape: X (B, T) token indices, state from ``init_state`` -> logits (B, T, N), new
    state; with ``need_weights`` also weights (B, T, S), with gradient. ``attention_weights`` is the
    same memory: who changes the one in place changes the other.

    Neither ``rnn`` nor ``attention`` is called: the GRU's parameters are read, and the attention's
    projections and dropout are called. Hooks on the two, such as those of ``torch.nn.utils.prune``,
    do not run, nor does what a subclass of them does; parametrizations do. A GRU that
    ``quantize_dynamic`` made has no such parameters, an ``AttributeError``: quantise the linear
    layers, ``{nn.Linear}``.

    Same parameters and outputs as the book's loop over ``AdditiveAttention`` and ``nn.GRU``,
    with less work: keys are projected once a sentence, tokens once for all steps.

    Errors: those of ``Seq2SeqDecoder``; ``TypeError`` or ``ValueError`` for lengths that are not
    one integer a sentence, from 0 to S.

    Source: Bahdanau et al. (2015), appendix A.
    """

    def __init__(
        self,
        vocab_size: int,
        embed_size: int,
        num_hiddens: int,
        num_layers: int,
        dropout: float = 0,
    ):
        super().__init__()
        self.attention = AdditiveAttention(num_hiddens, dropout)
        self.attention.W_q = nn.Linear(num_hiddens, num_hiddens, bias=False)
        self.attention.W_k = nn.Linear(num_hiddens, num_hiddens, bias=False)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size + num_hiddens, num_hiddens, num_layers, dropout=dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)
        self.apply(init_seq2seq)
        self._weights: Tensor | None = None

    def init_state(self, enc_outputs: tuple[Tensor, Tensor], enc_valid_lens: Tensor | None = None):
        """[encoder states (B, S, H), hidden state (L, B, H), lengths, projected keys, mask]."""
        outputs, hidden_state = check_encoded(enc_outputs, self.rnn)
        values, mask = outputs.transpose(0, 1), None
        if enc_valid_lens is not None:
            real = real_tokens(enc_valid_lens, values.shape[:2])  # (B, S)
            values, mask = zero_rows(values, real), real[:, None]  # (B, 1, S)
        return [values, hidden_state, enc_valid_lens, self.attention.W_k(values), mask]

    def forward(self, X: Tensor, state: list, *, need_weights: bool = False):
        values, hidden_state, enc_valid_lens, keys, mask = state
        check_some_tokens("X", X)
        check_rows(X, len(values))
        num_hiddens = values.shape[-1]
        visible = Visible() if mask is None else Visible.by_mask(mask)
        # The first layer's input is (context, token): its weights for the token part serve
        # all steps in one product; the context part has to wait for each step.
        W_ih, b_ih = (getattr(self.rnn, f"{part}_ih_l0") for part in ("weight", "bias"))
        W_context, W_token = W_ih.split([num_hiddens, self.embedding.embedding_dim], dim=1)
        gates = F.linear(self.embedding(X), W_token, b_ih)  # (B, T, 3H)
        layers = list(hidden_state)
        outputs, looks = [], []
        for token_gates in gates.unbind(dim=1):
            context, weight = self.attend(layers[-1], keys, values, visible)
            outputs.append(self.rnn_step(token_gates + F.linear(context, W_context), layers))
            looks.append(weight)
        weights = torch.cat(looks, dim=1)  # (B, T, S)
        self._weights = weights.detach()
        logits = self.dense(torch.stack(outputs, dim=1))
        state = [values, torch.stack(layers), enc_valid_lens, keys, mask]
        return (logits, state, weights) if need_weights else (logits, state)

    def attend(
        self, hidden: Tensor, keys: Tensor, values: Tensor, visible: Visible
    ) -> tuple[Tensor, Tensor]:
        """One look at the source: context (B, H) and its weights (B, 1, S)."""
        query = self.attention.W_q(hidden)[:, None]
        scores = additive_score(query, keys, matrix_of(self.attention.w_v, query)[0])
        weights = visible.softmax(scores)
        return (self.attention.dropout(weights) @ values)[:, 0], weights

    def rnn_step(self, gates: Tensor, layers: list[Tensor]) -> Tensor:
        """One step of the GRU, all layers; ``layers`` holds their states and is brought up
        to date. ``gates`` is what the first layer's input contributes, (B, 3H)."""
        for number, hidden in enumerate(layers):
            W_hh, b_hh = (getattr(self.rnn, f"{part}_hh_l{number}") for part in ("weight", "bias"))
            if number > 0:
                below = F.dropout(layers[number - 1], self.rnn.dropout, self.rnn.training)
                W_ih, b_ih = (
                    getattr(self.rnn, f"{part}_ih_l{number}") for part in ("weight", "bias")
                )
                gates = F.linear(below, W_ih, b_ih)
            layers[number] = gru_cell(gates, F.linear(hidden, W_hh, b_hh), hidden)
        return layers[-1]

    def select(self, state: list, index: Tensor) -> list:
        """The state of these sentences of the batch, in this order."""
        values, hidden_state, *rest = state
        rest = [None if part is None else part[index] for part in rest]
        return [values[index], hidden_state[:, index], *rest]

    @property
    def attention_weights(self) -> Tensor:
        """Weights of the last forward pass, (B, T, S), before dropout, without gradient."""
        if self._weights is None:
            raise AttributeError("attention_weights")  # none yet, as in the book
        return self._weights

    def __getstate__(self) -> dict:
        """Copies and pickles hold the decoder, not the last batch it saw."""
        return self.__dict__ | {"_weights": None}


def check_encoded(enc_outputs: tuple[Tensor, Tensor], rnn: nn.GRU) -> tuple[Tensor, Tensor]:
    """The encoder's outputs (S, B, H) and state (L, B, H), if the decoder's ``rnn`` fits them.

    A state of fewer layers would otherwise switch the decoder's upper ones off.
    """
    parts = enc_outputs if isinstance(enc_outputs, tuple | list) else [enc_outputs]
    shapes = [tuple(part.shape) for part in parts]
    fits = len(shapes) == 2 and all(len(shape) == 3 for shape in shapes)
    if not fits or shapes[1] != (rnn.num_layers, shapes[0][1], rnn.hidden_size):
        raise ValueError(
            f"enc_outputs must be outputs (S, B, {rnn.hidden_size}) and state "
            f"({rnn.num_layers}, B, {rnn.hidden_size}), got {' and '.join(map(str, shapes))}"
        )
    return enc_outputs


def gru_cell(from_input: Tensor, from_hidden: Tensor, hidden: Tensor) -> Tensor:
    """One step of a GRU, in PyTorch's form, from its gates' two contributions.

    Shape: from_input (B, 3H), from_hidden (B, 3H), hidden (B, H) -> (B, H).
    Source: Cho et al. (2014); the documentation of ``torch.nn.GRU``.
    """
    input_r, input_z, input_n = from_input.chunk(3, dim=-1)
    hidden_r, hidden_z, hidden_n = from_hidden.chunk(3, dim=-1)
    reset = torch.sigmoid(input_r + hidden_r)
    update = torch.sigmoid(input_z + hidden_z)
    new = torch.tanh(input_n + reset * hidden_n)
    # Under mixed precision the gates are half as wide as the state.
    return torch.lerp(new.to(hidden.dtype), hidden, update.to(hidden.dtype))
