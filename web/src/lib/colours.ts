// Canvas needs colours as values: they are read from the sheet, which alone knows dark and light.
const cache = new Map<string, string>();
let probe: HTMLElement | null = null;

export function forgetColours(): void {
  cache.clear();
}

export function colour(token: string): string {
  let value = cache.get(token);
  if (value === undefined) {
    if (!probe) {
      probe = document.createElement("span");
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(${token})`;
    value = getComputedStyle(probe).color;
    cache.set(token, value);
  }
  return value;
}
