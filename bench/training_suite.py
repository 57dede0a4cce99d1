"""bench/run training: whole training steps, decoding with a cache, loading batches.

The bound of a case is its least work at this machine's rates of the same minutes: the FLOPs of matrix products and
convolutions at the rate of a 2048^3 product by bare oneDNN, and the bytes of parameters, gradients and optimiser state that
one step must move at the rate of a plain loop: copying where caches hold them, reading 512 MiB where not.
"""
from report import ratio_text, table, time_text

MB = 1e6
SIDES = {"pytorch": "PyTorch", "installed": "as installed", "compiled": "torch.compile", "ours": "ours"}  # columns
# The contractions' FLOPs of one run (forward; twice that backward, less the first layer's gradient of the images), and
# bytes that must move: parameters read, gradients written and read, parameters and state updated.
GPT2 = 124_439_808  # parameters
RESNET18 = 11_689_512
TRAINING = {
    "train/two_layer": {"flops": 64 * 2 * (2 * 100_000 + 3 * 1_000), "bytes": 101_110 * 4 * 3, "aim": 2.5, "aim_sealed": 3.5},
    "train/mnist_cnn": {"flops": 64 * 2 * (2 * 26 ** 2 * 288 + 3 * (24 ** 2 * 64 * 288 + 9216 * 128 + 1280)),
                        "bytes": 1_199_882 * 4 * 3, "aim": 2.0, "aim_sealed": 2.5},
    "train/resnet18": {"flops": 8 * 2 * (3 * 1_814_073_344 - 112 ** 2 * 64 * 147), "bytes": RESNET18 * 4 * 3,
                       "aim": 1.2, "aim_sealed": 1.55},
    # 12 blocks of 12 * 768^2 weights and the logits, each token; attention's products; AdamW moves 7 arrays.
    "train/gpt2_124m": {"flops": 3 * 2 * (256 * (12 * 12 * 768 ** 2 + 50257 * 768) + 4 * 12 * 64 * 64 * 768),
                        "bytes": GPT2 * 4 * 8, "aim": 1.25, "aim_sealed": 1.33},
}


def inverse(r):
    """PyTorch's time over ours."""
    return f"{1 / r['median']:.2f} [{1 / r['high']:.2f}, {1 / r['low']:.2f}]" if r else "-"


def rates(runner):
    """A nanosecond's FLOPs of a large product by bare oneDNN, bytes of a plain copy loop, and bytes read from main memory."""
    least = lambda name: min(runner.measure(name, rounds=5)["ours"]["blocks"])
    product, copy, read = least("onednn_sgemm/2048x2048x2048"), least("plain/copy"), least("plain/read_512MiB")
    return 2 * 2048 ** 3 / product, 2 * 4 * 4096 * 1024 / copy, 512 * 2 ** 20 / read


def steps(runner, chosen, results, flop_rate, byte_rate, read_rate):
    rows, memory, replayed = [], [], []
    ways = {label: label.removesuffix("_ours") for label in runner.ways}
    for name in chosen(list(TRAINING)):
        work = TRAINING[name]
        r = runner.measure(name, peaks=True)
        r["bound_ns"] = work["flops"] / flop_rate + work["bytes"] / (byte_rate if work["bytes"] < 256 * MB else read_rate)
        results.append(r)
        rows.append([name[len("train/"):], *(time_text(r.get(side)) for side in SIDES),
                     inverse(r.get("over_pytorch")), f">= {work['aim']}", time_text({"ns": r["bound_ns"], "iqr_ns": 0}).split(" ±")[0],
                     f"{r['bound_ns'] / r['ours']['ns']:.0%}", r["note"]])
        peak = r["peak_bytes"]
        memory.append([name[len("train/"):], *(f"{peak[s] / MB:.2f} MB" if s in peak else "-" for s in ("ours", "pytorch", *ways))])
        if ways:
            replayed.append([name[len("train/"):], time_text(r["ours"]), *(time_text(r[w]) for w in ways),
                             *(ratio_text(r[f"over_{w}"]) for w in ways), inverse(r.get("sealed_over_pytorch")),
                             f">= {work['aim_sealed']}", f"{r['bound_ns'] / r['sealed_ours']['ns']:.0%}"])
    table("An eager training step (zero_grad, forward, backward, step)",
          ["model", *SIDES.values(), "PyTorch/ours", "aim", "bound", "bound/ours", "note"], rows)
    table("The most bytes of tensors at any moment of a step (aim: at most PyTorch's)",
          ["model", "ours", "PyTorch", *ways.values()], memory)
    if ways:
        table("The same step eager, compiled and sealed, and PyTorch's time over the sealed one",
              ["model", "eager", *ways.values(), *(f"eager/{w}" for w in ways.values()), "PyTorch/sealed", "aim", "bound/sealed"], replayed)


