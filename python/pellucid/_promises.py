"""Warnings of functions that PyTorch has and that do nothing here yet: each says so once in a process."""
import os
import sys
import warnings

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_said: set[str] = set()


def _level():
    """How far up the stack the program's own line is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1
    return level


def not_kept(name, what):
    """Warns once that `name` does not do what it is called for."""
    if name not in _said:
        _said.add(name)
        warnings.warn(f"{name}: {what}", UserWarning, stacklevel=_level())


def compile_warning(name):
    """The warning of everything that would compile a program."""
    not_kept(name, "nothing is compiled yet; the function or module is returned as it is and runs op by op, with the same results "
                   "at the same speed as without it.")
