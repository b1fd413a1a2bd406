// The first view: is anything wrong? If so what, why, since when, what to do and where; if not, a calm sentence and the few figures.

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { known } from "../core/known.js";
import { to } from "../core/places.js";
import { count, counted, duration, entityName, moment, rate, share, STATES, WORST_FIRST } from "../core/words.js";
import { figure, headroomTone, linkButton, notice, section, stateTag, unknowns, when } from "../parts/bits.js";
import { chart, CLOCK } from "../parts/chart.js";
import { icon } from "../parts/icons.js";

export function open() {
  const state = { history: null };
  return {
    title: "Now",
    live: true,
    async refresh() {
      state.history = await get("history");
    },
    draw: () => (known.overview && state.history ? page(known.overview, state.history) : null),
  };
}

function page(overview, history) {
  const troubles = [...overview.troubles].sort(bySeverity);
  return [
    h("h1", { class: "unseen", tabindex: "-1", key: "title" }, "Now"),
    troubles.length ? wrong(troubles) : calm(overview),
    unknowns(overview.unknown),
    way(overview),
    figures(overview),
    charts(history),
    states(overview),
  ];
}

function bySeverity(one, other) {
  const weight = (trouble) => (trouble.severity === "critical" ? 0 : 1);
  return weight(one) - weight(other) || (moment(one.since) ?? 0) - (moment(other.since) ?? 0);
}

function calm(overview) {
  const sure = overview.complete;
  const words = overview.tables
    ? `${counted(overview.tables, "table")}; the oldest change that waits is ${duration(overview.worst_lag_seconds)} old.`
    : "No table is configured yet.";
  return h("section", { key: "verdict", class: `verdict verdict-${sure ? "ok" : "none"}`, "aria-label": "Is anything wrong?" },
    icon(sure ? "ok" : "none"),
    h("div", {}, h("p", { class: "verdict-title" }, sure ? "Everything arrives" : "Nothing wrong is known, but not everything could be read"),
      h("p", {}, words, " ", h("span", { class: "muted" }, "Seen "), when(overview.at))));
}

function wrong(troubles) {
  const critical = troubles.filter((trouble) => trouble.severity === "critical").length;
  const shown = troubles.slice(0, 30);
  return h("section", { key: "verdict", class: "stack", "aria-label": "What is wrong" },
    h("p", { class: `verdict-title tone-${critical ? "bad" : "warn"}` },
      icon(critical ? "bad" : "warn"), `${counted(troubles.length, "thing needs", "things need")} you`,
      critical && critical < troubles.length ? h("span", { class: "muted" }, ` ${critical} of them critical`) : null),
    h("ul", { class: "troubles" }, shown.map(troubleItem)),
    troubles.length > shown.length ? h("p", { class: "muted" }, `${counted(troubles.length - shown.length, "more is", "more are")} not shown here: see the tables.`) : null);
}

function troubleItem(trouble) {
  const tone = trouble.severity === "critical" ? "bad" : "warn";
  return h("li", { class: `trouble trouble-${tone}`, key: `${trouble.what} ${trouble.cause}` },
    icon(tone),
    h("div", { class: "trouble-body" },
      h("h2", {}, h("span", { class: "unseen" }, `${trouble.severity}: `), trouble.what),
      h("p", { class: "cause" }, trouble.cause),
      trouble.remedy ? h("p", { class: "remedy" }, h("strong", {}, "What to do: "), trouble.remedy) : null,
      h("p", { class: "trouble-foot" }, h("span", { class: "actions" }, mending(trouble)),
        trouble.since ? h("span", { class: "muted" }, "since ", when(trouble.since)) : null,
        trouble.alert ? h("span", { class: "muted" }, `alert ${trouble.alert}`) : null)));
}

/** The buttons that lead to where it can be put right. */
function mending(trouble) {
  const links = [];
  const dead = /dead letter/i.test(`${trouble.what} ${trouble.cause} ${trouble.alert ?? ""}`);
  if (trouble.entity && dead) links.push(linkButton("Read the dead letters", to(["dead-letters", "list"], { entity: trouble.entity }), "primary"));
  if (trouble.table) links.push(linkButton(`Open ${trouble.table}`, to(["tables", trouble.table]), links.length ? "" : "primary"));
  if (trouble.entity && !dead) links.push(linkButton(`Look into ${entityName(trouble.entity)}`, to(["messages"], { entity: trouble.entity }), links.length ? "" : "primary"));
  if (!links.length) links.push(linkButton("Look at the processes", to(["processes"])));
  return links;
}

