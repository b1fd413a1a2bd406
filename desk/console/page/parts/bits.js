// Small pieces that every view is made of: times, tags, figures, notices, empty places, copying. They show; they ask nothing of the console.

import { h } from "../core/dom.js";
import { ago, clock, count, duration, headroomText, moment, STATES } from "../core/words.js";
import { icon } from "./icons.js";
import { tell } from "./notes.js";

/** A time, relative and absolute; the relative part is kept right by `tick`. */
export function when(text, { short = false } = {}) {
  const at = typeof text === "number" ? text : moment(text);
  if (at === null) return h("span", { class: "muted" }, text || "–");
  const iso = new Date(at).toISOString();
  const relative = h("span", { "data-ago": at }, ago(at));
  return h("time", { class: "when", datetime: iso, title: iso.replace("T", " ").replace("Z", " UTC") },
    relative, short ? null : h("span", { class: "muted at" }, ` ${clock(at)}`));
}

/** Bring all relative times on the page up to date. */
export function tick() {
  for (const each of document.querySelectorAll("[data-ago]")) {
    const text = ago(Number(each.dataset.ago));
    if (each.textContent !== text) each.textContent = text;
  }
}

export function tag(text, tone = "none", title = null) {
  return h("span", { class: `tag tag-${tone}`, title }, tone === "plain" ? null : icon(tone), h("span", {}, text));
}

export function stateTag(state) {
  const known = STATES[state] ?? STATES.unknown;
  return tag(state, known.tone, known.means);
}

/** A figure with its name; `href` leads to what is behind it. */
export function figure(name, value, { note = null, tone = null, href = null } = {}) {
  const inside = [h("span", { class: "figure-name" }, name), h("span", { class: "figure-value" }, value),
    note ? h("span", { class: "figure-note" }, note) : null];
  const look = `figure${tone ? ` figure-${tone}` : ""}`;
  return href ? h("a", { class: look, href, key: name }, inside) : h("div", { class: look, key: name }, inside);
}

/** Names and values, as a list of definitions; pairs without a value are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, shown.map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))));
}

/** A sentence of the console, in which `...` is code; what is a whole command can be copied. */
export function prose(text) {
  return String(text ?? "").split(/`([^`]+)`/).map((part, at) => (at % 2 === 0 ? part
    : [h("code", {}, part), part.includes(" ") ? [" ", copyButton(part, "the command")] : null]));
}

/** Something that a reader must see. `urgent` is read out at once. */
export function notice(tone, title, text = null, { remedy = null, actions = [], urgent = false, key = null } = {}) {
  return h("div", { class: `notice notice-${tone}`, role: urgent ? "alert" : null, key: key ?? undefined },
    icon(tone),
    h("div", { class: "notice-body" },
      h("p", { class: "notice-title" }, prose(title)),
      text ? h("p", {}, prose(text)) : null,
      remedy ? h("p", { class: "remedy" }, h("strong", {}, "What to do: "), prose(remedy)) : null,
      actions.length ? h("p", { class: "actions" }, actions) : null));
}

/** What the console, or something behind it, refused. */
export function failure(error, { key = "failure" } = {}) {
  return notice("bad", error.message, null, { remedy: error.remedy, urgent: true, key });
}

/** What could not be read: everything else is right without it. Those with the same cause are one. */
export function unknowns(list) {
  if (!list?.length) return null;
  const causes = new Map();
  for (const each of list) {
    const same = causes.get(`${each.text} ${each.remedy}`);
    if (same) same.parts.push(each.what);
    else causes.set(`${each.text} ${each.remedy}`, { ...each, parts: [each.what] });
  }
  return h("div", { key: "unknowns", class: "stack" },
    [...causes.values()].map((each) => notice("none", `Not known: ${each.parts.join(", ")}`, each.text, { remedy: each.remedy })));
}

export function empty(text, more = null) {
  return h("p", { class: "empty" }, text, more ? [" ", more] : null);
}

export function heading(text, ...beside) {
  return h("div", { class: "heading", key: "heading" }, h("h1", { tabindex: "-1" }, text), beside.length ? h("div", { class: "beside" }, beside) : null);
}

export function section(title, ...inside) {
  return h("section", { class: "panel", key: title, "aria-label": title }, h("h2", {}, title), inside);
}

/** A button; with `why` it is disabled and says the reason to everybody, also to those who do not see it. */
export function button(text, act, { look = "", why = null, title = null, key = undefined, focus = undefined } = {}) {
  const refused = why !== null && why !== undefined && why !== "";
  const press = refused ? () => tell(why) : act;
  return h("button", { type: "button", class: `button ${look}`, key, "aria-disabled": refused ? "true" : null,
    title: refused ? why : title, "aria-description": refused ? why : null, "data-focus": focus, on: { click: press } }, text);
}

export function linkButton(text, href, look = "") {
  return h("a", { class: `button ${look}`, href }, text);
}

export function copyButton(text, what) {
  return button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      tell(`Copied ${what}.`);
    } catch {
      tell(`This browser does not let the page copy. Select ${what} and copy it yourself.`);
    }
  }, { look: "small", title: `Copy ${what}` });
}

/** A number with a bar beside it: `part` from 0 to 1. */
export function bar(part, text, tone = "ok", label = text) {
  const width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return h("span", { class: "bar-row" },
    h("span", { class: "bar", role: "img", "aria-label": label }, h("span", { class: `bar-fill bar-${tone}`, style: { width } })),
    h("span", { class: tone === "bad" ? "tone-bad" : null }, text));
}

/** Headroom against retention: how much of the time that the server keeps changes is left. A short time is never calm, whatever its share. */
export function headroomTone(seconds, retention) {
  if (seconds === null || seconds === undefined) return "none";
  const part = retention ? seconds / retention : 1;
  if (seconds <= 600 || part < 0.1) return "bad";
  return seconds < 3600 || part < 0.35 ? "warn" : "ok";
}

/** The bar of it. Once cleanup has passed, it is full and red: there is nothing left to show a share of. */
export function headroomBar(seconds, retention, { long = false } = {}) {
  const left = headroomText(seconds);
  const text = long && seconds > 0 ? `${left} of ${duration(retention)}` : left;
  const label = seconds > 0 ? `Headroom ${left} of ${duration(retention)} that the server keeps` : `Cleanup has passed the offset: ${left}`;
  return bar(seconds > 0 ? seconds / retention : 1, text, headroomTone(seconds, retention), label);
}

export function numberCell(value, text = count(value)) {
  return h("td", { class: "number" }, text);
}
