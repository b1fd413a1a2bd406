// Go's go-mssqldb as a client: runs the scenario on standard input, prints the results (tests/emulators/sqlserver/clients/scenario.py).
package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/golang-sql/civil"
	mssql "github.com/microsoft/go-mssqldb"
)

const cancelAfter = 200 * time.Millisecond

type server struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	User     string `json:"user"`
	Password string `json:"password"`
	Database string `json:"database"`
	TLS      string `json:"tls"`
	CA       string `json:"ca"`
}

type step struct {
	server
	Name       string   `json:"name"`
	Op         string   `json:"op"`
	SQL        string   `json:"sql"`
	Types      []string `json:"types"`
	Runs       [][]any  `json:"runs"`
	Statements []string `json:"statements"`
	End        string   `json:"end"`
}

type failure struct {
	Error any    `json:"error"`
	Text  string `json:"text"`
}

type sets = [][][]any

type client struct {
	server     server
	connection *sql.Conn
}

func main() {
	var document struct {
		Server server            `json:"server"`
		Steps  []json.RawMessage `json:"steps"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&document); err != nil {
		log.Fatal(err)
	}
	db, connection, err := connect(document.Server)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	results := map[string]any{}
	c := client{document.Server, connection}
	for _, raw := range document.Steps {
		next := step{server: document.Server} // what a step does not say stays as it is
		if err := json.Unmarshal(raw, &next); err != nil {
			log.Fatal(err)
		}
		results[next.Name] = c.attempt(next)
	}
	connection.Close()
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		log.Fatal(err)
	}
}

func connect(to server) (*sql.DB, *sql.Conn, error) {
	query := url.Values{"database": {to.Database}}
	switch to.TLS {
	case "off":
		query.Set("encrypt", "disable")
	case "login":
		query.Set("encrypt", "false")
		query.Set("certificate", to.CA)
	case "trust":
		query.Set("encrypt", "true")
		query.Set("TrustServerCertificate", "true")
	case "verify":
		query.Set("encrypt", "true")
		query.Set("certificate", to.CA)
	}
	address := url.URL{
		Scheme:   "sqlserver",
		User:     url.UserPassword(to.User, to.Password),
		Host:     fmt.Sprintf("%s:%d", to.Host, to.Port),
		RawQuery: query.Encode(),
	}
	db, err := sql.Open("sqlserver", address.String())
	if err != nil {
		return nil, nil, err
	}
	connection, err := db.Conn(context.Background())
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return db, connection, nil
}

func (c *client) attempt(next step) any {
	result, err := c.run(next)
	if err == nil {
		return result
	}
	var told mssql.Error
	if errors.As(err, &told) {
		return failure{told.Number, told.Message}
	}
	return failure{nil, err.Error()}
}

func (c *client) run(next step) (any, error) {
	switch next.Op {
	case "connect":
		db, connection, err := connect(next.server)
		if err != nil {
			return nil, err
		}
		connection.Close()
		return "connected", db.Close()
	case "batch":
		rows, err := c.connection.QueryContext(context.Background(), next.SQL)
		return collect(rows, err)
	case "parameters":
		return c.parameterised(next, func(text string) (query, func(), error) {
			return func(values []any) (*sql.Rows, error) {
				return c.connection.QueryContext(context.Background(), text, values...)
			}, func() {}, nil
		})
	case "prepared":
		return c.parameterised(next, func(text string) (query, func(), error) {
			statement, err := c.connection.PrepareContext(context.Background(), text)
			if err != nil {
				return nil, nil, err
			}
			return func(values []any) (*sql.Rows, error) { return statement.Query(values...) }, func() { statement.Close() }, nil
		})
	case "transaction":
		return c.transaction(next)
	case "cancel":
		return c.cancel(next.SQL)
	}
	return nil, fmt.Errorf("no step %s", next.Op)
}

type query func(values []any) (*sql.Rows, error)

func (c *client) parameterised(next step, prepare func(text string) (query, func(), error)) (any, error) {
	pieces := strings.Split(next.SQL, "{p}")
	text := pieces[0]
	for n, piece := range pieces[1:] {
		text += "@p" + strconv.Itoa(n+1) + piece
	}
	ask, done, err := prepare(text)
	if err != nil {
		return nil, err
	}
	defer done()
	found := []sets{}
	for _, run := range next.Runs {
		values := make([]any, len(run))
		for n, value := range run {
			if values[n], err = native(next.Types[n], value); err != nil {
				return nil, err
			}
		}
		rows, err := ask(values)
		one, err := collect(rows, err)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

func (c *client) transaction(next step) (any, error) {
	transaction, err := c.connection.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	defer transaction.Rollback() // does nothing after the other end
	for _, statement := range next.Statements {
		if _, err := transaction.Exec(statement); err != nil {
			return nil, err
		}
	}
	if next.End == "commit" {
		return "done", transaction.Commit()
	}
	return "done", transaction.Rollback()
}

func (c *client) cancel(text string) (any, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer time.AfterFunc(cancelAfter, stop).Stop() // not a deadline: after one the driver gives the connection up
	_, err := c.connection.ExecContext(ctx, text)
	if errors.Is(err, context.Canceled) {
		return "cancelled", nil
	}
	return "not cancelled", err
}

// native is a parameter as a Go program would pass it. NULLs have a type where SQL Server would not convert an nvarchar.
func native(kind string, value any) (any, error) {
	text, isText := value.(string)
	switch {
	case value == nil && kind == "varbinary":
		return []byte(nil), nil
	case value == nil:
		return nil, nil
	case !isText || kind == "nvarchar" || kind == "decimal":
		return value, nil
	}
	switch kind {
	case "int", "bigint":
		return strconv.ParseInt(text, 10, 64)
	case "varbinary":
		return hex.DecodeString(text[2:])
	case "date":
		return civil.ParseDate(text)
	case "time":
		return civil.ParseTime(text)
	case "datetime2":
		return civil.ParseDateTime(text)
	case "datetimeoffset":
		return time.Parse(time.RFC3339Nano, text)
	case "uniqueidentifier":
		var id mssql.UniqueIdentifier
		return id, id.Scan(text)
	}
	return nil, fmt.Errorf("no parameter %s", kind)
}

func collect(rows *sql.Rows, err error) (sets, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := sets{}
	for {
		columns, err := rows.ColumnTypes()
		if err != nil {
			return nil, err
		}
		if len(columns) > 0 {
			set, err := read(rows, columns)
			if err != nil {
				return nil, err
			}
			found = append(found, set)
		}
		if !rows.NextResultSet() {
			return found, rows.Err()
		}
	}
}

func read(rows *sql.Rows, columns []*sql.ColumnType) ([][]any, error) {
	found := [][]any{}
	for rows.Next() {
		values, places := make([]any, len(columns)), make([]any, len(columns))
		for n := range values {
			places[n] = &values[n]
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		for n, column := range columns {
			rendered, err := cell(column.DatabaseTypeName(), values[n])
			if err != nil {
				return nil, err
			}
			values[n] = rendered
		}
		found = append(found, values)
	}
	return found, rows.Err()
}

func cell(kind string, value any) (any, error) {
	switch value := value.(type) {
	case nil, bool, float64, string:
		return value, nil
	case int64:
		return strconv.FormatInt(value, 10), nil
	case time.Time:
		return moment(kind, value)
	case []byte:
		switch kind {
		case "DECIMAL", "MONEY", "SMALLMONEY":
			return string(value), nil
		case "UNIQUEIDENTIFIER":
			var id mssql.UniqueIdentifier
			err := id.Scan(value)
			return id.String(), err
		}
		return "0x" + hex.EncodeToString(value), nil
	}
	return nil, fmt.Errorf("%T is not expected of a driver", value)
}

func moment(kind string, value time.Time) (any, error) {
	switch kind {
	case "DATE":
		return value.Format("2006-01-02"), nil
	case "TIME":
		return value.Format("15:04:05.0000000"), nil
	case "DATETIME", "SMALLDATETIME", "DATETIME2":
		return value.Format("2006-01-02T15:04:05.0000000"), nil
	case "DATETIMEOFFSET":
		return value.Format("2006-01-02T15:04:05.0000000-07:00"), nil
	}
	return nil, fmt.Errorf("a time in a column of type %s", kind)
}
