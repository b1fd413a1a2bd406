"""Logs go to stderr in two forms, libraries' lines among them, and no registered secret passes."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator

import pytest
import structlog
from pydantic import SecretStr

from common.config.settings import UnsetSecret
from common.config.values import Unset
from common.observability import logs as telemetry
from common.observability.logs import LogFormat, LogLevel, configure_logging, masked, register_secret, register_secrets
from common.servicebus.settings import ServiceBusSettings
from common.sqladdress import SqlAddress

SECRET = 'hunt"er2\\ é'
FORMATS: list[LogFormat] = ["text", "json"]


@pytest.fixture(autouse=True)
def logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(telemetry, "_secrets", set())
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def test_json_lines_hold_message_level_logger_time_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    structlog.get_logger("ingester.driver.loop").info("lock taken", table="dbo.Persons", epoch=3)
    line = json.loads(capsys.readouterr().err)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "message": "lock taken",
        "level": "info",
        "logger": "ingester.driver.loop",
        "table": "dbo.Persons",
        "epoch": 3,
    }


@pytest.mark.parametrize("format", FORMATS)
def test_lines_that_nobody_reads_are_left_out_and_counted_and_hold_up_nobody(
    format: LogFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(telemetry, "_PATIENCE_SECONDS", 0.01)
    with os.fdopen(reader, "rb", buffering=0) as read, os.fdopen(writer, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        configure_logging("info", format, waits=False)
        log = structlog.get_logger("x")
        for _ in range(300):  # more than a pipe takes
            log.info("line", text="z" * 1_000)
        taken = read.read(1_000_000)
        log.info("again")
        after = read.read(1_000_000)
    known = taken.count(b"\n")
    assert 10 < known < 300
    left_out, again = after.splitlines()[-2:]
    assert f"{300 - known} log lines were left out: nobody read standard error".encode() in left_out
    assert b"again" in again


def test_text_lines_are_plain_and_hold_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    structlog.get_logger("x").warning("gap", table="dbo.Persons")
    line = capsys.readouterr().err
    assert "gap" in line
    assert "table=dbo.Persons" in line
    assert "warning" in line
    assert "\x1b" not in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("format", FORMATS)
def test_the_standard_librarys_loggers_write_the_same_lines(
    format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("info", format)
    logging.getLogger("somebody.else").info("hello %s", "you")
    assert "hello you" in capsys.readouterr().err


def test_the_level_holds_and_the_last_call_wins_without_doubling_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug", "text")
    configure_logging("warning", "json")
    structlog.get_logger("x").info("quiet")
    structlog.get_logger("x").warning("loud")
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == ["loud"]


@pytest.mark.parametrize(("level", "heard"), [("info", []), ("debug", ["fault"] * 3)])
def test_noisy_libraries_speak_of_faults_and_only_when_debugging(
    level: LogLevel, heard: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(level, "json")
    for name in ("azure.servicebus._pyamqp", "psycopg", "py4j.clientserver"):
        logging.getLogger(name).info("frame")
        logging.getLogger(name).warning("fault")
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == heard


def test_a_fact_that_is_not_there_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    structlog.get_logger("x").warning("broken", hint=None, table="t")
    told = capsys.readouterr().err
    assert "hint" not in told
    assert "table" in told


@pytest.mark.parametrize("format", FORMATS)
def test_a_registered_secret_is_masked_wherever_it_comes_from(
    format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("debug", format)
    register_secret(SECRET)
    log = structlog.get_logger("x")
    log.error(f"event {SECRET}", value=SECRET, nested={"a": [SECRET]})
    logging.getLogger("y").error("login with %s", SECRET)
    try:
        raise RuntimeError(f"cannot log in with {SECRET}")
    except RuntimeError:
        log.exception("failing")
    written = capsys.readouterr().err
    assert "hunt" not in written
    assert written.count(telemetry.MASK) >= 5
    assert "RuntimeError" in written


def test_the_key_inside_a_connection_string_is_a_secret_of_its_own() -> None:
    register_secret("Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=abcd1234=")
    register_secret("Server=h;Password=swordfish;Encrypt=yes")
    register_secret("http://corp:p%40ssword@proxy:3128")
    assert masked("login p%40ssword at proxy:3128") == "login *** at proxy:3128"
    assert masked("401 for abcd1234= and swordfish") == "401 for *** and ***"


def test_every_secret_inside_settings_is_found() -> None:
    address = SqlAddress.parse("Server=h;Database=d;UID=u;PWD=swordfish")
    bus = ServiceBusSettings.model_validate(
        {"connection_string": "Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=abcd1234"}
    )
    unset = UnsetSecret(Unset("X", "f.hcl", 1))
    register_secrets(({"a": [address]}, bus, unset, SecretStr("sesame"), None, 7))
    assert masked("swordfish abcd1234 sesame 7") == "*** *** *** 7"


def test_a_longer_secret_is_masked_before_a_part_of_it() -> None:
    register_secret("abcd")
    register_secret("abcdefgh")
    assert masked("abcdefgh abcd") == "*** ***"


def test_too_short_a_text_is_no_secret() -> None:
    register_secret("in")
    assert masked("in the line") == "in the line"
