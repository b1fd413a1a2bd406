"""How faults are named on a command line, `NAME[:ARGUMENT,...]`, by either emulator. Knows no fault itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

Fault = TypeVar("Fault")
Named = tuple[Callable[..., Fault], tuple[Callable[[str], object], ...], str]
"""A fault, the types of its arguments, and how people write them."""


def usage(names: Mapping[str, Named[Fault]]) -> str:
    """Every fault's name with its arguments."""
    return ", ".join(_written(name, wanted) for name, (_, _, wanted) in names.items())


def parse(text: str, names: Mapping[str, Named[Fault]], *, last_holds_commas: bool) -> Fault:
    """A fault as a command line names it. Raises ValueError."""
    name, _, given = text.partition(":")
    if name not in names:
        raise ValueError(f"there is no fault {name!r}; the faults are {usage(names)}")
    make, types, wanted = names[name]
    parts = given.split(",", max(len(types) - 1, 0) if last_holds_commas else -1) if given else []
    how = f"the fault {name} is written {_written(name, wanted)}"
    if len(parts) > len(types):
        raise ValueError(how)
    try:
        return make(*(read(part) for read, part in zip(types, parts, strict=False)))
    except (TypeError, ValueError, re.error) as error:
        raise ValueError(f"{how}: {error}") from None


def _written(name: str, wanted: str) -> str:
    return f"{name}:{wanted}" if wanted else name
