"""autograd.functional, nn.utils, utils.benchmark, utils.checkpoint, DLPack: values by hand, and beside PyTorch where it is there."""
import gc
import subprocess
import sys
import weakref

import pytest

import pellucid as torch
from pellucid import nn
from pellucid.autograd import functional as AF
from pellucid.utils import benchmark
from pellucid.utils.checkpoint import checkpoint, checkpoint_sequential


def powers(x, y):
    return x ** 2 * y, x.sum() + y


def test_jacobians_and_their_products():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    (a, b), (c, d) = AF.jacobian(powers, (x, y))
    assert a.tolist() == [[6, 0], [0, 16]] and b.tolist() == [[1, 0], [0, 4]]
    assert c.tolist() == [[1, 1], [1, 1]] and d.tolist() == [[1, 0], [0, 1]]
    out, (gx, gy) = AF.vjp(powers, (x, y), (torch.ones(2), torch.tensor([1.0, 0.0])))
    assert out[0].tolist() == [3, 16] and gx.tolist() == [7, 17] and gy.tolist() == [2, 4]
    _, (p, q) = AF.jvp(powers, (x, y), (torch.tensor([1.0, 0.0]), torch.zeros(2)))
    assert p.tolist() == [6, 0] and q.tolist() == [1, 1]
    cube = lambda t: (t ** 3).sum()
    assert AF.hessian(cube, x).tolist() == [[6, 0], [0, 12]]
    assert AF.hvp(cube, x, torch.ones(2))[1].tolist() == AF.vhp(cube, x, torch.ones(2))[1].tolist() == [6, 12]
    assert not AF.jacobian(torch.exp, x).requires_grad and not x.requires_grad
    leaf = x.clone().requires_grad_()
    AF.jacobian(lambda t: t ** 3, leaf, create_graph=True).sum().backward()
    assert leaf.grad.tolist() == [6, 12]
    mixed = AF.hessian(lambda s, t: (s * t).sum(), (x, y))
    assert mixed[0][0].tolist() == [[0, 0], [0, 0]] and mixed[0][1].tolist() == [[1, 0], [0, 1]]


def test_jacobians_refuse_what_makes_no_sense():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="only be None"):
        AF.vjp(torch.exp, x)
    with pytest.raises(RuntimeError, match="size"):
        AF.vjp(torch.exp, x, torch.ones(3))
    with pytest.raises(RuntimeError, match="single element"):
        AF.hessian(torch.exp, x)
    with pytest.raises(TypeError):
        AF.jacobian(lambda t: 3, (1,))
    with pytest.raises(RuntimeError, match="does not depend"):
        AF.jacobian(lambda t: torch.ones(2), x, strict=True)
    assert AF.jacobian(lambda t: torch.ones(2), x).tolist() == [[0, 0], [0, 0]]


def test_weight_norm():
    layer = nn.Linear(3, 2)
    x, before = torch.randn(4, 3), layer.weight.detach().clone()
    plain = layer(x).detach()
    nn.utils.weight_norm(layer)
    assert {n for n, _ in layer.named_parameters()} == {"bias", "weight_g", "weight_v"} and layer.weight_g.shape == (2, 1)
    assert torch.allclose(layer(x), plain)
    layer(x).sum().backward()
    assert layer.weight_g.grad is not None and layer.weight_v.grad is not None
    with torch.no_grad():
        layer.weight_g.mul_(2)
    assert torch.allclose(layer(x) - layer.bias, 2 * (plain - layer.bias), atol=1e-5)
    with pytest.raises(RuntimeError):
        nn.utils.weight_norm(layer)
    nn.utils.remove_weight_norm(layer)
    assert torch.allclose(layer.weight, 2 * before) and isinstance(layer.weight, nn.Parameter) and not layer._forward_pre_hooks
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_weight_norm(layer)


def test_spectral_norm():
    torch.manual_seed(1)
    layer = nn.utils.spectral_norm(nn.Linear(5, 4), n_power_iterations=20)
    x = torch.randn(3, 5)
    for _ in range(5):
        layer(x)
    assert torch.linalg.svd(layer.weight.detach())[1][0].item() == pytest.approx(1, abs=1e-4)
    layer(x).sum().backward()
    assert layer.weight_orig.grad is not None and "weight_u" in dict(layer.named_buffers())
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    nn.utils.remove_spectral_norm(layer)
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight"]
    with pytest.raises(ValueError):
        nn.utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


