// Command expressions reads a JSON array of PromQL expressions from the standard input, parses each as Prometheus does, and prints a JSON
// array with an object for each: the names of the metrics that it selects, or the error.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

type result struct {
	Metrics []string `json:"metrics"`
	Error   string   `json:"error,omitempty"`
}

func main() {
	var expressions []string
	if err := json.NewDecoder(os.Stdin).Decode(&expressions); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	results := []result{}
	for _, expression := range expressions {
		results = append(results, read(expression))
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func read(text string) result {
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return result{Error: err.Error()}
	}
	found := result{Metrics: []string{}}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			found.Metrics = append(found.Metrics, selector.Name)
		}
		return nil
	})
	return found
}
