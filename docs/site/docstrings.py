"""How the docstrings of the package become Markdown: arguments as a list, examples as code, errors as links."""

from __future__ import annotations

import re
from copy import copy
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
PAGE = re.compile(r"docs/reference/(\w+)\.md")
MADE = re.compile(r"_(?:writing|reading|listing)\(Index\.(\w+)\)")
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
    name = f"(?:{'|'.join(map(re.escape, names))})"
    head, *rest = re.split(rf"(?:^|(?<=[.;)])\s+|\n)({name}(?:, {name})*):\s+", paragraph)
    if not rest:
        return paragraph
    described = zip(rest[::2], rest[1::2], strict=True)
    items = [f"- `{given.replace(', ', '`, `')}`: {' '.join(what.split())}" for given, what in described]
    return "\n\n".join([head.strip(), "\n".join(items)]).strip()


def show_defaults(function: griffe.Function) -> None:
    """Defaults that are constants of the module, private ones, by their value."""
    for parameter in function.parameters:
        constant = function.module.members.get(str(parameter.default))
        if str(parameter.default).startswith("_") and constant is not None and constant.is_attribute:
            parameter.default = constant.value


def show_coroutines(pkg: griffe.Module) -> None:
    """Give AsyncIndex, whose methods are made of those of Index (`add = _writing(Index.add)`), their signatures."""
    modules = [pkg[name] for name in ("reader", "querying", "passage_methods", "adding", "editing", "index")]
    owners = [owner for module in modules for owner in module.members.values() if not owner.is_alias and owner.is_class]
    methods = {name: each for owner in owners for name, each in owner.members.items() if each.is_function}
    ours = pkg["aio.AsyncIndex"]
    for name, member in [*ours.attributes.items()]:
        found = MADE.fullmatch(str(member.value))
        if found:
            method = copy(methods[found[1]])
            method.docstring = griffe.Docstring(method.docstring.value.partition("\n\n")[0], parent=method)
            method.labels = set() if "_listing" in found[0] else {"async"}
            ours.set_member(name, method)


class Docstrings(griffe.Extension):
    """Rewrites each docstring when the package is loaded."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        show_coroutines(pkg)
        errors = {name for name, member in pkg["errors"].members.items() if not member.is_alias and member.is_class}
        self._rewrite(pkg, errors)

    def _rewrite(self, thing: Any, errors: set[str]) -> None:
        for member in thing.members.values():
            if not member.is_alias:
                self._rewrite(member, errors)
        if thing.is_function:
            show_defaults(thing)
        if thing.docstring is None:
            return
        names: list[str] = []
        function = thing.members.get("__init__") if thing.is_class else thing
        if function is not None and function.is_function:
            names = [parameter.name for parameter in function.parameters if parameter.name != "self"]
        elif thing.is_class:
            names = [name for name, member in thing.members.items() if member.is_attribute]
        thing.docstring.value = markdown(thing.docstring.value, names, errors)