/** The whole way in one picture: how many take part, what waits between them. */
function way(overview) {
  const of = (stage) => overview.processes.filter((process) => process.stage === stage);
  const stage = (name, processes) => {
    const ready = processes.filter((process) => process.reached && process.ready !== false).length;
    const tone = !processes.length ? "none" : ready === processes.length ? "ok" : ready ? "warn" : "bad";
    const text = processes.length ? `${ready} of ${processes.length} ready` : "not watched";
    return { name, text, tone, href: to(["processes"]) };
  };
  const queue = overview.queue;
  const stops = [
    { name: "SQL Server", text: `${counted(overview.changes_waiting, "change")} wait`, tone: overview.changes_waiting === null ? "none" : "ok", href: to(["tables"]) },
    stage("Ingesters", of("ingester")),
    { name: "Queue", text: queue ? `${counted(queue.active, "message")}${queue.used_share === null ? "" : `, ${share(queue.used_share)} full`}` : "not known",
      tone: !queue ? "none" : queue.used_share > 0.8 ? "bad" : "ok", href: to(["queues"]) },
    stage("Routers", of("router")),
    { name: "Topics", text: overview.dead_letters === null ? "not known" : counted(overview.dead_letters, "dead letter"),
      tone: overview.dead_letters === null ? "none" : overview.dead_letters ? "warn" : "ok", href: overview.dead_letters ? to(["dead-letters"]) : to(["queues"]) },
  ];
  return h("nav", { key: "way", "aria-label": "From SQL Server to the topics" },
    h("ol", { class: "way" }, stops.map((stop) => h("li", { key: stop.name },
      h("a", { class: `stop stop-${stop.tone}`, href: stop.href }, icon(stop.tone), h("strong", {}, stop.name), h("span", {}, stop.text))))));
}

function figures(overview) {
  const headroom = overview.worst_headroom_seconds;
  const lag = overview.worst_lag_seconds;
  return h("div", { class: "figures", key: "figures" },
    figure("Oldest waiting change", duration(lag), { note: "lag of the slowest table", tone: lag > 60 ? "warn" : null, href: to(["tables"], { sort: "lag" }) }),
    figure("Least headroom", duration(headroom), { note: "until cleanup reaches an offset", tone: headroomTone(headroom, null) === "bad" ? "bad" : null, href: to(["tables"], { sort: "headroom" }) }),
    figure("Throughput", rate(overview.changes_per_second), { note: "changes sent in the last minute" }),
    figure("Changes waiting", count(overview.changes_waiting), { note: "captured and not sent" }),
    figure("In the queue", count(overview.queue?.active), { note: "messages that routers have to send", href: to(["queues"]) }),
    figure("Dead letters", count(overview.dead_letters), { note: "in the queue and all subscriptions", tone: overview.dead_letters ? "warn" : null, href: to(["dead-letters"]) }));
}

function charts(history) {
  return h("div", { class: "charts", key: "charts" },
    chart("Lag", history.lag_seconds, duration, { tone: "lag", steps: CLOCK }),
    chart("Throughput", history.changes_per_second, rate),
    history.queue_messages.length ? chart("Messages in the queue", history.queue_messages, count, { tone: "queue" }) : null);
}

function states(overview) {
  const present = WORST_FIRST.filter((state) => overview.states[state]);
  return h("div", { class: "two", key: "states" },
    section("Tables by state",
      h("ul", { class: "counts" }, present.map((state) => h("li", { key: state },
        h("a", { href: to(["tables"], { state }) }, stateTag(state), h("strong", {}, count(overview.states[state])),
          h("span", { class: "muted" }, STATES[state]?.means ?? ""))))),
      present.length ? null : notice("none", "No table is configured yet.")),
    section("Who reads them",
      overview.owners.length
        ? h("ul", { class: "counts" }, overview.owners.map((owner) => h("li", { key: owner.owner },
            h("span", { class: "mono grow" }, owner.owner), h("strong", {}, counted(owner.tables, "table")))))
        : h("p", { class: "empty" }, "No ingester has a table now.")));
}
