// Package plugin is {{name}}: the argument `label` names a label. A pod with this label runs only on nodes with the same
// value of the label. A pod without the label runs on any node.
package plugin

import (
	"bytes"
	"encoding/json"
	"errors"

	"berth"
)

type plugin struct {
	Label string `json:"label"`
}

func init() { berth.Register(&plugin{}) }

func (*plugin) Describe() berth.Manifest {
	return berth.Manifest{
		Name:    "{{name}}",
		Version: "0.1.0",
		Columns: []berth.Column{berth.Labels},
		// The events that may make a rejected pod schedulable.
		EventsToRegister: []berth.Event{{Resource: "Node", Actions: berth.Add | berth.UpdateNodeLabel}},
	}
}

func (plugin *plugin) Configure(args []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if decoder.Decode(plugin) != nil || plugin.Label == "" {
		return errors.New("label: must be the key of a label")
	}
	return nil
}

func (plugin *plugin) Filter(pod *berth.Pod, node *berth.Node) *berth.Rejection {
	wanted, wants := pod.Labels.Get(plugin.Label)
	value, hasLabel := node.Labels.Get(plugin.Label)
	if wants && (!hasLabel || value != wanted) {
		return berth.RejectUnresolvable("node(s) did not have the label " + plugin.Label + "=" + wanted)
	}
	return nil
}
