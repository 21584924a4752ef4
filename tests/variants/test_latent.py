import pytest
import torch
from torch.testing import assert_close

from d2l_attention import KeyValueCache, MultiHeadAttention, RotaryEncoding
from d2l_attention.variants.latent import MultiHeadLatentAttention

B, H, N, SIZE, HEAD, LATENT, ROTARY, HIDDEN = 2, 3, 5, 11, 7, 13, 4, 17
LENS = {"none": None, "padded": torch.tensor([4, 0]), "per query": torch.randint(0, N + 1, (B, N))}
MASKS = {"none": None, "one": torch.rand(N, N) < 0.6, "per head": torch.rand(B, H, N, N) < 0.5}


def layer(**options):
    torch.manual_seed(0)
    made = MultiHeadLatentAttention(HIDDEN, H, HEAD, LATENT, ROTARY, **options).double()
    X = torch.randn(B, N, SIZE, dtype=torch.float64, requires_grad=True)
    made(X)
    return made, X


@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_absorbed_is_explicit(lens, mask, is_causal):
    made, X = layer()
    options = dict(valid_lens=lens, mask=mask, is_causal=is_causal, need_weights=True)
    (output, weights), (expected, same) = (made(X, **options, absorbed=yes) for yes in (1, 0))
    assert_close(output, expected)
    assert_close(weights, same)
    options.pop("need_weights")
    quiet = made(X, **options, absorbed=True)
    assert_close(quiet, expected)
    assert_close(made.attention_weights, weights.detach())
    given = (X, *made.parameters())
    for one, other in zip(
        torch.autograd.grad(quiet.square().sum(), given),
        torch.autograd.grad(expected.square().sum(), given),
        strict=True,
    ):
        assert_close(one, other)


def test_without_squeezing_and_positions_it_is_multi_head_attention():
    """A latent as wide as the token, W_down = 1, no rotary part: chapter 6's layer."""
    torch.manual_seed(0)
    made = MultiHeadLatentAttention(12, H, 4, SIZE, 2).double()
    plain = MultiHeadAttention(12, H, 0.0).double()
    X = torch.randn(B, N, SIZE, dtype=torch.float64)
    made(X), plain(X, X, X)
    made.W_down.weight.data = torch.eye(SIZE, dtype=torch.float64)
    made.W_kr.weight.data.zero_()
    # The scores are divided by the root of 4 + 2 numbers instead of 4.
    queries = made.W_q.weight.data.unflatten(0, (H, 6))[:, :4] * (4 / 6) ** 0.5
    weights = queries.flatten(0, 1), made.W_uk.weight, made.W_uv.weight, made.W_o.weight
    for name, weight in zip(("W_q", "W_k", "W_v", "W_o"), weights, strict=True):
        getattr(plain, name).weight.data = weight.data
    lens = torch.tensor([4, 5])
    assert_close(made(X, lens, is_causal=True), plain(X, X, X, lens, is_causal=True))


def test_scores_by_the_formula():
    made, X = layer()
    _, weights = made(X, need_weights=True)
    rotary = RotaryEncoding(ROTARY)
    queries = made.W_q(X).unflatten(-1, (H, HEAD + ROTARY)).transpose(1, 2)
    keys = made.W_uk(made.W_down(X)).unflatten(-1, (H, HEAD)).transpose(1, 2)
    turned = rotary.transform(queries[..., HEAD:]) @ rotary.transform(made.W_kr(X)[:, None]).mT
    scores = (queries[..., :HEAD] @ keys.mT + turned) / (HEAD + ROTARY) ** 0.5
    assert_close(weights, scores.softmax(-1))


@pytest.mark.parametrize("absorbed", [False, True], ids=["explicit", "absorbed"])
def test_token_by_token_with_a_cache_of_latents(absorbed):
    made, X = layer()
    whole, cache = made(X, is_causal=True), KeyValueCache()
    steps = [made(x, is_causal=True, cache=cache, absorbed=absorbed) for x in X.split([2, 1, 2], 1)]
    assert_close(torch.cat(steps, dim=1), whole)
    assert cache.keys.shape == (B, 1, N, ROTARY) and cache.values.shape == (B, 1, N, LATENT)


@pytest.mark.parametrize("absorbed", [False, True], ids=["explicit", "absorbed"])
def test_padding_in_a_cache_reaches_no_output(absorbed):
    made, X = layer()
    lens, dirty = torch.tensor([3, 4]), X.detach().clone()
    dirty[0, 3:], dirty[1, 4:] = torch.nan, torch.nan
    output = made(dirty, lens, is_causal=True, cache=KeyValueCache(), absorbed=absorbed)
    assert_close(output[0, :3], made(X, lens, is_causal=True)[0, :3])


def test_a_call_that_fails_leaves_the_cache_as_it_was():
    made, X = layer()
    cache = KeyValueCache()
    made(X[:, :3], is_causal=True, cache=cache)
    for error, options in (
        (ValueError, {"valid_lens": torch.tensor([5, 1])}),
        (ValueError, {"mask": torch.ones(3, 3) > 0}),
        (TypeError, {"mask": torch.ones(1, 4)}),
        (TypeError, {"mask": [[True] * 4]}),
    ):
        with pytest.raises(error, match="valid_lens|mask"):
            made(X[:, 3:4], cache=cache, **options)
        assert len(cache) == 3
    last = made(X[:, 3:4], is_causal=True, cache=cache)
    assert_close(last, made(X[:, :4], is_causal=True)[:, 3:])


def test_errors():
    with pytest.raises(ValueError, match="head_size must be even"):
        MultiHeadLatentAttention(HIDDEN, H, HEAD, LATENT, 3)
    with pytest.raises(ValueError, match="latent_size must be a whole number"):
        MultiHeadLatentAttention(HIDDEN, H, HEAD, 0, ROTARY)
    with pytest.raises(ValueError, match=r"X must have shape \(B, n, size\)"):
        layer()[0](torch.ones(1, B, N, SIZE).double())
