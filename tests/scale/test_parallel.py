"""Attention over two and three real processes equals one process."""

import re
import subprocess
import sys
from functools import cache

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.testing import assert_close

from d2l_attention import (
    AdditiveAttention,
    ALiBi,
    MultiHeadAttention,
    PositionWiseFFN,
    RotaryEncoding,
    causal_mask,
    dot_product_attention,
)
from d2l_attention.scale.parallel import (
    Check,
    LayerShape,
    __main__,
    bytes_per_layer,
    check_all,
    context,
    data_parallel_gradients,
    ring_attention,
    run_processes,
    share_batch,
    share_sequence,
    shared_token_mean,
    split_ffn_over,
    split_heads_over,
    squared_error,
)
from d2l_attention.variants import GroupedQueryAttention

# ---- what runs in the processes: as much as possible in one start -----------------------------


def everything():
    results = {"float32": check_all()}
    torch.set_default_dtype(torch.float64)
    results["float64"] = check_all()
    results |= {"errors": errors(), "data": data(), "sent": sent()}
    results |= {"ring": rings(), "halves": halves()}
    if dist.get_world_size() == 2:
        results |= {"heads": heads(), "talk": talk(), "groups": groups()}
        results["again"] = twice_the_gradients()
    return results


def mesh():
    return init_device_mesh("cpu", (dist.get_world_size(),))


def made(num_heads=4, **options):
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, num_heads, 0.0, **options)
    X = torch.randn(3, 7, 5)
    layer(X, X, X)
    return layer, X


OPTIONS = {
    "lens": {"valid_lens": torch.tensor([7, 2, 0])},
    "causal": {"is_causal": True},
    "mask": {"mask": causal_mask(7).T},
    "weights": {"need_weights": True},
}


def heads():
    """Outputs of a layer whose heads are split, and the weights of this process's heads."""
    layer, X = made(num_heads=6, positions=RotaryEncoding(2))
    split_heads_over(layer, mesh())
    results = {name: layer(X, X, X, **options) for name, options in OPTIONS.items()}
    results["read"] = layer.attention_weights
    return results


def groups():
    """Grouped-query attention split over the processes, against the whole layer; twice the same."""
    torch.manual_seed(0)
    layer, X = GroupedQueryAttention(12, 6, 2, 0.0), torch.randn(3, 7, 5)
    expected = layer(X, X, X, is_causal=True)
    output = split_heads_over(layer, mesh())(X, X, X, is_causal=True)
    return (output - expected).abs().max().item(), layer.num_kv_heads


class OnItself(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, X, valid_lens):
        return self.layer(X, X, X, valid_lens)


def twice_the_gradients():
    """Of one model and batch, one call after the other."""
    layer, X = made()
    targets, lens = torch.ones(3, 7, 12), torch.tensor([7, 2, 3])
    given = OnItself(layer), X, targets, lens, squared_error
    return [data_parallel_gradients(*given)[1]["layer.W_q.weight"].clone() for _ in range(2)]


def talk():
    """How many all-reduces each pass takes, by PyTorch's own count."""
    from torch.distributed.tensor.debug import CommDebugMode

    counts = {}
    layer, X = made()
    split_heads_over(layer, mesh())
    ffn = PositionWiseFFN(6, 5)
    ffn(X)
    split_ffn_over(ffn, mesh())
    for name, call in {"heads": lambda X: layer(X, X, X), "ffn": ffn}.items():
        X = X.detach().requires_grad_()
        with CommDebugMode() as forward:
            output = call(X)
        with CommDebugMode() as backward:
            output.sum().backward()
        counts[name] = forward.get_total_counts(), backward.get_total_counts()
    return counts


