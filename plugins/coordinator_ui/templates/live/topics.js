const spark = (points) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = document.createElementNS(svg.namespaceURI, "polyline");
  svg.setAttribute("viewBox", "0 0 100 24"); svg.setAttribute("class", "spark"); svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("role", "img");
  const most = Math.max(1, ...points);
  svg.setAttribute("aria-label", points.length > 1 ? `from ${number(points[0])} to ${number(points[points.length - 1])} records behind` : "no trend yet");
  line.setAttribute("points", points.map((lag, i) => `${(100 * i / Math.max(1, points.length - 1)).toFixed(1)},${(22 - 20 * lag / most).toFixed(1)}`).join(" "));
  svg.append(line);
  return svg;
};

const topicRow = (one) => {
  const name = el("button", { type: "button", class: `plain ${named(one.topic)}`, title: one.topic, text: one.topic, "aria-pressed": String(one.topic === seen.topic), onclick: () => choose(one.topic) });
  const label = one.problem ? state("gone", "cannot be read") : one.unowned ? state("unowned", `${one.state}, not owned`) : state(one.state);
  const ill = Object.entries(one.statuses).map(([name, count]) => el("div", {}, status(name), ` ${counted(count, "partition")}: ${seen.data.statuses[name]}`));
  const says = el("td", { "data-label": "Waits for" }, el("bdi", { text: one.says }), ...ill, ...one.overrides.map((text) => el("div", { class: "muted" }, el("bdi", { text }))));
  return el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, name)), el("td", { "data-label": "State" }, label, one.since ? el("div", { class: "muted", text: duration(Math.max(0, seen.data.now - one.since)) }) : ""), says,
    el("td", { class: "nowrap", "data-label": "Lag" }, el("div", { text: one.lag === null ? "not known" : `${one.lag_unknown ? "at least " : ""}${number(one.lag)} records` }), el("div", { class: "muted", text: one.lag && one.lag_s !== null ? `${duration(one.lag_s)} behind` : "" }), el("div", { class: "muted", text: one.lag ? (one.drain_s === null ? (one.rate === null || one.speed === null ? "speed not known yet" : "") : one.drain_s === "never" ? "it grows" : `empty in ${duration(one.drain_s)}`) : "" })),
    el("td", { "data-label": "Last hour" }, spark(one.trend)),
    el("td", { "data-label": "One consumer more" }, el("bdi", { text: one.advice || "–" })),
    el("td", { "data-label": "Ask for" }, ask("preview", { topics: one.topic, join: 1 }, "preview"), ask("pause", { topic: one.topic }), ask("freeze", { topic: one.topic })));
};

const rank = (one) => (one.problem ? 0 : one.unowned ? 1 : one.late || one.state === "Initial" ? 2 : STAND.some((name) => one.statuses[name]) ? 3 : 4);
// Only cells that differ are replaced: a focus or a selection in the others stays.
const update = (body, rows) => {
  rows.forEach((row, i) => {
    const old = body.children[i];
    if (!old) { body.append(row); return; }
    [...row.children].forEach((cell, at) => { if (!old.children[at].isEqualNode(cell)) old.children[at].replaceWith(cell); });
  });
  while (body.children.length > rows.length) body.lastChild.remove();
};
const showTopics = (data) => {
  const wanted = seen.find.value.trim().toLowerCase();
  const rows = data.topics.filter((one) => one.topic.toLowerCase().includes(wanted)).sort((a, b) => rank(a) - rank(b) || (b.lag || 0) - (a.lag || 0) || (a.topic < b.topic ? -1 : 1));
  update(seen.topicBody, rows.slice(0, MOST_TOPICS).map(topicRow));
  seen.topicMore.textContent = rows.length > MOST_TOPICS ? `${counted(rows.length - MOST_TOPICS, "more topic")}; those that need somebody stand first.` : data.topics.length ? "" : "No topic is managed here yet.";
};

const showHealth = (data) => {
  const bad = data.health.some((one) => one.bad);
  const rows = data.health.map((one) => el(one.bad ? "strong" : "span", {}, el("bdi", { text: one.says })));
  const made = el("p", { class: bad ? "note bad" : "lead health", role: "status" }, state(bad ? "alarm" : "OK", bad ? "needs somebody" : "well"), ...rows.flatMap((row, i) => [i ? "; " : " ", row]), ".");
  if (!seen.health.isEqualNode(made)) { seen.health.replaceWith(made); seen.health = made; }
};
