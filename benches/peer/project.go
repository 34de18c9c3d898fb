package main

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// concurrency is the number of objects of one kind and project that are reconciled at once.
const concurrency = 16

// project is the control plane of one tenant, together with the hub that serves it.
type project struct {
	cluster.Cluster
	hub   cluster.Cluster
	name  string
	label string
	uid   string
}

func newProject(ctx context.Context, name string, plane, hub cluster.Cluster) (*project, error) {
	identity := metadataOf(namespaceKind)
	if err := plane.GetAPIReader().Get(ctx, client.ObjectKey{Name: "kube-system"}, identity); err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	uid := string(identity.GetUID())
	return &project{Cluster: plane, hub: hub, name: name, label: "cluster-" + name, uid: uid}, nil
}

// hubNamespace answers the name of the hub namespace for a namespace of the project.
func (p *project) hubNamespace(ctx context.Context, namespace string) (string, error) {
	object := metadataOf(namespaceKind)
	if err := p.GetClient().Get(ctx, client.ObjectKey{Name: namespace}, object); err != nil {
		return "", err
	}
	return "ns-" + string(object.GetUID()), nil
}

// home maps an object of the hub to the project's object of that name. The namespace that a label names is believed only
// if the hub namespace has its UID.
func (p *project) home(ctx context.Context, object *unstructured.Unstructured) []reconcile.Request {
	namespace := object.GetLabels()[upstreamNamespace]
	home, err := p.hubNamespace(ctx, namespace)
	if err != nil || home != object.GetNamespace() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: object.GetName()}}}
}

// returnStatus gives an object of the project the status that its counterpart on the hub has.
func (p *project) returnStatus(ctx context.Context, from, to *unstructured.Unstructured) error {
	status, _ := from.Object["status"].(map[string]any)
	if len(status) == 0 || equality.Semantic.DeepEqual(status, to.Object["status"]) {
		return nil
	}
	base := to.DeepCopy()
	to.Object["status"] = status
	return client.IgnoreNotFound(p.GetClient().Status().Patch(ctx, to, client.MergeFrom(base)))
}

// lookup answers nil if there is no such object.
func lookup(ctx context.Context, from client.Reader, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// ensure creates an object unless the cache has one of its name; another reconcile may create it at the same time.
func ensure(ctx context.Context, plane client.Client, object *unstructured.Unstructured) error {
	err := plane.Get(ctx, client.ObjectKeyFromObject(object), metadataOf(object.GroupVersionKind()))
	if apierrors.IsNotFound(err) {
		err = client.IgnoreAlreadyExists(plane.Create(ctx, object))
	}
	return err
}

// update writes what found lacks of wanted, if anything: the whole spec and owners, and wanted's own labels and annotations.
func update(ctx context.Context, plane client.Client, found, wanted *unstructured.Unstructured) error {
	base := found.DeepCopy()
	found.Object["spec"] = wanted.Object["spec"]
	found.SetLabels(merged(found.GetLabels(), wanted.GetLabels()))
	found.SetAnnotations(merged(found.GetAnnotations(), wanted.GetAnnotations()))
	if owners := wanted.GetOwnerReferences(); len(owners) > 0 {
		found.SetOwnerReferences(owners)
	}
	if equality.Semantic.DeepEqual(base, found) {
		return nil
	}
	return plane.Patch(ctx, found, locked(base))
}

// locked is a merge patch that a server refuses if the object is not as it was read: lists are replaced as a whole.
func locked(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}

// remove deletes this object and none that has taken its name since.
func remove(ctx context.Context, plane client.Client, object client.Object) error {
	return client.IgnoreNotFound(plane.Delete(ctx, object, client.Preconditions{UID: new(object.GetUID())}))
}

func merged(found, wanted map[string]string) map[string]string {
	if found == nil {
		return wanted
	}
	maps.Copy(found, wanted)
	return found
}
