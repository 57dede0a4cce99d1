"""Programs run eagerly, lazily, compiled and sealed: whatever a program can observe is the same, or it is refused with the line."""
import argparse, collections, copy, gc, io, pickle, random, types

import numpy as np
import pytest

import pellucid as torch
from pellucid import _C, nn
from pellucid.nn import functional as F


def bits(t):
    return t.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b""


def attempt(f, *args):
    """What a call gives, or what it raises."""
    try:
        return f(*args)
    except Exception as e:
        return type(e).__name__, str(e)


class Machine:
    """A random program over a pool of tensors; `log` is all that it observes. Each step draws from a generator of its own, so that
    steps can be left out. Some steps raise; none reads memory that nobody wrote."""

    DTYPES = [torch.float32] * 4 + [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.uint8]
    SIZES = [(), (1,), (3,), (4,), (2, 3), (3, 3), (2, 3, 4), (0, 3), (80, 70)]
    NUMBERS = [True, 2, 0.5, -1, np.float32(0.25), np.int64(3), np.bool_(True), 1e300]
    VIEWS = [
        lambda m, t: t.view(-1), lambda m, t: t.t(), lambda m, t: t[m.index()], lambda m, t: t.unsqueeze(0), lambda m, t: t.detach(),
        lambda m, t: t.expand(2, *t.shape), lambda m, t: t.data, lambda m, t: t.transpose(0, -1), lambda m, t: t.narrow(0, 0, 1),
        lambda m, t: t.squeeze(), lambda m, t: t.diagonal(), lambda m, t: t.as_strided((2, 2), (1, 1)), lambda m, t: t.unfold(0, 2, 1),
        lambda m, t: t.reshape(-1), lambda m, t: t.view(torch.int32), lambda m, t: t.split(1)[-1], lambda m, t: t.unbind(0)[0],
        lambda m, t: t.contiguous(), lambda m, t: t.to(torch.float32)]
    RESULTS = [
        lambda m, a, b: torch.exp(a), lambda m, a, b: a.sum(0), lambda m, a, b: a.softmax(-1), lambda m, a, b: a.clone(),
        lambda m, a, b: a.sort()[0], lambda m, a, b: F.dropout(a, 0.5), lambda m, a, b: a.double(), lambda m, a, b: a.half(),
        lambda m, a, b: a.bool(), lambda m, a, b: a[a > 0], lambda m, a, b: a.argmax(), lambda m, a, b: a.nonzero(),
        lambda m, a, b: torch.randn_like(a), lambda m, a, b: a.tril(), lambda m, a, b: F.one_hot(a, 5), lambda m, a, b: torch.tensor(a),
        lambda m, a, b: torch.utils.checkpoint.checkpoint(lambda x: F.dropout(x * 2, 0.5), a, use_reentrant=False),
        lambda m, a, b: a + b, lambda m, a, b: a * b, lambda m, a, b: a / b, lambda m, a, b: a @ b,
        lambda m, a, b: torch.where(a > b, a, b),
        lambda m, a, b: torch.cat([a, b]), lambda m, a, b: F.linear(a, b), lambda m, a, b: a - m.number(), lambda m, a, b: m.number() * a,
        lambda m, a, b: a // b, lambda m, a, b: a < m.number(), lambda m, a, b: a[b], lambda m, a, b: torch.index_select(a, 0, b),
        lambda m, a, b: F.mse_loss(a, b), lambda m, a, b: F.cross_entropy(a, b), lambda m, a, b: torch.add(a, b, alpha=m.number()),
        lambda m, a, b: copy.deepcopy(a), lambda m, a, b: pickle.loads(pickle.dumps(a)), lambda m, a, b: nn.Parameter(a),
        lambda m, a, b: torch.from_dlpack(a), lambda m, a, b: torch.from_numpy(a.detach().numpy()), lambda m, a, b: m.saved(a)]
    CHANGES = [
        lambda m, a, b: a.add_(1), lambda m, a, b: a.mul_(b), lambda m, a, b: a.copy_(b), lambda m, a, b: a.zero_(),
        lambda m, a, b: a.relu_(), lambda m, a, b: a.__setitem__(m.index(), 1.0), lambda m, a, b: a.__setitem__(a > 0, 0),
        lambda m, a, b: a.__setitem__(m.index(), b), lambda m, a, b: a.__setitem__(..., b), lambda m, a, b: a.t_(),
        lambda m, a, b: a.detach_(), lambda m, a, b: a.unsqueeze_(0), lambda m, a, b: a.requires_grad_(),
        lambda m, a, b: setattr(a, "data", b), lambda m, a, b: a.fill_(b.sum()), lambda m, a, b: a.fill_(m.number()),
        lambda m, a, b: a.set_(b), lambda m, a, b: a.masked_fill_(a > 0, m.number()), lambda m, a, b: a.scatter_(0, b, 1),
        lambda m, a, b: a.index_add_(0, torch.tensor([0]), b), lambda m, a, b: a.uniform_(), lambda m, a, b: a.bernoulli_(0.5),
        lambda m, a, b: a.clamp_(-1, 1), lambda m, a, b: a.div_(b), lambda m, a, b: torch.add(a, b, out=m.pick()),
        lambda m, a, b: torch.sum(a, 0, out=b), lambda m, a, b: a.data.add_(1), lambda m, a, b: a.detach().mul_(2),
        lambda m, a, b: setattr(a, "grad", m.draw.choice([None, b])), lambda m, a, b: torch.utils.swap_tensors(a, b),
        lambda m, a, b: torch.optim.SGD([a], lr=0.1, momentum=0.9).step(), lambda m, a, b: torch.nn.utils.clip_grad_norm_([a], 1.0)]

    def __init__(self, seed, steps=60):
        self.seed, self.steps, self.draw = seed, steps, random.Random(seed)
        self.pool, self.arrays, self.log, self.state = [], [], [], None

    def pick(self):
        return self.draw.choice(self.pool)

    def number(self):
        return self.draw.choice(self.NUMBERS)

    def index(self):
        return self.draw.choice([0, -1, slice(None, None, 2), None, (..., 0), torch.tensor([0, 0]), torch.tensor([0, 2]), [0, -1], True,
                                 torch.tensor(0), (slice(None), torch.tensor([0])), (torch.tensor([0]), torch.tensor([1]))])

    def saved(self, t):
        file = io.BytesIO()
        torch.save(t, file)
        file.seek(0)
        return torch.load(file)

    def new(self):
        dtype, sizes = self.draw.choice(self.DTYPES), self.draw.choice(self.SIZES)
        if not dtype.is_floating_point:
            return torch.randint(0, 3, sizes).to(dtype)
        return (torch.rand(sizes, dtype=torch.float32) * 4 - 2).to(dtype).requires_grad_(self.draw.random() < 0.4)

    def backward(self):
        self.pick().sum().backward(retain_graph=self.draw.random() < 0.5, create_graph=self.draw.random() < 0.3)

    def grad(self):
        found = torch.autograd.grad(self.pick().sum(), [self.pick(), self.pick()], allow_unused=self.draw.random() < 0.8,
                                    retain_graph=True, create_graph=self.draw.random() < 0.5)
        self.pool += [t for t in found if t is not None]

    def hook(self):
        t, kind = self.pick(), self.draw.randrange(6)

        def hook(g):
            self.log.append(("hook", kind, g.shape, g.dtype, g.tolist() if kind == 0 else None))
            if kind == 1:
                raise ValueError("from a hook")
            if kind == 2:
                self.pool.append(g)
            if kind == 3:
                g.mul_(2)
            return g * 2 if kind == 4 else None
        self.draw.choice([lambda: t.register_hook(hook), t.retain_grad,
                          lambda: t.register_post_accumulate_grad_hook(lambda p: hook(p.grad) and None)])()

    def numbers(self):
        kind = self.draw.randrange(4)
        if kind == 0:
            torch.manual_seed(self.draw.randrange(100))
        elif kind == 1:
            self.state = torch.get_rng_state()
        elif kind == 2 and self.state is not None:
            torch.set_rng_state(self.state)
        else:
            self.pool.append(torch.randn(3, generator=torch.Generator().manual_seed(5)))

    def array(self):
        kind = self.draw.randrange(3)
        if kind == 0:
            self.arrays.append(np.arange(4, dtype=self.draw.choice(["float32", "int64"])))
            self.pool.append(torch.from_numpy(self.arrays[-1]))
        elif kind == 1:
            self.arrays.append(self.pick().detach().numpy())
        elif self.arrays:
            array = self.draw.choice(self.arrays)
            array[...] = array + 1 if array.dtype != bool else ~array

    def read(self):
        t = self.pick()
        self.log.append(repr(self.draw.choice([t.tolist, t.item, lambda: repr(t), lambda: bool(t), lambda: t.sum().item()])()))

    def forget(self):
        del self.pool[1:1 + self.draw.randrange(4)]
        gc.collect()

    def mode(self):
        with self.draw.choice([torch.no_grad, torch.enable_grad, torch.inference_mode, torch.lazy])():
            self.step()

    def default(self):
        torch.set_default_dtype(self.draw.choice([torch.float32, torch.float64]))

    OTHERS = [backward, backward, grad, hook, numbers, array, array, read, forget, mode, default]

    def step(self):
        which = self.draw.random()
        if which < 0.1:
            made = self.new()
        elif which < 0.25:
            made = self.draw.choice(self.VIEWS)(self, self.pick())
        elif which < 0.5:
            made = self.draw.choice(self.RESULTS)(self, self.pick(), self.pick())
        elif which < 0.75:
            made = self.draw.choice(self.CHANGES)(self, self.pick(), self.pick()) and None
        else:
            made = self.draw.choice(self.OTHERS)(self)
        if isinstance(made, torch.Tensor):
            self.pool.append(made)

    def facts(self, t):
        return (t.shape, t.dtype, t.stride(), t.storage_offset(), attempt(lambda: t._version), t.is_leaf, t.requires_grad,
                t.grad_fn and t.grad_fn.name(), t.is_inference(), next((i for i, p in enumerate(self.pool) if p is t._base), None))

    def run(self):
        torch.manual_seed(0)
        self.pool += [self.new() for _ in range(4)]
        try:
            for i in range(self.steps):
                self.draw.seed(self.seed * 1000 + i)
                self.log.append((i, attempt(self.step)))
                if len(self.pool) > 24:
                    del self.pool[4:12]
                while len(self.pool) < 2:
                    self.pool.append(self.new())
                if i % 7 == 0:
                    self.log += [attempt(self.facts, t) for t in self.pool]
        finally:
            torch.set_default_dtype(torch.float32)
        memory = {}
        for t in self.pool:
            gradient = attempt(lambda: t.grad if t.is_leaf else None)
            self.log.append((attempt(self.facts, t), attempt(bits, t), gradient if not isinstance(gradient, torch.Tensor) else
                             (attempt(self.facts, gradient), attempt(bits, gradient)),
                             attempt(lambda: memory.setdefault(t.untyped_storage().data_ptr(), len(memory)) if t.numel() else None)))
        self.log += [a.tobytes() for a in self.arrays]
        return self.log


