import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from d2l_attention.variants import linear_attention
from d2l_attention.variants.delta_rule import CHUNK, GatedDeltaNet, delta_rule, delta_rule_step

B, H, D, V = 2, 3, 5, 7
LENGTHS = [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3]


def inputs(n, seed=0, grad=False):
    g = torch.Generator().manual_seed(seed)
    draw = dict(generator=g, dtype=torch.float64)
    queries, keys = (F.normalize(torch.randn(B, H, n, D, **draw), dim=-1) for _ in range(2))
    values = torch.randn(B, H, n, V, **draw)
    beta, decay = torch.rand(B, H, n, **draw), torch.rand(B, H, n, **draw)
    given = [queries, keys, values, beta, decay]
    return [X.requires_grad_() for X in given] if grad else given


def token_by_token(queries, keys, values, beta, decay=None, state=None):
    outputs = []
    for t in range(keys.shape[-2]):
        fades = None if decay is None else decay[..., t]
        output, state = delta_rule_step(
            queries[..., t, :], keys[..., t, :], values[..., t, :], beta[..., t], fades, state
        )
        outputs.append(output)
    return torch.stack(outputs, dim=-2), state


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("fades", [False, True], ids=["kept", "decay"])
def test_chunks_are_the_recurrence(n, fades):
    given = inputs(n) if fades else inputs(n)[:-1]
    for mine, expected in zip(delta_rule(*given), token_by_token(*given), strict=True):
        assert_close(mine, expected, atol=1e-10, rtol=1e-10)


def test_one_token_by_hand():
    """Keys of length 1 and beta 1: the second value takes the first one's place."""
    key, one = torch.tensor([0.6, 0.8]), torch.tensor(1.0)
    _, state = delta_rule_step(key, key, torch.tensor([10.0]), one)
    assert state.flatten().tolist() == pytest.approx([6, 8])
    output, state = delta_rule_step(key, key, torch.tensor([20.0]), one, state=state)
    assert output.item() == pytest.approx(20)  # linear attention would say 30
    output, _ = delta_rule_step(key, key, torch.tensor([0.0]), torch.tensor(0.25), state=state)
    assert output.item() == pytest.approx(15)
    output, _ = delta_rule_step(
        key, key, torch.tensor([0.0]), torch.tensor(0.0), torch.tensor(0.5), state
    )
    assert output.item() == pytest.approx(10)


def test_orthogonal_keys_are_linear_attention_without_its_division():
    keys = torch.eye(D, dtype=torch.float64)
    queries, values = torch.rand(D, D).double(), torch.rand(D, V).double()
    output, _ = delta_rule(queries, keys, values, torch.ones(D).double())
    expected, weights = linear_attention(
        queries, keys, values, is_causal=True, feature_map=lambda X: X, need_weights=True
    )
    sums = (queries @ keys.mT).tril().sum(-1, keepdim=True)
    assert_close(output, expected * sums)


@pytest.mark.parametrize("cut", [1, CHUNK, CHUNK + 2])
def test_goes_on_where_it_stopped(cut):
    given = inputs(2 * CHUNK + 3)
    whole, last = delta_rule(*given)
    first = [X[:, :, :cut] for X in given]
    second = [X[:, :, cut:] for X in given]
    begun, state = delta_rule(*first)
    ended, state = delta_rule(*second, state=state)
    assert_close(torch.cat((begun, ended), dim=-2), whole)
    assert_close(state, last)


def test_padding_changes_nothing_even_if_it_is_not_a_number():
    n, lens = CHUNK + 5, torch.tensor([CHUNK + 2, 0])
    given = inputs(n, grad=True)
    dirty = [X.detach().clone() for X in given]
    for X in dirty:
        for row, length in zip(X, lens, strict=True):
            row[:, length:] = torch.nan
    dirty = [X.requires_grad_() for X in dirty]
    output, state = delta_rule(*dirty, valid_lens=lens)
    expected, last = delta_rule(*(X[:1, :, : lens[0]] for X in given))
    assert_close(output[:1, :, : lens[0]], expected)
    assert_close(state[:1], last)
    assert not output[0, :, lens[0] :].any() and not output[1].any() and not state[1].any()
    for X, gradient in zip(dirty, torch.autograd.grad(output.sum(), dirty), strict=True):
        assert torch.isfinite(gradient).all(), X.shape
        assert not gradient[1].any()


def test_a_decay_of_zero_forgets_everything():
    given = inputs(9)
    given[-1][:, :, 4] = 0.0
    output, _ = delta_rule(*given)
    afresh, _ = delta_rule(*(X[:, :, 4:] for X in given))
    assert torch.isfinite(output).all()
    assert_close(output[:, :, 4:], afresh)


