// The panel next to the graph: details of the selected node, tensor, group or nodes.
import { element } from "./drawing.js";

export class Panel {
  constructor(view) {
    this.view = view;
    this.element = element("aside", { "aria-label": "details", tabindex: 0 });
  }

  show(...content) {
    this.element.replaceChildren(...content.flat().filter(Boolean));
  }

  model() {
    const { model } = this.view;
    this.show(element("h2", {}, model.title), element("p", {}, `${model.nodes.length.toLocaleString("en")} nodes in ${model.groups.length - 1} groups`),
      element("p", {}, "Click a group to open it, or a node to select it. Shift-click selects several. Arrow keys follow tensors."),
      this.tensors("inputs", model.inputs), this.tensors("outputs", model.outputs), this.legend(), this.colours());
  }

  marked() {
    if (this.view.marks.size && this.view.model) this.model();
  }

  legend() {
    const counts = new Map();
    for (const marks of this.view.marks.values()) for (const { label } of marks) counts.set(label, (counts.get(label) ?? 0) + 1);
    if (!counts.size) return null;
    const rows = [...counts].map(([label, count]) => element("li", {}, this.button(`${label} (${count})`, () => {
      const ids = [...this.view.marks].filter(([, marks]) => marks.some((mark) => mark.label === label)).map(([id]) => id);
      this.view.pick(ids, false);
    })));
    return [element("h3", {}, "marked"), element("ul", {}, rows)];
  }

  // The categories of operators: their colours and node counts.
  colours() {
    const { view } = this, found = new Map();
    for (const node of view.model.nodes) found.set(node.category, [...(found.get(node.category) ?? []), node.id]);
    const rows = [...found].sort(([, one], [, other]) => other.length - one.length).map(([category, ids]) => element("li", {},
      element("span", { class: `swatch ${category}` }), this.button(`${category} (${ids.length})`, () => view.pick(ids, false))));
    return [element("h3", {}, "colours"), element("ul", { class: "plain" }, rows)];
  }

  button(text, act, kind = "link") {
    return element("button", { type: "button", class: kind, onclick: act }, text);
  }

  tensors(title, tensors, names) {
    const { model } = this.view;
    if (!tensors.length) return null;
    const rows = tensors.map((tensor, place) => element("li", {},
      names?.[place] ? `${names[place]}: ` : "", this.button(model.tensors[tensor], () => this.tensor(tensor)), " ",
      element("code", {}, model.type(tensor))));
    return [element("h3", {}, title), element("ul", {}, rows)];
  }

  group(group) {
    const { view } = this, ids = view.model.nodesIn(group.id).map((node) => node.id);
    this.show(element("h2", {}, group.label), element("p", {}, `${group.kind} of ${ids.length.toLocaleString("en")} nodes`),
      this.button("select nodes", () => view.pick(ids, false), "small"), " ",
      this.button("show only these", () => view.narrow(new Set(ids)), "small"));
  }

  selection() {
    const { view } = this;
    if (!view.picked.size) this.model();
    else this.show(element("h2", {}, `${view.picked.size} nodes`), element("ul", {}, [...view.picked].slice(0, 40).map((id) => {
      const node = view.model.nodes[id];
      return element("li", {}, this.button(`${node.op} ${node.name}`, () => view.reveal(id)));
    })));
  }

  tensor(tensor) {
    const { view } = this, { model } = view, maker = model.producer[tensor];
    const cut = (side, word) => this.button(view.cuts[side].has(tensor) ? `remove cut (${word})` : `cut ${word} here`, () => {
      view.cutAt(side, tensor);
      this.tensor(tensor);
    }, "small");
    const link = (id) => element("li", {}, this.button(`${model.nodes[id].op} ${model.nodes[id].name}`, () => view.reveal(id)));
    this.show(element("h2", {}, model.tensors[tensor]), element("p", {}, element("code", {}, model.type(tensor))),
      model.stored.has(tensor) ? element("p", {}, "a constant") : element("p", {}, cut("froms", "from"), " ", maker >= 0 ? cut("tos", "to") : ""),
      maker >= 0 ? [element("h3", {}, "produced by"), element("ul", {}, link(maker))] : null,
      model.readers[tensor].length ? [element("h3", {}, "read by"), element("ul", {}, model.readers[tensor].slice(0, 40).map(link))] : null);
  }

  async node(node) {
    const { view } = this, { model } = view;
    this.asked = node.id;
    const head = [element("h2", {}, node.op), element("p", {}, element("code", {}, node.name)),
      element("p", {}, "neighbours: ", [1, 2, 3].map((steps) => [this.button(String(steps),
        () => view.narrow(model.near([node.id], steps)), "small"), " "]))];
    const rest = element("div", {}, "…");
    this.show(head, rest);
    const place = { scope: view.scope, node: model.data.nodes.place[node.id] };
    const told = await view.host.ask("node", place);
    if (this.asked !== node.id) return;
    const facts = (title, pairs) => pairs.length ? [element("h3", {}, title),
      element("ul", {}, pairs.map(([name, text]) => element("li", {}, `${name} = `, element("code", {}, text))))] : [];
    const rules = element("div");
    const why = this.button("show matching rules", async () => {
      rules.replaceChildren("…");
      const { fits, near } = await view.host.ask("rules", place);
      const list = (title, items) => items.length ? [element("h4", {}, title), element("ul", {}, items.map((item) => element("li", {}, item)))] : [];
      const parts = fits.map(([text, places]) => this.button(`${text}, ${places.length} node${places.length === 1 ? "" : "s"}`,
        () => view.pick(model.data.nodes.place.flatMap((at, id) => places.includes(at) ? [id] : []), false)));
      rules.replaceChildren(...list("match", parts), ...list("almost match", near), fits.length + near.length ? "" : "no rule matches, not even almost");
    }, "small");
    rest.replaceChildren(...[this.tensors("inputs", node.inputs, told.formals), facts("constants", told.constants),
      facts("attributes", told.attributes), this.tensors("outputs", node.outputs),
      told.marks, told.origin ? [element("h3", {}, "from"), element("p", {}, told.origin)] : null,
      element("h3", {}, "rules"), why, rules].flat(2).filter(Boolean));
  }
}
