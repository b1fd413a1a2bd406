"""`.ci/run`: the README's own commands, and the emulators' tests unless nothing that they test differs from the last green commit."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(".ci/run")
WITHOUT_EMULATORS = ["check", "test", "test-outputs", "test-desk", "manifests"]
ALL = [*WITHOUT_EMULATORS, "test-emulators"]
TRACKED = (
    "README.md",
    "docs/run.md",
    "emulators/server.py",
    "tests/emulators/test_server.py",
    "Makefile",
    "dstream/cli.py",
)


class Repository:
    """A scratch repository with the script, one commit, and a `make` that notes what it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self._bin = folder / "bin"
        self._asked = folder / "asked"
        for name in TRACKED:
            self.write(name, "as it was\n")
        self.write(str(SCRIPT), (ROOT / SCRIPT).read_text())
        (self.folder / SCRIPT).chmod(0o755)
        self._bin.mkdir()
        make = self._bin / "make"
        make.write_text(f'#!/bin/sh\necho "$@" >> {self._asked}\ntest "$1" != "${{FAILS:-}}"\n')
        make.chmod(0o755)
        self.git("init", "--quiet")
        self.first = self.commit()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("-c", "user.name=ci", "-c", "user.email=ci@localhost", "commit", "--quiet", "--message", "a commit")
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.folder, env=self._environment(), check=True, capture_output=True, text=True
        ).stdout

    def run(self, green: str | None, *, fails: str = "") -> tuple[int, list[str]]:
        """The script's status, and the targets that it had made, in order."""
        environment = (
            self._environment() | {"FAILS": fails} | ({} if green is None else {"DSTREAM_GREEN_COMMIT": green})
        )
        self._asked.unlink(missing_ok=True)
        ran = subprocess.run([self.folder / SCRIPT], env=environment, capture_output=True, check=False)
        return ran.returncode, self._asked.read_text().split("\n")[:-1]

    def _environment(self) -> dict[str, str]:
        """Of the machine, only its programs: no green commit, no settings of git, and no repository that a hook may have named."""
        return {"PATH": f"{self._bin}:{os.environ['PATH']}", "HOME": str(self._bin), "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize("green", [None, "", "0" * 40, "no such name", "HEAD^{tree}"])
def test_without_a_green_commit_that_git_knows_everything_runs(repository: Repository, green: str | None) -> None:
    assert repository.run(green) == (0, ALL)


def test_where_git_has_no_repository_everything_runs(repository: Repository) -> None:
    (repository.folder / ".git").rename(repository.folder / "was.git")
    assert repository.run(repository.first) == (0, ALL)


def test_a_green_commit_that_a_shallow_clone_leaves_out_means_everything(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write("docs/run.md", "changed\n")
    repository.commit()
    whole = repository.folder
    repository.git("clone", "--quiet", "--depth", "1", f"file://{whole}", str(tmp_path / "shallow"))
    repository.folder = tmp_path / "shallow"
    assert repository.run(repository.first) == (0, ALL)


def test_at_the_green_commit_itself_the_emulators_are_left_out(repository: Repository) -> None:
    assert repository.run(repository.first) == (0, WITHOUT_EMULATORS)


def _edit(name: str) -> Callable[[Repository], None]:
    return lambda repository: repository.write(name, "changed\n")


def _remove(name: str) -> Callable[[Repository], None]:
    return lambda repository: (repository.folder / name).unlink()


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (_edit("docs/run.md"), WITHOUT_EMULATORS),
        (_edit("dstream/cli.py"), WITHOUT_EMULATORS),
        (_edit("emulators/server.py"), ALL),
        (_edit("tests/emulators/test_server.py"), ALL),
        (_edit("tests/fakes/new.py"), ALL),
        (_edit("emulators/new.py"), ALL),
        (_edit("Makefile"), ALL),
        (_remove("emulators/server.py"), ALL),
    ],
    ids=["docs", "product", "emulator", "its test", "fake", "new file", "Makefile", "removed file"],
)
def test_the_emulators_are_tested_where_they_or_what_they_need_changed(
    repository: Repository, change: Callable[[Repository], None], asked: list[str], committed: bool
) -> None:
    change(repository)
    if committed:
        repository.commit()
    assert repository.run(repository.first) == (0, asked)


@pytest.mark.parametrize("fails", ALL)
def test_it_stops_where_a_command_fails(repository: Repository, fails: str) -> None:
    status, asked = repository.run(None, fails=fails)
    assert status != 0
    assert asked == ALL[: ALL.index(fails) + 1]


def test_what_the_emulators_tests_import_is_on_the_list() -> None:
    """The product is not: `make test` runs it against the emulators."""
    listed = (ROOT / SCRIPT).read_text().partition("EMULATORS=(")[2].partition(")")[0].split()
    assert [path for path in listed if not (ROOT / path).exists()] == []
    tested = [*(ROOT / "tests" / "emulators").rglob("*.py"), ROOT / "tests/faults/test_servicebus_kill.py"]
    needed = {module for path in tested if ".cache" not in path.parts for module in _imports_of_tests(path)}
    missing = {path for path in needed if not any(path == each or path.startswith(f"{each}/") for each in listed)}
    assert missing == set()


def _imports_of_tests(path: Path) -> Iterator[str]:
    """Files and folders of `tests` that the module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("tests."):
            module = node.module.replace(".", "/")
            yield module if (ROOT / module).is_dir() else f"{module}.py"
