"""The errors of neardup_db, each a NearDupError, some also the built-in that a caller would expect; and its warning."""

from __future__ import annotations


class NearDupError(Exception):
    """Base of all errors that this package raises on purpose."""


class ParameterError(NearDupError, ValueError):
    """A parameter or an argument is wrong; the message names the value and what to do."""


class DuplicateKeyError(NearDupError):
    """A document with this key is already in the index."""


class KeyNotFoundError(NearDupError, KeyError):
    """No visible document has this key."""

    def __str__(self) -> str:
        return NearDupError.__str__(self)


class BusyError(NearDupError, TimeoutError):
    """Another connection held the database for longer than the timeout."""


class DiskFullError(NearDupError):
    """There was no room on the disk, and nothing of the call is stored."""


class CorruptIndexError(NearDupError):
    """What the file holds contradicts itself."""


class FormatError(NearDupError):
    """The file is not ours, or was written by a newer version."""


class MismatchError(NearDupError):
    """The parameters given are not those of the file."""


class ReadOnlyError(NearDupError):
    """A write to an index that was opened for reading only, or that cannot be written."""


class ClosedError(NearDupError):
    """The index was closed."""


class ShortTextsWarning(UserWarning):
    """Most texts of an `add_many` are too short for shingles of three words."""
