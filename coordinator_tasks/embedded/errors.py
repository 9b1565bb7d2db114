"""The errors of local processes; each message is one line that says what, why and what to do next."""

from coordinator_tasks.core.errors import CoordinatorError


class EmbeddedError(CoordinatorError):
    """Base of the errors a person can act on; print it without a traceback."""

    code = "KPC-070"


class JarsUnavailable(EmbeddedError):
    """The Kafka broker's jars, or ZooKeeper's, are missing and could not be fetched."""

    code = "KPC-071"


class CacheUnavailable(EmbeddedError):
    """The folder for fetched files cannot be used."""

    code = "KPC-072"


class ProcessFailed(EmbeddedError):
    """A managed process did not start, did not become ready in time, or ended by itself."""

    code = "KPC-073"


class AirflowUnavailable(EmbeddedError):
    """Airflow answered with an error, or something that was awaited from it did not happen in time."""

    code = "KPC-074"
