"use strict";
(() => {
  const root = document.documentElement;

  // Airflow keeps its colour mode in the storage that this page shares with it.
  const paint = () => {
    let mode = "";
    try {
      const outer = window.parent.document.documentElement;
      mode = outer !== root && outer.classList.contains("dark") ? "dark" : localStorage.getItem("theme") || "";
    } catch { /* not inside Airflow */ }
    if (mode === "dark" || mode === "light") root.dataset.theme = mode;
    else delete root.dataset.theme;
  };
  paint();
  window.addEventListener("storage", () => setTimeout(paint, 50));

  // Airflow's frame lets nothing inside navigate it or open a page beside it; a link of the frame's owner may.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[target=_top], a[target=_blank]");
    if (!link || window.parent === window) return;
    event.preventDefault();
    const outer = window.parent.document.createElement("a");
    outer.href = link.href;
    if (link.target === "_blank") { outer.target = link.target; outer.rel = link.rel; }
    window.parent.document.body.append(outer);
    outer.click();
    outer.remove();
  });

  const every = 5000, SILENT = "Airflow's API server does not answer, and is asked again";
  const boxes = () => [...document.querySelectorAll(".scroll")];
  const refresh = async () => {
    const box = document.getElementById("live"), age = document.getElementById("as-of");
    const reading = String(document.getSelection() || "") !== "";
    if (box && box.checked && !document.hidden && !reading) {
      try {
        const answer = await fetch(location.href, { credentials: "same-origin" });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        const main = fresh.querySelector("main"), read = fresh.getElementById("as-of");
        if (!main) throw new Error("something else has answered");
        const open = [...document.querySelectorAll("details[open]")].map((one) => one.id);
        const lefts = boxes().map((one) => one.scrollLeft), href = document.hasFocus() && document.activeElement.href;
        const old = document.querySelector("main"), form = old.querySelector("form"), same = main.querySelector("form");
        if (form && same) {  // what somebody types stays
          while (form.nextSibling) form.nextSibling.remove();
          while (same.nextSibling) old.append(same.nextSibling);
        } else old.replaceWith(document.adoptNode(main));
        open.forEach((id) => { const one = document.getElementById(id); if (one) one.open = true; });
        boxes().forEach((one, at) => { one.scrollLeft = lefts[at] || 0; });
        const link = href && [...document.querySelectorAll("main a")].find((one) => one.href === href);
        if (link) link.focus({ preventScroll: true });
        age.textContent = read ? read.textContent : "";
        if (answer.ok && !fresh.getElementById("live")) { document.getElementById("live-label").hidden = true; return; }  // it is over
      } catch { if (!age.textContent.endsWith(SILENT)) age.textContent += `${age.textContent && "; "}${SILENT}`; }
    }
    setTimeout(refresh, every);
  };
  window.addEventListener("DOMContentLoaded", () => {
    const label = document.getElementById("live-label");
    if (label) { label.hidden = false; setTimeout(refresh, every); }
  });
})();
