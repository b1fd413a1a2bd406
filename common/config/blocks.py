"""What kinds of blocks a model of settings has: with a type, repeated, with a label, or a map with free names. Reads no file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from common.config.by_type import ByType
from common.config.settings import MapBlock, Settings
from common.config.values import Block

LABEL: Final = "name"
"""The field of a block's model that holds its label."""

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Labelled:
    """Metadata of a field that holds the blocks `block "LABEL" { ... }`, beside the field of the block `block { ... }` without a label.

    The field is a tuple of models, each of which has the label in a field `name` that no file can set.
    """

    block: str


class FromLabel:
    """Metadata of the field of a model that holds the label of its block."""


@dataclass(slots=True)
class Labels:
    """The labels of the blocks inside one block."""

    _lines: dict[tuple[str, str], int] = field(default_factory=dict)

    def refused(self, block: Block) -> str | None:
        """Why `block` cannot have its label; None if it can."""
        label = str(block.label)
        first = self._lines.setdefault((block.name, label.lower()), block.line)
        if label.lower() == UNLABELLED:
            return f'"{label}" is the name of the {block.name} block without a label: choose another'
        if _LABEL.fullmatch(label) is None:
            return f'{block.name} "{label}": a label is 1 to 64 of the characters A-Z a-z 0-9 - _, and begins and ends with a letter or digit'
        if first != block.line:
            return f'{block.name} "{label}" is given twice (first on line {first})'
        return None


UNLABELLED: Final = "default"
"""The name of the block without a label."""


class BlockKind(NamedTuple):
    """A field that is a block. `model`: what it is validated as, or the base of `by_type`'s models. `repeats`: it may stand there many times."""

    model: type[BaseModel]
    by_type: ByType | None
    repeats: bool


def block_of(model: type[BaseModel], key: str) -> BlockKind | None:
    """What kind of block `key` is; None for a setting, an unknown key, or a field of blocks with labels."""
    declared = model.model_fields.get(key)
    if declared is None or any(isinstance(each, Labelled) for each in declared.metadata):
        return None
    return _kind_of(declared.annotation, declared.metadata)


def labelled(model: type[BaseModel], block: str) -> tuple[str, BlockKind] | None:
    """The field that holds the blocks `block "LABEL" { ... }`, and their kind; None when that block takes no label."""
    for name, declared in model.model_fields.items():
        if any(isinstance(each, Labelled) and each.block == block for each in declared.metadata):
            kind = _kind_of(declared.annotation, declared.metadata)
            assert kind is not None
            return name, kind
    return None


def _kind_of(annotation: Any, metadata: list[Any]) -> BlockKind | None:
    found = list(metadata)
    for candidate in (annotation, *get_args(annotation)):
        inner = candidate
        if get_origin(candidate) is Annotated:
            inner, *more = get_args(candidate)
            found += more
        if isinstance(inner, type) and get_origin(inner) is None and issubclass(inner, BaseModel):
            by_type = next((each for each in found if isinstance(each, ByType)), None)
            return BlockKind(inner, by_type, get_origin(annotation) is tuple)
    return None


def is_map(model: type[BaseModel], key: str) -> bool:
    """Whether `key` is a map with free names."""
    declared = model.model_fields.get(key)
    return declared is not None and any(isinstance(each, MapBlock) for each in declared.metadata)


def names_of(model: type[BaseModel]) -> set[str]:
    """Of the settings that a file may give, the older names included."""
    given = {name for name in model.model_fields if not not_of_files(model, name)}
    return {*given, *(model.older_names if issubclass(model, Settings) else ())}


def not_of_files(model: type[BaseModel], key: str) -> bool:
    """Whether `key` is a field that no file can set by its name."""
    declared = model.model_fields.get(key)
    return declared is not None and any(isinstance(each, Labelled | FromLabel) for each in declared.metadata)


def no_label(block: str) -> str:
    """The complaint about a label of a block that takes none."""
    return f'block "{block}" takes no label: write {block} {{ ... }}'
