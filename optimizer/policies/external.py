"""Somebody else proposes, through files in a folder: a person, a script, a model without an API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from optimizer.errors import UserError
from optimizer.protocols import Policy
from optimizer.services import Services


@dataclass(frozen=True, slots=True)
class External:
    """Ask by a file and wait for a file: whoever answers gets what a model gets, and needs neither an API nor a key."""

    name: ClassVar[str] = "external"

    seed: int = 0
    chain: int = 0
    folder: str | None = None
    """Where requests and responses lie; `external` in the run's folder when not given."""
    patience: float | None = None
    """Seconds to wait for one response; for ever when not given."""
    calls_per_step: int = 8
    """Turns for one proposal, look-ups included."""
    context: int = 4_000
    """Tokens of conversation beyond which a summary takes its place."""
    without: Sequence[str] = ()
    """Parts of the grounding to leave out: feedback, witness, repair, inspect, analysis."""
    memory: bool = False
    """Whether schedules of earlier runs on similar nests are offered."""
    fallback: str | None = "none"
    """What proposes when patience ends too often: a policy, or none."""

    def __post_init__(self) -> None:
        if self.patience is not None and self.patience <= 0:
            raise UserError(f"patience must be above 0 s, not {self.patience}")

    def attach(self, services: Services) -> Policy:
        from optimizer.llm.breaker import Breaker
        from optimizer.llm.chain import Model, ModelChain
        from optimizer.llm.file_transport import FileTransport
        from optimizer.llm.gate import Gate
        from optimizer.llm.record import past_calls
        from optimizer.llm.sender import Sender
        from optimizer.llm.setup import TaskOptions, fallback_of

        options = TaskOptions(self.without, self.memory, self.context, self.calls_per_step)
        folder = Path(self.folder).absolute() if self.folder else services.directory / "external"
        run = services.directory.name
        transport = FileTransport(
            folder,
            services.chain,
            self.patience,
            services.stopping,
            run=run,
            answered=len(past_calls(services.notes())),
            announce=services.say,
        )
        sender = Sender(transport, Gate(1), Breaker(), attempts=1, stop=services.stopping)
        model = Model("external", max_tokens=16_000, effort=None, price=None)
        return ModelChain(services, options, sender, model, fallback_of(self.fallback, services, self.seed))