def lazily(f):
    with torch.lazy():
        return f()


@pytest.mark.parametrize("block", range(4))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_observe_what_the_eager_run_observes(block):
    for seed in range(block * 10, block * 10 + 10):
        with torch.lazy(False):
            eager = Machine(seed).run()
        for way in (lazily, lambda f: torch.compile(f, mode="max-autotune")()):
            other = way(Machine(seed).run)
            for a, b in zip(eager, other):
                assert repr(a) == repr(b), f"seed {seed}"
            assert len(eager) == len(other)


def test_a_captured_call_computes_as_when_it_was_made():
    def f(x, b):
        torch.set_default_dtype(torch.float64)
        inside = x.sin(), x / 3, x < 0.3, b.exp()
        torch.set_default_dtype(torch.float32)
        return (*inside, x.sin(), x / 3, x < 0.3, b.exp())
    x, b = torch.arange(5), torch.tensor([True, False])
    with torch.lazy(False):
        eager = [bits(t) for t in f(x, b)]
    compiled = torch.compile(f, mode="max-autotune")
    for _ in range(3):
        assert [bits(t) for t in compiled(x, b)] == eager
    with torch.lazy():
        assert [bits(t) for t in f(x, b)] == eager


def test_clipping_that_changes_nothing_counts_as_a_change():
    def version(lazy):
        p = nn.Parameter(torch.ones(3))
        with torch.lazy(lazy):
            (p * 0.1).sum().backward()
            nn.utils.clip_grad_norm_([p], 100.0)
            return p.grad._version
    assert version(False) == version(True) == 1


