"""Nested tuples, lists and dicts as flat lists of what they hold, and back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

__all__ = [
    "TreeSpec",
    "register_pytree_node",
    "tree_flatten",
    "tree_unflatten",
    "tree_leaves",
    "tree_map",
    "broadcast_prefix",
]


class _Kind(NamedTuple):
    flatten: Callable  # container -> (list of children, context)
    unflatten: Callable  # children, context -> container


def _flatten_dict(d):
    return list(d.values()), list(d)


_KINDS: Dict[type, _Kind] = {
    tuple: _Kind(lambda t: (list(t), None), lambda children, _: tuple(children)),
    list: _Kind(lambda t: (t, None), lambda children, _: list(children)),
    dict: _Kind(_flatten_dict, lambda children, keys: dict(zip(keys, children))),
    OrderedDict: _Kind(_flatten_dict, lambda children, keys: OrderedDict(zip(keys, children))),
    defaultdict: _Kind(
        lambda d: (list(d.values()), (d.default_factory, list(d))),
        lambda children, context: defaultdict(context[0], zip(context[1], children)),
    ),
}
_NAMED = _Kind(lambda t: (list(t), type(t)), lambda children, kind: kind(*children))
# Results with names of our own (facula.return_types) are made from one sequence.
_RESULT = _Kind(lambda t: (list(t), type(t)), lambda children, kind: kind(children))


def register_pytree_node(cls, flatten, unflatten):
    """Lets trees go on inside of objects of type `cls`. `flatten` gives a list of children and whatever `unflatten`
    needs.
    """
    _KINDS[cls] = _Kind(flatten, unflatten)


def _kind_of_type(cls):
    found = _KINDS.get(cls)
    if found is None and issubclass(cls, tuple):
        if hasattr(cls, "_fields"):
            return _NAMED
        if cls.__module__ == "facula.return_types":
            return _RESULT
    return found


def _kind_of(tree):
    return _kind_of_type(type(tree))


class TreeSpec(NamedTuple):
    """The shape of a tree: its container and the shapes of its children; no container for a leaf."""

    type: Any
    context: Any
    children: Tuple["TreeSpec", ...]

    @property
    def num_leaves(self):
        return 1 if self.type is None else sum(c.num_leaves for c in self.children)


_LEAF = TreeSpec(None, None, ())


def tree_flatten(tree) -> Tuple[List[Any], TreeSpec]:
    """The leaves of a tree from left to right, and its shape."""
    kind = _kind_of(tree)
    if kind is None:
        return [tree], _LEAF
    children, context = kind.flatten(tree)
    leaves, specs = [], []
    for child in children:
        inside, spec = tree_flatten(child)
        leaves += inside
        specs.append(spec)
    return leaves, TreeSpec(type(tree), context, tuple(specs))


def tree_unflatten(leaves, spec):
    """A tree of this shape with these leaves."""
    leaves = list(leaves)
    if len(leaves) != spec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(leaves)} leaves for a tree of {spec.num_leaves}")
    return _build(iter(leaves), spec)


def _build(leaves, spec):
    if spec.type is None:
        return next(leaves)
    kind = _kind_of_type(spec.type)
    return kind.unflatten([_build(leaves, child) for child in spec.children], spec.context)


def tree_leaves(tree):
    """The leaves of a tree from left to right."""
    return tree_flatten(tree)[0]


def tree_map(func, tree, *rest):
    """A tree of the same shape with `func` of every leaf, and of the leaves of `rest` at its place."""
    leaves, spec = tree_flatten(tree)
    others = [tree_flatten(each)[0] for each in rest]
    return tree_unflatten([func(*each) for each in zip(leaves, *others)], spec)


def broadcast_prefix(prefix, spec, is_leaf=lambda x: x is None):
    """The leaves of `prefix`, each as often as `spec` has leaves below its place; None when the two do not fit."""
    kind = None if is_leaf(prefix) else _kind_of(prefix)
    if kind is None:
        return [prefix] * spec.num_leaves
    if spec.type is not type(prefix):
        return None
    children, context = kind.flatten(prefix)
    if len(children) != len(spec.children) or (isinstance(prefix, dict) and context != spec.context):
        return None
    found = []
    for child, below in zip(children, spec.children):
        inside = broadcast_prefix(child, below, is_leaf)
        if inside is None:
            return None
        found += inside
    return found
