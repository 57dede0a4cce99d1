"""bench/run profiler: what recording costs, beside torch.profiler.

The same training step runs without a recording and with each way of recording, in turns. Starting and ending a recording is
not timed: the step is.

What the hooks cost while nothing is recorded is seen beside a library without them; BENCH_CORE_BARE names such a bench_core
(cmake --preset release -B build/bare -DPELLUCID_RECORDER=OFF && ninja -C build/bare bench_core).
"""
import os

from report import summary, table, time_text
from side import settle

EVENT_BYTES = 32  # of a raw event
CASES = ("train/two_layer", "train/mnist_cnn", "add/one_element")
# label -> (side, how to record)
WAYS = {"hooks compiled out": ("bare", None), "off": ("ours", None), "count": ("ours", "count"), "sample": ("ours", "sample"),
        "trace": ("ours", "trace"), "PyTorch": ("pytorch", None), "torch.profiler": ("pytorch", "plain"),
        "with shapes, memory, stacks": ("pytorch", "full")}
AIMS = {("train/two_layer", "trace"): "<= 1.05"}


class Sides:
    """Both processes with one case open."""

    def __init__(self, runner, name):
        self.runner, self.name = runner, name
        self.turns, self.steps, self.note = runner.open(name, None)
        self.by_label = {label: side for label, side, _ in self.turns}
        if bare := os.environ.get("BENCH_CORE_BARE"):
            self.by_label["bare"] = type(runner.ours)(bare)
            self.by_label["bare"].ask(f"open {name}")

    def record(self, label, how):
        side = self.by_label[label]
        side.ask(f"record {how}") if label == "ours" else side.ask({"record": how})

    def stop(self, label):
        side = self.by_label[label]
        return int(side.ask("stop")) if label == "ours" else side.ask({"stop": True}) and 0

    def block(self, label, how, count):
        """Nanoseconds of a step, and the bytes recorded for it."""
        side = self.by_label[label]
        settle()
        if how:
            self.record(label, how)
        side.run(1, self.name)
        ns = side.run(count, self.name)
        recorded = self.stop(label) if how else 0
        return ns / count / self.steps, recorded / (count + 1) / self.steps


def measure(runner, name, rounds):
    sides = Sides(runner, name)
    ways = {w: v for w, v in WAYS.items() if v[0] in sides.by_label}
    times, recorded = {w: [] for w in ways}, dict.fromkeys(ways, 0)
    counts = {}
    for label, side in sides.by_label.items():
        once = max(1, min(side.run(1, name) for _ in range(3)))
        counts[label] = max(2, round(runner.block_ns / once))
    for _ in range(rounds):
        for way, (label, how) in ways.items():
            ns, bytes_of_step = sides.block(label, how, counts[label])
            times[way].append(ns)
            recorded[way] = bytes_of_step
    if "bare" in sides.by_label:
        sides.by_label["bare"].close()
    runner.ours.ask("close")
    for side in runner.others.values():
        side.ask({"close": True})
    return times, recorded


def ratio(values, base):
    """The median of the ratios of neighbouring blocks with half their interquartile range."""
    each = sorted(v / b for v, b in zip(values, base))
    n = len(each)
    return each[n // 2], (each[(3 * n) // 4] - each[n // 4]) / 2


def run(runner, chosen, results):
    runner.block_ns = 40e6
    for name in chosen(list(CASES)):
        times, recorded = measure(runner, name, 4 * runner.rounds)
        rows = []
        for way in times:
            side = WAYS[way][0]
            base = times["PyTorch" if side == "pytorch" else "off"]
            middle, spread = ratio(times[way], base)
            r = summary(f"{name} {way}", {"ours": times[way]}, "")
            r.update(over_off=middle, spread=spread, bytes=recorded[way])
            results.append(r)
            events = recorded[way] / EVENT_BYTES if way == "trace" else 0
            cost = (sorted(times[way])[len(base) // 2] - sorted(base)[len(base) // 2]) / events if events else 0
            over_base = f"{middle:.3f} ±{spread:.3f}" if WAYS[way][1] or side == "bare" else ""
            rows.append([way, time_text(r["ours"]), over_base, AIMS.get((name, way), ""),
                         f"{events:.0f}" if events else "", f"{cost:.0f} ns" if events else "",
                         f"{recorded[way]:.0f}" if recorded[way] else ""])
        table(f"{name}: a step with and without a recording",
              ["recording", "a step", "of the time without", "aim", "events", "an event (aim: <= 50 ns)", "bytes"], rows)
