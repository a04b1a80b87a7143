"""Encodings of paths: models and ONNX Runtime use UTF-8, Python uses the locale's encoding.

With `LC_ALL=C` and without Python's UTF-8 mode a path is ASCII, and other bytes are lone surrogates.
"""

import os


def local(location: str) -> str:
    """A location of a model as a path on this machine."""
    return os.fsdecode(location.encode("utf-8"))


def in_utf8(path: str | os.PathLike[str]) -> str:
    """A path of this machine in UTF-8; UnicodeDecodeError if its bytes are not UTF-8."""
    return os.fsencode(path).decode("utf-8")
