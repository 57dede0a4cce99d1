"""Lazy evaluation in Python: what is kept, what makes it run, and that the numbers are eager's."""
import threading

import numpy as np
import pellucid as torch
import pytest


def step(net, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


def train(lazily):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.LayerNorm(16),
                              torch.nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        x, y = torch.randn(12, 8), torch.randint(0, 3, (12,))
        with torch.lazy(lazily):
            losses.append(step(net, optimizer, x, y))
    return [loss.item() for loss in losses] + [p.tolist() for p in net.parameters()]


def test_a_training_run_has_the_bits_of_an_eager_one():
    assert train(True) == train(False)


def test_nothing_runs_until_a_value_is_needed():
    x = torch.ones(3)
    with torch.lazy(False), torch.lazy():
        assert torch.is_lazy()
        y = torch.tanh(x * 2)
        z = x + 1
        assert torch.is_pending(y) and y.shape == (3,) and y.dtype == torch.float32
        torch.eval({"y": [y]})
        assert not torch.is_pending(y) and torch.is_pending(z)
    assert not torch.is_pending(z)


@pytest.mark.parametrize("read", [
    lambda t: t.sum().item(), lambda t: t.tolist(), lambda t: t.numpy(), repr, lambda t: bool(t[0] > 1), lambda t: np.asarray(t),
    lambda t: t.data_ptr(), lambda t: np.from_dlpack(t), lambda t: memoryview(t), lambda t: float(t[0]), lambda t: [*t][0].item()])
def test_readers(read):
    x = torch.ones(3)
    with torch.lazy():
        y = x * 3
        read(y)
        assert not torch.is_pending(y)
        assert y.tolist() == [3, 3, 3]


def test_arrays_that_share_memory_are_never_read_too_late():
    array = np.ones(3, dtype=np.float32)
    x = torch.from_numpy(array)
    with torch.lazy():
        y = x * 2
        array[:] = 7
        assert y.tolist() == [2, 2, 2]
        z = x + 0
        view = z.numpy()
        w = z * 2
        view[:] = 5
        assert w.tolist() == [14, 14, 14]


def test_a_decorator_and_an_error():
    @torch.lazy()
    def f(a, b):
        assert torch.is_lazy()
        return a @ b

    assert f(torch.ones(2, 3), torch.ones(3, 2)).tolist() == [[3, 3], [3, 3]]
    with pytest.raises(torch.ShapeError):
        f(torch.ones(2, 3), torch.ones(2, 3))
    with torch.lazy(False):
        assert not torch.is_lazy()


def test_another_thread_reads_what_this_one_kept():
    seen = []
    with torch.lazy():
        y = torch.arange(4) * 2
        thread = threading.Thread(target=lambda: seen.append(y.tolist()))
        thread.start()
        thread.join()
    assert seen == [[0, 2, 4, 6]]


def test_save_and_load(tmp_path):
    with torch.lazy():
        y = torch.arange(4.0) + 1
        torch.save({"y": y}, tmp_path / "y.pt")
    assert torch.load(tmp_path / "y.pt")["y"].tolist() == [1, 2, 3, 4]
