// View "front": {x: {label, unit}, y: {label, unit}, lines: [{label, value}], points: [{name, x, y,
// y_low, y_high, group, base, note}]}. Smaller is better on both axes; a line joins the points that
// no other beats on both. `lines` stand upright at values of x.
"use strict";

views.front = (body, view) => {
  const groups = [...new Set(view.points.map((point) => point.group ?? ""))];
  const best = [...view.points]
    .sort((a, b) => a.x - b.x || a.y - b.y)
    .filter((point, i, sorted) => sorted.slice(0, i).every((other) => other.y > point.y));
  // Lines and spreads that lie far outside stay there.
  const most = Math.max(...view.points.map((point) => point.x));
  const near = (view.lines ?? []).map((line) => line.value).filter((value) => value < 1.5 * most);
  const highest = (key) => Math.max(...view.points.map((point) => point[key] ?? point.y));

  const chart = charts.draw(body, view.title, {
    type: "scatter",
    data: {
      datasets: [
        ...groups.map((group, i) => ({
          of: group,
          label: group,
          data: view.points.filter((point) => (point.group ?? "") === group),
          backgroundColor: theme.series(i),
          borderColor: theme.series(i),
          pointStyle: (context) => (context.raw?.base ? "rectRot" : "circle"),
          radius: (context) => (context.raw?.base ? 7 : 5),
          hoverRadius: 8,
        })),
        {
          type: "line",
          data: best,
          borderColor: theme.color("quiet"),
          borderWidth: 1.25,
          borderDash: [3, 3],
          pointRadius: 0,
          pointHitRadius: 0,
          order: 1,
        },
      ],
    },
    options: {
      layout: { padding: { right: 24, top: 31 } },
      interaction: { mode: "nearest", axis: "xy", intersect: true },
      scales: {
        x: charts.scale(view.x, { grace: "8%", suggestedMax: Math.max(0, ...near) }),
        y: charts.scale(view.y, { grace: "8%", suggestedMax: Math.min(highest("y_high"), 1.25 * highest("y")) }),
      },
      plugins: {
        tooltip: {
          filter: (item) => item.datasetIndex < groups.length,
          callbacks: {
            title: (items) => (items.length ? items[0].raw.name : ""),
            label: (item) => lines(item.raw),
          },
        },
      },
    },
    plugins: [
      { id: "spread", beforeDatasetsDraw: drawSpread },
      { id: "names", afterDatasetsDraw: drawNames },
      // In two rows: neighbours may stand close.
      ...(view.lines ?? []).map((line, i) =>
        charts.ruler(`line${i}`, "x", { unit: view.x.unit, lift: 13 * (i % 2), ...line }),
      ),
    ],
  });
  if (groups.length > 1) {
    charts.legend(body, groups.map((group, i) => ({ name: group, color: theme.series(i) })), [chart]);
  }

  function lines(point) {
    const spread =
      point.y_low === undefined ? "" : ` (${units.format(point.y_low, view.y.unit)} to ${units.format(point.y_high, view.y.unit)})`;
    return [
      `${view.x.label}: ${units.format(point.x, view.x.unit)}`,
      `${view.y.label}: ${units.format(point.y, view.y.unit)}${spread}`,
      ...(point.note ? [point.note] : []),
    ];
  }

  // Calls `each` with every point that is shown and its place.
  function shownPoints({ chartArea: area, scales, ...chart }, each) {
    groups.forEach((group, i) => {
      if (!chart.isDatasetVisible(i)) return;
      for (const point of chart.data.datasets[i].data) {
        const [x, y] = [scales.x.getPixelForValue(point.x), scales.y.getPixelForValue(point.y)];
        if (x >= area.left - 1 && x <= area.right + 1) each(point, x, y, i);
      }
    });
  }

  function drawSpread(chart) {
    const { ctx, scales, chartArea: area } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(area.left, area.top, area.width, area.height);
    ctx.clip();
    ctx.lineWidth = 1.5;
    shownPoints(viewOf(chart), (point, x, y, group) => {
      if (point.y_low === undefined) return;
      ctx.strokeStyle = theme.series(group);
      ctx.beginPath();
      ctx.moveTo(x, scales.y.getPixelForValue(point.y_low));
      ctx.lineTo(x, scales.y.getPixelForValue(point.y_high));
      ctx.stroke();
    });
    ctx.restore();
  }

  // Each name beside its point, where it covers no point and no other name; one that has no such
  // place is left to the tooltip.
  function drawNames(chart) {
    const { ctx, chartArea: area } = chart;
    ctx.save();
    ctx.font = "12px system-ui, sans-serif";
    ctx.fillStyle = theme.color("text");
    ctx.textBaseline = "middle";
    const taken = [];
    const points = [];
    shownPoints(viewOf(chart), (point, x, y) => {
      taken.push([x - 6, y - 6, x + 6, y + 6]);
      points.push([point, x, y]);
    });
    // The front's names first: they matter most.
    points.sort(([a], [b]) => best.includes(b) - best.includes(a));
    for (const [point, x, y] of points) {
      const width = ctx.measureText(point.name).width;
      const places = [
        [x + 10, y],
        [x - 10 - width, y],
        [x - width / 2, y - 15],
        [x - width / 2, y + 15],
        [x + 8, y - 13],
        [x + 8, y + 13],
        [x - 8 - width, y - 13],
        [x - 8 - width, y + 13],
      ];
      for (const [left, middle] of places) {
        const box = [left - 2, middle - 7, left + width + 2, middle + 7];
        const inside = box[0] >= area.left && box[2] <= chart.width && box[1] >= 0 && box[3] <= area.bottom;
        const free = taken.every(([l, t, r, b]) => box[2] < l || box[0] > r || box[3] < t || box[1] > b);
        if (!inside || !free) continue;
        ctx.fillText(point.name, left, middle);
        taken.push(box);
        break;
      }
    }
    ctx.restore();
  }

  function viewOf(chart) {
    return {
      chartArea: chart.chartArea,
      scales: chart.scales,
      data: chart.data,
      isDatasetVisible: (i) => chart.isDatasetVisible(i),
    };
  }
};
