"""Memory that processes share: share_memory_, modules trained in other processes, queues, pipes, what is left when one dies."""
import copy
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap

import pytest

import pellucid as torch
import pellucid.multiprocessing as mp
from pellucid import nn

METHODS = ["fork", "spawn", "forkserver"]


def maps():
    """How many memory files this process has mapped."""
    gc.collect()
    return sum("memfd:pellucid" in line for line in open("/proc/self/maps"))


def descriptors():
    gc.collect()
    return sum("memfd:pellucid" in os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
               if os.path.islink(f"/proc/self/fd/{n}"))


def test_sharing_moves_the_storage_of_all_views():
    base = torch.arange(10.0)
    view, other = base[2:], base.view(2, 5).t()
    before = maps()
    assert not base.is_shared() and not torch.empty(0).is_shared()
    assert view.share_memory_() is view and base.is_shared() and other.is_shared() and base[4:6].is_shared()
    assert base.tolist() == list(range(10)) and other.stride() == (1, 5) and maps() == before + 1
    view[0] = 50
    assert base[2] == 50 and other[2, 0] == 50
    assert base.share_memory_().data_ptr() == view.data_ptr() - 8 and maps() == before + 1
    assert not base.clone().is_shared() and not (base + 1).is_shared() and not copy.deepcopy(base).is_shared()
    empty, grad = torch.empty(0, 3).share_memory_(), torch.ones(2, requires_grad=True).share_memory_()
    assert empty.is_shared() and empty.shape == (0, 3) and grad.is_shared() and grad.requires_grad
    (grad * 2).sum().backward()
    assert grad.grad.tolist() == [2, 2] and not grad.grad.is_shared()
    with pytest.raises(RuntimeError, match="not resizable"):
        base.resize_(1000)
    array = base.numpy()
    array[0] = 7
    assert base[0] == 7 and view.untyped_storage().is_shared()
    del base, view, other, empty, grad
    assert array[0] == 7  # the array keeps the mapping
    del array
    assert maps() == before and descriptors() == before


def test_sharing_refuses_memory_that_an_array_looks_at():
    t = torch.ones(3)
    array = t.numpy()
    with pytest.raises(RuntimeError, match="looks at this memory"):
        t.share_memory_()
    assert not t.is_shared() and array.tolist() == [1, 1, 1]
    del array
    assert t.share_memory_().is_shared()


def test_shared_memory_is_counted():
    import pellucid._C as C
    before = C.memory_stats()["allocated"]
    t = torch.zeros(1 << 20)
    assert C.memory_stats()["allocated"] == before + (4 << 20)
    t.share_memory_()
    assert C.memory_stats()["allocated"] == before + (4 << 20)
    del t
    assert C.memory_stats()["allocated"] == before


def test_shared_memory_in_a_profile():
    from pellucid.profiler import profile
    with profile(profile_memory=True) as prof:
        t = torch.zeros(1 << 20)
        t.share_memory_()
        t.add_(1)
        del t
    assert prof.key_averages() is not None


def add(tensors, value):
    for t in tensors:
        t.add_(value)


@pytest.mark.parametrize("method", METHODS)
def test_a_process_changes_what_it_was_given(method):
    t = torch.zeros(4).share_memory_()
    process = mp.get_context(method).Process(target=add, args=([t, t[1:3]], 1))
    process.start()
    process.join()
    assert process.exitcode == 0 and t.tolist() == [1, 2, 2, 1]


def train(model, steps=20):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        ((model(torch.arange(24.0).view(8, 3).sin()) - 1) ** 2).mean().backward()
        optimizer.step()


