"""Gradient checkpointing: activations are dropped and computed again; the gradients are the same bit for bit."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def gradients(model, run, x):
    torch.manual_seed(1)  # the same dropout in every run
    model.zero_grad()
    run(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()]


def main():
    torch.manual_seed(0)
    block = lambda: nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1))
    model = nn.Sequential(*[block() for _ in range(6)])
    x = torch.randn(128, 64, requires_grad=True)
    plain = gradients(model, model, x)
    calls = []
    model[0].register_forward_pre_hook(lambda *_: calls.append(1))
    for reentrant in (False, True):
        def run(x):
            for part in model:
                x = checkpoint(part, x, use_reentrant=reentrant)
            return x
        calls.clear()
        same = all(map(torch.equal, plain, gradients(model, run, x)))
        print(f"use_reentrant={reentrant}: equal bit for bit {same}, the first block ran {len(calls)} times")
    same = all(map(torch.equal, plain, gradients(model, lambda x: checkpoint_sequential(model, 3, x, use_reentrant=False), x)))
    print(f"checkpoint_sequential in 3 parts: equal bit for bit {same}")


if __name__ == "__main__":
    main()
