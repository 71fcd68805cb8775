// Finds nodes, pods, workloads, pools and requests by a part of their name. Boxes that do not match step back.

import { Part, el, link } from "./parts.js";

const MOST = 12;

class Search extends Part {
  static tables = [];

  build() {
    this.field = el("input", { class: "field", type: "search", placeholder: "Search nodes, pods, pools  ( / )", role: "combobox", "aria-label": "Search nodes, pods and pools", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false" });
    this.list = el("ul", { class: "found", id: "found", role: "listbox", "aria-label": "Found", hidden: true });
    this.append(this.field, this.list);
    this.field.addEventListener("input", () => this.find());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("blur", () => setTimeout(() => this.fold(), 150));
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
        event.preventDefault();
        this.field.focus();
      }
    });
  }

  draw() {}

  find() {
    const query = this.field.value.trim().toLowerCase();
    this.store.search(query);
    this.found = query ? this.matches(query) : [];
    this.chosen = this.found.length ? 0 : -1;
    this.list.replaceChildren(...this.found.map(([kind, name], index) => el("li", { role: "option", id: `found-${index}`, "aria-selected": String(index === 0), onmousedown: () => this.open(index) }, el("span", {}, name), el("small", {}, kind))));
    if (query && !this.found.length) this.list.replaceChildren(el("li", { role: "option", "aria-selected": "false", "aria-disabled": "true" }, "nothing of that name"));
    this.list.hidden = !query;
    this.field.setAttribute("aria-expanded", String(Boolean(query)));
    this.point();
  }

  matches(query) {
    const found = [];
    const add = (kind, name) => found.length < MOST && name.toLowerCase().includes(query) && found.push([kind, name]);
    for (const [table, kind] of [["pools", "NodePool"], ["buffers", "CapacityBuffer"], ["autoscalers", "PoolAutoscaler"], ["nodes", "Node"], ["requests", "NodeRequest"], ["removals", "NodeRemovalRequest"], ["waiting", "Pod"]]) {
      for (const name of this.store.table(table).keys()) add(kind, name);
    }
    for (const row of this.store.table("nodes").values()) {
      if (found.length >= MOST) break;
      for (const [name, stages] of Object.entries(row.pods)) for (const pod of stages.flat()) add("Pod", `${name.split("/")[0]}/${pod}`);
    }
    return found;
  }

  key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.chosen = Math.max(0, Math.min(this.found.length - 1, this.chosen + (event.key === "ArrowDown" ? 1 : -1)));
      this.point();
    } else if (event.key === "Enter" && this.chosen >= 0) {
      this.open(this.chosen);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      this.field.value = "";
      this.find();
    }
  }

  point() {
    [...this.list.children].forEach((child, index) => child.setAttribute("aria-selected", String(index === this.chosen)));
    if (this.chosen >= 0) this.field.setAttribute("aria-activedescendant", `found-${this.chosen}`);
    else this.field.removeAttribute("aria-activedescendant");
  }

  open(index) {
    location.hash = link(...this.found[index]);
    this.fold();
  }

  fold() {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
  }
}

customElements.define("growth-search", Search);
