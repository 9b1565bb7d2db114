"""The errors of local processes. Each message is one line with problem, reason and remedy."""

from coordinator_tasks.core.errors import CoordinatorError


class EmbeddedError(CoordinatorError, code="KPC-070"):
    """A local server of the demonstration, the tests or the benchmarks could not be used.

    Remedy: do what the text says.

    Commands print errors of this kind without a traceback.
    """


class JarsUnavailable(EmbeddedError, code="KPC-071"):
    """The jars of the local Kafka or ZooKeeper could not be fetched, or have another checksum.

    Remedy: check that the Maven registry can be reached, and start again.
    """


class CacheUnavailable(EmbeddedError, code="KPC-072"):
    """The folder for fetched files is not writable, belongs to another user, or its disk is full.

    Remedy: set `COORDINATOR_CACHE` to another folder.
    """


class ProcessFailed(EmbeddedError, code="KPC-073"):
    """A local server was not ready in time, or ended by itself.

    Remedy: read the log that the text names.
    """


class AirflowUnavailable(EmbeddedError, code="KPC-074"):
    """The local Airflow answered with an error, or too late.

    Remedy: read the logs in the folder that the text names.
    """


class ReaderNotCompiled(EmbeddedError, code="KPC-076"):
    """The Java sources of the reader do not compile, or have warnings.

    Remedy: correct the line that the compiler names.
    """
