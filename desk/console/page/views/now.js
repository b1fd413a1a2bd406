// The first view: is anything wrong? If so what, why, since when, what to do and where; if not, a calm sentence and the few figures.

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { known } from "../core/known.js";
import { to } from "../core/places.js";
import { count, counted, duration, entityName, headroomText, moment, rate, share, STATES, WORST_FIRST } from "../core/words.js";
import { figure, headroomTone, linkButton, notice, prose, section, stateTag, unknowns, when } from "../parts/bits.js";
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
    unknowns(overview.unknown.filter((each) => !troubles.some((trouble) => trouble.cause === each.text))),
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
    ? `${counted(overview.tables, "table")}; the oldest change not sent is ${duration(overview.worst_lag_seconds)} old.`
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
      h("p", { class: "cause" }, prose(trouble.cause)),
      trouble.remedy ? h("p", { class: "remedy" }, h("strong", {}, "What to do: "), prose(trouble.remedy)) : null,
      h("p", { class: "trouble-foot" }, h("span", { class: "actions" }, ways(trouble)),
        trouble.since ? h("span", { class: "muted" }, "since ", when(trouble.since)) : null,
        trouble.alert ? h("span", { class: "muted" }, alertWords(trouble)) : null)));
}

/** An alert that waits longer than this has lasted is one that fires later. */
function alertWords({ alert, alert_after_seconds: after, since }) {
  const lasted = since ? (Date.now() - moment(since)) / 1000 : 0;
  return after > lasted ? `alert ${alert} after ${duration(after)}` : `alert ${alert}`;
}

/** The buttons that lead to where it can be fixed. */
function ways(trouble) {
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
  const dead = overview.dead_letters === null ? null : overview.dead_letters - (queue?.dead_letters ?? 0);
  const waiting = overview.changes_waiting;
  const lying = queue ? [counted(queue.active, "message"), queue.dead_letters ? counted(queue.dead_letters, "dead letter") : null,
    queue.used_share >= 0.1 ? `${share(queue.used_share)} full` : null].filter(Boolean).join(", ") : "not known";
  const stops = [
    { name: "SQL Server", text: waiting === null ? "not known" : `${counted(waiting, "change")} ${waiting === 1 ? "waits" : "wait"}`, tone: waiting === null ? "none" : "ok", href: to(["tables"]) },
    stage("Ingesters", of("ingester")),
    { name: "Queue", text: lying, tone: !queue ? "none" : queue.used_share > 0.8 ? "bad" : "ok", href: to(["queues"]) },
    stage("Routers", of("router")),
    { name: "Topics", text: dead === null ? "not known" : dead ? counted(dead, "dead letter") : "no dead letters",
      tone: dead === null ? "none" : dead ? "warn" : "ok", href: dead ? to(["dead-letters"]) : to(["queues"]) },
  ];
  for (const trouble of overview.troubles) {
    const at = stops.find((stop) => stop.name === stopOf(trouble));
    if (at && at.tone !== "bad") at.tone = trouble.severity === "critical" ? "bad" : "warn";
  }
  return h("nav", { key: "way", "aria-label": "From SQL Server to the topics" },
    h("ol", { class: "way" }, stops.map((stop) => h("li", { key: stop.name },
      h("a", { class: `stop stop-${stop.tone}`, href: stop.href }, icon(stop.tone), h("strong", {}, stop.name), h("span", {}, stop.text))))));
}

const ALERTS = [
  ["SQL Server", /SqlServer|Capture|Headroom|ChangesLost|Absent/], ["Routers", /Router|Sessions/], ["Topics", /Topic|Output/],
  ["Queue", /Queue|DeadLetters/], ["Ingesters", /Ingester|Table|Lag/],
];

/** Where on the way a trouble is: it is not calm there. */
function stopOf({ entity, alert, what, table }) {
  if (entity) return entity === "queue" ? "Queue" : "Topics";
  const named = ALERTS.find(([, pattern]) => pattern.test(alert ?? ""));
  if (named) return named[0];
  if (/router/i.test(what)) return "Routers";
  return table || /ingester/i.test(what) ? "Ingesters" : "SQL Server";
}

function figures(overview) {
  const headroom = overview.worst_headroom_seconds;
  const lag = overview.worst_lag_seconds;
  return h("div", { class: "figures", key: "figures" },
    figure("Oldest change not sent", duration(lag), { note: "lag of the slowest table, without the queue", tone: lag > 60 ? "warn" : null, href: to(["tables"], { sort: "lag" }) }),
    figure("Least headroom", headroomText(headroom), { note: headroom > 0 || headroom === null ? "until cleanup reaches an offset" : "cleanup is past an offset: changes may be lost", tone: headroomTone(headroom, null), href: to(["tables"], { sort: "headroom" }) }),
    figure("Throughput", rate(overview.changes_per_second), { note: "changes sent in the last minute" }));
}

function charts(history) {
  return h("div", { class: "charts", key: "charts" },
    chart("Lag", history.lag_seconds, duration, { tone: "lag", steps: CLOCK, brief: true }),
    chart("Throughput", history.changes_per_second, rate, { brief: true }),
    history.queue_messages.length ? chart("Messages in the queue", history.queue_messages, count, { tone: "queue", brief: true }) : null);
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
        : h("p", { class: "empty" }, overview.unknown.some((each) => /^(owners|tables|sql server)/i.test(each.what))
          ? "It could not be read which ingester has which table." : "No ingester has a table now.")));
}
