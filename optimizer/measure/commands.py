"""What the bench can be asked, and what a worker process can: dataclasses, which become JSON on the way to a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from optimizer.measure.guards import Segment
from optimizer.measure.workload import Workload

T = TypeVar("T")


class Task(StrEnum):
    """What a worker process does."""

    LOAD = "load"
    RESTORE = "restore"
    BUILD = "build"
    CALL = "call"
    RUN = "run"
    GIVE = "give"
    COLLECT = "collect"
    PEAKS = "peaks"
    NOISE = "noise"


class Form(StrEnum):
    """How a module's function is made to run."""

    ORIGINAL = "original"
    """Compiled serially, with the workload's flags."""
    CHECKED = "checked"
    """The same, and it raises `IndexError` where a subscript leaves its array."""
    CANDIDATE = "candidate"
    """Compiled by its own decorator."""
    PLAIN = "plain"
    """As Python runs it."""
    WATCHED = "watched"
    """The same, watched for races in its parallel loops."""
    BACKWARD = "backward"
    """The same with its parallel loops run from their last iteration to their first."""
    WIDE = "wide"
    """As Python runs it, in wider types."""
    NOTHING = "nothing"
    """A function that does nothing: what is left of a call's time is not the function's."""


@dataclass(frozen=True, slots=True)
class LoadCommand:
    """Take arguments from the shared file."""

    segments: tuple[Segment, ...]
    size: int
    """Bytes of the shared file that are used."""
    kept: tuple[str, ...] = ()
    """Arrays that calls can begin with as they are now."""


@dataclass(frozen=True, slots=True)
class RestoreCommand:
    """Make the arrays that were kept what they were."""


@dataclass(frozen=True, slots=True)
class BuildCommand:
    """Make a function ready for the arguments that are loaded."""

    form: Form
    file: str
    """Of the module; of no meaning for the original, whose source stands in the workload."""
    function: str
    workload: Workload | None = None
    """For the original."""
    memory: int | None = None
    """Bytes that it may map besides what is mapped; None is no limit."""


@dataclass(frozen=True, slots=True)
class CallCommand:
    """Call the function that was built last under `key`, with the arguments that are loaded."""

    key: str
    threads: int
    calls: int = 1
    is_restored: bool = False
    """Whether the arrays that were kept are made what they were before each call."""
    pause: float = 0.0
    """Seconds to wait before the first call."""
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Take arguments, call a function, and copy the arguments back unless it raised an exception."""

    load: LoadCommand
    call: CallCommand


@dataclass(frozen=True, slots=True)
class CallReport:
    seconds: float
    """Of all calls together, by the clock of the process."""
    returned: tuple[tuple[str, tuple[int, ...]], ...]
    """Type and shape of each part of what the last call returned."""
    is_tuple: bool
    raised: str = ""
    """The exception that ended the calls; then the rest means nothing."""
    raised_kind: str = ""
    """`memory`, `race`, `call` for what a function may raise for inputs that it cannot take, or `other`."""
    needs_larger: bool = False
    """Whether a watched function has loops that had no two iterations in any call so far."""


@dataclass(frozen=True, slots=True)
class GiveCommand:
    """Copy arguments back into the shared file, as they are by now."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CollectCommand:
    """Write what the last call returned into the shared file."""

    start: int
    size: int
    """Bytes of the shared file, after it has grown."""


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """Run original and candidate on many small inputs and compare what they leave behind."""

    workload: Workload
    """Its own size is not run."""
    code: str
    """File of the candidate's module."""
    sizes: tuple[Mapping[str, int], ...]
    seeds: tuple[int, ...]
    repeats: int
    """Runs with all threads at the largest size; a third as many, but two at least, at the others."""
    call_seconds: float
    """What one call of the candidate may take, or a hundred times the original's time if that is more."""
    build_seconds: float


@dataclass(frozen=True, slots=True)
class CheckReport:
    checks: int
    """How many runs of the candidate were compared."""
    is_exact: bool
    """Whether each of them gave the original's bits."""
    skipped: tuple[str, ...]
    """Sizes at which the original itself cannot run, and why."""
    compile_seconds: float
    """What compiling the candidate took."""


@dataclass(frozen=True, slots=True)
class TimeCommand:
    """Run the original, or several candidates, in turns on the same inputs and tell how long each call took."""

    workload: Workload
    seed: int
    codes: tuple[str | None, ...]
    """Files of the contestants' modules; None is the original."""
    threads: int
    cutoff: float
    """Seconds that a single call of a candidate may take."""
    seconds: float
    """About how long the rounds may take in all; `rounds[0]` of them are run in any case."""
    rounds: tuple[int, int]
    """At least and at most so many rounds."""
    slow_seconds: float
    """When a call takes longer, the first one counts too, and two rounds in all are enough."""
    clearly_below: float | None
    """Stop early once the ratio of the first contestant's time to the second's is surely below this."""
    build_seconds: float


@dataclass(frozen=True, slots=True)
class TimeReport:
    seconds: tuple[tuple[float, ...], ...]
    """For each round the mean seconds of a call, in the order of the contestants."""
    original_seconds: float
    """The one call of the original that the results are compared with."""
    calls: tuple[int, ...]
    """Calls behind each number of a contestant."""
    input_bytes: int
    other_load: float
    """Processors that were busy with something else meanwhile."""
    is_original_compiled: bool = True
    """Whether Numba can compile the original; else it runs as plain Python, with NumPy."""


@dataclass(frozen=True, slots=True)
class PeaksCommand:
    threads: int


@dataclass(frozen=True, slots=True)
class PeaksReport:
    flops_per_second: Mapping[str, float]
    """`float64/1`, `float64/2`, `float32/1`, ...: by type and threads."""
    bytes_per_second: Mapping[str, Mapping[str, float]]
    """By threads, then by the bytes that the measuring loop ran over."""


@dataclass(frozen=True, slots=True)
class NoiseCommand:
    calls: int


@dataclass(frozen=True, slots=True)
class NoiseReport:
    seconds: tuple[float, ...]
    """Of equal pieces of work, one after the other."""
    timer_seconds: float
    """The smallest step of the clock that was seen."""
    is_pinned: bool
    """Whether the process keeps to as many processors as it has threads."""
    other_load: float


Command = (
    LoadCommand
    | RestoreCommand
    | BuildCommand
    | CallCommand
    | RunCommand
    | GiveCommand
    | CollectCommand
    | PeaksCommand
    | NoiseCommand
)
TASKS: Mapping[type[Any], Task] = {
    LoadCommand: Task.LOAD,
    RestoreCommand: Task.RESTORE,
    BuildCommand: Task.BUILD,
    CallCommand: Task.CALL,
    RunCommand: Task.RUN,
    GiveCommand: Task.GIVE,
    CollectCommand: Task.COLLECT,
    PeaksCommand: Task.PEAKS,
    NoiseCommand: Task.NOISE,
}


def to_message(command: Command) -> dict[str, Any]:
    return {"task": TASKS[type(command)].value, "command": _adapter(type(command)).dump_python(command, mode="json")}


def from_json(kind: type[T], data: Any) -> T:
    """A dataclass from its JSON; raises pydantic's `ValidationError` when it does not fit."""
    return _adapter(kind).validate_python(data)


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
