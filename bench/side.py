"""The processes that bench/run measures: each runs cases when told to, one line a request."""
import os, subprocess, time

# Seconds before the other side's turn. OpenMP's threads spin for 4-7 ms after their last work; without a pause the next
# would share a core with them, at up to 1.4x the time, while the plain loops, in the same process as ours, would not.
SETTLE = 0.012


class Failed(Exception):
    """A side could not open or run a case."""


class Side:
    """A process that runs cases when told to."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env={**os.environ, **(environment or {})})

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: a process ended while it was asked: {request}")
        return answer.rstrip("\n")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def settle():
    time.sleep(SETTLE)
