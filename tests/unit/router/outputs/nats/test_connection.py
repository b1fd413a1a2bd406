"""What a link keeps of what the server says outside of its answers."""

from __future__ import annotations

import asyncio

import nats.errors
from nats.aio.client import Client

from router.outputs.nats.connection import Link


def test_a_right_that_is_missing_for_long_takes_no_memory() -> None:
    link = Link(Client(), "h:4222")

    async def said() -> None:
        for number in range(1000):
            await link.on_error(nats.errors.Error(f'Permissions Violation for Publish to "a.{number}"'))

    asyncio.run(said())
    assert link.violations == 1000
    assert link.violation.endswith('"a.999"')
    held = [value for value in vars(link).values() if isinstance(value, (list, dict, set))]
    assert [value for value in held if len(value) > 0] == []
