"""Stop a flood of messages: what many have said within the hour, in whichever channel, is held back.

    tail -F messages.jsonl | python moderation_stream.py seen.db

Each line has "id", "channel" and "text", and is answered by a line at once: its id, what to do, how many like it came within the
hour in all channels, and since when. The index keeps 24 hours and does not grow beyond that. The program may be stopped at any
moment: a message that was answered is stored, and one that comes again gets the same answer to within those that came since.
Without arguments the script shows itself on a few messages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from neardup_db import ANY_GROUP, Index, MinHash, TextRules

WINDOW, RECENT = timedelta(hours=24), timedelta(hours=1)
MANY = 3
"""So many messages that are like one another within the hour are a flood."""


def open_index(target: str) -> Index:
    """The messages of the last 24 hours. Messages are short, so that texts are compared by runs of three characters."""
    return Index(target, MinHash(threshold=0.6), text=TextRules.chars(shingle=3), window=WINDOW, record_matches=False)


def judged(index: Index, messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The answer to each message, which is stored by then."""
    for message in messages:
        with index.transaction():
            alike = index.count(message["text"], since=RECENT, group=ANY_GROUP)
            index.add(message["id"], message["text"], group=message["channel"], if_exists="ignore")
        since = None
        if alike.first_added_at is not None:
            since = datetime.fromtimestamp(alike.first_added_at, timezone.utc).isoformat(timespec="seconds")
        yield {"id": message["id"], "do": "hold" if alike.count >= MANY else "pass", "alike": alike.count, "since": since}


def show() -> None:
    """Five channels that get the same offer, and one that does not."""
    offer = "Cheap watches, only today: www.example.com/{}"
    messages = [{"id": n, "channel": f"room {n}", "text": offer.format(n)} for n in range(5)]
    messages.append({"id": 5, "channel": "room 0", "text": "Does anybody know when the ferry leaves?"})
    with open_index(":memory:") as index:
        for answer in judged(index, messages):
            print(json.dumps(answer | {"since": bool(answer["since"])}))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        with open_index(sys.argv[1]) as opened:
            for line in judged(opened, map(json.loads, sys.stdin)):
                print(json.dumps(line), flush=True)
    else:
        show()