def test_packed_sequences():
    from pellucid.nn.utils import rnn
    steps = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0]), torch.tensor([6.0])]
    packed = rnn.pack_sequence(steps, enforce_sorted=False)
    assert packed.data.tolist() == [3, 1, 6, 4, 2, 5] and packed.batch_sizes.tolist() == [3, 2, 1]
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1)
    assert padded.tolist() == [[1, 2, -1], [3, 4, 5], [6, -1, -1]] and lengths.tolist() == [2, 3, 1]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [s.tolist() for s in steps]
    for wrong, match in (((torch.ones(3, 2), [1, 2]), "sorted"), ((torch.ones(3, 2), [3, 0]), "greater than 0"),
                         ((torch.ones(3, 2), [3]), "batch_size"), ((torch.ones(3, 2), [4, 1]), "beyond")):
        with pytest.raises(RuntimeError, match=match):
            rnn.pack_padded_sequence(*wrong)
    # A sequence alone gives what it gives in a batch of others.
    layer = nn.LSTM(2, 3, num_layers=2, bidirectional=True)
    sequences = [torch.randn(n, 2) for n in (2, 4, 1)]
    out, (h, c) = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    for i, (s, y) in enumerate(zip(sequences, rnn.unpack_sequence(out))):
        alone, (h1, c1) = layer(s)
        assert torch.allclose(y, alone, atol=1e-6) and torch.allclose(h[:, i], h1, atol=1e-6) and torch.allclose(c[:, i], c1, atol=1e-6)
    out.data.sum().backward()
    assert layer.weight_ih_l0.grad is not None


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_packed_layers_are_pytorchs(kind):
    theirs = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")
    a, b = (getattr(m.nn, kind)(4, 5, 2, bidirectional=True, batch_first=True) for m in (torch, theirs))
    a.load_state_dict({k: torch.from_dlpack(v.detach().clone()) for k, v in b.state_dict().items()})
    x = theirs.randn(3, 6, 4, generator=theirs.Generator().manual_seed(0))
    (y, h), (v, g) = (net(m.nn.utils.rnn.pack_padded_sequence(t, [3, 6, 2], batch_first=True, enforce_sorted=False))
                      for m, net, t in ((torch, a, torch.from_dlpack(x)), (theirs, b, x)))
    assert y.batch_sizes.tolist() == v.batch_sizes.tolist() and y.unsorted_indices.tolist() == v.unsorted_indices.tolist()
    for ours, wanted in zip((y.data, *(h if isinstance(h, tuple) else (h,))), (v.data, *(g if isinstance(g, tuple) else (g,)))):
        assert theirs.allclose(theirs.from_dlpack(ours.detach()), wanted, atol=1e-6)


def test_timers_and_their_table():
    x = torch.ones(4, 4)
    made = [benchmark.Timer(stmt, globals={"x": x}, label="square", sub_label="[4, 4]", description=name, num_threads=threads)
            .blocked_autorange(min_run_time=0.005) for stmt, name in (("x * x", "mul"), ("x @ x", "matmul")) for threads in (1, 2)]
    assert all(m.median > 0 and m.mean > 0 and m.iqr >= 0 and 1 <= m.significant_figures <= 5 for m in made)
    assert "square: [4, 4]" in repr(made[0]) and "1 thread" in repr(made[0])
    table = benchmark.Compare(made)
    table.trim_significant_figures()
    table.highlight_warnings()
    lines = str(table).splitlines()
    assert "square" in lines[0] and lines[1].split() == ["|", "mul", "|", "matmul"]
    assert [line.split()[0] for line in lines[2:6]] == ["1", "[4,", "2", "[4,"] and "Times are in" in str(table)
    table.colorize()
    assert "\033[92m" in str(table)
    once = benchmark.Timer("y = x + 1", setup="x = torch.ones(1)").timeit(100)
    assert len(once.times) == 1 and once.number_per_run == 100
    assert len(benchmark.Measurement.merge(made[:1] * 3)[0].times) == 3 * len(made[0].times)
    assert benchmark.Timer("1 + 1").adaptive_autorange(min_run_time=0.001, max_run_time=0.05).median > 0
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        benchmark.Timer("1 / 0", num_threads=1).timeit(2)
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError):
        benchmark.Timer(3)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_of_both_kinds(reentrant):
    net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.3)) for _ in range(4)])
    x = torch.randn(5, 8, requires_grad=True)

    def gradients(run):
        torch.manual_seed(3)
        net.zero_grad()
        x.grad = None
        run(x).square().sum().backward()
        return [x.grad, *(p.grad for p in net.parameters())]
    plain = gradients(net)
    for run in (lambda t: checkpoint(net, t, use_reentrant=reentrant), lambda t: checkpoint_sequential(net, 2, t, use_reentrant=reentrant)):
        assert all(map(torch.equal, plain, gradients(run)))
    both = checkpoint(lambda a, n: (a * n, n), x, 3, use_reentrant=reentrant)
    assert both[1] == 3 and both[0].requires_grad
    if reentrant:
        with pytest.raises(ValueError, match="Unexpected keyword"):
            checkpoint(lambda a, scale: a * scale, x, scale=2, use_reentrant=True)
    else:
        assert checkpoint(lambda a, scale: a * scale, x, scale=2, use_reentrant=False).shape == (5, 8)


