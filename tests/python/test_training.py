"""Optimisers, schedules, data, files, programs: what a training script uses."""
import io
import math
import os
import pickle
import subprocess
import sys

import pytest

import pellucid as torch
from pellucid import nn, optim
from pellucid.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split

OPTIMIZERS = [lambda p: optim.SGD(p, lr=0.1), lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
              lambda p: optim.Adam(p, lr=0.05), lambda p: optim.AdamW(p, lr=0.05, amsgrad=True),
              lambda p: optim.RMSprop(p, lr=0.02, momentum=0.5, centered=True), lambda p: optim.Adagrad(p, lr=0.3)]


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_optimisers_go_downhill_and_resume(make):
    target = torch.tensor([1.0, -2.0, 3.0])

    def run(steps, x, optimizer):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = ((x - target) ** 2).sum()
            loss.backward()
            optimizer.step()
        return x.detach().clone()
    x = nn.Parameter(torch.zeros(3))
    optimizer = make([x])
    start = ((x - target) ** 2).sum().item()
    run(30, x, optimizer)
    assert ((x - target) ** 2).sum().item() < start / 4
    twin = nn.Parameter(x.detach().clone())
    other = make([twin])
    other.load_state_dict(optimizer.state_dict())
    assert torch.equal(run(3, x, optimizer), run(3, twin, other))


def test_sgd_step_is_the_formula():
    x = nn.Parameter(torch.tensor([1.0]))
    x.grad = torch.tensor([2.0])
    optim.SGD([x], lr=0.1, weight_decay=0.5).step()
    assert x.item() == pytest.approx(1 - 0.1 * (2 + 0.5))


def test_wrong_options_are_refused():
    p = [nn.Parameter(torch.ones(1))]
    for call in (lambda: optim.SGD(p, lr=-1), lambda: optim.Adam(p, betas=(1.0, 0.9)), lambda: optim.SGD([], lr=1),
                 lambda: optim.SGD(p, lr=1, nesterov=True), lambda: optim.SGD([p[0] * 2], lr=1)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError):
        optim.SGD(p[0], lr=1)


@pytest.mark.parametrize("make, expected", [
    (lambda o: optim.lr_scheduler.StepLR(o, 2, 0.1), [1, 1, 0.1, 0.1, 0.01]),
    (lambda o: optim.lr_scheduler.MultiStepLR(o, [1, 3], 0.5), [1, 0.5, 0.5, 0.25, 0.25]),
    (lambda o: optim.lr_scheduler.ExponentialLR(o, 0.5), [1, 0.5, 0.25, 0.125, 0.0625]),
    (lambda o: optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)), [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]),
    (lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 4), [(1 + math.cos(math.pi * e / 4)) / 2 for e in range(5)]),
    (lambda o: optim.lr_scheduler.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1, 1, 1]),
    (lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2), [1, 0.5, 1, 0.5, 1]),
    (lambda o: optim.lr_scheduler.SequentialLR(o, [optim.lr_scheduler.ConstantLR(o, 0.1, 2),
                                                   optim.lr_scheduler.ExponentialLR(o, 0.5)], [2]), [0.1, 0.1, 1, 0.5, 0.25]),
])
def test_schedules(make, expected):
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = make(optimizer)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx(expected)


def test_plateau():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.1)
    for loss in (1.0, 0.5, 0.5, 0.5):
        scheduler.step(loss)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)


