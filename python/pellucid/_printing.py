"""set_printoptions and its kin, and tensors as HTML for notebooks."""
import html

from . import _C

_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, 2**63 - 1, 3, 80)}
_NAMES = ("precision", "threshold", "edgeitems", "linewidth")


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed: digits, from how many elements on only edges, how many of them, characters a line;
    profile 'default', 'short' or 'full'; sci_mode True or False, or None to choose by the numbers."""
    values = list(_C._print_options()[:4])
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile must be one of {', '.join(_PROFILES)}, not {profile!r}")
        values = list(_PROFILES[profile])
    for i, value in enumerate((precision, threshold, edgeitems, linewidth)):
        if value is not None:
            values[i] = int(min(value, 2**63 - 1))  # inf is everything
    _C._set_print_options(*values, sci_mode)


def get_printoptions():
    """The options, as set_printoptions takes them."""
    *numbers, sci_mode = _C._print_options()
    return {**dict(zip(_NAMES, numbers)), "sci_mode": sci_mode}


class printoptions:
    """set_printoptions for a scope."""

    def __init__(self, **options):
        self._options = options

    def __enter__(self):
        self._before = get_printoptions()
        set_printoptions(**self._options)

    def __exit__(self, *_):
        set_printoptions(**self._before)


_CELL = "padding:1px 6px;text-align:right;font-family:monospace"
_INDEX = "padding:1px 6px;text-align:right;color:#888;font-weight:normal"
_EDGE = 10  # rows and columns shown at each edge of a larger matrix


def _places(n):
    """The indices shown of n; None stands for those left out."""
    return range(n) if n <= 2 * _EDGE else [*range(_EDGE), None, *range(n - _EDGE, n)]


def _text(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shade(value, greatest):
    """A background between white and a pale blue or red, by a number's size and sign."""
    if not isinstance(value, float) or not greatest or value != value or abs(value) == float("inf"):
        return ""
    strength = 0.35 * min(abs(value) / greatest, 1.0)
    colour = "40,90,200" if value > 0 else "200,60,40"
    return f";background:rgba({colour},{strength:.2f})"


def _facts(tensor):
    words = [f"{tuple(tensor.shape)}", str(tensor.dtype), f"{tensor.nbytes:,} bytes"]
    if tensor.grad_fn is not None:
        words.append(f"grad_fn={tensor.grad_fn.name()}")
    elif tensor.requires_grad:
        words.append("requires_grad")
    return f"<code>{html.escape(' · '.join(words))}</code>"


def tensor_html(tensor):
    """The facts, and the values: a table of one or two dims, the text of more."""
    if tensor.ndim not in (1, 2) or tensor.numel() == 0:
        return f"<div>{_facts(tensor)}<pre>{html.escape(repr(tensor))}</pre></div>"
    matrix = tensor.detach()
    matrix = matrix if matrix.ndim == 2 else matrix.unsqueeze(0)
    rows, columns = (_places(n) for n in matrix.shape)
    shown = [[None if r is None or c is None else matrix[r, c].item() for c in columns] for r in rows]
    finite = [abs(v) for row in shown for v in row if isinstance(v, float) and v == v and abs(v) != float("inf")]
    greatest = max(finite, default=0.0)
    cell = lambda v: (f"<td style='{_CELL}'>…</td>" if v is None
                      else f"<td style='{_CELL}{_shade(v, greatest)}'>{html.escape(_text(v))}</td>")
    head = "".join(f"<th style='{_INDEX}'>{'…' if c is None else c}</th>" for c in columns)
    body = "".join(f"<tr><th style='{_INDEX}'>{'…' if r is None else r}</th>{''.join(map(cell, row))}</tr>"
                   for r, row in zip(rows, shown))
    return f"<div>{_facts(tensor)}<table><tr><th></th>{head}</tr>{body}</table></div>"
