"""The checks of `doctor`: the rights of one side, and the systems that it uses. Each check gives one finding."""

from coordinator_tasks.doctor.examination import airflow_site, examine
from coordinator_tasks.doctor.findings import CheckResult, DoctorFinding, failed

__all__ = ["CheckResult", "DoctorFinding", "airflow_site", "examine", "failed"]
