// The tile of Airflow's dashboard. Airflow loads it as a module and gives it React; it draws what /api/v1/summary says.
const { createElement: h, useEffect, useState } = globalThis.React;
const base = import.meta.url.replace(/\/tile\.js.*$/, "");
const EVERY_MS = 10000;

const duration = (seconds) => {
  for (const [unit, name, below, small] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]])
    if (seconds >= unit) return `${Math.floor(seconds / unit)} ${name} ${Math.floor((seconds % unit) / below)} ${small}`;
  return `${Math.max(0, Math.round(seconds))} s`;
};
const counted = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
const cut = (text) => (text.length > 80 ? `${text.slice(0, 79)}…` : text);
const line = (key, text, bad = false) => h("div", { key, style: { fontWeight: bad ? 600 : 400, unicodeBidi: "isolate", overflowWrap: "anywhere" } }, text);

const missing = (one) => {
  if (!one.missing_count) return "";
  const named = one.missing.slice(0, 5), more = one.missing_count - named.length;
  return `; missing: ${named.join(", ")}${more ? ` and ${more} more` : ""}`;
};

const lines = (one) => {
  if (one.problem && one.topics === undefined) return [line("problem", one.problem, true)];
  const found = [];
  if (one.problem) found.push(line("problem", one.problem, true));
  found.push(one.not_stable_count
    ? line("stable", `${one.not_stable_count} of ${counted(one.topics, "topic")} not Stable or not owned`, true)
    : line("stable", one.topics === 1 ? "The only topic is Stable" : one.topics ? `All ${one.topics} topics are Stable` : "No topic is managed"));
  for (const topic of one.not_stable.slice(0, 5))
    found.push(line(`topic ${topic.topic}`, `${cut(topic.topic)}, ${topic.state}${topic.since ? ` for ${duration(one.now - topic.since)}` : ""}: ${topic.says}`));
  if (one.oldest_unowned) found.push(line("unowned", `Nobody reads partition ${one.oldest_unowned.partitions} of ${cut(one.oldest_unowned.topic)}${one.oldest_unowned.since ? `, for ${duration(one.now - one.oldest_unowned.since)} at least` : ""}`, true));
  found.push(line("consumers", `${counted(one.running, "consumer")} ${one.running === 1 ? "runs" : "run"}; the fleets want ${one.wanted}${missing(one)}`, one.missing_count > 0));
  return found;
};

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
