"""Clipping gradients: by their joint norm, and by value."""
import torch


def gradient_norm(parameters):
    return torch.norm(torch.stack([p.grad.norm() for p in parameters])).item()


if __name__ == "__main__":
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    b = torch.tensor([0.0], requires_grad=True)
    ((w * w).sum() + 24 * b.sum()).backward()
    before = torch.nn.utils.clip_grad_norm_([w, b], max_norm=1.0)
    print(f"norm before {before.item():g}, after {gradient_norm([w, b]):.4f}")
    print("gradient of w:", [f"{g:.4f}" for g in w.grad.tolist()])
    torch.nn.utils.clip_grad_value_([w, b], clip_value=0.3)
    print("cut to 0.3:", [f"{g:.4f}" for g in w.grad.tolist() + b.grad.tolist()])
