"""`loopwright mcp`: the official client against the real server, over standard input and output and over HTTP."""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from click.testing import CliRunner
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import TextContent, TextResourceContents

from optimizer.cli import main
from optimizer.errors import UserError
from optimizer.journal import read_record
from optimizer.mcp.confinement import Root
from optimizer.mcp.serving import check_loopback
from optimizer.plan import StopReason

CHECKOUT = Path(__file__).resolve().parent.parent
OWN = """
import numpy as np
from jaxtyping import Float64


def smooth(n: int, t: int, x: Float64[np.ndarray, "n"]):
    for s in range(t):
        for i in range(1, n - 1):
            x[i] = 0.5 * (x[i - 1] + x[i + 1])
"""
SECRET = "do not read me"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the machine's peaks are kept: measured once for all tests here."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "own.py").write_text(OWN)
    (tmp_path / "outside.py").write_text(OWN.replace("0.5", f"0.5 + {len(SECRET)}"))
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "link").symlink_to(tmp_path)
    return folder


class Session:
    """A client with the progress that it was told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, float | None, str]] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments, progress_callback=self._note)
        assert not result.is_error, result.content
        assert result.structured_content is not None
        block = result.content[0]
        assert isinstance(block, TextContent)
        if tool != "list_kernels":
            assert json.loads(block.text) == result.structured_content
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        (block,) = result.content
        assert isinstance(block, TextContent)
        assert "Traceback" not in block.text
        assert SECRET not in block.text
        return block.text

    async def read(self, uri: str) -> str:
        (content,) = (await self.client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents)
        return content.text

    async def _note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message or ""))


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "LOOPWRIGHT_HOME": str(home), "PYTHONPATH": str(CHECKOUT)}


def command(root: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "optimizer.cli", "mcp", "--root", str(root), *more]


@asynccontextmanager
async def stdio(root: Path, home: Path) -> AsyncGenerator[Session]:
    program, *arguments = command(root)
    server = StdioServerParameters(command=program, args=arguments, cwd=str(root), env=environment(home))
    async with Client(server) as client:
        yield Session(client)


def over_stdio(root: Path, home: Path, scenario: Callable[[Session], Awaitable[None]]) -> None:
    async def play() -> None:
        async with stdio(root, home) as session:
            await scenario(session)

    anyio.run(play)


def test_from_the_list_to_an_exported_file_that_runs(root: Path, home: Path) -> None:
    async def scenario(session: Session) -> None:
        listed = (await session.call("list_kernels"))["result"]
        assert {"name", "suite", "sizes", "arrays"} <= set(listed[0])
        assert "matmul" in [kernel["name"] for kernel in listed]

        explained = await session.call("explain", kernel="matmul", size="mini")
        assert [loop["name"] for loop in explained["loops"]] == ["i", "j", "k"]
        assert explained["parallel"] == ["i", "j"]
        assert explained["limit_seconds"] > 0
        moved = await session.call("explain", kernel="matmul", size="mini", schedule="interchange(j, k)")
        assert "def " in moved["code"]

        illegal = await session.call("check", kernel="matmul", schedule="parallel(k)", size="mini")
        assert (illegal["status"], illegal["reason"]) == ("rejected", "illegal")
        assert illegal["witness"]["array"] == "C"
        assert illegal["witness"]["loop"] == "k"
        repaired = await session.call("check", kernel="matmul", schedule=illegal["repair"], size="mini", timing=False)
        assert (repaired["status"], repaired["speedup"]) == ("ok", None)
        legal = await session.call("check", kernel="matmul", schedule="interchange(j, k)", size="mini")
        assert legal["status"] == "ok"
        assert legal["interval"][0] <= legal["speedup"] <= legal["interval"][1]
        assert "proved" in legal["assurance"]

        run = await session.call("run", kernel="matmul", size="mini", evaluations=2)
        assert run["evaluations"] == 2
        assert run["stop_reason"] == "budget_evaluations"
        trials = [message for _, total, message in session.progress if total == 2]
        assert [message.split(":")[0] for message in trials] == ["trial 1", "trial 2"]
        assert all("best so far" in message for message in trials)
        steps = [progress for progress, _, _ in session.progress]
        assert steps == sorted(set(steps))
        assert _timeless(await session.call("best", run=run["run"])) == _timeless(run)
        assert _timeless(await session.call("resume", run=run["run"])) == _timeless(run)
        lines = (await session.read(f"loopwright://run/{run['run']}/journal")).splitlines()
        assert [json.loads(line)["event"] for line in lines].count("trial") == 3

        exported = await session.call("export", run=run["run"], path="fast.py")
        assert _timeless(exported) == _timeless(run)
        assert exported["export"] == str(root.resolve() / "fast.py")
        assert Path(run["run_dir"]) == root.resolve() / ".loopwright" / "runs" / run["run"]

    over_stdio(root, home, scenario)
    ended = subprocess.run([sys.executable, "fast.py"], cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_file_of_the_users_under_the_root(root: Path, home: Path) -> None:
    async def scenario(session: Session) -> None:
        own = "sub/own.py:smooth"
        explained = await session.call("explain", kernel=own)
        assert explained["kernel"] == own
        assert explained["limit_seconds"] is None
        text = await session.read("loopwright://kernel/sub%2Fown.py:smooth")
        assert "x[i] = 0.5 * (x[i - 1] + x[i + 1])" in text
        assert "S0" in text
        assert "carried by s, i" in text
        assert (await session.call("explain", kernel=str(root / "sub" / "own.py") + ":smooth"))["parallel"] == []

        illegal = await session.refused("export", kernel=own, schedule="parallel(i)", size="n=40,t=3", path="f.py")
        assert "nothing was written" in illegal
        assert "illegal" in illegal
        assert not (root / "f.py").exists()
        same = {"kernel": own, "schedule": "tile(i=8)", "size": "n=40,t=3", "fp": "strict"}
        exported = await session.call("export", **same, path="sub/fast.py")
        assert exported["status"] == "ok"
        assert exported["export"] == str(root.resolve() / "sub" / "fast.py")
        assert "exists" in await session.refused("export", **same, path="sub/fast.py")
        await session.call("export", **same, path="sub/fast.py", overwrite=True)
        assert "own file" in await session.refused("export", **same, path="sub/own.py", overwrite=True)

    over_stdio(root, home, scenario)
    compile((root / "sub" / "fast.py").read_text(), "fast.py", "exec")
    assert (root / "sub" / "own.py").read_text() == OWN


def test_nothing_outside_the_root_is_read_or_written(root: Path, home: Path, tmp_path: Path) -> None:
    outside = {path: path.read_bytes() for path in tmp_path.glob("*.py")}

    async def scenario(session: Session) -> None:
        named = str(tmp_path / "outside.py")
        for place in ("../outside.py", named, "link.py", "link/outside.py", "sub/../../outside.py"):
            assert "is outside" in await session.refused("explain", kernel=f"{place}:smooth")
            assert "is outside" in await session.refused("check", kernel=f"{place}:smooth", schedule="", size="n=9,t=2")
            assert "is outside" in await session.refused("run", kernel=f"{place}:smooth", size="n=9,t=2")
            target = {"kernel": "matmul", "schedule": "", "size": "mini", "overwrite": True}
            assert "is outside" in await session.refused("export", **target, path=place)
        for name in ("../../../outside", "..", "/", ".", "a/b", "", str(tmp_path)):
            assert "no name of a run" in await session.refused("best", run=name)
        (root / ".loopwright" / "runs").mkdir(parents=True)
        (root / ".loopwright" / "runs" / "away").symlink_to(tmp_path)
        assert "is outside" in await session.refused("best", run="away")
        assert "keeps its runs" in await session.refused("export", run="x", path=".loopwright/x.py")
        assert "ends in .py" in await session.refused("export", run="x", path="x.sh")
        assert "cannot be a path" in await session.refused("export", run="x", path="x\0.py")
        for uri in ("loopwright://kernel/..%2Foutside.py:smooth", "loopwright://run/..%2F..%2F../journal"):
            with pytest.raises(MCPError) as refused:
                await session.read(uri)
            assert SECRET not in str(refused.value)

    over_stdio(root, home, scenario)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.py")} == outside


def test_a_run_folder_that_somebody_else_wrote_is_no_way_out(root: Path, tmp_path: Path) -> None:
    from optimizer.mcp.jobs import best, resume

    folder = root / ".loopwright" / "runs" / "forged"
    folder.mkdir(parents=True)

    def forge(**changed: Any) -> None:
        problem = {"kind": "kernel", "kernel": f"{tmp_path}/outside.py:smooth", "sizes": {"n": 9, "t": 2}, **changed}
        policy = problem.pop("policy", "polyhedral")
        (folder / "run.json").write_text(json.dumps({"problem": problem, "policy": policy}))

    for job in (best, resume):
        forge()
        with pytest.raises(UserError, match="is outside"):
            job(Root.at(root), _ignore, run="forged")
        for changed in ({"kind": "text"}, {"policy": "llm"}, {"arguments_file": "/x.npz"}):
            forge(**changed)
            with pytest.raises(UserError, match="not made by this server"):
                job(Root.at(root), _ignore, run="forged")


def test_what_is_wrong_is_said_in_one_message(root: Path, home: Path) -> None:
    async def scenario(session: Session) -> None:
        assert "did you mean check?" in await session.refused("chek")
        assert "did you mean matmul" in await session.refused("explain", kernel="matmull")
        assert "did you mean evaluations?" in await session.refused("run", kernel="matmul", evalutions=3)
        assert "kernel: Field required" in await session.refused("explain")
        for arguments in ({"evaluations": 0}, {"evaluations": 51}, {"seconds": 1e9}, {"threads": 0}, {"policy": "llm"}):
            (name,) = arguments
            assert f"wrong: {name}" in await session.refused("run", kernel="matmul", **arguments)
        assert "there is no loop zz" in await session.refused("check", kernel="matmul", schedule="tile(zz=8)")
        megabyte = await session.refused("check", kernel="matmul", schedule="parallel(i);" * 90_000)
        assert "wrong: schedule" in megabyte
        assert len(megabyte) < 200
        assert "unknown size" in await session.refused("check", kernel="matmul", schedule="", size="enormous")
        assert "no size given" in await session.refused("check", kernel="sub/own.py:smooth", schedule="")
        assert "GiB" in await session.refused("check", kernel="matmul", schedule="", size="ni=900000,nj=900000,nk=9")
        assert "there is no run" in await session.refused("best", run="20200101-000000-matmul-0000")
        assert "either run, or kernel and schedule" in await session.refused("export", path="x.py", kernel="matmul")
        with pytest.raises(MCPError, match="no bundled kernel"):
            await session.read("loopwright://kernel/nothing")

    over_stdio(root, home, scenario)


@pytest.mark.parametrize("transport", ["stdio", pytest.param("http", marks=pytest.mark.long)])
def test_cancelled_runs_are_saved_and_the_server_answers_meanwhile(root: Path, home: Path, transport: str) -> None:
    async def scenario(session: Session) -> None:
        waited: list[str] = []

        async def note(_progress: float, _total: float | None, message: str | None) -> None:
            waited.append(message or "")

        async with anyio.create_task_group() as group:
            group.start_soon(partial(session.call, "run", kernel="matmul", size="mini", evaluations=50))
            while not any("trial 1:" in message for _, _, message in session.progress):
                await anyio.sleep(0.02)
            began = time.monotonic()
            await session.client.list_tools(cache_mode="bypass")
            assert time.monotonic() - began < 5
            explain = partial(session.client.call_tool, "explain", progress_callback=note)
            group.start_soon(explain, {"kernel": "sub/own.py:smooth"})
            while not waited:
                await anyio.sleep(0.02)
            assert "one thing at a time, and run is under way" in waited[0]
            group.cancel_scope.cancel()
        name = session.progress[0][2].split()[1]
        best = await session.call("best", run=name)
        assert best["stop_reason"] == "interrupted"
        assert best["evaluations"] < 50
        record = read_record(root / ".loopwright" / "runs" / name)
        assert record.stop_reason is not None
        assert not record.stop_reason.is_final

    if transport == "stdio":
        over_stdio(root, home, scenario)
    else:
        with http_server(root, home) as url:
            anyio.run(over_http, url, scenario)


def test_a_server_that_is_killed_leaves_a_saved_run_and_no_process(root: Path, home: Path) -> None:
    first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    arguments = {"kernel": "matmul", "size": "mini", "evaluations": 50}
    call = {"name": "run", "arguments": arguments, "_meta": {"progressToken": 7}}
    with stdio_process(root, home) as server:
        assert server.stdout is not None
        send(server, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": first})
        send(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        send(server, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
        while "trial 1:" not in server.stdout.readline():
            pass
        server.kill()
        server.wait(20)
    deadline = time.monotonic() + 20
    while _engines(root):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (directory,) = (root / ".loopwright" / "runs").iterdir()
    record = read_record(directory)
    assert record.stop_reason is StopReason.INTERRUPTED
    assert len(record.trials) >= 2


@pytest.mark.long
def test_a_resumed_run_goes_on_where_it_was(root: Path) -> None:
    from optimizer.mcp.jobs import resume, run

    told: list[str] = []

    def interrupt(message: str, done: float | None = None, total: float | None = None) -> None:
        told.append(message)
        if message.startswith("trial 1:"):
            raise KeyboardInterrupt

    confined = Root.at(root)
    options = {"fp": "contract", "threads": 1, "seed": 0, "policy": "polyhedral", "seconds": 600.0}
    stopped = run(confined, interrupt, "matmul", "mini", evaluations=2, **options)
    assert stopped["stop_reason"] == "interrupted"
    told.clear()
    finished = resume(confined, lambda message, done=None, total=None: told.append(message), run=stopped["run"])
    assert finished["stop_reason"] == "budget_evaluations"
    assert finished["evaluations"] == 2
    assert [message.split(":")[0] for message in told if message.startswith("trial")] == ["trial 2"]


def test_an_engine_that_died_is_started_again(root: Path, home: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.call("explain", kernel="sub/own.py:smooth")
        (engine,) = _engines(root)
        os.kill(engine, signal.SIGKILL)
        assert "stopped unexpectedly" in await session.refused("explain", kernel="sub/own.py:smooth")
        await session.call("explain", kernel="sub/own.py:smooth")
        assert _engines(root) != [engine]

    over_stdio(root, home, scenario)
    assert _engines(root) == []


@pytest.mark.long
def test_only_the_protocol_is_on_standard_output(root: Path, home: Path) -> None:
    first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    check = {"kernel": "matmul", "schedule": "parallel(i)", "size": "mini"}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": first},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "check", "arguments": check}},
        "this is not JSON",
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
    ]
    with stdio_process(root, home) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for line in lines:
            send(server, line)
        answers: dict[int, dict[str, Any]] = {}
        while set(answers) != {1, 2, 3}:
            answer = json.loads(server.stdout.readline())
            assert answer["jsonrpc"] == "2.0"
            answers[answer["id"]] = answer
        server.stdin.close()
        assert server.stdout.read() == ""
        assert server.wait(20) == 0
    assert answers[2]["result"]["structuredContent"]["status"] == "ok"
    assert _engines(root) == []


def test_over_http(root: Path, home: Path) -> None:
    async def scenario(url: str) -> None:
        async with Client(url) as client:
            session = Session(client)
            run = await session.call("run", kernel="matmul", size="mini", evaluations=1)
            assert any(message.startswith("trial 1:") for _, _, message in session.progress)
            assert "outside" in await session.refused("explain", kernel="../outside.py:smooth")
            assert "matmul" in await session.read("loopwright://kernel/matmul")
        async with Client(url) as client:
            assert _timeless(await Session(client).call("best", run=run["run"])) == _timeless(run)

    with http_server(root, home) as url:
        anyio.run(scenario, url)
        for header, status in (({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)):
            request = urllib.request.Request(url, b"{}", {"Content-Type": "application/json", **header})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code == status
            refused.value.close()
    assert _engines(root) == []


def test_http_serves_this_machine_alone(root: Path) -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        check_loopback(host)
    for host in ("0.0.0.0", "::", "192.168.1.1", "example.org", ""):
        with pytest.raises(UserError, match="not this machine alone"):
            check_loopback(host)
    arguments = ["mcp", "--root", str(root), "--transport", "http"]
    refused = CliRunner().invoke(main, [*arguments, "--host", "0.0.0.0"])
    assert (refused.exit_code, "not this machine alone" in refused.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = CliRunner().invoke(main, [*arguments, "--port", str(taken.getsockname()[1])])
    assert (busy.exit_code, "cannot listen" in busy.stderr) == (2, True)


def test_the_root_has_to_be_a_folder(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["mcp", "--root", str(tmp_path / "nowhere")])
    assert refused.exit_code == 2
    assert "is not a folder" in refused.stderr


def test_without_the_package_it_is_said_how_to_get_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    refused = CliRunner().invoke(main, ["mcp", "--root", str(root)])
    assert refused.exit_code == 2
    assert 'pip install "loopwright[mcp]"' in refused.stderr


def test_help_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    importlib.import_module("optimizer.cli.mcp")
    assert CliRunner().invoke(main, ["mcp", "--help"]).exit_code == 0


@pytest.mark.long
def test_the_session_in_the_documentation_can_be_made_again(home: Path) -> None:
    script = [sys.executable, "examples/mcp_session/session.py", "--size", "n=40,m=40,p=40", "--evaluations", "1"]
    ended = subprocess.run(script, cwd=CHECKOUT, env=environment(home), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    documented = (CHECKOUT / "docs" / "mcp.md").read_text(encoding="utf-8").split("```")[-2]
    assert _calls(ended.stdout) == _calls(documented)
    assert "product agrees with the original" in ended.stdout


@contextmanager
def stdio_process(root: Path, home: Path) -> Generator[subprocess.Popen[str]]:
    """A server without a client."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command(root), **pipes, env=environment(home), cwd=CHECKOUT, text=True) as server:
        try:
            yield server
        finally:
            server.kill()


