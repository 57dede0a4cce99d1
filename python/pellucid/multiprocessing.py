"""torch.multiprocessing: Python's own, with spawn(). Tensors that are sent share their memory with the receiver (_sharing.py)."""
import multiprocessing as _real
from multiprocessing import *  # noqa: F403
from multiprocessing import get_context, get_start_method, set_start_method  # noqa: F401

from ._sharing import send_tensor as reduce_tensor  # noqa: F401


def _run(fn, i, args):
    fn(i, *args)


class ProcessException(Exception):
    """A process that spawn() started failed."""


class ProcessRaisedException(ProcessException):
    """A process that spawn() started ended with an error."""


class ProcessExitedException(ProcessException):
    """A process that spawn() started was ended by a signal or an exit code."""


class ProcessContext:
    """Processes that run; join() waits for them."""

    def __init__(self, processes):
        self.processes = processes

    def pids(self):
        return [p.pid for p in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Waits; an error in a process is an error here."""
        for i, process in enumerate(self.processes):
            process.join(timeout)
            if process.exitcode:
                for other in self.processes:
                    if other.is_alive():
                        other.terminate()
                kind = ProcessExitedException if process.exitcode < 0 else ProcessRaisedException
                raise kind(f"process {i} terminated with exit code {process.exitcode}")
        return all(p.exitcode == 0 for p in self.processes)


SpawnContext = ProcessContext


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Calls fn(i, *args) in nprocs processes."""
    context = _real.get_context(start_method)
    processes = [context.Process(target=_run, args=(fn, i, args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    started = ProcessContext(processes)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Calls fn(i, *args) in nprocs processes."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


_strategy = "file_descriptor"


def get_all_sharing_strategies():
    """PyTorch's names. Memory is shared by descriptors in both cases: no names are left behind."""
    return {"file_descriptor", "file_system"}


def set_sharing_strategy(new_strategy):
    """Kept for those who ask."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"sharing strategy must be one of {sorted(get_all_sharing_strategies())}, found {new_strategy!r}")
    _strategy = new_strategy


def get_sharing_strategy():
    """What set_sharing_strategy was called with."""
    return _strategy
