// A link that opens this one session, read only, without the token, until it expires or is revoked.
import { useState } from "preact/hooks";
import { call, type Session } from "../lib/api";
import { dateUtc } from "../lib/format";
import { Copy, Dialog } from "../parts/Dialog";
import { Icon } from "../parts/marks";

interface Shared { url: string; expires?: string; id?: string; token?: string }

export function Share({ s, onClose }: { s: Session; onClose: () => void }) {
  const [days, setDays] = useState("7"), [link, setLink] = useState<Shared | null>(null), [error, setError] = useState("");
  async function make() {
    try {
      const answer = await call(`/api/sessions/${s.guid}/share`, { method: "POST", body: JSON.stringify({ days: Number(days) }), headers: { "Content-Type": "application/json" } });
      setLink((await answer.json()) as Shared);
      setError("");
    } catch (e) {
      setError((e as Error).message);
    }
  }
  async function revoke() {
    try {
      await call(`/api/sessions/${s.guid}/share/${encodeURIComponent(link!.id ?? link!.token ?? "")}`, { method: "DELETE" });
      setLink(null);
    } catch (e) {
      setError((e as Error).message);
    }
  }
  const url = link ? new URL(link.url, location.href).href : location.origin + location.pathname;
  return (
    <Dialog title="Share this session" onClose={onClose}>
      {link ? (
        <>
          <p class="sub">Whoever has the link sees this one session, read only, without a token.</p>
          <div class="row"><input class="field mono" readOnly value={url} aria-label="Link" onFocus={(e) => e.currentTarget.select()} /><Copy text={url} icon={<Icon name="copy" size={12} />} /></div>
          <div class="acts spread"><span class="dim">{link.expires ? `Ends ${dateUtc(Date.parse(link.expires))}` : ""}</span><button class="btn danger" onClick={revoke}>Revoke</button><button class="btn" data-safe onClick={onClose}>Close</button></div>
        </>
      ) : (
        <>
          <p class="sub">For people who may use this server:</p>
          <div class="row"><input class="field mono" readOnly value={url} aria-label="Link" onFocus={(e) => e.currentTarget.select()} /><Copy text={url} icon={<Icon name="copy" size={12} />} /></div>
          <p class="sub gap">For everybody else, a link that needs no token and shows this one session only, read only:</p>
          <div class="row">
            <label>Ends after <select class="field" value={days} onChange={(e) => setDays(e.currentTarget.value)}><option value="1">1 day</option><option value="7">7 days</option><option value="30">30 days</option></select></label>
            <button class="btn" onClick={make}><Icon name="link" />Make a link</button>
          </div>
          <div class="acts"><button class="btn" data-safe onClick={onClose}>Close</button></div>
        </>
      )}
      {error && <p class="bad" role="alert">{error}</p>}
    </Dialog>
  );
}
