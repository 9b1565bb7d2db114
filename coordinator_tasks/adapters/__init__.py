"""The ports of the core on kazoo, confluent-kafka and HTTP; foreign errors are translated here."""
