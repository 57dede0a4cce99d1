"""One side of bench/run compiled: the cases as one library computes them, in one way.

Usage: compiled_cases.py eager|lazy|torch|torch-compile|jax      (one line of JSON a request, as python_cases.py)

eager and lazy are pellucid's; torch-compile is torch.compile(mode="max-autotune-no-cudagraphs", dynamic=False), jax is jit.
"""
import importlib, json, sys, time

SIDE = sys.argv[1]
if SIDE == "jax":
    import jax, numpy
    from jax import numpy as jnp
else:
    torch = importlib.import_module("pellucid" if SIDE in ("eager", "lazy") else "torch")
    F = torch.nn.functional


def values(*sizes):
    """The same numbers on every side: the fractions of the multiples of the golden ratio, around 0."""
    count = 1
    for n in sizes:
        count *= n
    if SIDE == "jax":
        i = numpy.arange(count, dtype=numpy.float64)
        return jnp.asarray((((i * 0.6180339887498949) % 1) * 4 - 2).astype(numpy.float32).reshape(sizes))
    i = torch.arange(count, dtype=torch.float64)
    return (((i * 0.6180339887498949) % 1) * 4 - 2).to(torch.float32).reshape(sizes)


def norm_of_gelu():
    x = values(4096, 1024)
    if SIDE == "jax":
        def f(x):
            y = jax.nn.gelu(x * 100 + 10, approximate=False) + x
            mean = y.mean(-1, keepdims=True)
            return (y - mean) * jax.lax.rsqrt(((y - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    else:
        def f(x):
            return F.layer_norm(F.gelu(x * 100 + 10) + x, (1024,))
    return f, (x,)


def masked_softmax():
    q = values(8, 12, 512, 512)
    if SIDE == "jax":
        mask = jnp.where(jnp.tril(jnp.ones((512, 512), bool)), 0.0, -jnp.inf).astype(jnp.float32)
        def f(q, mask):
            return jax.nn.softmax(q * 0.125 + mask, axis=-1)
    else:
        mask = torch.zeros(512, 512).masked_fill(torch.ones(512, 512).tril() == 0, float("-inf"))
        def f(q, mask):
            return torch.softmax(q * 0.125 + mask, -1)
    return f, (q, mask)


def two_products():
    x, y, z = (values(1024, 1024) for _ in range(3))
    def f(x, y, z):
        return (x @ y + 100) + (x @ z + 1000)
    return f, (x, y, z)


def long_chain():
    x = values(1 << 22)
    library = jnp if SIDE == "jax" else torch
    def f(x):
        y = x * 0.5 + 1
        for _ in range(6):
            y = library.tanh(y) * x + y
        return y
    return f, (x,)


CASES = {"layer_norm(gelu(x*100+10)+x), 4096x1024": norm_of_gelu, "softmax(q*s + mask), [8, 12, 512, 512]": masked_softmax,
         "(x@y+100)+(x@z+1000), 1024": two_products, "six times tanh(y)*x + y, 4M": long_chain}


def prepared(f, arguments):
    """The function to time, which returns a finished result."""
    if SIDE == "jax":
        compiled = jax.jit(f)
        return lambda: compiled(*arguments).block_until_ready()
    if SIDE == "torch-compile":
        compiled = torch.compile(f, mode="max-autotune-no-cudagraphs", dynamic=False)
        return lambda: compiled(*arguments)
    if SIDE == "lazy":
        def run():
            with torch.lazy():
                return f(*arguments)
        return run
    return lambda: f(*arguments)


def check(result):
    """Two sums that tell the result."""
    if SIDE == "jax":
        return [float(result.astype(jnp.float32).mean()), float(jnp.abs(result).mean())]
    return [result.mean().item(), result.abs().mean().item()]


def main():
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        if "facts" in request:
            version = jax.__version__ if SIDE == "jax" else torch.__version__
            answer = {"version": version, "names": list(CASES)}
        elif "open" in request:
            function, arguments = CASES[request["open"]]()
            run = prepared(function, arguments)
            begun = time.perf_counter()
            result = run()
            answer = {"first_seconds": time.perf_counter() - begun, "check": check(result)}
        else:
            begun = time.perf_counter_ns()
            for _ in range(request["run"]):
                run()
            answer = {"ns": time.perf_counter_ns() - begun}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if SIDE not in ("eager", "lazy", "jax"):
        torch.set_grad_enabled(False)
    main()
