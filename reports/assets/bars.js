// View "bars": {unit, bars: [{name, parts: {part: value}, line: {label, value}}]}: horizontal
// stacked bars, each with a line of its own.
"use strict";

views.bars = (body, view) => {
  const parts = theme
    .order(new Set(view.bars.flatMap((bar) => Object.keys(bar.parts))))
    .filter((part) => view.bars.some((bar) => bar.parts[part] > 0));
  const total = (index) => parts.reduce((sum, part) => sum + (view.bars[index].parts[part] ?? 0), 0);
  const longest = Math.max(...view.bars.map((_, i) => total(i)));
  // Lines far outside are not shown: they would make the bars short.
  const shown = view.bars.map(({ line }) => (line && line.value < 2 * longest ? line : null));
  const most = Math.max(longest, ...shown.map((line) => line?.value ?? 0));

  const chart = charts.draw(body, view.title, {
    type: "bar",
    data: {
      labels: view.bars.map((bar) => bar.name),
      datasets: parts.map((part, i) => ({
        of: part,
        label: theme.label(part),
        data: view.bars.map((bar) => bar.parts[part] ?? 0),
        backgroundColor: theme.part(part, i),
        borderColor: theme.part(part, i),
        maxBarThickness: 26,
      })),
    },
    options: {
      indexAxis: "y",
      interaction: { mode: "index", axis: "y", intersect: false },
      scales: {
        x: charts.scale({ unit: view.unit }, { stacked: true, suggestedMax: most * 1.02 }),
        y: {
          stacked: true,
          grid: { display: false },
          ticks: {
            color: () => theme.color("text"),
            autoSkip: false,
            callback(_, i) {
              return shorten(theme.label(view.bars[i].name), this.chart.width < 560 ? 16 : 32);
            },
          },
        },
      },
      plugins: {
        tooltip: {
          filter: (item) => item.raw > 0,
          callbacks: {
            title: (items) =>
              items.length
                ? `${view.bars[items[0].dataIndex].name}: ${units.format(total(items[0].dataIndex), view.unit)}`
                : "",
            label: (item) => `${item.dataset.label}: ${units.format(item.raw, view.unit)}`,
            footer: (items) => {
              const line = items.length ? view.bars[items[0].dataIndex].line : null;
              return line ? `${line.label}: ${units.format(line.value, view.unit)}` : "";
            },
          },
        },
      },
    },
    plugins: [{ id: "marks", afterDatasetsDraw: drawMarks }],
  }, () => view.bars.length * 26 + 60);

  charts.legend(body, parts.map((part, i) => ({ name: part, color: theme.part(part, i) })), [chart]);

  function drawMarks({ ctx, scales }) {
    const half = view.bars.length > 1 ? (scales.y.getPixelForValue(1) - scales.y.getPixelForValue(0)) / 2 : 13;
    ctx.save();
    ctx.strokeStyle = theme.color("warning");
    ctx.lineWidth = 2;
    shown.forEach((line, i) => {
      if (!line) return;
      const [x, y] = [scales.x.getPixelForValue(line.value), scales.y.getPixelForValue(i)];
      ctx.beginPath();
      ctx.moveTo(x, y - half + 2);
      ctx.lineTo(x, y + half - 2);
      ctx.stroke();
    });
    ctx.restore();
  }

  function shorten(name, most) {
    return name.length > most ? `${name.slice(0, most - 1)}…` : name;
  }
};
