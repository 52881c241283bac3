package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// A question about custom resources: an expression over a schema; or the errors of a CustomResourceDefinition ("definition") and, if it has
// none, of an object by the rules of its first version ("object"). The errors are those of the schema only, sorted.
type custom struct {
	Schema          *v1.JSONSchemaProps          `json:"schema,omitempty"`
	Self            any                          `json:"self,omitempty"`
	OldSelf         any                          `json:"oldSelf,omitempty"`
	OptionalOldSelf bool                         `json:"optionalOldSelf,omitempty"`
	Definition      *v1.CustomResourceDefinition `json:"definition,omitempty"`
}

func structural(of *v1.JSONSchemaProps) (*schema.Structural, error) {
	var internal apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(of, &internal, nil); err != nil {
		return nil, err
	}
	return schema.NewStructural(&internal)
}

// Sizes as in the validation of CustomResourceDefinitions: `schema/cel.sizeEstimator`.
type sizes struct{ root *apiservercel.DeclType }

func (s sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func (s sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 {
		return nil
	}
	at := s.root
	for _, part := range path[1:] {
		switch part {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			field, found := at.Fields[part]
			if !found {
				return nil
			}
			at = field.Type
		}
		if at == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Max: uint64(at.MaxElements)}
}

func askSchema(q question) (a answer) {
	a.Expression = q.Expression
	of, err := structural(q.Schema)
	if err != nil {
		a.CompileError = "schema: " + err.Error()
		return a
	}
	declared := model.SchemaDeclType(of, true)
	if declared == nil {
		a.CompileError = "schema: no declaration"
		return a
	}
	named := declared.MaybeAssignTypeName("selfType")
	old := named.CelType()
	if q.OptionalOldSelf {
		old = types.NewOptionalType(old)
	}
	set, err := environment.MustBaseEnvSet(compatibility).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("self", named.CelType()), cel.Variable("oldSelf", old)},
		DeclTypes:         []*apiservercel.DeclType{named},
	})
	if err != nil {
		a.CompileError = "environment: " + err.Error()
		return a
	}
	env := set.NewExpressionsEnv()
	ast, issues := env.Compile(q.Expression)
	if issues != nil {
		a.CompileError = issues.String()
		return a
	}
	a.Type = ast.OutputType().String()
	estimator := &library.CostEstimator{SizeEstimator: sizes{declared}}
	program, err := env.Program(ast, cel.CostLimit(celconfig.PerCallLimit), cel.CostTracking(estimator),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		a.CompileError = "program instantiation failed: " + err.Error()
		return a
	}
	estimate, err := env.EstimateCost(ast, estimator)
	if err != nil {
		a.CompileError = "estimate: " + err.Error()
		return a
	}
	a.Estimate = []uint64{estimate.Min, estimate.Max}
	if q.Self == nil {
		return a
	}
	root := model.WithTypeAndObjectMeta(of)
	variables := map[string]any{"self": schemacel.UnstructuredToVal(numbers(q.Self), root)}
	if q.OldSelf != nil {
		value := schemacel.UnstructuredToVal(numbers(q.OldSelf), root)
		if q.OptionalOldSelf {
			variables["oldSelf"] = types.OptionalOf(value)
		} else {
			variables["oldSelf"] = value
		}
	} else if q.OptionalOldSelf {
		variables["oldSelf"] = types.OptionalNone
	}
	value, details, err := program.ContextEval(context.Background(), variables)
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

func askDefinition(q question) (a answer) {
	a.Expression = q.Expression
	scheme := runtime.NewScheme()
	install.Install(scheme)
	v1.SetDefaults_CustomResourceDefinition(q.Definition)
	scheme.Default(q.Definition)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(q.Definition, &internal, nil); err != nil {
		a.CompileError = err.Error()
		return a
	}
	for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		if strings.Contains(err.Field, "openAPIV3Schema") {
			a.Errors = append(a.Errors, err.Error())
		}
	}
	sort.Strings(a.Errors)
	if len(a.Errors) > 0 || q.Object == nil {
		return a
	}
	of, err := structural(q.Definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		a.CompileError = "schema: " + err.Error()
		return a
	}
	validator := schemacel.NewValidator(of, true, celconfig.PerCallLimit)
	found, remaining := validator.Validate(context.Background(), nil, of, numbers(q.Object), nil, celconfig.RuntimeCELCostBudget)
	for _, err := range found {
		a.Errors = append(a.Errors, err.Error())
	}
	sort.Strings(a.Errors)
	a.String = fmt.Sprint(remaining)
	return a
}
