// Figures, times and states in words: every view says the same thing in the same way. Values in, text out.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const NONE = "–";

/** A whole number, with its thousands apart. */
export function count(value) {
  return value === null || value === undefined ? NONE : COUNT.format(value);
}

/** `1 table`, `2 tables`. */
export function counted(value, one, several = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : several}`;
}

/** Seconds as a person says them: `0.4 s`, `45 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return NONE;
  const sign = seconds < 0 ? "−" : "";
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 0.095) return `${sign}${Math.max(1, Math.round(size * 1000))}\u00a0ms`;
  if (size < 10) return `${sign}${Number(size.toFixed(1))}\u00a0s`;
  const whole = Math.round(size);
  if (whole < 60) return `${sign}${whole}\u00a0s`;
  if (whole < 3600) return sign + two(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86400) return sign + two(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return sign + two(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h");
}

function two(large, largeUnit, small, smallUnit) {
  return small ? `${large}\u00a0${largeUnit} ${small}\u00a0${smallUnit}` : `${large}\u00a0${largeUnit}`;
}

/** Changes in a second. */
export function rate(value) {
  if (value === null || value === undefined) return NONE;
  return `${value > 0 && value < 10 ? Number(value.toFixed(1)) : COUNT.format(value)}/s`;
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 10 ? size.toFixed(1) : Math.round(size)}\u00a0${units[unit]}`;
}

export function share(value) {
  return value === null || value === undefined ? NONE : `${value && value < 0.1 ? (value * 100).toFixed(1) : Math.round(value * 100)}\u00a0%`;
}

/** What the desk gives as a time, ISO 8601 in UTC with or without a zone, in milliseconds; null if it is none. */
export function moment(text) {
  if (!text) return null;
  const joined = String(text).trim().replace(" UTC", "Z").replace(" ", "T");
  const zoned = /(Z|[+-]\d\d:?\d\d)$/.test(joined) ? joined : `${joined}Z`;
  const at = Date.parse(zoned);
  return Number.isNaN(at) ? null : at;
}

/** `02:14:05 UTC`, with its date if that is another day's. */
export function clock(at, now = Date.now()) {
  const iso = new Date(at).toISOString();
  const day = iso.slice(0, 10);
  const time = `${iso.slice(11, 19)} UTC`;
  return day === new Date(now).toISOString().slice(0, 10) ? time : `${day} ${time}`;
}

/** `just now`, `3 min ago`, `in 2 h`. */
export function ago(at, now = Date.now()) {
  const seconds = Math.round((now - at) / 1000);
  if (Math.abs(seconds) < 3) return "just now";
  const rough = coarse(Math.abs(seconds));
  return seconds > 0 ? `${rough} ago` : `in ${rough}`;
}

/** Headroom in words: what is left, or for how long cleanup has been past the offset. */
export function headroomText(seconds) {
  if (seconds === null || seconds === undefined || seconds > 0) return duration(seconds);
  return seconds > -1 ? "passed" : `passed ${coarse(Math.round(-seconds))} ago`;
}

/** Names that begin and end alike, each with what tells it apart: a function of a name. What is left out is an ellipsis, never a cut end. */
export function shortener(names, most = 28) {
  const all = [...new Set(names.filter(Boolean))];
  const head = all.length > 1 ? shared(all, /.*[./]/) : 0;
  const tail = all.length > 1 ? shared(all.map((name) => [...name.slice(head)].reverse().join("")), /.*[./]/) : 0;
  const long = all.some((name) => name.length > most); // all alike: a list of two forms would be read as two kinds
  return (name) => {
    if (!name || !long || name.length <= head + tail) return name || NONE;
    const inner = name.slice(head, name.length - tail);
    return `${head ? "…" : ""}${middle(inner, most - 2)}${tail ? "…" : ""}`;
  };
}

/** How long the beginning is that all have, up to its last separator. */
function shared(all, whole) {
  let common = all[0];
  for (const name of all) while (!name.startsWith(common)) common = common.slice(0, -1);
  return whole.exec(common)?.[0].length ?? 0;
}

function middle(text, most) {
  if (text.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

function coarse(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return two(Math.floor(seconds / 3600), "h", Math.floor((seconds % 3600) / 60), "min");
  return `${Math.floor(seconds / 86400)} d`;
}

/** How a table is, with the tone it is shown in. */
export const STATES = {
  flowing: { tone: "ok", means: "changes are sent; those that wait are few" },
  idle: { tone: "ok", means: "nothing waits" },
  behind: { tone: "warn", means: "changes wait for longer than a minute" },
  paused: { tone: "info", means: "somebody paused it" },
  stopped: { tone: "bad", means: "an ingester reports an error" },
  gap: { tone: "bad", means: "changes are lost: cleanup was faster" },
  absent: { tone: "bad", means: "it has no capture instance" },
  nobody: { tone: "bad", means: "no ingester reads it" },
  unknown: { tone: "none", means: "it could not be read" },
};

/** The worst first: what an operator should see before the rest. */
export const WORST_FIRST = ["gap", "stopped", "absent", "nobody", "behind", "unknown", "paused", "flowing", "idle"];

/** An entity's name for people: `queue`, `topic persons`, `topic persons, subscription crm`. */
export function entityName(entity) {
  const parts = String(entity ?? "").split("/");
  const output = parts[0] === "output" && parts.length > 2 ? `${parts[1]}: ` : "";
  const rest = output ? parts.slice(2) : parts;
  if (rest[0] !== "topic") return output + (rest[0] === "queue" ? "ingest queue" : rest.join("/"));
  return rest.length > 2 ? `${output}${rest[1]} › ${rest.slice(2).join("/")}` : `${output}${rest[1] ?? ""}`;
}
