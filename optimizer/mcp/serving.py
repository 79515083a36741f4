"""Serve over standard input and output, or over HTTP on this machine alone."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from optimizer.errors import UserError
from optimizer.mcp.confinement import Root
from optimizer.mcp.engine import Engine
from optimizer.mcp.server import build_server

PATH = "/mcp"


async def serve_stdio(root: Root) -> None:
    """Until standard input ends. The package keeps all output but the protocol's off standard output meanwhile."""
    async with Engine(root) as engine:
        await build_server(engine, _version()).run_stdio_async()


async def serve_http(root: Root, host: str, port: int, say: Callable[[str], None]) -> None:
    """Until interrupted. Port 0 takes a free one; `say` is told the address.

    Requests whose Host or Origin is not this machine are refused, so that no web page can reach the server by giving
    its own name this machine's address. Raises `UserError`.
    """
    with _listening(host, port) as listener:
        bound = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        async with Engine(root) as engine:
            app = build_server(engine, _version()).streamable_http_app(
                streamable_http_path=PATH, host=host, transport_security=_only_local(bound)
            )
            say(f"loopwright serves {root.path} at http://{shown}:{bound}{PATH} (Ctrl-C ends it)")
            # A client holds a stream open as long as it lives: without a limit, the end would wait for it.
            config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
            await uvicorn.Server(config).serve(sockets=[listener])


def check_loopback(host: str) -> None:
    """Raise `UserError` unless the host is this machine's own: whoever reaches the server can run code on it."""
    if host == "localhost":
        return
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise UserError(
            f"--host {host} is not this machine alone: use 127.0.0.1, ::1 or localhost (a tunnel such as "
            "`ssh -L` reaches it from elsewhere)"
        )


def _listening(host: str, port: int) -> socket.socket:
    check_loopback(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UserError(f"cannot listen on {host} port {port}: {error.strerror}; choose another --port") from error
    return listener


def _only_local(port: int) -> TransportSecuritySettings:
    hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts])


def _version() -> str:
    try:
        return version("loopwright")
    except PackageNotFoundError:
        return ""
