package partitioncoordinator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** A connection to the agent: JSON lines on a Unix socket (see {@code spark_apps/records/agent_socket.py}). */
final class Agent implements AutoCloseable {
    static final int VERSION = 4;
    /** System property with the path of the agent's socket. */
    static final String ADDRESS = "partitioncoordinator.agent";

    private static final ObjectMapper JSON = new ObjectMapper();

    private final String path;
    private final SocketChannel channel;
    private final BufferedReader answers;

    private Agent(String path, SocketChannel channel) {
        this.path = path;
        this.channel = channel;
        answers = new BufferedReader(Channels.newReader(channel, StandardCharsets.UTF_8));
    }

    static Agent connect() {
        String path = System.getProperty(ADDRESS, "");
        if (path.isEmpty()) {
            throw failed(
                    "the format " + AssignedKafkaProvider.FORMAT + " needs an agent in this process, and there is none;"
                            + " start the agent first, by a spark_apps.consumer.Consumer: see docs/consumers.md",
                    null);
        }
        SocketChannel channel = null;
        try {
            channel = SocketChannel.open(StandardProtocolFamily.UNIX);
            channel.connect(UnixDomainSocketAddress.of(path));
            return new Agent(path, channel);
        } catch (IOException error) {
            closeQuietly(channel);
            throw failed("the agent does not listen at " + path + " (" + error.getMessage() + ")", error);
        }
    }

    /** The agent's answer. An error is an {@code IllegalStateException} with the agent's sentence. */
    JsonNode ask(String call, Map<String, ?> fields) {
        ObjectNode request = JSON.valueToTree(fields);
        request.put("call", call);
        try {
            ByteBuffer line = StandardCharsets.UTF_8.encode(request + "\n");
            while (line.hasRemaining()) {
                channel.write(line);
            }
            String answer = answers.readLine();
            if (answer == null) {
                throw new IOException("the agent has ended");
            }
            JsonNode found = JSON.readTree(answer);
            if (found.has("error")) {
                throw failed(found.get("error").asText(), null);
            }
            return found.get("ok");
        } catch (ClosedByInterruptException error) {
            throw new UncheckedIOException(error); // by this exception Spark knows that the query was stopped
        } catch (IOException error) {
            close();
            throw failed("the agent at " + path + " did not answer (" + error + "); the driver's log says why", error);
        }
    }

    static JsonNode read(String json) {
        try {
            return JSON.readTree(json);
        } catch (IOException error) {
            throw new IllegalArgumentException(
                    "OffsetMalformed: the offset of a batch is no JSON: " + error.getMessage());
        }
    }

    @Override
    public void close() {
        closeQuietly(channel);
    }

    private static void closeQuietly(SocketChannel channel) {
        try {
            if (channel != null) {
                channel.close();
            }
        } catch (IOException ignored) {
            // nobody waits for the end of the connection
        }
    }

    private static IllegalStateException failed(String sentence, Throwable cause) {
        return new IllegalStateException("AgentCallFailed: " + sentence, cause);
    }
}
