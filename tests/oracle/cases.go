package main

// Reading one line: Kubernetes objects as the API server would hand them out, each on its own,
// so that a malformed one is named and the others still count.

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	storagedefaults "k8s.io/kubernetes/pkg/apis/storage/v1"
	kjson "sigs.k8s.io/json"
)

type writtenCase struct {
	ID         json.RawMessage   `json:"id"`
	Nodes      []json.RawMessage `json:"nodes"`
	Pods       []json.RawMessage `json:"pods"`
	Pod        json.RawMessage   `json:"pod"`
	Namespaces []json.RawMessage `json:"namespaces"`
	Volumes    []json.RawMessage `json:"persistentVolumes"`
	Claims     []json.RawMessage `json:"persistentVolumeClaims"`
	Classes    []json.RawMessage `json:"storageClasses"`
	CSINodes   []json.RawMessage `json:"csiNodes"`
	Settings   struct {
		ComparisonOperators bool `json:"comparisonOperators"`
	} `json:"settings"`
}

type readCase struct {
	pod        *corev1.Pod
	podProblem error
	nodes      []*corev1.Node
	badNodes   map[string]error
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
	volumes    []*corev1.PersistentVolume
	claims     []*corev1.PersistentVolumeClaim
	classes    []*storagev1.StorageClass
	csiNodes   []*storagev1.CSINode
	unread     error // one of the objects that were left out because they cannot be read
}

func (w *writtenCase) read() *readCase {
	c := &readCase{badNodes: map[string]error{}}
	c.pod, c.podProblem = decode(w.Pod, coredefaults.SetObjectDefaults_Pod)
	for _, raw := range w.Nodes {
		node, err := decode(raw, coredefaults.SetObjectDefaults_Node)
		if err != nil {
			c.badNodes[nameOf(raw)] = err
		} else {
			c.nodes = append(c.nodes, node)
		}
	}
	c.pods = decodeAll(c, w.Pods, coredefaults.SetObjectDefaults_Pod)
	c.namespaces = decodeAll(c, w.Namespaces, coredefaults.SetObjectDefaults_Namespace)
	c.volumes = decodeAll(c, w.Volumes, coredefaults.SetObjectDefaults_PersistentVolume)
	c.claims = decodeAll(c, w.Claims, coredefaults.SetObjectDefaults_PersistentVolumeClaim)
	c.classes = decodeAll(c, w.Classes, storagedefaults.SetObjectDefaults_StorageClass)
	c.csiNodes = decodeAll(c, w.CSINodes, func(*storagev1.CSINode) {})
	return c
}

func decodeAll[T any](c *readCase, raws []json.RawMessage, setDefaults func(*T)) []*T {
	objects := make([]*T, 0, len(raws))
	for _, raw := range raws {
		object, err := decode(raw, setDefaults)
		if err != nil {
			c.unread = err
			continue
		}
		objects = append(objects, object)
	}
	return objects
}

// whyInvalid says what the API server would refuse; such an object can only come from a file or a broken store.
func (c *readCase) whyInvalid() string {
	if c.unread != nil {
		return c.unread.Error()
	}
	for _, pod := range append([]*corev1.Pod{c.pod}, c.pods...) {
		var internal core.Pod
		if err := coredefaults.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), &internal, nil); err != nil {
			return err.Error()
		}
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
		if problems := validation.ValidatePodCreate(&internal, options); len(problems) > 0 {
			return problems.ToAggregate().Error()
		}
		if hasNegativeStatus(pod) {
			return "a negative amount in the status, which no kubelet writes"
		}
	}
	for _, node := range c.nodes {
		var internal core.Node
		if err := coredefaults.Convert_v1_Node_To_core_Node(node.DeepCopy(), &internal, nil); err != nil {
			return err.Error()
		}
		if problems := validation.ValidateNode(&internal); len(problems) > 0 {
			return problems.ToAggregate().Error()
		}
	}
	return ""
}

func hasNegativeStatus(pod *corev1.Pod) bool {
	lists := []corev1.ResourceList{pod.Status.AllocatedResources}
	had := []*corev1.ResourceRequirements{pod.Status.Resources}
	for _, status := range append(append([]corev1.ContainerStatus{}, pod.Status.ContainerStatuses...), pod.Status.InitContainerStatuses...) {
		lists = append(lists, status.AllocatedResources)
		had = append(had, status.Resources)
	}
	for _, resources := range had {
		if resources != nil {
			lists = append(lists, resources.Requests)
		}
	}
	for _, list := range lists {
		for _, amount := range list {
			if amount.Sign() < 0 {
				return true
			}
		}
	}
	return false
}

// decode reads an object the way the API machinery does, with the defaults the API server would have filled in.
func decode[T any](raw json.RawMessage, setDefaults func(*T)) (object *T, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			object, err = nil, fmt.Errorf("%v", problem)
		}
	}()
	object = new(T)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return nil, err
	}
	setDefaults(object)
	return object, nil
}

func nameOf(raw json.RawMessage) string {
	var named struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(raw, &named)
	return named.Metadata.Name
}
