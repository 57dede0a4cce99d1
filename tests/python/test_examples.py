"""The example programs: each runs under `python -m pellucid` and prints its worked figures; where PyTorch is installed, the
same file prints the same under PyTorch."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"

# What each program prints, line by line; a pattern where a line begins with "re:".
EXPECTED = {
    "small_graph": ["a = 4.0000", "b = -0.7568", "c = 0.4692", "y = 0.9383", "dy/dx = -1.9842", "z = 6.0000", "w = -0.2794",
                    "v = 0.7562", "f = 1.5125", "df/dx = 5.1129", "df/dy = 2.9044", "MulBackward0", "  ExpBackward0",
                    "    SinBackward0", "      MulBackward0", "        AccumulateGrad at 2", "        AccumulateGrad at 3",
                    "  AccumulateGrad at 2"],
    "custom_relu": ["y = tensor([0.0000, 0.0000, 0.5000, 3.0000], dtype=torch.float64)",
                    "gradient = tensor([0., 0., 3., 4.], dtype=torch.float64)", "gradcheck: True"],
    "higher_orders": ["x^3 at 2 = 8", "derivative 1 = 12", "derivative 2 = 12", "derivative 3 = 6",
                      "Hessian of x^3 + y^3 at (1, 2): [[6.0, 0.0], [0.0, 12.0]]", "times (1, 1): [6.0, 12.0]"],
    "clipping": ["norm before 26, after 1.0000", "gradient of w: ['0.2308', '0.3077']", "cut to 0.3: ['0.2308', '0.3000', '0.3000']"],
    "rope": ["[2, 48, 32] -> [2, 48, 32], lengths kept: True, position 0 unchanged: True",
             "[2, 48, 4, 32] -> [2, 48, 4, 32], lengths kept: True, position 0 unchanged: True",
             "q . k at 5, 2: 12.2463; at 40, 37: 12.2463; at 40, 2: 12.8403",
             "31 features: RoPE needs an even number of features, because it turns pairs of them; got 31."],
    "kv_cache": ["cached tokens: 256", "same output with and without: True", "after clear: 0"],
    "dtypes": ["dtype            MiB  matmul ms", r"re:torch.float32   3.81 +[\d.]+", r"re:torch.float64   7.63 +[\d.]+",
               r"re:torch.float16   1.91 +[\d.]+", r"re:torch.int32     3.81 +[\d.]+", r"re:torch.int64     7.63 +[\d.]+",
               r"re:torch.bool      0.95 +[\d.]+"],
    "two_layer": ["parameters: 101110", *[rf"re:{n} [\d.]+" for n in (100, 200, 300, 400, 500)],
                  "1,000 forward linears, 500 backwards, 2,000 parameter updates", "falls to less than a thousandth: True"],
    "checkpointing": ["use_reentrant=False: equal bit for bit True, the first block ran 2 times",
                      "use_reentrant=True: equal bit for bit True, the first block ran 2 times",
                      "checkpoint_sequential in 3 parts: equal bit for bit True"],
    "hooks": ["accumulated: [30.0, 30.0]", "y.grad: [10.0, 10.0] x.grad: [30.0, 30.0]",
              "ExpBackward0 ['2.7183', '7.3891'] from [1.0, 1.0]", "linear gave [[0.0, 2.0]]",
              "tanh takes [[1.0, 1.0]] gives ['1.0000', '0.0707']", "before the step: 1.0", "after the step: 0.5"],
}


def run(name, *arguments, torch=False):
    command = [sys.executable, "-B", *([] if torch else ["-m", "pellucid"]), str(FOLDER / f"{name}.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check(lines, expected):
    assert len(lines) == len(expected), lines
    for line, wanted in zip(lines, expected):
        assert re.fullmatch(wanted[3:], line) if wanted.startswith("re:") else line == wanted, line


@pytest.mark.parametrize("name", EXPECTED)
def test_prints_its_worked_figures(name):
    check(run(name), EXPECTED[name])


# dtypes is left out: PyTorch's float16 product alone takes seconds.
@pytest.mark.parametrize("name", [n for n in EXPECTED if n != "dtypes"])
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed, so nothing is compared with it")
def test_prints_the_same_under_pytorch(name):
    check(run(name, torch=True), EXPECTED[name])


def test_every_example_is_tested():
    assert {p.stem for p in FOLDER.glob("*.py")} == {*EXPECTED, "mnist_cnn", "transformer_text"}


def test_pictures(tmp_path):
    assert run("small_graph", tmp_path / "graph")[-1] == str(tmp_path / "graph.svg")
    picture = (tmp_path / "graph.svg").read_text()
    assert all(word in picture for word in ("<svg", ">sin<", ">exp<", ">mul<", ">pow<", ">x<")), picture
    run("rope", tmp_path / "heat.svg")
    squares = re.findall(r"<rect x='(\d+)'.* fill='(.*)'/>", (tmp_path / "heat.svg").read_text())
    before, after = ([fill for x, fill in squares if (int(x) < 336) == left] for left in (True, False))
    assert len(before) == len(after) == 48 * 32 and len(set(before)) == 1 and len(set(after)) > 50


def test_cnn_learns_and_prints_the_known_lines():
    lines = run("mnist_cnn", "--images", 2560)
    assert lines[:2] == ["Epoch 1/1", "-" * 60]
    steps = [re.fullmatch(r"Train Epoch: 0 \[(\d+)/2560 \((\d+)%\)\]\tLoss: (\d+\.\d{6})", line) for line in lines[2:-1]]
    assert [(int(m[1]), int(m[2])) for m in steps] == [(0, 0), (640, 25), (1280, 50), (1920, 75)]
    assert float(steps[-1][3]) < float(steps[0][3]) - 0.3
    assert float(re.fullmatch(r"Test accuracy: ([\d.]+)%", lines[-1])[1]) > 40  # ten would be chance


def test_cnn_reads_mnists_files(tmp_path):
    for part, count in (("train", 128), ("t10k", 10)):
        images = bytes([0, 0, 8, 3]) + bytes(12) + bytes(i % 251 for i in range(count * 784))
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(images)
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(bytes(8) + bytes(i % 10 for i in range(count)))
    lines = run("mnist_cnn", "--data", tmp_path)
    assert lines[2].startswith("Train Epoch: 0 [0/128 (0%)]\tLoss: ") and lines[-1].startswith("Test accuracy")


def test_transformer_learns_its_text():
    lines = run("transformer_text", "--epochs", 4)
    batches = [line for line in lines if re.fullmatch(r"Batch \d+0, Loss: \d+\.\d{4}", line)]
    averages = [float(m[1]) for m in (re.fullmatch(r"Epoch completed. Average loss: (\d+\.\d{4})", line) for line in lines) if m]
    assert len(averages) == 4 and averages == sorted(averages, reverse=True) and averages[-1] < averages[0] / 2
    assert len(batches) + len(averages) + 1 == len(lines) and lines[-1].startswith("'one and one make")


def test_what_is_missing_is_named():
    done = subprocess.run([sys.executable, "-m", "pellucid", "-c", "from torch.nn import NoSuchLayer"], capture_output=True, text=True)
    assert done.returncode == 1 and "NoSuchLayer" in done.stderr
    done = subprocess.run([sys.executable, "-m", "pellucid", "-c", "import torch; torch.no_such_function"], capture_output=True,
                          text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 1 and "has no attribute 'no_such_function'" in done.stderr
