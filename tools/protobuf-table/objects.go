package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"reflect"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

const maxDepth = 12

// Writes one line for each object: the body in base64, and the JSON that encoding/json writes for the decoded object.
func writeObjects(out io.Writer, perKind int, seed uint64) {
	random := filler{rand.New(rand.NewPCG(seed, seed))}
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for _, kind := range registered() {
		if everywhere[kind.Kind] && kind.Group != "" {
			continue
		}
		for range perKind {
			object, err := scheme.Scheme.New(kind)
			if err != nil {
				log.Fatal(err)
			}
			random.fill(reflect.ValueOf(object).Elem(), 0)
			object.GetObjectKind().SetGroupVersionKind(kind)
			if object.GetObjectKind().GroupVersionKind() != kind {
				continue // WatchEvent has no kind
			}
			var body bytes.Buffer
			if err := serializer.Encode(object, &body); err != nil {
				log.Fatal(kind, " ", err)
			}
			decoded, _, err := serializer.Decode(body.Bytes(), nil, nil)
			if err != nil {
				log.Fatal(kind, " ", err)
			}
			decoded.GetObjectKind().SetGroupVersionKind(kind)
			text, err := json.Marshal(decoded)
			if err != nil {
				log.Fatal(kind, " ", err)
			}
			fmt.Fprintf(out, "%s %s\n", base64.StdEncoding.EncodeToString(body.Bytes()), text)
		}
	}
}

type filler struct{ *rand.Rand }

var words = []string{"", "a", "web", "x-1", "é😀", "kube", "<&>", "\"\\\n", "broken\xff\xc3", "bytes\x00"}

var quantities = []string{
	"0", "1", "500m", "0.5", "1.5Gi", "1024Mi", "100Mi", "88614459000", "12e6", "1000m", "1500m", "2k", "2000k", "-1", "-1500m", "1E3",
	"10000000000000000000", "0.0001", "1n", "0.1n", "1.25", "1Ki", "1023", "1024", "1000", "3.0", "+5", "00100", "0Mi", "1536Ki", "100u",
	"0.5Mi", "1e-3", "1.000", "0.1", "123456789.123", "9223372036854775807", "9223372036854775808", "1000000000000000000000k", "5.", ".5",
	"1e9", "1e12", "1E0", "12E-4", "1.5e2", "1P", "1024Pi", "7Ei", "8Ei", "16Ei", "0e3", "-0", "-0.5Ki",
}

var documents = []string{`{"a":1}`, `{}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`, `"text"`, `[1,2.5,null,true]`}

func pick[T any](random filler, from []T) T { return from[random.IntN(len(from))] }

func (random filler) special(value any, depth int) bool {
	switch value := value.(type) {
	case *meta.TypeMeta:
	case *meta.Time:
		*value = meta.NewTime(pick(random, []time.Time{{}, time.Unix(0, 0), time.Unix(random.Int64N(1<<33), 5)}))
	case *meta.MicroTime:
		*value = meta.NewMicroTime(pick(random, []time.Time{{}, time.Unix(random.Int64N(1<<33), random.Int64N(1e9))}))
	case *resource.Quantity:
		*value = resource.MustParse(pick(random, quantities))
		if random.IntN(3) > 0 {
			_ = value.String()
		} else {
			*value = resource.MustParse(fmt.Sprintf("%d%s", random.IntN(1e6), pick(random, []string{"", "m", "k", "Ki", "Mi", "G", "e3"})))
		}
	case *intstr.IntOrString:
		*value = pick(random, []intstr.IntOrString{{}, intstr.FromInt32(random.Int32N(99)), intstr.FromString(pick(random, words))})
	case *runtime.RawExtension:
		if random.IntN(3) > 0 {
			value.Raw = []byte(pick(random, documents))
		}
	case *meta.FieldsV1:
		value.SetRawBytes([]byte(pick(random, documents[:3])))
	case *apiextensions.JSON:
		value.Raw = []byte(pick(random, documents))
	default:
		return false
	}
	return true
}

func (random filler) fill(value reflect.Value, depth int) {
	if value.CanAddr() && random.special(value.Addr().Interface(), depth) {
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		if depth < maxDepth && random.IntN(3) > 0 {
			value.Set(reflect.New(value.Type().Elem()))
			random.fill(value.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			random.fill(value.Field(i), depth+1)
		}
	case reflect.Slice:
		count := random.length(depth)
		if count < 0 {
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), count, count))
		for i := range count {
			random.fill(value.Index(i), depth+1)
		}
	case reflect.Map:
		count := random.length(depth)
		if count < 0 {
			return
		}
		value.Set(reflect.MakeMap(value.Type()))
		for range count {
			entry := reflect.New(value.Type().Elem()).Elem()
			random.fill(entry, depth+1)
			value.SetMapIndex(reflect.ValueOf(pick(random, words[:8])).Convert(value.Type().Key()), entry)
		}
	case reflect.String:
		value.SetString(pick(random, words))
	case reflect.Bool:
		value.SetBool(random.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		value.SetInt(pick(random, []int64{0, 1, -1, 8080, 1 << 31, random.Int64()}))
	case reflect.Uint8:
		value.SetUint(random.Uint64N(256))
	case reflect.Float64:
		value.SetFloat(pick(random, []float64{0, 1, -2.5, 1e300, 1e21, 1e20, 1e-7, 123456789}))
	default:
		log.Fatalf("%s is not provided for", value.Type())
	}
}

// Returns a random length; -1 means nil.
func (random filler) length(depth int) int {
	if depth >= maxDepth {
		return -1
	}
	if depth > 5 {
		return random.IntN(3) - 1
	}
	return random.IntN(4) - 1
}
