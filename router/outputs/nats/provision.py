"""Creates JetStream streams, or looks whether those that exist fit, by JetStream's API. Never used for a message."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import nats.js.errors
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.manager import JetStreamManager

from common.bus.ports import Provision
from common.check import Finding, Fix, Tool, by_hand, fail, failed, ok, warn
from common.errors import DStreamError, EntityMissing, PermanentError, Stopped, TransientError
from router.outputs.event_loop import LoopThread
from router.outputs.nats.connection import Connection
from router.outputs.nats.settings import NatsSettings
from router.outputs.nats.streams import uncovered

_NAME_IN_USE = 10058
_WRITES = 5
_MOMENT = 0.2
"""Seconds, about, in which another router that has looked at the stream before writes to it."""
_BY_THE_CLI = Tool.SHELL
_HINT = 'provision = "create" makes the stream, or adds the subject to it; or do it with the nats command, as dstream plan shows'


@dataclass(frozen=True, slots=True)
class Look:
    """A stream as it is; `config` is None when it does not exist. `uncovered`: subjects that it does not take."""

    name: str
    config: StreamConfig | None
    uncovered: Sequence[str]

    @property
    def unfit(self) -> str | None:
        """Why nothing that is published to it could be relied on."""
        if self.config is None:
            return None
        if self.config.no_ack:
            return f"stream {self.name} acknowledges nothing (no_ack)"
        if self.config.sealed:
            return f"stream {self.name} is sealed"
        if self.config.mirror is not None:
            return f"stream {self.name} is a mirror"
        if self.config.retention not in (None, RetentionPolicy.LIMITS):
            kept = RetentionPolicy(self.config.retention).value
            return f"stream {self.name} keeps messages only for consumers that it knows (retention {kept}, not limits)"
        return None

    def weak(self, window: float) -> Iterator[str]:
        """How messages that were accepted may be gone before a consumer has read them, or be there twice. `window`: seconds of the setting."""
        if (config := self.config) is None:
            return
        if config.storage == StorageType.MEMORY:
            yield f"stream {self.name} is stored in memory: its servers lose it when they end"
        limits = [name for name in ("max_msgs", "max_bytes") if (getattr(config, name) or 0) > 0]
        if config.discard == DiscardPolicy.OLD and limits:
            yield f"stream {self.name} drops its oldest messages, read or not, when it is full ({', '.join(limits)}, discard old)"
        if config.max_msgs_per_subject > 0:
            most = config.max_msgs_per_subject
            yield f"stream {self.name} keeps only {most} messages of a subject (max_msgs_per_subject)"
        if config.duplicate_window < window:
            yield (
                f"stream {self.name} remembers ids for {config.duplicate_window:g} s, less than the setting duplicate_window ({window:g} s)"
            )

    @property
    def missing(self) -> list[str]:
        if self.config is None:
            return [f"stream {self.name} does not exist (subjects: {', '.join(self.uncovered)})"]
        return [f"stream {self.name} does not take subject {subject}" for subject in self.uncovered]


class Streams:
    """The streams of one output. Each call has a deadline."""

    def __init__(self, settings: NatsSettings, connection: Connection, loop: LoopThread) -> None:
        self._settings = settings
        self._connection = connection
        self._loop = loop

    def provision(self, needs: Mapping[str, Sequence[str]], how: Provision, stop: threading.Event | None) -> None:
        """Raises PermanentError with all that is missing or unfit, TransientError or Stopped."""
        problems = []
        for name, subjects in needs.items():
            if stop is not None and stop.is_set():
                raise Stopped("asked to stop")
            look = self.look(name, subjects)
            if how == "create" and look.missing:
                look = self._create(look)
            problems += [look.unfit] if look.unfit is not None else look.missing
        if problems:
            raise EntityMissing("checking streams: " + "; ".join(problems), hint=_HINT)

    def look(self, name: str, subjects: Sequence[str]) -> Look:
        doing = f"looking at stream {name}"
        return self._loop.call(self._look(name, subjects, doing), seconds=self._most, doing=doing)

    def look_at_account(self) -> None:
        """Raises when JetStream cannot be used."""
        doing = "looking at the account"

        async def ask() -> None:
            link = await self._connection.opened()
            try:
                await link.asked(lambda manager: manager.account_info(), doing, self._settings.domain)
            except nats.js.errors.APIError as error:
                raise _fault(doing, error) from error

        self._loop.call(ask(), seconds=self._most, doing=doing)

    def _create(self, look: Look) -> Look:
        doing = f"creating stream {look.name}"
        return self._loop.call(self._created(look, doing), seconds=self._most, doing=doing)

    @property
    def window(self) -> float:
        """Seconds for which streams should remember ids."""
        return self._settings.duplicate_window.total_seconds()

    @property
    def _most(self) -> float:
        return 3 * self._settings.seconds

    async def _look(self, name: str, subjects: Sequence[str], doing: str) -> Look:
        link = await self._connection.opened()

        async def ask(manager: JetStreamManager) -> StreamConfig | None:
            try:
                return (await manager.stream_info(name)).config
            except nats.js.errors.NotFoundError:
                return None

        try:
            config = await link.asked(ask, doing, self._settings.domain)
        except nats.js.errors.APIError as error:
            raise _fault(doing, error) from error
        taken = [] if config is None else config.subjects or []
        return Look(name, config, uncovered(subjects, taken))

    async def _created(self, look: Look, doing: str) -> Look:
        """Another router may do the same at the same time, and write its subjects over these: what there is is looked at a moment later, and
        written again."""
        asked = list(look.uncovered)
        for _ in range(_WRITES):
            await self._write(look, doing)
            await asyncio.sleep(random.uniform(0.5, 1.5) * _MOMENT)
            look = await self._look(look.name, asked, doing)
            if not look.missing:
                break
        return look

    async def _write(self, look: Look, doing: str) -> None:
        link = await self._connection.opened()
        subjects = list(look.uncovered)

        async def ask(manager: JetStreamManager) -> None:
            if look.config is None:
                await manager.add_stream(config_of(self._settings, look.name, subjects))
            else:
                await manager.update_stream(look.config.evolve(subjects=[*(look.config.subjects or []), *subjects]))

        try:
            await link.asked(ask, doing, self._settings.domain)
        except nats.js.errors.APIError as error:
            if error.err_code != _NAME_IN_USE:
                raise _fault(doing, error) from error


def config_of(settings: NatsSettings, name: str, subjects: Sequence[str]) -> StreamConfig:
    """A stream that DStream creates."""
    return StreamConfig(
        name=name,
        subjects=list(subjects),
        retention=RetentionPolicy.LIMITS,
        discard=DiscardPolicy.NEW if settings.discard == "new" else DiscardPolicy.OLD,
        storage=StorageType.FILE if settings.storage == "file" else StorageType.MEMORY,
        num_replicas=settings.replicas,
        max_age=settings.max_age.total_seconds(),
        max_bytes=-1 if settings.max_bytes is None else int(settings.max_bytes),
        duplicate_window=settings.duplicate_window.total_seconds(),
    )


def findings(
    streams: Streams, output: str, needs: Mapping[str, Sequence[str]], provision: Provision
) -> Iterator[Finding]:
    subject = f"output {output}"
    try:
        streams.look_at_account()
    except DStreamError as error:
        yield failed(subject, error)
        return
    yield ok(subject, "JetStream answers")
    for name, subjects in needs.items():
        try:
            look = streams.look(name, subjects)
        except DStreamError as error:
            yield failed(subject, error)
            continue
        yield from _of_one(look, subject, provision, streams.window)


def _of_one(look: Look, subject: str, provision: Provision, window: float) -> Iterator[Finding]:
    if look.unfit is not None:
        yield fail(subject, look.unfit, "configure the stream otherwise, or name another one", fix=_UNFIT)
        return
    for text in look.missing:
        if provision == "create":
            yield ok(subject, f"{text}: a start creates it")
        else:
            yield fail(subject, text, _HINT, fix=Fix(because="dstream plan shows the command"))
    if look.config is None:
        return
    if not look.missing:
        yield ok(subject, f"stream {look.name} takes its subjects")
    for text in look.weak(window):
        yield warn(subject, text, fix=_UNFIT)


_UNFIT = by_hand("the stream is not DStream's to change")


def _fault(doing: str, error: nats.js.errors.APIError) -> DStreamError:
    words = f"{doing}: {error.description} (error {error.err_code})"
    if (error.code or 0) >= 500:
        return TransientError(words)
    return PermanentError(words, hint="see the server's log, and the account's limits and rights")
