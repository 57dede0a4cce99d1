"""What bench/run prints: medians with their spread, ratios with intervals, tables."""
import os, statistics, sys


def summary(name, times, note):
    out = {"name": name, "note": note}
    for side, values in times.items():
        quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        out[side] = {"ns": statistics.median(values), "iqr_ns": quartiles[2] - quartiles[0], "blocks": values}
    for side in times:
        if side != "ours" and "ours" in times:
            out[f"over_{side}"] = ratio(times["ours"], times[side])
    if "sealed_ours" in times and "pytorch" in times:
        out["sealed_over_pytorch"] = ratio(times["sealed_ours"], times["pytorch"])
    return out


def ratio(ours, theirs):
    """The median of ours/theirs, and order statistics that hold it with about 95 %."""
    values = sorted(a / b for a, b in zip(ours, theirs))
    n = len(values)
    k = max(0, int((n - 1.96 * n ** 0.5) / 2))
    return {"median": statistics.median(values), "low": values[k], "high": values[n - 1 - k]}


def ratio_text(r):
    return f"{r['median']:.2f} [{r['low']:.2f}, {r['high']:.2f}]" if r else "-"


def time_text(side):
    if not side:
        return "-"
    ns, spread = side["ns"], side["iqr_ns"]
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit} ±{spread / ns / 2:.0%}"
    return f"{ns:.0f} ns ±{spread / ns / 2:.0%}"


def table(title, header, rows):
    if not rows:
        return
    print(f"\n## {title}\n")
    rows = [[str(c).replace("|", "\\|") for c in row] for row in rows]
    widths = [max(len(header[i]), *(len(r[i]) for r in rows)) for i in range(len(header))]
    for row in (header, ["-" * w for w in widths], *rows):
        print("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |")
    sys.stdout.flush()


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    return f"{model}, {os.cpu_count()} CPUs"
