// What keeps the page live: server-sent events bring what has changed; a lost connection is found, said and retried with back-off.
//
// A tab that nobody sees holds no stream: a browser has six connections to a host for all its tabs together. It connects once it is seen.
//
// Where nothing is heard for a while a small request asks whether the console is there: a stream that hangs looks like one on which nothing happens.

import { get, parsed } from "./api.js";
import { take } from "./known.js";

const KINDS = ["overview", "tables", "operations"];
const SILENCE = 20_000;
const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 30_000;

/** `since`: when the connection was lost; null while it holds. `seen`: when something was heard last. `retryAt`: of the next try. */
export const live = { since: null, seen: Date.now(), retryAt: null };

const listeners = new Set();
let stream = null;
let wanted = false;
let wait = FIRST_WAIT;
let timer = null;
let watchdog = null;

/** `listener(kind)`: of an event, or "state" when the connection was lost or is back. Returns how to stop. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function say(kind) {
  for (const listener of listeners) listener(kind);
}

export function connect() {
  close();
  wanted = true;
  if (document.hidden) return;
  stream = new EventSource(new URL("api/v1/events", document.baseURI));
  stream.addEventListener("open", heard);
  for (const kind of KINDS) {
    stream.addEventListener(kind, (event) => {
      take(kind, parsed(event.data));
      heard();
      say(kind);
    });
  }
  stream.addEventListener("error", lost);
  watchdog = setInterval(probe, 5_000);
}

export function disconnect() {
  wanted = false;
  close();
}

function close() {
  stream?.close();
  stream = null;
  clearTimeout(timer);
  clearInterval(watchdog);
}

async function probe() {
  if (Date.now() - live.seen < SILENCE) return;
  try {
    await get("session", {}, { deadline: 5_000 });
    heard();
  } catch {
    lost();
  }
}

/** The console was heard. */
function heard() {
  live.seen = Date.now();
  wait = FIRST_WAIT;
  if (live.since === null) return;
  live.since = live.retryAt = null;
  say("state");
}

function lost() {
  if (!wanted || document.hidden) return;
  close();
  const first = live.since === null;
  live.since ??= live.seen;
  live.retryAt = Date.now() + wait;
  timer = setTimeout(retry, wait);
  wait = Math.min(wait * 2, LONGEST_WAIT);
  say("state");
  if (first) get("session").catch(() => {}); // whether it is the session that has ended
}

/** Ask first: a stream that is refused does not say why. */
async function retry() {
  try {
    await get("session", {}, { deadline: 5_000 });
    if (wanted) connect();
  } catch {
    lost();
  }
}

/** A person asks: at once. */
export function again() {
  wait = FIRST_WAIT;
  clearTimeout(timer);
  retry();
}

/** Seen, or no longer. What was missed meanwhile comes as the stream begins. */
function turned() {
  if (!wanted) return;
  wait = FIRST_WAIT;
  if (document.hidden) close();
  else connect();
}

document.addEventListener("visibilitychange", turned);
