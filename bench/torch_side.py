"""PyTorch's side of bench/run: opens the cases that bench_core wrote, checks that results agree, and runs them.

Requests and answers are lines of JSON on stdin and stdout: {"open": name, "folder": path} -> {"ok": true} or
{"error": text}; {"run": count} -> {"ns": …}; {"memory": true} -> {"bytes": …};
{"record": "plain"|"full"} starts torch.profiler and {"stop": true} ends it; {"close": true} -> {"ok": true}.
With --compile, models run under torch.compile.
PyTorch at its best: its own number of threads, inference mode, outputs reused through out= where it has that.
"""
import json, pathlib, re, sys, time, warnings

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "parity"))
import compare
import torch_training
from torch_names import NO_COUNTERPART, candidates

STEPS = 1000


def trains(name):
    """Whether the case needs gradients; all others run in inference mode."""
    if name.startswith("record/"):  # of such an op PyTorch often has only the gradient of the forward function
        return "_backward" in name
    return any(word in name for word in ("train", "grad", "chain", "backward/"))


class Skip(Exception):
    """PyTorch has nothing to compare this case with."""


def one_element(a, b):
    def run():
        for _ in range(STEPS):
            y = torch.add(a, b)
        return [y]
    return run


def chain(x, w):
    def run():
        x.grad = w.grad = None
        y = x
        for _ in range(STEPS):
            y = y * w
        y.backward()
        return [x.grad, w.grad]
    return run


def products(x, w):
    def run():
        y = x
        for _ in range(STEPS):
            y = y * w
        return [y]
    return run


def train(function, *leaves_and_gradient):
    *leaves, gradient = leaves_and_gradient
    def run():
        for t in leaves:
            t.grad = None
        function(*leaves).backward(gradient)
        return [t.grad for t in leaves]
    return run


def conv_arguments(name):
    stride, padding = re.search(r"_s(\d+)_p(\d+)$", name).groups()
    return {"stride": int(stride), "padding": int(padding)}


def best_of(functions):
    """The function whose best of five runs is the shortest."""
    def shortest(f):
        times = []
        for _ in range(5):
            begun = time.perf_counter_ns()
            f()
            times.append(time.perf_counter_ns() - begun)
            if times[-1] > 100_000_000:
                break
        return min(times)
    return min(functions, key=shortest) if len(functions) > 1 else functions[0]


def with_out(f, args, kwargs, results):
    """f with its results written into the same tensors each time, or None where it does not take out=."""
    if not results or any(t._base is not None for t in results):
        return None
    out = results[0].clone() if len(results) == 1 else tuple(t.clone() for t in results)
    try:
        f(*args, **kwargs, out=out)
    except Exception:
        return None
    return lambda: compare.flat(f(*args, **kwargs, out=out))


def agree(ours, theirs, tolerance):
    """Raises compare.Mismatch where results differ by more than float32's rounding in long sums."""
    if len(ours) != len(theirs):
        raise compare.Mismatch(f"{len(ours)} results, PyTorch's {len(theirs)}")
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise compare.Mismatch(f"result {i} is {a.dtype} {list(a.shape)}, PyTorch's {b.dtype} {list(b.shape)}")
        if not b.is_floating_point():
            different = int((a != b).sum())
            if different:
                raise compare.Mismatch(f"result {i}: {different} of {a.numel()} elements differ")
            continue
        if a.numel() == 0:
            continue
        scale = b.abs()[b.isfinite()].max().item() if bool(b.isfinite().any()) else 1.0
        limit = max(1e-4, tolerance)
        if not torch.allclose(a, b, rtol=limit, atol=limit * scale, equal_nan=True):
            difference = (a.double() - b.double()).abs().nan_to_num(0).max().item()
            raise compare.Mismatch(f"result {i} differs by up to {difference:.3g} (largest value {scale:.3g})")


def record_work(reader, call, ours):
    """The call in PyTorch, whichever function of that name gives the same results soonest."""
    functions = candidates(call["op"], call["overload"])
    if call["op"] in NO_COUNTERPART or not functions:
        raise Skip("PyTorch has no such op")
    args, kwargs, _ = reader.arguments(call)
    mismatch, right = None, []
    for f in reversed(functions):  # torch.NAME costs less than torch.ops.aten.NAME
        try:
            results = [t.clone() for t in compare.flat(f(*args, **kwargs))]
            if not call["random"] and not call["op"].startswith("empty"):
                agree(ours, results, call["tolerance"])
        except Exception as error:
            mismatch = mismatch or error
            continue
        right.append(lambda f=f: compare.flat(f(*args, **kwargs)))
        reusing = with_out(f, args, kwargs, compare.flat(f(*args, **kwargs)))
        if reusing:
            right.append(reusing)
    if not right:
        raise mismatch
    return best_of(right)


