import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.microsoft.sqlserver.jdbc.SQLServerBulkCopy;
import com.microsoft.sqlserver.jdbc.SQLServerBulkCopyOptions;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Copies one table into others with Microsoft's SQLServerBulkCopy.
 *
 * <p>Standard input: {"url": ..., "from": table, "to": [tables]}. Standard output: for each target {"rows": how many it has then}, or
 * {"error": number, "text": ...}. Started as a source file; see test_jdbc_bulk_copy.py.
 */
public final class BulkCopy {
    private BulkCopy() {}

    public static void main(String[] arguments) throws Exception {
        var input = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        JsonObject document = JsonParser.parseReader(input).getAsJsonObject();
        String url = document.get("url").getAsString();
        Map<String, Object> results = new LinkedHashMap<>();
        try (Connection from = DriverManager.getConnection(url); Connection to = DriverManager.getConnection(url)) {
            for (var target : document.getAsJsonArray("to")) {
                results.put(target.getAsString(), copied(from, to, document.get("from").getAsString(), target.getAsString()));
            }
        }
        System.out.println(new Gson().toJson(results));
    }

    private static Map<String, Object> copied(Connection from, Connection to, String source, String target) throws Exception {
        try (Statement reading = from.createStatement();
                Statement counting = to.createStatement();
                ResultSet rows = reading.executeQuery("SELECT * FROM " + source);
                SQLServerBulkCopy copy = new SQLServerBulkCopy(to)) {
            var options = new SQLServerBulkCopyOptions();
            options.setBatchSize(2);
            copy.setBulkCopyOptions(options);
            copy.setDestinationTableName(target);
            copy.writeToServer(rows);
            ResultSet count = counting.executeQuery("SELECT COUNT(*) FROM " + target);
            count.next();
            return Map.of("rows", count.getInt(1));
        } catch (SQLException refused) {
            return Map.of("error", refused.getErrorCode(), "text", String.valueOf(refused.getMessage()));
        }
    }
}
