"""Makes the publishers of topics: those that the configuration names, and those that turn up later. It decides which may be created.

The topic of a table that a pattern of the configuration matches is made, checked or waited for as one that the configuration names, at its first
change. Which tables there are is not known here: a sender to the queue may invent some that match, so that their number is limited.

It names no adapter: the caller passes senders, and a function that creates a topic. A topic whose name came with a message is created only under
the prefixes and up to the number that the configuration allows. One that exists is used although no table has it if it bears the mark of a side
topic (router/side_topic.py), and is never created or changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from functools import partial

from common.bus.ports import OpenableSender
from common.bus.throttling import ThrottleLog
from common.errors import ConfigurationError, DStreamError, PermanentError, TransientError
from common.message import Message
from common.table_selection import TablePattern
from router.publishing.awaited import NotATopic
from router.publishing.publisher import Publisher
from router.publishing.publishers import Publishers
from router.routes import ADD_TABLE, named_table
from router.settings import Latest, RouterSettings
from router.tally import Tally

LISTED_AGAIN = 1.0
"""Seconds after which side topics are listed again, when a message for an unknown topic comes."""


class Topics:
    """Makes the publishers of a process, which share the state of their namespace."""

    def __init__(
        self,
        settings: RouterSettings,
        sender: Callable[[str], OpenableSender],
        provide: Callable[[str], object],
        latest: Latest | None,
        tally: Tally,
        marked: Callable[[], Collection[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`provide` creates or checks a topic, depending on the configuration. `latest` returns the settings of the present configuration; None
        if there is no way to read it. `marked` lists the side topics, in lower case; None if they cannot be seen.
        """
        self._settings = settings
        self._sender = sender
        self._provide = provide
        self._latest = latest
        self._tally = tally
        self._throttling = ThrottleLog()
        self._created: set[str] = set()
        self._matched: set[str] = set()
        self._marked = marked
        self._clock = clock
        self._listing = threading.Lock()
        self._listed: tuple[float, Collection[str]] | None = None
        """When the side topics were listed, and which there were."""

    def publishers(self) -> Publishers:
        """The publishers of all configured topics; further ones are made when a message for them comes."""
        settings = self._settings
        return Publishers(
            map(self._configured, settings.topics),
            further=self._further(),
            never={settings.queue_name.lower(): "it is the ingest queue"},
            elsewhere=self._elsewhere if self._marked is None else lambda topic: None,
            expected=self._expected,
            grace=settings.unknown_grace.total_seconds(),
            tally=self._tally,
        )

    @property
    def _creates(self) -> bool:
        return self._settings.unknown_destination == "create"

    def _further(self) -> Callable[[str, Message], Publisher] | None:
        further = self._created_now if self._creates else None
        if further is None and self._latest is not None:
            further = partial(self._configured_now, self._latest)
        if further is not None and self._marked is not None:
            further = partial(self._or_a_side_topic, further, self._marked)
        if further is None and not self._settings.selection.patterns:
            return None
        return partial(self._of_a_pattern, further)

    def _of_a_pattern(self, other: Callable[[str], Publisher] | None, topic: str, message: Message) -> Publisher:
        pattern = self._present().finding(topic, named_table(message))
        if pattern is not None:
            return self._matched_now(topic, pattern)
        if other is None:
            raise NotATopic("no pattern of the configuration matches its table")
        return other(topic)

    def _present(self) -> RouterSettings:
        """Those of the file; while it cannot be read, those of the start."""
        try:
            return self._settings if self._latest is None else self._latest()
        except DStreamError:
            return self._settings

    def _expected(self, topic: str) -> bool:
        return len(self._matched) < self._settings.match_at_most and self._present().matches(topic, None)

    def _matched_now(self, topic: str, pattern: TablePattern) -> Publisher:
        """Not created here: the publisher does that, and goes on trying. Raises PermanentError, so that changes wait, when there are too many."""
        most = self._settings.match_at_most
        if topic not in self._matched and len(self._matched) >= most:
            raise PermanentError(
                f"{most} topics of tables that patterns match are in use already, and no more may be (router.match_at_most)",
                hint="raise router.match_at_most, or name the table itself in `tables`, and restart; if no such table exists, look who "
                "else may send to the ingest queue",
            )
        self._matched.add(topic)
        missing = (
            f"it is the topic of a table that the pattern {pattern} of `tables` matches: create the topic, or take the table out with !; its "
            "changes wait"
        )
        return self._publisher(topic, provide_first=True, missing=missing)

    def _or_a_side_topic(
        self, further: Callable[[str], Publisher], marked: Callable[[], Collection[str]], topic: str
    ) -> Publisher:
        try:
            return further(topic)
        except NotATopic as error:
            refused = error
        why = self._elsewhere(topic)
        text = refused.message if why is None else why
        try:
            if topic in self._side_topics(marked):
                return self._publisher(topic, provide=lambda: None)
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

    def _configured(self, topic: str) -> Publisher:
        """A topic that was deleted while the router runs is created again only if any unknown topic would be."""
        return self._publisher(topic, provide_again=self._creates)

    def _publisher(
        self,
        topic: str,
        *,
        provide: Callable[[], object] | None = None,
        provide_first: bool = False,
        provide_again: bool = True,
        missing: str | None = None,
    ) -> Publisher:
        return Publisher(
            topic,
            self._sender(topic),
            provide=provide or partial(self._provide, topic),
            provide_first=provide_first,
            provide_again=provide_again,
            missing=missing,
            throttling=self._throttling,
            tally=self._tally,
        )

    def _created_now(self, topic: str) -> Publisher:
        """Raises NotATopic when it may not be created and no table has it."""
        if (refused := self._forbidden(topic)) is not None:
            return self._configured_instead(topic, *refused)
        self._provide(topic)
        publisher = self._publisher(topic)
        try:
            publisher.open()
        except DStreamError:
            publisher.close()
            raise
        self._created.add(topic)
        return publisher

    def _forbidden(self, topic: str) -> tuple[str, str] | None:
        """Why it may not be created, and what to do."""
        settings = self._settings
        if not topic.startswith(settings.create_under):
            under = " or ".join(settings.create_under) or "any name"
            return (
                f"it is not under {under} (router.create_under)",
                f"{ADD_TABLE}, or its prefix to router.create_under and restart",
            )
        if len(self._created) >= settings.create_at_most:
            full = f"{settings.create_at_most} topics were created already, and no more may be (router.create_at_most)"
            return full, f"{ADD_TABLE}, or raise router.create_at_most and restart"
        return None

    def _configured_instead(self, topic: str, why: str, hint: str) -> Publisher:
        if self._latest is None:
            raise NotATopic(why, hint=hint)
        try:
            return self._configured_now(self._latest, topic)
        except NotATopic as error:
            raise NotATopic(f"{why}; {error.message}", hint=hint) from error

    def _configured_now(self, latest: Latest, topic: str) -> Publisher:
        """An ingester may have applied an edit of the configuration already. A topic that is unavailable concerns its own table only."""
        try:
            known = latest().topics
        except ConfigurationError as error:
            raise TransientError(f"the configuration cannot be used: {error.problems[0]}") from error
        if topic not in known:
            raise NotATopic("the present configuration does not name it")
        return self._publisher(topic, provide_first=True)

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
