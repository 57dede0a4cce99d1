#!/usr/bin/env python3
"""Replays in PyTorch the calls that tests/parity/dump.cpp wrote, and compares results and gradients.

usage: compare.py FOLDER [--op NAME] [--verbose]

torch_names.py says which function of PyTorch an op is compared with. Results, gradients and
in-place forms must be close by torch.testing.assert_close's defaults (wider where a sample says so), with equal
dtypes and sizes; views must have PyTorch's strides. A call that fails here must fail there too. Where a failing
sample is accepted by PyTorch, that is listed and counted as skipped: stricter is allowed.
Ends with "N passed, N failed, N skipped", which counts samples; exits with 1 if any failed.
"""
import argparse, collections, json, math, mmap, pathlib, re, sys, warnings

import torch

from torch_names import DIFFERENCES, NO_COUNTERPART, candidates

class Reader:
    """calls.jsonl, with tensors from tensors.bin."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        file = open(self.folder / "tensors.bin", "rb")
        size = (self.folder / "tensors.bin").stat().st_size
        self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""

    def calls(self):
        with open(self.folder / "calls.jsonl", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    def tensor(self, facts):
        dtype = getattr(torch, facts["dtype"])
        data = bytearray(self.bytes[facts["at"]:facts["at"] + facts["bytes"]])
        storage = torch.frombuffer(data, dtype=dtype).clone() if data else torch.empty(0, dtype=dtype)
        return storage.as_strided(facts["sizes"], facts["strides"], facts["offset"]).detach()

    def value(self, v, tensors):
        """Decodes an argument; appends the tensors in it to `tensors`."""
        if isinstance(v, list):
            return [self.value(e, tensors) for e in v]
        if not isinstance(v, dict):
            return v
        (kind, content), = v.items()
        if kind == "tensor":
            tensors.append(self.tensor(content))
            return tensors[-1]
        return float(content) if kind == "float" else getattr(torch, content)

    def arguments(self, call, leaves=None):
        """args, kwargs and the tensors in them; those marked in `leaves` require gradients."""
        tensors = []
        args = [self.value(v, tensors) for v in call["args"]]
        kwargs = {name: self.value(v, tensors) for name, v in call["kwargs"]}
        for tensor, leaf in zip(tensors, leaves or []):
            tensor.requires_grad_(leaf)
        return args, kwargs, tensors


def first_that_takes(functions, args, kwargs):
    """The result of the first function that does not raise; raises what the first one raised where all do."""
    first_error = None
    for f in functions:
        try:
            return f(*args, **kwargs)
        except Exception as error:  # whatever PyTorch raises is its answer
            first_error = first_error or error
    raise first_error


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for e in result for t in flat(e)] if isinstance(result, (list, tuple)) else []


def weights_like(t):
    return torch.arange(1, t.numel() + 1, dtype=torch.float64).cos().to(t.dtype).reshape(t.shape)


def gradients(results, inputs):
    """The gradient of each input, None where it has none."""
    outputs = [t for t in results if t.requires_grad]
    leaves = [t for t in inputs if t.requires_grad]
    if not outputs or not leaves:
        return [None] * len(inputs)
    found = iter(torch.autograd.grad(outputs, leaves, [weights_like(t) for t in outputs], allow_unused=True))
    return [next(found) if t.requires_grad else None for t in inputs]


# What PyTorch says where it has the op but not this derivative of it.
NO_DERIVATIVE = [
    "is not implemented",                     # bincount by its weights
    "returned an invalid gradient",           # scatter by a src that is larger than the index
    "INDICES element is out of DATA bounds",  # index_fill by its value, at a negative index
]


class Mismatch(Exception):
    pass


def check_close(what, ours, theirs, tolerance):
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        raise Mismatch(f"{what} is {ours.dtype} {list(ours.shape)}, PyTorch's {theirs.dtype} {list(theirs.shape)}")
    limits = {}
    if tolerance:
        rtol, atol = torch.testing._comparison.default_tolerances(ours.dtype)
        limits = {"rtol": max(rtol, tolerance), "atol": max(atol, tolerance)}
    try:
        torch.testing.assert_close(ours, theirs.detach(), equal_nan=True, **limits)
    except AssertionError:
        difference = (ours.double() - theirs.double()).abs()
        worst = int(torch.where(difference.isnan(), math.inf, difference).argmax())
        a, b = ours.flatten()[worst].item(), theirs.detach().flatten()[worst].item()
        raise Mismatch(f"{what}: {a!r}, PyTorch's {b!r} at {worst} (largest difference {abs(a - b):.3g})") from None


def strides_that_matter(sizes, strides):
    return [s for n, s in zip(sizes, strides) if n > 1] if all(sizes) else []


def compare_results(reader, call, results):
    if len(results) != len(call["results"]):
        raise Mismatch(f"{len(call['results'])} results, PyTorch's {len(results)}")
    for i, (facts, theirs) in enumerate(zip(call["results"], results)):
        facts = facts["tensor"]
        check_close(f"result {i}", reader.tensor(facts), theirs, call["tolerance"])
        ours_strides = strides_that_matter(facts["sizes"], facts["result_strides"])
        if call["view"] and ours_strides != strides_that_matter(theirs.shape, theirs.stride()):
            raise Mismatch(f"result {i} has strides {facts['result_strides']}, PyTorch's {list(theirs.stride())}")


def compare_gradients(reader, call, results, inputs):
    try:
        found = gradients(results, inputs)
    except RuntimeError as error:
        if any(text in str(error) for text in NO_DERIVATIVE):
            return
        raise Mismatch(f"PyTorch's backward raises {error}") from None
    for i, (facts, theirs, x) in enumerate(zip(call["gradients"], found, inputs)):
        if x.requires_grad and (facts or theirs is not None):
            ours = reader.tensor(facts["tensor"]) if facts else torch.zeros_like(x)
            check_close(f"the gradient of input {i}", ours, torch.zeros_like(x) if theirs is None else theirs, call["tolerance"])


def compare_in_place(reader, call):
    name = call["op"] + "_"
    functions = candidates(name)
    if not functions:
        return
    args, kwargs, _ = reader.arguments(call)
    sizes = args[0].shape if isinstance(args[0], torch.Tensor) else None
    try:
        result = first_that_takes(functions, args, kwargs)
    except Exception as error:
        if call["in_place"]:
            raise Mismatch(f"{name} works here, but PyTorch raises {error}") from None
        return
    if not call["in_place"]:
        if result.shape == sizes:  # addbmm_ gives self another size; here that is refused
            raise Mismatch(f"{name} is refused here, but PyTorch takes it")
        return
    check_close(f"self after {name}", reader.tensor(call["in_place"]["tensor"]), result, call["tolerance"])


def replay(reader, call, functions):
    """PyTorch's results and the tensors given to it; those that PyTorch cannot differentiate by are no leaves."""
    leaves, names = list(call.get("leaves") or []), argument_names(call)
    while True:
        args, kwargs, tensors = reader.arguments(call, leaves)
        try:
            return flat(first_that_takes(functions, args, kwargs)), tensors
        except RuntimeError as error:
            refused = re.search(r"not differentiable with respect to argument '(\w+)'", str(error))
            if "Autograd not support dtype" in str(error) and any(leaves):
                leaves = [False] * len(leaves)
            elif refused and refused.group(1) in names:
                i = tensors_before(args, kwargs, names, refused.group(1))
                if not leaves[i]:
                    raise
                leaves[i] = False
            else:
                raise


