"""Which archive of classes a JVM is given: one that fits, and that nobody else can have written."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from common.check import Outcome
from ingester.spark.kept import archive, beside, causes
from ingester.spark.kept.check import findings


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "kind"
    made.mkdir(mode=0o755)
    (made / archive.CLASSES).write_bytes(b"classes")
    (made / archive.CLASSES).chmod(0o444)
    return tmp_path


def found(place: Path) -> Path | None:
    return archive.found("kind", {archive.VARIABLE: str(place)})


def test_an_archive_of_ours_is_used_with_its_checksums_compared(place: Path) -> None:
    assert found(place) == place / "kind"
    assert archive.use(place / "kind") == [
        "-Xshare:auto",
        f"-XX:SharedArchiveFile={place}/kind/classes.jsa",
        "-XX:+VerifySharedSpaces",
        archive.QUIET,
    ]


def test_a_java_without_an_archive_of_its_own_classes_gets_both(place: Path) -> None:
    (place / "kind" / archive.BASE).write_bytes(b"base")
    assert f"-XX:SharedArchiveFile={place}/kind/base.jsa:{place}/kind/classes.jsa" in archive.use(place / "kind")


@pytest.mark.parametrize("part", ["kind", f"kind/{archive.CLASSES}"])
def test_what_others_can_write_is_not_used(place: Path, part: str) -> None:
    (place / part).chmod(0o777)
    assert found(place) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_what_another_user_made_is_not_used(place: Path) -> None:
    os.chown(place / "kind", 12345, 0)
    assert found(place) is None


def test_a_link_is_not_followed(place: Path) -> None:
    (place / "kind").rename(place / "other")
    (place / "kind").symlink_to(place / "other")
    (place / "kind" / archive.CLASSES).chmod(0o444)
    link_to_writable = place / "other"
    link_to_writable.chmod(0o777)
    assert found(place) is None


def test_nothing_is_found_where_archives_are_off_or_there_is_no_home(place: Path) -> None:
    assert archive.folders({archive.VARIABLE: "off", "HOME": "/home/me"}) == []
    assert archive.folders({archive.VARIABLE: ""}) == []
    assert len(archive.folders({})) == 1
    assert archive.folders({"HOME": "/home/me"})[-1] == Path("/home/me/.cache/dstream/jvm")
    assert archive.folders({"HOME": "/home/me", "XDG_CACHE_HOME": "/cache"})[-1] == Path("/cache/dstream/jvm")


@pytest.mark.parametrize("value", ["OFF", "Off", "false", "0", "no"])
def test_off_is_also_said_otherwise(value: str) -> None:
    variables = {archive.VARIABLE: value, "HOME": "/home/me"}
    assert (archive.folders(variables), archive.refused(variables)) == ([], None)


def test_a_relative_path_is_refused() -> None:
    variables = {archive.VARIABLE: "cache/jvm", "HOME": "/home/me"}
    assert archive.folders(variables) == []
    assert archive.refused(variables) == "DSTREAM_JVM_ARCHIVE must be an absolute path or off, not 'cache/jvm'"
    assert archive.refused({archive.VARIABLE: "/cache/jvm"}) is None
    assert archive.refused({}) is None


def said(variables: dict[str, str], *, direct: bool = True, kind: str | None = "kind") -> tuple[Outcome, str]:
    (finding,) = findings(variables, direct=direct, kind=kind)
    return finding.outcome, finding.text


def test_a_check_says_whether_there_is_one_or_one_can_be_made(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {archive.VARIABLE: str(place)}
    assert said(here) == (Outcome.OK, f"a start uses the one in {place}")
    another = f"that in {place} is of another Java or Spark; an ingester makes one in {place} after 30 seconds"
    assert said(here, kind="another") == (Outcome.OK, another)
    assert said(here, kind=None)[1].startswith("none: Spark is started by its own launcher"), "jars in a folder"
    assert "its own launcher" in said(here, direct=False)[1]
    there = place / "new" / "jvm"
    assert said({archive.VARIABLE: str(there)}) == (
        Outcome.OK,
        f"none yet; an ingester makes one in {there} after 30 seconds",
    )
    assert said({archive.VARIABLE: "off"}) == (Outcome.OK, "turned off by DSTREAM_JVM_ARCHIVE")
    assert said({archive.VARIABLE: "jvm"})[0] is Outcome.WARN
    monkeypatch.setattr(causes, "NEEDED", 1 << 60)
    outcome, text = said({archive.VARIABLE: str(there)})
    assert (outcome, "less than 200 MB" in text) == (Outcome.WARN, True)
    place.chmod(0o777)
    outcome, text = said(here)
    assert (outcome, "others could exchange" in text) == (Outcome.WARN, True)


def test_every_status_has_a_sentence() -> None:
    for status in (-9, 1, 77, *causes.Cause):
        assert causes.told(status, Path("/cache"))


def test_another_java_or_other_jars_ask_for_another_archive(tmp_path: Path) -> None:
    java, jar = tmp_path / "java", tmp_path / "a.jar"
    java.write_text("one")
    jar.write_text("one")
    options = ["-cp", str(jar), "-Xmx512m", "-XX:+UseSerialGC", "-Dlog4j2.configurationFile=file:/tmp/1"]
    first = archive.key(java, options)
    assert archive.key(java, [*options, "-Xms48m", "-Xmn24m"]) == first
    assert archive.key(java, [*options[:2], "-Xmx2g", options[3], "-Dlog4j2.configurationFile=file:/tmp/2"]) == first
    assert archive.key(java, [*options, "-Djava.io.tmpdir=/elsewhere"]) == first
    assert archive.key(java, [*options, "-XX:+UseG1GC"]) != first
    jar.write_text("another")
    assert archive.key(java, options) != first
    jar.write_text("one")
    os.utime(jar, (1, 1))
    assert archive.key(java, options) != first


def test_a_folder_that_others_can_write_holds_nothing_that_is_used(place: Path) -> None:
    place.chmod(0o777)
    assert found(place) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_holds_nothing_that_is_used(place: Path) -> None:
    os.chown(place, 12345, 0)
    assert found(place) is None


def test_a_folder_that_others_can_exchange_holds_nothing_that_is_used(place: Path) -> None:
    inner = place / "inner"
    inner.mkdir(mode=0o755)
    (place / "kind").rename(inner / "kind")
    assert found(inner) == inner / "kind"
    place.chmod(0o777)
    assert found(inner) is None
    place.chmod(0o1777)
    assert found(inner) == inner / "kind"


def test_a_java_that_was_upgraded_in_place_asks_for_another_archive(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("a script")
    (tmp_path / "release").write_text("21.0.1")
    first = archive.key(java, [])
    (tmp_path / "release").write_text("21.0.10")
    assert archive.key(java, []) != first


def test_whether_java_uses_an_archive_is_seen_in_what_it_has_mapped(place: Path, tmp_path: Path) -> None:
    maps = tmp_path / "7" / "maps"
    maps.parent.mkdir()
    maps.write_text(f"8000-9000 rw-p 0 0:1 5   {place}/kind/{archive.CLASSES}\n")
    assert archive.mapped(place / "kind", 7, tmp_path) is True
    maps.write_text("8000-9000 rw-p 0 0:1 5   /lib/libjvm.so\n")
    assert archive.mapped(place / "kind", 7, tmp_path) is False
    assert archive.mapped(place / "kind", 8, tmp_path) is None


@pytest.mark.parametrize(
    ("cause", "event"),
    [
        (causes.Cause.ANOTHER, "another process makes the archive of Spark's classes; a later start uses it"),
        (causes.Cause.JAVA, "no archive of Spark's classes was made; the next start takes as long as this one"),
    ],
)
def test_one_that_another_process_makes_is_not_told_as_missing(
    cause: causes.Cause, event: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(beside, "command", lambda: [sys.executable, "-c", f"raise SystemExit({int(cause)})"])
    with capture_logs() as logs:
        beside._made(tmp_path, "kind", threading.Event())
    [line] = logs
    assert line["event"] == event
