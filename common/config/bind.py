"""Reads `dstream.hcl` into validated settings, with file and line in every error.

`read` hands over blocks; each stage's `settings.py` declares its models and calls `bind`. Nothing here knows a setting,
shows a value, or opens anything but the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationError

from common.config.values import UNREADABLE, Block, Problem, Unset, Value, complain
from common.errors import ConfigurationError

__all__ = ["Block", "Bound", "Check", "Document", "Location", "Problem", "Secret", "Settings", "Unset", "UnsetPolicy"]
__all__ += ["UnsetSecret", "bind", "complain", "read"]

Location = tuple[str | int, ...]
UnsetPolicy = Literal["refuse", "hold", "ignore"]
Check = Callable[[Mapping[str, Any]], Iterable[tuple[Location, str]]]


class Settings(BaseModel):
    """Base of every model of settings: frozen, strict, no unknown keys, and no input in pydantic's own errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, arbitrary_types_allowed=True
    )


class UnsetSecret(SecretStr):
    """A secret whose environment variable is not set, in a place where the command may not need it."""

    def __init__(self, unset: Unset) -> None:
        super().__init__("")
        self._unset = unset

    def get_secret_value(self) -> str:
        raise complain(self._unset.path, [Problem(self._unset.line, self._unset.complaint())])


def _secret(value: Any) -> SecretStr:
    if isinstance(value, SecretStr):
        return value
    if isinstance(value, Unset):
        return UnsetSecret(value)
    if not isinstance(value, str):
        raise ValueError("must be text in double quotes")
    if not value.strip():
        raise ValueError("is empty")
    return SecretStr(value)


Secret = Annotated[SecretStr, BeforeValidator(_secret)]

