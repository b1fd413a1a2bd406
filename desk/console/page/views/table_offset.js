// Moving an offset: first what it would mean (which changes again, which never, which are lost), then the confirmations, then the move.

import { part, post } from "../core/api.js";
import { h } from "../core/dom.js";
import { button, facts, notice } from "../parts/bits.js";
import { endings, field, openDialog, reasonField, tick } from "../parts/dialog.js";
import { tell } from "../parts/notes.js";

const GOALS = {
  time: "From a time: the first commit at or after it",
  earliest: "From the earliest change that the server still has",
  latest: "After the latest change",
  lsn: "After an LSN",
};
const CONFIRMS = {
  take: "Take the table from the ingester that reads it now",
  skip: "Never send the changes in between",
};

export function moveOffset(table, done) {
  const state = { goal: "time", time: "", lsn: "", reason: "", confirmed: new Set(), answer: null };
  return openDialog(`Move the offset of ${table.table}`, (dialog) => {
    const changed = (name, value) => {
      Object.assign(state, { [name]: value, answer: null });
      state.confirmed.clear();
      dialog.redraw();
    };
    return [
      h("p", { key: "now" }, "It stands at: ", h("strong", {}, table.offset?.position ?? "none before the first start")),
      goals(state, changed),
      state.answer ? meaning(state, dialog) : null,
      state.answer ? reasonField(state) : null,
      endings(dialog, dryRun(table, state, dialog), state.answer ? move(table, state, dialog, done) : null),
    ];
  });
}

function goals(state, changed) {
  return h("fieldset", { key: "goals" }, h("legend", {}, "Where to"),
    Object.entries(GOALS).map(([goal, text]) => h("label", { class: "tick", key: goal },
      h("input", { type: "radio", name: "goal", value: goal, checked: state.goal === goal, on: { change: () => changed("goal", goal) } }), h("span", {}, text))),
    state.goal === "time" ? field("Time in UTC", h("input", { type: "text", inputmode: "numeric", value: state.time, placeholder: "2026-01-31 02:15:00", autocomplete: "off",
      on: { input: (event) => changed("time", event.target.value) } }), "Year-month-day hour:minute:second.") : null,
    state.goal === "lsn" ? field("LSN", h("input", { type: "text", class: "mono", value: state.lsn, maxlength: 64, placeholder: "0x0000002A000001F80003", autocomplete: "off", spellcheck: "false",
      on: { input: (event) => changed("lsn", event.target.value) } })) : null,
    state.goal === "latest" ? notice("bad", "This skips every change that waits", "Subscribers never receive them. Only changes that are committed later are sent.", { key: "skips" }) : null);
}

function order(state, dry) {
  return {
    time: state.goal === "time" ? utc(state.time) : null,
    lsn: state.goal === "lsn" ? state.lsn.trim() : null,
    earliest: state.goal === "earliest",
    latest: state.goal === "latest",
    take: state.confirmed.has("take"),
    skip: state.confirmed.has("skip"),
    dry_run: dry,
    reason: state.reason || null,
  };
}

/** As the API takes it; a person writes a space where ISO 8601 has a T. */
function utc(text) {
  const joined = text.trim().replace(/\s+/, "T");
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z?$/.test(joined)) throw new Error("Give the time as 2026-01-31 02:15:00, in UTC.");
  return joined.endsWith("Z") ? joined : `${joined}Z`;
}

function dryRun(table, state, dialog) {
  return button("See what it would mean", () => dialog.run("Looking …", async () => {
    state.answer = await post(`tables/${part(table.table)}/offset`, order(state, true));
  }), { look: state.answer ? "" : "primary" });
}

function meaning(state, dialog) {
  const { answer } = state;
  return h("div", { class: "outcome", key: "answer", role: "status" },
    h("h3", {}, "What it would mean"),
    facts([["From", answer.begun ?? "none"], ["To", answer.to]]),
    answer.again ? notice("info", "Sent again", answer.again, { key: "again" }) : null,
    answer.skipped ? notice("warn", "Never sent", answer.skipped, { key: "skipped" }) : null,
    answer.lost ? notice("bad", "Lost already", answer.lost, { key: "lost" }) : null,
    !answer.again && !answer.skipped && !answer.lost ? h("p", {}, "No change is sent again, and none is left out.") : null,
    answer.needs.map((need) => tick(CONFIRMS[need.option] ?? need.option, state.confirmed.has(need.option), (on) => {
      state.confirmed[on ? "add" : "delete"](need.option);
      dialog.redraw();
    }, { key: need.option, help: need.why })));
}

function move(table, state, dialog, done) {
  const open = state.answer.needs.filter((need) => !state.confirmed.has(need.option));
  const why = open.length ? "Tick what has to be confirmed first." : "";
  return button("Move the offset", () => dialog.run("Moving …", async () => {
    const result = await post(`tables/${part(table.table)}/offset`, order(state, false));
    if (!result.moved) {
      state.answer = result;
      throw new Error("It was not moved: something changed since you looked. Read again what it would mean.");
    }
    tell(`The offset of ${table.table} was moved.`);
    dialog.close();
    done();
  }), { look: "danger", why });
}
