"""Routes of the pages, their permissions, and error pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlsplit

from datasette import Forbidden, Response
from datasette.utils import actor_matches_allow, tilde_decode, tilde_encode
from markupsafe import Markup

from ..errors import NearDupError, ParameterError
from ..index import Index
from ..values import Key
from . import contents
from .foreign import ForeignDatabase, index_names
from .policy import HEADERS, STYLE

PLUGIN = "neardup-db"
"""The plugin's name in Datasette's configuration."""

TIME_LIMIT_S = 10.0
"""The default time limit for the statements of one page, in seconds."""

MOST_BYTES = 16 << 20
"""The maximum size of a search form."""

LONGEST_FORM = 10_000
"""The maximum size of a button's form, in bytes."""

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


class Place(NamedTuple):
    """The index of a page. database: its name in Datasette; address: the URL of the index page."""

    database: str
    name: str
    address: str


async def has_indexes(db: Any) -> bool:
    return bool(await _names(db))


async def _names(db: Any) -> list[str]:
    found: list[str] = await db.execute_fn(lambda connection: index_names(ForeignDatabase(connection)))
    return found


async def indexes(datasette: Any, request: Any) -> Any:
    await datasette.ensure_permissions(request.actor, ["view-instance"])
    found, problems = [], []
    for name, db in datasette.databases.items():
        if name == "_internal" or not await _is_visible(datasette, request, name):
            continue
        try:
            names = await _names(db)
        except NearDupError as error:
            problems.append(f"{name}: {error}")
            continue
        found += [place_of(datasette, name, index) for index in names if await _is_visible(datasette, request, name, index)]
    return await _render(datasette, request, "neardup_indexes.html", {"places": found, "problems": problems})


async def index_page(datasette: Any, request: Any) -> Any:
    count = _number(request.args.get("clusters"), contents.CLUSTERS, contents.MOST_CLUSTERS)
    done, write = _last_action(request), _writes(datasette, request)
    return await _page(
        datasette,
        request,
        "neardup_index.html",
        lambda db, name: {**contents.overview(db, name, count), "notice": contents.notice(db, name, *done), "write": write},
    )


async def cluster_page(datasette: Any, request: Any) -> Any:
    """A cluster: its documents, and their differences from the earliest or the chosen document."""
    cluster = int(request.url_vars["cluster"])
    first = _number(request.args.get("from"), 0, contents.MAX_NUMBER)
    beside = _number(request.args.get("beside"), 0, contents.MAX_NUMBER)
    done, write = _last_action(request), _writes(datasette, request)
    return await _page(
        datasette,
        request,
        "neardup_cluster.html",
        lambda db, name: {
            **contents.cluster(db, name, cluster, first, beside, write),
            "notice": contents.notice(db, name, *done),
        },
    )


def _last_action(request: Any) -> tuple[str, int]:
    return request.args.get("done") or "", _number(request.args.get("document"), 0, contents.MAX_NUMBER)


def _writes(datasette: Any, request: Any) -> bool:
    db = _database(datasette, request)
    return db is not None and may_write(datasette, request, db)


async def search_page(datasette: Any, request: Any) -> Any:
    """The near-duplicates of a submitted text or code; for a GET request the empty form."""
    if request.method != "POST":
        return await _page(datasette, request, "neardup_search.html", lambda db, name: contents.search(db, name, None))
    body = await _body(request, MOST_BYTES)
    if body is None:
        problem = f"The form is larger than {MOST_BYTES >> 20} MB: search for such a text with neardup query."
        return await _problem(datasette, request, "Too large", problem, 413)
    sent = {name: values[0] for name, values in parse_qs(body, errors="replace").items()}
    return await _page(datasette, request, "neardup_search.html", lambda db, name: contents.search(db, name, sent))


async def _body(request: Any, most: int) -> str | None:
    """The request body; None if it is too long, whatever its headers say."""
    body, more = bytearray(), True
    while more and len(body) <= most:
        message = await request.receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body.decode("utf-8", "replace") if len(body) <= most else None


async def unknown_page(datasette: Any, request: Any) -> Any:
    return await _problem(datasette, request, "Not found", "There is no page at this address.", 404)


async def decide_page(datasette: Any, request: Any) -> Any:
    """Run a button's action, then show the cluster page again. Does nothing if writing is not allowed, or if the form is not from
    one of these pages."""
    db, index = _database(datasette, request), request.url_vars["index"]
    if db is None or not await _is_visible(datasette, request, db.name, index) or not may_write(datasette, request, db):
        raise Forbidden("This site only reads the index")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.scope["headers"]}
    if request.method != "POST" or not _is_own_page(headers):
        raise Forbidden("Only a button of these pages can write")
    body = await _body(request, LONGEST_FORM)
    if body is None:
        raise Forbidden("The form is too long for these pages")
    sent = dict(parse_qsl(body, keep_blank_values=True, errors="replace"))
    place = place_of(datasette, db.name, index)
    say = sent.get("say", "dismiss")
    if say not in DECISIONS:
        raise Forbidden("Only a button of these pages can write")
    try:
        keys = await db.execute_fn(lambda connection: _keys(connection, db.name, index, say, sent))
        await db.execute_write_fn(lambda connection: _decide(connection, index, say, keys))
        label = await db.execute_fn(lambda connection: contents.shown_cluster(ForeignDatabase(connection), index, sent))
    except contents.Unknown as error:
        return await _problem(datasette, request, "Not found", str(error), 404, place)
    except ParameterError as error:
        return await _problem(datasette, request, "Wrong value", str(error), 400, place)
    except NearDupError as error:
        return await _problem(datasette, request, "This could not be written", str(error), 500, place)
    document, first = (_number(sent.get(name), 0, contents.MAX_NUMBER) for name in ("a", "from"))
    address = place.address if label is None else f"{place.address}/clusters/{label}"
    if DECISIONS[say][0] == 2:
        return Response.redirect(address if label is None else f"{address}?beside={document}", 303)
    page = f"from={first}&" if first and label is not None else ""
    return Response.redirect(f"{address}?{page}done={say}&document={document}", 303)