class Squares(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": torch.tensor([float(i)]), "y": i * i, "name": str(i)}


class Noise(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.rand(())


def test_loaders():
    batches = list(DataLoader(Squares(), batch_size=4))
    assert [len(b["y"]) for b in batches] == [4, 4, 2] and batches[1]["y"].tolist() == [16, 25, 36, 49]
    assert batches[0]["x"].shape == (4, 1) and batches[0]["name"] == ["0", "1", "2", "3"]
    assert len(DataLoader(Squares(), batch_size=4, drop_last=True)) == 2
    data = TensorDataset(torch.arange(10), torch.arange(10) * 2)
    before = None
    for workers in (0, 2):
        loader = DataLoader(data, batch_size=3, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(1))
        seen = [x.tolist() for x, y in loader if torch.equal(x * 2, y)]
        assert sorted(sum(seen, [])) == list(range(10)) and (workers == 0 or seen == before)
        before = seen
    noisy = lambda: torch.stack(list(DataLoader(Noise(), batch_size=None, num_workers=3)))
    torch.manual_seed(4)
    first = noisy()
    torch.manual_seed(4)
    assert torch.equal(first, noisy()) and first.unique().numel() == 8
    a, b = random_split(data, [7, 3])
    assert len(a) == 7 and sorted(a.indices + b.indices) == list(range(10))
    assert len(ConcatDataset([data, data])) == 20 and Subset(data, [3])[0][1].item() == 6

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(5))
    assert [b.tolist() for b in DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError):
        DataLoader(data, batch_size=0)

    class Failing(Squares):
        def __getitem__(self, i):
            raise OSError("bad file")
    with pytest.raises(OSError, match="bad file"):
        list(DataLoader(Failing(), num_workers=2))


def test_files_go_round_and_pickles_are_refused(tmp_path):
    path = tmp_path / "a.pt"
    state = {"model": nn.Linear(2, 2).state_dict(), "epoch": 3, "lr": 0.1, "list": [1, (2.5, None)], 5: torch.float16}
    torch.save(state, path)
    back = torch.load(path)
    assert back["epoch"] == 3 and back["lr"] == 0.1 and back["list"] == [1, (2.5, None)] and back[5] is torch.float16
    assert torch.equal(back["model"]["weight"], state["model"]["weight"])
    buffer = io.BytesIO()
    torch.save(state["model"], buffer)
    buffer.seek(0)
    assert list(torch.load(buffer)) == ["weight", "bias"]
    (tmp_path / "b.pt").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(RuntimeError, match="pickle"):
        torch.load(tmp_path / "b.pt")
    (tmp_path / "c.pt").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(RuntimeError, match="pickle"):
        torch.load(tmp_path / "c.pt")
    with pytest.raises(TypeError, match="state_dict"):
        torch.save(nn.Linear(1, 1), path)


PROGRAM = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from torch.utils.data import DataLoader
from torchviz import make_dot

torch.manual_seed(0)
N, D_in, H, D_out = 64, 1000, 100, 10
x, y = Variable(torch.randn(N, D_in)), Variable(torch.randn(N, D_out), requires_grad=False)
model = nn.Sequential(nn.Linear(D_in, H), nn.ReLU(), nn.Linear(H, D_out))
print(sum(p.numel() for p in model.parameters()))
loss_fn = nn.MSELoss(size_average=False)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for t in range(50):
    loss = loss_fn(model(x), y)
    if t in (0, 49):
        print(t, loss.data.item() < 400 if t else loss.data.item() > 600)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(make_dot(loss, params=dict(model.named_parameters())).render(sys.argv[1], format="svg"))
print(torch.cuda.is_available(), __name__)
import torch.fx
"""


def test_a_program_for_pytorch_runs_unchanged(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "pellucid", str(script), str(tmp_path / "graph")], capture_output=True, text=True,
                          cwd=tmp_path)
    assert done.stdout.splitlines() == ["101110", "0 True", "49 True", str(tmp_path / "graph.svg"), "False __main__"], done.stderr
    assert "No module named 'torch.fx'" in done.stderr and done.returncode == 1
    assert "<svg" in (tmp_path / "graph.svg").read_text()
    missing = subprocess.run([sys.executable, "-m", "pellucid", "nothing.py"], capture_output=True, text=True, cwd=tmp_path)
    assert missing.returncode == 2 and "nothing.py" in missing.stderr


def test_pictures_and_notebooks():
    x = torch.tensor([2.0], requires_grad=True)
    dot = torch.torchviz.make_dot(torch.exp(x) * x, params={"x": x})
    assert "exp" in dot.source and "<svg" in dot._repr_svg_() and dot.pipe("png")[:4] == b"\x89PNG"
    assert "<table>" in torch.eye(2)._repr_html_() and "&lt;" not in torch.eye(2)._repr_html_()


def test_the_command_is_installed():
    folder = os.path.join(os.path.dirname(torch.__file__), "bin", "pellucid")
    done = subprocess.run([folder, "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("pellucid ")


def test_timer():
    from pellucid.utils.benchmark import Timer
    measured = Timer("x + x", globals={"x": torch.ones(1)}).blocked_autorange(min_run_time=0.01)
    assert measured.median > 0 and "Median" in repr(measured)


def test_limits():
    assert torch.finfo(torch.float32).eps == 2.0**-23 and torch.iinfo(torch.int8).max == 127
    with pytest.raises(TypeError):
        torch.finfo(torch.int64)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
