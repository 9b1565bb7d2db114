"""Small worlds for tests: a topic as a table of facts, and a whole cluster with consumers on the production rules."""
