#!/usr/bin/env python3
"""Repeats in PyTorch the runs that tests/parity/training.cpp and schedules.cpp wrote, and compares.

usage: training.py FOLDER

A training run starts from the same weights and sees the same batches: every loss must be equal within the run's
tolerance, and where first gradients were written, each parameter's too. An optimiser is given the same gradients: its
parameters must be equal after every step. A schedule must give the same learning rates and momentum in every epoch.
Ends with "N passed, N failed", which counts runs; exits with 1 if any failed.
"""
import json, math, pathlib, struct, sys, warnings

import torch
from torch.nn import functional as F

import models

DTYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    """The tensors by name, and the run's facts."""
    data = bytearray(path.read_bytes())
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    facts = json.loads(header.pop("__metadata__")["run"])
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(data[begin:end], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, facts


def part(tensors, prefix):
    return {name[len(prefix):]: t for name, t in tensors.items() if name.startswith(prefix)}


LOSSES = {
    "squared_error": lambda output, target: F.mse_loss(output, target, reduction="sum"),
    "negative_log_likelihood": F.nll_loss,
    "cross_entropy": F.cross_entropy,
    "token_cross_entropy": lambda output, target: F.cross_entropy(output.flatten(0, 1), target.flatten()),
}


class Mismatch(Exception):
    pass


def relative(ours, theirs):
    """The norm of the difference over the norm of theirs; infinite where one of them is not finite."""
    difference = (ours.double() - theirs.double()).norm().item() / max(theirs.double().norm().item(), 1e-300)
    return difference if math.isfinite(difference) else math.inf


def check(what, difference, tolerance):
    if not difference <= tolerance:
        raise Mismatch(f"{what} differs by {difference:.3g}, relative; allowed are {tolerance:.3g}")
    return difference


def compare_training(tensors, facts):
    model = getattr(models, facts["model"])(*facts["arguments"]).to(getattr(torch, facts["dtype"]))
    model.load_state_dict(part(tensors, "weights."))
    model.train(facts["training"])
    optimizer = getattr(torch.optim, facts["optimizer"])(model.parameters(), **facts["options"])
    worst, worst_gradient = 0, None
    for step, ours in enumerate(tensors["losses"]):
        i = step % facts["batches"]
        optimizer.zero_grad()
        loss = LOSSES[facts["loss"]](model(tensors[f"data.{i}"]), tensors[f"target.{i}"])
        loss.backward()
        worst = max(worst, check(f"the loss of step {step}", relative(ours, loss.detach()), facts["tolerance"]))
        gradients = part(tensors, "gradients.") if step == 0 else {}
        for name, p in model.named_parameters():
            if name in gradients:
                difference = relative(gradients[name], p.grad)
                worst_gradient = max(worst_gradient or 0, check(f"the gradient of {name}", difference, facts["tolerance"]))
        optimizer.step()
    count = len(tensors["losses"])
    text = f"{count} loss{'es' if count > 1 else ''} ({tensors['losses'][0]:.4f} to {tensors['losses'][-1]:.4f}) within {worst:.1e}"
    return text + (f", first gradients within {worst_gradient:.1e}" if worst_gradient is not None else "")


def compare_optimizer(tensors, facts):
    first, second = (tensors[f"values.0.{i}"].clone().requires_grad_() for i in range(2))
    groups = [{"params": [first]}, {"params": [second], "lr": facts["second_lr"]}]
    optimizer = getattr(torch.optim, facts["optimizer"])(groups, **facts["options"])
    worst, step = 0, 1
    while f"gradients.{step}.0" in tensors:
        for i, p in enumerate((first, second)):
            p.grad = tensors[f"gradients.{step}.{i}"]
        optimizer.step()
        for i, p in enumerate((first, second)):
            difference = relative(tensors[f"values.{step}.{i}"], p.detach())
            worst = max(worst, check(f"parameter {i} after step {step}", difference, facts["tolerance"]))
        step += 1
    options = ", ".join(f"{name}={value}" for name, value in facts["options"].items())
    return f"{step - 1} steps within {worst:.1e} ({options})"


def make_schedule(optimizer, name, keywords):
    keywords = dict(keywords)
    if name in ("SequentialLR", "ChainedScheduler"):
        keywords["schedulers"] = [make_schedule(optimizer, *each) for each in keywords["schedulers"]]
    if "lr_lambda" in keywords:
        known = {"1 / (1 + epoch)": lambda epoch: 1 / (1 + epoch), "1 - 1 / (2 + epoch)": lambda epoch: 1 - 1 / (2 + epoch)}
        keywords["lr_lambda"] = known[keywords["lr_lambda"]]
    if name == "ChainedScheduler":
        return torch.optim.lr_scheduler.ChainedScheduler(**keywords, optimizer=optimizer)
    return getattr(torch.optim.swa_utils if name == "SWALR" else torch.optim.lr_scheduler, name)(optimizer, **keywords)


def compare_schedule(tensors, facts):
    groups = [{"params": [torch.ones(1, requires_grad=True)], "lr": lr} for lr in facts["lrs"]]
    options = {"momentum": 0.9} if facts["optimizer"] == "SGD" else {}
    optimizer = getattr(torch.optim, facts["optimizer"])(groups, **options)
    schedule = make_schedule(optimizer, facts["schedule"], facts["keywords"])
    worst = 0
    for epoch, ours in enumerate(tensors["rates"]):
        if epoch:
            optimizer.step()
            schedule.step(*([facts["metrics"][epoch]] if facts["schedule"] == "ReduceLROnPlateau" else []))
        first, second = optimizer.param_groups
        momentum = first["momentum"] if "momentum" in first else first["betas"][0]
        theirs = torch.tensor([float(first["lr"]), float(second["lr"]), momentum], dtype=torch.float64)
        worst = max(worst, check(f"epoch {epoch}: {ours.tolist()} against {theirs.tolist()}", relative(ours, theirs), facts["tolerance"]))
    keywords = ", ".join(f"{name}={value}" for name, value in facts["keywords"].items())
    return f"{len(tensors['rates'])} epochs of {facts['optimizer']} within {worst:.1e} ({keywords})"


COMPARE = {"training": compare_training, "optimizer": compare_optimizer, "schedule": compare_schedule}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    passed = failed = 0
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors")):
        tensors, facts = read_safetensors(path)
        try:
            print(f"{path.stem}: {COMPARE[facts['kind']](tensors, facts)}")
            passed += 1
        except Exception as error:  # whatever PyTorch raises is a difference too
            print(f"failed: {path.stem}: {type(error).__name__}: {error}")
            failed += 1
    print(f"training, optimisers and schedules compared with PyTorch {torch.__version__}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
