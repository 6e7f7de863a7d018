"""Files: written atomically, and stamped with the versions that wrote them."""

import os
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under a temporary name beside it, flush it to the disk, and rename it.

    Whenever the process ends, the path has the old content or the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        write(temporary)
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    # Of a folder, it makes a new name in it last; only POSIX can open one.
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def versions(*packages: str) -> dict[str, str]:
    """Return the installed versions of packages."""
    return {name: version(name) for name in packages}
