"use strict";
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.type = "button"; button.append(...head.childNodes); head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const order = (one, two) => typeof one === "number" ? one - two : one.localeCompare(two, undefined, {numeric: true});
      const keyed = [...body.rows].map((row) => [row, key(row)]);
      const numbers = keyed.every(([, value]) => value !== "" && !Number.isNaN(Number(value)));
      keyed.forEach((pair) => { if (numbers) pair[1] = Number(pair[1]); });
      keyed.sort((one, two) => (down ? -1 : 1) * order(one[1], two[1]));
      body.append(...keyed.map(([row]) => row));
    });
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => { fold.open = true; }));
