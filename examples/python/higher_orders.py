"""Derivatives of any order: x^3 at 2 has derivatives 12, 12 and 6. The same for a vector, as Hessian and as products."""
import torch

if __name__ == "__main__":
    x = torch.tensor(2.0, requires_grad=True)
    y = x ** 3
    print(f"x^3 at 2 = {y.item():g}")
    for order in (1, 2, 3):
        y, = torch.autograd.grad(y, x, create_graph=True)
        print(f"derivative {order} = {y.item():g}")

    def cubes(v):
        return (v ** 3).sum()

    point = torch.tensor([1.0, 2.0])
    print("Hessian of x^3 + y^3 at (1, 2):", torch.autograd.functional.hessian(cubes, point).tolist())
    print("times (1, 1):", torch.autograd.functional.hvp(cubes, point, torch.ones(2))[1].tolist())
