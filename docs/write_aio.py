"""Writes neardup_db/aio/methods.py: the methods of Index as coroutines, with their signatures and docstrings.

Run it after a change of a public method of Index or Reader.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "neardup_db"
MODULE = PACKAGE / "aio" / "methods.py"
WIDTH = 130

BY_HAND = {
    "close", "connection", "dismissed", "name", "pairs", "pairs_with", "scheme", "text_rules", "transaction", "window",
}  # fmt: skip
"""What has another form in AsyncIndex, and is written there."""

INSTEAD = {
    ("__init__", "target"): "str | bytes | os.PathLike[str] | os.PathLike[bytes]",
    ("merge", "other"): "Methods | Reader | str | bytes | os.PathLike[str]",
    ("add_many", "records"): (
        "Iterable[tuple[Key, str | bytes] | list[Any] | Mapping[str, Any]]"
        " | AsyncIterable[tuple[Key, str | bytes] | list[Any] | Mapping[str, Any]] | ArrowStream | ArrowArray"
    ),
}
"""Types of arguments that are other ones here."""

MORE = {
    "add_many": (
        "records may be an asynchronous iterable, too: this task reads it, and its calls of the index come between two records; "
        "with `commit_every` other tasks write between two commits. Any other iterable, and a generator, runs in the thread that "
        "writes. If this task is cancelled, an asynchronous iterable ends, and what was not committed before is not stored; any "
        "other load goes on. `progress` and `on_outcome` are called on the loop, and awaited if they can be."
    ),
    "rebuild": "`progress` is called on the loop, and awaited if it can be.",
    "add_codes": (
        "keys and codes are read in the thread that writes; `progress` and `on_outcome` are called on the loop, and awaited if "
        "they can be."
    ),
    "import_fingerprints": "`progress` and `on_outcome` are called on the loop, and awaited if they can be.",
    "merge": "other may be an AsyncIndex, too. `progress` is called on the loop, and awaited if it can be.",
    "sync": "`progress` is called on the loop, and awaited if it can be.",
}
"""What a docstring says besides."""

HEAD = '''"""The methods of `Index` as coroutines. Written by docs/write_aio.py: change it, or `Index`, and run it again."""

from __future__ import annotations

{imports}


class Methods:
    """What AsyncIndex has of `Index` as it stands there."""

    if TYPE_CHECKING:

        def _begin(self) -> None: ...
        async def _call_reader(self, name: str, *args: Any, **kwargs: Any) -> Any: ...
        async def _write(self, name: str, *args: Any, **kwargs: Any) -> Any: ...
        async def _load(self, records: Any, **kwargs: Any) -> Any: ...

'''


class Source:
    """One module of the package with a class of Index's methods, parsed. reads: whether these only read."""

    def __init__(self, name: str, owner: str, *, reads: bool = False) -> None:
        self.name = name
        self.text = (PACKAGE / f"{name}.py").read_text("utf-8")
        self.tree = ast.parse(self.text)
        self.reads = reads
        (self.body,) = (node.body for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == owner)

    def functions(self) -> Iterator[ast.FunctionDef]:
        """The public methods, and `__init__`."""
        for node in self.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.name not in BY_HAND:
                require_plain(node)
                yield node

    def initializer(self) -> ast.FunctionDef:
        """`__init__`."""
        return next(node for node in self.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")

    def of(self, node: ast.expr | None) -> str:
        """The source of an expression."""
        return ast.get_source_segment(self.text, node) or "" if node is not None else ""

    def names(self) -> Iterator[tuple[str, str]]:
        """Names that the module has, each with the module it comes from, as a module of aio/ sees it."""
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom):
                source = f"{'.' * (node.level + 1)}{node.module or ''}" if node.level else node.module or ""
                yield from ((alias.name, source) for alias in node.names)
            elif isinstance(node, ast.Assign):
                yield from ((name.id, f"..{self.name}") for name in node.targets if isinstance(name, ast.Name))


def require_plain(function: ast.FunctionDef) -> None:
    """SystemExit for what cannot be a coroutine (a property, a context manager, a generator), and for unknown parameters."""
    returned = ast.unparse(function.returns) if function.returns is not None else ""
    if function.decorator_list or returned.startswith(("Iterator", "Generator")):
        raise SystemExit(f"{function.name} is no plain method: write it by hand in neardup_db/aio, and name it in BY_HAND")
    if function.args.posonlyargs or function.args.vararg is not None:
        raise SystemExit(f"{function.name} has parameters that this script does not write: teach it to")


def parameters(source: Source, function: ast.FunctionDef) -> tuple[list[str], list[str]]:
    """The parameters as they are written in a signature, and as they are passed on."""
    args, written, passed = function.args, [], []
    defaults = [None] * (len(args.args) - len(args.defaults)) + [*args.defaults]
    for kind, each, default in (
        *((0, *one) for one in zip(args.args[1:], defaults[1:], strict=True)),
        *((1, *one) for one in zip(args.kwonlyargs, args.kw_defaults, strict=True)),
    ):
        if kind and "*" not in written:
            written.append("*")
        type_ = INSTEAD.get((function.name, each.arg), source.of(each.annotation))
        written.append(f"{each.arg}: {type_}" + (f" = {source.of(default)}" if default is not None else ""))
        passed.append(f"{each.arg}={each.arg}" if kind else each.arg)
    if args.kwarg is not None:
        written.append(f"**{args.kwarg.arg}: {source.of(args.kwarg.annotation)}")
        passed.append(f"**{args.kwarg.arg}")
    return written, passed


