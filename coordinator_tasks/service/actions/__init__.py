"""The actions of persons: one declaration for each form in Airflow and each command."""
