"""A part that this console does not have. Every question to it is answered with why, and with what would help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from desk.console.refusals import Missing


class Absent:
    """Stands for any port. `why`: in the words of `Missing`."""

    def __init__(self, why: str, hint: str | None = None) -> None:
        self._why, self._hint = why, hint

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._missing

    def _missing(self, *_: object, **__: object) -> NoReturn:
        raise Missing(self._why, hint=self._hint)
