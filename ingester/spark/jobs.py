"""Jobs of one task: what a function in a Python worker returns for one value. Knows PySpark, and nothing of what the tasks do.

A job of RDD.collect costs the JVM twice as much as one of collectAsync: before each, Spark reads the bytecode of the classes that its closures
come from, and those of collect's are its largest (https://github.com/apache/spark/blob/master/core/src/main/scala/org/apache/spark/rdd/AsyncRDDActions.scala).
The value travels inside the function; conf.py keeps PySpark from writing a large one to a file. PySpark's classes are looked up once: py4j asks
for them again for each job, and the JVM then looks through all of its jars.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

Value = TypeVar("Value")
_CLASSES = ("PythonUtils", "SimplePythonFunction", "PythonRDD")
"""Of the JVM, as PySpark names them for each job."""


class Jobs:
    """Thread-safe once it is made."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        jvm: Any = context._jvm
        for name in _CLASSES:
            setattr(jvm, name, getattr(jvm, name))
        self._one = context.parallelize([None], 1)
        self._one.getNumPartitions()  # makes it now, by one thread

    def run(self, group: str, what: str, work: Callable[[Iterable[Value]], Iterator[Any]], value: Value) -> list[Any]:
        """What `work` yields for an iterable of `value` alone, in a Python worker. Waits for as long as that takes.

        `group`: by which Spark finds the job, and cancels it. `what`: describes it to people.

        Raises Py4JJavaError for a job that failed or was cancelled, with Spark's own reason, and Py4JError for a JVM that is gone.
        """
        self._context.setJobGroup(group, what)
        rdd: Any = self._one.mapPartitions(_given(work, value))
        future = rdd._jrdd.collectAsync()
        try:
            batches = future.get()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()  # a future wraps it
            raise error if cause is None else Py4JJavaError("a job of Spark failed.\n", cause) from None
        return [result for batch in batches for result in pickle.loads(bytes(batch))]


def _given(work: Callable[[Iterable[Value]], Iterator[Any]], value: Value) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function within a function: PySpark sends those by value, and a worker need not have this module."""

    def run(nothing: Iterable[Any]) -> Iterator[Any]:
        for _ in nothing:  # to its end: PySpark ends a worker that leaves some of its input
            pass
        return work([value])

    return run
