// The drawing as a file: SVG with its own style, or PNG of twice the size.
import { shape } from "./drawing.js";

const LARGEST = 8192; // pixels of a side that browsers draw on a canvas
const MARGIN = 10;

// box: what is drawn, texts of edges included.
export function picture(drawing, box, frame, style) {
  const made = drawing.cloneNode(true), shown = getComputedStyle(frame);
  const left = box.x - MARGIN, top = box.y - MARGIN;
  const all = { width: box.width + 2 * MARGIN, height: box.height + 2 * MARGIN };
  made.firstChild.removeAttribute("transform");
  made.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  made.setAttribute("viewBox", `${left} ${top} ${all.width} ${all.height}`);
  made.setAttribute("width", all.width);
  made.setAttribute("height", all.height);
  const names = new Set(style.match(/--[a-z]+/g));
  made.setAttribute("style", [...names].map((name) => `${name}:${shown.getPropertyValue(name).trim()}`).join(";"));
  made.setAttribute("font-family", "system-ui, sans-serif");
  made.prepend(shape("style", {}, style), shape("rect", { x: left, y: top, width: all.width, height: all.height, fill: "var(--ground)" }));
  const text = new XMLSerializer().serializeToString(made);
  return { svg: () => new Blob([text], { type: "image/svg+xml" }), png: () => raster(text, all) };
}

async function raster(text, all) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`; // the page's policy allows no other
  await image.decode();
  const scale = Math.min(2, LARGEST / all.width, LARGEST / all.height);
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(all.width * scale);
  canvas.height = Math.ceil(all.height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}

export function saved(blob, name) {
  const address = URL.createObjectURL(blob), link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
