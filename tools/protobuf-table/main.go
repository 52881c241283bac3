// Command protobuf-table writes the table of Kubernetes' protobuf encoding for crates/kubernetes-object/src/protobuf.rs: the messages of
// all kinds that kube-apiserver registers, read by reflection from the Go types.
//
//	go run . >../../crates/kubernetes-object/src/protobuf/messages.txt.gz
//
// With -objects it writes random objects in both encodings instead, for the decoder's test:
//
//	go run . -objects 1 >../../crates/kubernetes-object/src/protobuf/objects.gz
//
// With -types it writes the table of the Go types for crates/kubernetes-object/src/typed.rs:
//
//	go run . -types >../../crates/kubernetes-object/src/typed/types.txt
//
// With -deprecated it writes the deprecated kinds for crates/kubernetes-object/src/version.rs:
//
//	go run . -deprecated >../../crates/kubernetes-object/src/deprecated.txt
//
// With -cases it writes random JSON documents of every kind with Go's results, for the test of crates/kubernetes-object/src/typed.rs:
//
//	go run . -cases 1 | gzip -9n >../../crates/kubernetes-object/src/typed/cases.gz
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"reflect"
	"sort"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Types with an encoding of their own, by the names that the decoder expects.
var special = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():                                  "time",
	reflect.TypeFor[meta.MicroTime]():                             "microtime",
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "int-or-string",
	reflect.TypeFor[runtime.RawExtension]():                       "raw",
	reflect.TypeFor[meta.FieldsV1]():                              "raw",
	reflect.TypeFor[apiextensions.JSON]():                         "json",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "schema-or-bool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "schema-or-array",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "schema-or-strings",
}

// Kinds of every version of every group.
var everywhere = map[string]bool{
	"CreateOptions": true, "DeleteOptions": true, "GetOptions": true, "ListOptions": true, "PatchOptions": true,
	"UpdateOptions": true, "WatchEvent": true,
}

// Kinds of answers, which no body contains.
var answers = []struct {
	name   string
	goType reflect.Type
}{
	{"apidiscovery.k8s.io/v2/APIGroupDiscoveryList", reflect.TypeFor[apidiscovery.APIGroupDiscoveryList]()},
	{"meta.k8s.io/v1/PartialObjectMetadata", reflect.TypeFor[meta.PartialObjectMetadata]()},
	{"meta.k8s.io/v1/PartialObjectMetadataList", reflect.TypeFor[meta.PartialObjectMetadataList]()},
	{"meta.k8s.io/v1beta1/PartialObjectMetadata", reflect.TypeFor[metav1beta1.PartialObjectMetadata]()},
	{"meta.k8s.io/v1beta1/PartialObjectMetadataList", reflect.TypeFor[metav1beta1.PartialObjectMetadataList]()},
}

type message interface{ Unmarshal([]byte) error }

var messageType = reflect.TypeFor[message]()

type table struct {
	messages map[string]reflect.Type
	kinds    map[reflect.Type][]string
}

func main() {
	log.SetFlags(0)
	objects := flag.Int("objects", 0, "write this many random objects of every kind instead of the table")
	cases := flag.Int("cases", 0, "write this many documents of every kind instead of the table")
	seed := flag.Uint64("seed", 1, "where the random objects begin")
	types := flag.Bool("types", false, "write the Go types instead of the table")
	deprecated := flag.Bool("deprecated", false, "write the deprecated kinds instead of the table")
	flag.Parse()
	for _, register := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := register(scheme.Scheme); err != nil {
			log.Fatal(err)
		}
	}
	if *types {
		// The responses of webhooks.
		for version, review := range map[schema.GroupVersion]runtime.Object{
			admissionv1.SchemeGroupVersion:          &admissionv1.AdmissionReview{},
			admissionv1beta1.SchemeGroupVersion:     &admissionv1beta1.AdmissionReview{},
			apiextensionsv1beta1.SchemeGroupVersion: &apiextensionsv1beta1.ConversionReview{},
		} {
			scheme.Scheme.AddKnownTypes(version, review)
		}
		writeTypes(os.Stdout)
		return
	}
	if *deprecated {
		writeDeprecated(os.Stdout)
		return
	}
	if *cases > 0 {
		writeCases(os.Stdout, *cases, *seed)
		return
	}
	var text bytes.Buffer
	if *objects > 0 {
		writeObjects(&text, *objects, *seed)
	} else {
		writeTable(&text)
	}
	writer, err := gzip.NewWriterLevel(os.Stdout, gzip.BestCompression)
	if err == nil {
		_, err = io.Copy(writer, &text)
	}
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Returns every kind that a body can contain, sorted.
func registered() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal && reflect.PointerTo(goType).Implements(messageType) {
			kinds = append(kinds, kind)
		}
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	return kinds
}

