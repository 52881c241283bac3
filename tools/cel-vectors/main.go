// Evaluates expressions as Kubernetes does: reads one JSON object per line from stdin, and writes one per line to stdout. go.mod has the
// modules of 1.36; `-modfile=kubernetes-1.37.mod -tags=kubernetes_1_37` builds the program of 1.37.
//
//	{"expression": "object.spec.replicas + 1", "environment": "validation", "object": {…}, "oldObject": {…}, "params": {…},
//	 "request": {…}, "namespaceObject": {…}}
//
// `environment` is validation (the default), mutation (patch types), noauthorizer, or stored (functions that the release introduces). With
// "builtIn" the object is a Go value of the kind Deployment. Missing values are null; the request has a default.
// With a "schema" (an openAPIV3Schema) the expression is a rule of custom resources, over "self" and "oldSelf", and the result has its
// "estimate" too; schema.go also evaluates whole definitions. The result repeats the expression and has either "compileError", or "type"
// and "cost" and one of "error" and "value" (JSON if the value has a JSON form) with "string" (Go's text).
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type question struct {
	Expression      string         `json:"expression"`
	Environment     string         `json:"environment,omitempty"`
	BuiltIn         bool           `json:"builtIn,omitempty"`
	Object          any            `json:"object,omitempty"`
	OldObject       any            `json:"oldObject,omitempty"`
	Params          any            `json:"params,omitempty"`
	Request         map[string]any `json:"request,omitempty"`
	NamespaceObject any            `json:"namespaceObject,omitempty"`
	custom
}

type answer struct {
	Expression   string          `json:"expression"`
	CompileError string          `json:"compileError,omitempty"`
	Type         string          `json:"type,omitempty"`
	Value        json.RawMessage `json:"value,omitempty"`
	String       string          `json:"string,omitempty"`
	Error        string          `json:"error,omitempty"`
	Cost         *uint64         `json:"cost,omitempty"`
	Estimate     []uint64        `json:"estimate,omitempty"`
	Errors       []string        `json:"errors,omitempty"`
}

type accessor string

func (a accessor) GetExpression() string    { return string(a) }
func (a accessor) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }

// Allows requests in the namespace "allowed", fails in "broken", has no opinion on other namespaces.
type rule struct{}

func (rule) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch a.GetNamespace() {
	case "allowed":
		return authorizer.DecisionAllow, "it is allowed", nil
	case "broken":
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("it is broken")
	}
	return authorizer.DecisionNoOpinion, "nothing says so", nil
}

// Numbers as Kubernetes decodes JSON: int64 where they fit, float64 otherwise.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return v
}

func nilable(v any) any {
	if m, ok := v.(map[string]any); ok && m == nil {
		return nil
	}
	return numbers(v)
}

// The release whose functions new expressions may use: in a server of 1.37 too, so that a cluster can go back.
var compatibility = version.MajorMinor(1, 36)

func main() {
	compiler := plugincel.NewCompiler(environment.MustBaseEnvSet(compatibility))
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		var q question
		decoder := json.NewDecoder(bytes.NewReader(in.Bytes()))
		decoder.UseNumber()
		if err := decoder.Decode(&q); err != nil {
			fmt.Fprintln(os.Stderr, "not a question:", err)
			os.Exit(1)
		}
		switch {
		case q.Definition != nil:
			encoder.Encode(askDefinition(q))
		case q.Schema != nil:
			encoder.Encode(askSchema(q))
		default:
			encoder.Encode(ask(compiler, q))
		}
		if in.Err() == nil {
			out.Flush()
		}
	}
}

func ask(compiler plugincel.Compiler, q question) (a answer) {
	a.Expression = q.Expression
	declarations := plugincel.OptionalVariableDeclarations{
		HasParams: true, HasAuthorizer: q.Environment != "noauthorizer", HasPatchTypes: q.Environment == "mutation",
	}
	expressions := environment.NewExpressions
	if q.Environment == "stored" {
		expressions = environment.StoredExpressions
	}
	result := compiler.CompileCELExpression(accessor(q.Expression), declarations, expressions)
	if result.Error != nil {
		a.CompileError = result.Error.Error()
		return a
	}
	a.Type = result.OutputType.String()
	if q.Request == nil {
		q.Request = map[string]any{
			"uid": "u", "kind": map[string]any{"group": "apps", "version": "v1", "kind": "Deployment"},
			"resource":        map[string]any{"group": "apps", "version": "v1", "resource": "deployments"},
			"requestKind":     map[string]any{"group": "apps", "version": "v1", "kind": "Deployment"},
			"requestResource": map[string]any{"group": "apps", "version": "v1", "resource": "deployments"},
			"name":            "web", "namespace": "default", "operation": "CREATE", "dryRun": false,
			"userInfo": map[string]any{"username": "alice", "groups": []any{"dev", "system:authenticated"},
				"extra": map[string]any{"k": []any{"v"}}},
			"options": map[string]any{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
		}
	}
	caller := &user.DefaultInfo{Name: "alice", Groups: []string{"dev"}}
	attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		"default", "web", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "", admission.Create, nil, false, caller)
	variables := map[string]any{
		"object": nilable(q.Object), "oldObject": nilable(q.OldObject), "params": nilable(q.Params),
		"request": numbers(q.Request), "namespaceObject": nilable(q.NamespaceObject),
		"authorizer":                 library.NewAuthorizerVal(caller, rule{}),
		"authorizer.requestResource": library.NewResourceAuthorizerVal(caller, rule{}, attributes),
	}
	if q.BuiltIn {
		var err error
		if variables["object"], err = builtIn(q.Object); err != nil {
			fmt.Fprintln(os.Stderr, "not a Deployment:", err)
			os.Exit(1)
		}
	}
	value, details, err := result.Program.ContextEval(context.Background(), variables)
	if details != nil {
		a.Cost = details.ActualCost()
	}
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.show(value)
	return a
}

// Records a value, in JSON if it has a JSON form.
func (a *answer) show(value ref.Val) {
	a.String = fmt.Sprint(value.Value())
	var native any
	var err error
	if value.Type().TypeName() == "Object" {
		native, err = value.ConvertToNative(reflect.TypeFor[*structpb.Struct]())
	} else {
		native, err = value.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	}
	if message, ok := native.(proto.Message); ok && err == nil {
		if text, err := protojson.Marshal(message); err == nil {
			a.Value = text
		}
	}
}
