"""Receivers that take packs apart: whoever receives through them sees single changes, settles them singly, and sets them aside singly.

A packed message is completed when the last of its changes was settled. A poison change has no delivery of its own to dead-letter: it is
sent to the queue again alone, marked with its reason, and dead-lettered when it comes back (docs/decisions/packing.md). What is marked so
is dead-lettered here and never handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from common.bus import Delivery, MessageRefused, Receiver, Receivers, Sender
from common.errors import TransientError
from common.message import Message
from common.packing import BadPack, condemnation, condemned, is_pack, unpack

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Pack:
    """A delivery that holds several changes. `left`: those that are not settled yet."""

    delivery: Delivery
    left: int


@dataclass(frozen=True, eq=False, slots=True)
class _Change:
    """One change of a pack, as a delivery."""

    message: Message
    pack: _Pack
    fault: str | None = None

    @property
    def delivery_count(self) -> int:
        return self.pack.delivery.delivery_count


@dataclass(frozen=True, eq=False, slots=True)
class _Unreadable:
    """A pack that cannot be taken apart, as the one delivery that it is."""

    delivery: Delivery
    fault: str

    @property
    def message(self) -> Message:
        return self.delivery.message

    @property
    def delivery_count(self) -> int:
        return self.delivery.delivery_count


@dataclass(eq=False, slots=True)
class UnpackingReceiver:
    """A `common.bus.Receiver`. `resend` gives a sender to the queue that is received from, when the first poison change asks for one."""

    inner: Receiver
    resend: Callable[[], Sender]
    most: int = 1
    """Changes a message may hold, as far as known: fewer messages are asked for then, so that a batch does not grow with its packs."""
    _sender: Sender | None = field(default=None, init=False)

    @property
    def session_id(self) -> str | None:
        return self.inner.session_id

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[Delivery]:
        """As the port says, of messages and not of the changes in them: there may be more than `max_count` of those."""
        found: list[Delivery] = []
        largest = 1
        received = self.inner.receive(max_count=max(1, max_count // self.most), max_wait=max_wait)
        for delivery in received:
            if not is_pack(delivery.message):
                if (sentence := condemnation(delivery.message)) is None:
                    found.append(delivery)
                else:
                    self.inner.dead_letter(delivery, reason=sentence[0], description=sentence[1])
                continue
            try:
                changes = unpack(delivery.message)
            except BadPack as error:
                found.append(_Unreadable(delivery, f"the packed message cannot be read: {error}"))
                continue
            largest = max(largest, len(changes))
            pack = _Pack(delivery, len(changes))
            found += [_Change(change, pack) for change in changes]
        if received:  # quiet times make small packs, and then many messages may be asked for again
            self.most = max(largest, self.most // 2)
        return found

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """As the port says; of a pack whose lock was lost, the changes given here are returned."""
        for delivery in deliveries:
            if isinstance(delivery, _Change):
                delivery.pack.left -= 1
        done = {id(whole): whole for delivery in deliveries if (whole := _whole(delivery, finished=True)) is not None}
        lost = {id(whole) for whole in self.inner.settle_many(list(done.values()))} if done else set()
        return [delivery for delivery in deliveries if id(_whole(delivery)) in lost]

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        if not isinstance(delivery, _Change):
            whole = delivery.delivery if isinstance(delivery, _Unreadable) else delivery
            self.inner.dead_letter(whole, reason=reason, description=description)
            return
        if self._sender is None:
            self._sender = self.resend()
        # Before the pack is settled: a crash in between sends it twice, and the queue removes the copy by its id.
        try:
            self._sender.send([condemned(delivery.message, reason=reason, description=description)])
        except MessageRefused as error:
            # Its pack is left to come again, and to be dead-lettered whole by the queue when it has come too often.
            raise TransientError(
                f"setting a packed change aside ({reason}): {error.message}", hint=error.hint
            ) from error
        log.debug("poison change sent to the queue alone", message_id=delivery.message.message_id)
        if self.settle_many([delivery]):
            raise TransientError("the lock of a packed message was lost before it was completed")

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """As the port says; a pack is given back whole, its settled changes with it: topics remove what they have."""
        self.inner.release(_wholes(deliveries))

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        self.inner.renew(_wholes(deliveries))

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        return self.inner.lock_left(_wholes(deliveries))

    def close(self) -> None:
        self.inner.close()
        if self._sender is not None:
            self._sender.close()


@dataclass(frozen=True, slots=True)
class UnpackingReceivers:
    """A `common.bus.Receivers`."""

    inner: Receivers
    resend: Callable[[], Sender]
    most: int = 1

    def open(self, *, max_wait: float) -> Receiver | None:
        receiver = self.inner.open(max_wait=max_wait)
        return None if receiver is None else UnpackingReceiver(receiver, self.resend, self.most)


def _whole(delivery: Delivery, *, finished: bool = False) -> Delivery | None:
    """What the broker delivered; None of a change whose pack is not settled, where that was asked."""
    if isinstance(delivery, _Change):
        return None if finished and delivery.pack.left else delivery.pack.delivery
    return delivery.delivery if isinstance(delivery, _Unreadable) else delivery


def _wholes(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """What the broker delivered, each once, in order."""
    held = [whole for delivery in deliveries if (whole := _whole(delivery)) is not None]
    return list({id(whole): whole for whole in held}.values())
