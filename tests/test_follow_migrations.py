"""Migrations by Django and by Alembic of a table that an index follows, beside a twin that nobody follows.

As a program the application, in a process of its own: python test_follow_migrations.py django|alembic SEED FOLLOWED TWIN. For
each line that it reads it migrates both tables in one way, writes rows, and prints what each of them says, as JSON."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

TABLE = "shop_article"
STEPS = 12


# ---- the application ---------------------------------------------------------------------------------------------------


def with_django(rng: random.Random, paths: list[str]) -> Iterator[list[Any]]:
    """Steps of the migrations framework, by its own operations and states."""
    import django
    from django.conf import settings
    from django.db import connections, migrations, models
    from django.db.migrations.state import ProjectState
    from django.db.models.functions import Lower

    files = {name: {"ENGINE": "django.db.backends.sqlite3", "NAME": path} for name, path in zip("ab", paths, strict=True)}
    settings.configure(DATABASES={**files, "default": files["a"]}, DEFAULT_AUTO_FIELD="django.db.models.AutoField")
    django.setup()
    fields = [
        ("id", models.AutoField(primary_key=True)),
        ("body", models.TextField(null=True)),
        ("slug", models.CharField(max_length=9, null=True)),
    ]
    state = ProjectState()

    def apply(operation: Any, state: Any) -> tuple[Any, list[Any]]:
        after, told = state.clone(), []
        operation.state_forwards("shop", after)
        for alias in "ab":
            try:
                with connections[alias].schema_editor(atomic=True) as editor:
                    operation.database_forwards("shop", editor, state, after)
                told.append("done")
            except Exception as error:
                told.append(str(error))
        return (after if told == ["done"] * 2 else state), told

    def unique(number: int) -> Any:
        if number % 3 == 2:
            return models.UniqueConstraint(Lower("slug"), name=f"u{number}")
        condition = models.Q(slug__gt="b") if number % 3 else None
        return models.UniqueConstraint(fields=["slug"], condition=condition, name=f"u{number}")

    state, told = apply(migrations.CreateModel("Article", fields), state)
    yield told
    added, constraints = [], []
    for number in range(STEPS):
        kind = rng.choice(["add field", "remove field", "constraint", "constraint", "no constraint", "alter", "rename field"])
        if kind == "add field":
            operation: Any = migrations.AddField("Article", f"f{number}", models.IntegerField(default=number))
            added.append(f"f{number}")
        elif kind == "remove field" and added:
            operation = migrations.RemoveField("Article", added.pop())
        elif kind == "rename field" and added:
            operation = migrations.RenameField("Article", added.pop(), f"g{number}")
        elif kind == "constraint":
            operation = migrations.AddConstraint("Article", unique(number))
            constraints.append(f"u{number}")
        elif kind == "no constraint" and constraints:
            operation = migrations.RemoveConstraint("Article", constraints.pop())
        else:
            operation = migrations.AlterField("Article", "slug", models.CharField(max_length=10 + number, null=True))
        before = state
        state, told = apply(operation, state)
        if state is before and kind == "constraint":
            constraints.pop()  # rows were in its way
        yield [*told, *_written(rng, [connections[alias].connection for alias in "ab"])]


def with_alembic(rng: random.Random, paths: list[str]) -> Iterator[list[Any]]:
    """Steps as a migration script has them: plain and batch operations."""
    import sqlalchemy as sa
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    engines = [sa.create_engine(f"sqlite:///{path}") for path in paths]
    connections = [engine.connect() for engine in engines]
    columns = "id INTEGER PRIMARY KEY, body TEXT, slug VARCHAR(9)"

    def apply(step: Callable[[Any], None]) -> list[Any]:
        told = []
        for connection in connections:
            try:
                with connection.begin():
                    step(Operations(MigrationContext.configure(connection)))
                told.append("done")
            except Exception as error:
                told.append(str(error).splitlines()[0])
        return told

    def batch(change: Callable[[Any], None], how: str = "auto") -> Callable[[Any], None]:
        def step(operations: Any) -> None:
            with operations.batch_alter_table(TABLE, recreate=how) as table:
                change(table)

        return step

    yield apply(lambda operations: operations.execute(f"CREATE TABLE {TABLE} ({columns})"))
    added, made = [], []
    for number in range(STEPS):
        kind = rng.choice(["add", "drop", "constraint", "index", "no index", "alter", "text of an index"])
        if kind == "add":
            added.append(sa.Column(f"f{number}", sa.Integer, server_default="1"))
            told = apply(batch(methodcaller("add_column", added[-1])))
        elif kind == "drop" and added:
            told = apply(batch(methodcaller("drop_column", added.pop().name), rng.choice(["auto", "never"])))
        elif kind == "constraint":
            told = apply(batch(methodcaller("create_unique_constraint", f"c{number}", ["slug"])))
        elif kind == "index":
            told = apply(methodcaller("create_index", f"i{number}", TABLE, ["slug"], unique=True))
        elif kind == "no index" and made:
            told = apply(methodcaller("drop_index", made.pop()))
        elif kind == "text of an index":
            told = apply(methodcaller("execute", f"CREATE UNIQUE INDEX i{number} ON {TABLE} (lower(slug)) WHERE slug > 'b'"))
        else:
            told = apply(batch(methodcaller("alter_column", "slug", type_=sa.String(10 + number)), "always"))
        if "index" in kind and kind != "no index" and told == ["done"] * 2:
            made.append(f"i{number}")
        raw = [connection.connection.driver_connection for connection in connections]
        yield [*told, *_written(rng, raw)]
        for connection in connections:
            connection.rollback()


def _written(rng: random.Random, sides: list[Any]) -> list[Any]:
    """A few rows written on both sides: what each says, and its rows."""
    told = []
    for _ in range(4):
        rule = rng.choice(["", "OR REPLACE", "OR IGNORE"])
        text, slug, key = rng.choice(["oak elm", "fir yew", None]), rng.choice("abcABC"), rng.choice([None, 1, 2, 3, 4])
        sql, values = rng.choice(
            [
                (f"INSERT {rule} INTO {TABLE} (id, body, slug) VALUES (?, ?, ?)", (key, text, slug)),
                (f"INSERT {rule} INTO {TABLE} (body, slug) VALUES (?, ?)", (text, slug)),
                (f"UPDATE {rule} {TABLE} SET body = ?, slug = ? WHERE id = ?", (text, slug, key)),
                (f"DELETE FROM {TABLE} WHERE slug = ?", (slug,)),
            ]
        )
        for side in sides:
            try:
                with side:
                    told.append(side.execute(sql, values).rowcount)
            except sqlite3.Error as error:
                told.append(str(error))
    return [*told, *(side.execute(f"SELECT id, body, slug FROM {TABLE} ORDER BY id").fetchall() for side in sides)]


# ---- the test ----------------------------------------------------------------------------------------------------------


@pytest.mark.examples
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", ["django", "alembic"])
def test_migrations_do_what_they_do_without_an_index(how: str, seed: int, tmp_path: Path) -> None:
    """Each step of a migration, and each write, says the same for a followed table and its twin; documents are the rows."""
    from support import SETS, WORDS

    from neardup_db import Index

    rng, paths = random.Random(seed), [tmp_path / "followed.db", tmp_path / "twin.db"]
    command = [sys.executable, __file__, how, str(seed), *map(str, paths)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None and program.stdout is not None
        index = None
        for number in range(STEPS + 1):
            program.stdin.write("\n")
            program.stdin.flush()
            told = json.loads(program.stdout.readline())
            assert told[::2] == told[1::2], told
            if index is None:
                index = Index(paths[0], SETS, text=WORDS, store_text=True, attach=True)
                index.follow(TABLE)
            elif rng.random() < 0.7 or number == STEPS:
                assert index.sync().complete
                assert {key: index.get(key).text for key in index} == {key: body for key, body, _ in told[-1] if body is not None}
        assert index is not None and index.check().problems == () and index.sync(full=True).found == 0
        index.close()
        program.stdin.close()
        assert program.wait() == 0


if __name__ == "__main__":
    steps = {"django": with_django, "alembic": with_alembic}[sys.argv[1]](random.Random(sys.argv[2]), sys.argv[3:])
    for _ in sys.stdin:
        print(json.dumps(next(steps)), flush=True)
