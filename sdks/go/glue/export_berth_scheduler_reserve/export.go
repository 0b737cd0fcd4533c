// Package export_berth_scheduler_reserve answers the interface reserve.
package export_berth_scheduler_reserve

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func Reserve(cycle uint64, node uint32) wit.Result[wit.Unit, berth_scheduler_types.Status] {
	return guest.Unit(guest.Check(cycle, func(pod *berth.Pod) *berth.Rejection {
		return berth.Registered().(berth.Reserver).Reserve(pod, guest.Node(node))
	}))
}

func Unreserve(cycle uint64, node uint32) []berth_scheduler_types.Effect {
	var effects []berth_scheduler_types.Effect
	guest.Answer(cycle, func(pod *berth.Pod) {
		effects = guest.Effects("Unreserve", berth.Registered().(berth.Reserver).Unreserve(pod, guest.Node(node)))
	})
	return effects
}
