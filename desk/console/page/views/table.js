// One table: how it is, the last hour as pictures, how far cleanup is, who reads it, its offset, its moves and snapshots, and what can be done.

import { get, list, part, session } from "../core/api.js";
import { h } from "../core/dom.js";
import { known } from "../core/known.js";
import { to } from "../core/places.js";
import { count, counted, duration, headroomText, rate, STATES } from "../core/words.js";
import { bar, button, empty, facts, failure, figure, heading, headroomBar, headroomTone, linkButton, notice, section, stateTag, tag, when } from "../parts/bits.js";
import { chart, CLOCK } from "../parts/chart.js";
import { grid } from "../parts/grid.js";
import { moveOffset } from "./table_offset.js";
import { askPause, askSnapshot, changeSnapshot } from "./table_orders.js";

const OVER = new Set(["done", "failed", "stopped"]);

export function open([name], context) {
  const state = { table: null, history: null, moves: null, snapshots: null };
  return {
    title: name,
    live: true,
    async refresh() {
      const path = `tables/${part(name)}`;
      const [table, history, moves, snapshots] = await Promise.all([
        get(path), get(`${path}/history`), list("offsets/moves", { table: name }), list("snapshots", { table: name })]);
      known.tables?.set(table.table, table);
      Object.assign(state, { table, history, moves, snapshots });
    },
    draw: () => (state.table ? page({ ...state, table: known.tables?.get(state.table.table) ?? state.table }, context) : null),
  };
}

/** Why nothing may be changed here; empty if it may. */
export function whyNot() {
  return session.changes_allowed ? "" : "This console only reads: it was started without --allow-changes.";
}

function page(state, context) {
  const { table } = state;
  return [
    heading(table.table, stateTag(table.state), table.pause || table.problem ? null : h("span", { class: "muted" }, STATES[table.state]?.means ?? "")),
    orders(table, context),
    troubles(table),
    figures(table),
    h("div", { class: "charts", key: "charts" },
      chart("Lag", state.history.lag_seconds, duration, { tone: "lag", steps: CLOCK, brief: true }),
      chart("Throughput", state.history.changes_per_second, rate, { brief: true })),
    h("div", { class: "two", key: "two" }, room(table), about(table)),
    snapshots(state, context),
    moves(state.moves),
  ];
}

function orders(table, context) {
  const why = whyNot();
  const done = context.refresh;
  return h("div", { class: "orders", key: "orders" },
    table.pause
      ? button("Resume", () => askPause(table, "resume", done), { look: "primary", why })
      : button("Pause", () => askPause(table, "pause", done), { why }),
    button("Move the offset", () => moveOffset(table, done), { why }),
    button("Take a snapshot", () => askSnapshot(table, done), { why }),
    linkButton("Its messages in the queue", to(["messages"], { entity: "queue", table: table.table })),
    linkButton("Where is a change?", to(["story"], { table: table.table })));
}

function troubles(table) {
  const pause = table.pause;
  return [
    table.problem && !pause ? notice("bad", table.problem, null, { key: "problem" }) : null,
    pause ? h("div", { key: "pause", class: "notice notice-info" },
      h("div", { class: "notice-body" }, h("p", { class: "notice-title" }, "Paused by ", pause.by, ", ", when(pause.at)),
        pause.reason ? h("p", {}, `“${pause.reason}”`) : null,
        h("p", { class: "muted" }, "Its changes wait in SQL Server until cleanup reaches them: see the headroom."))) : null,
  ];
}

function figures(table) {
  return h("div", { class: "figures", key: "figures" },
    figure("Lag", duration(table.lag?.seconds), { note: "since the oldest waiting change was committed", tone: table.lag?.seconds > 60 ? "warn" : null }),
    figure("Waiting", table.lag ? `${count(table.lag.changes)}${table.lag.at_least ? " or more" : ""}` : "–", { note: "changes captured and not sent" }),
    figure("Throughput", rate(table.changes_per_second), { note: "sent in the last minute" }),
    figure("Headroom", headroomText(table.headroom_seconds), { note: table.headroom_seconds <= 0 && table.headroom_seconds !== null ? "cleanup is past the offset" : "until cleanup reaches the offset", tone: headroomTone(table.headroom_seconds, table.retention_seconds) }));
}

