"""Parameters of text rules and schemes: how each is checked, and stored as a setting of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import CorruptIndexError, ParameterError
from .parameters import SEED_LIMIT, check_choice, check_flag, check_fraction, check_integer, check_seed

Value = TypeVar("Value")
Check = Callable[[str, Any], Value]  # of (name, value): returns the value to keep, or raises ParameterError


class Parameter(Generic[Value]):
    """A parameter, declared as an attribute of a subclass of `Immutable`, whose instances have its value instead.

    check: checks a caller's value; from_file: a stored one (default: check). to_file: the stored form of a value. chosen_for: the
    values for which the constructor chooses one; None among them is not checked. chosen_by: the parameters that decide it then.
    """

    def __init__(
        self,
        check: Check[Value],
        *,
        from_file: Check[Value] | None = None,
        to_file: Callable[[str, Any], Any] = lambda name, value: value,
        chosen_for: Sequence[Any] = (),
        chosen_by: Sequence[str] = (),
    ) -> None:
        self.from_file = from_file or check
        self.to_file = to_file
        self.chosen_for = chosen_for
        self.chosen_by = chosen_by
        self._check = check

    if TYPE_CHECKING:

        def __get__(self, instance: object, owner: type) -> Value: ...

    def checked(self, name: str, value: Any) -> Any:
        return value if value is None and None in self.chosen_for else self._check(name, value)


def integer(low: int, high: int, remedy: str = "", *, chosen_by: Sequence[str] = ()) -> Parameter[int]:
    """chosen_by: as in Parameter, for None."""

    def check(name: str, value: Any) -> int:
        return check_integer(name, value, low, high, remedy)

    return Parameter(check, chosen_for=(None,) if chosen_by else (), chosen_by=chosen_by)


def fraction(*, include_one: bool = True) -> Parameter[float]:
    return Parameter(lambda name, value: check_fraction(name, value, include_one))


def choice(*options: Any) -> Parameter[Any]:
    return Parameter(lambda name, value: check_choice(name, value, options))


def flag() -> Parameter[bool]:
    """A bool, stored as 0 or 1."""
    return Parameter(
        check_flag, from_file=lambda name, value: bool(check_integer(name, value, 0, 1)), to_file=lambda name, value: int(value)
    )


def seed() -> Parameter[int]:
    """0 to 2^63 - 1; "random" draws one."""
    return Parameter(check_seed, from_file=integer(0, SEED_LIMIT - 1).from_file, chosen_for=("random",))


def stored(settings: Mapping[str, Any], name: str, check: Check[Value]) -> Value:
    """A checked setting of a file. Raises CorruptIndexError if it is missing or invalid."""
    if name not in settings:
        raise CorruptIndexError(f"the setting {name!r} is missing from the file; restore the file from a backup")
    try:
        return check(name, settings[name])
    except ParameterError as error:
        raise invalid(settings, name) from error


def invalid(settings: Mapping[str, Any], name: str) -> CorruptIndexError:
    """The error for a damaged setting, or a word that only a newer package knows."""
    return CorruptIndexError(
        f"the setting {name!r} of the file is {settings.get(name)!r}, which this neardup-db does not know: install a newer "
        "neardup-db, or restore the file from a backup"
    )
