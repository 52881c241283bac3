// Writes crates/kubernetes-object/src/defaults/vectors.gz: decoded objects, and the results of kube-apiserver's defaulting functions and of
// its conversions to the internal version and back.
//
//	go run -modfile=../../e2e/assets/go.mod . < manifests.yaml | gzip -9n > ../../crates/kubernetes-object/src/defaults/vectors.gz
//
// With the modules of ../../e2e/newer those of the newer release, for ../../crates/kubernetes-object/tests.
//
// One line for each object, `{"input":OBJECT,"output":OBJECT}`: the manifests on stdin, then random objects of every kind, -count of each.
// The current time is written as `now`. With -check, reads lines of objects instead, and writes them with their outputs, or with the error
// that rejects them.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane"
	"sigs.k8s.io/yaml"
)

const longest = 12000

var schemes = map[string]*runtime.Scheme{
	"apiextensions.k8s.io":   runtime.NewScheme(),
	"apiregistration.k8s.io": runtime.NewScheme(),
}

func schemeOf(group string) *runtime.Scheme {
	if scheme, ok := schemes[group]; ok {
		return scheme
	}
	return legacyscheme.Scheme
}

func main() {
	count := flag.Int("count", 14, "random objects of every kind")
	seed := flag.Uint64("seed", 1, "seed of the random objects")
	check := flag.Bool("check", false, "read objects, one a line")
	flag.Parse()
	apiextensions.Install(schemes["apiextensions.k8s.io"])
	apiregistration.Install(schemes["apiregistration.k8s.io"])

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if *check {
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, 1<<26)
		for lines.Scan() {
			write(out, lines.Bytes(), true)
		}
		return
	}
	manifests, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	for _, manifest := range strings.Split(string(manifests), "\n---\n") {
		text, err := yaml.YAMLToJSON([]byte(manifest))
		if err != nil {
			log.Fatal(err)
		}
		write(out, text, true)
	}
	random := filler{Rand: rand.New(rand.NewPCG(*seed, *seed))}
	for _, kind := range kinds {
		if !schemeOf(kind.Group).Recognizes(kind) {
			continue
		}
		for i := range *count {
			// From empty objects to nearly full ones.
			random.empty = 100 - 90*i/max(1, *count-1)
			if text := random.object(kind); len(text) <= longest {
				write(out, text, false)
			}
		}
	}
}

func write(out io.Writer, text []byte, complain bool) {
	line := map[string]any{}
	input, output, err := through(text)
	switch {
	case err == nil:
		line["input"], line["output"] = input, output
	case complain:
		line["input"], line["error"] = json.RawMessage(text), err.Error()
	default:
		return
	}
	encoded, err := json.Marshal(line)
	if err != nil {
		log.Fatal(err)
	}
	present := regexp.MustCompile(`"` + time.Now().UTC().Format("2006-01-02T") + `[^"]*"`)
	_, _ = out.Write(append(present.ReplaceAll(encoded, []byte(`"now"`)), '\n'))
}

// Returns an object as a webhook sees it: decoded, with defaults, converted to the internal version and back. The first result is the
// object decoded only.
func through(text []byte) (input, output json.RawMessage, err error) {
	var header meta.TypeMeta
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, nil, err
	}
	kind := header.GroupVersionKind()
	scheme := schemeOf(kind.Group)
	codecs := serializer.NewCodecFactory(scheme)
	plain, _, err := codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	internal := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	hub, _, err := codecs.UniversalDecoder(internal).Decode(text, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	versioned, err := scheme.New(kind)
	if err != nil {
		return nil, nil, err
	}
	if err := scheme.Convert(hub, versioned, nil); err != nil {
		return nil, nil, err
	}
	plain.GetObjectKind().SetGroupVersionKind(kind)
	versioned.GetObjectKind().SetGroupVersionKind(kind)
	if input, err = json.Marshal(plain); err != nil {
		return nil, nil, err
	}
	output, err = json.Marshal(versioned)
	return input, output, err
}
