import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.microsoft.sqlserver.jdbc.SQLServerDataSource;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Timer;
import java.util.TimerTask;

/** Microsoft's JDBC driver as a client: runs the scenario on standard input, prints the results (tests/emulators/sqlserver/clients/scenario.py). */
public final class Client {
    private static final long CANCEL_AFTER_MS = 200;
    private static final String STORE_PASSWORD = "a store of one public certificate";
    private static final DateTimeFormatter CLOCK = DateTimeFormatter.ofPattern("HH:mm:ss.SSSSSSS");
    private static final Map<String, Integer> SQL_TYPES = Map.ofEntries(
            Map.entry("int", Types.INTEGER),
            Map.entry("bigint", Types.BIGINT),
            Map.entry("bit", Types.BIT),
            Map.entry("float", Types.DOUBLE),
            Map.entry("decimal", Types.DECIMAL),
            Map.entry("nvarchar", Types.NVARCHAR),
            Map.entry("varbinary", Types.VARBINARY),
            Map.entry("date", Types.DATE),
            Map.entry("time", Types.TIME),
            Map.entry("datetime2", Types.TIMESTAMP),
            Map.entry("datetimeoffset", microsoft.sql.Types.DATETIMEOFFSET),
            Map.entry("uniqueidentifier", microsoft.sql.Types.GUID));

    private final JsonObject server;
    private final Connection connection;

    private Client(JsonObject server) throws Exception {
        this.server = server;
        this.connection = connect(server);
    }

    public static void main(String[] arguments) throws Exception {
        var input = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        JsonObject document = JsonParser.parseReader(input).getAsJsonObject();
        Client client = new Client(document.getAsJsonObject("server"));
        Map<String, Object> results = new LinkedHashMap<>();
        for (JsonElement step : document.getAsJsonArray("steps")) {
            results.put(step.getAsJsonObject().get("name").getAsString(), client.attempt(step.getAsJsonObject()));
        }
        client.connection.close();
        Gson gson = new GsonBuilder().serializeNulls().create();
        System.out.write(gson.toJson(results).getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static Connection connect(JsonObject server) throws Exception {
        SQLServerDataSource source = new SQLServerDataSource();
        source.setServerName(server.get("host").getAsString());
        source.setPortNumber(server.get("port").getAsInt());
        source.setDatabaseName(server.get("database").getAsString());
        source.setUser(server.get("user").getAsString());
        source.setPassword(server.get("password").getAsString());
        source.setConnectRetryCount(0);
        source.setSendTimeAsDatetime(false); // its default would round a time to 300ths of a second
        encrypt(source, server.get("tls").getAsString(), server.get("ca"));
        return source.getConnection();
    }

    /** Without `encrypt` the driver still encrypts the login where the server can. */
    private static void encrypt(SQLServerDataSource source, String tls, JsonElement authority) throws Exception {
        boolean verified = tls.equals("verify");
        source.setEncrypt(verified || tls.equals("trust") ? "true" : "false");
        source.setTrustServerCertificate(!verified);
        if (verified) {
            Path store = Files.createTempFile("authority", ".p12");
            KeyStore keys = KeyStore.getInstance("PKCS12");
            keys.load(null, null);
            try (InputStream pem = Files.newInputStream(Path.of(authority.getAsString()))) {
                keys.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(pem));
            }
            try (OutputStream out = Files.newOutputStream(store)) {
                keys.store(out, STORE_PASSWORD.toCharArray());
            }
            source.setTrustStore(store.toString());
            source.setTrustStorePassword(STORE_PASSWORD);
            source.setTrustStoreType("PKCS12");
            store.toFile().deleteOnExit();
        }
    }

    private Object attempt(JsonObject step) throws Exception {
        try {
            return run(step);
        } catch (SQLException error) {
            Map<String, Object> failure = new LinkedHashMap<>();
            failure.put("error", error.getErrorCode());
            failure.put("text", error.getMessage());
            return failure;
        }
    }

    private Object run(JsonObject step) throws Exception {
        String kind = step.get("op").getAsString();
        switch (kind) {
            case "connect":
                JsonObject changed = server.deepCopy();
                step.entrySet().forEach(entry -> changed.add(entry.getKey(), entry.getValue()));
                connect(changed).close();
                return "connected";
            case "batch":
                try (Statement statement = connection.createStatement()) {
                    return collect(statement, statement.execute(step.get("sql").getAsString()));
                }
            case "parameters":
            case "prepared": // one PreparedStatement: sp_executesql first, sp_prepexec and sp_execute when it is used again
                return prepared(step);
            case "transaction":
                return transaction(step);
            case "cancel":
                return cancel(step.get("sql").getAsString());
            default:
                throw new IllegalArgumentException("no step " + kind);
        }
    }

    private Object prepared(JsonObject step) throws SQLException {
        JsonArray types = step.getAsJsonArray("types");
        List<Object> found = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement(step.get("sql").getAsString().replace("{p}", "?"))) {
            for (JsonElement run : step.getAsJsonArray("runs")) {
                for (int n = 0; n < types.size(); n++) {
                    bind(statement, n + 1, types.get(n).getAsString(), run.getAsJsonArray().get(n));
                }
                found.add(collect(statement, statement.execute()));
            }
        }
        return found;
    }

