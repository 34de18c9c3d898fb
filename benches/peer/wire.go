package main

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	namespaceKind  = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	policyKind     = schema.GroupVersionKind{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "PropagationPolicy"}
	deploymentKind = schema.GroupVersionKind{Group: "compute.datumapis.com", Version: "v1alpha", Kind: "WorkloadDeployment"}
	instanceKind   = schema.GroupVersionKind{Group: "compute.datumapis.com", Version: "v1alpha", Kind: "Instance"}
)

const (
	finalizer           = "compute.datumapis.com/federator"
	federationNamespace = "compute.datumapis.com/federation-namespace"
	upstreamCluster     = "meta.datumapis.com/upstream-cluster-name"
	upstreamNamespace   = "meta.datumapis.com/upstream-namespace"
	skipPropagation     = "namespace.karmada.io/skip-auto-propagation"
	citySet             = "fedgate.dev/cities"
	projectUID          = "fedgate.dev/project-uid"
	cityCode            = "topology.datum.net/city-code"
	sourceUID           = "fedgate.dev/source-uid"
	sourceGeneration    = "fedgate.dev/source-generation"
	deploymentName      = "compute.datumapis.com/workload-deployment-name"
)

// projectedLabels are the labels that a projection has in common with its write-back.
var projectedLabels = []string{
	upstreamCluster,
	upstreamNamespace,
	deploymentName,
	"compute.datumapis.com/workload-uid",
	"compute.datumapis.com/workload-deployment-uid",
	"compute.datumapis.com/workload-name",
	"compute.datumapis.com/placement-name",
	"compute.datumapis.com/city-code",
	"compute.datumapis.com/instance-index",
	"compute.datumapis.com/location",
}

func objectOf(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// hubNamespaceOf renders the hub's Namespace for a namespace of the project, with the city that is its first.
func (p *project) hubNamespaceOf(home, namespace, city string) *unstructured.Unstructured {
	object := objectOf(namespaceKind, "", home)
	object.SetLabels(map[string]string{
		upstreamCluster:   p.label,
		upstreamNamespace: namespace,
		skipPropagation:   "true",
		projectUID:        p.uid,
		citySet:           strings.ToLower(city),
	})
	return object
}

// policyOf renders the policy that sends a hub namespace's copies of one city to one cell there.
func policyOf(home, city string) *unstructured.Unstructured {
	labels := map[string]any{"matchLabels": map[string]any{cityCode: city}}
	object := objectOf(policyKind, home, "city-"+strings.ToLower(city))
	object.Object["spec"] = map[string]any{
		"propagateDeps": true,
		"resourceSelectors": []any{map[string]any{
			"apiVersion":    deploymentKind.GroupVersion().String(),
			"kind":          deploymentKind.Kind,
			"namespace":     home,
			"labelSelector": labels,
		}},
		"placement": map[string]any{
			"clusterAffinity": map[string]any{"labelSelector": labels},
			"spreadConstraints": []any{map[string]any{
				"spreadByField": "cluster", "minGroups": int64(1), "maxGroups": int64(1),
			}},
		},
	}
	return object
}

// copyOf renders the hub's copy of a deployment: no metadata of a tenant goes with it.
func copyOf(source *unstructured.Unstructured, home, city string) *unstructured.Unstructured {
	object := objectOf(deploymentKind, home, source.GetName())
	object.SetLabels(map[string]string{cityCode: city, upstreamNamespace: source.GetNamespace()})
	object.SetAnnotations(map[string]string{
		sourceUID:        string(source.GetUID()),
		sourceGeneration: strconv.FormatInt(source.GetGeneration(), 10),
	})
	object.Object["spec"] = source.Object["spec"]
	return object
}

// projectionOf renders the project's Instance of a write-back, with the project's deployment as its plain owner.
func projectionOf(writeBack, owner *unstructured.Unstructured) *unstructured.Unstructured {
	object := objectOf(instanceKind, owner.GetNamespace(), writeBack.GetName())
	labels := map[string]string{}
	for _, key := range projectedLabels {
		if value, found := writeBack.GetLabels()[key]; found {
			labels[key] = value
		}
	}
	object.SetLabels(labels)
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: deploymentKind.GroupVersion().String(),
		Kind:       deploymentKind.Kind,
		Name:       owner.GetName(),
		UID:        owner.GetUID(),
	}})
	object.Object["spec"] = writeBack.Object["spec"]
	return object
}
