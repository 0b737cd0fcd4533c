// What helps normalizeColumns. index.d.ts has the documentation.

import { KEPT } from "./columns.js";

/** What was worked out for the scores of a key, in the order of use. */
const answers = new Map();

/** Two arrays are compared far faster as strings than element by element. */
const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength).toHex();

export function kept(key, scores, normalize) {
  const given = bytesOf(scores);
  let answer = answers.get(key);
  answers.delete(key);
  if (answer?.given !== given) answer = { given, normalized: new Float64Array(normalize(scores)) };
  answers.set(key, answer);
  if (answers.size > KEPT) answers.delete(answers.keys().next().value);
  return answer.normalized;
}

/** Far below the number of arguments that the engine takes. */
const PART = 4096;

function highest(scores) {
  let most = 0;
  for (let at = 0; at < scores.length; at += PART) {
    most = Math.max(most, Math.max.apply(null, scores.subarray(at, at + PART)));
  }
  return most;
}

export function defaultNormalize(scores, reverse = false) {
  const most = highest(scores);
  if (most === 0) return reverse ? scores.map(() => 100) : scores;
  if (!reverse) return scores.map((score) => (100 * score) / most);
  // A fraction is cut off of what is taken away, not of what is left.
  return scores.map((score) => 100 - (((100 * score) / most) | 0));
}
