// The start of the page: who we are, which view the address names, and when it is read again. Views draw themselves; this decides when.
//
// One view is open at a time. Events draw it again at once, and a live view reads what they do not carry every few seconds; the others read
// when their address changes or somebody asks.

import { Refused, session, start, whenStranger } from "./api.js";
import { h, patch } from "./dom.js";
import { shell } from "./frame.js";
import { keys } from "./keys.js";
import { known, readOverview } from "./known.js";
import { connect, disconnect, listen } from "./live.js";
import { here } from "./places.js";
import { failure, heading, tick } from "../parts/bits.js";
import { closeDialogs } from "../parts/dialog.js";
import * as audit from "../views/audit.js";
import * as configuration from "../views/configuration.js";
import * as deadLetters from "../views/dead_letters.js";
import * as login from "../views/login.js";
import * as messages from "../views/messages.js";
import * as now from "../views/now.js";
import * as processes from "../views/processes.js";
import * as queues from "../views/queues.js";
import * as story from "../views/story.js";
import * as table from "../views/table.js";
import * as tables from "../views/tables.js";

const READ_EVERY = 5_000;
const current = { name: null, view: null, error: null, reading: null, again: false, readAt: 0, due: false };
const context = { refresh: () => refresh(), redraw: () => draw() };
let signedIn = false;

/** The view that an address names, and what makes it another: filters in the query do not, another table does. */
function chosen({ path, query }) {
  const [first = "", second] = path;
  const plain = { "": now, tables, queues, "dead-letters": deadLetters, messages, story, processes, configuration, audit };
  if (first === "tables" && second !== undefined) return [`table ${second}`, () => table.open([second], context)];
  if (first === "dead-letters" && second === "list") return ["dead letters of one", () => deadLetters.openList([], context)];
  if (first === "messages" && second === "one") return [`message ${query}`, () => messages.openOne()];
  if (Object.hasOwn(plain, first) && second === undefined) return [first, () => plain[first].open([], context)];
  return ["nowhere", () => ({ title: "Not found", refresh: async () => {}, draw: nowhere })];
}

function nowhere() {
  return [heading("There is no such view"), h("p", { key: "way" }, h("a", { href: "#/" }, "To the first view"))];
}

/** Open what the address names now. */
async function route() {
  if (!signedIn) return;
  const [name, make] = chosen(here());
  if (name !== current.name) {
    const first = current.name === null;
    closeDialogs();
    Object.assign(current, { name, view: make(), error: null, reading: null, again: false });
    const opened = current.view;
    patch(main(), h("p", { class: "empty", key: "loading" }, "Reading …"));
    shell();
    await refresh();
    if (opened !== current.view || first) return;
    window.scrollTo(0, 0);
    main().querySelector("h1")?.focus({ preventScroll: true });
  } else if (current.view.stale?.()) {
    await refresh();
  } else {
    draw();
  }
}

/** Read the open view again. One reading at a time: what is asked for meanwhile is one more afterwards. */
function refresh() {
  if (current.reading) {
    current.again = true;
    return current.reading;
  }
  current.reading = read(current.view);
  return current.reading;
}

async function read(view) {
  let error = null;
  try {
    await Promise.all([view.refresh(), known.overview ? null : readOverview()]);
  } catch (thrown) {
    error = thrown;
    if (!(thrown instanceof Refused)) console.warn(thrown);
  }
  if (view !== current.view) return;
  Object.assign(current, { error, reading: null, readAt: Date.now() });
  draw();
  if (current.again) {
    current.again = false;
    await refresh();
  }
}

function draw() {
  if (!signedIn || !current.view) return;
  const shown = current.view.draw(context);
  const lost = current.error?.status === 0 && shown; // the line about the connection says so already
  const error = current.error && !lost ? failure(current.error) : null;
  const waiting = h("p", { class: "empty", key: "loading" }, "Reading …");
  patch(main(), shown ? [error, shown] : error ? [heading(current.view.title), error] : waiting);
  document.title = `${current.view.title} · DStream`;
  shell();
}

/** Once, however many events come together. */
function drawSoon() {
  if (current.due) return;
  current.due = true;
  requestAnimationFrame(() => {
    current.due = false;
    draw();
  });
}

function main() {
  return document.getElementById("main");
}

/** The console asks for a token: nothing is shown before it has one. */
function stranger() {
  if (current.name === "login") return;
  const expired = current.name !== null;
  signedIn = false;
  session.who = null;
  disconnect();
  closeDialogs();
  Object.assign(known, { overview: null, tables: null, operations: null });
  Object.assign(current, { name: "login", view: null, reading: null });
  patch(main(), login.draw(expired, begin));
  document.title = "Sign in · DStream";
  shell();
  main().querySelector("input")?.focus();
}

async function begin() {
  try {
    if (!(await start())) return stranger();
  } catch (error) {
    const again = h("button", { class: "button primary", type: "button", on: { click: begin } }, "Try again");
    patch(main(), [heading("DStream"), failure(error), h("p", { key: "again" }, again)]);
    return undefined;
  }
  signedIn = true;
  current.name = null;
  connect();
  return route();
}

/** An event came, or the connection was lost or is back. */
function heard(kind) {
  if (kind === "state") {
    shell();
    if (document.getElementById("connection").childElementCount === 0 && current.view) refresh();
    return;
  }
  if (!signedIn || !current.view || document.hidden) return;
  if (!current.view.live) shell();
  else if (kind === "overview" && Date.now() - current.readAt > READ_EVERY) refresh();
  else drawSoon();
}

whenStranger(stranger);
listen(heard);
window.addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => !document.hidden && signedIn && current.view?.live && refresh());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (main().querySelector("h1") ?? main()).focus();
});
setInterval(tick, 5_000);
setInterval(shell, 5_000);
keys(context);
shell();
begin();
