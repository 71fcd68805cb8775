// Small things every part of the page uses: elements, numbers and times in words, and the base of all parts.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  fill(made, attributes, children);
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(made, attributes, children);
  return made;
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
}

export const count = (number, noun) => `${number.toLocaleString("en")} ${number === 1 ? noun : `${noun}s`}`;
export const price = (amount) => (amount >= 100 ? amount.toFixed(0) : amount >= 1 ? amount.toFixed(2) : amount.toFixed(4));

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole < 600 && whole % 60 ? ` ${whole % 60} s` : ""}`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} days`;
}

export const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);
export const cores = (milli) => (milli % 1000 ? `${milli}m` : `${milli / 1000}`);
export const bytes = (mebi) => (mebi >= 1024 ? `${+(mebi / 1024).toFixed(1)} Gi` : `${mebi} Mi`);
export const short = (name) => (name.length > 26 ? `…${name.slice(-25)}` : name);

/** A part of the page. `tables` names what it shows; `draw` is called when one of those has changed. */
export class Part extends HTMLElement {
  static tables = [];

  connectedCallback() {
    this.store = Part.store;
    this.build?.();
    this.store.addEventListener("change", (event) => {
      if (this.constructor.tables.some((table) => event.detail.has(table))) this.draw(event.detail);
    });
    if (this.store.isReady) this.draw(new Set(this.constructor.tables));
  }

  /** Open the explanation of an object; the address of the page then leads to it. */
  explain(kind, name) {
    location.hash = link(kind, name);
  }
}

export const link = (kind, name) => `#/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;

/** Put these children there, but leave the old ones if they say the same: focus and scroll stay. */
export function replaceRows(list, rows) {
  const old = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const wanted = rows.map(({ key, mark, make }) => {
    const known = old.get(key);
    if (known && known.dataset.mark === mark) return known;
    const made = make();
    made.dataset.key = key;
    made.dataset.mark = mark;
    return made;
  });
  const focused = document.activeElement?.closest?.("[data-key]")?.dataset.key;
  let place = list.firstElementChild;
  for (const child of wanted) {
    if (child === place) place = place.nextElementSibling;
    else list.insertBefore(child, place);
  }
  const keep = new Set(wanted);
  for (const child of [...list.children]) if (!keep.has(child)) child.remove();
  if (focused && !list.contains(document.activeElement)) {
    const again = wanted.find((child) => child.dataset.key === focused);
    if (again && old.has(focused)) again.querySelector("button")?.focus({ preventScroll: true });
  }
}
