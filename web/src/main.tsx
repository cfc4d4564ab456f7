import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "./style/tokens.css";
import "./style/base.css";
import "./style/pages.css";
import "./style/report.css";
import "./style/narrow.css";
import { api, TOKEN_WANTED } from "./lib/api";
import { useLoad } from "./lib/load";
import { followLinks, match, usePlace } from "./lib/router";
import { ReadOnly } from "./lib/scope";
import { listenToKeys } from "./lib/keyboard";
import { ComparePage } from "./pages/ComparePage";
import { CoresPage } from "./pages/CoresPage";
import { HistoryPage } from "./pages/HistoryPage";
import { PatientPage } from "./pages/PatientPage";
import { PatientsPage } from "./pages/PatientsPage";
import { ProfilersPage } from "./pages/ProfilersPage";
import { SessionPage } from "./pages/SessionPage";
import { StacksPage } from "./pages/StacksPage";
import { TokenPage } from "./pages/TokenPage";
import { Shell } from "./parts/Shell";
import { Empty } from "./parts/states";

type Page = (m: Record<string, string>) => [string, preact.ComponentChildren];

const PAGES: [string, Page][] = [
  ["", () => ["patients", <PatientsPage />]],
  ["/processes", () => ["patients", <PatientsPage />]],
  ["/profilers/:pid", (m) => ["patients", <PatientPage key={m.pid} id={Number(m.pid)} />]],
  ["/job/:pid/:uuid", (m) => ["patients", <PatientPage key={m.pid} id={Number(m.pid)} profiler={m.uuid} />]],
  ["/stacks/:pid", (m) => ["patients", <StacksPage id={Number(m.pid)} />]],
  ["/cores", () => ["patients", <CoresPage />]],
  ["/sessions", () => ["sessions", <HistoryPage />]],
  ["/sessions/:guid", (m) => ["sessions", <SessionPage key={m.guid} guid={m.guid!} />]],
  ["/compare/:a/:b", (m) => ["sessions", <ComparePage a={m.a!} b={m.b!} />]],
  ["/profilers", () => ["profilers", <ProfilersPage />]],
];

function page(path: string): [string, preact.ComponentChildren] {
  for (const [pattern, make] of PAGES) {
    const m = match(pattern, path);
    if (m) return make(m);
  }
  return [
    "",
    <>
      <h1>There is no such page</h1>
      <Empty
        acts={
          <a class="btn" href="/processes">
            Patients
          </a>
        }
      >
        The address may be mistyped, or come from another version.
      </Empty>
    </>,
  ];
}

function App() {
  const { path } = usePlace(),
    [locked, setLocked] = useState(false),
    server = useLoad("server", api.server, 5000);
  useEffect(() => {
    const lock = () => setLocked(true);
    addEventListener(TOKEN_WANTED, lock);
    return () => removeEventListener(TOKEN_WANTED, lock);
  }, []);
  if (locked)
    return (
      <TokenPage
        onDone={() => {
          setLocked(false);
          server.reload();
        }}
      />
    );
  const [here, content] = page(path);
  return (
    <ReadOnly.Provider value={server.data?.scope === "read"}>
      <Shell here={here} server={server.data}>
        {content}
      </Shell>
    </ReadOnly.Provider>
  );
}

followLinks();
listenToKeys();
render(<App />, document.getElementById("app")!);
