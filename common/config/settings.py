"""The base of every model of settings, and settings that are secret. Reads nothing; `common/config/bind.py` makes settings of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, PrivateAttr, SecretStr, ValidationInfo, model_validator

from common.config.values import Problem, Unset, complain

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """A setting that is worth a line in the log and is not a mistake: its older name is used, or it has no effect.

    `line`: 0 where there are no lines. `event`: for the log. `setting`: its name as the file has it, dotted. `hint`: what to write instead.
    """

    line: int
    event: str
    setting: str
    hint: str


class MapBlock:
    """Metadata of a field that is a map with free names: `name { key = value }` is read like `name = { key = value }`."""


class Settings(BaseModel):
    """Base of every model of settings: frozen, strict, no unknown keys, and no input in pydantic's own errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, arbitrary_types_allowed=True
    )

    older_names: ClassVar[Mapping[str, str]] = {}
    """Older names of settings that a file may still use, each with the present one."""

    _remarks: tuple[Remark, ...] = PrivateAttr(default=())

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """About settings of the file that the settings come from, inner blocks included."""
        return self._remarks

    def with_remarks(self, remarks: Iterable[Remark]) -> Self:
        self._remarks = tuple(remarks)
        return self

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterable[tuple[Location, str]]:
        """Where settings of this block contradict each other: (path, complaint) pairs. `given`: plain data, parts of which may be wrong."""
        return ()

    @model_validator(mode="after")
    def _without_conflicts(self, info: ValidationInfo) -> Self:
        """For settings made in code; `bind` reports a file's conflicts with their lines."""
        if not (info.context or {}).get("checked") and (wrong := next(iter(self.conflicts(vars(self))), None)):
            raise ValueError(" ".join([*map(str, wrong[0]), wrong[1]]))
        return self


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
