"""The two-layer net 1000-100-10 with ReLU: 500 steps of gradient descent on random data, with its calls counted by hooks."""
import collections

import torch

if __name__ == "__main__":
    torch.manual_seed(0)
    N, D_in, H, D_out = 64, 1000, 100, 10
    x, y = torch.randn(N, D_in), torch.randn(N, D_out)
    model = torch.nn.Sequential(torch.nn.Linear(D_in, H), torch.nn.ReLU(), torch.nn.Linear(H, D_out))
    print("parameters:", sum(p.numel() for p in model.parameters()))
    calls = collections.Counter()
    for layer in (model[0], model[2]):
        layer.register_forward_hook(lambda *_: calls.update(["forward linears"]))
    loss_fn = torch.nn.MSELoss(reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    optimizer.register_step_post_hook(lambda o, *_: calls.update(
        {"parameter updates": sum(len(g["params"]) for g in o.param_groups)}))
    first = None
    for t in range(500):
        loss = loss_fn(model(x), y)
        loss.register_hook(lambda grad: calls.update(["backwards"]))
        first = loss.item() if first is None else first
        if t % 100 == 99:
            print(f"{t + 1} {loss.item():.4f}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(", ".join(f"{count:,} {what}" for what, count in calls.items()))
    print("falls to less than a thousandth:", loss.item() < first / 1000)
