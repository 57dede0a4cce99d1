"""Sealed functions, traced programs and compiled modules: what changes between calls is seen, or refused, never ignored."""
import collections
import copy
import dataclasses
import threading

import pytest

import pellucid as torch
from pellucid import nn
from pellucid.nn import functional as F


def same(a, b):
    """Whether two nested results have equal tensors."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and same(vars(a), vars(b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    name: str = "batch"


@dataclasses.dataclass(frozen=True)
class Result:
    y: torch.Tensor
    parts: list


Pair = collections.namedtuple("Pair", "first second")

RESULTS = [
    lambda x, y: x,
    lambda x, y: (x.t(), y),
    lambda x, y: {"sum": x + y, "given": y[0]},
    lambda x, y: Pair(x * 2, None),
    lambda x, y: Result(x + 1, [y, (x - y,)]),
    lambda x, y: collections.OrderedDict(a=x + y, b=3),
    lambda x, y: collections.defaultdict(list, {"a": x + y}),
    lambda x, y: [Batch(x + y), None, "text", 2.5],
    lambda x, y: torch.cat([x, y]).split(2),
]


@pytest.mark.parametrize("f", RESULTS)
def test_results_of_every_form_are_those_of_the_call(f):
    sealed = torch.compile(f).seal()
    for i in range(6):
        x, y = torch.full((3, 2), float(i)), torch.randn(3, 2)
        assert same(sealed(x, y), f(x, y))


def test_arguments_of_every_form():
    f = lambda batch, *rest, scale: batch.x * scale["by"] + sum(rest)
    sealed = torch.compile(f).seal()
    for i in range(6):
        args = Batch(torch.full((3,), float(i))), torch.randn(3), torch.randn(3)
        scale = {"by": torch.tensor(float(i))}
        assert torch.equal(sealed(*args, scale=scale), f(*args, scale=scale))


@pytest.mark.parametrize("before, after", [(1, 1.0), (1, True), (0.0, False), ("a", "b"), ([1, 2], [1, 3]), ({"a": 1}, {"b": 1})])
def test_an_argument_that_is_no_tensor_may_not_change(before, after):
    sealed = torch.compile(lambda x, other: x + 1).seal()
    for _ in range(3):
        sealed(torch.ones(2), before)
    with pytest.raises(ValueError, match="no tensor changed"):
        sealed(torch.ones(2), after)


def test_what_cannot_be_taken_apart_is_refused():
    class Holder:
        def __init__(self, x):
            self.x = x
    with pytest.raises(ValueError, match="Holder holds tensors"):
        torch.compile(lambda x: Holder(x + 1)).seal()(torch.ones(2))
    with pytest.raises(ValueError, match="Holder holds tensors"):
        torch.compile(lambda h: h.x + 1).seal()(Holder(torch.ones(2)))
    with pytest.raises(ValueError, match="iterator"):
        torch.compile(lambda x: (t for t in [x + 1])).seal()(torch.ones(2))


def trained(sealed, where, make=lambda p: torch.optim.SGD(p, lr=0.1)):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 2))
    optimizer = make(net.parameters())

    def step(x):
        if where == "first":
            optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        if where in ("first", "last"):
            optimizer.step()
        if where == "last":
            optimizer.zero_grad()
        return loss.detach()
    f = torch.compile(step).seal() if sealed else step
    seen = []
    for i in range(9):
        seen.append(f(torch.randn(5, 6)))
        if where not in ("first", "last"):
            seen += [p.grad.clone() for p in net.parameters()]
            optimizer.step()
            if where == "outside" or (where == "sometimes" and i % 2):
                optimizer.zero_grad()
        if i == 4:  # a checkpoint is loaded
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            net[0].weight.data = net[0].weight.data * 0.5
        if i == 6:
            net.load_state_dict({k: v * 0.9 for k, v in net.state_dict().items()})
    return seen + [p.detach().clone() for p in net.parameters()]


@pytest.mark.parametrize("where", ["first", "last", "outside", "sometimes", "never"])
@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=0.01)])
def test_training_is_that_of_the_plain_step(where, make):
    assert same(trained(True, where, make), trained(False, where, make))


def test_gradients_of_arguments_go_to_the_argument():
    sealed = torch.compile(lambda x: x.square().sum().backward()).seal()
    for i in range(5):
        x = torch.full((3,), float(i), requires_grad=True)
        sealed(x)
        assert torch.equal(x.grad, torch.full((3,), 2.0 * i))


def test_random_numbers():
    def f(x):
        torch.rand(5)
        return F.dropout(x, 0.5) + torch.rand(20)
    def run(f):
        torch.manual_seed(3)
        return [t for _ in range(5) for t in (f(torch.ones(20)), torch.rand(2))]
    assert same(run(torch.compile(f).seal()), run(f))
    generator = torch.Generator()
    with pytest.raises(ValueError, match="generator of its own"):
        torch.compile(lambda x: x + torch.rand(20, generator=generator)).seal()(torch.ones(20))


def test_threads_take_turns():
    sealed = torch.compile(lambda x: (x * 2).sum()).seal()
    found = []
    def work():
        for i in range(30):
            found.append(float(sealed(torch.full((10,), float(i)))) == 20.0 * i)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    assert len(found) == 120 and all(found)


def test_compiled_inside_sealed_and_traced():
    model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    inner = torch.compile(lambda x: x + 1).seal()
    f = lambda x: inner(model(x)) * 2
    sealed = torch.compile(f).seal()
    traced = torch.jit.trace(f, (torch.randn(3, 4),))
    for _ in range(5):
        x = torch.randn(3, 4)
        assert torch.equal(sealed(x), f(x))
        assert torch.equal(traced(x), f(x))


def test_traced_programs_give_arguments_back_and_take_numbers():
    both = torch.jit.trace(lambda a, b: (a, b.t(), a + 1), (torch.ones(2), torch.ones(2, 3)))
    a, b = torch.randn(2), torch.randn(2, 3)
    assert same(both(a, b), (a, b.t(), a + 1))
    add = torch.jit.trace(lambda a, b: a + b, (torch.tensor(0.), torch.tensor(0.)))
    assert float(add.run(a=2, b=torch.tensor(3.))) == 5
    strided = torch.jit.trace(lambda x: x.add_(1), (torch.ones(3, 2),))
    x = torch.zeros(2, 3)
    strided(x.t())
    assert torch.equal(x, torch.ones(2, 3))


def test_fullgraph_refuses_what_splits_the_program():
    f = torch.compile(lambda x: x * 2 if x.sum() > 0 else x, fullgraph=True)
    for _ in range(3):
        with pytest.raises(ValueError, match="asks for a value"):
            f(torch.ones(3))
    assert torch.equal(torch.compile(lambda x: x * 2 + 1, fullgraph=True)(torch.ones(3)), torch.full((3,), 3.0))


def test_backends():
    with pytest.raises(RuntimeError, match="Invalid backend"):
        torch.compile(lambda x: x, backend="nonsense")
    with pytest.raises(ValueError, match="memory_budget"):
        torch.compile(lambda x: x, memory_budget=-5)
    with pytest.warns(UserWarning, match="not called"):
        torch.compile(lambda x: x, backend=lambda graph, inputs: graph)


def test_a_compiled_module_has_one_state_with_its_module():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    compiled = torch.compile(net)
    compiled.eval()
    assert not net.training and not net[1].training and not compiled.training
    net.train()
    assert compiled.training
    compiled.flag = 3
    assert net.flag == 3 and compiled.flag == 3
    del compiled.flag
    assert not hasattr(net, "flag")
    assert len(compiled) == 2 and compiled[0] is net[0] and list(compiled) == list(net) and bool(compiled)
    compiled[1] = nn.Identity()
    assert torch.equal(compiled(torch.ones(1, 4)), net(torch.ones(1, 4)))
    with pytest.raises(TypeError):
        len(torch.compile(nn.Linear(2, 2)))
    assert torch.compile(nn.Linear(2, 2))
    again = copy.deepcopy(compiled)
    assert list(again.state_dict()) == list(compiled.state_dict())


def test_a_failure_leaves_what_was_done():
    net = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters())

    def step(x):
        net(x).sum().backward()
        optimizer.step()
        raise RuntimeError("the end")
    sealed = torch.compile(step).seal()
    before = net.weight.detach().clone()
    with pytest.raises(RuntimeError, match="the end"):
        sealed(torch.ones(1, 3))
    assert not torch.equal(net.weight, before)
    optimizer.step()
    assert torch.isfinite(net.weight).all()


def test_hidden_results_arrays_and_modes():
    w = nn.Parameter(torch.randn(8, 3, 3, 3))
    pooled = lambda x: torch.autograd.grad(F.max_pool2d(F.conv2d(x, w), 2).square().sum(), w)[0]
    sealed = torch.compile(pooled).seal()
    for _ in range(4):
        x = torch.randn(2, 3, 34, 34)
        assert torch.equal(sealed(x), pooled(x))
    numpy = pytest.importorskip("numpy")
    doubled = torch.compile(lambda x: x * 2).seal()
    assert [doubled(torch.from_numpy(numpy.full(2, i, "f")))[0].item() for i in range(4)] == [0, 2, 4, 6]
    picked = torch.compile(lambda x: x.gather(0, torch.tensor([1])) + 1).seal()
    assert [picked(torch.full((3,), float(i))).item() for i in range(4)] == [1, 2, 3, 4]
    for f in (lambda x, k: x * k.item(), lambda x, k: x if k else x + 1, lambda x, k: x + k.numpy(), lambda x, k: x * k.tolist()[0]):
        k = torch.ones(1)
        with pytest.raises(ValueError, match="asks for a value"):
            torch.compile(f).seal()(torch.ones(2), k)
        assert k.item() == 1
    net = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9))).seal()
    for _ in range(4):
        net(torch.ones(2, 4))
    net.eval()
    for _ in range(4):
        assert torch.equal(net(torch.ones(2, 4)), net._orig_mod(torch.ones(2, 4)))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_every_optimiser_can_be_sealed(name):
    def run(sealed):
        torch.manual_seed(0)
        net = nn.Linear(4, 3)
        optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.01)

        def step(x):
            net(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        f = torch.compile(step).seal() if sealed else step
        for _ in range(6):
            f(torch.randn(2, 4))
        return [p.detach().clone() for p in net.parameters()]
    assert same(run(True), run(False))


def two_ways(step_of, between, calls=9):
    """What a step returns in each call, sealed and not, with between(i, optimizer, net) after call i."""
    seen = []
    for sealed in (True, False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        optimizer = step_of[0](net.parameters())
        step = step_of[1](net, optimizer)
        f = torch.compile(step).seal() if sealed else step
        mine = []
        for i in range(calls):
            mine.append(f(torch.randn(3, 4)).clone())
            between(i, optimizer, net)
        seen.append(mine + [p.detach().clone() for p in net.parameters()])
    return seen


def plain_step(net, optimizer):
    def step(x):
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    return step


OPTIMIZERS = [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=0.01),
              lambda p: torch.optim.RMSprop(p, lr=0.01)]


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("option", ["weight_decay", "momentum", "betas", "eps", "alpha", "maximize"])
def test_options_of_the_optimizer_may_change(make, option):
    def between(i, optimizer, net):
        group = optimizer.param_groups[0]
        if i in (3, 6) and option in group:
            old = group[option]
            group[option] = not old if option == "maximize" else (0.5, 0.7) if option == "betas" else 0.25 if i == 3 else 0.3
    assert same(*two_ways((make, plain_step), between))


# What becomes of the rate, or of the optimiser around it, after some calls; the first rate is a number or a tensor.
RATES = {
    "another number": lambda o: o.param_groups[0].update(lr=0.02),
    "a tensor": lambda o: o.param_groups[0].update(lr=torch.tensor(0.03)),
    "the tensor's value": lambda o: o.param_groups[0].update(lr=0.04) if isinstance(o.param_groups[0]["lr"], float) else
    o.param_groups[0]["lr"].fill_(0.04),
    "another group": lambda o: o.param_groups.__setitem__(0, {**o.param_groups[0], "lr": 0.05}),
    "other groups": lambda o: setattr(o, "param_groups", [{**g, "lr": 0.06} for g in o.param_groups]),
    "a loaded state": lambda o: o.load_state_dict({**o.state_dict(), "param_groups": [
        {**g, "lr": 0.07} for g in o.state_dict()["param_groups"]]}),
    "a schedule": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5).step(),
    "a hook": lambda o: o.register_step_pre_hook(lambda o, *_: [p.grad.mul_(2) for g in o.param_groups for p in g["params"]]),
    "a hook after it": lambda o: o.register_step_post_hook(lambda o, *_: [p.data.mul_(0.5) for g in o.param_groups for p in g["params"]]),
}


@pytest.mark.parametrize("change", RATES)
@pytest.mark.parametrize("first", [lambda: 0.01, lambda: torch.tensor(0.01)])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_the_rate_of_a_sealed_step_may_change(kind, first, change):
    def between(i, optimizer, net):
        if i in (3, 6):
            RATES[change](optimizer)
    assert same(*two_ways((lambda p: kind(p, lr=first()), plain_step), between))


# Hooks of a parameter that come or go between calls.
HOOKS = {
    "gradient": lambda p: p.register_hook(lambda g: g * 0.5),
    "accumulated": lambda p: p.register_post_accumulate_grad_hook(lambda p: [p.grad.mul_(0.5)] and None),
}


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("at", [(3,), (0, 3), (0, 3, 6), (0, 4, 4)])
def test_hooks_of_parameters_may_come_and_go(kind, at):
    handles = {}

    def between(i, optimizer, net):
        for _ in range(at.count(i)):  # twice: another one in the place of the first
            handle = handles.pop(id(net), None)
            if handle is None or at.count(i) == 2:
                handles[id(net)] = HOOKS[kind](net[0].weight)
            if handle is not None:
                handle.remove()
    assert same(*two_ways((OPTIMIZERS[0], plain_step), between))


@pytest.mark.parametrize("tracked", [(1, 1, 1, 1, 0, 0, 0, 1), (0, 0, 0, 0, 1, 1, 1, 0), (1, 0, 1, 0, 1, 1, 1, 1)])
def test_arguments_may_require_a_gradient_or_not(tracked):
    def f(x):
        y = (x * x).sum() * 3
        if y.requires_grad:
            y.backward()
        return y.detach()
    sealed = torch.compile(f).seal()
    for i, required in enumerate(tracked):
        x, twin = (torch.full((3,), i + 1.0).requires_grad_(bool(required)) for _ in range(2))
        assert torch.equal(sealed(x), f(twin))
        assert (x.grad is None) == (twin.grad is None) and (x.grad is None or torch.equal(x.grad, twin.grad))


def test_an_estimate_counts_a_sealed_function_and_runs_nothing():
    net = nn.Linear(40, 30)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.ones(5, 40)

    def counted(f):
        with torch.profiler.estimate() as found:
            f(x)
        return found.phases[0]["total_flops"]
    step = plain_step(net, optimizer)
    sealed, traced = torch.compile(step).seal(), torch.jit.trace(lambda x: x * 2, (x,))
    expected = counted(step)
    for _ in range(5):  # before it is traced, and after
        before = [p.detach().clone() for p in net.parameters()]
        assert counted(sealed) == expected > 0
        assert same(before, [p.detach() for p in net.parameters()])
        sealed(x)
    for refused in (lambda: traced(x), lambda: torch.jit.trace(lambda x: x * 2, (x,))):
        with pytest.raises(NotImplementedError), torch.profiler.estimate():
            refused()


def test_a_schedule_of_the_momentum():
    schedules = {}

    def between(i, optimizer, net):
        if i == 0:
            schedules[id(optimizer)] = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=12)
        schedules[id(optimizer)].step()
    assert same(*two_ways((OPTIMIZERS[0], plain_step), between))


@pytest.mark.parametrize("first", [True, False])
def test_parameters_may_be_frozen_and_freed(first):
    def between(i, optimizer, net):
        if i in (3, 6):
            net[0].weight.requires_grad_((i == 6) == first)
    make = OPTIMIZERS[0]

    def build(net, optimizer):
        net[0].weight.requires_grad_(first)
        return plain_step(net, optimizer)
    assert same(*two_ways((make, build), between))


def test_a_group_that_is_added_is_trained():
    made = {}

    def between(i, optimizer, net):
        if i == 4:
            made[id(net)] = torch.full((2,), 0.5, requires_grad=True)
            net.register_forward_hook(lambda m, a, out: out * made[id(net)])
            optimizer.add_param_group({"params": [made[id(net)]], "lr": 0.1})
    sealed, plain = two_ways((OPTIMIZERS[0], plain_step), between)
    assert same(sealed[:5], plain[:5])
    assert same(sealed[5:], plain[5:])


def test_memory_is_replaced_while_somebody_holds_the_old_one():
    w = torch.ones(3, requires_grad=True)
    f = torch.compile(lambda x: x * w).seal()
    old = w.data
    for i in range(6):
        assert torch.equal(f(torch.ones(3)), w.detach())
        if i == 3:
            w.data = w.data * 0.5
    assert torch.equal(old, torch.ones(3))


def test_default_dtype_and_grad_mode():
    f = torch.compile(lambda x: x + torch.ones(2)).seal()
    try:
        for i in range(8):
            torch.set_default_dtype(torch.float64 if i in (4, 5) else torch.float32)
            assert f(torch.ones(2, dtype=torch.float32)).dtype == (torch.float64 if i in (4, 5) else torch.float32)
    finally:
        torch.set_default_dtype(torch.float32)


def test_results_have_no_history_in_any_call():
    net = nn.Linear(3, 2)
    f = torch.compile(net).seal()
    for _ in range(5):
        y = f(torch.ones(1, 3))
        assert not y.requires_grad and y.grad_fn is None
    assert net.weight.grad is None


def test_copies_of_a_sealed_function_are_sealed():
    calls = []

    class Twice(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 2
    module = torch.compile(Twice()).seal()
    for _ in range(5):
        module(torch.ones(2))
    assert len(calls) == 2 and "5 calls, of which 2" in module.report()
    other = copy.deepcopy(module)
    for _ in range(5):
        assert torch.equal(other(torch.ones(2)), torch.full((2,), 2.0))
    assert len(calls) == 4


def test_attributes_are_those_of_the_function():
    def f(x):
        return x + 1
    f.tag = "mine"
    compiled = torch.compile(f)
    assert compiled.tag == "mine" and compiled.__name__ == "f"
    with pytest.raises(AttributeError, match="nothing"):
        compiled.nothing

    class Holder:
        @torch.compile
        @staticmethod
        def plain(x):
            return x * 3

        @torch.compile
        @classmethod
        def of_class(cls, x):
            return cls, x * 4
    assert Holder.plain(torch.ones(1)).item() == 3 and Holder().plain(torch.ones(1)).item() == 3
    assert Holder().of_class(torch.ones(1))[0] is Holder


def test_options_and_budgets_are_read():
    with pytest.warns(UserWarning, match="options a change nothing"):
        torch.compile(lambda x: x, options={"a": 1})
    assert torch.compile(lambda x: x + 1, memory_budget=1e9)(torch.ones(1)).item() == 2
    with pytest.raises(TypeError):
        torch.compile(lambda x: x, memory_budget=1.5)


def test_a_trace_of_a_training_step():
    torch.manual_seed(0)
    seen = []
    for traced in (True, False):
        torch.manual_seed(0)
        net = nn.Linear(3, 1)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        step = plain_step(net, optimizer)
        x = torch.ones(4, 3)
        if traced:
            with pytest.raises(ValueError, match="trace it again"):
                torch.jit.trace(step, x)  # the optimiser made its state in it
            t = torch.jit.trace(step, x)
            before = [p.detach().clone() for p in net.parameters()]
            assert same(before, [p.detach() for p in net.parameters()])
        else:
            t = step
            step(x)
        losses = [t(torch.randn(4, 3)) for _ in range(5)]
        losses.append(step(torch.randn(4, 3)))  # the function itself still works
        seen.append(losses + [p.detach().clone() for p in net.parameters()])
    assert same(*seen)


def test_a_trace_of_a_backward_leaves_gradients():
    w = torch.ones(3, requires_grad=True)
    t = torch.jit.trace(lambda x: (x * w).sum().backward(), torch.ones(3))
    assert w.grad is None
    t(torch.full((3,), 2.0))
    assert w.grad.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="zero_grad"):
        t(torch.full((3,), 3.0))
    w.grad = None
    t(torch.full((3,), 3.0))
    assert w.grad.tolist() == [3, 3, 3]


def test_a_trace_whose_function_keeps_a_result():
    class Keeps(nn.Module):
        def forward(self, x):
            self.hidden = x * 2
            return self.hidden + 1
    m = Keeps()
    t = torch.jit.trace(m, torch.full((2,), 3.0))
    assert m.hidden.tolist() == [6, 6]
    assert t(torch.ones(2)).tolist() == [3, 3]

    def fails(x):
        m.hidden = x * 5
        raise KeyError("in the middle")
    with pytest.raises(KeyError):
        torch.jit.trace(fails, torch.ones(2))
    assert m.hidden.tolist() == [5, 5]


def test_a_traced_module_is_a_module():
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()
    t = torch.jit.trace(net, torch.zeros(2, 3))
    assert isinstance(t, nn.Module) and not t.training
    assert list(t.state_dict()) == list(net.state_dict())
    assert [id(p) for p in t.parameters()] == [id(p) for p in net.parameters()]
    x = torch.randn(2, 3)
    assert torch.equal(t(x), net(x)) and t.eval() is t
    t.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})
    assert torch.equal(t(x), net(x))
    seen = []
    t.register_forward_hook(lambda *_: seen.append(1))
    t(x)
    assert seen == [1]
    with pytest.raises(NotImplementedError, match="state_dict"):
        t.save("x")


def test_traces_take_arguments_as_the_function_does():
    f = lambda a, b, *, scale: (a - b) * scale
    one, two, three = (torch.tensor(v) for v in (1.0, 2.0, 3.0))
    t = torch.jit.trace(f, [one, two], example_kwarg_inputs={"scale": three})
    assert t.inputs == ["a", "b", "scale"]
    assert t(two, one, scale=two).item() == 2
    assert t(b=two, a=one, scale=two).item() == -2
    assert t.run(a=three, b=one, scale=two).item() == 4
    with pytest.raises(TypeError):
        t(one)
    tracing = []
    torch.jit.trace(lambda x: tracing.append(torch.jit.is_tracing()) or x + 1, one)
    assert tracing == [True] and not torch.jit.is_tracing()


def test_eval_of_every_form():
    with torch.lazy():
        made = [torch.ones(2) + i for i in range(4)]
        torch.eval({made[0]}, Batch(made[1]), {"a": [made[2]]})
        assert [torch.is_pending(t) for t in made] == [False, False, False, True]
        with pytest.raises(TypeError, match="used up"):
            torch.eval(iter(made))
