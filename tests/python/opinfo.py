#!/usr/bin/env python3
"""Runs PyTorch's own operator samples through pellucid and compares: results, gradients, errors.

usage: opinfo.py LIST.json [--op NAME]… [--verbose] [--report FILE] [--least PERCENT]

LIST.json names operators of torch.testing._internal.common_methods_invocations.op_db ({"ops": {"add": […], …}}). Every sample
runs forward in float32 and, where the operator is differentiable, forward and backward in float64; both must be close by
torch.testing.assert_close's defaults with equal dtypes and sizes. Error inputs must raise. Random operators are compared by
dtype and sizes. Singular and eigenvectors are determined up to their signs, and those of a null space up to a rotation, so
they are compared by what PyTorch's own samples derive from them (FREE below); gradients by the samples' own functions of
them (output_process_fn_grad). Needs PyTorch 2.13, expecttest and pellucid in one environment.
Ends with "N passed, N failed, N skipped", which counts samples; with --report a list by operator is written.
"""
import argparse
import collections
import json
import sys
import types
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

import pellucid
import pellucid.linalg
import pellucid.nn.functional

RANDOM = {"rand_like", "randn_like", "bernoulli", "multinomial", "normal", "normal.in_place", "normal.number_mean", "uniform",
          "nn.functional.dropout", "empty", "rand", "randn"}


def svd_invariants(parts):
    """S, |U| and |Vh| of the singular values, U S Vh, and the projections on the rest of full matrices."""
    u, s, vh = parts
    k = s.shape[-1]
    rest_u, rest_v = u[..., k:], vh[..., k:, :]
    return [s, u[..., :k].abs(), vh[..., :k, :].abs(), (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :],
            rest_u @ rest_u.transpose(-2, -1), rest_v.transpose(-2, -1) @ rest_v]


def eigh_invariants(parts):
    """The eigenvalues, |V|, and V diag(values) V^T."""
    values, vectors = parts
    return [values, vectors.abs(), (vectors * values.unsqueeze(-2)) @ vectors.transpose(-2, -1)]


# What is compared of results that are not determined completely. Sizes and dtypes are compared besides.
FREE = {"linalg.svd": svd_invariants, "linalg.eigh": eigh_invariants}


def to_ours(value, leaves=None, storages=None):
    """A sample's value for pellucid. Tensors share nothing with the original, but as much with one another if a dict `storages` is
    given; those that require gradients go to `leaves`."""
    if isinstance(value, torch.Tensor):
        if value.dtype.is_complex:
            raise NotImplementedError("complex")
        # The whole storage is copied, so that views of it (as_strided beyond the tensor) see the same.
        storage = value.detach().untyped_storage()
        elements = storage.nbytes() // value.element_size()
        key = (storage.data_ptr(), value.dtype)
        whole = None if storages is None else storages.get(key)
        if whole is None:
            whole = pellucid.from_dlpack(torch.empty(0, dtype=value.dtype).set_(storage, 0, (elements,), (1,)).clone())
            if storages is not None:
                storages[key] = whole
        ours = whole.as_strided(tuple(value.shape), value.stride(), value.storage_offset()).detach()
        if value.requires_grad:
            ours.requires_grad_()
            if leaves is not None:
                leaves.append((value, ours))
        return ours
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.dtype):
        found = getattr(pellucid, str(value).rpartition(".")[2], None)
        if found is None:
            raise NotImplementedError(str(value))
        return found
    if isinstance(value, torch.memory_format):
        return getattr(pellucid, str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.layout):
        return pellucid.strided
    if isinstance(value, (list, tuple)):
        return type(value)(to_ours(v, leaves, storages) for v in value)
    if isinstance(value, dict):
        return {k: to_ours(v, leaves, storages) for k, v in value.items()}
    return value


def to_theirs(value):
    if isinstance(value, pellucid.Tensor):
        return torch.from_dlpack(value.detach())
    if isinstance(value, (list, tuple)):
        return [to_theirs(v) for v in value]
    return value


def flat_tensors(value, kind):
    if isinstance(value, kind):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat_tensors(v, kind)]
    return []


def our_function(op):
    """The function of pellucid that the operator names; lambdas of the database run with torch being pellucid."""
    f = op.op
    if isinstance(f, types.FunctionType) and f.__module__ and f.__module__.startswith("torch.testing"):
        space = dict(f.__globals__, torch=pellucid)
        return types.FunctionType(f.__code__, space, f.__name__, f.__defaults__, f.__closure__)
    where = pellucid
    try:
        for part in op.name.split("."):
            where = getattr(where, part)
        return where
    except AttributeError:
        method = getattr(pellucid.Tensor, op.name, None)
        if method is None or "." in op.name:
            raise
        return lambda x, *args, **kwargs: method(x, *args, **kwargs)


def compare(actual, expected, random, free=None):
    theirs, ours = flat_tensors(expected, torch.Tensor), [to_theirs(t) for t in flat_tensors(actual, pellucid.Tensor)]
    if len(theirs) != len(ours):
        raise AssertionError(f"{len(ours)} results instead of {len(theirs)}")
    if free is not None:
        for a, e in zip(ours, theirs):
            if a.shape != e.shape or a.dtype != e.dtype:
                raise AssertionError(f"{a.dtype}{list(a.shape)} instead of {e.dtype}{list(e.shape)}")
        ours, theirs = free(ours), free([t.detach() for t in theirs])
    for a, e in zip(ours, theirs):
        e = e.detach()
        if random:
            if a.shape != e.shape or a.dtype != e.dtype:
                raise AssertionError(f"{a.dtype}{list(a.shape)} instead of {e.dtype}{list(e.shape)}")
        else:
            torch.testing.assert_close(a, e, equal_nan=True)
    if not theirs and actual != expected:
        raise AssertionError(f"{actual} instead of {expected}")


