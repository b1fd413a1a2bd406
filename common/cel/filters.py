"""Filters: a CEL expression over a change, compiled once and asked for every change. docs/decisions/0026-cel.md chooses the library.

A mistake in an expression is found when it is compiled, with its place. What fails on a change raises FilterFailed, whose text names columns
and types and never a value: texts of the library, which may quote the row, are not passed on. No evaluation runs without bound: the library
limits nesting and iterations and its regular expressions do not backtrack, and expression.py limits the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import pairwise
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from common.cel.expression import FilterError, Word, fields_of, places_of, refuse_costly, words
from common.errors import PermanentError
from common.message import Metadata

__all__ = ["Filter", "FilterError", "FilterFailed", "FilterText", "compile_filter", "plain"]

DATA: Final = "data"
BEFORE: Final = "before"
METADATA: Final = "metadata"
_METADATA: Final = Metadata.__required_keys__ | Metadata.__optional_keys__

_NOTHING: Final[dict[str, object]] = {}

_Row = Mapping[str, object]
Plain = Callable[[object], object]
"""Turns a value of a row into one that the library takes."""


class FilterFailed(Exception):
    """Why a filter has no answer for a change, in words that name no value of the row."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A compiled filter. `fields`: of each variable, those that it names, or None if it may use any."""

    text: str
    fields: Mapping[str, frozenset[str] | None]
    uses_before: bool
    _expression: Any
    _plain: Plain

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that it names, None if it may use any."""
        data, before = self.fields[DATA], self.fields[BEFORE]
        return None if data is None or before is None else data | before

    def __call__(self, data: _Row, before: _Row | None, metadata: _Row) -> bool:
        """Whether the change is sent. Raises FilterFailed."""
        given: dict[str, Any] = {DATA: self._used(DATA, data), METADATA: self._used(METADATA, metadata)}
        given[BEFORE] = None if before is None else self._used(BEFORE, before)
        try:
            found = self._expression.eval(data=given)
            value = found.value()
        except Exception as error:  # whatever the library raises; it may quote the row, so it is no cause either
            raise FilterFailed(self._why(str(error), given)) from None
        if value is True or value is False:
            return value
        kind = found.type().name()
        if kind != "ERROR":
            raise FilterFailed(f"the filter gives {_named(kind)}, not true or false{self._typed(given)}")
        raise FilterFailed(self._why(str(value), given))

    def _used(self, variable: str, row: _Row) -> dict[str, object]:
        """What the expression uses of `row`. A column is found in another case as well, if none has exactly this name."""
        fields = self.fields[variable]
        if fields is None:
            return {name: self._plain(value) for name, value in row.items()}
        if not fields:
            return _NOTHING
        found = {name: self._plain(row[name]) for name in fields if name in row}
        if len(found) < len(fields):
            folded = {name.casefold(): name for name in row}
            near = {name: folded.get(name.casefold()) for name in fields if name not in found}
            found.update({name: self._plain(row[its]) for name, its in near.items() if its is not None})
        return found

    def _why(self, told: str, given: Mapping[str, Any]) -> str:
        missing = [
            f"{variable} has no {_column(name)}"
            for variable in (DATA, BEFORE, METADATA)
            for name in sorted(self.fields[variable] or ())
            if isinstance(given[variable], dict) and name not in given[variable]
        ]
        if given[BEFORE] is None and self.uses_before and "Applying SELECT" in told:
            return "the filter fails: before is null, as it is of an insert and of a row that a snapshot read"
        if missing and _about_a_field(told):
            return f"the filter needs a value that is not there: {', '.join(missing[:_NAMED])}"
        return f"the filter fails: {_cause(told)}{self._typed(given)}"

    def _typed(self, given: Mapping[str, Any]) -> str:
        """The types of the columns that it names, for the person who has to correct it."""
        found = [
            f"{variable}.{_column(name)} is {_kind(given[variable][name])}"
            for variable in (DATA, BEFORE)
            for name in sorted(self.fields[variable] or ())
            if given[variable] is not None and name in given[variable]
        ]
        return f" ({', '.join(found[:_NAMED])})" if found else ""


@lru_cache(maxsize=1024)
def compile_filter(text: str, readable: Plain | None = None) -> Filter:
    """`readable`: what makes values of a row ready; None: `plain`.

    Raises FilterError for an expression that cannot be used, PermanentError where the CEL library is not installed.
    """
    found = words(text)
    refuse_costly(text, found)
    _refuse_unknown_metadata(found)
    environment = _environment()
    try:
        compiled = environment.compile(text)
    except Exception as error:  # the library has no class of its own for it
        raise _mistake(text, str(error), found) from None
    kind = compiled.return_type().name()
    if kind not in ("BOOL", "DYN"):
        raise FilterError(f"gives {_named(kind)}, and a filter must give true or false")
    _refuse_wrong_patterns(environment, found)
    fields = {name: fields_of(name, found) for name in (DATA, BEFORE, METADATA)}
    return Filter(text, fields, any(True for _ in places_of(BEFORE, found)), compiled, readable or plain)


def _checked(text: str) -> str:
    """For settings. A router may be installed without the CEL library; it reads the same file, and may have no filter of its own."""
    with suppress(PermanentError):
        compile_filter(text)
    return text


FilterText = Annotated[str, AfterValidator(_checked)]
"""A setting that holds a filter: its mistakes are reported with their line and column."""


_FILTER: Final = "the filter "


def lacking() -> str | None:
    """What keeps every filter from being evaluated here, and the remedy. No stage must start with a filter then."""
    try:
        _environment()
    except PermanentError as error:
        return f"{error.message.removeprefix(_FILTER)}: {error.hint}"
    return None


_AS_THEY_ARE: Final = frozenset({str, int, bool, float, type(None)})


def plain(value: object) -> object:
    """Of a value as JSON has it."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    return str(value)


