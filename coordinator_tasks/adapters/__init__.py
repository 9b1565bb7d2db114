"""The ports of the core on kazoo, confluent-kafka and HTTP. The adapters translate the libraries' errors."""
