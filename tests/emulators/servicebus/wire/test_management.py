"""`$management` beyond what azure-servicebus for Python asks of it: rules, changed properties, deletion, malformed requests.

These operations are documented, and sent by Microsoft's clients for other languages; here they are frames of our own.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.values import Array, Described, Int, Symbol, Timestamp, UByte, UInt, ULong
from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.message import sections
from tests.emulators.servicebus.unit.messages import BODY, section
from tests.emulators.servicebus.unit.wire import Peer

# Sockets that the SDK forgot in other modules may be found missing while these tests run.
SUBSCRIPTION = "topic/Subscriptions/all"


class Answer(NamedTuple):
    """A response: its status, its error condition, the sentence, and its body."""

    status: int
    condition: str | None
    description: str
    body: Any


def section_values(encoded: bytes) -> dict[int, Any]:
    return {code: decode(encoded, start)[0] for code, start, _ in sections(encoded)}


class Manager:
    """A connection with the management links of entities attached when they are first used."""

    def __init__(self) -> None:
        self.peer = Peer()
        self.peer.create("queue")
        self.peer.create("sessions", QueueDescription(requires_session=True))
        self.peer.create("topic", TopicDescription())
        self.peer.create(SUBSCRIPTION, SubscriptionDescription())
        self.peer.open()
        self._handles: dict[str, int] = {}
        self._delivery = 0

    def handle(self, address: str, receive: bool, **options: Any) -> int:
        key = f"{address} {receive}"
        if key not in self._handles:
            self._handles[key] = handle = len(self._handles)
            self.peer.attach(address, receive=receive, handle=handle, **options)
            if receive:
                self.peer.credit(handle, 1000)
        return self._handles[key]

    def ask(self, path: str, operation: str, body: Any) -> Answer:
        address = f"{path}/$management"
        self.handle(address, receive=True)
        request = section(0x73, [uuid4()]) + section(0x74, {"operation": f"com.microsoft:{operation}"})
        handle = self.handle(address, receive=False)
        self.peer.heard()
        self.peer.transfer(handle, request + section(0x77, body))
        heard = [section_values(payload) for _, _, payload in self.peer.heard(p.TRANSFER)]
        (values,) = (found for found in heard if "statusCode" in found.get(0x74, {}))  # a message may come again, too
        about = values[0x74]
        return Answer(about["statusCode"], about.get("errorCondition"), about["statusDescription"], values[0x77])

    def send(self, path: str, message: bytes) -> None:
        self.peer.transfer(self.handle(path, receive=False), message)
        self.peer.heard()

    def receive(self, path: str) -> list[tuple[UUID, dict[str, Any]]]:
        """Lock tokens and application properties of what is delivered now."""
        self.peer.heard()
        known = f"{path} True" in self._handles
        handle = self.handle(path, receive=True)
        if known:
            self.peer.credit(handle, 1000)
        found = []
        for _, fields, payload in self.peer.heard(p.TRANSFER):
            self._delivery = fields[1]
            found.append((UUID(bytes_le=fields[2]), section_values(payload).get(0x74, {})))
        return found

    def settle(self, state: Described) -> None:
        """Of the latest delivery."""
        self.peer.say(p.DISPOSITION, True, UInt(self._delivery), UInt(self._delivery), False, state)

    def peek(self, path: str, start: int = 0, count: int = 100, **more: Any) -> list[dict[str, Any]]:
        """Application properties of messages."""
        answer = self.ask(path, "peek-message", {"from-sequence-number": start, "message-count": Int(count), **more})
        if answer.status == 204:
            return []
        return [section_values(item["message"]).get(0x74, {}) for item in answer.body["messages"]]


@pytest.fixture
def manager() -> Manager:
    return Manager()


def numbered(number: int, session: str | None = None) -> bytes:
    properties = section(0x73, [None] * 10 + [session])
    return properties + section(0x74, {"n": number}) + BODY


# -- rules


def rule(expression: str, action: str | None = None) -> dict[str, Any]:
    description: dict[str, Any] = {"sql-filter": {"expression": expression}}
    return description | ({} if action is None else {"sql-rule-action": {"expression": action}})


def test_rules_are_added_removed_and_decide(manager: Manager) -> None:
    add = {"rule-name": "large", "rule-description": rule("n > 5", "SET size = 'large'")}
    assert manager.ask(SUBSCRIPTION, "add-rule", add).status == 200
    assert manager.ask(SUBSCRIPTION, "remove-rule", {"rule-name": "$default"}).status == 200
    for number in (1, 9):
        manager.send("topic", numbered(number))
    assert manager.peek(SUBSCRIPTION) == [{"n": 9, "size": "large", "RuleName": "large"}]


def test_rules_are_enumerated_in_the_documented_form(manager: Manager) -> None:
    correlation = {
        "correlation-id": "c", "message-id": None, "label": "l", "properties": {"p": Int(1), "at": Timestamp(5)}
    }  # fmt: skip
    for name, description in (
        ("sql", rule("n = 1", "SET m = 1")),
        ("correlation", {"correlation-filter": correlation, "sql-rule-action": None}),
    ):
        body = {"rule-name": name, "rule-description": description}
        assert manager.ask(SUBSCRIPTION, "add-rule", body).status == 200
    answer = manager.ask(SUBSCRIPTION, "enumerate-rules", {"top": Int(2**31 - 1), "skip": Int(0)})
    rules = [item["rule-description"] for item in answer.body["rules"]]
    assert {each.descriptor for each in rules} == {0x13700000004}
    default, sql, correlated = (each.value for each in rules)
    assert default == [Described(ULong(0x1370000007), []), Described(ULong(0x13700000005), []), "$Default"]
    assert sql == [
        Described(ULong(0x1370000006), ["n = 1"]), Described(ULong(0x13700000006), ["SET m = 1"]), "sql",
    ]  # fmt: skip
    assert correlated[0].descriptor == 0x1370000009
    assert correlated[0].value == ["c", None, None, None, "l", None, None, None, {"p": 1, "at": 5}]
    assert type(correlated[0].value[8]["at"]) is Timestamp
    assert correlated[1:] == [Described(ULong(0x13700000005), []), "correlation"]


def test_rules_are_enumerated_in_pages(manager: Manager) -> None:
    for number in range(4):
        body = {"rule-name": f"r{number}", "rule-description": rule("1=1")}
        manager.ask(SUBSCRIPTION, "add-rule", body)

    def page(skip: int, top: int) -> list[str]:
        answer = manager.ask(SUBSCRIPTION, "enumerate-rules", {"top": Int(top), "skip": Int(skip)})
        return [] if answer.status == 204 else [item["rule-description"].value[2] for item in answer.body["rules"]]

    assert page(0, 2) == ["$Default", "r0"]
    assert page(2, 2) == ["r1", "r2"]
    assert page(4, 2) == ["r3"]
    assert page(5, 2) == []


@pytest.mark.parametrize(
    ("operation", "body", "status", "condition", "words"),
    [
        ("add-rule", {"rule-name": "$Default", "rule-description": rule("1=1")}, 409,
         "com.microsoft:entity-already-exists", "$Default"),
        ("add-rule", {"rule-name": "r", "rule-description": rule("n =")}, 400, "amqp:invalid-field", "at position 4"),
        ("add-rule", {"rule-name": "r", "rule-description": rule("1=1", "SET 1")}, 400, "amqp:invalid-field", "position 5"),
        ("add-rule", {"rule-name": "r" * 51, "rule-description": rule("1=1")}, 400, "amqp:invalid-field", "50"),
        ("add-rule", {"rule-name": "r", "rule-description": {}}, 400, "amqp:invalid-field", "rule-description"),
        ("add-rule", {"rule-name": "r", "rule-description": {"correlation-filter": {}}}, 400, "amqp:invalid-field",
         "at least one"),
        ("add-rule", {"rule-name": "r", "rule-description": {"correlation-filter": {"to": 1}}}, 400,
         "amqp:invalid-field", "'rule-description.correlation-filter.to' of the request must be a string"),
        ("remove-rule", {"rule-name": "none"}, 404, "amqp:not-found", "none"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_with_a_rule_is_said(
    manager: Manager, operation: str, body: Any, status: int, condition: str, words: str
) -> None:
    answer = manager.ask(SUBSCRIPTION, operation, body)
    assert (answer.status, answer.condition) == (status, condition)
    assert words in answer.description


def test_only_subscriptions_have_rules(manager: Manager) -> None:
    for path in ("queue", "topic", f"{SUBSCRIPTION}/$DeadLetterQueue"):
        assert manager.ask(path, "enumerate-rules", {"top": Int(1), "skip": Int(0)}).condition == "amqp:not-allowed"


# -- changed properties


@pytest.mark.parametrize(("status", "where"), [("abandoned", ""), ("defered", ""), ("suspended", "/$DeadLetterQueue")])
def test_properties_are_changed_with_the_disposition(manager: Manager, status: str, where: str) -> None:
    manager.send("queue", section(0x74, {"kept": UByte(1), "old": "x"}) + BODY)
    ((token, _),) = manager.receive("queue")
    changes = {"properties-to-modify": {"old": UInt(5), "new": "text"}, "deadletter-reason": "why"}
    body = {"disposition-status": status, "lock-tokens": Array(UUID, [token])}
    assert manager.ask("queue", "update-disposition", body | changes).status == 200
    (found,) = manager.peek("queue" + where)
    assert {name: value for name, value in found.items() if name != "DeadLetterReason"} == {
        "kept": 1, "old": 5, "new": "text",
    }  # fmt: skip
    assert (type(found["old"]), found.get("DeadLetterReason")) == (UInt, "why" if where else None)


MODIFIED = {Symbol("old"): UInt(5), Symbol("new"): "text"}
REASONS = {Symbol("DeadLetterReason"): "why", Symbol("DeadLetterErrorDescription"): None}


@pytest.mark.parametrize(
    ("state", "where"),
    [
        (Described(ULong(p.MODIFIED), [True, False, MODIFIED]), ""),
        (Described(ULong(p.MODIFIED), [False, False, MODIFIED]), ""),
        (Described(ULong(p.MODIFIED), [True, True, MODIFIED]), ""),
        (Described(ULong(p.REJECTED), [Described(ULong(p.ERROR), [Symbol("com.microsoft:dead-letter"), None,
         MODIFIED | REASONS])]), "/$DeadLetterQueue"),
    ],
    ids=["abandon", "release", "defer", "dead-letter"],
)  # fmt: skip
def test_properties_are_changed_with_the_outcome_on_the_link(manager: Manager, state: Described, where: str) -> None:
    manager.send("queue", section(0x74, {"kept": UByte(1), "old": "x"}) + BODY)
    manager.receive("queue")
    manager.settle(state)
    (found,) = manager.peek("queue" + where)
    expected = {"kept": 1, "old": 5, "new": "text"}
    assert found == (expected | {"DeadLetterReason": "why"} if where else expected)
    assert type(found["old"]) is UInt


def test_an_outcome_with_odd_annotations_is_refused_and_the_lock_stays(manager: Manager) -> None:
    manager.send("queue", numbered(1))
    ((token, _),) = manager.receive("queue")
    odd = Described(ULong(p.MODIFIED), [True, False, {Symbol("a"): [1]}])
    manager.settle(odd)
    assert manager.peer.condition == "amqp:invalid-field"
    body = {"disposition-status": "completed", "lock-tokens": Array(UUID, [token])}
    assert manager.ask("queue", "update-disposition", body).status == 200


def test_changed_properties_count_in_the_size_of_the_queue(manager: Manager) -> None:
    manager.send("queue", BODY)
    ((token, _),) = manager.receive("queue")
    body = {"disposition-status": "defered", "lock-tokens": Array(UUID, [token])}
    before = manager.peer.namespace.get("queue").counts.size_in_bytes
    manager.ask("queue", "update-disposition", body | {"properties-to-modify": {"long": "x" * 1000}})
    assert manager.peer.namespace.get("queue").counts.size_in_bytes > before + 1000
    again = {"sequence-numbers": Array(int, [1]), "receiver-settle-mode": UInt(0)}
    assert manager.ask("queue", "receive-by-sequence-number", again).status == 200
    assert manager.peer.namespace.get("queue").counts.size_in_bytes == 0


# -- peeking


def test_pages_cross_what_is_ready_locked_deferred_and_scheduled(manager: Manager) -> None:
    for number in range(6):
        manager.send("queue", numbered(number))
    tokens = [token for token, _ in manager.receive("queue")]
    body = {"disposition-status": "defered", "lock-tokens": Array(UUID, tokens[:2])}
    assert manager.ask("queue", "update-disposition", body).status == 200
    later = section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(2**50)}) + numbered(6)
    manager.send("queue", later)
    pages = [[m["n"] for m in manager.peek("queue", start, 3)] for start in (0, 4, 7, 8)]
    assert pages == [[0, 1, 2], [3, 4, 5], [6], []]


def test_messages_that_are_gone_are_not_peeked(manager: Manager) -> None:
    for number in range(200):
        manager.send("queue", numbered(number))
    tokens = [token for token, _ in manager.receive("queue")]
    body = {"disposition-status": "completed", "lock-tokens": Array(UUID, tokens[10:])}
    assert manager.ask("queue", "update-disposition", body).status == 200
    assert [m["n"] for m in manager.peek("queue", 5, 100)] == list(range(4, 10))


# -- deletion in batches


def delete(manager: Manager, path: str, count: int, before: int, **more: Any) -> int:
    body = {"message-count": Int(count), "enqueued-time-utc": Timestamp(before), **more}
    answer = manager.ask(path, "batch-delete-messages", body)
    assert answer.status == (200 if answer.body else 204)
    return int(answer.body["message-count"]) if answer.body else 0


def test_the_oldest_messages_are_deleted(manager: Manager) -> None:
    for number in range(5):
        manager.peer.now += 1
        manager.send("queue", numbered(number))
    now = int(manager.peer.now * 1000)
    assert delete(manager, "queue", 2, now + 1) == 2
    assert [m["n"] for m in manager.peek("queue")] == [2, 3, 4]
    assert delete(manager, "queue", 10, now) == 2
    assert [m["n"] for m in manager.peek("queue")] == [4]
    assert delete(manager, "queue", 10, now + 1) == 1
    assert delete(manager, "queue", 10, now + 1) == 0
    assert manager.peer.namespace.get("queue").counts.size_in_bytes == 0


def test_locked_deferred_and_scheduled_messages_are_not_deleted(manager: Manager) -> None:
    manager.send("queue", numbered(0))
    assert len(manager.receive("queue")) == 1
    manager.send("queue", section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(2**50)}) + numbered(1))
    assert delete(manager, "queue", 10, 2**50) == 0


def test_a_session_is_deleted_from_alone(manager: Manager) -> None:
    for number, session in enumerate(("a", "b", "a")):
        manager.send("sessions", numbered(number, session))
    assert delete(manager, "sessions", 10, 2**50, **{"session-id": "a"}) == 2
    assert [m["n"] for m in manager.peek("sessions")] == [1]


def test_one_batch_deletes_at_most_500_messages(manager: Manager) -> None:
    for number in range(501):
        manager.send("queue", numbered(number))
    assert delete(manager, "queue", 4000, 2**50) == 500
    assert delete(manager, "queue", 4000, 2**50) == 1


# -- malformed requests

FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "renew-lock": ("queue", {"lock-tokens": Array(UUID, [])}),
    "peek-message": ("queue", {"from-sequence-number": 0, "message-count": Int(1)}),
    "receive-by-sequence-number": ("queue", {"sequence-numbers": Array(int, []), "receiver-settle-mode": UInt(1)}),
    "update-disposition": ("queue", {"disposition-status": "completed", "lock-tokens": Array(UUID, [])}),
    "batch-delete-messages": ("queue", {"message-count": Int(1), "enqueued-time-utc": Timestamp(0)}),
    "schedule-message": ("queue", {"messages": []}),
    "cancel-scheduled-message": ("queue", {"sequence-numbers": Array(int, [])}),
    "renew-session-lock": ("sessions", {"session-id": "s"}),
    "get-session-state": ("sessions", {"session-id": "s"}),
    "set-session-state": ("sessions", {"session-id": "s", "session-state": b""}),
    "get-message-sessions": ("sessions", {"last-updated-time": Timestamp(0), "skip": Int(0), "top": Int(1)}),
    "add-rule": (SUBSCRIPTION, {"rule-name": "r", "rule-description": rule("1=1")}),
    "remove-rule": (SUBSCRIPTION, {"rule-name": "r"}),
    "enumerate-rules": (SUBSCRIPTION, {"top": Int(1), "skip": Int(0)}),
}
ONE_OFF = [(operation, field) for operation, (_, body) in FIELDS.items() for field in body]


@pytest.mark.parametrize(("operation", "field"), ONE_OFF)
def test_a_field_of_a_wrong_type_is_named(manager: Manager, operation: str, field: str) -> None:
    path, body = FIELDS[operation]
    wrong: list[Any] = [
        UByte(1) if isinstance(body[field], str | bytes | list | dict) else "text",
        Described(Symbol("x"), 1),
    ]
    for value in wrong:
        answer = manager.ask(path, operation, body | {field: value})
        assert (answer.status, answer.condition) == (400, "amqp:invalid-field")
        assert f"'{field}'" in answer.description


@pytest.mark.parametrize(("operation", "field"), ONE_OFF)
def test_a_missing_field_is_named(manager: Manager, operation: str, field: str) -> None:
    path, body = FIELDS[operation]
    answer = manager.ask(path, operation, {name: value for name, value in body.items() if name != field})
    assert (answer.status, answer.condition) == (400, "amqp:invalid-field")
    assert f"'{field}' of the request is missing" in answer.description


@pytest.mark.parametrize(
    ("operation", "body", "field"),
    [
        ("renew-lock", {"lock-tokens": Array(UInt, [UInt(1)])}, "lock-tokens"),
        ("peek-message", {"from-sequence-number": 0, "message-count": Int(0)}, "message-count"),
        ("peek-message", {"from-sequence-number": 0, "message-count": Int(1), "session-id": 5}, "session-id"),
        (
            "update-disposition",
            {"disposition-status": "abandoned", "lock-tokens": Array(UUID, []), "properties-to-modify": 1},
            "properties-to-modify",
        ),
        ("schedule-message", {"messages": [{"message": b"junk"}]}, "messages[0].message"),
        ("schedule-message", {"messages": [{"message": BODY}, {"message": "text"}]}, "messages[1].message"),
        ("schedule-message", {"messages": [1]}, "messages[0]"),
        ("cancel-scheduled-message", {"sequence-numbers": Array(str, ["a"])}, "sequence-numbers"),
    ],
)
def test_a_field_with_a_wrong_inside_is_named(manager: Manager, operation: str, body: Any, field: str) -> None:
    answer = manager.ask("queue", operation, body)
    assert answer.status == 400
    assert f"'{field}'" in answer.description


@pytest.mark.parametrize("body", [None, [], "text", 5])
def test_a_body_that_is_no_map_is_refused(manager: Manager, body: Any) -> None:
    answer = manager.ask("queue", "peek-message", body)
    assert (answer.status, answer.condition) == (400, "amqp:invalid-field")


NAMES = [
    "lock-tokens", "from-sequence-number", "message-count", "sequence-numbers", "receiver-settle-mode", "messages", "message",
    "disposition-status", "properties-to-modify", "deadletter-reason", "session-id", "session-state", "last-updated-time",
    "enqueued-time-utc", "skip", "top", "rule-name", "rule-description", "sql-filter", "correlation-filter", "sql-rule-action",
    "expression", "properties", "to",
]  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.text(max_size=3), st.binary(max_size=3), st.integers(-5, 5), st.floats(),
        st.integers(0, 5).map(UInt), st.just(Timestamp(5)), st.just(UUID(int=0)), st.just(Array(UUID, [UUID(int=0)])),
        st.just(Array(int, [1])), st.sampled_from(["completed", "defered", "suspended", "1=1", "x ="]),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def lasting_manager() -> Manager:
    return Manager()


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(FIELDS)), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4), st.booleans()
)  # fmt: skip
def test_no_body_ends_the_connection(lasting_manager: Manager, operation: str, changes: Any, whole: bool) -> None:
    path, body = FIELDS[operation]
    answer = lasting_manager.ask(path, operation, changes if whole else body | changes)
    assert answer.status in (200, 204, 400, 404, 409, 410, 501)
