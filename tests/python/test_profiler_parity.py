"""The profiler says the same of one program in C++ and in Python: the two-layer net of `pellucid train two-layer`.

The C++ side is the command, recorded by `pellucid profile`; the Python side a script, recorded in the same way.
"""
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

import pellucid as torch

COMMAND = os.path.join(os.path.dirname(sys.executable), "pellucid")
STEPS = 7
SCRIPT = f"""
import pellucid as torch
from pellucid import nn

x, y = torch.randn(64, 1000), torch.randn(64, 10)
model = nn.Sequential(nn.Linear(1000, 100), nn.ReLU(), nn.Linear(100, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for step in range({STEPS}):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y, reduction="sum")
    loss.backward()
    optimizer.step()
"""
KINDS = ("op", "composite", "module", "backward", "engine", "optimizer")


def recorded(folder, name, *program):
    path = os.path.join(folder, name + ".pellucid")
    run = subprocess.run([COMMAND, "profile", "-q", "-o", path, "--", *program], capture_output=True, text=True, cwd=folder,
                         timeout=300, env={**os.environ, "XDG_CACHE_HOME": str(folder)})
    assert run.returncode == 0, run.stderr
    return path


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("parity"))
    script = os.path.join(folder, "train_two_layer.py")
    with open(script, "w") as file:
        file.write(SCRIPT)
    cpp = recorded(folder, "cpp", "train", "two-layer", "--epochs", "1", "--steps", str(STEPS), "--optimizer", "adam",
                   "--out", os.path.join(folder, "run"))
    return cpp, recorded(folder, "python", sys.executable, script)


def rows(path, query):
    with sqlite3.connect(path) as db:
        return db.execute(query).fetchall()


def step_events(path):
    """(kind, name, phase, module path, flops) of what the steps do, by way of the phases and the model's modules."""
    return rows(path, """SELECT signature.kind, signature.name, event.phase, COALESCE(module.path, '-'), signature.flops,
                                event.id, event.parent, site.file, site.line
                         FROM event JOIN signature ON signature.id = event.signature
                         LEFT JOIN module ON module.id = event.module LEFT JOIN site ON site.id = event.site""")


def in_steps(path):
    """Events inside a module's forward, a run of backward or an optimiser's step."""
    found, inside = [], set()
    for kind, name, phase, module, flops, number, parent, file, line in step_events(path):
        if kind in ("module", "engine", "optimizer") or parent in inside:
            inside.add(number)
            found.append((kind, name, phase, module, flops, file, line))
    return found


def test_calls_phases_modules_and_flops_are_the_same(both):
    counts = []
    for path in both:
        counter = Counter()
        for kind, name, phase, module, flops, _, _ in in_steps(path):
            # How the learning rate becomes a tensor, and state of zeros is made, is up to each side.
            if kind in KINDS and name not in ("full", "fill_", "zeros", "zeros_like"):
                counter[(kind, name, phase, module, flops)] += 1
        counts.append(counter)
    cpp, python = counts
    assert {k: (cpp[k], python[k]) for k in cpp.keys() | python.keys() if cpp[k] != python[k]} == {}
    assert sum(n for (kind, *_), n in python.items() if kind == "optimizer") == STEPS
    assert sum(n for (kind, name, *_), n in python.items() if name == "adam_step") == 4 * STEPS


def test_the_split_by_phase_has_an_optimizer(both):
    for path in both:
        ops = Counter()
        for _, name, phase, *_ in in_steps(path):
            if name == "adam_step":
                ops[phase] += 1
        assert ops == {2: 4 * STEPS}, path
        table = json.loads(report(path, "modules"))["tables"][0]["rows"]
        total = next(row for row in table if row["module"] == "sum")
        assert total["optimizer_seconds"] > 0 and total["backward_seconds"] > 0 and total["forward_seconds"] > 0


