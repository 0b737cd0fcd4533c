// Package export_berth_scheduler_pre_enqueue answers the interface pre-enqueue.
package export_berth_scheduler_pre_enqueue

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func PreEnqueue(raw berth_scheduler_types.Pod) wit.Result[wit.Unit, berth_scheduler_types.Status] {
	var rejection *berth.Rejection
	failed := guest.Run(func() { rejection = berth.Registered().(berth.PreEnqueuer).PreEnqueue(guest.Pod(&raw)) })
	if failed == nil && rejection != nil {
		status := guest.Status(rejection)
		failed = &status
	}
	return guest.Unit(failed)
}
