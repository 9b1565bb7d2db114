"""The rules shared by consumers and coordinator: the right to run and commit a partition, and its token."""
