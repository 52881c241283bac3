package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// Values that replace other values.
var junk = []string{
	`null`, `true`, `false`, `""`, `"x"`, `"1"`, `"0"`, `" 1Gi "`, `"0.5"`, `"1e3"`, `"-1.5Gi"`, `"1.5m"`, `0`, `-0`, `1`, `-1`, `1.0`, `1.5`, `0.1`, `1e3`,
	`1E-2`, `2147483647`, `2147483648`, `-2147483649`, `9223372036854775807`, `9223372036854775808`, `18446744073709551616`, `1e21`,
	`123456789.123456789`, `[]`, `{}`, `[null]`, `[1]`, `["a"]`, `[{}]`, `[[]]`, `{"a":null}`, `{"a":"b"}`, `{"a":1}`, `{"a":{}}`, `{"a":[]}`,
	`"2020-01-02T03:04:05Z"`, `"2020-01-02T03:04:05.123456Z"`, `"2020-01-02T03:04:05+02:30"`, `"0001-01-01T00:00:00Z"`, `"2020-02-30T00:00:00Z"`,
	`"YWJj"`, `"YQ"`, `"1Ki"`, `"100m"`, `"80%"`,
}

// Documents with one value of a type that has an UnmarshalJSON.
var templates = [][2]string{
	{"/v1/Pod", `{"metadata":{"creationTimestamp":%s}}`},
	{"/v1/Pod", `{"metadata":{"deletionTimestamp":%s}}`},
	{"/v1/Pod", `{"status":{"conditions":[{"lastProbeTime":%s}]}}`},
	{"coordination.k8s.io/v1/Lease", `{"spec":{"renewTime":%s}}`},
	{"/v1/Event", `{"eventTime":%s}`},
	{"/v1/Pod", `{"spec":{"containers":[{"resources":{"limits":{"cpu":%s}}}]}}`},
	{"/v1/Pod", `{"spec":{"volumes":[{"emptyDir":{"sizeLimit":%s}}]}}`},
	{"/v1/Pod", `{"spec":{"containers":[{"env":[{"valueFrom":{"resourceFieldRef":{"divisor":%s}}}]}]}}`},
	{"/v1/Service", `{"spec":{"ports":[{"targetPort":%s}]}}`},
	{"apps/v1/Deployment", `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":%s}}}}`},
	{"/v1/Secret", `{"data":{"a":%s}}`},
	{"certificates.k8s.io/v1/CertificateSigningRequest", `{"spec":{"request":%s}}`},
	{"apps/v1/ControllerRevision", `{"data":%s}`},
	{"/v1/Pod", `{"metadata":{"managedFields":[{"fieldsV1":%s}]}}`},
	{"/v1/Pod", `{"metadata":%s}`},
	{"/v1/Pod", `{"spec":{"containers":%s}}`},
	{"/v1/Pod", `{"spec":{"nodeSelector":%s}}`},
	{"/v1/Pod", `{"spec":{"volumes":[{"hostPath":%s}]}}`},
	{"/v1/Pod", `{"spec":{"hostNetwork":%s}}`},
	{"/v1/Pod", `{"spec":{"securityContext":{"supplementalGroups":%s}}}`},
	{"/v1/Pod", `{"spec":{"priority":%s}}`},
	{"authentication.k8s.io/v1/TokenReview", `{"status":{"user":{"extra":%s}}}`},
	{"authentication.k8s.io/v1/TokenReview", `{"status":{"user":{"extra":{"a":%s}}}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"default":%s}}}]}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"enum":%s}}}]}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":%s}}}]}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":%s,"x":1}}}}]}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":[{"not":%s},{}]}}}]}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":%s}}}]}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"dependencies":{"a":%s}}}}]}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"maximum":%s}}}]}}`},
	{"apiextensions.k8s.io/v1/CustomResourceDefinition", `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"maxLength":%s}}}]}}`},
}

// Writes one line for each case: the kind, the document, and the result of decoding and encoding it.
func writeCases(out io.Writer, perKind int, seed uint64) {
	random := filler{rand.New(rand.NewPCG(seed, seed))}
	lines := bufio.NewWriter(out)
	for _, template := range templates {
		kind := strings.Split(template[0], "/")
		for _, value := range append(random.texts(perKind), junk...) {
			writeCase(lines, schema.GroupVersionKind{Group: kind[0], Version: kind[1], Kind: kind[2]}, fmt.Sprintf(template[1], value))
		}
	}
	for _, kind := range registered() {
		if everywhere[kind.Kind] && kind.Group != "" {
			continue
		}
		for range perKind {
			object, err := scheme.Scheme.New(kind)
			if err != nil {
				log.Fatal(err)
			}
			random.fill(reflect.ValueOf(object).Elem(), random.IntN(maxDepth-4))
			text, err := json.Marshal(object)
			if err != nil {
				log.Fatal(kind, " ", err)
			}
			if !bytes.Contains(text, []byte("18446744073709551616")) {
				document := parse(json.NewDecoder(bytes.NewReader(text)))
				for range random.IntN(4) {
					random.change(document)
				}
				document.space = random.IntN(5) == 0
				writeCase(lines, kind, document.text())
			}
		}
	}
	if err := lines.Flush(); err != nil {
		log.Fatal(err)
	}
}

