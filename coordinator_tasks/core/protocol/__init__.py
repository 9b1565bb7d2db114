"""What consumers and coordinator agree on beside the nodes: who may commit, under which token, in which life."""
