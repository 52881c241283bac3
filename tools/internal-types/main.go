// Writes src/webhooks/v1alpha1/types.txt: the internal types of Kubernetes 1.8, and the fields of the versioned types from which they are
// converted.
//
// Usage: go run . DIRECTORY > ../../src/webhooks/v1alpha1/types.txt
//
// DIRECTORY is the source of k8s.io/kubernetes v1.8.15: the "Dir" that `go mod download -json k8s.io/kubernetes@v1.8.15` prints.
//
// A line is one of:
//
//	kind GROUP/VERSION KIND TYPE
//	type TYPE
//	 WRITTEN[?] READ TYPE
//
// The last form, which begins with a blank, is a field of the type above: its name in the JSON of the internal object, its name in the JSON of the versioned object,
// and its type. "?" means that an empty value is not written. "." as WRITTEN means that the fields of the struct are written in place; "." as
// READ that they are read there. A field that the versioned struct lacks is read by its Go name; a hand-written rule may put a value there.
//
// TYPE is string, int, bool, time, quantity, duration, intstr, bytes, any, or the name of a struct. "*" before a type is a pointer, "&" a
// pointer that is never nil, "[]" a list, "{}" a map.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A versioned package below k8s.io/api, and the internal packages below k8s.io/kubernetes/pkg where its kinds are looked up.
type source struct {
	versioned string
	internal  []string
}

var sources = []source{
	{"core/v1", []string{"api"}},
	{"admissionregistration/v1alpha1", []string{"apis/admissionregistration"}},
	{"apps/v1beta1", []string{"apis/apps", "apis/extensions"}},
	{"apps/v1beta2", []string{"apis/apps", "apis/extensions"}},
	{"authentication/v1", []string{"apis/authentication"}},
	{"authentication/v1beta1", []string{"apis/authentication"}},
	{"authorization/v1", []string{"apis/authorization"}},
	{"authorization/v1beta1", []string{"apis/authorization"}},
	{"autoscaling/v1", []string{"apis/autoscaling"}},
	{"autoscaling/v2beta1", []string{"apis/autoscaling"}},
	{"batch/v1", []string{"apis/batch"}},
	{"batch/v1beta1", []string{"apis/batch"}},
	{"batch/v2alpha1", []string{"apis/batch"}},
	{"certificates/v1beta1", []string{"apis/certificates"}},
	{"extensions/v1beta1", []string{"apis/extensions", "apis/networking"}},
	{"networking/v1", []string{"apis/networking"}},
	{"policy/v1beta1", []string{"apis/policy"}},
	{"rbac/v1", []string{"apis/rbac"}},
	{"rbac/v1alpha1", []string{"apis/rbac"}},
	{"rbac/v1beta1", []string{"apis/rbac"}},
	{"scheduling/v1alpha1", []string{"apis/scheduling"}},
	{"settings/v1alpha1", []string{"apis/settings"}},
	{"storage/v1", []string{"apis/storage"}},
	{"storage/v1beta1", []string{"apis/storage"}},
}

// Kinds of which no admission request has an object.
var noObjects = []string{"DeleteOptions", "ListOptions", "ReplicationControllerDummy"}

// Groups whose name is not the folder's.
var groups = map[string]string{
	"core":                  "",
	"admissionregistration": "admissionregistration.k8s.io",
	"authentication":        "authentication.k8s.io",
	"authorization":         "authorization.k8s.io",
	"certificates":          "certificates.k8s.io",
	"networking":            "networking.k8s.io",
	"rbac":                  "rbac.authorization.k8s.io",
	"scheduling":            "scheduling.k8s.io",
	"settings":              "settings.k8s.io",
	"storage":               "storage.k8s.io",
}

// Types that write themselves.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":   "duration",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "intstr",
	"k8s.io/apimachinery/pkg/runtime.Object":          "any",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":    "any",
	"k8s.io/apimachinery/pkg/runtime.Unknown":         "any",
}

type pkg struct {
	path  string
	types map[string]ast.Expr
	files map[string]*ast.File
}

// A type expression and the place where its names are looked up.
type typ struct {
	pkg  *pkg
	file *ast.File
	expr ast.Expr
}

type field struct {
	name     string
	tag      string
	hasTag   bool
	embedded bool
	omit     bool
	typ      typ
}

