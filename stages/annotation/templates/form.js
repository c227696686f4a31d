"use strict";
// The page: one edit at a time, its texts and images, the answers, and the ways around.

(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const { items, form, annotator } = data;
  const N = items.length;
  const WORDS = { valid: "validity", ac: "the answer", ef: "the explanation", note: "the note" };
  const wide = matchMedia("(min-width: 62.01rem)");

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

  const answers = makeAnswers(data, {
    onSaved: showSaved,
    onForeign: () => {
      noteOf = null;
      showSaved();
      show(true);
      tell("This form was changed in another tab: its answers are shown here");
    },
  });
  const viewer = makeViewer({
    stage: $("stage"),
    scaleWords: $("scale"),
    wheelZooms: () => wide.matches,
    onError: () => alarm("This browser can’t show the images. Use a current Firefox, Chrome, Edge or Safari."),
    onFlicker: (on, runs) => {
      $("swapping").hidden = !on;
      press($("flicker"), on);
      press($("side"), !on);
      press($("run"), runs);
    },
  });

  const item = () => items[answers.state.at];
  const doneCount = () => items.filter(({ id }) => answers.judged(id)).length;

  // ---- what is shown

  function showSaved() {
    const any = answers.state.changes > 0;
    $("saved").className = `saved ${answers.kept ? (any ? "ok" : "") : "failed"}`;
    $("saved").textContent = !answers.kept ? "Not saved"
      : !any ? "Nothing to save yet"
      : answers.news ? "Saved on this device" : "Saved here, and exported";
    if (!answers.kept) alarm("This browser keeps no answers of this page. Export them before you close it.");
  }

  function showEdits(edits) {
    $("edits").replaceChildren(...edits.map((edit, i) => {
      const last = i === edits.length - 1;
      const row = element("li", "", last ? { class: "now" } : {});
      const which = edits.length > 1 ? `Edit ${i + 1}` : "Edit";
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

  function showTexts(one) {
    $("number").textContent = `Edit ${answers.state.at + 1} of ${N}`;
    $("question").textContent = one.question;
    $("context").hidden = !one.context;
    $("context-words").textContent = one.context;
    $("old-answer").textContent = one.answer;
    $("old-explanation").textContent = one.explanation;
    $("note").value = answers.said(one.id).note || "";
    showEdits(one.edits);
    $("against").hidden = one.images.before === one.images.original;
    against = "before";
    showImages();
    viewer.fit();
    $("panel").scrollTop = 0;
    if (!wide.matches) window.scrollTo(0, 0);
  }

  function showAfter(id) {
    const { valid } = answers.said(id);
    const words = valid === "yes" ? answers.after(id) : null;
    $("after").hidden = !words;
    $("new-answer").textContent = words ? words.answer : "";
    $("new-explanation").textContent = words ? words.explanation : "";
    $("nothing").hidden = !valid || Boolean(words);
    $("nothing").textContent = valid === "yes"
      ? "There is no new answer to this image. Nothing more to judge here."
      : "Nothing more to judge here.";
  }

  function show(moved = false) {
    const { id } = item();
    const said = answers.said(id);
    if (moved) showTexts(item());
    showAfter(id);
    for (const group of document.querySelectorAll("[data-field]")) {
      for (const button of group.children) press(button, button.dataset.value === said[group.dataset.field]);
    }
    if (document.activeElement !== $("note")) $("note").value = said.note || "";
    const { at, undo, redo } = answers.state;
    const done = doneCount();
    $("bar").value = done;
    $("count").textContent = `${done} of ${N} judged`;
    $("undo").disabled = !undo.length;
    $("redo").disabled = !redo.length;
    $("previous").disabled = at === 0;
    $("next").textContent = done === N ? "Export →" : at === N - 1 ? "Next open →" : "Next →";
    $("next").classList.toggle("ready", answers.judged(id));
    $("place").textContent = `${at + 1} / ${N}`;
  }

  let against = "before";

  function source(name) {
    const held = document.querySelector(`[data-image="${name}"]`);
    return `data:${held.dataset.mime};base64,${held.textContent}`;
  }

  function showImages() {
    const { images } = item();
    const first = images.before === images.original;
    const words = against === "original" ? "Original, before any edit"
      : first ? "Original, before the edit" : "Before this edit";
    const after = first ? "After the edit" : "After this edit";
    $("left-words").textContent = words;
    $("right-words").textContent = after;
    viewer.show({ source: source(images[against]), words }, { source: source(images.edited), words: after });
    press($("against-before"), against === "before");
    press($("against-original"), against === "original");
    const following = items[answers.state.at + 1];
    if (following) for (const kind of ["before", "edited"]) new Image().src = source(following.images[kind]);
  }

  function compareWith(kind) {
    if ($("against").hidden) return;
    against = kind;
    showImages();
    tell($("left-words").textContent);
  }

  function swap() {
    viewer.swap();
    tell($(viewer.second() ? "right-words" : "left-words").textContent);
  }

  // ---- ways around

  function go(at) {
    if (at < 0 || at >= N) return;
    closeNote();
    answers.state.at = at;
    answers.save();
    show(true);
    tell(`Edit ${at + 1} of ${N}`);
  }

  function next() {
    const { at } = answers.state;
    const following = [...Array(N).keys()].map((i) => (at + 1 + i) % N);
    const open = following.find((i) => !answers.judged(items[i].id));
    if (open === undefined) openExport();
    else go(at === N - 1 ? open : at + 1);
  }

  function nextOpen() {
    const { at } = answers.state;
    const open = [...Array(N).keys()].map((i) => (at + 1 + i) % N).find((i) => !answers.judged(items[i].id));
    $("list").close();
    if (open === undefined) openExport();
    else go(open);
  }

  function openList() {
    closeNote();
    $("cells").replaceChildren(...items.map(({ id }, i) => {
      const [kind, words] = answers.judged(id) ? ["done", "judged"] : answers.begun(id) ? ["begun", "begun"] : ["", "open"];
      const sign = { done: `✓ ${i + 1}`, begun: `${i + 1} …` }[kind] || String(i + 1);
      const button = element("button", sign, { type: "button", class: kind, "aria-label": `Edit ${i + 1}: ${words}` });
      if (i === answers.state.at) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => { $("list").close(); go(i); });
      return button;
    }));
    $("list").showModal();
  }

  // ---- answers

  function choose(field, value) {
    const { id } = item();
    if (field !== "valid" && $("after").hidden) {
      tell("First say whether the edit is valid");
      return;
    }
    const taken = answers.said(id)[field] === value;
    answers.answer(id, field, taken ? "" : value);
    show();
    tell(taken ? "Taken back" : "");
    if (field === "valid" && !taken) {
      ($("after").hidden ? $("nothing") : $("after")).scrollIntoView({ block: "nearest" });
    }
  }

  function travel(back) {
    closeNote();
    const { at } = answers.state;
    const step = answers.travel(back);
    if (!step) return;
    show(answers.state.at !== at);
    tell(`${back ? "Undone" : "Done again"}: ${WORDS[step.field]} of edit ${answers.state.at + 1}`);
  }

  let noteOf = null;
  let noteWas = "";

  // A note is saved at every key, and is one step to take back.
  function closeNote() {
    if (noteOf === null) return;
    const id = noteOf;
    noteOf = null;
    const to = answers.said(id).note || "";
    if (to === noteWas) return;
    answers.remember(id, "note", noteWas, to);
    answers.save();
    show();
  }

  // ---- export and return

  function download(ending, mime, text) {
    closeNote();
    const link = element("a", "", { download: `edct-annotation.${form}.${annotator}.${ending}` });
    link.href = URL.createObjectURL(new Blob([text()], { type: mime }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    answers.exported();
    showExport();
    tell(`Exported as ${ending}`);
  }

  function showExport() {
    const half = items.filter(({ id }) => !answers.judged(id) && answers.begun(id)).length;
    const parts = [`${doneCount()} of ${N} edits are judged`];
    if (half) parts.push(`${half} begun`);
    $("export-state").textContent = `${parts.join(", ")}. ` + (
      !answers.state.changes ? ""
        : answers.news ? `Changes since the last export: ${answers.news}.` : "All of it is exported."
    );
    $("erase").textContent = "Erase all answers here";
    delete $("erase").dataset.sure;
  }

  function openExport() {
    closeNote();
    showExport();
    $("export").showModal();
  }

  async function resume(file) {
    try {
      const n = answers.take(await file.text());
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
    answers.erase();
    show(true);
    showExport();
    $("export-state").textContent = "All answers were erased from this device.";
  }

  // ---- hands

  const on = (id, act) => $(id).addEventListener("click", act);
  on("undo", () => travel(true));
  on("redo", () => travel(false));
  on("previous", () => go(answers.state.at - 1));
  on("next", next);
  on("open-list", openList);
  on("open-guide", () => $("guide").showModal());
  on("open-export", openExport);
  for (const name of ["guide", "list", "export"]) on(`close-${name}`, () => $(name).close());
  on("next-open", nextOpen);
  on("side", () => viewer.flicker(false));
  on("flicker", () => viewer.flicker(true));
  on("swap", swap);
  on("run", viewer.run);
  on("against-before", () => compareWith("before"));
  on("against-original", () => compareWith("original"));
  on("in", () => viewer.zoomAt(1.5));
  on("out", () => viewer.zoomAt(1 / 1.5));
  on("fit", viewer.fit);
  on("save-json", () => download("json", "application/json", answers.asJson));
  on("save-csv", () => download("csv", "text/csv", answers.asCsv));
  on("erase", erase);
  $("resume").addEventListener("change", () => { if ($("resume").files[0]) resume($("resume").files[0]); });
  $("use-keys").addEventListener("change", () => { answers.state.keys = $("use-keys").checked; answers.save(); });
  for (const group of document.querySelectorAll("[data-field]")) {
    for (const button of group.children) {
      button.addEventListener("click", () => choose(group.dataset.field, button.dataset.value));
    }
  }
  $("note").addEventListener("focus", () => { noteOf = item().id; noteWas = answers.said(noteOf).note || ""; });
  $("note").addEventListener("blur", closeNote);
  $("note").addEventListener("input", () => {
    answers.put(item().id, "note", $("note").value.trim());
    answers.save();
    show();
  });

  const KEYS = {
    y: () => choose("valid", "yes"), n: () => choose("valid", "no"), c: () => choose("valid", "cant_tell"),
    1: () => choose("ac", "1"), 2: () => choose("ac", "0"),
    3: () => choose("ef", "1"), 4: () => choose("ef", "0"),
    ArrowRight: next, ArrowLeft: () => go(answers.state.at - 1),
    f: () => viewer.flicker(!viewer.flickers()), " ": swap,
    b: () => compareWith(against === "before" ? "original" : "before"),
    "+": () => viewer.zoomAt(1.5), "=": () => viewer.zoomAt(1.5), "-": () => viewer.zoomAt(1 / 1.5), 0: viewer.fit,
    u: () => travel(true), U: () => travel(false),
    m: () => $("note").focus(), o: openList, e: openExport, "?": () => $("guide").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (target === $("note")) {
      if (key === "Escape") target.blur();
      return;
    }
    if (document.querySelector("dialog[open]") || target.matches("input")) return;
    const command = event.ctrlKey || event.metaKey;
    if (command && key.toLowerCase() === "z") {
      event.preventDefault();
      travel(!event.shiftKey);
      return;
    }
    if (command || event.altKey || !answers.state.keys) return;
    if (key === " " && target.matches("button")) return;
    if (!Object.hasOwn(KEYS, key)) return;
    event.preventDefault();
    KEYS[key]();
  });

  window.addEventListener("beforeunload", (event) => {
    if (!answers.kept && answers.news) event.preventDefault();
  });
  window.addEventListener("pagehide", closeNote);

  $("use-keys").checked = answers.state.keys;
  showSaved();
  show(true);
  if (!answers.state.changes) $("guide").showModal();
})();
