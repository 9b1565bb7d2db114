// The tile of Airflow's dashboard. Airflow loads it as a module and gives it React; it draws what /api/v1/summary says.
const { createElement: h, useEffect, useState } = globalThis.React;
const base = import.meta.url.replace(/\/tile\.js.*$/, "");
const EVERY_MS = 10000;

const line = (key, text, bad = false) => h("div", { key, style: { fontWeight: bad ? 600 : 400, unicodeBidi: "isolate", overflowWrap: "anywhere" } }, text);

const lines = (one) => (one.health ? one.health.map((each, at) => line(at, each.says, each.bad)) : [line("problem", one.problem, true)]);

globalThis.AirflowPlugin = () => {
  const [answer, setAnswer] = useState(null), [silent, setSilent] = useState(false);
  useEffect(() => {
    let over = false, timer;
    const ask = async () => {
      try {
        const got = document.hidden ? null : await fetch(`${base}/api/v1/summary`, { credentials: "same-origin" });
        const found = got && (got.ok ? await got.json() : { clusters: [], refused: got.status });
        if (found && !over) { setAnswer({ ...found, at: new Date() }); setSilent(false); }
      } catch { if (!over) setSilent(true); }  // the next one may succeed
      if (!over) timer = setTimeout(ask, EVERY_MS);
    };
    ask();
    return () => { over = true; clearTimeout(timer); };
  }, []);
  // Who may not read the pages sees no tile.
  if (!answer || !answer.clusters.length) return null;
  const address = base.replace(/\/[^/]*$/, "");
  const box = { border: "1px solid var(--chakra-colors-border, #d4d4d8)", borderRadius: "8px", padding: "12px 16px", order: 4, width: "100%", fontSize: "14px", lineHeight: 1.5 };
  const blocks = answer.clusters.map((one) => h("div", { key: one.cluster, style: { marginTop: "6px" } }, answer.clusters.length > 1 ? h("div", { style: { opacity: 0.75 } }, `Cluster ${one.cluster}`) : null, ...lines(one)));
  const age = silent ? line("age", `As of ${answer.at.toISOString().slice(11, 19)} UTC: Airflow's API server does not answer, and is asked again`, true) : null;
  return h("section", { style: box, "aria-label": "Partitions live", "data-coordinator-tile": "" },
    h("a", { href: `${address}/plugin/partitions_live`, style: { fontWeight: 600 } }, "Partitions live"), age, ...blocks);
};