@pytest.mark.parametrize("method", METHODS)
def test_hogwild(method):
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)).share_memory()
    assert all(p.is_shared() for p in model.parameters()) and all(b.is_shared() for b in model.buffers())
    before = [p.detach().clone() for p in model.parameters()]
    steps = model[1].num_batches_tracked.item()
    processes = [mp.get_context(method).Process(target=train, args=(model,)) for _ in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    assert [p.exitcode for p in processes] == [0, 0]
    assert not any(torch.equal(b, p) for b, p in zip(before[:1] + before[2:], [model[0].weight, *list(model.parameters())[2:]]))
    assert model[1].num_batches_tracked.item() > steps


def test_spawn_trains_the_parents_model():
    model = nn.Linear(3, 1)
    before = model.weight.detach().clone()
    mp.spawn(_train_rank, args=(model,), nprocs=1)  # as in PyTorch, what is sent is shared from then on
    assert model.weight.is_shared() and not torch.equal(before, model.weight)


def _train_rank(rank, model):
    train(model)


def echo(queue, back):
    base, view, parameter = queue.get()
    assert base.data_ptr() + 8 == view.data_ptr() and type(parameter) is nn.Parameter and parameter.requires_grad
    base[2] = 20
    assert view[0] == 20
    with torch.no_grad():
        parameter.fill_(3)
    back.put((base, torch.full((2,), 5.0), "text"))
    queue.get()  # stays alive until the parent has what it sent


@pytest.mark.parametrize("method", METHODS)
def test_queues_share(method):
    context = mp.get_context(method)
    queue, back = context.Queue(), context.SimpleQueue()
    process = context.Process(target=echo, args=(queue, back))
    process.start()
    base, parameter = torch.arange(4.0), nn.Parameter(torch.ones(2))
    queue.put((base, base[2:], parameter))
    again, made, text = back.get()
    assert base.tolist() == [0, 1, 20, 3] and parameter.tolist() == [3, 3] and made.tolist() == [5, 5] and text == "text"
    assert again.is_shared() and again.data_ptr() == base.data_ptr()  # the same storage, not a second mapping
    queue.put(None)
    process.join()
    assert process.exitcode == 0


def send_and_end(connection, n, patience):
    from pellucid import _sharing
    _sharing._PATIENCE = patience
    connection.send(torch.arange(float(n)))
    connection.close()


@pytest.mark.parametrize("method", METHODS)
def test_a_sender_waits_until_what_it_sent_has_arrived(method):
    mine, theirs = mp.get_context(method).Pipe()
    for n in (10, 1_000_000):
        process = mp.get_context(method).Process(target=send_and_end, args=(theirs, n, 60.0))
        process.start()
        process.join(3)
        assert mine.recv().tolist() == list(range(n))
        process.join()
        assert process.exitcode == 0


def test_a_sender_that_has_ended():
    mine, theirs = mp.get_context("fork").Pipe()
    for n in (10, 1_000_000):
        process = mp.get_context("fork").Process(target=send_and_end, args=(theirs, n, 0.0))
        process.start()
        process.join()
        if n == 10:  # small ones travel with the message
            assert mine.recv().tolist() == list(range(10))
        else:
            with pytest.raises(RuntimeError, match="the process that sent it has ended"):
                mine.recv()


def test_what_is_sent_is_a_leaf():
    mine, theirs = mp.Pipe()
    with pytest.raises(RuntimeError, match="non-leaf"):
        mine.send(torch.ones(2, requires_grad=True) * 2)
    t = torch.ones(3)
    array = t.numpy()
    mine.send(t)  # cannot move: a copy is sent
    assert theirs.recv().tolist() == [1, 1, 1] and not t.is_shared() and array[0] == 1

    class Mine(torch.Tensor):
        pass
    assert multiprocessing.reduction.ForkingPickler._extra_reducers[Mine] is mp.reduce_tensor


def test_pickles_hold_values():
    t = torch.ones(3).share_memory_()
    got = pickle.loads(pickle.dumps(t))
    got[0] = 9
    assert t[0] == 1 and not got.is_shared()


def killed(t):
    t.add_(1)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_is_killed_leaves_nothing(method):
    segments = set(os.listdir("/dev/shm"))
    t = torch.zeros(1000).share_memory_()
    process = mp.get_context(method).Process(target=killed, args=(t,))
    process.start()
    process.join()
    assert process.exitcode == -9 and t.sum() == 1000
    assert not {s for s in set(os.listdir("/dev/shm")) - segments if "pellucid" in s or "torch" in s}


def pool_work(t):
    t.mul_(2)
    return t + 1


def test_pools():
    t = torch.ones(3).share_memory_()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(pool_work, [t])[0].tolist() == [3, 3, 3]
    assert t.tolist() == [2, 2, 2]
    import concurrent.futures
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
        assert pool.submit(pool_work, t).result().tolist() == [5, 5, 5]
    assert t.tolist() == [4, 4, 4]


def many(tensors):
    for t in tensors:
        t.add_(1)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_more_tensors_than_descriptors_of_a_message(method):
    tensors = [torch.zeros(2) for _ in range(300)]
    process = mp.get_context(method).Process(target=many, args=(tensors,))
    process.start()
    process.join()
    assert process.exitcode == 0 and all(t.tolist() == [1, 1] for t in tensors)


def test_no_more_descriptors():
    code = ("import resource, pellucid as torch\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
            "kept = []\n"
            "try:\n"
            "    while True:\n"
            "        kept.append(torch.ones(2)); kept[-1].share_memory_()\n"
            "except torch.IoError as e:\n"
            "    print('ulimit' in str(e), kept[-1].tolist(), kept[-1].is_shared(), kept[0].is_shared())\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
    assert done.stdout == "True [1.0, 1.0] False True\n", done.stderr


PROGRAM = """
    import concurrent.futures, os, sys
    WHERE = sys.path[0]
    import torch, torch.multiprocessing as mp

    def work(queue=None):
        import torch
        import torch.nn as nn
        from torch.utils.data import DataLoader
        found = torch.__name__, nn.__name__, torch.ones(2).sum().item()
        return queue.put(found) if queue else found

    def nested(queue):
        inner = mp.get_context('spawn').SimpleQueue()
        child = mp.get_context('spawn').Process(target=work, args=(inner,))
        child.start(); child.join()
        queue.put(inner.get())

    def ranked(rank, queue):
        queue.put(work())

    if __name__ == '__main__':
        assert WHERE == os.path.dirname(os.path.abspath(__file__)), WHERE
        for method in ('fork', 'spawn', 'forkserver'):
            context = mp.get_context(method)
            for target in (work, nested):
                queue = context.SimpleQueue()
                child = context.Process(target=target, args=(queue,))
                child.start(); child.join()
                print(method, child.exitcode, queue.get())
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
                print(method, 'pool', pool.submit(work).result())
        queue = mp.get_context('spawn').SimpleQueue()
        mp.spawn(ranked, args=(queue,), nprocs=1)
        print('spawn()', queue.get())
"""


def run_as_torch(tmp_path, program, **environment):
    (tmp_path / "program.py").write_text(program)
    return subprocess.run([sys.executable, "-m", "pellucid", "program.py"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, **environment})


@pytest.mark.parametrize("begin", ["", "import sys; sys.path.insert(0, FAKE)\n"], ids=["on the path", "put first by the program"])
def test_children_never_get_another_torch(tmp_path, begin):
    """A package `torch` that raises when it is imported stands for a real PyTorch that PYTHONPATH reaches."""
    other = tmp_path / "elsewhere"
    (other / "torch").mkdir(parents=True)
    (other / "torch" / "__init__.py").write_text("raise SystemExit('another torch was imported')")
    program = textwrap.dedent(PROGRAM)
    if begin:
        program = begin.replace("FAKE", repr(str(other))) + program.replace("WHERE = sys.path[0]", "WHERE = sys.path[1]")
    done = run_as_torch(tmp_path, program, PYTHONPATH=str(other))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 10 and all("('pellucid', 'pellucid.nn', 2.0)" in line for line in lines), done.stdout
