// Package export_berth_scheduler_explain answers the interface explain.
package export_berth_scheduler_explain

import (
	"berth"

	"wit_component/guest"

	wit "wit_component/abi"
)

func Explain(cycle uint64, row wit.Option[uint32]) string {
	var words string
	guest.Answer(cycle, func(pod *berth.Pod) {
		var node *berth.Node
		if row.Tag() == wit.OptionSome {
			node = guest.Node(row.Some())
		}
		words = berth.Registered().(berth.Explainer).Explain(pod, node)
	})
	return words
}
