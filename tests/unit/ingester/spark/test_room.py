"""The memory that an ingester may still take, wherever its limit stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingester.spark.kept.room import room

MB = 1 << 20


def placed(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def asked(folder: Path, cgroup: str, limits: dict[str, int | str]) -> int:
    placed(folder / "proc", {"meminfo": "MemTotal: 9 kB\nMemAvailable: 4194304 kB\n", "self/cgroup": cgroup})
    placed(folder / "groups", {name: f"{value}\n" for name, value in limits.items()})
    return room(folder / "proc", folder / "groups") // MB


def test_a_machine_without_limits_has_what_is_available(tmp_path: Path) -> None:
    assert asked(tmp_path, "0::/\n", {}) == 4096


@pytest.mark.parametrize("limited", ["system.slice/dstream.service", "system.slice", "."])
def test_a_limit_of_version_2_stands_in_the_own_group_or_above_it(limited: str, tmp_path: Path) -> None:
    limits: dict[str, int | str] = {
        "system.slice/dstream.service/memory.max": "max",
        f"{limited}/memory.max": 1000 * MB,
        f"{limited}/memory.current": 300 * MB,
    }
    assert asked(tmp_path, "0::/system.slice/dstream.service\n", limits) == 700


@pytest.mark.parametrize("limited", ["memory/kubepods/pod1", "memory"])
def test_a_limit_of_version_1_is_seen_from_the_host_and_from_the_container(limited: str, tmp_path: Path) -> None:
    limits: dict[str, int | str] = {
        f"{limited}/memory.limit_in_bytes": 1000 * MB,
        f"{limited}/memory.usage_in_bytes": 900 * MB,
    }
    assert asked(tmp_path, "4:cpu,cpuacct:/kubepods/pod1\n3:memory:/kubepods/pod1\n0::/\n", limits) == 100


def test_more_taken_than_allowed_is_no_room(tmp_path: Path) -> None:
    assert asked(tmp_path, "0::/a\n", {"a/memory.max": MB, "a/memory.current": 2 * MB}) == 0


def test_nothing_is_known_without_proc(tmp_path: Path) -> None:
    assert room(tmp_path / "proc", tmp_path) == 0
    placed(tmp_path / "proc", {"meminfo": "MemAvailable: 4194304 kB\n"})
    assert room(tmp_path / "proc", tmp_path) == 0
