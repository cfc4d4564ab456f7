// Links that open this one session, read only, without the token, until they expire or are revoked.
import { useState } from "preact/hooks";
import { api, type Session } from "../lib/api";
import { dateUtc } from "../lib/format";
import { useLoad } from "../lib/load";
import { Copy, Dialog } from "../parts/Dialog";
import { Icon } from "../parts/marks";

function Link({ url, label }: { url: string; label: string }) {
  return (
    <div class="row">
      <input class="field mono" readOnly value={url} aria-label={label} onFocus={(e) => e.currentTarget.select()} />
      <Copy text={url} icon={<Icon name="copy" size={12} />} />
    </div>
  );
}

export function Share({ s, onClose }: { s: Session; onClose: () => void }) {
  const [days, setDays] = useState("7"),
    [error, setError] = useState("");
  const shares = useLoad(`shares ${s.guid}`, () => api.shares(s.guid));
  const then = (done: Promise<unknown>) =>
    done.then(
      () => {
        setError("");
        shares.reload();
      },
      (e: Error) => setError(e.message),
    );
  return (
    <Dialog title="Share this session" onClose={onClose}>
      <p class="sub">For people who may use this server:</p>
      <Link url={location.origin + location.pathname} label="Link" />
      <p class="sub gap">Whoever has a link of these sees this one session, read only, without a token:</p>
      {(shares.data ?? []).map((x) => (
        <div class="shared">
          <Link url={location.origin + x.path} label="Share link" />
          <p class="dim">
            Ends {dateUtc(Date.parse(x.expires))}{" "}
            <button type="button" class="link bad" onClick={() => then(api.unshare(s.guid, x.token))}>
              Revoke
            </button>
          </p>
        </div>
      ))}
      <div class="row">
        <label>
          Ends after{" "}
          <select class="field" value={days} onChange={(e) => setDays(e.currentTarget.value)}>
            <option value="1">1 day</option>
            <option value="7">7 days</option>
            <option value="30">30 days</option>
          </select>
        </label>
        <button type="button" class="btn" onClick={() => then(api.share(s.guid, Number(days)))}>
          <Icon name="link" />
          Make a link
        </button>
      </div>
      {(error || shares.error) && (
        <p class="bad" role="alert">
          {error || shares.error?.message}
        </p>
      )}
      <div class="acts">
        <button type="button" class="btn" data-safe onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