def run_forward(op, function, sample, random):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = function(to_ours(sample.input), *to_ours(sample.args), **to_ours(sample.kwargs))
        expected = op(sample.input, *sample.args, **sample.kwargs)
    compare(ours, expected, random, FREE.get(op.name))


def run_gradients(op, function, sample, random):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaves = []
        args = to_ours((sample.input, sample.args, sample.kwargs), leaves)
        ours = function(args[0], *args[1], **args[2])
        expected = op(sample.input, *sample.args, **sample.kwargs)
        compare(ours, expected, random, FREE.get(op.name))
        if random:
            return
        process = sample.output_process_fn_grad
        outputs = [t for t in flat_tensors(process(expected), torch.Tensor) if t.requires_grad]
        our_outputs = [t for t in flat_tensors(process(ours), pellucid.Tensor) if t.requires_grad]
        if len(outputs) != len(our_outputs):
            raise AssertionError(f"{len(our_outputs)} differentiable results instead of {len(outputs)}")
        if not outputs or not leaves:
            return
        generator = torch.Generator().manual_seed(0)
        grads = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in outputs]
        theirs = torch.autograd.grad(outputs, [a for a, _ in leaves], grads, allow_unused=True)
        found = pellucid.autograd.grad(our_outputs, [b for _, b in leaves], [to_ours(g) for g in grads], allow_unused=True)
    for a, e in zip(found, theirs):
        zero = lambda g, other: torch.zeros_like(other) if g is None else g
        a = None if a is None else to_theirs(a)
        if a is None and e is None:
            continue
        torch.testing.assert_close(zero(a, e), zero(e, a), equal_nan=True)


def run_error(function, error):
    if hasattr(function, "missing"):
        function()  # a name that is not there is not the error that was asked for
    sample = error.sample_input
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            first, args, kwargs = to_ours((sample.input, sample.args, sample.kwargs), storages={})
            function(first, *args, **kwargs)
        except NotImplementedError as e:
            if str(e) == "complex" or "not there" in str(e):
                raise
        except Exception:
            return
    raise AssertionError(f"no error; PyTorch raises {error.error_type.__name__}: {error.error_regex[:60]}")


def brief(sample):
    short = lambda v: (f"{str(v.dtype)[6:]}{list(v.shape)}" if isinstance(v, torch.Tensor) else
                       [short(x) for x in v] if isinstance(v, (list, tuple)) else v)
    return f"({short(sample.input)}, {short(sample.args)}, { {k: short(v) for k, v in sample.kwargs.items()} })"


def first_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:160]}" if text else type(error).__name__


class Report:
    def __init__(self, verbose):
        self.verbose, self.rows = verbose, {}

    def run(self, name, kind, sample, call):
        row = self.rows.setdefault(name, {"passed": 0, "failed": 0, "reasons": collections.Counter()})
        try:
            call()
            row["passed"] += 1
        except Exception as e:
            row["failed"] += 1
            row["reasons"][f"{kind}: {first_line(e)}"] += 1
            if self.verbose:
                print(f"{name} {kind} {brief(sample)}: {e}")

    def print(self):
        for name, row in self.rows.items():
            if row["failed"]:
                print(f"{name}: {row['failed']} of {row['failed'] + row['passed']} fail")
                for reason, count in row["reasons"].most_common(3):
                    print(f"    {count} x {reason}")

    def totals(self):
        return sum(r["passed"] for r in self.rows.values()), sum(r["failed"] for r in self.rows.values())


def run_operator(op, name, report):
    always_random = name in RANDOM
    try:
        function = our_function(op)
    except AttributeError as missing:
        message = str(missing)

        def function(*_, **__):
            raise AttributeError(message)
        function.missing = True
    if torch.float32 in op.dtypes:
        for sample in op.sample_inputs("cpu", torch.float32):
            random = always_random or sample.kwargs.get("dropout_p", 0) > 0
            report.run(name, "float32", sample, lambda: run_forward(op, function, sample, random))
    if torch.float64 in op.dtypes and op.supports_autograd:
        for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True):
            random = always_random or sample.kwargs.get("dropout_p", 0) > 0
            report.run(name, "float64", sample, lambda: run_gradients(op, function, sample, random))
    if op.error_inputs_func is not None:
        for error in op.error_inputs("cpu"):
            report.run(name, "error", error.sample_input, lambda: run_error(function, error))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list")
    parser.add_argument("--op", action="append")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--report")
    parser.add_argument("--least", type=float, default=100.0, help="exit with 0 from this share of samples on")
    options = parser.parse_args()
    with open(options.list, encoding="utf-8") as file:
        names = list(json.load(file)["ops"])
    known = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}
    report = Report(options.verbose)
    for name in options.op or names:
        torch.manual_seed(0)
        run_operator(known[name], name, report)
    report.print()
    if options.report:
        rows = {n: {**r, "reasons": dict(r["reasons"])} for n, r in report.rows.items()}
        with open(options.report, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    passed, failed = report.totals()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 0 if 100.0 * passed >= options.least * max(passed + failed, 1) else 1


if __name__ == "__main__":
    sys.exit(main())
