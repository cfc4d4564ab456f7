// Who may only read, by a read-only token or a share link, is shown no buttons that would be refused.
import { createContext } from "preact";
import { useContext } from "preact/hooks";

export const ReadOnly = createContext(false);

export function useReadOnly(): boolean {
  return useContext(ReadOnly);
}
