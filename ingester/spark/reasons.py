"""Why a Spark job failed or its JVM ended, in one line. Py4J's text begins with the call that failed; the reason comes further down. Pure."""

from __future__ import annotations

import re
import signal

_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+\w*(?:Exception|Error|Throwable): ")
_TASK = re.compile(r".*most recent failure: (?:Lost task [\d.]+ in stage [\d.]+ )?(?:\(TID \d+\) )?")
_CAUSED = "Caused by: "
_LONGEST = 400

_NO_MASTER = (
    "spark.master does not answer: check its address, that it runs, and that spark.authenticate.secret is the same"
)
"""Spark reports it in one of two ways, depending on what times out first."""
_DIED = "Python worker exited unexpectedly"
"""What Spark says; a shorter sign might stand in what a task says."""
_EXECUTOR_DIED = "ExecutorLost"
_HINTS = (
    ("unresponsive", _NO_MASTER),
    ("not yet connected to master", _NO_MASTER),
    (
        "different version",
        "the executors' Python must have the driver's minor version: set spark.pyspark.python in spark.conf",
    ),
    *(
        (sign, "every machine needs the driver's version of dstream-cdc: executors from the ingester's image have it")
        for sign in ("and the driver's is", "is not installed in")
    ),
    (
        "No module named",
        "dstream-cdc[ingester] must be installed in the executors' Python, which spark.pyspark.python in spark.conf names",
    ),
    (
        "Cannot run program",
        "the executors do not have this Python: set spark.pyspark.python in spark.conf to one that they have",
    ),
    (_DIED, "a Python worker died, usually of too little memory: raise the container's memory, or lower spark.slots"),
    (
        _EXECUTOR_DIED,
        "an executor or its machine died: if this repeats, read its log and raise spark.executor.memoryOverhead",
    ),
)
DEBUG = "--log-level debug shows what Spark prints"

_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)
_NO_HEAP = 52
"""Spark's own status for a JVM whose heap was too small."""
_KILLED = (
    "if nobody did that, the kernel did, because memory ran out (its log says so): give the machine more, or the container a higher limit; "
    "more for spark.driver.memory would make it worse"
)


def reason(text: str) -> str:
    """The reason in the text of an exception, without a stack."""
    lines = [line for line in text.splitlines() if line.strip()]
    stated = [line[2:] for line in lines if line.startswith(": ")]
    said = stated[0] if stated else lines[0] if lines else "no reason was given"
    if "Traceback (most recent call last)" in said:
        said = _python_reason(lines) or said
    said = _CLASS.sub("", _TASK.sub("", _CLASS.sub("", said)))
    caused = [_CLASS.sub("", line.removeprefix(_CAUSED)) for line in lines if line.startswith(_CAUSED)]
    if caused and caused[-1] not in said and "Traceback" not in caused[-1]:
        said = f"{said} ({caused[-1]})"
    return said[:_LONGEST].strip()


def hint_for(why: str, *, local: bool) -> str | None:
    """How to fix it, if that is known. `local`: on this machine no executor has a log of its own."""
    known = next((hint for sign, hint in _HINTS if sign.lower() in why.lower()), None)
    if known is None and not local and "executor" in why.lower():
        return f"read the executors' logs; {DEBUG} here"
    return known


def ending(status: int) -> tuple[str, str]:
    """How Spark's JVM has ended, and what to do about it. `status`: negative for a signal, as Popen has it."""
    number = _signal(-status if status < 0 else status - 128)
    if number is None:
        remedy = (
            "raise spark.driver.memory" if status == _NO_HEAP else "--log-level debug shows everything that it printed"
        )
        return f"ended with status {status}", f"restart the ingester; if this repeats, {remedy}"
    if number is signal.SIGKILL:
        return "was killed by SIGKILL", _KILLED
    if number in _CRASHES:
        return f"has crashed with {number.name}", "read hs_err_pid*.log in the ingester's working directory"
    return f"was ended by {number.name}", "find out who sent that signal to the JVM, and restart the ingester"


def _signal(number: int) -> signal.Signals | None:
    return signal.Signals(number) if number in set(signal.Signals) else None


def worker_died(why: str) -> bool:
    """Whether a task ran and its worker died, perhaps because of the task itself."""
    return _DIED in why or _EXECUTOR_DIED in why


def _python_reason(lines: list[str]) -> str | None:
    """The last line of a worker's traceback: the first line after it that is not indented."""
    begun = next(i for i, line in enumerate(lines) if "Traceback (most recent call last)" in line)
    last = next((line for line in lines[begun + 1 :] if not line[0].isspace()), None)
    return last and last.removeprefix("RuntimeError: ")
