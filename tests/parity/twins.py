#!/usr/bin/env python3
"""Runs every line of twins.txt in PyTorch and in the Python package, and compares both with what twins.cpp wrote.

usage: twins.py FOLDER [--write]

Outputs and gradients of modules must be equal within 1e-9 (relative to the largest), parameters after 50 steps of an
optimiser within 1e-12; the names of parameters must be the same, and the numbers that the table holds must be PyTorch's.
--write computes those numbers anew and compares nothing. Ends with "N passed, N failed", which counts lines.
"""
import importlib, importlib.util, json, math, pathlib, re, struct, sys, warnings

import torch

TABLE = pathlib.Path(__file__).with_name("twins.txt")


def read_tensors(path):
    """The float64 tensors of a safetensors file by name."""
    data = bytearray(path.read_bytes())
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] != "F64":
            raise ValueError(f"{name} is {entry['dtype']}, not F64")
        found[name] = torch.frombuffer(data[begin:end], dtype=torch.float64).reshape(entry["shape"])
    return found


class Side:
    """A line's computation with one library: PyTorch or the package, which have the same names."""

    def __init__(self, name):
        self.lib = importlib.import_module(name)
        self.nn = importlib.import_module(f"{name}.nn")
        self.rnn = importlib.import_module(f"{name}.nn.utils.rnn")
        self.optim = importlib.import_module(f"{name}.optim")
        self.models = self.load_models(name)
        self.lib.set_default_dtype(self.lib.float64)

    def load_models(self, name):
        """models.py with this library as its torch."""
        theirs = {key: sys.modules[key] for key in list(sys.modules) if key.partition(".")[0] == "torch"}
        own = {f"torch{key[len(name):]}": m for key, m in list(sys.modules.items()) if key.partition(".")[0] == name}
        own.update({"torch.nn.functional": importlib.import_module(f"{name}.nn.functional")})
        try:
            for key in theirs:
                del sys.modules[key]
            sys.modules.update(own)
            spec = importlib.util.spec_from_file_location(f"models_of_{name}", TABLE.with_name("models.py"))
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
        finally:
            for key in own:
                sys.modules.pop(key, None)
            sys.modules.update(theirs)

    def wave(self, sizes, phase):
        count = math.prod(sizes)
        return self.lib.sin(self.lib.arange(count, dtype=self.lib.float64) * 0.7 + phase).reshape(sizes)

    def pos(self, *sizes, phase=3):
        return self.wave(sizes, phase).abs() + 0.1

    def construct(self, text, space):
        return eval(text, {**vars(space), "pos": self.pos})  # the table is ours

    def inputs(self, texts):
        """The inputs, and those of them (or what they are made of) that get gradients."""
        inputs, leaves = [], []
        for text in texts:
            phase = 10 + len(inputs)
            kind, sizes, values = re.fullmatch(r"(\w+)(?:\[(.*?)\])?(?:\((.*)\))?", text).groups()
            values = [int(v) for v in values.split(",")] if values else []
            if kind in ("wave", "logsoft"):
                leaves.append(self.wave(values, phase).requires_grad_())
                made = leaves[-1] if kind == "wave" else leaves[-1].log_softmax(-1)
            elif kind == "pos":
                made = self.pos(*values, phase=phase)
            elif kind == "prob":
                made = (self.wave(values, phase) + 1.2) / 2.5
            elif kind == "sign":
                made = self.lib.where(self.wave(values, phase) > 0, 1.0, -1.0)
            elif kind in ("true", "false"):
                made = kind == "true"
            elif kind in ("ints", "mask"):
                made = self.lib.tensor(values)
                made = made.view([int(s) for s in sizes.split(",")]) if sizes else made
                made = made.bool() if kind == "mask" else made
            else:
                raise ValueError(f"unknown input {text}")
            inputs.append(made)
        return inputs, leaves

    def tensors(self, value):
        if isinstance(value, self.lib.Tensor):
            return [value]
        return [t for v in value for t in self.tensors(v)] if isinstance(value, (list, tuple)) else []

    def weighted(self, t, phase):
        return (t.detach() * self.wave(t.shape, phase)).sum().item()

    def run_module(self, line):
        module = self.construct(line.constructor, self.models if "model" in line.words else self.nn)
        module.train("eval" not in line.words)
        with self.lib.no_grad():
            for phase, p in enumerate(module.parameters()):
                p.copy_(self.wave(p.shape, phase) * 0.5)
        inputs, leaves = self.inputs(line.inputs)
        if "packed" in line.words:
            packed = self.rnn.pack_padded_sequence(inputs[0], self.lib.tensor([3, 6, 1, 3]), enforce_sorted=False)
            output, states = module(packed)
            padded = self.rnn.pad_packed_sequence(output, batch_first=True, padding_value=0.25, total_length=7)[0]
            outputs = [padded, *self.tensors(states)]
        else:
            outputs = self.tensors(module(*inputs))
        total = sum((t * self.wave(t.shape, phase)).sum() for phase, t in enumerate(outputs, 1))
        value = sum(self.weighted(t, phase) for phase, t in enumerate(outputs, 1))
        if total.requires_grad:
            total.backward()
        found = {f"output.{k}": t for k, t in enumerate(outputs)}
        gradient = 0
        named = [*((str(i), t) for i, t in enumerate(leaves)), *module.named_parameters()]
        for phase, (name, t) in enumerate(named, 2):
            if t.grad is not None:
                found[f"gradient.{name}"] = t.grad
                gradient += self.weighted(t.grad, phase)
        return found, [value, gradient]

    def run_optimizer(self, line):
        params = [self.wave((3, 4), 0).requires_grad_(), self.wave((5,), 1).requires_grad_()]
        space = self.optim
        optimizer = eval(line.constructor.replace("(", "(params, ", 1), {**vars(space), "params": params})
        for step in range(1, 51):
            for p in params:
                p.grad = (p.detach() - 0.3) * 0.5 + self.wave(p.shape, step) * 0.1
            optimizer.step()
        return {f"output.{i}": p for i, p in enumerate(params)}, [sum(self.weighted(p, i) for i, p in enumerate(params, 1))]

    def run(self, line):
        found, numbers = self.run_optimizer(line) if "optim" in line.words else self.run_module(line)
        return {k: torch.from_dlpack(t.detach().contiguous()) for k, t in found.items()}, numbers


