"""The body of a management request, read field by field: each has the type the documentation names, or the request fails.

A failure is amqp:invalid-field (status 400) and names the field and what it must be. Integers are taken in every width, and
strings also as binary, because clients differ there; anything else is refused.
Source: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: request-response-based operations".
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from emulators.servicebus.amqp.values import AmqpError, Timestamp, Value

_MISSING: Final = object()


def invalid(field: str, problem: str) -> AmqpError:
    """The answer to a field that is not as it must be."""
    return AmqpError("amqp:invalid-field", f"The field '{field}' of the request {problem}.")


def user_properties(given: Value, field: str) -> dict[str, Value]:
    """A map of user properties in a request or an outcome, by name. Raises AmqpError, which names the field, for another value."""
    if not isinstance(given, dict):
        raise invalid(field, "must be a map")
    for name, value in given.items():
        if not isinstance(name, str):
            raise invalid(field, "must have strings for keys")
        if isinstance(value, list | dict):
            raise invalid(f"{field}.{name}", "must be of a simple type")
    return {str(name): value for name, value in given.items()}


class Fields:
    """A map of a request. `of` names the map for error messages; the body itself has no name.

    Every method raises AmqpError for a value of another type; those without `optional` also for one that is missing or null.
    """

    def __init__(self, value: Value, of: str = "") -> None:
        if not isinstance(value, dict):
            if of:
                raise invalid(of, "must be a map")
            raise AmqpError("amqp:invalid-field", "The body of the request must be a map in an amqp-value section.")
        self._values: dict[str, Any] = {
            _string(name): item for name, item in value.items() if isinstance(name, str | bytes)
        }
        self._of = of

    def __contains__(self, name: str) -> bool:
        """Is it there, and not null?"""
        return self._values.get(name) is not None

    def called(self, name: str) -> str:
        """The field's name in error messages."""
        return f"{self._of}.{name}" if self._of else name

    def _required(self, name: str) -> Value:
        value = self._values.get(name, _MISSING)
        if value is _MISSING or value is None:
            raise invalid(self.called(name), "is missing")
        return value

    # -- one value

    def text(self, name: str) -> str:
        """A string."""
        value = self._required(name)
        if not isinstance(value, str | bytes):
            raise invalid(self.called(name), "must be a string")
        return _string(value)

    def optional_text(self, name: str) -> str | None:
        """A string, or None."""
        return self.text(name) if name in self else None

    def integer(self, name: str, least: int = 0) -> int:
        """An integer of any width, not below `least`."""
        value = self._required(name)
        if not _is_integer(value):
            raise invalid(self.called(name), "must be an integer")
        if value < least:
            raise invalid(self.called(name), f"must not be below {least}")
        return int(value)

    def moment(self, name: str) -> int:
        """A timestamp, in milliseconds since the Unix epoch."""
        value = self._required(name)
        if not isinstance(value, Timestamp):
            raise invalid(self.called(name), "must be a timestamp")
        return int(value)

    def binary(self, name: str) -> bytes:
        """Octets."""
        value = self._required(name)
        if not isinstance(value, bytes):
            raise invalid(self.called(name), "must be binary")
        return value

    def nullable_binary(self, name: str) -> bytes | None:
        """Octets or null, but there."""
        if name in self._values and self._values[name] is None:
            return None
        return self.binary(name)

    def value(self, name: str) -> Value:
        """Anything but null."""
        return self._required(name)

    def fields(self, name: str) -> Fields:
        """A map."""
        return Fields(self._required(name), self.called(name))

    # -- several

    def _several(self, name: str, what: str) -> list[Value]:
        value = self._required(name)
        if not isinstance(value, list):
            raise invalid(self.called(name), f"must be an array of {what}")
        return value

    def integers(self, name: str) -> list[int]:
        """An array of integers."""
        values = self._several(name, "long")
        if not all(_is_integer(value) for value in values):
            raise invalid(self.called(name), "must be an array of long")
        return [int(value) for value in values]

    def uuids(self, name: str) -> list[UUID]:
        """An array of uuids."""
        values = self._several(name, "uuid")
        if not all(isinstance(value, UUID) for value in values):
            raise invalid(self.called(name), "must be an array of uuid")
        return values

    def maps(self, name: str) -> list[Fields]:
        """A list of maps."""
        values = self._several(name, "map")
        return [Fields(value, f"{self.called(name)}[{index}]") for index, value in enumerate(values)]


def _string(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _is_integer(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool | Timestamp)
