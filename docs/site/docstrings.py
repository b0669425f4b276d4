"""How the docstrings of the package become Markdown: arguments as a list, examples as code, errors as links."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
PAGE = re.compile(r"docs/reference/(\w+)\.md")
ERROR = re.compile(r"(?<![`\w.\[])([A-Z]\w+(?:Error|Warning))(?![`\w])")


def markdown(text: str, names: list[str], errors: set[str]) -> str:
    """The docstring of an object that has arguments of these names."""
    parts = []
    for paragraph in re.split(r"\n{2,}", text):
        if paragraph.startswith(">>> "):
            parts.append(f"```pycon\n{paragraph}\n```")
        else:
            linked_pages = PAGE.sub(r"[\1](../\1.md)", paragraph)
            parts.append(listed(ERROR.sub(lambda found: linked(found[1], errors), linked_pages), names))
    return "\n\n".join(parts)


def linked(name: str, errors: set[str]) -> str:
    """An error of the package with a link to it; another one as code."""
    return f"[`{name}`][neardup_db.errors.{name}]" if name in errors else f"`{name}`"


def listed(paragraph: str, names: list[str]) -> str:
    """A paragraph whose sentences "name: what it is." stand as a list."""
    if not names:
        return paragraph
    head, *rest = re.split(rf"(?:^|(?<=[.;)])\s+|\n)({'|'.join(map(re.escape, names))}):\s+", paragraph)
    if not rest:
        return paragraph
    items = [f"- `{name}`: " + " ".join(what.split()) for name, what in zip(rest[::2], rest[1::2], strict=True)]
    return "\n\n".join([head.strip(), "\n".join(items)]).strip()


class Docstrings(griffe.Extension):
    """Rewrites each docstring when the package is loaded."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        errors = {name for name, member in pkg["errors"].members.items() if not member.is_alias and member.is_class}
        self._rewrite(pkg, errors)

    def _rewrite(self, thing: Any, errors: set[str]) -> None:
        for member in thing.members.values():
            if not member.is_alias:
                self._rewrite(member, errors)
        if thing.docstring is None:
            return
        names: list[str] = []
        function = thing.members.get("__init__") if thing.is_class else thing
        if function is not None and function.is_function:
            names = [parameter.name for parameter in function.parameters if parameter.name != "self"]
        elif thing.is_class:
            names = [name for name, member in thing.members.items() if member.is_attribute]
        thing.docstring.value = markdown(thing.docstring.value, names, errors)
