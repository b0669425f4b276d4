"""Immutable parameter sets, the base of text rules and schemes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, cast

from .settings import Parameter

Init = TypeVar("Init", bound=Callable[..., None])
Self = TypeVar("Self", bound="Immutable")


class Immutable:
    """Base of `TextRules` and the schemes: frozen, compared by parameters, with a `repr` that can be evaluated."""

    _parameters: ClassVar[dict[str, Parameter[Any]]] = {}  # all by name, in the order of their rows in a file
    names: ClassVar[tuple[str, ...]] = ()  # of the constructor's parameters
    always_shown: ClassVar[tuple[str, ...]] = ()  # parameters that `repr` shows even if they have their defaults
    given: Mapping[str, Any]  # parameters that the caller gave, with their final values

    def __init_subclass__(cls) -> None:
        declared = {name: one for name, one in vars(cls).items() if isinstance(one, Parameter)}
        for name in declared:
            delattr(cls, name)
        cls._parameters = {**cls._parameters, **declared}
        cls.names = getattr(vars(cls).get("__init__"), "names", cls.names)

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to {name!r}: {type(self).__name__} is immutable; make a new one")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete {name!r}: {type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Immutable) and type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __repr__(self) -> str:
        defaults = {name: parameter.default for name, parameter in inspect.signature(type(self)).parameters.items()}
        written = (*self.given, *self.always_shown)
        shown = [name for name in self.names if name in written or getattr(self, name) != defaults[name]]
        return f"{type(self).__name__}({', '.join(f'{name}={_show(getattr(self, name))}' for name in shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (type(self), self._state(), dict(self.given))

    def _identity(self) -> tuple[Any, ...]:
        return tuple(self._state().values())

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._parameters}

    def _set(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def _cached(self, name: str, make: Callable[[], Any]) -> Any:
        """The result of make(), cached on this object (if two threads compute it, one result is kept)."""
        key = "_cached_" + name
        if key not in self.__dict__:
            self.__dict__.setdefault(key, make())
        return self.__dict__[key]

    def mismatches(self, stored: Immutable) -> list[str]:
        """One clause ("threshold=0.5, the file has 0.8") for each given parameter whose stored value differs."""
        if type(self) is not type(stored):
            return [f"the scheme {type(self).__name__}, the file has {type(stored).__name__}"]
        return [
            f"{name}={_show(value)}, the file has {_show(getattr(stored, name))}"
            for name, value in self.given.items()
            if (callable_name(value) or value) != (callable_name(getattr(stored, name)) or getattr(stored, name))
        ]

    def changed(self: Self, **changes: Any) -> Self:
        """A copy with other parameters, which are checked; computed defaults that depend on these are computed again."""
        other = {name for name, value in changes.items() if value != getattr(self, name)}
        again = {name: None for name in self.names if other.intersection(self._parameters[name].chosen_by)}
        return type(self)(**{**{name: getattr(self, name) for name in self.names}, **again, **changes})

    def _copy(self: Self, **changes: Any) -> Self:
        """A copy with other attributes, without checks and with the same `given`."""
        return restore(type(self), {**self._state(), **changes}, self.given)


def restore(cls: type[Self], state: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Self:
    """Create an object with these attributes without calling its constructor."""
    made = cls.__new__(cls)
    made.__dict__.update(state)
    made.__dict__["given"] = MappingProxyType(dict(given or {}))
    return made


def checked(init: Init) -> Init:
    """Decorate a constructor: first each parameter becomes an attribute with its checked value, at last `given` is set."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}(): {error}") from None
        written = {name: value for name, value in bound.arguments.items() if name != "self"}
        bound.apply_defaults()
        parameters = {name: self._parameters[name] for name in wrapper.names}  # type: ignore[attr-defined]
        self._set(**{name: one.checked(name, bound.arguments[name]) for name, one in parameters.items()})
        init(*bound.args, **bound.kwargs)
        given = {name: getattr(self, name) for name, value in written.items() if value not in parameters[name].chosen_for}
        self.__dict__["given"] = MappingProxyType(given)

    wrapper.names = tuple(signature.parameters)[1:]  # type: ignore[attr-defined]
    return cast(Init, wrapper)


def _show(value: Any) -> str:
    return str(getattr(value, "__qualname__", None) or repr(value))


def callable_name(function: Any) -> str | None:
    """module:qualname of an importable callable, None for anything else."""
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    return f"{module}:{qualname}"
