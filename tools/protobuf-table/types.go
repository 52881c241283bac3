package main

import (
	"fmt"
	"io"
	"log"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Types that encode themselves, by the names that crates/kubernetes-object/src/typed expects.
var selfCoded = map[reflect.Type]string{
	reflect.TypeFor[runtime.RawExtension](): "raw-extension",
	reflect.TypeFor[meta.FieldsV1]():        "fields-v1",
}

type typeTable struct {
	structs map[string]reflect.Type
	kinds   map[string][]string
}

// Writes one line for each Go struct, followed by one line for each JSON field, sorted by name. Fields of embedded structs are listed in
// the outer struct, with the Go names of the structs that they are embedded in.
func writeTypes(out io.Writer) {
	all := typeTable{map[string]reflect.Type{}, map[string][]string{}}
	types := scheme.Scheme.AllKnownTypes()
	for _, kind := range registered() {
		goType := types[kind]
		all.add(goType)
		name := kind.Group + "/" + kind.Version + "/" + kind.Kind
		if everywhere[kind.Kind] {
			name = "*/*/" + kind.Kind
		}
		known := all.kinds[nameOf(goType)]
		if len(known) == 0 || known[len(known)-1] != name {
			all.kinds[nameOf(goType)] = append(known, name)
		}
	}
	all.add(reflect.TypeFor[apiextensions.JSONSchemaProps]())
	names := make([]string, 0, len(all.structs))
	for name := range all.structs {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintln(out, strings.Join(append([]string{"=", name}, all.kinds[name]...), " "))
		lines := all.fields(all.structs[name], "")
		sort.Strings(lines)
		for i, line := range lines {
			field, _, _ := strings.Cut(line, " ")
			if i > 0 && strings.HasPrefix(lines[i-1], field+" ") {
				log.Fatalf("%s has two fields %s", name, field)
			}
			fmt.Fprintln(out, line)
		}
	}
}

func (all *typeTable) add(goType reflect.Type) {
	name := nameOf(goType)
	if found, ok := all.structs[name]; ok {
		if found != goType {
			log.Fatalf("two types are called %s", name)
		}
		return
	}
	// Go's errors contain the last two parts of the name.
	if !strings.HasSuffix(name, "."+goType.String()) {
		log.Fatalf("%s is called %s", name, goType)
	}
	all.structs[name] = goType
	all.fields(goType, "")
}

func (all *typeTable) fields(goType reflect.Type, embedded string) []string {
	var lines []string
	for i := range goType.NumField() {
		field := goType.Field(i)
		tag, isJSON := field.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" {
			continue
		}
		if field.Anonymous && name == "" {
			if field.Type.Kind() != reflect.Struct {
				log.Fatalf("%s.%s is embedded and no struct", goType, field.Name)
			}
			lines = append(lines, all.fields(field.Type, embedded+field.Name+".")...)
			continue
		}
		if !isJSON || name == "" {
			log.Fatalf("%s.%s has no JSON name", goType, field.Name)
		}
		flags := ""
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty":
				flags += "o"
			case "omitzero":
				flags += "z"
			case "inline", "":
			default:
				log.Fatalf("%s.%s has the option %s", goType, field.Name, option)
			}
		}
		if flags == "" {
			flags = "-"
		}
		line := fmt.Sprintf("%s %s %s", name, all.shape(field.Type), flags)
		if embedded != "" {
			line += " " + strings.TrimSuffix(embedded, ".")
		}
		lines = append(lines, line)
	}
	return lines
}

// Returns the shape of a type: `*` is a pointer, `[]` a list, `{}` a map with the type of its keys inside; the text before `=` is the Go
// name.
func (all *typeTable) shape(goType reflect.Type) string {
	for _, names := range []map[reflect.Type]string{selfCoded, special} {
		if name, ok := names[goType]; ok {
			return name
		}
	}
	prefix := ""
	if goType.Name() != "" && goType.PkgPath() != "" && goType.Kind() != reflect.Struct {
		prefix = goType.String() + "="
	}
	switch goType.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64, reflect.Uint8:
		return prefix + goType.Kind().String()
	case reflect.Int:
		return prefix + "int"
	case reflect.Pointer:
		return "*" + all.shape(goType.Elem())
	case reflect.Slice:
		return prefix + "[]" + all.shape(goType.Elem())
	case reflect.Map:
		key := goType.Key()
		if key.Kind() != reflect.String {
			break
		}
		if key.Name() == "string" {
			return prefix + "{}" + all.shape(goType.Elem())
		}
		return prefix + "{" + key.String() + "}" + all.shape(goType.Elem())
	case reflect.Struct:
		all.add(goType)
		return nameOf(goType)
	}
	log.Fatalf("%s is not provided for", goType)
	return ""
}
