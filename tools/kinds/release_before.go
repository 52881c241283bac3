//go:build !kubernetes_1_37

package main

import "k8s.io/apiserver/pkg/registry/rest"

// The groups that a later release has.
var providersOfRelease []provider

func allowsCreateOnUpdate(strategy rest.RESTUpdateStrategy) bool {
	return strategy.AllowCreateOnUpdate()
}

func allowsUnconditionalUpdate(strategy rest.RESTUpdateStrategy) bool {
	return strategy.AllowUnconditionalUpdate()
}
