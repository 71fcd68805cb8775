package main

// The world one case describes, in the shapes the scheduler's plugins look at.

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
)

// world is what the plugins were built on; its contents are replaced for every case.
type world struct {
	fwk.Handle // the methods that filters never call stay nil
	factory    informers.SharedInformerFactory
	csiNodes   fwk.CSIManager
	nodes      []fwk.NodeInfo
	byName     map[string]fwk.NodeInfo
	anti       []fwk.NodeInfo
	usedClaims sets.Set[string]
}

func newWorld() *world {
	factory := informers.NewSharedInformerFactory(nil, 0)
	return &world{
		factory:  factory,
		csiNodes: nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister()),
	}
}

func (w *world) SnapshotSharedLister() fwk.SharedLister                 { return w }
func (w *world) SharedInformerFactory() informers.SharedInformerFactory { return w.factory }
func (w *world) SharedCSIManager() fwk.CSIManager                       { return w.csiNodes }
func (w *world) ClientSet() kubernetes.Interface                        { return nil }
func (w *world) SharedDRAManager() fwk.SharedDRAManager                 { return nil }
func (w *world) Parallelizer() fwk.Parallelizer                         { return serially{} }

func (w *world) NodeInfos() fwk.NodeInfoLister                     { return w }
func (w *world) StorageInfos() fwk.StorageInfoLister               { return w }
func (w *world) PodGroupStates() fwk.PodGroupStateLister           { return nil }
func (w *world) List() ([]fwk.NodeInfo, error)                     { return w.nodes, nil }
func (w *world) IsPVCUsedByPods(key string) bool                   { return w.usedClaims.Has(key) }
func (w *world) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return w.nodes, nil }
func (w *world) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return w.anti, nil
}

func (w *world) Get(name string) (fwk.NodeInfo, error) {
	if info, ok := w.byName[name]; ok {
		return info, nil
	}
	return nil, fmt.Errorf("no node %q", name)
}

// serially does the plugins' work in order: the cases are small and many.
type serially struct{}

func (serially) Until(_ context.Context, pieces int, work workqueue.DoWorkPieceFunc, _ string) {
	for piece := range pieces {
		work(piece)
	}
}

// show makes the world hold these objects and no others.
func (w *world) show(c *readCase) {
	w.nodes, w.anti = nil, nil
	w.byName = map[string]fwk.NodeInfo{}
	w.usedClaims = sets.New[string]()
	infos := map[string]*framework.NodeInfo{}
	for _, node := range c.nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		infos[node.Name] = info
		w.byName[node.Name] = info
		w.nodes = append(w.nodes, info)
	}
	for _, pod := range c.pods {
		if info, ok := infos[pod.Spec.NodeName]; ok && !isFinished(pod) {
			info.AddPod(pod)
			w.noteClaims(pod)
		}
	}
	for _, info := range w.nodes {
		if len(info.GetPodsWithRequiredAntiAffinity()) > 0 {
			w.anti = append(w.anti, info)
		}
	}
	w.replaceListed(c)
}

// isFinished tells the pods that the scheduler's own watch leaves out.
func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (w *world) noteClaims(pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			w.usedClaims.Insert(framework.GetNamespacedName(pod.Namespace, claim.ClaimName))
		}
	}
}

func (w *world) replaceListed(c *readCase) {
	core, storage := w.factory.Core().V1(), w.factory.Storage().V1()
	replace(core.Namespaces().Informer(), c.namespaces)
	replace(core.PersistentVolumes().Informer(), c.volumes)
	replace(core.PersistentVolumeClaims().Informer(), c.claims)
	replace[*storagev1.StorageClass](storage.StorageClasses().Informer(), c.classes)
	replace[*storagev1.CSINode](storage.CSINodes().Informer(), c.csiNodes)
}

func replace[T any](informer cache.SharedIndexInformer, objects []T) {
	listed := make([]any, 0, len(objects))
	for _, object := range objects {
		listed = append(listed, object)
	}
	if err := informer.GetIndexer().Replace(listed, ""); err != nil {
		panic(err)
	}
}
