"""What a person sees: one clear line a problem on stderr, the exit status of the contract, and never a traceback for a mistake."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import structlog
import typer

from common.check import Finding, Outcome
from common.errors import ConfigurationError, PermanentError
from common.observability import logs as telemetry
from dstream import cli
from dstream.grouping import GROUPS
from tests.unit.dstream.test_config import ENVIRON, GOLDEN, ROOT, SECRET

STOP = threading.Event()
AHEAD = types.SimpleNamespace(close=lambda: None)
"""In the place of the ingester's JVM."""
STAGE = types.SimpleNamespace(
    launched=lambda settings: AHEAD,
    forked_place=lambda settings, ahead: None,
    run=lambda settings, stop, **later: 0,
)
"""In the place of each module of a stage."""


@pytest.fixture(autouse=True)
def logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(telemetry, "_secrets", set())
    for name in ("DSTREAM_LOG_LEVEL", "DSTREAM_LOG_FORMAT", "DSTREAM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("dstream.signals.stop_on_signals", lambda **_: STOP)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process: (exit status, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dstream", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, out, err

    return call


@pytest.fixture
def existing(monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    return str(GOLDEN / "existing.hcl")


def stand_in(monkeypatch: pytest.MonkeyPatch, module: str, run: Callable[..., Any]) -> None:
    """Put a module with this `run` where the command looks for its stage."""
    made = types.ModuleType(module)
    made.__dict__["run"] = run
    monkeypatch.setitem(sys.modules, module, made)
    if module == "ingester.app":
        made.__dict__["forked_place"] = lambda settings, ahead: None
        monkeypatch.setattr("ingester.spark.launched.launched", lambda settings: AHEAD)


def test_help_lists_the_commands_on_a_screen(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    assert len(out.splitlines()) < 41
    for command in ("ingester", "router", "server", "provider", "check", "status", "offsets", "demo", "emulators"):
        assert f"\n  {command} " in out


@pytest.mark.parametrize("command", ["ingester", "router", "server", "check", "demo", "emulators"])
def test_every_command_takes_the_common_options(run: Run, command: str) -> None:
    status, out, _ = run(command, "--help")
    assert status == 0
    for option in ("-c, --config", "--log-level", "DSTREAM_LOG_LEVEL", "--log-format", "text|json", "default: info"):
        assert option in " ".join(out.split())


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e308", "86401", "often"])
def test_a_pause_that_no_clock_can_wait_is_refused(run: Run, seconds: str) -> None:
    status, _, err = run("status", "--watch", f"--every={seconds}", "--config", "missing.hcl")
    assert (status, "--every" in err) == (2, True)


def test_a_command_of_two_words_is_typed_with_a_hyphen() -> None:
    def two_words() -> int:
        return 0

    assert cli.named(two_words) == "two-words"


def test_h_is_help_everywhere(run: Run) -> None:
    assert run("-h") == run("--help")
    assert run("check", "-h") == run("check", "--help")


def test_a_shell_can_complete_the_commands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_DSTREAM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "dstream in")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run()[1].split() == ["ingester"]


def test_the_environment_names_the_file_and_the_format(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSTREAM_CONFIG", existing)
    monkeypatch.setenv("DSTREAM_LOG_FORMAT", "json")
    stand_in(monkeypatch, "router.app", lambda *_, **__: 0)
    assert run("router")[0] == 0
    assert telemetry.logging_as_configured()[1] == "json"
    assert run("router", "-c", "nope.hcl", "--log-format", "text")[0] == 2
    assert telemetry.logging_as_configured()[1] == "text"


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"dstream {metadata.version('dstream-cdc')}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bogus"],
        ["check", "--stage", "third"],
        ["ingester", "--bogus"],
        ["ingester", "--log-level", "loud"],
        ["router", "--log-format", "xml"],
    ],
)
def test_bad_usage_is_2_without_a_traceback(run: Run, arguments: list[str]) -> None:
    status, _, err = run(*arguments)
    assert status == 2
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["check", "status", "doctor"])
@pytest.mark.parametrize(("stage", "other"), [("ingester", "ROUTER"), ("router", "INGEST")])
def test_where_one_stages_secrets_are_set_the_refusal_names_the_option_for_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, stage: str, other: str
) -> None:
    file = tmp_path / "dstream.hcl"
    file.write_bytes((ROOT / "deploy" / "kubernetes" / "base" / "dstream.hcl").read_bytes())
    bus = "Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=k"
    here = {
        "ingester": {
            "DSTREAM_DB_CONNECTION_STRING": "sqlserver://u:p@h:1433?database=shop",
            "DSTREAM_INGEST_CONNECTION_STRING": bus,
        },
        "router": {"DSTREAM_ROUTER_CONNECTION_STRING": bus},
    }
    for name, value in here[stage].items():
        monkeypatch.setenv(name, value)
    status, out, err = run(command, "-c", str(file))
    assert (status, out) == (2, "")
    assert f"environment variable DSTREAM_{other}_CONNECTION_STRING is not set" in err
    assert f"hint: --stage {stage}: for that stage everything is set here" in err
    for name in here[stage]:
        monkeypatch.delenv(name)
    assert "hint:" not in run(command, "-c", str(file))[2]


