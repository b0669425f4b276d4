"""docs/examples in applications: SQLAlchemy and Django."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_examples import APPLICATIONS, EXAMPLES, rows, run


@pytest.mark.examples
@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_example_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    """The article and its text in the index are counted alike, and what was rolled back is in neither."""
    said = json.loads(run(sys.executable, EXAMPLES / f"{name}.py", folder=tmp_path))
    assert said["stored"] == said["articles"] == said["indexed"] == 303


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Any]:
    """The database of the SQLAlchemy example."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        made = importlib.import_module("with_sqlalchemy").open_engine(tmp_path / "app.db")
        yield made
        made.dispose()
    finally:
        sys.path.remove(str(EXAMPLES))


def both(session: Any) -> list[str]:
    """The urls of the articles, which are the keys of the index."""
    import with_sqlalchemy as example

    urls = sorted(session.scalars(example.sa.select(example.Article.url)))
    index = example.index_of(session)
    assert sorted(index) == urls and index.check().problems == ()
    return urls


@pytest.mark.examples
def test_a_session_of_sqlalchemy_takes_the_index_along(engine: Any) -> None:
    """Its commit stores both; its rollback, that of a savepoint, and an error at the flush take both back."""
    import with_sqlalchemy as example

    one, two, three = rows(40)[3]["text"], rows(40, 2)[3]["text"], rows(40, 3)[3]["text"].upper()
    with example.orm.Session(engine) as session:
        assert example.store(session, "one", one) and not example.store(session, "same", one)
        session.rollback()
        assert both(session) == []
        assert example.store(session, "one", one)
        with session.begin_nested() as savepoint:
            assert example.store(session, "two", two + " other")
            session.flush()
            savepoint.rollback()
        assert example.store(session, "three", "quite " + three)
        session.commit()
        assert both(session) == ["one", "three"]
        session.add(example.Article(url="one", text="twice"))
        assert example.index_of(session).add("four", "four " * 30) == []
        with pytest.raises(example.sa.exc.IntegrityError):
            session.flush()
        session.rollback()
        assert both(session) == ["one", "three"]


@pytest.mark.examples
def test_threads_of_a_pool_admit_each_story_once(engine: Any) -> None:
    """Each thread has a session, and the pool gives each a connection with an index of its own: none hears that it is busy."""
    import threading

    import with_sqlalchemy as example

    stories = [f"story{number} " * 3 + " ".join(f"s{number}w{i}" for i in range(40)) for number in range(30)]
    admitted: list[str] = []
    failed: list[BaseException] = []

    def offer(worker: int) -> None:
        try:
            for number, text in enumerate(stories):
                with example.orm.Session(engine) as session:
                    if example.store(session, f"{worker}-{number}", text):
                        admitted.append(text)
                        if number % 3 == 2:  # a change of mind
                            admitted.pop(len(admitted) - 1 - admitted[::-1].index(text))
                            session.rollback()
                            continue
                    session.commit()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=offer, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(admitted) == sorted(text for number, text in enumerate(stories) if number % 3 != 2)
    with example.orm.Session(engine) as session:
        assert len(both(session)) == len(admitted)


DJANGO = """
import json, sys
sys.path.insert(0, sys.argv[1])
import with_django as example
from django.db import IntegrityError, connection, transaction

example.create("app.db")
texts = [" ".join(f"t{number}w{i}" for i in range(30)) for number in range(6)]

def both():
    urls = sorted(example.Article.objects.values_list("url", flat=True))
    assert sorted(example.index()) == urls and example.index().check().problems == ()
    return urls

assert example.store("a", texts[0]) and not example.store("b", texts[0])
with transaction.atomic():
    assert example.store("c", texts[1])
    try:
        with transaction.atomic():
            assert example.store("d", texts[2])
            raise KeyError
    except KeyError:
        pass
    assert both() == ["a", "c"]
try:
    with transaction.atomic():
        example.index().add("e", texts[3])
        example.Article.objects.create(url="a", text="twice")
except IntegrityError:
    pass
assert both() == ["a", "c"]
before = example.index()
connection.close()
assert both() == ["a", "c"] and example.index() is not before
assert example.store("f", texts[4])
with transaction.atomic():
    assert example.store("g", texts[5])
    transaction.set_rollback(True)
print(json.dumps(both()))
"""


@pytest.mark.examples
def test_atomic_blocks_of_django_take_the_index_along(tmp_path: Path) -> None:
    """Nested ones, those that fail, and those after Django has opened its connection anew."""
    assert json.loads(run(sys.executable, "-c", DJANGO, EXAMPLES, folder=tmp_path)) == ["a", "c", "f"]
