package main

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// deployments carries a project's deployments to the hub, and their status back.
type deployments struct{ *project }

// relevant leaves out updates of metadata alone, such as the one that the finalizer itself makes.
var relevant = predicate.TypedFuncs[*unstructured.Unstructured]{
	UpdateFunc: func(e event.TypedUpdateEvent[*unstructured.Unstructured]) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!equality.Semantic.DeepEqual(e.ObjectOld.Object["status"], e.ObjectNew.Object["status"])
	},
}

func (p *project) addDeployments(mgr manager.Manager) error {
	kind := objectOf(deploymentKind, "", "")
	return ctrl.NewControllerManagedBy(mgr).
		Named("deployments-" + p.name).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		WatchesRawSource(source.Kind(p.GetCache(), kind, &handler.TypedEnqueueRequestForObject[*unstructured.Unstructured]{}, relevant)).
		WatchesRawSource(source.Kind(p.hub.GetCache(), kind, handler.TypedEnqueueRequestsFromMapFunc(p.home))).
		Complete(&deployments{p})
}

// Reconcile makes the hub's copy what the project's deployment says, and the deployment's status what the copy says.
func (d *deployments) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	source, err := lookup(ctx, d.GetClient(), deploymentKind, request.Namespace, request.Name)
	if err != nil || source == nil {
		return reconcile.Result{}, err
	}
	home, err := d.hubNamespace(ctx, request.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	if source.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, d.withdraw(ctx, source, home)
	}
	city, _, _ := unstructured.NestedString(source.Object, "spec", "cityCode")
	if city == "" {
		return reconcile.Result{}, reconcile.TerminalError(errors.New("spec.cityCode names no city"))
	}
	if err := d.announce(ctx, source, home); err != nil {
		return reconcile.Result{}, err
	}
	copied, err := d.carry(ctx, source, home, city)
	if err != nil || copied == nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, d.returnStatus(ctx, copied, source)
}

// announce puts finalizer and hub namespace on a deployment, before anything of it is on the hub.
func (d *deployments) announce(ctx context.Context, source *unstructured.Unstructured, home string) error {
	if controllerutil.ContainsFinalizer(source, finalizer) && source.GetAnnotations()[federationNamespace] == home {
		return nil
	}
	base := source.DeepCopy()
	controllerutil.AddFinalizer(source, finalizer)
	source.SetAnnotations(merged(source.GetAnnotations(), map[string]string{federationNamespace: home}))
	return d.GetClient().Patch(ctx, source, locked(base))
}

// carry answers the copy; nil if it was made just now, and an event will tell of it.
func (d *deployments) carry(ctx context.Context, source *unstructured.Unstructured, home, city string) (*unstructured.Unstructured, error) {
	hub := d.hub.GetClient()
	if err := ensure(ctx, hub, d.hubNamespaceOf(home, source.GetNamespace(), city)); err != nil {
		return nil, err
	}
	if err := ensure(ctx, hub, policyOf(home, city)); err != nil {
		return nil, err
	}
	wanted := copyOf(source, home, city)
	copied, err := lookup(ctx, hub, deploymentKind, home, source.GetName())
	if err != nil {
		return nil, err
	}
	if copied == nil {
		return nil, client.IgnoreAlreadyExists(hub.Create(ctx, wanted))
	}
	return copied, update(ctx, hub, copied, wanted)
}

// withdraw deletes the copy, and takes the finalizer off once an event has told that the copy is gone.
func (d *deployments) withdraw(ctx context.Context, source *unstructured.Unstructured, home string) error {
	if !controllerutil.ContainsFinalizer(source, finalizer) {
		return nil
	}
	copied, err := lookup(ctx, d.hub.GetClient(), deploymentKind, home, source.GetName())
	if err == nil && copied == nil {
		// The cache may lag behind a copy that was made just now, so the hub itself has to say that there is none.
		copied, err = lookup(ctx, d.hub.GetAPIReader(), deploymentKind, home, source.GetName())
	}
	if err != nil {
		return err
	}
	if copied != nil {
		if copied.GetDeletionTimestamp() != nil {
			return nil
		}
		return remove(ctx, d.hub.GetClient(), copied)
	}
	base := source.DeepCopy()
	controllerutil.RemoveFinalizer(source, finalizer)
	return client.IgnoreNotFound(d.GetClient().Patch(ctx, source, locked(base)))
}