M = TypeVar("M", bound=Settings)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: the blocks of its top level, and what was wrong with single values while reading it."""

    path: str
    root: Block
    unreadable: list[Problem]

    def block(self, *names: str) -> Block | None:
        """The first block with one of `names`, or None. `problems` reports a second one."""
        return next((entry for key, _, entry in self.root.entries if key in names and isinstance(entry, Block)), None)

    def line(self, block: Block, *names: str) -> int:
        """The line of a setting below `block`, or of the nearest enclosing block that exists."""
        for name in names:
            found = next(((line, entry) for key, line, entry in block.entries if key == name), None)
            if found is None:
                break
            if not isinstance(found[1], Block):
                return found[0]
            block = found[1]
        return block.line

    def problems(self, known: Sequence[tuple[str, ...]]) -> list[Problem]:
        """What is wrong at the top level: unreadable values, unknown names, and a block given twice.

        `known` holds the names of each block: today's first, the older ones after it.
        """
        found = list(self.unreadable)
        first: dict[str, tuple[str, int]] = {}
        for key, line, entry in self.root.entries:
            names = next((names for names in known if key in names), None)
            if names is None:
                near = _near(key, [name for names in known for name in names])
                found.append(Problem(line, f'unknown {_kind(entry)} "{key}"{near}'))
            elif isinstance(entry, Value):
                found.append(Problem(line, f'"{key}" is a block: write {key} {{ ... }}'))
            elif names[0] in first:
                told, before = first[names[0]]
                found.append(Problem(line, f'"{key}" is one block too many: "{told}" is already on line {before}'))
            else:
                first[names[0]] = key, line
        return found


@dataclass(frozen=True, slots=True)
class Bound(Generic[M]):
    """The result of a block: the settings, or None and the reasons."""

    value: M | None
    problems: list[Problem]


def read(path: str | Path, environ: Mapping[str, str]) -> Document:
    """Read and parse a file. Raises ConfigurationError: it cannot be read, or template or syntax are wrong."""
    # Here and not above: Spark's workers have use for settings, but none for two parsers.
    from common.config.hcl import parse
    from common.config.template import render

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
    root, problems = parse(render(source, path=str(path), environ=environ), path=str(path))
    return Document(str(path), root, problems)


def bind(block: Block, model: type[M], *, unset: UnsetPolicy, checks: Sequence[Check] = ()) -> Bound[M]:
    """Validate a block as `model` and name each complaint's line.

    An unset variable is a complaint everywhere ("refuse"), only where the model cannot hold it ("hold"), or nowhere
    ("ignore": the value is then None when the model cannot hold it, without a complaint).
    `checks` see the block as plain data, even when parts of it are wrong, and return (path, complaint) pairs.
    """
    data = _Plain()
    content = data.take(block, model, ())
    for check in checks:
        data.problems += [Problem(data.line(at), f"{_dotted(block.name, at)} {text}") for at, text in check(content)]
    if unset == "refuse":
        data.problems += [Problem.unset(data.line(at), _dotted(block.name, at), it) for at, it in data.unset]
    value: M | None = None
    try:
        value = model.model_validate(content, context={"checked": bool(checks)})
    except ValidationError as error:
        data.problems += _translated(error, block, model, data, unset)
    return Bound(None if data.problems else value, data.problems)


@dataclass(slots=True)
class _Plain:
    """A block as dicts, tuples and literals for pydantic, and on the side the line of each part."""

    lines: dict[Location, int] = field(default_factory=dict)
    unset: list[tuple[Location, Unset]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def take(self, block: Block, model: type[BaseModel], at: Location) -> dict[str, Any]:
        self.lines[at] = block.line
        taken: dict[str, Any] = {}
        for key, line, entry in block.entries:
            inner, repeats = _inner_model(model, key)
            here = (*at, key)
            if key in taken and not (isinstance(taken[key], list) and isinstance(entry, Block)):
                self.problems.append(
                    Problem(line, f'"{key}" stands here a second time (first on line {self.lines[here]})')
                )
                continue
            self.lines.setdefault(here, line)
            if isinstance(entry, Value):
                taken[key] = _MISPLACED_VALUE if inner is not None else self.literal(entry, here)
            elif inner is None:
                taken[key] = _MISPLACED_BLOCK
            elif repeats:
                items = taken.setdefault(key, [])
                items.append(self.take(entry, inner, (*here, len(items))))
            else:
                taken[key] = self.take(entry, inner, here)
        return {key: tuple(value) if isinstance(value, list) else value for key, value in taken.items()}

    def literal(self, value: Value, at: Location) -> Any:
        self.lines[at] = value.line
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


# No model takes these, so pydantic complains at their place.
_MISPLACED_BLOCK, _MISPLACED_VALUE = object(), object()

_WORDS = {
    "string_type": "must be text in double quotes",
    "int_type": "must be a whole number, without quotes",
    "bool_type": "must be true or false, without quotes",
    "dict_type": "must be a map: { key = value }",
    "tuple_type": "must be a list: [ ... ]",
}


def _translated(
    error: ValidationError, block: Block, model: type[BaseModel], data: _Plain, policy: UnsetPolicy
) -> list[Problem]:
    """pydantic's errors in DStream's words. The input is never repeated: it may be a secret."""
    found = []
    unset = dict(data.unset)
    for item in error.errors(include_url=False, include_input=True):
        at: Location = item["loc"]
        if item["input"] is UNREADABLE:
            continue  # complained about while reading
        holder = _model_at(model, at[:-1])
        name, line = _dotted(block.name, at), data.line(at)
        if at in unset:
            if policy == "ignore":
                continue
            found.append(Problem.unset(line, name, unset[at]))
        elif item["input"] is _MISPLACED_BLOCK and item["type"] != "extra_forbidden":
            found.append(Problem(line, f"{name} is a setting, not a block: write {at[-1]} = ..."))
        elif item["type"] == "missing":
            kind = "block" if _inner_model(holder, str(at[-1]))[0] else "key"
            found.append(Problem(line, f'{_dotted(block.name, at[:-1])}: {kind} "{at[-1]}" is missing'))
        elif item["type"] == "extra_forbidden":
            near = _near(str(at[-1]), list(holder.model_fields))
            kind = "block" if item["input"] is _MISPLACED_BLOCK else "key"
            found.append(Problem(line, f'{_dotted(block.name, at[:-1])}: unknown {kind} "{at[-1]}"{near}'))
        elif item["input"] is _MISPLACED_VALUE:
            found.append(Problem(line, f"{name} is a block: write {at[-1]} {{ ... }}"))
        else:
            found.append(Problem(line, f"{name} {_reason(item)}"))
    return found


def _reason(item: Mapping[str, Any]) -> str:
    kind, context = item["type"], item.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        expected: str = context["expected"]
        choices = expected.replace("'", '"').replace(" or ", ", ")
        return f"must be one of {choices}" if "," in choices else f"must be {choices}"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']}"
    return _WORDS.get(kind, f"is not valid ({kind.replace('_', ' ')})")


def _inner_model(model: type[BaseModel], key: str) -> tuple[type[BaseModel] | None, bool]:
    """The model of a key that is a block, and whether the block may repeat."""
    if (declared := model.model_fields.get(key)) is None:
        return None, False
    for candidate in (declared.annotation, *get_args(declared.annotation)):
        if isinstance(candidate, type) and get_origin(candidate) is None and issubclass(candidate, BaseModel):
            return candidate, get_origin(declared.annotation) is tuple
    return None, False


def _model_at(model: type[BaseModel], at: Location) -> type[BaseModel]:
    for key in at:
        if isinstance(key, str) and (inner := _inner_model(model, key)[0]) is not None:
            model = inner
    return model


def _dotted(name: str, at: Location) -> str:
    return ".".join([name, *(part for part in at if isinstance(part, str))])


def _kind(entry: Value | Block) -> str:
    return "block" if isinstance(entry, Block) else "key"


def _near(key: str, known: Sequence[str]) -> str:
    meant = get_close_matches(key, known, n=1, cutoff=0.7)
    return f' (did you mean "{meant[0]}"?)' if meant else ""
