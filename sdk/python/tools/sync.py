"""Generates ``berth/_sync`` from ``berth/_async``, and the tests of the former from those of the latter.

``python3 sdk/python/tools/sync.py``; with ``--check`` it only lists outdated files.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
HEAD = "# Made by tools/sync.py from {source}. Do not change it by hand.\n"
BY_HAND = {"__init__.py", "platform.py"}
WORDS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "aread": "read",
    "aclose": "close",
    "aiter_raw": "iter_raw",
    "aclosing": "closing",
    "IsolatedAsyncioTestCase": "TestCase",
    "_async": "_sync",
}
DROPPED = {"async", "await"}
#: Matches the ``Awaitable[...]`` in a ``Callable``, which only the asynchronous source has.
AWAITABLE = re.compile(r"Awaitable\[((?:[^\[\]]|\[[^\[\]]*\])*)\]")


def sync_of(place: str, source: str) -> str:
    lines = source.splitlines(keepends=True)
    # Backwards, so that earlier columns stay valid.
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        if token.type != tokenize.NAME or not is_changed(token.string):
            continue
        row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
        line = lines[row]
        if token.string in DROPPED:
            lines[row] = line[:start] + line[end:].lstrip(" ")
        else:
            lines[row] = line[:start] + word_of(token.string) + line[end:]
    text = re.sub(r"(import .*?)\bAwaitable, ", r"\1", "".join(lines))
    return HEAD.format(source=place) + AWAITABLE.sub(r"\1", text)


def is_changed(word: str) -> bool:
    return word in DROPPED or word_of(word) != word


def word_of(word: str) -> str:
    return WORDS.get(word) or re.sub(r"^(_?)Async(?=[A-Z])", r"\1", word)


def pairs() -> list[tuple[Path, Path]]:
    sources = [path for path in sorted((HERE / "berth/_async").glob("*.py")) if path.name not in BY_HAND]
    made = [(path, HERE / "berth/_sync" / path.name) for path in sources]
    tests = [(HERE / f"tests/{name}_async.py", HERE / f"tests/{name}_sync.py") for name in ("test", "methods", "history")]
    return [*made, *tests]


def main() -> int:
    made = {target: sync_of(str(source.relative_to(HERE)), source.read_text()) for source, target in pairs()}
    old = [target for target, text in made.items() if not target.exists() or target.read_text() != text]
    if "--check" not in sys.argv:
        for target in old:
            target.write_text(made[target])
    elif old:
        print(f"old: {', '.join(target.name for target in old)}; python3 sdk/python/tools/sync.py makes them")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
