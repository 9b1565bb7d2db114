"""The rules that consumers and coordinator share: who may run and commit a partition, and under which token."""
