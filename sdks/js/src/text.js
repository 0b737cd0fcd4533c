// UTF-8. The engine has no TextEncoder.

export const encode = (text) => Uint8Array.from(unescape(encodeURIComponent(text)), (unit) => unit.charCodeAt(0));

/** Piece by piece: a call takes so many arguments and no more. */
export function decode(bytes) {
  let units = "";
  for (let at = 0; at < bytes.length; at += 4096) units += String.fromCharCode(...bytes.slice(at, at + 4096));
  return decodeURIComponent(escape(units));
}
