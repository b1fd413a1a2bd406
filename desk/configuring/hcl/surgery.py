"""Which characters of a text change for an edit, in the manner of what stands around. Pure; whether it is what was meant, `draft.py` asks the parser.

Nothing that stays is moved, aligned or indented again. A comment is never removed, except inside of what is removed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from desk.configuring.hcl.literals import key_written
from desk.configuring.hcl.original import Splice
from desk.configuring.hcl.structure import Attribute, Block, Entry, Item, Structure

_BLANKS = " \t"


class Lines(NamedTuple):
    """A new setting (`name`, and one line) or a new block (several lines) without indentation. `{indent}` per level is written as a tab."""

    name: str
    value: str | None
    lines: tuple[str, ...] = ()


def replaced(start: int, end: int, text: str) -> list[Splice]:
    return [Splice(start, end, text)]


def added(of: Structure, parent: Block, number: int, new: Lines, *, apart: bool = False) -> list[Splice]:
    """`new` as the entry `number` of `parent`. `apart`: an empty line before it."""
    text = of.plain
    indent = _indent_inside(of, parent)
    shown = _shown(of, parent, number, new, indent)
    blank = "\n" if apart else ""
    if number == 0:
        return _first(text, parent, shown, indent, blank)
    before = parent.entries[number - 1]
    if text[before.end - 1] == "\n":  # a heredoc
        return [Splice(before.end, before.end, f"{blank}{shown}\n")]
    end = _line_end(text, before.end, parent.inner[1])
    if end is not None and text[end : end + 1] == "\n":
        return [Splice(end + 1, end + 1, f"{blank}{shown}\n")]
    if end is not None and end >= len(text):
        return [Splice(end, end, f"\n{blank}{shown}")]
    return _amid(text, parent, before, shown, number)


def removed(of: Structure, parent: Block, number: int) -> list[Splice]:
    """The entry `number` of `parent`, with its line if nothing else is on it, and one of two empty lines around it."""
    text, entry = of.plain, parent.entries[number]
    begin = text.rfind("\n", 0, entry.start) + 1
    alone_before = not text[begin : entry.start].strip(_BLANKS)
    if text[entry.end - 1] == "\n":
        return [Splice(begin if alone_before else entry.start, entry.end, "")]
    end = entry.end
    while text[end : end + 1] and text[end] in _BLANKS:
        end += 1
    if not alone_before or text[end : end + 1] not in ("\n", ""):
        same_line = text[end : end + 1] not in ("\n", "")
        return [Splice(entry.start, end if same_line else entry.end, "")]
    if text[end : end + 1] == "":
        return [Splice(max(0, begin - 1), end, "")]
    end += 1
    first = not text[: parent.inner[0]].strip() if number == 0 else False
    after_blank = re.compile(r"[ \t]*\n").match(text, end)
    before_blank = re.search(r"(?:^|\n)[ \t]*\n\Z", text[:begin])
    opens = text[:begin].rstrip().endswith("{")
    closes = text[end:].lstrip(" \t\n")[:1] == "}"
    if after_blank is not None and (before_blank is not None or first or (opens and number == 0)):
        end = after_blank.end()
    elif before_blank is not None and closes:
        begin = text.rfind("\n", 0, begin - 1) + 1
    return [Splice(begin, end, "")]


def item_added(of: Structure, attribute: Attribute, value: str, key: str | None = None) -> list[Splice]:
    """At the end of a list or map."""
    text, items, (start, end) = of.plain, attribute.items or (), attribute.inner
    new = value if key is None else f"{key_written(key)} = {value}"
    if not items:
        if "\n" not in text[start:end]:
            pad = " " if key is not None else ""
            return [Splice(start, end, f"{pad}{new}{pad}")] if not text[start:end].strip() else [_before(end, new)]
        line = text.rfind("\n", 0, end) + 1
        if text[line:end].strip(_BLANKS):
            return [_before(end, f"{new} ")]
        return [Splice(line, line, f"{text[line:end]}{unit(of)}{new}\n")]
    last = items[-1]
    comma = last.comma is not None
    separated = comma or key is None or any(each.comma is not None for each in items)
    out = [] if comma or not separated else [Splice(last.end, last.end, ",")]
    behind = last.comma or last.end
    line = text.rfind("\n", 0, last.start) + 1
    if line <= start or text[line : last.start].strip(_BLANKS):
        if not separated:
            out = [Splice(last.end, last.end, ",")]
        return [*out, Splice(behind, behind, f" {new}{',' if comma else ''}")]
    stop = _line_end(text, behind, end)
    tail = "," if comma else ""
    if stop is None or text[stop : stop + 1] != "\n":
        return [*out, Splice(behind, behind, f"\n{text[line : last.start]}{new}{tail}")]
    return [*out, Splice(stop, stop, f"\n{text[line : last.start]}{new}{tail}")]


def item_removed(of: Structure, attribute: Attribute, number: int) -> list[Splice]:
    text, items = of.plain, attribute.items or ()
    item, out = items[number], list[Splice]()
    start, end = item.start, item.comma or item.end
    if item.comma is not None and text[item.end : item.comma].strip() != ",":
        end = item.end  # a comment stands before the comma
        out.append(Splice(item.comma - 1, item.comma, ""))
    if number == len(items) - 1 and number > 0 and item.comma is None and items[number - 1].comma is not None:
        comma = items[number - 1].comma
        assert comma is not None
        out.append(Splice(comma - 1, comma, ""))
    begin, stop = _widened(text, start, end, items, number)
    return [*out, Splice(begin, stop, "")]


def _widened(text: str, start: int, end: int, items: Sequence[Item], number: int) -> tuple[int, int]:
    """What goes together with an item: its line, if it has one for itself, else the blanks towards its neighbour."""
    line = text.rfind("\n", 0, start) + 1
    stop = end
    while text[stop : stop + 1] and text[stop] in _BLANKS:
        stop += 1
    if not text[line:start].strip(_BLANKS) and text[stop : stop + 1] == "\n":
        return line, stop + 1
    if number < len(items) - 1 and text[stop : stop + 1] not in ("\n", "#", "/"):
        return start, stop
    begin = start
    while number > 0 and begin > 0 and text[begin - 1] in _BLANKS:
        begin -= 1
    return (begin, end) if begin and text[begin - 1] in ",[{" else (start, end)


def _before(at: int, new: str) -> Splice:
    return Splice(at, at, new)


def _line_end(text: str, position: int, limit: int) -> int | None:
    """The end of the line that `position` is on, behind comments; None if something else comes first."""
    while position < limit:
        if text[position] in _BLANKS:
            position += 1
        elif text[position] == "\n":
            return position
        elif text[position] == "#" or text.startswith("//", position):
            end = text.find("\n", position)
            return len(text) if end < 0 else end
        elif text.startswith("/*", position):
            position = text.find("*/", position) + 2
        else:
            return None
    return position if position >= len(text) else None


def _first(text: str, parent: Block, shown: str, indent: str, blank: str) -> list[Splice]:
    start, end = parent.inner
    if not parent.name:  # the file itself
        return [Splice(0, 0, f"{shown}\n")]
    stop = _line_end(text, start, end)
    if stop is not None and text[stop : stop + 1] == "\n":
        return [Splice(stop + 1, stop + 1, f"{shown}\n")]
    outer = _indent_at(text, parent.start)
    if not parent.entries:
        return (
            [Splice(end, end, f"\n{shown}\n{outer}")]
            if text[start:end].strip()
            else [Splice(start, end, f"\n{shown}\n{outer}")]
        )
    first, last = parent.entries[0], parent.entries[-1]
    tail = [] if "\n" in text[last.end : end] else [Splice(_trimmed(text, end), end, f"\n{outer}")]
    return [Splice(_trimmed(text, first.start), first.start, f"\n{shown}\n{indent}"), *tail]


def _amid(text: str, parent: Block, before: Entry, shown: str, number: int) -> list[Splice]:
    """Behind an entry whose line goes on."""
    indent, outer = shown[: len(shown) - len(shown.lstrip(_BLANKS))], _indent_at(text, parent.start)
    start, end = parent.inner
    out = list[Splice]()
    first = parent.entries[0]
    if "\n" not in text[start : first.start]:
        out.append(Splice(_trimmed(text, first.start), first.start, f"\n{indent}"))
    if number < len(parent.entries):
        after = parent.entries[number]
        return [*out, Splice(_trimmed(text, after.start), after.start, f"\n{shown}\n{indent}")]
    return [*out, Splice(_trimmed(text, end), end, f"\n{shown}\n{outer}")]


def _trimmed(text: str, position: int) -> int:
    while position > 0 and text[position - 1] in _BLANKS:
        position -= 1
    return position


def _indent_at(text: str, position: int) -> str:
    begin = text.rfind("\n", 0, position) + 1
    return text[begin:position] if not text[begin:position].strip(_BLANKS) else _leading(text[begin:position])


def _leading(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_BLANKS))]


def _indent_inside(of: Structure, parent: Block) -> str:
    """Of the block's first entry that begins its line; else one step more than the block itself."""
    for entry in parent.entries:
        begin = of.plain.rfind("\n", 0, entry.start) + 1
        if not of.plain[begin : entry.start].strip(_BLANKS):
            return of.plain[begin : entry.start]
    return _indent_at(of.plain, parent.start) + unit(of) if parent.name else ""


