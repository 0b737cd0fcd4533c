// Package export_berth_scheduler_pre_bind_pre_flight answers the interface pre-bind-pre-flight.
package export_berth_scheduler_pre_bind_pre_flight

import (
	"berth"

	flight "wit_component/berth_scheduler_pre_bind_pre_flight"
	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func PreBindPreFlight(cycle uint64, node uint32) wit.Result[flight.PreFlight, berth_scheduler_types.Status] {
	var answer flight.PreFlight
	failed := guest.Check(cycle, func(pod *berth.Pod) (rejection *berth.Rejection) {
		answer.AllowParallel, rejection = berth.Registered().(berth.PreFlighter).PreBindPreFlight(pod, guest.Node(node))
		return rejection
	})
	return guest.Result(answer, failed)
}
