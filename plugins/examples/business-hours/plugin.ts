// BusinessHours: pods with the label `example.com/run` run in business hours alone, or outside of them alone.

import { type Plugin, Refusal, now, reject } from "berth";

const LABEL = "example.com/run";
const MINUTE = 60_000;

/** Minutes from midnight, minutes east of UTC, and days of the week; 0 is Sunday. */
let hours = { from: 9 * 60, to: 17 * 60, utcOffset: 0, days: [1, 2, 3, 4, 5] };

function minutesOf(value: unknown, argument: string): number {
  const [, hour, minute] = (typeof value === "string" && /^(\d\d):([0-5]\d)$/.exec(value)) || [];
  if (hour === undefined || Number(hour) > 24) throw new Refusal(`${argument}: must be a time of day such as "09:00"`);
  return 60 * Number(hour) + Number(minute);
}

function isOpen(milliseconds: number): boolean {
  // The UTC fields of a time that is moved by the offset are those of the place.
  const there = new Date(milliseconds + hours.utcOffset * MINUTE);
  const minute = 60 * there.getUTCHours() + there.getUTCMinutes();
  return hours.days.includes(there.getUTCDay()) && hours.from <= minute && minute < hours.to;
}

const plugin: Plugin = {
  name: "BusinessHours",
  version: "0.1.0",

  configure(args) {
    const { from = "09:00", to = "17:00", utcOffsetMinutes = 0, days = [1, 2, 3, 4, 5], ...unknown } = args ?? {};
    if (!Number.isInteger(utcOffsetMinutes)) throw new Refusal("utcOffsetMinutes: must be a number of minutes east of UTC");
    if (!Array.isArray(days) || !days.every((day) => Number.isInteger(day) && 0 <= day && day <= 6)) {
      throw new Refusal("days: must be days of the week, 0 for Sunday to 6 for Saturday");
    }
    for (const name in unknown) throw new Refusal(`${name}: there is no such argument`);
    hours = { from: minutesOf(from, "from"), to: minutesOf(to, "to"), utcOffset: utcOffsetMinutes, days };
    if (hours.from >= hours.to) throw new Refusal("from: must be before to");
  },

  permit(pod) {
    const when = pod.labels.get(LABEL);
    if (when === "business-hours" && !isOpen(now())) return { reject: reject("waiting for business hours") };
    if (when === "off-hours" && isOpen(now())) return { reject: reject("waiting for the end of business hours") };
    return null;
  },

  explain(pod, node) {
    const when = pod.labels.get(LABEL);
    if (node !== null || (when !== "business-hours" && when !== "off-hours")) return "";
    return `its label ${LABEL} is ${when}, and business hours are ${isOpen(now()) ? "now" : "over"}`;
  },
};

export default plugin;