function room(table) {
  const { headroom_seconds: left, retention_seconds: kept } = table;
  const known = left !== null && left !== undefined && kept;
  return section("Headroom",
    known
      ? [headroomBar(left, kept, { long: true }),
         h("p", { class: "muted" }, left <= 0
           ? "Cleanup has passed the offset: changes that were not read may be lost."
           : `SQL Server keeps changes for ${duration(kept)}. If this table is not read, changes are lost in ${duration(left)}.`)]
      : empty("It is not known how long the server keeps changes of this table."));
}

function about(table) {
  const offset = table.offset;
  return section("Where it stands",
    facts([
      ["Offset", !offset ? "none before the first start" : offset.lsn ? h("span", { class: "mono", title: offset.position }, offset.lsn) : offset.position],
      ["Committed", offset?.committed_at ? when(offset.committed_at) : null],
      ["Saved", offset?.updated_at ? when(offset.updated_at) : null],
      ["Owner", table.owner ? h("span", { class: "mono" }, table.owner) : "nobody"],
      ["Lock", table.lock === "unknown" ? null : h("span", { title: table.epoch === null ? null : `epoch ${table.epoch}` }, table.lock)],
      ["Capture instance", table.capture_instance ? h("span", { class: "mono" }, table.capture_instance) : null],
      ["Topic", table.topic ? h("a", { class: "mono", href: to(["messages"], { entity: `topic/${table.topic}` }) }, table.topic) : null],
    ]));
}

function snapshots(state, context) {
  const why = whyNot();
  const act = (snapshot, change, text) => button(text, () => changeSnapshot(snapshot, change, context.refresh), { look: "small", why });
  const columns = [
    { name: "Asked", cell: (snapshot) => when(snapshot.asked_at) },
    { name: "State", cell: (snapshot) => tag(snapshot.state, { failed: "bad", running: "info", done: "ok" }[snapshot.state] ?? "none") },
    { name: "Rows", cell: progress },
    { name: "Which", wide: true, cell: (snapshot) => [h("span", { class: "mono" }, snapshot.where ?? "all rows"), snapshot.topic ? ` to ${snapshot.topic}` : "", snapshot.error ? h("p", { class: "tone-bad" }, snapshot.error) : ""] },
    { name: "By", cell: (snapshot) => snapshot.asked_by ?? "–" },
    { name: "Actions", cell: (snapshot) => h("span", { class: "actions" }, OVER.has(snapshot.state) ? "–" : [
      snapshot.state === "paused" ? act(snapshot, "resume", "Resume") : act(snapshot, "pause", "Pause"), act(snapshot, "stop", "Stop")]) },
  ];
  return section("Snapshots", state.snapshots.refused ? failure(state.snapshots.refused) : state.snapshots.items.length
    ? grid("Snapshots of this table", columns, state.snapshots.items, { key: (snapshot) => snapshot.id })
    : empty("None was taken lately."));
}

function progress(snapshot) {
  if (!snapshot.about) return counted(snapshot.rows, "row");
  const text = `${count(snapshot.rows)} of about ${count(snapshot.about)}`;
  return bar(snapshot.rows / snapshot.about, text, "info");
}

function moves({ items, refused }) {
  const columns = [
    { name: "When", cell: (move) => when(move.at) },
    { name: "By", cell: (move) => `${move.login}${move.host ? ` on ${move.host}` : ""}` },
    { name: "From", cell: (move) => h("span", { class: "mono" }, move.begun ?? "–") },
    { name: "To", cell: (move) => h("span", { class: "mono" }, move.to) },
    { name: "Reason", wide: true, cell: (move) => move.reason ?? "–" },
  ];
  return section("Moves of the offset", refused ? failure(refused) : items.length
    ? grid("Who moved the offset", columns, items, { key: (move) => `${move.at} ${move.to}` })
    : empty("Nobody moved it."));
}
