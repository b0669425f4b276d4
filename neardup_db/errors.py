"""The exceptions, each a NearDupError and some also the matching built-in, and a warning."""

from __future__ import annotations


class NearDupError(Exception):
    """Base class of all exceptions of this package."""


class ParameterError(NearDupError, ValueError):
    """An invalid parameter or argument. The message names the value and the remedy."""


class DuplicateKeyError(NearDupError):
    """A document with this key is already in the index."""


class KeyNotFoundError(NearDupError, KeyError):
    """No visible document has this key."""

    def __str__(self) -> str:
        return NearDupError.__str__(self)


class BusyError(NearDupError, TimeoutError):
    """Another connection held the database for longer than the timeout."""


class DiskFullError(NearDupError):
    """The disk is full. The call has stored nothing."""


class CorruptIndexError(NearDupError):
    """The content of the file is inconsistent."""


class FormatError(NearDupError):
    """The file is not a neardup_db file, or a newer version has written it."""


class MismatchError(NearDupError):
    """The given parameters differ from the parameters of the file."""


class ReadOnlyError(NearDupError):
    """A write to a read-only index or file."""


class ClosedError(NearDupError):
    """The index was closed."""


class ShortTextsWarning(UserWarning):
    """Most texts of an `add_many` are too short for shingles of three words."""
