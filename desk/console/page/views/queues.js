// The queue, the topics and their subscriptions: what lies where, how full it is, and the ways into each.

import { get, list } from "../core/api.js";
import { h } from "../core/dom.js";
import { to } from "../core/places.js";
import { count, counted, entityName, share } from "../core/words.js";
import { bar, empty, heading, section } from "../parts/bits.js";
import { grid } from "../parts/grid.js";

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
  const queues = entities.filter((entity) => entity.kind === "queue");
  const others = entities.filter((entity) => entity.kind !== "queue");
  const waiting = unacknowledged.filter((each) => each.queued || each.unread);
  return [
    heading("Queue and topics", h("span", { class: "muted" }, counted(others.length, "topic or subscription", "topics and subscriptions"))),
    section("Ingest queue", queues.length ? entityGrid("The ingest queue", queues) : empty("It could not be read.")),
    section("Topics and subscriptions", others.length ? entityGrid("Topics and their subscriptions", others) : empty("There is none yet.")),
    waiting.length ? section("Sent, and not yet received", grid("What was sent and has not arrived, by table", [
      { name: "Table", cell: (each) => (each.table ? h("a", { class: "name", href: to(["tables", each.table]) }, each.table) : "all others") },
      { name: "Waits for the router", number: true, cell: (each) => count(each.queued) },
      { name: "Waits for subscribers", number: true, cell: (each) => count(each.unread) },
      { name: "Topic", cell: (each) => h("span", { class: "mono" }, each.topic ?? "–") },
    ], waiting.slice(0, 100), { key: (each) => `${each.table} ${each.topic}` })) : null,
  ];
}

function entityGrid(caption, entities) {
  const dead = (entity) => (entity.dead_letters
    ? h("a", { class: "tone-warn", href: to(["dead-letters", "list"], { entity: entity.entity }) }, count(entity.dead_letters))
    : count(entity.dead_letters));
  const columns = [
    { name: "Name", cell: (entity) => (entity.kind === "topic"
      ? h("span", { class: "mono" }, entityName(entity.entity))
      : h("a", { class: "mono", href: to(["messages"], { entity: entity.entity }) }, entityName(entity.entity))) },
    { name: "Kind", cell: (entity) => entity.kind },
    { name: "Messages", number: true, cell: (entity) => count(entity.active) },
    { name: "Dead letters", number: true, cell: dead },
    { name: "Scheduled", number: true, cell: (entity) => count(entity.scheduled) },
    { name: "Not forwarded", number: true, cell: (entity) => count(entity.transfer_dead_letters) },
    { name: "Storage", cell: (entity) => (entity.used_share === null || entity.used_share === undefined ? "–"
      : bar(entity.used_share, share(entity.used_share), entity.used_share > 0.8 ? "bad" : entity.used_share > 0.5 ? "warn" : "ok", `${share(entity.used_share)} of its storage is used`)) },
  ];
  return grid(caption, columns, entities, { key: (entity) => entity.entity });
}