def report(path, table):
    run = subprocess.run([COMMAND, "report", path, "--table", table, "--limit", "0", "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_memory_by_category_is_the_same(both):
    found = []
    for path in both:
        bytes_of = defaultdict(int)
        for category, bytes_, end in rows(path, 'SELECT category, bytes, "end" FROM allocation'):
            bytes_of[category] = max(bytes_of[category], 0) + (bytes_ if end < 0 or category in (1, 4) else 0)
        found.append(bytes_of)
    _, python = found
    parameters = 4 * 101_110
    for one in found:
        assert one[1] >= parameters and one[4] >= 2 * parameters, dict(one)
    assert python[1] == parameters
    for path in both:
        text = json.dumps(json.loads(report(path, "peak"))["tables"])
        assert "parameter" in text and "optimizer" in text, text


def test_parameters_of_modules_are_the_same(both):
    cpp, python = ({(path, type_): n for path, type_, n in rows(file, "SELECT path, type, parameters FROM module")}
                   for file in both)
    assert cpp == python
    assert sum(python.values()) == 101_110


def test_every_line_is_one_of_the_script(both):
    _, python = both
    for kind, name, _, _, _, file, line in in_steps(python):
        assert file and file.endswith("train_two_layer.py"), (kind, name, file, line)
    lines = defaultdict(set)
    for _, name, _, _, _, _, line in in_steps(python):
        lines[name].add(line)
    assert lines["adam_step"] == {12} and lines["relu"] == {10}, dict(lines)


def test_generated_functions_have_the_callers_line():
    with torch.profiler.profile() as prof:
        x = torch.ones(3)
        torch.nn.functional.relu(x)  # generated
        torch.nn.Softplus()(x)       # a generated layer
        import copy
        copy.deepcopy(x)             # from the standard library
    lines = {event.name: event for event in prof.events()}
    text = prof.report("torch", by="line", limit=0)
    assert "<string>" not in text and "functional.py" not in text and "copy.py" not in text, text
    assert "test_profiler_parity.py" in text
    assert "relu" in lines


def test_an_own_optimizer_is_an_optimizer_too():
    class Plain(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p].setdefault("buffer", torch.zeros_like(p)).add_(p.grad)
                    p.sub_(self.state[p]["buffer"] * group["lr"])

    model = torch.nn.Linear(4, 2)
    with torch.profiler.profile() as prof:
        optimizer = Plain(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    rows_ = {row["name"]: row for row in json.loads(prof.report("torch", limit=0, format="json"))["tables"][0]["rows"]}
    assert rows_["Optimizer.step#Plain.step"]["calls"] == 3
    modules = json.loads(prof.report("modules", format="json"))["tables"][0]["rows"]
    assert next(r for r in modules if r["module"] == "sum")["optimizer_seconds"] > 0
    assert "optimizer" in prof.report("peak", limit=0)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_every_optimizer_has_its_time_and_its_memory(name):
    model = torch.nn.Linear(64, 64)
    options = {"momentum": 0.9} if name == "SGD" else {}
    with torch.profiler.profile() as prof:
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-3, **options)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 64)).sum().backward()
            optimizer.step()
    table = json.loads(prof.report("torch", limit=0, format="json"))["tables"][0]["rows"]
    assert {r["name"]: r["calls"] for r in table}[f"Optimizer.step#{name}.step"] == 2
    kept = sum(t.numel() * t.element_size() for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor))
    assert torch.memory_stats()["by_category"]["optimizer"] >= kept if hasattr(torch, "memory_stats") else True


def test_lbfgs_runs_its_closure_as_a_forward_pass():
    model = torch.nn.Linear(8, 1)
    x, y = torch.ones(4, 8), torch.zeros(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss

    with torch.profiler.profile() as prof:
        optimizer.step(closure)
    assert "Optimizer.step#LBFGS.step" in prof.report("torch", limit=0)


def test_estimate_counts_parameters_and_state():
    with torch.profiler.estimate() as cost:
        model = torch.nn.Sequential(torch.nn.Linear(100, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
        own = torch.nn.Parameter(torch.zeros(7))
        optimizer = torch.optim.Adam([*model.parameters(), own])
        cost.phase("forward")
        loss = model(torch.zeros(4, 100)).sum() + own.sum()
        cost.phase("backward")
        loss.backward()
        cost.phase("step")
        optimizer.step()
    parameters = 100 * 50 + 50 + 50 * 10 + 10 + 7
    assert cost.phases[0]["end_bytes_by_category"]["parameter"] == 4 * parameters
    end = cost.phases[3]["end_bytes_by_category"]
    assert end["parameter"] == 4 * parameters and end["gradient"] >= 4 * parameters and end["optimizer"] >= 8 * parameters
    for phase in cost.phases:
        for key in ("total_flops", "contraction_flops", "bytes_moved", "calls"):
            assert isinstance(phase[key], int), (key, phase[key])


def test_modules_that_change_their_dtype_keep_their_parameters():
    with torch.profiler.estimate() as cost:
        model = torch.nn.Linear(10, 10)
        model.to(torch.float64)
    assert cost.phases[0]["end_bytes_by_category"]["parameter"] == 8 * 110


def test_anomaly_mode_names_the_line():
    with torch.autograd.detect_anomaly():
        x = torch.zeros(3, requires_grad=True)
        y = (x / x).sum()  # the line
        with pytest.raises(RuntimeError, match=r"test_profiler_parity\.py:\d+") as error:
            y.backward()
    line = next(i for i, text in enumerate(open(__file__), 1) if text.rstrip().endswith("# the line"))
    assert f"test_profiler_parity.py:{line}" in str(error.value)


def test_waiting_for_data_is_waiting():
    data = torch.utils.data.TensorDataset(torch.zeros(16, 2))
    for workers in (0, 1):
        with torch.profiler.profile() as prof:
            for _ in torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers):
                pass
        table = json.loads(prof.report("torch", limit=0, format="json"))["tables"][0]["rows"]
        assert {r["name"]: r["calls"] for r in table}["DataLoader.next"] == 5  # the last finds the end
