"""The server: the tools, the resources, and what is said to a call that cannot be done."""

from __future__ import annotations

import inspect
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent
from pydantic import ValidationError

from optimizer.mcp.engine import Engine, JobFailed
from optimizer.mcp.tools import Caller, Progress, Tools
from optimizer.names import nearest

INSTRUCTIONS = """\
Loopwright turns a Python loop nest over NumPy arrays into a faster one that is proved to compute the same.
You propose schedules; the tools judge and time them. A good way to work: `explain` the kernel, `check` schedules of
your own (a rejected one comes back with the violated dependence and a legal repair), or let `run` search, and `export`.
A schedule is a text of steps, such as "tile(i=32, j=32); parallel(i_t); vectorize(j)"; `explain` tells the loop names.
Speedups are over the original under serial Numba; nothing you say about a schedule changes its verdict."""


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
    for tool, hints in Tools(engine).all:
        server.add_tool(tool, description=inspect.getdoc(tool), annotations=hints)
    resources = Resources(engine)
    for uri, read, title, mime_type in (
        ("loopwright://kernel/{name}", resources.kernel, "A kernel's loop nest", "text/plain"),
        ("loopwright://run/{name}/journal", resources.journal, "A run's journal", "application/jsonl"),
    ):
        server.resource(uri, title=title, description=inspect.getdoc(read), mime_type=mime_type)(read)
    return server


class Resources:
    """Each public method reads a resource; its docstring is what an agent reads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def kernel(self, name: str, caller: Caller) -> str:
        """The source with loop and statement names in the margin, what is parallel, and the dependences in words.

        The name is a bundled kernel's, or file.py:function with each / written as %2F.
        """
        return await self._read(caller, "kernel_text", name)

    async def journal(self, name: str, caller: Caller) -> str:
        """All that happened in a run, one JSON object a line."""
        return await self._read(caller, "journal", name)

    async def _read(self, caller: Caller, job: str, name: str) -> str:
        try:
            return await self._engine.ask(job, {"name": name}, Progress(caller).tell)
        except JobFailed as error:
            raise ResourceError(str(error)) from None


def _invalid_arguments(tool: str, error: ValidationError) -> str:
    """Which argument is wrong, and how; never the value, which may be long."""
    problems = (f"{'.'.join(str(part) for part in e['loc'][:1])}: {e['msg']}" for e in error.errors())
    return f"the arguments of {tool} are wrong: {'; '.join(dict.fromkeys(problems))}"


def _refusal(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
