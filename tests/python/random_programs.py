"""A random program over tensors: views, changes in place, hooks, custom functions, copies, threads, profiling…

usage: random_programs.py SEED STEPS

Every step may raise; what it must not do is bring the process down.
"""
import copy, gc, pickle, random, sys, threading

import pellucid as torch
import pellucid.nn.functional as F
from pellucid import nn

chance = random.Random(int(sys.argv[1]))
pool: list = []
depth = 0


def tensor():
    sizes = chance.choice([(), (1,), (3,), (2, 3), (3, 2), (2, 3, 4), (0, 3), (1, 4, 4)])
    return torch.randn(sizes).requires_grad_(chance.random() < 0.5)


def pick():
    return chance.choice(pool)


VIEWS = [lambda t: t.view(-1), lambda t: t.t(), lambda t: t[0], lambda t: t[..., ::2], lambda t: t.unsqueeze(0), lambda t: t.expand(2, *t.shape),
         lambda t: t.select(0, 0), lambda t: t.detach(), lambda t: t.transpose(0, -1), lambda t: t.narrow(0, 0, 1), lambda t: t.squeeze(),
         lambda t: t.diagonal(), lambda t: t.split(1)[0], lambda t: t.chunk(2)[-1], lambda t: t.unbind(0)[0]]
ONE = [torch.exp, torch.sin, torch.relu, lambda t: t.sum(0), lambda t: t.mean(), lambda t: t.softmax(-1), lambda t: t.clone(), lambda t: t.cumsum(0),
       lambda t: t.sort()[0], lambda t: t.max(0)[0], lambda t: F.dropout(t, 0.5), lambda t: t.double(), lambda t: t[torch.tensor([0, 0])],
       lambda t: t[t > 0], lambda t: F.layer_norm(t, t.shape[-1:])]
TWO = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a @ b, lambda a, b: torch.where(a > b, a, b),
       lambda a, b: torch.cat([a, b]), lambda a, b: torch.maximum(a, b), lambda a, b: F.linear(a, b), lambda a, b: torch.stack([a, b])]
IN_PLACE = [lambda a, b: a.add_(1), lambda a, b: a.mul_(b), lambda a, b: a.copy_(b), lambda a, b: a.zero_(), lambda a, b: a.relu_(),
            lambda a, b: a.__setitem__(0, 1.0), lambda a, b: a.__setitem__(a > 0, 0), lambda a, b: a.t_(), lambda a, b: a.detach_(),
            lambda a, b: a.unsqueeze_(0), lambda a, b: a.requires_grad_(), lambda a, b: setattr(a, "data", b), lambda a, b: a.fill_(b.sum())]
COPIES = [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t)), torch.from_dlpack, lambda t: torch.as_tensor(t.tolist()), nn.Parameter]
LOOKS = [repr, lambda t: torch.torchviz.make_dot(t).source, lambda t: torch.profiler.why_alive(t, {str(i): p for i, p in enumerate(pool)}),
         lambda t: t.grad_fn.next_functions[0][0].variable, lambda t: t._base, lambda t: t.tolist(), lambda t: gc.collect(), lambda t: t._repr_html_()]


def hook(g):
    what = chance.randrange(12)
    if what == 0:
        pool.append(g)
    elif what == 1:
        pool.clear()
    elif what == 2:
        raise ValueError
    elif what < 5:
        return [g * 2, torch.ones(7)][what - 3]
    elif what == 5:
        return g.mul_(2)


class Odd(torch.autograd.Function):
    """A function that does what it should, and now and then what it should not."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        if chance.random() < 0.2:
            ctx.mark_dirty(x)
            return x.add_(1)
        return (x * 2, y) if chance.random() < 0.8 else x

    @staticmethod
    def backward(ctx, *grads):
        ctx.saved_tensors
        return chance.choice([(grads[0] * 2, grads[-1]), (None, None), grads[0], (grads[0],)])


def hooks():
    t = pick()
    chance.choice([lambda: t.register_hook(hook), lambda: t.retain_grad(), lambda: t.grad_fn.register_hook(lambda inputs, outputs: hook(inputs[0])),
                   lambda: t.register_post_accumulate_grad_hook(lambda p: hook(p.grad)), lambda: t.grad_fn.register_prehook(lambda g: hook(g[0]))])()


def changed():
    with torch.set_grad_enabled(chance.random() < 0.7):
        chance.choice(IN_PLACE)(pick(), pick())


def custom():
    made = Odd.apply(pick(), pick())
    pool.extend(made if isinstance(made, tuple) else [made])


def forgotten():
    del pool[:chance.randrange(4)]


def attributes():
    t = pick()
    t.other, t.itself = pick(), t
    t.grad = chance.choice([None, torch.ones_like(t), pick()])


def profiled():
    with torch.profiler.profile(record_shapes=True, profile_memory=True) as recording:
        step(), step()
    recording.key_averages().table()


def saved_elsewhere():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
        step(), step()


def together():
    """Threads with tensors of their own: two of them must not run backward through one graph at the same time."""
    def work():
        x = torch.ones(3, requires_grad=True)
        chance.choice(ONE)(x * 2).sum().backward()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def trained():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))
    model.register_forward_hook(lambda m, inputs, out: out * 2)
    model.register_full_backward_hook(lambda m, inputs, outputs: None)
    optimizer = torch.optim.Adam(copy.deepcopy(model).parameters())
    model(pick()).sum().backward()
    optimizer.step()


STEPS = [lambda: pool.append(tensor()), lambda: pool.append(chance.choice(VIEWS)(pick())), lambda: pool.append(chance.choice(ONE)(pick())),
         lambda: pool.append(chance.choice(TWO)(pick(), pick())), lambda: pool.append(chance.choice(COPIES)(pick())),
         lambda: chance.choice(LOOKS)(pick()), lambda: pick().sum().backward(retain_graph=chance.random() < 0.5, create_graph=chance.random() < 0.2),
         lambda: torch.autograd.grad(pick().sum(), pick(), allow_unused=True, retain_graph=True, create_graph=chance.random() < 0.5),
         lambda: pool.append(torch.utils.checkpoint.checkpoint(lambda x: (x * 2).exp(), pick(), use_reentrant=False)),
         lambda: torch.func.jacrev(lambda x: x * 2)(pick()),
         hooks, changed, changed, custom, forgotten, attributes, profiled, saved_elsewhere, together, trained]


def step():
    global depth
    if depth > 4:
        return
    depth += 1
    try:
        chance.choice(STEPS)()
    except Exception:
        pass  # most programs are wrong somewhere
    finally:
        depth -= 1
    del pool[:-30]


for _ in range(int(sys.argv[2])):
    if not pool:
        pool.append(tensor())
    step()
print("done")
