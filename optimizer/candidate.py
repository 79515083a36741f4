"""A candidate: one proposed answer, always text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """The canonical text of one proposed answer; its problem parses it when needed."""

    text: str
    digest: str = ""
    """Equal digests are one candidate. Of the text unless its problem gave that of what the text comes to."""

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", digest_of(self.text))


def digest_of(text: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a text, which need not be one that UTF-8 can hold."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
