"""A restart under the same id on real ZooKeeper and Kafka, beside a process that only stands still."""

import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator_tasks.core.codecs.member_codec import decode_member
from tests.integration.agent_site import wait_for
from tests.integration.real_site import Managed

pytestmark = pytest.mark.integration


def test_a_restart_beside_a_stopped_process_is_given_nothing_while_that_may_go_on(
    managed: Managed, tmp_path: Path
) -> None:
    def start() -> subprocess.Popen[bytes]:
        process = managed.site.plain_process("b", tmp_path / "rows", "--close-timeout", "0.5")
        ending.enter_context(process)
        ending.callback(process.kill)
        return process

    with ExitStack() as ending, managed.looping():
        managed.join("a")
        process = start()
        managed.stable("ab")
        first = managed.node().incarnations["b"]
        process.send_signal(signal.SIGSTOP)
        start()
        zk, path = managed.site.zk, managed.site.paths.member("b")

        def registered() -> bool:
            node = zk.find(path)
            return node is not None and decode_member(path, node.data).incarnation != first

        wait_for(registered, "the second b registers")
        until_s = time.monotonic() + 5.0
        while time.monotonic() < until_s:
            assert managed.node().incarnations["b"] == first
            time.sleep(0.1)
