// Nodes as boxes that fill with pods, drawn on a canvas: one box for a node, one piece for a pod, its colour by workload.
//
// The level of a box is what pods ask for of the scarcer of cpu and memory. Only boxes that changed are drawn again.

import { Part, bytes, clock, cores, count, el, price, span } from "./parts.js";
import { swatch, workload } from "./store.js";

const SIZES = [ // boxes at most, width, height, gap, rows of pieces, whether there is room for words
  [40, 132, 84, 10, 6, true],
  [120, 92, 60, 8, 5, true],
  [360, 46, 34, 6, 4, false],
  [Infinity, 27, 22, 4, 3, false],
];
const HEADER = 26;
const LABEL = 17;
const STATES = [["starting", "gets its pods"], ["coming", "on its way"], ["marked", "not needed, may go"], ["going", "goes"], ["notready", "not Ready"]];

class Nodes extends Part {
  static tables = ["nodes", "requests", "classes", "pools", "highlight"];

  build() {
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map of nodes", "aria-label": "Nodes" });
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.legend = el("div", { class: "legend", role: "group", "aria-label": "Workloads and their colours" });
    this.toggle = el("button", { class: "toggle", type: "button", "aria-pressed": "false", onclick: () => this.flip() }, "As a table");
    this.map = el("div", { class: "map" }, this.canvas, this.tip);
    this.list = el("div", { class: "scroll", hidden: true, tabindex: "0", role: "region", "aria-label": "Nodes as a table" });
    const states = el("p", { class: "states" }, STATES.map(([name, words]) => el("span", { class: name }, el("i"), words)));
    this.append(el("div", { class: "bar" }, el("h2", { id: "nodes", tabindex: "-1" }, "Nodes and their pods"), this.legend, this.toggle), this.map, this.list, states);
    this.boxes = [];
    this.place = -1;
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.stand(Math.max(0, this.place)));
    this.canvas.addEventListener("blur", () => this.paintAll());
    new ResizeObserver(() => { if (this.store.isReady && this.map.clientWidth !== this.width) this.lay(); }).observe(this.map);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.lay());
  }

  draw(changed) {
    if (changed.has("classes") || changed.has("highlight") || changed.has("nodes")) this.drawLegend();
    const signature = this.signature();
    const some = this.store.changedNodes;
    if (signature !== this.signed || some === null || changed.has("highlight")) {
      this.signed = signature;
      this.lay();
    } else if (some) {
      for (const name of some) this.paintBox(this.byName.get(name), true);
    }
    if (!this.list.hidden) this.drawTable();
  }

  /** What the places of boxes depend on. */
  signature() {
    const nodes = [...this.store.table("nodes")].map(([name, row]) => `${name}@${row.pool}`).join();
    return `${nodes}|${this.coming().map(([name]) => name).join()}|${[...this.store.table("pools").keys()].join()}`;
  }

  /** Machines that were ordered and are no nodes yet. */
  coming() {
    const nodes = this.store.table("nodes");
    return [...this.store.table("requests")].filter(([, row]) => ["Pending", "Provisioning"].includes(row.phase) && !nodes.has(row.node));
  }

  // ------------------------------------------------------------------------------------------ places

  lay() {
    const groups = new Map([...this.store.table("pools").keys()].sort().map((name) => [name, []]));
    for (const [name, row] of this.store.table("nodes")) {
      if (!groups.has(row.pool)) groups.set(row.pool, []);
      groups.get(row.pool).push({ name, row });
    }
    for (const [name, row] of this.coming()) groups.get(row.pool)?.push({ name, request: row });
    this.width = this.map.clientWidth;
    const total = [...groups.values()].reduce((sum, group) => sum + group.length, 0);
    [, this.boxWidth, this.boxHeight, this.gap, this.rows, this.hasWords] = SIZES.find(([most]) => total <= most);
    const across = Math.max(1, Math.floor((this.width + this.gap) / (this.boxWidth + this.gap)));
    this.across = across;
    this.boxes = [];
    this.headers = [];
    let top = 0;
    for (const [pool, group] of groups) {
      if (!group.length && pool === "") continue;
      group.sort((one, other) => (one.name < other.name ? -1 : 1));
      this.headers.push({ pool, top, group });
      top += HEADER;
      group.forEach((box, index) => {
        box.x = (index % across) * (this.boxWidth + this.gap);
        box.y = top + Math.floor(index / across) * (this.boxHeight + this.gap);
        this.boxes.push(box);
      });
      top += Math.ceil(group.length / across) * (this.boxHeight + this.gap) + 6;
    }
    this.byName = new Map(this.boxes.map((box) => [box.name, box]));
    this.height = Math.max(60, top);
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.readColours();
    this.paintAll();
    const nodes = this.store.table("nodes").size;
    this.canvas.setAttribute("aria-label", `${count(nodes, "node")} in ${count(groups.size, "group")}. Arrow keys go from node to node, Enter explains.`);
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = Object.fromEntries([...Array(8).keys(), "other", "daemon"].map((name) => [name, read(`class-${name}`)]));
    for (const name of ["text", "muted", "line", "line-strong", "inset", "panel", "accent", "warn", "bad", "warn-soft", "bad-soft", "accent-soft"]) this.colours[name] = read(name);
    this.font = getComputedStyle(document.documentElement).fontFamily;
  }

  // ---------------------------------------------------------------------------------------- painting

  paintAll() {
    if (!this.pen) return;
    this.pen.clearRect(0, 0, this.width, this.height);
    for (const header of this.headers) this.paintHeader(header);
    for (const box of this.boxes) this.paintBox(box, false);
  }

  paintHeader({ pool, top, group }) {
    const pen = this.pen;
    const nodes = group.filter((box) => box.row);
    const cost = nodes.reduce((sum, box) => sum + box.row.price, 0);
    const coming = group.length - nodes.length;
    const words = pool ? `${count(nodes.length, "node")}${coming ? `, ${coming} on the way` : ""} · ${price(cost)} per hour` : `${count(nodes.length, "node")}, not growth's: never touched`;
    pen.textBaseline = "middle";
    pen.font = `600 13px ${this.font}`;
    pen.fillStyle = this.colours.text;
    const title = pool || "Others";
    pen.fillText(title, 0, top + 11);
    const offset = pen.measureText(title).width + 10;
    pen.font = `12.5px ${this.font}`;
    pen.fillStyle = this.colours.muted;
    pen.fillText(words, offset, top + 11, Math.max(40, this.width - offset));
  }

  paintBox(box, isFresh) {
    if (!box || !this.pen) return;
    if (box.row) box.row = this.store.table("nodes").get(box.name) ?? box.row;
    const { pen, boxWidth: width, boxHeight: height } = this;
    const { x, y } = box;
    const state = box.request ? "coming" : box.row.state;
    const dim = this.isDim(box);
    pen.clearRect(x - 3, y - 3, width + 6, height + 6);
    pen.globalAlpha = dim ? 0.25 : 1;
    pen.fillStyle = { marked: this.colours["warn-soft"], notReady: this.colours["bad-soft"], coming: this.colours.panel }[state] ?? this.colours.inset;
    rounded(pen, x, y, width, height, this.hasWords ? 6 : 3);
    pen.fill();
    if (box.row) this.paintPods(box, dim);
    pen.lineWidth = state === "ready" ? 1 : 1.5;
    pen.strokeStyle = { marked: this.colours.warn, going: this.colours.bad, notReady: this.colours.bad, starting: this.colours.accent, coming: this.colours["line-strong"] }[state] ?? this.colours.line;
    pen.setLineDash(state === "marked" || state === "coming" ? [4, 3] : []);
    rounded(pen, x + 0.5, y + 0.5, width - 1, height - 1, this.hasWords ? 6 : 3);
    pen.stroke();
    pen.setLineDash([]);
    if (this.hasWords) this.paintWords(box, state);
    pen.globalAlpha = 1;
    const isHere = this.boxes[this.place] === box && document.activeElement === this.canvas;
    if (isHere || (isFresh && this.hasWords)) this.paintRing(box, isHere);
  }

  paintRing(box, isHere) {
    const { pen } = this;
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = isHere ? 2 : 1.5;
    rounded(pen, box.x - 1.5, box.y - 1.5, this.boxWidth + 3, this.boxHeight + 3, 7);
    pen.stroke();
    if (!isHere) {
      clearTimeout(box.timer);
      box.timer = setTimeout(() => this.paintBox(this.byName.get(box.name), false), 700);
    }
  }

  paintWords(box, state) {
    const { pen, boxWidth: width } = this;
    pen.textBaseline = "middle";
    pen.font = `11px ${this.font}`;
    pen.fillStyle = this.colours.muted;
    const row = box.row ?? box.request;
    const kind = (row.offering || box.name).replace(/^[a-z]+-/, "");
    const wide = width > 100;
    pen.fillText(kind, box.x + 7, box.y + LABEL / 2 + 1, wide ? width * 0.5 : width - 12);
    if (wide) {
      pen.textAlign = "right";
      pen.fillText(box.request ? box.request.phase : row.zone || "", box.x + width - 7, box.y + LABEL / 2 + 1, width * 0.45);
      pen.textAlign = "left";
    }
    if (state === "coming") {
      pen.fillText(box.request.pods ? `for ${count(box.request.pods, "pod")}` : box.request.reason, box.x + 7, box.y + LABEL + 12, width - 14);
    }
  }

  /** The pieces of all pods, from the bottom row up; each has its place for the pointer. */
  paintPods(box, dim) {
    const { pen } = this;
    const inset = this.hasWords ? 5 : 2;
    const top = box.y + (this.hasWords ? LABEL + 2 : inset);
    const [left, length] = [box.x + inset, this.boxWidth - 2 * inset];
    const rowHeight = (box.y + this.boxHeight - inset - top) / this.rows;
    const total = length * this.rows;
    const fade = box.row.state === "going" ? 0.5 : 1;
    let at = 0;
    box.pieces = [];
    for (const piece of this.piecesOf(box.row)) {
      let rest = Math.min(total - at, piece.share * total);
      if (rest <= 0) break;
      const isLoud = !this.store.chosen || piece.workload === this.store.chosen;
      pen.globalAlpha = (dim ? 0.25 : isLoud ? 1 : 0.18) * fade * [1, 0.45, 0.3][piece.stage];
      pen.fillStyle = this.colours[piece.colour];
      while (rest > 0.01) {
        const line = Math.floor(at / length + 1e-9);
        const start = at - line * length;
        const part = Math.min(rest, length - start);
        const y = top + (this.rows - 1 - line) * rowHeight;
        pen.fillRect(left + start, y, Math.max(0.6, part - (this.hasWords ? 1 : 0.5)), rowHeight - 1);
        box.pieces.push([left + start, y, part, rowHeight, piece]);
        at += part;
        rest -= part;
      }
    }
    pen.globalAlpha = dim ? 0.25 : 1;
  }

  piecesOf(row) {
    const byCpu = row.usedCpu / (row.cpu || 1) >= row.usedMemory / (row.memory || 1);
    const found = [];
    for (const [name, stages] of Object.entries(row.pods)) {
      const kind = this.store.table("classes").get(name);
      const share = kind ? (byCpu ? kind.cpu / (row.cpu || 1) : kind.memory / (row.memory || 1)) : 0;
      const colour = this.store.colourOf(name);
      stages.forEach((pods, stage) => pods.forEach((pod) => found.push({ pod, share: Math.max(share, 0.006), colour, stage, kind, workload: kind ? workload(kind) : "" })));
    }
    return found.sort((one, other) => (other.colour === "daemon") - (one.colour === "daemon"));
  }

  isDim(box) {
    const { query, chosen } = this.store;
    if (chosen && box.row && !Object.keys(box.row.pods).some((name) => workload(this.store.table("classes").get(name) ?? {}) === chosen)) return true;
    if (!query) return false;
    const row = box.row ?? box.request;
    const names = [box.name, row.pool, row.offering, ...(box.row ? Object.entries(box.row.pods).flatMap(([name, stages]) => [name, ...stages.flat()]) : [])];
    return !names.some((name) => (name ?? "").toLowerCase().includes(query));
  }

  // ------------------------------------------------------------------------------- pointer, keyboard

  boxAt(event) {
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const box = this.boxes.find((each) => x >= each.x && x <= each.x + this.boxWidth && y >= each.y && y <= each.y + this.boxHeight);
    const piece = box?.pieces?.find(([left, top, width, height]) => x >= left && x <= left + width && y >= top && y <= top + height)?.[4];
    return { box, piece: this.hasWords ? piece : undefined, x, y };
  }

  click(event) {
    const { box, piece } = this.boxAt(event);
    if (!box) return;
    this.place = this.boxes.indexOf(box);
    if (piece?.kind) this.explain("Pod", `${piece.kind.namespace}/${piece.pod}`);
    else this.explain(box.request ? "NodeRequest" : "Node", box.name);
  }

  hover(event) {
    const { box, piece, x, y } = this.boxAt(event);
    this.canvas.style.cursor = box ? "pointer" : "default";
    this.tip.hidden = !box;
    if (!box) return;
    this.tip.textContent = piece ? `${piece.pod}\n${piece.kind?.requests ?? ""}${piece.stage === 1 ? "\nstarts" : piece.stage === 2 ? "\nis going" : ""}` : this.words(box);
    const right = x > this.width - 240;
    this.tip.style.left = right ? "auto" : `${x + 14}px`;
    this.tip.style.right = right ? `${this.width - x + 14}px` : "auto";
    this.tip.style.top = `${y + 14}px`;
  }

  words(box) {
    if (box.request) return `${box.name}\nordered ${clock(box.request.since)}: ${box.request.offering} ${box.request.location}, ${box.request.phase}`;
    const row = box.row;
    const pods = Object.values(row.pods).flat(2).length;
    const used = `${count(pods, "pod")}, cpu ${cores(row.usedCpu)} of ${cores(row.cpu)}, memory ${bytes(row.usedMemory)} of ${bytes(row.memory)}`;
    const due = row.due ? `, due in ${span(row.due - this.store.at)}` : "";
    return `${box.name}\n${row.offering} ${row.zone}, ${price(row.price)} per hour\n${used}${row.why ? `\n${row.why}${due}` : ""}`;
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      this.stand(Math.max(0, Math.min(this.boxes.length - 1, this.place + step)));
    } else if (["Enter", " "].includes(event.key) && this.boxes[this.place]) {
      event.preventDefault();
      const box = this.boxes[this.place];
      this.explain(box.request ? "NodeRequest" : "Node", box.name);
    }
  }

  stand(place) {
    const old = this.boxes[this.place];
    this.place = place;
    this.paintBox(old, false);
    const box = this.boxes[place];
    if (!box) return;
    this.paintBox(box, false);
    document.getElementById("live").textContent = this.words(box).replaceAll("\n", ", ");
  }

  // ---------------------------------------------------------------------------------- legend, table

  drawLegend() {
    const counts = new Map();
    for (const row of this.store.table("nodes").values()) {
      for (const [name, stages] of Object.entries(row.pods)) counts.set(name, (counts.get(name) ?? 0) + stages.flat().length);
    }
    const sums = new Map();
    for (const [name, row] of this.store.table("classes")) {
      const key = row.daemon ? "daemon" : workload(row);
      const sum = sums.get(key) ?? { pods: 0, colour: this.store.colourOf(name), row };
      sum.pods += counts.get(name) ?? 0;
      sums.set(key, sum);
    }
    const known = [...sums].filter(([, sum]) => sum.colour !== "other").sort((one, other) => String(one[1].colour).localeCompare(String(other[1].colour)));
    const others = [...sums].filter(([, sum]) => sum.colour === "other");
    const signature = JSON.stringify([known.map(([name, sum]) => [name, sum.pods]), others.length, this.store.chosen]);
    if (signature === this.legendSigned) return;
    this.legendSigned = signature;
    const focused = document.activeElement?.dataset?.workload;
    const shared = new Set(known.map(([, sum]) => sum.row.workload)).size < known.length;
    this.legend.replaceChildren(
      ...known.map(([name, sum]) => {
        const words = sum.colour === "daemon" ? "on every node" : shared && sum.row.namespace !== "default" ? name : sum.row.workload;
        return el("button", { type: "button", "aria-pressed": String(this.store.chosen === name), "data-workload": name, onclick: () => this.store.choose(name) }, el("span", { class: swatch(sum.colour) }), words, el("span", { class: "muted" }, String(sum.pods)));
      }),
      ...(others.length ? [el("button", { type: "button", disabled: true }, el("span", { class: "swatch" }), `${others.length} more`)] : []),
    );
    if (focused) this.legend.querySelector(`[data-workload="${CSS.escape(focused)}"]`)?.focus();
  }

  flip() {
    this.list.hidden = !this.list.hidden;
    this.map.hidden = !this.list.hidden;
    this.toggle.setAttribute("aria-pressed", String(!this.list.hidden));
    if (!this.list.hidden) this.drawTable();
    else this.lay();
  }

  drawTable() {
    const rows = [...this.store.table("nodes")].filter(([name, row]) => !this.isDim({ name, row })).sort((one, other) => (one[0] < other[0] ? -1 : 1));
    const cell = (text, numeric) => el("td", numeric ? { class: "num" } : {}, text);
    this.list.replaceChildren(
      el("table", {},
        el("caption", { class: "offstage" }, "Nodes"),
        el("thead", {}, el("tr", {}, ["Node", "Pool", "Offering", "State"].map((name) => el("th", { scope: "col" }, name)), ["Pods", "cpu", "memory", "per hour"].map((name) => el("th", { scope: "col", class: "num" }, name)))),
        el("tbody", {}, rows.slice(0, 300).map(([name, row]) => el("tr", {},
          el("td", {}, el("button", { class: "link", type: "button", onclick: () => this.explain("Node", name) }, name)),
          cell(row.pool || "–"), cell(row.offering || "–"), cell(row.why || "ready"),
          cell(String(Object.values(row.pods).flat(2).length), true), cell(`${Math.round((100 * row.usedCpu) / (row.cpu || 1))} %`, true),
          cell(`${Math.round((100 * row.usedMemory) / (row.memory || 1))} %`, true), cell(price(row.price), true))))),
      ...(rows.length > 300 ? [el("p", { class: "empty" }, `${rows.length - 300} more: search narrows the list`)] : []),
    );
  }
}

function rounded(pen, x, y, width, height, radius) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
}

customElements.define("growth-nodes", Nodes);
