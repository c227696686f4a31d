// The four views of an attempt: photographs with see-through layers over them, and a larger look at each.

function viewsOf(attempt, prefix = "") {
  const { before, after, heat, mask, over, boxes = [], object } = attempt;
  const searched = over === "after" ? after : over === "before" ? before : null;
  return [
    { name: "before", photo: before, alt: `${prefix}Image before the edit`, absent: "no image" },
    { name: "after", photo: after, alt: `${prefix}Image after the edit`, absent: "no image" },
    { name: "changed pixels", photo: heat ? after : null, layer: heat, pale: true, absent: "not measured",
      alt: `${prefix}Heat map of changed pixels over the edited image`, ramp: true },
    { name: "box and mask", photo: searched, layer: mask, boxes, absent: "nothing found",
      alt: `${prefix}Box and mask of ${object} over the image ${over === "after" ? "after" : "before"} the edit`,
      note: `of “${object}”` },
  ];
}

function stack(view, { lazy = true } = {}) {
  const [src, width, height, , , , fullWidth, fullHeight] = view.photo;
  const loading = lazy ? "lazy" : "eager";
  const box = (kind, [x0, y0, x1, y1]) => drawn("rect", { class: kind, x: x0, y: y0, width: x1 - x0, height: y1 - y0 });
  return element("span", { class: "stack" },
    element("img", { class: view.pale ? "pale" : null, src: `images/${src}`, width, height, alt: view.alt, loading, decoding: "async" }),
    view.layer && element("img", { class: "layer", src: `images/${view.layer}`, width, height, alt: "", loading, decoding: "async" }),
    view.boxes?.length && drawn("svg", { viewBox: `0 0 ${fullWidth} ${fullHeight}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      view.boxes.map((at) => [box("under", at), box("over", at)])),
  );
}

function caption(view) {
  return [
    view.name, view.note && element("span", { class: "said" }, ` ${view.note}`),
    view.ramp && element("span", { class: "ramp", "aria-hidden": "true" }, element("i"), "more"),
  ];
}

function figures(attempt, prefix) {
  const views = viewsOf(attempt, prefix);
  const there = views.filter((view) => view.photo);
  return element("div", { class: "views" }, views.map((view) => element("figure", {},
    view.photo
      ? element("button", { type: "button", class: "zoom", "aria-label": `Enlarge. ${view.alt}`,
          onclick: () => lookAt(there, there.indexOf(view)) }, stack(view))
      : element("div", { class: "absent" }, view.absent),
    element("figcaption", {}, caption(view)),
  )));
}

// One view as large as the window; the arrows turn to the others, so that before and after can be flicked.
function lookAt(views, at) {
  const dialog = document.getElementById("look");
  const show = (index) => {
    at = (index + views.length) % views.length;
    const view = views[at];
    const [, width, height] = view.photo;
    dialog.style.setProperty("--ratio", width / height);
    dialog.querySelector(".place").replaceChildren(stack(view, { lazy: false }));
    dialog.querySelector(".of").replaceChildren(...caption(view).flat().filter(Boolean), ` · ${at + 1} of ${views.length}`);
  };
  dialog.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, j: 1, k: -1 }[event.key];
    if (by === undefined) return;
    show(at + by);
    event.preventDefault();
  };
  dialog.querySelector(".turn").onclick = () => show(at + 1);
  dialog.querySelector(".place").onclick = () => show(at + 1);
  show(at);
  dialog.showModal();
}
