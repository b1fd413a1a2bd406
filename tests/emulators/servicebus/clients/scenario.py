"""The one scenario that every foreign client of the Service Bus emulator runs, and what it must find.

Steps are plain data; the programs in node/ and go/ read them as JSON and answer a JSON object, step name to result. An entity is a
queue's name, or `topic/subscription`; `dead` asks for its dead-letter queue and `delete` for receive-and-delete.

- `queue`, `topic`, `subscription`, `rule`: made by the administration client; "created". `show` reads the settings named, `counts` a
  queue's numbers of active and dead-lettered messages, `list` the names of `what`, `drop` deletes.
- `send`: messages one by one, or as one batch; "sent". `schedule`: due in `seconds`; the numbers are kept under the step's name
  and "scheduled" is told. `cancel`: those that the step `of` kept.
- `receive`: wait for `count` messages, treat each as `then` says (complete, abandon, defer, deadLetter, renew, nothing), with
  `properties` to modify; the messages. `deferred`: take back those that step `of` deferred, and complete them.
- `peek`: look at `count`. `session`: accept `session` (null: the next one), do `then` in it (a list of receive, get, set, renew),
  let it go; what each gave, the session's name in front. `sessions`: hold the next `count` at once; name to bodies.
- `rules`: by the client's rule manager where it has one: create (a list of name, filter, action), remove, list; the names.

`key` in a step is another key than the namespace's, `authority` the file of another authority, `wait` the seconds to wait at most.
A failure is {"error": code, "text": ...}. A message is rendered as its fields that are set: body (text, or 0x... where it is not
UTF-8), the properties of ServiceBusMessage by their JavaScript names, `count` (deliveries), `state`, `applicationProperties` with whole
and other numbers, booleans, texts and null as in JSON, times as ISO 8601 with milliseconds, bytes as 0x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error: the codes that clients have for it, lower case without punctuation, and words of the text."""

    codes: tuple[str, ...]
    words: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, dict) or "error" not in other:
            return False
        return str(other["error"]).lower() in self.codes and self.words in other["text"]

    def __hash__(self) -> int:
        return hash(self.codes)


class Refused:
    """Equal to any failure: a client that goes away by itself has words of its own for it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and "error" in other

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<a failure>"


MISSING = Failure(("messagingentitynotfound", "messageentitynotfounderror", "notfound", "404", "amqp:not-found"))
UNAUTHORIZED = Failure(("unauthorizedaccess", "unauthorized"))
SESSION_TAKEN = Failure(("sessioncannotbelocked", "com.microsoft:session-cannot-be-locked"))

LEFT = "left"
"""The queue where a client leaves a message for other clients to read, and `FOR_CLIENTS` where it finds one of theirs."""
FOR_CLIENTS = "for-clients"
_WIDE = "中文 \U0001f600"
PROPERTIES: dict[str, Any] = {
    "whole": 42,
    "negative": -7,
    "wide": 2**40,
    "half": 0.5,
    "yes": True,
    "no": False,
    "text": _WIDE,
    "empty": "",
}
"""What every client can write."""
MESSAGE: dict[str, Any] = {
    "body": f"<a>{_WIDE}</a>",
    "messageId": "m-1",
    "contentType": "application/xml",
    "correlationId": "c-1",
    "subject": "about",
    "to": "somewhere",
    "replyTo": "back",
    "replyToSessionId": "rs",
    "timeToLive": 60000,
    "applicationProperties": PROPERTIES,
}


def _bodies(*texts: str, **more: Any) -> list[dict[str, Any]]:
    return [{"body": text, **more} for text in texts]


def received(*texts: str, count: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Messages as `send` of bodies alone leads to."""
    return [{"body": text, "count": count, "state": "active", **more} for text in texts]


def _send(to: str, *texts: str, batch: bool = False, **more: Any) -> Step:
    return {"op": "send", "to": to, "messages": _bodies(*texts, **more), "batch": batch}


def _receive(entity: str, count: int = 1, then: str = "complete", **more: Any) -> Step:
    return {"op": "receive", "from": entity, "count": count, "then": then, **more}


