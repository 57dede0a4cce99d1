"""key_averages() and events(): torch.profiler's events, summed by name, shape or line, or one by one; times are microseconds."""
import collections
import json

Interval = collections.namedtuple("Interval", "start end")


class FunctionEvent:
    """One op or scope of a recording, as torch.profiler has them."""

    def __init__(self, number, name, begin, end, own, thread, shapes, flops, memory, line):
        self.id, self.name, self.key, self.count = number, name, name, 1
        self.time_range = Interval(begin / 1e3, end / 1e3)
        self.cpu_time_total = self.cpu_time = (end - begin) / 1e3
        self.self_cpu_time_total = own / 1e3
        self.thread, self.input_shapes, self.flops = thread, shapes, flops
        self.self_cpu_memory_usage = memory
        self.stack = [line] if line else []
        self.cpu_parent, self.cpu_children = None, []

    def __repr__(self):
        return f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time:.3f}us thread={self.thread}>"


def events(profile):
    """Every event of a recording, in the order of their beginning on each thread; parents come before their children."""
    made = []
    for number, (name, begin, end, own, parent, *rest) in enumerate(profile.events()):
        event = FunctionEvent(number, name, begin, end, own, *rest)
        if parent >= 0:
            event.cpu_parent = made[parent]
            made[parent].cpu_children.append(event)
        made.append(event)
    return made


class FunctionEventAvg:
    """One row: an op or scope with its calls."""

    def __init__(self, row):
        self.key = row.get("name", "")
        self.count = int(row.get("calls", 0))
        self.self_cpu_time_total = row.get("self_cpu_seconds", 0.0) * 1e6
        self.cpu_time_total = row.get("cpu_total_seconds", 0.0) * 1e6
        self.cpu_time = self.cpu_time_total / self.count if self.count else 0.0
        self.self_cpu_memory_usage = int(row.get("self_cpu_memory_bytes", 0))
        self.cpu_memory_usage = int(row.get("cpu_memory_bytes", 0))
        self.input_shapes = row.get("input_shapes", "")
        self.stack = [row["source_location"]] if row.get("source_location") else []
        self.flops = row.get("flops", 0)

    def __repr__(self):
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total:.3f}us "
                f"cpu_time={self.cpu_time:.3f}us count={self.count}>")


class EventList(list):
    """The rows of a profile; table() prints them as torch.profiler does."""

    def __init__(self, profile, by):
        self._profile, self._by = profile, by
        rows = json.loads(profile.report("torch", "", by, 0, "json"))["tables"][0]["rows"]
        super().__init__(FunctionEventAvg(row) for row in rows)

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False):
        text = self._profile.report("torch", sort_by or "", self._by, max(row_limit, 0))
        text = text.replace("--limit 0 shows all", "row_limit=-1 shows all")
        return f"{header}\n{text}" if header else text

    __str__ = table

    def _repr_html_(self):
        from ._html import table
        return table(json.loads(self._profile.report("torch", "", self._by, 100, "json"))["tables"][0])

    @property
    def self_cpu_time_total(self):
        return sum(event.self_cpu_time_total for event in self)

    def total_average(self):
        total = FunctionEventAvg({"name": "Total"})
        for event in self:
            total.count += event.count
            total.self_cpu_time_total += event.self_cpu_time_total
            total.self_cpu_memory_usage += event.self_cpu_memory_usage
            total.flops += event.flops or 0
        total.cpu_time_total = total.self_cpu_time_total
        total.cpu_time = total.cpu_time_total / total.count if total.count else 0.0
        return total

    def export_chrome_trace(self, path):
        self._profile.export("chrome", path)
