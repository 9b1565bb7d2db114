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
