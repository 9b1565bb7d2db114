"""Check this side's rights and neighbours, one finding each."""

from coordinator_tasks.doctor.examination import airflow_site, examine
from coordinator_tasks.doctor.findings import Finding, Result, failed

__all__ = ["Finding", "Result", "airflow_site", "examine", "failed"]
