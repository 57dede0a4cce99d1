"""The times of one statement, and what can be said of them."""
import collections
import math
import statistics

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def choose_unit(seconds):
    """The unit in which a time is at least 1, and its seconds."""
    return next((u, s) for u, s in _UNITS if seconds >= s or u == "ns")


select_unit = choose_unit


class Measurement:
    """Times of one statement, in seconds a run. task holds stmt, label, sub_label, description, env and num_threads."""

    def __init__(self, number_per_run, raw_times, task):
        self.number_per_run, self.raw_times, self.task = number_per_run, list(raw_times), task

    def __getattr__(self, name):
        task = self.__dict__.get("task", {})
        if name in task:
            return task[name]
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self):
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self):
        return statistics.median(self.times)

    @property
    def mean(self):
        return statistics.fmean(self.times)

    @property
    def iqr(self):
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def significant_figures(self):
        """How many digits the spread of the times supports, 1 to 5."""
        if len(self.times) < 2 or not self.iqr:
            return 5
        spread = max(self.iqr / 1.349 / math.sqrt(len(self.times)) * 1.645, self.median * 1e-6)  # 90 % of the median's noise
        return max(1, min(5, 1 + math.floor(math.log10(self.median / spread))))

    @property
    def has_warnings(self):
        """Whether the spread is so wide that the median says little."""
        return self.iqr / self.median > 0.1 if self.median else True

    def meets_confidence(self, threshold=0.1):
        """Whether the spread is below a share of the median."""
        return self.median > 0 and self.iqr / self.median < threshold

    @property
    def title(self):
        label = self.task["label"] or self.task["stmt"]
        return f"{label}: {self.task['sub_label']}" if self.task["sub_label"] else label

    @property
    def as_row_name(self):
        return self.task["sub_label"] or self.task["stmt"] or "[Unknown]"

    @staticmethod
    def merge(measurements):
        """One Measurement for all of the same task."""
        groups = collections.OrderedDict()
        for m in measurements:
            groups.setdefault(tuple(sorted((k, str(v)) for k, v in m.task.items())), []).append(m)
        return [Measurement(1, [t for m in found for t in m.times], found[0].task) for found in groups.values()]

    def __repr__(self):
        unit, scale = choose_unit(self.median)
        number = lambda v: f"{v / scale:.2f} {unit}"
        lines = [f"<{type(self).__module__.rpartition('.')[0]}.Measurement object at {id(self):#x}>", self.title]
        if self.task["description"]:
            lines.append(self.task["description"])
        count, threads = len(self.times), self.task["num_threads"]
        if count > 1:
            lines += [f"  Median: {number(self.median)}", f"  IQR:    {number(self.iqr)}"]
        else:
            lines += [f"  {number(self.median)}"]
        lines.append(f"  {count} measurement{'s' if count > 1 else ''}, {self.number_per_run} runs per measurement, "
                     f"{threads} thread{'s' if threads > 1 else ''}")
        if self.has_warnings and count > 3:
            lines.append(f"  WARNING: Interquartile range is {self.iqr / self.median:.1%} of the median measurement.")
        return "\n".join(lines)
