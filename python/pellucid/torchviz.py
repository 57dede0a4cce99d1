"""make_dot: a picture of the graph that computed a tensor, with the interface of torchviz and graphviz.Digraph."""
import os

from . import _C
from ._tensor import Tensor


class Digraph:
    """A graph as DOT text: render(), save(), pipe(), and an SVG for notebooks."""

    def __init__(self, dot, format="pdf"):
        self._dot, self.format = dot, format

    @property
    def source(self):
        return self._dot.source

    def __str__(self):
        return self.source

    def pipe(self, format=None):
        """The picture's bytes."""
        return self._dot._render(format or self.format)

    def save(self, filename="Digraph.gv", directory=None):
        """Writes the DOT text."""
        path = os.path.join(directory or "", filename)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source)
        return path

    def render(self, filename="Digraph.gv", directory=None, view=False, cleanup=False, format=None, quiet=False):
        """Writes the DOT text to filename and the picture beside it; returns the picture's name."""
        format = format or self.format
        path = self.save(filename, directory)
        with open(f"{path}.{format}", "wb") as file:
            file.write(self.pipe(format))
        if cleanup:
            os.remove(path)
        return f"{path}.{format}"

    def view(self, *args, **kwargs):
        return self.render(*args, **kwargs)

    def _repr_svg_(self):
        return self.pipe("svg").decode()

    def _repr_image_svg_xml(self):
        return self._repr_svg_()


def make_dot(var, params=None, show_attrs=False, show_saved=False, max_attr_chars=50, *, rankdir="TB", max_nodes=400):
    """The graph behind var (a tensor or several); params names the leaves: a dict or a model's named_parameters."""
    roots = [var] if isinstance(var, Tensor) else list(var)
    named = dict(params).items() if params is not None else ()
    return Digraph(_C._make_dot(roots, [(str(n), t) for n, t in named], rankdir, bool(show_saved), True, max_nodes))


def make_dot_from_trace(trace):
    """Gone from torchviz too; make_dot draws a tensor's graph."""
    raise NotImplementedError("make_dot_from_trace has been removed; use make_dot.")
