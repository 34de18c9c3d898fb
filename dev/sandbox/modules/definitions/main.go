// Says what the API server of a Kubernetes version would say to CustomResourceDefinitions: it runs the validation of that
// version's own library, the estimate of what rules cost among it. Prints a line for each error; exits 1 if there is one.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	refused := false
	for _, file := range os.Args[1:] {
		problems, err := problems(scheme, file)
		if err != nil {
			problems = []string{err.Error()}
		}
		for _, problem := range problems {
			refused = true
			fmt.Printf("%s: %s\n", file, problem)
		}
	}
	if refused {
		os.Exit(1)
	}
}

func problems(scheme *runtime.Scheme, file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var definition v1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		return nil, err
	}
	v1.SetObjectDefaults_CustomResourceDefinition(&definition)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(&definition, &internal, nil); err != nil {
		return nil, err
	}
	// The API server fills this in before it validates.
	for _, version := range internal.Spec.Versions {
		if version.Storage {
			internal.Status.StoredVersions = []string{version.Name}
		}
	}
	var found []string
	for _, problem := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		found = append(found, problem.Error())
	}
	return found, nil
}
