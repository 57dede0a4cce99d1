"""torch.save, torch.load, pickle and deepcopy keep what tensors share; a loaded file may change; a damaged one is a typed error."""
import collections
import copy
import io
import json
import math
import os
import pickle
import random
import shutil
import struct

import numpy as np
import pytest

import pellucid as torch
from pellucid import nn


def through_file(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


WAYS = {"save": through_file, "pickle": lambda v: pickle.loads(pickle.dumps(v)), "deepcopy": copy.deepcopy}
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.bool]


def shares(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


@pytest.mark.parametrize("way", WAYS)
def test_tensors_of_one_storage_stay_together(way):
    x = torch.arange(12.0).view(3, 4)
    w = torch.ones(5)
    value = {"w": w, "tied": w, "x": x, "row": x[1], "columns": x[:, 1:3], "transposed": x.t(), "step": x.view(-1)[::3],
             "expanded": torch.tensor([2.0]).expand(4), "bits": x.view(torch.int32), "nested": [(x[0], {"deep": x[2, 3]})],
             "empty": torch.ones(0, 3), "number": torch.tensor(3), "alone": torch.ones(2, 2)}
    got = WAYS[way](value)
    assert list(got) == list(value) and got["tied"] is got["w"]
    for name in ("row", "columns", "transposed", "step", "bits"):
        assert shares(got[name], got["x"]) and got[name].stride() == value[name].stride(), name
        assert got[name].storage_offset() == value[name].storage_offset() and got[name].tolist() == value[name].tolist()
    assert shares(got["nested"][0][0], got["x"]) and shares(got["nested"][0][1]["deep"], got["x"])
    assert got["expanded"].stride() == (0,) and got["empty"].shape == (0, 3) and got["number"].item() == 3
    assert not shares(got["x"], got["w"]) and not shares(got["x"], x)
    got["x"].zero_()
    assert got["row"].tolist() == [0.0] * 4 and got["bits"][2, 3] == 0 and x[2, 3] == 11


def test_a_storage_is_written_once(tmp_path):
    w = torch.ones(1000, 100)
    torch.save({"a": w}, tmp_path / "one")
    torch.save({"a": w, "b": w, "c": w[::2], "d": [w.t()]}, tmp_path / "many")
    torch.save({"a": w, "b": w.view(-1)}, tmp_path / "flat")
    assert os.path.getsize(tmp_path / "many") < os.path.getsize(tmp_path / "one") + 2000
    assert os.path.getsize(tmp_path / "flat") < os.path.getsize(tmp_path / "one") + 2000
    flat = torch.load(tmp_path / "flat")
    assert shares(flat["a"], flat["b"]) and list(flat) == ["a", "b"]


@pytest.mark.parametrize("way", WAYS)
def test_gradients_parameters_and_attributes(way):
    p = nn.Parameter(torch.ones(2, 3))
    leaf = torch.ones(2, requires_grad=True)
    p.note = "kept"
    got = WAYS[way]([p, p, leaf, nn.Parameter(torch.ones(1), requires_grad=False), p.data])
    assert type(got[0]) is nn.Parameter and got[0] is got[1] and got[0].requires_grad and got[0].note == "kept"
    assert got[2].requires_grad and type(got[2]) is torch.Tensor and not got[3].requires_grad
    assert shares(got[4], got[0]) and not got[4].requires_grad
    (got[0].sum() * 2).backward()
    assert got[0].grad[0, 0] == 2


def test_results_are_saved_as_leaves():
    y = torch.ones(2, requires_grad=True) * 2
    for way in (through_file, WAYS["pickle"]):
        got = way(y)
        assert got.is_leaf and got.requires_grad and got.tolist() == [2, 2]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_every_dtype(way, dtype):
    x = torch.tensor([[1, 0, 3], [0, 5, 6]]).to(dtype)
    for t in (x, x.t(), x[:, 1], x[1:], x[0, 0], x[:0]):
        got = WAYS[way](t)
        assert got.dtype == dtype and got.shape == t.shape and got.tolist() == t.tolist()
        assert got.numel() == 0 or got.stride() == t.stride()


def test_tied_modules_and_optimisers(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 8)
            self.head = nn.Linear(8, 50, bias=False)
            self.head.weight = self.embed.weight

    model = Tied()
    twin = copy.deepcopy(model)
    assert twin.head.weight is twin.embed.weight and twin.head.weight is not model.head.weight
    assert pickle.loads(pickle.dumps(model.state_dict()))["head.weight"].shape == (50, 8)
    optimizer = torch.optim.Adam(model.parameters())
    model.head(model.embed(torch.tensor([1, 2]))).sum().backward()
    optimizer.step()
    path = tmp_path / "checkpoint"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    found = torch.load(path)
    assert type(found["model"]) is collections.OrderedDict and shares(found["model"]["head.weight"], found["model"]["embed.weight"])
    twin.load_state_dict(found["model"])
    other = torch.optim.Adam(twin.parameters())
    other.load_state_dict(found["optimizer"])
    assert torch.equal(twin.head.weight, model.embed.weight) and other.state_dict()["state"][0]["exp_avg"].shape == (50, 8)


def test_objects_that_appear_twice_are_one():
    inner, array = [1], np.arange(3)
    value = {"a": inner, "b": inner, "c": (inner, array), "d": array}
    value["self"] = value
    got = through_file(value)
    assert got["a"] is got["b"] is got["c"][0] and got["c"][1] is got["d"] and got["self"] is got
    counted = through_file([collections.Counter("aab"), collections.defaultdict(list, {1: [2]}), collections.OrderedDict(z=1, a=2)])
    assert counted[0] == {"a": 2, "b": 1} and counted[0]["none"] == 0 and counted[1][5] == [] and list(counted[2]) == ["z", "a"]


def test_a_loaded_file_may_change(tmp_path):
    path = tmp_path / "weights"
    saved = {"w": torch.arange(100_000.0), "n": [torch.ones(3)]}
    torch.save(saved, path)
    for reload in (lambda: torch.load(path), lambda: torch.load(str(path), weights_only=True)):
        state = reload()
        with open(path, "wb") as file:  # cuts the file that was loaded
            torch.save(state, file)
        assert torch.equal(torch.load(path)["w"], saved["w"])
    state = torch.load(path)
    torch.save({"w": torch.zeros(100_000), "n": [torch.zeros(3)]}, tmp_path / "other")
    shutil.copyfile(tmp_path / "other", path)
    assert torch.equal(state["w"], saved["w"])
    os.truncate(path, 0)
    assert torch.equal(state["w"], saved["w"]) and state["n"][0].tolist() == [1, 1, 1]


def test_mapped_files_are_asked_for(tmp_path):
    path = tmp_path / "weights"
    saved = {"w": torch.arange(100_000.0)}
    torch.save(saved, path)
    mapped = torch.load(path, mmap=True)
    assert str(path) in open("/proc/self/maps").read()
    mapped["w"][0] = 5  # memory alone
    assert torch.load(path)["w"][0] == 0
    torch.save(mapped, path)  # replaces the file; what is mapped stays
    assert torch.load(path)["w"][0] == 5 and mapped["w"][1] == 1
    torch.save({"w": torch.zeros(3)}, path)
    assert torch.equal(mapped["w"][1:], saved["w"][1:])
    with pytest.raises(RuntimeError, match="not resizable"):
        mapped["w"].resize_(200_000)
    del mapped
    assert str(path) not in open("/proc/self/maps").read()
    torch.load(path)
    assert str(path) not in open("/proc/self/maps").read()
    with pytest.raises(ValueError, match="mmap"):
        torch.load(io.BytesIO(b""), mmap=True)
    torch.save(saved, path)
    for strange in (lambda t: t, lambda t: t[::2]):
        mapped = torch.load(path, mmap=True)
        with open(tmp_path / "copy", "wb") as file:
            torch.save({"w": strange(mapped["w"])}, file)
        os.truncate(path, 100)
        with pytest.raises(torch.IoError, match="cut off"):
            torch.save({"w": strange(mapped["w"])}, io.BytesIO())
        torch.save(saved, path)


def test_files_of_version_1_are_read(tmp_path):
    structure = {"dict": [["a", {"tensor": "0", "parameter": False, "requires_grad": False}],
                          ["p", {"tensor": "1", "parameter": True, "requires_grad": True}],
                          ["l", {"list": [1, {"float": 0.5.hex()}, {"tuple": [None, "x"]}]}]], "kind": "OrderedDict"}
    write(tmp_path / "old", {"0": ("F32", [2], struct.pack("2f", 1, 2)), "1": ("F32", [1], struct.pack("f", 3))},
          {"format": "pt", "structure": json.dumps(structure)})
    got = torch.load(tmp_path / "old")
    assert got["a"].tolist() == [1, 2] and type(got["p"]) is nn.Parameter and got["l"] == [1, 0.5, (None, "x")]
    old = pickle.dumps(_OldPickle())
    assert pickle.loads(old).tolist() == [1, 2]


class _OldPickle:
    """Pickles as tensors of version 0.1 did."""

    def __reduce__(self):
        from pellucid._tensor import _rebuild
        return _rebuild, (torch.Tensor, file_bytes({"tensor": ("F32", [2], struct.pack("2f", 1, 2))}, {}), False, {})


def file_bytes(tensors, metadata):
    header, at, data = {"__metadata__": metadata}, 0, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(path, tensors, metadata):
    path.write_bytes(file_bytes(tensors, metadata))


def test_views_are_checked(tmp_path):
    raw = ("F32", [4], struct.pack("4f", 1, 2, 3, 4))

    def views(*tensors, storages=("s",), version=1):
        write(tmp_path / "f", {"s": raw}, {"shared_views": json.dumps(
            {"version": version, "storages": list(storages), "tensors": list(tensors)})})
        return torch.load(tmp_path / "f")
    assert views(["a", "s", "float32", 1, [2], [2]])["a"].tolist() == [2, 4]
    assert views(["a", "s", "int16", 0, [8], [1]])["a"].dtype == torch.int16
    for bad in (["a", "s", "float32", 1, [2], [3]], ["a", "s", "float32", 4, [1], [1]], ["a", "s", "float32", -1, [1], [1]],
                ["a", "s", "float32", 0, [2], [-1]], ["a", "s", "float32", 0, [-2], [1]], ["a", "t", "float32", 0, [1], [1]],
                ["a", "s", "float64", 0, [3], [1]], ["a", "s", "none", 0, [1], [1]], ["a", "s", "bool", 0, [16], [1]],
                ["a", "s", "float32", 0, [1 << 62, 4], [1, 1]], ["a", "s", "float32", 0, [1], [1, 1]], ["a", "s"], 5, None, "b",
                ["a", "s", "float32", 1 << 63, [1], [1]], ["a", "s", "float32", 0.5, [1], [1]], ["a", "s", "float32", 0, 3, [1]]):
        with pytest.raises(torch.IoError, match="damaged"):
            views(bad)
    good = ["a", "s", "float32", 0, [4], [1]]
    for wrong in (lambda: views(good, good), lambda: views(good, version=2), lambda: views(good, storages=()),
                  lambda: views(good, storages=("s", "t")), lambda: views("s")):
        with pytest.raises(torch.IoError):
            wrong()


def damage(value, chance, rng):
    """The same nested JSON with parts changed, taken away, doubled or exchanged."""
    numbers = [0, 1, -1, 2**31, 2**63, -2**63, 1e308, 0.5, "x", None, [], {}, True, "0", "float64", ["a"], {"tensor": "0"},
               {"again": 0}]
    if rng.random() < chance:
        return rng.choice(numbers)
    if isinstance(value, dict):
        return {(rng.choice(["dict", "list", "tensor", "plain", "id", "x"]) if rng.random() < chance else k): damage(v, chance, rng)
                for k, v in value.items() if rng.random() > chance / 2}
    if isinstance(value, list):
        made = [damage(v, chance, rng) for v in value if rng.random() > chance / 2]
        return made + made[:1] if rng.random() < chance else made
    return value


def test_damaged_structures_are_typed_errors():
    """Fuzzing behind the header's own checks: the file is a correct safetensors file, its lists of objects and views are not."""
    x = torch.arange(6.0)
    value = {"x": x, "v": x[1:3], "p": nn.Parameter(torch.ones(2)), "l": [1, (2, 0.5), {3}, None, torch.float16, torch.Size([1])],
             "a": np.arange(3), "b": b"bytes", "r": range(3), "i": x.view(torch.int32)[::2]}
    value["l"].append(value["l"])
    file = io.BytesIO()
    torch.save(value, file)
    data = file.getvalue()
    length, = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    rng = random.Random(3)
    refused = loaded = 0
    for _ in range(4000 if os.environ.get("PELLUCID_TEST_LONG") else 1500):
        changed = copy.deepcopy(header)
        for key in ("structure", "shared_views"):
            if rng.random() < 0.7:
                good = json.loads(header["__metadata__"][key])
                changed["__metadata__"][key] = json.dumps(damage(good, rng.choice([0.01, 0.05]), rng))
        text = json.dumps(changed).encode()
        try:
            torch.load(io.BytesIO(struct.pack("<Q", len(text)) + text + body))
            loaded += 1
        except (torch.IoError, torch.ValueError) as e:
            assert type(e) is not torch.Error
            refused += 1
    assert refused > 100 and loaded > 20
    for deep in ("[" * 100_000, '{"list": [' * 5000 + "]}" * 5000):
        changed = copy.deepcopy(header)
        changed["__metadata__"]["structure"] = deep
        text = json.dumps(changed).encode()
        with pytest.raises(torch.IoError):
            torch.load(io.BytesIO(struct.pack("<Q", len(text)) + text + body))


def test_headers_whose_length_begins_like_a_pickle():
    for n in range(400, 1500, 7):
        value = {"a": torch.ones(1), "name": "x" * n}
        assert through_file(value)["name"] == value["name"]


def test_a_failed_save_leaves_the_file(tmp_path):
    path = tmp_path / "kept"
    torch.save({"a": torch.ones(3)}, path)
    for bad in ({"a": object()}, {"a": nn.Linear(1, 1)}, [torch.ones(2), lambda: 0]):
        with pytest.raises(TypeError):
            torch.save(bad, path)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises((torch.ValueError, RecursionError)):
        torch.save(deep, path)
    assert torch.load(path)["a"].tolist() == [1, 1, 1] and os.listdir(tmp_path) == ["kept"]
    while deep:
        deep = deep[0]


def test_numbers_keep_their_kind():
    value = [True, 1, 2**80, -0.0, math.inf, "text", None, complex(1, 2), bytearray(b"xy"), np.float32(1.5)]
    got = through_file(value)
    assert got == value and [type(v) for v in got] == [type(v) for v in value]
    assert math.copysign(1, got[3]) == -1