type generator struct {
	root string
	pkgs map[string]*pkg
	done map[string]bool
	out  []string
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go run . DIRECTORY")
	}
	g := &generator{root: os.Args[1], pkgs: map[string]*pkg{}, done: map[string]bool{}}
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for _, from := range sources {
		g.kinds(w, from)
	}
	for _, line := range g.out {
		fmt.Fprintln(w, line)
	}
}

// kinds writes the kinds of a versioned package, and collects their types.
func (g *generator) kinds(w *bufio.Writer, from source) {
	versioned := g.load("k8s.io/api/" + from.versioned)
	group, version := path.Split(from.versioned)
	group = strings.TrimSuffix(group, "/")
	if name, ok := groups[group]; ok {
		group = name
	}
	names := []string{}
	for name := range versioned.types {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		isObject := !strings.HasSuffix(name, "List") && !slices.Contains(noObjects, name)
		if !isObject || !g.isKind(versioned, name) {
			continue
		}
		found := false
		for _, in := range from.internal {
			internal := g.load("k8s.io/kubernetes/pkg/" + in)
			if _, ok := internal.types[name]; ok {
				id := g.structure(internal, name, versioned, name)
				fmt.Fprintf(w, "kind %s/%s %s %s\n", group, version, name, id)
				found = true
				break
			}
		}
		if !found {
			log.Printf("no internal type: %s %s", from.versioned, name)
		}
	}
}

func (g *generator) isKind(p *pkg, name string) bool {
	structure, ok := p.types[name].(*ast.StructType)
	if !ok {
		return false
	}
	for _, f := range g.fields(typ{p, p.files[name], structure}) {
		if f.embedded && f.name == "TypeMeta" {
			return true
		}
	}
	return false
}

func (g *generator) load(at string) *pkg {
	if p, ok := g.pkgs[at]; ok {
		return p
	}
	folder := filepath.Join(g.root, "staging/src", at)
	if rest, ok := strings.CutPrefix(at, "k8s.io/kubernetes/"); ok {
		folder = filepath.Join(g.root, rest)
	}
	p := &pkg{at, map[string]ast.Expr{}, map[string]*ast.File{}}
	g.pkgs[at] = p
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) == 0 {
		log.Fatalf("no source of %s: %v", at, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			log.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					p.types[spec.Name.Name] = spec.Type
					p.files[spec.Name.Name] = file
				}
			}
		}
	}
	return p
}

// named returns the package and the name of a named type; no package for a basic type.
func (g *generator) named(t typ) (string, string) {
	switch expr := t.expr.(type) {
	case *ast.Ident:
		if _, ok := t.pkg.types[expr.Name]; ok {
			return t.pkg.path, expr.Name
		}
		return "", expr.Name
	case *ast.SelectorExpr:
		alias := expr.X.(*ast.Ident).Name
		for _, spec := range t.file.Imports {
			at, _ := strconv.Unquote(spec.Path.Value)
			if spec.Name != nil && spec.Name.Name == alias || spec.Name == nil && path.Base(at) == alias {
				return at, expr.Sel.Name
			}
		}
		log.Fatalf("%s: unknown import %s", t.pkg.path, alias)
	}
	return "", ""
}

func (g *generator) fields(t typ) []field {
	var fields []field
	for _, f := range t.expr.(*ast.StructType).Fields.List {
		tag := ""
		if f.Tag != nil {
			text, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(text).Get("json")
		}
		name, options, _ := strings.Cut(tag, ",")
		made := field{tag: name, hasTag: name != "", omit: strings.Contains(options, "omitempty"), typ: typ{t.pkg, t.file, f.Type}}
		if name == "-" {
			continue
		}
		if strings.Contains(options, "string") {
			log.Fatalf("%s: option string", t.pkg.path)
		}
		if len(f.Names) == 0 {
			bare := f.Type
			if star, ok := bare.(*ast.StarExpr); ok {
				bare = star.X
			}
			_, made.name = g.named(typ{t.pkg, t.file, bare})
			made.embedded = true
			fields = append(fields, made)
		}
		for _, name := range f.Names {
			if ast.IsExported(name.Name) {
				made.name = name.Name
				fields = append(fields, made)
			}
		}
	}
	return fields
}

func short(at string) string {
	at = strings.TrimPrefix(at, "k8s.io/api/")
	at = strings.TrimPrefix(at, "k8s.io/kubernetes/pkg/")
	if at == "api" {
		return "core"
	}
	at = strings.TrimPrefix(at, "apis/")
	at = strings.TrimPrefix(at, "k8s.io/apimachinery/pkg/apis/")
	return at
}

