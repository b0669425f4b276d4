"""Immutable sets of parameters: what text rules and schemes have in common."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, cast

Init = TypeVar("Init", bound=Callable[..., None])
Self = TypeVar("Self", bound="Immutable")


class Immutable:
    """Base of `TextRules` and of the schemes: frozen; equal when all parameters are equal; `repr` can be evaluated."""

    names: ClassVar[tuple[str, ...]] = ()
    """The parameters, in the order of the signature."""

    always_shown: ClassVar[tuple[str, ...]] = ()
    """The parameters that `repr` has even where they are the defaults."""

    given: Mapping[str, Any]
    """The parameters that the caller wrote down, with the values that they came to have."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to {name!r}: {type(self).__name__} is immutable; make a new one")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete {name!r}: {type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Immutable) and type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        written = (*self.given, *self.always_shown)
        shown = [name for name in self.names if name in written or getattr(self, name) != defaults[name]]
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

    def changed(self: Self, **changes: Any) -> Self:
        """The same with other parameters, checked as those of a new one."""
        return type(self)(**{**{name: getattr(self, name) for name in self.names}, **changes})

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


def _defaults(cls: type[Immutable]) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}


def _show(value: Any) -> str:
    if callable(value):
        return str(getattr(value, "__qualname__", repr(value)))
    return repr(value)


def differences(given: Mapping[str, Any], stored: Immutable) -> list[str]:
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
