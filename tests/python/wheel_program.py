"""What tests/python/wheel_test runs with the wheel alone: training, a profile, pictures, the command."""
import os
import re
import subprocess
import sys

import pellucid as torch


def train():
    """A few steps with ops of oneDNN and the library's own loops."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x, y = torch.randn(32, 1, 8, 8), torch.arange(32) % 3
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses
    square = torch.randn(4, 4)
    assert torch.allclose(square @ torch.linalg.inv(square), torch.eye(4), atol=1e-3)
    return net, x


def profile(net, x):
    with torch.profiler.profile() as recorded:
        net(x).sum().backward()
    table = recorded.key_averages().table()
    assert "conv2d" in table and "linear" in table, table
    recorded.save("run.pellucid")


def picture(net, x):
    dot = torch.torchviz.make_dot(net(x).sum(), params=dict(net.named_parameters()))
    assert "digraph" in dot.source
    try:
        dot.pipe(format="svg")
    except NotImplementedError as error:
        assert "Graphviz" in str(error) and "apt install libgvc6" in str(error) and ".dot" in str(error), error
    else:
        raise AssertionError("Graphviz is hidden, and yet there is a picture")


def libraries():
    """Every library of the process is the wheel's, Python's or one that all systems have."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = sorted({line.split(maxsplit=5)[5].strip() for line in file if ".so" in line})
    ours = [path for path in mapped if "/site-packages/" in path]
    for name in ("libpellucid", "libdnnl", "libgomp", "libfmt", "libsqlite3", "libdw"):
        assert any(os.path.basename(path).startswith(name) for path in ours), (name, mapped)
    strangers = [path for path in mapped if path not in ours and not path.startswith(sys.base_prefix)
                 and not re.match(r"/(usr/)?lib(64)?/|.*/libraries/", path)]
    assert not strangers, strangers


def command():
    program = os.path.join(os.path.dirname(sys.executable), "pellucid")
    step = subprocess.run([program, "step", "d = a + b*c", "a=2", "b=3", "c=4"], capture_output=True, text=True)
    assert step.returncode == 0 and "14" in step.stdout, (step.stdout, step.stderr)
    report = subprocess.run([program, "report", "run.pellucid"], capture_output=True, text=True)
    assert report.returncode == 0 and "convolution" in report.stdout, (report.stdout, report.stderr)
    graph = subprocess.run([program, "graph", "y = x*x", "x=2", "-o", "graph.svg"], capture_output=True, text=True)
    assert graph.returncode == 1 and "Graphviz" in graph.stderr, (graph.stdout, graph.stderr)


if __name__ == "__main__":
    trained, batch = train()
    for part in (profile, picture):
        part(trained, batch)
    libraries()
    command()
