"""The type stubs that come with the package: made from the op definitions, valid Python, complete."""
import ast
import os

import pytest

import pellucid


def test_stubs_name_every_function_and_method():
    folder = os.path.dirname(pellucid.__file__)
    path = os.path.join(folder, "__init__.pyi")
    if not os.path.exists(path):
        pytest.skip("the package is not installed from a wheel")
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    functions |= {a.asname for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    methods = {n.name for c in tree.body if isinstance(c, ast.ClassDef) and c.name == "Tensor"
               for n in c.body if isinstance(n, ast.FunctionDef)}
    keywords = {"random_", "uniform_", "random", "uniform"}  # their argument `from` is a word of Python's own
    public = {n for n in pellucid._C.functions if not n.startswith("_") and not n.endswith("_backward")} - keywords
    assert public - functions == set()
    assert {"add", "add_", "view", "sum", "matmul"} <= methods
    assert os.path.exists(os.path.join(folder, "py.typed"))
