// Before the first paint, so that a page chosen dark never flashes light.
(function () {
  try {
    var chosen = localStorage.getItem("drdotnet-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch (e) {
    /* storage is off: as the system */
  }
})();
