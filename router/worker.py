"""`python -m router.worker`: one of the routers that router/supervisor.py starts. Not for use by itself; decides nothing about messages."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from types import FrameType
from typing import IO, Any

import structlog

from common.errors import DStreamError
from common.observability.interrupts import aside
from common.observability.logs import configure_logging, register_secrets
from common.observability.stacks import tell_stacks_on_signal
from router.app import route
from router.health import TELL_SECONDS
from router.receiving.carried import Carried
from router.supervisor import GRACE, STOP, Failed, Knew, Reported, Started, Word, WorkerOrder
from router.tally import Tally

SOON = 0.5
"""Seconds until a worker that is not ready reports to its parent again."""

log = structlog.get_logger(__name__)


class Parent:
    """The process that started this one, at the other end of standard input and output."""

    def __init__(self) -> None:
        # Not sys.stdin: a thread that waits on it holds a lock which the interpreter needs at its end.
        self._orders: IO[bytes] = os.fdopen(os.dup(0), "rb")
        self._words: IO[bytes] = os.fdopen(os.dup(1), "wb")
        self._speaking = threading.Lock()
        os.dup2(2, 1)  # no other output may get between the reports

    def order(self) -> WorkerOrder:
        """Raises EOFError when there is no parent to send one."""
        order = pickle.load(self._orders)
        assert isinstance(order, WorkerOrder)
        return order

    def say(self, word: Word) -> None:
        try:
            with self._speaking:
                pickle.dump(word, self._words)
                self._words.flush()
        except OSError:
            return  # the parent is gone, which `obey` learns as well

    def obey(self, stop: threading.Event) -> None:
        """Set `stop` when the parent asks for it or has ended. If it closes the pipe after asking, this process must end at once.

        A parent that has ended cannot kill a worker that does not stop in time, so the process then ends itself.
        """
        asked = self._orders.read(1) == STOP
        if not asked:
            log.warning("the parent is gone; stopping")
        stop.set()
        if asked:
            self._orders.read(1)
        else:
            time.sleep(GRACE)
        os._exit(1)


def numbered(number: int) -> structlog.typing.Processor:
    """Adds the worker's number to every log line: context variables would not reach the slots, which are threads."""

    def add(logger: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**event, "worker": number}

    return add


def tell(parent: Parent, tally: Tally) -> None:
    """Report to the parent until the end: every few seconds, and sooner while not ready."""
    well = False
    while True:  # also during a stop: a silent worker counts as one that hangs
        time.sleep(TELL_SECONDS if well else SOON)
        figures = tally.figures()
        well = figures.ready() is None
        parent.say(Reported(figures))


def main() -> int:
    """0 stopped cleanly, 1 not."""
    parent, stop = Parent(), threading.Event()

    def asked(number: int, frame: FrameType | None) -> None:
        aside(stop.set)

    signal.signal(signal.SIGTERM, asked)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # its parent obeys it, or says that it is ignored
    tell_stacks_on_signal()
    order = parent.order()
    configure_logging(order.log_level, order.log_format)
    structlog.configure(processors=[numbered(order.number), *structlog.get_config()["processors"]])
    register_secrets(order.settings)
    tally, carried = Tally(worker=order.number), Carried()
    if order.known is not None:
        carried.learn(order.known)
    threading.Thread(target=parent.obey, args=(stop,), name="parent", daemon=True).start()
    threading.Thread(target=tell, args=(parent, tally), name="figures", daemon=True).start()
    try:
        status = route(
            order.settings,
            stop,
            tally=tally,
            provisioned=True,
            proven=order.proven,
            started=lambda: parent.say(Started()),
            latest=order.latest,
            fans_out=order.fans_out,
            carried=carried,
        )
        parent.say(Reported(tally.figures()))
        parent.say(Knew(carried.told()))
        return status
    except DStreamError as error:
        parent.say(Failed(error))
        return 1
    except Exception:
        log.exception("worker failed unexpectedly")
        return 1


if __name__ == "__main__":
    sys.exit(main())
