r"""Files that several processes may reach for: written whole or not at all, and a run that one process holds."""

import contextlib
import datetime
import errno
import glob
import json
import os
import secrets
import socket
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

WRITING = ".writing"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)  # what a file system without them answers


class HeldError(RuntimeError):
    r"""Another process, or another thread of this one, is at work on this file; the message says who."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    r"""While entered, a new file to write bytes to, which takes the place of `path` in one move at the end.

    A reader finds the old file or the new one, never a half, whoever else writes it at the same time: each writer has
    a file of its own. Where the writing fails, that file is removed and `path` is left as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{WRITING}")
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def held(argument: str, path: Path) -> Iterator[None]:
    r"""While entered, this process holds what is saved to `path`; another that tries is refused.

    The hold is a lock of the operating system on the file `path`.lock, which says who has it. It ends with the process,
    however that ends, so a lock file that a killed process leaves behind holds nothing. Over a network file system it
    reaches as far as that carries locks; where there are none, a warning says so.

    Errors: HeldError naming the holder; OSError naming the argument, where `path` can't be written.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{argument}={str(path)!r} is a folder; name a file in it")
    lock = path.with_name(path.name + ".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = take(lock, path)
    except OSError as error:
        why = error.strerror or error
        raise type(error)(
            f"{argument}={str(path)!r} can't be written ({why}); name a file in another folder"
        ) from error
    with file:
        for left in glob.glob(f"{glob.escape(str(path))}.*{WRITING}"):  # by a process that was killed while it wrote
            Path(left).unlink(missing_ok=True)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows removes no file that is open
                lock.unlink()


def take(lock: Path, path: Path) -> IO[str]:
    """The file `lock`, opened, locked and with this process's name in it. Errors: HeldError; OSError."""
    while True:
        file = open(lock, "a+", encoding="utf-8")
        try:
            lock_file(file)
            if is_still(lock, file):
                file.truncate(0)
                since = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
                file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "since": since}) + "\n")
                file.flush()
                return file
        except BlockingIOError:
            with file:
                raise HeldError(
                    f"{path} is held by {holder(file)}, which works on it. Wait for it, stop it, or name another file"
                ) from None
        except BaseException:
            file.close()
            raise
        file.close()  # its holder has just finished and removed it


def is_still(lock: Path, file: IO[str]) -> bool:
    """Whether an open file is the one that stands at this path; its holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), lock.stat())
    except FileNotFoundError:
        return False


def holder(file: IO[str]) -> str:
    """Who has a lock file, in words."""
    try:
        file.seek(0)
        about = json.loads(file.read())
        return f"the process {about['pid']} on {about['host']!r} since {about['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # between taking it and saying so
        return "another process"


def lock_file(file: IO[str]) -> None:
    """Lock an open file for this process alone. Errors: BlockingIOError where another has it."""
    try:
        if sys.platform == "win32":
            file.seek(2**30)  # far beyond what stands in it, which others may read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            warnings.warn(
                f"{file.name}: this file system has no locks, so nothing refuses a second process there", stacklevel=2
            )
        elif error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise BlockingIOError(error.errno, "locked") from error
        else:
            raise
