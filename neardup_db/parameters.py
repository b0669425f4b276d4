"""Immutable sets of parameters (text rules, schemes), and the checks that their parameters go through."""

from __future__ import annotations

import functools
import inspect
import math
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError
from types import MappingProxyType
from typing import Any, ClassVar, TypeGuard, TypeVar, cast

import numpy as np

from .errors import CorruptIndexError, ParameterError

Init = TypeVar("Init", bound=Callable[..., None])
Self = TypeVar("Self", bound="Parameters")

SEED_LIMIT = 1 << 63

_INDEX_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}\Z")


class Parameters:
    """Base of `TextRules` and of the schemes: frozen; equal when all parameters are equal; `repr` can be evaluated."""

    names: ClassVar[tuple[str, ...]] = ()
    """The parameters, in the order of the signature."""

    given: Mapping[str, Any]
    """The parameters that the caller wrote down, with the values that they came to have."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to {name!r}: {type(self).__name__} is immutable; make a new one")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete {name!r}: {type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameters) and type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        shown = [name for name in self.names if name in self.given or getattr(self, name) != defaults[name]]
        return f"{type(self).__name__}({', '.join(f'{name}={_show(getattr(self, name))}' for name in shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if not name.startswith("_cached") and name != "given"}
        return restore, (type(self), state, dict(self.given))

    def _identity(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.names)

    def _set(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def _cached(self, name: str, make: Callable[[], Any]) -> Any:
        """What make() returns, kept with this object (two threads may both make it; one of the two is kept)."""
        key = "_cached_" + name
        if key not in self.__dict__:
            self.__dict__.setdefault(key, make())
        return self.__dict__[key]

    def _copy(self: Self, **changes: Any) -> Self:
        """The same with other attributes, nothing checked again; `given` stays."""
        state = {name: value for name, value in self.__dict__.items() if not name.startswith("_cached")}
        return restore(type(self), {**state, **changes}, self.given)


def restore(cls: type[Self], state: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Self:
    """An object with these attributes, made without its constructor."""
    made = cls.__new__(cls)
    made.__dict__.update(state)
    made.__dict__["given"] = MappingProxyType(dict(given or {}))
    return made


def records_given(automatic: tuple[str, ...] = ()) -> Callable[[Init], Init]:
    """Decorator of a constructor: sets `given` to the parameters that the call wrote down.

    None for one of `automatic` means "choose", and "random" "draw one": neither says anything about the value, so neither counts.
    """

    def decorate(init: Init) -> Init:
        names = tuple(inspect.signature(init).parameters)[1:]

        @functools.wraps(init)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            written = {**dict(zip(names, args, strict=False)), **kwargs}
            given = {
                name: getattr(self, name)
                for name in names
                if name in written
                and not (written[name] is None and name in automatic)
                and not (isinstance(written[name], str) and written[name] == "random")
            }
            self.__dict__["given"] = MappingProxyType(given)

        return cast(Init, wrapper)

    return decorate


def _defaults(cls: type[Parameters]) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}


def _show(value: Any) -> str:
    """A value as it is written in source code."""
    if callable(value):
        return str(getattr(value, "__qualname__", repr(value)))
    return repr(value)


# ---- checks of what callers pass ---------------------------------------------------------------------------------------


def integer(name: str, value: Any, low: int, high: int, remedy: str = "") -> int:
    """value as an int in low..high; numpy integers count, bool and float do not."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ParameterError(f"{name} must be an integer from {low} to {high}, not {value!r}{_and(remedy)}")
    if not low <= value <= high:
        raise ParameterError(f"{name} must be from {low} to {high}, not {value}{_and(remedy)}")
    return int(value)


def fraction(name: str, value: Any, include_one: bool = True) -> float:
    """value as a float in (0, 1], or in (0, 1)."""
    interval = "above 0 and at most 1" if include_one else "above 0 and below 1"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ParameterError(f"{name} must be a number {interval}, not {value!r}")
    number = float(value)
    if math.isnan(number) or not 0.0 < number <= 1.0 or (number == 1.0 and not include_one):
        raise ParameterError(f"{name} must be {interval}, not {value}")
    return number


def choice(name: str, value: Any, options: Sequence[Any]) -> Any:
    """value, which must be one of options."""
    if not any(value is option or (type(value) is type(option) and value == option) for option in options):
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, options))}, not {value!r}")
    return value


def flag(name: str, value: Any) -> bool:
    """value as a bool; nothing else counts as one."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def seed(name: str, value: Any) -> int:
    """value as a seed of 0 to 2^63 - 1; "random" draws one."""
    if isinstance(value, str):
        choice(name, value, ("random",))
        return secrets.randbelow(SEED_LIMIT - 1) + 1
    return integer(name, value, 0, SEED_LIMIT - 1, 'or "random"')


def is_index_name(name: Any) -> TypeGuard[str]:
    """Whether this is a name that an index may have, and that may be put into SQL."""
    return isinstance(name, str) and _INDEX_NAME.match(name) is not None


def index_name(name: Any) -> str:
    """The name of an index, if it is one that may be put into SQL."""
    if not is_index_name(name):
        raise ParameterError(f"name={name!r}: an index's name is a letter and then at most 39 letters, digits or underscores")
    return name


def _and(remedy: str) -> str:
    return f" ({remedy})" if remedy else ""


# ---- checks of what a file holds ---------------------------------------------------------------------------------------


class Stored:
    """Settings of a file, read one by one: CorruptIndexError names what is missing or of a wrong type."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def value(self, name: str) -> Any:
        """The setting, which must exist; None is a value."""
        if name not in self.settings:
            raise CorruptIndexError(f"the setting {name!r} is missing from the file; restore the file from a backup")
        return self.settings[name]

    def integer(self, name: str, low: int = 0, high: int = (1 << 63) - 1) -> int:
        """An integer in low..high."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, f"an integer from {low} to {high}")
        return value

    def fraction(self, name: str) -> float:
        """A number above 0 and at most 1."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise self.wrong(name, "a number above 0 and at most 1")
        return float(value)

    def text(self, name: str, options: Iterable[str] | None = None) -> str:
        """A string, one of options if they are given."""
        value = self.value(name)
        allowed = None if options is None else list(options)
        if not isinstance(value, str) or (allowed is not None and value not in allowed):
            raise self.wrong(name, "text" if allowed is None else "one of " + ", ".join(map(repr, allowed)))
        return value

    def wrong(self, name: str, expected: str) -> CorruptIndexError:
        """The error to raise for a setting that is not what it must be."""
        return CorruptIndexError(
            f"the setting {name!r} of the file is {self.settings.get(name)!r}, but must be {expected}; "
            "restore the file from a backup"
        )


def differences(given: Mapping[str, Any], stored: Parameters) -> list[str]:
    """One clause for each parameter of `given` that `stored` has with another value."""
    return [
        f"{name}={_show(value)}, the file has {_show(getattr(stored, name, None))}"
        for name, value in given.items()
        if _comparable(value) != _comparable(getattr(stored, name, None))
    ]


def callable_name(function: Any) -> str | None:
    """module:qualname of a callable that can be imported again, else None."""
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    return f"{module}:{qualname}"


def _comparable(value: Any) -> Any:
    return (callable_name(value) or value) if callable(value) else value
