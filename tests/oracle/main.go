// The oracle answers "which nodes may this pod go to?" with the kube-scheduler's own filter plugins.
//
// It reads one JSON case per line from standard input and writes one answer per line:
//
//	{id, nodes, pods, pod, namespaces?, persistentVolumes?, persistentVolumeClaims?, storageClasses?, csiNodes?, settings?}
//	{id, fits: [node…], fails: {node: [kind, reason…]}, every: {node: {plugin: [kind, reason…]}}}
//
// `fails` names the first rule that refuses a node in the scheduler's order, `every` all that do.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

type answer struct {
	ID    json.RawMessage               `json:"id"`
	Fits  []string                      `json:"fits"`
	Fails map[string]verdict            `json:"fails"`
	Every map[string]map[string]verdict `json:"every"`
	// What the API server would refuse about the pods and nodes of the case.
	Invalid string `json:"invalid,omitempty"`
	// An object could not even be decoded, so it is not part of the answer.
	Unread bool   `json:"unread,omitempty"`
	Error  string `json:"error,omitempty"`
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	w := newWorld()
	plain, comparing := buildRules(ctx, w, false), buildRules(ctx, w, true)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			write(out, answerLine(ctx, w, line, plain, comparing))
		}
		if in.Buffered() == 0 {
			out.Flush()
		}
		if err != nil {
			break
		}
	}
	out.Flush()
}

func write(out io.Writer, a *answer) {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(out, "%s\n", text)
}

func answerLine(ctx context.Context, w *world, line []byte, plain, comparing []rule) (a *answer) {
	written := writtenCase{}
	a = &answer{Fits: []string{}, Fails: map[string]verdict{}, Every: map[string]map[string]verdict{}}
	defer func() {
		if problem := recover(); problem != nil {
			a = &answer{ID: written.ID, Error: fmt.Sprint(problem)}
		}
	}()
	if err := json.Unmarshal(line, &written); err != nil {
		a.Error = err.Error()
		return a
	}
	a.ID = written.ID
	read := written.read()
	for name, problem := range read.badNodes {
		a.Invalid = problem.Error()
		a.add(name, "Object", verdict{"malformed", problem.Error()})
	}
	if read.podProblem != nil {
		for _, node := range read.nodes {
			a.add(node.Name, "Object", verdict{"malformed", read.podProblem.Error()})
		}
		a.Invalid, a.Unread = read.podProblem.Error(), true
		return a
	}
	a.Unread = read.unread != nil || len(read.badNodes) > 0
	if a.Invalid == "" {
		a.Invalid = read.whyInvalid()
	}
	w.show(read)
	rules := plain
	if written.Settings.ComparisonOperators {
		rules = comparing
	}
	a.judge(ctx, w, rules, read.pod)
	return a
}

// judge lets every rule speak; as in the scheduler, a refusal before any node was looked at comes first.
func (a *answer) judge(ctx context.Context, w *world, rules []rule, pod *corev1.Pod) {
	answers := make([]verdicts, len(rules))
	for i, r := range rules {
		answers[i] = r.judge(ctx, w, pod)
		if r.name == names.NodeAffinity && !answers[i].beforeNodes {
			tellSelectorApart(ctx, w, r, pod, answers[i].byNode)
		}
	}
	for _, beforeNodes := range []bool{true, false} {
		for i, r := range rules {
			if answers[i].beforeNodes == beforeNodes {
				for node, v := range answers[i].byNode {
					a.add(node, r.name, v)
				}
			}
		}
	}
	for _, info := range w.nodes {
		if _, refused := a.Fails[info.Node().Name]; !refused {
			a.Fits = append(a.Fits, info.Node().Name)
		}
	}
}

// tellSelectorApart asks the same plugin about the node selector alone, which the scheduler's words do not distinguish.
func tellSelectorApart(ctx context.Context, w *world, r rule, pod *corev1.Pod, refused map[string]verdict) {
	if len(pod.Spec.NodeSelector) == 0 || len(refused) == 0 {
		return
	}
	bare := pod.DeepCopy()
	bare.Spec.Affinity = nil
	for name := range r.judge(ctx, w, bare).byNode {
		refused[name][0] = "nodeselector"
	}
}

func (a *answer) add(node, plugin string, v verdict) {
	if _, known := a.Fails[node]; !known {
		a.Fails[node] = v
		a.Every[node] = map[string]verdict{}
	}
	a.Every[node][plugin] = v
}
