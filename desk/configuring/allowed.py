"""How far an order may go: which variables it may name, and where its files may be. Pure.

Refuses what would send a secret of this installation to an address that the order chooses. The right to add an output must not become the right
to read what the stages know.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from desk.configuring.addresses import ENDS, has_hidden_part
from desk.configuring.hcl.document import Inner, Setting, plain_of, variables_named
from desk.configuring.hcl.literals import Env
from desk.configuring.secrets import secret

FOR_OUTPUTS: Final = "DSTREAM_OUTPUT_"
"""How variables begin that any order may name."""

_ADDRESSES: Final = frozenset((*ENDS, "management_endpoint", "transport", "tls", "ca_file", "proxy"))
"""Settings that say who gets the secrets of a block, or who may listen."""

_PATHS: Final = frozenset(
    (
        "root",
        "ca_file",
        "certificate_file",
        "key_file",
        "client_certificate",
        "client_key",
    )
)

_DEEPEST, _MOST_NAMES, _MOST_CHARACTERS = 10, 500, 65_536


@dataclass(frozen=True, slots=True)
class Allowed:
    """`variables`: those that an order may name besides. `files_under`: where its files may be; None: it names none."""

    variables: frozenset[str] = frozenset()
    files_under: str | None = None

    def problems(
        self, model: type[BaseModel] | None, present: Inner | None, asked: Mapping[str, Any], name: str
    ) -> Iterator[str]:
        """What an order may not. `present`: the block as it is. `asked`: its settings from now on, those that stay left out. `name`: dotted."""
        before = (
            {} if present is None else {each.name: each.value for each in present.entries if isinstance(each, Setting)}
        )
        changed = {key: value for key, value in asked.items() if before.get(key) != plain_of(value)}
        moved = sorted(_ADDRESSES & changed.keys())
        held = _variables(variables_named(before)) if not moved else set[str]()
        for variable in sorted(_variables(asked if moved else changed) - held - self.variables):
            if not variable.startswith(FOR_OUTPUTS):
                yield (
                    f"{name}: an order may not name the variable {variable}; begin its name with {FOR_OUTPUTS}, or start the console with "
                    f"--secret-variable {variable}"
                )
        if present is not None and moved:
            for entry in present.entries:
                hidden = secret(model, entry.name)
                partly = not hidden and isinstance(entry, Setting) and has_hidden_part(entry.value, entry.name)
                if (hidden and not _all_again(entry, asked)) or (partly and entry.name not in changed):
                    yield f"{name}.{entry.name} must be given again, because {', '.join(moved)} may change who gets it"
        for key, value in changed.items():
            if key in _PATHS and isinstance(value, str) and value and not self._under(value):
                yield f"{name}.{key} names a file {self._where}"

    @property
    def _where(self) -> str:
        if self.files_under is None:
            return "or a folder, which orders may not; start the console with --files-under FOLDER to allow those in it"
        return f"or a folder that is not under {self.files_under}"

    def _under(self, path: str) -> bool:
        """As it is written: where links lead is for the machine of the stage."""
        if self.files_under is None or not path.startswith("/"):
            return False
        base = os.path.normpath(self.files_under)
        return os.path.commonpath([base, os.path.normpath(path)]) == base


def too_much(asked: Any) -> str | None:
    """Why an order is larger than anybody needs; None if it is not. Each name costs a reading of its block."""
    size, names, level = 0, 0, [asked]
    for _ in range(_DEEPEST + 1):
        inner = list[Any]()
        for each in level:
            if isinstance(each, Mapping):
                names += len(each)
                size += sum(len(key) for key in each)
                inner += each.values()
            elif isinstance(each, list | tuple):
                size += len(each)
                inner += each
            else:
                size += len(str(each)) if isinstance(each, str) else 8
        level = inner
        if names > _MOST_NAMES:
            return f"an order may have {_MOST_NAMES} names of settings, those in maps and routes included"
        if size > _MOST_CHARACTERS:
            return f"an order may have {_MOST_CHARACTERS} characters"
    return f"an order may be nested {_DEEPEST} deep" if level else None


NOTHING: Final = Allowed()


def sent(model: type[BaseModel] | None, asked: Mapping[str, Any]) -> Iterator[str]:
    """For a person, which variables the output sends from now on."""
    for variable in sorted(_variables({key: each for key, each in asked.items() if secret(model, key)})):
        yield f"the value of the variable {variable} is sent to where this output goes"
    for key in sorted(_PATHS & asked.keys()):
        yield f"{key} is not looked at here, because only the stages must have it"


def _all_again(entry: Setting | Inner, asked: Mapping[str, Any]) -> bool:
    """Of a map each name, because what is not named in it stays."""
    if entry.name not in asked:
        return False
    given = asked[entry.name]
    held = {each.name for each in entry.entries} if isinstance(entry, Inner) else entry.value
    if given is None or not isinstance(held, dict | set):
        return True
    return isinstance(given, Mapping) and given.keys() >= set(held)


def _variables(value: Any) -> set[str]:
    if isinstance(value, Env):
        return {value.variable}
    if isinstance(value, Mapping):
        return {found for each in value.values() for found in _variables(each)}
    if isinstance(value, list | tuple):
        return {found for each in value for found in _variables(each)}
    return set()
