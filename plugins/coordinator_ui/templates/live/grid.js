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
