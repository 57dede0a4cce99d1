"""Tables of a profile for notebooks: HTML without scripts or style sheets, since a notebook may forbid both."""
import json
from html import escape

_COLORS = ["#4e79a7", "#76b7b2", "#edc948", "#f28e2b", "#e15759", "#b07aa1", "#9c755f", "#bab0ac", "#59a14f",
           "#d4a6c8"]
_CELL = "padding: 1px 8px; white-space: pre; "


def _time(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3f}{unit}"
    return f"{seconds * 1e6:.3f}us"


def _bytes(count):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"


def _text(key, value):
    """A value as the report prints it: the key says what it is."""
    if value is None:
        return "--"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if key.endswith("seconds"):
        return _time(value)
    if key.endswith("share"):
        return f"{100 * value:.2f}%"
    if key.endswith("bytes"):
        return _bytes(value)
    return f"{value:,}" if isinstance(value, int) or value == int(value) else f"{value:,.2f}"


def _row(columns, row):
    cells = []
    for column in columns:
        value = row.get(column["key"])
        side = "right" if isinstance(value, (int, float)) else "left"
        cells.append(f'<td style="{_CELL}text-align: {side}">{escape(_text(column["key"], value))}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def table(data):
    """One table of a report's JSON."""
    if not data["columns"] or not data["rows"]:
        return ""
    first = data["rows"][0]
    heads = "".join(f'<th style="{_CELL}text-align: {"right" if isinstance(first.get(c["key"]), (int, float)) else "left"}">'
                    f'{escape(c["title"])}</th>' for c in data["columns"])
    rows = "".join(_row(data["columns"], row) for row in data["rows"])
    return f'<table style="border-collapse: collapse; margin-bottom: 12px"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _shares(data):
    """The parts of the whole as one bar; the last row is the sum."""
    parts = [(row["part"], row["share"]) for row in data["rows"][:-1] if row["share"] > 0]
    bars = "".join(f'<div title="{escape(name)} {100 * share:.2f}%" style="width: {100 * share:.2f}%; background: '
                   f'{_COLORS[i % len(_COLORS)]}"></div>' for i, (name, share) in enumerate(parts))
    return f'<div style="display: flex; height: 16px; max-width: 60em; margin: 4px 0">{bars}</div>'


def overview(profile):
    """The report's first page: what the run was, where its time went, ops, lines and advice."""
    tables = json.loads(profile.report("overview", "", "", -1, "json"))["tables"]
    lines = [line for line in tables[0]["heading"].split("\n") if line]
    parts = [f"<div>{escape(line)}</div>" for line in lines[:-1]] + [f"<p><b>{escape(lines[-1])}</b></p>"]
    if tables[0]["rows"]:
        parts.append(_shares(tables[0]))
    parts += [table(t) for t in tables]
    facts = tables[0]["footing"].strip()
    parts.append(f"<details><summary>more</summary><pre>{escape(facts)}</pre></details>")
    return "\n".join(parts)
