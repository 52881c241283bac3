//go:build kubernetes_1_37

package main

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apiserver/pkg/cel/common"
)

// The value of an object of a built-in kind in policies.
func builtIn(object any) (any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var deployment appsv1.Deployment
	if err := json.Unmarshal(text, &deployment); err != nil {
		return nil, err
	}
	return common.SchemalessTypedToVal(&deployment), nil
}
