"""Reads `dstream.hcl` into validated settings, with file and line in every error.

`read` hands over blocks; each stage's `settings.py` declares its models and calls `bind`. Nothing here knows a setting,
shows a value, or opens anything but the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from common.config.blocks import LABEL, BlockKind, Labels, block_of, is_map, labelled, names_of, no_label, not_of_files
from common.config.by_type import SETTING, UNKNOWN_TYPE, ByType
from common.config.settings import Location, Remark, Settings
from common.config.values import UNREADABLE, Block, Problem, Unset, Value, WrongText, complain
from common.config.words import did_you_mean, kind_of, one_of, quoted, reason
from common.errors import ConfigurationError

UnsetPolicy = Literal["refuse", "hold", "ignore"]
Check = Callable[[Mapping[str, Any]], Iterable[tuple[Location, str]]]


M = TypeVar("M", bound=Settings)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its top-level blocks, and the problems of single values that could not be read."""

    path: str
    root: Block
    unreadable: list[Problem]

    def block(self, *names: str) -> Block | None:
        """The first block with one of `names`, or None. `problems` reports a second one."""
        return next((entry for key, _, entry in self.root.entries if key in names and isinstance(entry, Block)), None)

    def line(self, block: Block, *names: str) -> int:
        """The line of a setting below `block`, or of the nearest enclosing block that exists."""
        for name in names:
            found = next(
                ((line, entry) for key, line, entry in block.entries if key == name and not _label(entry)), None
            )
            if found is None:
                break
            if not isinstance(found[1], Block):
                return found[0]
            block = found[1]
        return block.line

    def inner(self, block: Block, name: str, label: str | None) -> Block | None:
        """The block with this name and label inside `block`; a label of None: the one without."""
        found = (entry for key, _, entry in block.entries if key == name and isinstance(entry, Block))
        return next((entry for entry in found if entry.label == label), None)

    def problems(self, known: Sequence[tuple[str, ...]]) -> list[Problem]:
        """The problems of the top level: unreadable values, unknown names, and a block given twice.

        `known` holds the names of each block: the present one first, then the older ones.
        """
        found = list(self.unreadable)
        first: dict[str, tuple[str, int]] = {}
        for key, line, entry in self.root.entries:
            names = next((names for names in known if key in names), None)
            if names is None:
                near = did_you_mean(key, [name for names in known for name in names])
                found.append(Problem(line, f'unknown {kind_of(entry)} "{key}"{near}'))
            elif isinstance(entry, Value):
                found.append(Problem(line, f'"{key}" is a block: write {key} {{ ... }}'))
            elif _label(entry) is not None:
                found.append(Problem(line, no_label(key)))
            elif names[0] in first:
                told, before = first[names[0]]
                twice = "is given twice" if told == key else f'is the same block as "{told}"'
                found.append(Problem(line, f'"{key}" {twice} (first on line {before})'))
            else:
                first[names[0]] = key, line
        return found


@dataclass(frozen=True, slots=True)
class Bound(Generic[M]):
    """The settings of a block, or None and its problems."""

    value: M | None
    problems: list[Problem]


