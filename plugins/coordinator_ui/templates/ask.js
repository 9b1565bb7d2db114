"use strict";
window.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("ask");
  if (!form) return;
  const { dag, shown, airflow, base, cluster, reads } = form.dataset, button = form.querySelector("button");
  const problem = document.getElementById("problem"), dry = document.getElementById("field-dry_run");
  const address = `${airflow}/api/v2/dags/${encodeURIComponent(dag)}`;
  const say = (text) => { problem.hidden = !text; problem.textContent = text; };
  const name = () => { if (dry) button.textContent = dry.checked ? "Ask Airflow for a dry run" : "Do it"; };
  if (dry) dry.addEventListener("change", name);

  // One line each, or ranges of numbers such as 0-3.
  const listed = (field) => {
    const numbers = field.dataset.items === "integer";
    const lines = field.value.split(numbers ? /[\n,]/ : "\n").map((line) => line.trim()).filter(Boolean);
    if (!numbers) return lines; // an argument of an application may have commas
    return lines.flatMap((line) => {
      const ends = line.match(/^(\d+)(?:\s*[-–]\s*(\d+))?$/);
      if (!ends) throw new Error(`${line} is no partition; give numbers or ranges such as 0-3`);
      const first = Number(ends[1]), last = Number(ends[2] || ends[1]);
      if (last < first || last - first > 100000) throw new Error(`${line} is no range of partitions`);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
  };
  const valueOf = (field) => {
    switch (field.dataset.kind) {
      case "boolean": return field.checked;
      case "integer": case "number": return Number(field.value || 0);
      case "array": return listed(field);
      case "object": try { return JSON.parse(field.value || "{}"); } catch { throw new Error(`${field.name}: give a JSON object such as {"measure": "lag"}`); }
    }
    return field.value.trim();
  };
  const told = (answer, found) => {
    const detail = found && found.detail;
    if (answer.status === 401) return "Sign in to Airflow, then open this page again.";
    if (answer.status === 403) return `You may not start runs of the DAG ${shown}. Ask an administrator for the permission.`;
    if (answer.status === 404) return `Airflow does not know the DAG ${shown} yet. Look at its list of DAGs for an import error.`;
    return `Airflow refused it: ${typeof detail === "string" ? detail : JSON.stringify(detail || found)}`.slice(0, 1500);
  };

  // One of the list is a line more of its field.
  for (const pick of form.querySelectorAll(".pick")) {
    const add = () => {
      const into = document.getElementById(pick.dataset.into), line = pick.value.trim();
      const lines = into.value.split("\n").filter((one) => one.trim());
      if (line && !lines.includes(line)) into.value = [...lines, line].join("\n");
      pick.value = "";
    };
    pick.addEventListener("change", add);
    pick.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); add(); } });
  }
  // The rebalances that can be chosen are those of the topic.
  const past = document.getElementById("list-rebalance"), topic = document.getElementById("field-topic");
  const offer = async () => {
    const name = topic.value.trim();
    past.replaceChildren();
    if (!name) return;
    try {
      const answer = await fetch(`${base}/api/v1/rebalances?limit=200&topic=${encodeURIComponent(name)}`, { credentials: "same-origin" });
      const { rebalances } = await answer.json();
      if (topic.value.trim() !== name) return;
      past.replaceChildren(...rebalances.filter((one) => one.cluster === cluster && one.topic === name).map((one) => {
        const option = document.createElement("option"), at = new Date(1000 * one.began).toISOString().slice(0, 16).replace("T", " ");
        option.value = one.rebalance;
        option.label = `${one.rebalance}, ${at} UTC: ${one.headline}`;
        return option;
      }));
    } catch { /* it can be typed */ }
  };
  if (past && topic) { topic.addEventListener("change", offer); offer(); }

  fetch(address, { credentials: "same-origin" }).then((answer) => answer.json()).then((found) => { document.getElementById("paused").hidden = !found.is_paused; }).catch(() => {});
  window.addEventListener("pageshow", () => { button.disabled = false; name(); });  // when somebody comes back, the browser has kept the tick
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    say("");
    button.disabled = true;
    try {
      const conf = { cluster };
      for (const field of form.querySelectorAll("[data-kind]")) conf[field.name] = valueOf(field);
      if (!reads) conf.dry_run = dry.checked;
      const answer = await fetch(`${address}/dagRuns`, { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ logical_date: null, conf }) });
      const found = await answer.json().catch(() => null);
      if (!answer.ok) throw new Error(told(answer, found));
      const link = document.createElement("a");
      link.target = "_top";
      link.href = `${airflow}/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(found.dag_run_id)}/plugin/moved_partitions`;
      document.body.append(link);
      link.click();  // the button stays as it is: a second press would be a second run
    } catch (error) { say(error.message); button.disabled = false; }
  });
});
