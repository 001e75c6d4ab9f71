// View "front": {x: {label, unit}, y: {label, unit}, z: {label, unit}, lines: [{label, value}],
// points: [{name, x, y, z, y_low, y_high, group, base, note}]}. Smaller is better on all axes. A
// line joins the points that no other point beats on both shown axes. `lines` are vertical lines at
// values of x. If `z` is given, a box selects how it is shown: as the size of the points, or in
// place of x or y.
"use strict";

views.front = (body, view) => {
  const groups = [...new Set(view.points.map((point) => point.group ?? ""))];
  const kText = 12; // pixels
  const kLine = 14;
  const place = element("div");
  const drawn = []; // the shown chart

  if (view.z) {
    const controls = element("div", { class: "controls" });
    body.append(controls);
    const ways = {
      size: { x: "x", y: "y", z: "z" },
      [`up, in place of ${view.y.label}`]: { x: "x", y: "z" },
      [`across, in place of ${view.x.label}`]: { x: "z", y: "y" },
      "not shown": { x: "x", y: "y" },
    };
    const options = Object.keys(ways).map((name) => ({ name: name === "size" ? "size of the points" : name, value: name }));
    charts.select(controls, view.z.label, options, (name) => show(ways[name]));
    body.append(place);
    show(ways.size);
  } else {
    body.append(place);
    show({ x: "x", y: "y" });
  }
  if (groups.length > 1) {
    charts.legend(body, groups.map((group, i) => ({ name: group, color: theme.series(i) })), drawn);
  }

  // `of`: which of "x", "y" and "z" are shown horizontally, vertically, and as the points' size.
  function show(of) {
    const off = drawn.flatMap((chart) => groups.filter((_, i) => !chart.isDatasetVisible(i)));
    drawn.splice(0).forEach((chart) => chart.destroy());
    place.replaceChildren();
    const chart = draw(of);
    for (const group of off) chart.setDatasetVisibility(groups.indexOf(group), false);
    if (off.length > 0) chart.update();
    drawn.push(chart);
  }

  function draw(of) {
    const known = (point, key) => Number.isFinite(point[key]);
    const points = view.points
      .filter((point) => known(point, of.x) && known(point, of.y))
      .map((point) => ({ ...point, x: point[of.x], y: point[of.y], ...(of.y === "y" ? {} : { y_low: undefined, y_high: undefined }), of: point }));
    const best = [...points]
      .sort((a, b) => a.x - b.x || a.y - b.y)
      .filter((point, i, sorted) => sorted.slice(0, i).every((other) => other.y > point.y));
    // Lines and spreads far outside the points' range don't extend the axes.
    const most = Math.max(...points.map((point) => point.x));
    const rulers = of.x === "x" ? (view.lines ?? []) : [];
    const near = rulers.map((line) => line.value).filter((value) => value < 1.5 * most);
    const highest = Math.min(
      Math.max(...points.map((point) => point.y_high ?? point.y)),
      1.25 * Math.max(...points.map((point) => point.y)),
    );
    const largest = Math.max(...view.points.map((point) => point.z ?? 0));
    // The area of a point is proportional to its value of z.
    const radius = (point) => (of.z && known(point, "z") ? Math.max(3, 13 * Math.sqrt(point.z / largest)) : point.base ? 7 : 5);
    const across = [...points.map((point) => point.x), ...near];
    const up = points.flatMap((point) => [point.y, point.y_low ?? point.y, Math.min(point.y_high ?? point.y, highest)]);

    const x = charts.amounts(view[of.x], across, true);
    if (of.z) x.title.text = [x.title.text, `area: ${view.z.label}, up to ${units.format(largest, view.z.unit)}`];

    return charts.draw(
      place,
      view.title,
      {
        type: "scatter",
        data: {
          datasets: [
            ...groups.map((group, i) => ({
              of: group,
              label: group,
              data: points.filter((point) => (point.group ?? "") === group),
              // A point without a value of z is hollow.
              backgroundColor: (context) => theme.faint(theme.series(i), !of.z ? 1 : known(context.raw ?? {}, "z") ? 0.6 : 0),
              borderColor: theme.series(i),
              pointStyle: (context) => (context.raw?.base ? "rectRot" : "circle"),
              radius: (context) => (context.raw ? radius(context.raw) : 5),
              hoverRadius: (context) => (context.raw ? radius(context.raw) + 2 : 7),
            })),
            {
              type: "line",
              data: best,
              borderColor: () => theme.color("quiet"),
              borderWidth: 1.25,
              borderDash: [3, 3],
              pointRadius: 0,
              pointHitRadius: 0,
              order: 1,
            },
          ],
        },
        options: {
          layout: { padding: ({ chart }) => ({ right: 16, top: 5 + kLine * rowsOf(chart.ctx, chart.width).length }) },
          interaction: { mode: "nearest", axis: "xy", intersect: true },
          scales: {
            x,
            y: charts.amounts(view[of.y], up, true),
          },
          plugins: {
            tooltip: {
              filter: (item) => item.datasetIndex < groups.length,
              callbacks: {
                title: (items) => (items.length ? items[0].raw.name : ""),
                label: (item) => lines(item.raw.of),
              },
            },
          },
        },
        plugins: [
          { id: "rulers", afterDatasetsDraw: drawRulers },
          { id: "spread", beforeDatasetsDraw: drawSpread },
          { id: "names", afterDatasetsDraw: drawNames },
        ],
      },
      heightFor,
    );

    // Only the first ruler's text has the label.
    function words(line, first) {
      const value = units.format(line.value, view.x.unit);
      return first || line.label !== rulers[0].label ? `${line.label} ${value}` : value;
    }

    // Arranges the rulers' texts in rows, so that texts in a row don't touch: [{text, at, from,
    // to}] in pixels. Without `scales` the positions are estimates, which give the space needed
    // above the chart.
    function rowsOf(ctx, width, scales) {
      const rows = [];
      ctx.save();
      ctx.font = `${kText}px ${theme.font}`;
      for (const [i, line] of [...rulers].sort((a, b) => a.value - b.value).entries()) {
        const text = words(line, i === 0);
        const wide = ctx.measureText(text).width;
        const at = scales ? scales.x.getPixelForValue(line.value) : 70 + (line.value / (1.06 * Math.max(...across))) * (width - 90);
        if (scales && (at < scales.x.left - 1 || at > scales.x.right + 1)) continue;
        const from = Math.max(0, Math.min(at - wide / 2, width - wide));
        const row = rows.find((each) => each.at(-1).to + 6 < from);
        if (row) row.push({ text, at, from, to: from + wide });
        else rows.push([{ text, at, from, to: from + wide }]);
      }
      ctx.restore();
      return rows;
    }

    function drawRulers({ ctx, chartArea: area, scales, width }) {
      ctx.save();
      ctx.font = `${kText}px ${theme.font}`;
      ctx.strokeStyle = ctx.fillStyle = theme.color("warning");
      rowsOf(ctx, width, scales).forEach((row, i) => {
        for (const { text, at, from } of row) {
          charts.dashed(ctx, at, area.top, at, area.bottom);
          ctx.fillText(text, from, area.top - 4 - kLine * i);
        }
      });
      ctx.restore();
    }

    // All visible points, with their positions.
    function shown(chart) {
      const { scales } = chart;
      return groups.flatMap((_, i) =>
        !chart.isDatasetVisible(i)
          ? []
          : chart.data.datasets[i].data.map((point) => ({
              point,
              group: i,
              x: scales.x.getPixelForValue(point.x),
              y: scales.y.getPixelForValue(point.y),
              radius: radius(point),
              bar: known(point, "y_low") ? [scales.y.getPixelForValue(point.y_high), scales.y.getPixelForValue(point.y_low)] : null,
            })),
      );
    }

    function drawSpread(chart) {
      const { ctx, chartArea: area } = chart;
      ctx.save();
      ctx.beginPath();
      ctx.rect(area.left, area.top, area.width, area.height);
      ctx.clip();
      ctx.lineWidth = 1.5;
      for (const { x, bar, group } of shown(chart)) {
        if (!bar) continue;
        ctx.strokeStyle = theme.series(group);
        ctx.beginPath();
        ctx.moveTo(x, bar[0]);
        ctx.lineTo(x, bar[1]);
        ctx.stroke();
      }
      ctx.restore();
    }

    function drawNames(chart) {
      const { ctx, chartArea: area, scales } = chart;
      ctx.save();
      ctx.font = `${kText}px ${theme.font}`;
      ctx.fillStyle = theme.color("text");
      ctx.strokeStyle = theme.color("quiet");
      ctx.lineWidth = 0.75;
      ctx.textBaseline = "middle";
      const all = shown(chart);
      const names = all.map(({ point }) => wrap(ctx, point.name, Math.max(90, area.width / 4)));
      const sized = all.map(({ x, y, radius }, i) => ({ x, y, radius, ...sizeOf(ctx, names[i]) }));
      const bars = all.flatMap(({ x, bar }) => (bar ? [[x - 2, Math.max(area.top, bar[0]), x + 2, Math.min(area.bottom, bar[1])]] : []));
      const joined = best.map((point) => [scales.x.getPixelForValue(point.x), scales.y.getPixelForValue(point.y)]);
      const crossed = [
        ...joined.slice(1).map((to, i) => [...joined[i], ...to]),
        ...rulers.map((line) => scales.x.getPixelForValue(line.value)).map((x) => [x, area.top, x, area.bottom]),
      ];
      const room = [area.left + 1, area.top, chart.width, area.bottom - 1];
      const key = JSON.stringify([sized, bars, crossed, room]);
      if (chart.placed?.key !== key) chart.placed = { key, places: labels.place(sized, bars, crossed, room) };
      const { places } = chart.placed;
      places.forEach((label, i) => {
        if (!label) return;
        const [left, top] = label.box;
        if (label.line) {
          ctx.beginPath();
          ctx.moveTo(label.line[0], label.line[1]);
          ctx.lineTo(label.line[2], label.line[3]);
          ctx.stroke();
        }
        names[i].forEach((text, row) => charts.halo(ctx, text, left + 2, top + 2 + kLine * (row + 0.5)));
      });
      // Records the positions of names for tests.
      chart.names = places.map((label, i) => ({ name: all[i].point.name, text: names[i].join(" "), box: label?.box ?? null }));
      chart.bars = bars;
      ctx.restore();
    }
  }

  // Splits a name into lines of at most `width`, if its words allow that.
  function wrap(ctx, name, width) {
    const made = [];
    for (const word of name.split(" ")) {
      const longer = made.length > 0 ? `${made.at(-1)} ${word}` : word;
      if (made.length > 0 && ctx.measureText(longer).width <= width) made[made.length - 1] = longer;
      else made.push(charts.fit(ctx, word, 2 * width));
    }
    return made;
  }

  function sizeOf(ctx, wrapped) {
    return { width: 4 + Math.max(...wrapped.map((text) => ctx.measureText(text).width)), height: 2 + kLine * wrapped.length };
  }

  // A height at which names take no more than a quarter of the chart.
  function heightFor(width) {
    const ctx = document.createElement("canvas").getContext("2d");
    ctx.font = `${kText}px ${theme.font}`;
    const inner = Math.max(160, width - 90);
    const area = view.points.reduce((sum, { name }) => {
      const { width: wide, height } = sizeOf(ctx, wrap(ctx, name, Math.max(90, inner / 4)));
      return sum + (wide + 4) * (height + 4);
    }, 0);
    return Math.round(Math.min(1400, Math.max(width < 600 ? 340 : 400, 120 + (4 * area) / inner)));
  }

  function lines(point) {
    const spread =
      point.y_low === undefined ? "" : ` (${units.format(point.y_low, view.y.unit)} to ${units.format(point.y_high, view.y.unit)})`;
    return [
      `${view.x.label}: ${units.format(point.x, view.x.unit)}`,
      `${view.y.label}: ${units.format(point.y, view.y.unit)}${spread}`,
      ...(view.z ? [`${view.z.label}: ${units.format(point.z, view.z.unit)}`] : []),
      ...(point.note ? [point.note] : []),
    ];
  }
};
