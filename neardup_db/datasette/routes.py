"""Routes of the pages, their permissions, style and headers, and error pages."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from datasette import Forbidden, Response
from datasette.utils import actor_matches_allow, tilde_decode, tilde_encode
from markupsafe import Markup

from ..errors import NearDupError, ParameterError
from ..index import Index
from ..show.escape import escape
from ..show.style import CSS
from ..values import Key
from . import contents
from .contents import MAX_NUMBER, Problem
from .foreign import TIME_LIMIT_S, Cursor, index_names, reading

PLUGIN = "neardup-db"  # the plugin's name in Datasette's configuration
MOST_BYTES = 16 << 20  # the maximum size of a form

TABLES = ("setting", "document", "fingerprint", "match", "group")
"""The tables shown by the pages; a visitor needs permission to see all of them."""

DECISIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "dismiss": (2, Index.dismiss),
    "undismiss": (2, Index.undismiss),
    "apart": (1, Index.dismiss),
    "back": (1, Index.undismiss),
    "allow": (1, lambda index, key: index.allow(key=key)),
    "disallow": (1, lambda index, key: index.disallow(key=key)),
    "withdraw": (0, lambda index, number: index.disallow(id=number)),
}
"""By button: the number of its keys, and the method. "withdraw" takes the number of an allowed text."""


STYLE = CSS + "\n" + Path(__file__).with_name("pages.css").read_text(encoding="utf-8")

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode("utf-8")).digest()).decode("ascii")

HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""The browser runs no scripts on these pages, whatever a document contains, and loads nothing for them."""


class Place(NamedTuple):
    """The index of a page. database: its name in Datasette; address: the URL of the index page."""

    database: str
    name: str
    address: str


def place_of(datasette: Any, database: str, index: str) -> Place:
    route = tilde_encode(datasette.get_database(database).route)
    return Place(database, index, str(datasette.urls.path(f"/-/neardup/{route}/{index}")))


class Visit:
    """A request for a page. db: Datasette's database; place: a Place. Both are None if the URL names no attached database."""

    def __init__(self, datasette: Any, request: Any) -> None:
        self.datasette, self.request = datasette, request
        self.db: Any = None
        self.place: Any = None
        if "database" in request.url_vars:
            self.index = request.url_vars["index"]
            with suppress(KeyError):
                self.db = datasette.get_database(route=tilde_decode(request.url_vars["database"]))
                self.place = place_of(datasette, self.db.name, self.index)

    @property
    def settings(self) -> dict[str, Any]:
        return self.datasette.plugin_config(PLUGIN, database=self.db and self.db.name) or {}

    @property
    def may_write(self) -> bool:
        db, allow = self.db, self.settings.get("write", False)
        return bool(db and db.is_mutable and db.path and actor_matches_allow(self.request.actor, allow))

    async def may_see(self, database: str, index: str | None = None) -> bool:
        """Whether Datasette's permissions let the visitor see a database and, with `index`, all TABLES of that index."""
        for table in [[("view-table", (database, f"{index}_{table}"))] for table in TABLES] if index else [[]]:
            permissions = [*table, ("view-database", database), "view-instance"]
            visible, _ = await self.datasette.check_visibility(self.request.actor, permissions=permissions)
            if not visible:
                return False
        return True

    def number(self, name: str, fallback: int = 0, most: int = MAX_NUMBER) -> int:
        """A number from the URL, at most `most`; the fallback if it is missing or invalid."""
        return _number(self.request.args.get(name), fallback, most)

    async def form(self) -> dict[str, str]:
        """The submitted form. Raises Problem for one that is too large, whatever the headers say of its size."""
        body, more = bytearray(), True
        while more:
            message = await self.request.receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                why = f"The form is larger than {MOST_BYTES >> 20} MB: search for such a text with neardup query."
                raise Problem(why, "Too large", 413)
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, errors="replace"))

    async def read(self, ask: Callable[[Cursor, str], Any]) -> Any:
        """The answer of `ask`, which runs in a Datasette thread, in one transaction within the time limit. Raises Forbidden, and
        Problem for an unknown index."""
        db, index = self.db, self.index
        if db is None:
            raise Problem("No database of this name is attached.")
        if not await self.may_see(db.name, index):
            raise Forbidden("view-table")
        limit_s = float(self.settings.get("time_limit_s", TIME_LIMIT_S))

        def in_thread(connection: Any) -> Any:
            with reading(connection, limit_s) as cursor:
                if index not in index_names(cursor):
                    raise Problem(f"The database {db.name!r} holds no index named {index!r}.")
                return ask(cursor, index)

        return await db.execute_fn(in_thread)

    async def show(self, template: str, ask: Callable[[Cursor, str], dict[str, Any]]) -> Any:
        """A page about the index, with the contents that `ask` returns."""
        done, document = self.request.args.get("done") or "", self.number("document")
        context = await self.read(lambda db, name: {**ask(db, name), "notice": contents.notice(db, name, done, document)})
        return await self.render(template, {**context, "write": self.may_write}, context.get("status", 200))

    async def render(self, template: str, context: dict[str, Any], status: int = 200) -> Any:
        shared = {"style": Markup(STYLE), "shown": lambda value: Markup(escape(value)), "place": self.place}
        html = await self.datasette.render_template(template, {**shared, **context}, request=self.request)
        return Response.html(html, status=status, headers=HEADERS)


