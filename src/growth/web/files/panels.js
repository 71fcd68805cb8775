// The lists beside the nodes: figures, status, what waits, pools, buffers and warm pools, machines in and out, decisions.

import { Part, clock, count, el, price, replaceRows, short, span, svg } from "./parts.js";
import { swatch } from "./store.js";

class Status extends Part {
  static tables = ["cluster", "connection"];

  draw() {
    const { connection, cluster } = this.store;
    const words = { connecting: ["warn", "connecting"], live: ["good", "live"], lost: ["bad", "connection lost, trying again"], token: ["warn", "a token is needed"], forbidden: ["bad", "this token may not see the page"] }[connection];
    const chips = [[`${words[0]} pulse`, words[1]]];
    if (cluster && !cluster.stage) chips.push(cluster.leads ? ["good", "leads"] : ["", "another growth leads"]);
    if (cluster?.observes) chips.push(["warn", "only observes"]);
    if (cluster?.paused) chips.push(["warn", "paused"]);
    this.replaceChildren(...chips.map(([kind, text]) => el("span", { class: `chip ${kind}` }, text)));
    this.askForToken(connection);
  }

  askForToken(connection) {
    const main = document.querySelector("main");
    main.querySelector(".token")?.remove();
    if (connection !== "token" && connection !== "forbidden") return;
    const field = el("input", { class: "field", type: "password", autocomplete: "off", "aria-label": "Token of the cluster", placeholder: "A token: kubectl create token ACCOUNT" });
    const send = () => field.value.trim() && this.store.signIn(field.value.trim());
    field.addEventListener("keydown", (event) => event.key === "Enter" && send());
    main.prepend(el("div", { class: "token panel" }, field, el("button", { type: "button", onclick: send }, "Show")));
    field.focus();
  }
}

class Figures extends Part {
  static tables = ["cluster", "requests", "removals"];

  draw() {
    const row = this.store.cluster;
    if (!row) return;
    const lives = [...this.store.table("requests").values()].filter((each) => ["Pending", "Provisioning"].includes(each.phase)).length;
    const going = this.store.table("removals").size;
    const over = row.bound ? Math.max(0, (100 * (row.pricePerHour - row.bound)) / row.bound) : null;
    const least = row.bound === null ? "the least it could be is not known yet" : row.bound ? `at least ${price(row.bound)} is needed (${over.toFixed(0)} % above it)` : "no pods, so nothing is needed";
    const figures = [
      ["Cost per hour", price(row.pricePerHour), least],
      ["Nodes", row.nodes.toLocaleString("en"), [lives ? `${lives} on the way` : "", going ? `${going} going` : "", `${row.ready} Ready`].filter(Boolean).join(", ")],
      ["Pods on nodes", row.pods.toLocaleString("en"), row.nodes ? `${(row.pods / row.nodes).toFixed(1)} on a node` : "no nodes yet"],
      ["Waiting pods", row.waiting.toLocaleString("en"), row.waiting ? "each with its reason below" : "everybody has a place"],
    ];
    const signature = JSON.stringify(figures);
    if (signature === this.signed) return;
    this.signed = signature;
    this.replaceChildren(...figures.map(([name, value, more]) => el("div", { class: "figure" }, el("h2", {}, name), el("strong", {}, value), el("small", {}, more))));
  }
}

class Waiting extends Part {
  static tables = ["waiting", "classes", "cluster"];

  build() {
    this.list = el("ul", { class: "rows" });
    this.empty = el("p", { class: "empty" }, "Every pod has a place.");
    this.append(this.list, this.empty);
  }

  draw() {
    const groups = new Map();
    for (const [name, row] of this.store.table("waiting")) {
      const key = `${row.class}|${row.reason}|${row.message}`;
      const group = groups.get(key) ?? { name, row, pods: 0, since: row.since };
      group.pods += 1;
      group.since = Math.min(group.since, row.since);
      groups.set(key, group);
    }
    this.empty.hidden = groups.size > 0;
    const now = this.store.at;
    replaceRows(this.list, [...groups].sort((one, other) => other[1].row.warning - one[1].row.warning || other[1].pods - one[1].pods).slice(0, 60).map(([key, group]) => ({
      key,
      mark: JSON.stringify([group.pods, Math.round((now - group.since) / 10), this.store.colourOf(group.row.class), group.name]),
      make: () => this.item(group, now),
    })));
  }

