// {{name}}: a pod with the label `example.com/approval: wanted` waits at Permit, and is bound after this approval:
//
//     kubectl label --overwrite pod web example.com/approval=given
//
// If the value is `denied`, or after the timeout, the pod is rejected. The operator must grant the effect `wait`.

import { type Plugin, Refusal, effects, on, rejectUnresolvable } from "berth";

const APPROVAL = "example.com/approval";

let milliseconds = 300_000;

const plugin: Plugin = {
  name: "{{name}}",
  version: "0.1.0",
  // A rejected pod is retried when its labels change.
  eventsToRegister: [on("Pod", "UpdatePodLabel")],

  configure(args) {
    const { seconds = 300, ...others } = args ?? {};
    const isInRange = Number.isInteger(seconds) && seconds >= 1 && seconds <= 900;
    if (!isInRange || Object.keys(others).length > 0) throw new Refusal("seconds: must be a number from 1 to 900");
    milliseconds = 1000 * seconds;
  },

  permit({ namespace, name, labels }) {
    switch (labels.get(APPROVAL)) {
      case "wanted": {
        // Permit is called again when the pod changes.
        const itself = { kind: "v1/Pod", namespace, name };
        return { wait: milliseconds, effects: [effects.wait([itself], milliseconds, "the pod was not approved")] };
      }
      case "denied":
        return rejectUnresolvable("the pod was denied");
      default:
        return null;
    }
  },
};

export default plugin;
