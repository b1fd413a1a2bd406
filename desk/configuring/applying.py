"""Settings of an order into a block: those that are named are set, null takes one away, and every other stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from common.config.blocks import block_of
from common.config.settings import Settings
from common.errors import ConfigurationError
from desk.configuring.hcl.document import Inner, Setting
from desk.configuring.hcl.draft import Draft, NewBlock, Path


def apply_settings(draft: Draft, path: Path, model: type[BaseModel] | None, settings: Mapping[str, Any]) -> None:
    """Into the block at `path`."""
    for name, value in settings.items():
        found = _present(draft, path, model, name)
        if value is None:
            if found is not None:
                draft.remove(found)
        elif found is not None and isinstance(draft.at(found), Inner) and isinstance(value, Mapping):
            kind = None if model is None else block_of(model, name)
            apply_settings(draft, found, None if kind is None else kind.model, value)
        elif found is not None:
            entry = draft.at(found)
            assert isinstance(entry, Setting)
            draft.put(path, entry.name, _merged(entry.value, value))
        elif isinstance(value, Mapping) and model is not None and block_of(model, name) is not None:
            draft.add_block(path, new_block(name, None, block_of_model(model, name), value))
        else:
            draft.put(path, name, _without_null(value))


def new_block(name: str, label: str | None, model: type[BaseModel] | None, settings: Mapping[str, Any]) -> NewBlock:
    """A block with these settings; those that are null are left out."""
    return NewBlock(
        name,
        label,
        {
            key: new_block(key, None, block_of_model(model, key), value)
            if isinstance(value, Mapping) and model is not None and block_of(model, key) is not None
            else _without_null(value)
            for key, value in settings.items()
            if value is not None
        },
    )


def block_of_model(model: type[BaseModel] | None, name: str) -> type[BaseModel] | None:
    kind = None if model is None else block_of(model, name)
    return None if kind is None else kind.model


def refused(problems: list[str], hint: str | None = None) -> None:
    """Raises ConfigurationError if there are any."""
    if problems:
        raise ConfigurationError(problems, hint=hint)


def _present(draft: Draft, path: Path, model: type[BaseModel] | None, name: str) -> Path | None:
    """The setting in the file, under its present name or an older one."""
    older = model.older_names if model is not None and issubclass(model, Settings) else {}
    return next(draft.paths(path, name, *(old for old, new in older.items() if new == name), labelled=False), None)


def _merged(old: Any, new: Any) -> Any:
    """Maps are changed name by name: names that are not shown to a person, because their values are secret, must not get lost."""
    if not isinstance(old, dict) or not isinstance(new, Mapping):
        return new
    return _without_null({**old, **new})


def _without_null(value: Any) -> Any:
    return {key: each for key, each in value.items() if each is not None} if isinstance(value, Mapping) else value


def numbers(lines: Iterator[int] | list[int]) -> str:
    """Lines for a person."""
    found = sorted(lines)
    return f"line {found[0]}" if len(found) == 1 else f"lines {', '.join(map(str, found))}"
