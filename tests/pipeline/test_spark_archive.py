"""The process that makes an archive of classes beside an ingester: it takes nothing foreign, and leaves nothing when the ingester ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ingester.spark.kept import archive, beside, causes

_LOWEST = ["nice", "-n", "19"]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, archive.VARIABLE: str(folder / "jvm"), "TMPDIR": str(folder)}


def jvms(folder: Path) -> list[str]:
    """Processes that were started with this folder, and run Java."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            ours = entry.name.isdigit() and f"TMPDIR={folder}\0".encode() in (entry / "environ").read_bytes()
            if ours and b"SparkSubmit" in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def unhindered() -> list[str]:
    """At the priority of the tests: at the lowest, the JVM may take minutes to start beside other work."""
    command = beside.command()
    assert command[: len(_LOWEST)] == _LOWEST
    return command[len(_LOWEST) :]


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_no_module_is_taken_from_where_the_ingester_was_started(tmp_path: Path) -> None:
    (tmp_path / "structlog.py").write_text("open('ran', 'w')")
    variables = {**os.environ, archive.VARIABLE: archive.OFF}
    with subprocess.Popen(
        unhindered(), cwd=tmp_path, env=variables, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ran:
        assert ran.stderr is not None
        said = ran.stderr.read()
    assert "no archive is made" in said
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("by", ["its input", "a service manager"])
def test_nothing_is_left_of_it_when_the_ingester_ends(by: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        unhindered(), env=environment(tmp_path), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0
    ) as process:
        until(lambda: jvms(tmp_path))
        until(lambda: not list(tmp_path.glob("dstream-spark-*/spark.properties")))  # it is connected to
        [jvm] = jvms(tmp_path)
        assert Path("/proc", jvm, "oom_score_adj").read_text() == "1000\n"
        if by == "its input":
            assert process.stdin is not None
            process.stdin.close()
        else:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
        until(lambda: not jvms(tmp_path))
    assert [path.name for path in (tmp_path / "jvm").iterdir()] == ["lock"]
    assert not list(tmp_path.glob("dstream-spark-*"))


def test_one_that_does_not_end_is_killed_with_its_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the lowest priority it may take long until it even sees its end."""
    place = tmp_path / "jvm"
    place.mkdir()
    script = f"sleep 600 & echo $! > {tmp_path}/pid; mkdir {place}/making-$$-x; exec sleep 600"
    monkeypatch.setattr(beside, "command", lambda: ["bash", "-c", script])
    monkeypatch.setattr(beside, "_AFTER_SECONDS", 0.0)
    closing = threading.Event()
    thread = threading.Thread(target=beside._make_beside, args=(place, "kind", None, closing))
    thread.start()
    until(lambda: list(place.glob("making-*")))
    child = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    closing.set()
    thread.join(60)
    assert not thread.is_alive()
    until(lambda: not _runs(child))
    assert list(place.iterdir()) == []


def _runs(stat: Path) -> bool:
    """By its file in /proc."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_comes_to_nothing_is_tried_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "command", lambda: ["false"])
    monkeypatch.setattr(beside, "room", lambda: 1 << 40)
    monkeypatch.setattr(beside, "_AFTER_SECONDS", 0.0)
    with capture_logs() as logs:
        for _ in range(4):
            beside._make_beside(tmp_path, "kind", None, threading.Event())
    assert {line["log_level"] for line in logs} == {"info"}
    assert ["Spark did not start" in line["cause"] for line in logs] == [True, True, True, False]
    assert "three attempts" in logs[-1]["cause"]
    assert not beside.wanted(tmp_path, "kind", None)
    assert beside.wanted(tmp_path, "another", None)
    yesterday = time.time() - 2 * 86400
    os.utime(tmp_path / "kind.attempts", (yesterday, yesterday))
    assert beside.wanted(tmp_path, "kind", None)


def test_one_that_was_made_is_told_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "command", lambda: ["true"])
    monkeypatch.setattr(beside, "room", lambda: 1 << 40)
    monkeypatch.setattr(beside, "_AFTER_SECONDS", 0.0)
    with capture_logs() as logs:
        beside._make_beside(tmp_path, "kind", None, threading.Event())
    (line,) = logs
    assert (line["event"], line["folder"]) == (
        "an archive of Spark's classes was made for the next start",
        str(tmp_path),
    )


def _training(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ingester.spark.training", *arguments]
    given = {**os.environ, **variables, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, cwd=cwd, env=given, capture_output=True, text=True, timeout=120, check=False)


def test_the_program_explains_itself_and_makes_no_folder_of_an_option(tmp_path: Path) -> None:
    helped = _training("--help", cwd=tmp_path)
    assert (helped.returncode, "absolute" in helped.stdout or "FOLDER" in helped.stdout) == (0, True)
    wrong = _training("jvm", cwd=tmp_path)
    assert (wrong.returncode, "absolute path" in wrong.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_the_program_fails_where_it_makes_nothing_and_says_why(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    unsafe = _training(str(open_to_all), cwd=tmp_path)
    assert unsafe.returncode == causes.Cause.UNSAFE
    assert "no archive was made: others could exchange" in unsafe.stderr
    relative = _training(cwd=tmp_path, **{archive.VARIABLE: "OFF/jvm"})
    assert (relative.returncode, "absolute path" in relative.stderr) == (1, True)
    (tmp_path / "file").touch()
    no_folder = _training(str(tmp_path / "file"), cwd=tmp_path)
    assert (no_folder.returncode, "cannot be written to" in no_folder.stderr) == (causes.Cause.NOT_WRITABLE, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "open"]


def test_an_archive_of_no_use_is_removed_before_another_one_is_made(tmp_path: Path) -> None:
    useless = tmp_path / "kind"
    useless.mkdir()
    assert beside.wanted(tmp_path, "kind", useless)
    assert not useless.exists()


def test_none_is_made_where_others_could_exchange_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert not beside.wanted(tmp_path, "kind", None)
