// Before the first paint, so that a page chosen dark never flashes light.
(() => {
  try {
    const chosen = localStorage.getItem("drdotnet-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch {
    /* storage is off: as the system */
  }
})();
