"""torch.autograd.graph: what is saved for backward, and the nodes."""
from .. import _C

Node = _C.Node


class saved_tensors_hooks:
    """Packs every tensor saved in its scope, and unpacks it when backward needs it."""

    def __init__(self, pack_hook, unpack_hook):
        self.hooks = pack_hook, unpack_hook

    def __enter__(self):
        self.scope = _C._open_saved_scope(*self.hooks)

    def __exit__(self, *_):
        self.scope.close()
