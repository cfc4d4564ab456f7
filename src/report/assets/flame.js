"use strict";
// Zoom by click or Enter, back by Escape or a click on the root; search by Ctrl+F or the button. Boxes carry their place
// (data-x, data-w in shares of the whole) so that zooming only needs arithmetic.
(() => {
	const svg = document.documentElement;
	const boxes = [...svg.querySelectorAll("g.f")].map((g) => ({
		g, rect: g.querySelector("rect"), text: g.querySelector("text"),
		title: g.querySelector("title").textContent,
		x: +g.dataset.x, w: +g.dataset.w, d: +g.dataset.d,
	}));
	const status = svg.getElementById("status"), width = 1180, left = 10;
	let view = { x: 0, w: 1 };
	function draw() {
		for (const b of boxes) {
			const x = (b.x - view.x) / view.w, w = b.w / view.w;
			const from = Math.max(0, x), to = Math.min(1, x + w), seen = (to - from) * width > 0.3;
			b.g.style.display = seen ? "" : "none";
			if (!seen) continue;
			b.rect.setAttribute("x", left + from * width);
			b.rect.setAttribute("width", Math.max(0.3, (to - from) * width - 0.4));
			b.text.setAttribute("x", left + from * width + 3);
			const name = b.g.dataset.n, room = Math.floor(((to - from) * width - 6) / 6.4);
			b.text.textContent = room < 3 ? "" : name.length > room ? name.slice(0, room - 1) + "…" : name;
			b.g.classList.toggle("above", b.w >= view.w - 1e-9 && view.w < 1 && b.w > view.w + 1e-9);
		}
	}
	function zoom(b) { view = b ? { x: b.x, w: b.w } : { x: 0, w: 1 }; draw(); }
	function search(term) {
		const words = (term || "").toLowerCase();
		const found = [];
		for (const b of boxes) {
			const hit = words && b.g.dataset.n.toLowerCase().includes(words);
			b.g.classList.toggle("hit", !!hit);
			if (hit) found.push(b);
		}
		// Of nested hits only the outermost counts.
		found.sort((a, b) => a.x - b.x || b.w - a.w);
		let end = -1, sum = 0;
		for (const b of found) if (b.x >= end - 1e-9) { sum += b.w; end = b.x + b.w; }
		status.textContent = words ? `"${term}": ${(100 * sum).toFixed(1)} %` : "";
	}
	for (const b of boxes) {
		b.g.addEventListener("click", () => zoom(b.d ? b : null));
		b.g.addEventListener("keydown", (e) => { if (e.key === "Enter") zoom(b.d ? b : null); });
		b.g.addEventListener("mouseover", () => { status.textContent = b.title; });
	}
	const ask = () => search(prompt("Search for a name:") || "");
	svg.getElementById("search").addEventListener("click", ask);
	window.addEventListener("keydown", (e) => {
		if (e.key === "Escape") { zoom(null); search(""); }
		if ((e.ctrlKey || e.metaKey) && e.key === "f") { e.preventDefault(); ask(); }
	});
	window.flame = { search, reset: () => zoom(null), status: () => status.textContent };
	draw();
})();
