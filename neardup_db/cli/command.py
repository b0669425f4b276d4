"""The class of all commands: refuses repeated single-value options and empty values."""

from __future__ import annotations

from collections import Counter
from functools import partial

import click


class Task(click.Command):
    """A command that refuses a repeated option, of which click would silently use the last value, and values that are invalid for
    every parameter of their type."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(given).items():
            if count > 1 and isinstance(parameter, click.Option) and not _may_repeat(parameter):
                raise click.UsageError(f"{_display_name(parameter)} is given {count} times; give it once", ctx)
        for parameter in self.params:
            raw = values.get(parameter.name or "")
            for value in raw if isinstance(raw, (list, tuple)) else (raw,):
                if isinstance(value, str):
                    _check(parameter, value, ctx)
        return super().parse_args(ctx, args)


def _check(parameter: click.Parameter, value: str, ctx: click.Context) -> None:
    """Refuses an empty value, as from an unset variable, which could otherwise mean the current folder or every address, and
    bytes that are not UTF-8, except in file names."""
    is_path, name = isinstance(parameter.type, (click.Path, click.File)), _display_name(parameter)
    if not value and (is_path or parameter.name in _NEVER_EMPTY):
        raise click.UsageError(f"{name} is empty: give {'the name of a file' if is_path else 'a value, or leave it out'}", ctx)
    try:
        value.encode()
    except UnicodeEncodeError:
        if not is_path:
            raise click.UsageError(f"{name} '{value}' is not UTF-8: convert it, for example with iconv", ctx) from None


_NEVER_EMPTY = ("host", "id_field", "glob", "source_name")


def _display_name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return "/".join(name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--"))
    return parameter.human_readable_name.partition(" ")[0].strip("[].")


def _may_repeat(option: click.Option) -> bool:
    return option.multiple or option.count or (option.is_flag and not option.secondary_opts)


command = partial(click.command, cls=Task)
"""Decorator that makes a function a command."""
