"""The Python side of `pellucid anatomy --python`: one op's time with the interpreter, without it, and in the dispatcher alone.

    python -m pellucid.profiler._anatomy '{"expression": "x + y", "op": "add", "variables": ["x", "y"], "gradients": true,
                                           "sizes": [1, 1000], "seconds": 0.05}'

prints a list with an object for each size, in nanoseconds a call: `whole` is the expression in a loop of Python less the
empty loop, `call` the same call through Python's C interface, `dispatch` the library's call with its arguments bound already.
"""
import ast
import json
import sys
import timeit

from .. import _C

_BLOCKS = 9


def _number(seconds, loop):
    """How many runs fill a block; loop(number) returns the seconds of that many runs."""
    number = 1
    while (spent := loop(number)) < seconds / _BLOCKS:
        number = max(2 * number, int(number * seconds / _BLOCKS / max(spent, 1e-7)) + 1)
    return number


def _nanoseconds(seconds, loops):
    """Of one run of each: the fastest of its blocks, and how far the middle one is from it.

    The loops take turns, so that a drift of the machine hits all alike.
    """
    numbers = {name: _number(seconds, loop) for name, loop in loops.items()}
    blocks = [{name: loop(numbers[name]) / numbers[name] for name, loop in loops.items()} for _ in range(_BLOCKS)]
    found = {}
    for name in loops:
        ordered = sorted(block[name] * 1e9 for block in blocks)
        found[name], found[name + "_noise"] = ordered[0], ordered[_BLOCKS // 2] - ordered[0]
    # The fastest blocks are subtracted, and not block from block: an empty loop that was held up would make the expression seem fast.
    found["whole"] -= found.pop("empty")
    found["whole_noise"] += found.pop("empty_noise")
    return found


def _parts(expression):
    """How the expression calls its op, as (form, name), and its operands."""
    node = ast.parse(expression, mode="eval").body
    if isinstance(node, ast.BinOp):
        return ("operator", type(node.op).__name__), [node.left, node.right]
    if isinstance(node, ast.Compare):
        return ("operator", type(node.ops[0]).__name__), [node.left, node.comparators[0]]
    if isinstance(node, ast.UnaryOp):
        return ("operator", type(node.op).__name__), [node.operand]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) != "torch":
        return ("method", node.func.attr), [node.func.value, *node.args]
    if isinstance(node, ast.Call):
        return ("function", ast.unparse(node.func)), node.args
    raise ValueError(f"'{expression}' is no call of an op.")


def _loops(expression, op, names):
    """The three loops; each takes how often."""
    (form, name), operands = _parts(expression)
    values = tuple(eval(compile(ast.Expression(o), "", "eval"), names) for o in operands)
    if form == "operator":
        def call(number): return _C._time_operator(name, values, number)
    elif form == "method":
        def call(number): return _C._time_method(sys.intern(name), values, number)
    else:
        function = eval(name, names)
        def call(number): return _C._time_function(function, values, number)
    timer, empty = timeit.Timer(expression, globals=names), timeit.Timer("pass")
    return {"whole": timer.timeit,
            "empty": empty.timeit,
            "call": call,
            "dispatch": lambda number: _C._time_dispatch(op, values, number)}


def _measure(asked, elements):
    import pellucid
    names = {**vars(pellucid), "torch": pellucid}
    for i, name in enumerate(asked["variables"]):
        names[name] = pellucid.rand(elements, requires_grad=asked["gradients"] and i == 0)
    return {"elements": elements, **_nanoseconds(asked["seconds"], _loops(asked["expression"], asked["op"], names))}


if __name__ == "__main__":
    question = json.loads(sys.argv[1])
    print(json.dumps([_measure(question, n) for n in question["sizes"]]))
