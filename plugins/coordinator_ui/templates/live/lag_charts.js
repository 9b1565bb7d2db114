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
