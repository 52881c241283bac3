// Command objects reads manifests from the standard input, decodes each document strictly into its Go type, and prints the documents
// as a JSON array. A document of an unknown kind, an unknown field, a duplicate field or a wrong type is an error.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	documents, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(documents); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func read(input io.Reader) ([]json.RawMessage, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme, certmanager.AddToScheme, gateway.Install} {
		if err := add(types); err != nil {
			return nil, err
		}
	}
	documents := []json.RawMessage{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(input))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		document, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, text)
		}
		if bytes.Equal(document, []byte("null")) {
			continue
		}
		if err := decode(types, text); err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, text)
		}
		documents = append(documents, document)
	}
}

func decode(types *runtime.Scheme, text []byte) error {
	var meta runtime.TypeMeta
	if err := yaml.Unmarshal(text, &meta); err != nil {
		return err
	}
	object, err := types.New(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(text, object)
}
