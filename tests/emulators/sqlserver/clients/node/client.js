// npm tedious as a client: reads a scenario from standard input, runs it, prints the results as JSON (tests/emulators/sqlserver/clients/scenario.py).
"use strict";

// The one thing of Node 22 that the driver needs and Node 20 lacks; the driver itself stays as it is.
Promise.withResolvers ??= function () {
  const parts = {};
  parts.promise = new this((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};

const { readFileSync } = require("node:fs");
const { Connection, Request, TYPES } = require("tedious");

const CANCEL_AFTER_MS = 200;

const PARAMETERS = {
  int: [TYPES.Int, Number],
  bigint: [TYPES.BigInt, String],
  bit: [TYPES.Bit, (value) => value],
  float: [TYPES.Float, (value) => value],
  decimal: [TYPES.Decimal, Number, { precision: 18, scale: 4 }],
  nvarchar: [TYPES.NVarChar, (value) => value],
  varbinary: [TYPES.VarBinary, (text) => Buffer.from(text.slice(2), "hex")],
  date: [TYPES.Date, (text) => new Date(`${text}T00:00:00Z`)],
  time: [TYPES.Time, (text) => new Date(`1970-01-01T${text.slice(0, 12)}Z`), { scale: 7 }],
  datetime2: [TYPES.DateTime2, (text) => new Date(`${text.slice(0, 23)}Z`), { scale: 7 }],
  datetimeoffset: [TYPES.DateTimeOffset, (text) => new Date(text.slice(0, 23) + text.slice(27)), { scale: 7 }],
  uniqueidentifier: [TYPES.UniqueIdentifier, (value) => value],
};

// A Date holds milliseconds; tedious hangs what is finer on it, in seconds.
function fraction(date) {
  const fine = Math.round((date.nanosecondsDelta || 0) * 1e7);
  return String(date.getUTCMilliseconds() * 1e4 + fine).padStart(7, "0");
}

const clock = (date) => `${date.toISOString().replace(/^.*T/, "").slice(0, 8)}.${fraction(date)}`;
const day = (date) => date.toISOString().replace(/T.*$/, "").replace(/^\+0*/, "");

const RENDERED = {
  Date: day,
  Time: clock,
  DateTime: (date) => `${day(date)}T${clock(date)}`,
  SmallDateTime: (date) => `${day(date)}T${clock(date)}`,
  DateTime2: (date) => `${day(date)}T${clock(date)}`,
  DateTimeOffset: (date) => `${day(date)}T${clock(date)}+00:00`,
};
const INEXACT = /Float|Real/;

function cell({ value, metadata }) {
  if (value === null || typeof value === "boolean") return value;
  if (Buffer.isBuffer(value)) return `0x${value.toString("hex")}`;
  const type = metadata.type.name.replace(/N$/, "");
  if (value instanceof Date) return RENDERED[type](value);
  if (typeof value === "number" && !INEXACT.test(type)) return String(value);
  return value;
}

function failure(error) {
  const first = error.errors ? error.errors[0] : error.cause && error.cause.number ? error.cause : error;
  return { error: first.number === undefined ? null : first.number, text: first.message };
}

// It has no way to encrypt the login alone.
function encryption({ tls, ca }) {
  if (tls === "off" || tls === "login") return { encrypt: false };
  if (tls === "trust") return { encrypt: true, trustServerCertificate: true };
  return { encrypt: true, trustServerCertificate: false, cryptoCredentialsDetails: { ca: readFileSync(ca) } };
}

function connect(server) {
  const connection = new Connection({
    server: server.host,
    authentication: { type: "default", options: { userName: server.user, password: server.password } },
    options: { port: server.port, database: server.database, useUTC: true, ...encryption(server) },
  });
  return new Promise((resolve, reject) => {
    connection.connect((error) => (error ? reject(error) : resolve(connection)));
  });
}

function close(connection) {
  return new Promise((resolve) => connection.once("end", resolve).close());
}

// Every result set's rows. `send` makes the connection run the request.
function collect(sql, send, parameters = []) {
  return new Promise((resolve, reject) => {
    const sets = [];
    const request = new Request(sql, (error) => (error ? reject(error) : resolve(sets)));
    request.on("columnMetadata", () => sets.push([]));
    request.on("row", (columns) => sets[sets.length - 1].push(columns.map(cell)));
    for (const [name, type, value, options] of parameters) request.addParameter(name, type, value, options);
    send(request);
  });
}

function batch(connection, sql) {
  return collect(sql, (request) => connection.execSqlBatch(request));
}

// sp_executesql, once a run.
async function parameterised(connection, step) {
  const [sql, typed] = named(step);
  const found = [];
  for (const run of step.runs) {
    const parameters = run.map((value, n) => {
      const [type, native, options] = typed[n];
      return [`p${n + 1}`, type, value === null ? null : native(value), options];
    });
    found.push(await collect(sql, (request) => connection.execSql(request), parameters));
  }
  return found;
}

function named(step) {
  let count = 0;
  return [step.sql.replaceAll("{p}", () => `@p${++count}`), step.types.map((name) => PARAMETERS[name])];
}

// sp_prepare once, sp_execute a run, sp_unprepare. A prepared request reports its runs through events of its own.
async function prepared(connection, step) {
  const [sql, typed] = named(step);
  let done;
  const request = new Request(sql, (error) => done(error));
  let sets = [];
  request.on("columnMetadata", () => sets.push([]));
  request.on("row", (columns) => sets[sets.length - 1].push(columns.map(cell)));
  typed.forEach(([type, , options], n) => request.addParameter(`p${n + 1}`, type, undefined, options));
  await new Promise((resolve, reject) => {
    done = reject;
    request.once("prepared", resolve);
    request.once("error", reject); // what is wrong with the answer to sp_prepare comes this way
    connection.prepare(request);
  });
  const found = [];
  for (const run of step.runs) {
    sets = [];
    const values = run.map((value, n) => [`p${n + 1}`, value === null ? null : typed[n][1](value)]);
    await new Promise((resolve, reject) => {
      done = (error) => (error ? reject(error) : resolve());
      connection.execute(request, Object.fromEntries(values));
    });
    found.push(sets);
  }
  await new Promise((resolve, reject) => {
    done = (error) => (error ? reject(error) : resolve());
    connection.unprepare(request);
  });
  return found;
}

const called = (start) => new Promise((resolve, reject) => start((error) => (error ? reject(error) : resolve())));

async function transaction(connection, step) {
  await called((callback) => connection.beginTransaction(callback));
  for (const statement of step.statements) await batch(connection, statement);
  if (step.end === "commit") await called((callback) => connection.commitTransaction(callback));
  else await called((callback) => connection.rollbackTransaction(callback));
  return "done";
}

async function cancel(connection, step) {
  const timer = setTimeout(() => connection.cancel(), CANCEL_AFTER_MS);
  try {
    await batch(connection, step.sql);
    return "not cancelled";
  } catch (error) {
    return error.code === "ECANCEL" ? "cancelled" : failure(error);
  } finally {
    clearTimeout(timer);
  }
}

async function run(connection, server, step) {
  switch (step.op) {
    case "connect":
      await close(await connect({ ...server, ...step }));
      return "connected";
    case "batch":
      return batch(connection, step.sql);
    case "parameters":
      return parameterised(connection, step);
    case "prepared":
      return prepared(connection, step);
    case "transaction":
      return transaction(connection, step);
    case "cancel":
      return cancel(connection, step);
    default:
      throw new Error(`no step ${step.op}`);
  }
}

async function main() {
  let text = "";
  for await (const chunk of process.stdin) text += chunk;
  const { server, steps } = JSON.parse(text);
  const connection = await connect(server);
  const results = {};
  for (const step of steps) results[step.name] = await run(connection, server, step).catch(failure);
  await close(connection);
  process.stdout.write(JSON.stringify(results));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
