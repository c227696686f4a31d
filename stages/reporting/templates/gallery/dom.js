// Elements of the page. What a model wrote goes through here and becomes text, never markup.

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, to] of Object.entries(value)) node.style.setProperty(key, to);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// Text of a model: its own reading direction, its own line breaks.
function said(text, tag = "div") {
  return element(tag, { class: "said", dir: "auto" }, text);
}

function chip(text, kind = "na") {
  return element("span", { class: `chip ${kind}` }, text);
}

function thumbnail(photo, alt) {
  if (!photo) return element("span", { class: "thumb none", "aria-hidden": "true" });
  const [, , , src, width, height] = photo;
  return element("img", { class: "thumb", src: `images/${src}`, width, height, alt, loading: "lazy", decoding: "async" });
}

function percent(share, digits = 1) {
  return share === undefined || share === null ? "–" : `${(100 * share).toFixed(digits)} %`;
}

function plural(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}