@pytest.mark.parametrize("library", ["torch", "numpy", "jax"])
def test_dlpack_with_other_libraries(library):
    other = pytest.importorskip({"jax": "jax.numpy"}.get(library, library), reason=f"{library} is not installed")
    ours = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    theirs = other.from_dlpack(ours)
    assert theirs.tolist() == ours.tolist()
    alive = weakref.ref(ours)
    del ours
    gc.collect()
    assert theirs.sum() == 15 and alive() is None  # the memory outlives the tensor object
    made = other.ones((2, 3), dtype=other.float32)
    back = torch.from_dlpack(made)
    assert back.shape == (2, 3) and back.dtype is torch.float32
    del made
    gc.collect()
    assert (back + 1).sum().item() == 12
    if library == "torch":
        back += 1
        assert other.from_dlpack(back).sum() == 12
        strided = other.from_dlpack(torch.arange(6).reshape(2, 3).t())
        assert strided.stride() == (1, 3)


def test_mypy_accepts_a_training_script(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    folder = __import__("pathlib").Path(torch.__file__).parent
    if not (folder / "__init__.pyi").exists():
        pytest.skip("the package is not installed from a wheel")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-error-summary", "--no-incremental", str(script)], capture_output=True,
                          text=True, cwd=tmp_path, timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    script.write_text(SCRIPT + "\nwrong: str = torch.ones(2).sum()\ntorch.softmax(3, 'dim')\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-error-summary", "--no-incremental", str(script)], capture_output=True,
                          text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 1 and 'has type "Tensor"' in done.stdout and "softmax" in done.stdout


SCRIPT = '''
from typing import List, Tuple

import pellucid as torch
import pellucid.nn as nn
import pellucid.nn.functional as F
from pellucid import Tensor
from pellucid.optim.lr_scheduler import StepLR
from pellucid.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Tuple[Tensor, Tensor]:
        return torch.tensor([float(i)]), torch.tensor(i * i)


class Net(nn.Module):
    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 8 * 8, hidden)
        self.out = nn.Linear(hidden, 10)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        x = F.dropout(self.fc(x.flatten(1)), 0.1, self.training)
        return self.out(torch.tanh(x)) * self.scale


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def accuracy(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    hits = 0
    with torch.no_grad():
        for images, labels in loader:
            hits += int((model(images).argmax(dim=1) == labels).sum().item())
    return hits / 64


def main() -> None:
    torch.manual_seed(0)
    torch.set_printoptions(precision=3)
    device = torch.device("cpu")
    data = TensorDataset(torch.randn(64, 1, 8, 8), torch.randint(0, 10, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.9)
    criterion = nn.CrossEntropyLoss()
    losses: List[float] = []
    for epoch in range(2):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    x = torch.ones(2, 3, requires_grad=True)
    y = (x[:, 0] * 2 + x.mean(dim=1) - 1) / 3
    gx, = torch.autograd.grad(y.sum(), x)
    drawn = torch.rand(2, generator=torch.Generator().manual_seed(1))
    torch.backends.cudnn.benchmark = bool(drawn.sum() > 3) or torch.accelerator.is_available()
    with torch.profiler.profile() as profile:
        torch.jit.script(torch.sin)
    values, indices = torch.max(x, dim=1)
    top = torch.topk(x, 2)
    joined = torch.cat([gx, x.detach()], dim=0).view(-1, 2).transpose(0, 1).contiguous()
    mask = joined > 0.5
    joined[mask] = 0
    total = Double.apply(torch.where(mask, joined, torch.zeros_like(joined)).sum())
    state = model.state_dict()
    torch.save(state, "model.safetensors")
    model.load_state_dict(torch.load("model.safetensors"))
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    print(len(names), accuracy(model, loader), losses[-1], values.shape, indices.dtype, top, float(total), joined.size(0))


if __name__ == "__main__":
    main()
'''
