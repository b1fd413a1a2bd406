// What is around every view: the line on top (where we are, whether it is live, search, light or dark), the list of views, the connection.

import { session, signOut } from "./api.js";
import { h, patch } from "./dom.js";
import { known } from "./known.js";
import { again, live } from "./live.js";
import { go, here, to } from "./places.js";
import { clock, count, duration } from "./words.js";
import { button, notice } from "../parts/bits.js";
import { icon } from "../parts/icons.js";
import { tell } from "../parts/notes.js";
import { showKeys } from "./keys.js";

const VIEWS = [
  ["", "Now"], ["tables", "Tables"], ["queues", "Queue and topics"], ["dead-letters", "Dead letters"], ["messages", "Messages"],
  ["story", "Where is a change?"], ["processes", "Processes"], ["configuration", "Configuration"], ["audit", "Audit log"],
];
let open = false;

/** Draw it again; cheap, and only what differs is touched. */
export function shell() {
  patch(document.getElementById("top"), top());
  patch(document.getElementById("side"), session.who === null ? [] : side());
  patch(document.getElementById("connection"), connection());
  document.body.classList.toggle("menu-open", open);
}

function top() {
  const { overview } = known;
  const signedIn = session.who !== null;
  return [
    signedIn ? h("button", { type: "button", class: "button quiet menu", key: "menu", "aria-expanded": String(open), "aria-controls": "side", "aria-label": "Views",
      on: { click: () => { open = !open; shell(); } } }, icon("menu", "plain")) : null,
    h("a", { class: "brand", href: "#/", key: "brand" }, "DStream"),
    h("span", { class: "place muted", key: "place" }, overview ? serverName(overview) : ""),
    signedIn ? h("form", { class: "find", key: "find", role: "search", on: { submit: find } },
      h("label", { class: "unseen", for: "find" }, "Find a table"),
      h("input", { id: "find", name: "q", type: "search", class: "search", placeholder: "Find a table  /", autocomplete: "off" })) : null,
    signedIn ? h("span", { class: `live live-${live.since === null ? "on" : "off"}`, key: "live" }, live.since === null ? "live" : `not live since ${clock(live.since)}`) : null,
    signedIn && !session.changes_allowed ? h("span", { class: "tag tag-none only-reads", key: "only", title: "It was started without --allow-changes." }, "read-only") : null,
    h("button", { type: "button", class: "button quiet", key: "theme", title: "Light, dark, or as the machine (auto)", "aria-label": `Theme: ${window.dstreamTheme.chosen()}`,
      on: { click: () => { window.dstreamTheme.next(); shell(); } } }, icon("theme", "plain"), h("span", { class: "wide-only" }, `Theme: ${window.dstreamTheme.chosen()}`)),
    signedIn ? h("button", { type: "button", class: "button quiet wide-only", key: "keys", title: "Keys", "aria-label": "Keys", on: { click: showKeys } }, "?") : null,
  ];
}

/** Server and database; a phone leaves out the server's domain, so that the database is seen. */
function serverName({ server, database }) {
  const dot = /^[\d.]+$/.test(server) ? -1 : server.indexOf(".");
  const host = dot < 0 ? server.length : dot;
  return h("span", { title: `${server} / ${database}` }, server.slice(0, host), h("span", { class: "wide-only" }, server.slice(host)), ` / ${database}`);
}

function find(event) {
  event.preventDefault();
  const input = event.target.elements.q;
  go(to(["tables"], { q: input.value.trim() }));
  input.value = "";
}

function side() {
  const [first = ""] = here().path;
  const troubles = known.overview?.troubles ?? [];
  const worst = troubles.some((trouble) => trouble.severity === "critical") ? "bad" : "warn";
  const badge = (path) => {
    if (path === "" && troubles.length) return h("span", { class: `badge badge-${worst}` }, troubles.length, h("span", { class: "unseen" }, " things need you"));
    if (path === "dead-letters" && known.overview?.dead_letters) return h("span", { class: "badge badge-warn" }, count(known.overview.dead_letters));
    return null;
  };
  return [
    h("ul", { key: "views" }, VIEWS.map(([path, name]) => h("li", { key: name },
      h("a", { href: to(path ? [path] : []), "aria-current": first === path ? "page" : null, on: { click: () => { open = false; } } }, name, badge(path))))),
    h("p", { class: "who muted", key: "who" }, session.who, h("br"), session.version ? `DStream ${session.version}` : "",
      session.access === "token" ? h("button", { type: "button", class: "button small", on: { click: () => signOut().catch((error) => tell(error.message)) } }, "Sign out") : null),
  ];
}

function connection() {
  if (session.who === null || live.since === null) return [];
  const left = live.retryAt ? Math.max(0, Math.round((live.retryAt - Date.now()) / 1000)) : null;
  return notice("warn", `Not live since ${clock(live.since)}`, `The console cannot be reached. This is what was seen then.${left ? ` It is tried again in ${duration(left)}.` : ""}`,
    { key: "lost", actions: [button("Try now", again, { look: "small" })] });
}
