// Replaying and purging: first what would happen (how many, which are left and why), then the order, then its progress and what came of it.

import { get, part, post } from "../core/api.js";
import { h } from "../core/dom.js";
import { go, to } from "../core/places.js";
import { count, counted, entityName } from "../core/words.js";
import { button, facts, notice, tag } from "../parts/bits.js";
import { endings, openDialog, reasonField, tick } from "../parts/dialog.js";
import { address, unreadable } from "../parts/letters.js";
import { tell } from "../parts/notes.js";

const WORDS = {
  replay: { does: "Replay", text: "Each is sent to where it was going, and removed here once it was accepted.", done: "replayed" },
  purge: { does: "Purge", text: "Each is removed for good. Its change is then nowhere in the bus: the table, or a snapshot, can send it again.", done: "purged" },
};
const EVERY = 700;

/** Replay or purge one message. */
export function askOne(kind, message, context) {
  return askMany(kind, message.entity, {}, [message.sequence], context, { after: to(["dead-letters", "list"], { entity: message.entity }), reasons: [message.reason] });
}

/** Replay or purge what the filter and the numbers choose. `after`: where to go once something was done. `reasons`: of those that are known. */
export function askMany(kind, entity, which, sequences, context, { after = null, reasons = [] } = {}) {
  const state = { kind, entity, which, sequences, reasons, safe: true, unreadable: false, reason: "", plan: null, operation: null };
  const words = WORDS[kind];
  const opened = openDialog(`${words.does} dead letters of ${entityName(entity)}`, (dialog) =>
    state.operation ? progress(state, dialog) : question(state, words, dialog));
  opened.then(() => (after && state.operation?.done ? go(after) : context.refresh()));
  return opened;
}

function order(state, dry) {
  const given = Object.fromEntries(Object.entries(state.which).filter(([, value]) => value));
  return { entity: state.entity, filter: given, sequences: state.sequences, dry_run: dry, safe: state.safe, unreadable: state.unreadable, reason: state.reason || null };
}

/** Whether some of them are what the router could not read: those that are known, or those that a plan leaves for that. */
function someUnreadable(state) {
  if (state.kind !== "replay" || state.entity !== "queue") return false;
  return state.unreadable || state.reasons.some(unreadable) || Boolean(state.plan?.left.some((left) => left.why.includes("--unreadable")));
}

function question(state, words, dialog) {
  const filters = Object.entries(state.which).filter(([, value]) => value).map(([name, value]) => `${name} ${value}`).join(", ");
  const which = state.sequences ? counted(state.sequences.length, "chosen dead letter") : filters ? `All with ${filters}` : "All of them";
  const plan = state.plan;
  const would = plan ? (state.kind === "purge" ? plan.matched : plan.replayed || Math.max(0, plan.matched - plan.left_count)) : 0;
  return [
    h("p", { key: "which" }, h("strong", {}, which), ". ", words.text),
    state.kind === "replay" ? tick("Keep the order", state.safe, (on) => {
      Object.assign(state, { safe: on, plan: null });
      dialog.redraw();
    }, { help: "A dead letter is left where a newer change of its row was sent, or may have been." }) : null,
    someUnreadable(state) ? tick("Send also what the router could not read", state.unreadable, (on) => {
      Object.assign(state, { unreadable: on, plan: null });
      dialog.redraw();
    }, { help: "It comes back, unless the router reads such messages now (--unreadable)." }) : null,
    !state.safe ? notice("warn", "Older values may overwrite newer ones", "A subscriber that applies changes as they come gets the old row after the new one.", { key: "unsafe" }) : null,
    plan ? planned(state.kind, plan, would, words) : null,
    reasonField(state),
    endings(dialog,
      button("See what would happen", () => dialog.run("Looking …", async () => {
        state.plan = await post("dead-letters/plan", order(state, true));
      }), { look: plan ? "" : "primary", focus: true }),
      plan ? button(`${words.does} ${count(would)}${plan.complete ? "" : " or more"}`, () => dialog.run("Beginning …", async () => {
        state.operation = await post(`dead-letters/${state.kind}`, order(state, false));
        follow(state, dialog);
      }), { look: state.kind === "purge" ? "danger" : "primary", why: would || !plan.complete ? "" : "There is nothing to do." }) : null),
  ];
}

/** A plan says what a replay would do; a purge leaves none of those that match. */
function planned(kind, plan, would, words) {
  const replays = kind === "replay";
  return h("div", { class: "outcome", key: "plan", role: "status" },
    h("h3", {}, "What would happen"),
    facts([["Match", count(plan.matched)], [`Would be ${words.done}`, count(would)], ["Would stay", replays ? count(plan.left_count) : null]]),
    plan.complete ? null : h("p", { class: "muted" }, "There are more than could be read in ten seconds."),
    replays ? [plan.warnings.map((text) => notice("warn", text)), leftOut(plan)] : null);
}

/** Those that stay, and why: nothing is left in silence. */
function leftOut(result) {
  if (!result.left.length) return null;
  return h("details", { open: result.left.length <= 5, class: "left" }, h("summary", {}, `${counted(result.left_count, "stays", "stay")} where ${result.left_count === 1 ? "it is" : "they are"}`),
    h("ul", {}, result.left.slice(0, 50).map((left) => h("li", { key: left.sequence },
      h("a", { class: "mono", href: address({ entity: result.entity, dead: true, sequence: left.sequence }) }, left.sequence), ": ", left.why))),
    result.left_count > 50 ? h("p", { class: "muted" }, "The first 50 are shown.") : null);
}

/** Ask how it goes until it has ended or the dialog is closed; the operation goes on without the dialog. */
async function follow(state, dialog) {
  let failures = 0;
  while (state.operation.state === "running" && failures < 10) {
    await new Promise((done) => setTimeout(done, EVERY));
    try {
      state.operation = await get(`operations/${part(state.operation.id)}`);
      failures = 0;
    } catch (error) {
      failures += 1;
      dialog.error = error;
    }
    if (!failures) dialog.error = null;
    dialog.redraw();
  }
  if (state.operation.state !== "running") tell(`The ${state.kind} is ${state.operation.state}.`);
}

function progress(state, dialog) {
  const { operation } = state;
  const running = operation.state === "running";
  return [
    outcome(operation),
    running ? h("progress", { key: "progress", class: "progress", "aria-label": "How far it is", max: Math.max(1, state.plan?.matched ?? 1), value: operation.examined }) : null,
    h("div", { class: "dialog-end", key: "end" },
      running ? button("Stop", () => dialog.run("Stopping …", async () => {
        state.operation = await post(`operations/${part(operation.id)}/stop`);
      })) : null,
      button(running ? "Leave it running" : "Done", dialog.close, { look: "primary", focus: true })),
  ];
}

/** An operation, in a few words and with what was left. */
export function outcome(operation) {
  const tone = { running: "info", done: "ok", failed: "bad", stopped: "warn" }[operation.state];
  const result = operation.result;
  return h("div", { class: "outcome", key: `operation ${operation.id}` },
    h("p", { class: "outcome-head" }, h("strong", {}, `${WORDS[operation.kind].does}`), tag(operation.state, tone),
      h("span", {}, `${count(operation.done)} of ${count(operation.examined)} ${WORDS[operation.kind].done}`)),
    operation.error ? notice("bad", operation.error, null, { remedy: operation.remedy }) : null,
    result ? [
      result.doubtful ? notice("warn", `${count(result.doubtful)} may have been sent twice`, "An earlier run was killed longer ago than duplicates are detected.") : null,
      result.warnings.map((text) => notice("warn", text)), leftOut(result)] : null);
}
