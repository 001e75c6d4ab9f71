// Reloads the page of a run that continues, since its file is rewritten while it is open.
// `reload.every(seconds)` reloads it repeatedly and restores what its reader changed: the scroll
// position and the selected boxes, names and texts. It waits while the page is hidden, while a
// button is pressed, and while a chart is zoomed.
"use strict";

const reload = (() => {
  // What the reader may have changed, and how to restore it. A selection may change the names of a
  // chart, and so comes first.
  const kinds = [
    {
      find: "select",
      get: (box) => box.value,
      set(box, value) {
        box.value = value;
        box.dispatchEvent(new Event("change"));
      },
    },
    { find: "input[type=checkbox]", get: (box) => box.checked, set: (box) => box.click() },
    { find: ".legend button", get: (name) => name.getAttribute("aria-pressed"), set: (name) => name.click() },
    { find: "details", get: (text) => text.open, set: (text, open) => (text.open = open) },
  ];
  const found = (kind) => [...document.querySelectorAll(kind.find)];

  function remember() {
    const chosen = kinds.map((kind) => found(kind).map(kind.get));
    history.replaceState({ x: scrollX, y: scrollY, chosen }, "");
    history.scrollRestoration = "manual";
  }

  // Charts may have been added: elements without a match stay as they are drawn.
  function restore({ x, y, chosen }) {
    kinds.forEach((kind, i) => {
      const elements = found(kind);
      if (elements.length !== chosen[i].length) return;
      elements.forEach((each, at) => {
        if (kind.get(each) !== chosen[i][at]) kind.set(each, chosen[i][at]);
      });
    });
    scrollTo(x, y);
  }

  let pressed = false;

  function every(seconds) {
    addEventListener("pointerdown", () => (pressed = true));
    addEventListener("pointerup", () => (pressed = false));
    addEventListener("pointercancel", () => (pressed = false));
    setInterval(() => {
      if (document.hidden || pressed || document.querySelector("[data-zoomed]")) return;
      remember();
      location.reload();
    }, 1000 * seconds);
  }

  // Restores the reader's changes once the page is drawn, also after the last reload.
  function resume() {
    if (!history.state?.chosen) return;
    restore(history.state);
    history.replaceState(null, "");
    history.scrollRestoration = "auto";
  }

  return { every, resume };
})();
