"""The console's configuration from how it was started: the file or the ConfigMap, and where the last changes are kept. Opens nothing.

Asks the database for the tables of patterns, with a deadline and not at every question; where it does not answer they are unknown.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from common.errors import DStreamError
from common.in_time import in_time
from common.names import TableName
from desk.configuring.allowed import NOTHING, Allowed
from desk.configuring.edited import EditedConfiguration, Judge
from desk.configuring.places.api_server import ApiServer
from desk.configuring.places.config_map import ConfigMapName, ConfigMapPlace
from desk.configuring.places.file import FilePlace
from desk.configuring.places.port import Place
from desk.configuring.revisions import Revisions
from desk.times import written
from ingester.commands.stores import with_matches
from ingester.settings import IngesterSettings

_SECONDS = 5.0
_FRESH_SECONDS = 30.0

Reads = Callable[[str], IngesterSettings]
"""The ingester's settings of a text. Raises ConfigurationError."""


def configuring_of(
    config: Path, configmap: str | None, *, judge: Judge, reads: Reads, state: Path, allowed: Allowed = NOTHING
) -> EditedConfiguration:
    """`state`: a folder of this console. Raises ConfigurationError for a name that is none, PermanentError outside of a cluster."""
    place: Place = FilePlace(config)
    if configmap is not None:
        place = ConfigMapPlace(ConfigMapName.parse(configmap), ApiServer.of_pod(os.environ).call)
    revisions = Revisions(state, place.name)
    return EditedConfiguration(place, revisions, judge=judge, matches=Matching(reads), now=_now, allowed=allowed)


class Matching:
    """Implements `edited.Matches`. For any thread."""

    def __init__(
        self,
        reads: Reads,
        look: Callable[[IngesterSettings], IngesterSettings] = with_matches,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reads = reads
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[float, str, Sequence[TableName]] | None = None

    def __call__(self, text: str) -> Sequence[TableName]:
        with self._lock:
            seen = self._seen
        if seen is not None and seen[1] == text and self._clock() - seen[0] < _FRESH_SECONDS:
            return seen[2]
        try:
            settings = self._reads(text)
            found = tuple(in_time(_SECONDS, lambda: self._look(settings), same=(self, text), name="matches").tables)
        except (DStreamError, TimeoutError):
            found = ()
        with self._lock:
            self._seen = self._clock(), text, found
        return found


def _now() -> str:
    return written(datetime.now(UTC))
