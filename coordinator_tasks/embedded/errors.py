"""The errors of local processes; each message is one line that says what, why and what to do next."""


class EmbeddedError(Exception):
    """Base of the errors a person can act on; print it without a traceback."""


class JarsUnavailable(EmbeddedError):
    """The Kafka broker's jars, or ZooKeeper's, are missing and could not be fetched."""


class CacheUnavailable(EmbeddedError):
    """The folder for fetched files cannot be used."""


class ProcessFailed(EmbeddedError):
    """A managed process did not start, did not become ready in time, or ended by itself."""


class AirflowUnavailable(EmbeddedError):
    """Airflow answered with an error, or something that was awaited from it did not happen in time."""
