const choose = (topic, partition = null, consumer = "") => {
  seen.topic = topic; seen.partition = partition; seen.consumer = consumer; seen.trend = null;
  seen.reads = new Map(); clear(); show(seen.data); trend(); soon();
  if (consumer) seen.panelSays.scrollIntoView({ block: "nearest" });
};

const show = (data) => {
  seen.data = data;
  if (!data.topics.some((one) => one.topic === seen.topic)) { seen.topic = data.shown; seen.partition = null; seen.consumer = ""; seen.trend = null; seen.trendAt = 0; seen.reads = new Map(); clear(); }
  showTopics(data); showHealth(data);
  seen.problem.hidden = !data.problem; seen.problem.textContent = data.problem;
  seen.rows = partitionRows(data, seen.topic);
  const one = data.topics.find((each) => each.topic === seen.topic);
  seen.panel.hidden = !one;
  if (one) {
    seen.panelName.textContent = one.topic.length > 80 ? `${one.topic.slice(0, 79)}…` : one.topic; seen.panelName.title = one.topic;
    seen.panelLink.href = `${seen.base}/clusters/${encodeURIComponent(seen.cluster)}/topics/${encodeURIComponent(one.topic)}`;
    seen.panelHistory.href = `${seen.base}/rebalances?${new URLSearchParams({ topic: one.topic })}`;
    seen.panelSays.replaceChildren(el("bdi", { text: one.says }), ` Epoch ${one.epoch}, ${counted(one.partitions, "partition")}.${data.left_out ? ` ${counted(data.left_out, "partition")} ${data.left_out === 1 ? "is" : "are"} left out.` : ""}`);
    showMatrix();
    seen.partitions.empty = one.partitions ? "Reading…" : "The topic has no partition.";
    seen.partitions.show(seen.rows);
    seen.judged.textContent = data.judged ? `Judged at ${clock(data.judged)} UTC, once a minute; the metrics say the same.` : "Not judged in the last three minutes: see whether the DAG reconcile, or the plain loop, runs.";
    if (!seen.meanings.children.length) seen.meanings.append(...Object.entries(data.statuses).flatMap(([name, text]) => [el("dt", {}, status(name)), el("dd", { text })]));
  }
  seen.consumers.show(data.consumers);
  const found = data.consumers_found - data.consumers.length;
  seen.count.textContent = `${data.answering} of ${data.consumers_count} ${data.answering === 1 ? "answers" : "answer"}${found ? `; ${counted(found, "more consumer")} not listed: those that need somebody are listed first, and a part of a name finds others` : ""}`;
};

