"""Speaks to an `AgentServer` as the source in the JVM does."""

import json
import socket
from collections.abc import Mapping
from typing import Any

from spark_apps.errors import AgentCallFailed
from spark_apps.records.agent_socket import VERSION


class AgentClient:
    """A reader's connection; an error of the agent is raised as `AgentCallFailed`."""

    def __init__(self, path: str, reader: str, options: Mapping[str, str], version: int = VERSION) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._stream = self._socket.makefile("rwb")
        self.attached: dict[str, Any] = {}
        if reader:
            self.attached = self.ask("attach", version=version, reader=reader, options=dict(options))

    def ask(self, call: str, **fields: Any) -> Any:
        self._stream.write(json.dumps({"call": call, **fields}).encode() + b"\n")
        self._stream.flush()
        answer = json.loads(self._stream.readline())
        if "error" in answer:
            raise AgentCallFailed(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        self._stream.close()
        self._socket.close()
