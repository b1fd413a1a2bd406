"""The tests' own Kubernetes harms nothing else on the machine that it runs on, as root."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.cluster import node, programs, services


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(services, "STATE", tmp_path)
    monkeypatch.setattr(services, "LOGS", tmp_path / "logs")
    return tmp_path


def test_a_process_that_has_the_number_of_an_earlier_service_is_left_alone(state: Path) -> None:
    services.start("ours", [sys.executable, "-c", "import time; time.sleep(60)"])
    assert services.runs("ours")
    record = json.loads((state / "ours.service").read_text())
    (state / "other.service").write_text(json.dumps({**record, "started": "an earlier start of the machine 1"}))
    assert not services.runs("other")
    services.stop("other")
    assert services.runs("ours")
    services.stop("ours")
    assert not services.runs("ours")
    assert services._started_here == [], "its end has been heard of"


def test_addresses_that_the_machine_uses_already_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def routes(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[-1])
        return subprocess.CompletedProcess(
            command, 0, "10.245.0.0/16 via 10.8.0.1 dev tun0\n" if "10.245" in command[-1] else ""
        )

    monkeypatch.setattr(subprocess, "run", routes)
    with pytest.raises(RuntimeError, match=r"needs 10\.245\.0\.0/16, and this machine uses it: .*dev tun0"):
        node._refuse_taken_addresses()
    assert asked == ["10.201.0.0/24", "10.245.0.0/16"]


def test_of_two_programs_that_are_missing_the_one_that_is_asked_for_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = list[list[str]]()

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("etcd", "containerd") else name)
    monkeypatch.setattr(subprocess, "run", run)
    programs.packages(["etcd"])
    assert [command[-1] for command in ran] == ["-qq", "etcd-server", "etcd"]
    assert ran[-1] == ["systemctl", "disable", "--now", "etcd"]
    ran.clear()
    programs.packages(["buildah"])
    assert ran == []
