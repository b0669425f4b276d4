"""The methods of an index of `Passages` that tell which passages texts share."""

from __future__ import annotations

from . import clock, native
from .parameters import check_group, check_integer, check_limit, check_text
from .querying import QueryMethods
from .store.layout.state import Store
from .store.query.passages import common_passages, passages_of_documents, passages_of_text, require_passages
from .values import CommonPassage, Key, Passage


class PassageMethods(QueryMethods):
    """Passages of texts, of two documents, and of most documents."""

    def passages(
        self,
        text: str | bytes,
        key: Key | None = None,
        *,
        shortest: int | None = None,
        limit: int | None = None,
        group: Key | None = None,
    ) -> list[Passage]:
        """The passages that a text shares with stored documents, the longest first; equally long ones in insertion order.

        A passage is a run of tokens of `text` that also occurs in the document and cannot be longer at either end; `other_start`
        is its first place there. key: only with this document, whether it matches or not. shortest: only passages of so many
        tokens, at least the index's `shortest`. limit: the most passages (None: all). group: the group to search, without `key`.

        All matching documents are compared, whatever the limit. Where thousands share a footer, ask by `key` about some of them,
        the keys of `query(text, limit=10, any=True)`.

        Places are characters of both texts; in the document's text tokens, if the index does not store texts. Raises
        ParameterError for an index of another scheme or with a tokenizer of your own, KeyNotFoundError.

        >>> from neardup_db import Index, Passages
        >>> with Index(":memory:", Passages(shortest=4), store_text=True) as index:
        ...     matches = index.add("fox", "They say that the quick brown fox jumps over the lazy dog.")
        ...     for passage in index.passages("Look: The quick, brown fox jumps!"):
        ...         print(passage)
        Passage(key='fox', start=6, end=32, other_start=14, other_end=39, tokens=5)
        """
        text, limit, group = check_text(text), check_limit(limit), check_group(group)
        with self._readers.reading() as reader:
            shortest = _shortest(reader.store, shortest)
            document = None if key is None else reader.documents.require(key, clock.now_ms())
            return passages_of_text(reader.search, native.text_bytes(text), document, group, shortest, limit)

    def passages_of(self, key_a: Key, key_b: Key, *, shortest: int | None = None) -> list[Passage]:
        """The passages of document `key_a` that document `key_b` has, the longest first: `start` and `end` are in the first text.

        Places are characters where texts are stored, else tokens. Raises KeyNotFoundError, and ParameterError as `passages` does.

        >>> from neardup_db import Index, Passages
        >>> with Index(":memory:", Passages(shortest=3)) as index:
        ...     matches = index.add("a", "one two three four five"), index.add("b", "six two three four")
        ...     index.passages_of("a", "b")
        [Passage(key='b', start=1, end=4, other_start=1, other_end=4, tokens=3)]
        """
        with self._readers.reading() as reader:
            shortest, now = _shortest(reader.store, shortest), clock.now_ms()
            a, b = reader.documents.require(key_a, now), reader.documents.require(key_b, now)
            return passages_of_documents(reader.search, a, b, shortest)

    def common_passages(self, at_least: int = 100, limit: int | None = None) -> list[CommonPassage]:
        """The passages that at least so many different texts share, such as footers and licences, the most frequent first.

        limit: the most passages (None: all). Copies of a text count once. Of texts around a frequent run of words, the stretch
        that half of a sample have in common is a passage; the texts that have all of it are counted. Reads the whole candidate
        table; memory grows with the passages found, not with the index.

        >>> from neardup_db import Index, Passages
        >>> with Index(":memory:", Passages(shortest=4), store_text=True) as index:
        ...     for number, word in enumerate("one two three".split()):
        ...         matches = index.add(number, f"Offer {word}. All rights reserved by the shop.")
        ...     index.common_passages(at_least=3)
        [CommonPassage(key=0, start=11, end=42, tokens=6, texts=3, text='All rights reserved by the shop')]
        """
        at_least = check_integer("at_least", at_least, 2, remedy="texts that share a passage")
        limit = check_limit(limit)
        with self._readers.reading() as reader:
            return common_passages(reader.search, at_least, limit, clock.now_ms())


def _shortest(store: Store, shortest: int | None) -> int | None:
    least = require_passages(store).shortest
    if shortest is None:
        return None
    remedy = "tokens, or make an index with a shorter Passages(shortest=...)"
    return check_integer("shortest", shortest, least, native.lib.ND_SHORTEST_MAX, remedy)