// In another width, or in other colours.
const redraw = () => { if (seen.data) { clear(); showMatrix(); if (seen.trend) showTrend(seen.trend); } };
const build = (root) => {
  Object.assign(seen, { plots: {}, base: root.dataset.base, airflow: root.dataset.airflow, cluster: root.dataset.cluster, topic: new URLSearchParams(location.search).get("topic") || "", partition: null, consumer: "" });
  const heads = ["Topic", "State", "What it waits for", "Lag", "Last hour", "Would one consumer more help?", "Ask for"];
  seen.refresh = el("input", { type: "checkbox", checked: "" });
  seen.when = el("span", { class: "muted", role: "status", text: "Reading…" });
  seen.reads = new Map(); seen.health = el("p", { class: "lead health" });
  seen.problem = el("p", { class: "note bad", hidden: "" });
  seen.find = el("input", { "aria-label": "Find a topic", placeholder: "Find a topic", maxlength: "249", oninput: () => seen.data && showTopics(seen.data) });
  seen.findConsumer = el("input", { "aria-label": "Find a consumer", placeholder: "Find a consumer", maxlength: "64", oninput: () => soon() });
  seen.topicBody = el("tbody"); seen.topicMore = el("p", { class: "muted" });
  seen.panelName = el("bdi", { class: "long" }); seen.panelSays = el("p", { class: "lead" });
  seen.panelLink = el("a", { text: "History and reasons" }); seen.panelHistory = el("a", { text: "All its rebalances" });
  seen.trendTitle = el("h3", { text: "Records behind by owner", hidden: "" }); seen.trendNote = el("p", { class: "muted" }); seen.trendBox = el("div", { class: "plot" });
  seen.readTitle = el("h3", { text: "Records read per second by owner", hidden: "" }); seen.readBox = el("div", { class: "plot", hidden: "" }); seen.noLag = el("p", { class: "muted", hidden: "", text: "No lag in the last hour." });
  seen.lateTitle = el("h3", { text: "Seconds behind by owner", hidden: "" }); seen.lateBox = el("div", { class: "plot" });
  seen.canvas = el("canvas", { role: "img", class: "matrix" }); seen.tip = el("p", { class: "muted tip", text: " " }); seen.meanings = el("dl", { class: "facts meanings" }); seen.judged = el("p", { class: "muted" });
  seen.partitions = new Grid("Partitions", PARTITIONS, ""); seen.consumers = new Grid("Consumers", CONSUMERS, "No consumer is registered or wanted.", 2);
  seen.count = el("span", { class: "muted" });
  const keys = KEYS.flatMap((name) => [el("span", { class: "nowrap" }, el("span", { class: `key cell-${name}` }), name), " "]);
  seen.panel = el("section", { hidden: "" }, el("h2", {}, "Topic ", seen.panelName), seen.panelSays, el("p", {}, seen.panelLink, " · ", seen.panelHistory),
    seen.readTitle, seen.readBox, seen.noLag, seen.trendTitle, seen.trendBox, seen.lateTitle, seen.lateBox, seen.trendNote, el("h3", { text: "Who has which partition" }), el("div", {}, seen.canvas), seen.tip, el("p", { class: "muted" }, ...keys), el("h3", { text: "Partitions" }), seen.partitions.box, el("p", { class: "muted", text: "Status, by Burrow's rules, from what was committed in the last ten minutes:" }), seen.judged, seen.meanings);
  seen.canvas.addEventListener("mousemove", (event) => { const row = seen.pick && seen.pick(event); seen.tip.textContent = row ? `Partition ${row.partition}: ${row.owner}, ${row.state}, lag ${number(row.lag)}` : " "; });
  root.append(el("p", { class: "bar-line" }, el("label", {}, seen.refresh, " Refresh every 3 s"), seen.when), seen.health, seen.problem,
    el("h2", { text: "Topics" }), seen.find, el("div", { class: "scroll" }, el("table", { class: "cards topics", "aria-label": "Topics" }, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col", text })))), seen.topicBody)), seen.topicMore,
    seen.panel, el("h2", {}, "Consumers "), seen.findConsumer, " ", seen.count, seen.consumers.box);
  window.addEventListener("resize", () => { redraw(); });
  new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  return root;
};

const failed = (why) => {
  seen.when.textContent = ""; seen.problem.hidden = false;
  seen.problem.textContent = `${why}${seen.data ? ` What stands below is of ${clock(seen.data.now)} UTC.` : ""}`;
};
// One request at a time, and the next one after five times as long as the last one took.
const soon = () => { clearTimeout(seen.timer); if (seen.asking) seen.again = true; else seen.timer = setTimeout(poll, seen.data ? SOON_MS : 0); };
const poll = async () => {
  const root = seen.root, sent = performance.now();
  seen.again = false;
  if (seen.refresh.checked && !document.hidden || !seen.data || seen.data.shown !== seen.topic) {
    seen.asking = true;
    try {
      const query = new URLSearchParams({ shown: seen.topic, consumer: seen.consumer, find: seen.findConsumer.value });
      const answer = await fetch(`${seen.base}/api/v1/clusters/${encodeURIComponent(seen.cluster)}/live?${query}`, { credentials: "same-origin" });
      const text = await answer.text(), began = performance.now(), data = JSON.parse(text);
      if (answer.ok) {
        show(data);
        root.dataset.updateMs = (performance.now() - began).toFixed(1); root.dataset.readyMs ||= performance.now().toFixed(0); root.dataset.now = data.now;
        seen.when.textContent = `As of ${clock(data.now)} UTC`;
        if (seen.trend) { keepReads(seen.trend); setTimeout(() => seen.trend && showTrend(seen.trend)); }  // a task of its own
        if (!seen.trendAt || performance.now() - seen.trendAt > TREND_MS) { seen.trendAt = performance.now(); trend(); }
        if (data.shown !== seen.topic) seen.again = true;
      } else failed(answer.status === 401 ? "Sign in to Airflow, then open this page again." : `${data.error}.`);
    } catch { failed("Airflow's API server does not answer; this page asks it again."); }
    seen.asking = false;
  }
  if (seen.again) soon(); else seen.timer = setTimeout(poll, Math.max(EVERY_MS, 5 * (performance.now() - sent)));
};
window.addEventListener("DOMContentLoaded", () => { seen.root = document.getElementById("live-root"); if (seen.root) { build(seen.root); poll(); } });
