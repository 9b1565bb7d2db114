# The image of airflow-values.yaml: the one that docker-compose.yaml builds, with what Airflow's chart needs. That one is made of a slim
# image, without Celery, without the FAB auth manager (the chart's default), and without the client for launches to Kubernetes.
#   docker compose build airflow-init
#   docker build --tag partition-coordinator-airflow-kubernetes:0.3.0 --file docs/kubernetes/airflow.Dockerfile docs/kubernetes
FROM partition-coordinator-airflow:0.3.0
COPY airflow-requirements.txt /opt/coordinator/airflow-requirements.txt
RUN pip install --no-cache-dir --require-hashes --no-deps -r /opt/coordinator/airflow-requirements.txt
