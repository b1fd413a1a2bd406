"""Publishes the changes of one subject, in order, and waits for the acknowledgements.

Publishing is pipelined: a whole page is under way before the first acknowledgement. JetStream alone would then not keep the order: when it takes
no message for a moment (a full stream, a change of leader), it may take the next one. So each message names the one before it
(Nats-Expected-Last-Msg-Id), and the server takes it only directly behind that one: nothing can overtake what was not taken.

The chain is of the whole stream, so a page breaks where somebody else publishes to the stream meanwhile. Senders of one output take turns. When
other processes publish as well, a stream is sent to without chains for a while: one message of each session at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from common.bus.ports import MessageRefused, MessageTooLarge, MessageUnwritable, SendInterrupted, TimeLeft, for_ever
from common.errors import DStreamError, TransientError
from common.message import Message
from router.outputs.event_loop import LoopThread
from router.outputs.nats.answers import Conflict, Refused, acknowledged, missing
from router.outputs.nats.connection import Connection, Link, NobodyAnswers
from router.outputs.nats.messages import Outgoing, Unwritable, outgoing
from router.outputs.sending import Sending, side_by_side

_CHUNK = 262_144
"""Bytes of messages that are best sent in one call."""
_UNCHAINED = 10.0
"""Seconds without chains after another process was seen to publish to the stream."""
_WAITS = 4
"""How often the timeout a whole send may take: for its turn, a connection, a page, and what is left of it without chains."""

_REFUSED = "raise the stream's max_msg_size"
_WRITABLE = "fix the program that makes such messages: NATS cannot express this one"
_LARGEST = "raise the server's max_payload"


class Lane:
    """The way to one JetStream stream, shared by the senders of an output. `alone_from`: when chains are tried again."""

    def __init__(self) -> None:
        self.alone_from = 0.0
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def turn(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        return self._turn[1]


class NatsSender:
    """A `common.bus.ports.OpenableSender` for one subject."""

    def __init__(
        self, subject: str, stream: str, seconds: float, connection: Connection, lane: Lane, loop: LoopThread
    ) -> None:
        self._subject = subject
        self._stream = stream
        self._seconds = seconds
        self._connection = connection
        self._lane = lane
        self._loop = loop
        self._doing = f"sending to {subject}"

    def __repr__(self) -> str:
        return f"<NatsSender {self._subject} in {self._stream}>"

    def open(self) -> None:
        self._loop.call(self._open(), seconds=2 * self._seconds, doing=self._doing)

    async def _open(self) -> None:
        await self._connection.opened()

    def batch_bytes(self) -> int:
        return _CHUNK

    def close(self) -> None:
        """The connection is the output's."""

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        sending = Sending(messages, left or for_ever, self._doing)
        if not messages:
            return
        if sending.left() <= 0:
            raise sending.out_of_time()
        sending.run(self._loop, self._all(sending), most=_WAITS * self._seconds)

    async def _all(self, sending: Sending) -> None:
        """What was foreseen and went wrong is in `sending`."""
        try:
            link = await self._connection.opened()
            written = self._written(sending, link)
            if all(each.id is not None for each in written):
                await self._chained(written, link, sending)
            if not sending.faults or isinstance(sending.faults[0], MessageRefused):
                await self._side_by_side(written, link, sending)
        except DStreamError as error:
            sending.faults.append(error)

    def _written(self, sending: Sending, link: Link) -> list[Outgoing]:
        """Up to the first message that cannot be sent; that one is a fault, for when those before it are accepted."""
        written = list[Outgoing]()
        for at, message in enumerate(sending.messages):
            try:
                each = outgoing(message, self._stream)
            except Unwritable as error:
                words = f"cannot be written: {error}"
                sending.faults.append(MessageUnwritable(self._subject, message, words, at=at, hint=_WRITABLE))
                return written
            if each.size > link.max_payload:
                too_large = MessageTooLarge(self._subject, message, at=at, limit=link.max_payload)
                too_large.hint = _LARGEST
                sending.faults.append(too_large)
                return written
            written.append(each)
        return written

    async def _chained(self, written: Sequence[Outgoing], link: Link, sending: Sending) -> None:
        """Publish all at once, each behind the one before; without effect where others publish to the stream."""
        async with self._lane.turn():
            if time.monotonic() < self._lane.alone_from:
                return
            answers, previous = [], None
            for each in written:
                answers.append(await link.publish(self._subject, each.after(previous), each.body))
                previous = each.id
            await self._await_all(answers, link)
            for at, answer in enumerate(answers):
                try:
                    self._judge(at, answer, sending)
                except Conflict:
                    self._lane.alone_from = time.monotonic() + _UNCHAINED
                except DStreamError as error:
                    sending.faults.append(error)
                    return

    async def _await_all(self, answers: Sequence[asyncio.Future[bytes]], link: Link) -> None:
        """Until all are there, or none has come for as long as the timeout."""
        waiting = set(answers)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=self._seconds)
                if not done:
                    await link.alive()
                    return
        except asyncio.CancelledError:
            link.doubtful = True
            for each in waiting:
                each.cancel()
            raise

    async def _side_by_side(self, written: Sequence[Outgoing], link: Link, sending: Sending) -> None:
        """What is not accepted yet: of each session one message at a time. A message that is refused ends its session here."""
        known = len(sending.faults)
        refused = {fault.at for fault in sending.faults if isinstance(fault, MessageRefused)}

        async def one(places: Sequence[int]) -> None:
            try:
                for at in places:
                    if at in refused or at >= len(written) or len(sending.faults) > known:
                        return
                    if sending.left() <= 0:
                        raise sending.out_of_time()
                    answer = await link.publish(self._subject, written[at].headers, written[at].body)
                    await self._await_all([answer], link)
                    self._judge(at, answer, sending)
            except DStreamError as error:
                sending.faults.append(error)

        await side_by_side(one(places) for places in sending.sessions())

    def _judge(self, at: int, answer: asyncio.Future[bytes], sending: Sending) -> None:
        """Count the message as accepted. Raises Conflict and DStreamError."""
        if not answer.done():
            answer.cancel()
            raise SendInterrupted(f"{self._doing}: no acknowledgement within {self._seconds:g} s")
        try:
            acknowledged(answer.result(), self._doing)
        except NobodyAnswers:
            raise missing(self._subject, self._stream) from None
        except Refused as error:
            message = sending.messages[at]
            words = f"was refused by stream {self._stream}: {error}"
            raise MessageRefused(self._subject, message, words, at=at, hint=_REFUSED) from error
        except SendInterrupted:
            raise
        except TransientError as error:
            raise SendInterrupted(f"{self._doing}: {error.message}", hint=error.hint) from error
        sending.accepted.add(at)
