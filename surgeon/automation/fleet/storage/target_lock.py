"""Locks a target, so that only one run writes to it: at its end a run removes files that another may use."""

import errno
import os
from typing import IO

from surgeon.automation.fleet.storage.storage import METADATA_FOLDER, Storage, storage_errors
from surgeon.errors import UsageError


def locked(storage: Storage, root: str) -> IO[str] | None:
    """Lock a target for this process until the returned file is closed, or the process ends.

    Returns None if locks are not available: in a store, on Windows, on a file system without locks.  Raises UsageError
    if another process has the lock.
    """
    try:
        import fcntl
    except ImportError:  # on Windows
        return None
    if not storage.is_local:
        return None
    path = storage.join(root, f"{METADATA_FOLDER}/lock")
    with storage_errors(path, "written"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - the caller closes it
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a lock of this process; its children do not inherit it
    except OSError as error:
        file.close()
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise UsageError(f"Another run writes to {root}. Wait until it ends, or give another folder.") from None
        return None
    return file
