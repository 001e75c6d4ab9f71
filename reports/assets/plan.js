// View "plan": {arena_bytes, programs: [{name, nodes, phases, peak, tensors}], persistent, line},
// as in reports/timeline_views.h. The x axis is the nodes of a program, the y axis the bytes of the
// arena; each tensor is a rectangle at its offset over its lifetime. The wheel zooms (with shift
// only horizontally), dragging moves, two fingers do both, and a double click shows all again.
"use strict";

views.plan = (body, view) => {
  const kLeft = 62; // left edge of the drawing, in pixels: room for the axis's numbers
  const kBottom = 34;
  const kTop = 20;
  const kRight = 10;
  // Leaves room for the text above the lines of the arena and the budget.
  const top = 1.07 * Math.max(view.arena_bytes, view.line && view.line.value < 1.5 * view.arena_bytes ? view.line.value : 0);

  let program; // the selected program
  let tensors; // tensors of the program, and the persistent ones
  let shown; // visible range: nodes x0 to x1, bytes y0 to y1
  let wanted = ""; // text to look for in names
  let pointed = null; // the tensor under the pointer
  const hidden = new Set(); // roles that are not drawn

  const controls = element("div", { class: "controls" });
  const canvas = element("canvas", { role: "img", "aria-label": view.title, tabindex: 0 });
  const found = element("span", { class: "note", role: "status" });
  body.append(controls, element("div", { class: "plan" }, canvas));
  const screen = canvas.getContext("2d");
  let context = screen; // the context to draw on, and its pixels
  let size = [0, 0];

  const width = () => size[0] - kLeft - kRight;
  const height = () => size[1] - kTop - kBottom;
  const x = (node) => kLeft + ((node - shown.x0) / (shown.x1 - shown.x0)) * width();
  const y = (bytes) => kTop + (1 - (bytes - shown.y0) / (shown.y1 - shown.y0)) * height();
  const nodeAt = (pixel) => shown.x0 + ((pixel - kLeft) / width()) * (shown.x1 - shown.x0);
  const bytesAt = (pixel) => shown.y0 + (1 - (pixel - kTop) / height()) * (shown.y1 - shown.y0);

  // Selects a program. A tensor of node 3 only covers 3 to 4 on the x axis.
  function choose(index) {
    program = view.programs[index];
    const always = view.persistent.map((tensor) => ({ ...tensor, birth: 0, death: program.nodes - 1, always: true }));
    tensors = [...always, ...program.tensors].map((tensor) => ({ ...tensor, lower: tensor.name.toLowerCase() }));
    showAll();
  }

  function showAll() {
    show({ x0: 0, x1: program.nodes, y0: 0, y1: top });
  }

  // Shows a range, limited to the program and the arena, and to at least one node and one byte.
  function show(part) {
    const fit = (low, high, least, most) => {
      const span = Math.min(Math.max(high - low, least), most);
      const start = Math.min(Math.max(0, (low + high - span) / 2), most - span);
      return [start, start + span];
    };
    const [x0, x1] = fit(part.x0, part.x1, 2, program.nodes);
    const [y0, y1] = fit(part.y0, part.y1, 64, top);
    shown = { x0, x1, y0, y1 };
    canvas.dataset.shown = [x0, x1, y0, y1].map(Math.round).join(" ");
    redraw();
  }

  // Zooms by `factor` around a position of the canvas, which stays fixed.
  function zoom(factor, pixelX, pixelY, across = false) {
    const [node, bytes] = [nodeAt(pixelX), bytesAt(pixelY)];
    const part = { x0: node - (node - shown.x0) * factor, x1: node + (shown.x1 - node) * factor, y0: shown.y0, y1: shown.y1 };
    if (!across) Object.assign(part, { y0: bytes - (bytes - shown.y0) * factor, y1: bytes + (shown.y1 - bytes) * factor });
    show(part);
  }

  function move(pixelsX, pixelsY) {
    const nodes = (pixelsX / width()) * (shown.x1 - shown.x0);
    const bytes = (pixelsY / height()) * (shown.y1 - shown.y0);
    show({ x0: shown.x0 - nodes, x1: shown.x1 - nodes, y0: shown.y0 + bytes, y1: shown.y1 + bytes });
  }

  let due = false;
  function redraw() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      measure();
      const scale = devicePixelRatio || 1;
      const [pixelsX, pixelsY] = size.map((pixels) => Math.round(pixels * scale));
      if (canvas.width !== pixelsX || canvas.height !== pixelsY) Object.assign(canvas, { width: pixelsX, height: pixelsY });
      screen.setTransform(scale, 0, 0, scale, 0, 0);
      screen.clearRect(0, 0, ...size);
      draw();
    });
  }

  function measure() {
    size = [canvas.clientWidth, canvas.clientHeight];
  }

  // Draws what is shown again, on another canvas.
  function repaint(paper) {
    context = paper.getContext("2d");
    size = [paper.width, paper.height];
    draw();
    context = screen;
    measure();
  }

  function draw() {
    context.font = `12px ${theme.font}`;
    drawAxes();
    context.save();
    context.beginPath();
    context.rect(kLeft, kTop, width(), height());
    context.clip();
    drawTensors();
    drawLines();
    context.restore();
    drawPhases();
  }

  const matches = (tensor) => wanted === "" || tensor.lower.includes(wanted);
  const visible = (tensor) =>
    !hidden.has(tensor.role) &&
    tensor.death + 1 > shown.x0 && tensor.birth < shown.x1 &&
    tensor.offset + tensor.bytes > shown.y0 && tensor.offset < shown.y1;

  function drawTensors() {
    const border = theme.color("panel");
    const text = "#101418"; // readable on every role's colour
    let labels = 400; // more labels could not be read
    for (const tensor of tensors) {
      if (!visible(tensor)) continue;
      const [left, right] = [x(tensor.birth), x(tensor.death + 1)];
      const [upper, lower] = [y(tensor.offset + tensor.bytes), y(tensor.offset)];
      const [wide, high] = [Math.max(right - left, 0.75), Math.max(lower - upper, 0.75)];
      const color = theme.part(tensor.role, 0);
      context.fillStyle = matches(tensor) ? color : theme.faint(color, 0.18);
      context.fillRect(left, upper, wide, high);
      if (wide > 3 && high > 3) {
        context.strokeStyle = border;
        context.lineWidth = 0.5;
        context.strokeRect(left, upper, wide, high);
      }
      if (wide > 40 && high > 13 && labels > 0 && matches(tensor)) {
        --labels;
        drawName(tensor.name, Math.max(left, kLeft), Math.min(right, kLeft + width()), (Math.max(upper, kTop) + Math.min(lower, kTop + height())) / 2, text);
      }
    }
    const outlined = wanted === "" ? [pointed] : [...tensors.filter((tensor) => visible(tensor) && matches(tensor)), pointed];
    context.strokeStyle = theme.color("text");
    context.lineWidth = 1.5;
    for (const tensor of outlined) {
      if (!tensor) continue;
      context.strokeRect(x(tensor.birth), y(tensor.offset + tensor.bytes), x(tensor.death + 1) - x(tensor.birth), y(tensor.offset) - y(tensor.offset + tensor.bytes));
    }
  }

  // Draws the end of a name if it doesn't fit: the end says more than the beginning.
  function drawName(name, left, right, middle, color) {
    const room = Math.floor((right - left - 6) / 6.6);
    if (room < 5) return;
    context.fillStyle = color;
    context.textBaseline = "middle";
    context.fillText(name.length <= room ? name : `…${name.slice(name.length - room + 1)}`, left + 4, middle);
    context.textBaseline = "alphabetic";
  }

  function drawAxes() {
    context.fillStyle = theme.color("quiet");
    context.strokeStyle = theme.color("grid");
    context.lineWidth = 1;
    context.textAlign = "right";
    for (const bytes of units.byteTicks(shown.y0, shown.y1)) {
      line(kLeft, y(bytes), kLeft + width(), y(bytes));
      context.fillText(units.tick(bytes, "bytes"), kLeft - 6, y(bytes) + 4);
    }
    context.textAlign = "center";
    const step = niceStep((shown.x1 - shown.x0) / Math.max(2, width() / 90));
    for (let node = Math.ceil(shown.x0 / step) * step; node <= shown.x1; node += step) {
      context.fillText(String(node), x(node), kTop + height() + 15);
    }
    context.fillText(`node of ${program.name}`, kLeft + width() / 2, kTop + height() + 30);
    context.textAlign = "left";
  }

  function niceStep(least) {
    const magnitude = 10 ** Math.max(0, Math.floor(Math.log10(least)));
    return magnitude * [1, 2, 5, 10].find((nice) => nice * magnitude >= least);
  }

  function line(fromX, fromY, toX, toY) {
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX, toY);
    context.stroke();
  }

  // Draws lines at the borders of phases, the peak, the arena's top and the budget.
  function drawLines() {
    context.save();
    context.strokeStyle = theme.color("text");
    context.lineWidth = 1;
    for (const { from } of program.phases.slice(1)) line(x(from), kTop, x(from), kTop + height());
    context.setLineDash([6, 4]);
    context.lineWidth = 1.5;
    rule(view.arena_bytes, `arena ${units.format(view.arena_bytes, "bytes")}`, "quiet", kLeft + width() - 6, "right");
    if (view.line) rule(view.line.value, `${view.line.label} ${units.format(view.line.value, "bytes")}`, "warning", kLeft + 6, "left");
    context.strokeStyle = context.fillStyle = theme.color("warning");
    const at = x(program.peak.node + 0.5);
    line(at, kTop, at, kTop + height());
    const right = at > kLeft + width() / 2; // whether the space on the right is smaller
    context.textAlign = right ? "right" : "left";
    const text = `peak ${units.format(program.peak.bytes, "bytes")}: ${program.peak.op}`;
    const room = right ? at - kLeft - 10 : kLeft + width() - at - 10;
    charts.halo(context, charts.fit(context, text, room), at + (right ? -5 : 5), y(view.arena_bytes) + 15);
    context.restore();
  }

  function rule(bytes, text, color, textX, align) {
    if (bytes < shown.y0 || bytes > shown.y1) return;
    context.strokeStyle = context.fillStyle = theme.color(color);
    line(kLeft, y(bytes), kLeft + width(), y(bytes));
    context.textAlign = align;
    charts.halo(context, text, textX, y(bytes) - 4);
  }

  function drawPhases() {
    context.fillStyle = theme.color("quiet");
    for (const { name, from, to } of program.phases) {
      const [left, right] = [Math.max(kLeft, x(from)), Math.min(kLeft + width(), x(to + 1))];
      if (right - left > context.measureText(name).width + 6) context.fillText(name, left + 3, kTop - 6);
    }
  }

  // --- Events of the pointer.

  function place(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function tensorAt(pixelX, pixelY) {
    const [node, bytes] = [nodeAt(pixelX), bytesAt(pixelY)];
    if (pixelX < kLeft || pixelY > kTop + height()) return null;
    return (
      tensors.find(
        (tensor) =>
          !hidden.has(tensor.role) &&
          node >= tensor.birth && node < tensor.death + 1 &&
          bytes >= tensor.offset && bytes < tensor.offset + tensor.bytes,
      ) ?? null
    );
  }

  function point(event) {
    const before = pointed;
    pointed = tensorAt(...place(event));
    if (pointed) tooltip.show(event.pageX, event.pageY, pointed.name, facts(pointed));
    else tooltip.hide();
    if (pointed !== before) redraw();
  }

  function facts(tensor) {
    const lines = [
      `${tensor.type}, ${units.format(tensor.bytes, "bytes")} (${tensor.bytes} bytes)`,
      theme.label(tensor.role),
      tensor.op ? `written by ${tensor.op}${tensor.scope ? ` in ${tensor.scope}` : ""}` : "",
      tensor.always ? "alive throughout" : `alive from node ${tensor.birth} to ${tensor.death}`,
      `at offset ${units.format(tensor.offset, "bytes")}`,
    ];
    return lines.filter(Boolean).map((text) => ({ text }));
  }

  const pointers = new Map(); // pressed pointers by id, with their last positions
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, place(event));
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return point(event);
    const [before, now] = [pointers.get(event.pointerId), place(event)];
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    pointers.set(event.pointerId, now);
    tooltip.hide();
    const share = other ? 0.5 : 1; // each of two fingers moves the centre by half
    move(share * (now[0] - before[0]), share * (now[1] - before[1]));
    if (other) {
      const apart = ([a, b]) => Math.max(20, Math.hypot(a - other[0], b - other[1]));
      zoom(apart(before) / apart(now), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    }
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", () => {
    pointed = null;
    tooltip.hide();
    redraw();
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      // With shift, some systems scroll sideways instead of vertically.
      const turned = event.deltaY || event.deltaX;
      zoom(1.0015 ** turned, ...place(event), event.shiftKey);
      point(event);
    },
    { passive: false },
  );
  canvas.addEventListener("dblclick", showAll);
  canvas.addEventListener("keydown", (event) => {
    const middle = [kLeft + width() / 2, kTop + height() / 2];
    const actions = {
      "+": () => zoom(0.8, ...middle),
      "-": () => zoom(1.25, ...middle),
      "0": showAll,
      ArrowLeft: () => move(40, 0),
      ArrowRight: () => move(-40, 0),
      ArrowUp: () => move(0, 40),
      ArrowDown: () => move(0, -40),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });

  // --- Controls above the canvas.

  if (view.programs.length > 1) {
    const options = view.programs.map(({ name }, i) => ({ name, value: i }));
    charts.select(controls, "program", options, choose);
  }
  const search = element("input", { type: "search", placeholder: "find tensors by name", "aria-label": "find tensors by name" });
  search.addEventListener("input", () => {
    wanted = search.value.trim().toLowerCase();
    const count = tensors.filter(matches).length;
    found.textContent = wanted === "" ? "" : `${count} found`;
    redraw();
  });
  const all = element("button", { type: "button" }, "show all");
  all.addEventListener("click", showAll);
  controls.append(search, all, found);

  const highest = view.programs.reduce((best, { peak }, i) => (peak.bytes > view.programs[best].peak.bytes ? i : best), 0);
  const select = controls.querySelector("select");
  if (select) select.value = highest;
  measure();
  choose(highest);

  const roles = theme.order(new Set([...view.persistent, ...view.programs.flatMap((each) => each.tensors)].map((tensor) => tensor.role)));
  charts.toggles(body, roles.map((role) => ({ name: role, color: theme.part(role, 0) })), (role, on) => {
    if (on) hidden.delete(role);
    else hidden.add(role);
    redraw();
  });
  save.chart(body, {
    title: view.title,
    height: () => 620,
    legend: () => roles.filter((role) => !hidden.has(role)).map((role) => ({ name: theme.label(role), color: theme.part(role, 0) })),
    paint: repaint,
  });
  new ResizeObserver(redraw).observe(canvas);
};
