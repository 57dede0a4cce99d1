# The compiled module: its functions come from the op definitions when it is imported.
# Type checkers of programs read __init__.pyi, which is made from them.
from typing import Any

def __getattr__(name: str) -> Any: ...

class Tensor:
    def __getattr__(self, name: str) -> Any: ...