def unit(of: Structure) -> str:
    """One step of indentation, as the file has it."""
    if of.unit is not None:
        return of.unit
    for block in (each for each in of.root.entries if isinstance(each, Block)):
        outer = _indent_at(of.plain, block.start)
        for entry in block.entries:
            begin = of.plain.rfind("\n", 0, entry.start) + 1
            inner = of.plain[begin : entry.start]
            if begin > block.start and not inner.strip(_BLANKS) and inner.startswith(outer) and len(inner) > len(outer):
                return inner[len(outer) :]
    return "  "


def _shown(of: Structure, parent: Block, number: int, new: Lines, indent: str) -> str:
    if new.value is None:
        step = unit(of)
        return "\n".join(indent + line.replace("\t", step) for line in new.lines)
    return f"{indent}{new.name.ljust(_column(of.plain, parent, number, indent))} = {new.value}"


def _column(text: str, parent: Block, number: int, indent: str) -> int:
    """The width of names where the settings beside are aligned."""
    beside = [*reversed(parent.entries[:number]), *parent.entries[number:]]
    for entry in beside:
        if isinstance(entry, Attribute):
            between = text[entry.start + len(entry.name) : entry.value]
            found = re.fullmatch(r"([ \t]*)=[ \t]*", between)
            if found is not None and len(found[1]) > 1:
                return len(entry.name) + len(found[1]) - 1
            return 0
    return 0
