"""Content that is sent in parts."""

from __future__ import annotations

import hashlib
import os

_READ_BYTES = 1 << 20


class Source:
    """Bytes, or a file that contains them."""

    def __init__(self, content: bytes | str | os.PathLike[str]) -> None:
        self._content = content
        self.size = len(content) if isinstance(content, bytes) else os.stat(content).st_size

    def read(self, offset: int, size: int) -> bytes:
        if isinstance(self._content, bytes):
            return self._content[offset : offset + size]
        with open(self._content, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for at in range(0, self.size, _READ_BYTES):
            digest.update(self.read(at, _READ_BYTES))
        return digest.hexdigest()
