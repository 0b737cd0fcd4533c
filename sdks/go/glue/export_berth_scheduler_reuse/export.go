// Package export_berth_scheduler_reuse answers the interface reuse.
package export_berth_scheduler_reuse

import (
	"berth"

	"wit_component/berth_scheduler_reuse"
	"wit_component/guest"
)

func ReachOf(cycle uint64) berth_scheduler_reuse.Reach {
	var reach berth.Reach
	guest.Answer(cycle, func(pod *berth.Pod) { reach = berth.Registered().(berth.Reuser).Reach(pod) })
	switch reach.Kind {
	case berth.ReachKindRow:
		return berth_scheduler_reuse.MakeReachRow(reach.Version)
	case berth.ReachKindNothing:
		return berth_scheduler_reuse.MakeReachNothing()
	case berth.ReachKindNothingAnywhere:
		return berth_scheduler_reuse.MakeReachNothingAnywhere()
	case berth.ReachKindNothingYet:
		return berth_scheduler_reuse.MakeReachNothingYet()
	}
	return berth_scheduler_reuse.MakeReachCluster()
}
