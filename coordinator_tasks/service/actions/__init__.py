"""What a person may ask for: one declaration for each form in Airflow and each command."""
