"""The limit of open files: taken as high as it goes, and complained of where that is too low."""

from __future__ import annotations

import subprocess
import sys

import pytest

from router.file_limit import complaint

CODE = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
from router.file_limit import provide_descriptors
provide_descriptors(200)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
provide_descriptors(400)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such limit")
def test_the_limit_is_taken_up_and_one_that_is_too_low_is_said_with_the_remedy() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)
    first, _, rest = done.stdout.partition("\n")
    assert first == "(300, 300)"
    assert rest.count("the limit on open files is too low") == 1
    assert "raise the hard limit to 464" in rest


def test_without_a_limit_or_with_room_there_is_nothing_to_say() -> None:
    assert complaint(10_000, None) is None
    assert complaint(960, 1024) is None
    assert complaint(961, 1024) is not None
