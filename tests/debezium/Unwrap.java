import io.debezium.transforms.ExtractNewRecordState;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/** Reads a value, with or without a schema, from each line, or a tombstone from an empty one; prints what ExtractNewRecordState makes of it. */
public class Unwrap {
    public static void main(String[] arguments) throws Exception {
        JsonConverter reader = new JsonConverter();
        reader.configure(Map.of("schemas.enable", true), false);
        JsonConverter plain = new JsonConverter();
        plain.configure(Map.of("schemas.enable", false), false);
        ExtractNewRecordState<SourceRecord> unwrap = new ExtractNewRecordState<>();
        unwrap.configure(Map.of(
            "delete.tombstone.handling.mode", "rewrite",
            "add.fields", "op,source.commit_lsn,source.ts_ms,source.snapshot"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            byte[] body = line.isEmpty() ? null : line.getBytes(StandardCharsets.UTF_8);
            SchemaAndValue value = (line.startsWith("{\"schema\"") ? reader : plain).toConnectData("topic", body);
            SourceRecord record = new SourceRecord(
                Map.of(), Map.of(), "topic", 0, null, null, value.schema(), value.value());
            SourceRecord made = unwrap.apply(record);
            byte[] printed = made == null ? null : plain.fromConnectData("topic", made.valueSchema(), made.value());
            System.out.println(printed == null ? "null" : new String(printed, StandardCharsets.UTF_8));
        }
    }
}
