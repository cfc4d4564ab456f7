// The frame of every page: the bar on top, the line at the bottom, and what belongs to all pages.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { lastHeard, type ServerInfo } from "../lib/api";
import { clock } from "../lib/format";
import { useNow } from "../lib/hooks";
import { useReadOnly } from "../lib/scope";
import { Finder } from "./Finder";
import { Keys } from "./Keys";
import { Logs } from "./Logs";
import { Icon, Logo, Mark } from "./marks";

function flipTheme(): void {
  const root = document.documentElement,
    dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const next = (root.dataset.theme ?? (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  try {
    localStorage.setItem("drdotnet-theme", next);
  } catch {
    // Not kept then.
  }
}

const LOST_AFTER_MS = 8000;

export function Shell({
  here,
  server,
  children,
}: {
  here: string;
  server: ServerInfo | null;
  children: ComponentChildren;
}) {
  const [open, setOpen] = useState<"" | "logs" | "find" | "keys">(""),
    now = useNow(1000),
    heard = lastHeard(),
    readOnly = useReadOnly();
  const lost = now - heard > LOST_AFTER_MS,
    host = server?.host ?? location.hostname;
  useEffect(() => {
    const onFind = () => setOpen("find"),
      onKeys = () => setOpen("keys");
    addEventListener("drdotnet:find", onFind);
    addEventListener("drdotnet:keys", onKeys);
    return () => {
      removeEventListener("drdotnet:find", onFind);
      removeEventListener("drdotnet:keys", onKeys);
    };
  }, []);
  const at = (name: string) => (here === name ? ("page" as const) : undefined);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="/">
          <Logo />
          drdotnet
          {server && <small>{server.version}</small>}
        </a>
        <nav aria-label="Main">
          <a href="/processes" aria-current={at("patients")}>
            Patients
          </a>
          <a href="/sessions" aria-current={at("sessions")}>
            Sessions
          </a>
          <a class="opt" href="/profilers" aria-current={at("profilers")}>
            Profilers
          </a>
        </nav>
        <span class="grow" />
        <button type="button" class="find" onClick={() => setOpen("find")}>
          <span>Find a process or session</span>
          <kbd>/</kbd>
        </button>
        <span class="host">
          <Mark is={lost ? "warn" : "ok"} label={lost ? "no contact" : "connected"} />
          {host}
        </span>
        {!readOnly && (
          <button type="button" class="btn quiet logs" aria-label="Logs" onClick={() => setOpen("logs")}>
            <Icon name="logs" />
            Logs
          </button>
        )}
        <button type="button" class="btn quiet icon" aria-label="Switch between dark and light" onClick={flipTheme}>
          <Icon name="theme" size={16} />
        </button>
      </header>
      <main class="shell" id="main" tabIndex={-1}>
        {lost && (
          <div class="say-bar warn" role="status">
            <Mark is="warn" />
            <span>
              No contact with {host} since {clock(heard)}. The numbers below are from then; trying again.
            </span>
          </div>
        )}
        {server?.warning && (
          <div class="say-bar warn" role="status">
            <Mark is="warn" />
            <span>{server.warning}</span>
          </div>
        )}
        {children}
      </main>
      <footer class="foot">
        <span>drdotnet {server?.version ?? ""}</span>
        {readOnly && <span>you may look, not examine</span>}
        {server && <span>{server.root === false ? "runs without root" : server.root ? "runs as root" : ""}</span>}
        {server?.restApi && (
          <a href="/swagger" data-plain>
            API
          </a>
        )}
        <button type="button" class="link" onClick={() => setOpen("keys")}>
          Keyboard
        </button>
      </footer>
      {open === "logs" && <Logs onClose={() => setOpen("")} />}
      {open === "find" && <Finder onClose={() => setOpen("")} />}
      {open === "keys" && <Keys onClose={() => setOpen("")} />}
    </>
  );
}
