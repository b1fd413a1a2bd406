// Dead letters: how many, where and why; then those of one entity, chosen by reason and table; what runs; and the way to replay or purge.

import { get, list as listOf, part, post } from "../core/api.js";
import { h } from "../core/dom.js";
import { known } from "../core/known.js";
import { here, to } from "../core/places.js";
import { count, counted, entityName } from "../core/words.js";
import { button, empty, heading, linkButton, prose, section, tag, unknowns, when } from "../parts/bits.js";
import { grid } from "../parts/grid.js";
import { letters, unsendable } from "../parts/letters.js";
import { tell } from "../parts/notes.js";
import { askMany, outcome } from "./dead_letter_orders.js";
import { whyNot } from "./table.js";

const MOST = 100;
const REASONS = 6;
const TONES = { running: "info", done: "ok", failed: "bad", stopped: "warn" };

export function open(_, context) {
  const state = { counts: null };
  return {
    title: "Dead letters",
    live: true,
    async refresh() {
      const [counts, operations] = await Promise.all([get("dead-letters"), listOf("operations")]);
      known.operations = operations.items;
      state.counts = counts;
    },
    draw: () => (state.counts ? overview(state.counts, context) : null),
  };
}

function overview({ items, unknown = [] }, context) {
  const some = items.filter((each) => each.total || each.examined);
  const total = some.reduce((sum, each) => sum + (each.total ?? each.examined), 0);
  return [
    heading("Dead letters", h("span", { class: "muted" }, total ? counted(total, "dead letter") : unknown.length ? "not known" : "none")),
    h("p", { class: "muted", key: "note" }, "A dead letter is a message that could not be delivered. It is kept until somebody replays or purges it."),
    unknowns(unknown),
    some.length ? h("ul", { class: "cards broad", key: "cards" }, some.map(entityCard)) : h("p", { class: "empty", key: "none" }, unknown.length ? "None among those that could be looked at." : "There are none: everything that was sent was taken."),
    running(known.operations, context),
  ];
}

function entityCard(each) {
  const chips = (title, found, name) => {
    const sorted = Object.entries(found).sort((one, other) => other[1] - one[1]);
    return sorted.length ? h("div", { class: "chip-row", key: title }, h("span", { class: "muted" }, title),
      h("div", { class: "chips" }, sorted.slice(0, 8).map(([value, many]) =>
        value ? h("a", { class: "chip", key: value, href: to(["dead-letters", "list"], { entity: each.entity, [name]: value }) }, value, " ", h("strong", {}, count(many)))
          : h("span", { class: "chip", key: "" }, "not known", " ", h("strong", {}, count(many)))),
      sorted.length > 8 ? h("span", { class: "muted" }, `and ${sorted.length - 8} more`) : null)) : null;
  };
  return h("li", { class: "panel", key: each.entity },
    h("div", { class: "card-head" }, h("h2", {}, entityName(each.entity)), h("strong", { class: "big" }, count(each.total ?? each.examined))),
    chips("Why", each.reasons, "reason"), chips("Tables", each.tables, "table"),
    each.total !== null && each.examined < each.total ? h("p", { class: "muted" }, `The reasons are those of the first ${count(each.examined)}.`) : null,
    h("p", { class: "actions" }, linkButton("Read them", to(["dead-letters", "list"], { entity: each.entity }), "primary")));
}

/** Replays and purges of this process. */
function running(operations, context) {
  if (!operations.length) return null;
  const columns = [
    { name: "Begun", cell: (operation) => when(operation.begun_at) },
    { name: "Does", cell: (operation) => operation.kind },
    { name: "Where", cell: (operation) => entityName(operation.entity) },
    { name: "State", cell: (operation) => tag(operation.state, TONES[operation.state]) },
    { name: "Examined", number: true, cell: (operation) => count(operation.examined) },
    { name: "Done", number: true, cell: (operation) => count(operation.done) },
    { name: "Left", number: true, cell: (operation) => count(operation.result?.left_count) },
    { name: "", cell: (operation) => [operation.error ? h("p", { class: "tone-bad" }, operation.error, operation.remedy ? ` ${operation.remedy}` : "") : null,
      operation.state === "running" ? button("Stop", async () => {
        try {
          await post(`operations/${part(operation.id)}/stop`);
          tell("It is being stopped: what is in flight is finished.");
        } catch (error) {
          tell(error.message);
        }
        context.refresh();
      }, { look: "small", why: whyNot() }) : null] },
  ];
  return section("Replays and purges", grid("Replays and purges since this console was started", columns, operations, { key: (operation) => operation.id }));
}

