// Colours of memory roles and of series, and colours of the page's dark or light mode.
"use strict";

const theme = (() => {
  // Roles in stacks from bottom to top: first memory that is always used, then temporary memory.
  const kRoles = {
    parameter: "#4e79a7",
    master: "#9ecae9",
    optimizer_state: "#b07aa1",
    state: "#76b7b2",
    pending: "#b5dcd9",
    input: "#59a14f",
    metric: "#9aa0a6",
    gradient: "#e15759",
    activation: "#f2a93b",
    workspace: "#9c755f",
    snapshot: "#c7b299",
  };
  const kSeries = ["#3b82c4", "#f28e2b", "#46a15b", "#d95f5f", "#9a6fb0", "#2fa5a0", "#b8860b", "#e377a2", "#7f8ea3", "#8c6d46"];

  const roles = Object.keys(kRoles);

  return {
    // The font of text in charts. Programs that open saved charts have it, too.
    font: "'Helvetica Neue', Helvetica, Arial, sans-serif",
    // Returns act(), called with the colours for printing on white paper.
    onPaper: (act) => {
      const { dataset } = document.documentElement;
      const before = dataset.print;
      dataset.print = "";
      try {
        return act();
      } finally {
        if (before === undefined) delete dataset.print;
      }
    },
    series: (index) => kSeries[index % kSeries.length],
    // The colour of a part: that of its role, or one by its index.
    part: (name, index) => kRoles[name] || kSeries[index % kSeries.length],
    // Sorts names: roles in their order, then other names in the given order.
    order: (names) =>
      [...names].sort((a, b) => {
        const [i, j] = [roles.indexOf(a), roles.indexOf(b)];
        return (i < 0 ? roles.length : i) - (j < 0 ? roles.length : j);
      }),
    label: (name) => name.replaceAll("_", " "),
    // A colour of style.css: "text", "quiet", "grid", …
    color: (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(),
    faint: (hex, alpha) => hex + Math.round(255 * alpha).toString(16).padStart(2, "0"),
  };
})();
