"""What is told of a JVM that ended by itself."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from common.errors import PermanentError
from ingester.spark.jvm import Jvm, final_words

_STACK = ["\tat org.apache.spark.deploy.SparkSubmit$.main(SparkSubmit.scala:1180)", "\t... 3 more"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([], "it printed nothing"),
        (["Error: Could not create the Java Virtual Machine."], "Error: Could not create the Java Virtual Machine."),
        (
            ['Exception in thread "main" java.io.IOException: no space', *_STACK],
            'Exception in thread "main" java.io.IOException: no space',
        ),
        (
            [
                'Exception in thread "main" java.lang.Error: outer',
                *_STACK,
                "Caused by: java.io.IOException: no space",
                *_STACK,
                "bye",
            ],
            "Caused by: java.io.IOException: no space",
        ),
        (_STACK, "it printed nothing"),
    ],
    ids=["silent", "a plain line", "an exception", "its cause", "a stack whose exception has scrolled away"],
)
def test_an_exception_is_told_instead_of_its_stack(said: list[str], words: str) -> None:
    assert final_words(said) == words


def test_a_spark_home_without_pyspark_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(PermanentError, match="PySpark is not installed") as refused:
        Jvm({}, tmp_path, environment={}, masked=[])
    assert "pip install" in str(refused.value.hint)
