"""When an edit of the configuration is taken up, and what is said of one that cannot be used."""

from __future__ import annotations

import pickle
import threading
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from common.errors import ConfigurationError, TransientError
from dstream.config_watch import USABLE_AGAIN, Latest, Watched


class World:
    """A file that loads as its text, unless that is "broken"."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "dstream.hcl"
        self.path.write_text("one")
        self.taken: list[str] = []
        self.watched = Watched(self.path, self.load)(self.taken.append)

    def load(self) -> str:
        if not self.path.exists():
            raise ConfigurationError(["no file"], hint="name it")
        if (text := self.path.read_text()) == "broken":
            raise ConfigurationError(["dstream.hcl:1: this", "dstream.hcl:2: that"])
        return text

    def look(self, times: int = 2) -> None:
        for _ in range(times):
            self.watched.look()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_file_that_stays_is_not_loaded_again(world: World) -> None:
    world.path.write_text("one")
    world.look(5)
    assert world.taken == []


def test_an_edit_is_taken_up_once(world: World) -> None:
    world.path.write_text("two")
    world.look(5)
    assert world.taken == ["two"]


def test_a_file_that_another_takes_the_place_of_is_seen_through_a_link_of_a_link(tmp_path: Path) -> None:
    """As Kubernetes mounts a ConfigMap: dstream.hcl -> ..data/dstream.hcl, ..data -> a folder with a date."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dstream.hcl").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "dstream.hcl").symlink_to("..data/dstream.hcl")
    taken: list[str] = []
    path = tmp_path / "dstream.hcl"
    watched = Watched(path, path.read_text)(taken.append)
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").replace(tmp_path / "..data")
    watched.look()
    watched.look()
    assert taken == ["two"]


def test_half_a_file_is_passed_over(world: World) -> None:
    with capture_logs() as logs:
        for text in ("broken", "tw", "two"):
            world.path.write_text(text)
            world.look(1)
        world.look(1)
    assert world.taken == ["two"]
    assert logs == []


def test_an_edit_that_cannot_be_used_is_told_once_with_all_its_problems(world: World) -> None:
    world.path.write_text("broken")
    with capture_logs() as logs:
        world.look(5)
    [entry] = logs
    assert (entry["log_level"], entry["problems"]) == ("error", ["dstream.hcl:1: this", "dstream.hcl:2: that"])
    assert world.taken == []


def test_what_comes_after_an_edit_that_cannot_be_used_is_taken_up(world: World) -> None:
    with capture_logs() as logs:
        for text in ("broken", "broken", "one", "two"):
            world.path.write_text(text)
            world.look()
    assert world.taken == ["one", "two"]
    assert [entry["event"] for entry in logs if entry["log_level"] == "info"] == [USABLE_AGAIN]
    assert logs[0]["hint"]


def test_a_file_that_is_gone_for_a_moment_is_passed_over_and_one_that_stays_away_is_told(world: World) -> None:
    with capture_logs() as logs:
        world.path.unlink()
        world.look(1)
        world.path.write_text("one")
        world.look()
        assert logs == []
        world.path.unlink()
        world.look(5)
    assert [entry["problems"] for entry in logs] == [["no file"]]


