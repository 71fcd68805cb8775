package main

// The kube-scheduler's own filters with its own default arguments, each asked on its own.

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
)

type factory func(context.Context, runtime.Object, fwk.Handle, plfeature.Features) (fwk.Plugin, error)

// inOrder is the order in which the default profile runs its filters.
var inOrder = []struct {
	name  string
	kind  string
	build factory
}{
	{names.NodeUnschedulable, "unschedulable", nodeunschedulable.New},
	{names.NodeName, "nodename", nodename.New},
	{names.TaintToleration, "toleration", tainttoleration.New},
	{names.NodeAffinity, "nodeaffinity", nodeaffinity.New},
	{names.NodePorts, "hostport", nodeports.New},
	{names.NodeResourcesFit, "resources", noderesources.NewFit},
	{names.VolumeRestrictions, "volume", volumerestrictions.New},
	{names.NodeVolumeLimits, "volume", nodevolumelimits.NewCSI},
	{names.VolumeBinding, "volume", volumebinding.New},
	{names.VolumeZone, "volume", volumezone.New},
	{names.PodTopologySpread, "spread", podtopologyspread.New},
	{names.InterPodAffinity, "affinity", interpodaffinity.New},
}

type rule struct {
	name   string
	kind   string
	plugin fwk.Plugin
}

// verdict is one rule's answer on one node: its kind and the scheduler's words, or nothing.
type verdict []string

func buildRules(ctx context.Context, w *world, comparesTolerations bool) []rule {
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	features.EnableTaintTolerationComparisonOperators = comparesTolerations
	arguments := defaultArguments()
	var rules []rule
	for _, row := range inOrder {
		plugin, err := row.build(ctx, arguments[row.name], w, features)
		if err != nil {
			panic(err)
		}
		rules = append(rules, rule{row.name, row.kind, plugin})
	}
	return rules
}

func defaultArguments() map[string]runtime.Object {
	defaults, err := latest.Default()
	if err != nil {
		panic(err)
	}
	arguments := map[string]runtime.Object{}
	for _, configured := range defaults.Profiles[0].PluginConfig {
		arguments[configured.Name] = configured.Args
	}
	if _, ok := arguments[names.NodeResourcesFit].(*config.NodeResourcesFitArgs); !ok {
		panic("the default profile has no arguments for NodeResourcesFit")
	}
	return arguments
}

// verdicts are one rule's refusals by node; a rule that refuses the pod before looking at nodes refuses them all.
type verdicts struct {
	byNode      map[string]verdict
	beforeNodes bool
}

// judge asks one rule about every node: PreFilter once, then Filter for each node, as the framework does.
func (r rule) judge(ctx context.Context, w *world, pod *corev1.Pod) verdicts {
	state := framework.NewCycleState()
	answers := map[string]verdict{}
	var allowed *fwk.PreFilterResult
	if before, ok := r.plugin.(fwk.PreFilterPlugin); ok {
		var status *fwk.Status
		allowed, status = before.PreFilter(ctx, state, pod, w.nodes)
		if status.IsSkip() {
			return verdicts{byNode: answers}
		}
		if !status.IsSuccess() {
			for _, info := range w.nodes {
				answers[info.Node().Name] = r.refuse(status, true)
			}
			return verdicts{answers, true}
		}
	}
	filter := r.plugin.(fwk.FilterPlugin)
	for _, info := range w.nodes {
		name := info.Node().Name
		if allowed != nil && !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
			answers[name] = verdict{r.kind, "node is not among those the pod names"}
			continue
		}
		if status := filter.Filter(ctx, state, pod, info); !status.IsSuccess() {
			answers[name] = r.refuse(status, false)
		}
	}
	return verdicts{byNode: answers}
}

func (r rule) refuse(status *fwk.Status, beforeNodes bool) verdict {
	kind := r.kind
	reasons := status.Reasons()
	if status.Code() == fwk.Error && kind != "volume" {
		kind = "malformed"
	}
	for _, reason := range reasons {
		switch {
		case reason == interpodaffinity.ErrReasonAntiAffinityRulesNotMatch,
			reason == interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch:
			kind = "antiaffinity"
		case beforeNodes && strings.HasPrefix(reason, "parsing pod:"):
			kind = "malformed"
		}
	}
	return append(verdict{kind}, reasons...)
}
