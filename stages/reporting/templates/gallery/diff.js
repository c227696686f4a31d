// What changed between two texts, word by word: the longest common subsequence of their words.

const MOST = 4_000_000; // cells of the table; beyond it the differing middle counts as all new

function wordsOf(text) {
  if (typeof Intl.Segmenter === "function") {
    const words = new Intl.Segmenter("en", { granularity: "word" });
    return Array.from(words.segment(text), (part) => part.segment);
  }
  return text.split(/(\s+|[^\p{L}\p{N}\s]+)/u).filter(Boolean);
}

// Two lists of [text, kept]: the first text in its parts, and the second in its own.
function compare(first, second) {
  const a = wordsOf(first), b = wordsOf(second);
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start += 1;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA -= 1; endB -= 1; }
  const keptA = a.map((_, i) => i < start || i >= endA);
  const keptB = b.map((_, i) => i < start || i >= endB);
  const rows = endA - start, columns = endB - start;
  if (rows * columns <= MOST) {
    const longest = new Uint32Array((rows + 1) * (columns + 1));
    const at = (i, j) => i * (columns + 1) + j;
    for (let i = rows - 1; i >= 0; i -= 1) {
      for (let j = columns - 1; j >= 0; j -= 1) {
        longest[at(i, j)] = a[start + i] === b[start + j]
          ? longest[at(i + 1, j + 1)] + 1
          : Math.max(longest[at(i + 1, j)], longest[at(i, j + 1)]);
      }
    }
    for (let i = 0, j = 0; i < rows && j < columns;) {
      if (a[start + i] === b[start + j]) { keptA[start + i++] = true; keptB[start + j++] = true; }
      else if (longest[at(i + 1, j)] >= longest[at(i, j + 1)]) i += 1;
      else j += 1;
    }
  }
  return [runs(a, keptA), runs(b, keptB)];
}

// Neighbours of one kind together. A blank between two changed words belongs to the change.
function runs(words, kept) {
  const hasWord = (text) => /[\p{L}\p{N}]/u.test(text);
  const parts = [];
  words.forEach((word, i) => {
    const last = parts[parts.length - 1];
    if (last && last[1] === kept[i]) last[0] += word;
    else parts.push([word, kept[i]]);
  });
  const out = [];
  parts.forEach(([text, same], i) => {
    const between = i > 0 && i < parts.length - 1;
    const stays = same && (hasWord(text) || !between);
    const last = out[out.length - 1];
    if (last && last[1] === stays) last[0] += text;
    else out.push([text, stays]);
  });
  return out;
}

// Both texts as elements, with what only the first has as <del> and what only the second has as <ins>.
function marked(first, second) {
  const draw = (parts, tag) => {
    const node = said("");
    node.append(...parts.map(([text, kept]) => (kept || !text.trim() ? text : element(tag, {}, text))));
    return node;
  };
  const [before, after] = compare(first, second);
  return [draw(before, "del"), draw(after, "ins")];
}
