const EVERY_MS = 3000, SOON_MS = 200, TREND_MS = 20000, ROW_PX = 30, LINE_PX = 20, MOST_TOPICS = 50, MOST_LINES = 12, LABEL_PX = 150, GAP_S = 150, BETWEEN_PX = 8, SIDES_PX = 24, SCALE_PX = 18, NUMBER_PX = 28, MOST_POINTS = 200;
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
