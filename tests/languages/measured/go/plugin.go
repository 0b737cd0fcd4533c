// Package podcount keeps nodes with a thousand pods out, and lets the scheduler keep the answers.
package podcount

import "berth"

type plugin struct{}

func init() { berth.Register(plugin{}) }

func (plugin) Describe() berth.Manifest {
	columns := []berth.Column{berth.Requested, berth.NonZeroRequested, berth.PodCount}
	return berth.Manifest{Name: "PodCount", Version: "0.1.0", Columns: columns}
}

func (plugin) Filter(pod *berth.Pod, node *berth.Node) *berth.Rejection {
	if node.PodCount < 1000 {
		return nil
	}
	return berth.Reject("full")
}

func (plugin) Reach(pod *berth.Pod) berth.Reach { return berth.ReachRow(7) }
