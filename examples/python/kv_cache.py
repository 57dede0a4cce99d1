"""Attention with a cache of keys and values: the same output token by token, and what it saves.

usage: python -m pellucid kv_cache.py [--time]     # also milliseconds with and without the cache at several lengths
"""
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F

from rope import RotaryPositionEmbedding


class CachedAttention(nn.Module):
    """Causal self-attention; with use_cache the input continues what was seen before."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.rope = RotaryPositionEmbedding(dim // heads)
        self.clear()

    def clear(self):
        self.keys = self.values = None

    @property
    def cached(self):
        return 0 if self.keys is None else self.keys.size(2)

    def forward(self, x, use_cache=False):
        B, L, D = x.shape
        offset = self.cached if use_cache else 0
        q, k, v = self.qkv(x).view(B, L, 3, self.heads, D // self.heads).unbind(2)
        q, k = self.rope(q, offset).transpose(1, 2), self.rope(k, offset).transpose(1, 2)
        v = v.transpose(1, 2)
        if use_cache:
            if offset:
                k, v = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
            self.keys, self.values = k, v
        allowed = torch.ones(L, k.size(2), dtype=torch.bool).tril(k.size(2) - L)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.out(y.transpose(1, 2).reshape(B, L, D))


def milliseconds(work, runs=5):
    best = float("inf")
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best * 1e3


def main():
    torch.manual_seed(0)
    attention = CachedAttention(512, 8).eval()
    x = torch.randn(1, 256, 512)
    with torch.no_grad():
        whole = attention(x)
        parts = [attention(x[:, :100], use_cache=True)]  # a prompt, then token by token
        parts += [attention(x[:, t:t + 1], use_cache=True) for t in range(100, 256)]
        print("cached tokens:", attention.cached)
        print("same output with and without:", torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-5))
        attention.clear()
        print("after clear:", attention.cached)
        if "--time" not in sys.argv:
            return
        print("tokens  cached ms  recomputed ms  ratio")
        for length in (32, 64, 128, 256):
            attention.clear()
            attention(x[:, :length - 6], use_cache=True)
            cached = milliseconds(lambda: attention(x[:, :1], use_cache=True))
            again = milliseconds(lambda: attention(x[:, :length]))
            print(f"{length:6} {cached:10.3f} {again:14.3f} {again / cached:6.1f}")


if __name__ == "__main__":
    main()
