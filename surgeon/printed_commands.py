"""The commands that messages print.  All are built here, so that a test can find and run every one.

IN and OUT represent the model of the message and the output file.  A message prints a command only if it does what the
message says.  The user replaces only the words in capitals.
"""

from collections.abc import Sequence
from shlex import join

from surgeon.target_registry import target_of

DEFAULT = "ort"
"""The default target of a command."""


def command(*words: object) -> str:
    """A command of surgeon as a user types it, quoted for a shell.

    words: the name of the command, its arguments and its options; an empty word is left out.

    Examples:
        >>> command("rules", "gelu", "--prove")
        'surgeon rules gelu --prove'
        >>> command("edit", "IN", "OUT", "--state", "mask=bool[batch,SIZE]")
        "surgeon edit IN OUT --state 'mask=bool[batch,SIZE]'"
    """
    return join(["surgeon", *filter(None, map(str, words))])


def placed(target: str, ep: str | None) -> tuple[str, ...]:
    """The options for the target and the provider of a model, without those that are the default.

    ep: an execution provider, None for the default of the target.

    Examples:
        >>> placed("ort", "cuda"), placed("tensorrt", None), placed("ort", "cpu")
        (('--ep', 'cuda'), ('--target', 'tensorrt'), ())
    """
    usual = next((one.name for one in target_of(target).providers), None)
    named = () if target == DEFAULT else ("--target", target)
    return named if ep in (None, usual) else (*named, "--ep", str(ep))


def upgrade_to(opset: int) -> str:
    """The command that raises a model's opset."""
    return command("upgrade", "IN", "OUT", "--opset", opset)


def in_floats() -> str:
    """The command that converts a float64 model to float32."""
    return command("convert", "IN", "OUT", "--from", "float64", "--to", "float32")


def with_traceback(typed: Sequence[str]) -> str:
    """The command that a user typed, with the traceback of an internal error.  typed: its words."""
    return command("--traceback", *typed[1:])
