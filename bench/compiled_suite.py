"""bench/run compiled: expressions that run as one: pellucid eagerly and lazily, PyTorch eagerly and compiled, JAX's jit.

Processes take turns, as in the other suites; all must compute the same before anything is timed. The peers that are not
installed are said and left out: PyTorch comes from .venv-parity, JAX is installed into .venv-jax.
"""
import json, os, pathlib, subprocess, sys, time

from python_suite import ours
from report import machine, ratio, ratio_text, summary, table, time_text
from side import Side, settle

ROOT = pathlib.Path(__file__).resolve().parent.parent
AIMS = {"layer_norm": 1.6, "softmax": 1.8, "(x@y": 1.05}  # the best peer's time over ours


class Process(Side):
    def __init__(self, python, side):
        # No huge result may cost a page fault on every call: memory is kept, as in the other suites.
        keep = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 26)}
        super().__init__([python, str(ROOT / "bench" / "compiled_cases.py"), side], keep if side != "jax" else None)

    def ask(self, request):
        return json.loads(super().ask(json.dumps(request)))


def jax_python():
    """A Python with JAX, or None."""
    folder = ROOT / ".venv-jax"
    python = folder / "bin" / "python"
    if not python.exists():
        print("installing JAX into .venv-jax")
        done = subprocess.run([sys.executable, "-m", "venv", folder], check=False).returncode == 0 and subprocess.run(
            [python, "-m", "pip", "install", "-qq", "jax", "jaxlib", "numpy"], check=False).returncode == 0
        if not done:
            print("JAX cannot be installed: left out")
            subprocess.run(["rm", "-rf", folder], check=False)
            return None
    return str(python)


def measure(sides, name, rounds, block_ns):
    opened = {label: side.ask({"open": name}) for label, side in sides.items()}
    expected = opened["eager"]["check"]
    for label, answer in opened.items():
        for a, b in zip(answer["check"], expected):
            if abs(a - b) > 1e-3 * max(abs(b), 1e-2):
                raise SystemExit(f"bench: {name}: {label} gives {answer['check']}, eager {expected}")
    times, counts = {label: [] for label in sides}, {}
    for label, side in sides.items():
        side.ask({"run": 3})
        counts[label] = max(1, round(block_ns / max(1, side.ask({"run": 3})["ns"] / 3)))
    for _ in range(rounds):
        for label, side in sides.items():
            settle()
            times[label].append(side.ask({"run": counts[label]})["ns"] / counts[label])
    result = summary(name, times, "")
    result["first_seconds"] = {label: answer["first_seconds"] for label, answer in opened.items()}
    peers = [label for label in sides if label not in ("eager", "lazy")]
    result["best_peer"] = min(peers, key=lambda label: result[label]["ns"], default=None)
    result["gain"] = ratio(times["eager"], times["lazy"])
    if result["best_peer"]:
        result["over_best"] = ratio(times[result["best_peer"]], times["lazy"])
    return result


def run(options):
    python = ours()
    where = {"eager": python, "lazy": python}
    found = subprocess.run([ROOT / "tests" / "parity" / "pytorch"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode == 0:
        where["torch"] = where["torch-compile"] = found.stdout.strip()
    if jax := jax_python():
        where["jax"] = jax
    begun = time.time()
    sides = {label: Process(path, label) for label, path in where.items()}
    facts = {label: side.ask({"facts": 1}) for label, side in sides.items()}
    heading = f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; {machine()}; load {os.getloadavg()[0]:.1f}; "
    heading += ", ".join(f"{label} {facts[label]['version']}" for label in sides if label not in ("eager", "lazy"))
    print(heading)
    rounds, block = (7, 30e6) if options.quick else (15, 80e6)
    results, rows = [], []
    for name in facts["eager"]["names"]:
        if options.only not in name:
            continue
        r = measure(sides, name, rounds, block)
        results.append(r)
        aim = next((f">= {a}" for start, a in AIMS.items() if name.startswith(start)), "")
        rows.append([name, *(time_text(r.get(s)) for s in ("eager", "lazy", "torch", "torch-compile", "jax")),
                     ratio_text(r["gain"]), ratio_text(r.get("over_best")), aim])
    table("A call; groups run as one in pellucid's lazy mode",
          ["case", "eager", "lazy", "PyTorch", "torch.compile", "JAX jit", "eager/lazy", "best peer/lazy", "aim"], rows)
    firsts = [[r["name"], *(f"{r['first_seconds'].get(s, 0) * 1e3:.0f} ms" for s in ("eager", "lazy", "torch", "torch-compile", "jax"))]
              for r in results]
    table("The first call", ["case", "eager", "lazy", "PyTorch", "torch.compile", "JAX jit"], firsts)
    for side in sides.values():
        side.close()
    print(f"\n{time.time() - begun:.0f} s")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"machine": heading, "cases": results}, indent=1) + "\n")
    return 0