_ADMINISTRATION: dict[str, tuple[Step, Any]] = {
    "create queue": (
        {
            "op": "queue",
            "entity": "orders",
            "settings": {
                "lockDuration": "PT30S",
                "maxDeliveryCount": 3,
                "userMetadata": _WIDE,
            },
        },
        "created",
    ),
    "create it again": (
        {"op": "queue", "entity": "orders", "settings": {}},
        Failure(("messageentityalreadyexistserror", "409", "messagingentityalreadyexists", "entityalreadyexists")),
    ),
    "show queue": (
        {
            "op": "show",
            "what": "orders",
            "settings": ["lockDuration", "maxDeliveryCount", "requiresSession", "userMetadata"],
        },
        {
            "lockDuration": "PT30S",
            "maxDeliveryCount": 3,
            "requiresSession": False,
            "userMetadata": _WIDE,
        },
    ),
    "show what is not there": ({"op": "show", "what": "nothing", "settings": []}, MISSING),
    "create session queue": ({"op": "queue", "entity": "talks", "settings": {"requiresSession": True}}, "created"),
    "create topic": ({"op": "topic", "entity": "news", "settings": {}}, "created"),
    "create subscriptions": ({"op": "subscription", "entity": "news/all", "settings": {}}, "created"),
    "create second subscription": ({"op": "subscription", "entity": "news/some", "settings": {}}, "created"),
    "create rule": (
        {
            "op": "rule",
            "entity": "news/all/marked",
            "filter": {"sql": "colour LIKE 'bl%' OR sys.Label = 'news'"},
            "action": "SET seen = TRUE",
        },
        "created",
    ),
    "list queues": ({"op": "list", "what": "queues"}, [FOR_CLIENTS, LEFT, "orders", "talks"]),
    "list subscriptions": ({"op": "list", "what": "news"}, ["all", "some"]),
    "list rules": ({"op": "list", "what": "news/all"}, ["$Default", "marked"]),
    "drop rule": ({"op": "drop", "what": "news/all/marked"}, "dropped"),
    "list rules after dropping": ({"op": "list", "what": "news/all"}, ["$Default"]),
    "create queue to drop": ({"op": "queue", "entity": "brief", "settings": {}}, "created"),
    "drop queue": ({"op": "drop", "what": "brief"}, "dropped"),
    "list queues after dropping": ({"op": "list", "what": "queues"}, [FOR_CLIENTS, LEFT, "orders", "talks"]),
    "administer with a wrong key": (
        {"op": "list", "what": "queues", "key": "wrong"},
        Failure(("unauthorizedrequesterror", "401", "unauthorizedaccess", "unauthorized")),
    ),
}  # fmt: skip

_SETTLEMENT: dict[str, tuple[Step, Any]] = {
    "send with everything": ({"op": "send", "to": "orders", "messages": [MESSAGE], "batch": False}, "sent"),
    "receive with everything": (_receive("orders"), [MESSAGE | {"count": 0, "state": "active"}]),
    "send batch": (_send("orders", "1", "2", "3", batch=True), "sent"),
    "peek": ({"op": "peek", "from": "orders", "count": 2}, received("1", "2")),
    "counts": ({"op": "counts", "what": "orders"}, {"active": 3, "dead": 0}),
    "receive batch": (_receive("orders", 3), received("1", "2", "3")),
    "send to abandon": (_send("orders", "again"), "sent"),
    "abandon": (_receive("orders", then="abandon", properties={"tried": "once"}), received("again")),
    "receive abandoned": (_receive("orders"), received("again", count=1, applicationProperties={"tried": "once"})),
    "send to defer": (_send("orders", "later"), "sent"),
    "defer": (_receive("orders", then="defer", properties={"why": "busy"}), received("later")),
    "nothing is there meanwhile": (_receive("orders", wait=1), []),
    "receive deferred": (
        {"op": "deferred", "from": "orders", "of": "defer"},
        [{"body": "later", "count": 1, "state": "deferred", "applicationProperties": {"why": "busy"}}],
    ),
    "send to bury": (_send("orders", "bad"), "sent"),
    "dead-letter": (
        _receive("orders", then="deadLetter", reason="Broken", description="no price", properties={"by": 7}),
        received("bad"),
    ),
    "read dead letter": (
        _receive("orders", dead=True),
        [
            {
                "body": "bad",
                "count": 0,
                "state": "active",
                "deadLetterReason": "Broken",
                "deadLetterErrorDescription": "no price",
                "applicationProperties": {
                    "DeadLetterReason": "Broken",
                    "DeadLetterErrorDescription": "no price",
                    "by": 7,
                },
            }
        ],
    ),
    "send to renew": (_send("orders", "slow"), "sent"),
    "renew": (_receive("orders", then="renew"), received("slow")),
    "send to delete": (_send("orders", "a", "b", batch=True), "sent"),
    "receive and delete": (_receive("orders", 2, then="nothing", delete=True), received("a", "b")),
    "queue is empty": (_receive("orders", wait=1), []),
}  # fmt: skip

_SCHEDULE: dict[str, tuple[Step, Any]] = {
    "schedule": ({"op": "schedule", "to": "orders", "messages": _bodies("due"), "seconds": 1}, "scheduled"),
    "schedule to cancel": ({"op": "schedule", "to": "orders", "messages": _bodies("never"), "seconds": 3600}, "scheduled"),
    "cancel": ({"op": "cancel", "to": "orders", "of": "schedule to cancel"}, "cancelled"),
    "receive scheduled": (_receive("orders", wait=10), received("due")),
    "peek at nothing": ({"op": "peek", "from": "orders", "count": 5}, []),
}  # fmt: skip