def call(before: str, parts: list[str], after: str, indent: int) -> str:
    """`before(parts)after`, on one line if there is room."""
    space = " " * indent
    line = f"{space}{before}({', '.join(parts)}){after}"
    if len(line) <= WIDTH:
        return line
    inner = f"{space}    {', '.join(parts)}"
    if len(inner) <= WIDTH:
        return f"{space}{before}(\n{inner}\n{space}){after}"
    lines = "".join(f"{space}    {line}\n" for line in packed(parts, WIDTH - indent - 4))
    return f"{space}{before}(\n{lines}{space}){after}"


def packed(parts: list[str], width: int) -> Iterator[str]:
    """Lines of as many parts as there is room for; a long union of types has several lines."""
    line = ""
    for part in parts:
        if line and len(line) + len(part) + 2 > width:
            yield line
            line = ""
        line += f"{' ' if line else ''}{part},"
        while len(line) > width:
            place = line.rindex(" | ", 0, width)
            yield line[:place]
            line = line[place + 1 :]
    yield line


def docstring(function: ast.FunctionDef) -> str:
    """The first paragraph of the docstring, since Index has the arguments and the examples, and what is to be said here."""
    kept = inspect.cleandoc(ast.get_docstring(function) or "").split("\n\n")[:1]
    kept += [textwrap.fill(MORE[function.name], WIDTH - 8)] if function.name in MORE else []
    text = textwrap.indent("\n\n".join(kept), " " * 8).strip()
    end = '"""' if len(kept) == 1 and "\n" not in text and len(text) < WIDTH - 14 else '\n        """'
    return f'        """{text}{end}'


def method(source: Source, function: ast.FunctionDef) -> str:
    """The coroutine for a method."""
    written, passed = parameters(source, function)
    returned = source.of(function.returns)
    way = "_call_reader" if source.reads else "_write"
    before, given = f"self.{way}", [f'"{function.name}"', *passed]
    if function.name == "add_many":
        before, given = "self._load", passed
    head = call(f"async def {function.name}", ["self", *written], f" -> {returned}:", 4)
    if returned == "None":
        return f"{head}\n{docstring(function)}\n{call(f'await {before}', given, '', 8)}\n"
    answer = call(f"answer: {returned} = await {before}", given, "", 8)
    return f"{head}\n{docstring(function)}\n{answer}\n        return answer\n"


def initializer(source: Source) -> str:
    """`__init__`, which takes the arguments of Index and two more."""
    function = source.initializer()
    written, passed = parameters(source, function)
    written += ["readers: int | None = None", "on_late_result: Callable[[Any], Any] | None = None"]
    options = ["scheme=scheme", *(one for one in passed if "=" in one)]
    return (
        f"{call('def __init__', ['self', *written], ' -> None:', 4)}\n"
        "        self._target = target\n"
        f"{call('self._options: dict[str, Any] = dict', options, '', 8)}\n"
        "        self._readers = readers\n"
        "        self._on_late_result = on_late_result\n"
        "        self._begin()\n"
    )


def module() -> str:
    """The text of the module."""
    writing = [Source("adding", "AddMethods"), Source("editing", "EditMethods"), Source("index", "Index")]
    reading = [("querying", "QueryMethods"), ("passage_methods", "PassageMethods"), ("reader", "Reader")]
    sources = [*writing, *(Source(name, owner, reads=True) for name, owner in reading)]
    methods = [initializer(writing[-1])]
    methods += [method(source, function) for source in sources for function in source.functions()]
    body = "\n".join(methods)
    names = {node.id for node in ast.walk(ast.parse(f"class _:\n{body}")) if isinstance(node, ast.Name)}
    wanted: dict[str, set[str]] = {"collections.abc": {"AsyncIterable"}, "typing": {"TYPE_CHECKING", "Any"}}
    for source in sources:
        for name, where in source.names():
            if name in names:
                wanted.setdefault(where, set()).add(name)
    ordered = sorted(wanted, key=lambda where: (where.startswith("."), where))
    lines = [_import(where, sorted(wanted[where], key=_isort)) for where in ordered]
    first = sum(not where.startswith(".") for where in ordered)
    imports = "\n".join(["import os", *lines[:first], "", *lines[first:]])
    return HEAD.format(imports=imports) + body


def _import(where: str, names: list[str]) -> str:
    line = f"from {where} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"from {where} import (", *(f"    {name}," for name in names), ")"])


def _isort(name: str) -> tuple[int, str]:
    """Constants, classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


if __name__ == "__main__":
    MODULE.write_text(module(), "utf-8")