class Line:
    def __init__(self, text):
        start, inputs, numbers = (column.strip() for column in text.split("|"))
        words = start.split(" ")
        count = next(i for i, w in enumerate(words) if w not in ("eval", "packed", "model", "optim", "1e-7"))
        self.words, self.constructor = words[:count], " ".join(words[count:])
        self.inputs = [i.strip() for i in re.split(r",\s*(?![^(\[]*[)\]])", inputs) if i.strip()]
        self.numbers = [float(n) for n in numbers.split()]
        self.start, self.given = start, inputs
        self.tolerance = 1e-12 if "optim" in words else 1e-7 if "1e-7" in words else 1e-9


class Mismatch(Exception):
    pass


def check_same(who, found, expected, tolerance):
    if found.keys() != expected.keys():
        raise Mismatch(f"{who} has {sorted(found.keys() ^ expected.keys())} alone, or PyTorch has")
    worst = 0.0
    for name, values in expected.items():
        if found[name].shape != values.shape:
            raise Mismatch(f"{who}: {name} has sizes {list(found[name].shape)}, PyTorch's {list(values.shape)}")
        difference = ((found[name] - values).abs().max() / (1 + values.abs().max())).item()
        if not difference <= tolerance:
            raise Mismatch(f"{who}: {name} differs by {difference:.3g}; allowed are {tolerance:.3g}")
        worst = max(worst, difference)
    return worst


def compare(line, number, cpp, sides):
    expected, numbers = sides["torch"].run(line)
    own = {name[len(number) + 1:]: t for name, t in cpp.items() if name.startswith(number + ".")}
    worst = check_same("C++", own, expected, line.tolerance)
    worst = max(worst, check_same("Python", sides["pellucid"].run(line)[0], expected, line.tolerance))
    if len(numbers) != len(line.numbers) or any(abs(a - b) > line.tolerance * (1 + abs(a)) for a, b in zip(numbers, line.numbers)):
        raise Mismatch(f"the table's numbers are {line.numbers}, PyTorch's {numbers}: run tests/parity/run --twins --write")
    return worst


def write_numbers(side):
    rows = []
    for text in TABLE.read_text(encoding="utf-8").splitlines():
        if text and not text.startswith("#"):
            line = Line(text)
            text = f"{line.start} | {line.given} | {' '.join(f'{n:.13g}' for n in side.run(line)[1])}"
        rows.append(text)
    TABLE.write_text("\n".join(rows) + "\n", encoding="utf-8")


def main():
    warnings.simplefilter("ignore")
    if "--write" in sys.argv[1:]:
        write_numbers(Side("torch"))
        return 0
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cpp = read_tensors(pathlib.Path(sys.argv[1]) / "twins.tensors")
    sides = {name: Side(name) for name in ("torch", "pellucid")}
    passed, failed, worst = 0, 0, {}
    lines = [Line(t) for t in TABLE.read_text(encoding="utf-8").splitlines() if t and not t.startswith("#")]
    for number, line in enumerate(lines):
        try:
            kind = "optimisers" if "optim" in line.words else "modules and losses"
            worst[kind] = max(worst.get(kind, 0), compare(line, str(number), cpp, sides))
            passed += 1
        except Exception as error:  # whatever a side raises is a difference too
            print(f"failed: {line.start} | {line.given}: {type(error).__name__}: {error}")
            failed += 1
    for kind, difference in worst.items():
        print(f"{kind}: C++, Python and PyTorch {torch.__version__} are equal within {difference:.1e}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
