"""What a parser is asked to do that comes to no word."""

from tests.child_tasks import spin


def parse(argument, note):
    """Never ends."""
    spin("parse", note)
