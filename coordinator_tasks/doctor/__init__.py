"""Check this side's rights and neighbours, one finding each."""

from coordinator_tasks.doctor.examination import airflow_site, examine
from coordinator_tasks.doctor.findings import CheckResult, DoctorFinding, failed

__all__ = ["CheckResult", "DoctorFinding", "airflow_site", "examine", "failed"]
