/* Makes the page that is already there easier to use: sorting, folding, zooming, theme. Reads text and numbers from the
   document, writes attributes and text only; builds no markup out of data. */
(function () {
"use strict";
var each = function (list, fn) { Array.prototype.forEach.call(list, fn); };
var $ = function (selector, from) { return (from || document).querySelectorAll(selector); };
function make(tag, cls, text) {
  var e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text) e.textContent = text;
  return e;
}

/* Theme: as the system, light, dark. */
(function () {
  var by = $(".by")[0], order = ["auto", "light", "dark"], words = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  if (!by) return;
  var button = make("button", "theme"), now = "auto";
  try { now = localStorage.getItem("drdotnet-theme") || "auto"; } catch (e) { now = "auto"; }
  if (order.indexOf(now) < 0) now = "auto";
  function show() {
    if (now === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", now);
    button.textContent = words[now];
  }
  button.type = "button";
  button.addEventListener("click", function () {
    now = order[(order.indexOf(now) + 1) % 3];
    try { localStorage.setItem("drdotnet-theme", now); } catch (e) { /* not kept then */ }
    show();
  });
  by.appendChild(button);
  show();
})();

/* Tables: sort by head, open the lines of a row. Each row is a tbody of its own with its lines. */
function cellOf(body, column) { return body.rows[0].cells[column]; }
function compare(a, b, numeric) {
  if (!numeric) return a.textContent.trim().localeCompare(b.textContent.trim());
  var x = a.getAttribute("data-v"), y = b.getAttribute("data-v");
  if (x === null || y === null) return (x === null) - (y === null) ? ((x === null) ? -1 : 1) : 0;
  return Number(x) - Number(y);
}
function sortTable(table, th, column, numeric) {
  var down = th.getAttribute("aria-sort") ? th.getAttribute("aria-sort") === "ascending" : numeric;
  var bodies = Array.prototype.filter.call(table.tBodies, function (b) { return !b.classList.contains("last"); });
  var last = $("tbody.last", table)[0] || null;
  bodies.map(function (b, i) { return { b: b, i: i, c: cellOf(b, column) }; }).sort(function (p, q) {
    var d = compare(p.c, q.c, numeric);
    /* What was not measured stays at the end, whichever way. */
    if (numeric && (p.c.getAttribute("data-v") === null || q.c.getAttribute("data-v") === null)) return -d || p.i - q.i;
    return (down ? -d : d) || p.i - q.i;
  }).forEach(function (p) { table.insertBefore(p.b, last); });
  each($("th[aria-sort]", table), function (h) { h.removeAttribute("aria-sort"); });
  th.setAttribute("aria-sort", down ? "descending" : "ascending");
}
each($("table.rows"), function (table) {
  each(table.tHead.rows[0].cells, function (th, column) {
    if (th.classList.contains("c-b")) return;
    var numeric = th.classList.contains("num"), button = make("button", "", th.textContent);
    button.type = "button";
    th.textContent = "";
    th.appendChild(button);
    button.addEventListener("click", function () { sortTable(table, th, column, numeric); });
  });
  each($("tr.has", table), function (row, i) {
    var detail = row.nextElementSibling, first = $(".first", row)[0], button = make("button", "tw");
    function set(open) {
      detail.hidden = !open;
      row.classList.toggle("open", open);
      button.setAttribute("aria-expanded", String(open));
    }
    button.type = "button";
    button.setAttribute("aria-label", "Lines of this row");
    first.insertBefore(button, first.firstChild);
    button.addEventListener("click", function () { set(detail.hidden); });
    set(i === 0);
  });
  /* On narrow pages a tap on a row shows the columns that had no room. */
  table.addEventListener("click", function (e) {
    var row = e.target.closest && e.target.closest("tbody tr");
    if (row && !row.classList.contains("has") && !row.classList.contains("detail") && !e.target.closest("button")) row.classList.toggle("open");
  });
});

/* Trees: arrows as everywhere. */
each($(".tree"), function (tree) {
  function rows() {
    return Array.prototype.filter.call($(".trow", tree), function (r) {
      for (var p = r.parentElement; p !== tree; p = p.parentElement)
        if (p.tagName === "DETAILS" && !p.open && r.parentElement !== p) return false;
        else if (p.tagName === "DETAILS" && !p.open && r.tagName !== "SUMMARY") return false;
      return true;
    });
  }
  each($("div.trow", tree), function (r) { r.tabIndex = -1; });
  tree.addEventListener("keydown", function (e) {
    var row = e.target.closest(".trow"), all = rows(), i = all.indexOf(row), to = null;
    var own = row && row.tagName === "SUMMARY" ? row.parentElement : null;
    if (i < 0) return;
    if (e.key === "ArrowDown") to = all[i + 1];
    else if (e.key === "ArrowUp") to = all[i - 1];
    else if (e.key === "ArrowRight" && own) { if (own.open) to = all[i + 1]; else own.open = true; }
    else if (e.key === "ArrowLeft" && own && own.open) own.open = false;
    else if (e.key === "ArrowLeft") {
      var up = (own || row).parentElement.closest("details");
      to = up ? up.firstElementChild : null;
    } else return;
    e.preventDefault();
    if (to) to.focus();
  });
});
/* For printing, where a browser does not open them by itself. */
var opened = [];
addEventListener("beforeprint", function () {
  each($(".tree details:not([open])"), function (d) { opened.push(d); d.open = true; });
});
addEventListener("afterprint", function () { opened.forEach(function (d) { d.open = false; }); opened = []; });

/* Flame graph (flame.js): boxes are nested svg elements with data-x, data-w (shares), data-d (depth), data-s (itself). */
function percent(x) {
  var p = x * 100;
  return (p >= 9.95 ? p.toFixed(0) : p >= 1 ? p.toFixed(1) : p.toFixed(2)).replace(/\.0+$/, "") + " %";
}
each($(".flame"), function (flame) {
  var now = flame.previousElementSibling, svg = $("svg", flame)[0];
  var boxes = Array.prototype.map.call($("svg", svg), function (e) {
    return { e: e, x: +e.getAttribute("data-x"), w: +e.getAttribute("data-w"), d: +e.getAttribute("data-d"),
             s: +e.getAttribute("data-s"),
             c: e.hasAttribute("data-c") ? +e.getAttribute("data-c") : null, name: $("title", e)[0].textContent };
  });
  boxes.forEach(function (b, i) {
    b.e.tabIndex = i ? -1 : 0;
    b.e.setAttribute("role", "button");
    b.e.setAttribute("aria-label", b.name);
  });
  if (!boxes.length) return;
  function find(e) { var el = e.target.closest("svg"); for (var i = 0; i < boxes.length; i++) if (boxes[i].e === el) return boxes[i]; return null; }
  function tell(b) {
    var zoom = graph.zoomed();
    now.textContent = "";
    now.appendChild(make("code", "", b.name));
    now.appendChild(document.createTextNode(": " + percent(b.w) + " with callees, " + percent(b.s) + " itself" +
      (b.c === null ? "" : ", before " + percent(Math.max(0, b.w - b.c)) + " with callees") +
      (zoom !== boxes[0] ? ", " + percent(b.w / zoom.w) + " of " + zoom.name : "")));
    back.hidden = zoom === boxes[0];
  }
  function focus(b) {
    boxes.forEach(function (o) { o.e.tabIndex = o === b ? 0 : -1; });
    b.e.focus();
  }
  var graph = flameGraph(boxes, {
    hide: function (b) { b.e.style.display = "none"; },
    draw: function (b, x, w) {
      b.e.style.display = "";
      b.e.setAttribute("x", x * 100 + "%");
      b.e.setAttribute("width", w * 100 + "%");
    },
    tell: tell,
    focus: focus,
    found: function (term, share, places) {
      flame.classList.toggle("seek", !!term.trim());
      found.textContent = !term.trim() ? "" : places ? places + (places === 1 ? " place, " : " places, ") + percent(share) : "not found";
    }
  });
  var bar = make("div", "fl-bar"), input = make("input"), back = make("button", "", "Show all"), found = make("output");
  input.type = "search";
  input.placeholder = "Find a method";
  input.setAttribute("aria-label", "Find a method in the flame graph");
  back.type = "button";
  back.hidden = true;
  bar.appendChild(input); bar.appendChild(back); bar.appendChild(found);
  now.parentElement.insertBefore(bar, now);
  back.addEventListener("click", function () { graph.go(boxes[0]); });
  input.addEventListener("input", function () { graph.search(input.value); });
  svg.addEventListener("click", function (e) { var b = find(e); if (b) { graph.go(b); focus(b); } });
  svg.addEventListener("mouseover", function (e) { var b = find(e); if (b) tell(b); });
  svg.addEventListener("focusin", function (e) { var b = find(e); if (b) tell(b); });
  svg.addEventListener("keydown", function (e) {
    var b = find(e);
    if (b && graph.key(b, e.key)) e.preventDefault();
  });
  /* Only what happened in a range: weights by box, or null for all. Callers still stand above what they call. */
  flame.only = function (weights) {
    var end = [], all = 0;
    boxes.forEach(function (b, i) { b.own = weights ? weights[i] || 0 : b.s0; all += b.own; b.sum = b.own; });
    for (var i = boxes.length - 1; i > 0; i--) if (boxes[i].up) boxes[i].up.sum += boxes[i].sum;
    boxes.forEach(function (b) {
      b.w = !weights ? b.w0 : all ? b.sum / all : 0;
      b.s = !weights ? b.s0 : all ? b.own / all : 0;
      b.x = !weights ? b.x0 : b.up ? end[b.up.i] : 0;
      end[b.i] = b.x;
      if (b.up) end[b.up.i] += b.w;
    });
    graph.go(boxes[0]);
  };
  boxes.forEach(function (b, i) { b.i = i; b.x0 = b.x; b.w0 = b.w; b.s0 = b.s; });
  graph.draw();
});

/* Treemap: boxes in preorder with their place in shares of the whole; those that only hold others are not drawn. Going
   in makes one of them as large as the picture, and shows its parts. */
each($(".tm"), function (map) {
  var now = map.previousElementSibling, svg = $("svg", map)[0], said = now.textContent, zoom = null, last = [];
  var boxes = Array.prototype.map.call($("svg", svg), function (e) {
    return { e: e, x: +e.getAttribute("data-x"), y: +e.getAttribute("data-y"), w: +e.getAttribute("data-w"), h: +e.getAttribute("data-h"),
             d: +e.getAttribute("data-d"), says: e.getAttribute("data-n"), name: $("title", e)[0].textContent,
             text: $("text", e), branch: e.classList.contains("tm-in") || e.classList.contains("tm-whole"),
             inner: e.classList.contains("off"), up: null };
  });
  if (!boxes.length) return;
  boxes.forEach(function (b) { b.up = b.d ? last[b.d - 1] || null : null; last[b.d] = b; last.length = b.d + 1; });
  var tiles = boxes.filter(function (b) { return b.text.length; });
  function inside(b, z) { if (!z) return true; for (; b; b = b.up) if (b === z) return true; return false; }
  function path(b) { var names = []; for (; b && b !== zoom; b = b.up) names.unshift(b.name); return names; }
  function tell(b) {
    now.textContent = "";
    path(b).forEach(function (name, i) {
      if (i) now.appendChild(document.createTextNode(" › "));
      now.appendChild(make("code", "", name));
    });
    now.appendChild(document.createTextNode(": " + b.says));
  }
  function seen(b) { return zoom ? inside(b, zoom) && !b.branch : !b.inner; }
  function shown() { return tiles.filter(seen); }
  function draw() {
    var z = zoom || { x: 0, y: 0, w: 1, h: 1 }, width = svg.clientWidth, height = svg.clientHeight;
    tiles.forEach(function (b) {
      var on = seen(b), w = b.w / z.w, h = b.h / z.h;
      b.e.classList.toggle("off", !on);
      if (!on) return;
      b.e.setAttribute("x", (b.x - z.x) / z.w * 100 + "%");
      b.e.setAttribute("y", (b.y - z.y) / z.h * 100 + "%");
      b.e.setAttribute("width", w * 100 + "%");
      b.e.setAttribute("height", h * 100 + "%");
      b.text[0].classList.toggle("no", w * width < 44 || h * height < 18);
      b.text[1].classList.toggle("no", w * width < 44 || h * height < 34);
    });
    bar.hidden = !zoom;
    where.textContent = zoom ? zoom.name + ": " + zoom.says : "";
  }
  function same(a, b) { return a.w * a.h > 0.99 * b.w * b.h; }
  /* One step towards it; through what is as good as all of the box at once. */
  function goIn(leaf) {
    var way = [], b = leaf;
    for (; b && b !== zoom; b = b.up) if (b.branch) way.unshift(b);
    while (way.length > 1 && same(way[1], way[0])) way.shift();
    if (!way.length) return;
    zoom = way[0];
    draw();
    focus(seen(leaf) ? leaf : shown()[0]);
  }
  function goOut() {
    var from = zoom;
    if (!from) return;
    do zoom = zoom.up; while (zoom && same(from, zoom));
    draw();
    focus(shown().filter(function (b) { return inside(b, from) || inside(from, b); })[0]);
  }
  function focus(b) {
    if (!b) return;
    tiles.forEach(function (o) { o.e.tabIndex = o === b ? 0 : -1; });
    b.e.focus();
  }
  function find(e) { var el = e.target.closest("svg"); for (var i = 0; i < tiles.length; i++) if (tiles[i].e === el) return tiles[i]; return null; }
  var bar = make("div", "fl-bar"), back = make("button", "", "Back"), where = make("output");
  back.type = "button";
  bar.appendChild(back); bar.appendChild(where);
  now.parentElement.insertBefore(bar, now);
  back.addEventListener("click", goOut);
  tiles.forEach(function (b, i) {
    b.e.tabIndex = i ? -1 : 0;
    b.e.setAttribute("role", "button");
    b.e.setAttribute("aria-label", b.name + ", " + b.says);
  });
  svg.addEventListener("click", function (e) { var b = find(e); if (b) { focus(b); goIn(b); } });
  svg.addEventListener("mouseover", function (e) { var b = find(e); if (b) tell(b); });
  svg.addEventListener("mouseleave", function () { if (!svg.contains(document.activeElement)) now.textContent = said; });
  svg.addEventListener("focusin", function (e) { var b = find(e); if (b) tell(b); });
  svg.addEventListener("keydown", function (e) {
    var b = find(e), all = shown(), i = all.indexOf(b);
    if (!b) return;
    if (e.key === "ArrowRight" || e.key === "ArrowDown") focus(all[i + 1]);
    else if (e.key === "ArrowLeft" || e.key === "ArrowUp") focus(all[i - 1]);
    else if (e.key === "Enter" || e.key === " ") goIn(b);
    else if (e.key === "Escape") goOut();
    else return;
    e.preventDefault();
  });
  addEventListener("resize", draw);
  draw();
});

each($(".heat"), function (heat) {
  var flame = $(".flame", heat.parentElement)[0], svg = $("svg", heat)[0], rects = $("rect", svg);
  var rows = +heat.getAttribute("data-rows"), seconds = +heat.getAttribute("data-seconds"), from = null, to = null;
  var cells = heat.getAttribute("data-cells").split(";").map(function (c) { return c.split(",").map(Number); });
  var say = make("output"), all = make("button", "", "Whole window"), bar = make("div", "fl-bar");
  all.type = "button";
  all.hidden = true;
  bar.appendChild(all); bar.appendChild(say);
  heat.insertBefore(bar, svg);
  function at(i) { return Math.floor(i / rows) * seconds + i % rows / rows; }
  function show() {
    var low = Math.min(from, to), high = Math.max(from, to), weights = {}, sum = 0;
    each(rects, function (r, i) { r.classList.toggle("in", from !== null && i >= low && i <= high); });
    all.hidden = from === null;
    if (from === null) { say.textContent = ""; flame.only(null); return; }
    cells.forEach(function (c) {
      var i = c[0] * rows + c[1];
      if (i >= low && i <= high) { weights[c[2]] = (weights[c[2]] || 0) + c[3]; sum += c[3]; }
    });
    var end = at(high) + 1 / rows + (high % rows === rows - 1 ? seconds - 1 : 0);
    say.textContent = at(low).toFixed(2) + " s to " + end.toFixed(2) + " s: " +
      (heat.getAttribute("data-kind") === "ns" ? (sum / 1e6).toFixed(0) + " ms" : sum) + (sum ? "" : ", nothing there");
    if (sum) flame.only(weights);
  }
  function pick(i) {
    if (from === null || to !== from) { from = to = i; } else { to = i; }
    show();
  }
  function focus(i) {
    if (i < 0 || i >= rects.length) return;
    each(rects, function (r, k) { r.tabIndex = k === i ? 0 : -1; });
    rects[i].focus();
  }
  each(rects, function (r, i) {
    r.tabIndex = i ? -1 : 0;
    r.setAttribute("role", "button");
    r.addEventListener("click", function () { pick(i); focus(i); });
    r.addEventListener("keydown", function (e) {
      var step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -rows, ArrowRight: rows }[e.key];
      if (step) focus(i + step);
      else if (e.key === "Enter" || e.key === " ") pick(i);
      else if (e.key === "Escape") { from = to = null; show(); }
      else return;
      e.preventDefault();
    });
  });
  all.addEventListener("click", function () { from = to = null; show(); });
});
})();
