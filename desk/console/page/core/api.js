// Requests to the console's own API, and only to it: each with a deadline, and each refusal as an error that a person can act on.
//
// Nothing is sent again by itself: a change that was asked for once is asked for once.

const ROOT = new URL("api/v1/", document.baseURI).href;
const DEADLINE = 30_000;

/** What the console answered instead of what was asked for. `status` 0: it did not answer at all. */
export class Refused extends Error {
  constructor(status, text, { remedy = null } = {}) {
    super(text);
    this.status = status;
    this.remedy = remedy;
  }
}

/** Who we are; set by `start`, read by whatever sends a change. */
export const session = { who: null, access: null, login: false, changes_allowed: false, csrf: null, version: null };

/** Called with no argument when the console no longer knows us. */
let onStranger = () => {};

export function whenStranger(listener) {
  onStranger = listener;
}

/** Find out who we are. Whether somebody is. */
export async function start() {
  Object.assign(session, await get("session"));
  return !session.login;
}

/** Sign in. The token is sent once and kept nowhere. */
export async function signIn(token) {
  Object.assign(session, await post("session", { token }));
}

export async function signOut() {
  Object.assign(session, await remove("session"));
  onStranger();
}

export function get(path, query = {}, options = {}) {
  return request("GET", withQuery(path, query), undefined, options);
}

/** What is empty is left out. */
function withQuery(path, query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) search.set(name, String(value));
  }
  const text = search.toString();
  return `${path}${text ? `?${text}` : ""}`;
}

/** A list without which a view is still of use. `refused`: why it could not be read. */
export async function list(path, query = {}) {
  try {
    return { items: (await get(path, query)).items, refused: null };
  } catch (error) {
    if (error.status === 0 || error.status === 401) throw error;
    return { items: [], refused: error };
  }
}

export function post(path, body = {}, options = {}) {
  return request("POST", path, body, options);
}

export function put(path, body, options = {}) {
  return request("PUT", path, body, options);
}

export function remove(path, query = {}, options = {}) {
  return request("DELETE", withQuery(path, query), undefined, options);
}

/** A part of a path: a table's name may hold any character. */
export function part(text) {
  return encodeURIComponent(text);
}

async function request(method, path, body, { revision = null, deadline = DEADLINE } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && session.csrf) headers["X-CSRF-Token"] = session.csrf;
  if (revision) headers["If-Match"] = `"${revision}"`;
  const sent = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    const signal = AbortSignal.timeout(deadline);
    answer = await fetch(ROOT + path, { method, headers, body: sent, signal, credentials: "same-origin", redirect: "error" });
  } catch (cause) {
    const slow = cause.name === "TimeoutError";
    throw new Refused(0, slow ? `The console did not answer within ${deadline / 1000} s.` : "The console cannot be reached.", {
      remedy: method === "GET" ? null : "Look whether it was done before you ask again.",
    });
  }
  const text = await answer.text().catch(() => "");
  if (answer.ok) return text ? parsed(text) : null;
  if (answer.status === 401 && path !== "session") onStranger();
  throw refusal(answer.status, text);
}

export function parsed(text) {
  return JSON.parse(text, exact);
}

/** Sequence numbers of partitioned entities are larger than a number of JavaScript can hold: those stay the digits that they are. */
function exact(_, value, source) {
  return typeof value === "number" && !Number.isSafeInteger(value) && /^\d+$/.test(source?.source ?? "") ? source.source : value;
}

/** Errors come as documents of RFC 9457, and from a proxy in between as anything. */
function refusal(status, text) {
  try {
    const said = JSON.parse(text);
    return new Refused(status, String(said.detail || said.title), { remedy: said.remedy ?? null });
  } catch {
    return new Refused(status, `The console, or what is in front of it, answered ${status}.`);
  }
}
