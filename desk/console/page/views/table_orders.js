// What can be asked of a table beside its offset: a pause, a snapshot. Each is shown before it is done, with room for a reason.

import { part, post } from "../core/api.js";
import { h } from "../core/dom.js";
import { count } from "../core/words.js";
import { button, facts, notice } from "../parts/bits.js";
import { endings, field, openDialog, reasonField } from "../parts/dialog.js";
import { tell } from "../parts/notes.js";

const PAUSES = {
  pause: { does: "Pause", done: "is paused", text: "Its changes wait in SQL Server and are sent when it is resumed. Nothing is lost before cleanup reaches its offset. An ingester whose login may not read dbo.cdc_pauses does not notice it: dstream check reports that." },
  resume: { does: "Resume", done: "goes on", text: "It goes on where it stood: what waited is sent, in order." },
};

/** Pause or resume a table. */
export function askPause(table, change, done) {
  const words = PAUSES[change];
  const state = { reason: "" };
  return openDialog(`${words.does} ${table.table}?`, (dialog) => [
    h("p", { key: "text" }, words.text),
    reasonField(state, { focus: true }),
    endings(dialog, button(words.does, () => dialog.run("Asking …", async () => {
      await post(`tables/${part(table.table)}/${change}`, { reason: state.reason || null });
      tell(`${table.table} ${words.done}.`);
      dialog.close();
      done();
    }), { look: "primary" })),
  ]);
}

/** A snapshot: what it would read, then begin. */
export function askSnapshot(table, done) {
  const state = { where: "", topic: "", reason: "", answer: null };
  const order = (dry) => ({ table: table.table, where: state.where || null, topic: state.topic || null, dry_run: dry, reason: state.reason || null });
  const input = (name, placeholder) => h("input", { type: "text", value: state[name], placeholder, autocomplete: "off", spellcheck: "false",
    on: { input: (event) => { state[name] = event.target.value; state.answer = null; } } });
  return openDialog(`Snapshot of ${table.table}`, (dialog) => [
    field("Which rows", input("where", "all rows"), "A condition in T-SQL, as in WHERE: Country = 'SE'"),
    field("To which topic", input("topic", table.topic ?? "the table's topic"), "Leave it empty for the table's own topic."),
    reasonField(state),
    state.answer ? snapshotMeans(state.answer) : null,
    endings(dialog,
      button("See what it would read", () => dialog.run("Counting …", async () => {
        state.answer = await post("snapshots", order(true));
      }), { look: state.answer ? "" : "primary" }),
      state.answer ? button("Take the snapshot", () => dialog.run("Asking …", async () => {
        await post("snapshots", order(false));
        tell(`A snapshot of ${table.table} was asked for.`);
        dialog.close();
        done();
      }), { look: "primary" }) : null),
  ]);
}

function snapshotMeans(answer) {
  return h("div", { class: "outcome", key: "answer", role: "status" },
    facts([["Rows", answer.rows === null ? "not known" : `about ${count(answer.rows)}`], ["Before it", answer.ahead ? `${answer.ahead} others` : "none"], ["Topic", answer.topic]]),
    answer.remarks.map((remark) => notice("info", remark)));
}

/** Pause, resume or stop a snapshot. */
export function changeSnapshot(snapshot, change, done) {
  const words = { pause: "Pause", resume: "Resume", stop: "Stop" }[change];
  const state = { reason: "" };
  return openDialog(`${words} the snapshot of ${snapshot.table}?`, (dialog) => [
    h("p", { key: "text" }, change === "stop"
      ? `${count(snapshot.rows)} rows were sent. A stopped snapshot is over: the next begins at the first row.`
      : `${count(snapshot.rows)} rows were sent. It goes on where it stood.`),
    reasonField(state, { focus: true }),
    endings(dialog, button(words, () => dialog.run("Asking …", async () => {
      await post(`snapshots/${part(snapshot.id)}/${change}`, { reason: state.reason || null });
      tell(`Asked: ${words.toLowerCase()} the snapshot.`);
      dialog.close();
      done();
    }), { look: change === "stop" ? "danger" : "primary" })),
  ]);
}
