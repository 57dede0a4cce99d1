"""What a program would cost without running it; and profilers of graphs: what each run of a function costs, how cost grows with
depth, what checkpointing trades. pellucid/estimate.h and pellucid/graph_profilers.h have the same in C++.
"""
from collections import namedtuple

from .. import _C

MemoryStats = namedtuple("MemoryStats", "allocated cached reserved peak")
MemoryStats.__doc__ = """Bytes of the allocator: alive, reserved but free, mapped from the system, and the most alive so far."""

Execution = namedtuple("Execution", "seconds before after graph_nodes")
Execution.__doc__ = """One profiled call: its time, the allocator before and after (after.peak is the most during it), its graph."""


class estimate:
    """Counts what runs inside `with` instead of running it: results have sizes and no memory, so any model fits.

        with estimate() as cost:
            model = torch.nn.Linear(100_000, 100_000)
            cost.phase("forward")
            loss = model(torch.randn(64, 100_000)).sum()
            cost.phase("backward")
            loss.backward()
        cost.phases[1]["peak_bytes"], cost.phases[1]["total_flops"]

    What needs values (item(), numpy()) raises NotImplementedError. Tensors that exist already are not changed.
    """

    def __init__(self):
        self._estimate = _C._Estimate()

    def __enter__(self):
        self._estimate.open()
        return self

    def __exit__(self, kind, value, traceback):
        self._estimate.close()

    def phase(self, name):
        """Ends the phase (the first is called "setup") and begins another."""
        self._estimate.phase(name)

    @property
    def phases(self):
        """A dictionary for each: name, peak_bytes, end_bytes, end_bytes_by_category, calls, contraction_flops (products without
        bias, as torch.utils.flop_counter), other_flops, total_flops, bytes_moved."""
        return self._estimate.phases()


class GraphExecutionProfiler:
    """Times functions and reads the allocator around them, one record an execution.

        profiler = GraphExecutionProfiler()
        for n in (100, 200, 400):
            profiler.profile_execution(lambda x: torch.relu(x @ x), torch.randn(n, n, requires_grad=True))
        print(profiler.report())
    """

    def __init__(self):
        self._profiler = _C._GraphExecutionProfiler()

    def profile_execution(self, f, *args, **kwargs):
        """Calls f(*args, **kwargs) once, records it and returns its result."""
        return self._profiler.profile_execution(f, *args, **kwargs)

    @staticmethod
    def measure_memory():
        """The allocator's counters now."""
        found = _C.memory_stats()
        return MemoryStats(*(found[name] for name in MemoryStats._fields))

    @property
    def records(self):
        return [Execution(r["seconds"], MemoryStats(**r["before"]), MemoryStats(**r["after"]), r["graph_nodes"])
                for r in self._profiler.records()]

    def clear(self):
        self._profiler.clear()

    def report(self):
        """A table with a line for each execution, and their mean."""
        return self._profiler.report()


class AutogradSystemsProfiler:
    """Analyses of automatic differentiation as a system."""

    @staticmethod
    def profile_computational_graph_depth(max_depth=10, operations_per_level=5, *, width=128, repeats=7):
        """Chains of 1 to max_depth levels of pointwise operations: detailed_results, scaling_metrics (exponents of the depth; 1 is
        linear), primary_bottleneck (backward_pass, memory or balanced) and strategies, each with the figure behind it."""
        return _C._profile_computational_graph_depth(max_depth, operations_per_level, width, repeats)

    @staticmethod
    def analyze_memory_checkpointing_trade_offs(frequencies=(1, 2, 4, 8), *, layers=12, width=256, batch=512, repeats=7):
        """A checkpoint around every so many layers: detailed_results (the first is without any) and best_frequency, that of the
        least time x memory; 0 if no checkpoints are best."""
        return _C._analyze_memory_checkpointing_trade_offs(list(frequencies), layers, width, batch, repeats)
