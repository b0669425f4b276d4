"""Interruptible waiting for data on a file descriptor."""

from __future__ import annotations

import os
import queue
import threading

_BYTES = 1 << 16
"""The read size in bytes."""

_LOOK_AGAIN_S = 0.1
"""The longest wait in seconds before signal handlers run: on Windows a signal does not interrupt a wait."""

_READ_AHEAD = 4
"""Reads that the thread may be ahead of the consumer."""


class Waiting:
    """Reads a descriptor in a thread, because `select` on Windows accepts only sockets. `wake` ends a wait; signal handlers may
    call it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._fetched: queue.SimpleQueue[bytes | OSError | None] = queue.SimpleQueue()  # reentrant, for signal handlers
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
        """Whether data, the end or a `wake` is available. wait: block until then."""
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
        """The descriptor stays open."""
        self._is_closed = True
        self._room.release()
