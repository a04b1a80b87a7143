// The two places where the view stands: a notebook, through anywidget, and a page of a local server.
import { View } from "./view.js";

// A notebook: what is asked goes to the kernel as a message, and what is selected as the state of the widget.
function render({ model, el }) {
  const waiting = new Map(), hidden = document.createElement("style");
  // The picture beside the view is for where no kernel answers; a rule hides it whenever it comes onto the page.
  const still = `.${CSS.escape(model.get("still"))}`;
  const hiding = `${still} { display: none } .jp-OutputArea-child:has(${still}) { display: none }`;
  document.head.append(hidden);
  let count = 0;
  const hear = (message) => {
    const { id, answer, error } = message, found = waiting.get(id);
    waiting.delete(id);
    if (found) hidden.textContent = hiding;
    if (found) error ? found.reject(new Error(error)) : found.resolve(answer);
  };
  model.on("msg:custom", hear);
  const host = {
    ask: (kind, given) => new Promise((resolve, reject) => {
      count += 1;
      waiting.set(count, { resolve, reject });
      model.send({ id: count, kind, given });
    }),
    select: (selection) => {
      model.set("picked", selection);
      model.save_changes();
    },
    marks: () => model.get("marks"),
  };
  const view = new View(el, host, model.get("height"));
  const marked = () => view.mark(model.get("marks"));
  model.on("change:marks", marked);
  view.start();
  return () => {
    model.off("msg:custom", hear);
    model.off("change:marks", marked);
    view.end();
    hidden.remove();
  };
}

// A page: what is asked is a request to where the page came from.
export function mount(el, token) {
  const host = {
    ask: async (kind, given) => {
      const answer = await fetch("ask", {
        method: "POST",
        headers: { "content-type": "application/json", "x-surgeon-token": token },
        body: JSON.stringify({ kind, given }),
      });
      const told = await answer.json();
      if (told.error) throw new Error(told.error);
      return told.answer;
    },
    select: () => {},
    marks: () => null,
  };
  const view = new View(el, host, "100%");
  view.start();
  return view;
}

export default { render };
