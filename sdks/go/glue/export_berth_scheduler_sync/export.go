// Package export_berth_scheduler_sync answers the interface sync.
package export_berth_scheduler_sync

import (
	"wit_component/berth_scheduler_sync"
	"wit_component/guest"
)

func Apply(delta berth_scheduler_sync.Delta) {
	guest.Run(func() { guest.Apply(&delta) })
}
