// Package plugin is {{name}}: it rejects nodes of the zone that the argument `avoid` names, and prefers nodes that are
// not cordoned.
package plugin

import (
	"bytes"
	"encoding/json"
	"errors"

	"berth"
)

const zoneLabel = "topology.kubernetes.io/zone"

type plugin struct {
	Avoid *string `json:"avoid"`
}

func init() { berth.Register(&plugin{}) }

func (*plugin) Describe() berth.Manifest {
	return berth.Manifest{
		Name:    "{{name}}",
		Version: "0.1.0",
		Columns: []berth.Column{berth.Unschedulable, berth.Label(zoneLabel)},
		// The events that may make a rejected pod schedulable. Without this field, the pod is retried after every event.
		EventsToRegister: []berth.Event{{Resource: "Node", Actions: berth.Add | berth.UpdateNodeLabel}},
	}
}

func (plugin *plugin) Configure(args []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if decoder.Decode(plugin) != nil {
		return errors.New("avoid: must be the name of a zone")
	}
	return nil
}

// Filter: can this node run the pod?
func (plugin *plugin) Filter(_ *berth.Pod, node *berth.Node) *berth.Rejection {
	zone, hasZone := node.Labels.Get(zoneLabel)
	if hasZone && plugin.Avoid != nil && zone == *plugin.Avoid {
		return berth.RejectUnresolvable("node(s) were in the zone " + zone)
	}
	return nil
}

// Score: how good is it, from 0 to 100?
func (*plugin) Score(_ *berth.Pod, node *berth.Node) int64 {
	if node.Unschedulable {
		return 0
	}
	return 100
}
