// Find a process or a session from anywhere: type, arrows, Enter.
import { useMemo, useState } from "preact/hooks";
import { api } from "../lib/api";
import { ago, visible } from "../lib/format";
import { useLoad } from "../lib/load";
import { go } from "../lib/router";
import { Dialog } from "./Dialog";

interface Hit {
  href: string;
  what: string;
  name: string;
  more: string;
}

/** What it offers is a list of ours, which the types must be told. */
const NO_DATALIST = { list: undefined };

export function Finder({ onClose }: { onClose: () => void }) {
  const processes = useLoad("find-processes", api.processes).data,
    sessions = useLoad("find-sessions", api.sessions).data;
  const [term, setTerm] = useState(""),
    [at, setAt] = useState(0);
  const hits = useMemo(() => {
    const all: Hit[] = [
      ...(processes ?? []).map((p) => ({
        href: `/profilers/${p.id}`,
        what: "process",
        name: p.name || p.managedAssemblyName,
        more: `pid ${p.pid ?? p.id}${p.container ? `, ${p.pod ?? p.container}` : ""}`,
      })),
      ...(sessions ?? []).map((s) => ({
        href: `/sessions/${s.guid}`,
        what: "session",
        name: `${s.profiler.name} of ${s.processName}`,
        more: `${ago(s.createdMs, Date.now())}${s.verdict ? `. ${s.verdict}` : ""}`,
      })),
    ];
    const words = term.toLowerCase().split(/\s+/).filter(Boolean);
    return all
      .filter((h) => words.every((w) => `${h.name} ${h.more} ${h.href}`.toLowerCase().includes(w)))
      .slice(0, 12);
  }, [processes, sessions, term]);
  const open = (h: Hit | undefined) => {
    if (h) {
      onClose();
      go(h.href);
    }
  };
  return (
    <Dialog title="Find a process or session" onClose={onClose}>
      <input
        class="field"
        type="search"
        data-safe
        role="combobox"
        {...NO_DATALIST}
        aria-expanded="true"
        aria-controls="found"
        aria-activedescendant={hits[at] ? `found-${at}` : undefined}
        aria-label="Name, pid, container or words of a verdict"
        value={term}
        onInput={(e) => {
          setTerm(e.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown") setAt(Math.min(at + 1, hits.length - 1));
          else if (e.key === "ArrowUp") setAt(Math.max(at - 1, 0));
          else if (e.key === "Enter") open(hits[at]);
          else return;
          e.preventDefault();
        }}
      />
      <ul class="found" id="found" role="listbox" aria-label="Found">
        {hits.map((h, i) => (
          <li
            role="option"
            id={`found-${i}`}
            aria-selected={i === at}
            onClick={() => open(h)}
            onMouseMove={() => setAt(i)}
          >
            <b>{visible(h.name)}</b>
            <span class="dim">{h.what}</span>
            <span class="sub">{visible(h.more)}</span>
          </li>
        ))}
      </ul>
      {!hits.length && processes && sessions && <p class="dim">Nothing matches "{term}".</p>}
    </Dialog>
  );
}
