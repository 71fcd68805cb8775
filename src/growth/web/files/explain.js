// A click on anything explains it, in the words of `growth explain`. The address of the page leads to the explanation.

import { Part, clock, el, link, price } from "./parts.js";

const KINDS = ["Pod", "Node", "NodePool", "NodeRequest", "NodeRemovalRequest", "CapacityBuffer", "PoolAutoscaler"];
const WORDS = { pricePerHour: "price per hour", inFlight: "on the way", targetOffering: "offering", plannedPods: "bought for", nodeName: "node", machineID: "machine", waitingFor: "waits for", desired_replicas: "wants", virtual_pods: "virtual pods", at_other_numbers: "at other numbers", next_firings: "next firings", last_decision: "last decision", last_scale_time: "last scaled", checkType: "kept by", blockingPod: "blocking pod" };

class Explain extends Part {
  static tables = [];

  build() {
    this.hidden = true;
    this.setAttribute("role", "complementary");
    this.setAttribute("aria-label", "Explanation");
    addEventListener("hashchange", () => this.open());
    addEventListener("keydown", (event) => event.key === "Escape" && !this.hidden && this.close());
    this.open();
  }

  draw() {}

  close() {
    this.hidden = true;
    this.asked = null; // an answer that comes late opens nothing
    history.replaceState(null, "", location.pathname + location.search);
    this.before?.focus?.({ preventScroll: true });
  }

  async open() {
    const [, kind, ...rest] = location.hash.split("/");
    if (!location.hash.startsWith("#/") || !KINDS.includes(kind) || !rest.length) return void (this.hidden = true);
    const name = rest.map(decodeURIComponent).join("/");
    if (this.hidden) this.before = document.activeElement;
    this.show(kind, name, [el("p", { class: "first" }, "…")]);
    const asked = (this.asked = {});
    try {
      const answer = await (await this.store.ask(`api/explain?${new URLSearchParams({ kind, name })}`)).json();
      if (this.asked === asked) this.show(kind, name, this.parts(kind, name, answer));
    } catch (error) {
      if (this.asked === asked) this.show(kind, name, [el("p", { class: "first" }, error.message || "growth does not answer")]);
    }
  }

  show(kind, name, parts) {
    const close = el("button", { class: "close", type: "button", onclick: () => this.close() }, "Close");
    const title = el("h2", { tabindex: "-1" }, name);
    this.replaceChildren(el("div", { class: "sheet", tabindex: "0", role: "region", "aria-label": `${kind} ${name}` }, el("header", {}, el("div", {}, el("p", { class: "kind" }, kind), title), close), ...parts));
    this.hidden = false;
    title.focus({ preventScroll: true });
  }

  parts(kind, name, { answer, said }) {
    if (answer.gone) return [el("p", { class: "first" }, `${answer.gone}; it may be gone.`), ...this.said(said)];
    const rest = Object.entries(answer).filter(([each, value]) => each !== "answer" && typeof value !== "object" && value !== name);
    const groups = Object.entries(answer).filter(([, value]) => typeof value === "object");
    return [
      answer.answer ? el("p", { class: "first" }, answer.answer) : "",
      rest.length ? el("dl", {}, rest.flatMap(([each, value]) => [el("dt", {}, this.word(each)), el("dd", {}, this.value(each, value))])) : "",
      ...groups.flatMap(([each, value]) => [el("h3", {}, this.word(each)), this.group(each, value)]),
      ...this.said(said),
    ].filter(Boolean);
  }

  word(key) {
    return WORDS[key] ?? key.replaceAll("_", " ").replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).trim();
  }

  value(key, value) {
    const kind = { pool: "NodePool", node: "Node", nodeName: "Node", blockingPod: "Pod" }[key];
    return kind ? this.reference(kind, String(value)) : String(value);
  }

  reference(kind, name) {
    return el("a", { class: "link", href: link(kind, name) }, name);
  }

  group(key, value) {
    if (Array.isArray(value) && typeof value[0] !== "object") {
      const kind = { plannedPods: "Pod", pools: "NodePool", replaces: "Node" }[key];
      return el("ul", {}, value.slice(0, 60).map((each) => el("li", {}, kind ? this.reference(kind, each) : each)), value.length > 60 ? el("li", { class: "muted" }, `and ${value.length - 60} more`) : "");
    }
    if (key === "offers" || key === "remedies") return this.table(value);
    const entries = Array.isArray(value) ? value.map((each, index) => [String(index + 1), Object.entries(each).map(([name, text]) => `${this.word(name)} ${text}`).join(", ")]) : Object.entries(value);
    return el("dl", {}, entries.flatMap(([name, text]) => [el("dt", {}, /^\d{4}-.*Z$/.test(name) ? name.slice(11, 19) : name), el("dd", {}, typeof text === "object" ? JSON.stringify(text) : String(text))]));
  }

  /** What every pool says to a pod, offering by offering; and what would help. */
  table(rows) {
    const columns = Object.keys(rows[0]);
    const text = (value) => (typeof value === "number" ? price(value) : String(value ?? ""));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" }, el("table", {}, el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col" }, this.word(name))))), el("tbody", {}, rows.slice(0, 60).map((row) => el("tr", {}, columns.map((name) => el("td", {}, text(row[name]))))))));
  }

  said(entries) {
    if (!entries?.length) return [];
    return [el("h3", {}, "What growth said about it"), el("dl", {}, entries.toReversed().slice(0, 20).flatMap((entry) => [el("dt", {}, clock(entry.at)), el("dd", {}, el("b", {}, `${entry.reason}: `), entry.message)]))];
  }
}

customElements.define("growth-explain", Explain);
