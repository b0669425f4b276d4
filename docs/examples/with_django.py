"""Articles by Django's ORM, and an index of their texts in the same file: `transaction.atomic` stores both or neither.

    pip install neardup-db django pysqlite3
    python with_django.py
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile

if not hasattr(sqlite3.Connection, "enable_load_extension"):  # before Django: it takes what is called sqlite3
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3

import django
from django.conf import settings
from django.db import connection, models, transaction

from neardup_db import Index, MinHash, demo

SCHEME = MinHash(threshold=0.8)

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": "",  # set below
            "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode = WAL"},
        }
    }
)
django.setup()


class Article(models.Model):
    url = models.TextField(primary_key=True)
    text = models.TextField()

    class Meta:
        app_label = "articles"


def index() -> Index:
    """The index on Django's connection of this thread; opened again when Django has opened another."""
    connection.ensure_connection()
    opened_on, found = getattr(connection, "neardup", (None, None))
    if found is None or opened_on is not connection.connection:
        found = Index(connection.connection, SCHEME)
        connection.neardup = connection.connection, found
    return found


def create(path: str) -> None:
    """Once, as a migration does: the table, and the index, outside of requests' transactions."""
    connection.settings_dict["NAME"] = path
    with connection.schema_editor() as editor:
        editor.create_model(Article)
    index()


@transaction.atomic
def store(url: str, text: str) -> bool:
    """Store an article unless nearly the same text is there."""
    if index().add_if_new(url, text):
        return False
    Article.objects.create(url=url, text=text)
    return True


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        create(f"{folder}/app.db")
        stored = sum(store(url, text) for url, text in demo.documents())
        try:
            with transaction.atomic():
                store("later", "A text that nobody has seen so far, and that will not be kept either")
                raise TimeoutError
        except TimeoutError:
            pass
        print(json.dumps({"stored": stored, "articles": Article.objects.count(), "indexed": len(index())}))
        connection.close()


if __name__ == "__main__":
    main()
