"""The actions of persons. One declaration makes both the form in Airflow and the command."""
