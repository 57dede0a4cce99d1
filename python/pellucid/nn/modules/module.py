"""Module: the base of every layer. Attributes that are parameters, buffers or modules register themselves."""
import contextlib
import itertools
import threading
from collections import OrderedDict, namedtuple

from ... import _C
from ..._tensor import RemovableHandle, Tensor
from ..parameter import Buffer, Parameter

_IncompatibleKeys = namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])


class IncompatibleKeys(_IncompatibleKeys):
    def __repr__(self):
        return "<All keys matched successfully>" if not self.missing_keys and not self.unexpected_keys else super().__repr__()

    __str__ = __repr__


_hook_numbers = itertools.count()
_global_hooks: dict[str, OrderedDict] = {"forward_pre": OrderedDict(), "forward": OrderedDict()}


class _Scopes(threading.local):
    """The modules whose forward runs on this thread, while a profile is recorded or a sealed function is traced."""

    recording = False  # class attributes: one for all threads
    tracing = 0  # functions that are traced now
    lock = threading.Lock()

    def __init__(self):
        self.running = []
        self.called = None  # by the function that this thread traces

    @contextlib.contextmanager
    def noting(self):
        """In its scope the modules that this thread calls are noted in the dictionary that it gives."""
        before, self.called = self.called, {}
        with self.lock:
            _Scopes.tracing += 1
        try:
            yield self.called
        finally:
            self.called = before
            with self.lock:
                _Scopes.tracing -= 1

    def begin(self, module):
        name = ""
        if self.running:
            name = next((n for n, m in self.running[-1].named_modules() if m is module), "")
        own = [p for p in module._parameters.values() if p is not None]
        _C._profile_begin_module(id(module), type(module).__name__, name, sum(p.numel() for p in own),
                                 sum(p.numel() * p.element_size() for p in own))
        self.running.append(module)

    def end(self, threw):
        self.running.pop()
        _C._profile_end(threw)


_scopes = _Scopes()
_Scopes.recording = _C._profile_recording()  # `pellucid profile` records from the start


def _add_hook(hooks, hook, prepend=False, **extra):
    number = next(_hook_numbers)
    hooks[number] = (hook, extra)
    if prepend:
        hooks.move_to_end(number, last=False)
    return RemovableHandle(lambda: hooks.pop(number, None))


def register_module_forward_hook(hook, *, always_call=False):
    """Calls hook(module, args, output) after every module's forward."""
    return _add_hook(_global_hooks["forward"], hook)


def register_module_forward_pre_hook(hook):
    """Calls hook(module, args) before every module's forward."""
    return _add_hook(_global_hooks["forward_pre"], hook)