    private static void bind(PreparedStatement statement, int place, String type, JsonElement value) throws SQLException {
        if (value.isJsonNull()) {
            statement.setNull(place, SQL_TYPES.get(type));
            return;
        }
        switch (type) {
            case "int" -> statement.setInt(place, value.getAsInt());
            case "bigint" -> statement.setLong(place, value.getAsLong());
            case "bit" -> statement.setBoolean(place, value.getAsBoolean());
            case "float" -> statement.setDouble(place, value.getAsDouble());
            case "decimal" -> statement.setBigDecimal(place, new BigDecimal(value.getAsString()));
            case "nvarchar" -> statement.setNString(place, value.getAsString());
            case "varbinary" -> statement.setBytes(place, HexFormat.of().parseHex(value.getAsString().substring(2)));
            case "date" -> statement.setObject(place, LocalDate.parse(value.getAsString()));
            case "time" -> statement.setObject(place, LocalTime.parse(value.getAsString()));
            case "datetime2" -> statement.setObject(place, LocalDateTime.parse(value.getAsString()));
            case "datetimeoffset" -> statement.setObject(place, OffsetDateTime.parse(value.getAsString()));
            case "uniqueidentifier" -> statement.setObject(place, value.getAsString(), microsoft.sql.Types.GUID);
            default -> throw new IllegalArgumentException("no parameter " + type);
        }
    }

    private Object transaction(JsonObject step) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            for (JsonElement sql : step.getAsJsonArray("statements")) {
                statement.execute(sql.getAsString());
            }
        }
        if (step.get("end").getAsString().equals("commit")) {
            connection.commit();
        } else {
            connection.rollback();
        }
        connection.setAutoCommit(true);
        return "done";
    }

    private Object cancel(String sql) throws SQLException {
        Timer timer = new Timer(true);
        try (Statement statement = connection.createStatement()) {
            timer.schedule(new TimerTask() {
                @Override
                public void run() {
                    try {
                        statement.cancel();
                    } catch (SQLException error) {
                        throw new IllegalStateException(error);
                    }
                }
            }, CANCEL_AFTER_MS);
            collect(statement, statement.execute(sql));
            return "not cancelled";
        } catch (SQLException error) {
            if ("HY008".equals(error.getSQLState())) {
                return "cancelled";
            }
            throw error;
        } finally {
            timer.cancel();
        }
    }

    private static List<Object> collect(Statement statement, boolean rows) throws SQLException {
        List<Object> sets = new ArrayList<>();
        while (true) {
            if (rows) {
                sets.add(read(statement.getResultSet()));
            } else if (statement.getUpdateCount() == -1) {
                return sets;
            }
            rows = statement.getMoreResults();
        }
    }

    private static List<Object> read(ResultSet rows) throws SQLException {
        ResultSetMetaData shape = rows.getMetaData();
        List<Object> found = new ArrayList<>();
        while (rows.next()) {
            List<Object> row = new ArrayList<>();
            for (int n = 1; n <= shape.getColumnCount(); n++) {
                row.add(cell(rows, n, shape.getColumnTypeName(n)));
            }
            found.add(row);
        }
        rows.close();
        return found;
    }

    private static Object cell(ResultSet rows, int n, String type) throws SQLException {
        if (rows.getObject(n) == null) {
            return null;
        }
        switch (type) {
            case "bit":
                return rows.getBoolean(n);
            case "float":
            case "real":
                return rows.getDouble(n);
            case "tinyint":
            case "smallint":
            case "int":
            case "bigint":
                return String.valueOf(rows.getLong(n));
            case "decimal":
            case "numeric":
            case "money":
            case "smallmoney":
                return rows.getBigDecimal(n).toPlainString();
            case "binary":
            case "varbinary":
            case "image":
            case "timestamp":
                return "0x" + HexFormat.of().formatHex(rows.getBytes(n));
            case "date":
                return rows.getObject(n, LocalDate.class).toString();
            case "time":
                return rows.getObject(n, LocalTime.class).format(CLOCK);
            case "datetime":
            case "smalldatetime":
            case "datetime2":
                LocalDateTime moment = rows.getObject(n, LocalDateTime.class);
                return moment.toLocalDate() + "T" + moment.format(CLOCK);
            case "datetimeoffset":
                OffsetDateTime placed = rows.getObject(n, OffsetDateTime.class);
                return placed.toLocalDate() + "T" + placed.format(CLOCK) + placed.getOffset();
            default:
                return rows.getString(n);
        }
    }
}
