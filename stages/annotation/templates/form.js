"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const DATA = JSON.parse($("data").textContent);
  const { items, form, annotator } = DATA;
  const N = items.length;
  const KEY = `${DATA.format}:${form}:${annotator}`;
  const FIELDS = ["valid", "ac", "ef", "note"];
  const WORDS = { valid: "validity", ac: "the answer", ef: "the explanation", note: "the note" };
  const HISTORY = 500;
  const wide = matchMedia("(min-width: 62.01rem)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  // ---- state: what was answered, where the annotator is, and what can be taken back

  const fresh = () => ({ answers: {}, at: 0, undo: [], redo: [], changes: 0, exported: 0, keys: true });
  let state = fresh();
  let storage = null;
  let kept = true;

  const sound = (saved) => {
    if (!saved || typeof saved !== "object" || typeof saved.answers !== "object") return fresh();
    const found = { ...fresh(), ...saved };
    found.at = Math.min(Math.max(0, found.at | 0), Math.max(0, N - 1));
    return found;
  };

  function load() {
    try {
      storage = window.localStorage;
      state = sound(JSON.parse(storage.getItem(KEY)));
    } catch (error) {
      if (!(error instanceof SyntaxError)) storage = null;
    }
  }

  function save() {
    try {
      storage.setItem(KEY, JSON.stringify(state));
      kept = true;
    } catch {
      kept = false;
    }
    showSaved();
  }

  const item = () => items[state.at];
  const said = (id) => state.answers[id] || {};
  const judged = (id) => {
    const { valid, ac, ef } = said(id);
    if (valid !== "yes") return Boolean(valid);
    return Boolean((ac && ef) || !after(byId.get(id)));
  };
  const begun = (id) => FIELDS.some((field) => said(id)[field]);
  const byId = new Map(items.map((one) => [one.id, one]));

  // What follows the edit is read only once the edit was called valid.
  const opened = new Map();
  function after(one) {
    if (!opened.has(one.id)) {
      const bytes = Uint8Array.from(atob(one.sealed), (char) => char.charCodeAt(0));
      opened.set(one.id, JSON.parse(new TextDecoder().decode(bytes)));
    }
    return opened.get(one.id);
  }

  function put(id, field, value) {
    const answers = { ...said(id) };
    if (value) answers[field] = value;
    else delete answers[field];
    if (Object.keys(answers).length) state.answers[id] = answers;
    else delete state.answers[id];
    state.changes += 1;
  }

  function answer(id, field, value) {
    const from = said(id)[field] || "";
    if (from === value) return;
    put(id, field, value);
    state.undo.push({ id, field, from, to: value });
    state.undo = state.undo.slice(-HISTORY);
    state.redo = [];
    save();
    show();
    if (field === "valid" && value) ($("after").hidden ? $("nothing") : $("after")).scrollIntoView({ block: "nearest" });
  }

  function travel(back) {
    closeNote();
    const [source, goal] = back ? [state.undo, state.redo] : [state.redo, state.undo];
    const step = source.pop();
    if (!step) return;
    goal.push(step);
    put(step.id, step.field, back ? step.from : step.to);
    const at = items.findIndex((one) => one.id === step.id);
    const moved = at !== state.at;
    state.at = at;
    save();
    show(moved);
    tell(`${back ? "Undone" : "Done again"}: ${WORDS[step.field]} of edit ${at + 1}`);
  }

  // ---- the page

  const tell = (words) => { $("live").textContent = words; };
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  function element(tag, words, attributes = {}) {
    const made = document.createElement(tag);
    made.textContent = words;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  function alarm(words) {
    $("alarm").textContent = words;
    $("alarm").hidden = !words;
  }

  function showSaved() {
    const any = state.changes > 0;
    $("saved").className = `saved ${kept ? (any ? "ok" : "") : "failed"}`;
    $("saved").textContent = !kept
      ? "Not saved"
      : any ? (state.exported === state.changes ? "Saved here, and exported" : "Saved on this device") : "Nothing to save yet";
    if (!kept) alarm("This browser keeps no answers of this page. Export them before you close it.");
  }

  function showEdits(edits) {
    $("edits").replaceChildren(...edits.map((edit, i) => {
      const last = i === edits.length - 1;
      const row = element("li", "", last ? { class: "now" } : {});
      const which = edits.length > 1 || !last ? `Edit ${i + 1}` : "Edit";
      row.append(
        element("div", last ? `${which}: judge this one` : `${which}: made before`, { class: "which" }),
        element("p", edit.change, { class: "words", dir: "auto" }),
      );
      const more = element("dl", "");
      for (const [name, head] of [["appearance", "Look"], ["keep", "Keep"], ["avoid", "Avoid"]]) {
        if (edit[name]) more.append(element("dt", head), element("dd", edit[name], { dir: "auto" }));
      }
      row.append(more);
      return row;
    }));
  }

  function show(moved = false) {
    const one = item();
    const { valid, ...rest } = said(one.id);
    if (moved) showTexts(one);
    $("after").hidden = true;
    $("nothing").hidden = true;
    if (valid === "yes") {
      const words = after(one);
      $("after").hidden = !words;
      $("nothing").hidden = Boolean(words);
      $("nothing").textContent = "There is no new answer to this image. Nothing more to judge here.";
      $("new-answer").textContent = words ? words.answer : "";
      $("new-explanation").textContent = words ? words.explanation : "";
    } else if (valid) {
      $("nothing").hidden = false;
      $("nothing").textContent = "Nothing more to judge here.";
    }
    for (const group of document.querySelectorAll("[data-field]")) {
      const given = said(one.id)[group.dataset.field];
      for (const button of group.children) press(button, button.dataset.value === given);
    }
    if (document.activeElement !== $("note")) $("note").value = rest.note || "";
    const done = items.filter(({ id }) => judged(id)).length;
    $("bar").value = done;
    $("count").textContent = `${done} of ${N} judged`;
    $("undo").disabled = !state.undo.length;
    $("redo").disabled = !state.redo.length;
    $("previous").disabled = state.at === 0;
    const last = state.at === N - 1;
    $("next").textContent = done === N ? "Export →" : last ? "Next open →" : "Next →";
    $("next").classList.toggle("ready", judged(one.id));
    $("place").textContent = `${state.at + 1} / ${N}`;
  }

  function showTexts(one) {
    $("number").textContent = `Edit ${state.at + 1} of ${N}`;
    $("question").textContent = one.question;
    $("context").hidden = !one.context;
    $("context-words").textContent = one.context;
    $("old-answer").textContent = one.answer;
    $("old-explanation").textContent = one.explanation;
    $("note").value = said(one.id).note || "";
    showEdits(one.edits);
    $("against").hidden = one.images.before === one.images.original;
    against = "before";
    showImages();
    zoomTo(1, 0, 0);
    $("panel").scrollTop = 0;
    if (!wide.matches) window.scrollTo(0, 0);
  }

  function go(at) {
    if (at < 0 || at >= N) return;
    closeNote();
    state.at = at;
    save();
    show(true);
    tell(`Edit ${at + 1} of ${N}`);
  }

  const nextOpen = () => {
    const order = [...Array(N).keys()].map((i) => (state.at + 1 + i) % N);
    return order.find((i) => !judged(items[i].id));
  };

  function next() {
    const open = nextOpen();
    if (open === undefined) openExport();
    else go(state.at === N - 1 ? open : state.at + 1);
  }

  // ---- images: two of them, one view

  let against = "before";
  let view = { scale: 1, x: 0, y: 0 };
  let clock = null;
  const stage = $("stage");
  const sides = ["left", "right"].map((name) => ({
    figure: $(name), pane: $(name).firstElementChild, image: $(`${name}-image`),
    cross: $(name).querySelector(".cross"),
  }));

  function source(name) {
    const held = document.querySelector(`[data-image="${name}"]`);
    return `data:${held.dataset.mime};base64,${held.textContent}`;
  }

  function showImages() {
    const one = item();
    const first = one.images.before === one.images.original;
    const words = against === "original" ? "Original, before any edit" : first ? "Original, before the edit" : "Before this edit";
    $("left-words").textContent = words;
    $("right-words").textContent = first ? "After the edit" : "After this edit";
    sides[0].image.src = source(one.images[against]);
    sides[0].image.alt = words;
    sides[1].image.src = source(one.images.edited);
    sides[1].image.alt = "After the edit";
    press($("against-before"), against === "before");
    press($("against-original"), against === "original");
    const following = items[state.at + 1];
    if (following) for (const kind of ["before", "edited"]) new Image().src = source(following.images[kind]);
  }

  function compareWith(kind) {
    if ($("against").hidden) return;
    against = kind;
    showImages();
    tell($("left-words").textContent);
  }

  function zoomTo(scale, x, y) {
    scale = Math.min(Math.max(scale, 1), 12);
    const inside = (value) => Math.min(0, Math.max(1 - scale, value));
    view = { scale, x: inside(x), y: inside(y) };
    for (const { image } of sides) {
      image.style.transform = `translate(${100 * view.x}%, ${100 * view.y}%) scale(${scale})`;
    }
    stage.classList.toggle("near", scale > 1);
    stage.classList.toggle("pixels", scale >= 5);
    $("scale").textContent = `${Math.round(100 * scale)} %`;
  }

  // Zoom so that the point of the pane at (px, py), as shares of its size, stays where it is.
  function zoomAt(factor, px = 0.5, py = 0.5) {
    const scale = Math.min(Math.max(view.scale * factor, 1), 12);
    const grown = scale / view.scale;
    zoomTo(scale, px - (px - view.x) * grown, py - (py - view.y) * grown);
  }

  const share = (pane, event) => {
    const box = pane.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };

  function follow(pane) {
    const fingers = new Map();
    pane.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, share(pane, event));
      if (view.scale > 1 || fingers.size > 1) pane.setPointerCapture(event.pointerId);
    });
    pane.addEventListener("pointermove", (event) => {
      const at = share(pane, event);
      point(pane, at);
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      fingers.set(event.pointerId, at);
      if (others.length) {
        const [ox, oy] = others[0];
        const far = Math.hypot(at[0] - ox, at[1] - oy);
        const was = Math.hypot(before[0] - ox, before[1] - oy);
        if (was > 0) zoomAt(far / was, (at[0] + ox) / 2, (at[1] + oy) / 2);
      } else if (view.scale > 1) {
        zoomTo(view.scale, view.x + at[0] - before[0], view.y + at[1] - before[1]);
      }
    });
    for (const end of ["pointerup", "pointercancel"]) {
      pane.addEventListener(end, (event) => fingers.delete(event.pointerId));
    }
    pane.addEventListener("pointerleave", (event) => {
      if (!pane.hasPointerCapture(event.pointerId)) fingers.delete(event.pointerId);
      for (const { cross } of sides) cross.hidden = true;
    });
    pane.addEventListener("dblclick", (event) => {
      if (view.scale > 1) zoomTo(1, 0, 0);
      else zoomAt(3, ...share(pane, event));
    });
    pane.addEventListener("wheel", (event) => {
      if (!wide.matches && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...share(pane, event));
    }, { passive: false });
  }

  // The place under the pointer is marked in the other image.
  function point(pane, [x, y]) {
    for (const side of sides) {
      side.cross.hidden = side.pane === pane || stage.classList.contains("flicker");
      side.cross.style.left = `${100 * x}%`;
      side.cross.style.top = `${100 * y}%`;
    }
  }

  const swap = () => stage.classList.toggle("second");

  function run(on) {
    clearInterval(clock);
    clock = on ? setInterval(swap, 700) : null;  // below the three flashes a second of WCAG 2.3.1
    press($("run"), on);
  }

  function flicker(on) {
    stage.classList.toggle("flicker", on);
    stage.classList.toggle("second", on);
    $("swapping").hidden = !on;
    press($("flicker"), on);
    press($("side"), !on);
    run(on && !still.matches);
  }

  function swapByHand() {
    if (!stage.classList.contains("flicker")) flicker(true);
    run(false);
    swap();
    tell(stage.classList.contains("second") ? $("right-words").textContent : $("left-words").textContent);
  }

  // ---- note

  let noteOf = null;
  let noteWas = "";

  function closeNote() {
    if (noteOf === null) return;
    const id = noteOf;
    noteOf = null;
    const to = said(id).note || "";
    if (to !== noteWas) {
      state.undo.push({ id, field: "note", from: noteWas, to });
      state.redo = [];
      save();
      show();
    }
  }

  // ---- export and return

  const rows = () => items.map(({ id }) => {
    const { valid = null, ac = null, ef = null, note = null } = said(id);
    const asked = valid === "yes" && after(byId.get(id));
    return { id, valid, ac: asked && ac ? Number(ac) : null, ef: asked && ef ? Number(ef) : null, note };
  });

  const asJson = () => JSON.stringify({ format: DATA.format, form, annotator, rows: rows() }, null, 1) + "\n";

  function asCsv() {
    const cell = (value) => {
      let text = value === null ? "" : String(value);
      if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`;
      return /[",;\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const names = ["form", "annotator", "id", ...FIELDS];
    const lines = rows().map((row) => names.map((name) => cell({ form, annotator, ...row }[name])).join(","));
    return "\ufeff" + [names.join(","), ...lines].join("\r\n") + "\r\n";
  }

  function download(ending, mime, text) {
    closeNote();
    const link = element("a", "", { download: `edct-annotation.${form}.${annotator}.${ending}` });
    link.href = URL.createObjectURL(new Blob([text()], { type: mime }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    state.exported = state.changes;
    save();
    showExport();
    tell(`Exported as ${ending}`);
  }

  function showExport() {
    const done = items.filter(({ id }) => judged(id)).length;
    const half = items.filter(({ id }) => !judged(id) && begun(id)).length;
    const parts = [`${done} of ${N} edits are judged`];
    if (half) parts.push(`${half} begun`);
    const news = state.changes - state.exported;
    $("export-state").textContent = `${parts.join(", ")}. ` + (
      !state.changes ? "" : news ? `Changes since the last export: ${news}.` : "All of it is exported."
    );
    $("erase").textContent = "Erase all answers here";
    delete $("erase").dataset.sure;
  }

  function openExport() {
    closeNote();
    showExport();
    $("export").showModal();
  }

  function take(text) {
    const given = JSON.parse(text);
    if (given.format !== DATA.format || given.form !== form) throw new Error("it is of another form");
    if (given.annotator !== annotator) throw new Error(`it is by ${String(given.annotator)}`);
    let n = 0;
    for (const row of given.rows) {
      if (!byId.has(row.id)) throw new Error("it names an edit that is not in this form");
      for (const field of FIELDS) {
        const value = row[field] === null || row[field] === undefined ? "" : String(row[field]);
        const from = said(row.id)[field] || "";
        if (!value || value === from) continue;
        put(row.id, field, value);
        state.undo.push({ id: row.id, field, from, to: value });
        n += 1;
      }
    }
    state.redo = [];
    return n;
  }

  async function resume(file) {
    try {
      const n = take(await file.text());
      save();
      show(true);
      showExport();
      $("export-state").textContent += ` ${n} answers taken over; Undo takes them back.`;
    } catch (error) {
      $("export-state").textContent = `This file can’t be used: ${error.message}.`;
    }
    $("resume").value = "";
  }

  function erase() {
    if (!$("erase").dataset.sure) {
      $("erase").dataset.sure = "asked";
      $("erase").textContent = "Really erase? There is no way back";
      return;
    }
    state = fresh();
    save();
    show(true);
    showExport();
    $("export-state").textContent = "All answers were erased from this device.";
  }

  // ---- all edits

  function openList() {
    closeNote();
    $("cells").replaceChildren(...items.map(({ id }, i) => {
      const [kind, words] = judged(id) ? ["done", "judged"] : begun(id) ? ["begun", "begun"] : ["", "open"];
      const sign = { done: `✓ ${i + 1}`, begun: `${i + 1} …` }[kind] || String(i + 1);
      const button = element("button", sign, { type: "button", class: kind, "aria-label": `Edit ${i + 1}: ${words}` });
      if (i === state.at) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => { $("list").close(); go(i); });
      return button;
    }));
    $("list").showModal();
  }

  // ---- hands

  const on = (id, act) => $(id).addEventListener("click", act);
  on("undo", () => travel(true));
  on("redo", () => travel(false));
  on("previous", () => go(state.at - 1));
  on("next", next);
  on("open-list", openList);
  on("open-guide", () => $("guide").showModal());
  on("open-export", openExport);
  on("close-guide", () => $("guide").close());
  on("close-list", () => $("list").close());
  on("close-export", () => $("export").close());
  on("next-open", () => { $("list").close(); next(); });
  on("side", () => flicker(false));
  on("flicker", () => flicker(true));
  on("swap", swapByHand);
  on("run", () => run(clock === null));
  on("against-before", () => compareWith("before"));
  on("against-original", () => compareWith("original"));
  on("in", () => zoomAt(1.5));
  on("out", () => zoomAt(1 / 1.5));
  on("fit", () => zoomTo(1, 0, 0));
  on("save-json", () => download("json", "application/json", asJson));
  on("save-csv", () => download("csv", "text/csv", asCsv));
  on("erase", erase);
  $("resume").addEventListener("change", () => { if ($("resume").files[0]) resume($("resume").files[0]); });
  $("use-keys").addEventListener("change", () => { state.keys = $("use-keys").checked; save(); });
  for (const group of document.querySelectorAll("[data-field]")) {
    for (const button of group.children) {
      button.addEventListener("click", () => choose(group.dataset.field, button.dataset.value));
    }
  }

  function choose(field, value) {
    const { id } = item();
    if (field !== "valid" && (said(id).valid !== "yes" || !after(item()))) {
      tell("First say whether the edit is valid");
      return;
    }
    const taken = said(id)[field] === value;
    answer(id, field, taken ? "" : value);
    tell(taken ? "Taken back" : "");
  }

  $("note").addEventListener("focus", () => { noteOf = item().id; noteWas = said(noteOf).note || ""; });
  $("note").addEventListener("blur", closeNote);
  $("note").addEventListener("input", () => {
    put(item().id, "note", $("note").value.trim());
    save();
    show();
  });

  for (const { pane, image } of sides) {
    follow(pane);
    image.addEventListener("load", () => {
      stage.style.setProperty("--ratio", image.naturalWidth / image.naturalHeight);
    });
    image.addEventListener("error", () => alarm("This browser can’t show the images. Use a current Firefox, Chrome, Edge or Safari."));
  }

  const KEYS = {
    y: () => choose("valid", "yes"), n: () => choose("valid", "no"), c: () => choose("valid", "cant_tell"),
    1: () => choose("ac", "1"), 2: () => choose("ac", "0"),
    3: () => choose("ef", "1"), 4: () => choose("ef", "0"),
    ArrowRight: next, ArrowLeft: () => go(state.at - 1),
    f: () => flicker(!stage.classList.contains("flicker")), " ": swapByHand,
    b: () => compareWith(against === "before" ? "original" : "before"),
    "+": () => zoomAt(1.5), "=": () => zoomAt(1.5), "-": () => zoomAt(1 / 1.5), 0: () => zoomTo(1, 0, 0),
    u: () => travel(true), U: () => travel(false),
    m: () => $("note").focus(), o: openList, e: openExport, "?": () => $("guide").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (target === $("note")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (document.querySelector("dialog[open]") || target.matches("input")) return;
    const command = event.ctrlKey || event.metaKey;
    if (command && event.key.toLowerCase() === "z") {
      event.preventDefault();
      travel(!event.shiftKey);
      return;
    }
    if (command || event.altKey || !state.keys) return;
    if (event.key === " " && target.matches("button")) return;
    const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
    if (!act) return;
    event.preventDefault();
    act();
  });

  // Another tab with this form: the later answer counts, and neither tab overwrites the other's.
  window.addEventListener("storage", (event) => {
    if (event.key !== KEY || !event.newValue) return;
    const at = state.at;
    try {
      state = sound(JSON.parse(event.newValue));
    } catch {
      return;
    }
    state.at = at;
    noteOf = null;
    showSaved();
    show(true);
    tell("This form was changed in another tab: its answers are shown here");
  });

  window.addEventListener("beforeunload", (event) => {
    if (!kept && state.changes !== state.exported) event.preventDefault();
  });
  window.addEventListener("pagehide", closeNote);

  load();
  $("use-keys").checked = state.keys;
  if (!storage) kept = false;
  const first = !state.changes;
  showSaved();
  show(true);
  if (first) $("guide").showModal();
})();