// structure returns the name of the pair of structs, and writes it if that is not done yet.
func (g *generator) structure(internal *pkg, name string, versioned *pkg, versionedName string) string {
	id := short(internal.path) + "." + name
	if internal != versioned {
		id += "@" + short(versioned.path)
	}
	if name != versionedName {
		log.Printf("%s is converted from %s", id, versionedName)
		id += "." + versionedName
	}
	if g.done[id] {
		return id
	}
	g.done[id] = true
	lines := []string{"type " + id}
	from := g.fields(typ{versioned, versioned.files[versionedName], versioned.types[versionedName]})
	for _, f := range g.fields(typ{internal, internal.files[name], internal.types[name]}) {
		if f.embedded && f.name == "TypeMeta" {
			continue
		}
		at := slices.IndexFunc(from, func(other field) bool { return other.name == f.name })
		written := f.name
		if f.hasTag {
			written = f.tag
		} else if f.embedded {
			written = "."
		}
		if f.omit {
			written += "?"
		}
		read, t := f.name, ""
		if at < 0 {
			log.Printf("not converted: %s %s", id, f.name)
			// A type of the same name in the versioned package is the form in which a rule puts the value there.
			t = g.typeOf(f.typ, typ{versioned, versioned.files[versionedName], f.typ.expr})
		} else {
			if !from[at].hasTag && from[at].embedded {
				read = "."
			} else if from[at].hasTag {
				read = from[at].tag
			}
			t = g.typeOf(f.typ, from[at].typ)
			from = slices.Delete(from, at, at+1)
		}
		lines = append(lines, fmt.Sprintf(" %s %s %s", written, read, t))
	}
	for _, f := range from {
		if f.name != "TypeMeta" {
			log.Printf("only versioned: %s %s", id, f.name)
		}
	}
	g.out = append(g.out, lines...)
	return id
}

// typeOf describes an internal type that is converted from a versioned one.
func (g *generator) typeOf(internal, versioned typ) string {
	star, isPointer := internal.expr.(*ast.StarExpr)
	from, fromPointer := versioned.expr.(*ast.StarExpr)
	if fromPointer {
		versioned.expr = from.X
	}
	if isPointer {
		internal.expr = star.X
		prefix := "*"
		if _, isMap := g.underlying(versioned).expr.(*ast.MapType); !fromPointer && !isMap {
			prefix = "&"
		}
		return prefix + g.typeOf(internal, versioned)
	}
	switch expr := internal.expr.(type) {
	case *ast.ArrayType:
		if _, name := g.named(typ{internal.pkg, internal.file, expr.Elt}); name == "byte" || name == "uint8" {
			return "bytes"
		}
		versioned = g.underlying(versioned)
		element := typ{versioned.pkg, versioned.file, versioned.expr.(*ast.ArrayType).Elt}
		return "[]" + g.typeOf(typ{internal.pkg, internal.file, expr.Elt}, element)
	case *ast.MapType:
		versioned = g.underlying(versioned)
		element := typ{versioned.pkg, versioned.file, versioned.expr.(*ast.MapType).Value}
		return "{}" + g.typeOf(typ{internal.pkg, internal.file, expr.Value}, element)
	case *ast.InterfaceType:
		return "any"
	}
	at, name := g.named(internal)
	if at == "" {
		return basic(name)
	}
	if known, ok := special[at+"."+name]; ok {
		return known
	}
	p := g.load(at)
	if _, ok := p.types[name].(*ast.StructType); ok {
		versionedAt, versionedName := g.named(versioned)
		if versionedAt == "" {
			log.Printf("not converted from a struct: %s.%s", short(at), name)
			versionedAt, versionedName = at, name
		}
		return g.structure(p, name, g.load(versionedAt), versionedName)
	}
	return g.typeOf(typ{p, p.files[name], p.types[name]}, versioned)
}

// underlying follows names to a list or a map.
func (g *generator) underlying(t typ) typ {
	for {
		at, name := g.named(t)
		if at == "" {
			return t
		}
		p := g.load(at)
		t = typ{p, p.files[name], p.types[name]}
		if _, isStruct := t.expr.(*ast.StructType); isStruct {
			return t
		}
	}
}

func basic(name string) string {
	switch name {
	case "string", "bool":
		return name
	case "int", "int8", "int16", "int32", "int64", "uint", "uint32", "uint64":
		return "int"
	}
	log.Fatalf("unknown type %s", name)
	return ""
}
