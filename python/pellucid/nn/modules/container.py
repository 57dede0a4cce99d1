"""Containers: modules and parameters in a row, a list or a dictionary."""
import itertools
import operator
from collections import OrderedDict

from ..parameter import Parameter
from .module import Module


class _Row:
    """What Sequential, ModuleList and ParameterList share: numbered parts."""

    def _index(self, i):
        n = len(self)
        i = operator.index(i)
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range")
        return str(i % n)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)(*self._slice(i))
        return self._modules[self._index(i)]

    def _renumber(self, parts):
        self._modules.clear()
        for i, part in enumerate(parts):
            self._modules[str(i)] = part


class Sequential(_Row, Module):
    """Parts called one after another."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, i):
        n = len(self)
        i = operator.index(i)
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range")
        return list(self._modules)[i]

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)(OrderedDict(list(self._modules.items())[i]))
        return self._modules[self._name_at(i)]

    def __setitem__(self, i, module):
        setattr(self, self._name_at(i), module)

    def __delitem__(self, i):
        for name in (list(self._modules)[i] if isinstance(i, slice) else [self._name_at(i)]):
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __add__(self, other):
        return Sequential(*self, *other)

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        parts = list(self)
        parts.insert(index, module)
        self._renumber(parts)
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def pop(self, i):
        module = self[i]
        del self[i]
        return module


class ModuleList(_Row, Module):
    """Parts in a list; they are not called."""

    def __repr__(self):
        """Neighbours of one text are one line: (0-2): 3 x Linear(…)."""
        texts = [repr(module) for module in self]
        if not texts:
            return self._get_name() + "()"
        lines, first = [], 0
        for i, text in enumerate(texts):
            if i + 1 < len(texts) and texts[i + 1] == text:
                continue
            label = f"({first})" if first == i else f"({first}-{i})"
            count = "" if first == i else f"{i - first + 1} x "
            lines.append(f"{label}: {count}" + text.replace("\n", "\n  "))
            first = i + 1
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def __init__(self, modules=None):
        super().__init__()
        self.extend(modules or [])

    def _slice(self, s):
        return (list(self)[s],)

    def __setitem__(self, i, module):
        setattr(self, self._index(i), module)

    def __delitem__(self, i):
        parts = list(self)
        del parts[i]
        self._renumber(parts)

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList(itertools.chain(self, other))

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        parts = list(self)
        parts.insert(index, module)
        self._renumber(parts)

    def extend(self, modules):
        if not hasattr(modules, "__iter__"):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in modules:
            self.append(module)
        return self

    def pop(self, i):
        module = self[i]
        del self[i]
        return module


class _Named:
    """What the containers of parts and of parameters by name share; `_entries` is the dictionary that Module keeps them in."""

    def __delitem__(self, key):
        del self._entries[key]

    def __len__(self):
        return len(self._entries)

    def __iter__(self):
        return iter(self._entries)

    def __contains__(self, key):
        return key in self._entries

    def keys(self):
        return self._entries.keys()

    def items(self):
        return self._entries.items()

    def values(self):
        return self._entries.values()

    def update(self, entries):
        for key, entry in entries.items() if hasattr(entries, "items") else entries:
            self[key] = entry


class ModuleDict(_Named, Module):
    """Parts in a dictionary; they are not called."""

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    @property
    def _entries(self):
        return self._modules

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        return self._modules.pop(key)


class ParameterList(_Row, Module):
    """Parameters in a list."""

    def __init__(self, values=None):
        super().__init__()
        self.extend(values or [])

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, i):
        if isinstance(i, slice):
            return ParameterList(list(self)[i])
        return self._parameters[self._index(i)]

    def __setitem__(self, i, value):
        self._parameters[self._index(i)] = value if isinstance(value, Parameter) else Parameter(value)

    def append(self, value):
        self._parameters[str(len(self))] = value if isinstance(value, Parameter) else Parameter(value)
        return self

    def extend(self, values):
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(f"  ({i}): Parameter containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]"
                         for i, p in enumerate(self))


class ParameterDict(_Named, Module):
    """Parameters in a dictionary."""

    def extra_repr(self):
        return "\n".join(f"  ({k}): Parameter containing: [{p.type()} of size {'x'.join(map(str, p.shape))}]"
                         for k, p in self.items())

    def __init__(self, parameters=None):
        super().__init__()
        self.update(parameters or {})

    @property
    def _entries(self):
        return self._parameters

    def __getitem__(self, key):
        return self._parameters[str(key)]

    def __setitem__(self, key, value):
        self._parameters[str(key)] = value if isinstance(value, Parameter) else Parameter(value)
