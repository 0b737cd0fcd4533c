// Package export_berth_scheduler_cycle answers the interface cycle.
package export_berth_scheduler_cycle

import (
	"wit_component/berth_scheduler_types"
	"wit_component/guest"
)

func Begin(cycle uint64, pod berth_scheduler_types.Pod) { guest.Begin(cycle, &pod) }

func End(cycle uint64) { guest.End(cycle) }
