// Package export_berth_scheduler_pre_score answers the interface pre-score.
package export_berth_scheduler_pre_score

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func PreScore(cycle uint64, nodes []uint64) wit.Result[wit.Unit, berth_scheduler_types.Status] {
	return guest.Unit(guest.Check(cycle, func(pod *berth.Pod) *berth.Rejection {
		return berth.Registered().(berth.PreScorer).PreScore(pod, guest.Nodes(nodes))
	}))
}