/** Those of one entity. */
export function openList(_, context) {
  const state = { page: null, chosen: new Set(), shown: "", remedies: new Map() };
  return {
    title: "Dead letters",
    live: false,
    async refresh() {
      const query = filter();
      const [page, operations] = await Promise.all([get("messages", { ...query, dead: true, newest_first: true, most: MOST }), listOf("operations")]);
      if (JSON.stringify(query) !== state.shown) state.chosen.clear();
      known.operations = operations.items;
      Object.assign(state, { page, shown: JSON.stringify(query) });
      await remedies(state);
    },
    stale: () => JSON.stringify(filter()) !== state.shown,
    draw: () => (state.page ? list(state, context) : null),
  };
}

/** What to do about each reason of the page: a dead letter says it, so one of each is read, once. */
async function remedies(state) {
  const first = new Map(state.page.items.map((message) => [message.reason ?? "", message]));
  const unread = [...first].filter(([reason]) => !state.remedies.has(reason)).slice(0, REASONS);
  await Promise.all(unread.map(async ([reason, message]) => {
    try {
      const found = await get(`messages/${part(message.sequence)}`, { entity: message.entity, dead: true });
      if (found.remedy) state.remedies.set(reason, found.remedy);
    } catch (error) {
      if (error.status !== 404) throw error; // replayed or purged meanwhile
    }
  }));
}

function advice(state) {
  const reasons = [...new Set(state.page.items.map((message) => message.reason ?? ""))].filter((reason) => state.remedies.has(reason));
  return reasons.length ? h("section", { class: "panel", key: "advice", "aria-label": "What to do" }, h("h2", {}, "What to do"),
    h("dl", { class: "facts" }, reasons.map((reason) => h("div", { key: reason }, h("dt", {}, reason || "no reason"), h("dd", {}, prose(state.remedies.get(reason))))))) : null;
}

function filter() {
  const { query } = here();
  return { entity: query.get("entity") ?? "queue", reason: query.get("reason") ?? "", table: query.get("table") ?? "", after: query.get("after") ?? "" };
}

function list(state, context) {
  const query = filter();
  const { page, chosen } = state;
  const why = whyNot();
  const which = { reason: query.reason || null, table: query.table || null };
  const these = chosen.size ? [...chosen] : null;
  const words = chosen.size ? counted(chosen.size, "chosen dead letter") : query.reason || query.table ? "all like these" : "all of them";
  const hopeless = page.items.length > 0 && page.items.every((message) => unsendable(message.reason));
  const last = known.operations.find((operation) => operation.entity === query.entity);
  return [
    heading(`Dead letters: ${entityName(query.entity)}`, button("Look again", context.refresh, { look: "small" })),
    query.reason || query.table ? h("p", { key: "filter", class: "chips" },
      query.reason ? h("a", { class: "chip", href: to(["dead-letters", "list"], { ...query, reason: "", after: "" }), title: "Remove this filter" }, `reason ${query.reason} ×`) : null,
      query.table ? h("a", { class: "chip", href: to(["dead-letters", "list"], { ...query, table: "", after: "" }), title: "Remove this filter" }, `table ${query.table} ×`) : null) : null,
    h("div", { class: "orders", key: "orders" },
      button(`Replay ${words}`, () => askMany("replay", query.entity, which, these, context, { reasons: reasons(state) }), { look: hopeless ? "" : "primary", why, key: "replay" }),
      button(`Purge ${words}`, () => askMany("purge", query.entity, which, these, context), { look: chosen.size || hopeless ? "danger" : "danger quiet", why, key: "purge" })),
    last ? outcome(last) : null,
    unknowns(page.unknown),
    advice(state),
    page.items.length ? h("div", { key: "grid" }, letters(`Dead letters of ${entityName(query.entity)}`, page.items, { dead: true, extra: [choice(state, context)] }))
      : empty(page.next ? "None among those that were read; there are more." : "There are none like that."),
    h("nav", { class: "pager", key: "pager", "aria-label": "Pages" },
      query.after ? h("a", { class: "button small", href: to(["dead-letters", "list"], { ...query, after: "" }) }, "First page") : null,
      h("span", { class: "muted" }, page.items.length === page.examined ? `${count(page.items.length)} shown` : `${count(page.items.length)} match, of ${count(page.examined)} that were read`),
      page.next ? h("a", { class: "button small", href: to(["dead-letters", "list"], { ...query, after: page.next }) }, "Next page") : null),
  ];
}

/** Of those that are chosen; of all on the page where none is. */
function reasons({ page, chosen }) {
  return page.items.filter((message) => !chosen.size || chosen.has(message.sequence)).map((message) => message.reason);
}

function choice(state, context) {
  return { name: "", cell: (message) => h("label", { class: "choose" },
    h("span", { class: "unseen" }, `Choose dead letter ${message.sequence}`),
    h("input", { type: "checkbox", checked: state.chosen.has(message.sequence), on: { change: (event) => {
      state.chosen[event.target.checked ? "add" : "delete"](message.sequence);
      context.redraw();
    } } })) };
}