Page = Callable[[Any, Any], Awaitable[Any]]


def page(show: Callable[[Visit], Awaitable[Any]]) -> Page:
    """The route of a page. Errors become pages with the reason."""

    async def route(datasette: Any, request: Any) -> Any:
        visit = Visit(datasette, request)
        try:
            return await show(visit)
        except Problem as error:
            problem = error
        except ParameterError as error:
            problem = Problem(str(error), "Wrong value", 400)
        except NearDupError as error:
            cannot = "This could not be written" if show.__name__ == "decide_page" else "This index cannot be read"
            problem = Problem(str(error), cannot, 500)
        reason, title, status = problem.args
        return await visit.render("neardup_problem.html", {"title": title, "problem": reason}, status)

    return route


async def names_in(db: Any) -> list[str]:
    def in_thread(connection: Any) -> list[str]:
        with reading(connection) as cursor:
            return index_names(cursor)

    found: list[str] = await db.execute_fn(in_thread)
    return found


@page
async def indexes(visit: Visit) -> Any:
    datasette = visit.datasette
    await datasette.ensure_permissions(visit.request.actor, ["view-instance"])
    found, problems = [], []
    for name, db in datasette.databases.items():
        if name == "_internal" or not await visit.may_see(name):
            continue
        try:
            names = await names_in(db)
        except NearDupError as error:
            problems.append(f"{name}: {error}")
            continue
        found += [place_of(datasette, name, index) for index in names if await visit.may_see(name, index)]
    return await visit.render("neardup_indexes.html", {"places": found, "problems": problems})


@page
async def index_page(visit: Visit) -> Any:
    count = visit.number("clusters", contents.CLUSTERS, contents.MOST_CLUSTERS)
    return await visit.show("neardup_index.html", lambda db, name: contents.overview(db, name, count))


@page
async def cluster_page(visit: Visit) -> Any:
    """A cluster: its documents, and their differences from the earliest or the chosen document."""
    asked = int(visit.request.url_vars["cluster"]), visit.number("from"), visit.number("beside")
    return await visit.show("neardup_cluster.html", lambda db, name: contents.cluster(db, name, *asked))


@page
async def search_page(visit: Visit) -> Any:
    """The near-duplicates of a submitted text or code; for a GET request the empty form."""
    sent = await visit.form() if visit.request.method == "POST" else None
    return await visit.show("neardup_search.html", lambda db, name: contents.search(db, name, sent))


@page
async def unknown_page(visit: Visit) -> Any:
    raise Problem("There is no page at this address.")


@page
async def decide_page(visit: Visit) -> Any:
    """Run a button's action, then show the cluster page again. Does nothing if writing is not allowed, or if the form is not from
    one of these pages."""
    db, request = visit.db, visit.request
    if not visit.may_write or not await visit.may_see(db.name, visit.index):
        raise Forbidden("This site only reads the index")
    if request.method != "POST" or not _is_own_page(request.headers):
        raise Forbidden("Only a button of these pages can write")
    sent = await visit.form()
    say = sent.get("say", "dismiss")
    if say not in DECISIONS:
        raise Forbidden("Only a button of these pages can write")
    count, act = DECISIONS[say]
    document, other, first = (_number(sent.get(name)) for name in ("a", "b", "from"))

    def keys_of(cursor: Cursor, name: str) -> list[Key]:
        return [contents.key_of(cursor, name, number) for number in (document, other)[:count]] if count else [document]

    def write(connection: Any) -> None:
        with Index(connection, name=visit.index) as index:
            act(index, *keys)

    keys = await visit.read(keys_of)
    await db.execute_write_fn(write)
    label = await visit.read(lambda cursor, name: contents.shown_cluster(cursor, name, sent))
    address = visit.place.address if label is None else f"{visit.place.address}/clusters/{label}"
    if count == 2:
        return Response.redirect(address if label is None else f"{address}?beside={document}", 303)
    start = f"from={first}&" if first and label is not None else ""
    return Response.redirect(f"{address}?{start}done={say}&document={document}", 303)


def _is_own_page(headers: dict[str, str]) -> bool:
    """Whether the browser's headers say that a page of the same site submitted a form, because other sites could submit forms to
    a local server."""
    host, origin = headers.get("host"), headers.get("origin")
    return host is not None and origin is not None and urlsplit(origin).netloc == host


def _number(text: str | None, fallback: int = 0, most: int = MAX_NUMBER) -> int:
    return min(int(text), most) if text and text.isdecimal() and len(text) < 20 else fallback


_INDEX = r"^/-/neardup/(?P<database>[^/]+)/(?P<index>[A-Za-z][A-Za-z0-9_]{0,39})"

ROUTES: list[tuple[str, Page]] = [
    (r"^/-/neardup$", indexes),
    (_INDEX + "$", index_page),
    (_INDEX + "/search$", search_page),
    (_INDEX + "/decide$", decide_page),
    (_INDEX + r"/clusters/(?P<cluster>-?[0-9]{1,19})$", cluster_page),
    (r"^/-/neardup/[^%]*[^%/]$", unknown_page),  # Datasette itself redirects the others to such URLs
]