def argument_names(call):
    """The schema's argument names, in order."""
    inside = call["schema"][call["schema"].index("(") + 1:call["schema"].index(") ->")]
    return [a.split("=")[0].split()[-1] for a in re.sub(r"\[[^\]]*\]", "", inside).split(", ") if a != "*"]


def tensors_before(args, kwargs, names, name):
    """How many tensors the call has before the argument `name`."""
    given = list(zip(names, args)) + list(kwargs.items())
    return sum(len(flat(value)) for _, value in given[:[n for n, _ in given].index(name)])


def compare(reader, call, functions):
    """Raises Mismatch where PyTorch's answer is another."""
    try:
        results, tensors = replay(reader, call, functions)
    except Exception as error:
        if "raised" in call:
            return
        raise Mismatch(f"PyTorch raises {type(error).__name__}: {error}") from None
    if "raised" in call:
        raise Mismatch(f"raises '{call['raised']}', but PyTorch gives a result")
    compare_results(reader, call, results)
    for i, (facts, theirs) in enumerate(zip(call.get("changed") or [], tensors)):
        if facts:
            check_close(f"tensor {i} after the call", reader.tensor(facts["tensor"]), theirs, call["tolerance"])
    compare_gradients(reader, call, results, [t for t, leaf in zip(tensors, call["leaves"]) if leaf])
    if "in_place" in call:
        compare_in_place(reader, call)


