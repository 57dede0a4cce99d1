"""Recordings compared from Python, and where a call's nanoseconds go between Python and the kernel."""
import json
import os
import subprocess
import sys

import pytest

import pellucid as torch
from pellucid.profiler import diff, profile


def record(size, steps=10):
    x = torch.ones(size, size)
    with profile() as prof:
        for _ in range(steps):
            x.matmul(x).relu()
            prof.step()
    return prof


def test_diff_of_two_and_of_several_runs(tmp_path):
    small, large = [record(8) for _ in range(3)], [record(400) for _ in range(3)]
    rows = {row["name"]: row for row in diff(small, large)["rows"]}
    assert rows["mm"]["change"] > 1 and rows["mm"]["first_calls"] == 10
    found = diff(small, large[0])
    assert found["between_runs"] and found["scatter"] == "between the 3 runs of the first side, taken for both"
    small[0].save(tmp_path / "a.pellucid")
    large[0].save(tmp_path / "b.pellucid")
    saved = diff(tmp_path / "a.pellucid", str(tmp_path / "b.pellucid"), by="memory")
    assert saved["rows"][0]["name"] == "peak" and saved["rows"][0]["second"] > saved["rows"][0]["first"] and saved["regression"]
    assert not diff(small[0], small[0])["regression"]
    with pytest.raises(ValueError, match="colour"):
        diff(small[0], large[0], by="colour")
    with pytest.raises(ValueError, match="each side"):
        diff([], large)


@pytest.mark.parametrize("expression, op, variables", [("x + y", "add", ["x", "y"]), ("x * 2", "mul", ["x"]), ("-x", "neg", ["x"]),
                                                       ("x > y", "gt", ["x", "y"]), ("exp(x)", "exp", ["x"]),
                                                       ("torch.maximum(x, y)", "maximum", ["x", "y"]), ("x.clamp(0)", "clamp", ["x"])])
def test_anatomy_measures_every_form_of_a_call(expression, op, variables):
    question = {"expression": expression, "op": op, "variables": variables, "gradients": op != "gt", "sizes": [1, 100], "seconds": 0.001}
    run = subprocess.run([sys.executable, "-m", "pellucid.profiler._anatomy", json.dumps(question)], capture_output=True, text=True,
                         check=True, timeout=120)
    rows = json.loads(run.stdout)
    assert [row["elements"] for row in rows] == [1, 100]
    assert all(row[part] > 0 for row in rows for part in ("call", "dispatch", "whole"))


def test_the_command_prints_python_and_binding():
    command = os.path.join(os.path.dirname(sys.executable), "pellucid")
    run = subprocess.run([command, "anatomy", "x + y", "--python", "--interpreter", sys.executable, "--quick", "--sizes", "1"],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    heads = next(line.split() for line in run.stdout.splitlines() if line.startswith("elements"))
    assert heads == "elements whole ns python binding infer allocation tape kernel rest kernel %".split()
