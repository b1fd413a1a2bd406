"""The envelopes by their names in `router.output.envelope`. The one place to add another; `common/bus/settings.py` has the names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from common.bus.settings import EnvelopedOutputSettings, EnvelopeName
from router.envelopes.changes import Changes
from router.envelopes.cloudevents import Binary, Structured
from router.envelopes.debezium import Debezium
from router.envelopes.port import Converter


def _cloudevents(output: EnvelopedOutputSettings) -> Converter:
    return Binary() if output.cloudevents_mode == "binary" else Structured()


_ENVELOPES: Final[Mapping[EnvelopeName, Callable[[EnvelopedOutputSettings], Converter] | None]] = {
    "dstream": None,
    "cloudevents": _cloudevents,
    "debezium": lambda output: Debezium(tombstones=output.tombstones),
    "changes": lambda output: Changes(),
}


def converter_of(output: EnvelopedOutputSettings) -> Converter | None:
    """None for the native envelope, in which the queue holds every change."""
    make = _ENVELOPES[output.envelope]
    return None if make is None else make(output)
