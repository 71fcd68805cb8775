// What the cluster costs per hour, against the least that its pods could cost, over time.

import { Part, clock, el, price, svg } from "./parts.js";

const [WIDTH, HEIGHT] = [300, 150];

class Costs extends Part {
  static tables = ["costs", "cluster"];

  build() {
    this.picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.axis = el("p", { class: "axis" });
    this.top = el("p", { class: "axis" });
    this.append(el("p", { class: "keys" }, el("span", {}, el("i"), "what it costs"), el("span", { class: "dashed" }, el("i"), "proven least")), this.top, this.picture, this.axis);
  }

  draw() {
    const samples = [...this.store.table("costs").values()];
    const row = this.store.cluster;
    if (row) samples.push([this.store.at, row.pricePerHour, row.bound]);
    if (!samples.length) return;
    const [from, until] = [samples[0][0], Math.max(samples.at(-1)[0], samples[0][0] + 1)];
    const most = Math.max(0.0001, ...samples.map((sample) => Math.max(sample[1], sample[2] ?? 0))) * 1.08;
    const x = (at) => (WIDTH * (at - from)) / (until - from);
    const y = (amount) => HEIGHT - (HEIGHT * amount) / most;
    const steps = (which) => {
      let path = "";
      let last = null;
      for (const sample of samples) {
        const value = sample[which];
        if (value === null || value === undefined) { last = null; continue; }
        path += last === null ? `M${x(sample[0]).toFixed(1)},${y(value).toFixed(1)}` : `H${x(sample[0]).toFixed(1)}V${y(value).toFixed(1)}`;
        last = value;
      }
      return path;
    };
    const line = steps(1);
    this.picture.replaceChildren(
      ...[0.25, 0.5, 0.75].map((share) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT * share, y2: HEIGHT * share })),
      svg("path", { class: "area", d: `${line}V${HEIGHT}H0Z` }), svg("path", { class: "price", d: line }), svg("path", { class: "bound", d: steps(2) || "M0,0" }));
    const last = samples.at(-1);
    this.picture.setAttribute("aria-label", `Cost per hour from ${clock(from)} to ${clock(until)}: now ${price(last[1])}${last[2] ? `, at least ${price(last[2])}` : ""}`);
    this.top.replaceChildren(el("span", {}, `${price(most / 1.08)} at most`));
    this.axis.replaceChildren(el("span", {}, clock(from)), el("span", {}, clock(until)));
  }
}

customElements.define("growth-costs", Costs);