@pytest.mark.parametrize("option", ["--sqlserver-port", "--bus-port", "--management-port"])
def test_the_ports_of_the_emulators_are_chosen(run: Run, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    chosen: list[object] = []

    def ran(*, ports: object, **_: object) -> int:
        chosen.append(ports)
        return 0

    monkeypatch.setattr("dstream.emulators.run", ran)
    assert run("emulators", option, "99999")[0] == 2
    assert run("emulators", option, "4321")[0] == 0
    assert "4321" in repr(chosen)
    assert len([port for port in ("1433", "5672", "5300") if port in repr(chosen)]) == 2


def test_a_bad_level_in_the_environment_is_bad_usage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSTREAM_LOG_LEVEL", "loud")
    assert run("ingester")[0] == 2


@pytest.mark.parametrize("level", ["INFO", "Warning", "debug"])
def test_levels_and_formats_are_read_in_any_case(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.setenv("DSTREAM_LOG_LEVEL", level)
    stand_in(monkeypatch, "router.app", lambda *_, **__: 0)
    assert run("router", "-c", existing, "--log-format", "JSON")[0] == 0
    assert telemetry.logging_as_configured() == (level.lower(), "json")


@pytest.mark.parametrize("command", ["ingester", "router", "server", "check"])
def test_a_bad_configuration_is_2_with_one_line_a_problem(run: Run, command: str) -> None:
    status, out, err = run(command, "--config", str(GOLDEN / "broken.hcl"))
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) > 20
    assert all(line.startswith(f"dstream: {GOLDEN}/broken.hcl:") for line in lines)


def test_a_missing_file_is_2_and_says_how_to_name_another(run: Run, tmp_path: Path) -> None:
    status, _, err = run("router", "-c", str(tmp_path / "nope.hcl"))
    assert status == 2
    assert err.splitlines() == [
        f"dstream: {tmp_path}/nope.hcl: reading the configuration: No such file or directory",
        "dstream: hint: name the file with --config or DSTREAM_CONFIG",
    ]


@pytest.mark.parametrize(("command", "module"), [("ingester", "ingester.app"), ("router", "router.app")])
@pytest.mark.parametrize("status", [0, 1])
def test_a_stage_gets_its_settings_and_its_status_is_the_exit_status(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch, command: str, module: str, status: int
) -> None:
    seen: list[tuple[Any, ...]] = []

    def stage(settings: Any, stop: Any, **later: Any) -> int:
        seen.append((type(settings).__module__, stop))
        return status

    stand_in(monkeypatch, module, stage)
    assert run(command, "-c", existing)[0] == status
    assert seen == [(f"{command}.settings", STOP)]


@pytest.mark.parametrize(
    ("command", "module", "reached"),
    [
        (
            "ingester",
            "ingester.app",
            {
                "server": "SQL01.corp",
                "database": "TestDB",
                "queue": "ingest-queue",
                "namespace": "x",
                "spark": "local[8]",
            },
        ),
        ("router", "router.app", {"queue": "ingest-queue", "source": "x", "output": "x"}),
    ],
)
def test_a_stage_says_at_once_that_it_starts_and_what_it_waits_for_and_may_be_stopped_from_then_on(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch, command: str, module: str, reached: dict[str, str]
) -> None:
    """Its import takes seconds: the line comes before it, and a signal meanwhile is a clean stop."""
    order: list[str] = []

    def importing(name: str) -> Any:
        order.append("import")
        return STAGE

    monkeypatch.setattr("dstream.signals.stop_on_signals", lambda **_: order.append("signals") or STOP)  # type: ignore[func-returns-value]
    monkeypatch.setattr("desk.importing.import_module", importing)
    status, _, err = run(command, "-c", existing, "--log-format", "json")
    assert (status, order[:2], set(order[2:]) <= {"import"}) == (0, ["signals", "import"], True)
    line = json.loads(err.splitlines()[0])
    assert line["message"] == f"{command} starting"
    assert line["version"] == metadata.version("dstream-cdc")
    assert line["configuration"] == existing
    assert {name: line[name] for name in reached} == reached
    assert SECRET not in err


def test_an_ingester_has_one_thread_until_it_was_forked_and_its_stop_has_an_end_from_then_on(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with a second thread cannot be forked, and then no changes are read before Spark has started."""
    before, more = set(threading.enumerate()), []

    def look(*given: Any, **named: Any) -> int:
        more.append({thread.name for thread in set(threading.enumerate()) - before})
        return 0

    def launched(settings: Any) -> Any:
        look()
        return AHEAD

    stage = types.SimpleNamespace(launched=launched, forked_place=look, run=look)
    monkeypatch.setattr("desk.importing.import_module", lambda name: stage)
    assert run("ingester", "-c", existing)[0] == 0
    assert more == [set(), set(), {"last-resort"}]


@pytest.mark.parametrize("fails", ["forked_place", "run"])
def test_the_jvm_ends_also_where_the_ingester_fails_before_it_is_of_use(
    fails: str, run: Run, existing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A health port that is in use, for example."""
    ended: list[str] = []

    def fail(*given: Any, **named: Any) -> int:
        raise PermanentError("no port")

    ahead = types.SimpleNamespace(close=lambda: ended.append("the JVM"))
    stage = types.SimpleNamespace(**{**vars(STAGE), "launched": lambda settings: ahead, fails: fail})
    monkeypatch.setattr("desk.importing.import_module", lambda name: stage)
    assert run("ingester", "-c", existing)[0] == 1
    assert ended == ["the JVM"]


def test_a_setting_under_its_older_name_is_logged_once_with_its_line_and_the_present_name(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "older.hcl"
    text = Path(existing).read_text(encoding="utf-8")
    path.write_text(text.replace("publisher {", "publisher {\n  sessions = 3", 1), encoding="utf-8")
    monkeypatch.setattr("dstream.signals.stop_on_signals", lambda **_: STOP)
    monkeypatch.setattr("desk.importing.import_module", lambda name: STAGE)
    for command in ("ingester", "router"):
        status, _, err = run(command, "-c", str(path), "--log-format", "json")
        told = [line for line in map(json.loads, err.splitlines()) if line["message"] == "setting has a new name"]
        assert status == 0
        expected = [("publisher.sessions", path.read_text(encoding="utf-8").splitlines().index("  sessions = 3") + 1)]
        assert [(line["setting"], line["line"]) for line in told] == (expected if command == "router" else [])
        assert all(line["hint"] == "write publisher.slots" for line in told)


@pytest.mark.parametrize(
    ("error", "status", "lines"),
    [
        (
            PermanentError("reading x: denied", hint="grant it"),
            1,
            ["dstream: reading x: denied", "dstream: hint: grant it"],
        ),
        (ConfigurationError(["one", "two"]), 2, ["dstream: one", "dstream: two"]),
        (KeyboardInterrupt(), 130, []),
    ],
)
def test_a_failing_stage_is_told_in_lines(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, lines: list[str]
) -> None:
    def stage(settings: Any, stop: Any, **later: Any) -> int:
        raise error

    stand_in(monkeypatch, "router.app", stage)
    got, out, err = run("router", "-c", existing)
    assert (got, out, err.splitlines()[1:]) == (status, "", lines)


@pytest.mark.parametrize("level", ["debug", "error"])
def test_an_unexpected_error_is_one_line_of_the_log_with_its_traceback_and_secrets_masked(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    def stage(settings: Any, stop: Any, **later: Any) -> int:
        raise ValueError(f"login with {settings.source.connection_string.get_secret_value()}")

    stand_in(monkeypatch, "router.app", stage)
    status, out, err = run("router", "-c", existing, "--log-level", level, "--log-format", "json")
    assert (status, out) == (1, "")
    told = json.loads(err.splitlines()[-1])
    assert (told["level"], told["message"], told["kind"]) == ("error", "unexpected error", "ValueError")
    assert "in stage" in told["exception"]
    assert told["exception"].endswith("ValueError: login with ***")
    assert SECRET not in err


def test_an_unexpected_error_is_told_in_text_as_well(run: Run, existing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stage(settings: Any, stop: Any, **later: Any) -> int:
        raise ValueError(SECRET)

    stand_in(monkeypatch, "router.app", stage)
    status, _, err = run("router", "-c", existing)
    assert (status, err.count("Traceback"), SECRET in err) == (1, 1, False)
    assert "unexpected error" in err.splitlines()[1]


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")

    monkeypatch.setattr("desk.importing.import_module", missing)
    status, _, err = run("ingester", "-c", existing)
    assert status == 2
    assert "package pyspark is not installed" in err
    assert "dstream-cdc[ingester]" in err


@pytest.mark.parametrize(
    ("stage", "found", "status", "asked"),
    [
        ("both", {"ingester": "fail", "router": "ok"}, 1, ["ingester.settings", "router.settings"]),
        ("both", {"ingester": "ok", "router": "warn"}, 0, ["ingester.settings", "router.settings"]),
        ("ingester", {"ingester": "ok", "router": "fail"}, 0, ["ingester.settings"]),
        ("router", {"ingester": "ok", "router": "fail"}, 1, ["router.settings"]),
    ],
)
def test_a_check_is_a_line_a_finding_and_fails_with_the_worst(
    run: Run,
    existing: str,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    found: dict[str, str],
    status: int,
    asked: list[str],
) -> None:
    seen: list[str] = []

    def findings(outcome: str, settings: Any) -> list[Finding]:
        seen.append(type(settings).__module__)
        return [Finding(Outcome(outcome), "thing", f"with {SECRET}", "fix\nit")]

    for name, outcome in found.items():
        made = types.ModuleType(f"{name}.check")
        made.__dict__["findings"] = partial(findings, outcome)
        monkeypatch.setitem(sys.modules, f"{name}.check", made)
    got, out, _ = run("check", "-c", existing, "--stage", stage)
    assert (got, seen) == (status, asked)
    older = [line for line in out.splitlines() if line.startswith("warn  publisher: line 27: ")]
    assert len(older) == (stage != "ingester")
    others = [line for line in out.splitlines() if line not in older]
    assert len(others) == len(asked)
    assert all(line.endswith("thing: with ***: fix it") for line in others)


@pytest.mark.parametrize(("outcome", "usual", "strict"), [("ok", 0, 0), ("warn", 0, 1), ("fail", 1, 1)])
def test_strict_ends_with_1_for_a_warning_too(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: str, usual: int, strict: int
) -> None:
    config = tmp_path / "present.hcl"  # without the older name of the block, which is a warning of its own
    config.write_text(Path(existing).read_text(encoding="utf-8").replace("publisher {", "router {"), encoding="utf-8")
    made = types.ModuleType("router.check")
    made.__dict__["findings"] = lambda settings: [Finding(Outcome(outcome), "thing", f"with {SECRET}", "fix\nit")]
    monkeypatch.setitem(sys.modules, "router.check", made)
    arguments = ["check", "-c", str(config), "--stage", "router"]
    assert (run(*arguments)[0], run(*arguments, "--strict")[0]) == (usual, strict)
    status, out, _ = run(*arguments, "--json")
    finding = {"stage": "router", "outcome": outcome, "subject": "thing", "text": "with ***", "remedy": "fix it"}
    assert (status, json.loads(out)) == (usual, {"outcome": outcome, "findings": [finding]})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_result_that_cannot_be_written_is_one_line(more: tuple[str, ...]) -> None:
    program = f"""
import sys
from common.check import Finding, Outcome
from common.errors import PermanentError
from dstream.commands.check import report
try:
    report([("router", [Finding(Outcome.OK, "topic", "there", None)])], as_json={bool(more)})
except PermanentError as error:
    sys.exit(error.message)
"""
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, cwd=ROOT
        )
    assert ran.stderr == "writing the result to standard output: No space left on device\n"
    assert ran.returncode == 1


def test_who_reads_no_further_gets_no_traceback() -> None:
    program = (
        "import sys; from common.check import Finding, Outcome; from dstream.commands.check import report; "
        "sys.exit(report([('router', (Finding(Outcome.OK, 'topic', 'x' * 999, None) for _ in range(9999)))]))"
    )
    shell = f'{sys.executable} -c "{program}" | head -1; exit ${{PIPESTATUS[0]}}'
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_the_last_words_are_json_where_all_others_are(run: Run, existing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> int:
        raise PermanentError("the queue is gone", hint="create it")

    made = types.ModuleType("router.app")
    made.__dict__["run"] = fails
    monkeypatch.setitem(sys.modules, "router.app", made)
    status, _, err = run("router", "-c", existing, "--log-format", "json")
    told = json.loads(err.splitlines()[-1])
    assert (status, told["level"], told["error"], told["hint"]) == (1, "error", "the queue is gone", "create it")


def test_the_demo_gets_its_choices(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def demo(**choices: Any) -> int:
        seen.append(choices)
        return 0

    stand_in(monkeypatch, "dstream.demo", demo)
    assert run("demo")[0] == 0
    assert run("demo", "--seconds", "5", "--changes", "100", "--keep")[0] == 0
    assert run("demo", "--output", "kafka", "--server", "localhost:9092")[0] == 0
    usual = {
        "stop": STOP,
        "seconds": 20.0,
        "changes": None,
        "keep": False,
        "attach": None,
        "output": None,
        "server": None,
    }
    assert seen == [
        usual,
        usual | {"seconds": 5.0, "changes": 100, "keep": True},
        usual | {"output": "kafka", "server": "localhost:9092"},
    ]


@pytest.mark.parametrize(
    "given", [("--attach", "--keep"), ("--attach", "--output", "kafka"), ("--server", "localhost")]
)
def test_choices_of_the_demo_that_contradict_each_other_are_refused(run: Run, given: tuple[str, ...]) -> None:
    status, _, err = run("demo", *given)
    assert (status, "has no meaning" in err) == (2, True)


def test_the_demo_attaches_to_what_the_configuration_names(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def demo(*, attach: object, **choices: Any) -> int:
        seen.append(attach)
        return 0

    stand_in(monkeypatch, "dstream.demo", demo)
    assert run("demo", "--attach", "-c", existing)[0] == 0
    assert seen == [Path(existing).absolute()]
    status, _, err = run("demo", "--attach", "--keep", "-c", existing)
    assert (status, "--keep has no meaning with --attach" in err) == (2, True)


def test_the_server_runs_both_stages_with_its_own_options(
    run: Run, existing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def served(arguments: list[str]) -> int:
        seen.append(arguments)
        return 1

    monkeypatch.setattr("dstream.commands.server.served", served)
    assert run("server", "-c", existing, "--log-format", "json")[0] == 1
    assert seen == [["--config", existing, "--log-level", "info", "--log-format", "json"]]


def test_help_imports_no_stage_and_no_spark() -> None:
    code = (
        "import sys\nsys.argv = ['dstream', '--help']\nfrom dstream.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "heavy = {'pyspark', 'pymssql', 'azure', 'hcl2', 'ingester', 'router', 'emulators'} & set(sys.modules)\nsys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("server", "--log-level", "verbose"), "'verbose' is not one of 'debug', 'info', 'warning', 'error'."),
        (("emulators", "--bus-credits", "0"), "Invalid value for '--bus-credits': must be at least 1"),
        (("emulators", "--bus-port", "65536"), "Invalid value for '--bus-port': must be at most 65535"),
        (("emulators", "--bus-port", "x"), "Invalid value for '--bus-port': must be a whole number"),
        (("offsets", "moves", "--last", "0"), "Invalid value for '--last': must be at least 1"),
    ],
)
def test_a_wrong_option_is_told_in_plain_words(run: Run, arguments: tuple[str, ...], said: str) -> None:
    status, _, err = run(*arguments)
    assert status == 2
    assert said in " ".join(err.split())
    assert "Value error" not in err
    assert "Input should" not in err


def test_an_lsn_is_read_before_anything_is_asked(run: Run, existing: str) -> None:
    """The server of that file is not there."""
    status, _, err = run("offsets", "set", "Persons", "--lsn", "zz", "-c", existing)
    assert (status, "zz: not an LSN" in err) == (2, True)


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dstream", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "dstream")


def test_help_lists_each_command_in_one_group_and_cuts_no_sentence(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    assert "..." not in out.split("Options:")[1]
    names = [name for group in GROUPS.values() for name in group]
    assert sorted(names) == sorted(set(names))
    assert set(names) == set(typer.main.get_command(cli.app).commands)  # type: ignore[attr-defined]
    assert "\nCommands:" not in out
