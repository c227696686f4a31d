"use strict";
// Two images, one view: side by side or alternating in place, zoomed and moved together.

function makeViewer({ stage, scaleWords, wheelZooms, onError, onFlicker }) {
  const LARGEST = 12;
  let view = { scale: 1, x: 0, y: 0 };
  let clock = null;
  const sides = ["left", "right"].map((name) => {
    const figure = document.getElementById(name);
    return { figure, pane: figure.querySelector(".pane"), image: figure.querySelector("img"), cross: figure.querySelector(".cross") };
  });

  // Moves by shares of the pane's size, so that both panes agree whatever their size is.
  function zoomTo(scale, x, y) {
    scale = Math.min(Math.max(scale, 1), LARGEST);
    const inside = (value) => Math.min(0, Math.max(1 - scale, value));
    view = { scale, x: inside(x), y: inside(y) };
    for (const { image } of sides) {
      image.style.transform = `translate(${100 * view.x}%, ${100 * view.y}%) scale(${scale})`;
    }
    stage.classList.toggle("near", scale > 1);
    stage.classList.toggle("pixels", scale >= 5);
    scaleWords.textContent = `${Math.round(100 * scale)} %`;
  }

  // The point of the pane at (px, py) stays where it is.
  function zoomAt(factor, px = 0.5, py = 0.5) {
    const scale = Math.min(Math.max(view.scale * factor, 1), LARGEST);
    const grown = scale / view.scale;
    zoomTo(scale, px - (px - view.x) * grown, py - (py - view.y) * grown);
  }

  const fit = () => zoomTo(1, 0, 0);

  function share(pane, event) {
    const box = pane.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  // The place under the pointer is marked in the other image.
  function point(pane, [x, y]) {
    for (const side of sides) {
      side.cross.hidden = side.pane === pane || stage.classList.contains("flicker");
      side.cross.style.left = `${100 * x}%`;
      side.cross.style.top = `${100 * y}%`;
    }
  }

  function follow(pane) {
    const fingers = new Map();
    pane.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, share(pane, event));
      if (view.scale > 1 || fingers.size > 1) pane.setPointerCapture(event.pointerId);
    });
    pane.addEventListener("pointermove", (event) => {
      const at = share(pane, event);
      if (event.pointerType === "mouse") point(pane, at);
      const before = fingers.get(event.pointerId);
      if (!before) return;
      fingers.set(event.pointerId, at);
      const other = [...fingers].find(([id]) => id !== event.pointerId);
      if (other) {
        const [ox, oy] = other[1];
        const was = Math.hypot(before[0] - ox, before[1] - oy);
        const now = Math.hypot(at[0] - ox, at[1] - oy);
        if (was > 0) zoomAt(now / was, (at[0] + ox) / 2, (at[1] + oy) / 2);
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
      if (view.scale > 1) fit();
      else zoomAt(3, ...share(pane, event));
    });
    pane.addEventListener("wheel", (event) => {
      if (!wheelZooms() && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...share(pane, event));
    }, { passive: false });
  }

  for (const { pane, image } of sides) {
    follow(pane);
    image.addEventListener("load", () => {
      stage.style.setProperty("--ratio", image.naturalWidth / image.naturalHeight);
    });
    image.addEventListener("error", onError);
  }

  const flickers = () => stage.classList.contains("flicker");
  const second = () => stage.classList.contains("second");
  const swap = () => stage.classList.toggle("second");

  function run(on) {
    clearInterval(clock);
    clock = on ? setInterval(swap, 700) : null;  // below the three flashes a second of WCAG 2.3.1
    onFlicker(flickers(), on);
  }

  function flicker(on) {
    stage.classList.toggle("flicker", on);
    stage.classList.toggle("second", on);
    run(on && !matchMedia("(prefers-reduced-motion: reduce)").matches);
  }

  return {
    zoomAt, fit, flicker, flickers, second,
    run: () => run(clock === null),
    swap: () => { if (!flickers()) flicker(true); run(false); swap(); },
    show: (...shown) => shown.forEach(({ source, words }, i) => {
      sides[i].image.src = source;
      sides[i].image.alt = words;
    }),
  };
}
