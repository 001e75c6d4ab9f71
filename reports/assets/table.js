// View "table": {columns: [{key, label, unit, deviation, runs}], rows: [{key: value, note, base,
// marks: {key: text}}], choice}. `deviation` and `runs` name members that are shown next to a mean:
// 2.806 ± 0.012 (5). A click on a column's name sorts by the column, a second click reverses the
// order; rows without a value are always last. With `choice`, boxes remove columns, also from
// copies of the table.
"use strict";

views.table = (body, view) => {
  const numeric = (column) => column.unit !== undefined && column.unit !== "text";
  let sorted = null; // {column, descending}
  let wanted = ""; // text that rows must contain
  let columns = view.columns; // the visible columns

  function compare(a, b) {
    const [x, y] = [a[sorted.column.key], b[sorted.column.key]];
    const [no_x, no_y] = [x ?? null, y ?? null].map((value) => value === null);
    if (no_x || no_y) return no_x - no_y;
    const order =
      typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return sorted.descending ? -order : order;
  }

  function text(row, column) {
    const value = units.format(row[column.key], column.unit);
    const runs = row[column.runs] ?? null;
    if (runs === null) return value;
    const deviation = row[column.deviation] ?? null;
    if (deviation > 0 && column.unit === "number") return `${units.withDeviation(row[column.key], deviation)} (${runs})`;
    const spread = deviation === null ? "" : ` ± ${units.format(Number(deviation.toPrecision(2)), column.unit)}`;
    return `${value}${spread} (${runs})`;
  }

  // The cells of a row. A note replaces the missing values at the row's end, or is under the row's
  // name.
  function cells(row) {
    const last = columns.findLastIndex((column) => (row[column.key] ?? null) !== null);
    const missing = columns.length - 1 - last;
    if (!row.note || missing === 0 || last < 0) return columns.map((column, i) => cell(row, column, i === 0));
    const note = element("td", { class: "row-note", colspan: missing }, element("div", {}, row.note));
    return [...columns.slice(0, last + 1).map((column) => cell(row, column, false)), note];
  }

  function cell(row, column, first) {
    const made = element("td", { class: numeric(column) ? "number" : undefined }, text(row, column));
    const mark = row.marks?.[column.key];
    if (mark) made.append(" ", element("span", { class: "mark" }, mark));
    if (first && row.note) made.append(element("div", { class: "row-note" }, row.note));
    return made;
  }

  const heads = view.columns.map((column) => {
    const button = element("button", { type: "button" }, column.label ?? column.key);
    button.addEventListener("click", () => {
      sorted = { column, descending: sorted?.column === column && !sorted.descending };
      fill();
    });
    return element("th", { scope: "col", class: numeric(column) ? "number" : undefined }, button);
  });
  const head = element("tr");
  const rows = element("tbody");

  function shown() {
    const found = view.rows.filter((row) =>
      columns.some((column) => text(row, column).toLowerCase().includes(wanted)),
    );
    return sorted ? found.sort(compare) : found;
  }

  function fill() {
    head.replaceChildren(...columns.map((column) => heads[view.columns.indexOf(column)]));
    rows.replaceChildren(
      ...shown().map((row) =>
        element("tr", { class: row.base ? "base" : undefined }, ...cells(row)),
      ),
    );
    view.columns.forEach((column, i) => {
      const direction = sorted?.column === column ? (sorted.descending ? "descending" : "ascending") : "none";
      heads[i].setAttribute("aria-sort", direction);
    });
  }

  const controls = element("div", { class: "controls" });
  if (view.rows.length > 8 || view.choice) body.append(controls);
  if (view.rows.length > 8) {
    const search = element("input", { type: "search", "aria-label": "show rows that contain", "placeholder": "filter" });
    search.addEventListener("input", () => {
      wanted = search.value.toLowerCase();
      fill();
    });
    controls.append(search);
  }
  // The first column names the rows, and cannot be removed.
  if (view.choice) {
    const boxes = element("div", { class: "choices", hidden: true });
    const out = new Set();
    for (const column of view.columns.slice(1)) {
      charts.checkbox(boxes, column.label ?? column.key, true, (on) => {
        on ? out.delete(column) : out.add(column);
        columns = view.columns.filter((each) => !out.has(each));
        fill();
      });
    }
    const button = element("button", { type: "button", "aria-expanded": "false" }, "columns");
    button.addEventListener("click", () => {
      boxes.hidden = !boxes.hidden;
      button.setAttribute("aria-expanded", String(!boxes.hidden));
    });
    controls.append(button);
    body.append(boxes);
  }
  body.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), rows)));
  fill();

  const beside = (column) => ["deviation", "runs"].filter((member) => column[member]);

  // Copies have the current order and filter.
  save.table(body, () => ({
    heads: columns.map((column) => ({ text: column.label ?? column.key, unit: column.unit, number: numeric(column), beside: beside(column) })),
    rows: shown().map((row) => ({
      cells: columns.map((column) => ({
        text: text(row, column),
        value: row[column.key] ?? null,
        beside: beside(column).map((member) => row[column[member]] ?? null),
        mark: row.marks?.[column.key],
      })),
      note: row.note,
    })),
  }));
};
