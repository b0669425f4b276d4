"""Turn the query texts into a C header: embed_sql.py FILE.sql... OUTPUT.h

The header holds `nd_sql_texts`, one {name, text} a file, name = the file's name without its ending. Where a text has the name of
another file in braces, that file's text stands; a frame stands once more for each verify_*.sql, as {"FRAME/NAME", text}, and
looks at all rows of a bucket, without a limit. Comment lines are left out: they are for readers of the .sql files, and the words
in braces that stand in them must not be replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path


def statement(path: Path) -> str:
    """A file's text without comment lines."""
    lines = [line.rstrip() for line in path.read_text(encoding="utf-8").splitlines()]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("--"))


def c_lines(text: str) -> list[str]:
    """The text as C string literals, one a line."""
    return ['"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in text.splitlines()]


def header(files: list[Path]) -> str:
    """The whole header."""
    parts = [
        "/* Made by embed_sql.py from neardup_db/sql. */",
        "static const struct nd_sql_text {",
        "    const char *name;",
        "    const char *text;",
        "} nd_sql_texts[] = {",
    ]
    texts = {path.stem: statement(path) for path in files}
    verified = {name.removeprefix("verify_"): text for name, text in texts.items() if name.startswith("verify_")}
    for frame in [name for name, text in texts.items() if "{verified}" in text]:
        texts |= {f"{frame}/{name}": texts[frame].replace("{verified}", text) for name, text in verified.items()}
    for name, text in texts.items():
        for fragment in texts:
            text = text.replace(f"{{{fragment}}}", texts[fragment])
        text = text.replace("{crowd}", "").replace("{limit}", "")
        body = "\n        ".join(c_lines(text))
        parts.append(f'    {{"{name}",\n        {body}}},')
    parts.append("};\n")
    return "\n".join(parts)


if __name__ == "__main__":
    *sources, output = [Path(argument) for argument in sys.argv[1:]]
    output.write_text(header(sources), encoding="utf-8")
