// What the page knows without asking: the overview, all tables and the operations, as events bring them; read once where there are no events yet.
//
// Views that show only this are drawn again with each event and cost the console nothing.

import { get } from "./api.js";

/** Null: not read yet. `tables`: by name, in the order of the configuration. */
export const known = { overview: null, tables: null, operations: null };

const PAGE = 1000;

/** Take what an event says in. */
export function take(kind, said) {
  if (kind === "overview") known.overview = said;
  if (kind === "operations") known.operations = said.items;
  if (kind === "tables") takeTables(said);
}

function takeTables({ complete, items, gone }) {
  if (!complete && known.tables === null) return; // what is new of a list that was never read
  if (complete) known.tables = new Map();
  for (const name of gone) known.tables.delete(name);
  for (const table of items) known.tables.set(table.table, table);
}

/** Before the first event, and when something was changed here. */
export async function readOverview() {
  known.overview = await get("overview");
}

/** All tables: the stream brings them as it begins; they are asked for only where it does not. */
export async function readTables() {
  for (let tries = 0; tries < 15 && known.tables === null; tries += 1) await new Promise((done) => setTimeout(done, 100));
  if (known.tables === null) await askForTables();
}

async function askForTables() {
  const found = new Map();
  let after = null;
  do {
    const page = await get("tables", { most: PAGE, after });
    for (const table of page.items) found.set(table.table, table);
    after = page.next;
  } while (after);
  known.tables = found;
}
