"use strict";
// What was answered, what can be taken back, and how it goes out. Knows nothing of the page.

const FIELDS = ["valid", "ac", "ef", "note"];

function makeAnswers({ format, form, annotator, items }, { onSaved, onForeign }) {
  const KEY = `${format}:${form}:${annotator}`;
  const HISTORY = 500;
  const byId = new Map(items.map((one) => [one.id, one]));
  const fresh = () => ({ given: {}, at: 0, undo: [], redo: [], changes: 0, exported: 0, keys: true });
  let state = fresh();
  let storage = null;
  let kept = true;

  function sound(saved) {
    if (!saved || typeof saved !== "object" || typeof saved.given !== "object") return fresh();
    const found = { ...fresh(), ...saved };
    found.at = Math.min(Math.max(0, found.at | 0), Math.max(0, items.length - 1));
    return found;
  }

  function load() {
    try {
      storage = window.localStorage;
      state = sound(JSON.parse(storage.getItem(KEY)));
    } catch (error) {
      if (!(error instanceof SyntaxError)) storage = null;
    }
    kept = storage !== null;
  }

  function save() {
    try {
      storage.setItem(KEY, JSON.stringify(state));
      kept = true;
    } catch {
      kept = false;
    }
    onSaved();
  }

  const said = (id) => state.given[id] || {};

  // What follows the edit is read only once the edit was called valid.
  const opened = new Map();
  function after(id) {
    if (!opened.has(id)) {
      const bytes = Uint8Array.from(atob(byId.get(id).sealed), (char) => char.charCodeAt(0));
      opened.set(id, JSON.parse(new TextDecoder().decode(bytes)));
    }
    return opened.get(id);
  }

  function judged(id) {
    const { valid, ac, ef } = said(id);
    if (valid !== "yes") return Boolean(valid);
    return Boolean((ac && ef) || !after(id));
  }

  function put(id, field, value) {
    const answers = { ...said(id) };
    if (value) answers[field] = value;
    else delete answers[field];
    if (Object.keys(answers).length) state.given[id] = answers;
    else delete state.given[id];
    state.changes += 1;
  }

  function remember(id, field, from, to) {
    state.undo.push({ id, field, from, to });
    state.undo = state.undo.slice(-HISTORY);
    state.redo = [];
  }

  function answer(id, field, value) {
    const from = said(id)[field] || "";
    if (from === value) return;
    put(id, field, value);
    remember(id, field, from, value);
    save();
  }

  // Returns the step that was taken back or done again, if there was one.
  function travel(back) {
    const [source, goal] = back ? [state.undo, state.redo] : [state.redo, state.undo];
    const step = source.pop();
    if (!step) return null;
    goal.push(step);
    put(step.id, step.field, back ? step.from : step.to);
    state.at = items.findIndex((one) => one.id === step.id);
    save();
    return step;
  }

  const rows = () => items.map(({ id }) => {
    const { valid = null, ac = null, ef = null, note = null } = said(id);
    const asked = valid === "yes" && after(id);
    return { id, valid, ac: asked && ac ? Number(ac) : null, ef: asked && ef ? Number(ef) : null, note };
  });

  const asJson = () => JSON.stringify({ format, form, annotator, rows: rows() }, null, 1) + "\n";

  function asCsv() {
    const cell = (value) => {
      let text = value === null ? "" : String(value);
      if (/^'*[=+\-@\t\r]/.test(text)) text = `'${text}`;  // no spreadsheet takes it for a formula
      return /[",;\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const names = ["form", "annotator", "id", ...FIELDS];
    const lines = rows().map((row) => names.map((name) => cell({ form, annotator, ...row }[name])).join(","));
    return "\ufeff" + [names.join(","), ...lines].join("\r\n") + "\r\n";
  }

  // Takes over the answers of an export; returns how many were new.
  function take(text) {
    const given = JSON.parse(text);
    if (given.format !== format || given.form !== form) throw new Error("it is of another form");
    if (given.annotator !== annotator) throw new Error(`it is by ${String(given.annotator)}`);
    if (given.rows.some((row) => !byId.has(row.id))) throw new Error("it names an edit that is not in this form");
    let n = 0;
    for (const row of given.rows) {
      for (const field of FIELDS) {
        const value = row[field] === null || row[field] === undefined ? "" : String(row[field]);
        const from = said(row.id)[field] || "";
        if (!value || value === from) continue;
        put(row.id, field, value);
        remember(row.id, field, from, value);
        n += 1;
      }
    }
    save();
    return n;
  }

  // Another tab with this form: the later answer counts, and neither tab overwrites the other's.
  window.addEventListener("storage", (event) => {
    if (event.key !== KEY || !event.newValue) return;
    try {
      state = { ...sound(JSON.parse(event.newValue)), at: state.at };
    } catch {
      return;
    }
    onForeign();
  });

  load();
  return {
    said, after, judged, put, remember, answer, travel, save, take, asJson, asCsv,
    begun: (id) => FIELDS.some((field) => said(id)[field]),
    erase: () => { state = fresh(); save(); },
    exported: () => { state.exported = state.changes; save(); },
    get state() { return state; },
    get kept() { return kept; },
    get news() { return state.changes - state.exported; },
  };
}
