"""Edges of functions where results were wrong or arguments outside their domain were accepted. Values are PyTorch 2.13's."""
import pytest

import pellucid as torch
from pellucid import nn, optim
from pellucid.nn import functional as F


def test_bytes_are_resized_with_rounding():
    x = torch.tensor([0, 1, 2, 255], dtype=torch.uint8).view(1, 1, 1, 4)
    assert F.interpolate(x, size=(1, 2), mode="bilinear").flatten().tolist() == [1, 129]
    with pytest.raises(NotImplementedError):
        F.interpolate(x.int(), size=(1, 2), mode="bilinear")
    with pytest.raises(ValueError):
        F.interpolate(x, size=(1, 2), mode="nearest", antialias=True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_special_functions_of_integers(dtype):
    x = torch.tensor([0, 1, 2], dtype=dtype)
    assert torch.allclose(torch.special.ndtr(x), torch.tensor([0.5, 0.8413447, 0.9772499]))
    assert torch.special.entr(x).tolist() == pytest.approx([0.0, 0.0, -1.3862944])
    assert torch.special.ndtri(torch.tensor([1e-20], dtype=torch.float64)).item() == pytest.approx(-9.262340089798408, rel=1e-12)


def test_renorm_refuses_a_negative_norm():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="maxnorm"):
        x.renorm(2, 0, -1)
    with pytest.raises(RuntimeError):
        x.renorm(0, 0, 1)


def test_diff():
    x = torch.tensor([1.0, 3.0])
    assert torch.diff(x, 0, prepend=torch.tensor([9.0])).tolist() == [1.0, 3.0]
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.diff(x, -1)


def test_histogram_of_equal_values():
    counts, edges = torch.histogram(torch.ones(5), 4)
    assert counts.tolist() == [0, 0, 5, 0] and edges.tolist() == [0.5, 0.75, 1.0, 1.25, 1.5]
    assert torch.histogram(torch.ones(0), 2).bin_edges.tolist() == [0.0, 0.5, 1.0]


def test_rprop_computes_in_float64():
    x = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    optimizer = optim.Rprop([x], lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        (x * x).sum().backward()
        optimizer.step()
    assert abs(x.item() - (1 - 0.01 - 0.012)) < 1e-16


@pytest.mark.parametrize("call, error", [
    (lambda: F.triplet_margin_loss(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3), margin=-1), ValueError),
    (lambda: nn.TripletMarginLoss(margin=-1), ValueError),
    (lambda: F.rrelu(torch.ones(3), 0.5, 0.2), RuntimeError),
    (lambda: torch.cov(torch.ones(2, 3), fweights=torch.tensor([1, -1, 1])), RuntimeError),
    (lambda: torch.cov(torch.ones(2, 3), aweights=torch.tensor([1.0, -1.0, 1.0])), RuntimeError),
    (lambda: nn.BatchNorm1d(3, eps=0)(torch.ones(4, 3)), ValueError),
    (lambda: F.batch_norm(torch.ones(4, 3), None, None, training=True, eps=-1), ValueError),
    (lambda: nn.RNN(3, 4, bias=1), TypeError),
    (lambda: nn.LSTM(3, 4, batch_first=1), TypeError),
    (lambda: torch.frombuffer(bytearray(8), dtype=torch.float32, offset=-1), ValueError),
    (lambda: torch.frombuffer(bytearray(8), dtype=torch.float32, count=3), ValueError),
    (lambda: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optim.SGD([torch.ones(1)], lr=1.0), 2, 2).step(float("inf")), ValueError),
])
def test_arguments_outside_their_domain(call, error):
    with pytest.raises(error):
        call()
