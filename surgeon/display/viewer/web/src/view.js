// The view: a folded graph to open, search, walk about in and select from.
import { LETTER, LINE, drawn, edge, element, frame, label, shape, size } from "./drawing.js";
import { arrange, labelled } from "./layout.js";
import { picture, saved } from "./picture.js";
import { Model } from "./model.js";
import { Panel } from "./panel.js";
import style from "./view.css";

const MOST = 700; // boxes that are laid out at once
const SHOWN = 60; // nodes that a search lists
const FLAT = 80; // nodes that are shown without their groups
const READABLE = 0.8; // the scale at which the smallest text has 8 pixels

export class View {
  constructor(root, host, height) {
    this.host = host;
    this.open = new Set();
    this.picked = new Set();
    this.cuts = { froms: new Set(), tos: new Set() };
    this.marks = new Map();
    this.filter = null;
    this.focus = "";
    this.at = { x: 0, y: 0, scale: 1 };
    const shadow = root.shadowRoot ?? root.attachShadow({ mode: "open" });
    this.sheet = element("div", { class: "sheet" });
    this.found = element("div", { class: "found", hidden: true });
    this.status = element("span", { role: "status" });
    this.input = element("input", {
      type: "search", placeholder: "name, op, tensor or shape", "aria-label": "Search nodes by name, op, tensor or shape",
    });
    this.scopes = element("select", { "aria-label": "Which graph", hidden: true });
    this.chips = element("span", { class: "chips" });
    const button = (text, act, about) => element("button", { type: "button", title: about, onclick: act }, text);
    this.all = button("whole graph", () => this.narrow(null), "show the whole graph");
    this.all.hidden = true;
    const header = element("header", {}, this.input, this.scopes, this.all,
      button("fit", () => this.fit(), "fit the drawing to the window"), button("−", () => this.zoom(1 / 1.3), "zoom out"),
      button("+", () => this.zoom(1.3), "zoom in"), button("SVG", () => this.save("svg"), "save as SVG"),
      button("PNG", () => this.save("png"), "save as PNG"), button("close all", () => this.closeAll(), "fold all groups"));
    this.panel = new Panel(this);
    this.frame = element("div", { class: "view", style: `height: ${typeof height === "number" ? `${height}px` : height}` },
      header, this.sheet, this.panel.element, element("footer", {}, this.status, this.chips));
    shadow.replaceChildren(element("style", {}, style), this.frame);
    this.root = root;
    this.themed();
    const settled = () => setTimeout(() => this.themed(), 500); // a theme says its name before its sheet is there
    this.themes = new MutationObserver(settled);
    for (const one of [document.documentElement, document.body]) this.themes.observe(one, { attributes: true });
    this.input.addEventListener("input", () => this.search());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.found.hidden = true;
      if (event.key === "Enter") this.found.querySelector("button")?.click();
    });
    this.scopes.addEventListener("change", () => this.load(this.scopes.value));
    this.listen();
  }

  async start() {
    this.status.textContent = "reading…";
    try {
      await this.load("");
      this.themed(); // a notebook may put it onto its page after it was made
      this.mark(this.host.marks());
    } catch (error) {
      this.status.replaceChildren(element("span", { class: "wrong" }, String(error.message)));
    }
  }

  // A notebook may change its theme while it is open.
  themed() {
    this.frame.classList.toggle("dark", isDark(this.root));
  }

  end() {
    this.themes.disconnect();
    this.model = null;
  }

  async load(scope) {
    const data = await this.host.ask("graph", { scope });
    this.model = new Model(data);
    this.scope = scope;
    this.open.clear();
    this.picked.clear();
    this.cuts = { froms: new Set(), tos: new Set() };
    this.filter = null;
    this.focus = "";
    this.all.hidden = true;
    this.spread();
    this.scopes.hidden = data.scopes.length < 2;
    this.scopes.replaceChildren(...data.scopes.map((name) => element("option", { value: name, selected: name === scope }, name || "main graph")));
    const model = this.model;
    this.draw();
    this.fit(READABLE);
    this.panel.model();
    model.types = await this.host.ask("types", { scope });
    if (this.model !== model) return;
    this.draw(); // boxes are larger with the shapes of weights
    if (this.focus || this.picked.size) return; // somebody looks at something already
    this.fit(READABLE);
    this.panel.model();
  }

  async save(kind) {
    const found = picture(this.svg, this.moved.getBBox(), this.frame, style);
    saved(await (kind === "png" ? found.png() : found.svg()), `${this.model.title.replace(/\.onnx$/, "")}.${kind}`);
  }

  // Open what is alone, so that the first sight shows something.
  spread() {
    for (;;) {
      const sight = this.model.sight(this.open, null, false);
      const groups = [...sight.items.values()].filter((item) => item.kind === "group");
      const nodes = [...sight.items.values()].filter((item) => item.kind === "node");
      const total = this.model.nodes.length;
      const large = groups.find((item) => item.nodes.length > 0.6 * total && item.group.kind !== "stack");
      if (!large || groups.length + nodes.length > 40) return;
      this.open.add(large.group.id);
    }
  }

  draw() {
    const model = this.model;
    if (!model) return;
    const flat = this.filter !== null && this.filter.size <= FLAT;
    const sight = model.sight(this.open, this.filter, flat);
    if (sight.items.size > MOST) {
      const last = [...this.open].at(-1);
      if (last !== undefined) {
        this.open.delete(last);
        this.tell(`${sight.items.size} boxes are too many to draw. Close other groups first.`);
        this.draw();
        return;
      }
    }
    const layout = arrange(sight, (item) => size(item, model));
    this.layout = layout;
    this.sight = sight;
    const state = { picked: this.picked, marks: this.marks };
    const texts = labelled(layout, (one) => label(one, model), LETTER, LINE);
    const depth = (group) => (group.parent > 0 ? 1 + depth(model.groups[group.parent]) : 0);
    const groups = [...sight.groups].sort((one, other) => depth(one) - depth(other));
    this.moved = shape("g", {},
      groups.map((group) => frame(group, layout.frames.get(group.id))),
      layout.edges.map((one) => edge(one, model, texts.get(one))),
      [...sight.items.values()].map((item) => drawn(item, layout.boxes.get(item.key), model, state)));
    this.svg = shape("svg", { role: "group", "aria-label": `graph of ${model.title}` }, this.moved);
    this.sheet.replaceChildren(this.svg, this.found);
    this.move();
    const counted = `${sight.items.size.toLocaleString("en")} boxes of ${model.nodes.length.toLocaleString("en")} nodes`;
    this.tell(this.picked.size ? `${counted}; ${this.picked.size.toLocaleString("en")} selected` : counted);
    this.svg.querySelector(`[data-key="${this.focus}"]`)?.focus({ preventScroll: true });
    this.chip();
  }

  tell(text) {
    this.status.textContent = text;
  }

  move() {
    this.moved.setAttribute("transform", `translate(${this.at.x} ${this.at.y}) scale(${this.at.scale})`);
  }

  // See all that is drawn, or its beginning where that would be smaller than a scale.
  fit(least = 0.05) {
    const all = this.layout.all, wide = this.sheet.clientWidth || 700, high = this.sheet.clientHeight || 500;
    const scale = Math.max(least, Math.min(1.1, wide / (all.width + 20), high / (all.height + 20)));
    const top = all.y - all.height / 2, first = all.width * scale > wide ? this.first() : all;
    this.at = { scale, x: wide / 2 - first.x * scale, y: all.height * scale > high ? 10 - top * scale : high / 2 - all.y * scale };
    this.move();
  }

  // The topmost box.
  first() {
    return [...this.layout.boxes.values()].reduce((one, other) => (other.y < one.y ? other : one));
  }

  zoom(by, x = this.sheet.clientWidth / 2, y = this.sheet.clientHeight / 2) {
    const scale = Math.max(0.05, Math.min(4, this.at.scale * by));
    this.at.x = x - (x - this.at.x) * (scale / this.at.scale);
    this.at.y = y - (y - this.at.y) * (scale / this.at.scale);
    this.at.scale = scale;
    this.move();
  }

  centre(key) {
    const box = this.layout.boxes.get(key);
    if (!box) return;
    this.at.scale = Math.max(this.at.scale, 0.7);
    this.at.x = this.sheet.clientWidth / 2 - box.x * this.at.scale;
    this.at.y = this.sheet.clientHeight / 2 - box.y * this.at.scale;
    this.move();
  }

  listen() {
    let from = null, moved = false;
    this.sheet.addEventListener("wheel", (event) => {
      if (event.target.closest(".found")) return;
      event.preventDefault();
      const box = this.sheet.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 500), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    this.sheet.addEventListener("pointerdown", (event) => {
      if (event.target.closest(".found")) return;
      from = { x: event.clientX - this.at.x, y: event.clientY - this.at.y, left: event.clientX, top: event.clientY };
      moved = false;
    });
    this.sheet.addEventListener("pointermove", (event) => {
      if (!from || !event.buttons) return;
      moved ||= Math.hypot(event.clientX - from.left, event.clientY - from.top) > 4;
      if (!moved) return;
      this.at.x = event.clientX - from.x;
      this.at.y = event.clientY - from.y;
      this.move();
    });
    this.sheet.addEventListener("pointerup", () => { from = null; });
    this.sheet.addEventListener("click", (event) => {
      if (!moved) this.act(event.target, event.shiftKey || event.ctrlKey || event.metaKey);
    });
    this.sheet.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        if (event.target.closest(".box, .frame")) event.preventDefault();
        this.act(event.target, event.shiftKey || event.ctrlKey);
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        this.step(event.target.closest(".box")?.dataset.key, event.key === "ArrowDown");
        event.preventDefault();
      }
    });
  }

  // From a box to the first that it leads to, or that leads to it.
  step(key, down) {
    const found = this.layout.edges.find((one) => (down ? one.source : one.target) === key);
    if (!found) return;
    const next = down ? found.target : found.source;
    this.centre(next);
    this.svg.querySelector(`[data-key="${next}"]`)?.focus({ preventScroll: true });
  }

  act(target, more) {
    const box = target.closest?.(".box"), around = target.closest?.(".frame");
    if (box) {
      const item = this.sight.items.get(box.dataset.key);
      this.focus = item.key;
      if (item.kind === "node") this.pick([item.node.id], more);
      else if (item.kind === "group" && more) this.pick(item.nodes, true);
      else if (item.kind === "group") this.toggle(item.group.id);
      else this.panel.tensor(item.tensor);
    } else if (around) this.toggle(Number(around.dataset.frame));
  }

  toggle(group) {
    const was = this.layout.boxes.get(`g${group}`) ?? this.layout.frames.get(group);
    const seen = { x: this.at.x + was.x * this.at.scale, y: this.at.y + (was.y - was.height / 2) * this.at.scale };
    if (!this.open.delete(group)) this.open.add(group);
    this.draw();
    const now = this.layout.boxes.get(`g${group}`) ?? this.layout.frames.get(group);
    if (now) { // what one clicked stays where it was
      this.at.x = seen.x - now.x * this.at.scale;
      this.at.y = seen.y - (now.y - now.height / 2) * this.at.scale;
      this.move();
    }
    this.panel.group(this.model.groups[group]);
  }

  closeAll() {
    this.open.clear();
    this.draw();
    this.fit();
  }

  pick(ids, more) {
    if (more) {
      const all = ids.every((id) => this.picked.has(id));
      for (const id of ids) all ? this.picked.delete(id) : this.picked.add(id);
    } else this.picked = new Set(ids);
    this.changed();
    if (ids.length === 1) this.panel.node(this.model.nodes[ids[0]]);
    else this.panel.selection();
  }

  cutAt(side, tensor) {
    const set = this.cuts[side];
    if (!set.delete(tensor)) set.add(tensor);
    if (this.cuts.tos.size) this.picked = this.model.between(this.cuts.froms, this.cuts.tos);
    this.changed();
  }

  changed() {
    this.draw();
    const names = (set) => [...set].map((tensor) => this.model.tensors[tensor]);
    const places = [...this.picked].map((id) => this.model.data.nodes.place[id]).sort((one, other) => one - other);
    this.host.select({ scope: this.scope, nodes: places, froms: names(this.cuts.froms), tos: names(this.cuts.tos) });
  }

  chip() {
    const chips = [];
    for (const [side, word] of [["froms", "from"], ["tos", "to"]]) {
      for (const tensor of this.cuts[side]) {
        chips.push(element("button", {
          type: "button", class: "chip", title: "remove this cut", onclick: () => this.cutAt(side, tensor),
        }, `${word} ${this.model.tensors[tensor]} ×`));
      }
    }
    if (this.picked.size) {
      chips.push(element("button", { type: "button", class: "chip", onclick: () => this.narrow(new Set(this.picked)) }, "show only these"));
      chips.push(element("button", { type: "button", class: "chip", onclick: () => {
        this.cuts = { froms: new Set(), tos: new Set() };
        this.pick([], false);
      } }, "clear selection"));
    }
    this.chips.replaceChildren(...chips);
  }

  narrow(ids) {
    this.filter = ids;
    this.all.hidden = ids === null;
    this.draw();
    this.fit();
  }

  search() {
    const { found, count } = this.model.search(this.input.value, SHOWN);
    this.found.hidden = !this.input.value.trim();
    const rows = found.map((node) => element("li", {}, element("button", {
      type: "button", class: "link", onclick: () => { this.found.hidden = true; this.reveal(node.id); },
    }, `${node.op} ${node.name}`)));
    const told = count > found.length ? `${count} nodes, showing the first ${found.length}` : `${count} node${count === 1 ? "" : "s"}`;
    this.found.replaceChildren(element("p", { role: "status" }, told), element("ul", {}, rows));
  }

  // Open the groups around a node, select it, and centre it.
  reveal(id) {
    if (this.filter && !this.filter.has(id)) this.filter = null;
    this.all.hidden = this.filter === null;
    for (const group of this.model.around[this.model.nodes[id].group]) this.open.add(group);
    this.focus = `n${id}`;
    this.pick([id], false);
    this.centre(`n${id}`);
  }

  mark(told) {
    this.marks = new Map();
    if (told && this.model) {
      const places = new Map(this.model.data.nodes.place.map((place, id) => [place, id]));
      for (const { scope, nodes, label, done } of told.marks ?? []) {
        for (const place of scope === this.scope ? nodes : []) {
          const id = places.get(place);
          if (id !== undefined) this.marks.set(id, [...(this.marks.get(id) ?? []), { label, done }]);
        }
      }
    }
    this.draw();
    this.panel.marked();
  }
}

// Whether what stands behind is dark: its own colour is asked for, as each notebook has its own words for a theme.
function isDark(root) {
  for (let one = root; one; one = one.parentElement ?? one.getRootNode()?.host) {
    const [red, green, blue, cover] = painted(getComputedStyle(one).backgroundColor);
    if (cover > 0.5) return 0.3 * red + 0.6 * green + 0.1 * blue < 110;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// A colour as red, green and blue to 255 and how much it covers: a browser tells it as rgb(), color(), oklch() and more,
// and as nothing where the element is on no page yet.
function painted(colour) {
  if (!colour) return [0, 0, 0, 0];
  if (colour.startsWith("rgb")) {
    const [red, green, blue, cover = 1] = colour.match(/[\d.]+/g).map(Number);
    return [red, green, blue, cover];
  }
  const brush = document.createElement("canvas").getContext("2d");
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  const [red, green, blue, cover] = brush.getImageData(0, 0, 1, 1).data;
  return [red, green, blue, cover / 255];
}
