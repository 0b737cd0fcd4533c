// Package points is a plugin with every extension point, and answers that a test knows.
package points

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth"
)

type points struct{ diary []string }

func init() { berth.Register(&points{}) }

var configMaps = berth.ObjectKind{APIVersion: "v1", Kind: "ConfigMap"}

func (*points) Describe() berth.Manifest {
	return berth.Manifest{
		Name: "Points", Version: "0.1.0", Columns: []berth.Column{berth.Name}, Pods: true,
		Objects: []berth.ObjectKind{configMaps},
		EventsToRegister: []berth.Event{
			{Resource: "Node", Actions: berth.Add | berth.UpdateNodeLabel},
			{Resource: "Pod", Actions: berth.AnyAction},
			{Resource: "ConfigMap", Actions: berth.Add | berth.Update},
		},
	}
}

func (*points) PreEnqueue(pod *berth.Pod) *berth.Rejection {
	if pod.Owner != nil {
		return berth.Pending("owned by " + pod.Owner.Name)
	}
	if pod.Name == "gated" {
		return berth.Pending("gated")
	}
	return nil
}

func (*points) SortKey(pod *berth.Pod, queuedAt int64) (int64, int64) {
	return -int64(pod.Priority), queuedAt
}

func (*points) PreFilter(pod *berth.Pod) ([]string, *berth.Rejection) {
	switch pod.Name {
	case "nowhere":
		return nil, berth.RejectUnresolvable("no place")
	case "pinned":
		return []string{"a"}, nil
	case "skipped":
		return nil, berth.Skip()
	case "broken":
		return nil, berth.Fail("broken")
	}
	return nil, nil
}

func (*points) Filter(_ *berth.Pod, node *berth.Node) *berth.Rejection {
	if node.Name == "c" {
		return berth.Reject("not c")
	}
	return nil
}

func (*points) PostFilter(pod *berth.Pod, failure *berth.Failure) (outcome berth.Outcome, rejection *berth.Rejection) {
	if failure.Absent != nil {
		return outcome, berth.Reject("absent: " + failure.Absent.Reason)
	}
	outcome.Node = failure.Rejections[0].Nodes[0]
	if pod.Name == "extended" {
		asked := berth.Preemption{Node: outcome.Node, Victims: outcome.Node.Pods, Violations: 1}
		agreed := berth.AskExtenders([]berth.Preemption{asked})[0]
		for _, victim := range agreed.Victims {
			evict := berth.Evict{Pod: victim, Message: fmt.Sprintf("%d violations", agreed.Violations)}
			outcome.Effects = append(outcome.Effects, evict)
		}
		return outcome, nil
	}
	verdicts := berth.DryRun([]berth.Removal{{Node: outcome.Node, Pods: outcome.Node.Pods}})
	if verdicts[0] != nil {
		return berth.Outcome{}, verdicts[0]
	}
	for _, placed := range outcome.Node.Pods {
		outcome.Effects = append(outcome.Effects, berth.Evict{Pod: placed, Message: "for " + pod.Name})
	}
	for _, nominated := range failure.Nominated {
		outcome.Effects = append(outcome.Effects, berth.Nominate{UID: nominated.Pod.UID})
	}
	return outcome, nil
}

func (*points) PreScore(pod *berth.Pod, _ []*berth.Node) *berth.Rejection {
	if pod.Name == "unscored" {
		return berth.Skip()
	}
	return nil
}

func (*points) Score(_ *berth.Pod, node *berth.Node) int64 { return int64(node.Row) * 10 }

func (*points) Normalize(_ *berth.Pod, scores []int64) {
	for i := range scores {
		scores[i]++
	}
}

func (points *points) write(what string, pod *berth.Pod, node *berth.Node) {
	points.diary = append(points.diary, what+" "+pod.Name+" "+node.Name)
}

func (points *points) Reserve(pod *berth.Pod, node *berth.Node) *berth.Rejection {
	if pod.Name == "refused" {
		return berth.Reject("no room on " + node.Name)
	}
	points.write("reserve", pod, node)
	berth.Log(berth.Info, "reserved")
	berth.Count("reserved", 1)
	return nil
}

func (points *points) Unreserve(pod *berth.Pod, node *berth.Node) []berth.Effect {
	points.write("unreserve", pod, node)
	if pod.Name == "plain" {
		return nil
	}
	self := berth.ObjectRef{Kind: "v1/Pod", Namespace: pod.Namespace, Name: pod.Name}
	body := `{"status": {"conditions": [{"$patch": "delete", "type": "Held"}]}}`
	return []berth.Effect{berth.Patch{Object: self, Subresource: "status", Body: []byte(body), Strategic: true}}
}

func (*points) Permit(pod *berth.Pod, _ *berth.Node) (verdict berth.Verdict) {
	switch pod.Name {
	case "waits":
		verdict.WaitMilliseconds = 5000
		verdict.Effects = []berth.Effect{
			berth.Allow{UID: "u-1"}, berth.TurnDown{UID: "u-2", Reason: "too late"},
			berth.Activate{UIDs: []string{"u-3", "u-4"}},
		}
	case "denied":
		verdict.Deny = berth.Reject("not today")
	}
	return verdict
}

