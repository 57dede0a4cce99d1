"""Sampling a Python program: its own functions and lines in the stacks, in shares that fit what ran."""
import json
import os
import subprocess
import sys
import textwrap

import pytest

import pellucid as torch

COMMAND = os.path.join(os.path.dirname(sys.executable), "pellucid")
READS_FRAMES = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 13)


def sampled(tmp_path, text, rate=1000):
    script = tmp_path / "hot.py"
    script.write_text(textwrap.dedent(text))
    out = tmp_path / "s.pellucid"
    run = subprocess.run([COMMAND, "profile", "--sample", str(rate), "-o", str(out), "--", sys.executable, str(script)],
                         capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return torch.profiler.load(out), out


def rows_of(opened, by):
    return json.loads(opened.report("samples", by=by, limit=0, format="json"))["tables"][0]["rows"]


def shares(opened, by):
    return {row["where"]: (row["self_share"], row["total_share"]) for row in rows_of(opened, by)}


def line_of(text, marker):
    return next(i for i, line in enumerate(textwrap.dedent(text).splitlines(), 1) if line.endswith("# " + marker))


TWO = """\
    import sys, time
    import pellucid as torch

    class Work:
        def spin(self, seconds):
            end = time.thread_time() + seconds
            total = 0
            while time.thread_time() < end:
                for i in range(200):
                    total += i * i  # hot
            return total

    def often(seconds):
        return Work().spin(seconds)

    def seldom(seconds):
        return sum(x for x in (Work().spin(seconds / 4) for _ in range(4)))

    def multiply(seconds):
        x = torch.ones(200, 200)
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            (x @ x)[0, 0].item()  # product

    torch.set_num_threads(1)
    often(0.6 * LONGER)
    seldom(0.2 * LONGER)
    multiply(0.4 * LONGER)
    """


def sampled_two(tmp_path, fits=lambda opened, samples: True):
    """TWO with enough samples: they come with the system's tick, and on a busy machine they are few and scatter. A longer run
    scatters less; what is wrong stays wrong."""
    for longer in (1, 4, 16):
        opened, out = sampled(tmp_path, TWO.replace("LONGER", str(longer)))
        samples = sum(row["self"] for row in rows_of(opened, "function"))
        if samples > 150 and fits(opened, samples):
            break
    return opened, out, samples


def shares_in_script(opened):
    """Of each function of the script: the share of samples in it or below it."""
    functions = {name.split("(")[-1].rstrip(")"): share for name, share in shares(opened, "function").items() if "hot.py" in name}
    return {name: total for name, (_, total) in functions.items()}


def expected_shares(opened, samples):
    """Pairs of a share and what it should be, of the three parts of TWO."""
    all_of = shares_in_script(opened)
    run = sum(all_of.get(name, 0) for name in ("often", "seldom", "multiply"))
    scatter = max(0.12, 2 / max(1, samples * run) ** 0.5)  # four standard deviations of a half
    expected = {"often": 1 / 2, "seldom": 1 / 6, "multiply": 1 / 3}
    return [(all_of.get(name, 0) / max(run, 1e-9), pytest.approx(share, abs=scatter)) for name, share in expected.items()]


@pytest.mark.skipif(not READS_FRAMES, reason="the frames of this interpreter are not read")
def test_shares_by_function_and_line(tmp_path):
    opened, out, samples = sampled_two(
        tmp_path, lambda opened, samples: all(share == expected for share, expected in expected_shares(opened, samples)))
    assert samples > 20
    for share, expected in expected_shares(opened, samples):
        assert share == expected
    all_of = shares_in_script(opened)
    run = all_of["often"] + all_of["seldom"] + all_of["multiply"]
    # Work.spin is called by both, and through a generator by one of them.
    assert all_of["Work.spin"] == pytest.approx(all_of["often"] + all_of["seldom"], abs=0.05)
    assert all_of["<module>"] >= run - 1e-9
    lines = shares(opened, "line")
    hot = [share for name, share in lines.items() if name.startswith(f"hot.py:{line_of(TWO, 'hot')}(")]
    product = sum(total for name, (_, total) in lines.items() if name.startswith(f"hot.py:{line_of(TWO, 'product')}("))
    # What the interpreter calls for the line (adding numbers, reading the clock) is below it, and how much that is differs.
    assert sum(total for _, total in hot) > 0.25 * all_of["Work.spin"]
    assert sum(own for own, _ in hot) > 0
    assert product > 0.5 * all_of["multiply"]
    # Frames can be read once the package is imported; only stacks from inside that import show the interpreter's own.
    collapsed = subprocess.run([COMMAND, "export", str(out), "--format", "collapsed"], capture_output=True, text=True, check=True)
    raw = [stack for stack in collapsed.stdout.splitlines() if "_PyEval_EvalFrameDefault" in stack]
    assert all("PyImport_ImportModuleLevelObject" in stack for stack in raw), raw


@pytest.mark.skipif(not READS_FRAMES, reason="the frames of this interpreter are not read")
def test_native_frames_stay_below_the_line_that_called_them(tmp_path):
    _, out, _ = sampled_two(tmp_path)
    import sqlite3
    db = sqlite3.connect(out)
    sites = {i: (function, python) for i, function, python in db.execute("SELECT id, function, python FROM site")}
    frames = {i: (parent, site) for i, parent, site in db.execute("SELECT id, parent, site FROM frame")}
    checked = 0
    for (stack,) in db.execute("SELECT sample.stack FROM sample JOIN signature ON signature.id = sample.signature "
                               "WHERE signature.name = 'mm'"):
        names = []
        while stack >= 0:
            stack, site = frames[stack]
            names.append(sites[site])
        python = [function for function, is_python in names if is_python]
        if not python:
            continue  # a thread of the pool
        assert python[0] == "multiply" and python[-1] == "<module>"
        assert not names[0][1], "the product runs in native code"
        checked += 1
    assert checked > 10


@pytest.mark.skipif(not READS_FRAMES, reason="the frames of this interpreter are not read")
def test_threads_recursion_and_code_that_goes_away(tmp_path):
    text = """\
        import threading, time
        import pellucid as torch

        def deep(n, end):
            if n > 0:
                return deep(n - 1, end)
            while time.thread_time() < end:
                made = eval("lambda x: [y * x for y in range(50)]")
                made(3)

        def in_thread():
            deep(300, time.thread_time() + 0.3)

        torch.ones(2).sum()
        threads = [threading.Thread(target=in_thread) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        """
    opened, _ = sampled(tmp_path, text, 4000)
    functions = shares(opened, "function")
    deep = [total for name, (_, total) in functions.items() if name.endswith("(deep)")]
    assert deep and 0.2 < deep[0] <= 1, "recursion counts a sample once"
    assert any("<lambda>" in name or "<listcomp>" in name for name in functions)
