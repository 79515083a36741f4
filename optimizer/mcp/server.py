"""The server's tools and resources: names, schemas and descriptions. What they do is in `jobs.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from optimizer.mcp.engine import Engine, JobFailed
from optimizer.names import nearest

INSTRUCTIONS = """\
Loopwright turns a Python loop nest over NumPy arrays into a faster one that is proved to compute the same.
You propose schedules; the tools judge and time them. A good way to work: `explain` the kernel, `check` schedules of
your own (a rejected one comes back with the violated dependence and a legal repair), or let `run` search; then `export`.
A schedule is a text of steps, such as "tile(i=32, j=32); parallel(i_t); vectorize(j)", with the loop names of `explain`.
Speedups are over the original under serial Numba; nothing you say about a schedule changes its verdict."""

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


class Server(MCPServer[Any]):
    """Says what is wrong with a call in one message, without the package's own words around it."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        tools = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name not in tools:
            return _refusal(f"there is no tool {name!r}{nearest(name, tools)} (there are {', '.join(tools)})")
        known = list(tools[name].get("properties", {}))
        for argument in arguments:
            if argument not in known:
                near = nearest(argument, known)
                return _refusal(f"{name} has no argument {argument!r}{near} (it has {', '.join(known) or 'none'})")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            match error.__cause__:
                case ValidationError() as invalid:
                    return _refusal(_invalid_arguments(name, invalid))
                case ToolError() as refused:
                    return _refusal(str(refused))
                case _:
                    raise


def build_server(engine: Engine, version: str) -> Server:
    """A server whose work `engine` does."""
    server = Server("loopwright", title="Loopwright", instructions=INSTRUCTIONS, version=version, log_level="WARNING")
    for tool, annotations in _tools(engine):
        server.add_tool(tool, annotations=annotations)
    _add_resources(server, engine)
    return server


def _tools(engine: Engine) -> list[tuple[Callable[..., Awaitable[Any]], ToolAnnotations]]:
    async def list_kernels(caller: Caller) -> list[Answer]:
        """List the bundled kernels: name, suite, named sizes, and arrays with type and shape."""
        return await _ask(engine, caller, "list_kernels")

    async def explain(
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
        return await _ask(engine, caller, "explain", **given)

    async def check(
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
        return await _ask(engine, caller, "check", **given)

    async def run(
        caller: Caller,
        kernel: Kernel,
        size: Size = None,
        policy: Annotated[
            Literal["polyhedral", "hillclimb", "random"],
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
        return await _ask(engine, caller, "run", **given, fp=fp, threads=threads, seed=seed)

    async def resume(caller: Caller, run: RunName) -> Answer:
        """Go on with a run that was cancelled, within what is left of its budget; one that is over tells its result."""
        return await _ask(engine, caller, "resume", run=run)

    async def best(caller: Caller, run: RunName) -> Answer:
        """Tell the best verified schedule of a run, over or not, in the same form as `run` does."""
        return await _ask(engine, caller, "best", run=run)

    async def export(
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
        return await _ask(engine, caller, "export", **given, fp=fp, threads=threads, overwrite=overwrite)

    return [
        (list_kernels, READS),
        (explain, READS),
        (check, READS),
        (run, WRITES_RUNS),
        (resume, WRITES_RUNS),
        (best, READS),
        (export, WRITES_FILES),
    ]


def _add_resources(server: Server, engine: Engine) -> None:
    @server.resource("loopwright://kernel/{name}", name="kernel", title="A kernel's loop nest", mime_type="text/plain")
    async def kernel(name: str, caller: Caller) -> str:  # pyright: ignore[reportUnusedFunction]
        """The source with loop and statement names in the margin, what is parallel, and the dependences in words.

        The name is a bundled kernel's, or file.py:function with each / written as %2F.
        """
        return await _read(engine, caller, "kernel_text", name)

    @server.resource(
        "loopwright://run/{name}/journal", name="journal", title="A run's journal", mime_type="application/jsonl"
    )
    async def journal(name: str, caller: Caller) -> str:  # pyright: ignore[reportUnusedFunction]
        """All that happened in a run, one JSON object a line."""
        return await _read(engine, caller, "journal", name)


async def _ask(engine: Engine, caller: Caller, job: str, **arguments: Any) -> Any:
    progress = _Progress(caller)
    try:
        return await engine.ask(job, arguments, progress.tell)
    except JobFailed as error:
        raise ToolError(str(error)) from None


async def _read(engine: Engine, caller: Caller, job: str, name: str) -> str:
    progress = _Progress(caller)
    try:
        return await engine.ask(job, {"name": name}, progress.tell)
    except JobFailed as error:
        raise ResourceError(str(error)) from None


class _Progress:
    """Progress of one call, to whoever made it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._progress = 0.0

    async def tell(self, message: str, done: float | None, total: float | None) -> None:
        self._progress = max(self._progress + PROGRESS_WITHOUT_WORK, done or 0.0)
        await self._caller.report_progress(self._progress, total, message)


def _invalid_arguments(tool: str, error: ValidationError) -> str:
    """Which argument is wrong, and how; never the value, which may be long."""
    problems = (f"{'.'.join(str(part) for part in e['loc'][:1])}: {e['msg']}" for e in error.errors())
    return f"the arguments of {tool} are wrong: {'; '.join(dict.fromkeys(problems))}"


def _refusal(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
