package main

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// instances projects the write-backs of a project's deployments into the project.
type instances struct{ *project }

func (p *project) addInstances(mgr manager.Manager) error {
	kind := objectOf(instanceKind, "", "")
	return ctrl.NewControllerManagedBy(mgr).
		Named("instances-" + p.name).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		WatchesRawSource(source.Kind(p.GetCache(), kind, &handler.TypedEnqueueRequestForObject[*unstructured.Unstructured]{})).
		WatchesRawSource(source.Kind(p.hub.GetCache(), kind, handler.TypedEnqueueRequestsFromMapFunc(p.home))).
		Complete(&instances{p})
}

// Reconcile makes a projection what its write-back says, and deletes one that has lost its write-back.
func (i *instances) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	home, err := i.hubNamespace(ctx, request.Namespace)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	projection, err := lookup(ctx, i.GetClient(), instanceKind, request.Namespace, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if projection != nil && projection.GetLabels()[upstreamCluster] != i.label {
		// A tenant may have an Instance of that name.
		return reconcile.Result{}, nil
	}
	writeBack, err := lookup(ctx, i.hub.GetClient(), instanceKind, home, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if writeBack != nil {
		return reconcile.Result{}, i.write(ctx, writeBack, projection, request.Namespace)
	}
	if projection != nil && projection.GetDeletionTimestamp() == nil {
		return reconcile.Result{}, remove(ctx, i.GetClient(), projection)
	}
	return reconcile.Result{}, nil
}

// write brings a projection, nil if there is none yet, up to date. Without a live deployment there is nothing that could
// own it: its write-back goes with the copy.
func (i *instances) write(ctx context.Context, writeBack, projection *unstructured.Unstructured, namespace string) error {
	labels := writeBack.GetLabels()
	if labels[upstreamCluster] != i.label || labels[upstreamNamespace] != namespace {
		return nil
	}
	owner, err := lookup(ctx, i.GetClient(), deploymentKind, namespace, labels[deploymentName])
	if err != nil || owner == nil || owner.GetDeletionTimestamp() != nil {
		return err
	}
	wanted := projectionOf(writeBack, owner)
	if projection == nil {
		if err := i.GetClient().Create(ctx, wanted); err != nil {
			// A projection that the cache does not have yet wakes this key once it has.
			return client.IgnoreAlreadyExists(err)
		}
		return i.returnStatus(ctx, writeBack, wanted)
	}
	if err := update(ctx, i.GetClient(), projection, wanted); err != nil {
		return err
	}
	return i.returnStatus(ctx, writeBack, projection)
}
