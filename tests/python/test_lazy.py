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


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop",
                                  "ASGD"])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_the_step_of_every_optimiser_stays_pending(name, as_tensor):
    def run(lazily):
        torch.manual_seed(0)
        p = torch.nn.Parameter(torch.randn(3, 4))
        optimizer = getattr(torch.optim, name)([p], lr=torch.tensor(0.1) if as_tensor else 0.1)
        for _ in range(3):
            with torch.lazy(lazily):
                optimizer.zero_grad()
                loss = p.square().sum()
                loss.backward()
                optimizer.step()
                assert torch.is_pending(p) == lazily and torch.is_pending(loss) == lazily
        return p.tolist()

    with torch.lazy(False):
        assert run(True) == run(False)


def test_a_language_model_s_step_with_clipping_is_captured_whole():
    def run(lazily):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 10))
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        norms = []
        for _ in range(3):
            x, y = torch.randint(0, 10, (6,)), torch.randint(0, 10, (6,))
            with torch.lazy(lazily):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(net(x), y)
                loss.backward()
                norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5))
                optimizer.step()
                assert torch.is_pending(loss) == torch.is_pending(norms[-1]) == lazily
                assert all(torch.is_pending(p) == lazily for p in net.parameters())
        return [n.item() for n in norms], [p.tolist() for p in net.parameters()]

    with torch.lazy(False):
        assert run(True) == run(False)


def test_clipping_in_two_steps():
    p = torch.nn.Parameter(torch.zeros(4))
    (p * 3).sum().backward()
    total = torch.nn.utils.get_total_norm([p.grad])
    assert total.item() == 6
    torch.nn.utils.clip_grads_with_norm_(p, 3, total)
    assert torch.allclose(p.grad, torch.full((4,), 1.5))
    assert torch.nn.utils.clip_grad_norm_([torch.zeros(2)], 1).item() == 0
    with pytest.raises(ValueError, match="is inf"):
        torch.nn.utils.get_total_norm([torch.tensor([float("inf")])], error_if_nonfinite=True)
