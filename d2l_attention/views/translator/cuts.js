// A cut forbids looks: one cell, a row, a column, a head or a layer of the maps. As text it is
// "place layer head query key", where * stands for any, and for the key "=" for the query's own
// position and "<" for the one before it: "cross 2 * * 3", "decoder * * * <". All count from 0.

const cutText = (cut) => ["place", "layer", "head", "query", "key"].map((at) => cut[at]).join(" ");

function readCut(text) {
  const [place, layer, head, query, key] = text.trim().split(/\s+/);
  return { place, layer, head, query, key };
}

const fits = (wanted, number) => wanted === "*" || Number(wanted) === number;

function forbids(cut, place, layer, head, query, key) {
  if (cut.place !== "*" && cut.place !== place) return false;
  if (!fits(cut.layer, layer) || !fits(cut.head, head) || !fits(cut.query, query)) return false;
  if (cut.key === "=") return key === query;
  if (cut.key === "<") return key === query - 1;
  return fits(cut.key, key);
}

const visibleWith = (cuts) => (place, layer, head, query, key) =>
  !cuts.some((cut) => forbids(cut, place, layer, head, query, key));

// Which words of the second sentence are not in the first, in the same order: true for these.
function changedWords(before, after) {
  const longest = Array.from({ length: before.length + 1 }, () => Array(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      longest[i][j] = before[i] === after[j]
        ? longest[i + 1][j + 1] + 1
        : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const changed = [];
  for (let i = 0, j = 0; j < after.length; ) {
    if (i < before.length && before[i] === after[j]) changed[j++] = !++i;
    else if (i < before.length && longest[i + 1][j] > longest[i][j + 1]) i++;
    else changed[j++] = true;
  }
  return changed;
}

// ---- Words ----

const MOST_WORDS = 24;

// What is typed as the corpus writes it: lower case, no punctuation, contractions written out.
function wordsOf(text) {
  const written = text.toLowerCase().replace(/[’‘]/g, "'").replace(/can't/g, "can not");
  const whole = written.replace(/n't\b/g, " not").replace(/[^a-z0-9\p{L}\p{Extended_Pictographic}]+/gu, " ");
  return whole.trim().split(/\s+/).filter(Boolean);
}

// How many letters must be typed, deleted or replaced to make the one word of the other.
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  [...a].forEach((letter, i) => {
    const next = [i + 1];
    row.slice(1).forEach((above, j) => {
      next.push(Math.min(above + 1, next[j] + 1, row[j] + (letter === b[j] ? 0 : 1)));
    });
    row = next;
  });
  return row.at(-1);
}

const isWord = (token) => !token.startsWith("<");

function nearest(word, vocabulary, count = 3) {
  const known = vocabulary.filter(isWord).map((other) => [distance(word.slice(0, 30), other), other]);
  return known.sort((a, b) => a[0] - b[0]).slice(0, count).map(([, other]) => other);
}

// Why a sentence cannot be translated: { text, word, nearest }, or null.
function problem(words, vocabulary) {
  if (words.length === 0) return { text: "Write an English sentence." };
  if (words.length > MOST_WORDS)
    return { text: `These are ${words.length} words. At most ${MOST_WORDS} fit on the maps.` };
  const word = words.find((each) => !vocabulary.includes(each));
  if (word === undefined) return null;
  const shown = word.length > 30 ? word.slice(0, 29) + "…" : word;
  return { text: `The translator has never read '${shown}'. Words close to it:`, word, nearest: nearest(word, vocabulary) };
}
