#!/usr/bin/env python3
"""Compares the contraction FLOPs that tests/parity/flops.cpp wrote with torch.utils.flop_counter's.

usage: flops.py FOLDER

PyTorch's counter has formulas for attention on GPUs alone; the same formulas are given to it for the CPU's.
Ends with "N passed, N failed", which counts figures; exits with 1 if any failed.
"""
import json, pathlib, sys

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from models import GPT, MnistCnn, ResNet18


def attention(query, key, value, *_, out_shape=None, **__):
    return sdpa_flop_count(query, key, value)


def attention_backward(grad_out, query, key, value, *_, out_shape=None, **__):
    return sdpa_backward_flop_count(grad_out, query, key, value)


FORMULAS = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
}
MODELS = {
    "resnet18": (lambda: ResNet18(1000), lambda: torch.randn(2, 3, 224, 224)),
    "gpt2": (lambda: GPT(50257, 1024, 12, 12, 768), lambda: torch.zeros(2, 128, dtype=torch.int64)),
    "cnn": (MnistCnn, lambda: torch.randn(64, 1, 28, 28)),
}


def counted(work):
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        result = work()
    return counter.get_total_flops(), result


def main():
    ours = json.loads((pathlib.Path(sys.argv[1]) / "flops.json").read_text())
    passed = failed = 0
    for name, (make_model, make_input) in MODELS.items():
        with FakeTensorMode():
            model, x = make_model(), make_input()
            forward, y = counted(lambda: model(x).sum())
            backward, _ = counted(lambda: y.backward())
        for phase, theirs in (("forward", forward), ("backward", backward)):
            if ours[name][phase] == theirs:
                passed += 1
            else:
                failed += 1
                print(f"flops: {name} {phase}: ours {ours[name][phase]:.0f}, PyTorch's {theirs}")
    print(f"FLOPs of contractions: {passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