def source(v):
    """An argument as Python text."""
    if isinstance(v, list):
        return "[" + ", ".join(map(source, v)) + "]"
    if isinstance(v, torch.Tensor):
        if v.numel() == 0:
            return f"torch.empty({list(v.shape)}, dtype={v.dtype})"
        extent = v.storage_offset() + sum((n - 1) * s for n, s in zip(v.shape, v.stride())) + 1
        plain = v.is_contiguous() and v.storage_offset() == 0
        text = f"torch.tensor({v.tolist() if plain else v.as_strided([extent], [1], 0).tolist()}, dtype={v.dtype})"
        text = text.replace("nan", "math.nan").replace("inf", "math.inf")
        return text if plain else f"{text}.as_strided({list(v.shape)}, {list(v.stride())}, {v.storage_offset()})"
    return f"math.{v}" if isinstance(v, float) and not math.isfinite(v) else repr(v)


def pasteable(reader, call):
    args, kwargs, _ = reader.arguments(call)
    inside = [source(v) for v in args] + [f"{k}={source(v)}" for k, v in kwargs.items()]
    overload = "." + call["overload"] if call["overload"] else ""
    return f"{call['op']}{overload}({', '.join(inside)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where dump.cpp wrote calls.jsonl and tensors.bin")
    parser.add_argument("--op", help="only this op")
    parser.add_argument("--verbose", action="store_true", help="a line for every op, also those that passed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    reader = Reader(options.folder)
    counts = collections.defaultdict(collections.Counter)
    accepted, missing, different = [], {}, {}
    for call in reader.calls():
        op = call["op"]
        name = op + ("." + call["overload"] if call["overload"] else "")
        if options.op and op != options.op:
            continue
        functions = candidates(op, call["overload"])
        if op in NO_COUNTERPART or not functions:
            missing[name] = NO_COUNTERPART.get(op)
            counts[name]["skipped" if op in NO_COUNTERPART else "failed"] += 1
            continue
        if "expected" in call:
            try:
                args, kwargs, _ = reader.arguments(call)
                first_that_takes(functions, args, kwargs)
                accepted.append(call)
                counts[name]["skipped"] += 1
            except Exception:
                counts[name]["passed"] += 1
            continue
        try:
            compare(reader, call, functions)
            counts[name]["passed"] += 1
        except Mismatch as mismatch:
            reason = next((r for (o, text), r in DIFFERENCES.items() if o == op and str(mismatch).startswith(text)), None)
            counts[name]["skipped" if reason else "failed"] += 1
            if reason:
                different[name] = f"{str(mismatch).split(':')[0]}: {reason}"
            else:
                print(f"failed: {pasteable(reader, call)}\n    {mismatch}")

    for name, c in sorted(counts.items()):
        if options.verbose or c["failed"]:
            print(f"{name}: {c['passed']} passed, {c['failed']} failed, {c['skipped']} skipped")
    for call in accepted:
        print(f"refused here, accepted by PyTorch: {pasteable(reader, call)[:200]}  ({call['expected']})")
    for name, text in sorted(different.items()):
        print(f"differs by design: {name}: {text}")
    for name, reason in sorted(missing.items()):
        print(f"no counterpart in PyTorch: {name}: {reason or 'NOT EXPLAINED: add it to OWN or NO_COUNTERPART'}")
    total = sum(counts.values(), collections.Counter())
    print(f"{len(counts)} ops compared with PyTorch {torch.__version__}")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
