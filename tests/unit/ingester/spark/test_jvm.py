"""What is told of a JVM that ended by itself."""

from __future__ import annotations

import pytest

from ingester.spark.jvm import final_words

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
