"""Decides what of an edited configuration a running router takes over. Pure.

Everything, with slots and outputs made again, except what this process is built on: the queue that it receives from, the number of its processes and
the port of its health. An edit that names another queue waits as a whole for the restart: its outputs were judged beside that queue, and the ingester
sends to the old one until it is restarted as well. Tables need no takeover, because the router looks an unknown topic up in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.config.difference import differing
from router.settings import RouterSettings, one_process

_BUILT_ON = ("workers", "health")
"""Settings that stay as they were until a restart; the rest of the edit is taken over."""

_QUEUE = ("source", "queue_name", "ordering")
"""Another queue, of which the source's other settings (a key, a transport) are no part."""

_LOOKED_UP = ("topics", "selection")
"""Tables: `router.publishing.further` reads them in the file."""

_OF_THE_INGESTER = {
    "queue_name": "ingester.queue.name",
    "ordering": "ingester.queue.ordering",
}
"""Where a setting stands that is not of the router's block."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`settings`: to take over; None: what is in force stays. `restart`: names of changed settings that need a restart. `whole`: nothing of the
    edit is in force before that."""

    settings: RouterSettings | None
    restart: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class OutputChanges:
    """Names of outputs, for the log."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def plan(in_force: RouterSettings, new: RouterSettings) -> Plan:
    """From the settings that are in force to those of the file."""
    queue = _other_queue(in_force, new)
    alone = ("router.workers",) if in_force.workers > 1 and one_process(new) is not None else ()
    if queue or alone:
        return Plan(None, (*queue, *alone), whole=True)
    kept = {name: getattr(in_force, name) for name in _BUILT_ON}
    restart = tuple(f"router.{name}" for name in _BUILT_ON if getattr(new, name) != kept[name])
    usable = new.model_copy(update=kept)
    return Plan(None if _same(in_force, usable) else usable, restart)


def _other_queue(in_force: RouterSettings, new: RouterSettings) -> tuple[str, ...]:
    names = [_OF_THE_INGESTER[name] for name in _QUEUE[1:] if getattr(in_force, name) != getattr(new, name)]
    if in_force.source.where != new.source.where:
        names += differing(in_force.source, new.source, block="router.source")
    return tuple(names)


def _same(one: RouterSettings, other: RouterSettings) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in type(one).model_fields if name not in _LOOKED_UP)


def output_changes(old: RouterSettings, new: RouterSettings) -> OutputChanges:
    """Of those that get something, before or now."""
    before, now = _used(old), _used(new)
    return OutputChanges(
        tuple(name for name in now if name not in before),
        tuple(name for name in before if name not in now),
        tuple(name for name in now if name in before and now[name] != before[name]),
    )


def _used(settings: RouterSettings) -> Mapping[str, object]:
    around = settings.around
    return {name: (settings.all_outputs[name], around.subscriptions) for name in settings.streams}
