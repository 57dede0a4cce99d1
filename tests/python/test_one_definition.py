"""Operators are defined once, in src/ops: Python has them all, under all their names, and no compositions beside them."""
import inspect

import pellucid as torch
import pellucid.linalg
import pellucid.nn.functional as F
import pellucid.special

FUNCTIONS = torch._C.functions
WITHOUT_INPLACE = ("sigmoid", "tanh", "gelu")  # in PyTorch


def names_of(schema):
    return schema[:schema.index("(")].partition(".")[0].partition("[")[0].split("|")


def test_every_name_of_every_op_is_a_function_and_a_method():
    for name, op in FUNCTIONS.items():
        if name.endswith("_backward"):  # gradients' own ops are no methods
            continue
        for schema in op.schemas:
            for other in names_of(schema):
                assert other in FUNCTIONS or other + "_" in FUNCTIONS, (name, other)
                if "Tensor self" in schema.partition(")")[0] and not name.endswith("_") and other in FUNCTIONS:
                    assert hasattr(torch.Tensor, other), other


def test_other_names():
    x = torch.tensor([0.5, -0.25])
    assert torch.equal(torch.arccos(x), torch.acos(x)) and torch.equal(x.clip(0, 1), x.clamp(0, 1))
    assert torch.equal(torch.special.expit(x), x.sigmoid()) and torch.equal(torch.linalg.matrix_power(torch.eye(2), 3), torch.eye(2))
    assert x.clone().absolute_().tolist() == [0.5, 0.25]


def test_namespaces_are_their_ops():
    for module, prefix in ((torch.special, "special_"), (torch.linalg, "linalg_")):
        for name in FUNCTIONS:
            if name.startswith(prefix) and not name.endswith("_"):
                assert callable(getattr(module, name[len(prefix):]))


def test_no_python_file_defines_what_an_op_computes():
    """Functions of the torch namespace that are Python either have no op of their name or hand their arguments to it."""
    for name, function in vars(torch).items():
        if inspect.isfunction(function) and name in FUNCTIONS and function.__module__ == "pellucid._functions":
            used = function.__code__.co_names + function.__code__.co_consts + function.__code__.co_freevars
            assert name in used or "_C" in used or "function" in used or name in ("norm", "split"), name


def test_activations_have_inplace_where_their_op_has_a_form_in_place():
    for name, op in FUNCTIONS.items():
        if op.activation and name + "_" in FUNCTIONS and not name.startswith("_") and name not in WITHOUT_INPLACE:
            parameters = inspect.signature(getattr(F, name)).parameters
            assert "inplace" in parameters, name
