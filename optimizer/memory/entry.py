"""One remembered schedule, and its JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StringConstraints, TypeAdapter, ValidationError

from optimizer.candidate import digest_of
from optimizer.wording import speedup_text

FORMAT = 1
LONGEST_NOTE = 2000

Line = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Text of one line without control characters: it is shown to people and to models."""
_LINES = r"^[^\x00-\x09\x0b-\x1f\x7f-\x9f]*$"
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
ScheduleText = Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=_LINES)]
Speedup = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Entry:
    """The winner of a run: a schedule that was verified and measured to be faster than the original."""

    kernel: Line
    """Name of a bundled kernel, or `file.py:function`."""
    nest: Digest
    structure: Digest
    """Equal for nests that differ in names alone; see `structure.py`."""
    shape: Digest
    """Equal for nests with equal loops, whatever they access."""
    schedule: ScheduleText
    """In the names of its own nest."""
    pattern: ScheduleText
    """The schedule with places instead of names; see `pattern.py`."""
    speedup: Speedup
    interval: tuple[Speedup, Speedup]
    """95%."""
    sizes: Mapping[Line, Count]
    threads: Annotated[int, Field(ge=1)]
    fp: Line
    machine: Digest
    machine_description: Line
    run: Line
    """Folder of the run."""
    created: AwareDatetime
    expires: AwareDatetime
    note: Annotated[str, StringConstraints(max_length=LONGEST_NOTE, pattern=_LINES)] = field(default="")
    """The user's own words; never shown to a model."""
    disabled: bool = False
    format: Literal[1] = FORMAT

    @property
    def id(self) -> str:
        """Equal for the same schedule of the same nest at the same size, threads, precision and machine."""
        what = (self.nest, sorted(self.sizes.items()), self.threads, self.fp, self.machine, self.schedule)
        return digest_of(json.dumps(what))[:8]

    def why_unused(self, machine: str, now: datetime) -> str:
        """Why it is no hint on that machine at that time; empty when it may be one."""
        if self.disabled:
            return "disabled"
        if self.machine != machine:
            return "other machine"
        return "expired" if self.expires <= now else ""

    @property
    def where(self) -> str:
        """The size, the threads and the precision."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{sizes}, {threads}, {self.fp} floating point"

    @property
    def measured(self) -> str:
        return speedup_text(self.speedup, self.interval)


_ADAPTER = TypeAdapter(Entry)


def entry_from_json(data: Any) -> Entry:
    """The entry that JSON data is. Raises `ValueError` with the field that is wrong for what is no entry."""
    try:
        return _ADAPTER.validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "entry"
        raise ValueError(f"{place}: {first['msg']}") from None


def entry_to_json(entry: Entry) -> dict[str, Any]:
    return _ADAPTER.dump_python(entry, mode="json")
