"""Makes or checks the indexes of streams, and finds for `dstream check` what would stand in the way. Writes no document."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import structlog

from common.bus.ports import Provision
from common.check import Finding, by_hand, fail, failed, ok, warn
from common.errors import DStreamError, EntityMissing, EntityUnavailable, PermanentError, Stopped, TransientError
from router.outputs.elasticsearch.answers import Fate, error_of, of_error
from router.outputs.elasticsearch.bulk import Place
from router.outputs.elasticsearch.client import Client, Response
from router.outputs.elasticsearch.index import body_of, faults, index_of, weaknesses
from router.outputs.elasticsearch.settings import ElasticsearchSettings
from router.outputs.port import Stream

_BY_HAND = by_hand("an index is changed with the server's own tools")
_OLDEST = {"elasticsearch": (7, 10), "opensearch": (1, 0)}
"""The first versions that know require_alias."""

log = structlog.get_logger(__name__)


class Provisioner:
    def __init__(self, client: Client, settings: ElasticsearchSettings) -> None:
        self._client, self._settings = client, settings

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        """As `router.outputs.port.Output` says."""
        late, wrong = list[tuple[Stream, TransientError]](), list[str]()
        for stream in () if how == "none" else streams:
            if stop is not None and stop.is_set():
                raise Stopped("asked to stop")
            try:
                wrong += self._provided(stream.destination, how)
            except TransientError as error:
                late.append((stream, error))
        if wrong:
            raise PermanentError("; ".join(wrong), hint='create or correct them, or use provision = "create"')
        if streams and len(late) == len(streams):
            raise late[0][1]  # reported by the caller, once, however often it tries again
        for stream, reason in late:
            self._tell_late(stream, reason)
        return [stream.topic for stream, _ in late]

    def _tell_late(self, stream: Stream, error: TransientError) -> None:
        log.warning(
            "index not provided yet",
            output=self._settings.name,
            index=stream.destination,
            error=error.message,
            hint=error.hint,
        )

    def _provided(self, place: str, how: Provision) -> list[str]:
        """What is wrong with it, and stays so. Raises TransientError."""
        until = time.monotonic() + self._settings.seconds
        try:
            found = self._look(place, until)
            if found is None and how == "create":
                self._create(place, until)
                found = self._look(place, until)
        except EntityUnavailable as error:
            return [str(error)]
        if found is None:
            return [f"there is no index {place}"]
        return [f"index {place}: {fault} ({hint})" for fault, hint in faults(self._settings, place, found)]

    def _look(self, place: str, until: float) -> Mapping[str, Any] | None:
        """What stands behind a name; None when nothing does."""
        doing = f"looking at index {place}"
        response = self._client.request("GET", f"/{quote(place, safe='')}", until=until, doing=doing)
        if response.status == 404:
            return None
        found = self._read(response, doing)
        if not isinstance(found, dict):
            raise TransientError(
                f"{doing}: the answer is no object", hint="check urls: is it Elasticsearch or OpenSearch?"
            )
        return found

    def _create(self, place: str, until: float) -> None:
        doing, index = f"creating index {place}", index_of(place)
        body = json.dumps(body_of(self._settings, place)).encode()
        path = f"/{quote(index, safe='')}"
        response = self._client.request("PUT", path, body, until=until, doing=doing)
        error = error_of(response.body)
        if isinstance(error, dict) and error.get("type") == "resource_already_exists_exception":
            if self._look(place, until) is None:  # another router has made both, or a person has taken the alias away
                hint = f"let an alias {place} name it, or delete it"
                raise EntityUnavailable(f"{doing}: there is an index {index} without the alias {place}", hint=hint)
            return
        self._read(response, doing)
        log.info("index created", output=self._settings.name, index=place)

    def _read(self, response: Response, doing: str) -> object:
        """Raises EntityUnavailable or TransientError for anything but success."""
        if response.status == 200:
            try:
                return response.json()
            except ValueError:
                raise TransientError(f"{doing}: the answer is no JSON", hint="check urls") from None
        answer = of_error(response.status, error_of(response.body))
        if answer.fate in (Fate.UNFIT, Fate.REFUSED):
            raise EntityUnavailable(f"{doing}: {answer.words}", hint=answer.hint or "the server refuses this index")
        raise TransientError(f"{doing}: {answer.words}", hint=answer.hint)

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        yield from self._server()
        if any(url.startswith("http://") for url in self._settings.urls) and self._settings.username is not None:
            hint = "use https:// unless the network is trusted"
            yield warn(
                "urls", "passwords are sent in plain text", hint, fix=by_hand("the server's TLS is set up by hand")
            )
        for place in dict.fromkeys(stream.destination for stream in streams):
            try:
                yield from self._of_place(place, provision)
            except TransientError:
                raise
            except DStreamError as error:
                yield failed(f"index {place}", error)

    def _server(self) -> Iterator[Finding]:
        doing, subject = "looking at the cluster", f"{self._settings.type} {self._settings.where}"
        until = time.monotonic() + self._settings.seconds
        response = self._client.request("GET", "/", until=until, doing=doing)
        if response.status == 403:
            yield warn(subject, "its version cannot be seen", "grant monitor on the cluster to see it", fix=_BY_HAND)
            return
        try:
            version = self._read(response, doing)["version"]  # type: ignore[index]
            product, number = version.get("distribution", "elasticsearch"), str(version["number"])
            known = tuple(int(part) for part in number.split(".")[:2])
        except EntityUnavailable as error:
            yield failed(subject, error)
            return
        except (KeyError, TypeError, ValueError, AttributeError):
            yield fail(subject, "it is neither Elasticsearch nor OpenSearch", "check urls", fix=_BY_HAND)
            return
        oldest = _OLDEST.get(product, (0, 0))
        if known < oldest:
            least = ".".join(map(str, oldest))
            yield fail(subject, f"{product} {number} is too old", f"use {least} or later", fix=_BY_HAND)
        else:
            yield ok(subject, f"{product} {number}")

    def _of_place(self, place: str, provision: Provision) -> Iterator[Finding]:
        subject, until = f"index {place}", time.monotonic() + self._settings.seconds
        found = self._look(place, until)
        if found is None and provision == "create":
            yield ok(subject, "it will be created")
            return
        if found is None:
            raise EntityMissing("it does not exist", hint='create it, or use provision = "create"')
        wrong = list(faults(self._settings, place, found))
        for text, hint in wrong:
            yield fail(subject, text, hint, fix=_BY_HAND)
        for text, hint in weaknesses(self._settings, place, found):
            yield warn(subject, text, hint, fix=_BY_HAND)
        answer = Place(self._client, place, alias=place not in found).probe(until)
        if answer.fate is Fate.STALE and not wrong:
            yield ok(subject, "it exists, and documents may be written")
        elif answer.fate is not Fate.STALE:
            yield fail(subject, f"no document may be written: {answer.words}", answer.hint, fix=_BY_HAND)


def _here(url: str) -> bool:
    """Whether it is on this machine."""
    host = urlsplit(url).hostname
    return host in ("localhost", "::1") or str(host).startswith("127.")
