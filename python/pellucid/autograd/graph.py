"""torch.autograd.graph: what is saved for backward, the nodes, and hooks of several tensors."""
from collections import namedtuple

from .. import _C
from .._tensor import RemovableHandle

Node = _C.Node
GradientEdge = namedtuple("GradientEdge", "node output_nr")


class saved_tensors_hooks:
    """Packs every tensor saved in its scope, and unpacks it when backward needs it."""

    refused = None  # why not, while disable_saved_tensors_hooks is open

    def __init__(self, pack_hook, unpack_hook):
        self.hooks = pack_hook, unpack_hook

    def __enter__(self):
        if self.refused is not None:
            raise RuntimeError(self.refused)
        self.scope = _C._open_saved_scope(*self.hooks)

    def __exit__(self, *_):
        self.scope.close()


class save_on_cpu(saved_tensors_hooks):
    """Accepted: what is saved is on the CPU already."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Saves copies, so that in-place changes afterwards do not disturb backward."""

    def __init__(self):
        super().__init__(lambda tensor: tensor.clone(), lambda tensor: tensor)


class disable_saved_tensors_hooks:
    """Refuses saved_tensors_hooks with error_message inside its scope."""

    def __init__(self, error_message):
        self.message = error_message

    def __enter__(self):
        self.before, saved_tensors_hooks.refused = saved_tensors_hooks.refused, self.message

    def __exit__(self, *_):
        saved_tensors_hooks.refused = self.before


def get_gradient_edge(tensor):
    """Where the tensor's gradient arrives in the graph: the node and which of its results the tensor is."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.grad_fn if tensor.grad_fn is not None else tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return GradientEdge(node, tensor.output_nr)


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn(gradients) when every tensor has got its gradient in a backward; with mode="any" fn(gradient) at the first."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    arrived = {}

    def hook(place):
        def arrive(grad):
            if place in arrived:  # a new backward
                arrived.clear()
            arrived[place] = grad
            if mode == "any" and len(arrived) == 1:
                fn(grad)
            elif mode == "all" and len(arrived) == len(tensors):
                grads = [arrived[i] for i in range(len(tensors))]
                arrived.clear()
                fn(grads)
        return arrive

    handles = [tensor.register_hook(hook(place)) for place, tensor in enumerate(tensors)]
    return RemovableHandle(lambda: [handle.remove() for handle in handles])
