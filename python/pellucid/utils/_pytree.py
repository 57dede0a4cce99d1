"""Nested data (dicts, lists, tuples, named tuples) as a flat list of leaves and back."""
from collections import OrderedDict, defaultdict, deque


class TreeSpec:
    """The shape of nested data: its container, what distinguishes it, and the shapes of its parts."""

    def __init__(self, kind, context, children):
        self.type, self.context, self.children_specs = kind, context, children
        self.num_leaves = 1 if kind is None else sum(c.num_leaves for c in children)

    def __eq__(self, other):
        return (isinstance(other, TreeSpec) and self.type is other.type and self.context == other.context
                and self.children_specs == other.children_specs)

    __hash__ = None  # type: ignore[assignment]  # contexts are lists

    def __repr__(self):
        return "*" if self.type is None else f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


def _children(tree):
    """(parts, context) of a container, None of a leaf."""
    kind = type(tree)
    if kind in (dict, OrderedDict):
        return list(tree.values()), list(tree)
    if kind is defaultdict:
        return list(tree.values()), (tree.default_factory, list(tree))
    if kind in (list, tuple, deque):
        return list(tree), None
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return list(tree), None
    return None


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec)."""
    parts = None if is_leaf is not None and is_leaf(tree) else _children(tree)
    if parts is None:
        return [tree], TreeSpec(None, None, [])
    leaves, specs = [], []
    for part in parts[0]:
        below, spec = tree_flatten(part, is_leaf)
        leaves += below
        specs.append(spec)
    return leaves, TreeSpec(type(tree), parts[1], specs)


def tree_unflatten(leaves, treespec):
    """Nested data of that shape with the given leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: the tree has {treespec.num_leaves} leaves but {len(leaves)} were given.")
    return _build(iter(leaves), treespec)


def _build(leaves, spec):
    if spec.type is None:
        return next(leaves)
    parts = [_build(leaves, child) for child in spec.children_specs]
    if spec.type is defaultdict:
        return defaultdict(spec.context[0], zip(spec.context[1], parts))
    if spec.type in (dict, OrderedDict):
        return spec.type(zip(spec.context, parts))
    return spec.type(*parts) if hasattr(spec.type, "_fields") else spec.type(parts)


def tree_leaves(tree, is_leaf=None):
    """The leaves alone."""
    return tree_flatten(tree, is_leaf)[0]


def tree_map(func, tree, *rests, is_leaf=None):
    """The same shape with func of every leaf, or of the leaves of several trees of one shape."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(r, is_leaf)[0] for r in rests]
    return tree_unflatten([func(*all_of) for all_of in zip(leaves, *others)], spec)


def tree_map_only(kind, func, tree=None, *, is_leaf=None):
    """func of the leaves of one type; the others stay."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether it holds for every leaf."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_any(pred, tree, is_leaf=None):
    """Whether it holds for a leaf."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf))
