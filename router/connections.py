"""`dstream check` of the number of connections that routers make, against the namespace's limit. Pure arithmetic."""

from __future__ import annotations

from common.check import BY_EDITING, Finding, ok, warn

NEAR = 0.8
"""Share of the limit from which to warn."""

REPLICAS = 2
"""Routers that are assumed to run: one, and its successor during a replacement."""


def judge_connections(
    most: int, *, topics: int, most_open: int, slots: int, parked: int, workers: int, shared: bool
) -> Finding:
    """The most connections of a router: all topics are written to, all slots are busy, and it holds as many sessions without a slot as it may.
    In every worker each topic and each session is a connection.

    `most`: connections that a namespace accepts. `most_open`: topics that a worker keeps a link to; it closes further ones. `slots`: those of
    a worker. `parked`: sessions held without a slot, for each slot, because their topics are unavailable or they met poison. `shared`: queue
    and topics are in one namespace.
    """
    links = min(topics, most_open)
    usual = _of_one_namespace(links, slots, shared) * workers
    worst = _of_one_namespace(links, slots * (1 + parked), shared) * workers
    each = f"topics with an open link: {links}{f', slots: {slots}' if shared else ''}, times workers: {workers}"
    text = f"a router has up to {usual:,} with one namespace ({each}), and {worst:,} while topics are unavailable, of {most:,} that it takes: "
    if worst * REPLICAS < most * NEAR:
        return ok("connections", f"{text}room for {most // max(worst, 1)} routers")
    found = f"{text}{REPLICAS} routers, as while one replaces another, would have {worst * REPLICAS:,}"
    return warn(
        "connections",
        found,
        "lower router.workers or router.slots, or spread tables over several namespaces",
        fix=BY_EDITING,
    )


def _of_one_namespace(sending: int, receiving: int, shared: bool) -> int:
    return sending + receiving if shared else max(sending, receiving)
