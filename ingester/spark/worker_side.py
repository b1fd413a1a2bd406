"""What runs in Spark's Python workers around a task: a check of the installation, the seal, and housekeeping after it. Knows no Spark.

A task names DStream's modules, and a worker imports them. Where they are missing or of another build, that fails with a traceback or
with values that do not fit; so the check comes first, in a function that PySpark sends by value. Two builds may have one version: what the
installation's record says of the sources tells them apart.
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


def build_of(package: str = PACKAGE) -> str:
    """Version and build of `package` as it is installed here: `0.1.0 (build 3f0c2a91b7de)`. Raises PackageNotFoundError.

    A package whose sources are used where they are edited has a version alone.
    """
    return _build_teller()(package)


def checked(work: bytes, build: str, package: str = PACKAGE) -> Work:
    """`work`, which was pickled, to be run where `build_of(package)` is `build`. Elsewhere it raises RuntimeError."""
    told = _build_teller()

    def run(items: Iterable[Any]) -> Iterator[Any]:
        import pickle
        import socket
        import sys
        from importlib import metadata

        try:
            found = told(package)
        except metadata.PackageNotFoundError:
            raise RuntimeError(f"{package} is not installed in {sys.executable} on {socket.gethostname()}") from None
        if found != build:
            raise RuntimeError(f"{package} on {socket.gethostname()} is {found}, and the driver's is {build}")
        try:
            task = pickle.loads(work)
        except AttributeError as error:  # one version, and no record of the builds: this one lacks what the task names
            other = f"{package} on {socket.gethostname()} is another build of {found}, and the driver's is needed"
            raise RuntimeError(f"{other}: {error}") from None
        done: Iterator[Any] = task(items)
        return done

    return run


def _build_teller() -> Callable[[str], str]:
    """A function within a function, because PySpark sends those by value: a module's own would be imported by name."""

    def told(package: str) -> str:
        import hashlib
        from importlib import metadata

        installed = metadata.distribution(package)
        lines = (installed.read_text("RECORD") or "").splitlines()
        sources = sorted(line for line in lines if ".py,sha256=" in line)
        digest = hashlib.sha256(repr(sources).encode()).hexdigest()[:12]
        return f"{installed.version} (build {digest})" if sources else installed.version

    return told


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
