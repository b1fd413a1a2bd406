"""What counts as a core."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from common.cores import usable_cores


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("250000 100000\n", 2),
        ("50000 100000\n", 1),
        ("9900000 100000\n", 8),
    ],
)
def test_a_containers_quota_counts_before_the_cores_it_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text(text)
    assert usable_cores(tmp_path / "cpu.max", tmp_path) == cores


def test_without_a_container_the_cores_that_the_process_may_use_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3}, raising=False)
    assert usable_cores(tmp_path / "none", tmp_path) == 2


@pytest.mark.parametrize(("quota", "cores"), [("-1", 8), ("200000", 2), ("50000", 1), ("9900000", 8)])
def test_a_quota_of_cgroup_v1_counts_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path / "none", tmp_path) == cores
