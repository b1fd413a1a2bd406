"""What every output promises (router/outputs/port.py), as cases over its real server. A subclass names its world and nothing else.

No case waits for a moment: each waits for a fact, with a bound that only a hang can reach.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

import pytest
from structlog.testing import capture_logs

from common.bus.ports import MessageRefused, SendInterrupted
from common.check import Outcome
from common.errors import DStreamError, EntityUnavailable, PermanentError, TransientError
from common.in_time import begun, in_time
from common.message import Message
from router.outputs.port import Output, Stream
from tests.outputs.contract.delivery import MERCY, Delivered, compared, deliver
from tests.outputs.contract.kills import deliver_under_kills
from tests.outputs.contract.world import World, change, session
from tests.worlds.tcp_relay import Silence, Way
from tests.worlds.world import wait_until

_T = TypeVar("_T")

SHORT = 2.0
"""Seconds: the `timeout` of an output whose server will not answer."""


class Heard:
    """All that was logged, raised and shown in a case, in one text."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._entries: Sequence[Any] = ()

    def listen(self, entries: Sequence[Any]) -> None:
        self._entries = entries

    def add(self, *what: object) -> None:
        self._said += [part for each in what for part in (repr(each), str(each))]

    def text(self) -> str:
        return "\n".join([*self._said, *map(repr, self._entries)])


@pytest.fixture
def heard(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Heard]:
    """Every case: no secret in what was logged, by DStream or a library at any level, nor in an error of the case."""
    heard, world = Heard(), request.getfixturevalue("world")
    with caplog.at_level(logging.DEBUG), capture_logs() as entries:
        heard.listen(entries)
        yield heard
    text = heard.text() + caplog.text
    assert [secret for secret in world.secrets if secret in text] == []


