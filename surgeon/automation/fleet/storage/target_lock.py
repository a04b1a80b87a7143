"""One run at a time writes to a target: what one takes away in the end may be what another works with."""

import errno
import os
from typing import IO

from surgeon.automation.fleet.storage.storage import METADATA_FOLDER, Storage, storage_errors
from surgeon.errors import UsageError


def locked(storage: Storage, root: str) -> IO[str] | None:
    """Hold a target for this process until the file that is returned is closed, or the process ends.

    None where nothing can be held: in a store, on Windows, on a file system without locks.  Raises UsageError where
    another process holds it.
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
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - it is held
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this process, and not of those that it forks
    except OSError as error:
        file.close()
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise UsageError(f"Another run writes to {root}: wait until it has ended, or give another one.") from None
        return None
    return file
