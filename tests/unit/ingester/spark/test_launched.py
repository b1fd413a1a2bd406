"""Where Spark's temporary files lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingester.spark import launched


@pytest.mark.parametrize(
    ("characters", "beside"),
    [(4, False), (38, False), (39, True), (61, True), (62, False)],
)
def test_temporary_files_go_with_spark_s_folder_unless_sockets_fit_only_beside_it(
    characters: int, beside: bool
) -> None:
    parent = Path("/" + "t" * (characters - 1))
    folder = parent / "dstream-spark-12345678"
    assert launched._for_java(folder) == (parent if beside else folder)
