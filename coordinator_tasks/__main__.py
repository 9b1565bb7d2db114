"""`python -m coordinator_tasks`: the command line without an installed script."""

from coordinator_tasks.cli import main

main()
