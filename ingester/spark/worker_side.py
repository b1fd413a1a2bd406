"""What runs in Spark's Python workers around a task: a check of the installation, the seal, and housekeeping after it. Knows no Spark.

A task names DStream's modules, and a worker imports them. Where they are missing or of another version, that fails with a traceback or
with values that do not fit; so the check comes first, in a function that PySpark sends by value.
"""

from __future__ import annotations

import gc
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ingester.slices import Slice, SliceResult
from ingester.spark.driver_line import Driver
from ingester.spark.seal import Seal, Unsealed, seal_of_environment

PACKAGE = "dstream-cdc"

Work = Callable[[Iterable[Any]], Iterator[Any]]
BundleTask = Callable[[Sequence[Slice], Path, Driver | None], Sequence[SliceResult]]
"""Runs in a Python worker, which imports it by name. The path is that of a file that exists once a stop was requested. The result of a slice
that ends before others goes to the driver at once, if one is given."""


def checked(work: bytes, version: str, package: str = PACKAGE) -> Work:
    """`work`, which was pickled, to be run where `package` has this `version`. Elsewhere it raises RuntimeError."""

    def run(items: Iterable[Any]) -> Iterator[Any]:
        import pickle
        import socket
        import sys
        from importlib import metadata

        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise RuntimeError(f"{package} is not installed in {sys.executable} on {socket.gethostname()}") from None
        if found != version:
            raise RuntimeError(f"{package} on {socket.gethostname()} is {found}, and the driver's is {version}")
        done: Iterator[Any] = pickle.loads(work)(items)
        return done

    return run


def run_sealed(task: BundleTask, stopping: Path, key: bytes | None, sealed: Iterable[bytes]) -> Iterator[bytes]:
    """Run `task` on the only bundle in `sealed`, which comes with its driver. `key`: None where it is in the environment.

    Raises RuntimeError for a bundle that was not sealed with it.
    """
    seal = seal_of_environment() if key is None else Seal(key)
    [bundle] = sealed
    try:
        slices, driver = seal.opened(bundle)
    except Unsealed as error:
        raise RuntimeError(str(error)) from None
    results = list(task(slices, stopping, driver))
    settle_worker()
    return iter([seal.closed(results)])


_settled = False


def settle_worker() -> None:
    """Save the next task of this worker what PySpark does around each: a full garbage collection, and reading zip files again.

    Runs in the worker at the end of every task.
    """
    global _settled
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True
