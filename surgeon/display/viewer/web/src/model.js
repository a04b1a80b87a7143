// The graph as the page has it: who makes and reads each tensor, which groups are around each node, what is in sight.

export class Model {
  constructor(data) {
    this.data = data;
    this.title = data.title;
    this.tensors = data.tensors;
    this.nodes = data.nodes.name.map((name, id) => ({
      id, name, op: data.ops[data.nodes.op[id]], kind: data.kinds[data.nodes.op[id]],
      category: data.categories[data.nodes.op[id]], group: data.nodes.group[id],
      inputs: data.nodes.inputs[id], outputs: data.nodes.outputs[id],
    }));
    this.groups = data.groups.label.map((label, id) => ({
      id, label, parent: data.groups.parent[id], kind: data.groups.kind[id], count: data.groups.count[id],
    }));
    this.stored = new Set(data.stored);
    this.inputs = data.inputs;
    this.outputs = data.outputs;
    this.types = null;
    this.producer = new Int32Array(this.tensors.length).fill(-1);
    this.readers = this.tensors.map(() => []);
    for (const node of this.nodes) {
      for (const tensor of node.outputs) this.producer[tensor] = node.id;
      for (const tensor of new Set(node.inputs)) this.readers[tensor].push(node.id);
    }
    this.around = this.groups.map((group) => this.chain(group));
  }

  // A group and those around it, outermost first; the root, which is always open, left out.
  chain(group) {
    const found = [];
    for (let one = group; one.parent >= 0; one = this.groups[one.parent]) found.unshift(one.id);
    return found;
  }

  type(tensor) {
    return this.types ? this.types.table[this.types.of[tensor]] : "";
  }

  // The shapes of the weights that a node reads, as in 64×256; scalars, sizes and axes are left out.
  weights(node) {
    const types = node.inputs.filter((tensor) => this.stored.has(tensor)).map((tensor) => this.type(tensor));
    return types.filter((type) => !type.startsWith("int64")).map(shapeOf).filter((shape) => shape && shape !== "1").join(" · ");
  }

  sources(node) {
    return node.inputs.filter((tensor) => this.producer[tensor] >= 0).map((tensor) => this.producer[tensor]);
  }

  targets(node) {
    return node.outputs.flatMap((tensor) => this.readers[tensor]);
  }

  nodesIn(group) {
    return this.nodes.filter((node) => node.group === group || this.around[node.group].includes(group));
  }

  // Boxes that are in sight, and the tensors that go from one to another.
  sight(open, filter, flat) {
    const items = new Map(), edges = new Map(), where = new Array(this.nodes.length);
    const add = (key, item) => {
      if (!items.has(key)) items.set(key, { key, ...item });
      return items.get(key);
    };
    const shown = filter ? this.nodes.filter((node) => filter.has(node.id)) : this.nodes;
    for (const node of shown) {
      const chain = flat ? [] : this.around[node.group];
      const closed = chain.find((group) => !open.has(group));
      if (closed === undefined) {
        where[node.id] = `n${node.id}`;
        add(`n${node.id}`, { kind: "node", node, parent: flat ? undefined : chain.at(-1) });
      } else {
        const group = this.groups[closed], parent = chain[chain.indexOf(closed) - 1];
        where[node.id] = `g${closed}`;
        const item = add(`g${closed}`, { kind: "group", group, parent, nodes: [] });
        item.nodes.push(node.id);
      }
    }
    const link = (source, target, tensor) => {
      if (source === target) return;
      const key = `${source} ${target}`;
      if (!edges.has(key)) edges.set(key, { source, target, tensors: [] });
      const found = edges.get(key).tensors;
      if (!found.includes(tensor)) found.push(tensor);
    };
    for (const node of shown) {
      for (const tensor of node.inputs) {
        if (this.stored.has(tensor)) continue;
        const maker = this.producer[tensor];
        if (maker >= 0) {
          if (where[maker]) link(where[maker], where[node.id], tensor);
        } else { // an input, or what a body reads of the graph around it
          link(add(`i${tensor}`, { kind: "input", tensor }).key, where[node.id], tensor);
        }
      }
    }
    for (const tensor of this.outputs) {
      const maker = this.producer[tensor];
      if (maker >= 0 && where[maker]) link(where[maker], add(`o${tensor}`, { kind: "output", tensor }).key, tensor);
    }
    const groups = new Set();
    for (const item of items.values()) {
      for (let group = item.parent; group !== undefined && group > 0; group = this.groups[group].parent) {
        if (open.has(group)) groups.add(group);
      }
    }
    return { items, edges: [...edges.values()], groups: [...groups].map((id) => this.groups[id]) };
  }

  // Nodes whose name, op, scopes, tensors or their types have all words of a text, in the order of the file.
  search(text, most) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean), found = [];
    let count = 0;
    if (!words.length) return { found, count };
    for (const node of this.nodes) {
      const scopes = this.around[node.group].map((group) => this.groups[group].label);
      const told = [node.name, node.op, ...scopes, ...[...node.inputs, ...node.outputs].flatMap(
        (tensor) => [this.tensors[tensor], this.type(tensor)])].map((one) => one.toLowerCase());
      if (words.every((word) => told.some((one) => one.includes(word)))) {
        count += 1;
        if (found.length < most) found.push(node);
      }
    }
    return { found, count };
  }

  // Nodes at most some steps from others.
  near(ids, steps) {
    const seen = new Set(ids);
    let edge = [...ids];
    for (let step = 0; step < steps; step += 1) {
      const next = [];
      for (const id of edge) {
        for (const other of [...this.sources(this.nodes[id]), ...this.targets(this.nodes[id])]) {
          if (!seen.has(other)) {
            seen.add(other);
            next.push(other);
          }
        }
      }
      edge = next;
    }
    return seen;
  }

  // Nodes on any way from some tensors to others.
  between(froms, tos) {
    const walk = (start, step) => {
      const seen = new Set(start), waiting = [...seen];
      while (waiting.length) {
        for (const other of step(this.nodes[waiting.pop()])) {
          if (!seen.has(other)) {
            seen.add(other);
            waiting.push(other);
          }
        }
      }
      return seen;
    };
    const cut = new Set(froms), end = new Set(tos);
    const before = (node) => node.inputs.filter((tensor) => !cut.has(tensor) && this.producer[tensor] >= 0)
      .map((tensor) => this.producer[tensor]);
    const behind = (node) => node.outputs.filter((tensor) => !end.has(tensor)).flatMap((tensor) => this.readers[tensor]);
    const up = walk([...end].map((tensor) => this.producer[tensor]).filter((id) => id >= 0), before);
    if (!cut.size) return up;
    const down = walk([...cut].flatMap((tensor) => this.readers[tensor]), behind);
    return new Set([...up].filter((id) => down.has(id)));
  }
}

// The sizes in the text of a type: "float32[64,256]" has 64×256, and a scalar has none.
function shapeOf(type) {
  return (type.match(/\[(.*)\]$/)?.[1] ?? "").split(",").map((size) => size.trim()).join("×");
}
