"""Waiting for the bytes of a descriptor, from which a signal can wake."""

from __future__ import annotations

import os
import queue
import threading

_BYTES = 1 << 16
"""Bytes that are read at once."""

_LOOK_AGAIN_S = 0.1
"""After this time a thread that waits runs the handlers of signals: on Windows no signal ends a wait."""

_READ_AHEAD = 4
"""Reads that the thread may be ahead of the consumer."""


class Waiting:
    """Reads a descriptor in a thread, on every system: `select` on Windows takes sockets alone. `wake` ends a wait, and may be
    called by the handler of a signal."""

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
        """Whether there is something to read, the end, or a call of `wake`; wait: however long it takes."""
        while self._held is None:
            try:
                self._held = self._fetched.get(timeout=_LOOK_AGAIN_S if wait else 0)
                return True
            except queue.Empty:
                if not wait:
                    return False
        return True

    def read(self) -> bytes:
        """The next bytes, b"" at the end; waits if none have arrived."""
        while self._held is None:
            self.is_ready(wait=True)
        arrived, self._held = self._held, None
        self._room.release()
        if isinstance(arrived, OSError):
            raise arrived
        return arrived

    def wake(self) -> None:
        """Ends a wait."""
        self._fetched.put(None)

    def close(self) -> None:
        """Ends the thread, but does not close the descriptor."""
        self._is_closed = True
        self._room.release()
