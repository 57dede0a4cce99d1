"""Compare: measurements of several statements side by side, one table a label."""
import collections
import math

from .measurement import choose_unit

_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_BEST, _GOOD, _PLAIN = "\033[92m\033[1m", "\033[34m\033[1m", "\033[0m\033[0m"


class Compare:
    """A table of Measurements: rows by sub_label (or statement) and number of threads, columns by description."""

    def __init__(self, results):
        self._results = list(results)
        self._trim = self._colours = self._warn = False

    def __str__(self):
        return "\n".join(self._render())

    def extend_results(self, results):
        """Adds measurements."""
        self._results += list(results)

    def trim_significant_figures(self):
        """Writes only digits that the spread of the times supports."""
        self._trim = True

    def colorize(self, rowwise=False):
        """Marks the least time of each row in green, those within a quarter of it in blue."""
        self._colours = True

    def highlight_warnings(self):
        """Marks times whose spread is above a tenth with (!)."""
        self._warn = True

    def print(self):
        """Writes the table."""
        print(str(self))

    def _render(self):
        labels = collections.OrderedDict()
        for m in self._results:
            labels.setdefault(m.label or "", []).append(m)
        return [line for label, found in labels.items() for line in self._table(label, found)]

    def _table(self, label, measurements):
        unit, scale = choose_unit(min(m.median for m in measurements))
        columns = list(dict.fromkeys(m.description or m.env or "" for m in measurements))
        groups = {}  # threads, then rows of cells by column; several measurements of one cell are one
        for m in measurements:
            row = groups.setdefault(m.num_threads, {}).setdefault(m.as_row_name, {})
            row.setdefault(m.description or m.env or "", []).append(m)
        cells = {threads: {name: {c: self._cell(found, scale) for c, found in row.items()} for name, row in rows.items()}
                 for threads, rows in sorted(groups.items())}
        width = max(len(n) for rows in cells.values() for n in rows)
        widths = [max(len(c), *(len(row[c][0]) for rows in cells.values() for row in rows.values() if c in row)) for c in columns]
        head = " " * (6 + width) + "".join(f"  |  {c:^{w}}" for c, w in zip(columns, widths))
        lines = [f"[{f' {label} ' if label else '':-^{len(head) - 2}}]", head.rstrip()]
        for threads, rows in cells.items():
            lines.append(f"{threads} threads: ".ljust(len(head), "-"))
            for name, row in rows.items():
                best = min(value for _, value in row.values())
                texts = [self._coloured(row.get(c), w, best) for c, w in zip(columns, widths)]
                lines.append(f"      {name:<{width}}" + "".join(f"  |  {t}" for t in texts))
        return [*lines, "", f"Times are in {_WORDS[unit]} ({unit}).", *(
            ["(!) the spread of these times is above a tenth: the figure is rough."] if self._warn else []), ""]

    def _cell(self, found, scale):
        """The text of a time and the time."""
        merged = found[0] if len(found) == 1 else type(found[0]).merge(found)[0]
        value = merged.median / scale
        digits = 1
        if self._trim:
            digits = max(0, merged.significant_figures - 1 - math.floor(math.log10(value))) if value > 0 else 0
            value = round(value, merged.significant_figures - 1 - math.floor(math.log10(value))) if value > 0 else value
        rough = self._warn and merged.has_warnings
        return f"{value:,.{digits}f}{' (!)' if rough else ''}", merged.median

    def _coloured(self, cell, width, best):
        if cell is None:
            return " " * width
        text, value = f"{cell[0]:^{width}}", cell[1]
        if not self._colours or value > 1.25 * best:
            return text
        return f"{_BEST if value == best else _GOOD}{text}{_PLAIN}"
