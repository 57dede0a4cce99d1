"""What PyTorch would do and pellucid does not yet says so once; what is true by nature stays silent."""
import subprocess
import sys
import warnings

import pytest

import pellucid as torch
from pellucid import _promises, nn


@pytest.fixture(autouse=True)
def as_in_a_new_process(monkeypatch):
    monkeypatch.setattr(_promises, "_said", set())


def said(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught], [w.filename for w in caught]


LAYER = nn.Linear(2, 2)
NOT_KEPT = {
    "jit.script": lambda: torch.jit.script(LAYER),
    "jit.freeze": lambda: torch.jit.freeze(LAYER),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "sparse embedding": lambda: nn.Embedding(3, 2, sparse=True)(torch.tensor([1])),
    "gradcheck": lambda: torch.autograd.gradcheck(torch.sin, torch.ones(1, dtype=torch.float64, requires_grad=True),
                                                  check_forward_ad=True),
}
SILENT = {
    "torch.compile": lambda: torch.compile(LAYER),
    "torch.compile as a decorator": lambda: torch.compile(mode="max-autotune")(LAYER.forward),
    "torch.compiler.compile": lambda: torch.compiler.compile(LAYER),
    "compile(disable=True)": lambda: torch.compile(LAYER, disable=True),
    "compiler.disable": lambda: torch.compiler.disable(LAYER.forward),
    "jit.ignore": lambda: torch.jit.ignore(LAYER.forward),
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
    "cuda.synchronize": lambda: torch.cuda.synchronize(),
    "deterministic": lambda: torch.use_deterministic_algorithms(False),
    "precision": lambda: torch.set_float32_matmul_precision("highest"),
    "cudnn": lambda: setattr(torch.backends.cudnn, "benchmark", True),
}


@pytest.mark.parametrize("name", NOT_KEPT)
def test_promises_that_are_not_kept_are_said_once(name):
    texts, files = said(NOT_KEPT[name])
    assert len(texts) == 1 and files == [__file__], (texts, files)
    assert said(NOT_KEPT[name])[0] == []


@pytest.mark.parametrize("name", SILENT)
def test_what_is_true_anyway_is_silent(name):
    assert said(SILENT[name])[0] == []


def test_a_promise_that_is_not_kept_warns_once_a_process():
    code = ("import pellucid as torch\n"
            "for _ in range(3): f = torch.jit.script(lambda x: x + 1)\n"
            "print(f(torch.ones(1)).item())")
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, cwd="/")
    assert done.stdout == "2.0\n" and done.stderr.count("UserWarning: torch.jit.script") == 1, done.stderr


def test_other_devices_of_autocast():
    texts, _ = said(lambda: torch.autocast("cuda"))
    assert texts == ["User provided device_type of 'cuda', but CUDA is not available. Disabling"]


def test_switches_are_kept_for_those_who_ask():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision(before)
    assert not torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)


def test_steps_with_a_history_are_refused():
    w = torch.ones(2, requires_grad=True)
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.Adadelta):
        with pytest.raises(NotImplementedError, match="differentiable"):
            kind([w], differentiable=True)


def test_options_of_windows_are_heard():
    for make in (torch.hann_window, torch.blackman_window, torch.hamming_window, torch.bartlett_window, torch.kaiser_window):
        assert make(5, requires_grad=True).requires_grad and not make(1).requires_grad
        with pytest.raises(RuntimeError, match="not available"):
            make(5, device="cuda")
        with pytest.raises(TypeError):
            make(5, dtyp=torch.float64)
