package berth

// PreEnqueuer decides whether a pod may enter activeQ.
type PreEnqueuer interface {
	// PreEnqueue returns nil if the pod may enter activeQ.
	PreEnqueue(pod *Pod) *Rejection
}

// QueueSorter sorts activeQ.
type QueueSorter interface {
	// SortKey returns the pod's sort key. The pod with the smallest key comes first. queuedAt is in milliseconds since 1970.
	SortKey(pod *Pod, queuedAt int64) (first, second int64)
}

// PodFollower learns which pods are on nodes. Counts that both methods maintain are up to date at every other call.
type PodFollower interface {
	// PodPlaced is called once for each pod that is on the node or is being bound to it. It is called before any other
	// method sees the cluster with this pod.
	PodPlaced(pod *Pod, node *Node)
	// PodRemoved is called for each pod that left its node. If a pod changed, PodRemoved gets the old pod, then PodPlaced
	// gets the new one.
	PodRemoved(pod *Pod, node *Node)
}

// PreFilterer prepares Filter for a pod.
type PreFilterer interface {
	// PreFilter is called once for the pod, before Filter. It returns the names of the only nodes to consider, or nil for
	// all nodes. After [Skip], Filter is not called.
	PreFilter(pod *Pod) (nodes []string, rejection *Rejection)
}

// PostFilterer tries to make a pod schedulable after no node passed.
type PostFilterer interface {
	// PostFilter returns an outcome, or a rejection, after which the next plugin is called. See [DryRun] and
	// [AskExtenders].
	PostFilter(pod *Pod, failure *Failure) (Outcome, *Rejection)
}

// Failure contains the reasons why no node passed.
type Failure struct {
	Rejections []NodesRejection
	// Absent is the rejection of all other nodes, if PreFilter rejected them or the pod.
	Absent *Rejection
	// Nominated are the pods that are nominated to nodes.
	Nominated []Nomination
}

// NodesRejection is a rejection and the rejected nodes.
type NodesRejection struct {
	Rejection *Rejection
	Nodes     []*Node
}

// Nomination is a node and the pod that is nominated to it.
type Nomination struct {
	Node *Node
	Pod  *Pod
}

// Outcome is the result of a successful PostFilter.
type Outcome struct {
	// Node is the node to nominate for the pod, or nil.
	Node *Node
	// Clear removes the pod's nomination.
	Clear   bool
	Effects []Effect
}

// PreScorer prepares Score for a pod.
type PreScorer interface {
	// PreScore is called once for the pod, before Score. After [Skip], Score is not called.
	PreScore(pod *Pod, nodes []*Node) *Rejection
}

// Reserver reserves the plugin's own resources on the chosen node.
type Reserver interface {
	// Reserve returns nil if the node still has the resources for the pod.
	Reserve(pod *Pod, node *Node) *Rejection
	// Unreserve releases the reservation. It must do nothing if there is no reservation. It returns effects or nil, for
	// example to remove what PreBind wrote.
	Unreserve(pod *Pod, node *Node) []Effect
}

// Permitter allows, rejects or delays the binding of a pod.
type Permitter interface {
	Permit(pod *Pod, node *Node) Verdict
}

// Verdict is the answer of Permit. An empty Verdict allows the binding.
type Verdict struct {
	// WaitMilliseconds is the maximum time for which Permit holds the pod; 0 does not hold it.
	WaitMilliseconds uint64
	Deny             *Rejection
	Effects          []Effect
}

// PreFlighter says whether PreBind will have something to do. It is asked before the wait at Permit. A plugin that has
// PreBind and is no PreFlighter always counts as having something to do.
type PreFlighter interface {
	// PreBindPreFlight returns [Skip] if PreBind has nothing to do. Otherwise allowParallel says whether PreBind may run in
	// parallel with the PreBind of the plugins next to this one.
	PreBindPreFlight(pod *Pod, node *Node) (allowParallel bool, rejection *Rejection)
}

// PreBinder does work that must be complete before the pod is bound.
type PreBinder interface {
	// PreBind returns effects, or [Skip] if it has nothing to do.
	PreBind(pod *Pod, node *Node) ([]Effect, *Rejection)
}

// Binder binds pods.
type Binder interface {
	// Bind returns effects, or [Skip] to leave the pod to the next Bind plugin.
	Bind(pod *Pod, node *Node) ([]Effect, *Rejection)
}

// PostBinder is called after the pod was bound.
type PostBinder interface {
	PostBind(pod *Pod, node *Node)
}

