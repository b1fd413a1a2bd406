"""What a NATS output creates and needs, for `dstream plan`, and the commands of the nats command line that do it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from common.bus.ports import Provision
from common.config.durations import format_duration
from router.outputs.nats.settings import NatsSettings
from router.outputs.nats.streams import needed
from router.outputs.port import Planned, Stream


def planned(settings: NatsSettings, streams: Sequence[Stream], provision: Provision) -> Planned:
    needs = needed(settings, streams)
    creates = [f"stream {name} with subjects {', '.join(subjects)}" for name, subjects in needs.items()]
    return Planned(
        creates=creates if provision == "create" else (),
        needs=tuple(_rights(needs, provision)),
        script="".join(_command(settings, name, subjects) for name, subjects in needs.items()),
    )


def _rights(needs: Mapping[str, Sequence[str]], provision: Provision) -> Iterator[str]:
    for subjects in needs.values():
        yield from (f"publish {subject}" for subject in subjects)
    yield "subscribe _INBOX.>"
    if provision == "none":
        return
    yield "publish $JS.API.INFO"
    for name in needs:
        yield f"publish $JS.API.STREAM.INFO.{name}"
        if provision == "create":
            yield f"publish $JS.API.STREAM.CREATE.{name}"
            yield f"publish $JS.API.STREAM.UPDATE.{name}"


def _command(settings: NatsSettings, name: str, subjects: Sequence[str]) -> str:
    age = "-1" if not settings.max_age else format_duration(settings.max_age)
    words = [
        *("nats", "--server", ",".join(settings.servers), "stream", "add", name, "--defaults"),
        *("--subjects", ",".join(subjects), "--storage", settings.storage, "--replicas", str(settings.replicas)),
        *("--retention", "limits", "--discard", settings.discard, "--max-age", age),
        *("--max-bytes", str(-1 if settings.max_bytes is None else int(settings.max_bytes))),
        *("--dupe-window", format_duration(settings.duplicate_window)),
    ]
    return shlex.join(words) + "\n"
