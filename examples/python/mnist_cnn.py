"""A CNN on MNIST, or on digits drawn here: two convolutions, pooling, two linears; one epoch by default.

usage: python -m pellucid mnist_cnn.py [--data FOLDER] [--images N] [--epochs N]
FOLDER holds MNIST's files (train-images-idx3-ubyte… , plain or .gz). Without it, --images digits are drawn (default 6,400).
"""
import argparse
import gzip
import os

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

# Seven rows of five dots each, as a small display shows them.
FONT = ["0E11131519110E", "040C040404040E", "0E11010204081F", "1F02040201110E", "02060A121F0202",
        "1F101E0101110E", "0608101E11110E", "1F010204080808", "0E11110E11110E", "0E11110F01020C"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout2d(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def drawn(count):
    """Digits of the font, three pixels a dot, anywhere in the image, in noise."""
    bits = torch.tensor([[[byte >> (4 - column) & 1 for column in range(5)] for byte in bytes.fromhex(rows)] for rows in FONT])
    glyphs = bits.float().repeat_interleave(3, 1).repeat_interleave(3, 2)  # [10, 21, 15]
    labels = torch.randint(10, (count,))
    images = torch.rand(count, 1, 28, 28) * 0.4
    for image, label, y, x in zip(images, labels.tolist(), torch.randint(8, (count,)).tolist(), torch.randint(14, (count,)).tolist()):
        image[0, y:y + 21, x:x + 15] += glyphs[label] * 0.6
    return TensorDataset(images, labels)


def read(folder, name, header):
    path = os.path.join(folder, name)
    with gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[header:]


def mnist(folder, part):
    images = read(folder, f"{part}-images-idx3-ubyte", 16).view(-1, 1, 28, 28).float() / 255
    return TensorDataset((images - 0.1307) / 0.3081, read(folder, f"{part}-labels-idx1-ubyte", 8).long())


def train(model, loader, optimizer, epoch, every):
    model.train()
    for batch, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        if batch % every == 0:
            seen, total = batch * len(images), len(loader.dataset)
            print(f"Train Epoch: {epoch} [{seen}/{total} ({100.0 * batch / len(loader):.0f}%)]\tLoss: {loss.item():.6f}")


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    return sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader) / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--images", type=int, default=6400)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.data:
        training, test = mnist(options.data, "train"), mnist(options.data, "t10k")
    else:
        training, test = drawn(options.images), drawn(max(options.images // 6, 64))
    loader = DataLoader(training, batch_size=64, shuffle=True)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(options.epochs):
        print(f"Epoch {epoch + 1}/{options.epochs}")
        print("-" * 60)
        train(model, loader, optimizer, epoch, 100 if len(loader) > 200 else 10)
    print(f"Test accuracy: {accuracy(model, DataLoader(test, batch_size=256)):.2%}")


if __name__ == "__main__":
    main()