def read(path: str | Path, environ: Mapping[str, str]) -> Document:
    """Read and parse a file. Raises ConfigurationError: it cannot be read, or template or syntax are wrong."""
    try:
        source = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(
            [f"{path}: reading the configuration: {error.strerror or type(error).__name__}"],
            hint="name the file with --config or DSTREAM_CONFIG",
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise complain(str(path), [Problem(line, "is not UTF-8")]) from None
    return parsed(source, path, environ)


def parsed(source: str, path: str | Path, environ: Mapping[str, str]) -> Document:
    """The text of a file. `path`: for its errors. Raises ConfigurationError: template or syntax are wrong."""
    # Here and not above: Spark's workers need settings, but neither parser.
    from common.config.hcl import parse
    from common.config.template import render

    root, problems = parse(render(source, path=str(path), environ=environ), path=str(path))
    return Document(str(path), root, problems)


def bind(block: Block, model: type[M], *, unset: UnsetPolicy, checks: Sequence[Check] = ()) -> Bound[M]:
    """Validate a block as `model` and name each complaint's line.

    An unset variable is a complaint everywhere ("refuse"), only where the model cannot hold it ("hold"), or nowhere
    ("ignore": the value is then None when the model cannot hold it, without a complaint).
    `checks` see the block as plain data, even when parts of it are wrong, and return (path, complaint) pairs.
    """
    data = _Plain(block.name)
    content = data.take(block, model, ())
    for check in checks:
        data.complain((), check(content))
    if unset == "refuse":
        data.problems += [Problem.unset(data.line(at), data.dotted(at), it) for at, it in data.unset]
    value: M | None = None
    try:
        value = model.model_validate(content, context={"checked": True})
    except ValidationError as error:
        data.problems += _translated(error, model, data, unset)
    return Bound(None if data.problems or value is None else value.with_remarks(data.remarks()), data.problems)


@dataclass(slots=True)
class _Plain:
    """A block as dicts, tuples and literals for pydantic, and on the side the line of each part and the model of each block."""

    name: str
    lines: dict[Location, int] = field(default_factory=dict)
    values: dict[Location, Value] = field(default_factory=dict)
    models: dict[Location, type[BaseModel]] = field(default_factory=dict)
    typed: dict[Location, tuple[ByType, dict[str, Any]]] = field(default_factory=dict)
    """Blocks of several types, with their content."""
    unset: list[tuple[Location, Unset]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    renamed: dict[Location, tuple[int, str]] = field(default_factory=dict)
    """By the place of the present name: line and older name, dotted."""
    unused: list[Remark] = field(default_factory=list)
    labels: dict[Location, tuple[str, ...]] = field(default_factory=dict)
    """Of each block with a label, what its name is made of."""

    def take(self, block: Block, model: type[BaseModel], at: Location) -> dict[str, Any]:
        self.lines[at] = block.line
        self.models[at] = model
        older = model.older_names if issubclass(model, Settings) else {}
        taken: dict[str, Any] = {}
        labels = Labels()
        for key, line, entry in block.entries:
            name = older.get(key, key)
            if isinstance(entry, Block) and entry.label is not None:
                self._labelled(entry, model, name, at, taken, labels)
                continue
            here = (*at, name)
            if not_of_files(model, name):
                self.problems.append(Problem(line, _strange(kind_of(entry), key, self.dotted(at), model)))
                continue
            kind = block_of(model, name)
            if name in taken and not (isinstance(taken[name], list) and isinstance(entry, Block)):
                self.problems.append(Problem(line, self._twice(key, name, here)))
                continue
            if key != name:
                self.renamed[here] = line, self.dotted((*at, key))
            self.lines.setdefault(here, line)
            if isinstance(entry, Value):
                taken[name] = _MISPLACED_VALUE if kind is not None else self.literal(entry, here)
            elif kind is None:
                taken[name] = self._map(entry, here) if is_map(model, name) else _MISPLACED_BLOCK
            elif kind.repeats:
                items = taken.setdefault(name, [])
                items.append(self._inner(entry, kind, (*here, len(items))))
            else:
                taken[name] = self._inner(entry, kind, here)
        content = {key: tuple(value) if isinstance(value, list) else value for key, value in taken.items()}
        if issubclass(model, Settings):
            self.complain(at, model.conflicts(content))
        return content

    def _labelled(
        self, block: Block, model: type[BaseModel], name: str, at: Location, taken: dict[str, Any], labels: Labels
    ) -> None:
        """A block with a label, into `taken`; a label that cannot be used is a problem, and the block is checked all the same."""
        found = labelled(model, name)
        if found is None:
            self.problems.append(Problem(block.line, no_label(name)))
            return
        if (text := labels.refused(block)) is not None:
            self.problems.append(Problem(block.line, text))
        into, kind = found
        items = taken.setdefault(into, [])
        here = (*at, into, len(items))
        self.labels[here] = (*(part for part in at if isinstance(part, str)), name, str(block.label))
        items.append({**self._inner(block, kind, here), LABEL: block.label})

    def _map(self, block: Block, at: Location) -> dict[str, Any]:
        """A block with free names, as the map that it stands for."""
        self.lines[at] = block.line
        found: dict[str, Any] = {}
        for key, line, entry in block.entries:
            if key in found:
                self.problems.append(Problem(line, self._twice(key, key, (*at, key))))
                continue
            self.lines[*at, key] = line
            found[key] = self.literal(entry, (*at, key)) if isinstance(entry, Value) else _MISPLACED_BLOCK
        return found

    def _twice(self, key: str, name: str, at: Location) -> str:
        first = self.renamed.get(at)
        if (key == name) == (first is None):
            return f'"{key}" is given twice (first on line {self.lines[at]})'
        older = key if first is None else first[1].rpartition(".")[2]
        return f'"{older}" is the older name of "{name}", and both are given (first on line {self.lines[at]}): remove "{older}"'

    def _inner(self, block: Block, kind: BlockKind, at: Location) -> dict[str, Any]:
        if kind.by_type is None:
            return self.take(block, kind.model, at)
        given = {key: entry.data for key, _, entry in block.entries if key == SETTING and isinstance(entry, Value)}
        types = kind.by_type
        name = types.named(given)
        known = name or types.default
        if known is not None:
            block = self._without_foreign(block, types, known, at)
        content = self.take(block, Settings if known is None else types.models[known], at)
        self.typed[at] = types, content
        if known is None:
            self._complain_of_strangers(block, types, at)
        if name is None and known is not None and isinstance(given.get(SETTING), str):
            # The rest of the block is checked as the default's, so that all is reported at once.
            self.complain(at, [((SETTING,), one_of(types.models))])
            content[SETTING] = known
        return content

    def _complain_of_strangers(self, block: Block, types: ByType, at: Location) -> None:
        """Of the settings that no type has: without a type nothing else of the block can be checked."""
        known = sorted({name for model in types.models.values() for name in names_of(model)})
        for key, line, entry in block.entries:
            if key not in known:
                unknown = f'unknown {kind_of(entry)} "{key}"{did_you_mean(key, known)}'
                self.problems.append(Problem(line, f"{self.dotted(at)}: {unknown}"))

    def _without_foreign(self, block: Block, types: ByType, name: str, at: Location) -> Block:
        """The block without settings that other types have, so that a file can keep those of several types and choose by `type` alone."""
        own = names_of(types.models[name])
        kept = []
        for key, line, entry in block.entries:
            others = [] if key in own or not_of_files(types.models[name], key) else types.types_with(key)
            if not others:
                kept.append((key, line, entry))
                continue
            hint = f'it is a setting of type {quoted(others)}, and the type here is "{name}"; remove it, or change the type'
            self.unused.append(Remark(line, "setting has no effect", self.dotted((*at, key)), hint))
        return replace(block, entries=kept)

    def remarks(self) -> Iterator[Remark]:
        for at, (line, older) in self.renamed.items():
            yield Remark(line, "setting has a new name", older, f"write {self._name(at)}")
        yield from self.unused

    def complain(self, at: Location, found: Iterable[tuple[Location, str]]) -> None:
        self.problems += [
            Problem(self.line((*at, *inner)), f"{self.dotted((*at, *inner))} {text}") for inner, text in found
        ]

    def literal(self, value: Value, at: Location) -> Any:
        self.lines[at] = value.line
        self.values[at] = value
        if isinstance(value.data, Unset):
            self.unset.append((at, value.data))
        if isinstance(value.data, list):
            return tuple(self.literal(item, (*at, number)) for number, item in enumerate(value.data))
        if isinstance(value.data, dict):
            return {key: self.literal(item, (*at, key)) for key, item in value.data.items()}
        return value.data

    def line(self, at: Location) -> int:
        """The line of the nearest known part: a missing key is reported at its block."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines[at]

    def dotted(self, at: Location) -> str:
        """The name of a part, a setting's as the file has it."""
        if (renamed := self.renamed.get(at)) is not None:
            return renamed[1]
        return self._name(at)

    def _name(self, at: Location) -> str:
        begin = next((at[:size] for size in range(len(at), 0, -1) if at[:size] in self.labels), ())
        rest = at[len(begin) :]
        return ".".join([self.name, *self.labels.get(begin, ()), *(part for part in rest if isinstance(part, str))])

    def untagged(self, at: Location) -> Location:
        """`at` without what pydantic adds for a block of several types: the name of the chosen model."""
        found: Location = ()
        parts = iter(at)
        for part in parts:
            found = (*found, part)
            if found in self.typed:
                next(parts, None)
        return found


# No model takes these, so pydantic complains at their place.
_MISPLACED_BLOCK, _MISPLACED_VALUE = object(), object()


def _translated(error: ValidationError, model: type[BaseModel], data: _Plain, policy: UnsetPolicy) -> list[Problem]:
    """pydantic's errors in DStream's words. The input is never repeated: it may be a secret."""
    found = []
    unset = dict(data.unset)
    for item in error.errors(include_url=False, include_input=True):
        at = data.untagged(item["loc"])
        given = item["input"]
        if item["type"] == UNKNOWN_TYPE and at in data.typed:
            at, given = (*at, SETTING), data.typed[at][1].get(SETTING)
        if given is UNREADABLE:
            continue  # complained about while reading
        if at in unset:
            if policy != "ignore":
                found.append(Problem.unset(data.line(at), data.dotted(at), unset[at]))
            continue
        holder = data.models.get(at[:-1], model)
        problem = Problem(data.line(at), _complaint(item, at, holder, data))
        found.append(problem.placed(data.values.get(at), item.get("ctx", {}).get("error")))
    return found


def _complaint(item: Mapping[str, Any], at: Location, holder: type[BaseModel], data: _Plain) -> str:
    name, given = data.dotted(at), item["input"]
    if item["type"] == UNKNOWN_TYPE and at[:-1] in data.typed:
        types, content = data.typed[at[:-1]]
        return f"{name} {one_of(types.models)}" if SETTING in content else _lacking(at, holder, data)
    if given is _MISPLACED_BLOCK and item["type"] != "extra_forbidden":
        return f"{name} is a setting, not a block: write {at[-1]} = ..."
    if item["type"] == "missing":
        return _lacking(at, holder, data)
    if item["type"] == "extra_forbidden":
        return _unknown(given, at, holder, data)
    if given is _MISPLACED_VALUE:
        return f"{name} is a block: write {at[-1]} {{ ... }}"
    error = item.get("ctx", {}).get("error")
    if isinstance(error, WrongText) and error.unquoted is not None and data.values[at].of_environment:
        return f"{name} {error.unquoted} (where is not shown: the text holds a value of the environment)"
    return f"{name} {reason(item)}"


def _lacking(at: Location, holder: type[BaseModel], data: _Plain) -> str:
    kind = "block" if block_of(holder, str(at[-1])) else "key"
    if any(labels[:-1] == (*at[:-1], at[-1]) for labels in data.labels.values()):
        return f"{data.dotted(at[:-1])}: the default {at[-1]}, a block `{at[-1]}` without a label, is missing"
    return f'{data.dotted(at[:-1])}: {kind} "{at[-1]}" is missing'


def _unknown(given: object, at: Location, holder: type[BaseModel], data: _Plain) -> str:
    key, block = str(at[-1]), data.dotted(at[:-1])
    return _strange("block" if given is _MISPLACED_BLOCK else "key", key, block, holder)


def _strange(kind: str, key: str, block: str, holder: type[BaseModel]) -> str:
    older = holder.older_names if issubclass(holder, Settings) else {}
    return f'{block}: unknown {kind} "{key}"{did_you_mean(key, sorted(names_of(holder)), older)}'


def _label(entry: Value | Block) -> str | None:
    return entry.label if isinstance(entry, Block) else None