func (*points) PreBindPreFlight(pod *berth.Pod, _ *berth.Node) (bool, *berth.Rejection) {
	if pod.Name == "plain" {
		return false, berth.Skip()
	}
	return pod.Name != "waits", nil
}

func (*points) PreBind(pod *berth.Pod, _ *berth.Node) ([]berth.Effect, *berth.Rejection) {
	if pod.Name == "plain" {
		return nil, berth.Skip()
	}
	notes := berth.ObjectRef{Kind: "v1/ConfigMap", Namespace: "default", Name: "notes"}
	return []berth.Effect{
		berth.Patch{Object: notes, Subresource: "status", Body: fmt.Appendf(nil, `{"data": {"pod": %q}}`, pod.Name)},
		berth.Create{
			Kind: "v1/ConfigMap", Namespace: "default", Body: fmt.Appendf(nil, `{"metadata": {"name": %q}}`, pod.Name),
		},
		berth.Delete{Object: berth.ObjectRef{Kind: "v1/Secret", Namespace: "default", Name: "old"}},
		berth.Nominate{UID: pod.UID, Node: "a"},
		berth.WaitFor{Objects: []berth.ObjectRef{notes}, Milliseconds: 1500, Message: "no notes"},
	}, nil
}

func (*points) Bind(pod *berth.Pod, _ *berth.Node) ([]berth.Effect, *berth.Rejection) {
	if pod.Name == "plain" {
		return nil, berth.Skip()
	}
	when := "no time"
	if berth.Now() > 0 {
		when = "in time"
	}
	objects := berth.Objects(configMaps)
	var notes struct {
		Data map[string]any `json:"data"`
	}
	if err := json.Unmarshal(objects[berth.ObjectKey{Namespace: "default", Name: "notes"}], &notes); err != nil {
		panic(err)
	}
	keys := strings.Join(slices.Sorted(maps.Keys(notes.Data)), ", ")
	size := notes.Data["größe"].(map[string]any)["of"]
	note := fmt.Sprintf("%d objects, %s: %s, %s", len(objects), keys, size, when)
	event := berth.WriteEvent{Warning: true, Reason: "Bound", Action: "Binding", Note: note}
	return []berth.Effect{berth.Bind{}, event}, nil
}

func (points *points) PostBind(pod *berth.Pod, node *berth.Node) { points.write("bound", pod, node) }

func (*points) QueueingHint(_ *berth.Pod, event berth.Event, subject berth.Subject) bool {
	switch event.Resource {
	case "Pod":
		return podSaysYes(subject.NewPod) && !podSaysYes(subject.OldPod)
	case "Node":
		return nodeSaysYes(subject.NewNode) && !nodeSaysYes(subject.OldNode)
	case "ConfigMap":
		isNotes := subject.Object == berth.ObjectRef{Kind: "v1/ConfigMap", Namespace: "default", Name: "notes"}
		return isNotes && objectSaysYes(subject.NewJSON) && !objectSaysYes(subject.OldJSON)
	}
	return false
}

func podSaysYes(pod *berth.Pod) bool {
	return pod != nil && slices.Equal(pod.Labels, berth.Pairs{{Key: "go", Value: "yes"}})
}

func nodeSaysYes(node *berth.Node) bool {
	return reflect.DeepEqual(node, &berth.Node{
		Name:          "d",
		Unschedulable: true,
		Labels:        berth.Pairs{{Key: "go", Value: "yes"}},
		Taints:        []berth.Taint{{Key: "example.com/busy", Value: "very", Effect: "NoExecute"}},
		Allocatable: map[string]int64{
			"cpu": 4000, "memory": 0, "ephemeral-storage": 0, "example.com/gpu": 2, "pods": 110,
		},
		DeclaredFeatures: []string{"Naps"},
		Annotations:      berth.Pairs{}, // empty and not nil, because the SDK marks it
	})
}

func objectSaysYes(object []byte) bool {
	var read struct{ Data map[string]string }
	return object != nil && json.Unmarshal(object, &read) == nil && read.Data["go"] == "yes"
}

func (*points) Sign(pod *berth.Pod) (string, bool) {
	return "twin", strings.HasPrefix(pod.Name, "twin")
}

func (*points) Explain(pod *berth.Pod, node *berth.Node) string {
	if pod.Name == "mute" {
		return ""
	}
	if node == nil {
		return pod.Name + " goes to a or b"
	}
	return node.Name + " is no place\nfor " + pod.Name
}

func (points *points) Snapshot() []byte { return []byte(strings.Join(points.diary, "\n")) }

func (points *points) Restore(snapshot []byte) error {
	if bytes.Equal(snapshot, []byte("bad")) {
		return errors.New("not a diary")
	}
	points.diary = strings.Split(string(snapshot), "\n")
	return nil
}
