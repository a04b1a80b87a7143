"""The command `surgeon view`: opens a model in the viewer."""

import click

from surgeon.cli.command_group import wants_json
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit
from surgeon.display.registry import CommandResult


@derived_command("view", {"source": "MODEL"}, without="model height", port=Spelling(type=click.IntRange(0, 65535)))
def view(source: str, target: str, port: int = 0, no_browser: bool = False) -> None:
    """Show MODEL folded by scopes and repeated blocks: search, look into nodes, see which rules match or nearly do.

    A server on the loopback address shows it to everybody who knows the printed address, and changes nothing; Ctrl-C
    ends it.
    Example: surgeon view model.onnx

    Args:
        port: the port of the loopback address, or 0 for any free one.
        no_browser: print the address only, and open nothing.
    """
    from surgeon.display.viewer.server import ViewerServer
    from surgeon.display.viewer.session import ViewerSession

    with ViewerServer(ViewerSession(source, target), port) as server:
        data = {"model": source, "target": target, "url": server.url}
        emit([CommandResult("view", data, [f"{source} is at {server.url} (Ctrl-C ends it)"])])
        if not no_browser:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("ended", err=wants_json(click.get_current_context()))
        finally:
            server.content.close()
