// Addresses: the part behind `#` says which view is open and with which filters, so that an address can be shared and Back works.

/** `#/tables/dbo.Persons?sort=lag` as `{ path: ["tables", "dbo.Persons"], query: URLSearchParams }`. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a view; what is empty in `query` is left out. */
export function to(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined && value !== false) search.set(name, String(value));
  }
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Go there; `replace`: without a step for Back, as while a person types into a filter. */
export function go(address, { replace = false } = {}) {
  if (address === location.hash) return;
  if (replace) {
    history.replaceState(null, "", address);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}
