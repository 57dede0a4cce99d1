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


def pretend_to_be_torch():
    """From now on `import torch` gives pellucid, here and in processes that multiprocessing starts anew."""
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        # Those get sys.path and import the program's file before anything of ours.
        sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "_as_torch"))