class Module:
    """A part of a network: subclasses register their parts in __init__ and compute in forward."""

    training: bool
    _version = 1

    def __init__(self, *args, **kwargs):
        put = super().__setattr__
        put("training", True)
        for name in ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                     "_backward_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks",
                     "_load_state_dict_post_hooks"):
            put(name, {})
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            put(name, OrderedDict())
        put("_non_persistent_buffers_set", set())

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # Registration

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but not to learn."""
        self._check_name(name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)")
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def register_parameter(self, name, param):
        """Adds a tensor to learn."""
        self._check_name(name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                            "(torch.nn.Parameter or None required)")
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly.")
        self._parameters[name] = param

    def add_module(self, name, module):
        """Adds a part."""
        self._check_name(name, self._modules)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, name, where):
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameters before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"name should be a string. Got {type(name).__name__}")
        if name == "" or "." in name:
            raise KeyError('name can\'t contain "." and can\'t be empty string ""')
        if hasattr(self, name) and name not in where:
            raise KeyError(f"attribute '{name}' already exists")

    def __setattr__(self, name, value):
        attributes = self.__dict__
        parts = attributes.get("_parameters")
        if isinstance(value, Parameter):
            if parts is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, self._parameters)
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if parts is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, self._modules)
            self._modules[name] = value
        elif isinstance(value, Buffer):
            self._forget(name, self._buffers)
            self.register_buffer(name, value, value.persistent)
        elif parts is not None and name in parts:
            if value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' as parameter '{name}' "
                                "(torch.nn.Parameter or None expected)")
            parts[name] = None
        elif parts is not None and name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{type(value).__name__}' as buffer '{name}' (torch Tensor or None expected)")
            self._buffers[name] = value
        elif parts is not None and name in self._modules:
            if value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' as child module '{name}' "
                                "(torch.nn.Module or None expected)")
            self._modules[name] = None
        else:
            super().__setattr__(name, value)

    def _forget(self, name, keeps):
        """What was of that name goes, but for its place among those of the same kind."""
        self.__dict__.pop(name, None)
        for where in (self._parameters, self._buffers, self._modules):
            if where is not keeps:
                where.pop(name, None)

    def __getattr__(self, name):
        attributes = self.__dict__
        for where in ("_parameters", "_buffers", "_modules"):
            found = attributes.get(where)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name):
        for where in (self._parameters, self._buffers, self._modules):
            if name in where:
                del where[name]
                return
        super().__delattr__(name)

    def __dir__(self):
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    # Calling

    def __call__(self, *args, **kwargs):
        if _Scopes.recording or _Scopes.tracing:
            return self._call_watched(args, kwargs)
        if not (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                or _global_hooks["forward"] or _global_hooks["forward_pre"]):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    _call_impl = __call__

    def _call_watched(self, args, kwargs):
        if _scopes.called is not None:
            _scopes.called[id(self)] = self
        if not _Scopes.recording:
            return self._call_with_hooks(args, kwargs)
        _scopes.begin(self)
        threw = True
        try:
            result = self._call_with_hooks(args, kwargs)
            threw = False
            return result
        finally:
            _scopes.end(threw)

    def _call_with_hooks(self, args, kwargs):
        for hook, extra in (*_global_hooks["forward_pre"].values(), *self._forward_pre_hooks.values()):
            result = hook(self, args, kwargs) if extra.get("with_kwargs") else hook(self, args)
            if result is not None:
                if extra.get("with_kwargs"):
                    args, kwargs = result
                else:
                    args = result if isinstance(result, tuple) else (result,)
        gradients = None
        if self._backward_hooks or self._backward_pre_hooks:
            from .backward_hooks import GradientHooks
            gradients = GradientHooks(self)
            args = gradients.of_inputs(args)
        output = self.forward(*args, **kwargs)
        for hook, extra in (*_global_hooks["forward"].values(), *self._forward_hooks.values()):
            result = hook(self, args, kwargs, output) if extra.get("with_kwargs") else hook(self, args, output)
            if result is not None:
                output = result
        return output if gradients is None else gradients.of_outputs(output)

    def _structure(self):
        """All that decides what a call does, but for the values of tensors: attributes, parts, hooks."""
        found = self.__dict__
        return [*found.values(), *found["_parameters"].values(), *found["_buffers"].values(), *found["_modules"].values(),
                *found["_forward_hooks"].values(), *found["_forward_pre_hooks"].values(), *found["_backward_hooks"].values(),
                *found["_backward_pre_hooks"].values()]

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Calls hook(module, args, output) after forward; what it returns replaces the output."""
        return _add_hook(self._forward_hooks, hook, prepend, with_kwargs=with_kwargs)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls hook(module, args) before forward; what it returns replaces the arguments."""
        return _add_hook(self._forward_pre_hooks, hook, prepend, with_kwargs=with_kwargs)

    def register_full_backward_hook(self, hook, prepend=False):
        """Calls hook(module, grad_input, grad_output) when the gradients of the inputs are there."""
        return _add_hook(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Calls hook(module, grad_output) when the gradients of the outputs are there."""
        return _add_hook(self._backward_pre_hooks, hook, prepend)

    # Walking

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """This module and its parts, depth first, with dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate=True):
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self):
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        return (module for _, module in self.named_children())

    def _named_members(self, members, prefix, recurse, remove_duplicate=True):
        seen = set()
        for path, module in self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]:
            for name, value in members(module).items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named_members(lambda m: m._parameters, prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named_members(lambda m: m._buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target):
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Puts a module in the place of a dotted name."""
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and name not in parent._modules:
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target):
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target):
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._buffers[name]

    # Changing all of it

    def apply(self, fn):
        """Calls fn on every part, then on the module itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        for module in self.children() if recurse else ():
            module._apply(fn)
        for param in self._parameters.values():
            if param is not None:
                grad, param.grad = param.grad, None
                param.data = fn(param.detach())
                _C._count_memory_as(param, "parameter")
                if grad is not None:
                    param.grad = fn(grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Converts floating parameters and buffers, in place."""
        dtype = kwargs.get("dtype") or next((a for a in args if str(type(a).__name__) == "dtype"), None)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
        # A layout is that of images or volumes: other parameters keep theirs.
        plain = {k: v for k, v in kwargs.items() if k != "memory_format"}
        return self._apply(lambda t: t if not t.is_floating_point() else t.to(*args, **(kwargs if t.ndim in (4, 5) else plain)))

    def type(self, dst_type):
        """Converts all parameters and buffers to a dtype or a tensor type, in place."""
        return self._apply(lambda t: t.type(dst_type))

    def to_empty(self, *, device, recurse=True):
        """Accepts the CPU: new memory of the same sizes, not initialised."""
        from ... import _C
        from ..._types import check_device
        check_device(device)
        return self._apply(lambda t: _C.functions["empty_like"](t), recurse)

    def compile(self, *args, **kwargs):
        """Captures the calls of this module's forward, as torch.compile does."""
        from ..._compile import compile as compiled
        self.forward = compiled(self.forward, *args, **kwargs)

    def _convert_floats(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self):
        from ... import _C
        return self._convert_floats(_C.float32)

    def double(self):
        from ... import _C
        return self._convert_floats(_C.float64)

    def half(self):
        from ... import _C
        return self._convert_floats(_C.float16)

    def bfloat16(self):
        from ... import _C
        return self._convert_floats(_C.bfloat16)

    def cpu(self):
        return self

    def cuda(self, device=None):
        raise RuntimeError("cuda() is not available: pellucid runs on the CPU.")

    def share_memory(self):
        """Moves parameters, their gradients and buffers into memory that processes share."""
        return self._apply(lambda t: t.share_memory_())

    def train(self, mode=True):
        """Training behaviour, for this module and its parts."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for p in self.parameters():
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad = p.grad.detach().zero_()

    # Text

    def extra_repr(self):
        return ""

    def _get_name(self):
        return type(self).__name__

    def __repr__(self):
        indent = lambda text: text.replace("\n", "\n  ")
        extra = [line for line in self.extra_repr().split("\n") if line]
        children = [f"({name}): {indent(repr(module))}" for name, module in self._modules.items()]
        if extra and not children and len(extra) == 1:
            return f"{self._get_name()}({extra[0]})"
        lines = extra + children
        return f"{self._get_name()}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


from . import state as _state  # noqa: E402 (needs Module's names above)

for _method in ("state_dict", "load_state_dict", "_save_to_state_dict", "_load_from_state_dict", "get_extra_state",
                "set_extra_state", "register_state_dict_post_hook", "_register_state_dict_hook",
                "register_state_dict_pre_hook", "_register_load_state_dict_pre_hook",
                "register_load_state_dict_pre_hook", "register_load_state_dict_post_hook", "__setstate__"):
    setattr(Module, _method, getattr(_state, _method))