def message(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except (ValueError, TypeError, RuntimeError) as error:
        return str(error)


def twice():
    """The second derivative of the ring's output."""
    X = torch.randn(2, 3, requires_grad=True)
    ring_attention(X, X, X).sum().backward(create_graph=True)


def errors():
    odd, X = made(num_heads=1)
    additive = MultiHeadAttention(12, 6, 0.0, attention=AdditiveAttention(2, 0.0))
    additive(X, X, X)
    biased = made(num_heads=6, positions=ALiBi(6))[0]
    split_heads_over(biased, mesh())
    ffn = PositionWiseFFN(7, 5)
    ffn(X)
    grouped = GroupedQueryAttention(12, 6, 1, 0.0)
    grouped(X, X, X)
    few = torch.zeros(dist.get_world_size() - 1, 7, 5)
    return {
        "heads": message(split_heads_over, odd, mesh()),
        "lazy": message(split_heads_over, MultiHeadAttention(12, 6, 0.0), mesh()),
        "shared": message(split_heads_over, additive, mesh()),
        "per head": message(biased, X, X, X),
        "groups": message(split_heads_over, grouped, mesh()),
        "twice": message(twice),
        "ffn": message(split_ffn_over, ffn, mesh()),
        "causal": message(ring_attention, X[:, :3], X, X, is_causal=True),
        "ring": message(ring_attention, X, X[..., :3], X),
        "few": message(data_parallel_gradients, nn.Identity(), few, few, None, squared_error),
    }


def data():
    """Losses 1, 2, 3, ... with lengths that leave some tokens out; NaN in the padding."""
    losses = torch.arange(1.0, 11.0).reshape(5, 2).requires_grad_()
    lens = torch.tensor([2, 0, 1, 2, 0])
    padding = torch.arange(2) >= lens[:, None]
    mine = share_batch(losses.masked_fill(padding, torch.nan))
    loss = shared_token_mean(mine, share_batch(lens))
    loss.backward()
    assert shared_token_mean(mine.detach(), torch.zeros_like(share_batch(lens))) == 0
    return loss.item(), losses.grad, share_batch(torch.arange(5)).tolist()


def rings():
    """Queries, keys and values with no, one and two leading axes, in several dtypes."""
    differences = []
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        for leading in ((), (2,), (2, 3)):
            torch.manual_seed(0)
            whole = [torch.randn(*leading, 13, size).to(dtype) for size in (5, 5, 7)]
            output = ring_attention(*(share_sequence(X) for X in whole), is_causal=True)
            assert output.dtype == dtype
            expected = share_sequence(dot_product_attention(*whole, is_causal=True))
            differences.append((dtype, (output - expected).abs().max().item()))
    return differences


def halves():
    """Gradients of the ring in bfloat16, where scores are large: how far they are off, relative."""
    torch.manual_seed(0)
    whole = [(3 * torch.randn(128, 16)).bfloat16() for _ in range(3)]
    mine = [share_sequence(X).requires_grad_() for X in whole]
    found = torch.autograd.grad(ring_attention(*mine).sum(), mine)
    exact = [X.double().requires_grad_() for X in whole]
    gradients = torch.autograd.grad(dot_product_attention(*exact).sum(), exact)
    return [
        ((X - share_sequence(Y)).norm() / share_sequence(Y).norm()).item()
        for X, Y in zip(found, gradients, strict=True)
    ]


def sent():
    """Bytes that this process sends for the ring, forward and backward."""
    count = 0
    move = context.pass_on

    def counted(held, length):
        nonlocal count
        count += sum(X.nbytes for X in held)
        return move(held, length)

    context.pass_on = counted
    size = dist.get_world_size()
    X = torch.randn(2, 1, 5, 12, dtype=torch.float32, requires_grad=True)
    ring_attention(X, X, X).sum().backward()
    context.pass_on = move
    shape = LayerShape(12, 5 * size, batch_size=2)
    return count, bytes_per_layer(shape, size, bytes_per_number=4)["context"]


# ---- the tests --------------------------------------------------------------------------------


@cache
def team_of(size):
    """What each of so many processes reports."""
    return run_processes(everything, size, timeout=600)


@pytest.fixture(scope="module", params=[2, 3])
def team(request):
    return team_of(request.param)


@pytest.fixture(scope="module")
def pair():
    return team_of(2)


def test_every_way_of_sharing_equals_one_process(team):
    for report in team:
        assert len(report["float32"]) == 5
        assert all(check.passed for check in report["float32"]), report["float32"]
        for check in report["float64"]:
            assert max(check.outputs, check.gradients) < 1e-10, check


def test_a_check_fails_where_it_should():
    assert Check("", 1e-6, 1e-6).passed
    for pair in ((1e-4, 0.0), (0.0, 1e-4), (float("nan"), 0.0), (0.0, float("inf"))):
        assert not Check("", *pair).passed


def test_the_loss_is_the_mean_over_all_real_tokens(team):
    """Real are 1, 2, 5, 7, 8: mean 4.6, and each has a fifth of the gradient, whoever holds it."""
    size = len(team)
    means, gradients, rows = zip(*(report["data"] for report in team), strict=True)
    assert sum(means) / size == pytest.approx(23 / 5)
    expected = torch.tensor([[1, 1], [0, 0], [1, 0], [1, 1], [0, 0]]) / 5
    assert_close(sum(gradients) / size, expected.double())
    assert sorted(row for part in rows for row in part) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", OPTIONS)
def test_split_heads_take_every_option(pair, name):
    torch.set_default_dtype(torch.float64)
    try:
        layer, X = made(num_heads=6, positions=RotaryEncoding(2))
    finally:
        torch.set_default_dtype(torch.float32)
    expected = layer(X, X, X, **OPTIONS[name])
    outputs = [report["heads"][name] for report in pair]
    if name == "weights":
        expected, weights = expected
        outputs, parts = zip(*outputs, strict=True)
        assert [part.shape for part in parts] == [(3, 3, 7, 7)] * 2
        assert_close(torch.cat(parts, dim=1), weights)
        assert_close(torch.cat([report["heads"]["read"] for report in pair], dim=1), weights)
    for output in outputs:
        assert_close(output.detach() + 0, expected.detach(), atol=1e-10, rtol=0)


def test_grouped_heads_are_split_with_their_groups(pair):
    for report in pair:
        difference, num_kv_heads = report["groups"]
        assert difference < 1e-10 and num_kv_heads == 1


def test_a_second_call_adds_no_old_gradients(pair):
    for report in pair:
        once, again = report["again"]
        assert_close(again, once)
        assert once.abs().max() > 0


def test_what_tensor_parallel_sends(pair):
    """Megatron's two all-reduces for the network; for attention W_q, W_k and W_v have their own."""
    for report in pair:
        assert report["talk"] == {"heads": (1, 3), "ffn": (1, 1)}


def test_the_ring(team):
    """In every dtype, with any number of axes; its gradients; and it sends what paper says."""
    bound = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 0.05, torch.float16: 0.01}
    for report in team:
        for dtype, difference in report["ring"]:
            assert difference < bound[dtype], dtype
        assert max(report["halves"]) < 0.01, report["halves"]
        sent, expected = report["sent"]
        assert sent == expected > 0


