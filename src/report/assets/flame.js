/* A flame graph whose boxes are in the document already: zoom, search and keyboard, for pages of reports and SVG files
   alike. boxes: in preorder, { e: element, x, w: place in shares of the whole, d: depth, name }; each gets up and down,
   its caller and its heaviest callee. on: draw(box, x, w, above) places a box in shares of what is shown (above: it
   calls the zoomed one), hide(box), tell(box), focus(box), found(term, share, places); calleesAbove where the root is
   the lowest. */
function flameGraph(boxes, on) {
  "use strict";
  var zoom = boxes[0], last = [];
  boxes.forEach(function (b) {
    b.up = b.d ? last[b.d - 1] || null : null;
    b.down = null;
    if (b.up && !b.up.down) b.up.down = b;
    last[b.d] = b;
  });
  function inside(b, z) { for (; b; b = b.up) if (b === z) return true; return false; }
  function draw() {
    boxes.forEach(function (b) {
      var above = inside(zoom, b);
      b.shown = b.w > 0 && (above || inside(b, zoom));
      if (!b.shown) on.hide(b);
      else if (above) on.draw(b, 0, 1, b !== zoom);
      else on.draw(b, (b.x - zoom.x) / zoom.w, b.w / zoom.w, false);
    });
  }
  function go(b) { zoom = b; draw(); on.tell(b); }
  function search(term) {
    var word = term.trim().toLowerCase(), share = 0, places = 0;
    boxes.forEach(function (b) {
      b.hit = !!word && b.name.toLowerCase().indexOf(word) >= 0;
      b.e.classList.toggle("hit", b.hit);
      if (!b.hit) return;
      places++;
      /* Not counted twice: only the outermost of a path. */
      for (var p = b.up; p && !p.hit; p = p.up);
      if (!p) share += b.w;
    });
    on.found(term, share, places);
  }
  function beside(b, step) {
    for (var i = boxes.indexOf(b) + step; i >= 0 && i < boxes.length; i += step)
      if (boxes[i].d === b.d && boxes[i].shown) return boxes[i];
    return null;
  }
  /* True when the key was one of its own. */
  function key(b, name) {
    var to = null;
    if (name === "Enter" || name === " ") go(b);
    else if (name === "Escape") go(boxes[0]);
    else if (name === (on.calleesAbove ? "ArrowDown" : "ArrowUp")) to = b.up;
    else if (name === (on.calleesAbove ? "ArrowUp" : "ArrowDown")) to = b.down;
    else if (name === "ArrowLeft") to = beside(b, -1);
    else if (name === "ArrowRight") to = beside(b, 1);
    else return false;
    if (to) on.focus(to);
    return true;
  }
  return { draw: draw, go: go, search: search, key: key, zoomed: function () { return zoom; } };
}
