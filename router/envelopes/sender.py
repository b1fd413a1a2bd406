"""A sender whose messages arrive in another envelope. Publishers and slots see the messages of the ingest queue and their places, and nothing else.

One message may become several: it is accepted when all of them are, and until then all are sent again. Their ids make duplicate detection remove
the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

from common.bus.ports import (
    MessageRefused,
    MessageTooLarge,
    OpenableSender,
    SendInterrupted,
    TimeLeft,
)
from common.bus.settings import OutputSettings
from common.message import Message
from router.envelopes.port import Converter
from router.envelopes.registry import converter_of


class NotConvertible(MessageRefused):
    """It is not a change as the ingester writes it. It was not sent; the entity did not answer."""

    by_entity = False


class _Places:
    """The messages to send, and for each the place of the one that it was made of."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._of: list[int] = []

    def add(self, at: int, made: Sequence[Message]) -> None:
        self.messages += made
        self._of += [at] * len(made)

    def original(self, at: int) -> int:
        return self._of[at]

    def accepted(self, accepted: Collection[int]) -> frozenset[int]:
        """The originals of which every message was accepted."""
        whole = set(self._of)
        whole.difference_update(of for at, of in enumerate(self._of) if at not in accepted)
        return frozenset(whole)


class ConvertingSender:
    """A `common.bus.ports.OpenableSender`."""

    def __init__(self, entity: str, inner: OpenableSender, converter: Converter, name: str) -> None:
        """`name`: of the envelope."""
        self._entity, self._inner, self._converter, self._name = entity, inner, converter, name

    def open(self) -> None:
        self._inner.open()

    def batch_bytes(self) -> int:
        return self._inner.batch_bytes()

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        """See the port. What comes before a message that cannot be converted is sent before it is refused: a session may stop there. Without
        anything before it, the link is opened: only a topic that is available refuses a message."""
        places = _Places()
        for at, message in enumerate(messages):
            try:
                places.add(at, self._converter.converted(message))
            except ValueError as error:  # NotNative, or a text that is not Unicode
                if places.messages:
                    self._send(messages, places, left)
                else:
                    self._inner.open()
                raise self._not_convertible(message, at, error) from error
        self._send(messages, places, left)

    def _send(self, messages: Sequence[Message], places: _Places, left: TimeLeft | None) -> None:
        """Raises what the sender raises, with the places of the messages that were given to `send`."""
        try:
            self._inner.send(places.messages, left=left)
        except SendInterrupted as error:
            error.accepted = places.accepted(error.accepted)
            raise
        except MessageRefused as error:
            error.at, error.accepted = places.original(error.at), places.accepted(error.accepted)
            error.refused = messages[error.at]
            if isinstance(error, MessageTooLarge):
                native = len(error.refused.body)
                error.message += f"; it has the envelope {self._name}, and its body in the queue has {native} bytes"
            raise

    def _not_convertible(self, message: Message, at: int, error: ValueError) -> NotConvertible:
        words = f"cannot be written in the envelope {self._name}: {error}"
        return NotConvertible(self._entity, message, words, at=at, accepted=range(at))

    def close(self) -> None:
        self._inner.close()


class Placed(Protocol):
    """A stream that has a place."""

    @property
    def destination(self) -> str: ...


_Stream = TypeVar("_Stream", bound=Placed)


def in_envelope(
    output: OutputSettings, senders: Callable[[_Stream], OpenableSender]
) -> Callable[[_Stream], OpenableSender]:
    """`senders` of the output's streams, each behind the converter of its envelope; unchanged for the native one, and for outputs that apply rows."""
    enveloped = output.enveloped
    converter = None if enveloped is None else converter_of(enveloped)
    if enveloped is None or converter is None:
        return senders
    return lambda stream: ConvertingSender(stream.destination, senders(stream), converter, enveloped.envelope)
