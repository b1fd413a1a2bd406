// Elements and how they change: `h` makes them, `patch` brings what is on the screen to what was made, in place.
//
// Everything that a server says enters as text or as an attribute that cannot run; there is no way here to give HTML as a string.
// `patch` keeps elements that are already right, so that focus, selection and scroll stay where the reader put them.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["key", "on", "style", "value", "checked", "kept"]);

/** An HTML element. `key`: who it is among its siblings; `on`: its listeners; `kept`: its children are its own affair. */
export function h(tag, props, ...children) {
  return dressed(document.createElement(tag), props, children);
}

/** An element of SVG. */
export function s(tag, props, ...children) {
  return dressed(document.createElementNS(SVG, tag), props, children);
}

function dressed(element, props, children) {
  const given = props ?? {};
  for (const [name, value] of Object.entries(given)) {
    if (!PROPERTIES.has(name) && value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  if (given.key !== undefined) element.dsKey = String(given.key);
  if (given.kept) element.dsKept = true;
  for (const [name, value] of Object.entries(given.style ?? {})) element.style.setProperty(name, value);
  listen(element, given.on ?? {});
  append(element, children);
  if (given.value !== undefined) element.dsValue = element.value = given.value ?? "";
  if (given.checked !== undefined) element.dsChecked = element.checked = Boolean(given.checked);
  return element;
}

function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.append(child);
    else if (child !== null && child !== undefined && child !== false) parent.append(document.createTextNode(String(child)));
  }
}

/** One listener a kind of event, which calls what the newest form of the element says. */
function listen(element, wanted) {
  const heard = (element.dsHeard ??= new Set());
  element.dsOn = wanted;
  for (const kind of Object.keys(wanted)) {
    if (heard.has(kind)) continue;
    heard.add(kind);
    element.addEventListener(kind, (event) => element.dsOn[kind]?.(event));
  }
}

/** Give `parent` these children, with as few changes as possible; what had the focus has it still. */
export function patch(parent, wanted) {
  const focused = document.activeElement;
  children(parent, flat(wanted));
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function flat(wanted) {
  const holder = document.createDocumentFragment();
  append(holder, [wanted]);
  return [...holder.childNodes];
}

function children(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.dsKey !== undefined) keyed.set(child.dsKey, child);
  let at = parent.firstChild;
  for (const want of wanted) {
    const have = want.dsKey === undefined ? at : keyed.get(want.dsKey);
    if (!have || !alike(have, want)) {
      parent.insertBefore(want, at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else parent.insertBefore(have, at);
    update(have, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function alike(have, want) {
  return have.nodeType === want.nodeType && have.nodeName === want.nodeName && have.dsKey === want.dsKey;
}

function update(have, want) {
  if (have.nodeType !== Node.ELEMENT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  const opens = have.nodeName === "DETAILS";
  for (const { name } of [...have.attributes]) {
    if (name !== "style" && !(opens && name === "open") && !want.hasAttribute(name)) have.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) {
    if (name !== "style" && !(opens && name === "open") && have.getAttribute(name) !== value) have.setAttribute(name, value);
  }
  if (have.style.cssText !== want.style.cssText) have.style.cssText = want.style.cssText;
  listen(have, want.dsOn ?? {});
  if (!have.dsKept) children(have, [...want.childNodes]);
  if (want.dsValue !== have.dsValue) have.dsValue = have.value = want.dsValue ?? "";
  if (want.dsChecked !== have.dsChecked) have.dsChecked = have.checked = Boolean(want.dsChecked);
}
