// Numbers as people read them. A unit is "bytes", "ms", "count" (12.3k), "integer" (12345),
// "percent" (of a share), "number" or "text".
"use strict";

const units = (() => {
  const kBinary = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const kDecimal = ["", "k", "M", "G", "T", "P"];

  // The power of `base` that a number of that size is told in.
  function power(value, base, most) {
    let index = 0;
    for (let left = Math.abs(value); left >= base && index < most; left /= base) ++index;
    return index;
  }

  function digits(value, significant) {
    const magnitude = Math.abs(value) < 1 ? 1 : Math.floor(Math.log10(Math.abs(value))) + 1;
    return value.toFixed(Math.max(0, significant - magnitude));
  }

  function bytes(value) {
    const index = power(value, 1024, kBinary.length - 1);
    return `${digits(value / 1024 ** index, index === 0 ? 1 : 3)} ${kBinary[index]}`;
  }

  function count(value) {
    if (Number.isInteger(value) && Math.abs(value) < 1e4) return String(value);
    const index = power(value, 1000, kDecimal.length - 1);
    return `${digits(value / 1000 ** index, 3)}${kDecimal[index]}`;
  }

  function milliseconds(value) {
    return Math.abs(value) >= 1e4 ? `${digits(value / 1000, 4)} s` : `${digits(value, 3)} ms`;
  }

  function number(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    return size >= 1e6 || size < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(5)));
  }

  const formats = {
    bytes,
    count,
    integer: String,
    number,
    ms: milliseconds,
    percent: (value) => `${digits(100 * value, 3)} %`,
    text: String,
  };

  function format(value, unit = "text") {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    return (formats[unit] || number)(value);
  }

  // Round numbers of the unit between two values: 0, 512 MiB, 1 GiB, … where 0, 500,000,000, …
  // would be shown as 477 MiB and so on.
  function byteTicks(low, high, most = 7) {
    const scale = 1024 ** power(high, 1024, kBinary.length - 1);
    const span = (high - low) / scale / most;
    const magnitude = 10 ** Math.floor(Math.log10(span));
    const step = scale * magnitude * [1, 2, 2.5, 5, 10].find((nice) => nice * magnitude >= span);
    const ticks = [];
    for (let i = Math.ceil(low / step); i * step <= high; ++i) ticks.push(i * step);
    return ticks;
  }

  // For the ends of axes: without zeros that say nothing.
  function tick(value, unit) {
    if (value === 0) return "0";
    if (unit === "percent") return `${number(100 * value)} %`;
    return format(value, unit).replace(/(\.\d*?)0+(?=\D|$)/, (_, kept) => (kept === "." ? "" : kept));
  }

  return { format, tick, byteTicks };
})();
