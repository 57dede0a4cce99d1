"""Analysis of models: parameters, FLOPs, memory, latency, and the profile of a forward or a backward pass.

A model is a module, anything with `forward` and `parameters()`, an object with a `weight`, a function, or a tensor (which
learns nothing and costs one FLOP an element). Two rules for FLOPs: `count_flops` is for one sample, contractions (two a
multiply-add) plus one an activation element, without bias; rates use the whole batch's full cost.
"""
import json

from .. import _C


def _parameters(model):
    """The tensors that it learns, each once."""
    if isinstance(model, _C.Tensor):
        return []
    found = getattr(model, "parameters", None)
    if callable(found):
        tensors = list(found())
    else:
        tensors = [getattr(model, name, None) for name in ("weight", "bias")]
    once = {}
    for tensor in tensors:
        if isinstance(tensor, _C.Tensor):
            once[id(tensor)] = tensor
    return list(once.values())


def _function(model):
    if callable(model):
        return model
    if callable(getattr(model, "forward", None)):
        return model.forward
    if isinstance(getattr(model, "weight", None), _C.Tensor):
        from ..nn import functional
        return lambda x: functional.linear(x, model.weight, getattr(model, "bias", None))
    if isinstance(model, _C.Tensor):
        raise TypeError("a tensor computes nothing, so there is nothing to run; give a function of it, such as lambda x: x * tensor. "
                        "(count_parameters and count_flops take a tensor.)")
    raise TypeError(f"a model must be callable, or have forward() or a weight; found {type(model).__name__}.")


def count_parameters(model):
    """How many numbers the model learns; a tensor with several names counts once."""
    return sum(tensor.numel() for tensor in _parameters(model))


def count_flops(model, input=None):
    """FLOPs of one sample by the textbook rule; `input` is a tensor or its sizes with the batch."""
    if isinstance(model, _C.Tensor):
        return model.numel()
    flops = _C._count_flops(_function(model), _parameters(model), _input(input))
    return int(flops) if float(flops).is_integer() else flops


def measure_memory(model, input):
    """parameter_memory_mb, activation_memory_mb, gradient_memory_mb, peak_memory_mb, memory_efficiency."""
    return json.loads(_C._measure_memory(_function(model), _parameters(model), _input(input)))


def measure_latency(model, input, warmup=10, iterations=100):
    """Milliseconds of a forward run: the median; measure_latency_figures gives its spread too."""
    return measure_latency_figures(model, input, warmup, iterations)["latency_ms"]


def measure_latency_figures(model, input, warmup=10, iterations=100):
    """latency_ms with iqr, p95, p99, and a warning where the machine is too noisy."""
    return json.loads(_C._measure_latency(_function(model), _parameters(model), _input(input), warmup, iterations))


def profile_layer(layer, input):
    """parameters, flops, latency_ms, gflops_per_second and memory of one layer."""
    return _nested(_C._profile_layer(_function(layer), _parameters(layer), _input(input)))


def profile_forward_pass(model, input):
    """profile_layer's figures and what binds: gflops_per_second, memory_bandwidth_mbs, bottleneck and more."""
    return _nested(_C._profile_forward_pass(_function(model), _parameters(model), _input(input)))


def profile_backward_pass(model, input, loss_fn=None):
    """forward_, backward_ and total_ flops and latency_ms, memory, optimizer_memory_estimates; all measured."""
    return _nested(_C._profile_backward_pass(_function(model), _parameters(model), _input(input), loss_fn))


def _input(given):
    if isinstance(given, _C.Tensor):
        return given
    if given is None:
        raise TypeError("the model's input is needed: a tensor, or its sizes with the batch.")
    return _C.functions["randn"](list(given))


def _nested(text):
    """Names with a dot are dictionaries in dictionaries."""
    out = {}
    for name, value in json.loads(text).items():
        *above, last = name.split(".")
        inner = out
        for key in above:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return out


class Profiler:
    """The functions above as members."""

    count_parameters = staticmethod(count_parameters)
    count_flops = staticmethod(count_flops)
    measure_memory = staticmethod(measure_memory)
    measure_latency = staticmethod(measure_latency)
    profile_layer = staticmethod(profile_layer)
    profile_forward_pass = staticmethod(profile_forward_pass)
    profile_backward_pass = staticmethod(profile_backward_pass)


def why_alive(tensor, variables=None):
    """Who keeps a tensor's memory: variables (of the caller, unless given as a dict), gradients, saved slots of the tape."""
    if variables is None:
        import sys
        frame = sys._getframe(1)
        variables = {**frame.f_globals, **frame.f_locals}
    found = [(str(name), value) for name, value in variables.items() if isinstance(value, _C.Tensor)]
    return _C._why_alive(tensor, found).rstrip()
