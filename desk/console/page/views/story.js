// Where is a change? Asked by its event id, or by a table and a row's key: the verdict first, then its way from commit to topic as a picture.

import { post } from "../core/api.js";
import { h } from "../core/dom.js";
import { known, readTables } from "../core/known.js";
import { go, here, to } from "../core/places.js";
import { duration } from "../core/words.js";
import { empty, failure, heading, linkButton, tag, unknowns, when } from "../parts/bits.js";
import { icon } from "../parts/icons.js";

const VERDICTS = {
  delivered: ["ok", "It was delivered"], waiting: ["info", "It waits to be read"], queued: ["info", "It waits in the queue"],
  filtered: ["none", "A filter left it out"], skipped: ["warn", "It was skipped"], before_offset: ["warn", "It lies before the offset"],
  gap: ["bad", "It was lost in a gap"], poison: ["bad", "It could not be sent"], paused: ["info", "Its table is paused"],
  not_captured: ["bad", "It was not captured"], no_trace: ["none", "There is no trace of it"], unknown: ["none", "It is not known where it is"],
};
const PLACES = {
  commit: "Commit", change_table: "Change table", ingester: "Ingester", queue: "Queue", router: "Router", topic: "Topic",
  subscription: "Subscription", dead_letter: "Dead letter",
};
const STATES = {
  passed: ["ok", "passed"], here: ["here", "is here"], waiting: ["wait", "waits here"], not_yet: ["open", "not yet"], never: ["never", "never"], unknown: ["none", "not known"],
};

export function open() {
  const state = { stories: null, error: null, asked: "" };
  return {
    title: "Where is a change?",
    live: false,
    async refresh() {
      const query = chosen();
      state.asked = location.hash;
      await readTables();
      state.stories = state.error = null;
      if (!askable(query)) return;
      try {
        state.stories = await post("stories", query.event_id ? { event_id: query.event_id } : { table: query.table, key: keyOf(query.key) });
      } catch (error) {
        state.error = error;
      }
    },
    stale: () => location.hash !== state.asked,
    draw: () => page(state),
  };
}

function chosen() {
  const { query } = here();
  return { event_id: query.get("event_id") ?? "", table: query.get("table") ?? "", key: query.get("key") ?? "" };
}

function askable(query) {
  return Boolean(query.event_id || (query.table && query.key));
}

/** `Id=42, Region=EU` as the API takes it. */
function keyOf(text) {
  const pairs = text.split(",").map((pair) => pair.split(/=(.*)/s).slice(0, 2).map((part) => part.trim()));
  if (pairs.some((pair) => pair.length < 2 || !pair[0])) throw new Error("Write the key as Column=value, with commas between several columns.");
  return Object.fromEntries(pairs);
}

function page(state) {
  const query = chosen();
  return [
    heading("Where is a change?"),
    form(state, query),
    state.error ? failure(state.error) : null,
    state.stories ? found(state.stories) : askable(query) || state.error ? null
      : empty("Give the id of an event, as it is in the message, or a table and the key of a row."),
  ];
}

function form(state, query) {
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value.trim()]));
    go(to(["story"], given.event_id ? { event_id: given.event_id } : given));
  };
  const input = (name, label, example, list = null) => h("label", { key: name }, h("span", {}, label),
    h("input", { name, type: "text", value: query[name], placeholder: example, list, autocomplete: "off", spellcheck: "false" }));
  return h("form", { class: "filters panel", key: "form", role: "search", on: { submit } },
    h("div", { class: "filter-grid" }, input("event_id", "Event id", "from a message")),
    h("p", { class: "muted or" }, "or"),
    h("div", { class: "filter-grid" }, input("table", "Table", "dbo.Persons", "story-tables"), input("key", "Key of the row", "Id=42")),
    h("datalist", { id: "story-tables" }, [...known.tables.keys()].slice(0, 2000).map((table) => h("option", { value: table }))),
    h("p", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Find it")));
}

function found(stories) {
  if (!stories.items.length) return empty("No change like that was found.");
  return h("div", { key: "stories", class: "stack" }, stories.items.map((one, at) => (at ? older(one) : story(one))),
    stories.more ? h("p", { class: "muted" }, "There are more changes of this row; the newest are shown.") : null);
}

/** A row's earlier changes, one line each until they are opened. */
function older(one) {
  const [tone, title] = VERDICTS[one.verdict] ?? VERDICTS.unknown;
  return h("details", { class: "older", key: `${one.event_id} ${one.lsn}` },
    h("summary", {}, icon(tone), ` ${title} `, one.operation ? tag(one.operation, "plain") : null, " ", one.steps[0]?.at ? when(one.steps[0].at) : null), story(one));
}

function story(one) {
  const [tone, title] = VERDICTS[one.verdict] ?? VERDICTS.unknown;
  return h("article", { class: "panel story", key: `${one.event_id} ${one.lsn}` },
    h("div", { class: `verdict verdict-${tone}` }, icon(tone),
      h("div", {}, h("h2", { class: "verdict-title" }, title), h("p", {}, one.why),
        one.remedy ? h("p", { class: "remedy" }, h("strong", {}, "What to do: "), one.remedy) : null)),
    h("p", { class: "muted story-of" }, one.operation ? tag(one.operation, "plain") : null, " ", h("a", { href: to(["tables", one.table]) }, one.table),
      one.lsn ? h("span", { class: "mono" }, ` ${one.lsn}`) : null, one.event_id ? h("span", { class: "mono" }, ` ${one.event_id}`) : null),
    h("ol", { class: "steps", "aria-label": "Its way" }, one.steps.map((step, at) => stepItem(step, at ? one.steps[at - 1] : null))),
    unknowns(one.unknown));
}

function stepItem(step, before) {
  const [sign, words] = STATES[step.state] ?? STATES.unknown;
  const took = step.after_seconds !== null && before && before.after_seconds !== null ? step.after_seconds - before.after_seconds : null;
  const inside = step.entity && step.sequence !== null
    ? linkButton("Show it", to(["messages", "one"], { entity: step.entity, dead: step.place === "dead_letter" ? "1" : "", sequence: step.sequence }), "small") : null;
  return h("li", { class: `step step-${step.state}`, key: `${step.place} ${step.entity}` },
    h("span", { class: "step-took muted" }, took === null || took < 0 ? "" : `+${duration(took)}`),
    h("span", { class: "step-dot" }, icon(sign, "plain")),
    h("div", { class: "step-text" }, h("h3", {}, PLACES[step.place] ?? step.place, h("span", { class: "unseen" }, `: ${words}`)),
      h("p", {}, step.what),
      step.at ? h("p", { class: "muted" }, when(step.at)) : null,
      step.after_seconds ? h("p", { class: "muted" }, `${duration(step.after_seconds)} after commit`) : null, inside));
}
