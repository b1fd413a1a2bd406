// The queue, the topics and their subscriptions: what lies where, how full it is, and the ways into each. Only a page of them is drawn.

import { get, list } from "../core/api.js";
import { h } from "../core/dom.js";
import { go, here, to } from "../core/places.js";
import { count, counted, entityName, share, shortener } from "../core/words.js";
import { bar, empty, heading, section } from "../parts/bits.js";
import { grid, paged } from "../parts/grid.js";

const MOST_WAITING = 100;

export function open() {
  const state = { entities: null, unacknowledged: [] };
  return {
    title: "Queue and topics",
    live: true,
    async refresh() {
      const [entities, unacknowledged] = await Promise.all([get("entities"), list("unacknowledged")]);
      Object.assign(state, { entities: entities.items, unacknowledged: unacknowledged.items });
    },
    draw: () => (state.entities ? page(state) : null),
  };
}

function page({ entities, unacknowledged }) {
  const { query } = here();
  const chosen = { q: query.get("q") ?? "", some: query.get("some") ?? "", page: Number(query.get("page")) };
  const address = (changed) => to(["queues"], { ...chosen, page: "", ...changed });
  const queues = entities.filter((entity) => entity.kind === "queue");
  const others = entities.filter((entity) => entity.kind !== "queue");
  const found = matching(others, chosen);
  const { shown, controls } = paged(found, chosen.page, (number) => address({ page: number }), "topics and subscriptions");
  return [
    heading("Queue and topics", h("span", { class: "muted" }, found.length === others.length
      ? counted(others.length, "topic or subscription", "topics and subscriptions") : `${count(found.length)} of ${counted(others.length, "topic or subscription", "topics and subscriptions")}`)),
    section("Ingest queue", queues.length ? entityGrid("The ingest queue", queues) : empty("It could not be read.")),
    others.length ? h("div", { class: "toolbar", key: "toolbar", role: "search" },
      h("label", { class: "unseen", for: "entity-search" }, "Search topics and subscriptions"),
      h("input", { id: "entity-search", type: "search", class: "search", placeholder: "Search a topic or a subscription", value: chosen.q, autocomplete: "off",
        on: { input: (event) => go(address({ q: event.target.value }), { replace: true }) } }),
      h("div", { class: "chips", role: "group", "aria-label": "Which" },
        [["", "all"], ["some", "with something in them"], ["dead", "with dead letters"]].map(([value, text]) =>
          h("a", { class: "chip", key: value, href: address({ some: value }), "aria-current": chosen.some === value ? "true" : null }, text)))) : null,
    section("Topics and subscriptions", shown.length ? entityGrid("Topics and their subscriptions", shown)
      : empty(others.length ? "None is like that." : "There is none yet."), controls),
    waiting(unacknowledged, chosen),
  ];
}

/** Those with dead letters first, then the fullest. */
function matching(entities, { q, some }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const lying = (entity) => (entity.active ?? 0) + (entity.dead_letters ?? 0) + (entity.scheduled ?? 0) + (entity.transfer_dead_letters ?? 0);
  const found = entities.filter((entity) => (some !== "some" || lying(entity)) && (some !== "dead" || entity.dead_letters || entity.transfer_dead_letters)
    && (!words.length || words.every((word) => entityName(entity.entity).toLowerCase().includes(word))));
  const rank = (entity) => [(entity.dead_letters ?? 0) + (entity.transfer_dead_letters ?? 0), entity.used_share ?? 0, entity.active ?? 0];
  const valued = found.map((entity) => ({ entity, rank: rank(entity) }));
  valued.sort((one, other) => other.rank[0] - one.rank[0] || other.rank[1] - one.rank[1] || other.rank[2] - one.rank[2]);
  return valued.map((each) => each.entity);
}

function waiting(unacknowledged, { q }) {
  const word = q.toLowerCase();
  const found = unacknowledged.filter((each) => (each.queued || each.unread) && `${each.table ?? ""} ${each.topic ?? ""}`.toLowerCase().includes(word));
  if (!found.length) return null;
  return section("Sent, and not yet received", grid("What was sent and has not arrived, by table", [
    { name: "Table", cell: (each) => (each.table ? h("a", { class: "name", href: to(["tables", each.table]) }, each.table) : "all others") },
    { name: "Waits for the router", number: true, cell: (each) => count(each.queued) },
    { name: "Waits for subscribers", number: true, cell: (each) => count(each.unread) },
    { name: "Topic", less: "less", cell: (each) => h("span", { class: "mono" }, each.topic ?? "–") },
  ], found.slice(0, MOST_WAITING), { key: (each) => `${each.table} ${each.topic}` }),
  found.length > MOST_WAITING ? h("p", { class: "muted" }, `The first ${MOST_WAITING} of ${count(found.length)} tables.`) : null);
}

function entityGrid(caption, entities) {
  const dead = (entity) => (entity.dead_letters
    ? h("a", { class: "tone-warn", href: to(["dead-letters", "list"], { entity: entity.entity }) }, count(entity.dead_letters))
    : count(entity.dead_letters));
  const short = shortener(entities.map((entity) => entityName(entity.entity).split(" › ")[0]), 34);
  const columns = [
    { name: "Name", cell: (entity) => {
      const [topic, subscription] = entityName(entity.entity).split(" › ");
      const inside = [h("span", { class: "tight" }, short(topic)), subscription ? [" › ", h("span", { class: "tight" }, subscription)] : null];
      const given = { class: "mono", title: entityName(entity.entity) };
      return entity.kind === "topic" ? h("span", given, inside) : h("a", { ...given, href: to(["messages"], { entity: entity.entity }) }, inside);
    } },
    { name: "Kind", tight: true, less: "lesser", cell: (entity) => entity.kind },
    { name: "Messages", number: true, cell: (entity) => count(entity.active) },
    { name: "Dead letters", number: true, cell: dead },
    { name: "Scheduled", number: true, less: "less", cell: (entity) => count(entity.scheduled) },
    { name: "Transfer dead letters", number: true, less: "less", cell: (entity) => count(entity.transfer_dead_letters) },
    { name: "Storage", cell: (entity) => (entity.used_share === null || entity.used_share === undefined ? "–"
      : bar(entity.used_share, share(entity.used_share), entity.used_share > 0.8 ? "bad" : entity.used_share > 0.5 ? "warn" : "ok", `${share(entity.used_share)} of its storage is used`)) },
  ];
  return grid(caption, columns, entities, { key: (entity) => entity.entity });
}