class Plain:
    k = 2


class Slots:
    __slots__ = ("k",)


def with_k(kind):
    value = kind()
    value.k = 2
    return value


# What a sealed function is given, how it uses that, and what the program does to it between two calls.
CHANGES = {
    "list": (lambda: [2], lambda x, o: x * o[0], lambda o: o.__setitem__(0, 3)),
    "list in a list": (lambda: [[2]], lambda x, o: x * o[0][0], lambda o: o[0].__setitem__(0, 3)),
    "longer list": (lambda: [2], lambda x, o: x * len(o), lambda o: o.append(0)),
    "dict": (lambda: {"k": 2}, lambda x, o: x * o["k"], lambda o: o.update(k=3)),
    "set": (lambda: {2}, lambda x, o: x * len(o), lambda o: o.add(3)),
    "deque": (lambda: collections.deque([2]), lambda x, o: x * o[0], lambda o: o.appendleft(3)),
    "object": (lambda: with_k(Plain), lambda x, o: x * o.k, lambda o: setattr(o, "k", 3)),
    "object with slots": (lambda: with_k(Slots), lambda x, o: x * o.k, lambda o: setattr(o, "k", 3)),
    "namespace": (lambda: argparse.Namespace(k=2), lambda x, o: x * o.k, lambda o: setattr(o, "k", 3)),
    "array": (lambda: np.ones(2), lambda x, o: x * float(o[0]), lambda o: o.fill(3)),
    "bytearray": (lambda: bytearray(b"a"), lambda x, o: x * o[0], lambda o: o.__setitem__(0, 3)),
    "attribute of a module": (lambda: nn.Dropout(0.0), lambda x, o: o(x), lambda o: setattr(o, "p", 1.0)),
    "attribute of a module that is not called": (lambda: with_k(nn.ReLU), lambda x, o: x * o.k, lambda o: setattr(o, "k", 3)),
    "mode": (lambda: nn.Sequential(nn.Dropout(0.5)), lambda x, o: o(x), lambda o: o.eval()),
    "statistics": (lambda: nn.BatchNorm1d(3), lambda x, o: o(x), lambda o: o.eval()),
    "part": (lambda: nn.Sequential(nn.ReLU()), lambda x, o: o(x), lambda o: o.__setitem__(0, nn.Sigmoid())),
    "another part": (lambda: nn.Sequential(nn.ReLU()), lambda x, o: o(x), lambda o: o.append(nn.Sigmoid())),
    "no bias": (lambda: nn.Linear(3, 2), lambda x, o: o(x), lambda o: setattr(o, "bias", None)),
    "parameter": (lambda: nn.Linear(3, 2), lambda x, o: o(x), lambda o: setattr(o, "weight", nn.Parameter(torch.ones(2, 3)))),
    "hook": (lambda: nn.Linear(3, 2), lambda x, o: o(x), lambda o: o.register_forward_hook(lambda m, i, y: y * 2)),
    "hook of all modules": (lambda: nn.Linear(3, 2), lambda x, o: o(x),
                            lambda o: setattr(o, "handle", nn.modules.module.register_module_forward_hook(lambda m, i, y: y * 2))),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("outside", [False, True])
def test_what_the_program_changes_between_sealed_calls_is_seen_or_refused(name, outside):
    make, use, change = CHANGES[name]
    given = make()
    if outside and not (isinstance(given, nn.Module) and "not called" not in name):
        pytest.skip("what is no tensor and no argument stays what it was")
    sealed = torch.compile((lambda x: use(x, given)) if outside else use).seal()
    args = (torch.ones(4, 3),) if outside else (torch.ones(4, 3), given)
    keeps = [*given.parameters()] if isinstance(given, nn.Module) else None
    for _ in range(4):
        sealed(*args)
    change(given)
    try:
        for _ in range(3):
            state = torch.get_rng_state()
            got = attempt(sealed, *args)
            torch.set_rng_state(state)
            want = use(args[0], given)
            assert (isinstance(got, tuple) and "no tensor changed" in got[1]) or torch.equal(got, want)
    finally:
        if hasattr(given, "handle"):
            given.handle.remove()
    del keeps


RESULTS = [lambda x: collections.ChainMap({"a": x * 2}), lambda x: types.MappingProxyType({"a": x * 2}), lambda x: {"a": x * 2}.values(),
           lambda x: types.SimpleNamespace(a=[x * 2]), lambda x: (y := x * 2) is not None and (lambda: y), lambda x: iter([x * 2]),
           lambda x: collections.UserList([x * 2])]


@pytest.mark.parametrize("f", RESULTS)
def test_results_that_hide_tensors_are_refused(f):
    with pytest.raises(ValueError, match="^seal: .*(holds tensors|iterator)"):
        torch.compile(f).seal()(torch.ones(2))
    with pytest.raises(ValueError, match="^trace: .*(holds tensors|iterator)"):
        torch.jit.trace(f, torch.ones(2))


def test_a_deque_is_taken_apart():
    sealed = torch.compile(lambda x, d: collections.deque([x * 2, d[0]], 2)).seal()
    for i in range(4):
        got = sealed(torch.full((2,), float(i)), collections.deque([torch.full((1,), 5.0 * i)]))
        assert got.maxlen == 2 and got[0].tolist() == [2 * i] * 2 and got[1].tolist() == [5 * i]


def line(f):
    return f"test_modes.py:{f.__code__.co_firstlineno + 1}"


def test_refusals_name_the_line_of_the_program():
    calls = []

    def asks(x):
        return x * 2 if x.sum() > 0 else x

    def another(x):
        return x * 2 if calls.append(1) or len(calls) % 2 else x.exp()

    def number(x):
        return x * (calls.append(1) or len(calls))

    def attribute(x):
        return x.sum(calls.append(1) or len(calls) % 2)

    def other_tensor(x):
        return x + torch.ones(2, 2).add_(1) * held[0]
    ways = [lambda f: torch.compile(f, fullgraph=True), lambda f: torch.compile(f).seal(), lambda f: torch.jit.trace(f, torch.ones(2, 2))]
    for way in ways:
        with pytest.raises(ValueError, match=line(asks)):
            way(asks)(torch.ones(2, 2))
    for f in (another, number, attribute, other_tensor):
        calls.clear()
        sealed = torch.compile(f).seal()
        with pytest.raises(ValueError, match=line(f)):
            for _ in range(4):
                held = [torch.ones(2, 2)]
                sealed(torch.ones(2, 2))
    assert "test_modes.py" in str(torch.compile(lambda x: (x * 2 + 1).exp()).explain(torch.ones(100, 100)))


class Odd:
    def __getattr__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize("make", [lambda: nn.Linear, lambda: [argparse.Namespace(parameters=1, buffers=2)], Odd, lambda: [Odd()]])
@pytest.mark.parametrize("mode", ["default", "max-autotune"])
def test_compiled_functions_do_not_look_into_arguments(make, mode):
    argument = make()
    assert torch.compile(lambda x, other: x * 2, mode=mode)(torch.ones(2), other=argument).tolist() == [2, 2]
    itself = [1]
    itself.append(itself)
    assert torch.compile(lambda x, other: x * 2, mode=mode)(torch.ones(2), itself).tolist() == [2, 2]


def test_a_replay_that_fails_counts_what_it_changed():
    memory = torch.zeros(3)

    def f(x, i):
        memory.add_(x)
        return memory[i]
    sealed = torch.compile(f).seal()
    for _ in range(4):
        sealed(torch.ones(3), torch.tensor([0]))
    before = memory._version
    with pytest.raises(IndexError):
        sealed(torch.ones(3), torch.tensor([7]))
    assert memory.tolist() == [5, 5, 5] and memory._version == before + 1


def test_a_sealed_step_does_not_hold_gradients_that_it_drops():
    def peak(seals):
        net = nn.Linear(600, 600, bias=False)

        def step(x):
            net.zero_grad()
            net(x).sum().backward()
        f = torch.compile(step).seal() if seals else step
        x = torch.ones(2, 600)
        with torch.lazy(False):
            for _ in range(4):
                f(x)
            before = _C.memory_stats()["allocated"]
            _C.reset_peak_memory_stats()
            f(x)
            return _C.memory_stats()["peak"] - before
    assert peak(True) < peak(False) + 100_000  # a gradient has 1,440,000 bytes
