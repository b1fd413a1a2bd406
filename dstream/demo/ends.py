"""Both ends of the demo: a workload that writes to the database, a subscriber that reads the topics, and the verdict on the two.

What is in between, who started it and who stops it is not known here.
"""

from __future__ import annotations

import time

from common.names import Origin, TableName
from dstream.demo.ledger import Ledger
from dstream.demo.schema import TABLES
from dstream.demo.subscriber import Subscriber
from dstream.demo.verdict import Verdict, judge, of_an_earlier_workload
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
        self.login = login
        self.workload = Workload(login, self.ledger, self._pace, seed=self._seed, after=after)
        self.subscriber = Subscriber(
            bus, self.topics, subscription, ignored=lambda body: of_an_earlier_workload(body, after)
        )
        self.started_at = time.time()

    def delivered(self) -> bool:
        """Whether as many messages have arrived on every topic as changes were committed."""
        committed, received = self.ledger.counts(), self.subscriber.counts()
        return all(received.get(table, 0) >= count for table, count in committed.items())

    def verdict(self) -> Verdict:
        """Compare both ends."""
        return judge(self.ledger, self.subscriber.received(), TABLES)

    def first_arrival(self) -> float | None:
        """Unix time at which the first message arrived on a topic."""
        return min((messages[0].at for messages in self.subscriber.received().values() if messages), default=None)
