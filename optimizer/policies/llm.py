"""A language model proposes; the engine runs its tools and tells it what came of each proposal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizer.errors import UserError
from optimizer.protocols import Policy
from optimizer.services import Services

DEFAULT_MODEL = "claude-sonnet-5-5"


@dataclass(frozen=True, slots=True)
class Llm:
    """Ask a language model, through the Anthropic API or any server that speaks it; it learns from every verdict."""

    name: ClassVar[str] = "llm"

    seed: int = 0
    chain: int = 0
    model: str = DEFAULT_MODEL
    effort: str | None = None
    """How much the model thinks: low, medium, high; the model's own default when not given."""
    base_url: str | None = None
    """Address of the server; `ANTHROPIC_BASE_URL`, else the public API, when not given."""
    max_tokens: int = 16_000
    """Of one answer, thinking included."""
    timeout: float = 300.0
    """Seconds of silence after which a call has failed."""
    calls_per_step: int = 8
    """Calls of the model for one proposal, look-ups included."""
    context: int = 4_000
    """Tokens of conversation beyond which a summary takes its place."""
    concurrency: int = 8
    """Calls at a time, of all chains together."""
    without: Sequence[str] = ()
    """Parts of the grounding to leave out: feedback, witness, repair, inspect, analysis."""
    memory: bool = False
    """Whether schedules of earlier runs on similar nests are offered."""
    fallback: str | None = None
    """What proposes while the model cannot be reached: a policy, or none; by default polyhedral for kernels."""
    breaker_failures: int = 5
    """Failed calls in a row after which the model is not asked for a while."""
    breaker_seconds: float = 60.0
    """How long."""

    def __post_init__(self) -> None:
        if self.max_tokens < 1_000:
            raise UserError(f"an answer needs max_tokens of 1000 or more, not {self.max_tokens}")
        if not self.model:
            raise UserError("the model's name is empty")
        if self.timeout <= 0:
            raise UserError(f"the timeout must be above 0 s, not {self.timeout}")

    def attach(self, services: Services) -> Policy:
        from optimizer.llm.breaker import Breaker
        from optimizer.llm.chain import Model, ModelChain, check_dollars
        from optimizer.llm.gate import Gate
        from optimizer.llm.prices import price_of
        from optimizer.llm.sender import Sender
        from optimizer.llm.setup import TaskOptions, fallback_of

        options = TaskOptions(self.without, self.memory, self.context, self.calls_per_step)
        model = Model(self.model, self.max_tokens, self.effort, price_of(self.model))
        check_dollars(model, services)
        fallback = fallback_of(self.fallback, services, self.seed)

        def sender() -> Sender:
            from optimizer.llm.anthropic_transport import AnthropicTransport

            transport = services.shared("transport", lambda: AnthropicTransport(None, self.base_url, self.timeout))
            breaker = Breaker(self.breaker_failures, self.breaker_seconds)
            return Sender(transport, Gate(self.concurrency), breaker, stop=services.stopping)

        return ModelChain(services, options, services.shared("sender", sender), model, fallback)
