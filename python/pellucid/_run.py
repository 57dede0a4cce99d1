"""Lets programs written for PyTorch import pellucid under PyTorch's names."""
import importlib
import importlib.abc
import importlib.util
import os
import sys


# Files of PyTorch that programs import from, and where their names are here.
_PLACES = {"pellucid.nn.modules": "nn.modules.pooling nn.modules.normalization nn.modules.dropout nn.modules.sparse "
                                  "nn.modules.padding nn.modules.upsampling nn.modules.instancenorm nn.modules.flatten "
                                  "nn.modules.distance nn.modules.pixelshuffle nn.modules.fold",
           "pellucid.nn.utils": "nn.utils.clip_grad nn.utils.convert_parameters",
           "pellucid.optim": "optim.sgd optim.adam optim.adamw optim.rmsprop optim.adagrad optim.adadelta",
           "pellucid.accelerator": "mps xpu",
           "pellucid._storage": "storage",
           "pellucid._functions": "functional"}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names.split()}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """torch.x.y is pellucid.x.y; torchviz is pellucid.torchviz."""

    def find_spec(self, name, path=None, target=None):
        top, _, rest = name.partition(".")
        if top not in ("torch", "torchviz"):
            return None
        real = _PLACE_OF.get(rest, "pellucid." + rest if rest else "pellucid") if top == "torch" else "pellucid.torchviz"
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise ModuleNotFoundError(f"No module named '{name}' in pellucid", name=name)
        spec = importlib.util.spec_from_loader(name, self, is_package=found.submodule_search_locations is not None)
        spec.loader_state = real
        return spec

    def create_module(self, spec):
        self._spec = spec
        return importlib.import_module(spec.loader_state)

    def exec_module(self, module):
        # The import system has put the alias's facts on the module; it keeps its own.
        name = module.__spec__.loader_state or module.__name__
        real = importlib.util.find_spec(name) if name in sys.modules and name.startswith("pellucid") else None
        module.__name__ = name
        if real is not None:
            module.__spec__, module.__loader__, module.__package__ = real, real.loader, real.parent


class _Pretend:
    """What a process that multiprocessing starts anew reads before anything else: reading it calls pretend_to_be_torch()."""

    def __reduce__(self):
        # Where pellucid is found by a change of sys.path alone, the child finds _as_torch by the same, a moment later.
        program = ("try:\n    from pellucid._run import pretend_to_be_torch\n    pretend_to_be_torch()\n"
                   "except ImportError:\n    pass")
        return exec, (program,)


def _prepare_children():
    """Processes of the start methods spawn and forkserver are told what they are before they import the program."""
    from multiprocessing import spawn
    usual = spawn.get_preparation_data

    def get_preparation_data(name):
        return {"pellucid": _Pretend(), **usual(name)}
    spawn.get_preparation_data = get_preparation_data


def _put_on_path():
    """Puts _as_torch before every place where PyTorch may be; the program's own folder stays first: programs use sys.path[0]."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_as_torch")
    sys.path[:] = [p for p in sys.path if p != here]
    sys.path.insert(1 if sys.path else 0, here)


def pretend_to_be_torch():
    """From now on `import torch` gives pellucid, here and in processes that multiprocessing starts."""
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        _put_on_path()
        _prepare_children()
