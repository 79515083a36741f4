"""Turns through files in a folder: whoever answers, a person or any program, needs neither an API nor a key.

For each turn of chain K the folder `chain-K` gets

    0007.request.json    what a model would be asked, complete in itself, and how to answer
    0007.response.json   the answer, written by somebody else in one of the forms of `file_answer.FORMS`
    0007.error.json      only if that cannot be used: what is wrong; it is read again when it has changed

Nothing is ever deleted but an error that was mended, so that the folder is the whole correspondence.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from optimizer.errors import UserError
from optimizer.llm.file_answer import FORMS, UnusableAnswer, answer_of
from optimizer.llm.messages import Answer, Block, CallFailed, Failure, Message, Request
from optimizer.services import RunStopped

POLL_SECONDS = 0.2
GRACE_SECONDS = 1.0
"""How long a file that cannot be used must stand unchanged before it counts as finished: it may be half-written."""
REQUEST, RESPONSE, ERROR = ".request.json", ".response.json", ".error.json"


@dataclass(frozen=True, slots=True)
class _Unusable:
    content: bytes
    problem: str


@dataclass(slots=True)
class FileTransport:
    """One conversation, carried through the files of `directory/chain-K`.

    A turn that was asked and not used, because the process ended or patience did, keeps its number, and an answer that
    is there by now is taken.
    """

    directory: Path
    chain: int
    patience_seconds: float | None = None
    """How long to wait for one answer; None: for ever."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set by anybody, it ends the wait."""
    run: str = field(kw_only=True)
    """Identifies the run, so that no answer to another run in the same folder is ever taken."""
    answered: int = field(kw_only=True)
    """How many turns of this chain the run's journal has an answer to; counts on from there."""
    announce: Callable[[str], None] | None = None
    """Told what is being waited for."""
    poll_seconds: float = POLL_SECONDS
    grace_seconds: float = GRACE_SECONDS

    @property
    def folder(self) -> Path:
        return self.directory / f"chain-{self.chain}"

    def send(self, request: Request) -> Answer:
        """Ask by file and wait for the answer.

        Raises `UserError` for a folder that cannot be written, `CallFailed` when patience ends, and `RunStopped` when
        the run does.
        """
        number = self._ask(request)
        began = time.monotonic()
        answer = self._wait(request, number)
        self.answered += 1
        return Answer(
            answer.content, answer.outcome, answer.usage, answer.model, time.monotonic() - began, answer.stop_reason
        )

    # -- asking

    def _ask(self, request: Request) -> int:
        """The number of the turn's files, of which the request is there afterwards."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            numbers = sorted(self._numbers())
            number = next((number for number in reversed(numbers) if self._is_of_this_turn(number)), None)
            # What was answered stays as it was asked, although budget and time have gone on since.
            if number is None or not self._path(number, RESPONSE).exists():
                number = number or (numbers[-1] + 1 if numbers else 1)
                _write(self._path(number, REQUEST), self._request_file(number, request))
        except OSError as error:
            raise UserError(
                f"cannot write the requests in {self.folder}: {error.strerror}; choose a folder that can be written "
                "with --option folder=DIR"
            ) from error
        return number

    def _numbers(self) -> Iterator[int]:
        """Of all turns that have a file, also those of other runs."""
        for path in self.folder.iterdir():
            number = path.name.partition(".")[0]
            if number.isdecimal() and path.name.endswith((REQUEST, RESPONSE)):
                yield int(number)

    def _is_of_this_turn(self, number: int) -> bool:
        try:
            asked = json.loads(self._path(number, REQUEST).read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(asked, dict) and (asked.get("run"), asked.get("turn")) == (self.run, self.answered + 1)

    def _request_file(self, number: int, request: Request) -> dict[str, Any]:
        return {
            "instructions": f"Answer with a file {self._path(number, RESPONSE).name} beside this one, in one of these "
            "forms. If it cannot be used, an .error.json says why: write it again.",
            "forms": FORMS,
            "run": self.run,
            "chain": self.chain,
            "turn": self.answered + 1,
            # A list of lines: in an editor a text with \n in it cannot be read.
            "text": list(newest_lines(request.messages)),
            **asdict(request),
        }

    # -- waiting

    def _wait(self, request: Request, number: int) -> Answer:
        began = seen_at = time.monotonic()
        seen: _Unusable | None = None
        is_rejected = False
        response, error_file = self._path(number, RESPONSE), self._path(number, ERROR)
        self._say(f"waiting for {response}")
        while True:
            # First looking, then asking whether to go on: an answer that is there is never left lying.
            found = _look(response, request, f"{self.chain}_{number}")
            now = time.monotonic()
            if isinstance(found, Answer):
                with suppress(OSError):
                    error_file.unlink(missing_ok=True)
                return found
            if found != seen:
                seen, seen_at, is_rejected = found, now, False
            elif seen is not None and not is_rejected and now - seen_at >= self.grace_seconds:
                is_rejected = True
                self._reject(error_file, seen.problem)
            if self.stop.is_set():
                raise RunStopped(f"the run ends while {response.name} is waited for")
            if self.patience_seconds is not None and now - began >= self.patience_seconds:
                raise CallFailed(Failure.TIMED_OUT, f"no answer in {response} after {self.patience_seconds:g} s")
            self.stop.wait(self.poll_seconds)

    def _reject(self, error_file: Path, problem: str) -> None:
        # The answer is what matters: a folder that has become unwritable does not end the wait for it.
        with suppress(OSError):
            _write(error_file, {"error": problem, "forms": FORMS})
        self._say(f"the answer cannot be used: {problem}; waiting for another one ({error_file.name})")

    def _path(self, number: int, ending: str) -> Path:
        return self.folder / f"{number:04}{ending}"

    def _say(self, text: str) -> None:
        if self.announce is not None:
            self.announce(text)


def newest_lines(messages: Sequence[Message]) -> Iterator[str]:
    """What was said since the model's last answer, for a person."""
    last = max((place for place, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    for message in messages[last + 1 :]:
        content: str | Sequence[Block] = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield from _lines(block)


def _lines(block: Block) -> Iterator[str]:
    match block["type"]:
        case "text":
            yield from block["text"].splitlines()
        case "tool_result":
            yield f"Result of call {block['tool_use_id']}:"
            content: str | Sequence[Block] = block.get("content", "")
            for inner in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                yield from _lines(inner)
        case kind:
            yield f"[{kind}]"
    yield ""


def _look(path: Path, request: Request, name: str) -> Answer | _Unusable | None:
    """The answer in a file, or what is wrong with it; None as long as there is nothing."""
    content = b""
    try:
        content = path.read_bytes()
        return answer_of(content, request, name) if content else None
    except FileNotFoundError:
        return None
    except OSError as error:
        return _Unusable(content, f"the file cannot be read: {error.strerror}")
    except UnusableAnswer as error:
        return _Unusable(content, str(error))


def _write(path: Path, data: Mapping[str, Any]) -> None:
    """All of it or nothing: nobody ever reads half a request."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)
