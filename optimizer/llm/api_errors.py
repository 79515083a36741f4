"""What an error of the Messages API means: to be tried again, or for the user to mend."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from optimizer.errors import UserError
from optimizer.llm.messages import CallFailed, Failure, Usage

WITHOUT_A_KEY = (
    "or run without one: --policy polyhedral searches by itself, --policy external lets you or a program answer"
)
ADDRESS_HINT = "check --base-url (or ANTHROPIC_BASE_URL): it is the part before /v1/messages"
LONGEST_MESSAGE = 300
TOO_LONG = re.compile(r"prompt is too long|context (length|limit|size|window)", re.IGNORECASE)
KEY_LIKE = re.compile(r"\bsk-[\w-]{6,}")
STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What an error event within a stream would have been as a status."""
FAILURES = {
    408: Failure.TIMED_OUT,
    409: Failure.SERVER_ERROR,
    413: Failure.TOO_LARGE,
    429: Failure.RATE_LIMITED,
    504: Failure.TIMED_OUT,
    524: Failure.TIMED_OUT,
    529: Failure.OVERLOADED,
}


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error as it came."""

    status: int
    """Of HTTP; 200 for an error event within a stream."""
    kind: str | None
    """The API's own name for it; None when the answer was not written by the API."""
    message: str
    retry_after: float | None = None
    usage: Usage = Usage()
    """Of the answer that it broke off."""


def exception_for(error: ApiError, model: str, address: str, was_answered: bool) -> CallFailed | UserError:
    """What to raise. `was_answered`: the same server has answered before, so that the set-up cannot be wrong.

    `address` is the server's, fit to be shown.
    """
    status = STATUS_OF_KIND.get(error.kind or "", 500) if error.status == 200 else error.status
    failure = Failure.OVERLOADED if error.kind == "overloaded_error" else FAILURES.get(status)
    if failure is None and status == 400 and TOO_LONG.search(error.message):
        failure = Failure.TOO_LARGE
    if failure is None and status >= 500:
        failure = Failure.SERVER_ERROR
    said = f"{address} answered {status}: {shortened(error.message)}"
    if failure is None and not _is_for_the_user(status, was_answered):
        failure = Failure.REFUSED
    if failure is not None:
        return CallFailed(failure, said, error.retry_after, usage=error.usage)
    if status == 404 and (_is_page(error.message) or "model" not in error.message):
        return UserError(f"{said}\n  {ADDRESS_HINT}")
    return UserError(f"{said}\n  {_what_to_do(status, model)}")


def not_the_api(address: str, content_type: str, was_answered: bool) -> CallFailed | UserError:
    """For an answer with status 200 that is none of the Messages API, such as a web page."""
    message = f"what {address} answers is not the Messages API (content type {content_type or 'unknown'})"
    if was_answered:
        return CallFailed(Failure.MALFORMED, message)
    return UserError(f"{message}\n  {ADDRESS_HINT}")


def shortened(text: str) -> str:
    """One line, not long, without keys; a web page is not repeated."""
    if _is_page(text):
        return "a web page"
    line = KEY_LIKE.sub("sk-...", " ".join(text.split()))
    return line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + " ..."


def shown_address(url: str) -> str:
    """An address without the name and password, or the query, that it may hold. Raises `UserError` when it is none."""
    mistake = UserError(f"{url!r} is no address of a server, such as http://localhost:8080: {ADDRESS_HINT}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise mistake from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise mistake
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def _is_page(text: str) -> bool:
    return text.lstrip().startswith("<")


def _is_for_the_user(status: int, was_answered: bool) -> bool:
    """A wrong key or name is always the user's to mend; any other refusal is while nothing has worked yet."""
    return status in (401, 402, 403, 404) or not was_answered


def _what_to_do(status: int, model: str) -> str:
    match status:
        case 401:
            return f"the API key is wrong or was revoked: set ANTHROPIC_API_KEY to one that is valid, {WITHOUT_A_KEY}"
        case 402:
            return f"the account cannot be billed: see to its payments, use another key, {WITHOUT_A_KEY}"
        case 403:
            return f"this API key may not use {model}: choose another --model or key, {WITHOUT_A_KEY}"
        case 404:
            return f"this server has no model {model!r} for your key{_known_models(model)}"
        case _:
            return "the server accepts no such request: see its message; --model and --effort are the usual causes"


def _known_models(model: str) -> str:
    from optimizer.llm.prices import known_models  # reads files, and only needed here
    from optimizer.names import nearest

    others = [name for name in known_models() if name != model]
    return nearest(model, others) or f"; models that have a price here: {', '.join(others)}"
