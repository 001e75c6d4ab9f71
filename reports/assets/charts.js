// What the views that use Chart.js share: axes, legends, zoom, lines across a chart.
"use strict";

const charts = (() => {
  const drawn = [];

  function clear() {
    for (const chart of drawn.splice(0)) chart.destroy();
    tooltip.hide();
  }

  // A scale of the axis {label, unit, log}. The `ends` of bytes are round numbers of bytes.
  function scale(axis, extra = {}) {
    const made = {
      type: axis.log ? "logarithmic" : "linear",
      title: { display: Boolean(axis.label), text: axis.label, color: theme.color("quiet") },
      grid: { color: theme.color("grid"), drawBorder: false, tickLength: 4 },
      ticks: {
        color: theme.color("quiet"),
        maxRotation: 0,
        autoSkipPadding: 12,
        maxTicksLimit: 8,
        precision: axis.unit === "integer" ? 0 : undefined,
        callback: (value) => units.tick(value, axis.unit),
      },
      ...extra,
    };
    if (axis.unit === "bytes" && !axis.log) {
      made.afterBuildTicks = (built) => {
        built.ticks = units.byteTicks(built.min, built.max).map((value) => ({ value }));
      };
    }
    return made;
  }

  // Draws `config` in a new canvas within `body`; `name` is what screen readers say.
  function draw(body, name, config) {
    const canvas = element("canvas", { role: "img", "aria-label": name });
    body.append(element("div", { class: "chart" }, canvas));
    canvas.addEventListener("pointerleave", tooltip.hide);
    const chart = new Chart(canvas, {
      ...config,
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
    return chart;
  }

  // Names with their colours; a click on one calls changed(name, whether it is on now).
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

  // The same for the datasets of `of` that belong to the name (`of` of a dataset).
  function legend(body, entries, of) {
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

  // [{name, value}] to choose one from.
  function select(controls, label, options, changed) {
    const box = element("select", { "aria-label": label });
    for (const { name, value } of options) box.append(element("option", { value }, name));
    box.addEventListener("change", () => changed(box.value));
    controls.append(element("label", {}, `${label} `, box));
    return box;
  }

  // Dragging across a chart shows that part of its x axis; a double click shows all of it again.
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

  // A plugin that draws a dashed line at {label, value} across the axis "x" or "y"; its words stand
  // above the chart, or at the `place` ("left", "right") of a line across y.
  function ruler(id, axis, line, color = "warning", place = "left") {
    return {
      id,
      afterDatasetsDraw(chart) {
        const { ctx, chartArea: area } = chart;
        const at = chart.scales[axis].getPixelForValue(line.value);
        const [low, high] = axis === "x" ? [area.left, area.right] : [area.top, area.bottom];
        if (at < low - 1 || at > high + 1) return;
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = theme.color(color);
        ctx.setLineDash([6, 4]);
        ctx.lineWidth = 1.5;
        ctx.beginPath();
        if (axis === "x") ctx.moveTo(at, area.top), ctx.lineTo(at, area.bottom);
        else ctx.moveTo(area.left, at), ctx.lineTo(area.right, at);
        ctx.stroke();
        ctx.font = "12px system-ui, sans-serif";
        const text = `${line.label} ${units.format(line.value, line.unit ?? "bytes")}`;
        if (axis === "x") {
          const half = ctx.measureText(text).width / 2;
          ctx.textAlign = "center";
          ctx.fillText(text, Math.min(Math.max(at, area.left + half), chart.width - half), area.top - 4 - (line.lift ?? 0));
        } else {
          ctx.textAlign = place;
          ctx.fillText(text, place === "right" ? area.right - 4 : area.left + 4, at - 5);
        }
        ctx.restore();
      },
    };
  }

  return { clear, scale, draw, toggles, legend, checkbox, select, zoomable, ruler };
})();
