package guest

import "berth"

// Exported are the interfaces that plugin.wit exports. The build sets the list.
var Exported []string

// answers has for each interface a check whether the plugin has its methods, and the names of these methods.
var answers = map[string]struct {
	isAnswered func(plugin berth.Plugin) bool
	methods    string
}{
	"filter":              {is[berth.Filterer], "Filter"},
	"score":               {func(plugin berth.Plugin) bool { return is[berth.Scorer](plugin) || is[berth.NodesScorer](plugin) }, "Score"},
	"normalize-score":     {is[berth.Normalizer], "Normalize"},
	"pre-enqueue":         {is[berth.PreEnqueuer], "PreEnqueue"},
	"queue-sort":          {is[berth.QueueSorter], "SortKey"},
	"pre-filter":          {is[berth.PreFilterer], "PreFilter"},
	"post-filter":         {is[berth.PostFilterer], "PostFilter"},
	"pre-score":           {is[berth.PreScorer], "PreScore"},
	"reserve":             {is[berth.Reserver], "Reserve, or no Unreserve"},
	"permit":              {is[berth.Permitter], "Permit"},
	"pre-bind-pre-flight": {is[berth.PreFlighter], "PreBindPreFlight"},
	"pre-bind":            {is[berth.PreBinder], "PreBind"},
	"bind":                {is[berth.Binder], "Bind"},
	"post-bind":           {is[berth.PostBinder], "PostBind"},
	"queueing-hint":       {is[berth.Hinter], "QueueingHint"},
	"sign":                {is[berth.Signer], "Sign"},
	"reuse":               {is[berth.Reuser], "Reach"},
	"state":               {is[berth.Stateful], "Snapshot, or no Restore"},
	"explain":             {is[berth.Explainer], "Explain"},
}

func is[Interface any](plugin berth.Plugin) bool {
	_, isAnswered := plugin.(Interface)
	return isAnswered
}

// Missing returns the method that the plugin lacks for an interface, or "". A method does not count if its parameters differ
// from the SDK's.
func Missing(name string) string {
	answer, isKnown := answers[name]
	if !isKnown || answer.isAnswered(berth.Registered()) {
		return ""
	}
	return answer.methods
}
