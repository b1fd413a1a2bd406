"""A store whose messages belong to sessions: one owner at a time holds a session and gets its messages, in order.

The session lock stands for the locks of its messages. It ends by expiry (the messages count a delivery more), by the
owner's link closing or its connection dying (they do not), and is kept by renewing.
Source: learn.microsoft.com "Message sessions".
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.message import Message

from .consumer import Consumer, StoreSettings
from .deadlines import NEVER, Deadlines
from .message_store import MessageStore
from .outcomes import lock_lost
from .ready import ReadyQueue
from .shelf import Shelf


class SessionConsumer(Consumer, Protocol):
    """A receiver that wants a session; `wanted` None means any that has messages."""

    wanted: str | None
    session_id: str | None

    def granted(self, session_id: str, locked_until: int) -> None:
        """The session is yours."""
        ...

    def denied(self, failure: AmqpError) -> None:
        """There is no session for you."""
        ...


@dataclass(slots=True)
class Session:
    """One session. `locked_until` counts only while there is an owner; `count` is of all its messages, wherever they are."""

    id: str
    ready: ReadyQueue = field(default_factory=ReadyQueue)
    locked: dict[bytes, Message] = field(default_factory=dict)
    count: int = 0
    owner: SessionConsumer | None = None
    locked_until: int = NEVER
    state: bytes | None = None
    state_changed_at: int = 0


def session_lost() -> AmqpError:
    """The answer to work under a session lock that is gone."""
    return AmqpError(
        "com.microsoft:session-lock-lost",
        "The session lock has expired on the MessageSession. Accept a new MessageSession.",
    )


class SessionStore(MessageStore):
    """Sessions with their messages, owners and state."""

    def __init__(
        self,
        settings: StoreSettings,
        shelf: Shelf,
        dead_letters: MessageStore | None,
        alarm: Callable[[int], None],
    ) -> None:
        super().__init__(settings, shelf, dead_letters, alarm)
        self._sessions: dict[str, Session] = {}
        self._free: OrderedDict[str, None] = OrderedDict()
        self._waiting: OrderedDict[SessionConsumer, None] = OrderedDict()
        self._patience: Deadlines[SessionConsumer] = Deadlines()
        self._locks: Deadlines[str] = Deadlines()
        self._dirty: dict[str, None] = {}

    # -- accepting sessions

    def request(self, consumer: SessionConsumer, now: int, timeout: int) -> None:
        """Grant a session, now or within `timeout` milliseconds, or deny it."""
        if self.due <= now:
            self.sweep(now)
        if consumer.wanted is None:
            self._waiting[consumer] = None
            self._serve_waiting(now)
            if consumer in self._waiting:
                self._patience.set(consumer, now + timeout)
                self.wake_at(now + timeout)
            self.pump(now)
            return
        session = self._session(consumer.wanted)
        if session.owner is not None:
            text = f"The requested session '{session.id}' cannot be accepted. It may be locked by another receiver."
            consumer.denied(AmqpError("com.microsoft:session-cannot-be-locked", text))
            return
        self._grant(session, consumer, now)
        self.pump(now)

    def leave(self, consumer: SessionConsumer, now: int) -> None:
        """The receiver is gone: its session is free at once, and its messages count no delivery."""
        self._waiting.pop(consumer, None)
        self._patience.discard(consumer)
        session = None if consumer.session_id is None else self._sessions.get(consumer.session_id)
        if session is not None and session.owner is consumer:
            self._release(session, now, failed=False)
            self.pump(now)

    def feed(self, consumer: SessionConsumer, now: int) -> None:
        """The receiver's credit changed."""
        if consumer.session_id is not None:
            self._dirty[consumer.session_id] = None
            self.pump(now)

    def _session(self, name: str) -> Session:
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = Session(name)
        return session

    def _grant(self, session: Session, consumer: SessionConsumer, now: int) -> None:
        session.owner = consumer
        self._extend(session, now)
        self._free.pop(session.id, None)
        consumer.granted(session.id, session.locked_until)
        self._dirty[session.id] = None  # the receiver may have sent its credit along with the attach

    def _extend(self, session: Session, now: int) -> None:
        session.locked_until = now + self.settings.lock_duration
        self._locks.set(session.id, session.locked_until)
        self.wake_at(session.locked_until)

    def _serve_waiting(self, now: int) -> None:
        while self._waiting and self._free:
            name = next(iter(self._free))
            consumer, _ = self._waiting.popitem(last=False)
            self._patience.discard(consumer)
            self._grant(self._sessions[name], consumer, now)

    def _release(self, session: Session, now: int, failed: bool) -> None:
        session.owner = None
        session.locked_until = NEVER
        self._locks.discard(session.id)
        for message in list(session.locked.values()):
            self._unlock(message)
            self._return(message, now, failed)
        if session.ready:
            self._free[session.id] = None
        self._forget_if_empty(session)

    def _forget_if_empty(self, session: Session) -> None:
        if not session.count and session.owner is None and session.state is None:
            self._sessions.pop(session.id, None)

    # -- the session lock

    def _owned(self, name: str, now: int) -> Session:
        if self.due <= now:
            self.sweep(now)
        session = self._sessions.get(name)
        if session is None or session.owner is None:
            raise session_lost()
        return session

    def renew_session(self, name: str, now: int) -> int:
        """Extend the session lock from now; the new expiry. Raises AmqpError."""
        session = self._owned(name, now)
        self._extend(session, now)
        for message in session.locked.values():
            message.locked_until = session.locked_until
        return session.locked_until

    def session_state(self, name: str, now: int) -> bytes | None:
        """Raises AmqpError."""
        return self._owned(name, now).state

    def set_session_state(self, name: str, state: bytes | None, now: int) -> None:
        """None clears it. Raises AmqpError."""
        session = self._owned(name, now)
        self._keep_state(session, state, now)
        self.shelf.save_session_state(name, state, now)

    def restore_session_state(self, name: str, state: bytes, changed_at: int) -> None:
        """Put back a state that the journal kept."""
        self._keep_state(self._session(name), state, changed_at)

    def _keep_state(self, session: Session, state: bytes | None, changed_at: int) -> None:
        """State counts towards the size of the entity."""
        self.size += len(state or b"") - len(session.state or b"")
        session.state = state
        session.state_changed_at = changed_at

    def session_names(self, updated_after: int | None) -> list[str]:
        """Sessions with messages or state; of a moment, those whose state changed after it."""
        if updated_after is not None:
            return sorted(
                s.id for s in self._sessions.values() if s.state is not None and s.state_changed_at > updated_after
            )
        return sorted(s.id for s in self._sessions.values() if s.count or s.state is not None)

    def first_sessions(self, most: int) -> tuple[list[Session], int]:
        """Up to so many of the sessions, to be looked at only, and how many there are: with messages, an owner or state."""
        return list(itertools.islice(self._sessions.values(), most)), len(self._sessions)

    def require_held(self, name: str, now: int) -> None:
        """Raises AmqpError when nobody holds the session."""
        self._owned(name, now)

    def _lock_until(self, message: Message, now: int) -> int:
        session = self._sessions.get(message.session_id or "")
        if session is None or session.owner is None:
            raise session_lost()
        return session.locked_until

    def lost(self, token: bytes) -> AmqpError:
        # A token that is unknown while its session may still be held tells nothing of the session lock.
        return lock_lost()

    def lost_by(self, consumer: SessionConsumer) -> AmqpError:
        """Why a token of this receiver locks nothing."""
        session = self._sessions.get(consumer.session_id or "")
        return lock_lost() if session is not None and session.owner is consumer else session_lost()

    # -- delivery

    def pump(self, now: int) -> None:
        if self.due <= now:
            self.sweep(now)
        self._serve_waiting(now)
        while self._dirty:
            name, _ = self._dirty.popitem()
            session = self._sessions.get(name)
            while session is not None and session.owner is not None and session.ready and session.owner.credit > 0:
                self._hand_over(session.owner, session.ready.pop(), now)

    def _make_ready(self, message: Message, returned: bool) -> None:
        session = self._session(message.session_id or "")
        if returned:
            session.ready.put_back(message)
        else:
            session.ready.append(message)
        if session.owner is None:
            self._free[session.id] = None
        else:
            self._dirty[session.id] = None

    def _withdraw(self, message: Message) -> None:
        session = self._session(message.session_id or "")
        session.ready.remove(message)
        if not session.ready:
            self._free.pop(session.id, None)

    def _ready_messages(self) -> Iterable[Message]:
        return (message for session in self._sessions.values() for message in session.ready)

    def _add(self, message: Message) -> None:
        super()._add(message)
        self._session(message.session_id or "").count += 1

    def _remove(self, message: Message) -> None:
        super()._remove(message)
        session = self._session(message.session_id or "")
        session.count -= 1
        self._forget_if_empty(session)

    def _lock_begins(self, message: Message) -> None:
        assert message.lock_token is not None
        self._session(message.session_id or "").locked[message.lock_token] = message

    def _lock_ends(self, message: Message, token: bytes) -> None:
        del self._session(message.session_id or "").locked[token]

    # -- time

    def _expire_locks(self, now: int) -> None:
        for name in self._locks.take(now):
            session = self._sessions[name]
            owner = session.owner
            self._release(session, now, failed=True)
            if owner is not None:
                owner.detach(session_lost())
        for consumer in self._patience.take(now):
            self._waiting.pop(consumer, None)
            text = "The operation did not complete within the allotted timeout."
            consumer.denied(AmqpError("com.microsoft:timeout", text))
        self.wake_at(self._locks.next)
        self.wake_at(self._patience.next)
