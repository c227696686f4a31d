// One case in full: question, edit, images, measurements, both answers, verdicts, attempts.

function outcome(one, words, { grade = true } = {}) {
  const status = (value) => words.status[value] || value.replaceAll("_", " ");
  if (one.pairs) return [one.status === "ok" ? chip("accepted", "ok") : chip(status(one.status), "no")];
  const out = [];
  if (one.ac !== undefined) {
    out.push(verdict("AC", one.ac), verdict("EF", one.ef));
  } else if (one.status !== "ok") {
    out.push(chip(one.stage === "edit" || one.position === 0 ? status(one.status) : `not scored: ${status(one.status)}`, "no"));
  }
  if (grade && one.graded !== undefined) out.push(chip(`grade ${digits(1 + 4 * one.graded)}`));
  return out;
}

function verdict(name, value) {
  return chip(`${name} ${digits(value)}`, value === 1 ? "ok" : value === 0 ? "no" : "na");
}

function digits(value) {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

function gauge(name, value, tau, above) {
  const known = value !== undefined && value !== null;
  const passed = !known || tau === null || (above ? value > tau : value < tau);
  const sign = value > tau ? ">" : above ? "≤" : value < tau ? "<" : "≥";
  return element("span", { class: `gauge${passed ? "" : " fail"}` }, element("span", { class: "name" }, name),
    element("span", { class: "track", "aria-hidden": "true" },
      known && element("span", { class: "fill", style: { width: `${100 * value}%` } }),
      tau !== null && element("span", { class: "tau", style: { left: `${100 * tau}%` } })),
    known ? `${percent(value)}${tau === null ? "" : ` (${sign} τ ${percent(tau, 0)})`}` : "not measured");
}

function term(name, ...value) {
  return [element("dt", {}, name), element("dd", {}, ...value)];
}

class CaseView {
  constructor(data, cases, go) {
    Object.assign(this, { data, go });
    this.chains = groupBy(cases, (one) => `${one.pairs || one.cell}/${one.sample.id}`);
    this.edits = groupBy(cases.filter((one) => one.edit && !one.pairs), (one) => one.edit);
    this.questions = groupBy(cases.filter((one) => !one.pairs), (one) => `${one.sample.id}/${one.position}`);
  }

  status(value) {
    return this.data.words.status[value] || value.replaceAll("_", " ");
  }

  draw(one) {
    const models = one.models
      ? ["target", "extractor", "editor", "judge"].map((role) => `${role} ${one.models[role]}`).concat(`seed ${one.models.seed}`)
      : [`pairs ${one.pairs}`];
    const step = one.position ? `edit ${one.position} of ${this.chain(one).length}` : "no edit";
    return [
      element("header", { class: "case-head" },
        element("p", { class: "meta" }, element("b", { class: "said" }, one.sample.id), ` · ${one.sample.domain}`, one.pairs ? null : ` · ${step}`),
        element("h2", { id: "question", tabindex: "-1", class: "said", dir: "auto" }, one.sample.question),
        element("p", { class: "chips" }, outcome(one, this.data.words), this.differences(one)),
        element("p", { class: "meta said" }, models.join(" · ")),
        one.sample.told && element("details", {}, element("summary", {}, "What the target was told beforehand"), said(one.sample.told)),
        one.sample.reference && element("p", { class: "meta" }, "Publisher’s answer: ", element("span", { class: "said" }, one.sample.reference)),
      ),
      this.strip(one), this.edit(one), this.words(one), this.verdicts(one), this.attempts(one), this.others(one),
    ].filter(Boolean);
  }

  chain(one) {
    return this.chains.get(`${one.pairs || one.cell}/${one.sample.id}`);
  }

  differences(one) {
    return (one.differ || []).map((kind) => chip(`${DIFFER[kind] || kind} disagree`, "differ"));
  }

  // The chain at a glance: the original and the image after each edit; each leads to its step.
  strip(one) {
    const steps = this.chain(one).filter((step) => step.position > 0);
    if (one.pairs || steps.length === 0) return this.original(one);
    const result = (step) => last(step.edit?.attempts)?.after;
    return element("ol", { class: "strip", "aria-label": "Chain" },
      element("li", {}, element("div", { class: "link" }, thumbnail(one.sample.photo, "Original image"), element("span", { class: "step" }, "original"))),
      steps.map((step) => element("li", {}, element("button", {
        type: "button", class: "link", "aria-current": step === one ? "step" : null, onclick: () => this.go(step),
      }, thumbnail(result(step), `Image after edit ${step.position}`), element("span", { class: "step" }, `edit ${step.position}`, element("span", { class: "chips" }, outcome(step, this.data.words, { grade: false })))))));
  }

  original(one) {
    if (one.pairs || !one.sample.photo) return null;
    const view = { name: "original", photo: one.sample.photo, alt: "Original image" };
    return element("div", { class: "views" }, element("figure", {},
      element("button", { type: "button", class: "zoom", "aria-label": "Enlarge. Original image", onclick: () => lookAt([view], 0) }, stack(view)),
      element("figcaption", {}, "original")));
  }

  edit(one) {
    const edit = one.edit;
    if (!edit) {
      return this.section("lost", "What became of it",
        element("p", {}, `Lost at ${DECIDED[one.stage] || one.stage}: ${this.status(one.status)}.`), one.reason && said(one.reason),
        this.concepts(one));
    }
    const shown = last(edit.attempts);
    return this.section("edit", "Edit",
      edit.change && element("p", { class: "contradicts" }, `${edit.type}, contradicts `, element("q", { class: "said" }, edit.concept)),
      edit.change && element("div", { class: "instruction" }, said(edit.change), said(edit.appearance)),
      edit.change && element("details", {}, element("summary", {}, "What to keep and what to avoid"),
        element("dl", {}, term("keep", said(edit.keep)), term("avoid", said(edit.avoid)))),
      shown ? [figures(shown), this.measured(shown)] : element("p", {}, this.status(one.status), one.reason && said(one.reason)),
      one.status !== "ok" && shown && ["edit", "pairs"].includes(one.stage) && element("p", { class: "reason" }, `Not accepted: ${this.status(one.status)}. `, one.reason && element("span", { class: "said" }, one.reason)));
  }

  measured(attempt) {
    const [tauIn, tauOut] = this.data.tau;
    const notes = [];
    if (attempt.aligned) notes.push(`aligned by ${attempt.aligned}`);
    if (attempt.shift) notes.push(`shift ${attempt.shift.toFixed(1)} px`);
    if (attempt.mask_share !== undefined) notes.push(`mask ${percent(attempt.mask_share)} of the image`);
    return [
      attempt.aligned && element("div", { class: "gauges" },
        gauge("r_in, changed inside", attempt.r_in, tauIn, true), gauge("r_out, changed outside", attempt.r_out, tauOut, false),
        element("span", { class: "meta" }, notes.join(", "))),
      attempt.verifier && this.inspection(attempt.verifier),
      attempt.more && element("dl", { class: "settings" }, attempt.more.map(([name, value]) => term(name.replaceAll("_", " "), said(value, "span")))),
    ];
  }

  // What a model that was shown both images said of the edit.
  inspection(v) {
    return element("div", { class: "judgement" }, element("h4", {}, "Verifier"),
      element("p", { class: "chips" },
        v.silent ? chip(`no word: ${this.status(v.silent)}`)
          : [chip(v.present ? "change is there" : "change is not there", v.present ? "ok" : "no"), chip(v.rest ? "nothing else changed" : "something else changed", v.rest ? "ok" : "no")],
        chip(`gate alone: ${v.gate === "ok" ? "accepted" : this.status(v.gate)}`)),
      v.words && said(v.words), v.reason && said(v.reason));
  }

  concepts(one) {
    const concepts = one.start?.concepts;
    return concepts && element("p", { class: "meta" }, "Concepts that the explanation cites: ", concepts.flatMap((text, i) => [i ? "; " : "", element("span", { class: "said" }, text)]));
  }

  // Both answers and explanations side by side, with what changed marked.
  words(one) {
    if (!one.start) return null;
    const first = one.start, second = one.edit?.answer;
    const absent = (answer) => chip(answer?.silent ? this.status(answer.silent) : "not asked");
    const pair = (key, name) => {
      const [a, b] = [first[key], second?.[key]];
      const same = a !== undefined && a === b;
      const [before, after] = a !== undefined && b !== undefined && !same ? marked(a, b) : [a && said(a), b && said(b)];
      return [
        element("div", { class: "one" }, element("h4", {}, `First ${name}`), before || absent(first)),
        element("div", { class: "two" }, element("h4", {}, `New ${name}`, same && chip("the same", "na")), after || absent(second)),
      ];
    };
    const asked = one.edit ? pair("answer", "answer").concat(pair("explanation", "explanation"))
      : [["answer"], ["explanation"]].map(([key]) => element("div", { class: "one" }, element("h4", {}, `First ${key}`), first[key] ? said(first[key]) : absent(first)));
    return this.section("words", "What the target said",
      element("div", { class: `said-both${one.edit ? "" : " alone"}` }, asked),
      second && element("p", { class: "key meta" }, element("del", {}, "only in the first"), " ", element("ins", {}, "only in the new one"),
        one.position > 1 && " The first answer was given to the original image; the new one to the image after all edits so far."),
      one.edit && this.concepts(one));
  }

  verdicts(one) {
    if (one.pairs) return this.people(one);
    const judged = (this.edits.get(one.edit) || [one]).filter((other) => other.verdicts);
    judged.sort((a, b) => (b === one) - (a === one));
    if (!judged.length && !one.edit?.people) return null;
    const several = judged.length > 1;
    return this.section("verdicts", "Verdicts",
      judged.map((other) => element("div", { class: "judge" },
        element("h4", { class: "said" }, `Judge ${other.models.judge}`, several && other === one && element("span", { class: "meta" }, " (this row)")),
        other.verdicts.map((v, i) => this.judgement(v, other.verdicts.length > 1 ? i + 1 : 0)))),
      this.people(one));
  }

  judgement(v, replicate) {
    return element("div", { class: "judgement" },
      element("p", { class: "chips" }, replicate ? element("span", { class: "meta" }, `replicate ${replicate} `) : null,
        v.ac === undefined ? chip(`no verdict: ${this.status(v.status)}`)
          : [chip(v.ac ? "answer consistent" : "answer inconsistent", v.ac ? "ok" : "no"), chip(v.ef ? "explanation faithful" : "explanation unfaithful", v.ef ? "ok" : "no")],
        chip(v.grade === undefined ? `no grade: ${this.status(v.no_grade || "not_reached")}` : `grade ${v.grade} of 5`)),
      v.why && said(v.why), v.reason && said(v.reason),
      v.grade_why && v.grade_why !== v.why && element("div", {}, element("span", { class: "meta" }, "on the grade: "), said(v.grade_why)));
  }

  people(one) {
    const people = one.edit?.people || [];
    if (!people.length) return null;
    const valid = { yes: ["edit valid", "ok"], no: ["edit not valid", "no"], cant_tell: ["can’t tell", "na"] };
    const body = people.map((p) => element("div", { class: "judgement" },
      element("p", { class: "chips" }, element("b", { class: "said" }, p.who), one.edit.attempts.length > 1 && element("span", { class: "meta" }, ` on attempt ${p.attempt}`),
        p.valid && chip(...valid[p.valid]),
        p.ac !== undefined && chip(p.ac ? "answer consistent" : "answer inconsistent", p.ac ? "ok" : "no"),
        p.ef !== undefined && chip(p.ef ? "explanation faithful" : "explanation unfaithful", p.ef ? "ok" : "no")),
      p.note && said(p.note)));
    return one.pairs ? this.section("people", "Label", body) : element("div", { class: "judge human" }, element("h4", {}, "Human labels"), body);
  }

  attempts(one) {
    const attempts = one.edit?.attempts || [];
    if (attempts.length < 2) return null;
    return this.section("attempts", plural(attempts.length, "attempt"), attempts.map((attempt) => element("details", {},
      element("summary", {}, `Attempt ${attempt.n} `, attempt.status === "ok" ? chip("accepted", "ok") : chip(this.status(attempt.status), "no")),
      attempt.reason && said(attempt.reason), figures(attempt, `Attempt ${attempt.n}. `), this.measured(attempt))));
  }

  // The same question to other models: one step away.
  others(one) {
    if (one.pairs) return null;
    const others = this.questions.get(`${one.sample.id}/${one.position}`).filter((other) => other !== one);
    if (!others.length) return null;
    const axes = this.data.axes;
    return this.section("others", "The same question elsewhere", element("ul", { class: "others" }, others.slice(0, 24).map((other) =>
      element("li", {}, element("button", { type: "button", class: "link", onclick: () => this.go(other) },
        element("span", { class: "said" }, axes.map((axis) => (axis === "seed" ? `seed ${other.models.seed}` : other.models[axis])).join(" · ")), " ", element("span", { class: "chips" }, outcome(other, this.data.words)))))));
  }

  section(id, title, ...children) {
    return element("section", { "aria-labelledby": `h-${id}` }, element("h3", { id: `h-${id}` }, title), children);
  }
}

function last(list) {
  return list && list[list.length - 1];
}

function groupBy(list, key) {
  const out = new Map();
  for (const item of list) {
    const at = key(item);
    if (!out.has(at)) out.set(at, []);
    out.get(at).push(item);
  }
  return out;
}
