// Sorts and filters long tables beside the page.
import { filtered, sorted, type Keys } from "./rows";

export type Ask =
  | { load: { keys: Keys[]; hay: string[] } }
  | { id: number; column: number; down: boolean; term: string };
export type Answer = { id: number; order: Uint32Array };

let keys: Keys[] = [],
  hay: string[] = [];
const done = new Map<string, Uint32Array>();

addEventListener("message", (e: MessageEvent<Ask>) => {
  const ask = e.data;
  if ("load" in ask) {
    ({ keys, hay } = ask.load);
    done.clear();
    return;
  }
  const name = `${ask.column} ${ask.down}`;
  let order = done.get(name);
  if (!order) {
    order = ask.column < 0 ? Uint32Array.from(hay.keys()) : sorted(keys[ask.column]!, ask.down);
    done.set(name, order);
  }
  postMessage({ id: ask.id, order: filtered(order, hay, ask.term) } satisfies Answer);
});
