// A drawing context that produces an SVG document. It has the part of a canvas's context that
// Chart.js and the views use. Transforms may move, rotate and scale evenly; text stays text.
"use strict";

class SvgContext {
  static kState = {
    fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineCap: "butt", lineJoin: "miter", lineDashOffset: 0,
    font: "10px sans-serif", textAlign: "start", textBaseline: "alphabetic", globalAlpha: 1, dash: [], clipped: "", matrix: [1, 0, 0, 1, 0, 0],
  };
  #saved = [];
  #parts = [];
  #path = [];
  #clips = 0;
  #ruler = document.createElement("canvas").getContext("2d");

  // Draws on width × height pixels that begin at `top` of the document.
  constructor(width, height, top = 0) {
    this.canvas = { width, height, style: {}, getContext: () => this };
    this.top = top;
    Object.assign(this, SvgContext.kState);
    this.resetTransform();
  }

  // The complete document of width × height pixels.
  document(width, height) {
    const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`;
    return `<?xml version="1.0" encoding="UTF-8"?>\n${head}\n${this.#parts.join("\n")}\n</svg>\n`;
  }

  save() {
    this.#saved.push(Object.fromEntries(Object.keys(SvgContext.kState).map((key) => [key, this[key]])));
  }
  restore() {
    Object.assign(this, this.#saved.pop());
  }

  resetTransform() {
    this.matrix = [1, 0, 0, 1, 0, this.top];
  }
  setTransform(...matrix) {
    this.resetTransform();
    this.transform(...matrix);
  }
  transform(a, b, c, d, e, f) {
    const [p, q, r, s, t, u] = this.matrix;
    this.matrix = [p * a + r * b, q * a + s * b, p * c + r * d, q * c + s * d, p * e + r * f + t, q * e + s * f + u];
  }
  translate(x, y) {
    this.transform(1, 0, 0, 1, x, y);
  }
  rotate(angle) {
    this.transform(Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle), 0, 0);
  }
  scale(x, y) {
    this.transform(x, 0, 0, y, 0, 0);
  }

  setLineDash(dash) {
    this.dash = dash;
  }
  getLineDash() {
    return this.dash;
  }

  // --- Paths.

  beginPath() {
    this.#path = [];
  }
  closePath() {
    this.#path.push("Z");
  }
  moveTo(x, y) {
    this.#path.push(`M${this.#place(x, y)}`);
  }
  lineTo(x, y) {
    this.#path.push(`${this.#path.length ? "L" : "M"}${this.#place(x, y)}`);
  }
  bezierCurveTo(...at) {
    this.#path.push(`C${this.#place(at[0], at[1])} ${this.#place(at[2], at[3])} ${this.#place(at[4], at[5])}`);
  }
  quadraticCurveTo(...at) {
    this.#path.push(`Q${this.#place(at[0], at[1])} ${this.#place(at[2], at[3])}`);
  }
  rect(x, y, width, height) {
    const corners = [this.#place(x, y), this.#place(x + width, y), this.#place(x + width, y + height), this.#place(x, y + height)];
    this.#path.push(`M${corners.join("L")}Z`);
  }
  arc(x, y, radius, from, to, backwards = false) {
    const turn = 2 * Math.PI;
    let sweep = backwards ? from - to : to - from;
    if (sweep < turn) sweep = ((sweep % turn) + turn) % turn;
    const at = (angle) => [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
    const sign = backwards ? -1 : 1;
    this.lineTo(...at(from));
    // One arc of SVG must be less than a full turn.
    const pieces = sweep >= turn ? 2 : 1;
    const part = Math.min(sweep, turn) / pieces;
    const length = this.#number(radius * this.#size());
    for (let i = 1; i <= pieces; ++i) {
      const end = this.#place(...at(from + sign * i * part));
      this.#path.push(`A${length} ${length} 0 ${part > Math.PI ? 1 : 0} ${backwards ? 0 : 1} ${end}`);
    }
    if (pieces === 2) this.closePath();
  }

  fill() {
    this.#draw(this.#path, `${this.#color("fill", this.fillStyle)} stroke="none"`);
  }
  stroke() {
    this.#draw(this.#path, `fill="none"${this.#line()}`);
  }
  clip() {
    const id = `clip${++this.#clips}`;
    this.#parts.push(`<clipPath id="${id}"${this.clipped}><path d="${this.#path.join("")}"/></clipPath>`);
    this.clipped = ` clip-path="url(#${id})"`;
  }

  fillRect(...box) {
    this.#alone(box, () => this.fill());
  }
  strokeRect(...box) {
    this.#alone(box, () => this.stroke());
  }
  clearRect() {}

  // --- Text.

  measureText(text) {
    this.#ruler.font = this.font;
    return this.#ruler.measureText(text);
  }
  fillText(text, x, y) {
    this.#text(text, x, y, ` ${this.#color("fill", this.fillStyle)}`);
  }
  strokeText(text, x, y) {
    this.#text(text, x, y, ` fill="none"${this.#line()}`);
  }

  #text(text, x, y, paint) {
    const [, style, size, family] = this.font.match(/^(.*?)([\d.]+)px(?:\/\S+)?\s+(.*)$/);
    const anchor = { center: "middle", right: "end", end: "end" }[this.textAlign];
    // Not all programs draw other baselines than the usual one alike, so these are computed here.
    const down = { middle: 0.35, top: 0.8, hanging: 0.8, bottom: -0.2, ideographic: -0.2 }[this.textBaseline] ?? 0;
    const [a, b] = this.matrix;
    const at = this.#place(x, y + down * size).split(" ");
    const turn = b === 0 ? "" : ` transform="rotate(${this.#number((Math.atan2(b, a) * 180) / Math.PI)} ${at.join(" ")})"`;
    const weight = /bold|[6-9]00/.test(style) ? ' font-weight="bold"' : "";
    const font = ` font-family="${SvgContext.escape(family)}" font-size="${this.#number(size * this.#size())}"${weight}`;
    this.#parts.push(
      `<text x="${at[0]}" y="${at[1]}"${font}${anchor ? ` text-anchor="${anchor}"` : ""}${paint}${turn}${this.clipped}>${SvgContext.escape(text)}</text>`,
    );
  }

  // Characters that XML cannot contain become U+FFFD.
  static escape(text) {
    const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
    return String(text)
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
      .replace(/[&<>"]/g, (character) => entities[character]);
  }

  // --- Helpers.

  #alone(box, draw) {
    const path = this.#path;
    this.beginPath();
    this.rect(...box);
    draw();
    this.#path = path;
  }

  #draw(path, paint) {
    if (path.length > 0) this.#parts.push(`<path d="${path.join("")}" ${paint}${this.clipped}/>`);
  }

  #line() {
    const more = [
      this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "",
      this.lineDashOffset ? ` stroke-dashoffset="${this.lineDashOffset}"` : "",
      this.lineCap === "butt" ? "" : ` stroke-linecap="${this.lineCap}"`,
      this.lineJoin === "miter" ? "" : ` stroke-linejoin="${this.lineJoin}"`,
    ];
    return ` ${this.#color("stroke", this.strokeStyle)} stroke-width="${this.#number(this.lineWidth * this.#size())}"${more.join("")}`;
  }

  // Splits transparency from colours: not every program knows transparent colours.
  #color(name, color) {
    let alpha = this.globalAlpha;
    const hex = /^(#[0-9a-f]{6})([0-9a-f]{2})$/i.exec(color);
    const rgba = /^rgba\((.*),\s*([\d.]+)\)$/.exec(color);
    if (hex) [color, alpha] = [hex[1], (alpha * parseInt(hex[2], 16)) / 255];
    if (rgba) [color, alpha] = [`rgb(${rgba[1]})`, alpha * rgba[2]];
    return `${name}="${SvgContext.escape(color)}"${alpha < 1 ? ` ${name}-opacity="${this.#number(alpha)}"` : ""}`;
  }

  #size() {
    return Math.hypot(this.matrix[0], this.matrix[1]);
  }
  #place(x, y) {
    const [a, b, c, d, e, f] = this.matrix;
    return `${this.#number(a * x + c * y + e)} ${this.#number(b * x + d * y + f)}`;
  }
  #number(value) {
    return String(Math.round(value * 100) / 100);
  }
}
