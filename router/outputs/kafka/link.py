"""One producer of librdkafka, with the thread that serves its reports, and the batches that wait for them.

A link is used until there is doubt: then it is thrown away with all that it holds, and never used again. A producer whose messages are in doubt
could still deliver them behind newer ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from router.outputs.kafka.errors import Fault, Noted, noted
from router.outputs.kafka.records import Record

POLL = 0.1
"""Seconds of one wait for reports; a report ends it."""

LAST_REPORTS = 1.0
"""Seconds to wait for the reports of purged messages. The library's threads may hang in resolving a name."""

_ROOM = 0.02
"""Seconds until a full queue is tried again."""

_THROWN_AWAY = Fault("_DESTROY", "the producer was ended for another message")

log = structlog.get_logger(__name__)

Mask = Callable[[str], str]


class Batch:
    """Messages that were given to a link at once, by their places; what became of each. One thread at a time reports."""

    def __init__(self, mask: Mask) -> None:
        self.accepted: set[int] = set()
        self.failed: dict[int, Fault] = {}
        self._mask = mask
        self._given: int | None = None
        self._over = threading.Event()
        self.was_cut = False

    def complete(self, given: int) -> None:
        """So many were given; no more are."""
        self._given = given
        if self.is_over:
            self._over.set()

    def report(self, at: int, error: KafkaError | None, message: object) -> None:
        """Called once for each message."""
        if error is None:
            self.accepted.add(at)
        else:
            self.failed[at] = fault_of(error, self._mask)
        if len(self.accepted) + len(self.failed) == self._given:
            self._over.set()

    @property
    def is_over(self) -> bool:
        return len(self.accepted) + len(self.failed) == self._given

    def cut(self) -> None:
        self.was_cut = True
        self._over.set()

    def wait(self, seconds: float) -> bool:
        """Whether every message was reported within that time."""
        self._over.wait(max(0.0, seconds))
        return self.is_over

    def wait_for_last(self) -> None:
        """After a purge: what is reported now is final."""
        end = time.monotonic() + LAST_REPORTS
        while not self.is_over and time.monotonic() < end:
            time.sleep(_ROOM)


class Link:
    """Thread-safe. `fault`: what the library last reported of its brokers, with the moment; None: nothing yet."""

    def __init__(self, told: Mapping[str, Any], mask: Mask) -> None:
        """Raises KafkaException for settings that the library does not take."""
        self._mask = mask
        self.fault: Noted | None = None
        self.throttled: float | None = None
        self.is_fatal = False
        self._users: set[Batch] = set()
        self._guard = threading.Lock()
        self._idle = threading.Condition(self._guard)
        self._givers = 0
        self._retired = False
        self._ending = False
        self._purged = False
        self._over = threading.Event()
        callbacks = {"error_cb": self._note, "throttle_cb": self._note_throttle, "logger": Log(mask)}
        self._producer = Producer({**told, **callbacks})
        threading.Thread(target=self._serve, name="kafka-reports", daemon=True).start()

    @property
    def is_usable(self) -> bool:
        return not (self._retired or self.is_fatal)

    def begin(self, batch: Batch) -> bool:
        """Register `batch`; False when the link was thrown away meanwhile."""
        with self._guard:
            if self.is_usable:
                self._users.add(batch)
            return self.is_usable

    def end(self, batch: Batch) -> None:
        with self._guard:
            self._users.discard(batch)

    def give(self, topic: str, piece: Mapping[int, Record], batch: Batch, until: float) -> Fault | None:
        """Give the records to the library, in order. Returns why it did not take one of them before `until`, of `time.monotonic`; nothing behind
        that one was given. Nor is anything after the first failure, which has the reason, nor to a link that is thrown away."""
        given, produce, report = 0, self._producer.produce, batch.report
        with self._guard:
            self._givers += 1
        try:
            for at, (key, value, headers, _, _) in piece.items():
                while True:
                    if batch.failed or batch.was_cut:
                        return None
                    if self._ending:
                        return _THROWN_AWAY
                    try:
                        produce(topic, value, key, on_delivery=partial(report, at), headers=headers)
                        break
                    except BufferError:
                        if time.monotonic() >= until:
                            return Fault("_QUEUE_FULL", "the client's queue is full: the brokers are too slow")
                        time.sleep(_ROOM)
                given += 1
        except KafkaException as error:
            return fault_of(error.args[0], self._mask)
        except RuntimeError:  # the library says so of a producer that is closed
            return _THROWN_AWAY
        finally:
            with self._guard:
                self._givers -= 1
                self._idle.notify_all()
            batch.complete(given)
        return None

    def retire(self) -> None:
        """No other batch begins."""
        with self._guard:
            self._retired = True

    def wait_for_others(self, own: Batch | None, seconds: float) -> None:
        """Until the batches of others are over, which healthy ones are at once."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self._guard:
                if all(each is own or each.is_over for each in self._users):
                    return
            time.sleep(_ROOM)

    def throw_away(self) -> None:
        """Purge what it holds and close it, in its own thread. Returns nearly at once. Harmless when repeated.

        Who is giving looks before each record whether it may, and is waited for: a record that is given behind a purge would be sent, although
        those before it were not."""
        with self._guard:
            self._retired = self._ending = True
            self._idle.wait_for(lambda: self._givers == 0)
            first, self._purged = not self._purged, True
        if first:
            self._purge()
            self._over.set()

    def cut(self) -> None:
        """End all that waits for it."""
        self.throw_away()
        with self._guard:
            for each in self._users:
                each.cut()

    def fault_since(self, moment: float) -> Fault | None:
        """What the library reported of its brokers at or after this moment."""
        return self.fault[1] if self.fault is not None and self.fault[0] >= moment else None

    def _purge(self) -> None:
        try:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        except (KafkaException, RuntimeError) as error:
            log.debug("kafka client not purged", error=self._mask(str(error)))

    def _serve(self) -> None:
        """Serve reports until the link is thrown away and they have all come, then release the library's threads. That may hang for ever in
        resolving a name, and nobody waits for it."""
        while not self._over.is_set():
            self._poll(POLL)
        end = time.monotonic() + LAST_REPORTS
        while len(self._producer) and time.monotonic() < end:
            self._poll(_ROOM)
            self._purge()
        try:
            self._producer.close()
        except (KafkaException, RuntimeError) as error:
            log.debug("kafka client not closed", error=self._mask(str(error)))

    def _poll(self, seconds: float) -> None:
        try:
            self._producer.poll(seconds)
        except KafkaException as error:  # a fatal error is raised here, and once
            self._note(error.args[0])

    def _note(self, error: KafkaError) -> None:
        self.fault = noted(self.fault, time.monotonic(), fault_of(error, self._mask))
        self.is_fatal = self.is_fatal or error.fatal()
        log.debug("kafka client", error=self.fault[1].text, code=self.fault[1].name)

    def _note_throttle(self, event: Any) -> None:
        self.throttled = time.monotonic()
        log.debug("kafka broker throttles", seconds=event.throttle_time)


def fault_of(error: KafkaError, mask: Mask) -> Fault:
    return Fault.of(error.name(), mask(error.str()))


class Log:
    """Takes the lines of librdkafka, as `logging.Logger` would. They are for debugging: what matters is raised."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask

    def log(self, level: int, text: str, *values: object) -> None:
        log.debug("kafka client", line=self._mask(text % values if values else text), level=level)


def masked(secrets: tuple[str, ...]) -> Mask:
    """Replaces each of `secrets`."""
    present = [each for each in secrets if each]

    def mask(text: str) -> str:
        for each in present:
            text = text.replace(each, "***")
        return text

    return mask