_SESSIONS: dict[str, tuple[Step, Any]] = {
    "send to sessions": (_send("talks", "a1", "a2", "a3", batch=True, sessionId="a"), "sent"),
    "send to another session": (_send("talks", "b1", "b2", batch=True, sessionId="b"), "sent"),
    "two sessions at once": (
        {"op": "sessions", "from": "talks", "count": 2, "messages": 1},
        {"a": ["a1"], "b": ["b1"]},
    ),
    "named session": (
        {
            "op": "session",
            "from": "talks",
            "session": "a",
            "then": [
                {"op": "get"},
                {"op": "set", "state": "half way"},
                {"op": "get"},
                {"op": "renew"},
                _receive("talks", 2),
            ],
        },
        ["a", None, "set", "half way", "renewed", received("a2", "a3", sessionId="a")],
    ),
    "next session": (
        {"op": "session", "from": "talks", "session": None, "then": [_receive("talks", 1)]},
        ["b", received("b2", sessionId="b")],
    ),
    "state stays": (
        {"op": "session", "from": "talks", "session": "a", "then": [{"op": "get"}, {"op": "set", "state": None}, {"op": "get"}]},
        ["a", "half way", "set", None],
    ),
    "a session twice": ({"op": "twice", "from": "talks", "session": "a"}, SESSION_TAKEN),
    "a message without a session": (_send("talks", "lost"), Refused()),
}  # fmt: skip

_RULES: dict[str, tuple[Step, Any]] = {
    "rules": (
        {
            "op": "rules",
            "subscription": "news/some",
            "create": [
                {"name": "blue", "filter": {"sql": "colour = 'blue' AND size > 10"}, "action": "SET marked = 'yes'; REMOVE size"},
                {"name": "urgent", "filter": {"correlation": {"subject": "urgent", "applicationProperties": {"colour": "red"}}}},
            ],
            "remove": ["$Default"],
        },
        ["blue", "urgent"],
    ),
    "publish": (
        {
            "op": "send",
            "to": "news",
            "batch": True,
            "messages": [
                {"body": "1", "applicationProperties": {"colour": "blue", "size": 11}},
                {"body": "2", "applicationProperties": {"colour": "blue", "size": 9}},
                {"body": "3", "subject": "urgent", "applicationProperties": {"colour": "red"}},
                {"body": "4", "subject": "urgent", "applicationProperties": {"colour": "green"}},
            ],
        },
        "sent",
    ),
    "read what rules let through": (
        _receive("news/some", 2),
        [
            {"body": "1", "count": 0, "state": "active", "applicationProperties": {"colour": "blue", "marked": "yes", "RuleName": "blue"}},
            {"body": "3", "count": 0, "state": "active", "subject": "urgent", "applicationProperties": {"colour": "red"}},
        ],
    ),
    "read no more of them": (_receive("news/some", wait=1), []),
    "wrong rule": (
        {
            "op": "rules",
            "subscription": "news/some",
            "create": [{"name": "wrong", "filter": {"sql": "colour ="}}],
            "remove": [],
        },
        Refused(),
    ),
}  # fmt: skip

_REFUSALS: dict[str, tuple[Step, Any]] = {
    "send to what is not there": (_send("nothing", "x"), MISSING),
    "receive from what is not there": (_receive("nothing", wait=1), MISSING),
    "send with a wrong key": (_send("orders", "x") | {"key": "wrong"}, UNAUTHORIZED),
    "receive with a wrong key": (_receive("orders", wait=1) | {"key": "wrong"}, UNAUTHORIZED),
    "send too much": (
        {"op": "send", "to": "orders", "batch": False, "messages": [{"body": "x", "repeat": 300_000}]},
        Failure(("messagesizeexceeded", "messagetoolarge")),
    ),
    "send nearly too much": (
        {"op": "send", "to": "orders", "batch": False, "messages": [{"body": "x", "repeat": 250_000}]},
        "sent",
    ),
    "receive nearly too much": (_receive("orders"), received("x" * 250_000)),
    "create small queue": ({"op": "queue", "entity": "small", "settings": {"maxSizeInMegabytes": 1}}, "created"),
    "fill": (
        {"op": "fill", "to": "small", "bytes": 200_000, "count": 8},
        Failure(("quotaexceeded", "resource-limit-exceeded", "amqp:resource-limit-exceeded")),
    ),
}  # fmt: skip

READ: dict[str, Any] = {
    "text": "中文",
    "negative": -5,
    "double": 0.25,
    "boolean": True,
    "moment": "2018-07-13T13:23:45.789Z",
    "guid": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
}
"""The properties that Python writes (tests/emulators/servicebus/clients/exchange.py), as the programs render them."""
_EXCHANGE: dict[str, tuple[Step, Any]] = {
    "read what Python wrote": (
        _receive(FOR_CLIENTS),
        [{"body": "0x00ff", "messageId": "p-1", "count": 0, "state": "active", "applicationProperties": READ}],
    ),
    "leave": ({"op": "send", "to": LEFT, "messages": [MESSAGE | {"timeToLive": 600000}], "batch": True}, "sent"),
}

STEPS: dict[str, tuple[Step, Any]] = (
    _ADMINISTRATION | _SETTLEMENT | _SCHEDULE | _SESSIONS | _RULES | _REFUSALS | _EXCHANGE
)
"""Name to the step and what it must give."""


def with_tls(wrong_authority: str) -> dict[str, tuple[Step, Any]]:
    """More steps where AMQP goes over TLS; `wrong_authority` is the file of one that did not sign the certificate."""
    return {"wrong authority": (_send("orders", "x") | {"authority": wrong_authority}, Refused())}
