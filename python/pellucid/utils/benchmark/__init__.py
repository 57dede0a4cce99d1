"""torch.utils.benchmark: Timer and Measurement."""
import statistics
import time
import timeit


class Measurement:
    """Times of one statement, in seconds a run."""

    def __init__(self, number_per_run, raw_times, task):
        self.number_per_run, self.raw_times, self.task = number_per_run, raw_times, task

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
        low, _, high = statistics.quantiles(self.times, n=4)
        return high - low

    def __repr__(self):
        units = ("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)
        unit, scale = next((u, s) for u, s in units if self.median >= s or u == "ns")
        number = lambda v: f"{v / scale:.2f} {unit}"
        lines = [f"<{__name__}.Measurement object at {id(self):#x}>", self.task["label"] or self.task["stmt"]]
        if len(self.times) > 1:
            lines += [f"  Median: {number(self.median)}", f"  IQR:    {number(self.iqr)}"]
        else:
            lines += [f"  {number(self.median)}"]
        lines.append(f"  {len(self.times)} measurement{'s' if len(self.times) > 1 else ''}, {self.number_per_run} runs per "
                     f"measurement, {self.task['num_threads']} thread{'s' if self.task['num_threads'] > 1 else ''}")
        return "\n".join(lines)


class Timer:
    """Times a statement on a set number of threads."""

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=time.perf_counter, globals=None, label=None,
                 sub_label=None, description=None, env=None, num_threads=1, language=None):
        space = dict(globals or {})
        import pellucid
        space.setdefault("torch", pellucid)
        self._timer = timeit.Timer(stmt, setup, timer, space)
        self._task = {"stmt": stmt, "label": label, "sub_label": sub_label, "description": description,
                      "num_threads": num_threads}

    def timeit(self, number=1000000):
        """One measurement of `number` runs, after a warm-up."""
        with _threads(self._task["num_threads"]):
            self._timer.timeit(max(number // 100, 2))
            return Measurement(number, [self._timer.timeit(number)], self._task)

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Measurements of equal blocks for at least min_run_time seconds."""
        with _threads(self._task["num_threads"]):
            number = self._block_size(min_run_time)
            times, total = [], 0.0
            while total < min_run_time:
                times.append(self._timer.timeit(number))
                total += times[-1]
                if callback:
                    callback(number, times[-1])
        return Measurement(number, times, self._task)

    def _block_size(self, min_run_time):
        """So many runs that reading the clock is below a thousandth."""
        number = 1
        while True:
            taken = self._timer.timeit(number)
            if taken >= min(min_run_time / 1000, 1e-3) or number >= 10**9:
                return number
            number *= 10


class _threads:
    def __init__(self, count):
        self.count = count

    def __enter__(self):
        from ... import _C
        self.before = _C.get_num_threads()
        _C.set_num_threads(self.count)

    def __exit__(self, *_):
        from ... import _C
        _C.set_num_threads(self.before)
