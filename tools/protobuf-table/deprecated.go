package main

import (
	"fmt"
	"io"
	"log"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

type deprecated interface {
	APILifecycleDeprecated() (major, minor int)
}

type removed interface {
	APILifecycleRemoved() (major, minor int)
}

type replaced interface {
	APILifecycleReplacement() schema.GroupVersionKind
}

// Writes one line for each deprecated kind: group ("" is core), version, kind, the minor release that deprecates it, and the rest of the
// warning (deprecation.WarningMessage).
func writeDeprecated(out io.Writer) {
	types := scheme.Scheme.AllKnownTypes()
	for _, kind := range registered() {
		object := reflect.New(types[kind]).Interface()
		lifecycle, isDeprecated := object.(deprecated)
		if !isDeprecated || strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		major, minor := lifecycle.APILifecycleDeprecated()
		if major == 0 && minor == 0 {
			continue
		}
		if major != 1 {
			log.Fatalf("%s is deprecated in %d.%d", kind, major, minor)
		}
		text := fmt.Sprintf("v%d.%d+", major, minor)
		if lifecycle, isRemoved := object.(removed); isRemoved {
			if major, minor := lifecycle.APILifecycleRemoved(); major != 0 || minor != 0 {
				text += fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
			}
		}
		if lifecycle, isReplaced := object.(replaced); isReplaced {
			if other := lifecycle.APILifecycleReplacement(); !other.Empty() {
				text += fmt.Sprintf("; use %s %s", other.GroupVersion(), other.Kind)
			}
		}
		group := kind.Group
		if group == "" {
			group = `""`
		}
		_, _ = fmt.Fprintln(out, group, kind.Version, kind.Kind, minor, text)
	}
}