@pytest.mark.parametrize("small", [0.0, 1e-30, 1e-6])
def test_small_decays_lose_no_digits_and_no_gradient(small):
    given = inputs(CHUNK + 5, grad=True)
    with torch.no_grad():
        given[-1][:, :, ::3] = small
    mine, expected = (rule(*given)[0] for rule in (delta_rule, token_by_token))
    assert_close(mine, expected, atol=1e-12, rtol=1e-12)
    mine, expected = (torch.autograd.grad(Y.square().sum(), given) for Y in (mine, expected))
    assert_close(mine, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_a_state_of_single_precision(dtype):
    given = [X.to(dtype) for X in inputs(CHUNK + 5)]
    output, state = delta_rule(*given)
    expected, _ = delta_rule(*(X.double() for X in given))
    assert output.dtype == dtype and state.dtype == torch.float32
    assert_close(output, expected.to(dtype))  # rounded once, at the end
    layer, X = GatedDeltaNet(12, 3), torch.randn(B, 9, 12)
    whole = layer(X)
    with torch.autocast("cpu", dtype):
        assert_close(layer(X).float(), whole, atol=0.02, rtol=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({3: torch.ones(B, H, 4)}, r"expected a tensor of shape \(2, 3, 9\), got \(2, 3, 4\)"),
        ({4: torch.ones(B, 1, 9)}, r"expected a tensor of shape \(2, 3, 9\), got \(2, 1, 9\)"),
        ({0: torch.ones(B, H, 8, D)}, r"of the same tokens, got queries \(2, 3, 8, 5\)"),
        ({1: torch.ones(B, H, 9, 4)}, "same size"),
    ],
    ids=["beta", "decay", "tokens", "size"],
)
def test_errors(change, words):
    given = inputs(9)
    for index, tensor in change.items():
        given[index] = tensor
    with pytest.raises(ValueError, match=words):
        delta_rule(*given)
    with pytest.raises(TypeError, match="beta must be a tensor of floats"):
        delta_rule(*inputs(9)[:3], torch.ones(B, H, 9, dtype=torch.int64))
    with pytest.raises(TypeError, match="decay must be a tensor of floats"):
        delta_rule(*inputs(9)[:4], torch.ones(B, H, 9, dtype=torch.int64))


@pytest.mark.parametrize("lens", [torch.ones(B, 9).long(), torch.tensor([4])], ids=["query", "one"])
def test_lengths_are_one_a_sequence(lens):
    with pytest.raises(ValueError, match=r"valid_lens must have shape \(2,\), one length a seq"):
        delta_rule(*inputs(9), lens)
    with pytest.raises(ValueError, match=r"valid_lens must have shape \(2,\), one length a seq"):
        GatedDeltaNet(12, 3)(torch.randn(B, 9, 12), lens)


def test_no_sequences_and_a_device_without_mixed_precision():
    nobody = delta_rule(*(X[:0] for X in inputs(9)), torch.zeros(0, dtype=torch.long))[0]
    assert nobody.shape == (0, H, 9, V)
    with torch.device("meta"):
        assert GatedDeltaNet(12, 3)(torch.randn(B, 9, 12)).shape == (B, 9, 12)


class TestGatedDeltaNet:
    def layer(self):
        torch.manual_seed(0)
        layer = GatedDeltaNet(12, 3).double()
        X = torch.randn(B, CHUNK + 5, 11, dtype=torch.float64)
        layer(X)
        return layer, X

    def test_token_by_token_with_its_state(self):
        layer, X = self.layer()
        state, outputs = None, []
        for t in range(X.shape[1]):
            output, state = layer(X[:, t : t + 1], state=state, need_state=True)
            outputs.append(output)
        assert_close(torch.cat(outputs, dim=1), layer(X))
        assert state.shape == (B, 3, 4, 4)

    def test_every_parameter_learns(self):
        layer, X = self.layer()
        layer(X).square().sum().backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in layer.parameters())

    def test_half_precision_forgets_slowly_too(self):
        """In bfloat16 a decay of 0.999 would be 1."""
        layer, X = self.layer()
        for gate, start in ((layer.W_decay, -7.0), (layer.W_beta, -3.0)):
            torch.nn.init.zeros_(gate.weight)
            torch.nn.init.constant_(gate.bias, start)
        X = X.repeat(1, 20, 1)
        expected = layer(X, need_state=True)[1].float()
        with torch.autocast("cpu", torch.bfloat16):
            mixed = layer.float()(X.float(), need_state=True)[1]
        half = layer.bfloat16()(X.bfloat16(), need_state=True)[1]
        for state in (mixed, half):
            assert (state - expected).norm() < 0.03 * expected.norm()

    def test_heads_divide_the_size(self):
        with pytest.raises(ValueError, match="num_heads must divide num_hiddens"):
            GatedDeltaNet(10, 3)
