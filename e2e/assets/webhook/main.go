// The webhook with which Kubernetes tests its own admission webhooks, as a standalone program.
package main

import (
	"os"

	"k8s.io/kubernetes/test/images/agnhost/webhook"
)

func main() {
	if webhook.CmdWebhook.Execute() != nil {
		os.Exit(1)
	}
}
