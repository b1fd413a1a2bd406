"""The command as a process: what it refuses, what it says, and how it ends. No store is reachable; it serves all the same."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-that-is-long-enough"


def command(tmp_path: Path, *more: str) -> list[str]:
    files = ["--config", str(ROOT / "dstream.hcl"), "--audit-file", str(tmp_path / "audit.jsonl")]
    return [sys.executable, "-m", "dstream", "console", "--port", "0", "--log-format", "json", *files, *more]


@contextmanager
def started(tmp_path: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The process, and its line with the address."""
    process = subprocess.Popen(
        command(tmp_path, *more), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line) if line.startswith("{") else {}
            if said.get("message") == "console started":
                yield process, said
                return
        raise AssertionError("it has not started")
    finally:
        process.kill()
        process.communicate()


def test_a_stop_ends_streams_and_the_process_with_status_0(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with started(tmp_path, "--token-file", str(token), "--grpc-port", "0") as (process, said):
        port = int(said["address"].rpartition(":")[2])
        with httpx.Client(base_url=said["address"], headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
            assert client.get("/api/v1/session").json()["changes_allowed"] is False
            assert client.get("/api/v1/overview").status_code == 200
            assert client.get("/").headers["content-type"].startswith("text/html")
        with socket.create_connection(("127.0.0.1", port), 5) as stream:
            stream.sendall(
                f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
            )
            assert stream.recv(100).startswith(b"HTTP/1.1 200")
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "console stopped" in out
    assert TOKEN not in out
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "give --token-file FILE, or --behind-proxy HEADER"),
        (["--token-file", "none"], "reading the token file none: No such file or directory"),
        (["--tls-key", "key"], "--tls-key needs --tls-cert"),
        (["--tls-cert", "none"], "--tls-cert none"),
        (["--behind-proxy", "X User"], "no name of a header"),
    ],
)
def test_a_mistake_ends_it_with_status_2_and_the_remedy(tmp_path: Path, options: list[str], said: str) -> None:
    ran = subprocess.run(command(tmp_path, *options), cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert said in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr


def test_without_an_audit_log_it_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    ran = subprocess.run(command(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert "audit" in ran.stdout + ran.stderr


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path) -> None:
    (tmp_path / "fastapi.py").write_text("raise ModuleNotFoundError('no', name='fastapi')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        command(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert ran.returncode == 2
    assert "pip install 'dstream-cdc[console]'" in ran.stdout + ran.stderr
