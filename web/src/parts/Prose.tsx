// Descriptions of profilers are Markdown of the plainest kind: paragraphs, code in backticks, strong in asterisks.
import { visible } from "../lib/format";

export function Prose({ text }: { text: string }) {
  return (
    <>
      {text.split(/\n\s*\n/).map((paragraph) => (
        <p class="sub">
          {paragraph
            .replace(/\s+/g, " ")
            .split(/(`[^`]+`|\*\*[^*]+\*\*)/)
            .map((part) =>
              part.startsWith("`") ? (
                <code>{visible(part.slice(1, -1))}</code>
              ) : part.startsWith("**") ? (
                <b>{visible(part.slice(2, -2))}</b>
              ) : (
                visible(part)
              ),
            )}
        </p>
      ))}
    </>
  );
}
