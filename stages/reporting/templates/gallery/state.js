// What is shown, kept in the address's fragment so that it can be shared and survives a reload:
// #target=a&target=b&ac=0&q=wheel&sort=r_out&case=0123456789ab

const OWN = new Set(["q", "sort", "case"]);

function readState(hash = location.hash) {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  const chosen = new Map();
  for (const [key, value] of params) {
    if (OWN.has(key)) continue;
    if (!chosen.has(key)) chosen.set(key, new Set());
    chosen.get(key).add(value);
  }
  return { chosen, q: params.get("q") || "", sort: params.get("sort") || "", case: params.get("case") };
}

function writeState(state, { push = false } = {}) {
  const params = new URLSearchParams();
  for (const [key, values] of state.chosen) for (const value of values) params.append(key, value);
  for (const key of OWN) if (state[key]) params.set(key, state[key]);
  const hash = `#${params}`;
  if (hash === (location.hash || "#")) return;
  history[push ? "pushState" : "replaceState"](null, "", hash);
}