func writeCase(out io.Writer, kind schema.GroupVersionKind, document string) {
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		log.Fatal(err)
	}
	result := map[string]any{}
	strict, err := kjson.UnmarshalStrict([]byte(document), object)
	if err != nil {
		result["error"] = err.Error()
	} else {
		if len(strict) > 0 {
			texts := []string{}
			for _, one := range strict {
				texts = append(texts, one.Error())
			}
			result["strict"] = texts
		}
		result["value"] = object
	}
	text, err := json.Marshal(result)
	if err != nil {
		log.Fatal(kind, " ", document, " ", err)
	}
	fmt.Fprintf(out, "%s/%s/%s\t%s\t%s\n", kind.Group, kind.Version, kind.Kind, document, text)
}

// Returns random quantities, times and numbers, as JSON.
func (random filler) texts(count int) []string {
	digits := func(most int) string {
		text := ""
		for range random.IntN(most) {
			text += string("0123456789000"[random.IntN(13)])
		}
		return text
	}
	some := func(of string, most int) string {
		text := ""
		for range random.IntN(most) {
			text += string(of[random.IntN(len(of))])
		}
		return text
	}
	var texts []string
	for range count {
		most := pick(random, []int{3, 6, 20, 40})
		number := pick(random, []string{"", "", "", "-", "+"}) + digits(most) + pick(random, []string{"", "", "."}) + digits(most)
		suffix := pick(random, []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e" + digits(3), "E-" + digits(3), "e+1", "i", "mm"})
		time := []byte("2024-02-29T13:14:15.123456+01:30")
		for range random.IntN(3) {
			time[random.IntN(len(time))] = "0123456789-:.Z+ TX"[random.IntN(18)]
		}
		if random.IntN(3) == 0 {
			time = append(time[:19], pick(random, []string{"Z", "z", "", "Zx", "+0100", "-23:59", "+24:00", ",5Z", ".Z", ".123456789012Z", "\\n", "\\u00e9"})...)
		}
		if random.IntN(6) == 0 {
			time = time[:random.IntN(20)]
		}
		texts = append(texts, `"`+number+suffix+`"`, `"`+string(time)+`"`, `"`+some("aZ09+/=", 9)+`"`)
		literal := pick(random, []string{"", "-"}) + fmt.Sprint(random.IntN(2000)) + pick(random, []string{"", ".0", ".50", "." + digits(9) + "1", "000000", digits(17)}) + pick(random, []string{"", "", "e1", "E3", "e-7", "e+09"})
		texts = append(texts, literal)
	}
	return texts
}

// A JSON value whose fields keep their order, and may be duplicates.
type node struct {
	literal string
	keys    []string
	items   []*node
	// Whether the text has unnecessary spaces and escapes.
	space bool
}

func parse(decoder *json.Decoder) *node {
	decoder.UseNumber()
	token, err := decoder.Token()
	if err != nil {
		log.Fatal(err)
	}
	opening, ok := token.(json.Delim)
	if !ok {
		literal, _ := json.Marshal(token)
		return &node{literal: string(literal)}
	}
	found := &node{literal: opening.String()}
	for decoder.More() {
		if opening == '{' {
			key, _ := decoder.Token()
			found.keys = append(found.keys, key.(string))
		}
		found.items = append(found.items, parse(decoder))
	}
	if _, err := decoder.Token(); err != nil {
		log.Fatal(err)
	}
	return found
}

func (value *node) text() string {
	if value.literal != "{" && value.literal != "[" {
		return value.literal
	}
	parts := make([]string, len(value.items))
	for i, item := range value.items {
		item.space = value.space
		parts[i] = item.text()
		if value.space {
			parts[i] = " " + parts[i] + "  "
		}
		if value.literal == "{" {
			key, _ := json.Marshal(value.keys[i])
			if value.space && len(key) > 2 && key[1] >= 'a' && key[1] <= 'z' {
				key = fmt.Appendf(nil, "\"\\u%04x%s ", key[1], key[2:])
			}
			parts[i] = string(key) + ":" + parts[i]
		}
	}
	return value.literal + strings.Join(parts, ",") + map[string]string{"{": "}", "[": "]"}[value.literal]
}

func (value *node) each(visit func(*node)) {
	visit(value)
	for _, item := range value.items {
		item.each(visit)
	}
}

func (random filler) change(document *node) {
	var all []*node
	document.each(func(one *node) {
		if len(one.items) > 0 {
			all = append(all, one)
		}
	})
	if len(all) == 0 {
		return
	}
	one := pick(random, all)
	at := random.IntN(len(one.items))
	other := parse(json.NewDecoder(strings.NewReader(pick(random, junk))))
	switch {
	case random.IntN(2) == 0:
		one.items[at] = other
	case one.literal == "[":
		one.items = append(one.items, other)
	case random.IntN(3) == 0:
		one.keys = append([]string{one.keys[at]}, one.keys...)
		one.items = append([]*node{other}, one.items...)
	case random.IntN(2) == 0:
		one.keys = append(one.keys, one.keys[at])
		one.items = append(one.items, one.items[at])
	default:
		one.keys = append(one.keys, pick(random, []string{"foo", "Kind", "x.y", "", "é\n\"", one.keys[at] + "s"}))
		one.items = append(one.items, other)
	}
}