def _keys(connection: Any, database: str, index: str, say: str, sent: Any) -> list[Key]:
    """The keys of a button's documents, or the number of an allowed text. Raises Unknown."""
    foreign = ForeignDatabase(connection)
    with foreign.reading():
        if index not in index_names(foreign):
            raise contents.Unknown(f"The database {database!r} holds no index named {index!r}.")
        count = DECISIONS[say][0]
        numbers = [_number(sent.get(name), 0, contents.MAX_NUMBER) for name in ("a", "b")]
        if count == 0:
            return [numbers[0]]
        return [contents.key_of(foreign, index, number) for number in numbers[:count]]


def _decide(connection: Any, name: str, say: str, keys: list[Key]) -> None:
    with Index(connection, name=name) as index:
        DECISIONS[say][1](index, *keys)


def _is_own_page(headers: dict[str, str]) -> bool:
    """Whether the browser's headers say that a page of the same site submitted a form, because other sites could submit forms to
    a local server."""
    host, origin = headers.get("host"), headers.get("origin")
    return host is not None and origin is not None and urlsplit(origin).netloc == host


def may_write(datasette: Any, request: Any, db: Any) -> bool:
    allow = (datasette.plugin_config(PLUGIN, database=db.name) or {}).get("write", False)
    return bool(db.is_mutable and db.path and actor_matches_allow(request.actor, allow))


_INDEX = r"^/-/neardup/(?P<database>[^/]+)/(?P<index>[A-Za-z][A-Za-z0-9_]{0,39})"

ROUTES: list[tuple[str, Callable[..., Any]]] = [
    (r"^/-/neardup$", indexes),
    (_INDEX + "$", index_page),
    (_INDEX + "/search$", search_page),
    (_INDEX + "/decide$", decide_page),
    (_INDEX + r"/clusters/(?P<cluster>-?[0-9]{1,19})$", cluster_page),
    (r"^/-/neardup/[^%]*[^%/]$", unknown_page),  # Datasette itself redirects the others to such URLs
]


def _database(datasette: Any, request: Any) -> Any:
    try:
        return datasette.get_database(route=tilde_decode(request.url_vars["database"]))
    except KeyError:
        return None


async def _page(datasette: Any, request: Any, template: str, ask: Callable[[ForeignDatabase, str], dict[str, Any]]) -> Any:
    """A page about one index. `ask` returns its contents; it runs in a Datasette thread, in one transaction, within the time
    limit."""
    db = _database(datasette, request)
    if db is None:
        return await _problem(datasette, request, "Unknown database", "No database of this name is attached.", 404)
    index = request.url_vars["index"]
    if not await _is_visible(datasette, request, db.name, index):
        raise Forbidden("view-table")
    limit_s = float((datasette.plugin_config(PLUGIN, database=db.name) or {}).get("time_limit_s", TIME_LIMIT_S))

    def in_thread(connection: Any) -> dict[str, Any]:
        foreign = ForeignDatabase(connection)
        with foreign.time_limit(limit_s), foreign.reading():
            if index not in index_names(foreign):
                raise contents.Unknown(f"The database {db.name!r} holds no index named {index!r}.")
            return ask(foreign, index)

    place = place_of(datasette, db.name, index)
    try:
        context = await db.execute_fn(in_thread)
    except contents.Unknown as error:
        return await _problem(datasette, request, "Not found", str(error), 404, place)
    except ParameterError as error:
        return await _problem(datasette, request, "Wrong value", str(error), 400, place)
    except NearDupError as error:
        return await _problem(datasette, request, "This index cannot be read", str(error), 500, place)
    return await _render(datasette, request, template, {**context, "place": place}, context.get("status", 200))


async def _problem(datasette: Any, request: Any, title: str, problem: str, status: int, place: Place | None = None) -> Any:
    context = {"title": title, "problem": problem, "place": place}
    return await _render(datasette, request, "neardup_problem.html", context, status)


async def _render(datasette: Any, request: Any, template: str, context: dict[str, Any], status: int = 200) -> Any:
    shared = {"style": Markup(STYLE), "shown": contents.value_html}
    html = await datasette.render_template(template, {**shared, **context}, request=request)
    return Response.html(html, status=status, headers=HEADERS)


async def _is_visible(datasette: Any, request: Any, database: str, index: str | None = None) -> bool:
    """Whether Datasette's permissions let the visitor see a database and, with `index`, all TABLES of that index."""
    shown = [[("view-table", (database, f"{index}_{table}"))] for table in TABLES] if index else [[]]
    for first in shown:
        permissions = [*first, ("view-database", database), "view-instance"]
        visible, _ = await datasette.check_visibility(request.actor, permissions=permissions)
        if not visible:
            return False
    return True


def place_of(datasette: Any, database: str, index: str) -> Place:
    route = tilde_encode(datasette.get_database(database).route)
    return Place(database, index, str(datasette.urls.path(f"/-/neardup/{route}/{index}")))


def _number(text: str | None, fallback: int, most: int) -> int:
    """A number from the URL, at most `most`; the fallback if it is missing or invalid."""
    return min(int(text), most) if text and text.isdecimal() and len(text) < 20 else fallback
