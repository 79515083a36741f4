"""Python programs in the sandbox, with a request and a way to answer it, and what is left of them."""

from __future__ import annotations

import sys
import time
from typing import Any

import psutil

from verifiers.sandbox import Ended, run_once

ANSWER = """
import json, os, sys
request, pipe = json.loads(sys.stdin.read()), int(sys.argv[-1])
def send(body):
    os.write(pipe, len(body).to_bytes(4, "big") + body)
def answer(**message):
    send(json.dumps({"nonce": request["nonce"], **message}).encode())
"""


def run(script: str, deadline: float = 10.0, *, network: bool = False) -> Ended:
    return run_once([sys.executable, "-c", ANSWER + script], deadline, request={"text": "hello"}, network=network)


def told(script: str, deadline: float = 10.0, *, network: bool = False) -> Any:
    """What the script answers as `value`."""
    ended = run(script, deadline, network=network)
    assert ended.answer is not None, ended
    return ended.answer["value"]


def is_alive(process_id: int) -> bool:
    """Whether a process goes on, some moments after it should have been killed."""
    for _ in range(50):
        try:
            if psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.02)
    return True
