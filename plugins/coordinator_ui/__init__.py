"""The coordinator's pages inside Airflow's UI: topics, consumers, and the moves with givers, takers, reasons and times.

Pages only read. The API server builds `routes`; Airflow's other processes load only `registration`.
"""
