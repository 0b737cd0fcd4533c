// Package answer has the fields of a WhatIfAnswer that an autoscaler needs.
package answer

import (
	"encoding/json"
	"fmt"
)

// Answer says for each node group how many nodes it needs, and which pods stay pending all the same.
type Answer struct {
	NodeGroups []struct {
		Name    string
		Nodes   int
		Placed  int
		Pending []json.RawMessage
	}
}

// Print writes a line for each node group.
func (answer Answer) Print() {
	for _, group := range answer.NodeGroups {
		fmt.Printf("%s: %d of %d pods on %d nodes\n", group.Name, group.Placed, group.Placed+len(group.Pending), group.Nodes)
	}
}
