"""Receivers that take packs apart: their users see, settle and set aside single changes.

A packed message is completed when the last of its changes was settled. A poison change has no delivery of its own to dead-letter. It is sent to
the queue again alone, marked with its reason, and dead-lettered when it comes back (docs/decisions/0015-packing.md). A marked message is
dead-lettered here and never handed over; a mark with a reason that no router gives is a fault of its message. If the queue does not accept the
marked copy, the pack is dead-lettered instead of completed, and its description names the poison: nothing is lost, and nobody waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from common.bus.packing import BadPack, condemnation, condemned, is_pack, unpack
from common.bus.ports import Delivery, Receiver, Receivers, Sender, TimeLeft
from common.errors import PermanentError, TransientError
from common.message import Message
from router.chunks import reserve
from router.routes import REASONS

_TOLD = 100
"""The most characters of a false mark in a description."""

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Pack:
    """A delivery with several changes. `left`: those that are not settled yet."""

    delivery: Delivery
    count: int
    left: int
    poison: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Reason and description of each change that could not be set aside alone, by its place."""
    taken: bool = False
    """The broker has made it a dead letter."""


@dataclass(slots=True)
class Seen:
    """How many changes recent messages held, in all sessions of a process. So many fewer messages are asked for, so that a batch does not grow
    with its packs.
    """

    most: int

    def note(self, largest: int) -> None:
        """Called after each read. A number that is not seen again is forgotten slowly, because sessions differ."""
        self.most = max(largest, self.most * 7 // 8)


@dataclass(frozen=True, eq=False, slots=True)
class _Change:
    """One change of a pack, as a delivery."""

    message: Message
    pack: _Pack
    place: int
    fault: str | None = None

    @property
    def delivery_count(self) -> int:
        return self.pack.delivery.delivery_count

    @property
    def position(self) -> tuple[int, int]:
        return self.pack.delivery.position[0], self.place


@dataclass(frozen=True, eq=False, slots=True)
class _Unreadable:
    """A pack that cannot be taken apart, or a message with a false mark, as a single delivery."""

    delivery: Delivery
    fault: str

    @property
    def message(self) -> Message:
        return self.delivery.message

    @property
    def delivery_count(self) -> int:
        return self.delivery.delivery_count

    @property
    def position(self) -> tuple[int, int]:
        return self.delivery.position


@dataclass(eq=False, slots=True)
class UnpackingReceiver:
    """A `common.bus.ports.Receiver`. `resend` makes a sender to the received queue when the first poison change needs one.

    `goes_on` is called before `receive` dead-letters each marked message: there may be hundreds, and each waits for an answer.
    """

    inner: Receiver
    resend: Callable[[], Sender]
    seen: Seen = field(default_factory=lambda: Seen(1))
    goes_on: Callable[[], bool] = lambda: True
    _most: int = field(default=1, init=False)
    """How many changes a message of this session may hold, as far as known."""
    _sender: Sender | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._most = self.seen.most

    @property
    def session_id(self) -> str | None:
        return self.inner.session_id

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[Delivery]:
        """See the port. `max_count` limits messages, not the changes in them, of which there may be more."""
        found: list[Delivery] = []
        largest = 1
        received = self.inner.receive(max_count=max(1, max_count // self._most), max_wait=max_wait)
        for at, delivery in enumerate(received):
            if not is_pack(delivery.message):
                if (sentence := condemnation(delivery.message)) is None:
                    found.append(delivery)
                elif sentence[0] not in REASONS:
                    found.append(
                        _Unreadable(delivery, f"it is marked as poison with an unknown reason: {sentence[0][:_TOLD]!r}")
                    )
                else:
                    self._execute(sentence, [*received[at:], *_wholes(found)])
                continue
            try:
                changes = unpack(delivery.message)
            except BadPack as error:
                found.append(_Unreadable(delivery, f"the packed message cannot be read: {error}"))
                continue
            largest = max(largest, len(changes))
            pack = _Pack(delivery, len(changes), len(changes))
            found += [_Change(change, pack, place) for place, change in enumerate(changes)]
        if received:  # quiet times make small packs, so many messages may be asked for again
            self._most = max(largest, self._most // 2)
            self.seen.note(largest)
        return found

    def _execute(self, sentence: tuple[str, str], held: Sequence[Delivery]) -> None:
        """Dead-letter the first held delivery, a marked message; at a stop, leave it to come again."""
        marked = held[0]
        if self.goes_on():
            self.inner.renew(held)
            self.inner.dead_letter(marked, reason=sentence[0], description=sentence[1])
        elif self.session_id is None:  # a session's come again when it is closed
            self.inner.release([marked])

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """See the port. If a pack's lock was lost, those of its changes that were passed here are returned."""
        for delivery in deliveries:
            if isinstance(delivery, _Change):
                delivery.pack.left -= 1
        self._dead_letter_spoilt(deliveries)
        done = {id(whole): whole for delivery in deliveries if (whole := _whole(delivery, finished=True)) is not None}
        lost = {id(whole) for whole in self.inner.settle_many(list(done.values()))} if done else set()
        return [delivery for delivery in deliveries if id(_whole(delivery)) in lost]

    def _dead_letter_spoilt(self, deliveries: Sequence[Delivery]) -> None:
        """Dead-letter finished packs that hold poison. Raises TransientError as `dead_letter` does."""
        packs = {id(each.pack): each.pack for each in deliveries if isinstance(each, _Change)}
        for pack in packs.values():
            if pack.poison and not pack.left:
                reason, description = next(iter(pack.poison.values()))[0], _told(pack)
                self.inner.dead_letter(pack.delivery, reason=reason, description=description)
                pack.taken = True
                log.warning(
                    "pack dead-lettered whole",
                    session=self.session_id,
                    message_id=pack.delivery.message.message_id,
                    reason=reason,
                    description=description,
                    hint="a poison change is set aside alone where the router has the Send right on the queue and the change itself can be written",
                )

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        if not isinstance(delivery, _Change):
            whole = delivery.delivery if isinstance(delivery, _Unreadable) else delivery
            self.inner.dead_letter(whole, reason=reason, description=description)
            return
        if not self._sent_alone(delivery, reason, description):
            told = f"{delivery.message.message_id} ({reason}: {description})"
            delivery.pack.poison[delivery.place] = (reason, told)
        if self.settle_many([delivery]):
            raise TransientError("the lock of a packed message was lost before it was completed")

    def _sent_alone(self, change: _Change, reason: str, description: str) -> bool:
        """Before the pack is settled: a crash in between sends it twice, and the queue removes the copy by its id."""
        try:
            if self._sender is None:
                self._sender = self.resend()
            self._sender.send(
                [condemned(change.message, reason=reason, description=description)], left=self._lasts(change)
            )
        except PermanentError as error:  # no right to send, or the queue refuses this message
            log.debug("poison change stays in its pack", message_id=change.message.message_id, error=error.message)
            return False
        log.debug("poison change sent to the queue alone", message_id=change.message.message_id)
        return True

    def _lasts(self, change: _Change) -> TimeLeft:
        """Seconds of the lock until its pack should be settled."""
        held = [change.pack.delivery]
        end = reserve(self.inner.lock_left(held))
        return lambda: self.inner.lock_left(held) - end

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See the port. A pack is given back whole, with its settled changes: topics remove those that they have."""
        self.inner.release(_wholes(deliveries))

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        self.inner.renew(_wholes(deliveries))

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        return self.inner.lock_left(_wholes(deliveries))

    def state(self) -> bytes | None:
        return self.inner.state()

    def set_state(self, state: bytes | None) -> None:
        self.inner.set_state(state)

    def close(self) -> None:
        self.inner.close()
        if self._sender is not None:
            self._sender.close()


@dataclass(frozen=True, slots=True)
class UnpackingReceivers:
    """A `common.bus.ports.Receivers`."""

    inner: Receivers
    resend: Callable[[], Sender]
    seen: Seen = field(default_factory=lambda: Seen(1))
    goes_on: Callable[[], bool] = lambda: True

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Receiver | None:
        receiver = self.inner.open(max_wait=max_wait, give_up=give_up)
        return None if receiver is None else UnpackingReceiver(receiver, self.resend, self.seen, self.goes_on)


def in_its_pack(delivery: Delivery) -> bool:
    """Whether this change was dead-lettered and is only noted as poison yet: if its pack comes again, this must be found out again."""
    return isinstance(delivery, _Change) and delivery.place in delivery.pack.poison and not delivery.pack.taken


def _whole(delivery: Delivery, *, finished: bool = False) -> Delivery | None:
    """The broker's delivery; None for a change whose pack must not be completed (yet), if that was asked."""
    if isinstance(delivery, _Change):
        return None if finished and (delivery.pack.left or delivery.pack.poison) else delivery.pack.delivery
    return delivery.delivery if isinstance(delivery, _Unreadable) else delivery


def _told(pack: _Pack) -> str:
    """The poison first: the adapter cuts what is too long."""
    count, poison = pack.count, "; ".join(told for _, told in pack.poison.values())
    if len(pack.poison) == count:
        return f"all {count} changes of this pack are poison: {poison}"
    others = "were delivered, or set aside alone"
    return f"of the {count} changes of this pack {len(pack.poison)} are poison and are in no topic, the others {others}: {poison}"


def _wholes(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """The broker's deliveries, each once, in order."""
    held = [whole for delivery in deliveries if (whole := _whole(delivery)) is not None]
    return list({id(whole): whole for whole in held}.values())
