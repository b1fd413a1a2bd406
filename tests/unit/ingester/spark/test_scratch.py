"""Which folders a start removes: those of processes that are gone, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from common.errors import PermanentError
from ingester.spark.scratch import Scratch, writable

OLD = (1_000_000_000, 1_000_000_000)


def test_a_folder_whose_owner_was_killed_is_removed_at_the_next_start(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from ingester.spark.scratch import Scratch\n"
        "made = Scratch(Path(sys.argv[1]))\n"
        "(made.path / 'spark.properties').write_text('secret')\n"
        "os._exit(9)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60)
    assert ran.returncode == 9
    [left] = tmp_path.iterdir()
    os.utime(left / "owner", OLD)
    made = Scratch(tmp_path)
    assert list(tmp_path.iterdir()) == [made.path]
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_owned_or_just_begun_or_not_ours_stays(tmp_path: Path) -> None:
    owned = Scratch(tmp_path)
    os.utime(owned.path / "owner", OLD)
    begun, other, link = (tmp_path / f"dstream-spark-{name}" for name in ("begun", "other", "link"))
    begun.mkdir()
    (begun / "owner").touch()
    other.mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (target / "owner").touch()
    os.utime(target / "owner", OLD)
    link.symlink_to(target)
    made = Scratch(tmp_path)
    assert set(tmp_path.iterdir()) == {owned.path, begun, other, link, target, made.path}
    assert (target / "owner").exists()
    made.close()
    owned.close()


REMEDY = "make it writable, or set TMPDIR and spark.local.dir to a folder that is"


def test_folders_of_which_none_can_be_written_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(PermanentError) as refused:
        writable([Path("/proc/nope"), Path("/proc/neither")])
    assert refused.value.message.startswith("Spark cannot write to /proc/nope: ")
    assert refused.value.hint == REMEDY
    made = tmp_path / "still" / "to be made"
    assert writable([Path("/proc/nope"), made]) == [made]  # Spark makes it, and takes it alone
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_a_folder_for_temporary_files_is_told_which_one_would_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.delenv("TMPDIR", raising=False)
    with pytest.raises(PermanentError) as refused:
        Scratch()
    assert refused.value.message.startswith("Spark cannot write to /tmp: No usable temporary directory")
    assert refused.value.hint == REMEDY
