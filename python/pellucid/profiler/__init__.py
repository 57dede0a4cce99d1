"""torch.profiler's interface over pellucid's recorder.

    with torch.profiler.profile(record_shapes=True) as prof:
        with torch.profiler.record_function("model"):
            model(x)
    print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=10))

`prof.profile` is the whole recording: save(path) writes the file that `pellucid report` reads, report("roofline") a table.
"""
import enum as _enum
import functools as _functools
import os as _os
import time as _time

from .. import _C
from .averages import EventList, FunctionEvent, FunctionEventAvg
from .averages import events as _events
from .graphs import AutogradSystemsProfiler, GraphExecutionProfiler, MemoryStats, estimate
from .model import (Profiler, count_flops, count_parameters, measure_latency, measure_latency_figures, measure_memory,
                    profile_backward_pass, profile_forward_pass, profile_layer, why_alive)

__all__ = ["profile", "record_function", "schedule", "ProfilerActivity", "ProfilerAction", "tensorboard_trace_handler",
           "EventList", "FunctionEvent", "FunctionEventAvg", "load", "diff", "Profiler", "count_flops", "count_parameters",
           "measure_latency", "measure_latency_figures", "measure_memory", "profile_backward_pass", "profile_forward_pass", "profile_layer",
           "why_alive", "GraphExecutionProfiler", "AutogradSystemsProfiler", "MemoryStats", "estimate"]

_USER = 7  # EventKind::User


class ProfilerActivity(_enum.Enum):
    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(_enum.Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities():
    return {ProfilerActivity.CPU}


class record_function:
    """Names a part of the program in its profile: a context, or a decorator."""

    def __init__(self, name, args=None):
        self.name = str(name)

    def __enter__(self):
        _C._profile_begin(_USER, self.name)
        return self

    def __exit__(self, kind, value, traceback):
        _C._profile_end(kind is not None)

    def __call__(self, function):
        @_functools.wraps(function)
        def named(*args, **kwargs):
            with record_function(self.name):
                return function(*args, **kwargs)
        return named


def schedule(*, wait, warmup, active, repeat=0, skip_first=0):
    """Which steps are recorded: after skip_first, `repeat` times (0: always) `wait` idle, `warmup` and `active` ones."""
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ValueError("schedule: wait, warmup, repeat and skip_first must be at least 0 and active at least 1.")

    def action(step):
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        cycle = wait + warmup + active
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """A function for on_trace_ready that writes a Chrome trace as torch-tb-profiler expects its name."""
    def handler(prof):
        _os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{_os.uname().nodename}_{_os.getpid()}"
        path = _os.path.join(dir_name, f"{name}.{_time.time_ns()}.pt.trace.json")
        prof.export_chrome_trace(path + (".gz" if use_gzip else ""))
    return handler


def load(path):
    """Opens a profile that was saved; `with` nothing to stop."""
    opened = profile()
    opened.profile = _C._Profile.load(_os.fspath(path))
    return opened


def diff(first, second, by="op", threshold=0.05):
    """Compares recordings of one program, as `pellucid diff` does: each side is a profile, the path of one, or a list of them.

    Returns what is compared, which scatter the intervals know, whether there is a regression, and the rows: seconds (bytes
    with by="memory") of both, the change with its interval, and the verdict.
    """
    def side(given):
        given = given if isinstance(given, (list, tuple)) else [given]
        return [g._read() if isinstance(g, profile) else load(g)._read() for g in given]
    return _C._diff(side(first), side(second), by, threshold)


class profile:
    """Records what runs inside `with`, or between start() and stop()."""

    def __init__(self, activities=None, *, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
                 with_stack=False, with_flops=False, with_modules=False, experimental_config=None, acc_events=False,
                 use_cuda=None, mode="trace", rate=199.0):
        for activity in activities or ():
            if activity is not ProfilerActivity.CPU:
                raise ValueError(f"profile: there is no {activity.name} here; ask for ProfilerActivity.CPU.")
        self._schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self._ready = on_trace_ready
        self._by = "shape" if record_shapes else ("stack" if with_stack else "")
        self._mode, self._rate, self._stacks = mode, rate, with_stack
        self.step_num = 0
        self.profile = None
        self._session = None
        self._stepping = schedule is not None

    # Recording

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, value, traceback):
        self.stop()

    def start(self):
        self._apply(self._schedule(self.step_num))

    def stop(self):
        had = self._session is not None
        self._stop()
        if had and self._ready:
            self._ready(self)

    def step(self):
        """Ends a step and begins the next, as the schedule says."""
        action = self._schedule(self.step_num)
        self.step_num += 1
        if action is ProfilerAction.RECORD_AND_SAVE:
            self.stop()
        self._stepping = True
        self._apply(self._schedule(self.step_num))

    def _apply(self, action):
        if action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            if self._session is None:
                self._session = _C._profile_start("", self._mode, self._rate, True, self._stacks)
                _modules(True)
            if self._stepping:
                _C._profile_begin_step()
        else:
            self._stop()

    def _stop(self):
        if self._session is None:
            return
        _C._profile_end_step()
        session, self._session = self._session, None
        try:
            self.profile = session.stop()
        finally:
            _modules(False)

    # Reading

    def _read(self):
        if self.profile is None:
            raise RuntimeError("profile: nothing was recorded yet; leave the `with` block, or call stop().")
        return self.profile

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        by = "shape" if group_by_input_shape else ("stack" if group_by_stack_n else "op")
        return EventList(self._read(), by)

    def events(self):
        """Every op and scope that was recorded, as a list of FunctionEvents."""
        return _events(self._read())

    def report(self, name="overview", sort="", by="", limit=-1, format="text"):
        """The table of `pellucid report --table NAME`."""
        return self._read().report(name, sort, by, limit, format).replace("--limit 0 shows all", "limit=0 shows all")

    def export_chrome_trace(self, path):
        path = _os.fspath(path)
        if not path.endswith(".gz"):
            self._read().export("chrome", path)
            return
        import gzip
        plain = path[:-3]
        self._read().export("chrome", plain)
        with open(plain, "rb") as text, gzip.open(path, "wb") as packed:
            packed.write(text.read())
        _os.remove(plain)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        self._read().export("collapsed", _os.fspath(path))

    def save(self, path):
        """Writes the file that `pellucid report` and `pellucid view` read."""
        self._read().save(_os.fspath(path))

    def _repr_html_(self):
        from ._html import overview
        if self.profile is None:
            return "<pre>a profile that has recorded nothing yet</pre>"
        return overview(self.profile)


def _modules(on):
    from ..nn.modules import module
    module._Scopes.recording = on or _C._profile_recording()
