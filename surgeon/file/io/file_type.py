"""Recognises files that are not ONNX models, for messages."""

import errno
import os
import stat
from pathlib import Path

from google.protobuf.message import Message

from surgeon.text import close_matches

_SIGNS = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"\x1f\x8b", "a gzip archive. Unpack it first"),
    (b"PK\x03\x04", "a zip archive or PyTorch checkpoint. Unpack it, or export the model to ONNX"),
    (b"\x80\x02", "a pickle, perhaps a PyTorch checkpoint. Export the model to ONNX"),
    (b"\x80\x04", "a pickle. Export the model to ONNX"),
    (b"\x89HDF", "an HDF5 file, perhaps Keras. Convert it with tf2onnx"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself. Run `git lfs pull`"),
    (b"<!DOCTYPE", "a web page. Download the model file itself"),
    (b"<html", "a web page. Download the model file itself"),
)


def describe(head: bytes, name: str) -> str | None:
    """One sentence about a file that starts with `head` (up to 4 KiB); None if its type is unknown."""
    for sign, what in _SIGNS:
        if head.startswith(sign):
            return f"{name} is not an ONNX model but {what}."
    if head[4:8] == b"ORTM":
        return f"{name} is a model in ORT format, which cannot be edited. Use the ONNX file that it was converted from."
    if head[4:8] == b"TFL3":
        return f"{name} is not an ONNX model but a TensorFlow Lite model. Convert it with tf2onnx."
    try:
        text = head.decode("utf-8", "strict" if len(head) < 4096 else "ignore")
    except UnicodeDecodeError:
        return None
    if any(ord(c) < 32 and c not in "\t\n\r\f" for c in text):
        return None
    start = text.lstrip()
    if start.startswith("{"):
        return f"{name} is JSON, not a binary ONNX model. Convert it first with onnx.load(path, format='json')."
    if "=>" in text or start.startswith("<ir_version"):
        return f"{name} is ONNX text, not a binary model. Convert it first with onnx.parser.parse_model."
    if "ir_version:" in text or "graph {" in text:
        return f"{name} is in protobuf text format. Convert it first with onnx.load(path, format='textproto')."
    return f"{name} is a text file, not an ONNX model."


def not_utf8(message: Message) -> bytes | None:
    """The first string below `message` that is not UTF-8, which protobuf returns as bytes; None in a valid model.

    It reads every field, so call it only after an error.
    """
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            for item in [value] if isinstance(value, str | bytes) else value:
                if isinstance(item, bytes):
                    return item
        elif field.message_type is not None:
            for item in [value] if isinstance(value, Message) else value:
                found = not_utf8(item)
                if found is not None:
                    return found
    return None


def refuse_special(path: Path) -> str | None:
    """One sentence about a path that is neither a file nor a folder; None for others.  It is not opened."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None  # opening it reports why
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return f"{path} is a pipe or a device, not a file. Save the model to a file first."


def unreadable(path: Path, error: OSError) -> str:
    """One sentence on why `path` could not be opened."""
    if path.is_dir():
        return f"{path} is a folder. Give the .onnx file in it."
    if error.errno == errno.ENOENT:
        near = close_matches(path.name, sorted(os.listdir(path.parent))) if os.access(path.parent, os.R_OK) else ()
        return f"File not found: {path}{f' (did you mean {near[0]}?)' if near else ''}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{path} cannot be read. Change its permissions."
    return f"{path} cannot be read: {error.strerror}."
