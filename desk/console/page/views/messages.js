// The explorer: what lies in the queue, a subscription or their dead letters, newest first, with filters and pages. Looking takes nothing.

import { get, list, part } from "../core/api.js";
import { h } from "../core/dom.js";
import { go, here, to } from "../core/places.js";
import { count, entityName } from "../core/words.js";
import { button, empty, heading, unknowns } from "../parts/bits.js";
import { letter, letters, unsendable } from "../parts/letters.js";
import { askOne } from "./dead_letter_orders.js";
import { whyNot } from "./table.js";

const MOST = 50;
const FILTERS = [
  ["table", "Table", "dbo.Persons"], ["operation", "Operation", "Update"], ["event_id", "Event id", ""], ["message_id", "Message id", ""],
  ["session_id", "Session", ""], ["since", "Enqueued since (UTC)", "2026-01-31T02:00Z"], ["until", "Enqueued before (UTC)", "2026-01-31T03:00Z"], ["text", "In the body", ""],
];

export function open() {
  const state = { entities: [], page: null, shown: "" };
  return {
    title: "Messages",
    live: false,
    async refresh() {
      const query = chosen();
      const [entities, page] = await Promise.all([
        list("entities"),
        get("messages", { ...query, dead: Boolean(query.dead), newest_first: query.order !== "oldest", order: null, most: MOST }),
      ]);
      Object.assign(state, { entities: entities.items, page, shown: JSON.stringify(query) });
    },
    stale: () => JSON.stringify(chosen()) !== state.shown,
    draw: (context) => (state.page ? page(state, context) : null),
  };
}

function chosen() {
  const { query } = here();
  const kept = { entity: query.get("entity") ?? "queue", dead: query.get("dead") ?? "", after: query.get("after") ?? "", order: query.get("order") ?? "" };
  for (const [name] of [...FILTERS, ["reason"]]) kept[name] = query.get(name) ?? "";
  return kept;
}

function page(state, context) {
  const query = chosen();
  const found = state.page;
  const noun = query.dead ? "dead letters" : "messages";
  return [
    heading(`Messages: ${entityName(query.entity)}`, button("Look again", context.refresh, { look: "small" })),
    h("p", { class: "muted", key: "note" }, "Looking takes nothing, locks nothing and raises no delivery count."),
    filters(state, query),
    unknowns(found.unknown),
    found.items.length ? h("div", { key: "grid" }, letters(`The ${noun} of ${entityName(query.entity)}`, found.items, { dead: Boolean(query.dead) }))
      : empty(found.next ? `None among the ${count(found.examined)} that were read; there are more.` : `No ${noun} like that lie here.`),
    h("nav", { class: "pager", "aria-label": "Pages", key: "pager" },
      query.after ? h("a", { class: "button small", href: to(["messages"], { ...query, after: "" }) }, "First page") : null,
      h("span", { class: "muted" }, `${count(found.items.length)} shown, ${count(found.examined)} read`),
      found.next ? h("a", { class: "button small", href: to(["messages"], { ...query, after: found.next }) }, found.items.length ? "Next page" : "Look further") : null),
  ];
}

function filters(state, query) {
  const readable = state.entities.filter((entity) => entity.kind !== "topic");
  const names = readable.map((entity) => entity.entity);
  if (!names.includes(query.entity)) names.unshift(query.entity);
  const used = FILTERS.filter(([name]) => query[name]).length;
  const select = (name, values, label) => h("label", { class: "inline" }, h("span", {}, label),
    h("select", { name, value: query[name] }, values.map(([value, text]) => h("option", { value, selected: value === query[name] }, text))));
  return h("form", { class: "filters", key: "filters", role: "search", "aria-label": "Which messages", on: { submit: apply, change: quick } },
    h("div", { class: "toolbar" },
      select("entity", names.map((name) => [name, entityName(name)]), "Where"),
      select("dead", [["", "messages"], ["1", "dead letters"]], "What"),
      select("order", [["", "newest first"], ["oldest", "oldest first"]], "Order")),
    h("details", { open: used > 0 }, h("summary", {}, used ? `Filters (${used})` : "Filters"),
      h("div", { class: "filter-grid" }, [...FILTERS, ...(query.dead ? [["reason", "Reason", "MessageTooLarge"]] : [])].map(([name, label, example]) =>
        h("label", { key: name }, h("span", {}, label), h("input", { name, type: "text", value: query[name], placeholder: example, autocomplete: "off", spellcheck: "false" })))),
      h("p", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Apply"),
        h("a", { class: "button quiet", href: to(["messages"], { entity: query.entity, dead: query.dead }) }, "Clear"))));
}

function quick(event) {
  if (event.target.tagName === "SELECT") apply(event);
}

function apply(event) {
  event.preventDefault();
  const form = event.target.closest("form");
  go(to(["messages"], { ...Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()])) }));
}

/** One message. */
export function openOne() {
  const { query } = here();
  const place = { entity: query.get("entity") ?? "queue", dead: query.get("dead") === "1", sequence: query.get("sequence") ?? "" };
  const state = { message: null };
  return {
    title: `${place.dead ? "Dead letter" : "Message"} ${place.sequence}`,
    live: false,
    async refresh() {
      state.message = await get(`messages/${part(place.sequence)}`, { entity: place.entity, dead: place.dead });
    },
    draw: (context) => (state.message ? one(state.message, context) : null),
  };
}

function one(message, context) {
  const why = whyNot();
  const orders = message.dead
    ? [button("Replay", () => askOne("replay", message, context), { look: unsendable(message.reason) ? "" : "primary", why, key: "replay" }),
       button("Purge", () => askOne("purge", message, context), { look: "danger", why, key: "purge" })] : [];
  return letter(message, orders);
}
