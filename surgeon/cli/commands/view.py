"""The command `surgeon view`: opens a model in the viewer."""

import click

from surgeon.cli.options import explain_invalid_names
from surgeon.cli.param_types import TargetName


@click.command(short_help="Walk about in a model, in a browser.")
@click.argument("source", metavar="MODEL")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the loopback address.  [default: any free]")
@click.option("--no-browser", is_flag=True, help="Print the address alone, and open nothing.")
@click.option("--target", type=TargetName(), default="ort", show_default=True, help="Of the rules asked for at a node.")
@explain_invalid_names
def view(source: str, port: int, no_browser: bool, target: str) -> None:
    """Show MODEL folded by scopes and repeated blocks: open, search, look into nodes, see which rules fit
    or nearly do.

    A server on the loopback address shows it to who knows the address that is printed, and changes nothing; Ctrl-C
    ends it.  Example: surgeon view model.onnx
    """
    from surgeon.display.viewer.server import ViewerServer
    from surgeon.display.viewer.session import ViewerSession

    with ViewerServer(ViewerSession(source, target), port) as server:
        click.echo(f"{source} is at {server.url} (Ctrl-C ends it)")
        if not no_browser:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("ended")
        finally:
            server.content.close()
