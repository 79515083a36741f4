"""A scripted model that does exactly what the last feedback says, and knows nothing else of its task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.model_runs import last_text
from tests.model_server import Reply, call

LARGEST_TILE = 64
OFFER = re.compile(r"this near schedule is legal: `(.+)`")
ACCEPTED = re.compile(r"(measured while .*\n)?accepted")
TILE = re.compile(r"tile\(([^()]*)\)")


@dataclass
class LiteralModel:
    """Proposes `first`; then the repair that it is offered; then what was accepted, with the next larger tile."""

    first: str
    last: str = ""

    def __call__(self, request: Mapping[str, Any], number: int) -> Reply:
        following = self.first if number == 0 else self._following(last_text(request))
        if following is None:
            return call("finish", reason="the feedback offers nothing more")
        self.last = following
        return call("evaluate", schedule=following, rationale="as the feedback says")

    def _following(self, feedback: str) -> str | None:
        if offered := OFFER.search(feedback):
            return offered.group(1)
        return self._with_larger_tile() if ACCEPTED.match(feedback) else None

    def _with_larger_tile(self) -> str | None:
        found = TILE.search(self.last)
        if found is None:
            return None
        doubled = [(name, 2 * int(size)) for name, size in re.findall(r"(\w+)=(\d+)", found.group(1))]
        if max(size for _, size in doubled) > LARGEST_TILE:
            return None
        larger = f"tile({', '.join(f'{name}={size}' for name, size in doubled)})"
        return self.last[: found.start()] + larger + self.last[found.end() :]
