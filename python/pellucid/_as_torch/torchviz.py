"""`import torchviz` in a process that multiprocessing started for a program under `python -m pellucid`."""
import sys

from pellucid import torchviz

sys.modules["torchviz"] = torchviz
