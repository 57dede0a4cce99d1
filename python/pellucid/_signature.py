"""Signatures of ops for inspect and help, made from their records."""
import inspect
from keyword import iskeyword

from . import _C


class _Annotation:
    """The name of a type, written as it is."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


def make(arguments, creates, result):
    """A Signature from (name, type, keyword_only, has_default, default) of each argument."""
    parameters = []
    keyword = False
    for name, kind, keyword_only, has_default, default in arguments:
        # An argument without a default after one with it must be given by keyword, as Python's own rule says.
        keyword = keyword or keyword_only or (not has_default and any(p.default is not p.empty for p in parameters))
        parameters.append(inspect.Parameter(
            name + "_" * iskeyword(name), inspect.Parameter.KEYWORD_ONLY if keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=default if has_default else inspect.Parameter.empty, annotation=_Annotation(kind)))
    if creates:
        parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_Annotation(kind))
                       for name, kind, default in (("device", "torch.device", None), ("requires_grad", "bool", False))]
    returned = _C.Tensor if result == "Tensor" else tuple
    return inspect.Signature(parameters, return_annotation=returned)
