"""Articles by SQLAlchemy, and an index of their texts in the same file: a session's commit stores both, its rollback neither.

    pip install neardup-db sqlalchemy pysqlite3
    python with_sqlalchemy.py
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from neardup_db import Index, MinHash, demo

if hasattr(sqlite3.Connection, "enable_load_extension"):
    LIBRARY: Any = sqlite3
else:  # a Python whose own module loads no extensions
    import pysqlite3

    LIBRARY = pysqlite3.dbapi2

SCHEME = MinHash(threshold=0.8)


class Base(orm.DeclarativeBase):
    pass


class Article(Base):
    __tablename__ = "article"

    url: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    text: orm.Mapped[str]


def open_engine(path: str | Path) -> sa.Engine:
    """The application's database, with its tables and the index."""
    engine = sa.create_engine(f"sqlite:///{path}", module=LIBRARY)

    @sa.event.listens_for(engine, "connect")
    def leave_transactions_to_sqlalchemy(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # else the module begins none for a savepoint, which then escapes a rollback
        connection.execute("PRAGMA journal_mode = WAL")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # one that has only read could not write after another one's commit

    Base.metadata.create_all(engine)
    with engine.connect() as connection:  # now: tables that are made in a session's transaction go with its rollback
        Index(connection.connection.driver_connection, SCHEME).close()
    return engine


def index_of(session: orm.Session) -> Index:
    """The index on the session's own connection; opened once for each connection of the pool."""
    connection = session.connection().connection
    if "neardup" not in connection.info:
        connection.info["neardup"] = Index(connection.driver_connection, SCHEME)
    index: Index = connection.info["neardup"]
    return index


def store(session: orm.Session, url: str, text: str) -> bool:
    """Store an article unless nearly the same text is there. Nothing is stored before the session commits."""
    if index_of(session).add_if_new(url, text):
        return False
    session.add(Article(url=url, text=text))
    return True


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(Path(folder) / "app.db")
        with orm.Session(engine) as session, session.begin():
            stored = sum(store(session, url, text) for url, text in demo.documents())
        with orm.Session(engine) as session:
            store(session, "later", "A text that nobody has seen so far, and that will not be kept either")
            session.rollback()
            articles = session.scalar(sa.select(sa.func.count()).select_from(Article))
            print(json.dumps({"stored": stored, "articles": articles, "indexed": len(index_of(session))}))
        engine.dispose()


if __name__ == "__main__":
    main()
