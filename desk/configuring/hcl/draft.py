"""A configuration while it is edited. After each step the new text is parsed: it must differ in what was asked for, and in nothing else.

Steps inside one block are checked on its own text, and steps that belong together once at their end, because a long file takes a second to parse.

Refuses every edit for which that is not so, and then has changed nothing: the file is better edited by hand than nearly right.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from common.errors import ConfigurationError, PermanentError
from desk.configuring.hcl import surgery
from desk.configuring.hcl.document import Inner, Setting, document, plain_of
from desk.configuring.hcl.literals import key_written, written
from desk.configuring.hcl.original import BY_HAND, Original, Splice
from desk.configuring.hcl.structure import Attribute, Block, Structure, structure
from desk.configuring.hcl.surgery import Lines

Path = tuple[int, ...]
"""A block or setting: its number in the block around it, after that one's own path."""

Entries = tuple[Setting | Inner, ...]
_Read = tuple[Original, Structure, Inner]


@dataclass(frozen=True, slots=True)
class NewBlock:
    """`settings`: a `NewBlock` among them is a block inside it."""

    name: str
    label: str | None
    settings: Mapping[str, Any] = field(default_factory=dict)


class Draft:
    """`raw`: the file as it is now."""

    def __init__(self, raw: str, path: str, *, part_of: Draft | None = None) -> None:
        """`part_of`: of which `raw` is an entry with its indentation."""
        self._path = path
        self._part_of = part_of
        self._unchecked = 0
        self._original, self._structure, self._document = self._read(raw)

    @property
    def raw(self) -> str:
        return self._original.raw

    @property
    def document(self) -> Inner:
        return self._document

    def at(self, path: Path) -> Setting | Inner:
        found: Setting | Inner = self._document
        for number in path:
            assert isinstance(found, Inner)
            found = found.entries[number]
        return found

    def block(self, path: Path) -> Inner:
        found = self.at(path)
        assert isinstance(found, Inner)
        return found

    def paths(self, within: Path, *names: str, labelled: bool | None = None) -> Iterator[Path]:
        """Of the entries of a block with one of these names. `labelled`: only blocks with a label, or only what has none."""
        for number, entry in enumerate(self.block(within).entries):
            if entry.name in names and (labelled is None or (entry.label is not None) is labelled):
                yield *within, number

    def path(self, within: Path, *names: str, label: str | None = None) -> Path | None:
        """Of the first entry with one of these names and this label."""
        return next((each for each in self.paths(within, *names) if self.at(each).label == label), None)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Steps that are checked at the end, where this raises PermanentError. Until then nobody knows the lines of entries."""
        self._unchecked += 1
        yield  # a draft that was left in the middle is of no use to anybody
        self._unchecked -= 1
        if not self._unchecked:
            intended = self._document
            self._original, self._structure, self._document = self._checked(self.raw, intended)

    @contextmanager
    def alone(self, path: Path) -> Iterator[tuple[Draft, Path]]:
        """An entry as a draft of its own, and its path there, for several steps. In the end it is put back, where this raises PermanentError."""
        entry = self._structure.at(path)
        text = self._original.text
        begin = text.rfind("\n", 0, entry.start) + 1
        if text[begin : entry.start].strip(" \t") or text[entry.end - 1] == "\n":
            yield self, path
            return
        at = self._original.at
        before = self.raw[at[begin] : at[entry.end]]
        part = Draft(before, self._path, part_of=self)
        yield part, (0,)
        if part.raw != before:
            self._put_back(path, part, begin, entry.end)

    def _put_back(self, path: Path, part: Draft, begin: int, end: int) -> None:
        *within, number = path
        (entry,) = part.document.entries
        intended = self._changed(tuple(within), lambda entries: (*entries[:number], entry, *entries[number + 1 :]))
        comments = self._structure.comments
        kept = [
            *(self._comment(start, stop) for start, stop in comments if stop <= begin),
            *(part._comment(start, stop) for start, stop in part._structure.comments),
            *(self._comment(start, stop) for start, stop in comments if start >= end),
        ]
        at = self._original.at
        self._step(self.raw[: at[begin]] + part.raw + self.raw[at[end] :], intended, kept)

    def put(self, within: Path, name: str, value: Any) -> None:
        """Set a setting of a block, changing as little of its value as possible."""
        found = self.path(within, name)
        if found is None:
            self._add(
                within, self._behind_settings(within), Setting(name, plain_of(value)), Lines(name, written(value))
            )
            return
        entry = self.at(found)
        if isinstance(entry, Inner):
            self._put_block(found, value)
        elif not Setting(name, plain_of(value)).same(entry):
            self._put_value(found, value)

    def remove(self, path: Path) -> None:
        """A setting or a block."""
        *within, number = path
        parent = self._structure.block(tuple(within))
        self._apply(
            surgery.removed(self._structure, parent, number),
            self._changed(tuple(within), lambda entries: entries[:number] + entries[number + 1 :]),
            within=(parent.entries[number].start, parent.entries[number].end),
        )

    def add_block(self, within: Path, new: NewBlock, *, behind: Path | None = None, apart: bool = False) -> None:
        """At the end of a block, or `behind` one of its entries."""
        number = len(self.block(within).entries) if behind is None else behind[-1] + 1
        self._add(within, number, _meant(new), Lines(new.name, None, tuple(_lines(new))), apart=apart)

    def add_item(self, path: Path, value: Any) -> None:
        """At the end of a list."""
        entry = self._list(path)
        meant = [*entry.value, plain_of(value)]
        attribute = self._attribute(path)
        self._apply(surgery.item_added(self._structure, attribute, written(value)), self._with_value(path, meant))

    def remove_item(self, path: Path, number: int) -> None:
        """Of a list."""
        entry, attribute = self._list(path), self._attribute(path)
        assert attribute.items is not None
        item = attribute.items[number]
        meant = [*entry.value[:number], *entry.value[number + 1 :]]
        splices = surgery.item_removed(self._structure, attribute, number)
        self._apply(splices, self._with_value(path, meant), within=(item.start, item.end))

    def _put_value(self, path: Path, value: Any) -> None:
        entry, attribute = self.at(path), self._attribute(path)
        assert isinstance(entry, Setting)
        wanted = plain_of(value)
        if isinstance(entry.value, dict) and isinstance(wanted, dict) and attribute.is_map and _distinct(attribute):
            self._put_map(path, value)
        elif (steps := _steps(entry.value, wanted)) is not None and attribute.items is not None:
            gone, more = steps
            for number in reversed(gone):
                self.remove_item(path, number)
            for each in value[len(value) - more :]:
                self.add_item(path, each)
        else:
            end = attribute.end - 1 if self._structure.plain[attribute.end - 1] == "\n" else attribute.end
            splices = surgery.replaced(attribute.value, end, written(value))
            self._apply(splices, self._with_value(path, wanted), within=(attribute.value, end))

    def _put_map(self, path: Path, value: Mapping[str, Any]) -> None:
        """Entry by entry, so that comments between them stay."""
        for key in [key for key in self._map(path) if key not in value]:
            number = self._item_of(path, key)
            items = self._attribute(path).items
            assert items is not None
            meant = {name: each for name, each in self._map(path).items() if name != key}
            splices = surgery.item_removed(self._structure, self._attribute(path), number)
            self._apply(splices, self._with_value(path, meant), within=(items[number].start, items[number].end))
        for key, each in value.items():
            present = self._map(path)
            meant = {**present, key: plain_of(each)}
            if key not in present:
                splices = surgery.item_added(self._structure, self._attribute(path), written(each), key)
                self._apply(splices, self._with_value(path, meant))
            elif not Setting(key, present[key]).same(Setting(key, meant[key])):
                items = self._attribute(path).items
                assert items is not None
                item = items[self._item_of(path, key)]
                splices = surgery.replaced(item.begin, item.end, written(each))
                self._apply(splices, self._with_value(path, meant), within=(item.begin, item.end))

    def _put_block(self, path: Path, value: Any) -> None:
        """A block whose settings are those of `value`, and no others."""
        if not isinstance(value, Mapping):
            raise PermanentError(
                f"editing the configuration: {self.at(path).name} is a block in the file", hint=BY_HAND
            )
        for number in reversed(range(len(self.block(path).entries))):
            if self.block(path).entries[number].name not in value:
                self.remove((*path, number))
        for key, each in value.items():
            self.put(path, key, each)

    def _add(self, within: Path, number: int, meant: Setting | Inner, new: Lines, *, apart: bool = False) -> None:
        parent = self._structure.block(within)
        self._apply(
            surgery.added(self._structure, parent, number, new, apart=apart),
            self._changed(within, lambda entries: (*entries[:number], meant, *entries[number:])),
        )

    def _apply(self, splices: Sequence[Splice], intended: Inner, within: tuple[int, int] = (0, 0)) -> None:
        """Take a step, or raise PermanentError. `within`: where comments go together with what they stand in."""
        comments = [
            self._comment(start, end)
            for start, end in self._structure.comments
            if not (within[0] <= start and end <= within[1])
        ]
        self._step(self._original.with_splices(splices), intended, comments)

    def _step(self, raw: str, intended: Inner, comments: Sequence[str]) -> None:
        if self._unchecked:
            original, found, read = self._half_checked(raw, intended)
        else:
            original, found, read = self._checked(raw, intended)
        if [original.text[start:end].rstrip("\n") for start, end in found.comments] != comments:
            raise _not_so()
        self._original, self._structure, self._document = original, found, read

    def _checked(self, raw: str, intended: Inner) -> _Read:
        try:
            original, found, read = self._read(raw)
        except (PermanentError, ConfigurationError):
            raise _not_so() from None
        if not read.same(intended):
            raise _not_so()
        return original, found, read

    def _half_checked(self, raw: str, intended: Inner) -> _Read:
        """What the entries are, and not yet what they mean."""
        original = Original.of(raw)
        try:
            found = structure(original.text)
        except PermanentError:
            raise _not_so() from None
        if not _corresponds(found.root, intended, None):
            raise _not_so()
        return original, found, intended

    def _comment(self, start: int, end: int) -> str:
        return self._original.text[start:end].rstrip("\n")

    def _read(self, raw: str) -> _Read:
        original = Original.of(raw)
        of_whole = self._part_of is None
        read = (document if of_whole else document.__wrapped__)(
            original.text, self._path
        )  # its errors name line and column
        found = (structure if of_whole else structure.__wrapped__)(original.text)
        if not _corresponds(found.root, read, _line_ends(original.text)):
            raise PermanentError(
                "reading the configuration for an edit: where its settings stand is not certain", hint=BY_HAND
            )
        if self._part_of is not None:
            original = replace(original, ending=self._part_of._original.ending)
            found = replace(found, unit=surgery.unit(self._part_of._structure))
        return original, found, read

    def _changed(self, within: Path, change: Callable[[Entries], Entries]) -> Inner:
        return _with(self._document, within, change)

    def _with_value(self, path: Path, value: Any) -> Inner:
        *within, number = path

        def changed(entries: Entries) -> Entries:
            entry = entries[number]
            assert isinstance(entry, Setting)
            return (*entries[:number], replace(entry, value=value), *entries[number + 1 :])

        return self._changed(tuple(within), changed)

    def _behind_settings(self, within: Path) -> int:
        """Where a further setting goes: behind the last one, else in front of the blocks."""
        entries = self.block(within).entries
        return max((number + 1 for number, each in enumerate(entries) if isinstance(each, Setting)), default=0)

    def _attribute(self, path: Path) -> Attribute:
        found = self._structure.at(path)
        assert isinstance(found, Attribute)
        return found

    def _list(self, path: Path) -> Setting:
        entry = self.at(path)
        if not isinstance(entry, Setting) or not isinstance(entry.value, list) or self._attribute(path).items is None:
            raise PermanentError(f"editing the configuration: {entry.name} is not written as a list", hint=BY_HAND)
        return entry

    def _map(self, path: Path) -> dict[str, Any]:
        entry = self.at(path)
        assert isinstance(entry, Setting)
        found: dict[str, Any] = entry.value
        return found

    def _item_of(self, path: Path, key: str) -> int:
        return next(number for number, each in enumerate(self._attribute(path).items or ()) if each.key == key)


def _steps(old: Any, new: Any) -> tuple[list[int], int] | None:
    """From one list to the other: the entries that go, and how many come at the end. None if that is not the difference."""
    if not isinstance(old, list) or not isinstance(new, list):
        return None
    kept, gone = 0, list[int]()
    for number, each in enumerate(old):
        if kept < len(new) and Setting("", each).same(Setting("", new[kept])):
            kept += 1
        else:
            gone.append(number)
    return gone, len(new) - kept


def _distinct(attribute: Attribute) -> bool:
    keys = [each.key for each in attribute.items or ()]
    return len(set(keys)) == len(keys)


def _with(block: Inner, within: Path, change: Callable[[Entries], Entries]) -> Inner:
    if not within:
        return replace(block, entries=change(block.entries))
    number, *rest = within
    inner = block.entries[number]
    assert isinstance(inner, Inner)
    changed = _with(inner, tuple(rest), change)
    return replace(block, entries=(*block.entries[:number], changed, *block.entries[number + 1 :]))


def _meant(new: NewBlock) -> Inner:
    return Inner(
        new.name,
        new.label,
        tuple(
            _meant(each) if isinstance(each, NewBlock) else Setting(name, plain_of(each))
            for name, each in new.settings.items()
        ),
    )


def _lines(new: NewBlock) -> Iterator[str]:
    """Without the indentation of the block itself; a tab stands for a step."""
    head = new.name if new.label is None else f'{new.name} "{new.label}"'
    yield f"{head} {{"
    width = max((len(name) for name, each in new.settings.items() if not isinstance(each, NewBlock)), default=0)
    for name, each in new.settings.items():
        if isinstance(each, NewBlock):
            yield from (f"\t{line}" for line in _lines(each))
        else:
            yield f"\t{key_written(name).ljust(width)} = {written(each)}"
    yield "}"


def _line_ends(text: str) -> list[int]:
    return [each.start() for each in re.finditer("\n", text)]


def _corresponds(found: Block, read: Inner, ends: Sequence[int] | None) -> bool:
    """Whether both parsers see the same blocks and settings, on the same lines. `ends`: of the lines; None: they are not looked at."""
    if len(found.entries) != len(read.entries):
        return False
    for one, other in zip(found.entries, read.entries, strict=True):
        if one.name != other.name or (ends is not None and bisect_left(ends, one.start) + 1 != other.line):
            return False
        if isinstance(one, Block):
            if not isinstance(other, Inner) or not _corresponds(one, other, ends):
                return False
            if (one.label is None) is not (other.label is None):
                return False
        elif not isinstance(other, Setting) or (
            isinstance(other.value, list) and one.items is not None and len(one.items) != len(other.value)
        ):
            return False
    return True


def _not_so() -> PermanentError:
    return PermanentError(
        "editing the configuration: the file is written so that the edit would change something else, or a comment; nothing was changed",
        hint=BY_HAND,
    )
