"""`$management` as clients reach it: the operations of `management`, behind the faults in force and paid in credits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulators.servicebus.amqp.link import Link
from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.entities.node import Node
from emulators.servicebus.faults.injection import Faults
from emulators.servicebus.throttle import MANAGEMENT, PEEKED, RECEIVED, SENT, CreditMeter

from .management import ManagementEndpoint
from .requests import Request, Response, text

_VENDOR: Final = "com.microsoft:"
_MESSAGES: Final = {"peek-message": PEEKED, "receive-by-sequence-number": RECEIVED}
_ENTITIES: Final = frozenset(("add-rule", "remove-rule", "enumerate-rules"))
_SCHEDULE: Final = "schedule-message"


class MeteredManagement(ManagementEndpoint):
    """Management of the entity at `path`, in lower case."""

    def __init__(
        self,
        path: str,
        find: Callable[[], Node],
        clock: Callable[[], int],
        permitted: Callable[[str], bool],
        faults: Faults,
        meter: CreditMeter,
    ) -> None:
        super().__init__(find, clock, permitted)
        self._path = path
        self._faults = faults
        self._meter = meter

    def refusal(self, failure: AmqpError) -> Response:
        """503 for a busy server."""
        if failure.condition == "com.microsoft:server-busy":
            return Response(503, failure.description, condition=failure.condition)
        return super().refusal(failure)

    def handle(self, link: Link, request: Request) -> Response:
        """Raises AmqpError."""
        name = text(request.properties.get("operation", "")).removeprefix(_VENDOR)
        if name in _MESSAGES or name in _ENTITIES or name == _SCHEDULE:
            self._meter.admit()
        if name == _SCHEDULE:
            self._faults.sending(self._path)
        else:
            self._faults.asking(self._path)
        response = super().handle(link, request)
        if name in _MESSAGES:
            self._meter.charge(_MESSAGES[name], _items(response.body, "messages"))
        elif name == _SCHEDULE:
            self._meter.charge(SENT, _items(response.body, "sequence-numbers"))
        elif name in _ENTITIES:
            self._meter.charge(MANAGEMENT)
        return response


def _items(body: Value, name: str) -> int:
    return len(body.get(name, ())) if isinstance(body, dict) else 0
