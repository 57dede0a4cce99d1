"""Hooks of all kinds: of tensors, of the graph's nodes, of modules, of optimisers; and how to take them away."""
import torch
from torch import nn


def tensors():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    handle = y.register_hook(lambda grad: grad * 10)
    x.register_post_accumulate_grad_hook(lambda t: print("accumulated:", t.grad.tolist()))
    y.sum().backward()
    print("y.grad:", y.grad.tolist(), "x.grad:", x.grad.tolist())
    handle.remove()


def nodes():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: print(
        y.grad_fn.name(), [f"{g:.4f}" for g in grad_inputs[0].tolist()], "from", grad_outputs[0].tolist()))
    y.sum().backward()


def modules():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[0].bias.zero_()
    handles = [
        model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,)),
        model[0].register_forward_hook(lambda module, inputs, output: print("linear gave", output.tolist())),
        model[1].register_full_backward_hook(lambda module, grad_input, grad_output: print(
            "tanh takes", grad_output[0].tolist(), "gives", [f"{g:.4f}" for g in grad_input[0].flatten().tolist()])),
    ]
    model(torch.tensor([[0.0, 1.0]])).sum().backward()
    for handle in handles:
        handle.remove()
    model(torch.tensor([[0.0, 1.0]]))  # quiet


def optimisers():
    p = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=0.5)
    optimizer.register_step_pre_hook(lambda *_: print("before the step:", p.item()))
    optimizer.register_step_post_hook(lambda *_: print("after the step:", p.item()))
    p.grad = torch.ones(1)
    optimizer.step()


if __name__ == "__main__":
    tensors()
    nodes()
    modules()
    optimisers()