// Hinter decides whether an event may make a pod schedulable that the plugin rejected.
type Hinter interface {
	// QueueingHint returns true to retry the pod. The subject is the object of the event.
	QueueingHint(pod *Pod, event Event, subject Subject) bool
}

// Subject is the object of an event, before and after the event. A version that does not exist is nil. All fields are empty
// for an object of a kind that the manifest's Objects do not name.
type Subject struct {
	OldPod, NewPod *Pod
	// Their Row is 0. They always have the columns Name, Unschedulable, Labels, Taints, Allocatable and DeclaredFeatures,
	// even if the manifest does not request these columns. All other fields are empty. For an annotation or an amount that
	// pods use, look the node up by its name in [Nodes], which is up to date.
	OldNode, NewNode *Node
	// An object of another kind, and its JSON before and after the event.
	Object           ObjectRef
	OldJSON, NewJSON []byte
}

// Signer tells the scheduler which pods get the same answers.
type Signer interface {
	// Sign returns the same string for all pods that get the same answers, or false.
	Sign(pod *Pod) (string, bool)
}

// Explainer says in the plugin's own words why it answers about a pod as it does. It is called only if a user asks, as with
// `berth explain`.
type Explainer interface {
	// Explain returns one line about the node, or about the pod as a whole if the node is nil. An empty text says nothing.
	// The text is cut after 1024 bytes.
	Explain(pod *Pod, node *Node) string
}

// Reuser lets the scheduler keep answers for pods that differ only in their names.
type Reuser interface {
	// Reach says on which data the verdicts and scores for the pod depend. The interface `reuse` of the contract documents
	// the details.
	Reach(pod *Pod) Reach
}

// Reach is the data on which the answers for a pod depend: one of [ReachCluster], [ReachNothing], [ReachNothingAnywhere],
// [ReachNothingYet], or [ReachRow].
type Reach struct {
	Kind    ReachKind
	Version uint64
}

// ReachKind is a kind of [Reach].
type ReachKind uint8

// The kinds.
const (
	ReachKindCluster ReachKind = iota
	ReachKindRow
	ReachKindNothing
	ReachKindNothingAnywhere
	ReachKindNothingYet
)

var (
	// ReachCluster says that the answers may depend on any data. A plugin that is not a [Reuser] always counts as this.
	ReachCluster = Reach{}
	// ReachNothing says that the plugin has nothing to do for the pod: every node passes and scores 0.
	ReachNothing = Reach{Kind: ReachKindNothing}
	// ReachNothingAnywhere is [ReachNothing] for a pod that changes no answer when it is on a node either: [Pods] may lack
	// the pod.
	ReachNothingAnywhere = Reach{Kind: ReachKindNothingAnywhere}
	// ReachNothingYet is [ReachNothing] until a pod is placed on a node or nominated to a node, and Reach has returned none
	// of these three values for such a pod.
	ReachNothingYet = Reach{Kind: ReachKindNothingYet}
)

// ReachRow says that the answers depend only on the pod without its names, on the node's own columns, and on the data that
// the version stands for. The answers of PreFilter, PreScore and Bind depend only on the pod and the version.
func ReachRow(version uint64) Reach { return Reach{Kind: ReachKindRow, Version: version} }

// Stateful is a plugin that passes its state to its next version.
type Stateful interface {
	// Snapshot returns the state of this version.
	Snapshot() []byte
	// Restore gets the snapshot of the previous version. An error refuses the snapshot.
	Restore(snapshot []byte) error
}

// Actions are the changes of an object.
type Actions uint16

// The actions, as kube-scheduler names them.
const (
	Add Actions = 1 << iota
	Deleted
	UpdateNodeAllocatable
	UpdateNodeLabel
	UpdateNodeTaint
	UpdateNodeCondition
	UpdateNodeAnnotation
	UpdateNodeDeclaredFeature
	UpdatePodLabel
	UpdatePodScaleDown
	UpdatePodToleration
	UpdatePodSchedulingGatesEliminated
	UpdatePodGeneratedResourceClaim
	// AnyAction is all actions.
	AnyAction Actions = 1<<13 - 1
	// Update is all update actions. It is the only update action for kinds other than pods and nodes.
	Update = AnyAction &^ (Add | Deleted)
)

// Event is a change in the cluster. The resource is `Pod`, `Node`, `PersistentVolumeClaim`, `<plural>.<version>.<group>` or
// `*`.
type Event struct {
	Resource string
	Actions  Actions
}