class OutputContract:
    """`world_type` is all that a subclass must say; a world is entered once for its cases.

    A case that cannot be is in `World.impossible`, with its reason; tests/outputs/conftest.py leaves it out.
    """

    world_type: ClassVar[type[World]]

    @pytest.fixture(scope="class", name="world")
    @classmethod
    def _world(cls) -> Iterator[World]:
        with cls.world_type() as world:
            yield world

    @pytest.fixture(autouse=True)
    def _bring(self, world: World, heard: Heard) -> Iterator[None]:
        self.world, self.heard = world, heard
        self._outputs: list[Output] = []
        yield
        world.relay.well()
        for output in self._outputs:
            in_time(MERCY, output.close)

    def output(self, *, timeout: float | None = None) -> Output:
        recipe = self.world.recipe() if timeout is None else self.world.recipe(timeout=timeout)
        self._outputs.append(output := recipe.output())
        self.heard.add(output)
        return output

    def messages(self, stream: Stream, count: int, *, first: int = 0, sessions: int = 3) -> list[Message]:
        """Of several sessions, in turn."""
        numbers = range(first, first + count)
        return [self.world.message(stream, each, session(stream, each % sessions)) for each in numbers]

    def check_arrived(self, stream: Stream, sent: Sequence[Message], *, most_duplicates: int | None = 0) -> int:
        """Nothing is lost, out of order, changed or from elsewhere. Returns the number of duplicates."""
        found = compared(sent, self.world.arrived(stream), ordered=self.world.keeps_order)
        assert (found.lost, found.disordered, found.foreign, found.changed) == ([], [], [], [])
        assert most_duplicates is None or found.duplicates <= most_duplicates
        return found.duplicates

    def interrupted(self, call: Callable[[], object], *, seconds: float = MERCY) -> DStreamError:
        """What `call` raises, which is transient, within that time."""
        with pytest.raises(TransientError) as raised:
            in_time(seconds, call)
        self.heard.add(raised.value, raised.value.__cause__)
        return raised.value

    # Sending

    def test_everything_arrives_unchanged_and_in_order(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sender.open()
        sent = self.messages(stream, 200)
        for at in range(0, len(sent), 40):
            sender.send(sent[at : at + 40])
        sender.close()
        self.check_arrived(stream, sent)

    def test_messages_without_a_session_keep_their_order(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sent = [self.world.message(stream, number, None) for number in range(50)]
        sender.send(sent)
        sender.close()
        self.check_arrived(stream, sent)

    def test_streams_do_not_mix(self) -> None:
        output = self.output()
        streams = [self.world.place() for _ in range(3)]
        sent = [self.messages(stream, 60) for stream in streams]
        senders = [output.sender(stream) for stream in streams]
        calls = [begun(lambda a=a, b=b: a.send(b), name="one-of-three") for a, b in zip(senders, sent, strict=True)]  # type: ignore[misc]
        for call in calls:
            call.result(MERCY)
        for sender, stream, messages in zip(senders, streams, sent, strict=True):
            sender.close()
            self.check_arrived(stream, messages)

    def test_a_sender_works_after_close_and_in_another_thread(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sent = self.messages(stream, 30)
        for at in range(0, 30, 10):
            in_time(MERCY, sender.open)
            in_time(MERCY, lambda at=at: sender.send(sent[at : at + 10]))  # type: ignore[misc]
            sender.close()
            sender.close()
        self.check_arrived(stream, sent)

    def test_sending_nothing_is_nothing(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sender.send([])
        assert sender.batch_bytes() > 0
        sender.close()
        self.check_arrived(stream, [])

    def test_a_large_chunk(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sent = [change(stream, number, session(stream, number % 2), size=100_000) for number in range(8)]
        sender.send(sent)
        sender.close()
        self.check_arrived(stream, sent)

    # Refused messages

    def test_a_refused_message_stops_its_session_and_nothing_else(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        one = session(stream, 0)
        sent = [self.world.message(stream, number, one) for number in range(6)]
        sent[3] = self.world.refusable(stream, 3, one)
        with pytest.raises(MessageRefused) as raised:
            sender.send(sent)
        self.heard.add(raised.value, raised.value.__cause__)
        assert (raised.value.at, raised.value.refused) == (3, sent[3])
        assert raised.value.accepted == {0, 1, 2}
        sender.send(sent[4:])
        sender.close()
        self.check_arrived(stream, [*sent[:3], *sent[4:]])

    def test_refused_messages_of_several_sessions(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sent = self.messages(stream, 30)
        bad = [sent[at] for at in (0, 14, 29)]
        for at in (0, 14, 29):
            sent[at] = self.world.refusable(stream, at, sent[at].session_id)
        done = deliver(sender, sent)
        sender.close()
        assert {each.message_id for each in done.refused} == {each.message_id for each in bad}
        assert done.interruptions == []
        self.check_arrived(stream, [each for at, each in enumerate(sent) if at not in (0, 14, 29)])

    # A server that is busy, slow, mute, away

    def test_a_busy_server_is_said_to_throttle(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sent = self.messages(stream, 20)
        with self.world.busy():
            error = self.interrupted(lambda: sender.send(sent))
        assert isinstance(error, SendInterrupted)
        assert (error.throttled, error.accepted) == (True, frozenset())
        sender.send(sent)
        sender.close()
        self.check_arrived(stream, sent)

    def test_a_slow_way(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sent = [change(stream, number, session(stream, number % 3), size=2_000) for number in range(60)]
        self.world.relay.pace(50_000)
        done = deliver(sender, sent, chunk=60)
        sender.close()
        assert done.interruptions == []
        self.check_arrived(stream, sent)

    def test_a_way_that_is_too_slow_for_the_timeout_ends_in_time(self) -> None:
        stream = self.world.place()
        sender = self.output(timeout=SHORT).sender(stream)
        sent = [change(stream, number, session(stream, 0), size=100_000) for number in range(8)]
        self.world.relay.pace(5_000)
        error = self.interrupted(lambda: sender.send(sent))
        self.world.relay.well()
        self.world.relay.drop()
        rest = [each for at, each in enumerate(sent) if at not in getattr(error, "accepted", ())]
        deliver(sender, rest, chunk=8)
        sender.close()
        self.check_arrived(stream, sent, most_duplicates=None)

    @pytest.mark.parametrize("way", [Way.FORTH, Way.BACK, Way.BOTH], ids=["forth", "back", "both"])
    def test_nothing_is_accepted_before_the_server_has_said_so(self, way: Way) -> None:
        stream = self.world.place()
        sender = self.output(timeout=SHORT).sender(stream)
        sent = self.messages(stream, 40)
        sender.send(sent[:10])
        with self.world.relay.muted(Silence(way)):
            error = self.interrupted(lambda: sender.send(sent[10:]))
        assert getattr(error, "accepted", frozenset()) == frozenset()
        deliver(sender, sent[10:])
        sender.close()
        self.check_arrived(stream, sent, most_duplicates=None)

    def test_every_call_of_a_mute_server_ends(self) -> None:
        stream = self.world.place()
        output = self.output(timeout=SHORT)
        sender = output.sender(stream)
        with self.world.relay.muted():
            with suppress(TransientError):  # whoever is mute may have taken the connection
                in_time(MERCY, sender.open)
            self.interrupted(lambda: sender.send(self.messages(stream, 3)))
            self.interrupted(lambda: sender.send(self.messages(stream, 3)))
            for how in ("create", "verify"):
                with suppress(TransientError):
                    in_time(MERCY, lambda how=how: output.provision([stream], how=how))  # type: ignore[misc]
            assert in_time(MERCY, lambda: self.found(output, [stream], "create"))
            in_time(MERCY, sender.close)
            in_time(MERCY, output.close)

    def test_the_time_that_is_left_shortens_a_send(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        sent = self.messages(stream, 10)
        sender.send(sent[:5])
        end = time.monotonic() + 1
        with self.world.relay.muted():
            # with its own timeout alone it would take longer
            self.interrupted(lambda: sender.send(sent[5:], left=lambda: end - time.monotonic()), seconds=20)
        error = self.interrupted(lambda: sender.send(sent[5:], left=lambda: 0.0))
        assert getattr(error, "accepted", frozenset()) == frozenset()
        deliver(sender, sent[5:])
        sender.close()
        self.check_arrived(stream, sent, most_duplicates=None)

    def test_a_server_that_is_away_and_back(self) -> None:
        stream = self.world.place()
        sender = self.output(timeout=5).sender(stream)
        sent = self.messages(stream, 60)
        sender.send(sent[:20])
        self.world.stop()
        try:
            for _ in range(3):
                error = self.interrupted(lambda: sender.send(sent[20:40]))
                assert getattr(error, "accepted", frozenset()) == frozenset()
        finally:
            self.world.start()
        deliver(sender, sent[20:])
        sender.close()
        self.check_arrived(stream, sent, most_duplicates=None)

    def test_a_server_that_refuses_connections(self) -> None:
        stream = self.world.place()
        output = self.output(timeout=5)
        sender = output.sender(stream)
        sent = self.messages(stream, 20)
        self.world.relay.refuse()
        self.interrupted(sender.open)
        self.interrupted(lambda: sender.send(sent))
        self.world.relay.well()
        deliver(sender, sent)
        sender.close()
        self.check_arrived(stream, sent, most_duplicates=None)

    def test_cut_again_and_again(self) -> None:
        stream = self.world.place()
        sender = self.output(timeout=5).sender(stream)
        sent, over = self.messages(stream, 1500), threading.Event()
        cutting = begun(lambda: self._cut_until(over), name="cuts")
        try:
            done = deliver(sender, sent, chunk=100, pause=0.02)
        finally:
            over.set()
            cutting.result(MERCY)
        sender.close()
        arrived = {each.id for each in self.world.arrived(stream)}
        assert set(done.accepted) <= arrived
        duplicates = self.check_arrived(stream, sent, most_duplicates=None)
        print(f"{len(done.interruptions)} interruptions, {duplicates} duplicates")

    def _cut_until(self, over: threading.Event) -> None:
        """Less and less often, so that a slow machine gets something through, too."""
        pause = 0.15
        while not over.wait(pause):
            self.world.relay.drop()
            pause *= 1.05

    def test_restarted_while_it_receives(self) -> None:
        stream = self.world.place()
        sender = self.output(timeout=5).sender(stream)
        sent = self.messages(stream, 1500)
        sending = begun(lambda: deliver(sender, sent, chunk=50), name="sending")
        for _ in range(2):
            time.sleep(0.2)
            self.world.stop()
            self.world.start()
        done: Delivered = sending.result(2 * MERCY)
        sender.close()
        assert set(done.accepted) <= {each.id for each in self.world.arrived(stream)}
        self.check_arrived(stream, sent, most_duplicates=None)

    @pytest.mark.parametrize(
        "kills",
        [
            pytest.param(5, marks=pytest.mark.timeout(400)),
            pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
        ],
        ids=["short", "long"],
    )
    def test_killed_in_mid_send(self, kills: int) -> None:
        stream = self.world.place()

        def make(number: int) -> Message:
            return self.world.message(stream, number, session(stream, number % 3))

        result = deliver_under_kills(self.world.recipe(), stream, make, kills=kills, seed=kills)
        duplicates = self.check_arrived(stream, result.sent, most_duplicates=None)
        print(
            f"{result.kills} kills in mid-send ({result.late} too late), {len(result.sent)} messages: {duplicates} duplicates"
        )

    # Ending calls from outside

    def test_cut_calls_ends_what_is_in_flight(self) -> None:
        self._ended_from_outside(lambda output: output.cut_calls())

    def test_close_ends_what_is_in_flight(self) -> None:
        self._ended_from_outside(lambda output: output.close())

    def _ended_from_outside(self, end: Callable[[Output], None]) -> None:
        stream = self.world.place()
        output = self.output(timeout=120)
        sender = output.sender(stream)
        sent = self.messages(stream, 10)
        sender.send(sent[:5])
        before = self.world.relay.fell_mute
        with self.world.relay.muted():
            sending = begun(lambda: sender.send(sent[5:]), name="in-flight")
            wait_until(lambda: self.world.relay.fell_mute > before, "the relay withholds it", MERCY)
            time.sleep(0.3)
            in_time(MERCY, lambda: end(output))
            self.interrupted(lambda: sending.result(MERCY))
        in_time(MERCY, output.close)
        in_time(MERCY, sender.close)

    def test_an_output_can_be_closed_twice_and_before_it_was_used(self) -> None:
        output = self.output()
        output.sender(self.world.nowhere()).close()
        output.cut_calls()
        output.close()
        output.close()

    # Places and rights

    def test_a_missing_place(self) -> None:
        stream = self.world.nowhere()
        sender = self.output().sender(stream)
        with pytest.raises(EntityUnavailable) as raised:
            deliver(sender, self.messages(stream, 3))
        self.heard.add(raised.value, raised.value.__cause__)
        assert stream.destination in str(raised.value)
        sender.close()

    def test_a_missing_place_that_is_created_is_used_by_the_same_sender(self) -> None:
        stream = self.world.nowhere()
        output = self.output()
        sender = output.sender(stream)
        sent = self.messages(stream, 3)
        with pytest.raises(EntityUnavailable):
            deliver(sender, sent)
        assert list(output.provision([stream], how="create")) == []
        deliver(sender, sent)
        sender.close()
        self.check_arrived(stream, sent)

    def test_provision_creates_and_can_be_repeated(self) -> None:
        streams = [self.world.nowhere(), self.world.nowhere(), self.world.place()]
        output = self.output()
        for _ in range(2):
            assert list(output.provision(streams, how="create")) == []
        assert list(self.output().provision(streams, how="verify")) == []
        for stream in streams:
            sender, sent = output.sender(stream), self.messages(stream, 3)
            sender.send(sent)
            sender.close()
            self.check_arrived(stream, sent)

    def test_provision_verifies_and_names_all_that_is_missing(self) -> None:
        streams = [self.world.nowhere(), self.world.place(), self.world.nowhere()]
        with pytest.raises(PermanentError) as raised:
            self.output().provision(streams, how="verify")
        self.heard.add(raised.value, raised.value.__cause__)
        named = [stream.destination in str(raised.value) for stream in streams]
        assert named == [True, False, True]

    def test_provision_verifies_what_exists(self) -> None:
        assert list(self.output().provision([self.world.place()], how="verify")) == []

    def test_provision_none_asks_nobody(self) -> None:
        self.world.relay.refuse()
        assert list(self.output().provision([self.world.nowhere()], how="none")) == []

    def test_a_server_that_is_away_cannot_provision(self) -> None:
        stream = self.world.place()
        self.world.relay.refuse()
        self.interrupted(lambda: self.output(timeout=5).provision([stream], how="verify"))

    def test_a_missing_right(self) -> None:
        stream = self.world.place()
        self._outputs.append(output := self.world.without_right(stream).output())
        sender = output.sender(stream)
        with pytest.raises(EntityUnavailable) as raised:
            deliver(sender, self.messages(stream, 3))
        self.heard.add(output, raised.value, raised.value.__cause__)
        assert raised.value.hint
        sender.close()
        assert self.world.arrived(stream) == []

    def found(self, output: Output, streams: Sequence[Stream], provision: Any) -> list[tuple[Outcome, str]]:
        """What `dstream check` would show; where the server cannot be reached, one finding that fails."""
        try:
            found = [(each.outcome, str(each)) for each in output.findings(streams, provision=provision)]
        except DStreamError as error:
            found = [(Outcome.FAIL, str(error))]
        self.heard.add(found)
        return found

    def test_findings_of_what_is_well(self) -> None:
        stream = self.world.place()
        found = self.found(self.output(), [stream], "verify")
        assert found
        troubles = [each for each in found if each[0] is not Outcome.OK]
        unexpected = [each for each in troubles if not any(text in each[1] for text in self.world.warned_of)]
        assert unexpected == [], unexpected
        assert self.world.arrived(stream) == []

    def test_findings_name_a_missing_place(self) -> None:
        stream = self.world.nowhere()
        found = self.found(self.output(), [stream], "verify")
        assert [text for outcome, text in found if outcome is Outcome.FAIL and stream.destination in text]

    def test_findings_of_a_place_that_a_start_creates(self) -> None:
        stream = self.world.nowhere()
        created = self.found(self.output(), [stream], "create")
        assert [text for outcome, text in created if outcome is Outcome.FAIL] == []

    def test_findings_of_a_missing_right(self) -> None:
        stream = self.world.place()
        self._outputs.append(output := self.world.without_right(stream).output())
        found = self.found(output, [stream], "verify")
        assert any(outcome is Outcome.FAIL for outcome, _ in found)

    def test_findings_of_a_server_that_is_away(self) -> None:
        stream = self.world.place()
        self.world.relay.refuse()
        found = self.found(self.output(timeout=5), [stream], "create")
        assert any(outcome is Outcome.FAIL for outcome, _ in found)

    # Secrets

    def test_no_secret_is_shown(self) -> None:
        output = self.output()
        self.heard.add(output, vars(output) if hasattr(output, "__dict__") else "", output.sender(self.world.place()))
        assert self.world.secrets, "the world must give its output a secret"
