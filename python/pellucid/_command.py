"""The `pellucid` command, installed with the package: the program that was built with the library."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "pellucid")
    if not os.path.exists(program):
        print(f"pellucid: {program} is missing; install the package again.", file=sys.stderr)
        return 1
    os.execv(program, ["pellucid", *sys.argv[1:]])
