"""The coordinator's pages in Airflow's UI: topics, consumers, and moves with givers, takers, reasons and times.

The pages only read. The API server builds `routes`; Airflow's other processes load only `registration`.
"""
