// Package export_berth_scheduler_lifecycle answers the interface lifecycle.
package export_berth_scheduler_lifecycle

import (
	"strings"

	"berth"

	"wit_component/berth_scheduler_lifecycle"
	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

var columns = map[berth.Column]berth_scheduler_lifecycle.Column{
	berth.Name:             berth_scheduler_lifecycle.MakeColumnName(),
	berth.Unschedulable:    berth_scheduler_lifecycle.MakeColumnUnschedulable(),
	berth.Labels:           berth_scheduler_lifecycle.MakeColumnLabels(),
	berth.Taints:           berth_scheduler_lifecycle.MakeColumnTaints(),
	berth.Allocatable:      berth_scheduler_lifecycle.MakeColumnAllocatable(),
	berth.Requested:        berth_scheduler_lifecycle.MakeColumnRequested(),
	berth.NonZeroRequested: berth_scheduler_lifecycle.MakeColumnNonZeroRequested(),
	berth.PodCount:         berth_scheduler_lifecycle.MakeColumnPodCount(),
	berth.Images:           berth_scheduler_lifecycle.MakeColumnImages(),
	berth.HostPorts:        berth_scheduler_lifecycle.MakeColumnHostPorts(),
	berth.DeclaredFeatures: berth_scheduler_lifecycle.MakeColumnDeclaredFeatures(),
}

func column(column berth.Column) berth_scheduler_lifecycle.Column {
	if key, isLabel := strings.CutPrefix(string(column), berth.LabelPrefix); isLabel {
		return berth_scheduler_lifecycle.MakeColumnLabel(key)
	}
	if key, isAnnotation := strings.CutPrefix(string(column), berth.AnnotationPrefix); isAnnotation {
		return berth_scheduler_lifecycle.MakeColumnAnnotation(key)
	}
	known, isKnown := columns[column]
	if !isKnown {
		panic("unknown column " + string(column))
	}
	return known
}

func Describe() (manifest berth_scheduler_lifecycle.Manifest) {
	guest.Run(func() { manifest = describe() })
	return manifest
}

func describe() berth_scheduler_lifecycle.Manifest {
	if berth.Registered() == nil {
		panic("no plugin: call berth.Register in an init function")
	}
	for _, name := range guest.Exported {
		if lacks := guest.Missing(name); lacks != "" {
			panic("plugin.wit exports " + name + ", and the plugin has no method " + lacks + " with the SDK's signature")
		}
	}
	described := berth.Registered().Describe()
	manifest := berth_scheduler_lifecycle.Manifest{
		Name: described.Name, Version: described.Version, Pods: guest.FollowsPods(),
	}
	for _, name := range described.Columns {
		manifest.Columns = append(manifest.Columns, column(name))
	}
	for _, kind := range described.Objects {
		object := berth_scheduler_lifecycle.ObjectKind{ApiVersion: kind.APIVersion, Kind: kind.Kind}
		manifest.Objects = append(manifest.Objects, object)
	}
	manifest.PodJson = described.PodJSON
	if described.EventsToRegister != nil {
		events := make([]berth_scheduler_types.ClusterEvent, len(described.EventsToRegister))
		for i, event := range described.EventsToRegister {
			events[i] = berth_scheduler_types.ClusterEvent{Resource: event.Resource, Actions: uint16(event.Actions)}
		}
		manifest.EventsToRegister = wit.Some(events)
	} else {
		manifest.EventsToRegister = wit.None[[]berth_scheduler_types.ClusterEvent]()
	}
	return manifest
}

func Configure(args string) wit.Result[wit.Unit, string] {
	var refused error
	guest.Run(func() {
		if plugin, hasArguments := berth.Registered().(berth.Configurer); hasArguments {
			refused = plugin.Configure([]byte(args))
		}
	})
	if refused != nil {
		return wit.Err[wit.Unit](refused.Error())
	}
	return wit.Ok[wit.Unit, string](wit.Unit{})
}
