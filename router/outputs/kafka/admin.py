"""Questions to a cluster and orders to create topics, each with a deadline. Translates the library's answers into values; decides nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, ResourceType

from common.errors import DStreamError, Stopped, TransientError
from router.outputs.kafka.errors import UNREACHABLE, Fault, Noted, noted, of_topic
from router.outputs.kafka.link import Log, Mask, fault_of

_GLANCE = 0.05
"""Seconds of one wait for an answer."""

_K = TypeVar("_K")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """`may_write`: None where the cluster does not say. `replicas`: of the partition that has the fewest."""

    partitions: int
    replicas: int
    may_write: bool | None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    id: str | None
    brokers: int


class Admin:
    """Callable from any thread. Its client is made for the first question, and again after one that was not answered."""

    def __init__(self, told: Callable[[], Mapping[str, Any]], mask: Mask, seconds: float, proven: bool) -> None:
        """`told`: what the library is configured with. `seconds`: the longest time for an answer."""
        self._told, self._mask, self._seconds, self._proven = told, mask, seconds, proven
        self._guard = threading.Lock()
        self._client: AdminClient | None = None
        self._fault: Noted | None = None
        self._cuts = 0

    def topics(
        self, names: Sequence[str], *, seconds: float | None = None, stop: threading.Event | None = None
    ) -> Mapping[str, TopicFacts | Fault]:
        """Raises TransientError without an answer, EntityUnavailable when the cluster lets nobody in with these settings, and Stopped."""

        def ask(client: AdminClient) -> Mapping[str, Future[Any]]:
            return client.describe_topics(TopicCollection(list(names)), include_authorized_operations=True)

        answers = self._asked(ask, f"topic {names[0]}", seconds, stop)
        return {name: answer if isinstance(answer, Fault) else _facts(answer) for name, answer in answers.items()}

    def settings(
        self, names: Iterable[str], *, seconds: float | None = None, stop: threading.Event | None = None
    ) -> Mapping[str, Mapping[str, str] | Fault]:
        """The settings of each topic. Raises as `topics` does."""
        resources = {name: ConfigResource(ResourceType.TOPIC, name) for name in names}

        def ask(client: AdminClient) -> Mapping[str, Future[Any]]:
            futures = client.describe_configs(list(resources.values()))
            return {name: futures[each] for name, each in resources.items()}

        answers = self._asked(ask, "the settings of topics", seconds, stop)
        return {
            name: answer if isinstance(answer, Fault) else {each.name: str(each.value) for each in answer.values()}
            for name, answer in answers.items()
        }

    def create(self, wanted: Sequence[NewTopic], stop: threading.Event | None = None) -> Mapping[str, Fault | None]:
        """What went wrong with each, None: it is there now. Raises as `topics` does."""
        answers = self._asked(lambda client: client.create_topics(list(wanted)), "creating topics", None, stop)
        return {name: answer if isinstance(answer, Fault) else None for name, answer in answers.items()}

    def cluster(self) -> ClusterFacts:
        """Raises as `topics` does."""
        found = self._asked(lambda client: {"": client.describe_cluster()}, "the cluster", None, None)[""]
        if isinstance(found, Fault):
            raise of_topic("asking", "the Kafka cluster", found, proven=self._proven)
        return ClusterFacts(found.cluster_id, len(found.nodes))

    def cut(self) -> None:
        """End every question that is under way."""
        with self._guard:
            self._cuts += 1
        self.renew()

    def _asked(
        self,
        ask: Callable[[AdminClient], Mapping[_K, Future[_T]]],
        about: str,
        seconds: float | None,
        stop: threading.Event | None,
    ) -> Mapping[_K, _T | Fault]:
        cuts, began = self._cuts, time.monotonic()
        end = began + min(self._seconds, self._seconds if seconds is None else seconds)
        client = self._opened(about)
        try:
            futures = ask(client)
        except (KafkaException, ValueError, TypeError) as error:
            raise self._translated(error, about) from error
        while not all(future.done() for future in futures.values()):
            client.poll(_GLANCE)
            if stop is not None and stop.is_set():
                raise Stopped("asked to stop")
            if self._cuts != cuts:
                raise TransientError(f"asking Kafka about {about}: the call was ended from outside")
            if (error_now := self._given_up(began, end, about)) is not None:
                del client
                self.renew()
                raise error_now
        return {key: _answer(future, self._mask) for key, future in futures.items()}

    def _given_up(self, began: float, end: float, about: str) -> DStreamError | None:
        """Why waiting longer is of no use."""
        fault = self._fault[1] if self._fault is not None and self._fault[0] >= began else None
        if fault is not None and fault.name in UNREACHABLE:
            return of_topic("asking Kafka about", about, fault, proven=self._proven)
        if time.monotonic() < end:
            return None
        last = fault or Fault("_TIMED_OUT", f"no answer within {end - began:.3g} s")
        return of_topic("asking Kafka about", about, last, proven=self._proven)

    def _opened(self, about: str) -> AdminClient:
        with self._guard:
            if self._client is None:
                told = {**self._told(), "error_cb": self._note, "logger": Log(self._mask)}
                try:
                    self._client = AdminClient(told)
                except KafkaException as error:
                    raise self._translated(error, about) from error
            return self._client

    def _translated(self, error: Exception, about: str) -> DStreamError:
        found = error.args[0] if isinstance(error, KafkaException) else None
        fault = Fault("_INVALID_ARG", self._mask(str(error))) if found is None else fault_of(found, self._mask)
        return of_topic("asking Kafka about", about, fault, proven=self._proven)

    def _note(self, error: Any) -> None:
        self._fault = noted(self._fault, time.monotonic(), fault_of(error, self._mask))

    def renew(self) -> None:
        """The next question goes over other connections: those that there are may be dead. The client is released in a thread of its own, because
        the library waits there for its threads, which may hang in resolving a name."""
        with self._guard:
            held, self._client = [self._client], None
        if held != [None]:
            threading.Thread(target=held.clear, name="kafka-close", daemon=True).start()


def _answer(future: Future[Any], mask: Mask) -> Any:
    """What it brought, or the Fault that it ended with."""
    error = future.exception()
    if error is None:
        return future.result()
    return fault_of(error.args[0], mask) if isinstance(error, KafkaException) else Fault("_FAIL", mask(str(error)))


def _facts(found: Any) -> TopicFacts:
    operations = found.authorized_operations
    may_write = None if not operations else AclOperation.WRITE in operations or AclOperation.ALL in operations
    counts = [len(each.replicas) for each in found.partitions]
    return TopicFacts(len(counts), min(counts, default=0), may_write)
