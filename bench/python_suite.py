"""bench/run python: the package for Python beside PyTorch 2.13: calls, tape nodes, indexing, small training steps, loading, import.

Two Python processes take turns, as in the other suites; both must compute the same before anything is timed.
"""
import json, os, pathlib, subprocess, time

from report import machine, ratio_text, summary, table, time_text
from side import Side, settle

ROOT = pathlib.Path(__file__).resolve().parent.parent
AIMS = {"x + y, one element": 0.5}  # of PyTorch's time
IMPORT_AIM_MS = 100


class Process(Side):
    def __init__(self, python, module):
        super().__init__([python, str(ROOT / "bench" / "python_cases.py"), module])

    def ask(self, request):
        return json.loads(super().ask(json.dumps(request)))


def measure(sides, name, rounds, block_ns):
    """Times of a step in ns, block by block."""
    opened = {label: side.ask({"open": name}) for label, side in sides.items()}
    checks = [answer["check"] for answer in opened.values()]
    if len(checks) == 2 and abs(checks[0] - checks[1]) > 1e-3 * max(abs(checks[0]), 1e-3):
        raise SystemExit(f"bench: {name}: the sides do not agree: {checks[0]} and {checks[1]}")
    times, counts = {label: [] for label in sides}, {}
    for label, side in sides.items():
        side.ask({"run": 3})
        counts[label] = max(1, round(block_ns / max(1, side.ask({"run": 20})["ns"] / 20)))
    for _ in range(rounds):
        for label, side in sides.items():
            settle()
            times[label].append(side.ask({"run": counts[label]})["ns"] / counts[label] / opened[label]["steps"])
    return summary(name, times, "")


def import_times(pythons, rounds):
    """Nanoseconds of a process that imports the module less those of one that imports nothing."""
    times = {label: [] for label in pythons}
    for _ in range(rounds):
        for label, (python, module) in pythons.items():
            taken = []
            for code in ("pass", f"import {module}"):
                begun = time.perf_counter_ns()
                subprocess.run([python, "-c", code], check=True, cwd="/")
                taken.append(time.perf_counter_ns() - begun)
            times[label].append(max(1, taken[1] - taken[0]))
    return summary("import", times, "")


def ours():
    """A Python with the package of this tree."""
    given = os.environ.get("BENCH_PYTHON")
    if given:
        return given
    subprocess.run([ROOT / "tests" / "python" / "run", "--install"], check=True)
    return str(ROOT / ".venv-python" / "bin" / "python")


def run(options):
    pythons = {"ours": (ours(), "pellucid")}
    found = subprocess.run([ROOT / "tests" / "parity" / "pytorch"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode == 0:
        pythons["pytorch"] = (found.stdout.strip(), "torch")
    begun = time.time()
    sides = {label: Process(*where) for label, where in pythons.items()}
    facts = {label: side.ask({"facts": 1}) for label, side in sides.items()}
    heading = f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; {machine()}; load {os.getloadavg()[0]:.1f}; "
    pytorch = facts.get("pytorch")
    heading += f"PyTorch {pytorch['version']} with {pytorch['threads']} threads" if pytorch else "without PyTorch"
    print(heading)
    rounds, block = (7, 4e6) if options.quick else (15, 12e6)
    results, rows = [], []
    for name in facts["ours"]["names"]:
        if options.only not in name:
            continue
        r = measure(sides, name, rounds, block)
        results.append(r)
        rows.append([name, time_text(r["ours"]), time_text(r.get("pytorch")), ratio_text(r.get("over_pytorch")),
                     f"<= {AIMS[name]}" if name in AIMS else ""])
    table("From Python: a step", ["case", "ours", "PyTorch", "ours/PyTorch", "aim"], rows)
    for side in sides.values():
        side.close()
    if options.only in "import":
        r = import_times(pythons, 5 if options.quick else 9)
        results.append(r)
        table("Import, less the start of Python", ["", "ours", "PyTorch", "ours/PyTorch", "aim"],
              [["import", time_text(r["ours"]), time_text(r.get("pytorch")), ratio_text(r.get("over_pytorch")), f"< {IMPORT_AIM_MS} ms"]])
    print(f"\n{time.time() - begun:.0f} s")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"machine": heading, "cases": results}, indent=1) + "\n")
    return 0