def test_an_edit_between_the_start_and_the_first_look_is_not_missed(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.watched.load() == "one"
    world.path.write_text("two")
    world.look()
    assert world.taken == ["two"]


def test_the_thread_looks_until_it_is_left_and_a_defect_does_not_end_it(tmp_path: Path) -> None:
    path = tmp_path / "dstream.hcl"
    path.write_text("one")
    taken, both = list[str](), threading.Event()

    def take(text: str) -> None:
        taken.append(text)
        if text == "two":
            path.write_text("three")
            raise ValueError("a defect")
        both.set()

    with capture_logs() as logs, Watched(path, path.read_text, seconds=0.01)(take):
        path.write_text("two")
        assert both.wait(30)
    assert taken == ["two", "three"]
    assert [(entry["event"], entry["of"]) for entry in logs] == [("periodic check failed", "configuration")]
    assert "configuration" not in [thread.name for thread in threading.enumerate()]


class Asked:
    """A Latest of the world's file, whose clock goes on by the seconds between two looks with each question."""

    def __init__(self, world: World) -> None:
        self.loads: list[str] = []
        self.now = 0.0

        def load() -> str:
            self.loads.append(world.load())
            return self.loads[-1]

        self._latest = Latest(world.path, load, seconds=2.0, clock=lambda: self.now)

    def __call__(self, later: float = 2.0) -> str:
        self.now += later
        return self._latest()


def test_the_latest_is_loaded_when_two_looks_have_found_it_and_not_again(world: World) -> None:
    asked = Asked(world)
    assert [asked(), asked()] == ["one", "one"]
    world.path.write_text("two")
    with pytest.raises(TransientError, match="being changed"):
        asked()
    assert [asked(), asked()] == ["two", "two"]
    assert asked.loads == ["one", "two"]


def test_half_a_file_is_no_answer_of_the_latest_and_neither_is_one_that_is_gone_for_a_moment(world: World) -> None:
    asked = Asked(world)
    with capture_logs() as logs:
        for text in ("broken", None, "two"):
            world.path.unlink() if text is None else world.path.write_text(text)
            with pytest.raises(TransientError):
                asked()
            with pytest.raises(TransientError):
                asked(later=0.1)  # too soon for another look
        assert asked() == "two"
    assert logs == []


def test_a_latest_that_cannot_be_used_is_told_once_and_taken_up_when_it_is_mended(world: World) -> None:
    asked = Asked(world)
    world.path.write_text("broken")
    with pytest.raises(TransientError):
        asked()
    with capture_logs() as logs:
        for _ in range(5):
            with pytest.raises(ConfigurationError):
                asked()
    [entry] = logs
    assert (entry["log_level"], entry["problems"]) == ("error", ["dstream.hcl:1: this", "dstream.hcl:2: that"])
    world.path.unlink()
    with pytest.raises(TransientError):
        asked()
    with pytest.raises(ConfigurationError, match="no file"):
        asked()
    world.path.write_text("one")
    with pytest.raises(TransientError):
        asked()
    with capture_logs() as logs:
        assert [asked(), asked()] == ["one", "one"]
    assert [entry["event"] for entry in logs] == [USABLE_AGAIN]


def test_what_the_file_says_at_the_start_counts_as_one_look(world: World) -> None:
    asked = Asked(world)
    assert asked(later=0.0) == "one"


def test_another_process_can_be_given_the_latest(tmp_path: Path) -> None:
    path = tmp_path / "dstream.hcl"
    path.write_text("one")
    given = pickle.loads(pickle.dumps(Latest(path, path.read_text)))
    assert given() == "one"


def test_beside_a_watch_the_latest_says_nothing_in_any_process(tmp_path: Path) -> None:
    path = tmp_path / "dstream.hcl"
    path.write_text("one")

    latest = Latest(path, partial(_unusable, path), tells=False)
    for given in (latest, pickle.loads(pickle.dumps(latest))):
        with capture_logs() as logs, pytest.raises(ConfigurationError):
            given()
        assert logs == []


def _unusable(path: Path) -> str:
    raise ConfigurationError([f"{path}: this"])


def test_the_present_configuration_is_found_through_a_configmaps_links(tmp_path: Path) -> None:
    """As the kubelet does it: a new folder with a date, `..data` renamed over, and then the old folder removed."""
    for name in ("one", "two"):
        (tmp_path / f"..{name}").mkdir()
        (tmp_path / f"..{name}" / "dstream.hcl").write_text(name)
    (tmp_path / "..data").symlink_to("..one")
    path = tmp_path / "dstream.hcl"
    path.symlink_to("..data/dstream.hcl")
    now = [0.0]
    latest = Latest(path, path.read_text, seconds=2, clock=lambda: now[0])
    assert latest() == "one"
    (tmp_path / "..data_tmp").symlink_to("..two")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    (tmp_path / "..one" / "dstream.hcl").unlink()
    (tmp_path / "..one").rmdir()
    now[0] = 2.0
    with pytest.raises(TransientError, match="being changed"):
        latest()
    now[0] = 4.0
    assert latest() == "two"
