package partitioncoordinator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** Reads ranges as an executor does, for tests in Python: a request a line, then a line for each row and one at the end. */
public final class ReadRanges {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ReadRanges() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            System.out.println(answer(JSON.readTree(line)));
            System.out.flush();
        }
    }

    private static JsonNode answer(JsonNode request) {
        ReadSettings settings = ReadSettings.of(request.get("settings"));
        OffsetRange[] ranges = new OffsetRange[request.get("ranges").size()];
        for (int place = 0; place < ranges.length; place++) {
            JsonNode range = request.get("ranges").get(place);
            ranges[place] = new OffsetRange(
                    range.get(0).asInt(),
                    range.get(1).asLong(),
                    range.get(2).asLong(),
                    range.get(3).asLong());
        }
        int most = request.get("most").asInt();
        try (RangesReader reader = new RangesReader(settings, ranges)) {
            int rows = 0;
            while (rows < most && reader.next()) {
                System.out.println(row(reader.get(), settings));
                rows++;
            }
            return JSON.nullNode();
        } catch (IOException | RuntimeException error) {
            return JSON.createObjectNode()
                    .put("error", error.getMessage())
                    .put("type", error.getClass().getName());
        }
    }

    private static ArrayNode row(InternalRow row, ReadSettings settings) {
        ArrayNode found = JSON.createArrayNode();
        found.add(row.isNullAt(0) ? null : row.getBinary(0));
        found.add(row.isNullAt(1) ? null : row.getBinary(1));
        found.add(row.getUTF8String(2).toString()).add(row.getInt(3)).add(row.getLong(4));
        found.add(row.isNullAt(5) ? null : row.getLong(5)).add(row.getInt(6));
        if (settings.includeHeaders()) {
            found.add(row.isNullAt(7) ? JSON.nullNode() : headers(row.getArray(7)));
        }
        if (settings.includeAssignment()) {
            int first = settings.includeHeaders() ? 8 : 7;
            found.add(row.getUTF8String(first).toString())
                    .add(row.getLong(first + 1))
                    .add(row.getLong(first + 2));
        }
        return found;
    }

    private static ArrayNode headers(ArrayData headers) {
        ArrayNode found = JSON.createArrayNode();
        for (int place = 0; place < headers.numElements(); place++) {
            InternalRow header = headers.getStruct(place, 2);
            ArrayNode pair = found.addArray().add(header.getUTF8String(0).toString());
            pair.add(header.isNullAt(1) ? null : header.getBinary(1));
        }
        return found;
    }
}
