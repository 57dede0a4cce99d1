"""torch.utils.benchmark: Timer, Measurement and Compare."""
import textwrap
import time
import timeit

from .compare import Compare  # noqa: F401
from .measurement import Measurement, select_unit  # noqa: F401


class Timer:
    """Times a statement on a set number of threads."""

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=time.perf_counter, globals=None, label=None,
                 sub_label=None, description=None, env=None, num_threads=1, language=None):
        if not isinstance(stmt, str):
            raise ValueError(f"Currently only str is supported as the statement, not {type(stmt).__name__}")
        if language not in (None, "python", "Python", "py"):
            raise NotImplementedError(f"Timer: only Python statements are timed, not {language}")
        space = dict(globals or {})
        import pellucid
        space.setdefault("torch", pellucid)
        clean = lambda text: textwrap.dedent(text).strip() or "pass"
        if global_setup:
            exec(clean(global_setup), space)
        self._timer = timeit.Timer(clean(stmt), clean(setup), timer, space)
        self._task = {"stmt": clean(stmt), "setup": clean(setup), "label": label, "sub_label": sub_label,
                      "description": description, "env": env, "num_threads": num_threads}

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

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Blocks until the spread is below a share of the median, or max_run_time seconds passed."""
        with _threads(self._task["num_threads"]):
            number = self._block_size(min_run_time)
            times, total = [], 0.0
            while total < max_run_time:
                times.append(self._timer.timeit(number))
                total += times[-1]
                if callback:
                    callback(number, times[-1])
                if len(times) > 3 and total >= min_run_time and Measurement(number, times, self._task).meets_confidence(threshold):
                    break
        return Measurement(number, times, self._task)

    def _block_size(self, min_run_time):
        """So many runs that reading the clock does not count, and a hundred blocks fit into the time."""
        number = 1
        self._timer.timeit(1)  # what is slow only once
        while number < 10**9 and self._timer.timeit(number) < max(min_run_time / 100, 1e-4):
            number *= 10
        return number


class _threads:
    """How statements are timed: on so many threads, and eagerly, so that what is timed runs."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        from ... import _C
        self.before = _C.get_num_threads()
        _C._enter_lazy(False)
        _C.set_num_threads(self.count)

    def __exit__(self, *_):
        from ... import _C
        _C.set_num_threads(self.before)
        _C._leave_lazy()
