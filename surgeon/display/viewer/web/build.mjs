// Bundles src/ and the layout library into one module, with a note of what it was made of and under which licence.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const sources = readdirSync("src").sort();
const digest = createHash("sha256");
for (const name of sources) digest.update(readFileSync(`src/${name}`));
const library = JSON.parse(readFileSync("node_modules/@dagrejs/dagre/package.json", "utf8"));
const licence = readFileSync("node_modules/@dagrejs/dagre/LICENSE", "utf8").trim();
const banner = [
  "/*",
  " Made of surgeon/display/viewer/web/src by `npm ci && npm run build` there; do not edit.",
  ` sources: ${digest.digest("hex")}`,
  ` It holds @dagrejs/dagre ${library.version}:`,
  licence.replaceAll("*/", "* /"),
  "*/",
].join("\n");
const made = await build({
  entryPoints: ["src/widget.js"],
  bundle: true,
  charset: "utf8",
  format: "esm",
  legalComments: "none",
  minify: true,
  loader: { ".css": "text" },
  target: "es2022",
  write: false,
});
writeFileSync("../view.js", `${banner}\n${made.outputFiles[0].text}`);
