"""Sending to one topic: records in pieces, each accepted as a whole before the next, and the one message that is refused.

Order: one link has one request on its way to a broker, a link ends with the first message that is refused, and a link about which there is doubt is
thrown away. So nothing of a session is accepted behind a message that is not, and what is sent again has the same id.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException

from common.bus.ports import (
    MessageRefused,
    MessageTooLarge,
    MessageUnwritable,
    OutOfTime,
    SendInterrupted,
    TimeLeft,
    for_ever,
)
from common.errors import DStreamError, EntityUnavailable, PermanentError, TransientError
from common.message import Message
from router.outputs.kafka.admin import Admin
from router.outputs.kafka.errors import MISSING, REFUSED, TOO_LARGE, Fault, of_topic
from router.outputs.kafka.link import Batch, Link, Mask, fault_of
from router.outputs.kafka.links import Links
from router.outputs.kafka.records import KeyOf, Record, record
from router.outputs.rows.keys import NoSuchColumn

USUAL: Final = 1_000_000
"""Bytes of a batch that any broker takes unless a topic's `max.message.bytes` was lowered (its default is 1,048,588)."""

_SMALLEST: Final = 4_096

_LIMIT = "max.message.bytes"


_LINKS: Final = 5
"""Links that may be ended by others during one send."""


class _EndedByAnother(Exception):
    """The link was ended for a message of another topic. What it held was not sent, or may be sent again."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the senders of an output share. `limits_hidden`: whether the cluster has refused to show a topic's settings, so nobody asks again."""

    links: Links
    admin: Admin
    seconds: float
    mask: Mask
    compresses: bool
    proven: bool = False
    limits_hidden: list[str] = field(default_factory=list)


@dataclass
class _Sending:
    """One call of `send`. `alone`: from now on one message at a time, because a batch was refused and it is not known for which message."""

    messages: Sequence[Message]
    left: TimeLeft
    until: float
    accepted: set[int] = field(default_factory=set)
    alone: bool = False

    def seconds(self) -> float:
        return min(self.until - time.monotonic(), self.left())


