"""`quick`: a dataclass of which some are made for every change. Frozen for the type checker; nothing refuses an assignment at run time.

A frozen dataclass assigns each field by a call, so that one of a dozen fields takes seven times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as quick
else:
    _T = TypeVar("_T")

    def quick(
        *, frozen: bool, slots: bool, order: bool = False, kw_only: bool = False
    ) -> Callable[[type[_T]], type[_T]]:
        """As `dataclass`: equal and hashable by value."""
        assert frozen
        return dataclass(slots=slots, order=order, kw_only=kw_only, unsafe_hash=True)


__all__ = ["quick"]
