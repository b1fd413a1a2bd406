"""`dstream completion`: the script that teaches a shell to complete commands, options and tables."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that will read the script.")],
) -> int:
    """Print the script that completes commands, options and tables.

    In ~/.bashrc: eval "$(dstream completion bash)". In ~/.zshrc: eval "$(dstream completion zsh)".
    In ~/.config/fish/config.fish: dstream completion fish | source.
    """
    from typer._completion_shared import get_completion_script

    from dstream.completing import VARIABLE

    script = get_completion_script(prog_name="dstream", complete_var=VARIABLE, shell=shell.value)
    print(script, file=sys.stdout)
    return 0
