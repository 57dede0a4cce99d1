"""python -m pellucid script.py ARGS…: runs a program written for PyTorch; `import torch` gives pellucid."""
import os
import runpy
import sys

USAGE = """Usage: python -m pellucid SCRIPT.py [ARGS…]
       python -m pellucid -m MODULE [ARGS…]
       python -m pellucid -c CODE [ARGS…]

Runs a program written for PyTorch: torch, its submodules and torchviz resolve to pellucid.
What is not there raises ImportError or AttributeError with its name.
"""


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stderr if not arguments else sys.stdout)
        return 0 if arguments else 2
    from ._run import pretend_to_be_torch
    pretend_to_be_torch()
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        print(f"python -m pellucid: {arguments[0]} needs a value", file=sys.stderr)
        return 2
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = ""
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        if not os.path.exists(arguments[0]):
            print(f"python -m pellucid: no file '{arguments[0]}'", file=sys.stderr)
            return 2
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
