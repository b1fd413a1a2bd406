"""Several outputs on the fake broker, with real threads: what is settled when, and who waits for whom."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest
from structlog.testing import capture_logs

from common.bus.packing import is_pack, packed
from common.bus.ports import TimeLeft
from common.cel.filters import FilterFailed
from common.errors import PermanentError, TransientError
from common.message import Message
from common.retry import Backoff
from common.servicebus.receiver import MAX_RENEWALS
from router.publishing.publisher import Publisher
from router.publishing.publishers import Publishers
from router.receiving.fan_out import handover
from router.receiving.fan_out import session as session_module
from router.receiving.fan_out.behind import Behind
from router.receiving.fan_out.courier import ThreadedCouriers
from router.receiving.fan_out.handover import FanOut
from router.receiving.fan_out.progress import Kind, Remembered, Rereads, read
from router.receiving.fan_out.routing import Target
from router.receiving.fan_out.session import Means, Session
from router.receiving.gate import Gate
from router.receiving.pace import Pace
from router.receiving.parking import Parking
from router.receiving.slot import Forwarder
from router.receiving.unpack import UnpackingReceivers
from router.settings import OnPoison
from router.tally import Tally
from tests.fakes.bus import FakeBroker, FakeEntity, FakeSender, Held

QUICK = Backoff(first=0.001, longest=0.001)
AWAY = Backoff(first=3600.0, longest=3600.0)
PACE = Pace(batch=10, accept_wait=0.01, poll=0.005, idle=0.01, turn=5.0, linger=0.0)


@dataclass(frozen=True)
class To:
    output: str
    key: str


class ByName:
    """Every output gets what is destined for `all`, else the one that the destination names."""

    fingerprint = "one"

    def led(self, output: str, kinds: Collection[Kind]) -> str:
        return "one"

    def __init__(self, outputs: Sequence[str], elsewhere: Mapping[str, str]) -> None:
        """`elsewhere`: by output, the id of a message that is routed to a stream which does not exist."""
        self.outputs, self.elsewhere = outputs, elsewhere

    def targets(self, message: Message, topic: str) -> Sequence[Target]:
        if topic == "unanswered":
            raise FilterFailed("no such column")
        return [
            To(output, "nowhere" if self.elsewhere.get(output) == message.message_id else "all")
            for output in self.outputs
            if topic in ("all", output)
        ]


class Bench:
    """A queue, and for each output an entity of its name; a slot that stops by itself."""

    def __init__(
        self,
        *outputs: str,
        sessions: bool = True,
        pace: Pace = PACE,
        backoff: Backoff = QUICK,
        on_poison: OnPoison = "dead_letter",
        room: int = 8,
        memory: float = float("inf"),
        broker: FakeBroker | None = None,
    ) -> None:
        """`broker`: of an earlier life of the router."""
        self.broker = broker or FakeBroker()
        here = self.broker.entities_by_name
        self.queue = here.get("ingest") or self.broker.create("ingest", sessions=sessions)
        self.stop = threading.Event()
        self.tally = Tally()
        self.behind = Behind()
        self.outputs = {name: here.get(name) or self.broker.create(name) for name in outputs}
        self.streams = {name: Publishers([Aliased(name, self.broker, backoff)], tally=self.tally) for name in outputs}
        self.parking = Parking(self.stop, room=room, memory=memory)
        self.elsewhere: dict[str, str] = {}
        self.receivers = self.broker.receivers("ingest", sessions=sessions)
        self.means = means = Means(
            self.streams,
            ThreadedCouriers(4),
            Rereads(),
            self.behind,
            "one",
            time.monotonic,
            self.tally,
            pace.linger,
            on_poison == "stop",
        )
        self.slot = Forwarder(
            self.receivers,
            next(iter(self.streams.values())),
            self.stop,
            sessions,
            pace,
            Gate(),
            self.tally,
            QUICK,
            parking=self.parking,
            on_poison=on_poison,
            fan_out=partial(
                FanOut, means, ByName(outputs, self.elsewhere), Remembered(), self.stop, pace, self.parking
            ),
        )
        self.number = 0

    def put(self, count: int, *, to: str = "all", session: str = "persons", size: int = 0) -> None:
        for _ in range(count):
            told = {"destination": to}
            body = str(self.number).encode() + bytes(size)
            self.queue.held.append(Held(Message(body, str(self.number), session, application_properties=told)))
            self.number += 1

    def run(self, until: Callable[[], bool] | None = None) -> None:
        done = until or (lambda: not self.queue.held)
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self.slot.run()
            except BaseException as error:
                failed.append(error)
                self.stop.set()

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(30_000):
            if done() or self.stop.is_set():
                break
            threading.Event().wait(0.002)
        reached = done()
        self.stop.set()
        thread.join(20)
        self.parking.close()
        if failed:
            raise failed[0]
        assert reached
        assert not thread.is_alive()


class Aliased(Publisher):
    """Sends to the entity of the output, under the name of the stream."""

    def __init__(self, output: str, broker: FakeBroker, backoff: Backoff) -> None:
        super().__init__("all", broker.sender(output), backoff=backoff, chance=lambda: 1.0)


def ids(entity: FakeEntity) -> list[int]:
    """Without copies."""
    return [int(each) for each in dict.fromkeys(held.message.message_id or "" for held in entity.held)]


@pytest.mark.parametrize("sessions", [True, False])
def test_every_output_gets_every_message_in_order_and_they_leave_the_queue(sessions: bool) -> None:
    bench = Bench("a", "b", "c", sessions=sessions)
    bench.put(55)
    bench.run()
    for entity in bench.outputs.values():
        assert [int(body) for body in entity.bodies] == list(range(55))
    assert bench.queue.states == {}
    assert bench.tally.routed == {"all": 165}


def test_a_message_is_settled_only_when_all_outputs_have_it() -> None:
    bench = Bench("a", "b", backoff=AWAY)
    bench.put(3)
    bench.put(2, to="a")
    bench.outputs["b"].faults.append(TransientError("away"))
    bench.run(until=lambda: len(bench.queue.held) == 3 and len(bench.outputs["a"].held) == 5)
    assert [held.message.message_id for held in bench.queue.held] == ["0", "1", "2"]
    assert read(bench.queue.states["persons"], "one", ["a", "b"])[0] == {"a": (bench.queue.held[-1].number + 2, 0)}


class UntilThen(deque[Exception]):
    """Every send fails until `over`."""

    def __init__(self, over: Callable[[], bool]) -> None:
        super().__init__()
        self._over = over

    def __bool__(self) -> bool:
        return not self._over()

    def popleft(self) -> Exception:
        return TransientError("away")


def test_an_output_that_is_away_holds_up_no_other_and_gets_everything_when_it_is_back() -> None:
    bench = Bench("a", "b", backoff=Backoff(first=0.3, longest=0.3))
    bench.put(3_000, size=1_000)
    bench.outputs["b"].faults = UntilThen(lambda: len(bench.outputs["a"].held) >= 3_000)
    with capture_logs() as logs:
        bench.run()
    assert ids(bench.outputs["a"]) == ids(bench.outputs["b"]) == list(range(3_000))
    assert len(bench.outputs["a"].held) == 3_000  # the watermark spares it the copies
    assert bench.queue.states == {}
    told = [line["event"] for line in logs if line["event"].startswith("output ")]
    assert told == ["output behind; the others go on", "output level again"]
    assert bench.behind.sessions() == {}


def test_a_message_that_one_output_refuses_is_dead_lettered_when_the_others_have_it() -> None:
    bench = Bench("a", "b")
    bench.put(5)
    bench.outputs["b"].refuses = ["2"]
    bench.run()
    assert ids(bench.outputs["a"]) == [0, 1, 2, 3, 4]
    assert ids(bench.outputs["b"]) == [0, 1, 3, 4]
    [(message, reason, description)] = bench.queue.dead
    assert (message.message_id, reason) == ("2", "Refused")
    assert description.startswith("output b: ")


class NoRight(FakeSender):
    """To the ingest queue."""

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        raise PermanentError("no right to send")


def test_poison_in_a_pack_that_cannot_be_sent_alone_is_found_again_by_the_next_router() -> None:
    """The first one has noted it, and stops before the pack is settled."""
    bench = Bench("a", "b", backoff=AWAY)
    of = {1: "a"}
    changes = [
        Message(b'{"n":%d}' % n, str(n), "persons", application_properties={"destination": of.get(n, "all")})
        for n in range(4)
    ]
    bench.queue.held += [Held(parcel.message) for parcel in packed(changes, most=10, limit=100_000)]
    assert len(bench.queue.held) == 1
    for life in (bench, Bench("a", "b", broker=bench.broker)):
        life.outputs["a"].refuses = ["1"]
        life.slot.receivers = UnpackingReceivers(life.receivers, lambda: NoRight(bench.broker, "ingest"))
    bench.outputs["b"].faults.append(TransientError("away"))
    bench.run(until=lambda: ids(bench.outputs["a"]) == [0, 2, 3] and bench.tally.dead_lettered.total() == 1)
    assert len(bench.queue.held) == 1
    assert read(bench.queue.states["persons"], "one", ["a", "b"])[0]["a"] == (bench.queue.held[0].number, 0)
    life.run()
    assert ids(bench.outputs["a"]) == [0, 2, 3]
    assert ids(bench.outputs["b"]) == [0, 2, 3]
    [(message, reason, description)] = bench.queue.dead
    assert is_pack(message)
    assert reason == "Refused"
    assert description.startswith("of the 4 changes of this pack 1 are poison")


def test_with_on_poison_stop_the_session_stops_where_one_output_refuses() -> None:
    bench = Bench("a", "b", on_poison="stop")
    bench.put(5)
    bench.put(3, session="orders")
    bench.outputs["b"].refuses = ["2"]
    bench.run(until=lambda: bench.parking.stopped == 1 and len(bench.queue.held) == 3)
    assert ids(bench.outputs["b"])[:2] == [0, 1]
    assert {3, 4}.isdisjoint(ids(bench.outputs["b"]))
    assert not bench.queue.dead


def test_what_no_route_takes_is_settled_and_counted() -> None:
    bench = Bench("a", "b")
    bench.put(3, to="nowhere")
    bench.put(2)
    bench.run()
    assert bench.tally.filtered == 3
    assert ids(bench.outputs["a"]) == [3, 4]


def test_a_message_that_a_filter_has_no_answer_for_is_dead_lettered() -> None:
    bench = Bench("a", "b")
    bench.put(1, to="unanswered")
    bench.put(1)
    bench.run()
    assert [(message.message_id, reason) for message, reason, _ in bench.queue.dead] == [("0", "RouteFailed")]
    assert bench.queue.dead[0][2] == "no such column"
    assert ids(bench.outputs["a"]) == [1]


def test_on_poison_stop_holds_for_a_filter_without_an_answer() -> None:
    bench = Bench("a", "b", on_poison="stop")
    bench.put(1)
    bench.put(1, to="unanswered")
    bench.put(1)
    bench.run(until=lambda: bench.parking.stopped == 1 and len(bench.queue.held) == 2)
    assert not bench.queue.dead
    assert ids(bench.outputs["a"]) == ids(bench.outputs["b"]) == [0]


def test_without_sessions_what_is_given_back_goes_only_to_the_outputs_that_lack_it() -> None:
    bench = Bench(
        "a",
        "b",
        sessions=False,
        pace=Pace(batch=10, poll=0.005, turn=0.02, linger=0.0),
        backoff=Backoff(0.05, 1.0, 0.05),
    )
    bench.put(5)
    bench.outputs["b"].faults.extend(TransientError("away") for _ in range(3))
    bench.run()
    assert ids(bench.outputs["b"]) == [0, 1, 2, 3, 4]
    assert len(bench.outputs["a"].held) == 5


@pytest.mark.parametrize("unknown", [False, True])
def test_without_sessions_what_one_output_refuses_is_dead_lettered_after_it_was_given_back_too(unknown: bool) -> None:
    bench = Bench(
        "a",
        "b",
        sessions=False,
        pace=Pace(batch=10, poll=0.005, turn=0.02, linger=0.0),
        backoff=Backoff(0.05, 1.0, 0.05),
    )
    bench.put(5)
    bench.outputs["b"].faults.extend(TransientError("away") for _ in range(3))
    if unknown:
        bench.elsewhere["a"] = "2"
    else:
        bench.outputs["a"].refuses = ["2"]
    bench.run()
    assert ids(bench.outputs["a"]) == [0, 1, 3, 4]
    assert sorted(ids(bench.outputs["b"])) == [0, 1, 2, 3, 4]
    assert [message.message_id for message, _, _ in bench.queue.dead] == ["2"]


def test_many_sessions_with_an_output_that_is_away_are_served_by_one_slot() -> None:
    bench = Bench("a", "b", backoff=AWAY, room=20)
    for session in range(12):
        bench.put(4, session=f"s{session}")
    bench.outputs["b"].faults.append(TransientError("away"))
    bench.run(until=lambda: len(bench.outputs["a"].held) == 48)
    assert len(set(bench.receivers.opened)) == len(bench.receivers.opened)  # none was closed and opened again


def test_parked_sessions_with_something_to_do_leave_time_for_an_answer_about_new_ones() -> None:
    """Each of them is worth a visit at any time, and the broker answers no request that is given up at once."""
    bench = Bench("a", "b", backoff=AWAY, room=20, pace=replace(PACE, accept_wait=1.0))
    bench.parking.anyone_pressing = lambda: True  # type: ignore[method-assign]
    for session in range(12):
        bench.put(4, session=f"s{session}")
    bench.outputs["b"].faults.append(TransientError("away"))
    bench.run(until=lambda: len(bench.outputs["a"].held) == 48)


def test_a_parked_session_gets_new_messages_to_the_outputs_that_accept_them() -> None:
    bench = Bench("a", "b", backoff=AWAY, room=20)
    bench.put(4, session="one")
    bench.put(4, session="two")
    bench.outputs["b"].faults.append(TransientError("away"))

    def more() -> bool:
        if len(bench.outputs["a"].held) == 8 and bench.number == 8:
            with bench.broker.changed:
                bench.put(3, session="one")
        return len(bench.outputs["a"].held) == 11

    bench.run(until=more)
    assert len(bench.receivers.opened) == 2


def test_an_outage_of_a_day_uses_up_no_link() -> None:
    """The state changes all the time, and the lock of a minute is renewed as well."""
    bench, now, written = Bench("a", "b"), [0.0], list[bytes | None]()
    bench.put(1)
    receiver = bench.receivers.open(max_wait=1)
    assert receiver is not None
    receiver.set_state = written.append  # type: ignore[method-assign, assignment]
    session = Session(receiver, replace(bench.means, clock=lambda: now[0]), {})
    session.lane("a").passed((1, 0))
    session.lane("b").passed((1, 0))
    session.lane("b").behind = True
    for second in range(24 * 3600):
        now[0] = float(second)
        session.lane("a").passed((second + 2, 0))
        session.keep_if_due()
        if second == 600:
            assert len(written) > 60
    assert len(written) + 24 * 3600 / 30 < MAX_RENEWALS
    bench.parking.close()


def test_a_session_whose_messages_are_too_much_keeps_one_and_is_read_again() -> None:
    bench = Bench("a", "b", backoff=Backoff(0.05, 1.0, 0.05), memory=1_000)
    bench.put(30, size=200)
    bench.put(5, session="other")
    bench.outputs["b"].faults.extend(TransientError("away") for _ in range(6))
    bench.run()
    assert sorted(ids(bench.outputs["b"])) == list(range(35))
    assert [each for each in ids(bench.outputs["b"]) if each < 30] == list(range(30))


def test_a_stop_gives_a_session_back_only_when_what_is_in_flight_has_ended() -> None:
    """It would arrive after newer changes that the next holder of the session sends."""
    bench, over, asked, held = Bench("a", "b"), threading.Event(), threading.Event(), list[int]()

    class Faults(deque[Exception]):
        def __bool__(self) -> bool:
            asked.set()
            over.wait(60)
            return False

    bench.outputs["b"].faults = Faults()
    bench.put(5)

    def arrive() -> None:
        held.append(len(bench.broker.open_receivers))
        over.set()

    def stops() -> bool:
        reached = asked.is_set() and len(bench.outputs["a"].held) == 5
        if reached and not bench.stop.is_set():
            threading.Timer(2.0, arrive).start()
        return reached

    bench.run(until=stops)
    assert held[0] == 1
    assert not bench.broker.open_receivers
    assert ids(bench.outputs["b"]) == [0, 1, 2, 3, 4]


def test_a_session_is_not_read_again_while_an_output_may_still_accept_something() -> None:
    bench = Bench("a", "b")
    bench.put(1)
    receiver = bench.receivers.open(max_wait=1)
    assert receiver is not None
    session = Session(receiver, bench.means, {})
    late, busy = session.lane("a"), session.lane("b")
    late.behind, late.skipped, busy.busy = True, 1, True
    assert session.reread_for() is None
    busy.busy = False
    assert session.reread_for() is late
    bench.parking.close()


def test_an_output_that_does_not_answer_holds_up_neither_the_others_nor_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sends hang until the test is over."""
    for module in (session_module, handover):
        monkeypatch.setattr(module, "AT_A_STOP", 0.2)
    bench, over, asked = Bench("a", "b"), threading.Event(), threading.Event()

    class Faults(deque[Exception]):
        def __bool__(self) -> bool:
            asked.set()
            over.wait(60)
            return False

    bench.outputs["b"].faults = Faults()
    bench.put(5, session="one")
    bench.put(5, session="two")

    def more() -> bool:
        if asked.is_set() and bench.number == 10 and len(bench.outputs["a"].held) == 10:
            with bench.broker.changed:
                bench.put(3, session="one")
                bench.put(3, session="two")
        return len(bench.outputs["a"].held) == 16

    bench.run(until=more)
    over.set()
    assert not bench.outputs["b"].held
    assert [held.holder for held in bench.queue.held] == [None] * 16


def test_a_defect_in_a_courier_ends_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Aliased, *sent: object, **how: object) -> bool:
        raise ValueError("a defect")

    bench = Bench("a", "b")
    bench.put(1)
    monkeypatch.setattr(Aliased, "send", broken)
    with pytest.raises(ValueError, match="a defect"):
        bench.run()
