"""`dstream console`: the page and its API, until stopped."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from common.errors import ConfigurationError
from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel, Stage, WhichStage
from dstream.starting import imported, logged, of_stages, started

CONSOLE_STOPS_WITHIN = 19.5
"""Seconds. Streams end at once and answers under way within 5; a replay finishes what it has in flight, or goes on at its next start."""


_Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Where the page and its API are; 0: any.")]
_Host = Annotated[
    str, typer.Option("--host", help="The address. Another than this machine's own needs a token or a proxy.")
]
_GrpcPort = Annotated[
    int | None, typer.Option("--grpc-port", min=0, max=65535, metavar="PORT", help="Serve gRPC here as well.")
]
_AllowChanges = Annotated[
    bool, typer.Option("--allow-changes", help="Allow pauses, moves, replays and edits. Each is written down.")
]
_TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Let in whoever has a token of this file.")
]
_BehindProxy = Annotated[
    str | None,
    typer.Option("--behind-proxy", metavar="HEADER", help="A proxy, the only way in, names the person in it."),
]
_TrustedProxy = Annotated[
    list[str] | None,
    typer.Option("--trusted-proxy", metavar="CIDR", help="Where that proxy is (repeatable; default: anywhere)."),
]
_PublicName = Annotated[
    list[str] | None,
    typer.Option("--public-name", metavar="HOST", help="A name of the console behind that proxy (repeatable)."),
]
_TlsCert = Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="A certificate, for HTTPS.")]
_TlsKey = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key.")]
_AuditFile = Annotated[
    Path | None,
    typer.Option("--audit-file", envvar="DSTREAM_AUDIT_FILE", metavar="FILE", help="Where changes are written down."),
]
_Scrape = Annotated[
    list[str] | None,
    typer.Option("--scrape", metavar="URL", help="A health port (repeatable; default: those of the configuration)."),
]
_LookEvery = Annotated[
    float, typer.Option("--look-every", min=1, max=3600, metavar="SECONDS", help="Between two looks at the stores.")
]
_ConfigMap = Annotated[
    str | None,
    typer.Option(
        "--configmap",
        envvar="DSTREAM_CONFIGMAP",
        metavar="NAMESPACE/NAME[/KEY]",
        help="Where edits go, in a cluster: the ConfigMap that --config is mounted from.",
    ),
]
_SecretVariable = Annotated[
    list[str] | None,
    typer.Option("--secret-variable", metavar="NAME", help="A variable that edits may name (repeatable)."),
]
_FilesUnder = Annotated[
    str | None, typer.Option("--files-under", metavar="FOLDER", help="Where files may be that edits name.")
]


def console(
    port: _Port = 8090,
    host: _Host = "127.0.0.1",
    grpc_port: _GrpcPort = None,
    allow_changes: _AllowChanges = False,
    token_file: _TokenFile = None,
    behind_proxy: _BehindProxy = None,
    trusted_proxy: _TrustedProxy = None,
    public_name: _PublicName = None,
    tls_cert: _TlsCert = None,
    tls_key: _TlsKey = None,
    audit_file: _AuditFile = None,
    scrape: _Scrape = None,
    look_every: _LookEvery = 5,
    configmap: _ConfigMap = None,
    secret_variable: _SecretVariable = None,
    files_under: _FilesUnder = None,
    config: Config = DEFAULT,
    stage: WhichStage = Stage.BOTH,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Serve the operator's page and its API until stopped.

    It reads the stores every few seconds and changes nothing unless --allow-changes is given.
    """
    from dstream.config_watch import Latest

    logged(log_level, log_format)
    access = _access(host, token_file, tls_cert, _Proxy(behind_proxy, trusted_proxy, public_name))
    process = imported("desk.console.process")
    options = imported("desk.console.options").Options(
        access=access,
        port=port,
        config=config.absolute(),
        grpc_port=grpc_port,
        allow_changes=allow_changes,
        token_file=token_file,
        audit_file=audit_file,
        scrape=tuple(scrape or ()),
        look_every=look_every,
        tls=_tls(tls_cert, tls_key),
        load=Latest(config.absolute(), partial(of_stages, stage, config.absolute())),
        configmap=configmap,
        allowed=_allowed(secret_variable, files_under),
        judge=partial(imported("dstream.config").judge, path=config, environ=os.environ),
        reads=partial(imported("dstream.config").ingester_of, path=config, environ=os.environ),
    )
    stages = imported("desk.status").Stages(*of_stages(stage, config))
    return started(process.__name__, stages, options, within=CONSOLE_STOPS_WITHIN)


def _allowed(variables: list[str] | None, folder: str | None) -> Any:
    under = None if folder is None else str(Path(folder).absolute())
    return imported("desk.configuring.allowed").Allowed(frozenset(variables or ()), under)


class _Proxy(NamedTuple):
    header: str | None
    trusted: list[str] | None
    names: list[str] | None


def _access(host: str, token_file: Path | None, certificate: Path | None, proxy: _Proxy) -> Any:
    """Raises ConfigurationError where anybody could come in."""
    return imported("desk.console.access").checked(
        host,
        token_file=token_file is not None,
        behind_proxy=proxy.header,
        trusted_proxies=proxy.trusted or (),
        public_names=proxy.names or (),
        tls=certificate is not None,
    )


def _tls(certificate: Path | None, key: Path | None) -> object | None:
    if key is not None and certificate is None:
        raise ConfigurationError(["--tls-key needs --tls-cert"])
    return None if certificate is None else imported("desk.console.http.serving").tls_of(certificate, key)
