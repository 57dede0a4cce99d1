"""Every function of one or two tensors over bool and all integer dtypes: what PyTorch refuses is refused, and what it takes gives
the same dtype and values. The functions are those of the op definitions and of `special` that PyTorch has too."""
import inspect
import itertools
import math
import re
import warnings

import pytest

import pellucid
import pellucid.special

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64"]
# Random, or of memory that nobody has written.
NOT_DETERMINED = {"bernoulli", "empty_like", "rand_like", "randn_like", "poisson", "binomial", "normal", "dropout", "alpha_dropout",
                  "feature_dropout", "feature_alpha_dropout", "native_dropout", "rrelu", "randint_like", "multinomial",
                  "dropout_train"}
# What differs, and why.
DIFFERENT = {
    r"(argmax|argmin|median|nanmedian|trace)\(bool\)": "defined here; PyTorch has no kernel",
    r"(clamp_max|clamp_min)\(bool, True\)": "defined here; PyTorch has no kernel",
    r"special.round\(u?int\d+\)": "round's own meaning; PyTorch has it as torch.round, and not under this name",
    r"pow\(bool, True\)": "not taken yet",
    r"(cross|inner)\(.*, .*\)": "two dtypes are promoted, and bool is taken; PyTorch has no kernel",
    r"hinge_embedding_loss\(.*, .*\)": "the loss of integers is floating; PyTorch's is an integer",
    r"searchsorted\(.*, .*\)": "the rows here are not sorted, so no place is right",
}


def schemas_of(name):
    found = getattr(getattr(pellucid, name, None), "schemas", None)
    return found if isinstance(found, (list, tuple)) else []


def tensor_arguments(schema):
    """How many tensors must be given, or None where something else must be given too."""
    inside = re.match(r"[\w.|\[\]!]+\((.*)\) ->", schema)
    arguments = [a for a in re.split(r", (?![^\[]*\])", inside.group(1)) if a and a != "*"] if inside else []
    needed = [a for a in arguments if "=" not in a]
    if not all(re.match(r"Tensor(\|Scalar)?(\(\w!?\))? ", a) for a in needed):
        return None
    return len(needed)


def functions(count):
    """Names of functions of `count` tensors that both libraries have."""
    names = {n for n in dir(pellucid) if not n.startswith("_") and not n.endswith("_") and hasattr(torch, n)
             and any(tensor_arguments(str(s)) == count for s in schemas_of(n))}
    special = set()
    for n in dir(pellucid.special):
        if n.startswith("_") or not hasattr(torch.special, n) or not callable(getattr(pellucid.special, n)):
            continue
        try:
            needed = [p for p in inspect.signature(getattr(pellucid.special, n)).parameters.values()
                      if p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD]
        except (TypeError, ValueError):
            continue
        if len(needed) == count:
            special.add(f"special.{n}")
    return sorted((names - NOT_DETERMINED) | special)


def values(dtype, second=False):
    if dtype == "bool":
        return [[True, True, False], [True, False, True]] if not second else [[True, True, True], [True, True, True]]
    if second:
        return [[1, 2, 3], [3, 2, 1]]
    return [[0, 1, 2], [5, 3, 100]] if dtype == "uint8" else [[0, 1, -2], [5, -3, 100]]


def tensor(library, dtype, second=False):
    return library.tensor(values(dtype, second), dtype=getattr(library, dtype))


def attempt(library, name, arguments):
    function = library
    for part in name.split("."):
        function = getattr(function, part)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments), None
    except Exception as e:
        return None, e


def parts(result):
    if isinstance(result, (torch.Tensor, pellucid.Tensor)):
        return [(str(result.dtype).rpartition(".")[2], result.tolist())]
    if isinstance(result, (tuple, list)):
        return [p for r in result for p in parts(r)]
    return [(type(result).__name__, result)]


def close(a, b):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=2e-5, abs_tol=1e-6)
    return a == b


def difference(name, make):
    """A line that says how the two differ, or None."""
    theirs, refused = attempt(torch, name, make(torch))
    ours, error = attempt(pellucid, name, make(pellucid))
    if refused is not None:
        return None if error is not None else f"accepted ({parts(ours)[0][0]}); PyTorch: {str(refused).splitlines()[0][:90]}"
    if error is not None:
        return f"refused: {type(error).__name__}: {str(error).splitlines()[0][:90]}"
    mine, other = parts(ours), parts(theirs)
    if [p[0] for p in mine] != [p[0] for p in other]:
        return f"dtype {[p[0] for p in mine]}; PyTorch {[p[0] for p in other]}"
    return None if close([p[1] for p in mine], [p[1] for p in other]) else f"{mine} instead of {other}"


def report(lines):
    found = [line for line in lines if not any(re.fullmatch(p, line.split(":")[0]) for p in DIFFERENT)]
    assert not found, f"{len(found)} calls differ:\n" + "\n".join(found)


def test_functions_of_one_tensor():
    names = functions(1)
    assert len(names) > 100
    report(f"{name}({dtype}): {d}" for name in names for dtype in DTYPES
           if (d := difference(name, lambda library: [tensor(library, dtype)])))


def test_functions_of_two_tensors():
    names = functions(2)
    assert len(names) > 40
    report(f"{name}({a}, {b}): {d}" for name in names for a, b in itertools.product(DTYPES, repeat=2)
           if (d := difference(name, lambda library: [tensor(library, a), tensor(library, b, True)])))


def test_functions_of_a_tensor_and_a_number():
    names = functions(2)
    report(f"{name}({dtype}, {number!r}): {d}" for name in names for dtype in DTYPES for number in (2, 1.5, True)
           if (d := difference(name, lambda library: [tensor(library, dtype), number])))
