//go:build kubernetes_1_37

package main

import (
	"context"

	"k8s.io/apiserver/pkg/registry/rest"
	lifecycle "k8s.io/kubernetes/pkg/registry/lifecycle/rest"
)

// The groups that 1.37 added.
var providersOfRelease = []provider{lifecycle.RESTStorageProvider{}}

func allowsCreateOnUpdate(strategy rest.RESTUpdateStrategy) bool {
	return strategy.AllowCreateOnUpdate(context.Background())
}

func allowsUnconditionalUpdate(strategy rest.RESTUpdateStrategy) bool {
	return strategy.AllowUnconditionalUpdate(context.Background())
}
