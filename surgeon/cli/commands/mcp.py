"""The command `surgeon mcp`: serves an assistant."""

import gc
import os

from surgeon.cli.options import derived_command
from surgeon.errors import UsageError
from surgeon.versions import install_command


@derived_command(positional={"folder": "[FOLDER]"}, without="as_json")
def mcp(folder: str | None, allow_rules: bool = False) -> None:
    """Serve an assistant over the Model Context Protocol: inspect, explain, check, rewrite, diff, capture and rules.

    The client of the assistant starts this command and connects to its standard input and output.  The server reads and
    writes only files in FOLDER, or in the working directory, and runs no code that the assistant names.
    Example: surgeon mcp models

    Args:
        allow_rules: also load rule files in FOLDER, which are code.
    """
    try:
        from surgeon.integrations.assistant_server import assistant_server
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        how = install_command("mcp")
        raise UsageError(f"A server for assistants needs mcp 2 or newer. Install it: {how}") from None

    gc.freeze()  # imported modules are not garbage
    gc.enable()  # a server runs for long
    os.chdir(folder or os.curdir)
    assistant_server(os.getcwd(), allow_rules=allow_rules).run()
