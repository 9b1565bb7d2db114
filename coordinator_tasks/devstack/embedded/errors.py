"""The errors of local processes. Each message is one line with problem, reason and remedy."""

from coordinator_tasks.core.errors import CoordinatorError


class EmbeddedError(CoordinatorError):
    """A local server of the demonstration, the tests or the benchmarks could not be used.

    Remedy: do what the text says.

    Commands print errors of this kind without a traceback.
    """

    code = "KPC-070"


class JarsUnavailable(EmbeddedError):
    """The jars of the local Kafka or ZooKeeper could not be fetched, or have another checksum.

    Remedy: check that the Maven registry can be reached, and start again.
    """

    code = "KPC-071"


class CacheUnavailable(EmbeddedError):
    """The folder for fetched files is not writable, belongs to another user, or its disk is full.

    Remedy: set `COORDINATOR_CACHE` to another folder.
    """

    code = "KPC-072"


class ProcessFailed(EmbeddedError):
    """A local server was not ready in time, or ended by itself.

    Remedy: read the log that the text names.
    """

    code = "KPC-073"


class AirflowUnavailable(EmbeddedError):
    """The local Airflow answered with an error, or too late.

    Remedy: read the logs in the folder that the text names.
    """

    code = "KPC-074"


class ReaderNotCompiled(EmbeddedError):
    """The Java sources of the reader do not compile, or have warnings.

    Remedy: correct the line that the compiler names.
    """

    code = "KPC-076"
