"use strict";
(() => {
  const EVERY_MS = 3000, TREND_MS = 20000, ROW_PX = 30, LINE_PX = 20, MOST_TOPICS = 50, MOST_LINES = 12, LABEL_PX = 150, GAP_S = 150, BETWEEN_PX = 8, SIDES_PX = 24, SCALE_PX = 18, NUMBER_PX = 28, MOST_POINTS = 200;
  const RECORDS = Array.from({ length: 40 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));  // steps of an axis of records
  const KEYS = ["runs", "gives", "takes", "paused", "idle", "unknown", "nobody"];  // page.css has a colour for each

  // Everything that somebody wrote becomes the text of an element, never markup.
  const el = (tag, given = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (name === "class") made.className = value;
      else if (name === "text") made.textContent = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value);
    }
    made.append(...children.filter((one) => one !== null && one !== ""));
    return made;
  };
  const number = (value) => value === null ? "–" : value === "never" ? "never" : Number(value).toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 1 : 0 });
  const duration = (seconds) => {
    if (seconds === null) return "–";
    if (seconds === "never") return "never at this rate";
    for (const [unit, name, below, small] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]])
      if (seconds >= unit) return `${Math.floor(seconds / unit)} ${name} ${Math.floor((seconds % unit) / below)} ${small}`;
    return seconds >= 1 || seconds === 0 ? `${seconds.toFixed(seconds ? 1 : 0)} s` : `${Math.max(1, Math.round(seconds * 1000))} ms`;
  };
  const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
  const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const state = (name, text = name) => el("span", { class: `state ${name}`, text });
  // Burrow's status of a partition; the server says what it means.
  const status = (name, text = name) => el("span", { class: `state ${name}`, text, title: seen.data.statuses[name] });
  const STAND = ["STOP", "STALL", "REWIND"];
  const seen = {};  // what the page shows now

  // A table of any length: only the rows in view are elements, and they are used again.
  class Grid {
    constructor(label, columns, empty, lines = 1) {
      this.columns = columns; this.empty = empty; this.rows = []; this.pool = []; this.rowPx = ROW_PX + (lines - 1) * LINE_PX;
      this.head = el("div", { class: "row head", role: "row" });
      for (const one of columns) this.head.append(this.title(one));
      this.space = el("div", { class: "space", role: "rowgroup" });
      this.box = el("div", { class: lines > 1 ? "virtual lines" : "virtual", role: "table", "aria-label": label, tabindex: "0" }, this.head, this.space);
      this.head.style.gridTemplateColumns = this.widths();
      this.box.style.setProperty("--least", `${this.least()}px`);
      this.box.style.setProperty("--row", `${this.rowPx}px`);
      this.box.addEventListener("scroll", () => this.paint(), { passive: true });
    }
    widths() { return this.columns.map((one) => one.width).join(" "); }
    least() { return this.columns.reduce((sum, one) => sum + parseInt(one.width.replace("minmax(", ""), 10) + BETWEEN_PX, SIDES_PX - BETWEEN_PX); }
    title(one) {
      const cell = el("span", { role: "columnheader", class: one.number ? "number" : "" });
      if (!one.sort) { cell.textContent = one.title; return cell; }
      cell.append(el("button", { type: "button", class: "plain", text: one.title, onclick: () => {
        this.order = this.order && this.order.one === one ? { one, down: !this.order.down } : { one, down: !!one.number };
        for (const other of this.head.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", this.order.down ? "descending" : "ascending");
        this.show(this.given);
      } }));
      return cell;
    }
    show(rows) {
      this.given = rows; this.rows = rows;
      if (this.order) {
        const { one, down } = this.order, sign = down ? -1 : 1;
        const rank = (row) => { const v = one.sort(row); return v === null ? -Infinity : v === "never" ? Infinity : v; };
        this.rows = [...rows].sort((a, b) => { const x = rank(a), y = rank(b); return x < y ? -sign : x > y ? sign : 0; });
      }
      this.space.style.height = `${Math.max(1, this.rows.length) * this.rowPx}px`;
      this.box.style.height = `${Math.min(460, (Math.max(1, this.rows.length) + 1) * this.rowPx + 18)}px`;
      this.box.setAttribute("aria-rowcount", this.rows.length);
      this.paint();
    }
    paint() {
      const first = Math.max(0, Math.floor(this.box.scrollTop / this.rowPx) - 2);
      const count = Math.min(this.rows.length - first, Math.ceil(460 / this.rowPx) + 4);
      while (this.pool.length < count) {
        const row = el("div", { class: "row", role: "row" });
        row.style.gridTemplateColumns = this.widths();
        for (const one of this.columns) row.append(el("span", { role: "cell", class: one.number ? "number" : "" }));
        this.pool.push(row); this.space.append(row);
      }
      this.pool.forEach((row, index) => {
        row.hidden = index >= count;
        if (index >= count) return;
        row.style.top = `${(first + index) * this.rowPx}px`;
        const given = this.rows[first + index];
        this.columns.forEach((one, at) => this.fill(row.children[at], one, given));
      });
      if (this.note) this.note.remove();
      if (!this.rows.length) { this.note = el("div", { class: "row muted", text: this.empty }); this.space.append(this.note); }
    }
    fill(cell, one, row) {
      if (one.nodes) {
        const key = one.key(row);
        if (cell.dataset.key === key) return;
        cell.dataset.key = key;
        cell.replaceChildren(...one.nodes(row).filter(Boolean));
        return;
      }
      const text = one.text(row);
      if (cell.textContent === text) return;
      cell.textContent = text; cell.title = text;
    }
  }

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
    const ill = Object.entries(seen.told.get(one.topic)).map(([name, count]) => el("div", {}, status(name), ` ${counted(count, "partition")}: ${seen.data.statuses[name]}`));
    const says = el("td", { "data-label": "Waits for" }, el("bdi", { text: one.says }), ...ill, ...one.overrides.map((text) => el("div", { class: "muted" }, el("bdi", { text }))));
    return el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, name)), el("td", { "data-label": "State" }, label, one.since ? el("div", { class: "muted", text: duration(Math.max(0, seen.data.now - one.since)) }) : ""), says,
      el("td", { class: "nowrap", "data-label": "Lag" }, el("div", { text: one.lag === null ? "not known" : `${one.lag_unknown ? "at least " : ""}${number(one.lag)} records` }), el("div", { class: "muted", text: one.lag && one.lag_s !== null ? `${duration(one.lag_s)} behind` : "" }), el("div", { class: "muted", text: one.lag ? (one.drain_s === null ? (one.rate === null || one.speed === null ? "speed not known yet" : "") : one.drain_s === "never" ? "it grows" : `empty in ${duration(one.drain_s)}`) : "" })),
      el("td", { "data-label": "Last hour" }, spark(one.trend)),
      el("td", { "data-label": "One consumer more" }, el("bdi", { text: one.advice || "–" })),
      el("td", { "data-label": "Ask for" }, ask("preview", { topics: one.topic, join: 1 }, "preview"), ask("pause", { topic: one.topic }), ask("freeze", { topic: one.topic })));
  };

  // Topic → status → how many of its partitions have it; of those statuses that need somebody.
  const told = (data) => {
    const found = data.topics.map(() => ({})), of = data.partitions;
    for (let i = 0; i < of.partition.length; i += 1) if (of.status[i] && of.status[i] !== "OK") found[of.topic[i]][of.status[i]] = (found[of.topic[i]][of.status[i]] || 0) + 1;
    return new Map(data.topics.map((one, at) => [one.topic, found[at]]));
  };
  const rank = (one) => (one.problem ? 0 : one.unowned ? 1 : one.late || one.state === "Initial" ? 2 : STAND.some((name) => seen.told.get(one.topic)[name]) ? 3 : 4);
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

  // Owners × partitions: one rectangle for each partition, in the row of its owner.
  const showMatrix = () => {
    const { canvas, rows } = seen, width = canvas.parentElement.clientWidth;
    if (!width || !rows) return;
    const names = [...new Set(rows.flatMap((r) => r.way ? r.way.map((at) => owner(seen.data, at)) : [r.owner]))].sort((a, b) => (a === "nobody") - (b === "nobody") || (a < b ? -1 : 1));
    const tall = names.length <= 24 ? 20 : Math.max(1, Math.floor(480 / names.length)), labels = tall >= 12 ? LABEL_PX : 0;
    const rowsHigh = tall * names.length, high = rowsHigh + SCALE_PX, wide = (width - labels) / Math.max(1, rows.length), scale = window.devicePixelRatio || 1;
    canvas.width = width * scale; canvas.height = high * scale; canvas.style.height = `${high}px`;
    const pen = canvas.getContext("2d"), ink = Object.fromEntries(KEYS.map((name) => [name, colour(`--cell-${name}`)])), at = new Map(names.map((name, i) => [name, i]));
    pen.scale(scale, scale);
    pen.strokeStyle = colour("--line"); pen.fillStyle = colour("--text"); pen.font = "13px system-ui, sans-serif"; pen.textBaseline = "middle";
    if (labels) names.forEach((name, i) => { pen.fillText(name.length > 18 ? `${name.slice(0, 17)}…` : name, 0, i * tall + tall / 2); pen.strokeRect(labels, i * tall + 0.5, width - labels - 0.5, tall); });
    const step = RECORDS.find((one) => one * wide >= NUMBER_PX) || rows.length;
    pen.textAlign = "center";
    for (let i = 0; i < rows.length; i += step) pen.fillText(String(rows[i].partition), labels + (i + 0.5) * wide, rowsHigh + SCALE_PX / 2);
    pen.textAlign = "start";
    const gap = wide > 5 ? 1 : 0, inset = tall > 6 ? 2 : 0;
    rows.forEach((row, i) => {
      const draw = (name, kind) => { pen.fillStyle = ink[kind]; pen.fillRect(labels + i * wide, at.get(name) * tall + inset, Math.max(0.7, wide - gap), tall - inset); };
      if (row.way) { if (row.way[0] >= 0) draw(owner(seen.data, row.way[0]), "gives"); if (row.way[1] >= 0) draw(owner(seen.data, row.way[1]), "takes"); }
      else draw(row.owner, row.state);
    });
    seen.pick = (event) => { const i = Math.floor((event.offsetX - labels) / wide); return rows[i] ? rows[i] : null; };
    canvas.setAttribute("aria-label", `${counted(rows.length, "partition")} of ${counted(names.length, "owner")}; the table below says the same`);
  };

  // The last point of each line is of now, and belongs to whoever is the owner now: a former owner's line ends with the move.
  const present = (answer) => {
    const found = new Map(), add = (name, lag, late, read) => {
      const before = found.get(name) || { lag: 0, late: 0, read: 0 };
      // Who has no lag says nothing of another partition whose seconds nobody knows.
      found.set(name, { read: read === null || before.read === null ? null : before.read + read, lag: before.lag + lag, late: !lag ? before.late : late === null || late === "never" ? before.late || null : Math.max(before.late || 0, late) });
    };
    const of = seen.data.partitions;
    for (let i = 0; i < of.partition.length; i += 1) {
      if (of.owner[i] < 0 || of.lag[i] === null) continue;
      const topic = seen.data.topics[of.topic[i]].topic, who = seen.data.owners[of.owner[i]];
      if (answer.consumer ? who === answer.consumer : topic === answer.topic && (answer.partition === null || answer.partition === of.partition[i])) add(answer.consumer ? topic : who, of.lag[i], of.lag_s[i], of.speed[i]);
    }
    return found;
  };
  const clear = () => { for (const name of Object.keys(seen.plots)) { seen.plots[name].destroy(); delete seen.plots[name]; } };
  const draw = (title, box, series, figure, tick, steps) => {
    const points = series.map((one) => one.at.filter((_, i) => one[figure][i] !== null && one[figure][i] !== undefined));
    const looked = [...new Set(points.flat())].sort((a, b) => a - b);
    // Without lag there is nothing to see; what is read is always shown.
    const empty = looked.length < 2 || (figure !== "read" && !series.some((one) => one[figure].some((value) => value > 0)));
    const names = JSON.stringify(series.map((one) => one.name)), old = seen.plots[figure];
    if (old && (empty || old.names !== names)) { old.destroy(); delete seen.plots[figure]; }
    title.hidden = box.hidden = empty;
    if (empty) return;
    // Where nobody looked for a while, the lines break.
    const times = looked.flatMap((time, i) => (i && time - looked[i - 1] > GAP_S ? [(time + looked[i - 1]) / 2, time] : [time]));
    const at = new Map(times.map((one, i) => [one, i]));
    const lines = series.map((one) => { const line = new Array(times.length).fill(null); one.at.forEach((time, i) => { if (at.has(time)) line[at.get(time)] = one[figure][i]; }); return line; });
    if (seen.plots[figure]) { seen.plots[figure].setData([times, ...lines]); return; }
    const palette = ["--link", "--moving", "--stable", "--bad", "--starting", "--muted"].map(colour);
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const styles = series.map((one, i) => ({ label: one.name.length > 40 ? `${one.name.slice(0, 39)}…` : one.name, value: (_, value) => (value === null || value === undefined ? "–" : tick(value)), stroke: palette[i % palette.length], width: 2, dash: i >= palette.length ? [6, 4] : [], spanGaps: false, points: { show: times.length < 20 } }));
    const options = { width: box.clientWidth, height: 200, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"), axes: [{ ...axis, space: 80, values: (_, ticks) => ticks.map((ts) => clock(ts).slice(0, looked[looked.length - 1] - looked[0] < 900 ? 8 : 5)) }, { ...axis, size: 80, ...(steps ? { incrs: steps } : {}), values: (_, ticks) => ticks.map(tick) }], series: [{ value: (_, ts) => ts === null ? "–" : `${clock(ts)} UTC` }, ...styles], scales: { y: { range: (_, low, high) => [0, Math.max(1, high || 0) * 1.05] } } };
    seen.plots[figure] = new uPlot(options, [times, ...lines], box);
    seen.plots[figure].names = names;
  };
  const showTrend = (answer) => {
    const now = present(answer), here = seen.data.now, series = answer.series.map((one) => ({ ...one, at: [...one.at], lag: [...one.lag], late_s: [...one.late_s], read: [...one.read] }));
    for (const [name, one] of now) {
      let line = series.find((each) => each.name === name);
      if (!line && series.length < MOST_LINES) { line = { name, at: [], lag: [], late_s: [], read: [] }; series.push(line); }
      if (line && !(line.at[line.at.length - 1] >= here)) {
        for (const [at, read] of seen.reads.get(name) || []) if (!(line.at[line.at.length - 1] >= at) && at < here) { line.at.push(at); line.lag.push(null); line.late_s.push(null); line.read.push(read); }
        line.at.push(here); line.lag.push(one.lag); line.late_s.push(one.late); line.read.push(one.read);
      }
    }
    const what = answer.consumer ? `of ${answer.consumer}, by topic` : answer.partition === null ? "by owner" : `in partition ${answer.partition}, by owner`;
    seen.readTitle.textContent = `Records read per second ${what}`; seen.trendTitle.textContent = `Records behind ${what}`; seen.lateTitle.textContent = `Seconds behind ${what}`;
    draw(seen.readTitle, seen.readBox, series, "read", number, RECORDS);
    draw(seen.trendTitle, seen.trendBox, series, "lag", number, RECORDS);
    draw(seen.lateTitle, seen.lateBox, series, "late_s", duration);
    seen.noLag.hidden = !seen.trendBox.hidden;
    const notes = [...answer.problems];
    if (answer.left_out) notes.push(`${answer.left_out} more ${answer.left_out === 1 ? "is" : "are"} not drawn.`);
    if (!answer.series.length) notes.push("The coordinator has kept no moment of it in the last hour: it keeps one each minute, of what is committed.");
    if (seen.readBox.hidden) notes.push("What is read per second is drawn after some seconds.");
    seen.trendNote.textContent = notes.join(" ");
  };
  // What has been read since the page was opened: moments are a minute apart.
  const keepReads = (answer) => {
    for (const [name, one] of present(answer)) {
      if (one.read === null) continue;
      const kept = seen.reads.get(name) || seen.reads.set(name, []).get(name);
      kept.push([seen.data.now, one.read]);
      if (kept.length > MOST_POINTS) kept.shift();
    }
  };
  const chosen = (answer) => answer.consumer === seen.consumer && (answer.consumer || (answer.topic === seen.topic && answer.partition === seen.partition));
  const trend = async () => {
    if (!seen.topic && !seen.consumer) return;
    const query = new URLSearchParams(seen.consumer ? { consumer: seen.consumer } : { topic: seen.topic, ...(seen.partition === null ? {} : { partition: seen.partition }) });
    try {
      const answer = await fetch(`${seen.base}/api/v1/clusters/${encodeURIComponent(seen.cluster)}/trend?${query}`, { credentials: "same-origin" });
      const found = await answer.json();
      if (answer.ok && chosen(found)) { seen.trend = found; showTrend(found); }
    } catch { /* the next one may succeed */ }
  };

  const choose = (topic, partition = null, consumer = "") => {
    seen.topic = topic; seen.partition = partition; seen.consumer = consumer; seen.trend = null;
    seen.reads = new Map(); clear(); show(seen.data); trend();
    if (consumer) seen.panelSays.scrollIntoView({ block: "nearest" });
  };

  const show = (data) => {
    seen.data = data; seen.told = told(data);
    if (!data.topics.some((one) => one.topic === seen.topic)) { seen.topic = data.topics.length ? [...data.topics].sort((a, b) => rank(a) - rank(b))[0].topic : ""; seen.partition = null; seen.consumer = ""; seen.trend = null; seen.trendAt = 0; seen.reads = new Map(); clear(); }
    showTopics(data); showHealth(data);
    seen.problem.hidden = !data.problem; seen.problem.textContent = data.problem;
    seen.rows = partitionRows(data, seen.topic);
    const one = data.topics.find((each) => each.topic === seen.topic);
    seen.panel.hidden = !one;
    if (one) {
      seen.panelName.textContent = one.topic.length > 80 ? `${one.topic.slice(0, 79)}…` : one.topic; seen.panelName.title = one.topic;
      seen.panelLink.href = `${seen.base}/clusters/${encodeURIComponent(seen.cluster)}/topics/${encodeURIComponent(one.topic)}`;
      seen.panelHistory.href = `${seen.base}/rebalances?${new URLSearchParams({ topic: one.topic })}`;
      seen.panelSays.replaceChildren(el("bdi", { text: one.says }), ` Epoch ${one.epoch}, ${counted(one.partitions, "partition")}.${data.left_out ? ` ${counted(data.left_out, "partition")} of this cluster ${data.left_out === 1 ? "is" : "are"} left out.` : ""}`);
      showMatrix();
      seen.partitions.empty = one.partitions ? `This page shows ${counted(data.partitions.partition.length, "partition")} of the cluster, and none of this topic.` : "The topic has no partition.";
      seen.partitions.show(seen.rows);
      seen.judged.textContent = data.judged ? `Judged at ${clock(data.judged)} UTC, once a minute; the metrics say the same.` : "Not judged in the last three minutes: see whether the DAG reconcile, or the plain loop, runs.";
      if (!seen.meanings.children.length) seen.meanings.append(...Object.entries(data.statuses).flatMap(([name, text]) => [el("dt", {}, status(name)), el("dd", { text })]));
    }
    const wanted = seen.findConsumer.value.trim().toLowerCase();
    seen.consumers.show(wanted ? data.consumers.filter((each) => `${each.consumer} ${each.presence} ${each.host} ${each.rack}`.toLowerCase().includes(wanted)) : data.consumers);
    const answering = data.consumers.filter((each) => each.answers).length;
    seen.count.textContent = `${answering} of ${data.consumers.length} ${answering === 1 ? "answers" : "answer"}`;
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
    seen.findConsumer = el("input", { "aria-label": "Find a consumer", placeholder: "Find a consumer", maxlength: "64", oninput: () => seen.data && show(seen.data) });
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
  const poll = async (root) => {
    if (seen.refresh.checked && !document.hidden || !seen.data) {
      try {
        const answer = await fetch(`${seen.base}/api/v1/clusters/${encodeURIComponent(seen.cluster)}/live`, { credentials: "same-origin" });
        const text = await answer.text(), began = performance.now(), data = JSON.parse(text);
        if (answer.ok) {
          show(data);
          root.dataset.updateMs = (performance.now() - began).toFixed(1); root.dataset.readyMs ||= performance.now().toFixed(0); root.dataset.now = data.now;
          seen.when.textContent = `As of ${clock(data.now)} UTC`;
          if (seen.trend) { keepReads(seen.trend); setTimeout(() => seen.trend && showTrend(seen.trend)); }  // a task of its own
          if (!seen.trendAt || performance.now() - seen.trendAt > TREND_MS) { seen.trendAt = performance.now(); trend(); }
        } else failed(answer.status === 401 ? "Sign in to Airflow, then open this page again." : `${data.error}.`);
      } catch { failed("Airflow's API server does not answer; this page asks it again."); }
    }
    setTimeout(() => poll(root), EVERY_MS);
  };
  window.addEventListener("DOMContentLoaded", () => { const root = document.getElementById("live-root"); if (root) poll(build(root)); });
})();
