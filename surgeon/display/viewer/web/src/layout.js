// Where boxes go: dagre's layers from top to bottom, open groups around what is in them.
import * as dagre from "@dagrejs/dagre";

const MANY = 350; // edges beyond which a quicker ranking is used
const PAD = 12, HEAD = 24;

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
