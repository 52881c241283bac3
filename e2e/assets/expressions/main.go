// Command expressions reads a JSON object from the standard input: groups of rules as YAML, and PromQL expressions. It checks the rules as
// `promtool check rules` does, parses each expression as Prometheus does, and prints a JSON object: the errors in the rules, and for each
// expression the names of the metrics that it selects, or the error.
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

type input struct {
	Rules       string   `json:"rules"`
	Expressions []string `json:"expressions"`
}

type output struct {
	Rules       []string `json:"rules"`
	Expressions []result `json:"expressions"`
}

type result struct {
	Metrics []string `json:"metrics"`
	Error   string   `json:"error,omitempty"`
}

func main() {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	found := output{Rules: []string{}, Expressions: []result{}}
	reader := parser.NewParser(parser.Options{})
	_, errs := rulefmt.Parse([]byte(given.Rules), false, model.UTF8Validation, reader, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		found.Rules = append(found.Rules, err.Error())
	}
	for _, expression := range given.Expressions {
		found.Expressions = append(found.Expressions, read(reader, expression))
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func read(reader parser.Parser, text string) result {
	expression, err := reader.ParseExpr(text)
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
