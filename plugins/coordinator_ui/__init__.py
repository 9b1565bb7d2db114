"""The coordinator's pages inside Airflow's UI: what is there, what moved, from whom to whom, why, and how long it took.

Pages only read. `registration` is all that Airflow's other processes load of it; `routes` is built in the API server.
"""
