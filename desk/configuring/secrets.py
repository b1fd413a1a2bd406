"""Which settings are secret, and where a file holds the value of one. A value never leaves this module: it is masked where the file is shown.

Refuses values of secrets in what is asked for: a secret is the name of an environment variable, or it does not enter the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, SecretStr

from common.config.blocks import block_of, is_map, labelled
from common.config.settings import Settings
from common.observability.logs import MASK
from common.sqladdress import SqlAddress
from desk.configuring.addresses import WHOLE, address_shown, hidden_in_file, masked_again
from desk.configuring.commented import IN_COMMENTS, comments_of
from desk.configuring.hcl.document import Inner, Setting, shown, variables_named
from desk.configuring.hcl.literals import NAME, Env
from desk.configuring.hcl.original import Splice
from desk.configuring.hcl.structure import Attribute, Block, Structure, structure
from ingester.blocks.spark import SparkSettings
from ingester.settings import IngesterSettings
from ingester.shape.mask import Mask
from router.settings import RouterBlock

ROOTS: Mapping[str, type[BaseModel]] = {"ingester": IngesterSettings, "router": RouterBlock, "publisher": RouterBlock}

PLAIN_MASK = re.compile(r"redact|null|truncate:\d+|")
"""Masks that hold no secret."""

_VARIABLE = re.compile(r"(?:hash:[A-Za-z0-9-]+:)?\{\{-?\s*env\s*\(?\s*(?:\\?\"[^\"]*\"|'[^']*')\s*\)?\s*-?\}\}")
_DEFAULTED = re.compile(
    r"""\{\{-?\s*env\s*\(\s*(?:"[^"]*"|'[^']*')\s*,\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\)\s*-?\}\}"""
)
_KEYS = re.compile(
    r"((?:SharedAccessKey|SharedAccessSignature|AccountKey|Password|Pwd)\s*=\s*)(?!\{\{)([^;\"'\s]+)", re.IGNORECASE
)
_LOGIN = re.compile(r"(://[^:/@\s\"]*:)([^/\s\"]+)(?=@)")
_LOGIN_SHOWN = re.compile(r"(://[^:/@\s\"]*:)([^\s\"]+)(?=@)")
"""To the last @ of a word: a password may have @ and / too."""
_WORDED = re.compile(
    r"(password|passwd|secret|token|bearer|sig=|code=)(.*?\S)(?=[ \t]*(?:\*/|\r?$))", re.IGNORECASE | re.MULTILINE
)
_NAMED = re.compile(
    r"((?:\w*(?:password|secret|token|key|seed|credentials?|connection_string|proxy|mask)\w*)\s*[=:]\s*)(?!\s*\"?\{\{)(\S.*)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"pass|secret|token|key|seed|credential|connection_string|proxy|salt", re.IGNORECASE)


class TextMap(BaseModel):
    """Stands for the model of a block that is a map. Its values are as secret as the setting."""


def secret(model: type[BaseModel] | None, name: str) -> bool:
    """Whether the values of a setting are secret. Where the setting is not known: whether its name sounds so."""
    if model is SparkSettings and name == "conf":
        return True  # Spark's own settings hold keys and passwords too
    older = model.older_names if model is not None and issubclass(model, Settings) else {}
    declared = None if model is None else model.model_fields.get(older.get(name, name))
    if declared is None:
        return _WORDS.search(name) is not None
    return any(each in (SecretStr, SqlAddress, Mask) for each in _types(declared.annotation, declared.metadata))


def holds_secret(text: str) -> bool:
    """Whether a text of a setting that is not secret shows a password or a key all the same."""
    return _KEYS.search(text) is not None or _LOGIN.search(text) is not None


def model_inside(model: type[BaseModel] | None, block: Inner) -> type[BaseModel] | None:
    """Of a block inside one of `model`; None if nobody knows it."""
    if model is None:
        return None
    kind = block_of(model, block.name)
    if block.label is not None:
        found = labelled(model, block.name)
        kind = None if found is None else found[1]
    if kind is None:
        return TextMap if is_map(model, block.name) else None
    if kind.by_type is None:
        return kind.model
    named = kind.by_type.named({"type": value} if (value := block.value_of("type")) is not None else {})
    return None if named is None else kind.by_type.models[named]


def settings_shown(model: type[BaseModel] | None, block: Inner, besides: Iterable[str] = ()) -> dict[str, Any]:
    """The settings of a block, without the values of secrets."""
    found: dict[str, Any] = {}
    for entry in block.entries:
        if entry.name in besides:
            continue
        if isinstance(entry, Inner):
            inner = model_inside(model, entry)
            if inner is TextMap:
                found[entry.name] = _without_secrets(
                    {each.name: each.value for each in entry.entries if isinstance(each, Setting)},
                    entry.name,
                    hidden=secret(model, entry.name),
                )
            else:
                found[entry.name] = settings_shown(inner, entry)
        elif (seen := _without_secrets(entry.value, entry.name, hidden=secret(model, entry.name))) is not _HIDDEN:
            found[entry.name] = seen
    return found


def masked(text: str, document: Inner) -> str:
    """The file's text (with line ends of one character), with a mask in the place of each value of a secret."""
    for splice in reversed(_united(text, _hidden(text, document))):
        text = text[: splice.start] + splice.text + text[splice.end :]
    return text


def _hidden(text: str, document: Inner) -> Iterator[Splice]:
    """Each place of a secret as each rule sees it. They may overlap."""
    found = structure(text)
    yield from _spans(text, found, found.root, document, None)
    for pattern in (_KEYS, _LOGIN_SHOWN):
        yield from (Splice(*each.span(2), MASK) for each in pattern.finditer(text))
    for start, end in comments_of(text, found):
        for pattern in (_WORDED, _NAMED, *IN_COMMENTS):
            yield from (Splice(*each.span(2), MASK) for each in pattern.finditer(text, start, end))


def _united(text: str, splices: Iterable[Splice]) -> list[Splice]:
    """Splices that do not overlap, and take away each character that any of `splices` does."""
    found = list[Splice]()
    for each in sorted(splices, key=lambda splice: (splice.start, -splice.end)):
        if not found or each.start >= found[-1].end:
            found.append(each)
        elif each.end > found[-1].end:
            found[-1] = Splice(found[-1].start, each.end, MASK + ("\n" if text[each.end - 1] == "\n" else ""))
    return found


def _types(annotation: Any, metadata: Iterable[Any] = ()) -> Iterator[Any]:
    yield annotation
    for each in get_args(annotation):
        yield from _types(each)


_HIDDEN = object()


def _without_secrets(value: Any, name: str, *, hidden: bool) -> Any:
    if isinstance(value, dict):
        seen = {key: _without_secrets(each, name, hidden=hidden) for key, each in value.items()}
        return {key: each for key, each in seen.items() if each is not _HIDDEN}
    found = shown(address_shown(value, name))
    if hidden and not isinstance(found, dict) and not (isinstance(value, str) and PLAIN_MASK.fullmatch(value)):
        return _HIDDEN
    return _HIDDEN if isinstance(found, str) and holds_secret(found) else found


def _spans(
    text: str, found: Structure, block: Block, read: Inner, model: type[BaseModel] | None, hidden: bool = False
) -> Iterator[Splice]:
    for entry, meant in zip(block.entries, read.entries, strict=True):
        if isinstance(entry, Block):
            assert isinstance(meant, Inner)
            inner = ROOTS.get(entry.name) if not block.name else model_inside(model, meant)
            of_map = inner is TextMap and secret(model, entry.name)
            yield from _spans(text, found, entry, meant, inner, hidden or of_map)
        elif hidden or secret(model, entry.name):
            yield from _of_attribute(text, entry)
        else:
            held = entry.items
            pieces = [(entry.value, entry.end)] if held is None else [(each.begin, each.end) for each in held]
            for start, end in pieces:
                for one, other in hidden_in_file(text[start:end], entry.name):
                    yield Splice(start + one, start + other, MASK)


def _of_attribute(text: str, attribute: Attribute) -> Iterator[Splice]:
    held = attribute.items
    pieces = [(attribute.value, attribute.end)] if held is None else [(each.begin, each.end) for each in held]
    for start, end in pieces:
        piece = text[start:end]
        bare = piece.strip().strip('"')
        if piece.strip() == "null" or PLAIN_MASK.fullmatch(bare) or _VARIABLE.fullmatch(bare):
            continue
        if (defaulted := _DEFAULTED.fullmatch(bare)) is not None:
            begin = text.index(bare, start) + defaulted.start(1)
            yield Splice(begin, begin + len(defaulted[1]), f'"{MASK}"')
        else:
            yield Splice(start, end, f'"{MASK}"' + ("\n" if piece.endswith("\n") else ""))


def asked_for(
    model: type[BaseModel] | None, settings: Mapping[str, Any], name: str, present: Inner | None = None
) -> tuple[dict[str, Any], list[str]]:
    """The settings of an order, with an `Env` for each `{"env": NAME}`, and what is wrong with them. `name`: of the block, dotted. `present`: the
    block as it is; what comes back as a person was shown it stays as it is."""
    wrong = [f"{name}: {key!r} is no name of a setting" for key in settings if not NAME.fullmatch(key)]
    before = {} if present is None else {each.name: each for each in present.entries}
    found = {key: _asked(model, key, value, before.get(key), f"{name}.{key}", wrong) for key, value in settings.items()}
    return found, wrong


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _asked(
    model: type[BaseModel] | None, key: str, value: Any, present: Setting | Inner | None, dotted: str, wrong: list[str]
) -> Any:
    kind = None if model is None else block_of(model, key)
    if kind is not None and isinstance(value, Mapping):
        found, more = asked_for(kind.model, value, dotted, present if isinstance(present, Inner) else None)
        wrong += more
        return found
    hidden = secret(model, key)
    held = _held(present)
    if held is not None:
        if isinstance(held, dict) and isinstance(value, Mapping):
            kept = {
                name: each
                for name, each in value.items()
                if name in held and _same_as_shown(each, held[name], key, hidden)
            }
            rest = {name: each for name, each in value.items() if name not in kept}
            checked = _value(rest, dotted, wrong, hidden=hidden)
            return {name: variables_named(held[name]) if name in kept else checked[name] for name in value}
        if _same_as_shown(value, held, key, hidden):
            return variables_named(held)
    return _value(value, dotted, wrong, hidden=hidden, outside=True, named=key in WHOLE)


def _held(present: Setting | Inner | None) -> Any:
    """What the file has, if it has anything; a map that is written as a block as well."""
    if isinstance(present, Inner):
        return {each.name: each.value for each in present.entries if isinstance(each, Setting)}
    return None if present is None else present.value


def _same_as_shown(value: Any, held: Any, name: str, hidden: bool) -> bool:
    """Whether a value comes back as a person was shown it: with a mask, or with the expression that the file has."""
    seen = _without_secrets(held, name, hidden=hidden)
    return seen is not _HIDDEN and seen != held and seen == value


def _value(
    value: Any, dotted: str, wrong: list[str], *, hidden: bool, outside: bool = False, named: bool = False
) -> Any:
    if isinstance(value, Mapping) and set(value) == {"env"}:
        variable = value["env"]
        if isinstance(variable, str) and _NAME.fullmatch(variable):
            if not hidden and not named:
                wrong.append(f"{dotted} is not secret: give the value itself, and not the variable that has it")
            return Env(variable)
        if not outside or isinstance(variable, str):
            wrong.append(f"{dotted}: env must be the name of an environment variable")
            return None
    if isinstance(value, Mapping):
        return {key: _value(each, f"{dotted}.{key}", wrong, hidden=hidden) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(each, dotted, wrong, hidden=hidden) for each in value]
    if isinstance(value, str) and (masked_again(value, dotted.rpartition(".")[2]) or (hidden and MASK in value)):
        wrong.append(
            f"{dotted} holds {MASK}, which stands for what is not shown: give the whole value, or leave {dotted} out"
        )
    elif isinstance(value, str) and ((hidden and not PLAIN_MASK.fullmatch(value)) or holds_secret(value)):
        wrong.append(
            f'{dotted} is secret: give {{"env": "NAME"}}, the variable that has it, so that it does not enter the file'
        )
    return value


def literal_secrets(text: str, document: Inner) -> list[tuple[int, int]]:
    """Where values of secrets stand in a text."""
    return [(each.start, each.end) for each in _hidden(text, document)]
