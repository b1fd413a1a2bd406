"""Which Java is taken, and that another one than JAVA_HOME names is not taken without a word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

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
