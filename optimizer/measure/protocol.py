"""Messages between the parent and its worker: JSON behind a length, over pipes that only the two of them have.

Never pickle: what a worker answers is data, whatever ran inside it.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from typing import Any

LENGTH_BYTES = 4
LARGEST_MESSAGE = 64 * 2**20


class ProtocolError(Exception):
    """What arrived is no message."""


def write_message(descriptor: int, message: Mapping[str, Any]) -> None:
    """Send one message; blocks while the pipe is full. Raises `ValueError` for a NaN or an infinity in it."""
    body = json.dumps(message, allow_nan=False).encode()
    if len(body) > LARGEST_MESSAGE:
        raise ValueError(f"a message of {len(body)} bytes is larger than {LARGEST_MESSAGE}")
    rest = memoryview(len(body).to_bytes(LENGTH_BYTES, "big") + body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class MessageReader:
    """Reads messages from one descriptor, each within a time limit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._received = bytearray()

    def read(self, until: float | None = None) -> dict[str, Any] | None:
        """The next message, or None when the other side has closed.

        `until` is a time of `time.monotonic()`; past it `TimeoutError` is raised.
        """
        header = self._take(LENGTH_BYTES, until)
        if header is None:
            return None
        length = int.from_bytes(header, "big")
        if length > LARGEST_MESSAGE:
            raise ProtocolError(f"a message of {length} bytes was announced")
        body = self._take(length, until)
        if body is None:
            return None
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:  # the latter for a thousand brackets within each other
            raise ProtocolError(f"a message is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise ProtocolError("a message is not a JSON object")
        return message

    def _take(self, count: int, until: float | None) -> bytes | None:
        while len(self._received) < count:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._descriptor], [], [], left)[0]:
                raise TimeoutError
            part = os.read(self._descriptor, 1 << 16)
            if not part:
                return None
            self._received += part
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken
