"""Passes Airflow's OpenLineage settings (section `[openlineage]`) to the consumers that a task launches."""

import json

from airflow.configuration import conf

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.run_folder import RunFolder, write_private

SECTION = "openlineage"


def variables(folder: RunFolder) -> dict[str, str]:
    """Return the consumer's variables; empty if Airflow has no transport or has disabled OpenLineage.

    The transport may contain a key, so it goes into a file of the run folder. Raises `BadSettings`.
    """
    folder.openlineage.unlink(missing_ok=True)
    if conf.getboolean(SECTION, "disabled", fallback=False):
        return {"OPENLINEAGE_DISABLED": "true"}
    path, text = conf.get(SECTION, "config_path", fallback=""), conf.get(SECTION, "transport", fallback="")
    namespace = conf.get(SECTION, "namespace", fallback="")
    named = {"OPENLINEAGE_NAMESPACE": namespace} if namespace else {}
    if path:  # the path has priority, as in Airflow's provider
        return {"OPENLINEAGE_CONFIG": path, **named}
    if not text:
        return {}
    write_private(folder.openlineage, {"transport": _object(text)})
    return {"OPENLINEAGE_CONFIG": str(folder.openlineage), **named}


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadSettings(f"transport in [{SECTION}] is not JSON: {error}; correct Airflow's configuration") from error
    if not isinstance(found, dict):
        raise BadSettings(f"transport in [{SECTION}] is no object; write it as OpenLineage's documentation shows")
    return found
