"""Counts for a queue's receivers: how many messages come at once, how long until they are settled, when a slot last asked. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from common.bus.ports import Delivery, Receiver, Receivers
from common.errors import LockLost, TransientError, Unanswered
from router.receiving.interruption import TRIED_AGAIN
from router.tally import Tally


class ObservedReceivers:
    """`receivers`, reported to `tally`: once a batch, never once a message."""

    def __init__(self, receivers: Receivers, tally: Tally) -> None:
        self._receivers = receivers
        self._tally = tally

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Receiver | None:
        try:
            found = self._receivers.open(max_wait=max_wait, give_up=give_up)
        except TransientError as error:
            self._tally.turned(away=error.with_hint(TRIED_AGAIN))
            raise
        self._tally.turned()
        return None if found is None else _Observed(found, self._tally)


class _Observed:
    def __init__(self, receiver: Receiver, tally: Tally) -> None:
        self._receiver = receiver
        self._tally = tally
        self._received_at = 0.0

    @property
    def session_id(self) -> str | None:
        return self._receiver.session_id

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[Delivery]:
        with self._counted():
            found = self._receiver.receive(max_count=max_count, max_wait=max_wait)
        self._tally.turned()
        if found:
            self._received_at = self._tally.clock()
            self._tally.count_batch(len(found))
        return found

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        with self._counted():
            lost = self._receiver.settle_many(deliveries)
        self._tally.count_settled(self._tally.clock() - self._received_at)
        self._tally.turn()
        return lost

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        with self._counted():
            self._receiver.dead_letter(delivery, reason=reason, description=description)
        self._tally.turn()

    def release(self, deliveries: Sequence[Delivery]) -> None:
        self._receiver.release(deliveries)

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        """Counts as a turn for a slot that waits for a topic: it passes its deliveries. The parking passes none, because renewing a parked
        session's lock says nothing about the slots."""
        with self._counted():
            self._receiver.renew(deliveries)
        if deliveries:
            self._tally.turn()

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        return self._receiver.lock_left(deliveries)

    def state(self) -> bytes | None:
        with self._counted():
            return self._receiver.state()

    def set_state(self, state: bytes | None) -> None:
        with self._counted():
            self._receiver.set_state(state)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """An operation that ends with these errors counts once as given up by its caller."""
        try:
            yield
        except LockLost:
            self._tally.count_lost("lock_lost")
            raise
        except Unanswered:
            self._tally.count_lost("unanswered")
            raise

    def close(self) -> None:
        self._receiver.close()
