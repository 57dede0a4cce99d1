"""Values, gradients and a picture of two small graphs, and a walk over the second.

usage: python -m pellucid small_graph.py [PICTURE]     # PICTURE.svg of the first graph
"""
import sys

import torch


def first():
    """y = exp(sin(x^2)) * x at x = 2."""
    x = torch.tensor(2.0, requires_grad=True)
    a = x ** 2
    b = torch.sin(a)
    c = torch.exp(b)
    y = c * x
    y.backward()
    for name, value in {"a": a, "b": b, "c": c, "y": y, "dy/dx": x.grad}.items():
        print(f"{name} = {value.item():.4f}")
    return x, y


def second():
    """f = exp(sin(x * y)) * x at 2, 3."""
    x = torch.tensor(2.0, requires_grad=True)
    y = torch.tensor(3.0, requires_grad=True)
    z = x * y
    w = torch.sin(z)
    v = torch.exp(w)
    f = v * x
    f.backward()
    for name, value in {"z": z, "w": w, "v": v, "f": f, "df/dx": x.grad, "df/dy": y.grad}.items():
        print(f"{name} = {value.item():.4f}")
    walk(f.grad_fn)


def walk(node, depth=0):
    leaf = f" at {node.variable.item():.0f}" if hasattr(node, "variable") else ""
    print("  " * depth + node.name().rpartition("::")[2] + leaf)
    for following, _ in node.next_functions:
        if following is not None:
            walk(following, depth + 1)


if __name__ == "__main__":
    x, y = first()
    second()
    if len(sys.argv) > 1:
        from torchviz import make_dot
        print(make_dot(y, params={"x": x}).render(sys.argv[1], format="svg"))
