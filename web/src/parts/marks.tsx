// Small pictures: icons of buttons, and the mark of health (shape and colour and words, never colour alone).
import type { JSX } from "preact";

const PATHS = {
  logs: "M3 4h10M3 8h10M3 12h6",
  theme: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3.4H9.6",
  compare: "M2.5 3h4.5v10H2.5zM9 3h4.5v10H9z",
  download: "M8 2.5v7.5M4.7 7 8 10.3 11.3 7M3 13.5h10",
  link: "M6.5 9.5 9.5 6.5M7 4.5l1.3-1.3a2.6 2.6 0 0 1 3.7 3.7L10.8 8.1M9 11.5l-1.3 1.3A2.6 2.6 0 0 1 4 9.1L5.2 7.9",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5M6.7 7v3.5M9.3 7v3.5",
  cancel: "M4 4l8 8M12 4l-8 8",
  stacks: "M3 4h10M3 8h7M3 12h9",
  file: "M4 2h5l3.5 3.5V14H4zM9 2v3.5h3.5",
  more: "M4 6.5 8 10.5 12 6.5",
} as const;
export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 14 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linejoin="round"
      stroke-linecap="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
      {name === "theme" && <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />}
    </svg>
  );
}

export function Logo() {
  return (
    <svg
      width="20"
      height="20"
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      stroke-width="1.7"
      stroke-linejoin="round"
      stroke-linecap="round"
      aria-hidden="true"
    >
      <circle cx="10" cy="10" r="8.2" />
      <path d="M4.6 10.6h2.6L9 6.4l2.4 7.4 1.6-4h2.4" />
    </svg>
  );
}

export type Condition = "ok" | "info" | "warn" | "bad" | "off" | "run";
const SHAPES: Record<Condition, JSX.Element> = {
  ok: <circle cx="5" cy="5" r="4" />,
  info: <circle cx="5" cy="5" r="3.5" fill="none" stroke="currentColor" stroke-width="1.6" />,
  warn: <path d="M5 .6 9.8 9.2H.2z" />,
  bad: <path d="M3 0h4l3 3v4l-3 3H3L0 7V3z" />,
  off: (
    <>
      <circle cx="5" cy="5" r="4" fill="none" stroke="currentColor" stroke-width="1.4" />
      <path d="M2.3 7.7 7.7 2.3" stroke="currentColor" stroke-width="1.4" />
    </>
  ),
  run: <circle cx="5" cy="5" r="4" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="17 8.2" />,
};
const WORDS: Record<Condition, string> = {
  ok: "no problem",
  info: "for information",
  warn: "found something",
  bad: "serious",
  off: "not measured",
  run: "running",
};

export function Mark({ is, label }: { is: Condition; label?: string }) {
  return (
    <svg
      class={`hd ${is}${is === "run" ? " turn" : ""}`}
      viewBox="0 0 10 10"
      fill="currentColor"
      role="img"
      aria-label={label ?? WORDS[is]}
    >
      {SHAPES[is]}
    </svg>
  );
}

export function Pause({ stops }: { stops: boolean }) {
  return stops ? (
    <svg width="9" height="10" viewBox="0 0 9 10" fill="currentColor" aria-hidden="true">
      <path d="M1 1h2.4v8H1zM5.6 1H8v8H5.6z" />
    </svg>
  ) : (
    <svg width="9" height="10" viewBox="0 0 9 10" stroke="currentColor" stroke-width="1.4" aria-hidden="true">
      <path d="M0 5h9" />
    </svg>
  );
}
