// What the server says about itself, newest at the end; follows unless scrolled up.
import { api } from "../lib/api";
import { useLoad } from "../lib/load";
import { Copy, Dialog } from "./Dialog";
import { LogView } from "./LogView";
import { Icon } from "./marks";

export function Logs({ onClose }: { onClose: () => void }) {
  const { data, error } = useLoad("log", api.logs, 2000);
  const lines = (data ?? []).map((l) => ({
    time: l.time,
    text: l.level === "info" ? l.text : `${l.level}: ${l.text}`,
    loud: l.level !== "info",
  }));
  return (
    <Dialog title="Logs" onClose={onClose} wide>
      {error && <p class="bad">{error.message}</p>}
      <LogView lines={lines} label="Log of the server" empty={data ? "Nothing has been logged yet." : ""} />
      <div class="acts">
        <Copy text={lines.map((l) => `${l.time} ${l.text}`).join("\n")} icon={<Icon name="copy" size={12} />} />
        <button type="button" class="btn" data-safe onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
