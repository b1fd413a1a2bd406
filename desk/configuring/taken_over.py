"""Which stage takes an edit over, and when: what docs/change.md promises, in a sentence for a person. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Of = Literal["source", "output"]

_INGESTER = "the ingester takes it over within five seconds, without a restart"
_TOPIC = "the router opens the topic of a new table before its first message"
_ROUTER = (
    "the router takes it over within half a minute, without a restart; while it cannot use the new settings the previous ones stay in force, "
    "and its /readyz says why"
)


def sentence(of: Sequence[Of], *, delay: str) -> str:
    """`delay`: of the place, where it is not at once."""
    told = [_INGESTER, _TOPIC] if "source" in of else []
    told += [_ROUTER] if "output" in of else []
    whole = "; ".join(told)
    return f"{delay}; then {whole}" if delay else whole