  item({ name, row, pods, since }, now) {
    const kind = this.store.table("classes").get(row.class);
    return el("li", {}, el("button", { class: "wait", type: "button", onclick: () => this.explain("Pod", name) },
      el("span", { class: swatch(this.store.colourOf(row.class)) }), el("b", {}, `${pods} × ${kind ? kind.workload : name}`), el("time", {}, span(now - since)),
      el("p", {}, row.reason ? el("b", {}, `${row.reason}: `) : "", row.message)));
  }
}

class Pools extends Part {
  static tables = ["pools", "nodes"];

  build() {
    this.list = el("ul", { class: "rows" });
    this.empty = el("p", { class: "empty" }, "There is no NodePool, so growth buys nothing.");
    this.append(this.list, this.empty);
  }

  draw() {
    const sums = new Map();
    for (const row of this.store.table("nodes").values()) {
      const sum = sums.get(row.pool) ?? [0, 0];
      sums.set(row.pool, [sum[0] + 1, sum[1] + row.price]);
    }
    const pools = [...this.store.table("pools")].sort();
    this.empty.hidden = pools.length > 0;
    replaceRows(this.list, pools.map(([name, row]) => {
      const [nodes, cost] = sums.get(name) ?? [0, 0];
      return { key: name, mark: JSON.stringify([row, nodes, cost]), make: () => this.item(name, row, nodes, cost) };
    }));
  }

  item(name, row, nodes, cost) {
    const ready = row.conditions.find(([type]) => type === "Ready");
    const troubles = row.conditions.filter(([type, status]) => (type === "Ready" && status !== "True") || (["LimitReached", "AllUnmet", "Failing", "Degraded"].includes(type) && status === "True"));
    const limits = Object.entries(row.limits).map(([what, most]) => `${what} at most ${most}`).join(", ");
    const states = new Map();
    for (const [offering, , state] of row.offerings) {
      const known = states.get(offering);
      if (!known || state === "Available") states.set(offering, state);
    }
    const shown = [...states].length ? [...states] : row.types.map((type) => [type, ""]);
    return el("li", {}, el("button", { class: "pool", type: "button", onclick: () => this.explain("NodePool", name) },
      el("header", {}, el("b", {}, name), el("span", { class: "muted num" }, `${count(nodes, "node")} · ${price(cost)}/h`)),
      ...troubles.map(([, , reason, message]) => el("p", { class: "warn" }, `${reason}: ${message}`)),
      row.paused ? el("p", { class: "warn" }, "paused") : "", row.deleted ? el("p", { class: "warn" }, "being deleted") : "",
      troubles.length ? "" : el("p", {}, ready ? ready[3] : "not looked at yet"), limits ? el("p", {}, limits) : "",
      el("span", { class: "tags" }, shown.slice(0, 12).map(([offering, state]) => el("span", { class: state === "Unmet" || state === "Unavailable" ? "tag bad" : state === "LimitReached" ? "tag warn" : "tag" }, offering.replace(/^[a-z]+-/, "") + (state && state !== "Available" ? `: ${state}` : ""))))));
  }
}

class Reserves extends Part {
  static tables = ["buffers", "autoscalers"];

  build() {
    this.list = el("ul", { class: "rows" });
    this.empty = el("p", { class: "empty" }, "No CapacityBuffer and no PoolAutoscaler is declared.");
    this.append(this.list, this.empty);
  }

  draw() {
    const buffers = [...this.store.table("buffers")].sort().map(([name, row]) => ({ key: `b/${name}`, mark: JSON.stringify(row), make: () => this.buffer(name, row) }));
    const pools = [...this.store.table("autoscalers")].sort().map(([name, row]) => ({ key: `a/${name}`, mark: JSON.stringify(row), make: () => this.autoscaler(name, row) }));
    this.empty.hidden = buffers.length + pools.length > 0;
    replaceRows(this.list, [...buffers, ...pools]);
  }

