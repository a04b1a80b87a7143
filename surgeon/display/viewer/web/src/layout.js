// Where boxes go: dagre's layers from top to bottom, open groups around what is in them.
import * as dagre from "@dagrejs/dagre";

const MANY = 350; // edges beyond which a quicker ranking is used
const PAD = 12, HEAD = 24;

// Positions of the texts of edges: each beside its line where it covers no box and no other text; none where there is no room.
export function labelled(layout, textOf, letter, line) {
  const taken = [...layout.boxes.values()].map((box) => rectangle(box.x - box.width / 2, box.y - box.height / 2, box.width, box.height));
  const seen = new Set(), found = new Map();
  for (const edge of layout.edges) {
    const text = textOf(edge), once = `${edge.source} ${text}`;
    if (!text || seen.has(once)) continue; // one tensor that several boxes read has one text
    for (const part of [0.5, 0.3, 0.7, 0.15, 0.85]) {
      const point = along(edge.points, part), room = rectangle(point.x + 4, point.y - line / 2, text.length * letter, line);
      if (taken.some((other) => meet(room, other))) continue;
      taken.push(room);
      seen.add(once);
      found.set(edge, { x: room.left, y: room.top + line - 3 });
      break;
    }
  }
  return found;
}

function rectangle(left, top, width, height) {
  return { left, top, right: left + width, bottom: top + height };
}

function meet(one, other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}

// The point of a polyline at a part of its length.
function along(points, part) {
  const lengths = points.slice(1).map((point, at) => Math.hypot(point.x - points[at].x, point.y - points[at].y));
  let left = part * lengths.reduce((sum, length) => sum + length, 0);
  for (const [at, length] of lengths.entries()) {
    if (left <= length && length) {
      const share = left / length, from = points[at], to = points[at + 1];
      return { x: from.x + share * (to.x - from.x), y: from.y + share * (to.y - from.y) };
    }
    left -= length;
  }
  return points.at(-1);
}

export function arrange(sight, size) {
  const graph = new dagre.graphlib.Graph({ compound: true });
  graph.setGraph({
    rankdir: "TB", nodesep: 18, edgesep: 8, ranksep: 34, marginx: 16, marginy: 16,
    ranker: sight.edges.length > MANY ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const group of sight.groups) graph.setNode(`c${group.id}`, {});
  for (const item of sight.items.values()) graph.setNode(item.key, size(item));
  const shown = new Set(sight.groups.map((group) => group.id));
  for (const group of sight.groups) if (shown.has(group.parent)) graph.setParent(`c${group.id}`, `c${group.parent}`);
  for (const item of sight.items.values()) if (shown.has(item.parent)) graph.setParent(item.key, `c${item.parent}`);
  for (const edge of sight.edges) graph.setEdge(edge.source, edge.target, {});
  dagre.layout(graph);
  const boxes = new Map();
  for (const item of sight.items.values()) boxes.set(item.key, graph.node(item.key));
  const frames = new Map(), inner = new Map();
  const depth = (group) => (shown.has(group.parent) ? 1 + depth(byId.get(group.parent)) : 0);
  const byId = new Map(sight.groups.map((group) => [group.id, group]));
  for (const item of sight.items.values()) if (shown.has(item.parent)) push(inner, item.parent, boxes.get(item.key));
  for (const group of [...sight.groups].sort((one, other) => depth(other) - depth(one))) {
    const frame = around(inner.get(group.id));
    frames.set(group.id, frame);
    if (shown.has(group.parent)) push(inner, group.parent, frame);
  }
  const edges = sight.edges.map((edge) => ({ ...edge, points: graph.edge(edge.source, edge.target).points }));
  const all = around([...boxes.values(), ...frames.values()]);
  return { boxes, frames, edges, all };
}

function push(map, key, value) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
}

function around(boxes) {
  const left = Math.min(...boxes.map((box) => box.x - box.width / 2)) - PAD;
  const right = Math.max(...boxes.map((box) => box.x + box.width / 2)) + PAD;
  const top = Math.min(...boxes.map((box) => box.y - box.height / 2)) - HEAD;
  const bottom = Math.max(...boxes.map((box) => box.y + box.height / 2)) + PAD;
  return { x: (left + right) / 2, y: (top + bottom) / 2, width: right - left, height: bottom - top };
}
