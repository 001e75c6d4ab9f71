// View "timeline": {variants: [{name, timeline, line: {label, value}}]}; each timeline is as in
// reports/timeline_views.h: bytes by role over the nodes of a program. A single variant fills the
// width, and its program can be selected. Several variants are shown side by side on the same
// scale, each with its program of the highest peak. `line` is the variant's budget.
"use strict";

views.timeline = (body, view) => {
  const peakOf = (program) => program.peak.bytes;
  const highest = (timeline) => timeline.programs.reduce((a, b) => (peakOf(b) > peakOf(a) ? b : a));
  const alone = view.variants.length === 1;
  const most = Math.max(...view.variants.map(({ timeline }) => Math.max(timeline.arena_bytes, peakOf(highest(timeline)))));
  const drawn = [];
  const names = theme.order(
    new Set(view.variants.flatMap(({ timeline }) => timeline.programs.flatMap((program) => rolesOf(program)))),
  );

  // A budget far above the peak is not shown: it would make everything else flat.
  const fits = (line) => line && line.value < 2 * most;
  // Leaves room for the text above the lines of the arena and the budget.
  const top = 1.13 * Math.max(most, ...view.variants.map(({ line }) => (fits(line) ? line.value : 0)));
  if (alone) {
    const { timeline, line } = view.variants[0];
    if (line && !fits(line)) {
      body.append(element("p", { class: "note" }, `${line.label}: ${units.format(line.value, "bytes")}`));
    }
    const controls = element("div", { class: "controls" });
    const place = element("div");
    body.append(controls, place);
    const show = (program) => {
      drawn.splice(0).forEach((chart) => chart.destroy());
      place.replaceChildren();
      drawn.push(draw(place, program, view.variants[0], view.title));
    };
    if (timeline.programs.length > 1) {
      const options = timeline.programs.map((program, i) => ({ name: program.name, value: i }));
      const box = charts.select(controls, "program", options, (i) => show(timeline.programs[i]));
      box.value = timeline.programs.indexOf(highest(timeline));
    }
    show(highest(timeline));
  } else {
    const grid = element("div", { class: "multiples" });
    body.append(grid);
    for (const variant of view.variants) {
      const figure = element("figure", {}, element("figcaption", {}, variant.name));
      grid.append(figure);
      drawn.push(draw(figure, highest(variant.timeline), variant, variant.name));
    }
  }
  charts.legend(body, names.map((name, i) => ({ name, color: theme.part(name, i) })), drawn);

  function rolesOf(program) {
    return Object.keys(program.roles).filter((role) => program.roles[role].some((bytes) => bytes > 0));
  }

  function draw(place, program, { timeline, line }, title) {
    const roles = theme.order(rolesOf(program));
    const pairs = (values) => values.map((y, i) => ({ x: program.at[i], y }));
    const datasets = roles.map((role, i) => ({
      of: role,
      label: theme.label(role),
      data: pairs(program.roles[role]),
      fill: "stack",
      backgroundColor: theme.faint(theme.part(role, i), 0.85),
      borderColor: theme.part(role, i),
      borderWidth: 0.5,
      pointRadius: 0,
      pointHitRadius: 6,
      stack: "arena",
    }));
    if (program.host) {
      datasets.push({
        of: "host",
        label: "host memory",
        data: pairs(program.host),
        borderColor: () => theme.color("text"),
        borderDash: [2, 3],
        borderWidth: 1.5,
        pointRadius: 0,
        stack: "host",
      });
    }
    const plugins = [{ id: "phases", beforeDatasetsDraw: (chart) => phases(chart, program) }];
    plugins.push({ id: "peak", afterDatasetsDraw: (chart) => peak(chart, program) });
    if (alone) plugins.push(charts.ruler("arena", { label: "arena", value: timeline.arena_bytes }, "quiet", "right"));
    if (fits(line)) plugins.push(charts.ruler("budget", line));
    const chart = charts.draw(place, alone ? `${title} (${program.name})` : title, {
      type: "line",
      data: { datasets },
      options: {
        interaction: { mode: "index", intersect: false },
        layout: { padding: { top: 16 } },
        scales: {
          x: charts.scale({ label: alone ? `node of ${program.name}` : "", unit: "count" }, { min: 0, max: program.nodes - 1 }),
          y: charts.scale({ unit: "bytes" }, { stacked: true, min: 0, max: top }),
        },
        plugins: {
          tooltip: {
            filter: (item) => item.raw.y > 0,
            itemSort: (a, b) => b.datasetIndex - a.datasetIndex,
            callbacks: {
              title: (items) => (items.length ? titleAt(program, items[0].dataIndex) : ""),
              label: (item) => `${item.dataset.label}: ${units.format(item.raw.y, "bytes")}`,
            },
          },
        },
      },
      plugins,
    });
    charts.zoomable(chart);
    return chart;
  }

  function titleAt(program, i) {
    const node = program.at[i];
    const phase = program.phases.find(({ from, to }) => node >= from && node <= to)?.name ?? "";
    const total = Object.values(program.roles).reduce((sum, bytes) => sum + bytes[i], 0);
    return `node ${node}, ${phase}: ${units.format(total, "bytes")}`;
  }

  // Draws the names of phases above the chart, and a line between phases.
  function phases({ ctx, chartArea: area, scales }, program) {
    ctx.save();
    ctx.font = `12px ${theme.font}`;
    ctx.fillStyle = theme.color("quiet");
    ctx.strokeStyle = theme.color("quiet");
    for (const { name, from, to } of program.phases) {
      const left = Math.max(area.left, scales.x.getPixelForValue(from));
      const right = Math.min(area.right, scales.x.getPixelForValue(to + 1));
      if (right <= left) continue;
      if (from > 0 && left > area.left) {
        ctx.beginPath();
        ctx.moveTo(left, area.top - 14);
        ctx.lineTo(left, area.bottom);
        ctx.stroke();
      }
      if (ctx.measureText(name).width < right - left - 4) ctx.fillText(name, left + 4, area.top - 5);
    }
    ctx.restore();
  }

  function peak({ ctx, chartArea: area, scales }, program) {
    const { node, bytes, op, scope } = program.peak;
    const [x, y] = [scales.x.getPixelForValue(node), scales.y.getPixelForValue(bytes)];
    if (x < area.left || x > area.right) return;
    ctx.save();
    ctx.fillStyle = theme.color("warning");
    ctx.beginPath();
    ctx.arc(x, y, 4, 0, 2 * Math.PI);
    ctx.fill();
    ctx.font = `12px ${theme.font}`;
    const what = alone ? `peak ${units.format(bytes, "bytes")}, ${op}${scope ? ` in ${scope}` : ""}` : units.format(bytes, "bytes");
    const text = charts.fit(ctx, what, area.width - 10);
    const width = ctx.measureText(text).width;
    const left = x + 8 + width < area.right ? x + 8 : Math.max(area.left + 2, x - 8 - width);
    ctx.fillStyle = theme.faint(theme.color("background"), 0.8);
    ctx.fillRect(left - 3, y + 3, width + 6, 17);
    ctx.fillStyle = theme.color("warning");
    ctx.fillText(text, left, y + 16);
    ctx.restore();
  }
};
