// A list of thousands of rows of one height: only those in sight exist.

class List {
  constructor(root, { height, draw, choose }) {
    Object.assign(this, { root, height, draw, choose, items: [], selected: -1, rows: new Map() });
    this.space = element("div", { class: "space", role: "presentation" });
    root.append(this.space);
    root.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(root);
    root.addEventListener("keydown", (event) => this.key(event));
  }

  set(items, selected) {
    this.items = items;
    this.selected = items.indexOf(selected);
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.space.style.height = `${items.length * this.height}px`;
    if (this.selected >= 0) this.reveal();
    else this.root.scrollTop = 0;
    this.render();
  }

  select(item) {
    this.selected = this.items.indexOf(item);
    if (this.selected >= 0) this.reveal();
    this.render();
  }

  reveal() {
    const top = this.selected * this.height, view = this.root.clientHeight;
    if (!view) return;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (top + this.height > this.root.scrollTop + view) this.root.scrollTop = top + this.height - view;
  }

  later() {
    this.waiting ??= requestAnimationFrame(() => { this.waiting = null; this.render(); });
  }

  render() {
    const first = Math.max(0, Math.floor(this.root.scrollTop / this.height) - 4);
    const last = Math.min(this.items.length, Math.ceil((this.root.scrollTop + this.root.clientHeight) / this.height) + 4);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) { row.remove(); this.rows.delete(index); }
    }
    for (let index = first; index < last; index += 1) {
      if (!this.rows.has(index)) this.rows.set(index, this.space.appendChild(this.row(index)));
      this.rows.get(index).setAttribute("aria-selected", index === this.selected);
    }
    const current = this.rows.get(this.selected);
    if (current) this.root.setAttribute("aria-activedescendant", current.id);
    else this.root.removeAttribute("aria-activedescendant");
  }

  row(index) {
    return element("div", {
      class: "row", role: "option", id: `row-${index}`, "aria-posinset": index + 1, "aria-setsize": this.items.length,
      style: { top: `${index * this.height}px`, height: `${this.height}px` },
      onclick: () => this.choose(this.items[index], { opened: true }),
    }, this.draw(this.items[index]));
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.root.clientHeight / this.height) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (by !== undefined) this.move(by);
    else if (event.key === "Enter" && this.selected >= 0) this.choose(this.items[this.selected], { opened: true });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  move(by) {
    if (!this.items.length) return;
    const to = Math.min(this.items.length - 1, Math.max(0, this.selected + by));
    if (to !== this.selected) this.choose(this.items[to], { opened: false });
  }
}
