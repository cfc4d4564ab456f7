// Dialogs say exactly what will happen; the safe choice has the focus. The browser's own <dialog> keeps the focus inside.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

export function Dialog({
  title,
  onClose,
  wide,
  children,
}: {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current!;
    d.showModal();
    d.querySelector<HTMLElement>("[data-safe]")?.focus();
    return () => d.close();
  }, []);
  return (
    <dialog
      class={wide ? "dlg wide" : "dlg"}
      ref={ref}
      aria-label={title}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onClick={(e) => e.target === ref.current && onClose()}
    >
      <div class="dlg-in">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export function Copy({
  text,
  label = "Copy",
  small,
  icon,
}: {
  text: string;
  label?: string;
  small?: boolean;
  icon?: ComponentChildren;
}) {
  const ref = useRef<HTMLButtonElement>(null);
  async function copy() {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Not a secure context: the old way.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    const b = ref.current?.querySelector(".cl");
    if (b) {
      b.textContent = done ? "Copied" : "Not copied";
      setTimeout(() => (b.textContent = label), 1500);
    }
  }
  return (
    <button type="button" class={`btn${small ? " sm" : ""}`} ref={ref} onClick={copy}>
      {icon}
      <span class="cl" aria-live="polite">
        {label}
      </span>
    </button>
  );
}
