"""torch.profiler's interface: what is recorded, the schedule, the table, exports, and lines of Python."""
import collections
import json
import os
import subprocess
import sys
import textwrap

import pytest

import pellucid as torch
from pellucid.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule


def small_model():
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def rows_of(prof, table, **options):
    return json.loads(prof.report(table, format="json", **options))["tables"][0]["rows"]


def test_key_averages_count_ops_scopes_and_backward():
    model, x = small_model(), torch.randn(3, 8)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True) as prof:
        for _ in range(5):
            with record_function("one step"):
                model(x).sum().backward()
    averages = {event.key: event for event in prof.key_averages()}
    assert averages["one step"].count == 5
    assert averages["linear"].count == 10
    assert averages["Linear"].count == 10
    assert averages["backward"].count == 5
    assert averages["one step"].cpu_time_total >= averages["linear"].cpu_time_total
    assert averages["linear"].flops > 0
    by_shape = [event for event in prof.key_averages(group_by_input_shape=True) if event.key == "linear"]
    assert sorted(event.count for event in by_shape) == [5, 5]
    table = prof.key_averages().table(sort_by="cpu_time_total", row_limit=3)
    assert "Self CPU %" in table and "# of Calls" in table


def test_events_one_by_one():
    model, x = small_model(), torch.randn(3, 8)
    with profile() as prof:
        with record_function("outer"):
            model(x)
    events = prof.events()
    assert [e.name for e in events] == ["outer", "Sequential", "Linear", "linear", "ReLU", "relu", "Linear", "linear"]
    outer, sequential, first, product = events[:4]
    assert outer.cpu_parent is None and outer.cpu_children == [sequential]
    assert product.cpu_parent is first and product.input_shapes == [[3, 8], [4, 8], [4]] and product.flops > 2 * 3 * 8 * 4 - 1
    assert product.time_range.start >= first.time_range.start and product.time_range.end <= first.time_range.end
    assert outer.cpu_time_total == pytest.approx(sum(e.self_cpu_time_total for e in events))
    assert product.stack and __file__ in product.stack[0]


def test_modules_and_lines():
    model, x = small_model(), torch.randn(3, 8)
    with profile() as prof:
        y = model(x)  # this line
        y.sum().backward()
    path = os.path.join(os.path.dirname(__file__), "saved.pellucid")
    try:
        prof.save(path)
        import sqlite3
        db = sqlite3.connect(path)
        modules = dict(db.execute("SELECT path, type FROM module"))
        assert modules == {"": "Sequential", "0": "Linear", "1": "ReLU", "2": "Linear"}
        lines = set(db.execute("SELECT file, line FROM op WHERE name = 'linear'"))
        assert len(lines) == 1
        file, line = lines.pop()
        assert file == __file__
        assert open(file).read().splitlines()[line - 1].endswith("# this line")
        again = torch.profiler.load(path)
        assert again.key_averages().total_average().count == prof.key_averages().total_average().count
    finally:
        os.remove(path)


def observed_program(x, w):
    h = x @ w
    y = torch.tanh(h * 2) + h
    z = torch.nn.functional.layer_norm(y, (80,))
    r = torch.nn.functional.relu(z[:, ::2]).reshape(-1, 40)
    p = torch.nn.functional.softmax(torch.cat([r, r.flip(0)]), -1)
    loss = torch.nn.functional.cross_entropy(p, torch.arange(p.shape[0]) % 40) + p.square().mean()
    loss.backward()  # the line of no op but the first gradient
    return loss, y, w.grad


def lines_of_ops(run, path):
    """The lines at which a recorded run has each op or scope of a gradient."""
    with profile() as prof:
        run()
    prof.save(str(path))
    import sqlite3
    found = collections.defaultdict(set)
    for name, file, line in sqlite3.connect(path).execute("SELECT name, file, line FROM op"):
        found[name].add(line if file == __file__ else None)
    return found


def test_lines_of_a_lazy_program_are_those_of_the_eager_one(tmp_path):
    x, w = torch.randn(80, 80), torch.randn(80, 80).requires_grad_()

    def run():
        w.grad = None
        return observed_program(x, w)

    def lazily():
        with torch.lazy():
            return run()
    compiled = torch.compile(run, mode="max-autotune")
    with torch.lazy(False):
        eager = lines_of_ops(run, tmp_path / "eager.pellucid")
        ways = {"lazy": lazily, "captured": compiled, "made": compiled, "replayed": compiled}
        found = {way: lines_of_ops(f, tmp_path / (way + ".pellucid")) for way, f in ways.items()}
    first = observed_program.__code__.co_firstlineno
    of_ops = set(range(first + 1, first + 7))
    for way, lines in found.items():
        assert {"mm", "MmBackward0", "TanhBackward0", "LayerNormBackward0"} <= set(lines), way
        for name, at in lines.items():
            assert at <= eager.get(name, of_ops), (way, name)


