// Finds the name that a misspelt name probably means. The build and the plugin use it.

/** The number of letters to add, remove or change to turn one word into the other. */
export function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [y, letter] of [...one].entries()) {
    const next = [y + 1];
    for (let x = 0; x < other.length; x++) {
      next.push(Math.min(next[x] + 1, row[x + 1] + 1, row[x] + (letter === other[x] ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1);
}

const plain = (name) => name.replaceAll("_", "").toLowerCase();

/** Whether a name is probably a misspelling of a known name. */
export function isMeant(written, known) {
  const [one, other] = [plain(written), plain(known)];
  return one === other || distance(one, other) <= (other.length >= 5) + (other.length >= 8);
}

/** The known name that a name probably means: the nearest one, or one that it contains, as waitMilliseconds contains wait. */
export function nearest(written, known) {
  const alike = known.filter((name) => isMeant(written, name));
  const [near] = alike.sort((one, other) => distance(written, one) - distance(written, other));
  return near ?? known.find((name) => plain(written).includes(plain(name)));
}
