"""Commands for human review and for systems that follow an index: dismiss, undismiss, allow, disallow, changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import click

from ..index import Index
from . import common
from .common import Results
from .output import count_text, escaped, print_note
from .wording import told_as


@common.index_command()
@click.argument("keys", metavar="[KEY [KEY]]", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="Print the dismissed pairs instead.")
@common.key_type_option
def dismiss(index: Index, keys: tuple[str, ...], listing: bool, key_type: str) -> Results:
    """Two KEYs: the pair is no longer a match, and its cluster is split unless other documents connect the two. One KEY: the same
    for every pair of the document with a matching one. Dismissals survive a rebuild, and end when one of the two is deleted or
    replaced. Exit code 1 if nothing changed, or no pair is listed.

    \b
    neardup dismiss articles.db a1 a2
    neardup dismiss articles.db a1
    neardup dismiss articles.db --list
    """
    if not listing:
        return (yield from _decide(index.dismiss, keys, key_type, ("dismissed", "were dismissed already")))
    if keys:
        raise click.UsageError("--list cannot be combined with KEYs")
    for a, b in index.dismissed():
        yield {"key_a": a, "key_b": b}, f"{escaped(a)}\t{escaped(b)}"


@common.index_command()
@click.argument("keys", metavar="KEY [KEY]", nargs=-1)
@common.key_type_option
def undismiss(index: Index, keys: tuple[str, ...], key_type: str) -> Results:
    """Two KEYs: the dismissal of their pair. One KEY: all dismissals of the document. Exit code 1 if there was none.

    \b
    neardup undismiss articles.db a1 a2
    neardup undismiss articles.db a1
    """
    return (yield from _decide(index.undismiss, keys, key_type, ("no longer dismissed", "were not dismissed")))


def _decide(decide: Callable[..., int], keys: tuple[str, ...], key_type: str, told: tuple[str, str]) -> Results:
    if len(keys) not in (1, 2):
        raise click.UsageError("Give two KEYs, or the KEY of one document")
    parsed = [common.parse_key(key, key_type) for key in keys]
    with told_as(key_a="the first KEY", key_b="the second KEY"):
        done = decide(*parsed)
    outcome = f"{count_text(done, 'pair')} {told[0]}" if len(keys) == 1 else told[0] if done else told[1]
    value = {**dict(zip(("key_a", "key_b"), parsed, strict=False)), "changed": done}
    yield value, f"{' and '.join(map(escaped, parsed))}: {outcome}"
    return 0 if done else 1


@common.index_command()
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--key", metavar="KEY", help="Allow the text of this document.")
@click.option("--note", metavar="TEXT", help="A note for the list.")
@click.option("--list", "listing", is_flag=True, help="Print the allowed texts instead.")
@common.key_type_option
def allow(index: Index, text: str | None, key: str | None, note: str | None, listing: bool, key_type: str) -> Results:
    """Use it for greetings, footers and automatic replies. Stored documents like TEXT leave their clusters, and new ones are
    stored without a match. INDEX stores the fingerprint of TEXT, and TEXT itself only if it stores texts. The list has number,
    time, note and text. Exit code 1 if the list is empty.

    \b
    neardup allow chat.db "Thanks for your message, we will reply within 24 hours"
    neardup allow chat.db --key a1 --note "automatic reply"
    neardup allow chat.db --list
    """
    if listing:
        if text is not None or key is not None or note is not None:
            raise click.UsageError("--list cannot be combined with TEXT, --key or --note")
        for one in index.allowed():
            moment = datetime.fromtimestamp(one.allowed_at, timezone.utc).isoformat(" ", "seconds")
            yield one, f"{one.id}\t{moment}\t{escaped(one.note or '')}\t{escaped(one.text or '')}"
        return None
    chosen = _text_or_key(text, key, key_type)
    with told_as(text="TEXT", key="--key", note="--note"):
        count = index.allow(**chosen, note=note)
    line = f"allowed: {count_text(count, 'stored document')} now {'matches' if count == 1 else 'match'} nothing"
    yield {"documents": count}, line


@common.index_command()
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--key", metavar="KEY", help="Use the text of this document.")
@click.option("--id", "number", type=int, metavar="NUMBER", help="Withdraw the text with this number in neardup allow --list.")
@common.key_type_option
def disallow(index: Index, text: str | None, key: str | None, number: int | None, key_type: str) -> Results:
    """Stored documents match again unless they are like another allowed text. Exit code 1 if there was no such allowed text.

    \b
    neardup disallow chat.db "Thanks for your message, we will reply within 24 hours"
    neardup disallow chat.db --id 3
    """
    if number is not None and (text is not None or key is not None):
        raise click.UsageError("Give one of TEXT, --key and --id")
    chosen = {"id": number} if number is not None else _text_or_key(text, key, key_type)
    with told_as(text="TEXT", key="--key", id="--id"):
        count = index.disallow(**chosen)
    yield {"texts": count}, f"{count_text(count, 'allowed text')} withdrawn"
    return 0 if count else 1


def _text_or_key(text: str | None, key: str | None, key_type: str) -> dict[str, Any]:
    if (text is None) == (key is None):
        raise click.UsageError("Give either TEXT or --key")
    return {"text": text} if key is None else {"key": common.parse_key(key, key_type)}


@common.index_command()
@click.option("--since", metavar="TOKEN", help="The token of an earlier call; without it all documents are printed.")
@click.option("--forget", is_flag=True, help="Stop recording changes, instead of printing them.")
def changes(index: Index, since: str | None, forget: bool) -> Results:
    """Prints the removed and the added documents, the documents with an added, changed or removed code, and their cluster
    numbers. The last line is the token for the next call. The first call makes INDEX record changes. Exit code 1 if nothing
    changed.

    \b
    neardup changes articles.db
    neardup changes articles.db --since 41f0c6e2a9d37b58-12-340
    """
    if forget and since is not None:
        raise click.UsageError("--forget cannot be combined with --since")
    if forget:
        done = index.forget_changes()
        print_note("changes are no longer recorded" if done else "no changes were recorded")
        return 0 if done else 1
    found, more = 1, True
    while more:
        with told_as(since="--since"):
            page = index.changes(since)
        since, more = page.token, page.more
        rows = [(what, {"key": key}) for what in ("removed", "added", "codes") for key in getattr(page, what)]
        for what, row in [*rows, *(("cluster", {"key": key, "cluster": cluster}) for key, cluster in page.clusters)]:
            found = 0
            line = "\t".join([what, *("none" if value is None else escaped(value) for value in row.values())])
            yield {"change": what, **row}, line
    yield {"change": "token", "token": since}, f"token\t{since}"
    return found
