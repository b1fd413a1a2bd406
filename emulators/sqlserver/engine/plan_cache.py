"""Lowered queries, kept by what they were made from. Knows neither sessions nor catalogs: the key says it all (queries/runner.py)."""

from __future__ import annotations

import threading
from collections import OrderedDict

from emulators.sqlserver.tsql.planning.plans import Plan, Source

Key = tuple[object, ...]
Lowered = tuple[Plan, Source | None]
_PLANS = 8192


class PlanCache:
    """The least recently used plan goes first. Shared by all sessions."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Key, Lowered] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: Key) -> Lowered | None:
        with self._guard:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
            return found

    def put(self, key: Key, plan: Lowered) -> None:
        with self._guard:
            self._plans[key] = plan
            while len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
