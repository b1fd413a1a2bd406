"""Where in a partition a consumer begins: the filter of its link, as Microsoft's clients write it.

Refuses another filter, and a position behind the last event, as the service does.
Sources: azure.github.io/amqpnetlite "Using AMQP.Net Lite with Azure Event Hubs", filter; azure-eventhub, event_position_selector;
nicolgit/azure-firewall-mon issue 21, for the words about a position that there is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from emulators.servicebus.amqp.values import AmqpError, Value

SELECTOR: Final = "apache.org:selector-filter:string"
_EXPRESSION: Final = re.compile(
    r"amqp\.annotation\.x-opt-(offset|sequence-number|enqueued-time)\s*(>=|>)\s*'(-?\d{1,19}|@latest)'"
)

By = Literal["offset", "sequence-number", "enqueued-time"]


@dataclass(frozen=True, slots=True)
class Position:
    """`value`: None for behind the last event. Times in milliseconds since the Unix epoch."""

    by: By = "offset"
    value: int | None = -1
    inclusive: bool = False

    def admits(self, value: int) -> bool:
        """Is an event with this offset, number or time at the position, or behind it?"""
        return self.value is not None and (value >= self.value if self.inclusive else value > self.value)


def position_of(selector: Value) -> Position:
    """Of a link's filter; without one it is the beginning. Raises AmqpError."""
    if selector is None:
        return Position()
    text = selector.decode("utf-8", "replace") if isinstance(selector, bytes) else str(selector)
    found = _EXPRESSION.fullmatch(text.strip())
    if found is None or (found[3] == "@latest" and found[1] != "offset"):
        raise AmqpError("amqp:invalid-field", f"The filter expression {text!r} is not supported.")
    by: By = found[1]  # type: ignore[assignment]  # the expression has no other
    return Position(by, None if found[3] == "@latest" else int(found[3]), found[2] == ">=")


def beyond(what: str, value: int, last: int) -> AmqpError:
    """What a client is told that asks for an event which is not there yet."""
    text = f"The supplied {what} '{value}' is invalid. The last {what} in the system is '{last}'"
    return AmqpError("com.microsoft:argument-error", text)
