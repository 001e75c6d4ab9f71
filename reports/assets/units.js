// Formats numbers for people. A unit is "bytes", "ms", "joules", "count" (12.3k), "integer"
// (12345), "percent" (of a share), "number" or "text".
"use strict";

const units = (() => {
  const kBinary = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const kDecimal = ["", "k", "M", "G", "T", "P"];

  // The power of `base` in which a number of this size is shown.
  function power(value, base, most) {
    let index = 0;
    for (let left = Math.abs(value); left >= base && index < most; left /= base) ++index;
    return index;
  }

  function digits(value, significant) {
    const magnitude = Math.abs(value) < 1 ? 1 : Math.floor(Math.log10(Math.abs(value))) + 1;
    return value.toFixed(Math.max(0, significant - magnitude));
  }

  function bytes(value, significant) {
    const index = power(value, 1024, kBinary.length - 1);
    return `${digits(value / 1024 ** index, index === 0 ? 1 : significant)} ${kBinary[index]}`;
  }

  function count(value, significant) {
    if (Number.isInteger(value) && Math.abs(value) < 1e4) return String(value);
    const index = power(value, 1000, kDecimal.length - 1);
    return `${digits(value / 1000 ** index, significant)}${kDecimal[index]}`;
  }

  function milliseconds(value, significant) {
    return Math.abs(value) >= 1e4 ? `${digits(value / 1000, Math.max(4, significant))} s` : `${digits(value, significant)} ms`;
  }

  function joules(value, significant) {
    const size = Math.abs(value);
    if (value !== 0 && size < 1) return size < 1e-3 ? `${digits(1e6 * value, significant)} µJ` : `${digits(1e3 * value, significant)} mJ`;
    const index = power(value, 1000, kDecimal.length - 1);
    return `${digits(value / 1000 ** index, significant)} ${kDecimal[index]}J`;
  }

  function number(value, significant) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    return size >= 1e6 || size < 1e-4
      ? value.toExponential(Math.max(2, significant - 1))
      : String(Number(value.toPrecision(Math.max(5, significant))));
  }

  const formats = {
    bytes,
    count,
    integer: (value) => String(value),
    number,
    ms: milliseconds,
    joules,
    percent: (value, significant) => `${digits(100 * value, significant)} %`,
    text: (value) => String(value),
  };

  function format(value, unit = "text", significant = 3) {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    return (formats[unit] || number)(value, significant);
  }

  // Formats a mean and its standard deviation, which is above 0, with as many digits as the
  // deviation makes meaningful: two digits of the deviation if they are at most 35, otherwise one.
  // base/amounts.h does the same.
  function withDeviation(mean, deviation) {
    const magnitude = Math.floor(Math.log10(deviation));
    const size = Math.max(Math.abs(mean), deviation);
    const exponent = size < 1e-4 ? Math.floor(Math.log10(size)) : 0;
    const places = Math.max(0, (deviation * 10 ** -magnitude < 3.55 ? 1 : 0) - magnitude + exponent);
    const [shown, spread] = [mean, deviation].map((value) => (value * 10 ** -exponent).toFixed(places));
    return exponent === 0 ? `${shown} ± ${spread}` : `(${shown} ± ${spread})e${exponent}`;
  }

  // The smallest round number of the unit (1, 2, 2.5 or 5 times a power of ten) that is at least
  // `least`, for values up to `high`.
  function step(least, high, unit) {
    const scale = unit === "bytes" ? 1024 ** power(high, 1024, kBinary.length - 1) : 1;
    const magnitude = 10 ** Math.floor(Math.log10(least / scale));
    return scale * magnitude * [1, 2, 2.5, 5, 10].find((nice) => scale * nice * magnitude >= least * (1 - 1e-9));
  }

  // Ticks at round numbers of bytes between two values: 0, 512 MiB, 1 GiB, … Ticks at 0,
  // 500,000,000, … would be shown as 477 MiB and so on.
  function byteTicks(low, high, most = 7) {
    const apart = step((high - low) / most, high, "bytes");
    const ticks = [];
    for (let i = Math.ceil(low / apart); i * apart <= high; ++i) ticks.push(i * apart);
    return ticks;
  }

  // The text of a tick on an axis whose ticks are `apart`: with the digits that distinguish ticks,
  // without meaningless zeros.
  function tick(value, unit, apart = value) {
    if (value === 0) return "0";
    const significant = Math.max(3, Math.ceil(Math.log10(Math.abs(value / apart))) + 1);
    if (unit === "percent") return `${number(100 * value, significant)} %`;
    return format(value, unit, significant).replace(/(\.\d*?)0+(?=\D|$)/, (_, kept) => (kept === "." ? "" : kept));
  }

  return { format, withDeviation, tick, step, byteTicks };
})();
