"""Nodes of the concrete syntax tree: those below one, without what only encloses, and which holds which."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


def walk(node: Node | None, skip: frozenset[str] = frozenset()) -> Iterator[Node]:
    """`node` and all named nodes below it in document order, not entering types in `skip`."""
    if node is None:
        return iter(())
    return iter(_below(node)) if not skip else _outside(_below(node), skip)


def _outside(nodes: tuple[Node, ...], skip: frozenset[str]) -> Iterator[Node]:
    end = 0
    for node in nodes:
        if node.start_byte < end:
            continue
        if node.type in skip:
            end = node.end_byte
        else:
            yield node


@lru_cache(maxsize=4096)
def _below(node: Node) -> tuple[Node, ...]:
    """Making a node's Python object costs more than all that is asked of it, so that each is made once."""
    found: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        found.append(current)
        stack.extend(reversed(current.named_children))
    return tuple(found)


def strip(node: Node) -> Node:
    """Without enclosing parentheses."""
    while node.type in ("parenthesized_expression", "condition_clause") and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def statements(body: Node) -> list[Node]:
    """The statements of a loop's or function's body; comments and a `;` by itself are none."""
    inner = body.named_children if body.type == "compound_statement" else [body]
    return [n for n in inner if n.type != "comment" and (n.type != "expression_statement" or n.named_child_count)]


def contains(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def single(body: Node) -> Node | None:
    """The only statement of a body."""
    inner = statements(body)
    return strip(inner[0]) if len(inner) == 1 else None
