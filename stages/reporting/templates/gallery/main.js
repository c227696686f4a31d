// The gallery: filters, list and case, and the keys that lead through them.

const at = (id) => document.getElementById(id);
const narrow = matchMedia("screen and (max-width: 60rem)");
const ROW = 116; // height of a row in pixels: two lines of the question, one of the models, two of chips
const WITHIN = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End"]; // keys of the list

function start() {
  const data = JSON.parse(at("data").textContent);
  const cases = data.cases;
  const facets = facetsOf(data);
  for (const one of cases) {
    if (one.pairs === undefined) one.models = data.cells[one.cell];
    one.sample = data.samples[one.sample];
    one.start = data.starts[one.start];
    one.edit = data.edits[one.edit];
    one.values = Object.fromEntries(facets.map((facet) => [facet.key, facet.of(one)]));
  }
  new Gallery(data, cases, facets);
}

class Gallery {
  constructor(data, cases, facets) {
    Object.assign(this, { data, cases, facets, found: [], current: null });
    this.byId = new Map(cases.map((one) => [one.id, one]));
    this.view = new CaseView(data, cases, (one) => this.open(one, { opened: true }));
    this.list = new List(at("list"), { height: ROW, draw: (one) => this.row(one), choose: (one, how) => this.open(one, how) });
    this.panel = new FilterPanel(at("facets"), facets, cases, () => this.chosen());
    this.controls();
    addEventListener("popstate", () => this.read());
    addEventListener("hashchange", () => this.read());
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("beforeprint", () => { for (const image of at("case").querySelectorAll("img")) image.loading = "eager"; });
    narrow.addEventListener("change", () => this.read());
    this.read();
  }

  controls() {
    let waiting;
    at("search").addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.chosen(), 120);
    });
    at("sort").addEventListener("change", () => this.chosen());
    for (const id of ["clear", "clear-too"]) at(id).addEventListener("click", () => this.clear());
    at("filters-toggle").addEventListener("click", () => this.filters(!document.body.classList.contains("filtering")));
    at("filters-done").addEventListener("click", () => this.filters(false));
    at("back").addEventListener("click", () => this.close());
    at("next").addEventListener("click", () => this.step(1));
    at("previous").addEventListener("click", () => this.step(-1));
    at("help-button").addEventListener("click", () => at("help").showModal());
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
      dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    }
  }

  // From the address to the page.
  read() {
    this.state = readState();
    at("search").value = this.state.q;
    at("sort").value = this.state.sort;
    if (at("sort").selectedIndex < 0) at("sort").value = "";
    this.refresh();
    const named = this.byId.get(this.state.case);
    this.show(named || (narrow.matches ? null : this.found[0] || null));
  }

  // From the controls to the page and to the address.
  chosen() {
    this.state = { ...this.state, chosen: this.panel.chosen(), q: at("search").value.trim(), sort: at("sort").value };
    this.refresh();
    if (!narrow.matches && !this.found.includes(this.current)) {
      this.state.case = null;
      this.show(this.found[0] || null);
    }
    writeState(this.state);
  }

  refresh() {
    const { found, counts } = filter(this.cases, this.facets, this.state.chosen, this.state.q);
    this.found = sorted(found, this.state.sort);
    this.panel.update(this.state.chosen, counts);
    this.list.set(this.found, this.current);
    this.place();
    const all = found.length === this.cases.length;
    at("count").textContent = all ? plural(found.length, this.data.unit) : `${found.length.toLocaleString("en")} of ${plural(this.cases.length, this.data.unit)}`;
    at("empty").hidden = found.length > 0;
    at("list").hidden = found.length === 0;
    const n = [...this.state.chosen.values()].reduce((sum, values) => sum + values.size, 0) + (this.state.q ? 1 : 0);
    at("clear").hidden = n === 0;
    at("filters-toggle").textContent = n ? `Filters (${n})` : "Filters";
  }

  open(one, { opened }) {
    const reading = document.body.classList.contains("reading");
    this.state.case = one.id;
    this.show(one);
    writeState(this.state, { push: narrow.matches && !reading });
    if (opened && narrow.matches) at("question")?.focus({ preventScroll: true });
  }

  show(one) {
    const before = this.current;
    this.current = one;
    document.body.classList.toggle("reading", Boolean(one) && narrow.matches);
    this.list.select(one);
    this.place();
    if (one === before) return;
    at("case").replaceChildren(...(one ? this.view.draw(one) : []));
    at("detail").scrollTop = 0;
  }

  place() {
    const place = this.found.indexOf(this.current);
    at("place").textContent = place >= 0 ? `${place + 1} of ${this.found.length}` : "";
    at("previous").disabled = place <= 0;
    at("next").disabled = place < 0 || place >= this.found.length - 1;
  }

  close() {
    this.state.case = null;
    this.show(null);
    writeState(this.state);
    at("list").focus({ preventScroll: true });
  }

  step(by) {
    const place = this.found.indexOf(this.current);
    const to = this.found[place < 0 ? 0 : place + by];
    if (to) this.open(to, { opened: false });
  }

  clear() {
    at("search").value = "";
    this.panel.clear();
    this.chosen();
  }

  filters(open) {
    document.body.classList.toggle("filtering", open);
    at("filters-toggle").setAttribute("aria-expanded", open);
    (open ? at("filters-done") : at("filters-toggle")).focus();
  }

  row(one) {
    const photo = last(one.edit?.attempts)?.after || one.sample.photo;
    const where = one.pairs ? [one.pairs] : this.data.axes.map((axis) => (axis === "seed" ? `seed ${one.models.seed}` : one.models[axis]));
    if (one.position && !one.pairs) where.push(`edit ${one.position}`);
    return [
      thumbnail(photo, ""),
      element("span", { class: "about" },
        element("span", { class: "question said", dir: "auto" }, one.sample.question),
        element("span", { class: "where" }, where.join(" · ")),
        element("span", { class: "chips" }, outcome(one, this.data.words), one.differ && chip("disagreement", "differ"))),
    ];
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.matches("input[type=search], textarea, select");
    if (event.key === "Escape") {
      if (typing) event.target.blur();
      else if (document.body.classList.contains("filtering")) this.filters(false);
      else if (document.body.classList.contains("reading")) this.close();
      else return;
    } else if (typing) {
      return;
    } else if (["j", "ArrowRight"].includes(event.key)) this.step(1);
    else if (["k", "ArrowLeft"].includes(event.key)) this.step(-1);
    else if (WITHIN.includes(event.key) && event.target === document.body) this.list.key(event);
    else if (event.key === "/") { this.close_reading(); at("search").focus(); at("search").select(); }
    else if (event.key === "?") at("help").showModal();
    else return;
    event.preventDefault();
  }

  close_reading() {
    if (document.body.classList.contains("reading")) this.close();
  }
}

function sorted(cases, by) {
  if (!["r_in", "r_out", "graded"].includes(by)) return cases;
  const value = (one) => (by === "graded" ? one.graded : last(one.edit?.attempts)?.[by]);
  const sign = by === "r_out" ? -1 : 1; // the doubtful ones first
  const known = cases.filter((one) => value(one) !== undefined);
  known.sort((a, b) => sign * (value(a) - value(b)));
  return known.concat(cases.filter((one) => value(one) === undefined));
}

start();
