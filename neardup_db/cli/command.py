"""The class of all commands: no option that takes one value is given twice, and no value is empty by mistake."""

from __future__ import annotations

from collections import Counter
from functools import partial

import click


class Task(click.Command):
    """A command that refuses an option given twice, of which click alone would silently take the last value, and values that no
    parameter of their kind takes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the arguments into the context."""
        values, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(given).items():
            if count > 1 and isinstance(parameter, click.Option) and not _may_repeat(parameter):
                raise click.UsageError(f"{_called(parameter)} is given {count} times; give it once", ctx)
        for parameter in self.params:
            raw = values.get(parameter.name or "")
            for value in raw if isinstance(raw, (list, tuple)) else (raw,):
                if isinstance(value, str):
                    _check(parameter, value, ctx)
        return super().parse_args(ctx, args)


def _check(parameter: click.Parameter, value: str, ctx: click.Context) -> None:
    """Refuses an empty value, as of a variable that is not set, where it would name another thing: the current folder, every
    address. Refuses bytes that are not UTF-8, which only names of files may hold."""
    is_path, name = isinstance(parameter.type, (click.Path, click.File)), _called(parameter)
    if not value and (is_path or parameter.name in _NEVER_EMPTY):
        raise click.UsageError(f"{name} is empty: give {'the name of a file' if is_path else 'a value, or leave it out'}", ctx)
    try:
        value.encode()
    except UnicodeEncodeError:
        if not is_path:
            raise click.UsageError(f"{name} '{value}' is not UTF-8: convert it, for example with iconv", ctx) from None


_NEVER_EMPTY = ("host", "id_field", "glob", "source_name")


def _called(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return "/".join(name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--"))
    return parameter.human_readable_name.partition(" ")[0].strip("[].")


def _may_repeat(option: click.Option) -> bool:
    """Whether repeating the option loses nothing: it collects its values, or is a flag with one meaning."""
    return option.multiple or option.count or (option.is_flag and not option.secondary_opts)


command = partial(click.command, cls=Task)
"""The decorator that makes a function a command."""
