"""`import torch` in a process that multiprocessing started for a program under `python -m pellucid`."""
import sys

from pellucid._run import pretend_to_be_torch

pretend_to_be_torch()
del sys.modules["torch"]
import torch  # noqa: E402,F401 (now pellucid: the import system takes what sys.modules holds)
