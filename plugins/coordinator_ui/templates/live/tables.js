const ask = (action, fields, label = action) => {
  const query = new URLSearchParams(fields);
  return el("a", { class: "act", href: `${seen.base}/clusters/${encodeURIComponent(seen.cluster)}/ask/${action}?${query}`, text: label });
};
// A page elsewhere, which the server has checked: it opens beside this one and learns nothing of it.
const outside = (address, label) => /^https?:\/\//.test(address) ? el("a", { class: "act", target: "_blank", rel: "noopener noreferrer", href: address, text: label }) : "";
// A short name is never broken; a long one may be.
const named = (text) => `${text.length <= 32 ? "whole" : "long"} name`;
const owner = (data, at) => at < 0 ? "nobody" : data.owners[at];

const partitionRows = (data, topic) => {
  const of = data.partitions, found = [], moves = new Map();
  for (const [t, p, giver, taker] of data.moves) moves.set(`${t} ${p}`, [giver, taker]);
  for (let i = 0; i < of.partition.length; i += 1) {
    if (data.topics[of.topic[i]].topic !== topic) continue;
    const way = moves.get(`${of.topic[i]} ${of.partition[i]}`);
    const next = way ? way[1] : of.owner[i];
    const who = way ? `${owner(data, way[0])} → ${owner(data, way[1])}` : owner(data, of.owner[i]);
    found.push({ topic, partition: of.partition[i], owner: who, consumer: next < 0 ? "" : data.owners[next], way, state: data.states[of.state[i]], lag: of.lag[i], lag_s: of.lag_s[i], rate: of.rate[i], speed: of.speed[i], drain: of.drain_s[i], status: of.status[i] });
  }
  return found;
};

const PARTITIONS = [
  { title: "Partition", width: "80px", number: true, text: (r) => String(r.partition), sort: (r) => r.partition },
  { title: "Owner", width: "minmax(120px, 2fr)", text: (r) => r.owner, sort: (r) => r.owner },
  { title: "Does", width: "86px", key: (r) => r.state, nodes: (r) => [state(r.state)], sort: (r) => r.state },
  { title: "Status", width: "82px", key: (r) => String(r.status), nodes: (r) => [r.status ? status(r.status) : el("span", { text: "–", title: "not known" })], sort: (r) => r.status && Object.keys(seen.data.statuses).indexOf(r.status) },
  { title: "Lag", width: "84px", number: true, text: (r) => number(r.lag), sort: (r) => r.lag },
  { title: "Behind", width: "92px", number: true, text: (r) => duration(r.lag_s), sort: (r) => r.lag_s },
  { title: "Written/s", width: "80px", number: true, text: (r) => number(r.rate), sort: (r) => r.rate },
  { title: "Read/s", width: "70px", number: true, text: (r) => number(r.speed), sort: (r) => r.speed },
  { title: "Empty in", width: "120px", number: true, text: (r) => duration(r.drain), sort: (r) => r.drain },
  { title: "Ask for", width: "156px", key: (r) => `${r.topic} ${r.partition} ${r.consumer} ${r.state}`, nodes: (r) => [
    el("button", { type: "button", class: "act plain", text: "trend", onclick: () => choose(r.topic, r.partition) }),
    ask("pin", { topic: r.topic, partitions: r.partition, ...(r.consumer ? { consumer: r.consumer } : {}) }, "pin"),
    r.state === "paused" ? ask("resume", { topic: r.topic, partitions: r.partition }, "resume") : ask("pause", { topic: r.topic, partitions: r.partition }, "pause"),
  ] },
];
const lastSeen = (r) => {
  if (r.answers) return "answers now";
  if (r.absent_since) return `${duration(Math.max(0, seen.data.now - r.absent_since))} ago`;
  return r.registered ? "registered, no answer" : "no answer";
};
// Cells of two lines.
const CONSUMERS = [
  { title: "Consumer", width: "minmax(118px, 2fr)", key: (r) => r.consumer, nodes: (r) => [el("button", { type: "button", class: "plain", text: r.consumer, title: `Trend of ${r.consumer}`, onclick: () => choose(seen.topic, null, r.consumer) })], sort: (r) => r.consumer },
  { title: "Is\nlast seen", width: "150px", key: (r) => `${r.presence} ${lastSeen(r)}`, nodes: (r) => [state(r.presence.replace(/ /g, "-"), r.presence), el("div", { class: "muted", text: lastSeen(r) })], sort: (r) => r.presence },
  { title: "Host\nversion", width: "minmax(130px, 1.4fr)", text: (r) => `${r.address ? `${r.host}${r.address.slice(r.address.lastIndexOf(":"))}` : "–"}\n${[r.release || "–", r.code].filter(Boolean).join(", ")}`, sort: (r) => r.host },
  { title: "Rack\ncapacity", width: "72px", text: (r) => `${r.rack || "–"}\n${r.capacity === null ? "–" : r.capacity}`, sort: (r) => r.rack },
  { title: "Partitions", width: "84px", number: true, text: (r) => String(r.partitions), sort: (r) => r.partitions },
  { title: "Lag\nbehind", width: "92px", number: true, text: (r) => `${r.lag !== null && r.lag_unknown ? "≥ " : ""}${number(r.lag)}\n${duration(r.lag_s)}`, sort: (r) => r.lag },
  { title: "Written/s\nread/s", width: "80px", number: true, text: (r) => `${number(r.rate)}\n${number(r.speed)}`, sort: (r) => r.rate },
  { title: "Empty in", width: "96px", number: true, text: (r) => duration(r.drain_s).replace("never ", "never\n"), sort: (r) => r.drain_s },
  { title: "Notes", width: "minmax(66px, 2fr)", text: (r) => [r.asked, ...r.notes, r.health === "ok" ? "" : r.health, r.wanted ? "" : "in no fleet"].filter(Boolean).join("; "), sort: (r) => r.notes.length },
  { title: "Ask for", width: "66px", key: (r) => `${r.consumer} ${r.offers}`, nodes: (r) => r.offers.map((name) => ask(name, { consumer: r.consumer })) },
  { title: "Opens", width: "70px", key: (r) => `${r.spark_ui} ${r.driver_log}`, nodes: (r) => [outside(r.spark_ui, "Spark UI"), outside(r.driver_log, "log")] },
];
