package berth

// Effect is something that a plugin wants done: one of the types below. The operator must grant each sort.
type Effect interface{ isEffect() }

// ObjectRef names an object: the kind is written `v1/ConfigMap`, the namespace is empty for kinds without one.
type ObjectRef struct {
	Kind, Namespace, Name string
}

type (
	// Bind binds the pod of this cycle to the node chosen for it.
	Bind struct{}
	// Patch is a JSON merge patch. A `resourceVersion` in it makes it fail when the object has changed since.
	Patch struct {
		Object      ObjectRef
		Subresource string
		Body        []byte
	}
	// Create makes an object from JSON.
	Create struct {
		Kind, Namespace string
		Body            []byte
	}
	// Delete deletes an object.
	Delete struct{ Object ObjectRef }
	// Evict makes room by evicting a pod from its node.
	Evict struct {
		Pod     *Pod
		Message string
	}
	// Allow lets a pod that waits on Permit go on.
	Allow struct{ UID string }
	// TurnDown turns down a pod that waits on Permit.
	TurnDown struct{ UID, Reason string }
	// Activate moves pods to activeQ.
	Activate struct{ UIDs []string }
	// Nominate sets a pod's `nominatedNodeName`; an empty Node clears it.
	Nominate struct{ UID, Node string }
	// WriteEvent writes a Kubernetes event about the pod of this cycle.
	WriteEvent struct {
		Warning              bool
		Reason, Action, Note string
	}
	// WaitFor is an effect of PreBind, and of Permit together with WaitMilliseconds. The plugin is asked again when one of the
	// objects has changed, and the attempt fails with Message after Milliseconds. Objects may name the pod itself, with the kind
	// `v1/Pod`; the plugin is then asked with the pod as it is after the change. WaitFor must be the last effect of the answer.
	WaitFor struct {
		Objects      []ObjectRef
		Milliseconds uint64
		Message      string
	}
)

func (Bind) isEffect()       {}
func (Patch) isEffect()      {}
func (Create) isEffect()     {}
func (Delete) isEffect()     {}
func (Evict) isEffect()      {}
func (Allow) isEffect()      {}
func (TurnDown) isEffect()   {}
func (Activate) isEffect()   {}
func (Nominate) isEffect()   {}
func (WriteEvent) isEffect() {}
func (WaitFor) isEffect()    {}
