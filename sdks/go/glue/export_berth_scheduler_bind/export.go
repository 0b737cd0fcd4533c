// Package export_berth_scheduler_bind answers the interface bind.
package export_berth_scheduler_bind

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func Bind(cycle uint64, node uint32) wit.Result[[]berth_scheduler_types.Effect, berth_scheduler_types.Status] {
	var effects []berth_scheduler_types.Effect
	failed := guest.Check(cycle, func(pod *berth.Pod) *berth.Rejection {
		wanted, rejection := berth.Registered().(berth.Binder).Bind(pod, guest.Node(node))
		effects = guest.Effects("Bind", wanted)
		return rejection
	})
	return guest.Result(effects, failed)
}
