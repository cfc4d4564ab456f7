// The server wants a token: the link it printed has one, or it is typed here.
import { useState } from "preact/hooks";
import { api } from "../lib/api";
import { useTitle } from "../lib/hooks";
import { Logo } from "../parts/marks";

export function TokenPage({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState(""),
    [error, setError] = useState("");
  useTitle("Token");
  async function enter(e: Event) {
    e.preventDefault();
    try {
      await api.login(token.trim());
      onDone();
    } catch {
      setError("This token does not fit.");
    }
  }
  return (
    <main class="token" id="main">
      <form class="panel" onSubmit={enter}>
        <p class="brand">
          <Logo />
          drdotnet
        </p>
        <h1>This server wants a token</h1>
        <p class="sub">
          It is in the link that <code>drdotnet serve</code> printed when it started and{" "}
          <code>drdotnet serve --link</code> prints again, after <code>token=</code>. Open that link, or paste the token
          here. In a container: <code>docker logs NAME</code> shows it, and{" "}
          <code>docker exec NAME drdotnet serve --link</code> does again.
        </p>
        <label for="token">Token</label>
        <div class="row">
          <input
            class="field mono"
            id="token"
            type="password"
            autocomplete="current-password"
            value={token}
            aria-invalid={error ? true : undefined}
            aria-describedby="token-error"
            onInput={(e) => setToken(e.currentTarget.value)}
          />
          <button class="btn primary" type="submit" disabled={!token.trim()}>
            Enter
          </button>
        </div>
        <p class="bad" id="token-error" role="alert">
          {error}
        </p>
      </form>
    </main>
  );
}
