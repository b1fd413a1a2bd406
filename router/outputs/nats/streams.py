"""Which JetStream streams the subjects need, and what is missing in one that exists. Pure; knows no client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from router.outputs.nats.settings import NatsSettings
from router.outputs.port import Stream


def needed(settings: NatsSettings, streams: Iterable[Stream]) -> Mapping[str, Sequence[str]]:
    """The subjects of each JetStream stream, by its name."""
    found: dict[str, set[str]] = {}
    for stream in streams:
        found.setdefault(settings.stream_of(stream.destination), set()).add(stream.destination)
    return {name: sorted(subjects) for name, subjects in sorted(found.items())}


def uncovered(subjects: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Those of `subjects` that a stream which takes these patterns does not take."""
    patterns = [each.split(".") for each in taken]
    return [each for each in subjects if not any(_matches(pattern, each.split(".")) for pattern in patterns)]


def _matches(pattern: Sequence[str], tokens: Sequence[str]) -> bool:
    for at, part in enumerate(pattern):
        if part == ">":
            return len(tokens) > at
        if at >= len(tokens) or part not in ("*", tokens[at]):
            return False
    return len(pattern) == len(tokens)
