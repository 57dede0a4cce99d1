"""PyTorch's side of the training cases: the models, a training step, decoding with a cache, and the peak of memory.

Models take their parameters, in order, from the other side; they are written as one writes them for speed: fused
optimisers, gradients set to none, channels-last or not as is faster, inference mode and a preallocated cache for decoding.
"""
import copy, time

import torch
import torch.nn.functional as F
from torch import nn

CHECKED_STEPS = 3  # as in training.cpp
TOKENS, BLOCK = 256, 32
FAMILIES = ("train/", "decode/", "recompute/")


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        relu = lambda x: F.relu(x, inplace=True)
        x = F.max_pool2d(relu(self.conv2(relu(self.conv1(x)))), 2)
        x = relu(self.fc1(torch.flatten(self.dropout1(x), 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), 1)


class BasicBlock(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        else:
            self.downsample = None

    def forward(self, x):
        shortcut = self.downsample(x) if self.downsample else x
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += shortcut
        return self.relu(y)


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        self.layers = nn.Sequential(*(b for before, after, stride in widths
                                      for b in (BasicBlock(before, after, stride), BasicBlock(after, after, 1))))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(512, 1000)

    def forward(self, x):
        return self.fc(torch.flatten(self.avgpool(self.layers(self.maxpool(self.relu(self.bn1(self.conv1(x)))))), 1))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache=None, at=0):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(width, 2))
        if cache is not None:
            cache[0, :, :, at:at + length], cache[1, :, :, at:at + length] = k, v
            k, v = cache[0, :, :, :at + length], cache[1, :, :, :at + length]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2 with 124 million parameters."""

    def __init__(self, width=768, heads=12, layers=12, vocabulary=50257, positions=1024):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens, caches=None, at=0, last_only=False):
        x = self.wte(tokens) + self.wpe(torch.arange(at, at + tokens.shape[1]))
        for i, block in enumerate(self.h):
            x = block(x, caches[i] if caches else None, at)
        return F.linear(self.ln_f(x[:, -1:] if last_only else x), self.wte.weight)


def with_parameters(model, values):
    own = list(model.parameters())
    if [p.shape for p in own] != [v.shape for v in values]:
        raise ValueError(f"{type(model).__name__}: {len(values)} parameters were given, {len(own)} are needed, or sizes differ")
    with torch.no_grad():
        for p, v in zip(own, values):
            p.copy_(v)
    return model


def set_dropout(model, on):
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train(on)


class Training:
    """A step: forward, backward, step, zero_grad. The first losses are those that are compared."""
    before = None

    def __init__(self, model, optimizer, x, y, loss, compiled=False):
        self.model, self.optimizer, self.x, self.y, self.loss = model, optimizer, x, y, loss
        self.call = torch.compile(model) if compiled else model
        self.losses = []
        set_dropout(model, False)

    def __call__(self):
        value = self.loss(self.call(self.x), self.y)
        value.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if len(self.losses) < CHECKED_STEPS:
            self.losses.append(value.detach())
            if len(self.losses) == CHECKED_STEPS:
                set_dropout(self.model, True)

    def results(self):
        while len(self.losses) < CHECKED_STEPS:
            self()
        return self.losses

    def peak(self):
        """The most bytes of tensors at any moment of a step: what lives between steps, and the profiler's allocations."""
        self()
        self.optimizer.zero_grad(set_to_none=True)
        between = [self.x, self.y, *self.model.parameters(), *self.model.buffers()]
        between += [v for s in self.optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
        live = sum(t.numel() * t.element_size() for t in between)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            self()
        return live + peak_of(profile)


def peak_of(profile):
    """The highest running sum of the profile's allocations and frees."""
    changes, stack = [], list(profile.profiler.kineto_results.experimental_event_tree())
    while stack:
        event = stack.pop()
        stack.extend(event.children)
        if event.tag == torch._C._profiler._EventType.Allocation:
            changes.append((event.start_time_ns, event.extra_fields.alloc_size))
    total = highest = 0
    for _, size in sorted(changes, key=lambda c: c[0]):
        total += size
        highest = max(highest, total)
    return highest


class Decoding:
    """Decodes BLOCK tokens of a given text one by one with a preallocated cache."""

    def __init__(self, model, text, near_end, compiled=False):
        self.model, self.text, self.near_end, self.at = model.eval(), text, near_end, 0
        self.call = torch.compile(model, dynamic=True) if compiled else model
        head = 768 // 12
        self.caches = [torch.empty(2, 1, 12, TOKENS + BLOCK, head) for _ in model.h]
        self.before = self.restart if near_end else None

    def restart(self):
        self.at = TOKENS - BLOCK // 2 if self.near_end else 0
        if self.near_end:
            self.model(self.text[:, :self.at], self.caches, 0, True)

    def __call__(self):
        for _ in range(BLOCK):
            if self.at == TOKENS and not self.near_end:
                self.at = 0
            self.logits = self.call(self.text[:, self.at:self.at + 1], self.caches, self.at, True)
            self.logits.argmax().item()
            self.at += 1

    def results(self):
        self.restart()
        self()
        return [self.logits]


class Recomputing:
    """The last of TOKENS tokens by running all of them."""
    before = None

    def __init__(self, model, text):
        self.model, self.text = model.eval(), text

    def __call__(self):
        self.logits = self.model(self.text, last_only=True)

    def results(self):
        self()
        return [self.logits]


def soonest(works):
    """The one whose best of three runs is the shortest, after the compared steps."""
    def shortest(work):
        work.results()
        times = []
        for _ in range(4):
            begun = time.perf_counter_ns()
            work()
            times.append(time.perf_counter_ns() - begun)
        return min(times)
    return min(works, key=shortest)


def make(name, inputs, compiled=False):
    family, _, what = name.partition("/")
    if family != "train":
        text, *parameters = inputs
        model = with_parameters(Gpt2(), parameters)
        return Recomputing(model, text) if family == "recompute" else Decoding(model, text, what.endswith("_at_256"), compiled)
    x, y, *parameters = inputs
    if what == "gpt2_124m":
        model = with_parameters(Gpt2(), parameters)
        loss = lambda logits, y: F.cross_entropy(logits.flatten(0, 1), y.flatten())
        return Training(model, torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True), x, y, loss, compiled)
    sgd = lambda model, lr: torch.optim.SGD(model.parameters(), lr=lr, fused=True)
    if what == "two_layer":
        model = with_parameters(nn.Sequential(nn.Linear(1000, 100), nn.ReLU(), nn.Linear(100, 10)), parameters)
        loss = lambda out, y: F.mse_loss(out, y, reduction="sum")
        other = copy.deepcopy(model)
        each = torch.optim.SGD(other.parameters(), lr=1e-4, foreach=True)
        return soonest([Training(model, sgd(model, 1e-4), x, y, loss, compiled), Training(other, each, x, y, loss, compiled)])
    if what == "mnist_cnn":
        plain = with_parameters(MnistCnn(), parameters)
        last = copy.deepcopy(plain).to(memory_format=torch.channels_last)
        return soonest([Training(plain, sgd(plain, 0.01), x, y, F.nll_loss, compiled),
                        Training(last, sgd(last, 0.01), x.contiguous(memory_format=torch.channels_last), y, F.nll_loss, compiled)])
    model = with_parameters(ResNet18(), parameters).to(memory_format=torch.channels_last)
    return Training(model, sgd(model, 0.01), x, y, F.cross_entropy, compiled)
