"""Rotary position embedding: what it keeps, what it encodes, and a heat map before and after.

usage: python -m pellucid rope.py [HEAT_MAP.svg]
"""
import sys

import torch
from torch import nn


class RotaryPositionEmbedding(nn.Module):
    """Turns the pairs of features (2i, 2i + 1) at position p by p * base^(-2i / dim)."""

    def __init__(self, dim, max_seq_len=2048, base=10000.0):
        super().__init__()
        if dim % 2:
            raise ValueError(f"RoPE needs an even number of features, because it turns pairs of them; got {dim}.")
        self.dim = dim
        speeds = base ** (-torch.arange(0, dim, 2).float() / dim)
        angles = torch.outer(torch.arange(max_seq_len).float(), speeds)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x, offset=0):
        """x is [B, L, D] or [B, L, H, D]."""
        if x.dim() not in (3, 4) or x.size(-1) != self.dim:
            raise ValueError(f"RoPE takes [B, L, {self.dim}] or [B, L, H, {self.dim}]; got {list(x.shape)}.")
        cos, sin = (t[offset:offset + x.size(1)] for t in (self.cos, self.sin))
        if x.dim() == 4:
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def heat_map(x, left, title):
    """One square a value of x [positions, features]: blue below 0, white at 0, red above."""
    squares = [f"<text x='{left}' y='20'>{title}</text>"]
    for position, row in enumerate(x.tolist()):
        for feature, value in enumerate(row):
            fade = round(255 * (1 - min(1.0, abs(value) / 1.5)))
            red, blue = (fade, 255) if value < 0 else (255, fade)
            squares.append(f"<rect x='{left + 6 * position}' y='{30 + 10 * feature}' width='6' height='10' "
                           f"fill='rgb({red},{fade},{blue})'/>")
    return "\n".join(squares)


def main():
    torch.manual_seed(0)
    rope = RotaryPositionEmbedding(32)
    for shape in ([2, 48, 32], [2, 48, 4, 32]):
        x = torch.randn(shape)
        y = rope(x)
        kept = torch.allclose(y.norm(dim=-1), x.norm(dim=-1), rtol=1e-5, atol=1e-5)
        print(f"{shape} -> {list(y.shape)}, lengths kept: {kept}, position 0 unchanged: {torch.equal(y[:, 0], x[:, 0])}")
    # A query at i and a key at j: their product depends on i - j alone.
    q, k = torch.linspace(-1, 1, 32), torch.linspace(1, 2, 32)
    turned = rope(torch.stack([q, k]).unsqueeze(1).expand(2, 48, 32))
    product = lambda i, j: turned[0, i].dot(turned[1, j]).item()
    print(f"q . k at 5, 2: {product(5, 2):.4f}; at 40, 37: {product(40, 37):.4f}; at 40, 2: {product(40, 2):.4f}")
    try:
        RotaryPositionEmbedding(31)
    except ValueError as error:
        print("31 features:", error)
    if len(sys.argv) > 1:
        ones = torch.ones(1, 48, 32)
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write("<svg xmlns='http://www.w3.org/2000/svg' width='640' height='380' font-family='sans-serif'>\n"
                       + heat_map(ones[0], 16, "before: every value is 1") + "\n"
                       + heat_map(rope(ones)[0], 336, "after: pairs turn, the first the fastest") + "\n</svg>\n")


if __name__ == "__main__":
    main()
