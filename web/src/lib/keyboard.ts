// Keys that work on every page. Never while somebody types.
import { go } from "./router";

export function listenToKeys(): void {
  let wait = 0;
  document.addEventListener("keydown", (e) => {
    const at = e.target as HTMLElement;
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || at.closest("input, textarea, select, dialog"))
      return;
    const after = Date.now() - wait < 1000;
    wait = 0;
    if (e.key === "/") dispatchEvent(new Event("drdotnet:find"));
    else if (e.key === "?") dispatchEvent(new Event("drdotnet:keys"));
    else if (e.key === "g") {
      wait = Date.now();
      return;
    } else if (after && e.key === "p") go("/processes");
    else if (after && e.key === "s") go("/sessions");
    else if (e.key === "e") document.querySelector<HTMLElement>("[data-examine]")?.click();
    else return;
    e.preventDefault();
  });
}