def test_schedule():
    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=1)
    names = [plan(step).name for step in range(7)]
    assert names == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    with pytest.raises(ValueError):
        schedule(wait=-1, warmup=0, active=1)
    saved = []
    with profile(schedule=schedule(wait=1, warmup=0, active=2, repeat=2), on_trace_ready=saved.append) as prof:
        for _ in range(8):
            torch.ones(3).sum()
            prof.step()
    assert len(saved) == 2
    averages = {event.key: event.count for event in prof.key_averages()}
    assert averages["sum"] == 2 and averages["step"] == 2


def test_action_names():
    assert [a.name for a in ProfilerAction] == ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
    with pytest.raises(ValueError, match="CUDA"):
        profile(activities=[ProfilerActivity.CUDA])


def test_exceptions_close_their_scopes():
    with profile() as prof:
        with pytest.raises(RuntimeError):
            with record_function("fails"):
                torch.matmul(torch.ones(2, 3), torch.ones(2, 3))
        torch.ones(2).sum()
    averages = {event.key: event.count for event in prof.key_averages()}
    assert averages["fails"] == 1 and averages["sum"] == 1


def test_one_at_a_time_and_nothing_recorded():
    with profile():
        with pytest.raises(RuntimeError, match="runs already"):
            profile().start()
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        profile().key_averages()


def test_record_function_as_decorator_and_without_a_profile():
    @record_function("named")
    def work(x):
        """doc"""
        return x + 1

    assert work.__doc__ == "doc" and work(torch.ones(1)).item() == 2
    with profile() as prof:
        work(torch.ones(1))
    assert "named" in {event.key for event in prof.key_averages()}


def test_exports(tmp_path):
    with profile() as prof:
        torch.ones(4, 4) @ torch.ones(4, 4)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert any(e.get("name") == "mm" for e in trace["traceEvents"])
    prof.export_stacks(str(tmp_path / "stacks.txt"))
    assert "mm" in (tmp_path / "stacks.txt").read_text()
    page = prof._repr_html_()
    assert "<table" in page and "<script" not in page and page.count("<td") == page.count("</td>")
    assert "<th" in prof.key_averages()._repr_html_() and "row_limit=-1 shows all" in prof.key_averages().table(row_limit=1)
    assert prof.key_averages().table(row_limit=-1).count("\n") > prof.key_averages().table(row_limit=1).count("\n")


def test_the_command_records_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""\
        import torch
        model = torch.nn.Linear(4, 2)
        for _ in range(3):
            loss = model(torch.ones(5, 4)).sum()
            loss.backward()
        """))
    command = os.path.join(os.path.dirname(sys.executable), "pellucid")
    out = tmp_path / "p.pellucid"
    run = subprocess.run([command, "profile", "-o", str(out), "--", sys.executable, "-m", "pellucid", str(script)],
                         capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    opened = torch.profiler.load(out)
    averages = {event.key: event.count for event in opened.key_averages()}
    assert averages["linear"] == 3 and averages["Linear"] == 3 and averages["backward"] == 3
    functions = opened.report("cprofile", limit=0)
    assert "script.py:4(linear)" in functions


def test_a_killed_script_leaves_its_profile(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text("import os, torch\nfor _ in range(7):\n    torch.ones(3).sum()\nos.kill(os.getpid(), 9)\n")
    command = os.path.join(os.path.dirname(sys.executable), "pellucid")
    out = tmp_path / "k.pellucid"
    run = subprocess.run([command, "profile", "-o", str(out), "--", sys.executable, "-m", "pellucid", str(script)],
                         capture_output=True, text=True, timeout=600)
    assert run.returncode == 128 + 9
    assert "signal 9" in run.stderr
    averages = {event.key: event.count for event in torch.profiler.load(out).key_averages()}
    assert averages["sum"] == 7


def test_the_environment_records_a_program_with_its_children(tmp_path):
    script = tmp_path / "family.py"
    script.write_text(textwrap.dedent("""\
        import os, subprocess, sys
        import pellucid as torch
        torch.ones(3).sum()
        child = os.fork()
        if child == 0:
            torch.ones(4).exp()
            sys.exit(0)
        os.waitpid(child, 0)
        subprocess.run([sys.executable, "-c", "import pellucid; pellucid.ones(2).sin()"], check=True)
        torch.ones(3).cos()
        """))
    out = tmp_path / "e.pellucid"
    subprocess.run([sys.executable, str(script)], check=True, timeout=600, env={**os.environ, "PELLUCID_PROFILE": str(out)})
    assert os.listdir(tmp_path) and not (tmp_path / "e.pellucid.raw").exists()
    averages = {event.key: event.count for event in torch.profiler.load(out).key_averages()}
    assert {name: averages.get(name) for name in ("sum", "exp", "sin", "cos", "ones")} == {
        "sum": 1, "exp": 1, "sin": 1, "cos": 1, "ones": 4}
