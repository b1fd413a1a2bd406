"""Where the blocks, settings and entries of lists of a text are: positions of python-hcl2's own tree. Decides nothing.

https://github.com/hashicorp/hcl/blob/main/hclsyntax/spec.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedInput

from common.errors import PermanentError
from desk.configuring.hcl.original import BY_HAND, without_expressions


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of a list or of a map. `key`: as the map has it, without quotes. `begin`: where its value does. `comma`: behind the one after it."""

    start: int
    end: int
    begin: int
    key: str | None = None
    comma: int | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """`name = value`. `value`: where that begins. `items`: None if it is neither a list nor a map. `inner`: between its brackets."""

    name: str
    start: int
    end: int
    value: int
    items: tuple[Item, ...] | None = None
    inner: tuple[int, int] = (0, 0)
    is_map: bool = False

    @property
    def label(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Block:
    """`name "label" { ... }`. `inner`: between its braces."""

    name: str
    label: str | None
    start: int
    end: int
    inner: tuple[int, int]
    entries: tuple[Attribute | Block, ...]


Entry = Attribute | Block


@dataclass(frozen=True, slots=True)
class Structure:
    """`plain`: the text with letters in the place of expressions. `root`: the whole as a block. `comments`: where they are, in their order.
    `unit`: one step of indentation, where that is known from elsewhere."""

    plain: str
    root: Block
    comments: tuple[tuple[int, int], ...]
    unit: str | None = None

    def at(self, path: tuple[int, ...]) -> Entry:
        found: Entry = self.root
        for number in path:
            assert isinstance(found, Block)
            found = found.entries[number]
        return found

    def block(self, path: tuple[int, ...]) -> Block:
        found = self.at(path)
        assert isinstance(found, Block)
        return found


@lru_cache(maxsize=8)
def structure(text: str) -> Structure:
    """Raises PermanentError for a text that is not HCL."""
    from hcl2.api import parses_to_tree

    plain = without_expressions(text)
    try:
        tree = parses_to_tree(plain)
    except UnexpectedInput as error:
        line = text.count("\n", 0, error.pos_in_stream) + 1 if error.pos_in_stream is not None else 1
        raise PermanentError(
            f"reading the configuration for an edit: line {line} is not valid HCL", hint=BY_HAND
        ) from None
    body = next(each for each in tree.children if isinstance(each, Tree))
    root = Block("", None, 0, len(text), (0, len(text)), tuple(_entries(body)))
    return Structure(plain, root, tuple(_comments(tree, len(text))))


def _entries(body: Tree[Token]) -> Iterator[Entry]:
    for child in body.children:
        if isinstance(child, Tree) and child.data == "attribute":
            yield _attribute(child)
        elif isinstance(child, Tree) and child.data == "block":
            yield _block(child)


def _span(node: Any) -> tuple[int, int]:
    if isinstance(node, Token):
        assert node.start_pos is not None
        assert node.end_pos is not None
        return node.start_pos, node.end_pos
    return node.meta.start_pos, node.meta.end_pos


def _text(node: Any) -> str:
    """Of an identifier or a quoted text, as it is written."""
    return "".join(str(each) for each in node.scan_values(lambda token: token.type != "DBLQUOTE"))


def _block(node: Tree[Token]) -> Block:
    start, end = _span(node)
    heads = list[Any]()
    opened = closed = 0
    inner: tuple[Entry, ...] = ()
    for child in node.children:
        if isinstance(child, Token) and child.type == "LBRACE":
            opened = _span(child)[1]
        elif isinstance(child, Token) and child.type == "RBRACE":
            closed = _span(child)[0]
        elif isinstance(child, Tree) and child.data == "body":
            inner = tuple(_entries(child))
        elif isinstance(child, Tree) and child.data != "new_line_or_comment":
            heads.append(child)
    label = _text(heads[1]) if len(heads) > 1 else None
    return Block(_text(heads[0]), label, start, end, (opened, closed), inner)


def _attribute(node: Tree[Token]) -> Attribute:
    start, end = _span(node)
    name, _, value = node.children
    found = Attribute(_text(name), start, end, _span(value)[0])
    held = value.children[0] if isinstance(value, Tree) and value.data == "expr_term" else None
    if not isinstance(held, Tree) or held.data not in ("tuple", "object"):
        return found
    first, *_, last = held.children
    within = _span(first)[1], _span(last)[0]
    return replace(found, items=tuple(_items(held)), inner=within, is_map=held.data == "object")


def _items(node: Tree[Token]) -> Iterator[Item]:
    held: Item | None = None
    for child in node.children[1:-1]:
        if isinstance(child, Token) and child.type == "COMMA":
            assert held is not None
            held = replace(held, comma=_span(child)[1])
        elif isinstance(child, Tree) and child.data != "new_line_or_comment":
            if held is not None:
                yield held
            start, end = _span(child)
            held = Item(start, end, start)
            if child.data == "object_elem":
                held = Item(start, end, _span(child.children[-1])[0], _text(child.children[0]))
    if held is not None:
        yield held


def _comments(tree: Tree[Token], length: int) -> Iterator[tuple[int, int]]:
    for token in tree.scan_values(lambda each: isinstance(each, Token) and each.type == "NL_OR_COMMENT"):
        start, end = _span(token)
        if str(token)[0] in "#/":
            yield start, min(end, length)
