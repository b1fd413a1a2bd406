"""Both ends of the demo: a workload that writes to the database, a reader of what arrives, and the verdict on the two.

What is in between, who started it and who stops it is not known here.
"""

from __future__ import annotations

import time
from functools import partial

from common.errors import PermanentError
from common.names import Origin, TableName
from dstream.demo.ledger import Ledger
from dstream.demo.reading import Reader
from dstream.demo.schema import TABLES
from dstream.demo.subscriber import Subscriber
from dstream.demo.verdict import Verdict, of_an_earlier_workload
from dstream.demo.workload import Pace, Workload
from dstream.emulators import Login


class Ends:
    """Changes go to `ledger`, messages to `subscriber`. Both ends are there from `connect` on; neither is started by it."""

    def __init__(self, origin: Origin, *, pace: Pace, seed: int = 1) -> None:
        self.ledger = Ledger()
        self.topics: dict[TableName, str] = {table: origin.topic(table) for table in TABLES}
        self._pace = pace
        self._seed = seed
        self.started_at = 0.0

    def connect(self, login: Login, bus: str, *, subscription: str = "sub1", after: int = 0) -> None:
        """`bus`: connection string. `after`: the highest Version of an earlier workload, whose messages are ignored."""
        ignored = partial(of_an_earlier_workload, after=after)
        self.read_by(login, Subscriber(bus, self.topics, subscription, ignored=ignored), after=after)

    def read_by(self, login: Login, reader: Reader, *, after: int = 0) -> None:
        """As `connect`, with another reader than a subscriber of topics."""
        self.login = login
        self.workload = Workload(login, self.ledger, self._pace, seed=self._seed, after=after)
        self.subscriber: Reader = reader
        self.started_at = time.time()

    def delivered(self) -> bool:
        """Whether everything that was committed has arrived. Raises PermanentError when reading has ended."""
        if (error := self.subscriber.failed) is not None:
            raise PermanentError(f"reading what arrives: {type(error).__name__}: {error}") from error
        return self.subscriber.delivered(self.ledger)

    def verdict(self) -> Verdict:
        """Compare both ends."""
        return self.subscriber.verdict(self.ledger)

    def first_arrival(self) -> float | None:
        """Unix time at which the first message arrived on a topic."""
        return min((messages[0].at for messages in self.subscriber.received().values() if messages), default=None)
