// What cases are filtered by. A facet gives the values of a case; several values chosen mean any of them.

const DECIDED = {
  baseline: "first answer", concepts: "concepts", instructions: "instructions", edit: "editing",
  requery: "second answer", judge: "judging", pairs: "the gate (pairs)",
};
const DIFFER = {
  judge_people: "judge and human", gate_people: "gate and human", gate_verifier: "gate and verifier", people: "humans",
  judges: "judges", replicates: "replicates of a judge",
};

function score(value) {
  if (value === undefined) return ["none"];
  return [value === 0 || value === 1 ? String(value) : "between"];
}

function facetsOf(data) {
  const axis = (key, title) => ({ key, title, of: (c) => (c.models ? [String(c.models[key])] : []) });
  const yesNo = (yes, no) => ({ 1: yes, between: "replicates differ", 0: no, none: "no verdict" });
  const status = (value) => data.words.status[value] || value.replaceAll("_", " ");
  return [
    axis("target", "Target"), axis("extractor", "Extractor"), axis("editor", "Editor"),
    axis("judge", "Judge"), axis("seed", "Seed"),
    { key: "pairs", title: "Pairs", of: (c) => (c.pairs ? [c.pairs] : []) },
    { key: "domain", title: "Domain", of: (c) => [c.sample.domain] },
    { key: "position", title: "Position in the chain", of: (c) => [String(c.position)],
      say: (value) => (value === "0" ? "no edit planned" : `edit ${value}`) },
    { key: "type", title: "Kind of edit", of: (c) => (c.edit && c.edit.type ? [c.edit.type] : []) },
    { key: "through", title: "Came through", of: (c) => c.through || [], order: Object.keys(data.words.through),
      say: (value) => data.words.through[value] || value },
    { key: "ac", title: "Answer consistency", of: (c) => score(c.ac), order: ["1", "between", "0", "none"],
      say: (value) => yesNo("consistent", "inconsistent")[value] || value },
    { key: "ef", title: "Explanation faithfulness", of: (c) => score(c.ef), order: ["1", "between", "0", "none"],
      say: (value) => yesNo("faithful", "unfaithful")[value] || value },
    { key: "grade", title: "Grade", order: ["5", "4", "3", "2", "1"],
      of: (c) => (c.graded !== undefined ? [String(Math.round(1 + 4 * c.graded))] : c.no_grade ? [`none: ${c.no_grade}`] : []),
      say: (value) => (value.startsWith("none: ") ? `none: ${status(value.slice(6))}` : `${value} of 5`) },
    { key: "stage", title: "Lost at", of: (c) => (c.status === "ok" ? [] : [c.stage]), order: Object.keys(DECIDED),
      say: (value) => DECIDED[value] || value },
    { key: "status", title: "Reason", of: (c) => [c.status],
      say: (value) => (value === "ok" ? "not lost" : status(value)) },
    { key: "tries", title: "Attempts", of: (c) => (c.attempts ? [String(c.attempts)] : []) },
    { key: "differ", title: "Disagreement", of: (c) => c.differ || [], order: Object.keys(DIFFER),
      say: (value) => DIFFER[value] || value },
    { key: "labelled", title: "Human labels", of: (c) => [c.labelled ? "yes" : "no"], order: ["yes", "no"],
      say: (value) => (value === "yes" ? "labelled" : "not labelled") },
  ];
}

// Cases that fit, and for each facet how many fit its values when the other facets are as chosen.
function filter(cases, facets, chosen, query) {
  const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
  const counts = new Map(facets.map((facet) => [facet.key, new Map()]));
  const active = facets.filter((facet) => chosen.get(facet.key)?.size);
  const found = [];
  const add = (key, values) => {
    const of = counts.get(key);
    for (const value of values) of.set(value, (of.get(value) || 0) + 1);
  };
  for (const one of cases) {
    if (terms.length && !terms.every((term) => haystack(one).includes(term))) continue;
    const failed = active.filter((facet) => !one.values[facet.key].some((value) => chosen.get(facet.key).has(value)));
    if (failed.length === 0) {
      found.push(one);
      for (const facet of facets) add(facet.key, one.values[facet.key]);
    } else if (failed.length === 1) {
      add(failed[0].key, one.values[failed[0].key]);
    }
  }
  return { found, counts };
}

// All words of a case, made when they are first searched.
function haystack(one) {
  if (one.haystack === undefined) {
    const edit = one.edit || {}, start = one.start || {}, answer = edit.answer || {};
    const verdicts = (one.verdicts || []).flatMap((v) => [v.why, v.grade_why, v.reason]);
    const people = (edit.people || []).flatMap((p) => [p.who, p.note]);
    const attempts = (edit.attempts || []).flatMap((a) => [a.object, a.reason, a.asked, a.verifier?.words]);
    one.haystack = [
      one.sample.id, one.sample.question, one.id, start.answer, start.explanation, ...(start.concepts || []),
      edit.concept, edit.change, edit.appearance, answer.answer, answer.explanation, one.reason,
      ...verdicts, ...people, ...attempts,
    ].filter(Boolean).join("\n").toLowerCase();
  }
  return one.haystack;
}
