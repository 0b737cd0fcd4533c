// Package plugin is {{name}}: it prefers nodes with a lower load. A monitor writes the load as a number from 0 to 100 into an
// annotation:
//
//	kubectl annotate --overwrite node node-00001 example.com/load=35
package plugin

import (
	"strconv"

	"berth"
)

const metric = "example.com/load"

type plugin struct{}

func init() { berth.Register(&plugin{}) }

func (*plugin) Describe() berth.Manifest {
	return berth.Manifest{
		Name:    "{{name}}",
		Version: "0.1.0",
		Columns: []berth.Column{berth.Annotation(metric)},
	}
}

// Score returns 0 to 100, because the plugin has no Normalize.
func (*plugin) Score(_ *berth.Pod, node *berth.Node) int64 { return 100 - loadOf(node) }

// loadOf returns the load of a node, from 0 to 100. A node without a number has the load 100.
func loadOf(node *berth.Node) int64 {
	text, isThere := node.Annotations.Get(metric)
	if !isThere {
		return 100
	}
	load, err := strconv.ParseUint(text, 10, 32)
	if err != nil || load > 100 {
		return 100
	}
	return int64(load)
}
