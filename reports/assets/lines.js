// View "lines": {x: {label, unit}, y: {label, unit, log}, smoothing, series: [{name, x, y, y_low,
// y_high, points}]}. null in y is a gap. `y_low` and `y_high` give a band around the line. With
// `smoothing`, a box shows each series as an exponential average. A series with `points` is a few
// measurements, which are drawn as points and never smoothed.
"use strict";

views.lines = (body, view) => {
  // Corrects the start like Adam: the first averages are those of the values so far.
  function smooth(values) {
    // The weight halves over 1/40 of the width.
    const keep = 0.5 ** (1 / Math.max(2, values.length / 40));
    let sum = 0;
    let weight = 0;
    return values.map((value) => {
      if (value === null) return null;
      sum = keep * sum + (1 - keep) * value;
      weight = keep * weight + (1 - keep);
      return sum / weight;
    });
  }

  const shown = view.series.flatMap(({ y, y_low = [], y_high = [] }) => [...y, ...y_low, ...y_high]);
  const amounts = (axis) => charts.amounts(axis, shown);
  const pairs = (x, y) => x.map((at, i) => ({ x: at, y: y[i] }));

  function dataset(series, i, more) {
    const color = theme.series(i);
    return {
      of: series.name,
      label: series.name,
      borderColor: color,
      backgroundColor: color,
      borderWidth: series.points ? 1.5 : 1.75,
      pointRadius: series.points || series.x.length < 3 ? 3 : 0,
      pointHitRadius: 8,
      tension: 0,
      ...more,
    };
  }

  const plain = view.series.map((series, i) => dataset(series, i, { data: pairs(series.x, series.y) }));
  const averaged = view.series.flatMap((series, i) =>
    series.points
      ? []
      : [dataset(series, i, { label: `${series.name}, smoothed`, data: pairs(series.x, smooth(series.y)), borderWidth: 2.25, pointRadius: 0, hidden: true, off: true })],
  );

  // The two edges of each band; the area between them is filled. Later datasets are drawn below
  // earlier ones.
  const bands = view.series.flatMap((series, i) => {
    if (!series.y_low) return [];
    const edge = { borderWidth: 0, pointRadius: 0, pointHitRadius: 0, backgroundColor: theme.faint(theme.series(i), 0.2), band: true };
    return [
      dataset(series, i, { ...edge, data: pairs(series.x, series.y_low) }),
      dataset(series, i, { ...edge, data: pairs(series.x, series.y_high), fill: "-1" }),
    ];
  });

  // A value as text: "2.81"; with a band "2.81 (2.79 to 2.84)".
  function value({ dataset: { of, off }, dataIndex, parsed }) {
    const { y_low, y_high } = view.series.find(({ name }) => name === of);
    const [mean, ...ends] = [parsed.y, y_low?.[dataIndex], y_high?.[dataIndex]].map((y) => units.format(y, view.y.unit));
    return y_low && off === undefined ? `${mean} (${ends.join(" to ")})` : mean;
  }

  const controls = element("div", { class: "controls" });
  if (view.smoothing || view.log_choice) body.append(controls);
  const chart = charts.draw(body, view.title, {
    type: "line",
    data: { datasets: [...plain, ...averaged, ...bands] },
    options: {
      parsing: false,
      normalized: true,
      scales: { x: charts.scale(view.x), y: amounts(view.y) },
      plugins: {
        tooltip: {
          filter: ({ dataset }) => !dataset.band,
          callbacks: {
            title: (items) => (items.length ? `${view.x.label} ${units.format(items[0].parsed.x, view.x.unit)}` : ""),
            label: (item) => `${item.dataset.label}: ${value(item)}`,
          },
        },
      },
    },
  });
  charts.zoomable(chart);
  if (view.series.length > 1) {
    charts.legend(body, view.series.map((series, i) => ({ name: series.name, color: theme.series(i) })), [chart]);
  }

  if (view.smoothing) {
    charts.checkbox(controls, "smooth", false, (on) => {
      chart.data.datasets.forEach((set, i) => {
        if (set.band) return;
        if (i >= plain.length) {
          set.off = !on;
          chart.setDatasetVisibility(i, on && chart.isDatasetVisible(plain.findIndex((other) => other.of === set.of)));
        } else if (!view.series[i].points) {
          set.borderColor = theme.faint(theme.series(i), on ? 0.3 : 1);
        }
      });
      chart.update();
    });
  }
  if (view.log_choice) {
    charts.checkbox(controls, "logarithmic", false, (on) => {
      chart.options.scales.y = amounts({ ...view.y, log: on });
      chart.update();
    });
  }
};
