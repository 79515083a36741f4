"""What goes to a model and what comes back, whatever carries it: the Messages API, files in a folder, a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from optimizer.errors import InfrastructureError

Block = Mapping[str, Any]
"""A content block as the Messages API writes it: `{"type": "text", "text": ...}`, a tool call, a thought ..."""
Message = Mapping[str, Any]
"""`role` (user or assistant) and `content`, a list of blocks."""


class Outcome(StrEnum):
    """How an answer ended: the stop reasons of the Messages API."""

    TOOL_USE = "tool_use"
    END_TURN = "end_turn"
    """Prose: the model called no tool."""
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSE_TURN = "pause_turn"
    CONTEXT_FULL = "model_context_window_exceeded"
    UNKNOWN = "unknown"
    """A stop reason that this version does not know, or none."""


class Failure(StrEnum):
    """Why no answer came."""

    RATE_LIMITED = "rate_limited"
    """429. Fewer calls at a time; again after `retry-after`."""
    OVERLOADED = "overloaded"
    """529, or an overload error inside a stream."""
    SERVER_ERROR = "server_error"
    """Any other 5xx, or an error inside a stream."""
    UNREACHABLE = "unreachable"
    """No connection, or one that was cut."""
    TIMED_OUT = "timed_out"
    MALFORMED = "malformed"
    """What came is no answer of the Messages API, such as a web page."""
    TOO_LARGE = "too_large"
    """413, or a prompt longer than the model takes."""
    REFUSED = "refused_request"
    """400, 401, 403 or 404: asking again would change nothing."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, as the four prices count them; they do not overlap."""

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_write + self.cache_read

    @property
    def prompt(self) -> int:
        """Everything that the model read."""
        return self.input + self.cache_write + self.cache_read

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_write + other.cache_write,
            self.cache_read + other.cache_read,
        )


@dataclass(frozen=True, slots=True)
class Request:
    """One call, before it is carried anywhere."""

    model: str
    system: str
    tools: tuple[Mapping[str, Any], ...]
    messages: tuple[Message, ...]
    """Begins with the user's. Cache marks are among the blocks."""
    max_tokens: int
    effort: str | None = None
    """`low`, `medium`, `high` ...; None leaves it to the model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said."""

    content: tuple[Block, ...]
    """All blocks, in order, to be handed back unchanged."""
    outcome: Outcome
    usage: Usage
    model: str
    seconds: float = 0.0
    stop_reason: str | None = None
    """As it came."""


class CallFailed(InfrastructureError):
    """No answer came; nothing of the candidate's doing."""

    def __init__(
        self,
        failure: Failure,
        message: str,
        retry_after: float | None = None,
        attempts: int = 1,
        usage: Usage = Usage(),
    ) -> None:
        """`retry_after` in seconds; `attempts` made; `usage` of answers that broke off, as far as it is known."""
        self.failure, self.retry_after, self.attempts, self.usage = failure, retry_after, attempts, usage
        super().__init__(message)


class Transport(Protocol):
    """Carries one request to a model and its answer back; does not try twice."""

    def send(self, request: Request) -> Answer:
        """Raises `CallFailed`, and `UserError` for what only the user can mend (a key, a model's name, an address)."""
        ...
