// View "matrix": {rows, columns, counts: [[…], …], names}. A table of counts, such as a confusion
// matrix. The darkness of a cell is its share of its row. `rows` and `columns` say what the
// dimensions mean. `names`, if given, are the names of the classes.
"use strict";

views.matrix = (body, view) => {
  const kMostNumbers = 32; // with more classes, cells have room only for colours
  const classes = view.counts.map((_, i) => view.names?.[i] ?? String(i));
  const sums = view.counts.map((row) => row.reduce((sum, count) => sum + count, 0));
  const share = (row, column) => (sums[row] === 0 ? null : view.counts[row][column] / sums[row]);
  const numbers = classes.length <= kMostNumbers;

  const heads = [`${view.rows} \\ ${view.columns}`, ...classes, "on the diagonal"];
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col", class: "number" }, text)));
  const rows = view.counts.map((counts, row) => {
    const cells = counts.map((count, column) => {
      const dark = `${Math.round(80 * (share(row, column) ?? 0))}%`;
      const title = `${view.rows} ${classes[row]}, ${view.columns} ${classes[column]}: ${count}`;
      const style = `background: color-mix(in srgb, var(${row === column ? "--accent" : "--warning"}) ${dark}, transparent)`;
      return element("td", { class: "number", style, title }, numbers ? String(count) : "");
    });
    const right = element("td", { class: "number" }, units.format(share(row, row), "percent"));
    return element("tr", {}, element("th", { scope: "row", class: "number" }, classes[row]), ...cells, right);
  });
  body.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));

  save.table(body, () => ({
    heads: heads.map((text, i) => ({ text, number: i > 0 })),
    rows: view.counts.map((counts, row) => ({
      cells: [
        { text: classes[row] },
        ...counts.map((count) => ({ text: String(count), value: count })),
        { text: units.format(share(row, row), "percent"), value: share(row, row) },
      ],
    })),
  }));
};
