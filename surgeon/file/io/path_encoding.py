"""Paths as text: models and ONNX Runtime have UTF-8, and Python what the locale says, which need not be able to.

Under `LC_ALL=C`, without Python's UTF-8 mode, a path is ASCII, and all else in it stands as lone surrogates.
"""

import os


def local(location: str) -> str:
    """A location in a model as this machine names the file."""
    return os.fsdecode(location.encode("utf-8"))


def in_utf8(path: str | os.PathLike[str]) -> str:
    """A path of this machine for whoever takes it as UTF-8; UnicodeDecodeError where its bytes are none."""
    return os.fsencode(path).decode("utf-8")
