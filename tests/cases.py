"""Tests of many small cases, each of which costs less than a test does."""

from __future__ import annotations

import functools
import inspect
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from followed import Followed

Test = Callable[..., None]


def one_test(names: tuple[str, ...] = (), rows: Iterable[Any] = ((),), /, **axes: Iterable[Any]) -> Callable[[Test], Test]:
    """Calls a test with each row of arguments and each combination of the axes; the error names each case that fails. Cases share
    fixtures, but each has a folder of its own: with an application's file, or a copy of the file that is there."""
    tables = product(rows, [*product(*axes.values())])
    cases = [dict(zip(names, row, strict=True)) | dict(zip(axes, values, strict=True)) for row, values in tables]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed = {}
            for number, case in enumerate(cases):
                try:
                    with ExitStack() as opened:
                        test(**{name: _apart(one, f"case {number}", opened) for name, one in fixtures.items()}, **case)
                except (Exception, pytest.fail.Exception) as error:
                    failed[str(case)] = error
            if failed:
                raise AssertionError("\n".join(f"{case}: {error!r}" for case, error in failed.items())) from [*failed.values()][0]

        parameters = inspect.signature(test).parameters.items()
        run.__signature__ = inspect.Signature([one for name, one in parameters if name not in cases[0]])  # type: ignore[attr-defined]
        return run

    return decorate


def _apart(fixture: Any, name: str, opened: ExitStack) -> Any:
    if isinstance(fixture, Followed):
        return opened.enter_context(closing(Followed(_apart(fixture.path.with_name("own"), name, opened))))
    if not isinstance(fixture, Path):
        return fixture
    folder = (fixture if fixture.is_dir() else fixture.parent) / name
    folder.mkdir(exist_ok=True)
    return folder if fixture.is_dir() else Path(shutil.copy(fixture, folder)) if fixture.is_file() else folder / fixture.name
