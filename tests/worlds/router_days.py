"""What an ordinary day may bring a router, one trouble at a time: each passes by itself, and no good message may be the worse for it.

A message that nobody can decode, a worker that is stopped, a topic that takes 50 KB/s, a start while a topic is disabled, and one whose file
does not have a table yet.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

from common.names import TableName
from dstream.demo.schema import TABLES
from emulators.servicebus.faults.slow import EntitySlow
from tests.worlds.foreign import application_properties, data, properties, put_raw, section, text
from tests.worlds.world import World, wait_until

_LONGEST = 5.0
"""Seconds that a topic is disabled, or a table missing from the file, after the start."""
_REPLACED = 200.0
"""Seconds until a stopped worker is replaced: one that was stopped before its first word has two minutes for it."""


class Days:
    """`restart`: ends the router as a machine that is lost, and starts it again. `counts`: what was done; `undecodable`: messages of that kind."""

    def __init__(self, world: World, config: Path, random: Random, restart: Callable[[], None]) -> None:
        self._world, self._config, self._random, self._restart = world, config, random, restart
        self._file = config.read_text()
        self._timers: list[threading.Timer] = []
        self.counts: Counter[str] = Counter()

    @property
    def undecodable(self) -> int:
        return self.counts["undecodable message"]

    def strike(self, workers: list[int]) -> str:
        """One trouble; what it was."""
        kinds: Mapping[str, Callable[[], None]] = {
            "undecodable message": self._undecodable,
            "stopped worker": lambda: self._stopped(workers),
            "slow topic": self._slow,
            "start with a disabled topic": self._disabled,
            "start with a late file": self._late,
        }
        name = self._random.choice(sorted(kinds))
        kinds[name]()
        self.counts[name] += 1
        return name

    def end(self) -> None:
        """All is well again."""
        for timer in self._timers:
            timer.join()

    def _table(self) -> TableName:
        return self._random.choice(TABLES)

    def _undecodable(self) -> None:
        topic = self._world.topics[self._table()]
        octets = (
            properties(text(f"undecodable {self.undecodable}"), text(topic))
            + application_properties(destination=text(topic))
            + section(0x75, text("not octets"))
            + data(b"{}")
        )
        put_raw(self._world.servicebus.connection_string, "ingest-queue", [octets])

    def _stopped(self, workers: list[int]) -> None:
        if not workers:
            return
        pid = self._random.choice(workers)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the stopped worker is replaced", _REPLACED)

    def _slow(self) -> None:
        slow = ExitStack()
        slow.enter_context(self._world.servicebus.inject(EntitySlow(self._world.topics[self._table()], 50_000, 200)))
        self._after(slow.close)

    def _disabled(self) -> None:
        admin, topic = self._world.servicebus.admin, self._world.topics[self._table()]
        active = admin.get(topic).description
        admin.update(topic, replace(active, status="SendDisabled"))
        self._restart()
        self._after(lambda: admin.update(topic, active))

    def _late(self) -> None:
        key = f'"{self._table().key}"'
        self._config.write_text(self._file.replace(f"{key}, ", "").replace(f", {key}", ""))
        self._restart()
        self._after(lambda: self._config.write_text(self._file))

    def _after(self, well: Callable[[], object]) -> None:
        """Not before the next trouble may strike is it over: the next waits for arrivals, which others have."""
        timer = threading.Timer(self._random.uniform(0, _LONGEST), well)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)


def told(days: Days) -> str:
    """What was done, for the measurements."""
    return "\n".join(f"{count:5} {what}" for what, count in sorted(days.counts.items()))
