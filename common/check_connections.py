"""`dstream check` of how many connections routers make, against what a namespace takes. Pure arithmetic."""

from __future__ import annotations

from common.check import Finding, ok, warn

MOST = 5_000
"""AMQP connections of a namespace, in every tier: further ones are refused
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""

NEAR = 0.8
"""Of that."""

REPLICAS = 2
"""Routers that are assumed to run: one, and its successor while it is replaced."""


def judge_connections(*, topics: int, sessions: int, workers: int, shared: bool) -> Finding:
    """The most that a router has when all topics are written to and all slots are at work: each topic and each session is a connection of
    every worker. `shared`: queue and topics are in one namespace.
    """
    sending, receiving = topics * workers, sessions * workers
    router = sending + receiving if shared else max(sending, receiving)
    each = f"topics: {topics}{f', sessions: {sessions}' if shared else ''}, times workers: {workers}"
    text = f"a router has up to {router:,} with one namespace ({each}), of {MOST:,} that it takes: "
    if router * REPLICAS < MOST * NEAR:
        return ok("connections", f"{text}room for {MOST // max(router, 1)} routers")
    found = f"{text}{REPLICAS} routers, as while one replaces another, would have {router * REPLICAS:,}"
    return warn("connections", found, "lower router.workers, or spread tables over several namespaces")
