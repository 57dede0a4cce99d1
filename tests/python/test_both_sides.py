"""What torch.nn and torch.optim have in Python exists in C++ too, and the other way round; the exceptions are listed here with
their reasons. Read from the sources, so that a name which one side lacks is seen when it is added."""
import ast, pathlib, re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE, INCLUDE = ROOT / "python/pellucid", ROOT / "include/pellucid"

PYTHON_ONLY = {
    r"Lazy\w+": "C++ gives the sizes to the constructor",
    r"Parameter(List|Dict)|Buffer|Parameter|Uninitialized\w+": "tensors that C++ registers",
    r"NLLLoss2d|clip_grad_norm": "old names",
    r"RNNBase|LRScheduler|Module|GradientHooks|IncompatibleKeys|NonDynamicallyQuantizableLinear": "bases and parts",
    r"register_\w+|(load_)?state_dict|[gs]et_extra_state|options|as_float_mask|check|new_step|strong_wolfe|zeros_like": "parts",
    r"get_\w+_multi_avg_fn": "a loop over tensors in C++",
    # These replace attributes of a module by computed ones, which members of a C++ class cannot be.
    r"\w*(prun|parametri|weight_norm|spectral_norm|[us]tructured|custom_from_mask)\w*|WeightNorm|SpectralNorm": "attributes",
    r"BasePruningMethod|CustomFromMask|(Random|L1)Unstructured|(Random|Ln)Structured|ParametrizationList": "attributes",
    r"Identity|identity|remove|orthogonal|cached|type_before_parametrizations": "attributes",
    r"skip_init": "empty() in C++",
    # torch.nn.init without the underscore, deprecated in PyTorch.
    r"constant|dirac|eye|(kaiming|xavier)_(normal|uniform)|normal|sparse|uniform": "old names",
}
CPP_ONLY = {
    r"Functional": "any callable works in Python",
}


def python_names(*paths):
    """The public names that files define."""
    found = set()
    for path in (p for pattern in paths for p in sorted(PACKAGE.glob(pattern))):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found.add(node.name)
            elif isinstance(node, ast.Assign):
                targets = [e for t in node.targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
                found |= {t.id for t in targets if isinstance(t, ast.Name)}
    return {name for name in found if not name.startswith("_")}


def headers(*patterns):
    return "".join(p.read_text() for pattern in patterns for p in sorted(INCLUDE.glob(pattern)))


def cpp_names(text):
    """The classes, aliases and functions that headers declare."""
    declared = re.findall(r"(?:class|struct) (?:PELLUCID_API )?(\w+)|using (\w+) =|\b(\w+)\(", text)
    return {name for names in declared for name in names if name}


def lacking(names, there, exempt):
    return sorted(n for n in names if n not in there and not any(re.fullmatch(e, n) for e in exempt))


SIDES = {
    "modules": (("nn/modules/*.py",), ("nn/*.h",)),
    "optimisers and schedules": (("optim/*.py",), ("optim/*.h",)),
    "initialisers": (("nn/init.py",), ("nn/init.h",)),
    "utilities": (("nn/utils/*.py",), ("nn/utils.h", "nn/packed_sequence.h")),
}


@pytest.mark.parametrize("part", SIDES)
def test_cpp_has_what_python_has(part):
    python, cpp = SIDES[part]
    assert not lacking(python_names(*python), cpp_names(headers(*cpp)), PYTHON_ONLY)


def test_python_has_what_cpp_has():
    modules = set(re.findall(r"using (\w+) = ModuleHolder", headers("nn/*.h")))
    optimisers = set(re.findall(r"class PELLUCID_API (\w+) : public (?:Optimizer|LRScheduler|LambdaLR)", headers("optim/*.h")))
    assert len(modules) > 100 and len(optimisers) > 10
    assert not lacking(modules, python_names("nn/modules/*.py"), CPP_ONLY)
    assert not lacking(optimisers, python_names("optim/*.py"), CPP_ONLY)


def test_a_missing_name_is_found():
    assert lacking({"Linear", "Planted"}, cpp_names(headers("nn/*.h")), PYTHON_ONLY) == ["Planted"]
