"""The command `surgeon view`: opens a model in the viewer."""

import click

from surgeon.cli.command_group import wants_json
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit
from surgeon.display.registry import CommandResult


@derived_command("view", {"source": "MODEL"}, without="model height", port=Spelling(type=click.IntRange(0, 65535)))
def view(source: str, target: str, port: int = 0, no_browser: bool = False) -> None:
    """Open MODEL in the interactive viewer: a browser page where you search, inspect nodes, and see which rules match.

    A local server on the loopback address serves the page.  Everybody on this machine who knows the printed address can
    read it.  Nothing is changed.  Stop the server with Ctrl-C.
    Example: surgeon view model.onnx

    Args:
        port: port of the loopback address; 0 means any free port.
        no_browser: print the address, but do not open a browser.
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
