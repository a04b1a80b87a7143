// Boxes, frames and edges as SVG.  All text goes in as text: names of a model are data.

const SPACE = "http://www.w3.org/2000/svg";
const WIDE = 7.2, SMALL = 6.5; // advance of a letter

export function element(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  return filled(made, attributes, content);
}

export function shape(name, attributes = {}, ...content) {
  return filled(document.createElementNS(SPACE, name), attributes, content);
}

function filled(made, attributes, content) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...content.flat(Infinity).filter((one) => one !== undefined && one !== null && one !== ""));
  return made;
}

// The end of a long name tells more than its beginning.
export function cut(text, most = 26) {
  return text.length > most ? `…${text.slice(1 - most)}` : text;
}

export function words(item, model) {
  if (item.kind === "node") {
    return { title: item.node.op.split("::").at(-1), line: cut(item.node.name.split("/").at(-1)), more: cut(model.weights(item.node), 30) };
  }
  if (item.kind === "group") return { title: cut(item.group.label, 34), line: `${item.nodes.length.toLocaleString("en")} nodes` };
  return { title: cut(model.tensors[item.tensor]), line: cut(model.type(item.tensor), 30) };
}

export function size(item, model) {
  const { title, line, more = "" } = words(item, model);
  const width = Math.max(64, title.length * WIDE + 22, line.length * SMALL + 16, more.length * SMALL + 16);
  return { width, height: (line ? 38 : 24) + (more ? 14 : 0) };
}

export function drawn(item, place, model, state) {
  const { title, line, more: weights } = words(item, model), { width, height } = place;
  const kinds = { node: `node ${item.node?.kind} ${item.node?.category}`, group: `group ${item.group?.kind}`, input: "pill", output: "pill" };
  const picked = item.kind === "node" ? state.picked.has(item.node.id)
    : item.kind === "group" && item.nodes.every((id) => state.picked.has(id));
  const ids = item.kind === "node" ? [item.node.id] : item.nodes ?? [];
  const marks = [...new Set(ids.flatMap((id) => state.marks.get(id) ?? []))];
  const told = item.kind === "node" ? `${item.node.op} ${item.node.name}` : [title, line].filter(Boolean).join(", ");
  const more = marks.length ? `, ${marks.map((mark) => mark.label).join(", ")}` : "";
  const made = shape("g", {
    class: `box ${kinds[item.kind]}${picked ? " picked" : ""}${marks.length ? " marked" : ""}`,
    transform: `translate(${place.x - width / 2} ${place.y - height / 2})`,
    tabindex: 0, role: "button", "data-key": item.key,
    "aria-label": `${item.kind === "input" || item.kind === "output" ? `${item.kind} ` : ""}${told}${more}`,
    "aria-expanded": item.kind === "group" ? "false" : undefined,
    "aria-pressed": item.kind === "node" ? String(picked) : undefined,
  }, shape("title", {}, told + more));
  if (marks.length) {
    const kind = marks.every((mark) => mark.done) ? "mark done" : "mark";
    made.append(shape("rect", { class: kind, x: -4, y: -4, width: width + 8, height: height + 8, rx: 8 }));
  }
  if (item.kind === "group" && item.group.kind === "stack") {
    made.append(shape("rect", { class: "body", x: 4, y: 4, width, height, rx: 6 }));
  }
  made.append(shape("rect", { class: "body", width, height, rx: item.kind === "node" ? 5 : item.kind === "group" ? 6 : 14 }));
  if (item.kind === "node") {
    made.append(shape("path", { class: "head", d: `M0 5a5 5 0 0 1 5 -5h${width - 10}a5 5 0 0 1 5 5v15h${-width}z` }));
  }
  made.append(shape("text", { class: item.kind === "node" ? "on" : "", x: width / 2, y: 15, "text-anchor": "middle" }, title));
  made.append(shape("text", { class: "small", x: width / 2, y: 32, "text-anchor": "middle" }, line));
  if (weights) made.append(shape("text", { class: "small", x: width / 2, y: 46, "text-anchor": "middle" }, weights));
  return made;
}

export function frame(group, place) {
  const { width, height } = place;
  return shape("g", {
    class: "frame", transform: `translate(${place.x - width / 2} ${place.y - height / 2})`, tabindex: 0, role: "button",
    "data-frame": group.id, "aria-expanded": "true", "aria-label": `${group.label}, open`,
  }, shape("title", {}, `${group.label}: click to close`), shape("rect", { width, height, rx: 8 }),
  shape("text", { class: "small", x: 10, y: 15 }, `− ${cut(group.label, Math.max(8, Math.floor(width / 7)))}`));
}

// The text of an edge: the type of its tensor, or how many tensors there are.
export function label(found, model) {
  return cut(found.tensors.length === 1 ? model.type(found.tensors[0]) : `${found.tensors.length} tensors`, 30);
}

export const LETTER = 6.1, LINE = 13; // width and height of a letter of an edge's text

export function edge(found, model, at) {
  const points = found.points, last = points.at(-1), [first, ...rest] = points;
  let path = `M${first.x} ${first.y}`;
  for (let at = 0; at < rest.length - 1; at += 1) {
    const one = rest[at], next = rest[at + 1];
    const end = at === rest.length - 2 ? next : { x: (one.x + next.x) / 2, y: (one.y + next.y) / 2 };
    path += `Q${one.x} ${one.y} ${end.x} ${end.y}`;
  }
  if (rest.length === 1) path += `L${last.x} ${last.y}`;
  const names = found.tensors.map((tensor) => `${model.tensors[tensor]}${model.type(tensor) ? `: ${model.type(tensor)}` : ""}`);
  const parts = [
    shape("title", {}, names.slice(0, 8).join("\n") + (names.length > 8 ? `\n… ${names.length} tensors` : "")),
    shape("path", { class: "edge", d: path }),
    shape("path", { class: "tip", d: `M${last.x - 3.5} ${last.y - 6}h7l-3.5 6z` }),
  ];
  if (at) parts.push(shape("text", { class: "type", x: at.x, y: at.y }, label(found, model)));
  return shape("g", { class: "wire" }, parts);
}
