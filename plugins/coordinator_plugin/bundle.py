"""The DAGs of the installed package as a DAG bundle, for `[dag_processor] dag_bundle_config_list` (`docs/install.md`)."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from coordinator_plugin.loader import PACKAGE


class CoordinatorDagBundle(LocalDagBundle):
    """The folder of the DAG files in the installed package. Its version is the package's."""

    def __init__(self, **kwargs: Any) -> None:
        found = find_spec(PACKAGE)
        if found is None or not found.submodule_search_locations:
            raise ModuleNotFoundError(f"{PACKAGE} is not installed: install the wheel, or name the folder of the DAGs")
        super().__init__(path=str(Path(found.submodule_search_locations[0])), **kwargs)
