// The panel of filters: a group of boxes a facet, each with how many cases it would leave.

class FilterPanel {
  constructor(root, facets, cases, changed) {
    this.boxes = [];
    for (const facet of facets) {
      const values = [...new Set(cases.flatMap((one) => one.values[facet.key]))];
      const tells = values.length > 1 || cases.some((one) => one.values[facet.key].length === 0);
      if (!values.length || !tells) continue;
      const rank = (value) => { const place = (facet.order || []).indexOf(value); return place < 0 ? Infinity : place; };
      values.sort((a, b) => rank(a) - rank(b) || (facet.key === "position" || facet.key === "seed" ? a - b : 0));
      const rows = values.map((value) => {
        const box = element("input", { type: "checkbox", name: facet.key, value, onchange: changed });
        const count = element("span", { class: "n" });
        const row = element("label", { class: "choice" }, box, element("span", { class: "said" }, facet.say ? facet.say(value) : value), count);
        this.boxes.push({ facet, value, box, count, row });
        return row;
      });
      root.append(element("fieldset", {}, element("legend", {}, facet.title), rows));
    }
  }

  chosen() {
    const out = new Map(this.hidden);
    for (const { facet, value, box } of this.boxes) {
      if (!box.checked) continue;
      if (!out.has(facet.key)) out.set(facet.key, new Set());
      out.get(facet.key).add(value);
    }
    return out;
  }

  update(chosen, counts) {
    this.hidden = new Map([...chosen].filter(([key]) => !this.boxes.some((box) => box.facet.key === key)));
    for (const { facet, value, box, count, row } of this.boxes) {
      const n = counts.get(facet.key).get(value) || 0;
      box.checked = Boolean(chosen.get(facet.key)?.has(value));
      count.textContent = n.toLocaleString("en");
      row.classList.toggle("zero", n === 0);
    }
  }

  clear() {
    this.hidden = new Map();
    for (const { box } of this.boxes) box.checked = false;
  }
}
