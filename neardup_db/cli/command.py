"""The class of all commands: an option that takes one value cannot be given twice."""

from __future__ import annotations

from collections import Counter
from functools import partial

import click


class Task(click.Command):
    """A command that refuses an option given twice; click alone would silently take the last value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the arguments into the context."""
        *_, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(given).items():
            if count > 1 and isinstance(parameter, click.Option) and not _may_repeat(parameter):
                names = "/".join(name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--"))
                raise click.UsageError(f"{names} is given {count} times; give it once", ctx)
        return super().parse_args(ctx, args)


def _may_repeat(option: click.Option) -> bool:
    """Whether repeating the option loses nothing: it collects its values, or is a flag with one meaning."""
    return option.multiple or option.count or (option.is_flag and not option.secondary_opts)


command = partial(click.command, cls=Task)
"""The decorator that makes a function a command."""