func writeTable(out io.Writer) {
	all := table{messages: map[string]reflect.Type{}, kinds: map[reflect.Type][]string{}}
	types := scheme.Scheme.AllKnownTypes()
	for _, kind := range registered() {
		goType := types[kind]
		all.add(goType)
		name := kind.Group + "/" + kind.Version + "/" + kind.Kind
		if everywhere[kind.Kind] {
			name = "*/*/" + kind.Kind
		}
		if found := all.kinds[goType]; len(found) == 0 || found[len(found)-1] != name {
			all.kinds[goType] = append(found, name)
		}
	}
	for _, answer := range answers {
		all.add(answer.goType)
		all.kinds[answer.goType] = append(all.kinds[answer.goType], answer.name)
	}
	all.add(reflect.TypeFor[apiextensions.JSONSchemaProps]())
	names := make([]string, 0, len(all.messages))
	for name := range all.messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		goType := all.messages[name]
		fmt.Fprintln(out, strings.Join(append([]string{"=", name}, all.kinds[goType]...), " "))
		for _, line := range all.fields(goType) {
			fmt.Fprintln(out, line)
		}
	}
}

func nameOf(goType reflect.Type) string {
	path := strings.Split(goType.PkgPath(), "/")
	if len(path) > 2 {
		path = path[len(path)-2:]
	}
	return strings.Join(append(path, goType.Name()), ".")
}

// Adds a message and all messages in it.
func (all *table) add(goType reflect.Type) {
	name := nameOf(goType)
	if found, ok := all.messages[name]; ok {
		if found != goType {
			log.Fatalf("two types are called %s", name)
		}
		return
	}
	all.messages[name] = goType
	all.fields(goType)
}

func (all *table) fields(goType reflect.Type) []string {
	var lines []string
	numbers := map[string]int{}
	for i := range goType.NumField() {
		field := goType.Field(i)
		line, number := all.field(goType, field)
		if line == "" {
			continue
		}
		lines = append(lines, line)
		numbers[line] = number
	}
	sort.SliceStable(lines, func(i, j int) bool { return numbers[lines[i]] < numbers[lines[j]] })
	return lines
}

func (all *table) field(owner reflect.Type, field reflect.StructField) (string, int) {
	tag, isJSON := field.Tag.Lookup("json")
	name, options, _ := strings.Cut(tag, ",")
	inline := field.Anonymous && name == ""
	wire := strings.Split(field.Tag.Get("protobuf"), ",")
	number := 0
	if len(wire) > 1 {
		if _, err := fmt.Sscan(wire[1], &number); err != nil {
			log.Fatal(err)
		}
	}
	switch {
	case number == 0 && field.Type == reflect.TypeFor[meta.TypeMeta]():
		return "", 0
	case number == 0:
		log.Fatalf("%s.%s has no number", owner, field.Name)
	case !isJSON || name == "-" || (name == "" && !inline):
		log.Fatalf("%s.%s has no JSON name", owner, field.Name)
	}
	goType, flags := field.Type, ""
	if goType.Kind() == reflect.Pointer {
		goType, flags = goType.Elem(), "p"
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			flags += "o"
		case "omitzero":
			flags += "z"
		case "inline", "":
		default:
			log.Fatalf("%s.%s has the option %s", owner, field.Name, option)
		}
	}
	if inline {
		name, flags = "*", flags+"i"
	}
	line := fmt.Sprintf("%d %s %s", number, name, all.shape(goType))
	if flags == "" {
		flags = "-"
	}
	line += " " + flags
	if field.Name != strings.ToUpper(name[:1])+name[1:] {
		line += " " + field.Name
	}
	return line, number
}

func (all *table) shape(goType reflect.Type) string {
	if name, ok := special[goType]; ok {
		return name
	}
	switch goType.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return goType.Kind().String()
	case reflect.Slice:
		if reflect.PointerTo(goType).Implements(messageType) {
			return "<>" + all.shape(goType.Elem())
		}
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + all.shape(goType.Elem())
	case reflect.Map:
		if goType.Key().Kind() != reflect.String {
			break
		}
		return "{}" + all.shape(goType.Elem())
	case reflect.Struct:
		all.add(goType)
		return nameOf(goType)
	}
	log.Fatalf("%s is not provided for", goType)
	return ""
}
