"""What a process does that was spawned, not forked: all that it knows came to it pickled."""

from __future__ import annotations

from typing import Any

from neardup_db import Index, MinHash, TextRules


def answers(path: str, scheme: MinHash, rules: TextRules, text: str) -> Any:
    """The settings of an index, what it has like a text, a document, the clusters, and how many documents there are."""
    with Index(path, scheme, text=rules) as index:
        matches = index.query(text)
        return index.scheme, index.text_rules, matches, index.get(matches[0].key), index.clusters(), len(index)


PEAK = '''
def peak():
    """The most memory that this process ever had, in bytes. `ru_maxrss` of Linux is at least what the parent had at the fork."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS

'''
"""Goes before the code of a process that is measured; it is given by `-c` as such processes see no module of the tests."""
