// The only tooltip of the page: near the pointer, never beyond the window's edge.
"use strict";

const tooltip = (() => {
  function box() {
    let found = document.getElementById("tooltip");
    if (!found) {
      found = element("div", { id: "tooltip", role: "status", hidden: true });
      document.body.append(found);
    }
    return found;
  }

  // Shows the tooltip. `x` and `y` are positions in the page; `lines`: [{text, color}].
  function show(x, y, title, lines) {
    const shown = box();
    shown.replaceChildren(element("div", { class: "title" }, title));
    for (const line of lines) {
      const row = element("div");
      if (line.color) row.append(element("span", { class: "swatch", style: `background:${line.color}` }));
      row.append(line.text);
      shown.append(row);
    }
    shown.hidden = false;
    const { width, height } = shown.getBoundingClientRect();
    const right = scrollX + document.documentElement.clientWidth - 8;
    const left = x + 14 + width > right ? x - 14 - width : x + 14;
    shown.style.left = `${Math.max(scrollX + 8, Math.min(left, right - width))}px`;
    shown.style.top = `${Math.max(scrollY + 8, y - height - 10)}px`;
  }

  function hide() {
    box().hidden = true;
  }

  // Chart.js calls this instead of drawing its own tooltip.
  function ofChart({ chart, tooltip: model }) {
    if (model.opacity === 0) return hide();
    const place = chart.canvas.getBoundingClientRect();
    const lines = model.body.flatMap((part, i) =>
      part.lines.map((text) => ({ text, color: model.labelColors[i]?.borderColor })),
    );
    lines.push(...model.footer.filter(Boolean).map((text) => ({ text })));
    show(place.left + scrollX + model.caretX, place.top + scrollY + model.caretY, model.title.join(" "), lines);
  }

  return { show, hide, ofChart };
})();
