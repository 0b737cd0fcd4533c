// Package export_berth_scheduler_post_bind answers the interface post-bind.
package export_berth_scheduler_post_bind

import (
	"berth"

	"wit_component/guest"
)

func PostBind(cycle uint64, node uint32) {
	guest.Answer(cycle, func(pod *berth.Pod) { berth.Registered().(berth.PostBinder).PostBind(pod, guest.Node(node)) })
}
