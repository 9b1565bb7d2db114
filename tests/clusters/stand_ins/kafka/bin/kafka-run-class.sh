#!/bin/bash
exec java ${KAFKA_HEAP_OPTS:--Xmx512m} -Dorg.slf4j.simpleLogger.defaultLogLevel=warn $KAFKA_OPTS -cp '/opt/kafka/libs/*' "$@"
