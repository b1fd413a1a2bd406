"""Microsoft's T-SQL parser (ScriptDom) over texts: JSON strings in, a line each; JSON lists of complaints out, a line each.

A program of its own and not a module for the tests to import: the .NET runtime that it loads stays in its process for good and
takes over signals. It judges syntax, as SQL Server 2019 does; that a table or a function exists it cannot know.
Run with the folder that holds tests/scriptdom/requirements.txt on PYTHONPATH. Grammar and error numbers:
https://learn.microsoft.com/dotnet/api/microsoft.sqlserver.transactsql.scriptdom.tsql150parser
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

_FRAMEWORK = "Microsoft.NETCore.App"
_ASSEMBLY = Path("mssqltoolsservice", "bin", "Microsoft.SqlServer.TransactSql.ScriptDom.dll")


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package}: not on PYTHONPATH")
    return Path(spec.origin).parent


def _start_runtime() -> None:
    """The .NET Core runtime out of the dotnetcore2 wheel, which no machine needs to have installed."""
    os.environ["DOTNET_SYSTEM_GLOBALIZATION_INVARIANT"] = "1"  # the wheel brings no ICU, and a parser needs none
    root = _folder("dotnetcore2") / "bin"
    (version,) = [entry.name for entry in (root / "shared" / _FRAMEWORK).iterdir()]
    wanted = {"runtimeOptions": {"tfm": "netcoreapp3.1", "framework": {"name": _FRAMEWORK, "version": version}}}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "scriptdom.runtimeconfig.json")
        config.write_text(json.dumps(wanted))
        loader = importlib.import_module("clr_loader")
        runtime = loader.get_coreclr(runtime_config=str(config), dotnet_root=str(root))
        importlib.import_module("pythonnet").set_runtime(runtime)
        importlib.import_module("clr").AddReference(str(_folder("mssqlcli") / _ASSEMBLY))


def main() -> None:
    _start_runtime()
    scriptdom: Any = importlib.import_module("Microsoft.SqlServer.TransactSql.ScriptDom")
    reader: Any = importlib.import_module("System.IO").StringReader
    parser = scriptdom.TSql150Parser(True)  # with QUOTED_IDENTIFIER ON, as every modern client sets it
    for line in sys.stdin:
        _, errors = parser.Parse(reader(json.loads(line)), None)
        print(json.dumps([[e.Number, e.Line, e.Column, e.Message] for e in errors]), flush=True)


if __name__ == "__main__":
    main()
