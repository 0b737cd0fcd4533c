// Encodes and decodes UTF-8, because the engine has no TextEncoder.

export const encode = (text) => Uint8Array.from(unescape(encodeURIComponent(text)), (unit) => unit.charCodeAt(0));

/** Decodes the text in pieces, because the engine limits the number of arguments of a call. */
export function decode(bytes) {
  let units = "";
  for (let at = 0; at < bytes.length; at += 4096) units += String.fromCharCode(...bytes.slice(at, at + 4096));
  return decodeURIComponent(escape(units));
}
