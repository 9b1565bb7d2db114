"""Runs a program to its end and keeps the end of its output, however much it prints."""

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

CHUNK_BYTES = 64 * 1024


def run_to_end(
    command: Sequence[str], environ: Mapping[str, str], limit_s: float, most_bytes: int
) -> subprocess.CompletedProcess[str]:
    """Return the exit code and the last `most_bytes` of both outputs. Kill the program after `limit_s`.

    Raises `subprocess.TimeoutExpired`.
    """
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process,
        ThreadPoolExecutor(2) as readers,
    ):
        ends = [readers.submit(_end_of, stream, most_bytes) for stream in (process.stdout, process.stderr)]
        try:
            code = process.wait(limit_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(command, code, *(end.result() for end in ends))


def _end_of(stream: IO[bytes] | None, most_bytes: int) -> str:
    end = b""
    while stream is not None and (chunk := stream.read(CHUNK_BYTES)):
        end = (end + chunk)[-most_bytes:]
    return end.decode(errors="replace")
