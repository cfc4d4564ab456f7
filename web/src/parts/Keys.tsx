import { Dialog } from "./Dialog";

const KEYS: [string, string][] = [
  ["/", "find a process or session"],
  ["g p", "go to Patients"],
  ["g s", "go to Sessions"],
  ["e", "examine, on a patient's page"],
  ["↑ ↓", "move in tables, trees and lists"],
  ["← →", "close and open a row; move in the flame graph"],
  ["Enter", "open, or zoom in"],
  ["Esc", "back out of a zoom or a dialog"],
  ["?", "this list"],
];

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div>
            <dt>
              {key.split(" ").map((k) => (
                <kbd>{k}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <div class="acts">
        <button type="button" class="btn" data-safe onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
