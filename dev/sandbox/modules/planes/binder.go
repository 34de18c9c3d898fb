package main

import (
	"context"
	"flag"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// When a Pod that could not be bound is tried again.
const tryAgain = 2 * time.Second

// Binds each Pod to the cell's one Node, in place of kube-scheduler: with one Node without limits there is nothing to choose.
func runBinder(args []string) error {
	flags := flag.NewFlagSet("pod-binder", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cell")
	node := flags.String("node", "", "the cell's Node")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := configOf(*kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := untilEnded()
	defer stop()
	bind := func(object any) {
		if pod, ok := object.(*core.Pod); ok {
			bindPod(ctx, client, pod, *node)
		}
	}
	unbound := informers.WithTweakListOptions(func(options *meta.ListOptions) { options.FieldSelector = "spec.nodeName=" })
	factory := informers.NewSharedInformerFactoryWithOptions(client, tryAgain, unbound)
	handler := cache.ResourceEventHandlerFuncs{AddFunc: bind, UpdateFunc: func(_, object any) { bind(object) }}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(handler); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

func bindPod(ctx context.Context, client kubernetes.Interface, pod *core.Pod, node string) {
	if pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 {
		return
	}
	binding := &core.Binding{
		ObjectMeta: meta.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     core.ObjectReference{Kind: "Node", Name: node},
	}
	err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, meta.CreateOptions{})
	if err != nil && !errors.IsNotFound(err) && !errors.IsConflict(err) {
		klog.ErrorS(err, "the Pod is not bound", "pod", klog.KObj(pod))
	}
}
