#!/bin/bash
# start-foreground and status, which are all that the stack asks for.
case "$1" in
start-foreground) exec java -Xmx256m -cp '/zookeeper/lib/*' org.apache.zookeeper.server.quorum.QuorumPeerMain "$ZOO_CONF_DIR/zoo.cfg" ;;
status) java -cp '/zookeeper/lib/*' org.apache.zookeeper.client.FourLetterWordMain localhost 2181 srvr 2> /dev/null | grep '^Mode: ' ;;
*) exit 2 ;;
esac
