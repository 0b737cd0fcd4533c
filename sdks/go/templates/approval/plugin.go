// Package plugin is {{name}}: a pod with the label `example.com/approval: wanted` waits at Permit, and is bound after this
// approval:
//
//	kubectl label --overwrite pod web example.com/approval=given
//
// If the value is `denied`, or after the timeout, the pod is rejected. The operator must grant the effect `wait`.
package plugin

import (
	"bytes"
	"encoding/json"
	"errors"

	"berth"
)

const approval = "example.com/approval"

type plugin struct {
	Seconds uint64 `json:"seconds"`
}

func init() { berth.Register(&plugin{Seconds: 300}) }

func (*plugin) Describe() berth.Manifest {
	return berth.Manifest{
		Name:    "{{name}}",
		Version: "0.1.0",
		// A rejected pod is retried when its labels change.
		EventsToRegister: []berth.Event{{Resource: "Pod", Actions: berth.UpdatePodLabel}},
	}
}

func (plugin *plugin) Configure(args []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if decoder.Decode(plugin) != nil || plugin.Seconds < 1 || plugin.Seconds > 900 {
		return errors.New("seconds: must be a number from 1 to 900")
	}
	return nil
}

func (plugin *plugin) Permit(pod *berth.Pod, _ *berth.Node) berth.Verdict {
	milliseconds := 1000 * plugin.Seconds
	answer, _ := pod.Labels.Get(approval)
	switch answer {
	case "wanted":
		// Permit is called again when the pod changes.
		again := berth.WaitFor{
			Objects:      []berth.ObjectRef{{Kind: "v1/Pod", Namespace: pod.Namespace, Name: pod.Name}},
			Milliseconds: milliseconds,
			Message:      "the pod was not approved",
		}
		return berth.Verdict{WaitMilliseconds: milliseconds, Effects: []berth.Effect{again}}
	case "denied":
		return berth.Verdict{Deny: berth.RejectUnresolvable("the pod was denied")}
	}
	return berth.Verdict{}
}
