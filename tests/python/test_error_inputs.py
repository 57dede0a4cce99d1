"""Inputs that PyTorch's own operator database (OpInfo) says must raise: they raise here too. Needs PyTorch with its testing
package; that package imports expecttest for its own tests only, so a stand-in does where it is not installed."""
import sys
import types
import unittest

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")
try:
    import expecttest  # noqa: F401
except ImportError:
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    vars(sys.modules["expecttest"])["TestCase"] = unittest.TestCase
import opinfo  # noqa: E402

# What is accepted, and why.
ACCEPTED = {
    "clamp_max": "a tensor and a number are what PyTorch takes too; the database names the number alone",
    "clamp_min": "the same",
    "cat": "out= that is one of the inputs: the result is computed before it is written, so it is right here",
}


def error_inputs():
    """(name of the operator, its function here, an error input) of every operator that is here."""
    for op in opinfo.op_db:
        if op.error_inputs_func is None:
            continue
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        try:
            function = opinfo.our_function(op)
        except AttributeError:
            continue  # the missing ones are listed in opinfo_missing.md
        for error in op.error_inputs("cpu"):
            yield name, function, error


def test_what_pytorch_refuses_is_refused():
    accepted, refused = [], 0
    for name, function, error in error_inputs():
        try:
            opinfo.run_error(function, error)
            refused += 1
        except AssertionError as e:
            if name not in ACCEPTED:
                accepted.append(f"{name}{opinfo.brief(error.sample_input)}: {e}")
        except Exception:
            pass  # complex or sparse inputs, which are not there
    assert not accepted, f"{len(accepted)} calls are accepted:\n" + "\n".join(accepted)
    assert refused > 300
