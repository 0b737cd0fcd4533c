// Package export_berth_scheduler_state answers the interface state.
package export_berth_scheduler_state

import (
	"berth"

	"wit_component/guest"

	wit "wit_component/abi"
)

func Snapshot() (snapshot []uint8) {
	guest.Run(func() { snapshot = berth.Registered().(berth.Stateful).Snapshot() })
	return snapshot
}

func Restore(snapshot []uint8) wit.Result[wit.Unit, string] {
	var refused error
	guest.Run(func() { refused = berth.Registered().(berth.Stateful).Restore(snapshot) })
	if refused != nil {
		return wit.Err[wit.Unit](refused.Error())
	}
	return wit.Ok[wit.Unit, string](wit.Unit{})
}
