// Command feature-gates prints the feature gates of kube-apiserver, in the release of its modules, one JSON object in each line. Its record.py
// runs it with the modules of each release.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	baseversion "k8s.io/component-base/version"

	_ "k8s.io/kubernetes/pkg/features"
)

// The oldest release whose gates are printed.
const oldest = 34

type stage struct {
	Release          uint   `json:"release"`
	MinCompatibility uint   `json:"minCompatibility"`
	Facts            string `json:"facts"`
}

type gate struct {
	Name         string                `json:"name"`
	Stages       []stage               `json:"stages"`
	Dependencies []featuregate.Feature `json:"dependencies"`
}

func main() {
	gates := utilfeature.DefaultMutableFeatureGate
	// As in kube-apiserver's server.go and in k8s.io/apiserver/pkg/server.NewConfig.
	runtime.Must(logsapi.AddFeatureGates(gates))
	runtime.Must(metricsfeatures.AddFeatureGates(gates))
	// Releases before 1.35 have no dependencies.
	var dependencies map[featuregate.Feature][]featuregate.Feature
	if known, ok := gates.(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	}); ok {
		dependencies = known.Dependencies()
	}
	newest := version.MustParse(baseversion.DefaultKubeBinaryVersion).Minor()
	output := json.NewEncoder(os.Stdout)
	for name, specs := range gates.GetAllVersioned() {
		if name == "AllAlpha" || name == "AllBeta" {
			continue
		}
		printed := gate{Name: string(name), Dependencies: slices.Sorted(slices.Values(dependencies[name]))}
		for release := uint(oldest); release <= newest; release++ {
			for compatible := uint(oldest - 1); compatible <= release; compatible++ {
				facts, ok := at(specs, release, compatible)
				if last := len(printed.Stages) - 1; ok && (compatible == oldest-1 || printed.Stages[last].Facts != facts) {
					printed.Stages = append(printed.Stages, stage{release, compatible, facts})
				}
			}
		}
		if err := output.Encode(printed); err != nil {
			panic(err)
		}
	}
}

// at is featureSpecAtEmulationAndMinCompatVersion.
func at(specs featuregate.VersionedSpecs, release, compatible uint) (string, bool) {
	for _, spec := range slices.Backward(specs) {
		if spec.Version.Minor() > release {
			continue
		}
		// Releases before 1.35 lack the field.
		field := reflect.ValueOf(spec).FieldByName("MinCompatibilityVersion")
		if field.IsValid() {
			if needed, ok := field.Interface().(*version.Version); ok && needed != nil && needed.Minor() > compatible {
				continue
			}
		}
		return text(spec), true
	}
	return "", false
}

func text(spec featuregate.FeatureSpec) string {
	stages := map[string]string{"ALPHA": "Alpha", "BETA": "Beta", "": "GA", "DEPRECATED": "Deprecated"}
	facts := fmt.Sprintf("%t/%s", spec.Default, stages[string(spec.PreRelease)])
	if spec.LockToDefault {
		facts += "/locked"
	}
	return facts
}
