// The page of a drdotnet that was built without node: two lists, no more.
async function fill(id, url, line) {
  const list = document.getElementById(id);
  const answer = await fetch(url);
  const items = answer.ok ? await answer.json() : [];
  for (const item of items) {
    const entry = document.createElement("li");
    const { text, href } = line(item);
    if (href) {
      const link = document.createElement("a");
      link.href = href;
      link.textContent = text;
      entry.append(link);
    } else {
      entry.textContent = text;
    }
    list.append(entry);
  }
  if (!items.length) list.textContent = "none";
}

fill("processes", "/api/processes", (p) => ({ text: `${p.id} ${p.managedAssemblyName} ${p.version} ${p.remark ?? ""}` }));
fill("sessions", "/api/sessions", (s) => ({
  text: `${s.timestampDate} ${s.processName} ${s.profiler.name}: ${s.verdict ?? s.error ?? s.state}`,
  href: s.isCompleted ? `/api/sessions/${s.guid}/report.html` : undefined,
}));
