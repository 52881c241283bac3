// Writes src/cli/apiserver/flags.txt: every flag of kube-apiserver, hidden ones included. A line has the group of the flag, its name, the type of
// its value, and `optional` if the flag can be given without a value.
//
//	go run -modfile=../../e2e/assets/go.mod . > ../../src/cli/apiserver/flags.txt
package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

func main() {
	groups := options.NewServerRunOptions().Flags()
	group := func(name string) string {
		for _, each := range groups.Order {
			if groups.FlagSets[each].Lookup(name) != nil {
				return strings.ReplaceAll(each, " ", "-")
			}
		}
		return "global"
	}
	app.NewAPIServerCommand().Flags().VisitAll(func(flag *pflag.Flag) {
		line := []string{group(flag.Name), flag.Name, flag.Value.Type()}
		if flag.NoOptDefVal != "" {
			line = append(line, "optional")
		}
		fmt.Println(strings.Join(line, " "))
	})
}