def backward_work(reader, call, ours):
    """Backward of the call, over one recorded forward pass, of whichever function gives the same gradients."""
    gradients = [reader.tensor(t["tensor"]) for t in call["inputs"]]
    mismatch = Skip("PyTorch has no such op")
    for f in [] if call["op"] in NO_COUNTERPART else reversed(candidates(call["op"], call["overload"])):
        args, kwargs, tensors = reader.arguments(call)
        leaves = [t.requires_grad_() for t in tensors if t.is_floating_point()]
        try:
            outputs = [t for t in compare.flat(f(*args, **kwargs)) if t.requires_grad]
            def run():
                found = torch.autograd.grad(outputs, leaves, gradients, retain_graph=True, allow_unused=True)
                return [t for t in found if t is not None]
            results = run()
            if not call["random"]:
                agree(ours, results, max(call["tolerance"], 1e-3))
            return run
        except Exception as error:
            mismatch = error
    raise mismatch


def image_work(op, inputs):
    x = inputs[0]
    if op == "copy":
        out = torch.empty_like(x)
        return lambda: [out.copy_(x)]
    if op == "layer_norm":
        return lambda: [F.layer_norm(x, (x.shape[1],), inputs[1], inputs[2])]
    dims = {"sum_rows": ("sum", 1), "sum_columns": ("sum", 0), "softmax": ("softmax", -1), "amax": ("amax", (0, 1))}
    name, dim = dims.get(op, (op, None))
    args = list(inputs) + ([dim] if dim is not None else [])
    right = []
    for space in (torch, F):
        f = getattr(space, name, None)
        if not callable(f):
            continue
        results = [f(*args)]
        right.append(lambda f=f: [f(*args)])
        reusing = with_out(f, args, {}, results)
        if reusing:
            right.append(reusing)
    return best_of(right)


def hand_written(name, inputs):
    """The case in PyTorch, as one would write it."""
    family, _, what = name.partition("/")
    if name == "add/one_element_grad" or family in ("mul_chain", "conv2d_train", "attention_train"):
        for t in inputs[:3] if family.endswith("_train") else inputs:
            t.requires_grad_()
    causal = {"is_causal": what.endswith("_causal")}
    if family == "add":
        return one_element(*inputs)
    if family == "mul_chain":
        return chain(*inputs)
    if family == "product":
        return products(*inputs)
    if family == "image":
        return image_work(what, inputs)
    if family == "matmul":
        out = torch.empty(inputs[0].shape[0], inputs[1].shape[1])
        return lambda: [torch.mm(*inputs, out=out)]
    if family.startswith("conv2d"):
        with torch.no_grad():
            inputs[1] = inputs[1].contiguous(memory_format=torch.channels_last).requires_grad_(inputs[1].requires_grad)
        options = conv_arguments(name)
        if family == "conv2d_train":
            return train(lambda x, w, b: F.conv2d(x, w, b, **options), *inputs)
        return lambda: [F.conv2d(*inputs, **options)]
    if family == "attention":
        return lambda: [F.scaled_dot_product_attention(*inputs, **causal)]
    if family == "attention_train":
        return train(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **causal), *inputs)
    if family == "expression":
        x, y, z = inputs
        return lambda: [(x @ y + 100) + (x @ z + 1000)]
    raise Skip("measured on our side alone")


def nanoseconds_of(work, count):
    """The time of `count` runs; what a case does before each of them is not part of it."""
    before = getattr(work, "before", None)
    if not before:
        begun = time.perf_counter_ns()
        for _ in range(count):
            work()
        return time.perf_counter_ns() - begun
    total = 0
    for _ in range(count):
        before()
        begun = time.perf_counter_ns()
        work()
        total += time.perf_counter_ns() - begun
    return total


class Side:
    def __init__(self):
        self.work = None
        self.trains = False

    def open(self, name, folder):
        reader = compare.Reader(folder)
        call = next(reader.calls())
        ours = [reader.tensor(r["tensor"]) for r in call["results"]]
        with torch.inference_mode(not trains(name)):
            if name.startswith(("record/", "record_backward/")):
                self.work = (record_work if name.startswith("record/") else backward_work)(reader, call, ours)
                return
            if name.startswith(torch_training.FAMILIES):
                inputs = [reader.tensor(t["tensor"]) for t in call["inputs"]]
                self.work = torch_training.make(name, inputs, "--compile" in sys.argv)
                agree(ours, self.work.results(), 1e-3)
                return
            self.work = hand_written(name, [reader.tensor(t["tensor"]).clone() for t in call["inputs"]])
            agree(ours, [t.detach() for t in self.work()], 1e-3 if trains(name) else 0)

    def answer(self, request):
        if "open" in request:
            self.trains = trains(request["open"])
            self.open(request["open"], request["folder"])
            return {"ok": True}
        if "run" in request:
            with torch.inference_mode(not self.trains):
                return {"ns": nanoseconds_of(self.work, request["run"])}
        if "memory" in request:
            return {"bytes": self.work.peak()}
        if "record" in request:
            full = request["record"] == "full"
            self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=full,
                                                   profile_memory=full, with_stack=full)
            self.profiler.start()
            return {"ok": True}
        if "stop" in request:
            self.profiler.stop()
            self.profiler = None
            return {"ok": True}
        if "facts" in request:
            return {"version": torch.__version__, "threads": torch.get_num_threads()}
        self.work = None
        return {"ok": True}


def main():
    warnings.simplefilter("ignore")
    side = Side()
    for line in sys.stdin:
        try:
            answer = side.answer(json.loads(line))
        except Exception as error:  # told to the other side, which lists it
            answer = {"error": f"{error}".split("\n")[0], "skip": isinstance(error, Skip)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
