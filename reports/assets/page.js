// Builds the page from its data: {"title", "subtitle", "views": [{"type", "title", …}, …]}. Each
// type has a function views.TYPE(body, view), which fills the element `body`. With "reload_s" the
// file is about to change, and is reloaded after that number of seconds.
"use strict";

const views = {};

// Makes an element, as in element("td", { class: "number" }, "12", child, …): attributes, then text
// and children.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const page = (() => {
  function section(view) {
    const wide = view.width || "full"; // "full", "half", "third"
    const made = element("section", { class: `view-${view.type} ${wide}${view.wide ? " wide" : ""}` });
    if (view.type === "tiles") made.classList.add("tiles");
    if (view.title) made.append(element("h2", {}, view.title));
    if (view.note) made.append(element("p", { class: "note" }, view.note));
    const body = element("div", { class: "body" });
    made.append(body);
    return [made, body];
  }

  function draw() {
    const data = JSON.parse(document.getElementById("data").textContent);
    const main = document.getElementById("page");
    charts.clear();
    main.replaceChildren(element("header", {}, element("h1", {}, data.title), element("p", {}, data.subtitle || "")));
    for (const view of data.views) {
      const [made, body] = section(view);
      main.append(made); // before the views: charts measure the available space
      views[view.type](body, view);
    }
    document.documentElement.dataset.drawn = "yes";
    return data;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const data = draw();
    reload.resume();
    if (data.reload_s) reload.every(data.reload_s);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    // Printing uses the colours for white paper.
    addEventListener("beforeprint", () => {
      document.documentElement.dataset.print = "";
      draw();
    });
    addEventListener("afterprint", () => {
      delete document.documentElement.dataset.print;
      draw();
    });
  });

  return { draw };
})();
