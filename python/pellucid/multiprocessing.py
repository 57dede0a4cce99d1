"""torch.multiprocessing: Python's own, with spawn(). Tensors that are sent are copied, through safe bytes."""
import multiprocessing as _real
from multiprocessing import *  # noqa: F401,F403
from multiprocessing import get_context, get_start_method, set_start_method  # noqa: F401


def _run(fn, i, args):
    fn(i, *args)


class ProcessRaisedException(Exception):
    """A process that spawn() started ended with an error."""


class SpawnContext:
    """Processes that run; join() waits for them."""

    def __init__(self, processes):
        self.processes = processes

    def pids(self):
        return [p.pid for p in self.processes]

    def join(self, timeout=None):
        """Waits; an error in a process is an error here."""
        for i, process in enumerate(self.processes):
            process.join(timeout)
            if process.exitcode:
                for other in self.processes:
                    if other.is_alive():
                        other.terminate()
                raise ProcessRaisedException(f"process {i} terminated with exit code {process.exitcode}")
        return all(p.exitcode == 0 for p in self.processes)


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Calls fn(i, *args) in nprocs processes."""
    context = _real.get_context(start_method)
    processes = [context.Process(target=_run, args=(fn, i, args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    started = SpawnContext(processes)
    if not join:
        return started
    while not started.join():
        pass
    return None


def set_sharing_strategy(new_strategy):
    """Accepted: what is sent is copied."""


def get_sharing_strategy():
    """'copy': what is sent is copied."""
    return "copy"
