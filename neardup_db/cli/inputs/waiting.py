"""Waiting for the bytes of a descriptor, from which a signal can wake."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from typing import Protocol

from ... import system

_BYTES = 1 << 16
"""Bytes that are read at once."""

_LOOK_AGAIN_S = 0.1
"""After which a thread that waits runs the handlers of signals: on Windows none of them ends a wait."""

_READ_AHEAD = 4
"""Reads that a thread is ahead of what is asked for, at most."""


class Waiting(Protocol):
    """A descriptor that is waited for. `wake` ends a wait, and may be called by the handler of a signal."""

    def is_ready(self, wait: bool) -> bool:
        """Whether there is something to read, the end, or a call of `wake`; wait: however long it takes."""
        ...

    def read(self) -> bytes:
        """What has arrived; waits where that is nothing. b"" at the end."""
        ...

    def wake(self) -> None: ...

    def close(self) -> None:
        """Give back what waiting needs, not the descriptor."""
        ...


class Selecting:
    """Waits by `select`, which on Windows knows nothing but sockets."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)

    def is_ready(self, wait: bool) -> bool:
        ready, _, _ = select.select([self._descriptor, self._wake], [], [], None if wait else 0)
        return bool(ready)

    def read(self) -> bytes:
        return os.read(self._descriptor, _BYTES)

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._woken, b"\0")

    def close(self) -> None:
        os.close(self._wake)
        os.close(self._woken)


class Fetching:
    """Waits for a thread that reads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._fetched: queue.SimpleQueue[bytes | OSError | None] = queue.SimpleQueue()  # the one that a handler may put into
        self._held: bytes | OSError | None = None
        self._room = threading.Semaphore(_READ_AHEAD)
        self._is_closed = False
        threading.Thread(target=self._fetch, name="neardup-standard-input", daemon=True).start()

    def _fetch(self) -> None:
        while self._room.acquire() and not self._is_closed:
            try:
                arrived: bytes | OSError = os.read(self._descriptor, _BYTES)
            except OSError as error:
                arrived = error
            self._fetched.put(arrived)
            if not arrived or isinstance(arrived, OSError):
                return

    def is_ready(self, wait: bool) -> bool:
        while self._held is None:
            try:
                self._held = self._fetched.get(timeout=_LOOK_AGAIN_S if wait else 0)
                return True
            except queue.Empty:
                if not wait:
                    return False
        return True

    def read(self) -> bytes:
        while self._held is None:
            self.is_ready(wait=True)
        arrived, self._held = self._held, None
        self._room.release()
        if isinstance(arrived, OSError):
            raise arrived
        return arrived

    def wake(self) -> None:
        self._fetched.put(None)

    def close(self) -> None:
        self._is_closed = True
        self._room.release()


def waiting_for(descriptor: int) -> Waiting:
    """Waiting, as this system can."""
    return Selecting(descriptor) if system.SELECTS_ALL else Fetching(descriptor)
