"""A command run to the end, and the text about a failed command."""

import sys

import pytest

from coordinator_tasks.devstack.embedded.errors import ProcessFailed
from coordinator_tasks.devstack.embedded.processes import run_to_end

SAYS = r"import sys; sys.stderr.buffer.write(b'no space in /srv/Gr\xf6\xdfe\n'); sys.exit(1)"


def test_the_last_line_of_a_failed_command_is_said_also_if_it_is_no_utf8() -> None:
    with pytest.raises(ProcessFailed, match=r"the folder was not formatted: 'no space in /srv/Gr.+e'; make room"):
        run_to_end([sys.executable, "-c", SAYS], 30.0, {}, failure="the folder was not formatted", advice="make room")
