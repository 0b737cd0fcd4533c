// Package export_berth_scheduler_permit answers the interface permit.
package export_berth_scheduler_permit

import (
	"fmt"

	"berth"

	"wit_component/berth_scheduler_permit"
	"wit_component/berth_scheduler_types"
	"wit_component/guest"
)

func Permit(cycle uint64, node uint32) (berth_scheduler_permit.Verdict, []berth_scheduler_types.Effect) {
	var verdict berth.Verdict
	var effects []berth_scheduler_types.Effect
	failed := guest.Check(cycle, func(pod *berth.Pod) *berth.Rejection {
		verdict = berth.Registered().(berth.Permitter).Permit(pod, guest.Node(node))
		effects = guest.Effects("Permit", verdict.Effects)
		if wait := verdict.WaitMilliseconds; !guest.IsTime(wait) {
			panic(fmt.Sprintf("Permit gave WaitMilliseconds %d, which is a negative number that was converted", wait))
		}
		return verdict.Deny
	})
	answer := berth_scheduler_permit.MakeVerdictAllow()
	if failed != nil {
		answer = berth_scheduler_permit.MakeVerdictDeny(*failed)
	} else if verdict.WaitMilliseconds > 0 {
		answer = berth_scheduler_permit.MakeVerdictWait(verdict.WaitMilliseconds)
	}
	return answer, effects
}