def measured(runner, chosen, results, name, rounds):
    for found in chosen([name]):
        results.append(runner.measure(found, rounds=rounds))
        return results[-1]
    return None


def decoding(runner, chosen, results, flop_rate, read_rate):
    rows = []
    weights = GPT2 * 4 - 1024 * 768 * 4  # all but the positions are read for each token
    for name in ("decode/gpt2_124m", "decode/gpt2_124m_at_256", "recompute/gpt2_124m_256"):
        r = measured(runner, chosen, results, name, max(4, runner.rounds - 1))
        if not r:
            continue
        bound = weights / read_rate
        if name.startswith("recompute/"):
            bound = 256 * 2 * 12 * 12 * 768 ** 2 / flop_rate
        r["bound_ns"] = bound
        rows.append([name, *(time_text(r.get(side)) for side in SIDES),
                     inverse(r.get("over_pytorch")), ">= 1.3" if name == "decode/gpt2_124m" else "",
                     f"{bound / MB:.3g} ms", r["note"]])
    table("GPT-2 124M in float32: a token with the cache (a text of 256 tokens; then around token 256), and by running all 256 again",
          ["case", *SIDES.values(), "PyTorch/ours", "aim", "bound", "note"], rows)


def caching(runner, chosen, results, flop_rate):
    rows = []
    pairs = (("CachedAttention(512, 8)", "cached_attention/512x8_at_256", "cached_attention/512x8_recompute_256",
              256 * 2 * 4 * 512 ** 2 + 2 * 256 ** 2 * 512, ">= 12"),
             ("GPT-2 124M", "decode/gpt2_124m_at_256", "recompute/gpt2_124m_256", 256 * 2 * 12 * 12 * 768 ** 2, ""))
    for what, cached, again, flops, aim in pairs:
        found = {r["name"]: r for r in results}
        with_cache = found.get(cached) or measured(runner, chosen, results, cached, 5)
        without = found.get(again) or measured(runner, chosen, results, again, 5)
        if with_cache and without:
            rate = flops / without["ours"]["ns"]
            rows.append([what, time_text(with_cache["ours"]), time_text(without["ours"]), f"{rate:.0f} GFLOP/s, {rate / flop_rate:.0%}",
                         f"{without['ours']['ns'] / with_cache['ours']['ns']:.1f}x", aim])
    table("A token at position 256: with the cache, and by recomputation (its rate beside bare oneDNN's 2048^3)",
          ["what", "cached", "recomputed", "rate of recomputation", "gain", "aim"], rows)


def loading(runner, chosen, results):
    loader = measured(runner, chosen, results, "loader/mnist_batch", 5)
    step = next((r for r in results if r["name"] == "train/mnist_cnn"), None)
    if loader:
        share = f"{loader['ours']['ns'] / step['ours']['ns']:.2%}" if step else "-"
        table("Loading a batch of 64 from MNIST in memory, shuffled and normalised (aim: under 2 % of the CNN's step)",
              ["a batch", "of the step"], [[time_text(loader["ours"]), share]])


def run(runner, chosen, results):
    flop_rate, byte_rate, read_rate = rates(runner)
    print(f"bare oneDNN's 2048^3: {flop_rate:.0f} GFLOP/s; plain loops: copying 16 MiB {byte_rate:.0f} GB/s, "
          f"reading 512 MiB {read_rate:.0f} GB/s")
    runner.block_ns = 60e6
    steps(runner, chosen, results, flop_rate, byte_rate, read_rate)
    decoding(runner, chosen, results, flop_rate, read_rate)
    caching(runner, chosen, results, flop_rate)
    loading(runner, chosen, results)
