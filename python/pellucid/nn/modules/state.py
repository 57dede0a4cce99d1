"""state_dict and load_state_dict, as methods of Module."""
from collections import OrderedDict

from ... import _C
from ..._tensor import RemovableHandle


def get_extra_state(self):
    raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")


def set_extra_state(self, state):
    raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")


def _has_extra_state(module):
    return type(module).get_extra_state is not get_extra_state


def _save_to_state_dict(self, destination, prefix, keep_vars):
    for name, value in self._parameters.items():
        if value is not None:
            destination[prefix + name] = value if keep_vars else value.detach()
    for name, value in self._buffers.items():
        if value is not None and name not in self._non_persistent_buffers_set:
            destination[prefix + name] = value if keep_vars else value.detach()
    if _has_extra_state(self):
        destination[prefix + "_extra_state"] = self.get_extra_state()


def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
    """Parameters and persistent buffers by dotted name."""
    if args:
        destination, prefix, keep_vars = list(args) + [destination, prefix, keep_vars][len(args):]
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = {"version": self._version}
    for hook in [h for kind, h in self._state_dict_hooks.values() if kind == "pre"]:
        hook(self, prefix, keep_vars)
    self._save_to_state_dict(destination, prefix, keep_vars)
    for name, module in self._modules.items():
        if module is not None:
            module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in [h for kind, h in self._state_dict_hooks.values() if kind == "post"]:
        result = hook(self, destination, prefix, {"version": self._version})
        destination = destination if result is None else result
    return destination


def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    for hook in list(self._load_state_dict_pre_hooks.values()):
        hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    persistent = {n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set}
    local = {n: v for n, v in (*self._parameters.items(), *persistent.items()) if v is not None}
    assign = local_metadata.get("assign_to_params_buffers", False)
    for name, value in local.items():
        key = prefix + name
        if key not in state_dict:
            if strict:
                missing_keys.append(key)
            continue
        given = state_dict[key]
        if given.shape != value.shape and not (value.ndim == 0 and given.numel() == 1):
            error_msgs.append(f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape "
                              f"in current model is {value.shape}.")
        elif assign and name in self._parameters:
            value.data = given.detach()
        elif assign:
            self._buffers[name] = given
        else:
            value.detach().copy_(given.reshape(value.shape))
    if strict:
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + "_extra_state":
                first, _, rest = key[len(prefix):].partition(".")
                if (rest and first not in self._modules) or (not rest and first not in local):
                    unexpected_keys.append(key)
    extra = prefix + "_extra_state"
    if _has_extra_state(self):
        if extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif strict:
            missing_keys.append(extra)


def load_state_dict(self, state_dict, strict=True, assign=False):
    """Copies values into parameters and buffers by name."""
    from .module import IncompatibleKeys
    if not hasattr(state_dict, "items"):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", None) or {}
    state_dict = OrderedDict(state_dict)
    missing, unexpected, errors = [], [], []

    def load(module, prefix):
        local = dict(metadata.get(prefix[:-1], {}), assign_to_params_buffers=assign)
        module._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
        for name, child in module._modules.items():
            if child is not None:
                load(child, f"{prefix}{name}.")
        for hook in list(module._load_state_dict_post_hooks.values()):
            hook(module, IncompatibleKeys(missing, unexpected))

    before = _C.is_grad_enabled()
    _C._set_grad_enabled(False)
    try:
        load(self, "")
    finally:
        _C._set_grad_enabled(before)
    if strict:
        quoted = lambda keys: ", ".join(f'"{k}"' for k in keys)
        if unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {quoted(unexpected)}. ")
        if missing:
            errors.insert(0, f"Missing key(s) in state_dict: {quoted(missing)}. ")
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
    return IncompatibleKeys(missing, unexpected)


def _add(hooks, value):
    key = object()
    hooks[key] = value
    return RemovableHandle(lambda: hooks.pop(key, None))


def register_state_dict_post_hook(self, hook):
    """Calls hook(module, state_dict, prefix, metadata) after the module's part was written."""
    return _add(self._state_dict_hooks, ("post", hook))


_register_state_dict_hook = register_state_dict_post_hook


def register_state_dict_pre_hook(self, hook):
    """Calls hook(module, prefix, keep_vars) before the module's part is written."""
    return _add(self._state_dict_hooks, ("pre", hook))


def _register_load_state_dict_pre_hook(self, hook, with_module=False):
    call = (lambda *args: hook(self, *args)) if with_module else hook
    return _add(self._load_state_dict_pre_hooks, call)


def register_load_state_dict_pre_hook(self, hook):
    """Calls hook(module, state_dict, prefix, …) before the module's part is read."""
    return _register_load_state_dict_pre_hook(self, hook, with_module=True)


def register_load_state_dict_post_hook(self, hook):
    """Calls hook(module, incompatible_keys) after the module's part was read."""
    return _add(self._load_state_dict_post_hooks, hook)


def __setstate__(self, state):
    self.__dict__.update(state)