def send(server: subprocess.Popen[str], message: dict[str, Any] | str) -> None:
    assert server.stdin is not None
    server.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    server.stdin.flush()


async def over_http(url: str, scenario: Callable[[Session], Awaitable[None]]) -> None:
    async with Client(url) as client:
        await scenario(Session(client))


@contextmanager
def http_server(root: Path, home: Path) -> Generator[str]:
    """The address of a server in a process of its own."""
    server = subprocess.Popen(
        command(root, "--transport", "http", "--port", "0"), stderr=subprocess.PIPE, env=environment(home), text=True
    )
    assert server.stderr is not None
    try:
        said = server.stderr.readline()
        assert "http://127.0.0.1:" in said
        yield next(word for word in said.split() if word.startswith("http://"))
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)
        server.stderr.close()
    assert server.returncode == 0


def _engines(root: Path) -> list[int]:
    """Processes of engines that serve this root."""
    wanted = ["optimizer.mcp.engine_main", str(root.resolve())]
    processes = psutil.process_iter(["cmdline"])
    return [process.pid for process in processes if (process.info["cmdline"] or [])[-2:] == wanted]


def _timeless(answer: dict[str, Any]) -> dict[str, Any]:
    """Without the time that the run took, which the journal has from a moment earlier."""
    return {name: value for name, value in answer.items() if name not in ("seconds", "export")}


def _calls(transcript: str) -> list[tuple[str, list[str]]]:
    """The tools that were called, with the names of their arguments."""
    lines = [line.split(maxsplit=2) for line in transcript.splitlines() if line.startswith("> ")]
    return [(tool, list(json.loads(arguments))) for _, tool, arguments in lines]


def _ignore(message: str, done: float | None = None, total: float | None = None) -> None:
    """Progress that nobody looks at."""
