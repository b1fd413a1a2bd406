"""Sends the changes of one table as requests: those of a session one after the other, several sessions side by side.

The next request of a session begins when the one before was accepted, so nothing can overtake. After the first fault no request begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from common.bus.ports import MessageRefused, MessageUnwritable, SendInterrupted, TimeLeft, for_ever
from common.errors import DStreamError, TransientError
from common.message import Message
from router.outputs.event_loop import LoopThread
from router.outputs.headers import Unwritable
from router.outputs.sending import Sending, side_by_side
from router.outputs.webhook.answers import Answer, Meaning, meaning, seconds_of, unavailable, words
from router.outputs.webhook.client import Client, Lost
from router.outputs.webhook.requests import Request, of_many, of_one
from router.outputs.webhook.target import Target

_CHUNK = 262_144
"""Bytes of messages that are best sent in one call."""
_STALE_AFTER = 1.0
"""Seconds without a request after which the receiver may have closed a connection just now: then a request goes out once more."""

_REQUESTS_EACH = 4
"""Requests that a message may be part of at most, on the average: halves of a batch that is refused, each of them once more."""

_REFUSED = "fix what the receiver's log says of this change; if it refuses every change, check url, envelope and batch"
_WRITABLE = "fix the program that makes such messages: HTTP cannot express this one"


class WebhookSender:
    """A `common.bus.ports.OpenableSender` for one address."""

    def __init__(self, target: Target, client: Client, loop: LoopThread) -> None:
        self._target = target
        self._client = client
        self._loop = loop
        self._doing = f"sending to {target.where}"
        self._used = 0.0
        self._not_before = 0.0

    def __repr__(self) -> str:
        return f"<WebhookSender {self._target.where}>"

    def open(self) -> None:
        self._loop.call(self._reach(), seconds=2 * self._target.seconds, doing=f"connecting to {self._target.where}")

    async def _reach(self) -> None:
        try:
            await self._client.reach(self._target.url)
        except Lost as error:
            raise TransientError(f"connecting to {self._target.where}: {error.message}", hint=error.hint) from error

    def batch_bytes(self) -> int:
        return _CHUNK

    def close(self) -> None:
        """Connections are the output's."""

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        sending = Sending(messages, left or for_ever, self._doing)
        if not messages:
            return
        if sending.left() <= 0:
            raise sending.out_of_time()
        if (wait := self._not_before - time.monotonic()) > 0:
            raise SendInterrupted(
                f"{self._doing}: the receiver asks for no request within the next {wait:.0f} s", throttled=True
            )
        # each request has a deadline of its own; this one is for an event loop that hangs
        sending.run(self._loop, self._all(sending), most=_REQUESTS_EACH * len(messages) * self._target.seconds)

    async def _all(self, sending: Sending) -> None:
        """What was foreseen and went wrong is in `sending`, so that each session's last request ends by itself."""
        free = asyncio.Semaphore(self._target.concurrency)

        async def one(places: Sequence[int]) -> None:
            async with free:
                try:
                    await self._session(places, sending)
                except DStreamError as error:
                    sending.faults.append(error)

        await side_by_side(one(places) for places in sending.sessions())
        self._used = time.monotonic()

    async def _session(self, places: Sequence[int], sending: Sending) -> None:
        batch = self._target.batch
        for start in range(0, len(places), batch):
            if sending.faults:
                return
            if sending.left() <= 0:
                raise sending.out_of_time()
            await self._request(places[start : start + batch], sending)

    async def _request(self, places: Sequence[int], sending: Sending) -> None:
        """If the receiver refuses several changes for their content, halves are sent, down to the one at fault."""
        messages = [sending.messages[at] for at in places]
        try:
            answer = await self._exchanged(of_one(messages[0]) if self._target.batch == 1 else of_many(messages))
        except Unwritable as error:
            if len(places) > 1:
                return await self._halves(places, sending)
            raise MessageUnwritable(
                self._target.where, messages[0], f"cannot be written: {error}", at=places[0], hint=_WRITABLE
            ) from error
        match meaning(answer.status, refused=self._target.refused, retry_after=answer.retry_after):
            case Meaning.ACCEPTED:
                sending.accepted.update(places)
            case Meaning.REFUSED if len(places) > 1:
                await self._halves(places, sending)
            case Meaning.REFUSED:
                said = f"was refused: the receiver answered {words(answer.status)}"
                raise MessageRefused(self._target.where, messages[0], said, at=places[0], hint=_REFUSED)
            case Meaning.BUSY:
                raise self._busy(answer)
            case Meaning.AGAIN:
                raise SendInterrupted(f"{self._doing}: answered {words(answer.status)}")
            case _:
                raise unavailable(self._target.where, answer.status, answer.location)
        return None

    async def _halves(self, places: Sequence[int], sending: Sending) -> None:
        middle = len(places) // 2
        for half in (places[:middle], places[middle:]):
            await self._request(half, sending)

    def _busy(self, answer: Answer) -> SendInterrupted:
        seconds = seconds_of(answer.retry_after, datetime.now(UTC))
        self._not_before = time.monotonic() + seconds
        return SendInterrupted(f"{self._doing}: answered {words(answer.status)}", throttled=True)

    async def _exchanged(self, request: Request) -> Answer:
        """Raises SendInterrupted and Unwritable."""
        stale = time.monotonic() - self._used > _STALE_AFTER
        try:
            return await self._once(request)
        except Lost as error:
            if not (stale and error.ended):
                raise SendInterrupted(f"{self._doing}: {error.message}", hint=error.hint) from error
        try:
            return await self._once(request)
        except Lost as error:
            raise SendInterrupted(f"{self._doing}: {error.message}", hint=error.hint) from error

    async def _once(self, request: Request) -> Answer:
        headers = self._target.signed(request, int(time.time()))
        answer = await self._client.exchange(self._target.method, self._target.url, headers, request.body)
        self._used = time.monotonic()
        return answer
