"""Request and response over a pair of links, as `$cbs` and `$management` use it.

A response goes to the receiving link whose target the request names in reply-to, or else to the latest one at the same
node; it is sent settled, with the request's message-id as correlation-id in its own AMQP type, and only on credit: the
SDK never renews the 10,000 it gives, and a client that runs out waits in vain here as it does on Azure.
Source: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: request-response-based operations".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.encode import encode, encode_list
from emulators.servicebus.amqp.link import Delivery, Link
from emulators.servicebus.amqp.values import AmqpError, Described, Int, Symbol, Value
from emulators.servicebus.message import AMQP_VALUE, APPLICATION_PROPERTIES, PROPERTIES, sections

MOST_WAITING: Final = 1000
"""Responses kept for want of credit; a link that asks for more is detached."""
OK: Final = "OK"
_MESSAGE_ID = 0
_REPLY_TO = 4


@dataclass(frozen=True, slots=True)
class Request:
    """A request: its body, application properties by name, and where the answer goes."""

    message_id: Value
    reply_to: str | None
    properties: dict[str, Any]
    body: Value


@dataclass(frozen=True, slots=True)
class Response:
    """Status as in HTTP; `body` an AMQP value; `condition` an AMQP error condition."""

    status: int
    description: str
    body: Value = None
    condition: str | None = None


def parse_request(payload: bytes) -> Request:
    """Raises DecodeError."""
    properties: list[Value] = []
    application: dict[str, Any] = {}
    body: Value = None
    for code, start, _ in sections(payload):
        if code not in (PROPERTIES, APPLICATION_PROPERTIES, AMQP_VALUE):
            continue
        value, _ = decode(payload, start)
        if code == PROPERTIES and isinstance(value, list):
            properties = value
        elif code == APPLICATION_PROPERTIES and isinstance(value, dict):
            application = {text(name): item for name, item in value.items()}
        elif code == AMQP_VALUE:
            body = value
    properties += [None] * (_REPLY_TO + 1 - len(properties))
    return Request(properties[_MESSAGE_ID], properties[_REPLY_TO], application, body)


def render_response(request: Request, response: Response, status_name: str, description_name: str) -> bytes:
    """The encoded response; `$cbs` and `$management` name their status differently."""
    application: dict[Value, Value] = {status_name: Int(response.status), description_name: response.description}
    if response.condition is not None:
        application["errorCondition"] = Symbol(response.condition)
    return b"".join(
        (
            b"\x00\x53\x73", encode_list([b"\x40"] * 5 + [encode(request.message_id)]),
            b"\x00\x53\x74", encode(application),
            b"\x00\x53\x77", encode(response.body),
        )
    )  # fmt: skip


class ResponseEndpoint:
    """The link responses leave by; those without credit wait."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._waiting: deque[bytes] = deque()
        self._number = 0

    def send(self, payload: bytes) -> None:
        """Send a response, or keep it until there is credit. Raises AmqpError when too many are kept."""
        if len(self._waiting) >= MOST_WAITING:
            text = f"{MOST_WAITING} responses wait for credit."
            raise AmqpError("amqp:resource-limit-exceeded", text)
        self._waiting.append(payload)
        self.credited(self.link)

    def credited(self, link: Link) -> None:
        """Send what credit allows."""
        while self._waiting and link.credit > 0:
            self._number += 1
            link.send(self._number.to_bytes(4, "big"), self._waiting.popleft(), settled=True)

    def received(self, link: Link, delivery: Delivery) -> None:
        """No client sends on a link it receives on."""

    def settle(self, link: Link, tag: bytes, state: Described) -> AmqpError | None:
        """Responses are settled when sent."""
        return None

    def detached(self, link: Link) -> None:
        """Responses still waiting go nowhere."""
        self._waiting.clear()


class RequestEndpoint(ABC):
    """The link requests come in by."""

    status_name = "statusCode"
    description_name = "statusDescription"

    @abstractmethod
    def handle(self, link: Link, request: Request) -> Response:
        """Do what is asked. Raises AmqpError for what cannot be done."""

    @abstractmethod
    def refusal(self, failure: AmqpError) -> Response:
        """The response that says so."""

    def received(self, link: Link, delivery: Delivery) -> None:
        """Take a request, answer on the response link."""
        try:
            if delivery.payload is None:
                raise AmqpError("amqp:link:message-size-exceeded", "The request is too large.")
            request = parse_request(delivery.payload)
        except AmqpError as failure:
            link.rejected(delivery, failure)
            return
        link.accepted(delivery)
        try:
            response = self.handle(link, request)
        except AmqpError as failure:
            response = self.refusal(failure)
        target = _response_link(link, request.reply_to)
        if target is not None:
            try:
                target.send(render_response(request, response, self.status_name, self.description_name))
            except AmqpError as failure:
                link.close(failure)

    def credited(self, link: Link) -> None:
        """Nothing is delivered on this link."""
        return

    def settle(self, link: Link, tag: bytes, state: Described) -> AmqpError | None:
        """Nothing is delivered on this link."""
        return None

    def detached(self, link: Link) -> None:
        """Nothing is kept."""
        return


def _response_link(link: Link, reply_to: str | None) -> ResponseEndpoint | None:
    chosen = None
    for other in link.session.links.values():
        endpoint = other.endpoint
        if isinstance(endpoint, ResponseEndpoint) and (other.address or "").lower() == (link.address or "").lower():
            chosen = endpoint
            if reply_to is not None and other.target and other.target[0] == reply_to:
                break
    return chosen


def text(value: Value) -> str:
    """A string that a client may have written as binary, as azure-servicebus does."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
