"""One side of bench/run python: the same programs, with pellucid or with PyTorch.

usage: python_cases.py pellucid|torch     # requests on stdin, one JSON object a line: {"open": NAME}, {"run": COUNT}, {"facts": 1}

A case gives a statement, the names it uses, what one run counts for, and a number by which both sides are seen to agree.
"""
import importlib, json, sys, timeit

torch = importlib.import_module(sys.argv[1])
nn, F = (importlib.import_module(f"{sys.argv[1]}.nn{part}") for part in ("", ".functional"))
data = importlib.import_module(f"{sys.argv[1]}.utils.data")
optim = importlib.import_module(f"{sys.argv[1]}.optim")


def filled(*shape):
    """The same numbers on both sides."""
    count = 1
    for n in shape:
        count *= n
    return torch.sin(torch.arange(count, dtype=torch.float32) * 0.7).reshape(shape)


def prepared(model):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(filled(*p.shape) * 0.05)
    return model


def training(model, loss_of, lr):
    """A step function of a model, and the loss after three steps."""
    optimizer = optim.SGD(model.parameters(), lr=lr)

    def step():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss
    for _ in range(3):
        loss = step()
    return step, loss.item()


def one_element(requires_grad):
    x, y = torch.ones(1, requires_grad=requires_grad), torch.ones(1)
    return {"x": x, "y": y}, (x + y).item()


def chain():
    w = torch.tensor([1.001], requires_grad=True)

    def run():
        y = w
        for _ in range(1000):
            y = y * w
        w.grad = None
        y.backward()
        return w.grad
    return {"run": run}, run().item()


def two_layer():
    x, y = filled(64, 1000), filled(64, 10)
    model = prepared(nn.Sequential(nn.Linear(1000, 100), nn.ReLU(), nn.Linear(100, 10)))
    step, loss = training(model, lambda m: F.mse_loss(m(x), y, reduction="sum"), 1e-4)
    return {"step": step}, loss


def small_cnn():
    x, y = filled(16, 1, 28, 28), torch.arange(16) % 10
    model = prepared(nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
                                   nn.Flatten(), nn.Linear(400, 10)))
    step, loss = training(model, lambda m: F.cross_entropy(m(x), y), 0.01)
    return {"step": step}, loss


def batches():
    loader = data.DataLoader(data.TensorDataset(filled(1024, 20), torch.arange(1024)), batch_size=64)

    def epoch():
        return sum(1 for x, y in loader)
    return {"epoch": epoch}, epoch()


def small_matrix():
    x = filled(10, 10)
    return {"x": x, "F": F, "torch": torch}, x.sum().item()


# name: (statement, set-up, steps in a run)
CASES = {
    "x + y, one element": ("x + y", lambda: one_element(False), 1),
    "x + y, recorded": ("x + y", lambda: one_element(True), 1),
    "y = y * w 1,000 times and backward": ("run()", chain, 1000),
    "x[0]": ("x[0]", small_matrix, 1),
    "x[1:3, 2]": ("x[1:3, 2]", small_matrix, 1),
    "x.sum(dim=1)": ("x.sum(dim=1)", small_matrix, 1),
    "F.relu(x)": ("F.relu(x)", small_matrix, 1),
    "torch.zeros(2, 3)": ("torch.zeros(2, 3)", small_matrix, 1),
    "x.shape": ("x.shape", small_matrix, 1),
    "step of the two-layer net 1000-100-10, batch 64": ("step()", two_layer, 1),
    "step of a small CNN, batch 16": ("step()", small_cnn, 1),
    "batch of 64 from a DataLoader": ("epoch()", batches, 16),
}


def main():
    timer = None
    for line in sys.stdin:
        request = json.loads(line)
        if "facts" in request:
            answer = {"version": torch.__version__, "threads": torch.get_num_threads(), "names": list(CASES)}
        elif "open" in request:
            statement, setup, steps = CASES[request["open"]]
            names, check = setup()
            timer = timeit.Timer(statement, globals=names)
            answer = {"steps": steps, "check": check}
        else:
            answer = {"ns": timer.timeit(request["run"]) * 1e9}  # with the collector of cycles off, as timeit does
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