def test_errors_are_named_on_every_process(team):
    size = len(team)
    expected = {
        "heads": f"the {size} processes must divide num_heads, got num_heads=1",
        "lazy": "call the layer once before it is split, it has no W_q.weight yet",
        "groups": f"the {size} processes must divide num_kv_heads, got num_kv_heads=1",
        "twice": "ring_attention has no second derivative: leave create_graph out",
        "shared": "all heads share parameters, got attention with W_k.weight, W_q.weight",
        "per head": f"bias of shape (6, 7, 7) does not fit scores of shape (3, {6 // size}, 7, 7)",
        "ffn": f"the {size} processes must divide ffn_num_hiddens, got ffn_num_hiddens=7",
        "causal": "is_causal needs as many queries as keys on each process",
        "ring": "queries and keys must have the same size",
        "few": f"each of {size} processes needs a sequence",
    }
    for report in team:
        for name, beginning in expected.items():
            assert (report["errors"][name] or "").startswith(beginning), report["errors"][name]


TABLE = r"(2 processes against one: .*\n.*outputs +gradients\n(.{34} +\S+ +\S+  equal\n){5})"


def test_the_command_line_under_torchrun():
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["-m", "d2l_attention.scale.parallel"]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=600)
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(TABLE, run.stdout), run.stdout


def test_the_command_line_starts_two_processes_itself(pair, monkeypatch, capsys):
    started = []

    def run(*given):
        started.append(given)
        return [report["float32"] for report in pair]

    monkeypatch.setattr(__main__, "run_processes", run)
    assert __main__.main() == 0
    assert started == [(check_all, 2)]
    assert re.fullmatch(TABLE, capsys.readouterr().out)
    failed = [Check("heads", 1.0, 0.0)]
    monkeypatch.setattr(__main__, "run_processes", lambda *_: [failed, failed])
    assert __main__.main() == 1
    assert "NOT EQUAL" in capsys.readouterr().out
