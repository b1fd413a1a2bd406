"""Which topics that turn up later may be used, and how: the rules, asked once for all outputs of a process. Opens and creates nothing.

The topic of a table that a pattern of the configuration matches is used as one that the configuration names, at its first change. Which tables
there are is not known here: a sender to the queue may invent some that match, so that their number is limited. A topic whose name came with a
message is created only under the prefixes and up to the number that the configuration allows. One that exists is used although no table has it if
it bears the mark of a side topic (router/side_topic.py), and is never created or changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from common.errors import ConfigurationError, DStreamError, PermanentError, TransientError
from common.message import Message
from router.publishing.awaited import NotATopic
from router.routes import ADD_TABLE, named_table
from router.settings import Latest, RouterSettings

LISTED_AGAIN = 1.0
"""Seconds after which side topics are listed again, when a message for an unknown topic comes."""

_TOO_MANY = (
    "raise router.match_at_most, or name the table itself in `tables`, and restart; if no such table exists, look who else may send to the "
    "ingest queue"
)


@dataclass(frozen=True, slots=True)
class Way:
    """How a topic comes to be used. `configured`: a table has it, so that its publisher creates or checks it and goes on trying; `created`: no
    table has it, and it is created first; `side`: a side topic, which exists. `missing`: what to do if it does not exist, where that is not what
    the error says.
    """

    kind: Literal["configured", "created", "side"]
    missing: str | None = None


class Further:
    """The topics that turn up later. Callable from any thread."""

    def __init__(
        self,
        settings: RouterSettings,
        latest: Latest | None,
        marked: Callable[[], Collection[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`latest` returns the settings of the present configuration; None if there is no way to read it. `marked` lists the side topics, in lower
        case; None if they cannot be seen."""
        self._settings = settings
        self._latest = latest
        self._marked = marked
        self._clock = clock
        self._created: set[str] = set()
        self._matched: set[str] = set()
        self._listing = threading.Lock()
        self._listed: tuple[float, Collection[str]] | None = None
        """When the side topics were listed, and which there were."""

    @property
    def any(self) -> bool:
        """Whether there may be any."""
        return self.creates or self._latest is not None or bool(self._settings.selection.patterns)

    @property
    def creates(self) -> bool:
        return self._settings.unknown_destination == "create"

    def way(self, topic: str, message: Message) -> Way:
        """Raises NotATopic when it may not be used; another DStreamError when that is not known now, or when too many were used."""
        pattern = self._present().finding(topic, named_table(message))
        if pattern is not None:
            return self._matched_by(topic, str(pattern))
        if not self.creates and self._latest is None:
            raise NotATopic("no pattern of the configuration matches its table")
        try:
            return self._created_or_configured(topic) if self.creates else self._configured(topic)
        except NotATopic as error:
            if self._marked is None:
                raise
            return self._side_topic(topic, self._marked, error)

    def created(self, topic: str) -> None:
        """It was created, and counts."""
        self._created.add(topic)

    def expected(self, topic: str) -> bool:
        """Whether it is one of the configuration's, so that there is always room for it."""
        return len(self._matched) < self._settings.match_at_most and self._present().matches(topic, None)

    def elsewhere(self, topic: str) -> str | None:
        """Why no table could have it, so that its messages do not wait; None if one could, or if it may be a side topic."""
        return self._elsewhere(topic) if self._marked is None else None

    def _present(self) -> RouterSettings:
        """Those of the file; while it cannot be read, those of the start."""
        try:
            return self._settings if self._latest is None else self._latest()
        except DStreamError:
            return self._settings

    def _matched_by(self, topic: str, pattern: str) -> Way:
        """Raises PermanentError, so that changes wait, when there are too many."""
        most = self._settings.match_at_most
        if topic not in self._matched and len(self._matched) >= most:
            raise PermanentError(
                f"{most} topics of tables that patterns match are in use already, and no more may be (router.match_at_most)",
                hint=_TOO_MANY,
            )
        self._matched.add(topic)
        missing = (
            f"it is the topic of a table that the pattern {pattern} of `tables` matches: create the topic, or take the table out with !; its "
            "changes wait"
        )
        return Way("configured", missing)

    def _side_topic(self, topic: str, marked: Callable[[], Collection[str]], refused: NotATopic) -> Way:
        why = self._elsewhere(topic)
        text = refused.message if why is None else why
        try:
            if topic in self._side_topics(marked):
                return Way("side")
        except PermanentError as error:
            text = f"{text}; side topics cannot be listed: {error.message}"
            raise NotATopic(text, hint=refused.hint, at_once=why is not None) from error
        text = f"{text}, and it is not a side topic"
        raise NotATopic(text, hint=refused.hint, at_once=why is not None) from refused

    def _side_topics(self, marked: Callable[[], Collection[str]]) -> Collection[str]:
        """One listing serves all that ask meanwhile, however many names were invented."""
        with self._listing:
            if self._listed is None or self._clock() - self._listed[0] >= LISTED_AGAIN:
                names = marked()
                self._listed = self._clock(), names
            return self._listed[1]

    def _created_or_configured(self, topic: str) -> Way:
        """Raises NotATopic when it may not be created and no table has it."""
        if (refused := self._forbidden(topic)) is None:
            return Way("created")
        why, hint = refused
        if self._latest is None:
            raise NotATopic(why, hint=hint)
        try:
            return self._configured(topic)
        except NotATopic as error:
            raise NotATopic(f"{why}; {error.message}", hint=hint) from error

    def _forbidden(self, topic: str) -> tuple[str, str] | None:
        """Why it may not be created, and what to do."""
        settings = self._settings
        if not topic.startswith(settings.create_under):
            under = " or ".join(settings.create_under) or "any name"
            return (
                f"it is not under {under} (router.create_under)",
                f"{ADD_TABLE}, or its prefix to router.create_under and restart",
            )
        if topic not in self._created and len(self._created) >= settings.create_at_most:
            full = f"{settings.create_at_most} topics were created already, and no more may be (router.create_at_most)"
            return full, f"{ADD_TABLE}, or raise router.create_at_most and restart"
        return None

    def _configured(self, topic: str) -> Way:
        """An ingester may have applied an edit of the configuration already. A topic that is unavailable concerns its own table only."""
        assert self._latest is not None
        try:
            known = self._latest().topics
        except ConfigurationError as error:
            raise TransientError(f"the configuration cannot be used: {error.problems[0]}") from error
        if topic not in known:
            raise NotATopic("the present configuration does not name it")
        return Way("configured")

    def _elsewhere(self, topic: str) -> str | None:
        """The file counts as well: it may name another server or database by now. A file that cannot be read answers nothing."""
        begin = self._settings.topics_begin
        if not begin or topic.startswith((*begin, *self._settings.create_under)):
            return None
        try:
            if self._latest is not None and topic in self._latest().topics:
                return None
        except DStreamError:
            return None
        return f"no table of this configuration could have it: their topics begin with {' or '.join(begin)}"
