// Package tenantquota is TenantQuota: a tenant may have only a fixed number of pods. The value of a label names a pod's tenant.
package tenantquota

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"berth"
)

type quota struct {
	Label string `json:"label"`
	Limit int    `json:"limit"`
	// The uids of each tenant's pods that are on a node or have a reserved node.
	held map[string]map[string]bool
}

func init() { berth.Register(&quota{held: map[string]map[string]bool{}}) }

func (*quota) Describe() berth.Manifest {
	return berth.Manifest{
		Name:             "TenantQuota",
		Version:          "0.1.0",
		EventsToRegister: []berth.Event{{Resource: "Pod", Actions: berth.Deleted}},
	}
}

func (quota *quota) Configure(args []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if decoder.Decode(quota) != nil || quota.Label == "" || quota.Limit < 1 {
		return errors.New("label and limit: must be the key of a label and a number of pods")
	}
	return nil
}

func (quota *quota) hold(pod *berth.Pod) {
	tenant, hasTenant := pod.Labels.Get(quota.Label)
	if !hasTenant {
		return
	}
	if quota.held[tenant] == nil {
		quota.held[tenant] = map[string]bool{}
	}
	quota.held[tenant][pod.UID] = true
}

func (quota *quota) giveBack(pod *berth.Pod) {
	tenant, _ := pod.Labels.Get(quota.Label)
	delete(quota.held[tenant], pod.UID)
}

func (quota *quota) PodPlaced(pod *berth.Pod, _ *berth.Node) { quota.hold(pod) }

func (quota *quota) PodRemoved(pod *berth.Pod, _ *berth.Node) { quota.giveBack(pod) }

func (quota *quota) PreFilter(pod *berth.Pod) ([]string, *berth.Rejection) {
	tenant, hasTenant := pod.Labels.Get(quota.Label)
	held := len(quota.held[tenant])
	if hasTenant && held >= quota.Limit {
		return nil, berth.RejectUnresolvable(fmt.Sprintf("tenant %s has %d of %d pods", tenant, held, quota.Limit))
	}
	return nil, nil
}

func (quota *quota) Reserve(pod *berth.Pod, _ *berth.Node) *berth.Rejection {
	quota.hold(pod)
	return nil
}

func (quota *quota) Unreserve(pod *berth.Pod, _ *berth.Node) []berth.Effect {
	quota.giveBack(pod)
	return nil
}
