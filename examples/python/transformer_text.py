"""A small Transformer trained on text, character by character, that then continues a prompt.

usage: python -m pellucid transformer_text.py [FILE.txt] [--epochs N]     # a rhyme about numbers, if no file is named
"""
import argparse

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUMBERS = "one two three four five six seven eight nine ten".split()
RHYME = "".join(f"{a} and {b} make {NUMBERS[i + k + 1]}, " for i, a in enumerate(NUMBERS[:5]) for k, b in enumerate(NUMBERS[:4])) * 6


class Text(Dataset):
    """Windows of `length` characters, and the same one further."""

    def __init__(self, text, length):
        self.letters = sorted(set(text))
        self.number = {c: i for i, c in enumerate(self.letters)}
        self.data, self.length = self.encode(text), length

    def encode(self, text):
        return torch.tensor([self.number[c] for c in text])

    def decode(self, numbers):
        return "".join(self.letters[i] for i in numbers)

    def __len__(self):
        return (len(self.data) - 1) // self.length * 2 - 1

    def __getitem__(self, i):
        start = i * self.length // 2
        window = self.data[start:start + self.length + 1]
        return window[:-1], window[1:]


class CharTransformer(nn.Module):
    def __init__(self, letters, length, dim=64, heads=4, layers=2):
        super().__init__()
        self.length = length
        self.token = nn.Embedding(letters, dim)
        self.position = nn.Embedding(length, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, letters)

    def forward(self, x):
        L = x.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(L)
        h = self.token(x) + self.position(torch.arange(L))
        return self.head(self.blocks(h, mask=mask, is_causal=True))

    @torch.no_grad()
    def generate(self, x, count):
        for _ in range(count):
            logits = self(x[:, -self.length:])[:, -1]
            x = torch.cat([x, logits.argmax(-1, keepdim=True)], dim=1)
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    text = open(options.file, encoding="utf-8").read() if options.file else RHYME
    torch.manual_seed(0)
    data = Text(text, 32)
    model = CharTransformer(len(data.letters), data.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for _ in range(options.epochs):
        total = 0.0
        for batch, (x, y) in enumerate(loader, 1):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
            if batch % 10 == 0:
                print(f"Batch {batch}, Loss: {loss.item():.4f}")
        print(f"Epoch completed. Average loss: {total / len(loader):.4f}")
    prompt = text[:16]
    model.eval()
    print(repr(data.decode(model.generate(data.encode(prompt).unsqueeze(0), 40)[0].tolist())))


if __name__ == "__main__":
    main()
