"""A session with `loopwright mcp`, as an agent would have it: the official client, over standard input and output.

    python examples/mcp_session/session.py [--size n=400,m=400,p=400] [--evaluations 4]

It explains the kernel in product.py, proposes an illegal schedule, takes the repair, proposes a better one, lets the
server search, exports the winner and runs it. What it prints is the session in docs/mcp.md.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

KERNEL = "product.py:product"


async def session(root: Path, size: str, evaluations: int) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "optimizer.cli", "mcp", "--root", str(root)])
    async with Client(server) as client:
        agent = Agent(client)
        await agent.call("explain", ("dependences", "parallel", "permutable"), kernel=KERNEL)
        judged = ("status", "reason", "detail", "witness", "repair", "speedup", "interval", "assurance")
        rejected = await agent.call("check", judged, kernel=KERNEL, size=size, schedule="parallel(k)")
        await agent.call("check", judged, kernel=KERNEL, size=size, schedule=rejected["repair"], timing=False)
        await agent.call("check", judged, kernel=KERNEL, size=size, schedule="interchange(j, k); parallel(i)")
        told = ("run", "schedule", "speedup", "interval", "assurance", "outcomes", "stop_reason")
        run = await agent.call("run", told, kernel=KERNEL, size=size, evaluations=evaluations)
        await agent.call("export", ("schedule",), run=run["run"], path="fast_product.py")


class Agent:
    """Calls tools and shows what comes back."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, shown: tuple[str, ...], **arguments: Any) -> dict[str, Any]:
        """The tool's answer, of which the fields in `shown` are printed where they have a value."""
        print(f"> {tool} {json.dumps(arguments)}")
        result = await self._client.call_tool(tool, arguments, progress_callback=self._progress)
        answer = result.structured_content
        if result.is_error or answer is None:
            raise SystemExit(f"{tool} failed: {result.content}")
        for name in shown:
            if answer[name] not in (None, "", []):
                print(f"  {name}: {json.dumps(answer[name])}")
        print()
        return answer

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        print(f"  ... {message}")


def main() -> None:
    parser = argparse.ArgumentParser(description="A session with `loopwright mcp`.")
    parser.add_argument("--size", default="n=400,m=400,p=400")
    parser.add_argument("--evaluations", type=int, default=4)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loopwright-session-") as folder:
        root = Path(folder)
        shutil.copy(Path(__file__).parent / "product.py", root)
        anyio.run(session, root, chosen.size, chosen.evaluations)
        print("$ python fast_product.py", flush=True)
        subprocess.run([sys.executable, "fast_product.py"], cwd=root, check=True)


if __name__ == "__main__":
    main()
