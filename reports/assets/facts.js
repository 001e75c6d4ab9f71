// Views of text: "facts" {rows: [[name, value], …]}, "text" {summary, text}, "notice" {text}, and
// "tiles" {tiles: [{label, value, unit}]}.
"use strict";

views.facts = (body, view) => {
  const table = element("table");
  for (const [name, value] of view.rows) {
    table.append(element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, String(value))));
  }
  body.append(element("div", { class: "scroll" }, table));
  const heads = ["", ""].map((text) => ({ text }));
  save.table(body, () => ({ heads, rows: view.rows.map((row) => ({ cells: row.map((text) => ({ text: String(text) })) })) }));
};

views.notice = (body, view) => {
  body.append(element("p", { class: "notice", role: "note" }, view.text));
};

views.text = (body, view) => {
  body.append(element("details", {}, element("summary", {}, view.summary), element("pre", {}, view.text)));
};

views.tiles = (body, view) => {
  const row = element("div", { class: "tile-row" });
  for (const tile of view.tiles) {
    row.append(
      element(
        "div",
        { class: "tile" },
        element("div", { class: "label" }, tile.label),
        element("div", { class: "value" }, units.format(tile.value, tile.unit)),
      ),
    );
  }
  body.append(row);
};
