// Functions for normalizeColumns. index.d.ts has the documentation.

import { KEPT } from "./columns.js";

/** The scores and the result of each key, in the order of the last use. */
const answers = new Map();

/** Converts an array to a string, because the comparison of strings is much faster than that of elements. */
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

/** The number of arguments in one call. The engine accepts many more. */
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
  // The fraction is cut off before the subtraction, not after it.
  return scores.map((score) => 100 - (((100 * score) / most) | 0));
}
