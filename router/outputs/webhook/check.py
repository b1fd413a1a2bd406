"""Whether a receiver can be reached, and knows its addresses: for `provision = "verify"` and `dstream check`. Sends no change."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from common.check import BY_EDITING, Finding, by_hand, fail, failed, ok, warn
from common.errors import DStreamError, EntityMissing, EntityUnavailable, TransientError
from router.outputs.event_loop import LoopThread
from router.outputs.webhook.answers import Meaning, meaning, unavailable, words
from router.outputs.webhook.client import Client, Lost
from router.outputs.webhook.settings import WebhookSettings
from router.outputs.webhook.target import Target

_AT_THE_RECEIVER = by_hand("the receiver is not DStream's to change")


@dataclass(frozen=True, slots=True)
class Look:
    """What was found at one address. `fault`: None when nothing is wrong. `passing`: it may be over soon."""

    where: str
    text: str
    fault: DStreamError | None = None
    passing: bool = False


class Probe:
    """Looks at addresses of one output."""

    def __init__(self, settings: WebhookSettings, client: Client, loop: LoopThread) -> None:
        self._settings = settings
        self._client = client
        self._loop = loop

    def look(self, where: str) -> Look:
        """Raises TransientError when it cannot be reached."""
        doing = f"connecting to {where}"
        return self._loop.call(self._look(where, doing), seconds=2 * self._settings.seconds, doing=doing)

    async def _look(self, where: str, doing: str) -> Look:
        target = Target(self._settings, where)
        try:
            if self._settings.check_method == "none":
                await self._client.reach(target.url)
                return Look(where, "can be reached; nothing was sent")
            answer = await self._client.exchange(self._settings.check_method, target.url, target.always, None)
        except Lost as error:
            raise TransientError(f"{doing}: {error.message}", hint=error.hint) from error
        said = f"{self._settings.check_method} is answered with {words(answer.status)}"
        match meaning(answer.status, refused=()):
            case Meaning.ACCEPTED:
                return Look(where, said)
            case Meaning.BUSY | Meaning.AGAIN:
                return Look(where, said, passing=True)
        if answer.status in (401, 403, 404, 407, 410) or 300 <= answer.status <= 399:
            return Look(where, said, fault=unavailable(where, answer.status, answer.location))
        return Look(where, f"{said}: the receiver is there")


def faults(looks: Sequence[Look]) -> EntityUnavailable | None:
    """One error for all that is missing or refused."""
    found = [look.fault for look in looks if look.fault is not None]
    if not found:
        return None
    kind = EntityMissing if all(isinstance(each, EntityMissing) for each in found) else EntityUnavailable
    return kind("; ".join(each.message for each in found), hint=found[0].hint)


def findings(probe: Probe, settings: WebhookSettings, places: Sequence[str]) -> Iterator[Finding]:
    subject = f"output {settings.name}"
    if in_the_clear(settings):
        yield warn(
            subject,
            "url begins with http://: changes and credentials travel in the clear",
            "use https://",
            fix=BY_EDITING,
        )
    for where in places:
        try:
            look = probe.look(where)
        except DStreamError as error:
            yield failed(subject, error)
            continue
        if look.fault is not None:
            yield fail(subject, look.fault.message, look.fault.hint, fix=_AT_THE_RECEIVER)
        elif look.passing:
            yield warn(subject, f"{where}: {look.text}", "try again later", fix=_AT_THE_RECEIVER)
        else:
            yield ok(subject, f"{where}: {look.text}")


def in_the_clear(settings: WebhookSettings) -> bool:
    """Whether anybody between here and there can read it."""
    parts = urlsplit(settings.url)
    host = parts.hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return parts.scheme == "http" and not local
