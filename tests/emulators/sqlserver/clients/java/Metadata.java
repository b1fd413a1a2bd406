import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Asks Microsoft's JDBC driver for DatabaseMetaData, as database tools do.
 *
 * <p>Standard input: {"url": ..., "setup": [statements], "calls": [{"name": method, "arguments": [...]}]}. Standard output: for each
 * call its rows, each column name to text, or {"error": number, "text": ...}. Started as a source file; see test_jdbc_metadata.py.
 */
public final class Metadata {
    private Metadata() {}

    public static void main(String[] arguments) throws Exception {
        var input = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        JsonObject document = JsonParser.parseReader(input).getAsJsonObject();
        List<Object> results = new ArrayList<>();
        try (Connection connection = DriverManager.getConnection(document.get("url").getAsString())) {
            try (Statement statement = connection.createStatement()) {
                for (JsonElement sql : document.getAsJsonArray("setup")) {
                    statement.execute(sql.getAsString());
                }
            }
            for (JsonElement call : document.getAsJsonArray("calls")) {
                results.add(answer(connection.getMetaData(), call.getAsJsonObject()));
            }
        }
        Gson gson = new GsonBuilder().serializeNulls().create();
        System.out.write(gson.toJson(results).getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static Object answer(DatabaseMetaData data, JsonObject call) throws Exception {
        List<JsonElement> given = call.getAsJsonArray("arguments").asList();
        String name = call.get("name").getAsString();
        for (Method method : DatabaseMetaData.class.getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == given.size()) {
                Gson gson = new Gson();
                Object[] values = new Object[given.size()];
                for (int n = 0; n < values.length; n++) {
                    values[n] = gson.fromJson(given.get(n), method.getParameterTypes()[n]);
                }
                try (ResultSet rows = (ResultSet) method.invoke(data, values)) {
                    return read(rows);
                } catch (InvocationTargetException failure) {
                    if (failure.getCause() instanceof SQLException error) {
                        return Map.of("error", error.getErrorCode(), "text", error.getMessage());
                    }
                    throw failure;
                }
            }
        }
        throw new IllegalArgumentException("no method " + name + " of " + given.size() + " parameters");
    }

    private static List<Object> read(ResultSet rows) throws SQLException {
        ResultSetMetaData shape = rows.getMetaData();
        List<Object> found = new ArrayList<>();
        while (rows.next()) {
            Map<String, String> row = new LinkedHashMap<>();
            for (int n = 1; n <= shape.getColumnCount(); n++) {
                row.put(shape.getColumnName(n), rows.getString(n));
            }
            found.add(row);
        }
        return found;
    }
}
