"""A candidate: one proposed answer, always text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """The canonical text of one proposed answer; its problem parses it when needed."""

    text: str

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the text: equal texts are one candidate."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]
