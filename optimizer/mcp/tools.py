"""The tools that agents see: names, schemas and descriptions. What they do is in `jobs.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from optimizer.mcp.engine import Engine, JobFailed
from optimizer.mcp.policies import OwnPolicy

MOST_EVALUATIONS = 50
MOST_SECONDS = 3600.0
LONGEST_SCHEDULE = 20_000
PROGRESS_WITHOUT_WORK = 0.001
"""Progress has to grow with each message, also when nothing more is done."""

Kernel = Annotated[
    str,
    Field(description="A bundled kernel's name (see list_kernels), or file.py:function, relative to the server's root"),
]
Size = Annotated[
    str | None,
    Field(
        description="A named size of a bundled kernel (mini, small, medium, large, extralarge; large is the default), "
        "or values for all sizes: n=1000,m=500. A file's kernel has no default."
    ),
]
Precision = Annotated[
    Literal["strict", "contract", "reassociate"],
    Field(
        description="strict: bit-identical results. contract: fused multiply-add allowed. "
        "reassociate: reductions may be reordered, too."
    ),
]
Threads = Annotated[int | None, Field(ge=1, description="Threads that a schedule may use; all cores by default")]
ScheduleText = Annotated[
    str, Field(max_length=LONGEST_SCHEDULE, description="Steps, such as: tile(i=32, j=32); parallel(i_t)")
]
RunName = Annotated[str, Field(description="The name of a run that this server made: `run` in its answer")]
Answer = dict[str, Any]
Caller = Context[Any, Any]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
WRITES_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
WRITES_FILES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)


class Tools:
    """Each public method is a tool; its docstring and annotations are what an agent reads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def all(self) -> list[tuple[Callable[..., Awaitable[Any]], ToolAnnotations]]:
        return [
            (self.list_kernels, READS),
            (self.explain, READS),
            (self.check, READS),
            (self.run, WRITES_RUNS),
            (self.resume, WRITES_RUNS),
            (self.best, READS),
            (self.export, WRITES_FILES),
        ]

    async def list_kernels(self, caller: Caller) -> list[Answer]:
        """List the bundled kernels: name, suite, named sizes, and arrays with type and shape."""
        return await self._ask(caller, "list_kernels")

    async def explain(
        self,
        caller: Caller,
        kernel: Kernel,
        size: Size = None,
        schedule: ScheduleText = "",
        fp: Precision = "contract",
        threads: Threads = None,
    ) -> Answer:
        """Show a kernel's loops and statements with the names that schedules use, and its dependences.

        Also told: which loops could run parallel or change places, as the nest stands or after `schedule`; with a size,
        the least time that this machine needs (limit_seconds); with a schedule, the Numba code.
        """
        given = {"kernel": kernel, "size": size, "schedule": schedule, "fp": fp, "threads": threads}
        return await self._ask(caller, "explain", **given)

    async def check(
        self,
        caller: Caller,
        kernel: Kernel,
        schedule: ScheduleText,
        size: Size = None,
        fp: Precision = "contract",
        threads: Threads = None,
        timing: Annotated[bool, Field(description="Whether to time an accepted schedule against the original")] = True,
    ) -> Answer:
        """Prove, test and time one schedule.

        `status` is ok or rejected. Rejected: `reason`, `detail`, the violated dependence as a pair of iterations
        (`witness`) and the nearest legal schedule (`repair`). Ok: `assurance`, and `speedup` over the original with
        its 95% `interval`.
        """
        given = {"kernel": kernel, "schedule": schedule, "size": size, "fp": fp, "threads": threads, "timing": timing}
        return await self._ask(caller, "check", **given)

    async def run(
        self,
        caller: Caller,
        kernel: Kernel,
        size: Size = None,
        policy: Annotated[
            OwnPolicy,
            Field(description="What proposes. polyhedral tries templates for the nest first, then variants of them."),
        ] = "polyhedral",
        evaluations: Annotated[int, Field(ge=1, le=MOST_EVALUATIONS, description="Schedules to judge at most")] = 8,
        seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS, description="Begin nothing new after this time")] = 300,
        fp: Precision = "contract",
        threads: Threads = None,
        seed: Annotated[int, Field(ge=0, description="Of all randomness")] = 0,
    ) -> Answer:
        """Search for a fast schedule within a budget; minutes for large sizes. Progress is told after each trial.

        The answer names the `run`, which `best`, `export` and `resume` take, with its best `schedule`, `speedup`,
        `interval`, `assurance` and the `outcomes` of all trials. A cancelled run is saved and can be resumed.
        """
        given = {"kernel": kernel, "size": size, "policy": policy, "evaluations": evaluations, "seconds": seconds}
        return await self._ask(caller, "run", **given, fp=fp, threads=threads, seed=seed)

    async def resume(self, caller: Caller, run: RunName) -> Answer:
        """Go on with a run that was cancelled, within what is left of its budget; one that is over tells its result."""
        return await self._ask(caller, "resume", run=run)

    async def best(self, caller: Caller, run: RunName) -> Answer:
        """Tell the best verified schedule of a run, over or not, in the same form as `run` does."""
        return await self._ask(caller, "best", run=run)

    async def export(
        self,
        caller: Caller,
        path: Annotated[str, Field(description="The .py file to write, relative to the server's root")],
        run: Annotated[RunName | None, Field(description="The run whose winner to write")] = None,
        kernel: Annotated[Kernel | None, Field(description="Instead of run: the kernel, with schedule")] = None,
        schedule: Annotated[ScheduleText | None, Field(description="Instead of run: it is checked and timed")] = None,
        size: Size = None,
        fp: Precision = "contract",
        threads: Threads = None,
        overwrite: Annotated[bool, Field(description="Whether an existing file may be replaced")] = False,
    ) -> Answer:
        """Write a stand-alone Python module with the fast function, which needs NumPy and Numba alone.

        Of a run's winner, or of a kernel with a schedule, which has to pass all checks first. Running the written file
        checks it against the original.
        """
        given = {"path": path, "run": run, "kernel": kernel, "schedule": schedule, "size": size}
        return await self._ask(caller, "export", **given, fp=fp, threads=threads, overwrite=overwrite)

    async def _ask(self, caller: Caller, job: str, **arguments: Any) -> Any:
        try:
            return await self._engine.ask(job, arguments, Progress(caller).tell)
        except JobFailed as error:
            raise ToolError(str(error)) from None


class Progress:
    """Progress of one call, to whoever made it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._progress = 0.0

    async def tell(self, message: str, done: float | None, total: float | None) -> None:
        self._progress = max(self._progress + PROGRESS_WITHOUT_WORK, done or 0.0)
        await self._caller.report_progress(self._progress, total, message)
