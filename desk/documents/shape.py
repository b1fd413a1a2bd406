"""What all documents have in common."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

T = TypeVar("T")

Reason = Annotated[str, StringConstraints(strip_whitespace=True, max_length=400)]
"""Why a person does it; kept in the audit log."""

_NUMBER: Final = re.compile(r"\s*[-+]?\d+(\.\d*)?\s*")


def _written(value: Any) -> Any:
    if isinstance(value, (int, float)) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError("a time is written as in 2026-11-23T03:00:00Z (ISO 8601), not as a number")
    return value


Time = Annotated[datetime, BeforeValidator(_written)]
"""A number could be seconds, milliseconds or a year, so it is none."""


class Document(BaseModel):
    """Never changed; unknown keys are refused, so that a slip of the pen in a request is an error and not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Unknown(Document):
    """Something that could not be read: everything else is right without it."""

    what: str = Field(description="The part that is unknown.")
    text: str = Field(description="Why.")
    remedy: str | None = Field(default=None, description="What a person can do.")


class Page(Document, Generic[T]):
    """A part of a longer list."""

    items: list[T]
    next: str | None = Field(
        default=None, description="Give it back as `after` for the next page; null: this was the last."
    )
    total: int | None = Field(default=None, description="How many there are on all pages, where that is known.")