class KafkaSender:
    """A `common.bus.ports.OpenableSender`."""

    def __init__(self, topic: str, shared: Shared, key_of: KeyOf) -> None:
        self._topic, self._shared, self._key_of = topic, shared, key_of
        self._opened = False
        self._limit: int | None = None
        self._piece_bytes: int | None = None

    def __repr__(self) -> str:
        return f"KafkaSender({self._topic!r})"

    def open(self) -> None:
        self._open(self._shared.seconds)

    def batch_bytes(self) -> int:
        return min(USUAL, self._limit or USUAL)

    def close(self) -> None:
        """The link is the output's."""
        self._opened = False

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        sending = _Sending(messages, left or for_ever, time.monotonic() + self._shared.seconds)
        if not messages:
            return
        if sending.seconds() <= 0:
            raise OutOfTime(f"sending to {self._topic}: nothing more may be sent")
        try:
            if not self._opened:
                self._open(sending.seconds())
            self._send(sending)
        except MessageRefused:
            raise
        except DStreamError as error:
            self._opened = False
            if isinstance(error, TransientError) and sending.left() <= 0:
                accepted = sending.accepted
                raise OutOfTime(f"sending to {self._topic}: nothing more may be sent", accepted=accepted) from None
            raise

    def _open(self, seconds: float) -> None:
        found = self._shared.admin.topics([self._topic], seconds=seconds)[self._topic]
        if isinstance(found, Fault):
            raise of_topic("opening", self._topic, found, proven=self._shared.proven)
        if found.may_write is False:
            fault = Fault("TOPIC_AUTHORIZATION_FAILED", "the user has no right to write there")
            raise of_topic("opening", self._topic, fault, proven=self._shared.proven)
        self._measure(seconds)
        self._opened = True

    def _measure(self, seconds: float) -> None:
        """The topic's limit, where the cluster shows it."""
        if self._limit is not None or self._shared.limits_hidden:
            return
        found = self._shared.admin.settings([self._topic], seconds=seconds)[self._topic]
        if isinstance(found, Fault):
            self._shared.limits_hidden.append(found.name)
        elif (text := found.get(_LIMIT, "")).isdigit():
            self._limit = int(text)
            if self._limit < USUAL:
                self._piece_bytes = max(_SMALLEST, self._limit - self._limit // 10)

    def _send(self, sending: _Sending) -> None:
        """In pieces. What comes before a message that cannot be sent is sent before it is refused."""
        piece, size, room = dict[int, Record](), 0, self._room(sending)
        for at, message in enumerate(sending.messages):
            try:
                made = self._record(sending, at, message)
            except MessageRefused as refusal:
                self._flush(piece, sending)
                refusal.accepted = frozenset(sending.accepted)
                raise
            except PermanentError as error:
                self._flush(piece, sending)
                raise _interrupted(error, sending) from error
            size += made.most
            if size > room and piece:
                self._flush(piece, sending)
                piece, size, room = {}, made.most, self._room(sending)
            piece[at] = made
        self._flush(piece, sending)

    def _room(self, sending: _Sending) -> int:
        """Bytes of a piece that has several records: a batch that is too large is refused as a whole."""
        return 0 if sending.alone else self._piece_bytes or USUAL

    def _record(self, sending: _Sending, at: int, message: Message) -> Record:
        before = sending.messages[at - 1] if at else None
        try:
            made = record(message, self._key_of(message, before))
        except NoSuchColumn as error:
            raise EntityUnavailable(
                f"sending to {self._topic}: no key of the row of message {message.message_id}: {error}",
                hint="correct the setting keys of this output",
            ) from error
        except ValueError as error:
            words = f"cannot be written: {error}"
            raise MessageUnwritable(self._topic, message, words, at=at) from error
        if self._limit is not None and not self._shared.compresses and made.least > self._limit:
            raise MessageTooLarge(self._topic, message, at=at, limit=self._limit)
        return made

    def _flush(self, piece: dict[int, Record], sending: _Sending) -> None:
        """Return when all of `piece` are accepted. A piece that is refused for one of its messages is sent again, one at a time."""
        if not piece:
            return
        cause = self._pass_on_again(piece, sending)
        if cause is None:
            return
        at, fault = cause
        if fault.name not in TOO_LARGE | REFUSED:
            raise _interrupted(of_topic("sending to", self._topic, fault, proven=self._shared.proven), sending)
        rest = {each: made for each, made in piece.items() if each not in sending.accepted}
        if len(rest) == 1:
            raise self._refusal(at, fault, rest[at], sending)
        sending.alone = True
        if fault.name in TOO_LARGE:
            self._piece_bytes = max(_SMALLEST, sum(made.most for made in rest.values()) // 2)
        for each, made in rest.items():
            self._flush({each: made}, sending)

    def _refusal(self, at: int, fault: Fault, made: Record, sending: _Sending) -> MessageRefused:
        message, accepted = sending.messages[at], frozenset(sending.accepted)
        if fault.name in TOO_LARGE:
            limit = self._limit or made.most
            refusal = MessageTooLarge(self._topic, message, at=at, limit=limit, accepted=accepted)
            refusal.hint = "raise max.message.bytes of the topic, or compress (compression)"
            if self._limit is None:  # the right DescribeConfigs is missing
                refusal.words = f"has a body of {refusal.size} bytes, which is more than the topic's max.message.bytes"
                refusal.message = f"sending to {self._topic}: message {message.message_id} {refusal.words}"
            return refusal
        return MessageRefused(self._topic, message, f"was refused: {fault.text}", at=at, accepted=accepted)

    def _pass_on_again(self, piece: dict[int, Record], sending: _Sending) -> tuple[int, Fault] | None:
        """`_pass_on`, with another link when a message of somebody else has ended the one in use."""
        for _ in range(_LINKS):
            rest = {at: made for at, made in piece.items() if at not in sending.accepted}
            try:
                return self._pass_on(rest, sending)
            except _EndedByAnother:
                if sending.seconds() <= 0:
                    break
        text = f"sending to {self._topic}: messages of other topics have ended {_LINKS} producers"
        raise SendInterrupted(text, accepted=sending.accepted)

    def _pass_on(self, piece: dict[int, Record], sending: _Sending) -> tuple[int, Fault] | None:
        """None: all were accepted. Otherwise the first message that failed for a reason of its own, with the reason. Raises SendInterrupted when
        some are in doubt, and _EndedByAnother."""
        batch = Batch(self._shared.mask)
        link = self._begun(batch, sending)
        began, in_time, refused = time.monotonic(), False, None
        try:
            refused = link.give(self._topic, piece, batch, began + sending.seconds())
            in_time = batch.wait(sending.seconds())
        finally:
            if not in_time or batch.failed or refused is not None:
                self._settle(link, batch)
            link.end(batch)
            sending.accepted.update(batch.accepted)
        if refused is not None:
            batch.failed.setdefault(next(at for at in piece if at not in batch.accepted), refused)
        if batch.was_cut:
            raise SendInterrupted(f"sending to {self._topic}: ended from outside", accepted=sending.accepted)
        own = sorted((at, fault) for at, fault in batch.failed.items() if not fault.is_consequence)
        if own:
            return own[0]
        if batch.failed and in_time:
            raise _EndedByAnother
        if len(batch.accepted) < len(piece):
            raise self._in_doubt(link, began, sending)
        return None

    def _begun(self, batch: Batch, sending: _Sending) -> Link:
        try:
            return self._shared.links.begin(batch)
        except KafkaException as error:
            fault = fault_of(error.args[0], self._shared.mask)
            raise _interrupted(of_topic("sending to", self._topic, fault), sending) from error

    def _settle(self, link: Link, batch: Batch) -> None:
        """Throw the link away, unless what failed never left this machine and the link is not at fault."""
        harmless = all(fault.name in MISSING for fault in batch.failed.values())
        if not (batch.is_over and harmless and link.is_usable):
            self._shared.links.doubt(link, batch)
            self._shared.admin.renew()

    def _in_doubt(self, link: Link, began: float, sending: _Sending) -> DStreamError:
        fault = link.fault_since(began)
        if fault is not None and not fault.is_consequence:
            return _interrupted(of_topic("sending to", self._topic, fault, proven=self._shared.proven), sending)
        hint = "look at the partitions' leaders and in-sync replicas: kafka-topics.sh --describe"
        if link.throttled is not None and link.throttled >= began:
            hint = "the broker slows this client down: it has used up a quota"
        text = f"sending to {self._topic}: not accepted within {time.monotonic() - began:.3g} s"
        return SendInterrupted(text, hint=hint, accepted=sending.accepted)


def _interrupted(error: DStreamError, sending: _Sending) -> DStreamError:
    """A permanent error as it is, unless some messages were accepted: the next send finds it again."""
    if isinstance(error, PermanentError) and not sending.accepted:
        return error
    made = SendInterrupted(error.message, hint=error.hint, accepted=sending.accepted)
    made.__cause__ = error
    return made
