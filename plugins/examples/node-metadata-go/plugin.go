// Package nodemetadata is a plugin that prefers nodes by the integer in one of their labels, and can require that label.
package nodemetadata

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"berth"
)

// Lower than the score of any 32-bit value.
const noValue = math.MinInt32 - 1

type nodeMetadata struct {
	key        string
	sign       int64
	isRequired bool
}

func init() { berth.Register(&nodeMetadata{}) }

func (*nodeMetadata) Describe() berth.Manifest {
	return berth.Manifest{Name: "NodeMetadata", Version: "0.1.0", Columns: []berth.Column{berth.Labels}}
}

// Configure takes key (required), order ("ascending", the default: higher values score higher; or "descending"), and
// require (nodes without the label are rejected).
func (plugin *nodeMetadata) Configure(args []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(args, &members); err != nil {
		return err
	}
	read := func(name string, value any) bool {
		raw, isThere := members[name]
		return !isThere || json.Unmarshal(raw, value) == nil
	}
	order := "ascending"
	if !read("key", &plugin.key) || plugin.key == "" {
		return errors.New("key: the name of a node label is required")
	}
	if !read("order", &order) || order != "ascending" && order != "descending" {
		return errors.New(`order: must be "ascending" or "descending"`)
	}
	if !read("require", &plugin.isRequired) {
		return errors.New("require: must be true or false")
	}
	plugin.sign = 1
	if order == "descending" {
		plugin.sign = -1
	}
	return nil
}

func (plugin *nodeMetadata) Filter(_ *berth.Pod, node *berth.Node) *berth.Rejection {
	if _, hasLabel := node.Labels.Get(plugin.key); plugin.isRequired && !hasLabel {
		return berth.RejectUnresolvable("node(s) didn't have the label " + plugin.key)
	}
	return nil
}

func (plugin *nodeMetadata) Score(_ *berth.Pod, node *berth.Node) int64 {
	text, hasLabel := node.Labels.Get(plugin.key)
	if !hasLabel {
		return noValue
	}
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return noValue
	}
	return plugin.sign * value
}

// Normalize gives 1 to 100 to nodes with a value, 0 to those without.
func (plugin *nodeMetadata) Normalize(_ *berth.Pod, scores []int64) {
	least, most := int64(math.MaxInt64), int64(noValue)
	for _, score := range scores {
		if score != noValue {
			least = min(least, score)
		}
		most = max(most, score)
	}
	for i, score := range scores {
		switch {
		case score == noValue:
			scores[i] = 0
		case least == most:
			scores[i] = 100
		default:
			scores[i] = 1 + 99*(score-least)/(most-least)
		}
	}
}