  buffer(name, row) {
    const words = row.problem || [`${row.standing} of ${row.wanted} have room`, row.coming ? `${row.coming} on the way` : "", row.missing ? `${row.missing} missing` : ""].filter(Boolean).join(", ");
    const gauge = bar(row.wanted, [[row.standing, "var(--class-2)"], [row.coming, "var(--accent-soft)"]], [[row.wanted, "wanted"]], `Buffer ${name}: ${words}`);
    return this.item("CapacityBuffer", name, "buffer", gauge, words, row.problem);
  }

  autoscaler(name, row) {
    const words = `${row.available} available, ${row.used} in use, ${row.starting} starting; wants ${row.desired} (${row.min} to ${row.max})`;
    const marks = row.marks ? [[row.used + row.marks[0], "lower watermark"], [row.used + row.marks[2], "upper watermark"]] : [[row.desired, "wanted"]];
    const most = Math.max(row.replicas, row.desired, ...marks.map(([at]) => at), 1);
    const gauge = bar(most, [[row.used, "var(--class-4)"], [row.available, "var(--class-2)"], [row.starting, "var(--accent-soft)"]], marks, `Warm pool ${name}: ${words}`);
    return this.item("PoolAutoscaler", name, row.suspended ? "warm pool, suspended" : "warm pool", gauge, words + (row.marks ? `; up below ${row.marks[0]} available, down above ${row.marks[2]}` : ""), "");
  }

