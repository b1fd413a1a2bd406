"""Several sessions side by side in one event loop, when something happens that nobody foresaw."""

from __future__ import annotations

import asyncio

import pytest

from common.bus.ports import SendInterrupted, for_ever
from common.message import Message
from router.outputs.event_loop import LoopThread
from router.outputs.sending import Sending, side_by_side


def test_an_unforeseen_error_ends_the_other_sessions_before_it_is_raised() -> None:
    ended: list[str] = []

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("a value of a row")

    async def goes_on() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append("cancelled")

    async def all_of_them() -> None:
        with pytest.raises(KeyError):
            await side_by_side([goes_on(), fails(), goes_on()])
        assert ended == ["cancelled", "cancelled"]

    asyncio.run(all_of_them())


def test_an_unforeseen_error_interrupts_the_send_with_its_place_and_what_was_accepted() -> None:
    loop = LoopThread("test")
    sending = Sending([Message(b"{}", "1"), Message(b"{}", "2")], for_ever, "sending to a.b")

    async def fails() -> None:
        sending.accepted.add(0)
        raise KeyError("a value of a row")

    try:
        with pytest.raises(
            SendInterrupted, match=r"sending to a\.b: KeyError, raised in fails, test_sending\.py"
        ) as it:
            sending.run(loop, fails(), most=5)
    finally:
        loop.close()
    assert it.value.accepted == {0}
    assert "row" not in str(it.value)
