// Addresses. Pages are paths, views within a page are the query: sort, filter, zoom. Changing the page makes a step of
// the browser's history, changing a view replaces it, so that Back leaves the page and a pasted link shows the same.
import { useCallback, useEffect, useState } from "preact/hooks";

export interface Place {
  path: string;
  query: URLSearchParams;
}

const EVENT = "drdotnet:place";

function here(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

function changed(): void {
  dispatchEvent(new Event(EVENT));
}

export function go(href: string): void {
  if (href === location.pathname + location.search) return;
  history.pushState(null, "", href);
  scrollTo(0, 0);
  changed();
}

export function replace(href: string): void {
  history.replaceState(null, "", href);
  changed();
}

export function usePlace(): Place {
  const [place, set] = useState(here);
  useEffect(() => {
    const update = () => set(here());
    addEventListener(EVENT, update);
    addEventListener("popstate", update);
    return () => {
      removeEventListener(EVENT, update);
      removeEventListener("popstate", update);
    };
  }, []);
  return place;
}

/** One word of the view, kept in the address; the default is left out of it. */
export function useQuery(key: string, fallback = ""): [string, (value: string) => void] {
  const { query } = usePlace();
  const set = useCallback(
    (value: string) => {
      const next = new URLSearchParams(location.search);
      if (value === fallback) next.delete(key);
      else next.set(key, value);
      const text = next.toString();
      replace(location.pathname + (text ? `?${text}` : ""));
    },
    [key, fallback],
  );
  return [query.get(key) ?? fallback, set];
}

/** Matches "/sessions/:guid" and gives its parts, or null. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const want = pattern.split("/"),
    have = path.replace(/\/+$/, "").split("/");
  if (want.length !== have.length) return null;
  const parts: Record<string, string> = {};
  for (let i = 0; i < want.length; i++) {
    const w = want[i]!,
      h = have[i]!;
    if (w.startsWith(":")) {
      if (!h) return null;
      try {
        parts[w.slice(1)] = decodeURIComponent(h);
      } catch {
        return null;
      }
    } else if (w !== h.toLowerCase()) {
      return null;
    }
  }
  return parts;
}

/** Links to our own pages are followed without loading the program again. */
export function followLinks(): void {
  document.addEventListener("click", (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const a = (e.target as Element).closest?.("a[href]") as HTMLAnchorElement | null;
    if (!a || a.target || a.hasAttribute("download") || a.origin !== location.origin || a.dataset.plain !== undefined)
      return;
    if (a.getAttribute("href")!.startsWith("#")) return;
    e.preventDefault();
    go(a.pathname + a.search);
  });
}
