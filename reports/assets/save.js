// Saves charts as files (SVG, PNG) and copies tables as text (CSV, Markdown, LaTeX), by small
// buttons in the corner of a section or figure.
"use strict";

const save = (() => {
  const kWidth = 880; // width of a saved chart in pixels; a PNG has three times as many
  const kMargin = 14;

  // Adds the buttons for `made`, one word each, to that corner, and removes earlier ones.
  function buttons(body, verb, made) {
    const host = body.closest("figure, section");
    host.querySelector(":scope > .save")?.remove();
    const row = element("div", { class: "save" }, `${verb} `);
    for (const [name, title, act] of made) {
      const button = element("button", { type: "button", title }, name);
      button.addEventListener("click", () => act(button));
      row.append(button);
    }
    host.append(row);
  }

  // --- Charts: {title, height: (width) => pixels, legend: () => [{name, color}], paint: (canvas) => draws on it}.

  function chart(body, { title, ...more }) {
    // In a section of several charts, the chart's own name says little without the section's.
    const section = body.closest("section").querySelector("h2")?.textContent;
    const drawing = { ...more, title: !section || title.startsWith(section) ? title : `${section}: ${title}` };
    const name = fileName(drawing.title);
    buttons(body, "save", [
      ["SVG", "save this chart as vector graphics", () => download(`${name}.svg`, new Blob([svg(drawing)], { type: "image/svg+xml" }))],
      ["PNG", "save this chart as pixels", () => png(svg(drawing)).then((blob) => download(`${name}.png`, blob))],
    ]);
  }

  // Draws the chart below its title and above its legend, on white.
  function svg({ title, height: heightFor, legend, paint }) {
    return theme.onPaper(() => {
      const [top, height] = [38, heightFor(kWidth)];
      const context = new SvgContext(kWidth - kMargin, height, top);
      context.setTransform(1, 0, 0, 1, 0, -top);
      const entries = rows(context, legend());
      const whole = top + height + 20 * entries.length + kMargin;
      context.fillStyle = theme.color("background");
      context.fillRect(0, 0, kWidth, whole);
      context.fillStyle = theme.color("text");
      context.font = `bold 15px ${theme.font}`;
      context.fillText(title, kMargin, 24);
      context.font = `12px ${theme.font}`;
      entries.forEach((row, i) => {
        for (const { x, name, color } of row) {
          const y = top + height + 20 * i + 14;
          context.fillStyle = color;
          context.fillRect(x, y - 9, 10, 10);
          context.fillStyle = theme.color("text");
          context.fillText(name, x + 15, y);
        }
      });
      context.resetTransform();
      paint(context.canvas);
      return context.document(kWidth, whole);
    });
  }

  // The entries of a legend, broken into rows.
  function rows(context, legend) {
    const made = [];
    let x = kWidth;
    context.font = `12px ${theme.font}`;
    for (const { name, color } of legend) {
      const width = 32 + context.measureText(name).width;
      if (x + width > kWidth - kMargin) {
        made.push([]);
        x = kMargin;
      }
      made.at(-1).push({ x, name, color });
      x += width;
    }
    return made;
  }

  async function png(text) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = element("canvas", { width: 3 * image.width, height: 3 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  function fileName(title) {
    const words = `${document.title} ${title}`.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ["chart"];
    return words.join("-").slice(0, 120);
  }

  function download(name, blob) {
    const link = element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  // --- Tables: `read()` returns {heads: [{text, unit, number, beside: [name]}], rows: [{cells:
  // [{text, value, beside, mark}], note}]}. A cell's `text` is what is shown; `value` is given if
  // it differs from the text, null if it is missing. `beside` has further values that the text
  // contains, named by `beside` of the head. `mark` and `note` are small print of a cell and of a
  // row.

  function table(body, read) {
    const ways = Object.entries({ CSV: csv, Markdown: markdown, LaTeX: latex });
    buttons(
      body,
      "copy",
      ways.map(([name, write]) => [name, `copy this table as ${name}`, (button) => copy(write(read()), button)]),
    );
  }

  function copy(text, button) {
    const done = () => {
      button.classList.add("done");
      setTimeout(() => button.classList.remove("done"), 1500);
    };
    // Shows the text in a box instead: some browsers refuse the clipboard to pages from disk.
    const otherwise = () => {
      const box = element("textarea", {}, text);
      document.body.append(box);
      box.select();
      document.execCommand("copy");
      box.remove();
      done();
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, otherwise);
    else otherwise();
  }

  const line = (text) => text.replace(/\s+/g, " ").trim();

  // CSV (RFC 4180): values have all their digits, in the units that the heads name; small print has
  // a column of its own.
  function csv({ heads, rows }) {
    const kUnits = { bytes: "bytes", ms: "ms", joules: "J", percent: "share" };
    const quoted = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const notes = rows.map(({ cells, note }) => {
      const marks = cells.map(({ mark }, i) => (mark ? `${heads[i].text}: ${mark}` : ""));
      return [...marks, note ?? ""].filter(Boolean).join("; ");
    });
    const noted = notes.some(Boolean);
    const named = (text, unit) => (kUnits[unit] ? `${text} (${kUnits[unit]})` : text);
    const lines = rows.map(({ cells }, i) => [
      ...cells.flatMap(({ text, value = text, beside = [] }) => [value, ...beside].map((each) => String(each ?? ""))),
      ...(noted ? [notes[i]] : []),
    ]);
    const head = [
      ...heads.flatMap(({ text, unit, beside = [] }) => ["", ...beside].map((name) => named(`${text} ${name}`.trim(), name === "runs" ? "" : unit))),
      ...(noted ? ["note"] : []),
    ];
    return [...(head.some(Boolean) ? [head] : []), ...lines].map((row) => `${row.map(quoted).join(",")}\r\n`).join("");
  }

  // The texts of a row. A note replaces the missing values at the row's end, or follows its name.
  function texts({ cells, note }) {
    const made = cells.map(({ text, mark }) => line(mark ? `${text} (${mark})` : text));
    if (!note) return made;
    const last = cells.findLastIndex(({ value }) => value !== null);
    if (last + 1 < cells.length) return [...made.slice(0, last + 1), line(note)];
    return [`${made[0]} (${line(note)})`, ...made.slice(1)];
  }

  function markdown({ heads, rows }) {
    const plain = (text) => text.replace(/[\\`*_{}[\]<>#|~&$]/g, "\\$&");
    const row = (cells) => `| ${heads.map((_, i) => cells[i] ?? "").join(" | ")} |\n`;
    return (
      row(heads.map(({ text }) => plain(line(text)))) +
      row(heads.map(({ number }) => (number ? "---:" : "---"))) +
      rows.map((each) => row(texts(each).map(plain))).join("")
    );
  }

  // A LaTeX table with the rules of the package booktabs.
  function latex({ heads, rows }) {
    const end = " \\\\\n";
    const body = rows.map((row) => {
      const cells = texts(row).map(tex);
      const missing = heads.length - cells.length;
      if (missing > 0) cells.push(`\\multicolumn{${missing + 1}}{l}{${cells.pop()}}`);
      return cells.join(" & ") + end;
    });
    const head = heads.some(({ text }) => text) ? `${heads.map(({ text }) => tex(line(text))).join(" & ")}${end}\\midrule\n` : "";
    const columns = heads.map(({ number }) => (number ? "r" : "l")).join("");
    return `% \\usepackage{booktabs}\n\\begin{tabular}{${columns}}\n\\toprule\n${head}${body.join("")}\\bottomrule\n\\end{tabular}\n`;
  }

  function tex(text) {
    const kNames = {
      "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}",
      "|": "\\textbar{}", '"': "\\char34{}", "–": "--", "—": "---", "…": "\\dots{}", "×": "$\\times$", "±": "$\\pm$",
      "≤": "$\\le$", "≥": "$\\ge$", "·": "$\\cdot$", "µ": "$\\mu$", "→": "$\\to$", "−": "$-$",
    };
    // Protects "[" and "*" at the start: after the end of a row, LaTeX would read them as
    // arguments.
    return text.replace(/[\\{}$&#%_~^<>|"–—…×±≤≥·µ→−]/g, (c) => kNames[c] ?? `\\${c}`).replace(/^[[*]/, "{$&}");
  }

  return { chart, table };
})();
