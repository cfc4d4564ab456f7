"use strict";
/* The flame graph of an SVG file: boxes carry their place (data-x, data-w) in shares of the whole. Ctrl+F or the word at
   the top searches. */
(() => {
	const svg = document.documentElement, status = svg.getElementById("status"), width = 1180, left = 10;
	const boxes = [...svg.querySelectorAll("g.f")].map((e) => ({
		e, rect: e.querySelector("rect"), text: e.querySelector("text"), title: e.querySelector("title").textContent,
		name: e.dataset.n, x: +e.dataset.x, w: +e.dataset.w, d: +e.dataset.d,
	}));
	const graph = flameGraph(boxes, {
		calleesAbove: true,
		hide: (b) => { b.e.style.display = "none"; },
		draw: (b, x, w, above) => {
			const room = Math.floor((w * width - 6) / 6.4);
			b.e.style.display = w * width > 0.3 ? "" : "none";
			b.rect.setAttribute("x", left + x * width);
			b.rect.setAttribute("width", Math.max(0.3, w * width - 0.4));
			b.text.setAttribute("x", left + x * width + 3);
			b.text.textContent = room < 3 ? "" : b.name.length > room ? b.name.slice(0, room - 1) + "…" : b.name;
			b.e.classList.toggle("above", above);
		},
		tell: (b) => { status.textContent = b.title; },
		focus: (b) => b.e.focus(),
		found: (term, share) => { status.textContent = term ? `"${term}": ${(100 * share).toFixed(1)} %` : ""; },
	});
	for (const b of boxes) {
		b.e.addEventListener("click", () => graph.go(b));
		b.e.addEventListener("keydown", (e) => { if (graph.key(b, e.key)) e.preventDefault(); });
		b.e.addEventListener("mouseover", () => { status.textContent = b.title; });
	}
	const ask = () => graph.search(prompt("Search for a name:") || "");
	svg.getElementById("search").addEventListener("click", ask);
	window.addEventListener("keydown", (e) => {
		if (e.key === "Escape") { graph.go(boxes[0]); graph.search(""); }
		if ((e.ctrlKey || e.metaKey) && e.key === "f") { e.preventDefault(); ask(); }
	});
	window.flame = { search: graph.search, reset: () => graph.go(boxes[0]), status: () => status.textContent };
	graph.draw();
})();
