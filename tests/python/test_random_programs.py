"""Programs that nobody would write: whatever they do, the process lives."""
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "random_programs.py"


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_random_programs_leave_the_process_alive(first):
    for seed in range(first, first + 5):
        run = subprocess.run([sys.executable, "-X", "faulthandler", PROGRAM, str(seed), "800"], capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, f"seed {seed}: {run.returncode}\n{run.stderr[-3000:]}"
        assert run.stdout == "done\n"
