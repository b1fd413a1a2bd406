// Messages as rows and in full: the explorer and the dead letters show them alike. A body is text, laid out if it is JSON; it never runs.

import { h } from "../core/dom.js";
import { to } from "../core/places.js";
import { bytes, count, entityName, moment } from "../core/words.js";
import { copyButton, facts, heading, linkButton, notice, section, tag, when } from "./bits.js";
import { grid } from "./grid.js";

const UNREADABLE = new Set(["malformedmessage", "missingdestination"]);

/** Whether dead letters with this reason come back or cannot be read, whatever is corrected: a replay is not what they need. */
export function unsendable(reason) {
  return unreadable(reason) || (reason ?? "").toLowerCase() === "oversize";
}

/** Whether the router could not read them: a replay leaves those, unless it is asked for them. */
export function unreadable(reason) {
  return UNREADABLE.has((reason ?? "").toLowerCase());
}

/** `extra`: columns in front of the others. */
export function letters(caption, items, { extra = [], dead = false } = {}) {
  const columns = [
    ...extra,
    { name: "Sequence number", tight: true, cell: (message) => h("a", { class: "mono", href: address(message) }, message.sequence) },
    { name: "Enqueued", cell: (message) => when(message.enqueued_at, { short: dead }) },
    { name: "Table", cell: (message) => [h("span", { class: "short", title: message.table }, message.table ?? "–"), dead ? [" ", operation(message)] : null] },
    ...(dead ? [] : [{ name: "Operation", cell: operation }]),
    ...(dead ? [
      { name: "Reason", wide: true, cell: (message) => [h("strong", { class: "tight" }, message.reason ?? "none given"), message.description ? h("p", { class: "muted clip" }, message.description) : null,
        message.replays ? h("p", { class: "muted" }, message.replays === 1 ? "replayed once" : `replayed ${count(message.replays)} times`) : null] },
      { name: "Session, message id", less: "less", cell: ids },
    ] : [
      { name: "Session", cell: (message) => h("span", { class: "mono short", title: message.session_id }, message.session_id ?? "–") },
      { name: "Deliveries", number: true, cell: (message) => count(message.delivery_count) },
    ]),
    { name: "Size", number: true, less: "less", cell: (message) => bytes(message.size) },
  ];
  return grid(caption, columns, items, { key: (message) => message.sequence, head: extra.length });
}

function operation(message) {
  return [message.operation ? tag(message.operation, "plain") : "–", message.changes > 1 ? h("span", { class: "muted" }, ` ${count(message.changes)} changes`) : null];
}

function ids(message) {
  const line = (text) => h("span", { class: "mono short", title: text }, text ?? "–");
  return [line(message.session_id), h("br"), line(message.message_id)];
}

export function address(message) {
  return to(["messages", "one"], { entity: message.entity, dead: message.dead ? "1" : "", sequence: message.sequence });
}

/** JSON with its lines apart; anything else as it is. Numbers stay as they were written: nothing is parsed and written again. */
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let out = "";
  let depth = 0;
  let quoted = false;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (quoted) {
      out += sign;
      if (sign === "\\") out += text[(at += 1)] ?? "";
      else if (sign === '"') quoted = false;
    } else if (sign === '"') {
      quoted = true;
      out += sign;
    } else if (sign === "{" || sign === "[") {
      const ended = /^\s*[}\]]/.exec(text.slice(at + 1, at + 200));
      if (ended) {
        out += sign + ended[0].trim();
        at += ended[0].length;
      } else {
        depth += 1;
        out += sign + line();
      }
    } else if (sign === "}" || sign === "]") {
      depth -= 1;
      out += line() + sign;
    } else if (sign === ",") out += sign + line();
    else if (sign === ":") out += ": ";
    else if (!/\s/.test(sign)) out += sign;
  }
  return out;
}

/** One message in full. `orders`: what can be done with it. */
export function letter(message, orders = []) {
  const raw = message.body;
  const shown = raw === null ? null : pretty(raw);
  return [
    heading(`${message.dead ? "Dead letter" : "Message"} ${message.sequence}`, h("span", { class: "muted" }, `in ${entityName(message.entity)}`)),
    h("div", { class: "orders", key: "orders" }, orders,
      message.event_id ? linkButton("The way of this change", to(["story"], { event_id: message.event_id })) : null,
      message.table ? linkButton(`Open ${message.table}`, to(["tables", message.table])) : null),
    message.dead ? notice("warn", message.reason ?? "No reason was given", message.description, { remedy: message.remedy, key: "why" }) : null,
    message.fault ? notice("bad", "It is not what was sent", message.fault, { key: "fault" }) : null,
    h("div", { class: "two wide-first", key: "two" },
      section("Body",
        shown === null
          ? h("p", { class: "empty" }, message.size > message.body_limit
            ? `It has ${bytes(message.size)}; up to ${bytes(message.body_limit)} are shown.` : "It is not text.")
          : [h("p", { class: "body-head" }, h("span", { class: "muted" }, bytes(message.size)), copyButton(raw, "the body as it was sent")),
             h("pre", { class: "body", tabindex: "0", role: "region", "aria-label": "Body" }, shown)]),
      h("div", { class: "stack" },
        section("The message", facts([
          ["Table", message.table], ["Operation", message.operation], ["Changes", message.changes > 1 ? count(message.changes) : null],
          ["Committed", message.commit_time ? timed(message.commit_time) : null], ["Enqueued", when(message.enqueued_at)],
          ["Deliveries", count(message.delivery_count)], ["Replays", message.dead ? count(message.replays) : null],
          ["Goes to", message.destination], ["LSN", mono(message.lsn)], ["Event id", mono(message.event_id)],
          ["Message id", mono(message.message_id)], ["Session", mono(message.session_id)]])),
        section("Properties", facts(Object.entries(message.properties).map(([name, value]) => [name, mono(typeof value === "string" ? value : JSON.stringify(value))]))))),
  ];
}

function timed(text) {
  return moment(text) === null ? text : when(text);
}

function mono(text) {
  return text === null || text === undefined ? null : h("span", { class: "mono" }, String(text));
}
