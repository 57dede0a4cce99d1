"""key_averages(): torch.profiler's events summed by name, shape or line; times are microseconds."""
import json


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
