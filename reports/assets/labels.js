// Places the names of points: next to their point or, where that is crowded, further away at the
// end of a line. The same points give the same places.
"use strict";

const labels = (() => {
  const kDistances = [3, 9, 16, 24, 34, 46, 60, 76, 94, 116, 142, 172, 208, 250, 300, 360, 430];
  const kDirections = 24;
  const kNear = 6; // up to this distance a name needs no line

  const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

  // Whether the line from (x1, y1) to (x2, y2) passes through a box: Liang and Barsky, 1984.
  function crosses([x1, y1, x2, y2], [left, top, right, bottom]) {
    let [from, to] = [0, 1];
    for (const [delta, room] of [[x1 - x2, x1 - left], [x2 - x1, right - x1], [y1 - y2, y1 - top], [y2 - y1, bottom - y1]]) {
      if (delta === 0 && room < 0) return false;
      if (delta < 0) from = Math.max(from, room / delta);
      if (delta > 0) to = Math.min(to, room / delta);
    }
    return from < to;
  }

  function meet([ax, ay, bx, by], [cx, cy, dx, dy]) {
    const side = (px, py, qx, qy, rx, ry) => Math.sign((qx - px) * (ry - py) - (qy - py) * (rx - px));
    return side(ax, ay, bx, by, cx, cy) !== side(ax, ay, bx, by, dx, dy) && side(cx, cy, dx, dy, ax, ay) !== side(cx, cy, dx, dy, bx, by);
  }

  // `points`: [{x, y, radius, width, height}]; width and height are those of the name. No name
  // covers a point, another name or one of the boxes `bars`, nor leaves `area`. Names cross `lines`
  // only if everything else is worse. Boxes are [left, top, right, bottom], lines [x, y, x, y].
  // Returns {box, line} for each point; `line` is null if the name needs none. A point whose name
  // has no place gets null.
  function place(points, bars, lines, area) {
    const dots = points.map(({ x, y, radius }) => [x - radius - 1, y - radius - 1, x + radius + 1, y + radius + 1]);
    const solid = [...dots, ...bars];
    const choices = points.map((point, i) => candidates(point, i));
    let placed;
    // Each name in turn is placed where it is best next to the names already placed, repeatedly.
    // The result depends on the order, so several orders are tried.
    const orders = [(i) => choices[i].length, (i) => points[i].x, (i) => -points[i].x, (i) => points[i].y, (i) => -points[i].y];
    return orders
      .map((key) => settle(points.map((_, i) => i).sort((a, b) => key(a) - key(b) || a - b)))
      .reduce((a, b) => (b.cost < a.cost ? b : a)).placed;

    function settle(order) {
      placed = points.map(() => null);
      for (let round = 0; round < 8; ++round) {
        let moved = false;
        for (const i of order) {
          const before = placed[i];
          placed[i] = null;
          placed[i] = best(i, round < 6) ?? before;
          moved ||= placed[i] !== before;
        }
        if (!moved) break;
      }
      const cost = placed.reduce((sum, label, i) => {
        const tangled = placed.slice(0, i).reduce((more, other) => more + (label && other ? tangle(label, other) : 0), 0);
        return sum + (label?.cost ?? 1e6) + tangled;
      }, 0);
      return { placed, cost };
    }

    function candidates({ x, y, radius, width, height }, own) {
      const found = [];
      for (const distance of kDistances) {
        for (let i = 0; i < kDirections; ++i) {
          const angle = (2 * Math.PI * i) / kDirections;
          const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
          const middle = [x + cos * (radius + distance + width / 2), y + sin * (radius + distance + height / 2)];
          const box = [middle[0] - width / 2, middle[1] - height / 2, middle[0] + width / 2, middle[1] + height / 2];
          if (box[0] < area[0] || box[1] < area[1] || box[2] > area[2] || box[3] > area[3]) continue;
          if (solid.some((each) => overlap(box, each))) continue;
          const line = distance > kNear ? leader(x, y, radius, box) : null;
          // Prefers the right side of the point.
          let cost = distance + 2 * Math.abs(sin) + (cos < 0 ? 2 : 0);
          cost += 25 * lines.filter((each) => crosses(each, box)).length;
          if (line) {
            cost += 60 * dots.filter((dot, j) => j !== own && crosses(line, dot)).length;
            cost += 30 * bars.filter((bar) => crosses(line, bar)).length;
          }
          found.push({ box, line, cost });
        }
      }
      return found.sort((a, b) => a.cost - b.cost);
    }

    // The cheapest place next to the names already placed. `evict`: if there is no such place,
    // takes the one that covers the fewest names; these then look for another place.
    function best(own, evict) {
      const others = placed.map((label, i) => [label, i]).filter(([label]) => label);
      let [chosen, least] = [null, Infinity];
      for (const each of choices[own]) {
        if (each.cost >= least) break;
        if (others.some(([other]) => overlap(each.box, other.box))) continue;
        const cost = each.cost + others.reduce((sum, [other]) => sum + tangle(each, other), 0);
        if (cost < least) [chosen, least] = [each, cost];
      }
      if (chosen || !evict) return chosen;
      let fewest = Infinity;
      for (const each of choices[own]) {
        const covered = others.filter(([other]) => overlap(each.box, other.box));
        if (covered.length < fewest) [chosen, fewest] = [each, covered.length];
      }
      for (const [other, i] of others) if (chosen && overlap(chosen.box, other.box)) placed[i] = null;
      return chosen;
    }

    function tangle(a, b) {
      let cost = 0;
      if (a.line && crosses(a.line, b.box)) cost += 120;
      if (b.line && crosses(b.line, a.box)) cost += 120;
      if (a.line && b.line && meet(a.line, b.line)) cost += 80;
      return cost;
    }
  }

  // The line from the point's edge to the nearest position on the box.
  function leader(x, y, radius, [left, top, right, bottom]) {
    const end = [Math.min(Math.max(x, left), right), Math.min(Math.max(y, top), bottom)];
    const length = Math.hypot(end[0] - x, end[1] - y);
    const share = length === 0 ? 0 : Math.min(1, (radius + 1) / length);
    return [x + share * (end[0] - x), y + share * (end[1] - y), ...end];
  }

  return { place, overlap, crosses };
})();
