// Functions shared by the views that use Chart.js: axes, legends, zoom, lines across a chart.
"use strict";

const charts = (() => {
  Chart.defaults.font.family = theme.font;
  const drawn = [];
  const legends = []; // {entries, of}: arguments of legend()

  function clear() {
    legends.length = 0;
    for (const chart of drawn.splice(0)) chart.destroy();
    tooltip.hide();
  }

  // A Chart.js scale for the axis {label, unit, log}. An axis of bytes has ticks at round numbers
  // of bytes.
  function scale(axis, extra = {}) {
    const made = {
      type: axis.log ? "logarithmic" : "linear",
      title: { display: Boolean(axis.label), text: axis.label, color: () => theme.color("quiet") },
      grid: { color: () => theme.color("grid"), drawBorder: false, tickLength: 4 },
      ticks: {
        color: () => theme.color("quiet"),
        maxRotation: 0,
        autoSkipPadding: 12,
        includeBounds: false, // the axis may end close to a round number
        maxTicksLimit: ({ scale }) => mostTicks(scale, axis.unit),
        precision: axis.unit === "integer" ? 0 : undefined,
        callback: (value, i, ticks) => units.tick(value, axis.unit, ticks.length > 1 ? ticks[1].value - ticks[0].value : value),
      },
      ...extra,
    };
    if (axis.unit === "bytes" && !axis.log) {
      made.bounds = "data"; // Chart.js would not end at round numbers of bytes
      made.afterBuildTicks = (built) => {
        built.ticks = units.byteTicks(built.min, built.max, mostTicks(built, axis.unit)).map((value) => ({ value }));
      };
    }
    return made;
  }

  // Limits the number of ticks, so that their numbers don't touch.
  function mostTicks(scale, unit) {
    const each = unit === "integer" || unit === "count" ? 42 : 62; // pixels
    return scale.isHorizontal() ? Math.min(8, Math.max(3, Math.floor((scale.chart.width - 80) / each))) : 8;
  }

  // A scale of amounts that are compared by eye. It starts at zero, unless the values would then
  // fill less than half of it. If it starts elsewhere, its label says where, and the axis is marked
  // as cut. `tight`: the scale ends little above the highest value, instead of at a round number.
  function amounts(axis, values, tight = false) {
    const known = values.filter(Number.isFinite);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const upTo = (min) => (tight ? { max: high + 0.06 * (high - min) } : {});
    if (axis.log) return scale({ ...axis, label: [axis.label, "logarithmic"].filter(Boolean).join(", ") });
    if (known.length === 0 || low < 0) return scale(axis, { beginAtZero: true });
    if (low <= high / 2 || high - low <= 1e-9 * high) return scale(axis, { min: 0, ...upTo(0) });
    const apart = units.step((high - low) / 5, high, axis.unit);
    const min = Math.floor((low - 0.04 * (high - low)) / apart) * apart;
    const cut = `axis from ${units.tick(min, axis.unit, apart)}, not 0`;
    return scale({ ...axis, label: axis.label ? `${axis.label} (${cut})` : cut }, { min, cut: true, ...upTo(min) });
  }

  // Draws two strokes across the lower end of an axis that does not start at zero.
  const cuts = {
    id: "cuts",
    afterDraw({ ctx, chartArea: area, scales }) {
      ctx.save();
      ctx.strokeStyle = theme.color("quiet");
      ctx.lineWidth = 1.25;
      for (const axis of Object.values(scales).filter(({ options }) => options.cut)) {
        for (const along of [6, 10]) {
          const [x, y] = axis.isHorizontal() ? [area.left + along, area.bottom] : [area.left, area.bottom - along];
          const [dx, dy] = axis.isHorizontal() ? [2, 5] : [5, 2];
          ctx.beginPath();
          ctx.moveTo(x - dx, y + dy);
          ctx.lineTo(x + dx, y - dy);
          ctx.stroke();
        }
      }
      ctx.restore();
    },
  };

  // Draws the Chart.js `config` in a new canvas within `body`. `name` is what screen readers say
  // and saved charts show. `height(width)`, in pixels, is given if the chart itself decides its
  // height.
  function draw(body, name, config, height) {
    const canvas = element("canvas", { role: "img", "aria-label": name });
    const frame = element("div", { class: "chart" }, canvas);
    body.append(frame);
    if (height) frame.style.height = `${height(frame.clientWidth)}px`;
    canvas.addEventListener("pointerleave", tooltip.hide);
    const chart = new Chart(canvas, {
      ...config,
      plugins: [...(config.plugins ?? []), cuts],
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        interaction: { mode: "nearest", axis: "x", intersect: false },
        ...config.options,
        plugins: {
          legend: { display: false },
          ...config.options.plugins,
          tooltip: { enabled: false, external: tooltip.ofChart, ...config.options.plugins?.tooltip },
        },
      },
    });
    drawn.push(chart);
    save.chart(body, { title: name, height: height ?? (() => 400), legend: () => legendOf(chart), paint: (paper) => repaint(chart, paper) });
    return chart;
  }

  // Draws what a chart shows now again, on another canvas.
  function repaint(chart, canvas) {
    const { type, data, options, plugins } = chart.config;
    // With `segment`, Chart.js draws lines by the context, not by a Path2D, which only a real
    // canvas understands.
    const datasets = data.datasets.map((set, i) => ({ ...set, hidden: !chart.isDatasetVisible(i), segment: {} }));
    const still = { ...options, responsive: false, animation: false, events: [], devicePixelRatio: 1 };
    new Chart(canvas, { type, plugins, platform: Chart.BasicPlatform, data: { ...data, datasets }, options: still }).destroy();
  }

  // The legend's entries that have a visible dataset in the chart.
  function legendOf(chart) {
    const { entries = [] } = legends.find(({ of }) => of.includes(chart)) ?? {};
    const shows = (name) => chart.data.datasets.some((set, i) => set.of === name && chart.isDatasetVisible(i));
    return entries.filter(({ name }) => shows(name)).map(({ name, color }) => ({ name: theme.label(name), color }));
  }

  // Adds buttons of names and colours; a click on one calls changed(name, whether it is on now).
  function toggles(body, entries, changed) {
    const row = element("div", { class: "legend" });
    for (const { name, color } of entries) {
      const swatch = element("span", { class: "swatch", style: `background:${color}` });
      const button = element("button", { type: "button", "aria-pressed": "true" }, swatch, theme.label(name));
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        changed(name, on);
      });
      row.append(button);
    }
    body.append(row);
  }

  // Adds buttons that show and hide datasets of the charts `of`. A dataset's own `of` is the name
  // of the entry that it belongs to.
  function legend(body, entries, of) {
    legends.push({ entries, of });
    toggles(body, entries, (name, on) => {
      for (const chart of of) {
        chart.data.datasets.forEach((dataset, i) => {
          if (dataset.of === name) chart.setDatasetVisibility(i, on && !dataset.off);
        });
        chart.update();
      }
    });
  }

  function checkbox(controls, label, checked, changed) {
    const box = element("input", { type: "checkbox", checked });
    box.addEventListener("change", () => changed(box.checked));
    controls.append(element("label", {}, box, ` ${label}`));
  }

  // Adds a select box with the options [{name, value}].
  function select(controls, label, options, changed) {
    const box = element("select", { "aria-label": label });
    for (const { name, value } of options) box.append(element("option", { value }, name));
    box.addEventListener("change", () => changed(box.value));
    controls.append(element("label", {}, `${label} `, box));
    return box;
  }

  // Makes a chart zoomable: dragging shows a part of its x axis; a double click shows all of it
  // again.
  function zoomable(chart) {
    const canvas = chart.canvas;
    let from = null;
    const value = (event) => chart.scales.x.getValueForPixel(event.clientX - canvas.getBoundingClientRect().left);
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") from = { pixel: event.clientX, value: value(event) };
    });
    canvas.addEventListener("pointerup", (event) => {
      if (from && Math.abs(event.clientX - from.pixel) > 8) {
        const ends = [from.value, value(event)].sort((a, b) => a - b);
        Object.assign(chart.options.scales.x, { min: ends[0], max: ends[1] });
        canvas.dataset.zoomed = "";
        chart.update();
      }
      from = null;
    });
    canvas.addEventListener("dblclick", () => {
      delete chart.options.scales.x.min;
      delete chart.options.scales.x.max;
      delete canvas.dataset.zoomed;
      chart.update();
    });
    canvas.title = "drag to zoom, double click to see all";
  }

  // A plugin that draws a dashed line at {label, value} bytes across the chart. The label is above
  // the line, at its `place` ("left", "right").
  function ruler(id, line, color = "warning", place = "left") {
    return {
      id,
      afterDatasetsDraw({ ctx, chartArea: area, scales }) {
        const at = scales.y.getPixelForValue(line.value);
        if (at < area.top - 1 || at > area.bottom + 1) return;
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = theme.color(color);
        dashed(ctx, area.left, at, area.right, at);
        ctx.font = `12px ${theme.font}`;
        ctx.textAlign = place;
        ctx.fillText(`${line.label} ${units.format(line.value, "bytes")}`, place === "right" ? area.right - 4 : area.left + 4, at - 5);
        ctx.restore();
      },
    };
  }

  function dashed(ctx, fromX, fromY, toX, toY) {
    ctx.save();
    ctx.setLineDash([6, 4]);
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(fromX, fromY);
    ctx.lineTo(toX, toY);
    ctx.stroke();
    ctx.restore();
  }

  // The text, shortened to fit the width.
  function fit(ctx, text, width) {
    if (ctx.measureText(text).width <= width) return text;
    let kept = text.length - 1;
    while (kept > 0 && ctx.measureText(`${text.slice(0, kept)}…`).width > width) --kept;
    return `${text.slice(0, kept)}…`;
  }

  // Draws text with a halo, so that it can be read on any background.
  function halo(ctx, text, x, y) {
    ctx.save();
    ctx.setLineDash([]);
    ctx.strokeStyle = theme.color("panel");
    ctx.lineWidth = 4;
    ctx.lineJoin = "round";
    ctx.strokeText(text, x, y);
    ctx.restore();
    ctx.fillText(text, x, y);
  }

  return { clear, scale, amounts, draw, toggles, legend, checkbox, select, zoomable, ruler, dashed, fit, halo };
})();