  item(kind, name, what, gauge, words, problem) {
    return el("li", {}, el("button", { class: "pool reserve", type: "button", onclick: () => this.explain(kind, name) },
      el("header", {}, el("b", {}, name.replace(/^default\//, "")), el("span", { class: "muted" }, what)), gauge, el("p", problem ? { class: "warn" } : {}, words)));
  }
}

/** Parts of a whole beside each other, with marks above. */
function bar(most, parts, marks, label) {
  const scale = 100 / (most * 1.08 || 1);
  let at = 0;
  const drawn = parts.map(([amount, fill]) => {
    const part = svg("rect", { x: at * scale, y: 6, width: Math.max(0, amount * scale - 0.3), height: 12, fill });
    at += amount;
    return part;
  });
  const lines = marks.map(([place, words]) => svg("line", { x1: place * scale, x2: place * scale, y1: 2, y2: 21, stroke: "var(--text)", "stroke-width": "1.5", "vector-effect": "non-scaling-stroke" }, svg("title", {}, `${words}: ${place}`)));
  return svg("svg", { class: "gauge", viewBox: "0 0 100 22", preserveAspectRatio: "none", role: "img", "aria-label": label }, svg("rect", { x: 0, y: 6, width: 100, height: 12, fill: "var(--inset)" }), ...drawn, ...lines);
}

const LIFE_COLOURS = { Pending: "var(--class-other)", Provisioning: "var(--accent)", Ready: "var(--class-2)", Unmet: "var(--bad)", Deprovisioning: "var(--class-1)", CouldNotRemove: "var(--bad)", RemovalFailed: "var(--bad)" };

class Timeline extends Part {
  static tables = ["requests", "removals", "past", "cluster"];

  build() {
    this.keys = el("p", { class: "keys" }, [["Provisioning", "ordered"], ["Ready", "became Ready"], ["Unmet", "not met, or failed"], ["Deprovisioning", "given back"]].map(([phase, words]) => {
      const key = el("span", {}, el("i"), words);
      key.firstChild.style.borderTopColor = LIFE_COLOURS[phase];
      return key;
    }));
    this.list = el("ul", { class: "rows" });
    this.axis = el("p", { class: "axis" });
    this.empty = el("p", { class: "empty" }, "No machine was ordered or given back lately.");
    this.append(this.keys, this.list, this.axis, this.empty);
  }

  draw() {
    const lives = [];
    for (const table of ["requests", "removals"]) for (const [name, row] of this.store.table(table)) lives.push({ name, row, ended: null });
    for (const row of this.store.table("past").values()) lives.push({ name: row.name, row, ended: row.ended });
    lives.sort((one, other) => other.row.since - one.row.since || (one.name < other.name ? -1 : 1));
    const shown = lives.slice(0, 40);
    this.empty.hidden = shown.length > 0;
    this.keys.hidden = this.axis.hidden = shown.length === 0;
    if (!shown.length) return this.list.replaceChildren();
    const now = this.store.at;
    const from = Math.min(...shown.map((life) => life.row.since), now - 60);
    replaceRows(this.list, shown.map((life) => ({ key: `${life.row.kind}/${life.name}`, mark: JSON.stringify([life.row.phase, life.row.events.length, life.ended, Math.round(from / 5), life.ended ? 0 : Math.round(now / 5)]), make: () => this.item(life, from, now) })));
    this.axis.replaceChildren(el("span", {}, clock(from)), el("span", {}, `${span(now - from)} until ${clock(now)}`));
  }

  item({ name, row, ended }, from, now) {
    const isRequest = row.kind === "NodeRequest";
    const scale = (at) => (100 * (Math.min(at, now) - from)) / Math.max(1, now - from);
    const until = ended ?? now;
    const points = [[row.since, isRequest ? "Pending" : "Deprovisioning"], ...row.events.filter(([at]) => at).map(([at]) => [at, null])];
    const ready = isRequest && row.phase === "Ready" ? (points.at(-1)[0] ?? until) : until;
    const pieces = isRequest
      ? [[row.since, ready, row.phase === "Unmet" || row.phase === "Deprovisioning" ? row.phase : "Provisioning"], ...(row.phase === "Ready" ? [[ready, until, "Ready"]] : [])]
      : [[row.since, until, row.phase === "Pending" ? "Deprovisioning" : row.phase]];
    const drawn = pieces.map(([start, end, phase]) => svg("rect", { x: scale(start), y: 3, width: Math.max(0.8, scale(end) - scale(start)), height: 8, rx: 0.6, fill: LIFE_COLOURS[phase] }));
    const words = isRequest ? `${row.phase}, ${row.reason}` : `${ended ? "gone" : row.phase}, ${row.reason}`;
    return el("li", {}, el("button", { class: "life", type: "button", title: `${row.kind} ${name}: ${words}`, onclick: () => this.explain(row.kind, name) },
      el("span", {}, `${isRequest ? "↑" : "↓"} ${short(row.node)}`),
      svg("svg", { viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { x: 0, y: 6.5, width: 100, height: 1, fill: "var(--line)" }), ...drawn),
      el("small", {}, words)));
  }
}

class Journal extends Part {
  static tables = ["journal"];

  build() {
    this.list = el("ul", { class: "rows" });
    this.empty = el("p", { class: "empty" }, "Nothing was decided yet.");
    this.append(this.list, this.empty);
  }

  draw() {
    const rows = [...this.store.table("journal")].sort((one, other) => other[0] - one[0]);
    const groups = [];
    for (const [number, row] of rows) { // the same said of many at once is one line
      const last = groups.at(-1);
      if (last && last.row.reason === row.reason && last.row.kind === row.kind && last.row.at - row.at < 5) last.more += 1;
      else groups.push({ number, row, more: 0 });
    }
    this.empty.hidden = groups.length > 0;
    replaceRows(this.list, groups.slice(0, 100).map((group) => ({ key: group.number, mark: String(group.more), make: () => this.item(group) })));
  }

  item({ row, more }) {
    return el("li", {}, el("button", { class: row.warning ? "note warning" : "note", type: "button", onclick: () => this.explain(row.kind, row.name) },
      el("time", { datetime: new Date(row.at * 1000).toISOString() }, clock(row.at)),
      el("span", {}, el("b", {}, row.reason), ` ${row.kind} ${row.name}${more ? ` and ${more} more` : ""}`), el("p", {}, row.message)));
  }
}

customElements.define("growth-status", Status);
customElements.define("growth-figures", Figures);
customElements.define("growth-waiting", Waiting);
customElements.define("growth-pools", Pools);
customElements.define("growth-reserves", Reserves);
customElements.define("growth-timeline", Timeline);
customElements.define("growth-journal", Journal);

