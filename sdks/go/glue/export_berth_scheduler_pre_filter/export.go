// Package export_berth_scheduler_pre_filter answers the interface pre-filter.
package export_berth_scheduler_pre_filter

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func PreFilter(cycle uint64) wit.Result[wit.Option[[]string], berth_scheduler_types.Status] {
	nodes := wit.None[[]string]()
	failed := guest.Check(cycle, func(pod *berth.Pod) *berth.Rejection {
		names, rejection := berth.Registered().(berth.PreFilterer).PreFilter(pod)
		if names != nil {
			nodes = wit.Some(names)
		}
		return rejection
	})
	return guest.Result(nodes, failed)
}
