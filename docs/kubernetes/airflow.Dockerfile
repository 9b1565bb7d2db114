# The image of airflow-values.yaml: the one that docker-compose.yaml builds, with what Airflow's chart needs. That one is made of a slim
# image, without Celery, without the FAB auth manager (the chart's default), and without the client for launches to Kubernetes.
#   docker compose build airflow-init
#   docker build --tag partition-coordinator-airflow-kubernetes:0.3.0 --file docs/kubernetes/airflow.Dockerfile docs/kubernetes
FROM partition-coordinator-airflow:0.3.0
# Airflow and PySpark stay as they are frozen. Celery 5.7 breaks its provider.
RUN pip install --no-cache-dir apache-airflow==3.3.2 pyspark==4.3.0 \
    apache-airflow-providers-celery==3.26.0 celery==5.6.3 \
    apache-airflow-providers-cncf-kubernetes==10.25.0 \
    apache-airflow-providers-fab==3.10.2