@cache
def _environment() -> Any:
    """That of every filter."""
    try:
        from cel_expr_python import cel
    except ModuleNotFoundError as error:
        package = (error.name or "cel_expr_python").partition(".")[0]
        raise PermanentError(
            f"{_FILTER}needs the Python package {package}, which is not installed",
            hint="pip install 'dstream-cdc[ingester]' for an ingester, 'dstream-cdc[routes]' for a router",
        ) from None
    kinds = cel.Type
    row = kinds.Map(kinds.STRING, kinds.DYN)
    return cel.NewEnv(variables={DATA: row, BEFORE: kinds.DYN, METADATA: row})


def _refuse_unknown_metadata(found: Sequence[Word]) -> None:
    for at in places_of(METADATA, found):
        named = fields_of(METADATA, found[at : at + 4])
        for name in sorted(named or ()):
            if name not in _METADATA:
                near = get_close_matches(name, _METADATA, n=1, cutoff=0.6)
                meant = f' (did you mean "{near[0]}"?)' if near else ""
                raise FilterError(
                    f"asks for metadata.{name}, which no change has{meant}",
                    found[at].at,
                    unquoted="asks for metadata that no change has",
                )


def _refuse_wrong_patterns(environment: Any, found: Sequence[Word]) -> None:
    """A pattern that stands in the expression is tried once; one that comes from the row can only fail on it."""
    for at, word in enumerate(found[:-2]):
        pattern = found[at + 2]
        if word.text != "matches" or found[at + 1].text != "(" or pattern.kind not in ("text", "raw"):
            continue
        tried = environment.compile(f'"".matches({pattern.text})').eval(data={})
        if tried.type().name() == "ERROR":
            why = str(tried.value()).rpartition("invalid regular expression: ")[2]
            wrong = "has a pattern that is not a regular expression"
            raise FilterError(f"{wrong}: {why}", pattern.at, unquoted=wrong)


_NOT_CEL: Final = "is not a CEL expression"
_MISTAKE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")


def _mistake(text: str, told: str, found: Sequence[Word]) -> FilterError:
    """The first mistake that the library names, in shorter words. It quotes the expression only."""
    match = _MISTAKE.search(told)
    if match is None or int(match[1]) < 1:
        if "recursion" in told:
            return FilterError("is nested too deeply")
        return FilterError(f"{_NOT_CEL}: {told.partition(chr(10))[0]}", unquoted=_NOT_CEL)
    line, column, why = int(match[1]), int(match[2]), match[3]
    offset = sum(len(each) for each in text.splitlines(keepends=True)[: line - 1]) + column - 1
    why = re.sub(r"'? \(in container ''\)$", "'", why)
    if why.startswith("Syntax error: "):
        why = _syntax(why.removeprefix("Syntax error: "))
    if (unknown := re.fullmatch(r"undeclared reference to '(\w+)'", why)) is not None:
        name = unknown[1]
        called = [word.at for word, after in pairwise(found) if word.text == name and after.at == offset]
        why = f"unknown variable {name}: a filter knows data, before and metadata, so a column is data.{name}"
        if called:  # the library names the bracket
            offset, why = called[0], f"unknown function {name}"
    return FilterError(f"{_NOT_CEL}: {why}", min(offset, len(text)), unquoted=_NOT_CEL)


_OPERATORS: Final = {"=": "==", "&": "&&", "|": "||", "and": "&&", "or": "||"}
"""What people write, and what CEL has for it."""


def _syntax(told: str) -> str:
    """A mistake in the grammar, for a person; texts of the parser name its tokens."""
    if (unread := re.fullmatch(r"token recognition error at: '(.*)'", told)) is not None:
        mark = unread[1].strip()
        return _operator(mark) or ("a text begins here that does not end" if mark[:1] in "'\"" else _unexpected(mark))
    if (read := re.match(r"(?:mismatched|extraneous) input '(.*?)'(?= expecting |$)", told)) is not None:
        return "it ends too early" if read[1] == "<EOF>" else _operator(read[1]) or _unexpected(read[1])
    if (read := re.fullmatch(r"no viable alternative at input '(.*)'", told)) is not None:
        return _unexpected(read[1])
    return told.replace("'<EOF>'", "the end")


def _operator(mark: str) -> str | None:
    meant = _OPERATORS.get(mark.lower())
    return None if meant is None else f"{mark} is not an operator, write {meant}"


def _unexpected(mark: str) -> str:
    return f"'{mark}' is not expected here"


_KINDS: Final = {
    "BOOL": "true or false",
    "INT": "an int",
    "UINT": "a uint",
    "DOUBLE": "a double",
    "STRING": "text",
    "NULL": "null",
    "BYTES": "bytes",
    "TIMESTAMP": "a timestamp",
    "DURATION": "a duration",
}
_CAUSES: Final = (
    (r"divide by zero|modulus by zero", "division by zero"),
    (r"overflow|out of .*range", "a number or a time is out of range"),
    (r"cannot convert (\w+) to (\w+)|conversion error from '(\w+)' to '(\w+)'", "a value cannot be converted to {}"),
    (r"String to (Timestamp|Duration) conversion failed", "a text cannot be converted to {}"),
    (r"No matching overloads found : ([\w@<>!&|?:=+*/%\[\]().,\s-]{1,120})$", "no operation for these types, {}"),
    (r"Key not found", "a key is not there"),
    (r"Applying SELECT", "a field is asked of a value that has none"),
    (r"Index error", "a list has no element of this number"),
    (r"invalid regular expression", "a pattern is not a regular expression"),
    (r"[Bb]udget exceeded", "it takes more steps than a filter may"),
)
"""What the library says, and which of it is passed on: only words and types."""
_NAMED: Final = 5
"""The most columns in a text."""


def _about_a_field(told: str) -> bool:
    return "Key not found" in told or "Applying SELECT" in told


def _cause(told: str) -> str:
    for pattern, words_ in _CAUSES:
        if (match := re.search(pattern, told)) is not None:
            groups = [group for group in match.groups() if group]
            return words_.format(groups[-1].lower() if groups and "convert" in words_ else groups[-1] if groups else "")
    code = re.match(r"[A-Z_]+(?=:)", told)
    return f"error {code[0]}" if code is not None else "unknown error"


def _named(kind: str) -> str:
    """A type of the library, for a person."""
    return _KINDS.get(
        kind, "a list" if kind.startswith("LIST") else "a map" if kind.startswith("MAP") else kind.lower()
    )


def _column(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def _kind(value: object) -> str:
    kinds = {bool: "true or false", int: "an int", float: "a double", str: "text", type(None): "null"}
    return kinds.get(type(value), type(value).__name__)
